/* layout_counts.c - how often (2), the floor of layout_floor.c, counts each operator and pair. */
#include <math.h>

#include "search/autoddl/layout_floor.h"

/* I1 */
static int32_t slowest_stage(const struct plan *plan)
{
    const struct model *model = plan->model;
    double before = 0, most = -1;
    int32_t at = 0;
    for (int32_t s = 0; s < plan->stages; s++) {
        const struct part *part = &plan->part[s];
        double own = 0;
        for (int64_t i = part->first; i < part->first + part->count; i++) {
            const struct op *op = &model->op[plan->instance[i].op];
            own += op_work(op, op->size, model->dtype, PHASE_FORWARD).flops;
        }
        double all = before + (double)plan_micro_batches(plan) * own;
        at = all >= most ? s : at;
        most = fmax(most, all);
        before += own;
    }
    return at;
}

static const struct layout_uses *uses_between(const struct layout_problem *p, int32_t a, int32_t b)
{
    for (size_t e = 0; e < p->work->edges.len; e++) {
        const struct layout_uses *uses = &p->work->edges.data[e];
        if (uses->a == a && uses->b == b && !uses->tie)
            return uses;
    }
    return NULL;
}

/* Counts instance i if it reads the one before it. */
static void count_pair(struct bound *b, const struct plan *plan, int64_t i, double times)
{
    const struct model *model = plan->model;
    int32_t a = plan->instance[i - 1].op, operand = b->p->work->follows[i];
    const struct op *from = &model->op[a], *to = &model->op[plan->instance[i].op];
    struct pair *pair = &b->pair[a];
    if (operand < 0 || to != from + 1 || b->p->about.hides) /* I3, I6 */
        return;
    bool again = b->p->about.recompute && !plan->ends_layer[i - 1] && op_in_layer(model, from) &&
                 op_in_layer(model, to);
    pair->uses = uses_between(b->p, a, a + 1);
    pair->operand = operand;
    pair->forward += times * (again ? 2 : 1);
    if (op_wants_gradient(from) && to->input_grad)
        pair->back += times;
}

weft_status floor_count_all(struct bound *b)
{
    const struct layout_case *about = &b->p->about;
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_new(about->model, about->cluster, &plan));
    plan->global_batch = about->global_batch;
    plan->step_samples = about->step_samples;
    TRY(plan_map_even(plan, about->stages, 1, NULL));
    int32_t slowest = slowest_stage(plan);
    for (int32_t s = 0; s <= slowest; s++) {
        double times = s == slowest ? (double)plan_micro_batches(plan) : 1;
        int64_t first = plan->part[s].first;
        for (int64_t i = first; i < first + plan->part[s].count; i++) {
            b->passes[plan->instance[i].op] += times;
            b->updates[plan->instance[i].op] += s == 0;
            if (i > first)
                count_pair(b, plan, i, times);
        }
    }
done:
    plan_free(plan);
    return status;
}

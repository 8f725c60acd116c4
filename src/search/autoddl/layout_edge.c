/* layout_edge.c - the cost between the options of two operators: (2) of layout_problem.h. */
#include <math.h>

#include "search/autoddl/layout_room.h"

static double cost_of_reshard(const struct layout_problem *p, const struct layout *from,
                              const struct layout *to, int64_t element_bytes, bool *gathers)
{
    if (layout_equal(from, to))
        return 0;
    const struct reshard *r = reshard_within(p->work->reshards, from, to);
    for (int32_t i = 0; gathers && i < r->steps; i++)
        *gathers |= r->step[i].kind == COLLECTIVE_ALL_GATHER;
    return layout_by_volume(p) ? r->volume : reshard_time(p->work->times, r, element_bytes);
}

/* Joins reshards in the same way as compile/uses.c. */
struct layout_edge layout_use_cost(const struct layout_problem *p, const struct layout_uses *uses,
                                   int32_t operand, int32_t i, int32_t j)
{
    const struct model *model = p->about.model;
    const struct op *from = &model->op[uses->a], *to = &model->op[uses->b];
    const struct operand *input = &to->input[operand];
    const struct layout_laid *a = &p->work->laid[uses->a], *b = &p->work->laid[uses->b];
    struct layout whole = a->output[i], gradient = a->output_grad[i];
    struct layout part = layout_part(model, to, input, &whole);
    struct layout part_gradient = layout_part(model, to, input, &gradient);
    const struct layout *want = &b->input[operand][j], *back = &b->input_grad[operand][j];
    int64_t bytes = element_bytes(input->element, p->about.dtype);
    struct layout_edge cost = {0};
    layout_pad(from, to, input, want->elements, &part);
    layout_pad(from, to, input, want->elements, &part_gradient);
    cost.there = cost_of_reshard(p, &a->output[i], &whole, bytes, &cost.gathers);
    cost.there += cost_of_reshard(p, &part, want, bytes, &cost.gathers);
    if (op_wants_gradient(from) && to->input_grad) {
        cost.back = cost_of_reshard(p, back, &part_gradient, bytes, NULL);
        cost.back += cost_of_reshard(p, &gradient, &a->output_grad[i], bytes, NULL);
    }
    return cost;
}

struct layout_edge layout_edge_cost(const struct layout_problem *p, int32_t edge, int32_t i,
                                    int32_t j)
{
    const struct layout_uses *e = &p->work->edges.data[edge];
    struct layout_edge sum = {0};
    for (size_t u = 0; u < e->list.len; u++) {
        struct layout_edge one = layout_use_cost(p, e, e->list.data[u].operand, i, j);
        sum.there += e->list.data[u].count * one.there;
        sum.back += e->list.data[u].count * one.back;
        sum.gathers |= one.gathers;
    }
    return sum;
}

static bool reads_again(const struct op *op, int32_t operand)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    return operand < (int32_t)COUNT_OF(INPUTS) && (op->keep & INPUTS[operand]);
}

static struct layout_uses_time uses_time(const struct layout_problem *p,
                                         const struct layout_uses *e, int32_t i, int32_t j)
{
    const struct op *to = &p->about.model->op[e->b];
    const struct layout_alone *alone = &p->work->alone[e->b][j];
    bool recompute = p->about.recompute && op_in_layer(p->about.model, to);
    struct layout_uses_time sum = {0};
    for (size_t u = 0; u < e->list.len; u++) {
        const struct layout_use *use = &e->list.data[u];
        struct layout_edge one = layout_use_cost(p, e, use->operand, i, j);
        bool again = one.gathers && reads_again(to, use->operand) && !layout_by_volume(p);
        double factor = p->work->each * use->count, gathered = again ? one.there : 0;
        double beside = factor * (one.back + gathered);
        sum.shown +=
            factor * one.there * (recompute ? 2 : 1) + (layout_is_product(to) ? 0 : beside);
        if (!layout_is_product(to))
            continue;
        sum.hidden += beside;
        sum.left +=
            factor * (fmax(0, gathered - alone->inputs) + fmax(0, one.back - alone->weights));
    }
    return sum;
}

double layout_shown_time(const struct layout_problem *p, const struct layout_uses_time *time)
{
    double exposed = p->work->exposed.reshards;
    return time->shown + (exposed == LAYOUT_BESIDE ? time->left : exposed * time->hidden);
}

/* I3 */
static bool ties_alike(const struct layout_problem *p, const struct layout_uses *e, int32_t i,
                       int32_t j, struct layout own[2], struct layout other[2])
{
    const struct op *owner = &p->about.model->op[e->a], *user = &p->about.model->op[e->b];
    for (int flow = FLOW_FORWARD; flow <= FLOW_GRADIENT; flow++) {
        own[flow] = layout_of(owner, &owner->weight[0].operand, &p->splits[e->a].data[i],
                              p->about.step_samples, (enum flow)flow);
        other[flow] = layout_of(user, &user->weight[0].operand, &p->splits[e->b].data[j],
                                p->about.step_samples, (enum flow)flow);
    }
    return layout_equal(&own[0], &other[0]) && layout_equal(&own[1], &other[1]);
}

static void fill_tie(const struct layout_problem *p, const struct layout_uses *e, int32_t i,
                     int32_t j, double *time, double *memory)
{
    struct layout own[2], other[2];
    struct layout_work *w = p->work;
    struct choice choice = layout_choice(p, e->b, j);
    *time = *memory = 0;
    if (ties_alike(p, e, i, j, own, other))
        return;
    int64_t bytes = policy_gradient_bytes(p->about.policy);
    struct layout_state_times once = layout_state_time(p, &p->about.model->op[e->b], &choice, true);
    *time = w->once * (w->exposed.gradients * once.sync + once.update +
                       cost_of_reshard(p, &own[0], &other[0], bytes, NULL) +
                       cost_of_reshard(p, &other[0], &own[0], bytes, NULL));
    if (plan_choose(w->plan, w->first[e->b], &choice))
        return; /* unchanged since its option was filled in */
    struct stage_memory state = plan_tied_state(w->plan, w->first[e->b]);
    *memory = stage_memory_state(&state);
}

void layout_find_pair(void *context, int32_t edge, int32_t i, int32_t j)
{
    const struct layout_problem *p = context;
    const struct layout_uses *e = &p->work->edges.data[edge];
    const struct assign_edge *to = &p->assign->edge[edge];
    size_t at = (size_t)i * (size_t)p->assign->options[e->b] + (size_t)j;
    if (e->tie) {
        fill_tie(p, e, i, j, &to->time[at], &to->memory[at]);
        return;
    }
    struct layout_uses_time *time = &p->work->found[edge][at];
    *time = uses_time(p, e, i, j);
    to->time[at] = layout_shown_time(p, time);
}

double layout_own_time(const struct layout_problem *p, const struct layout_uses *uses, int32_t i)
{
    struct layout_uses_time time = uses_time(p, uses, i, i);
    return time.shown + time.hidden;
}

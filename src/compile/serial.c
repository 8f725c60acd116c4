/* serial.c - the model as one device would run it: every copy of every operator in turn.
 *
 * The walk keeps, for each tensor, the instance that wrote it last. A repeat's carry is written
 * before its first copy (with the current value of carry_init) and after each of its copies (with
 * the current value of carry_out), so an operator's input is simply what was written last, without
 * any numbering of copies. uses.c finds the same by arithmetic on those numbers.
 */
#include "compile/proof.h"

#include <string.h>

struct serial {
    struct proof *p;
    int64_t *written; /* per tensor: the instance + 1, 0: the model's input */
    int64_t instances;
};

static int32_t storage_of(const struct model *model, int32_t tensor)
{
    while (model->tensor[tensor].view_of >= 0)
        tensor = model->tensor[tensor].view_of;
    return tensor;
}

/* ---- operators ------------------------------------------------------------------------------- */

static int32_t lay(struct proof *p, const struct fact *at, const struct operand *operand,
                   const struct split *split, enum flow flow)
{
    struct layout layout =
        layout_of(at->op, operand, split, plan_samples(p->plan, at->choice), flow);
    return number_layout(p, &layout);
}

static void read_input(struct serial *s, int64_t instance, int32_t k)
{
    struct proof *p = s->p;
    const struct fact *at = &p->fact[instance];
    const struct operand *operand = &at->op->input[k];
    const struct tensor *tensor = &p->model->tensor[operand->tensor];
    int32_t number = (int32_t)p->readings++, last = operand->axes - 1;
    int64_t source = s->written[storage_of(p->model, operand->tensor)] - 1;
    struct reading *r = &p->reading[number];
    *r = (struct reading){.reader = instance, .source = source, .operand = k, .next = -1};
    r->want = lay(p, at, operand, &at->choice->split, FLOW_FORWARD);
    r->back = lay(p, at, operand, choice_split(at->choice, true), FLOW_FORWARD);
    r->gradient = lay(p, at, operand, choice_split(at->choice, true), FLOW_GRADIENT);
    r->part = tensor->axes == operand->axes && tensor->size[last] != operand->size[last];
    if (source < 0)
        return;
    struct fact *from = &p->fact[source];
    r->next = from->readers;
    from->readers = number;
    r->across = from->stage != at->stage ||
                plan_part_is_turned(p->plan, from->part) != plan_part_is_turned(p->plan, at->part);
    r->differentiable = at->op->input_grad && op_wants_gradient(from->op);
    if (r->differentiable) {
        from->gradients += mark_of(number);
        from->gradient_count++;
    }
}

static weft_status visit_op(struct serial *s, int32_t op, int64_t copy)
{
    struct proof *p = s->p;
    const struct plan *plan = p->plan;
    int64_t i = s->instances++;
    if (plan->instance[i].op != op || plan->instance[i].copy != copy)
        return failure("instance %lld of the plan is not what the model runs then", (long long)i);
    struct fact *at = &p->fact[i];
    int32_t part = plan_part_of(plan, i);
    *at = (struct fact){.op = &p->model->op[op],
                        .choice = plan_choice(plan, i),
                        .part = part,
                        .stage = plan_stage_of_part(plan, part),
                        .run = -1,
                        .readers = -1,
                        .bucket = -1,
                        .owner = i};
    at->first_reading = p->readings;
    for (int32_t k = 0; k < at->op->inputs; k++)
        read_input(s, i, k);
    at->output = lay(p, at, &at->op->output, &at->choice->split, FLOW_FORWARD);
    at->output_grad = lay(p, at, &at->op->output, choice_split(at->choice, true), FLOW_GRADIENT);
    s->written[at->op->output.tensor] = i + 1;
    return WEFT_OK;
}

/* ---- modules --------------------------------------------------------------------------------- */

static void carry(struct serial *s, const struct module *m, int32_t from)
{
    if (m->carry_in >= 0)
        s->written[m->carry_in] = s->written[storage_of(s->p->model, from)];
}

static int32_t child_with(const struct model *model, int32_t module, int32_t op)
{
    int32_t child = -1;
    for (int32_t m = model->op[op].module; m != module; m = model->module[m].parent)
        child = m;
    return child;
}

static weft_status visit_module(struct serial *s, int32_t module, int64_t outer_copy)
{
    const struct model *model = s->p->model;
    const struct module *m = &model->module[module];
    weft_status status = WEFT_OK;
    carry(s, m, m->carry_init);
    for (int64_t i = 0; i < m->repeat; i++) {
        int64_t copy = outer_copy * m->repeat + i;
        for (int32_t op = m->first_op; op < m->first_op + m->ops;) {
            int32_t child = child_with(model, module, op);
            TRY(child < 0 ? visit_op(s, op, copy) : visit_module(s, child, copy));
            op += child < 0 ? 1 : model->module[child].ops;
        }
        carry(s, m, m->carry_out);
    }
done:
    return status;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static void find_kept(struct proof *p)
{
    for (int64_t i = 0; i < p->plan->instances; i++) {
        struct fact *at = &p->fact[i];
        struct layout parts;
        bool shares = false;
        for (int32_t r = at->readers; r >= 0; r = p->reading[r].next)
            shares |= p->reading[r].part;
        at->kept = at->output;
        if (at->choice->parts && !shares && !(at->op->keep & KEEP_OUTPUT) &&
            layout_in_parts(&p->layouts.data[at->output], &parts))
            at->kept = number_layout(p, &parts);
    }
}

/* ---- the runs of a layer that are recomputed together ---------------------------------------- */

static void number_runs(struct proof *p)
{
    int32_t run = 0;
    for (int64_t i = 0; i < p->plan->instances; i++) {
        struct fact *at = &p->fact[i];
        bool goes_on =
            i && at[-1].run >= 0 && at[-1].part == at->part && !p->plan->ends_layer[i - 1];
        if (at->choice->recompute)
            at->run = goes_on ? run : ++run;
    }
    bool *saves = ARENA_ARRAY(p->arena, bool, (size_t)run + 1);
    bool early = software_word(&p->plan->software, FACT_CHECKPOINTS) == CHECKPOINTS_EARLY;
    for (int64_t i = 0; i < p->plan->instances; i++)
        if (p->fact[i].run >= 0)
            saves[p->fact[i].run] |= p->fact[i].choice->saved;
    for (int64_t i = 0; i < p->plan->instances; i++)
        p->fact[i].spared = p->fact[i].run >= 0 && (early || saves[p->fact[i].run]);
}

/* A tied weight belongs to the first copy of its owner. */
static void find_owners(struct proof *p)
{
    int64_t *first = ARENA_ARRAY(p->arena, int64_t, (size_t)p->model->ops);
    for (int64_t i = p->plan->instances - 1; i >= 0; i--)
        first[p->plan->instance[i].op] = i;
    for (int64_t i = 0; i < p->plan->instances; i++) {
        const struct op *op = p->fact[i].op;
        if (op->weights && op->weight[0].tied_op >= 0)
            p->fact[i].owner = first[op->weight[0].tied_op];
    }
}

weft_status walk_model(struct proof *p)
{
    size_t instances = (size_t)p->plan->instances, readings = 0;
    struct serial s = {.p = p,
                       .written = ARENA_ARRAY(p->arena, int64_t, (size_t)p->model->tensors)};
    weft_status status;
    for (size_t i = 0; i < instances; i++)
        readings += (size_t)p->model->op[p->plan->instance[i].op].inputs;
    p->fact = ARENA_ARRAY(p->arena, struct fact, instances + 1);
    p->reading = ARENA_ARRAY(p->arena, struct reading, readings);
    TRY(visit_module(&s, 0, 0));
    p->fact[instances].first_reading = p->readings;
    number_runs(p);
    find_owners(p);
    find_kept(p);
done:
    return status;
}

/* uses.c - which instance reads which output: every operand's producer, the layouts on both sides,
 * the reshards between.
 *
 *   I1  A joint depends only on the two operators, their choices and the operand, so copies of a
 *       layer share their joints, and equal reshards are equal pointers.
 *   I2  Views have the layout of their storage: layouts count elements, not axes.
 */
#include "compile/build.h"

#include <string.h>

/* ---- layouts --------------------------------------------------------------------------------- */

/* How inputs that are kept come to the split of the backward pass. */
static void find_turns(struct build *b, struct laid *laid)
{
    static const unsigned INPUTS[] = {KEEP_INPUT_0, KEEP_INPUT_1, KEEP_INPUT_2};
    const struct op *op = laid->op;
    laid->turn = ARENA_ARRAY(b->keep, const struct reshard *, (size_t)op->inputs);
    for (int32_t i = 0; i < op->inputs && i < (int32_t)COUNT_OF(INPUTS); i++) {
        struct layout wanted = layout_of(op, &op->input[i], choice_split(laid->choice, true),
                                         plan_samples(b->plan, laid->choice), FLOW_FORWARD);
        if (op->keep & INPUTS[i] && !layout_equal(&wanted, &laid->input[i]))
            laid->turn[i] = reshard_within(b->graph->reshards, &laid->input[i], &wanted);
    }
}

static struct laid *lay(struct build *b, const struct op *op, const struct choice *choice)
{
    struct laid *laid = ARENA_NEW(b->keep, struct laid);
    int64_t batch = plan_samples(b->plan, choice);
    const struct split *back = choice_split(choice, true);
    laid->op = op;
    laid->choice = choice;
    split_local(op, &choice->split, batch, laid->local);
    split_local(op, back, batch, laid->back);
    laid->input = ARENA_ARRAY(b->keep, struct layout, (size_t)op->inputs);
    laid->input_grad = ARENA_ARRAY(b->keep, struct layout, (size_t)op->inputs);
    for (int32_t i = 0; i < op->inputs; i++) {
        laid->input[i] = layout_of(op, &op->input[i], &choice->split, batch, FLOW_FORWARD);
        laid->input_grad[i] = layout_of(op, &op->input[i], back, batch, FLOW_GRADIENT);
    }
    laid->output = layout_of(op, &op->output, &choice->split, batch, FLOW_FORWARD);
    laid->output_grad = layout_of(op, &op->output, back, batch, FLOW_GRADIENT);
    find_turns(b, laid);
    find_halos(b->keep, laid);
    return laid;
}

static struct laid *find_laid(struct build *b, int64_t instance)
{
    const struct plan *plan = b->plan;
    int32_t op = plan->instance[instance].op;
    struct laid **slot = &b->laid[(int64_t)op * plan->choices + plan->choice_of[instance]];
    if (!*slot)
        *slot = lay(b, &plan->model->op[op], &plan->choice[plan->choice_of[instance]]);
    return *slot;
}

/* ---- joints ---------------------------------------------------------------------------------- */

struct crossing_samples joint_samples(const struct plan *plan, const struct joint *joint,
                                      bool backward)
{
    const struct laid *from = backward ? joint->to : joint->from;
    const struct laid *to = backward ? joint->from : joint->to;
    int64_t sends = plan_samples(plan, from->choice), takes = plan_samples(plan, to->choice);
    return (struct crossing_samples){sends, takes, common_divisor(sends, takes)};
}

/* NULL if there is nothing to do; across stages there always is. */
static const struct reshard *reshard(struct build *b, const struct layout *from,
                                     const struct layout *to, bool across)
{
    const struct reshard *r =
        across ? reshard_between(b->graph->reshards, from, to, !b->plan->whole_sends)
               : reshard_within(b->graph->reshards, from, to);
    return r->steps || across ? r : NULL;
}

/* What sends, between stages that may not take equally many samples at once. */
static const struct reshard *crossing(struct build *b, const struct joint *j, bool backward,
                                      const struct layout *from, const struct layout *to)
{
    struct crossing_samples n = joint_samples(b->plan, j, backward);
    if (n.from == n.to)
        return reshard(b, from, to, j->across);
    return reshard_joining(b->graph->reshards, from, to, &n);
}

/* The producer's layout of the whole tensor becomes one that keeps shares whole; from it, the part
 * is brought to its reader. Gradients go the other way round. */
static void join(struct build *b, struct joint *j)
{
    const struct model *model = b->plan->model;
    const struct op *op = j->to->op;
    const struct operand *operand = &op->input[j->operand];
    struct layout whole = j->from->output, gradient = j->from->output_grad;
    struct layout part = layout_part(model, op, operand, &whole);
    struct layout part_gradient = layout_part(model, op, operand, &gradient);
    j->part = part.elements != whole.elements;
    int64_t elements = j->to->input[j->operand].elements;
    if (plan_samples(b->plan, j->from->choice) == plan_samples(b->plan, j->to->choice)) {
        layout_pad(j->from->op, op, operand, elements, &part);
        layout_pad(j->from->op, op, operand, elements, &part_gradient);
    }
    j->forward[0] = reshard(b, &j->from->output, &whole, false);
    j->forward[1] = crossing(b, j, false, &part, &j->to->input[j->operand]);
    j->backward[0] = crossing(b, j, true, &j->to->input_grad[j->operand], &part_gradient);
    j->backward[1] = reshard(b, &gradient, &j->from->output_grad, false);
}

static struct joint *find_joint(struct build *b, const struct laid *from, struct laid *to,
                                int32_t operand, bool across)
{
    for (struct joint *j = to->joints; j; j = j->next)
        if (j->from == from && j->operand == operand && j->across == across)
            return j;
    struct joint *j = ARENA_NEW(b->keep, struct joint);
    *j = (struct joint){
        .from = from, .to = to, .operand = operand, .across = across, .next = to->joints};
    join(b, j);
    to->joints = j;
    return j;
}

/* ---- uses ------------------------------------------------------------------------------------ */

static bool same_way(const struct joint *a, const struct joint *b, bool forward)
{
    const struct reshard *const *x = forward ? a->forward : a->backward;
    const struct reshard *const *y = forward ? b->forward : b->backward;
    /* keys and values have the same layout and are different tensors */
    bool parts = a->part || b->part;
    return x[0] == y[0] && x[1] == y[1] && a->across == b->across && !parts;
}

/* The earliest use of the same source in the reader's part that needs the same reshards. */
static int32_t leader_of(const struct build *b, int32_t use, bool forward)
{
    int32_t leader = use, part = b->part_of[b->use[use].reader];
    for (int32_t u = b->use[use].next; u >= 0; u = b->use[u].next)
        if (b->part_of[b->use[u].reader] == part &&
            same_way(b->use[u].joint, b->use[use].joint, forward))
            leader = u;
    return leader;
}

static void add_use(struct build *b, int64_t reader, int32_t operand)
{
    const struct plan *plan = b->plan;
    struct laid *to = find_laid(b, reader);
    int64_t source =
        instance_source(&b->index, &plan->instance[reader], to->op->input[operand].tensor);
    int32_t u = b->uses++;
    struct use *use = &b->use[u];
    *use = (struct use){reader, source, operand, NULL, u, u, -1};
    if (source < 0)
        return;
    int32_t from = b->part_of[source], part = b->part_of[reader];
    bool across = parts_are_apart(b, from, part);
    use->joint = find_joint(b, find_laid(b, source), to, operand, across);
    use->next = b->last_use[source];
    b->last_use[source] = u;
    use->same_forward = leader_of(b, u, true);
    use->same_backward = leader_of(b, u, false);
    if (across && (use->same_forward == u || use->same_backward == u)) {
        struct crossing crossing = {u, from, part, b->crossing_of[source] - 1};
        array_push(b->scratch, &b->crossings, crossing);
        b->crossing_of[source] = (int32_t)b->crossings.len;
    }
}

static void index_instances(struct build *b)
{
    const struct plan *plan = b->plan;
    b->index = plan_index(b->scratch, plan);
    b->part_of = ARENA_ARRAY(b->keep, int32_t, (size_t)plan->instances);
    for (int32_t part = 0; part < plan->parts; part++)
        for (int64_t i = 0; i < plan->part[part].count; i++)
            b->part_of[plan->part[part].first + i] = part;
}

void find_uses(struct build *b)
{
    const struct plan *plan = b->plan;
    int64_t uses = 0;
    b->laid = ARENA_ARRAY(b->keep, struct laid *, (size_t)plan->model->ops * (size_t)plan->choices);
    index_instances(b);
    b->use_first = ARENA_ARRAY(b->keep, int64_t, (size_t)plan->instances + 1);
    for (int64_t i = 0; i < plan->instances; i++) {
        uses += plan->model->op[plan->instance[i].op].inputs;
        b->use_first[i + 1] = uses;
    }
    b->use = ARENA_ARRAY(b->keep, struct use, (size_t)uses);
    b->crossing_of = ARENA_ARRAY(b->scratch, int32_t, (size_t)plan->instances);
    b->last_use = ARENA_ARRAY(b->keep, int32_t, (size_t)plan->instances);
    memset(b->last_use, -1, (size_t)plan->instances * sizeof *b->last_use);
    for (int64_t i = 0; i < plan->instances; i++) {
        find_laid(b, i);
        for (int32_t k = 0; k < plan->model->op[plan->instance[i].op].inputs; k++)
            add_use(b, i, k);
    }
    find_parts(b);
}

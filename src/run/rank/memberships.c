/* memberships.c - the part of each operator that this device computes, and the groups that this rank is a
 * member of.
 *
 *   first index of a dim = value of its digits, outermost first, * local size                    (1)
 *
 *   I1  Groups are made in the order of the graph's tasks, then of instances, which is the same on all members.
 */
#include "run/rank/borders.h"
#include "run/rank/matrices.h"

#include <string.h>

/* Dims over whose devices a kernel sums in the middle (kernels.h, I3): bits of enum dim. */
static const unsigned SUMS[OP_KIND_COUNT] = {
    [OP_LOSS] = 1U << DIM_VOCAB,
    [OP_ATTENTION] = 1U << DIM_KV,
    [OP_BATCH_NORM] = 1U << DIM_BATCH | 1U << DIM_HEIGHT | 1U << DIM_WIDTH,
};

/* ---- local_ops ----------------------------------------------------------------------------------- */

/* Each part of the split: this device's value of it. */
static void digits_of(const struct split *split, int64_t device, int64_t *value)
{
    for (int32_t i = split->parts - 1; i >= 0; i--) {
        value[i] = device % split->part[i].degree;
        device /= split->part[i].degree;
    }
}

static void sit(struct rank *r, int64_t instance, bool backward, struct local_op *local_op)
{
    const struct split *split = choice_split(local_op->laid->choice, backward);
    const struct op *op = local_op->laid->op;
    int64_t value[MAX_SPLIT_PARTS];
    local_op->place = plan_place(r->plan, r->graph->uses->part_of[instance], r->device);
    digits_of(split, local_op->place, value);
    memcpy(local_op->size, backward ? local_op->laid->back : local_op->laid->local,
           sizeof local_op->size);
    op_full_size(op, plan_samples(r->plan, local_op->laid->choice), local_op->whole);
    local_op->counts = true;
    for (int32_t i = split_is_subset(split); i < split->parts; i++) {
        int dim = split->part[i].dim == SPLIT_COPY
                      ? -1
                      : op_find_dim(op->kind, (enum dim)split->part[i].dim);
        if (dim < 0)
            local_op->counts &= value[i] == 0;
        else
            local_op->begin[dim] = local_op->begin[dim] * split->part[i].degree + value[i];
    }
    local_op->adds_once = true;
    for (int dim = 0; dim < op_dims(op->kind); dim++) {
        if (OP_KINDS[op->kind].dims[dim].role == ROLE_REDUCE)
            local_op->adds_once &= local_op->begin[dim] == 0;
        local_op->begin[dim] *= local_op->size[dim]; /* (1) */
    }
    int32_t number = (int32_t)(op - r->plan->model->op);
    local_op->fp8 = op_dtype(r->plan->model, number, r->plan->dtype) == DTYPE_FP8;
    struct arena *scratch = arena_new();
    const char *path = plan_path(scratch, r->plan, instance);
    local_op->path_hash = hash_bytes(path, strlen(path), r->options->seed);
    arena_free(scratch);
}

/* The same of a backward pass that is split another way. */
static void sit_back(struct rank *r, int64_t instance)
{
    struct local_op *back = ARENA_NEW(r->arena, struct local_op);
    *back = (struct local_op){.laid = r->local_op[instance].laid, .sums = -1};
    sit(r, instance, true, back);
    r->local_op[instance].back = back;
}

/* ---- logits in padded rows (kernels.h, pitch) ------------------------------------------------- */

/* Whether a tensor goes from its operator to its reader as it is, and to nobody else. */
static bool goes_straight(const struct rank *r, int64_t u)
{
    const struct graph_uses *uses = r->graph->uses;
    const struct use *use = &uses->use[u];
    const struct joint *j = use->joint;
    if (use->source < 0 || j->across || j->part || uses->last_use[use->source] != u ||
        use->next >= 0)
        return false;
    for (int i = 0; i < 2; i++)
        if ((j->forward[i] && j->forward[i]->steps) || (j->backward[i] && j->backward[i]->steps))
            return false;
    return layout_equal(&j->from->output, &j->to->input[j->operand]) &&
           layout_equal(&j->from->output_grad, &j->to->input_grad[j->operand]);
}

static void find_pitch(struct rank *r, struct local_op *loss, struct local_op *from)
{
    const struct op *op = from->laid->op;
    int64_t rows = loss->size[0] * loss->size[1], columns = loss->size[2];
    loss->overwrites = (loss->laid->op->keep & (KEEP_INPUT_0 | KEEP_APART)) == KEEP_INPUT_0;
    if (op->kind == OP_LINEAR && op->weights == 1 && !from->back &&
        op->output.element == ELEMENT_COMPUTE && from->size[3] == columns &&
        from->size[0] * from->size[1] == rows)
        loss->pitch = from->pitch = logits_pitch(stored_as(r, ELEMENT_COMPUTE), rows, columns);
}

static void find_pitches(struct rank *r)
{
    const struct graph_uses *uses = r->graph->uses;
    for (int64_t i = 0; i < r->instances && r->options->kernels->pads_logits; i++) {
        struct local_op *loss = &r->local_op[i];
        int64_t u = uses->use_first[i];
        if (loss->laid->op->kind == OP_LOSS && loss->size[0] && goes_straight(r, u))
            find_pitch(r, loss, &r->local_op[uses->use[u].source]);
    }
}

/* ---- all of them -------------------------------------------------------------------------------- */

/* Whether gradients of weights are made in passes of their own. */
static bool has_weight_passes(const struct graph *graph)
{
    bool has = false;
    for (int32_t i = 0; i < graph->blocks; i++)
        has |= graph->block[i].kind == SLOT_BACKWARD_WEIGHT;
    return has;
}

static weft_status check_local_op(const struct rank *r, int64_t instance, const struct laid *laid)
{
    const char *why = NULL;
    struct arena *scratch = arena_new();
    const char *path = plan_path(scratch, r->plan, instance);
    weft_status status = WEFT_OK;
    if (laid->op->inputs > CALL_INPUTS)
        TRY(bad_argument(NULL, "%s has %d inputs, expected at most %d", path, laid->op->inputs,
                         CALL_INPUTS));
    if (laid->op->sinks && laid->choice->shard == 3 && has_weight_passes(r->graph))
        TRY(bad_argument("use a schedule whose backward passes are whole, or shard 2",
                         "%s: its sinks are read where gradients of weights are made, and are not "
                         "gathered there",
                         path));
    if (!r->options->kernels->has(laid->op, &why))
        TRY(bad_argument("this model can be planned and simulated, not run", "%s: %s", path, why));
done:
    arena_free(scratch);
    return status;
}

bool has_instance(const struct rank *r, int64_t instance)
{
    return plan_stage_of_part(r->plan, r->graph->uses->part_of[instance]) == r->stage &&
           plan_place_has(r->plan, instance, r->device);
}

weft_status find_local_ops(struct rank *r)
{
    weft_status status = WEFT_OK;
    r->local_op = ARENA_ARRAY(r->arena, struct local_op, (size_t)r->instances);
    for (int64_t i = 0; i < r->instances; i++) {
        r->local_op[i].laid = graph_laid(r->graph, i);
        r->local_op[i].sums = -1;
        TRY(check_local_op(r, i, r->local_op[i].laid));
        if (has_instance(r, i))
            sit(r, i, false, &r->local_op[i]);
        if (has_instance(r, i) && r->local_op[i].laid->choice->own_back)
            sit_back(r, i);
    }
    find_pitches(r);
done:
    return status;
}

/* ---- groups ---------------------------------------------------------------------------------- */

weft_status group_for(struct rank *r, const int32_t *member, int32_t count, int32_t channel,
                      int32_t *out)
{
    for (size_t i = 0; i < r->pool.len; i++) {
        const struct pooled *p = &r->pool.data[i];
        if (p->count == count && p->channel == channel &&
            memcmp(p->member, member, (size_t)count * sizeof *member) == 0) {
            *out = p->group;
            return WEFT_OK;
        }
    }
    struct pooled made = {ARENA_ARRAY(r->arena, int32_t, (size_t)count), count, channel, -1};
    memcpy(made.member, member, (size_t)count * sizeof *member);
    weft_status status =
        r->transport->kind->group(r->transport, member, count, channel, &made.group);
    if (status != WEFT_OK)
        return status;
    array_push(r->arena, &r->pool, made);
    *out = made.group;
    return WEFT_OK;
}

/* The group of an exchange, as ranks. */
static int32_t *ranks_of(struct arena *keep, const struct group *group)
{
    int32_t *member = ARENA_ARRAY(keep, int32_t, (size_t)group_size(group));
    for (int64_t i = 0; i < group_size(group); i++)
        member[i] = (int32_t)group_device(group, i);
    return member;
}

/* One group per exchange and stream: exchanges of one number are of one group. */
static weft_status make_task_groups(struct rank *r, struct arena *scratch)
{
    const struct graph *graph = r->graph;
    int32_t *known = ARENA_ARRAY(scratch, int32_t, (size_t)graph->exchanges *STREAM_COUNT);
    weft_status status = WEFT_OK;
    memset(known, -1, (size_t)graph->exchanges * STREAM_COUNT * sizeof *known);
    for (int32_t i = 0; i < r->program.jobs; i++) {
        struct job *job = &r->program.job[i];
        const struct task *task = &graph->task[job->task];
        if (task->exchange < 0 || job->kind == JOB_NOTHING ||
            graph->exchange[task->exchange].kind != EXCHANGE_COLLECTIVE ||
            graph->exchange[task->exchange].collective == COLLECTIVE_SEND)
            continue;
        const struct exchange *e = &graph->exchange[task->exchange];
        struct group group = pattern_group(&graph->pattern[e->pattern], e->group);
        int32_t *at = &known[task->exchange * STREAM_COUNT + task->stream];
        if (*at < 0)
            TRY(group_for(r, ranks_of(scratch, &group), (int32_t)group_size(&group), task->stream,
                          at));
        job->group = *at;
    }
done:
    return status;
}

/* The devices of this stage that differ from this one in these dims' digits only. */
static int32_t members_of_sum(const struct rank *r, const struct local_op *local_op,
                              int32_t *member)
{
    const struct split *split = &local_op->laid->choice->split;
    int64_t devices = r->plan->stage[r->stage].devices;
    int64_t own[MAX_SPLIT_PARTS], other[MAX_SPLIT_PARTS];
    int32_t count = 0;
    digits_of(split, r->device, own);
    for (int64_t d = 0; d < devices; d++) {
        bool in = true;
        digits_of(split, d, other);
        for (int32_t i = 0; i < split->parts; i++)
            in &= other[i] == own[i] || (split->part[i].dim < SPLIT_COPY &&
                                         SUMS[local_op->laid->op->kind] >> split->part[i].dim & 1);
        if (in)
            member[count++] = (int32_t)(r->plan->stage[r->stage].first_device + d);
    }
    return count;
}

static weft_status make_sum_groups(struct rank *r, struct arena *scratch)
{
    int32_t *member = ARENA_ARRAY(scratch, int32_t, (size_t)r->plan->stage[r->stage].devices);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < r->instances; i++) {
        struct local_op *local_op = &r->local_op[i];
        bool here = has_instance(r, i);
        if (here)
            TRY(find_border(r, local_op));
        if (!here || !SUMS[local_op->laid->op->kind])
            continue;
        int32_t count = members_of_sum(r, local_op, member);
        if (count > 1)
            TRY(group_for(r, member, count, STREAM_COMPUTE, &local_op->sums));
    }
done:
    return status;
}

/* With a transport that matches by order: a group of sender and receiver (transport.h, I6). */
static weft_status make_pairs(struct rank *r)
{
    const struct graph *graph = r->graph;
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < r->program.jobs && runs_in_order(r); i++) {
        struct job *job = &r->program.job[i];
        if (job->kind != JOB_SEND && job->kind != JOB_RECEIVE)
            continue;
        const struct exchange *e = &graph->exchange[graph->task[job->task].exchange];
        struct group pair = pattern_group(&graph->pattern[e->pattern], e->group);
        int32_t member[] = {(int32_t)group_device(&pair, 0), (int32_t)group_device(&pair, 1)};
        TRY(group_for(r, member, COUNT_OF(member), job->stream, &job->group));
    }
done:
    return status;
}

weft_status make_groups(struct rank *r)
{
    struct arena *scratch = arena_new();
    int32_t *all = ARENA_ARRAY(scratch, int32_t, (size_t)r->transport->ranks);
    weft_status status;
    for (int32_t i = 0; i < r->transport->ranks; i++)
        all[i] = i;
    TRY(make_task_groups(r, scratch));
    TRY(make_pairs(r));
    TRY(make_sum_groups(r, scratch));
    TRY(make_stage_group(r));
    TRY(group_for(r, all, r->transport->ranks, STREAM_COUNT, &r->world));
done:
    arena_free(scratch);
    return status;
}

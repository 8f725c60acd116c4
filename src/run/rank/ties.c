/* ties.c - gradients of a weight that several operators use and hold copies of.
 *
 *   gradient of every copy = sum over the copies                                                  (1)
 *
 * Two copies that lie alike on two stages are summed by the graph's tasks, device by device; on one
 * stage, where they are. All others go through the whole weight's gradient, to which every element
 * is added by one of the devices that have it:
 *
 *   I1  Before (1) each copy's gradients are complete: all micro-batches, all devices (graph.h, I5).
 *   I2  All devices of the copies' stages take part, in the order of the owners, before their steps.
 */
#include "run/rank/room.h"

#include <string.h>

enum tie_kind { TIE_HERE, TIE_PAIRS, TIE_WHOLE };

struct tie {
    enum tie_kind kind;
    int64_t *copy; /* instances, the owner first */
    int32_t copies;
    int32_t group; /* of TIE_WHOLE, -1: this rank alone */
};

static int32_t stage_of(const struct rank *r, int64_t instance)
{
    return plan_stage_of_part(r->plan, r->graph->uses->part_of[instance]);
}

static bool is_here(const struct rank *r, int64_t instance)
{
    return stage_of(r, instance) == r->stage;
}

static struct tie tie_of(struct rank *r, int64_t owner)
{
    struct tie tie = {.group = -1};
    tie.copy = ARENA_ARRAY(r->arena, int64_t, (size_t)r->instances);
    tie.copy[tie.copies++] = owner;
    for (int64_t i = 0; i < r->instances; i++)
        if (i != owner && plan_weight_owner(r->plan, i) == owner && plan_holds_weights(r->plan, i))
            tie.copy[tie.copies++] = i;
    bool two = tie.copies == 2 && plan_weights_alike(r->plan, owner, tie.copy[1]);
    if (!two)
        tie.kind = TIE_WHOLE;
    else
        tie.kind = stage_of(r, owner) == stage_of(r, tie.copy[1]) ? TIE_HERE : TIE_PAIRS;
    return tie;
}

static bool takes_part(const struct rank *r, const struct tie *tie, int32_t stage)
{
    bool part = false;
    for (int32_t i = 0; i < tie->copies; i++)
        part |= stage_of(r, tie->copy[i]) == stage;
    return part;
}

/* I2 */
static weft_status make_group(struct rank *r, struct tie *tie, struct arena *scratch)
{
    int32_t *member = ARENA_ARRAY(scratch, int32_t, (size_t)r->transport->ranks), count = 0;
    for (int32_t s = 0; s < r->plan->stages; s++)
        for (int64_t d = 0; takes_part(r, tie, s) && d < r->plan->stage[s].devices; d++)
            member[count++] = (int32_t)(r->plan->stage[s].first_device + d);
    return count > 1 ? group_for(r, member, count, STREAM_COMPUTE, &tie->group) : WEFT_OK;
}

weft_status find_ties(struct rank *r)
{
    struct arena *scratch = arena_new();
    weft_status status = WEFT_OK;
    r->tie = ARENA_ARRAY(r->arena, struct tie, (size_t)r->instances);
    for (int64_t i = 0; i < r->instances; i++) {
        if (!op_trains(r->local_op[i].laid->op) || plan_weight_owner(r->plan, i) != i)
            continue;
        struct tie tie = tie_of(r, i);
        if (tie.copies == 1 || !takes_part(r, &tie, r->stage))
            continue;
        if (tie.kind == TIE_WHOLE)
            TRY(make_group(r, &tie, scratch));
        r->tie[r->ties++] = tie;
    }
done:
    arena_free(scratch);
    return status;
}

static int32_t weight_at(const struct rank *r, int64_t instance)
{
    return r->weight_of[instance * MAX_KIND_WEIGHTS];
}

/* ---- by the graph's tasks -------------------------------------------------------------------- */

bool tie_begin(struct rank *r, struct errand *w)
{
    const struct job *job = &r->program.job[w->job];
    int64_t user = r->graph->task[job->task].reader;
    for (int32_t i = 0; i < r->ties; i++) {
        const struct tie *tie = &r->tie[i];
        if (tie->kind != TIE_PAIRS || tie->copy[1] != user)
            continue;
        int64_t own = is_here(r, user) ? user : tie->copy[0];
        w->transfer = (struct transfer){.kind = TRANSFER_ALL_REDUCE, .group = job->group};
        w->transfer.to = gradient_part(r, weight_at(r, own), &w->transfer.count);
        w->transfer.from = w->transfer.to;
        return w->transfer.count > 0;
    }
    return false;
}

/* ---- by the executor ------------------------------------------------------------------------- */

static void tie_here(struct rank *r, const struct tie *tie)
{
    int64_t count;
    float *a = gradient_part(r, weight_at(r, tie->copy[0]), &count);
    float *b = gradient_part(r, weight_at(r, tie->copy[1]), &count);
    rank_device(r)->add(r->work, DTYPE_FP32, b, count, a);
    rank_device(r)->copy(r->work, COPY_ON_DEVICE, b, a, count * (int64_t)sizeof *a);
}

/* Whether this device is the first of those that have the same of it. */
static bool is_first(const struct rank *r, const struct held_weight *held)
{
    int64_t mesh = 1;
    for (int64_t i = held->layout.digits - 1; i >= 0; i--) {
        int64_t degree = held->layout.digit[i].degree;
        if (held->layout.digit[i].hold == HOLD_COPY && r->device / mesh % degree)
            return false;
        mesh *= degree;
    }
    return true;
}

/* The elements of a copy's gradients that this device answers for, into the whole or out of it; the whole
 * is in the host's memory. */
static void exchange_copy(struct rank *r, int64_t instance, float *whole, bool out)
{
    const struct held_weight *held = &r->weight[weight_at(r, instance)];
    const struct store *s = &r->store[held->store];
    int64_t count, first = s->shard ? s->member * held->share : 0;
    float *part = gradient_part(r, weight_at(r, instance), &count);
    if (!out && !s->shard && !is_first(r, held))
        return;
    struct host_view view =
        host_view(rank_device(r), r->work, part, count * (int64_t)sizeof *part, true);
    float *gradient = view.at;
    if (!gradient)
        memory_ran_out((size_t)count * sizeof *part);
    for (int64_t i = 0; i < count; i++) {
        int64_t element = layout_element(&held->layout, r->device, first + i);
        if (element >= held->elements)
            continue; /* padding */
        if (out)
            gradient[i] = whole[element];
        else
            whole[element] += gradient[i];
    }
    host_view_end(rank_device(r), r->work, &view, out);
}

static void tie_whole(struct rank *r, const struct tie *tie)
{
    const struct operand *operand = &r->local_op[tie->copy[0]].laid->op->weight[0].operand;
    int64_t elements = 1;
    for (int axis = 0; axis < operand->axes; axis++)
        elements *= operand->size[axis];
    float *whole = floats_counted(r, MEMORY_WORKSPACE, elements);
    for (int out = 0; out < 2; out++) {
        struct host_view view =
            host_view(rank_device(r), r->work, whole, elements * (int64_t)sizeof *whole, true);
        if (!view.at)
            memory_ran_out((size_t)elements * sizeof *whole);
        for (int32_t i = 0; i < tie->copies; i++)
            if (is_here(r, tie->copy[i]))
                exchange_copy(r, tie->copy[i], view.at, out);
        host_view_end(rank_device(r), r->work, &view, !out);
        if (!out && tie->group >= 0)
            ask_sum(r, tie->group, REDUCE_SUM, whole, elements);
    }
    floats_free(r, MEMORY_WORKSPACE, whole, elements);
}

void tie_rest(struct rank *r)
{
    for (int32_t i = 0; i < r->ties; i++) {
        if (r->tie[i].kind == TIE_HERE)
            tie_here(r, &r->tie[i]);
        else if (r->tie[i].kind == TIE_WHOLE)
            tie_whole(r, &r->tie[i]);
    }
}

bool tied_by_task(const struct rank *r, int64_t user)
{
    for (int32_t i = 0; i < r->ties; i++)
        if (r->tie[i].kind == TIE_PAIRS && r->tie[i].copy[1] == user)
            return true;
    return false;
}

/* exchanges.c - the collectives of a stage's groups: steps of reshards, gradients, weights.
 *
 *   gradients  a bucket's synchronisation starts when the last micro-batch has completed it; with
 *              shard 2 and 3 when any micro-batch has
 *   weights    with shard 3 gathered before each pass of a bucket, while the one before it is
 *              used; with shard 1 and 2 once, after the optimizer's step (graph.h, I5)
 *
 * What a folded schedule (aiao) leaves of a bucket's gradients is synchronised in the next iteration, while the piece before
 * computes (slices.c).
 */
#include "compile/assembly.h"

/* ---- groups ---------------------------------------------------------------------------------- */

struct task plain_task(enum stream_kind stream, int32_t micro_batch)
{
    return (struct task){.stream = (uint8_t)stream,
                         .purpose = PURPOSE_DATA,
                         .block = NONE,
                         .exchange = NONE,
                         .micro_batch = micro_batch,
                         .about = NONE,
                         .reader = NONE};
}

static void wait_for_member(struct assembly *a, int32_t task, const struct mark *mark,
                            enum after after)
{
    if (after == AFTER_RUN || after == AFTER_BLOCK)
        wait_for(a, task, mark->last[STREAM_COMPUTE]);
    if (after == AFTER_BLOCK)
        wait_for_steps(a, task, mark);
    if (after == AFTER_UNIT) {
        wait_for(a, task, mark->before_unit[0]);
        wait_for(a, task, mark->before_unit[1]);
    }
}

int32_t add_exchange(struct assembly *a, struct task task, int32_t pattern,
                     enum collective collective, int64_t bytes, enum after after)
{
    const struct pattern *p = &a->b->patterns.data[pattern];
    int32_t first_exchange =
        intern_exchange(a->b, pattern, collective, bytes, (enum purpose)task.purpose);
    int64_t groups = a->graph->folded ? 1 : pattern_groups(p);
    int32_t first = (int32_t)a->tasks.len;
    for (int64_t g = 0; g < groups; g++) {
        struct group group = pattern_group(p, g);
        int64_t members = a->graph->folded ? 1 : group_size(&group);
        int32_t lead = graph_device(a, a->stage, group_device(&group, 0));
        task.exchange = first_exchange + (int32_t)g;
        task.device = lead;
        int32_t number = (int32_t)a->tasks.len, waited = NONE;
        for (int64_t i = 0; i < members; i++) {
            struct mark *mark = &a->mark[graph_device(a, a->stage, group_device(&group, i))];
            int32_t before = mark->last[task.stream];
            wait_for_member(a, number, mark, after);
            /* on the stream of the group's first device, its own order already ensures this */
            if (before != NONE && before != waited && a->tasks.data[before].device != lead)
                wait_for(a, number, waited = before);
            mark->last[task.stream] = number;
        }
        add_task(a, task);
    }
    return first;
}

/* ---- buckets --------------------------------------------------------------------------------- */

static struct task bucket_task(const struct assembly *a, enum stream_kind stream,
                               int32_t micro_batch, const struct bucket *bucket)
{
    struct task task = plain_task(stream, micro_batch);
    task.about = (int32_t)(bucket - a->b->buckets.data);
    return task;
}

int most_sharded(const struct assembly *a, int32_t part)
{
    int shard = 0;
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++)
        if (bucket_at(a, i)->shard > shard)
            shard = bucket_at(a, i)->shard;
    return shard;
}

bool has_exchange(const struct assembly *a, int32_t part)
{
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++)
        if (bucket_at(a, i)->pattern >= 0)
            return true;
    return false;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Synchronises so many bytes of the bucket's gradients, after each device's latest computation. */
static void synchronise(struct assembly *a, const struct bucket *bucket, int64_t bytes,
                        int32_t micro_batch, enum after after)
{
    enum collective collective = bucket->shard ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE;
    if (bucket->pattern >= 0 && bytes > 0)
        add_exchange(a, bucket_task(a, STREAM_GRADIENT, micro_batch, bucket), bucket->pattern,
                     collective, bytes, after);
}

/* Adds up shares across groups of replicas, after they were scattered within each (buckets.c, 3). */
static void add_up_shares(struct assembly *a, const struct bucket *bucket, int64_t bytes,
                          int32_t micro_batch)
{
    if (bucket->across >= 0 && bytes > 0)
        add_exchange(a, bucket_task(a, STREAM_GRADIENT, micro_batch, bucket), bucket->across,
                     COLLECTIVE_ALL_REDUCE, share_bytes(a->b, bucket, bytes), AFTER_NOTHING);
}

/* Whether this slot's gradients of the bucket are the sum of all micro-batches, or are synchronised
 * each time. */
static bool goes_now(const struct visit *place, const struct bucket *bucket)
{
    return place->completes && (place->last_backward || bucket->shard >= 2);
}

void synchronise_completed(struct assembly *a, const struct visit *place,
                           const struct bucket *bucket)
{
    if (!goes_now(place, bucket))
        return;
    int64_t bytes = bucket->bytes - bucket->left;
    synchronise(a, bucket, bytes, place->slot.micro_batch, AFTER_RUN);
    if (place->last_backward)
        add_up_shares(a, bucket, bytes, place->slot.micro_batch);
    a->synchronising = true;
}

/* What the previous iteration left of this piece's gradients is synchronised while the previous
 * piece computes, and this one waits for it. */
void synchronise_deferred(struct assembly *a, int32_t part)
{
    int32_t first = (int32_t)a->tasks.len;
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++)
        synchronise(a, bucket_at(a, i), bucket_at(a, i)->left, NONE, AFTER_BLOCK);
    for (int32_t i = a->b->first_bucket[part]; i < a->b->first_bucket[part + 1]; i++)
        add_up_shares(a, bucket_at(a, i), bucket_at(a, i)->left, NONE);
    if ((int32_t)a->tasks.len > first)
        a->synchronising = true;
}

/* Without overlap, gradients are synchronised when all is computed; with shard 2 and 3 after each
 * slot, and the next slot waits for them. */
void synchronise_slot(struct assembly *a, const struct visit *place)
{
    for (int32_t i = a->b->first_bucket[place->part]; i < a->b->first_bucket[place->part + 1]; i++)
        if (place->completes && bucket_at(a, i)->shard >= 2) {
            synchronise(a, bucket_at(a, i), bucket_at(a, i)->bytes, place->slot.micro_batch,
                        AFTER_BLOCK);
            if (place->last_backward)
                add_up_shares(a, bucket_at(a, i), bucket_at(a, i)->bytes, place->slot.micro_batch);
        }
}

void synchronise_rest(struct assembly *a)
{
    const struct build *b = a->b;
    if (b->plan->overlap & OVERLAP_GRADIENTS)
        return;
    for (int32_t part = a->stage; part < b->plan->parts; part = plan_next_part(b->plan, part))
        for (int32_t i = b->first_bucket[part]; i < b->first_bucket[part + 1]; i++)
            if (bucket_at(a, i)->shard < 2) {
                synchronise(a, bucket_at(a, i), bucket_at(a, i)->bytes, NONE, AFTER_BLOCK);
                add_up_shares(a, bucket_at(a, i), bucket_at(a, i)->bytes, NONE);
            }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Weights are updated when the rest of their gradients has come. */
static void wait_for_update(struct assembly *a, int32_t first_task, const struct pattern *p)
{
    for (int32_t t = first_task; a->slices && t < (int32_t)a->tasks.len; t++) {
        struct group group = pattern_group(p, t - first_task);
        int64_t members = a->graph->folded ? 1 : group_size(&group);
        for (int64_t i = 0; i < members; i++)
            wait_for(a, t,
                     a->slices[graph_device(a, a->stage, group_device(&group, i)) -
                               a->first_device[a->stage]]);
    }
}

static void gather(struct assembly *a, const struct bucket *bucket, int32_t micro_batch,
                   enum after after)
{
    if (bucket->pattern < 0 || bucket->gather_bytes == 0)
        return;
    int32_t first =
        add_exchange(a, bucket_task(a, STREAM_PARAMETER, micro_batch, bucket), bucket->pattern,
                     COLLECTIVE_ALL_GATHER, bucket->gather_bytes, after);
    wait_for_update(a, first, &a->b->patterns.data[bucket->pattern]);
}

/* Whether the weights of this bucket are gathered for this slot. */
bool gathered_for(const struct assembly *a, const struct visit *place, const struct bucket *bucket)
{
    bool ahead = a->b->plan->overlap & OVERLAP_PARAMETERS;
    if (bucket->gather_bytes == 0)
        return false;
    if (bucket->shard == 3)
        return place->slot.kind != SLOT_BACKWARD_WEIGHT;
    return bucket->shard && ahead && place->first_forward;
}

/* Gathers a bucket one unit ahead: the gather waits for what came before the unit that is in
 * use. Aligned gathers of updated weights wait only for each other. */
void gather_ahead(struct assembly *a, const struct bucket *bucket, int32_t micro_batch)
{
    const struct plan *plan = a->b->plan;
    bool ahead = plan->overlap & OVERLAP_PARAMETERS;
    bool aligned = bucket->shard < 3 && plan_aligns_gathers(&plan->software, plan->pieces);
    gather(a, bucket, micro_batch, !ahead ? AFTER_BLOCK : aligned ? AFTER_NOTHING : AFTER_UNIT);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        a->mark[d].before_unit[0] = a->mark[d].last[STREAM_COMPUTE];
        a->mark[d].before_unit[1] = NONE;
    }
}

void gather_updated(struct assembly *a)
{
    const struct build *b = a->b;
    if (b->plan->overlap & OVERLAP_PARAMETERS)
        return;
    for (int32_t part = a->stage; part < b->plan->parts; part = plan_next_part(b->plan, part))
        for (int32_t i = b->first_bucket[part]; i < b->first_bucket[part + 1]; i++)
            if (bucket_at(a, i)->shard == 1 || bucket_at(a, i)->shard == 2)
                gather(a, bucket_at(a, i), NONE, AFTER_BLOCK);
}

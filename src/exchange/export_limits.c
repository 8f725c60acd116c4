/* export_limits.c - degrees that a target has words for, in place of those that were found.
 *
 *   I1  Devices stay in use: a degree that goes makes dp larger.
 *   I2  Of two levels of state sharding the higher one: what fitted still fits.
 */
#include "exchange/room.h"

#include <stdio.h>
#include <string.h>

struct limiting {
    struct arena *keep;
    const char *target;
    const struct plan *plan;
    struct recognised *r;
};

static void refuse_ability(struct limiting *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void refuse_ability(struct limiting *l, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    add_text(l->keep, &l->r->differences, arena_vprintf(l->keep, fmt, list));
    va_end(list);
}

static void limit_degree(struct limiting *l, bool can, const char *name, int64_t *degree,
                         int64_t *gains)
{
    if (can || *degree == 1)
        return;
    refuse_ability(l, "%s %lld: %s has no such degree", name, (long long)*degree, l->target);
    if (gains)
        *gains *= *degree; /* I1 */
    *degree = 1;
}

/* I2 */
static int nearest_shard(unsigned shards, int wanted)
{
    for (int shard = wanted; shard < 4; shard++)
        if (shards & 1U << shard)
            return shard;
    int shard = wanted;
    while (shard > 0 && !(shards & 1U << shard))
        shard--;
    return shard;
}

static void limit_schedule(struct limiting *l, const struct abilities *can)
{
    struct degrees *d = &l->r->degrees;
    if (d->pieces == 1 && l->plan->pieces > 1 && schedule_find(d->schedule)->least_pieces > 1)
        d->schedule = can->schedules[0];
    for (const char *const *name = can->schedules; *name; name++)
        if (strcmp(*name, d->schedule) == 0)
            return;
    refuse_ability(l, "schedule %s: %s does not know it", d->schedule, l->target);
    d->schedule = d->pieces > 1 ? schedule_default(d->pieces, 1)->name : can->schedules[0];
}

static void limit_batch(struct degrees *d)
{
    int64_t share = d->global_batch / d->dp;
    while (share && share % d->micro_batch)
        d->micro_batch--;
}

static void limit_rest(struct limiting *l, const struct abilities *can)
{
    struct recognised *r = l->r;
    struct degrees *d = &r->degrees;
    unsigned shards = can->shards | (d->pp > 1 ? can->pipeline_shards : 0);
    if (!(shards & 1U << d->shard)) {
        refuse_ability(l, "state sharding %d: %s has no such level", d->shard, l->target);
        d->shard = nearest_shard(shards, d->shard);
    }
    if (r->block == BLOCK_PRODUCTS && !can->products) {
        refuse_ability(l, "recomputation of all but products: %s recomputes whole layers",
                       l->target);
        r->block = 0;
    }
    if (r->block > 0 && !can->block) {
        refuse_ability(l, "recomputation of %lld layers per part: %s recomputes all or none",
                       (long long)r->block, l->target);
        r->block = 0;
    }
    if (d->recompute == RECOMPUTE_SELECTIVE && !can->selective) {
        refuse_ability(l, "selective recomputation: %s recomputes whole layers", l->target);
        d->recompute = RECOMPUTE_FULL;
    }
    if (d->offload && !can->offload) {
        refuse_ability(l, "offload: %s keeps checkpoints on the device", l->target);
        d->offload = false;
    }
    if (r->part_layers && !can->uneven) {
        refuse_ability(l, "uneven stages: %s deals layers out equally", l->target);
        r->part_layers = NULL;
    }
}

void limit_degrees(struct arena *keep, const struct plan *plan, const struct abilities *can,
                   const char *target, struct recognised *r)
{
    struct limiting limiting = {keep, target, plan, r}, *l = &limiting;
    struct degrees *d = &r->degrees;
    limit_degree(l, can->ep, "ep", &d->ep, NULL);
    limit_degree(l, can->tp, "tp", &d->tp, &d->dp);
    limit_degree(l, can->cp, "cp", &d->cp, &d->dp);
    int64_t pp = d->pp;
    limit_degree(l, can->pp, "pp", &d->pp, &d->dp);
    if (d->pp != pp) {
        l->r->part_layers = NULL;
        d->pieces = 1;
        d->schedule = can->schedules[0];
    }
    limit_degree(l, can->pieces && (d->pp > 1 || can->folds), "virtual", &d->pieces, NULL);
    if (d->pieces != l->plan->pieces && d->pp == pp)
        l->r->part_layers = NULL;
    if (d->tp == 1)
        d->sequence = false;
    if (d->sequence && !can->sequence) {
        refuse_ability(l, "sequence parallelism along tp: %s has none", l->target);
        d->sequence = false;
    }
    if (d->tp > 1 && !d->sequence && !can->plain) {
        refuse_ability(l, "tp without sequence parallelism: %s always has it", l->target);
        d->sequence = true;
    }
    limit_schedule(l, can);
    limit_rest(l, can);
    limit_batch(d);
}

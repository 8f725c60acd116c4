/* place.c - which nodes of a cluster each job gets, and what of the fabric it then sees (jobs.h, I2 and I3).
 *
 * PLACING_APART takes the jobs by size, the largest first. A job goes into the unit of the lowest tier that has room
 * for all of it, and of these into the one that is left with the fewest free nodes; inside a unit the same is done
 * with what its sub-units have free, the fullest fit first.
 *
 *   I1  No node belongs to two jobs.
 *   I2  If some order of whole units keeps all jobs in units of the first tier, and all jobs are equally large, this
 *       one does.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/jobs.h"

static const char *const PLACINGS[] = {
    [PLACING_APART] = "apart", [PLACING_PACKED] = "packed", [PLACING_SPREAD] = "spread"};
_Static_assert(COUNT_OF(PLACINGS) == PLACING_COUNT, "a placing without a name");

bool placing_from_name(const char *name, enum placing *out)
{
    for (int i = 0; i < PLACING_COUNT; i++)
        if (strcmp(name, PLACINGS[i]) == 0) {
            *out = (enum placing)i;
            return true;
        }
    return false;
}

/* ---- choosing nodes -------------------------------------------------------------------------- */

struct site_plan {
    const struct cluster *cluster;
    bool *taken; /* per node */
};

/* The nodes of a unit of this tier; of tier -1, a node by itself. */
static int64_t unit_nodes(const struct site_plan *site, int32_t tier)
{
    return tier < 0 ? 1 : site->cluster->fabric.tier[tier].nodes;
}

static int64_t free_nodes(const struct site_plan *site, int64_t first, int64_t count)
{
    int64_t found = 0;
    for (int64_t i = first; i < first + count && i < site->cluster->nodes; i++)
        found += !site->taken[i];
    return found;
}

/* Takes free nodes of [first, first + count) in order until the job has all that it needs. */
static void take_nodes(struct site_plan *site, int64_t first, int64_t count, int64_t *have,
                       struct placement *job)
{
    for (int64_t i = first; i < first + count && i < site->cluster->nodes && *have < job->nodes;
         i++) {
        if (site->taken[i])
            continue;
        site->taken[i] = true;
        job->node[(*have)++] = i;
    }
}

/* Of the units of a tier in [first, first + count): one with room for all that is wanted and the fewest free nodes;
 * else the one with the most. */
static int64_t best_unit(const struct site_plan *site, int32_t tier, int64_t first, int64_t count,
                         int64_t wanted)
{
    int64_t size = unit_nodes(site, tier), best = -1, best_free = 0;
    for (int64_t at = first; at < first + count && at < site->cluster->nodes; at += size) {
        int64_t here = free_nodes(site, at, size);
        bool fits = here >= wanted, best_fits = best_free >= wanted;
        bool better = fits != best_fits ? fits : fits ? here < best_free : here > best_free;
        if (here > 0 && (best < 0 || better)) {
            best = at;
            best_free = here;
        }
    }
    return best;
}

/* Fills the job from a unit of `tier` that begins at `first`, sub-unit by sub-unit. */
static void fill_from(struct site_plan *site, int32_t tier, int64_t first, int64_t *have,
                      struct placement *job)
{
    int64_t count = unit_nodes(site, tier);
    if (tier == 0) {
        take_nodes(site, first, count, have, job);
        return;
    }
    while (*have < job->nodes && free_nodes(site, first, count) > 0) {
        int64_t unit = best_unit(site, tier - 1, first, count, job->nodes - *have);
        fill_from(site, tier - 1, unit, have, job);
    }
}

static void place_apart(struct site_plan *site, struct placement *job)
{
    int32_t tiers = site->cluster->fabric.tiers;
    int64_t have = 0, nodes = site->cluster->nodes;
    for (int32_t t = 0; t < tiers && have == 0; t++) {
        int64_t unit = best_unit(site, t, 0, nodes, job->nodes);
        if (unit >= 0 && free_nodes(site, unit, unit_nodes(site, t)) >= job->nodes)
            fill_from(site, t, unit, &have, job);
    }
    take_nodes(site, 0, nodes, &have, job); /* without tiers */
}

static void place_packed(struct site_plan *site, struct placement *job)
{
    int64_t have = 0;
    take_nodes(site, 0, site->cluster->nodes, &have, job);
}

/* One node of each unit of the first tier in turn. */
static void place_spread(struct site_plan *site, struct placement *job)
{
    int64_t size = site->cluster->fabric.tiers > 0 ? unit_nodes(site, 0) : 1, have = 0;
    while (have < job->nodes)
        for (int64_t at = 0; at < site->cluster->nodes && have < job->nodes; at += size) {
            struct placement one = {have + 1, job->node};
            take_nodes(site, at, size, &have, &one);
        }
}

/* ---- all jobs -------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const struct placement *x = *(struct placement *const *)a, *y = *(struct placement *const *)b;
    if (x->nodes != y->nodes)
        return x->nodes > y->nodes ? -1 : 1;
    return x < y ? -1 : 1;
}

weft_status jobs_place(struct arena *keep, const struct cluster *cluster, enum placing placing,
                       struct placement *jobs, int32_t count)
{
    static void (*const PLACE[])(struct site_plan *, struct placement *) = {
        [PLACING_APART] = place_apart,
        [PLACING_PACKED] = place_packed,
        [PLACING_SPREAD] = place_spread,
    };
    _Static_assert(COUNT_OF(PLACE) == PLACING_COUNT, "a placing without a function");
    struct site_plan site = {cluster, ARENA_ARRAY(keep, bool, (size_t)cluster->nodes)};
    struct placement **order = ARENA_ARRAY(keep, struct placement *, (size_t)count);
    int64_t needed = 0;
    for (int32_t j = 0; j < count; j++) {
        needed += jobs[j].nodes;
        jobs[j].node = ARENA_ARRAY(keep, int64_t, (size_t)jobs[j].nodes);
        order[j] = &jobs[j];
    }
    if (needed > cluster->nodes)
        return bad_argument("share a larger cluster, or fewer jobs",
                            "the jobs need %s, and the cluster has %lld", counted(needed, "node").s,
                            (long long)cluster->nodes);
    if (placing == PLACING_APART && count > 1)
        qsort(order, (size_t)count, sizeof(struct placement *), by_size);
    for (int32_t j = 0; j < count; j++)
        PLACE[placing](&site, order[j]);
    return WEFT_OK;
}

/* ---- what a job sees ------------------------------------------------------------------------- */

/* Whether every run of `run` neighbours lies in one unit of so many nodes. */
static bool runs_fit(const struct placement *p, int64_t run, int64_t unit)
{
    for (int64_t i = 0; i < p->nodes; i++)
        if (p->node[i] / unit != p->node[i - i % run] / unit)
            return false;
    return true;
}

struct cluster *placed_cluster(struct arena *keep, const struct cluster *shared,
                               const struct placement *placement)
{
    struct cluster *own = ARENA_NEW(keep, struct cluster);
    int64_t below = 1;
    *own = *shared;
    own->nodes = placement->nodes;
    for (int32_t t = 0; t < own->fabric.tiers; t++) {
        int64_t run = placement->nodes;
        while (run > below &&
               !(run % below == 0 && runs_fit(placement, run, shared->fabric.tier[t].nodes)))
            run--;
        own->fabric.tier[t].nodes = t + 1 < own->fabric.tiers ? run : placement->nodes;
        below = run;
    }
    return own;
}

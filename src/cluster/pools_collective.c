/* pools_collective.c - collectives in a cluster of pools (pools.h, 1). A group inside a pool is asked of that pool. */
#include <math.h>
#include <string.h>

#include "cluster/pools_room.h"

/* ---- where a group lies ---------------------------------------------------------------------- */

struct reach {
    bool in[MAX_POOLS];
    int32_t pools, first; /* how many it reaches, and the first of them */
};

static void reach_device(const struct cluster *whole, int64_t device, struct reach *out)
{
    int32_t p = cluster_pool_of(whole, device);
    out->pools += !out->in[p];
    out->in[p] = true;
    out->first = p < out->first ? p : out->first;
}

/* A group's lowest and highest device are among its corners: if both are in one pool, so are all. */
static struct reach reach_of(const struct cluster *whole, const struct group *group)
{
    struct reach reach = {.first = MAX_POOLS};
    int64_t low = group->first, high = group->first;
    for (int32_t k = 0; k < group->levels; k++) {
        int64_t far = (group->count[k] - 1) * group->stride[k];
        *(far < 0 ? &low : &high) += far;
    }
    reach_device(whole, low, &reach);
    reach_device(whole, high, &reach);
    for (int64_t i = 0; reach.pools > 1 && i < group_size(group); i++)
        reach_device(whole, group_device(group, i), &reach);
    return reach;
}

/* The group by the pool's own numbers. */
static struct group in_pool(const struct cluster *whole, int32_t pool, const struct group *group)
{
    struct group own = *group;
    own.first -= cluster_pool_first(whole, pool);
    return own;
}

/* ---- links ----------------------------------------------------------------------------------- */

const struct cluster *pools_link(const struct cluster *whole, struct link_id link,
                                 struct link_id *out)
{
    *out = link;
    if (link.tier > 0) {
        struct pool_tier of = pool_tier(whole, link.tier);
        out->tier = (int16_t)(of.inner + 1);
        return of.inner < 0 ? NULL : whole->pool[of.pool].cluster;
    }
    int32_t p = whole->pools - 1;
    while (p > 0 &&
           link.link < (link.tier < 0 ? whole->pool[p].first_link : whole->pool[p].first_nic))
        p--;
    const struct node_pool *pool = &whole->pool[p];
    out->link = (int16_t)(link.link - (link.tier < 0 ? pool->first_link : pool->first_nic));
    return pool->cluster;
}

/* The narrowest of the links by which a pool's nodes reach the others. */
static double narrowest_uplink(const struct cluster *whole, int32_t p)
{
    const struct node_pool *pool = &whole->pool[p];
    int32_t end = p + 1 < whole->pools ? whole->pool[p + 1].first_tier : whole->fabric.tiers;
    double narrowest = INFINITY;
    for (int32_t t = pool->first_tier; t < end; t++)
        narrowest =
            fmin(narrowest, link_reached_per_s(whole, (struct link_id){.tier = (int16_t)t}));
    return narrowest;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* What crosses the uplink of each pool: all that goes round a ring; of an exchange, every pair with one member here. */
static double crossing_bytes(const struct cluster *whole, enum collective collective,
                             const struct group *group, int64_t bytes, int32_t pool)
{
    int64_t devices = group_size(group), here = 0;
    if (collective != COLLECTIVE_ALL_TO_ALL)
        return ring_volume(collective, devices) * (double)bytes;
    for (int64_t i = 0; i < devices; i++)
        here += cluster_pool_of(whole, group_device(group, i)) == pool;
    return (double)bytes / (double)devices * (double)here * (double)(devices - here) *
           exchange_crossing(group->crossing);
}

/* max_p T_p of (1) */
static weft_status slowest_pool(const struct cluster *whole, const struct reach *reach,
                                enum collective collective, const struct group *group,
                                int64_t bytes, struct collective_cost *out)
{
    weft_status status = WEFT_OK;
    struct collective_cost cost;
    *out = (struct collective_cost){.ns = -1};
    for (int32_t p = 0; p < whole->pools; p++) {
        if (!reach->in[p])
            continue;
        TRY(collective_time(whole->pool[p].everywhere, collective, group, bytes, &cost));
        if (cost.ns > out->ns)
            *out = cost;
    }
done:
    return status;
}

weft_status pools_time(const struct cluster *whole, enum collective collective,
                       const struct group *group, int64_t bytes, struct collective_cost *out)
{
    struct reach reach = reach_of(whole, group);
    struct group own = in_pool(whole, reach.first, group);
    struct collective_cost least;
    weft_status status;
    if (reach.pools == 1)
        return collective_time(whole->pool[reach.first].cluster, collective, &own, bytes, out);
    TRY(slowest_pool(whole, &reach, collective, group, 1, &least));
    TRY(slowest_pool(whole, &reach, collective, group, bytes, out));
    for (int32_t p = 0; p < whole->pools && out->ns > 0; p++) {
        double crossing = crossing_bytes(whole, collective, group, bytes, p);
        if (!reach.in[p])
            continue;
        int64_t ns = least.ns + llround(crossing / narrowest_uplink(whole, p) * 1e9); /* (1) */
        if (ns <= out->ns)
            continue;
        out->ns = ns;
        out->bus_bytes_per_s =
            ring_volume(collective, group_size(group)) * (double)bytes / (double)ns * 1e9;
        out->bottleneck = link_kind_name(LINK_FABRIC);
    }
done:
    return status;
}

weft_status pools_bandwidth(const struct cluster *whole, enum collective collective,
                            const struct group *group, double *bytes_per_s)
{
    struct reach reach = reach_of(whole, group);
    struct group own = in_pool(whole, reach.first, group);
    weft_status status = WEFT_OK;
    double here;
    if (reach.pools == 1)
        return collective_bandwidth(whole->pool[reach.first].cluster, collective, &own,
                                    bytes_per_s);
    *bytes_per_s = INFINITY;
    for (int32_t p = 0; p < whole->pools; p++) {
        if (!reach.in[p])
            continue;
        TRY(collective_bandwidth(whole->pool[p].everywhere, collective, group, &here));
        *bytes_per_s = fmin(*bytes_per_s, fmin(here, whole->pool[p].uplink_bytes_per_s));
    }
done:
    return status;
}

/* ---- places and buffers ---------------------------------------------------------------------- */

weft_status pools_place(const struct cluster *whole, const struct group *group, uint64_t *out)
{
    struct reach reach = reach_of(whole, group);
    struct group own = in_pool(whole, reach.first, group);
    uint64_t place = 0, all = 0;
    weft_status status = WEFT_OK;
    for (int32_t p = 0; p < whole->pools; p++) {
        if (!reach.in[p])
            continue;
        TRY(reach.pools == 1 ? group_place(whole->pool[p].cluster, &own, &place)
                             : group_place(whole->pool[p].everywhere, group, &place));
        all = hash_bytes(&place, sizeof place, all + (uint64_t)p + 1);
    }
    *out = all;
done:
    return status;
}

int64_t pools_communicator(const struct cluster *whole, const struct group *group,
                           unsigned collectives)
{
    struct reach reach = reach_of(whole, group);
    struct group own = in_pool(whole, reach.first, group);
    int64_t most = 0;
    if (reach.pools == 1)
        return communicator_bytes(whole->pool[reach.first].cluster, &own, collectives);
    for (int32_t p = 0; p < whole->pools; p++) {
        int64_t bytes =
            reach.in[p] ? communicator_bytes(whole->pool[p].everywhere, group, collectives) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* change.c - the same cluster with one of its parts made faster: what a purchase would bring.
 *
 *   I1  Measured bandwidths of collectives scale with the links that they ran over; latencies stay.
 *   I2  A pace is remembered in the device, whose kernels and host ask it; that of links is applied to them at once.
 */
#include <string.h>

#include "cluster/pools_room.h"

const char *cluster_part_name(enum cluster_part part)
{
    static const char *const NAMES[] = {
        [PART_NETWORK] = "network",
        [PART_NODE_LINKS] = "links within a node",
        [PART_HOST_LINKS] = "links to the host",
    };
    _Static_assert(COUNT_OF(NAMES) == CLUSTER_PART_COUNT, "a part without a name");
    return NAMES[part];
}

static void scale_fits(struct collective_fit *fit, double factor)
{
    for (int c = 0; c < COLLECTIVE_COUNT; c++)
        fit[c].bus_bytes_per_s *= factor; /* I1; 0 means not measured */
}

/* NICs, the slots they sit in, and the switches they lead to. */
static void speed_up_network(struct cluster *c, double factor)
{
    c->node.nic_bytes_per_s *= factor;
    for (int32_t l = 0; l < c->node.links; l++) {
        struct link *link = &c->node.link[l];
        if (c->node.vertex[link->a].kind == VERTEX_NIC ||
            c->node.vertex[link->b].kind == VERTEX_NIC)
            link->bytes_per_s *= factor;
    }
    for (int32_t t = 0; t < c->fabric.tiers; t++)
        c->fabric.tier[t].uplink_bytes_per_s *= factor;
    scale_fits(c->fit_between, factor);
}

/* NVLink if there is any, else all wires between devices and sockets. */
static void speed_up_node(struct cluster *c, double factor)
{
    bool nvlink = false;
    for (int32_t l = 0; l < c->node.links; l++)
        nvlink |= c->node.link[l].kind == LINK_NVLINK;
    for (int32_t l = 0; l < c->node.links; l++)
        if (!nvlink || c->node.link[l].kind == LINK_NVLINK)
            c->node.link[l].bytes_per_s *= factor;
    scale_fits(c->fit_inside, factor);
}

static void speed_up_host(struct cluster *c, double factor)
{
    c->node.device.host_bytes_per_s *= factor;
}

static struct cluster *copy_of(const struct cluster *cluster);

static struct cluster *copy_of_pools(const struct cluster *whole)
{
    struct pool_part part[MAX_POOLS];
    struct cluster *copy = NULL;
    for (int32_t p = 0; p < whole->pools; p++)
        part[p] = (struct pool_part){whole->pool[p].name, copy_of(whole->pool[p].cluster),
                                     whole->pool[p].uplink_bytes_per_s};
    if (cluster_join(whole->name, part, whole->pools, whole->between_ns, &copy) == WEFT_OK)
        copy->source = whole->source;
    return copy;
}

/* A copy that owns its links; names and vertices still belong to the original. */
static struct cluster *copy_of(const struct cluster *cluster)
{
    if (cluster->pools)
        return copy_of_pools(cluster);
    struct arena *arena = arena_new();
    struct cluster *copy = ARENA_NEW(arena, struct cluster);
    *copy = *cluster;
    copy->arena = arena;
    copy->channels = channel_cache_new();
    copy->node.link = ARENA_ARRAY(arena, struct link, (size_t)cluster->node.links);
    if (cluster->node.links)
        memcpy(copy->node.link, cluster->node.link,
               sizeof *copy->node.link * (size_t)cluster->node.links);
    return copy;
}

static struct cluster *own_pool(struct cluster *cluster, int32_t pool)
{
    return cluster->pools ? cluster->pool[pool].cluster : cluster;
}

struct cluster *cluster_faster(const struct cluster *cluster, enum cluster_part part, double factor)
{
    static void (*const SPEED_UP[])(struct cluster *cluster, double factor) = {
        [PART_NETWORK] = speed_up_network,
        [PART_NODE_LINKS] = speed_up_node,
        [PART_HOST_LINKS] = speed_up_host,
    };
    _Static_assert(COUNT_OF(SPEED_UP) == CLUSTER_PART_COUNT, "a part that nobody speeds up");
    struct cluster *faster = copy_of(cluster);
    for (int32_t p = 0; p < cluster_pools(faster); p++)
        SPEED_UP[part](own_pool(faster, p), factor);
    for (int32_t p = 0; part == PART_NETWORK && p < faster->pools; p++)
        faster->pool[p].uplink_bytes_per_s *= factor;
    if (faster->pools)
        pools_refresh(faster);
    return faster;
}

/* ---- paces ----------------------------------------------------------------------------------- */

const char *pace_name(enum pace_part part)
{
    static const char *const NAMES[] = {
        [PACE_PRODUCTS] = "products", [PACE_MEMORY] = "memory", [PACE_INSIDE] = "inside",
        [PACE_BETWEEN] = "between",   [PACE_HOST] = "host",
    };
    _Static_assert(COUNT_OF(NAMES) == PACE_COUNT, "a pace without a name");
    return NAMES[part];
}

double pace_of(const struct paces *pace, enum pace_part part)
{
    return pace->of[part] > 0 ? pace->of[part] : 1;
}

static void set_pool_paces(struct cluster *whole, const struct paces *pace)
{
    for (int32_t p = 0; p < whole->pools; p++) {
        cluster_set_pace(whole->pool[p].cluster, pace);
        whole->pool[p].uplink_bytes_per_s *= pace_of(pace, PACE_BETWEEN);
    }
    pools_refresh(whole);
}

void cluster_set_pace(struct cluster *cluster, const struct paces *pace)
{
    if (cluster->pools) {
        set_pool_paces(cluster, pace);
        return;
    }
    struct paces *own = &cluster->node.device.paces;
    for (int p = 0; p < PACE_COUNT; p++)
        own->of[p] = pace_of(own, p) * pace_of(pace, p); /* I2 */
    if (pace_of(pace, PACE_INSIDE) != 1)
        speed_up_node(cluster, pace_of(pace, PACE_INSIDE));
    if (pace_of(pace, PACE_BETWEEN) != 1)
        speed_up_network(cluster, pace_of(pace, PACE_BETWEEN));
}

struct cluster *cluster_paced(const struct cluster *cluster, const struct paces *pace)
{
    struct cluster *paced = copy_of(cluster);
    cluster_set_pace(paced, pace);
    return paced;
}

void cluster_set_memory(struct cluster *cluster, double factor)
{
    for (int32_t p = 0; p < cluster_pools(cluster); p++) {
        struct device *device = &own_pool(cluster, p)->node.device;
        device->memory_bytes = (int64_t)((double)device->memory_bytes * factor);
    }
    if (cluster->pools)
        pools_refresh(cluster);
}

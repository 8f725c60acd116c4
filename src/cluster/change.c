/* change.c - the same cluster with one of its parts made faster: what a purchase would bring.
 *
 *   I1  Measured bandwidths of collectives scale with the links that they ran over; latencies stay.
 */
#include <string.h>

#include "cluster/cluster.h"

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

struct cluster *cluster_faster(const struct cluster *cluster, enum cluster_part part, double factor)
{
    static void (*const SPEED_UP[])(struct cluster *cluster, double factor) = {
        [PART_NETWORK] = speed_up_network,
        [PART_NODE_LINKS] = speed_up_node,
        [PART_HOST_LINKS] = speed_up_host,
    };
    _Static_assert(COUNT_OF(SPEED_UP) == CLUSTER_PART_COUNT, "a part that nobody speeds up");
    struct arena *arena = arena_new();
    struct cluster *faster = ARENA_NEW(arena, struct cluster);
    *faster = *cluster; /* names and vertices still belong to the original */
    faster->arena = arena;
    faster->channels = channel_cache_new();
    faster->node.link = ARENA_ARRAY(arena, struct link, (size_t)cluster->node.links);
    if (cluster->node.links)
        memcpy(faster->node.link, cluster->node.link,
               sizeof *faster->node.link * (size_t)cluster->node.links);
    SPEED_UP[part](faster, factor);
    return faster;
}

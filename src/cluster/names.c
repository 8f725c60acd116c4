/* names.c - the words for the room's enums in files, tables and JSON. */
#include "cluster/pools_room.h"

#include <string.h>

static const char *const VERTEX_KINDS[] = {
    [VERTEX_DEVICE] = "device", [VERTEX_NVSWITCH] = "nvswitch", [VERTEX_PCI_SWITCH] = "pci-switch",
    [VERTEX_SOCKET] = "socket", [VERTEX_NIC] = "nic",
};
_Static_assert(COUNT_OF(VERTEX_KINDS) == VERTEX_KIND_COUNT, "a vertex kind without a name");

static const char *const LINK_KINDS[] = {
    [LINK_NVLINK] = "nvlink", [LINK_PCI] = "pci",       [LINK_SOCKET] = "socket",
    [LINK_NIC] = "nic",       [LINK_FABRIC] = "fabric",
};
_Static_assert(COUNT_OF(LINK_KINDS) == LINK_KIND_COUNT, "a link kind without a name");

static const struct wire_words WIRES[] = {
    {"cdna2", "xgmi", "XG", "xGMI", "xGMI links"},
    {"cdna3", "xgmi", "XG", "xGMI", "xGMI links"},
    {"cdna4", "xgmi", "XG", "xGMI", "xGMI links"},
    {NULL, "nvlink", "NV", "NVLink", "NVLinks"},
};

static const char *const FABRIC_KINDS[] = {
    [FABRIC_NONE] = "none",         [FABRIC_SWITCH] = "switch",       [FABRIC_RAIL] = "rail",
    [FABRIC_FAT_TREE] = "fat-tree", [FABRIC_DRAGONFLY] = "dragonfly",
};
_Static_assert(COUNT_OF(FABRIC_KINDS) == FABRIC_KIND_COUNT, "a fabric kind without a name");

static const char *const COLLECTIVES[] = {
    [COLLECTIVE_ALL_REDUCE] = "all_reduce",
    [COLLECTIVE_ALL_GATHER] = "all_gather",
    [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [COLLECTIVE_ALL_TO_ALL] = "all_to_all",
    [COLLECTIVE_BROADCAST] = "broadcast",
    [COLLECTIVE_SEND] = "send",
    [COLLECTIVE_HALO] = "halo",
};
_Static_assert(COUNT_OF(COLLECTIVES) == COLLECTIVE_COUNT, "a collective without a name");

const char *vertex_kind_name(enum vertex_kind kind)
{
    return VERTEX_KINDS[kind];
}

const char *link_kind_name(enum link_kind kind)
{
    return LINK_KINDS[kind];
}

const struct wire_words *wire_words(const struct device *device)
{
    size_t at = 0;
    while (WIRES[at].arch && !(device->arch && strcmp(WIRES[at].arch, device->arch) == 0))
        at++;
    return &WIRES[at];
}

const char *link_name(const struct device *device, enum link_kind kind)
{
    return kind == LINK_NVLINK ? wire_words(device)->name : LINK_KINDS[kind];
}

const char *fabric_kind_name(enum fabric_kind kind)
{
    return FABRIC_KINDS[kind];
}

const char *collective_name(enum collective collective)
{
    return COLLECTIVES[collective];
}

bool collective_from_name(const char *name, enum collective *out)
{
    int at = NAME_INDEX(name, COLLECTIVES);
    bool known = at >= 0 && at < COLLECTIVE_MEASURED;
    if (known)
        *out = (enum collective)at;
    return known;
}

const char *collective_near(const char *name)
{
    return NEAREST_NAME(name, COLLECTIVES);
}

const char *link_text(struct arena *keep, const struct cluster *cluster, struct link_id link)
{
    const struct node_type *node = &cluster->node;
    struct link_id in_pool;
    const struct cluster *own = cluster->pools ? pools_link(cluster, link, &in_pool) : NULL;
    if (own)
        return arena_printf(keep, "%s in %s", link_text(keep, own, in_pool), own->name);
    if (link.tier == 0)
        return arena_printf(keep, "NIC %d", link.link);
    if (link.tier > 0)
        return arena_printf(keep, "uplink of %s", cluster->fabric.tier[link.tier - 1].name);
    const struct link *wires = &node->link[link.link];
    int32_t from = link.reverse ? wires->b : wires->a, to = link.reverse ? wires->a : wires->b;
    return arena_printf(keep, "%s %s-%s", link_name(&node->device, wires->kind),
                        node->vertex[from].name, node->vertex[to].name);
}

/* placement.h - where a group lies on the machines, and what its devices find there. Private to
 * this room.
 *
 *   I1  A device set is a set of positions within one node, 0 .. D-1 (cluster.h, I1).
 *   I2  A path's shares add up to 1 at each step: a switched link bundle is used evenly.
 */
#ifndef WEFT_CLUSTER_PLACEMENT_H
#define WEFT_CLUSTER_PLACEMENT_H

#include "cluster/cluster.h"

enum { MAX_NODE_DEVICES = 256, SET_WORDS = MAX_NODE_DEVICES / 64 };

struct device_set {
    uint64_t word[SET_WORDS];
};
static inline void set_add(struct device_set *set, int64_t device)
{
    set->word[device / 64] |= UINT64_C(1) << (device % 64);
}
static inline bool set_has(const struct device_set *set, int64_t device)
{
    return set->word[device / 64] >> (device % 64) & 1;
}
int32_t set_members(const struct device_set *set, int32_t out[MAX_NODE_DEVICES]);

/* The devices of one group within one node. */
struct node_share {
    int64_t node;
    struct device_set set;
};
struct share_list {
    struct node_share *data;
    size_t len, cap;
};

struct footprint {
    int64_t devices; /* of the group */
    int64_t nodes;   /* that the group uses */
    int64_t first_node, last_node;
    int32_t local;         /* devices in the fullest node */
    struct device_set set; /* of that node */
};
/* What an all-to-all sends over the network, as a share of all between nodes, and inside a node, as a multiple of
 * what its own members exchange (struct group, crossing): what arrives for other members is passed on. */
double exchange_crossing(double crossing);
double exchange_inside(double crossing, double devices, double local);
weft_status group_footprint(const struct cluster *cluster, const struct group *group,
                            struct footprint *out);
/* The same by visiting every member: the reference for the closed form, and the way for groups that
 * do not line up with nodes. Also replaces the list by the shares in node order. */
weft_status group_shares(const struct cluster *cluster, const struct group *group,
                         struct arena *keep, struct share_list *shares, struct footprint *out);

/* ---- paths inside a node --------------------------------------------------------------------- */

struct step {
    int32_t link;
    bool reverse;
    double share; /* of the bytes that take the path (I2) */
};
struct path {
    struct step *step;
    int32_t steps;      /* 0: no path */
    bool relayed;       /* through another device's memory */
    double bytes_per_s; /* of the path alone */
    enum link_kind slowest;
};
/* The path between two devices that communicate within `set`: NVLink if there is any, then NVLink
 * by way of a third device of the set, then PCIe and sockets. */
struct path path_between(const struct node_type *node, const struct device_set *set, int32_t from,
                         int32_t to, struct arena *keep);
/* The bandwidth of all NVLinks from a device to NVSwitches; 0: it has none. */
double switch_bandwidth(const struct node_type *node, int32_t device);
/* Links on the shortest path from each device of the node to a vertex; INT32_MAX: no path. */
void distances_to(const struct node_type *node, int32_t to, struct arena *scratch, int32_t *hops);
/* The path from a device to a NIC vertex, or back: never over NVLink. */
struct path path_to_vertex(const struct node_type *node, int32_t from, int32_t to,
                           struct arena *keep);
/* The path from the memory of the nearest socket to a device, likewise. */
struct path path_from_host(const struct node_type *node, int32_t device, struct arena *keep);

/* ---- channels: all a collective needs to know about one device set --------------------------- */

struct nic_use {
    int32_t nic;        /* number among the node's NICs */
    int32_t device;     /* the device that reaches the fabric through it */
    struct path path;   /* from the device to the NIC */
    double bytes_per_s; /* of NIC and path together */
};
/* The load that one byte puts on the links of the node. */
enum load_kind {
    LOAD_RING,      /* one byte of V, around all rings */
    LOAD_OPEN_RING, /* the same without the hops that close the rings */
    LOAD_PAIRS,     /* from each device to each other */
    LOAD_LEAVING,   /* from the set to the fabric, spread over its NICs */
    LOAD_ENTERING,
    LOAD_TO_HOST, /* for sets of one device */
    LOAD_FROM_HOST,
    LOAD_KIND_COUNT
};
struct load {
    int32_t at;   /* 2 * link + reverse; after the links 2 * (links + nic) + downwards */
    double share; /* of the byte */
};
struct load_list {
    struct load *load;
    int32_t count;
};
static inline int32_t load_places(const struct node_type *node)
{
    return 2 * (node->links + node->nics);
}

struct channels {
    struct device_set set;
    struct rings rings;
    bool relayed;  /* some ring hop passes through another device */
    bool switched; /* NVSwitch: one ring stands for all of them */
    /* Seconds on the fullest link of each kind, 0 if the kind is not used: */
    double ring_s_per_byte[LINK_KIND_COUNT];     /* per byte around all rings */
    double exchange_s_per_byte[LINK_KIND_COUNT]; /* per byte that each device sends to each other */
    struct nic_use *nic;
    int32_t nics;
    double nic_bytes_per_s;                       /* of the NICs used together */
    double nic_path_bytes_per_s[LINK_KIND_COUNT]; /* of the paths to them, by their slowest link */
    struct load_list load[LOAD_KIND_COUNT];
};
/* Fills in `load` after everything else has been filled in (node_loads.c). */
void find_loads(const struct node_type *node, struct arena *scratch, struct arena *keep,
                struct channels *channels);
weft_status channels_find(const struct cluster *cluster, const struct device_set *set,
                          struct arena *keep, const struct channels **out);
/* From the cluster's cache; where the cluster has none, or where it is full, computed into `*scratch`, which is made if it
 * is NULL. */
weft_status channels_get(const struct cluster *cluster, const struct device_set *set,
                         struct arena **scratch, const struct channels **out);

/* ---- algorithms ------------------------------------------------------------------------------ */

/* Bytes through each link of a ring per byte of buffer, and steps of the ring, for n devices. */
double ring_volume(enum collective collective, int64_t devices);
int64_t ring_steps(enum collective collective, int64_t devices);

#endif

/* pools.h - a cluster of several node types.
 *
 * Each *pool* is a cluster of one node type. Its nodes follow those of the pool before it; an uplink joins it to the
 * other pools:
 *
 *   node    n of pool p is node first_node_p + n of the whole
 *   send    from pool p to pool q: by NICs of p, up p's uplink, down q's, by NICs of q
 *   time    of a group over several pools: that on the slowest of the node types that it reaches, if all
 *           of its nodes were of this type, or what the narrowest uplink takes, if that is longer:
 *
 *             T = L + max( max_p T_p(S) - L, V / B ),   L = max_p T_p(1 byte)                   (1)
 *
 *   I1  All pools have the same number of devices per node: device d is on node d / D (cluster.h, I1).
 *   I2  What depends on the node type is asked of cluster_at() or cluster_device(). The node of the whole has
 *       the links, NICs and tiers of all pools one after the other, which only numbers them, and a device that
 *       stands for the mean of all: peaks and price are means, memory and links to the host are the least.
 *   I3  A stage lies in one pool (plan_check), so that only sends and sums of tied weights reach several.
 */
#ifndef WEFT_CLUSTER_POOLS_H
#define WEFT_CLUSTER_POOLS_H

#include "cluster/cluster.h"

struct node_pool {
    const char *name;
    struct cluster *cluster; /* by itself: nodes and links numbered from 0 */
    /* all nodes of the whole as if they were of this type, under one switch: T_p of (1) */
    struct cluster *everywhere;
    int64_t first_node;
    double uplink_bytes_per_s; /* to the other pools, per direction */
    int32_t first_link, first_nic, first_tier;
};

/* What a pool is made of; the cluster then belongs to the whole. */
struct pool_part {
    const char *name; /* NULL: its cluster's */
    struct cluster *cluster;
    double uplink_bytes_per_s; /* 0: all of its NICs */
};
enum { MAX_POOLS = 8 };
/* `latency_ns` is that from pool to pool; below 0: the largest of the pools' own fabrics. On an error the parts still
 * belong to the caller. */
weft_status cluster_join(const char *name, const struct pool_part *part, int32_t parts,
                         int64_t latency_ns, struct cluster **out);

/* At least 1: a cluster of one node type is its own only pool. */
int32_t cluster_pools(const struct cluster *cluster);
int32_t cluster_pool_of(const struct cluster *cluster, int64_t device);
const struct cluster *cluster_pool(const struct cluster *cluster, int32_t pool);
/* The pool's name, or the device's if there is one type only. */
const char *cluster_pool_name(const struct cluster *cluster, int32_t pool);
int64_t cluster_pool_first(const struct cluster *cluster, int32_t pool); /* its first device */
/* The cluster of one node type that a device belongs to, and its device type. */
const struct cluster *cluster_at(const struct cluster *cluster, int64_t device);
const struct device *cluster_device(const struct cluster *cluster, int64_t device);
/* Whether all device types have a property. */
bool cluster_all_devices(const struct cluster *cluster, bool (*has)(const struct device *device));
/* Refuses a cluster of several node types: "WHAT needs nodes of one type". */
weft_status cluster_refuse_pools(const struct cluster *cluster, const char *what);

#endif

/* pools_room.h - what the files of this room ask about pools. Private to this room. */
#ifndef WEFT_CLUSTER_POOLS_ROOM_H
#define WEFT_CLUSTER_POOLS_ROOM_H

#include "cluster/topology.h"

int32_t pool_of_node(const struct cluster *cluster, int64_t node);
/* What a tier of the whole is: one of a pool, or the pool's own uplink. */
struct pool_tier {
    int32_t pool;
    int32_t inner; /* of the pool's fabric; -1: its uplink to the other pools */
};
struct pool_tier pool_tier(const struct cluster *whole, int32_t tier); /* as in struct link_id */
/* The unit of the fabric's tier t that holds a node: its number, or in a cluster of pools that of its first node. */
enum { NO_UNIT = -1 }; /* the tier is another pool's */
int64_t tier_unit(const struct cluster *cluster, int32_t t, int64_t node);
/* cluster_join into a new cluster. */
weft_status pools_join(struct cluster *whole, const struct pool_part *part, int32_t parts,
                       int64_t latency_ns);
void pools_refresh(struct cluster *whole); /* after a pool's cluster or uplink has changed */
void pools_free(struct cluster *whole);    /* what the arena does not own */

/* The functions of cluster.h, for a cluster of pools (pools_collective.c). */
weft_status pools_time(const struct cluster *whole, enum collective collective,
                       const struct group *group, int64_t bytes, struct collective_cost *out);
weft_status pools_bandwidth(const struct cluster *whole, enum collective collective,
                            const struct group *group, double *bytes_per_s);
weft_status pools_place(const struct cluster *whole, const struct group *group, uint64_t *out);
int64_t pools_communicator(const struct cluster *whole, const struct group *group,
                           unsigned collectives);
/* The pool of a link and its number there; NULL: an uplink of a pool. */
const struct cluster *pools_link(const struct cluster *whole, struct link_id link,
                                 struct link_id *out);

#endif

/* flow_pool.h - the flows that one link holds, at one speed (share.h).
 *
 * While they are together, all of them move the same number of bytes: from a to b
 *
 *   D(b) - D(a),   D(t) the integral of the pool's speed                                 (1)
 *
 * so a flow that joins at a with r bytes left is over when D reaches its *mark*, D(a) + r:
 *
 *   next end = now + ceil((least mark - D(now)) / speed)                                 (2)
 *
 * A change of speed moves no mark: the cost of a flow that comes or goes does not grow with the
 * number of flows, except for the logarithm of a heap.
 *
 *   I1  D starts at 0 when the pool is empty, and is reset, with the marks lowered by as much,
 *       before it is 16 times as large as a flow that joins: rounding stays far below 2^-38 of any
 *       flow.
 */
#ifndef WEFT_SIM_FLOW_POOL_H
#define WEFT_SIM_FLOW_POOL_H

#include "base/base.h"

struct flow_pool {
    double speed, moved; /* bytes per ns; D */
    int64_t since_ns;    /* when D was `moved` */
    struct heap marks;   /* of the members, ordered as integers with the bits of the doubles */
};

void flow_pool_join(struct flow_pool *pool, int32_t id, double left, double bytes, int64_t now);
/* returns what is left of it */
double flow_pool_leave(struct flow_pool *pool, int32_t id, int64_t now);
void flow_pool_set_speed(struct flow_pool *pool, double speed, int64_t now);
/* (2); INT64_MAX: the pool is empty */
int64_t flow_pool_due_ns(struct flow_pool *pool, int64_t now);
/* Removes and returns a member that is over; -1: none is. */
int32_t flow_pool_take(struct flow_pool *pool, int64_t now);

#endif

/* flow_pool.h - the flows that one link holds, at one speed (share.h).
 *
 * While they are together, all of them move as many bytes: from a to b
 *
 *   D(b) - D(a),   D(t) the integral of the pool's speed                                 (1)
 *
 * so one that joins at a with r bytes left is over when D reaches its *mark*, D(a) + r:
 *
 *   next end = now + ceil((least mark - D(now)) / speed)                                 (2)
 *
 * A speed that changes moves no mark: what a flow that comes or goes costs does not grow with the
 * others, but for the logarithm of a heap.
 *
 *   I1  D starts at 0 where the pool is empty, and again, marks lowered by as much, before it is 16
 *       times as large as a flow that joins: rounding stays far below 2^-38 of any flow.
 */
#ifndef WEFT_SIM_FLOW_POOL_H
#define WEFT_SIM_FLOW_POOL_H

#include "base/base.h"

struct flow_pool {
    double speed, moved; /* bytes per ns; D */
    int64_t since_ns;    /* when D was `moved` */
    struct heap marks;   /* of the members, in the order of the doubles whose bits they are */
};

void flow_pool_join(struct flow_pool *pool, int32_t id, double left, double bytes, int64_t now);
double flow_pool_leave(struct flow_pool *pool, int32_t id, int64_t now); /* what is left of it */
void flow_pool_set_speed(struct flow_pool *pool, double speed, int64_t now);
int64_t flow_pool_due_ns(struct flow_pool *pool, int64_t now); /* (2), INT64_MAX: empty */
/* A member that is over, which leaves; -1: none. */
int32_t flow_pool_take(struct flow_pool *pool, int64_t now);

#endif

/* nodes.h - a graph of tasks turned around: for each task who waits for it; private to the room.
 *
 *   I1  All that an event needs to know of a task is in one cache line: memory is what events wait
 *       for.
 */
#ifndef WEFT_SIM_NODES_H
#define WEFT_SIM_NODES_H

#include "sim/engine.h"

enum { FEW = 7 };
struct node {
    int64_t start_ns;
    int64_t ns; /* work: how long; flow: latency; once it is over, its end */
    int32_t stream, flow;
    int32_t next;      /* on its stream, -1: none */
    int32_t pending;   /* dependencies and stream order still ahead */
    int32_t then[FEW]; /* tasks that depend on it, -1 after the last */
    int32_t more;      /* the others, -1: none */
};
_Static_assert(sizeof(struct node) == 64, "not a cache line");

/* A list of tasks. */
struct more {
    int32_t task, more; /* -1: none */
};
struct nodes {
    struct node *node; /* per task */
    ARRAY(struct more) more;
};

/* Fails on what is no graph: an order that lacks a task or has another's, links and flows without a
 * speed. Fills `place` (engine.h). */
weft_status nodes_check(const struct engine_graph *graph, int32_t *place);
struct nodes nodes_new(struct arena *scratch, const struct engine_graph *graph,
                       const int32_t *place);

#endif

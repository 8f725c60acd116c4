/* nodes.h - a graph of tasks with its edges reversed: for each task those that wait for it; private
 * to the room.
 *
 *   I1  All that an event needs to know of a task is in one cache line, because events spend most
 *       of their time waiting for memory.
 */
#ifndef WEFT_SIM_NODES_H
#define WEFT_SIM_NODES_H

#include "sim/engine.h"

enum { FEW = 7 };
struct node {
    int64_t start_ns;
    int64_t ns; /* work: its duration; flow: its latency; when it is over, its end */
    int32_t stream, flow;
    int32_t next;      /* on its stream, -1: none */
    int32_t pending;   /* dependencies and stream order that are still pending */
    int32_t then[FEW]; /* tasks that depend on it, -1 after the last */
    int32_t more;      /* further ones, -1: none */
};
_Static_assert(sizeof(struct node) == 64, "not a cache line");

/* A linked list of tasks. */
struct more {
    int32_t task, more; /* -1: none */
};
struct nodes {
    struct node *node; /* per task */
    ARRAY(struct more) more;
};

/* Fails if this is not a valid graph: an order that lacks a task or has another stream's, links and
 * flows without a speed. Fills `place` (engine.h). */
weft_status nodes_check(const struct engine_graph *graph, int32_t *place);
struct nodes nodes_new(struct arena *scratch, const struct engine_graph *graph,
                       const int32_t *place);

#endif

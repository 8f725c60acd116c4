/* outline.h - a plan's work without its order in time: what every part does for one micro-batch,
 * and its other exchanges. It is the graph of a plan without its tasks; the estimate reads it.
 *
 *   I1  The graph is folded and has blocks, buckets, patterns, exchanges and lifetimes, as
 *       graph_compile makes them; it has no tasks and no devices.
 *   I2  An outline is read part by part, never micro-batch by micro-batch: its size does not depend
 *       on their number.
 */
#ifndef WEFT_COMPILE_OUTLINE_H
#define WEFT_COMPILE_OUTLINE_H

#include "compile/graph.h"

/* A tensor that goes from a part to one on another stage, and its gradient that comes back; -1:
 * there is none. */
struct outline_send {
    int32_t from_part, to_part;
    int32_t forward, backward; /* exchanges */
};
/* A tied weight with a copy on another stage, or in another layout: the exchanges of its gradients,
 * one after the other, before either's optimizer step. */
struct outline_tie {
    int32_t owner_stage, user_stage;
    int32_t *exchange;
    int32_t exchanges;
};
/* The exchanges of a part's units (layer_copies.c) to the host, and back in its pass of a kind; per unit, -1: none. */
struct unit_copies {
    int32_t *out, *in[SLOT_KIND_COUNT];
};
struct outline {
    struct graph *graph; /* I1 */
    int32_t sends, ties;
    struct outline_send *send;
    struct outline_tie *tie;
    int64_t *use_first; /* per instance, and one past the last: its inputs in `source` */
    int64_t *source;    /* per input: the instance that made it, -1: the model's input */
    /* per instance, -1: none; for a tied weight without a copy, its owner's */
    int32_t *bucket_of;
    int64_t *gradients;   /* per instance: bytes that it adds to its bucket */
    int32_t *synchronise; /* per bucket: the exchange of its gradients, -1: none */
    int32_t *across;      /* per bucket: the exchange of its shares that follows, once; -1: none */
    int32_t *gather;      /* per bucket: the exchange that gathers its weights, -1: none */
    int64_t *updated;     /* per bucket: parameters that each device's optimizer updates */
    struct unit_copies *copies; /* per part: what its layers copy to the host and back */
    int64_t *host_bytes; /* per part: checkpoints of a micro-batch that wait in host memory */
    int32_t *to_host, *from_host; /* per part: their exchanges, -1: none */
    struct host_step *host_step;  /* per stage: the optimizer's step on the host */
};
/* The plan need not cover the cluster: its stages may be any runs of devices. */
weft_status outline_compile(const struct plan *plan, struct outline *out);
void outline_free(struct outline *outline);

#endif

/* layer_search.h - Galvatron-BMW's search (Algorithms 1 and 2) over any source of layers' costs.
 *
 * For every batch, PP degree and number of micro-batches: which layers make which stage, and which
 * strategy each layer takes there, so that
 *
 *   iteration = (m - 1) * max_i steady_i + sum_i time_i                                (Eq. 5, 9)
 *
 * is least while every stage stays within the memory limit (Eq. 2). The source says what layers cost:
 * Weft's own estimate, or times that somebody measured layer by layer.
 *
 *   I1  Layers of one kind cost the same; boundaries of one kind reshard the same.
 *   I2  A source answers the same question with the same numbers; the search asks each one once,
 *       and for a reshard only where a plan that looks best has one.
 *   I3  What is not a layer (an embedding, a head) is a layer of its own kind at its place.
 */
#ifndef WEFT_SEARCH_GALVATRON_LAYER_SEARCH_H
#define WEFT_SEARCH_GALVATRON_LAYER_SEARCH_H

#include <stdatomic.h>

#include "search/galvatron/layerwise.h"
#include "search/galvatron/partition.h"
#include "search/galvatron/space.h"

/* Where and on how many samples a layer runs. */
struct layer_question {
    int64_t devices; /* of the whole pipeline */
    int32_t stages, stage;
    int64_t step_samples; /* samples that pass the stage together */
    int64_t micro_batches;
};

struct layer_cost {
    int64_t steady_ns;  /* of one micro-batch, forward and backward; LAYERWISE_NEVER: impossible */
    int64_t once_ns;    /* more in an iteration: gradients that nothing hides, gathers, optimizer */
    int64_t kept_bytes; /* of one micro-batch in flight: O_f */
    int64_t peak_bytes; /* more during the backward pass: O_b */
    int64_t state_bytes;
};

struct layer_source {
    int32_t layers, kinds, boundaries;
    const int32_t *kind;     /* per layer (I1) */
    const int32_t *boundary; /* per layer: the one before it; the first is not read */
    const bool *around; /* per layer: what is none (I3), which an even partition does not count;
                                NULL: all are layers */
    void *context;
    /* Stages whose questions have the same place are answered alike; NULL: each by itself. */
    int32_t (*place)(void *context, const struct layer_question *question);
    weft_status (*layer)(void *context, const struct layer_question *question, int32_t kind,
                         const struct strategy *strategy, struct layer_cost *out);
    /* What its steady_ns is at least, found in less time, in two degrees; LAYERWISE_NEVER where it
     * is impossible. NULL: nobody knows. */
    weft_status (*least)(void *context, const struct layer_question *question, int32_t kind,
                         const struct strategy *strategy, bool closer, int64_t *ns);
    /* Strategies of one layout reshard alike, and not between each other; NULL: each by itself. */
    int32_t (*layout)(void *context, const struct strategy *strategy);
    /* R of a micro-batch, both ways, between two strategies on one stage. */
    weft_status (*reshard)(void *context, const struct layer_question *question, int32_t boundary,
                           const struct strategy *before, const struct strategy *after,
                           int64_t *ns);
    /* What a stage takes beside its layers: sends to its neighbours, what every device holds. */
    weft_status (*beside)(void *context, const struct layer_question *question,
                          struct layer_cost *out);
    /* State of a pipeline's only stage that no layer has by itself, given all strategies: what a weight
     * takes that two layers use and lay differently. Counted when a plan is known. NULL: none. */
    weft_status (*together)(void *context, const struct layer_question *question,
                            const struct strategy *strategy, int64_t *bytes);
};

struct layer_problem {
    const struct layer_source *source;
    const struct space *space;
    int64_t devices;
    int64_t limit_bytes;       /* per device: E */
    int64_t global_batch;      /* 0: explored, that with the most samples per second */
    int64_t pp, micro_batches; /* 0: any */
    int64_t known_ns;  /* of an iteration: settings that take longer by their bounds are left
                                  out; 0: nothing is known */
    int64_t most_work; /* stages looked at per setting, before Algorithm 2 settles it; 0: a usual
                          number */
    const struct stop *stop; /* NULL: never */
    void (*progress)(void *context, int64_t done, int64_t all, int64_t best_ns);
    void *context;
};

/* One way to lay the model out, the best of its batch, PP degree and micro-batches. */
struct layer_plan {
    int64_t global_batch, micro_batches;
    int32_t stages;
    int32_t *count;            /* layers per stage */
    struct strategy *strategy; /* per layer */
    struct stage_cost *cost;   /* per stage (partition.h) */
    int64_t iteration_ns;
};
struct layer_plans {
    struct layer_plan *data; /* fastest per sample first */
    size_t len, cap;
    int64_t searched; /* stages whose strategies were chosen */
    int64_t settings; /* in which every layer has a strategy, and that known_ns left in */
    bool stopped;
};

/* WEFT_NO_ANSWER: nothing fits, nothing takes less than known_ns, it was stopped, or no setting is
 * possible whatever the limit: the message says which. */
weft_status galvatron_search(struct arena *keep, const struct layer_problem *problem,
                             struct layer_plans *out);

#endif

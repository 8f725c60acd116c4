/* layer_search.h - Galvatron-BMW's search (Algorithms 1 and 2) over any source of layers' costs.
 *
 * For every batch, PP degree and number of micro-batches, it finds which layers make which stage,
 * and which strategy each layer takes there, so that
 *
 *   iteration = (m - 1) * max_i steady_i + sum_i time_i                                (Eq. 5, 9)
 *
 * is least while every stage stays within the memory limit (Eq. 2). The source says what layers
 * cost: Weft's own estimate, or times measured layer by layer.
 *
 *   I1  Layers of one kind cost the same; boundaries of one kind reshard the same.
 *   I2  A source answers the same question with the same numbers; the search asks each one once,
 *       and asks for a reshard only if a plan that looks best has it.
 *   I3  What is not a layer (an embedding, a head) is a layer of its own kind at its place.
 */
#ifndef WEFT_SEARCH_GALVATRON_LAYER_SEARCH_H
#define WEFT_SEARCH_GALVATRON_LAYER_SEARCH_H

#include <stdatomic.h>

#include "search/galvatron/layerwise.h"
#include "search/galvatron/partition.h"
#include "search/galvatron/space.h"

/* On which devices and with how many samples a layer runs. */
struct layer_question {
    int64_t devices; /* of the whole pipeline */
    int32_t stages, stage;
    int64_t step_samples; /* samples that pass the stage together */
    int64_t micro_batches;
};

struct layer_cost {
    /* For one micro-batch, forward and backward; LAYERWISE_NEVER: impossible. */
    int64_t steady_ns;
    /* In addition, once per iteration: gradients that nothing hides, gathers, optimizer. */
    int64_t once_ns;
    int64_t kept_bytes; /* per micro-batch in flight: O_f */
    int64_t peak_bytes; /* in addition, during the backward pass: O_b */
    int64_t state_bytes;
};

typedef weft_status layer_cost_function(void *context, const struct layer_question *question,
                                        int32_t kind, const struct strategy *strategy,
                                        struct layer_cost *out);

struct layer_source {
    int32_t layers, kinds, boundaries;
    const int32_t *kind;     /* per layer (I1) */
    const int32_t *boundary; /* per layer: the one before it; the first is not read */
    /* Per layer: it is not really a layer (I3), and an even partition does not count it; NULL: all
     * are layers. */
    const bool *around;
    void *context;
    /* How many costs and bounds of layers were found so far; NULL: nobody counts. */
    const int64_t *asked;
    /* Questions about stages of the same place have the same answers; NULL: each stage has its
     * own. */
    int32_t (*place)(void *context, const struct layer_question *question);
    layer_cost_function *layer;
    /* A quick lower bound of steady_ns; LAYERWISE_NEVER if impossible. NULL: there is no bound. */
    weft_status (*least)(void *context, const struct layer_question *question, int32_t kind,
                         const struct strategy *strategy, int64_t *ns);
    /* Quick lower bounds of all numbers of `layer`; NULL: there are none. */
    layer_cost_function *roughly;
    /* Strategies of one layout reshard alike, and not between each other; NULL: each has its own
     * layout. */
    int32_t (*layout)(void *context, const struct strategy *strategy);
    /* R of a micro-batch, both ways, between two strategies on one stage. */
    weft_status (*reshard)(void *context, const struct layer_question *question, int32_t boundary,
                           const struct strategy *before, const struct strategy *after,
                           int64_t *ns);
    /* What a stage takes besides its layers: sends to its neighbours, and what every device
     * holds. */
    weft_status (*beside)(void *context, const struct layer_question *question,
                          struct layer_cost *out);
    /* Bytes of state on a pipeline's only stage that no layer has by itself, given all strategies:
     * a weight that two layers use and lay out differently. Counted when a plan is known. NULL:
     * none. */
    weft_status (*together)(void *context, const struct layer_question *question,
                            const struct strategy *strategy, int64_t *bytes);
};

struct layer_problem {
    const struct layer_source *source;
    const struct space *space;
    int64_t devices;
    int64_t limit_bytes;       /* per device: E */
    int64_t global_batch;      /* 0: explored, to find the one with the most samples per second */
    int64_t pp, micro_batches; /* 0: any number */
    /* The time of a known iteration: settings that take longer by their bounds are left out; 0:
     * none is known. */
    int64_t known_ns;
    /* How many stages are looked at per setting before Algorithm 2 decides it; 0: a usual
     * number. */
    int64_t most_work;
    /* How many settings of a batch are looked at, of each PP degree as many; 0: a usual number. */
    int64_t most_settings;
    /* No further setting is begun after so many costs of layers; 0: any number. */
    int64_t most_asked;
    const struct stop *stop; /* NULL: never */
    void (*progress)(void *context, int64_t done, int64_t all, int64_t best_ns);
    void *context;
};

/* One way to lay the model out: the best for its batch, PP degree and micro-batches. */
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
    int64_t searched; /* number of stages whose strategies were chosen */
    /* Number of settings in which every layer has a strategy and that known_ns does not rule
     * out. */
    int64_t settings;
    bool stopped;
    bool cut_short; /* at most_settings */
};

/* WEFT_NO_ANSWER: nothing fits, nothing takes less than known_ns, the search was stopped, or no
 * setting is possible with any limit; the message says which. */
weft_status galvatron_search(struct arena *keep, const struct layer_problem *problem,
                             struct layer_plans *out);
/* Whether so many costs were asked that no further setting is begun. */
bool layer_search_spent(const struct layer_problem *problem);

#endif

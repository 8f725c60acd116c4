/* sim.h - the simulator: runs a plan's execution graph with costs over the cluster's links; the
 * result is when everything happens, where time goes and how full memory gets.
 *
 *   I1  A stage's times by purpose, idle and the rest included, add up to the iteration.
 *   I2  The same plan and the same costs give the same bytes, folded or not, whatever the number of
 *       threads.
 */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include "compile/compile.h"
#include "sim/engine.h"
#include "sim/flows.h"
#include "sim/item_cost.h"

/* ---- where time goes ------------------------------------------------------------------------- */

/* A stage's compute stream, from 0 to the end of the iteration: what it does and, while it waits,
 * what it waits for. TIME_BUBBLE is waiting for other stages' computation. */
enum { TIME_BUBBLE = PURPOSE_COUNT, TIME_COUNT };
const char *time_name(int time); /* purpose_name, "bubble" */

/* ---- memory ---------------------------------------------------------------------------------- */

/* Tensors of one operator and kind that exist when a device holds most. */
struct holding {
    const char *what; /* "layers.0-11.mlp.up output, 4 micro-batches" */
    enum memory_class memory;
    int64_t bytes;
};
struct stage_peak {
    int64_t bytes[MEMORY_CLASS_COUNT]; /* at the moment of the peak */
    int64_t peak;                      /* allocated, the sum of `bytes` */
    int64_t state[MEMORY_CLASS_COUNT]; /* what exists before the first slot and stays */
    /* what the device needs: what a caching allocator reserves from it, the driver and libraries, the buffers
     * of the groups that it is in (communicators.c), and what is to stay free */
    int64_t reserved, context, communicators, margin;
    int64_t limit; /* of their sum: the device's memory, or the plan's limit */
    /* If that is too much, what is reserved when the allocator returns free segments to the full device, which it does
     * before it gives up; 0: not asked for, not needed, or still too much for this stage or another. */
    int64_t returning;
    int64_t host; /* the most that checkpoints and state take in host memory */
    int64_t at_ns;
    int32_t slot;  /* of the stage's schedule, in which the peak happens; -1: in none */
    int64_t place; /* of the fullest device in the stage, if they differ (plan/subset.h); else 0 */
    bool in_step;  /* the peak happens in the optimizer's step */
    const struct holding *holding; /* the largest, in descending order */
    int32_t holdings;
};
/* reserved + context + communicators + margin: plan.h, (1). */
int64_t stage_needed(const struct stage_peak *memory);
/* What one device of a stage holds from this moment until the next point. */
struct memory_point {
    int64_t at_ns;
    int64_t bytes[MEMORY_CLASS_COUNT];
};

/* The most that one device of a stage holds, as the simulator counts it, in bytes. Needs only the
 * graph's blocks and lifetimes. */
int64_t stage_peak_bytes(const struct graph *graph, int32_t stage);
/* The same of one device of the stage, counted from its first, where they differ (plan/subset.h). */
int64_t place_peak_bytes(const struct graph *graph, int32_t stage, int64_t place);
/* The part of it that exists before the first slot and stays. */
int64_t stage_state_bytes(const struct plan *plan, int32_t stage);

/* ---- the prediction -------------------------------------------------------------------------- */

struct stage_prediction {
    int64_t time_ns[TIME_COUNT]; /* I1 */
    int64_t waits_most_ns;       /* the longest of its waits, summed by what they wait for */
    const char *waits_most;      /* "gradients from stage 4", NULL: none */
    struct stage_peak memory;
};

/* Operators' times by their source: how much each source contributes. */
struct reliance {
    enum provenance provenance;
    const char *source;
    double share; /* of all operators' time */
};

struct prediction {
    struct arena *arena; /* owns everything below, and itself */
    const struct plan *plan;
    /* with its own plan's micro-batches: fewer if a long iteration is extrapolated */
    struct graph *graph;
    struct arena *shorter;      /* owns that plan; NULL: it is `plan` */
    struct engine_graph engine; /* its tasks are the graph's, in the same order */
    struct engine_result result;
    const struct link_id *link; /* per link of the engine; folded: one of its class */
    const int64_t *lane_ns;     /* per item of each block, row by row: how long it takes alone */
    const int64_t *lane_first;  /* per block: its first entry in lane_ns */
    int64_t iteration_ns;       /* result.end, or extrapolated from it (continued.c) */
    double flops;        /* of the model, forward and backward, all devices, no recomputation */
    double masked_flops; /* those of them whose keys causal masks hide */
    int32_t busiest; /* the stage whose breakdown is the iteration's: the one that waits least */
    struct stage_prediction *stage; /* one per stage of the plan */
    /* Memory over time: the points of stage s are [point_first[s], point_first[s + 1]) of `point`,
     * in order. NULL: not recorded. */
    const int64_t *point_first;
    const struct memory_point *point;
    bool fits;                 /* every stage's stage_needed is within its limit */
    bool folded_unalike;       /* folded though groups are not alike: the slowest stands for all */
    const char *critical_path; /* in words */
    const struct reliance *reliance; /* the largest share first */
    int32_t reliances;
    double compile_s, simulate_s; /* wall clock */
};

/* What a simulation leaves out of how tasks change each other, to show how much it matters. */
struct omitted {
    bool sharing;  /* of links: every transfer takes as long as alone */
    bool slowdown; /* of computation beside transfers, and of these */
};

struct simulate_options {
    enum fold fold;
    const char *profile; /* a database that takes precedence over the shipped ones, NULL: none */
    struct cost *cost;   /* opened for this device; NULL: opened with `profile` */
    /* what folded graphs on this cluster keep for each other (flow_cache_for); NULL: nothing */
    struct flow_cache *flows;
    /* what simulations keep for each other about the allocator; NULL: nothing */
    struct reserved_cache *reserved;
    /* nobody asks what fits: no allocator is simulated, and reserved is the peak */
    bool times_only;
    bool points; /* also memory over time */
    /* while somebody waits: extrapolated from as few micro-batches as show it (continued.c, I5), steps apart from sends
     * (compile_options) */
    bool briefly;
    /* also what is reserved when a full device gets free segments back (stage_peak) */
    bool returning;
    bool shared_network; /* others use it, too (compile_options); with FOLD_NEVER */
    struct omitted omitted;
    /* when it asks to stop there is no prediction: WEFT_NO_ANSWER; NULL: never */
    const struct stop *stop;
};
/* A cache of what stages reserve, for any number of threads. */
struct reserved_cache *reserved_cache_new(void);
void reserved_cache_free(struct reserved_cache *cache);

weft_status simulate(const struct plan *plan, const struct simulate_options *options,
                     struct prediction **out);
void prediction_free(struct prediction *prediction);
/* Model TFLOP/s of each device. */
double prediction_tflops(const struct prediction *prediction);
/* Without the keys that causal masks hide; and as the plan's software counts in its log (software_log_skips_masked). */
double prediction_causal_tflops(const struct prediction *prediction);
double prediction_logged_tflops(const struct prediction *prediction);

const char *exchange_name(const struct exchange *exchange); /* "all_reduce", "to host" */
/* "F3", "all_reduce", "optimizer" */
struct text32 task_label(const struct prediction *prediction, const struct task *task);
/* The duration of a task by purpose: a run of operators may include recomputation and communication
 * within its stage. */
void task_times(const struct prediction *prediction, int32_t number,
                int64_t time_ns[PURPOSE_COUNT]);

/* What crosses a link in an iteration, as a share of what it could carry in that time. */
struct link_load {
    struct link_id link;
    double bytes, busy;
};
/* The busiest first; of links with the same link_text only the busiest; at most `most`. */
int32_t link_loads(struct arena *keep, const struct prediction *prediction, int32_t most,
                   struct link_load **out);

/* Writes every task (and, within a block's run, every item) on the track of its device and stream,
 * sends as arrows, memory as counters, in Chrome's trace format, which Perfetto reads. If the limit
 * is exceeded, details are left out in the order of enum trace_detail. */
enum trace_detail {
    TRACE_ALL,    /* every device of the graph */
    TRACE_STAGES, /* the first device of each stage: the others do the same (graph.h, I3) */
    TRACE_TASKS,  /* only the tasks of those devices, without items; written whatever the limit */
    TRACE_DETAIL_COUNT
};
struct trace_options {
    int64_t events; /* the largest number of slices; 0: LIMIT_TRACE */
};
enum trace_detail trace_detail(const struct prediction *prediction,
                               const struct trace_options *options);
/* The file appears when it is complete, in place of any older one. */
weft_status trace_write(const struct prediction *prediction, const struct trace_options *options,
                        const char *path);

/* What one device did for a task of the unfolded graph in one step of a run; for an exchange, every
 * device that took part. Written in the same format, with the step and the task's number. */
struct measured_task {
    int64_t step;         /* from 1 */
    int32_t task, device; /* of the graph */
    int64_t begin_ns, end_ns;
};
weft_status trace_write_measured(const struct graph *graph, const struct measured_task *tasks,
                                 size_t count, const char *path);

#endif

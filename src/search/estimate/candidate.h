/* candidate.h - how long a plan takes and what memory it needs, without simulating it: what every
 * planner asks, millions of times, before the simulator has the last word.
 *
 * An iteration consists of four things, each computed from the simulator's own costs:
 *
 *   passes    a part's forward and backward pass of one micro-batch: operators, reshards, and the
 *             gathers and gradients beside them, slowed down where they overlap      (passes.h)
 *   pipeline  what the passes of uneven stages add up to, per schedule               (pipeline.h)
 *   the end   remaining gradients, tied weights, the optimizer, gathers of updated weights
 *   memory    per stage, with n micro-batches in flight (Galvatron-BMW, Eq. 2)
 *               state + max{ (n - 1) kept + rise of forward, n kept + rise of backward }       (1)
 *
 * estimate_plan takes the passes from the plan itself: it accepts any plan, runs in O(instances),
 * independent of the number of micro-batches and devices, and takes about a millisecond. A
 * *candidate* is what a search compares: runs of instances with a *row* of choices each (one choice
 * per operator), cut into parts and laid over stages. Its passes come from tables of rows
 * (tables.h): estimate_candidate takes O(parts + runs), and estimate_moved, after a cut between two
 * parts has moved, looks only at those two again: about a microsecond for eight stages.
 *
 *   I1  The same question has the same answer, whatever was asked before.
 *   I2  An estimator serves one thread; each thread has its own.
 *   I3  With everything in one row and the cuts of a plan, a candidate's estimate equals that of
 *       its plan, except for how gradients fall into buckets and for overlaps that a cut divides.
 */
#ifndef WEFT_SEARCH_ESTIMATE_CANDIDATE_H
#define WEFT_SEARCH_ESTIMATE_CANDIDATE_H

#include "plan/plan.h"
#include "schedule/schedule.h"

/* What all candidates of a search share. */
struct estimate_settings {
    const struct model *model;
    const struct cluster *cluster;
    enum dtype dtype;
    enum policy policy;
    struct software software;
    enum update_rule optimizer;
    int64_t replicate; /* as in a plan */
    double optimizer_offload;
    int64_t stage_run;    /* as in a plan, and of stages of equal sizes */
    int64_t group;        /* as in a plan */
    int64_t defer_head;   /* as in a plan */
    unsigned overlap;     /* of enum overlap */
    int64_t bucket_bytes; /* as in a plan */
    struct memory_terms memory;
    bool whole_sends;
    /* At most this many copies of each repeated layer are compiled for candidates; a middle one
     * stands for those left out (few_copies.h); 0: all are compiled. */
    int64_t copies;
    const char *profile; /* a database to look in before the shipped ones; NULL: none */
    /* What estimators on one cluster keep for each other (flow_cache_for); NULL, or of another cluster: each has its
     * own. */
    struct flow_cache *flows;
};
struct estimate_settings estimate_settings_of(const struct plan *plan);
void estimate_settings_give(const struct estimate_settings *settings, struct plan *plan);

struct estimator;
weft_status estimator_new(const struct estimate_settings *settings, struct estimator **out);
void estimator_free(struct estimator *estimator);

/* What estimated tensors may take of a device. Estimates know neither the allocator's gaps nor the
 * communicators: ALLOCATOR_ALLOWANCE of the room (plan.h) is left for them. Of several pools, on the largest devices. */
int64_t estimate_limit_bytes(const struct cluster *cluster, const struct memory_terms *terms);

/* ---- answers --------------------------------------------------------------------------------- */

struct stage_estimate {
    /* For one micro-batch and all pieces; weight gradients included. */
    int64_t forward_ns, backward_ns;
    int64_t first_more_ns; /* more in the first forward pass: gathers of weights */
    int64_t last_more_ns;  /* more in the last backward pass: gradients beside it */
    int64_t tail_ns;       /* gradients after the last backward pass */
    /* For one micro-batch, to the next stage and to the one before. */
    int64_t send_ns, back_ns;
    int64_t optimizer_ns;
    int64_t end_ns; /* when everything on this stage is over */
    int64_t peak_bytes, limit_bytes;
};
struct estimate {
    int64_t iteration_ns;
    int64_t peak_bytes, limit_bytes; /* on the devices of the fullest stage */
    bool fits;
    int32_t stages;
    struct stage_estimate *stage;
};

/* Estimates a plan of the settings' cluster that has passed plan_check; the answer's stages are in
 * `keep`. */
weft_status estimate_plan(struct estimator *estimator, const struct plan *plan, struct arena *keep,
                          struct estimate *out);

/* ---- rows and runs --------------------------------------------------------------------------- */

/* The number of a row: one choice per operator of the model, all for the same number of devices.
 * Equal rows share a number. -1: the model could not be compiled. */
int32_t estimator_row(struct estimator *estimator, const struct choice *choice);

struct candidate_run {
    int64_t first, last; /* instances first .. last - 1 */
    int32_t row;
};
/* A run on a stage by itself: the terms that layer-by-layer searches add up (layerwise.h's c, O_f,
 * O_b and O_ms). */
struct run_question {
    struct candidate_run run;
    struct stage stage;
    const struct schedule *schedule;
    int64_t step_samples, micro_batches;
};
struct run_estimate {
    int64_t forward_ns, backward_ns; /* for one micro-batch */
    /* Of them, what passes take besides their operators; of two runs in a row it is the sum. */
    int64_t forward_waits_ns, backward_waits_ns;
    int64_t first_more_ns; /* more in the first forward pass: gathers of weights */
    int64_t last_more_ns;  /* more in the last backward pass: gradients beside it */
    int64_t sync_ns;       /* its gradients alone */
    /* The part of them that is synchronised with every micro-batch. */
    int64_t sync_each_ns;
    int64_t gather_ns; /* gathers of weights after the optimizer step */
    int64_t optimizer_ns;
    int64_t kept_bytes; /* per micro-batch, kept for the backward pass */
    int64_t peak_bytes; /* additional bytes at the peak of the backward pass */
    int64_t state_bytes;
};
weft_status estimate_run(struct estimator *estimator, const struct run_question *question,
                         struct run_estimate *out);
/* What a reshard costs, both ways, where another row follows the run (R). */
weft_status estimate_reshard(struct estimator *estimator, const struct run_question *question,
                             int32_t next_row, int64_t *ns);

/* The additional cost on either side where another stage follows the run. */
struct side_estimate {
    int64_t ns; /* for one micro-batch, both ways */
    int64_t kept_bytes, peak_bytes;
};
struct border_estimate {
    struct side_estimate before, after;
    int64_t send_ns, back_ns; /* for one micro-batch */
};
weft_status estimate_border(struct estimator *estimator, const struct run_question *question,
                            const struct stage *next, int32_t next_row,
                            struct border_estimate *out);
/* What a stage takes once, whatever its runs: bytes that stand in for gradients, and the fixed
 * start of the optimizer step. */
struct stage_overhead {
    int64_t state_bytes, optimizer_ns;
};
weft_status estimate_overhead(struct estimator *estimator, const struct run_question *question,
                              struct stage_overhead *out);

/* ---- candidates ------------------------------------------------------------------------------ */

/* What may be left out of a candidate's estimate where a rough answer is enough. */
enum detail {
    DETAIL_ALL,
    /* Stages of whole nodes are all treated like the first, their borders like that between the
     * first and the second. */
    DETAIL_ALIKE,
    DETAIL_BARE /* the same, and nothing is sent between parts: borders are left out */
};
struct candidate {
    const struct schedule *schedule;
    int32_t stages, pieces; /* part k belongs to stage k % stages, as in a plan */
    int64_t step_samples, micro_batches;
    struct stage *stage;         /* per stage */
    int32_t *first_run;          /* per part, and one past the last */
    struct candidate_run *run;   /* in order, without gaps; at least one per part */
    struct candidate_memo *memo; /* what the latest estimate found, part by part */
    enum detail detail;
};
/* A candidate with room for this many stages, pieces and runs, to be filled in. */
struct candidate *candidate_new(struct arena *keep, int32_t stages, int32_t pieces, int32_t runs);
/* Makes as few rows and runs as the plan's choices allow. The plan must have the estimator's
 * settings. */
weft_status candidate_of_plan(struct estimator *estimator, const struct plan *plan,
                              struct arena *keep, struct candidate **out);

/* The answer's stages belong to the candidate and are valid until it is estimated again. */
weft_status estimate_candidate(struct estimator *estimator, struct candidate *candidate,
                               struct estimate *out);
/* The same when, since the last estimate, only the cut between part `part` and the next one moved
 * (or only rows of runs inside these two parts changed, not those of their outermost runs). */
weft_status estimate_moved(struct estimator *estimator, struct candidate *candidate, int32_t part,
                           struct estimate *out);

/* ---- orders ---------------------------------------------------------------------------------- */

/* Finds an order of the plan's slots for its own times, transfers and limits of memory (schedule_find_order), with backward
 * passes whole or in two, whichever is faster; its placement is the plan's. `fill` is the share of memory that it may take by estimate.
 * WEFT_NO_ANSWER: none fits. */
weft_status estimate_order(struct estimator *estimator, const struct plan *plan, double fill,
                           struct arena *keep, struct order_answer *out);

#endif

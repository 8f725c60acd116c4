/* planner.h - what every planner is asked and answers.
 *
 *   I1  Everything that was simulated is remembered with its time and memory, so that an answer can
 *       say what each dimension's next best value would have cost.
 *   I2  The best is what fits and takes the least time per sample; ties go to less memory, then to
 *       smaller values in the order of the dimensions.
 *       Within plan_options.simplest of it the simplest is the answer, and stands first.
 *   I3  A planner that is stopped, or whose budget is spent, answers with the best so far.
 *   I4  Same request, same answer, whatever the number of threads; but for I3.
 *   I5  A plan is one trial of an answer, however many found it: that of who tried it first.
 */
#ifndef WEFT_SEARCH_PLANNER_H
#define WEFT_SEARCH_PLANNER_H

#include <stdatomic.h>

#include "search/estimate/estimate.h"
#include "search/planner/forbid.h"
#include "sim/sim.h"
#include "target/target.h"

/* Dimensions of a plan that one number can say. */
enum dimension {
    DIMENSION_DP,
    DIMENSION_TP,
    DIMENSION_PP,
    DIMENSION_PIECES,
    DIMENSION_MICRO_BATCH,
    DIMENSION_SHARD,
    DIMENSION_RECOMPUTE,
    DIMENSION_COUNT
};
/* As a dimension's value: not the same everywhere in the plan. */
enum { MIXED = -1 };
const char *dimension_name(enum dimension dimension); /* "micro-batch" */

struct trial {
    int64_t value[DIMENSION_COUNT]; /* of enum recompute, for that; or MIXED */
    const char *text;       /* "dp 4 tp 8 pp 2 micro-batch 2 zero 1": degrees_text, or mixed */
    struct degrees degrees; /* what the plan was lowered from; */
    struct plan *plan;      /* or the plan itself, the answer's own; NULL: the degrees' */
    const char *found_by;   /* the planner that tried it: "aceso from galvatron" */
    int64_t number;         /* in the order they were tried, from 1 */
    int64_t global_batch;
    int64_t iteration_ns;
    int64_t peak_bytes, limit_bytes; /* of the fullest stage */
    int32_t stage;                   /* which that is */
    bool fits;
};
/* "8", "full", "mixed" */
const char *trial_value_text(struct arena *keep, const struct trial *trial,
                             enum dimension dimension);

/* ---- asking ---------------------------------------------------------------------------------- */

struct progress {
    const char *who;    /* is at work, where the planner asked another one; NULL: itself */
    const char *what;   /* is counted: "layouts" */
    int64_t done, all;  /* all is 0 where nobody knows */
    int64_t trials;     /* plans simulated */
    int64_t candidates; /* plans estimated */
    int64_t best_ns;    /* 0: nothing fits so far */
};

/* What only some planners take. */
enum planner_option {
    TAKES_SPACE,
    TAKES_BATCH_AUTO,
    TAKES_BUDGET,
    TAKES_QUICK,
    TAKES_MAX_HOPS,
    TAKES_INITIAL,
    TAKES_LOG,
    TAKES_SEARCH,
    TAKES_SEED,
    TAKES_THREADS,
    TAKES_FORBID,
    TAKES_EXTENSION,
    TAKES_COUNT
};
/* A plan of the same model, cluster and batch to go on from. */
struct begin_plan {
    const struct plan *plan;
    int64_t iteration_ns; /* simulated */
};
struct plan_options {
    unsigned given;      /* 1 << enum planner_option */
    const char *space;   /* the strategies of a layer (space.h) */
    bool batch_auto;     /* the batch with the most samples per second; pins have no global_batch */
    int64_t budget_ns;   /* of wall-clock time */
    bool quick;          /* auto asks nobody who takes seconds; it has many questions to answer */
    int64_t max_hops;    /* reconfigurations in a row before one must be better */
    const char *initial; /* where to begin: a name of the planner's own, or a plan file, */
    const struct begin_plan *begin; /* or these plans, each with another number of stages */
    int32_t begins;                 /* 0: none */
    int64_t most_configs; /* aceso judges few more by estimate, counted, not timed; 0: any */
    int64_t most_trials;  /* aceso simulates no more; 0: any */
    const char *log;      /* a file for every step of the search, as JSON */
    const char *search;   /* an algorithm of the planner's own */
    double
        simplest; /* share of time within which the simplest plan is the answer; 0: the fastest is */
    int64_t seed;
    int64_t threads; /* 0: as many as there are processors */
};

struct plan_request {
    const struct model *model;
    const struct cluster *cluster;
    struct degrees pins; /* what is not 0, or has_ says it was given, stays; global_batch is needed
                            unless the batch is explored */
    struct forbids forbids;
    const struct target *target; /* whose plans are looked for; NULL: any that can be simulated */
    struct plan_options options;
    const char *profile; /* a database before the shipped ones, NULL: none */
    int64_t known_ns;    /* of an iteration that fits: a planner may leave out what is slower by its
                            bounds, and find nothing; 0: nothing is known */
    /* What an experiment changes of one planner's search; that planner's header declares it (aceso.h:
     * struct aceso_study). No command of the program sets it; NULL: nothing. */
    const void *extension;
    atomic_bool *stop; /* I3; NULL: nobody stops it */
    bool answered;     /* whoever asks has an answer already: stopped, it needs none */
    /* Called now and then; NULL: nobody looks. */
    void (*progress)(void *context, const struct progress *progress);
    void *context;
};

/* ---- answering ------------------------------------------------------------------------------- */

struct planned {
    struct arena *arena; /* owns everything below, and itself */
    const char *planner;
    ARRAY(struct trial) trials;  /* in the order of I2, what does not fit after what does */
    ARRAY(const char *) reasons; /* what the planner has to say beyond that, a sentence each */
    int64_t candidates;          /* estimated, without being simulated */
    bool stopped;
    double search_s;
};

/* Whether auto asks it, too. */
enum joins {
    JOINS_NEVER,  /* what it finds is in auto's own grid */
    JOINS_ALWAYS, /* it takes no longer than the grid */
    JOINS_IN_TIME /* it takes seconds, or minutes on many devices: not in a quick search */
};
struct planner {
    const char *name;
    const char *summary;
    unsigned takes; /* 1 << enum planner_option */
    enum joins joins;
    bool goes_on; /* from the plans of others: plan_options.begin */
    weft_status (*find)(const struct plan_request *request, struct planned *out);
};
/* The planners there are (search/search.c). */
size_t planners(const struct planner **out);
const struct planner *planner_find(const char *name); /* NULL if unknown */
const struct planner *planner_default(void);          /* where nobody names one */
const struct planner *planner_that_goes_on(void);     /* from the plans of others */
/* The same, or the default where the name is NULL; an error that lists the names. */
weft_status planner_named(const char *name, const struct planner **out);
/* Asks one planner. WEFT_NO_ANSWER when nothing can be planned at all; that nothing fits is said by
 * the first trial. */
weft_status plan_search(const struct planner *planner, const struct plan_request *request,
                        struct planned **out);
void planned_free(struct planned *planned);
/* The plan of a trial, the caller's to free from here on; to be taken once. */
weft_status trial_take(const struct plan_request *request, struct trial *trial, struct plan **out);

/* The best trial with another value in this dimension, fitting if any does; NULL: none was tried. */
const struct trial *next_best(const struct planned *planned, enum dimension dimension);

/* ---- for planners ---------------------------------------------------------------------------- */

bool plan_stopped(const struct plan_request *request); /* by whoever asked */
/* The same, or the budget is spent, which begins now. */
struct stop plan_stop(const struct plan_request *request);

/* Simulates one choice of degrees and remembers it; *trial is valid until the next. Degrees that
 * make no plan, or one that the request's target does not run, are no error: *trial is NULL. */
weft_status try_degrees(const struct plan_request *request, struct cost *cost,
                        const struct degrees *degrees, struct planned *planned,
                        const struct trial **trial);

/* The same of a plan that has passed plan_check, which belongs to the answer from here on, whatever
 * is returned. `text` says in a line what it is, in planned->arena, where no degrees
 * do. */
weft_status try_plan(const struct plan_request *request, struct cost *cost, struct plan *plan,
                     const char *text, struct planned *planned, const struct trial **trial);

/* Moves the simplest trial within the tolerance of the fastest to the front (simplest.c). */
void prefer_simplest(struct planned *planned, double tolerance);
/* Leaves, of the trials in the order of I2, those that the request's target runs; the best of the others are
 * replaced by the nearest plans that it does run, simulated (for_target.c). */
weft_status keep_what_runs(const struct plan_request *request, struct planned *planned);

#include "search/planner/what_if.h"

#endif

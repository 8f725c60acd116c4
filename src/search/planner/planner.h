/* planner.h - what every planner is asked and answers.
 *
 *   I1  Everything that was simulated is remembered with its time and memory, so that an answer can
 *       say what the next best value of each dimension would have cost.
 *   I2  The best trial is the one that fits and takes the least time per sample; ties go to less
 *       memory, then to smaller values in the order of the dimensions.
 *       Of the trials within plan_options.simplest of the best, the simplest of those that leave memory free
 *       is the answer, and comes first (simplest.c).
 *   I3  A planner that is stopped, or whose budget is spent, answers with the best so far.
 *   I4  The same request has the same answer, whatever the number of threads, except under I3.
 *   I5  A plan is one trial of an answer, however many planners found it: the trial of the planner
 *       that tried it first.
 */
#ifndef WEFT_SEARCH_PLANNER_H
#define WEFT_SEARCH_PLANNER_H

#include <stdatomic.h>

#include "search/estimate/estimate.h"
#include "search/planner/forbid.h"
#include "sim/sim.h"
#include "target/target.h"

/* Dimensions of a plan that a single number describes. */
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
/* A dimension's value when it is not the same everywhere in the plan. */
enum { MIXED = -1 };
const char *dimension_name(enum dimension dimension); /* "micro-batch" */

/* Recomputation as a number: of enum recompute, and with the modules of a list another one for each list. */
int64_t recompute_value(const struct degrees *degrees);

struct trial {
    int64_t value[DIMENSION_COUNT]; /* or MIXED; recompute_value for that dimension */
    const char *text; /* "dp 4 tp 8 pp 2 micro-batch 2 zero 1", from degrees_text, or "mixed" */
    struct degrees degrees; /* the degrees that the plan was lowered from, */
    struct plan *plan;      /* or the plan itself, which the answer owns; NULL: use the degrees */
    const char *found_by;   /* the planner that tried it: "aceso from galvatron" */
    int64_t number;         /* trials are numbered in the order they were tried, from 1 */
    int64_t global_batch;
    int64_t iteration_ns;
    int64_t time_ns[TIME_COUNT]; /* the same by purpose, on the stage that waits least */
    /* Of the fullest stage: what it needs of a device's memory (plan.h, (1)), the margin in that, the limit of it, and what
     * the limit leaves for the allocator. */
    int64_t needed_bytes, margin_bytes, limit_bytes, room_bytes;
    int32_t stage; /* which that is */
    bool fits;     /* needed_bytes <= limit_bytes */
};
/* By how much it does not fit; 0: it does. */
int64_t trial_excess(const struct trial *trial);
/* What its allocator reserves. */
int64_t trial_reserved(const struct trial *trial);
/* "8", "full", "mixed" */
const char *trial_value_text(struct arena *keep, const struct trial *trial,
                             enum dimension dimension);

/* ---- asking ---------------------------------------------------------------------------------- */

struct progress {
    const char *who;    /* the planner at work, if the planner asked another one; NULL: itself */
    const char *what;   /* what is counted: "layouts" */
    int64_t done, all;  /* all is 0 if nobody knows the total */
    int64_t trials;     /* plans simulated so far */
    int64_t candidates; /* plans estimated so far */
    int64_t best_ns;    /* 0: nothing fits so far */
};

/* Options that only some planners take. */
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
    TAKES_ACESO_STUDY,
    TAKES_GALVATRON_STUDY,
    TAKES_ENCODER, /* pins_encoder */
    TAKES_COUNT
};
/* A plan of the same model, cluster and batch to start from. */
struct begin_plan {
    const struct plan *plan;
    int64_t iteration_ns; /* simulated */
};
struct plan_options {
    unsigned given;    /* options that the user gave: 1 << enum planner_option */
    const char *space; /* the strategies that a layer may use (space.h) */
    /* Find the batch with the most samples per second; pins have no global_batch. */
    bool batch_auto;
    int64_t budget_ns; /* of wall-clock time */
    /* The caller has many questions: auto asks no planner that takes seconds. */
    bool quick;
    int64_t max_hops;    /* reconfigurations in a row before one of them must be better */
    const char *initial; /* where to start: one of the planner's own names, or a plan file, */
    const struct begin_plan *begin; /* or these plans, each with a different number of stages */
    int32_t begins;                 /* their number; 0: none */
    /* Aceso judges hardly more configs than this by estimate: an effort that is counted instead of
     * timed; 0: no limit. */
    int64_t most_configs;
    int64_t most_trials; /* Aceso simulates at most this many plans; 0: no limit */
    const char *log;     /* a file that records every step of the search as JSON */
    const char *search;  /* one of the planner's own algorithms */
    /* Share of time within which the simplest plan that leaves memory free is the answer; 0: the fastest plan is. */
    double simplest;
    int64_t seed;
    int64_t threads; /* 0: as many as there are processors */
};

struct plan_request {
    const struct model *model;
    const struct cluster *cluster;
    /* What the user fixed: a degree that is not 0, or whose has_ flag is set, stays. global_batch
     * is needed unless the batch is explored. */
    struct degrees pins;
    /* What of the pins the user fixed, where they also hold what the target always does; NULL: all. */
    const struct degrees *asked;
    struct forbids forbids;
    /* The best plans are tried with orders of their own (orders.c), or with this one. */
    bool orders;
    const struct schedule *order;
    /* The plans must run on it; NULL: any plan that can be simulated. */
    const struct target *target;
    /* Where the target refuses the pins, the nearest plan that it runs is searched, quickly, and named. */
    bool names_nearest;
    struct plan_options options;
    const char *profile; /* a database to look in before the shipped ones; NULL: none */
    /* What trials on the cluster keep for each other; NULL: plan_search opens it. */
    struct flow_cache *flows;
    struct reserved_cache *reserved;
    struct estimators *estimators; /* the same, for walks over the grid */
    /* The share of what estimates may take of memory, if all that was found needs more when simulated; 0: all
     * of it. */
    double fill;
    /* Time of a known iteration that fits: a planner may leave out what its bounds prove slower,
     * and may then find nothing; 0: no such time is known. */
    int64_t known_ns;
    /* How many plans a planner may simulate that has no other bound of its work; 0: a usual number. */
    int64_t most_trials;
    /* What an experiment changes in one planner's search; that planner's header says what it is. No command of the
     * program sets them; NULL: nothing. */
    const struct aceso_study *aceso_study;
    const struct galvatron_study *galvatron_study;
    atomic_bool *stop; /* I3; NULL: nobody can stop it */
    /* I3: when the budget of the whole search is spent, in terms of wall_seconds; 0: plan_search says so */
    double deadline_s;
    /* Walks over the grid look at plans that hide tokens alone (OVERLAP_EXPERTS of the pins), which nobody asked for. */
    bool hides_tokens;
    bool answered; /* the caller has an answer already and needs none if it stops this search */
    /* Called now and then during the search; NULL: not called. */
    void (*progress)(void *context, const struct progress *progress);
    void *context;
};

/* ---- answering ------------------------------------------------------------------------------- */

struct planned {
    struct arena *arena; /* owns everything below, and this struct itself */
    const char *planner;
    ARRAY(struct trial) trials;  /* in the order of I2; trials that do not fit come last */
    ARRAY(const char *) reasons; /* further remarks of the planner, one sentence each */
    /* The reason that says which change makes a plan fit; NULL: a plan fits, or nobody asked. */
    const char *would_fit;
    int64_t candidates; /* estimated, but not simulated */
    bool stopped;
    double search_s;
};

/* Whether auto asks this planner, too. */
enum joins {
    JOINS_NEVER,  /* auto's own grid contains everything that it finds */
    JOINS_ALWAYS, /* it takes no longer than the grid */
    JOINS_IN_TIME /* it takes seconds, or minutes on many devices: left out of a quick search */
};
/* Pins that a planner's search may not know (put_pins.c). */
enum put_pin {
    PUT_FIRST_LAYERS, /* recompute_layers */
    PUT_SCORES,       /* selective recomputation without a list */
    PUT_MODULES,      /* of modules in a list */
    PUT_CHECKPOINTS,  /* that are offloaded */
    PUT_KEPT,         /* offload_modules */
    PUT_HEAD,         /* defer_head */
    PUT_COUNT
};
struct planner {
    const char *name;
    const char *summary;
    unsigned takes; /* 1 << enum planner_option */
    unsigned puts;  /* 1 << enum put_pin: pins that plans get after its search */
    enum joins joins;
    bool pools;   /* it plans for clusters of several device types (cluster/pools.h) */
    bool goes_on; /* it can start from other planners' plans: plan_options.begin */
    weft_status (*find)(const struct plan_request *request, struct planned *out);
};
/* All planners (the table is in search/search.c). */
size_t planners(const struct planner **out);
const struct planner *planner_find(const char *name); /* NULL if unknown */
const struct planner *planner_default(void);          /* the one to use if nobody names one */
/* The one that starts from other planners' plans. */
const struct planner *planner_that_goes_on(void);
/* Like planner_find, with the default for a NULL name; an unknown name is an error that lists the
 * names. */
weft_status planner_named(const char *name, const struct planner **out);
/* Asks one planner. Returns WEFT_NO_ANSWER when nothing can be planned at all; if plans exist but
 * none fits, the first trial says so. */
weft_status plan_search(const struct planner *planner, const struct plan_request *request,
                        struct planned **out);
void planned_free(struct planned *planned);
/* Hands over the plan of a trial, which the caller frees; to be called once per trial. */
weft_status trial_take(const struct plan_request *request, struct trial *trial, struct plan **out);

/* The best trial with another value in this dimension, one that fits if there is any; NULL: none
 * was tried. */
const struct trial *next_best(const struct planned *planned, enum dimension dimension);

/* Asks a planner's search, and puts the pins that it does not know onto what it finds (put_pins.c). */
weft_status planner_ask(const struct planner *planner, const struct plan_request *request,
                        struct planned *out);
/* By worth (I2), but for its last tie-break; and all trials in the order of I2. */
int trial_compare_worth(const struct trial *x, const struct trial *y);
void trials_sort(struct planned *planned);

/* ---- for planners ---------------------------------------------------------------------------- */

/* Whether the caller has stopped the search. */
bool plan_interrupted(const struct plan_request *request);
/* The same, or the budget of the whole search is spent. */
bool plan_stopped(const struct plan_request *request);
/* The same, or the planner's own share of the budget is, whose time starts with this call. */
struct stop plan_stop(const struct plan_request *request);

/* Whether the user has given degrees of an encoder of images, which only plans of degrees keep. */
bool pins_encoder(const struct degrees *pins);
/* The largest cp and ep that a search tries where nobody pins them: 1 where sequences are short, or where there
 * are no experts (open_degrees.c). */
int64_t searched_cp(const struct model *model);
/* The largest cp that auto tries in walks of their own, where searched_cp is 1; 1: none. */
int64_t walked_cp(const struct model *model, int64_t devices);
int64_t searched_ep(const struct model *model);

/* What all plans of the request have in common, and their texts leave out; a batch that is searched is each plan's own. */
struct degrees unsaid_degrees(const struct plan_request *request);

/* Simulates one choice of degrees and remembers it; *trial is valid until the next call. Degrees
 * that make no plan, or one that the request's target does not run, are no error: *trial is NULL
 * then. */
weft_status try_degrees(const struct plan_request *request, struct cost *cost,
                        const struct degrees *degrees, struct planned *planned,
                        const struct trial **trial);

/* The same for a plan that has passed plan_check. The answer owns the plan from here on, whatever
 * is returned. `text`, in planned->arena, describes the plan in a line where no degrees do. */
weft_status try_plan(const struct plan_request *request, struct cost *cost, struct plan *plan,
                     const char *text, struct planned *planned, const struct trial **trial);
/* Such a text of what the plan's operators have in common and where they differ (mix_words.c). */
const char *mix_text(struct arena *keep, const struct plan *plan);

/* The usual tolerance: predictions of like plans are off by more. */
#define USUAL_SIMPLEST 0.01
/* Moves the simplest trial within the tolerance of the fastest to the front (simplest.c). */
void prefer_simplest(struct planned *planned, double tolerance);
/* The fastest of the simplest trials that fit; NULL: none does, or it is the first. */
const struct trial *simplest_trial(const struct planned *planned);
/* ---- orders (orders.c) ----------------------------------------------------------------------- */

/* Gives a plan the order that is found for it; its time as simulated is *ns. WEFT_NO_ANSWER: none fits. */
weft_status plan_find_order(struct plan *plan, const char *profile, int64_t *ns);
/* A plan of degrees whose schedule is `any`: with the order that is found for it. */
weft_status plan_with_found_order(const struct model *model, const struct cluster *cluster,
                                  const struct degrees *degrees, const char *profile,
                                  struct plan **out);
/* Takes `any`, or a file, out of the pins; a file is read into `keep`. */
weft_status ask_for_orders(struct plan_request *request, struct arena *keep);
/* Numbers of replicas with which the batch has the given order's micro-batches, one after another from 0; 0: no more. */
int64_t next_replicas(const struct plan_request *request, int64_t dp);
/* Tries the best trials, which are sorted, with orders. */
weft_status add_orders(const struct plan_request *request, struct planned *planned);

/* Keeps, of the trials in the order of I2, those that the request's target runs; the best of the
 * others are replaced by the nearest plans that it runs, which are simulated (for_target.c). */
weft_status keep_what_runs(const struct plan_request *request, struct planned *planned);

#include "search/planner/what_if.h"

#include "search/planner/recompute_levels.h"

#endif

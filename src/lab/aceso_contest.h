/* aceso_contest.h - compares two planners on the same models and machines: Aceso's search and the best point of
 * Megatron-LM's grid (Aceso, Tables 3 to 5). Each plan is searched again and simulated.
 *
 *   I1  What the authors did is a fact about a family of models or a machine: nothing here uses the numbers
 *       in a table.
 */
#ifndef WEFT_LAB_ACESO_CONTEST_H
#define WEFT_LAB_ACESO_CONTEST_H

#include "lab/published.h"
#include "search/search.h"

struct search_table;

/* ---- what the authors did (data/validation/aceso.yaml; contest_facts.c) ---------------------- */

/* A point of Megatron-LM's grid. */
struct contest_point {
    int64_t dp, tp, pp, micro_batch;
    int64_t encoder_stages; /* of a model with two stacks: the stages of the first one; 0: all */
    bool recompute;         /* everything is recomputed; else nothing */
};
struct contest_model {
    const char *billions, *name; /* of parameters, as the tables say; the preset */
    struct contest_point ran;    /* dp is 0 on one device, where there is no choice */
};
/* How stages are cut (contest_grid.c). */
enum grid_cut { CUT_LAYERS, CUT_BLOCKS, CUT_STACKS };
enum { CONTEST_STEPS = 8 };
struct contest_family {
    const char *name;
    const struct contest_facts *facts;
    int64_t batch;
    int64_t step
        [CONTEST_STEPS]; /* samples with which operators were measured; only these were searched */
    int32_t steps;
    int64_t one_device; /* the micro-batch on one device */
    int cut;            /* of enum grid_cut */
    ARRAY(struct contest_model) models;
};
/* What the paper says about the plan of a model. */
struct claim_made {
    const char *model, *says;
    const struct plan_trait *trait; /* contest_claims.c */
};
struct contest_facts {
    const char *cluster;
    int64_t devices_per_node, limit_bytes;
    ARRAY(struct contest_family) families;
    ARRAY(struct claim_made) claims;
};
/* Everything is allocated in `keep`. */
weft_status contest_facts_open(struct arena *keep, const struct contest_facts **out);
weft_status contest_facts_parse(struct arena *keep, const char *file, const char *text, size_t len,
                                const struct contest_facts **out);
/* NULL if there is none. */
const struct contest_family *contest_family_find(const struct contest_facts *facts,
                                                 const char *name);
/* Finds a model by its parameters or by its name; the other argument is NULL. */
const struct contest_model *contest_model_of(const struct contest_family *family,
                                             const char *billions, const char *name);

/* ---- the contest ----------------------------------------------------------------------------- */

enum rival {
    RIVAL_RUN,    /* Megatron-LM with the point of its grid that Aceso's authors chose and ran */
    RIVAL_SEARCH, /* Aceso */
    RIVAL_GRID,   /* Megatron-LM with the point that is best by Weft's estimate: nobody ran it */
    RIVAL_COUNT
};
const char *rival_name(enum rival rival); /* "Megatron-LM", "Aceso", "its grid" */

/* The properties of a stage that section 5.4 mentions. */
struct stage_traits {
    int64_t devices, operators, recomputed; /* of the operators */
    bool mixed;                             /* the operators differ in their data parallelism */
};

struct contest {
    const char *family, *model; /* "GPT-3", "gpt3-1.3b" */
    int64_t devices;
    double measured[RIVAL_COUNT], predicted[RIVAL_COUNT]; /* TFLOP/s per device; 0 if none */
    const char *plan[RIVAL_COUNT];                        /* in words */
    double found_s; /* iteration time of the plan that the search found; 0 if none */
    /* Of the plans that the authors' own program found (below): the one that it chooses (NULL if the file has
     * none), the time of its iteration, the bytes of its fullest stage by the authors' count, and the time of an
     * iteration of the plan that is fastest when simulated. */
    const struct author_plan *author_plan;
    double authors_s, authors_least_s;
    int64_t authors_bytes;
    int32_t run_stages; /* of the plan that Megatron-LM ran; 0 if none */
    int32_t stages;     /* of the plan that was found; 0 on one device, where nothing is searched */
    struct stage_traits *stage;
};
struct contests {
    struct contest *data;
    size_t len, cap;
    const struct contest_facts *facts;
};

weft_status contests_read(struct arena *keep, const struct search_table *table,
                          struct contests *out);
/* The same from a text in memory, which is modified; `file` is the name for messages. */
weft_status contests_parse(struct arena *keep, const char *file, char *text, size_t len,
                           struct contests *out);
weft_status contest_predict(struct arena *keep, struct contest *contest);
/* Predicts only the plan that Megatron-LM ran. */
weft_status contest_predict_run(struct arena *keep, struct contest *contest);
/* Predicts the plans of the authors' own program. */
weft_status contest_predict_authors(struct arena *keep, const struct plan_request *request,
                                    struct contest *contest);
/* FLOPs of an iteration, forward and backward, as the tables count them. */
double contest_flops(const struct plan *plan);

/* ---- results --------------------------------------------------------------------------------- */

/* Over those contests of a family (or of all, NULL) that are predicted. */
struct contest_tally {
    struct errors rate[RIVAL_COUNT]; /* of TFLOP/s, where they were measured */
    int64_t gains;                   /* contests on several devices */
    /* How many times as fast Aceso's plan is as the other, on average: as measured, and as predicted
     * over each of the other two. */
    double measured, over[RIVAL_COUNT];
};
struct contest_tally contests_tally(struct arena *scratch, const struct contests *contests,
                                    const char *family);

/* What section 5.4 says about a plan, and whether it holds for the plan that was found. */
struct contest_claim {
    const char *says;  /* "four stages of one device" */
    const char *found; /* what the found plan has: "3 stages: 2, 1, 1 devices" */
    const struct contest *contest;
    bool holds;
};
struct contest_claims {
    struct contest_claim *data;
    size_t len, cap;
};
void contests_claims(struct arena *keep, const struct contests *contests,
                     struct contest_claims *out);

/* ---- Megatron-LM's grid (contest_grid.c) -------------------------------------------------------- */

/* The point that was run, and the best point of the grid by the estimate among those that fit by the request's count
 * of memory. The caller frees the plan; it is NULL if there is none. Texts are allocated in `keep`. */
weft_status contest_run_plan(struct arena *keep, const struct contest_family *family,
                             const struct plan_request *request, struct plan **out,
                             const char **text);
weft_status contest_grid_plan(struct arena *keep, const struct contest_family *family,
                              const struct plan_request *request, struct plan **out,
                              const char **text);

/* The request for a model of the tables on a number of devices: 1f1b, no overlap, the authors' count of memory. */
struct contest_setup {
    const struct contest_family *family;
    struct model *model;
    struct cluster *cluster;
    struct memory_count count; /* on several devices: the authors' (below) */
    struct aceso_study study;
    struct plan_request request;
};
/* The setup owns the model and the machine; the rest is allocated in `keep`. */
weft_status contest_set_up(struct arena *keep, const char *family, const char *model,
                           int64_t devices, struct contest_setup *out);
void contest_take_down(struct contest_setup *setup);

/* ---- what the authors' own program finds (author_plans.c) ------------------------------------- */

enum { AUTHOR_STAGES = 32 }; /* no plan has more */
struct author_stage {
    int64_t devices, tp, operators;
    const char *recomputed; /* numbers of operators: "5-6 18-19" */
};
struct author_plan {
    const char *model;
    int64_t devices, step; /* the step in samples of all replicas */
    double predicted_s;    /* of an iteration, by the authors' cost model */
    ARRAY(struct author_stage) stages;
};
struct author_plans {
    struct author_plan *data;
    size_t len, cap;
};
weft_status author_plans_read(struct arena *keep, struct author_plans *out);
weft_status author_plans_parse(struct arena *keep, const char *file, char *text, size_t len,
                               struct author_plans *out);
/* Makes the plan with the request's model, machine and pins; the caller frees it. */
weft_status author_plan_make(const struct author_plan *found, const struct plan_request *request,
                             struct plan **out);
const char *author_plan_text(struct arena *keep, const struct author_plan *found);

/* ---- memory as the authors counted it (contest_memory.c) ---------------------------------------- */

/* What the operators of a model of the tables allocated when they were measured; allocated in `keep`. */
struct footprints;
weft_status footprints_new(struct arena *keep, const struct model *model,
                           const struct cluster *cluster, struct footprints **out);
/* The authors' count; a plan with an operator that was not measured with its split is impossible. */
struct memory_count footprints_count(const struct footprints *prints);

#endif

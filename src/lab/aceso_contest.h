/* aceso_contest.h - two planners held against each other on the same models and machines: Aceso's search and
 * the best of Megatron-LM's grid (Aceso, Tables 3 to 5). Each plan is found anew, and simulated.
 *
 *   I1  What the authors did is a fact about a family of models or a machine: nothing here looks at
 *       what a table says.
 */
#ifndef WEFT_LAB_ACESO_CONTEST_H
#define WEFT_LAB_ACESO_CONTEST_H

#include "lab/published.h"
#include "search/search.h"

struct search_table;

/* ---- what the authors did (data/validation/aceso.yaml; contest_facts.c) ---------------------- */

/* Of Megatron-LM's grid. */
struct contest_point {
    int64_t dp, tp, pp, micro_batch;
    int64_t encoder_stages; /* of two stacks: how many stages the first one has; 0: all */
    bool recompute;         /* everything; else nothing */
};
struct contest_model {
    const char *billions, *name; /* of parameters, as the tables have it; a preset */
    struct contest_point ran;    /* dp is 0: one device, where there is no choice */
};
/* How stages are cut (contest_grid.c). */
enum grid_cut { CUT_LAYERS, CUT_BLOCKS, CUT_STACKS };
enum { CONTEST_STEPS = 8 };
struct contest_family {
    const char *name;
    const struct contest_facts *facts;
    int64_t batch;
    int64_t step
        [CONTEST_STEPS]; /* samples that operators were measured for: nothing else was searched */
    int32_t steps;
    int64_t one_device; /* the micro-batch there */
    int cut;            /* of enum grid_cut */
    ARRAY(struct contest_model) models;
};
/* What the paper says of the plan of a model. */
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
/* Everything is in `keep`. */
weft_status contest_facts_open(struct arena *keep, const struct contest_facts **out);
weft_status contest_facts_parse(struct arena *keep, const char *file, const char *text, size_t len,
                                const struct contest_facts **out);
/* NULL: there is none. */
const struct contest_family *contest_family_find(const struct contest_facts *facts,
                                                 const char *name);
/* By its parameters or by its name; the other one is NULL. */
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

/* What section 5.4 tells of a stage. */
struct stage_traits {
    int64_t devices, operators, recomputed; /* of the operators */
    bool mixed;                             /* not all of them have the same data parallelism */
};

struct contest {
    const char *family, *model; /* "GPT-3", "gpt3-1.3b" */
    int64_t devices;
    double measured[RIVAL_COUNT], predicted[RIVAL_COUNT]; /* TFLOP/s of a device; 0: none */
    const char *plan[RIVAL_COUNT];                        /* in words */
    double found_s; /* an iteration of the search's plan; 0: none */
    /* Of the plans that the authors' own program found, below: the one that it takes (NULL: none is
     * kept), an iteration of it, bytes of its fullest stage by the authors' count, and an iteration of
     * the one that is the fastest when simulated. */
    const struct author_plan *author_plan;
    double authors_s, authors_least_s;
    int64_t authors_bytes;
    int32_t run_stages; /* of the plan that Megatron-LM ran; 0: none */
    int32_t stages;     /* of the search's plan; 0: it had nothing to search, on one device */
    struct stage_traits *stage;
};
struct contests {
    struct contest *data;
    size_t len, cap;
    const struct contest_facts *facts;
};

weft_status contests_read(struct arena *keep, const struct search_table *table,
                          struct contests *out);
/* The same from a text in memory, which is changed; `file` stands for its name. */
weft_status contests_parse(struct arena *keep, const char *file, char *text, size_t len,
                           struct contests *out);
weft_status contest_predict(struct arena *keep, struct contest *contest);
/* The plan that Megatron-LM ran with, and no other. */
weft_status contest_predict_run(struct arena *keep, struct contest *contest);
/* What is told of the authors' own plans. */
weft_status contest_predict_authors(struct arena *keep, const struct plan_request *request,
                                    struct contest *contest);
/* Of an iteration, forward and backward, as the tables count them. */
double contest_flops(const struct plan *plan);

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Of the contests of a family, or of all (NULL), that are predicted. */
struct contest_tally {
    struct errors rate[RIVAL_COUNT]; /* of TFLOP/s, where measured */
    int64_t gains;                   /* contests on several devices */
    /* How many times as fast Aceso's plan is as the other, on average: as measured, and as predicted
     * over either. */
    double measured, over[RIVAL_COUNT];
};
struct contest_tally contests_tally(struct arena *scratch, const struct contests *contests,
                                    const char *family);

/* What section 5.4 says of a plan, and whether the one that was found has it. */
struct contest_claim {
    const char *says;  /* "four stages of one device" */
    const char *found; /* what there is instead, or too: "3 stages: 2, 1, 1 devices" */
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

/* The point that was run, and the best of the grid by the estimate that has room by the request's count of
 * memory; the caller's to free, NULL: there is none. Their words are in `keep`. */
weft_status contest_run_plan(struct arena *keep, const struct contest_family *family,
                             const struct plan_request *request, struct plan **out,
                             const char **text);
weft_status contest_grid_plan(struct arena *keep, const struct contest_family *family,
                              const struct plan_request *request, struct plan **out,
                              const char **text);

/* What a model of the tables is searched with on so many devices: 1f1b, nothing overlaps, their memory. */
struct contest_setup {
    const struct contest_family *family;
    struct model *model;
    struct cluster *cluster;
    struct memory_count count; /* of several devices: the authors' (below) */
    struct aceso_study study;
    struct plan_request request;
};
/* The model and the machine are the setup's; `keep` has the rest. */
weft_status contest_set_up(struct arena *keep, const char *family, const char *model,
                           int64_t devices, struct contest_setup *out);
void contest_take_down(struct contest_setup *setup);

/* ---- what the authors' own program finds (author_plans.c) ------------------------------------- */

enum { AUTHOR_STAGES = 32 }; /* no plan has more */
struct author_stage {
    int64_t devices, tp, operators;
    const char *recomputed; /* operators of the model: "5-6 18-19" */
};
struct author_plan {
    const char *model;
    int64_t devices, step; /* samples of all replicas */
    double predicted_s;    /* of an iteration, by their model */
    ARRAY(struct author_stage) stages;
};
struct author_plans {
    struct author_plan *data;
    size_t len, cap;
};
weft_status author_plans_read(struct arena *keep, struct author_plans *out);
weft_status author_plans_parse(struct arena *keep, const char *file, char *text, size_t len,
                               struct author_plans *out);
/* With the request's model, machine and pins; the caller's to free. */
weft_status author_plan_make(const struct author_plan *found, const struct plan_request *request,
                             struct plan **out);
const char *author_plan_text(struct arena *keep, const struct author_plan *found);

/* ---- memory as the authors counted it (contest_memory.c) ---------------------------------------- */

/* What the operators of a model of the tables allocated when they were measured, in `keep`. */
struct footprints;
weft_status footprints_new(struct arena *keep, const struct model *model,
                           const struct cluster *cluster, struct footprints **out);
/* The authors' count; an operator that was not measured as it lies cannot be. */
struct memory_count footprints_count(const struct footprints *prints);

#endif

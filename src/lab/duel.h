/* duel.h - two planners held against each other on the same models and machines: Aceso's search and
 * the best of Megatron-LM's grid (Aceso, Tables 3 to 5). Each plan is found anew, and simulated.
 *
 *   I1  What the authors did is a fact about a family of models or a machine: nothing here looks at
 *       what a table says.
 */
#ifndef WEFT_LAB_DUEL_H
#define WEFT_LAB_DUEL_H

#include "lab/published.h"
#include "search/search.h"

struct search_table;

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

struct duel {
    const char *family, *model; /* "GPT-3", "gpt3-1.3b" */
    int64_t devices;
    double measured[RIVAL_COUNT], predicted[RIVAL_COUNT]; /* TFLOP/s of a device; 0: none */
    const char *plan[RIVAL_COUNT];                        /* in words */
    double found_s; /* an iteration of the search's plan; 0: none */
    /* Of the plans that the authors' own program found, below: the one that it takes (NULL: none is
     * kept), an iteration of it, bytes of its fullest stage by the authors' count, and an iteration of
     * the one that is the fastest when simulated. */
    const struct their_plan *theirs;
    double theirs_s, theirs_least_s;
    int64_t theirs_bytes;
    int32_t run_stages; /* of the plan that was run */
    int32_t stages;     /* of the search's plan; 0: it had nothing to search, on one device */
    struct stage_traits *stage;
};
struct duels {
    struct duel *data;
    size_t len, cap;
};

weft_status duels_read(struct arena *keep, const struct search_table *table, struct duels *out);
/* The same from a text in memory, which is changed; `file` stands for its name. */
weft_status duels_parse(struct arena *keep, const char *file, char *text, size_t len,
                        struct duels *out);
weft_status duel_predict(struct arena *keep, struct duel *duel);
/* The plan that Megatron-LM ran with, and no other. */
weft_status duel_predict_run(struct arena *keep, struct duel *duel);
/* What is told of the authors' own plans. */
weft_status duel_predict_theirs(struct arena *keep, const struct plan_request *request,
                                struct duel *duel);
/* Of an iteration, forward and backward, as the tables count them. */
double duel_flops(const struct plan *plan);

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Of the duels of a family, or of all (NULL), that are predicted. */
struct duel_tally {
    struct errors rate[RIVAL_COUNT]; /* of TFLOP/s, where measured */
    int64_t gains;                   /* duels on several devices */
    /* How many times as fast Aceso's plan is as the other, on average: as measured, and as predicted
     * over either. */
    double measured, over[RIVAL_COUNT];
};
struct duel_tally duels_tally(struct arena *scratch, const struct duels *duels, const char *family);

/* What section 5.4 says of a plan, and whether the one that was found has it. */
struct duel_claim {
    const char *says;  /* "four stages of one device" */
    const char *found; /* what there is instead, or too: "3 stages: 2, 1, 1 devices" */
    const struct duel *duel;
    bool holds;
};
struct duel_claims {
    struct duel_claim *data;
    size_t len, cap;
};
void duels_claims(struct arena *keep, const struct duels *duels, struct duel_claims *out);

/* ---- Megatron-LM's grid (duel_grid.c) -------------------------------------------------------- */

struct contest;                                         /* what the authors did with a family */
const struct contest *contest_find(const char *family); /* NULL: none of that name */
int64_t contest_batch(const struct contest *contest);
int64_t contest_one_device(const struct contest *contest); /* the micro-batch there */
/* Micro-batches and steps that the authors measured operators for: nothing else was searched. */
int64_t contest_least(const struct contest *contest);
int64_t contest_most(const struct contest *contest);
/* The point that was run, and the best of the grid by the estimate that has room by the request's count of
 * memory; the caller's to free, NULL: there is none. Their words are in `keep`. */
weft_status contest_run(struct arena *keep, const struct contest *contest,
                        const struct plan_request *request, struct plan **out, const char **text);
weft_status contest_grid(struct arena *keep, const struct contest *contest,
                         const struct plan_request *request, struct plan **out, const char **text);

/* What a model of the tables is searched with on so many devices: 1f1b, nothing overlaps, their memory. */
struct duel_stand {
    struct model *model;
    struct cluster *cluster;
    struct memory_count count; /* of several devices: the authors' (below) */
    struct aceso_study study;
    struct plan_request request;
};
/* The model and the machine are the stand's; `keep` has the rest. */
weft_status duel_stand_up(struct arena *keep, const char *family, const char *model,
                          int64_t devices, struct duel_stand *out);
void duel_take_down(struct duel_stand *stand);

/* ---- what the authors' own program finds (duel_theirs.c) ------------------------------------- */

enum { THEIR_STAGES = 32 }; /* no plan has more */
struct their_stage {
    int64_t devices, tp, operators;
    const char *recomputed; /* operators of the model: "5-6 18-19" */
};
struct their_plan {
    const char *model;
    int64_t devices, step; /* samples of all replicas */
    double predicted_s;    /* of an iteration, by their model */
    ARRAY(struct their_stage) stages;
};
struct their_plans {
    struct their_plan *data;
    size_t len, cap;
};
weft_status theirs_read(struct arena *keep, struct their_plans *out);
weft_status theirs_parse(struct arena *keep, const char *file, char *text, size_t len,
                         struct their_plans *out);
/* With the request's model, machine and pins; the caller's to free. */
weft_status theirs_plan(const struct their_plan *theirs, const struct plan_request *request,
                        struct plan **out);
const char *theirs_text(struct arena *keep, const struct their_plan *theirs);

/* ---- memory as the authors counted it (duel_memory.c) ---------------------------------------- */

/* What the operators of a model of the tables allocated when they were measured, in `keep`. */
struct footprints;
weft_status footprints_new(struct arena *keep, const struct model *model,
                           const struct cluster *cluster, struct footprints **out);
/* The authors' count; an operator that was not measured as it lies cannot be. */
struct memory_count footprints_count(const struct footprints *prints);

#endif

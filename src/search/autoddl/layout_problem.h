/* layout_problem.h - which split each operator of a model takes, as an assignment (assign.h).
 *
 * A variable is an operator; all its copies take the same option, one of its splits on a stage. Its
 * time is, over an iteration of M micro-batches on S stages of equal work,
 *
 *   ((M - 1) / S + 1) * copies * (forward + backward [+ forward again])                          (1)
 *     + copies / S * (e * synchronisation of gradients + optimizer step)
 *
 * with the simulator's costs. An edge connects an operator to one that reads its output. Its time
 * is that of the reshards of the output and of its gradient,
 *
 *   ((M - 1) / S + 1) * uses * (there + f * (again, if gathered and read again) + f * back)      (2)
 *
 * With e = f = 1 nothing overlaps: AutoDDL's sum. A smaller e means that a part of the gradients is
 * sent beside the backward pass; a smaller f, that a part of what a matrix product sends and
 * gathers there goes beside its other half. Readers that are no products have f = 1
 * (layout_expose). In (2) the forward reshards of what is recomputed count twice, and a reshard
 * takes the steps of least volume (compile.h), as a plan does, each timed on its links. Memory, of
 * one device, is
 *
 *   copies / S * (state + kept * min(M, S))                                                      (3)
 *
 *   I1  A tensor that several operators read by the same reshard is brought to each of them: a plan
 *       brings it once, so (2) is at least what the plan takes.
 *   I2  What is kept of an output that is left as a partial sum is counted as scattered.
 *   I3  A tied weight belongs to its owner if both are laid out alike on one stage; otherwise its
 *       user pays for a copy and for bringing gradients and weights from one to the other.
 */
#ifndef WEFT_SEARCH_AUTODDL_LAYOUT_PROBLEM_H
#define WEFT_SEARCH_AUTODDL_LAYOUT_PROBLEM_H

#include "search/autoddl/assign.h"
#include "search/autoddl/splits.h"
#include "sim/sim.h"

enum layout_measure {
    LAYOUT_TIME, /* (1) and (2), in ns */
    /* Elements through each device's link: AutoDDL's Table 2, both ways, and nothing else. */
    LAYOUT_VOLUME
};

/* What is the same for all operators. */
struct layout_case {
    const struct model *model;
    const struct cluster *cluster;
    struct cost *cost;         /* NULL with LAYOUT_VOLUME */
    struct reshards *reshards; /* reshards found for other cases by the same thread; NULL: none */
    /* of other cases with as many stages, by the same thread; NULL: none */
    struct step_times *times;
    struct assign_work *work; /* what searches of all those cases together may do; NULL: anything */
    enum dtype dtype;
    enum policy policy;
    int64_t global_batch, step_samples;
    int32_t stages;
    uint8_t shard;
    bool recompute; /* recompute layers */
    /* Reshards may take less than alone: OVERLAP_PRODUCTS, OVERLAP_EXPERTS, OVERLAP_KEYS, or tokens that are sent to a
     * device once. */
    bool hides;
    int32_t narrow;     /* number of levels (splits.h, I6) */
    bool blocks;        /* of images (splits.h, I8) */
    double limit_bytes; /* INFINITY: none */
    /* The time to beat: without a faster plan there is no assignment; 0: none. */
    double below_ns;
    bool drop; /* drop options that no faster plan has */
    enum layout_measure measure;
};

struct layout_problem {
    struct arena *arena; /* owns everything below, and this struct itself */
    struct layout_case about;
    /* No plan that fits is simulated below this (layout_floor.c); 0: not looked for. */
    double floor_ns;
    /* One variable per operator of the model; NULL: by the floor, no plan is below the case's time, or too
     * many options may be in one. */
    struct assign *assign;
    struct splits *splits; /* per operator: its options */
    struct layout_work *work;
};
weft_status layout_problem_new(const struct layout_case *about, struct layout_problem **out);
void layout_problem_free(struct layout_problem *problem);
/* Whether everything that was asked for could be timed. */
weft_status layout_problem_status(const struct layout_problem *problem);

/* The shares that nothing hides, 1 at first: e of (1) and f of (2). As f, LAYOUT_BESIDE means what
 * is left of a reshard after the product that runs beside it: for gathers the product of input
 * gradients, for reshards on their way back that of weight gradients. */
struct layout_exposed {
    double gradients, reshards;
};
enum { LAYOUT_BESIDE = -1 };
void layout_expose(struct layout_problem *problem, struct layout_exposed exposed);

/* The choice of an operator with one of its options. */
struct choice layout_choice(const struct layout_problem *problem, int32_t op, int32_t option);
/* A quick floor of a case by degrees alone, with nothing sent, for all splits, narrow or not.
 * INFINITY: nothing fits. */
weft_status layout_floor(const struct layout_case *about, double *floor_ns);
/* The floor that layout_problem_new finds, without an assignment: the case's time to beat, or
 * less. */
weft_status layout_floor_below(const struct layout_case *about, double *floor_ns);
/* (2) of one edge without its factor, there and back, in the case's measure. */
struct layout_edge {
    double there, back;
    bool gathers;
};
struct layout_edge layout_edge_cost(const struct layout_problem *problem, int32_t edge, int32_t i,
                                    int32_t j);

/* The plan of an assignment: an ordinary, checked plan on `stages` stages with the schedule
 * 1f1b. */
weft_status layout_plan(const struct layout_problem *problem, const int32_t *option,
                        struct plan **out);

#endif

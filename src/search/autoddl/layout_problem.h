/* layout_problem.h - which split each operator of a model takes, as an assignment (assign.h).
 *
 * A variable is an operator; all its copies take the same option, one of its splits on a stage. Its
 * time is, over an iteration of M micro-batches on S stages of equal work,
 *
 *   ((M - 1) / S + 1) * copies * (forward + backward [+ forward again])                          (1)
 *     + copies / S * (e * synchronisation of gradients + optimizer step)
 *
 * as the simulator costs them. An edge joins an operator to one that reads its output: the reshards of
 * the output and of its gradient,
 *
 *   ((M - 1) / S + 1) * uses * (there + f * (again, if gathered and read again) + f * back)      (2)
 *
 * With e = f = 1 nothing overlaps: AutoDDL's sum. Less says that a part of the gradients goes beside the
 * backward pass, and of what a matrix product sends and gathers there, beside its other half; readers
 * that are none have f = 1 (layout_expose). In (2) forward reshards of what is recomputed count twice,
 * and a reshard takes the steps of least volume (compile.h), as a plan does, each timed on its links.
 * Memory, of one device, is
 *
 *   copies / S * (state + kept * min(M, S))                                                      (3)
 *
 *   I1  Equal tensors that several operators read by the same reshard are brought to each: a plan
 *       brings them once, so (2) is at least what it does.
 *   I2  Of an output that is left as a partial sum, what is kept is counted as scattered.
 *   I3  A tied weight belongs to its owner where both lie alike on one stage; else its user pays for
 *       a copy and for bringing gradients and weights from one to the other.
 */
#ifndef WEFT_SEARCH_AUTODDL_LAYOUT_PROBLEM_H
#define WEFT_SEARCH_AUTODDL_LAYOUT_PROBLEM_H

#include "search/autoddl/assign.h"
#include "search/autoddl/splits.h"
#include "sim/sim.h"

enum layout_measure {
    LAYOUT_TIME,  /* (1) and (2), in ns */
    LAYOUT_VOLUME /* elements through each device's link: Table 2, both ways, nothing else */
};

/* What is the same for all operators. */
struct layout_case {
    const struct model *model;
    const struct cluster *cluster;
    struct cost *cost;         /* NULL with LAYOUT_VOLUME */
    struct reshards *reshards; /* found for other cases, by the same thread; NULL: none */
    enum dtype dtype;
    enum policy policy;
    int64_t global_batch, step_samples;
    int32_t stages;
    uint8_t shard;
    bool recompute; /* layers */
    bool
        hides; /* reshards may take less than alone: OVERLAP_PRODUCTS, _EXPERTS, tokens that go once */
    int32_t narrow;     /* levels (splits.h, I6) */
    double limit_bytes; /* INFINITY: none */
    double below_ns;    /* there is no assignment where no plan is faster; 0: nobody asks */
    bool drop;          /* options that no faster plan has */
    enum layout_measure measure;
};

struct layout_problem {
    struct arena *arena; /* owns everything below, and itself */
    struct layout_case about;
    double
        floor_ns; /* no plan that fits is simulated below it (layout_floor.c); 0: nobody looked */
    struct assign
        *assign; /* per operator of the model a variable; NULL: no plan is below the case's
                              time, by the floor, or too many options may be in one */
    struct splits *splits; /* per operator: its options */
    struct layout_work *work;
};
weft_status layout_problem_new(const struct layout_case *about, struct layout_problem **out);
void layout_problem_free(struct layout_problem *problem);
/* Whether everything that was asked for could be timed. */
weft_status layout_problem_status(const struct layout_problem *problem);

/* Shares that nothing hides, 1 at first: e of (1) and f of (2). LAYOUT_BESIDE as f is what the products
 * leave over that a reshard goes on beside: of gathers those of input gradients, of reshards on their way
 * back those of weight gradients. */
struct layout_exposed {
    double gradients, reshards;
};
enum { LAYOUT_BESIDE = -1 };
void layout_expose(struct layout_problem *problem, struct layout_exposed exposed);

/* The choice of an operator with one of its options. */
struct choice layout_choice(const struct layout_problem *problem, int32_t op, int32_t option);
/* The floor of a case by degrees alone, nothing sent, for all splits, narrow or not: quick. INFINITY:
 * nothing fits. */
weft_status layout_floor(const struct layout_case *about, double *floor_ns);
/* The floor of layout_problem_new, without an assignment: the case's time to beat, or less. */
weft_status layout_floor_below(const struct layout_case *about, double *floor_ns);
/* What (2) is of one edge without its factor: there, and back; of the case's measure. */
struct layout_edge {
    double there, back;
    bool gathers;
};
struct layout_edge layout_edge_cost(const struct layout_problem *problem, int32_t edge, int32_t i,
                                    int32_t j);

/* The plan of an assignment: ordinary, checked, on `stages` stages with the schedule 1f1b. */
weft_status layout_plan(const struct layout_problem *problem, const int32_t *option,
                        struct plan **out);

#endif

/* layout_room.h - inside layout_problem: the operators' graph, and the costs of its options. */
#ifndef WEFT_SEARCH_AUTODDL_LAYOUT_ROOM_H
#define WEFT_SEARCH_AUTODDL_LAYOUT_ROOM_H

#include "search/autoddl/layout_problem.h"
#include "search/autoddl/step_time.h"

/* Input `operand` of b comes from a, `count` times in the model. */
struct layout_use {
    int32_t operand;
    double count;
};
struct layout_uses {
    int32_t a, b;
    bool tie; /* b uses a's weight */
    ARRAY(struct layout_use) list;
};

/* (2) with f = 0, and the parts that f multiplies: all of it, and what is left of it beside the
 * products. */
struct layout_uses_time {
    double shown, hidden, left;
};

/* The layouts of an operator's operands under each of its options. */
struct layout_laid {
    struct layout *output, *output_grad;
    struct layout **input, **input_grad; /* per input, then option */
};

/* What an option of an operator takes on its own. */
struct layout_alone {
    /* One copy, one micro-batch; of that, the gradients of inputs and of weights. */
    double pass, inputs, weights;
    /* what its neighbours exchange for it beside that, as far as its products do not hide it */
    double halo;
    double least_update; /* one copy's optimizer step (layout_floor.c, I4) */
    double time, sync;   /* (1), and the synchronisation in it with e = 1 */
    double memory;       /* (3) */
};

struct layout_work {
    struct plan *plan; /* copies on one stage, used to ask for costs */
    struct step_times *times;
    struct reshards *reshards;
    struct item_costs costs;
    ARRAY(struct layout_uses) edges; /* those of the assignment, then those within one operator */
    int64_t *first;                  /* per operator: its first instance */
    int32_t *follows; /* per instance: which input the one before it made; -1: none */
    double *copies;
    struct layout_laid *laid;
    double each, once;               /* the factors of (1): per micro-batch, per iteration */
    double byte_ns;                  /* the least time of a byte on any link */
    double node_byte_ns;             /* the same into a node, through all its links; 0: one node */
    double parameter_ns;             /* per parameter, for the optimizer step of a large bucket */
    struct layout_alone **alone;     /* per operator and option */
    struct layout_uses_time **found; /* per edge, for entries that were found */
    struct layout_exposed exposed;   /* as used in the times */
    int64_t devices;                 /* per stage */
    bool floor_only;                 /* no assignment is asked for */
};

static inline bool layout_by_volume(const struct layout_problem *p)
{
    return p->about.measure == LAYOUT_VOLUME;
}

/* The operator whose weight it uses; -1: its own. */
static inline int32_t layout_tied_to(const struct op *op)
{
    return op->weights ? op->weight[0].tied_op : -1;
}

/* Whether a part of its reshards is hidden by its other half. */
static inline bool layout_is_product(const struct op *op)
{
    return op->kind == OP_LINEAR || op->kind == OP_EXPERT_LINEAR || op->kind == OP_CONV;
}

/* ---- an operator alone: (1) and (3) ---------------------------------------------------------- */

/* Times of one copy of an operator that owns its weights, or is treated as if it did. */
struct layout_state_times {
    double sync, update;
    double updated; /* parameters */
};
/* Without `sync`, the synchronisation is left out, which takes longest to find. */
struct layout_state_times layout_state_time(const struct layout_problem *p, const struct op *op,
                                            const struct choice *choice, bool sync);
double layout_partial_degree(const struct layout *layout); /* addends of its partial sums */
/* Fills in everything but synchronisation, which no floor counts and which is found afterwards. */
weft_status layout_fill_option(struct layout_problem *p, int32_t number, int32_t option);
void layout_fill_sync(struct layout_problem *p, int32_t number, int32_t option);
/* Keeps only these options of an operator, in rising order. */
void layout_keep_options(struct layout_problem *p, int32_t number, const int32_t *option,
                         int32_t count);
/* Finds the case's floor, and drops options that are in no plan below its time to beat
 * (layout_floor.c). */
weft_status layout_find_floor(struct layout_problem *p);

/* ---- two operators: (2) ---------------------------------------------------------------------- */

/* assign.h's find and least (layout_bound.c); the context is the problem. */
void layout_find_pair(void *context, int32_t edge, int32_t i, int32_t j);
double layout_least_of_pair(void *context, int32_t edge, int32_t i, int32_t j);
/* A lower bound of a reshard, in ns or elements (layout_bound.c). */
double layout_least_of_reshard(const struct layout_problem *p, const struct layout *from,
                               const struct layout *to, int64_t element_bytes);
/* What the lower bound by degrees needs of a layout. */
struct layout_degrees {
    int64_t elements;                /* of the whole tensor */
    double local;                    /* elements that a device holds */
    double copies, addends, devices; /* degrees: of copies, of partial sums, of all together */
    double node_wanted, node_there;  /* the share of a node's devices, at least and at most */
};
struct layout_degrees layout_degrees_of(const struct layout_problem *p,
                                        const struct layout *layout);
double layout_least_between(const struct layout_problem *p, const struct layout_degrees *from,
                            const struct layout_degrees *to, int64_t element_bytes);
/* A lower bound of layout_least_of_reshard, by the degrees of splits across nodes and within them, in
 * whatever order: layout_least_between of the two. */
double layout_least_by_degrees(const struct layout_problem *p, const struct layout *from,
                               const struct layout *to, int64_t element_bytes);
/* (2) with the exposed shares. */
double layout_shown_time(const struct layout_problem *p, const struct layout_uses_time *time);
/* For one input, without factors. */
struct layout_edge layout_use_cost(const struct layout_problem *p, const struct layout_uses *uses,
                                   int32_t operand, int32_t i, int32_t j);
/* For an operator that reads its own output in the next copy. */
double layout_own_time(const struct layout_problem *p, const struct layout_uses *uses, int32_t i);

#endif

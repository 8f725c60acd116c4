/* propagate.h - splits of operators from those of their neighbours; private to the room.
 *
 * The splits that are given cut a stage's devices into *axes*, outermost first. On every axis an operator without a split has
 * one of its dims, or copies; an *option* is one dim, or copies, for every axis.
 */
#ifndef WEFT_PLAN_PROPAGATE_H
#define WEFT_PLAN_PROPAGATE_H

#include "plan/plan.h"

/* Time of a collective along an axis: start_s + bytes * s_per_byte. */
struct collective_line {
    double start_s, s_per_byte;
};
struct mesh_axis {
    int64_t degree;
    int64_t stride;   /* devices from one value to the next */
    unsigned classes; /* of the dims that are given on it, as bits */
    struct collective_line line[COLLECTIVE_COUNT];
};
/* The axes of all stages with so many devices. */
struct mesh_axes {
    int64_t devices;
    int32_t count;
    struct mesh_axis axis[MAX_SPLIT_PARTS];
};

struct split_option {
    int dim[MAX_SPLIT_PARTS]; /* per axis: enum dim, or SPLIT_COPY */
    struct split split;
    double seconds; /* of its work and the sums of its gradients */
};
/* What an operator can choose on some axes. */
struct split_options {
    const struct op *op;
    const struct mesh_axes *axes;
    const struct split *given; /* NULL: free */
    struct split_option *option;
    int32_t count;
    struct option_joint *joints; /* that end here */
    struct split_options *next;
};
/* Seconds of the reshards between options of two operators. */
struct option_joint {
    const struct split_options *from;
    int32_t operand;
    double *seconds; /* by option of `from`, then of the reader */
    struct option_joint *next;
};

enum { MOST_OPTIONS = 128 }; /* of one operator */

/* ---- propagate_options.c --------------------------------------------------------------------- */

struct plan_file;
struct option_space {
    const struct plan *plan;
    struct arena *scratch;
    const struct plan_file *file; /* which says what is given */
    struct mesh_axes *axes;       /* per number of devices that some stage has */
    int32_t meshes;
    struct split_options **first; /* per operator: its options, a list */
    struct split_options **of;    /* per instance */
};
weft_status find_options(struct option_space *space);

/* ---- propagate_costs.c ----------------------------------------------------------------------- */

weft_status axis_lines(const struct plan *plan, struct mesh_axes *axes);
double option_seconds(const struct plan *plan, const struct op *op, const struct mesh_axes *axes,
                      const struct split_option *option);
/* Of one input: forward, and its gradient backward. */
double joint_seconds(const struct plan *plan, const struct split_options *from,
                     const struct split_option *produces, const struct split_options *to,
                     const struct split_option *reads, int32_t operand);

#endif

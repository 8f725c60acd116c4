/* table.h - tables of measured times, read row by row: one reader per format.
 *
 * A row has one time, or one for the forward and one for the backward pass. For each time its
 * reader says two things: the kernels that ran in it, which calibrations are fitted on (observe.c),
 * and the kernel whose time it is, which the database stores (import_times.c).
 *
 *   I1  `kernel` is the timed operator's own, as op_work names it. What ran may be more (a bias, a
 *       copy) or divided differently.
 *   I2  A time that includes a collective or a second operator belongs to no kernel: `left_out`
 *       says so.
 */
#ifndef WEFT_COST_TABLE_H
#define WEFT_COST_TABLE_H

#include "cost/cost.h"

/* The two times of a row; each is calibrated separately. */
enum direction { FORWARD, BACKWARD, DIRECTION_COUNT };
static inline enum direction phase_direction(enum phase phase)
{
    return phase == PHASE_FORWARD ? FORWARD : BACKWARD;
}

/* Whose cross entropy it is: they differ in passes over the logits (memory.c). */
enum measured_loss { LOSS_MEGATRON, LOSS_TORCH, LOSS_COUNT };

enum { TIMING_MAX_WORKS = 8 };
struct timing {
    double ns;
    int works;
    struct work work[TIMING_MAX_WORKS]; /* what ran, one after another; none: unknown */
    bool host_free;                     /* launched as a graph: no gaps between kernels inside */
    double launch_ns;                   /* the host's for all of it, where no graph was; 0: none */
    enum measured_loss loss;            /* if one ran */

    struct work kernel;
    bool whole_backward;  /* both gradients in one time, under the forward's shape */
    const char *left_out; /* why it is no kernel's time; NULL: it is one */

    const char *collective;  /* inside the time: "all_reduce", "channels"; "": none */
    double all_reduce_bytes; /* of that collective; 0: negligible; negative: size unknown */
    int devices;             /* number of devices that take part */
};

/* An operator of a model, as Aceso's and Sailor's tables have it. */
enum { OPERATOR_SIZES = 6 };
struct operator_row {
    const char *model, *op;
    enum dtype dtype;         /* of elements in memory */
    enum dtype matrix_dtype;  /* of matrix products */
    bool input_gradient_only; /* the backward of a linear is one product, not two */
    int64_t batch, tp, algo;
    double size_mb[OPERATOR_SIZES]; /* in the order of the columns, from input_mb on */
};

struct table_row {
    const char *device; /* Weft's name */
    const char *label;  /* what to group errors by: "matmul"; NULL: an unknown operator */
    const char *source; /* who measured it, if the rows say so; or NULL */
    int64_t samples;
    int times;
    struct timing time[DIRECTION_COUNT];
    bool repeated; /* repeats the numbers of another row */
    bool halved,
        held_out; /* the table itself says which half the row belongs to; it is the one that judges */
    const struct operator_row *operator; /* or NULL */
};

typedef weft_status table_sink(void *context, const struct csv *csv, const struct table_row *row);
struct source_table {
    struct csv *csv;
    struct arena *scratch; /* freed after one call; rows passed to the sink are valid as long */
    const char *device;    /* for rows that name none; or NULL */
    table_sink *sink;
    void *context;
};
weft_status table_simumax(struct source_table *table);
weft_status table_weft(struct source_table *table);
weft_status table_aiconfigurator(struct source_table *table); /* products, attention or experts */
weft_status table_operators(struct source_table *table);      /* Aceso's or Sailor's */

/* Sailor's names for its devices. */
struct sailor_device {
    const char *sailor, *name;
    enum dtype fp32; /* the type in which it multiplies "fp32" matrices */
};
weft_status sailor_device(const struct csv *csv, int at, const struct sailor_device **out);
#define ACESO_DEVICE "V100-SXM2-32GB"

/* ---- the kernels of an operator (table_rows.c) ----------------------------------------------- */

/* A work of this shape with its FLOPs and bytes. */
#define WORK(kernel, phase, dtype, ...)                                                            \
    work_of_shape(kernel, phase, dtype, (int64_t[WORK_MAX_SHAPE]){__VA_ARGS__})
struct work work_of_shape(enum kernel kernel, enum phase phase, enum dtype dtype,
                          const int64_t *shape);
struct work bytes_work(enum kernel kernel, enum phase phase, int64_t elements, double read,
                       double write);

/* Declares that the row's time in this phase's direction belongs to this kernel; a second gradient
 * makes it a whole backward. */
void row_stands_for(struct table_row *row, struct work work);
/* Declares that this kernel ran in it. */
void row_ran(struct table_row *row, struct work work);
void row_is(struct table_row *row, struct work work); /* both */
/* y[m,n] = x[m,k] w[n,k]^T and its gradients. */
void row_is_linear(struct table_row *row, int64_t m, int64_t n, int64_t k);
void row_several(struct table_row *row); /* none of its times belongs to one kernel */
extern const char SOMETHING_ELSE[];      /* reason: the backward time is that of something else */

/* The first reason to leave a time out counts: several kernels, out of memory, a collective,
 * something else. */
void timing_leave_out(struct timing *time);

/* Fill in label, works and kernels; they leave a row that they do not know as it is. */
void transformer_row(struct table_row *row);
void resnet_row(struct table_row *row);

#endif

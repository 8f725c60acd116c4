/* table.h - tables of measured times, read row by row: one reader per format.
 *
 * A row has one time, or one of the forward and one of the backward pass. Of each its reader says two
 * things: the kernels that ran in it, which calibrations are fitted on (observe.c), and the kernel
 * whose time it is, which the database stores (import_times.c).
 *
 *   I1  `kernel` is the timed operator's own, as op_work names it. What ran may be more (a bias, a
 *       copy) or cut otherwise.
 *   I2  A time with a collective or a second operator inside is no kernel's: `left_out` says so.
 */
#ifndef WEFT_COST_TABLE_H
#define WEFT_COST_TABLE_H

#include "cost/cost.h"

/* The two times of a row, and what is calibrated once for each. */
enum direction { FORWARD, BACKWARD, DIRECTION_COUNT };
static inline enum direction phase_direction(enum phase phase)
{
    return phase == PHASE_FORWARD ? FORWARD : BACKWARD;
}

/* Whose cross entropy: they differ in passes over the logits (memory.c). */
enum measured_loss { LOSS_MEGATRON, LOSS_TORCH, LOSS_COUNT };

enum { TIMING_MAX_WORKS = 8 };
struct timing {
    double ns;
    int works;
    struct work work[TIMING_MAX_WORKS]; /* what ran, one after another; none: not known */
    bool host_free;                     /* launched as a graph: no gaps between kernels inside */
    enum measured_loss loss;            /* if one ran */

    struct work kernel;
    bool whole_backward;  /* both gradients in one time, under the forward's shape */
    const char *left_out; /* why it is no kernel's time; NULL: it is */

    const char *collective;  /* inside the time: "all_reduce", "channels"; "": none */
    double all_reduce_bytes; /* of that; 0: none to speak of; negative: size unknown */
    int devices;             /* that take part */
};

/* An operator of a model, as Aceso's and Sailor's tables have it. */
enum { OPERATOR_SIZES = 6 };
struct operator_row {
    const char *model, *op;
    enum dtype dtype;         /* of elements in memory */
    enum dtype matrix_dtype;  /* of matrix products */
    bool input_gradient_only; /* the backward of a linear is one product, not two */
    int64_t batch, tp, algo;
    double size_mb[OPERATOR_SIZES]; /* in the columns' order: input_mb and on */
};

struct table_row {
    const char *device; /* Weft's name */
    const char *label;  /* what to group errors by: "matmul"; NULL: an unknown operator */
    const char *source; /* who measured, where rows say so; or NULL */
    int64_t samples;
    int times;
    struct timing time[DIRECTION_COUNT];
    bool repeated;                       /* the numbers of another row again */
    const struct operator_row *operator; /* or NULL */
};

typedef weft_status table_sink(void *context, const struct csv *csv, const struct table_row *row);
struct source_table {
    struct csv *csv;
    struct arena *scratch; /* of one call; rows handed to the sink live as long */
    const char *device;    /* of rows that name none; or NULL */
    table_sink *sink;
    void *context;
};
weft_status table_simumax(struct source_table *table);
weft_status table_weft(struct source_table *table);
weft_status table_operators(struct source_table *table); /* Aceso's or Sailor's */

/* What Sailor calls its devices. */
struct sailor_device {
    const char *sailor, *name;
    enum dtype fp32; /* what it multiplies "fp32" matrices in */
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

/* The row's time of this phase's direction is this kernel's; a second gradient makes it whole. */
void row_stands_for(struct table_row *row, struct work work);
/* This kernel ran in it. */
void row_ran(struct table_row *row, struct work work);
void row_is(struct table_row *row, struct work work); /* both */
/* y[m,n] = x[m,k] w[n,k]^T and its gradients. */
void row_is_linear(struct table_row *row, int64_t m, int64_t n, int64_t k);
void row_several(struct table_row *row); /* no time of it is one kernel's */
extern const char SOMETHING_ELSE[];      /* left out: a backward time of something else */

/* Of the reasons to leave a time out the first counts: several kernels, out of memory, a collective,
 * something else. */
void timing_leave_out(struct timing *time);

/* Fill in label, works and kernels; they leave a row they do not know as it is. */
void transformer_row(struct table_row *row);
void resnet_row(struct table_row *row);

#endif

/* loss.c - softmax cross entropy of each row of logits against its label.
 *
 *   L = ln(sum_j e^(x_j - m)) + m - x_label,  m = max_j x_j                                      (1)
 *   dx_j = (p_j - [j = label]) dL,  p_j = e^(x_j - m) / sum                                      (2)
 *
 * One logit is that of the label 1 beside a 0 for the label 0 (a recommender's click): by (1) and (2)
 *
 *   L = ln(1 + e^x) - label x,  dx = (1 / (1 + e^-x) - label) dL                                 (3)
 *
 * Labels are the input after the operator's own: one 8-byte index in the whole vocabulary per row; a
 * row whose label is negative counts for nothing.
 *
 *   I1  Over a split vocabulary m and the sum go through `reduce`. The output is a partial sum: the
 *       device that has the label subtracts x_label, the one that adds once adds the rest of (1).
 *   I2  Columns after the end of the whole (padding of a split) have no probability and no gradient.
 *   I3  Kept is p - [label] where the model keeps probabilities; m and 1 / sum of each row where it
 *       keeps the logits (Liger and the like) and recomputes them.
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

struct loss_rows {
    int64_t rows, columns, real; /* real: of the local columns, those that exist (I2) */
    bool fused;
    float *most, *share; /* m and 1 / sum of each row */
    float *x, *y;        /* tiles of a row */
    const int64_t *labels;
};

static struct loss_rows loss_of(const struct kernel_call *call)
{
    struct loss_rows l = {.rows = call->size[0] * call->size[1],
                          .columns = call->size[2],
                          .real = loss_columns(call),
                          .fused = loss_is_fused(call->op),
                          .labels = call->input[call->op->inputs]};
    float *room = call->scratch;
    l.most = l.fused ? call->kept : room;
    l.share = l.most + l.rows;
    l.x = room + 2 * l.rows;
    l.y = l.x + l.columns;
    return l;
}

static int64_t loss_scratch(const struct kernel_call *call)
{
    return 2 * call->size[0] * call->size[1] + 2 * call->size[2];
}

static int64_t loss_kept(const struct kernel_call *call)
{
    int64_t rows = call->size[0] * call->size[1];
    return rows * (loss_is_fused(call->op) ? 2 : call->size[2]) * (int64_t)sizeof(float);
}

/* The row's label among the local columns, or -1. */
static int64_t label_of(const struct kernel_call *call, const struct loss_rows *l, int64_t row)
{
    int64_t column = l->labels[row] - call->begin[2];
    return l->labels[row] >= 0 && column >= 0 && column < l->real ? column : -1;
}

static const float *logits(const struct kernel_call *call, const struct loss_rows *l, int64_t row)
{
    return tile_read(call->dtype, call->input[0], row * l->columns, l->columns, l->x);
}

static float *kept_row(const struct kernel_call *call, const struct loss_rows *l, int64_t row)
{
    return l->fused ? l->y : (float *)call->kept + row * l->columns;
}

static void reduce(const struct kernel_call *call, enum reduce op, float *data, int64_t count)
{
    if (call->reduce)
        call->reduce(call->context, op, data, count);
}

/* (1) of a row whose m and sum are known; I1 */
static float row_loss(const struct kernel_call *call, const struct loss_rows *l, int64_t row)
{
    if (l->labels[row] < 0)
        return 0;
    int64_t label = label_of(call, l, row);
    float own = label < 0 ? 0 : logits(call, l, row)[label];
    float rest = call->adds_once ? l->most[row] + logf(l->share[row]) : 0;
    return rest - own;
}

/* (2) in place, but for dL: from e^(x - m). */
static void finish_row(const struct kernel_call *call, const struct loss_rows *l, int64_t row,
                       float *y)
{
    int64_t label = label_of(call, l, row);
    row_scale(y, l->real, l->labels[row] < 0 ? 0 : l->share[row], y);
    memset(y + l->real, 0, (size_t)(l->columns - l->real) * sizeof *y);
    if (label >= 0)
        y[label] -= 1;
}

/* (3), without dL, beside the loss; large x without overflow. */
static float binary_row(const struct kernel_call *call, const struct loss_rows *l, int64_t row,
                        float *slope)
{
    float x = logits(call, l, row)[0], label = l->labels[row] > 0 ? 1 : 0;
    bool counts = l->labels[row] >= 0;
    *slope = counts ? sigmoid_of(x) - label : 0;
    return counts ? fmaxf(x, 0) + log1pf(expf(-fabsf(x))) - label * x : 0;
}

static bool is_binary(const struct kernel_call *call)
{
    return call->whole[2] == 1;
}

static void loss_forward(const struct kernel_call *call)
{
    struct loss_rows l = loss_of(call);
    float slope;
    if (is_binary(call)) {
        for (int64_t row = 0; row < l.rows; row++) {
            ((float *)call->output)[row] = binary_row(call, &l, row, &slope);
            if (!l.fused)
                kept_row(call, &l, row)[0] = slope;
        }
        return;
    }
    for (int64_t row = 0; row < l.rows; row++)
        l.most[row] = row_most(logits(call, &l, row), l.real);
    reduce(call, REDUCE_MAX, l.most, l.rows);
    for (int64_t row = 0; row < l.rows; row++)
        l.share[row] = row_exp(logits(call, &l, row), l.real, l.most[row], kept_row(call, &l, row));
    reduce(call, REDUCE_SUM, l.share, l.rows);
    for (int64_t row = 0; row < l.rows; row++) {
        ((float *)call->output)[row] = row_loss(call, &l, row);
        l.share[row] = 1 / l.share[row];
        if (!l.fused)
            finish_row(call, &l, row, kept_row(call, &l, row));
    }
}

static void loss_input(const struct kernel_call *call)
{
    struct loss_rows l = loss_of(call);
    for (int64_t row = 0; call->input_gradient[0] && row < l.rows; row++) {
        int64_t at = row * l.columns;
        float *kept = kept_row(call, &l, row);
        if (l.fused && is_binary(call)) {
            binary_row(call, &l, row, kept);
        } else if (l.fused) {
            row_exp(logits(call, &l, row), l.real, l.most[row], kept);
            finish_row(call, &l, row, kept);
        }
        float *dx = tile_write(call->dtype, call->input_gradient[0], at, l.x);
        row_scale(kept, l.columns, ((const float *)call->output_gradient)[row], dx);
        tile_done(call->dtype, call->input_gradient[0], at, l.columns, dx);
    }
}

const struct cpu_kernel CPU_LOSS = {
    .kept_bytes = loss_kept,
    .scratch_floats = loss_scratch,
    .phase = {loss_forward, loss_input},
};

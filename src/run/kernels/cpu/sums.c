/* sums.c - sums of two tensors, the first through a gate if there is one, and of a tensor and a weight:
 *
 *   z = x + y,   z = tanh(g) x + y,   z = x + w                                                  (1)
 *
 *   I1  w is as large as a sample, or as a part of it that is then added to each of them; of a larger one the first part is
 *       added.
 */
#include <math.h>

#include "run/kernels/cpu/places.h"

VECTOR static void sum_tiles(const float *restrict x, const float *restrict y, int64_t count,
                             float *restrict z)
{
    for (int64_t i = 0; i < count; i++)
        z[i] = x[i] + y[i];
}

/* count elements from `first` of x and of the output, plus those from `at` of y. */
static void add_range(const struct kernel_call *call, const void *y, int64_t at, int64_t first,
                      int64_t all)
{
    float x_tile[TILE], y_tile[TILE], z_tile[TILE];
    for (int64_t i = 0; i < all; i += TILE) {
        int64_t count = tile_from(i, all);
        float *z = tile_write(call->dtype, call->output, first + i, z_tile);
        sum_tiles(tile_read(call->dtype, call->input[0], first + i, count, x_tile),
                  tile_read(call->dtype, y, at + i, count, y_tile), count, z);
        tile_done(call->dtype, call->output, first + i, count, z);
    }
}

/* Where a row's numbers are in a weight of one sample, or of a part of it that occurs several times; of a larger weight the
 * first part is added. */
static int64_t row_in_weight(const struct kernel_call *call, const struct row_places *p,
                             int64_t row)
{
    const struct extent *last = &p->axis[p->axes - 1];
    int64_t at = row_in_whole(p, row, 1) * last->whole + last->begin;
    return at % call->op->weight[0].operand.size[0];
}

/* x + tanh(gate) y, y being the first input. */
static float gate_of(const struct kernel_call *call)
{
    float tile[1];
    return tanhf(tile_read(call->dtype, call->weight[0], 0, 1, tile)[0]);
}

/* scale times the elements of `from`, plus those of `plus` if there is one. */
static void scale_range(const struct kernel_call *call, const void *from, float scale,
                        const void *plus, void *to)
{
    float x_tile[TILE], y_tile[TILE], z_tile[TILE];
    for (int64_t i = 0, all = elements_of(call); i < all; i += TILE) {
        int64_t count = tile_from(i, all);
        const float *x = tile_read(call->dtype, from, i, count, x_tile);
        const float *y = plus ? tile_read(call->dtype, plus, i, count, y_tile) : NULL;
        float *z = tile_write(call->dtype, to, i, z_tile);
        for (int64_t k = 0; k < count; k++)
            z[k] = scale * x[k] + (y ? y[k] : 0);
        tile_done(call->dtype, to, i, count, z);
    }
}

static bool is_gated(const struct kernel_call *call)
{
    return call->op->inputs > 1 && call->op->weights;
}

/* d tanh(g) = 1 - tanh(g)^2, times the sum of what was gated and the output's gradient. */
static void gate_gradient(const struct kernel_call *call)
{
    float x_tile[TILE], y_tile[TILE], gate = gate_of(call);
    double sum = 0;
    for (int64_t i = 0, all = elements_of(call); i < all; i += TILE) {
        int64_t count = tile_from(i, all);
        const float *x = tile_read(call->dtype, call->input[0], i, count, x_tile);
        const float *y = tile_read(call->dtype, call->output_gradient, i, count, y_tile);
        for (int64_t k = 0; k < count; k++)
            sum += (double)x[k] * (double)y[k];
    }
    call->weight_gradient[0][0] += (1 - gate * gate) * (float)sum;
}

static void add_forward(const struct kernel_call *call)
{
    if (is_gated(call)) {
        scale_range(call, call->input[0], gate_of(call), call->input[1], call->output);
        return;
    }
    if (call->op->inputs > 1) {
        add_range(call, call->input[1], 0, 0, elements_of(call));
        return;
    }
    struct row_places p = places_of(call);
    for (int64_t row = 0; row < p.rows; row++)
        add_range(call, call->weight[0], row_in_weight(call, &p, row), row * p.columns, p.columns);
}

static void add_input(const struct kernel_call *call)
{
    if (is_gated(call) && call->input_gradient[0])
        scale_range(call, call->output_gradient, gate_of(call), NULL, call->input_gradient[0]);
    for (int i = is_gated(call); i < call->op->inputs; i++)
        if (call->input_gradient[i])
            copy_elements(call->dtype, call->output_gradient, 0, elements_of(call),
                          call->input_gradient[i], 0);
}

static void add_weight(const struct kernel_call *call)
{
    struct row_places p = places_of(call);
    float tile[TILE];
    if (is_gated(call)) {
        gate_gradient(call);
        return;
    }
    for (int64_t row = 0; call->op->weights && row < p.rows; row++)
        for (int64_t i = 0; i < p.columns; i += TILE) {
            int64_t count = tile_from(i, p.columns);
            row_add(tile_read(call->dtype, call->output_gradient, row * p.columns + i, count, tile),
                    count, call->weight_gradient[0] + row_in_weight(call, &p, row) + i);
        }
}

const struct cpu_kernel CPU_ADD = {
    .refuses = add_refuses,
    .phase = {add_forward, add_input, add_weight},
};

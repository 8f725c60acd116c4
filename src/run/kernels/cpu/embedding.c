/* embedding.c - rows of a table by id, plus a learned row of the position.
 *
 *   y[t] = W[id[t]] + P[position of t]        dW[id[t]] += dy[t],  dP[position of t] += dy[t]
 *
 *   I1  Ids outside the local rows of a split vocabulary add nothing: another device has them. The
 *       position is added once (kernels.h, I1); its gradient is the same on all of them.
 */
#include "run/kernels/cpu/cpu.h"

struct embedding {
    int64_t tokens, width;
    float *row, *other;
};

static struct embedding embedding_of(const struct kernel_call *call)
{
    struct embedding e = {call->size[0] * call->size[1], call->size[3], call->scratch};
    e.other = e.row + whole_floats(call->dtype, e.width);
    return e;
}

static int64_t embedding_scratch(const struct kernel_call *call)
{
    return whole_floats(call->dtype, 2 * call->size[3]);
}

/* The local row of a token, or -1. */
static int64_t row_of(const struct kernel_call *call, int64_t token)
{
    int64_t row = ((const int64_t *)call->input[0])[token] - call->begin[2];
    return row >= 0 && row < call->size[2] ? row : -1;
}

static int64_t position_of(const struct kernel_call *call, int64_t token)
{
    return call->begin[1] + token % call->size[1];
}

static void embedding_forward(const struct kernel_call *call)
{
    struct embedding e = embedding_of(call);
    bool positions = call->op->weights > 1 && call->adds_once;
    enum dtype dtype = call->dtype;
    for (int64_t t = 0; t < e.tokens; t++) {
        int64_t row = row_of(call, t);
        float *y = tile_write(dtype, call->output, t * e.width, e.row);
        memset(y, 0, (size_t)e.width * sizeof *y);
        if (row >= 0)
            row_add(tile_read(dtype, call->weight[0], row * e.width, e.width, e.other), e.width, y);
        if (positions)
            row_add(
                tile_read(dtype, call->weight[1], position_of(call, t) * e.width, e.width, e.other),
                e.width, y);
        tile_done(dtype, call->output, t * e.width, e.width, y);
    }
}

static void embedding_weight(const struct kernel_call *call)
{
    struct embedding e = embedding_of(call);
    for (int64_t t = 0; t < e.tokens; t++) {
        int64_t row = row_of(call, t);
        const float *dy =
            tile_read(call->dtype, call->output_gradient, t * e.width, e.width, e.row);
        if (row >= 0)
            row_add(dy, e.width, call->weight_gradient[0] + row * e.width);
        if (call->op->weights > 1)
            row_add(dy, e.width, call->weight_gradient[1] + position_of(call, t) * e.width);
    }
}

const struct cpu_kernel CPU_EMBEDDING = {
    .refuses = embedding_refuses,
    .scratch_floats = embedding_scratch,
    .phase = {embedding_forward, NULL, embedding_weight},
};

/* rotary.c - rotary positions: pairs of features of queries and keys turn with the position.
 *
 *   (a, b) -> (a cos t - b sin t, a sin t + b cos t),  t = position base^(-2 i / depth)          (1)
 *   stretched by a factor f:  t times s + (1 - s) / f,  s = (turns - 1) / (ROPE_FAST - 1) from 0 to 1,
 *                             turns = ROPE_LEARNED base^(-2 i / depth) / 2 pi                    (2)
 *
 * as Llama 3.1 does: pairs that turn once or less in ROPE_LEARNED positions turn slower by f, those that turn ROPE_FAST times
 * do not (transformers, _compute_llama3_parameters, with the numbers of all its configs; Megatron-LM,
 * rotary_pos_embedding.py, _apply_scaling).
 *
 * for pair i, the features 2 i and 2 i + 1 of a head (Su et al., 2021, Eq. 34; section 3.3: ROPE_BASE). The gradient turns
 * back. Of every key/value head's share of the features (its queries, its key, its value) the first
 * ones turn; the value does not.
 *
 *   I1  A split of the features leaves pairs whole: local sizes and first indices are even.
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

static int64_t rotary_scratch(const struct kernel_call *call)
{
    return 2 * call->op->head_depth + whole_floats(call->dtype, 2 * call->size[2]);
}

/* What pair i / 2 turns by from one position to the next: (1), (2). */
static float rate_of(const struct op *op, int64_t i)
{
    float rate = powf((float)op->rope_base, -(float)i / (float)op->head_depth);
    if (!(op->rope_scaling > 0))
        return rate;
    float turns = ROPE_LEARNED * rate / (float)(2 * 3.14159265358979323846);
    float share = fminf(fmaxf((turns - 1) / (ROPE_FAST - 1), 0), 1);
    return rate * (share + (1 - share) / (float)op->rope_scaling);
}

/* cos and sin of every pair at one position. */
static void fill_turns(const struct op *op, int64_t position, float sign, float *turn)
{
    int64_t depth = op->head_depth;
    for (int64_t i = 0; i < depth; i += 2) {
        float angle = (float)position * rate_of(op, i);
        turn[i] = cosf(angle);
        turn[i + 1] = sign * sinf(angle);
    }
}

VECTOR static void turn_pairs(const float *restrict x, const float *restrict turn, int64_t count,
                              float *restrict y)
{
    for (int64_t i = 0; i < count / 2; i++) {
        float a = x[2 * i], b = x[2 * i + 1], c = turn[2 * i], s = turn[2 * i + 1];
        y[2 * i] = a * c - b * s;
        y[2 * i + 1] = a * s + b * c;
    }
}

/* One position's features, in runs that lie within one head or within what does not turn. */
static void turn_row(const struct op *op, int64_t begin, int64_t count, const float *turn,
                     const float *x, float *y)
{
    for (int64_t i = 0; i < count;) {
        int64_t in_share = (begin + i) % op->head_share, in_head = in_share % op->head_depth;
        bool turns = in_share < op->head_turned;
        int64_t end = turns ? op->head_depth - in_head : op->head_share - in_share;
        int64_t run = end < count - i ? end : count - i;
        if (turns)
            turn_pairs(x + i, turn + in_head, run, y + i);
        else
            memcpy(y + i, x + i, (size_t)run * sizeof *y);
        i += run;
    }
}

static void rotate(const struct kernel_call *call, const void *from, void *to, float sign)
{
    int64_t batch = call->size[0], seq = call->size[1], width = call->size[2];
    float *turn = call->scratch, *x_tile = turn + call->op->head_depth;
    float *y_tile = x_tile + whole_floats(call->dtype, width);
    for (int64_t position = 0; to && position < seq; position++) {
        fill_turns(call->op, call->begin[1] + position, sign, turn);
        for (int64_t sample = 0; sample < batch; sample++) {
            int64_t at = (sample * seq + position) * width;
            const float *x = tile_read(call->dtype, from, at, width, x_tile);
            float *y = tile_write(call->dtype, to, at, y_tile);
            turn_row(call->op, call->begin[2], width, turn, x, y);
            tile_done(call->dtype, to, at, width, y);
        }
    }
}

static void rotary_forward(const struct kernel_call *call)
{
    rotate(call, call->input[0], call->output, 1);
}

static void rotary_input(const struct kernel_call *call)
{
    rotate(call, call->output_gradient, call->input_gradient[0], -1);
}

const struct cpu_kernel CPU_ROTARY = {
    .refuses = rotary_refuses,
    .scratch_floats = rotary_scratch,
    .phase = {rotary_forward, rotary_input},
};

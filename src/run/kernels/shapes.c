/* shapes.c - what sizes of an operator say about its elements (shapes.h). */
#include "run/kernels/shapes.h"

#include <math.h>

/* ---- windows --------------------------------------------------------------------------------- */

const char *image_refuses(const struct op *op)
{
    return op->input[0].axes != 4 ? "its input is no image of two dimensions" : NULL;
}

struct group_outputs group_outputs(const struct kernel_call *call, int64_t first)
{
    int64_t each = call->op->size[2] / call->op->groups, whole = call->begin[2] + first;
    int64_t group = whole / each, left = (group + 1) * each - whole, here = call->size[2] - first;
    return (struct group_outputs){first, left < here ? left : here,
                                  group * (call->size[1] / call->op->groups)};
}

/* ---- movements ------------------------------------------------------------------------------- */

int64_t elements_from(const struct operand *operand, int axis)
{
    int64_t all = 1;
    for (; axis < operand->axes; axis++)
        all *= operand->size[axis];
    return all;
}

int joined_axis(const struct op *op)
{
    for (int axis = 1; axis < op->output.axes; axis++)
        if (op->inputs && op->input[0].axes == op->output.axes &&
            op->input[0].size[axis] != op->output.size[axis])
            return axis;
    return 0;
}

const char *concat_refuses(const struct op *op)
{
    int64_t sum = 0;
    int axis = joined_axis(op);
    if (op->inputs > CALL_INPUTS)
        return "it has more than 16 inputs";
    for (int i = 0; i < op->inputs; i++)
        sum += op->input[i].axes == op->output.axes ? op->input[i].size[axis] : 0;
    return axis == 0 || sum != op->output.size[axis] ? "its inputs are no parts of its output"
                                                     : NULL;
}

struct movement movement_of(const struct op *op)
{
    struct movement m = {.in = elements_from(&op->input[0], 1),
                         .out = elements_from(&op->output, 1),
                         .front = op->weights ? op->weight[0].operand.size[0] : 0,
                         .rows = 1,
                         .times = 1,
                         .parts = 1};
    int64_t width = op->input[0].size[op->input[0].axes - 1];
    if (m.front && m.out > m.in && (m.out - m.in) % m.front == 0 &&
        m.in % ((m.out - m.in) / m.front) == 0)
        m.parts = (m.out - m.in) / m.front;
    m.in /= m.parts;
    m.out /= m.parts;
    m.run = m.out - m.front < m.in ? m.out - m.front : m.in;
    if (m.out > m.in && !m.front && !op->padded) {
        m.run = width;
        m.rows = m.in / width;
        m.times = m.out / m.in;
    }
    return m;
}

const char *reshape_refuses(const struct op *op)
{
    struct movement m = movement_of(op);
    if (op->inputs != 1 || op->weights > 1)
        return "it moves more than one tensor";
    return movement_zeros(&m) == 0 || (op->padded && movement_zeros(&m) > 0)
               ? NULL
               : "its sizes do not say which elements go where";
}

/* ---- softmax --------------------------------------------------------------------------------- */

static int64_t bias_elements(const struct op *op)
{
    return op->weights && !op->sinks ? op->weight[0].operand.size[0] : 0;
}

/* The w of (3), 0: there is none. */
static int64_t window_side(const struct op *op)
{
    int64_t side = 1, bias = bias_elements(op);
    while (side * side < op->size[3])
        side++;
    int64_t offsets = (2 * side - 1) * (2 * side - 1), heads = bias / offsets;
    bool fits = bias && side * side == op->size[3] && op->size[2] == op->size[3] && !op->causal &&
                bias % offsets == 0 && op->size[1] % heads == 0;
    return fits ? side : 0;
}

const char *softmax_refuses(const struct op *op)
{
    return bias_elements(op) % op->size[1] && !window_side(op)
               ? "its bias is not one number per head and distance"
               : NULL;
}

struct softmax_bias softmax_bias(const struct op *op)
{
    int64_t bias = bias_elements(op), side = window_side(op);
    int64_t heads = side ? bias / ((2 * side - 1) * (2 * side - 1)) : op->size[1];
    return bias ? (struct softmax_bias){bias / heads, heads, side} : (struct softmax_bias){0};
}

int64_t buckets_each_way(const struct op *op, const struct softmax_bias *bias)
{
    return op->causal || bias->buckets < 2 ? bias->buckets : bias->buckets / 2;
}

int64_t bucket_of(int64_t distance, int64_t buckets)
{
    int64_t exact = buckets / 2 > 1 ? buckets / 2 : 1;
    if (distance < exact)
        return distance < buckets ? distance : buckets - 1;
    double share = log((double)distance / (double)exact) / log((double)FARTHEST / (double)exact);
    int64_t bucket = exact + (int64_t)(share * (double)(buckets - exact));
    return bucket < buckets ? bucket : buckets - 1;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

const char *interaction_refuses(const struct op *op)
{
    int64_t vectors = op->size[1];
    return op->output.size[1] == op->size[2] + vectors * (vectors - 1) / 2
               ? NULL
               : "its output is not its dense features and all pairs";
}

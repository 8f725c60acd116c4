/* own_scratch.c - what Weft's own kernels on a GPU take while they run (own_scratch.h). */
#include "cost/own_scratch.h"

/* Elements of 16 bits in 16 bytes, and in a line of the cache, which padded rows are multiples of; bytes of padded
 * rows, which come in multiples of some; elements below which copies cost more than they bring. */
enum { UNIT = 8, LINE = 64, MOST_BYTES = 256 << 20, ROWS = 128, WORTH = 1 << 16 };

static bool is_half(enum dtype dtype)
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_FP16;
}

struct padded_rows padded_rows(enum dtype dtype, int64_t rows, int64_t outputs, int32_t weights)
{
    struct padded_rows padded = {.length = ceil_div(outputs, LINE) * LINE};
    bool worth = rows * outputs > WORTH && outputs >= LINE && weights == 1;
    if (!is_half(dtype) || outputs % UNIT == 0 || !worth)
        return (struct padded_rows){.length = outputs};
    int64_t most = MOST_BYTES / (padded.length * dtype_bytes(dtype)) / ROWS * ROWS;
    padded.at_once = most < rows ? most : rows;
    return padded;
}

int64_t logits_pitch(enum dtype dtype, int64_t rows, int64_t outputs)
{
    struct padded_rows padded = padded_rows(dtype, rows, outputs, 1);
    return padded.at_once ? padded.length : 0;
}

/* Places of attention's dims in its kind's row. */
enum { BATCH, HEAD, GROUP, SEQ, KV, DEPTH };

/* Shorter sequences are over before cuDNN has begun; wider heads it does not take everywhere. */
bool attention_is_fused(const struct op *op, const int64_t *local, enum dtype dtype)
{
    enum { SHORTEST = 64, WIDEST = 128 };
    bool plain = !op->window && !op->sinks && !op->shared_depth &&
                 (!op->value_depth || op->value_depth == local[DEPTH]);
    bool square = !op->causal || local[SEQ] == local[KV];
    return is_half(dtype) && plain && square && local[DEPTH] <= WIDEST &&
           local[DEPTH] % UNIT == 0 && local[SEQ] >= SHORTEST && local[KV] >= SHORTEST &&
           local[BATCH] > 0 && local[HEAD] > 0;
}

static int64_t attention_scratch(const int64_t *local)
{
    int64_t heads = local[BATCH] * local[HEAD] * local[GROUP];
    int64_t queries = heads * local[SEQ] * (local[DEPTH] + 1) * dtype_bytes(DTYPE_FP32);
    int64_t keys = 2 * heads * local[KV] * local[DEPTH] * dtype_bytes(DTYPE_BF16);
    return queries + (local[GROUP] > 1 ? keys : 0); /* (2) */
}

/* Where sizes are no multiples of 16 the numbers lie in 16 bits. */
int64_t own_cast_bytes(int64_t rows, int64_t inputs, int64_t outputs)
{
    enum { EACH = 16, BESIDES = 1024 };
    int64_t all = ceil_div(rows, EACH) * EACH, weights = inputs * outputs;
    int64_t most = all * (inputs + outputs);
    most = all * inputs + weights > most ? all * inputs + weights : most;
    most = all * outputs + weights > most ? all * outputs + weights : most;
    bool whole = rows % EACH == 0 && inputs % EACH == 0 && outputs % EACH == 0;
    return most * (whole ? 1 : dtype_bytes(DTYPE_BF16)) + BESIDES;
}

int64_t own_scratch_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    bool cast = dtype_is_cast(dtype) && op->kind == OP_LINEAR;
    if (dtype_is_cast(dtype))
        dtype = DTYPE_BF16;
    if (op->kind == OP_ATTENTION && attention_is_fused(op, local, dtype))
        return attention_scratch(local);
    if (op->kind != OP_LINEAR)
        return OWN_WORKSPACE;
    struct padded_rows padded = padded_rows(dtype, local[0] * local[1], local[3], op->weights);
    int64_t inputs = padded.at_once ? local[2] : 0;
    return OWN_WORKSPACE + inputs * padded.length * dtype_bytes(dtype) + /* (1), (3) */
           (cast ? own_cast_bytes(local[0] * local[1], local[2], local[3]) : 0);
}

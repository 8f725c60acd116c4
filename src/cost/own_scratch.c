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

/* Places of a scan's dims in its kind's row. */
enum { SCAN_BATCH, SCAN_GROUP, SCAN_SEQ, SCAN_DEPTH };

/* (4) of one sample, in fp32: run/kernels/cuda/scan.c takes it in this order. */
static int64_t scan_floats(const struct op *op, const int64_t *local)
{
    enum { TILE = OWN_SCAN_CHUNK, DOUBLE = 2, EACH_POSITION = DOUBLE + 2 };
    int64_t groups = local[SCAN_GROUP], heads = groups * op->scan_heads, state = op->scan_state;
    int64_t depth = local[SCAN_DEPTH] / op->scan_heads, chunks = ceil_div(local[SCAN_SEQ], TILE);
    int64_t each = depth * state * 2 + TILE * (EACH_POSITION + ceil_div(state, TILE));
    int64_t floats = chunks * (heads * each + groups * TILE * TILE);
    int64_t solved = heads * TILE * (TILE + 2 * depth) + groups * TILE * (TILE + 2 * state);
    return floats + (op->kind == OP_DELTA ? chunks * solved : 0);
}

struct own_scan own_scan(const struct op *op, const int64_t *local)
{
    int64_t each = scan_floats(op, local) * dtype_bytes(DTYPE_FP32);
    int64_t most = each && each < MOST_BYTES ? MOST_BYTES / each : 1;
    int64_t at_once = most < local[SCAN_BATCH] ? most : local[SCAN_BATCH];
    return (struct own_scan){.at_once = at_once, .bytes = at_once * each};
}

int64_t own_scan_kept(const struct op *op, const int64_t *local, enum dtype dtype)
{
    enum { FLAG = 1, SUMS = 3, WEIGHTS = 1 };
    int64_t samples = local[SCAN_BATCH], groups = local[SCAN_GROUP];
    int64_t heads = groups * op->scan_heads, rows = samples * local[SCAN_SEQ] * groups;
    int64_t each_head = rows * op->scan_heads;
    int64_t floats = FLAG + 2 * each_head + (WEIGHTS + SUMS * samples) * heads;
    floats += op->kind == OP_DELTA ? each_head + 2 * rows : heads;
    return rows * (local[SCAN_DEPTH] + 2 * op->scan_state) * dtype_bytes(dtype) +
           floats * dtype_bytes(DTYPE_FP32);
}

int64_t own_conv1d_kept(const struct op *op, const int64_t *local)
{
    return (int64_t)operand_elements(op, &op->output, local) * dtype_bytes(DTYPE_FP32);
}

/* Places of a convolution's dims in its kind's row. */
enum { CONV_BATCH, CONV_IN, CONV_OUT, CONV_HEIGHT, CONV_WIDTH };

bool convolution_is_fused(const struct op *op, const int64_t *local, enum dtype dtype)
{
    bool whole = op->groups == 1 || local[CONV_OUT] == op->size[CONV_OUT];
    return is_half(dtype) && whole && local[CONV_BATCH] > 0 && local[CONV_IN] > 0 &&
           local[CONV_OUT] > 0 && local[CONV_HEIGHT] > 0 && local[CONV_WIDTH] > 0;
}

static int64_t window_pixels(const struct op *op)
{
    return op->kernel[0] * op->kernel[1];
}

/* A product of matrices as they lie. */
static bool is_plain(const struct op *op)
{
    return window_pixels(op) == 1 && op->stride[0] == 1 && op->stride[1] == 1;
}

bool convolution_is_laid_out(const struct op *op, const int64_t *local, enum dtype dtype)
{
    bool whole = local[CONV_HEIGHT] * local[CONV_WIDTH] % UNIT == 0;
    return convolution_is_fused(op, local, dtype) && !(is_plain(op) && whole);
}

static int64_t fused_conv_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    int64_t image = op->input[0].size[2] * op->input[0].size[3];
    int64_t pixels = local[CONV_HEIGHT] * local[CONV_WIDTH], window = window_pixels(op);
    int64_t weights = local[CONV_OUT] * (local[CONV_IN] / op->groups) * window;
    int64_t inputs = ceil_div(local[CONV_IN], UNIT) * UNIT * image,
            outputs = local[CONV_OUT] * pixels;
    int64_t moved = is_plain(op) ? 0 : local[CONV_BATCH] * (inputs + outputs);
    return (moved + weights) * dtype_bytes(dtype); /* (5) */
}

struct own_columns own_columns(const struct op *op, const int64_t *local, enum dtype dtype)
{
    enum { MOST_COLUMNS = 64 << 20, ALIGNED = 256 }; /* bytes */
    int64_t pixels = local[CONV_HEIGHT] * local[CONV_WIDTH];
    int64_t each =
        local[CONV_IN] / op->groups * window_pixels(op) * pixels * dtype_bytes(DTYPE_FP32);
    int64_t most = each && each < MOST_COLUMNS ? MOST_COLUMNS / each : 1;
    struct own_columns c = {.at_once = most < local[CONV_BATCH] ? most : local[CONV_BATCH]};
    c.columns = ceil_div(c.at_once * each, ALIGNED) * ALIGNED;
    c.bytes = OWN_WORKSPACE + c.columns + c.at_once * local[CONV_OUT] * pixels * dtype_bytes(dtype);
    return c; /* (6) */
}

/* Places of an expert's product's dims in its kind's row, and of a router's. */
enum { EXPERT_BATCH, EXPERT_COUNT, EXPERT_SEQ, EXPERT_IN, EXPERT_OUT };
enum { ROUTER_BATCH, ROUTER_SEQ, ROUTER_IN, ROUTER_EXPERT };

static int64_t expert_cast_bytes(const struct op *op, const int64_t *local)
{
    int64_t each = op->input[0].size[1] / op->size[EXPERT_COUNT] * local[EXPERT_SEQ];
    int64_t rows = local[EXPERT_BATCH] * local[EXPERT_COUNT] * (each / op->size[EXPERT_SEQ]);
    int64_t in = rows * local[EXPERT_IN], out = rows * local[EXPERT_OUT];
    int64_t weights = local[EXPERT_COUNT] * local[EXPERT_IN] * local[EXPERT_OUT];
    int64_t wider = in > out ? in : out,
            most = in + out > wider + weights ? in + out : wider + weights;
    return most * dtype_bytes(DTYPE_BF16); /* (7) */
}

int64_t own_router_rows(int64_t rows, int64_t inputs)
{
    enum { WIDENED = 64 << 20 }; /* bytes */
    int64_t most = WIDENED / (inputs * dtype_bytes(DTYPE_FP32));
    return most < 1 ? 1 : most < rows ? most : rows;
}

static int64_t router_bytes(const int64_t *local)
{
    int64_t rows = own_router_rows(local[ROUTER_BATCH] * local[ROUTER_SEQ], local[ROUTER_IN]);
    return (local[ROUTER_EXPERT] + rows) * local[ROUTER_IN] * dtype_bytes(DTYPE_FP32); /* (8) */
}

int64_t own_scratch_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    bool cast = dtype_is_cast(dtype);
    if (dtype_is_cast(dtype))
        dtype = DTYPE_BF16;
    if (op->kind == OP_ATTENTION && attention_is_fused(op, local, dtype))
        return attention_scratch(local);
    if (op->kind == OP_SCAN || op->kind == OP_DELTA)
        return own_scan(op, local).bytes;
    if (op->kind == OP_CONV)
        return convolution_is_fused(op, local, dtype) ? fused_conv_bytes(op, local, dtype)
                                                      : own_columns(op, local, dtype).bytes;
    if (op->kind == OP_EXPERT_LINEAR && cast)
        return OWN_WORKSPACE + expert_cast_bytes(op, local);
    if (op->kind == OP_ROUTER)
        return OWN_WORKSPACE + router_bytes(local);
    if (op->kind != OP_LINEAR)
        return OWN_WORKSPACE;
    struct padded_rows padded = padded_rows(dtype, local[0] * local[1], local[3], op->weights);
    int64_t inputs = padded.at_once ? local[2] : 0;
    return OWN_WORKSPACE + inputs * padded.length * dtype_bytes(dtype) + /* (1), (3) */
           (cast ? own_cast_bytes(local[0] * local[1], local[2], local[3]) : 0);
}

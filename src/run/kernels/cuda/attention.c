/* attention.c - attention without the score matrix on a GPU (kernels/cpu/attention.c), tile by tile. */
#include <math.h>

#include "run/kernels/cuda/fused_attention.h"

extern struct cuda_code CUDA_CODE_attention;
GPU_KERNEL(ATTENTION_FORWARD, attention, "attention_forward");
GPU_KERNEL(ATTENTION_PART, attention, "attention_part");
GPU_KERNEL(ATTENTION_WEIGH, attention, "attention_weigh");
GPU_KERNEL(ATTENTION_MERGE, attention, "attention_merge");
GPU_KERNEL(ATTENTION_DOTS, attention, "attention_dots");
GPU_KERNEL(ATTENTION_QUERIES, attention, "attention_queries");
GPU_KERNEL(ATTENTION_KEYS, attention, "attention_keys");
GPU_KERNEL(ATTENTION_SINKS, attention, "attention_sinks");
GPU_KERNEL(MASK_SCORES, attention, "mask_scores");

extern struct cuda_code CUDA_CODE_flash;

enum { QUERY_TILE = 32, THREADS = 256, WIDEST = 256 }; /* as in attention.cu */

struct attention_shape attention_shape_of(const struct kernel_call *call)
{
    const int64_t *size = call->size;
    const struct op *op = call->op;
    bool fused = op->kind == OP_ATTENTION;
    return (struct attention_shape){
        .batch = size[0],
        .head = size[1],
        .group = size[2],
        .seq = size[3],
        .kv = size[4],
        .depth = size[5],
        .value = fused && op->value_depth ? op->value_depth : size[5],
        .query_begin = call->begin[3],
        .key_begin = call->begin[4],
        .key_whole = call->whole[4],
        .window = op->window,
        .causal = op->causal,
        .chunked = op->chunked,
        .scale = 1.0F / sqrtf((float)(fused ? size[5] : call->whole[5])),
    };
}

static int64_t all_rows(const struct attention_shape *s)
{
    return s->batch * s->head * s->group * s->seq;
}

void mask_scores(const struct kernel_call *call)
{
    struct attention_shape s = attention_shape_of(call);
    CUDA_LAUNCH(call->stream, &MASK_SCORES, call->dtype, row_grid(all_rows(&s), row_threads(s.kv)),
                &call->output, &s);
}

static bool keys_are_split(const struct kernel_call *call)
{
    return call->size[4] < call->whole[4];
}

/* ---- room ------------------------------------------------------------------------------------ */

static int64_t attention_kept(const struct kernel_call *call)
{
    struct attention_shape s = attention_shape_of(call);
    return all_rows(&s) * (int64_t)sizeof(float);
}

/* rowsum(dO O); where keys are split m and e^(L_i - m) of all rows, and the output in fp32. */
struct attention_room {
    float *dot, *top, *weight, *out;
    int64_t floats;
};

static struct attention_room room_of(const struct kernel_call *call)
{
    struct attention_shape s = attention_shape_of(call);
    int64_t rows = all_rows(&s);
    bool split = keys_are_split(call);
    struct attention_room room = {.dot = call->scratch, .floats = rows};
    if (!split)
        return room;
    room.top = room.dot + rows;
    room.weight = room.top + rows;
    room.out = call->dtype == DTYPE_FP32 ? call->output : room.weight + rows;
    room.floats = 3 * rows + rows * s.value;
    return room;
}

static int64_t attention_scratch(const struct kernel_call *call)
{
    struct kernel_call nowhere = *call;
    nowhere.scratch = NULL;
    int64_t bytes = room_of(&nowhere).floats * (int64_t)sizeof(float);
    for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD_INPUT; phase++) {
        int64_t fused = fused_attention_bytes(call, (enum phase)phase);
        bytes = fused > bytes ? fused : bytes;
    }
    return bytes;
}

static struct cuda_grid query_grid(const struct attention_shape *s, int64_t floats)
{
    return (struct cuda_grid){ceil_div(s->seq, QUERY_TILE), s->head * s->group, s->batch, THREADS,
                              (int32_t)(floats * (int64_t)sizeof(float))};
}

/* ---- heads of 64 and 128 features in bf16 or fp16, on tensor cores (flash.cu) ------------------- */

/* A kernel, the rows of one of its blocks, and how many rows of the other side it takes at once. */
struct flash_kernel {
    struct cuda_kernel kernel;
    int32_t rows, at_once;
};
#define FLASH_KERNEL(text, rows, at_once)                                                          \
    {{.code = &CUDA_CODE_flash, .name = (text), .both = true}, rows, at_once}
static struct flash {
    int64_t depth;
    struct flash_kernel forward, queries, keys;
} FLASH[] = {
    /* as at the end of flash.cu */
    {64, FLASH_KERNEL("flash_forward_64", 128, 64), FLASH_KERNEL("flash_queries_64", 64, 64),
     FLASH_KERNEL("flash_keys_64", 64, 64)},
    {128, FLASH_KERNEL("flash_forward_128", 64, 64), FLASH_KERNEL("flash_queries_128", 64, 64),
     FLASH_KERNEL("flash_keys_128", 64, 32)},
};

/* Shared memory for one or two tiles of a block's rows, and two that are fetched, twice. */
static int32_t flash_bytes(const struct flash *f, const struct flash_kernel *k, int tiles)
{
    enum { PAD = 8, ELEMENT = 2, STATISTICS = 2 * (int)sizeof(float) };
    int64_t row = (f->depth + PAD) * ELEMENT;
    return (int32_t)((tiles * k->rows + 4 * k->at_once) * row + STATISTICS * k->at_once);
}

/* NULL: this call goes the general way. */
static struct flash *flash_for(const struct kernel_call *call, const struct attention_shape *s)
{
    if (call->dtype == DTYPE_FP32 || s->depth != s->value || call->op->sinks ||
        keys_are_split(call))
        return NULL;
    for (size_t i = 0; i < COUNT_OF(FLASH); i++)
        if (FLASH[i].depth == s->depth &&
            flash_bytes(&FLASH[i], &FLASH[i].queries, 2) <= cuda_facts()->shared_bytes)
            return &FLASH[i];
    return NULL;
}

static struct cuda_grid flash_grid(const struct flash *f, const struct flash_kernel *k, int tiles,
                                   int64_t positions, int64_t heads, int64_t batch)
{
    enum { FLASH_THREADS = 128 };
    return (struct cuda_grid){ceil_div(positions, k->rows), heads, batch, FLASH_THREADS,
                              flash_bytes(f, k, tiles)};
}

static void flash_forward(const struct kernel_call *call, struct flash *f,
                          const struct attention_shape *s)
{
    CUDA_LAUNCH(call->stream, &f->forward.kernel, call->dtype,
                flash_grid(f, &f->forward, 1, s->seq, s->head * s->group, s->batch),
                &call->input[0], &call->input[1], &call->input[2], &call->output, &call->kept, s);
}

static void flash_input(const struct kernel_call *call, struct flash *f,
                        const struct attention_shape *s, float *dot)
{
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &f->queries.kernel, call->dtype,
                    flash_grid(f, &f->queries, 2, s->seq, s->head * s->group, s->batch),
                    &call->input[0], &call->input[1], &call->input[2], &call->output_gradient,
                    &call->kept, &dot, &call->input_gradient[0], s);
    if (call->input_gradient[1] || call->input_gradient[2])
        CUDA_LAUNCH(call->stream, &f->keys.kernel, call->dtype,
                    flash_grid(f, &f->keys, 2, s->kv, s->head, s->batch), &call->input[0],
                    &call->input[1], &call->input[2], &call->output_gradient, &call->kept, &dot,
                    &call->input_gradient[1], &call->input_gradient[2], s);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static const char *gpu_attention_refuses(const struct op *op)
{
    int dim = op_find_dim(OP_ATTENTION, DIM_DEPTH);
    if (dim >= 0 && op->size[dim] > WIDEST)
        return "the GPU's attention takes heads of up to 256 features";
    return attention_refuses(op);
}

/* (5) */
static void merge_rows(const struct kernel_call *call, const struct attention_shape *s,
                       const struct attention_room *room, const void *sink)
{
    int64_t rows = all_rows(s), seq = s->seq, heads = s->head * s->group, value = s->value;
    struct attention_room r = *room;
    CUDA_DEVICE.copy(call->stream, COPY_ON_DEVICE, r.top, call->kept,
                     rows * (int64_t)sizeof(float));
    call->reduce(call->context, REDUCE_MAX, r.top, rows);
    CUDA_LAUNCH(call->stream, &ATTENTION_WEIGH, call->dtype, cuda_elements(rows), &call->kept,
                &r.top, &r.weight, &sink, &rows, &seq, &heads);
    call->reduce(call->context, REDUCE_SUM, r.weight, rows);
    CUDA_LAUNCH(call->stream, &ATTENTION_MERGE, call->dtype, row_grid(rows, 32), &r.out,
                &call->kept, &r.top, &r.weight, &sink, &seq, &heads, &value);
    call->reduce(call->context, REDUCE_SUM, r.out, rows * value);
}

static void attention_forward(const struct kernel_call *call)
{
    struct attention_shape s = attention_shape_of(call);
    struct attention_room room = room_of(call);
    bool split = keys_are_split(call);
    const void *sink = call->op->sinks ? call->weight[0] : NULL, *none = NULL;
    void *out = split ? (void *)room.out : call->output;
    int64_t floats = QUERY_TILE * (2 * (s.depth + 1) + s.value + 1 + QUERY_TILE + 1);
    struct flash *flash = flash_for(call, &s);
    if (fused_attention(call, PHASE_FORWARD))
        return;
    if (flash) {
        flash_forward(call, flash, &s);
        return;
    }
    CUDA_LAUNCH(call->stream, split ? &ATTENTION_PART : &ATTENTION_FORWARD, call->dtype,
                query_grid(&s, floats), &call->input[0], &call->input[1], &call->input[2], &out,
                &call->kept, split ? &none : &sink, &s);
    if (split && call->reduce)
        merge_rows(call, &s, &room, sink);
    if (split && call->dtype != DTYPE_FP32)
        CUDA_DEVICE.cast(call->stream, DTYPE_FP32, room.out, call->dtype, call->output,
                         all_rows(&s) * s.value);
}

static void find_dots(const struct kernel_call *call, const struct attention_shape *s, float *dot)
{
    int64_t rows = all_rows(s), seq = s->seq, heads = s->head * s->group, value = s->value;
    struct cuda_grid grid = {ceil_div(32 * rows, THREADS), 1, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &ATTENTION_DOTS, call->dtype, grid, &call->output,
                &call->output_gradient, &dot, &rows, &seq, &heads, &value);
}

static void attention_input(const struct kernel_call *call)
{
    struct attention_shape s = attention_shape_of(call);
    float *dot = room_of(call).dot;
    int64_t floats = QUERY_TILE * (2 * (s.depth + 1) + 2 * (s.value + 1) + 2 * (QUERY_TILE + 1));
    struct cuda_grid grid = query_grid(&s, floats);
    struct flash *flash = flash_for(call, &s);
    if (fused_attention(call, PHASE_BACKWARD_INPUT))
        return;
    find_dots(call, &s, dot);
    if (flash) {
        flash_input(call, flash, &s, dot);
        return;
    }
    if (call->input_gradient[0])
        CUDA_LAUNCH(call->stream, &ATTENTION_QUERIES, call->dtype, grid, &call->input[0],
                    &call->input[1], &call->input[2], &call->output_gradient, &call->kept, &dot,
                    &call->input_gradient[0], &s);
    grid.x = ceil_div(s.kv, QUERY_TILE);
    grid.y = s.head;
    if (call->input_gradient[1] || call->input_gradient[2])
        CUDA_LAUNCH(call->stream, &ATTENTION_KEYS, call->dtype, grid, &call->input[0],
                    &call->input[1], &call->input[2], &call->output_gradient, &call->kept, &dot,
                    &call->input_gradient[1], &call->input_gradient[2], &s);
}

/* (6) */
static void attention_weight(const struct kernel_call *call)
{
    struct attention_shape s = attention_shape_of(call);
    int64_t batch = s.batch, heads = s.head * s.group, seq = s.seq;
    float *dot = room_of(call).dot;
    if (!call->op->sinks)
        return;
    find_dots(call, &s, dot);
    CUDA_LAUNCH(call->stream, &ATTENTION_SINKS, call->dtype, row_grid(heads, THREADS),
                &call->weight[0], &call->kept, &dot, &call->weight_gradient[0], &batch, &heads,
                &seq);
}

const struct gpu_kind GPU_ATTENTION = {
    .refuses = gpu_attention_refuses,
    .kept_bytes = attention_kept,
    .scratch_bytes = attention_scratch,
    .phase = {attention_forward, attention_input, attention_weight},
};

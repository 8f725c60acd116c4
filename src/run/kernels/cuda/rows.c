/* rows.c - the loss and embeddings on a GPU (kernels/cpu/loss.c, embedding.c), and sums of columns. */
#include "run/kernels/cuda/room.h"

extern struct cuda_code CUDA_CODE_rows;
GPU_KERNEL(COLUMN_PARTS, rows, "column_parts");
GPU_KERNEL(LOSS_MOST, rows, "loss_most");
GPU_KERNEL(LOSS_SUM, rows, "loss_sum");
GPU_KERNEL(LOSS_ROWS, rows, "loss_rows");
GPU_KERNEL(LOSS_KEEP, rows, "loss_keep");
GPU_KERNEL(LOSS_INPUT, rows, "loss_input");
GPU_KERNEL(LOSS_SCALE, rows, "loss_scale");
GPU_KERNEL(LOSS_BINARY, rows, "loss_binary");
GPU_KERNEL(EMBEDDING_FORWARD, rows, "embedding_forward");
GPU_KERNEL(EMBEDDING_TABLE, rows, "embedding_table");
GPU_KERNEL(EMBEDDING_POSITIONS, rows, "embedding_positions");
#define PLAIN_KERNEL(variable, text)                                                               \
    static struct cuda_kernel variable = {.code = &CUDA_CODE_rows, .name = (text)}
PLAIN_KERNEL(COLUMN_SUMS, "column_sums");
PLAIN_KERNEL(EMBEDDING_LINKS, "embedding_links");
PLAIN_KERNEL(EMBEDDING_FIRSTS, "embedding_firsts");

enum { THREADS = 256 };

int32_t row_threads(int64_t width)
{
    enum { AT_A_TIME = 8, MOST = 512 };
    int32_t threads = 32;
    while (threads < MOST && threads * AT_A_TIME < width)
        threads *= 2;
    return threads;
}

static struct cuda_grid a_thread_each(int64_t rows)
{
    return (struct cuda_grid){ceil_div(rows, THREADS), 1, 1, THREADS, 0};
}

/* ---- sums of columns ------------------------------------------------------------------------- */

enum { MOST_PARTS = 256, LANES = 32 }; /* of the second, as many threads along columns (rows.cu) */

int64_t column_parts(int64_t rows)
{
    int64_t parts = ceil_div(rows, 32);
    return parts < MOST_PARTS ? parts : MOST_PARTS;
}

int64_t column_room(int64_t rows, int64_t width)
{
    return column_parts(rows) * width * (int64_t)sizeof(float);
}

void add_parts(const struct kernel_call *call, const void *part, int64_t parts, int64_t width,
               float *to)
{
    struct cuda_grid grid = {ceil_div(width, LANES), 1, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &COLUMN_SUMS, DTYPE_FP32, grid, &part, &parts, &width, &to);
}

void sum_columns(const struct kernel_call *call, enum dtype dtype, struct column_operands c,
                 void *room, float *to)
{
    int64_t parts = column_parts(c.rows), each = parts ? ceil_div(c.rows, parts) : 0;
    int64_t unit = 16 / dtype_bytes(dtype);
    int packed = c.width % unit == 0;
    struct cuda_grid grid = {ceil_div(c.width, LANES * (packed ? unit : 1)), parts, 1, THREADS, 0};
    CUDA_LAUNCH(call->stream, &COLUMN_PARTS, dtype, grid, &c.dy, &c.x, &c.kept, &c.rows, &c.width,
                &each, &c.centred, &packed, &room);
    add_parts(call, room, parts, c.width, to);
}

void add_columns(const struct kernel_call *call, enum dtype dtype, const void *x, int64_t rows,
                 int64_t width, void *room, float *to)
{
    sum_columns(call, dtype, (struct column_operands){.dy = x, .rows = rows, .width = width}, room,
                to);
}

/* ---- the loss -------------------------------------------------------------------------------- */

struct loss_call {
    int64_t rows, columns, real, begin;
    bool fused, binary;
    float *most, *share;
    const void *labels;
};

static int64_t loss_pitch(const struct kernel_call *call)
{
    return call->pitch ? call->pitch : call->size[2];
}

static struct loss_call loss_of(const struct kernel_call *call)
{
    struct loss_call l = {.rows = call->size[0] * call->size[1],
                          .columns = loss_pitch(call),
                          .real = loss_columns(call),
                          .begin = call->begin[2],
                          .fused = loss_is_fused(call->op),
                          .binary = call->whole[2] == 1,
                          .labels = call->input[call->op->inputs]};
    l.most = l.fused ? call->kept : call->scratch;
    l.share = l.most + l.rows;
    return l;
}

static int64_t loss_scratch(const struct kernel_call *call)
{
    return 2 * call->size[0] * call->size[1] * (int64_t)sizeof(float);
}

static int64_t loss_kept(const struct kernel_call *call)
{
    int64_t rows = call->size[0] * call->size[1];
    return rows * (loss_is_fused(call->op) ? 2 : loss_pitch(call)) * (int64_t)sizeof(float);
}

static void loss_binary(const struct kernel_call *call, const struct loss_call *l, void *loss,
                        void *slope, void *dx)
{
    int64_t rows = l->rows;
    const void *labels = l->labels;
    CUDA_LAUNCH(call->stream, &LOSS_BINARY, call->dtype, a_thread_each(rows), &call->input[0],
                &labels, &rows, &call->output_gradient, &loss, &slope, &dx);
}

static void loss_forward(const struct kernel_call *call)
{
    struct loss_call l = loss_of(call);
    struct cuda_grid grid = row_grid(l.rows, row_threads(l.columns));
    int adds_once = call->adds_once;
    if (l.binary) {
        loss_binary(call, &l, call->output, l.fused ? NULL : call->kept, NULL);
        return;
    }
    CUDA_LAUNCH(call->stream, &LOSS_MOST, call->dtype, grid, &call->input[0], &l.columns, &l.real,
                &l.most, &l.share);
    if (call->reduce) {
        call->reduce(call->context, REDUCE_MAX, l.most, l.rows);
        CUDA_LAUNCH(call->stream, &LOSS_SUM, call->dtype, grid, &call->input[0], &l.columns,
                    &l.real, &l.most, &l.share);
        call->reduce(call->context, REDUCE_SUM, l.share, l.rows);
    }
    CUDA_LAUNCH(call->stream, &LOSS_ROWS, call->dtype, a_thread_each(l.rows), &call->input[0],
                &l.labels, &l.rows, &l.columns, &l.real, &l.begin, &adds_once, &l.most, &l.share,
                &call->output);
    if (!l.fused)
        CUDA_LAUNCH(call->stream, &LOSS_KEEP, call->dtype, grid, &call->input[0], &l.labels,
                    &l.columns, &l.real, &l.begin, &l.most, &l.share, &call->kept);
}

static void loss_input(const struct kernel_call *call)
{
    struct loss_call l = loss_of(call);
    struct cuda_grid grid = row_grid(l.rows, row_threads(l.columns));
    if (!call->input_gradient[0])
        return;
    if (!l.fused)
        CUDA_LAUNCH(call->stream, &LOSS_SCALE, call->dtype, grid, &call->kept, &l.columns,
                    &call->output_gradient, &call->input_gradient[0]);
    else if (l.binary)
        loss_binary(call, &l, NULL, NULL, call->input_gradient[0]);
    else
        CUDA_LAUNCH(call->stream, &LOSS_INPUT, call->dtype, grid, &call->input[0], &l.labels,
                    &l.columns, &l.real, &l.begin, &l.most, &l.share, &call->output_gradient,
                    &call->input_gradient[0]);
}

const struct gpu_kind GPU_LOSS = {
    .kept_bytes = loss_kept,
    .scratch_bytes = loss_scratch,
    .phase = {loss_forward, loss_input},
};

/* ---- embeddings ------------------------------------------------------------------------------ */

static int64_t embedding_tokens(const struct kernel_call *call)
{
    return call->size[0] * call->size[1];
}

/* The next token of the same id, and whether one is the first of its id. */
static int64_t embedding_scratch(const struct kernel_call *call)
{
    return embedding_tokens(call) * (int64_t)(sizeof(int32_t) + sizeof(uint8_t));
}

static void embedding_forward(const struct kernel_call *call)
{
    int64_t width = call->size[3], rows = call->size[2], seq = call->size[1];
    int64_t first_row = call->begin[2], first_position = call->begin[1];
    const void *positions = call->op->weights > 1 && call->adds_once ? call->weight[1] : NULL;
    CUDA_LAUNCH(call->stream, &EMBEDDING_FORWARD, call->dtype,
                row_grid(embedding_tokens(call), row_threads(width)), &call->input[0],
                &call->weight[0], &positions, &call->output, &width, &seq, &first_position,
                &first_row, &rows);
}

static void embedding_weight(const struct kernel_call *call)
{
    int64_t tokens = embedding_tokens(call), width = call->size[3], rows = call->size[2];
    int64_t seq = call->size[1], samples = call->size[0];
    int64_t first_row = call->begin[2], first_position = call->begin[1];
    void *next = call->scratch, *first = (int32_t *)call->scratch + tokens;
    CUDA_LAUNCH(call->stream, &EMBEDDING_FIRSTS, DTYPE_FP32, cuda_elements(tokens), &first,
                &tokens);
    CUDA_LAUNCH(call->stream, &EMBEDDING_LINKS, DTYPE_FP32, a_thread_each(32 * tokens),
                &call->input[0], &tokens, &next, &first);
    CUDA_LAUNCH(call->stream, &EMBEDDING_TABLE, call->dtype, row_grid(tokens, row_threads(width)),
                &call->input[0], &next, &first, &call->output_gradient, &call->weight_gradient[0],
                &width, &first_row, &rows);
    if (call->op->weights > 1)
        CUDA_LAUNCH(call->stream, &EMBEDDING_POSITIONS, call->dtype, a_thread_each(seq * width),
                    &call->output_gradient, &call->weight_gradient[1], &width, &samples, &seq,
                    &first_position);
}

const struct gpu_kind GPU_EMBEDDING = {
    .refuses = embedding_refuses,
    .scratch_bytes = embedding_scratch,
    .phase = {embedding_forward, NULL, embedding_weight},
};

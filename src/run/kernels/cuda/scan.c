/* scan.c - the selective scan and the gated delta rule on a GPU (kernels/cpu/scan.c, delta.c; scan.cu).
 *
 *   I1  A backward pass takes some samples at a time, as many as own_scan says: their states need room.
 */
#include <math.h>

#include "cost/cost.h"
#include "run/kernels/cuda/room.h"
#include "run/kernels/cuda/scan_shape.h"

extern struct cuda_code CUDA_CODE_scan;
#define SCAN_KERNEL(variable, text)                                                                \
    static struct cuda_kernel variable = {.code = &CUDA_CODE_scan, .name = (text)}
SCAN_KERNEL(SCAN_STEPS, "scan_steps");
SCAN_KERNEL(SCAN_INPUTS, "scan_inputs");
SCAN_KERNEL(SCAN_SHARED, "scan_shared");
SCAN_KERNEL(SCAN_WEIGHTS, "scan_weights");
/* By how many numbers of a row a lane has: 4, 8. */
static struct cuda_kernel FORWARD[] = {{.code = &CUDA_CODE_scan, .name = "scan_forward_4"},
                                       {.code = &CUDA_CODE_scan, .name = "scan_forward_8"}};
static struct cuda_kernel BACK[] = {{.code = &CUDA_CODE_scan, .name = "scan_back_4"},
                                    {.code = &CUDA_CODE_scan, .name = "scan_back_8"}};

enum { THREADS = 256, LANES = 32, NARROW_STATE = 4 * LANES, WIDEST_STATE = 8 * LANES };

static const char *scan_refuses(const struct op *op)
{
    int64_t depth = op->size[op_find_dim(op->kind, DIM_DEPTH)] / op->scan_heads;
    if (op->scan_state > WIDEST_STATE)
        return "the GPU's scans take states of up to 256 numbers";
    return depth > SCAN_WARP_ROWS * SCAN_MOST_WARPS
               ? "the GPU's scans take heads of up to 128 features"
               : NULL;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int32_t storage_of(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 0 : dtype == DTYPE_BF16 ? 1 : 2;
}

static struct scan_shape shape_of(const struct kernel_call *call)
{
    const struct op *op = call->op;
    struct scan_shape s = {.samples = call->size[0],
                           .groups = call->size[1],
                           .seq = call->size[2],
                           .heads = op->scan_heads,
                           .depth = call->size[3] / op->scan_heads,
                           .state = op->scan_state,
                           .storage = storage_of(call->dtype),
                           .delta = op->kind == OP_DELTA,
                           .scale = 1};
    s.share = call->size[3] + 2 * s.state;
    s.b = s.delta ? s.state : call->size[3];
    s.c = s.delta ? 0 : s.b + s.state;
    s.x = s.delta ? 2 * s.state : 0;
    if (s.delta)
        s.scale = 1.0F / sqrtf((float)s.state);
    s.chunk = own_scan(op, call->size).chunk;
    return s;
}

static int64_t positions(const struct scan_shape *s)
{
    return s->samples * s->seq;
}

static int64_t all_heads(const struct scan_shape *s)
{
    return s->groups * s->heads;
}

static struct scan_kept kept_of(const struct scan_shape *s, float *at)
{
    int64_t heads = positions(s) * all_heads(s), groups = positions(s) * s->groups;
    struct scan_kept k = {.all = at};
    at += groups * s->share;
    if (s->delta) {
        k.length = at;
        k.write = at + 2 * groups;
        at = k.write + heads;
    }
    k.step = at;
    k.slope = k.step + heads;
    k.rate = k.slope + heads;
    k.skip = s->delta ? NULL : k.rate + all_heads(s);
    return k;
}

static int64_t scan_kept(const struct kernel_call *call)
{
    struct scan_shape s = shape_of(call);
    int64_t heads = positions(&s) * all_heads(&s), groups = positions(&s) * s.groups;
    int64_t floats = groups * s.share + 2 * heads + all_heads(&s);
    floats += s.delta ? 2 * groups + heads : all_heads(&s);
    return floats * (int64_t)sizeof(float);
}

static int64_t scan_scratch(const struct kernel_call *call)
{
    return own_scan(call->op, call->size).bytes;
}

static struct scan_room room_of(const struct kernel_call *call, const struct scan_shape *s)
{
    int64_t blocks = own_scan(call->op, call->size).at_once * all_heads(s);
    int64_t one = s->depth * s->state, chunks = ceil_div(s->seq, s->chunk);
    struct scan_room room = {.marks = call->scratch};
    room.inner = room.marks + blocks * chunks * one;
    room.back = room.inner + blocks * s->chunk * one;
    room.share = room.back + blocks * one;
    room.sums = room.share + blocks * s->chunk * 2 * s->state;
    return room;
}

static struct cuda_grid head_grid(const struct scan_shape *s)
{
    enum { ROW_NUMBERS = 2 }; /* b and c, and sums: what each warp adds */
    int64_t warps = ceil_div(s->depth, SCAN_WARP_ROWS);
    int64_t floats = warps * (ROW_NUMBERS * s->state + SCAN_SUMS);
    return (struct cuda_grid){s->samples * all_heads(s), 1, 1, (int32_t)(LANES * warps),
                              (int32_t)(floats * (int64_t)sizeof(float))};
}

/* A warp for each row. */
static struct cuda_grid warp_grid(int64_t rows)
{
    return (struct cuda_grid){ceil_div(LANES * rows, THREADS), 1, 1, THREADS, 0};
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void walk_forward(const struct kernel_call *call, const struct scan_shape *s,
                         const struct scan_kept *k, void *y, float *marks)
{
    CUDA_LAUNCH(call->stream, &FORWARD[s->state > NARROW_STATE], DTYPE_FP32, head_grid(s), s, k, &y,
                &marks);
}

static void scan_forward(const struct kernel_call *call)
{
    struct scan_shape s = shape_of(call);
    struct scan_kept k = kept_of(&s, call->kept);
    const void *skip = s.delta ? NULL : call->weight[1];
    const void *bias = call->weight[s.delta ? 1 : 2];
    CUDA_LAUNCH(call->stream, &SCAN_STEPS, DTYPE_FP32, cuda_elements(positions(&s) * all_heads(&s)),
                &call->input[1], &call->weight[0], &bias, &skip, &s, &k);
    CUDA_LAUNCH(call->stream, &SCAN_INPUTS, DTYPE_FP32, warp_grid(positions(&s) * s.groups),
                &call->input[0], &s, &k);
    walk_forward(call, &s, &k, call->output, NULL);
}

/* All chunks of some samples, the last one first. */
static void walk_back(const struct kernel_call *call, const struct scan_shape *s,
                      const struct scan_kept *k, const struct gpu_scan_gradients *g,
                      const struct scan_room *room)
{
    walk_forward(call, s, k, NULL, room->marks);
    for (int64_t chunk = ceil_div(s->seq, s->chunk) - 1; chunk >= 0; chunk--) {
        CUDA_LAUNCH(call->stream, &BACK[s->state > NARROW_STATE], DTYPE_FP32, head_grid(s), s, k, g,
                    room, &chunk);
        if (g->all)
            CUDA_LAUNCH(call->stream, &SCAN_SHARED, DTYPE_FP32,
                        warp_grid(2 * s->samples * s->groups * s->chunk), s, k, g, room, &chunk);
    }
}

/* I1; `then` is called after each walk. */
static void walk_samples(const struct kernel_call *call, const struct gpu_scan_gradients *g,
                         void (*then)(const struct kernel_call *, const struct scan_shape *,
                                      const struct scan_room *))
{
    struct scan_shape whole = shape_of(call);
    struct scan_room room = room_of(call, &whole);
    int64_t at_once = own_scan(call->op, call->size).at_once;
    struct scan_kept k = kept_of(&whole, call->kept);
    for (int64_t first = 0; first < whole.samples; first += at_once) {
        struct scan_shape s = whole;
        s.first = first;
        s.samples = whole.samples - first < at_once ? whole.samples - first : at_once;
        walk_back(call, &s, &k, g, &room);
        if (then)
            then(call, &s, &room);
    }
}

static void scan_input(const struct kernel_call *call)
{
    struct gpu_scan_gradients g = {call->output_gradient, call->input_gradient[0],
                                   call->input_gradient[1]};
    if (g.all || g.steps)
        walk_samples(call, &g, NULL);
}

static void add_weights(const struct kernel_call *call, const struct scan_shape *s,
                        const struct scan_room *room)
{
    struct cuda_grid grid = {ceil_div(all_heads(s), THREADS), 1, 1, THREADS, 0};
    float *skip = s->delta ? NULL : call->weight_gradient[1];
    float *bias = call->weight_gradient[s->delta ? 1 : 2];
    CUDA_LAUNCH(call->stream, &SCAN_WEIGHTS, DTYPE_FP32, grid, s, room, &call->weight_gradient[0],
                &skip, &bias);
}

static void scan_weight(const struct kernel_call *call)
{
    struct gpu_scan_gradients g = {.dy = call->output_gradient};
    walk_samples(call, &g, add_weights);
}

#define SCAN                                                                                       \
    {                                                                                              \
        .refuses = scan_refuses,                                                                   \
        .kept_bytes = scan_kept,                                                                   \
        .scratch_bytes = scan_scratch,                                                             \
        .phase = {scan_forward, scan_input, scan_weight},                                          \
    }
const struct gpu_kind GPU_SCAN = SCAN, GPU_DELTA = SCAN;

/* scan.c - the selective scan and the gated delta rule on a GPU (kernels/cpu/scan.c, delta.c; scan.cu).
 *
 *   I1  Some samples are computed at a time, as many as own_scan says: their states need room.
 *   I2  Gradients of inputs and of weights come out of the same work. The phase that is first does it, and leaves the sums
 *       for the weights where the forward pass kept its numbers; a phase for the weights after it finds nothing to do.
 */
#include <math.h>

#include "cost/cost.h"
#include "run/kernels/cuda/room.h"
#include "run/kernels/cuda/scan_shape.h"

extern struct cuda_code CUDA_CODE_scan, CUDA_CODE_scan_delta, CUDA_CODE_scan_back;
GPU_KERNEL(SCAN_STEPS, scan, "scan_steps");
GPU_KERNEL(SCAN_LENGTHS, scan, "scan_lengths");
GPU_KERNEL(SCAN_PAIRS, scan, "scan_pairs");
GPU_KERNEL(SCAN_LOCAL, scan, "scan_local");
GPU_KERNEL(SCAN_OUTPUTS, scan, "scan_outputs");
GPU_KERNEL(CARRY_NARROW, scan_delta, "scan_carry_4"); /* states of up to 128 numbers in a row */
GPU_KERNEL(CARRY_WIDE, scan_delta, "scan_carry_8");
GPU_KERNEL(RETURN_NARROW, scan_delta, "scan_return_4");
GPU_KERNEL(RETURN_WIDE, scan_delta, "scan_return_8");
GPU_KERNEL(SCAN_X, scan_back, "scan_x");
GPU_KERNEL(SCAN_SHARED, scan_back, "scan_shared");
GPU_KERNEL(SCAN_NORMED, scan_back, "scan_normed");
GPU_KERNEL(SCAN_RATES, scan_back, "scan_rates");
static struct cuda_kernel SCAN_LOGS = {.code = &CUDA_CODE_scan, .name = "scan_logs"},
                          SCAN_PASS = {.code = &CUDA_CODE_scan, .name = "scan_pass"},
                          SCAN_INVERSE = {.code = &CUDA_CODE_scan_delta, .name = "scan_inverse"},
                          SCAN_WEIGHTS = {.code = &CUDA_CODE_scan_back, .name = "scan_weights"};

_Static_assert((int)SCAN_TILE == (int)OWN_SCAN_CHUNK,
               "a chunk is as long as predicted memory says");
enum { THREADS = 256, LANES = 32, NARROW_STATE = 4 * LANES, WIDEST_STATE = 8 * LANES };

static const char *scan_refuses(const struct op *op)
{
    return op->kind == OP_DELTA && op->scan_state > WIDEST_STATE
               ? "the GPU's delta rules take keys of up to 256 numbers"
               : NULL;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static struct scan_shape shape_of(const struct kernel_call *call)
{
    const struct op *op = call->op;
    struct scan_shape s = {.samples = call->size[0],
                           .groups = call->size[1],
                           .seq = call->size[2],
                           .heads = op->scan_heads,
                           .depth = call->size[3] / op->scan_heads,
                           .state = op->scan_state,
                           .delta = op->kind == OP_DELTA,
                           .scale = 1};
    s.share = call->size[3] + 2 * s.state;
    s.b = s.delta ? s.state : call->size[3];
    s.c = s.delta ? 0 : s.b + s.state;
    s.x = s.delta ? 2 * s.state : 0;
    if (s.delta)
        s.scale = 1.0F / sqrtf((float)s.state);
    s.chunks = ceil_div(s.seq, SCAN_TILE);
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

static int64_t all_chunks(const struct scan_shape *s)
{
    return s->samples * all_heads(s) * s->chunks;
}

/* Takes so many numbers of fp32 from a place. */
static float *take(float **at, int64_t count)
{
    float *from = *at;
    *at += count;
    return from;
}

/* As own_scan_kept counts it; the input, in its own type, is the last. */
static struct scan_kept kept_of(const struct scan_shape *s, float *at)
{
    int64_t heads = positions(s) * all_heads(s);
    struct scan_kept k = {.todo = take(&at, 1)};
    k.shrink = s->delta ? take(&at, 2 * positions(s) * s->groups) : NULL;
    k.write = s->delta ? take(&at, heads) : NULL;
    k.step = take(&at, heads);
    k.slope = take(&at, heads);
    k.rate = take(&at, all_heads(s));
    k.skip = s->delta ? NULL : take(&at, all_heads(s));
    k.sums = take(&at, s->samples * all_heads(s) * SCAN_SUMS);
    k.all = at;
    return k;
}

static int64_t scan_kept(const struct kernel_call *call)
{
    return own_scan_kept(call->op, call->size, call->dtype);
}

static int64_t scan_scratch(const struct kernel_call *call)
{
    return own_scan(call->op, call->size).bytes;
}

/* As own_scan counts it. */
static struct scan_room room_of(const struct kernel_call *call, const struct scan_shape *whole)
{
    enum { PAIRS = SCAN_TILE * SCAN_TILE, DOUBLE = 2 };
    struct scan_shape s = *whole;
    s.samples = own_scan(call->op, call->size).at_once;
    int64_t chunks = all_chunks(&s), places = chunks * SCAN_TILE,
            group_chunks = s.samples * s.groups * s.chunks;
    float *at = call->scratch;
    struct scan_room room = {.logs = (double *)(void *)take(&at, DOUBLE * places)};
    room.marks = take(&at, chunks * s.depth * s.state);
    room.back = take(&at, chunks * s.depth * s.state);
    room.queries = take(&at, group_chunks * PAIRS);
    room.held = take(&at, ceil_div(s.state, SCAN_TILE) * places);
    room.along = take(&at, places);
    room.skipped = take(&at, places);
    if (!s.delta)
        return room;
    room.keys = take(&at, group_chunks * PAIRS);
    room.inverse = take(&at, chunks * PAIRS);
    room.values = take(&at, places * s.depth);
    room.errors = take(&at, places * s.depth);
    room.shared = take(&at, group_chunks * SCAN_TILE * 2 * s.state);
    return room;
}

/* ---- grids ----------------------------------------------------------------------------------- */

/* Blocks with so many tiles in shared memory. */
static struct cuda_grid tile_grid(int64_t x, int64_t y, int64_t z, int64_t tiles)
{
    int64_t bytes = tiles * SCAN_TILE * SCAN_STEP * (int64_t)sizeof(float);
    return (struct cuda_grid){x, y, z, SCAN_THREADS, (int32_t)bytes};
}

/* Of what carries states (scan_delta.cu, carry_memory): keys of all positions and a state's rows, numbers of the rows twice, and T; on the
 * way back A as well, or the queries. */
static struct cuda_grid carry_grid(const struct scan_shape *s, bool backward)
{
    int64_t wide = (s->state > NARROW_STATE ? WIDEST_STATE : NARROW_STATE) + 4;
    int64_t tile = SCAN_TILE * SCAN_STEP, queries = SCAN_TILE * wide;
    int64_t last = !backward ? tile : 2 * tile > queries ? 2 * tile : queries;
    int64_t floats = (SCAN_TILE + SCAN_ROWS) * wide + 2 * SCAN_TILE * SCAN_ROWS_STEP + last;
    return (struct cuda_grid){s->samples * all_heads(s), ceil_div(s->depth, SCAN_ROWS), 1,
                              SCAN_THREADS, (int32_t)(floats * (int64_t)sizeof(float))};
}

/* A warp for each row. */
static struct cuda_grid warp_grid(int64_t rows)
{
    return (struct cuda_grid){ceil_div(LANES * rows, THREADS), 1, 1, THREADS, 0};
}

static int64_t tiles_of(int64_t size)
{
    return ceil_div(size, SCAN_TILE);
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* A pass over some samples. */
struct scan_pass {
    const struct kernel_call *call;
    struct scan_shape s;
    struct scan_kept k;
    struct scan_room room;
    struct gpu_scan_gradients g;
};

static void pass_states(const struct scan_pass *p, int32_t backward)
{
    const struct scan_shape *s = &p->s;
    struct cuda_grid grid = tile_grid(all_chunks(s), tiles_of(s->depth), tiles_of(s->state), 2);
    CUDA_LAUNCH(p->call->stream, &SCAN_LOCAL, p->call->dtype, grid, s, &p->k, &p->g, &p->room,
                &backward);
    int64_t numbers = s->samples * all_heads(s) * s->depth * s->state;
    CUDA_LAUNCH(p->call->stream, &SCAN_PASS, DTYPE_FP32,
                row_grid(ceil_div(numbers, THREADS), THREADS), s, &p->k, &p->room, &backward);
}

static void carry_states(const struct scan_pass *p)
{
    struct cuda_kernel *kernel = p->s.state > NARROW_STATE ? &CARRY_WIDE : &CARRY_NARROW;
    CUDA_LAUNCH(p->call->stream, &SCAN_INVERSE, DTYPE_FP32, tile_grid(all_chunks(&p->s), 1, 1, 2),
                &p->s, &p->k, &p->room);
    CUDA_LAUNCH(p->call->stream, kernel, p->call->dtype, carry_grid(&p->s, false), &p->s, &p->k,
                &p->room);
}

/* What both directions begin with: states before all chunks. */
static void find_states(const struct scan_pass *p)
{
    const struct scan_shape *s = &p->s;
    CUDA_LAUNCH(p->call->stream, &SCAN_LOGS, DTYPE_FP32, warp_grid(all_chunks(s)), s, &p->k,
                &p->room);
    CUDA_LAUNCH(p->call->stream, &SCAN_PAIRS, p->call->dtype,
                tile_grid(s->samples * s->groups * s->chunks, 1, 1, 2), s, &p->k, &p->room);
    if (s->delta)
        carry_states(p);
    else
        pass_states(p, false);
}

static void find_outputs(const struct scan_pass *p)
{
    find_states(p);
    CUDA_LAUNCH(p->call->stream, &SCAN_OUTPUTS, p->call->dtype,
                tile_grid(all_chunks(&p->s), tiles_of(p->s.depth), 1, 2), &p->s, &p->k, &p->room,
                &p->call->output);
}

static void return_states(const struct scan_pass *p)
{
    struct cuda_kernel *kernel = p->s.state > NARROW_STATE ? &RETURN_WIDE : &RETURN_NARROW;
    CUDA_LAUNCH(p->call->stream, kernel, p->call->dtype, carry_grid(&p->s, true), &p->s, &p->k,
                &p->g, &p->room);
}

static void find_gradients(const struct scan_pass *p)
{
    enum { TILES = 6, ROW_NUMBERS = 8 }; /* scan.cu, work_memory */
    const struct scan_shape *s = &p->s;
    struct cuda_grid shared =
        tile_grid(s->samples * s->groups * s->chunks, tiles_of(s->state), 1, TILES);
    shared.shared += ROW_NUMBERS * SCAN_TILE * (int32_t)sizeof(float);
    find_states(p);
    if (s->delta)
        return_states(p);
    else
        pass_states(p, true);
    CUDA_LAUNCH(p->call->stream, &SCAN_X, p->call->dtype, tile_grid(all_chunks(s), 1, 1, 2), s,
                &p->k, &p->g, &p->room);
    CUDA_LAUNCH(p->call->stream, &SCAN_SHARED, p->call->dtype, shared, s, &p->k, &p->g, &p->room);
    if (s->delta && p->g.all)
        CUDA_LAUNCH(p->call->stream, &SCAN_NORMED, p->call->dtype,
                    warp_grid(2 * s->samples * s->groups * s->chunks * SCAN_TILE), s, &p->k, &p->g,
                    &p->room);
    CUDA_LAUNCH(p->call->stream, &SCAN_RATES, p->call->dtype,
                row_grid(s->samples * all_heads(s), THREADS), s, &p->k, &p->g, &p->room);
}

/* I1 */
static void some_samples(const struct kernel_call *call, const struct gpu_scan_gradients *g,
                         bool once, void (*find)(const struct scan_pass *))
{
    struct scan_shape whole = shape_of(call);
    int64_t at_once = own_scan(call->op, call->size).at_once;
    struct scan_pass p = {.call = call,
                          .s = whole,
                          .k = kept_of(&whole, call->kept),
                          .room = room_of(call, &whole),
                          .g = *g};
    p.s.once = once;
    for (p.s.first = 0; p.s.first < whole.samples; p.s.first += at_once) {
        int64_t rest = whole.samples - p.s.first;
        p.s.samples = rest < at_once ? rest : at_once;
        find(&p);
    }
}

static void scan_forward(const struct kernel_call *call)
{
    struct scan_shape s = shape_of(call);
    struct scan_kept k = kept_of(&s, call->kept);
    const void *skip = s.delta ? NULL : call->weight[1];
    const void *bias = call->weight[s.delta ? 1 : 2];
    call_copy(call, call->input[0], k.all, positions(&s) * s.groups * s.share);
    CUDA_LAUNCH(call->stream, &SCAN_STEPS, call->dtype,
                cuda_elements(positions(&s) * all_heads(&s)), &call->input[1], &call->weight[0],
                &bias, &skip, &s, &k);
    if (s.delta)
        CUDA_LAUNCH(call->stream, &SCAN_LENGTHS, call->dtype, warp_grid(positions(&s) * s.groups),
                    &s, &k);
    some_samples(call, &(struct gpu_scan_gradients){0}, false, find_outputs);
}

/* I2: the work, and that it is done. */
static void scan_backward(const struct kernel_call *call, const struct gpu_scan_gradients *g,
                          bool once)
{
    struct scan_shape s = shape_of(call);
    some_samples(call, g, once, find_gradients);
    CUDA_DEVICE.clear(call->stream, kept_of(&s, call->kept).todo, sizeof(float));
}

static void scan_input(const struct kernel_call *call)
{
    struct gpu_scan_gradients g = {call->output_gradient, call->input_gradient[0],
                                   call->input_gradient[1]};
    if (g.all || g.steps)
        scan_backward(call, &g, false);
}

static void scan_weight(const struct kernel_call *call)
{
    struct scan_shape s = shape_of(call);
    struct scan_kept k = kept_of(&s, call->kept);
    struct cuda_grid grid = {ceil_div(all_heads(&s), THREADS), 1, 1, THREADS, 0};
    float *skip = s.delta ? NULL : call->weight_gradient[1];
    float *bias = call->weight_gradient[s.delta ? 1 : 2];
    scan_backward(call, &(struct gpu_scan_gradients){.dy = call->output_gradient}, true);
    CUDA_LAUNCH(call->stream, &SCAN_WEIGHTS, DTYPE_FP32, grid, &s, &k, &call->weight_gradient[0],
                &skip, &bias);
}

#define SCAN                                                                                       \
    {                                                                                              \
        .refuses = scan_refuses,                                                                   \
        .kept_bytes = scan_kept,                                                                   \
        .scratch_bytes = scan_scratch,                                                             \
        .phase = {scan_forward, scan_input, scan_weight},                                          \
    }
const struct gpu_kind GPU_SCAN = SCAN, GPU_DELTA = SCAN;

/* scan.cu - the selective scan and the gated delta rule (kernels/cpu/scan.c and delta.c have the equations).
 *
 * Rows of a head's state do not see each other. A warp holds SCAN_WARP_ROWS of them, a lane every 32nd number of a row:
 *
 *   row p:  h_t = r_t h_(t-1) + a_t b_t,   a_t = s_t x_t, of a delta rule  w_t (v_t - r_t h_(t-1) . k_t)      (1)
 *           y_t = h_t . c_t, and what goes past it
 *
 * A backward pass goes through chunks of positions, the last one first: it computes the states of a chunk again from the one
 * that is marked, and then walks back. What the rows of a head add to the gradients of b and c is summed in shared memory,
 * what heads add by another kernel: in a fixed order.
 *
 *   I1  A block has one head of one sample; blockDim.x / 32 * SCAN_WARP_ROWS rows are at least its depth.
 */
#include "../../device/cuda/elements.cuh"
#include "scan_shape.h"

/* ---- numbers in any storage ------------------------------------------------------------------- */

static __device__ __forceinline__ float load_any(const void *from, int storage, int64_t i)
{
    if (storage == 0)
        return ((const float *)from)[i];
    return storage == 1 ? wide(((const bf16 *)from)[i]) : wide(((const fp16 *)from)[i]);
}

static __device__ __forceinline__ void store_any(void *to, int storage, int64_t i, float x)
{
    if (storage == 0)
        ((float *)to)[i] = x;
    else if (storage == 1)
        ((bf16 *)to)[i] = narrow<bf16>(x);
    else
        ((fp16 *)to)[i] = narrow<fp16>(x);
}

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static __device__ __forceinline__ float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* ---- what is kept ----------------------------------------------------------------------------- */

static __device__ __forceinline__ int64_t all_heads(const scan_shape &s)
{
    return s.groups * s.heads;
}

/* Steps and rates of all positions. Of a delta rule `steps` are (position, group, write and step, head). */
extern "C" __global__ void scan_steps(const void *steps, const void *decay, const void *bias,
                                      const void *skip, scan_shape s, scan_kept k)
{
    int64_t heads = all_heads(s), count = s.samples * s.seq * heads;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t at = s.delta ? i / s.heads * 2 * s.heads + i % s.heads : i;
        float raw = load_any(steps, s.storage, s.delta ? at + s.heads : at) +
                    load_any(bias, s.storage, i % heads);
        k.step[i] = softplus(raw);
        k.slope[i] = sigmoid(raw);
        if (s.delta)
            k.write[i] = sigmoid(load_any(steps, s.storage, at));
        if (i >= heads)
            continue;
        k.rate[i] = -expf(load_any(decay, s.storage, i));
        if (!s.delta)
            k.skip[i] = load_any(skip, s.storage, i);
    }
}

/* x, b and c in fp32; of a delta rule k and q are divided by their lengths. A warp for each group of a position. */
extern "C" __global__ void scan_inputs(const void *all, scan_shape s, scan_kept k)
{
    const float least_square = 1e-6F; /* delta.c */
    int64_t row = thread_index() / 32;
    int lane = threadIdx.x % 32;
    if (row >= s.samples * s.seq * s.groups)
        return;
    float length[2] = {1, 1};
    for (int which = 0; s.delta && which < 2; which++) {
        float squares = 0;
        for (int64_t n = lane; n < s.state; n += 32) {
            float x = load_any(all, s.storage, row * s.share + which * s.state + n);
            squares += x * x;
        }
        length[which] = sqrtf(warp_sum(squares) + least_square);
        if (lane == 0)
            k.length[2 * row + which] = length[which];
    }
    for (int64_t n = lane; n < s.share; n += 32) {
        float by = !s.delta || n >= 2 * s.state ? 1 : 1 / length[n / s.state];
        k.all[row * s.share + n] = load_any(all, s.storage, row * s.share + n) * by;
    }
}

/* ---- one position ----------------------------------------------------------------------------- */

/* Of one head of one sample. */
struct walker {
    int64_t sample, group, head, number, block; /* number: of the head among all */
    int lane, row;                              /* row: the first of this warp's */
};

static __device__ __forceinline__ walker walker_of(const scan_shape &s)
{
    walker w;
    w.block = blockIdx.x;
    w.sample = s.first + blockIdx.x / all_heads(s);
    w.number = blockIdx.x % all_heads(s);
    w.group = w.number / s.heads;
    w.head = w.number % s.heads;
    w.lane = threadIdx.x % 32;
    w.row = threadIdx.x / 32 * SCAN_WARP_ROWS;
    return w;
}

static __device__ __forceinline__ int64_t group_at(const scan_shape &s, const walker &w, int64_t t)
{
    return ((w.sample * s.seq + t) * s.groups + w.group) * s.share;
}

static __device__ __forceinline__ int64_t step_at(const scan_shape &s, const walker &w, int64_t t)
{
    return (w.sample * s.seq + t) * all_heads(s) + w.number;
}

/* What all rows of a position share. */
template <int N> struct moment {
    float b[N], c[N], keep, add; /* add: s_t, or w_t */
    float x;                     /* of the row that is this lane's */
};

#define FOR_STATES(i)                                                                              \
    _Pragma("unroll") for (int i = 0; i < N; i++) if (w.lane + 32 * i < s.state)

#define FOR_ROWS(r)                                                                                \
    _Pragma("unroll") for (int r = 0; r < SCAN_WARP_ROWS; r++) if (w.row + r < s.depth)

/* A warp's rows are a lane's each where it reads or writes one number of every row. */
static __device__ __forceinline__ bool has_row(const scan_shape &s, const walker &w)
{
    return w.lane < SCAN_WARP_ROWS && w.row + w.lane < s.depth;
}

static __device__ __forceinline__ float of_row(float x, int r)
{
    return __shfl_sync(0xffffffffu, x, r);
}

template <int N>
static __device__ __forceinline__ moment<N> moment_at(const scan_shape &s, const scan_kept &k,
                                                   const walker &w, int64_t t)
{
    moment<N> m;
    const float *all = k.all + group_at(s, w, t);
    int64_t at = step_at(s, w, t);
    m.keep = expf(k.step[at] * k.rate[w.number]);
    m.add = s.delta ? k.write[at] : k.step[at];
    m.x = has_row(s, w) ? all[s.x + w.head * s.depth + w.row + w.lane] : 0;
    FOR_STATES(i)
    {
        m.b[i] = all[s.b + w.lane + 32 * i];
        m.c[i] = all[s.c + w.lane + 32 * i];
    }
    return m;
}

template <int N>
static __device__ __forceinline__ float row_dot(const scan_shape &s, const walker &w, const float *x,
                                                const float *y)
{
    float sum = 0;
    FOR_STATES(i) sum += x[i] * y[i];
    return warp_sum(sum);
}

/* x of (1), or what a delta rule's state does not say yet. */
template <int N>
static __device__ __forceinline__ float entering(const scan_shape &s, const walker &w,
                                                 const moment<N> &m, const float *before, int r)
{
    float x = of_row(m.x, r);
    return s.delta ? x - m.keep * row_dot<N>(s, w, before, m.b) : x;
}

template <int N>
static __device__ __forceinline__ void advance(const scan_shape &s, const walker &w, const moment<N> &m,
                                               int r, float *h)
{
    float add = m.add * entering<N>(s, w, m, h, r);
    FOR_STATES(i) h[i] = m.keep * h[i] + add * m.b[i];
}

/* ---- forward ---------------------------------------------------------------------------------- */

/* y, and the states before each chunk; NULL: not wanted. */
template <int N>
static __device__ __forceinline__ void walk_forward(scan_shape s, scan_kept k, void *y, float *marks)
{
    walker w = walker_of(s);
    int64_t chunks = (s.seq + s.chunk - 1) / s.chunk;
    float h[SCAN_WARP_ROWS][N] = {};
    for (int64_t t = 0; t < s.seq; t++) {
        moment<N> m = moment_at<N>(s, k, w, t);
        bool marked = marks && t % s.chunk == 0;
        float own = 0;
        FOR_ROWS(r)
        {
            float *to = marks + ((w.block * chunks + t / s.chunk) * s.depth + w.row + r) * s.state;
            if (marked)
                FOR_STATES(i) to[w.lane + 32 * i] = h[r][i];
            advance<N>(s, w, m, r, h[r]);
            float out = y ? row_dot<N>(s, w, h[r], m.c) : 0;
            own = w.lane == r ? out : own;
        }
        own = s.scale * own + (s.delta ? 0 : k.skip[w.number] * m.x);
        if (y && has_row(s, w))
            store_any(y, s.storage, step_at(s, w, t) * s.depth + w.row + w.lane, own);
    }
}

/* ---- backward --------------------------------------------------------------------------------- */

/* What a position's rows give, of this lane: gradients of b and c, and sums over rows. */
template <int N> struct given_back {
    float b[N], c[N];
    float along, held, dx; /* dx: of the row that is this lane's */
};

/* H into `back`; `was` and `is` are the states before and after the position. */
template <int N>
static __device__ __forceinline__ void back_row(const scan_shape &s, const scan_kept &k,
                                                const walker &w, const moment<N> &m, int r,
                                                float dy, const float *was, const float *is,
                                                float *back, given_back<N> &out)
{
    FOR_STATES(i) back[i] += dy * m.c[i];
    float x = entering<N>(s, w, m, was, r), by_b = row_dot<N>(s, w, back, m.b), dx = m.add * by_b;
    float pull = s.delta ? dx : 0;
    out.along += x * by_b;
    FOR_STATES(i)
    {
        out.b[i] += m.add * x * back[i] - pull * m.keep * was[i];
        out.c[i] += dy * is[i];
        back[i] -= pull * m.b[i];
        out.held += back[i] * was[i];
        back[i] *= m.keep; /* as the position before it has it */
    }
    out.dx = w.lane == r ? dx : out.dx;
}

/* Gradients of steps from the sums of all rows; a warp, whose first lane writes. */
static __device__ __forceinline__ void back_steps(const scan_shape &s, const scan_kept &k,
                                                  const walker &w, const gpu_scan_gradients &g,
                                                  int64_t t, float along, float held,
                                                  float skipped, float sums[SCAN_SUMS])
{
    int64_t at = step_at(s, w, t);
    float step = k.step[at], rate = k.rate[w.number], u = held * expf(step * rate);
    float d_step = ((s.delta ? 0 : along) + u * rate) * k.slope[at];
    sums[0] += u * step * rate;
    sums[1] += skipped;
    sums[2] += d_step;
    if (!g.steps || w.lane)
        return;
    int64_t to = s.delta ? at / s.heads * 2 * s.heads + at % s.heads : at;
    store_any(g.steps, s.storage, s.delta ? to + s.heads : to, d_step);
    if (s.delta)
        store_any(g.steps, s.storage, to, along * k.write[at] * (1 - k.write[at]));
}

/* Sums of all warps' parts, which lie in shared memory, for one position of a chunk: b and c of the head, and scalars. */
static __device__ __forceinline__ void sum_warps(const scan_shape &s, const scan_kept &k,
                                                 const walker &w, const gpu_scan_gradients &g,
                                                 const scan_room &room, int64_t t, float *shared,
                                                 float sums[SCAN_SUMS])
{
    int warps = blockDim.x / 32, wide_part = 2 * (int)s.state + SCAN_SUMS;
    float *to = room.share + (w.block * s.chunk + t % s.chunk) * 2 * s.state;
    for (int n = threadIdx.x; g.all && n < 2 * s.state; n += blockDim.x) {
        float sum = 0;
        for (int i = 0; i < warps; i++)
            sum += shared[i * wide_part + n];
        to[n] = sum;
    }
    if (threadIdx.x >= 32)
        return;
    float part[SCAN_SUMS];
    for (int i = 0; i < SCAN_SUMS; i++)
        part[i] =
            warp_sum(w.lane < warps ? shared[w.lane * wide_part + 2 * (int)s.state + i] : 0);
    back_steps(s, k, w, g, t, part[0], part[1], part[2], sums);
}

/* Positions of one chunk. */
template <int N>
static __device__ __forceinline__ void walk_back(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room, int64_t chunk)
{
    extern __shared__ float shared[];
    walker w = walker_of(s);
    int64_t chunks = (s.seq + s.chunk - 1) / s.chunk, one = s.depth * s.state;
    int64_t begin = chunk * s.chunk, end = begin + s.chunk < s.seq ? begin + s.chunk : s.seq;
    const float *mark = room.marks + (w.block * chunks + chunk) * one;
    float *inner = room.inner + w.block * s.chunk * one, *kept = room.back + w.block * one;
    float *own = shared + threadIdx.x / 32 * (2 * s.state + SCAN_SUMS);
    float now[SCAN_WARP_ROWS][N] = {}, back[SCAN_WARP_ROWS][N] = {};
    float sums[SCAN_SUMS] = {};
    FOR_ROWS(r)
        FOR_STATES(i)
        {
            int64_t at = (w.row + r) * s.state + w.lane + 32 * i;
            now[r][i] = mark[at];
            back[r][i] = chunk + 1 < chunks ? kept[at] : 0;
        }
    for (int64_t t = begin; t < end; t++) { /* inner: states after each position */
        moment<N> m = moment_at<N>(s, k, w, t);
        FOR_ROWS(r)
        {
            advance<N>(s, w, m, r, now[r]);
            FOR_STATES(i)
            inner[(t - begin) * one + (w.row + r) * s.state + w.lane + 32 * i] = now[r][i];
        }
    }
    for (int64_t t = end - 1; t >= begin; t--) {
        moment<N> m = moment_at<N>(s, k, w, t);
        given_back<N> out = {};
        const float *before = t > begin ? inner + (t - 1 - begin) * one : mark;
        int64_t y_row = step_at(s, w, t) * s.depth + w.row + w.lane;
        float dy = has_row(s, w) ? s.scale * load_any(g.dy, s.storage, y_row) : 0;
        FOR_ROWS(r)
        {
            float was[N];
            FOR_STATES(i) was[i] = before[(w.row + r) * s.state + w.lane + 32 * i];
            back_row<N>(s, k, w, m, r, of_row(dy, r), was, now[r], back[r], out);
            FOR_STATES(i) now[r][i] = was[i];
        }
        if (g.all && has_row(s, w))
            store_any(g.all, s.storage,
                      group_at(s, w, t) + s.x + w.head * s.depth + w.row + w.lane,
                      s.delta ? out.dx : out.dx + k.skip[w.number] * dy);
        out.held = warp_sum(out.held);
        float skipped = warp_sum(dy * m.x);
        FOR_STATES(i)
        {
            own[w.lane + 32 * i] = out.b[i];
            own[s.state + w.lane + 32 * i] = out.c[i];
        }
        if (w.lane == 0) {
            own[2 * s.state] = out.along;
            own[2 * s.state + 1] = out.held;
            own[2 * s.state + 2] = skipped;
        }
        __syncthreads();
        sum_warps(s, k, w, g, room, t, shared, sums);
        __syncthreads();
    }
    FOR_ROWS(r)
        FOR_STATES(i) kept[(w.row + r) * s.state + w.lane + 32 * i] = back[r][i];
    if (threadIdx.x == 0)
        for (int i = 0; i < SCAN_SUMS; i++)
            room.sums[w.block * SCAN_SUMS + i] =
                (chunk + 1 < chunks ? room.sums[w.block * SCAN_SUMS + i] : 0) + sums[i];
}

#define SCANS(N)                                                                                   \
    extern "C" __global__ void __launch_bounds__(32 * SCAN_MOST_WARPS, 1)                             \
        scan_forward_##N(scan_shape s, scan_kept k, void *y, float *marks)                         \
    {                                                                                              \
        walk_forward<N>(s, k, y, marks);                                                           \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(32 * SCAN_MOST_WARPS, 1) scan_back_##N(              \
        scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room, int64_t chunk)                \
    {                                                                                              \
        walk_back<N>(s, k, g, room, chunk);                                                        \
    }
SCANS(4)
SCANS(8)

/* Gradients of b and c of a chunk's positions, over the heads that share them: a warp for each of the two, of each group and
 * position. Of a vector that was divided by its length (delta.c, 6). */
extern "C" __global__ void scan_shared(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room,
                                       int64_t chunk)
{
    int64_t row = thread_index() / 32, which = row % 2, t = chunk * s.chunk + row / 2 % s.chunk;
    int64_t group = row / 2 / s.chunk % s.groups, sample = row / 2 / s.chunk / s.groups;
    int lane = threadIdx.x % 32;
    if (sample >= s.samples || t >= s.seq)
        return;
    int64_t position = ((s.first + sample) * s.seq + t) * s.groups + group;
    int64_t at = position * s.share + (which ? s.c : s.b);
    float d[SCAN_LANE_STATES] = {}, dot = 0;
#pragma unroll
    for (int i = 0; i < SCAN_LANE_STATES; i++) {
        int64_t n = lane + 32 * i;
        if (n >= s.state)
            continue;
        for (int64_t head = 0; head < s.heads; head++) {
            int64_t block = sample * all_heads(s) + group * s.heads + head;
            d[i] += room.share[((block * s.chunk + t % s.chunk) * 2 + which) * s.state + n];
        }
        dot += k.all[at + n] * d[i];
    }
    dot = s.delta ? warp_sum(dot) : 0;
    float length = s.delta ? k.length[2 * position + (which ? 0 : 1)] : 1; /* of q, of k */
#pragma unroll
    for (int i = 0; i < SCAN_LANE_STATES; i++) {
        int64_t n = lane + 32 * i;
        if (n < s.state)
            store_any(g.all, s.storage, at + n, (d[i] - k.all[at + n] * dot) / length);
    }
}

/* Gradients of the weights, over samples: a thread for each head. */
extern "C" __global__ void scan_weights(scan_shape s, scan_room room, float *decay, float *skip,
                                        float *bias)
{
    int64_t head = thread_index(), heads = all_heads(s);
    if (head >= heads)
        return;
    float sum[SCAN_SUMS] = {};
    for (int64_t sample = 0; sample < s.samples; sample++)
        for (int i = 0; i < SCAN_SUMS; i++)
            sum[i] += room.sums[(sample * heads + head) * SCAN_SUMS + i];
    decay[head] += sum[0];
    if (skip)
        skip[head] += sum[1];
    bias[head] += sum[2];
}

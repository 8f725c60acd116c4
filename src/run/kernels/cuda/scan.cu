/* scan.cu - the selective scan and the gated delta rule by chunks (kernels/cpu/scan.c and delta.c have them by positions).
 *
 * Both add u_t k_t^T to a state that fades, and read it. Of a chunk that begins with S, with g_i = r_1 ... r_i:
 *
 *   u_t = s_t x_t, of a delta rule b_t (v_t - r_t S_(t-1) k_t)                                        (1)
 *   Y = diag(g) Q S^T + A U,  A_ij = (g_i / g_j) q_i . k_j for j <= i                                 (2)
 *   S_end = g_C S + sum of (g_C / g_j) u_j k_j^T                                                      (3)
 *   of a delta rule  U = T diag(b) (V - diag(g) K S^T),  T = (1 + L)^-1,
 *                    L_ij = b_i (g_i / g_j) k_i . k_j for j < i      (Yang et al., 2024, section 3.3) (4)
 *
 * Backward, with M the gradient of S_end and D = diag(b) E of a delta rule, else 0:
 *
 *   E' = A^T dY + diag(g_C / g) K M^T,  E = E', of a delta rule T^T E': the gradient of u_t as a number that is added (5)
 *   dS = g_C M + sum of g_j dy_j q_j^T - g_j D_j k_j^T                                               (6)
 *   dQ = diag(g) dY S + Z K,  Z_ij = (g_i / g_j) dy_i . u_j for j <= i                               (7)
 *   dK = Z^T Q + diag(g_C / g) U M - diag(g) D S - (X + X^T) K,  X_ij = (g_i / g_j) D_i . u_j for j < i (8)
 *   dx = s E and dv = D;  ds_t = x_t . E_t;  d(sigmoid^-1 b_t) = (1 - b_t) u_t . E_t                  (9)
 *   d(ln r_t) = sum of all that goes from before t to t or after it: pairs j < t <= i of (2) and (4), S to i, j to M, S to M (10)
 *
 * States of a scan are made chunk by chunk and then passed on number by number; those of a delta rule are in scan_delta.cu,
 * gradients of inputs and weights in scan_back.cu.
 *
 *   I1  Positions after the last are there as zeros, with r = 1.
 *   I2  Differences of sums of ln r are taken in double: a chunk can fade by e^-1000 and more.
 *   I3  (10) adds no two large numbers that cancel: sums over pairs, not differences of sums over rows.
 */
#include "scan_tiles.cuh"

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static __device__ __forceinline__ float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* ---- what is kept ----------------------------------------------------------------------------- */

/* Steps and rates of all positions. Of a delta rule `steps` are (position, group, write and step, head). */
template <class T>
static __device__ __forceinline__ void steps_of(const void *steps, const void *decay, const void *bias,
                                                const void *skip, scan_shape s, scan_kept k)
{
    int64_t heads = all_heads(s), count = s.samples * s.seq * heads;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t at = s.delta ? i / s.heads * 2 * s.heads + i % s.heads : i;
        float raw = load<T>(steps, s.delta ? at + s.heads : at) +
                    load<T>(bias, i % heads);
        k.step[i] = softplus(raw);
        k.slope[i] = sigmoid(raw);
        if (s.delta)
            k.write[i] = sigmoid(load<T>(steps, at));
        if (i == 0)
            *k.todo = 1;
        if (i >= heads)
            continue;
        k.rate[i] = -expf(load<T>(decay, i));
        if (!s.delta)
            k.skip[i] = load<T>(skip, i);
    }
}

/* One over the lengths of q and k: a warp for each group of a position. */
template <class T> static __device__ __forceinline__ void lengths(scan_shape s, scan_kept k)
{
    const float least_square = 1e-6F; /* delta.c */
    int64_t row = thread_index() / 32;
    int lane = threadIdx.x % 32;
    if (row >= s.samples * s.seq * s.groups)
        return;
    for (int which = 0; which < 2; which++) {
        float squares = 0;
        for (int64_t n = lane; n < s.state; n += 32) {
            float x = load<T>(k.all, row * s.share + which * s.state + n);
            squares += x * x;
        }
        squares = warp_sum(squares);
        if (lane == 0)
            k.shrink[2 * row + which] = 1 / sqrtf(squares + least_square);
    }
}

/* ---- within chunks ---------------------------------------------------------------------------- */

/* Sums of ln r: a warp for each chunk of a head, a lane two positions (I1, I2). */
extern "C" __global__ void scan_logs(scan_shape s, scan_kept k, scan_room room)
{
    int64_t chunk = thread_index() / 32;
    int lane = threadIdx.x % 32;
    if (is_done(s, k) || chunk >= s.samples * all_heads(s) * s.chunks)
        return;
    spot at = head_spot(s, chunk);
    double own[2];
    for (int i = 0; i < 2; i++)
        own[i] = has_position(s, at, 2 * lane + i)
                     ? (double)k.step[step_at(s, at, 2 * lane + i)] * k.rate[at.number]
                     : 0;
    double sum = own[0] + own[1];
    for (int apart = 1; apart < 32; apart *= 2) {
        double other = __shfl_up_sync(0xffffffffu, sum, apart);
        sum += lane >= apart ? other : 0;
    }
    room.logs[chunk * SCAN_TILE + 2 * lane] = sum - own[1];
    room.logs[chunk * SCAN_TILE + 2 * lane + 1] = sum;
}

/* q_i . k_j, and of a delta rule k_i . k_j, for a chunk of a group. Grid: chunks of groups. */
template <class T>
static __device__ __forceinline__ void pairs(const scan_shape &s, const scan_kept &k, const scan_room &room)
{
    int64_t block = blockIdx.x;
    spot at = {block / s.chunks / s.groups, block / s.chunks % s.groups, 0, 0, block % s.chunks};
    float *q = tile_at(0), *key = tile_at(1);
    piece by_queries = {}, by_keys = {};
    for (int64_t n = 0; n < s.state; n += SCAN_TILE) {
        fill_tile(q, [&](int i, int j) { return feature_of<T>(s, k, at, true, i, n + j); });
        fill_tile(key, [&](int i, int j) { return feature_of<T>(s, k, at, false, i, n + j); });
        __syncthreads();
        tile_product<T, false, true>(by_queries, q, key);
        if (s.delta)
            tile_product<T, false, true>(by_keys, key, key);
        __syncthreads();
    }
    int64_t to = pairs_index(s, at);
    each_number(by_queries, [&](int i, int j, float &x) { room.queries[to + i * SCAN_TILE + j] = x; });
    if (s.delta)
        each_number(by_keys, [&](int i, int j, float &x) { room.keys[to + i * SCAN_TILE + j] = x; });
}

/* ---- states of a scan ------------------------------------------------------------------------- */

/* What a chunk adds to the state, (3), into `marks`, or to the gradient of it, (6), into `back`. Grid: chunks of heads,
 * tiles of the depth, of the state. */
template <class T>
static __device__ __forceinline__ void local_states(const scan_shape &s, const scan_kept &k, const gpu_scan_gradients &g,
                                                    const scan_room &room, bool backward)
{
    __shared__ double logs[SCAN_TILE];
    __shared__ float factor[SCAN_TILE];
    spot at = head_spot(s, blockIdx.x);
    int64_t first_p = (int64_t)blockIdx.y * SCAN_TILE, first_n = (int64_t)blockIdx.z * SCAN_TILE;
    float *rows = tile_at(0), *columns = tile_at(1);
    piece sum = {};
    load_logs(logs, s, room, at);
    __syncthreads();
    if (threadIdx.x < SCAN_TILE) {
        int i = (int)threadIdx.x;
        float step = k.step[has_position(s, at, i) ? step_at(s, at, i) : 0];
        factor[i] = backward ? left_from_begin(logs, i) : left_at_end(logs, i) * step;
    }
    __syncthreads();
    fill_tile(rows, [&](int i, int p) {
        return factor[i] * (backward ? gradient_of<T>(s, g, at, i, first_p + p) : input_of<T>(s, k, at, i, first_p + p));
    });
    fill_tile(columns, [&](int i, int n) { return feature_of<T>(s, k, at, backward, i, first_n + n); });
    __syncthreads();
    tile_product<T, true, false>(sum, rows, columns);
    float *to = (backward ? room.back : room.marks) + chunk_index(s, at) * s.depth * s.state;
    each_number(sum, [&](int p, int n, float &x) {
        if (first_p + p < s.depth && first_n + n < s.state)
            to[(first_p + p) * s.state + first_n + n] = x;
    });
}

/* What chunks add becomes what they begin with, or of gradients what comes after them: a thread for each number, which reads some
 * before it writes them. */
extern "C" __global__ void scan_pass(scan_shape s, scan_kept k, scan_room room, int backward)
{
    const int AT_ONCE = 8;
    int64_t one = s.depth * s.state, i = thread_index(), head = i / one, step = backward ? -1 : 1;
    if (is_done(s, k) || i >= s.samples * all_heads(s) * one)
        return;
    int64_t first = head * s.chunks + (backward ? s.chunks - 1 : 0);
    float *all = (backward ? room.back : room.marks) + i % one, now = 0;
    for (int64_t n = 0; n < s.chunks; n += AT_ONCE) {
        float add[AT_ONCE], left[AT_ONCE];
#pragma unroll
        for (int m = 0; m < AT_ONCE; m++) {
            int64_t chunk = n + m < s.chunks ? first + (n + m) * step : first;
            add[m] = all[chunk * one];
            left[m] = (float)room.logs[chunk * SCAN_TILE + SCAN_TILE - 1];
        }
#pragma unroll
        for (int m = 0; m < AT_ONCE; m++) {
            if (n + m < s.chunks)
                all[(first + (n + m) * step) * one] = now;
            now = expf(left[m]) * now + add[m];
        }
    }
}

/* ---- outputs ---------------------------------------------------------------------------------- */

/* (2). Grid: chunks of heads, tiles of the depth. */
template <class T>
static __device__ __forceinline__ void outputs(const scan_shape &s, const scan_kept &k, const scan_room &room, void *y)
{
    __shared__ double logs[SCAN_TILE];
    spot at = head_spot(s, blockIdx.x);
    int64_t first = (int64_t)blockIdx.y * SCAN_TILE;
    float *left = tile_at(0), *right = tile_at(1);
    piece sum = {};
    load_logs(logs, s, room, at);
    add_states<T>(sum, s, k, at, true, room.marks, first);
    each_number(sum, [&](int i, int, float &x) { x *= left_from_begin(logs, i); });
    fill_tile(left, [&](int i, int j) { return query_pair(s, room, at, logs, i, j); });
    fill_tile(right, [&](int j, int p) { return value_of<T>(s, k, room, at, j, first + p); });
    __syncthreads();
    tile_product<T, false, false>(sum, left, right);
    each_number(sum, [&](int i, int p, float &x) {
        if (first + p >= s.depth || !has_position(s, at, i))
            return;
        float past = s.delta ? 0 : k.skip[at.number] * input_of<T>(s, k, at, i, first + p);
        store<T>(y, step_at(s, at, i) * s.depth + first + p, s.scale * x + past);
    });
}

/* ---- for the host (scan.c) --------------------------------------------------------------------- */

#define SCANS(T, NAME)                                                                             \
    extern "C" __global__ void scan_steps_##NAME(const void *steps, const void *decay,             \
                                                 const void *bias, const void *skip, scan_shape s, \
                                                 scan_kept k)                                      \
    {                                                                                              \
        steps_of<T>(steps, decay, bias, skip, s, k);                                               \
    }                                                                                              \
    extern "C" __global__ void scan_lengths_##NAME(scan_shape s, scan_kept k)                      \
    {                                                                                              \
        lengths<T>(s, k);                                                                          \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 4)                                  \
        scan_pairs_##NAME(scan_shape s, scan_kept k, scan_room room)                               \
    {                                                                                              \
        if (!is_done(s, k))                                                                        \
            pairs<T>(s, k, room);                                                                  \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 4)                                  \
        scan_local_##NAME(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room,         \
                          int backward)                                                            \
    {                                                                                              \
        if (!is_done(s, k))                                                                        \
            local_states<T>(s, k, g, room, backward);                                              \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 4)                                  \
        scan_outputs_##NAME(scan_shape s, scan_kept k, scan_room room, void *y)                    \
    {                                                                                              \
        outputs<T>(s, k, room, y);                                                                 \
    }
SCANS(float, fp32)
SCANS(bf16, bf16)
SCANS(fp16, fp16)

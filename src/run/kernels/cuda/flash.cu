/* flash.cu - attention of bf16 or fp16 on tensor cores: the equations of kernels/cpu/attention.c for heads of 64 and
 * 128 features whose keys are whole on this device.
 *
 * A warp holds R times 16 rows of a product in registers, as mma.m16n8k16 leaves them: lane 4 g + t has
 * columns 2 t and 2 t + 1 of rows g and g + 8 of every 8 columns. Two such pieces side by side are, rounded
 * to them, the left operand of the next product, so scores never leave the registers. What is read from shared
 * memory as the right operand serves all R.
 *
 *   forward   S = Q K^T, O += P V                       rows are queries
 *   queries   S = Q K^T, dP = dO V^T, dQ += dS K        rows are queries
 *   keys      S^T = K Q^T, dP^T = V dO^T, dV += P^T dO, dK += dS^T Q        rows are keys
 *
 *   I1  Exponents are of 2: scores are multiplied by log2 e beforehand. What is kept is the natural
 *       logarithm, as elsewhere.
 *   I2  Tiles lie in shared memory with 8 numbers between rows, so that the 8 rows of a fragment are in
 *       different banks. The next tile is fetched while one is multiplied.
 *   I3  Nobody adds to what another block writes: gradients of queries and of keys are two kernels.
 */
#include "fragments.cuh"

/* ---- forward --------------------------------------------------------------------------------- */

enum { WARPS = 4, THREADS = 32 * WARPS };

/* The block's shared memory. */
template <class T> static __device__ __forceinline__ T *shared_room()
{
    extern __shared__ uint4 room[];
    return (T *)room;
}

/* Keys that any query of a tile sees, in whole tiles of N. */
static __device__ __forceinline__ void key_range(const shape &s, int64_t first, int64_t rows, int n,
                                                 int64_t *key, int64_t *end)
{
    *key = 0;
    *end = s.kv;
    while (*key < *end && !any_sees(s, first, rows, *key, n))
        *key += n;
    while (*end > *key && !any_sees(s, first, rows, (*end - 1) / n * n, n))
        *end = (*end - 1) / n * n;
}

/* A tile of N keys, and one of their values. */
template <class T, int D, int N>
static __device__ __forceinline__ void fetch_keys(T *ks, T *vs, const T *k, const T *v,
                                                  int64_t sample, const shape &s, int64_t head,
                                                  int64_t first)
{
    fetch<T, D, N, THREADS>(ks, k, sample, s.kv, s.head, head, first);
    fetch<T, D, N, THREADS>(vs, v, sample, s.kv, s.head, head, first);
}

/* Grid: tiles of queries (the longest first), query heads, samples; N keys at a time. */
template <class T, int D, int N, int R>
static __device__ __forceinline__ void forward(const T *q, const T *k, const T *v,
                                               T *out, float *kept, const shape &s)
{
    const int M = WARPS * R * 16, ROW = D + PAD;
    T *room = shared_room<T>();
    T *qs = room, *ks = qs + M * ROW, *vs = ks + 2 * N * ROW;
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 * R * 16, g = lane / 4, t = lane % 4;
    int64_t first = ((int64_t)gridDim.x - 1 - blockIdx.x) * M, head = blockIdx.y;
    int64_t sample = blockIdx.z, heads = s.head * s.group, key_head = head / s.group, key, end;
    float o[R][D / 8][4] = {}, most[R][2], sum[R][2] = {};
    float scale = s.scale * LOG2E;
#pragma unroll
    for (int r = 0; r < R; r++)
        most[r][0] = most[r][1] = -INFINITY;
    key_range(s, first, M, N, &key, &end);
    fetch<T, D, M, THREADS>(qs, q, sample, s.seq, heads, head, first);
    fetch_keys<T, D, N>(ks, vs, k, v, sample, s, key_head, key);
    fetch_commit();
    for (int turn = 0; key < end; key += N, turn ^= 1) {
        if (key + N < end) {
            T *k_next = ks + (turn ^ 1) * N * ROW, *v_next = vs + (turn ^ 1) * N * ROW;
            fetch_keys<T, D, N>(k_next, v_next, k, v, sample, s, key_head, key + N);
        }
        fetch_commit();
        fetch_wait<1>();
        __syncthreads();
        float c[R][N / 8][4] = {};
        product_turned<T, D, N, R>(c, qs, own, ks + turn * N * ROW);
#pragma unroll
        for (int r = 0; r < R; r++) {
            int64_t query = first + own + r * 16;
            if (!all_see(s, query, 16, key, N))
                hide<N>(c[r], s, query, key);
            float top[2] = {most[r][0], most[r][1]}, again[2];
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    top[i / 2] = fmaxf(top[i / 2], c[r][n][i] * scale);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                top[h] = over_quad(top[h], true);
                float shift = top[h] > -INFINITY ? top[h] : 0;
                again[h] = power(most[r][h] - shift);
                most[r][h] = top[h];
                top[h] = shift;
                sum[r][h] *= again[h];
            }
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    c[r][n][i] = power(fmaf(c[r][n][i], scale, -top[i / 2]));
                    sum[r][i / 2] += c[r][n][i];
                }
#pragma unroll
            for (int n = 0; n < D / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    o[r][n][i] *= again[i / 2];
        }
        product_plain<T, D, N, R>(o, c, vs + turn * N * ROW);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int64_t row = first + own + r * 16 + g + h * 8;
            float all = over_quad(sum[r][h], false);
            bool any = all > 0 || isnan(all);
            float share = any ? 1 / all : 0;
            if (row >= s.seq)
                continue;
            if (t == 0)
                kept[(sample * heads + head) * s.seq + row] =
                    any ? (most[r][h] + log2f(all)) * LN2 : -INFINITY;
            store_row<T, D>(out + ((sample * s.seq + row) * heads + head) * D, o[r], h, share);
        }
}

/* What was kept, as an exponent of 2; of a row that sees nothing, whose scores are all -inf, any number. */
static __device__ __forceinline__ float exponent(float kept)
{
    return kept > -INFINITY ? kept * LOG2E : 0;
}

/* ---- gradients of queries -------------------------------------------------------------------- */

/* Grid as in the forward pass. */
template <class T, int D, int N, int R>
static __device__ __forceinline__ void queries(const T *q, const T *k, const T *v,
                                               const T *d_out, const float *kept,
                                               const float *dot, T *dq, const shape &s)
{
    const int M = WARPS * R * 16, ROW = D + PAD;
    T *room = shared_room<T>();
    T *qs = room, *ds = qs + M * ROW, *ks = ds + M * ROW, *vs = ks + 2 * N * ROW;
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 * R * 16, g = lane / 4;
    int64_t first = ((int64_t)gridDim.x - 1 - blockIdx.x) * M, head = blockIdx.y;
    int64_t sample = blockIdx.z, heads = s.head * s.group, key_head = head / s.group, key, end;
    float x[R][D / 8][4] = {}, scale = s.scale * LOG2E, own_kept[R][2], own_dot[R][2];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int64_t row = first + own + r * 16 + g + h * 8;
            int64_t at = (sample * heads + head) * s.seq + row;
            own_kept[r][h] = row < s.seq ? exponent(kept[at]) : 0;
            own_dot[r][h] = row < s.seq ? dot[at] : 0;
        }
    key_range(s, first, M, N, &key, &end);
    fetch<T, D, M, THREADS>(qs, q, sample, s.seq, heads, head, first);
    fetch<T, D, M, THREADS>(ds, d_out, sample, s.seq, heads, head, first);
    fetch_keys<T, D, N>(ks, vs, k, v, sample, s, key_head, key);
    fetch_commit();
    for (int turn = 0; key < end; key += N, turn ^= 1) {
        if (key + N < end) {
            T *k_next = ks + (turn ^ 1) * N * ROW, *v_next = vs + (turn ^ 1) * N * ROW;
            fetch_keys<T, D, N>(k_next, v_next, k, v, sample, s, key_head, key + N);
        }
        fetch_commit();
        fetch_wait<1>();
        __syncthreads();
        float c[R][N / 8][4] = {}, p[R][N / 8][4] = {};
        product_turned<T, D, N, R>(c, qs, own, ks + turn * N * ROW);
        product_turned<T, D, N, R>(p, ds, own, vs + turn * N * ROW);
#pragma unroll
        for (int r = 0; r < R; r++) {
            int64_t query = first + own + r * 16;
            if (!all_see(s, query, 16, key, N))
                hide<N>(c[r], s, query, key);
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    c[r][n][i] = power(fmaf(c[r][n][i], scale, -own_kept[r][i / 2])) *
                                 (p[r][n][i] - own_dot[r][i / 2]);
        }
        product_plain<T, D, N, R>(x, c, ks + turn * N * ROW);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int64_t row = first + own + r * 16 + g + h * 8;
            if (row < s.seq)
                store_row<T, D>(dq + ((sample * s.seq + row) * heads + head) * D, x[r], h, s.scale);
        }
}

/* ---- gradients of keys and values ------------------------------------------------------------ */

/* Grid: tiles of keys, key/value heads, samples; N queries at a time. */
template <class T, int D, int N, int R>
static __device__ __forceinline__ void keys(const T *q, const T *k, const T *v,
                                            const T *d_out, const float *kept, const float *dot,
                                            T *dk, T *dv, const shape &s)
{
    const int M = WARPS * R * 16, ROW = D + PAD;
    T *room = shared_room<T>();
    T *ks = room, *vs = ks + M * ROW, *qs = vs + M * ROW, *ds = qs + 2 * N * ROW;
    float *row_kept = (float *)(ds + 2 * N * ROW), *row_dot = row_kept + N;
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 * R * 16, g = lane / 4, t = lane % 4;
    int64_t key = (int64_t)blockIdx.x * M, key_head = blockIdx.y, sample = blockIdx.z;
    int64_t heads = s.head * s.group, from = 0, end = s.seq;
    float x[R][D / 8][4] = {}, y[R][D / 8][4] = {}, scale = s.scale * LOG2E;
    while (from < end && !any_sees(s, from, N, key, M))
        from += N;
    while (end > from && !any_sees(s, (end - 1) / N * N, N, key, M))
        end = (end - 1) / N * N;
    int64_t each = end > from ? (end - from + N - 1) / N : 0, all = each * s.group;
    fetch<T, D, M, THREADS>(ks, k, sample, s.kv, s.head, key_head, key);
    fetch<T, D, M, THREADS>(vs, v, sample, s.kv, s.head, key_head, key);
    if (all) {
        fetch<T, D, N, THREADS>(qs, q, sample, s.seq, heads, key_head * s.group, from);
        fetch<T, D, N, THREADS>(ds, d_out, sample, s.seq, heads, key_head * s.group, from);
    }
    fetch_commit();
    for (int64_t i = 0; i < all; i++) {
        int turn = i % 2;
        int64_t head = key_head * s.group + i / each, first = from + i % each * N;
        if (i + 1 < all) {
            int64_t next = key_head * s.group + (i + 1) / each, at = from + (i + 1) % each * N;
            T *q_next = qs + (turn ^ 1) * N * ROW, *d_next = ds + (turn ^ 1) * N * ROW;
            fetch<T, D, N, THREADS>(q_next, q, sample, s.seq, heads, next, at);
            fetch<T, D, N, THREADS>(d_next, d_out, sample, s.seq, heads, next, at);
        }
        fetch_commit();
        if (threadIdx.x < N) {
            bool there = first + threadIdx.x < s.seq;
            int64_t at = (sample * heads + head) * s.seq + first + threadIdx.x;
            row_kept[threadIdx.x] = there ? exponent(kept[at]) : 0;
            row_dot[threadIdx.x] = there ? dot[at] : 0;
        }
        fetch_wait<1>();
        __syncthreads();
        float c[R][N / 8][4] = {}, p[R][N / 8][4] = {};
        product_turned<T, D, N, R>(c, ks, own, qs + turn * N * ROW);
        product_turned<T, D, N, R>(p, vs, own, ds + turn * N * ROW);
#pragma unroll
        for (int r = 0; r < R; r++) {
            int64_t row = key + own + r * 16;
            if (!all_see(s, first, N, row, 16))
                hide_turned<N>(c[r], s, first, row);
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int column = n * 8 + 2 * t + j % 2;
                    c[r][n][j] = power(fmaf(c[r][n][j], scale, -row_kept[column]));
                    p[r][n][j] = c[r][n][j] * (p[r][n][j] - row_dot[column]);
                }
        }
        product_plain<T, D, N, R>(y, c, ds + turn * N * ROW);
        product_plain<T, D, N, R>(x, p, qs + turn * N * ROW);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int64_t row = key + own + r * 16 + g + h * 8;
            int64_t to = ((sample * s.kv + row) * s.head + key_head) * D;
            if (dk && row < s.kv)
                store_row<T, D>(dk + to, x[r], h, s.scale);
            if (dv && row < s.kv)
                store_row<T, D>(dv + to, y[r], h, 1);
        }
}

/* ---- for the host (attention.c, FLASH) -------------------------------------------------------- */

#define FLASH_OF(D, T, FORWARD_N, FORWARD_R, QUERIES_N, QUERIES_R, KEYS_N, KEYS_R)                 \
    extern "C" __global__ void __launch_bounds__(THREADS) flash_forward_##D##_##T(                 \
        const T *q, const T *k, const T *v, T *out, float *kept, shape s)                          \
    {                                                                                              \
        forward<T, D, FORWARD_N, FORWARD_R>(q, k, v, out, kept, s);                                \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS)                                          \
        flash_queries_##D##_##T(const T *q, const T *k, const T *v, const T *d_out,                \
                                const float *kept, const float *dot, T *dq, shape s)               \
    {                                                                                              \
        queries<T, D, QUERIES_N, QUERIES_R>(q, k, v, d_out, kept, dot, dq, s);                     \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS)                                          \
        flash_keys_##D##_##T(const T *q, const T *k, const T *v, const T *d_out,                   \
                             const float *kept, const float *dot, T *dk, T *dv, shape s)           \
    {                                                                                              \
        keys<T, D, KEYS_N, KEYS_R>(q, k, v, d_out, kept, dot, dk, dv, s);                          \
    }
#define FLASH(D, ...) FLASH_OF(D, bf16, __VA_ARGS__) FLASH_OF(D, fp16, __VA_ARGS__)
FLASH(64, 64, 2, 64, 1, 64, 1)
FLASH(128, 64, 1, 64, 1, 32, 1)

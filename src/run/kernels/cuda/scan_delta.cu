/* scan_delta.cu - states of a gated delta rule (scan.cu): the inverse of each chunk's triangle, and what goes from chunk to chunk.
 *
 * A block carries SCAN_ROWS rows of a head's state, which see no others.
 */
#include "scan_tiles.cuh"

/* T of (4), column by column. Grid: chunks of heads; a thread for each column. */
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    scan_inverse(scan_shape s, scan_kept k, scan_room room)
{
    __shared__ double logs[SCAN_TILE];
    spot at = head_spot(s, blockIdx.x);
    float *lower = tile_at(0), *x = tile_at(1);
    if (is_done(s, k))
        return;
    load_logs(logs, s, room, at);
    __syncthreads();
    fill_tile(lower, [&](int i, int j) {
        return has_position(s, at, i) ? k.write[step_at(s, at, i)] * key_pair(s, room, at, logs, i, j) : 0;
    });
    __syncthreads();
    int j = threadIdx.x;
    for (int i = 0; j < SCAN_TILE && i < SCAN_TILE; i++) {
        float sum[4] = {};
        for (int n = 0; n < i; n += 4) /* row i of x is not read: what is right of the diagonal in L is zero */
#pragma unroll
            for (int m = 0; m < 4; m++)
                sum[m] += n + m < i ? lower[i * SCAN_STEP + n + m] * x[(n + m) * SCAN_STEP + j] : 0;
        x[i * SCAN_STEP + j] = (i == j) - (sum[0] + sum[1] + sum[2] + sum[3]);
    }
    __syncthreads();
    float *to = room.inverse + (int64_t)blockIdx.x * SCAN_TILE * SCAN_TILE;
    for (int i = threadIdx.x; i < SCAN_TILE * SCAN_TILE; i += SCAN_THREADS)
        to[i] = x[i / SCAN_TILE * SCAN_STEP + i % SCAN_TILE];
}

/* SCAN_ROWS rows of a state, N times 32 wide, in registers: a warp has N times 8 columns. */
template <int N> struct carried {
    static const int WIDE = 32 * N, STEP = WIDE + 4;
    float c[1][N][4];
};

/* Memory of a block that carries. On the way back queries come where T and A were, so that two blocks have room on a processor. */
template <int N> struct carry_room {
    float *keys;           /* (position, state) */
    float *state;          /* (row, state) */
    float *rows, *more;    /* (position, row) */
    float *inverse, *tile; /* T and A */
    float *queries;        /* (position, state) */
};

template <int N> static __device__ __forceinline__ carry_room<N> carry_memory()
{
    const int few = SCAN_TILE * SCAN_ROWS_STEP;
    carry_room<N> r;
    r.keys = (float *)scan_memory;
    r.state = r.keys + SCAN_TILE * carried<N>::STEP;
    r.rows = r.state + SCAN_ROWS * carried<N>::STEP;
    r.more = r.rows + few;
    r.inverse = r.queries = r.more + few;
    r.tile = r.inverse + SCAN_TILE * SCAN_STEP;
    return r;
}

/* use(row, column, number) of what this thread carries. */
template <int N, class F> static __device__ __forceinline__ void each_carried(carried<N> &m, F use)
{
    int row = threadIdx.x % 32 / 4, column = threadIdx.x / 32 * 8 * N + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            use(row + i / 2 * 8, column + n * 8 + i % 2, m.c[0][n][i]);
}

template <int N>
static __device__ __forceinline__ void leave_state(carried<N> &m, const scan_shape &s, const spot &at, int64_t first,
                                                   float *shared, float *to)
{
    to += chunk_index(s, at) * s.depth * s.state;
    each_carried<N>(m, [&](int p, int n, float &x) {
        shared[p * carried<N>::STEP + n] = x;
        if (first + p < s.depth && n < s.state)
            to[(first + p) * s.state + n] = x;
    });
}

template <class T, int N>
static __device__ __forceinline__ void load_features(float *to, const scan_shape &s, const scan_kept &k, const spot &at,
                                                     bool is_c)
{
    fill_rows<SCAN_TILE, carried<N>::WIDE>(to, carried<N>::STEP,
                                           [&](int i, int n) { return feature_of<T>(s, k, at, is_c, i, n); });
}

/* (position, row) of what a warp has: 16 positions. */
typedef float rows_piece[1][2][4];
template <class F> static __device__ __forceinline__ void each_row(rows_piece c, F use)
{
    int i = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, p = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int m = 0; m < 4; m++)
            use(i + m / 2 * 8, p + n * 8 + m % 2, c[0][n][m]);
}

/* c += F S^T, features of positions by rows of a state. */
template <class T, int N>
static __device__ __forceinline__ void by_state(rows_piece c, const float *features, const float *state)
{
    const int step = carried<N>::STEP;
    warp_product<T, 1, 2>(c, features + threadIdx.x / 32 * 16 * step, {step, 1}, state, {1, step}, carried<N>::WIDE);
}

/* c += T R, or turned T^T R, of a tile and (position, row). */
template <class T, bool TURNED>
static __device__ __forceinline__ void by_tile(rows_piece c, const float *tile, const float *rows)
{
    const layout plain = {SCAN_STEP, 1}, turned = {1, SCAN_STEP}, l = TURNED ? turned : plain;
    warp_product<T, 1, 2>(c, tile + threadIdx.x / 32 * 16 * l.row, l, rows, {SCAN_ROWS_STEP, 1}, SCAN_TILE);
}

/* m += R^T F, of (position, row) and features of positions. */
template <class T, int N>
static __device__ __forceinline__ void add_outer(carried<N> &m, const float *rows, const float *features)
{
    const int step = carried<N>::STEP;
    warp_product<T, 1, N>(m.c, rows, {1, SCAN_ROWS_STEP}, features + threadIdx.x / 32 * 8 * N, {step, 1}, SCAN_TILE);
}

static __device__ __forceinline__ void load_inverse(float *tile, const scan_shape &s, const scan_room &room, const spot &at)
{
    const float *from = room.inverse + chunk_index(s, at) * SCAN_TILE * SCAN_TILE;
    fill_tile(tile, [&](int i, int j) { return from[i * SCAN_TILE + j]; });
}

/* (4) and (3), from the first chunk to the last. Grid: heads, blocks of rows. */
template <class T, int N>
static __device__ __forceinline__ void carry_forward(const scan_shape &s, const scan_kept &k, const scan_room &room)
{
    __shared__ double logs[SCAN_TILE];
    carry_room<N> r = carry_memory<N>();
    int64_t first = (int64_t)blockIdx.y * SCAN_ROWS;
    carried<N> state = {};
    for (int64_t chunk = 0; chunk < s.chunks; chunk++) {
        spot at = head_spot(s, blockIdx.x * s.chunks + chunk);
        leave_state<N>(state, s, at, first, r.state, room.marks);
        load_features<T, N>(r.keys, s, k, at, false);
        load_inverse(r.inverse, s, room, at);
        load_logs(logs, s, room, at);
        __syncthreads();
        rows_piece c = {}, u = {};
        by_state<T, N>(c, r.keys, r.state);
        each_row(c, [&](int i, int p, float &x) {
            float write = has_position(s, at, i) ? k.write[step_at(s, at, i)] : 0;
            r.rows[i * SCAN_ROWS_STEP + p] =
                write * (input_of<T>(s, k, at, i, first + p) - left_from_begin(logs, i) * x);
        });
        __syncthreads();
        by_tile<T, false>(u, r.inverse, r.rows);
        each_row(u, [&](int i, int p, float &x) {
            r.more[i * SCAN_ROWS_STEP + p] = left_at_end(logs, i) * x;
            if (first + p < s.depth)
                room.values[row_at(s, at, i, first + p)] = x;
        });
        float left = left_from_begin(logs, SCAN_TILE - 1);
        each_carried<N>(state, [&](int, int, float &x) { x *= left; });
        __syncthreads();
        add_outer<T, N>(state, r.more, r.keys);
        __syncthreads();
    }
}

/* (5) and (6), from the last chunk to the first. */
template <class T, int N>
static __device__ __forceinline__ void carry_back(const scan_shape &s, const scan_kept &k, const gpu_scan_gradients &g,
                                                  const scan_room &room)
{
    __shared__ double logs[SCAN_TILE];
    carry_room<N> r = carry_memory<N>();
    int64_t first = (int64_t)blockIdx.y * SCAN_ROWS;
    carried<N> back = {};
    for (int64_t chunk = s.chunks - 1; chunk >= 0; chunk--) {
        spot at = head_spot(s, blockIdx.x * s.chunks + chunk);
        load_logs(logs, s, room, at);
        leave_state<N>(back, s, at, first, r.state, room.back);
        load_features<T, N>(r.keys, s, k, at, false);
        load_inverse(r.inverse, s, room, at);
        fill_rows<SCAN_TILE, SCAN_ROWS>(r.rows, SCAN_ROWS_STEP,
                                        [&](int i, int p) { return gradient_of<T>(s, g, at, i, first + p); });
        __syncthreads();
        fill_tile(r.tile, [&](int i, int j) { return query_pair(s, room, at, logs, i, j); });
        __syncthreads();
        rows_piece c = {}, e = {};
        by_state<T, N>(c, r.keys, r.state);
        each_row(c, [&](int i, int, float &x) { x *= left_at_end(logs, i); });
        by_tile<T, true>(c, r.tile, r.rows);
        each_row(c, [&](int i, int p, float &x) { r.more[i * SCAN_ROWS_STEP + p] = x; });
        __syncthreads();
        by_tile<T, true>(e, r.inverse, r.more);
        __syncthreads();
        load_features<T, N>(r.queries, s, k, at, true);
        each_row(e, [&](int i, int p, float &x) {
            float write = has_position(s, at, i) ? k.write[step_at(s, at, i)] : 0;
            r.more[i * SCAN_ROWS_STEP + p] = -left_from_begin(logs, i) * write * x;
            if (first + p < s.depth)
                room.errors[row_at(s, at, i, first + p)] = x;
            r.rows[i * SCAN_ROWS_STEP + p] *= left_from_begin(logs, i);
        });
        float left = left_from_begin(logs, SCAN_TILE - 1);
        each_carried<N>(back, [&](int, int, float &x) { x *= left; });
        __syncthreads();
        add_outer<T, N>(back, r.rows, r.queries);
        add_outer<T, N>(back, r.more, r.keys);
        __syncthreads();
    }
}

/* ---- for the host (scan.c) --------------------------------------------------------------------- */

#define CARRIES(T, NAME, N)                                                                        \
    extern "C" __global__ void __launch_bounds__(SCAN_THREADS)                                     \
        scan_carry_##N##_##NAME(scan_shape s, scan_kept k, scan_room room)                         \
    {                                                                                              \
        if (!is_done(s, k))                                                                        \
            carry_forward<T, N>(s, k, room);                                                       \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(SCAN_THREADS)                                     \
        scan_return_##N##_##NAME(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room)  \
    {                                                                                              \
        if (!is_done(s, k))                                                                        \
            carry_back<T, N>(s, k, g, room);                                                       \
    }
#define BOTH_WIDTHS(T, NAME) CARRIES(T, NAME, 4) CARRIES(T, NAME, 8)
BOTH_WIDTHS(float, fp32)
BOTH_WIDTHS(bf16, bf16)
BOTH_WIDTHS(fp16, fp16)

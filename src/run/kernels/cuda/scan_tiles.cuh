/* scan_tiles.cuh - products of tiles of fp32 in shared memory on tensor cores, and where numbers of a scan are.
 *
 * mma.m16n8k8 takes operands of 11 bits. Where tensors are in bf16, of 8 bits, what is computed of them is rounded to those once;
 * elsewhere it is a sum of two of them,
 *
 *   a b = a1 b1 + a1 b2 + a2 b1,  a = a1 + a2,  |a2| <= 2^-11 |a|                                   (1)
 *
 * which leaves out 2^-22 of a product. In fp16, whose own numbers have 11 bits, one rounding of states and steps makes an error as
 * large as the type's own.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_SCAN_TILES_CUH
#define WEFT_RUN_KERNELS_CUDA_SCAN_TILES_CUH

#include "../../device/cuda/elements.cuh"
#include "scan_shape.h"

/* ---- products --------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t rounded(float x)
{
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

static __device__ __forceinline__ void fragment_product(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Whether operands are (1). */
template <class T> constexpr bool EXACT = true;
template <> constexpr bool EXACT<bf16> = false;

template <class T> static __device__ __forceinline__ void split(float x, uint32_t &high, uint32_t &low)
{
    high = rounded(x);
    if (EXACT<T>)
        low = rounded(x - __uint_as_float(high));
}

/* How a matrix lies: element (i, j) is at i * row + j * column. */
struct layout {
    int row, column;
};

/* c += A B, of this warp: A of R times 16 rows from `a` on, B of N times 8 columns from `b` on. */
template <class T, int R, int N>
static __device__ __forceinline__ void warp_product(float c[R][N][4], const float *a, layout la, const float *b, layout lb,
                                                    int depth)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll 4
    for (int k = 0; k < depth; k += 8) {
        uint32_t high[R][4], low[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                split<T>(a[(r * 16 + g + i % 2 * 8) * la.row + (k + t + i / 2 * 4) * la.column], high[r][i], low[r][i]);
#pragma unroll
        for (int n = 0; n < N; n++) {
            uint32_t top[2], rest[2];
#pragma unroll
            for (int i = 0; i < 2; i++)
                split<T>(b[(k + t + i * 4) * lb.row + (n * 8 + g) * lb.column], top[i], rest[i]);
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (EXACT<T>) { /* (1) */
                    fragment_product(c[r][n], low[r], top);
                    fragment_product(c[r][n], high[r], rest);
                }
                fragment_product(c[r][n], high[r], top);
            }
        }
    }
}

/* What a warp has of a tile: 32 x 32. */
struct piece {
    float c[2][4][4];
};

static __device__ __forceinline__ int piece_row()
{
    return threadIdx.x / 64 * 32;
}

static __device__ __forceinline__ int piece_column()
{
    return threadIdx.x / 32 % 2 * 32;
}

/* p += A B of tiles; one that is turned lies by columns. */
template <class T, bool A_TURNED, bool B_TURNED>
static __device__ __forceinline__ void tile_product(piece &p, const float *a, const float *b)
{
    const layout plain = {SCAN_STEP, 1}, turned = {1, SCAN_STEP};
    const layout la = A_TURNED ? turned : plain, lb = B_TURNED ? turned : plain;
    warp_product<T, 2, 4>(p.c, a + piece_row() * la.row, la, b + piece_column() * lb.column, lb, SCAN_TILE);
}

/* use(row, column, number) for all that this thread has of a tile. */
template <class F> static __device__ __forceinline__ void each_number(piece &p, F use)
{
    int row = piece_row() + threadIdx.x % 32 / 4, column = piece_column() + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                use(row + r * 16 + i / 2 * 8, column + n * 8 + i % 2, p.c[r][n][i]);
}

/* Sums over the columns of each row of weigh(row, column, number), added to to[row]; `part` has two numbers for each row. */
template <class F> static __device__ __forceinline__ void add_row_sums(piece &p, float *to, float *part, F weigh)
{
    int first = piece_row() + threadIdx.x % 32 / 4;
    float sum[4] = {}; /* of rows that are 8 apart */
    each_number(p, [&](int row, int column, float &x) { sum[(row - first) / 8] += weigh(row, column, x); });
#pragma unroll
    for (int h = 0; h < 4; h++) {
        float all = sum[h];
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        if (threadIdx.x % 4 == 0)
            part[piece_column() / 32 * SCAN_TILE + first + h * 8] = all;
    }
    __syncthreads();
    if (threadIdx.x < SCAN_TILE)
        to[threadIdx.x] += part[threadIdx.x] + part[SCAN_TILE + threadIdx.x];
    __syncthreads();
}

/* The block's shared memory: tiles one after the other. */
extern __shared__ float4 scan_memory[];

static __device__ __forceinline__ float *tile_at(int i)
{
    return (float *)scan_memory + i * SCAN_TILE * SCAN_STEP;
}

/* to[row * step + column] = make(row, column) of ROWS rows and COLUMNS columns, by all threads: some loads at once, then some stores. */
template <int ROWS, int COLUMNS, class F>
static __device__ __forceinline__ void fill_rows(float *to, int step, F make)
{
    const int EACH = SCAN_THREADS / (COLUMNS < SCAN_THREADS ? COLUMNS : SCAN_THREADS), AT_ONCE = 16;
    const int ACROSS = COLUMNS > SCAN_THREADS ? COLUMNS / SCAN_THREADS : 1, ALL = ROWS / EACH * ACROSS;
    int first = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    for (int at = 0; at < ALL; at += AT_ONCE) {
        float x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (at + i < ALL)
                x[i] = make(first + (at + i) / ACROSS * EACH, column + (at + i) % ACROSS * SCAN_THREADS);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (at + i < ALL)
                to[(first + (at + i) / ACROSS * EACH) * step + column + (at + i) % ACROSS * SCAN_THREADS] = x[i];
    }
}

template <class F> static __device__ __forceinline__ void fill_tile(float *tile, F make)
{
    fill_rows<SCAN_TILE, SCAN_TILE>(tile, SCAN_STEP, make);
}

/* ---- numbers as they are stored ---------------------------------------------------------------- */

template <class T> static __device__ __forceinline__ float load(const void *from, int64_t i)
{
    return wide(((const T *)from)[i]);
}

template <class T> static __device__ __forceinline__ void store(void *to, int64_t i, float x)
{
    ((T *)to)[i] = narrow<T>(x);
}

/* ---- where things are ------------------------------------------------------------------------- */

static __device__ __forceinline__ int64_t all_heads(const scan_shape &s)
{
    return s.groups * s.heads;
}

/* A chunk of one head, or of one group, of one sample. Of the room's samples `sample` is the one with this number. */
struct spot {
    int64_t sample, group, head, number, chunk; /* number: of the head among all */
};

static __device__ __forceinline__ spot head_spot(const scan_shape &s, int64_t i)
{
    uint32_t block = (uint32_t)i, chunks = (uint32_t)s.chunks, heads = (uint32_t)all_heads(s);
    uint32_t number = block / chunks % heads, each = (uint32_t)s.heads;
    return {block / chunks / heads, number / each, number % each, number, block % chunks};
}

static __device__ __forceinline__ int64_t head_index(const scan_shape &s, const spot &at)
{
    return at.sample * all_heads(s) + at.number;
}

static __device__ __forceinline__ int64_t chunk_index(const scan_shape &s, const spot &at)
{
    return head_index(s, at) * s.chunks + at.chunk;
}

static __device__ __forceinline__ int64_t pairs_index(const scan_shape &s, const spot &at)
{
    return ((at.sample * s.groups + at.group) * s.chunks + at.chunk) * SCAN_TILE * SCAN_TILE;
}

/* Position i of the chunk, of all; and whether there is one. */
static __device__ __forceinline__ int64_t position(const scan_shape &s, const spot &at, int i)
{
    return (s.first + at.sample) * s.seq + at.chunk * SCAN_TILE + i;
}

static __device__ __forceinline__ bool has_position(const scan_shape &s, const spot &at, int i)
{
    return at.chunk * SCAN_TILE + i < s.seq;
}

static __device__ __forceinline__ int64_t step_at(const scan_shape &s, const spot &at, int i)
{
    return position(s, at, i) * all_heads(s) + at.number;
}

static __device__ __forceinline__ int64_t x_at(const scan_shape &s, const spot &at, int i, int64_t p)
{
    return (position(s, at, i) * s.groups + at.group) * s.share + s.x + at.head * s.depth + p;
}

/* b or c of a position. */
template <class T>
static __device__ __forceinline__ float feature_of(const scan_shape &s, const scan_kept &k, const spot &at, bool is_c, int i,
                                                   int64_t n)
{
    bool there = n < s.state && has_position(s, at, i);
    int64_t row = there ? position(s, at, i) * s.groups + at.group : 0;
    float x = load<T>(k.all, row * s.share + (is_c ? s.c : s.b) + (there ? n : 0));
    float by = s.delta ? k.shrink[2 * row + (is_c ? 0 : 1)] : 1;
    return there ? x * by : 0;
}

template <class T>
static __device__ __forceinline__ float input_of(const scan_shape &s, const scan_kept &k, const spot &at, int i, int64_t p)
{
    bool there = p < s.depth && has_position(s, at, i);
    float x = load<T>(k.all, there ? x_at(s, at, i, p) : 0);
    return there ? x : 0;
}

/* Of the output, times its scale. */
template <class T>
static __device__ __forceinline__ float gradient_of(const scan_shape &s, const gpu_scan_gradients &g, const spot &at, int i,
                                                    int64_t p)
{
    bool there = p < s.depth && has_position(s, at, i);
    float x = load<T>(g.dy, there ? step_at(s, at, i) * s.depth + p : 0);
    return there ? s.scale * x : 0;
}

/* Of `values` or `errors`. */
static __device__ __forceinline__ int64_t row_at(const scan_shape &s, const spot &at, int i, int64_t p)
{
    return (chunk_index(s, at) * SCAN_TILE + i) * s.depth + p;
}

/* u of scan.cu, (1). */
template <class T>
static __device__ __forceinline__ float value_of(const scan_shape &s, const scan_kept &k, const scan_room &room,
                                                 const spot &at, int i, int64_t p)
{
    bool there = p < s.depth && has_position(s, at, i);
    if (s.delta) {
        float u = room.values[there ? row_at(s, at, i, p) : 0];
        return there ? u : 0;
    }
    return k.step[there ? step_at(s, at, i) : 0] * input_of<T>(s, k, at, i, p);
}

static __device__ __forceinline__ float state_of(const scan_shape &s, const float *states, const spot &at, int64_t p,
                                                 int64_t n)
{
    bool there = p < s.depth && n < s.state;
    float x = states[there ? (chunk_index(s, at) * s.depth + p) * s.state + n : 0];
    return there ? x : 0;
}

/* A chunk's queries (c) or keys times the rows from `first` on of its state, added to a piece by way of two tiles. */
template <class T>
static __device__ __forceinline__ void add_states(piece &sum, const scan_shape &s, const scan_kept &k, const spot &at,
                                                  bool is_c, const float *states, int64_t first)
{
    float *left = tile_at(0), *right = tile_at(1);
    for (int64_t n = 0; n < s.state; n += SCAN_TILE) {
        fill_tile(left, [&](int i, int j) { return feature_of<T>(s, k, at, is_c, i, n + j); });
        fill_tile(right, [&](int p, int j) { return state_of(s, states, at, first + p, n + j); });
        __syncthreads();
        tile_product<T, false, true>(sum, left, right);
        __syncthreads();
    }
}

/* Sums of ln r of a chunk into shared memory. */
static __device__ __forceinline__ void load_logs(double *logs, const scan_shape &s, const scan_room &room, const spot &at)
{
    if (threadIdx.x < SCAN_TILE)
        logs[threadIdx.x] = room.logs[chunk_index(s, at) * SCAN_TILE + threadIdx.x];
}

/* r_(j+1) ... r_i: what is left at i of what was there after j; from the chunk's beginning to i; and from j to its end. */
static __device__ __forceinline__ float left_between(const double *logs, int i, int j)
{
    return expf((float)(logs[i] - logs[j]));
}

static __device__ __forceinline__ float left_from_begin(const double *logs, int i)
{
    return expf((float)logs[i]);
}

static __device__ __forceinline__ float left_at_end(const double *logs, int j)
{
    return left_between(logs, SCAN_TILE - 1, j);
}

/* A of scan.cu, (2), and (g_i / g_j) k_i . k_j of (4), which has nothing on its diagonal. */
static __device__ __forceinline__ float query_pair(const scan_shape &s, const scan_room &room, const spot &at,
                                                   const double *logs, int i, int j)
{
    float pair = room.queries[pairs_index(s, at) + i * SCAN_TILE + j];
    return j > i ? 0 : left_between(logs, i, j) * pair;
}

static __device__ __forceinline__ float key_pair(const scan_shape &s, const scan_room &room, const spot &at,
                                                 const double *logs, int i, int j)
{
    float pair = room.keys[pairs_index(s, at) + i * SCAN_TILE + j];
    return j >= i ? 0 : left_between(logs, i, j) * pair;
}

/* Whether a phase for the weights finds the work done (scan.c, I2). */
static __device__ __forceinline__ bool is_done(const scan_shape &s, const scan_kept &k)
{
    return s.once && *k.todo == 0;
}

#endif

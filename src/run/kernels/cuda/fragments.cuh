/* fragments.cuh - tiles in shared memory and products of them on tensor cores, for flash.cu: what a warp holds
 * of a product, how tiles are fetched, and which queries see which keys.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_FRAGMENTS_CUH
#define WEFT_RUN_KERNELS_CUDA_FRAGMENTS_CUH

#include "../../device/cuda/elements.cuh"

enum { PAD = 8 };
static __device__ const float LOG2E = 1.44269504F, LN2 = 0.69314718F;

/* As in attention.c of this room. */
struct shape {
    int64_t batch, head, group, seq, kv, depth, value;
    int64_t query_begin, key_begin, key_whole;
    int64_t window;
    int32_t causal, chunked;
    float scale;
};

/* 2^x, as the hardware has it. */
static __device__ __forceinline__ float power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- fragments ------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

static __device__ __forceinline__ void load4(uint32_t r[4], const void *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(at)));
}

static __device__ __forceinline__ void load4_turned(uint32_t r[4], const void *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(at)));
}

/* c += A B of 16 x 8 x 16, operands of type T; and two numbers as a register of operands has them. */
#define FRAGMENT_PRODUCT(T, TEXT)                                                                  \
    template <>                                                                                    \
    __device__ __forceinline__ void multiply<T>(float c[4], const uint32_t a[4], uint32_t b0,      \
                                                uint32_t b1)                                       \
    {                                                                                              \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TEXT "." TEXT                        \
                     ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                  \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));              \
    }
template <class T>
static __device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], uint32_t b0,
                                                uint32_t b1);
FRAGMENT_PRODUCT(bf16, "bf16")
FRAGMENT_PRODUCT(fp16, "f16")

template <class T> static __device__ __forceinline__ uint32_t two(float low, float high);
template <> __device__ __forceinline__ uint32_t two<bf16>(float low, float high)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&both;
}
template <> __device__ __forceinline__ uint32_t two<fp16>(float low, float high)
{
    __half2 both = __floats2half2_rn(low, high);
    return *(uint32_t *)&both;
}

/* The left operand of 16 rows from `row`, columns from `column`, of a tile in shared memory. */
template <class T, int D>
static __device__ __forceinline__ void left(uint32_t a[4], const T *tile, int row, int column)
{
    int lane = threadIdx.x % 32;
    load4(a, tile + (row + lane % 16) * (D + PAD) + column + lane / 16 * 8);
}

/* c += A B^T, A of R times 16 rows in shared memory, B of N rows; both D wide. */
template <class T, int D, int N, int R>
static __device__ __forceinline__ void product_turned(float c[R][N / 8][4], const T *a_tile,
                                                      int a_row, const T *b_tile)
{
    int lane = threadIdx.x % 32, row = lane / 16 * 8 + lane % 8, column = lane / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t a[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
            left<T, D>(a[r], a_tile, a_row + r * 16, k);
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            uint32_t b[4];
            load4(b, b_tile + (n + row) * (D + PAD) + k + column);
#pragma unroll
            for (int r = 0; r < R; r++) {
                multiply<T>(c[r][n / 8], a[r], b[0], b[1]);
                multiply<T>(c[r][n / 8 + 1], a[r], b[2], b[3]);
            }
        }
    }
}

/* c += P B, P of R times 16 rows in registers (K columns), B of K rows, D wide. */
template <class T, int D, int K, int R>
static __device__ __forceinline__ void product_plain(float c[R][D / 8][4],
                                                     const float p[R][K / 8][4],
                                                     const T *b_tile)
{
    int lane = threadIdx.x % 32, row = lane / 8 % 2 * 8 + lane % 8, column = lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < K; k += 16) {
        uint32_t a[R][4];
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float *x = p[r][k / 8], *y = p[r][k / 8 + 1];
            a[r][0] = two<T>(x[0], x[1]);
            a[r][1] = two<T>(x[2], x[3]);
            a[r][2] = two<T>(y[0], y[1]);
            a[r][3] = two<T>(y[2], y[3]);
        }
#pragma unroll
        for (int n = 0; n < D; n += 16) {
            uint32_t b[4];
            load4_turned(b, b_tile + (k + row) * (D + PAD) + n + column);
#pragma unroll
            for (int r = 0; r < R; r++) {
                multiply<T>(c[r][n / 8], a[r], b[0], b[1]);
                multiply<T>(c[r][n / 8 + 1], a[r], b[2], b[3]);
            }
        }
    }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* ROWS rows of a head from `first` on, out of (batch, positions, heads, D); zero after the end. */
template <class T, int D, int ROWS, int THREADS>
static __device__ __forceinline__ void fetch(T *tile, const T *from, int64_t sample,
                                             int64_t positions, int64_t heads, int64_t head,
                                             int64_t first)
{
    const int EACH = 8, PIECES = D / EACH;
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        int row = i / PIECES, at = i % PIECES * EACH;
        bool there = first + row < positions;
        int64_t place = there ? first + row : 0;
        const T *source = from + ((sample * positions + place) * heads + head) * D + at;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         shared_address(tile + row * (D + PAD) + at)),
                     "l"(source), "r"(there ? 16 : 0));
    }
}

static __device__ __forceinline__ void fetch_commit()
{
    asm volatile("cp.async.commit_group;");
}

template <int LEFT> static __device__ __forceinline__ void fetch_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}

/* ---- who sees whom --------------------------------------------------------------------------- */

static __device__ __forceinline__ int64_t first_seen(const shape &s, int64_t q)
{
    return !s.window ? 0 : s.chunked ? q / s.window * s.window : q + 1 - s.window;
}

static __device__ __forceinline__ bool sees(const shape &s, int64_t query, int64_t key)
{
    int64_t q = s.query_begin + query, k = s.key_begin + key;
    if (k >= s.key_whole || key >= s.kv || query >= s.seq)
        return false;
    return !s.causal || (k <= q && k >= first_seen(s, q));
}

/* Whether all of a tile's queries see all of another's keys; and whether any does. */
static __device__ __forceinline__ bool all_see(const shape &s, int64_t query, int64_t queries,
                                               int64_t key, int64_t keys)
{
    int64_t q = s.query_begin + query, k = s.key_begin + key;
    if (key + keys > s.kv || k + keys > s.key_whole || query + queries > s.seq)
        return false;
    return !s.causal || (k + keys - 1 <= q && k >= first_seen(s, q + queries - 1));
}

static __device__ __forceinline__ bool any_sees(const shape &s, int64_t query, int64_t queries,
                                                int64_t key, int64_t keys)
{
    int64_t q = s.query_begin + query, k = s.key_begin + key;
    if (query >= s.seq || key >= s.kv)
        return false;
    return !s.causal || (k <= q + queries - 1 && k + keys - 1 >= first_seen(s, q));
}

/* Scores that are not seen become -inf: rows are queries from `query` on, columns keys from `key` on. */
template <int N>
static __device__ __forceinline__ void hide(float c[N / 8][4], const shape &s, int64_t query,
                                            int64_t key)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!sees(s, query + g + i / 2 * 8, key + n * 8 + 2 * t + i % 2))
                c[n][i] = -INFINITY;
}

/* The same where rows are keys. */
template <int N>
static __device__ __forceinline__ void hide_turned(float c[N / 8][4], const shape &s, int64_t query,
                                                   int64_t key)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!sees(s, query + n * 8 + 2 * t + i % 2, key + g + i / 2 * 8))
                c[n][i] = -INFINITY;
}

/* One of the two rows of a piece that this lane has a part of, times a factor. */
template <class T, int D>
static __device__ __forceinline__ void store_row(T *to, const float x[D / 8][4], int half,
                                                 float factor)
{
    int t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
        *(uint32_t *)(to + n * 8 + 2 * t) =
            two<T>(x[n][2 * half] * factor, x[n][2 * half + 1] * factor);
}

static __device__ __forceinline__ float over_quad(float x, bool most)
{
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
        float other = __shfl_xor_sync(0xffffffffu, x, apart);
        x = most ? fmaxf(x, other) : x + other;
    }
    return x;
}

#endif

/* elements.cu - what the table of devices does with numbers (device.h), on a GPU. */
#include "elements.cuh"

enum { DRAW_DIGITS = 16 };

extern "C" __global__ void fill(float *to, float value, int64_t count)
{
    for (int64_t i = thread_index(); i < count; i += thread_count())
        to[i] = value;
}

/* ---- one storage as the other; sums ---------------------------------------------------------- */

/* `packed`: both addresses are those of 16 bytes. */
template <class FROM, class TO>
static __device__ __forceinline__ void cast_all(const FROM *from, TO *to, int64_t count, int packed)
{
    const int EACH = 8;
    int64_t done = packed ? count / EACH * EACH : 0;
    for (int64_t i = thread_index() * EACH; i < done; i += thread_count() * EACH)
#pragma unroll
        for (int k = 0; k < EACH; k++)
            to[i + k] = narrow<TO>(wide(from[i + k]));
    for (int64_t i = done + thread_index(); i < count; i += thread_count())
        to[i] = narrow<TO>(wide(from[i]));
}

template <class T> __device__ void widen(const T *from, float *to, int64_t count, int packed)
{
    cast_all(from, to, count, packed);
}
#define WIDEN_PARAMETERS(T) (const T *from, float *to, int64_t count, int packed)
BOTH(widen, WIDEN_PARAMETERS, (from, to, count, packed))

template <class T> __device__ void narrow_all(const float *from, T *to, int64_t count, int packed)
{
    cast_all(from, to, count, packed);
}
#define NARROW_PARAMETERS(T) (const float *from, T *to, int64_t count, int packed)
BOTH(narrow_all, NARROW_PARAMETERS, (from, to, count, packed))

template <class T> __device__ void add(const T *from, T *to, int64_t count, int packed)
{
    const int EACH = wide_pack<T>::COUNT;
    int64_t done = packed ? count / EACH * EACH : 0;
    for (int64_t i = thread_index() * EACH; i < done; i += thread_count() * EACH) {
        wide_pack<T> a = load_pack(to + i), b = load_pack(from + i);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            a.x[k] += b.x[k];
        store_pack(to + i, a);
    }
    for (int64_t i = done + thread_index(); i < count; i += thread_count())
        to[i] = narrow<T>(wide(to[i]) + wide(from[i]));
}
#define ADD_PARAMETERS(T) (const T *from, T *to, int64_t count, int packed)
BOTH(add, ADD_PARAMETERS, (from, to, count, packed))

/* ---- rows ------------------------------------------------------------------------------------ */

/* 16 bytes are 8 elements of bf16 or fp16, or 4 of fp32; sizes here are in these. */
extern "C" __global__ void copy_wide_rows(const uint4 *from, uint4 *to, uint32_t rows,
                                          uint32_t width, uint32_t from_step, uint32_t to_step)
{
    uint32_t count = rows * width;
    for (uint32_t i = (uint32_t)thread_index(); i < count; i += (uint32_t)thread_count())
        to[i / width * to_step + i % width] = from[i / width * from_step + i % width];
}

template <class T>
__device__ void add_wide_rows(const T *from, T *to, uint32_t rows, uint32_t width,
                              uint32_t from_step, uint32_t to_step)
{
    const int EACH = wide_pack<T>::COUNT;
    uint32_t count = rows * width;
    for (uint32_t i = (uint32_t)thread_index(); i < count; i += (uint32_t)thread_count()) {
        T *at = to + (int64_t)(i / width * to_step + i % width) * EACH;
        wide_pack<T> a = load_pack(at);
        wide_pack<T> b = load_pack(from + (int64_t)(i / width * from_step + i % width) * EACH);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            a.x[k] += b.x[k];
        store_pack(at, a);
    }
}
#define WIDE_ROWS_PARAMETERS(T)                                                                    \
    (const T *from, T *to, uint32_t rows, uint32_t width, uint32_t from_step, uint32_t to_step)
BOTH(add_wide_rows, WIDE_ROWS_PARAMETERS, (from, to, rows, width, from_step, to_step))

template <class T>
__device__ void copy_rows(const T *from, T *to, int64_t rows, int64_t width, int64_t from_step,
                          int64_t to_step)
{
    for (int64_t i = thread_index(); i < rows * width; i += thread_count())
        to[i / width * to_step + i % width] = from[i / width * from_step + i % width];
}

/* Four words from any address of numbers of 16 bits: words are read where they are whole, and put together. Memory ends with a
 * whole word (rank/buffers.c, rounded). */
template <class T> static __device__ __forceinline__ uint4 words_from(const T *from)
{
    bool between = (uintptr_t)from % 4 != 0;
    const uint32_t *at = (const uint32_t *)((uintptr_t)from - (between ? 2 : 0));
    uint32_t a = at[0], b = at[1], c = at[2], d = at[3];
    if (!between)
        return make_uint4(a, b, c, d);
    uint32_t e = at[4];
    return make_uint4(__funnelshift_r(a, b, 16), __funnelshift_r(b, c, 16),
                      __funnelshift_r(c, d, 16), __funnelshift_r(d, e, 16));
}

template <> __device__ __forceinline__ uint4 words_from<float>(const float *from)
{
    const uint32_t *at = (const uint32_t *)from;
    return make_uint4(at[0], at[1], at[2], at[3]);
}

/* A block for each row, without a division for every element; 16 bytes at a time from where that is a multiple
 * of an address that is written. */
template <class T>
__device__ void copy_long_rows(const T *from, T *to, int64_t rows, int64_t width, int64_t from_step,
                               int64_t to_step)
{
    const int EACH = wide_pack<T>::COUNT;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *x = from + row * from_step;
        T *y = to + row * to_step;
        int64_t head = (int64_t)((16 - (uintptr_t)y % 16) % 16 / sizeof(T));
        int64_t packs = (width - head) / EACH, tail = head + packs * EACH;
        for (int64_t i = threadIdx.x; i < head; i += blockDim.x)
            y[i] = x[i];
        for (int64_t i = threadIdx.x; i < packs; i += blockDim.x)
            *(uint4 *)(y + head + i * EACH) = words_from(x + head + i * EACH);
        for (int64_t i = tail + threadIdx.x; i < width; i += blockDim.x)
            y[i] = x[i];
    }
}

template <class T>
__device__ void add_rows(const T *from, T *to, int64_t rows, int64_t width, int64_t from_step,
                         int64_t to_step)
{
    for (int64_t i = thread_index(); i < rows * width; i += thread_count()) {
        T *at = to + i / width * to_step + i % width;
        *at = narrow<T>(wide(*at) + wide(from[i / width * from_step + i % width]));
    }
}
#define ROWS_PARAMETERS(T)                                                                         \
    (const T *from, T *to, int64_t rows, int64_t width, int64_t from_step, int64_t to_step)
BOTH(copy_rows, ROWS_PARAMETERS, (from, to, rows, width, from_step, to_step))
BOTH(copy_long_rows, ROWS_PARAMETERS, (from, to, rows, width, from_step, to_step))
BOTH(add_rows, ROWS_PARAMETERS, (from, to, rows, width, from_step, to_step))

template <class T>
__device__ void copy_runs(const T *from, T *to, int64_t run, int64_t runs, const int64_t *place)
{
    for (int64_t i = thread_index(); i < runs * run; i += thread_count())
        to[place[2 * (i / run) + 1] + i % run] = from[place[2 * (i / run)] + i % run];
}
#define RUNS_PARAMETERS(T)                                                                         \
    (const T *from, T *to, int64_t run, int64_t runs, const int64_t *place)
BOTH(copy_runs, RUNS_PARAMETERS, (from, to, run, runs, place))

/* ---- what weights begin with (run/rank/weights.c, 1) ------------------------------------------ */

/* As in device.h. */
struct normal_draw {
    uint64_t seed;
    double deviation;
    int64_t elements, first;
    int32_t digits;
    struct {
        int64_t hold, degree, value;
    } digit[DRAW_DIGITS];
};

static __device__ double uniform_of(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

extern "C" __global__ void draw_normal(float *to, int64_t count, normal_draw draw)
{
    for (int64_t k = thread_index(); k < count; k += thread_count()) {
        int64_t i = draw.first + k;
        for (int n = 0; n < draw.digits; n++) {
            int64_t hold = draw.digit[n].hold;
            i = i / hold * (hold * draw.digit[n].degree) + draw.digit[n].value * hold + i % hold;
        }
        uint64_t a = hash_number((uint64_t)i, draw.seed), b = hash_number(a, draw.seed + 1);
        float normal = (float)(sqrt(-2 * log(uniform_of(a))) * cospi(2 * uniform_of(b)));
        to[k] = i < draw.elements ? (float)draw.deviation * normal : 0;
    }
}

/* ---- sums: one of each block, then of these by one block ------------------------------------- */

extern "C" __global__ void sum_parts(const float *x, int64_t count, int squared, double *part)
{
    double sum = 0;
    for (int64_t i = thread_index(); i < count; i += thread_count())
        sum += squared ? (double)x[i] * (double)x[i] : (double)x[i];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

extern "C" __global__ void add_parts(const double *part, int64_t parts, double divisor, double *sum)
{
    double all = 0;
    for (int64_t i = threadIdx.x; i < parts; i += blockDim.x)
        all += part[i];
    all = block_sum_double(all);
    if (threadIdx.x == 0)
        *sum += all / divisor;
}

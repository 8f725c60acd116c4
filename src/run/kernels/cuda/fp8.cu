/* fp8.cu - casts to fp8 with one scale for each tensor (run/kernels/fp8.h, 1). */
#include "../../device/cuda/elements.cuh"
#include <cuda_fp8.h>

/* The most of a block into `to`, which few blocks have to change. */
static __device__ __forceinline__ void take_most(uint32_t own, uint32_t *to)
{
    __shared__ uint32_t part[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    own = __reduce_max_sync(0xffffffffu, own);
    if (lane == 0)
        part[warp] = own;
    __syncthreads();
    if (warp)
        return;
    own = __reduce_max_sync(0xffffffffu, lane < warps ? part[lane] : 0);
    if (lane == 0 && own > *(volatile uint32_t *)to)
        atomicMax(to, own);
}

/* As bits, numbers without their sign are in the order of their sizes, what is no number after all others; two in each word. */
extern "C" __global__ void largest(const uint16_t *x, int64_t count, uint32_t *most)
{
    const uint32_t SIZES = 0x7fff7fffu;
    int64_t packs = (uintptr_t)x % 16 ? 0 : count / 8;
    uint32_t both = 0;
    for (int64_t i = thread_index(); i < packs; i += thread_count()) {
        uint4 bits = ((const uint4 *)x)[i];
        both = __vmaxu2(both, __vmaxu2(__vmaxu2(bits.x & SIZES, bits.y & SIZES),
                                       __vmaxu2(bits.z & SIZES, bits.w & SIZES)));
    }
    uint32_t own = max(both & 0xffffu, both >> 16);
    for (int64_t i = packs * 8 + thread_index(); i < count; i += thread_count())
        own = max(own, x[i] & 0x7fffu);
    take_most(own, most);
}

template <int FORM> static __device__ __forceinline__ float scale_of(uint32_t most)
{
    const float limit = FORM == 0 ? 448.0f : 57344.0f;
    float size = __uint_as_float(most << 16);
    return size == 0 ? 1 : __fdiv_rn(limit, size);
}

/* What is not finite stays no number, whatever the scale. */
template <int FORM> static __device__ __forceinline__ uint8_t cast_one(bf16 x, float scale)
{
    float y = wide(x) * scale;
    return __nv_cvt_float_to_fp8(isinf(y) ? y - y : y, __NV_SATFINITE,
                                 FORM == 0 ? __NV_E4M3 : __NV_E5M2);
}

/* The size of a number, as its bits are compared. */
static __device__ __forceinline__ uint32_t size_of(bf16 x)
{
    return __bfloat16_as_ushort(x) & 0x7fffu;
}

/* Adds the largest number of a tensor to those of this step (fp8.h, 2); NULL: nothing is remembered. */
static __device__ __forceinline__ void remember(uint32_t own, float *history)
{
    if (history)
        take_most(own < 0x7f80u ? own << 16 : 0, (uint32_t *)history);
}

template <int FORM>
static __device__ __forceinline__ void cast_rows(const bf16 *x, int64_t count, const uint32_t *most,
                                                 float *history, uint8_t *to)
{
    float scale = scale_of<FORM>(*most);
    uint32_t own = 0;
    for (int64_t i = thread_index() * 8; i < count; i += thread_count() * 8) {
        uint4 bits = *(const uint4 *)(x + i);
        const bf16 *all = (const bf16 *)&bits;
        union {
            uint8_t each[8];
            uint2 both;
        } made;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            made.each[k] = cast_one<FORM>(all[k], scale);
            own = max(own, size_of(all[k]));
        }
        *(uint2 *)(to + i) = made.both;
    }
    remember(own, history);
}

/* Rows become columns, which are `step` apart; zeros after the last row. A block has TALL rows of ACROSS numbers of matrix
 * blockIdx.z; rows are of whole 16 bytes. */
enum { TALL = 128, ACROSS = 64, PACKS = ACROSS / 8 };
template <int FORM>
static __device__ __forceinline__ void cast_turned(const bf16 *x, int64_t rows, int64_t columns,
                                                   const uint32_t *most, float *history,
                                                   int64_t step, uint8_t *to)
{
    __shared__ alignas(4) uint8_t tile[ACROSS][TALL + 4];
    uint32_t own = 0;
    x += blockIdx.z * rows * columns;
    to += blockIdx.z * columns * step;
    float scale = scale_of<FORM>(*most);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int64_t row = (int64_t)blockIdx.x * TALL, column = (int64_t)blockIdx.y * ACROSS;
    int first = threadIdx.x % PACKS * 8;
#pragma unroll 4
    for (int r = threadIdx.x / PACKS; r < TALL; r += blockDim.x / PACKS) {
        bool there = row + r < rows && column + first < columns;
        uint4 bits = make_uint4(0, 0, 0, 0);
        if (there)
            bits = *(const uint4 *)(x + (row + r) * columns + column + first);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            bf16 at = ((const bf16 *)&bits)[k];
            tile[first + k][r] = cast_one<FORM>(at, scale);
            own = max(own, size_of(at));
        }
    }
    remember(own, history);
    __syncthreads();
    for (int c = warp; c < ACROSS; c += warps) {
        int64_t at = row + 4 * lane;
        if (column + c < columns && at < step)
            *(uint32_t *)(to + (column + c) * step + at) = *(const uint32_t *)&tile[c][4 * lane];
    }
}

/* What a cast makes of numbers, as numbers of bf16, which has them all: not yet divided by the scale. */
template <int FORM>
static __device__ __forceinline__ void cast_wide(const bf16 *x, int64_t count, const uint32_t *most,
                                                 float *history, bf16 *to)
{
    float scale = scale_of<FORM>(*most);
    uint32_t own = 0;
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        __half_raw half = __nv_cvt_fp8_to_halfraw(cast_one<FORM>(x[i], scale),
                                                  FORM == 0 ? __NV_E4M3 : __NV_E5M2);
        to[i] = narrow<bf16>(__half2float(fp16(half)));
        own = max(own, size_of(x[i]));
    }
    remember(own, history);
}

#define FORMS(name, parameters, arguments)                                                         \
    extern "C" __global__ void name##_e4m3 parameters { name<0> arguments; }                       \
    extern "C" __global__ void name##_e5m2 parameters { name<1> arguments; }
FORMS(cast_rows,
      (const bf16 *x, int64_t count, const uint32_t *most, float *history, uint8_t *to),
      (x, count, most, history, to))
FORMS(cast_turned,
      (const bf16 *x, int64_t rows, int64_t columns, const uint32_t *most, float *history,
       int64_t step, uint8_t *to),
      (x, rows, columns, most, history, step, to))
FORMS(cast_wide, (const bf16 *x, int64_t count, const uint32_t *most, float *history, bf16 *to),
      (x, count, most, history, to))

/* most = the most of a history, of steps before this one (fp8.h, 2): a block for each operand. */
extern "C" __global__ void remembered(const float *left, const float *right, int64_t stride,
                                      int64_t slots, uint32_t *most)
{
    const float *history = blockIdx.x ? right : left;
    float own = 0;
    for (int64_t i = 1 + threadIdx.x; i < slots; i += blockDim.x)
        own = fmaxf(own, history[i * stride]);
    own = block_most(own);
    if (threadIdx.x == 0)
        most[blockIdx.x] = __float_as_uint(own) >> 16;
}

/* What the product of two cast tensors is multiplied by, the second of form FORM, and what is there before. */
template <int FORM>
static __device__ __forceinline__ void factors(const uint32_t *most, float before, float *to)
{
    to[0] = (1 / scale_of<0>(most[0])) * (1 / scale_of<FORM>(most[1]));
    to[1] = before;
}
FORMS(factors, (const uint32_t *most, float before, float *to), (most, before, to))

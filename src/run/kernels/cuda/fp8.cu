/* fp8.cu - casts to fp8 with one scale for each tensor (run/kernels/fp8.h, 1). */
#include "../../device/cuda/elements.cuh"
#include <cuda_fp8.h>

/* As bits, numbers without their sign are in the order of their sizes, what is no number after all others. */
extern "C" __global__ void largest(const uint16_t *x, int64_t count, uint32_t *most)
{
    uint32_t own = 0;
    for (int64_t i = thread_index(); i < count; i += thread_count())
        own = max(own, x[i] & 0x7fffu);
    own = __reduce_max_sync(0xffffffffu, own);
    if (threadIdx.x % 32 == 0)
        atomicMax(most, own);
}

template <int FORM> static __device__ __forceinline__ float scale_of(uint32_t most)
{
    const float limit = FORM == 0 ? 448.0f : 57344.0f;
    float size = __uint_as_float(most << 16);
    return size == 0 ? 1 : __fdiv_rn(limit, size);
}

template <int FORM> static __device__ __forceinline__ uint8_t cast_one(bf16 x, float scale)
{
    return __nv_cvt_float_to_fp8(wide(x) * scale, __NV_SATFINITE, FORM == 0 ? __NV_E4M3 : __NV_E5M2);
}

template <int FORM>
static __device__ __forceinline__ void cast_rows(const bf16 *x, int64_t count, const uint32_t *most,
                                                 uint8_t *to)
{
    float scale = scale_of<FORM>(*most);
    for (int64_t i = thread_index() * 8; i < count; i += thread_count() * 8) {
        uint4 bits = *(const uint4 *)(x + i);
        const bf16 *all = (const bf16 *)&bits;
        union {
            uint8_t each[8];
            uint2 both;
        } made;
#pragma unroll
        for (int k = 0; k < 8; k++)
            made.each[k] = cast_one<FORM>(all[k], scale);
        *(uint2 *)(to + i) = made.both;
    }
}

/* Rows become columns, which are `step` apart; zeros after the last row. A block has TALL rows of 32 numbers. */
enum { TALL = 128, ACROSS = 32 };
template <int FORM>
static __device__ __forceinline__ void cast_turned(const bf16 *x, int64_t rows, int64_t columns,
                                                   const uint32_t *most, int64_t step, uint8_t *to)
{
    __shared__ uint8_t tile[TALL][ACROSS + 4];
    float scale = scale_of<FORM>(*most);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int64_t row = (int64_t)blockIdx.x * TALL, column = (int64_t)blockIdx.y * ACROSS;
    for (int r = warp; r < TALL; r += warps) {
        bool there = row + r < rows && column + lane < columns;
        tile[r][lane] =
            there ? cast_one<FORM>(x[(row + r) * columns + column + lane], scale) : (uint8_t)0;
    }
    __syncthreads();
    for (int c = warp; c < ACROSS; c += warps) {
        int64_t at = row + 4 * lane;
        if (column + c >= columns || at >= step)
            continue;
        uint32_t word = 0;
#pragma unroll
        for (int k = 0; k < 4; k++)
            word |= (uint32_t)tile[4 * lane + k][c] << (8 * k);
        *(uint32_t *)(to + (column + c) * step + at) = word;
    }
}

/* What a cast makes of numbers, as numbers of bf16, which has them all: not yet divided by the scale. */
template <int FORM>
static __device__ __forceinline__ void cast_wide(const bf16 *x, int64_t count, const uint32_t *most,
                                                 bf16 *to)
{
    float scale = scale_of<FORM>(*most);
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        __half_raw half = __nv_cvt_fp8_to_halfraw(cast_one<FORM>(x[i], scale),
                                                  FORM == 0 ? __NV_E4M3 : __NV_E5M2);
        to[i] = narrow<bf16>(__half2float(fp16(half)));
    }
}

#define FORMS(name, parameters, arguments)                                                         \
    extern "C" __global__ void name##_e4m3 parameters { name<0> arguments; }                       \
    extern "C" __global__ void name##_e5m2 parameters { name<1> arguments; }
FORMS(cast_rows, (const bf16 *x, int64_t count, const uint32_t *most, uint8_t *to),
      (x, count, most, to))
FORMS(cast_turned,
      (const bf16 *x, int64_t rows, int64_t columns, const uint32_t *most, int64_t step, uint8_t *to),
      (x, rows, columns, most, step, to))
FORMS(cast_wide, (const bf16 *x, int64_t count, const uint32_t *most, bf16 *to),
      (x, count, most, to))

/* What the product of two cast tensors is multiplied by, the second of form FORM, and what is there before. */
template <int FORM>
static __device__ __forceinline__ void factors(const uint32_t *most, float before, float *to)
{
    to[0] = (1 / scale_of<0>(most[0])) * (1 / scale_of<FORM>(most[1]));
    to[1] = before;
}
FORMS(factors, (const uint32_t *most, float before, float *to), (most, before, to))

/* elements.cuh - numbers as CUDA kernels see them: fp32, or bf16 and fp16 widened in registers; sums over threads.
 *
 *   I1  A kernel NAME is written once for all storages, as `template <class T> void NAME(...)`, and has
 *       the names NAME_fp32, NAME_bf16 and NAME_fp16 for the host (BOTH).
 *   I2  Sums of a block are taken in a fixed order: runs repeat bit for bit.
 */
#ifndef WEFT_RUN_DEVICE_CUDA_ELEMENTS_CUH
#define WEFT_RUN_DEVICE_CUDA_ELEMENTS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;
typedef __half fp16;

#define BOTH(name, parameters, arguments)                                                          \
    extern "C" __global__ void name##_fp32 parameters(float) { name<float> arguments; }            \
    extern "C" __global__ void name##_bf16 parameters(bf16) { name<bf16> arguments; }             \
    extern "C" __global__ void name##_fp16 parameters(fp16) { name<fp16> arguments; }

static __device__ __forceinline__ float wide(float x)
{
    return x;
}
static __device__ __forceinline__ float wide(bf16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ float wide(fp16 x)
{
    return __half2float(x);
}

template <class T> static __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ fp16 narrow<fp16>(float x)
{
    return __float2half_rn(x);
}

/* ---- 16 bytes at a time ---------------------------------------------------------------------- */

template <class T> struct wide_pack {
    static const int COUNT = 16 / sizeof(T);
    float x[16 / sizeof(T)];
};

template <class T> static __device__ __forceinline__ wide_pack<T> load_pack(const T *from)
{
    uint4 bits = *(const uint4 *)from;
    const T *all = (const T *)&bits;
    wide_pack<T> pack;
#pragma unroll
    for (int i = 0; i < wide_pack<T>::COUNT; i++)
        pack.x[i] = wide(all[i]);
    return pack;
}

template <class T> static __device__ __forceinline__ void store_pack(T *to, wide_pack<T> pack)
{
    uint4 bits;
    T *all = (T *)&bits;
#pragma unroll
    for (int i = 0; i < wide_pack<T>::COUNT; i++)
        all[i] = narrow<T>(pack.x[i]);
    *(uint4 *)to = bits;
}

/* ---- where a thread is ----------------------------------------------------------------------- */

static __device__ __forceinline__ int64_t thread_index()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t thread_count()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* ---- sums of a block ------------------------------------------------------------------------- */

static __device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int apart = 16; apart; apart /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

static __device__ __forceinline__ float warp_most(float x)
{
#pragma unroll
    for (int apart = 16; apart; apart /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
    return x;
}

/* All threads get the sum of all; blocks of whole warps. */
static __device__ __forceinline__ float block_sum(float x)
{
    __shared__ float part[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0)
        part[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? part[lane] : 0);
}

static __device__ __forceinline__ float block_most(float x)
{
    __shared__ float part[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    x = warp_most(x);
    __syncthreads();
    if (lane == 0)
        part[warp] = x;
    __syncthreads();
    return warp_most(lane < warps ? part[lane] : -INFINITY);
}

static __device__ __forceinline__ double block_sum_double(double x)
{
    __shared__ double part[1024];
    part[threadIdx.x] = x;
    __syncthreads();
    for (int apart = blockDim.x / 2; apart; apart /= 2) {
        if (threadIdx.x < apart)
            part[threadIdx.x] += part[threadIdx.x + apart];
        __syncthreads();
    }
    double all = part[0];
    __syncthreads();
    return all;
}

/* ---- hashes ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint64_t turned(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* XXH3 of 8 bytes: hash_bytes of an int64_t (xxHash's specification, XXH3 of 4 to 8 bytes; the constants
 * are of its secret). */
static __device__ uint64_t hash_number(uint64_t number, uint64_t seed)
{
    uint64_t swapped = __byte_perm((uint32_t)seed, 0, 0x0123);
    seed ^= swapped << 32;
    uint64_t low = (uint32_t)number, high = number >> 32;
    uint64_t keyed = (high + (low << 32)) ^ ((0x1cad21f72c81017cULL ^ 0xdb979083e96dd4deULL) - seed);
    keyed ^= turned(keyed, 49) ^ turned(keyed, 24);
    keyed *= 0x9fb21c651e98df25ULL;
    keyed ^= (keyed >> 35) + 8;
    keyed *= 0x9fb21c651e98df25ULL;
    return keyed ^ keyed >> 28;
}

#endif

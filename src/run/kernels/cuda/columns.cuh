/* columns.cuh - sums of columns by a block: threads along columns (lanes) that take every PHASES-th row.
 *
 *   I1  Sums of a lane's phases are taken in a fixed order, and the threads of the first phase have them.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_COLUMNS_CUH
#define WEFT_RUN_KERNELS_CUDA_COLUMNS_CUH

#include "../../device/cuda/elements.cuh"

enum { LANES = 32, PHASES = 8 };

static __device__ __forceinline__ int own_lane()
{
    return threadIdx.x % LANES;
}

static __device__ __forceinline__ int own_phase()
{
    return threadIdx.x / LANES;
}

/* The column of this thread, if it has `each` of them side by side: the first. */
static __device__ __forceinline__ int64_t own_column(int each)
{
    return ((int64_t)blockIdx.x * LANES + own_lane()) * each;
}

/* N sums of each lane; called by all threads of a block. */
template <int N> static __device__ __forceinline__ void phase_sums(float (&x)[N])
{
    __shared__ float shared[PHASES][LANES * N];
    __syncthreads(); /* what was there before is read */
#pragma unroll
    for (int k = 0; k < N; k++)
        shared[own_phase()][k * LANES + own_lane()] = x[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++)
        for (int i = 1; own_phase() == 0 && i < PHASES; i++)
            x[k] += shared[i][k * LANES + own_lane()];
}

/* The sum of at(row) of rows first .. end - 1, where this thread's column is `there`. */
template <class F> static __device__ __forceinline__ float sum_of_rows(bool there, int64_t first, int64_t end, F at)
{
    float sum[1] = {};
    for (int64_t row = first + own_phase(); there && row < end; row += PHASES)
        sum[0] += at(row);
    phase_sums(sum);
    return sum[0];
}

#endif

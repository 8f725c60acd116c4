/* norms.cu - norms of bf16 (kernels/cpu/norm.c, 1 to 3) whose rows a warp holds in its registers: each row is read
 * once. rows.cu has the other ones.
 *
 *   I1  Rows are whole numbers of 16 bytes, at most P * 32 of them; rows, gains and biases begin at such places.
 *   I2  Sums are taken in a fixed order.
 */
#include "columns.cuh"

enum { WARPS = 4, EACH = 8 }; /* rows of a block; numbers in 16 bytes */

/* What a lane has of a row: 16 bytes of every 512. */
template <int P> struct held_row {
    uint4 bits[P];
    __device__ __forceinline__ void load(const bf16 *row, int packs)
    {
#pragma unroll
        for (int p = 0; p < P; p++) {
            int at = p * 32 + threadIdx.x % 32;
            bits[p] = at < packs ? ((const uint4 *)row)[at] : make_uint4(0, 0, 0, 0);
        }
    }
    __device__ __forceinline__ float at(int p, int k) const
    {
        return wide(((const bf16 *)&bits[p])[k]);
    }
};

static __device__ __forceinline__ int64_t own_row()
{
    return (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
}

template <int P>
static __device__ __forceinline__ void forward(const bf16 *x, const bf16 *gain, const bf16 *bias,
                                               bf16 *y, float *kept, int64_t rows, int64_t width,
                                               int centred, float epsilon)
{
    int64_t row = own_row();
    int packs = (int)(width / EACH), lane = threadIdx.x % 32;
    held_row<P> xs;
    if (row >= rows)
        return;
    xs.load(x + row * width, packs);
    float sum = 0, squares = 0;
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int k = 0; k < EACH; k++)
            sum += xs.at(p, k);
    float mean = centred ? warp_sum(sum) / (float)width : 0;
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float apart = p * 32 + lane < packs ? xs.at(p, k) - mean : 0;
            squares += apart * apart;
        }
    float rate = 1.0F / sqrtf(warp_sum(squares) / (float)width + epsilon);
#pragma unroll
    for (int p = 0; p < P; p++) {
        int at = (p * 32 + lane) * EACH;
        if (at >= width)
            continue;
        wide_pack<bf16> g = load_pack(gain + at), b = {};
        if (bias)
            b = load_pack(bias + at);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            g.x[k] = (xs.at(p, k) - mean) * rate * g.x[k] + b.x[k];
        store_pack(y + row * width + at, g);
    }
    if (lane)
        return;
    if (centred)
        kept[2 * row] = mean;
    kept[centred ? 2 * row + 1 : row] = rate;
}

template <int P>
static __device__ __forceinline__ void input(const bf16 *x, const bf16 *dy, const bf16 *gain,
                                             const float *kept, bf16 *dx, int64_t rows,
                                             int64_t width, int centred)
{
    int64_t row = own_row();
    int packs = (int)(width / EACH), lane = threadIdx.x % 32;
    held_row<P> xs, ds;
    if (row >= rows)
        return;
    xs.load(x + row * width, packs);
    ds.load(dy + row * width, packs);
    float mean = centred ? kept[2 * row] : 0, rate = kept[centred ? 2 * row + 1 : row];
    float sum = 0, along = 0;
#pragma unroll
    for (int p = 0; p < P; p++) {
        int at = (p * 32 + lane) * EACH;
        if (at >= width)
            continue;
        wide_pack<bf16> g = load_pack(gain + at);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float t = ds.at(p, k) * g.x[k];
            sum += t;
            along += t * (xs.at(p, k) - mean);
        }
    }
    float shift = centred ? warp_sum(sum) / (float)width : 0;
    float slope = warp_sum(along) * rate * rate / (float)width;
#pragma unroll
    for (int p = 0; p < P; p++) {
        int at = (p * 32 + lane) * EACH;
        if (at >= width)
            continue;
        wide_pack<bf16> g = load_pack(gain + at);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            g.x[k] = rate * (ds.at(p, k) * g.x[k] - shift - (xs.at(p, k) - mean) * slope);
        store_pack(dx + row * width + at, g);
    }
}

/* ---- gradients of a layer norm's gain and bias, in one pass ----------------------------------- */

/* Sums of `each` rows by every block: of dy n first, of dy after all of those. */
extern "C" __global__ void norm_columns(const bf16 *dy, const bf16 *x, const float *kept,
                                        int64_t rows, int64_t width, int64_t each, float *part)
{
    int64_t column = own_column(EACH), first = blockIdx.y * each;
    int64_t end = first + each < rows ? first + each : rows;
    float gain[EACH] = {}, bias[EACH] = {};
#pragma unroll 4
    for (int64_t row = first + own_phase(); row < end; row += PHASES) {
        if (column >= width)
            break;
        float mean = kept[2 * row], rate = kept[2 * row + 1];
        wide_pack<bf16> d = load_pack(dy + row * width + column);
        wide_pack<bf16> n = load_pack(x + row * width + column);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            gain[k] += d.x[k] * (n.x[k] - mean) * rate;
            bias[k] += d.x[k];
        }
    }
    phase_sums(gain);
    phase_sums(bias);
    if (own_phase() || column >= width)
        return;
    int64_t to = blockIdx.y * width + column, all = gridDim.y * width;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        part[to + k] = gain[k];
        part[all + to + k] = bias[k];
    }
}

/* Those of all blocks; blockIdx.y: of the gain, of the bias. */
extern "C" __global__ void norm_column_sums(const float *part, int64_t parts, int64_t width,
                                            float *gain, float *bias)
{
    int64_t column = own_column(1);
    float *to = blockIdx.y ? bias : gain;
    part += blockIdx.y * parts * width;
    float sum = sum_of_rows(column < width, 0, parts, [&](int64_t i) { return part[i * width + column]; });
    if (own_phase() == 0 && column < width)
        to[column] += sum;
}

/* ---- for the host (norms.c) ------------------------------------------------------------------- */

#define NORMS(P)                                                                                   \
    extern "C" __global__ void __launch_bounds__(32 * WARPS)                                       \
        norm_held_forward_##P(const bf16 *x, const bf16 *gain, const bf16 *bias, bf16 *y,          \
                              float *kept, int64_t rows, int64_t width, int centred, float epsilon)\
    {                                                                                              \
        forward<P>(x, gain, bias, y, kept, rows, width, centred, epsilon);                                  \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(32 * WARPS)                                       \
        norm_held_input_##P(const bf16 *x, const bf16 *dy, const bf16 *gain, const float *kept,    \
                            bf16 *dx, int64_t rows, int64_t width, int centred)                    \
    {                                                                                              \
        input<P>(x, dy, gain, kept, dx, rows, width, centred);                                     \
    }
NORMS(4)
NORMS(8)
NORMS(16)

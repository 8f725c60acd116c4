/* batch_norm.cu - norms of the channels of images (kernels/cpu/batch_norm.c).
 *
 * A block has a part of the samples of one channel (blockIdx.y, blockIdx.x). Sums of parts come first; what is written then
 * begins with the sums over the parts of its channel, which every warp takes for itself.
 *
 *   I1  Sums are taken in a fixed order.
 *   I2  Images are read once for their mean and the squares around it: of some neighbours both are found in registers and
 *       joined to what a thread has (Chan, Golub and LeVeque, 1979), then those of threads, then those of parts.
 */
#include "../../device/cuda/elements.cuh"

static __device__ const float EPSILON = 1e-5F;

/* Sizes of a norm: planes (sample, channel) of pixels. */
struct norm_shape {
    int64_t samples, channels, pixels;
    int64_t parts, each; /* that sums of a channel are taken in, and the samples of each */
};

/* What is kept of each channel; the last two, of dy n and of dy, by the gradients of inputs, which make `todo` zero. */
struct norm_kept {
    float *mean, *rate, *along, *sum, *todo;
};

/* ---- ways through the planes ------------------------------------------------------------------- */

/* Some neighbours, as they are stored and as numbers. */
template <class T, int N> struct alignas(N * sizeof(T)) neighbours {
    T x[N];
};
template <int N> struct numbers {
    float x[N];
};

template <int N, class T> static __device__ __forceinline__ numbers<N> widened(const neighbours<T, N> &from)
{
    numbers<N> to;
#pragma unroll
    for (int k = 0; k < N; k++)
        to.x[k] = wide(from.x[k]);
    return to;
}

/* Calls see(place, x, y) for this block's samples of its channel, N neighbours at a time: threads go on from sample to sample,
 * and read some before they see them. */
template <int N, class T, class SEE>
static __device__ __forceinline__ void over_units(const T *x, const T *y, const norm_shape &n, SEE see)
{
    const int AT_ONCE = 4;
    int64_t sample = blockIdx.y * n.each, end = min(sample + n.each, n.samples);
    int units = (int)(n.pixels / N), samples = (int)blockDim.x / units, rest = (int)blockDim.x % units;
    int unit = threadIdx.x % units;
    sample += threadIdx.x / units;
    while (sample < end) {
        neighbours<T, N> a[AT_ONCE], b[AT_ONCE];
        int64_t at[AT_ONCE];
#pragma unroll
        for (int m = 0; m < AT_ONCE; m++) {
            at[m] = sample < end ? (sample * n.channels + blockIdx.x) * n.pixels + (int64_t)unit * N : -1;
            if (at[m] >= 0) {
                a[m] = *(const neighbours<T, N> *)(x + at[m]);
                b[m] = *(const neighbours<T, N> *)(y + at[m]);
            }
            bool over = unit + rest >= units;
            unit += over ? rest - units : rest;
            sample += samples + (over ? 1 : 0);
        }
#pragma unroll
        for (int m = 0; m < AT_ONCE; m++)
            if (at[m] >= 0)
                see(at[m], widened<N>(a[m]), widened<N>(b[m]));
    }
}

/* As many at a time as planes are whole numbers of. */
template <class T, class SEE>
static __device__ __forceinline__ void over_part(const T *x, const T *y, const norm_shape &n, SEE see)
{
    const int MOST = wide_pack<T>::COUNT;
    if (n.pixels % MOST == 0)
        over_units<MOST>(x, y, n, see);
    else if (n.pixels % 4 == 0)
        over_units<4>(x, y, n, see);
    else
        over_units<1>(x, y, n, see);
}

/* to[...] = make(x, y), element by element. */
template <class T, class MAKE>
static __device__ __forceinline__ void write_part(const T *x, const T *y, T *to, const norm_shape &n, MAKE make)
{
    over_part(x, y, n, [&](int64_t at, auto a, auto b) {
        const int N = sizeof a / sizeof(float);
        neighbours<T, N> out;
#pragma unroll
        for (int k = 0; k < N; k++)
            out.x[k] = narrow<T>(make(a.x[k], b.x[k]));
        *(neighbours<T, N> *)(to + at) = out;
    });
}

/* The sum over the parts of a channel of part_of(i), in all lanes of a warp. */
template <class F> static __device__ __forceinline__ float over_parts(const norm_shape &n, F part_of)
{
    float sum = 0;
    for (int64_t i = threadIdx.x % 32; i < n.parts; i += 32)
        sum += part_of(i);
    return warp_sum(sum);
}

/* Whether this thread writes what is of a channel and not of its part. */
static __device__ __forceinline__ bool writes_channel()
{
    return blockIdx.y == 0 && threadIdx.x == 0;
}

/* ---- forward ----------------------------------------------------------------------------------- */

/* Numbers that were seen: how many, their mean, and the squares around it (I2). */
struct moments {
    float count, mean, squares;
    template <int N> __device__ __forceinline__ void join(const numbers<N> &x)
    {
        float sum = 0, own = 0;
#pragma unroll
        for (int k = 0; k < N; k++)
            sum += x.x[k];
        float centre = sum / N, apart = centre - mean;
#pragma unroll
        for (int k = 0; k < N; k++)
            own += (x.x[k] - centre) * (x.x[k] - centre);
        float share = __fdividef(N, count + N);
        mean += apart * share;
        squares += own + apart * apart * count * share;
        count += N;
    }
};

static __device__ __forceinline__ float part_count(const norm_shape &n, int64_t part)
{
    int64_t first = part * n.each, end = first + n.each < n.samples ? first + n.each : n.samples;
    return (float)((end - first) * n.pixels);
}

/* Sums of a part of a channel and, after those of all, of (x - mean of the part)^2: (part, channel). */
template <class T> __device__ void batch_norm_sums(const T *x, norm_shape n, float *part)
{
    moments m = {0, 0, 0};
    over_part(x, x, n, [&](int64_t, auto a, auto) { m.join(a); });
    float sum = block_sum(m.count * m.mean), apart = m.mean - sum / part_count(n, blockIdx.y);
    float squares = block_sum(m.squares + m.count * apart * apart);
    if (threadIdx.x)
        return;
    part[blockIdx.y * n.channels + blockIdx.x] = sum;
    part[(n.parts + blockIdx.y) * n.channels + blockIdx.x] = squares;
}
#define BATCH_NORM_SUMS(T) (const T *x, norm_shape n, float *part)
BOTH(batch_norm_sums, BATCH_NORM_SUMS, (x, n, part))

static __device__ __forceinline__ float channel_sum(const float *part, const norm_shape &n, int64_t c)
{
    return over_parts(n, [&](int64_t i) { return part[i * n.channels + c]; });
}

/* Around `centre`, out of those of parts around their own means. */
static __device__ __forceinline__ float channel_squares(const float *part, const norm_shape &n, int64_t c, float centre)
{
    return over_parts(n, [&](int64_t i) {
        float own = part_count(n, i), apart = part[i * n.channels + c] / own - centre;
        return part[(n.parts + i) * n.channels + c] + own * apart * apart;
    });
}

/* Where other devices have parts, too: sums of channels, a warp for each, and after them the number of addends. */
extern "C" __global__ void batch_norm_totals(const float *part, norm_shape n, float *to)
{
    float sum = channel_sum(part, n, blockIdx.x);
    if (threadIdx.x)
        return;
    to[blockIdx.x] = sum;
    if (blockIdx.x == 0)
        to[n.channels] = (float)(n.samples * n.pixels);
}

/* Squares likewise, around the mean of `sums`, which others have added to since. */
extern "C" __global__ void batch_norm_squares(const float *part, const float *sums, norm_shape n, float *to)
{
    float squares = channel_squares(part, n, blockIdx.x, sums[blockIdx.x] / sums[n.channels]);
    if (threadIdx.x)
        return;
    to[blockIdx.x] = squares;
    if (blockIdx.x == 0)
        to[n.channels] = (float)(n.samples * n.pixels);
}

/* sums, squares: of each channel of all devices, and the number of addends; NULL: those of parts are all. */
template <class T>
__device__ void batch_norm_forward(const T *x, const T *gain, const T *bias, const float *part,
                                   const float *sums, const float *squares, norm_shape n, norm_kept k, T *y)
{
    int64_t c = blockIdx.x;
    float count = sums ? sums[n.channels] : (float)(n.samples * n.pixels);
    float mean = (sums ? sums[c] : channel_sum(part, n, c)) / count;
    float rate = 1.0F / sqrtf((squares ? squares[c] : channel_squares(part, n, c, mean)) / count + EPSILON);
    float by = rate * wide(gain[c]), add = wide(bias[c]);
    write_part(x, x, y, n, [&](float at, float) { return (at - mean) * by + add; });
    if (!writes_channel())
        return;
    k.mean[c] = mean;
    k.rate[c] = rate;
    if (c == 0)
        *k.todo = 1;
}
#define BATCH_NORM_FORWARD(T)                                                                      \
    (const T *x, const T *gain, const T *bias, const float *part, const float *sums,               \
     const float *squares, norm_shape n, norm_kept k, T *y)
BOTH(batch_norm_forward, BATCH_NORM_FORWARD, (x, gain, bias, part, sums, squares, n, k, y))

/* ---- gradients --------------------------------------------------------------------------------- */

/* Sums of dy n and of dy over what this block has, in all threads. */
template <class T>
static __device__ __forceinline__ float2 gradient_sums(const T *x, const T *dy, const norm_shape &n, const norm_kept &k)
{
    float centre = k.mean[blockIdx.x], along = 0, sum = 0;
    over_part(x, dy, n, [&](int64_t, auto a, auto d) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof a / sizeof(float)); i++) {
            along += d.x[i] * (a.x[i] - centre);
            sum += d.x[i];
        }
    });
    along = block_sum(along) * k.rate[blockIdx.x];
    return make_float2(along, block_sum(sum));
}

/* Of parts: (part, channel) each. */
template <class T>
__device__ void batch_norm_gradients(const T *x, const T *dy, norm_shape n, norm_kept k, float *part)
{
    float2 sums = gradient_sums(x, dy, n, k);
    if (threadIdx.x)
        return;
    part[blockIdx.y * n.channels + blockIdx.x] = sums.x;
    part[(n.parts + blockIdx.y) * n.channels + blockIdx.x] = sums.y;
}
#define BATCH_NORM_GRADIENTS(T) (const T *x, const T *dy, norm_shape n, norm_kept k, float *part)
BOTH(batch_norm_gradients, BATCH_NORM_GRADIENTS, (x, dy, n, k, part))

/* Keeps the sums of a channel. */
static __device__ __forceinline__ void keep_sums(const norm_kept &k, int64_t c, float along, float sum)
{
    k.along[c] = along;
    k.sum[c] = sum;
    if (c == 0)
        *k.todo = 0;
}

/* Where other devices have parts, too: those of all parts here are kept, and written beside the number of addends. */
extern "C" __global__ void batch_norm_gradient_totals(const float *part, norm_shape n, norm_kept k, float *to)
{
    int64_t c = blockIdx.x;
    float along = channel_sum(part, n, c), sum = channel_sum(part + n.parts * n.channels, n, c);
    if (threadIdx.x)
        return;
    keep_sums(k, c, along, sum);
    to[c] = along;
    to[n.channels + c] = sum;
    if (c == 0)
        to[2 * n.channels] = (float)(n.samples * n.pixels);
}

/* sums: of dy n and of dy for every channel of all devices, and the number of addends; NULL: those of parts are all, and are
 * kept. */
template <class T>
__device__ void batch_norm_input(const T *x, const T *dy, const T *gain, const float *part,
                                 const float *sums, norm_shape n, norm_kept k, T *dx)
{
    int64_t c = blockIdx.x;
    float count = sums ? sums[2 * n.channels] : (float)(n.samples * n.pixels);
    float along = sums ? sums[c] : channel_sum(part, n, c);
    float sum = sums ? sums[n.channels + c] : channel_sum(part + n.parts * n.channels, n, c);
    float centre = k.mean[c], rate = k.rate[c], by = wide(gain[c]) * rate;
    float slope = along / count * rate, shift = sum / count;
    write_part(x, dy, dx, n, [&](float at, float d) { return by * (d - shift - (at - centre) * slope); });
    if (!sums && writes_channel())
        keep_sums(k, c, along, sum);
}
#define BATCH_NORM_INPUT(T)                                                                        \
    (const T *x, const T *dy, const T *gain, const float *part, const float *sums, norm_shape n,   \
     norm_kept k, T *dx)
BOTH(batch_norm_input, BATCH_NORM_INPUT, (x, dy, gain, part, sums, n, k, dx))

/* (3): what was kept, or is summed here, where the gradient of the input was not asked for: a block for each channel. */
template <class T>
__device__ void batch_norm_weight(const T *x, const T *dy, norm_shape n, norm_kept k, float *gain, float *bias)
{
    float2 sums = *k.todo == 0 ? make_float2(k.along[blockIdx.x], k.sum[blockIdx.x]) : gradient_sums(x, dy, n, k);
    if (threadIdx.x)
        return;
    gain[blockIdx.x] += sums.x;
    bias[blockIdx.x] += sums.y;
}
#define BATCH_NORM_WEIGHT(T)                                                                       \
    (const T *x, const T *dy, norm_shape n, norm_kept k, float *gain, float *bias)
BOTH(batch_norm_weight, BATCH_NORM_WEIGHT, (x, dy, n, k, gain, bias))

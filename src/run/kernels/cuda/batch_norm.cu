/* batch_norm.cu - norms of the channels of images (kernels/cpu/batch_norm.c).
 *
 *   I1  Sums of a channel's parts are taken in a fixed order.
 *   I2  What is written element by element goes 16 bytes at a time over all planes: a pack may reach into the next plane.
 */
#include "../../device/cuda/elements.cuh"

static __device__ const float EPSILON = 1e-5F;

/* Sizes of a norm: planes (sample, channel) of pixels. */
struct norm_shape {
    int64_t samples, channels, pixels;
    int64_t parts, each; /* that sums of a channel are taken in, and the samples of each */
};

/* ---- ways through the planes ------------------------------------------------------------------- */

/* Four neighbours, read at once; or one. */
template <class T, int N> struct alignas(N * sizeof(T)) neighbours {
    T x[N];
};

/* Calls `see(x, y)` for all pairs of channel blockIdx.x in part blockIdx.y, N at a time: threads go on from sample to sample. */
template <int N, class T, class SEE>
static __device__ __forceinline__ void over_units(const T *x, const T *y, const norm_shape &n, SEE see)
{
    int64_t first = blockIdx.y * n.each, end = min(first + n.each, n.samples);
    int units = (int)(n.pixels / N), samples = (int)blockDim.x / units, rest = (int)blockDim.x % units;
    int64_t sample = first + threadIdx.x / units;
    int unit = threadIdx.x % units;
#pragma unroll 4
    while (sample < end) {
        int64_t at = (sample * n.channels + blockIdx.x) * n.pixels + (int64_t)unit * N;
        neighbours<T, N> a = *(const neighbours<T, N> *)(x + at), b = *(const neighbours<T, N> *)(y + at);
#pragma unroll
        for (int k = 0; k < N; k++)
            see(wide(a.x[k]), wide(b.x[k]));
        bool over = unit + rest >= units;
        unit += over ? rest - units : rest;
        sample += samples + (over ? 1 : 0);
    }
}

template <class T, class SEE>
static __device__ __forceinline__ void over_part(const T *x, const T *y, const norm_shape &n, SEE see)
{
    if (n.pixels % 4 == 0)
        over_units<4>(x, y, n, see);
    else
        over_units<1>(x, y, n, see);
}

/* y = own(x, z) element by element, with `own` that of its channel: of_channel(c). */
template <class T, class OF_CHANNEL>
static __device__ __forceinline__ void write_planes(const T *x, const T *z, T *y, const norm_shape &n,
                                                    OF_CHANNEL of_channel)
{
    const int EACH = wide_pack<T>::COUNT;
    int64_t all = n.samples * n.channels * n.pixels;
    bool small = all <= UINT32_MAX; /* divisions of 32 bits are several times as fast */
    for (int64_t i = thread_index() * EACH; i < all; i += thread_count() * EACH) {
        int64_t plane = small ? (uint32_t)i / (uint32_t)n.pixels : i / n.pixels, next = (plane + 1) * n.pixels;
        int64_t c = small ? (uint32_t)plane % (uint32_t)n.channels : plane % n.channels;
        bool whole = i + EACH <= all;
        auto own = of_channel(c);
        wide_pack<T> a, b;
        if (whole) {
            a = load_pack(x + i);
            b = load_pack(z + i);
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (i + k == next) {
                c = c + 1 < n.channels ? c + 1 : 0;
                next += n.pixels;
                own = of_channel(c);
            }
            if (whole)
                a.x[k] = own.at(a.x[k], b.x[k]);
            else if (i + k < all)
                y[i + k] = narrow<T>(own.at(wide(x[i + k]), wide(z[i + k])));
        }
        if (whole)
            store_pack(y + i, a);
    }
}

/* ---- forward ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ float part_count(const norm_shape &n, int64_t part)
{
    int64_t first = part * n.each, end = first + n.each < n.samples ? first + n.each : n.samples;
    return (float)((end - first) * n.pixels);
}

/* Sums of a part of a channel and, after those of all, of (x - mean of the part)^2: (part, channel). The second time its
 * numbers are in the cache. */
template <class T> __device__ void batch_norm_sums(const T *x, norm_shape n, float *part)
{
    float sum = 0, squares = 0;
    over_part(x, x, n, [&](float at, float) { sum += at; });
    sum = block_sum(sum);
    float mean = sum / part_count(n, blockIdx.y);
    over_part(x, x, n, [&](float at, float) { squares += (at - mean) * (at - mean); });
    squares = block_sum(squares);
    if (threadIdx.x)
        return;
    part[blockIdx.y * n.channels + blockIdx.x] = sum;
    part[(n.parts + blockIdx.y) * n.channels + blockIdx.x] = squares;
}
#define BATCH_NORM_SUMS(T) (const T *x, norm_shape n, float *part)
BOTH(batch_norm_sums, BATCH_NORM_SUMS, (x, n, part))

static __device__ __forceinline__ float channel_sum(const float *part, const norm_shape &n, int64_t c)
{
    float sum = 0;
    for (int64_t i = 0; i < n.parts; i++)
        sum += part[i * n.channels + c];
    return sum;
}

/* Sums of all parts, and after those of all channels the number of addends. */
extern "C" __global__ void batch_norm_totals(const float *part, norm_shape n, float *to)
{
    int64_t c = thread_index();
    if (c < n.channels)
        to[c] = channel_sum(part, n, c);
    if (c == 0)
        to[n.channels] = (float)(n.samples * n.pixels);
}

/* Sums of (x - mean)^2 likewise, out of those of parts; the mean, which is kept, is that of `sums`, which others have added
 * to since, or NULL: of these parts alone. */
extern "C" __global__ void batch_norm_squares(const float *part, const float *sums, norm_shape n,
                                              float *mean, float *to)
{
    int64_t c = thread_index();
    if (c >= n.channels)
        return;
    float count = sums ? sums[n.channels] : (float)(n.samples * n.pixels), squares = 0;
    float centre = (sums ? sums[c] : channel_sum(part, n, c)) / count;
    for (int64_t i = 0; i < n.parts; i++) {
        float own = part_count(n, i), apart = part[i * n.channels + c] / own - centre;
        squares += part[(n.parts + i) * n.channels + c] + own * apart * apart;
    }
    to[c] = squares;
    mean[c] = centre;
    if (c == 0)
        to[n.channels] = (float)(n.samples * n.pixels);
}

struct normed {
    float centre, by, add;
    __device__ __forceinline__ float at(float x, float) const
    {
        return (x - centre) * by + add;
    }
};

/* rate: kept; squares: of each channel, and the number of addends. */
template <class T>
__device__ void batch_norm_forward(const T *x, const T *gain, const T *bias, const float *mean,
                                   const float *squares, norm_shape n, float *rate, T *y)
{
    float count = squares[n.channels];
    auto rate_of = [&](int64_t c) { return 1.0F / sqrtf(squares[c] / count + EPSILON); };
    write_planes(x, x, y, n, [&](int64_t c) {
        return normed{mean[c], rate_of(c) * wide(gain[c]), wide(bias[c])};
    });
    for (int64_t c = thread_index(); c < n.channels; c += thread_count())
        rate[c] = rate_of(c);
}
#define BATCH_NORM_FORWARD(T)                                                                      \
    (const T *x, const T *gain, const T *bias, const float *mean, const float *squares,            \
     norm_shape n, float *rate, T *y)
BOTH(batch_norm_forward, BATCH_NORM_FORWARD, (x, gain, bias, mean, squares, n, rate, y))

/* ---- gradients --------------------------------------------------------------------------------- */

/* Sums of dy n and, after those of all channels, of dy: (part, channel) each. */
template <class T>
__device__ void batch_norm_gradients(const T *x, const T *dy, const float *mean, const float *rate,
                                     norm_shape n, float *part)
{
    float centre = mean[blockIdx.x], along = 0, sum = 0;
    over_part(x, dy, n, [&](float at, float d) {
        along += d * (at - centre);
        sum += d;
    });
    along = block_sum(along) * rate[blockIdx.x];
    sum = block_sum(sum);
    if (threadIdx.x)
        return;
    part[blockIdx.y * n.channels + blockIdx.x] = along;
    part[(n.parts + blockIdx.y) * n.channels + blockIdx.x] = sum;
}
#define BATCH_NORM_GRADIENTS(T)                                                                    \
    (const T *x, const T *dy, const float *mean, const float *rate, norm_shape n, float *part)
BOTH(batch_norm_gradients, BATCH_NORM_GRADIENTS, (x, dy, mean, rate, n, part))

/* Those of all parts: added to what is there (3) or, with `addends`, written beside their number. */
extern "C" __global__ void batch_norm_gradient_totals(const float *part, norm_shape n, float *along,
                                                      float *sum, float *addends)
{
    int64_t c = thread_index();
    if (c >= n.channels)
        return;
    float a = 0, s = 0;
    for (int64_t i = 0; i < n.parts; i++) {
        a += part[i * n.channels + c];
        s += part[(n.parts + i) * n.channels + c];
    }
    along[c] = addends ? a : along[c] + a;
    sum[c] = addends ? s : sum[c] + s;
    if (addends && c == 0)
        *addends = (float)(n.samples * n.pixels);
}

struct normed_gradient {
    float centre, by, along, shift;
    __device__ __forceinline__ float at(float x, float d) const
    {
        return by * (d - shift - (x - centre) * along);
    }
};

/* sums: of dy n and of dy for every channel, and the number of addends. */
template <class T>
__device__ void batch_norm_input(const T *x, const T *dy, const T *gain, const float *mean,
                                 const float *rate, const float *sums, norm_shape n, T *dx)
{
    float count = sums[2 * n.channels];
    write_planes(x, dy, dx, n, [&](int64_t c) {
        return normed_gradient{mean[c], wide(gain[c]) * rate[c], sums[c] / count * rate[c],
                               sums[n.channels + c] / count};
    });
}
#define BATCH_NORM_INPUT(T)                                                                        \
    (const T *x, const T *dy, const T *gain, const float *mean, const float *rate,                 \
     const float *sums, norm_shape n, T *dx)
BOTH(batch_norm_input, BATCH_NORM_INPUT, (x, dy, gain, mean, rate, sums, n, dx))

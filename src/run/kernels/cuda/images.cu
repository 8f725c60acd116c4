/* images.cu - windows of images (kernels/cpu/conv.c, pool.c) and norms of their channels (batch_norm.c).
 *
 *   I1  A pixel's gradient is gathered from the windows over it, in their order: nothing is added by two threads.
 */
#include "../../device/cuda/elements.cuh"
#include "image_shape.h"

/* ---- windows as columns ---------------------------------------------------------------------- */

/* Where the columns of channels from `channel` on are, and in how many samples and rows they lie. */
struct column_shape {
    int64_t samples, rows, channels, channel; /* channels: of a whole image */
    int64_t sample_step, row_step;            /* from sample to sample of the columns, and row to row */
};

/* C[(c i j), (y x)] = X[c, y s + i - pad, x s + j - pad], 0 outside. */
template <class T> __device__ void columns_of(const T *x, T *columns, image_shape w, column_shape c)
{
    int64_t pixels = w.out[0] * w.out[1], window = w.kernel[0] * w.kernel[1];
    int64_t each = c.rows * pixels, image = w.in[0] * w.in[1];
    for (int64_t n = thread_index(); n < c.samples * each; n += thread_count()) {
        int64_t sample = n / each, row = n % each / pixels, pixel = n % pixels;
        int64_t i = row % window / w.kernel[1], j = row % w.kernel[1];
        int64_t y = pixel / w.out[1] * w.stride[0] + i - w.pad[0];
        int64_t v = pixel % w.out[1] * w.stride[1] + j - w.pad[1];
        bool inside = y >= 0 && y < w.in[0] && v >= 0 && v < w.in[1];
        int64_t plane = sample * c.channels + c.channel + row / window;
        columns[sample * c.sample_step + row * c.row_step + pixel] =
            inside ? x[plane * image + y * w.in[1] + v] : narrow<T>(0);
    }
}
#define COLUMNS_OF(T) (const T *x, T *columns, image_shape w, column_shape c)
BOTH(columns_of, COLUMNS_OF, (x, columns, w, c))

/* Calls `see(output pixel, place in its window)` for every window over a pixel. */
template <class SEE>
static __device__ __forceinline__ void windows_over(const image_shape &w, int64_t pixel, SEE see)
{
    int64_t top = pixel / w.in[1] + w.pad[0], left = pixel % w.in[1] + w.pad[1];
    for (int64_t i = 0; i < w.kernel[0]; i++) {
        int64_t y = (top - i) / w.stride[0];
        if (top < i || (top - i) % w.stride[0] || y >= w.out[0])
            continue;
        for (int64_t j = 0; j < w.kernel[1]; j++) {
            int64_t x = (left - j) / w.stride[1];
            if (left >= j && (left - j) % w.stride[1] == 0 && x < w.out[1])
                see(y * w.out[1] + x, i * w.kernel[1] + j);
        }
    }
}

/* The gradients of pixels from those of the columns, which are in fp32; a thread for each pixel. */
template <class T>
__device__ void columns_back(const float *columns, T *dx, image_shape w, column_shape c)
{
    int64_t image = w.in[0] * w.in[1], window = w.kernel[0] * w.kernel[1];
    int64_t channels = c.rows / window, each = channels * image;
    for (int64_t n = thread_index(); n < c.samples * each; n += thread_count()) {
        int64_t sample = n / each, channel = n % each / image, pixel = n % image;
        const float *from = columns + sample * c.sample_step + channel * window * c.row_step;
        float sum = 0;
        windows_over(w, pixel,
                     [&](int64_t out, int64_t place) { sum += from[place * c.row_step + out]; });
        dx[(sample * c.channels + c.channel + channel) * image + pixel] = narrow<T>(sum);
    }
}
#define COLUMNS_BACK(T) (const float *columns, T *dx, image_shape w, column_shape c)
BOTH(columns_back, COLUMNS_BACK, (columns, dx, w, c))

/* Planes (sample, channel) as (channel, sample), of the `count` channels from `first` on out of `channels`. */
template <class T>
__device__ void channels_first(const T *x, T *y, int64_t samples, int64_t channels, int64_t first,
                               int64_t count, int64_t pixels)
{
    int64_t all = samples * count * pixels;
    for (int64_t n = thread_index(); n < all; n += thread_count()) {
        int64_t channel = n / (samples * pixels), sample = n / pixels % samples;
        y[n] = x[(sample * channels + first + channel) * pixels + n % pixels];
    }
}
#define CHANNELS_FIRST(T)                                                                          \
    (const T *x, T *y, int64_t samples, int64_t channels, int64_t first, int64_t count,            \
     int64_t pixels)
BOTH(channels_first, CHANNELS_FIRST, (x, y, samples, channels, first, count, pixels))

template <class T>
__device__ void add_channel_bias(T *y, const T *bias, int64_t planes, int64_t channels,
                                 int64_t pixels)
{
    for (int64_t n = thread_index(); n < planes * pixels; n += thread_count())
        y[n] = narrow<T>(wide(y[n]) + wide(bias[n / pixels % channels]));
}
#define ADD_CHANNEL_BIAS(T)                                                                        \
    (T *y, const T *bias, int64_t planes, int64_t channels, int64_t pixels)
BOTH(add_channel_bias, ADD_CHANNEL_BIAS, (y, bias, planes, channels, pixels))

/* A block for each channel. */
template <class T>
__device__ void channel_sums(const T *dy, int64_t samples, int64_t channels, int64_t pixels,
                             float *gradient)
{
    int64_t channel = blockIdx.x;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < samples * pixels; i += blockDim.x)
        sum += wide(dy[(i / pixels * channels + channel) * pixels + i % pixels]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        gradient[channel] += sum;
}
#define CHANNEL_SUMS(T)                                                                            \
    (const T *dy, int64_t samples, int64_t channels, int64_t pixels, float *gradient)
BOTH(channel_sums, CHANNEL_SUMS, (dy, samples, channels, pixels, gradient))

/* ---- pooling --------------------------------------------------------------------------------- */

/* The places of a window that lie within the image: rows first .. end from `at` on, and so for columns. */
struct pool_span {
    int64_t at, first, end;
};

static __device__ __forceinline__ pool_span pool_span_of(const image_shape &w, int axis,
                                                         int64_t output)
{
    int64_t at = output * w.stride[axis] - w.pad[axis];
    int64_t first = at < 0 ? -at : 0, end = w.kernel[axis];
    return {at, first, at + end > w.in[axis] ? w.in[axis] - at : end};
}

static __device__ __forceinline__ float pixels_in(const image_shape &w, int64_t output)
{
    pool_span v = pool_span_of(w, 0, output / w.out[1]), u = pool_span_of(w, 1, output % w.out[1]);
    return (float)((v.end - v.first) * (u.end - u.first));
}

/* With `place`, the largest pixel of each window and where it is; else the mean. */
template <class T>
__device__ void pool_forward(const T *x, T *y, int32_t *place, int64_t planes, image_shape w)
{
    int64_t image = w.in[0] * w.in[1], outputs = w.out[0] * w.out[1];
    for (int64_t n = thread_index(); n < planes * outputs; n += thread_count()) {
        const T *from = x + n / outputs * image;
        int64_t output = n % outputs;
        pool_span v = pool_span_of(w, 0, output / w.out[1]);
        pool_span u = pool_span_of(w, 1, output % w.out[1]);
        int64_t best = (v.at + v.first) * w.in[1] + u.at + u.first;
        float most = wide(from[best]), sum = 0;
        for (int64_t i = v.first; i < v.end; i++)
            for (int64_t j = u.first; j < u.end; j++) {
                int64_t at = (v.at + i) * w.in[1] + u.at + j;
                float pixel = wide(from[at]);
                sum += pixel;
                if (pixel > most || isnan(pixel)) {
                    most = pixel;
                    best = at;
                }
            }
        if (place)
            place[n] = (int32_t)best;
        y[n] = narrow<T>(place ? most : sum / pixels_in(w, output));
    }
}
#define POOL_FORWARD(T) (const T *x, T *y, int32_t *place, int64_t planes, image_shape w)
BOTH(pool_forward, POOL_FORWARD, (x, y, place, planes, w))

template <class T>
__device__ void pool_input(const T *dy, const int32_t *place, T *dx, int64_t planes, image_shape w)
{
    int64_t image = w.in[0] * w.in[1], outputs = w.out[0] * w.out[1];
    for (int64_t n = thread_index(); n < planes * image; n += thread_count()) {
        int64_t first = n / image * outputs, pixel = n % image;
        float sum = 0;
        windows_over(w, pixel, [&](int64_t output, int64_t) {
            float d = wide(dy[first + output]);
            if (!place)
                sum += d / pixels_in(w, output);
            else if (place[first + output] == pixel)
                sum += d;
        });
        dx[n] = narrow<T>(sum);
    }
}
#define POOL_INPUT(T) (const T *dy, const int32_t *place, T *dx, int64_t planes, image_shape w)
BOTH(pool_input, POOL_INPUT, (dy, place, dx, planes, w))

/* ---- batch norm ------------------------------------------------------------------------------ */

static __device__ const float EPSILON = 1e-5F;

/* Calls `see(element)` for every element of this block's channel. */
template <class SEE>
static __device__ __forceinline__ void over_channel(int64_t samples, int64_t channels,
                                                    int64_t pixels, SEE see)
{
    for (int64_t i = threadIdx.x; i < samples * pixels; i += blockDim.x)
        see((i / pixels * channels + blockIdx.x) * pixels + i % pixels);
}

/* Sums of a channel and, after those of all channels, the number of addends: a block for each channel. With
 * `sums`, which others have added to since, the sums of (x - mean)^2, and the mean is kept. */
template <class T>
__device__ void batch_norm_sums(const T *x, const float *sums, int64_t samples, int64_t channels,
                                int64_t pixels, float *mean, float *to)
{
    float centre = sums ? sums[blockIdx.x] / sums[channels] : 0, sum = 0;
    over_channel(samples, channels, pixels, [&](int64_t i) {
        float at = wide(x[i]) - centre;
        sum += sums ? at * at : at;
    });
    sum = block_sum(sum);
    if (threadIdx.x)
        return;
    to[blockIdx.x] = sum;
    if (blockIdx.x == 0)
        to[channels] = (float)(samples * pixels);
    if (sums)
        mean[blockIdx.x] = centre;
}
#define BATCH_NORM_SUMS(T)                                                                         \
    (const T *x, const float *sums, int64_t samples, int64_t channels, int64_t pixels,             \
     float *mean, float *to)
BOTH(batch_norm_sums, BATCH_NORM_SUMS, (x, sums, samples, channels, pixels, mean, to))

/* rate: kept; squares: of each channel, and the number of addends. */
template <class T>
__device__ void batch_norm_forward(const T *x, const T *gain, const T *bias, const float *mean,
                                   const float *squares, int64_t planes, int64_t channels,
                                   int64_t pixels, float *rate, T *y)
{
    for (int64_t n = thread_index(); n < planes * pixels; n += thread_count()) {
        int64_t c = n / pixels % channels;
        float r = 1.0F / sqrtf(squares[c] / squares[channels] + EPSILON);
        y[n] = narrow<T>((wide(x[n]) - mean[c]) * (r * wide(gain[c])) + wide(bias[c]));
        if (n % pixels == 0 && n < channels * pixels)
            rate[c] = r;
    }
}
#define BATCH_NORM_FORWARD(T)                                                                      \
    (const T *x, const T *gain, const T *bias, const float *mean, const float *squares,            \
     int64_t planes, int64_t channels, int64_t pixels, float *rate, T *y)
BOTH(batch_norm_forward, BATCH_NORM_FORWARD,
     (x, gain, bias, mean, squares, planes, channels, pixels, rate, y))

/* Sums of dy n and of dy, added to what is there (3) or, with `addends`, written beside their number. */
template <class T>
__device__ void batch_norm_gradients(const T *x, const T *dy, const float *mean, const float *rate,
                                     int64_t samples, int64_t channels, int64_t pixels,
                                     float *along, float *sum, float *addends)
{
    float centre = mean[blockIdx.x], a = 0, s = 0;
    over_channel(samples, channels, pixels, [&](int64_t i) {
        float d = wide(dy[i]);
        a += d * (wide(x[i]) - centre);
        s += d;
    });
    a = block_sum(a) * rate[blockIdx.x];
    s = block_sum(s);
    if (threadIdx.x)
        return;
    along[blockIdx.x] = addends ? a : along[blockIdx.x] + a;
    sum[blockIdx.x] = addends ? s : sum[blockIdx.x] + s;
    if (addends && blockIdx.x == 0)
        *addends = (float)(samples * pixels);
}
#define BATCH_NORM_GRADIENTS(T)                                                                    \
    (const T *x, const T *dy, const float *mean, const float *rate, int64_t samples,               \
     int64_t channels, int64_t pixels, float *along, float *sum, float *addends)
BOTH(batch_norm_gradients, BATCH_NORM_GRADIENTS,
     (x, dy, mean, rate, samples, channels, pixels, along, sum, addends))

/* sums: of dy n and of dy for every channel, and the number of addends. */
template <class T>
__device__ void batch_norm_input(const T *x, const T *dy, const T *gain, const float *mean,
                                 const float *rate, const float *sums, int64_t planes,
                                 int64_t channels, int64_t pixels, T *dx)
{
    float count = sums[2 * channels];
    for (int64_t n = thread_index(); n < planes * pixels; n += thread_count()) {
        int64_t c = n / pixels % channels;
        float along = sums[c] / count * rate[c], shift = sums[channels + c] / count;
        dx[n] = narrow<T>(wide(gain[c]) * rate[c] *
                          (wide(dy[n]) - shift - (wide(x[n]) - mean[c]) * along));
    }
}
#define BATCH_NORM_INPUT(T)                                                                        \
    (const T *x, const T *dy, const T *gain, const float *mean, const float *rate,                 \
     const float *sums, int64_t planes, int64_t channels, int64_t pixels, T *dx)
BOTH(batch_norm_input, BATCH_NORM_INPUT,
     (x, dy, gain, mean, rate, sums, planes, channels, pixels, dx))

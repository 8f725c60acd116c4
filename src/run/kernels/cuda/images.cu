/* images.cu - windows of images (kernels/cpu/conv.c, pool.c).
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

/* to += from */
template <class T> __device__ void add_widened(const T *from, int64_t count, float *to)
{
    for (int64_t i = thread_index(); i < count; i += thread_count())
        to[i] += wide(from[i]);
}
#define ADD_WIDENED(T) (const T *from, int64_t count, float *to)
BOTH(add_widened, ADD_WIDENED, (from, count, to))

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

/* A block for each plane: windows over a pixel are found in 32 bits. */
template <class T>
__device__ void pool_input(const T *dy, const int32_t *place, T *dx, image_shape w)
{
    int height = (int)w.in[0], width = (int)w.in[1], down = (int)w.stride[0], along = (int)w.stride[1];
    int64_t image = w.in[0] * w.in[1], outputs = w.out[0] * w.out[1], first = blockIdx.x * outputs;
    for (int pixel = threadIdx.x; pixel < height * width; pixel += blockDim.x) {
        int top = pixel / width + (int)w.pad[0], left = pixel % width + (int)w.pad[1];
        int reach = top - (int)w.kernel[0] + 1, across = left - (int)w.kernel[1] + 1;
        int y = reach > 0 ? (reach + down - 1) / down : 0;
        int begin = across > 0 ? (across + along - 1) / along : 0;
        float sum = 0;
        for (; y * down <= top && y < (int)w.out[0]; y++)
            for (int x = begin; x * along <= left && x < (int)w.out[1]; x++) {
                int output = y * (int)w.out[1] + x;
                float d = wide(dy[first + output]);
                if (!place)
                    sum += d / pixels_in(w, output);
                else if (place[first + output] == pixel)
                    sum += d;
            }
        dx[blockIdx.x * image + pixel] = narrow<T>(sum);
    }
}
#define POOL_INPUT(T) (const T *dy, const int32_t *place, T *dx, image_shape w)
BOTH(pool_input, POOL_INPUT, (dy, place, dx, w))

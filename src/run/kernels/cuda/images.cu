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

/* ---- batch norm ------------------------------------------------------------------------------ */

static __device__ const float EPSILON = 1e-5F;

/* Four neighbours, read and written at once. */
template <class T> struct alignas(4 * sizeof(T)) quad {
    T x[4];
};

/* Sizes of a norm: planes (sample, channel) of pixels. */
struct norm_shape {
    int64_t samples, channels, pixels;
    int64_t parts, each; /* that sums of a channel are taken in, and the samples of each */
};

/* Calls `see(element, count)` for the elements of a plane, count of them at once: 4 where a plane is made of such. */
template <class SEE>
static __device__ __forceinline__ void over_plane(int64_t plane, int64_t pixels, SEE see)
{
    int64_t at = plane * pixels;
    if (pixels % 4 == 0)
        for (int64_t i = 4 * threadIdx.x; i < pixels; i += 4 * blockDim.x)
            see(at + i, true);
    else
        for (int64_t i = threadIdx.x; i < pixels; i += blockDim.x)
            see(at + i, false);
}

template <class T, class SEE>
static __device__ __forceinline__ void over_pairs(const T *x, const T *y, int64_t plane, int64_t pixels,
                                                  SEE see)
{
    over_plane(plane, pixels, [&](int64_t i, bool four) {
        if (!four) {
            see(wide(x[i]), wide(y[i]));
            return;
        }
        quad<T> a = *(const quad<T> *)(x + i), b = *(const quad<T> *)(y + i);
#pragma unroll
        for (int k = 0; k < 4; k++)
            see(wide(a.x[k]), wide(b.x[k]));
    });
}

/* y = see(x, z), element by element. */
template <class T, class SEE>
static __device__ __forceinline__ void write_plane(const T *x, const T *z, T *y, int64_t plane,
                                                   int64_t pixels, SEE see)
{
    over_plane(plane, pixels, [&](int64_t i, bool four) {
        if (!four) {
            y[i] = narrow<T>(see(wide(x[i]), wide(z[i])));
            return;
        }
        quad<T> a = *(const quad<T> *)(x + i), b = *(const quad<T> *)(z + i);
#pragma unroll
        for (int k = 0; k < 4; k++)
            a.x[k] = narrow<T>(see(wide(a.x[k]), wide(b.x[k])));
        *(quad<T> *)(y + i) = a;
    });
}

/* Calls `see(plane)` for the planes of channel blockIdx.x in part blockIdx.y. */
template <class SEE>
static __device__ __forceinline__ void over_part(const norm_shape &n, SEE see)
{
    int64_t first = blockIdx.y * n.each, end = first + n.each < n.samples ? first + n.each : n.samples;
    for (int64_t sample = first; sample < end; sample++)
        see(sample * n.channels + blockIdx.x);
}

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
    over_part(n, [&](int64_t plane) {
        over_pairs(x, x, plane, n.pixels, [&](float at, float) { sum += at; });
    });
    sum = block_sum(sum);
    float mean = sum / part_count(n, blockIdx.y);
    over_part(n, [&](int64_t plane) {
        over_pairs(x, x, plane, n.pixels,
                   [&](float at, float) { squares += (at - mean) * (at - mean); });
    });
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

/* rate: kept; squares: of each channel, and the number of addends. A block for each plane. */
template <class T>
__device__ void batch_norm_forward(const T *x, const T *gain, const T *bias, const float *mean,
                                   const float *squares, norm_shape n, float *rate, T *y)
{
    int64_t c = blockIdx.x % n.channels;
    float r = 1.0F / sqrtf(squares[c] / squares[n.channels] + EPSILON);
    float centre = mean[c], by = r * wide(gain[c]), add = wide(bias[c]);
    write_plane(x, x, y, blockIdx.x, n.pixels,
                [&](float at, float) { return (at - centre) * by + add; });
    if (threadIdx.x == 0 && blockIdx.x < n.channels)
        rate[c] = r;
}
#define BATCH_NORM_FORWARD(T)                                                                      \
    (const T *x, const T *gain, const T *bias, const float *mean, const float *squares,            \
     norm_shape n, float *rate, T *y)
BOTH(batch_norm_forward, BATCH_NORM_FORWARD, (x, gain, bias, mean, squares, n, rate, y))

/* Sums of dy n and, after those of all channels, of dy: (part, channel) each. */
template <class T>
__device__ void batch_norm_gradients(const T *x, const T *dy, const float *mean, const float *rate,
                                     norm_shape n, float *part)
{
    float centre = mean[blockIdx.x], along = 0, sum = 0;
    over_part(n, [&](int64_t plane) {
        over_pairs(x, dy, plane, n.pixels, [&](float at, float d) {
            along += d * (at - centre);
            sum += d;
        });
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

/* sums: of dy n and of dy for every channel, and the number of addends. A block for each plane. */
template <class T>
__device__ void batch_norm_input(const T *x, const T *dy, const T *gain, const float *mean,
                                 const float *rate, const float *sums, norm_shape n, T *dx)
{
    int64_t c = blockIdx.x % n.channels;
    float count = sums[2 * n.channels], centre = mean[c], by = wide(gain[c]) * rate[c];
    float along = sums[c] / count * rate[c], shift = sums[n.channels + c] / count;
    write_plane(x, dy, dx, blockIdx.x, n.pixels, [&](float at, float d) {
        return by * (d - shift - (at - centre) * along);
    });
}
#define BATCH_NORM_INPUT(T)                                                                        \
    (const T *x, const T *dy, const T *gain, const float *mean, const float *rate,                 \
     const float *sums, norm_shape n, T *dx)
BOTH(batch_norm_input, BATCH_NORM_INPUT, (x, dy, gain, mean, rate, sums, n, dx))

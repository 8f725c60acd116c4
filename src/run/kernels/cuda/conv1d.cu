/* conv1d.cu - a causal depthwise convolution over a sequence with SiLU, and the gated norm (kernels/cpu/conv1d.c, 1 to 6). */
#include "columns.cuh"

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* ---- convolution ------------------------------------------------------------------------------ */

/* Local sizes. */
struct conv1d {
    int64_t rows, seq, features, taps; /* rows: of all samples */
};

/* A thread has one feature of STRIP positions that follow each other: what a position reads the next ones read, too.
 * Grid: strips of all samples, features. */
enum { STRIP = 16, USUAL_TAPS = 4 };

struct strip {
    int64_t feature, begin; /* begin: of the sample, in rows */
    int first, end;         /* positions */
};

static __device__ __forceinline__ strip own_strip(const conv1d &c)
{
    int strips = (int)((c.seq + STRIP - 1) / STRIP), sample = blockIdx.x / strips;
    int first = blockIdx.x % strips * STRIP, end = first + STRIP;
    return {(int64_t)blockIdx.y * blockDim.x + threadIdx.x, (int64_t)sample * c.seq, first,
            end < (int)c.seq ? end : (int)c.seq};
}

/* What a feature is multiplied with; TAPS of them are held, of another number (0) none. */
template <class T, int TAPS> struct taps_of {
    float held[TAPS ? TAPS : 1];
    const T *all;
    __device__ __forceinline__ taps_of(const T *weight, int taps, int64_t f) : all(weight + f * taps)
    {
#pragma unroll
        for (int k = 0; k < TAPS; k++)
            held[k] = wide(all[k]);
    }
    __device__ __forceinline__ float at(int k) const
    {
        return TAPS ? held[TAPS ? k : 0] : wide(all[k]);
    }
};

template <int TAPS, class T>
static __device__ __forceinline__ void forward_strip(const T *x, const T *weight, const T *bias, T *y, float *slope,
                                                     const conv1d &c)
{
    const int taps = TAPS ? TAPS : (int)c.taps;
    strip own = own_strip(c);
    if (own.feature >= c.features)
        return;
    taps_of<T, TAPS> weights(weight, taps, own.feature);
    float begin = bias ? wide(bias[own.feature]) : 0;
    int64_t at = own.begin * c.features + own.feature;
#pragma unroll 4
    for (int t = own.first; t < own.end; t++) {
        float z = begin;
#pragma unroll
        for (int k = 0; k < taps; k++)
            if (t - taps + 1 + k >= 0)
                z += weights.at(k) * wide(x[at + (t - taps + 1 + k) * c.features]);
        float s = sigmoid(z);
        y[at + t * c.features] = narrow<T>(z * s);
        slope[at + t * c.features] = s * (1 + z * (1 - s));
    }
}

template <class T>
__device__ void conv1d_forward(const T *x, const T *weight, const T *bias, T *y, float *slope,
                               const conv1d &c)
{
    if (c.taps == USUAL_TAPS)
        forward_strip<USUAL_TAPS>(x, weight, bias, y, slope, c);
    else
        forward_strip<0>(x, weight, bias, y, slope, c);
}
#define CONV1D_FORWARD(T)                                                                          \
    (const T *x, const T *weight, const T *bias, T *y, float *slope, conv1d c)
BOTH(conv1d_forward, CONV1D_FORWARD, (x, weight, bias, y, slope, c))

template <int TAPS, class T>
static __device__ __forceinline__ void input_strip(const T *dy, const float *slope, const T *weight, T *dx, const conv1d &c)
{
    const int taps = TAPS ? TAPS : (int)c.taps;
    strip own = own_strip(c);
    if (own.feature >= c.features)
        return;
    taps_of<T, TAPS> weights(weight, taps, own.feature);
    int64_t at = own.begin * c.features + own.feature;
#pragma unroll 4
    for (int t = own.first; t < own.end; t++) {
        float sum = 0;
#pragma unroll
        for (int ahead = 0; ahead < taps; ahead++) {
            int64_t from = at + (t + ahead) * c.features;
            if (t + ahead < (int)c.seq)
                sum += weights.at(taps - 1 - ahead) * wide(dy[from]) * slope[from];
        }
        dx[at + t * c.features] = narrow<T>(sum);
    }
}

template <class T>
__device__ void conv1d_input(const T *dy, const float *slope, const T *weight, T *dx, const conv1d &c)
{
    if (c.taps == USUAL_TAPS)
        input_strip<USUAL_TAPS>(dy, slope, weight, dx, c);
    else
        input_strip<0>(dy, slope, weight, dx, c);
}
#define CONV1D_INPUT(T) (const T *dy, const float *slope, const T *weight, T *dx, conv1d c)
BOTH(conv1d_input, CONV1D_INPUT, (dy, slope, weight, dx, c))

/* Gradients of USUAL_TAPS taps from blockIdx.z times as many on, and of the bias, from `each` rows: (part, feature, tap), and
 * after all of those (part, feature). */
template <class T>
__device__ void conv1d_parts(const T *x, const T *dy, const float *slope, const conv1d &c,
                             int64_t each, float *part)
{
    int64_t f = own_column(1), first = blockIdx.y * each, end = first + each < c.rows ? first + each : c.rows;
    int taps = (int)c.taps, begin = blockIdx.z * USUAL_TAPS;
    float sum[USUAL_TAPS + 1] = {}; /* the last: of the bias */
#pragma unroll 2
    for (int64_t row = first + own_phase(); row < end; row += PHASES) {
        if (f >= c.features)
            break;
        int64_t at = row * c.features + f;
        int t = (int)((uint64_t)row <= UINT32_MAX ? (uint32_t)row % (uint32_t)c.seq : row % c.seq);
        float dz = wide(dy[at]) * slope[at];
        sum[USUAL_TAPS] += dz;
#pragma unroll
        for (int k = 0; k < USUAL_TAPS; k++) {
            int back = taps - 1 - begin - k;
            if (back >= 0 && t >= back)
                sum[k] += dz * wide(x[at - back * c.features]);
        }
    }
    phase_sums(sum);
    if (own_phase() || f >= c.features)
        return;
#pragma unroll
    for (int k = 0; k < USUAL_TAPS; k++)
        if (begin + k < taps)
            part[(blockIdx.y * c.features + f) * taps + begin + k] = sum[k];
    if (blockIdx.z == 0)
        part[(gridDim.y * taps + blockIdx.y) * c.features + f] = sum[USUAL_TAPS];
}
#define CONV1D_PARTS(T)                                                                            \
    (const T *x, const T *dy, const float *slope, conv1d c, int64_t each, float *part)
BOTH(conv1d_parts, CONV1D_PARTS, (x, dy, slope, c, each, part))

/* ---- gated norm ------------------------------------------------------------------------------- */

/* A block for each group of a position; `rate` is kept. */
template <class T>
__device__ void gated_norm_forward(const T *x, const T *z, const T *gain, T *y, float *rate,
                                   int64_t groups, int64_t width, float epsilon)
{
    int64_t at = blockIdx.x * width;
    const T *own = gain + blockIdx.x % groups * width;
    float squares = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float gate = wide(z[at + i]), v = wide(x[at + i]) * gate * sigmoid(gate);
        squares += v * v;
    }
    float r = 1 / sqrtf(block_sum(squares) / (float)width + epsilon);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float gate = wide(z[at + i]), v = wide(x[at + i]) * gate * sigmoid(gate);
        y[at + i] = narrow<T>(wide(own[i]) * v * r);
    }
    if (threadIdx.x == 0)
        rate[blockIdx.x] = r;
}
#define GATED_NORM_FORWARD(T)                                                                      \
    (const T *x, const T *z, const T *gain, T *y, float *rate, int64_t groups, int64_t width,      \
     float epsilon)
BOTH(gated_norm_forward, GATED_NORM_FORWARD, (x, z, gain, y, rate, groups, width, epsilon))

/* Gradients that are not wanted are NULL. */
template <class T>
__device__ void gated_norm_input(const T *x, const T *z, const T *gain, const T *dy,
                                 const float *rate, T *dx, T *dz, int64_t groups, int64_t width)
{
    int64_t at = blockIdx.x * width;
    const T *own = gain + blockIdx.x % groups * width;
    float r = rate[blockIdx.x], along = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float gate = wide(z[at + i]), v = wide(x[at + i]) * gate * sigmoid(gate);
        along += wide(own[i]) * wide(dy[at + i]) * v;
    }
    float pull = r * r * block_sum(along) / (float)width;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float gate = wide(z[at + i]), s = sigmoid(gate), in = wide(x[at + i]);
        float dv = r * (wide(own[i]) * wide(dy[at + i]) - in * gate * s * pull);
        if (dx)
            dx[at + i] = narrow<T>(dv * gate * s);
        if (dz)
            dz[at + i] = narrow<T>(dv * in * s * (1 + gate * (1 - s)));
    }
}
#define GATED_NORM_INPUT(T)                                                                        \
    (const T *x, const T *z, const T *gain, const T *dy, const float *rate, T *dx, T *dz,          \
     int64_t groups, int64_t width)
BOTH(gated_norm_input, GATED_NORM_INPUT, (x, z, gain, dy, rate, dx, dz, groups, width))

/* Gradients of the gain from `each` positions: (part, group and feature). */
template <class T>
__device__ void gated_norm_parts(const T *x, const T *z, const T *dy, const float *rate,
                                 int64_t positions, int64_t groups, int64_t width, int64_t each,
                                 float *part)
{
    int64_t f = own_column(1), features = groups * width;
    int64_t first = blockIdx.y * each, end = first + each < positions ? first + each : positions;
    float sum = sum_of_rows(f < features, first, end, [&](int64_t row) {
        float gate = wide(z[row * features + f]), in = wide(x[row * features + f]);
        return wide(dy[row * features + f]) * in * gate * sigmoid(gate) * rate[row * groups + f / width];
    });
    if (own_phase() == 0 && f < features)
        part[blockIdx.y * features + f] = sum;
}
#define GATED_NORM_PARTS(T)                                                                        \
    (const T *x, const T *z, const T *dy, const float *rate, int64_t positions, int64_t groups,    \
     int64_t width, int64_t each, float *part)
BOTH(gated_norm_parts, GATED_NORM_PARTS, (x, z, dy, rate, positions, groups, width, each, part))

/* conv1d.cu - a causal depthwise convolution over a sequence with SiLU, and the gated norm (kernels/cpu/conv1d.c, 1 to 6). */
#include "../../device/cuda/elements.cuh"

static __device__ const float EPSILON = 1e-5F;
enum { LANES = 32, PHASES = 8 }; /* threads along features, and along rows */

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* ---- convolution ------------------------------------------------------------------------------ */

/* Local sizes. */
struct conv1d {
    int64_t rows, seq, features, taps; /* rows: of all samples */
};

template <class T>
__device__ void conv1d_forward(const T *x, const T *weight, const T *bias, T *y, float *slope,
                               const conv1d &c)
{
    for (int64_t i = thread_index(); i < c.rows * c.features; i += thread_count()) {
        int64_t row = i / c.features, f = i - row * c.features, t = row % c.seq;
        float z = bias ? wide(bias[f]) : 0;
        for (int64_t k = c.taps - 1, from = t; k >= 0 && from >= 0; k--, from--)
            z += wide(weight[f * c.taps + k]) * wide(x[i - (t - from) * c.features]);
        float s = sigmoid(z);
        y[i] = narrow<T>(z * s);
        slope[i] = s * (1 + z * (1 - s));
    }
}
#define CONV1D_FORWARD(T)                                                                          \
    (const T *x, const T *weight, const T *bias, T *y, float *slope, conv1d c)
BOTH(conv1d_forward, CONV1D_FORWARD, (x, weight, bias, y, slope, c))

template <class T>
__device__ void conv1d_input(const T *dy, const float *slope, const T *weight, T *dx, const conv1d &c)
{
    for (int64_t i = thread_index(); i < c.rows * c.features; i += thread_count()) {
        int64_t row = i / c.features, f = i - row * c.features, t = row % c.seq;
        float sum = 0;
        for (int64_t ahead = 0; ahead < c.taps && t + ahead < c.seq; ahead++) {
            int64_t at = i + ahead * c.features;
            sum += wide(weight[f * c.taps + c.taps - 1 - ahead]) * wide(dy[at]) * slope[at];
        }
        dx[i] = narrow<T>(sum);
    }
}
#define CONV1D_INPUT(T) (const T *dy, const float *slope, const T *weight, T *dx, conv1d c)
BOTH(conv1d_input, CONV1D_INPUT, (dy, slope, weight, dx, c))

/* A block's rows summed over its phases; the threads of the first phase have them. */
static __device__ __forceinline__ float phase_sum(float x)
{
    __shared__ float shared[PHASES][LANES];
    int lane = threadIdx.x % LANES, phase = threadIdx.x / LANES;
    shared[phase][lane] = x;
    __syncthreads();
    for (int i = 1; phase == 0 && i < PHASES; i++)
        x += shared[i][lane];
    return x;
}

/* Gradients of tap blockIdx.z, and after the last one of the bias, from `each` rows: (part, feature, tap), and after all of
 * those (part, feature). */
template <class T>
__device__ void conv1d_parts(const T *x, const T *dy, const float *slope, const conv1d &c,
                             int64_t each, float *part)
{
    int64_t f = (int64_t)blockIdx.x * LANES + threadIdx.x % LANES, k = blockIdx.z;
    int64_t first = blockIdx.y * each, end = first + each < c.rows ? first + each : c.rows;
    float sum = 0;
    for (int64_t row = first + threadIdx.x / LANES; f < c.features && row < end; row += PHASES) {
        int64_t at = row * c.features + f, back = c.taps - 1 - k;
        float dz = wide(dy[at]) * slope[at];
        if (k == c.taps)
            sum += dz;
        else if (row % c.seq >= back)
            sum += dz * wide(x[at - back * c.features]);
    }
    sum = phase_sum(sum);
    if (threadIdx.x >= LANES || f >= c.features)
        return;
    if (k < c.taps)
        part[(blockIdx.y * c.features + f) * c.taps + k] = sum;
    else
        part[(gridDim.y * c.taps + blockIdx.y) * c.features + f] = sum;
}
#define CONV1D_PARTS(T)                                                                            \
    (const T *x, const T *dy, const float *slope, conv1d c, int64_t each, float *part)
BOTH(conv1d_parts, CONV1D_PARTS, (x, dy, slope, c, each, part))

/* ---- gated norm ------------------------------------------------------------------------------- */

/* A block for each group of a position; `rate` is kept. */
template <class T>
__device__ void gated_norm_forward(const T *x, const T *z, const T *gain, T *y, float *rate,
                                   int64_t groups, int64_t width)
{
    int64_t at = blockIdx.x * width;
    const T *own = gain + blockIdx.x % groups * width;
    float squares = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float gate = wide(z[at + i]), v = wide(x[at + i]) * gate * sigmoid(gate);
        squares += v * v;
    }
    float r = 1 / sqrtf(block_sum(squares) / (float)width + EPSILON);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float gate = wide(z[at + i]), v = wide(x[at + i]) * gate * sigmoid(gate);
        y[at + i] = narrow<T>(wide(own[i]) * v * r);
    }
    if (threadIdx.x == 0)
        rate[blockIdx.x] = r;
}
#define GATED_NORM_FORWARD(T)                                                                      \
    (const T *x, const T *z, const T *gain, T *y, float *rate, int64_t groups, int64_t width)
BOTH(gated_norm_forward, GATED_NORM_FORWARD, (x, z, gain, y, rate, groups, width))

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
    int64_t f = (int64_t)blockIdx.x * LANES + threadIdx.x % LANES, features = groups * width;
    int64_t first = blockIdx.y * each, end = first + each < positions ? first + each : positions;
    float sum = 0;
    for (int64_t row = first + threadIdx.x / LANES; f < features && row < end; row += PHASES) {
        float gate = wide(z[row * features + f]), in = wide(x[row * features + f]);
        sum += wide(dy[row * features + f]) * in * gate * sigmoid(gate) *
               rate[row * groups + f / width];
    }
    sum = phase_sum(sum);
    if (threadIdx.x < LANES && f < features)
        part[blockIdx.y * features + f] = sum;
}
#define GATED_NORM_PARTS(T)                                                                        \
    (const T *x, const T *z, const T *dy, const float *rate, int64_t positions, int64_t groups,    \
     int64_t width, int64_t each, float *part)
BOTH(gated_norm_parts, GATED_NORM_PARTS, (x, z, dy, rate, positions, groups, width, each, part))

/* pointwise.cu - kinds that treat elements alike (kernels/cpu/pointwise.c), rotary positions
 * (kernels/cpu/rotary.c) and the optimizers' steps (kernels/cpu/optimizer.c). */
#include "../../device/cuda/elements.cuh"

/* ---- activations and gates ------------------------------------------------------------------- */

#define GELU_LINEAR 1.5957691216F
#define GELU_CUBIC  0.0713548163F
#define CLAMPED_LIMIT 7.0F
#define CLAMPED_STEEP 1.702F

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0F / (1.0F + __expf(-x));
}

/* In the order of the host's numbers (pointwise.c). */
enum { FORM_GELU, FORM_RELU, FORM_RELU2, FORM_SILU, FORM_SIGMOID, FORM_CLAMPED };

struct point {
    float value, slope;
};

static __device__ __forceinline__ point form_at(int form, float a)
{
    switch (form) {
    case FORM_GELU: {
        float s = sigmoid(a * (GELU_LINEAR + GELU_CUBIC * a * a));
        return {a * s, s * (1 + a * (GELU_LINEAR + 3 * GELU_CUBIC * a * a) * (1 - s))};
    }
    case FORM_RELU:
        return {a < 0 ? 0 : a, a > 0 ? 1.0F : 0.0F};
    case FORM_RELU2:
        return {a < 0 ? 0 : a * a, a > 0 ? 2 * a : 0};
    case FORM_SILU: {
        float s = sigmoid(a);
        return {a * s, s * (1 + a * (1 - s))};
    }
    case FORM_SIGMOID: {
        float s = sigmoid(a);
        return {s, s * (1 - s)};
    }
    default: {
        float c = a > CLAMPED_LIMIT ? CLAMPED_LIMIT : a, s = sigmoid(CLAMPED_STEEP * c);
        return {c * s, a > CLAMPED_LIMIT ? 0 : s * (1 + CLAMPED_STEEP * c * (1 - s))};
    }
    }
}

/* What a gate is multiplied by. */
static __device__ __forceinline__ point up_at(int form, float b)
{
    if (form != FORM_CLAMPED)
        return {b, 1};
    float low = fmaxf(b, -CLAMPED_LIMIT);
    bool within = b >= -CLAMPED_LIMIT && b <= CLAMPED_LIMIT;
    return {1 + fminf(low, CLAMPED_LIMIT), within ? 1.0F : 0.0F};
}

template <class T> __device__ void activation_forward(const T *x, T *y, int64_t count, int form)
{
    const int EACH = wide_pack<T>::COUNT;
    for (int64_t i = thread_index() * EACH; i + EACH <= count; i += thread_count() * EACH) {
        wide_pack<T> pack = load_pack(x + i);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            pack.x[k] = form_at(form, pack.x[k]).value;
        store_pack(y + i, pack);
    }
    for (int64_t i = count / EACH * EACH + thread_index(); i < count; i += thread_count())
        y[i] = narrow<T>(form_at(form, wide(x[i])).value);
}
#define ACTIVATION_FORWARD(T) (const T *x, T *y, int64_t count, int form)
BOTH(activation_forward, ACTIVATION_FORWARD, (x, y, count, form))

/* `seen`: the input; of a ReLU the output, positive where the input was. */
template <class T>
__device__ void activation_input(const T *seen, const T *dy, T *dx, int64_t count, int form)
{
    const int EACH = wide_pack<T>::COUNT;
    for (int64_t i = thread_index() * EACH; i + EACH <= count; i += thread_count() * EACH) {
        wide_pack<T> pack = load_pack(seen + i), slope = load_pack(dy + i);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            pack.x[k] = form_at(form, pack.x[k]).slope * slope.x[k];
        store_pack(dx + i, pack);
    }
    for (int64_t i = count / EACH * EACH + thread_index(); i < count; i += thread_count())
        dx[i] = narrow<T>(form_at(form, wide(seen[i])).slope * wide(dy[i]));
}
#define ACTIVATION_INPUT(T) (const T *seen, const T *dy, T *dx, int64_t count, int form)
BOTH(activation_input, ACTIVATION_INPUT, (seen, dy, dx, count, form))

/* Gates and ups of COUNT outputs: side by side in one tensor (step 2), or of two. */
template <class T> struct pairs {
    wide_pack<T> gate, up;
};

template <class T>
static __device__ __forceinline__ pairs<T> load_pairs(const T *gate, const T *up, int64_t i,
                                                      int step)
{
    const int EACH = wide_pack<T>::COUNT;
    if (step == 1)
        return {load_pack(gate + i), load_pack(up + i)};
    wide_pack<T> low = load_pack(gate + 2 * i), high = load_pack(gate + 2 * i + EACH);
    pairs<T> out;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        out.gate.x[k] = 2 * k < EACH ? low.x[2 * k % EACH] : high.x[2 * k % EACH];
        out.up.x[k] = 2 * k < EACH ? low.x[(2 * k + 1) % EACH] : high.x[(2 * k + 1) % EACH];
    }
    return out;
}

template <class T>
static __device__ __forceinline__ void store_pairs(T *gate, T *up, int64_t i, int step,
                                                   const pairs<T> &p)
{
    const int EACH = wide_pack<T>::COUNT;
    if (step == 1) {
        if (gate)
            store_pack(gate + i, p.gate);
        if (up)
            store_pack(up + i, p.up);
        return;
    }
    wide_pack<T> low, high;
#pragma unroll
    for (int k = 0; k < EACH / 2; k++) {
        low.x[2 * k] = p.gate.x[k];
        low.x[2 * k + 1] = p.up.x[k];
        high.x[2 * k] = p.gate.x[k + EACH / 2];
        high.x[2 * k + 1] = p.up.x[k + EACH / 2];
    }
    store_pack(gate + 2 * i, low);
    store_pack(gate + 2 * i + EACH, high);
}

template <class T>
__device__ void gated_forward(const T *gate, const T *up, T *y, int64_t count, int form, int step)
{
    const int EACH = wide_pack<T>::COUNT;
    for (int64_t i = thread_index() * EACH; i + EACH <= count; i += thread_count() * EACH) {
        pairs<T> p = load_pairs(gate, up, i, step);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            p.gate.x[k] = form_at(form, p.gate.x[k]).value * up_at(form, p.up.x[k]).value;
        store_pack(y + i, p.gate);
    }
    for (int64_t i = count / EACH * EACH + thread_index(); i < count; i += thread_count())
        y[i] = narrow<T>(form_at(form, wide(gate[i * step])).value *
                         up_at(form, wide(up[i * step])).value);
}
#define GATED_FORWARD(T) (const T *gate, const T *up, T *y, int64_t count, int form, int step)
BOTH(gated_forward, GATED_FORWARD, (gate, up, y, count, form, step))

template <class T>
__device__ void gated_input(const T *gate, const T *up, const T *dy, T *dgate, T *dup,
                            int64_t count, int form, int step)
{
    const int EACH = wide_pack<T>::COUNT;
    for (int64_t i = thread_index() * EACH; i + EACH <= count; i += thread_count() * EACH) {
        pairs<T> p = load_pairs(gate, up, i, step);
        wide_pack<T> d = load_pack(dy + i);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            point a = form_at(form, p.gate.x[k]), b = up_at(form, p.up.x[k]);
            p.gate.x[k] = d.x[k] * b.value * a.slope;
            p.up.x[k] = d.x[k] * a.value * b.slope;
        }
        if (dgate || step == 1)
            store_pairs(dgate, dup, i, step, p);
    }
    for (int64_t i = count / EACH * EACH + thread_index(); i < count; i += thread_count()) {
        point a = form_at(form, wide(gate[i * step])), b = up_at(form, wide(up[i * step]));
        float d = wide(dy[i]);
        if (dgate)
            dgate[i * step] = narrow<T>(d * b.value * a.slope);
        if (dup)
            dup[i * step] = narrow<T>(d * a.value * b.slope);
    }
}
#define GATED_INPUT(T)                                                                             \
    (const T *gate, const T *up, const T *dy, T *dgate, T *dup, int64_t count, int form, int step)
BOTH(gated_input, GATED_INPUT, (gate, up, dy, dgate, dup, count, form, step))

/* One number for all features of a token (kernels/cpu/pointwise.c): a block for each. */
template <class T>
__device__ void token_gate_forward(const T *score, const T *up, T *y, int64_t width)
{
    int64_t row = blockIdx.x;
    float scale = sigmoid(wide(score[row]));
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
        y[row * width + i] = narrow<T>(scale * wide(up[row * width + i]));
}
#define TOKEN_GATE_FORWARD(T) (const T *score, const T *up, T *y, int64_t width)
BOTH(token_gate_forward, TOKEN_GATE_FORWARD, (score, up, y, width))

/* Either gradient may be unwanted. */
template <class T>
__device__ void token_gate_input(const T *score, const T *up, const T *dy, T *dscore, T *dup,
                                 int64_t width)
{
    int64_t row = blockIdx.x;
    point gate = form_at(FORM_SIGMOID, wide(score[row]));
    float sum = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float d = wide(dy[row * width + i]);
        sum += d * wide(up[row * width + i]);
        if (dup)
            dup[row * width + i] = narrow<T>(gate.value * d);
    }
    sum = block_sum(sum);
    if (dscore && threadIdx.x == 0)
        dscore[row] = narrow<T>(gate.slope * sum);
}
#define TOKEN_GATE_INPUT(T)                                                                        \
    (const T *score, const T *up, const T *dy, T *dscore, T *dup, int64_t width)
BOTH(token_gate_input, TOKEN_GATE_INPUT, (score, up, dy, dscore, dup, width))

/* ---- where elements are ---------------------------------------------------------------------- */

/* Rows along the last axis, of a part of a whole tensor. */
struct places {
    int64_t axes, size[8], begin[8], whole[8];
};

/* The number of a row in the whole, counted from axis `outermost` on. */
static __device__ __forceinline__ int64_t row_in_whole(const places &p, int64_t row,
                                                       int64_t outermost)
{
    int64_t index = 0, stride = 1;
    for (int64_t i = p.axes - 2; i >= outermost; i--) {
        index += (p.begin[i] + row % p.size[i]) * stride;
        row /= p.size[i];
        stride *= p.whole[i];
    }
    return index;
}

/* ---- dropout --------------------------------------------------------------------------------- */

template <class T>
__device__ void dropout_forward(const T *x, const T *residual, T *y, uint8_t *mask, places p,
                                int64_t count, uint64_t seed, uint32_t dropped, float scale)
{
    int64_t columns = p.size[p.axes - 1];
    uint32_t first = (uint32_t)p.begin[p.axes - 1];
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        uint32_t key = (uint32_t)(hash_number(row_in_whole(p, i / columns, 0), seed) >> 16);
        uint32_t h = key ^ ((first + (uint32_t)(i % columns)) * 0x9e3779b1U);
        h = (h ^ (h >> 16)) * 0x85ebca6bU;
        h = (h ^ (h >> 13)) * 0xc2b2ae35U;
        h ^= h >> 16;
        uint8_t kept = (h >> 8) >= dropped;
        mask[i] = kept;
        float out = wide(x[i]) * ((float)kept * scale);
        y[i] = narrow<T>(residual ? out + wide(residual[i]) : out);
    }
}
#define DROPOUT_FORWARD(T)                                                                         \
    (const T *x, const T *residual, T *y, uint8_t *mask, places p, int64_t count, uint64_t seed,   \
     uint32_t dropped, float scale)
BOTH(dropout_forward, DROPOUT_FORWARD, (x, residual, y, mask, p, count, seed, dropped, scale))

template <class T>
__device__ void dropout_input(const T *dy, const uint8_t *mask, T *dx, int64_t count, float scale)
{
    for (int64_t i = thread_index(); i < count; i += thread_count())
        dx[i] = narrow<T>(wide(dy[i]) * ((float)mask[i] * scale));
}
#define DROPOUT_INPUT(T) (const T *dy, const uint8_t *mask, T *dx, int64_t count, float scale)
BOTH(dropout_input, DROPOUT_INPUT, (dy, mask, dx, count, scale))

/* ---- sums ------------------------------------------------------------------------------------ */

template <class T> __device__ void sum_of_two(const T *x, const T *y, T *z, int64_t count)
{
    const int EACH = wide_pack<T>::COUNT;
    for (int64_t i = thread_index() * EACH; i + EACH <= count; i += thread_count() * EACH) {
        wide_pack<T> a = load_pack(x + i), b = load_pack(y + i);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            a.x[k] += b.x[k];
        store_pack(z + i, a);
    }
    for (int64_t i = count / EACH * EACH + thread_index(); i < count; i += thread_count())
        z[i] = narrow<T>(wide(x[i]) + wide(y[i]));
}
#define SUM_OF_TWO(T) (const T *x, const T *y, T *z, int64_t count)
BOTH(sum_of_two, SUM_OF_TWO, (x, y, z, count))

/* tanh(gate) x, plus y if there is one. */
template <class T>
__device__ void gated_sum(const T *x, const T *gate, const T *y, T *z, int64_t count)
{
    const int EACH = wide_pack<T>::COUNT;
    float scale = tanhf(wide(*gate));
    for (int64_t i = thread_index() * EACH; i + EACH <= count; i += thread_count() * EACH) {
        wide_pack<T> a = load_pack(x + i), b = {};
        if (y)
            b = load_pack(y + i);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            a.x[k] = scale * a.x[k] + b.x[k];
        store_pack(z + i, a);
    }
    for (int64_t i = count / EACH * EACH + thread_index(); i < count; i += thread_count())
        z[i] = narrow<T>(scale * wide(x[i]) + (y ? wide(y[i]) : 0));
}
#define GATED_SUM(T) (const T *x, const T *gate, const T *y, T *z, int64_t count)
BOTH(gated_sum, GATED_SUM, (x, gate, y, z, count))

/* A block's part of the sum of x dy. */
template <class T> __device__ void gate_parts(const T *x, const T *dy, int64_t count, double *part)
{
    const int EACH = wide_pack<T>::COUNT;
    double sum = 0;
    for (int64_t i = thread_index() * EACH; i + EACH <= count; i += thread_count() * EACH) {
        wide_pack<T> a = load_pack(x + i), b = load_pack(dy + i);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            sum += (double)a.x[k] * (double)b.x[k];
    }
    for (int64_t i = count / EACH * EACH + thread_index(); i < count; i += thread_count())
        sum += (double)wide(x[i]) * (double)wide(dy[i]);
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}
#define GATE_PARTS(T) (const T *x, const T *dy, int64_t count, double *part)
BOTH(gate_parts, GATE_PARTS, (x, dy, count, part))

/* One block: d tanh(g) = 1 - tanh(g)^2, times the sum of the parts. */
template <class T>
__device__ void gate_gradient(const double *part, int64_t parts, const T *gate, float *gradient)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < parts; i += blockDim.x)
        sum += part[i];
    sum = block_sum_double(sum);
    float scale = tanhf(wide(*gate));
    if (threadIdx.x == 0)
        *gradient += (1 - scale * scale) * (float)sum;
}
#define GATE_GRADIENT(T) (const double *part, int64_t parts, const T *gate, float *gradient)
BOTH(gate_gradient, GATE_GRADIENT, (part, parts, gate, gradient))

/* Which row of a weight of so many rows a local one takes: it may occur several times in a sample (kernels/cpu/sums.c, I1). */
static __device__ __forceinline__ int64_t weight_row(const places &p, int64_t row, int64_t rows)
{
    return row_in_whole(p, row, 1) % rows;
}

template <class T>
__device__ void add_weight_forward(const T *x, const T *w, T *z, places p, int64_t count,
                                   int64_t weight_rows)
{
    int64_t last = p.axes - 1, columns = p.size[last];
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        int64_t at = weight_row(p, i / columns, weight_rows) * p.whole[last] + p.begin[last];
        z[i] = narrow<T>(wide(x[i]) + wide(w[at + i % columns]));
    }
}
#define ADD_WEIGHT_FORWARD(T)                                                                      \
    (const T *x, const T *w, T *z, places p, int64_t count, int64_t weight_rows)
BOTH(add_weight_forward, ADD_WEIGHT_FORWARD, (x, w, z, p, count, weight_rows))

/* A thread for each element of a sample: the first of those that share a number of the weight sums over all of them, in all
 * samples. Rows that share one are multiples of `apart` apart. */
template <class T>
__device__ void add_weight_gradient(const T *dy, float *gradient, places p, int64_t sample,
                                    int64_t samples, int64_t weight_rows, int64_t apart)
{
    int64_t i = thread_index(), last = p.axes - 1, columns = p.size[last];
    if (i >= sample)
        return;
    int64_t first = i / columns, mine = weight_row(p, first, weight_rows);
    for (int64_t row = first - apart; row >= 0; row -= apart)
        if (weight_row(p, row, weight_rows) == mine)
            return;
    float sum = 0;
    for (int64_t row = first; row < sample / columns; row += apart)
        for (int64_t n = 0; weight_row(p, row, weight_rows) == mine && n < samples; n++)
            sum += wide(dy[n * sample + row * columns + i % columns]);
    gradient[mine * p.whole[last] + p.begin[last] + i % columns] += sum;
}
#define ADD_WEIGHT_GRADIENT(T)                                                                     \
    (const T *dy, float *gradient, places p, int64_t sample, int64_t samples, int64_t weight_rows, \
     int64_t apart)
BOTH(add_weight_gradient, ADD_WEIGHT_GRADIENT,
     (dy, gradient, p, sample, samples, weight_rows, apart))

/* ---- rotary positions ------------------------------------------------------------------------ */

/* cos and sin of every pair of a head at every position (kernels/cpu/rotary.c, (1) and (2)); scaling 0: not stretched. */
extern "C" __global__ void rotary_turns(float2 *turn, int64_t seq, int64_t first_position,
                                        int64_t depth, float base, float scaling, float learned,
                                        float fast)
{
    int64_t i = thread_index(), pairs = depth / 2;
    if (i >= seq * pairs)
        return;
    float rate = powf(base, -(float)(2 * (i % pairs)) / (float)depth);
    float turns = learned * rate / 6.283185307f;
    float share = fminf(fmaxf((turns - 1) / (fast - 1), 0.0f), 1.0f);
    if (scaling > 0)
        rate *= share + (1 - share) / scaling;
    float angle = (float)(first_position + i / pairs) * rate;
    turn[i] = make_float2(cosf(angle), sinf(angle));
}

/* A thread for each pair of features. */
template <class T>
__device__ void rotary(const T *x, T *y, const float2 *turn, int64_t count, uint32_t seq,
                       uint32_t width, uint32_t first_feature, uint32_t share,
                       uint32_t turned_features, uint32_t depth, float sign)
{
    for (int64_t i = thread_index() * 2; i < count; i += thread_count() * 2) {
        uint32_t row = (uint32_t)(i / width), feature = (uint32_t)(i % width);
        uint32_t in_share = (first_feature + feature) % share;
        float a = wide(x[i]), b = wide(x[i + 1]);
        if (in_share < turned_features) {
            float2 t = turn[row % seq * (depth / 2) + in_share % depth / 2];
            float was = a, s = sign * t.y;
            a = was * t.x - b * s;
            b = was * s + b * t.x;
        }
        y[i] = narrow<T>(a);
        y[i + 1] = narrow<T>(b);
    }
}
#define ROTARY(T)                                                                                  \
    (const T *x, T *y, const float2 *turn, int64_t count, uint32_t seq, uint32_t width,            \
     uint32_t first_feature, uint32_t share, uint32_t turned_features, uint32_t depth, float sign)
BOTH(rotary, ROTARY,
     (x, y, turn, count, seq, width, first_feature, share, turned_features, depth, sign))

/* ---- optimizers ------------------------------------------------------------------------------ */

struct step {
    float rate, momentum, beta1, beta2, epsilon, coupled, rest, scale, root;
};

template <class T>
__device__ void sgd(float *w, const float *gradient, float *m, T *stored, int64_t count, step s)
{
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        float g = s.scale * gradient[i] + s.coupled * w[i];
        if (m)
            m[i] = g = s.momentum * m[i] + g;
        w[i] -= s.rate * g;
        if (stored)
            stored[i] = narrow<T>(w[i]);
    }
}
#define SGD(T) (float *w, const float *gradient, float *m, T *stored, int64_t count, step s)
BOTH(sgd, SGD, (w, gradient, m, stored, count, s))

template <class T>
__device__ void adam(float *w, const float *gradient, float *m, float *v, T *stored, int64_t count,
                     step s)
{
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        float at = w[i], g = s.scale * gradient[i] + s.coupled * at;
        float first = s.beta1 * m[i] + (1 - s.beta1) * g;
        float second = s.beta2 * v[i] + (1 - s.beta2) * g * g;
        m[i] = first;
        v[i] = second;
        at = at * s.rest - s.rate * first / (sqrtf(second) * s.root + s.epsilon);
        w[i] = at;
        if (stored)
            stored[i] = narrow<T>(at);
    }
}
#define ADAM(T)                                                                                    \
    (float *w, const float *gradient, float *m, float *v, T *stored, int64_t count, step s)
BOTH(adam, ADAM, (w, gradient, m, v, stored, count, s))

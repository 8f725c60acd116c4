/* softmax.cu - softmax over the keys of plain attention (kernels/cpu/softmax.c, 1 and 2). */
#include "../../device/cuda/elements.cuh"
#include "softmax_bias.h"

/* ---- which number of a bias ------------------------------------------------------------------ */

static __device__ __forceinline__ int64_t bucket_at(const bias_shape &s, int64_t distance)
{
    return distance < BIAS_DISTANCES ? s.bucket[distance] : s.each - 1;
}

/* Of a key that a query sees; both by their places in the whole. */
static __device__ __forceinline__ int64_t entry_at(const bias_shape &s, int64_t query, int64_t key)
{
    if (s.side) {
        int64_t dy = key / s.side - query / s.side, dx = key % s.side - query % s.side;
        return (dy + s.side - 1) * (2 * s.side - 1) + dx + s.side - 1;
    }
    int64_t bucket = bucket_at(s, key > query ? key - query : query - key);
    return key > query && !s.causal && s.buckets > 1 ? bucket + s.buckets / 2 : bucket;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* p of `keys` numbers x(i), of which the first `seen` are seen, beside a sink; a block for each row. */
template <class T, class SCORE>
static __device__ __forceinline__ void softmax_row(T *out, int64_t keys, int64_t seen, float sink,
                                                   SCORE score)
{
    float most = -INFINITY, sum = 0;
    for (int64_t i = threadIdx.x; i < seen; i += blockDim.x)
        most = fmaxf(most, score(i));
    most = fmaxf(block_most(most), sink);
    float shift = most > -INFINITY ? most : 0;
    for (int64_t i = threadIdx.x; i < seen; i += blockDim.x)
        sum += __expf(score(i) - shift);
    sum = block_sum(sum) + __expf(sink - shift);
    float share = sum > 0 || isnan(sum) ? 1 / sum : 0;
    for (int64_t i = threadIdx.x; i < keys; i += blockDim.x)
        out[i] = narrow<T>(i < seen ? __expf(score(i) - shift) * share : 0);
}

/* sinks: one for each local head, or NULL. */
template <class T>
__device__ void softmax_forward(const T *x, const T *sinks, T *y, int64_t keys, int64_t seq,
                                int64_t heads, int64_t first, int causal)
{
    int64_t row = blockIdx.x, seen = causal ? first + row % seq + 1 : keys;
    const T *in = x + row * keys;
    float sink = sinks ? wide(sinks[row / seq % heads]) : -INFINITY;
    softmax_row(y + row * keys, keys, seen < keys ? seen : keys, sink,
                [&](int64_t i) { return wide(in[i]); });
}
#define SOFTMAX_FORWARD(T)                                                                         \
    (const T *x, const T *sinks, T *y, int64_t keys, int64_t seq, int64_t heads, int64_t first,    \
     int causal)
BOTH(softmax_forward, SOFTMAX_FORWARD, (x, sinks, y, keys, seq, heads, first, causal))

template <class T>
__device__ void softmax_biased(const T *x, const T *bias, T *y, const bias_shape &s)
{
    int64_t row = blockIdx.x, query = s.first_query + row % s.seq;
    int64_t head = (s.first_head + row / s.seq % s.local) % s.heads;
    int64_t seen = s.causal && query + 1 < s.keys ? query + 1 : s.keys;
    const T *in = x + row * s.keys;
    softmax_row(y + row * s.keys, s.keys, seen, -INFINITY, [&](int64_t i) {
        return wide(in[i]) + wide(bias[entry_at(s, query, i) * s.heads + head]);
    });
}
#define SOFTMAX_BIASED(T) (const T *x, const T *bias, T *y, bias_shape s)
BOTH(softmax_biased, SOFTMAX_BIASED, (x, bias, y, s))

/* ---- gradients ------------------------------------------------------------------------------- */

template <class T> __device__ void softmax_input(const T *p, const T *dy, T *dx, int64_t keys)
{
    int64_t at = blockIdx.x * keys;
    float dot = 0;
    for (int64_t i = threadIdx.x; i < keys; i += blockDim.x)
        dot += wide(p[at + i]) * wide(dy[at + i]);
    dot = block_sum(dot);
    for (int64_t i = threadIdx.x; i < keys; i += blockDim.x)
        dx[at + i] = narrow<T>(wide(p[at + i]) * (wide(dy[at + i]) - dot));
}
#define SOFTMAX_INPUT(T) (const T *p, const T *dy, T *dx, int64_t keys)
BOTH(softmax_input, SOFTMAX_INPUT, (p, dy, dx, keys))

/* Of every row the sum of p dy, and what a sink's gradient is of it, (2): a block for each row. */
template <class T>
__device__ void softmax_dots(const T *p, const T *dy, int64_t keys, float *dot, float *sink)
{
    int64_t at = blockIdx.x * keys;
    float along = 0, sum = 0;
    for (int64_t i = threadIdx.x; i < keys; i += blockDim.x) {
        along += wide(p[at + i]) * wide(dy[at + i]);
        sum += wide(p[at + i]);
    }
    along = block_sum(along);
    sum = block_sum(sum);
    if (threadIdx.x)
        return;
    if (dot)
        dot[blockIdx.x] = along;
    if (sink)
        sink[blockIdx.x] = -(1 - sum) * along;
}
#define SOFTMAX_DOTS(T) (const T *p, const T *dy, int64_t keys, float *dot, float *sink)
BOTH(softmax_dots, SOFTMAX_DOTS, (p, dy, keys, dot, sink))

/* A block for each local head: over all samples and queries. */
extern "C" __global__ void softmax_sinks(const float *row, int64_t batch, int64_t heads,
                                         int64_t seq, float *gradient)
{
    int64_t head = blockIdx.x;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < batch * seq; i += blockDim.x)
        sum += row[(i / seq * heads + head) * seq + i % seq];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        gradient[head] += sum;
}

/* Keys first .. end of a row. */
struct key_span {
    int64_t first, end;
};

static __device__ __forceinline__ key_span clipped(int64_t first, int64_t end, int64_t keys)
{
    return {first > 0 ? first : 0, end < keys ? end : keys};
}

/* The distances of a bucket of one direction. */
static __device__ key_span distances_of(const bias_shape &s, int64_t bucket)
{
    int64_t first = 0;
    while (first < BIAS_DISTANCES && s.bucket[first] < bucket)
        first++;
    int64_t end = first;
    while (end < BIAS_DISTANCES && s.bucket[end] == bucket)
        end++;
    if (bucket == s.each - 1) /* and all beyond */
        end = INT32_MAX;
    return {first, end};
}

/* Keys of a query that take an entry: `back` and `ahead` are the entry's distances. */
static __device__ __forceinline__ void spans_of(const bias_shape &s, int64_t entry, int64_t query,
                                                key_span back, key_span ahead, key_span out[2])
{
    out[0] = out[1] = {0, 0};
    if (!s.side) {
        out[0] = clipped(query - back.end + 1, query - back.first + 1, s.keys);
        out[1] = clipped(query + (ahead.first > 1 ? ahead.first : 1), query + ahead.end, s.keys);
        return;
    }
    int64_t wide = 2 * s.side - 1;
    int64_t y = query / s.side + entry / wide - (s.side - 1);
    int64_t x = query % s.side + entry % wide - (s.side - 1);
    if (y >= 0 && y < s.side && x >= 0 && x < s.side)
        out[0] = {y * s.side + x, y * s.side + x + 1};
}

/* The gradient of number (entry, head) of a bias, from `each` of its rows: a block for each number (x) and each
 * part of the rows (y); a warp takes a row at a time. Every element of p is read once by all of them. */
template <class T>
__device__ void softmax_bias_parts(const T *p, const T *dy, const float *dot, const bias_shape &s,
                                   int64_t each, float *part)
{
    int64_t entry = blockIdx.x / s.heads, head = blockIdx.x % s.heads, none = s.buckets;
    int64_t lead = (head - s.first_head % s.heads + s.heads) % s.heads;
    int64_t alike = lead < s.local ? (s.local - 1 - lead) / s.heads + 1 : 0;
    int64_t forward = s.causal || s.side ? none : s.buckets > 1 ? entry - s.buckets / 2 : entry;
    __shared__ key_span span[2];
    if (threadIdx.x == 0) {
        span[0] = !s.side && entry < s.each ? distances_of(s, entry) : key_span{0, 0};
        span[1] = forward >= 0 && forward < s.each ? distances_of(s, forward) : key_span{0, 0};
    }
    __syncthreads();
    int64_t rows = s.batch * alike * s.seq, begin = blockIdx.y * each;
    int64_t end = begin + each < rows ? begin + each : rows;
    float sum = 0;
    for (int64_t i = begin + threadIdx.x / 32; i < end; i += blockDim.x / 32) {
        int64_t local = lead + i / s.seq % alike * s.heads, sample = i / s.seq / alike;
        int64_t row = (sample * s.local + local) * s.seq + i % s.seq, at = row * s.keys;
        key_span seen[2];
        spans_of(s, entry, s.first_query + i % s.seq, span[0], span[1], seen);
        for (int k = 0; k < 2; k++)
            for (int64_t j = seen[k].first + threadIdx.x % 32; j < seen[k].end; j += 32)
                sum += wide(p[at + j]) * (wide(dy[at + j]) - dot[row]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        part[blockIdx.y * (int64_t)gridDim.x + blockIdx.x] = sum;
}
#define SOFTMAX_BIAS_PARTS(T)                                                                      \
    (const T *p, const T *dy, const float *dot, bias_shape s, int64_t each, float *part)
BOTH(softmax_bias_parts, SOFTMAX_BIAS_PARTS, (p, dy, dot, s, each, part))

/* softmax.cu - softmax over the keys of plain attention (kernels/cpu/softmax.c, 1 and 2).
 *
 *   I1  A row of up to SOFTMAX_HELD keys is a warp's, which holds it in registers and reads it once; a longer one a block's.
 */
#include "../../device/cuda/elements.cuh"
#include "softmax_bias.h"

/* ---- rows (I1) ------------------------------------------------------------------------------- */

enum { LANE_KEYS = SOFTMAX_HELD / 32 };

static __device__ __forceinline__ int64_t row_of(int64_t keys)
{
    return keys > SOFTMAX_HELD ? blockIdx.x : thread_index() / 32;
}

static __device__ __forceinline__ int lane_of()
{
    return threadIdx.x % 32;
}

#define FOR_KEYS(i, n, keys)                                                                       \
    _Pragma("unroll") for (int i = 0, n = lane_of(); i < LANE_KEYS; i++, n += 32) if (32 * i < (keys))

/* ---- which number of a bias ------------------------------------------------------------------ */

/* Of a key that a query sees; both by their places in the whole. `bucket` is that of s, where threads look it up. */
static __device__ __forceinline__ int entry_at(const bias_shape &s, const uint8_t *bucket, int query,
                                               int key)
{
    int side = (int)s.side, distance = key > query ? key - query : query - key;
    if (side) {
        int dy = key / side - query / side, dx = key % side - query % side;
        return (dy + side - 1) * (2 * side - 1) + dx + side - 1;
    }
    int own = distance < BIAS_DISTANCES ? bucket[distance] : (int)s.each - 1;
    return key > query && !s.causal && s.buckets > 1 ? own + (int)s.buckets / 2 : own;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* p of `keys` numbers score(i), of which the first `seen` are seen, beside a sink. */
template <class T, class SCORE>
static __device__ __forceinline__ void long_row(T *out, int64_t keys, int64_t seen, float sink,
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

template <class T, class SCORE>
static __device__ __forceinline__ void held_row(T *out, int keys, int seen, float sink, SCORE score)
{
    float x[LANE_KEYS], most = -INFINITY, sum = 0;
    FOR_KEYS(i, n, keys)
    {
        x[i] = n < seen ? score(n) : -INFINITY;
        most = fmaxf(most, x[i]);
    }
    most = fmaxf(warp_most(most), sink);
    float shift = most > -INFINITY ? most : 0;
    FOR_KEYS(i, n, keys)
    {
        x[i] = n < seen ? __expf(x[i] - shift) : 0;
        sum += x[i];
    }
    sum = warp_sum(sum) + __expf(sink - shift);
    float share = sum > 0 || isnan(sum) ? 1 / sum : 0;
    FOR_KEYS(i, n, keys)
    {
        if (n < keys)
            out[n] = narrow<T>(x[i] * share);
    }
}

template <class T, class SCORE>
static __device__ __forceinline__ void softmax_row(T *out, int64_t keys, int64_t seen, float sink,
                                                   SCORE score)
{
    if (keys > SOFTMAX_HELD)
        long_row(out, keys, seen, sink, score);
    else
        held_row(out, (int)keys, (int)seen, sink, score);
}

/* sinks: one for each local head, or NULL. */
template <class T>
__device__ void softmax_forward(const T *x, const T *sinks, T *y, int64_t rows, int64_t keys,
                                int64_t seq, int64_t heads, int64_t first, int causal)
{
    int64_t row = row_of(keys), seen = causal ? first + row % seq + 1 : keys;
    if (row >= rows)
        return;
    const T *in = x + row * keys;
    float sink = sinks ? wide(sinks[row / seq % heads]) : -INFINITY;
    softmax_row(y + row * keys, keys, seen < keys ? seen : keys, sink,
                [&](int64_t i) { return wide(in[i]); });
}
#define SOFTMAX_FORWARD(T)                                                                         \
    (const T *x, const T *sinks, T *y, int64_t rows, int64_t keys, int64_t seq, int64_t heads,     \
     int64_t first, int causal)
BOTH(softmax_forward, SOFTMAX_FORWARD, (x, sinks, y, rows, keys, seq, heads, first, causal))

template <class T>
__device__ void softmax_biased(const T *x, const T *bias, T *y, int64_t rows, const bias_shape &s)
{
    __shared__ uint8_t bucket[BIAS_DISTANCES];
    for (int i = threadIdx.x; i < BIAS_DISTANCES; i += blockDim.x)
        bucket[i] = s.bucket[i];
    __syncthreads();
    int64_t row = row_of(s.keys), query = s.first_query + row % s.seq;
    if (row >= rows)
        return;
    int64_t seen = s.causal && query + 1 < s.keys ? query + 1 : s.keys;
    const T *in = x + row * s.keys, *own = bias + (s.first_head + row / s.seq % s.local) % s.heads;
    softmax_row(y + row * s.keys, s.keys, seen, -INFINITY, [&](int64_t i) {
        return wide(in[i]) + wide(own[entry_at(s, bucket, (int)query, (int)i) * s.heads]);
    });
}
#define SOFTMAX_BIASED(T) (const T *x, const T *bias, T *y, int64_t rows, bias_shape s)
BOTH(softmax_biased, SOFTMAX_BIASED, (x, bias, y, rows, s))

/* ---- gradients ------------------------------------------------------------------------------- */

template <class T>
static __device__ __forceinline__ void long_input(const T *p, const T *dy, T *dx, int64_t keys)
{
    float dot = 0;
    for (int64_t i = threadIdx.x; i < keys; i += blockDim.x)
        dot += wide(p[i]) * wide(dy[i]);
    dot = block_sum(dot);
    for (int64_t i = threadIdx.x; i < keys; i += blockDim.x)
        dx[i] = narrow<T>(wide(p[i]) * (wide(dy[i]) - dot));
}

template <class T>
static __device__ __forceinline__ void held_input(const T *p, const T *dy, T *dx, int keys)
{
    T share[LANE_KEYS], slope[LANE_KEYS];
    float dot = 0;
    FOR_KEYS(i, n, keys)
    {
        share[i] = n < keys ? p[n] : narrow<T>(0);
        slope[i] = n < keys ? dy[n] : narrow<T>(0);
        dot += wide(share[i]) * wide(slope[i]);
    }
    dot = warp_sum(dot);
    FOR_KEYS(i, n, keys)
    {
        if (n < keys)
            dx[n] = narrow<T>(wide(share[i]) * (wide(slope[i]) - dot));
    }
}

template <class T>
__device__ void softmax_input(const T *p, const T *dy, T *dx, int64_t rows, int64_t keys)
{
    int64_t row = row_of(keys), at = row * keys;
    if (row >= rows)
        return;
    if (keys > SOFTMAX_HELD)
        long_input(p + at, dy + at, dx + at, keys);
    else
        held_input(p + at, dy + at, dx + at, (int)keys);
}
#define SOFTMAX_INPUT(T) (const T *p, const T *dy, T *dx, int64_t rows, int64_t keys)
BOTH(softmax_input, SOFTMAX_INPUT, (p, dy, dx, rows, keys))

/* Of every row the sum of p dy, and what a sink's gradient is of it, (2). */
template <class T>
__device__ void softmax_dots(const T *p, const T *dy, int64_t rows, int64_t keys, float *dot,
                             float *sink)
{
    bool shared = keys > SOFTMAX_HELD;
    int64_t row = row_of(keys), at = row * keys;
    int first = shared ? threadIdx.x : lane_of(), step = shared ? blockDim.x : 32;
    float along = 0, sum = 0;
    if (row >= rows)
        return;
    for (int64_t i = first; i < keys; i += step) {
        along += wide(p[at + i]) * wide(dy[at + i]);
        sum += wide(p[at + i]);
    }
    along = shared ? block_sum(along) : warp_sum(along);
    sum = shared ? block_sum(sum) : warp_sum(sum);
    if (first)
        return;
    if (dot)
        dot[row] = along;
    if (sink)
        sink[row] = -(1 - sum) * along;
}
#define SOFTMAX_DOTS(T)                                                                            \
    (const T *p, const T *dy, int64_t rows, int64_t keys, float *dot, float *sink)
BOTH(softmax_dots, SOFTMAX_DOTS, (p, dy, rows, keys, dot, sink))

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

/* The number of a bias's entries that lanes sum, and of a row's keys, in a warp's shared memory. */
struct warp_room {
    float *entry, *key;
};

/* Adds what the keys of one row give to each entry: a lane takes every 32nd entry. */
static __device__ __forceinline__ void add_row(const bias_shape &s, const key_span *span,
                                               int64_t query, warp_room room)
{
    for (int64_t entry = lane_of(); entry < s.buckets; entry += 32) {
        key_span seen[2];
        float sum = 0;
        spans_of(s, entry, query, span[2 * entry], span[2 * entry + 1], seen);
        for (int k = 0; k < 2; k++)
            for (int64_t j = seen[k].first; j < seen[k].end; j++)
                sum += room.key[j];
        room.entry[entry] += sum;
    }
}

/* The distances of every entry, back and ahead. */
static __device__ __forceinline__ void find_spans(const bias_shape &s, key_span *span)
{
    for (int64_t entry = threadIdx.x; entry < s.buckets; entry += blockDim.x) {
        int64_t ahead = s.causal || s.side ? s.buckets : s.buckets > 1 ? entry - s.buckets / 2 : entry;
        bool back = !s.side && entry < s.each, forward = ahead >= 0 && ahead < s.each;
        span[2 * entry] = back ? distances_of(s, entry) : key_span{0, 0};
        span[2 * entry + 1] = forward ? distances_of(s, ahead) : key_span{0, 0};
    }
}

/* Gradients of a head's numbers of a bias from `each` of its rows: a block for each head (x) and each part of the rows (y), a
 * warp for a row at a time. Shared: spans of all entries, then each warp's sums and the keys of its row. */
template <class T>
__device__ void softmax_bias_parts(const T *p, const T *dy, const float *dot, const bias_shape &s,
                                   int64_t each, float *part)
{
    extern __shared__ char shared[];
    int64_t head = blockIdx.x, lead = (head - s.first_head % s.heads + s.heads) % s.heads;
    int64_t alike = lead < s.local ? (s.local - 1 - lead) / s.heads + 1 : 0;
    int64_t rows = s.batch * alike * s.seq, begin = blockIdx.y * each;
    int64_t end = begin + each < rows ? begin + each : rows;
    int warps = blockDim.x / 32;
    key_span *span = (key_span *)shared;
    float *sums = (float *)(span + 2 * s.buckets);
    warp_room room = {sums + threadIdx.x / 32 * s.buckets,
                      sums + warps * s.buckets + threadIdx.x / 32 * s.keys};
    find_spans(s, span);
    for (int64_t i = lane_of(); i < s.buckets; i += 32)
        room.entry[i] = 0;
    __syncthreads();
    for (int64_t i = begin + threadIdx.x / 32; i < end; i += warps) {
        int64_t local = lead + i / s.seq % alike * s.heads, sample = i / s.seq / alike;
        int64_t row = (sample * s.local + local) * s.seq + i % s.seq, at = row * s.keys;
        for (int64_t j = lane_of(); j < s.keys; j += 32)
            room.key[j] = wide(p[at + j]) * (wide(dy[at + j]) - dot[row]);
        __syncwarp();
        add_row(s, span, s.first_query + i % s.seq, room);
        __syncwarp();
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < s.buckets; i += blockDim.x) {
        float sum = 0;
        for (int k = 0; k < warps; k++)
            sum += sums[k * s.buckets + i];
        part[(blockIdx.y * s.buckets + i) * s.heads + head] = sum;
    }
}
#define SOFTMAX_BIAS_PARTS(T)                                                                      \
    (const T *p, const T *dy, const float *dot, bias_shape s, int64_t each, float *part)
BOTH(softmax_bias_parts, SOFTMAX_BIAS_PARTS, (p, dy, dot, s, each, part))

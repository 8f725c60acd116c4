/* attention.cu - attention without the score matrix (kernels/cpu/attention.c, whose equations these
 * numbers are): tiles of 32 queries against tiles of 32 keys, in fp32.
 *
 *   I1  A block has one tile of queries of one head, or of keys of one key/value head, and nobody else
 *       writes what it writes: no sum depends on the order of blocks.
 */
#include "../../device/cuda/elements.cuh"

enum { TILE = 32, THREADS = 256, PER_ROW = THREADS / TILE };

/* As in attention.c of this room. */
struct shape {
    int64_t batch, head, group, seq, kv, depth, value;
    int64_t query_begin, key_begin, key_whole; /* first indices; keys of the whole */
    int64_t window;
    int32_t causal, chunked;
    float scale;
};

static __device__ __forceinline__ bool sees(const shape &s, int64_t query, int64_t key)
{
    int64_t q = s.query_begin + query, k = s.key_begin + key;
    if (k >= s.key_whole || query >= s.seq || key >= s.kv)
        return false;
    if (!s.causal)
        return true;
    int64_t first = !s.window ? 0 : s.chunked ? q / s.window * s.window : q + 1 - s.window;
    return k <= q && k >= first;
}

/* Whether any query of a tile sees any key of another. */
static __device__ __forceinline__ bool meet(const shape &s, int64_t query, int64_t key)
{
    int64_t q = s.query_begin + query, k = s.key_begin + key;
    if (!s.causal)
        return true;
    int64_t last = q + TILE - 1;
    int64_t first = !s.window ? 0 : s.chunked ? q / s.window * s.window : q + 1 - s.window;
    return k <= last && k + TILE - 1 >= first;
}

/* Rows of a head, into fp32: (positions, width) out of (batch, positions, heads, width). */
template <class T>
static __device__ void load_rows(const T *from, int64_t sample, int64_t positions, int64_t heads,
                                 int64_t head, int64_t width, int64_t first, float *to)
{
    for (int64_t i = threadIdx.x; i < TILE * width; i += THREADS) {
        int64_t row = first + i / width;
        to[i / width * (width + 1) + i % width] =
            row < positions ? wide(from[((sample * positions + row) * heads + head) * width + i % width])
                            : 0;
    }
}

/* s = a q k^T of two tiles: each thread four numbers of one row. */
static __device__ __forceinline__ void tile_product(const float *a, const float *b, int64_t depth,
                                                    float out[TILE / PER_ROW])
{
    int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW;
#pragma unroll
    for (int k = 0; k < TILE / PER_ROW; k++)
        out[k] = 0;
    for (int64_t d = 0; d < depth; d++) {
        float x = a[row * (depth + 1) + d];
#pragma unroll
        for (int k = 0; k < TILE / PER_ROW; k++)
            out[k] += x * b[(column + k * PER_ROW) * (depth + 1) + d];
    }
}

/* The sum, or the largest, over the threads of a row. */
static __device__ __forceinline__ float row_sum(float x)
{
#pragma unroll
    for (int apart = PER_ROW / 2; apart; apart /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

static __device__ __forceinline__ float row_most(float x)
{
#pragma unroll
    for (int apart = PER_ROW / 2; apart; apart /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
    return x;
}

enum { MOST_VALUES = 256 / PER_ROW }; /* of a row of up to 256 features, those of one thread */

/* Features of a tile's rows, each times its number of `factor`, added to those of this thread. */
static __device__ __forceinline__ void add_rows(float to[MOST_VALUES], const float *factor, int step,
                                                const float *rows, int64_t width)
{
    int column = threadIdx.x % PER_ROW;
#pragma unroll 1
    for (int i = 0; i < TILE; i++) {
        float x = factor[i * step];
#pragma unroll
        for (int n = 0; n < MOST_VALUES; n++)
            if (column + n * PER_ROW < width)
                to[n] += x * rows[i * (width + 1) + column + n * PER_ROW];
    }
}

/* Grid: tiles of queries, query heads, samples. out: T, or fp32 where keys are split. */
template <class T, class OUT>
static __device__ __forceinline__ void forward(const T *q, const T *k, const T *v, OUT *out,
                                               float *kept, const T *sink, shape s)
{
    extern __shared__ float room[];
    float *qs = room, *ks = qs + TILE * (s.depth + 1), *vs = ks + TILE * (s.depth + 1),
          *ps = vs + TILE * (s.value + 1);
    int64_t first = (int64_t)blockIdx.x * TILE, head = blockIdx.y, sample = blockIdx.z;
    int64_t heads = s.head * s.group, key_head = head / s.group;
    int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW;
    float most = sink ? wide(sink[head]) : -INFINITY, sum = sink ? 1 : 0;
    float o[MOST_VALUES] = {0};
    load_rows(q, sample, s.seq, heads, head, s.depth, first, qs);
    for (int64_t key = 0; key < s.kv; key += TILE) {
        if (!meet(s, first, key))
            continue;
        __syncthreads();
        load_rows(k, sample, s.kv, s.head, key_head, s.depth, key, ks);
        load_rows(v, sample, s.kv, s.head, key_head, s.value, key, vs);
        __syncthreads();
        float score[TILE / PER_ROW], top = most;
        tile_product(qs, ks, s.depth, score);
#pragma unroll
        for (int n = 0; n < TILE / PER_ROW; n++) {
            bool seen = sees(s, first + row, key + column + n * PER_ROW);
            score[n] = seen ? score[n] * s.scale : -INFINITY;
            top = fmaxf(top, score[n]);
        }
        top = row_most(top);
        float shift = top > -INFINITY ? top : 0, again = expf(most - shift), part = 0;
#pragma unroll
        for (int n = 0; n < TILE / PER_ROW; n++) {
            float p = expf(score[n] - shift);
            ps[row * (TILE + 1) + column + n * PER_ROW] = p;
            part += p;
        }
        sum = sum * again + row_sum(part);
        most = top;
        __syncwarp();
#pragma unroll
        for (int n = 0; n < MOST_VALUES; n++)
            o[n] *= again;
        add_rows(o, ps + row * (TILE + 1), 1, vs, s.value);
    }
    if (first + row >= s.seq)
        return;
    bool any = sum > 0 || isnan(sum);
    float share = any ? 1 / sum : 0;
#pragma unroll
    for (int n = 0; n < MOST_VALUES; n++) {
        int64_t at = column + n * PER_ROW;
        if (at < s.value)
            out[((sample * s.seq + first + row) * heads + head) * s.value + at] =
                narrow<OUT>(o[n] * share);
    }
    if (column == 0)
        kept[(sample * heads + head) * s.seq + first + row] = any ? most + logf(sum) : -INFINITY;
}

template <class T>
__device__ void attention_forward(const T *q, const T *k, const T *v, T *out, float *kept,
                                  const T *sink, shape s)
{
    forward<T, T>(q, k, v, out, kept, sink, s);
}
#define ATTENTION_FORWARD(T)                                                                       \
    (const T *q, const T *k, const T *v, T *out, float *kept, const T *sink, shape s)
BOTH(attention_forward, ATTENTION_FORWARD, (q, k, v, out, kept, sink, s))

template <class T>
__device__ void attention_part(const T *q, const T *k, const T *v, float *out, float *kept,
                               const T *sink, shape s)
{
    forward<T, float>(q, k, v, out, kept, sink, s);
}
#define ATTENTION_PART(T)                                                                          \
    (const T *q, const T *k, const T *v, float *out, float *kept, const T *sink, shape s)
BOTH(attention_part, ATTENTION_PART, (q, k, v, out, kept, sink, s))

/* ---- parts of a row become one (5) ----------------------------------------------------------- */

/* kept becomes e^(L_i - m), top is m of all. */
template <class T>
__device__ void attention_weigh(float *kept, float *top, float *weight, const T *sink, int64_t rows,
                                int64_t seq, int64_t heads)
{
    for (int64_t i = thread_index(); i < rows; i += thread_count()) {
        if (sink)
            top[i] = fmaxf(top[i], wide(sink[i / seq % heads]));
        kept[i] = weight[i] = kept[i] > -INFINITY ? expf(kept[i] - top[i]) : 0;
    }
}
#define ATTENTION_WEIGH(T)                                                                         \
    (float *kept, float *top, float *weight, const T *sink, int64_t rows, int64_t seq,             \
     int64_t heads)
BOTH(attention_weigh, ATTENTION_WEIGH, (kept, top, weight, sink, rows, seq, heads))

/* A block for each row, of (batch, head, seq). */
template <class T>
__device__ void attention_merge(float *out, float *kept, const float *top, const float *weight,
                                const T *sink, int64_t seq, int64_t heads, int64_t value)
{
    int64_t i = blockIdx.x, sample = i / (heads * seq), head = i / seq % heads;
    float all = weight[i] + (sink ? expf(wide(sink[head]) - top[i]) : 0), own = kept[i];
    float *row = out + ((sample * seq + i % seq) * heads + head) * value;
    for (int64_t k = threadIdx.x; k < value; k += blockDim.x)
        row[k] *= own > 0 ? own / all : 0;
    __syncthreads();
    if (threadIdx.x == 0)
        kept[i] = top[i] + logf(all);
}
#define ATTENTION_MERGE(T)                                                                         \
    (float *out, float *kept, const float *top, const float *weight, const T *sink, int64_t seq,   \
     int64_t heads, int64_t value)
BOTH(attention_merge, ATTENTION_MERGE, (out, kept, top, weight, sink, seq, heads, value))

/* ---- backward (3), (4) ----------------------------------------------------------------------- */

/* rowsum(dO O), a warp for each row of (batch, seq, heads), into (batch, heads, seq). */
template <class T>
__device__ void attention_dots(const T *out, const T *d_out, float *dot, int64_t rows, int64_t seq,
                               int64_t heads, int64_t value)
{
    int64_t row = thread_index() / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0;
    for (int64_t i = lane; i < value; i += 32)
        sum += wide(out[row * value + i]) * wide(d_out[row * value + i]);
    sum = warp_sum(sum);
    int64_t head = row % heads, position = row / heads % seq, sample = row / (heads * seq);
    if (lane == 0)
        dot[(sample * heads + head) * seq + position] = sum;
}
#define ATTENTION_DOTS(T)                                                                          \
    (const T *out, const T *d_out, float *dot, int64_t rows, int64_t seq, int64_t heads,           \
     int64_t value)
BOTH(attention_dots, ATTENTION_DOTS, (out, d_out, dot, rows, seq, heads, value))

/* P and dS of two tiles, into shared memory. */
static __device__ __forceinline__ void slopes(const shape &s, const float *qs, const float *ks,
                                              const float *vs, const float *ds, float kept,
                                              float dot, int64_t query, int64_t key, float *p_to,
                                              float *ds_to)
{
    int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW;
    float score[TILE / PER_ROW], along[TILE / PER_ROW];
    tile_product(qs, ks, s.depth, score);
    tile_product(ds, vs, s.value, along);
#pragma unroll
    for (int n = 0; n < TILE / PER_ROW; n++) {
        int at = column + n * PER_ROW;
        float p = sees(s, query + row, key + at) ? expf(score[n] * s.scale - kept) : 0;
        p_to[row * (TILE + 1) + at] = p;
        ds_to[row * (TILE + 1) + at] = p * (along[n] - dot);
    }
}

/* Grid: tiles of queries, query heads, samples. */
template <class T>
__device__ void attention_queries(const T *q, const T *k, const T *v, const T *d_out,
                                  const float *kept, const float *dot, T *dq, shape s)
{
    extern __shared__ float room[];
    float *qs = room, *ks = qs + TILE * (s.depth + 1), *vs = ks + TILE * (s.depth + 1),
          *ds = vs + TILE * (s.value + 1), *ps = ds + TILE * (s.value + 1),
          *ss = ps + TILE * (TILE + 1);
    int64_t first = (int64_t)blockIdx.x * TILE, head = blockIdx.y, sample = blockIdx.z;
    int64_t heads = s.head * s.group, key_head = head / s.group;
    int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW;
    bool there = first + row < s.seq;
    int64_t at_row = (sample * heads + head) * s.seq + first + row;
    float own_kept = there ? kept[at_row] : 0, own_dot = there ? dot[at_row] : 0;
    float x[MOST_VALUES] = {0};
    load_rows(q, sample, s.seq, heads, head, s.depth, first, qs);
    load_rows(d_out, sample, s.seq, heads, head, s.value, first, ds);
    for (int64_t key = 0; key < s.kv; key += TILE) {
        if (!meet(s, first, key))
            continue;
        __syncthreads();
        load_rows(k, sample, s.kv, s.head, key_head, s.depth, key, ks);
        load_rows(v, sample, s.kv, s.head, key_head, s.value, key, vs);
        __syncthreads();
        slopes(s, qs, ks, vs, ds, own_kept, own_dot, first, key, ps, ss);
        __syncwarp();
        add_rows(x, ss + row * (TILE + 1), 1, ks, s.depth);
    }
#pragma unroll
    for (int n = 0; n < MOST_VALUES; n++) {
        int64_t at = column + n * PER_ROW;
        if (there && at < s.depth)
            dq[((sample * s.seq + first + row) * heads + head) * s.depth + at] =
                narrow<T>(x[n] * s.scale);
    }
}
#define ATTENTION_QUERIES(T)                                                                       \
    (const T *q, const T *k, const T *v, const T *d_out, const float *kept, const float *dot,      \
     T *dq, shape s)
BOTH(attention_queries, ATTENTION_QUERIES, (q, k, v, d_out, kept, dot, dq, s))

/* Grid: tiles of keys, key/value heads, samples. A thread's row is one of keys when it adds up. */
template <class T>
__device__ void attention_keys(const T *q, const T *k, const T *v, const T *d_out,
                               const float *kept, const float *dot, T *dk, T *dv, shape s)
{
    extern __shared__ float room[];
    float *qs = room, *ks = qs + TILE * (s.depth + 1), *vs = ks + TILE * (s.depth + 1),
          *ds = vs + TILE * (s.value + 1), *ps = ds + TILE * (s.value + 1),
          *ss = ps + TILE * (TILE + 1);
    int64_t key = (int64_t)blockIdx.x * TILE, key_head = blockIdx.y, sample = blockIdx.z;
    int64_t heads = s.head * s.group;
    int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW;
    float x[MOST_VALUES] = {0}, y[MOST_VALUES] = {0};
    load_rows(k, sample, s.kv, s.head, key_head, s.depth, key, ks);
    load_rows(v, sample, s.kv, s.head, key_head, s.value, key, vs);
    for (int64_t head = key_head * s.group; head < (key_head + 1) * s.group; head++)
        for (int64_t first = 0; first < s.seq; first += TILE) {
            if (!meet(s, first, key))
                continue;
            bool there = first + row < s.seq;
            int64_t at_row = (sample * heads + head) * s.seq + first + row;
            float own_kept = there ? kept[at_row] : 0, own_dot = there ? dot[at_row] : 0;
            __syncthreads();
            load_rows(q, sample, s.seq, heads, head, s.depth, first, qs);
            load_rows(d_out, sample, s.seq, heads, head, s.value, first, ds);
            __syncthreads();
            slopes(s, qs, ks, vs, ds, own_kept, own_dot, first, key, ps, ss);
            __syncthreads();
            add_rows(x, ss + row, TILE + 1, qs, s.depth);
            add_rows(y, ps + row, TILE + 1, ds, s.value);
        }
    if (key + row >= s.kv)
        return;
#pragma unroll
    for (int n = 0; n < MOST_VALUES; n++) {
        int64_t at = column + n * PER_ROW, to = (sample * s.kv + key + row) * s.head + key_head;
        if (dk && at < s.depth)
            dk[to * s.depth + at] = narrow<T>(x[n] * s.scale);
        if (dv && at < s.value)
            dv[to * s.value + at] = narrow<T>(y[n]);
    }
}
#define ATTENTION_KEYS(T)                                                                          \
    (const T *q, const T *k, const T *v, const T *d_out, const float *kept, const float *dot,      \
     T *dk, T *dv, shape s)
BOTH(attention_keys, ATTENTION_KEYS, (q, k, v, d_out, kept, dot, dk, dv, s))

/* (6): a block for each query head. */
template <class T>
__device__ void attention_sinks(const T *sink, const float *kept, const float *dot, float *gradient,
                                int64_t batch, int64_t heads, int64_t seq)
{
    int64_t head = blockIdx.x;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < batch * seq; i += blockDim.x) {
        int64_t row = (i / seq * heads + head) * seq + i % seq;
        sum += expf(wide(sink[head]) - kept[row]) * dot[row];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        gradient[head] -= sum;
}
#define ATTENTION_SINKS(T)                                                                         \
    (const T *sink, const float *kept, const float *dot, float *gradient, int64_t batch,           \
     int64_t heads, int64_t seq)
BOTH(attention_sinks, ATTENTION_SINKS, (sink, kept, dot, gradient, batch, heads, seq))

/* ---- masks of plain scores (kernels/cpu/matmul.c, I1) ---------------------------------------- */

/* A block for each row: what is after the query, and what is before its window. */
template <class T> __device__ void mask_scores(T *scores, shape s)
{
    int64_t query = s.query_begin + blockIdx.x % s.seq;
    int64_t first = !s.window ? 0 : s.chunked ? query / s.window * s.window : query + 1 - s.window;
    int64_t before = min(max(first - s.key_begin, (int64_t)0), s.kv);
    int64_t after = min(max(query + 1 - s.key_begin, (int64_t)0), s.kv);
    T *row = scores + blockIdx.x * s.kv, hidden = narrow<T>(-INFINITY);
    for (int64_t i = threadIdx.x; i < before; i += blockDim.x)
        row[i] = hidden;
    for (int64_t i = after + threadIdx.x; i < s.kv; i += blockDim.x)
        row[i] = hidden;
}
#define MASK_SCORES(T) (T *scores, shape s)
BOTH(mask_scores, MASK_SCORES, (scores, s))

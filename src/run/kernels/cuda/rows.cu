/* rows.cu - kinds that see a row of features at a time: norms, the loss, embeddings; and sums of
 * columns. */
#include "columns.cuh"

/* ---- norms (kernels/cpu/norm.c, 1 to 3) ------------------------------------------------------ */

/* Calls `pack(i)` for every 16 bytes of a row of this block, `one(i)` for elements before the first and after
 * the last such place. */
template <class T, class PACK, class ONE>
static __device__ __forceinline__ void over_row(const T *row, int64_t width, PACK pack, ONE one)
{
    const int EACH = wide_pack<T>::COUNT;
    int64_t head = (int64_t)((16 - (uintptr_t)row % 16) % 16 / sizeof(T));
    head = head < width ? head : width;
    int64_t packs = (width - head) / EACH, tail = head + packs * EACH;
    for (int64_t i = threadIdx.x; i < head; i += blockDim.x)
        one(i);
    for (int64_t i = threadIdx.x; i < packs; i += blockDim.x)
        pack(head + i * EACH);
    for (int64_t i = tail + threadIdx.x; i < width; i += blockDim.x)
        one(i);
}

/* The same, with values: `see(i, x)` of every element. */
template <class T, class SEE>
static __device__ __forceinline__ void see_row(const T *row, int64_t width, SEE see)
{
    over_row(
        row, width,
        [&](int64_t i) {
            wide_pack<T> x = load_pack(row + i);
#pragma unroll
            for (int k = 0; k < wide_pack<T>::COUNT; k++)
                see(i + k, x.x[k]);
        },
        [&](int64_t i) { see(i, wide(row[i])); });
}

/* to[i] = make(i, x) of every element; both rows begin alike within 16 bytes. */
template <class T, class MAKE>
static __device__ __forceinline__ void make_row(const T *row, T *to, int64_t width, MAKE make)
{
    over_row(
        row, width,
        [&](int64_t i) {
            wide_pack<T> x = load_pack(row + i);
#pragma unroll
            for (int k = 0; k < wide_pack<T>::COUNT; k++)
                x.x[k] = make(i + k, x.x[k]);
            store_pack(to + i, x);
        },
        [&](int64_t i) { to[i] = narrow<T>(make(i, wide(row[i]))); });
}

/* kept: mean and rate of each row, or the rate alone where nothing is centred. */
template <class T>
__device__ void norm_forward(const T *x, const T *gain, const T *bias, T *y, float *kept,
                             int64_t width, int centred, float epsilon)
{
    const T *row = x + (int64_t)blockIdx.x * width;
    float sum = 0, squares = 0;
    if (centred)
        see_row(row, width, [&](int64_t, float at) { sum += at; });
    float mean = centred ? block_sum(sum) / (float)width : 0;
    see_row(row, width, [&](int64_t, float at) { squares += (at - mean) * (at - mean); });
    float rate = 1.0F / sqrtf(block_sum(squares) / (float)width + epsilon);
    make_row(row, y + (int64_t)blockIdx.x * width, width, [&](int64_t i, float at) {
        float n = (at - mean) * rate * wide(gain[i]);
        return bias ? n + wide(bias[i]) : n;
    });
    if (threadIdx.x)
        return;
    if (centred)
        kept[2 * (int64_t)blockIdx.x] = mean;
    kept[centred ? 2 * (int64_t)blockIdx.x + 1 : blockIdx.x] = rate;
}
#define NORM_FORWARD(T)                                                                            \
    (const T *x, const T *gain, const T *bias, T *y, float *kept, int64_t width, int centred,      \
     float epsilon)
BOTH(norm_forward, NORM_FORWARD, (x, gain, bias, y, kept, width, centred, epsilon))

template <class T>
__device__ void norm_input(const T *x, const T *dy, const T *gain, const float *kept, T *dx,
                           int64_t width, int centred)
{
    int64_t row = blockIdx.x, first = row * width;
    const T *xs = x + first, *ds = dy + first;
    float mean = centred ? kept[2 * row] : 0, rate = kept[centred ? 2 * row + 1 : row];
    float sum = 0, along = 0;
    see_row(xs, width, [&](int64_t i, float at) {
        float t = wide(ds[i]) * wide(gain[i]);
        sum += t;
        along += t * (at - mean);
    });
    float shift = centred ? block_sum(sum) / (float)width : 0;
    float slope = block_sum(along) * rate * rate / (float)width;
    make_row(xs, dx + first, width, [&](int64_t i, float at) {
        return rate * (wide(ds[i]) * wide(gain[i]) - shift - (at - mean) * slope);
    });
}
#define NORM_INPUT(T)                                                                              \
    (const T *x, const T *dy, const T *gain, const float *kept, T *dx, int64_t width, int centred)
BOTH(norm_input, NORM_INPUT, (x, dy, gain, kept, dx, width, centred))

template <class T, int COLUMNS>
static __device__ __forceinline__ void load_columns(const T *from, float to[COLUMNS])
{
    if (COLUMNS == 1) {
        to[0] = wide(*from);
        return;
    }
    wide_pack<T> x = load_pack(from);
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
        to[k] = x.x[k];
}

/* ---- sums of columns: of `each` rows by every block, then of these --------------------------- */

/* COLUMNS columns of each of LANES threads at blockIdx.x, rows from blockIdx.y * each on. With x, what is
 * summed is dy n of a norm; else dy. */
template <class T, int COLUMNS>
static __device__ __forceinline__ void sum_columns(const T *dy, const T *x, const float *kept,
                                                   int64_t rows, int64_t width, int64_t each,
                                                   int centred, float *part)
{
    int64_t column = own_column(COLUMNS), first = blockIdx.y * each;
    int64_t end = first + each < rows ? first + each : rows;
    float sum[COLUMNS] = {};
#pragma unroll 4
    for (int64_t row = first + own_phase(); row < end; row += PHASES) {
        if (column >= width)
            break;
        float mean = x && centred ? kept[2 * row] : 0;
        float rate = x ? kept[centred ? 2 * row + 1 : row] : 1;
        float d[COLUMNS], n[COLUMNS];
        load_columns<T, COLUMNS>(dy + row * width + column, d);
        if (x)
            load_columns<T, COLUMNS>(x + row * width + column, n);
#pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            sum[k] += x ? d[k] * (n[k] - mean) * rate : d[k];
    }
    phase_sums(sum);
    if (own_phase() || column >= width)
        return;
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
        part[blockIdx.y * width + column + k] = sum[k];
}

/* `packed`: rows are whole numbers of 16 bytes. */
template <class T>
__device__ void column_parts(const T *dy, const T *x, const float *kept, int64_t rows,
                             int64_t width, int64_t each, int centred, int packed, float *part)
{
    if (packed)
        sum_columns<T, wide_pack<T>::COUNT>(dy, x, kept, rows, width, each, centred, part);
    else
        sum_columns<T, 1>(dy, x, kept, rows, width, each, centred, part);
}
#define COLUMN_PARTS(T)                                                                            \
    (const T *dy, const T *x, const float *kept, int64_t rows, int64_t width, int64_t each,        \
     int centred, int packed, float *part)
BOTH(column_parts, COLUMN_PARTS, (dy, x, kept, rows, width, each, centred, packed, part))

extern "C" __global__ void column_sums(const float *part, int64_t parts, int64_t width, float *to)
{
    int64_t column = own_column(1);
    float sum = sum_of_rows(column < width, 0, parts, [&](int64_t i) { return part[i * width + column]; });
    if (own_phase() == 0 && column < width)
        to[column] += sum;
}

/* ---- the loss (kernels/cpu/loss.c) ----------------------------------------------------------- */

/* m of each row, and where nobody else has part of it, the sum of e^(x - m) in the same pass. */
template <class T>
__device__ void loss_most(const T *x, int64_t columns, int64_t real, float *most, float *sum)
{
    const T *row = x + blockIdx.x * columns;
    float m = -INFINITY, s = 0;
    see_row(row, real, [&](int64_t, float at) {
        if (at > m) {
            s *= __expf(m - at);
            m = at;
        }
        s += __expf(at - m);
    });
    float all = block_most(m);
    s = block_sum(m > -INFINITY ? s * __expf(m - all) : 0);
    if (threadIdx.x == 0) {
        most[blockIdx.x] = all;
        sum[blockIdx.x] = s;
    }
}
#define LOSS_MOST(T) (const T *x, int64_t columns, int64_t real, float *most, float *sum)
BOTH(loss_most, LOSS_MOST, (x, columns, real, most, sum))

/* The sum of e^(x - m) of each row. */
template <class T>
__device__ void loss_sum(const T *x, int64_t columns, int64_t real, const float *most, float *sum)
{
    float m = most[blockIdx.x], s = 0;
    see_row(x + blockIdx.x * columns, real, [&](int64_t, float at) { s += __expf(at - m); });
    s = block_sum(s);
    if (threadIdx.x == 0)
        sum[blockIdx.x] = s;
}
#define LOSS_SUM(T) (const T *x, int64_t columns, int64_t real, const float *most, float *sum)
BOTH(loss_sum, LOSS_SUM, (x, columns, real, most, sum))

/* (1) of each row, and 1 / sum in the place of the sum; a thread for each row. */
template <class T>
__device__ void loss_rows(const T *x, const int64_t *labels, int64_t rows, int64_t columns,
                          int64_t real, int64_t begin, int adds_once, const float *most,
                          float *share, float *loss)
{
    int64_t row = thread_index();
    if (row >= rows)
        return;
    int64_t label = labels[row] - begin;
    bool mine = labels[row] >= 0 && label >= 0 && label < real;
    float own = mine ? wide(x[row * columns + label]) : 0;
    float rest = adds_once ? most[row] + logf(share[row]) : 0;
    loss[row] = labels[row] < 0 ? 0 : rest - own;
    share[row] = 1 / share[row];
}
#define LOSS_ROWS(T)                                                                               \
    (const T *x, const int64_t *labels, int64_t rows, int64_t columns, int64_t real,               \
     int64_t begin, int adds_once, const float *most, float *share, float *loss)
BOTH(loss_rows, LOSS_ROWS,
     (x, labels, rows, columns, real, begin, adds_once, most, share, loss))

/* (2), but for dL: of element i of a row. */
struct loss_row {
    float most, share;
    int64_t label, real;
    __device__ float slope(int64_t i, float x) const
    {
        float p = i < real ? __expf(x - most) * share : 0;
        return i == label && i < real ? p - 1 : p;
    }
};

static __device__ __forceinline__ loss_row row_of(const int64_t *labels, int64_t real,
                                                  int64_t begin, const float *most,
                                                  const float *share)
{
    int64_t label = labels[blockIdx.x];
    return {most[blockIdx.x], label >= 0 ? share[blockIdx.x] : 0, label >= 0 ? label - begin : -1,
            real};
}

template <class T>
__device__ void loss_keep(const T *x, const int64_t *labels, int64_t columns, int64_t real,
                          int64_t begin, const float *most, const float *share, float *kept)
{
    loss_row row = row_of(labels, real, begin, most, share);
    int64_t first = blockIdx.x * columns;
    over_row(
        x + first, columns,
        [&](int64_t i) {
            wide_pack<T> at = load_pack(x + first + i);
#pragma unroll
            for (int k = 0; k < wide_pack<T>::COUNT; k += 4) /* 16 bytes of fp32 at a time */
                *(float4 *)(kept + first + i + k) =
                    make_float4(row.slope(i + k, at.x[k]), row.slope(i + k + 1, at.x[k + 1]),
                                row.slope(i + k + 2, at.x[k + 2]),
                                row.slope(i + k + 3, at.x[k + 3]));
        },
        [&](int64_t i) { kept[first + i] = row.slope(i, wide(x[first + i])); });
}
#define LOSS_KEEP(T)                                                                               \
    (const T *x, const int64_t *labels, int64_t columns, int64_t real, int64_t begin,              \
     const float *most, const float *share, float *kept)
BOTH(loss_keep, LOSS_KEEP, (x, labels, columns, real, begin, most, share, kept))

template <class T>
__device__ void loss_input(const T *x, const int64_t *labels, int64_t columns, int64_t real,
                           int64_t begin, const float *most, const float *share, const float *dy,
                           T *dx)
{
    loss_row row = row_of(labels, real, begin, most, share);
    int64_t first = blockIdx.x * columns;
    float factor = dy[blockIdx.x];
    make_row(x + first, dx + first, columns,
             [&](int64_t i, float at) { return row.slope(i, at) * factor; });
}
#define LOSS_INPUT(T)                                                                              \
    (const T *x, const int64_t *labels, int64_t columns, int64_t real, int64_t begin,              \
     const float *most, const float *share, const float *dy, T *dx)
BOTH(loss_input, LOSS_INPUT, (x, labels, columns, real, begin, most, share, dy, dx))

/* From what was kept. */
template <class T>
__device__ void loss_scale(const float *kept, int64_t columns, const float *dy, T *dx)
{
    int64_t first = blockIdx.x * columns;
    float factor = dy[blockIdx.x];
    over_row(
        dx + first, columns,
        [&](int64_t i) {
            wide_pack<T> out;
#pragma unroll
            for (int k = 0; k < wide_pack<T>::COUNT; k += 4) {
                float4 at = *(const float4 *)(kept + first + i + k);
                out.x[k] = at.x * factor;
                out.x[k + 1] = at.y * factor;
                out.x[k + 2] = at.z * factor;
                out.x[k + 3] = at.w * factor;
            }
            store_pack(dx + first + i, out);
        },
        [&](int64_t i) { dx[first + i] = narrow<T>(kept[first + i] * factor); });
}
#define LOSS_SCALE(T) (const float *kept, int64_t columns, const float *dy, T *dx)
BOTH(loss_scale, LOSS_SCALE, (kept, columns, dy, dx))

/* (3), a thread for each row: the loss, and its slope times dL. */
template <class T>
__device__ void loss_binary(const T *x, const int64_t *labels, int64_t rows, const float *dy,
                            float *loss, float *slope, T *dx)
{
    int64_t row = thread_index();
    if (row >= rows)
        return;
    float at = wide(x[row]), label = labels[row] > 0 ? 1 : 0;
    bool counts = labels[row] >= 0;
    float tilt = counts ? 1 / (1 + expf(-at)) - label : 0;
    if (loss)
        loss[row] = counts ? fmaxf(at, 0) + log1pf(expf(-fabsf(at))) - label * at : 0;
    if (slope)
        slope[row] = tilt;
    if (dx)
        dx[row] = narrow<T>(tilt * dy[row]);
}
#define LOSS_BINARY(T)                                                                             \
    (const T *x, const int64_t *labels, int64_t rows, const float *dy, float *loss, float *slope,  \
     T *dx)
BOTH(loss_binary, LOSS_BINARY, (x, labels, rows, dy, loss, slope, dx))

/* ---- embeddings (kernels/cpu/embedding.c) ---------------------------------------------------- */

template <class T>
__device__ void embedding_forward(const int64_t *ids, const T *table, const T *positions, T *y,
                                  int64_t width, int64_t seq, int64_t first_position,
                                  int64_t first_row, int64_t rows)
{
    int64_t token = blockIdx.x, row = ids[token] - first_row;
    int64_t position = first_position + token % seq;
    bool here = row >= 0 && row < rows;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float x = here ? wide(table[row * width + i]) : 0;
        y[token * width + i] = narrow<T>(positions ? x + wide(positions[position * width + i]) : x);
    }
}
#define EMBEDDING_FORWARD(T)                                                                       \
    (const int64_t *ids, const T *table, const T *positions, T *y, int64_t width, int64_t seq,     \
     int64_t first_position, int64_t first_row, int64_t rows)
BOTH(embedding_forward, EMBEDDING_FORWARD,
     (ids, table, positions, y, width, seq, first_position, first_row, rows))

/* The first token of every id adds up all tokens of that id, in their order: a block for each token.
 * next[token] is the next token of the same id, -1 the end; first[token] whether none is before it. */
template <class T>
__device__ void embedding_table(const int64_t *ids, const int32_t *next, const uint8_t *first,
                                const T *dy, float *gradient, int64_t width, int64_t first_row,
                                int64_t rows)
{
    int64_t token = blockIdx.x, row = ids[token] - first_row;
    if (!first[token] || row < 0 || row >= rows)
        return;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float sum = 0;
        for (int64_t t = token; t >= 0; t = next[t])
            sum += wide(dy[t * width + i]);
        gradient[row * width + i] += sum;
    }
}
#define EMBEDDING_TABLE(T)                                                                         \
    (const int64_t *ids, const int32_t *next, const uint8_t *first, const T *dy, float *gradient,  \
     int64_t width, int64_t first_row, int64_t rows)
BOTH(embedding_table, EMBEDDING_TABLE, (ids, next, first, dy, gradient, width, first_row, rows))

/* Links tokens of the same id: a warp for each token looks for the next one. */
extern "C" __global__ void embedding_links(const int64_t *ids, int64_t tokens, int32_t *next,
                                           uint8_t *first)
{
    int64_t token = thread_index() / 32;
    int lane = threadIdx.x % 32;
    if (token >= tokens)
        return;
    int64_t found = -1;
    for (int64_t t = token + 1; t < tokens; t += 32) {
        bool same = t + lane < tokens && ids[t + lane] == ids[token];
        unsigned any = __ballot_sync(0xffffffffu, same);
        if (any) {
            found = t + __ffs(any) - 1;
            break;
        }
    }
    if (lane == 0)
        next[token] = (int32_t)found;
    if (lane == 0 && found >= 0)
        first[found] = 0;
}

extern "C" __global__ void embedding_firsts(uint8_t *first, int64_t tokens)
{
    for (int64_t i = thread_index(); i < tokens; i += thread_count())
        first[i] = 1;
}

/* A thread for each number of the positions' table, over all samples. */
template <class T>
__device__ void embedding_positions(const T *dy, float *gradient, int64_t width, int64_t samples,
                                    int64_t seq, int64_t first_position)
{
    int64_t i = thread_index();
    if (i >= seq * width)
        return;
    float sum = 0;
    for (int64_t sample = 0; sample < samples; sample++)
        sum += wide(dy[sample * seq * width + i]);
    gradient[first_position * width + i] += sum;
}
#define EMBEDDING_POSITIONS(T)                                                                     \
    (const T *dy, float *gradient, int64_t width, int64_t samples, int64_t seq,                    \
     int64_t first_position)
BOTH(embedding_positions, EMBEDDING_POSITIONS,
     (dy, gradient, width, samples, seq, first_position))

/* softmax_held.cu - softmax over rows that a warp holds in its registers, each number read once, 16 bytes at a time, with a
 * bias by distance or without (kernels/cpu/softmax.c, 1 and 2; softmax.cu has the other rows).
 *
 *   I1  Rows are whole numbers of 16 bytes, at most SOFTMAX_HELD keys.
 *   I2  A bias of one head is a table by key - query: beyond BIAS_DISTANCES - 1, either way, all keys share a number.
 *   I3  Gradients of a bias are summed by distance, in each warp's own table: keys of one row within the distances are at
 *       places of their own. Sums are taken in a fixed order.
 */
#include "../../device/cuda/elements.cuh"
#include "softmax_bias.h"

enum { WARPS = SOFTMAX_WARPS, ROWS = SOFTMAX_ROWS, FARTHEST = BIAS_DISTANCES - 1 };
enum { PLACES = 2 * FARTHEST + 1, TABLE = PLACES + PLACES / 8 + 1 };

/* What a lane has of a row: 16 bytes of every 512. */
template <class T> struct lane_row {
    static const int EACH = wide_pack<T>::COUNT, PACKS = SOFTMAX_HELD / 32 / EACH;
    uint4 bits[PACKS];
    __device__ __forceinline__ void load(const T *row, int keys)
    {
#pragma unroll
        for (int p = 0; p < PACKS; p++)
            if (first(p) < keys)
                bits[p] = *(const uint4 *)(row + first(p));
            else
                bits[p] = make_uint4(0, 0, 0, 0);
    }
    static __device__ __forceinline__ int first(int p)
    {
        return (p * 32 + (int)threadIdx.x % 32) * EACH;
    }
    __device__ __forceinline__ float at(int p, int k) const
    {
        return wide(((const T *)&bits[p])[k]);
    }
};

/* For all packs of a row, and all numbers of a pack, that some lane has. */
#define FOR_PACKS(p, keys)                                                                         \
    _Pragma("unroll") for (int p = 0; p < lane_row<T>::PACKS; p++) if (p * 32 * lane_row<T>::EACH < (keys))
#define FOR_NUMBERS(k) _Pragma("unroll") for (int k = 0; k < lane_row<T>::EACH; k++)

/* ---- the table of a bias (I2) ------------------------------------------------------------------ */

/* Lanes are 8 numbers apart, in banks of their own. */
static __device__ __forceinline__ int place_of(int distance)
{
    int at = min(max(distance, -FARTHEST), FARTHEST) + FARTHEST;
    return at + at / 8;
}

/* Which number of a head a distance takes. */
static __device__ __forceinline__ int entry_of(const bias_shape &s, int distance)
{
    int own = s.bucket[abs(distance)];
    return distance > 0 && !s.causal && s.buckets > 1 ? own + (int)s.buckets / 2 : own;
}

template <class T>
static __device__ __forceinline__ void fill_table(const bias_shape &s, const T *bias, int64_t head, float *table)
{
    for (int i = threadIdx.x; i < PLACES; i += blockDim.x)
        table[place_of(i - FARTHEST)] = wide(bias[entry_of(s, i - FARTHEST) * s.heads + head]);
    __syncthreads();
}

/* ---- forward ----------------------------------------------------------------------------------- */

/* The first `seen` keys of a row, beside a sink. */
template <class T, bool BIASED>
static __device__ __forceinline__ void forward_row(const T *in, T *out, int keys, int seen, int query, float sink,
                                                   const float *table)
{
    lane_row<T> row;
    wide_pack<T> x[lane_row<T>::PACKS];
    float most = -INFINITY, sum = 0;
    row.load(in, keys);
    FOR_PACKS(p, keys)
    {
        FOR_NUMBERS(k)
        {
            int key = lane_row<T>::first(p) + k;
            x[p].x[k] = key < seen ? row.at(p, k) + (BIASED ? table[place_of(key - query)] : 0) : -INFINITY;
            most = fmaxf(most, x[p].x[k]);
        }
    }
    most = fmaxf(warp_most(most), sink);
    float shift = most > -INFINITY ? most : 0;
    FOR_PACKS(p, keys)
    {
        FOR_NUMBERS(k)
        {
            x[p].x[k] = __expf(x[p].x[k] - shift);
            sum += x[p].x[k];
        }
    }
    sum = warp_sum(sum) + __expf(sink - shift);
    float share = sum > 0 || isnan(sum) ? 1 / sum : 0;
    FOR_PACKS(p, keys)
    {
        FOR_NUMBERS(k) x[p].x[k] *= share;
        if (lane_row<T>::first(p) < keys)
            store_pack(out + lane_row<T>::first(p), x[p]);
    }
}

/* ROWS rows of one head of one sample; `numbers`: the bias, or a sink of each local head, or NULL. */
template <class T, bool BIASED>
static __device__ __forceinline__ void forward_rows(const T *x, const T *numbers, T *y, const bias_shape &s)
{
    __shared__ float table[BIASED ? TABLE : 1];
    int blocks = ((int)s.seq + ROWS - 1) / ROWS, first = (int)(blockIdx.x % blocks) * ROWS, keys = (int)s.keys;
    int64_t group = blockIdx.x / blocks, head = group % s.local;
    if (BIASED)
        fill_table(s, numbers, s.first_head + head, table);
    float sink = !BIASED && numbers ? wide(numbers[head]) : -INFINITY;
    for (int i = first + threadIdx.x / 32; i < first + ROWS && i < (int)s.seq; i += WARPS) {
        int64_t at = (group * s.seq + i) * keys;
        int query = (int)s.first_query + i;
        forward_row<T, BIASED>(x + at, y + at, keys, s.causal ? min(query + 1, keys) : keys, query, sink, table);
    }
}

template <class T> __device__ void softmax_held(const T *x, const T *sinks, T *y, const bias_shape &s)
{
    forward_rows<T, false>(x, sinks, y, s);
}
template <class T> __device__ void softmax_held_biased(const T *x, const T *bias, T *y, const bias_shape &s)
{
    forward_rows<T, true>(x, bias, y, s);
}
#define SOFTMAX_HELD_ROWS(T) (const T *x, const T *numbers, T *y, bias_shape s)
BOTH(softmax_held, SOFTMAX_HELD_ROWS, (x, numbers, y, s))
BOTH(softmax_held_biased, SOFTMAX_HELD_ROWS, (x, numbers, y, s))

/* ---- gradients --------------------------------------------------------------------------------- */

template <class T>
static __device__ __forceinline__ float dot_of(const lane_row<T> &p, const lane_row<T> &dy, int keys)
{
    float dot = 0;
    FOR_PACKS(i, keys)
    {
        FOR_NUMBERS(k) dot += p.at(i, k) * dy.at(i, k);
    }
    return warp_sum(dot);
}

/* A warp for each row. */
template <class T>
__device__ void softmax_held_input(const T *p, const T *dy, T *dx, int64_t rows, int64_t keys)
{
    int64_t row = thread_index() / 32, at = row * keys;
    lane_row<T> share, slope;
    if (row >= rows)
        return;
    share.load(p + at, (int)keys);
    slope.load(dy + at, (int)keys);
    float dot = dot_of(share, slope, (int)keys);
    FOR_PACKS(i, keys)
    {
        wide_pack<T> out;
        FOR_NUMBERS(k) out.x[k] = share.at(i, k) * (slope.at(i, k) - dot);
        if (lane_row<T>::first(i) < keys)
            store_pack(dx + at + lane_row<T>::first(i), out);
    }
}
#define SOFTMAX_HELD_INPUT(T) (const T *p, const T *dy, T *dx, int64_t rows, int64_t keys)
BOTH(softmax_held_input, SOFTMAX_HELD_INPUT, (p, dy, dx, rows, keys))

/* Adds a row's gradients to the places of their distances (I3); of those as far as it goes, to `far`: back, ahead. */
template <class T>
static __device__ __forceinline__ void add_row(const T *p, const T *dy, int keys, int query, float *table,
                                               float far[2])
{
    lane_row<T> share, slope;
    share.load(p, keys);
    slope.load(dy, keys);
    float dot = dot_of(share, slope, keys);
    FOR_PACKS(i, keys)
    {
        FOR_NUMBERS(k)
        {
            int key = lane_row<T>::first(i) + k, distance = key - query;
            float g = key < keys ? share.at(i, k) * (slope.at(i, k) - dot) : 0;
            if (distance <= -FARTHEST)
                far[0] += g;
            else if (distance >= FARTHEST)
                far[1] += g;
            else if (key < keys)
                table[place_of(distance)] += g;
        }
    }
}

/* Gradients of a head's numbers from `each` of its rows: a block for each head (x) and each part of the rows (y). */
template <class T>
__device__ void softmax_held_bias(const T *p, const T *dy, const bias_shape &s, int64_t each, float *part)
{
    __shared__ float table[WARPS][TABLE];
    __shared__ uint16_t entry[PLACES];
    int64_t head = blockIdx.x, local = head - s.first_head;
    int64_t rows = local >= 0 && local < s.local ? s.batch * s.seq : 0, begin = blockIdx.y * each;
    int64_t end = begin + each < rows ? begin + each : rows;
    float *own = table[threadIdx.x / 32], far[2] = {0, 0};
    for (int i = threadIdx.x % 32; i < TABLE; i += 32)
        own[i] = 0;
    for (int i = threadIdx.x; i < PLACES; i += blockDim.x)
        entry[i] = (uint16_t)entry_of(s, i - FARTHEST);
    __syncwarp();
    for (int64_t i = begin + threadIdx.x / 32; i < end; i += WARPS) {
        int64_t at = ((i / s.seq * s.local + local) * s.seq + i % s.seq) * s.keys;
        add_row(p + at, dy + at, (int)s.keys, (int)(s.first_query + i % s.seq), own, far);
        __syncwarp();
    }
    far[0] = warp_sum(far[0]);
    far[1] = warp_sum(far[1]);
    if (threadIdx.x % 32 == 0) {
        own[place_of(-FARTHEST)] += far[0];
        own[place_of(FARTHEST)] += far[1];
    }
    __syncthreads();
    for (int b = threadIdx.x; b < (int)s.buckets; b += blockDim.x) {
        float sum = 0;
        for (int i = 0; i < PLACES; i++)
            for (int w = 0; entry[i] == b && w < WARPS; w++)
                sum += table[w][place_of(i - FARTHEST)];
        part[(blockIdx.y * s.buckets + b) * s.heads + head] = sum;
    }
}
#define SOFTMAX_HELD_BIAS(T) (const T *p, const T *dy, bias_shape s, int64_t each, float *part)
BOTH(softmax_held_bias, SOFTMAX_HELD_BIAS, (p, dy, s, each, part))

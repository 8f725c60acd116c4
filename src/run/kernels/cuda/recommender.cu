/* recommender.cu - pooled rows of tables, and products of all pairs (kernels/cpu/recommender.c, 1 and 2).
 *
 *   I1  A row's gradient is added up by one block, in the order of the samples.
 */
#include "../../device/cuda/elements.cuh"

/* ---- bag ------------------------------------------------------------------------------------- */

/* Local sizes; ids are (sample, table, lookup), tables (table, row, feature). */
struct bag {
    int64_t samples, tables, rows, width, lookups, first_row;
};

/* The local row of an id, or -1: another device has it. */
static __device__ __forceinline__ int64_t row_at(const bag &b, int64_t id)
{
    int64_t row = id - b.first_row;
    return row >= 0 && row < b.rows ? row : -1;
}

/* A block for each sample and table. */
template <class T>
__device__ void bag_forward(const int64_t *ids, const T *table, T *y, const bag &b)
{
    int64_t group = blockIdx.x, first = group % b.tables * b.rows;
    for (int64_t i = threadIdx.x; i < b.width; i += blockDim.x) {
        float sum = 0;
        for (int64_t k = 0; k < b.lookups; k++) {
            int64_t row = row_at(b, ids[group * b.lookups + k]);
            sum += row < 0 ? 0 : wide(table[(first + row) * b.width + i]);
        }
        y[group * b.width + i] = narrow<T>(sum);
    }
}
#define BAG_FORWARD(T) (const int64_t *ids, const T *table, T *y, bag b)
BOTH(bag_forward, BAG_FORWARD, (ids, table, y, b))

/* Where in the ids the n-th lookup of a table is, counted over all samples. */
static __device__ __forceinline__ int64_t lookup_at(const bag &b, int64_t table, int64_t n)
{
    return (n / b.lookups * b.tables + table) * b.lookups + n % b.lookups;
}

extern "C" __global__ void bag_firsts(uint8_t *first, int64_t count)
{
    for (int64_t i = thread_index(); i < count; i += thread_count())
        first[i] = 1;
}

/* Links lookups of a table that have the same id: a warp for each looks for the next one. next and first are
 * (table, lookup of all samples). */
extern "C" __global__ void bag_links(const int64_t *ids, bag b, int32_t *next, uint8_t *first)
{
    int64_t each = b.samples * b.lookups, at = thread_index() / 32, table = at / each;
    int lane = threadIdx.x % 32;
    if (table >= b.tables)
        return;
    int64_t id = ids[lookup_at(b, table, at % each)], found = -1;
    for (int64_t n = at % each + 1; n < each; n += 32) {
        bool same = n + lane < each && ids[lookup_at(b, table, n + lane)] == id;
        unsigned any = __ballot_sync(0xffffffffu, same);
        if (any) {
            found = n + __ffs(any) - 1;
            break;
        }
    }
    if (lane)
        return;
    next[at] = (int32_t)found;
    if (found >= 0)
        first[table * each + found] = 0;
}

/* The first lookup of every id adds up all of them: a block for each lookup. */
template <class T>
__device__ void bag_tables(const int64_t *ids, const int32_t *next, const uint8_t *first,
                           const T *dy, float *gradient, const bag &b)
{
    int64_t each = b.samples * b.lookups, table = blockIdx.x / each, lead = blockIdx.x % each;
    int64_t row = row_at(b, ids[lookup_at(b, table, lead)]);
    if (row < 0 || !first[blockIdx.x])
        return;
    for (int64_t i = threadIdx.x; i < b.width; i += blockDim.x) {
        float sum = 0;
        for (int64_t n = lead; n >= 0; n = next[table * each + n])
            sum += wide(dy[(n / b.lookups * b.tables + table) * b.width + i]);
        gradient[(table * b.rows + row) * b.width + i] += sum;
    }
}
#define BAG_TABLES(T)                                                                              \
    (const int64_t *ids, const int32_t *next, const uint8_t *first, const T *dy, float *gradient,  \
     bag b)
BOTH(bag_tables, BAG_TABLES, (ids, next, first, dy, gradient, b))

/* ---- interaction ----------------------------------------------------------------------------- */

/* Local features, the first one's number, features of all; elements of an output. */
struct pairs {
    int64_t vectors, width, first, whole, out;
};

/* Vector i of this block's sample: d, then those of the tables. */
template <class T>
static __device__ __forceinline__ const T *vector_at(const T *d, const T *e, const pairs &p,
                                                     int64_t i)
{
    return i ? e + (blockIdx.x * (p.vectors - 1) + i - 1) * p.width : d + blockIdx.x * p.width;
}

/* Where the product of a pair is, after the dense features; i > k. */
static __device__ __forceinline__ int64_t pair_at(int64_t i, int64_t k)
{
    return i * (i - 1) / 2 + k;
}

/* A block for each sample; a warp takes a pair at a time. */
template <class T>
__device__ void interaction_forward(const T *d, const T *e, T *z, const pairs &p)
{
    T *out = z + blockIdx.x * p.out;
    for (int64_t i = threadIdx.x; i < p.whole; i += blockDim.x) {
        bool here = i >= p.first && i < p.first + p.width;
        out[i] = here ? vector_at(d, e, p, 0)[i - p.first] : narrow<T>(0);
    }
    int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int vectors = (int)p.vectors, width = (int)p.width;
    for (int n = warp; n < vectors * vectors; n += warps) {
        int i = n / vectors, k = n % vectors;
        if (k >= i)
            continue;
        const T *x = vector_at(d, e, p, i), *y = vector_at(d, e, p, k);
        float sum = 0;
        for (int f = lane; f < width; f += 32)
            sum += wide(x[f]) * wide(y[f]);
        sum = warp_sum(sum);
        if (lane == 0)
            out[p.whole + pair_at(i, k)] = narrow<T>(sum);
    }
}
#define INTERACTION_FORWARD(T) (const T *d, const T *e, T *z, pairs p)
BOTH(interaction_forward, INTERACTION_FORWARD, (d, e, z, p))

/* A block for each sample, a thread for a feature of a vector at a time; gradients that are not wanted are NULL. */
template <class T>
__device__ void interaction_input(const T *d, const T *e, const T *dz, T *dd, T *de, const pairs &p)
{
    int vectors = (int)p.vectors, width = (int)p.width;
    const T *slope = dz + blockIdx.x * p.out, *pair = slope + p.whole;
    const T *dense = vector_at(d, e, p, 0), *rows = vector_at(d, e, p, 1);
    for (int n = threadIdx.x; n < vectors * width; n += blockDim.x) {
        int i = n / width, f = n % width, at = i * (i + 1) / 2 + i; /* pair_at(i + 1, i) */
        const T *own = pair + i * (i - 1) / 2;
        float sum = i ? wide(own[0]) * wide(dense[f]) : wide(slope[p.first + f]);
        for (int k = 1; k < i; k++)
            sum += wide(own[k]) * wide(rows[(k - 1) * width + f]);
        for (int k = i + 1; k < vectors; at += k, k++)
            sum += wide(pair[at]) * wide(rows[(k - 1) * width + f]);
        if (i == 0 && dd)
            dd[blockIdx.x * p.width + f] = narrow<T>(sum);
        if (i && de)
            de[(blockIdx.x * (p.vectors - 1) + i - 1) * p.width + f] = narrow<T>(sum);
    }
}
#define INTERACTION_INPUT(T) (const T *d, const T *e, const T *dz, T *dd, T *de, pairs p)
BOTH(interaction_input, INTERACTION_INPUT, (d, e, dz, dd, de, p))

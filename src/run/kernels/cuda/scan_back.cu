/* scan_back.cu - gradients of a scan's and of a delta rule's inputs and weights (scan.cu, 5 to 10), after the states of all
 * chunks, and the gradients of those, are there.
 */
#include "scan_tiles.cuh"

/* ---- gradients of x, and of steps as far as they are sums over it ------------------------------ */

/* E of (5), of a scan made here, of a delta rule read. */
template <class T>
static __device__ __forceinline__ void errors_of(const scan_shape &s, const scan_kept &k, const gpu_scan_gradients &g,
                                                 const scan_room &room, const spot &at, int64_t first,
                                                 const double *logs, piece &e)
{
    float *left = tile_at(0), *right = tile_at(1);
    if (s.delta) {
        each_number(e, [&](int i, int p, float &x) {
            bool there = first + p < s.depth && has_position(s, at, i);
            float error = room.errors[there ? row_at(s, at, i, first + p) : 0];
            x = there ? error : 0;
        });
        return;
    }
    add_states<T>(e, s, k, at, false, room.back, first);
    each_number(e, [&](int i, int, float &x) { x *= left_at_end(logs, i); });
    fill_tile(left, [&](int i, int j) { return query_pair(s, room, at, logs, i, j); });
    fill_tile(right, [&](int i, int p) { return gradient_of<T>(s, g, at, i, first + p); });
    __syncthreads();
    tile_product<T, true, false>(e, left, right);
    __syncthreads();
}

/* (9). Grid: chunks of heads. */
template <class T>
static __device__ __forceinline__ void inputs(const scan_shape &s, const scan_kept &k, const gpu_scan_gradients &g,
                                              const scan_room &room)
{
    __shared__ double logs[SCAN_TILE];
    __shared__ float along[SCAN_TILE], skipped[SCAN_TILE], part[2 * SCAN_TILE];
    spot at = head_spot(s, blockIdx.x);
    if (threadIdx.x < SCAN_TILE)
        along[threadIdx.x] = skipped[threadIdx.x] = 0;
    load_logs(logs, s, room, at);
    __syncthreads();
    for (int64_t first = 0; first < s.depth; first += SCAN_TILE) {
        piece e = {};
        errors_of<T>(s, k, g, room, at, first, logs, e);
        add_row_sums(e, along, part, [&](int i, int p, float x) {
            return x * (s.delta ? value_of<T>(s, k, room, at, i, first + p) : input_of<T>(s, k, at, i, first + p));
        });
        add_row_sums(e, skipped, part, [&](int i, int p, float) {
            return gradient_of<T>(s, g, at, i, first + p) * input_of<T>(s, k, at, i, first + p);
        });
        each_number(e, [&](int i, int p, float &x) {
            if (!g.all || first + p >= s.depth || !has_position(s, at, i))
                return;
            float by = s.delta ? k.write[step_at(s, at, i)] : k.step[step_at(s, at, i)];
            float past = s.delta ? 0 : k.skip[at.number] * gradient_of<T>(s, g, at, i, first + p);
            store<T>(g.all, x_at(s, at, i, first + p), by * x + past);
        });
    }
    if (threadIdx.x < SCAN_TILE) {
        room.along[chunk_index(s, at) * SCAN_TILE + threadIdx.x] = along[threadIdx.x];
        room.skipped[chunk_index(s, at) * SCAN_TILE + threadIdx.x] = skipped[threadIdx.x];
    }
}

/* ---- gradients of b and c --------------------------------------------------------------------- */

/* A block has a tile of the state of a group, and of its heads, one after the other, these. */
struct shared_work {
    float *keys, *queries;          /* features of the tile */
    float *left, *right;            /* operands */
    float *by_outputs, *by_errors;  /* Z and X, of all heads so far: what they are multiplied with is the group's */
    float *rows, *columns, *part;   /* S to i, j to M: addends of (10) */
    float *inside;                  /* pairs of (10) */
    double *logs;
    int64_t first;                  /* of the state */
};

/* D of a delta rule. */
static __device__ __forceinline__ float error_of(const scan_shape &s, const scan_kept &k, const scan_room &room,
                                                 const spot &at, int i, int64_t p)
{
    bool there = p < s.depth && has_position(s, at, i);
    float x = room.errors[there ? row_at(s, at, i, p) : 0] * k.write[there ? step_at(s, at, i) : 0];
    return there ? x : 0;
}

/* Z, or X of (8), added to those of earlier heads, and in w.left what they give to the pairs of (10). */
template <class T>
static __device__ __forceinline__ void pair_gradients(const scan_shape &s, const scan_kept &k, const gpu_scan_gradients &g,
                                                      const scan_room &room, const spot &at, const shared_work &w,
                                                      bool of_errors)
{
    piece sum = {};
    for (int64_t first = 0; first < s.depth; first += SCAN_TILE) {
        fill_tile(w.left, [&](int i, int p) {
            return of_errors ? error_of(s, k, room, at, i, first + p) : gradient_of<T>(s, g, at, i, first + p);
        });
        fill_tile(w.right, [&](int i, int p) { return value_of<T>(s, k, room, at, i, first + p); });
        __syncthreads();
        tile_product<T, false, true>(sum, w.left, w.right);
        __syncthreads();
    }
    float *to = of_errors ? w.by_errors : w.by_outputs;
    each_number(sum, [&](int i, int j, float &x) {
        bool counts = of_errors ? j < i : j <= i;
        float own = counts ? left_between(w.logs, i, j) * x : 0;
        float pair = (of_errors ? room.keys : room.queries)[pairs_index(s, at) + i * SCAN_TILE + j];
        w.left[i * SCAN_STEP + j] = j < i ? (of_errors ? -pair : pair) * own : 0;
        to[i * SCAN_STEP + j] += own;
    });
    __syncthreads();
}

/* Sums over pairs j < t <= i of what pair_gradients left (I3): along each row, of which a lane has two numbers, then down a
 * warp's rows, then over warps. Pairs count once: in the blocks of the state's first tile. */
static __device__ __forceinline__ void sum_pairs(const shared_work &w)
{
    const int ROWS = SCAN_TILE * 32 / SCAN_THREADS;
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * ROWS;
    float down[2] = {};
    if (blockIdx.y)
        return;
#pragma unroll 4
    for (int i = first; i < first + ROWS; i++) {
        float2 own = *(const float2 *)(w.left + i * SCAN_STEP + 2 * lane);
        float along = own.x + own.y;
#pragma unroll
        for (int apart = 1; apart < 32; apart *= 2) {
            float other = __shfl_up_sync(0xffffffffu, along, apart);
            along += lane >= apart ? other : 0;
        }
        float before = __shfl_up_sync(0xffffffffu, along, 1);
        before = lane ? before : 0;
        down[0] += 2 * lane <= i ? before : 0;
        down[1] += 2 * lane < i ? before + own.x : 0;
    }
    __syncwarp();
    *(float2 *)(w.left + first * SCAN_STEP + 2 * lane) = make_float2(down[0], down[1]);
    __syncthreads();
    for (int row = 0; threadIdx.x < SCAN_TILE && row < SCAN_TILE; row += ROWS)
        w.inside[threadIdx.x] += w.left[row * SCAN_STEP + threadIdx.x];
    __syncthreads();
}

/* + F of (7) and (8) that goes through a state: factor(i) times rows by states, added to `to`, and its product with the
 * features to the sums of rows. */
template <class T, class ROWS, class FACTOR>
static __device__ __forceinline__ void through_state(const scan_shape &s, const scan_room &room, const spot &at,
                                                     const shared_work &w, const float *states, const float *features,
                                                     float *sums, piece &to, ROWS make, FACTOR factor)
{
    for (int64_t first = 0; first < s.depth; first += SCAN_TILE) {
        piece sum = {};
        fill_tile(w.left, [&](int i, int p) { return make(i, first + p); });
        fill_tile(w.right, [&](int p, int n) { return state_of(s, states, at, first + p, w.first + n); });
        __syncthreads();
        tile_product<T, false, false>(sum, w.left, w.right);
        each_number(sum, [&](int i, int, float &x) { x *= factor(i); });
        add_row_sums(sum, sums, w.part, [&](int i, int n, float x) { return x * features[i * SCAN_STEP + n]; });
#pragma unroll
        for (int i = 0; i < 32; i++)
            (&to.c[0][0][0])[i] += (&sum.c[0][0][0])[i];
    }
}

/* <M, S> g_C of the tile's columns, in every thread. */
static __device__ __forceinline__ float through_chunk(const scan_shape &s, const scan_room &room, const spot &at,
                                                      const shared_work &w)
{
    const int EACH = SCAN_THREADS / SCAN_TILE;
    float sum = 0;
    int64_t n = w.first + threadIdx.x % SCAN_TILE;
#pragma unroll 8
    for (int p = threadIdx.x / SCAN_TILE; p < (int)s.depth; p += EACH)
        sum += state_of(s, room.back, at, p, n) * state_of(s, room.marks, at, p, n);
    return block_sum(sum) * left_from_begin(w.logs, SCAN_TILE - 1);
}

/* (10) of this tile's columns. */
static __device__ __forceinline__ void write_held(const scan_shape &s, const scan_room &room, const spot &at,
                                                  const shared_work &w, float through)
{
    int t = threadIdx.x;
    int64_t all = s.samples * all_heads(s) * s.chunks * SCAN_TILE;
    float sum = through;
    if (t >= SCAN_TILE)
        return;
#pragma unroll 16
    for (int i = 0; i < SCAN_TILE; i++)
        sum += i >= t ? w.rows[i] : w.columns[i];
    room.held[blockIdx.y * all + chunk_index(s, at) * SCAN_TILE + t] = sum + w.inside[t];
}

/* What one head adds to the gradients of b and c. */
template <class T>
static __device__ __forceinline__ void add_head(const scan_shape &s, const scan_kept &k, const gpu_scan_gradients &g,
                                                const scan_room &room, const spot &at, const shared_work &w, piece &db,
                                                piece &dc)
{
    if (threadIdx.x < SCAN_TILE)
        w.rows[threadIdx.x] = w.columns[threadIdx.x] = w.inside[threadIdx.x] = 0;
    load_logs(w.logs, s, room, at);
    __syncthreads();
    pair_gradients<T>(s, k, g, room, at, w, false);
    sum_pairs(w);
    if (s.delta) {
        pair_gradients<T>(s, k, g, room, at, w, true);
        sum_pairs(w);
        through_state<T>(
            s, room, at, w, room.marks, w.keys, w.rows, db,
            [&](int i, int64_t p) { return error_of(s, k, room, at, i, p); },
            [&](int i) { return -left_from_begin(w.logs, i); });
    }
    through_state<T>(
        s, room, at, w, room.marks, w.queries, w.rows, dc,
        [&](int i, int64_t p) { return gradient_of<T>(s, g, at, i, p); },
        [&](int i) { return left_from_begin(w.logs, i); });
    through_state<T>(
        s, room, at, w, room.back, w.keys, w.columns, db,
        [&](int i, int64_t p) { return value_of<T>(s, k, room, at, i, p); },
        [&](int i) { return left_at_end(w.logs, i); });
    write_held(s, room, at, w, through_chunk(s, room, at, w));
    __syncthreads();
}

/* What goes through the pairs of all heads, (7) and (8). */
template <class T>
static __device__ __forceinline__ void add_pairs(const scan_shape &s, const shared_work &w, piece &db, piece &dc)
{
    tile_product<T, false, false>(dc, w.by_outputs, w.keys);
    tile_product<T, true, false>(db, w.by_outputs, w.queries);
    if (!s.delta)
        return;
    piece less = {};
    tile_product<T, false, false>(less, w.by_errors, w.keys);
    tile_product<T, true, false>(less, w.by_errors, w.keys);
#pragma unroll
    for (int i = 0; i < 32; i++)
        (&db.c[0][0][0])[i] -= (&less.c[0][0][0])[i];
}

static __device__ __forceinline__ shared_work work_memory(int64_t first)
{
    float *after = tile_at(6);
    return {tile_at(0), tile_at(1), tile_at(2), tile_at(3), tile_at(4), tile_at(5), after, after + SCAN_TILE,
            after + 2 * SCAN_TILE, after + 4 * SCAN_TILE, (double *)(after + 5 * SCAN_TILE + SCAN_TILE), first};
}

/* Where gradients of b and c of a delta rule wait for the rest of their row. */
static __device__ __forceinline__ int64_t waiting_at(const scan_shape &s, const spot &at, int i, bool is_c)
{
    return ((((at.sample * s.groups + at.group) * s.chunks + at.chunk) * SCAN_TILE + i) * 2 + is_c) * s.state;
}

template <class T>
static __device__ __forceinline__ void leave_shared(const scan_shape &s, const gpu_scan_gradients &g, const scan_room &room,
                                                    const spot &at, const shared_work &w, piece &d, bool is_c)
{
    each_number(d, [&](int i, int n, float &x) {
        if (w.first + n >= s.state || !has_position(s, at, i))
            return;
        int64_t row = (position(s, at, i) * s.groups + at.group) * s.share;
        if (s.delta)
            room.shared[waiting_at(s, at, i, is_c) + w.first + n] = x;
        else
            store<T>(g.all, row + (is_c ? s.c : s.b) + w.first + n, x);
    });
}

/* (7), (8) and (10). Grid: chunks of groups, tiles of the state. */
template <class T>
static __device__ __forceinline__ void shared_gradients(const scan_shape &s, const scan_kept &k, const gpu_scan_gradients &g,
                                                        const scan_room &room)
{
    int64_t block = blockIdx.x;
    spot at = {block / s.chunks / s.groups, block / s.chunks % s.groups, 0, 0, block % s.chunks};
    shared_work w = work_memory((int64_t)blockIdx.y * SCAN_TILE);
    piece db = {}, dc = {};
    fill_tile(w.keys, [&](int i, int n) { return feature_of<T>(s, k, at, false, i, w.first + n); });
    fill_tile(w.queries, [&](int i, int n) { return feature_of<T>(s, k, at, true, i, w.first + n); });
    fill_tile(w.by_outputs, [](int, int) { return 0.0F; });
    fill_tile(w.by_errors, [](int, int) { return 0.0F; });
    for (at.head = 0; at.head < s.heads; at.head++) {
        at.number = at.group * s.heads + at.head;
        add_head<T>(s, k, g, room, at, w, db, dc);
    }
    if (!g.all)
        return;
    add_pairs<T>(s, w, db, dc);
    leave_shared<T>(s, g, room, at, w, db, false);
    leave_shared<T>(s, g, room, at, w, dc, true);
}

/* Of a vector that was divided by its length (delta.c, 6): a warp for each of the two, of each group and position. */
template <class T>
static __device__ __forceinline__ void normed(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room)
{
    int64_t row = thread_index() / 32, is_c = row % 2, places = s.chunks * SCAN_TILE;
    int64_t place = row / 2 % places, group = row / 2 / places % s.groups, sample = row / 2 / places / s.groups;
    int lane = threadIdx.x % 32;
    if (sample >= s.samples || place >= s.seq)
        return;
    spot at = {sample, group, 0, 0, place / SCAN_TILE};
    int i = (int)(place % SCAN_TILE);
    int64_t from = position(s, at, i) * s.groups + group;
    const float *d = room.shared + waiting_at(s, at, i, is_c);
    float dot = 0;
    for (int64_t n = lane; n < s.state; n += 32)
        dot += d[n] * feature_of<T>(s, k, at, is_c, i, n);
    dot = warp_sum(dot);
    for (int64_t n = lane; n < s.state; n += 32)
        store<T>(g.all, from * s.share + (is_c ? s.c : s.b) + n,
                  (d[n] - feature_of<T>(s, k, at, is_c, i, n) * dot) * k.shrink[2 * from + (is_c ? 0 : 1)]);
}

/* ---- gradients of steps and weights ------------------------------------------------------------ */

/* Of one position of one head; returns d(ln r). */
static __device__ __forceinline__ float held_at(const scan_shape &s, const scan_room &room, int64_t i)
{
    int64_t all = s.samples * all_heads(s) * s.chunks * SCAN_TILE;
    float sum = 0;
    for (int64_t n = 0; n * SCAN_TILE < s.state; n++)
        sum += room.held[n * all + i];
    return sum;
}

/* Grid: heads. */
template <class T>
static __device__ __forceinline__ void rates(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room)
{
    float sums[SCAN_SUMS] = {};
    for (int64_t t = threadIdx.x; t < s.seq; t += blockDim.x) {
        spot at = head_spot(s, blockIdx.x * s.chunks + t / SCAN_TILE);
        int64_t place = blockIdx.x * s.chunks * SCAN_TILE + t, to = step_at(s, at, (int)(t % SCAN_TILE));
        float held = held_at(s, room, place), along = room.along[place], rate = k.rate[at.number];
        float d_step = ((s.delta ? 0 : along) + held * rate) * k.slope[to];
        sums[0] += held * k.step[to] * rate;
        sums[1] += room.skipped[place];
        sums[2] += d_step;
        if (!g.steps)
            continue;
        int64_t write = s.delta ? to / s.heads * 2 * s.heads + to % s.heads : to;
        store<T>(g.steps, s.delta ? write + s.heads : write, d_step);
        if (s.delta)
            store<T>(g.steps, write, along * (1 - k.write[to]));
    }
    for (int i = 0; i < SCAN_SUMS; i++) {
        float all = block_sum(sums[i]);
        if (threadIdx.x == 0)
            k.sums[((s.first * all_heads(s)) + blockIdx.x) * SCAN_SUMS + i] = all;
    }
}

/* Gradients of the weights, over samples: a thread for each head. */
extern "C" __global__ void scan_weights(scan_shape s, scan_kept k, float *decay, float *skip, float *bias)
{
    int64_t head = thread_index(), heads = all_heads(s);
    if (head >= heads)
        return;
    float sum[SCAN_SUMS] = {};
    for (int64_t sample = 0; sample < s.samples; sample++)
        for (int i = 0; i < SCAN_SUMS; i++)
            sum[i] += k.sums[(sample * heads + head) * SCAN_SUMS + i];
    decay[head] += sum[0];
    if (skip)
        skip[head] += sum[1];
    bias[head] += sum[2];
}

/* ---- for the host (scan.c) --------------------------------------------------------------------- */

#define SCANS(T, NAME)                                                                             \
    extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 4)                                  \
        scan_x_##NAME(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room)             \
    {                                                                                              \
        if (!is_done(s, k))                                                                        \
            inputs<T>(s, k, g, room);                                                              \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(SCAN_THREADS)                                     \
        scan_shared_##NAME(scan_shape s, scan_kept k, gpu_scan_gradients g, scan_room room)        \
    {                                                                                              \
        if (!is_done(s, k))                                                                        \
            shared_gradients<T>(s, k, g, room);                                                    \
    }                                                                                              \
    extern "C" __global__ void scan_normed_##NAME(scan_shape s, scan_kept k, gpu_scan_gradients g, \
                                                  scan_room room)                                  \
    {                                                                                              \
        normed<T>(s, k, g, room);                                                                  \
    }                                                                                              \
    extern "C" __global__ void scan_rates_##NAME(scan_shape s, scan_kept k, gpu_scan_gradients g,  \
                                                 scan_room room)                                   \
    {                                                                                              \
        if (!is_done(s, k))                                                                        \
            rates<T>(s, k, g, room);                                                               \
    }
SCANS(float, fp32)
SCANS(bf16, bf16)
SCANS(fp16, fp16)

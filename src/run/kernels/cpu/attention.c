/* attention.c - attention without the score matrix: blocks of queries against blocks of keys.
 *
 *   S = a Q K^T, P = softmax(S), O = P V,  a = 1 / sqrt(depth)                                   (1)
 *
 * Forward, for each block of keys in turn, with the largest score so far m and the sum l of a row
 * (Milakov and Gimelshein, 2018; FlashAttention, Algorithm 1):
 *
 *   m' = max(m, max S),  l' = l e^(m - m') + sum e^(S - m'),  O' = O e^(m - m') + e^(S - m') V   (2)
 *
 * and at the end O / l; kept is the row's L = m + ln l. Backward (FlashAttention, Algorithm 4):
 *
 *   P = e^(S - L),  dV = P^T dO,  dP = dO V^T,  dS = P (dP - rowsum(dO O))                       (3)
 *   dQ = a dS K,  dK = a dS^T Q                                                                  (4)
 *
 *   I1  A query sees the keys whose index in the whole is not above its own where the operator is
 *       causal, with a window no more than so many of the last of them, and no key after the end of
 *       the whole. Blocks that no query sees are not computed.
 *   I2  dK and dV sum over the query heads of a group.
 *   I3  Where the keys are split, each device has the rows O_i, L_i of its own (1), and all of them
 *
 *         m = max L_i,  L = m + ln sum e^(L_i - m),  O = sum e^(L_i - L) O_i                     (5)
 *
 *       through `reduce`; then (3) holds as it is, with a part of dQ on each.
 *   I4  A head's sink z counts as a score whose value is zero: a row's m and l start at z and 1, or
 *       where the keys are split, e^(z - m) joins the sum of (5), once. All of (3) and (4) stay, and
 *
 *         dz = - sum over rows of e^(z - L) rowsum(dO O)                                         (6)
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

/* Scores of a block: 64 KiB, which leaves the rest of a second-level cache to keys and values. Few
 * queries, since half a block of them is wasted at a causal diagonal. */
enum { QUERIES = 64, KEYS = 256 };

struct attention_call {
    const struct kernel_call *call;
    int64_t batch, head, group, seq, kv, depth, value;
    float scale;
    float *k, *v, *dk, *dv;           /* of one key/value head, (kv, depth), (kv, value) */
    float *q, *o, *d_o, *dq, *s, *dp; /* of one block of queries */
    float *most, *sum;                /* of its rows */
    bool split;                       /* the keys are (I3) */
    float *top, *weight;              /* of all rows: m and e^(L_i - m) */
    float *sink;                      /* of all query heads; NULL: none (I4) */
    void *out;                        /* the output, or the fp32 that it is summed up in */
    enum dtype out_dtype;
};

/* One block of queries of one head. */
struct query_block {
    int64_t sample, head, query_head; /* local */
    int64_t first, rows;              /* queries */
    int64_t from, seen;               /* keys from .. seen may be seen by some of them */
};

static int64_t all_rows(const struct attention_call *a)
{
    return a->batch * a->head * a->group * a->seq;
}

static int64_t query_heads(const struct attention_call *a)
{
    return a->head * a->group;
}

static int64_t lay_out(struct attention_call *a, float *room)
{
    int64_t split_rows = a->split ? all_rows(a) : 0;
    const struct {
        float **to;
        int64_t floats;
    } parts[] = {
        {&a->k, a->kv * a->depth},     {&a->v, a->kv * a->value},    {&a->dk, a->kv * a->depth},
        {&a->dv, a->kv * a->value},    {&a->q, QUERIES * a->depth},  {&a->o, QUERIES * a->value},
        {&a->d_o, QUERIES * a->value}, {&a->dq, QUERIES * a->depth}, {&a->s, QUERIES * KEYS},
        {&a->dp, QUERIES * KEYS},      {&a->most, QUERIES},          {&a->sum, QUERIES},
        {&a->top, split_rows},         {&a->weight, split_rows},     {&a->sink, query_heads(a)},
    };
    int64_t all = 0;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (room)
            *parts[i].to = room + all;
        all += parts[i].floats;
    }
    a->out = a->call->output;
    a->out_dtype = a->call->dtype;
    if (!a->split || a->out_dtype == DTYPE_FP32)
        return all;
    a->out = room ? room + all : NULL;
    a->out_dtype = DTYPE_FP32;
    return all + all_rows(a) * a->value;
}

static struct attention_call attention_of(const struct kernel_call *call)
{
    const int64_t *size = call->size;
    int64_t value = call->op->value_depth ? call->op->value_depth : size[5];
    struct attention_call a = {call,    size[0], size[1],
                               size[2], size[3], size[4],
                               size[5], value,   1.0F / sqrtf((float)size[5])};
    a.split = a.kv < call->whole[4];
    return a;
}

/* The call with its room, and the sinks in it. */
static struct attention_call attention_begun(const struct kernel_call *call)
{
    struct attention_call a = attention_of(call);
    lay_out(&a, call->scratch);
    if (!call->op->sinks) {
        a.sink = NULL;
        return a;
    }
    const float *sinks = tile_read(call->dtype, call->weight[0], 0, query_heads(&a), a.sink);
    if (sinks != a.sink)
        memcpy(a.sink, sinks, (size_t)query_heads(&a) * sizeof *sinks);
    return a;
}

static int64_t attention_scratch(const struct kernel_call *call)
{
    struct attention_call a = attention_of(call);
    return lay_out(&a, NULL);
}

static int64_t attention_kept(const struct kernel_call *call)
{
    struct attention_call a = attention_of(call);
    return all_rows(&a) * (int64_t)sizeof(float);
}

/* ---- rows in and out ------------------------------------------------------------------------- */

/* Rows of a head, to or from their place among all heads of (batch, positions, heads width). */
struct rows {
    int64_t first, step, count, width;
};

static struct rows rows_of(int64_t sample, int64_t positions, int64_t heads, int64_t head,
                           int64_t width, int64_t first, int64_t count)
{
    return (struct rows){((sample * positions + first) * heads + head) * width, heads * width,
                         count, width};
}

static struct rows query_rows(const struct attention_call *a, const struct query_block *b,
                              int64_t width)
{
    return rows_of(b->sample, a->seq, a->head * a->group, b->query_head, width, b->first, b->rows);
}

static struct rows key_rows(const struct attention_call *a, const struct query_block *b,
                            int64_t width)
{
    return rows_of(b->sample, a->kv, a->head, b->head, width, 0, a->kv);
}

static void gather(enum dtype dtype, const void *from, struct rows rows, float *to)
{
    for (int64_t i = 0; i < rows.count; i++) {
        const float *row =
            tile_read(dtype, from, rows.first + i * rows.step, rows.width, to + i * rows.width);
        if (row != to + i * rows.width)
            memcpy(to + i * rows.width, row, (size_t)rows.width * sizeof *to);
    }
}

static void scatter(enum dtype dtype, const float *from, struct rows rows, void *to)
{
    for (int64_t i = 0; to && i < rows.count; i++) {
        const float *row = from + i * rows.width;
        int64_t at = rows.first + i * rows.step;
        if (dtype == DTYPE_FP32)
            memcpy((float *)to + at, row, (size_t)rows.width * sizeof *row);
        else
            narrow(dtype, row, rows.width, to, at);
    }
}

/* ---- what is seen (I1) ----------------------------------------------------------------------- */

static int64_t within(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

static int64_t seen_by(const struct attention_call *a, int64_t query)
{
    const int64_t *begin = a->call->begin;
    int64_t there = within(a->call->whole[4] - begin[4], a->kv);
    return a->call->op->causal ? within(begin[3] + query + 1 - begin[4], there) : there;
}

/* The first key that a query sees. */
static int64_t seen_from(const struct attention_call *a, int64_t query)
{
    const int64_t *begin = a->call->begin;
    int64_t first = first_seen(a->call->op, begin[3] + query);
    return within(first - begin[4], seen_by(a, query));
}

static int64_t blocks_of(const struct attention_call *a)
{
    return a->group * ceil_div(a->seq, QUERIES);
}

/* Block i of those that use key/value head `head`. */
static struct query_block block_at(const struct attention_call *a, int64_t sample, int64_t head,
                                   int64_t i)
{
    int64_t each = ceil_div(a->seq, QUERIES), first = i % each * QUERIES;
    int64_t rows = a->seq - first < QUERIES ? a->seq - first : QUERIES;
    return (struct query_block){sample,
                                head,
                                head * a->group + i / each,
                                first,
                                rows,
                                seen_from(a, first),
                                seen_by(a, first + rows - 1)};
}

/* The kept row sums of a block's rows: (batch, query heads, seq). */
static float *kept_of(const struct attention_call *a, const struct query_block *b)
{
    int64_t head = b->sample * a->head * a->group + b->query_head;
    return (float *)a->call->kept + head * a->seq + b->first;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Zero but for what is seen of a row, from .. seen. */
static void clear_unseen(float *row, int64_t from, int64_t seen, int64_t count)
{
    memset(row, 0, (size_t)from * sizeof *row);
    memset(row + seen, 0, (size_t)(count - seen) * sizeof *row);
}

/* (2) for keys first .. first + count, whose scores are in a->s. */
static void take_scores(struct attention_call *a, const struct query_block *b, int64_t first,
                        int64_t count)
{
    for (int64_t r = 0; r < b->rows; r++) {
        float *s = a->s + r * count;
        int64_t seen = within(seen_by(a, b->first + r) - first, count);
        int64_t from = within(seen_from(a, b->first + r) - first, seen);
        float most = fmaxf(a->most[r], row_most(s + from, seen - from));
        float shift = most > -INFINITY ? most : 0; /* nothing seen so far: all 0 */
        float again = exp_of(a->most[r] - shift);
        a->sum[r] = a->sum[r] * again + row_exp(s + from, seen - from, shift, s + from);
        clear_unseen(s, from, seen, count);
        if (first > b->from && again != 1)
            row_scale(a->o + r * a->value, a->value, again, a->o + r * a->value);
        a->most[r] = most;
    }
}

static void finish_rows(struct attention_call *a, const struct query_block *b)
{
    float *kept = kept_of(a, b);
    for (int64_t r = 0; r < b->rows; r++) {
        float *o = a->o + r * a->value;
        bool any = a->sum[r] > 0 || isnan(a->sum[r]);
        row_scale(o, a->value, any ? 1 / a->sum[r] : 0, o);
        kept[r] = any ? a->most[r] + logf(a->sum[r]) : -INFINITY;
    }
}

static void forward_block(struct attention_call *a, const struct query_block *b)
{
    const struct kernel_call *call = a->call;
    gather(call->dtype, call->input[0], query_rows(a, b, a->depth), a->q);
    for (int64_t r = 0; r < b->rows; r++) {
        bool starts = a->sink && !a->split; /* I4 */
        a->most[r] = starts ? a->sink[b->query_head] : -INFINITY;
        a->sum[r] = starts ? 1 : 0;
    }
    if (b->seen == b->from)
        memset(a->o, 0, (size_t)(b->rows * a->value) * sizeof *a->o);
    for (int64_t first = b->from; first < b->seen; first += KEYS) {
        int64_t count = b->seen - first < KEYS ? b->seen - first : KEYS;
        product(b->rows, count, a->depth, a->scale, (struct matrix){a->q, a->depth, false},
                (struct matrix){a->k + first * a->depth, a->depth, true}, 0, a->s, count);
        take_scores(a, b, first, count);
        product(b->rows, a->value, count, 1, (struct matrix){a->s, count, false},
                (struct matrix){a->v + first * a->value, a->value, false}, first > b->from ? 1 : 0,
                a->o, a->value);
    }
    finish_rows(a, b);
    scatter(a->out_dtype, a->o, query_rows(a, b, a->value), a->out);
}

/* (5) */
static void merge_rows(struct attention_call *a)
{
    const struct kernel_call *call = a->call;
    float *kept = call->kept, *out = a->out;
    int64_t rows = all_rows(a), heads = a->head * a->group;
    memcpy(a->top, kept, (size_t)rows * sizeof *kept);
    call->reduce(call->context, REDUCE_MAX, a->top, rows);
    for (int64_t i = 0; a->sink && i < rows; i++)
        a->top[i] = fmaxf(a->top[i], a->sink[i / a->seq % heads]);
    for (int64_t i = 0; i < rows; i++)
        kept[i] = a->weight[i] = kept[i] > -INFINITY ? exp_of(kept[i] - a->top[i]) : 0;
    call->reduce(call->context, REDUCE_SUM, a->weight, rows);
    for (int64_t i = 0; i < rows; i++) {
        int64_t sample = i / (heads * a->seq), head = i / a->seq % heads;
        if (a->sink)
            a->weight[i] += exp_of(a->sink[head] - a->top[i]);
        struct rows row = rows_of(sample, a->seq, heads, head, a->value, i % a->seq, 1);
        row_scale(out + row.first, a->value, kept[i] > 0 ? kept[i] / a->weight[i] : 0,
                  out + row.first);
        kept[i] = a->top[i] + logf(a->weight[i]);
    }
    call->reduce(call->context, REDUCE_SUM, out, rows * a->value);
    if (call->dtype != DTYPE_FP32)
        narrow(call->dtype, out, rows * a->value, call->output, 0);
}

static void gather_keys(struct attention_call *a, const struct query_block *b)
{
    gather(a->call->dtype, a->call->input[1], key_rows(a, b, a->depth), a->k);
    gather(a->call->dtype, a->call->input[2], key_rows(a, b, a->value), a->v);
}

static void attention_forward(const struct kernel_call *call)
{
    struct attention_call a = attention_begun(call);
    for (int64_t i = 0; i < a.batch * a.head; i++) {
        struct query_block whole = {i / a.head, i % a.head};
        gather_keys(&a, &whole);
        for (int64_t n = 0; n < blocks_of(&a); n++) {
            struct query_block b = block_at(&a, i / a.head, i % a.head, n);
            forward_block(&a, &b);
        }
    }
    if (a.split && call->reduce)
        merge_rows(&a);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* (3): p from scores, ds from dp, in place. */
VECTOR static void row_gradient(float *restrict s, float *restrict dp, int64_t count, float kept,
                                float dot)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        s[i] = exp_of(s[i] - kept);
        dp[i] = s[i] * (dp[i] - dot);
    }
}

static void backward_keys(struct attention_call *a, const struct query_block *b, int64_t first,
                          int64_t count)
{
    const float *kept = kept_of(a, b);
    struct matrix q = {a->q, a->depth, false}, d_o = {a->d_o, a->value, false};
    struct matrix k = {a->k + first * a->depth, a->depth, false};
    struct matrix k_turned = {k.at, k.step, true};
    struct matrix v_turned = {a->v + first * a->value, a->value, true};
    product(b->rows, count, a->depth, a->scale, q, k_turned, 0, a->s, count);
    product(b->rows, count, a->value, 1, d_o, v_turned, 0, a->dp, count);
    for (int64_t r = 0; r < b->rows; r++) {
        float *s = a->s + r * count, *dp = a->dp + r * count;
        int64_t seen = within(seen_by(a, b->first + r) - first, count);
        int64_t from = within(seen_from(a, b->first + r) - first, seen);
        row_gradient(s + from, dp + from, seen - from, kept[r], a->sum[r]);
        clear_unseen(s, from, seen, count);
        clear_unseen(dp, from, seen, count);
    }
    struct matrix p_turned = {a->s, count, true}, ds = {a->dp, count, false};
    struct matrix ds_turned = {a->dp, count, true};
    product(count, a->value, b->rows, 1, p_turned, d_o, 1, a->dv + first * a->value, a->value);
    product(count, a->depth, b->rows, a->scale, ds_turned, q, 1, a->dk + first * a->depth,
            a->depth);
    product(b->rows, a->depth, count, a->scale, ds, k, first > b->from ? 1 : 0, a->dq, a->depth);
}

/* rowsum(dO O) */
static void gather_sums(struct attention_call *a, const struct query_block *b)
{
    const struct kernel_call *call = a->call;
    gather(call->dtype, call->output, query_rows(a, b, a->value), a->o);
    gather(call->dtype, call->output_gradient, query_rows(a, b, a->value), a->d_o);
    for (int64_t r = 0; r < b->rows; r++)
        a->sum[r] = row_dot(a->o + r * a->value, a->d_o + r * a->value, a->value);
}

static void backward_block(struct attention_call *a, const struct query_block *b)
{
    const struct kernel_call *call = a->call;
    gather(call->dtype, call->input[0], query_rows(a, b, a->depth), a->q);
    gather_sums(a, b);
    if (b->seen == b->from)
        memset(a->dq, 0, (size_t)(b->rows * a->depth) * sizeof *a->dq);
    for (int64_t first = b->from; first < b->seen; first += KEYS)
        backward_keys(a, b, first, b->seen - first < KEYS ? b->seen - first : KEYS);
    scatter(call->dtype, a->dq, query_rows(a, b, a->depth), call->input_gradient[0]);
}

static void attention_input(const struct kernel_call *call)
{
    struct attention_call a = attention_begun(call);
    for (int64_t i = 0; i < a.batch * a.head; i++) {
        struct query_block whole = {i / a.head, i % a.head};
        gather_keys(&a, &whole);
        memset(a.dk, 0, (size_t)(a.kv * a.depth) * sizeof *a.dk);
        memset(a.dv, 0, (size_t)(a.kv * a.value) * sizeof *a.dv);
        for (int64_t n = 0; n < blocks_of(&a); n++) { /* I2 */
            struct query_block b = block_at(&a, i / a.head, i % a.head, n);
            backward_block(&a, &b);
        }
        scatter(call->dtype, a.dk, key_rows(&a, &whole, a.depth), call->input_gradient[1]);
        scatter(call->dtype, a.dv, key_rows(&a, &whole, a.value), call->input_gradient[2]);
    }
}

/* (6); where the keys are split, each device has whole rows, and so all of the gradient. */
static void attention_weight(const struct kernel_call *call)
{
    struct attention_call a = attention_begun(call);
    for (int64_t i = 0; a.sink && i < a.batch * a.head; i++)
        for (int64_t n = 0; n < blocks_of(&a); n++) {
            struct query_block b = block_at(&a, i / a.head, i % a.head, n);
            const float *kept = kept_of(&a, &b);
            gather_sums(&a, &b);
            for (int64_t r = 0; r < b.rows; r++)
                call->weight_gradient[0][b.query_head] -=
                    exp_of(a.sink[b.query_head] - kept[r]) * a.sum[r];
        }
}

const struct cpu_kernel CPU_ATTENTION = {
    .refuses = attention_refuses,
    .kept_bytes = attention_kept,
    .scratch_floats = attention_scratch,
    .phase = {attention_forward, attention_input, attention_weight},
};

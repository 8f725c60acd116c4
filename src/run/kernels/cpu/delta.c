/* delta.c - the gated delta rule, position by position (Yang et al., 2024, Eq. 10).
 *
 * Of a head with the state S (depth x state), q and k of length one, and the weights a (decay) and c (step bias)
 *
 *   b_t = sigmoid(beta_t),  s_t = ln(1 + e^(dt_t + c)),  r_t = e^(-s_t e^a)                     (1)
 *   e_t = v_t - r_t S_(t-1) k_t,  S_t = r_t S_(t-1) + b_t e_t k_t^T,  y_t = S_t q_t / sqrt(state)  (2)
 *
 * Backward, from the last position to the first, with G_t = dy_t q_t^T / sqrt(state) + r_(t+1) M_(t+1)
 *
 *   dv_t = b_t G_t k_t,  M_t = G_t - dv_t k_t^T,  u = sum(M_t S_(t-1)) r_t                      (3)
 *   dq_t = S_t^T dy_t / sqrt(state),  dk_t = b_t G_t^T e_t - r_t S_(t-1)^T dv_t,  db_t = e_t^T G_t k_t  (4)
 *   ds_t = -u e^a,  d(dt_t) = ds_t s'(dt_t + c), which sums up to dc;  da = sum of ds_t s_t      (5)
 *   of a vector x that is divided by its length n: dx = (dz - z (z . dz)) / n,  z = x / n        (6)
 *
 *   I1  A key head's value heads share q and k: their gradients are sums over them.
 *   I2  Kept: q, k and v, the lengths of q and k, b, s and its slope of every head, and e^a.
 */
#include "run/kernels/cpu/cpu.h"
#include "run/kernels/cpu/spans.h"

static const float LEAST_SQUARE = 1e-6F; /* added to the square of a length */

struct delta_call {
    const struct kernel_call *call;
    int64_t batch, groups, seq, heads, depth, state; /* value heads of a key head */
    int64_t share; /* features of a key head: q, k, v of its heads */
    float *qkv, *length, *write, *step, *slope, *rate; /* I2 */
    float *spans, *back;                               /* of one head; G of (3) */
    float *room;
};

static int64_t positions(const struct delta_call *s)
{
    return s->batch * s->seq;
}

static int64_t all_heads(const struct delta_call *s)
{
    return s->groups * s->heads;
}

static int64_t wide(const struct delta_call *s)
{
    return positions(s) * s->groups * s->share;
}

static struct delta_call sizes_of(const struct kernel_call *call)
{
    struct delta_call s = {.call = call,
                           .batch = call->size[0],
                           .groups = call->size[1],
                           .seq = call->size[2],
                           .heads = call->op->scan_heads,
                           .depth = call->size[3] / call->op->scan_heads,
                           .state = call->op->scan_state};
    s.share = call->size[3] + 2 * s.state;
    return s;
}

static int64_t delta_kept(const struct kernel_call *call)
{
    struct delta_call s = sizes_of(call);
    int64_t heads = all_heads(&s);
    int64_t floats = wide(&s) + positions(&s) * (2 * s.groups + 3 * heads) + heads;
    return floats * (int64_t)sizeof(float);
}

static int64_t delta_scratch(const struct kernel_call *call)
{
    struct delta_call s = sizes_of(call);
    int64_t heads = positions(&s) * all_heads(&s), one = s.depth * s.state;
    /* in fp32: the inputs or their gradients, the output or its gradient, two weights */
    return spans_floats(s.seq, one) + one + wide(&s) + 2 * heads + 2 * heads * s.depth +
           2 * all_heads(&s);
}

static struct delta_call delta_of(const struct kernel_call *call)
{
    struct delta_call s = sizes_of(call);
    int64_t heads = positions(&s) * all_heads(&s), one = s.depth * s.state;
    s.qkv = call->kept;
    s.length = s.qkv + wide(&s);
    s.write = s.length + positions(&s) * 2 * s.groups;
    s.step = s.write + heads;
    s.slope = s.step + heads;
    s.rate = s.slope + heads;
    s.spans = call->scratch;
    s.back = s.spans + spans_floats(s.seq, one);
    s.room = s.back + one;
    return s;
}

/* ---- one head -------------------------------------------------------------------------------- */

/* What a backward pass makes; NULL: not wanted. */
struct delta_gradients {
    const float *dy;
    float *qkv, *rates;  /* of the inputs */
    float *decay, *bias; /* of the weights, added to */
};

/* One value head of one key head of one sample, on its way through the positions. */
struct delta_walk {
    const struct delta_call *s;
    int64_t sample, group, head;
    const struct delta_gradients *g;
    float *y;
};

static struct delta_walk walk_of(const struct delta_call *s, int64_t i)
{
    return (struct delta_walk){s, i / s->heads / s->groups, i / s->heads % s->groups, i % s->heads};
}

/* Where a position's query begins: its key and the values of all heads come after it. */
static int64_t query_at(const struct delta_walk *w, int64_t t)
{
    return ((w->sample * w->s->seq + t) * w->s->groups + w->group) * w->s->share;
}

static int64_t value_at(const struct delta_walk *w, int64_t t)
{
    return query_at(w, t) + 2 * w->s->state + w->head * w->s->depth;
}

static int64_t head_index(const struct delta_walk *w)
{
    return w->group * w->s->heads + w->head;
}

static int64_t step_at(const struct delta_walk *w, int64_t t)
{
    return (w->sample * w->s->seq + t) * all_heads(w->s) + head_index(w);
}

static float kept_share(const struct delta_walk *w, int64_t t) /* r of (1) */
{
    return exp_of(-w->s->step[step_at(w, t)] * w->s->rate[head_index(w)]);
}

static void advance(void *walker, int64_t t, const float *before, float *after)
{
    const struct delta_walk *w = walker;
    const struct delta_call *s = w->s;
    const float *k = s->qkv + query_at(w, t) + s->state, *v = s->qkv + value_at(w, t);
    float keep = kept_share(w, t), write = s->write[step_at(w, t)];
    for (int64_t p = 0; p < s->depth; p++) { /* (2) */
        const float *from = before + p * s->state;
        float *to = after + p * s->state;
        float add = write * (v[p] - keep * row_dot(from, k, s->state));
        for (int64_t n = 0; n < s->state; n++)
            to[n] = keep * from[n] + add * k[n];
    }
}

static float query_scale(const struct delta_call *s)
{
    return 1.0F / sqrtf((float)s->state);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Divides q and k of every key head by their lengths. */
static void normalise(struct delta_call *s)
{
    for (int64_t i = 0; i < positions(s) * s->groups * 2; i++) {
        float *x = s->qkv + i / 2 * s->share + i % 2 * s->state;
        s->length[i] = sqrtf(row_squares(x, s->state, 0) + LEAST_SQUARE);
        row_scale(x, s->state, 1 / s->length[i], x);
    }
}

static void keep_inputs(struct delta_call *s)
{
    const struct kernel_call *call = s->call;
    int64_t heads = all_heads(s), each = s->heads;
    const float *qkv = whole_read(call->dtype, call->input[0], wide(s), &s->room);
    const float *rates =
        whole_read(call->dtype, call->input[1], 2 * positions(s) * heads, &s->room);
    const float *decay = whole_read(call->dtype, call->weight[0], heads, &s->room);
    const float *bias = whole_read(call->dtype, call->weight[1], heads, &s->room);
    memcpy(s->qkv, qkv, (size_t)wide(s) * sizeof *qkv);
    normalise(s);
    for (int64_t i = 0; i < heads; i++)
        s->rate[i] = exp_of(decay[i]);
    for (int64_t i = 0; i < positions(s) * heads; i++) { /* (1) */
        const float *at = rates + i / each * 2 * each + i % each;
        float raw = at[each] + bias[i % heads];
        s->write[i] = sigmoid_of(at[0]);
        s->step[i] = raw > 20 ? raw : log1pf(exp_of(raw));
        s->slope[i] = sigmoid_of(raw);
    }
}

static void delta_head(struct delta_walk *w, float *y)
{
    const struct delta_call *s = w->s;
    float *now = s->spans;
    memset(now, 0, (size_t)(s->depth * s->state) * sizeof *now);
    for (int64_t t = 0; t < s->seq; t++) {
        const float *q = s->qkv + query_at(w, t);
        float *out = y + step_at(w, t) * s->depth;
        advance(w, t, now, now);
        for (int64_t p = 0; p < s->depth; p++)
            out[p] = query_scale(s) * row_dot(now + p * s->state, q, s->state);
    }
}

static void delta_forward(const struct kernel_call *call)
{
    struct delta_call s = delta_of(call);
    int64_t inner = positions(&s) * all_heads(&s) * s.depth;
    keep_inputs(&s);
    float *y = whole_write(call->dtype, call->output, inner, &s.room);
    for (int64_t i = 0; i < s.batch * all_heads(&s); i++) {
        struct delta_walk w = walk_of(&s, i);
        delta_head(&w, y);
    }
    tile_done(call->dtype, call->output, 0, inner, y);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* What one row of the state gives: sums for b and r, and (3) and (4) for q, k and v. */
struct row_sums {
    float write, held;
};

static void back_row(const struct delta_walk *w, int64_t t, int64_t p, const float *was,
                     const float *is, struct row_sums *sums)
{
    const struct delta_call *s = w->s;
    const float *q = s->qkv + query_at(w, t), *k = q + s->state;
    float *back = s->back + p * s->state, keep = kept_share(w, t), write = s->write[step_at(w, t)];
    float dy = query_scale(s) * w->g->dy[step_at(w, t) * s->depth + p];
    for (int64_t n = 0; n < s->state; n++)
        back[n] += dy * q[n];
    float error = s->qkv[value_at(w, t) + p] - keep * row_dot(was, k, s->state);
    float along = row_dot(back, k, s->state), dv = write * along;
    sums->write += error * along;
    if (w->g->qkv) {
        float *dq = w->g->qkv + query_at(w, t), *dk = dq + s->state;
        w->g->qkv[value_at(w, t) + p] = dv;
        for (int64_t n = 0; n < s->state; n++) {
            dq[n] += dy * is[n];
            dk[n] += write * error * back[n] - dv * keep * was[n];
        }
    }
    for (int64_t n = 0; n < s->state; n++)
        back[n] -= dv * k[n];
    sums->held += row_dot(back, was, s->state);
    row_scale(back, s->state, keep, back);
}

static void back_step(void *walker, int64_t t, const float *before, const float *after)
{
    const struct delta_walk *w = walker;
    const struct delta_call *s = w->s;
    int64_t at = step_at(w, t), head = head_index(w), each = s->heads;
    struct row_sums sums = {0};
    for (int64_t p = 0; p < s->depth; p++)
        back_row(w, t, p, before + p * s->state, after + p * s->state, &sums);
    float ds = -sums.held * kept_share(w, t) * s->rate[head], write = s->write[at]; /* (5) */
    if (w->g->rates) {
        float *rates = w->g->rates + at / each * 2 * each + at % each;
        rates[0] = sums.write * write * (1 - write);
        rates[each] = ds * s->slope[at];
    }
    if (w->g->decay) {
        w->g->decay[head] += ds * s->step[at];
        w->g->bias[head] += ds * s->slope[at];
    }
}

static void back_all(const struct delta_call *s, const struct delta_gradients *g)
{
    int64_t one = s->depth * s->state;
    for (int64_t i = 0; i < s->batch * all_heads(s); i++) {
        struct delta_walk w = walk_of(s, i);
        w.g = g;
        memset(s->back, 0, (size_t)one * sizeof *s->back);
        spans_back(&(struct spans){s->seq, one, s->spans, &w, advance, back_step});
    }
}

/* (6), of q and k of every key head, after all of its value heads (I1). */
static void back_lengths(const struct delta_call *s, float *gradient)
{
    for (int64_t i = 0; i < positions(s) * s->groups * 2; i++) {
        int64_t at = i / 2 * s->share + i % 2 * s->state;
        const float *z = s->qkv + at;
        float *dz = gradient + at, dot = row_dot(z, dz, s->state);
        for (int64_t n = 0; n < s->state; n++)
            dz[n] = (dz[n] - z[n] * dot) / s->length[i];
    }
}

static const float *read_dy(struct delta_call *s)
{
    return whole_read(s->call->dtype, s->call->output_gradient,
                      positions(s) * all_heads(s) * s->depth, &s->room);
}

static void delta_input(const struct kernel_call *call)
{
    struct delta_call s = delta_of(call);
    int64_t rates = 2 * positions(&s) * all_heads(&s);
    struct delta_gradients g = {.dy = read_dy(&s)};
    if (call->input_gradient[0]) {
        g.qkv = whole_write(call->dtype, call->input_gradient[0], wide(&s), &s.room);
        memset(g.qkv, 0, (size_t)wide(&s) * sizeof *g.qkv);
    }
    if (call->input_gradient[1])
        g.rates = whole_write(call->dtype, call->input_gradient[1], rates, &s.room);
    back_all(&s, &g);
    if (g.qkv) {
        back_lengths(&s, g.qkv);
        tile_done(call->dtype, call->input_gradient[0], 0, wide(&s), g.qkv);
    }
    if (g.rates)
        tile_done(call->dtype, call->input_gradient[1], 0, rates, g.rates);
}

static void delta_weight(const struct kernel_call *call)
{
    struct delta_call s = delta_of(call);
    struct delta_gradients g = {
        .dy = read_dy(&s), .decay = call->weight_gradient[0], .bias = call->weight_gradient[1]};
    back_all(&s, &g);
}

const struct cpu_kernel CPU_DELTA = {
    .kept_bytes = delta_kept,
    .scratch_floats = delta_scratch,
    .phase = {delta_forward, delta_input, delta_weight},
};

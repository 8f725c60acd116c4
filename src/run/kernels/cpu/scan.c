/* scan.c - the selective scan of a state-space layer, position by position.
 *
 * Of a head with the state h (depth x state), with the weights a (decay), d (skip) and c (step bias)
 *
 *   s_t = ln(1 + e^(dt_t + c)),  A = -e^a,  r_t = e^(s_t A)                                      (1)
 *   h_t = r_t h_(t-1) + s_t x_t B_t^T,  y_t = h_t C_t + d x_t                                    (2)
 *
 * (Dao and Gu, 2024, Eq. 16; in chunks it is the same sum.) Backward, from the last position to the
 * first, with H_t = dy_t C_t^T + r_(t+1) H_(t+1) and u = sum(H_t h_(t-1)) r_t
 *
 *   dx_t = d dy_t + s_t H_t B_t,  dB_t = s_t H_t^T x_t,  dC_t = h_t^T dy_t                       (3)
 *   ds_t = x_t^T H_t B_t + u A,  d(dt_t) = ds_t s'(dt_t + c), which sums up to dc               (4)
 *   da = sum of u s_t A,  dd = sum of dy_t x_t                                                   (5)
 *
 *   I1  A group's heads share B and C: dB and dC are sums over them.
 *   I2  Kept: x, B and C, s and its slope of every head, A and d. The input itself is not there in a
 *       backward pass (model.h: after a convolution it is not kept), nor are sharded weights.
 */
#include "run/kernels/cpu/cpu.h"
#include "run/kernels/cpu/spans.h"

struct scan_call {
    const struct kernel_call *call;
    int64_t batch, groups, seq, heads, depth, state; /* heads of a group */
    int64_t share;                                   /* features of a group: x of its heads, B, C */
    float *xbc, *step, *slope, *rate, *skip;         /* I2 */
    float *spans, *back;                             /* of one head; H of (3) */
    float *room;                                     /* what is left of the scratch memory */
};

static int64_t positions(const struct scan_call *s)
{
    return s->batch * s->seq;
}

static int64_t all_heads(const struct scan_call *s)
{
    return s->groups * s->heads;
}

static struct scan_call sizes_of(const struct kernel_call *call)
{
    const struct op *op = call->op;
    struct scan_call s = {.call = call,
                          .batch = call->size[0],
                          .groups = call->size[1],
                          .seq = call->size[2],
                          .heads = op->scan_heads,
                          .depth = call->size[3] / op->scan_heads,
                          .state = op->scan_state};
    s.share = call->size[3] + 2 * s.state;
    return s;
}

static int64_t scan_kept(const struct kernel_call *call)
{
    struct scan_call s = sizes_of(call);
    int64_t floats = positions(&s) * (s.groups * s.share + 2 * all_heads(&s)) + 2 * all_heads(&s);
    return floats * (int64_t)sizeof(float);
}

static int64_t state_floats(const struct scan_call *s)
{
    return spans_floats(s->seq, s->depth * s->state) + s->depth * s->state;
}

static int64_t scan_scratch(const struct kernel_call *call)
{
    struct scan_call s = sizes_of(call);
    int64_t inner = positions(&s) * all_heads(&s) * s.depth, heads = positions(&s) * all_heads(&s);
    int64_t wide = positions(&s) * s.groups * s.share;
    /* in fp32: x, B, C and dt or their gradients, the output or its gradient, three weights */
    return state_floats(&s) + wide + 2 * inner + 2 * heads + 3 * all_heads(&s);
}

static struct scan_call scan_of(const struct kernel_call *call)
{
    struct scan_call s = sizes_of(call);
    int64_t one = s.depth * s.state, heads = all_heads(&s);
    s.xbc = call->kept;
    s.step = s.xbc + positions(&s) * s.groups * s.share;
    s.slope = s.step + positions(&s) * heads;
    s.rate = s.slope + positions(&s) * heads;
    s.skip = s.rate + heads;
    s.spans = call->scratch;
    s.back = s.spans + spans_floats(s.seq, one);
    s.room = s.back + one;
    return s;
}

/* One head of one group of one sample. */
struct head {
    int64_t sample, group, head;
};

static struct head head_of(const struct scan_call *s, int64_t i)
{
    return (struct head){i / s->heads / s->groups, i / s->heads % s->groups, i % s->heads};
}

static int64_t head_index(const struct scan_call *s, struct head h)
{
    return h.group * s->heads + h.head;
}

/* Where x, or after it B and C, of a position begin. */
static int64_t group_at(const struct scan_call *s, struct head h, int64_t t)
{
    return ((h.sample * s->seq + t) * s->groups + h.group) * s->share;
}

static int64_t x_at(const struct scan_call *s, struct head h, int64_t t)
{
    return group_at(s, h, t) + h.head * s->depth;
}

static int64_t b_at(const struct scan_call *s, struct head h, int64_t t)
{
    return group_at(s, h, t) + s->heads * s->depth;
}

static int64_t step_at(const struct scan_call *s, struct head h, int64_t t)
{
    return (h.sample * s->seq + t) * all_heads(s) + head_index(s, h);
}

static int64_t y_at(const struct scan_call *s, struct head h, int64_t t)
{
    return step_at(s, h, t) * s->depth;
}

/* (2): the state after position t from the one before it, which may be the same place. */
static void advance(const struct scan_call *s, struct head h, int64_t t, const float *before,
                    float *after)
{
    const float *x = s->xbc + x_at(s, h, t), *b = s->xbc + b_at(s, h, t);
    float step = s->step[step_at(s, h, t)], keep = exp_of(step * s->rate[head_index(s, h)]);
    for (int64_t p = 0; p < s->depth; p++) {
        const float *from = before + p * s->state;
        float *to = after + p * s->state, add = step * x[p];
        for (int64_t n = 0; n < s->state; n++)
            to[n] = keep * from[n] + add * b[n];
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* ln(1 + e^x), which is x where e^x is all of it. */
static float softplus(float x)
{
    return x > 20 ? x : log1pf(exp_of(x));
}

static void keep_inputs(struct scan_call *s)
{
    const struct kernel_call *call = s->call;
    int64_t wide = positions(s) * s->groups * s->share, heads = all_heads(s);
    const float *xbc = whole_read(call->dtype, call->input[0], wide, &s->room);
    const float *dt = whole_read(call->dtype, call->input[1], positions(s) * heads, &s->room);
    const float *decay = whole_read(call->dtype, call->weight[0], heads, &s->room);
    const float *skip = whole_read(call->dtype, call->weight[1], heads, &s->room);
    const float *bias = whole_read(call->dtype, call->weight[2], heads, &s->room);
    memcpy(s->xbc, xbc, (size_t)wide * sizeof *xbc);
    memcpy(s->skip, skip, (size_t)heads * sizeof *skip);
    for (int64_t i = 0; i < heads; i++)
        s->rate[i] = -exp_of(decay[i]);
    for (int64_t i = 0; i < positions(s) * heads; i++) {
        s->step[i] = softplus(dt[i] + bias[i % heads]);
        s->slope[i] = sigmoid_of(dt[i] + bias[i % heads]);
    }
}

static void scan_head(const struct scan_call *s, struct head h, float *y)
{
    float *now = s->spans;
    memset(now, 0, (size_t)(s->depth * s->state) * sizeof *now);
    for (int64_t t = 0; t < s->seq; t++) {
        const float *x = s->xbc + x_at(s, h, t), *c = s->xbc + b_at(s, h, t) + s->state;
        float *out = y + y_at(s, h, t), skip = s->skip[head_index(s, h)];
        advance(s, h, t, now, now);
        for (int64_t p = 0; p < s->depth; p++)
            out[p] = row_dot(now + p * s->state, c, s->state) + skip * x[p];
    }
}

static void scan_forward(const struct kernel_call *call)
{
    struct scan_call s = scan_of(call);
    int64_t inner = positions(&s) * all_heads(&s) * s.depth;
    keep_inputs(&s);
    float *y = whole_write(call->dtype, call->output, inner, &s.room);
    for (int64_t i = 0; i < s.batch * all_heads(&s); i++)
        scan_head(&s, head_of(&s, i), y);
    tile_done(call->dtype, call->output, 0, inner, y);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* What a backward pass makes; NULL: not wanted. */
struct scan_gradients {
    const float *dy;
    float *xbc, *dt;            /* of the inputs */
    float *decay, *skip, *bias; /* of the weights, added to */
};

/* Adds what position t gives: H into s->back, and (3) to (5). `before` is the state in front of it. */
static void back_step(const struct scan_call *s, struct head h, int64_t t, const float *before,
                      const float *after, const struct scan_gradients *g)
{
    int64_t at = step_at(s, h, t), head = head_index(s, h);
    const float *x = s->xbc + x_at(s, h, t), *b = s->xbc + b_at(s, h, t), *c = b + s->state;
    const float *dy = g->dy + y_at(s, h, t);
    float step = s->step[at], rate = s->rate[head], keep = exp_of(step * rate);
    float along = 0, held = 0, skipped = 0;
    for (int64_t p = 0; p < s->depth; p++) {
        float *back = s->back + p * s->state;
        const float *was = before + p * s->state, *is = after + p * s->state;
        for (int64_t n = 0; n < s->state; n++)
            back[n] += dy[p] * c[n];
        float by_b = row_dot(back, b, s->state);
        held += row_dot(back, was, s->state);
        along += x[p] * by_b;
        skipped += dy[p] * x[p];
        if (g->xbc) {
            float *db = g->xbc + b_at(s, h, t), *dc = db + s->state;
            g->xbc[x_at(s, h, t) + p] = s->skip[head] * dy[p] + step * by_b;
            for (int64_t n = 0; n < s->state; n++) {
                db[n] += step * x[p] * back[n];
                dc[n] += dy[p] * is[n];
            }
        }
        row_scale(back, s->state, keep, back); /* as the position before it has it */
    }
    float u = held * keep, d_dt = (along + u * rate) * s->slope[at];
    if (g->dt)
        g->dt[at] = d_dt;
    if (g->decay) {
        g->decay[head] += u * step * rate;
        g->skip[head] += skipped;
        g->bias[head] += d_dt;
    }
}

/* A head on its way back. */
struct scan_walk {
    const struct scan_call *s;
    struct head h;
    const struct scan_gradients *g;
};

static void walk_on(void *walker, int64_t t, const float *before, float *after)
{
    const struct scan_walk *w = walker;
    advance(w->s, w->h, t, before, after);
}

static void walk_back(void *walker, int64_t t, const float *before, const float *after)
{
    const struct scan_walk *w = walker;
    back_step(w->s, w->h, t, before, after, w->g);
}

static void back_all(const struct scan_call *s, const struct scan_gradients *g)
{
    int64_t one = s->depth * s->state;
    for (int64_t i = 0; i < s->batch * all_heads(s); i++) {
        struct scan_walk w = {s, head_of(s, i), g};
        memset(s->back, 0, (size_t)one * sizeof *s->back);
        spans_back(&(struct spans){s->seq, one, s->spans, &w, walk_on, walk_back});
    }
}

static const float *read_dy(struct scan_call *s)
{
    return whole_read(s->call->dtype, s->call->output_gradient,
                      positions(s) * all_heads(s) * s->depth, &s->room);
}

static void scan_input(const struct kernel_call *call)
{
    struct scan_call s = scan_of(call);
    int64_t wide = positions(&s) * s.groups * s.share, heads = positions(&s) * all_heads(&s);
    struct scan_gradients g = {.dy = read_dy(&s)};
    if (call->input_gradient[0]) {
        g.xbc = whole_write(call->dtype, call->input_gradient[0], wide, &s.room);
        memset(g.xbc, 0, (size_t)wide * sizeof *g.xbc);
    }
    if (call->input_gradient[1])
        g.dt = whole_write(call->dtype, call->input_gradient[1], heads, &s.room);
    if (!g.xbc && !g.dt)
        return;
    back_all(&s, &g);
    if (g.xbc)
        tile_done(call->dtype, call->input_gradient[0], 0, wide, g.xbc);
    if (g.dt)
        tile_done(call->dtype, call->input_gradient[1], 0, heads, g.dt);
}

static void scan_weight(const struct kernel_call *call)
{
    struct scan_call s = scan_of(call);
    struct scan_gradients g = {.dy = read_dy(&s),
                               .decay = call->weight_gradient[0],
                               .skip = call->weight_gradient[1],
                               .bias = call->weight_gradient[2]};
    back_all(&s, &g);
}

const struct cpu_kernel CPU_SCAN = {
    .kept_bytes = scan_kept,
    .scratch_floats = scan_scratch,
    .phase = {scan_forward, scan_input, scan_weight},
};

/* fused_attention.c - attention by cuDNN (fused_attention.h): the equations of kernels/cpu/attention.c as recipes.
 *
 *   forward    S = Q K^T scale, hidden where j > i; m = max S; l = sum e^(S - m); L = m + log l         (1)
 *              O = (e^(S - m) / l) V
 *   backward   D = sum dO O; P = e^(S - L); dV = P^T dO; dS = P (dO V^T - D) scale                       (2)
 *              dK = dS^T Q; dQ = dS K
 *
 *   I1  A plan for given sizes is looked for once and kept; "there is none" is kept, too.
 *   I2  cuDNN knows a recipe by its operations and their order, so they stay as they are here.
 */
#include "run/kernels/cuda/fused_attention.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "run/kernels/cuda/dnn.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Compared byte by byte: there is no room between members. */
struct sizes {
    int64_t batch, head, group, seq, kv, depth, share;
    int32_t causal, backward, type, none; /* type: enum dnn_type */
};

static struct dnn_tensor tensor(enum dnn_type type, const struct sizes *s, int64_t heads,
                                int64_t rows, int64_t columns)
{
    return (struct dnn_tensor){type,
                               {s->batch, heads, rows, columns},
                               {heads * rows * columns, rows * columns, columns, 1}};
}

/* (batch, positions, heads, depth) as it lies in memory, with so many elements from head to head. */
static struct dnn_tensor spread_out(const struct sizes *s, int64_t heads, int64_t positions,
                                    int64_t step)
{
    return (struct dnn_tensor){(enum dnn_type)s->type,
                               {s->batch, heads, positions, s->depth},
                               {positions * heads * step, step, heads * step, 1}};
}

static struct dnn_tensor by_itself(const struct sizes *s, int64_t heads, int64_t positions)
{
    return spread_out(s, heads, positions, s->depth);
}

/* Of inputs and their gradients (kernels.h, share). */
static struct dnn_tensor in_memory(const struct sizes *s, int64_t heads, int64_t positions)
{
    return spread_out(s, heads, positions, s->share ? s->share : s->depth);
}

static struct dnn_tensor turned(struct dnn_tensor t)
{
    int64_t size = t.size[2], step = t.step[2];
    t.size[2] = t.size[3];
    t.step[2] = t.step[3];
    t.size[3] = size;
    t.step[3] = step;
    return t;
}

static struct dnn_tensor of_type(struct dnn_tensor t, enum dnn_type type)
{
    t.type = type;
    return t;
}

/* ---- recipes --------------------------------------------------------------------------------- */

struct recipe {
    struct dnn_recipe *dnn;
    struct sizes s;
    struct dnn_tensor scores, rows; /* (queries, keys) and (queries, 1) of each query head */
};

static int one_operand(const struct recipe *r, enum dnn_operation operation, int x,
                       struct dnn_tensor y)
{
    int made = dnn_between(r->dnn, &y);
    dnn_each(r->dnn, operation, x, -1, -1, made);
    return made;
}

static int two_operands(const struct recipe *r, enum dnn_operation operation, int x, int b,
                        struct dnn_tensor y)
{
    int made = dnn_between(r->dnn, &y);
    dnn_each(r->dnn, operation, x, b, -1, made);
    return made;
}

/* Scores of keys after the query become `hidden`. */
static int hide(const struct recipe *r, int scores, int hidden)
{
    if (!r->s.causal)
        return scores;
    int row = one_operand(r, DNN_ROW, scores, of_type(r->scores, DNN_INT32));
    int column = one_operand(r, DNN_COLUMN, scores, of_type(r->scores, DNN_INT32));
    int seen = two_operands(r, DNN_NOT_LESS, row, column, of_type(r->scores, DNN_BOOLEAN));
    int made = dnn_between(r->dnn, &r->scores);
    dnn_each(r->dnn, DNN_SELECT, scores, hidden, seen, made);
    return made;
}

static int given(const struct recipe *r, struct dnn_tensor t)
{
    return dnn_given(r->dnn, &t);
}

static int product(const struct recipe *r, int a, int b, struct dnn_tensor c)
{
    int made = dnn_between(r->dnn, &c);
    dnn_product(r->dnn, a, b, made);
    return made;
}

static int reduced(const struct recipe *r, enum reduce how, int x)
{
    int made = dnn_between(r->dnn, &r->rows);
    dnn_reduce(r->dnn, how, x, made);
    return made;
}

/* (1); places: Q, K, V, O, L, scale, and what hidden scores are. */
static void write_forward(const struct recipe *r)
{
    const struct sizes *s = &r->s;
    int64_t heads = s->head * s->group;
    int q = given(r, in_memory(s, heads, s->seq));
    int k = given(r, turned(in_memory(s, s->head, s->kv)));
    int v = given(r, in_memory(s, s->head, s->kv));
    int o = given(r, by_itself(s, heads, s->seq));
    int kept = given(r, r->rows);
    int scale = dnn_number(r->dnn), hidden = s->causal ? dnn_number(r->dnn) : -1;
    int scores = product(r, q, k, r->scores);
    scores = two_operands(r, DNN_MULTIPLY, scores, scale, r->scores);
    scores = hide(r, scores, hidden);
    int most = reduced(r, REDUCE_MAX, scores);
    int apart = two_operands(r, DNN_SUBTRACT, scores, most, r->scores);
    int power = one_operand(r, DNN_EXPONENT, apart, r->scores);
    int sum = reduced(r, REDUCE_SUM, power);
    int log_sum = one_operand(r, DNN_LOGARITHM, sum, r->rows);
    dnn_each(r->dnn, DNN_ADD, most, log_sum, -1, kept);
    int p = two_operands(r, DNN_DIVIDE, power, sum, of_type(r->scores, (enum dnn_type)s->type));
    dnn_product(r->dnn, p, v, o);
}

/* A product of the turned scores with what queries have, summed over the heads that share keys. */
static void keys_gradient(const struct recipe *r, int scores, int right, int out)
{
    const struct sizes *s = &r->s;
    int64_t heads = s->head * s->group;
    struct dnn_tensor view = of_type(turned(r->scores), (enum dnn_type)s->type);
    int across = dnn_between(r->dnn, &view);
    dnn_view(r->dnn, scores, across);
    if (s->group == 1) {
        dnn_product(r->dnn, across, right, out);
        return;
    }
    int all = product(r, across, right, tensor((enum dnn_type)s->type, s, heads, s->kv, s->depth));
    dnn_reduce(r->dnn, REDUCE_SUM, all, out);
}

/* (2); places: Q, K, V, O, dO, L, dQ, dK, dV, D, dQ in fp32, scale, 1, and what hidden scores are. */
static void write_backward(const struct recipe *r)
{
    const struct sizes *s = &r->s;
    int64_t heads = s->head * s->group;
    struct dnn_tensor queries = in_memory(s, heads, s->seq), keys = in_memory(s, s->head, s->kv);
    struct dnn_tensor plain = tensor(DNN_FP32, s, heads, s->seq, s->depth);
    int q = given(r, queries), k = given(r, turned(keys)), v = given(r, turned(keys));
    struct dnn_tensor outputs = by_itself(s, heads, s->seq);
    int o = given(r, outputs), d_out = given(r, outputs), kept = given(r, r->rows);
    int dq = given(r, queries), dk = given(r, keys), dv = given(r, keys);
    int dot = given(r, r->rows), sums = given(r, plain);
    int scale = dnn_number(r->dnn), one = dnn_number(r->dnn);
    int hidden = s->causal ? dnn_number(r->dnn) : -1;

    int both = two_operands(r, DNN_MULTIPLY, d_out, o, plain);
    dnn_each(r->dnn, DNN_MULTIPLY, reduced(r, REDUCE_SUM, both), one, -1, dot);

    int scores = product(r, q, k, r->scores);
    scores = two_operands(r, DNN_MULTIPLY, scores, scale, r->scores);
    scores = two_operands(r, DNN_SUBTRACT, scores, kept, r->scores);
    scores = hide(r, scores, hidden);
    int p = one_operand(r, DNN_EXPONENT, scores, r->scores);
    keys_gradient(r, p, d_out, dv);

    int dp = product(r, d_out, v, r->scores);
    dp = two_operands(r, DNN_SUBTRACT, dp, dot, r->scores);
    dp = two_operands(r, DNN_MULTIPLY, dp, p, r->scores);
    int ds = two_operands(r, DNN_MULTIPLY, dp, scale, r->scores);
    keys_gradient(r, ds, q, dk);

    int upright = dnn_between(r->dnn, &keys);
    dnn_view(r->dnn, k, upright);
    dnn_product(r->dnn, ds, upright, sums);
    dnn_each(r->dnn, DNN_COPY, sums, -1, -1, dq);
}

static void find_plan(const struct sizes *s, struct dnn_plan *out)
{
    int64_t heads = s->head * s->group;
    struct recipe r = {.dnn = dnn_recipe_new(),
                       .s = *s,
                       .scores = tensor(DNN_FP32, s, heads, s->seq, s->kv),
                       .rows = tensor(DNN_FP32, s, heads, s->seq, 1)};
    *out = (struct dnn_plan){0};
    if (!r.dnn)
        return;
    if (s->backward)
        write_backward(&r);
    else
        write_forward(&r);
    dnn_plan(r.dnn, out);
    dnn_recipe_free(r.dnn);
}

/* ---- plans that were found (I1) -------------------------------------------------------------- */

static const struct dnn_plan *plan_for(const struct sizes *s)
{
    enum { KEPT = 64 };
    static struct {
        struct sizes sizes;
        struct dnn_plan plan;
    } known[KEPT];
    static const struct dnn_plan NONE;
    static int count;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct dnn_plan *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && !found; i++)
        if (memcmp(&known[i].sizes, s, sizeof *s) == 0)
            found = &known[i].plan;
    if (!found && count < KEPT) {
        known[count].sizes = *s;
        find_plan(s, &known[count].plan);
        found = &known[count++].plan;
    }
    pthread_mutex_unlock(&lock);
    return found ? found : &NONE;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool wants_own(void)
{
    const char *word = getenv("WEFT_ATTENTION");
    return word && strcmp(word, "own") == 0;
}

static bool is_taken(const struct kernel_call *call, const struct attention_shape *s)
{
    bool whole = call->size[4] == call->whole[4] && s->key_begin == 0 && s->query_begin == 0;
    return whole && attention_is_fused(call->op, call->size, call->dtype) && !wants_own();
}

static struct sizes sizes_of(const struct attention_shape *s, const struct kernel_call *call,
                             enum phase phase)
{
    return (struct sizes){.batch = s->batch,
                          .head = s->head,
                          .group = s->group,
                          .seq = s->seq,
                          .kv = s->kv,
                          .depth = s->depth,
                          .share = call->share,
                          .causal = s->causal,
                          .backward = phase != PHASE_FORWARD,
                          .type = call->dtype == DTYPE_FP16 ? DNN_FP16 : DNN_BF16};
}

/* Of the backward pass: D and dQ in fp32, before the workspace. */
struct fused_room {
    int64_t dot, sums, workspace, bytes;
};

static struct fused_room room_of(const struct attention_shape *s, enum phase phase,
                                 const struct dnn_plan *plan)
{
    enum { UNIT = 256 };
    int64_t rows = s->batch * s->head * s->group * s->seq, each = (int64_t)sizeof(float);
    struct fused_room room = {0};
    if (phase != PHASE_FORWARD) {
        room.sums = ceil_div(rows * each, UNIT) * UNIT;
        room.workspace = room.sums + ceil_div(rows * s->depth * each, UNIT) * UNIT;
    }
    room.bytes = room.workspace + plan->workspace;
    return room;
}

static bool has_gradients(const struct kernel_call *call)
{
    return call->input_gradient[0] && call->input_gradient[1] && call->input_gradient[2];
}

int64_t fused_attention_bytes(const struct kernel_call *call, enum phase phase)
{
    struct attention_shape s = attention_shape_of(call);
    struct sizes sizes = sizes_of(&s, call, phase);
    if (!is_taken(call, &s))
        return -1;
    const struct dnn_plan *plan = plan_for(&sizes);
    return plan->plan ? room_of(&s, phase, plan).bytes : -1;
}

/* From head to head there is one step only: each has keys of its own. */
bool fused_attention_takes_shares(const struct kernel_call *call)
{
    return call->size[2] == 1 && fused_attention_bytes(call, PHASE_FORWARD) >= 0 &&
           fused_attention_bytes(call, PHASE_BACKWARD_INPUT) >= 0;
}

static void run_forward(const struct kernel_call *call, const struct attention_shape *s,
                        const struct dnn_plan *plan)
{
    struct dnn_place place[] = {{call->input[0], 0}, {call->input[1], 0}, {call->input[2], 0},
                                {call->output, 0},   {call->kept, 0},     {NULL, s->scale},
                                {NULL, -INFINITY}};
    dnn_run(plan, call->stream, place, call->scratch);
}

static void run_backward(const struct kernel_call *call, const struct attention_shape *s,
                         const struct dnn_plan *plan)
{
    struct fused_room room = room_of(s, PHASE_BACKWARD_INPUT, plan);
    char *scratch = call->scratch;
    struct dnn_place place[] = {{call->input[0], 0},
                                {call->input[1], 0},
                                {call->input[2], 0},
                                {call->output, 0},
                                {call->output_gradient, 0},
                                {call->kept, 0},
                                {call->input_gradient[0], 0},
                                {call->input_gradient[1], 0},
                                {call->input_gradient[2], 0},
                                {scratch + room.dot, 0},
                                {scratch + room.sums, 0},
                                {NULL, s->scale},
                                {NULL, 1},
                                {NULL, -INFINITY}};
    dnn_run(plan, call->stream, place, scratch + room.workspace);
}

bool fused_attention(const struct kernel_call *call, enum phase phase)
{
    struct attention_shape s = attention_shape_of(call);
    struct sizes sizes = sizes_of(&s, call, phase);
    if (!is_taken(call, &s) || (phase != PHASE_FORWARD && !has_gradients(call)))
        return false;
    const struct dnn_plan *plan = plan_for(&sizes);
    if (!plan->plan)
        return false;
    if (phase == PHASE_FORWARD)
        run_forward(call, &s, plan);
    else
        run_backward(call, &s, plan);
    return true;
}

/* experts.c - mixtures of experts: tokens to their experts, and back (the router and the experts'
 * products are in matmul.c).
 *
 * A token takes the top_k experts of the highest scores s, with gates
 *
 *   g_j = e^(s_j) / sum over its experts of e^(s_i)                     (Mixtral)                (1)
 *
 * Every expert has room for as many tokens of a sample as its operands have places (builder.h), filled in the
 * order of positions: a token that finds no room in an expert goes without it, and room that is left over is
 * zero (GShard). With o the expert's output,
 *
 *   y = sum_j g_j o_j,   do_j = g_j dy,   ds_j = g_j (<dy, o_j> - sum_i g_i <dy, o_i>)           (2)
 *
 *   I1  Who goes where follows from all scores of a sample, so the inputs of both are whole along the
 *       sequence (kernels.h, I5). Where that is split, a dispatch makes an equal share of every
 *       expert's places, a combine its own tokens; splits by batch, expert and features are sums and
 *       unions by (2).
 *   I2  The choices are kept: the scores need not be.
 */
#include "run/kernels/cpu/cpu.h"

/* ---- choices --------------------------------------------------------------------------------- */

/* One of a token's experts. */
struct expert_choice {
    int32_t expert, place; /* place: among the expert's tokens, -1: no room */
    float gate;
};

/* Dims of dispatch and combine. */
struct experts {
    int64_t batch, local, first, seq, width; /* local: experts on this device, from `first` on */
    int64_t all, chosen, room;               /* experts, per token, places of each */
    int64_t first_place, places;             /* of each: of a dispatch's share (I1), or all */
    int64_t first_token, tokens;             /* of each sample: of a combine's share, or all */
    struct expert_choice *choices;           /* (batch, seq, chosen) */
    float *x, *y;                            /* tiles of a row */
    float *filled;                           /* places taken of each expert */
};

static int64_t choices_bytes(const struct kernel_call *call)
{
    int64_t tokens = call->size[0] * call->op->size[2];
    return tokens * call->op->top_k * (int64_t)sizeof(struct expert_choice);
}

static int64_t experts_scratch(const struct kernel_call *call)
{
    return call->op->size[1] + 2 * call->size[3];
}

static const char *experts_refuse(const struct op *op)
{
    return op->top_k > op->size[1] ? "its tokens take more experts than there are" : NULL;
}

static struct experts experts_of(const struct kernel_call *call)
{
    const struct op *op = call->op;
    const struct operand *placed = op->kind == OP_DISPATCH ? &op->output : &op->input[0];
    struct experts e = {.batch = call->size[0],
                        .local = call->size[1],
                        .first = call->begin[1],
                        .seq = op->size[2],
                        .width = call->size[3],
                        .all = op->size[1],
                        .chosen = op->top_k,
                        .room = placed->size[1] / op->size[1]};
    e.places = e.room;
    e.tokens = e.seq;
    if (op->kind == OP_DISPATCH) {
        e.first_place = call->begin[2] * e.room / e.seq;
        e.places = call->size[2] * e.room / e.seq;
    } else {
        e.first_token = call->begin[2];
        e.tokens = call->size[2];
    }
    e.choices = call->kept;
    e.x = call->scratch;
    e.y = e.x + e.width;
    e.filled = e.y + e.width;
    return e;
}

static bool taken(const struct expert_choice *before, int64_t count, int64_t expert)
{
    for (int64_t i = 0; i < count; i++)
        if (before[i].expert == expert)
            return true;
    return false;
}

static int64_t best_left(const struct experts *e, const float *score,
                         const struct expert_choice *before, int64_t count)
{
    int64_t best = -1;
    for (int64_t i = 0; i < e->all; i++)
        if (!taken(before, count, i) && (best < 0 || score[i] > score[best]))
            best = i;
    return best;
}

/* The experts of one token, best first; of equals the first. */
static void choose_experts(const struct experts *e, const float *score,
                           struct expert_choice *choice)
{
    float most = score[best_left(e, score, choice, 0)], sum = 0;
    for (int64_t k = 0; k < e->chosen; k++) {
        int64_t best = best_left(e, score, choice, k);
        bool room = e->filled[best] < (float)e->room;
        choice[k] = (struct expert_choice){(int32_t)best, room ? (int32_t)e->filled[best]++ : -1,
                                           exp_of(score[best] - most)};
        sum += choice[k].gate;
    }
    for (int64_t k = 0; k < e->chosen; k++)
        choice[k].gate /= sum;
}

static void choose(const struct kernel_call *call, const struct experts *e)
{
    const float *scores = call->input[1];
    for (int64_t t = 0; t < e->batch * e->seq; t++) {
        if (t % e->seq == 0)
            memset(e->filled, 0, (size_t)e->all * sizeof *e->filled);
        choose_experts(e, scores + t * e->all, e->choices + t * e->chosen);
    }
}

/* Where a token's row is among the local experts' rows, or -1. */
static int64_t row_of(const struct experts *e, int64_t token, int64_t k)
{
    const struct expert_choice *choice = &e->choices[token * e->chosen + k];
    int64_t expert = choice->expert - e->first, place = choice->place - e->first_place;
    if (choice->place < 0 || expert < 0 || expert >= e->local || place < 0 || place >= e->places)
        return -1;
    return (token / e->seq * e->local + expert) * e->places + place;
}

static int64_t rows_in_experts(const struct experts *e)
{
    return e->batch * e->local * e->places;
}

static void clear(const struct kernel_call *call, const struct experts *e, void *to)
{
    memset(to, 0, (size_t)(rows_in_experts(e) * e->width * dtype_bytes(call->dtype)));
}

VECTOR static void add_scaled(const float *restrict x, int64_t count, float factor,
                              float *restrict y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

/* The number in all of token i of this device's. */
static int64_t token_at(const struct experts *e, int64_t i)
{
    return i / e->tokens * e->seq + e->first_token + i % e->tokens;
}

/* Each token's sum of its experts' rows, times the gates or as they are. */
static void sum_rows(const struct kernel_call *call, const struct experts *e, const void *from,
                     bool gated, void *to)
{
    for (int64_t i = 0; i < e->batch * e->tokens; i++) {
        int64_t t = token_at(e, i);
        float *y = tile_write(call->dtype, to, i * e->width, e->y);
        memset(y, 0, (size_t)e->width * sizeof *y);
        for (int64_t k = 0; k < e->chosen; k++) {
            int64_t row = row_of(e, t, k);
            if (row >= 0)
                add_scaled(tile_read(call->dtype, from, row * e->width, e->width, e->x), e->width,
                           gated ? e->choices[t * e->chosen + k].gate : 1, y);
        }
        tile_done(call->dtype, to, i * e->width, e->width, y);
    }
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static void dispatch_forward(const struct kernel_call *call)
{
    struct experts e = experts_of(call);
    choose(call, &e);
    clear(call, &e, call->output);
    for (int64_t t = 0; t < e.batch * e.seq; t++)
        for (int64_t k = 0; k < e.chosen; k++) {
            int64_t row = row_of(&e, t, k);
            if (row >= 0)
                copy_elements(call->dtype, call->input[0], t * e.width, e.width, call->output,
                              row * e.width);
        }
}

static void dispatch_input(const struct kernel_call *call)
{
    struct experts e = experts_of(call);
    if (call->input_gradient[0])
        sum_rows(call, &e, call->output_gradient, false, call->input_gradient[0]);
    if (call->input_gradient[1]) /* who goes where has no slope */
        memset(call->input_gradient[1], 0, (size_t)(e.batch * e.seq * e.all) * sizeof(float));
}

const struct cpu_kernel CPU_DISPATCH = {
    .refuses = experts_refuse,
    .kept_bytes = choices_bytes,
    .scratch_floats = experts_scratch,
    .phase = {dispatch_forward, dispatch_input},
};

/* ---- combine --------------------------------------------------------------------------------- */

static void combine_forward(const struct kernel_call *call)
{
    struct experts e = experts_of(call);
    choose(call, &e);
    sum_rows(call, &e, call->input[0], true, call->output);
}

static void spread_gradient(const struct kernel_call *call, const struct experts *e, int64_t token,
                            const float *dy)
{
    for (int64_t k = 0; k < e->chosen; k++) {
        int64_t row = row_of(e, token, k);
        if (row < 0)
            continue;
        float *to = tile_write(call->dtype, call->input_gradient[0], row * e->width, e->x);
        row_scale(dy, e->width, e->choices[token * e->chosen + k].gate, to);
        tile_done(call->dtype, call->input_gradient[0], row * e->width, e->width, to);
    }
}

/* (2), of local experts */
static void score_gradient(const struct kernel_call *call, const struct experts *e, int64_t token,
                           const float *dy, float *ds)
{
    const struct expert_choice *choice = e->choices + token * e->chosen;
    float mean = 0;
    for (int64_t k = 0; k < e->chosen; k++) {
        int64_t row = row_of(e, token, k);
        if (row < 0)
            continue;
        const float *o = tile_read(call->dtype, call->input[0], row * e->width, e->width, e->x);
        ds[choice[k].expert] = row_dot(dy, o, e->width);
        mean += choice[k].gate * ds[choice[k].expert];
    }
    for (int64_t k = 0; k < e->chosen; k++)
        ds[choice[k].expert] = choice[k].gate * (ds[choice[k].expert] - mean);
}

static void combine_input(const struct kernel_call *call)
{
    struct experts e = experts_of(call);
    if (call->input_gradient[0])
        clear(call, &e, call->input_gradient[0]);
    if (call->input_gradient[1])
        memset(call->input_gradient[1], 0, (size_t)(e.batch * e.seq * e.all) * sizeof(float));
    for (int64_t i = 0; i < e.batch * e.tokens; i++) {
        int64_t t = token_at(&e, i);
        const float *dy = tile_read(call->dtype, call->output_gradient, i * e.width, e.width, e.y);
        if (call->input_gradient[0])
            spread_gradient(call, &e, t, dy);
        if (call->input_gradient[1])
            score_gradient(call, &e, t, dy, (float *)call->input_gradient[1] + t * e.all);
    }
}

const struct cpu_kernel CPU_COMBINE = {
    .refuses = experts_refuse,
    .kept_bytes = choices_bytes,
    .scratch_floats = experts_scratch,
    .phase = {combine_forward, combine_input},
};

/* test_reshard_ops.c - layouts that follow from operators' splits, and the reshards between operators:
 * random ones executed (reshard_machine.h), known ones by their names and volumes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "model/builder.h"
#include "reshard_machine.h"

/* ---- operators ------------------------------------------------------------------------------- */

enum { BATCH = 4 };

/* A small model with every kind of operator that splits in its own way. */
static struct model *small_model(void)
{
    static const struct attention ATTENTION = {
        .heads = 8, .kv_heads = 4, .depth = 2, .value_depth = 2, .causal = true};
    struct builder *b = build_start("small", "test", "test");
    struct model *model;
    int x = build_embedding(b, "embedding", build_tokens(b, 8), 24, 16, 0);
    int qkv = build_linear(b, "qkv", build_rms_norm(b, "norm", x, true), 32, true);
    int y = build_attention(b, "attention", qkv, qkv, qkv, &ATTENTION);
    x = build_add(b, "add", build_linear(b, "proj", y, 16, true), x);
    y = build_linear(b, "gate_up", build_layer_norm(b, "norm2", x), 48, false);
    x = build_add(b, "add2", build_linear(b, "down", build_gated(b, "gated", y), 16, false), x);
    int scores = build_router(b, "router", x, 4, 1);
    y = build_expert_linear(b, "expert_up", build_dispatch(b, "dispatch", x, scores), 24, false);
    y = build_expert_linear(b, "expert_down", build_gelu(b, "gelu", y), 16, false);
    x = build_add(b, "add3", build_combine(b, "combine", y, scores), x);
    build_loss(b, "loss", build_linear(b, "head", x, 24, false));
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    return model;
}

static const struct op *find_op(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (strcmp(model->op[i].name, name) == 0)
            return &model->op[i];
    fail_msg("no operator %s", name);
    return NULL;
}

static struct split split_of(const char *text)
{
    struct split split;
    assert_int_equal(split_parse(NULL, text, &split), WEFT_OK);
    return split;
}

static struct split random_split(struct rng *rng, const struct op *op, int64_t devices)
{
    struct split split = split_none();
    while (devices > 1) {
        int64_t full[OP_MAX_DIMS], degree = random_divisor(rng, devices);
        int at = (int)rng_below(rng, op_dims(op->kind) + 1);
        op_full_size(op, BATCH, full);
        int dim = at < op_dims(op->kind) ? (int)OP_KINDS[op->kind].dims[at].dim : SPLIT_COPY;
        if (dim != SPLIT_COPY && full[at] % (degree * split_degree(&split, dim)))
            dim = SPLIT_COPY;
        assert_true(split_add(&split, dim, degree));
        devices /= degree;
    }
    return split;
}

/* Whether a device computes with this index of a dim: its part, block by block. */
static bool has_index(const struct split *split, int dim, int64_t size, int64_t device,
                      int64_t index)
{
    int64_t mesh = split_devices(split);
    for (int32_t i = 0; i < split->parts; i++) {
        mesh /= split->part[i].degree;
        if (split->part[i].dim != dim)
            continue;
        size /= split->part[i].degree;
        if (index / size != device / mesh % split->part[i].degree)
            return false;
        index %= size;
    }
    return true;
}

/* Whether a device's part of an operator has this element of an operand, from its index per dim. */
static bool computes(const struct op *op, const struct operand *operand, const struct split *split,
                     int64_t device, int64_t element)
{
    int64_t full[OP_MAX_DIMS];
    op_full_size(op, BATCH, full);
    for (int axis = operand->axes - 1; axis >= 0; axis--) {
        int64_t share = operand->size[axis] * (axis == 0 ? BATCH : 1), index = element % share;
        element /= share;
        for (int k = 0; k < MAX_AXIS_DIMS && operand->dims[axis][k] >= 0; k++) {
            bool last = k == MAX_AXIS_DIMS - 1 || operand->dims[axis][k + 1] < 0;
            int64_t size = last ? share : full[operand->dims[axis][k]];
            int dim = (int)OP_KINDS[op->kind].dims[operand->dims[axis][k]].dim;
            share /= size;
            if (!has_index(split, dim, size, device, index / share))
                return false;
            index %= share;
        }
    }
    return true;
}

/* A layout holds what the operator's part computes with, and is as partial as it should be. */
static void check_layout(const struct op *op, const struct operand *operand,
                         const struct split *split, const struct layout *layout)
{
    assert_int_equal(layout_devices(layout), split_devices(split));
    for (int64_t d = 0; d < layout_devices(layout); d++) {
        int64_t value[MAX_LAYOUT_DIGITS];
        digits_of(layout, d, value);
        for (int64_t e = 0; e < layout->elements; e++)
            assert_int_equal(holds(layout, value, e), computes(op, operand, split, d, e));
    }
}

static int64_t stored(const struct operand *operand)
{
    int64_t elements = BATCH;
    for (int axis = 0; axis < operand->axes; axis++)
        elements *= operand->size[axis];
    return elements;
}

/* The reshards of one tensor between two operators, forward and back. */
static int64_t padded;
static void check_edge(struct reshards *reshards, const struct model *model,
                       const struct op *producer, const struct split *made,
                       const struct op *consumer, const struct operand *operand,
                       const struct split *used)
{
    static const enum flow FLOWS[] = {FLOW_FORWARD, FLOW_GRADIENT};
    for (size_t f = 0; f < COUNT_OF(FLOWS); f++) {
        struct layout whole = layout_of(producer, &producer->output, made, BATCH, FLOWS[f]);
        struct layout in = layout_of(consumer, operand, used, BATCH, FLOWS[f]);
        struct layout first = whole, part = layout_part(model, consumer, operand, &first);
        if (whole.elements != stored(&producer->output) || in.elements != stored(operand)) {
            padded++;
            continue;
        }
        check_layout(producer, &producer->output, made, &whole);
        check_layout(consumer, operand, used, &in);
        if (FLOWS[f] == FLOW_FORWARD) {
            assert_false(has_partial(&in));
            if (!has_partial(&first))
                verify(reshard_within(reshards, &whole, &first), &whole, &first);
            verify(reshard_within(reshards, &part, &in), &part, &in);
        } else {
            assert_false(has_partial(&whole));
            verify(reshard_within(reshards, &in, &part), &in, &part);
            verify(reshard_within(reshards, &first, &whole), &first, &whole);
        }
    }
}

static void test_random_splits_of_operators(void **state)
{
    (void)state;
    static const int64_t DEVICES[] = {2, 4, 6, 8, 12, 16};
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < 60; round++)
        for (int32_t i = 0; i < model->ops; i++)
            for (int32_t k = 0; k < model->op[i].inputs; k++) {
                const struct operand *operand = &model->op[i].input[k];
                int32_t producer = model->tensor[operand->tensor].producer;
                int64_t devices = DEVICES[rng_below(&rng, COUNT_OF(DEVICES))];
                if (producer < 0)
                    continue;
                struct split made = random_split(&rng, &model->op[producer], devices);
                struct split used = random_split(&rng, &model->op[i], devices);
                check_edge(reshards, model, &model->op[producer], &made, &model->op[i], operand,
                           &used);
            }
    reshards_free(reshards);
    model_free(model);
    printf("%lld with padding, left out\n", (long long)padded);
    print_seen("splits of operators");
}

/* A part of a fused tensor lies where the whole lies, share by share. */
static void check_part_of_fused_tensor(const struct model *model, const char *text, bool as_it_is)
{
    static const int64_t OFFSET[] = {0, 4, 6}, WIDTH[] = {4, 2, 2}; /* within a share of 8 */
    const struct op *qkv = find_op(model, "qkv"), *attention = find_op(model, "attention");
    struct split split = split_of(text);
    for (int k = 0; k < 3; k++) {
        struct layout made = layout_of(qkv, &qkv->output, &split, BATCH, FLOW_FORWARD);
        struct layout whole = made;
        struct layout part = layout_part(model, attention, &attention->input[k], &whole);
        assert_int_equal(layout_equal(&made, &whole), as_it_is);
        assert_int_equal(layout_devices(&part), layout_devices(&made));
        for (int64_t d = 0; d < layout_devices(&part); d++) {
            int64_t in_part[MAX_LAYOUT_DIGITS], in_whole[MAX_LAYOUT_DIGITS];
            digits_of(&part, d, in_part);
            digits_of(&whole, d, in_whole);
            for (int64_t e = 0; e < part.elements; e++)
                assert_int_equal(
                    holds(&part, in_part, e),
                    holds(&whole, in_whole, e / WIDTH[k] * 8 + OFFSET[k] + e % WIDTH[k]));
        }
    }
}

static void test_part_of_fused_tensor(void **state)
{
    (void)state;
    static const struct {
        const char *split;
        bool as_it_is;
    } CASES[] = {{"out:4", true},        {"out:2", true},  {"batch:2 out:2", true},
                 {"out:2 seq:2", true},  {"out:8", false}, {"out:2 batch:2 out:4", false},
                 {"seq:4 out:16", false}};
    struct model *model = small_model();
    for (size_t c = 0; c < COUNT_OF(CASES); c++)
        check_part_of_fused_tensor(model, CASES[c].split, CASES[c].as_it_is);
    model_free(model);
}

/* Three shares: halves, quarters and eighths of the tensor end inside a share, thirds do not, sixths of it
 * are halves of shares. */
static void test_splits_through_shares(void **state)
{
    (void)state;
    static const struct attention ATTENTION = {
        .heads = 6, .kv_heads = 3, .depth = 2, .value_depth = 2, .causal = true};
    static const struct {
        const char *split;
        bool as_it_is;
    } CASES[] = {{"out:3", true},  {"out:2", false}, {"batch:2 out:4", false},
                 {"out:8", false}, {"out:6", false}, {"out:3 batch:2", true}};
    struct builder *b = build_start("three shares", "test", "test");
    struct model *model;
    int x = build_embedding(b, "embedding", build_tokens(b, 8), 24, 16, 0);
    int qkv = build_linear(b, "qkv", x, 24, true);
    build_loss(b, "loss", build_attention(b, "attention", qkv, qkv, qkv, &ATTENTION));
    assert_int_equal(build_finish(b, &model), WEFT_OK);
    for (size_t c = 0; c < COUNT_OF(CASES); c++)
        check_part_of_fused_tensor(model, CASES[c].split, CASES[c].as_it_is);
    model_free(model);
}

/* ---- cases that people know ------------------------------------------------------------------ */

static const struct known {
    const char *producer, *made, *consumer, *used;
    const char *forward, *backward;
} KNOWN[] = {
    /* Megatron: column, then row; nothing between them. */
    {"gate_up", "out:4", "gated", "hidden:4", "none", "none"},
    {"gated", "hidden:4", "down", "in:4", "none", "none"},
    {"qkv", "out:4", "attention", "head:4", "none", "none"},
    {"attention", "head:4", "proj", "in:4", "none", "none"},
    /* Row to what every device does alike, and back to a column. */
    {"proj", "in:4", "add", "copy:4", "all_reduce:4", "none"},
    {"norm2", "copy:4", "gate_up", "out:4", "none", "all_reduce:4"},
    /* Sequence parallelism. */
    {"proj", "in:4", "add", "seq:4", "reduce_scatter:4", "all_gather:4"},
    {"norm2", "seq:4", "gate_up", "out:4", "all_gather:4", "reduce_scatter:4"},
    {"proj", "batch:2 in:4", "add", "batch:2 seq:4", "reduce_scatter:4", "all_gather:4"},
    /* From one axis to another. */
    {"add", "batch:4", "norm2", "batch:4", "none", "none"},
    {"head", "batch:4", "loss", "vocab:4", "all_to_all:4", "all_to_all:4"},
    {"head", "out:4", "loss", "batch:4", "all_to_all:4", "all_to_all:4"},
    {"gelu", "batch:4", "expert_down", "expert:4", "all_to_all:4", "all_to_all:4"},
    {"dispatch", "batch:4", "expert_up", "expert:4", "all_to_all:4", "all_to_all:4"},
    {"norm2", "copy:4", "gate_up", "batch:4", "slice:4", "all_gather:4"},
    /* Partial on one digit, whole to the next operator on another: AutoDDL, Figure 6. The output
     * (S0:2, S1:2, P:2) is scattered, then gathered over the digit that the next one copies. */
    {"gated", "batch:2 hidden:4", "down", "batch:2 out:2 in:2", "all_to_all:4 all_gather:2",
     "reduce_scatter:2 all_to_all:4"},
};

static const struct reshard *reshard_of(struct reshards *reshards, const struct model *model,
                                        const struct known *known, enum flow flow)
{
    const struct op *producer = find_op(model, known->producer);
    const struct op *consumer = find_op(model, known->consumer);
    struct split made = split_of(known->made), used = split_of(known->used);
    struct layout from = layout_of(producer, &producer->output, &made, BATCH, flow);
    struct layout to = layout_of(consumer, &consumer->input[0], &used, BATCH, flow);
    from = layout_part(model, consumer, &consumer->input[0], &from);
    return flow == FLOW_FORWARD ? reshard_within(reshards, &from, &to)
                                : reshard_within(reshards, &to, &from);
}

/* "reduce_scatter:4 all_gather:2"; "none". */
static const char *reshard_text(struct arena *keep, const struct reshard *reshard)
{
    const char *text = reshard->steps ? "" : "none";
    for (int32_t i = 0; i < reshard->steps; i++) {
        const struct reshard_step *step = &reshard->step[i];
        text = arena_printf(keep, "%s%s%s", text, i ? " " : "", step_name(step->kind));
        if (step->kind != COLLECTIVE_SEND)
            text = arena_printf(keep, "%s:%lld", text, (long long)step_members(step));
    }
    return text;
}

static void test_known_cases(void **state)
{
    (void)state;
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(KNOWN); i++) {
        const struct known *k = &KNOWN[i];
        const char *forward = reshard_text(arena, reshard_of(reshards, model, k, FLOW_FORWARD));
        const char *backward = reshard_text(arena, reshard_of(reshards, model, k, FLOW_GRADIENT));
        printf("%s %s -> %s %s: %s; back: %s\n", k->producer, k->made, k->consumer, k->used,
               forward, backward);
        assert_string_equal(forward, k->forward);
        assert_string_equal(backward, k->backward);
    }
    arena_free(arena);
    reshards_free(reshards);
    model_free(model);
}

/* Collectives of each kind that the layers of a plan need, forward and back. */
static void count_collectives(const struct plan *plan, struct reshards *reshards,
                              int64_t count[2][STEP_KIND_COUNT])
{
    const struct model *model = plan->model;
    const struct split *split[256] = {0};
    for (int64_t i = 0; i < plan->instances; i++)
        split[plan->instance[i].op] = &plan_choice(plan, i)->split;
    for (int32_t i = 0; i < model->ops; i++)
        for (int32_t k = 0; k < model->op[i].inputs; k++) {
            const struct op *op = &model->op[i];
            int32_t producer = model->tensor[op->input[k].tensor].producer;
            if (producer < 0)
                continue;
            const struct op *from = &model->op[producer];
            for (int flow = 0; flow < 2; flow++) {
                struct layout made = layout_of(from, &from->output, split[producer],
                                               plan->step_samples, (enum flow)flow);
                struct layout used =
                    layout_of(op, &op->input[k], split[i], plan->step_samples, (enum flow)flow);
                made = layout_part(model, op, &op->input[k], &made);
                const struct reshard *r = flow == FLOW_FORWARD
                                              ? reshard_within(reshards, &made, &used)
                                              : reshard_within(reshards, &used, &made);
                for (int32_t s = 0; s < r->steps; s++)
                    count[flow][r->step[s].kind]++;
            }
        }
}

/* Megatron's layers: two sums forward and two back; with sequence parallelism two gathers and two
 * scatters each way; and the output head's one. With context parallelism keys and values are
 * gathered in each layer, and their gradients scattered. With expert parallelism tokens go to their
 * experts and back, and so do their gradients. */
static void test_layers_of_megatron(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        struct degrees degrees;
        int64_t all_reduce[2], all_gather[2], reduce_scatter[2], all_to_all[2];
    } CASES[] = {
        {"gpt3-13b", {.dp = 2, .tp = 8}, {2, 3}, {0, 0}, {0, 0}},
        {"llama3.1-405b", {.dp = 2, .tp = 8}, {2, 3}, {0, 0}, {0, 0}},
        {"llama3.1-405b", {.dp = 2, .tp = 8, .sequence = true}, {0, 0}, {3, 2}, {2, 3}},
        {"llama3.1-405b", {.dp = 2, .tp = 4, .cp = 2}, {2, 3}, {2, 0}, {0, 2}},
        {"gpt3-13b", {.dp = 16}, {0, 0}, {0, 0}, {0, 0}},
        {"mixtral-8x7b", {.dp = 16, .ep = 8}, {0, 0}, {0, 0}, {0, 0}, {2, 2}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct reshards *reshards = reshards_new();
        struct model *model;
        struct cluster *cluster;
        struct plan *plan;
        int64_t count[2][STEP_KIND_COUNT] = {0};
        assert_int_equal(model_open(CASES[i].model, NULL, &model), WEFT_OK);
        assert_int_equal(cluster_open("dgx-a100:2", &cluster), WEFT_OK);
        assert_int_equal(plan_from_degrees(model, cluster, &CASES[i].degrees, &plan), WEFT_OK);
        count_collectives(plan, reshards, count);
        for (int flow = 0; flow < 2; flow++) {
            assert_int_equal(count[flow][COLLECTIVE_ALL_REDUCE], CASES[i].all_reduce[flow]);
            assert_int_equal(count[flow][COLLECTIVE_ALL_GATHER], CASES[i].all_gather[flow]);
            assert_int_equal(count[flow][COLLECTIVE_REDUCE_SCATTER], CASES[i].reduce_scatter[flow]);
            assert_int_equal(count[flow][COLLECTIVE_ALL_TO_ALL], CASES[i].all_to_all[flow]);
        }
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
        reshards_free(reshards);
    }
}

/* AutoDDL, Table 2: N elements is what goes into a reduce-scatter and comes out of the others. */
static void test_volumes_of_single_collectives(void **state)
{
    (void)state;
    static const struct {
        int64_t before, after;
        const char *step;
        double volume;
    } CASES[] = {
        {HOLD_PARTIAL, HOLD_COPY, "all_reduce:8", 2 * 7.0 / 8 * 64},
        {HOLD_PARTIAL, 8, "reduce_scatter:8", 7.0 / 8 * 64},
        {8, HOLD_COPY, "all_gather:8", 7.0 / 8 * 64},
        {8, 1, "all_to_all:8", 7.0 / 8 * 8},
        {HOLD_COPY, 8, "slice:8", 0},
        {HOLD_COPY, HOLD_COPY, "none", 0},
    };
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct layout from = layout_none(64), to = from;
        layout_add(&from, 8, CASES[i].before);
        layout_add(&to, 8, CASES[i].after);
        const struct reshard *r = reshard_within(reshards, &from, &to);
        assert_string_equal(reshard_text(arena, r), CASES[i].step);
        assert_true(r->volume == CASES[i].volume);
        assert_ptr_equal(r, reshard_within(reshards, &from, &to));
    }
    arena_free(arena);
    reshards_free(reshards);
}

/* A 3-D product after a 3-D product on p^3 devices moves 2 (p - 1) / p of n^2 / p^2 elements: one
 * reduce-scatter over p, one gather over p (AutoDDL, section 4.3), where the digits of the second
 * are those of the first with `in` and `out` in each other's place. */
static void test_product_in_three_dims(void **state)
{
    (void)state;
    struct reshards *reshards = reshards_new();
    for (int64_t p = 2; p <= 16; p *= 2) {
        int64_t n = 4096;
        struct layout from = layout_none(n * n), to = from;
        layout_add(&from, p, n * n / p); /* batch */
        layout_add(&from, p, n / p);     /* out */
        layout_add(&from, p, HOLD_PARTIAL);
        layout_add(&to, p, n * n / p);
        layout_add(&to, p, n / p); /* in */
        layout_add(&to, p, HOLD_COPY);
        const struct reshard *r = reshard_within(reshards, &from, &to);
        double local = (double)(n * n / (p * p)), share = (double)(p - 1) / (double)p;
        assert_true(r->volume == 2 * share * local);
    }
    reshards_free(reshards);
}

/* ---- between stages, padding, text, speed ---------------------------------------------------- */

static void test_sends(void **state)
{
    (void)state;
    static const struct {
        const char *made, *used, *steps;
        int64_t elements; /* sent, of 4 x 8 x 16 */
    } CASES[] = {
        {"copy:4", "copy:4", "send", 512},
        {"seq:4", "seq:4", "send", 128},
        {"batch:4", "batch:2", "all_gather:2 send", 256},
        {"batch:2", "batch:4", "send slice:2", 128}, /* what is dropped is not sent */
        {"batch:2", "batch:2 copy:2", "send", 256},
        {"batch:2 seq:2", "batch:2 copy:2", "send all_gather:2", 128},
        {"copy:2", "copy:3", "send", 512},
    };
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    const struct op *add = find_op(model, "add"), *norm = find_op(model, "norm2");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct split made = split_of(CASES[i].made), used = split_of(CASES[i].used);
        struct layout from = layout_of(add, &add->output, &made, BATCH, FLOW_FORWARD);
        struct layout to = layout_of(norm, &norm->input[0], &used, BATCH, FLOW_FORWARD);
        const struct reshard *r = reshard_between(reshards, &from, &to, false);
        assert_string_equal(reshard_text(arena, r), CASES[i].steps);
        assert_int_equal(r->step[r->send].elements, CASES[i].elements);
    }
    arena_free(arena);
    reshards_free(reshards);
    model_free(model);
}

/* 24 classes over 16 devices are padded to 32: equal layouts need nothing, others all of it. */
static void test_padded_vocabulary(void **state)
{
    (void)state;
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    struct arena *arena = arena_new();
    const struct op *head = find_op(model, "head"), *loss = find_op(model, "loss");
    struct split made = split_of("out:16"), same = split_of("vocab:16"),
                 other = split_of("batch:4 copy:4");
    struct layout from = layout_of(head, &head->output, &made, BATCH, FLOW_FORWARD);
    struct layout to = layout_of(loss, &loss->input[0], &same, BATCH, FLOW_FORWARD);
    struct layout whole = layout_of(loss, &loss->input[0], &other, BATCH, FLOW_FORWARD);
    assert_int_equal(from.elements, BATCH * 8 * 32);
    assert_int_equal(layout_local(&from), BATCH * 8 * 2);
    assert_true(layout_equal(&from, &to));
    assert_int_equal(whole.elements, BATCH * 8 * 24);
    assert_string_equal(reshard_text(arena, reshard_within(reshards, &from, &whole)),
                        "all_gather:16 slice:4");
    arena_free(arena);
    reshards_free(reshards);
    model_free(model);
}

static void test_layout_text(void **state)
{
    (void)state;
    static const struct {
        const char *op, *split, *output, *input_gradient;
    } CASES[] = {
        {"proj", "whole", "whole", "whole"},
        {"proj", "batch:2 out:2 in:4", "S(batch):2 S(out):2 P:4", "S(batch):2 P:2 S(in):4"},
        {"proj", "seq:4 copy:2", "S(seq):4 B:2", "S(seq):4 B:2"},
        {"attention", "head:4 group:2", "S(head group):8", "S(head group):8"},
        {"attention", "group:2 head:2", "S(group):2 S(head):2", "S(group):2 S(head):2"},
        {"loss", "seq:2 vocab:4", "S(seq):2 P:4", "S(seq):2 S(vocab):4"},
        {"expert_up", "expert:4 out:2", "S(expert):4 S(out):2", "S(expert):4 P:2"},
    };
    struct model *model = small_model();
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct op *op = find_op(model, CASES[i].op);
        struct split split = split_of(CASES[i].split);
        struct layout out = layout_of(op, &op->output, &split, BATCH, FLOW_FORWARD);
        struct layout in = layout_of(op, &op->input[0], &split, BATCH, FLOW_GRADIENT);
        assert_string_equal(layout_text(arena, op, &op->output, BATCH, &out), CASES[i].output);
        assert_string_equal(layout_text(arena, op, &op->input[0], BATCH, &in),
                            CASES[i].input_gradient);
    }
    /* A bias where the inputs are split: all devices compute the same gradient. */
    const struct op *proj = find_op(model, "proj");
    struct split split = split_of("batch:2 in:4");
    struct layout bias = layout_of(proj, &proj->weight[1].operand, &split, BATCH, FLOW_GRADIENT);
    assert_string_equal(layout_text(arena, proj, &proj->weight[1].operand, BATCH, &bias),
                        "P:2 B:4");
    /* Scores that weigh the experts' outputs: a device knows the gradient of its experts'. */
    const struct op *sum = find_op(model, "combine");
    split = split_of("expert:4");
    struct layout scores = layout_of(sum, &sum->input[1], &split, BATCH, FLOW_GRADIENT);
    assert_string_equal(layout_text(arena, sum, &sum->input[1], BATCH, &scores), "P:4");
    arena_free(arena);
    model_free(model);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void test_speed(void **state)
{
    (void)state;
    enum { ROUNDS = 100000 };
    struct model *model = small_model();
    struct reshards *reshards = reshards_new();
    const struct op *proj = find_op(model, "proj"), *add = find_op(model, "add");
    struct split made = split_of("batch:2 in:4"), used = split_of("batch:2 seq:4");
    struct layout from = layout_of(proj, &proj->output, &made, BATCH, FLOW_FORWARD), to = from;
    int64_t steps = 0;
    double start = seconds();
    for (int i = 0; i < ROUNDS; i++)
        to = layout_of(add, &add->input[0], &used, BATCH, FLOW_FORWARD);
    double middle = seconds();
    for (int i = 0; i < ROUNDS; i++)
        steps += reshard_within(reshards, &from, &to)->steps;
    double end = seconds();
    printf("layout_of %.0f ns, a known reshard %.0f ns\n", (middle - start) / ROUNDS * 1e9,
           (end - middle) / ROUNDS * 1e9);
    assert_int_equal(steps, ROUNDS);
    struct rng rng;
    rng_seed(&rng, 4);
    start = seconds();
    for (int i = 0; i < 2000; i++) {
        from = random_layout(&rng, 4096, 64, true);
        to = random_layout(&rng, 4096, 64, false);
    }
    middle = seconds();
    for (int i = 0; i < 2000; i++) {
        from = random_layout(&rng, 4096, 64, true);
        to = random_layout(&rng, 4096, 64, false);
        reshard_within(reshards, &from, &to);
    }
    end = seconds();
    printf("a new reshard of random layouts on 64 devices %.0f us\n",
           (end - middle - (middle - start)) / 2000 * 1e6);
    reshards_free(reshards);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_splits_of_operators),
        cmocka_unit_test(test_part_of_fused_tensor),
        cmocka_unit_test(test_splits_through_shares),
        cmocka_unit_test(test_known_cases),
        cmocka_unit_test(test_layers_of_megatron),
        cmocka_unit_test(test_volumes_of_single_collectives),
        cmocka_unit_test(test_product_in_three_dims),
        cmocka_unit_test(test_sends),
        cmocka_unit_test(test_padded_vocabulary),
        cmocka_unit_test(test_layout_text),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_run.c - plans that run on several ranks compute what one rank computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_lab.h"
#include "run_models.h"

enum { STEPS = 20, FEWEST_STEPS = 4 };

/* Runs of one rank so far: many plans have the same. */
enum { MOST_SERIAL = 1024 };
static struct serial_run {
    const struct model *model;
    int64_t step, global, steps;
    uint64_t seed;
    struct trained *trained;
} serial_runs[MOST_SERIAL];
static int serial_count;

static int close_all(void **state)
{
    for (int i = 0; i < serial_count; i++)
        trained_free(serial_runs[i].trained);
    return close_run_models(state);
}

/* ---- against one rank ------------------------------------------------------------------------ */

static struct plan *serial_plan(const struct plan *plan)
{
    struct plan *serial = NULL;
    struct degrees d = {.micro_batch = plan->step_samples,
                        .global_batch = plan->global_batch,
                        .has_dtype = true,
                        .dtype = DTYPE_FP32};
    if (plan_from_degrees(plan->model, clusters[1], &d, &serial) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return serial;
}

struct conditions {
    int64_t steps;
    uint64_t seed;
    const struct slowdown *slowdown;
};

static struct trained *run_plan(const struct plan *plan, const struct conditions *c)
{
    struct laboratory lab = {.plan = plan,
                             .options = lab_options(plan->model),
                             .steps = c->steps,
                             .slowdown = c->slowdown};
    lab.options.dropout = 0.1F;
    lab.options.seed = c->seed;
    return run_lab(&lab);
}

/* The largest difference of any weight, to the largest of its tensor; what is noise around zero (a
 * bias of keys has no gradient) is compared with what weights begin with, 0.02. */
static double weight_error(const struct trained *a, const struct trained *b, const char **where)
{
    double worst = 0;
    for (int i = 0; i < a->weights; i++) {
        const struct trained_weight *x = &a->weight[i], *y = NULL;
        double most = 0.02, error = 0;
        for (int k = 0; k < b->weights; k++)
            if (strcmp(b->weight[k].name, x->name) == 0)
                y = &b->weight[k];
        if (!y || x->seen != x->elements || y->elements != x->elements) {
            *where = x->name;
            return INFINITY;
        }
        for (int64_t k = 0; k < x->elements; k++) {
            double difference = fabs((double)x->value[k] - (double)y->value[k]);
            most = fmax(most, fabs((double)x->value[k]));
            error = difference > error || isnan(difference) ? difference : error;
        }
        if (!(error / most <= worst)) {
            worst = error / most;
            *where = x->name;
        }
    }
    return worst;
}

static const struct trained *run_alone(const struct plan *plan, const struct conditions *c)
{
    for (int i = 0; i < serial_count; i++) {
        const struct serial_run *run = &serial_runs[i];
        if (run->model == plan->model && run->step == plan->step_samples &&
            run->global == plan->global_batch && run->steps == c->steps && run->seed == c->seed)
            return run->trained;
    }
    struct plan *serial = serial_plan(plan);
    assert_true(serial_count < MOST_SERIAL);
    serial_runs[serial_count] =
        (struct serial_run){plan->model,
                            plan->step_samples,
                            plan->global_batch,
                            c->steps,
                            c->seed,
                            run_plan(serial, &(struct conditions){c->steps, c->seed, NULL})};
    plan_free(serial);
    return serial_runs[serial_count++].trained;
}

static bool agree(const struct plan *plan, const struct conditions *c, char *why, size_t size)
{
    static const double TOLERANCE = 1e-5;
    const struct trained *one = run_alone(plan, c);
    struct trained *all = run_plan(plan, c);
    const char *where = "";
    double loss = 0, weights = 0;
    bool ran = one->status == WEFT_OK && all->status == WEFT_OK;
    if (!ran)
        snprintf(why, size, "one rank: %.100s; all: %.200s", one->why, all->why);
    for (int64_t i = 0; ran && i < c->steps; i++) {
        double error = fabs(all->loss[i] - one->loss[i]) / one->loss[i];
        if (!(error <= loss))
            loss = error;
    }
    if (ran) {
        weights = weight_error(one, all, &where);
        snprintf(why, size, "loss %.1e, weights %.1e (%s), %.6f -> %.6f", loss, weights, where,
                 one->loss[0], one->loss[c->steps - 1]);
    }
    bool same = ran && loss <= TOLERANCE && weights <= TOLERANCE;
    trained_free(all);
    return same;
}

/* Where an activation is on the kink of a ReLU, or two pixels of a window are equal but for the last
 * bit, the rounding of a sum decides about a gradient. That happens now and then; what is wrong is
 * wrong with other numbers too. */
static bool has_kinks(const struct model *model)
{
    bool kinks = false;
    for (int32_t i = 0; i < model->ops; i++)
        kinks |= model->op[i].kind == OP_RELU || model->op[i].kind == OP_POOL;
    return kinks;
}

static bool same_runs(const struct plan *plan, int64_t steps, char *why, size_t size)
{
    uint64_t seeds = has_kinks(plan->model) ? 4 : 1;
    bool same = false;
    for (uint64_t seed = 1; seed <= seeds && !same; seed++)
        same = agree(plan, &(struct conditions){steps, seed, NULL}, why, size);
    return same;
}

/* ---- a table of plans ------------------------------------------------------------------------ */

/* SMALL_MODELS, by what is in them. */
enum {
    GPT = 0,
    GPT_EAGER = 1,
    GPT_ROTARY = 2,
    LLAMA = 3,
    LLAMA_TIED = 4,
    LLAMA_NORMS = 5,
    MOE = 6,
    MOE_SHARED = 7,
    T5 = 8,
    BERT = 10,
    VIT = 11,
    SWIN = 12,
    RESNET = 13,
    RESNET_BASIC = 14,
    DLRM = 17,
    HYBRID = 18,
    HYBRID_EXPERTS = 19,
    MOE_WINDOWS = 20,
    LLAMA_WINDOWS = 21,
    GPT_EXPERTS = 22
};

static void choose(struct plan *plan, const char *path, const char *split)
{
    struct arena *scratch = arena_new();
    int found = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        if (!strstr(plan_path(scratch, plan, i), path))
            continue;
        struct doc *where;
        if (doc_parse(scratch, "split", "{a: b}", 6, DOC_YAML, &where) != WEFT_OK ||
            split_parse(where, split, &choice.split) != WEFT_OK ||
            plan_choose(plan, i, &choice) != WEFT_OK)
            fail_msg("%s as %s: %s", path, split, weft_last_error()->message);
        found++;
    }
    assert_true(found > 0);
    arena_free(scratch);
}

/* 2-D and 3-D matrix products (AutoDDL): partial sums, splits of both sides. */
static void products_2d(struct plan *plan)
{
    choose(plan, "qkv", "in:2 out:2");
    choose(plan, "proj", "out:2 in:2");
    choose(plan, "up", "in:4");
    choose(plan, "down", "batch:2 out:2");
}

static void products_3d(struct plan *plan)
{
    choose(plan, "qkv", "batch:2 out:2 in:2");
    choose(plan, "proj", "in:2 batch:2 out:2");
    choose(plan, "up", "in:2 seq:2 out:2");
    choose(plan, "down", "out:8");
    choose(plan, "norm", "seq:4 batch:2");
}

/* Another split for every layer. */
static void mixed_layers(struct plan *plan)
{
    choose(plan, "layers.1.", "batch:4");
    choose(plan, "layers.2.mlp.up", "out:4");
    choose(plan, "layers.2.mlp.gelu", "hidden:4");
    choose(plan, "layers.2.mlp.down", "in:4");
    choose(plan, "layers.3.mlp", "seq:2 batch:2");
    choose(plan, "head", "out:2 batch:2");
    choose(plan, "loss", "vocab:2 batch:2");
}

static void uneven(struct plan *plan)
{
    int64_t cut[] = {plan->instances / 3}, devices[] = {1, 3};
    assert_int_equal(plan_map(plan, 2, 1, cut, devices), WEFT_OK);
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        struct split split = split_none();
        const struct op *op = &plan->model->op[plan->instance[i].op];
        split_add(&split, op_find_dim(op->kind, DIM_BATCH) >= 0 ? DIM_BATCH : SPLIT_COPY,
                  i < cut[0] ? 1 : 3);
        choice.split = split;
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static void some_recomputed(struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.recompute = i % 3 == 0 || i % 5 == 1;
        choice.shard = (uint8_t)(i / 4 % 4);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

/* Every second product's output and attention's are saved, as PyTorch's selective checkpointing has it. */
static void some_saved(struct plan *plan)
{
    int64_t products = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        enum op_kind kind = plan->model->op[plan->instance[i].op].kind;
        choice.saved = choice.recompute &&
                       (kind == OP_ATTENTION || (kind == OP_LINEAR && products++ % 2 == 0));
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

/* Keys and values in blocks: each device attends to its own, and they meet in the middle. */
static void split_keys(struct plan *plan)
{
    choose(plan, "layers.0.attn.attention", "kv:4");
    choose(plan, "layers.1.attn.attention", "seq:2 kv:2");
    choose(plan, "layers.2.attn.attention", "kv:2 head:2");
    choose(plan, "layers.3.attn.attention", "batch:2 kv:2");
}

static void split_window_keys(struct plan *plan)
{
    choose(plan, "layers.0.attn.attention", "kv:4");
    choose(plan, "layers.1.attn.attention", "seq:2 kv:2");
    choose(plan, "layers.2.attn.attention", "kv:2 group:2");
}

/* Images in stripes and tiles, as far as they divide; what has no height is copied. */
static void tiles(struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        struct choice choice = *plan_choice(plan, i);
        int height = op_find_dim(op->kind, DIM_HEIGHT), width = op_find_dim(op->kind, DIM_WIDTH);
        int64_t left = split_devices(&choice.split);
        choice.split = split_none();
        if (width >= 0 && i % 2 && split_legal(plan->model, op, width, 2)) {
            split_add(&choice.split, DIM_WIDTH, 2);
            left /= 2;
        }
        if (height >= 0 && split_legal(plan->model, op, height, left))
            split_add(&choice.split, DIM_HEIGHT, left);
        else
            split_add(&choice.split, SPLIT_COPY, left);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

/* Tokens of experts by expert, by place and by feature; routers and their gates by token. */
static void split_experts(struct plan *plan)
{
    choose(plan, "router", "seq:4");
    choose(plan, "layers.0.mlp.experts.dispatch", "seq:4");
    choose(plan, "layers.1.mlp.experts.dispatch", "expert:2 seq:2");
    choose(plan, "layers.2.mlp.experts.dispatch", "hidden:2 seq:2");
    choose(plan, "experts.gate_up", "seq:2 expert:2");
    choose(plan, "layers.0.mlp.experts.down", "seq:4");
    choose(plan, "layers.1.mlp.experts.down", "expert:4");
    choose(plan, "layers.0.mlp.experts.combine", "expert:2 seq:2");
    choose(plan, "layers.1.mlp.experts.combine", "seq:4");
    choose(plan, "layers.2.mlp.experts.combine", "hidden:4");
}

#define NO_OVERLAP     .has_overlap = true, .overlap = 0
#define SMALL_BUCKETS  .has_bucket = true, .bucket_bytes = 1 << 12
#define RECOMPUTE(how) .recompute = RECOMPUTE_##how

static const struct row {
    const char *name;
    int model, ranks;
    struct degrees degrees;
    void (*change)(struct plan *plan);
} ROWS[] = {
    {"one rank, 2 micro-batches", GPT, 1, {.micro_batch = 2, .global_batch = 4}},
    {"dp 2", GPT, 2, {.dp = 2, .global_batch = 4}},
    {"dp 4, small buckets", GPT, 4, {.dp = 4, .global_batch = 8, SMALL_BUCKETS}},
    {"dp 2, no overlap", LLAMA, 2, {.dp = 2, .global_batch = 4, NO_OVERLAP}},
    {"dp 8", BERT, 8, {.dp = 8, .global_batch = 16}},
    {"tp 2", GPT, 2, {.tp = 2, .global_batch = 4}},
    {"tp 4", GPT, 4, {.tp = 4, .global_batch = 2}},
    {"tp 2, sp", GPT, 2, {.tp = 2, .sequence = true, .global_batch = 4}},
    {"tp 4, sp, eager", GPT_EAGER, 4, {.tp = 4, .sequence = true, .global_batch = 2}},
    {"tp 2, dp 2, sp", LLAMA, 4, {.tp = 2, .dp = 2, .sequence = true, .global_batch = 4}},
    {"tp 3, tied", LLAMA_TIED, 3, {.tp = 3, .global_batch = 2}},
    {"tp 2, padded vocabulary", LLAMA_TIED, 2, {.tp = 2, .global_batch = 2}},
    {"tp 2, norms of heads", LLAMA_NORMS, 2, {.tp = 2, .global_batch = 2}},
    {"tp 2, rotary", GPT_ROTARY, 2, {.tp = 2, .global_batch = 2}},
    {"tp 4", T5, 4, {.tp = 4, .global_batch = 2}},
    {"tp 2, sp, dp 2", BERT, 4, {.tp = 2, .dp = 2, .sequence = true, .global_batch = 4}},
    {"cp 2", GPT, 2, {.cp = 2, .global_batch = 4}},
    {"cp 4", LLAMA, 4, {.cp = 4, .global_batch = 2}},
    {"cp 2 by heads", LLAMA, 2, {.cp = 2, .cp_heads = 2, .global_batch = 2}},
    {"cp 4, two of them by heads", LLAMA, 4, {.cp = 4, .cp_heads = 2, .global_batch = 2}},
    {"cp 2 by heads, tp 2, sp",
     LLAMA,
     4,
     {.cp = 2, .cp_heads = 2, .tp = 2, .sequence = true, .global_batch = 2}},
    {"cp 2, tp 2, dp 2", GPT, 8, {.cp = 2, .tp = 2, .dp = 2, .global_batch = 4}},
    {"state space, tp 2, sp", HYBRID, 2, {.tp = 2, .sequence = true, .global_batch = 4}},
    {"state space, tp 4", HYBRID, 4, {.tp = 4, .global_batch = 2}},
    {"state space, cp 4", HYBRID, 4, {.cp = 4, .global_batch = 2}},
    {"state space, cp 2, tp 2", HYBRID, 4, {.cp = 2, .tp = 2, .global_batch = 2}},
    {"state space, zero 3", HYBRID, 2, {.dp = 2, .shard = 3, .global_batch = 4}},
    {"state space, recompute", HYBRID, 2, {.dp = 2, .global_batch = 4, RECOMPUTE(FULL)}},
    {"state space, pp 4", HYBRID, 4, {.pp = 4, .global_batch = 6}},
    {"state space, interleaved", HYBRID, 2, {.pp = 2, .pieces = 2, .global_batch = 4}},
    {"hybrid experts, ep 4", HYBRID_EXPERTS, 4, {.dp = 4, .ep = 4, .global_batch = 8}},
    {"hybrid experts, tp 2, sp",
     HYBRID_EXPERTS,
     4,
     {.tp = 2, .dp = 2, .ep = 2, .sequence = true, .global_batch = 4}},
    {"hybrid experts, cp 2", HYBRID_EXPERTS, 2, {.cp = 2, .global_batch = 2}},
    {"zero 1", GPT, 2, {.dp = 2, .shard = 1, .global_batch = 4}},
    {"zero 1, no overlap", GPT, 4, {.dp = 4, .shard = 1, .global_batch = 8, NO_OVERLAP}},
    {"zero 2", GPT, 2, {.dp = 2, .shard = 2, .global_batch = 4}},
    {"zero 2, small buckets", LLAMA, 4, {.dp = 4, .shard = 2, .global_batch = 8, SMALL_BUCKETS}},
    {"zero 3", GPT, 2, {.dp = 2, .shard = 3, .global_batch = 4}},
    {"zero 1 in 2 groups", GPT, 4, {.dp = 4, .shard = 1, .replicate = 2, .global_batch = 8}},
    {"zero 2 in 2 groups, no overlap",
     LLAMA,
     4,
     {.dp = 4, .shard = 2, .replicate = 2, .global_batch = 8, NO_OVERLAP}},
    {"zero 3 in 2 groups, tp 2",
     GPT,
     8,
     {.dp = 4, .tp = 2, .shard = 3, .replicate = 2, .global_batch = 8}},
    {"zero 3, tp 2, no overlap",
     LLAMA,
     4,
     {.dp = 2, .tp = 2, .shard = 3, .global_batch = 4, NO_OVERLAP}},
    {"zero 3, recompute", GPT, 4, {.dp = 4, .shard = 3, .global_batch = 8, RECOMPUTE(FULL)}},
    {"recompute selective", GPT_EAGER, 2, {.dp = 2, .global_batch = 4, RECOMPUTE(SELECTIVE)}},
    {"recompute full, tp 2, sp",
     LLAMA,
     2,
     {.tp = 2, .sequence = true, .global_batch = 4, RECOMPUTE(FULL)}},
    {"1f1b, pp 2", GPT, 2, {.pp = 2, .global_batch = 4}},
    {"1f1b, pp 4", GPT, 4, {.pp = 4, .global_batch = 6}},
    {"1f1b, pp 4, no overlap", GPT, 4, {.pp = 4, .global_batch = 6, NO_OVERLAP}},
    {"gpipe, pp 2, dp 2", LLAMA, 4, {.pp = 2, .dp = 2, .global_batch = 8, .schedule = "gpipe"}},
    {"gpipe, pp 3", T5, 3, {.pp = 3, .global_batch = 4, .schedule = "gpipe"}},
    {"1f1b, pp 2", T5, 2, {.pp = 2, .global_batch = 4}},
    {"interleaved, pp 2", GPT, 2, {.pp = 2, .pieces = 2, .global_batch = 4}},
    {"interleaved, pp 2, tp 2, sp",
     LLAMA,
     4,
     {.pp = 2, .pieces = 2, .tp = 2, .sequence = true, .global_batch = 4}},
    {"aiao, pp 2, 2 segments", GPT, 2, {.pp = 2, .segments = 2, .global_batch = 4}},
    {"aiao, pp 2, dp 2, 2 segments",
     LLAMA,
     4,
     {.pp = 2, .dp = 2, .segments = 2, .global_batch = 8}},
    {"aiao, pp 2, dp 2, zero 1, tied",
     GPT,
     4,
     {.pp = 2, .dp = 2, .segments = 2, .shard = 1, .global_batch = 8}},
    {"aiao, dp 2, 4 segments, small buckets",
     GPT,
     2,
     {.dp = 2, .segments = 4, .global_batch = 4, SMALL_BUCKETS}},
    {"aiao, pp 2, offload, recompute",
     LLAMA,
     2,
     {.pp = 2, .segments = 2, .global_batch = 4, .offload = true, RECOMPUTE(FULL)}},
    {"zb-h1, pp 4", GPT, 4, {.pp = 4, .global_batch = 8, .schedule = "zb-h1"}},
    {"zb-h1, pp 2, tp 2, zero 2",
     LLAMA,
     8,
     {.pp = 2, .tp = 2, .dp = 2, .shard = 2, .global_batch = 8, .schedule = "zb-h1"}},
    {"offload, recompute", GPT, 2, {.dp = 2, .global_batch = 4, .offload = true, RECOMPUTE(FULL)}},
    {"pp 2, tp 2, dp 2, zero 1, recompute, sp",
     GPT,
     8,
     {.pp = 2, .tp = 2, .dp = 2, .shard = 1, .sequence = true, .global_batch = 8, RECOMPUTE(FULL)}},
    {"pp 2, zero 3, dp 2", LLAMA, 4, {.pp = 2, .dp = 2, .shard = 3, .global_batch = 8}},
    {"pp 2, tp 2, whole sends", GPT, 4, {.pp = 2, .tp = 2, .whole_sends = true, .global_batch = 4}},
    {"uneven stages, 1 and 3 devices",
     LLAMA_TIED,
     4,
     {.dp = 4, .micro_batch = 3, .global_batch = 24},
     uneven},
    {"2-D products", GPT, 4, {.tp = 4, .micro_batch = 2, .global_batch = 4}, products_2d},
    {"3-D products", GPT, 8, {.tp = 4, .dp = 2, .micro_batch = 2, .global_batch = 4}, products_3d},
    {"another split for every layer",
     GPT,
     4,
     {.dp = 4, .micro_batch = 1, .global_batch = 8},
     mixed_layers},
    {"some recomputed, zero 0-3", GPT, 4, {.dp = 4, .global_batch = 8}, some_recomputed},
    {"some saved, zero 3",
     LLAMA_NORMS,
     2,
     {.dp = 2, .shard = 3, .global_batch = 4, RECOMPUTE(FULL)},
     some_saved},
    {"some saved, tp 2, sp",
     LLAMA_NORMS,
     2,
     {.tp = 2, .sequence = true, .global_batch = 2, RECOMPUTE(FULL)},
     some_saved},
    {"some saved, tp 2, dp 2",
     LLAMA_NORMS,
     4,
     {.tp = 2, .dp = 2, .global_batch = 4, RECOMPUTE(FULL)},
     some_saved},
    {"vit, dp 2, tp 2", VIT, 4, {.dp = 2, .tp = 2, .global_batch = 4}},
    {"resnet, dp 2", RESNET, 2, {.dp = 2, .micro_batch = 2, .global_batch = 4}},
    {"resnet, dp 2, zero 3",
     RESNET_BASIC,
     2,
     {.dp = 2, .shard = 3, .micro_batch = 4, .global_batch = 16}},
    {"resnet, pp 2", RESNET_BASIC, 2, {.pp = 2, .micro_batch = 2, .global_batch = 4}},
    {"keys split", GPT, 4, {.dp = 4, .micro_batch = 1, .global_batch = 4}, split_keys},
    {"moe, ep 2", MOE, 2, {.dp = 2, .ep = 2, .global_batch = 4}},
    /* layernorm, 1 << 1, and moe_act, 1 << 5, of MODULES: outputs that are discarded */
    {"moe, ep 2, modules",
     MOE,
     4,
     {.dp = 2,
      .tp = 2,
      .ep = 2,
      .sequence = true,
      .global_batch = 4,
      RECOMPUTE(SELECTIVE),
      .modules = 1 << 1 | 1 << 5}},
    {"moe, ep 4, zero 1", MOE_SHARED, 4, {.dp = 4, .ep = 4, .shard = 1, .global_batch = 8}},
    {"moe, ep 2, tp 2, sp",
     MOE,
     4,
     {.dp = 2, .ep = 2, .tp = 2, .sequence = true, .global_batch = 4}},
    {"moe, whole experts over tp 2 and dp 2",
     MOE,
     4,
     {.dp = 2, .ep = 4, .etp = 1, .tp = 2, .sequence = true, .global_batch = 4}},
    {"moe, experts of half of tp 4, replicas along the sequence",
     MOE_SHARED,
     4,
     {.ep = 1, .etp = 2, .tp = 4, .sequence = true, .global_batch = 4}},
    {"moe, cp 2, ep 2", MOE, 4, {.dp = 2, .ep = 2, .cp = 2, .global_batch = 4}},
    {"moe, pp 2, ep 2, recompute",
     MOE_SHARED,
     8,
     {.pp = 2, .dp = 4, .ep = 2, .global_batch = 16, RECOMPUTE(FULL)}},
    {"moe, experts by place", MOE, 4, {.dp = 4, .global_batch = 4}, split_experts},
    {"windows and sinks, tp 4", MOE_WINDOWS, 4, {.tp = 4, .global_batch = 2}},
    {"windows and sinks, ep 2, cp 2, zero 2",
     MOE_WINDOWS,
     4,
     {.dp = 2, .ep = 2, .cp = 2, .shard = 2, .global_batch = 4}},
    {"windows and sinks, zb-h1, pp 2, tp 2",
     MOE_WINDOWS,
     4,
     {.pp = 2, .tp = 2, .global_batch = 4, .schedule = "zb-h1"}},
    {"windows, keys split",
     MOE_WINDOWS,
     4,
     {.dp = 4, .micro_batch = 1, .global_batch = 4},
     split_window_keys},
    {"masked windows, tp 2, sp, recompute",
     LLAMA_WINDOWS,
     2,
     {.tp = 2, .sequence = true, .global_batch = 2, RECOMPUTE(FULL)}},
    {"masked windows, cp 2, zero 3",
     LLAMA_WINDOWS,
     4,
     {.dp = 2, .cp = 2, .shard = 3, .global_batch = 4}},
    {"experts without gates, ep 4", GPT_EXPERTS, 4, {.dp = 4, .ep = 4, .global_batch = 8}},
    {"experts without gates, ep 2, tp 2",
     GPT_EXPERTS,
     4,
     {.dp = 2, .ep = 2, .tp = 2, .global_batch = 4}},
    {"swin, dp 2, tp 2", SWIN, 4, {.dp = 2, .tp = 2, .global_batch = 4}},
    {"resnet in stripes", RESNET_BASIC, 2, {.dp = 2, .micro_batch = 4, .global_batch = 16}, tiles},
    {"resnet in tiles", RESNET, 4, {.dp = 4, .micro_batch = 1, .global_batch = 8}, tiles},
    {"dlrm, tp 4, dp 2", DLRM, 8, {.tp = 4, .dp = 2, .global_batch = 8}},
    {"dlrm, zero 3", DLRM, 2, {.dp = 2, .shard = 3, .global_batch = 8}},
    {"t5, pp 3, tp 2, zero 1", T5, 6, {.pp = 3, .tp = 2, .shard = 1, .global_batch = 4}},
};

static struct plan *plan_of_row(const struct row *row)
{
    struct degrees d = row->degrees;
    struct plan *plan = NULL;
    d.has_dtype = true;
    d.dtype = DTYPE_FP32;
    if (plan_from_degrees(models[row->model], clusters[row->ranks], &d, &plan) != WEFT_OK)
        fail_msg("%s: %s", row->name, weft_last_error()->message);
    if (row->change)
        row->change(plan);
    if (plan_check(plan) != WEFT_OK)
        fail_msg("%s: %s", row->name, weft_last_error()->message);
    return plan;
}

static void test_plans_compute_what_one_rank_does(void **state)
{
    (void)state;
    int wrong = 0, some = rounds_of(STEPS), steps = some > FEWEST_STEPS ? some : FEWEST_STEPS;
    steps = steps < STEPS ? steps : STEPS;
    const char *only = getenv("WEFT_RUN_ROW");
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char why[512] = "";
        if ((only && !strstr(ROWS[i].name, only)) || !lab_runs(models[ROWS[i].model]))
            continue;
        struct plan *plan = plan_of_row(&ROWS[i]);
        bool same = same_runs(plan, steps, why, sizeof why);
        if (!same || only)
            print_message("%-2zu %s, %s: %s\n", i, ROWS[i].name, plan->model->family, why);
        wrong += !same;
        plan_free(plan);
    }
    assert_int_equal(wrong, 0);
}

/* ---- random plans ---------------------------------------------------------------------------- */

/* The last maps of these images have one pixel: a batch norm over two numbers gives +1 and -1, and a
 * gradient that is all rounding. */
static bool is_ill(const struct plan *plan)
{
    bool norms = false;
    for (int32_t i = 0; i < plan->model->ops; i++)
        norms |= plan->model->op[i].kind == OP_BATCH_NORM;
    return norms && plan->step_samples < 4;
}

static struct plan *runnable_plan(struct rng *rng, const struct model *model)
{
    for (;;) {
        struct plan *plan = random_plan(rng, model, clusters[1 + rng_below(rng, MOST_RANKS)]);
        plan->dtype = DTYPE_FP32;
        plan->policy = POLICY_FP32;
        if (!is_ill(plan))
            return plan;
        plan_free(plan);
    }
}

/* Not those that take long, nor inception, whose batch norms of one pixel make rounding grow. */
static const struct model *random_model(struct rng *rng)
{
    static const char *const SKIPPED[] = {"vgg", "inception"};
    for (;;) {
        const struct model *model = models[rng_below(rng, SMALL_MODEL_COUNT)];
        bool skipped = model->seq > 100;
        for (size_t i = 0; i < COUNT_OF(SKIPPED); i++)
            skipped |= strcmp(model->family, SKIPPED[i]) == 0;
        if (!skipped && lab_runs(model))
            return model;
    }
}

static void test_random_plans(void **state)
{
    (void)state;
    const char *only = getenv("WEFT_RUN_ROUND");
    int rounds = rounds_of(100), wrong = 0;
    for (int round = 0; round < rounds; round++) {
        struct rng rng;
        char why[512] = "";
        if (only && atoi(only) != round)
            continue;
        rng_seed(&rng, (uint64_t)round);
        const struct model *model = random_model(&rng);
        struct plan *plan = runnable_plan(&rng, model);
        bool same = same_runs(plan, 4, why, sizeof why);
        if (!same || only)
            print_message("round %d, %s, %s, %lld ranks: %s\n", round, model->family,
                          plan->schedule, (long long)cluster_devices(plan->cluster), why);
        wrong += !same;
        plan_free(plan);
    }
    assert_int_equal(wrong, 0);
}

/* ---- devices apart from the host -------------------------------------------------------------- */

/* The same on a device whose memory the host does not share: whatever it reads or writes without asking the
 * device is lost on the way. */
static void test_devices_apart_from_the_host(void **state)
{
    struct compute_device device = CPU_DEVICE;
    struct kernels kernels = CPU_KERNELS;
    (void)state;
    device.shared = false;
    kernels.device = &device;
    if (lab_backend() != &CPU_KERNELS)
        skip();
    for (size_t i = 0; i < COUNT_OF(ROWS); i += 5) {
        struct plan *plan = plan_of_row(&ROWS[i]);
        struct conditions c = {FEWEST_STEPS, 3, NULL};
        const struct trained *one = run_alone(plan, &c);
        struct laboratory lab = {
            .plan = plan, .options = lab_options(plan->model), .steps = c.steps};
        lab.options.dropout = 0.1F;
        lab.options.kernels = &kernels;
        struct trained *all = run_lab(&lab);
        if (all->status != WEFT_OK)
            fail_msg("%s", all->why);
        for (int64_t k = 0; k < c.steps; k++)
            assert_true(fabs(all->loss[k] - one->loss[k]) <= 1e-5 * one->loss[k]);
        trained_free(all);
        plan_free(plan);
    }
}

/* ---- a slow and uneven network --------------------------------------------------------------- */

static void test_delays_change_nothing(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"interleaved, pp 2, tp 2, sp", "zb-h1, pp 4",
                                        "aiao, pp 2, dp 2, zero 1, tied", "zero 2, small buckets",
                                        "uneven stages, 1 and 3 devices"};
    for (size_t k = 0; k < COUNT_OF(NAMES); k++)
        for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
            struct slowdown slow = {.seed = k, .delay_s = 0.001, .bytes_per_s = 1e9};
            char why[512] = "";
            if (strcmp(ROWS[i].name, NAMES[k]) != 0)
                continue;
            struct plan *plan = plan_of_row(&ROWS[i]);
            if (!agree(plan, &(struct conditions){2, 1, &slow}, why, sizeof why))
                fail_msg("%s: %s", NAMES[k], why);
            plan_free(plan);
        }
}

/* Threads sum in the order of the members: runs repeat bit for bit. */
static bool offloads(const struct plan *plan)
{
    bool any = false;
    for (int64_t i = 0; i < plan->instances; i++)
        any |= plan_choice(plan, i)->recompute && plan_choice(plan, i)->offload;
    return any;
}

/* What waits in host memory has been read by then, however late its last reader comes. In the first two it
 * once had not: a step for what is sent, after another one that took its time. */
static void test_late_steps_find_checkpoints(void **state)
{
    (void)state;
    static const uint64_t FOUND[] = {495, 544};
    int rounds = rounds_of(40), wrong = 0;
    for (int i = -(int)COUNT_OF(FOUND); i < rounds; i++) {
        struct slowdown slow = {.seed = 1, .delay_s = 0.002};
        struct rng rng;
        char why[512] = "";
        rng_seed(&rng, i < 0 ? FOUND[-i - 1] : (uint64_t)i);
        const struct model *model = random_model(&rng);
        struct plan *plan = runnable_plan(&rng, model);
        bool same =
            !offloads(plan) || agree(plan, &(struct conditions){1, 1, &slow}, why, sizeof why);
        if (!same)
            print_message("%d, %s, %s: %s\n", i, model->family, plan->schedule, why);
        wrong += !same;
        plan_free(plan);
    }
    assert_int_equal(wrong, 0);
}

static void test_runs_repeat(void **state)
{
    (void)state;
    struct row row = {"", GPT, 4, {.dp = 2, .tp = 2, .shard = 1, .global_batch = 4}, NULL};
    struct plan *plan = plan_of_row(&row);
    struct slowdown slow = {.seed = 5, .delay_s = 0.0005};
    struct trained *a = run_plan(plan, &(struct conditions){3, 1, NULL});
    struct trained *b = run_plan(plan, &(struct conditions){3, 1, &slow});
    const char *where = "";
    double error = weight_error(a, b, &where);
    if (error > 0)
        fail_msg("%s differs by %.1e", where, error);
    assert_true(a->loss[2] == b->loss[2] && a->loss[2] > 0);
    trained_free(a);
    trained_free(b);
    plan_free(plan);
}

/* ---- memory and time ------------------------------------------------------------------------- */

static struct trained *run_degrees(int model, int ranks, struct degrees degrees)
{
    struct row row = {"", model, ranks, degrees, NULL};
    struct plan *plan = plan_of_row(&row);
    struct trained *trained = run_plan(plan, &(struct conditions){1, 1, NULL});
    assert_int_equal(trained->status, WEFT_OK);
    plan_free(plan);
    return trained;
}

static void test_memory_is_counted(void **state)
{
    (void)state;
    struct degrees plain = {.dp = 2, .micro_batch = 4, .global_batch = 16};
    struct degrees again = plain, host = plain, sharded = plain;
    again.recompute = host.recompute = RECOMPUTE_FULL;
    host.offload = true;
    sharded.shard = 3;
    struct trained *a = run_degrees(GPT, 2, plain), *b = run_degrees(GPT, 2, again);
    struct trained *c = run_degrees(GPT, 2, host), *d = run_degrees(GPT, 2, sharded);
    assert_true(b->peak < a->peak);
    assert_true(c->peak < b->peak || c->host_peak > 0);
    assert_true(d->peak < a->peak);
    assert_true(a->host_peak == 0 && c->host_peak > 0);
    trained_free(a);
    trained_free(b);
    trained_free(c);
    trained_free(d);
}

/* On every rank within 5 % of the simulator's peak, with the optimizer that it assumes. The model is one
 * whose tensors are larger than the few bytes that nobody predicts: labels, staged transfers. */
static void test_memory_is_as_predicted(void **state)
{
    (void)state;
    static const struct small_model MODEL = {
        "gpt", "{layers: 4, hidden: 128, heads: 4, seq: 128, vocab: 512, dropout: 0}"};
    static const struct degrees DEGREES[] = {
        {.dp = 2, .micro_batch = 4, .global_batch = 16},
        {.tp = 2, .micro_batch = 4, .global_batch = 8},
        {.tp = 2, .sequence = true, .micro_batch = 4, .global_batch = 8},
        {.pp = 2, .micro_batch = 4, .global_batch = 16},
        {.dp = 2, .micro_batch = 4, .global_batch = 16, RECOMPUTE(FULL)},
        {.dp = 2, .shard = 1, .micro_batch = 4, .global_batch = 16},
        {.dp = 2, .shard = 3, .micro_batch = 4, .global_batch = 16}};
    struct model *model = open_small(&MODEL);
    for (size_t i = 0; i < COUNT_OF(DEGREES); i++) {
        struct degrees d = DEGREES[i];
        struct plan *plan = NULL;
        d.has_dtype = d.has_policy = true;
        d.dtype = DTYPE_FP32;
        d.policy = POLICY_FP32;
        assert_int_equal(plan_from_degrees(model, clusters[2], &d, &plan), WEFT_OK);
        struct laboratory lab = {.plan = plan, .options = lab_options(model), .steps = 1};
        lab.options.optimizer = (struct optimizer_step){
            .kind = OPTIMIZER_ADAM, .rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-8F};
        struct trained *trained = run_lab(&lab);
        assert_int_equal(trained->status, WEFT_OK);
        if (trained->memory_error > 0.05)
            fail_msg("plan %zu: the peak is %.1f %% off", i, 100 * trained->memory_error);
        trained_free(trained);
        plan_free(plan);
    }
    model_free(model);
}

/* Every task that a rank has a part in is recorded, and none before what it waits for there. */
static void test_trace_keeps_the_order_of_the_graph(void **state)
{
    (void)state;
    struct row row = {"", GPT, 1, {.micro_batch = 1, .global_batch = 3}, NULL};
    struct plan *plan = plan_of_row(&row);
    struct hub *hub = hub_new(1, NULL);
    struct run_options options = lab_options(plan->model);
    struct rank *rank;
    const struct run_event *event;
    double loss;
    options.plan = plan;
    options.transport = transport_threads(hub, 0);
    options.trace = true;
    assert_int_equal(run_open(&options, &rank), WEFT_OK);
    assert_int_equal(run_step(rank, &loss), WEFT_OK);
    assert_int_equal(run_step(rank, &loss), WEFT_OK);
    const struct graph *graph = run_graph(rank);
    size_t events = run_events(rank, &event);
    assert_int_equal(events, 2 * graph->tasks);
    for (size_t i = 0; i < events; i++) {
        assert_true(event[i].begin_ns <= event[i].end_ns);
        for (int64_t d = graph->depends_first[event[i].task];
             d < graph->depends_first[event[i].task + 1]; d++)
            for (size_t k = 0; k < events; k++)
                if (event[k].task == graph->depends[d] && event[k].step == event[i].step)
                    assert_true(event[k].end_ns <= event[i].begin_ns);
    }
    run_close(rank);
    options.transport->kind->close(options.transport);
    hub_free(hub);
    plan_free(plan);
}

/* ---- what cannot be run ---------------------------------------------------------------------- */

static void check_refused(const struct plan *plan, const char *words)
{
    struct trained *t = run_plan(plan, &(struct conditions){1, 1, NULL});
    assert_int_equal(t->status, WEFT_BAD_INPUT);
    if (!strstr(t->why, words))
        fail_msg("'%s' does not say '%s'", t->why, words);
    trained_free(t);
}

static void test_refusals_say_why(void **state)
{
    (void)state;
    struct row row = {"", GPT, 2, {.dp = 2, .global_batch = 4}, NULL};
    struct plan *plan = plan_of_row(&row);
    plan->dtype = DTYPE_FP16;
    check_refused(plan, "dtype fp16: weft has no such products");
    plan->dtype = DTYPE_BF16;
    plan->policy = POLICY_PURE_BF16;
    check_refused(plan, "policy pure-bf16 in bf16");
    plan_free(plan);
}

/* One rank that gives up ends all. */
static void *give_up(void *context)
{
    struct transport *transport = context;
    transport->kind->abort(transport, "rank 1 ran out of patience");
    return NULL;
}

static void test_a_failure_ends_all_ranks(void **state)
{
    (void)state;
    struct row row = {"", GPT, 2, {.dp = 2, .global_batch = 4}, NULL};
    struct plan *plan = plan_of_row(&row);
    struct hub *hub = hub_new(2, NULL);
    struct run_options options = lab_options(plan->model);
    struct transport *other = transport_threads(hub, 1);
    struct rank *rank;
    pthread_t thread;
    double loss;
    options.plan = plan;
    options.transport = transport_threads(hub, 0);
    assert_int_equal(run_open(&options, &rank), WEFT_OK);
    pthread_create(&thread, NULL, give_up, other);
    assert_int_equal(run_step(rank, &loss), WEFT_FAILURE);
    assert_string_equal(weft_last_error()->message, "rank 1 ran out of patience");
    pthread_join(thread, NULL);
    run_close(rank);
    other->kind->close(other);
    options.transport->kind->close(options.transport);
    hub_free(hub);
    plan_free(plan);
}

/* After a failure nothing is sent or added up any more: its buffers may be gone. */
static void test_nothing_meets_behind_a_failure(void **state)
{
    (void)state;
    struct hub *hub = hub_new(2, NULL);
    struct transport *rank[] = {transport_threads(hub, 0), transport_threads(hub, 1)};
    struct pending_transfer *request;
    float value[] = {1, 2};
    for (int32_t i = 0; i < 2; i++) {
        int32_t group;
        assert_int_equal(rank[i]->kind->group(rank[i], (int32_t[]){0, 1}, 2, 0, &group), WEFT_OK);
        struct transfer sum = {.kind = TRANSFER_ALL_REDUCE,
                               .group = group,
                               .from = &value[i],
                               .to = &value[i],
                               .count = 1};
        assert_int_equal(rank[i]->kind->start(rank[i], &sum, &request), WEFT_OK);
        assert_false(rank[i]->kind->test(rank[i], request));
        if (i == 0)
            rank[1]->kind->abort(rank[1], "enough");
    }
    assert_true(value[0] == 1 && value[1] == 2);
    for (int32_t i = 0; i < 2; i++)
        rank[i]->kind->close(rank[i]);
    hub_free(hub);
}

/* Whenever it happens all ranks end, and nothing is used or held after their end (the sanitizers say). */
static void test_failures_at_any_time(void **state)
{
    (void)state;
    int failed = 0;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < rounds_of(60); round++) {
        const struct row *row = &ROWS[rng_below(&rng, COUNT_OF(ROWS))];
        if (!lab_runs(models[row->model]))
            continue;
        struct plan *plan = plan_of_row(row);
        struct laboratory lab = {.plan = plan,
                                 .options = lab_options(plan->model),
                                 .steps = 4,
                                 .gives_up_us = 1 + (int64_t)rng_below(&rng, 20000)};
        lab.options.clip = rng_below(&rng, 2) ? 1 : 0; /* sums that the executor asks for */
        struct trained *trained = run_lab(&lab);
        failed += trained->status != WEFT_OK;
        if (trained->status)
            assert_string_equal(trained->why, "a rank gave up");
        trained_free(trained);
        plan_free(plan);
    }
    assert_true(failed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_compute_what_one_rank_does),
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_devices_apart_from_the_host),
        cmocka_unit_test(test_delays_change_nothing),
        cmocka_unit_test(test_late_steps_find_checkpoints),
        cmocka_unit_test(test_runs_repeat),
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_memory_is_as_predicted),
        cmocka_unit_test(test_trace_keeps_the_order_of_the_graph),
        cmocka_unit_test(test_refusals_say_why),
        cmocka_unit_test(test_a_failure_ends_all_ranks),
        cmocka_unit_test(test_nothing_meets_behind_a_failure),
        cmocka_unit_test(test_failures_at_any_time),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}

/* run_rows.h - a table of plans that are run: each way to divide a model that the executor has. */
#ifndef WEFT_TESTS_RUN_ROWS_H
#define WEFT_TESTS_RUN_ROWS_H

#include "run_models.h"

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
    GPT_EXPERTS = 22,
    TOWER = 23,
    TOWER_FROZEN = 24,
    TOWER_DEEPSTACK = 25,
    TOWER_CROSS = 26
};

static inline void choose(struct plan *plan, const char *path, const char *split)
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
static inline void products_2d(struct plan *plan)
{
    choose(plan, "qkv", "in:2 out:2");
    choose(plan, "proj", "out:2 in:2");
    choose(plan, "up", "in:4");
    choose(plan, "down", "batch:2 out:2");
}

static inline void products_3d(struct plan *plan)
{
    choose(plan, "qkv", "batch:2 out:2 in:2");
    choose(plan, "proj", "in:2 batch:2 out:2");
    choose(plan, "up", "in:2 seq:2 out:2");
    choose(plan, "down", "out:8");
    choose(plan, "norm", "seq:4 batch:2");
}

/* Another split for every layer. */
static inline void mixed_layers(struct plan *plan)
{
    choose(plan, "layers.1.", "batch:4");
    choose(plan, "layers.2.mlp.up", "out:4");
    choose(plan, "layers.2.mlp.gelu", "hidden:4");
    choose(plan, "layers.2.mlp.down", "in:4");
    choose(plan, "layers.3.mlp", "seq:2 batch:2");
    choose(plan, "head", "out:2 batch:2");
    choose(plan, "loss", "vocab:2 batch:2");
}

static inline void uneven(struct plan *plan)
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

static inline void some_recomputed(struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.recompute = i % 3 == 0 || i % 5 == 1;
        choice.shard = (uint8_t)(i / 4 % 4);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

/* Every second product's output and attention's are saved, as PyTorch's selective checkpointing has it. */
static inline void some_saved(struct plan *plan)
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
static inline void split_keys(struct plan *plan)
{
    choose(plan, "layers.0.attn.attention", "kv:4");
    choose(plan, "layers.1.attn.attention", "seq:2 kv:2");
    choose(plan, "layers.2.attn.attention", "kv:2 head:2");
    choose(plan, "layers.3.attn.attention", "batch:2 kv:2");
}

static inline void split_window_keys(struct plan *plan)
{
    choose(plan, "layers.0.attn.attention", "kv:4");
    choose(plan, "layers.1.attn.attention", "seq:2 kv:2");
    choose(plan, "layers.2.attn.attention", "kv:2 group:2");
}

/* Backward, keys and values gather what queries, which run again, gather once more (blocks.c, I4). */
static inline void queries_again(struct plan *plan)
{
    struct arena *scratch = arena_new();
    choose(plan, "", "copy:2");
    choose(plan, "layers.0.attn.norm", "batch:2");
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.recompute = strcmp(plan_path(scratch, plan, i), "layers.0.attn.q") == 0;
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
    arena_free(scratch);
}

/* Images in stripes and tiles, as far as they divide; what has no height is copied. */
static inline void tiles(struct plan *plan)
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
static inline void split_experts(struct plan *plan)
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
    {"interleaved, a group of 3", GPT, 2, {.pp = 2, .pieces = 2, .global_batch = 3}},
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
    {"1f1b, pp 2, tp 2, the head waits",
     GPT,
     4,
     {.pp = 2, .tp = 2, .global_batch = 4, .defer_head = 2}},
    {"interleaved, the head waits",
     LLAMA,
     4,
     {.pp = 2, .dp = 2, .pieces = 2, .shard = 1, .global_batch = 8, .defer_head = DEFER_ALL}},
    {"zb-h2, pp 2", GPT, 2, {.pp = 2, .global_batch = 4, .schedule = "zb-h2"}},
    {"zb-v, pp 2", GPT, 2, {.pp = 2, .pieces = 2, .global_batch = 4, .schedule = "zb-v"}},
    {"v-min, pp 2", GPT, 2, {.pp = 2, .pieces = 2, .global_batch = 4, .schedule = "v-min"}},
    {"dualpipev, pp 2", GPT, 2, {.pp = 2, .pieces = 2, .global_batch = 4, .schedule = "dualpipev"}},
    {"dualpipe, pp 2, dp 2",
     GPT,
     4,
     {.pp = 2, .dp = 2, .pieces = 2, .global_batch = 8, .schedule = "dualpipe"}},
    {"dualpipe, tp 2, dp 4, zero 1",
     LLAMA,
     8,
     {.tp = 2, .dp = 4, .pieces = 2, .shard = 1, .global_batch = 8, .schedule = "dualpipe"}},
    {"hanayo, pp 2", GPT, 2, {.pp = 2, .pieces = 2, .global_batch = 4, .schedule = "hanayo"}},
    {"zb-h1, pp 2, tp 2, zero 2",
     LLAMA,
     8,
     {.pp = 2, .tp = 2, .dp = 2, .shard = 2, .global_batch = 8, .schedule = "zb-h1"}},
    {"offload of modules, pp 2",
     GPT,
     4,
     /* attn_norm, core_attn, attn_proj, mlp_norm */
     {.pp = 2, .dp = 2, .global_batch = 8, .offload_modules = 0x1d}},
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
    {"tower, tp 2, sp", TOWER, 2, {.tp = 2, .sequence = true, .global_batch = 2}},
    {"tower whole beside tp 2, cp 2",
     TOWER,
     4,
     {.tp = 2, .cp = 2, .encoder_tp = 1, .encoder_dp = 2, .micro_batch = 2, .global_batch = 4}},
    {"tower on a stage of its own",
     TOWER,
     6,
     {.tp = 2, .dp = 2, .encoder_pp = 1, .encoder_tp = 1, .shard = 1, .global_batch = 8}},
    {"tower frozen, pp 2, recompute",
     TOWER_FROZEN,
     4,
     {.tp = 2, .pp = 2, .global_batch = 4, RECOMPUTE(FULL)}},
    {"tower with deepstack, tp 2, sp, pp 2",
     TOWER_DEEPSTACK,
     4,
     {.tp = 2, .pp = 2, .sequence = true, .global_batch = 4}},
    {"tower with deepstack, cp 2, dp 2, zero 3",
     TOWER_DEEPSTACK,
     4,
     {.cp = 2, .dp = 2, .shard = 3, .global_batch = 4, RECOMPUTE(FULL)}},
    {"tower that layers attend to, tp 2, sp, dp 2",
     TOWER_CROSS,
     4,
     {.tp = 2, .dp = 2, .sequence = true, .shard = 1, .global_batch = 4}},
    {"tower that layers attend to, on a stage of its own, pp 2",
     TOWER_CROSS,
     3,
     {.pp = 2, .encoder_pp = 1, .global_batch = 4, RECOMPUTE(FULL)}},
    {"tower that layers attend to, cp 2, tp 2",
     TOWER_CROSS,
     4,
     {.cp = 2, .tp = 2, .global_batch = 2}},
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
    {"queries run again", LLAMA_NORMS, 2, {.dp = 2, .global_batch = 4}, queries_again},
    {"dlrm, tp 4, dp 2", DLRM, 8, {.tp = 4, .dp = 2, .global_batch = 8}},
    {"dlrm, zero 3", DLRM, 2, {.dp = 2, .shard = 3, .global_batch = 8}},
    {"t5, pp 3, tp 2, zero 1", T5, 6, {.pp = 3, .tp = 2, .shard = 1, .global_batch = 4}},
};

static inline struct plan *plan_of_row(const struct row *row)
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

#endif

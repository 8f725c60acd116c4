/* test_degrees.c - the lowering of degrees to plans.
 *
 * By hand where a person can say what a split must be; over all presets and many degrees where only
 * a property can be stated:
 *
 *   P1  Parts cover the instances in order, stages the devices, splits their stage (plan.h, I1-I3).
 *   P2  Local FLOPs over all devices are at least the model's, and equal where no matrix product is
 *       copied and nothing is rounded up.
 *   P3  A transformer layer under tp has two partial outputs: one reduction per column/row pair.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/builder.h"
#include "made_plan.h"

/* ---- degrees, by hand ------------------------------------------------------------------------ */

struct expected {
    const char *path, *split;
};

static const char *split_at(const struct made *m, const char *path)
{
    for (int64_t i = 0; i < m->plan->instances; i++)
        if (strcmp(plan_path(m->arena, m->plan, i), path) == 0)
            return split_text(m->arena, &plan_choice(m->plan, i)->split);
    return "no such operator";
}

static void check_splits(const struct made *m, const struct expected *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *found = split_at(m, expected[i].path);
        if (strcmp(found, expected[i].split) != 0)
            fail_msg("%s: '%s', expected '%s'", expected[i].path, found, expected[i].split);
    }
}

static void test_gpt_tp4_dp2(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"embedding", "batch:2 vocab:4"},
        {"layers.0.attn.norm", "batch:2 copy:4"},
        {"layers.0.attn.qkv", "batch:2 out:4"},
        {"layers.0.attn.score", "batch:2 head:4"},
        {"layers.0.attn.softmax", "batch:2 head:4"},
        {"layers.0.attn.dropout", "batch:2 hidden:4"}, /* of the scores: (batch, heads, seq, kv) */
        {"layers.0.attn.context", "batch:2 head:4"},
        {"layers.0.attn.proj", "batch:2 in:4"},
        {"layers.0.attn.dropout_add", "batch:2 copy:4"},
        {"layers.23.mlp.norm", "batch:2 copy:4"},
        {"layers.23.mlp.up", "batch:2 out:4"},
        {"layers.23.mlp.gelu", "batch:2 hidden:4"},
        {"layers.23.mlp.down", "batch:2 in:4"},
        {"layers.23.mlp.dropout_add", "batch:2 copy:4"},
        {"norm", "batch:2 copy:4"},
        {"head", "batch:2 out:4"},
        {"loss", "batch:2 vocab:4"},
    };
    struct degrees d = {.tp = 4};
    struct made m = make("gpt3-1.3b", "attention: fused, dropout: 0.1", "dgx-a100:1", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    assert_int_equal(m.plan->step_samples, 2);
    assert_int_equal(m.plan->global_batch, 2);
    assert_string_equal(m.plan->schedule, "1f1b");
    unmake(&m);
}

static void test_gpt_sequence_and_context_parallel(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"embedding", "batch:2 seq:2 vocab:4"},
        {"layers.0.attn.norm", "batch:2 seq:8"}, /* seq:2 of cp, seq:4 of tp inside */
        {"layers.0.attn.qkv", "batch:2 seq:2 out:4"},
        {"layers.0.attn.score", "batch:2 seq:2 head:4"},
        {"layers.0.attn.softmax", "batch:2 seq:2 head:4"},
        {"layers.0.attn.dropout", "batch:2 height:2 hidden:4"},
        {"layers.0.attn.context", "batch:2 seq:2 head:4"},
        {"layers.0.attn.proj", "batch:2 seq:2 in:4"},
        {"layers.0.attn.dropout_add", "batch:2 seq:8"},
        {"layers.0.mlp.up", "batch:2 seq:2 out:4"},
        {"layers.0.mlp.gelu", "batch:2 seq:2 hidden:4"},
        {"layers.0.mlp.down", "batch:2 seq:2 in:4"},
        {"norm", "batch:2 seq:8"},
        {"head", "batch:2 seq:2 out:4"},
        {"loss", "batch:2 seq:2 vocab:4"},
    };
    struct degrees d = {.tp = 4, .cp = 2, .sequence = true};
    struct made m = make("gpt3-1.3b", "attention: fused, dropout: 0.1", "dgx-a100:2", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
}

/* Kinds of context parallelism differ in attention only: eight key/value heads over cp * tp devices. */
static void test_kinds_of_context_parallelism(void **state)
{
    (void)state;
    static const struct {
        enum cp_kind kind;
        const char *attention;
        int64_t heads;
    } CASES[] = {{CP_RING, "batch:2 seq:4 head:2", 0},
                 {CP_GATHER, "batch:2 seq:4 head:2", 0},
                 {CP_A2A, "batch:2 head:8", 4},
                 {CP_A2A_RING, "batch:2 seq:2 head:4", 2}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.tp = 2, .cp = 4}, found;
        enum cp_kind kind;
        cp_kind_set(CASES[i].kind, &d);
        struct made m = make("llama3-8b", "layers: 2", "dgx-a100:2", &d);
        const struct expected expected[] = {{"layers.0.attn.qkv", "batch:2 seq:4 out:2"},
                                            {"layers.0.attn.rotary", "batch:2 seq:4 hidden:2"},
                                            {"layers.0.attn.attention", CASES[i].attention},
                                            {"layers.0.attn.proj", "batch:2 seq:4 in:2"}};
        check_splits(&m, expected, COUNT_OF(expected));
        assert_true(plan_degrees(m.plan, &found));
        assert_int_equal(found.cp, 4);
        assert_int_equal(found.cp_heads, CASES[i].heads);
        assert_int_equal(cp_kind_of(&found, m.plan->overlap), CASES[i].kind);
        assert_true(cp_kind_from_name(cp_kind_name(CASES[i].kind), &kind));
        assert_int_equal(kind, CASES[i].kind);
        unmake(&m);
    }
}

/* 64 query heads share 8 key/value heads: 16 devices take one of them and half of its group. */
static void test_fewer_kv_heads_than_tp(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"layers.0.attn.qkv", "out:16"},
        {"layers.0.attn.rotary", "hidden:16"},
        {"layers.0.attn.attention", "head:8 group:2"},
        {"layers.0.attn.proj", "in:16"},
        {"layers.0.mlp.gate_up", "out:16"},
        {"layers.0.mlp.gated", "hidden:16"},
        {"layers.0.mlp.down", "in:16"},
        {"layers.0.mlp.add", "seq:16"},
    };
    struct degrees d = {.tp = 16, .sequence = true};
    struct made m = make("llama3-70b", NULL, "dgx-a100:2", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
}

static void test_experts(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"layers.0.attn.qkv", "batch:8 out:2"},
        {"layers.0.mlp.norm", "batch:8 seq:2"},
        {"layers.0.mlp.experts.router", "batch:8 seq:2"},
        {"layers.0.mlp.experts.dispatch", "batch:8 seq:2"}, /* where the tokens are */
        {"layers.0.mlp.experts.gate_up", "batch:2 expert:4 out:2"},
        {"layers.0.mlp.experts.gated", "batch:2 seq:4 hidden:2"}, /* experts lie along it */
        {"layers.0.mlp.experts.down", "batch:2 expert:4 in:2"},
        {"layers.0.mlp.experts.combine", "batch:8 seq:2"},
        {"layers.0.mlp.add", "batch:8 seq:2"},
    };
    struct degrees d = {.tp = 2, .ep = 4, .sequence = true};
    struct made m = make("mixtral-8x7b", NULL, "dgx-a100:2", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
}

/* Experts in a mesh of their own: whole ones over all devices; replicas that take parts of the sequence where
 * there are more of them than dp. */
static void test_folded_experts(void **state)
{
    (void)state;
    static const struct {
        struct degrees d;
        const char *gate_up, *gated, *down;
    } ROWS[] = {
        {{.tp = 4, .dp = 4, .ep = 8, .etp = 1},
         "batch:2 expert:8",
         "batch:2 seq:8",
         "batch:2 expert:8"},
        {{.tp = 4, .dp = 4, .ep = 2, .etp = 2},
         "batch:4 expert:2 out:2",
         "batch:4 seq:2 hidden:2",
         "batch:4 expert:2 in:2"},
        {{.tp = 8, .dp = 2, .ep = 4, .etp = 1},
         "batch:2 expert:4 seq:2",
         "batch:2 seq:8",
         "batch:2 expert:4 seq:2"},
        {{.cp = 2, .tp = 4, .dp = 2, .ep = 8, .etp = 2},
         "expert:8 out:2",
         "seq:8 hidden:2",
         "expert:8 in:2"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const struct expected expected[] = {
            {"layers.0.mlp.experts.gate_up", ROWS[i].gate_up},
            {"layers.0.mlp.experts.gated", ROWS[i].gated},
            {"layers.0.mlp.experts.down", ROWS[i].down},
        };
        struct degrees d = ROWS[i].d, found;
        d.sequence = true;
        struct made m = make("mixtral-8x7b", NULL, "dgx-a100:2", &d);
        check_splits(&m, expected, COUNT_OF(expected));
        assert_true(plan_degrees(m.plan, &found));
        assert_int_equal(found.ep, d.ep);
        assert_int_equal(found.etp, d.etp);
        unmake(&m);
    }
}

static void test_cross_attention(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"encoder.embedding", "batch:2 vocab:4"},
        {"encoder.layers.0.attn.qkv", "batch:2 out:4"},
        {"encoder.norm", "batch:2 copy:4"},
        {"decoder.layers.0.cross.q", "batch:2 out:4"},
        {"decoder.layers.0.cross.kv", "batch:2 out:4"},
        {"decoder.layers.0.cross.score", "batch:2 head:4"},
        {"decoder.layers.0.cross.context", "batch:2 head:4"},
        {"decoder.layers.0.cross.proj", "batch:2 in:4"},
        {"head", "batch:2 out:4"},
    };
    struct degrees d = {.tp = 4};
    struct made m = make("t5-3b", NULL, "dgx-a100:1", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
}

/* Channels alternate: out, in, out; where the residual comes whole, the sum is whole. */
static void test_resnet(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"conv1", "batch:4 out:2"},
        {"bn1", "batch:4 hidden:2"},
        {"maxpool", "batch:4 hidden:2"},
        {"layer1.0.conv1", "batch:4 in:2"},
        {"layer1.0.bn1", "batch:4 copy:2"},
        {"layer1.0.conv2", "batch:4 out:2"},
        {"layer1.0.bn2", "batch:4 hidden:2"},
        {"layer1.0.conv3", "batch:4 in:2"},
        {"layer1.0.bn3", "batch:4 copy:2"},
        {"layer1.0.downsample.0", "batch:4 in:2"},
        {"layer1.0.add", "batch:4 copy:2"},
        {"layer1.1.conv1", "batch:4 out:2"},
        {"layer1.1.conv2", "batch:4 in:2"},
        {"layer1.1.conv3", "batch:4 out:2"},
        {"layer1.1.bn3", "batch:4 hidden:2"},
        {"layer1.1.add", "batch:4 copy:2"},
        {"fc", "batch:4 out:2"},
        {"loss", "batch:4 vocab:2"},
        {"layer2.0.conv1", "batch:4 out:2"},
        {"layer2.0.add", "batch:4 hidden:2"}, /* both inputs are */
        {"layer2.1.conv1", "batch:4 out:2"},  /* as in the copies after it, whose input is whole */
        {"layer2.1.add", "batch:4 copy:2"},
    };
    struct degrees d = {.tp = 2};
    struct made m = make("resnet-50", NULL, "dgx-a100:1", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
}

/* A grouped convolution has no row parallel form: it is split by its outputs again. */
static void test_grouped_convolution(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"a", "batch:4 out:2"}, {"b", "batch:4 out:2"}, {"c", "batch:4 in:2"}};
    struct window w = {3, 3, 1, 1, 1};
    struct builder *b = build_start("grouped", "test", "test");
    int x = build_conv(b, "a", build_image(b, 3, 8, 8), 16, &w, 1, false);
    x = build_conv(b, "b", x, 16, &w, 4, false);
    build_conv(b, "c", x, 16, &w, 1, false);
    struct made m = {NULL, open_cluster("dgx-a100:1"), NULL, arena_new()};
    struct degrees d = {.tp = 2};
    assert_int_equal(build_finish(b, &m.model), WEFT_OK);
    assert_int_equal(plan_from_degrees(m.model, m.cluster, &d, &m.plan), WEFT_OK);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
}

/* Heads that are normalised by themselves stay where tp has them: nothing is exchanged before or after it, but where
 * there are fewer of them than devices. */
static void test_head_norms(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"layers.0.attn.q", "batch:2 out:4"},       {"layers.0.attn.q_norm", "batch:2 head:4"},
        {"layers.0.attn.k_norm", "batch:2 head:4"}, {"layers.0.attn.q_rotary", "batch:2 hidden:4"},
        {"layers.0.attn.proj", "batch:2 in:4"},     {"layers.0.attn.norm", "batch:2 copy:4"},
    };
    struct degrees d = {.tp = 4};
    struct made m = make("qwen3-8b", NULL, "dgx-a100:1", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
    static const struct expected FEW[] = {{"layers.0.attn.q_norm", "head:8"},
                                          {"layers.0.attn.k_norm", "copy:8"}};
    struct degrees eight = {.tp = 8};
    m = make("qwen3-8b", "kv_heads: 4", "dgx-a100:1", &eight);
    check_splits(&m, FEW, COUNT_OF(FEW));
    unmake(&m);
}

/* 26 tables do not divide by 8, so their rows do; one output cannot be shared out. */
static void test_recommender(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"bot_l.0", "out:8"},      {"bot_l.2", "in:8"}, {"emb_l", "vocab:8"},
        {"interaction", "copy:8"}, {"top_l.6", "in:8"}, {"top_l.8", "copy:8"},
        {"loss", "copy:8"},
    };
    struct degrees d = {.tp = 8};
    struct made m = make("dlrm", NULL, "dgx-a100:1", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
    unmake(&m);
}

static void count_recomputed(enum recompute recompute, const char *attention, const char *names)
{
    struct degrees d = {.tp = 8, .recompute = recompute};
    struct made m = make("gpt3-1.3b", attention, "dgx-a100:1", &d);
    for (int64_t i = 0; i < m.plan->instances; i++) {
        const char *path = plan_path(m.arena, m.plan, i), *dot = strrchr(path, '.');
        bool layer = strncmp(path, "layers.", 7) == 0;
        bool named = strcmp(names, "*") == 0 || (dot && strstr(names, dot + 1));
        assert_int_equal(plan_choice(m.plan, i)->recompute, layer && named);
    }
    unmake(&m);
}

/* A norm before one product is part of that product in Megatron's layers; before experts it stands by itself. */
static void norms_of_products_are_kept(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        bool mlp;
    } ROWS[] = {{"llama3-8b", false}, {"gpt3-350m", false}, {"mixtral-8x7b", true}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct degrees d = {.tp = 1};
        struct arena *arena = arena_new();
        assert_true(recompute_parse(arena, "layernorm", &d));
        struct made m = make(ROWS[i].model, "layers: 2", "dgx-a100:1", &d);
        for (int64_t k = 0; k < m.plan->instances; k++) {
            bool norm = strcmp(plan_path(m.arena, m.plan, k), "layers.1.mlp.norm") == 0 ||
                        strcmp(plan_path(m.arena, m.plan, k), "layers.0.mlp.norm") == 0;
            assert_int_equal(plan_choice(m.plan, k)->recompute, norm && ROWS[i].mlp);
        }
        unmake(&m);
        arena_free(arena);
    }
}

/* By Megatron's words; a plan of them is recognised again. */
static void test_modules(void **state)
{
    (void)state;
    static const struct {
        const char *words, *path; /* of an operator that they have; NULL: there is none */
        int64_t in_a_layer;
    } ROWS[] = {
        {"core_attn", "layers.3.attn.attention", 1},
        {"layernorm", "layers.3.mlp.norm", 2},
        {"mla_up_proj", "layers.3.attn.k_b", 9},
        {"moe_act", "layers.3.mlp.experts.gated", 1},
        {"moe", "layers.3.mlp.shared.down", 9},
        {"shared_experts,core_attn", "layers.3.mlp.shared.gate_up", 4},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct degrees d = {.tp = 1}, found;
        struct arena *arena = arena_new();
        assert_true(recompute_parse(arena, ROWS[i].words, &d));
        struct made m = make("deepseek-v3", "layers: 5", "dgx-a100:1", &d);
        int64_t marked = 0;
        bool seen = false;
        for (int64_t k = 0; k < m.plan->instances; k++) {
            const char *path = plan_path(m.arena, m.plan, k);
            bool again = plan_choice(m.plan, k)->recompute;
            marked += again && strncmp(path, "layers.3.", 9) == 0;
            seen |= again && strcmp(path, ROWS[i].path) == 0;
        }
        assert_true(seen);
        assert_int_equal(marked, ROWS[i].in_a_layer);
        assert_true(plan_degrees(m.plan, &found));
        assert_int_equal(found.modules, d.modules);
        unmake(&m);
        arena_free(arena);
    }
    struct degrees d = {0};
    struct arena *arena = arena_new();
    assert_false(recompute_parse(arena, "core_attn,attention", &d));
    arena_free(arena);
}

static void test_recompute(void **state)
{
    (void)state;
    count_recomputed(RECOMPUTE_NONE, "attention: fused", "");
    count_recomputed(RECOMPUTE_SELECTIVE, "attention: fused, dropout: 0", "score softmax context");
    count_recomputed(RECOMPUTE_SELECTIVE, "attention: flash", "");
    count_recomputed(RECOMPUTE_FULL, "attention: flash", "*");
}

static void test_defaults(void **state)
{
    (void)state;
    struct degrees d = {
        .tp = 2, .pp = 4, .segments = 3, .micro_batch = 2, .shard = 1, .offload = true};
    struct made m = make("gpt3-1.3b", NULL, "dgx-a100:2", &d);
    assert_int_equal(m.plan->stages, 4);
    assert_int_equal(m.plan->pieces, 3);
    assert_string_equal(m.plan->schedule, "aiao");
    assert_int_equal(m.plan->step_samples, 4);
    assert_int_equal(plan_micro_batches(m.plan), 4);
    assert_int_equal(m.plan->policy, POLICY_MIXED);
    assert_int_equal(plan_choice(m.plan, 0)->shard, 1);
    assert_false(plan_choice(m.plan, 0)->offload);
    assert_true(plan_choice(m.plan, 5)->offload);
    check_map(m.plan);
    unmake(&m);
    d = (struct degrees){.pieces = 2, .pp = 8, .has_dtype = true, .dtype = DTYPE_FP32};
    m = make("gpt3-1.3b", NULL, "dgx-a100:1", &d);
    assert_string_equal(m.plan->schedule, "interleaved");
    assert_int_equal(m.plan->policy, POLICY_FP32);
    unmake(&m);
}

/* ---- degrees, properties --------------------------------------------------------------------- */

static bool partial_output(const struct op *op, const struct split *split)
{
    for (int i = 0; i < op_dims(op->kind); i++)
        if (OP_KINDS[op->kind].dims[i].role == ROLE_REDUCE &&
            split_degree(split, OP_KINDS[op->kind].dims[i].dim) > 1)
            return true;
    return false;
}

static bool rounds(const struct op *op, const struct split *split)
{
    for (int i = 1; i < op_dims(op->kind); i++)
        if (op->size[i] % split_degree(split, OP_KINDS[op->kind].dims[i].dim))
            return true;
    return false;
}

static void check_flops(const struct plan *plan)
{
    double local_sum = 0, whole_sum = 0;
    bool exact = true;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        const struct split *split = &plan_choice(plan, i)->split;
        int64_t local[OP_MAX_DIMS], full[OP_MAX_DIMS];
        split_local(op, split, plan->step_samples, local);
        op_full_size(op, plan->step_samples, full);
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            double whole = op_work(op, full, plan->dtype, (enum phase)phase).flops;
            double each = op_work(op, local, plan->dtype, (enum phase)phase).flops;
            exact &= whole == 0 || (split_degree(split, SPLIT_COPY) == 1 && !rounds(op, split));
            local_sum += each * (double)split_devices(split);
            whole_sum += whole;
        }
    }
    assert_true(local_sum >= whole_sum * (1 - 1e-9)); /* P2 */
    if (exact)
        assert_true(local_sum <= whole_sum * (1 + 1e-9));
}

static int64_t power(struct rng *rng, int most)
{
    return INT64_C(1) << rng_below(rng, most + 1);
}

static struct degrees random_degrees(struct rng *rng)
{
    return (struct degrees){.tp = power(rng, 3),
                            .pp = power(rng, 2),
                            .cp = rng_below(rng, 3) ? 1 : power(rng, 1),
                            .cp_heads = rng_below(rng, 2) ? 0 : CP_HEADS_ALL,
                            .ep = rng_below(rng, 3) ? 1 : power(rng, 2),
                            .etp = rng_below(rng, 3) ? 0 : power(rng, 2),
                            .pieces = power(rng, 1),
                            .micro_batch = power(rng, 2),
                            .sequence = rng_below(rng, 2) != 0};
}

static void test_every_preset_under_random_degrees(void **state)
{
    (void)state;
    const struct preset *presets;
    size_t count = model_presets(&presets);
    struct cluster *cluster = open_cluster("dgx-a100:16");
    struct rng rng;
    rng_seed(&rng, 3);
    int made = 0, refused = 0;
    for (size_t i = 0; i < count; i++) {
        struct model *model = open_model(presets[i].name, NULL);
        for (int round = 0; round < 12; round++) {
            struct degrees d = random_degrees(&rng);
            struct plan *plan;
            if (plan_from_degrees(model, cluster, &d, &plan) != WEFT_OK) {
                assert_int_equal(weft_last_error()->status, WEFT_BAD_INPUT);
                assert_non_null(weft_last_error()->hint);
                refused++;
                continue;
            }
            made++;
            check_map(plan); /* P1 */
            if (plan_check(plan) != WEFT_OK)
                fail_msg("%s: %s", presets[i].name, weft_last_error()->message);
            check_flops(plan);
            plan_free(plan);
        }
        model_free(model);
    }
    cluster_free(cluster);
    assert_true(made > 2 * refused);
}

static void test_one_reduction_per_pair(void **state)
{
    (void)state;
    static const char *const MODELS[] = {"gpt3-13b", "gpt3-175b", "llama3-70b", "bert-huge-32"};
    for (size_t k = 0; k < COUNT_OF(MODELS); k++) {
        for (int sequence = 0; sequence < 2; sequence++) {
            struct degrees d = {.tp = 4, .sequence = sequence};
            struct made m = make(MODELS[k], NULL, "dgx-a100:1", &d);
            int64_t partial = 0;
            for (int64_t i = 0; i < m.plan->instances; i++) {
                const struct op *op = &m.model->op[m.plan->instance[i].op];
                bool layer = strncmp(plan_path(m.arena, m.plan, i), "layers.", 7) == 0;
                partial += layer && partial_output(op, &plan_choice(m.plan, i)->split);
            }
            assert_int_equal(partial, 2 * m.model->layers); /* P3 */
            unmake(&m);
        }
    }
}

/* ---- degrees that do not work ---------------------------------------------------------------- */

static const struct {
    const char *model, *overrides, *cluster;
    struct degrees degrees;
    const char *message, *hint;
} ERRORS[] = {
    {"gpt3-1.3b",
     "heads: 16, hidden: 1280",
     "dgx-a100:4",
     {.tp = 32},
     "layers.0.attn.score: tp 32 does not divide its dim head of 16",
     "use tp 16, or pad the heads: --set head_multiple=32"},
    {"gpt3-1.3b",
     "heads: 20, hidden: 1280",
     "dgx-a100:1",
     {.tp = 8},
     "layers.0.attn.score: tp 8 does not divide its dim head of 20",
     "use tp 4, or pad the heads: --set head_multiple=8"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:4",
     {.tp = 3},
     "tp 3 * pp 1 * cp 1 is 3 devices, which does not divide the 32 of dgx-a100",
     "use tp 2 or 4"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:4",
     {.tp = 4, .pp = 5},
     "tp 4 * pp 5 * cp 1 is 20 devices, which does not divide the 32 of dgx-a100",
     "use pp 4 or 8"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.tp = 3, .pp = 3},
     "tp 3 * pp 3 * cp 1 is 9 devices, which does not divide the 8 of dgx-a100",
     "use tp 2, pp 2, cp 1"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:4",
     {.tp = 4, .dp = 4},
     "dp 4 * tp 4 * pp 1 * cp 1 is 16 devices, dgx-a100 has 32",
     "use dp 8, or leave it out"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:4",
     {.pp = 32},
     "gpt3-1.3b has 24 layers, too few for 32 stages of 1 piece",
     "use at most 24 stages"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.pp = 8, .pieces = 4},
     "gpt3-1.3b has 24 layers, too few for 8 stages of 4 pieces",
     "use at most 3 pieces on 8 stages"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.micro_batch = 2, .global_batch = 100},
     "the global batch of 100 is not a multiple of dp 8 * micro-batch 2 = 16",
     "use 96 or 112"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.global_batch = 4},
     "the global batch of 4 is not a multiple of dp 8 * micro-batch 1 = 8",
     "use 8"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.ep = 2},
     "ep 2 spreads experts, and gpt3-1.3b has none",
     "leave ep out"},
    {"mixtral-8x7b",
     NULL,
     "dgx-a100:2",
     {.tp = 2, .ep = 3},
     "ep 3 * etp 2 does not divide dp 8 * cp 1 * tp 2, whose devices the experts share",
     "use ep 2 or 4"},
    {"qwen3-235b-a22b", /* 128 experts on 72 devices: 8 divides both */
     NULL,
     "gb200-nvl72:1",
     {.tp = 2, .ep = 32, .etp = 1},
     "ep 32 * etp 1 does not divide dp 36 * cp 1 * tp 2, whose devices the experts share",
     "use ep 8"},
    {"mixtral-8x7b",
     NULL,
     "dgx-a100:2",
     {.ep = 16},
     "layers.0.mlp.experts.gate_up: ep 16 does not divide its dim expert of 8",
     "use ep 8"},
    {"resnet-50",
     NULL,
     "dgx-a100:1",
     {.cp = 2},
     "cp 2 splits sequences, and resnet-50 has none",
     "leave cp out"},
    {"llama3-8b",
     NULL,
     "dgx-a100:1",
     {.cp = 4, .cp_heads = 3},
     "cp-heads 3 does not divide cp 4",
     "use cp-heads 2 or 4"},
    {"gpt3-1.3b",
     "attention: eager",
     "dgx-a100:1",
     {.cp = 4, .cp_heads = 2},
     "cp-heads 2 divides the heads of fused attention, and gpt3-1.3b has none",
     "use fused attention, such as --set attention=flash, or leave cp-heads out"},
    {"llama3-8b",
     "hidden: 3072, heads: 12, kv_heads: 4",
     "dgx-a100:1",
     {.cp = 8, .cp_heads = CP_HEADS_ALL},
     "layers.0.attn.attention: cp-heads * tp 8 does not divide its dim head of 12",
     "use cp-heads * tp 4"},
    {"gpt3-1.3b",
     "seq: 1001",
     "dgx-a100:1",
     {.cp = 2},
     "embedding: cp 2 does not divide its dim seq of 1001",
     "use cp 1"},
    {"llama3-8b",
     "seq: 100",
     "dgx-h100:1",
     {.cp = 8},
     "embedding: cp 8 does not divide its dim seq of 100",
     "use cp 4"},
    {"llama3-8b",
     "seq: 100",
     "dgx-h100:1",
     {.cp = 5},
     "tp 1 * pp 1 * cp 5 is 5 devices, which does not divide the 8 of dgx-h100",
     "use cp 4"},
    {"gpt3-1.3b",
     "seq: 1004",
     "dgx-a100:1",
     {.tp = 8, .sequence = true},
     "layers.0.attn.norm: tp 8 does not divide its dim seq of 1004",
     "use tp 4, or leave sequence parallelism out"},
    {"gpt3-1.3b", NULL, "dgx-a100:1", {.tp = -1}, "tp is -1, expected 1 to 2^31 - 1", NULL},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.shard = 4},
     "state sharding is 4, expected 0, 1, 2 or 3",
     NULL},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.pieces = 2, .segments = 3},
     "2 pieces and 3 segments per stage",
     "segments are the pieces of a folded schedule: give one of them"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.schedule = "1f2b"},
     "no schedule is called '1f2b', expected one of gpipe, 1f1b, interleaved, aiao, zb-h1, zb-h2, "
     "zb-v, v-half, v-min, dualpipe, dualpipev, hanayo",
     "did you mean '1f1b'?"},
};

static void test_bad_degrees(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ERRORS); i++) {
        struct model *model = open_model(ERRORS[i].model, ERRORS[i].overrides);
        struct cluster *cluster = open_cluster(ERRORS[i].cluster);
        struct plan *plan = NULL;
        assert_int_equal(plan_from_degrees(model, cluster, &ERRORS[i].degrees, &plan),
                         WEFT_BAD_INPUT);
        assert_null(plan);
        assert_string_equal(weft_last_error()->message, ERRORS[i].message);
        if (ERRORS[i].hint)
            assert_string_equal(weft_last_error()->hint, ERRORS[i].hint);
        model_free(model);
        cluster_free(cluster);
    }
}

/* 32 layers on two stages of 16: the first three of each run again, as Megatron-LM's method block has it. */
static void test_first_layers_are_recomputed(void **state)
{
    (void)state;
    struct degrees d = {.pp = 2, .recompute = RECOMPUTE_FULL, .recompute_layers = 3}, found;
    struct made m = make("llama3-8b", NULL, "dgx-h100:1", &d);
    struct arena *arena = arena_new();
    int64_t layers = 0;
    for (int64_t i = 0; i < m.plan->instances; i++) {
        int64_t part = plan_part_of(m.plan, i);
        if (i == m.plan->part[part].first)
            layers = 0;
        bool inside = op_in_layer(m.model, &m.model->op[m.plan->instance[i].op]);
        assert_int_equal(plan_choice(m.plan, i)->recompute, inside && layers < 3);
        layers += m.plan->ends_layer[i];
    }
    assert_true(plan_degrees(m.plan, &found));
    assert_string_equal(degrees_text(arena, m.model, &found, NULL),
                        "dp 4 pp 2 micro-batch 1 zero 0 recompute full recompute-layers 3");
    d.recompute = RECOMPUTE_NONE;
    struct plan *other = NULL;
    assert_int_equal(plan_from_degrees(m.model, m.cluster, &d, &other), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "recompute-layers 3 says of how many layers all is recomputed, but "
                        "recompute is none");
    arena_free(arena);
    unmake(&m);
}

/* 50257 rows over 8 devices: 6283 each, the last of them short. */
static void test_vocabulary_is_padded(void **state)
{
    (void)state;
    struct degrees d = {.tp = 8};
    struct made m = make("gpt3-1.3b", "vocab: 50257", "dgx-a100:1", &d);
    int64_t local[OP_MAX_DIMS];
    split_local(&m.model->op[0], &plan_choice(m.plan, 0)->split, 1, local);
    assert_int_equal(local[op_find_dim(OP_EMBEDDING, DIM_VOCAB)], 6283);
    assert_string_equal(split_at(&m, "head"), "out:8");
    assert_string_equal(split_at(&m, "loss"), "vocab:8");
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt_tp4_dp2),
        cmocka_unit_test(test_gpt_sequence_and_context_parallel),
        cmocka_unit_test(test_kinds_of_context_parallelism),
        cmocka_unit_test(test_fewer_kv_heads_than_tp),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_folded_experts),
        cmocka_unit_test(test_cross_attention),
        cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_grouped_convolution),
        cmocka_unit_test(test_head_norms),
        cmocka_unit_test(test_recommender),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(norms_of_products_are_kept),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_preset_under_random_degrees),
        cmocka_unit_test(test_one_reduction_per_pair),
        cmocka_unit_test(test_bad_degrees),
        cmocka_unit_test(test_first_layers_are_recomputed),
        cmocka_unit_test(test_vocabulary_is_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

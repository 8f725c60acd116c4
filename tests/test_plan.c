/* test_plan.c - splits, instances, choices, maps, and the lowering of degrees.
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
#include "plan/plan.h"

static struct model *open_model(const char *name, const char *overrides)
{
    struct model *model;
    if (model_open(name, overrides, &model) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return model;
}

static struct cluster *open_cluster(const char *name)
{
    struct cluster *cluster;
    if (cluster_open(name, &cluster) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return cluster;
}

/* A plan with what it stands on. */
struct made {
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct arena *arena;
};

static struct made make(const char *model, const char *overrides, const char *cluster,
                        const struct degrees *degrees)
{
    struct made m = {open_model(model, overrides), open_cluster(cluster), NULL, arena_new()};
    weft_status status = degrees ? plan_from_degrees(m.model, m.cluster, degrees, &m.plan)
                                 : plan_new(m.model, m.cluster, &m.plan);
    if (status != WEFT_OK)
        fail_msg("%s on %s: %s", model, cluster, weft_last_error()->message);
    return m;
}

static void unmake(struct made *m)
{
    plan_free(m->plan);
    model_free(m->model);
    cluster_free(m->cluster);
    arena_free(m->arena);
}

/* ---- splits ---------------------------------------------------------------------------------- */

static void test_split_is_canonical(void **state)
{
    (void)state;
    struct split split = split_none();
    assert_true(split_add(&split, DIM_BATCH, 1)); /* appends nothing */
    assert_int_equal(split.parts, 0);
    assert_true(split_add(&split, DIM_BATCH, 2));
    assert_true(split_add(&split, DIM_BATCH, 3)); /* merges */
    assert_true(split_add(&split, DIM_OUT, 4));
    assert_true(split_add(&split, DIM_BATCH, 2)); /* apart: another place */
    assert_int_equal(split.parts, 3);
    assert_int_equal(split_devices(&split), 2 * 3 * 4 * 2);
    assert_int_equal(split_degree(&split, DIM_BATCH), 12);
    assert_int_equal(split_degree(&split, DIM_SEQ), 1);
    assert_false(split_add(&split, DIM_SEQ, 0));
    assert_false(split_add(&split, DIM_SEQ, INT64_C(1) << 31));
    assert_false(split_add(&split, DIM_SEQ, INT32_MAX / 40)); /* 48 * that is over 2^31 */
    for (int i = 0; i < 3; i++)
        assert_true(split_add(&split, i % 2 ? DIM_SEQ : DIM_KV, 2));
    assert_false(split_add(&split, DIM_SEQ, 2)); /* a seventh part */
    assert_true(split_add(&split, DIM_KV, 2));   /* merges into the sixth */
}

static void test_split_text_and_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } CASES[] = {
        {"whole", "whole"},
        {"batch:2 out:4", "batch:2 out:4"},
        {"out:4 batch:2", "out:4 batch:2"},
        {" batch:2\tcopy:8  ", "batch:2 copy:8"},
        {"batch:1", "whole"},
        {"batch:2 batch:2 seq:1 batch:3", "batch:12"},
        {"expert:8 seq:2 head:4 group:2 depth:2 kv:3",
         "expert:8 seq:2 head:4 group:2 depth:2 kv:3"},
    };
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct split split, again;
        assert_int_equal(split_parse(NULL, CASES[i].text, &split), WEFT_OK);
        const char *text = split_text(arena, &split);
        assert_string_equal(text, CASES[i].canonical);
        assert_int_equal(split_parse(NULL, text, &again), WEFT_OK);
        assert_true(split_equal(&split, &again));
    }
    arena_free(arena);
}

static void test_random_splits_survive_text(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        struct split split = split_none(), again;
        int parts = (int)rng_below(&rng, 8);
        for (int i = 0; i < parts; i++)
            split_add(&split, (int)rng_below(&rng, DIM_COUNT + 1), 1 + rng_below(&rng, 6));
        for (int i = 0; i + 1 < split.parts; i++)
            assert_int_not_equal(split.part[i].dim, split.part[i + 1].dim);
        assert_int_equal(split_parse(NULL, split_text(arena, &split), &again), WEFT_OK);
        assert_true(split_equal(&split, &again));
    }
    arena_free(arena);
}

static void test_bad_splits(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message, *hint;
    } CASES[] = {
        {"", "the split is empty", "write 'whole' for one device"},
        {"batch", "'batch' in the split 'batch' is not of the form dim:degree",
         "write dim:degree, outermost first: batch:2 out:4"},
        {"batch:x", "'batch:x' in the split 'batch:x' is not of the form dim:degree",
         "write dim:degree, outermost first: batch:2 out:4"},
        {"batch:2 out:0", "'out:0' in the split 'batch:2 out:0', expected a degree of at least 1",
         NULL},
        {"bacth:2", "no dim is called 'bacth' in the split 'bacth:2'", "did you mean 'batch'?"},
        {"qqqqqq:2", "no dim is called 'qqqqqq' in the split 'qqqqqq:2'",
         "the dims of an operator are listed by 'weft inspect'"},
        {"batch:2 seq:2 kv:2 head:2 in:2 out:2 copy:2",
         "the split 'batch:2 seq:2 kv:2 head:2 in:2 out:2 copy:2' is too long, expected at most 6 "
         "dims over fewer than 2^31 devices",
         NULL},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct split split;
        assert_int_equal(split_parse(NULL, CASES[i].text, &split), WEFT_BAD_INPUT);
        const weft_error *error = weft_last_error();
        assert_non_null(strstr(error->message, CASES[i].message));
        if (CASES[i].hint)
            assert_string_equal(error->hint, CASES[i].hint);
        else
            assert_null(error->hint);
    }
}

/* gpt3-1.3b: hidden 2048, so qkv is 2048 -> 6144 at 2048 positions; vocabulary 51200. */
static void test_split_local(void **state)
{
    (void)state;
    struct model *model = open_model("gpt3-1.3b", NULL);
    const struct op *qkv = NULL;
    for (int32_t i = 0; i < model->ops && !qkv; i++)
        if (strcmp(model->op[i].name, "qkv") == 0)
            qkv = &model->op[i];
    assert_non_null(qkv);
    struct split split;
    int64_t local[OP_MAX_DIMS];
    assert_int_equal(split_parse(NULL, "batch:2 seq:3 out:4 copy:2", &split), WEFT_OK);
    split_local(qkv, &split, 8, local);
    assert_int_equal(local[0], 4);                      /* 8 / 2 */
    assert_int_equal(local[1], (qkv->size[1] + 2) / 3); /* rounded up */
    assert_int_equal(local[2], qkv->size[2]);           /* inputs whole */
    assert_int_equal(local[3], 3 * qkv->size[2] / 4);   /* a quarter of q, k and v */
    assert_int_equal(local[1], 683);                    /* 2048 / 3 */
    model_free(model);
}

/* ---- instances ------------------------------------------------------------------------------- */

static void check_walk(const struct plan *plan)
{
    int64_t *seen = arena_alloc(plan->arena, (size_t)plan->model->ops, sizeof *seen);
    for (int64_t i = 0; i < plan->instances; i++) /* each operator's copies in their own order */
        assert_int_equal(plan->instance[i].copy, seen[plan->instance[i].op]++);
    for (int32_t i = 0; i < plan->model->ops; i++)
        assert_int_equal(seen[i], op_copies(plan->model, &plan->model->op[i]));
}

static void test_every_preset_is_walked_once(void **state)
{
    (void)state;
    const struct preset *presets;
    size_t count = model_presets(&presets);
    struct cluster *cluster = open_cluster("dgx-a100:1");
    for (size_t i = 0; i < count; i++) {
        struct model *model = open_model(presets[i].name, NULL);
        struct plan *plan;
        assert_int_equal(plan_new(model, cluster, &plan), WEFT_OK);
        assert_int_equal(plan->instances, model_totals(model, DTYPE_BF16).ops);
        check_walk(plan);
        plan_free(plan);
        model_free(model);
    }
    cluster_free(cluster);
}

/* outer twice: relu, inner three times, gelu. */
static void test_nested_repeats_unroll(void **state)
{
    (void)state;
    static const char *const PATHS[] = {
        "outer.0.relu",
        "outer.0.inner.0.silu",
        "outer.0.inner.1.silu",
        "outer.0.inner.2.silu",
        "outer.0.gelu",
        "outer.1.relu",
        "outer.1.inner.0.silu",
        "outer.1.inner.1.silu",
        "outer.1.inner.2.silu",
        "outer.1.gelu",
        "loss",
    };
    struct builder *b = build_start("nested", "test", "test");
    int x = build_repeat(b, "outer", 2, build_input(b, 3, (int64_t[]){1, 8, 16}, ELEMENT_COMPUTE));
    x = build_repeat(b, "inner", 3, build_relu(b, "relu", x));
    x = build_repeat_end(b, build_silu(b, "silu", x));
    x = build_repeat_end(b, build_gelu(b, "gelu", x));
    build_loss(b, "loss", x);
    struct made m = {NULL, open_cluster("dgx-a100:1"), NULL, arena_new()};
    assert_int_equal(build_finish(b, &m.model), WEFT_OK);
    assert_int_equal(plan_new(m.model, m.cluster, &m.plan), WEFT_OK);
    assert_int_equal(m.plan->instances, COUNT_OF(PATHS));
    for (size_t i = 0; i < COUNT_OF(PATHS); i++) {
        assert_string_equal(plan_path(m.arena, m.plan, (int64_t)i), PATHS[i]);
        bool ends = strstr(PATHS[i], "silu") || strstr(PATHS[i], "gelu");
        assert_int_equal(m.plan->ends_layer[i], ends);
    }
    unmake(&m);
}

/* Paths in order, layer numbers never going back; ends_layer closes each layer. */
static void test_unnamed_repeats_interleave(void **state)
{
    (void)state;
    struct made m =
        make("mixtral-8x7b", "layers: 7, moe_every: 2, first_dense: 1", "dgx-a100:1", NULL);
    int last = -1, ends = 0;
    for (int64_t i = 0; i < m.plan->instances; i++) {
        const char *path = plan_path(m.arena, m.plan, i);
        int layer;
        if (sscanf(path, "layers.%d.", &layer) == 1) {
            assert_true(layer == last || layer == last + 1);
            last = layer;
        }
        ends += m.plan->ends_layer[i];
    }
    assert_int_equal(last, 6);
    assert_int_equal(ends, 7);
    assert_string_equal(plan_path(m.arena, m.plan, 0), "embedding");
    assert_string_equal(plan_path(m.arena, m.plan, m.plan->instances - 1), "loss");
    unmake(&m);
}

/* ---- choices --------------------------------------------------------------------------------- */

static void test_choices_are_interned(void **state)
{
    (void)state;
    struct degrees d = {.tp = 4, .sequence = true, .recompute = RECOMPUTE_SELECTIVE};
    struct made m = make("gpt3-1.3b", "layers: 1000", "dgx-a100:1", &d);
    assert_true(m.plan->choices < 16);
    for (int32_t i = 0; i < m.plan->choices; i++)
        for (int32_t j = 0; j < i; j++)
            assert_false(split_equal(&m.plan->choice[i].split, &m.plan->choice[j].split) &&
                         m.plan->choice[i].recompute == m.plan->choice[j].recompute);
    assert_true(arena_bytes(m.plan->arena) < 32 * (size_t)m.plan->instances + 65536);
    unmake(&m);
}

static void test_many_choices(void **state)
{
    (void)state;
    struct made m = make("gpt3-1.3b", "layers: 1000", "dgx-a100:128", NULL);
    struct choice choice = {0};
    int64_t set = 0;
    for (int shard = 0; shard < 4; shard++) {
        for (int64_t a = 1; a <= 1024; a *= 2) {
            for (int64_t b = 1; a * b <= 1024; b *= 2) {
                choice = (struct choice){.shard = (uint8_t)shard, .recompute = b > 2};
                assert_true(split_add(&choice.split, DIM_BATCH, a));
                assert_true(split_add(&choice.split, DIM_SEQ, b));
                assert_true(split_add(&choice.split, SPLIT_COPY, 1024 / a / b));
                assert_int_equal(plan_choose(m.plan, set, &choice), WEFT_OK);
                assert_true(split_equal(&plan_choice(m.plan, set++)->split, &choice.split));
            }
        }
    }
    assert_int_equal(set, 4 * 66);
    assert_int_equal(m.plan->choices, 4 * 66); /* copy:1024 with shard 0 was there */
    int32_t before = m.plan->choices;
    for (int64_t i = 0; i < set; i++) { /* again: nothing new */
        choice = *plan_choice(m.plan, i);
        assert_int_equal(plan_choose(m.plan, set + i, &choice), WEFT_OK);
        assert_int_equal(m.plan->choice_of[i], m.plan->choice_of[set + i]);
    }
    assert_int_equal(m.plan->choices, before);
    unmake(&m);
}

static void test_choice_must_cover_its_stage(void **state)
{
    (void)state;
    struct made m = make("gpt3-1.3b", NULL, "dgx-a100:2", NULL);
    struct choice choice = {0};
    assert_true(split_add(&choice.split, DIM_BATCH, 4));
    assert_int_equal(plan_choose(m.plan, 2, &choice), WEFT_BAD_INPUT);
    assert_string_equal(
        weft_last_error()->message,
        "layers.0.attn.qkv: the split 'batch:4' is for 4 devices, its stage has 16");
    assert_string_equal(weft_last_error()->hint, "add copy:4 for devices that hold the same");
    unmake(&m);
}

/* ---- maps ------------------------------------------------------------------------------------ */

static void check_map(const struct plan *plan)
{
    int64_t at = 0, device = 0;
    assert_int_equal(plan->parts, plan->stages * plan->pieces);
    for (int32_t p = 0; p < plan->parts; p++) {
        assert_int_equal(plan->part[p].first, at);
        assert_true(plan->part[p].count > 0);
        assert_int_equal(plan_part_of(plan, at), p);
        at += plan->part[p].count;
        assert_int_equal(plan_part_of(plan, at - 1), p);
    }
    assert_int_equal(at, plan->instances);
    for (int32_t s = 0; s < plan->stages; s++) {
        assert_int_equal(plan->stage[s].first_device, device);
        device += plan->stage[s].devices;
    }
    assert_int_equal(device, cluster_devices(plan->cluster));
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct stage *stage = &plan->stage[plan_stage_of_part(plan, plan_part_of(plan, i))];
        assert_int_equal(split_devices(&plan_choice(plan, i)->split), stage->devices);
    }
}

static double heaviest(const struct plan *plan, const double *weight)
{
    double most = 0;
    for (int32_t p = 0; p < plan->parts; p++) {
        double sum = 0;
        for (int64_t i = 0; i < plan->part[p].count; i++)
            sum += weight[plan->part[p].first + i];
        most = fmax(most, sum);
    }
    return most;
}

/* Every way to cut blocks start .. count - 1 into parts. */
static double brute_force(const double *block, int count, int start, int parts)
{
    double sum = 0, best = INFINITY;
    for (int end = start + 1; end <= count - (parts - 1); end++) {
        sum += block[end - 1];
        double rest = parts == 1 ? 0 : brute_force(block, count, end, parts - 1);
        if (parts > 1 || end == count)
            best = fmin(best, fmax(sum, rest));
    }
    return best;
}

static void test_even_map_is_the_best_map(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 2);
    for (int round = 0; round < 300; round++) {
        int layers = 1 + (int)rng_below(&rng, 11), zeros = (int)rng_below(&rng, 3) == 0;
        char text[32];
        snprintf(text, sizeof text, "layers: %d", layers);
        struct made m = make("gpt3-1.3b", text, "dgx-a100:2", NULL);
        double *weight = ARENA_ARRAY(m.arena, double, (size_t)m.plan->instances);
        double block[16] = {0};
        int b = 0;
        for (int64_t i = 0; i < m.plan->instances; i++) {
            weight[i] = zeros && rng_below(&rng, 2) ? 0 : (double)rng_below(&rng, 100);
            block[b] += weight[i];
            b += m.plan->ends_layer[i] && b < layers - 1;
        }
        int32_t stages = 1 << rng_below(&rng, 3);
        int64_t pieces = 1 + rng_below(&rng, 3);
        weft_status status = plan_map_even(m.plan, stages, pieces, weight);
        assert_int_equal(status, stages * pieces <= layers ? WEFT_OK : WEFT_BAD_INPUT);
        check_map(m.plan);
        if (status == WEFT_OK)
            assert_true(heaviest(m.plan, weight) ==
                        brute_force(block, layers, 0, (int)(stages * pieces)));
        unmake(&m);
    }
}

/* 24 layers over 4 stages of 2 pieces: 3 each, whatever the head weighs. */
static void test_degrees_deal_layers_out_equally(void **state)
{
    (void)state;
    struct degrees d = {.pp = 4, .pieces = 2};
    struct made m = make("gpt3-1.3b", "layers: 24", "dgx-a100:1", &d);
    check_map(m.plan);
    for (int p = 0; p < 8; p++) {
        const char *first = plan_path(m.arena, m.plan, m.plan->part[p].first);
        assert_string_equal(first,
                            p ? arena_printf(m.arena, "layers.%d.attn.norm", 3 * p) : "embedding");
    }
    assert_int_equal(plan_stage_of_part(m.plan, 5), 1);
    assert_int_equal(m.plan->stage[3].first_device, 6);
    unmake(&m);
}

/* By FLOPs the head counts. Per token a layer is 12 h^2 + 2 seq h = 14 h^2 products, with h and seq
 * 2048, and the head 51200 h = 25 h^2 = 1.8 layers: 25.8 in all. Of 4 parts the last takes 5 layers
 * and the head, 6.8; the others share 19 as 6, 7 and 6. No cut does better than 7: 18 layers in
 * three parts leave 7.8 in the last. */
static void test_even_map_weighs_the_head(void **state)
{
    (void)state;
    static const char *const FIRST[] = {"embedding", "layers.6.attn.norm", "layers.13.attn.norm",
                                        "layers.19.attn.norm"};
    struct made m = make("gpt3-1.3b", "layers: 24", "dgx-a100:1", NULL);
    assert_int_equal(plan_map_even(m.plan, 4, 1, NULL), WEFT_OK);
    check_map(m.plan);
    for (int p = 0; p < 4; p++)
        assert_string_equal(plan_path(m.arena, m.plan, m.plan->part[p].first), FIRST[p]);
    unmake(&m);
}

static void test_map_by_hand(void **state)
{
    (void)state;
    struct made m = make("gpt3-1.3b", "layers: 4", "dgx-a100:1", NULL);
    assert_int_equal(plan_map(m.plan, 3, 1, (int64_t[]){5, 20}, (int64_t[]){4, 2, 2}), WEFT_OK);
    check_map(m.plan);
    assert_string_equal(split_text(m.arena, &plan_choice(m.plan, 4)->split), "copy:4");
    assert_string_equal(split_text(m.arena, &plan_choice(m.plan, 5)->split), "copy:2");
    assert_int_equal(plan_map(m.plan, 2, 1, (int64_t[]){0}, (int64_t[]){4, 4}), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "no part may be empty"));
    assert_int_equal(plan_map(m.plan, 2, 1, (int64_t[]){9}, (int64_t[]){6, 4}), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "stage 1 needs devices 6 to 9, "));
    assert_int_equal(plan_map(m.plan, 2, 1, (int64_t[]){9}, (int64_t[]){8, 0}), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "stage 1 has 0 devices, expected at least 1");
    unmake(&m);
}

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
    assert_int_equal(m.plan->batch_per_step, 2);
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
        {"layer2.1.conv1", "batch:4 out:2"},  /* as in the copies behind it, whose input is whole */
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

/* Norms of single heads see (batch, seq * heads, depth): tp's heads are rows there. */
static void test_head_norms(void **state)
{
    (void)state;
    static const struct expected EXPECTED[] = {
        {"layers.0.attn.q", "batch:2 out:4"},      {"layers.0.attn.q_norm", "batch:2 seq:4"},
        {"layers.0.attn.k_norm", "batch:2 seq:4"}, {"layers.0.attn.q_rotary", "batch:2 hidden:4"},
        {"layers.0.attn.proj", "batch:2 in:4"},    {"layers.0.attn.norm", "batch:2 copy:4"},
    };
    struct degrees d = {.tp = 4};
    struct made m = make("qwen3-8b", NULL, "dgx-a100:1", &d);
    check_splits(&m, EXPECTED, COUNT_OF(EXPECTED));
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
    assert_int_equal(m.plan->batch_per_step, 4);
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
        split_local(op, split, plan->batch_per_step, local);
        op_full_size(op, plan->batch_per_step, full);
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
                            .ep = rng_below(rng, 3) ? 1 : power(rng, 2),
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
     "use tp 16"},
    {"gpt3-1.3b",
     "heads: 20, hidden: 1280",
     "dgx-a100:1",
     {.tp = 8},
     "layers.0.attn.score: tp 8 does not divide its dim head of 20",
     "use tp 5 or 10"},
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
     "the global batch of 100 is no multiple of dp 8 * micro-batch 2 = 16",
     "use 96 or 112"},
    {"gpt3-1.3b",
     NULL,
     "dgx-a100:1",
     {.global_batch = 4},
     "the global batch of 4 is no multiple of dp 8 * micro-batch 1 = 8",
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
     "ep 3 does not divide dp 8, whose devices the experts share",
     "use ep 2 or 4"},
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
    {"gpt3-1.3b",
     "seq: 1001",
     "dgx-a100:1",
     {.cp = 2},
     "embedding: cp 2 does not divide its dim seq of 1001",
     "use cp 1 or 7"},
    {"gpt3-1.3b",
     "seq: 1004",
     "dgx-a100:1",
     {.tp = 8, .sequence = true},
     "layers.0.attn.norm: tp 8 does not divide its dim seq of 1004",
     "use tp 4 or 251, or leave sequence parallelism out"},
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
     "no schedule is called '1f2b', expected one of gpipe, 1f1b, interleaved, aiao, zb-h1",
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
        cmocka_unit_test(test_split_is_canonical),
        cmocka_unit_test(test_split_text_and_back),
        cmocka_unit_test(test_random_splits_survive_text),
        cmocka_unit_test(test_bad_splits),
        cmocka_unit_test(test_split_local),
        cmocka_unit_test(test_every_preset_is_walked_once),
        cmocka_unit_test(test_nested_repeats_unroll),
        cmocka_unit_test(test_unnamed_repeats_interleave),
        cmocka_unit_test(test_choices_are_interned),
        cmocka_unit_test(test_many_choices),
        cmocka_unit_test(test_choice_must_cover_its_stage),
        cmocka_unit_test(test_even_map_is_the_best_map),
        cmocka_unit_test(test_degrees_deal_layers_out_equally),
        cmocka_unit_test(test_even_map_weighs_the_head),
        cmocka_unit_test(test_map_by_hand),
        cmocka_unit_test(test_gpt_tp4_dp2),
        cmocka_unit_test(test_gpt_sequence_and_context_parallel),
        cmocka_unit_test(test_fewer_kv_heads_than_tp),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_cross_attention),
        cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_grouped_convolution),
        cmocka_unit_test(test_head_norms),
        cmocka_unit_test(test_recommender),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_preset_under_random_degrees),
        cmocka_unit_test(test_one_reduction_per_pair),
        cmocka_unit_test(test_bad_degrees),
        cmocka_unit_test(test_vocabulary_is_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

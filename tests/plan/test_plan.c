/* test_plan.c - plans: instances, choices, and maps of operators to stages.
 *
 *   P1  Parts cover the instances in order, stages the devices, splits their stage (plan.h, I1-I3).
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
        int32_t stages = 1 << rng_below(&rng, 3);
        int64_t pieces = 1 + rng_below(&rng, 3);
        /* If pieces are more than layers, embedding and head are blocks, too. */
        bool apart = pieces > 1 && stages * pieces > layers;
        int blocks = apart ? layers + 2 : layers;
        double block[16] = {0};
        int b = 0;
        for (int64_t i = 0; i < m.plan->instances; i++) {
            const struct op *op = &m.model->op[m.plan->instance[i].op];
            weight[i] = zeros && rng_below(&rng, 2) ? 0 : (double)rng_below(&rng, 100);
            b += apart && b == 0 && op_in_layer(m.model, op);
            block[b] += weight[i];
            b += m.plan->ends_layer[i] && b < blocks - 1;
        }
        weft_status status = plan_map_even(m.plan, stages, pieces, weight);
        assert_int_equal(status, stages * pieces <= blocks ? WEFT_OK : WEFT_BAD_INPUT);
        check_map(m.plan);
        if (status == WEFT_OK)
            assert_true(heaviest(m.plan, weight) ==
                        brute_force(block, blocks, 0, (int)(stages * pieces)));
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

/* 6 layers over 4 stages of 2 pieces: the first holds only the embedding, the last only what follows the layers. */
static void test_embedding_and_head_are_pieces(void **state)
{
    (void)state;
    struct degrees d = {.pp = 4, .pieces = 2};
    struct made m = make("gpt3-1.3b", "layers: 6", "dgx-a100:1", &d);
    check_map(m.plan);
    for (int p = 1; p < 7; p++)
        assert_string_equal(plan_path(m.arena, m.plan, m.plan->part[p].first),
                            arena_printf(m.arena, "layers.%d.attn.norm", p - 1));
    assert_string_equal(plan_path(m.arena, m.plan, m.plan->part[7].first), "norm");
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

/* What each layer weighs, and how many of them the parts get. No part weighs more than the heaviest must; then each in
 * turn ends where its sum is nearest to an equal share of what is left, at the later of two:
 *   six of 1 in four parts: of 6 / 4 the second, of 4 / 3 one more, of 3 / 2 two more
 *   a heavy end: of 7 / 3 two, of 5 / 2 two
 *   a heavy beginning: it fills a part alone
 *   layers without weight: of 4 / 3 the second is as near as the first, and of 4 / 2 the fourth as the third
 *   one of 9: of 14 / 4 three, which are 3; then the heavy one alone */
static void test_even_map_takes_the_nearest_end(void **state)
{
    (void)state;
    static const struct {
        int layers, parts;
        double weight[8];
        int64_t wanted[4];
    } CASES[] = {
        {6, 4, {1, 1, 1, 1, 1, 1}, {2, 1, 2, 1}},
        {5, 3, {1, 1, 1, 1, 3}, {2, 2, 1}},
        {4, 2, {3, 1, 1, 1}, {1, 3}},
        {5, 3, {0, 0, 4, 0, 0}, {2, 2, 1}},
        {4, 2, {2, 3, 2, 3}, {2, 2}},
        {8, 4, {1, 1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2}},
        {7, 2, {1, 1, 1, 1, 1, 1, 1}, {4, 3}},
        {6, 4, {1, 1, 1, 9, 1, 1}, {3, 1, 1, 1}},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char text[32];
        snprintf(text, sizeof text, "layers: %d", CASES[i].layers);
        struct made m = make("gpt3-1.3b", text, "dgx-a100:3", NULL);
        double *weight = ARENA_ARRAY(m.arena, double, (size_t)m.plan->instances);
        int layer = 0;
        for (int64_t k = 0; k < m.plan->instances; k++)
            weight[k] = m.plan->ends_layer[k] ? CASES[i].weight[layer++] : 0;
        assert_int_equal(plan_map_even(m.plan, CASES[i].parts, 1, weight), WEFT_OK);
        for (int p = 0; p < CASES[i].parts; p++) {
            int64_t layers = 0, first = m.plan->part[p].first;
            for (int64_t k = first; k < first + m.plan->part[p].count; k++)
                layers += m.plan->ends_layer[k];
            if (layers != CASES[i].wanted[p])
                fail_msg("case %zu: part %d has %d layers, expected %d", i, p, (int)layers,
                         (int)CASES[i].wanted[p]);
        }
        unmake(&m);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_preset_is_walked_once),
        cmocka_unit_test(test_nested_repeats_unroll),
        cmocka_unit_test(test_unnamed_repeats_interleave),
        cmocka_unit_test(test_choices_are_interned),
        cmocka_unit_test(test_many_choices),
        cmocka_unit_test(test_choice_must_cover_its_stage),
        cmocka_unit_test(test_even_map_is_the_best_map),
        cmocka_unit_test(test_degrees_deal_layers_out_equally),
        cmocka_unit_test(test_embedding_and_head_are_pieces),
        cmocka_unit_test(test_even_map_weighs_the_head),
        cmocka_unit_test(test_even_map_takes_the_nearest_end),
        cmocka_unit_test(test_map_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

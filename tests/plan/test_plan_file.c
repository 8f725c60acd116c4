/* test_plan_file.c - plan files: examples load, the tree's rules of precedence, and files that are
 * written load back to the same plan.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_text.h"
#include "rounds.h"

/* ---- examples -------------------------------------------------------------------------------- */

static void examples_load(void **state)
{
    (void)state;
    static const char *const FILES[] = {"gpt3-13b",
                                        "gpt3-13b-by-hand",
                                        "small-moe",
                                        "uneven",
                                        "side-by-side",
                                        "proteus/resnet50-s1",
                                        "proteus/resnet50-s2",
                                        "proteus/inception-s1",
                                        "proteus/inception-s2",
                                        "proteus/vgg19-s1",
                                        "proteus/vgg19-s2",
                                        "proteus/gpt2-s1",
                                        "proteus/gpt2-s2",
                                        "proteus/gpt1.5b-s1",
                                        "proteus/gpt1.5b-s2",
                                        "proteus/dlrm-s1",
                                        "proteus/dlrm-s2"};
    for (size_t i = 0; i < COUNT_OF(FILES); i++) {
        char path[512];
        struct opened_plan opened;
        snprintf(path, sizeof path, "%s/data/plans/%s.yaml", WEFT_SOURCE_DIR, FILES[i]);
        if (plan_load(path, &opened))
            fail_msg("%s", weft_last_error()->message);
        assert_int_equal(plan_check(opened.plan), WEFT_OK);
        expect_round_trip(opened.plan);
        plan_close(&opened);
    }
}

static void degrees_are_those_of_the_library(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed("model: gpt3-13b\ncluster: dgx-v100:4\nbatch: {global: 64, micro: 2}\n"
               "degrees: {tp: 8, pp: 2, sp: true, zero: 1, recompute: selective}\n");
    struct degrees degrees = {.tp = 8, .pp = 2, .sequence = true, .shard = 1};
    degrees.recompute = RECOMPUTE_SELECTIVE;
    degrees.global_batch = 64;
    degrees.micro_batch = 2;
    struct plan *plan;
    assert_int_equal(plan_from_degrees(opened.model, opened.cluster, &degrees, &plan), WEFT_OK);
    expect_equal_plans(plan, opened.plan);
    plan_free(plan);
    plan_close(&opened);
}

/* 24 devices: 16 in stage 0 are 2 replicas of tp 8, 8 in stage 1 are one. */
static void stages_of_different_sizes(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed("model: gpt3-13b\ncluster: dgx-v100:3\nbatch: {global: 64, step: 8}\n"
               "degrees: {tp: 8}\n"
               "stages: [{until: layers.25, devices: 0-15}, {devices: 16-23}]\n");
    expect_split(opened.plan, "layers.25.attn.qkv", "batch:2 out:8");
    expect_split(opened.plan, "layers.26.attn.qkv", "out:8");
    assert_int_equal(opened.plan->stage[1].first_device, 16);
    assert_int_equal(opened.plan->part[1].first, at(opened.plan, "layers.26.attn.norm"));
    expect_round_trip(opened.plan);
    plan_close(&opened);
}

/* The same with parts of sequences, which take devices of a replica, too. */
static void stages_of_different_sizes_divide_sequences(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed("model: gpt3-13b\ncluster: dgx-v100:3\nbatch: {global: 64, step: 8}\n"
               "degrees: {tp: 4, cp: 2}\n"
               "stages: [{until: layers.25, devices: 0-15}, {devices: 16-23}]\n");
    expect_split(opened.plan, "layers.25.attn.qkv", "batch:2 seq:2 out:4");
    expect_split(opened.plan, "layers.26.attn.qkv", "seq:2 out:4");
    plan_close(&opened);
}

static void pieces_are_cut_where_until_says(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed(HEAD "schedule: interleaved\npieces: 2\n"
                    "stages: [{until: [layers.7, layers.22]}, {until: [layers.15]}]\n");
    const struct plan *plan = opened.plan;
    assert_int_equal(plan->parts, 4);
    assert_int_equal(plan->part[1].first, at(plan, "layers.8.attn.norm"));
    assert_int_equal(plan->part[2].first, at(plan, "layers.16.attn.norm"));
    assert_int_equal(plan->part[3].first, at(plan, "layers.23.attn.norm"));
    expect_round_trip(plan);
    plan_close(&opened);
}

/* Two pieces on each of a wide and a narrow stage. */
static void uneven_stages_have_pieces_too(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed("model: gpt3-13b\ncluster: dgx-v100:3\nbatch: {global: 64, step: 8}\n"
               "degrees: {tp: 8, pieces: 2}\n"
               "stages: [{until: [layers.9, layers.29], devices: 16}, {until: [layers.19], "
               "devices: 8}]\n");
    assert_string_equal(opened.plan->schedule, "interleaved");
    expect_split(opened.plan, "layers.29.mlp.down", "batch:2 in:8");
    expect_split(opened.plan, "layers.30.mlp.down", "in:8");
    expect_round_trip(opened.plan);
    plan_close(&opened);
}

static void degrees_have_a_layout(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(HEAD "degrees: {tp: 4, pp: 2, layout: 'Et*3|t*30|t*7|L'}\n");
    assert_int_equal(opened.plan->pieces, 2);
    assert_string_equal(opened.plan->schedule, "interleaved");
    assert_int_equal(opened.plan->part[1].first, at(opened.plan, "layers.3.attn.norm"));
    assert_int_equal(opened.plan->part[2].first, at(opened.plan, "layers.33.attn.norm"));
    assert_int_equal(opened.plan->part[3].first, at(opened.plan, "norm"));
    expect_round_trip(opened.plan);
    plan_close(&opened);
}

/* Groups that share state, and stages among each other's devices: files have both beside degrees and beside a tree. */
static void groups_and_runs_of_stages_are_kept(void **state)
{
    (void)state;
    struct opened_plan opened =
        parsed(HEAD "degrees: {tp: 4, pp: 2, zero: 1, replicate: 2, order: tp-cp-ep-pp-dp}\n"
                    "tree: {layers.3: {recompute: true}}\n");
    assert_int_equal(opened.plan->replicate, 2);
    assert_int_equal(opened.plan->stage_run, 4);
    expect_round_trip(opened.plan);
    plan_close(&opened);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* A deeper line wins over a higher one wherever it stands, a later one over an equally deep one. */
static void deeper_then_later_lines_win(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(HEAD "tree:\n"
                                            "  layers.*.mlp: {recompute: none}\n"
                                            "  layers: {recompute: full}\n"
                                            "  layers.0-9: {recompute: none}\n"
                                            "  layers.5-14: {recompute: full}\n"
                                            "  layers.3.attn.qkv: {recompute: true}\n");
    expect_recompute(opened.plan, "layers.20.mlp.up", false);
    expect_recompute(opened.plan, "layers.20.attn.qkv", true);
    expect_recompute(opened.plan, "layers.0.attn.qkv", false);
    expect_recompute(opened.plan, "layers.5.attn.qkv", true);
    expect_recompute(opened.plan, "layers.3.attn.qkv", true);
    expect_recompute(opened.plan, "layers.3.attn.proj", false);
    expect_recompute(opened.plan, "head", false);
    plan_close(&opened);
}

static void outputs_are_saved_or_discarded(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(HEAD "tree:\n"
                                            "  layers: {recompute: discard}\n"
                                            "  layers.*.attn: {recompute: saved}\n"
                                            "  layers.0: {recompute: true}\n"
                                            "  layers.0.mlp.up: {recompute: none}\n");
    static const struct {
        const char *path, *word;
    } ROWS[] = {{"layers.1.mlp.up", "discard"},
                {"layers.1.attn.qkv", "saved"},
                {"layers.0.mlp.down", "true"},
                {"layers.0.mlp.up", "false"}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        assert_string_equal(
            choice_recompute_text(plan_choice(opened.plan, at(opened.plan, ROWS[i].path))),
            ROWS[i].word);
    expect_round_trip(opened.plan);
    plan_close(&opened);
}

static void settings_are_inherited_one_by_one(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(HEAD "tree:\n"
                                            "  '*': {split: 'batch:32', shard: 2}\n"
                                            "  layers.1.mlp: {offload: true}\n"
                                            "  layers.1.mlp.up: {split: 'batch:4 out:8'}\n");
    const struct choice *up = plan_choice(opened.plan, at(opened.plan, "layers.1.mlp.up"));
    assert_true(up->offload && up->shard == 2);
    expect_split(opened.plan, "layers.1.mlp.up", "batch:4 out:8");
    expect_split(opened.plan, "layers.1.mlp.down", "batch:32");
    plan_close(&opened);
}

/* On a module, dims that an operator lacks are copied; what is left over is copied outermost. */
static void splits_of_modules_go_as_far_as_they_can(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(HEAD "tree:\n"
                                            "  layers.*.mlp: {split: 'batch:2 out:8'}\n"
                                            "  layers.0.attn: {split: 'head:8 batch:4'}\n");
    expect_split(opened.plan, "layers.7.mlp.up", "copy:2 batch:2 out:8");
    expect_split(opened.plan, "layers.7.mlp.norm", "copy:2 batch:2 copy:8");
    expect_split(opened.plan, "layers.0.attn.score", "head:8 batch:4");
    expect_split(opened.plan, "layers.0.attn.qkv", "copy:8 batch:4");
    expect_split(opened.plan, "layers.1.attn.qkv", "copy:32");
    plan_close(&opened);
}

static void patterns_name_what_they_say(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(HEAD "tree:\n"
                                            "  layers.0-38/2: {recompute: full}\n"
                                            "  layers.1.attn.s*: {recompute: full}\n"
                                            "  '*.gelu': {shard: 1}\n"
                                            "  '#.0': {shard: 3}\n");
    expect_recompute(opened.plan, "layers.38.mlp.up", true);
    expect_recompute(opened.plan, "layers.37.mlp.up", false);
    expect_recompute(opened.plan, "layers.1.attn.score", true);
    expect_recompute(opened.plan, "layers.1.attn.softmax", true);
    expect_recompute(opened.plan, "layers.1.attn.dropout", false);
    assert_int_equal(plan_choice(opened.plan, at(opened.plan, "layers.9.mlp.gelu"))->shard, 1);
    assert_int_equal(plan_choice(opened.plan, at(opened.plan, "layers.9.mlp.up"))->shard, 0);
    assert_int_equal(plan_choice(opened.plan, 0)->shard, 3);
    plan_close(&opened);
}

/* What overlaps: words and lists of them, sizes of buckets, and what holds without either. */
static void overlap_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned overlap;
        int64_t bucket_bytes;
    } CASES[] = {
        {HEAD, OVERLAP_ALL, DEFAULT_BUCKET_BYTES},
        {HEAD "overlap: none\nbucket: whole\n", 0, 0},
        {HEAD "overlap: all\nbucket: 0\n", OVERLAP_ALL, 0},
        {HEAD "overlap: []\nbucket: 40MiB\n", 0, 40 << 20},
        {HEAD "overlap: products\n", OVERLAP_PRODUCTS, DEFAULT_BUCKET_BYTES},
        {HEAD "overlap: [products, all, experts, shared]\n", OVERLAP_EVERY, DEFAULT_BUCKET_BYTES},
        {HEAD "overlap: shared\n", OVERLAP_SHARED, DEFAULT_BUCKET_BYTES},
        {HEAD "overlap: pipeline\nbucket: 1000\n", OVERLAP_PIPELINE, 1000},
        {"model: gpt3-13b\ncluster: dgx-v100:4\ndegrees: {tp: 8}\n"
         "overlap: [tensor, gradients]\nbucket: 1MB\n",
         OVERLAP_TENSOR | OVERLAP_GRADIENTS, 1000000},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct opened_plan opened = parsed(CASES[i].text);
        assert_int_equal(opened.plan->overlap, CASES[i].overlap);
        assert_int_equal(opened.plan->bucket_bytes, CASES[i].bucket_bytes);
        expect_round_trip(opened.plan);
        plan_close(&opened);
    }
}

/* ---- round trips ----------------------------------------------------------------------------- */

/* A split of the stage's devices that the operator allows, part by part. */
static struct split random_split(struct rng *rng, const struct plan *plan, const struct op *op,
                                 int64_t devices)
{
    struct split split = split_none();
    while (devices > 1) {
        int place = (int)rng_below(rng, op_dims(op->kind));
        enum dim dim = OP_KINDS[op->kind].dims[place].dim;
        enum dim_role role = OP_KINDS[op->kind].dims[place].role;
        int64_t size = role == ROLE_BATCH ? plan->step_samples : op->size[place];
        int64_t degree = 2 * split_degree(&split, (int)dim);
        bool legal = role != ROLE_WHOLE && size % degree == 0 && rng_below(rng, 3) > 0;
        if (!legal || split.parts + 1 >= MAX_SPLIT_PARTS) {
            split_add(&split, SPLIT_COPY, devices);
            break;
        }
        split_add(&split, (int)dim, 2);
        devices /= 2;
    }
    return split;
}

static void randomize(struct rng *rng, struct plan *plan)
{
    struct choice choice = {0};
    int64_t kept_until = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        int32_t stage = plan_stage_of_part(plan, plan_part_of(plan, i));
        choice.split = random_split(rng, plan, op, plan->stage[stage].devices);
        if (i >= kept_until) {
            choice.shard = (uint8_t)rng_below(rng, 4);
            choice.recompute = rng_below(rng, 2);
            choice.offload = (uint8_t)(rng_below(rng, 4) ? 0 : 1 + rng_below(rng, 2));
            kept_until = i + 1 + rng_below(rng, 40);
        }
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static void cut_at_random(struct rng *rng, struct plan *plan)
{
    int32_t stages = (int32_t)(1 + rng_below(rng, 3));
    int64_t pieces = 1 + rng_below(rng, 2), parts = stages * pieces, cut[6], devices[3];
    int64_t left = cluster_devices(plan->cluster);
    for (int64_t k = 0; k + 1 < parts; k++) {
        int64_t before = k ? cut[k - 1] : 0, room = plan->instances - before - (parts - 1 - k);
        cut[k] = before + 1 + rng_below(rng, room - 1);
    }
    for (int32_t s = 0; s < stages; s++) {
        devices[s] = s + 1 < stages ? left / 2 : left;
        left -= devices[s];
    }
    assert_int_equal(plan_map(plan, stages, pieces, cut, devices), WEFT_OK);
    plan->schedule = pieces > 1 ? "interleaved" : "1f1b";
}

static void random_plans_round_trip(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options;
    } MODELS[] = {
        {"gpt3-350m", "layers: 5"},   {"swin-huge-32", NULL},
        {"t5-large-32", "layers: 4"}, {"resnet-50", NULL},
        {"deepseek-v2-lite", NULL},   {WEFT_SOURCE_DIR "/fuzz/corpus/onnx/encoder.onnx", NULL}};
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < rounds_of(200); round++) {
        size_t m = (size_t)rng_below(&rng, COUNT_OF(MODELS));
        struct model *model;
        struct cluster *cluster;
        struct plan *plan;
        assert_int_equal(model_open(MODELS[m].model, MODELS[m].options, &model), WEFT_OK);
        assert_int_equal(cluster_open(round % 2 ? "dgx-a100:2" : "dgx-a100", &cluster), WEFT_OK);
        assert_int_equal(plan_new(model, cluster, &plan), WEFT_OK);
        plan->model_name = MODELS[m].model;
        plan->model_options = MODELS[m].options;
        plan->step_samples = 16;
        plan->global_batch = 16 * 6 * (1 + rng_below(&rng, 9));
        plan->memory.limit_bytes = rng_below(&rng, 2) * 30000000001;
        do {
            plan->dtype = (enum dtype)rng_below(&rng, DTYPE_COUNT);
            plan->policy = (enum policy)rng_below(&rng, POLICY_COUNT);
        } while (plan_check_types(plan->cluster, plan->dtype, plan->policy));
        plan->overlap = (unsigned)rng_below(&rng, OVERLAP_EVERY + 1);
        plan->bucket_bytes = rng_below(&rng, 3) * 12345678;
        cut_at_random(&rng, plan);
        randomize(&rng, plan);
        expect_round_trip(plan);
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
    }
}

/* The file of 1,000 layers is as long as that of four, but for some digits. */
static void files_do_not_grow_with_layers(void **state)
{
    (void)state;
    size_t len[2];
    static const int LAYERS[] = {4, 1000};
    for (int i = 0; i < 2; i++) {
        struct arena *scratch = arena_new();
        struct opened_plan opened = parsed(
            arena_printf(scratch,
                         "model: gpt3-13b\noptions: {layers: %d}\ncluster: dgx-v100:4\n"
                         "degrees: {tp: 8, pp: 2}\ntree: {layers.*.attn: {recompute: full}}\n",
                         LAYERS[i]));
        expect_round_trip(opened.plan);
        len[i] = strlen(plan_write(scratch, opened.plan));
        plan_close(&opened);
        arena_free(scratch);
    }
    assert_true(len[1] < len[0] + 50);
}

/* Two operators of one name, and names that a pattern would read otherwise, go by number; no
 * instance is lost. */
static void odd_names_go_by_number(void **state)
{
    (void)state;
    struct opened_plan opened = parsed("model: gpt3-350m\ncluster: dgx-a100\n"
                                       "options: {layers: 3}\nbatch: {step: 8}\n");
    struct model *model = opened.model;
    for (int32_t i = 0; i < model->ops; i++)
        model->op[i].name = i % 3 == 0 ? "same" : i % 3 == 1 ? "a*b" : "1-2";
    struct plan *plan;
    struct rng rng;
    rng_seed(&rng, 5);
    assert_int_equal(plan_new(model, opened.cluster, &plan), WEFT_OK);
    plan->step_samples = plan->global_batch = 8;
    randomize(&rng, plan);
    struct arena *scratch = arena_new();
    struct plan_runs runs = {0};
    plan_fold(scratch, plan, &runs);
    int64_t count = 0;
    for (size_t i = 0; i < runs.len; i++)
        count += runs.data[i].count;
    assert_int_equal(count, plan->instances);
    assert_non_null(strstr(plan_write(scratch, plan), "\"#."));
    arena_free(scratch);
    plan_free(plan);
    plan_close(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_load),
        cmocka_unit_test(degrees_are_those_of_the_library),
        cmocka_unit_test(stages_of_different_sizes),
        cmocka_unit_test(stages_of_different_sizes_divide_sequences),
        cmocka_unit_test(pieces_are_cut_where_until_says),
        cmocka_unit_test(uneven_stages_have_pieces_too),
        cmocka_unit_test(degrees_have_a_layout),
        cmocka_unit_test(groups_and_runs_of_stages_are_kept),
        cmocka_unit_test(deeper_then_later_lines_win),
        cmocka_unit_test(outputs_are_saved_or_discarded),
        cmocka_unit_test(settings_are_inherited_one_by_one),
        cmocka_unit_test(splits_of_modules_go_as_far_as_they_can),
        cmocka_unit_test(patterns_name_what_they_say),
        cmocka_unit_test(overlap_is_read),
        cmocka_unit_test(random_plans_round_trip),
        cmocka_unit_test(files_do_not_grow_with_layers),
        cmocka_unit_test(odd_names_go_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

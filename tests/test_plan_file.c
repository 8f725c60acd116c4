/* test_plan_file.c - plan files: examples load, the tree's rules of precedence, files that are
 * written load back to the same plan, and what a user is told about a broken one.
 *
 * Each row of BROKEN is an input and the exact words it must be answered with: where, what was
 * found and expected, and what to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static weft_status parse(const char *text, struct opened_plan *out)
{
    struct arena *scratch = arena_new();
    weft_status status = plan_parse(scratch, "t.yaml", text, strlen(text), out);
    arena_free(scratch);
    return status;
}

static struct opened_plan parsed(const char *text)
{
    struct opened_plan opened;
    if (parse(text, &opened))
        fail_msg("%s\n%s", text, weft_last_error()->message);
    return opened;
}

/* The instance with this path. */
static int64_t at(const struct plan *plan, const char *path)
{
    struct arena *scratch = arena_new();
    int64_t i = 0;
    while (i < plan->instances && strcmp(plan_path(scratch, plan, i), path) != 0)
        i++;
    arena_free(scratch);
    if (i == plan->instances)
        fail_msg("no instance '%s'", path);
    return i;
}

static void expect_split(const struct plan *plan, const char *path, const char *split)
{
    struct arena *scratch = arena_new();
    assert_string_equal(split_text(scratch, &plan_choice(plan, at(plan, path))->split), split);
    arena_free(scratch);
}

static void expect_recompute(const struct plan *plan, const char *path, bool recompute)
{
    if (plan_choice(plan, at(plan, path))->recompute != recompute)
        fail_msg("%s: recompute is not %d", path, recompute);
}

static void expect_equal_plans(const struct plan *a, const struct plan *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->policy, b->policy);
    assert_int_equal(a->global_batch, b->global_batch);
    assert_int_equal(a->batch_per_step, b->batch_per_step);
    assert_string_equal(a->schedule, b->schedule);
    assert_int_equal(a->pieces, b->pieces);
    assert_int_equal(a->memory_limit_bytes, b->memory_limit_bytes);
    assert_int_equal(a->overlap, b->overlap);
    assert_int_equal(a->bucket_bytes, b->bucket_bytes);
    assert_int_equal(a->instances, b->instances);
    assert_int_equal(a->stages, b->stages);
    assert_int_equal(a->parts, b->parts);
    assert_memory_equal(a->stage, b->stage, sizeof *a->stage * (size_t)a->stages);
    assert_memory_equal(a->part, b->part, sizeof *a->part * (size_t)a->parts);
    for (int64_t i = 0; i < a->instances; i++) {
        const struct choice *x = plan_choice(a, i), *y = plan_choice(b, i);
        assert_true(split_equal(&x->split, &y->split) && x->shard == y->shard &&
                    x->recompute == y->recompute && x->offload == y->offload);
    }
}

/* Writes a plan, reads it and writes it again: equal plans, equal bytes. */
static void expect_round_trip(const struct plan *plan)
{
    struct arena *scratch = arena_new();
    const char *text = plan_write(scratch, plan);
    struct opened_plan again;
    if (plan_parse(scratch, "t.json", text, strlen(text), &again))
        fail_msg("%s\n%s", weft_last_error()->message, text);
    expect_equal_plans(plan, again.plan);
    assert_string_equal(plan_write(scratch, again.plan), text);
    plan_close(&again);
    arena_free(scratch);
}

#define HEAD                                                                                       \
    "model: gpt3-13b\n"                                                                            \
    "cluster: dgx-v100:4\n"                                                                        \
    "batch: {global: 64, step: 32}\n"

/* ---- examples -------------------------------------------------------------------------------- */

static void examples_load(void **state)
{
    (void)state;
    static const char *const FILES[] = {"gpt3-13b", "gpt3-13b-by-hand", "small-moe", "uneven"};
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
        int64_t size = role == ROLE_BATCH ? plan->batch_per_step : op->size[place];
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
            choice.offload = rng_below(rng, 4) == 0;
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
    for (int round = 0; round < 200; round++) {
        size_t m = (size_t)rng_below(&rng, COUNT_OF(MODELS));
        struct model *model;
        struct cluster *cluster;
        struct plan *plan;
        assert_int_equal(model_open(MODELS[m].model, MODELS[m].options, &model), WEFT_OK);
        assert_int_equal(cluster_open(round % 2 ? "dgx-a100:2" : "dgx-a100", &cluster), WEFT_OK);
        assert_int_equal(plan_new(model, cluster, &plan), WEFT_OK);
        plan->model_name = MODELS[m].model;
        plan->model_options = MODELS[m].options;
        plan->batch_per_step = 16;
        plan->global_batch = 16 * 6 * (1 + rng_below(&rng, 9));
        plan->memory_limit_bytes = rng_below(&rng, 2) * 30000000001;
        plan->dtype = (enum dtype)rng_below(&rng, DTYPE_COUNT);
        plan->policy = (enum policy)rng_below(&rng, POLICY_COUNT);
        plan->overlap = (unsigned)rng_below(&rng, OVERLAP_ALL + 1);
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
    plan->batch_per_step = plan->global_batch = 8;
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

/* ---- memory of a stage ----------------------------------------------------------------------- */

/* Korthikanti et al., Table 2: bytes per layer over s b h, a = 40, s = 2048, h = 5120, t = 8. Layer
 * norms also keep two fp32 numbers per row, hence the tolerance. */
static void activations_are_those_of_the_literature(void **state)
{
    (void)state;
    static const struct {
        const char *degrees;
        double expected;
    } ROWS[] = {
        {"tp: 8", 10 + (24 + 5.0 * 40 * 2048 / 5120) / 8},
        {"tp: 8, sp: true", (34 + 5.0 * 40 * 2048 / 5120) / 8},
        {"tp: 8, sp: true, recompute: selective", 34.0 / 8},
        {"tp: 8, recompute: selective", 10 + 24.0 / 8},
        {"tp: 8, recompute: full", 2},
        {"tp: 8, sp: true, recompute: full", 2.0 / 8},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        double bytes[2];
        for (int more = 0; more < 2; more++) {
            char text[256];
            snprintf(text, sizeof text,
                     "model: gpt3-13b\noptions: {layers: %d}\ncluster: dgx-v100\ndegrees: {%s}\n",
                     10 + more, ROWS[i].degrees);
            struct opened_plan opened = parsed(text);
            bytes[more] = plan_stage_memory(opened.plan, 0, 1).activations;
            plan_close(&opened);
        }
        double per_layer = (bytes[1] - bytes[0]) / (2048.0 * 5120);
        if (per_layer < ROWS[i].expected || per_layer > ROWS[i].expected * 1.002)
            fail_msg("%s: %f, expected %f", ROWS[i].degrees, per_layer, ROWS[i].expected);
    }
}

/* 16 bytes per parameter in mixed precision; each level of sharding divides one more part by the 4
 * replicas: 2 + 2 + 12 / 4 = 7, 2 + (2 + 12) / 4 = 5.5, 16 / 4 = 4. */
static void sharding_divides_state(void **state)
{
    (void)state;
    static const double BYTES[] = {16, 7, 5.5, 4};
    for (int zero = 0; zero <= 3; zero++) {
        char text[128];
        snprintf(text, sizeof text,
                 "model: gpt3-1.3b\ncluster: dgx-v100\ndegrees: {tp: 2, zero: %d}\n", zero);
        struct opened_plan opened = parsed(text);
        struct stage_memory m = plan_stage_memory(opened.plan, 0, 1);
        double each = (m.weights + m.gradients + m.optimizer) / m.parameters;
        /* Norms and biases after a reduction are on all 8 devices, and divide by 8. */
        if (each > BYTES[zero] || each < BYTES[zero] * 0.999)
            fail_msg("zero %d: %f bytes per parameter, expected %f", zero, each, BYTES[zero]);
        plan_close(&opened);
    }
}

/* ---- warnings -------------------------------------------------------------------------------- */

static void strange_plans_are_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *tree, *warning;
    } ROWS[] = {
        {"head: {split: 'batch:32', shard: 2}", NULL},
        {"layers.3.mlp.up: {split: 'out:32', shard: 1}",
         "layers.3.mlp.up: shard: 1 changes nothing, no other device holds the same weights"},
        {"layers: {offload: true}",
         "layers.0-39.attn.norm and 12 more: offload changes nothing, it "
         "is not recomputed and has no checkpoint"},
        {"loss: {split: 'vocab:32'}", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct arena *scratch = arena_new();
        struct warnings warnings = {0};
        struct opened_plan opened =
            parsed(arena_printf(scratch, HEAD "tree: {%s}\n", ROWS[i].tree));
        plan_warnings(scratch, opened.plan, &warnings);
        assert_int_equal(warnings.len, ROWS[i].warning ? 1 : 0);
        if (ROWS[i].warning)
            assert_string_equal(warnings.data[0], ROWS[i].warning);
        plan_close(&opened);
        arena_free(scratch);
    }
}

/* ---- plans that the library made wrong ------------------------------------------------------- */

struct wrong {
    void (*spoil)(struct plan *plan);
    const char *message, *hint;
};

static void overlap(struct plan *plan)
{
    plan->stage[1].first_device = 8;
}
static void gap(struct plan *plan)
{
    plan->stage[1].first_device = 20;
}
static void too_few(struct plan *plan)
{
    plan->stage[1].devices = 8;
}
static void no_devices(struct plan *plan)
{
    plan->stage[0].devices = 0;
}
static void empty_stage(struct plan *plan)
{
    plan->part[1].first = 0;
    plan->part[1].count += plan->part[0].count;
    plan->part[0].count = 0;
}
static void uncovered(struct plan *plan)
{
    plan->part[1].count -= 2;
}
static void no_batch(struct plan *plan)
{
    plan->global_batch = 0;
}
static void misfit(struct plan *plan)
{
    plan->choice[plan->choice_of[0]].split.part[0].degree = 4;
}
static void wrong_shard(struct plan *plan)
{
    plan->choice[plan->choice_of[0]].shard = 4;
}
static void wrong_schedule(struct plan *plan)
{
    plan->schedule = "gpip";
}

static const struct wrong WRONG[] = {
    {overlap, "devices 8-23 of stage 1 overlap those of stage 0 (0-15)",
     "start stage 1 at device 16"},
    {gap, "devices 16-19, before those of stage 1, belong to no stage",
     "start stage 1 at device 16"},
    {too_few, "the stages have 24 devices, the cluster has 32", "16 devices in stage 1 would do"},
    {no_devices, "stage 0 has no devices", "give it at least 1"},
    {empty_stage, "stage 0 holds no operators", "gpt3-13b can be cut into at most 524 parts"},
    {uncovered, "the operators from head on belong to no stage",
     "stage 1, the last, holds all that is left"},
    {no_batch, "a global batch of 0 in steps of 32 samples, expected at least one of each", NULL},
    {misfit, "embedding: copy:4 is for 4 devices, stage 0 has 16", "copy:16 would do"},
    {wrong_shard, "embedding: shard is 4, expected 0, 1, 2 or 3", NULL},
    {wrong_schedule, NULL, "did you mean 'gpipe'?"},
};

static void wrong_plans_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct opened_plan opened = parsed(HEAD "stages: 2\n");
        assert_int_equal(plan_check(opened.plan), WEFT_OK);
        WRONG[i].spoil(opened.plan);
        assert_int_equal(plan_check(opened.plan), WEFT_BAD_INPUT);
        if (WRONG[i].message)
            assert_string_equal(weft_last_error()->message, WRONG[i].message);
        if (WRONG[i].hint)
            assert_string_equal(weft_last_error()->hint, WRONG[i].hint);
        else
            assert_null(weft_last_error()->hint);
        plan_close(&opened);
    }
}

/* ---- broken files ---------------------------------------------------------------------------- */

static const struct {
    const char *text, *message, *hint;
} BROKEN[] = {
    {"", "t.yaml:1: is empty, expected a mapping", "docs/plan-file.md describes the format"},
    {"- gpt3-13b\n",
     "t.yaml:1: the file holds a list, expected a mapping such as 'model: gpt3-13b'",
     "docs/plan-file.md describes the format"},
    {"gpt3-13b\n", "t.yaml:1: the file holds text, expected a mapping such as 'model: gpt3-13b'",
     "docs/plan-file.md describes the format"},
    {"model: [gpt3-13b\n", "t.yaml:2: is not valid YAML: did not find expected ',' or ']'",
     "check the indentation and the quotes around here"},
    {"{\"model\": \"gpt3-13b\",}\n", "t.yaml:1: is not valid JSON: string or '}' expected near '}'",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "model: gpt2\n",
     "t.yaml:2: 'model' stands twice, first in line 1", "keep one of the two"},
    {"cluster: dgx-v100:4\n", "t.yaml:1: 'model' is missing, expected a model such as gpt3-13b",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n", "t.yaml:1: 'cluster' is missing, expected a cluster such as dgx-v100:4",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "stage: 4\n",
     "t.yaml:3: 'stage' is not a known key here", "did you mean 'stages'?"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "parallelism: 4\n",
     "t.yaml:3: 'parallelism' is not a known key here",
     "known keys: model, options, cluster, batch, dtype, policy, memory, overlap, bucket, "
     "whole_sends, "
     "degrees, schedule, pieces, segments, stages, tree, choices"},
    {"model: gpt3-13B\n"
     "cluster: dgx-v100:4\n",
     "t.yaml:1: 'gpt3-13B' is neither a preset nor a file, expected a model",
     "did you mean 'gpt3-13b'?"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v10:4\n",
     "t.yaml:2: no cluster is called 'dgx-v10'", "did you mean 'dgx-v100'?"},
    {"model: gpt3-13b\n"
     "options: {layer: 4}\n"
     "cluster: dgx-v100:4\n",
     "t.yaml:2: given options:1: 'layer' is not a known key here", "did you mean 'layers'?"},
    {"model: gpt3-13b\n"
     "options: [4]\n"
     "cluster: dgx-v100:4\n",
     "t.yaml:2: 'options' is a list, expected a mapping", "such as {layers: 80, seq: 4096}"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "dtype: float16\n",
     "t.yaml:3: 'dtype' is 'float16', expected one of fp32, tf32, fp16, bf16, fp8",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "policy: half\n",
     "t.yaml:3: 'policy' is 'half', expected one of fp32, mixed, mixed-fp32-gradients, "
     "distributed, pure-bf16, fsdp",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "memory: lots\n",
     "t.yaml:3: 'memory' is 'lots', expected a size such as 80GiB",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "overlap: tensors\n",
     "t.yaml:3: 'overlap' has 'tensors', expected tensor, pipeline, gradients, parameters, all or "
     "none",
     "did you mean 'tensor'?"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "overlap:\n"
     "  - tensor\n"
     "  - weather\n",
     "t.yaml:5: 'overlap' has 'weather', expected tensor, pipeline, gradients, parameters, all or "
     "none",
     "such as [tensor, gradients]"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "overlap: {tensor: true}\n",
     "t.yaml:3: 'overlap' has a mapping, expected tensor, pipeline, gradients, parameters, all or "
     "none",
     "such as [tensor, gradients]"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "bucket: big\n",
     "t.yaml:3: 'bucket' is 'big', expected a size such as 25MiB, or whole",
     "0 is the same as whole: all gradients of a part at once"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "bucket: [25MiB]\n",
     "t.yaml:3: 'bucket' is a list, expected a size such as 25MiB, or whole",
     "0 is the same as whole: all gradients of a part at once"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "pieces: 0\n",
     "t.yaml:3: 'pieces' is '0', expected a whole number of at least 1",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: 64\n",
     "t.yaml:3: 'batch' is '64', expected a mapping of keys to values",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {globl: 64}\n",
     "t.yaml:3: 'globl' is not a known key here", "did you mean 'global'?"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 0}\n",
     "t.yaml:3: 'global' is '0', expected a whole number of at least 1",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 64, micro: 4, step: 32}\n",
     "t.yaml:3: 'batch' has a 'micro' and a 'step', expected one of them",
     "'step' is 'micro' times the data-parallel degree"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 64, micro: 4}\n",
     "t.yaml:3: 'micro' is per replica, and without 'degrees' there are no replicas",
     "write 'step': the samples that pass a stage together"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 64, step: 48}\n",
     "t.yaml:3: a global batch of 64 is not made of steps of 48 samples",
     "a global batch of 48 or 96 would do"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 4, step: 32}\n",
     "t.yaml:3: a global batch of 4 is not made of steps of 32 samples",
     "a global batch of 32 would do"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: 8\n",
     "t.yaml:3: 'degrees' is '8', expected a mapping of keys to values",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tpp: 8}\n",
     "t.yaml:3: 'tpp' is not a known key here", "did you mean 'tp'?"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 0}\n",
     "t.yaml:3: 'tp' is '0', expected a whole number of at least 1",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 5}\n",
     "t.yaml:3: tp 5 * pp 1 * cp 1 is 5 devices, which does not divide the 32 of dgx-v100",
     "use tp 4 or 8"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 8, dp: 3, pp: 2}\n",
     "t.yaml:3: dp 3 * tp 8 * pp 2 * cp 1 is 48 devices, dgx-v100 has 32",
     "use dp 2, or leave it out"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 8, zero: 4}\n",
     "t.yaml:3: 'zero' is 4, expected a number from 0 to 3",
     "docs/plan-file.md describes the format"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 8, recompute: some}\n",
     "t.yaml:3: 'recompute' is 'some', expected one of none, selective, full",
     "did you mean 'none'?"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 8, ep: 2}\n",
     "t.yaml:3: ep 2 spreads experts, and gpt3-13b has none", "leave ep out"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 30, micro: 4}\n"
     "degrees: {tp: 8}\n",
     "t.yaml:4: the global batch of 30 is no multiple of dp 4 * micro-batch 4 = 16",
     "use 16 or 32"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 8}\n"
     "schedule: 1f1c\n",
     "t.yaml:4: no schedule is called '1f1c', expected one of gpipe, 1f1b, interleaved, aiao, "
     "zb-h1",
     "did you mean '1f1b'?"},
    {HEAD "schedule: 1f1c\n",
     "t.yaml:4: no schedule is called '1f1c', expected one of gpipe, 1f1b, interleaved, aiao, "
     "zb-h1",
     "did you mean '1f1b'?"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 6}\n"
     "degrees: {tp: 8, pp: 4, pieces: 2}\n",
     "t.yaml:4: interleaved needs a multiple of its 4 stages as micro-batches, not 6",
     "use 8 micro-batches: a global batch of 8"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 64}\n"
     "degrees: {tp: 8, pp: 2}\n"
     "stages: 4\n",
     "t.yaml:5: 4 stages are written out, 'degrees' has pp: 2",
     "leave 'pp' out, or make them equal"},
    {HEAD "stages: 3\n", "t.yaml:4: 3 stages cannot share the 32 devices of dgx-v100 evenly",
     "use 2 or 4 stages"},
    {HEAD "stages: none\n", "t.yaml:4: 'stages' is 'none', expected a whole number of at least 1",
     "docs/plan-file.md describes the format"},
    {HEAD "stages: []\n", "t.yaml:4: 'stages' has 0 entries, expected 1 to 1048576",
     "write one line for each stage: - {until: layers.17, devices: 16}"},
    {HEAD "stages: 1000\n", "t.yaml:4: 1000 parts, but gpt3-13b has only 524 operators",
     "use at most 524 stages"},
    {HEAD "stages:\n"
          "  - {until: layers.17, device: 16}\n"
          "  - {devices: 16}\n",
     "t.yaml:5: 'device' is not a known key here", "did you mean 'devices'?"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: 16}\n"
          "  - {}\n",
     "t.yaml:6: stage 1 has no 'devices', stage 0 has them",
     "give devices to all stages or to none"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: 16}\n"
          "  - {devices: 8}\n",
     "t.yaml:4: the stages have 24 devices, dgx-v100:4 has 32", "8 devices are left over"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: 16}\n"
          "  - {devices: 24}\n",
     "t.yaml:4: the stages have 40 devices, dgx-v100:4 has 32", "8 devices too many"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: 0-15}\n"
          "  - {devices: 8-31}\n",
     "t.yaml:6: devices 8-31 of stage 1 overlap those before (0-15)", "start stage 1 at device 16"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: 0-13}\n"
          "  - {devices: 16-31}\n",
     "t.yaml:6: devices 14-15, before stage 1, belong to no stage", "start stage 1 at device 14"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: all}\n"
          "  - {devices: 16-31}\n",
     "t.yaml:5: 'devices' is 'all', expected a number or a range",
     "write how many, 16, or which, 0-15"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: 7-0}\n"
          "  - {devices: 16-31}\n",
     "t.yaml:5: 'devices' is '7-0', which is empty", "write how many, 16, or which, 0-15"},
    {HEAD "stages:\n"
          "  - {until: layers.17, devices: 24}\n"
          "  - {until: layers.11, devices: 8}\n",
     "t.yaml:6: stage 1 would hold no operators: 'layers.11' ends before it starts",
     "it starts at layers.18.attn.norm: end it there or behind"},
    {HEAD "stages:\n"
          "  - {until: layers.17}\n"
          "  - {until: layers.20}\n",
     "t.yaml:6: the operators behind 'layers.20' belong to no stage",
     "leave 'until' out of the last stage"},
    {HEAD "stages:\n"
          "  - {until: loss}\n"
          "  - {}\n",
     "t.yaml:5: nothing is left for the stages behind 'loss'", "end stage 0 at head or before"},
    {HEAD "stages:\n"
          "  - {until: layers.3}\n"
          "  - {}\n"
          "  - {devices: 8}\n"
          "  - {}\n",
     "t.yaml:7: stage 2 has 'devices', stage 0 has none", "give devices to all stages or to none"},
    {HEAD "stages:\n"
          "  - {until: layers.3}\n"
          "  - {}\n"
          "  - {}\n"
          "  - {}\n",
     "t.yaml:6: stage 1 has no 'until', expected the last module it holds",
     "only the last stage may leave it out"},
    {HEAD "stages:\n"
          "  - {until: layers.40}\n"
          "  - {}\n",
     "t.yaml:5: 'layers.40' is no module or operator of gpt3-13b", "layers goes from 0 to 39"},
    {HEAD "stages:\n"
          "  - {until: layer.4}\n"
          "  - {}\n",
     "t.yaml:5: 'layer.4' is no module or operator of gpt3-13b", "did you mean 'layers'?"},
    {HEAD "stages:\n"
          "  - {until: [layers.4, layers.9]}\n"
          "  - {}\n",
     "t.yaml:5: 'until' names 2 ends, stage 0 has 1 piece",
     "docs/plan-file.md describes the format"},
    {HEAD "pieces: 2\n"
          "stages:\n"
          "  - {until: layers.4}\n"
          "  - {}\n",
     "t.yaml:6: 'until' names one end, stage 0 has 2 pieces",
     "write a list: until: [layers.3, layers.11]"},
    {HEAD "stages:\n"
          "  - {devices: 24}\n"
          "  - {devices: 8}\n",
     "t.yaml:4: stages of different sizes need an 'until' each",
     "only stages of equal size are cut evenly"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 64}\n"
     "degrees: {tp: 8, pp: 2}\n"
     "stages:\n"
     "  - {until: layers.17, devices: 16}\n"
     "  - {until: layers.30, devices: 8}\n"
     "  - {devices: 8}\n",
     "t.yaml:5: 3 stages are written out, 'degrees' has pp: 2",
     "leave 'pp' out, or make them equal"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 8}\n"
     "stages:\n"
     "  - {until: layers.17, devices: 24}\n"
     "  - {devices: 8}\n",
     "t.yaml:3: stages of different sizes need a 'step' in 'batch'",
     "write 'step': the samples that pass a stage together"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "degrees: {tp: 8, dp: 2}\n"
     "stages:\n"
     "  - {until: layers.17, devices: 24}\n"
     "  - {devices: 8}\n",
     "t.yaml:3: stages of different sizes have different data-parallel degrees", "leave it out"},
    {HEAD "degrees: {tp: 8}\n"
          "stages:\n"
          "  - {until: layers.17, devices: 20}\n"
          "  - {devices: 12}\n",
     "t.yaml:6: stage 0 has 20 devices, which tp 8 * cp 1 does not divide",
     "docs/plan-file.md describes the format"},
    {HEAD "tree: all\n", "t.yaml:4: 'tree' is text, expected a mapping of modules to settings",
     "such as layers: {recompute: full}"},
    {HEAD "tree:\n"
          "  layers: full\n",
     "t.yaml:5: 'layers' is text, expected a mapping of settings",
     "such as {split: batch:2 out:8, recompute: full}"},
    {HEAD "tree:\n"
          "  layers: {recomputed: full}\n",
     "t.yaml:5: 'recomputed' is not a known key here", "did you mean 'recompute'?"},
    {HEAD "tree:\n"
          "  layers: {recompute: maybe}\n",
     "t.yaml:5: 'recompute' is 'maybe', expected none, selective, full, true or false",
     "docs/plan-file.md describes the format"},
    {HEAD "tree:\n"
          "  layers: {shard: 4}\n",
     "t.yaml:5: 'shard' is 4, expected 0, 1, 2 or 3", "docs/plan-file.md describes the format"},
    {HEAD "tree:\n"
          "  layers: {offload: 1}\n",
     "t.yaml:5: 'offload' is '1', expected true or false",
     "docs/plan-file.md describes the format"},
    {HEAD "tree:\n"
          "  layrs: {recompute: full}\n",
     "t.yaml:5: 'layrs' is no module or operator of gpt3-13b", "did you mean 'layers'?"},
    {HEAD "tree:\n"
          "  layers.0.attention: {recompute: full}\n",
     "t.yaml:5: 'layers.0.attention' is no module or operator of gpt3-13b", "there are attn, mlp"},
    {HEAD "tree:\n"
          "  layers.0.attn.qkvs: {recompute: full}\n",
     "t.yaml:5: 'layers.0.attn.qkvs' is no module or operator of gpt3-13b", "did you mean 'qkv'?"},
    {HEAD "tree:\n"
          "  layers.40-49: {recompute: full}\n",
     "t.yaml:5: 'layers.40-49' is no module or operator of gpt3-13b", "layers goes from 0 to 39"},
    {HEAD "tree:\n"
          "  layers.30-50: {recompute: full}\n",
     "t.yaml:5: 'layers.30-50' reaches beyond gpt3-13b: there is no 50",
     "layers goes from 0 to 39"},
    {HEAD "tree:\n"
          "  head.weight: {recompute: full}\n",
     "t.yaml:5: 'head.weight' is no module or operator of gpt3-13b",
     "head is an operator and has nothing below it"},
    {HEAD "tree:\n"
          "  layers..attn: {recompute: full}\n",
     "t.yaml:5: 'layers..attn' has an empty name between its dots",
     "write names with one dot between them: layers.0-9.attn"},
    {HEAD "tree:\n"
          "  layers.9-0: {recompute: full}\n",
     "t.yaml:5: 'layers.9-0' has the range '9-0', which is empty",
     "a range goes up: 0-9, or 0-9/3 for every third"},
    {HEAD "tree:\n"
          "  '*.mlpp': {recompute: full}\n",
     "t.yaml:5: '*.mlpp' is no module or operator of gpt3-13b", "did you mean 'mlp'?"},
    {HEAD "tree:\n"
          "  '#.9999': {recompute: full}\n",
     "t.yaml:5: '#.9999' is no module or operator of gpt3-13b", "instances go from #.0 to #.523"},
    {HEAD "tree:\n"
          "  layers: {split: batch}\n",
     "t.yaml:5: 'batch' in the split 'batch' is not of the form dim:degree",
     "write dim:degree, outermost first: batch:2 out:4"},
    {HEAD "tree:\n"
          "  layers: {split: 'batch:0'}\n",
     "t.yaml:5: 'batch:0' in the split 'batch:0', expected a degree of at least 1",
     "docs/plan-file.md describes the format"},
    {HEAD "tree:\n"
          "  layers: {split: 'batches:2'}\n",
     "t.yaml:5: no dim is called 'batches' in the split 'batches:2'", "did you mean 'batch'?"},
    {HEAD "tree:\n"
          "  layers: {split: ''}\n",
     "t.yaml:5: the split is empty", "write 'whole' for one device"},
    {HEAD "tree:\n"
          "  layers: {split: 'expert:8'}\n",
     "t.yaml:5: no operator below 'layers' can be split by 'expert'",
     "`weft inspect MODEL --ops` lists the dims"},
    {HEAD "tree:\n"
          "  layers: {split: 'batch:6'}\n",
     "t.yaml:5: layers.0.attn.norm: batch:6 is for 6 devices, which do not divide the 32 of stage "
     "0",
     "in place of batch:6, degrees that fit: 4 or 8"},
    {HEAD "tree:\n"
          "  head: {split: 'batch:2 head:16'}\n",
     "t.yaml:5: head: has no dim 'head'", "a linear can be split by batch, seq, in, out"},
    {HEAD "tree:\n"
          "  norm: {split: 'hidden:8'}\n",
     "t.yaml:5: norm: a layer_norm cannot be split by 'hidden'", "it can be split by batch, seq"},
    {HEAD "stages: 1\n"
          "tree:\n"
          "  layers.*.attn.score: {split: 'head:32'}\n"
          "  layers.*.attn.context: {split: 'depth:32 batch:1'}\n"
          "  layers.7.attn.softmax: {split: 'kv:32'}\n",
     "t.yaml:6: layers.0.attn.score: head:32 does not divide its head of 40",
     "legal degrees nearby: 20 or 40"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:3\n"
     "batch: {global: 64, step: 8}\n"
     "tree:\n"
     "  layers.*.attn.score: {split: 'head:24'}\n",
     "t.yaml:5: layers.0.attn.score: head:24 does not divide its head of 40",
     "legal degrees nearby: 20 or 40"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:8\n"
     "batch: {global: 64, step: 8}\n"
     "tree:\n"
     "  layers.5.attn.score: {split: 'head:64'}\n",
     "t.yaml:5: layers.5.attn.score: head:64 is more than its head of 40",
     "legal degrees nearby: 40"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:4\n"
     "batch: {global: 64, step: 8}\n"
     "tree:\n"
     "  head: {split: 'batch:32'}\n",
     "t.yaml:5: head: a step of 8 samples cannot be split by batch:32",
     "a step of 32 samples would do"},
    {"model: gpt3-13b\n"
     "cluster: dgx-v100:3\n"
     "batch: {global: 64, step: 8}\n"
     "tree:\n"
     "  head: {split: 'batch:3 out:8'}\n",
     "t.yaml:5: head: a step of 8 samples cannot be split by batch:3",
     "legal degrees nearby: 2 or 4"},
    {HEAD "choices: all\n", "t.yaml:4: 'choices' is text, expected a list",
     "docs/plan-file.md describes the format"},
    {HEAD "choices:\n"
          "  - {split: 'batch:32'}\n",
     "t.yaml:5: a choice needs a 'split' and a list 'at' of what has it",
     "docs/plan-file.md describes the format"},
    {HEAD "choices:\n"
          "  - {split: 'batch:32', at: [layrs]}\n",
     "t.yaml:5: 'layrs' is no module or operator of gpt3-13b", "did you mean 'layers'?"},
};

static void broken_files_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        struct opened_plan opened;
        if (parse(BROKEN[i].text, &opened) != WEFT_BAD_INPUT)
            fail_msg("row %zu is taken for valid:\n%s", i, BROKEN[i].text);
        assert_string_equal(weft_last_error()->message, BROKEN[i].message);
        assert_non_null(weft_last_error()->hint);
        assert_string_equal(weft_last_error()->hint, BROKEN[i].hint);
        assert_null(opened.plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_load),
        cmocka_unit_test(degrees_are_those_of_the_library),
        cmocka_unit_test(stages_of_different_sizes),
        cmocka_unit_test(pieces_are_cut_where_until_says),
        cmocka_unit_test(uneven_stages_have_pieces_too),
        cmocka_unit_test(deeper_then_later_lines_win),
        cmocka_unit_test(settings_are_inherited_one_by_one),
        cmocka_unit_test(splits_of_modules_go_as_far_as_they_can),
        cmocka_unit_test(patterns_name_what_they_say),
        cmocka_unit_test(overlap_is_read),
        cmocka_unit_test(random_plans_round_trip),
        cmocka_unit_test(files_do_not_grow_with_layers),
        cmocka_unit_test(odd_names_go_by_number),
        cmocka_unit_test(activations_are_those_of_the_literature),
        cmocka_unit_test(sharding_divides_state),
        cmocka_unit_test(strange_plans_are_warned_of),
        cmocka_unit_test(wrong_plans_are_refused),
        cmocka_unit_test(broken_files_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

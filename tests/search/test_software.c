/* test_software.c - the record of software: its words, what each fact does to times and memory, by hand arithmetic,
 * and the estimate beside the simulator under every profile. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cost/cost.h"
#include "plan_text.h"
#include "search/estimate/estimator.h"
#include "sim/item_cost.h"
#include "sim/sim.h"

static struct software software_of(const char *text)
{
    struct software software;
    if (software_from_text(text, &software) != WEFT_OK)
        fail_msg("%s: %s", text, weft_last_error()->message);
    return software;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void texts_are_read_back(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    static const char *const TEXTS[] = {"default", "megatron-core-0.16", "weft,host=graphs",
                                        "pytorch-eager,gradients=kept,optimizer_step=single"};
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        struct software software = software_of(TEXTS[i]);
        assert_string_equal(software_text(arena, &software), TEXTS[i]);
    }
    struct software none = {0};
    assert_true(software_is_default(&none));
    arena_free(arena);
}

/* Without its release a profile is the latest of that name. */
static void releases_may_be_left_out(void **state)
{
    (void)state;
    static const char *const NAMES[][2] = {{"megatron-core", "megatron-core-0.19"},
                                           {"torchtitan", "torchtitan-2025"},
                                           {"deepspeed,host=graphs", "deepspeed-0.19,host=graphs"},
                                           {"weft", "weft"}};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        struct software one = software_of(NAMES[i][0]), other = software_of(NAMES[i][1]);
        assert_true(software_same(&one, &other));
    }
}

static void wrong_words_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"megatron", "no software profile is called 'megatron'"},
        {"megatron-core-0.1", "no software profile is called 'megatron-core-0.1'"},
        {"weft,hosts=graphs", "no fact about software is called 'hosts'"},
        {"weft,host=graph", "the software's host is 'graph', expected kernels, graphs or native"},
        {"weft,host", "the software's 'host' is no FACT=WORD"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct software software;
        assert_int_equal(software_from_text(CASES[i].text, &software), WEFT_BAD_INPUT);
        assert_non_null(strstr(weft_last_error()->message, CASES[i].message));
    }
}

static void plan_files_have_it(void **state)
{
    (void)state;
    struct opened_plan named = parsed("model: gpt3-1.3b\ncluster: dgx-h100:1\n"
                                      "software: megatron-core-0.16\n");
    struct software megatron = software_of("megatron-core-0.16");
    assert_true(software_same(&named.plan->software, &megatron));
    assert_int_equal(named.plan->bucket_bytes, BUCKET_BY_RULE);
    expect_round_trip(named.plan);
    plan_close(&named);
    struct opened_plan changed = parsed("model: gpt3-1.3b\ncluster: dgx-h100:1\nbucket: 1MiB\n"
                                        "software: {base: megatron-core-0.16, host: graphs}\n");
    struct software graphs = software_of("megatron-core-0.16,host=graphs");
    assert_true(software_same(&changed.plan->software, &graphs));
    assert_int_equal(changed.plan->bucket_bytes, 1 << 20);
    expect_round_trip(changed.plan);
    plan_close(&changed);
}

/* The document names every profile, fact and word in backquotes. */
static void document_is_complete(void **state)
{
    (void)state;
    static char text[1 << 16];
    FILE *file = fopen(WEFT_SOURCE_DIR "/docs/reference/software.md", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    struct arena *arena = arena_new();
    const struct software_profile *profiles;
    size_t count = software_profiles(&profiles);
    for (size_t i = 0; i < count; i++)
        if (!strstr(text, arena_printf(arena, "`%s`", profiles[i].name)))
            fail_msg("software.md does not name %s", profiles[i].name);
    for (int f = 0; f < SOFTWARE_FACTS; f++) {
        struct software other = profiles[0].record;
        other.word[f] = !other.word[f];
        const char *changed = software_text(arena, &other) + strlen("default,");
        char *key = arena_copy_bytes(arena, changed, strcspn(changed, "="));
        if (!strstr(text, arena_printf(arena, "`%s`", key)))
            fail_msg("software.md does not name %s", key);
        assert_int_equal(software_set(&other, key, "?"), WEFT_BAD_INPUT);
        char *words = strstr(weft_last_error()->message, "expected ") + strlen("expected ");
        words = arena_copy_text(arena, words);
        for (char *word; (word = strsep(&words, ", ")) != NULL;)
            if (*word && strcmp(word, "or") != 0 &&
                !strstr(text, arena_printf(arena, "`%s`", word)))
                fail_msg("software.md does not name %s of %s", word, key);
    }
    arena_free(arena);
}

/* What each profile has otherwise than the default, as it is typed, from the frameworks' sources (software.c names them). */
static void profiles_have_their_facts(void **state)
{
    (void)state;
#define CORE                                                                                       \
    ",fp8_recipe=delayed,weight_casts=once,fused_casts=norms,accumulation=fused,buckets=megatron," \
    "gathers=pieces,inputs=cast,scores=activation"
    static const struct {
        const char *name, *facts;
    } ROWS[] = {
        {"default", "default"},
        {"megatron-core-0.15", "default" CORE},
        {"megatron-core-0.16", "default" CORE},
        {"megatron-core-0.19", "default" CORE},
        {"megatron-local", "default,buckets=megatron,gathers=pieces,optimizer_step=foreach"},
        {"torchtitan-2025", "default,gradients=freed"},
        {"fsdp-script", "default,gradients=freed,root=whole,workspace=torch,gates=apart"},
        {"dtensor-script",
         "default,gradients=freed,optimizer_step=single,root=whole,workspace=torch,"
         "gates=apart,gathered=kept,logits=kept"},
        {"torch-stages", "default,gradients=freed,optimizer_step=single,root=whole,workspace=torch,"
                         "gates=apart,gathered=kept,stages=held"},
        {"pytorch-eager", "default,gradients=freed,checkpoints=early,optimizer_step=foreach"},
        {"deepspeed-0.19", "default,buckets=deepspeed"},
        {"weft", "default,accumulation=fused,experts=fused,sequences=consecutive"},
        {"weft-cuda", "default,accumulation=fused,experts=fused,host=native,sequences=consecutive,"
                      "workspace=weft"},
    };
#undef CORE
    const struct software_profile *profiles;
    assert_int_equal(software_profiles(&profiles), COUNT_OF(ROWS));
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct arena *arena = arena_new();
        struct software record = profiles[i].record;
        record.profile = 0; /* all that is otherwise than the default is said */
        assert_string_equal(profiles[i].name, ROWS[i].name);
        assert_string_equal(software_text(arena, &record), ROWS[i].facts);
        arena_free(arena);
    }
}

/* ---- rules and costs, by hand ---------------------------------------------------------------- */

/* 40 M parameters up to 40 devices, then 1 M for each; 4 bytes of gradient each. */
static void megatron_buckets_grow(void **state)
{
    (void)state;
    struct software megatron = software_of("megatron-core-0.19"), none = software_of("default");
    assert_int_equal(software_bucket_bytes(&megatron, 4, 8), 160000000);
    assert_int_equal(software_bucket_bytes(&megatron, 4, 40), 160000000);
    assert_int_equal(software_bucket_bytes(&megatron, 4, 484), 1936000000);
    assert_int_equal(software_bucket_bytes(&none, 4, 484), 25 << 20);
}

static struct plan *plan_with(const struct model *model, const struct cluster *cluster,
                              const char *software, struct degrees d)
{
    struct plan *plan;
    d.software = software_of(software);
    if (plan_from_degrees(model, cluster, &d, &plan) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return plan;
}

static int64_t find_instance(const struct plan *plan, const char *path)
{
    struct arena *arena = arena_new();
    int64_t found = -1;
    for (int64_t i = 0; i < plan->instances && found < 0; i++)
        if (strcmp(plan_path(arena, plan, i), path) == 0)
            found = i;
    arena_free(arena);
    assert_true(found >= 0);
    return found;
}

/* Bytes that the casts of an operator's phase read and write. */
static double cast_bytes(const struct plan *plan, const char *path, enum phase phase)
{
    struct work work[MAX_ITEM_WORKS];
    int works = item_works(plan, find_instance(plan, path), phase, work);
    double bytes = 0;
    for (int i = 1; i < works; i++)
        bytes += work[i].read_bytes + work[i].write_bytes;
    return bytes;
}

/* A layer's first product of 4096 features to 6144 on 8192 tokens, in 4 micro-batches. x: the input's elements, w: the
 * weight's. One scale per tensor reads 4 and writes 1 byte of each; delayed scaling reads 2 and writes 2; with the norm's
 * own cast and the weight's once in 4 micro-batches, 4 w / 4 are left; and turning x around reads and writes 1. */
static void casts_of_a_product(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("llama3-8b", "seq: 8192", &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100:1", &cluster), WEFT_OK);
    struct degrees d = {.dp = 8, .has_dtype = true, .dtype = DTYPE_FP8, .global_batch = 32};
    double x = 8192.0 * 4096, w = 4096.0 * 6144;
    static const struct {
        const char *software;
        double in, weight, turned; /* bytes per element */
    } CASES[] = {
        {"default", 5, 5, 0},
        {"default,fp8_recipe=delayed", 4, 4, 0},
        {"default,fp8_recipe=current", 6, 6, 0},
        {"default,fp8_recipe=delayed,weight_casts=once", 4, 1, 0},
        {"megatron-core-0.16", 0, 1, 2},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct plan *plan = plan_with(model, cluster, CASES[i].software, d);
        double forward = cast_bytes(plan, "layers.0.attn.qkv", PHASE_FORWARD);
        assert_float_equal(forward, CASES[i].in * x + CASES[i].weight * w, 1);
        if (CASES[i].turned > 0)
            assert_float_equal(cast_bytes(plan, "layers.0.attn.qkv", PHASE_BACKWARD_WEIGHT),
                               CASES[i].turned * x, 1);
        plan_free(plan);
    }
    /* A B200 multiplies fp8 in any layout: one is written, 4 + 1 bytes. */
    struct cluster *blackwell;
    assert_int_equal(cluster_open("hgx-b200:1", &blackwell), WEFT_OK);
    struct plan *plan = plan_with(model, blackwell, "default,fp8_recipe=current", d);
    assert_float_equal(cast_bytes(plan, "layers.0.attn.qkv", PHASE_FORWARD), 5 * (x + w), 1);
    plan_free(plan);
    cluster_free(blackwell);
    cluster_free(cluster);
    model_free(model);
}

/* Instances that run forward again: of a layer of Llama, all but the last product and the sum after it. */
static void checkpoints_that_stop_early(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("llama3-8b", "layers: 4", &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100:1", &cluster), WEFT_OK);
    struct degrees d = {.dp = 8, .recompute = RECOMPUTE_FULL};
    int64_t run[2] = {0, 0};
    static const char *const NAMES[] = {"default", "pytorch-eager"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        struct plan *plan = plan_with(model, cluster, NAMES[i], d);
        const uint8_t *rerun = plan_reruns(arena, plan);
        for (int64_t k = 0; k < plan->instances; k++)
            run[i] += rerun[k] == RERUN_FORWARD;
        plan_free(plan);
    }
    assert_int_equal(run[0] - run[1], 4 * 2);
    cluster_free(cluster);
    model_free(model);
    arena_free(arena);
}

static struct stage_peak peak_of(const struct plan *plan)
{
    struct prediction *p;
    assert_int_equal(simulate(plan, &(struct simulate_options){.fold = FOLD_AUTO}, &p), WEFT_OK);
    struct stage_peak peak = p->stage[0].memory;
    prediction_free(p);
    return peak;
}

/* A Mixtral of 4 layers on 8 devices, each with one expert: 4 samples of 1,024 tokens, 2 experts each, 4,096 features of
 * 2 bytes are 64 MiB of outputs in a layer, which are not kept where scores are multiplied before. With a forward and a
 * backward pass at once there are the activations of one micro-batch, less those of its last layer, whose backward pass
 * has begun; one after the other there would be two. */
static void outputs_of_experts(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("mixtral-8x7b", "layers: 4, seq: 1024, loss: fused", &model),
                     WEFT_OK);
    assert_int_equal(cluster_open("hgx-b200:1", &cluster), WEFT_OK);
    struct degrees d = {.dp = 8, .ep = 8, .micro_batch = 4, .global_batch = 128};
    struct plan *kept = plan_with(model, cluster, "default", d);
    struct plan *inside = plan_with(model, cluster, "default,scores=activation", d);
    double less =
        plan_stage_memory(kept, 0, 1).activations - plan_stage_memory(inside, 0, 1).activations;
    assert_float_equal(less, 4.0 * 64 * 0x1p20, 1);
    struct stage_peak apart = peak_of(kept), without = peak_of(inside);
    assert_true((double)(apart.peak - without.peak) > 3 * 64 * 0x1p20);
    d.has_overlap = true;
    d.overlap = OVERLAP_EVERY;
    struct plan *paired = plan_with(model, cluster, "default,scores=activation", d);
    struct stage_peak both = peak_of(paired);
    double one = (double)(without.peak - stage_state_bytes(inside, 0));
    double two = (double)(both.peak - stage_state_bytes(paired, 0));
    if (!(two > one && two < 1.6 * one && both.reserved >= both.peak))
        fail_msg("%.0f MiB in pairs, %.0f MiB alone", two / 0x1p20, one / 0x1p20);
    plan_free(paired);
    plan_free(inside);
    plan_free(kept);
    cluster_free(cluster);
    model_free(model);
}

/* Of a Llama's weights those of products, and not of embedding, head and norms, take one byte on a B200 with one scale per
 * tensor, and two in two layouts on an H100 or with scales of blocks. */
static void weights_as_they_were_cast(void **state)
{
    (void)state;
    struct model *model;
    assert_int_equal(model_open("llama3-8b", "layers: 2, tied: false", &model), WEFT_OK);
    double products = 2.0 * (4096.0 * (6144 + 4096) + 3.0 * 4096 * 14336);
    static const struct {
        const char *cluster, *software;
        double less; /* bytes per parameter */
    } CASES[] = {
        {"hgx-b200:1", "default,fp8_recipe=current,weights=cast", 1},
        {"hgx-b200:1", "default,weights=cast", 0},
        {"dgx-h100:1", "default,fp8_recipe=current,weights=cast", 0},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct cluster *cluster;
        struct degrees d = {.dp = 8, .has_dtype = true, .dtype = DTYPE_FP8};
        assert_int_equal(cluster_open(CASES[i].cluster, &cluster), WEFT_OK);
        struct plan *whole = plan_with(model, cluster, "default", d);
        struct plan *cast = plan_with(model, cluster, CASES[i].software, d);
        double less =
            plan_stage_memory(whole, 0, 0).weights - plan_stage_memory(cast, 0, 0).weights;
        assert_float_equal(less, CASES[i].less * products, 1);
        plan_free(cast);
        plan_free(whole);
        cluster_free(cluster);
    }
    model_free(model);
}

/* Of products in fp8 that hold what was cast one byte is gathered; of embedding, norms and head, and where whole weights are
 * held, two. */
static void weights_are_gathered_as_they_are_held(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster;
    int64_t bytes[2] = {0, 0};
    static const char *const NAMES[] = {"default", "default,weights=cast"};
    assert_int_equal(model_open("llama3-8b", "layers: 2, tied: false", &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100:1", &cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        struct degrees d = {.dp = 8, .shard = 1, .has_dtype = true, .dtype = DTYPE_FP8};
        struct plan *plan = plan_with(model, cluster, NAMES[i], d);
        struct graph *graph;
        assert_int_equal(graph_compile(plan, &(struct compile_options){0}, &graph), WEFT_OK);
        for (int32_t b = 0; b < graph->buckets; b++)
            bytes[i] += graph->bucket[b].gather_bytes;
        graph_free(graph);
        plan_free(plan);
    }
    int64_t products = 2 * (4096 * (6144 + 4096) + 3 * 4096 * 14336);
    assert_int_equal(bytes[0] - bytes[1], products);
    cluster_free(cluster);
    model_free(model);
}

/* 16 of 128 experts on each of 8 devices: without fused kernels, in fp8 the forward pass of their product calls 4 kernels for each
 * of them, at 7,590 ns on a B200; in 16 bits one. */
static void kernels_of_experts(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"default", "default,experts=streams"};
    static const int64_t CALLS[][2] = {{DTYPE_FP8, 4}, {DTYPE_BF16, 1}};
    struct arena *arena = arena_new();
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("qwen3-30b-a3b", "layers: 1, seq: 4096", &model), WEFT_OK);
    assert_int_equal(cluster_open("hgx-b200:1", &cluster), WEFT_OK);
    for (size_t t = 0; t < COUNT_OF(CALLS); t++) {
        struct degrees d = {.dp = 8, .ep = 8, .micro_batch = 4, .global_batch = 32};
        int64_t ns[2];
        d.has_dtype = true;
        d.dtype = (enum dtype)CALLS[t][0];
        for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
            struct plan *plan = plan_with(model, cluster, NAMES[i], d);
            struct cost *cost;
            assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
            struct item_costs costs = item_costs_of(arena, plan, cost);
            int64_t at = find_instance(plan, "layers.0.mlp.experts.gate_up");
            ns[i] = item_cost(&costs, at, PHASE_FORWARD)->device.ns;
            cost_close(cost);
            plan_free(plan);
        }
        assert_int_equal(ns[1] - ns[0], 16 * CALLS[t][1] * 7590);
    }
    cluster_free(cluster);
    model_free(model);
    arena_free(arena);
}

/* 4 samples of 4,096 tokens, each for 8 of 128 experts on 8 devices: it is for 8 (1 - C(112, 8) / C(128, 8)) = 5.3394 of them, and
 * each copy takes 1.9 ns; not if each expert gets its own, nor beside another pass. */
static void copies_of_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        unsigned overlap;
        double ns;
    } CASES[] = {{"layers: 1, seq: 4096, dispatch: nodes", 0, 4 * 4096 * 5.339357 * 1.9},
                 {"layers: 1, seq: 4096", 0, 0},
                 {"layers: 1, seq: 4096, dispatch: nodes", OVERLAP_EXPERTS, 0}};
    struct cluster *cluster;
    assert_int_equal(cluster_open("hgx-b200:1", &cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.dp = 8, .ep = 8, .micro_batch = 4, .global_batch = 32};
        struct model *model;
        assert_int_equal(model_open("qwen3-30b-a3b", CASES[i].options, &model), WEFT_OK);
        struct plan *plan = plan_with(model, cluster, "default", d);
        plan->overlap |= CASES[i].overlap;
        for (int away = 0; away < 2; away++) {
            int64_t at = find_instance(plan, away ? "layers.0.mlp.experts.dispatch"
                                                  : "layers.0.mlp.experts.combine");
            assert_true(fabs((double)expert_copies_ns(plan, at) - CASES[i].ns) < 2);
        }
        plan_free(plan);
        model_free(model);
    }
    cluster_free(cluster);
}

/* Experts of gpt-oss without fused kernels: biases of the second product, clamps and scores are passes of their own, those
 * of the first product are part of it. */
static void passes_of_experts(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        double bytes[PHASE_COUNT]; /* for each element of the output */
    } OPS[] = {{"layers.0.mlp.experts.gate_up", {0}},
               {"layers.0.mlp.experts.gated", {26, 60, 0}},
               {"layers.0.mlp.experts.down", {40, 51, 0}}};
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("gpt-oss-20b", "layers: 1, seq: 4096", &model), WEFT_OK);
    assert_int_equal(cluster_open("hgx-b200:1", &cluster), WEFT_OK);
    struct degrees d = {.dp = 8, .ep = 8, .micro_batch = 1, .global_batch = 8};
    struct plan *plan = plan_with(model, cluster, "megatron-core-0.16,experts=streams", d);
    for (size_t i = 0; i < COUNT_OF(OPS); i++)
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            double wide = i == 0 ? 5760 : 2880, elements = 4 * 4096 * wide;
            double bytes =
                expert_pass_bytes(plan, find_instance(plan, OPS[i].op), (enum phase)phase);
            assert_true(fabs(bytes - elements * OPS[i].bytes[phase]) < 1);
        }
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

/* ---- the estimate ---------------------------------------------------------------------------- */

struct seconds {
    int64_t simulated, estimated, candidate;
};

static struct seconds seconds_of(const struct plan *plan)
{
    struct arena *arena = arena_new();
    struct estimate_settings settings = estimate_settings_of(plan);
    struct estimator *estimator;
    struct estimate estimate;
    struct candidate *candidate;
    struct prediction *prediction;
    struct seconds out;
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, arena, &estimate), WEFT_OK);
    out.estimated = estimate.iteration_ns;
    assert_int_equal(candidate_of_plan(estimator, plan, arena, &candidate), WEFT_OK);
    assert_int_equal(estimate_candidate(estimator, candidate, &estimate), WEFT_OK);
    out.candidate = estimate.iteration_ns;
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
    out.simulated = prediction->iteration_ns;
    prediction_free(prediction);
    estimator_free(estimator);
    arena_free(arena);
    return out;
}

static void estimates_follow(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"default",        "megatron-core-0.16",
                                        "megatron-local", "pytorch-eager",
                                        "weft",           "default,gathers=aligned,host=graphs"};
    static const struct degrees PLANS[] = {
        {.tp = 8, .dp = 4, .global_batch = 16, .shard = 1},
        {.tp = 4, .pp = 4, .dp = 2, .global_batch = 64, .shard = 1, .sequence = true},
        {.tp = 8, .pp = 2, .dp = 2, .pieces = 2, .global_batch = 32, .shard = 1},
        {.dp = 32, .global_batch = 64, .shard = 3, .recompute = RECOMPUTE_FULL},
    };
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("gpt3-13b", "layers: 16", &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100:4", &cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        for (size_t k = 0; k < COUNT_OF(PLANS); k++) {
            struct degrees d = PLANS[k];
            d.has_dtype = true;
            d.dtype = DTYPE_FP8;
            struct plan *plan = plan_with(model, cluster, NAMES[i], d);
            struct seconds s = seconds_of(plan);
            double off = (double)s.estimated / (double)s.simulated - 1;
            double candidate = (double)s.candidate / (double)s.simulated - 1;
            if (fabs(off) > 0.005 || fabs(candidate) > 0.02)
                fail_msg(
                    "%s, plan %zu: %.3f ms simulated, %+.2f %% estimated, %+.2f %% as a candidate",
                    NAMES[i], k, (double)s.simulated / 1e6, 100 * off, 100 * candidate);
            plan_free(plan);
        }
    cluster_free(cluster);
    model_free(model);
}

/* Weft's own kernels multiply GPT-2's head as 50304 outputs, in plans in fp8 as well, others as 50257. */
static void heads_are_padded(void **state)
{
    (void)state;
    static const struct {
        const char *software;
        enum dtype dtype;
        int64_t outputs;
    } CASES[] = {{"weft-cuda", DTYPE_BF16, 50304},
                 {"weft-cuda", DTYPE_FP8, 50304},
                 {"megatron-core-0.16", DTYPE_BF16, 50257}};
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("gpt2", "layers: 1", &model), WEFT_OK);
    assert_int_equal(cluster_open("h200:1", &cluster), WEFT_OK);
    struct degrees d = {.micro_batch = 8, .global_batch = 8};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct plan *plan = plan_with(model, cluster, CASES[i].software, d);
        struct work work[MAX_ITEM_WORKS];
        plan->dtype = CASES[i].dtype;
        assert_true(item_works(plan, find_instance(plan, "head"), PHASE_FORWARD, work) > 0);
        assert_int_equal(work[0].shape[2], CASES[i].outputs);
        plan_free(plan);
    }
    cluster_free(cluster);
    model_free(model);
}

/* Of GPT-2 in bf16 with 16 x 1024 tokens. Head: rows of 50257 outputs are padded to 50304, and so are its weights:
 * 32 MiB + 768 x 50304 x 2 bytes. Attention: 16 x 12 x 1024 rows of 64 + 1 numbers in fp32; where 4 query heads
 * share keys, gradients of keys and values for each of them beside it, twice 4 x 32 x 2048 x 64 x 2 bytes. */
static void scratch_of_own_kernels(void **state)
{
    (void)state;
    static const int64_t LOCAL[OP_MAX_DIMS] = {16, 1024, 768, 50257};
    static const int64_t HEADS[OP_MAX_DIMS] = {16, 12, 1, 1024, 1024, 64};
    static const int64_t GROUPS[OP_MAX_DIMS] = {4, 8, 4, 2048, 2048, 64};
    struct op head = {.kind = OP_LINEAR, .weights = 1};
    struct op attention = {.kind = OP_ATTENTION, .causal = true};
    assert_int_equal(own_scratch_bytes(&head, LOCAL, DTYPE_BF16), (32 << 20) + 77266944);
    assert_int_equal(own_scratch_bytes(&head, LOCAL, DTYPE_FP32), 32 << 20);
    assert_int_equal(own_scratch_bytes(&attention, HEADS, DTYPE_BF16), 51118080);
    assert_int_equal(own_scratch_bytes(&attention, GROUPS, DTYPE_BF16), 68157440 + 67108864);
    assert_int_equal(own_scratch_bytes(&attention, HEADS, DTYPE_FP32), 32 << 20);
    struct software own = software_of("weft-cuda"), graphs = software_of("weft,host=graphs");
    assert_true(software_issue(&own) > 0 && software_issue(&own) < 1);
    assert_true(software_issue(&graphs) == 0);
    assert_true(software_issue(&(struct software){0}) == 1);
}

/* ResNet's 3 x 3 windows over 32 images of 64 x 56 x 56. cuDNN: images and outputs with their channels last, 2 x 32 x 64 x 3136 x 2
 * bytes, and 64 x 64 x 9 weights in 16 bits. In fp32 columns: 64 x 9 x 3136 x 4 bytes of a sample, of which 9 take up to 64 MiB, their
 * outputs, and 32 MiB. A scan of 2 samples with 2 groups of 4 heads, of 16 x 32 states and 250 positions, 4 chunks of 64: two states and
 * 5 numbers of each position of each head, and C B^T of each group; its logarithms are doubles. A delta rule has a tile and 2 x 16
 * numbers of each position of each head, and a tile and 2 x 32 of each group besides. */
static void scratch_of_windows_and_scans(void **state)
{
    (void)state;
    static const int64_t IMAGES[OP_MAX_DIMS] = {32, 64, 64, 56, 56};
    static const int64_t TOKENS[OP_MAX_DIMS] = {2, 2, 250, 64};
    struct operand image = {.axes = 4, .size = {1, 64, 56, 56}};
    struct op conv = {
        .kind = OP_CONV, .groups = 1, .kernel = {3, 3}, .stride = {1, 1}, .input = &image};
    struct op scan = {.kind = OP_SCAN, .scan_heads = 4, .scan_state = 32};
    assert_int_equal(own_scratch_bytes(&conv, IMAGES, DTYPE_BF16), 25690112 + 73728);
    assert_int_equal(own_columns(&conv, IMAGES, DTYPE_FP32).at_once, 9);
    assert_int_equal(own_scratch_bytes(&conv, IMAGES, DTYPE_FP32), (32 << 20) + 65028096 + 7225344);
    int64_t both = 2 * 4 * (8 * (2 * 512 + 64 * 5) + 2 * 64 * 64) * 4;
    assert_int_equal(own_scan(&scan, TOKENS).at_once, 2);
    assert_int_equal(own_scratch_bytes(&scan, TOKENS, DTYPE_BF16), both);
    scan.kind = OP_DELTA;
    assert_int_equal(own_scratch_bytes(&scan, TOKENS, DTYPE_BF16),
                     both + 2 * 4 * 64 * (8 * (64 + 32) + 2 * (64 + 64)) * 4);
    /* 1000 rows of 64 + 2 * 32 features in 16 bits; numbers of 1000 rows and 4000 heads, of 8 heads once and of 2 samples */
    assert_int_equal(own_scan_kept(&scan, TOKENS, DTYPE_BF16),
                     1000 * 128 * 2 + (1 + 3 * 4000 + 8 + 2 * 8 * 3 + 2 * 1000) * 4);
    scan.kind = OP_SCAN;
    assert_int_equal(own_scan_kept(&scan, TOKENS, DTYPE_BF16),
                     1000 * 128 * 2 + (1 + 2 * 4000 + 8 + 8 + 2 * 8 * 3) * 4);
}

/* Others make a scan's input again from that of the convolution before it; Weft's own scans on a GPU keep it, and their convolutions
 * the slope of each output in fp32. */
static void own_scans_keep_what_they_read(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster;
    int64_t local[OP_MAX_DIMS];
    assert_int_equal(model_open("codestral-mamba-7b", "layers: 1", &model), WEFT_OK);
    assert_int_equal(cluster_open("h200:1", &cluster), WEFT_OK);
    const struct op *scan = model_op_of_kind(model, OP_SCAN);
    struct plan *own = plan_with(model, cluster, "weft-cuda", (struct degrees){.micro_batch = 1});
    struct plan *other = plan_with(model, cluster, "default", (struct degrees){.micro_batch = 1});
    op_full_size(scan, 1, local);
    double more = (double)own_scan_kept(scan, local, own->dtype);
    assert_true(more > 0 && plan_extra_bytes(own, scan, local) == more);
    assert_true(plan_extra_bytes(other, scan, local) == op_extra_bytes(scan, local, other->dtype));
    assert_true(plan_kept_bytes(own, scan, local) - plan_kept_bytes(other, scan, local) ==
                more - op_extra_bytes(scan, local, own->dtype));
    const struct op *conv = model_op_of_kind(model, OP_CONV1D);
    op_full_size(conv, 1, local);
    more = 4.0 * (double)(conv->output.size[1] * conv->output.size[2]);
    assert_true(plan_extra_bytes(own, conv, local) == more);
    assert_true(plan_extra_bytes(other, conv, local) == op_extra_bytes(conv, local, other->dtype));
    plan_free(own);
    plan_free(other);
    cluster_free(cluster);
    model_free(model);
}

/* Products in fp8 of 4 experts, half of 8, with 2 samples of 64 places each, 32 x 16: 512 rows of 48 numbers, or of 32 beside 2048
 * weights, in 16 bits. A router of 2 x 16 rows widens those and its 8 rows of weights. */
static void scratch_of_experts(void **state)
{
    (void)state;
    static const int64_t EXPERTS[OP_MAX_DIMS] = {2, 4, 256, 32, 16};
    static const int64_t ROWS[OP_MAX_DIMS] = {2, 16, 32, 8};
    struct operand places = {.axes = 3, .size = {1, 512, 32}};
    struct op expert = {.kind = OP_EXPERT_LINEAR, .weights = 1, .input = &places};
    struct op router = {.kind = OP_ROUTER, .weights = 1};
    expert.size[1] = 8;
    expert.size[2] = 256;
    assert_int_equal(own_scratch_bytes(&expert, EXPERTS, DTYPE_FP8), (32 << 20) + 512 * 48 * 2);
    assert_int_equal(own_scratch_bytes(&expert, EXPERTS, DTYPE_BF16), 32 << 20);
    assert_int_equal(own_scratch_bytes(&router, ROWS, DTYPE_BF16), (32 << 20) + 40 * 32 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read_back),
        cmocka_unit_test(releases_may_be_left_out),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(plan_files_have_it),
        cmocka_unit_test(document_is_complete),
        cmocka_unit_test(profiles_have_their_facts),
        cmocka_unit_test(megatron_buckets_grow),
        cmocka_unit_test(casts_of_a_product),
        cmocka_unit_test(checkpoints_that_stop_early),
        cmocka_unit_test(kernels_of_experts),
        cmocka_unit_test(copies_of_tokens),
        cmocka_unit_test(passes_of_experts),
        cmocka_unit_test(estimates_follow),
        cmocka_unit_test(heads_are_padded),
        cmocka_unit_test(scratch_of_own_kernels),
        cmocka_unit_test(scratch_of_windows_and_scans),
        cmocka_unit_test(own_scans_keep_what_they_read),
        cmocka_unit_test(scratch_of_experts),
        cmocka_unit_test(outputs_of_experts),
        cmocka_unit_test(weights_as_they_were_cast),
        cmocka_unit_test(weights_are_gathered_as_they_are_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

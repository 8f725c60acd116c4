/* test_layer_profile.c - costs of measured layers by hand (layer_profile.h), and the rates they rest on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/layer_profile.h"

#define MIB_OF(count) ((int64_t)((count) * 1048576.0 + 0.5))

static struct arena *arena;
static struct profile *profile;

static int open_profile(void **state)
{
    (void)state;
    arena = arena_new();
    return profile_open_shipped("RTX-TITAN", &profile);
}

static int close_profile(void **state)
{
    (void)state;
    profile_close(profile);
    arena_free(arena);
    return 0;
}

/* ---- one layer by hand ----------------------------------------------------------------------- */

/* BERT of 1280 features, as titan_rtx_profile_v1.json has it: 2.29166666 ms forward, 76.98 MB of weights,
 * activations of 94.07 and 52.475 MB on 1 and 2 devices, 2.5 MB of input (512 * 1280 * 4 bytes). Rates
 * in ms/MB; all times are multiplied with 1.1. */
#define FORWARD_MS 2.29166666
#define WEIGHT_MB  76.98

static struct layer_source bert(int32_t layers)
{
    struct measured_model model = {.device = "RTX-TITAN",
                                   .profile = "bert-1280",
                                   .runs = 1,
                                   .run = {{0, layers}},
                                   .shard_margin = 0.025};
    struct layer_source source;
    assert_int_equal(layer_profile_source(arena, profile, &model, &source), WEFT_OK);
    return source;
}

static struct layer_cost cost_of_layer(const struct layer_source *source,
                                       struct layer_question question, struct strategy strategy)
{
    struct layer_cost cost;
    assert_int_equal(source->layer(source->context, &question, 0, &strategy, &cost), WEFT_OK);
    return cost;
}

static void assert_ms(int64_t ns, double ms)
{
    if (fabs((double)ns - ms * 1e6) > 100)
        fail_msg("%.6f ms, expected %.6f", (double)ns / 1e6, ms);
}

static void assert_mb(int64_t bytes, double mb)
{
    if (llabs(bytes - MIB_OF(mb)) > 256) /* a few roundings per layer */
        fail_msg("%.4f MB, expected %.4f", (double)bytes / 1048576, mb);
}

static const struct strategy DP_8 = {.levels = 1, .level = {{WAY_DP, 8}}};
static const struct strategy SDP_8 = {.levels = 1, .level = {{WAY_SDP, 8}}, .shard = 3};
static const struct strategy TP_2_INSIDE = {.levels = 2, .level = {{WAY_DP, 4}, {WAY_TP, 2}}};
static const struct strategy TP_2_OUTSIDE = {.levels = 2, .level = {{WAY_TP, 2}, {WAY_DP, 4}}};
static const struct strategy DP_4 = {.levels = 1, .level = {{WAY_DP, 4}}};
static const struct layer_question EIGHT = {
    .devices = 8, .stages = 1, .step_samples = 16, .micro_batches = 1};

/* 16 samples on 8 devices: 2 each. */
static void data_parallel_layer(void **state)
{
    (void)state;
    struct layer_source source = bert(4);
    struct layer_cost cost = cost_of_layer(&source, EIGHT, DP_8);
    double backward = 4 * FORWARD_MS, sync = 2 * 7 / 8.0 * WEIGHT_MB * 0.21530878;
    assert_true(sync > backward);
    assert_ms(cost.steady_ns, 6 * FORWARD_MS * 1.1);
    /* slowed by 0.3 while it overlaps, then the rest alone */
    assert_ms(cost.once_ns, (0.3 * backward + sync - backward) * 1.1);
    assert_mb(cost.kept_bytes, 2 * 94.07);
    assert_mb(cost.state_bytes, 4 * WEIGHT_MB);
    assert_int_equal(cost.peak_bytes, 0);
}

/* The same sharded: weights are gathered before each pass. */
static void sharded_layer(void **state)
{
    (void)state;
    struct layer_source source = bert(4);
    struct layer_cost cost = cost_of_layer(&source, EIGHT, SDP_8);
    double backward = 4 * FORWARD_MS, sync = 2 * 7 / 8.0 * WEIGHT_MB * 0.21530878, half = sync / 2;
    assert_true(half > backward);
    assert_ms(cost.steady_ns,
              (2 * FORWARD_MS + half + backward + 0.3 * backward + half - backward) * 1.1);
    assert_ms(cost.once_ns, half * 1.1); /* nothing left to hide it after */
    assert_mb(cost.state_bytes, 4 * WEIGHT_MB * (1 / 8.0 + 0.025));
}

/* 4 samples on pairs of neighbours: four all-reduces of 10 MB. Recomputing adds a forward pass and its
 * two all-reduces, and keeps the input only. */
static void tensor_parallel_layer(void **state)
{
    (void)state;
    struct layer_source source = bert(4);
    struct strategy strategy = TP_2_INSIDE;
    struct layer_cost cost = cost_of_layer(&source, EIGHT, strategy);
    double tensor = 4 * 2 * 1 / 2.0 * 10 * 0.277994792;
    assert_ms(cost.steady_ns, (3 * 4 * FORWARD_MS / 2 + tensor) * 1.1);
    assert_mb(cost.kept_bytes, 4 * 52.475);
    assert_mb(cost.state_bytes, 4 * WEIGHT_MB / 2);
    strategy.recompute = true;
    cost = cost_of_layer(&source, EIGHT, strategy);
    assert_ms(cost.steady_ns, (4 * 4 * FORWARD_MS / 2 + 1.5 * tensor) * 1.1);
    assert_mb(cost.kept_bytes, 4 * 2.5);
    assert_mb(cost.peak_bytes, 4 * 52.475);
}

/* Two stages of 4 devices; what is left of gradients counts half on each. */
static void layer_of_a_stage(void **state)
{
    (void)state;
    struct layer_source source = bert(4);
    struct layer_question question = {
        .devices = 8, .stages = 2, .stage = 0, .step_samples = 8, .micro_batches = 5};
    struct layer_cost cost = cost_of_layer(&source, question, DP_4);
    double backward = 4 * FORWARD_MS, sync = 2 * 3 / 4.0 * WEIGHT_MB * 0.230750868;
    assert_ms(cost.once_ns, (0.3 * backward + (sync - backward) / 2) * 1.1);
    assert_mb(cost.kept_bytes, 2 * 94.07);
    /* GPipe: all 40 samples are held, 10 a device, where the search counts 2 micro-batches of 2 */
    layer_profile_hold(&source, 40);
    cost = cost_of_layer(&source, question, DP_4);
    assert_mb(cost.kept_bytes * 2, 10 * 94.07);
}

static void what_cannot_be(void **state)
{
    (void)state;
    struct layer_source source = bert(4);
    struct layer_question question = EIGHT;
    struct strategy zero_1 = DP_8, sequence = TP_2_INSIDE;
    zero_1.shard = 1;
    sequence.sequence = true;
    assert_int_equal(cost_of_layer(&source, EIGHT, zero_1).steady_ns, LAYERWISE_NEVER);
    assert_int_equal(cost_of_layer(&source, EIGHT, sequence).steady_ns, LAYERWISE_NEVER);
    question.step_samples = 12; /* 1.5 samples a device */
    assert_int_equal(cost_of_layer(&source, question, DP_8).steady_ns, LAYERWISE_NEVER);
    question = EIGHT;
    question.devices = 32; /* no such machine was measured */
    assert_int_equal(cost_of_layer(&source, question, DP_8).steady_ns, LAYERWISE_NEVER);
    struct measured_model nowhere = {
        .device = "RTX-TITAN", .profile = "bert-1280", .runs = 1, .run = {{7, 4}}};
    assert_int_equal(layer_profile_source(arena, profile, &nowhere, &source), WEFT_BAD_INPUT);
    assert_string_equal(
        weft_last_error()->message,
        "4 times layer 7 of bert-1280, which the profile of RTX-TITAN does not have");
    error_clear();
}

/* From 8 devices with 2 samples each to pairs with 4: each gathers half of 10 MB. Pairs that are laid
 * across others do so forward and backward. */
static void reshards_by_hand(void **state)
{
    (void)state;
    struct layer_source source = bert(4);
    int64_t up, down, none, across;
    source.reshard(source.context, &EIGHT, 0, &DP_8, &TP_2_INSIDE, &up);
    source.reshard(source.context, &EIGHT, 0, &TP_2_INSIDE, &DP_8, &down);
    source.reshard(source.context, &EIGHT, 0, &DP_8, &SDP_8, &none);
    source.reshard(source.context, &EIGHT, 0, &TP_2_OUTSIDE, &TP_2_INSIDE, &across);
    assert_ms(up, 1 / 2.0 * 10 * 0.277994792 * 1.1);
    assert_int_equal(up, down);
    assert_int_equal(none, 0);
    assert_ms(across, 2 * 1 / 2.0 * 10 * 0.271614583 * 1.1);
}

/* Context of 1 GiB; ends of 790 MB of states and 300 MB a sample, all on the first stage. */
static void beside_by_hand(void **state)
{
    (void)state;
    struct layer_source source = bert(4);
    struct layer_question question = {
        .devices = 8, .stages = 2, .stage = 0, .step_samples = 8, .micro_batches = 5};
    struct layer_cost cost;
    source.beside(source.context, &EIGHT, &cost);
    assert_mb(cost.state_bytes, 1024 + 790);
    assert_mb(cost.kept_bytes, 2 * 300);
    assert_ms(cost.once_ns, 2 * 7 / 8.0 * 790 / 4 * 0.21530878 * 1.1);
    source.beside(source.context, &question, &cost);
    assert_mb(cost.state_bytes, 1024 + 790);
    question.stage = 1;
    source.beside(source.context, &question, &cost);
    assert_mb(cost.state_bytes, 1024);
    assert_int_equal(cost.kept_bytes, 0);
    assert_int_equal(cost.steady_ns, 0); /* sends were not measured on one node */
    question.devices = 16;               /* but on two: 0.4948 ms/MB, 2.5 MB there and back */
    source.beside(source.context, &question, &cost);
    assert_ms(cost.steady_ns, 2 * 2.5 * 0.49478721618652344 * 1.1);
    assert_mb(cost.state_bytes, 1024 + 662);
    assert_mb(cost.kept_bytes, 260);
}

/* A whole model on one strategy is the sum of its layers. */
static void search_adds_layers_up(void **state)
{
    (void)state;
    struct layer_source source = bert(32);
    struct layer_problem problem = {.source = &source,
                                    .space = space_find("dp"),
                                    .devices = 8,
                                    .limit_bytes = MIB_OF(20 * 1024),
                                    .global_batch = 16,
                                    .micro_batches = 1};
    struct layer_plans plans;
    assert_int_equal(galvatron_search(arena, &problem, &plans), WEFT_OK);
    double backward = 4 * FORWARD_MS, sync = 2 * 7 / 8.0 * WEIGHT_MB * 0.21530878;
    double layer = 2 * FORWARD_MS + 1.3 * backward + sync - backward;
    double ends = 2 * 7 / 8.0 * 790 / 4 * 0.21530878;
    assert_int_equal(plans.len, 1);
    assert_true(fabs((double)plans.data[0].iteration_ns - (32 * layer + ends) * 1.1e6) < 1000);
    assert_mb(plans.data[0].cost[0].memory_bytes,
              32 * (4 * WEIGHT_MB + 2 * 94.07) + 1024 + 790 + 600);
}

/* Of 8 devices all-reducing together, 0.21530878 ms/MB; of each other machine and group one. */
static void rates_are_read(void **state)
{
    (void)state;
    struct collective_rate *rates;
    size_t count, found = 0;
    assert_int_equal(profile_rates(profile, "RTX-TITAN", arena, &rates, &count), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rates[i].machine, "1x8 PCIe 3") == 0 && rates[i].devices == 8) {
            found++;
            assert_int_equal(rates[i].collective, COLLECTIVE_ALL_REDUCE);
            assert_int_equal(rates[i].stages, 1);
            assert_true(rates[i].consecutive);
            assert_true(fabs(rates[i].bus_bytes_per_s * 0.21530878e-3 / 1048576 - 1) < 1e-9);
        }
    assert_int_equal(found, 1);
    assert_int_equal(count, 9 + 16 + 4);
    assert_int_equal(profile_rates(profile, "abacus", arena, &rates, &count), WEFT_OK);
    assert_int_equal(count, 0);
}

static void no_database_is_said(void **state)
{
    (void)state;
    struct profile *none = NULL;
    assert_int_equal(profile_open_shipped("abacus", &none), WEFT_FAILURE);
    assert_null(none);
    assert_string_equal(
        weft_last_error()->message,
        "the database of abacus is not where Weft's data is; WEFT_PROFILES may name "
        "its folder");
    error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_parallel_layer),   cmocka_unit_test(sharded_layer),
        cmocka_unit_test(tensor_parallel_layer), cmocka_unit_test(layer_of_a_stage),
        cmocka_unit_test(what_cannot_be),        cmocka_unit_test(reshards_by_hand),
        cmocka_unit_test(beside_by_hand),        cmocka_unit_test(search_adds_layers_up),
        cmocka_unit_test(rates_are_read),        cmocka_unit_test(no_database_is_said),
    };
    return cmocka_run_group_tests(tests, open_profile, close_profile);
}

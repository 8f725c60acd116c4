/* test_export.c - plans in the words of other frameworks: degrees are found in every plan that has
 * them, and what is written reads back as the same plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "known_sources.h"
#include "random_plan.h"
#include "report/report.h"
#include "same_plan.h"

/* ---- degrees --------------------------------------------------------------------------------- */

static const char *const ALL_SCHEDULES[] = {"1f1b", "interleaved", "gpipe", "aiao", "zb-h1", NULL};
static const struct target ALL = {.framework = "test",
                                  .can = {.tp = true,
                                          .tp_in_pipeline = true,
                                          .plain_experts = true,
                                          .half_experts = true,
                                          .pipeline_shards = 15,
                                          .dtypes = (1U << DTYPE_COUNT) - 1,
                                          .pp = true,
                                          .cp = true,
                                          .cp_heads = true,
                                          .ep = true,
                                          .pieces = true,
                                          .uneven = true,
                                          .block = true,
                                          .sequence = true,
                                          .plain = true,
                                          .selective = true,
                                          .offload = true,
                                          .offload_kept = true,
                                          .folds = true,
                                          .products = true,
                                          .shards = 15,
                                          .schedules = ALL_SCHEDULES}};

static struct plan *draw_legal(struct rng *rng, const struct model *model,
                               const struct cluster *cluster)
{
    struct plan *plan = NULL;
    while (!plan)
        if (draw_degrees(rng, model, cluster, &plan) == WEFT_OK && plan_check(plan) != WEFT_OK) {
            plan_free(plan);
            plan = NULL;
        }
    return plan;
}

/* Recut at random layers, and with the first layers of each part recomputed: what a layout string
 * and --recompute-method block say. */
static void draw_uneven(struct rng *rng, struct plan **plan)
{
    struct degrees d;
    struct recognised r;
    int64_t layers = 0;
    assert_int_equal(degrees_of_plan(arena, *plan, &ALL, false, &r), WEFT_OK);
    d = r.degrees;
    plan_free(r.plan);
    layers_of_instances(arena, *plan, &layers);
    if (d.pp == 1 || layers < (*plan)->parts || model_has_tower((*plan)->model))
        return;
    int64_t *part = ARENA_ARRAY(arena, int64_t, (size_t)(*plan)->parts);
    for (int32_t p = 0; p < (*plan)->parts; p++)
        part[p] = 1;
    for (int64_t left = layers - (*plan)->parts; left > 0; left--)
        part[rng_below(rng, (*plan)->parts)]++;
    struct plan *uneven = NULL;
    int64_t block = chance(rng, 2) ? 1 : 0;
    d.recompute = block ? RECOMPUTE_FULL : d.recompute;
    assert_int_equal(plan_of_degrees((*plan)->model, (*plan)->cluster, &d, part, block, &uneven),
                     WEFT_OK);
    plan_free(*plan);
    *plan = uneven;
}

static void degrees_are_found_in_plans_that_have_them(void **state)
{
    (void)state;
    static const char *const CLUSTERS[] = {"dgx-a100:1x4", "dgx-a100", "dgx-a100:2x6"};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < rounds_of(300); round++) {
        struct model *model = open_small(&SMALL_MODELS[rng_below(&rng, SMALL_MODEL_COUNT)]);
        struct cluster *cluster = open_named(CLUSTERS[rng_below(&rng, COUNT_OF(CLUSTERS))]);
        struct plan *plan = draw_legal(&rng, model, cluster);
        struct recognised r;
        if (chance(&rng, 2))
            draw_uneven(&rng, &plan);
        assert_int_equal(degrees_of_plan(arena, plan, &ALL, false, &r), WEFT_OK);
        if (r.differences.len)
            fail_msg("%s: %s", model->family, r.differences.data[0]);
        plan_free(r.plan);
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
    }
}

/* Whatever the plan: what is written is legal, and is called exact exactly when it is. */
static void nearest_plans_are_legal_and_honest(void **state)
{
    (void)state;
    struct rng rng;
    int exact = 0, near = 0, refused = 0;
    rng_seed(&rng, 11);
    for (int round = 0; round < rounds_of(150); round++) {
        struct model *model = open_small(&SMALL_MODELS[rng_below(&rng, SMALL_MODEL_COUNT)]);
        struct cluster *cluster = open_named("dgx-a100");
        struct plan *plan = random_plan(&rng, model, cluster);
        for (size_t t = 0; t < format_count(); t++) {
            struct export_result result;
            struct texts differences = {0};
            weft_status status = plan_export(arena, plan, format_name(t), true, &result);
            if (status == WEFT_FAILURE)
                fail_msg("%s: %s", format_name(t), weft_last_error()->message);
            if (status) {
                refused++;
                continue;
            }
            assert_non_null(result.text);
            if (plan_check(result.written))
                fail_msg("%s: %s", format_name(t), weft_last_error()->message);
            plan_differences(arena, plan, result.written, &differences);
            if (differences.len)
                assert_true(result.differences.len > 0);
            *(result.differences.len ? &near : &exact) += 1;
            bool settings_only = result.differences.len && !differences.len;
            if (settings_only)
                assert_true(plan->policy != result.written->policy ||
                            plan->dtype != result.written->dtype);
            plan_free(result.written);
        }
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
    }
    print_message("%d exact, %d nearest, %d without words for the model\n", exact, near, refused);
    assert_true(exact > 0 && near > 0);
}

/* Of shards that differ from operator to operator, most have their say. */
static void most_shards_have_their_say(void **state)
{
    (void)state;
    struct model *model = open_small(&SMALL_MODELS[0]);
    struct cluster *cluster = open_named("dgx-a100");
    struct degrees d = {.shard = 1};
    struct recognised r;
    struct plan *plan;
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    struct choice choice = *plan_choice(plan, 0);
    choice.shard = 3;
    assert_int_equal(plan_choose(plan, 0, &choice), WEFT_OK);
    assert_int_equal(degrees_of_plan(arena, plan, &ALL, true, &r), WEFT_OK);
    assert_int_equal(r.degrees.shard, 1);
    plan_free(r.plan);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

/* All but products recomputed: torchtitan's selective checkpoints by operator. */
static void kept_products_are_selective(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster = open_named("dgx-h100");
    struct degrees d = {.shard = 3, .recompute = RECOMPUTE_FULL};
    struct export_result result;
    struct plan *plan;
    assert_int_equal(model_open("llama3-8b", NULL, &model), WEFT_OK);
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    assert_int_equal(keep_products(plan), WEFT_OK);
    target_settle(target_find("torchtitan"), &d, plan);
    assert_int_equal(plan_export(arena, plan, "torchtitan", false, &result), WEFT_OK);
    assert_non_null(strstr(result.text, "[activation_checkpoint]\nmode = \"selective\"\n"
                                        "selective_ac_option = \"op\"\n"));
    plan_free(result.written);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

static weft_status export_to_titan(const char *schedule, int64_t pieces,
                                   struct export_result *result)
{
    struct model *model;
    struct cluster *cluster = open_named("dgx-h100");
    struct degrees d = {.pp = 4, .pieces = pieces, .schedule = schedule, .global_batch = 16};
    struct plan *plan;
    d.segments = strcmp(schedule, "aiao") == 0 ? pieces : 0;
    d.pieces = d.segments ? 0 : pieces;
    d.shard = 1;
    assert_int_equal(model_open("llama3-8b", NULL, &model), WEFT_OK);
    assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
    target_settle(target_find("torchtitan"), &d, plan);
    weft_status status = plan_export(arena, plan, "torchtitan", false, result);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
    return status;
}

/* A schedule that torchtitan does not know by name is written as lists, slot by slot; one that lists do not say whole is refused. */
static void unknown_schedules_are_written_as_lists(void **state)
{
    static const struct {
        const char *name;
        int32_t pieces;
    } ROWS[] = {{"hanayo", 2}, {"zb-h1", 1}, {"zb-v", 2}, {"v-half", 2}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct pipeline pipeline = {4, ROWS[i].pieces, 8};
        struct export_result result;
        if (export_to_titan(ROWS[i].name, ROWS[i].pieces, &result) != WEFT_OK)
            fail_msg("%s: %s", ROWS[i].name, weft_last_error()->message);
        assert_string_equal(result.beside_text, schedule_write(arena, schedule_find(ROWS[i].name),
                                                               &pipeline, SCHEDULE_CSV));
        plan_free(result.written);
    }
    struct export_result refused;
    assert_int_equal(export_to_titan("aiao", 2, &refused), WEFT_BAD_INPUT);
}

/* An order is found for what is written: torchtitan's policy leaves less memory for activations than the plan's own did. */
static void found_orders_are_for_the_target(void **state)
{
    (void)state;
    struct degrees d = {.dp = 2,
                        .pp = 4,
                        .global_batch = 16,
                        .micro_batch = 1,
                        .shard = 1,
                        .has_shard = true,
                        .schedule = "any"};
    struct model *model;
    struct cluster *cluster;
    struct plan *plan, *own;
    struct exported exported;
    assert_int_equal(model_open("llama3-8b", NULL, &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100", &cluster), WEFT_OK);
    assert_int_equal(plan_with_found_order(model, cluster, &d, NULL, &plan), WEFT_OK);
    assert_int_equal(
        exported_make(arena, plan, &(struct export_question){"torchtitan", false, &d}, &exported),
        WEFT_OK);
    d.has_policy = d.has_overlap = true;
    d.policy = exported.result.written->policy;
    d.overlap = exported.result.written->overlap;
    assert_int_equal(plan_with_found_order(model, cluster, &d, NULL, &own), WEFT_OK);
    struct pipeline pipeline = plan_pipeline(own);
    const char *expected = schedule_write(arena, own->listed, &pipeline, SCHEDULE_CSV);
    assert_string_equal(exported.result.beside_text, expected);
    assert_string_not_equal(schedule_write(arena, plan->listed, &pipeline, SCHEDULE_CSV), expected);
    exported_close(&exported);
    plan_free(plan);
    plan_free(own);
    cluster_free(cluster);
    model_free(model);
}

/* ---- Megatron -------------------------------------------------------------------------------- */

/* Every argument of an exported text is one that Megatron knows, with a value of its type. */
static void check_flags(const char *text)
{
    char *copy = arena_copy_text(arena, text), *line, *rest = copy;
    int found = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        line += strspn(line, " ");
        if (strncmp(line, "--", 2) != 0)
            continue;
        char *value = strchr(line, ' ');
        int64_t whole;
        double real;
        if (value)
            *value++ = '\0';
        enum flag_type type = target_flag(target_find("megatron"), line + 2);
        if (type == FLAG_UNKNOWN || (type == FLAG_SWITCH) != (value == NULL) ||
            (type == FLAG_INT && !parse_int(value, &whole)) ||
            (type == FLAG_REAL && !parse_real(value, &real)))
            fail_msg("%s %s", line, value ? value : "");
        found++;
    }
    assert_true(found > 10);
}

struct trip_tally {
    int rows, plain, beside, refused;
};

/* LLaVA 1.5 of Megatron-LM's examples/mimo has an encoder that its pretrain_vlm.py does not build, and T5 has a script of
 * its own. */
static bool is_of_another_script(const char *why)
{
    return strstr(why, "which pretrain_vlm.py of Megatron-Core 0.19 does not build") ||
           strstr(why, "pretrain_t5.py, whose arguments Weft does not write");
}

static void round_trip(struct published *row, struct trip_tally *tally)
{
    enum { SIMULATED = 4 }; /* one in so many */
    struct opened_plan opened, again;
    struct export_result result;
    struct texts notes = {0};
    assert_int_equal(published_plan(arena, row, &opened), WEFT_OK);
    if (!opened.plan)
        return;
    tally->rows++;
    weft_status status = plan_export(arena, opened.plan, "megatron", false, &result);
    if (status) {
        const char *why = weft_last_error()->message;
        if (status != WEFT_BAD_INPUT)
            fail_msg("%s", why);
        if (!strstr(why, ": megatron does not know it") &&
            !strstr(why, "recomputation of all but products: megatron recomputes whole layers") &&
            !strstr(why, "has a residual of several streams") &&
            !strstr(why, "has frozen weights beside its adapters") && !is_of_another_script(why))
            fail_msg("%s: %s", row->name, why);
        tally->refused++;
        plan_close(&opened);
        return;
    }
    check_flags(result.text);
    struct import_input input = {.file = row->name,
                                 .text = result.text,
                                 .len = strlen(result.text),
                                 .cluster = row->cluster};
    if (megatron_import(arena, &input, &again, &notes) != WEFT_OK)
        fail_msg("%s: %s", row->name, weft_last_error()->message);
    same_plan(opened.plan, again.plan);
    bool plain =
        !strstr(result.text, "# weft") || strstr(result.text, "# weft: software=default\n");
    *(plain ? &tally->plain : &tally->beside) += 1;
    if (row->line % SIMULATED == 0)
        same_prediction(opened.plan, again.plan);
    plan_free(result.written);
    plan_close(&again);
    plan_close(&opened);
}

/* How many rows of a dataset a plan can express, and of these: told by arguments alone, with what
 * Megatron has no argument for in a comment, and not at all. Of the datasets whose rows differ little, the first. */
static const struct {
    const char *dataset;
    struct trip_tally tally;
    size_t first; /* 0: all */
} TRIPS[] = {
    {"megatron_sc21_table1", {4, 1, 3, 0}},
    {"megatron_seqsel_table5", {3, 3, 0, 0}},
    {"megatron_core_h100", {5, 2, 3, 0}},
    {"vtrain_multi", {41, 0, 41, 0}},
    {"vtrain_single", {201, 0, 201, 0}},
    {"simumax_b200", {20, 3, 17, 0}},
    {"torchtitan", {15, 0, 12, 3}},
    {"weft_h200", {39, 0, 39, 0}},
    {"weft_h200_ranks", {36, 0, 32, 4}},
    {"llm_foundry_fsdp", {70, 70, 0, 0}},
    {"megatron_bridge", {18, 0, 16, 2}, 18},
    {"megatron_golden", {183, 0, 168, 15}},
    {"mlperf", {6, 0, 0, 6}, 8},
    {"primus_mi3xx", {6, 0, 6, 0}},
    {"fold3d_table2", {14, 3, 7, 4}},
    {"fold3d_table3", {12, 3, 6, 3}},
    {"fold3d_table4", {3, 0, 0, 3}},
    {"proteus_table5", {13, 8, 5, 0}},
};

static void published_plans_come_back_from_megatron(void **state)
{
    (void)state;
    struct trip_tally all = {0};
    const struct dataset *datasets;
    assert_int_equal(sources_datasets(known_sources(), &datasets), COUNT_OF(TRIPS));
    for (size_t d = 0; d < COUNT_OF(TRIPS); d++) {
        struct published_rows rows = {0};
        struct trip_tally tally = {0};
        assert_int_equal(published_read(arena, &datasets[d], &rows), WEFT_OK);
        size_t first = TRIPS[d].first && TRIPS[d].first < rows.len ? TRIPS[d].first : rows.len;
        size_t taken = (size_t)cases_of(first);
        for (size_t i = 0; i < taken; i++)
            round_trip(&rows.data[i], &tally);
        print_message("%-24s %3d rows: %3d by arguments, %3d with a comment, %3d not\n",
                      datasets[d].name, tally.rows, tally.plain, tally.beside, tally.refused);
        assert_string_equal(TRIPS[d].dataset, datasets[d].name);
        if (taken == first)
            assert_memory_equal(&TRIPS[d].tally, &tally, sizeof tally);
        all.rows += tally.rows;
        all.plain += tally.plain;
        all.beside += tally.beside;
    }
    print_message("%d of %d come back as they were, %d of them by arguments alone\n",
                  all.plain + all.beside, all.rows, all.plain);
}

/* Runs of a framework, written for that framework again. */
static const struct {
    const char *dataset, *target;
    int rows; /* all of them exactly, but those in fp8 that FSDP2 does not run */
} HOMES[] = {
    {"torchtitan", "torchtitan", 15},   {"llm_foundry_fsdp", "fsdp", 67},
    {"weft_h200", "fsdp", 39},          {"vtrain_multi", "megatron", 41},
    {"vtrain_single", "megatron", 201}, {"megatron_golden", "slurm", 168},
};

static void published_plans_fit_their_own_frameworks(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(HOMES); k++) {
        struct published_rows rows = {0};
        int planned = 0;
        assert_int_equal(
            published_read(arena, dataset_find(known_sources(), HOMES[k].dataset), &rows), WEFT_OK);
        size_t taken = (size_t)cases_of(rows.len);
        for (size_t i = 0; i < taken; i++) {
            struct opened_plan opened;
            struct export_result result;
            assert_int_equal(published_plan(arena, &rows.data[i], &opened), WEFT_OK);
            if (!opened.plan)
                continue;
            bool narrow = strcmp(HOMES[k].target, "fsdp") == 0 && dtype_is_cast(opened.plan->dtype);
            if (narrow) {
                plan_close(&opened);
                continue;
            }
            if (plan_export(arena, opened.plan, HOMES[k].target, false, &result)) {
                if (!is_of_another_script(weft_last_error()->message))
                    fail_msg("%s: %s", rows.data[i].name, weft_last_error()->message);
                plan_close(&opened);
                continue;
            }
            plan_free(result.written);
            plan_close(&opened);
            planned++;
        }
        if (taken == rows.len)
            assert_int_equal(planned, HOMES[k].rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_products_are_selective),
        cmocka_unit_test(unknown_schedules_are_written_as_lists),
        cmocka_unit_test(found_orders_are_for_the_target),
        cmocka_unit_test(most_shards_have_their_say),
        cmocka_unit_test(degrees_are_found_in_plans_that_have_them),
        cmocka_unit_test(nearest_plans_are_legal_and_honest),
        cmocka_unit_test(published_plans_come_back_from_megatron),
        cmocka_unit_test(published_plans_fit_their_own_frameworks),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

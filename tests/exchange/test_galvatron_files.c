/* test_galvatron_files.c - layerwise strategies in Galvatron's files: what is written comes back as the
 * same plan, and wrong strategies are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "random_plan.h"
#include "same_plan.h"

static int64_t divisor_of(struct rng *rng, int64_t n)
{
    return chance(rng, 3) ? 1 : factor_of(rng, n);
}

static struct galvatron draw_config(struct rng *rng, const struct model *model, int64_t layers,
                                    int64_t devices)
{
    struct galvatron c = {.layers = layers, .chunks = 1 + rng_below(rng, 4)};
    static const int DEFAULTS[] = {0, 2};
    do
        c.pp = divisor_of(rng, devices);
    while (c.pp > layers);
    size_t count = (size_t)layers;
    c.global_batch = devices * c.chunks;
    c.tp = ARENA_ARRAY(arena, int64_t, count);
    c.consecutive = ARENA_ARRAY(arena, bool, count);
    c.sharded = ARENA_ARRAY(arena, bool, count);
    c.checkpointed = ARENA_ARRAY(arena, bool, count);
    c.division = ARENA_ARRAY(arena, int64_t, (size_t)c.pp);
    bool newer = chance(rng, 2) && !target_has_model(target_find("galvatron@3.0"), model);
    bool experts = model_op_of_kind(model, OP_EXPERT_LINEAR) != NULL;
    if (newer || experts) {
        c.cp = ARENA_ARRAY(arena, int64_t, count);
        c.ep = ARENA_ARRAY(arena, int64_t, count);
        c.etp = ARENA_ARRAY(arena, int64_t, count);
    }
    for (int64_t i = 0; i < layers; i++) {
        c.tp[i] = divisor_of(rng, devices / c.pp);
        if (c.cp) {
            c.cp[i] = newer ? divisor_of(rng, devices / c.pp / c.tp[i]) : 1;
            c.ep[i] = newer && experts ? divisor_of(rng, devices / c.pp / c.tp[i]) : 1;
            c.etp[i] = !experts ? 0 : chance(rng, 2) ? 1 : c.tp[i];
        }
        c.consecutive[i] = chance(rng, 2) || c.cp;
        c.sharded[i] = chance(rng, 2);
        c.checkpointed[i] = chance(rng, 2);
        c.division[i < c.pp ? i : rng_below(rng, c.pp)]++;
    }
    c.vocab_tp = divisor_of(rng, devices / c.pp);
    c.vocab_cp = newer ? divisor_of(rng, devices / c.pp / c.vocab_tp) : 1;
    c.vocab_sharded = chance(rng, 2);
    c.default_shard = DEFAULTS[rng_below(rng, COUNT_OF(DEFAULTS))];
    c.schedule = GALVATRON_PIPELINES[chance(rng, 2)].ours;
    c.sequence = chance(rng, 3);
    return c;
}

/* All targets asked at once answer as each does by itself; says whether one with a strategy per layer runs the plan. */
static bool hold_answers(const struct plan *plan)
{
    struct target_answers answers = {0};
    bool run = false;
    assert_int_equal(targets_ask(arena, plan, &answers), WEFT_OK);
    assert_true(answers.len > 4);
    for (size_t i = 0; i < answers.len; i++) {
        const struct target *target = answers.data[i].target;
        struct texts differences = {0};
        bool has = target_has_model(target, plan->model) == WEFT_OK;
        if (has)
            assert_int_equal(target_differences(arena, target, plan, &differences, NULL), WEFT_OK);
        error_clear();
        if ((answers.data[i].breaks == NULL) != (has && differences.len == 0))
            fail_msg("%s: asked with others '%s', alone '%s'", target->framework,
                     answers.data[i].breaks ? answers.data[i].breaks : "",
                     differences.len ? differences.data[0] : "");
        run |= target->layerwise && !answers.data[i].breaks;
    }
    return run;
}

static void layerwise_plans_come_back_from_galvatron(void **state)
{
    (void)state;
    struct rng rng;
    int done = 0, uneven = 0;
    rng_seed(&rng, 3);
    for (int round = 0; round < rounds_of(300); round++) {
        const char *path = arena_printf(arena, "/tmp/weft-test-export-%d.yaml", (int)getpid());
        const struct small_model *small = &SMALL_MODELS[rng_below(&rng, 12)]; /* with layers */
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "family: %s\noptions: %s\n", small->family, small->options);
        fclose(file);
        struct model *model;
        assert_int_equal(model_open(path, NULL, &model), WEFT_OK);
        struct cluster *cluster = open_named("dgx-a100");
        struct plan *empty, *plan = NULL;
        int64_t layers;
        assert_int_equal(plan_new(model, cluster, &empty), WEFT_OK);
        layers_of_instances(arena, empty, &layers);
        plan_free(empty);
        struct galvatron config = draw_config(&rng, model, layers, 8);
        if (galvatron_plan(model, cluster, &config, &plan) == WEFT_OK &&
            plan_check(plan) == WEFT_OK) {
            struct export_result result;
            struct opened_plan again;
            struct texts notes = {0};
            choose_overlap(&rng, plan);
            const char *target = config.cp ? "galvatron@3.0" : "galvatron";
            if (plan_export(arena, plan, target, false, &result))
                fail_msg("%s: %s", small->family, weft_last_error()->message);
            struct import_input input = {.file = "strategy.json",
                                         .text = result.text,
                                         .len = strlen(result.text),
                                         .model = path,
                                         .cluster = "dgx-a100"};
            if (galvatron_import(arena, &input, &again, &notes))
                fail_msg("%s", weft_last_error()->message);
            same_plan(plan, again.plan);
            if (done++ % 16 == 0)
                same_prediction(plan, again.plan);
            for (int64_t i = 1; i < layers; i++)
                if (config.tp[i] != config.tp[0] || (config.cp && config.cp[i] != config.cp[0])) {
                    uneven++;
                    break;
                }
            plan_close(&again);
            plan_free(result.written);
        }
        plan_free(plan);
        cluster_free(cluster);
        model_free(model);
        unlink(path);
    }
    print_message("%d plans, %d of them with different tp\n", done, uneven);
    assert_true(done > rounds_of(300) / 8 && uneven > 0);
}

/* Of a model that Galvatron has: plans whose layers differ run there and nowhere else but with Weft. */
static void targets_answer_together_as_alone(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster = open_named("dgx-a100");
    struct plan *empty, *plan = NULL;
    struct rng rng;
    int64_t layers;
    int run = 0;
    rng_seed(&rng, 8);
    assert_int_equal(model_open("llama3-8b", "layers: 4, seq: 512", &model), WEFT_OK);
    assert_int_equal(plan_new(model, cluster, &empty), WEFT_OK);
    layers_of_instances(arena, empty, &layers);
    for (int round = 0; round < rounds_of(100); round++, plan_free(plan), plan = NULL) {
        struct galvatron config = draw_config(&rng, model, layers, 8);
        if (galvatron_plan(model, cluster, &config, &plan) == WEFT_OK &&
            plan_check(plan) == WEFT_OK)
            run += hold_answers(plan);
    }
    assert_true(run > 0);
    plan_free(empty);
    cluster_free(cluster);
    model_free(model);
}

/* By hand: ep 2 of 3.0 on 8 devices, tp 2 of the rest and experts that are whole: the four replicas of each half of the
 * experts are neighbours. */
static void parts_of_ep_are_outermost(void **state)
{
    (void)state;
    struct model *model = open_small(&SMALL_MODELS[6]);
    struct cluster *cluster = open_named("dgx-a100");
    int64_t twos[] = {2, 2, 2}, ones[] = {1, 1, 1}, division[] = {3};
    bool yes[] = {true, true, true}, no[] = {false, false, false};
    const struct galvatron config = {.pp = 1,
                                     .global_batch = 8,
                                     .chunks = 1,
                                     .layers = 3,
                                     .tp = twos,
                                     .cp = ones,
                                     .ep = twos,
                                     .etp = ones,
                                     .consecutive = yes,
                                     .sharded = no,
                                     .checkpointed = no,
                                     .division = division,
                                     .vocab_tp = 1,
                                     .sequence = true};
    struct plan *plan;
    int found = 0;
    assert_int_equal(galvatron_plan(model, cluster, &config, &plan), WEFT_OK);
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct split *split = &plan_choice(plan, i)->split;
        if (model->op[plan->instance[i].op].kind != OP_EXPERT_LINEAR)
            continue;
        assert_int_equal(split->part[0].dim, DIM_EXPERT);
        assert_int_equal(split->part[0].degree, 2);
        assert_int_equal(split_degree(split, DIM_BATCH), 4);
        found++;
    }
    assert_true(found > 0);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

static const struct {
    const char *text, *message;
} BROKEN_JSON[] = {
    {"{}", "s.json:1: 'pp_deg' is missing, expected a whole number of at least 1"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": \"1,1\"}",
     "s.json:1: 'tp_sizes_enc' has 2 numbers, expected 12"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": \"1,two\"}",
     "s.json:1: 'tp_sizes_enc' holds 'two', expected a whole number from 1 to 2147483647"},
    {"{\"pp_deg\": 3, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": "
     "\"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'pp_deg' is 3, which does not divide the 8 devices of dgx-a100"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 3, \"tp_sizes_enc\": "
     "\"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'chunks' is 3, which does not divide 'global_bsz', 8"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"tp_sizes_enc\": "
     "\"1,1,1,1,1,1,1,1,1,1,1,3\"}",
     "s.json:1: tp 3 does not divide the 8 devices of a stage"},
    {"{\"pp_deg\": 2, \"global_bsz\": 8, \"chunks\": 1, \"pp_division\": \"5,6\", "
     "\"tp_sizes_enc\": \"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'pp_division' adds up to 11 layers, the model has 12"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"default_dp_type\": \"zero1\", "
     "\"tp_sizes_enc\": \"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'default_dp_type' is 'zero1', expected ddp, zero2 or zero3"},
    {"{\"pp_deg\": 1, \"global_bsz\": 8, \"chunks\": 1, \"use_sp\": \"0,0,0,0,0,0,0,0,0,0,0,1\", "
     "\"tp_sizes_enc\": \"1,1,1,1,1,1,1,1,1,1,1,1\"}",
     "s.json:1: 'use_sp' is not all 0: Ulysses per layer is not read"},
};

static void wrong_strategies_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(BROKEN_JSON); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        struct import_input input = {.file = "s.json",
                                     .text = BROKEN_JSON[i].text,
                                     .len = strlen(BROKEN_JSON[i].text),
                                     .model = "gpt2",
                                     .cluster = "dgx-a100"};
        assert_int_equal(galvatron_import(arena, &input, &opened, &notes), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, BROKEN_JSON[i].message);
    }
}

/* What is not said: tensor groups are neighbours, the last stage takes the rest, nothing is sharded or recomputed. */
static void absent_keys_have_galvatrons_defaults(void **state)
{
    (void)state;
    static const char TEXT[] =
        "{\"pp_deg\": 2, \"global_bsz\": 8, \"chunks\": 2, \"vtp\": 2, \"tp_sizes_enc\": "
        "\"2,2,2,2,2,2,2,2,2,2,2\", \"pipeline_type\": \"gpipe\", \"default_dp_type\": "
        "\"zero2\"%s}";
    static const char *const MORE[] = {"", ", \"embed_sdp\": 1", ", \"embed_sdp\": 0"};
    for (size_t i = 0; i < COUNT_OF(MORE); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        const char *text = arena_printf(arena, TEXT, MORE[i]);
        struct import_input input = {.file = "s.json",
                                     .text = text,
                                     .len = strlen(text),
                                     .model = "gpt2",
                                     .options = "layers: 11",
                                     .cluster = "dgx-a100"};
        if (galvatron_import(arena, &input, &opened, &notes))
            fail_msg("%s", weft_last_error()->message);
        const struct plan *plan = opened.plan;
        static const int64_t LAYERS[] = {5, 6};
        assert_memory_equal(layers_of_parts(arena, plan), LAYERS, sizeof LAYERS);
        for (int64_t k = 0; k < plan->instances; k++) {
            const struct choice *choice = plan_choice(plan, k);
            const struct op *op = &plan->model->op[plan->instance[k].op];
            bool embeds = !op_in_layer(plan->model, op);
            assert_int_equal(choice->shard, embeds && i == 1 ? 3 : 2);
            assert_false(choice->recompute);
            if (op->kind == OP_LINEAR && !embeds)
                assert_true(split_degree(&choice->split, DIM_BATCH) == 2 &&
                            choice->split.part[0].dim == DIM_BATCH);
        }
        assert_string_equal(plan->schedule, "gpipe");
        assert_int_equal(plan->step_samples, 4);
        plan_close(&opened);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layerwise_plans_come_back_from_galvatron),
        cmocka_unit_test(targets_answer_together_as_alone),
        cmocka_unit_test(parts_of_ep_are_outermost),
        cmocka_unit_test(wrong_strategies_are_named),
        cmocka_unit_test(absent_keys_have_galvatrons_defaults),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

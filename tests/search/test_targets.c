/* test_targets.c - searches for a framework: what is found runs there, the simplest of the equally good
 * stands first, and every framework gets its row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rounds.h"
#include "search/search.h"

static struct arena *arena;

static const struct question {
    const char *model, *options, *cluster;
    int64_t global_batch;
} QUESTIONS[] = {
    {"gpt3-1.3b", "layers: 8", "dgx-a100:1", 32},
    {"llama3-8b", "layers: 6, seq: 2048", "dgx-h100:1", 32},
    {"llama3-8b", "layers: 10, seq: 4096", "dgx-a100:2", 64},
    {"qwen3-30b-a3b", "layers: 4, seq: 2048", "dgx-h100:1", 32},
};

static struct planned *ask(const struct question *q, const char *target, const char *planner,
                           double simplest, struct opened_plan *opened,
                           struct plan_request *request)
{
    struct planned *planned = NULL;
    assert_int_equal(model_open(q->model, q->options, &opened->model), WEFT_OK);
    assert_int_equal(cluster_open(q->cluster, &opened->cluster), WEFT_OK);
    *request = (struct plan_request){
        .model = opened->model,
        .cluster = opened->cluster,
        .pins.global_batch = q->global_batch,
        .target = target ? target_find(target) : NULL,
        .options = {.given = 1U << TAKES_QUICK, .quick = true, .simplest = simplest}};
    const struct planner *who = planner_find(planner);
    request->options.given &= who->takes;
    if (plan_search(who, request, &planned) != WEFT_OK)
        error_clear();
    return planned;
}

/* Every trial of every answer is exactly what the target's numbers make. */
static void answers_run_where_they_are_for(void **state)
{
    (void)state;
    static const char *const TARGETS[] = {"megatron",  "megatron@0.16", "torchtitan",
                                          "deepspeed", "fsdp",          "galvatron"};
    static const char *const PLANNERS[] = {"auto", "galvatron", "megatron"};
    int answers = 0;
    size_t every = COUNT_OF(TARGETS) / (size_t)cases_of(COUNT_OF(TARGETS));
    for (size_t q = 0; q < COUNT_OF(QUESTIONS); q++)
        for (size_t t = q % every; t < COUNT_OF(TARGETS); t += every) {
            const char *planner = PLANNERS[(q + t) % COUNT_OF(PLANNERS)];
            struct opened_plan opened = {0};
            struct plan_request request;
            struct planned *planned = ask(&QUESTIONS[q], TARGETS[t], planner, 0, &opened, &request);
            for (size_t i = 0; planned && i < planned->trials.len; i++) {
                struct texts differences = {0};
                struct plan *plan;
                assert_int_equal(trial_take(&request, &planned->trials.data[i], &plan), WEFT_OK);
                assert_int_equal(
                    target_differences(arena, request.target, plan, &differences, NULL), WEFT_OK);
                const char *words = planned->trials.data[i].text;
                if (differences.len || words[strlen(words) - 1] == ' ')
                    fail_msg("%s for %s: '%s': %s", QUESTIONS[q].model, TARGETS[t], words,
                             differences.len ? differences.data[0] : "no words");
                plan_free(plan);
            }
            answers += planned != NULL;
            planned_free(planned);
            plan_close(&opened);
        }
    print_message("%d of %zu questions have an answer\n", answers,
                  COUNT_OF(QUESTIONS) * COUNT_OF(TARGETS));
    assert_true(answers >= (every == 1 ? 16 : 1));
}

/* Within the tolerance no trial is faster by more, and without it the fastest stands first. */
static void the_simplest_is_within_its_tolerance(void **state)
{
    (void)state;
    for (int q = 0; q < cases_of(COUNT_OF(QUESTIONS)); q++) {
        static const double TOLERANCES[] = {0, 0.01, 0.2};
        for (size_t k = 0; k < COUNT_OF(TOLERANCES); k++) {
            struct opened_plan opened = {0};
            struct plan_request request;
            struct planned *planned =
                ask(&QUESTIONS[q], NULL, "galvatron", TOLERANCES[k], &opened, &request);
            assert_non_null(planned);
            const struct trial *first = &planned->trials.data[0];
            for (size_t i = 1; i < planned->trials.len && first->fits; i++)
                if (planned->trials.data[i].fits)
                    assert_true((double)first->iteration_ns <=
                                (double)planned->trials.data[i].iteration_ns *
                                    (1 + TOLERANCES[k] + 1e-12));
            planned_free(planned);
            plan_close(&opened);
        }
    }
}

static struct trial drawn_trial(int64_t ns, int64_t shard, const char *schedule, struct plan *plan)
{
    return (struct trial){.iteration_ns = ns,
                          .global_batch = 1,
                          .fits = true,
                          .limit_bytes = 100,
                          .needed_bytes = 50,
                          .text = "a plan",
                          .plan = plan,
                          .degrees = {.schedule = schedule, .pieces = 1, .shard = (int)shard}};
}

/* By hand: room before all else, 1f1b before another schedule, and the reason says what was given up. */
static void the_simplest_by_hand(void **state)
{
    (void)state;
    struct planned planned = {.arena = arena};
    const struct trial trials[] = {
        drawn_trial(1000, 0, "zb-h1", NULL), drawn_trial(1004, 0, "1f1b", NULL),
        drawn_trial(1006, 1, "1f1b", NULL), drawn_trial(1020, 2, "1f1b", NULL)};
    for (size_t i = 0; i < COUNT_OF(trials); i++)
        array_push(arena, &planned.trials, trials[i]);
    planned.trials.data[1].needed_bytes = 99; /* without room */
    prefer_simplest(&planned, 0);
    assert_int_equal(planned.trials.data[0].iteration_ns, 1000);
    prefer_simplest(&planned, 0.005); /* zb-h1 with room before 1f1b without */
    assert_int_equal(planned.trials.data[0].iteration_ns, 1000);
    planned.trials.data[1].needed_bytes = 50;
    prefer_simplest(&planned, 0.005);
    assert_int_equal(planned.trials.data[0].iteration_ns, 1004);
    assert_int_equal(planned.reasons.len, 1);
    assert_non_null(strstr(planned.reasons.data[0], "would gain 0.40 %"));
    struct planned again = {.arena = arena};
    for (size_t i = 0; i < COUNT_OF(trials); i++)
        array_push(arena, &again.trials, trials[i]);
    again.trials.data[1].needed_bytes = 99;
    prefer_simplest(&again, 0.01);
    assert_int_equal(again.trials.data[0].iteration_ns, 1006);
    assert_non_null(strstr(again.reasons.data[0], "the simplest within 1 % of the fastest"));
    assert_int_equal(again.trials.data[1].iteration_ns, 1000);
}

/* Gradients of the head's weights wait only where that brings more than the tolerance. */
static void the_simplest_waits_for_nothing(void **state)
{
    (void)state;
    for (int late = 4; late <= 30;
         late += 26) { /* ns of 1000 that waiting brings; 10 are tolerated */
        struct planned planned = {.arena = arena};
        struct trial waits = drawn_trial(1000, 0, "1f1b", NULL);
        waits.degrees.defer_head = 8;
        array_push(arena, &planned.trials, waits);
        array_push(arena, &planned.trials, drawn_trial(1000 + late, 0, "1f1b", NULL));
        prefer_simplest(&planned, 0.01);
        assert_int_equal(planned.trials.data[0].degrees.defer_head, late > 10 ? 8 : 0);
    }
}

/* Weights in parts before whole ones, gradients likewise; the optimizer's state in parts costs nothing. */
static void the_simplest_shards_least(void **state)
{
    (void)state;
    struct planned planned = {.arena = arena};
    for (int shard = 3; shard >= 0; shard--)
        array_push(arena, &planned.trials, drawn_trial(1003 - shard, shard, "1f1b", NULL));
    for (int k = 1; k <= 4; k++) { /* within 0, 1, 2 and 3 ns of 1000 */
        static const int SHARD[] = {3, 3, 2, 1, 1};
        struct planned again = {.arena = arena};
        for (size_t i = 0; i < planned.trials.len; i++)
            array_push(arena, &again.trials, planned.trials.data[i]);
        prefer_simplest(&again, 0.001 * (k - 0.5));
        assert_int_equal(again.trials.data[0].degrees.shard, SHARD[k]);
    }
}

/* Two plans, the second slower: how much memory each needs of 100, by how much the second is slower than 1000 ns, how
 * many samples it has, the tolerance, whether it is preferred, and the margin in what they need. 95 without the margin
 * leaves room, 96 does not. */
static void room_and_tolerance_have_their_limits(void **state)
{
    (void)state;
    static const struct {
        int64_t first, second, ns, batch;
        double tolerance;
        bool preferred;
        int64_t margin;
    } ROWS[] = {
        {96, 95, 1500, 1, 0.5, true},     {95, 95, 1500, 1, 0.5, false},
        {96, 96, 1500, 1, 0.5, false},    {96, 95, 1501, 1, 0.5, false},
        {95, 96, 1100, 1, 0.5, false},    {96, 95, 3000, 2, 0.5, true},
        {96, 95, 3001, 2, 0.5, false},    {99, 98, 1500, 1, 0.5, true, 3},
        {98, 97, 1500, 1, 0.5, false, 3},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct planned planned = {.arena = arena};
        array_push(arena, &planned.trials, drawn_trial(1000, 0, "1f1b", NULL));
        array_push(arena, &planned.trials, drawn_trial(ROWS[i].ns, 1, "1f1b", NULL));
        planned.trials.data[0].needed_bytes = ROWS[i].first;
        planned.trials.data[1].needed_bytes = ROWS[i].second;
        planned.trials.data[0].margin_bytes = planned.trials.data[1].margin_bytes = ROWS[i].margin;
        planned.trials.data[1].global_batch = ROWS[i].batch;
        prefer_simplest(&planned, ROWS[i].tolerance);
        assert_int_equal(planned.trials.data[0].degrees.shard, ROWS[i].preferred);
        assert_int_equal(planned.reasons.len, ROWS[i].preferred);
        if (ROWS[i].preferred)
            assert_non_null(strstr(planned.reasons.data[0],
                                   "the simplest that leaves 5 % of the memory free, within 50 %"));
    }
}

/* A row has the time that `plan --for` finds with the framework's own software. */
static void assert_same_as_asked_for(const struct plan_request *request,
                                     const struct for_target *row)
{
    struct plan_request own = *request;
    struct planned *planned = NULL;
    if (!row->text || row->runs_it)
        return;
    own.target = row->target;
    own.options = (struct plan_options){.given = 1U << TAKES_QUICK, .quick = true};
    assert_int_equal(plan_search(planner_find("auto"), &own, &planned), WEFT_OK);
    assert_int_equal(planned->trials.data[0].iteration_ns, row->iteration_ns);
    planned_free(planned);
}

static void every_framework_has_its_row(void **state)
{
    (void)state;
    struct opened_plan opened = {0};
    struct plan_request request;
    struct planned *planned = ask(&QUESTIONS[1], NULL, "auto", 0, &opened, &request);
    struct for_targets rows = {0};
    assert_non_null(planned);
    struct trial answer = planned->trials.data[0];
    assert_int_equal(trial_take(&request, &planned->trials.data[0], &opened.plan), WEFT_OK);
    assert_int_equal(search_each_target(&request, opened.plan, &answer, arena, &rows), WEFT_OK);
    assert_int_equal(rows.len, 7);
    for (size_t i = 0; i < rows.len; i++) {
        assert_true(target_is_usual(rows.data[i].target));
        assert_true((rows.data[i].text != NULL) != (rows.data[i].instead != NULL));
        if (rows.data[i].runs_it && !rows.data[i].target->software)
            assert_int_equal(rows.data[i].iteration_ns, answer.iteration_ns);
        assert_same_as_asked_for(&request, &rows.data[i]);
    }
    planned_free(planned);
    plan_close(&opened);
}

/* FSDP keeps gradients in fp32 and has software of its own: what it runs of a plan is not predicted as it stands. */
static void a_row_has_the_settings_of_its_framework(void **state)
{
    (void)state;
    struct opened_plan opened = {0};
    struct for_targets rows = {0};
    struct degrees d = {.dp = 8, .tp = 1, .pp = 1, .cp = 1, .pieces = 1, .shard = 2};
    assert_int_equal(model_open("llama3-8b", "layers: 2, seq: 1024", &opened.model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100", &opened.cluster), WEFT_OK);
    d.global_batch = 32;
    d.micro_batch = 1;
    assert_int_equal(plan_from_degrees(opened.model, opened.cluster, &d, &opened.plan), WEFT_OK);
    struct plan_request request = {
        .model = opened.model, .cluster = opened.cluster, .pins = d, .options.simplest = 1};
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    struct prediction *as_it_is, *settled;
    assert_int_equal(simulate(opened.plan, &options, &as_it_is), WEFT_OK);
    struct trial answer = {.iteration_ns = as_it_is->iteration_ns, .text = "dp 8 zero 2"};
    assert_int_equal(search_each_target(&request, opened.plan, &answer, arena, &rows), WEFT_OK);
    opened.plan->policy = POLICY_FSDP;
    opened.plan->overlap = OVERLAP_GRADIENTS | OVERLAP_PARAMETERS;
    assert_int_equal(software_from_text("fsdp-script", &opened.plan->software), WEFT_OK);
    assert_int_equal(simulate(opened.plan, &options, &settled), WEFT_OK);
    assert_int_not_equal(settled->iteration_ns, as_it_is->iteration_ns);
    int found = 0;
    for (size_t i = 0; i < rows.len; i++)
        if (strcmp(rows.data[i].target->framework, "fsdp") == 0) {
            found++;
            assert_true(rows.data[i].runs_it);
            assert_int_equal(rows.data[i].iteration_ns, settled->iteration_ns);
        }
    assert_int_equal(found, 1);
    prediction_free(as_it_is);
    prediction_free(settled);
    plan_close(&opened);
}

/* Megatron-LM's default is one scale for a tensor; devices that scale 32 values at a time in hardware do that. What is
 * given stays. */
static void new_plans_scale_as_the_device_can(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *software;
        enum dtype dtype;
        int recipe;
    } CASES[] = {
        {"dgx-h100", NULL, DTYPE_FP8, RECIPE_DELAYED},
        {"hgx-b200", NULL, DTYPE_FP8, RECIPE_BLOCKS},
        {"hgx-b200", NULL, DTYPE_BF16, RECIPE_DELAYED},
        {"hgx-b200", "megatron-core-0.19", DTYPE_FP8, RECIPE_DELAYED},
    };
    struct model *model;
    assert_int_equal(model_open("llama3-8b", "layers: 2", &model), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees pins = {.has_dtype = true, .dtype = CASES[i].dtype};
        struct cluster *cluster;
        assert_int_equal(cluster_open(CASES[i].cluster, &cluster), WEFT_OK);
        if (CASES[i].software)
            assert_int_equal(software_from_text(CASES[i].software, &pins.software), WEFT_OK);
        assert_int_equal(target_settle_pins(target_find("megatron"), model, cluster, &pins),
                         WEFT_OK);
        assert_int_equal(software_word(&pins.software, FACT_FP8_RECIPE), CASES[i].recipe);
        cluster_free(cluster);
    }
    model_free(model);
}

/* FSDP2 splits samples alone: where they do not go round, that is the reason; Megatron splits other things. */
static void samples_that_do_not_go_round_are_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int64_t samples;
        const char *words; /* of the error; NULL: there is an answer */
    } CASES[] = {{"fsdp", 12, "each of 8 devices, and 12 samples cannot be shared out equally"},
                 {"fsdp", 4, "and 4 samples cannot be shared out equally"},
                 {"fsdp", 16, NULL},
                 {"megatron", 12, NULL}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const struct question q = {"llama3-8b", "layers: 2, seq: 512", "dgx-h100:1",
                                   CASES[i].samples};
        struct opened_plan opened = {0};
        struct plan_request request;
        struct planned *planned = ask(&q, CASES[i].target, "auto", 0, &opened, &request);
        if (CASES[i].words) {
            assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_NO_ANSWER);
            assert_non_null(strstr(weft_last_error()->message, CASES[i].words));
            assert_non_null(strstr(weft_last_error()->hint, "a global batch of 8 or a multiple"));
            error_clear();
        }
        assert_int_equal(planned != NULL, !CASES[i].words);
        planned_free(planned);
        plan_close(&opened);
    }
}

/* Tokens of a mixture are hidden by another overlap where that is shorter, unless the overlap is pinned. */
static void a_pinned_overlap_stays(void **state)
{
    (void)state;
    const struct question q = {"deepseek-v2-lite", "layers: 4, seq: 2048", "dgx-h100:1", 32};
    struct opened_plan opened = {0};
    struct plan_request request;
    planned_free(ask(&q, NULL, "auto", 0, &opened, &request));
    request.pins.ep = 8;
    request.pins.overlap = OVERLAP_ALL;
    for (int pinned = 0; pinned < 2; pinned++) {
        struct planned *planned;
        int others = 0;
        request.pins.has_overlap = pinned;
        assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_OK);
        for (size_t i = 0; i < planned->trials.len; i++) {
            struct plan *plan;
            assert_int_equal(trial_take(&request, &planned->trials.data[i], &plan), WEFT_OK);
            others += plan->overlap != OVERLAP_ALL;
            plan_free(plan);
        }
        assert_int_equal(others > 0, !pinned);
        planned_free(planned);
    }
    plan_close(&opened);
}

/* What another framework's best would take in Weft's runtime; 0: it would not fit. */
static int64_t taken_over(const struct plan_request *request, struct trial *trial)
{
    struct prediction *prediction = NULL;
    struct plan *plan;
    assert_int_equal(trial_take(request, trial, &plan), WEFT_OK);
    plan->software = (struct software){0};
    plan->policy = POLICY_MIXED_FP32_GRADIENTS;
    plan->overlap = OVERLAP_ALL;
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &prediction), WEFT_OK);
    int64_t ns = prediction->fits ? prediction->iteration_ns : 0;
    prediction_free(prediction);
    plan_free(plan);
    return ns;
}

/* Weft runs whatever torchtitan runs, so its best is no slower than torchtitan's, under Weft's settings. Here that
 * recomputes all but products, of degrees that are not the fastest with whole layers recomputed. */
static void who_runs_more_is_no_slower(void **state)
{
    (void)state;
    static const struct question LONG = {"llama3.1-8b", "seq: 131072", "dgx-h100:1", 8};
    struct opened_plan opened[2] = {{0}};
    struct plan_request request[2];
    struct planned *other = ask(&LONG, "torchtitan", "auto", 0, &opened[0], &request[0]);
    struct planned *own = ask(&LONG, "weft", "auto", 0, &opened[1], &request[1]);
    assert_non_null(other);
    assert_non_null(own);
    int64_t ns = taken_over(&request[0], &other->trials.data[0]);
    assert_true(ns > 0);
    assert_true((double)own->trials.data[0].iteration_ns <= 1.01 * (double)ns);
    for (int i = 0; i < 2; i++)
        plan_close(&opened[i]);
    planned_free(other);
    planned_free(own);
}

static void targets_are_found_by_name_and_release(void **state)
{
    (void)state;
    assert_string_equal(target_find("megatron")->release, "0.19");
    assert_string_equal(target_find("megatron@0.16")->release, "0.16");
    assert_null(target_find("megatron@0.2"));
    assert_non_null(strstr(weft_last_error()->message, "expected megatron@0.19, megatron@0.16"));
    assert_null(target_find("megaton"));
    error_clear();
}

/* An argument of 0.19 alone, one of both, and those of a command line that may be any release's. */
static void flags_are_those_of_a_release(void **state)
{
    (void)state;
    const struct target *newer = target_find("megatron"), *older = target_find("megatron@0.16");
    assert_int_equal(target_flag(newer, "eval-micro-batch-size"), FLAG_INT);
    assert_int_equal(target_flag(older, "eval-micro-batch-size"), FLAG_UNKNOWN);
    assert_int_equal(target_flag(older, "recompute-modules"), FLAG_WORDS);
    assert_int_equal(target_flag(older, "sequence-parallel"), FLAG_SWITCH);
    assert_int_equal(target_flag(target_find("fsdp"), "sequence-parallel"), FLAG_UNKNOWN);
    assert_int_equal(any_flag("eval-micro-batch-size"), FLAG_INT);
    assert_int_equal(any_flag("retriever-seq-length"), FLAG_INT); /* of neither release */
    assert_int_equal(any_flag("nnodes"), FLAG_UNKNOWN);
    assert_true(launcher_flag("nnodes"));
    assert_string_equal(any_flag_near("sequence-paralel"), "sequence-parallel");
}

/* By hand: each framework's own list, and nothing where a plan was settled for it. */
static void decisions_are_the_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target, *says; /* NULL: nothing */
        enum dtype dtype;
        unsigned overlap;
        int64_t cp;         /* in place of dp and tp; 0: 4 and 2 */
        const char *model;  /* NULL: llama3-8b */
        enum policy policy; /* 0: that of FSDP */
    } CASES[] = {
        {"megatron", "Megatron-LM overlaps tensor exchanges", DTYPE_BF16, 0},
        {"megatron", NULL, DTYPE_BF16, OVERLAP_TENSOR | OVERLAP_GRADIENTS},
        {"torchtitan", "async TP overlaps as", DTYPE_BF16, OVERLAP_TENSOR},
        {"torchtitan", NULL, DTYPE_BF16, OVERLAP_TENSOR | OVERLAP_PRODUCTS},
        {"galvatron", "does not overlap products", DTYPE_BF16, OVERLAP_PRODUCTS},
        {"fsdp", "fp16 needs a scaled loss", DTYPE_FP16, 0},
        {"deepspeed", NULL, DTYPE_BF16, 0},
        {"megatron", "synchronises gradients at once", DTYPE_BF16, 0, 8},
        {"megatron", NULL, DTYPE_BF16, OVERLAP_GRADIENTS, 8},
        {"torchtitan", "no async TP for gpt-oss", DTYPE_BF16, OVERLAP_EVERY, 0, "gpt-oss-20b"},
        {"torchtitan", NULL, DTYPE_BF16, OVERLAP_PIPELINE, 0, "gpt-oss-20b"},
        {"torchtitan@main", NULL, DTYPE_BF16, OVERLAP_EVERY, 0, "gpt-oss-20b"},
        {"weft", "beside their fp32 masters", DTYPE_BF16, 0},
        {"weft", "the runtime keeps gradients in fp32", DTYPE_BF16, 0, .policy = POLICY_MIXED},
        {"weft", NULL, DTYPE_BF16, 0, .policy = POLICY_MIXED_FP32_GRADIENTS},
        {"weft", NULL, DTYPE_BF16, 0, .policy = POLICY_DISTRIBUTED},
    };
    struct cluster *cluster;
    assert_int_equal(cluster_open("dgx-h100", &cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        int64_t cp = CASES[i].cp;
        const char *name = CASES[i].model ? CASES[i].model : "llama3-8b";
        struct model *model;
        assert_int_equal(model_open(name, "layers: 2", &model), WEFT_OK);
        struct degrees d = {
            .dp = cp ? 1 : 4, .tp = cp ? 1 : 2, .cp = cp ? cp : 1, .pp = 1, .pieces = 1};
        struct texts said = {0};
        struct plan *plan;
        assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
        plan->dtype = CASES[i].dtype;
        plan->policy = CASES[i].policy ? CASES[i].policy : POLICY_FSDP;
        plan->overlap = CASES[i].overlap;
        plan->bucket_bytes = cp ? 1 << 20 : plan->bucket_bytes;
        target_decisions(arena, target_find(CASES[i].target), plan, &d, &said);
        assert_int_equal(said.len > 0, CASES[i].says != NULL);
        assert_true(!CASES[i].says || strstr(said.data[0], CASES[i].says));
        plan_free(plan);
        model_free(model);
    }
    cluster_free(cluster);
}

/* By the frameworks' sources: which kinds of cp, and whether stages, they have where a layer is no plain attention. */
static void kinds_of_attention_have_their_degrees(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options, *target;
        int64_t tp, cp;
        enum cp_kind kind;
        bool runs;
        int64_t pp; /* 0 is 1 */
    } CASES[] = {
        {"qwen3-next-80b-a3b", "", "megatron", 2, 8, CP_RING, true},
        {"qwen3-next-80b-a3b", "", "megatron", 2, 16, CP_RING, false}, /* of 16 heads of keys */
        {"qwen3-next-80b-a3b", "", "megatron@0.16", 2, 1, CP_RING, true},
        {"qwen3-next-80b-a3b", "", "megatron@0.16", 2, 2, CP_RING, false},
        {"qwen3-next-80b-a3b", "", "weft", 2, 16, CP_RING, true},
        {"deepseek-v3.2", "", "megatron", 2, 2, CP_GATHER, true},
        {"deepseek-v3.2", "", "megatron", 2, 2, CP_RING, false},
        {"deepseek-v3.2", "", "megatron", 2, 2, CP_A2A, false},
        {"llama3-8b", "window: 1024", "megatron", 1, 2, CP_A2A, true},
        {"llama3-8b", "window: 1024", "megatron", 1, 2, CP_RING, false},
        {"llama3-8b", "", "megatron", 1, 2, CP_RING, true},
        {"gpt-oss-20b", "", "megatron", 1, 2, CP_A2A, true},
        {"gpt-oss-20b", "", "torchtitan", 1, 1, CP_RING, true},
        {"gpt-oss-20b", "", "torchtitan", 1, 2, CP_RING, false},
        {"qwen3-8b", "", "torchtitan", 1, 2, CP_RING, true},
        {"gpt-oss-20b", "", "torchtitan", 1, 1, CP_RING, false, .pp = 2},
        {"gpt-oss-20b", "", "torchtitan@main", 1, 1, CP_RING, false, .pp = 2},
        {"qwen3-8b", "", "torchtitan", 1, 1, CP_RING, false, .pp = 2},
        {"qwen3-8b", "", "torchtitan@main", 1, 1, CP_RING, true, .pp = 2},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees d = {.dp = 1, .tp = CASES[i].tp, .cp = CASES[i].cp, .pieces = 1};
        struct model *model;
        d.pp = CASES[i].pp ? CASES[i].pp : 1;
        if (strncmp(CASES[i].target, "torchtitan", 10) == 0)
            d.shard = d.pp > 1 ? 1 : 3; /* it has no others beside cp or stages */
        d.sequence = d.tp > 1;
        cp_kind_set(CASES[i].kind, &d);
        assert_int_equal(model_open(CASES[i].model, CASES[i].options, &model), WEFT_OK);
        if (target_runs_degrees(target_find(CASES[i].target), model, &d) != CASES[i].runs)
            fail_msg("case %zu", i);
        model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_run_where_they_are_for),
        cmocka_unit_test(the_simplest_is_within_its_tolerance),
        cmocka_unit_test(the_simplest_by_hand),
        cmocka_unit_test(the_simplest_waits_for_nothing),
        cmocka_unit_test(the_simplest_shards_least),
        cmocka_unit_test(room_and_tolerance_have_their_limits),
        cmocka_unit_test(every_framework_has_its_row),
        cmocka_unit_test(a_row_has_the_settings_of_its_framework),
        cmocka_unit_test(new_plans_scale_as_the_device_can),
        cmocka_unit_test(samples_that_do_not_go_round_are_the_reason),
        cmocka_unit_test(a_pinned_overlap_stays),
        cmocka_unit_test(who_runs_more_is_no_slower),
        cmocka_unit_test(targets_are_found_by_name_and_release),
        cmocka_unit_test(flags_are_those_of_a_release),
        cmocka_unit_test(decisions_are_the_targets),
        cmocka_unit_test(kinds_of_attention_have_their_degrees),
    };
    arena = arena_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(arena);
    return failed;
}

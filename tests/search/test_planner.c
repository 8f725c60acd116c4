/* test_planner.c - planners against what they promise.
 *
 *   P1  The best of a grid is the best of all its combinations, simulated one by one.
 *   P2  What is pinned stays; a stopped search answers with what it has.
 *   P3  When nothing fits, the nearest miss comes first.
 *   P4  Faster hardware never makes the plan slower, and makes it faster where it waits for that; more
 *       memory brings at most what a search with that memory finds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"
#include "search/planner/planner.h"
#include "search/search.h"

static struct model *model;
static struct cluster *cluster;

static int open_both(void **state)
{
    (void)state;
    return model_open("gpt3-1.3b", "layers: 4, seq: 512", &model) ||
           cluster_open("dgx-a100:1", &cluster);
}

static int close_both(void **state)
{
    (void)state;
    model_free(model);
    cluster_free(cluster);
    return 0;
}

static struct planned *search_with(struct degrees pins, atomic_bool *stop)
{
    struct plan_request request = {.model = model, .cluster = cluster, .pins = pins, .stop = stop};
    struct planned *planned;
    assert_int_equal(plan_search(planner_find("megatron"), &request, &planned), WEFT_OK);
    return planned;
}

/* ---- P1 -------------------------------------------------------------------------------------- */

/* Every combination by brute force, with no pruning: the fastest that fits. */
static int64_t brute_force(int64_t global_batch, int64_t memory_bytes)
{
    int64_t best = INT64_MAX;
    for (int64_t tp = 1; tp <= 8; tp *= 2)
        for (int64_t pp = 1; pp <= 8 / tp; pp *= 2)
            for (int64_t v = 1; v <= (pp > 1 ? 4 : 1); v++)
                for (int64_t b = 1; b <= global_batch; b *= 2)
                    for (int shard = 0; shard <= 1; shard++)
                        for (int r = 0; r < RECOMPUTE_COUNT; r++) {
                            struct degrees d = {.dp = 8 / tp / pp,
                                                .tp = tp,
                                                .pp = pp,
                                                .pieces = v,
                                                .micro_batch = b,
                                                .global_batch = global_batch,
                                                .shard = shard,
                                                .recompute = (enum recompute)r,
                                                .sequence = tp > 1,
                                                .memory.limit_bytes = memory_bytes};
                            struct plan *plan = NULL;
                            struct prediction *p = NULL;
                            struct simulate_options options = {.fold = FOLD_ALWAYS};
                            if ((shard && d.dp == 1) ||
                                plan_from_degrees(model, cluster, &d, &plan) != WEFT_OK ||
                                plan_check(plan) != WEFT_OK) {
                                plan_free(plan);
                                continue;
                            }
                            assert_int_equal(simulate(plan, &options, &p), WEFT_OK);
                            if (p->fits && p->iteration_ns < best)
                                best = p->iteration_ns;
                            prediction_free(p);
                            plan_free(plan);
                        }
    return best;
}

static void test_the_grid_is_exhaustive(void **state)
{
    (void)state;
    static const int64_t LIMITS[] = {(int64_t)60 << 30, (int64_t)6 << 30, (int64_t)3 << 30};
    for (size_t i = 0; i < COUNT_OF(LIMITS); i++) {
        struct degrees pins = {.global_batch = 16, .memory.limit_bytes = LIMITS[i]};
        struct planned *planned = search_with(pins, NULL);
        int64_t best = brute_force(16, LIMITS[i]);
        const struct trial *first = planned->trials.data;
        if (best == INT64_MAX)
            assert_false(first->fits);
        else
            assert_int_equal(first->iteration_ns, best);
        planned_free(planned);
    }
}

/* ---- P2, P3 ---------------------------------------------------------------------------------- */

static void test_pins_stay(void **state)
{
    (void)state;
    struct degrees pins = {.tp = 2,
                           .pp = 2,
                           .micro_batch = 2,
                           .global_batch = 16,
                           .recompute = RECOMPUTE_FULL,
                           .has_recompute = true,
                           .shard = 1,
                           .has_shard = true};
    struct planned *planned = search_with(pins, NULL);
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct degrees *d = &planned->trials.data[i].degrees;
        assert_true(d->tp == 2 && d->pp == 2 && d->dp == 2 && d->micro_batch == 2);
        assert_true(d->recompute == RECOMPUTE_FULL && d->shard == 1);
    }
    assert_true(planned->trials.len >= 2); /* pieces are free */
    assert_null(next_best(planned, DIMENSION_TP));
    assert_non_null(next_best(planned, DIMENSION_PIECES));
    planned_free(planned);
}

static void stop_soon(void *context, const struct progress *progress)
{
    if (progress->trials >= 3)
        atomic_store((atomic_bool *)context, true);
}

static void test_stopped_searches_answer(void **state)
{
    (void)state;
    atomic_bool stop = false;
    struct plan_request request = {.model = model,
                                   .cluster = cluster,
                                   .pins = {.global_batch = 16},
                                   .stop = &stop,
                                   .progress = stop_soon,
                                   .context = &stop};
    struct planned *planned;
    assert_int_equal(plan_search(planner_find("megatron"), &request, &planned), WEFT_OK);
    assert_true(planned->stopped);
    assert_int_equal(planned->trials.len, 3);
    planned_free(planned);
}

/* A search that is stopped before its first trial says so: it does not say that there is no plan. */
static void test_stopped_before_any_plan(void **state)
{
    (void)state;
    static const char *const PLANNERS[] = {"auto", "megatron", "galvatron"};
    atomic_bool stop = true;
    struct plan_request request = {
        .model = model, .cluster = cluster, .pins = {.global_batch = 16}, .stop = &stop};
    struct planned *planned;
    for (size_t i = 0; i < COUNT_OF(PLANNERS); i++) {
        assert_int_equal(plan_search(planner_find(PLANNERS[i]), &request, &planned),
                         WEFT_NO_ANSWER);
        assert_string_equal(weft_last_error()->message, "stopped before any plan was found");
    }
}

/* The bound of its work is a count of plans; the answer is the best of those, and says so. */
static void test_work_is_bounded(void **state)
{
    (void)state;
    struct plan_request request = {
        .model = model, .cluster = cluster, .pins.global_batch = 16, .most_trials = 5};
    struct planned *planned;
    assert_int_equal(plan_search(planner_find("megatron"), &request, &planned), WEFT_OK);
    assert_int_equal(planned->trials.len, 5);
    assert_false(planned->stopped);
    assert_non_null(strstr(planned->reasons.data[planned->reasons.len - 1], "bound of work"));
    planned_free(planned);
    planned = search_with((struct degrees){.global_batch = 16}, NULL);
    assert_true(planned->trials.len > 5);
    for (size_t i = 0; i < planned->reasons.len; i++)
        assert_null(strstr(planned->reasons.data[i], "bound of work"));
    planned_free(planned);
}

static void test_the_nearest_miss_comes_first(void **state)
{
    (void)state;
    struct degrees pins = {.global_batch = 16, .memory.limit_bytes = 1 << 20};
    struct planned *planned = search_with(pins, NULL);
    const struct trial *trial = planned->trials.data;
    for (size_t i = 1; i < planned->trials.len; i++) {
        assert_false(trial[i].fits);
        assert_true(trial[i - 1].needed_bytes <= trial[i].needed_bytes);
    }
    planned_free(planned);
}

static void test_no_plan_at_all(void **state)
{
    (void)state;
    struct plan_request request = {
        .model = model, .cluster = cluster, .pins = {.global_batch = 16, .tp = 3}};
    struct planned *planned;
    assert_int_equal(plan_search(planner_find("megatron"), &request, &planned), WEFT_NO_ANSWER);
    assert_null(planner_find("magellan"));
}

/* Pins that nothing can meet are an answer of every planner, too. */
static void test_impossible_pins(void **state)
{
    (void)state;
    const struct degrees PINS[] = {{.global_batch = 16, .pp = 2 * cluster_devices(cluster)},
                                   {.global_batch = 16, .tp = 3},
                                   {.global_batch = 16, .dp = 3},
                                   {.global_batch = 16, .tp = 1, .pp = 1, .micro_batch = 5}};
    const struct planner *all;
    size_t count = planners(&all);
    for (size_t i = 0; i < COUNT_OF(PINS); i++)
        for (size_t k = 0; k < count; k++) {
            struct plan_request request = {.model = model, .cluster = cluster, .pins = PINS[i]};
            struct planned *planned = NULL;
            weft_status status = plan_search(&all[k], &request, &planned);
            if (status != WEFT_NO_ANSWER && status != WEFT_BAD_INPUT)
                fail_msg("pins %zu, %s: status %d", i, all[k].name, (int)status);
            error_clear();
        }
}

/* What is said of pins that leave no plan: the pins, and what would do in place of one of them. */
static void test_pins_are_explained(void **state)
{
    (void)state;
    static const struct {
        struct degrees pins;
        const char *has, *hint;
    } CASES[] = {
        {{.tp = 3}, "--tp 3", "--tp could be 1, 2, 4 or 8"},
        {{.tp = 16}, "--tp 16", "--tp could be 1, 2, 4 or 8"},
        {{.pp = 3, .tp = 2}, "--tp 2 --pp 3", "--pp could be 1, 2 or 4"},
        {{.dp = 5}, "--dp 5", "--dp could be 1, 2, 4 or 8"},
        {{.dp = 4, .tp = 4}, "--dp 4 --tp 4", "--dp could be 1 or 2, or --tp could be 1 or 2"},
        {{.cp = 3}, "--cp 3", "--cp could be 1, 2, 4 or 8"},
        {{.micro_batch = 3, .tp = 8},
         "--tp 8 --microbatch 3",
         "--microbatch could be 1, 2, 4, 8 or 16, or --global-batch could be 18"},
        {{.tp = 3, .pp = 7},
         "--tp 3 --pp 7",
         "--tp can be 1, 2, 4 or 8, and --pp can be 1, 2 or 4"},
        {{.micro_batch = 7, .tp = 8, .global_batch = 720}, /* of 30 divisors the nearest eight */
         "--tp 8 --microbatch 7",
         "--microbatch could be 3, 4, 5, 6, 8, 9, 10 or 12, or --global-batch could be 721"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct plan_request request = {.model = model, .cluster = cluster, .pins = CASES[i].pins};
        struct planned *planned = NULL;
        char message[256];
        request.pins.global_batch = CASES[i].pins.global_batch ? CASES[i].pins.global_batch : 16;
        snprintf(message, sizeof message,
                 "no plan of gpt3-1.3b on the 8 devices of dgx-a100 has %s", CASES[i].has);
        weft_status status = plan_search(planner_find("megatron"), &request, &planned);
        assert_int_equal(status, WEFT_NO_ANSWER);
        assert_string_equal(weft_last_error()->message, message);
        assert_string_equal(weft_last_error()->hint, CASES[i].hint);
        error_clear();
    }
}

/* The same of an encoder's, which are not degrees of the grid. */
static void test_pins_of_an_encoder_are_explained(void **state)
{
    (void)state;
    struct model *seeing;
    struct planned *planned = NULL;
    assert_int_equal(model_open("llava-1.5-7b", NULL, &seeing), WEFT_OK);
    struct plan_request request = {.model = seeing,
                                   .cluster = cluster,
                                   .pins = {.tp = 2, .encoder_dp = 3, .global_batch = 16}};
    assert_int_equal(plan_search(planner_find("auto"), &request, &planned), WEFT_NO_ANSWER);
    assert_non_null(strstr(weft_last_error()->message, " has --tp 2 --encoder-dp 3"));
    assert_string_equal(weft_last_error()->hint, "--encoder-dp could be 1, 2 or 4");
    error_clear();
    model_free(seeing);
}

/* Every value that is named has a plan. */
static void test_what_is_named_would_do(void **state)
{
    (void)state;
    static const int64_t TP[] = {1, 2, 4, 8}, PP[] = {1, 2, 4}, CP[] = {1, 2, 4, 8};
    for (size_t i = 0; i < COUNT_OF(TP); i++)
        planned_free(search_with((struct degrees){.global_batch = 16, .tp = TP[i]}, NULL));
    for (size_t i = 0; i < COUNT_OF(PP); i++)
        planned_free(search_with((struct degrees){.global_batch = 16, .tp = 2, .pp = PP[i]}, NULL));
    for (size_t i = 0; i < COUNT_OF(CP); i++)
        planned_free(search_with((struct degrees){.global_batch = 16, .cp = CP[i]}, NULL));
}

/* What the model does not have, and what nothing is called, is refused before anybody searches. */
static void test_pins_that_mean_nothing(void **state)
{
    (void)state;
    static const struct {
        struct degrees pins;
        const char *message;
    } CASES[] = {
        {{.ep = 2}, "ep 2 spreads experts, and gpt3-1.3b has none"},
        {{.schedule = "zb"},
         "no schedule is called 'zb', expected one of gpipe, 1f1b, interleaved, aiao, zb-h1, "
         "zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev, hanayo"},
    };
    const struct planner *all;
    size_t count = planners(&all);
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        for (size_t k = 0; k < count; k++) {
            struct plan_request request = {
                .model = model, .cluster = cluster, .pins = CASES[i].pins};
            struct planned *planned = NULL;
            request.pins.global_batch = 16;
            assert_int_equal(plan_search(&all[k], &request, &planned), WEFT_BAD_INPUT);
            assert_string_equal(weft_last_error()->message, CASES[i].message);
            error_clear();
        }
}

/* Experts have degrees of their own, which do not make those of the other operators mixed. */
static void test_experts_do_not_mix_degrees(void **state)
{
    (void)state;
    struct degrees degrees = {
        .dp = 8, .tp = 1, .pp = 1, .ep = 4, .micro_batch = 1, .global_batch = 8};
    struct arena *keep = arena_new();
    struct planned *planned = ARENA_NEW(keep, struct planned);
    const struct trial *trial;
    struct model *mixture;
    struct cluster *node;
    struct plan *plan;
    planned->arena = keep;
    assert_int_equal(model_open("mixtral-8x7b", "layers: 2", &mixture), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100:1", &node), WEFT_OK);
    struct plan_request request = {.model = mixture, .cluster = node, .pins.global_batch = 8};
    assert_int_equal(plan_from_degrees(mixture, node, &degrees, &plan), WEFT_OK);
    assert_int_equal(try_plan(&request, NULL, plan, "", planned, &trial), WEFT_OK);
    assert_int_equal(trial->value[DIMENSION_DP], 8);
    assert_int_equal(trial->value[DIMENSION_TP], 1);
    assert_int_equal(trial->value[DIMENSION_MICRO_BATCH], 1);
    planned_free(planned);
    cluster_free(node);
    model_free(mixture);
}

/* Pieces of one stage alone are no pipeline that aceso could make better. */
static void test_pieces_without_stages(void **state)
{
    (void)state;
    struct plan_request request = {
        .model = model,
        .cluster = cluster,
        .pins = {.global_batch = 16, .segments = 2},
        .options = {.given = 1U << TAKES_THREADS, .threads = 1, .most_configs = 2000}};
    struct planned *planned;
    assert_int_equal(plan_search(planner_find("aceso"), &request, &planned), WEFT_OK);
    assert_true(planned->trials.data[0].value[DIMENSION_PP] > 1);
    planned_free(planned);
    request.pins.pp = 1;
    assert_int_equal(plan_search(planner_find("aceso"), &request, &planned), WEFT_NO_ANSWER);
    error_clear();
}

/* plan_search refuses them before; a search that is asked all the same finds nothing. */
static void test_no_number_of_stages(void **state)
{
    (void)state;
    struct plan_request request = {
        .model = model,
        .cluster = cluster,
        .pins = {.global_batch = 16, .pp = 2 * cluster_devices(cluster)}};
    struct planned planned = {.arena = arena_new(), .planner = "aceso"};
    assert_int_equal(planner_find("aceso")->find(&request, &planned), WEFT_OK);
    assert_int_equal(planned.trials.len, 0);
    arena_free(planned.arena);
}

/* ---- the program ----------------------------------------------------------------------------- */

static const struct {
    const char *arguments;
    int code;
} REFUSED[] = {
    {"plan gpt3-350m dgx-a100:1", WEFT_BAD_INPUT},
    {"plan gpt3-350m --global-batch 8", WEFT_BAD_INPUT},
    {"plan gpt3-350m dgx-a100:1 --global-batch 8 --planner x", WEFT_BAD_INPUT},
    {"plan gpt3-175b dgx-a100:1 --global-batch 8 --tp 8", WEFT_NO_ANSWER},
};

/* The gains of all terms add up to what the other plan takes longer, and the largest is said in words. */
static void expect_gains(const json_t *json)
{
    const json_t *gains = json_object_get(json, "gains"), *row;
    double own = json_number_value(json_object_get(json, "iteration_s"));
    size_t at;
    assert_true(json_array_size(gains) > 0);
    json_array_foreach(gains, at, row)
    {
        double other = json_number_value(json_object_get(row, "iteration_s")), sum = 0, most = 0;
        const char *term, *largest = NULL;
        json_t *value;
        json_object_foreach(json_object_get(row, "terms_s"), term, value)
        {
            double gain = json_number_value(value);
            sum += gain;
            largest = fabs(gain) > most ? term : largest;
            most = fmax(most, fabs(gain));
        }
        assert_true(fabs(sum - (other - own)) < 1e-6 * own);
        assert_true(most == 0 ||
                    strstr(json_string_value(json_object_get(row, "words")), largest) != NULL);
    }
}

static void test_the_program_answers(void **state)
{
    (void)state;
    json_t *json = json_of(
        "plan gpt3-350m dgx-a100:1 --global-batch 32 --pp 1 --top 3 --simplest 50 --quick --json");
    static const char *const FIELDS[] = {"iteration_s", "plan",         "planner", "evaluated",
                                         "search_s",    "alternatives", "why",     "memory"};
    for (size_t i = 0; i < COUNT_OF(FIELDS); i++)
        assert_non_null(json_object_get(json, FIELDS[i]));
    assert_true(json_is_true(json_object_get(json, "fits")));
    assert_int_equal(json_array_size(json_object_get(json, "alternatives")),
                     2); /* 3 with the answer */
    bool said = false;
    json_t *reason;
    size_t at;
    json_array_foreach(json_object_get(json, "reasons"), at, reason) said |=
        strstr(json_string_value(reason), "the simplest within 50 % of the fastest") != NULL;
    assert_true(said);
    expect_gains(json);
    json_decref(json);
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        int code;
        free(ask(REFUSED[i].arguments, &code));
        assert_int_equal(code, REFUSED[i].code);
    }
}

/* ---- P4 -------------------------------------------------------------------------------------- */

static const struct what_if *find_change(const struct what_ifs *rows, const char *word)
{
    for (size_t i = 0; i < rows->len; i++)
        if (strstr(rows->data[i].change, word))
            return &rows->data[i];
    return NULL;
}

static void test_what_hardware_would_bring(void **state)
{
    (void)state;
    static const int64_t LIMIT = (int64_t)600 << 20, MORE = (int64_t)16 << 30;
    struct arena *arena = arena_new();
    struct cluster *far;
    struct what_ifs rows = {0};
    struct planned *planned, *roomy;
    struct plan *plan = NULL;
    assert_int_equal(cluster_open("titan-rtx:2", &far), WEFT_OK); /* slow links everywhere */
    struct plan_request request = {
        .model = model, .cluster = far, .pins = {.global_batch = 16, .memory.limit_bytes = LIMIT}};
    assert_int_equal(plan_search(planner_find("megatron"), &request, &planned), WEFT_OK);
    int64_t best = planned->trials.data[0].iteration_ns;
    assert_int_equal(trial_take(&request, &planned->trials.data[0], &plan), WEFT_OK);
    assert_int_equal(what_if(&request, planned, plan, arena, &rows), WEFT_OK);
    for (size_t i = 0; i < rows.len; i++)
        assert_true(rows.data[i].iteration_ns <= best);
    assert_true(find_change(&rows, "network")->iteration_ns < best ||
                find_change(&rows, "within a node")->iteration_ns < best);
    assert_true(find_change(&rows, "to the host")->iteration_ns == best); /* nothing is offloaded */
    request.pins.memory.limit_bytes = LIMIT + MORE;
    assert_int_equal(plan_search(planner_find("megatron"), &request, &roomy), WEFT_OK);
    const struct what_if *larger = find_change(&rows, "more memory");
    assert_non_null(larger);
    assert_true(larger->iteration_ns >= roomy->trials.data[0].iteration_ns);
    planned_free(roomy);
    planned_free(planned);
    plan_free(plan);
    cluster_free(far);
    arena_free(arena);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* 24 layers: 8 stages are all shown, of 12 parts the first 8 are; two of 8 devices are one replica's tensor parallelism,
 * also where it splits positions, and so are not those that split them everywhere, or have experts of their own. */
static void test_mixes_in_words(void **state)
{
    (void)state;
    static const struct {
        struct degrees degrees;
        const char *text, *model;
    } ROWS[] = {
        {{.pp = 8, .global_batch = 8},
         "pp 8 (3+3+3+3+3+3+3+3 layers), tp 1, zero 0, 1 sample per step"},
        {{.pp = 4, .pieces = 3, .tp = 2, .global_batch = 8},
         "pp 4 (2+2+2+2+2+2+2+2+.. layers), tp 2, zero 0, 1 sample per step"},
        {{.tp = 4, .shard = 1, .micro_batch = 2, .global_batch = 8, .recompute = RECOMPUTE_FULL},
         "tp 4, zero 1, 4 samples per step, 24 of 24 layers recomputed"},
        {{.tp = 2, .cp = 2, .sequence = true, .global_batch = 8},
         "tp 2, cp 2, zero 0, 2 samples per step"},
        {{.ep = 8, .global_batch = 8}, "tp 1, ep 1|8, zero 0, 8 samples per step", "qwen3-30b-a3b"},
    };
    struct arena *keep = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const char *name = ROWS[i].model ? ROWS[i].model : "gpt3-350m";
        struct model *all;
        struct plan *plan;
        assert_int_equal(model_open(name, NULL, &all), WEFT_OK);
        assert_int_equal(plan_from_degrees(all, cluster, &ROWS[i].degrees, &plan), WEFT_OK);
        assert_string_equal(mix_text(keep, plan), ROWS[i].text);
        plan_free(plan);
        model_free(all);
    }
    arena_free(keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_grid_is_exhaustive),
        cmocka_unit_test(test_pins_stay),
        cmocka_unit_test(test_stopped_searches_answer),
        cmocka_unit_test(test_stopped_before_any_plan),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_the_nearest_miss_comes_first),
        cmocka_unit_test(test_no_plan_at_all),
        cmocka_unit_test(test_impossible_pins),
        cmocka_unit_test(test_pins_are_explained),
        cmocka_unit_test(test_pins_of_an_encoder_are_explained),
        cmocka_unit_test(test_what_is_named_would_do),
        cmocka_unit_test(test_pins_that_mean_nothing),
        cmocka_unit_test(test_pieces_without_stages),
        cmocka_unit_test(test_experts_do_not_mix_degrees),
        cmocka_unit_test(test_no_number_of_stages),
        cmocka_unit_test(test_the_program_answers),
        cmocka_unit_test(test_what_hardware_would_bring),
        cmocka_unit_test(test_mixes_in_words),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}

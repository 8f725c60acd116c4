/* test_validate.c - what is said of published runs: errors, decisions, ranks and gains by hand, runs that are
 * planned anew, and the program's answers. */
#include "page_width.h"
#include "program.h"
#include "published_rows.h"
#include "lab/lab.h"
#include "lab/validate.h"
#include "rounds.h"

/* ---- errors, gains, ranks -------------------------------------------------------------------- */

/* Errors of +10 %, -30 %, +20 %: mean 20, median 20, worst 30. */
static void errors_by_hand(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_seqsel_table5");
    static const double PREDICTED[] = {1.1, 0.7, 1.2};
    assert_int_equal(rows.len, 3);
    for (size_t i = 0; i < rows.len; i++) {
        rows.data[i].half = HALF_FIT;
        rows.data[i].done = true;
        rows.data[i].predicted.time_s = PREDICTED[i] * rows.data[i].measured.time_s;
    }
    struct errors errors = published_errors(&rows, rows.data[0].dataset, HALF_FIT, MEASURE_TIME);
    assert_int_equal(errors.rows, 3);
    assert_true(errors.mean > 0.1999 && errors.mean < 0.2001);
    assert_true(errors.median > 0.1999 && errors.median < 0.2001);
    assert_true(errors.worst > 0.2999 && errors.worst < 0.3001);
    errors = published_errors(&rows, rows.data[0].dataset, HALF_FIT, MEASURE_MEMORY);
    assert_int_equal(errors.rows, 0);
}

/* Three runs of one question, measured 1, 2 and 2.01 s: the third and the second are too near to have an order. Predicted
 * 3, 2 and 1 s, the chosen one is the third: 101 % slower than the first, and both pairs are the wrong way round. With 1,
 * 2 and 3 s the choice is right, and so are the pairs. */
static void decisions_by_hand(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_seqsel_table5");
    static const double MEASURED[] = {1, 2, 2.01};
    assert_int_equal(rows.len, 3);
    for (int order = 0; order < 2; order++) {
        for (size_t i = 0; i < rows.len; i++) {
            struct published *row = &rows.data[i];
            *row = rows.data[0];
            row->done = true;
            row->measured.time_s = MEASURED[i];
            row->predicted.time_s = order ? (double)i + 1 : 3 - (double)i;
        }
        struct decisions d = published_decisions(&rows, rows.data[0].dataset);
        assert_int_equal(d.choices, 1);
        assert_int_equal(d.right, order);
        assert_int_equal(d.pairs, 2);
        assert_int_equal(d.in_order, 2 * order);
        assert_true(order ? d.regret == 0 : d.regret > 1.0099 && d.regret < 1.0101);
        assert_true(d.worst == d.regret);
    }
    rows.data[1].degrees.global_batch++; /* two questions, one of a single run */
    struct decisions apart = published_decisions(&rows, rows.data[0].dataset);
    assert_int_equal(apart.choices, 1);
    assert_int_equal(apart.pairs, 1);
}

static void ranks_by_hand(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("proteus_table5");
    for (size_t i = 0; i < rows.len; i++) {
        rows.data[i].done = true;
        rows.data[i].predicted.time_s = (double)rows.data[i].rank;
    }
    for (size_t i = 0; i < rows.len; i++)
        assert_int_equal(published_rank(&rows, &rows.data[i]), rows.data[i].rank);
    rows.data[0].predicted.time_s = 100; /* second of six becomes the last */
    assert_int_equal(published_rank(&rows, &rows.data[0]), 6);
}

static void gains_by_hand(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("fold3d_table2");
    struct gains gains = {0};
    published_gains(arena, &rows, rows.data[0].dataset, &gains);
    assert_int_equal(gains.len, 10); /* 14 rows less four of Fold3D's own */
    assert_string_equal(gains.data[0].over->system, "Megatron-PTD");
    assert_true(gains.data[0].measured > 1.486 && gains.data[0].measured < 1.487);
    assert_true(gains.data[0].predicted == 0);
}

/* ---- planned anew ---------------------------------------------------------------------------- */

static struct replanned replan(struct published_rows *rows, const char *name)
{
    struct replanned_list list = {0};
    struct published *row = row_named(rows, name);
    assert_int_equal(published_predict(arena, row), WEFT_OK);
    assert_true(row->done);
    assert_int_equal(published_replan(arena, row, &list), WEFT_OK);
    assert_int_equal(list.len, 1);
    return list.data[0];
}

/* What auto finds is never slower than what was published; where the best plan is the published one
 * it is found again. Micro-batches of 6: no power of two. */
static void auto_is_as_fast_as_what_was_published(void **state)
{
    (void)state;
    static const struct {
        const char *dataset, *name;
    } CASES[] = {
        {"llm_foundry_fsdp", "760m_s8192_g8"},
        {"torchtitan", "8B_32_H200"},
        {"megatron_seqsel_table5", "gpt3-175B_seqsel"},
        {"megatron_core_h100", "7.1B"},
        {"llm_foundry_fsdp", "1b_s512_g8"},
        {"proteus_table5", "HC2 dp 16 x mp 1 x pp 1 (1)"},
    };
    for (int i = 0; i < cases_of(COUNT_OF(CASES)); i++) {
        struct published_rows rows = rows_of(CASES[i].dataset);
        struct replanned r = replan(&rows, CASES[i].name);
        print_message("%s: %+.1f %%, %s\n", r.row->name, 100 * (replanned_gain(&r) - 1), r.changes);
        assert_true(r.fits && !replanned_lost(&r));
        /* the first one ran with less free than a margin, its allocator short of memory now and then */
        assert_true(i == 0 || (r.row->predicted.fits && replanned_gain(&r) > 0.999));
    }
}

/* 1.7B on 32 A100: fewer samples at a time need no recomputation, and sharding makes room. */
static void what_auto_changes_is_named(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_sc21_table1");
    struct replanned r = replan(&rows, "1.7B");
    assert_non_null(strstr(r.changes, "recompute full→none"));
    assert_non_null(strstr(r.changes, "micro-batch 16→"));
    assert_null(strstr(r.changes, "tp ")); /* 1, as it was */
    assert_null(strstr(r.changes, "sp "));
    r.iteration_s = r.row->predicted.time_s * 1.01;
    assert_true(replanned_lost(&r));
    r.iteration_s = r.row->predicted.time_s;
    assert_false(replanned_lost(&r));
    r.fits = false;
    assert_true(replanned_lost(&r));
    ((struct published *)(uintptr_t)r.row)->predicted.fits = false;
    assert_false(replanned_lost(&r)); /* nothing to lose against */
}

/* ---- the program ----------------------------------------------------------------------------- */

static int64_t sum_of(const json_t *list, const char *key)
{
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_integer_value(json_object_get(json_array_get(list, i), key));
    return sum;
}

/* Of each dataset, also beside others: what is neither run nor refused does not exist. */
static void every_row_is_run_or_refused_with_its_dataset(void **state)
{
    (void)state;
    if (rounds_of(100) < 100)
        skip();
    json_t *json = json_of("validate fold3d_table3 megatron_seqsel_table5 proteus_table5 --json");
    const json_t *datasets = json_object_get(json, "datasets");
    assert_int_equal(json_array_size(datasets), 3);
    int64_t refused = 0;
    for (size_t i = 0; i < json_array_size(datasets); i++) {
        const json_t *dataset = json_array_get(datasets, i),
                     *halves = json_object_get(dataset, "halves");
        assert_int_equal(sum_of(halves, "rows") - sum_of(halves, "run"),
                         sum_of(json_object_get(dataset, "refused"), "rows"));
        refused += sum_of(json_object_get(dataset, "refused"), "rows");
    }
    assert_int_equal(refused, 4);
    json_decref(json);
}

static void plans_stand_in_a_table(void **state)
{
    (void)state;
    if (rounds_of(100) < 100)
        skip(); /* the same searches as below */
    char *text = answer_to("validate weft_h200_ranks --half fit --plan");
    assert_non_null(strstr(text, "of 18 runs auto is faster in 18,"));
    lines_within_page(text);
    free(text);
}

static void program_answers(void **state)
{
    (void)state;
    json_t *json = json_of("validate megatron_seqsel_table5 --rows --json");
    const json_t *dataset = json_array_get(json_object_get(json, "datasets"), 0);
    assert_int_equal(json_array_size(json_object_get(dataset, "halves")), 2);
    assert_int_equal(json_array_size(json_object_get(dataset, "results")), 3);
    json_decref(json);
    char *text = answer_to("validate megatron_seqsel_table5 fold3d_table2 --rows");
    assert_non_null(strstr(text, "gpt3-175B_seqsel"));
    assert_non_null(strstr(text, "Megatron-PTD, GPT-3 18B on 128 A100"));
    lines_within_page(text);
    free(text);
    int code;
    free(ask("validate nothing", &code));
    assert_int_equal(code, WEFT_BAD_INPUT);
    free(ask("validate --plan galvatron_table2", &code)); /* no runs */
    assert_int_equal(code, WEFT_BAD_INPUT);
    free(ask("validate --half quarter", &code));
    assert_int_equal(code, WEFT_BAD_INPUT);
}

/* Plans for all runs of a dataset take long under sanitizers. */
static void program_plans_for_runs(void **state)
{
    (void)state;
    if (rounds_of(100) < 100)
        skip();
    json_t *json = json_of("validate weft_h200_ranks --half fit --plan --json");
    const json_t *planned =
        json_object_get(json_array_get(json_object_get(json, "datasets"), 0), "planned");
    assert_int_equal(json_array_size(planned), 18);
    assert_true(json_number_value(json_object_get(json_array_get(planned, 0), "gain")) > 1);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_by_hand),
        cmocka_unit_test(decisions_by_hand),
        cmocka_unit_test(ranks_by_hand),
        cmocka_unit_test(gains_by_hand),
        cmocka_unit_test(auto_is_as_fast_as_what_was_published),
        cmocka_unit_test(what_auto_changes_is_named),
        cmocka_unit_test(every_row_is_run_or_refused_with_its_dataset),
        cmocka_unit_test(plans_stand_in_a_table),
        cmocka_unit_test(program_answers),
        cmocka_unit_test(program_plans_for_runs),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

/* test_peers.c - what other programs predict for the published runs: every prediction is of a run of today's files, errors
 * are means over the rows that both predict, and a file of other rows is an error. */
#include <math.h>
#include <string.h>

#include "known_sources.h"
#include "lab/lab.h"
#include "lab/validate.h"

static struct published_rows rows_of(const char *name)
{
    struct published_rows rows = {0};
    if (published_read(arena, dataset_find(known_sources(), name), &rows))
        fail_msg("%s: %s", name, weft_last_error()->message);
    return rows;
}

#define HEAD "dataset,line,measured_s,peer,predicted_s\n"

static weft_status parse(const char *text, const struct published_rows *rows,
                         struct peer_predictions *out)
{
    return peers_parse(arena, "t.csv", arena_copy_text(arena, text), strlen(text), rows, out);
}

/* How many runs of each dataset a peer predicts: those that it can express. */
static void every_prediction_has_its_run(void **state)
{
    (void)state;
    static const struct {
        const char *dataset, *peer;
        int64_t rows;
    } COUNTS[] = {
        {"megatron_sc21_table1", "Calculon", 4}, {"megatron_seqsel_table5", "Calculon", 3},
        {"megatron_core_h100", "Calculon", 5},   {"vtrain_multi", "Calculon", 41},
        {"vtrain_single", "Calculon", 201},      {"mlperf", "Calculon", 4},
        {"fold3d_table2", "Calculon", 3},        {"fold3d_table3", "Calculon", 6},
        {"simumax_b200", "SimuMax", 20},
    };
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        struct published_rows rows = rows_of(COUNTS[i].dataset);
        struct peer_predictions peers = {0};
        struct peer_errors errors = {0};
        if (peers_read(arena, &rows, &peers))
            fail_msg("%s", weft_last_error()->message);
        for (size_t k = 0; k < rows.len; k++) {
            rows.data[k].done = true;
            rows.data[k].predicted.time_s = rows.data[k].measured.time_s;
        }
        peers_errors(arena, &peers, &errors);
        assert_int_equal(errors.len, 1);
        assert_string_equal(errors.data[0].peer, COUNTS[i].peer);
        assert_int_equal(errors.data[0].rows, COUNTS[i].rows);
        assert_true(errors.data[0].weft == 0 && errors.data[0].theirs > 0.01);
    }
}

/* Three runs, measured 13.75, 49.05 and 71.49 s. Of the peer's errors of +20, -40 and +60 % the last does not count, since
 * Weft has no time for that run: 30 %, beside Weft's 10 and -20 %, which are 15 %. */
static void errors_by_hand(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_seqsel_table5");
    static const double PREDICTED[] = {1.1, 0.8, 1};
    struct peer_predictions peers = {0};
    struct peer_errors errors = {0};
    for (size_t i = 0; i < rows.len; i++) {
        rows.data[i].done = i < 2;
        rows.data[i].predicted.time_s = PREDICTED[i] * rows.data[i].measured.time_s;
    }
    static const char TEXT[] = HEAD "megatron_seqsel_table5,2,13.75,P,16.5\n"
                                    "megatron_seqsel_table5,3,49.05,P,29.43\n"
                                    "megatron_seqsel_table5,4,71.49,P,114.384\n"
                                    "vtrain_multi,2,1,P,1\n" /* was not asked for */;
    assert_int_equal(parse(TEXT, &rows, &peers), WEFT_OK);
    assert_int_equal(peers.len, 3);
    peers_errors(arena, &peers, &errors);
    assert_int_equal(errors.len, 1);
    assert_int_equal(errors.data[0].rows, 2);
    assert_true(fabs(errors.data[0].weft - 0.15) < 1e-12);
    assert_true(fabs(errors.data[0].theirs - 0.3) < 1e-12);
}

/* Two peers, one of two datasets: three means, each of its own rows. */
static void each_peer_of_each_dataset_has_its_mean(void **state)
{
    (void)state;
    struct published_rows rows = rows_of("megatron_seqsel_table5"), more = rows_of("fold3d_table3");
    struct peer_predictions peers = {0};
    struct peer_errors errors = {0};
    for (size_t i = 0; i < more.len; i++)
        array_push(arena, &rows, more.data[i]);
    for (size_t i = 0; i < rows.len; i++) {
        rows.data[i].done = true;
        rows.data[i].predicted.time_s = rows.data[i].measured.time_s;
        struct peer_prediction one = {
            .row = &rows.data[i], .peer = "P", .time_s = 1.1 * rows.data[i].measured.time_s};
        array_push(arena, &peers, one);
        one.peer = "Q", one.time_s = 0.5 * rows.data[i].measured.time_s;
        if (rows.data[i].dataset == rows.data[0].dataset)
            array_push(arena, &peers, one);
    }
    peers_errors(arena, &peers, &errors);
    assert_int_equal(errors.len, 3);
    for (size_t i = 0; i < errors.len; i++) {
        bool first = errors.data[i].dataset == rows.data[0].dataset;
        assert_int_equal(errors.data[i].rows, first ? rows.len - more.len : more.len);
        assert_true(fabs(errors.data[i].theirs - (*errors.data[i].peer == 'P' ? 0.1 : 0.5)) < 1e-9);
    }
}

static void a_file_of_other_rows_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {HEAD "megatron_seqsel_table5,2,13.76,P,16.5\n",
         "t.csv:2: measured_s is '13.76', expected the measured time of that line of the dataset"},
        {HEAD "megatron_seqsel_table5,2,13.75,P,0\n",
         "t.csv:2: predicted_s is '0', expected a number above 0 and up to 1e12"},
        {"dataset,line\n", "t.csv:1: column 'measured_s' is missing"},
    };
    struct published_rows rows = rows_of("megatron_seqsel_table5");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct peer_predictions peers = {0};
        assert_int_equal(parse(CASES[i].text, &rows, &peers), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, CASES[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prediction_has_its_run),
        cmocka_unit_test(errors_by_hand),
        cmocka_unit_test(each_peer_of_each_dataset_has_its_mean),
        cmocka_unit_test(a_file_of_other_rows_is_refused),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

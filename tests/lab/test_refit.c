/* test_refit.c - devices that are fitted anew without the runs that are predicted: what is found on a made-up machine, who
 * counts, what a new device takes, one published source from end to end, and what half of a system's runs say of the other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "known_sources.h"
#include "lab/validate.h"

enum { MODELS = 6, RUNS = 12 };
static const struct dataset DATASETS[] = {{.name = "one"}, {.name = "other"}};
static struct published rows[3 * RUNS];
static struct refit_run made[3 * RUNS];

/* Runs of one device, two of each model: products are `pace` and the host 0.8 times as fast as shipped. */
static void make_device(size_t from, const char *device, double share, double pace,
                        const struct dataset *dataset)
{
    static const char *const NAMES[MODELS] = {"a", "b", "c", "d", "e", "f"};
    for (size_t i = 0; i < RUNS; i++) {
        double busy = (double)(i + 1) / (RUNS + 1);
        rows[from + i] =
            (struct published){.dataset = dataset, .half = HALF_FIT, .model = NAMES[i / 2]};
        made[from + i] = (struct refit_run){.row = &rows[from + i],
                                            .device = device,
                                            .arch = "made-up",
                                            .parameters = 1e9,
                                            .share = share};
        made[from + i].slope[PACE_PRODUCTS] = busy;
        made[from + i].slope[PACE_HOST] = 1 - busy;
        made[from + i].error = -busy * log(pace) - (1 - busy) * log(0.8);
    }
}

static struct refit_runs devices(size_t count)
{
    make_device(0, "X", 0.6, 1.2, &DATASETS[0]);
    make_device(RUNS, "Y", 0.5, 1.1, &DATASETS[1]);
    make_device(2 * RUNS, "Z", 0.4, 1, &DATASETS[1]);
    return (struct refit_runs){made, count * RUNS, COUNT_OF(made)};
}

/* ---- a made-up machine ------------------------------------------------------------------------- */

static void test_known_paces(void **state)
{
    (void)state;
    struct refit_runs runs = devices(2);
    struct refit_list list = {0};
    refit_devices(arena, &runs, &list);
    assert_int_equal(list.len, 2);
    assert_string_equal(list.data[1].device->device, "Y");
    assert_int_equal(list.data[0].runs, RUNS);
    assert_true(fabs(exp(list.data[0].x[PACE_PRODUCTS]) - 1.2) < 0.005);
    assert_true(fabs(exp(list.data[1].x[PACE_PRODUCTS]) - 1.1) < 0.005);
    assert_true(fabs(exp(list.data[0].x[PACE_HOST]) - 0.8) < 0.005);
    assert_true(list.data[0].taken[PACE_HOST] && !list.data[0].taken[PACE_BETWEEN]);
}

/* I1: runs of a model that are off by half tell nothing about it, and neither do those that are held out. */
static void test_left_out(void **state)
{
    (void)state;
    struct refit_runs runs = devices(1);
    double error, truth;
    assert_true(refit_error(&runs, &made[0], WITHOUT_MODEL, &error));
    assert_true(fabs(error) < 0.005);
    made[0].error += log(1.5);
    made[1].error += log(1.5);
    truth = 1 / 1.5 - 1;
    assert_true(refit_error(&runs, &made[0], WITHOUT_MODEL, &error));
    assert_true(fabs(error - truth) < 0.005);
    for (size_t i = 2; i < RUNS; i++)
        if (i % 2) {
            rows[i].half = HALF_HELD_OUT;
            made[i].error += 1;
        }
    assert_true(refit_error(&runs, &made[0], WITHOUT_MODEL, &error));
    assert_true(fabs(error - truth) < 0.005);
    made[2].parameters = 2e9; /* another size of the same name */
    rows[2].model = "a";
    assert_true(refit_error(&runs, &made[2], WITHOUT_MODEL, &error));
    assert_true(fabs(error) > 0.01);
}

/* I2: Y and Z reach 0.55 and 0.4 of their peaks; X, new, takes their geometric mean, where it has 0.72 in truth and 0.6 as
 * shipped. Its host stays as shipped. */
static void test_new_device(void **state)
{
    (void)state;
    struct refit_runs runs = devices(3);
    double error, busy = made[0].slope[PACE_PRODUCTS];
    double expected = busy * log(0.6 * 1.2 / sqrt(0.5 * 1.1 * 0.4)) + (1 - busy) * log(0.8);
    assert_true(refit_error(&runs, &made[0], WITHOUT_MACHINE, &error));
    assert_true(fabs(error - expm1(expected)) < 0.005);
    assert_true(
        refit_error(&runs, &made[0], WITHOUT_SOURCE, &error)); /* all of X's runs are one's */
    assert_true(fabs(error - expm1(expected)) < 0.005);
    runs.len = RUNS;
    assert_false(refit_error(&runs, &made[0], WITHOUT_MACHINE, &error));
}

static void test_sums(void **state)
{
    (void)state;
    struct refit_runs runs = devices(2);
    struct refit_sum all = refit_sum(&runs, NULL), one = refit_sum(&runs, &DATASETS[0]);
    assert_int_equal(all.runs, 2 * RUNS);
    assert_int_equal(one.runs, RUNS);
    assert_int_equal(one.known[WITHOUT_SOURCE], RUNS);
    assert_true(one.error[WITHOUT_MODEL] < 0.1 * one.shipped);
    assert_true(one.error[WITHOUT_MACHINE] > one.shipped);
}

/* ---- a published source ------------------------------------------------------------------------ */

static void test_published(void **state)
{
    (void)state;
    const struct dataset *dataset = dataset_find(known_sources(), "megatron_seqsel_table5");
    struct validation v = {.arena = arena, .half = {true, true}};
    assert_int_equal(published_read(arena, dataset, &v.rows), WEFT_OK);
    for (size_t i = 0; i < v.rows.len; i++)
        assert_int_equal(published_predict(arena, &v.rows.data[i]), WEFT_OK);
    assert_int_equal(refit_sense(&v, &v.refit), WEFT_OK);
    assert_int_equal(v.refit.len, v.rows.len);
    for (size_t i = 0; i < v.refit.len; i++) {
        const struct refit_run *run = &v.refit.data[i];
        double sum = 0, error;
        assert_string_equal(run->device, "A100-SXM4-80GB");
        assert_true(run->share > 0.5 && run->share < 1);
        for (int j = 0; j < PACE_COUNT; j++)
            sum += run->slope[j];
        assert_true(sum > 0.9 && sum < 1.1); /* parts of one time */
        assert_true(run->slope[PACE_PRODUCTS] > 0.5);
        assert_true(published_error(run->row, MEASURE_TIME, &error));
        assert_true(fabs(exp(-run->error) - 1 - error) < 1e-9);
    }
}

/* ---- half of a system's runs -------------------------------------------------------------------- */

enum { SOURCE_RUNS = 3 };

/* Each run of a source twice, once for each half. */
static struct refit_runs both_halves(void)
{
    const struct dataset *dataset = dataset_find(known_sources(), "megatron_seqsel_table5");
    struct validation v = {.arena = arena, .half = {true, true}};
    assert_int_equal(published_read(arena, dataset, &v.rows), WEFT_OK);
    assert_int_equal(v.rows.len, SOURCE_RUNS);
    for (size_t i = 0; i < SOURCE_RUNS; i++) {
        assert_int_equal(published_predict(arena, &v.rows.data[i]), WEFT_OK);
        rows[i] = rows[SOURCE_RUNS + i] = v.rows.data[i];
        rows[i].half = HALF_FIT;
        rows[SOURCE_RUNS + i].half = HALF_HELD_OUT;
    }
    for (size_t i = 0; i < 2 * (size_t)SOURCE_RUNS; i++)
        made[i] = (struct refit_run){.row = &rows[i], .device = "X"};
    return (struct refit_runs){made, 2 * (size_t)SOURCE_RUNS, COUNT_OF(made)};
}

/* A machine whose runs all take a fifth longer than predicted. */
static void test_half_that_helps(void **state)
{
    (void)state;
    struct refit_runs runs = both_halves();
    struct half_fits fits = {0};
    for (size_t i = 0; i < runs.len; i++)
        rows[i].measured.time_s = rows[i].predicted.time_s * 1.2;
    assert_int_equal(half_fits_make(arena, &runs, &fits), WEFT_OK);
    assert_int_equal(fits.len, 1);
    assert_int_equal(fits.data[0].runs[HALF_FIT], SOURCE_RUNS);
    assert_int_equal(fits.data[0].runs[HALF_HELD_OUT], SOURCE_RUNS);
    assert_true(fits.data[0].possible && fits.data[0].fit.helps);
    assert_true(fabs(fits.data[0].before - (1 - 1 / 1.2)) < 1e-6);
    assert_true(fits.data[0].after < 0.2 * fits.data[0].before);
}

/* I1, I2: what the other half measured decides nothing, and without a gain nothing is taken. */
static void test_half_that_does_not(void **state)
{
    (void)state;
    struct refit_runs runs = both_halves();
    struct half_fits fits = {0};
    for (size_t i = 0; i < runs.len; i++)
        rows[i].measured.time_s = rows[i].predicted.time_s * (rows[i].half == HALF_FIT ? 1 : 1.2);
    assert_int_equal(half_fits_make(arena, &runs, &fits), WEFT_OK);
    assert_true(fits.data[0].possible && !fits.data[0].fit.helps);
    assert_true(fits.data[0].after == fits.data[0].before && fits.data[0].before > 0.1);
    fits = (struct half_fits){0};
    made[0].device = "Y"; /* two runs of X are left */
    assert_int_equal(half_fits_make(arena, &runs, &fits), WEFT_OK);
    assert_int_equal(fits.len, 2);
    assert_false(fits.data[0].possible || fits.data[1].possible);
}

/* ---- runs that ran, but are predicted not to fit ------------------------------------------------ */

static void test_full_runs(void **state)
{
    (void)state;
    const struct dataset *dataset = dataset_find(known_sources(), "primus_mi3xx");
    struct validation v = {.arena = arena, .half = {true, true}};
    assert_int_equal(published_read(arena, dataset, &v.rows), WEFT_OK);
    for (size_t i = 0; i < v.rows.len; i++)
        assert_int_equal(published_predict(arena, &v.rows.data[i]), WEFT_OK);
    assert_int_equal(full_runs_make(&v, &v.full), WEFT_OK);
    assert_int_equal(v.full.len, 1);
    const struct full_run *run = &v.full.data[0];
    assert_string_equal(run->row->name, "Mixtral-8x22B MI355X x64 BF16");
    assert_non_null(strstr(run->fits_with, "full recomputation"));
    assert_true(run->row->predicted.reserved_bytes > run->limit_bytes && run->limit_bytes > 0);
    assert_int_equal(run->row->predicted.memory_fit, FITS_NOT); /* I1 */
    assert_int_equal(run->row->degrees.recompute, RECOMPUTE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_paces),        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_new_device),         cmocka_unit_test(test_sums),
        cmocka_unit_test(test_published),          cmocka_unit_test(test_half_that_helps),
        cmocka_unit_test(test_half_that_does_not), cmocka_unit_test(test_full_runs),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

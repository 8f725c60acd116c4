/* test_stale_residuals.c - data/intervals/residuals.csv is of today's cost model: the residuals of a few runs, predicted again, stand
 * in it. Whoever changes predictions writes the file again (`weft validate --residuals data/intervals/residuals.csv`). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/validate.h"
#include "one_arena.h"
#include "runs/runs.h"

/* Runs that are predicted in milliseconds, of every kind of model and of each architecture that has such. */
static const char *const DATASETS[] = {"vtrain_single",    "simumax_b200",    "weft_h200",
                                       "llm_foundry_fsdp", "megatron_bridge", "mlperf"};
enum { RUNS_EACH = 2, MOST_DEVICES = 16 };
#define DIGITS 0.00051 /* the file has four decimals, and two compilers may differ in the last */

static bool stands_in(const struct residuals *file, const struct published *row, double error)
{
    for (size_t i = 0; i < file->len; i++) {
        const struct residual *one = &file->data[i];
        if (strcmp(one->like.arch, row->like.arch) == 0 &&
            strcmp(one->like.type, row->like.type) == 0 &&
            strcmp(one->like.kind, row->like.kind) == 0 && one->like.devices == row->like.devices &&
            fabs(one->error - error) <= DIGITS)
            return true;
    }
    return false;
}

static void check_dataset(const struct sources *sources, const struct residuals *file,
                          const char *name)
{
    struct published_rows rows = {0};
    int checked = 0;
    assert_int_equal(published_read(arena, dataset_find(sources, name), &rows), WEFT_OK);
    for (size_t i = 0; i < rows.len && checked < RUNS_EACH; i++) {
        struct published *row = &rows.data[i];
        const struct degrees *d = &row->degrees;
        bool small =
            d->tp * d->pp * d->dp * d->cp > 0 && d->tp * d->pp * d->dp * d->cp <= MOST_DEVICES;
        if (row->half != HALF_HELD_OUT || row->reason || !small || !(row->measured.time_s > 0))
            continue;
        assert_int_equal(published_predict(arena, row), WEFT_OK);
        if (!row->done)
            continue;
        double error = log(row->measured.time_s / row->predicted.time_s);
        if (!stands_in(file, row, error))
            fail_msg("%s, line %d: %.4f does not stand in data/intervals/residuals.csv, which is "
                     "of an older cost model; "
                     "write it again",
                     name, row->line, error);
        checked++;
    }
    assert_true(checked > 0);
}

static void the_file_is_of_this_cost_model(void **state)
{
    (void)state;
    const struct sources *sources;
    struct residuals file = {0};
    char *text;
    size_t len;
    assert_int_equal(sources_open(arena, &sources), WEFT_OK);
    assert_int_equal(
        file_read(arena, WEFT_SOURCE_DIR "/data/intervals/residuals.csv", 1 << 20, &text, &len),
        WEFT_OK);
    assert_int_equal(residuals_parse(arena, "residuals.csv", text, len, &file), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(DATASETS); i++)
        check_dataset(sources, &file, DATASETS[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_file_is_of_this_cost_model)};
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

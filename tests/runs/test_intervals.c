/* test_intervals.c - how sure predictions say they are, held against the runs that say it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "one_arena.h"
#include "runs/runs.h"

/* Each run with what runs of other groups say: about eight of ten lie in their interval. */
static void eight_of_ten_lie_between(void **state)
{
    (void)state;
    struct residuals all = {0};
    size_t inside = 0, asked = 0;
    double width = 0;
    assert_int_equal(residuals_shipped(arena, &all), WEFT_OK);
    assert_true(all.len > 200);
    for (size_t i = 0; i < all.len; i++) {
        const struct residual *one = &all.data[i];
        struct interval interval;
        if (!interval_among(&all, &one->like, one->group, &interval))
            continue;
        double ratio = exp(one->error);
        asked++;
        inside += ratio >= interval.low * (1 - 1e-9) && ratio <= interval.high * (1 + 1e-9);
        width += log(interval.high / interval.low) / (double)all.len;
    }
    double share = (double)inside / (double)asked;
    print_message("%zu of %zu runs, %.1f %%, are in their interval; its mean width is %.2f\n",
                  inside, asked, share * 100, width);
    assert_int_equal(asked, all.len);
    assert_true(share >= 0.75 && share <= 0.88);
}

/* Twenty runs at r = 0.01, 0.02 ... 0.20, each of its own group: q = 0.06 (1 - 1/20), 1.14 of 20 runs, so the second and
 * the 19th. Runs of another architecture do not count. */
static void quantiles_by_hand(void **state)
{
    (void)state;
    struct residuals all = {0};
    struct run_likeness like = {"hopper", "wide", "dense", 64}, other = like;
    struct interval interval;
    other.arch = "volta";
    for (int i = 1; i <= 20; i++) {
        const char *group = arena_printf(arena, "%d", i);
        struct residual run = {group, group, like, 0.01 * i}, far = {group, group, other, 3};
        array_push(arena, &all, run);
        array_push(arena, &all, far);
    }
    assert_true(interval_among(&all, &like, NULL, &interval));
    assert_int_equal(interval.runs, 20);
    assert_string_equal(interval.alike, "device, type, model and scale");
    assert_true(fabs(log(interval.low) - 0.02) < 1e-9 && fabs(log(interval.high) - 0.19) < 1e-9);
    assert_true(interval_among(&all, &like, "7",
                               &interval)); /* 19 are not enough: scale, then architecture */
    assert_string_equal(interval.alike, "type, model and scale");
    /* the two runs of each question: 3 - 0.01 i, of 20 such the place 0.8 * 19, the sixteenth, 2.80 + 0.15 */
    assert_true(fabs(pair_interval(&all) - (exp(2.95) - 1)) < 1e-9);
}

/* Four of 40 runs at r = -1. By themselves they are four of 40, of which 0.06 (1 - 1 / 40) 40 = 2.34 may lie below. As
 * one group they weigh 4 / sqrt(4) = 2 of 38, of which 0.06 (1 - 37 / 38^2) 38 = 2.22 may: the next run is the end. */
static void a_group_weighs_its_root(void **state)
{
    (void)state;
    struct residuals all = {0};
    struct run_likeness like = {"hopper", "wide", "dense", 64};
    struct interval interval;
    double low[2];
    for (int alike = 0; alike < 2; alike++) {
        all.len = 0;
        for (int i = 1; i <= 40; i++) {
            const char *group = i <= 4 && alike ? "one" : arena_printf(arena, "%d", i);
            struct residual run = {group, group, like, i <= 4 ? -1 : 0.01 * i};
            array_push(arena, &all, run);
        }
        assert_true(interval_among(&all, &like, NULL, &interval));
        low[alike] = log(interval.low);
    }
    assert_true(fabs(low[0] + 1) < 1e-9);
    assert_true(fabs(low[1] - 0.05) < 1e-9);
}

static void broken_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"", "r.csv: is empty, expected a line of column names"},
        {"group,question\n", "r.csv:1: column 'arch' is missing"},
        {"group,question,arch,type,kind,devices,error\na,b,c,d,e,0,1\n",
         "r.csv:2: devices is '0', expected a whole number of at least 1"},
        {"group,question,arch,type,kind,devices,error\na,b,c,d,e,8,nan\n",
         "r.csv:2: error is 'nan', expected a logarithm between -5 and 5"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct residuals all = {0};
        char *copy = arena_copy_text(arena, CASES[i].text);
        assert_int_equal(residuals_parse(arena, "r.csv", copy, strlen(copy), &all), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, CASES[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_of_ten_lie_between),
        cmocka_unit_test(quantiles_by_hand),
        cmocka_unit_test(a_group_weighs_its_root),
        cmocka_unit_test(broken_files),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

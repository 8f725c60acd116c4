/* test_work_times.c - what is kept of work is found again for exactly that work, and for no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cost/work_times.h"

static struct work product(int64_t m)
{
    return (struct work){.kernel = KERNEL_MATMUL,
                         .phase = PHASE_FORWARD,
                         .dtype = DTYPE_BF16,
                         .shape = {1, m, 4096, 1024},
                         .flops = 2.0 * (double)m * 4096 * 1024,
                         .read_bytes = 2.0 * ((double)m * 1024 + 4096 * 1024),
                         .write_bytes = 2.0 * (double)m * 4096};
}

/* Each differs from the first in one thing. */
static void other_work_is_not_it(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct work_times *times = work_times_new(arena);
    const struct work kept = product(512);
    struct work other[7];
    struct kernel_cost cost = {7, FROM_FORMULA, "test"}, found;
    work_times_keep(times, &kept, &cost);
    for (size_t i = 0; i < COUNT_OF(other); i++)
        other[i] = kept;
    other[0].kernel = KERNEL_GROUPED_MATMUL;
    other[1].phase = PHASE_BACKWARD_INPUT;
    other[2].dtype = DTYPE_FP16;
    other[3].shape[1]++;
    other[4].flops++;
    other[5].read_bytes++;
    other[6].write_bytes++;
    for (size_t i = 0; i < COUNT_OF(other); i++)
        assert_false(work_times_find(times, &other[i], &found));
    assert_true(work_times_find(times, &kept, &found));
    assert_int_equal(found.ns, 7);
    assert_int_equal(found.provenance, FROM_FORMULA);
    arena_free(arena);
}

/* More work than there are places: what is found is always its own. */
static void nobody_finds_what_is_of_another(void **state)
{
    (void)state;
    enum { WORKS = 50000 };
    struct arena *arena = arena_new();
    struct work_times *times = work_times_new(arena);
    int32_t known = 0;
    for (int64_t m = 1; m <= WORKS; m++) {
        struct work work = product(m);
        work_times_keep(times, &work, &(struct kernel_cost){m, FROM_FORMULA, "test"});
    }
    for (int64_t m = 1; m <= WORKS; m++) {
        struct work work = product(m);
        struct kernel_cost found;
        if (!work_times_find(times, &work, &found))
            continue;
        assert_int_equal(found.ns, m);
        known++;
    }
    assert_in_range(known, 1000, WORKS - 1); /* some were displaced, most places are taken */
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_work_is_not_it),
        cmocka_unit_test(nobody_finds_what_is_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

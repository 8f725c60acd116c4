/* test_channels.c - what a cluster keeps of its sets of devices: sets for which it has no place have the same times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/placement.h"

static const int64_t GIB = INT64_C(1) << 30;

/* More sets of a rack's devices than a cluster keeps: those for which there is no place are computed each time. */
static void a_full_cache_changes_no_time(void **state)
{
    (void)state;
    enum { DEVICES = 72, SETS = 12000 };
    struct cluster *full, *fresh;
    struct arena *scratch = NULL;
    int computed = 0;
    assert_int_equal(cluster_open("gb200-nvl72:1", &full), WEFT_OK);
    assert_int_equal(cluster_open("gb200-nvl72:1", &fresh), WEFT_OK);
    for (int i = 0; i < SETS; i++) {
        struct device_set set = {{0}};
        const struct channels *channels;
        set_add(&set, i % DEVICES);
        set_add(&set, i / DEVICES % DEVICES);
        set_add(&set, i / DEVICES / DEVICES);
        assert_int_equal(channels_get(full, &set, &scratch, &channels), WEFT_OK);
        assert_memory_equal(&channels->set, &set, sizeof set);
        computed += scratch != NULL;
        arena_free(scratch);
        scratch = NULL;
    }
    assert_true(computed > 0);
    for (int64_t count = 4; count <= DEVICES; count++)
        for (int64_t first = 0; first + count <= DEVICES; first += 5) {
            struct group group = group_range(first, count, 1);
            struct collective_cost a, b;
            assert_int_equal(collective_time(full, COLLECTIVE_ALL_REDUCE, &group, GIB, &a),
                             WEFT_OK);
            assert_int_equal(collective_time(fresh, COLLECTIVE_ALL_REDUCE, &group, GIB, &b),
                             WEFT_OK);
            assert_int_equal(a.ns, b.ns);
        }
    cluster_free(full);
    cluster_free(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_cache_changes_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

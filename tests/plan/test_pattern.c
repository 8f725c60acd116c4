/* test_pattern.c - the groups of a pattern against a look at every pair of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/graph.h"

enum { MAX_RADICES = MAX_STEP_DIGITS + 2, MAX_STAGE = 4096 };

/* A mesh of a few radices, some of which are the pattern's digits. */
static struct pattern random_pattern(struct rng *rng)
{
    struct pattern pattern = {.collective = COLLECTIVE_ALL_REDUCE, .first = rng_below(rng, 40)};
    int64_t stride[MAX_RADICES], degree[MAX_RADICES];
    pattern.devices = 1;
    for (int k = MAX_RADICES - 1; k >= 0; k--) { /* innermost last */
        stride[k] = pattern.devices;
        degree[k] = pattern.devices < MAX_STAGE / 4 ? 1 + rng_below(rng, 4) : 1;
        pattern.devices *= degree[k];
    }
    for (int k = 0; k < MAX_RADICES && pattern.digits < MAX_STEP_DIGITS; k++)
        if (degree[k] > 1 && rng_below(rng, 2)) {
            pattern.stride[pattern.digits] = stride[k];
            pattern.degree[pattern.digits++] = degree[k];
        }
    return pattern;
}

/* Number within the stage with the pattern's digits set to 0. */
static int64_t without_digits(const struct pattern *pattern, int64_t device)
{
    int64_t number = device - pattern->first, left = number;
    for (int32_t k = 0; k < pattern->digits; k++)
        left -= number / pattern->stride[k] % pattern->degree[k] * pattern->stride[k];
    return left;
}

/* Every device is in the group it is said to be in, no other, and its group differs in digits
 * only. */
static void groups_part_the_stage(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 11);
    int64_t most_levels = 0;
    for (int round = 0; round < 500; round++) {
        struct pattern pattern = random_pattern(&rng);
        int64_t groups = pattern_groups(&pattern), seen = 0;
        bool found[MAX_STAGE] = {false};
        for (int64_t g = 0; g < groups; g++) {
            struct group group = pattern_group(&pattern, g);
            int64_t common = without_digits(&pattern, group.first);
            assert_true(group.levels <= pattern.digits);
            most_levels = group.levels > most_levels ? group.levels : most_levels;
            for (int64_t i = 0; i < group_size(&group); i++) {
                int64_t device = group_device(&group, i);
                assert_int_equal(pattern_group_of(&pattern, device), g);
                assert_int_equal(without_digits(&pattern, device), common);
                assert_false(found[device - pattern.first]);
                found[device - pattern.first] = true;
                seen++;
            }
        }
        assert_int_equal(seen, pattern.devices);
    }
    assert_true(most_levels > 2);
}

static void neighbouring_digits_are_one_level(void **state)
{
    (void)state;
    struct pattern pattern = {
        .first = 16, .devices = 64, .digits = 3, .stride = {16, 2, 1}, .degree = {4, 4, 2}};
    struct group group = pattern_group(&pattern, 1);
    assert_int_equal(pattern_groups(&pattern), 2);
    assert_int_equal(group.levels, 2);
    assert_int_equal(group.first, 16 + 8);
    assert_int_equal(group.count[0], 8);
    assert_int_equal(group.stride[0], 1);
    assert_int_equal(group.count[1], 4);
    assert_int_equal(group.stride[1], 16);
}

static void no_digits_leave_every_device_alone(void **state)
{
    (void)state;
    struct pattern pattern = {.first = 5, .devices = 3};
    struct group group = pattern_group(&pattern, 2);
    assert_int_equal(pattern_groups(&pattern), 3);
    assert_int_equal(group_size(&group), 1);
    assert_int_equal(group.first, 7);
    assert_int_equal(pattern_group_of(&pattern, 7), 2);
}

/* Eight send to four: 0, 2, 4, 6 do; and back, each of four sends to two. */
static void sends_are_pairs(void **state)
{
    (void)state;
    struct reshard narrow = {.from_devices = 8, .to_devices = 4};
    struct reshard widen = {.from_devices = 4, .to_devices = 8};
    struct pattern down = {.collective = COLLECTIVE_SEND,
                           .first = 8,
                           .devices = 4,
                           .from_devices = 8,
                           .reshard = &narrow};
    struct pattern back = {.collective = COLLECTIVE_SEND,
                           .devices = 8,
                           .from_first = 8,
                           .from_devices = 4,
                           .reshard = &widen};
    assert_int_equal(pattern_groups(&down), 4);
    assert_int_equal(pattern_groups(&back), 8);
    for (int64_t i = 0; i < 8; i++) {
        struct group pair = pattern_group(&back, i);
        assert_int_equal(group_device(&pair, 0), 8 + i / 2);
        assert_int_equal(group_device(&pair, 1), i);
        assert_int_equal(pattern_group_of(&back, i), i);
        if (i >= 4)
            continue;
        pair = pattern_group(&down, i);
        assert_int_equal(group_device(&pair, 0), 2 * i);
        assert_int_equal(group_device(&pair, 1), 8 + i);
        assert_int_equal(pattern_group_of(&down, 8 + i), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_part_the_stage),
        cmocka_unit_test(neighbouring_digits_are_one_level),
        cmocka_unit_test(no_digits_leave_every_device_alone),
        cmocka_unit_test(sends_are_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

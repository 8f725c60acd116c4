/* test_schedule_file.c - files of lists: what is read is what is written, and what is wrong is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "schedule/schedule.h"

static weft_status read_text(struct arena *keep, const char *text, struct schedule **out)
{
    return schedule_read(keep, "file", text, strlen(text), out);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static const struct {
    const char *text, *message;
} BROKEN[] = {
    {"", "file:1: is empty, expected a mapping"},
    {"order: []\n", "file:1: 'order' is empty, expected one line per stage"},
    {"placement: loop\n", "file:1: 'order' is missing, expected one line per stage"},
    {"order: F0\n", "file:1: 'order' is text, expected one line per stage"},
    {"order:\n  - F0 B0\norders: 1\n", "file:3: unknown key 'orders'"},
    {"placement: round\norder:\n  - F0 B0\n",
     "file:1: 'placement' is 'round', expected loop or zigzag"},
    {"order:\n  - 17\n", "file:2: stage 0 of 'order' is a number, expected slots such as F0 B0"},
    {"order:\n  - F0 X0\n",
     "file:2: 'X0' is no slot, expected one such as F0, B0, I0 or W0, in a CSV 0F0"},
    {"order:\n  - F0 B0x1\n",
     "file:2: 'B0x1' is no slot, expected one such as F0, B0, I0 or W0, in a CSV 0F0"},
    {"order:\n  - F0 B99999999\n",
     "file:2: 'B99999999' is no slot, expected one such as F0, B0, I0 or W0, in a CSV 0F0"},
    {"order:\n  - F0 B9999999\n", "file: 2 slots, expected 20000000 or more for 1 stage with 1 "
                                  "piece and 10000000 micro-batches"},
    {"order:\n  - F0\n", "file: 1 slot, expected 2 or more for 1 stage with 1 piece and 1 "
                         "micro-batch"},
    {"order:\n  - F0 F0 B0\n", "file:2: 'F0' of stage 0: its forward pass comes twice"},
    {"order:\n  - B0 F0\n",
     "file:2: 'B0' of stage 0: its backward pass comes before its forward pass"},
    {"order:\n  - F0 W0 I0\n",
     "file:2: 'W0' of stage 0: its weight gradients come before its input gradients"},
    {"order:\n  - F0 I0 B0\n",
     "file:2: 'B0' of stage 0: its backward pass comes whole after its input gradients"},
    {"order:\n  - F0 I0 W0 W0\n", "file:2: 'W0' of stage 0: its weight gradients come twice"},
    {"order:\n  - F0 F1 B0 I1\n",
     "file: stage 0 has no weight gradients of micro-batch 1, piece 0"},
    {"order:\n  - F0 F1 B0 B1\n  - F0 I0 W0 F1\n",
     "file: stage 1 has no backward pass of micro-batch 1, piece 0"},
    {"order:\n  - F0 F1 B0 B1\n  - F0 I0 W0 W1\n",
     "file:3: 'W1' of stage 1: its weight gradients come before its forward pass"},
    {"order:\n  - F0 B0 F1 B1\n  - F1 B1 F0 B0\n",
     "file: deadlock: stage 0, slot 2 (B0) waits forever"},
    {"0F0,0B0\n1F0,2B0\n", "file: 4 slots, expected 8 or more for 2 stages with 2 pieces and 1 "
                           "micro-batch"},
    {"0F0,1B0\n1F0,0B0\n", "file:1: '1B0' is in row 0, expected part 1 in row 1 of a loop"},
    {"0F0,0G0\n", "file:1: '0G0' is no slot, expected one such as F0, B0, I0 or W0, in a CSV 0F0"},
    {"0F0,0SENDF0\n",
     "file:1: '0SENDF0' is no slot, expected one such as F0, B0, I0 or W0, in a CSV 0F0"},
    {"0F0,(0B0;0B0)OVERLAP\n",
     "file:1: '(0B0;0B0)OVERLAP' is no slot, expected one such as F0, B0, I0 or W0, in a CSV 0F0"},
    {"0F0,0B0\n1B0,1F0\n",
     "file:2: '1B0' of stage 1: its backward pass comes before its forward pass"},
};

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        struct arena *keep = arena_new();
        struct schedule *schedule;
        assert_int_equal(read_text(keep, BROKEN[i].text, &schedule), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, BROKEN[i].message);
        arena_free(keep);
    }
}

/* ---- what is written ------------------------------------------------------------------------- */

static void check_same(const struct schedule *row, const struct pipeline *pipeline,
                       enum schedule_format format)
{
    struct arena *keep = arena_new();
    const char *text = schedule_write(keep, row, pipeline, format);
    struct schedule *again;
    assert_int_equal(read_text(keep, text, &again), WEFT_OK);
    assert_int_equal(schedule_check(again, pipeline), WEFT_OK);
    assert_true(again->zigzag == row->zigzag || pipeline->stages == 1 || pipeline->pieces == 1);
    for (int32_t s = 0; s < pipeline->stages; s++) {
        struct slots slots = {0};
        schedule_order(row, pipeline, s, keep, &slots);
        assert_int_equal(slots.len, again->lists->stage[s].len);
        for (size_t i = 0; i < slots.len; i++)
            assert_memory_equal(&slots.data[i], &again->lists->stage[s].data[i],
                                sizeof slots.data[i]);
        assert_int_equal(schedule_in_flight(row, pipeline, s),
                         schedule_in_flight(again, pipeline, s));
    }
    arena_free(keep);
}

static void what_is_written_is_read_again(void **state)
{
    const struct schedule *all;
    size_t count = schedule_all(&all);
    (void)state;
    for (size_t i = 0; i < count; i++)
        for (int32_t p = 1; p <= 4; p++)
            for (int32_t v = 1; v <= 3; v++)
                for (int32_t m = 1; m <= 8; m++) {
                    struct pipeline pipeline = {p, v, m};
                    if (schedule_check(&all[i], &pipeline) != WEFT_OK)
                        continue;
                    check_same(&all[i], &pipeline, SCHEDULE_WEFT);
                    check_same(&all[i], &pipeline, SCHEDULE_CSV);
                }
}

/* ---- the two formats ------------------------------------------------------------------------- */

static void both_formats_say_the_same(void **state)
{
    static const char *const SAME[] = {
        "placement: zigzag\norder:\n  - F0a F0b B0b B0a\n  - F0a F0b B0b B0a\n",
        "0F0,,,3F0,3B0,,,0B0\n,1F0,2F0,,,2B0,1B0\n",
        ("0UNSHARD,0F0,0SEND_F0,3RECV_F0,(3F0;3B0)OVERLAP_F_B,0WAIT_SEND_F0,0B0,0REDUCE_GRAD,"
         "0WAIT_REDUCE_GRAD\n1F0,2F0,2B0,1B0\n"),
    };
    struct arena *keep = arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SAME); i++) {
        struct schedule *schedule;
        assert_int_equal(read_text(keep, SAME[i], &schedule), WEFT_OK);
        assert_string_equal(
            schedule_write(keep, schedule, &schedule->lists->pipeline, SCHEDULE_WEFT), SAME[0]);
    }
    arena_free(keep);
}

static void lists_are_of_one_shape(void **state)
{
    struct arena *keep = arena_new();
    struct schedule *schedule;
    struct pipeline other = {2, 1, 3};
    (void)state;
    assert_int_equal(read_text(keep, "order:\n  - F0 B0\n  - F0 B0\n", &schedule), WEFT_OK);
    assert_int_equal(schedule_check(schedule, &other), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "file orders 2 stages with 1 piece and 1 micro-batch, not 2, 1 and 3");
    arena_free(keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(both_formats_say_the_same),
        cmocka_unit_test(lists_are_of_one_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

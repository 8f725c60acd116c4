/* test_device.c - the CPU's row of the table of devices, against plain loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "run/run.h"

/* More than two tiles, and a rest. */
enum { COUNT = 2 * TILE + 37 };

static float value_at(int64_t i)
{
    return (float)(i % 251) / 8 - 15; /* exact in bf16: 8 bits of it count */
}

static void test_copies_and_clears(void **state)
{
    float *on_device = CPU_DEVICE.allocate(NULL, COUNT * (int64_t)sizeof(float));
    float *on_host = CPU_DEVICE.allocate_host(COUNT * (int64_t)sizeof(float));
    float *back = CPU_DEVICE.allocate(NULL, COUNT * (int64_t)sizeof(float));
    (void)state;
    for (int64_t i = 0; i < COUNT; i++)
        on_device[i] = value_at(i);
    CPU_DEVICE.copy(NULL, COPY_TO_HOST, on_host, on_device, COUNT * (int64_t)sizeof(float));
    CPU_DEVICE.clear(NULL, on_device, COUNT * (int64_t)sizeof(float));
    CPU_DEVICE.copy(NULL, COPY_FROM_HOST, back, on_host, COUNT * (int64_t)sizeof(float));
    for (int64_t i = 0; i < COUNT; i++) {
        assert_true(on_device[i] == 0);
        assert_true(back[i] == value_at(i));
    }
    CPU_DEVICE.release(NULL, on_device);
    CPU_DEVICE.release(NULL, back);
    CPU_DEVICE.release_host(on_host);
}

/* Sums of bf16 are rounded once, to the nearest. */
static void test_sums_in_both_storages(void **state)
{
    static float from[COUNT], to[COUNT], wide[COUNT];
    static uint16_t narrow_from[COUNT], narrow_to[COUNT];
    double squares = 0;
    (void)state;
    for (int64_t i = 0; i < COUNT; i++) {
        from[i] = value_at(i);
        to[i] = value_at(COUNT - i);
        squares += (double)from[i] * (double)from[i];
    }
    CPU_DEVICE.cast(NULL, DTYPE_FP32, from, DTYPE_BF16, narrow_from, COUNT);
    CPU_DEVICE.cast(NULL, DTYPE_FP32, to, DTYPE_BF16, narrow_to, COUNT);
    CPU_DEVICE.cast(NULL, DTYPE_BF16, narrow_from, DTYPE_FP32, wide, COUNT);
    CPU_DEVICE.add(NULL, DTYPE_FP32, from, COUNT, to);
    for (int64_t i = 0; i < COUNT; i++) {
        assert_true(wide[i] == value_at(i));
        assert_true(to[i] == value_at(i) + value_at(COUNT - i));
    }
    CPU_DEVICE.add(NULL, DTYPE_BF16, narrow_from, COUNT, narrow_to);
    CPU_DEVICE.cast(NULL, DTYPE_BF16, narrow_to, DTYPE_FP32, wide, COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        double off = (double)wide[i] - (double)to[i], half_unit = 1.0 / 256;
        assert_true(off <= half_unit * fabs((double)to[i]) &&
                    -off <= half_unit * fabs((double)to[i]));
    }
    double found = 0;
    CPU_DEVICE.add_squares(NULL, from, COUNT, &found);
    assert_true(fabs(found - squares) <= 1e-12 * squares);
}

/* A part of each row, taken out and added where it came from, in both storages. */
static void test_rows_go_back_where_they_came_from(void **state)
{
    (void)state;
    float whole[24], part[8], back[24] = {0};
    uint16_t narrow_whole[24], narrow_part[8], narrow_back[24] = {0};
    const float expected[] = {3, 4, 9, 10, 15, 16, 21, 22};
    for (int i = 0; i < 24; i++)
        whole[i] = (float)i;
    CPU_DEVICE.copy_rows(NULL, DTYPE_FP32, (struct row_copy){4, 2, 6, 2}, whole + 3, part);
    assert_memory_equal(part, expected, sizeof part);
    CPU_DEVICE.add_rows(NULL, DTYPE_FP32, (struct row_copy){4, 2, 2, 6}, part, back + 3);
    CPU_DEVICE.cast(NULL, DTYPE_FP32, whole, DTYPE_BF16, narrow_whole, 24);
    CPU_DEVICE.copy_rows(NULL, DTYPE_BF16, (struct row_copy){4, 2, 6, 2}, narrow_whole + 3,
                         narrow_part);
    CPU_DEVICE.add_rows(NULL, DTYPE_BF16, (struct row_copy){4, 2, 2, 6}, narrow_part,
                        narrow_back + 3);
    for (int i = 0; i < 24; i++) {
        bool moved = i % 6 == 3 || i % 6 == 4;
        assert_true(back[i] == (moved ? whole[i] : 0));
        assert_int_equal(narrow_back[i], moved ? narrow_whole[i] : 0);
    }
}

static void test_fills_and_sums(void **state)
{
    static float numbers[COUNT];
    double sum = 1;
    (void)state;
    CPU_DEVICE.fill(NULL, numbers, 0.5F, COUNT);
    CPU_DEVICE.add_sum(NULL, numbers, COUNT, COUNT, &sum);
    assert_true(sum == 1.5);
    assert_null(device_failed(&CPU_DEVICE));
}

/* A view of a device apart is a copy until it ends; nothing is written back that was only read. */
static void test_views_of_a_device_apart(void **state)
{
    struct compute_device apart = CPU_DEVICE;
    float memory[] = {1, 2, 3};
    (void)state;
    apart.shared = false;
    for (int writes = 0; writes < 2; writes++) {
        struct host_view view = host_view(&apart, NULL, memory, sizeof memory, true);
        assert_ptr_not_equal(view.at, memory);
        assert_true(((float *)view.at)[2] == 3);
        ((float *)view.at)[0] = 5;
        host_view_end(&apart, NULL, &view, writes);
        assert_true(memory[0] == (writes ? 5 : 1));
    }
    struct host_view shared = host_view(&CPU_DEVICE, NULL, memory, sizeof memory, true);
    assert_ptr_equal(shared.at, memory);
    host_view_end(&CPU_DEVICE, NULL, &shared, true);
}

/* A device that works at once has no streams, and nothing to wait for. */
static void test_works_at_once(void **state)
{
    (void)state;
    assert_null(device_stream(&CPU_DEVICE));
    assert_null(device_record(&CPU_DEVICE, NULL));
    device_await(&CPU_DEVICE, NULL, NULL);
    device_finish(&CPU_DEVICE, NULL);
    device_stream_free(&CPU_DEVICE, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_and_clears),
        cmocka_unit_test(test_sums_in_both_storages),
        cmocka_unit_test(test_rows_go_back_where_they_came_from),
        cmocka_unit_test(test_fills_and_sums),
        cmocka_unit_test(test_views_of_a_device_apart),
        cmocka_unit_test(test_works_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
    float *on_device = CPU_DEVICE.allocate(COUNT * (int64_t)sizeof(float));
    float *on_host = CPU_DEVICE.allocate_host(COUNT * (int64_t)sizeof(float));
    float *back = CPU_DEVICE.allocate(COUNT * (int64_t)sizeof(float));
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
    CPU_DEVICE.release(on_device);
    CPU_DEVICE.release(back);
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
    double found = CPU_DEVICE.squares(NULL, from, COUNT);
    assert_true(fabs(found - squares) <= 1e-12 * squares);
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
        cmocka_unit_test(test_works_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_measure_transfers.c - transfers between ranks of this machine: what is measured and kept, and the
 * cluster file that is made of it. No test says how long anything takes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "one_folder.h"
#include "run/run.h"

static struct cluster *ranks(int32_t count)
{
    struct cluster *cluster;
    assert_int_equal(cluster_ranks(count, &cluster), WEFT_OK);
    return cluster;
}

static struct cluster *opened(const char *path)
{
    struct cluster *cluster;
    if (cluster_open(path, &cluster) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return cluster;
}

static struct measure_options transfer_options(const char *db)
{
    struct measure_options o = measure_defaults();
    o.db = db;
    o.device = "a core";
    o.machine = "a machine";
    o.source = "a test";
    o.precision = 1e9;
    o.most = 30;
    return o;
}

/* However far samples lie apart, there are no more of them than is said. */
static void test_no_more_than_most(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct measure_options o = transfer_options(in_folder("most.sqlite"));
    struct measured_transfers out;
    o.precision = 0;
    o.most_s = 1e9;
    assert_int_equal(measure_thread_transfers(2, &o, 1 << 10, arena, &out), WEFT_OK);
    assert_true(out.len > 0);
    for (size_t i = 0; i < out.len; i++)
        assert_true(out.data[i].samples <= o.most && out.data[i].disturbed <= o.most);
    arena_free(arena);
}

/* 3 ranks: groups of 2 (five kinds) and 3 (four, without sends), of 1, 4, 16 and 64 KiB. What is
 * trusted is stored, and is not measured again. */
static void test_transfers(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct measure_options o = transfer_options(in_folder("transfers.sqlite"));
    struct measured_transfers first, again;
    struct profile *profile;
    int64_t rows, trusted = 0, known = 0;
    assert_int_equal(measure_thread_transfers(3, &o, 64 << 10, arena, &first), WEFT_OK);
    assert_int_equal(first.len, (6 + 5) * 4);
    assert_false(first.stopped);
    for (size_t i = 0; i < first.len; i++) {
        assert_true(first.data[i].ns > 0 && first.data[i].samples >= 10);
        trusted += first.data[i].trusted;
    }
    assert_int_equal(profile_open(o.db, &profile), WEFT_OK);
    assert_int_equal(profile_count(profile, TABLE_COLLECTIVE, &rows), WEFT_OK);
    profile_close(profile);
    assert_int_equal(rows, trusted);
    assert_int_equal(measure_thread_transfers(3, &o, 64 << 10, arena, &again), WEFT_OK);
    for (size_t i = 0; i < again.len; i++) {
        known += again.data[i].known;
        assert_int_equal(again.data[i].known, first.data[i].trusted);
        if (again.data[i].known)
            assert_true(fabs(again.data[i].ns - first.data[i].ns) <= 1);
    }
    assert_int_equal(known, trusted);
    arena_free(arena);
}

/* How often so many bytes were cleared, whichever buffer they are of. */
enum { AWAY_BYTES = 12345 };
static const struct compute_device *plain_device;
static atomic_llong far_clears;
static void counted_clear(struct device_stream *stream, void *to, int64_t bytes)
{
    if (bytes == AWAY_BYTES)
        atomic_fetch_add(&far_clears, 1);
    plain_device->clear(stream, to, bytes);
}

/* Before each sample every rank of the group writes as much as its caches hold. */
static void test_caches_are_filled_before_a_sample(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct measure_options o = transfer_options(NULL);
    struct kernels kernels = *o.kernels;
    struct compute_device device = *kernels.device;
    struct measured_transfers out;
    int64_t samples = 0;
    plain_device = kernels.device;
    device.clear = counted_clear;
    kernels.device = &device;
    o.kernels = &kernels;
    o.away_bytes = AWAY_BYTES;
    assert_int_equal(measure_thread_transfers(2, &o, 1 << 10, arena, &out), WEFT_OK);
    for (size_t i = 0; i < out.len; i++)
        samples += out.data[i].samples + out.data[i].disturbed;
    assert_true(samples > 0);
    assert_true(atomic_load(&far_clears) >= 2 * samples);
    arena_free(arena);
}

static void test_stopped_transfers(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct measure_options o = transfer_options(NULL);
    struct measured_transfers out;
    atomic_bool stop = true;
    o.stop = &stop;
    assert_int_equal(measure_thread_transfers(2, &o, 64 << 10, arena, &out), WEFT_OK);
    assert_true(out.stopped);
    assert_int_equal(out.len, 0);
    arena_free(arena);
}

static void test_transfers_refuse_broken_databases(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    char *path = in_folder("broken.sqlite");
    struct measure_options o = transfer_options(path);
    struct measured_transfers out;
    assert_int_equal(file_write_text(path, "this is no database, whatever its name says"), WEFT_OK);
    assert_int_not_equal(measure_thread_transfers(2, &o, 64 << 10, arena, &out), WEFT_OK);
    assert_non_null(strstr(weft_last_error()->message, "is not a profile database"));
    arena_free(arena);
}

/* Transfers of 10 us and 1 ns a byte: a cluster file that says so. An all-reduce of n bytes on 2
 * ranks passes n bytes through the slowest link. */
static void test_machine_file(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct cluster *machine = ranks(2);
    struct core_rates rates = {50e9, 20e9};
    struct measured_transfer rows[8];
    struct measured_transfers transfers = {.data = rows};
    const char *path = in_folder("here.yaml");
    for (int64_t bytes = 1 << 10; transfers.len < COUNT_OF(rows); bytes *= 4)
        rows[transfers.len++] = (struct measured_transfer){.collective = COLLECTIVE_ALL_REDUCE,
                                                           .ranks = 2,
                                                           .bytes = bytes,
                                                           .ns = 10000 + (double)bytes,
                                                           .trusted = true};
    const char *text = machine_text(arena, machine, &rates, "by \"hand\"", &transfers);
    assert_int_equal(file_write_text(path, text), WEFT_OK);
    struct cluster *cluster = opened(path);
    const struct device *device = &cluster->node.device;
    assert_string_equal(device->name, machine->node.device.name);
    assert_string_equal(device->arch, "cpu");
    assert_string_equal(device->source, "by \"hand\"");
    assert_int_equal(cluster_devices(cluster), 2);
    assert_int_equal(device->launch_ns, 0);
    assert_true(fabs(device->flops[DTYPE_FP32] / 50e9 - 1) < 1e-3);
    assert_true(fabs(device->memory_bytes_per_s / 20e9 - 1) < 1e-3);
    struct group both = group_range(0, 2, 1);
    struct collective_cost cost;
    assert_int_equal(collective_time(cluster, COLLECTIVE_ALL_REDUCE, &both, 1 << 20, &cost),
                     WEFT_OK);
    assert_true(fabs((double)cost.ns / (10000 + (1 << 20)) - 1) < 0.02);
    cluster_free(cluster);
    cluster_free(machine);
    arena_free(arena);
}

/* Twice as many ranks as cores: each has half of one while all have work to do. */
static void test_crowded_machine_file(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct cluster *machine = ranks(4);
    struct core_rates rates = {25e9, 10e9, 2};
    struct measured_transfers none = {0};
    const char *path = in_folder("crowded.yaml");
    assert_int_equal(file_write_text(path, machine_text(arena, machine, &rates, "hand", &none)),
                     WEFT_OK);
    struct cluster *cluster = opened(path);
    assert_true(cluster->node.device.alone_speedup == 2);
    cluster_free(cluster);
    cluster_free(machine);
    arena_free(arena);
}

/* Transfers of a device's memory go by its carrier, and ranks agree by the host's transport. */
static atomic_int carried;

static weft_status carry(struct transport *host, const struct compute_device *device,
                         struct device_stream *stream, struct transport **out)
{
    atomic_fetch_add(&carried, 1);
    *out = transport_staged(host, device, stream);
    return WEFT_OK;
}

static void test_carried_transfers(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct measure_options o = transfer_options(in_folder("carried.sqlite"));
    struct measured_transfers out, own;
    assert_int_equal(measure_thread_transfers(3, &o, 4 << 10, arena, &own), WEFT_OK);
    o.db = in_folder("again.sqlite");
    o.carrier = carry;
    assert_int_equal(measure_thread_transfers(3, &o, 4 << 10, arena, &out), WEFT_OK);
    assert_int_equal(atomic_load(&carried), 3);
    assert_int_equal(out.len, own.len);
    for (size_t i = 0; i < out.len; i++)
        assert_true(out.data[i].collective == own.data[i].collective &&
                    out.data[i].ranks == own.data[i].ranks && out.data[i].samples > 0);
    arena_free(arena);
}

/* What was not trusted says nothing about the machine. */
static void test_untrusted_transfers_make_no_fit(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct cluster *machine = ranks(2);
    struct core_rates rates = {50e9, 20e9};
    struct measured_transfer one = {.collective = COLLECTIVE_SEND, .ranks = 2, .bytes = 1, .ns = 1};
    struct measured_transfers transfers = {.data = &one, .len = 1};
    const char *text = machine_text(arena, machine, &rates, "hand", &transfers);
    assert_null(strstr(text, "collectives"));
    cluster_free(machine);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_more_than_most),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_caches_are_filled_before_a_sample),
        cmocka_unit_test(test_stopped_transfers),
        cmocka_unit_test(test_transfers_refuse_broken_databases),
        cmocka_unit_test(test_machine_file),
        cmocka_unit_test(test_untrusted_transfers_make_no_fit),
        cmocka_unit_test(test_crowded_machine_file),
        cmocka_unit_test(test_carried_transfers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

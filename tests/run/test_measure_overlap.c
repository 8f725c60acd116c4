/* test_measure_overlap.c - by how much computation and all-reduces slow each other down: what is measured, what comes out of
 * times that are known, what is kept. No test says how long anything takes: where times matter, the clock is made up. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "one_folder.h"
#include "random_plan.h"
#include "run/run.h"

static struct cluster *ranks(int32_t count)
{
    struct cluster *cluster;
    assert_int_equal(cluster_ranks(count, &cluster), WEFT_OK);
    return cluster;
}

/* ---- a plan whose kernels were measured ------------------------------------------------------ */

struct subject {
    struct arena *arena;
    struct cluster *cluster;
    struct model *model;
    struct plan *plan;
    struct asks asks;
    struct measured measured;
    struct measure_options options;
};

static void open_subject(struct subject *s, const char *db)
{
    struct degrees degrees = {.micro_batch = 2, .has_dtype = true};
    s->arena = arena_new();
    s->cluster = ranks(2);
    s->model = open_small(&SMALL_MODELS[0]);
    assert_int_equal(plan_from_degrees(s->model, s->cluster, &degrees, &s->plan), WEFT_OK);
    assert_int_equal(asks_of_plan(s->arena, s->plan, &s->asks), WEFT_OK);
    s->measured = (struct measured){0};
    for (size_t i = 0; i < s->asks.len; i++) {
        struct measured_ask one = {.ask = &s->asks.data[i], .ns = 1, .samples = 1};
        array_push(s->arena, &s->measured, one);
    }
    s->options = measure_defaults();
    s->options.db = db;
    s->options.device = s->cluster->node.device.name;
    s->options.source = "a test";
    s->options.precision = 1e9;
}

static void close_subject(struct subject *s)
{
    plan_free(s->plan);
    model_free(s->model);
    cluster_free(s->cluster);
    arena_free(s->arena);
}

static int64_t kinds_of(const struct asks *asks)
{
    bool seen[KERNEL_COUNT] = {0};
    int64_t kinds = 0;
    for (size_t i = 0; i < asks->len; i++) {
        enum kernel kernel = asks->data[i].work.kernel;
        kinds += !seen[kernel];
        seen[kernel] = true;
    }
    return kinds;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Every kind of kernel once, stored both ways, found by costs, and not measured again. */
static void test_kinds_are_stored(void **state)
{
    (void)state;
    struct subject s;
    struct measured_overlaps first, again;
    struct cost *cost;
    open_subject(&s, in_folder("kinds.sqlite"));
    struct overlap_request request = {&s.asks, &s.measured, 64 << 10};
    assert_int_equal(measure_thread_overlap(2, &s.options, &request, s.arena, &first), WEFT_OK);
    assert_int_equal(first.len, kinds_of(&s.asks));
    assert_int_equal(cost_open(&s.cluster->node.device, s.options.db, &cost), WEFT_OK);
    for (size_t i = 0; i < first.len; i++) {
        struct interference stored = cost_interference(cost, first.data[i].kernel);
        assert_true(first.data[i].factor.work >= 1 && first.data[i].factor.transfer >= 1);
        assert_true(first.data[i].trusted && !first.data[i].known);
        assert_true(stored.work == first.data[i].factor.work);
        assert_true(stored.transfer == first.data[i].factor.transfer);
    }
    cost_close(cost);
    assert_int_equal(measure_thread_overlap(2, &s.options, &request, s.arena, &again), WEFT_OK);
    assert_int_equal(again.len, first.len);
    for (size_t i = 0; i < again.len; i++)
        assert_true(again.data[i].known && again.data[i].rounds == 0);
    s.options.source = "another test"; /* which has not measured anything yet */
    atomic_bool stop = true;
    s.options.stop = &stop;
    assert_int_equal(measure_thread_overlap(2, &s.options, &request, s.arena, &again), WEFT_OK);
    assert_true(again.stopped && again.len == 0);
    close_subject(&s);
}

/* ---- a clock that is made up ----------------------------------------------------------------- */

/* The rank asks all others for one number, the largest, before each of these: whether the kernel has memory, three lanes that
 * say how often things are done, two such numbers, and from then on four lanes a round (overlap.c, take_round). */
enum { BEFORE_ROUNDS = 6, LANES = 4 };
enum { WORK_BESIDE = 1, SENDS_BESIDE = 3 };
static atomic_int agreements;
static _Thread_local double clock_s;
static const struct transport_kind *threads_kind;
static double beside_noise;

static int lane_of_round(void)
{
    int at = atomic_load(&agreements) - 1;
    return at < BEFORE_ROUNDS ? -1 : (at - BEFORE_ROUNDS) % LANES;
}

static double made_up_seconds(void *context)
{
    (void)context;
    return clock_s;
}

/* 1 ms alone; 1.5 ms beside all-reduces. */
static void made_up_run(const struct kernel_call *call, enum phase phase)
{
    (void)call;
    (void)phase;
    clock_s += lane_of_round() == WORK_BESIDE ? 0.0015 : 0.001;
}

/* All-reduces of 64 KiB take 1 ms alone and 2.5 ms beside kernels; in every second round more, where it is noisy. */
static weft_status made_up_start(struct transport *t, const struct transfer *transfer,
                                 struct pending_transfer **out)
{
    int round = (atomic_load(&agreements) - BEFORE_ROUNDS) / LANES;
    if (transfer->count == 1 && transfer->op == REDUCE_MAX)
        atomic_fetch_add(&agreements, 1);
    if (transfer->count == (64 << 10) / 4)
        clock_s +=
            lane_of_round() == SENDS_BESIDE ? 0.0025 * (1 + (round % 2) * beside_noise) : 0.001;
    return threads_kind->start(t, transfer, out);
}

/* Of one rank, whose only kernel is the first ask's. */
static struct measured_overlaps measure_made_up(struct subject *s)
{
    struct kernels kernels = CPU_KERNELS;
    struct hub *hub = hub_new(1, NULL);
    struct transport *transport = transport_threads(hub, 0);
    struct transport_kind kind = *transport->kind;
    struct overlap_request request = {&s->asks, &s->measured, 64 << 10};
    struct measured_overlaps out;
    threads_kind = transport->kind;
    kind.start = made_up_start;
    transport->kind = &kind;
    kernels.run = made_up_run;
    s->options.kernels = &kernels;
    s->options.wall_seconds = made_up_seconds;
    s->options.most_s = 1e9;
    s->options.precision = 0.01;
    s->measured.len = 1;
    atomic_store(&agreements, 0);
    assert_int_equal(measure_overlap(transport, &s->options, &request, s->arena, &out), WEFT_OK);
    transport->kind = threads_kind;
    transport->kind->close(transport);
    hub_free(hub);
    return out;
}

/* 1.5 and 2.5 over 1; seven rounds are enough where all are alike. */
static void test_factors(void **state)
{
    (void)state;
    struct subject s;
    open_subject(&s, in_folder("made-up.sqlite"));
    beside_noise = 0;
    struct measured_overlaps out = measure_made_up(&s);
    assert_int_equal(out.len, 1);
    assert_true(fabs(out.data[0].factor.work - 1.5) < 1e-4);
    assert_true(fabs(out.data[0].factor.transfer - 2.5) < 1e-4);
    assert_int_equal(out.data[0].rounds, 7);
    assert_true(out.data[0].trusted);
    close_subject(&s);
}

/* I3: factors that differ from round to round, here from 2.5 to 12.5, are answered and not stored. */
static void test_noise_is_not_stored(void **state)
{
    (void)state;
    struct subject s;
    struct interference found[KERNEL_COUNT] = {0};
    struct profile *profile;
    open_subject(&s, in_folder("noise.sqlite"));
    beside_noise = 4;
    struct measured_overlaps out = measure_made_up(&s);
    assert_int_equal(out.len, 1);
    assert_true(out.data[0].rounds > 7 && out.data[0].error > 0.25);
    assert_false(out.data[0].trusted);
    assert_int_equal(profile_create(s.options.db, &profile), WEFT_OK);
    assert_int_equal(profile_interference(profile, s.options.device, found), WEFT_OK);
    profile_close(profile);
    for (int k = 0; k < KERNEL_COUNT; k++)
        assert_true(found[k].work == 0);
    close_subject(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_are_stored),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_noise_is_not_stored),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

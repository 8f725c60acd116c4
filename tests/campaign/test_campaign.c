/* test_campaign.c - whole runs: the formula, the run played out, and what was published.
 *
 *   C1  Formula and run played out agree within 1 % on random courses (50 at WEFT_TEST_PERCENT=100).
 *   C2  The best number of checkpoints is that of a sweep over all numbers.
 *   C3  Where nothing fails, a run takes its work and its checkpoints; by hand.
 *   C4  Llama 3's run is more than 90 % effective from its own rates; RSC's times to failure follow from its rates.
 *   C5  What days are spent on adds up to all of them.
 *   C6  Jitter and stragglers are what drawing them says.
 *   C7  A checkpoint holds weights and optimizer state, each once, however the plan lays them out; frozen weights have
 *       no state.
 *   C8  Quantiles of a run played out are those of its trials in order.
 *   C9  The price and the watts of several pools are means over their nodes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "campaign/campaign.h"
#include "cluster/topology.h"
#include "made_plan.h"
#include "one_arena.h"
#include "rounds.h"

static const double DAY = 86400, HOUR = 3600, MINUTE = 60;

static void within(double a, double b, double share, const char *what)
{
    if (!(fabs(a - b) <= share * fabs(b)))
        fail_msg("%s: %.9g, not %.9g", what, a, b);
}

static double between(struct rng *rng, double low, double high)
{
    return low * pow(high / low, rng_uniform(rng));
}

/* ---- C1, C5 ---------------------------------------------------------------------------------- */

/* Every second course has spares and stragglers, every third one saves in the background, every fourth goes on with a
 * node less. */
static struct course random_course(struct rng *rng, int i)
{
    double mean = between(rng, 1 * HOUR, 100 * HOUR);
    struct course c = {
        .work_s = between(rng, 20 * DAY, 100 * DAY),
        .failures_per_s = 1 / mean,
        .losses_per_s = rng_uniform(rng) / mean,
        .save_s = between(rng, 1, 4 * MINUTE),
        .load_s = between(rng, 1, 4 * MINUTE),
        .detect_s = between(rng, 1, 10 * MINUTE),
        .restart_s = between(rng, 1, 10 * MINUTE),
        .spares = 1000,
        .nodes = 1 + rng_below(rng, 2000),
        .jitter = 0.05 * rng_uniform(rng),
    };
    if (i % 2) {
        c.repair_s = between(rng, 1 * HOUR, 24 * HOUR);
        c.spares = 1 + (int64_t)(3 * c.losses_per_s * c.repair_s);
        c.stragglers_per_s = 1 / between(rng, 2 * DAY, 40 * DAY);
        c.straggler_slower = 1 + rng_uniform(rng);
        c.straggler_s = between(rng, HOUR, 10 * HOUR);
    }
    if (i % 3 == 0)
        c.lag_s = between(rng, 1, 4 * MINUTE);
    if (i % 4 == 3)
        c.one_less = 1 + 0.2 * rng_uniform(rng);
    return c;
}

static double sum_of(const struct expectation *e)
{
    double sum = 0;
    for (int i = 0; i < OUTLAY_COUNT; i++)
        sum += e->part_s[i];
    return sum;
}

static void formula_and_walk_agree(void **state)
{
    struct rng rng;
    double worst = 0;
    (void)state;
    rng_seed(&rng, 24);
    for (int i = 0, all = rounds_of(50); i < all; i++) {
        struct course c = random_course(&rng, i);
        int64_t n = best_checkpoints(&c);
        struct expectation e = expect(&c, n);
        struct walked w;
        walk(arena, &c, n, 40, (uint64_t)i, &w);
        worst = fmax(worst, fabs(w.mean_s / e.all_s - 1));
        if (fabs(w.mean_s / e.all_s - 1) > 0.01)
            fail_msg("course %d: %.4f days by formula, %.4f +- %.4f played out", i, e.all_s / DAY,
                     w.mean_s / DAY, w.error_s / DAY);
        within(w.failures, e.failures, 5 / sqrt(40 * e.failures), "failures"); /* 5 deviations */
        within(sum_of(&e), e.all_s, 1e-9, "the parts");
    }
    print_message("formula and run played out differ by at most %.2f %%\n", 100 * worst);
}

/* ---- C2 -------------------------------------------------------------------------------------- */

static void best_interval_is_that_of_a_sweep(void **state)
{
    enum { MOST = 2000 };
    struct rng rng;
    (void)state;
    rng_seed(&rng, 7);
    for (int i = 0; i < 50; i++) {
        struct course c = random_course(&rng, i);
        int64_t best = 1;
        c.work_s /= 200; /* few enough checkpoints to try every number of them */
        c.jitter = 0;    /* it only lengthens the work, and takes long to integrate */
        double least = INFINITY;
        for (int64_t n = 1; n < MOST; n++) {
            double all_s = expect(&c, n).all_s;
            if (all_s < least) {
                least = all_s;
                best = n;
            }
        }
        assert_true(best < MOST / 2);
        assert_int_equal(best_checkpoints(&c), best);
    }
}

/* Of every number of iterations that can lie between two checkpoints, the best one. Where an iteration is longer than the
 * best interval, there is a checkpoint after each, and never more of them than iterations. */
static void intervals_are_whole_iterations(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 8);
    for (int i = 0; i < 50; i++) {
        struct course c = random_course(&rng, i);
        double least = INFINITY;
        c.jitter = 0;
        c.iterations = round(c.work_s / between(&rng, 10, 2 * HOUR));
        for (double apart = 1; apart <= fmin(c.iterations, 3000); apart++)
            least = fmin(least, expect(&c, llround(c.iterations / apart)).all_s);
        within(expect(&c, best_checkpoints(&c)).all_s, least, 1e-12, "the best of the sweep");
    }
    struct course slow = {
        .work_s = 30 * DAY, .failures_per_s = 1 / HOUR, .save_s = 0.01, .iterations = 1000};
    assert_int_equal(best_checkpoints(&slow), 1000);
    assert_int_equal(checkpoints_every(&slow, 1), 1000);
    assert_int_equal(checkpoints_every(&slow, 2.6 * 2592), 333); /* three iterations */
    within(interval_exact(&slow), 2592, 1e-12, "an iteration");
    slow.save_s = 0;
    assert_int_equal(best_checkpoints(&slow), 1000);
}

/* 2 C / l = 2 * 60 * 14400 = 1314.5^2; the exact interval is Daly's up to a few seconds, and the same for short C. */
static void intervals_by_hand(void **state)
{
    struct course c = {.work_s = 30 * DAY, .failures_per_s = 1 / (4 * HOUR), .save_s = 60};
    (void)state;
    within(interval_young(&c), 1314.534, 1e-6, "Young");
    within(interval_daly(&c), 1314.534 * (1 + sqrt(60 / 28800.0) / 3 + 60 / 28800.0 / 9) - 60, 1e-6,
           "Daly");
    within(interval_exact(&c), interval_daly(&c), 1e-3, "exact");
    c.lag_s = 2 * HOUR; /* the writer takes longer than the best interval */
    within(interval_exact(&c), 2 * HOUR - 60, 1e-9, "exact with a slow writer");
    assert_true(isinf(expect(&c, checkpoints_every(&c, HOUR)).all_s));
}

/* ---- C3 -------------------------------------------------------------------------------------- */

static void nothing_fails(void **state)
{
    struct course c = {.work_s = 1000, .save_s = 3, .lag_s = 7, .restart_s = 50};
    struct expectation e = expect(&c, 10);
    struct walked w;
    (void)state;
    walk(arena, &c, 10, 3, 1, &w);
    within(e.all_s, 1000 + 10 * 3 + 7, 1e-12, "by formula");
    within(w.mean_s, 1000 + 10 * 3 + 7, 1e-9, "played out");
    within(e.part_s[OUTLAY_SAVING], 10 * 3 + 7, 1e-12, "checkpoints"); /* the last is waited for */
    assert_true(e.part_s[OUTLAY_LOST] < 1e-9);
    assert_int_equal(best_checkpoints(&c), 1);
}

/* One node, no spare, every failure takes it: each costs 10 to notice, 100 for the repair, 5 to restart, which may
 * fail, too. With l = 1/1000, P = 50 + 2: (e^(0.052) - 1) (1000 + 110) e^(0.005) per interval. */
static void waiting_by_hand(void **state)
{
    struct course c = {.work_s = 50e6,
                       .failures_per_s = 1e-3,
                       .losses_per_s = 1e-3,
                       .save_s = 2,
                       .detect_s = 10,
                       .restart_s = 5,
                       .repair_s = 100};
    double each = expm1(0.052) * 1110 * exp(0.005);
    (void)state;
    within(expect(&c, 1000000).all_s, 1e6 * each, 1e-9, "by formula");
    within(erlang_b(2, 1.5), 1.5 * 1.5 / 2 / (1 + 1.5 + 1.5 * 1.5 / 2), 1e-12, "Erlang B");
}

/* The run goes on without one node; of two that are away the first is back after 100 / 2. A second loss finds the one
 * server taken for a / (1 + a) of the time, a = 100 / 1000. */
static void waiting_for_the_second_node(void **state)
{
    struct course c = {.work_s = 50e6,
                       .failures_per_s = 1e-3,
                       .losses_per_s = 1e-3,
                       .save_s = 2,
                       .repair_s = 100,
                       .one_less = 1.5};
    struct expectation e = expect(&c, 1000000);
    (void)state;
    within(e.part_s[OUTLAY_WAITING] / e.losses, 0.1 / 1.1 * 100 / 2, 1e-9, "the wait for a node");
}

/* ---- C4 -------------------------------------------------------------------------------------- */

static struct course preset_course(const char *name, double nodes)
{
    const struct failure_preset *preset;
    struct course c = {0};
    if (failure_preset_named(name, &preset))
        fail_msg("%s", weft_last_error()->message);
    course_failures(&c, preset->rate, preset->rates, nodes);
    return c;
}

/* 405 billion parameters of 2 + 12 bytes at 2 TB/s, and ten minutes from a failure to the first iteration. */
static void llama3_is_effective(void **state)
{
    struct course c = preset_course("llama3", 2048);
    struct walked w;
    (void)state;
    c.work_s = 49 * DAY;
    c.save_s = c.load_s = 405e9 * 14 / 2e12;
    c.detect_s = c.restart_s = 5 * MINUTE;
    c.spares = 50;
    c.repair_s = DAY;
    int64_t n = best_checkpoints(&c);
    struct expectation e = expect(&c, n);
    within(c.failures_per_s * 54 * DAY, 419, 1e-9, "interruptions in 54 days");
    walk(arena, &c, n, 50, 3, &w);
    within(w.mean_s, e.all_s, 0.01, "played out");
    print_message("Llama 3: %.1f %% effective, a checkpoint every %.1f min\n",
                  100 * c.work_s / e.all_s, e.interval_s / MINUTE);
    assert_true(c.work_s / e.all_s > 0.9);
}

/* By trying all numbers. A node of eight devices fails once in 6,335 h and is repaired in a day: one node alone would wait for
 * 0.4 % of the time, which is less than a second node costs. */
static void spares_cost_least(void **state)
{
    enum { MOST = 120 };
    (void)state;
    for (int64_t nodes = 1; nodes <= 4096; nodes *= 2) {
        struct course c = preset_course("llama3", (double)nodes);
        double least = INFINITY;
        int64_t best = 0;
        c.nodes = nodes;
        c.work_s = 40 * DAY;
        c.save_s = c.load_s = MINUTE;
        c.detect_s = 10 * MINUTE;
        c.restart_s = 5 * MINUTE;
        c.repair_s = DAY;
        for (c.spares = 0; c.spares <= MOST; c.spares++) {
            double cost = (double)(nodes + c.spares) * expect(&c, best_checkpoints(&c)).all_s;
            best = cost < least ? c.spares : best;
            least = cost < least ? cost : least;
        }
        print_message("%lld nodes: %lld spares\n", (long long)nodes, (long long)best);
        assert_int_equal(cheapest_spares(&c), best);
        assert_true(nodes > 8 || best == 0);
    }
}

/* The paper projects 1.8 h on 16,384 devices and 0.23 h on 131,072 from 6.50 failures per 1,000 node-days. Its 7.9 h
 * of jobs on 1,024 devices are measured, at 23.7 per 1,000 node-days: from 6.50 follow 28.8 h. */
static void rsc_times_to_failure(void **state)
{
    struct course at_1k = preset_course("rsc-1", 128), at_16k = preset_course("rsc-1", 2048);
    struct course at_131k = preset_course("rsc-1", 16384);
    struct course measured = preset_course("rsc-jobs", 128);
    (void)state;
    within(mean_time_to_failure(&at_16k), 1.8 * HOUR, 0.01, "16,384 devices");
    within(mean_time_to_failure(&at_131k), 0.23 * HOUR, 0.025, "131,072 devices");
    within(mean_time_to_failure(&at_1k), 28.8 * HOUR, 0.01, "1,024 devices, from the rate");
    within(mean_time_to_failure(&measured), 7.9 * HOUR, 1e-9, "1,024 devices, as measured");
}

/* ---- C6 -------------------------------------------------------------------------------------- */

static double normal(struct rng *rng)
{
    double length = sqrt(-2 * log1p(-rng_uniform(rng)));
    return length * cos(2 * acos(-1) * rng_uniform(rng));
}

static void slowest_of_many(void **state)
{
    static const int64_t NODES[] = {2, 16, 300};
    struct rng rng;
    (void)state;
    rng_seed(&rng, 1);
    within(jitter_factor(0.1, 2), 1 + 0.1 / sqrt(acos(-1)), 1e-9, "of two, by hand");
    for (size_t k = 0; k < COUNT_OF(NODES); k++) {
        enum { DRAWS = 4000 };
        double sum = 0;
        for (int i = 0; i < DRAWS; i++) {
            double most = -INFINITY;
            for (int64_t n = 0; n < NODES[k]; n++)
                most = fmax(most, 1 + 0.1 * normal(&rng));
            sum += most / DRAWS;
        }
        within(jitter_factor(0.1, NODES[k]), sum, 0.005, "the slowest");
    }
}

/* ---- C7 -------------------------------------------------------------------------------------- */

static void a_checkpoint_holds_everything_once(void **state)
{
    static const struct degrees LAYOUTS[] = {
        {.tp = 1, .pp = 1}, {.tp = 4, .pp = 2}, {.tp = 2, .has_shard = true, .shard = 1}};
    double parameters = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(LAYOUTS); i++) {
        struct made m = make("gpt3-350m", "layers: 4, seq: 128", "dgx-a100:1", &LAYOUTS[i]);
        parameters = model_totals(m.plan->model, m.plan->dtype).parameters;
        within(plan_saved_bytes(m.plan), 14 * parameters, 1e-9, "bytes");
        unmake(&m);
    }
}

static void a_frozen_encoder_has_no_state(void **state)
{
    struct degrees d = {.tp = 2};
    struct made m =
        make("qwen2.5-vl-3b", "layers: 2, vision_layers: 2, vision_frozen: true", "dgx-a100:1", &d);
    double bytes = 0;
    (void)state;
    for (int64_t i = 0; i < m.plan->instances; i++) {
        const struct op *op = &m.plan->model->op[m.plan->instance[i].op];
        bytes += op_parameters(op) * (op->frozen ? 2 : 14);
    }
    assert_true(bytes < 14 * model_totals(m.plan->model, m.plan->dtype).parameters);
    within(plan_saved_bytes(m.plan), bytes, 1e-9, "bytes");
    unmake(&m);
}

/* ---- C8 -------------------------------------------------------------------------------------- */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first k trials are the same however many there are: k means tell each of them. */
static void quantiles_are_those_of_the_trials(void **state)
{
    enum { TRIALS = 20 };
    struct course c = {.work_s = 10 * DAY,
                       .failures_per_s = 1 / DAY,
                       .save_s = 60,
                       .detect_s = HOUR,
                       .restart_s = HOUR};
    double before = 0, time[TRIALS];
    struct walked w;
    (void)state;
    for (int k = 1; k <= TRIALS; k++) {
        walk(arena, &c, 100, k, 5, &w);
        time[k - 1] = k * w.mean_s - before;
        before = k * w.mean_s;
    }
    qsort(time, TRIALS, sizeof *time, rising);
    within(w.p5_s, time[1], 1e-6, "one of twenty is faster");
    within(w.median_s, time[10], 1e-6, "half of them are");
    within(w.p95_s, time[19], 1e-6, "nineteen of twenty are");
}

/* ---- C9 -------------------------------------------------------------------------------------- */

/* 700 W of one node and 400 W of three; 3.00 and 1.30 dollars an hour. */
static void pools_are_paid_by_their_nodes(void **state)
{
    static const char POOLS[] = "pools: [{cluster: 'dgx-h100:1'}, {cluster: 'dgx-a100:3'}]\n";
    struct cluster *cluster;
    (void)state;
    assert_int_equal(cluster_from_text(CLUSTER_YAML, "t.yaml", POOLS, strlen(POOLS), 0, &cluster),
                     WEFT_OK);
    struct tariff mean = cluster_tariff(cluster);
    within(mean.watts, (700 + 3 * 400) / 4.0, 1e-12, "watts");
    within(mean.price_per_hour, (3.00 + 3 * 1.30) / 4, 1e-12, "price");
    cluster_free(cluster);
}

/* Energy can be told for every device that Weft knows, and says where its watts are from. */
static void every_device_has_watts(void **state)
{
    const struct device *device;
    size_t count = device_presets(&device);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct tariff tariff = usual_tariff(&device[i]);
        if (!(tariff.watts > 0) || !tariff.watts_source)
            fail_msg("%s has no watts", device[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formula_and_walk_agree),
        cmocka_unit_test(best_interval_is_that_of_a_sweep),
        cmocka_unit_test(intervals_are_whole_iterations),
        cmocka_unit_test(intervals_by_hand),
        cmocka_unit_test(nothing_fails),
        cmocka_unit_test(waiting_by_hand),
        cmocka_unit_test(waiting_for_the_second_node),
        cmocka_unit_test(llama3_is_effective),
        cmocka_unit_test(spares_cost_least),
        cmocka_unit_test(rsc_times_to_failure),
        cmocka_unit_test(slowest_of_many),
        cmocka_unit_test(a_checkpoint_holds_everything_once),
        cmocka_unit_test(a_frozen_encoder_has_no_state),
        cmocka_unit_test(quantiles_are_those_of_the_trials),
        cmocka_unit_test(pools_are_paid_by_their_nodes),
        cmocka_unit_test(every_device_has_watts),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

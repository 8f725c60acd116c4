/* test_pools.c - clusters of several device types (cluster/pools.h): by hand arithmetic, folded and unfolded, estimated and
 * simulated, and the search against all layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "cluster/topology.h"
#include "rounds.h"
#include "search/search.h"

static struct cluster *cluster_of(const char *text)
{
    struct cluster *cluster;
    if (cluster_from_text(CLUSTER_YAML, "t.yaml", text, strlen(text), 0, &cluster) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return cluster;
}

static struct opened open_on(const char *options, struct cluster *cluster)
{
    struct opened o = {.cluster = cluster};
    assert_int_equal(model_open("llama3-8b", options, &o.model), WEFT_OK);
    return o;
}

/* ---- by hand ------------------------------------------------------------------------------------ */

/* Two nodes of one device each, joined by an uplink of 1 GB/s, of which 0.96 are reached (NIC_EFFICIENCY), with 5 us
 * from pool to pool. */
static const char NARROW[] = "pools:\n"
                             "  - {name: new, cluster: 'dgx-h100:1x1', uplink: 1GB/s}\n"
                             "  - {name: old, cluster: 'dgx-a100:1x1', uplink: 4GB/s}\n"
                             "between: {latency: 5us}\n";

/* A send of one byte: 6.6 us of NCCL's LL and 5 us of an A100 on top (protocols.c), a step over the network of 0 + 5 us:
 * L = 16.6 us, and its byte 1 ns. One of 96 MB crosses the narrower uplink, that of 1 GB/s, at 0.96: 100 ms more. */
static void the_uplink_limits_a_send(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_of(NARROW);
    struct group there = group_range(0, 2, 1), back = group_range(1, 2, -1);
    struct collective_cost cost;
    assert_int_equal(collective_time(cluster, COLLECTIVE_SEND, &there, 1, &cost), WEFT_OK);
    assert_int_equal(cost.ns, 16600 + 1);
    assert_int_equal(collective_time(cluster, COLLECTIVE_SEND, &there, 96000000, &cost), WEFT_OK);
    assert_int_equal(cost.ns, 16600 + 100000000);
    assert_string_equal(cost.bottleneck, "fabric");
    assert_int_equal(collective_time(cluster, COLLECTIVE_SEND, &back, 96000000, &cost), WEFT_OK);
    assert_int_equal(cost.ns, 16600 + 100000000);
    cluster_free(cluster);
}

/* A latency that is given is the one between pools, below those of their fabrics, too; else the longer of these is. */
static void the_latency_is_the_given_one(void **state)
{
    static const char TEXT[] = "pools: [{cluster: 'dgx-h100:2'}, {cluster: 'dgx-a100:2'}]\n%s";
    (void)state;
    struct arena *arena = arena_new();
    struct cluster *usual = cluster_of(arena_printf(arena, TEXT, ""));
    struct cluster *near = cluster_of(arena_printf(arena, TEXT, "between: {latency: 7ns}\n"));
    assert_true(usual->between_ns > 7);
    assert_int_equal(near->between_ns, 7);
    cluster_free(usual);
    cluster_free(near);
    arena_free(arena);
}

/* What was measured between the nodes of a pool counts where it is one of two, too: the longer latency. */
static void fits_between_nodes_of_a_pool_count(void **state)
{
    static const char TEXT[] = "pools:\n"
                               "  - {cluster: {base: dgx-h100, nodes: 1, %s}}\n"
                               "  - {cluster: 'dgx-h100:1'}\n";
    (void)state;
    struct arena *arena = arena_new();
    struct cluster *usual = cluster_of(arena_printf(arena, TEXT, "name: usual"));
    struct cluster *slow = cluster_of(
        arena_printf(arena, TEXT, "name: slow, collectives: {between: {send: {latency: 1ms}}}"));
    struct group group = group_range(0, 2, 8);
    struct collective_cost cost;
    assert_int_equal(collective_time(usual, COLLECTIVE_SEND, &group, 1, &cost), WEFT_OK);
    assert_true(cost.ns < 1000000);
    assert_int_equal(collective_time(slow, COLLECTIVE_SEND, &group, 1, &cost), WEFT_OK);
    assert_int_equal(cost.ns / 1000000, 1);
    cluster_free(usual);
    cluster_free(slow);
    arena_free(arena);
}

/* Every byte of a send leaves by a NIC of the first node, goes up the first pool's uplink and down the second's, and enters by
 * a NIC of the second node; the way back is the same in the other direction. */
static void a_send_uses_both_uplinks(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_of(NARROW);
    struct arena *arena = arena_new();
    struct group there = group_range(0, 2, 1);
    struct traffic_list list = {0};
    double up[2] = {0}, down[2] = {0}, nic[2] = {0};
    assert_int_equal(collective_traffic(cluster, COLLECTIVE_SEND, &there, 1000, arena, &list),
                     WEFT_OK);
    for (size_t i = 0; i < list.len; i++) {
        struct link_id link = list.data[i].link;
        if (link.tier > 0)
            (link.reverse ? down : up)[link.unit] += list.data[i].bytes;
        if (link.tier == 0)
            nic[link.unit] += list.data[i].bytes;
    }
    assert_float_equal(up[0], 1000, 1e-9);
    assert_float_equal(up[1], 0, 0);
    assert_float_equal(down[0], 0, 0);
    assert_float_equal(down[1], 1000, 1e-9);
    assert_float_equal(nic[0], 1000, 1e-9);
    assert_float_equal(nic[1], 1000, 1e-9);
    arena_free(arena);
    cluster_free(cluster);
}

/* What a stage computes in an iteration: operators, and the optimizer's step. */
struct computes {
    double passes, step;
};
static struct computes computes_of(const struct opened *o, struct degrees d, int32_t stage,
                                   double *iteration_ns)
{
    struct plan *plan = plan_of(o, d);
    struct prediction *p;
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &p), WEFT_OK);
    const int64_t *ns = p->stage[stage].time_ns;
    struct computes out = {(double)(ns[PURPOSE_FORWARD] + ns[PURPOSE_BACKWARD]),
                           (double)ns[PURPOSE_OPTIMIZER]};
    if (iteration_ns)
        *iteration_ns = (double)p->iteration_ns;
    prediction_free(p);
    plan_free(plan);
    return out;
}

/* One micro-batch of 2,048 tokens of 4,096 features in bf16 passes two stages: forward on an H100, 16,777,216 bytes over the
 * uplink, forward and backward on an A100, as many bytes back, backward on the H100, whose step is the last:
 *
 *   T = computes(H100, stage 0) + computes(A100, stage 1) + 2 (16.6 us + 16,777,216 B / 0.96 GB/s) + step(H100)
 *
 * with 2 (16.6 us + 17.4763 ms) = 34.9857 ms, and each stage's passes as long as on two nodes of its own type. */
static void two_stages_on_two_types(void **state)
{
    (void)state;
    static const char OPTIONS[] = "layers: 4, seq: 2048";
    struct degrees d = {.pp = 2, .micro_batch = 1, .global_batch = 1, .layout = "Et*3|t*1L"};
    struct opened mixed = open_on(OPTIONS, cluster_of(NARROW));
    struct opened h100 = open_both("llama3-8b", OPTIONS, "dgx-h100:2x1");
    struct opened a100 = open_both("llama3-8b", OPTIONS, "dgx-a100:2x1");
    struct computes first = computes_of(&h100, d, 0, NULL), second = computes_of(&a100, d, 1, NULL);
    double iteration;
    struct computes own = computes_of(&mixed, d, 0, &iteration);
    struct computes other = computes_of(&mixed, d, 1, NULL);
    assert_float_equal(own.passes, first.passes, 1);
    assert_float_equal(own.step, first.step, 1);
    assert_float_equal(other.passes, second.passes, 1);
    assert_float_equal(other.step, second.step, 1);
    double sends = 2 * (16600 + 16777216 / 0.96);
    assert_float_equal(sends, 34985733, 1);
    assert_float_equal(iteration, first.passes + second.passes + sends + first.step,
                       1e-4 * iteration);
    close_both(&mixed);
    close_both(&h100);
    close_both(&a100);
}

/* By formula an H100 reaches v times as much as an A100; of 32 layers on both the A100 gets the number next to 32 / (1 + v).
 * With v between 2.05 and 2.55 that is 9 to 10. */
static void slower_devices_get_fewer_layers(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "seq: 512", "dgx-h100:1x2+dgx-a100:1x2");
    struct plan *plan = plan_of(&o, (struct degrees){.pp = 2, .tp = 2, .global_batch = 8});
    double pace = plan_pool_pace(o.cluster, 0, DTYPE_BF16);
    int64_t layers = 0;
    for (int64_t i = plan->part[1].first; i < plan->instances; i++)
        layers += plan->ends_layer[i];
    assert_float_equal(plan_pool_pace(o.cluster, 1, DTYPE_BF16), 1, 0);
    assert_true(pace > 2 && pace < 3.2);
    assert_float_equal((double)layers, 32 / (1 + pace), 0.75);
    plan_free(plan);
    close_both(&o);
}

/* Four devices of each: copies to the host, and whatever else asks for a device, finds that of its own pool. */
static void devices_are_those_of_their_pool(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"H100-SXM5-80GB", "A100-SXM4-80GB"};
    struct opened o = open_both("llama3-8b", "layers: 2", "dgx-h100:2x2+dgx-a100:2x2");
    for (int64_t device = 0; device < cluster_devices(o.cluster); device++) {
        int32_t pool = device < 4 ? 0 : 1;
        assert_int_equal(cluster_pool_of(o.cluster, device), pool);
        assert_string_equal(cluster_device(o.cluster, device)->name, NAMES[pool]);
    }
    assert_int_equal(cluster_pool_first(o.cluster, 1), 4);
    close_both(&o);
}

/* 80 GB and 40 GB: each stage is held against its own device. */
static void memory_is_that_of_the_stage(void **state)
{
    (void)state;
    struct opened o =
        open_both("llama3-8b", "layers: 4, seq: 512", "dgx-h100:1x2+dgx-a100-40gb:1x2");
    struct plan *plan = plan_of(&o, (struct degrees){.pp = 2, .tp = 2, .global_batch = 8});
    struct prediction *p;
    assert_int_equal(simulate(plan, &(struct simulate_options){0}, &p), WEFT_OK);
    for (int32_t s = 0; s < 2; s++)
        assert_int_equal(p->stage[s].memory.limit, plan_stage_device(plan, s)->memory_bytes);
    assert_true(p->stage[0].memory.limit > p->stage[1].memory.limit);
    prediction_free(p);
    plan_free(plan);
    close_both(&o);
}

/* ---- refused ------------------------------------------------------------------------------------- */

static void stages_stay_in_a_pool(void **state)
{
    (void)state;
    struct opened o = open_both("llama3-8b", "layers: 4, seq: 512", "dgx-h100:1x2+dgx-a100:1x2");
    struct plan *plan = plan_of(&o, (struct degrees){.dp = 4, .global_batch = 8});
    assert_int_equal(plan_check(plan), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "stage 0 lies on dgx-h100 and on dgx-a100: a stage computes on devices of "
                        "one type");
    assert_string_equal(weft_last_error()->hint,
                        "use --pp 2 or a multiple of it, for stages of 2 devices or fewer, one "
                        "after the other");
    plan_free(plan);
    plan = plan_of(&o, (struct degrees){.dp = 2, .pp = 2, .global_batch = 8, .order = "tp-pp-dp"});
    assert_int_equal(plan_check(plan), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "the device order spreads every stage over all pools");
    assert_string_equal(weft_last_error()->hint,
                        "leave the order out: stages then follow each other, each on devices of "
                        "one pool");
    plan_free(plan);
    close_both(&o);
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"pools: []", "t.yaml:1: there are 0 pools, expected 1 to 8"},
        {"pools: dgx-a100", "t.yaml:1: 'pools' is text, expected a list"},
        {"pools: [{cluster: dgx-a100, speed: 2}]", NULL},
        {"pools: [{name: a}]", NULL},
        {"pools: [{cluster: [1]}]", NULL},
        {"pools:\n- {cluster: dgx-a100}\n- {cluster: nowhere}",
         "t.yaml:3: no cluster is called 'nowhere'"},
        {"pools:\n- {cluster: dgx-a100}\n- {cluster: {base: dgx-b100}}", NULL},
        {"pools:\n- {name: a, cluster: dgx-a100}\n- {name: a, cluster: dgx-h100}",
         "t.yaml:3: two pools are called 'a'"},
        {"pools:\n- {cluster: dgx-a100}\n- {cluster: 'dgx-h100:1x4'}",
         "t.yaml:1: nodes of dgx-a100 have 8 devices and those of dgx-h100 have 4"},
        {"pools:\n- {cluster: dgx-a100}\n- {cluster: dgx-a100+dgx-h100}",
         "t.yaml:3: no cluster is called 'dgx-a100+dgx-h100'"},
        {"pools: [{cluster: dgx-a100}]\nbetween: {latency: fast}", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct cluster *cluster;
        weft_status status = cluster_from_text(CLUSTER_YAML, "t.yaml", CASES[i].text,
                                               strlen(CASES[i].text), 0, &cluster);
        if (status == WEFT_OK)
            fail_msg("taken for valid: %s", CASES[i].text);
        if (CASES[i].message)
            assert_string_equal(weft_last_error()->message, CASES[i].message);
    }
}

/* ---- at random ------------------------------------------------------------------------------------ */

static const char *const FLEETS[] = {"dgx-h100:1x2+dgx-a100:1x2", "dgx-a100:1x4+dgx-h100:1x4",
                                     "dgx-h100:2x2+dgx-v100:1x2",
                                     "dgx-h100:1x2+dgx-a100:1x2+dgx-v100:1x2"};

static struct degrees draw_degrees(struct rng *rng, const struct cluster *cluster)
{
    static const char *const SCHEDULES[] = {"1f1b", "gpipe", "zb-h1", "interleaved"};
    int64_t each = cluster->node.devices, pp = cluster->nodes;
    pp *= rng_below(rng, 2) ? each : 1;
    struct degrees d = {.pp = pp, .tp = 1, .micro_batch = 1 + rng_below(rng, 2)};
    d.schedule = SCHEDULES[rng_below(rng, COUNT_OF(SCHEDULES))];
    d.pieces = strcmp(d.schedule, "interleaved") == 0 ? 2 : 1;
    d.dp = cluster_devices(cluster) / pp;
    if (d.dp % 2 == 0 && rng_below(rng, 2)) {
        d.tp = 2;
        d.dp /= 2;
        d.sequence = rng_below(rng, 2);
    }
    d.shard = d.dp > 1 ? (int)rng_below(rng, 3) : 0;
    d.has_shard = true;
    d.recompute = (enum recompute)rng_below(rng, 3);
    d.global_batch = d.dp * d.micro_batch * pp * (1 + rng_below(rng, 3));
    return d;
}

/* How far the estimate of a plan is from its simulation, or that of the plan as a candidate, if that is further. */
static double estimate_error(const struct plan *plan)
{
    struct arena *arena = arena_new();
    struct estimate_settings settings = estimate_settings_of(plan);
    struct estimator *estimator;
    struct estimate estimate;
    struct candidate *candidate;
    double simulated = 1e9 * simulated_s(plan, FOLD_AUTO);
    assert_int_equal(estimator_new(&settings, &estimator), WEFT_OK);
    assert_int_equal(estimate_plan(estimator, plan, arena, &estimate), WEFT_OK);
    double own = fabs((double)estimate.iteration_ns / simulated - 1);
    assert_int_equal(candidate_of_plan(estimator, plan, arena, &candidate), WEFT_OK);
    assert_int_equal(estimate_candidate(estimator, candidate, &estimate), WEFT_OK);
    double other = fabs((double)estimate.iteration_ns / simulated - 1);
    estimator_free(estimator);
    arena_free(arena);
    return fmax(own, other);
}

/* A plan of a fleet is proved and takes as long folded as unfolded. Returns the estimate's error. */
static double expect_sound(const struct opened *o, const struct degrees *d)
{
    struct arena *arena = arena_new();
    struct plan *plan = plan_of(o, *d);
    const char *words = degrees_text(arena, o->model, d, NULL);
    if (plan_check(plan) != WEFT_OK)
        fail_msg("%s: %s", words, weft_last_error()->message);
    expect_proof(plan);
    double folded = simulated_s(plan, FOLD_ALWAYS), all = simulated_s(plan, FOLD_NEVER);
    if (fabs(folded / all - 1) > 1e-6)
        fail_msg("%s: %.6f s folded, %.6f s unfolded", words, folded, all);
    double error = estimate_error(plan);
    plan_free(plan);
    arena_free(arena);
    return error;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void random_plans_are_sound(void **state)
{
    (void)state;
    int rounds = rounds_of(16);
    struct arena *arena = arena_new();
    double *error = ARENA_ARRAY(arena, double, (size_t)rounds);
    struct rng rng;
    rng_seed(&rng, 20261117);
    for (int i = 0; i < rounds; i++) {
        struct opened o = open_both("llama3-8b", "layers: 16, seq: 512, hidden: 1024, ffn: 2816",
                                    FLEETS[i % (int)COUNT_OF(FLEETS)]);
        struct degrees d = draw_degrees(&rng, o.cluster);
        error[i] = expect_sound(&o, &d);
        close_both(&o);
    }
    qsort(error, (size_t)rounds, sizeof *error, by_size);
    assert_true(error[rounds / 2] <= 0.005);
    assert_true(error[nine_tenths(rounds)] <= 0.05); /* uneven stages, on one type as well */
    arena_free(arena);
}

/* A cluster of two pools of one type, whose uplinks are all their NICs, computes what one cluster of all nodes does. */
static void pools_of_one_type_are_one(void **state)
{
    (void)state;
    struct opened two = open_both("llama3-8b", "layers: 8, seq: 512", "dgx-h100:1+dgx-h100:1");
    struct opened one = open_both("llama3-8b", "layers: 8, seq: 512", "dgx-h100:2");
    struct degrees d = {.pp = 2, .tp = 4, .micro_batch = 1, .global_batch = 16};
    struct plan *apart = plan_of(&two, d), *together = plan_of(&one, d);
    assert_true(fabs(simulated_s(apart, FOLD_AUTO) / simulated_s(together, FOLD_AUTO) - 1) < 1e-3);
    for (int32_t k = 0; k < apart->parts; k++)
        assert_int_equal(apart->part[k].first, together->part[k].first);
    plan_free(apart);
    plan_free(together);
    close_both(&two);
    close_both(&one);
}

/* ---- the search ------------------------------------------------------------------------------------ */

enum { LAYERS = 6 };

/* The fastest of all layouts of the layers over the parts from `part` on. */
static double best_layout(const struct opened *o, struct degrees d, const char *text, int64_t part,
                          int64_t left)
{
    char next[96];
    double best = INFINITY;
    if (part + 1 == d.pp) {
        snprintf(next, sizeof next, "%st*%lldL", text, (long long)left);
        d.layout = next;
        struct plan *plan = plan_of(o, d);
        struct prediction *p;
        assert_int_equal(plan_check(plan), WEFT_OK);
        assert_int_equal(simulate(plan, &(struct simulate_options){0}, &p), WEFT_OK);
        best = p->fits ? (double)p->iteration_ns : INFINITY;
        prediction_free(p);
        plan_free(plan);
        return best;
    }
    for (int64_t own = 1; own <= left - (d.pp - 1 - part); own++) {
        snprintf(next, sizeof next, "%st*%lld|", text, (long long)own);
        best = fmin(best, best_layout(o, d, next, part + 1, left - own));
    }
    return best;
}

static double brute_force(const struct opened *o, const struct degrees *pins)
{
    static const struct degrees SHAPES[] = {
        {.pp = 2, .tp = 1, .dp = 2}, {.pp = 2, .tp = 2, .dp = 1}, {.pp = 4, .tp = 1, .dp = 1}};
    double best = INFINITY;
    for (size_t i = 0; i < COUNT_OF(SHAPES); i++) {
        struct degrees d = *pins;
        d.pp = SHAPES[i].pp;
        d.tp = SHAPES[i].tp;
        d.dp = SHAPES[i].dp;
        d.sequence = d.tp > 1;
        best = fmin(best, best_layout(o, d, "E", 0, LAYERS));
    }
    return best;
}

static void the_search_finds_the_best_layout(void **state)
{
    (void)state;
    static const char *const CLUSTERS[] = {"dgx-h100:1x2+dgx-a100:1x2",
                                           "dgx-v100:1x2+dgx-h100:1x2"};
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++) {
        struct opened o = open_both("llama3-8b", "layers: 6, seq: 1024", CLUSTERS[i]);
        struct degrees pins = {.micro_batch = 1,
                               .global_batch = 16,
                               .schedule = "1f1b",
                               .has_recompute = true,
                               .has_shard = true};
        struct plan_request request = {
            .model = o.model, .cluster = o.cluster, .pins = pins, .options.quick = true};
        struct planned *planned;
        if (plan_search(planner_default(), &request, &planned) != WEFT_OK)
            fail_msg("%s: %s", CLUSTERS[i], weft_last_error()->message);
        double brute = brute_force(&o, &pins), found = (double)planned->trials.data[0].iteration_ns;
        assert_true(planned->trials.data[0].fits);
        if (found > brute * (1 + 1e-9))
            fail_msg("%s: %s takes %.6f ms, the best of all layouts %.6f", CLUSTERS[i],
                     planned->trials.data[0].text, found / 1e6, brute / 1e6);
        planned_free(planned);
        close_both(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_uplink_limits_a_send),
        cmocka_unit_test(the_latency_is_the_given_one),
        cmocka_unit_test(fits_between_nodes_of_a_pool_count),
        cmocka_unit_test(a_send_uses_both_uplinks),
        cmocka_unit_test(two_stages_on_two_types),
        cmocka_unit_test(slower_devices_get_fewer_layers),
        cmocka_unit_test(devices_are_those_of_their_pool),
        cmocka_unit_test(memory_is_that_of_the_stage),
        cmocka_unit_test(stages_stay_in_a_pool),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(random_plans_are_sound),
        cmocka_unit_test(pools_of_one_type_are_one),
        cmocka_unit_test(the_search_finds_the_best_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_jobs.c - several jobs on one fabric: what max-min fairness says by hand, jobs that do not meet, what is broken,
 * and where jobs are placed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/room.h"
#include "made_plan.h"
#include "rounds.h"

enum { JOBS = 2 };

/* Two jobs of the same plan on data/clusters/two-leaves.yaml: leaves of four nodes, whose uplink carries what the NICs
 * of one node do. */
struct neighbours {
    struct arena *arena;
    struct cluster *cluster;
    struct made made[JOBS];
    struct shared_job job[JOBS];
};

static struct neighbours neighbours_of(const char *model, const char *overrides,
                                       const struct degrees *degrees, const char *const where[JOBS])
{
    struct neighbours n = {.arena = arena_new()};
    n.cluster = open_cluster(WEFT_SOURCE_DIR "/data/clusters/two-leaves.yaml");
    for (int j = 0; j < JOBS; j++) {
        n.made[j] = make(model, overrides, "dgx-a100:2", degrees);
        assert_int_equal(placement_read(n.arena, n.cluster, where[j], 2, &n.job[j].placement), 0);
        n.made[j].plan->cluster = placed_cluster(n.arena, n.cluster, &n.job[j].placement);
        n.job[j].plan = n.made[j].plan;
    }
    return n;
}

static void part_with(struct neighbours *n)
{
    for (int j = 0; j < JOBS; j++)
        unmake(&n->made[j]);
    cluster_free(n->cluster);
    arena_free(n->arena);
}

enum { MOST_FAULTS = 4 };

/* `faults` ends with NULL; NULL: nothing is broken. */
static struct jobs_result run_for(struct neighbours *n, int32_t jobs, const char *const *faults,
                                  int32_t iterations)
{
    struct network_fault broken[MOST_FAULTS];
    struct jobs_request request = {.cluster = n->cluster,
                                   .job = n->job,
                                   .jobs = jobs,
                                   .fault = broken,
                                   .iterations = iterations};
    struct jobs_result result;
    for (; faults && *faults; faults++)
        assert_int_equal(fault_read(n->cluster, *faults, &broken[request.faults++]), WEFT_OK);
    if (jobs_run(n->arena, &request, &result))
        fail_msg("%s", weft_last_error()->message);
    return result;
}

static struct jobs_result run(struct neighbours *n, int32_t jobs, const char *const *faults)
{
    return run_for(n, jobs, faults, 3);
}

/* Replicas only, gradients after all computation in one piece: an iteration is computation, then one all-reduce. */
static const struct degrees REPLICAS = {
    .dp = 16, .global_batch = 16, .micro_batch = 1, .has_overlap = true};

/* How much longer the all-reduces of a plan take if links of this tier have 1 / `times` of their bandwidth, in ns: each
 * takes the largest of what its protocol and its links take. */
static double longer_by(const struct plan *plan, int16_t tier, double times)
{
    struct prediction *alone = NULL;
    struct simulate_options options = {
        .fold = FOLD_NEVER, .times_only = true, .shared_network = true};
    double sum = 0;
    assert_int_equal(simulate(plan, &options, &alone), WEFT_OK);
    const struct engine_graph *g = &alone->engine;
    for (int32_t t = 0; t < g->tasks; t++) {
        int32_t flow = g->task_flow[t];
        if (flow < 0)
            continue;
        double wires = 0, least = (double)g->flow_least_ns[flow];
        for (int64_t i = g->flow_use_first[flow]; i < g->flow_use_first[flow + 1]; i++) {
            const struct link_use *use = &g->flow_use[i];
            double bytes_per_ns = g->link_bytes_per_s[use->link] * 1e-9;
            if (alone->link[use->link].tier == tier && use->bytes / bytes_per_ns > wires)
                wires = use->bytes / bytes_per_ns;
        }
        double before = wires > least ? wires : least;
        double after = times * wires > least ? times * wires : least;
        sum += after - before;
    }
    prediction_free(alone);
    return sum;
}

static void identical_jobs_halve_a_link(void **state)
{
    (void)state;
    static const char *const ACROSS[] = {"0,4", "1,5"};
    struct neighbours n = neighbours_of("gpt3-350m", "layers: 2", &REPLICAS, ACROSS);
    struct jobs_result both = run(&n, 2, NULL), one = run(&n, 1, NULL);
    double by_hand = longer_by(n.job[0].plan, 1, 2);
    assert_true(by_hand > 1e6);
    for (int j = 0; j < JOBS; j++) {
        assert_int_equal(both.job[j].alone_ns, one.job[0].alone_ns);
        assert_int_equal(both.job[j].shared_ns, both.job[0].shared_ns);
        double found = (double)(both.job[j].shared_ns - both.job[j].alone_ns);
        if (found < by_hand - 2 || found > by_hand + 2)
            fail_msg("shared %.0f ns longer, by hand %.1f", found, by_hand);
        assert_non_null(strstr(both.job[j].held_at, "uplink of leaf"));
    }
    assert_int_equal(one.job[0].shared_ns, one.job[0].alone_ns);

    /* half of an uplink is what the other job leaves of it */
    struct jobs_result broken = run(&n, 1, (const char *const[]){"leaf=0:50", NULL});
    assert_int_equal(broken.job[0].shared_ns, both.job[0].shared_ns);
    part_with(&n);
}

/* To the nanosecond, in every iteration: in different leaves, and in one leaf, whose switch blocks nobody. */
static void disjoint_jobs_do_not_meet(void **state)
{
    (void)state;
    static const char *const PLACES[][JOBS] = {{"0-1", "4-5"}, {"0-1", "2-3"}, {"0,4", "2-3"}};
    static const struct degrees PIPELINE = {
        .dp = 2, .tp = 4, .pp = 2, .global_batch = 16, .micro_batch = 1};
    static const struct degrees EXPERTS = {
        .dp = 16, .tp = 1, .pp = 1, .ep = 16, .global_batch = 16, .micro_batch = 1};
    static const struct {
        const char *model, *overrides;
        const struct degrees *degrees;
    } PLANS[] = {{"gpt3-350m", "layers: 2", &REPLICAS},
                 {"gpt3-350m", "layers: 4", &PIPELINE},
                 {"mixtral-8x7b", "layers: 2, experts: 16", &EXPERTS}};
    for (size_t p = 0; p < COUNT_OF(PLANS); p++) {
        const char *const *where = PLACES[p];
        struct neighbours n =
            neighbours_of(PLANS[p].model, PLANS[p].overrides, PLANS[p].degrees, where);
        struct jobs_result both = run(&n, 2, NULL);
        for (int j = 0; j < JOBS; j++) {
            assert_int_equal(both.job[j].shared_ns, both.job[j].alone_ns);
            assert_int_equal(both.job[j].longest_ns, both.job[j].alone_ns);
            assert_true(both.job[j].slowdown == 1);
            assert_null(both.job[j].held_at);
        }
        struct prediction *alone = NULL;
        struct simulate_options options = {.fold = FOLD_AUTO, .times_only = true};
        assert_int_equal(simulate(n.job[0].plan, &options, &alone), WEFT_OK);
        assert_int_equal(both.job[0].alone_ns, alone->iteration_ns);
        prediction_free(alone);
        part_with(&n);
    }
}

/* A long and a short job that do not meet: all iterations that end no later than the first job is done (jobs.h, 1). */
static void iterations_count_until_one_is_done(void **state)
{
    (void)state;
    static const char *const APART[] = {"0-1", "4-5"};
    for (int layers = 1; layers <= 5; layers++) {
        char options[32];
        snprintf(options, sizeof options, "layers: %d", 2 * layers);
        struct neighbours n = neighbours_of("gpt3-350m", "layers: 3", &REPLICAS, APART);
        const struct cluster *own = n.made[1].plan->cluster;
        unmake(&n.made[1]);
        n.made[1] = make("gpt3-350m", options, "dgx-a100:2", &REPLICAS);
        n.made[1].plan->cluster = own;
        n.job[1].plan = n.made[1].plan;
        struct jobs_result both = run(&n, 2, NULL);
        int64_t longest = 0, done = INT64_MAX;
        for (int j = 0; j < JOBS; j++)
            longest = both.job[j].alone_ns > longest ? both.job[j].alone_ns : longest;
        for (int j = 0; j < JOBS; j++) {
            int64_t alone = both.job[j].alone_ns, end = ceil_div(3 * longest, alone) * alone;
            done = end < done ? end : done;
        }
        for (int j = 0; j < JOBS; j++) {
            assert_int_equal(both.job[j].iterations, done / both.job[j].alone_ns);
            assert_int_equal(both.job[j].shared_ns, both.job[j].alone_ns);
        }
        assert_int_not_equal(both.job[0].alone_ns, both.job[1].alone_ns);
        part_with(&n);
    }
}

/* Tokens between nodes meet those of a neighbour, though each job's own links are its own. */
static void tokens_meet(void **state)
{
    (void)state;
    static const struct degrees EXPERTS = {
        .dp = 16, .tp = 1, .pp = 1, .ep = 16, .global_batch = 16, .micro_batch = 1};
    static const char *const ACROSS[] = {"0,4", "1,5"};
    struct neighbours n = neighbours_of("mixtral-8x7b", "layers: 2, experts: 16", &EXPERTS, ACROSS);
    struct jobs_result both = run(&n, 2, NULL);
    assert_true(both.job[0].slowdown > 1.01 && both.job[0].slowdown <= 2);
    part_with(&n);
}

/* Of eight NICs four are left, and each carries twice as much. */
static void failed_nics(void **state)
{
    (void)state;
    static const char *const TOGETHER[] = {"0-1", "2-3"};
    static const char *const HALF[] = {"nic=0:0", "nic=0:1", "nic=0:4", "nic=0:5"};
    const char *faults[] = {HALF[0], HALF[1], HALF[2], HALF[3], NULL};
    struct neighbours n = neighbours_of("gpt3-350m", "layers: 2", &REPLICAS, TOGETHER);
    struct jobs_result sound = run(&n, 2, NULL), broken = run(&n, 2, faults);
    double by_hand = longer_by(n.job[0].plan, 0, 2);
    double found = (double)(broken.job[0].shared_ns - broken.job[0].alone_ns);
    assert_true(by_hand > 1e5);
    if (found < by_hand - 2 || found > by_hand + 2)
        fail_msg("without four NICs %.0f ns longer, by hand %.1f", found, by_hand);
    assert_int_equal(broken.job[1].shared_ns, sound.job[1].shared_ns);
    assert_non_null(strstr(broken.job[0].held_at, "of node 0"));
    struct network_fault fault;
    static const char *const WRONG[] = {"nic=8:0",   "nic=0:8",    "leaf=2:50", "leaf=0:0",
                                        "spine=0:1", "leaf=0:50x", "nic",       ""};
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        assert_int_equal(fault_read(n.cluster, WRONG[i], &fault), WEFT_BAD_INPUT);
    part_with(&n);
}

/* Times, and what is lost to a fault or a neighbour, are of one iteration, however many there are. */
static void results_are_of_one_iteration(void **state)
{
    (void)state;
    static const char *const ACROSS[] = {"0,4", "1,5"};
    const char *const faults[] = {"nic=0:0", "nic=0:1", NULL};
    struct neighbours n = neighbours_of("gpt3-350m", "layers: 2", &REPLICAS, ACROSS);
    for (int broken = 0; broken < 2; broken++) {
        int32_t jobs = broken ? 1 : 2;
        struct jobs_result one = run_for(&n, jobs, broken ? faults : NULL, 1);
        struct jobs_result many = run_for(&n, jobs, broken ? faults : NULL, 5);
        assert_true(one.job[0].held_ns > 0);
        assert_int_equal(many.job[0].iterations, 5 * one.job[0].iterations);
        assert_int_equal(many.job[0].shared_ns, one.job[0].shared_ns);
        assert_int_equal(many.job[0].held_ns, one.job[0].held_ns);
        assert_string_equal(many.job[0].held_at, one.job[0].held_at);
    }
    part_with(&n);
}

/* A job on two nodes of each leaf. Its second run of neighbours begins with its node number 2, which is node 4 of the
 * cluster: the uplink that is broken is its own. */
static void uplinks_of_several_neighbours(void **state)
{
    (void)state;
    static const struct degrees ALL = {
        .dp = 32, .global_batch = 32, .micro_batch = 1, .has_overlap = true};
    const char *faults[] = {"leaf=1:10", NULL};
    struct neighbours n = {.arena = arena_new()};
    n.cluster = open_cluster(WEFT_SOURCE_DIR "/data/clusters/two-leaves.yaml");
    n.made[0] = make("gpt3-350m", "layers: 2", "dgx-a100:4", &ALL);
    assert_int_equal(placement_read(n.arena, n.cluster, "0-1,4-5", 4, &n.job[0].placement), 0);
    n.made[0].plan->cluster = placed_cluster(n.arena, n.cluster, &n.job[0].placement);
    n.job[0].plan = n.made[0].plan;
    struct jobs_result result = run(&n, 1, faults);
    assert_true(result.job[0].slowdown > 1.5);
    assert_non_null(strstr(result.job[0].held_at, "leaf 1"));
    unmake(&n.made[0]);
    cluster_free(n.cluster);
    arena_free(n.arena);
}

/* ---- placing --------------------------------------------------------------------------------- */

static void expect_places(enum placing placing, const int64_t *nodes, const char *const *expected,
                          int32_t count)
{
    struct arena *arena = arena_new();
    struct cluster *cluster = open_cluster(WEFT_SOURCE_DIR "/data/clusters/two-leaves.yaml");
    struct placement jobs[4] = {0};
    for (int32_t j = 0; j < count; j++)
        jobs[j].nodes = nodes[j];
    assert_int_equal(jobs_place(arena, cluster, placing, jobs, count), WEFT_OK);
    for (int32_t j = 0; j < count; j++)
        assert_string_equal(placement_text(arena, &jobs[j]), expected[j]);
    cluster_free(cluster);
    arena_free(arena);
}

static void jobs_are_kept_apart(void **state)
{
    (void)state;
    /* one after the other, the second job of 3 straddles the leaves 0-3 and 4-7 */
    static const int64_t THREES[] = {3, 3}, MIXED[] = {1, 4, 2, 1}, LARGE[] = {5, 2};
    expect_places(PLACING_PACKED, THREES, (const char *const[]){"0-2", "3-5"}, 2);
    expect_places(PLACING_APART, THREES, (const char *const[]){"0-2", "4-6"}, 2);
    expect_places(PLACING_SPREAD, THREES, (const char *const[]){"0,4,1", "2,5,3"}, 2);
    /* the largest takes a leaf, the pair and the single ones the other */
    expect_places(PLACING_APART, MIXED, (const char *const[]){"6", "0-3", "4-5", "7"}, 4);
    expect_places(PLACING_APART, LARGE, (const char *const[]){"0-4", "5-6"}, 2);

    struct arena *arena = arena_new();
    struct cluster *cluster = open_cluster(WEFT_SOURCE_DIR "/data/clusters/two-leaves.yaml");
    struct placement many[] = {{5, NULL}, {4, NULL}}, read;
    assert_int_equal(jobs_place(arena, cluster, PLACING_APART, many, 2), WEFT_BAD_INPUT);
    static const char *const WRONG[] = {"", "0", "0-2", "0,0", "7-8", "1-0", "a", "0,1,", "0;1"};
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        assert_int_equal(placement_read(arena, cluster, WRONG[i], 2, &read), WEFT_BAD_INPUT);
    /* runs of one leaf: 2 nodes and 2 nodes; in turn: single nodes */
    assert_int_equal(placement_read(arena, cluster, "0-1,4-5", 4, &read), WEFT_OK);
    assert_int_equal(placed_cluster(arena, cluster, &read)->fabric.tier[0].nodes, 2);
    assert_int_equal(placement_read(arena, cluster, "0,4,1,5", 4, &read), WEFT_OK);
    assert_int_equal(placed_cluster(arena, cluster, &read)->fabric.tier[0].nodes, 1);
    cluster_free(cluster);
    arena_free(arena);
}

/* Any different nodes, in any order: as text and back; and nothing that is one node more, fewer, twice or elsewhere. */
static void placements_are_read_as_written(void **state)
{
    (void)state;
    enum { NODES = 32 };
    struct cluster *cluster = open_cluster("dgx-a100:32");
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < rounds_of(500); round++) {
        struct arena *scratch = arena_new();
        int64_t node[NODES + 1], nodes = 1 + rng_below(&rng, NODES - 1);
        struct placement made = {nodes, node}, read;
        for (int64_t i = 0; i < NODES; i++)
            node[i] = i;
        for (int64_t i = 0; i < NODES && round % 2; i++) {
            int64_t other = rng_below(&rng, NODES), own = node[i];
            node[i] = node[other], node[other] = own;
        }
        const char *text = placement_text(scratch, &made);
        assert_int_equal(placement_read(scratch, cluster, text, nodes, &read), WEFT_OK);
        assert_int_equal(read.nodes, nodes);
        assert_memory_equal(read.node, node, sizeof *node * (size_t)nodes);
        const char *const wrong[] = {
            arena_printf(scratch, "%s,%" PRId64, text, node[nodes]),
            arena_printf(scratch, "%s,%" PRId64, text, node[rng_below(&rng, nodes)]),
            arena_printf(scratch, "%s,", text), arena_printf(scratch, "%s,%d", text, NODES),
            arena_printf(scratch, "%s-", text)};
        for (size_t i = 0; i < COUNT_OF(wrong); i++)
            for (int64_t more = 0; more <= (i > 0); more++)
                assert_int_equal(placement_read(scratch, cluster, wrong[i], nodes + more, &read),
                                 WEFT_BAD_INPUT);
        assert_int_equal(placement_read(scratch, cluster, text, nodes + 1, &read), WEFT_BAD_INPUT);
        arena_free(scratch);
    }
    cluster_free(cluster);
}

/* What is compared with the limit is what is numbered: every task of every iteration, and the end of each. */
static void tasks_of_all_iterations_count(void **state)
{
    (void)state;
    struct prediction alone[JOBS] = {{.engine.tasks = 10}, {.engine.tasks = 100}};
    struct merged_job job[JOBS] = {{.alone = &alone[0], .iterations = 7},
                                   {.alone = &alone[1], .iterations = 3}};
    struct jobs_request request = {.jobs = JOBS};
    struct merged merged = {.request = &request, .job = job};
    assert_true(merged_tasks(&merged) == 7 * 11 + 3 * 101);
    assert_int_equal(iteration_end(&job[0], 6) + 1, 7 * 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identical_jobs_halve_a_link),
        cmocka_unit_test(disjoint_jobs_do_not_meet),
        cmocka_unit_test(iterations_count_until_one_is_done),
        cmocka_unit_test(tokens_meet),
        cmocka_unit_test(failed_nics),
        cmocka_unit_test(results_are_of_one_iteration),
        cmocka_unit_test(uplinks_of_several_neighbours),
        cmocka_unit_test(jobs_are_kept_apart),
        cmocka_unit_test(placements_are_read_as_written),
        cmocka_unit_test(tasks_of_all_iterations_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

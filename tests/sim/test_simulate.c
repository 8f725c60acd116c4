/* test_simulate.c - whole simulations: folded as unfolded, time accounted for, pipelines as theory
 * says, the same bytes in two threads as in one.
 *
 *   S1  Where groups are alike, one device for each stage gives the times of all, to the nanosecond.
 *   S2  A stage's times by purpose add up to the iteration (sim.h, I1).
 *   S3  No schedule deadlocks, whatever shape its check accepts.
 *   S4  Where sends take no time, slots follow each other as schedule_play says, whose bubbles
 *       test_schedule.c holds against the papers' equations.
 *   S5  Without `overlap: pipeline` a device does not compute while it sends.
 *   S6  Where the host is slower than the device, passes take as long as it needs for all of them.
 *   S7  A long iteration that is continued from shorter ones takes and holds what it does in full.
 *       Asked for briefly, it takes what it does to three hundredths, and holds it.
 *   S8  A stage's longest wait is said to be for what it waits for.
 *   S9  Stages that read nothing of each other run side by side.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folded.h"
#include "random_plan.h"
#include "sim/room.h"

static struct model *models[SMALL_MODEL_COUNT];

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        models[i] = open_small(&SMALL_MODELS[i]);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_MODEL_COUNT; i++)
        model_free(models[i]);
    return 0;
}

static void check_sums(const struct prediction *p)
{
    for (int32_t s = 0; s < p->plan->stages; s++) {
        int64_t sum = 0;
        for (int k = 0; k < TIME_COUNT; k++) {
            assert_true(p->stage[s].time_ns[k] >= 0);
            sum += p->stage[s].time_ns[k];
        }
        assert_int_equal(sum, p->iteration_ns); /* S2 */
    }
}

/* ---- folded and unfolded (S1) ---------------------------------------------------------------- */

enum { FOLD_CLUSTERS = 6 };

/* Whether the plan of this round is folded: then with the times of all its devices. */
static bool hold_round(int round, struct cluster *const clusters[FOLD_CLUSTERS])
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)round);
    const struct model *model = models[rng_below(&rng, SMALL_MODEL_COUNT)];
    struct plan *plan = random_plan(&rng, model, clusters[rng_below(&rng, FOLD_CLUSTERS)]);
    struct prediction *one = predict(plan, FOLD_AUTO);
    bool folded = one->graph->folded;
    check_sums(one);
    assert_false(one->folded_unalike);
    if (!folded && round % 8 == 0) {
        struct prediction *always = predict(plan, FOLD_ALWAYS);
        assert_true(always->folded_unalike); /* and it says so */
        prediction_free(always);
    }
    if (folded) {
        struct prediction *all = predict(plan, FOLD_NEVER);
        check_sums(all);
        if (one->iteration_ns != all->iteration_ns)
            fail_msg("round %d, %s on %s, %s: %lld and %lld ns", round, plan->model->name,
                     plan->cluster->name, plan->schedule, (long long)one->iteration_ns,
                     (long long)all->iteration_ns);
        prediction_free(all);
    }
    prediction_free(one);
    plan_free(plan);
    return folded;
}

/* In round 8365 steps meet copies from the host. */
static void test_folded_is_unfolded(void **state)
{
    (void)state;
    static const char *const NAMES[FOLD_CLUSTERS] = {
        "dgx-a100:2",  "dgx-h100:4",   "dgx-v100:2",
        "titan-rtx:1", "piz-daint:12", WEFT_SOURCE_DIR "/data/clusters/two-racks.yaml:2"};
    struct cluster *clusters[FOLD_CLUSTERS];
    int wanted = rounds_of(200), folded = 0, rounds = 0;
    for (size_t i = 0; i < FOLD_CLUSTERS; i++)
        clusters[i] = open_named(NAMES[i]);
    for (; folded < wanted; rounds++)
        folded += hold_round(rounds, clusters);
    assert_true(hold_round(8365, clusters));
    for (size_t i = 0; i < FOLD_CLUSTERS; i++)
        cluster_free(clusters[i]);
    assert_true(rounds < 10 * wanted); /* groups are alike often enough */
}

/* ---- pipelines (S3, S4) ---------------------------------------------------------------------- */

/* A pipeline of one-device stages, cut evenly by operators; NULL: the schedule refuses it. */
static struct plan *pipeline_plan(const struct model *model, const struct cluster *cluster,
                                  const struct schedule *schedule, const struct pipeline *shape)
{
    struct plan *plan = NULL;
    int64_t cut[64], devices[8], parts = (int64_t)shape->stages * shape->pieces;
    if (schedule->both_ways) /* a stage of one device has no halves (test_both_ways.c) */
        return NULL;
    if (schedule_check(schedule, shape) != WEFT_OK || plan_new(model, cluster, &plan) != WEFT_OK)
        return NULL;
    for (int64_t k = 0; k < parts - 1; k++)
        cut[k] = plan->instances * (k + 1) / parts;
    for (int32_t s = 0; s < shape->stages; s++)
        devices[s] = 1;
    plan_name_schedule(plan, schedule->name);
    plan->global_batch = shape->micro_batches;
    assert_int_equal(plan_map(plan, shape->stages, shape->pieces, cut, devices), WEFT_OK);
    assert_int_equal(plan_check(plan), WEFT_OK);
    return plan;
}

/* How long every slot of every stage and piece computes, and the end of the last. */
static int64_t slot_times(const struct prediction *p, int64_t *forward, int64_t *backward,
                          int64_t *weight)
{
    int64_t end = 0;
    for (int32_t t = 0; t < p->graph->tasks; t++) {
        const struct task *task = &p->graph->task[t];
        if (task->stream != STREAM_COMPUTE || task->block < 0)
            continue;
        const struct block *block = &p->graph->block[task->block];
        int32_t stage = plan_stage_of_part(p->plan, block->part);
        int32_t piece = block->part / p->plan->stages;
        int64_t at = stage * p->plan->pieces + piece;
        int64_t ns = p->result.end_ns[t] - p->result.start_ns[t];
        end = p->result.end_ns[t] > end ? p->result.end_ns[t] : end;
        if (task->micro_batch != 0)
            continue;
        if (block->kind == SLOT_FORWARD)
            forward[at] += ns;
        else
            backward[at] += ns;
        if (block->kind == SLOT_BACKWARD_WEIGHT)
            weight[at] += ns;
    }
    return end;
}

static void test_pipelines_are_as_played(void **state)
{
    (void)state;
    enum { MOST = 8 };
    const struct schedule *schedules;
    size_t count = schedule_all(&schedules);
    static const struct small_model LONG = {
        "gpt", "{layers: 6, hidden: 32, heads: 4, seq: 16, vocab: 96}"};
    struct model *model = open_small(&LONG);
    int played = 0, step = rounds_of(100) < 100 ? 3 : 1;
    for (int32_t p = 1; p <= MOST; p++) {
        struct cluster *cluster = open_named(arena_printf(
            model->arena, "%s/tests/data/cluster/free-links.yaml:%d", WEFT_SOURCE_DIR, p));
        for (size_t k = 0; k < count; k++)
            for (int32_t m = 1; m <= MOST; m += step)
                for (int32_t v = 1; v <= MOST; v += step) {
                    struct pipeline shape = {p, v, m};
                    struct plan *plan = pipeline_plan(model, cluster, &schedules[k], &shape);
                    if (!plan)
                        continue;
                    struct prediction *x = predict(plan, FOLD_AUTO); /* S3 */
                    int64_t forward[64] = {0}, backward[64] = {0}, weight[64] = {0}, expected;
                    int64_t end = slot_times(x, forward, backward, weight);
                    check_sums(x);
                    struct pipeline_times times = {forward, backward, weight, 0};
                    assert_int_equal(schedule_play(&schedules[k], &shape, &times, &expected),
                                     WEFT_OK);
                    int64_t most = expected + 4 * (int64_t)(m + 1) * v * p; /* S4 */
                    if (end < expected || end > most)
                        fail_msg("%s %d x %d, %d micro-batches: %lld ns, expected %lld",
                                 schedules[k].name, p, v, m, (long long)end, (long long)expected);
                    played++;
                    prediction_free(x);
                    plan_free(plan);
                }
        cluster_free(cluster);
    }
    model_free(model);
    assert_true(played > 50);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 2, THREAD_ROUNDS = 12 };
struct worker {
    pthread_t thread;
    uint64_t digest[THREAD_ROUNDS];
};

/* All of a few simulations' times, on models and clusters of its own. */
static void *work(void *data)
{
    struct worker *worker = data;
    struct cluster *cluster = open_named("dgx-a100:2");
    for (int round = 0; round < THREAD_ROUNDS; round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        struct model *model = open_small(&SMALL_MODELS[round]);
        struct plan *plan = random_plan(&rng, model, cluster);
        struct prediction *p = predict(plan, FOLD_AUTO);
        size_t bytes = (size_t)p->graph->tasks * sizeof *p->result.end_ns;
        uint64_t digest = hash_bytes(p->result.end_ns, bytes, (uint64_t)p->iteration_ns);
        worker->digest[round] = hash_bytes(p->result.start_ns, bytes, digest);
        prediction_free(p);
        plan_free(plan);
        model_free(model);
    }
    cluster_free(cluster);
    return NULL;
}

static void test_threads_do_not_meet(void **state)
{
    (void)state;
    struct worker alone, together[THREADS];
    work(&alone);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&together[i].thread, NULL, work, &together[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(together[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_memory_equal(alone.digest, together[i].digest, sizeof alone.digest);
}

/* ---- what is not overlapped (S5) ------------------------------------------------------------- */

/* Sends during which their device computes. */
static int sends_beside_work(const struct prediction *p)
{
    int beside = 0;
    for (int32_t t = 0; t < p->graph->tasks; t++) {
        const struct task *send = &p->graph->task[t];
        bool found = false;
        if (send->stream != STREAM_NEXT && send->stream != STREAM_PREVIOUS)
            continue;
        for (int32_t u = 0; u < p->graph->tasks && !found; u++) {
            const struct task *work = &p->graph->task[u];
            found = work->device == send->device && work->stream == STREAM_COMPUTE &&
                    p->result.start_ns[u] < p->result.end_ns[t] &&
                    p->result.end_ns[u] > p->result.start_ns[t];
        }
        beside += found;
    }
    return beside;
}

static void test_sends_block(void **state)
{
    (void)state;
    struct model *model;
    struct cluster *cluster = open_named("dgx-a100:2");
    assert_int_equal(model_open("gpt3-350m", NULL, &model), WEFT_OK);
    for (int overlapped = 0; overlapped < 2; overlapped++) {
        struct degrees degrees = {.tp = 8,
                                  .pp = 2,
                                  .micro_batch = 2,
                                  .global_batch = 16,
                                  .has_overlap = true,
                                  .overlap = overlapped ? OVERLAP_PIPELINE : 0};
        struct plan *plan;
        assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
        struct prediction *p = predict(plan, FOLD_ALWAYS);
        if (overlapped)
            assert_true(sends_beside_work(p) > 0);
        else
            assert_int_equal(sends_beside_work(p), 0);
        prediction_free(p);
        plan_free(plan);
    }
    model_free(model);
    cluster_free(cluster);
}

/* ---- waits (S8) ------------------------------------------------------------------------------ */

/* One micro-batch: stages wait for their activations and then for their gradients, the first for these alone, which is
 * all of its time but work. The third of four waits two forward passes for activations and, with a backward pass of two,
 * three for gradients. */
static void test_waits_have_their_words(void **state)
{
    (void)state;
    static const char *const TWO[] = {"gradients from stage 1", "activations from stage 0"};
    static const char *const FOUR[] = {"gradients from stage 1", "gradients from stage 2",
                                       "gradients from stage 3", "activations from stage 2"};
    static const char *const ONE[] = {"gradient synchronisation"};
    static const struct {
        struct degrees degrees;
        const char *const *words;
    } ROWS[] = {{{.pp = 2, .tp = 8, .micro_batch = 1, .global_batch = 1}, TWO},
                {{.pp = 4, .dp = 4, .micro_batch = 1, .global_batch = 4}, FOUR},
                {{.pp = 1, .dp = 16, .micro_batch = 1, .global_batch = 16}, ONE}};
    struct model *model;
    struct cluster *cluster = open_named("dgx-a100:2");
    assert_int_equal(model_open("llama2-7b", "layers: 8", &model), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct plan *plan;
        assert_int_equal(plan_from_degrees(model, cluster, &ROWS[i].degrees, &plan), WEFT_OK);
        struct prediction *p = predict(plan, FOLD_ALWAYS);
        for (int32_t s = 0; s < plan->stages; s++)
            assert_string_equal(p->stage[s].waits_most, ROWS[i].words[s]);
        if (plan->stages > 1)
            assert_int_equal(p->stage[0].waits_most_ns, p->stage[0].time_ns[TIME_BUBBLE] +
                                                            p->stage[0].time_ns[PURPOSE_PIPELINE]);
        prediction_free(p);
        plan_free(plan);
    }
    model_free(model);
    cluster_free(cluster);
}

/* ---- long iterations (S7) --------------------------------------------------------------------- */

static void expect_nearly(const struct prediction *full, bool grows)
{
    static const struct simulate_options OPTIONS = {.fold = FOLD_ALWAYS, .briefly = true};
    struct prediction *brief = NULL;
    assert_int_equal(simulate(full->plan, &OPTIONS, &brief), WEFT_OK);
    int64_t stages = full->plan->stages, played = plan_micro_batches(brief->graph->plan);
    assert_true(played <= 16 + 4 * stages);
    if (full->plan->pieces == 1 && stages >= 16) /* a round, what is left of one, and eight */
        assert_int_equal(played, stages + plan_micro_batches(full->plan) % stages + 8);
    double off = (double)brief->iteration_ns / (double)full->iteration_ns - 1;
    if (fabs(off) > 0.03)
        fail_msg("%s: off by %.2f %%", full->plan->schedule, 100 * off);
    check_sums(brief);
    for (int32_t s = 0; s < full->plan->stages; s++) {
        double held = (double)full->stage[s].memory.peak;
        assert_true(fabs((double)brief->stage[s].memory.peak - held) <= (grows ? 1e-3 * held : 0));
    }
    prediction_free(brief);
}

static void expect_as_in_full(const struct plan *plan, bool grows)
{
    static const struct simulate_options OPTIONS = {.fold = FOLD_ALWAYS};
    struct prediction *full = NULL, *continued = NULL;
    assert_int_equal(simulate_all(plan, &OPTIONS, &full), WEFT_OK);
    assert_int_equal(simulate(plan, &OPTIONS, &continued), WEFT_OK);
    assert_ptr_equal(continued->plan, plan);
    assert_ptr_not_equal(continued->graph->plan, plan);
    assert_true(continued->graph->tasks < full->graph->tasks);
    double off = (double)continued->iteration_ns / (double)full->iteration_ns - 1;
    if (fabs(off) > 1e-7)
        fail_msg("%s: %lld ns, expected %lld", plan->schedule, (long long)continued->iteration_ns,
                 (long long)full->iteration_ns);
    assert_true(fabs(continued->flops / full->flops - 1) < 1e-12);
    assert_int_equal(continued->fits, full->fits);
    check_sums(continued);
    for (int32_t s = 0; s < plan->stages; s++) {
        const struct stage_peak *a = &continued->stage[s].memory, *b = &full->stage[s].memory;
        double room = grows ? 1e-3 * (double)b->peak : 0;
        assert_true(fabs((double)(a->peak - b->peak)) <= room);
        room = (grows ? 0.1 : 0.02) * (double)b->reserved; /* blocks are rounded up */
        assert_true(fabs((double)(a->reserved - b->reserved)) <= room);
        for (int t = 0; t < TIME_COUNT; t++)
            assert_true(fabs((double)(continued->stage[s].time_ns[t] - full->stage[s].time_ns[t])) <
                        1e-5 * (double)full->iteration_ns);
    }
    expect_nearly(full, grows);
    prediction_free(full);
    prediction_free(continued);
}

/* Many stages: of one piece, a part of a round shows the pace; of two, two rounds, which dualpipev needs to start with.
 * Hanayo's order goes on changing: all of it is simulated. */
static void test_briefly_with_many_stages(void **state)
{
    (void)state;
    static const struct small_model SMALL = {
        "gpt", "{layers: 32, hidden: 32, heads: 4, seq: 16, vocab: 96}"};
    static const struct {
        const char *schedule;
        int64_t pieces, micro_batches;
        bool whole;
    } ROWS[] = {{"1f1b", 1, 341, false},
                {"zb-v", 2, 240, false},
                {"dualpipev", 2, 240, false},
                {"hanayo", 2, 240, true}};
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    struct model *model = open_small(&SMALL);
    struct cluster *cluster = open_named("dgx-a100:2");
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct degrees degrees = {.dp = 1,
                                  .tp = 1,
                                  .pp = 16,
                                  .pieces = ROWS[i].pieces,
                                  .micro_batch = 1,
                                  .global_batch = ROWS[i].micro_batches,
                                  .schedule = ROWS[i].schedule};
        struct plan *plan = NULL;
        struct prediction *full = NULL, *brief = NULL;
        assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
        options.briefly = false;
        assert_int_equal(simulate_all(plan, &options, &full), WEFT_OK);
        options.briefly = true;
        assert_int_equal(simulate(plan, &options, &brief), WEFT_OK);
        assert_int_equal(brief->graph->plan == plan, ROWS[i].whole);
        if (!ROWS[i].whole)
            expect_nearly(full, false);
        prediction_free(full);
        prediction_free(brief);
        plan_free(plan);
    }
    model_free(model);
    cluster_free(cluster);
}

/* Collectives and sends through the same network cards: asked for briefly, blocks stay whole, and the answer says so. */
static void test_briefly_steps_meet_no_sends(void **state)
{
    (void)state;
    static const struct small_model SMALL = {
        "gpt", "{layers: 8, hidden: 1024, heads: 16, seq: 512, vocab: 96}"};
    static const struct {
        int64_t tp;
        bool apart; /* groups of 16 leave their node, groups of 8 do not */
    } ROWS[] = {{16, true}, {8, false}};
    struct model *model = open_small(&SMALL);
    struct cluster *cluster = open_named("dgx-a100:8");
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct degrees degrees = {
            .dp = 1, .tp = ROWS[i].tp, .pp = 64 / ROWS[i].tp, .micro_batch = 1, .global_batch = 64};
        struct simulate_options options = {.fold = FOLD_ALWAYS};
        struct plan *plan = NULL;
        struct prediction *full = NULL, *brief = NULL;
        assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
        assert_int_equal(simulate(plan, &options, &full), WEFT_OK);
        options.briefly = true;
        assert_int_equal(simulate(plan, &options, &brief), WEFT_OK);
        assert_ptr_equal(brief->graph->plan, plan); /* few slots: nothing is extrapolated */
        assert_false(full->graph->sends_apart);
        assert_int_equal(brief->graph->sends_apart, ROWS[i].apart);
        assert_int_equal(brief->graph->tasks < full->graph->tasks / 4, ROWS[i].apart);
        assert_true(fabs((double)brief->iteration_ns / (double)full->iteration_ns - 1) < 0.03);
        prediction_free(full);
        prediction_free(brief);
        plan_free(plan);
    }
    model_free(model);
    cluster_free(cluster);
}

/* Each a few more micro-batches than are simulated, and no multiple of anything. */
static void test_long_iterations_are_continued(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        int64_t pp, pieces, segments, micro_batches;
        bool grows; /* with the micro-batches: it holds all of them at once */
    } ROWS[] = {
        {"1f1b", 1, 1, 1, 70001, false},       {"1f1b", 8, 1, 1, 9001, false},
        {"zb-h1", 8, 1, 1, 9001, false},       {"gpipe", 4, 1, 1, 20011, true},
        {"interleaved", 4, 3, 1, 6004, false}, {"aiao", 4, 1, 3, 6004, true},
    };
    static const struct small_model SMALL = {
        "gpt", "{layers: 12, hidden: 32, heads: 4, seq: 16, vocab: 96}"};
    struct model *model = open_small(&SMALL);
    for (int i = 0; i < cases_of(COUNT_OF(ROWS)); i++) {
        char name[32];
        snprintf(name, sizeof name, "dgx-a100:1x%lld", (long long)ROWS[i].pp);
        struct cluster *cluster = open_named(name);
        struct degrees degrees = {.dp = 1,
                                  .tp = 1,
                                  .pp = ROWS[i].pp,
                                  .pieces = ROWS[i].pieces,
                                  .segments = ROWS[i].segments,
                                  .schedule = ROWS[i].schedule,
                                  .micro_batch = 1,
                                  .global_batch = ROWS[i].micro_batches};
        struct plan *plan = NULL;
        if (plan_from_degrees(model, cluster, &degrees, &plan) || plan_check(plan))
            fail_msg("%s: %s", ROWS[i].schedule, weft_last_error()->message);
        expect_as_in_full(plan, ROWS[i].grows);
        plan_free(plan);
        cluster_free(cluster);
    }
    model_free(model);
}

/* ---- the host (S6) --------------------------------------------------------------------------- */

/* Without the optimizer's step; how many operators of all layers have weights. */
static int64_t passes_ns(const struct model *model, const struct cluster *cluster,
                         enum policy policy, int64_t *weighted)
{
    struct degrees degrees = {.micro_batch = 1,
                              .global_batch = 4,
                              .has_policy = true,
                              .policy = policy,
                              .has_dtype = true,
                              .dtype = DTYPE_BF16};
    struct plan *plan = NULL;
    assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
    struct prediction *p = predict(plan, FOLD_AUTO);
    int64_t ns = p->iteration_ns - p->stage[0].time_ns[PURPOSE_OPTIMIZER];
    *weighted = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        *weighted += model->op[plan->instance[i].op].weights > 0;
    prediction_free(p);
    plan_free(plan);
    return ns;
}

/* A GPT of two narrow layers on one H200 waits for the host, so what FSDP2 asks of it beside its
 * kernels comes on top, in each of 4 micro-batches: per operator with weights the hooks of both passes,
 * a kernel for the copies, and a quarter of a reduction and of a step. */
static void test_host_bound(void **state)
{
    (void)state;
    struct model *model = NULL;
    assert_int_equal(model_open("gpt2", "layers: 2, hidden: 128, heads: 2, seq: 64", &model),
                     WEFT_OK);
    struct cluster *cluster = open_named("hgx-h200:1x1");
    struct handling handling = policy_handling(POLICY_FSDP, 0, 1, 4);
    struct cost *cost = NULL;
    int64_t weighted;
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    int64_t plain = passes_ns(model, cluster, POLICY_MIXED_FP32_GRADIENTS, &weighted);
    int64_t sharded = passes_ns(model, cluster, POLICY_FSDP, &weighted);
    double issues = handling.forward_issues + handling.backward_issues + 1;
    double expected = 4 * (double)weighted * issues * (double)cost_host_step_ns(cost);
    assert_true(weighted > 12); /* six of each layer */
    assert_true(fabs((double)(sharded - plain) / expected - 1) < 1e-3);
    cost_close(cost);
    cluster_free(cluster);
    model_free(model);
}

/* ---- side by side (S9) ----------------------------------------------------------------------- */

/* When the first task of a stage begins. */
static int64_t begins(const struct prediction *p, int32_t stage)
{
    int64_t first = INT64_MAX;
    for (int32_t t = 0; t < p->graph->tasks; t++)
        if (p->graph->device[p->graph->task[t].device].stage == stage &&
            p->result.start_ns[t] < first)
            first = p->result.start_ns[t];
    return first;
}

static void test_side_by_side(void **state)
{
    (void)state;
    struct opened_plan opened;
    if (plan_load(WEFT_SOURCE_DIR "/data/plans/side-by-side.yaml", &opened) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    struct prediction *p = predict(opened.plan, FOLD_AUTO);
    assert_int_equal(begins(p, 0), 0);
    assert_int_equal(begins(p, 1), 0);
    assert_true(begins(p, 2) > 0);
    prediction_free(p);
    plan_close(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded_is_unfolded),
        cmocka_unit_test(test_pipelines_are_as_played),
        cmocka_unit_test(test_threads_do_not_meet),
        cmocka_unit_test(test_sends_block),
        cmocka_unit_test(test_waits_have_their_words),
        cmocka_unit_test(test_host_bound),
        cmocka_unit_test(test_long_iterations_are_continued),
        cmocka_unit_test(test_briefly_with_many_stages),
        cmocka_unit_test(test_briefly_steps_meet_no_sends),
        cmocka_unit_test(test_side_by_side),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

/* test_reality.c - what is predicted and what runs, where that does not depend on how fast anything is.
 *
 *   P1  On every rank the memory of a run is within 5 % of the predicted peak, under plans of every kind.
 *   P2  With sharded gradients it is so however long transfers take.
 *   P3  Gradients are synchronised while others are still computed; without overlap, after all of them.
 *   P4  A trace that is folded back makes the prediction that of the trace.
 *   P5  Where one core computes and moves, overlap is predicted to gain less.
 *   P6  With segments and offload it is within 3 % for 16 to 512 micro-batches: neither checkpoints nor what waits to be
 *       sent grows with them on the devices (Fold3D, section 4).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "report/report.h"
#include "rounds.h"
#include "run_lab.h"
#include "scratch_folder.h"

static const char MODEL[] = "layers: 4, hidden: 128, heads: 4, seq: 128, vocab: 512, dropout: 0";

struct bed {
    struct model *model;
    struct cluster *cluster;
};

static struct bed bed_of(const char *options)
{
    struct bed bed;
    assert_int_equal(model_open("gpt2", options, &bed.model), WEFT_OK);
    assert_int_equal(cluster_ranks(2, &bed.cluster), WEFT_OK);
    return bed;
}

static struct bed bed_open(void)
{
    return bed_of(MODEL);
}

static void bed_close(struct bed *bed)
{
    model_free(bed->model);
    cluster_free(bed->cluster);
}

static struct plan *plan_on(const struct bed *bed, struct degrees degrees)
{
    struct plan *plan = NULL;
    degrees.has_dtype = degrees.has_policy = true;
    degrees.dtype = DTYPE_FP32;
    degrees.policy = POLICY_FP32;
    if (plan_from_degrees(bed->model, bed->cluster, &degrees, &plan) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return plan;
}

/* ---- memory ---------------------------------------------------------------------------------- */

#define BATCH .micro_batch = 2, .global_batch = 8
#define AGAIN .recompute = RECOMPUTE_FULL, .has_recompute = true
static const struct degrees DEGREES[] = {
    {.dp = 2, BATCH},
    {.dp = 2, BATCH, .shard = 1},
    {.dp = 2, BATCH, .shard = 2},
    {.dp = 2, BATCH, .shard = 3},
    {.dp = 2, BATCH, .shard = 2, .bucket_bytes = 1 << 20, .has_bucket = true},
    {.dp = 2, BATCH, .shard = 3, AGAIN},
    {.dp = 2, BATCH, AGAIN},
    {.dp = 2, BATCH, AGAIN, .offload = true},
    {.tp = 2, BATCH},
    {.tp = 2, BATCH, .sequence = true},
    {.tp = 2, BATCH, .sequence = true, .recompute = RECOMPUTE_SELECTIVE, .has_recompute = true},
    {.cp = 2, BATCH},
    {.pp = 2, BATCH},
    {.pp = 2, BATCH, .schedule = "gpipe"},
    {.pp = 2, BATCH, .schedule = "interleaved", .pieces = 2},
    {.pp = 2, BATCH, .schedule = "aiao", .segments = 2},
    {.pp = 2, BATCH, AGAIN},
};

static struct trained *run_bed(const struct bed *bed, const struct degrees *degrees,
                               const struct slowdown *slowdown)
{
    struct plan *plan = plan_on(bed, *degrees);
    struct laboratory lab = {
        .plan = plan, .options = lab_options(bed->model), .slowdown = slowdown, .steps = 1};
    lab.options.slice_bytes = 1 << 16;
    lab.options.optimizer = (struct optimizer_step){
        .kind = OPTIMIZER_ADAM, .rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-8F};
    struct trained *trained = run_lab(&lab);
    if (trained->status)
        fail_msg("%s", trained->why);
    plan_free(plan);
    return trained;
}

static void test_memory_is_as_predicted(void **state)
{
    (void)state;
    struct bed bed = bed_open();
    for (size_t i = 0; i < COUNT_OF(DEGREES); i++) {
        struct trained *trained = run_bed(&bed, &DEGREES[i], NULL);
        if (trained->memory_error > 0.05)
            fail_msg("plan %zu: the peak is %.1f %% off", i, 100 * trained->memory_error);
        trained_free(trained);
    }
    bed_close(&bed);
}

/* Two parts of two layers each: while a part's last weights are in use, the first of the next slot's part are gathered, and until
 * its first gradients are complete, the last of the slot before are whole (compile/gathered_spans.c, I1); 10 % of the peak.
 * That is the most that a run can hold, and it does if no transfer ends before the computation beside it: those of a rank that
 * had to wait for its core can. So a bucket takes 30 ms here, and weights are nearly all of the memory. */
static void test_memory_at_borders_of_parts(void **state)
{
    (void)state;
    static const struct degrees PARTS = {.dp = 2, BATCH, .shard = 3, .pieces = 2};
    static const struct slowdown SLOW = {1, 1e-3, 100e6};
    struct bed bed = bed_of("layers: 4, hidden: 256, heads: 4, seq: 8, vocab: 64, dropout: 0");
    struct trained *trained = run_bed(&bed, &PARTS, &SLOW);
    if (trained->memory_error > 0.02)
        fail_msg("the peak is %.1f %% off", 100 * trained->memory_error);
    trained_free(trained);
    bed_close(&bed);
}

/* The last gradients of a micro-batch and the first ones of the next are those of two tables of the vocabulary, each a
 * sixth of the memory: what the former take is free before the latter are made. */
static void test_memory_between_micro_batches(void **state)
{
    (void)state;
    static const struct degrees SHARDED = {.dp = 2, BATCH, .shard = 2};
    struct bed bed =
        bed_of("layers: 4, hidden: 128, heads: 4, seq: 8, vocab: 4096, dropout: 0, tied: false");
    struct trained *trained = run_bed(&bed, &SHARDED, NULL);
    if (trained->memory_error > 0.05)
        fail_msg("the peak is %.1f %% off", 100 * trained->memory_error);
    trained_free(trained);
    bed_close(&bed);
}

/* P2. A bucket takes 10 ms and more, its computation about as long. */
static void test_memory_does_not_depend_on_speed(void **state)
{
    (void)state;
    static const struct slowdown SLOW = {1, 2e-3, 50e6};
    struct bed bed = bed_open();
    for (size_t i = 0; i < COUNT_OF(DEGREES); i++) {
        if (DEGREES[i].shard < 2)
            continue;
        struct trained *trained = run_bed(&bed, &DEGREES[i], &SLOW);
        if (trained->memory_error > 0.05)
            fail_msg("plan %zu: the peak is %.1f %% off", i, 100 * trained->memory_error);
        trained_free(trained);
    }
    bed_close(&bed);
}

/* P6. Without the copies in host memory 512 micro-batches would hold 2 MB more than the 7 MB that are predicted. */
static void test_segments_hold_what_is_predicted(void **state)
{
    (void)state;
    static const int64_t MICRO_BATCHES[] = {16, 32, 64, 128, 256, 512};
    struct bed bed = bed_of("layers: 4, hidden: 128, heads: 4, seq: 8, vocab: 64, dropout: 0");
    for (int i = 0; i < cases_of(COUNT_OF(MICRO_BATCHES)); i++) {
        struct degrees degrees = {.pp = 2,
                                  .micro_batch = 1,
                                  .global_batch = MICRO_BATCHES[i],
                                  .schedule = "aiao",
                                  .segments = 2,
                                  AGAIN,
                                  .offload = true};
        struct trained *trained = run_bed(&bed, &degrees, NULL);
        print_message("%lld micro-batches: the peak is %.2f %% off\n", (long long)MICRO_BATCHES[i],
                      100 * trained->memory_error);
        if (trained->memory_error > 0.03)
            fail_msg("%lld micro-batches: the peak is %.1f %% off", (long long)MICRO_BATCHES[i],
                     100 * trained->memory_error);
        trained_free(trained);
    }
    bed_close(&bed);
}

/* ---- overlap --------------------------------------------------------------------------------- */

/* One of two ranks, and what it recorded. */
struct witness {
    const struct plan *plan;
    struct hub *hub;
    int32_t number;
    pthread_t thread;
    bool overlapped; /* some gradients went before all were there */
    weft_status status;
};

static int64_t last_backward_ns(const struct graph *graph, const struct run_event *event,
                                size_t events)
{
    int64_t last_ns = 0;
    for (size_t i = 0; i < events; i++)
        if (graph->task[event[i].task].purpose == PURPOSE_BACKWARD && event[i].end_ns > last_ns)
            last_ns = event[i].end_ns;
    return last_ns;
}

static weft_status witness_step(struct witness *w, struct transport *transport)
{
    struct run_options options = lab_options(w->plan->model);
    struct rank *rank = NULL;
    const struct run_event *event;
    double loss;
    weft_status status;
    options.plan = w->plan;
    options.transport = transport;
    options.trace = true;
    TRY(run_open(&options, &rank));
    TRY(run_step(rank, &loss));
    size_t events = run_events(rank, &event);
    const struct graph *graph = run_graph(rank);
    int64_t last_ns = last_backward_ns(graph, event, events);
    for (size_t i = 0; i < events; i++)
        w->overlapped |=
            graph->task[event[i].task].stream == STREAM_GRADIENT && event[i].begin_ns < last_ns;
done:
    run_close(rank);
    return status;
}

static void *witness_thread(void *context)
{
    struct witness *w = context;
    struct transport *transport = transport_threads(w->hub, w->number);
    w->status = witness_step(w, transport);
    transport->kind->close(transport);
    return NULL;
}

static bool any_overlap(const struct plan *plan)
{
    struct witness witness[2];
    struct hub *hub = hub_new(2, NULL);
    for (int32_t i = 0; i < 2; i++) {
        witness[i] = (struct witness){.plan = plan, .hub = hub, .number = i};
        pthread_create(&witness[i].thread, NULL, witness_thread, &witness[i]);
    }
    for (int32_t i = 0; i < 2; i++) {
        pthread_join(witness[i].thread, NULL);
        assert_int_equal(witness[i].status, WEFT_OK);
    }
    hub_free(hub);
    assert_int_equal(witness[0].overlapped, witness[1].overlapped);
    return witness[0].overlapped;
}

/* Computation waits with the third bucket until the second one goes (stores.c, I3): that it overlaps is no
 * matter of speed. */
static void test_gradients_go_while_others_are_computed(void **state)
{
    (void)state;
    struct bed bed = bed_open();
    struct plan *plan = plan_on(&bed, (struct degrees){.dp = 2,
                                                       .shard = 2,
                                                       .micro_batch = 2,
                                                       .global_batch = 4,
                                                       .bucket_bytes = 256 << 10,
                                                       .has_bucket = true});
    assert_true(any_overlap(plan));
    plan->overlap = 0;
    assert_false(any_overlap(plan));
    plan_free(plan);
    bed_close(&bed);
}

/* ---- folding back ---------------------------------------------------------------------------- */

/* A run that took for each task `slower` times what is predicted, three steps of it. */
static void write_trace(struct arena *scratch, const struct prediction *prediction, double slower,
                        const char *path)
{
    const struct graph *graph = prediction->graph;
    const struct engine_result *result = &prediction->result;
    int64_t step_ns = (int64_t)(slower * 2 * (double)prediction->iteration_ns);
    ARRAY(struct measured_task) tasks = {0};
    for (int64_t step = 0; step < 3; step++)
        for (int32_t i = 0; i < graph->tasks; i++) {
            struct measured_task task = {step + 1, i, graph->task[i].device, 0, 0};
            task.begin_ns = step * step_ns + (int64_t)(slower * (double)result->start_ns[i]);
            task.end_ns = step * step_ns + (int64_t)(slower * (double)result->end_ns[i]);
            array_push(scratch, &tasks, task);
        }
    assert_int_equal(trace_write_measured(graph, tasks.data, tasks.len, path), WEFT_OK);
}

static double error_of(struct measured_pair pair)
{
    return fabs(pair.predicted_s / pair.measured_s - 1);
}

static void check_fold_back(const struct scratch *scratch, struct degrees degrees, double slower)
{
    struct bed bed = bed_open();
    struct plan *plan = plan_on(&bed, degrees);
    struct prediction *before, *after;
    const char *trace = scratch_path(scratch, "trace.json");
    const char *db = scratch_path(scratch, "folded.sqlite");
    struct overlay overlay;
    int64_t kernels;
    remove(db);
    assert_int_equal(simulate(plan, &(struct simulate_options){.fold = FOLD_NEVER}, &before),
                     WEFT_OK);
    write_trace(scratch->arena, before, slower, trace);
    assert_int_equal(overlay_read(scratch->arena, trace, before, &overlay), WEFT_OK);
    assert_true(error_of(overlay.iteration) > 0.3);
    if (overlay_fold_back(&overlay, before, NULL, db, &kernels) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    assert_true(kernels > 10);
    assert_int_equal(
        simulate(plan, &(struct simulate_options){.fold = FOLD_NEVER, .profile = db}, &after),
        WEFT_OK);
    assert_int_equal(overlay_read(scratch->arena, trace, after, &overlay), WEFT_OK);
    for (int32_t s = 0; s < plan->stages; s++)
        assert_true(error_of(overlay.stage[s].compute) < 0.01);
    assert_true(error_of(overlay.iteration) < 0.05);
    prediction_free(before);
    prediction_free(after);
    plan_free(plan);
    bed_close(&bed);
}

static void test_folding_back(void **state)
{
    const struct scratch *scratch = *state;
    check_fold_back(scratch, (struct degrees){.micro_batch = 4, .global_batch = 8, .dp = 2}, 3);
    check_fold_back(scratch, (struct degrees){.pp = 2, BATCH}, 2);
    check_fold_back(scratch, (struct degrees){.pp = 2, BATCH, AGAIN}, 0.5);
}

/* A trace knows the software and the policy of its run: a plan that names none is predicted with those, one that names
 * some with its own. */
static void test_a_trace_knows_its_software(void **state)
{
    const struct scratch *scratch = *state;
    struct bed bed = bed_open();
    struct plan *plan = plan_on(&bed, (struct degrees){BATCH});
    struct software other = plan->software;
    struct prediction *ran;
    const char *trace = scratch_path(scratch, "trace.json");
    plan->policy = POLICY_MIXED_FP32_GRADIENTS;
    assert_int_equal(software_from_text("weft-cuda,clipping=norm", &plan->software), WEFT_OK);
    struct software own = plan->software;
    assert_int_equal(simulate(plan, &(struct simulate_options){.fold = FOLD_NEVER}, &ran), WEFT_OK);
    write_trace(scratch->arena, ran, 1, trace);
    prediction_free(ran);
    plan->policy = policy_for(plan->dtype);
    plan->software = other;
    assert_int_equal(take_run_facts(trace, plan), WEFT_OK);
    assert_true(software_same(&plan->software, &own) &&
                plan->policy == POLICY_MIXED_FP32_GRADIENTS);
    assert_int_equal(software_from_text("megatron-core-0.16", &plan->software), WEFT_OK);
    other = plan->software;
    assert_int_equal(take_run_facts(trace, plan), WEFT_OK);
    assert_true(software_same(&plan->software, &other));
    plan_free(plan);
    bed_close(&bed);
}

/* And what overlapped, which may be less than the plan says: of what executors have not, keys that go round among it, none does. */
static void test_a_trace_knows_what_overlapped(void **state)
{
    const struct scratch *scratch = *state;
    const char *trace = scratch_path(scratch, "overlap.json");
    struct bed bed = bed_open();
    struct plan *plan = plan_on(&bed, (struct degrees){BATCH});
    for (int overlaps = 0; overlaps <= 1; overlaps++) {
        struct graph *graph;
        plan->overlap = overlaps ? OVERLAP_ALL | OVERLAP_PRODUCTS : 0;
        assert_int_equal(
            graph_compile(plan, &(struct compile_options){FOLD_NEVER, .executed = true}, &graph),
            WEFT_OK);
        struct measured_task task = {.step = 1, .end_ns = 1};
        assert_int_equal(trace_write_measured(graph, &task, 1, trace), WEFT_OK);
        graph_free(graph);
        plan->overlap = OVERLAP_ALL | OVERLAP_PRODUCTS;
        assert_int_equal(take_run_facts(trace, plan), WEFT_OK);
        assert_int_equal(plan->overlap, overlaps ? OVERLAP_ALL & ~(unsigned)OVERLAP_KEYS : 0);
    }
    plan_free(plan);
    bed_close(&bed);
}

/* ---- P5 -------------------------------------------------------------------------------------- */

static int64_t predicted_ns(const struct plan *plan)
{
    struct prediction *prediction;
    assert_int_equal(simulate(plan, &(struct simulate_options){.fold = FOLD_NEVER}, &prediction),
                     WEFT_OK);
    int64_t ns = prediction->iteration_ns;
    prediction_free(prediction);
    return ns;
}

static void test_a_core_that_does_both(void **state)
{
    (void)state;
    struct bed bed = bed_open();
    struct plan *plan = plan_on(&bed, (struct degrees){.dp = 2,
                                                       .micro_batch = 2,
                                                       .global_batch = 4,
                                                       .bucket_bytes = 256 << 10,
                                                       .has_bucket = true});
    bed.cluster->node.device.overlap_slowdown = 1;
    int64_t apart_ns = predicted_ns(plan);
    bed.cluster->node.device.overlap_slowdown = 2;
    int64_t shared_ns = predicted_ns(plan);
    plan->overlap = 0;
    int64_t alone_ns = predicted_ns(plan);
    assert_true(apart_ns < shared_ns);
    assert_true((double)shared_ns < 1.01 * (double)alone_ns);
    plan_free(plan);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_as_predicted),
        cmocka_unit_test(test_memory_at_borders_of_parts),
        cmocka_unit_test(test_memory_between_micro_batches),
        cmocka_unit_test(test_memory_does_not_depend_on_speed),
        cmocka_unit_test(test_segments_hold_what_is_predicted),
        cmocka_unit_test(test_gradients_go_while_others_are_computed),
        cmocka_unit_test_setup_teardown(test_folding_back, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_a_trace_knows_what_overlapped, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_a_trace_knows_its_software, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test(test_a_core_that_does_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

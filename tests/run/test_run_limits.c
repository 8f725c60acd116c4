/* test_run_limits.c - memory and time of a run, what cannot be run, and how runs end when a rank fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rounds.h"
#include "run_alone.h"
#include "run_rows.h"

/* ---- memory and time ------------------------------------------------------------------------- */

static struct trained *run_degrees(int model, int ranks, struct degrees degrees)
{
    struct row row = {"", model, ranks, degrees, NULL};
    struct plan *plan = plan_of_row(&row);
    struct trained *trained = run_plan(plan, &(struct conditions){1, 1, NULL});
    assert_int_equal(trained->status, WEFT_OK);
    plan_free(plan);
    return trained;
}

static void test_memory_is_counted(void **state)
{
    (void)state;
    struct degrees plain = {.dp = 2, .micro_batch = 4, .global_batch = 16};
    struct degrees again = plain, host = plain, sharded = plain;
    again.recompute = host.recompute = RECOMPUTE_FULL;
    host.offload = true;
    sharded.shard = 3;
    struct trained *a = run_degrees(GPT, 2, plain), *b = run_degrees(GPT, 2, again);
    struct trained *c = run_degrees(GPT, 2, host), *d = run_degrees(GPT, 2, sharded);
    assert_true(b->peak < a->peak);
    assert_true(c->peak < b->peak || c->host_peak > 0);
    assert_true(d->peak < a->peak);
    assert_true(a->host_peak == 0 && c->host_peak > 0);
    trained_free(a);
    trained_free(b);
    trained_free(c);
    trained_free(d);
}

/* On every rank within 5 % of the simulator's peak, with the optimizer that it assumes. The model is one
 * whose tensors are larger than the few bytes that nobody predicts: labels, staged transfers. */
static void test_memory_is_as_predicted(void **state)
{
    (void)state;
    static const struct small_model MODEL = {
        "gpt", "{layers: 4, hidden: 128, heads: 4, seq: 128, vocab: 512, dropout: 0}"};
    static const struct degrees DEGREES[] = {
        {.dp = 2, .micro_batch = 4, .global_batch = 16},
        {.tp = 2, .micro_batch = 4, .global_batch = 8},
        {.tp = 2, .sequence = true, .micro_batch = 4, .global_batch = 8},
        {.pp = 2, .micro_batch = 4, .global_batch = 16},
        {.dp = 2, .micro_batch = 4, .global_batch = 16, RECOMPUTE(FULL)},
        {.dp = 2, .shard = 1, .micro_batch = 4, .global_batch = 16},
        {.dp = 2, .shard = 3, .micro_batch = 4, .global_batch = 16}};
    struct model *model = open_small(&MODEL);
    for (size_t i = 0; i < COUNT_OF(DEGREES); i++) {
        struct degrees d = DEGREES[i];
        struct plan *plan = NULL;
        if (!is_tried(i))
            continue;
        d.has_dtype = d.has_policy = true;
        d.dtype = DTYPE_FP32;
        d.policy = POLICY_FP32;
        assert_int_equal(plan_from_degrees(model, clusters[2], &d, &plan), WEFT_OK);
        struct laboratory lab = {.plan = plan, .options = lab_options(model), .steps = 1};
        lab.options.optimizer = (struct optimizer_step){
            .kind = OPTIMIZER_ADAM, .rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-8F};
        struct trained *trained = run_lab(&lab);
        assert_int_equal(trained->status, WEFT_OK);
        if (trained->memory_error > 0.05)
            fail_msg("plan %zu: the peak is %.1f %% off", i, 100 * trained->memory_error);
        trained_free(trained);
        plan_free(plan);
    }
    model_free(model);
}

/* Every task that a rank has a part in is recorded, and none before what it waits for there. */
static void test_trace_keeps_the_order_of_the_graph(void **state)
{
    (void)state;
    struct row row = {"", GPT, 1, {.micro_batch = 1, .global_batch = 3}, NULL};
    struct plan *plan = plan_of_row(&row);
    struct hub *hub = hub_new(1, NULL);
    struct run_options options = lab_options(plan->model);
    struct rank *rank;
    const struct run_event *event;
    double loss;
    options.plan = plan;
    options.transport = transport_threads(hub, 0);
    options.trace = true;
    assert_int_equal(run_open(&options, &rank), WEFT_OK);
    assert_int_equal(run_step(rank, &loss), WEFT_OK);
    assert_int_equal(run_step(rank, &loss), WEFT_OK);
    const struct graph *graph = run_graph(rank);
    size_t events = run_events(rank, &event);
    assert_int_equal(events, 2 * graph->tasks);
    for (size_t i = 0; i < events; i++) {
        assert_true(event[i].begin_ns <= event[i].end_ns);
        for (int64_t d = graph->depends_first[event[i].task];
             d < graph->depends_first[event[i].task + 1]; d++)
            for (size_t k = 0; k < events; k++)
                if (event[k].task == graph->depends[d] && event[k].step == event[i].step)
                    assert_true(event[k].end_ns <= event[i].begin_ns);
    }
    run_close(rank);
    options.transport->kind->close(options.transport);
    hub_free(hub);
    plan_free(plan);
}

/* ---- what cannot be run ---------------------------------------------------------------------- */

static void check_refused(const struct plan *plan, const char *words)
{
    struct trained *t = run_plan(plan, &(struct conditions){1, 1, NULL});
    assert_int_equal(t->status, WEFT_BAD_INPUT);
    if (!strstr(t->why, words))
        fail_msg("'%s' does not say '%s'", t->why, words);
    trained_free(t);
}

static void test_refusals_say_why(void **state)
{
    (void)state;
    struct row row = {"", GPT, 2, {.dp = 2, .global_batch = 4}, NULL};
    struct plan *plan = plan_of_row(&row);
    plan->dtype = DTYPE_NVFP4;
    check_refused(plan, "dtype nvfp4: weft has no such products");
    plan->dtype = DTYPE_BF16;
    plan->policy = POLICY_PURE_BF16;
    check_refused(plan, "policy pure-bf16 in bf16");
    plan_free(plan);
}

/* What a model has in some of its operators, not in the first. */
static void test_refusals_of_models(void **state)
{
    (void)state;
    static const struct {
        struct small_model model;
        const char *words;
    } CASES[] = {
        {{"moe",
          "{layers: 2, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96, experts: 4, top_k: "
          "2, expert_ffn: 32, expert_skew: 0.5}"},
         "a run chooses experts itself"},
        {{"gpt", "{layers: 2, hidden: 32, heads: 4, seq: 16, vocab: 96, document: 8}"},
         "attention over whole sequences"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct model *model = open_small(&CASES[i].model);
        struct degrees d = {.dp = 2, .global_batch = 4, .has_dtype = true, .dtype = DTYPE_FP32};
        struct plan *plan;
        assert_int_equal(plan_from_degrees(model, clusters[2], &d, &plan), WEFT_OK);
        check_refused(plan, CASES[i].words);
        plan_free(plan);
        model_free(model);
    }
}

/* One rank that gives up ends all. */
static void *give_up(void *context)
{
    struct transport *transport = context;
    transport->kind->abort(transport, "rank 1 ran out of patience");
    return NULL;
}

static void test_a_failure_ends_all_ranks(void **state)
{
    (void)state;
    struct row row = {"", GPT, 2, {.dp = 2, .global_batch = 4}, NULL};
    struct plan *plan = plan_of_row(&row);
    struct hub *hub = hub_new(2, NULL);
    struct run_options options = lab_options(plan->model);
    struct transport *other = transport_threads(hub, 1);
    struct rank *rank;
    pthread_t thread;
    double loss;
    options.plan = plan;
    options.transport = transport_threads(hub, 0);
    assert_int_equal(run_open(&options, &rank), WEFT_OK);
    pthread_create(&thread, NULL, give_up, other);
    assert_int_equal(run_step(rank, &loss), WEFT_FAILURE);
    assert_string_equal(weft_last_error()->message, "rank 1 ran out of patience");
    pthread_join(thread, NULL);
    run_close(rank);
    other->kind->close(other);
    options.transport->kind->close(options.transport);
    hub_free(hub);
    plan_free(plan);
}

/* After a failure nothing is sent or added up any more: its buffers may be gone. */
static void test_nothing_meets_behind_a_failure(void **state)
{
    (void)state;
    struct hub *hub = hub_new(2, NULL);
    struct transport *rank[] = {transport_threads(hub, 0), transport_threads(hub, 1)};
    struct pending_transfer *request;
    float value[] = {1, 2};
    for (int32_t i = 0; i < 2; i++) {
        int32_t group;
        assert_int_equal(rank[i]->kind->group(rank[i], (int32_t[]){0, 1}, 2, 0, &group), WEFT_OK);
        struct transfer sum = {.kind = TRANSFER_ALL_REDUCE,
                               .group = group,
                               .from = &value[i],
                               .to = &value[i],
                               .count = 1};
        assert_int_equal(rank[i]->kind->start(rank[i], &sum, &request), WEFT_OK);
        assert_false(rank[i]->kind->test(rank[i], request));
        if (i == 0)
            rank[1]->kind->abort(rank[1], "enough");
    }
    assert_true(value[0] == 1 && value[1] == 2);
    for (int32_t i = 0; i < 2; i++)
        rank[i]->kind->close(rank[i]);
    hub_free(hub);
}

/* Whenever it happens all ranks end, and nothing is used or held after their end (the sanitizers say). */
static void test_failures_at_any_time(void **state)
{
    (void)state;
    int failed = 0;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < rounds_of(60); round++) {
        const struct row *row = &ROWS[rng_below(&rng, COUNT_OF(ROWS))];
        if (!lab_runs(models[row->model]))
            continue;
        struct plan *plan = plan_of_row(row);
        struct laboratory lab = {.plan = plan,
                                 .options = lab_options(plan->model),
                                 .steps = 4,
                                 .gives_up_us = 1 + (int64_t)rng_below(&rng, 20000)};
        lab.options.clip = rng_below(&rng, 2) ? 1 : 0; /* sums that the executor asks for */
        struct trained *trained = run_lab(&lab);
        failed += trained->status != WEFT_OK;
        if (trained->status)
            assert_string_equal(trained->why, "a rank gave up");
        trained_free(trained);
        plan_free(plan);
    }
    assert_true(failed > 0);
}

/* Opens one rank, and closes it. */
static weft_status open_once(void *context)
{
    const struct run_options *options = context;
    struct rank *rank = NULL;
    weft_status status = run_open(options, &rank);
    run_close(rank);
    return status;
}

/* What ranks are predicted to hold counts as this process's memory where it is that, and not on a device that has its own. */
static void test_memory_of_devices_apart_is_their_own(void **state)
{
    (void)state;
    struct row row = {"", GPT, 1, {.micro_batch = 2048, .global_batch = 2048}, NULL};
    struct plan *plan = plan_of_row(&row);
    struct compute_device device = CPU_DEVICE;
    struct kernels kernels = CPU_KERNELS;
    device.shared = false;
    request_limit(32 << 20);
    for (int apart = 0; apart < 2; apart++) {
        struct hub *hub = hub_new(1, NULL);
        struct run_options options = lab_options(plan->model);
        kernels.device = apart ? &device : &CPU_DEVICE;
        options.plan = plan;
        options.kernels = &kernels;
        options.transport = transport_threads(hub, 0);
        assert_int_equal(request_run(open_once, &options), apart ? WEFT_OK : WEFT_FAILURE);
        if (!apart)
            assert_non_null(strstr(weft_last_error()->message, "this needs more than 32.0 MiB"));
        options.transport->kind->close(options.transport);
        hub_free(hub);
    }
    request_limit(0);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_memory_is_as_predicted),
        cmocka_unit_test(test_memory_of_devices_apart_is_their_own),
        cmocka_unit_test(test_trace_keeps_the_order_of_the_graph),
        cmocka_unit_test(test_refusals_say_why),
        cmocka_unit_test(test_refusals_of_models),
        cmocka_unit_test(test_a_failure_ends_all_ranks),
        cmocka_unit_test(test_nothing_meets_behind_a_failure),
        cmocka_unit_test(test_failures_at_any_time),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_all);
}

/* test_shared_processor.c - devices that are ranks on one processor (shared_processor.c): while one computes alone it is
 * quicker, while all do it takes the times that were measured so. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scratch_folder.h"
#include "sim/sim.h"

static const double SPEEDUP = 1.5;

static const char *cluster_file(struct scratch *scratch, double speedup)
{
    char text[512], words[64] = "";
    if (speedup > 0)
        snprintf(words, sizeof words, ", alone_speedup: %g", speedup);
    snprintf(text, sizeof text,
             "name: two-ranks\nsource: a test\nnodes: 1\n"
             "device: {base: H200-SXM-141GB, overlap_slowdown: 1%s}\n"
             "node:\n  devices: 2\n  vertices: {socket: socket0}\n  links:\n"
             "    - {between: [dev0..dev1, socket0], kind: socket, bandwidth: 4GB/s}\n",
             words);
    return put_file(scratch, "cluster.yaml", text, strlen(text));
}

struct simulated {
    struct opened_plan opened;
    struct prediction *prediction;
};

static struct simulated simulate_with(struct scratch *scratch, double speedup, int64_t samples)
{
    struct simulated s = {0};
    struct degrees degrees = {.pp = 2, .global_batch = samples, .micro_batch = 1};
    if (model_open(WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml", "hidden: 512, layers: 4",
                   &s.opened.model) ||
        cluster_open(cluster_file(scratch, speedup), &s.opened.cluster) ||
        plan_from_degrees(s.opened.model, s.opened.cluster, &degrees, &s.opened.plan) ||
        simulate(s.opened.plan, &(struct simulate_options){0}, &s.prediction))
        fail_msg("%s", weft_last_error()->message);
    return s;
}

static void release(struct simulated *s)
{
    prediction_free(s->prediction);
    plan_free(s->opened.plan);
    cluster_free(s->opened.cluster);
    model_free(s->opened.model);
}

static int64_t time_of(const struct prediction *p, int32_t task)
{
    return p->result.end_ns[task] - p->result.start_ns[task];
}

static bool computes(const struct prediction *p, int32_t task)
{
    return p->graph->task[task].stream == STREAM_COMPUTE && time_of(p, task) > 0;
}

/* Whether another device's computation lasts for all of it (1), none of it (0), or some of it (-1). */
static int company_of(const struct prediction *p, int32_t task)
{
    int64_t beside = 0;
    for (int32_t t = 0; t < p->graph->tasks; t++) {
        if (!computes(p, t) || p->graph->task[t].device == p->graph->task[task].device)
            continue;
        int64_t from = p->result.start_ns[t], to = p->result.end_ns[t];
        from = from > p->result.start_ns[task] ? from : p->result.start_ns[task];
        to = to < p->result.end_ns[task] ? to : p->result.end_ns[task];
        beside += to > from ? to - from : 0;
    }
    return beside == 0 ? 0 : beside >= time_of(p, task) ? 1 : -1;
}

static void test_alone_it_is_quicker(void **state)
{
    struct scratch *scratch = *state;
    struct simulated plain = simulate_with(scratch, 0, 8);
    struct simulated shared = simulate_with(scratch, SPEEDUP, 8);
    const struct prediction *a = plain.prediction, *b = shared.prediction;
    int seen[2] = {0};
    assert_int_equal(a->graph->tasks, b->graph->tasks);
    for (int32_t t = 0; t < a->graph->tasks; t++) {
        int company = computes(b, t) ? company_of(b, t) : -1;
        if (company < 0)
            continue;
        double expected = (double)time_of(a, t) / (company ? 1 : SPEEDUP);
        if (!(fabs((double)time_of(b, t) - expected) <= 2))
            fail_msg("task %d takes %lld ns, not %g", t, (long long)time_of(b, t), expected);
        seen[company]++;
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    assert_true(b->iteration_ns < a->iteration_ns);
    assert_true((double)b->iteration_ns * SPEEDUP > (double)a->iteration_ns);
    release(&plain);
    release(&shared);
}

/* No speedup, and none that is said: the same times. */
static void test_no_speedup(void **state)
{
    struct scratch *scratch = *state;
    struct simulated plain = simulate_with(scratch, 0, 4), same = simulate_with(scratch, 1, 4);
    assert_int_equal(plain.prediction->iteration_ns, same.prediction->iteration_ns);
    release(&plain);
    release(&same);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_alone_it_is_quicker), TEST(test_no_speedup)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

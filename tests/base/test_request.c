/* test_request.c - a request that runs out of memory ends with a status and gives back what it took: by
 * itself, with threads, and through weft.h at every limit up to what it needs. Under the address sanitizer
 * nothing is lost or used after it was freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/base.h"

enum { KIB = 1024, MIB = 1024 * KIB };

static int no_limit(void **state)
{
    (void)state;
    request_limit(0);
    return 0;
}

/* ---- one thread ------------------------------------------------------------------------------ */

struct task {
    size_t bytes;          /* to take in pieces of 1 KiB */
    struct arena *kept;    /* what is left to the caller */
    char order[8];         /* in which things were let go of */
    weft_status inner;     /* of a request within it */
    struct request *whole; /* that parts are of */
    int parts_out;         /* how many ended early */
};

static void drop_a(void *context)
{
    strcat(((struct task *)context)->order, "a");
}

static void drop_b(void *context)
{
    strcat(((struct task *)context)->order, "b");
}

static void drop_c(void *context)
{
    strcat(((struct task *)context)->order, "c");
}

static weft_status take(void *context)
{
    struct task *task = context;
    struct hold first, second;
    struct arena *own = arena_new();
    hold_push(&first, drop_a, task);
    hold_push(&second, drop_b, task);
    task->kept = arena_new();
    arena_own(task->kept, drop_c, task);
    for (size_t i = 0; i < task->bytes; i += KIB)
        memset(arena_alloc(i % 2 ? own : task->kept, KIB, 1), 1, KIB);
    hold_pop(&second);
    hold_pop(&first);
    arena_free(own);
    return WEFT_OK;
}

static void what_is_too_much_is_a_status(void **state)
{
    (void)state;
    struct task task = {.bytes = MIB / 4};
    request_limit(MIB);
    assert_int_equal(request_run(take, &task), WEFT_OK);
    assert_string_equal(task.order, "");
    assert_true(arena_bytes(task.kept) > 0); /* is the caller's now */
    arena_free(task.kept);
    assert_string_equal(task.order, "c");
    task = (struct task){.bytes = 2 * MIB};
    assert_int_equal(request_run(take, &task), WEFT_FAILURE);
    assert_string_equal(task.order, "bac"); /* what was held, the last one first; then arenas */
    assert_string_equal(weft_last_error()->message, "this needs more than 1.00 MiB of memory");
    assert_non_null(strstr(weft_last_error()->hint, "WEFT_MAX_MEMORY=3MiB"));
    assert_null(request_current());
    task = (struct task){.bytes = MIB / 4}; /* the next request has it all again */
    assert_int_equal(request_run(take, &task), WEFT_OK);
    arena_free(task.kept);
}

static weft_status take_too_many(void *context)
{
    struct arena *arena = arena_new();
    size_t count = *(size_t *)context;
    return ARENA_ARRAY(arena, int64_t, count) ? WEFT_OK : WEFT_NO_ANSWER;
}

static void sizes_that_overflow_are_a_status(void **state)
{
    static const size_t COUNTS[] = {SIZE_MAX, SIZE_MAX / 8, SIZE_MAX / 16 - 1, (size_t)1 << 50};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++)
        assert_int_equal(request_run(take_too_many, (void *)(uintptr_t)&COUNTS[i]), WEFT_FAILURE);
    assert_non_null(strstr(weft_last_error()->message, "this needs more than "));
}

static weft_status run_within(void *context)
{
    struct task *task = context;
    struct arena *before = arena_new();
    ARENA_ARRAY(before, char, MIB / 2);
    struct task inner = {.bytes = MIB}; /* more than is left of the outer one's limit */
    task->inner = request_run(take, &inner);
    static struct task small; /* what is kept of it lives longer than this call */
    small = (struct task){.bytes = MIB / 8};
    weft_status status = request_run(take, &small);
    task->kept = small.kept;
    arena_free(before);
    return status;
}

static void requests_lie_within_requests(void **state)
{
    (void)state;
    struct task task = {0};
    request_limit(MIB);
    assert_int_equal(request_run(run_within, &task), WEFT_OK);
    assert_int_equal(task.inner, WEFT_FAILURE);
    arena_free(task.kept); /* was handed from one to the other, and to us */
}

static void other_memory_is_counted(void **state)
{
    (void)state;
    assert_int_equal(request_reserve(INT64_MAX), WEFT_OK); /* nobody's */
}

static weft_status reserve(void *context)
{
    int64_t bytes = *(const int64_t *)context;
    weft_status status = request_reserve(bytes);
    return status ? status : request_reserve(bytes);
}

static weft_status reserve_less(void *context)
{
    (void)context;
    assert_int_equal(request_reserve(2 * MIB), WEFT_FAILURE);
    error_clear();
    return request_reserve(MIB); /* all of it, for nothing stayed reserved */
}

static void reservations_add_up(void **state)
{
    (void)state;
    request_limit(MIB);
    assert_int_equal(request_run(reserve, &(int64_t){MIB / 2}), WEFT_OK);
    assert_int_equal(request_run(reserve, &(int64_t){MIB / 2 + 1}), WEFT_FAILURE);
    assert_int_equal(request_run(reserve, &(int64_t){INT64_MAX}), WEFT_FAILURE);
    request_limit(MIB + MIB / 2);
    assert_int_equal(request_run(reserve_less, NULL), WEFT_OK);
}

/* ---- several threads ------------------------------------------------------------------------- */

static weft_status fill(void *context)
{
    struct task *task = context;
    struct arena *arena = arena_new();
    for (size_t i = 0; i < task->bytes; i += KIB)
        memset(arena_alloc(arena, KIB, 1), 1, KIB);
    return WEFT_OK; /* the arena is left to the request */
}

static void *fill_in_thread(void *context)
{
    struct task *task = context;
    return request_part(task->whole, fill, task) == WEFT_OK ? NULL : task;
}

static weft_status fill_in_threads(void *context)
{
    enum { THREADS = 3 };
    struct task *task = context;
    pthread_t thread[THREADS];
    task->whole = request_current();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fill_in_thread, task), 0);
    int out = fill_in_thread(task) != NULL;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        out += result != NULL;
    }
    task->parts_out = out;
    request_go_on();
    return WEFT_OK;
}

/* Four threads take 3 MiB together; each alone would be within the limit. */
static void threads_end_together(void **state)
{
    (void)state;
    struct task task = {.bytes = 3 * MIB / 4};
    request_limit(2 * MIB);
    assert_int_equal(request_run(fill_in_threads, &task), WEFT_FAILURE);
    assert_true(task.parts_out > 0);
    assert_non_null(strstr(weft_last_error()->message, "this needs more than 2.00 MiB"));
}

/* ---- through weft.h -------------------------------------------------------------------------- */

#define QUESTION                                                                                   \
    "model: " WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml\n"                                       \
    "cluster: " WEFT_SOURCE_DIR "/data/clusters/cores.yaml\nbatch: {global: 16}\n"

/* What one asks at a limit; WEFT_OK: all of it was answered. */
static weft_status ask(const char *planner, double *seconds)
{
    weft_plan *plan = NULL, *again = NULL;
    weft_prediction *prediction = NULL;
    weft_status status;
    TRY(weft_plan_find(QUESTION, planner, &plan));
    TRY(weft_plan_read(weft_plan_text(plan), &again));
    TRY(weft_simulate(again, &prediction));
    *seconds = weft_prediction_iteration_s(prediction);
done:
    weft_prediction_close(prediction);
    weft_plan_close(again);
    weft_plan_close(plan);
    return status;
}

/* From almost nothing to enough, in steps of a quarter. */
static void nothing(void *what)
{
    (void)what;
}

static weft_status leave_a_hold(void *context)
{
    hold_push(context, nothing, NULL);
    return WEFT_OK;
}

static void what_is_held_is_let_go(void **state)
{
    struct hold hold;
    (void)state;
    assert_int_equal(request_run(leave_a_hold, &hold), WEFT_FAILURE);
    assert_string_equal(weft_last_error()->message,
                        "something is still held by work that has ended: "
                        "this is an error in Weft");
    struct task task = {.bytes = KIB};
    assert_int_equal(request_run(take, &task), WEFT_OK); /* nobody goes back to the hold */
    arena_free(task.kept);
}

static void every_limit_is_a_status(void **state)
{
    static const char *const PLANNERS[] = {"megatron", "galvatron", "autoddl", "aceso"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(PLANNERS); i++) {
        int refused = 0;
        double seconds, expected;
        weft_limit_memory(0);
        assert_int_equal(ask(PLANNERS[i], &expected), WEFT_OK);
        weft_status status = WEFT_FAILURE;
        for (int64_t limit = 64 * KIB; status != WEFT_OK; limit += limit / 4) {
            weft_limit_memory(limit);
            status = ask(PLANNERS[i], &seconds);
            assert_true(status == WEFT_OK || status == WEFT_FAILURE);
            refused += status == WEFT_FAILURE;
        }
        assert_true(seconds == expected);
        assert_true(refused > 3);
    }
}

static void handles_open_within_limits(void **state)
{
    (void)state;
    weft_model *model = NULL;
    weft_cluster *cluster = NULL;
    weft_limit_memory(16 * KIB);
    assert_int_equal(weft_model_open("gpt3-13b", &model), WEFT_FAILURE);
    assert_int_equal(weft_cluster_open("dgx-a100:4", &cluster), WEFT_FAILURE);
    weft_limit_memory(0);
    assert_int_equal(weft_model_open("gpt3-13b", &model), WEFT_OK);
    assert_int_equal(weft_cluster_open("dgx-a100:4", &cluster), WEFT_OK);
    weft_model_close(model);
    weft_cluster_close(cluster);
}

#define TEST(name) cmocka_unit_test_teardown(name, no_limit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_too_much_is_a_status), TEST(sizes_that_overflow_are_a_status),
        TEST(requests_lie_within_requests), TEST(other_memory_is_counted),
        TEST(reservations_add_up),          TEST(threads_end_together),
        TEST(what_is_held_is_let_go),       TEST(every_limit_is_a_status),
        TEST(handles_open_within_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

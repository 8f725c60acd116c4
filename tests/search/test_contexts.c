/* test_contexts.c - sequences that auto divides in walks of their own (search/auto/contexts.c).
 *
 *   C1  No answer is slower than that with whole sequences. Where only degrees are searched, none is slower than with a pinned
 *       cp; elsewhere, where other planners know it too if it is pinned, none by more than a hundredth.
 *   C2  It says what dividing gained, or that it gained nothing.
 *   C3  Shorter sequences are divided by no walk, longer ones by the grid itself; 4,096 tokens on up to 64 devices. No walk
 *       divides where cp is pinned or forbidden, or the target has none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "rounds.h"
#include "search/planner/planner.h"

/* What is found: the time of the best, its cp, and the largest cp of all trials; what is said of walks, empty: nothing. */
struct found {
    int64_t ns, cp, most_cp;
    char said[200];
};
static struct found find_but(const char *options, const char *cluster, const char *target,
                             struct degrees pins, const char *forbidden)
{
    struct arena *arena = arena_new();
    struct opened o = open_both("llama3-8b", options, cluster);
    struct plan_request request = {.model = o.model, .cluster = o.cluster, .pins = pins};
    struct found found = {0};
    struct planned *planned;
    request.target = target ? target_find(target) : NULL;
    request.options.quick = true;
    if (forbidden)
        assert_int_equal(forbid_parse(arena, forbidden, &request.forbids), WEFT_OK);
    if (plan_search(planner_find("auto"), &request, &planned))
        fail_msg("%s", weft_last_error()->message);
    assert_true(planned->trials.data[0].fits);
    found.ns = planned->trials.data[0].iteration_ns;
    found.cp = planned->trials.data[0].degrees.cp;
    for (size_t i = 0; i < planned->trials.len; i++)
        if (planned->trials.data[i].degrees.cp > found.most_cp)
            found.most_cp = planned->trials.data[i].degrees.cp;
    for (size_t i = 0; i < planned->reasons.len; i++)
        if (strncmp(planned->reasons.data[i], "sequences were also divided", 27) == 0)
            strncpy(found.said, planned->reasons.data[i], sizeof found.said - 1);
    planned_free(planned);
    close_both(&o);
    arena_free(arena);
    return found;
}

static struct found find(const char *options, const char *cluster, const char *target,
                         struct degrees pins)
{
    return find_but(options, cluster, target, pins, NULL);
}

/* ---- C1, C2 ---------------------------------------------------------------------------------- */

static const char MIDDLE[] = "seq: 8192, layers: 16", FASTER[] = "faster than whole ones",
                  NOTHING[] = "nothing faster";

/* Few samples on many devices with little memory, where cp 2 is best, or cp 4, also where cp 2 is none, or with a few layers
 * recomputed; and enough of both. */
static const struct {
    const char *options, *cluster, *target;
    int64_t batch, gib;
    double over; /* what is best with a pinned cp */
    const char *said;
} CASES[] = {
    {MIDDLE, "dgx-h100:2", "megatron", 8, 40, 0, FASTER},
    {MIDDLE, "dgx-h100:2", "megatron", 4, 40, 0, FASTER},
    {"seq: 8192, layers: 31", "dgx-a100:4", "megatron", 32, 16, 0, FASTER},
    {MIDDLE, "dgx-h100:2", "weft", 8, 40, 0.01, FASTER},
    {MIDDLE, "dgx-h100:1", "megatron", 4, 24, 0, FASTER},
    {MIDDLE, "dgx-a100:1x4", NULL, 4, 30, 0, NOTHING},
    {MIDDLE, "dgx-h100:1x4", "megatron", 32, 70, 0, NOTHING},
};

static void divided_where_that_gains(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        if (!is_tried(i))
            continue;
        struct degrees pins = {.global_batch = CASES[i].batch,
                               .memory.limit_bytes = CASES[i].gib << 30};
        struct found open = find(CASES[i].options, CASES[i].cluster, CASES[i].target, pins);
        assert_non_null(strstr(open.said, CASES[i].said));
        assert_int_equal(open.cp > 1, CASES[i].said == FASTER);
        for (int64_t cp = 1; cp <= 4; cp += cp) {
            pins.cp = cp;
            pins.cp_heads = cp > 1;
            struct found pinned = find(CASES[i].options, CASES[i].cluster, CASES[i].target, pins);
            double over = cp > 1 ? CASES[i].over : 0;
            if ((double)open.ns > (double)pinned.ns * (1 + over))
                fail_msg("case %zu: %lld ns, with cp %lld %lld", i, (long long)open.ns,
                         (long long)cp, (long long)pinned.ns);
            assert_string_equal(pinned.said, "");
        }
    }
}

/* ---- C3 -------------------------------------------------------------------------------------- */

static const struct {
    const char *options, *cluster, *target;
    int64_t least, most; /* the largest cp of all that is tried; 0: plans alone, which name none */
    bool walked;
} WALKS[] = {
    {"seq: 2048, layers: 4", "dgx-h100:2", "megatron", 0, 1, false},
    {"seq: 4096, layers: 4", "dgx-h100:2", "megatron", 2, 2, true},
    {"seq: 4096, layers: 4", "dgx-h100:16", "megatron", 0, 1, false},
    {"seq: 8192, layers: 4", "dgx-h100:2", "deepspeed", 0, 1, false},
    {"seq: 8192, layers: 4", "dgx-h100:2", "megatron", 2, 4, true},
    {"seq: 16384, layers: 4", "dgx-h100:1", "megatron", 8, 8, false},
};

static void each_length_has_its_walks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WALKS); i++) {
        if (!is_tried(i))
            continue;
        struct degrees pins = {.global_batch = 128, .memory.limit_bytes = INT64_C(40) << 30};
        struct found found = find(WALKS[i].options, WALKS[i].cluster, WALKS[i].target, pins);
        if (found.most_cp < WALKS[i].least || found.most_cp > WALKS[i].most)
            fail_msg("walk %zu: cp %lld", i, (long long)found.most_cp);
        assert_int_equal(*found.said != 0, WALKS[i].walked);
    }
}

static void what_is_forbidden_is_not_walked(void **state)
{
    (void)state;
    struct degrees pins = {.global_batch = 8, .memory.limit_bytes = INT64_C(40) << 30};
    struct found none = find_but(MIDDLE, "dgx-h100:2", "megatron", pins, "cp");
    struct found four = find_but(MIDDLE, "dgx-h100:2", "megatron", pins, "cp=2");
    assert_true(none.most_cp <= 1);
    assert_string_equal(none.said, "");
    assert_int_equal(four.most_cp, 4);
    assert_non_null(strstr(four.said, "by cp 4:"));
}

/* Eight devices without tensor or pipeline parallelism have four samples to share out. */
static void only_divided_ones_fit(void **state)
{
    (void)state;
    struct degrees pins = {.global_batch = 4, .tp = 1, .pp = 1};
    struct found found = find(MIDDLE, "dgx-h100:1", "megatron", pins);
    assert_int_equal(found.cp, 2);
    assert_non_null(strstr(found.said, "only divided ones fit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divided_where_that_gains),
        cmocka_unit_test(each_length_has_its_walks),
        cmocka_unit_test(what_is_forbidden_is_not_walked),
        cmocka_unit_test(only_divided_ones_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

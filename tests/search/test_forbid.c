/* test_forbid.c - which degrees a plan is found to have when some are forbidden (search/planner/forbid.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"
#include "search/planner/forbid.h"

static bool is_forbidden(const struct plan *plan, const char *text)
{
    struct arena *keep = arena_new();
    struct forbids forbids = {0};
    assert_int_equal(forbid_parse(keep, text, &forbids), WEFT_OK);
    bool forbidden = plan_forbidden(&forbids, plan);
    arena_free(keep);
    return forbidden;
}

/* Eight devices with one degree of two: whatever is split by it is no other degree. */
static void a_degree_is_no_other(void **state)
{
    (void)state;
    static const struct {
        struct degrees degrees;
        const char *has, *has_not;
    } CASES[] = {{{.dp = 8, .ep = 2}, "ep", "tp"},     {{.dp = 8, .ep = 2}, "ep=2", "cp"},
                 {{.dp = 4, .tp = 2}, "tp", "ep"},     {{.dp = 4, .tp = 2}, "tp=2", "cp"},
                 {{.dp = 4, .cp = 2}, "cp", "tp"},     {{.dp = 4, .pp = 2}, "pp", "tp"},
                 {{.dp = 8, .shard = 2}, "zero", "tp"}};
    const struct small_model moe = {"moe", "{layers: 4, hidden: 32, heads: 4, ffn: 64, seq: 16, "
                                           "vocab: 96, experts: 4}"};
    struct model *model = open_small(&moe);
    struct cluster *cluster = open_named("dgx-a100:1");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct degrees degrees = CASES[i].degrees;
        struct plan *plan;
        degrees.global_batch = 16;
        assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
        if (!is_forbidden(plan, CASES[i].has) || is_forbidden(plan, CASES[i].has_not))
            fail_msg("it has %s and not %s", CASES[i].has, CASES[i].has_not);
        plan_free(plan);
    }
    cluster_free(cluster);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_degree_is_no_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

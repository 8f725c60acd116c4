/* test_mechanisms.c - what frameworks do beside the plain degrees: proved, simulated alike folded and unfolded, estimated, and
 * by hand arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"

static void expect_sound(const struct plan *plan, const char *words)
{
    expect_proof(plan);
    double folded = simulated_s(plan, FOLD_ALWAYS), all = simulated_s(plan, FOLD_NEVER);
    if (fabs(folded / all - 1) > 1e-3)
        fail_msg("%s: %.6f s folded, %.6f s unfolded", words, folded, all);
    expect_estimate(plan, words, 0.02);
}

/* ---- recomputation by module ------------------------------------------------------------------ */

static void modules_are_estimated(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"layernorm", "moe_act", "mla_up_proj",
                                        "core_attn,layernorm,mla_up_proj,moe_act", "layernorm,moe"};
    static const struct degrees PLANS[] = {
        {.dp = 4, .tp = 2, .ep = 4, .sequence = true, .global_batch = 8},
        {.dp = 2, .tp = 2, .pp = 2, .ep = 2, .schedule = "zb-h1", .global_batch = 8},
    };
    struct opened o = open_both(
        "deepseek-v3", "layers: 4, first_dense: 1, mtp: 0, seq: 512, experts: 8", "dgx-h100:1");
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        struct degrees d = PLANS[i % COUNT_OF(PLANS)];
        assert_true(recompute_parse(arena, WORDS[i], &d));
        struct plan *plan = plan_of(&o, d);
        expect_sound(plan, WORDS[i]);
        plan_free(plan);
    }
    arena_free(arena);
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_estimated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

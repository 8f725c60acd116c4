/* test_author_plans.c - plans that the search program of Aceso's authors found (data/validation/aceso_plans.csv): they
 * hold what that program said of them, and Weft's search finds none that is slower. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "one_arena.h"
#include "lab/aceso_contest.h"

/* ---- what they are --------------------------------------------------------------------------- */

/* What the program printed of the plans that it takes: the memory of the fullest stage. */
static const struct {
    const char *model;
    int64_t devices, mb;
} SAID[] = {{"gpt3-1.3b", 4, 26432},
            {"gpt3-2.6b", 8, 27993},
            {"gpt3-6.7b", 16, 27904},
            {"gpt3-13b", 32, 27800}};

/* Times have what the program leaves out, and no operator of another kind. */
static void as_their_program_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SAID); i++) {
        struct contest contest = {.model = SAID[i].model, .devices = SAID[i].devices};
        struct contest_setup setup;
        assert_int_equal(contest_set_up(arena, "GPT-3", contest.model, contest.devices, &setup),
                         WEFT_OK);
        assert_int_equal(contest_predict_authors(arena, &setup.request, &contest), WEFT_OK);
        assert_non_null(contest.author_plan);
        assert_int_equal(contest.authors_bytes >> 20, SAID[i].mb);
        double over = contest.authors_s / contest.author_plan->predicted_s;
        if (over < 1 || over > 1.25)
            fail_msg("%s: %.2f s, they say %.2f", contest.model, contest.authors_s,
                     contest.author_plan->predicted_s);
        contest_take_down(&setup);
    }
}

/* ---- against Weft's -------------------------------------------------------------------------- */

/* As `weft plan --space artifact` asks, from one beginning, and no more configs than a core judges in half a
 * second. */
static void none_is_faster(void **state)
{
    (void)state;
    enum { CONFIGS = 20000 };
    for (size_t i = 0; i < COUNT_OF(SAID); i++) {
        struct contest contest = {.model = SAID[i].model, .devices = SAID[i].devices};
        struct contest_setup setup;
        struct planned *planned;
        assert_int_equal(contest_set_up(arena, "GPT-3", contest.model, contest.devices, &setup),
                         WEFT_OK);
        assert_int_equal(contest_predict_authors(arena, &setup.request, &contest), WEFT_OK);
        setup.study.every_stages = false;
        setup.request.options.most_configs = CONFIGS;
        assert_int_equal(plan_search(planner_find("aceso"), &setup.request, &planned), WEFT_OK);
        const struct trial *best = planned->trials.data;
        assert_true(best->fits);
        assert_true(contest.authors_least_s > 0);
        if ((double)best->iteration_ns * 1e-9 > contest.authors_least_s)
            fail_msg("%s: %.2f s, theirs %.2f", contest.model, (double)best->iteration_ns * 1e-9,
                     contest.authors_least_s);
        planned_free(planned);
        contest_take_down(&setup);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

#define HEAD "model,devices,step,predicted_s,stage,stage_devices,tp,operators,recomputed\n"
#define ONE  "gpt3-1.3b,4,1,101,"

static void damage_is_refused(void **state)
{
    (void)state;
    static const char *const FILES[] = {
        HEAD ONE "0,3,2,315,\n",                               /* tp does not divide */
        HEAD ONE "0,2,1,315,\n",                               /* two devices are left */
        HEAD ONE "1,4,1,315,\n",                               /* no stage 0 */
        HEAD ONE "0,4,1,0,\n",                                 /* no operators */
        HEAD ONE "0,4,1,315,6-5\n",                            /* backwards */
        HEAD ONE "0,4,1,315,x\n",                              /* no number */
        HEAD ONE "0,4,1,315,5-6-7\n",                          /* no range */
        HEAD ONE "0,2,1,200,\ngpt3-2.6b,4,1,101,1,2,1,115,\n", /* another model's */
        HEAD "gpt3-1.3b,4,1,0,0,4,1,315,\n",                   /* no time */
        "model,devices\ngpt3-1.3b,4\n",
    };
    for (size_t i = 0; i < COUNT_OF(FILES); i++) {
        struct author_plans plans = {0};
        char *text = arena_copy_text(arena, FILES[i]);
        assert_int_equal(author_plans_parse(arena, "plans.csv", text, strlen(text), &plans),
                         WEFT_BAD_INPUT);
        error_clear();
    }
}

/* One operator is missing, which shows when the plan is made. */
static void short_plans_are_refused(void **state)
{
    (void)state;
    struct author_plans plans = {0};
    struct contest_setup setup;
    struct plan *plan = NULL;
    char *text = arena_copy_text(arena, HEAD ONE "0,4,1,314,5-6 18\n");
    assert_int_equal(author_plans_parse(arena, "plans.csv", text, strlen(text), &plans), WEFT_OK);
    assert_int_equal(contest_set_up(arena, "GPT-3", "gpt3-1.3b", 4, &setup), WEFT_OK);
    assert_int_equal(author_plan_make(&plans.data[0], &setup.request, &plan), WEFT_BAD_INPUT);
    assert_null(plan);
    error_clear();
    contest_take_down(&setup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_their_program_says),
        cmocka_unit_test(none_is_faster),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(short_plans_are_refused),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

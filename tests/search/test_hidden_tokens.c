/* test_hidden_tokens.c - walks over plans that hide the tokens' way to experts and back (search/auto/overlap_experts.c, I2).
 *
 *   C1  No answer is slower than that without hidden tokens, or with `--overlap all,experts`.
 *   C2  It says what the walk gained, or that it gained nothing; and nothing where there is no walk: of models without
 *       experts, for targets that do not hide tokens, where the user says what overlaps, in quick searches without a target.
 *   C3  Plans of degrees that hide tokens send some, have several micro-batches, say so in their texts, and for Megatron-LM
 *       recompute no whole layers.
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

struct question {
    const char *model, *options, *cluster, *target;
    int64_t batch, gib;
    bool quick;
};
struct found {
    int64_t ns, hidden; /* trials of degrees that hide tokens */
    char said[200];
};

/* C3 */
static bool hides(const struct trial *trial)
{
    const struct degrees *d = &trial->degrees;
    if (trial->plan || !d->has_overlap || !(d->overlap & OVERLAP_EXPERTS))
        return false;
    assert_true(d->ep > 1);
    assert_true(d->global_batch > d->micro_batch * d->dp);
    assert_true(d->recompute != RECOMPUTE_FULL);
    return true;
}

static struct found find(const struct question *q, unsigned overlap)
{
    struct opened o = open_both(q->model, q->options, q->cluster);
    struct plan_request request = {.model = o.model,
                                   .cluster = o.cluster,
                                   .pins = {.global_batch = q->batch,
                                            .memory.limit_bytes = q->gib << 30,
                                            .has_overlap = overlap != 0,
                                            .overlap = overlap},
                                   .options = {.quick = q->quick},
                                   .target = q->target ? target_find(q->target) : NULL};
    struct found found = {0};
    struct planned *planned;
    if (plan_search(planner_find("auto"), &request, &planned))
        fail_msg("%s", weft_last_error()->message);
    assert_true(planned->trials.data[0].fits);
    found.ns = planned->trials.data[0].iteration_ns;
    for (size_t i = 0; i < planned->trials.len && !overlap; i++)
        if (hides(&planned->trials.data[i])) {
            found.hidden++;
            assert_non_null(strstr(planned->trials.data[i].text, "experts"));
        }
    for (size_t i = 0; i < planned->reasons.len; i++)
        if (strncmp(planned->reasons.data[i], "plans that hide", 15) == 0)
            strncpy(found.said, planned->reasons.data[i], sizeof found.said - 1);
    planned_free(planned);
    close_both(&o);
    return found;
}

static const char QWEN[] = "qwen3-30b-a3b", FASTER[] = "faster than", NOTHING[] = "nothing faster";

static void walked_where_tokens_may_be_hidden(void **state)
{
    (void)state;
    static const struct {
        struct question question;
        const char *said;
    } CASES[] = {
        {{QWEN, "layers: 6", "dgx-h100:1", "megatron", 32, 40, true}, FASTER},
        {{"mixtral-8x7b", "layers: 4", "dgx-h100:1", "megatron", 32, 70, true}, NOTHING},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        if (!is_tried(i))
            continue;
        const struct question *q = &CASES[i].question;
        struct found open = find(q, 0), whole = find(q, OVERLAP_ALL),
                     asked = find(q, OVERLAP_ALL | OVERLAP_EXPERTS);
        assert_non_null(strstr(open.said, CASES[i].said));
        assert_true(open.hidden > 0);
        assert_true(open.ns <= whole.ns && open.ns <= asked.ns);
        assert_string_equal(whole.said, "");
        assert_string_equal(asked.said, "");
    }
}

static void not_walked_elsewhere(void **state)
{
    (void)state;
    static const struct question CASES[] = {
        {"llama3-8b", "layers: 4", "dgx-h100:1", "megatron", 16, 70, true},
        {QWEN, "layers: 4", "dgx-h100:1", "deepspeed", 16, 70, true},
        {QWEN, "layers: 4", "dgx-h100:1", NULL, 16, 70, true},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        if (!is_tried(i))
            continue;
        struct found found = find(&CASES[i], 0);
        assert_string_equal(found.said, "");
        assert_int_equal(found.hidden, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walked_where_tokens_may_be_hidden),
        cmocka_unit_test(not_walked_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

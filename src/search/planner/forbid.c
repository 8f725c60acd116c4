/* forbid.c - what a plan must not do (forbid.h). */
#include "search/planner/forbid.h"

#include <string.h>

#include "schedule/schedule.h"

static const struct {
    const char *name;
    bool from_zero; /* otherwise its values begin at 1 */
} WORDS[] = {
    [FORBID_DP] = {"dp"},
    [FORBID_TP] = {"tp"},
    [FORBID_PP] = {"pp"},
    [FORBID_CP] = {"cp"},
    [FORBID_EP] = {"ep"},
    [FORBID_VIRTUAL] = {"virtual"},
    [FORBID_SEGMENTS] = {"segments"},
    [FORBID_MICRO_BATCH] = {"microbatch"},
    [FORBID_ZERO] = {"zero", .from_zero = true},
    [FORBID_RECOMPUTE] = {"recompute", .from_zero = true},
    [FORBID_SP] = {"sp", .from_zero = true},
    [FORBID_DEFER_HEAD] = {"defer-head", .from_zero = true},
    [FORBID_SCHEDULE] = {"schedule", .from_zero = true},
};
_Static_assert(COUNT_OF(WORDS) == FORBID_COUNT, "a word without a name");

static int64_t least_of(enum forbid_word word)
{
    return WORDS[word].from_zero ? 0 : 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool find_word(const char *name, size_t length, enum forbid_word *out)
{
    for (int i = 0; i < FORBID_COUNT; i++)
        if (strlen(WORDS[i].name) == length && memcmp(WORDS[i].name, name, length) == 0) {
            *out = (enum forbid_word)i;
            return true;
        }
    return false;
}

static bool find_value(const char *text, struct forbid *out)
{
    if (out->word == FORBID_SCHEDULE) {
        out->schedule = text;
        return schedule_find(text) != NULL;
    }
    for (int i = 0; out->word == FORBID_RECOMPUTE && i < RECOMPUTE_COUNT; i++)
        if (strcmp(text, recompute_name((enum recompute)i)) == 0) {
            out->value = i;
            return true;
        }
    return out->word != FORBID_RECOMPUTE && out->word != FORBID_SP &&
           out->word != FORBID_DEFER_HEAD && parse_int(text, &out->value) &&
           out->value >= least_of(out->word);
}

static weft_status parse_word(const char *text, struct forbid *out)
{
    static const char *const HINT =
        "words are dp, tp, pp, cp, ep, virtual, segments, microbatch, zero, recompute, sp, "
        "defer-head and schedule, alone or with a value";
    size_t length = strcspn(text, "=");
    if (!find_word(text, length, &out->word))
        return bad_argument(HINT, "'%s' is not something that a plan has", text);
    out->all = text[length] == '\0';
    if (out->all && out->word == FORBID_SCHEDULE)
        return bad_argument("such as schedule=aiao", "a plan needs some schedule");
    if (!out->all && !find_value(text + length + 1, out))
        return bad_argument("such as pp, zero=3 or recompute=full", "%s has no value '%s'",
                            WORDS[out->word].name, text + length + 1);
    return WEFT_OK;
}

weft_status forbid_parse(struct arena *keep, const char *text, struct forbids *out)
{
    char *rest = arena_copy_text(keep, text), *word;
    weft_status status = WEFT_OK;
    while ((word = strsep(&rest, ", ")) != NULL) {
        struct forbid forbid = {0};
        if (!*word)
            continue;
        TRY(parse_word(word, &forbid));
        array_push(keep, out, forbid);
    }
done:
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool forbids_value(const struct forbids *forbids, enum forbid_word word, int64_t value)
{
    for (size_t i = 0; i < forbids->len; i++) {
        const struct forbid *f = &forbids->data[i];
        if (f->word == word && (f->all ? value > least_of(word) : value == f->value))
            return true;
    }
    return false;
}

static bool forbids_schedule(const struct forbids *forbids, const char *schedule)
{
    for (size_t i = 0; i < forbids->len; i++)
        if (forbids->data[i].word == FORBID_SCHEDULE &&
            strcmp(forbids->data[i].schedule, schedule) == 0)
            return true;
    return false;
}

/* Checks the dimensions whose values are numbers: all but the schedule. */
static bool any_forbidden(const struct forbids *forbids, const int64_t *value)
{
    for (int i = 0; i < FORBID_SCHEDULE; i++)
        if (forbids_value(forbids, (enum forbid_word)i, value[i]))
            return true;
    return false;
}

/* Only a folded schedule calls its pieces segments; any other schedule has virtual pieces. */
static void set_pieces(const char *schedule, int64_t pieces, int64_t *value)
{
    bool folded = schedule_find(schedule)->segmented;
    value[FORBID_VIRTUAL] = folded ? 1 : pieces;
    value[FORBID_SEGMENTS] = folded ? pieces : 1;
}

bool degrees_forbidden(const struct forbids *forbids, const struct degrees *d)
{
    int64_t value[FORBID_COUNT] = {
        [FORBID_DP] = d->dp,       [FORBID_TP] = d->tp,
        [FORBID_PP] = d->pp,       [FORBID_CP] = d->cp,
        [FORBID_EP] = d->ep,       [FORBID_MICRO_BATCH] = d->micro_batch,
        [FORBID_ZERO] = d->shard,  [FORBID_RECOMPUTE] = d->recompute,
        [FORBID_SP] = d->sequence, [FORBID_DEFER_HEAD] = d->defer_head != 0};
    if (forbids->len == 0)
        return false;
    set_pieces(d->schedule, d->pieces, value);
    return forbids_schedule(forbids, d->schedule) || any_forbidden(forbids, value);
}

bool plan_forbidden(const struct forbids *forbids, const struct plan *plan)
{
    if (forbids->len == 0)
        return false;
    if (forbids_schedule(forbids, plan->schedule))
        return true;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct choice *choice = plan_choice(plan, i);
        const struct split *split = &choice->split;
        int64_t dp = split_degree(split, DIM_BATCH), ep = split_degree(split, DIM_EXPERT);
        int64_t cp = split_degree(split, DIM_SEQ), all = split_devices(split);
        bool norm = OP_KINDS[plan->model->op[plan->instance[i].op].kind].weight[0] == NULL;
        int64_t value[FORBID_COUNT] = {[FORBID_DP] = dp,
                                       [FORBID_TP] = all / dp / ep / cp,
                                       [FORBID_PP] = plan->stages,
                                       [FORBID_CP] = norm ? 1 : cp,
                                       [FORBID_EP] = ep,
                                       [FORBID_MICRO_BATCH] = plan->step_samples / dp,
                                       [FORBID_ZERO] = choice->shard,
                                       [FORBID_RECOMPUTE] =
                                           choice->recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE,
                                       [FORBID_DEFER_HEAD] = plan->defer_head != 0};
        set_pieces(plan->schedule, plan->pieces, value);
        if (any_forbidden(forbids, value))
            return true;
    }
    return false;
}

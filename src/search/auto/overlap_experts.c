/* overlap_experts.c - hides the transfers of tokens to experts and back (room.h): tries the best plans whose
 * experts are on several devices with OVERLAP_EXPERTS, and with several pieces per stage where 1f1b
 * cannot have pairs; and with OVERLAP_SHARED, where there is a shared expert to run meanwhile.
 *
 *   I1  Only if the user has not said what overlaps; for a target, only as it hides them itself, without a decision of
 *       its own about the plan (target/decisions.c).
 *   I2  When tokens are hidden, plans may be best that send them further than the plans that were found without: unless the
 *       search is a quick one without a target, the grid is walked once more over plans that hide them alone, told the best time so far.
 *   I3  With a budget this comes before the planners that may take all of it, and again, for what they found, if there is
 *       time left: a trial is a base once.
 */
#include <string.h>

#include "search/auto/room.h"

enum { MOST_BASES = 4 };
static const struct {
    unsigned overlap;
    int64_t pieces; /* 0: the plan's own number */
} WAYS[] = {{OVERLAP_SHARED, 0}, {OVERLAP_EXPERTS, 0}, {OVERLAP_EXPERTS, 2}, {OVERLAP_EXPERTS, 4}};

static bool sends_tokens(const struct trial *trial)
{
    if (trial->plan && trial->plan->overlap & (OVERLAP_EXPERTS | OVERLAP_SHARED))
        return false; /* they are hidden already */
    if (!trial->plan)
        return trial->degrees.ep > 1;
    for (int32_t i = 0; i < trial->plan->choices; i++)
        if (choice_sends_tokens(&trial->plan->choice[i]))
            return true;
    return false;
}

/* The best trials from this one on that fit and have tokens to hide, the best first. */
static size_t list_best(const struct planned *planned, size_t first, struct trial out[MOST_BASES])
{
    size_t count = 0;
    for (size_t i = first; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        size_t at = count;
        while (at > 0 && ns_per_sample(trial) < ns_per_sample(&out[at - 1]))
            at--;
        if (!trial->fits || at == MOST_BASES || !sends_tokens(trial))
            continue;
        count += count < MOST_BASES;
        memmove(&out[at + 1], &out[at], (count - at - 1) * sizeof *out);
        out[at] = *trial;
    }
    return count;
}

/* ---- what the target does (I1) --------------------------------------------------------------- */

static bool target_may(const struct target *target, unsigned overlap)
{
    return !target || (target->can.may_overlap & overlap);
}

static weft_status count_decisions(struct arena *scratch, const struct target *target,
                                   const struct plan *plan, size_t *out)
{
    struct recognised found = {0};
    struct texts texts = {0};
    weft_status status;
    TRY(degrees_of_plan(scratch, plan, target, false, &found));
    target_decisions(scratch, target, plan, &found.degrees, &texts);
    *out = texts.len;
done:
    plan_free(found.plan);
    return status;
}

/* Whether the target decides something about the hidden plan that it does not about the other, or does not know either. */
static bool target_decides(const struct target *target, const struct plan *from,
                           const struct plan *hidden)
{
    struct arena *scratch = arena_new();
    size_t before = 0, after = 0;
    bool known = !target || target->any ||
                 (count_decisions(scratch, target, from, &before) == WEFT_OK &&
                  count_decisions(scratch, target, hidden, &after) == WEFT_OK);
    if (!known)
        error_clear();
    arena_free(scratch);
    return !known || after > before;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The plan with tokens hidden; *out is NULL if there is nothing to hide, or no way to hide it. */
static weft_status hidden_plan(const struct join *join, const struct plan *from, size_t way,
                               struct plan **out)
{
    const struct degrees *pins = &join->request->pins;
    const struct target *target = join->request->target;
    int64_t pieces = WAYS[way].pieces;
    struct variant variant = {.schedule = pieces ? schedule_default(pieces, 1)->name : NULL,
                              .pieces = pieces};
    weft_status status = WEFT_OK;
    *out = NULL;
    if (!target_may(target, WAYS[way].overlap))
        return WEFT_OK;
    if (pieces && (from->stages == 1 || from->pieces == pieces || pins->schedule || pins->pieces ||
                   pins->segments || pins->encoder_pp))
        return WEFT_OK;
    TRY(variant_of(from, &variant, out));
    if (!*out)
        return WEFT_OK;
    (*out)->overlap |= WAYS[way].overlap;
    bool hides = WAYS[way].overlap == OVERLAP_SHARED ? plan_could_hide_shared(*out)
                                                     : plan_schedule(*out)->ahead != NULL;
    if (!hides || target_decides(target, from, *out) ||
        plan_forbidden(&join->request->forbids, *out)) {
        plan_free(*out);
        *out = NULL;
    }
done:
    return status;
}

static weft_status try_hidden(struct join *join, const struct trial *base, const struct plan *from)
{
    struct planned *out = join->out;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(WAYS) && !join_over(join); i++) {
        const struct trial *trial;
        struct plan *plan;
        TRY(hidden_plan(join, from, i, &plan));
        if (!plan)
            continue;
        const char *words =
            WAYS[i].pieces ? arena_printf(out->arena, "virtual %d ", (int)WAYS[i].pieces) : "";
        size_t before = out->trials.len;
        TRY(try_plan(join->request, join->cost, plan,
                     arena_printf(out->arena, "%s; %soverlap %s", base->text, words,
                                  overlap_text(out->arena, plan->overlap, ",")),
                     out, &trial));
        if (out->trials.len == before)
            continue;
        out->trials.data[before].found_by = arena_printf(
            out->arena, "%s and overlap: %s", base->found_by, overlap_name(WAYS[i].overlap));
        join_report(join);
    }
done:
    return status;
}

/* I1 */
static bool is_open(const struct plan_request *request)
{
    const struct degrees *asked = request->asked ? request->asked : &request->pins;
    bool mixture = false;
    for (int32_t i = 0; i < request->model->ops; i++)
        mixture |= op_find_dim(request->model->op[i].kind, DIM_EXPERT) >= 0;
    return mixture && !asked->has_overlap;
}

weft_status hide_tokens(struct join *join)
{
    const struct plan_request *request = join->request;
    struct trial base[MOST_BASES + 1]; /* copies, because the trials may move in memory */
    weft_status status = WEFT_OK;
    if (!is_open(request))
        return WEFT_OK;
    size_t count = list_best(join->out, join->hidden, base);
    join->hidden = join->out->trials.len;
    for (size_t i = 0; i < count && !join_over(join); i++) {
        struct plan *own = NULL;
        if (!base[i].plan)
            TRY(plan_from_degrees(request->model, request->cluster, &base[i].degrees, &own));
        status = try_hidden(join, &base[i], own ? own : base[i].plan);
        plan_free(own);
        if (status)
            goto done;
    }
done:
    return status;
}

/* ---- a walk of their own (I2) ---------------------------------------------------------------- */

static struct plan_request hidden_request(const struct plan_request *request)
{
    struct plan_request hidden = *request;
    unsigned overlap = request->pins.has_overlap ? request->pins.overlap : OVERLAP_ALL;
    hidden.pins.has_overlap = true;
    hidden.pins.overlap = overlap | OVERLAP_EXPERTS;
    hidden.hides_tokens = true;
    return hidden;
}

static void say_walk(struct join *join, double before_ns)
{
    struct planned *out = join->out;
    const struct trial *best = join_best(out, NULL);
    const char *change = "nothing faster";
    if (best && before_ns == 0)
        change = "only these fit";
    else if (best && ns_per_sample(best) < before_ns)
        change = arena_printf(out->arena, "%.1f %% faster than what was found before",
                              100 * (before_ns / ns_per_sample(best) - 1));
    array_push(
        out->arena, &out->reasons,
        arena_printf(out->arena,
                     "plans that hide the tokens' way to experts and back were also walked: %s",
                     change));
}

weft_status walk_hidden(struct join *join)
{
    const struct plan_request *request = join->request;
    const struct trial *best = join_best(join->out, NULL);
    double before_ns = best ? ns_per_sample(best) : 0;
    struct plan_request hidden = hidden_request(request), walking;
    weft_status status = WEFT_OK;
    if (!is_open(request) || !target_may(request->target, OVERLAP_EXPERTS) ||
        (request->options.quick && !request->target) || request->cluster->pools ||
        request->options.budget_ns || join_over(join))
        return WEFT_OK;
    if (best)
        hidden.pins.global_batch = best->global_batch;
    walking = hidden;
    walking.known_ns = best ? best->iteration_ns : 0;
    TRY(join_grid(join, &walking));
    best = join_best(join->out, NULL);
    bool faster = best && (before_ns == 0 || ns_per_sample(best) < before_ns);
    if (faster && join_takes_degrees(request))
        TRY(tune_numbers(join, &hidden));
    say_walk(join, before_ns);
done:
    return status;
}

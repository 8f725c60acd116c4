/* contest_claims.c - how far the predictions of both plans are from the tables, and whether the plans that were
 * found have the properties that section 5.4 of the paper describes.
 *
 *   uneven operators   the smallest stage has less than nine tenths of the operators of the largest one
 *   few recompute      less than half of the operators of the first stage recompute, and none after it
 *   mixed degrees      operators of one stage differ in their data parallelism
 */
#include "lab/contest_claims.h"

#include <math.h>
#include <string.h>

#include "lab/published_read.h"

/* ---- properties of a plan -------------------------------------------------------------------- */

static struct stage_traits traits_of(const struct plan *plan, int32_t s)
{
    struct part part = plan->part[s];
    struct stage_traits traits = {.devices = plan->stage[s].devices, .operators = part.count};
    int64_t dp = split_degree(&plan_choice(plan, part.first)->split, DIM_BATCH);
    for (int64_t i = part.first; i < part.first + part.count; i++) {
        const struct choice *choice = plan_choice(plan, i);
        traits.recomputed += choice->recompute;
        traits.mixed |= split_degree(&choice->split, DIM_BATCH) != dp;
    }
    return traits;
}

void contest_describe(struct arena *keep, const struct plan *plan, struct contest *contest)
{
    contest->stages = plan->stages;
    contest->stage = ARENA_ARRAY(keep, struct stage_traits, (size_t)plan->stages);
    for (int32_t s = 0; s < plan->stages; s++)
        contest->stage[s] = traits_of(plan, s);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static bool all_found(const struct contest *contest)
{
    for (int r = 0; r < RIVAL_COUNT; r++)
        if (contest->predicted[r] <= 0)
            return false;
    return true;
}

struct contest_tally contests_tally(struct arena *scratch, const struct contests *contests,
                                    const char *family)
{
    struct error_list errors[RIVAL_COUNT] = {0};
    struct contest_tally tally = {0};
    for (size_t i = 0; i < contests->len; i++) {
        const struct contest *contest = &contests->data[i];
        if ((family && strcmp(contest->family, family) != 0) || !all_found(contest))
            continue;
        for (int r = 0; r < RIVAL_COUNT; r++)
            if (contest->measured[r] > 0)
                array_push(scratch, &errors[r],
                           fabs(contest->predicted[r] / contest->measured[r] - 1));
        if (contest->devices == 1)
            continue;
        tally.gains++;
        tally.measured += contest->measured[RIVAL_SEARCH] / contest->measured[RIVAL_RUN];
        for (int r = 0; r < RIVAL_COUNT; r++)
            tally.over[r] += contest->predicted[RIVAL_SEARCH] / contest->predicted[r];
    }
    for (int r = 0; r < RIVAL_COUNT; r++)
        tally.rate[r] = errors_of(errors[r].data, errors[r].len);
    if (tally.gains)
        tally.measured /= (double)tally.gains;
    for (int r = 0; r < RIVAL_COUNT && tally.gains; r++)
        tally.over[r] /= (double)tally.gains;
    return tally;
}

/* ---- section 5.4 ----------------------------------------------------------------------------- */

static const char *devices_text(struct arena *keep, const struct contest *contest)
{
    const char *text = "devices";
    for (int32_t s = 0; s < contest->stages; s++)
        text = arena_printf(keep, "%s %lld", text, (long long)contest->stage[s].devices);
    return text;
}

static const char *operators_text(struct arena *keep, const struct contest *contest)
{
    const char *text = "operators";
    for (int32_t s = 0; s < contest->stages; s++)
        text = arena_printf(keep, "%s %lld", text, (long long)contest->stage[s].operators);
    return text;
}

static const char *recomputed_text(struct arena *keep, const struct contest *contest)
{
    const char *text = "recomputed";
    for (int32_t s = 0; s < contest->stages; s++)
        text = arena_printf(keep, "%s %.0f%%", text,
                            100. * (double)contest->stage[s].recomputed /
                                (double)contest->stage[s].operators);
    return text;
}

static const char *mixed_layouts_text(struct arena *keep, const struct contest *contest)
{
    const char *text = NULL;
    for (int32_t s = 0; s < contest->stages; s++)
        if (contest->stage[s].mixed)
            text = arena_printf(keep, text ? "%s %d" : "%sin stage %d", text ? text : "", (int)s);
    return text ? text : "in no stage";
}

static bool stages_against_none(const struct contest *contest)
{
    return contest->stages > 1 && contest->run_stages == 1;
}

static const char *grid_text(struct arena *keep, const struct contest *contest)
{
    return arena_printf(keep, "%d; there %s", (int)contest->stages, contest->plan[RIVAL_RUN]);
}

static bool four_stages(const struct contest *contest)
{
    return contest->stages == 4;
}

/* The first and the last stage have fewer operators than every stage between them. */
static bool thin_ends(const struct contest *contest)
{
    if (contest->stages < 3)
        return false;
    for (int32_t s = 1; s + 1 < contest->stages; s++)
        if (contest->stage[s].operators <= contest->stage[0].operators ||
            contest->stage[s].operators <= contest->stage[contest->stages - 1].operators)
            return false;
    return true;
}

static bool uneven_operators(const struct contest *contest)
{
    int64_t least = INT64_MAX, most = 0;
    for (int32_t s = 0; s < contest->stages; s++) {
        least = contest->stage[s].operators < least ? contest->stage[s].operators : least;
        most = contest->stage[s].operators > most ? contest->stage[s].operators : most;
    }
    return (double)least < 0.9 * (double)most;
}

/* Some operators of the first stage are recomputed, and none after it. */
static bool recomputed_first(const struct contest *contest)
{
    bool after = false;
    for (int32_t s = 1; s < contest->stages; s++)
        after |= contest->stage[s].recomputed > 0;
    return contest->stage[0].recomputed > 0 &&
           contest->stage[0].recomputed < contest->stage[0].operators / 2 && !after;
}

static bool uneven_devices(const struct contest *contest)
{
    for (int32_t s = 1; s < contest->stages; s++)
        if (contest->stage[s].devices != contest->stage[0].devices)
            return true;
    return false;
}

static bool mixed_last(const struct contest *contest)
{
    return contest->stage[contest->stages - 1].mixed;
}

static bool three_stages(const struct contest *contest)
{
    return contest->stages == 3 && contest->stage[0].devices == 4 && contest->stage[1].devices == 4;
}

static const struct plan_trait {
    const char *name;
    bool (*holds)(const struct contest *contest);
    const char *(*found)(struct arena *keep, const struct contest *contest);
} TRAITS[] = {
    {"pipeline_against_none", stages_against_none, grid_text},
    {"four_stages", four_stages, devices_text},
    {"uneven_operators", uneven_operators, operators_text},
    {"thin_ends", thin_ends, operators_text},
    {"recomputed_first", recomputed_first, recomputed_text},
    {"uneven_devices", uneven_devices, devices_text},
    {"four_four_and_the_rest", three_stages, devices_text},
    {"mixed_last", mixed_last, mixed_layouts_text},
};

const struct plan_trait *plan_trait_find(const char *name)
{
    int at = NAME_INDEX(name, TRAITS);
    return at < 0 ? NULL : &TRAITS[at];
}

void contests_claims(struct arena *keep, const struct contests *contests,
                     struct contest_claims *out)
{
    for (size_t c = 0; c < contests->facts->claims.len; c++)
        for (size_t i = 0; i < contests->len; i++) {
            const struct claim_made *made = &contests->facts->claims.data[c];
            const struct contest *contest = &contests->data[i];
            if (strcmp(contest->model, made->model) != 0 || contest->stages == 0)
                continue;
            struct contest_claim claim = {made->says, made->trait->found(keep, contest), contest,
                                          made->trait->holds(contest)};
            array_push(keep, out, claim);
        }
}

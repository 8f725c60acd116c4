/* duel_traits.c - how far both plans are from the tables, and whether the found ones have what section
 * 5.4 of the paper tells of them.
 *
 *   uneven operators   the smallest stage has less than nine tenths of the largest one's
 *   few recompute      less than half of the first stage's operators, and none after it
 *   mixed degrees      operators of one stage differ in their data parallelism
 */
#include "lab/duel_traits.h"

#include <math.h>
#include <string.h>

#include "lab/published_read.h"

/* ---- what a plan has ------------------------------------------------------------------------- */

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

void duel_describe(struct arena *keep, const struct plan *plan, struct duel *duel)
{
    duel->stages = plan->stages;
    duel->stage = ARENA_ARRAY(keep, struct stage_traits, (size_t)plan->stages);
    for (int32_t s = 0; s < plan->stages; s++)
        duel->stage[s] = traits_of(plan, s);
}

/* ---- how far off ----------------------------------------------------------------------------- */

static bool all_found(const struct duel *duel)
{
    for (int r = 0; r < RIVAL_COUNT; r++)
        if (duel->predicted[r] <= 0)
            return false;
    return true;
}

struct duel_tally duels_tally(struct arena *scratch, const struct duels *duels, const char *family)
{
    struct error_list errors[RIVAL_COUNT] = {0};
    struct duel_tally tally = {0};
    for (size_t i = 0; i < duels->len; i++) {
        const struct duel *duel = &duels->data[i];
        if ((family && strcmp(duel->family, family) != 0) || !all_found(duel))
            continue;
        for (int r = 0; r < RIVAL_COUNT; r++)
            if (duel->measured[r] > 0)
                array_push(scratch, &errors[r], fabs(duel->predicted[r] / duel->measured[r] - 1));
        if (duel->devices == 1)
            continue;
        tally.gains++;
        tally.measured += duel->measured[RIVAL_SEARCH] / duel->measured[RIVAL_RUN];
        for (int r = 0; r < RIVAL_COUNT; r++)
            tally.over[r] += duel->predicted[RIVAL_SEARCH] / duel->predicted[r];
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

static const char *devices_text(struct arena *keep, const struct duel *duel)
{
    const char *text = "devices";
    for (int32_t s = 0; s < duel->stages; s++)
        text = arena_printf(keep, "%s %lld", text, (long long)duel->stage[s].devices);
    return text;
}

static const char *operators_text(struct arena *keep, const struct duel *duel)
{
    const char *text = "operators";
    for (int32_t s = 0; s < duel->stages; s++)
        text = arena_printf(keep, "%s %lld", text, (long long)duel->stage[s].operators);
    return text;
}

static const char *recomputed_text(struct arena *keep, const struct duel *duel)
{
    const char *text = "recomputed";
    for (int32_t s = 0; s < duel->stages; s++)
        text = arena_printf(keep, "%s %.0f%%", text,
                            100. * (double)duel->stage[s].recomputed /
                                (double)duel->stage[s].operators);
    return text;
}

static const char *mixed_layouts_text(struct arena *keep, const struct duel *duel)
{
    const char *text = NULL;
    for (int32_t s = 0; s < duel->stages; s++)
        if (duel->stage[s].mixed)
            text = arena_printf(keep, text ? "%s %d" : "%sin stage %d", text ? text : "", (int)s);
    return text ? text : "in no stage";
}

static bool stages_against_none(const struct duel *duel)
{
    return duel->stages > 1 && duel->run_stages == 1;
}

static const char *grid_text(struct arena *keep, const struct duel *duel)
{
    return arena_printf(keep, "%d; there %s", (int)duel->stages, duel->plan[RIVAL_RUN]);
}

static bool four_stages(const struct duel *duel)
{
    return duel->stages == 4;
}

/* The first and the last stage hold fewer operators than any between them. */
static bool thin_ends(const struct duel *duel)
{
    if (duel->stages < 3)
        return false;
    for (int32_t s = 1; s + 1 < duel->stages; s++)
        if (duel->stage[s].operators <= duel->stage[0].operators ||
            duel->stage[s].operators <= duel->stage[duel->stages - 1].operators)
            return false;
    return true;
}

static bool uneven_operators(const struct duel *duel)
{
    int64_t least = INT64_MAX, most = 0;
    for (int32_t s = 0; s < duel->stages; s++) {
        least = duel->stage[s].operators < least ? duel->stage[s].operators : least;
        most = duel->stage[s].operators > most ? duel->stage[s].operators : most;
    }
    return (double)least < 0.9 * (double)most;
}

/* Some in the first stage, none after it. */
static bool recomputed_first(const struct duel *duel)
{
    bool after = false;
    for (int32_t s = 1; s < duel->stages; s++)
        after |= duel->stage[s].recomputed > 0;
    return duel->stage[0].recomputed > 0 &&
           duel->stage[0].recomputed < duel->stage[0].operators / 2 && !after;
}

static bool uneven_devices(const struct duel *duel)
{
    for (int32_t s = 1; s < duel->stages; s++)
        if (duel->stage[s].devices != duel->stage[0].devices)
            return true;
    return false;
}

static bool mixed_last(const struct duel *duel)
{
    return duel->stage[duel->stages - 1].mixed;
}

static bool three_stages(const struct duel *duel)
{
    return duel->stages == 3 && duel->stage[0].devices == 4 && duel->stage[1].devices == 4;
}

static const struct {
    const char *model, *says;
    bool (*holds)(const struct duel *duel);
    const char *(*found)(struct arena *keep, const struct duel *duel);
} CLAIMS[] = {
    {"gpt3-1.3b", "a pipeline, unlike Megatron-LM's", stages_against_none, grid_text},
    {"gpt3-1.3b", "they are four", four_stages, devices_text},
    {"gpt3-1.3b", "stages are uneven", uneven_operators, operators_text},
    {"gpt3-1.3b", "the first and the last hold least", thin_ends, operators_text},
    {"gpt3-1.3b", "few recompute, and only in the first", recomputed_first, recomputed_text},
    {"wresnet-6.8b", "stages differ in devices", uneven_devices, devices_text},
    {"wresnet-6.8b", "they have 4, 4 and 8", three_stages, devices_text},
    {"wresnet-6.8b", "degrees differ inside the last", mixed_last, mixed_layouts_text},
};

void duels_claims(struct arena *keep, const struct duels *duels, struct duel_claims *out)
{
    for (size_t c = 0; c < COUNT_OF(CLAIMS); c++)
        for (size_t i = 0; i < duels->len; i++) {
            const struct duel *duel = &duels->data[i];
            if (strcmp(duel->model, CLAIMS[c].model) != 0 || duel->stages == 0)
                continue;
            struct duel_claim claim = {CLAIMS[c].says, CLAIMS[c].found(keep, duel), duel,
                                       CLAIMS[c].holds(duel)};
            array_push(keep, out, claim);
        }
}

/* recompute.c - the least recomputation that fits (Aceso, section 4.3: inc- and dec-rc attached
 * to every other primitive).
 *
 * Each level recomputes more operators than the one below (rows.c, I1). A part recomputes its first
 * layers at one level and the others at a lower one. Memory falls as the number of the first layers
 * grows, so the fewest that fit are found by bisection for each pair of levels, and the fastest
 * pair is taken. A stage of several pieces has its first pieces at the higher level instead of
 * layers.
 *
 *   I1  The choice depends only on the rest of the config: for a stage, on its parts and the
 *       borders next to them. It is kept by a hash of those.
 */
#include "search/aceso/room.h"

struct choosing {
    struct judge *judge;
    struct config *config;
    int32_t stage;
    struct stage_verdict verdict; /* the answer to the latest question */
};

/* Sets the first `amount` units to level `high`, and the rest to `low`. */
static void set_levels(const struct choosing *ch, int32_t low, int32_t high, int32_t amount)
{
    struct config *c = ch->config;
    const struct places_list *cuts = &ch->judge->problem->cuts[GRAIN_LAYERS];
    for (int32_t k = ch->stage, i = 0; k < config_parts(c); k += c->stages, i++) {
        struct config_part *part = &c->part[k];
        part->low = (uint8_t)low;
        part->high = (uint8_t)high;
        part->recompute_end = part->end;
        if (c->pieces > 1) {
            part->low = part->high = (uint8_t)(i < amount ? high : low);
            continue;
        }
        int32_t first = part_first(c, k);
        size_t at = 0, end = cuts->len;
        while (at < end) {
            size_t middle = (at + end) / 2;
            if (cuts->data[middle] <= first)
                at = middle + 1;
            else
                end = middle;
        }
        at += (size_t)amount;
        if (amount == 0)
            part->high = part->low;
        else if (at - 1 < cuts->len && cuts->data[at - 1] < part->end)
            part->recompute_end = cuts->data[at - 1];
        else
            part->low = part->high;
    }
}

static weft_status ask(struct choosing *ch, int32_t low, int32_t high, int32_t amount, bool *fits)
{
    set_levels(ch, low, high, amount);
    weft_status status = judge_stage(ch->judge, ch->config, ch->stage, &ch->verdict);
    *fits = ch->verdict.legal && ch->verdict.peak_bytes <= judge_limit(ch->judge, ch->config);
    return status;
}

/* The number of layers (or pieces) of a stage that can have a level of their own. */
static int32_t units_of(const struct choosing *ch)
{
    const struct config *c = ch->config;
    const struct places_list *cuts = &ch->judge->problem->cuts[GRAIN_LAYERS];
    if (c->pieces > 1)
        return c->pieces;
    int32_t units = 1, first = part_first(c, ch->stage);
    for (size_t i = 0; i < cuts->len; i++)
        units += cuts->data[i] > first && cuts->data[i] < c->part[ch->stage].end;
    return units;
}

struct levels {
    int32_t low, high, amount;
    int64_t busy_ns;
};

static weft_status try_pair(struct choosing *ch, int32_t low, int32_t high, int32_t units,
                            struct levels *best)
{
    int32_t none = 0, all = units; /* `none` does not fit, `all` does */
    int64_t busy_ns = INT64_MAX;
    weft_status status = WEFT_OK;
    bool fits;
    while (all - none > 1) {
        int32_t middle = (none + all) / 2;
        TRY(ask(ch, low, high, middle, &fits));
        if (fits) {
            all = middle;
            busy_ns = ch->verdict.busy_ns;
        } else {
            none = middle;
        }
    }
    if (busy_ns < best->busy_ns)
        *best = (struct levels){low, high, all, busy_ns};
done:
    return status;
}

/* The lowest level at which all of a stage fits; otherwise the one that exceeds the limit by
 * least. */
static weft_status try_even(struct choosing *ch, struct levels *best, bool *fits)
{
    int64_t least = INT64_MAX;
    weft_status status = WEFT_OK;
    *best = (struct levels){0, 0, 0, INT64_MAX};
    for (int32_t level = 0; level < ch->judge->problem->levels; level++) {
        TRY(ask(ch, level, level, 0, fits));
        if (!ch->verdict.legal)
            goto done;
        if (*fits || ch->verdict.peak_bytes < least)
            *best = (struct levels){level, level, 0, ch->verdict.busy_ns};
        if (*fits)
            goto done;
        least = ch->verdict.peak_bytes < least ? ch->verdict.peak_bytes : least;
    }
done:
    return status;
}

static weft_status choose(struct choosing *ch, struct levels *best)
{
    weft_status status;
    bool fits;
    TRY(try_even(ch, best, &fits));
    int32_t even = best->low, units = fits && even ? units_of(ch) : 0;
    for (int32_t low = 0; fits && low < even; low++)
        for (int32_t high = even; high < ch->judge->problem->levels; high++)
            TRY(try_pair(ch, low, high, units, best));
    set_levels(ch, best->low, best->high, best->amount);
done:
    return status;
}

/* ---- what was chosen before ------------------------------------------------------------------ */

static void clear_levels(struct config *c, int32_t stage)
{
    for (int32_t k = stage; k < config_parts(c); k += c->stages) {
        c->part[k].low = c->part[k].high = 0;
        c->part[k].recompute_end = c->part[k].end;
    }
}

static weft_status choose_once(struct choosing *ch)
{
    struct judge *j = ch->judge;
    struct levels best;
    uint64_t hash;
    weft_status status;
    clear_levels(ch->config, ch->stage);
    TRY(judge_stage_hash(j, ch->config, ch->stage, &hash));
    struct chosen *slot = &j->chosen[hash % PART_SLOTS];
    if (slot->hash == hash) {
        set_levels(ch, slot->low, slot->high, slot->amount);
        return WEFT_OK;
    }
    TRY(choose(ch, &best));
    *slot = (struct chosen){hash, best.low, best.high, best.amount};
done:
    return status;
}

weft_status judge_recompute(struct judge *judge, struct config *c, uint64_t stages)
{
    weft_status status = WEFT_OK;
    for (int32_t s = 0; s < c->stages; s++) {
        struct choosing ch = {judge, c, s, {0}};
        if (stages >> s & 1)
            TRY(choose_once(&ch));
    }
done:
    return status;
}

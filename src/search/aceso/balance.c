/* balance.c - cuts between operators that even out the stages; devices and degrees stay as they are.
 *
 * With b_s(i, j) how long stage s is busy with operators i to j - 1, recomputing as little as fits,
 * this looks for the cuts 0 = c_0 < c_1 < ... < c_S with the least
 *
 *   T = max over s of b_s(c_s, c_{s+1})                                                          (1)
 *
 * For a given bound on T, stages are filled from the first on, each with as many operators as it
 * has time and memory for; the bound is found by bisection.
 *
 *   I1  b_s grows with j except for the cost of the cut itself. So the end of a stage is found by
 *       bisection, and then places up to a layer further are tried. A stage may still get fewer
 *       operators than it could take: the result is only a proposal, judged like any other change.
 *   I2  Every stage then has one manner: the one that most of its operators had.
 */
#include "search/aceso/tune.h"

enum {
    BOUNDS = 6, /* bisections of T, between an even share and the busiest stage */
    AHEAD = 14  /* places tried after the end that was found: those of a layer (I1) */
};

static weft_status takes(struct judge *judge, struct config *c, int32_t stage, int32_t end,
                         int64_t most_ns, bool *out)
{
    struct stage_verdict verdict;
    struct config_part *part = &c->part[stage];
    weft_status status;
    part->end = end;
    set_manner(part, part->manner[0]);
    TRY(judge_recompute(judge, c, UINT64_C(1) << stage));
    TRY(judge_stage(judge, c, stage, &verdict));
    *out =
        verdict.legal && verdict.busy_ns <= most_ns && verdict.peak_bytes <= judge_limit(judge, c);
done:
    return status;
}

/* The first place to cut that comes after an operator. */
static size_t cut_after(const struct places_list *cuts, int32_t operator)
{
    size_t at = 0, end = cuts->len;
    while (at < end) {
        size_t middle = (at + end) / 2;
        if (cuts->data[middle] <= operator)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* Fills the stages within a bound; *filled is false if that is impossible. */
static weft_status fill(struct judge *judge, struct config *c, int64_t most_ns, bool *filled)
{
    const struct places_list *cuts = &judge_problem(judge)->cuts[GRAIN_OPERATORS];
    int32_t last = c->stages - 1, all = c->part[last].end;
    weft_status status = WEFT_OK;
    *filled = false;
    for (int32_t s = 0; s < last; s++) {
        size_t none = cut_after(cuts, part_first(c, s)), some = none;
        size_t left = (size_t)(last - s), end = cuts->len + 1 > left ? cuts->len + 1 - left : 0;
        bool fits = false;
        if (some >= end)
            goto done;
        TRY(takes(judge, c, s, cuts->data[some], most_ns, &fits));
        if (!fits)
            goto done;
        while (end - some > 1) {
            size_t middle = (some + end) / 2;
            TRY(takes(judge, c, s, cuts->data[middle], most_ns, &fits));
            *(fits ? &some : &end) = middle;
        }
        end = cuts->len + 1 - left < some + AHEAD ? cuts->len + 1 - left : some + AHEAD;
        for (fits = false; !fits && end > some;)
            TRY(takes(judge, c, s, cuts->data[--end], most_ns, &fits));
    }
    TRY(takes(judge, c, last, all, most_ns, filled));
done:
    return status;
}

/* The bounds of T: an even share of the work of all stages, and what the busiest stage does. */
static weft_status bounds_of(struct judge *judge, const struct config *c, int64_t *least,
                             int64_t *most, bool *legal)
{
    struct stage_use cost[MOST_STAGES];
    struct verdict verdict;
    weft_status status;
    TRY(judge_config(judge, c, &verdict, cost, legal));
    *least = *most = 0;
    for (int32_t s = 0; *legal && s < c->stages; s++) {
        *least += cost[s].busy_ns / c->stages;
        *most = cost[s].busy_ns > *most ? cost[s].busy_ns : *most;
    }
done:
    return status;
}

weft_status tune_balance(struct tuning *t)
{
    struct config flat, c;
    int64_t least, most;
    bool legal, filled;
    weft_status status = WEFT_OK;
    if (t->config->pieces > 1 || t->config->stages == 1)
        return WEFT_OK;
    config_copy(&flat, t->config);
    for (int32_t s = 0; s < flat.stages; s++)
        set_manner(&flat.part[s], *main_manner(t->config, s)); /* I2 */
    TRY(bounds_of(t->judge, t->config, &least, &most, &legal));
    for (int i = 0; legal && i < BOUNDS && !judge_over(t->judge); i++) {
        int64_t middle = least + (most - least) / 2;
        config_copy(&c, &flat);
        TRY(fill(t->judge, &c, middle, &filled));
        if (filled)
            TRY(tune_consider(t, &c, 0));
        *(filled ? &most : &least) = middle;
    }
done:
    return status;
}

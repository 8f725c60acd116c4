/* tune.c - changes inside a stage, operator by operator (Aceso, section 4.2), and cuts moved by single
 * operators; each change is kept if it makes the config better, until none does.
 *
 *   cut      moves one or several operators from a part to the next or back; then two cuts at once
 *   leap     removes a cut and makes it again inside another part
 *   step     takes the next larger or smaller step, with cuts, leaps and changes, unless it begins FAR_OFF
 *   order    swaps the devices of two neighbouring stages
 *   tp       changes the tp of a stage, with the cuts around it
 *   manners  paint.c
 *   balance  balance.c
 */
#include "search/aceso/tune.h"

#include <string.h>

/* Another step that fits as it is, and is slower than the present one by this factor, is not worth tuning: of 513
 * such steps in the searches for 14 problems 8 won, and all of these began within 3 %. */
static const double FAR_OFF = 1.05;
/* What gained less than this share of the time is not gone through again: of 76 second and later rounds in the same
 * searches, none of the 34 after so small a gain brought more than 0.03 %. */
static const double WORTH_A_ROUND = 0.001;

/* Whether a config is legal and may still be judged. */
static bool tune_prepare(const struct tuning *t, struct config *c)
{
    config_normalise(c);
    return config_legal(judge_problem(t->judge), c) && !judge_over(t->judge);
}

static weft_status consider_legal(struct tuning *t, struct config *c, uint64_t stages)
{
    const struct problem *p = judge_problem(t->judge);
    struct verdict verdict;
    bool legal;
    weft_status status;
    TRY(judge_recompute(t->judge, c, stages));
    config_normalise(c);
    TRY(judge_config(t->judge, c, &verdict, NULL, &legal));
    if (legal)
        note_found(p, t->out, c, verdict, config_hash(c));
    if (!legal || !better(verdict, t->verdict))
        goto done;
    t->verdict = verdict;
    t->changed = true;
    config_copy(t->config, c);
done:
    return status;
}

weft_status tune_consider(struct tuning *t, struct config *c, uint64_t stages)
{
    return tune_prepare(t, c) ? consider_legal(t, c, stages) : WEFT_OK;
}

static uint64_t both_stages(const struct config *c, int32_t part)
{
    return UINT64_C(1) << part % c->stages | UINT64_C(1) << (part + 1) % c->stages;
}

/* Moves the cut after a part; false: one of the two parts would be empty. */
static bool shift_cut(struct config *c, int32_t part, int32_t by)
{
    struct config_part *own = &c->part[part];
    own->end += by;
    return own->end > part_first(c, part) && own->end < c->part[part + 1].end;
}

static weft_status tune_cut(struct tuning *t, int32_t part)
{
    enum { WINDOW = 20 }; /* more than the operators of a layer */
    struct config from;
    weft_status status = WEFT_OK;
    config_copy(&from, t->config);
    for (int32_t by = -WINDOW; by <= WINDOW; by++) {
        struct config c;
        config_copy(&c, &from);
        if (by && shift_cut(&c, part, by))
            TRY(tune_consider(t, &c, both_stages(&c, part)));
    }
done:
    return status;
}

/* Moves two neighbouring cuts at once: one may gain what the other loses. */
static weft_status tune_two_cuts(struct tuning *t, int32_t part)
{
    enum { FEW = 6, WINDOW = 14, SMALL_WINDOW = 4 };
    int32_t window = config_parts(t->config) <= FEW ? WINDOW : SMALL_WINDOW;
    struct config from;
    weft_status status = WEFT_OK;
    config_copy(&from, t->config);
    for (int32_t by = -window; by <= window; by++)
        for (int32_t other = -window; other <= window; other++) {
            struct config c;
            config_copy(&c, &from);
            bool inside = shift_cut(&c, part + 1, other);
            inside = shift_cut(&c, part, by) && inside;
            if (by && other && inside && part_first(&c, part + 2) > c.part[part].end)
                TRY(tune_consider(t, &c, both_stages(&c, part) | both_stages(&c, part + 1)));
        }
done:
    return status;
}

/* Moves cuts one by one, then two by two. */
static weft_status trim(struct tuning *t)
{
    enum { ROUNDS = 8 };
    const struct config *c = t->config;
    bool any = false;
    weft_status status = WEFT_OK;
    t->changed = true;
    for (int round = 0; round < ROUNDS && t->changed && !judge_over(t->judge); round++) {
        t->changed = false;
        for (int32_t k = 0; k + 1 < config_parts(c); k++)
            TRY(tune_cut(t, k));
        for (int32_t k = 0; !t->changed && k + 2 < config_parts(c); k++)
            TRY(tune_two_cuts(t, k));
        any |= t->changed;
    }
    t->changed = any;
done:
    return status;
}

/* Removes a cut and makes it again at another place: the stages between the two change all their
 * operators, and have one manner each. */
static void leap(const struct config *from, int32_t cut, int32_t to, struct config *c)
{
    config_copy(c, from);
    for (; cut > 0 && c->part[cut - 1].end > to; cut--)
        c->part[cut].end = c->part[cut - 1].end;
    for (; c->part[cut + 1].end < to; cut++)
        c->part[cut].end = c->part[cut + 1].end;
    c->part[cut].end = to;
    for (int32_t k = 0; k < config_parts(c); k++)
        if (part_first(c, k) != part_first(from, k) || c->part[k].end != from->part[k].end)
            set_manner(&c->part[k], *main_manner(from, k));
}

/* Whether one stage by itself proves that a config would not be kept: most leaps leave one stage
 * with the operators of two. */
static weft_status is_slow(struct tuning *t, struct config *c, int32_t stage, bool *slow)
{
    struct verdict least;
    weft_status status;
    *slow = false;
    TRY(judge_least(t->judge, c, stage, &least));
    *slow =
        !better(least, t->verdict) && !is_worth_noting(judge_problem(t->judge), t->out, c, least);
done:
    return status;
}

static bool same_part(const struct config *a, const struct config *b, int32_t part)
{
    const struct config_part *x = &a->part[part], *y = &b->part[part];
    return part_first(a, part) == part_first(b, part) && x->end == y->end &&
           memcmp(x->change, y->change, sizeof x->change) == 0 &&
           memcmp(x->manner, y->manner, sizeof x->manner) == 0;
}

static uint64_t bit_of_stage(const struct config *c, int32_t part)
{
    return (uint64_t)1 << part % c->stages;
}

/* The stages whose parts or neighbours differ from those in a config of the same devices, as bits;
 * all stages, if the parts of a tied weight differ. The other stages take over their levels of
 * recomputation: the same ones would be chosen again (recompute.c, I1). */
static uint64_t take_levels(const struct problem *p, const struct config *from, struct config *c)
{
    uint64_t other = 0;
    int32_t parts = config_parts(c);
    for (int32_t k = 0; k < parts; k++) {
        if (same_part(from, c, k))
            continue;
        other |= bit_of_stage(c, k);
        if (k > 0)
            other |= bit_of_stage(c, k - 1);
        if (k + 1 < parts)
            other |= bit_of_stage(c, k + 1);
    }
    if (p->tied.user >= 0) {
        struct tied_parts at = tied_parts_of(c, p->tied);
        if (!same_part(from, c, at.owner) || !same_part(from, c, at.user))
            return UINT64_MAX;
    }
    for (int32_t k = 0; k < parts; k++)
        if (!(other & bit_of_stage(c, k))) {
            c->part[k].low = from->part[k].low;
            c->part[k].high = from->part[k].high;
            c->part[k].recompute_end = from->part[k].recompute_end;
        }
    return other;
}

/* Moves one cut into every part that it does not border already. */
static weft_status tune_leap(struct tuning *t, int32_t cut)
{
    enum { PLACES = 24 };
    struct config from, before = {0}, c;
    weft_status status = WEFT_OK;
    config_copy(&from, t->config);
    for (int32_t k = 0; k < config_parts(&from); k++) {
        int32_t first = part_first(&from, k), end = from.part[k].end;
        int32_t step = (end - first) / PLACES + 1, whole = k < cut ? cut + 1 : cut;
        for (int32_t to = first + 1; k != cut && k != cut + 1 && to < end; to += step) {
            bool slow;
            leap(&from, cut, to, &c); /* as legal and as normal as the config it comes from */
            if (judge_over(t->judge))
                goto done;
            TRY(is_slow(t, &c, whole % c.stages, &slow));
            if (slow)
                judge_pass_over(t->judge);
            if (slow || !tune_prepare(t, &c))
                continue;
            uint64_t stages =
                before.stages ? take_levels(judge_problem(t->judge), &before, &c) : UINT64_MAX;
            TRY(consider_legal(t, &c, stages));
            config_copy(&before, &c);
        }
    }
done:
    return status;
}

weft_status tune_leaps(struct tuning *t)
{
    weft_status status = WEFT_OK;
    for (int32_t k = 0; k + 1 < config_parts(t->config); k++)
        TRY(tune_leap(t, k));
done:
    return status;
}

/* Finds the cuts and manners that suit another batch. */
static weft_status tune_to_batch(struct tuning *t)
{
    weft_status status;
    TRY(tune_zones(t));
    TRY(trim(t));
    TRY(tune_leaps(t));
    TRY(tune_changes(t));
done:
    return status;
}

static bool is_far(struct verdict from, struct verdict to)
{
    return to.excess_bytes == 0 && from.excess_bytes == 0 &&
           (double)to.iteration_ns > FAR_OFF * (double)from.iteration_ns;
}

/* Tries the next batch above or below, and judges it after tuning. */
static weft_status tune_batch(struct tuning *t, int dir, weft_status (*tune)(struct tuning *))
{
    const struct problem *p = judge_problem(t->judge);
    struct config c, tuned;
    struct tuning own = {.judge = t->judge, .out = t->out, .config = &c};
    int32_t at = 0;
    bool legal;
    weft_status status = WEFT_OK;
    config_copy(&c, t->config);
    while (p->step_sizes[at] < c.step_samples)
        at++;
    if (at + dir < 0 || at + dir >= p->step_size_count)
        return WEFT_OK;
    c.step_samples = p->step_sizes[at + dir];
    if (!config_legal(p, &c))
        return WEFT_OK;
    TRY(judge_recompute(t->judge, &c, UINT64_MAX));
    config_normalise(&c);
    TRY(judge_config(t->judge, &c, &own.verdict, NULL, &legal));
    if (!legal || is_far(t->verdict, own.verdict))
        goto done;
    TRY(tune(&own));
    config_copy(&tuned, &c);
    TRY(tune_consider(t, &tuned, 0));
done:
    return status;
}

/* Compares a config after the cuts around a stage have been tuned. */
static weft_status consider_tuned(struct tuning *t, struct config *c, int32_t stage)
{
    enum { PASSES = 2 };
    struct tuning own = {.judge = t->judge, .out = t->out, .config = c};
    struct config tuned;
    bool legal;
    weft_status status = WEFT_OK;
    int32_t first = stage > 0 ? stage - 1 : 0, last = stage + 1;
    config_normalise(c);
    if (!config_legal(judge_problem(t->judge), c))
        return WEFT_OK;
    TRY(judge_recompute(t->judge, c, UINT64_MAX));
    config_normalise(c);
    TRY(judge_config(t->judge, c, &own.verdict, NULL, &legal));
    for (int pass = 0; legal && pass < PASSES; pass++)
        for (int32_t k = first; k <= last && k + 1 < c->stages; k++)
            TRY(tune_cut(&own, k));
    config_copy(&tuned, c);
    if (legal)
        TRY(tune_consider(t, &tuned, 0));
done:
    return status;
}

/* Swaps the devices of two neighbouring stages, with every tp of the larger. */
static weft_status tune_order(struct tuning *t, int32_t stage)
{
    const struct problem *p = judge_problem(t->judge);
    struct config from, c;
    weft_status status = WEFT_OK;
    config_copy(&from, t->config);
    int32_t devices = from.devices[stage], other = from.devices[stage + 1];
    if (from.pieces > 1 || devices == other)
        return WEFT_OK;
    from.devices[stage] = other;
    from.devices[stage + 1] = devices;
    struct manner own = *main_manner(&from, stage), next = *main_manner(&from, stage + 1);
    set_manner(&from.part[stage], next);
    set_manner(&from.part[stage + 1], own);
    int32_t large = stage + (devices > other);
    for (int64_t tp = 1; tp <= p->node && tp <= from.devices[large]; tp++) {
        if (!p->tp_goes[tp] || !dp_of(from.devices[large], tp, main_manner(&from, large)->cp))
            continue;
        config_copy(&c, &from);
        set_tp(&c, large, tp);
        config_cut_evenly(p, &c);
        TRY(consider_tuned(t, &c, stage));
    }
done:
    return status;
}

/* Tries every tp of a stage, with cuts that suit it. */
static weft_status tune_tp(struct tuning *t, int32_t stage)
{
    const struct problem *p = judge_problem(t->judge);
    struct config c;
    weft_status status = WEFT_OK;
    for (int64_t tp = 1; tp <= p->node && tp <= t->config->devices[stage]; tp++) {
        config_copy(&c, t->config);
        if (c.pieces > 1 || !p->tp_goes[tp] ||
            !dp_of(c.devices[stage], tp, main_manner(&c, stage)->cp))
            continue;
        set_tp(&c, stage, tp);
        TRY(consider_tuned(t, &c, stage));
    }
done:
    return status;
}

weft_status aceso_balance(struct judge *judge, struct config *c, struct search_result *out)
{
    struct tuning t = {.judge = judge, .out = out, .config = c};
    bool legal;
    weft_status status;
    TRY(judge_config(judge, c, &t.verdict, NULL, &legal));
    TRY(tune_balance(&t));
    if (t.changed)
        TRY(trim(&t));
done:
    return status;
}

weft_status aceso_trim(struct judge *judge, struct config *c, struct search_result *out)
{
    struct tuning t = {.judge = judge, .out = out, .config = c};
    bool legal;
    weft_status status;
    TRY(judge_config(judge, c, &t.verdict, NULL, &legal));
    TRY(trim(&t));
done:
    return status;
}

weft_status aceso_fit(struct judge *judge, struct config *c, struct search_result *out)
{
    enum { ROUNDS = 4 };
    struct tuning t = {.judge = judge, .out = out, .config = c, .changed = true};
    bool legal;
    weft_status status;
    TRY(judge_config(judge, c, &t.verdict, NULL, &legal));
    for (int round = 0; round < ROUNDS && t.changed; round++) {
        t.changed = false;
        if (judge_problem(judge)->devices > FEW_DEVICES)
            TRY(tune_alike(&t));
        TRY(tune_zones(&t));
        TRY(tune_batch(&t, 1, tune_zones));
        TRY(tune_batch(&t, -1, tune_zones));
    }
done:
    return status;
}

static bool is_worth_a_round(struct verdict before, struct verdict after)
{
    return after.excess_bytes < before.excess_bytes ||
           (double)after.iteration_ns < (1 - WORTH_A_ROUND) * (double)before.iteration_ns;
}

weft_status aceso_tune(struct judge *judge, struct config *c, struct search_result *out)
{
    enum { ROUNDS = 6 };
    struct tuning t = {.judge = judge, .out = out, .config = c};
    bool legal;
    weft_status status;
    TRY(judge_config(judge, c, &t.verdict, NULL, &legal));
    for (int round = 0; round < ROUNDS && !judge_over(judge); round++) {
        struct verdict before = t.verdict;
        TRY(trim(&t));
        TRY(tune_leaps(&t));
        TRY(tune_batch(&t, 1, tune_to_batch));
        TRY(tune_batch(&t, -1, tune_to_batch));
        for (int32_t s = 0; s + 1 < c->stages; s++)
            TRY(tune_order(&t, s));
        for (int32_t s = 0; s < c->stages; s++)
            TRY(tune_tp(&t, s));
        TRY(tune_zones(&t));
        TRY(tune_changes(&t));
        TRY(tune_variants(&t));
        if (!is_worth_a_round(before, t.verdict))
            break;
    }
done:
    return status;
}

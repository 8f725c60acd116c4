/* rules.c - what a row of the table comes to for given numbers (target.h, I2): one rule after another.
 *
 *   I1  Devices stay in use: a degree that goes makes dp larger.
 *   I2  Of two levels of state sharding the higher one is nearer: what fitted still fits.
 *   I3  A mended rule stays mended: no later rule brings back what an earlier one took away.
 */
#include <string.h>

#include "target/room.h"

enum dtype dtype_of(const struct numbers *n)
{
    return n->d->has_dtype ? n->d->dtype : n->model->dtype;
}

/* Rule `i` of all; NULL: there are no more. */
static const struct target_rule *rule_at(size_t i)
{
    if (i < DEGREE_RULES.len)
        return &DEGREE_RULES.data[i];
    i -= DEGREE_RULES.len;
    return i < STATE_RULES.len ? &STATE_RULES.data[i] : NULL;
}

/* Degrees that are left open are 1. */
static void close_degrees(struct degrees *d)
{
    int64_t *const left_open[] = {&d->dp, &d->tp, &d->pp, &d->cp, &d->ep, &d->pieces, &d->segments};
    for (size_t i = 0; i < COUNT_OF(left_open); i++)
        if (*left_open[i] == 0)
            *left_open[i] = 1;
}

bool target_runs_degrees(const struct target *target, const struct model *model,
                         const struct degrees *degrees)
{
    struct degrees d = *degrees;
    const int64_t *part_layers = NULL;
    const struct target_rule *rule;
    int64_t block = degrees->recompute_layers;
    struct numbers n = {target, model, &d, &part_layers, &block};
    close_degrees(&d);
    for (size_t i = 0; (rule = rule_at(i)) != NULL; i++)
        if (rule->broken(&n))
            return false;
    return true;
}

/* ---- words ----------------------------------------------------------------------------------- */

struct held_rule {
    const struct target_rule *rule;
    const struct numbers *numbers;
};

/* Whether a target has the model, and these numbers do not break the rule there. */
static bool obeys(const struct target *target, const void *of)
{
    const struct held_rule *held = of;
    struct numbers other = *held->numbers;
    other.target = target;
    bool has = !held->rule->broken(&other) && target_has_model(target, other.model) == WEFT_OK;
    error_clear();
    return has;
}

/* What the rule says, and which frameworks do not say so. */
static const char *rule_text(struct arena *keep, const struct target_rule *rule,
                             const struct numbers *n)
{
    const char *others = targets_where(keep, obeys, &(struct held_rule){rule, n});
    return arena_printf(keep, "%s%s%s%s", rule->text(keep, n), others ? " (" : "",
                        others ? others : "", others ? " can)" : "");
}

/* ---- pins ------------------------------------------------------------------------------------ */

/* Whether a number that was pinned is another now. */
static bool changes_pins(const struct degrees *pins, const struct degrees *d)
{
    const int64_t asked[] = {pins->dp,         pins->tp,         pins->pp,        pins->cp,
                             pins->ep,         pins->etp,        pins->pieces,    pins->cp_heads,
                             pins->encoder_tp, pins->encoder_dp, pins->encoder_pp};
    const int64_t now[] = {d->dp,         d->tp,         d->pp,        d->cp,
                           d->ep,         d->etp,        d->pieces,    d->cp_heads,
                           d->encoder_tp, d->encoder_dp, d->encoder_pp};
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        if (asked[i] && asked[i] != now[i])
            return true;
    return (pins->schedule && strcmp(pins->schedule, d->schedule) != 0) ||
           (pins->has_shard && pins->shard != d->shard) || pins->replicate != d->replicate ||
           pins->group != d->group || pins->defer_head != d->defer_head ||
           pins->optimizer != d->optimizer || pins->optimizer_offload != d->optimizer_offload ||
           (pins->has_recompute && pins->recompute != d->recompute) ||
           (pins->has_dtype && pins->dtype != d->dtype) ||
           (pins->has_policy && pins->policy != d->policy) || (pins->offload && !d->offload) ||
           pins->offload_modules != d->offload_modules || (pins->sequence && !d->sequence);
}

const char *target_refuses_pins(struct arena *keep, const struct target *target,
                                const struct model *model, const struct degrees *pins)
{
    struct degrees d = *pins;
    const int64_t *part_layers = NULL;
    const struct target_rule *rule;
    int64_t block = pins->recompute_layers;
    struct numbers n = {target, model, &d, &part_layers, &block};
    close_degrees(&d);
    for (size_t i = 0; (rule = rule_at(i)) != NULL; i++) {
        if (!rule->broken(&n))
            continue;
        const char *text = rule_text(keep, rule, &n);
        rule->mend(&n);
        if (changes_pins(pins, &d) || block != pins->recompute_layers)
            return text;
    }
    return NULL;
}

/* What was open stays open, whatever the rules made of it. */
static void open_again(const struct degrees *pins, struct degrees *d)
{
    const int64_t asked[] = {pins->dp,  pins->tp,     pins->pp,       pins->cp,      pins->ep,
                             pins->etp, pins->pieces, pins->cp_heads, pins->segments};
    int64_t *const now[] = {&d->dp,  &d->tp,     &d->pp,       &d->cp,      &d->ep,
                            &d->etp, &d->pieces, &d->cp_heads, &d->segments};
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        if (!asked[i])
            *now[i] = 0;
    if (!pins->schedule)
        d->schedule = NULL;
}

struct degrees target_nearest_pins(const struct target *target, const struct model *model,
                                   const struct degrees *pins)
{
    struct degrees d = *pins;
    const int64_t *part_layers = NULL;
    const struct target_rule *rule;
    struct numbers n = {target, model, &d, &part_layers, &d.recompute_layers};
    close_degrees(&d);
    for (size_t i = 0; (rule = rule_at(i)) != NULL; i++)
        if (rule->broken(&n))
            rule->mend(&n);
    open_again(pins, &d);
    return d;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A replica's share of the batch is whole micro-batches. */
static void fit_micro_batch(struct degrees *d)
{
    int64_t share = d->global_batch / d->dp;
    while (share && share % d->micro_batch)
        d->micro_batch--;
}

void obey_rules(struct arena *keep, const struct target *target, const struct plan *plan,
                struct recognised *r)
{
    struct numbers n = {target, plan->model, &r->degrees, &r->part_layers, &r->block};
    const struct target_rule *rule;
    for (size_t i = 0; (rule = rule_at(i)) != NULL; i++)
        if (rule->broken(&n)) {
            add_text(keep, &r->differences, rule_text(keep, rule, &n));
            rule->mend(&n);
        }
    fit_micro_batch(&r->degrees);
}

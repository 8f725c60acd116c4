/* defer_heads.c - gradients of the head's weights that wait for the end of the passes (room.h, plan/defer.c).
 *
 * The last stage, which the head makes the slowest, leaves them to the time in which the stages before it drain. What waits is
 * held: for all micro-batches, or, where that does not fit, for a half, a quarter, ... of them.
 *
 *   I1  Only if the target does so (without one, the target whose software is asked for), and nobody says how many wait:
 *       every plan has these then.
 *   I2  Tried are the best plans so far, by estimate; of each, the fastest number that fits is simulated, if by estimate it
 *       makes the base as much faster as it has to be, to be the best.
 */
#include "search/auto/pins.h"
#include "search/auto/room.h"

enum { MOST_BASES = 3, MOST_COUNTS = 8 };

/* The plans of one base: the estimator knows orders by their address, so all are kept until it has answered. */
struct deferrals {
    struct plan *plan[MOST_COUNTS];
    int64_t ns[MOST_COUNTS]; /* by estimate; INT64_MAX: it does not fit, or was tried */
    int32_t count;
    int64_t base_ns; /* of the base, by estimate */
};

/* I1 */
static bool has_deferral(const struct plan_request *request)
{
    const struct target *target = pins_target(request);
    return target && target->can.defers_head && !request->pins.order && !request->pins.defer_head;
}

/* The best trial that fits, of several stages and of these alone that are slower than `before` (NULL: of all). */
static const struct trial *next_base(const struct planned *planned, const struct trial *before)
{
    const struct trial *best = NULL;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        int64_t stages = trial->plan ? trial->plan->stages : trial->degrees.pp;
        if (!trial->fits || stages < 2 || (before && ns_per_sample(trial) <= ns_per_sample(before)))
            continue;
        if (!best || ns_per_sample(trial) < ns_per_sample(best))
            best = trial;
    }
    return best;
}

/* Adds the base with so many that wait; false: it cannot. */
static bool add_deferral(const struct join *join, const struct trial *base, int64_t count,
                         struct deferrals *out)
{
    struct plan **plan = &out->plan[out->count];
    if (join_plan_of(join, base, plan) || plan_defer_head(*plan, count) || plan_check(*plan) ||
        plan_forbidden(&join->request->forbids, *plan)) {
        error_clear();
        plan_free(*plan);
        return false;
    }
    out->ns[out->count++] = INT64_MAX;
    return true;
}

static void list_deferrals(const struct join *join, const struct trial *base, struct deferrals *out)
{
    int64_t count = DEFER_ALL;
    while (out->count < MOST_COUNTS && count && add_deferral(join, base, count, out))
        count = (count < 0 ? plan_micro_batches(out->plan[0]) : count) / 2;
}

static weft_status estimate_deferrals(const struct join *join, const struct trial *base,
                                      struct deferrals *all)
{
    struct arena *scratch = arena_new();
    struct plan *plan = NULL; /* the base's */
    struct estimate_settings settings = estimate_settings_of(all->plan[0]);
    struct estimator *estimator = NULL;
    struct estimate estimate;
    weft_status status;
    settings.profile = join->request->profile;
    settings.flows = join->request->flows;
    TRY(estimator_new(&settings, &estimator));
    TRY(join_plan_of(join, base, &plan));
    TRY(estimate_plan(estimator, plan, scratch, &estimate));
    all->base_ns = estimate.iteration_ns;
    for (int32_t i = 0; i < all->count; i++) {
        TRY(estimate_plan(estimator, all->plan[i], scratch, &estimate));
        all->ns[i] = estimate.fits ? estimate.iteration_ns : INT64_MAX;
    }
done:
    plan_free(plan);
    estimator_free(estimator);
    arena_free(scratch);
    return status;
}

/* The place of the fastest by estimate, if it makes the base faster than what is best; -1: none. */
static int32_t fastest_of(const struct deferrals *all, const struct trial *base,
                          const struct trial *best)
{
    int32_t at = -1;
    for (int32_t i = 0; i < all->count; i++) {
        double share = (double)all->ns[i] / (double)all->base_ns;
        if (all->ns[i] < INT64_MAX && share * ns_per_sample(base) < ns_per_sample(best) &&
            (at < 0 || all->ns[i] < all->ns[at]))
            at = i;
    }
    return at;
}

/* I2 */
static weft_status simulate_fastest(struct join *join, const struct trial *base,
                                    struct deferrals *all)
{
    struct planned *out = join->out;
    const struct trial *trial = NULL;
    weft_status status = WEFT_OK;
    int32_t at;
    while ((!trial || !trial->fits) && !join_over(join)) {
        at = fastest_of(all, base, join_best(out, NULL));
        if (at < 0)
            break;
        struct plan *plan = all->plan[at];
        size_t before = out->trials.len;
        all->plan[at] = NULL;
        all->ns[at] = INT64_MAX;
        TRY(try_plan(join->request, join->cost, plan,
                     arena_printf(out->arena, "%s, defer-head %s", base->text,
                                  deferral_text(out->arena, plan->defer_head)),
                     out, &trial));
        if (out->trials.len > before)
            out->trials.data[before].found_by =
                arena_printf(out->arena, "%s and defer-head", base->found_by);
        join_report(join);
    }
done:
    return status;
}

weft_status defer_heads(struct join *join)
{
    struct trial base = {0}; /* a copy, because the trials may move in memory */
    weft_status status = WEFT_OK;
    if (!has_deferral(join->request))
        return WEFT_OK;
    for (int32_t i = 0; i < MOST_BASES && !join_over(join); i++) {
        const struct trial *next = next_base(join->out, i ? &base : NULL);
        struct deferrals all = {0};
        if (!next)
            break;
        base = *next;
        list_deferrals(join, &base, &all);
        if (all.count)
            status = estimate_deferrals(join, &base, &all);
        if (!status)
            status = simulate_fastest(join, &base, &all);
        for (int32_t k = 0; k < all.count; k++)
            plan_free(all.plan[k]);
        if (status)
            break;
    }
    return status;
}

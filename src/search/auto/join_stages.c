/* join_stages.c - stages that take several micro-batches at once (room.h; plan/joins.c; Proteus, section IV-B: n_micro_batch of
 * a subgraph).
 *
 * A larger micro-batch makes larger kernels and fewer of them, but the first stages hold many, and those near the end few: where
 * memory or the first stages' waiting keep all micro-batches small, some stages may still take several. From the best pipelines
 * so far, a stage, or all stages from one on, take twice as many as long as the estimate falls.
 *
 *   I1  Only pipelines in 1f1b with one piece a stage, if nobody has said how large micro-batches are or in which order they
 *       go, where the target takes any plan, and not in a quick search.
 *   I2  The order is that of equal stages or that of the stages' own times (schedule/limited.c), whichever is estimated faster;
 *       doing next what can begin first is not always best.
 *   I3  At most MOST_ESTIMATES plans are estimated for each pipeline, and one is simulated.
 */
#include "search/auto/room.h"

enum { MOST_BASES = 2, MOST_AT_ONCE = 8, MOST_ESTIMATES = 64 };
/* Pipelines that are slower than the best by more than this are not tried. */
static const double FAR_FROM_BEST = 0.10;
/* What an estimate must gain: a step of the search, and a simulation at its end. */
static const double WORTH_A_STEP = 0.001, WORTH_A_TRIAL = 0.01;

struct joining {
    struct join *join;
    struct arena *scratch;
    const struct plan *base;
    int64_t left; /* estimates */
    int32_t *joins;
    int64_t ns; /* with these */
};

/* ---- a plan with these numbers --------------------------------------------------------------- */

/* *out is NULL where they make no plan. */
static weft_status joined_plan(const struct joining *j, const int32_t *joins,
                               const struct slot_lengths *passes, struct plan **out)
{
    struct pipeline pipeline = {j->base->stages, 1, (int32_t)plan_micro_batches(j->base)};
    int64_t *limit = ARENA_ARRAY(j->scratch, int64_t, (size_t)j->base->stages);
    struct schedule *order;
    struct plan *plan = NULL;
    weft_status status;
    pipeline.joins = joins;
    *out = NULL;
    TRY(schedule_limited(j->scratch, &pipeline, limit, passes, &order));
    TRY(plan_copy(j->base, &plan));
    plan_order_by(plan, order);
    TRY(plan_join_stages(plan));
    TRY(plan_check(plan));
    *out = plan;
    return WEFT_OK;
done:
    plan_free(plan);
    if (status == WEFT_FAILURE)
        return status;
    error_clear();
    return WEFT_OK;
}

static struct slot_lengths *passes_of(struct arena *keep, const struct estimate *e)
{
    struct slot_lengths *passes = ARENA_ARRAY(keep, struct slot_lengths, (size_t)e->stages);
    for (int32_t s = 0; s < e->stages; s++)
        passes[s] = (struct slot_lengths){e->stage[s].forward_ns, e->stage[s].backward_ns};
    return passes;
}

/* Estimates a plan, which it takes the place of *best with if it fits and is faster; frees the other. */
static weft_status keep_faster(struct joining *j, struct plan *plan, struct estimate *e,
                               struct plan **best, int64_t *best_ns)
{
    weft_status status = join_estimate(j->join, plan, j->scratch, e);
    bool faster = !status && e->fits && (!*best || e->iteration_ns < *best_ns);
    j->left--;
    j->join->out->candidates++;
    if (faster) {
        plan_free(*best);
        *best = plan;
        *best_ns = e->iteration_ns;
    } else {
        plan_free(plan);
    }
    return status;
}

/* The better of both orders (I2); *out is NULL where neither makes a plan that fits. */
static weft_status better_order(struct joining *j, const int32_t *joins, struct plan **out,
                                int64_t *ns)
{
    struct plan *plan;
    struct estimate e;
    weft_status status;
    *out = NULL;
    TRY(joined_plan(j, joins, NULL, &plan));
    if (!plan)
        goto done;
    TRY(keep_faster(j, plan, &e, out, ns));
    TRY(joined_plan(j, joins, passes_of(j->scratch, &e), &plan));
    if (plan)
        TRY(keep_faster(j, plan, &e, out, ns));
done:
    return status;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Twice as many on these stages; false: they do not divide the batch so, or there are no more estimates. */
static bool doubled(const struct joining *j, int32_t first, int32_t end, int32_t *out)
{
    int64_t m = plan_micro_batches(j->base);
    bool divides = j->left > 0;
    for (int32_t s = 0; s < j->base->stages; s++) {
        out[s] = j->joins[s] * (s >= first && s < end ? 2 : 1);
        divides &= m % out[s] == 0 && out[s] <= MOST_AT_ONCE;
    }
    return divides;
}

/* Takes the step if it is worth it. */
static weft_status try_step(struct joining *j, int32_t first, int32_t end, bool *better)
{
    int32_t *joins = ARENA_ARRAY(j->scratch, int32_t, (size_t)j->base->stages);
    struct plan *plan = NULL;
    int64_t ns;
    weft_status status = WEFT_OK;
    if (!doubled(j, first, end, joins))
        return WEFT_OK;
    TRY(better_order(j, joins, &plan, &ns));
    if (plan && (double)ns < (double)j->ns * (1 - WORTH_A_STEP)) {
        j->joins = joins;
        j->ns = ns;
        *better = true;
    }
done:
    plan_free(plan);
    return status;
}

static weft_status find_numbers(struct joining *j)
{
    int32_t stages = j->base->stages;
    weft_status status = WEFT_OK;
    for (bool better = true; better && !join_over(j->join);) {
        better = false;
        for (int32_t s = stages - 1; s >= 0; s--) {
            TRY(try_step(j, s, stages, &better));
            if (s + 1 < stages)
                TRY(try_step(j, s, s + 1, &better));
        }
    }
done:
    return status;
}

static const char *numbers_text(struct arena *keep, const struct joining *j)
{
    const char *text = "micro-batches at once by stage ";
    for (int32_t s = 0; s < j->base->stages; s++)
        text = arena_printf(keep, "%s%s%d", text, s ? "," : "", j->joins[s]);
    return text;
}

static weft_status try_numbers(struct joining *j, const struct trial *base)
{
    struct planned *out = j->join->out;
    size_t before = out->trials.len;
    const struct trial *trial;
    struct plan *plan = NULL;
    int64_t ns;
    weft_status status;
    TRY(better_order(j, j->joins, &plan, &ns));
    if (!plan || plan_forbidden(&j->join->request->forbids, plan)) {
        plan_free(plan);
        return WEFT_OK;
    }
    TRY(try_plan(j->join->request, j->join->cost, plan,
                 arena_printf(out->arena, "%s; %s", base->text, numbers_text(out->arena, j)), out,
                 &trial));
    if (out->trials.len > before) {
        out->trials.data[before].found_by =
            arena_printf(out->arena, "%s and micro-batches by stage", base->found_by);
        join_report(j->join);
    }
done:
    return status;
}

static weft_status join_base(struct join *join, const struct trial *base, const struct plan *plan)
{
    struct joining j = {join, arena_new(), plan, MOST_ESTIMATES, NULL, 0};
    struct estimate e;
    int64_t best_ns = join_best(join->out, NULL)->iteration_ns;
    weft_status status;
    j.joins = ARENA_ARRAY(j.scratch, int32_t, (size_t)plan->stages);
    for (int32_t s = 0; s < plan->stages; s++)
        j.joins[s] = 1;
    TRY(join_estimate(join, plan, j.scratch, &e));
    j.ns = e.iteration_ns;
    TRY(find_numbers(&j));
    double error = (double)base->iteration_ns / (double)e.iteration_ns;
    if ((double)j.ns * error < (double)best_ns * (1 - WORTH_A_TRIAL))
        TRY(try_numbers(&j, base));
done:
    arena_free(j.scratch);
    return status;
}

/* ---- which pipelines (I1) -------------------------------------------------------------------- */

static bool forbids_sizes(const struct forbids *forbids)
{
    for (size_t i = 0; i < forbids->len; i++)
        if (forbids->data[i].word == FORBID_MICRO_BATCH)
            return true;
    return false;
}

static bool may_join(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    bool pinned = pins->micro_batch || forbids_sizes(&request->forbids) || pins->schedule ||
                  pins->order || pins->stage_run || pins->pieces > 1 || request->orders;
    bool framework = request->target && !request->target->any;
    return !pinned && !framework && !request->cluster->pools && !request->options.quick &&
           !request->options.batch_auto;
}

static bool can_join(const struct plan *plan)
{
    return plan->stages > 1 && plan->pieces == 1 && !plan->listed &&
           plan_row(plan) == schedule_default(1, 1) && plan_micro_batches(plan) % 2 == 0 &&
           plan_micro_batches(plan) >= plan->stages;
}

/* The best after those that are slower than `after`; its plan. */
static weft_status next_base(const struct join *join, double after, struct trial *base,
                             struct plan **plan)
{
    const struct trial *best = join_best(join->out, NULL);
    weft_status status = WEFT_OK;
    *plan = NULL;
    for (double least = after; !*plan;) {
        const struct trial *next = NULL;
        for (size_t i = 0; i < join->out->trials.len; i++) {
            const struct trial *trial = &join->out->trials.data[i];
            if (trial->fits && ns_per_sample(trial) > least &&
                (!next || ns_per_sample(trial) < ns_per_sample(next)))
                next = trial;
        }
        if (!next || ns_per_sample(next) > ns_per_sample(best) * (1 + FAR_FROM_BEST))
            return WEFT_OK;
        least = ns_per_sample(next);
        *base = *next;
        TRY(join_plan_of(join, next, plan));
        if (!can_join(*plan)) {
            plan_free(*plan);
            *plan = NULL;
        }
    }
done:
    return status;
}

weft_status join_stages(struct join *join)
{
    struct trial base = {0}; /* a copy, because the trials may move in memory */
    weft_status status = WEFT_OK;
    double after = 0;
    for (int i = 0; i < MOST_BASES && may_join(join->request) && !join_over(join); i++) {
        struct plan *plan = NULL;
        if (!join_best(join->out, NULL))
            return WEFT_OK;
        TRY(next_base(join, after, &base, &plan));
        if (!plan)
            return WEFT_OK;
        after = ns_per_sample(&base);
        status = join_base(join, &base, plan);
        plan_free(plan);
        if (status)
            goto done;
    }
done:
    return status;
}

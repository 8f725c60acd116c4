/* trial.c - plans that were simulated, and what each dimension of them is called. */
#include "search/planner/planner.h"

#include <string.h>

/* ---- dimensions ------------------------------------------------------------------------------ */

const char *dimension_name(enum dimension dimension)
{
    static const char *const NAMES[] = {
        [DIMENSION_DP] = "dp",
        [DIMENSION_TP] = "tp",
        [DIMENSION_PP] = "pp",
        [DIMENSION_PIECES] = "pieces",
        [DIMENSION_MICRO_BATCH] = "micro-batch",
        [DIMENSION_SHARD] = "zero",
        [DIMENSION_RECOMPUTE] = "recompute",
    };
    _Static_assert(COUNT_OF(NAMES) == DIMENSION_COUNT, "a dimension without a name");
    return NAMES[dimension];
}

const char *trial_value_text(struct arena *keep, const struct trial *trial,
                             enum dimension dimension)
{
    int64_t value = trial->value[dimension];
    if (value == MIXED)
        return "mixed";
    return dimension == DIMENSION_RECOMPUTE ? recompute_name((enum recompute)value)
                                            : arena_printf(keep, "%lld", (long long)value);
}

static const char *text_of_values(struct arena *keep, const struct trial *trial)
{
    static const int64_t USUAL[] = {[DIMENSION_DP] = 1,
                                    [DIMENSION_TP] = 1,
                                    [DIMENSION_PP] = 1,
                                    [DIMENSION_PIECES] = 1,
                                    [DIMENSION_RECOMPUTE] = RECOMPUTE_NONE};
    const char *text = "";
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        enum dimension dimension = (enum dimension)i;
        if (trial->value[i] != USUAL[i])
            text =
                arena_printf(keep, "%s%s%s %s", text, *text ? ", " : "", dimension_name(dimension),
                             trial_value_text(keep, trial, dimension));
    }
    return text;
}

/* What a plan of degrees has beyond its dimensions. */
static const char *text_of_rest(struct arena *keep, const char *text, const struct degrees *d)
{
    const char *usual = schedule_default(d->pieces, d->segments)->name;
    if (d->cp > 1)
        text = arena_printf(keep, "%s, cp %lld", text, (long long)d->cp);
    if (d->ep > 1)
        text = arena_printf(keep, "%s, ep %lld", text, (long long)d->ep);
    if (d->tp > 1 && !d->sequence)
        text = arena_printf(keep, "%s, no sp", text);
    if (d->segments > 1 || (d->schedule && strcmp(d->schedule, usual) != 0))
        text = arena_printf(keep, "%s, %s", text, d->schedule ? d->schedule : usual);
    return d->offload ? arena_printf(keep, "%s, offload", text) : text;
}

/* ---- trials ---------------------------------------------------------------------------------- */

bool plan_stopped(const struct plan_request *request)
{
    return request->stop && atomic_load(request->stop);
}

static void judge(const struct prediction *p, struct trial *trial)
{
    trial->global_batch = p->plan->global_batch;
    trial->iteration_ns = p->iteration_ns;
    trial->fits = p->fits;
    for (int32_t s = 0; s < p->plan->stages; s++) {
        const struct stage_peak *peak = &p->stage[s].memory;
        if (peak->peak <= trial->peak_bytes)
            continue;
        trial->peak_bytes = peak->peak;
        trial->limit_bytes = peak->limit;
        trial->stage = s;
    }
}

static weft_status run_trial(struct cost *cost, const struct plan *plan, const struct trial *begun,
                             struct planned *planned, const struct trial **out)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = cost};
    struct prediction *prediction = NULL;
    struct trial trial = *begun;
    weft_status status;
    TRY(simulate(plan, &options, &prediction));
    judge(prediction, &trial);
    trial.number = (int64_t)planned->trials.len + 1;
    trial.found_by = planned->planner;
    if (!trial.text)
        trial.text =
            text_of_rest(planned->arena, text_of_values(planned->arena, &trial), &trial.degrees);
    array_push(planned->arena, &planned->trials, trial);
    *out = &planned->trials.data[planned->trials.len - 1];
done:
    prediction_free(prediction);
    return status;
}

weft_status try_degrees(const struct plan_request *request, struct cost *cost,
                        const struct degrees *degrees, struct planned *planned,
                        const struct trial **trial)
{
    struct plan *plan = NULL;
    weft_status status = WEFT_OK;
    struct trial begun = {
        .degrees = *degrees,
        .value = {[DIMENSION_DP] = degrees->dp,
                  [DIMENSION_TP] = degrees->tp,
                  [DIMENSION_PP] = degrees->pp,
                  [DIMENSION_PIECES] = degrees->pieces,
                  [DIMENSION_MICRO_BATCH] = degrees->micro_batch,
                  [DIMENSION_SHARD] = degrees->shard,
                  [DIMENSION_RECOMPUTE] = degrees->recompute},
    };
    *trial = NULL;
    if (plan_from_degrees(request->model, request->cluster, degrees, &plan) || plan_check(plan))
        error_clear();
    else
        status = run_trial(cost, plan, &begun, planned, trial);
    plan_free(plan);
    return status;
}

/* Dimensions that all instances of a plan agree on; of MIXED ones nothing follows. */
static void values_of_plan(const struct plan *plan, int64_t *value)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct choice *choice = plan_choice(plan, i);
        int64_t dp = split_degree(&choice->split, DIM_BATCH);
        const int64_t own[] = {
            [DIMENSION_DP] = dp,
            [DIMENSION_TP] = split_devices(&choice->split) / dp,
            [DIMENSION_PP] = plan->stages,
            [DIMENSION_PIECES] = plan->pieces,
            [DIMENSION_MICRO_BATCH] = plan->step_samples / dp,
            [DIMENSION_SHARD] = choice->shard,
            [DIMENSION_RECOMPUTE] = choice->recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE,
        };
        _Static_assert(COUNT_OF(own) == DIMENSION_COUNT, "a dimension without a value");
        for (int d = 0; d < DIMENSION_COUNT; d++)
            value[d] = i == 0 || value[d] == own[d] ? own[d] : MIXED;
    }
}

weft_status try_plan(const struct plan_request *request, struct cost *cost, struct plan *plan,
                     const char *text, struct planned *planned, const struct trial **trial)
{
    struct trial begun = {.degrees = request->pins, .plan = plan, .text = text};
    values_of_plan(plan, begun.value);
    weft_status status = run_trial(cost, plan, &begun, planned, trial);
    if (status)
        plan_free(plan);
    return status;
}

weft_status trial_take(const struct plan_request *request, struct trial *trial, struct plan **out)
{
    if (!trial->plan)
        return plan_from_degrees(request->model, request->cluster, &trial->degrees, out);
    *out = trial->plan;
    trial->plan = NULL;
    return WEFT_OK;
}

/* ---- answers --------------------------------------------------------------------------------- */

const struct trial *next_best(const struct planned *planned, enum dimension dimension)
{
    const struct trial *trial = planned->trials.data;
    for (size_t i = 1; i < planned->trials.len; i++)
        if (trial[i].value[dimension] != trial[0].value[dimension])
            return &trial[i];
    return NULL;
}

void planned_free(struct planned *planned)
{
    if (!planned)
        return;
    for (size_t i = 0; i < planned->trials.len; i++)
        plan_free(planned->trials.data[i].plan);
    arena_free(planned->arena);
}

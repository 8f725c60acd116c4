/* trial.c - plans that were simulated, and the names of their dimensions. */
#include "search/planner/planner.h"

#include <stdlib.h>
#include <string.h>

/* ---- dimensions ------------------------------------------------------------------------------ */

const char *dimension_name(enum dimension dimension)
{
    static const char *const NAMES[] = {
        [DIMENSION_DP] = "dp",
        [DIMENSION_TP] = "tp",
        [DIMENSION_PP] = "pp",
        [DIMENSION_PIECES] = "virtual",
        [DIMENSION_MICRO_BATCH] = "micro-batch",
        [DIMENSION_SHARD] = "zero",
        [DIMENSION_RECOMPUTE] = "recompute",
    };
    _Static_assert(COUNT_OF(NAMES) == DIMENSION_COUNT, "a dimension without a name");
    return NAMES[dimension];
}

int64_t recompute_value(const struct degrees *degrees)
{
    return degrees->recompute + (int64_t)degrees->modules * RECOMPUTE_COUNT;
}

const char *trial_value_text(struct arena *keep, const struct trial *trial,
                             enum dimension dimension)
{
    int64_t value = trial->value[dimension];
    if (value == MIXED)
        return "mixed";
    if (dimension != DIMENSION_RECOMPUTE)
        return arena_printf(keep, "%lld", (long long)value);
    struct degrees d = {.recompute = (enum recompute)(value % RECOMPUTE_COUNT),
                        .modules = (unsigned)(value / RECOMPUTE_COUNT)};
    return recompute_text(keep, &d);
}

/* ---- trials ---------------------------------------------------------------------------------- */

bool plan_interrupted(const struct plan_request *request)
{
    return request->stop && atomic_load(request->stop);
}

static struct stop whole_stop(const struct plan_request *request)
{
    return (struct stop){request->stop, request->deadline_s};
}

bool plan_stopped(const struct plan_request *request)
{
    struct stop stop = whole_stop(request);
    return stop_now(&stop);
}

struct stop plan_stop(const struct plan_request *request)
{
    struct stop stop = whole_stop(request);
    double own_s = wall_seconds() + (double)request->options.budget_ns * 1e-9;
    if (request->options.budget_ns && !(stop.deadline_s > 0 && stop.deadline_s < own_s))
        stop.deadline_s = own_s;
    return stop;
}

/* Than the fullest stage so far: by bytes, or where devices differ, by the share of their memory. */
static bool is_fuller(const struct stage_peak *peak, const struct trial *trial)
{
    double needed = (double)stage_needed(peak), most = (double)trial->needed_bytes;
    if (!trial->limit_bytes || peak->limit == trial->limit_bytes)
        return needed > most;
    return needed * (double)trial->limit_bytes > most * (double)peak->limit;
}

static void judge(const struct prediction *p, struct trial *trial)
{
    trial->global_batch = p->plan->global_batch;
    trial->iteration_ns = p->iteration_ns;
    memcpy(trial->time_ns, p->stage[p->busiest].time_ns, sizeof trial->time_ns);
    trial->fits = p->fits;
    for (int32_t s = 0; s < p->plan->stages; s++) {
        const struct stage_peak *peak = &p->stage[s].memory;
        if (!is_fuller(peak, trial))
            continue;
        trial->needed_bytes = stage_needed(peak);
        trial->margin_bytes = peak->margin;
        trial->limit_bytes = peak->limit;
        trial->room_bytes = peak->limit - (stage_needed(peak) - peak->reserved);
        trial->stage = s;
    }
}

int64_t trial_excess(const struct trial *trial)
{
    return trial->fits ? 0 : trial->needed_bytes - trial->limit_bytes;
}

int64_t trial_reserved(const struct trial *trial)
{
    return trial->room_bytes + trial->needed_bytes - trial->limit_bytes;
}

struct degrees unsaid_degrees(const struct plan_request *request)
{
    struct degrees asked = request->pins;
    if (request->hides_tokens)
        asked.overlap &= ~(unsigned)OVERLAP_EXPERTS;
    if (request->options.batch_auto)
        asked.global_batch = 0;
    return asked;
}

/* A stopped trial still runs to its end if there is no other answer. */
static weft_status run_trial(const struct plan_request *request, struct cost *cost,
                             const struct plan *plan, const struct trial *begun,
                             struct planned *planned, const struct trial **out)
{
    struct stop stop = whole_stop(request);
    bool answered = request->answered || planned->trials.len;
    struct simulate_options options = {.fold = FOLD_ALWAYS,
                                       .cost = cost,
                                       .flows = request->flows,
                                       .reserved = request->reserved,
                                       .stop = answered ? &stop : NULL};
    struct prediction *prediction = NULL;
    struct trial trial = *begun;
    weft_status status;
    TRY(simulate(plan, &options, &prediction));
    judge(prediction, &trial);
    trial.number = (int64_t)planned->trials.len + 1;
    trial.found_by = planned->planner;
    array_push(planned->arena, &planned->trials, trial);
    *out = &planned->trials.data[planned->trials.len - 1];
done:
    prediction_free(prediction);
    return status;
}

static const struct degrees *asked_for(const struct plan_request *request)
{
    return request->asked ? request->asked : &request->pins;
}

/* The plan of degrees with the settings that the request's target has for it. */
static weft_status settled_plan(const struct plan_request *request, const struct degrees *degrees,
                                struct plan **out)
{
    weft_status status = plan_from_degrees(request->model, request->cluster, degrees, out);
    if (!status && request->target)
        target_settle(request->target, asked_for(request), *out);
    return status;
}

weft_status try_degrees(const struct plan_request *request, struct cost *cost,
                        const struct degrees *degrees, struct planned *planned,
                        const struct trial **trial)
{
    struct plan *plan = NULL;
    weft_status status = WEFT_OK;
    struct degrees asked = unsaid_degrees(request);
    struct trial begun = {
        .degrees = *degrees,
        .text = degrees_text(planned->arena, request->model, degrees, &asked),
        .value = {[DIMENSION_DP] = degrees->dp,
                  [DIMENSION_TP] = degrees->tp,
                  [DIMENSION_PP] = degrees->pp,
                  [DIMENSION_PIECES] = degrees->pieces,
                  [DIMENSION_MICRO_BATCH] = degrees->micro_batch,
                  [DIMENSION_SHARD] = degrees->shard,
                  [DIMENSION_RECOMPUTE] = recompute_value(degrees)},
    };
    *trial = NULL;
    if (request->target && !target_runs_degrees(request->target, request->model, degrees))
        return WEFT_OK;
    if (settled_plan(request, degrees, &plan) || plan_check(plan))
        error_clear();
    else
        status = run_trial(request, cost, plan, &begun, planned, trial);
    plan_free(plan);
    return status;
}

/* Experts' products, and what stands between them. */
static bool is_of_experts(const struct model *model, int32_t number)
{
    const struct op *op = &model->op[number];
    int32_t source = op->inputs ? model->tensor[op->input[0].tensor].producer : -1;
    return op->kind == OP_EXPERT_LINEAR ||
           (op->kind != OP_COMBINE && source >= 0 && model->op[source].kind == OP_EXPERT_LINEAR);
}

/* Dimensions that all instances of a plan agree on, but for experts, which have degrees of their own; nothing follows from
 * MIXED ones. */
static void values_of_plan(const struct plan *plan, int64_t *value)
{
    bool first = true;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct choice *choice = plan_choice(plan, i);
        if (is_of_experts(plan->model, plan->instance[i].op))
            continue;
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
            value[d] = first || value[d] == own[d] ? own[d] : MIXED;
        first = false;
    }
    struct degrees list = {.recompute = RECOMPUTE_SELECTIVE};
    if (value[DIMENSION_RECOMPUTE] == MIXED && (list.modules = plan_modules(plan)) != 0 &&
        plan_recomputes_modules(plan, list.modules))
        value[DIMENSION_RECOMPUTE] = recompute_value(&list);
}

weft_status try_plan(const struct plan_request *request, struct cost *cost, struct plan *plan,
                     const char *text, struct planned *planned, const struct trial **trial)
{
    struct degrees asked = unsaid_degrees(request);
    if (request->target)
        target_settle(request->target, asked_for(request), plan);
    struct trial begun = {.degrees = request->pins,
                          .plan = plan,
                          .text = plan_text(planned->arena, plan, &asked, text)};
    values_of_plan(plan, begun.value);
    weft_status status = run_trial(request, cost, plan, &begun, planned, trial);
    if (status)
        plan_free(plan);
    return status;
}

weft_status trial_take(const struct plan_request *request, struct trial *trial, struct plan **out)
{
    if (!trial->plan)
        return settled_plan(request, &trial->degrees, out);
    *out = trial->plan;
    trial->plan = NULL;
    return WEFT_OK;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Of trials that do not fit, the nearest miss comes first. */
int trial_compare_worth(const struct trial *x, const struct trial *y)
{
    double left = (double)x->iteration_ns / (double)x->global_batch;
    double right = (double)y->iteration_ns / (double)y->global_batch;
    if (trial_excess(x) != trial_excess(y))
        return trial_excess(x) < trial_excess(y) ? -1 : 1;
    if (left != right)
        return left < right ? -1 : 1;
    return (x->needed_bytes > y->needed_bytes) - (x->needed_bytes < y->needed_bytes);
}

static int compare(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    int worth = trial_compare_worth(x, y);
    if (worth)
        return worth;
    for (int i = 0; i < DIMENSION_COUNT; i++)
        if (x->value[i] != y->value[i])
            return x->value[i] < y->value[i] ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

void trials_sort(struct planned *planned)
{
    if (planned->trials.len)
        qsort(planned->trials.data, planned->trials.len, sizeof *planned->trials.data, compare);
}

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

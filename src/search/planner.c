/* planner.c - the planners, and what their answers have in common. */
#include "search/planner.h"

#include <stdlib.h>
#include <string.h>

static const struct planner PLANNERS[] = {
    {"megatron", "every combination of degrees that Megatron-LM takes, each simulated",
     megatron_find},
};

size_t planners(const struct planner **out)
{
    *out = PLANNERS;
    return COUNT_OF(PLANNERS);
}

const struct planner *planner_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(PLANNERS); i++)
        if (strcmp(name, PLANNERS[i].name) == 0)
            return &PLANNERS[i];
    return NULL;
}

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

int64_t trial_value(const struct trial *trial, enum dimension dimension)
{
    const struct degrees *d = &trial->degrees;
    const int64_t values[] = {
        [DIMENSION_DP] = d->dp,
        [DIMENSION_TP] = d->tp,
        [DIMENSION_PP] = d->pp,
        [DIMENSION_PIECES] = d->pieces,
        [DIMENSION_SHARD] = d->shard,
        [DIMENSION_MICRO_BATCH] = d->micro_batch,
        [DIMENSION_RECOMPUTE] = d->recompute,
    };
    _Static_assert(COUNT_OF(values) == DIMENSION_COUNT, "a dimension without a value");
    return values[dimension];
}

const char *trial_text(struct arena *keep, const struct trial *trial)
{
    static const int64_t USUAL[] = {[DIMENSION_DP] = 1,
                                    [DIMENSION_TP] = 1,
                                    [DIMENSION_PP] = 1,
                                    [DIMENSION_PIECES] = 1,
                                    [DIMENSION_RECOMPUTE] = RECOMPUTE_NONE};
    const char *text = "";
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        enum dimension dimension = (enum dimension)i;
        int64_t value = trial_value(trial, dimension);
        if (value == USUAL[dimension])
            continue;
        const char *gap = *text ? ", " : "", *name = dimension_name(dimension);
        text = dimension == DIMENSION_RECOMPUTE
                   ? arena_printf(keep, "%s%s%s %s", text, gap, name,
                                  recompute_name((enum recompute)value))
                   : arena_printf(keep, "%s%s%s %lld", text, gap, name, (long long)value);
    }
    return text;
}

/* ---- trials ---------------------------------------------------------------------------------- */

static struct trial judge(const struct degrees *degrees, const struct prediction *p)
{
    struct trial trial = {.degrees = *degrees, .iteration_ns = p->iteration_ns, .fits = p->fits};
    for (int32_t s = 0; s < p->plan->stages; s++) {
        const struct stage_peak *peak = &p->stage[s].memory;
        if (peak->peak <= trial.peak_bytes)
            continue;
        trial.peak_bytes = peak->peak;
        trial.limit_bytes = peak->limit;
        trial.stage = s;
    }
    return trial;
}

weft_status try_degrees(const struct plan_request *request, struct cost *cost,
                        const struct degrees *degrees, struct planned *planned,
                        const struct trial **trial)
{
    struct plan *plan = NULL;
    struct prediction *prediction = NULL;
    weft_status status;
    *trial = NULL;
    if (plan_from_degrees(request->model, request->cluster, degrees, &plan) || plan_check(plan)) {
        plan_free(plan);
        error_clear();
        return WEFT_OK;
    }
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = cost};
    TRY(simulate(plan, &options, &prediction));
    struct trial judged = judge(degrees, prediction);
    array_push(planned->arena, &planned->trials, judged);
    *trial = &planned->trials.data[planned->trials.len - 1];
done:
    prediction_free(prediction);
    plan_free(plan);
    return status;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int64_t excess(const struct trial *trial)
{
    return trial->fits ? 0 : trial->peak_bytes - trial->limit_bytes;
}

/* I2; of what does not fit, the nearest miss. */
static int compare(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    const int64_t keys[][2] = {
        {excess(x), excess(y)}, {x->iteration_ns, y->iteration_ns}, {x->peak_bytes, y->peak_bytes}};
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        int64_t left = trial_value(x, (enum dimension)i), right = trial_value(y, (enum dimension)i);
        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

const struct trial *next_best(const struct planned *planned, enum dimension dimension)
{
    const struct trial *trial = planned->trials.data;
    for (size_t i = 1; i < planned->trials.len; i++)
        if (trial_value(&trial[i], dimension) != trial_value(&trial[0], dimension))
            return &trial[i];
    return NULL;
}

weft_status plan_search(const struct planner *planner, const struct plan_request *request,
                        struct planned **out)
{
    struct arena *arena = arena_new();
    struct planned *planned = ARENA_NEW(arena, struct planned);
    double begin = wall_seconds();
    *planned = (struct planned){.arena = arena, .planner = planner->name};
    weft_status status = planner->find(request, planned);
    if (!status && !planned->trials.len)
        status = no_answer("try another global batch, or pin fewer dimensions",
                           "no combination of degrees makes a plan of %s on %lld devices",
                           request->model->name, (long long)cluster_devices(request->cluster));
    if (status) {
        planned_free(planned);
        return status;
    }
    qsort(planned->trials.data, planned->trials.len, sizeof *planned->trials.data, compare);
    planned->search_s = wall_seconds() - begin;
    *out = planned;
    return WEFT_OK;
}

void planned_free(struct planned *planned)
{
    if (planned)
        arena_free(planned->arena);
}

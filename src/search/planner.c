/* planner.c - the planners, and what their answers have in common. */
#include "search/pins.h"

#include <stdlib.h>
#include <string.h>

#include "search/auto_room.h"

static const struct planner PLANNERS[] = {
    {"auto", "every combination of degrees by estimate, the best simulated, and what others find",
     1U << TAKES_BUDGET | 1U << TAKES_QUICK | 1U << TAKES_BATCH_AUTO | 1U << TAKES_FORBID |
         1U << TAKES_THREADS,
     JOINS_NEVER, auto_find},
    {"megatron", "every combination of degrees that Megatron-LM takes, each simulated", 0,
     JOINS_NEVER, megatron_find},
    {"galvatron", "a strategy for every layer and uneven stages, by dynamic programming",
     1U << TAKES_SPACE | 1U << TAKES_BATCH_AUTO | 1U << TAKES_BUDGET, JOINS_ALWAYS, galvatron_find},
    {"aceso", "iterative bottleneck alleviation: operators, devices and degrees stage by stage",
     1U << TAKES_BUDGET | 1U << TAKES_MAX_HOPS | 1U << TAKES_INITIAL | 1U << TAKES_LOG |
         1U << TAKES_SEED | 1U << TAKES_THREADS | 1U << TAKES_SPACE | 1U << TAKES_MEMORY_COUNT,
     JOINS_IN_TIME, aceso_find},
    {"autoddl", "a split for every operator, with partial sums: searched, then simulated",
     1U << TAKES_SEARCH | 1U << TAKES_SEED | 1U << TAKES_BUDGET | 1U << TAKES_THREADS,
     JOINS_IN_TIME, autoddl_find},
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

weft_status planner_named(const char *name, const struct planner **out)
{
    *out = name ? planner_find(name) : &PLANNERS[0];
    return *out ? WEFT_OK
                : unknown_name("planner", name, PLANNERS, sizeof PLANNERS[0], COUNT_OF(PLANNERS));
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
    const char *usual = d->segments > 1 ? "aiao" : d->pieces > 1 ? "interleaved" : "1f1b";
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

/* The same by somebody else's count of memory. */
static void recount(const struct memory_count *count, const struct plan *plan, struct trial *trial)
{
    struct arena *scratch = arena_new();
    int64_t *bytes = ARENA_ARRAY(scratch, int64_t, (size_t)plan->stages);
    count_plan(count, plan, bytes);
    trial->peak_bytes = 0;
    for (int32_t s = 0; s < plan->stages; s++)
        if (bytes[s] > trial->peak_bytes) {
            trial->peak_bytes = bytes[s];
            trial->stage = s;
        }
    trial->limit_bytes = plan_limit_bytes(plan);
    trial->fits = trial->peak_bytes <= trial->limit_bytes;
    arena_free(scratch);
}

static weft_status run_trial(const struct plan_request *request, struct cost *cost,
                             const struct plan *plan, const struct trial *begun,
                             struct planned *planned, const struct trial **out)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS, .cost = cost};
    struct prediction *prediction = NULL;
    struct trial trial = *begun;
    weft_status status;
    TRY(simulate(plan, &options, &prediction));
    judge(prediction, &trial);
    if (request->options.count)
        recount(request->options.count, plan, &trial);
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
        status = run_trial(request, cost, plan, &begun, planned, trial);
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
            [DIMENSION_MICRO_BATCH] = plan->batch_per_step / dp,
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
    weft_status status = run_trial(request, cost, plan, &begun, planned, trial);
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

static int64_t excess(const struct trial *trial)
{
    return trial->fits ? 0 : trial->peak_bytes - trial->limit_bytes;
}

/* What it does: I2; of what does not fit, the nearest miss. */
static int compare_worth(const struct trial *x, const struct trial *y)
{
    double left = (double)x->iteration_ns / (double)x->global_batch;
    double right = (double)y->iteration_ns / (double)y->global_batch;
    if (excess(x) != excess(y))
        return excess(x) < excess(y) ? -1 : 1;
    if (left != right)
        return left < right ? -1 : 1;
    return x->peak_bytes == y->peak_bytes ? 0 : x->peak_bytes < y->peak_bytes ? -1 : 1;
}

static int compare(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    int worth = compare_worth(x, y);
    if (worth)
        return worth;
    for (int i = 0; i < DIMENSION_COUNT; i++)
        if (x->value[i] != y->value[i])
            return x->value[i] < y->value[i] ? -1 : 1;
    return strcmp(x->text, y->text);
}

const struct trial *next_best(const struct planned *planned, enum dimension dimension)
{
    const struct trial *trial = planned->trials.data;
    for (size_t i = 1; i < planned->trials.len; i++)
        if (trial[i].value[dimension] != trial[0].value[dimension])
            return &trial[i];
    return NULL;
}

/* Of `count` trials of one worth those stay, in front, whose plan was not tried before; so many are
 * *kept. */
static weft_status keep_different(const struct plan_request *request, struct trial *trial,
                                  size_t count, size_t *kept)
{
    struct arena *scratch = arena_new();
    struct plan **plan = ARENA_ARRAY(scratch, struct plan *, count);
    bool *twin = ARENA_ARRAY(scratch, bool, count);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count; i++) {
        plan[i] = trial[i].plan;
        if (!plan[i])
            TRY(plan_from_degrees(request->model, request->cluster, &trial[i].degrees, &plan[i]));
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count && !twin[i]; k++)
            twin[i] = trial[k].number < trial[i].number &&
                      plan[k]->global_batch == plan[i]->global_batch && same_plan(plan[k], plan[i]);
done:
    for (size_t i = 0; i < count; i++)
        if (twin[i] || !trial[i].plan)
            plan_free(plan[i]);
    *kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!twin[i])
            trial[(*kept)++] = trial[i];
    arena_free(scratch);
    return status;
}

/* I5: in the order of I2, where what has the same worth stands together. */
static weft_status merge_same(const struct plan_request *request, struct planned *planned)
{
    struct trial *trial = planned->trials.data;
    size_t len = planned->trials.len, all = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0, count; i < len; i += count) {
        for (count = 1; i + count < len && compare_worth(&trial[i], &trial[i + count]) == 0;)
            count++;
        size_t kept = count;
        if (count > 1 && !status)
            status = keep_different(request, &trial[i], count, &kept);
        memmove(&trial[all], &trial[i], kept * sizeof *trial);
        all += kept;
    }
    planned->trials.len = all;
    return status;
}

static weft_status check_options(const struct planner *planner, const struct plan_options *options)
{
    static const char *const FLAGS[] = {
        [TAKES_SPACE] = "--space",       [TAKES_BATCH_AUTO] = "--batch auto",
        [TAKES_BUDGET] = "--budget",     [TAKES_QUICK] = "--quick",
        [TAKES_MAX_HOPS] = "--max-hops", [TAKES_INITIAL] = "--initial",
        [TAKES_LOG] = "--log",           [TAKES_SEARCH] = "--search",
        [TAKES_SEED] = "--seed",         [TAKES_THREADS] = "--threads",
        [TAKES_FORBID] = "--forbid",     [TAKES_MEMORY_COUNT] = "a count of memory",
    };
    _Static_assert(COUNT_OF(FLAGS) == TAKES_COUNT, "an option without a flag");
    unsigned given = options->given | (options->count ? 1U << TAKES_MEMORY_COUNT : 0);
    unsigned foreign = given & ~planner->takes;
    if (!foreign)
        return WEFT_OK;
    return bad_argument("weft plan --help says which planner takes what",
                        "the planner '%s' does not take %s", planner->name,
                        FLAGS[__builtin_ctz(foreign)]);
}

/* What is pinned must have devices enough, whoever searches. */
static bool have_devices(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    int64_t degrees[] = {pins->dp, pins->tp, pins->pp, pins->cp};
    double wanted = 1;
    for (size_t i = 0; i < COUNT_OF(degrees); i++)
        wanted *= degrees[i] > 1 ? (double)degrees[i] : 1;
    return wanted <= (double)cluster_devices(request->cluster);
}

/* Nothing was found: it is for the pins, or for what the planner has said, if it did. */
static weft_status explain_nothing(const struct plan_request *request, bool said,
                                   struct arena *keep)
{
    const weft_error *own = weft_last_error();
    const char *message = arena_copy_text(keep, said ? own->message : "");
    const char *hint = said && own->hint ? arena_copy_text(keep, own->hint) : NULL;
    weft_status status = request->known_ns ? WEFT_OK : pins_refuse(request);
    if (status)
        return status;
    if (*message)
        return no_answer(hint, "%s", message);
    return no_answer("try another global batch, pin fewer dimensions or take another planner",
                     "no combination of degrees makes a plan of %s on %lld devices",
                     request->model->name, (long long)cluster_devices(request->cluster));
}

static weft_status find(const struct planner *planner, const struct plan_request *request,
                        struct planned *planned)
{
    weft_status status;
    TRY(check_options(planner, &request->options));
    TRY(pins_check(request));
    TRY(plan_check_dtype(request->cluster,
                         request->pins.has_dtype ? request->pins.dtype : request->model->dtype));
    if (have_devices(request))
        status = planner->find(request, planned);
    if (status == WEFT_NO_ANSWER || (!status && !planned->trials.len))
        TRY(explain_nothing(request, status == WEFT_NO_ANSWER, planned->arena));
done:
    return status;
}

weft_status plan_search(const struct planner *planner, const struct plan_request *request,
                        struct planned **out)
{
    struct arena *arena = arena_new();
    struct planned *planned = ARENA_NEW(arena, struct planned);
    double begin = wall_seconds();
    *planned = (struct planned){.arena = arena, .planner = planner->name};
    weft_status status = find(planner, request, planned);
    if (!status) {
        qsort(planned->trials.data, planned->trials.len, sizeof *planned->trials.data, compare);
        status = merge_same(request, planned);
    }
    if (status) {
        planned_free(planned);
        return status;
    }
    planned->search_s = wall_seconds() - begin;
    *out = planned;
    return WEFT_OK;
}

void planned_free(struct planned *planned)
{
    if (!planned)
        return;
    for (size_t i = 0; i < planned->trials.len; i++)
        plan_free(planned->trials.data[i].plan);
    arena_free(planned->arena);
}

/* search.c - the table of planners, and the call that asks one of them for a plan. */
#include "search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct planner PLANNERS[] = {
    {.name = "auto",
     .summary =
         "every combination of degrees by estimate, the best simulated, and what others find",
     .takes = 1U << TAKES_BUDGET | 1U << TAKES_QUICK | 1U << TAKES_BATCH_AUTO | 1U << TAKES_FORBID |
              1U << TAKES_THREADS | 1U << TAKES_ENCODER,
     .joins = JOINS_NEVER,
     .pools = true,
     .find = auto_find},
    {.name = "megatron",
     .summary = "every combination of degrees that Megatron-LM takes, each simulated",
     .joins = JOINS_NEVER,
     .find = megatron_find},
    {.name = "galvatron",
     .summary = "a strategy for every layer and uneven stages, by dynamic programming",
     .takes = 1U << TAKES_SPACE | 1U << TAKES_BATCH_AUTO | 1U << TAKES_BUDGET |
              1U << TAKES_GALVATRON_STUDY,
     .puts = 1U << PUT_FIRST_LAYERS | 1U << PUT_SCORES | 1U << PUT_CHECKPOINTS | 1U << PUT_KEPT |
             1U << PUT_HEAD,
     .joins = JOINS_ALWAYS,
     .find = galvatron_find},
    {.name = "aceso",
     .summary = "iterative bottleneck alleviation: operators, devices and degrees stage by stage",
     .takes = 1U << TAKES_BUDGET | 1U << TAKES_MAX_HOPS | 1U << TAKES_INITIAL | 1U << TAKES_LOG |
              1U << TAKES_SEED | 1U << TAKES_THREADS | 1U << TAKES_SPACE | 1U << TAKES_ACESO_STUDY,
     .puts = 1U << PUT_FIRST_LAYERS | 1U << PUT_CHECKPOINTS | 1U << PUT_HEAD,
     .joins = JOINS_IN_TIME,
     .goes_on = true,
     .find = aceso_find},
    {.name = "autoddl",
     .summary = "a split for every operator, with partial sums: searched, then simulated",
     .takes = 1U << TAKES_SEARCH | 1U << TAKES_SEED | 1U << TAKES_BUDGET | 1U << TAKES_THREADS,
     .puts = 1U << PUT_FIRST_LAYERS | 1U << PUT_SCORES | 1U << PUT_MODULES | 1U << PUT_CHECKPOINTS |
             1U << PUT_KEPT | 1U << PUT_HEAD,
     .joins = JOINS_IN_TIME,
     .find = autoddl_find},
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

const struct planner *planner_default(void)
{
    return &PLANNERS[0];
}

const struct planner *planner_that_goes_on(void)
{
    size_t at = 0;
    while (!PLANNERS[at].goes_on)
        at++;
    return &PLANNERS[at];
}

weft_status planner_named(const char *name, const struct planner **out)
{
    *out = name ? planner_find(name) : planner_default();
    return *out ? WEFT_OK
                : unknown_name("planner", name, PLANNERS, sizeof PLANNERS[0], COUNT_OF(PLANNERS));
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Of `count` trials of equal worth, keeps those whose plan no earlier trial had, and moves them to
 * the front; *kept is their number. */
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
                      plan[k]->global_batch == plan[i]->global_batch &&
                      is_same_plan(plan[k], plan[i]);
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

/* I5: the trials are in the order of I2, in which trials of equal worth are next to each other. */
static weft_status merge_same(const struct plan_request *request, struct planned *planned)
{
    struct trial *trial = planned->trials.data;
    size_t len = planned->trials.len, all = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0, count; i < len; i += count) {
        for (count = 1; i + count < len && trial_compare_worth(&trial[i], &trial[i + count]) == 0;)
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

static weft_status check_options(const struct planner *planner, const struct plan_request *request)
{
    static const char *const FLAGS[] = {
        [TAKES_SPACE] = "--space",
        [TAKES_BATCH_AUTO] = "--batch auto",
        [TAKES_BUDGET] = "--budget",
        [TAKES_QUICK] = "--quick",
        [TAKES_MAX_HOPS] = "--max-hops",
        [TAKES_INITIAL] = "--initial",
        [TAKES_LOG] = "--log",
        [TAKES_SEARCH] = "--search",
        [TAKES_SEED] = "--seed",
        [TAKES_THREADS] = "--threads",
        [TAKES_FORBID] = "--forbid",
        [TAKES_ACESO_STUDY] = "a study of Aceso's search",
        [TAKES_GALVATRON_STUDY] = "a study of Galvatron's search",
        [TAKES_ENCODER] = "the degrees of an encoder",
    };
    _Static_assert(COUNT_OF(FLAGS) == TAKES_COUNT, "an option without a flag");
    unsigned given = request->options.given | (request->aceso_study ? 1U << TAKES_ACESO_STUDY : 0) |
                     (request->galvatron_study ? 1U << TAKES_GALVATRON_STUDY : 0) |
                     (pins_encoder(&request->pins) ? 1U << TAKES_ENCODER : 0);
    unsigned foreign = given & ~planner->takes;
    if (!foreign)
        return WEFT_OK;
    return bad_argument("weft plan --help says which planner takes what",
                        "the planner '%s' does not take %s", planner->name,
                        FLAGS[__builtin_ctz(foreign)]);
}

/* The pinned degrees must not need more devices than there are, whichever planner searches. */
static bool have_devices(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    int64_t degrees[] = {pins->dp, pins->tp, pins->pp, pins->cp};
    double wanted = 1;
    for (size_t i = 0; i < COUNT_OF(degrees); i++)
        wanted *= degrees[i] > 1 ? (double)degrees[i] : 1;
    return wanted <= (double)cluster_devices(request->cluster);
}

/* Whether the target gives each device samples of its own and splits nothing else. */
static bool splits_samples_alone(const struct plan_request *request)
{
    static const struct degrees OTHERS[] = {{.tp = 2}, {.pp = 2}, {.cp = 2}};
    bool splits = !request->target;
    for (size_t i = 0; i < COUNT_OF(OTHERS) && !splits; i++)
        splits = target_runs_degrees(request->target, request->model, &OTHERS[i]);
    return !splits;
}

/* That samples are too few for the devices, or not a multiple of them, where the target needs one for each. */
static weft_status explain_samples(const struct plan_request *request)
{
    int64_t devices = cluster_devices(request->cluster), samples = request->pins.global_batch;
    struct arena *scratch = arena_new();
    const char *hint = arena_printf(
        scratch, "take a global batch of %lld or a multiple of it, or another framework",
        (long long)devices);
    weft_status status = no_answer(
        hint,
        "%s has samples of its own for each of %lld devices, and %s cannot be shared out equally",
        request->target->title, (long long)devices, counted(samples, "sample").s);
    arena_free(scratch);
    return status;
}

/* Explains why nothing was found: because the search was stopped, because of the pins, or for the reason the planner
 * gave, if it gave one. */
static weft_status explain_nothing(const struct plan_request *request, bool said,
                                   struct arena *keep)
{
    if (plan_stopped(request))
        return no_answer("give it more time", "stopped before any plan was found");
    const weft_error *own = weft_last_error();
    const char *message = arena_copy_text(keep, said ? own->message : "");
    const char *hint = said && own->hint ? arena_copy_text(keep, own->hint) : NULL;
    weft_status status = request->known_ns ? WEFT_OK : pins_refuse(request);
    if (status)
        return status;
    if (*message)
        return no_answer(hint, "%s", message);
    if (request->pins.global_batch % cluster_devices(request->cluster) &&
        splits_samples_alone(request))
        return explain_samples(request);
    return no_answer("try another global batch, pin fewer dimensions or take another planner",
                     "no combination of degrees makes a plan of %s on %s", request->model->name,
                     counted(cluster_devices(request->cluster), "device").s);
}

/* What to do about pins that the target refuses: the nearest plan that it runs, if there is one that fits. */
static const char *nearest_hint(const struct plan_request *request, struct arena *scratch)
{
    const char *hint = "leave that open, or search for another framework";
    struct plan_request own = *request;
    struct planned *planned = NULL;
    if (!request->names_nearest)
        return hint;
    own.names_nearest = false;
    own.pins = target_nearest_pins(request->target, request->model, &request->pins);
    own.options = (struct plan_options){
        .given = 1U << TAKES_QUICK, .quick = true, .simplest = request->options.simplest};
    if (plan_search(planner_default(), &own, &planned))
        error_clear();
    const struct trial *best = planned ? &planned->trials.data[0] : NULL;
    if (best && best->fits)
        hint = arena_printf(scratch, "%s; the nearest that it runs: %s, %s", hint, best->text,
                            show_seconds((double)best->iteration_ns).s);
    planned_free(planned);
    return hint;
}

/* That the target has the model, and runs what is pinned. */
static weft_status check_target(const struct plan_request *request, struct arena *scratch)
{
    weft_status status = target_has_model(request->target, request->model);
    const char *refused =
        status ? NULL
               : target_refuses_pins(scratch, request->target, request->model, &request->pins);
    return refused ? bad_argument(nearest_hint(request, scratch),
                                  "%s does not run what is asked for: %s", request->target->title,
                                  refused)
                   : status;
}

static weft_status find(const struct planner *planner, const struct plan_request *request,
                        struct planned *planned)
{
    weft_status status;
    TRY(check_options(planner, request));
    TRY(plan_check_size(request->model)); /* else none would be found, without a reason */
    TRY(pins_check(request));
    if (request->pins.order && planner->joins != JOINS_NEVER)
        return bad_argument("the planners auto and megatron take it",
                            "%s numbers devices tp-cp-ep-dp-pp, not %.40s", planner->name,
                            request->pins.order);
    if (!planner->pools)
        TRY(cluster_refuse_pools(request->cluster, planner->name));
    if (request->target)
        TRY(check_target(request, planned->arena));
    enum dtype dtype = request->pins.has_dtype ? request->pins.dtype : request->model->dtype;
    TRY(plan_check_types(request->cluster, dtype,
                         request->pins.has_policy ? request->pins.policy : policy_for(dtype)));
    if (have_devices(request))
        status = planner_ask(planner, request, planned);
    if (status == WEFT_NO_ANSWER && planned->trials.len && plan_stopped(request)) {
        /* The search was stopped in the middle of a trial, which is left out. */
        planned->stopped = true;
        error_clear();
        return WEFT_OK;
    }
    if (status == WEFT_NO_ANSWER || (!status && !planned->trials.len))
        TRY(explain_nothing(request, status == WEFT_NO_ANSWER, planned->arena));
done:
    return status;
}

/* Under a given order, each number of replicas that goes with its micro-batches is a search of its own. */
static weft_status find_ordered(const struct planner *planner, const struct plan_request *request,
                                struct planned *planned)
{
    if (!request->order)
        return find(planner, request, planned);
    for (int64_t dp = next_replicas(request, 0); dp; dp = next_replicas(request, dp)) {
        struct plan_request own = *request;
        struct planned found = {.arena = planned->arena, .planner = planned->planner};
        own.pins.dp = dp;
        own.pins.micro_batch =
            own.pins.global_batch / request->order->lists->pipeline.micro_batches / dp;
        if (find(planner, &own, &found))
            error_clear();
        for (size_t i = 0; i < found.trials.len; i++)
            array_push(planned->arena, &planned->trials, found.trials.data[i]);
    }
    return WEFT_OK;
}

static weft_status keep_for_target(const struct plan_request *request, struct planned *planned)
{
    weft_status status = keep_what_runs(request, planned);
    trials_sort(planned);
    if (status || planned->trials.len)
        return status;
    return no_answer("--planner auto searches what the target runs",
                     "nothing that the planner '%s' found is run by %s, and nothing near it",
                     planned->planner, request->target->title);
}

/* The answer is simulated once more and shown: 10 to 40 ms of the processor (GPT-3 175B on 1,024 A100, DeepSeek-V3 on
 * 256 H100; Neoverse V1), which may be shared. So much of a budget is not searched. */
static double deadline_s(double begin_s, int64_t budget_ns)
{
    static const double LEFT_SHARE = 1.0 / 16, LEFT_MOST_S = 0.25;
    double budget_s = (double)budget_ns * 1e-9;
    return begin_s + budget_s - fmin(budget_s * LEFT_SHARE, LEFT_MOST_S);
}

weft_status plan_search(const struct planner *planner, const struct plan_request *request,
                        struct planned **out)
{
    struct arena *arena = arena_new();
    struct planned *planned = ARENA_NEW(arena, struct planned);
    double begin = wall_seconds();
    *planned = (struct planned){.arena = arena, .planner = planner->name};
    struct plan_request own = *request;
    own.asked = &request->pins;
    if (own.options.budget_ns && !own.deadline_s)
        own.deadline_s = deadline_s(begin, own.options.budget_ns);
    weft_status status = ask_for_orders(&own, arena);
    if (!status && own.target)
        status = target_settle_pins(own.target, own.model, own.cluster, &own.pins);
    if (!own.flows)
        own.flows = flow_cache_for(own.cluster);
    if (!own.reserved)
        own.reserved = reserved_cache_new();
    if (!own.estimators)
        own.estimators = estimators_new();
    if (!status)
        status = find_ordered(planner, &own, planned);
    if (!status && own.orders) {
        trials_sort(planned);
        status = add_orders(&own, planned);
    }
    if (!status) {
        trials_sort(planned);
        status = merge_same(&own, planned);
    }
    if (!status && request->target)
        status = keep_for_target(&own, planned);
    if (!request->estimators)
        estimators_free(own.estimators);
    if (!request->flows)
        flow_cache_free(own.flows);
    if (!request->reserved)
        reserved_cache_free(own.reserved);
    if (status) {
        planned_free(planned);
        return status;
    }
    prefer_simplest(planned, request->options.simplest);
    planned->search_s = wall_seconds() - begin;
    *out = planned;
    return WEFT_OK;
}

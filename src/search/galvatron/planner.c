/* planner.c - the planner "galvatron": layer plans by the estimate, judged by the
 * simulator.
 *
 *   I1  The MOST_TRIALS best layer plans are simulated; if the best of them needs more memory than
 *       the estimate said, the search is repeated with the limit lowered by the difference, at most
 *       TIGHTENINGS times.
 *   I2  If nothing fits, the limit is raised until something does, and that is the nearest miss. If
 *       nothing is possible with any limit, the search's own message is the answer.
 *   I3  Pins restrict the space, and add ways and flags that only a pin asks for.
 *   I4  Where nobody names a space, layers may also be laid by context parallelism if sequences are long, and by
 *       expert parallelism if there are experts.
 *   I5  A batch that is explored ends where twice as many samples bring less than 1 % (layer_search.c, I2). The paper's ends
 *       where memory does, and its GPipe and its micro-batches of a fixed number hold more the larger the batch is; 1F1B
 *       with micro-batches of a fixed size does not. The answer says what the samples beyond bring.
 */
#include <string.h>

#include "search/galvatron/words.h"
#include "search/planner/planner.h"
#include "search/galvatron/layer_costs.h"
#include "search/galvatron/galvatron.h"

enum { MOST_TRIALS = 8, TIGHTENINGS = 4 };

/* How the limit is raised until something fits: a little at a time as long as it may be near, then
 * doubling up to 1 PiB per device. */
enum { NEAR_RAISES = 12 };
static const double NEAR_RAISE = 1.3, FAR_RAISE = 2, MOST_LIMIT_BYTES = 1125899906842624.0;

struct finder {
    const struct plan_request *request;
    struct planned *out;
    struct arena *arena;
    struct cost *cost;
    struct layer_costs *costs;
    struct space space;
    struct layer_problem problem;
    struct progress progress;
    struct stop stop;
    int64_t settings; /* of the search that found nothing */
    bool cut_short;
    ARRAY(struct layer_plan) judged;
};

/* ---- asking ---------------------------------------------------------------------------------- */

static weft_status unknown_space(const char *name)
{
    const struct space *all;
    size_t count = space_all(&all);
    return unknown_name("space", name, all, sizeof *all, count);
}

/* Adds what the pins ask for (I3), and what the model has a use for (I4). */
static void widen(const struct plan_request *request, struct space *space)
{
    const struct degrees *pins = &request->pins;
    bool named = request->options.space;
    bool context = pins->cp ? pins->cp > 1 : !named && searched_cp(request->model) > 1;
    bool experts = pins->ep ? pins->ep > 1 : !named && searched_ep(request->model) > 1;
    space->ways |= context ? 1U << WAY_CP : 0;
    space->ways |= experts ? 1U << WAY_EP : 0;
    space->flags |= pins->sequence ? SPACE_SEQUENCE : 0U;
    if (pins->has_shard)
        space->flags |= pins->shard == 1 ? SPACE_ZERO_1 : pins->shard == 2 ? SPACE_ZERO_2 : 0U;
    if (pins->has_recompute && pins->recompute == RECOMPUTE_FULL)
        space->flags |= SPACE_RECOMPUTE;
}

/* Lists of modules that layers may recompute beside all and nothing: the pinned one; else the shortest and the longest of
 * those that the grid of degrees tries. */
static weft_status find_lists(const struct plan_request *request, struct space *space)
{
    const struct degrees *pins = &request->pins;
    struct recompute_levels levels;
    weft_status status = WEFT_OK;
    if (pins->has_recompute) {
        space->list[0] = pins->modules;
        return WEFT_OK;
    }
    if (!(space->flags & SPACE_RECOMPUTE) || !has_recompute_lists(request))
        return WEFT_OK;
    TRY(recompute_levels(request, &levels));
    for (int i = 0; i < levels.len; i++)
        if (levels.level[i].modules)
            space->list[space->list[0] != 0] = levels.level[i].modules;
done:
    return status;
}

static weft_status check_pins(const struct degrees *pins)
{
    const char *what = NULL;
    if (pins->pieces > 1 || pins->segments > 1)
        what = "one piece of the model per stage";
    else if (pins->schedule && strcmp(pins->schedule, schedule_default(1, 1)->name) != 0)
        what = "the schedule 1f1b";
    else if (pins->cp_heads && pins->cp_heads != 1)
        what = "context parallelism by ring or gather";
    if (!what)
        return WEFT_OK;
    return bad_argument("leave that option out, or take another planner",
                        "the planner 'galvatron' plans with %s", what);
}

/* What all its plans share, from the pins. */
static weft_status open_settings(const struct plan_request *request, struct plan **out)
{
    struct degrees d = request->pins;
    d.dp = cluster_devices(request->cluster);
    d.tp = d.pp = d.cp = d.ep = d.micro_batch = 1;
    d.global_batch = d.dp;
    d.sequence = false;
    return plan_from_degrees(request->model, request->cluster, &d, out);
}

static void look(void *context, int64_t done, int64_t all, int64_t best_ns)
{
    struct finder *f = context;
    f->progress.done = done;
    f->progress.all = all;
    if (best_ns)
        f->progress.best_ns = best_ns;
    if (f->request->progress)
        f->request->progress(f->request->context, &f->progress);
}

/* The costs of layers that a quick search asks for: fewer where each takes long. DeepSeek-V3 on 2,048 devices asks for 73,446,
 * a mixture of 9T on 98,304 for 29,200; one of 10T on 100,000, whose factors leave no plan that bounds the others, for millions. */
static const struct {
    int64_t devices; /* up to */
    int64_t costs;
} QUICK_COSTS[] = {{8192, 100000}, {INT64_MAX, 30000}};

static int64_t most_asked(const struct plan_request *request)
{
    const struct plan_options *options = &request->options;
    size_t row = 0;
    if (!options->quick || options->budget_ns > 0)
        return 0;
    while (cluster_devices(request->cluster) > QUICK_COSTS[row].devices)
        row++;
    return QUICK_COSTS[row].costs;
}

static weft_status finder_open(struct finder *f)
{
    const struct plan_request *request = f->request;
    const struct plan_options *options = &request->options;
    const struct space *space = space_find(options->space ? options->space : "bmw");
    const struct galvatron_study *study = request->galvatron_study;
    struct plan *plan = NULL;
    weft_status status;
    if (!space)
        return unknown_space(options->space);
    TRY(check_pins(&request->pins));
    f->space = *space;
    widen(request, &f->space);
    TRY(find_lists(request, &f->space));
    TRY(open_settings(request, &plan));
    struct estimate_settings settings = estimate_settings_of(plan);
    settings.profile = request->profile;
    settings.flows = request->flows;
    TRY(layer_costs_new(&settings, &f->costs));
    layer_costs_pin(f->costs, &request->pins);
    TRY(cost_open_all(request->cluster, request->profile, &f->cost));
    f->problem =
        (struct layer_problem){.source = layer_costs_source(f->costs),
                               .space = &f->space,
                               .devices = cluster_devices(request->cluster),
                               .limit_bytes = estimate_limit_bytes(plan->cluster, &plan->memory),
                               .global_batch = request->pins.global_batch,
                               .pp = request->pins.pp,
                               .micro_batches = study ? study->micro_batches : 0,
                               .known_ns = request->known_ns,
                               .most_asked = most_asked(request),
                               .stop = &f->stop,
                               .progress = look,
                               .context = f};
    f->stop = plan_stop(request);
done:
    plan_free(plan);
    return status;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* The simulated trial of a layer plan. */
struct judged {
    bool fits;
    int64_t iteration_ns, excess_bytes;
};

static bool same_layer_plan(const struct layer_plan *a, const struct layer_plan *b, int32_t layers)
{
    bool same = a->global_batch == b->global_batch && a->micro_batches == b->micro_batches &&
                a->stages == b->stages &&
                memcmp(a->count, b->count, (size_t)a->stages * sizeof *a->count) == 0;
    for (int32_t l = 0; same && l < layers; l++)
        same = strategy_equal(&a->strategy[l], &b->strategy[l]);
    return same;
}

/* Whether an earlier search, with another limit, found it, too. */
static bool was_judged(const struct finder *f, const struct layer_plan *plan)
{
    for (size_t i = 0; i < f->judged.len; i++)
        if (same_layer_plan(&f->judged.data[i], plan, f->problem.source->layers))
            return true;
    return false;
}

static weft_status judge(struct finder *f, const struct layer_plan *layers, struct judged *out)
{
    struct plan *plan = NULL;
    const struct trial *trial;
    const char *text = layer_plan_text(f->out->arena, f->problem.source, layers);
    weft_status status;
    TRY(layer_costs_plan(f->costs, layers, &plan));
    TRY(try_plan(f->request, f->cost, plan, text, f->out, &trial));
    f->progress.trials++;
    array_push(f->arena, &f->judged, *layers);
    *out = (struct judged){trial->fits, trial->iteration_ns, trial_excess(trial)};
done:
    return status;
}

/* Simulates the best layer plans: finds the fastest one that fits (-1: none), and by how much the
 * first one does not fit. Simulates at least one, even when told to stop. */
static weft_status judge_all(struct finder *f, const struct layer_plans *plans, int64_t *best,
                             int64_t *excess)
{
    weft_status status = WEFT_OK;
    double least = 0;
    *best = -1;
    *excess = 0;
    for (size_t i = 0; i < plans->len && i < MOST_TRIALS && (i == 0 || !stop_now(&f->stop)); i++) {
        struct judged judged;
        if (was_judged(f, &plans->data[i]))
            continue;
        TRY(judge(f, &plans->data[i], &judged));
        double each = (double)judged.iteration_ns / (double)plans->data[i].global_batch;
        if (i == 0)
            *excess = judged.excess_bytes;
        if (!judged.fits || (*best >= 0 && each >= least))
            continue;
        least = each;
        *best = (int64_t)i;
    }
done:
    return status;
}

static weft_status explain(struct finder *f, const struct layer_plan *plan)
{
    reason_list reasons = {0};
    weft_status status;
    TRY(layer_plan_reasons(f->out->arena, &f->problem, plan, &reasons));
    for (size_t i = 0; i < reasons.len; i++)
        array_push(f->out->arena, &f->out->reasons, reasons.data[i]);
done:
    return status;
}

/* Why the explored batch is as large as it is (I5): what an eighth of it would bring. */
static weft_status explain_batch(struct finder *f, const struct layer_plan *chosen)
{
    enum { PART = 8 };
    struct layer_problem problem = f->problem;
    struct layer_plans plans;
    weft_status status;
    problem.global_batch = chosen->global_batch / PART;
    problem.known_ns = 0;
    if (f->problem.global_batch || problem.global_batch < problem.devices)
        return WEFT_OK;
    status = galvatron_search(f->arena, &problem, &plans);
    if (status == WEFT_NO_ANSWER) {
        error_clear();
        return WEFT_OK;
    }
    if (status)
        return status;
    double own = (double)chosen->global_batch / (double)chosen->iteration_ns;
    double part = (double)problem.global_batch / (double)plans.data[0].iteration_ns;
    array_push(
        f->out->arena, &f->out->reasons,
        arena_printf(f->out->arena,
                     "Batch %lld: a stage holds at most %d micro-batches, however many there "
                     "are, so memory does not end it; a batch of %lld has %.1f %% fewer "
                     "samples per second, twice the batch hardly more.",
                     (long long)chosen->global_batch, (int)chosen->stages,
                     (long long)problem.global_batch, 100 * (1 - part / own)));
    return WEFT_OK;
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Searches by I1; *found: some plan was simulated. */
static weft_status search_and_judge(struct finder *f, bool *found)
{
    int64_t limit = f->problem.limit_bytes, best = -1, excess = 0;
    struct layer_plan chosen = {0};
    double least = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i <= TIGHTENINGS && !(i && stop_now(&f->stop)); i++) {
        struct layer_plans plans;
        status = galvatron_search(f->arena, &f->problem, &plans);
        f->out->candidates += plans.searched;
        f->settings = plans.settings;
        f->cut_short |= plans.cut_short;
        if (status == WEFT_NO_ANSWER)
            break;
        TRY(status);
        TRY(judge_all(f, &plans, &best, &excess));
        *found = true;
        double each = best < 0 ? 0
                               : (double)plans.data[best].iteration_ns /
                                     (double)plans.data[best].global_batch;
        if (best >= 0 && (!chosen.stages || each < least)) {
            chosen = plans.data[best];
            least = each;
        } else if (!chosen.stages && excess == 0) {
            chosen = plans.data[0];
        }
        if (!excess)
            break;
        f->problem.limit_bytes -= excess;
    }
    f->problem.limit_bytes = limit;
    if (status == WEFT_NO_ANSWER && *found) {
        error_clear();
        status = WEFT_OK;
    }
    if (!status && chosen.stages)
        status = explain(f, &chosen);
    if (!status && chosen.stages)
        status = explain_batch(f, &chosen);
done:
    return status;
}

/* Finds the nearest miss (I2). */
static weft_status find_miss(struct finder *f)
{
    struct layer_plans plans;
    struct judged judged;
    double limit = (double)f->problem.limit_bytes;
    weft_status status = WEFT_NO_ANSWER;
    if (!f->problem.global_batch)
        f->problem.global_batch = f->problem.devices;
    if (!f->settings)
        return status;
    for (int i = 0; status == WEFT_NO_ANSWER && limit < MOST_LIMIT_BYTES && !stop_now(&f->stop);
         i++) {
        limit *= i < NEAR_RAISES ? NEAR_RAISE : FAR_RAISE;
        f->problem.limit_bytes = (int64_t)limit;
        status = galvatron_search(f->arena, &f->problem, &plans);
    }
    if (!status)
        status = judge(f, &plans.data[0], &judged);
    return status;
}

/* If there is a time to beat, "nothing may beat it" is an answer. */
static weft_status say_nothing_faster(struct finder *f)
{
    error_clear();
    array_push(f->out->arena, &f->out->reasons,
               arena_printf(f->out->arena, "no strategies of layers take less than %s, by bounds",
                            show_seconds((double)f->request->known_ns).s));
    return WEFT_OK;
}

static void say_spent(struct finder *f)
{
    if (layer_search_spent(&f->problem))
        array_push(
            f->out->arena, &f->out->reasons,
            arena_printf(
                f->out->arena,
                "a quick search: strategies of layers were no longer looked for after %lld costs",
                (long long)f->problem.most_asked));
}

weft_status galvatron_find(const struct plan_request *request, struct planned *out)
{
    struct finder f = {
        .request = request, .out = out, .arena = arena_new(), .progress = {.what = "settings"}};
    bool found = false;
    weft_status status;
    TRY(finder_open(&f));
    status = search_and_judge(&f, &found);
    if (status == WEFT_NO_ANSWER)
        status = request->known_ns ? say_nothing_faster(&f) : find_miss(&f);
    if (f.cut_short)
        array_push(out->arena, &out->reasons,
                   "the search ended at its bound of work: other numbers of micro-batches may take "
                   "less");
    say_spent(&f);
    out->stopped = stop_now(&f.stop);
done:
    cost_close(f.cost);
    layer_costs_free(f.costs);
    arena_free(f.arena);
    return status;
}

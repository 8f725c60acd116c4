/* auto.c - one answer from all planners: the grid by estimate, its best simulated, then what the
 * planners that look further find, and the results of crossing their plans.
 *
 *   1. the best of the grid by estimate (grid.h)
 *   2. these simulated, best first, until an estimate is so much slower than the best simulated
 *      time that an error of AUTO_FAR_OFF would not make up for it; and those that more memory
 *      would make possible (walks.c)
 *      for a target that runs any plan, all recomputed but products (products.c)
 *   3. Aceso from the best plan so far, and from those with half and twice as many stages, with a
 *      counted effort (refine.c); or what the target takes besides degrees (tune.c)
 *      1 to 3 again with divided sequences, where the grid does not divide them by itself (contexts.c)
 *   4. every planner of the table that joins, each with an equal share of the remaining budget;
 *      those that take seconds, or minutes on many devices, join unless the search is a quick one
 *   5. their plans crossed (cross.c), and the best with branches of the model side by side (branches.c), and with stages that
 *      take several micro-batches at once (join_stages.c)
 *   6. the best with some layers of each part recomputed, where the software has such a number (blocks.c);
 *      for encoders of images, the best with more replicas of the encoder (encoders.c); for mixtures of
 *      experts, the best with the tokens' transfers hidden, and a walk over such plans (overlap_experts.c); the best with heads that wait (defer_heads.c), with
 *      one level of state sharding (even_state.c), and with cuts between stages elsewhere (cuts.c)
 *   7. if nothing fits, the grid again with what layers keep in host memory (offload_layers.c)
 *   8. if nothing fits, changes to the request, cheapest first, until one makes a plan fit
 *
 *   I1  The answer contains all trials of the planners that join, as each of them makes them by
 *       itself, so none of them beats it; but for I3.
 *   I2  What is forbidden is in no trial, whoever found it.
 *   I3  Without a budget, a planner is told the best time so far if that saves it work: it leaves
 *       out only what its bounds prove slower. The bounds of autoddl hold for the simulator; those
 *       of galvatron hold only for its own estimates, so that unless the search is a quick one it is told
 *       a time that is longer by AUTO_FAR_OFF, as in 2. On many devices aceso, too, ends early where it is far
 *       from that time (aceso.c, I3): what it does from good plans has found more there.
 *   I4  In a cluster of pools (cluster/pools.h) only 1, 2 and 6 to 8 are done, and the layers of stages are moved
 *       (tune_pools.c): the other planners think of devices of one type.
 */
#include <string.h>

#include "search/auto/room.h"
#include "search/auto/would_fit.h"

/* On no more devices than this, planners that take seconds elsewhere take less than one. */
enum { ONE_NODE = 8 };
double ns_per_sample(const struct trial *trial)
{
    return (double)trial->iteration_ns / (double)trial->global_batch;
}

int64_t join_left_ns(const struct join *join)
{
    return join->request->options.budget_ns - (int64_t)((wall_seconds() - join->began_s) * 1e9);
}

bool join_over(const struct join *join)
{
    return plan_stopped(join->request) ||
           (join->request->options.budget_ns && join_left_ns(join) <= 0);
}

bool join_has_time(const struct plan_request *request)
{
    const struct plan_options *options = &request->options;
    bool few = cluster_devices(request->cluster) <= ONE_NODE;
    return options->budget_ns > 0 || (few && !options->quick);
}

static bool asks_all(const struct plan_request *request)
{
    return request->options.budget_ns > 0 || !request->options.quick;
}

const struct trial *join_best(const struct planned *planned, const char *found_by)
{
    const struct trial *best = NULL;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        bool asked = !found_by || strcmp(trial->found_by, found_by) == 0;
        if (asked && trial->fits && (!best || ns_per_sample(trial) < ns_per_sample(best)))
            best = trial;
    }
    return best;
}

void join_report(struct join *join)
{
    struct progress *progress = &join->progress;
    const struct trial *best = join_best(join->out, NULL);
    progress->best_ns = best ? best->iteration_ns : 0;
    progress->trials = (int64_t)join->out->trials.len;
    progress->candidates = join->out->candidates;
    if (join->request->progress)
        join->request->progress(join->request->context, progress);
}

/* Says once what all walks over the grid have looked at. */
static void say_grid(struct join *join)
{
    struct planned *out = join->out;
    array_push(out->arena, &out->reasons,
               arena_printf(out->arena,
                            "%lld combinations of degrees: %lld estimated, %zu simulated, the "
                            "others ruled out by bounds",
                            (long long)join->grid_points, (long long)join->grid_estimates,
                            join->grid_trials));
}

bool join_takes_degrees(const struct plan_request *request)
{
    return request->target && !request->target->layerwise && !request->target->any;
}

bool join_only_degrees_keep(const struct degrees *pins)
{
    return pins_encoder(pins) || pins->recompute_layers;
}

static bool keeps_pins(const struct plan_request *request)
{
    return !request->pins.order && !join_only_degrees_keep(&request->pins);
}

/* ---- others ---------------------------------------------------------------------------------- */

/* Whether a trial does what is forbidden (I2). */
static bool trial_forbidden(const struct plan_request *request, const struct trial *trial)
{
    struct degrees d = trial->degrees;
    if (!d.schedule)
        d.schedule = schedule_default(d.pieces, d.segments)->name;
    return trial->plan ? plan_forbidden(&request->forbids, trial->plan)
                       : degrees_forbidden(&request->forbids, &d);
}

/* A planner that starts from another's plan may arrive at one that is known already. */
static bool is_known(const struct planned *planned, const struct trial *trial)
{
    for (size_t i = 0; trial->plan && i < planned->trials.len; i++)
        if (planned->trials.data[i].plan && is_same_plan(planned->trials.data[i].plan, trial->plan))
            return true;
    return false;
}

static void take_over(struct join *join, struct planned *from, const char *found_by)
{
    struct planned *out = join->out;
    for (size_t i = 0; i < from->trials.len; i++) {
        struct trial trial = from->trials.data[i];
        if (trial_forbidden(join->request, &trial) || is_known(out, &trial)) {
            plan_free(trial.plan);
            continue;
        }
        trial.number = (int64_t)out->trials.len + 1;
        trial.found_by = found_by;
        array_push(out->arena, &out->trials, trial);
    }
    out->candidates += from->candidates;
}

static void say(struct join *join, const char *who, const char *what)
{
    array_push(join->out->arena, &join->out->reasons,
               arena_printf(join->out->arena, "%s: %s", who, what));
}

/* Passes on the progress of a planner that was asked, with the best that was simulated before it:
 * the planner's own best may be an estimate. */
struct relay {
    const struct join *join;
    const char *who;
    int64_t best_ns; /* 0: nothing fits so far */
};
static void relay_progress(void *context, const struct progress *progress)
{
    const struct relay *relay = context;
    struct progress all = *progress;
    all.who = relay->who;
    all.candidates += relay->join->out->candidates;
    all.trials += (int64_t)relay->join->out->trials.len;
    all.best_ns = relay->best_ns;
    relay->join->request->progress(relay->join->request->context, &all);
}

weft_status join_ask(struct join *join, const struct planner *planner,
                     const struct plan_request *request, const char *found_by)
{
    struct plan_request own = *request;
    struct planned found = {.arena = join->out->arena, .planner = planner->name};
    const struct trial *best = join_best(join->out, NULL);
    struct relay relay = {join, planner->name, best ? best->iteration_ns : 0};
    bool first = !request->options.begins;
    own.options.given &= planner->takes;
    own.answered = best != NULL;
    if (own.progress) {
        own.progress = relay_progress;
        own.context = &relay;
    }
    weft_status status = planner_ask(planner, &own, &found);
    take_over(join, &found, found_by);
    if (status == WEFT_FAILURE)
        return status;
    for (size_t i = 0; first && i < found.reasons.len; i++)
        say(join, found_by, found.reasons.data[i]);
    if (status && first && !plan_stopped(request))
        say(join, found_by, arena_printf(found.arena, "no answer, %s", weft_last_error()->message));
    error_clear();
    return WEFT_OK;
}

static bool joins(const struct planner *planner, const struct plan_request *request)
{
    unsigned needs = request->options.batch_auto ? 1U << TAKES_BATCH_AUTO : 0;
    bool time =
        planner->joins == JOINS_ALWAYS || (planner->joins == JOINS_IN_TIME && asks_all(request));
    return time && (needs & ~planner->takes) == 0;
}

/* The time that a planner is told (I3). */
static int64_t known_ns(const struct join *join, const struct planner *planner)
{
    const struct plan_request *request = join->request;
    const struct trial *best = join_best(join->out, NULL);
    double allowance = planner->joins == JOINS_ALWAYS && asks_all(request) ? AUTO_FAR_OFF : 0;
    bool told = !join_has_time(request) && !request->options.batch_auto;
    return best && told ? (int64_t)((double)best->iteration_ns * (1 + allowance)) : 0;
}

static weft_status ask_others(struct join *join)
{
    struct plan_request request = *join->request;
    const struct planner *all;
    /* One share is for crossing. */
    size_t count = planners(&all), left = 1;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count; i++)
        left += joins(&all[i], join->request);
    for (size_t i = 0; i < count && !join_over(join); i++) {
        if (!joins(&all[i], join->request))
            continue;
        request.known_ns = known_ns(join, &all[i]);
        if (request.options.budget_ns)
            request.options.budget_ns = join_left_ns(join) / (int64_t)left--;
        TRY(join_ask(join, &all[i], &request, all[i].name));
    }
done:
    return status;
}

static bool is_first_of(const struct planned *planned, const struct trial *trial)
{
    const struct trial *other = planned->trials.data;
    while (strcmp(other->found_by, trial->found_by) != 0)
        other++;
    return other == trial;
}

/* Says who found the best, and by how much the best of each other planner is slower. */
static void say_who(struct join *join)
{
    struct planned *out = join->out;
    const struct trial *best = join_best(out, NULL);
    const char *words = NULL;
    for (size_t i = 0; best && i < out->trials.len; i++) {
        const struct trial *trial = &out->trials.data[i], *own = join_best(out, trial->found_by);
        if (!own || !is_first_of(out, trial) || strcmp(own->found_by, best->found_by) == 0)
            continue;
        double slower = 100 * (ns_per_sample(own) / ns_per_sample(best) - 1);
        words = words ? arena_printf(out->arena, "%s, of %s %.1f %%", words, own->found_by, slower)
                      : arena_printf(out->arena, "found by %s; the best of %s is %.1f %% slower",
                                     best->found_by, own->found_by, slower);
    }
    if (words)
        array_push(out->arena, &out->reasons, words);
}

static void say_who_was_left_out(struct join *join)
{
    if (join->request->cluster->pools)
        array_push(join->out->arena, &join->out->reasons,
                   "devices of several types: degrees and the layers of each stage were searched; "
                   "the planners "
                   "that give operators of one stage different splits were not asked");
    else if (!asks_all(join->request))
        array_push(
            join->out->arena, &join->out->reasons,
            "a quick search: aceso made only a few steps, and autoddl was not asked; without "
            "--quick both search in full");
}

static weft_status say_what_would_fit(struct join *join)
{
    struct planned *out = join->out;
    weft_status status;
    TRY(would_fit(join->request, join->cost, out->arena, &out->would_fit));
    if (out->would_fit)
        array_push(out->arena, &out->reasons, out->would_fit);
done:
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

weft_status join_improve(struct join *join, const struct plan_request *request)
{
    weft_status status;
    if (join_takes_degrees(request))
        return tune_numbers(join, request);
    if (!keeps_pins(request))
        return WEFT_OK;
    TRY(recompute_but_products(join, request));
    TRY(refine_best(join));
done:
    return status;
}

static weft_status look_further(struct join *join)
{
    weft_status status;
    TRY(join_improve(join, join->request));
    TRY(divide_sequences(join));
    if (join_takes_degrees(join->request) || !keeps_pins(join->request))
        return WEFT_OK;
    TRY(ask_others(join));
    TRY(refine_best(join));
    TRY(cross_plans(join));
done:
    return status;
}

weft_status auto_find(const struct plan_request *request, struct planned *out)
{
    struct join join = {.request = request,
                        .out = out,
                        .began_s = wall_seconds(),
                        .progress = {.what = "finalists"}};
    weft_status status;
    TRY(cost_open_all(request->cluster, request->profile, &join.cost));
    if (request->options.batch_auto)
        TRY(join_batches(&join));
    else
        TRY(join_grid(&join, request));
    say_grid(&join);
    if (request->options.budget_ns)
        TRY(hide_tokens(&join));
    if (request->cluster->pools) /* I4 */
        TRY(tune_pools(&join));
    else
        TRY(look_further(&join));
    TRY(branch_out(&join));
    TRY(resplit_best(&join));
    TRY(join_stages(&join));
    if (!join_takes_degrees(request))
        TRY(recompute_blocks(&join));
    TRY(spread_encoders(&join));
    TRY(hide_tokens(&join));
    TRY(walk_hidden(&join));
    TRY(share_in_groups(&join));
    TRY(defer_heads(&join));
    TRY(even_best_state(&join));
    TRY(move_best_cuts(&join));
    TRY(offload_layers(&join));
    TRY(ask_pools_alone(&join));
    say_who(&join);
    say_who_was_left_out(&join);
    if (out->trials.len && !join_best(out, NULL) && !join_over(&join) &&
        !request->options.batch_auto)
        TRY(say_what_would_fit(&join));
    out->stopped = join_over(&join);
done:
    estimator_free(join.estimator);
    cost_close(join.cost);
    return status;
}

/* aceso.c - the planner: a search per number of stages, in threads; the best of them operator by
 * operator; the simulator's word on the best of those; and what was traded for what.
 *
 *   I1  Every search has its own beginning and its own random numbers, and learns nothing from the
 *       others; which ones are refined is decided when all are over. So the answer is the same with
 *       any number of threads.
 *   I2  The simulator decides. Where something was judged to fit that does not, and is faster than all
 *       that do, memory is taken for as much smaller and all is searched again, a few times.
 */
#include "search/aceso.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SIMULATED = 5,
    MOST_FINALISTS = 16,
    ROUNDS = 3
}; /* Aceso, section 5.1: the five best are run */

/* Efforts in their order, good answers early. Of the searches so far, those go on that are as near to
 * the best, and so many; sketches come first of numbers of stages that are powers of two. */
static const struct turn {
    enum effort effort;
    double within;
    int32_t most;
} TURNS[] = {{SKETCH, 0, INT32_MAX}, {POLISH, 1.0, 1}, {SKETCH, 0, INT32_MAX}, {FIT, 2.0, 8},
             {TRIM, 1.1, 8},         {POLISH, 1.0, 1}, {DESCEND, 1.25, 16},    {FIT, 1.5, 8},
             {TRIM, 1.1, 8},         {WIDEN, 1.15, 5}, {TRIM, 1.1, 8},         {REFINE, 1.03, 3}};

struct team {
    const struct problem *problem;
    struct search_result *result; /* per search */
    struct search_settings *settings;
    bool *chosen; /* per search: to go on with this effort */
    int32_t searches;
    const struct turn *turn;
    atomic_int next;
};
struct worker {
    struct team *team;
    struct judge *judge;
    pthread_t thread;
    weft_status status;
    char message[512];
};

/* ---- threads --------------------------------------------------------------------------------- */

static weft_status work(struct worker *w)
{
    struct team *team = w->team;
    weft_status status = WEFT_OK;
    if (!w->judge)
        TRY(judge_new(team->problem, &w->judge));
    for (;;) {
        int32_t i = atomic_fetch_add(&team->next, 1);
        if (i >= team->searches)
            break;
        if (!team->chosen[i] || (team->turn != TURNS && problem_over(team->problem)))
            continue; /* where the first searches begin is judged in any case */
        TRY(aceso_search(w->judge, &team->settings[i], team->turn->effort, &team->result[i]));
    }
done:
    return status;
}

static void *work_in_thread(void *context)
{
    struct worker *w = context;
    w->status = work(w);
    if (w->status)
        snprintf(w->message, sizeof w->message, "%s", weft_last_error()->message);
    return NULL;
}

/* All chosen searches; this thread works, too. */
static weft_status run_team(struct team *team, struct worker *worker, int32_t workers)
{
    int32_t started = 1;
    weft_status status;
    atomic_store(&team->next, 0);
    for (; started < workers; started++)
        if (pthread_create(&worker[started].thread, NULL, work_in_thread, &worker[started]) != 0)
            break;
    status = work(&worker[0]);
    for (int32_t i = 1; i < started; i++) {
        pthread_join(worker[i].thread, NULL);
        if (worker[i].status && !status)
            status = failure("%s", worker[i].message);
    }
    return status;
}

static int32_t workers_for(const struct plan_options *options, int32_t searches)
{
    int64_t threads = options->threads ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads < 1 ? 1 : threads;
    return (int32_t)(threads < searches ? threads : searches);
}

/* ---- efforts --------------------------------------------------------------------------------- */

static const struct found *best_of(const struct search_result *result)
{
    return result->count ? &result->found[0] : NULL;
}

static void choose_searches(struct team *team)
{
    struct verdict best = {INT64_MAX, INT64_MAX};
    for (int32_t i = 0; i < team->searches; i++)
        if (best_of(&team->result[i]) && better(best_of(&team->result[i])->verdict, best))
            best = best_of(&team->result[i])->verdict;
    double most = team->turn->within * (double)best.iteration_ns;
    bool all = team->turn->effort == SKETCH;
    for (int32_t i = 0; i < team->searches; i++) {
        int32_t stages = team->settings[i].stages;
        bool now = team->turn != TURNS || team->searches == 1 || (stages & (stages - 1)) == 0;
        team->chosen[i] = all && now;
    }
    for (int32_t left = team->turn->most; !all && left > 0; left--) {
        int32_t at = -1;
        for (int32_t i = 0; i < team->searches; i++) {
            const struct found *found = best_of(&team->result[i]);
            if (!found || team->chosen[i] || found->verdict.excess_bytes > best.excess_bytes ||
                (double)found->verdict.iteration_ns > most)
                continue;
            if (at < 0 || better(found->verdict, best_of(&team->result[at])->verdict))
                at = i;
        }
        if (at < 0)
            break;
        team->chosen[at] = true;
    }
}

static void report(const struct plan_request *request, const char *what, const struct team *team,
                   const struct planned *out)
{
    struct progress progress = {
        .what = what, .all = team->searches, .trials = (int64_t)out->trials.len};
    if (!request->progress)
        return;
    for (int32_t i = 0; i < team->searches; i++) {
        const struct found *best = best_of(&team->result[i]);
        progress.done += best != NULL;
        progress.candidates += team->result[i].configs;
        if (best && !best->verdict.excess_bytes &&
            (!progress.best_ns || best->verdict.iteration_ns < progress.best_ns))
            progress.best_ns = best->verdict.iteration_ns;
    }
    request->progress(request->context, &progress);
}

static weft_status run_efforts(struct team *team, struct worker *worker, int32_t workers,
                               const struct planned *out)
{
    const struct plan_request *request = team->problem->request;
    weft_status status = WEFT_OK;
    for (size_t t = 0; t < COUNT_OF(TURNS); t++) {
        team->turn = &TURNS[t];
        choose_searches(team);
        TRY(run_team(team, worker, workers));
        report(request, "numbers of stages", team, out);
    }
done:
    return status;
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *range_text(struct arena *keep, const char *name, int64_t low, int64_t high)
{
    if (low == high)
        return arena_printf(keep, "%s %lld", name, (long long)low);
    return arena_printf(keep, "%s %lld-%lld", name, (long long)low, (long long)high);
}

static int32_t recomputed_stages(const struct config *c)
{
    int32_t count = 0;
    for (int32_t s = 0; s < c->stages; s++) {
        bool any = false;
        for (int32_t k = s; k < config_parts(c); k += c->stages)
            any |= c->part[k].high > 0;
        count += any;
    }
    return count;
}

static const char *config_text(struct arena *keep, const struct problem *p, const struct config *c)
{
    int64_t tp[2] = {INT64_MAX, 0}, dp[2] = {INT64_MAX, 0}, zero[2] = {INT64_MAX, 0};
    int32_t recomputed = recomputed_stages(c);
    bool sequence = false;
    for (int32_t k = 0; k < config_parts(c); k++)
        for (int i = 0; i < MOST_MANNERS; i++) {
            const struct manner *m = &c->part[k].manner[i];
            int64_t own = dp_of(p, c->devices[k % c->stages], m->tp);
            tp[0] = m->tp < tp[0] ? m->tp : tp[0];
            tp[1] = m->tp > tp[1] ? m->tp : tp[1];
            dp[0] = own < dp[0] ? own : dp[0];
            dp[1] = own > dp[1] ? own : dp[1];
            zero[0] = m->shard < zero[0] ? m->shard : zero[0];
            zero[1] = m->shard > zero[1] ? m->shard : zero[1];
            sequence |= m->sequence;
        }
    const char *text = arena_printf(keep, "pp %d, %s, %s, step of %lld", (int)c->stages,
                                    range_text(keep, "tp", tp[0], tp[1]),
                                    range_text(keep, "dp", dp[0], dp[1]), (long long)c->batch);
    if (c->pieces > 1)
        text = arena_printf(keep, "%s, pieces %d", text, (int)c->pieces);
    if (strcmp(config_schedule(c)->name, "1f1b") != 0)
        text = arena_printf(keep, "%s, %s", text, config_schedule(c)->name);
    if (zero[1])
        text = arena_printf(keep, "%s, %s", text, range_text(keep, "zero", zero[0], zero[1]));
    if (sequence)
        text = arena_printf(keep, "%s, sp", text);
    if (recomputed)
        text = arena_printf(keep, "%s, recompute in %d stage%s", text, (int)recomputed,
                            recomputed == 1 ? "" : "s");
    return text;
}

static const char *verdict_text(struct arena *keep, struct verdict v)
{
    if (v.excess_bytes)
        return arena_printf(keep, "%s too much", show_bytes((double)v.excess_bytes).s);
    return arena_printf(keep, "%s", show_duration((double)v.iteration_ns).s);
}

/* The steps that led to the best, the last ones. */
static void explain(struct planned *out, const struct search_result *result)
{
    enum { MOST_REASONS = 8 };
    size_t best = 0, skip = 0, seen = 0;
    for (size_t i = 0; i < result->steps.len; i++)
        best += result->steps.data[i].best;
    skip = best > MOST_REASONS ? best - MOST_REASONS : 0;
    for (size_t i = 0; i < result->steps.len; i++) {
        const struct step *step = &result->steps.data[i];
        if (!step->best || seen++ < skip)
            continue;
        const char *text = arena_printf(
            out->arena, "stage %d was the bottleneck (%s): %s: %s -> %s", (int)step->bottleneck,
            resource_name(step->resource), step->text, verdict_text(out->arena, step->before),
            verdict_text(out->arena, step->after));
        array_push(out->arena, &out->reasons, text);
    }
}

/* ---- the simulator's word -------------------------------------------------------------------- */

struct finalist {
    const struct found *found;
    int32_t search;
};

static int by_verdict(const void *a, const void *b)
{
    const struct finalist *x = a, *y = b;
    if (better(x->found->verdict, y->found->verdict))
        return -1;
    if (better(y->found->verdict, x->found->verdict))
        return 1;
    return x->search - y->search;
}

/* The best of all; then the best of other numbers of stages and other kinds. */
static int32_t pick_finalists(struct arena *scratch, const struct team *team,
                              struct finalist out[MOST_FINALISTS])
{
    size_t most = (size_t)team->searches * MOST_FOUND, count = 0;
    struct finalist *all = ARENA_ARRAY(scratch, struct finalist, most);
    int32_t picked = 0;
    for (int32_t i = 0; i < team->searches; i++)
        for (int32_t k = 0; k < team->result[i].count; k++)
            all[count++] = (struct finalist){&team->result[i].found[k], i};
    qsort(all, count, sizeof *all, by_verdict);
    for (size_t i = 0; i < count && picked < MOST_FINALISTS; i++) {
        bool alike = false;
        for (int32_t k = 0; k < picked && picked >= SIMULATED; k++)
            alike |= out[k].search == all[i].search && out[k].found->kind == all[i].found->kind;
        if (!alike)
            out[picked++] = all[i];
    }
    return picked;
}

/* Of all rounds of I2 so far. */
struct outcome {
    bool any, fits;       /* something was simulated, something fits */
    int64_t iteration_ns; /* of the best */
    int32_t search;       /* of this round that has the best; -1: one of an earlier round */
    int32_t misses;       /* finalists of this round that were judged to fit and do not */
    struct miss {
        int64_t iteration_ns, peak_bytes;
    } miss[MOST_FINALISTS];
};

/* The least that a finalist takes too much that is faster than all that fit (I2); 0: none is. */
static int64_t least_miss(const struct outcome *outcome)
{
    int64_t least = 0;
    for (int32_t i = 0; i < outcome->misses; i++) {
        const struct miss *miss = &outcome->miss[i];
        bool faster = !outcome->fits || miss->iteration_ns < outcome->iteration_ns;
        if (faster && (!least || miss->peak_bytes < least))
            least = miss->peak_bytes;
    }
    return least;
}

static weft_status try_finalists(struct team *team, struct judge *judge, struct planned *planned,
                                 struct outcome *out)
{
    const struct problem *p = team->problem;
    struct arena *scratch = arena_new();
    struct finalist finalist[MOST_FINALISTS];
    int32_t count = pick_finalists(scratch, team, finalist);
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < count; i++) {
        const struct found *found = finalist[i].found;
        const struct trial *trial;
        struct plan *plan;
        TRY(judge_plan(judge, &found->config, &plan));
        TRY(try_plan(p->request, judge->estimator->cost, plan,
                     config_text(planned->arena, p, &found->config), planned, &trial));
        if (!trial->fits && !found->verdict.excess_bytes)
            out->miss[out->misses++] = (struct miss){trial->iteration_ns, trial->peak_bytes};
        if (out->any && (!trial->fits || (out->fits && trial->iteration_ns >= out->iteration_ns)))
            continue;
        out->any = true;
        out->fits = trial->fits;
        out->search = finalist[i].search;
        out->iteration_ns = trial->iteration_ns;
    }
done:
    arena_free(scratch);
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const char *const BEGINNINGS[] = {[BEGIN_BALANCED] = "balanced",
                                         [BEGIN_IMBALANCED_OP] = "imbalanced-op",
                                         [BEGIN_IMBALANCED_DEVICE] = "imbalanced-device"};
_Static_assert(COUNT_OF(BEGINNINGS) == BEGIN_COUNT, "a beginning without a name");

/* The user's plan, over the request's own model and cluster. */
static weft_status copy_plan(const struct problem *p, const struct plan *from, struct plan **out)
{
    struct plan *plan = NULL;
    int64_t cut[MOST_PARTS], devices[MOST_STAGES];
    weft_status status;
    TRY(plan_new(p->request->model, p->request->cluster, &plan));
    plan->dtype = from->dtype;
    plan->policy = from->policy;
    plan->global_batch = from->global_batch;
    plan->batch_per_step = from->batch_per_step;
    plan->schedule = arena_copy_text(plan->arena, from->schedule);
    plan->overlap = from->overlap;
    plan->bucket_bytes = from->bucket_bytes;
    plan->whole_sends = from->whole_sends;
    plan->memory_limit_bytes = p->settings.memory_limit_bytes;
    for (int32_t k = 0; k < from->parts; k++)
        cut[k] = from->part[k].first + from->part[k].count;
    for (int32_t s = 0; s < from->stages; s++)
        devices[s] = from->stage[s].devices;
    TRY(plan_map(plan, from->stages, from->pieces, cut, devices));
    for (int64_t i = 0; i < plan->instances; i++)
        TRY(plan_choose(plan, i, plan_choice(from, i)));
    TRY(plan_check(plan));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

/* A plan file as where to begin; what it is worth is the first trial. A plan that whoever asks has at
 * hand has been tried. */
static weft_status begin_with_plan(const struct problem *p, struct planned *out,
                                   struct config *begin)
{
    struct opened_plan opened = {0};
    struct plan *plan;
    struct cost *cost = NULL;
    const struct trial *trial;
    weft_status status;
    if (p->request->options.begin)
        return config_of_plan(p, p->request->options.begin, begin);
    TRY(plan_load(p->request->options.initial, &opened));
    TRY(config_of_plan(p, opened.plan, begin));
    TRY(copy_plan(p, opened.plan, &plan));
    TRY(cost_open(&p->request->cluster->node.device, p->request->profile, &cost));
    TRY(try_plan(p->request, cost, plan, "the plan to begin with", out, &trial));
done:
    cost_close(cost);
    plan_close(&opened);
    return status;
}

static void set_up(struct arena *keep, const struct problem *p, const struct config *begin,
                   enum beginning beginning, struct team *team)
{
    int32_t stages[MOST_STAGES];
    *team = (struct team){.problem = p, .searches = problem_stage_counts(p, stages)};
    if (begin) {
        team->searches = 1;
        stages[0] = begin->stages;
    }
    team->result = ARENA_ARRAY(keep, struct search_result, (size_t)team->searches);
    team->settings = ARENA_ARRAY(keep, struct search_settings, (size_t)team->searches);
    team->chosen = ARENA_ARRAY(keep, bool, (size_t)team->searches);
    for (int32_t i = 0; i < team->searches; i++) {
        team->result[i].arena = arena_new();
        team->result[i].stages = stages[i];
        team->settings[i] = (struct search_settings){.stages = stages[i],
                                                     .beginning = beginning,
                                                     .begin = begin,
                                                     .seed = (uint64_t)p->request->options.seed,
                                                     .begin_s = wall_seconds()};
    }
}

static void tear_down(struct team *team)
{
    for (int32_t i = 0; i < team->searches; i++)
        arena_free(team->result[i].arena);
}

/* One round of I2. */
static weft_status search_round(struct problem *p, const struct config *begin,
                                enum beginning beginning, struct planned *planned,
                                struct outcome *out)
{
    struct arena *scratch = arena_new();
    struct team team;
    set_up(scratch, p, begin, beginning, &team);
    int32_t workers = workers_for(&p->request->options, team.searches);
    struct worker *worker = ARENA_ARRAY(scratch, struct worker, (size_t)workers + 1);
    const char *log = p->request->options.log;
    weft_status status;
    for (int32_t i = 0; i < workers; i++)
        worker[i].team = &team;
    out->search = -1;
    out->misses = 0;
    TRY(run_efforts(&team, worker, workers, planned));
    if (!worker[0].judge)
        TRY(judge_new(p, &worker[0].judge));
    TRY(try_finalists(&team, worker[0].judge, planned, out));
    for (int32_t i = 0; i < team.searches; i++) {
        planned->candidates += team.result[i].configs;
        planned->stopped |= team.result[i].stopped;
    }
    if (out->search < 0)
        goto done;
    planned->reasons.len = 0;
    explain(planned, &team.result[out->search]);
    if (log)
        TRY(aceso_log_write(log, p, team.result, team.searches));
done:
    for (int32_t i = 0; i < workers; i++)
        judge_free(worker[i].judge);
    tear_down(&team);
    arena_free(scratch);
    return status;
}

weft_status aceso_find(const struct plan_request *request, struct planned *out)
{
    const char *initial = request->options.initial;
    enum beginning beginning = BEGIN_BALANCED;
    struct problem *p = NULL;
    struct config begin;
    const struct config *given = NULL;
    struct outcome outcome = {0};
    weft_status status;
    TRY(problem_new(request, &p));
    double limit = (double)p->limit_bytes;
    while (initial && beginning < BEGIN_COUNT && strcmp(initial, BEGINNINGS[beginning]) != 0)
        beginning++;
    if (beginning == BEGIN_COUNT || request->options.begin) {
        TRY(begin_with_plan(p, out, &begin));
        given = &begin;
        beginning = BEGIN_BALANCED;
    }
    for (int round = 0; round < ROUNDS; round++) {
        TRY(search_round(p, given, beginning, out, &outcome));
        int64_t peak = least_miss(&outcome);
        if (!peak || problem_over(p))
            break;
        p->limit_bytes = (int64_t)((double)p->limit_bytes * limit / (double)peak); /* I2 */
    }
    out->stopped |= problem_over(p);
done:
    problem_free(p);
    return status;
}

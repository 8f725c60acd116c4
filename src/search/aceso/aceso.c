/* aceso.c - the planner: one search per number of stages, in threads, turn by turn; between turns the
 * best of them are simulated (simulate.c); at the end, the reasons for the answer.
 *
 *   I1  Every search has its own starting config and its own random numbers, and learns nothing
 *       from the others; which ones continue is decided when a turn is over. So the answer is the
 *       same with any number of threads.
 *   I2  The simulator decides. If a finalist that was judged to fit does not fit, and is faster
 *       than all that do, the last turns are repeated with less memory for that search, up to
 *       ROUNDS times in all.
 *   I3  On many devices, a search that was told a time to beat goes on only if it has come within WORTH_MORE of it:
 *       what comes after a sketch gained up to 5 % for gpt3-175b on 1,024 devices, most of it where the sketch was
 *       good. Plans that are good already are better starts (auto/refine.c). On fewer, it goes on only if it has come
 *       within WORTH_SPREADING once every number of stages is sketched and the best of them polished: of 14 problems on
 *       16 to 128 devices, three were farther off then, by 12 to 28 %, and ended 14 to 18 % off.
 */
#include "search/aceso/team.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The efforts in their order, so that good answers come early. The first sketches are only of
 * numbers of stages that are powers of two. */
static const struct turn TURNS[] = {
    {SKETCH, 0, INT32_MAX, ALWAYS},  {FIT, 1.05, INT32_MAX, FROM_PLANS},
    {FIT, 1.0, 1, ALWAYS},           {TRIM, 1.0, 1, ALWAYS},
    {POLISH, 1.0, 1, UNLESS_MANY},   {SKETCH, 0, INT32_MAX, ALWAYS},
    {SPREAD, 1.5, 10, ALWAYS},       {FIT, 2.0, 8, ALWAYS},
    {TRIM, 1.1, 8, ALWAYS},          {POLISH, 1.0, 1, UNLESS_MANY},
    {DESCEND, 1.04, 3, ALWAYS},      {FIT, 1.1, 4, ALWAYS},
    {TRIM, 1.1, 4, ALWAYS},          {WIDEN, 1.02, 2, FOR_FEW},
    {TRIM, 1.1, 4, ALWAYS},          {REFINE, 1.02, 2, UNLESS_MANY},
    {BALANCE, 1.15, 16, ALWAYS},     {POLISH, 1.0, 1, UNLESS_MANY},
    {WIDEN, 1.02, 2, WITH_A_BUDGET}, {TRIM, 1.1, 4, WITH_A_BUDGET},
    {REFINE, 1.02, 2, WITH_A_BUDGET}};
enum { ROUNDS = 3, LAST_TURNS = 14 }; /* I2: where repeated turns start */
enum { SKETCHED = 5 };                /* I3: the turn that sketches the last numbers of stages */
static const double WORTH_MORE = 1.03, WORTH_SPREADING = 1.1;

/* ---- threads --------------------------------------------------------------------------------- */

static weft_status work(void *context, int32_t worker, int32_t workers)
{
    struct team *team = context;
    struct judge **judge = &team->judge[worker];
    weft_status status = WEFT_OK;
    (void)workers;
    if (!*judge)
        TRY(judge_new(team->problem, judge));
    for (;;) {
        int32_t i = atomic_fetch_add(&team->next, 1);
        if (i >= team->searches)
            break;
        if (!team->chosen[i] || (atomic_load(&team->begun) && problem_over(team->problem)))
            /* Starting configs of the first turn are judged in any case until there is one. */
            continue;
        TRY(aceso_search(*judge, &team->settings[i], team->turn->effort, &team->result[i]));
        if (team->result[i].count)
            atomic_store(&team->begun, true);
    }
done:
    return status;
}

/* Runs all chosen searches, if there are any. */
static weft_status run_team(struct team *team)
{
    atomic_store(&team->next, 0);
    return pool_run(team->workers, work, team);
}

/* ---- efforts --------------------------------------------------------------------------------- */

static const struct found *best_of(const struct search_result *result)
{
    return result->count ? &result->found[0] : NULL;
}

static bool comes(const struct team *team)
{
    bool few = team->problem->devices <= FEW_DEVICES;
    enum occasion when = team->turn->when;
    bool budget = team->problem->stop.deadline_s > 0;
    int32_t begins = team->problem->request->options.begins;
    return when == FROM_PLANS      ? team->searches > 1 && begins
           : when == FOR_FEW       ? few
           : when == WITH_A_BUDGET ? !few && budget
           : when == UNLESS_MANY ? team->problem->devices <= ACESO_MANY_DEVICES || budget || begins
                                 : true;
}

static struct verdict best_of_all(const struct team *team)
{
    struct verdict best = {INT64_MAX, INT64_MAX};
    for (int32_t i = 0; i < team->searches; i++)
        if (best_of(&team->result[i]) && better(best_of(&team->result[i])->verdict, best))
            best = best_of(&team->result[i])->verdict;
    return best;
}

double team_worth_ns(const struct team *team)
{
    const struct problem *p = team->problem;
    double known_ns = (double)p->request->known_ns;
    if (known_ns > 0 && p->devices > ACESO_MANY_DEVICES)
        return WORTH_MORE * known_ns;
    return known_ns > 0 && team->turn >= &TURNS[SKETCHED] ? WORTH_SPREADING * known_ns : INFINITY;
}

static bool gives_up(const struct team *team)
{
    struct verdict best = best_of_all(team);
    return best.excess_bytes == 0 && (double)best.iteration_ns > team_worth_ns(team);
}

static void choose_searches(struct team *team)
{
    struct verdict best = best_of_all(team);
    double most = fmin(team->turn->within * (double)best.iteration_ns, team_worth_ns(team));
    bool every = team->problem->study->every_stages;
    int32_t left = comes(team) ? team->turn->most : 0;
    bool all = team->turn->effort == SKETCH || (every && left);
    for (int32_t i = 0; i < team->searches; i++) {
        int32_t stages = team->settings[i].stages;
        bool now = team->turn != TURNS || every || team->searches == 1 || team->settings[i].begin ||
                   (stages & (stages - 1)) == 0;
        team->chosen[i] = all && now;
    }
    for (; !all && left > 0; left--) {
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

/* If several plans share few configs, a sketch is skipped and the configs are kept for efforts that
 * gain more from a plan: much of what a sketch tries needs parts that were never costed before. */
static bool skips_sketch(const struct team *team, int32_t search)
{
    enum { FEW_CONFIGS = 10000 };
    int64_t most = team->problem->request->options.most_configs;
    return team->turn == TURNS && team->searches > 1 && team->settings[search].begin && most > 0 &&
           most < FEW_CONFIGS * team->searches;
}

/* Shares what is left of plan_options.most_configs among the searches that continue, so that the
 * number judged depends on nothing but the problem; false: nothing is left. */
static bool share_configs(struct team *team)
{
    int64_t left = team->problem->request->options.most_configs, chosen = 0;
    if (!team->problem->request->options.most_configs)
        return true;
    for (int32_t i = 0; i < team->searches; i++) {
        left -= team->result[i].configs;
        chosen += team->chosen[i];
    }
    if (left <= 0 && team->turn != TURNS)
        return false;
    for (int32_t i = 0; chosen && i < team->searches; i++)
        team->settings[i].most_configs =
            left > chosen && !skips_sketch(team, i) ? left / chosen : 1;
    return true;
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

static weft_status run_turns(struct team *team, size_t first, struct outcome *out)
{
    const struct plan_request *request = team->problem->request;
    weft_status status = WEFT_OK;
    for (size_t t = first; t < COUNT_OF(TURNS); t++) {
        team->turn = &TURNS[t];
        choose_searches(team);
        if (!share_configs(team))
            break;
        if (!comes(team) && team->problem->devices > ACESO_MANY_DEVICES)
            continue; /* on fewer devices, what is known by now is still simulated */
        TRY(run_team(team));
        TRY(team_ask(team, team->judge[0], out));
        report(request, "numbers of stages", team, out->planned);
        if (gives_up(team))
            break;
    }
done:
    return status;
}

/* Repeats the last turns by I2. */
static weft_status run_rounds(struct team *team, struct outcome *out)
{
    weft_status status = WEFT_OK;
    for (int round = 0; round < ROUNDS; round++) {
        TRY(run_turns(team, round ? LAST_TURNS : 0, out));
        if (gives_up(team))
            break;
        TRY(team_finish(team, team->judge[0], out));
        if (!out->missed || problem_over(team->problem))
            break;
    }
done:
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const char *const BEGINNINGS[] = {[BEGIN_BALANCED] = "balanced",
                                         [BEGIN_IMBALANCED_OP] = "imbalanced-op",
                                         [BEGIN_IMBALANCED_DEVICE] = "imbalanced-device"};
_Static_assert(COUNT_OF(BEGINNINGS) == BEGIN_COUNT, "a beginning without a name");

/* Copies the user's plan onto the request's own model and cluster. */
static weft_status copy_plan(const struct problem *p, const struct plan *from, struct plan **out)
{
    struct plan *plan = NULL;
    int64_t cut[ACESO_MOST_PARTS], devices[MOST_STAGES];
    weft_status status;
    TRY(plan_new(p->request->model, p->request->cluster, &plan));
    plan_copy_settings(plan, from);
    plan->global_batch = from->global_batch;
    plan->step_samples = from->step_samples;
    plan->schedule = arena_copy_text(plan->arena, from->schedule);
    plan->memory = p->settings.memory;
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

/* A plan file as the starting config; its simulation is the first trial. */
static weft_status begin_with_file(const struct problem *p, struct planned *out,
                                   struct config *begin)
{
    struct opened_plan opened = {0};
    struct plan *plan;
    struct cost *cost = NULL;
    const struct trial *trial;
    weft_status status;
    TRY(plan_load(p->request->options.initial, &opened));
    TRY(config_of_plan(p, opened.plan, begin));
    TRY(copy_plan(p, opened.plan, &plan));
    TRY(cost_open_all(p->request->cluster, p->request->profile, &cost));
    TRY(problem_try(p, cost, plan, "the starting plan", out, &trial));
done:
    cost_close(cost);
    plan_close(&opened);
    return status;
}

/* The configs to start from in place of the search's own, one per search. */
struct begins {
    struct config *config;
    int64_t *iteration_ns; /* simulated */
    int32_t count;
};

/* Starts from plans that the caller has already tried. Plans that make no config are left out; it
 * is an error only if none is left. */
static weft_status begin_with_plans(const struct problem *p, struct begins *out)
{
    const struct plan_options *options = &p->request->options;
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < options->begins; i++) {
        status = config_of_plan(p, options->begin[i].plan, &out->config[out->count]);
        out->iteration_ns[out->count] = options->begin[i].iteration_ns;
        out->count += status == WEFT_OK;
    }
    if (out->count)
        error_clear();
    return out->count ? WEFT_OK : status;
}

static void set_up(struct arena *keep, struct problem *p, const struct begins *begins,
                   enum beginning beginning, struct team *team)
{
    int32_t stages[MOST_STAGES];
    *team = (struct team){.problem = p, .searches = problem_stage_counts(p, stages)};
    if (begins->count)
        team->searches = begins->count;
    for (int32_t i = 0; i < begins->count; i++)
        stages[i] = begins->config[i].stages;
    team->result = ARENA_ARRAY(keep, struct search_result, (size_t)team->searches);
    team->settings = ARENA_ARRAY(keep, struct search_settings, (size_t)team->searches);
    team->told = ARENA_ARRAY(keep, struct told, (size_t)team->searches);
    team->missed = ARENA_ARRAY(keep, struct told, (size_t)team->searches);
    team->chosen = ARENA_ARRAY(keep, bool, (size_t)team->searches);
    team->workers = pool_size(p->request->options.threads, team->searches);
    team->judge = ARENA_ARRAY(keep, struct judge *, (size_t)team->workers);
    for (int32_t i = 0; i < team->searches; i++) {
        team->result[i].arena = arena_new();
        team->result[i].stages = stages[i];
        team->settings[i] =
            (struct search_settings){.stages = stages[i],
                                     .beginning = beginning,
                                     .begin = begins->count ? &begins->config[i] : NULL,
                                     .seed = (uint64_t)p->request->options.seed,
                                     .told = &team->told[i],
                                     .begin_s = wall_seconds()};
    }
}

static void tear_down(struct team *team)
{
    for (int32_t i = 0; i < team->workers; i++)
        judge_free(team->judge[i]);
    for (int32_t i = 0; i < team->searches; i++)
        arena_free(team->result[i].arena);
}

/* Tells the searches how long their plans take when simulated, so that they are compared by
 * that. */
static weft_status tell_begins(struct team *team, const struct begins *begins)
{
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < begins->count && begins->count > 1; i++) {
        if (!team->judge[0])
            TRY(judge_new(team->problem, &team->judge[0]));
        TRY(team_tell(team, team->judge[0], i, &begins->config[i], begins->iteration_ns[i]));
    }
done:
    return status;
}

static weft_status search_all(struct problem *p, const struct begins *begins,
                              enum beginning beginning, struct planned *planned)
{
    struct arena *scratch = arena_new();
    struct team team;
    struct outcome out = {
        .planned = planned, .arena = scratch, .search = -1, .missed_ns = INT64_MAX};
    set_up(scratch, p, begins, beginning, &team);
    const char *log = p->request->options.log;
    weft_status status;
    TRY(tell_begins(&team, begins));
    weft_status ended = run_rounds(&team, &out); /* an error also if it was stopped in a trial */
    for (int32_t i = 0; i < team.searches; i++)
        planned->candidates += team.result[i].configs;
    if (out.search >= 0)
        explain(planned, &team.result[out.search]);
    if (log)
        TRY(aceso_log_write(log, p, team.result, team.searches));
    status = ended;
done:
    tear_down(&team);
    arena_free(scratch);
    return status;
}

weft_status aceso_find(const struct plan_request *request, struct planned *out)
{
    const char *initial = request->options.initial;
    enum beginning beginning = BEGIN_BALANCED;
    struct arena *scratch = arena_new();
    struct problem *p = NULL;
    size_t most = (size_t)request->options.begins + 1;
    struct begins begins = {ARENA_ARRAY(scratch, struct config, most),
                            ARENA_ARRAY(scratch, int64_t, most), 0};
    weft_status status;
    TRY(problem_new(request, &p));
    while (initial && beginning < BEGIN_COUNT && strcmp(initial, BEGINNINGS[beginning]) != 0)
        beginning++;
    if (request->options.begins) {
        TRY(begin_with_plans(p, &begins));
    } else if (beginning == BEGIN_COUNT) {
        TRY(begin_with_file(p, out, begins.config));
        begins.count = 1;
    }
    if (begins.count)
        beginning = BEGIN_BALANCED;
    TRY(search_all(p, &begins, beginning, out));
    out->stopped |= problem_over(p);
done:
    problem_free(p);
    arena_free(scratch);
    return status;
}

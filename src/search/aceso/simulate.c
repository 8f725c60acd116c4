/* simulate.c - what the simulator says: about the best of every search while they run, and about the
 * finalists in the end.
 *
 * The estimate is off by a few per cent, for one schedule more than for another. So whenever a turn
 * is over, the best config of each search near the best of all is simulated. With t the simulated
 * time over the estimated one and m the judged peak over the simulated one, from then on
 *
 *   time  = t * estimate,    a stage may take  min(1, m) * limit                               (1)
 *
 * for all configs of that search with this schedule and these pieces.
 *
 *   I1  Searches are corrected between turns, one after the other: the result is the same with any
 *       number of threads.
 *   I2  For a config that was simulated, the simulator's answer is used. The memory factor of (1)
 *       is not applied before the finalists are simulated, and then it is that of the config that
 *       exceeded the limit by least since the searches started (or restarted): a config that
 *       exceeds it by little may well lead to one that fits. Where trials are counted there are too few for that:
 *       it is applied at once.
 *   I3  The best of all is simulated whenever a turn is over: what replaces it is better only by an
 *       estimate, and may be worse. What is farther from a time to beat than its search may be to go on is not.
 */
#include "search/aceso/team.h"

#include <stdlib.h>

enum { SIMULATED = 5, MOST_FINALISTS = 16 }; /* Aceso, section 5.1: the five best are run */

/* ---- what searches learn --------------------------------------------------------------------- */

/* Records the factors. For numbers of pieces of the same schedule that were not simulated, the
 * nearest that was is used. */
static void tell(struct told *told, const struct config *c, double time, double memory)
{
    int32_t s = c->schedule;
    if (c->pieces > TOLD_PIECES)
        return;
    double *times = told->time[s], *memories = told->memory[s];
    told->known[s][c->pieces] = true;
    times[c->pieces] = time;
    memories[c->pieces] = memory;
    for (int pieces = 1; pieces <= TOLD_PIECES; pieces++)
        for (int away = 1; !told->known[s][pieces] && away < TOLD_PIECES; away++) {
            int from = pieces - away >= 1 && told->known[s][pieces - away] ? pieces - away
                       : pieces + away <= TOLD_PIECES && told->known[s][pieces + away]
                           ? pieces + away
                           : 0;
            if (!from)
                continue;
            times[pieces] = times[from];
            memories[pieces] = memories[from];
            break;
        }
}

static double told_memory(const struct told *told, const struct config *c)
{
    double memory = c->pieces <= TOLD_PIECES ? told->memory[c->schedule][c->pieces] : 0;
    return memory > 0 ? memory : 1;
}

/* I2 */
static void note_miss(struct told *missed, const struct config *c, double memory)
{
    double *least = &missed->memory[c->schedule][c->pieces <= TOLD_PIECES ? c->pieces : 0];
    *least = memory > *least ? memory : *least;
}

/* Judges a config again with the present corrections, and by its simulation if there was one;
 * *legal is false if the config is no longer legal. */
static weft_status judge_again(struct judge *judge, const struct outcome *out, struct found *found,
                               bool *legal)
{
    weft_status status;
    TRY(judge_recompute(judge, &found->config, UINT64_MAX));
    config_normalise(&found->config);
    TRY(judge_config(judge, &found->config, &found->verdict, NULL, legal));
    found->hash = config_hash(&found->config);
    int32_t number = (int32_t)hash_get(&out->tried, found->hash);
    if (number < 0)
        goto done;
    const struct trial *trial = &out->planned->trials.data[number];
    int64_t excess = trial_excess(trial);
    found->verdict.iteration_ns = trial->iteration_ns;
    if (found->verdict.excess_bytes < excess)
        found->verdict.excess_bytes = excess;
done:
    return status;
}

static bool same_schedule(const struct config *a, const struct config *b)
{
    return a->schedule == b->schedule && a->pieces == b->pieces;
}

/* If another schedule is the best now, the search continues with that one. Quick efforts are also
 * made from the previous one: which of two configs is better may not hold for the configs that are
 * derived from them. */
static void change_coarse(struct search_result *result)
{
    struct found *coarse = &result->coarse, *other = &result->other;
    const struct found *best = result->found;
    if (!result->count || !coarse->hash)
        return;
    if (other->hash && better(other->verdict, coarse->verdict)) {
        struct found before = *coarse;
        *coarse = *other;
        *other = before;
    }
    if (same_schedule(&best->config, &coarse->config) || !better(best->verdict, coarse->verdict))
        return;
    *other = *coarse;
    *coarse = *best;
}

static weft_status correct(struct judge *judge, const struct outcome *out,
                           struct search_result *result)
{
    struct arena *scratch = arena_new();
    int32_t count = result->count;
    struct found *before = ARENA_ARRAY(scratch, struct found, (size_t)count + 1);
    bool legal;
    weft_status status = WEFT_OK;
    for (int32_t k = 0; k < count; k++)
        before[k] = result->found[k];
    result->count = 0;
    for (int32_t k = 0; k < count; k++) {
        TRY(judge_again(judge, out, &before[k], &legal));
        if (legal)
            note_found(judge_problem(judge), result, &before[k].config, before[k].verdict,
                       before[k].hash);
    }
    if (result->coarse.hash)
        TRY(judge_again(judge, out, &result->coarse, &legal));
    if (result->other.hash)
        TRY(judge_again(judge, out, &result->other, &legal));
    change_coarse(result);
done:
    arena_free(scratch);
    return status;
}

/* I2: from now on every search that exceeded the limit may take less. */
static weft_status tell_misses(struct team *team, struct judge *judge, struct outcome *out)
{
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < team->searches; i++) {
        bool any = false;
        for (int s = 0; s < MOST_SCHEDULES; s++)
            for (int pieces = 1; pieces <= TOLD_PIECES; pieces++) {
                double memory = team->missed[i].memory[s][pieces];
                if (memory <= 0)
                    continue;
                team->told[i].memory[s][pieces] = memory;
                any = true;
            }
        team->missed[i] = (struct told){0};
        judge->told = &team->told[i];
        if (any)
            TRY(correct(judge, out, &team->result[i]));
    }
done:
    return status;
}

/* ---- one config ------------------------------------------------------------------------------ */

/* The peak as judged; 0: the config cannot be judged. */
static int64_t judged_peak(struct judge *judge, const struct config *c)
{
    struct verdict verdict;
    bool legal;
    int64_t most = 0;
    if (judge_config(judge, c, &verdict, NULL, &legal) || !legal)
        return 0;
    for (int32_t s = 0; s < c->stages; s++) {
        int64_t peak = judge_peak(judge, c, s);
        most = peak > most ? peak : most;
    }
    return most;
}

static void note_trial(const struct trial *trial, int32_t search, bool judged_to_fit,
                       struct outcome *out)
{
    bool first = !out->any || (trial->fits && !out->fits);
    bool faster = !out->fits || trial->iteration_ns < out->iteration_ns;
    if (judged_to_fit && !trial->fits && trial->iteration_ns < out->missed_ns)
        out->missed_ns = trial->iteration_ns;
    if (!first && (!trial->fits || !faster))
        return;
    out->any = true;
    out->fits = trial->fits;
    out->search = search;
    out->iteration_ns = trial->iteration_ns;
}

static weft_status try_found(struct team *team, struct judge *judge, int32_t search,
                             const struct found *found, struct outcome *out)
{
    const struct problem *p = team->problem;
    struct told *told = &team->told[search];
    struct config c;
    const struct trial *trial;
    struct plan *plan;
    struct verdict verdict;
    bool legal, fits = found->verdict.excess_bytes == 0;
    double began_s = wall_seconds();
    weft_status status;
    config_copy(&c, &found->config);
    judge->told = NULL;
    TRY(judge_config(judge, &c, &verdict, NULL, &legal));
    double peak = (double)judged_peak(judge, &c);
    TRY(judge_plan(judge, &c, &plan));
    TRY(problem_try(p, judge->estimator->cost, plan, config_text(out->planned->arena, &c),
                    out->planned, &trial));
    problem_spare(team->problem, wall_seconds() - began_s);
    *hash_at(&out->tried, out->arena, found->hash) = (int32_t)out->planned->trials.len - 1;
    note_trial(trial, search, fits, out);
    tell(told, &c, (double)trial->iteration_ns / (double)verdict.iteration_ns,
         told_memory(told, &c));
    if (fits && !trial->fits)
        note_miss(&team->missed[search], &c,
                  peak / (double)trial_reserved(trial) * (double)trial->room_bytes /
                      (double)p->limit_bytes);
    judge->told = told;
    TRY(correct(judge, out, &team->result[search]));
done:
    return status;
}

/* Whether as many plans as options.most_trials allows are simulated. */
static bool has_enough(const struct team *team, const struct outcome *out)
{
    int64_t most = team->problem->request->options.most_trials;
    return most > 0 && (int64_t)out->planned->trials.len >= most;
}

weft_status team_tell(struct team *team, struct judge *judge, int32_t search,
                      const struct config *config, int64_t iteration_ns)
{
    struct config c;
    struct verdict verdict;
    bool legal;
    weft_status status;
    config_copy(&c, config);
    judge->told = NULL;
    TRY(judge_config(judge, &c, &verdict, NULL, &legal));
    if (legal)
        tell(&team->told[search], &c, (double)iteration_ns / (double)verdict.iteration_ns, 1);
done:
    return status;
}

/* ---- while searches go on -------------------------------------------------------------------- */

/* Whether another config of this schedule and these pieces was simulated and the estimate was
 * right. */
static bool is_trusted(const struct told *told, const struct config *c)
{
    static const double RIGHT = 0.01;
    if (c->pieces > TOLD_PIECES)
        return true;
    double off = told->time[c->schedule][c->pieces] - 1;
    return told->known[c->schedule][c->pieces] && off < RIGHT && off > -RIGHT;
}

static bool found_fits(const struct search_result *result)
{
    return result->count && result->found[0].verdict.excess_bytes == 0;
}

static bool is_near(const struct team *team, struct verdict verdict)
{
    return (double)verdict.iteration_ns <= team_worth_ns(team);
}

/* The search with the best config of all, if that was not simulated yet; -1: it was, or it is too slow. */
static int32_t best_unasked(const struct team *team, const struct outcome *out)
{
    int32_t at = -1;
    for (int32_t i = 0; i < team->searches; i++)
        if (found_fits(&team->result[i]) &&
            (at < 0 || better(team->result[i].found->verdict, team->result[at].found->verdict)))
            at = i;
    bool near = at >= 0 && is_near(team, team->result[at].found->verdict);
    return near && hash_get(&out->tried, team->result[at].found->hash) < 0 ? at : -1;
}

/* The search with the best config about which nothing is known yet, if it is near enough; -1:
 * none. */
static int32_t next_to_ask(const struct team *team, const struct outcome *out)
{
    static const double NEAR = 1.05;
    struct verdict best = {INT64_MAX, 0};
    int32_t at = -1;
    for (int32_t i = 0; i < team->searches; i++) {
        const struct found *found = team->result[i].found;
        if (!found_fits(&team->result[i]) || hash_get(&out->tried, found->hash) >= 0 ||
            !better(found->verdict, best) || is_trusted(&team->told[i], &found->config))
            continue;
        best = found->verdict;
        at = i;
    }
    bool far = out->fits && (double)best.iteration_ns > NEAR * (double)out->iteration_ns;
    return far || !is_near(team, best) ? -1 : at;
}

weft_status team_ask(struct team *team, struct judge *judge, struct outcome *out)
{
    enum { MOST_ASKED = 4 };
    bool counted = team->problem->request->options.most_trials > 0;
    weft_status status = WEFT_OK;
    for (int asked = 0; asked < (counted ? 1 : MOST_ASKED) && !problem_over(team->problem);
         asked++) {
        int32_t search = counted ? -1 : best_unasked(team, out); /* I3 */
        search = search < 0 ? next_to_ask(team, out) : search;
        if (search < 0 || has_enough(team, out))
            break;
        TRY(try_found(team, judge, search, team->result[search].found, out));
        if (counted)
            TRY(tell_misses(team, judge, out));
    }
done:
    return status;
}

/* ---- finalists ------------------------------------------------------------------------------- */

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

/* Picks the best of all, then the best of other numbers of stages and other kinds. */
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

weft_status team_finish(struct team *team, struct judge *judge, struct outcome *out)
{
    struct arena *scratch = arena_new();
    struct finalist finalist[MOST_FINALISTS];
    int32_t count = pick_finalists(scratch, team, finalist);
    struct found *found = ARENA_ARRAY(scratch, struct found, MOST_FINALISTS);
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < count; i++)
        found[i] = *finalist[i].found; /* copied, because searches are corrected one by one */
    for (int32_t i = 0; i < count; i++)
        if (hash_get(&out->tried, found[i].hash) < 0 && !has_enough(team, out))
            TRY(try_found(team, judge, finalist[i].search, &found[i], out));
    out->missed = out->missed_ns < (out->fits ? out->iteration_ns : INT64_MAX);
    out->missed_ns = INT64_MAX;
    if (out->missed)
        TRY(tell_misses(team, judge, out));
done:
    arena_free(scratch);
    return status;
}

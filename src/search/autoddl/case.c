/* case.c - one case of the planner autoddl: solved, simulated, explained (autoddl.c). */
#include <math.h>
#include <string.h>

#include "search/autoddl/room.h"

enum { MOST_RETRIES = 4 };
/* The part of the memory of (1) that is used: simulated memory varies from plan to plan. */
static const double TIGHTER = 0.99;

/* ---- words ----------------------------------------------------------------------------------- */

static const char *case_text(struct arena *keep, const struct layout_problem *p)
{
    const struct layout_case *about = &p->about;
    const char *text = arena_printf(keep, "%s per step", counted(about->step_samples, "sample").s);
    if (about->stages > 1)
        text = arena_printf(keep, "pp %d, %s", about->stages, text);
    if (about->shard)
        text = arena_printf(keep, "%s, zero %d", text, about->shard);
    return about->recompute ? arena_printf(keep, "%s, recompute full", text) : text;
}

/* The splits of operators with weights, once per name and split: "qkv batch:4 out:8 in:2". */
static const char *splits_text(struct arena *keep, const struct layout_problem *p,
                               const int32_t *option)
{
    enum { FEW_PARAMETERS = 10000 }; /* norms and biases are not mentioned */
    const struct model *model = p->about.model;
    const char *text = "";
    for (int32_t i = 0; i < model->ops; i++) {
        const struct op *op = &model->op[i];
        if (op_parameters(op) < FEW_PARAMETERS)
            continue;
        const char *one =
            arena_printf(keep, "%s %s", op->name, split_text(keep, &p->splits[i].data[option[i]]));
        if (!strstr(text, one))
            text = arena_printf(keep, "%s%s%s", text, *text ? ", " : "", one);
    }
    return text;
}

static const char *taken_text(struct arena *keep, const struct autoddl_answer *answer,
                              int32_t stages)
{
    int64_t taken = 0, layers = 0;
    for (int32_t s = 0; s < stages; s++) {
        taken += answer->taken[s];
        layers += answer->layers[s];
    }
    return arena_printf(keep, "%lld of %s %s room", (long long)taken, counted(layers, "layer").s,
                        taken == 1 ? "has" : "have");
}

static void give_reasons(struct autoddl *a, const struct layout_problem *p,
                         const struct autoddl_answer *answer)
{
    struct arena *keep = a->out->arena;
    const char *name = case_text(keep, p);
    array_push(keep, &a->out->reasons,
               arena_printf(keep, "%s: %s", name, splits_text(keep, p, answer->option)));
    if (answer->fast)
        array_push(keep, &a->out->reasons,
                   arena_printf(keep, "%s: %s for what is faster: %s", name,
                                taken_text(keep, answer, p->about.stages),
                                splits_text(keep, p, answer->fast)));
    if (answer->bound_ns > 0 && !p->about.drop)
        array_push(keep, &a->out->reasons,
                   arena_printf(keep,
                                "%s: without overlap %.4g s; no splits that fit take less than "
                                "%.4g s",
                                name, answer->time_ns / 1e9, answer->bound_ns / 1e9));
}

/* ---- one case -------------------------------------------------------------------------------- */

void autoddl_settle(const struct autoddl *a, struct plan *plan)
{
    const struct degrees *pins = &a->request->pins;
    plan->memory = pins->memory;
    if (pins->has_overlap)
        plan->overlap = pins->overlap;
    plan->software = pins->software;
    plan->optimizer = pins->optimizer;
    plan->replicate = pins->replicate;
    plan->group = pins->group;
    plan->optimizer_offload = pins->optimizer_offload;
    plan->bucket_bytes = degrees_bucket_bytes(pins);
    plan->whole_sends = pins->whole_sends;
}

/* The plan of an answer, with everything that the user asked of all plans. */
static weft_status plan_of_found(const struct autoddl *a, const struct layout_problem *p,
                                 const struct assigned *found, struct plan **out)
{
    weft_status status = layout_plan(p, found->option, out);
    if (!status)
        autoddl_settle(a, *out);
    return status;
}

/* What an answer takes by the closed form where that is longer than `most_ns`; else 0, as where that is 0: it is not asked. */
static weft_status find_longer(const struct autoddl *a, const struct layout_problem *p,
                               const struct assigned *found, double most_ns, int64_t *longer_ns)
{
    struct arena *scratch = arena_new();
    struct estimator *estimator = NULL;
    struct plan *plan = NULL;
    struct estimate estimate;
    weft_status status = WEFT_OK;
    *longer_ns = 0;
    if (most_ns <= 0)
        goto done;
    TRY(plan_of_found(a, p, found, &plan));
    struct estimate_settings settings = estimate_settings_of(plan);
    settings.profile = a->request->profile;
    TRY(estimator_new(&settings, &estimator));
    TRY(estimate_plan(estimator, plan, scratch, &estimate));
    if ((double)estimate.iteration_ns > most_ns)
        *longer_ns = estimate.iteration_ns;
done:
    estimator_free(estimator);
    plan_free(plan);
    arena_free(scratch);
    return status;
}

weft_status autoddl_try(struct autoddl *a, const struct layout_problem *p, struct plan *plan,
                        const struct autoddl_answer *answer, struct trial *trial)
{
    const struct trial *tried = NULL;
    struct hold hold;
    pthread_mutex_lock(&a->lock);
    hold_push(&hold, hold_unlock, &a->lock);
    weft_status status =
        try_plan(a->request, p->about.cost, plan, case_text(a->out->arena, p), a->out, &tried);
    if (!status) {
        struct progress *progress = &a->progress;
        *trial = *tried;
        progress->trials++;
        if (trial->fits && (!progress->best_ns || trial->iteration_ns < progress->best_ns)) {
            progress->best_ns = trial->iteration_ns;
            a->out->reasons.len = 0;
            give_reasons(a, p, answer);
        }
        if (a->request->progress)
            a->request->progress(a->request->context, progress);
    }
    hold_pop(&hold);
    pthread_mutex_unlock(&a->lock);
    return status;
}

static void count_candidates(struct autoddl *a, int64_t tried)
{
    pthread_mutex_lock(&a->lock);
    a->progress.candidates = a->out->candidates += tried;
    pthread_mutex_unlock(&a->lock);
}

static weft_status try_found(struct autoddl *a, const struct layout_problem *p,
                             const struct assigned *found, struct trial *trial)
{
    struct autoddl_answer answer = {.option = found->option,
                                    .time_ns = found->time,
                                    .bound_ns = found->fits ? found->bound : 0};
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_of_found(a, p, found, &plan));
    count_candidates(a, found->tried);
    TRY(autoddl_try(a, p, plan, &answer, trial));
done:
    return status;
}

static const struct layout_exposed EXPOSED[] = {
    {1, 1}, {0.5, 1}, {0.25, 0.5}, {0.25, 0.25}, {0.5, LAYOUT_BESIDE}, {0.25, LAYOUT_BESIDE}};
/* How many of those are tried without a floor; and the rounds of a scout's descent. */
enum { FIRST_GUESSES = 4, FEW_ROUNDS = 30 };
/* With no more entries of edges than this, the exact search takes no longer than descents. */
static const double FEW_ENTRIES = 5e4;

/* By how much a closed form may exceed the simulated time: 0.01 % in gpt3-175b's two first looks on 1,024 devices. */
static const double ESTIMATE_OFF = 0.02;

/* Of one exact search (autoddl.c, I9). */
static const double EXACT_STEPS = 4e8;

static double entries_of(const struct assign *assign)
{
    double entries = 0;
    for (int32_t e = 0; e < assign->edges; e++)
        entries += (double)assign->options[assign->edge[e].a] * assign->options[assign->edge[e].b];
    return entries;
}

/* The answers of a case so far. */
struct case_answer {
    int32_t *option;
    bool fits;
    int64_t ns; /* 0: not simulated */
};
struct answers {
    struct case_answer *data;
    size_t len, cap;
};

static bool is_known(const struct layout_problem *p, const struct answers *before,
                     const struct assigned *found)
{
    size_t bytes = sizeof *found->option * (size_t)p->assign->variables;
    for (size_t i = 0; i < before->len; i++)
        if (memcmp(before->data[i].option, found->option, bytes) == 0)
            return true;
    return false;
}

/* How a case is searched, and with how many of the guesses. */
struct case_effort {
    enum assign_search search;
    double steps;   /* of one search; INFINITY: as many as are left (autoddl.c, I9) */
    int64_t rounds; /* as in assign.h */
    size_t guesses;
    double most_ns; /* answers that take longer by estimate are not simulated; 0: all are */
    bool mixes;     /* layers may differ where memory is short (mixture.c) */
};

static void keep_least(int64_t *least_ns, int64_t ns)
{
    if (ns && (!*least_ns || ns < *least_ns))
        *least_ns = ns;
}

/* Solves the case as it is exposed and limited now, with no more work than is left (autoddl.c, I9). */
static void solve_now(struct autoddl *a, const struct layout_problem *p, struct case_effort effort,
                      struct assigned *found)
{
    struct assign_work *all = p->about.work;
    struct assign_work work = {.stop = &a->stop,
                               .most = fmax(fmin(effort.steps, all->most - all->done), 1)};
    struct assign_options options = {.search = effort.search,
                                     .seed = (uint64_t)a->request->options.seed,
                                     .beta = a->beta,
                                     .rounds = effort.rounds,
                                     .work = &work};
    assign_solve(p->assign, &options, p->arena, found);
    work_add(all, work.done);
    pthread_mutex_lock(&a->lock);
    a->cut_short |= work_spent(&work);
    pthread_mutex_unlock(&a->lock);
}

/* Finds (1) for one guess of what overlaps. */
static weft_status solve_exposed(struct autoddl *a, struct layout_problem *p,
                                 struct layout_exposed exposed, struct case_effort effort,
                                 struct answers *before, int64_t *best_ns)
{
    bool again = true;
    weft_status status = WEFT_OK;
    layout_expose(p, exposed);
    p->assign->limit = p->about.limit_bytes;
    for (int i = 0; again && i < MOST_RETRIES && !(i && autoddl_over(a)); i++) {
        struct assigned found;
        struct trial trial = {0};
        solve_now(a, p, effort, &found);
        TRY(layout_problem_status(p));
        if (is_known(p, before, &found))
            break;
        array_push(p->arena, before, ((struct case_answer){found.option, false, 0}));
        int64_t longer_ns;
        TRY(find_longer(a, p, &found, effort.most_ns, &longer_ns));
        keep_least(best_ns, longer_ns);
        if (longer_ns)
            break;
        TRY(try_found(a, p, &found, &trial));
        before->data[before->len - 1].fits = trial.fits;
        before->data[before->len - 1].ns = trial.iteration_ns;
        again = !trial.fits && found.fits;
        p->assign->limit *= TIGHTER * (double)trial.room_bytes / (double)trial_reserved(&trial);
        if (trial.fits)
            keep_least(best_ns, trial.iteration_ns);
    }
done:
    return status;
}

/* ---- layers that differ (mixture.c) ---------------------------------------------------------- */

/* The fastest that fits, or that does not; NULL: none. */
static const struct case_answer *fastest_of(const struct answers *before, bool fits)
{
    const struct case_answer *best = NULL;
    for (size_t i = 0; i < before->len; i++) {
        const struct case_answer *one = &before->data[i];
        if (one->ns && one->fits == fits && (!best || one->ns < best->ns))
            best = one;
    }
    return best;
}

/* The assignment of least time with this much memory. */
static const int32_t *solve_within(struct autoddl *a, struct layout_problem *p,
                                   struct case_effort effort, double limit, bool *fits)
{
    struct assigned found;
    p->assign->limit = limit;
    solve_now(a, p, effort, &found);
    count_candidates(a, found.tried);
    *fits = found.fits;
    return found.option;
}

/* Where the fastest assignment does not fit: as many layers as there is room for take it, the others that of the fastest trial
 * that fits, or one that needs half the memory. */
static weft_status mix_answers(struct autoddl *a, struct layout_problem *p,
                               struct case_effort effort, const struct answers *before,
                               int64_t *best_ns)
{
    const struct case_answer *lean = fastest_of(before, true), *over = fastest_of(before, false);
    size_t bytes = sizeof *lean->option * (size_t)p->assign->variables;
    weft_status status = WEFT_OK;
    bool fits;
    if (!lean || !isfinite(p->about.limit_bytes) || autoddl_over(a))
        return WEFT_OK;
    layout_expose(p, EXPOSED[0]);
    const int32_t *fast = solve_within(a, p, effort, INFINITY, &fits);
    TRY(layout_problem_status(p));
    if (memcmp(fast, lean->option, bytes) == 0)
        return WEFT_OK;
    TRY(autoddl_mix(a, p, lean->option, fast, best_ns));
    if (over && over->ns < lean->ns && memcmp(over->option, fast, bytes) != 0)
        TRY(autoddl_mix(a, p, lean->option, over->option, best_ns));
    const int32_t *half = solve_within(a, p, effort, p->about.limit_bytes / 2, &fits);
    TRY(layout_problem_status(p));
    if (fits && memcmp(half, lean->option, bytes) != 0)
        TRY(autoddl_mix(a, p, half, fast, best_ns));
done:
    return status;
}

static bool hides(const struct degrees *pins)
{
    return !pins->has_overlap || pins->overlap & (OVERLAP_GRADIENTS | OVERLAP_TENSOR);
}

/* Tries the first guesses; only one if nothing overlaps, or if the first is far off (I5). */
static weft_status solve_guesses(struct autoddl *a, struct layout_problem *p,
                                 struct case_effort effort, struct step_case *c,
                                 struct incumbent *so_far)
{
    struct answers before = {0};
    int64_t best_ns = 0;
    size_t guesses = hides(&a->request->pins) ? effort.guesses : 1;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < guesses && !(i && autoddl_over(a)); i++) {
        TRY(solve_exposed(a, p, EXPOSED[i], effort, &before, &best_ns));
        keep_least(&c->tried_ns, best_ns);
        if (!best_ns || !autoddl_is_near(c, so_far, AUTODDL_FAR))
            break; /* what does not fit does not fit for any guess */
    }
    double beat = autoddl_to_beat(so_far);
    if (effort.mixes && best_ns && (beat <= 0 || (double)best_ns <= beat))
        TRY(mix_answers(a, p, effort, &before, &best_ns));
    keep_least(&so_far->fastest_ns, best_ns);
done:
    return status;
}

/* Opens a case with a time to beat; its floor rises if all its splits are looked at. */
static weft_status open_case(struct layout_case about, struct step_case *c,
                             const struct incumbent *so_far, bool drop, struct layout_problem **out)
{
    weft_status status;
    about.step_samples = c->step_samples;
    about.recompute = c->recompute;
    /* With fewer splits, something slower may still lead to something faster. */
    bool every = about.narrow == ALL_SPLITS;
    about.below_ns = every ? autoddl_below(so_far) : autoddl_to_beat(so_far);
    about.drop = drop;
    TRY(layout_problem_new(&about, out));
    if (about.narrow == ALL_SPLITS && (*out)->floor_ns > c->floor_ns)
        c->floor_ns = (*out)->floor_ns;
done:
    return status;
}

/* autoddl.c, I10; 0: everything is simulated. */
static double most_ns_of(const struct autoddl *a)
{
    bool asked = a->request->options.search;
    return asked ? 0 : AUTODDL_FAR_AWAY * (1 + ESTIMATE_OFF) * (double)a->request->known_ns;
}

/* The first guess by a few descents. */
static weft_status solve_little(struct autoddl *a, struct layout_problem *p, struct step_case *c)
{
    struct case_effort little = {SEARCH_CD, INFINITY, FEW_ROUNDS, 1, most_ns_of(a), false};
    struct incumbent so_far = {.known_ns = a->request->known_ns};
    return solve_guesses(a, p, little, c, &so_far);
}

weft_status autoddl_scout(struct autoddl *a, const struct layout_case *about, struct step_case *c)
{
    struct incumbent so_far = {.known_ns = a->request->known_ns};
    struct layout_problem *p = NULL;
    weft_status status;
    TRY(open_case(*about, c, &so_far, false, &p));
    if (p->assign)
        TRY(solve_little(a, p, c));
done:
    layout_problem_free(p);
    return status;
}

weft_status autoddl_solve_rest(struct autoddl *a, const struct layout_case *about,
                               struct step_case *c, bool descend, struct incumbent *so_far,
                               struct solve_outcome *out)
{
    double most_ns = most_ns_of(a);
    struct case_effort asked = {a->search, INFINITY, 0, COUNT_OF(EXPOSED), most_ns, false};
    struct case_effort exact = {SEARCH_EXACT, EXACT_STEPS, 0, COUNT_OF(EXPOSED), most_ns, false};
    struct layout_problem *p = NULL;
    int64_t before_ns = so_far->fastest_ns;
    weft_status status;
    TRY(open_case(*about, c, so_far, true, &p));
    *out = (struct solve_outcome){p->assign, false};
    if (p->assign && descend)
        TRY(solve_guesses(a, p, asked, c, so_far));
    if (p->assign && !a->request->options.search && entries_of(p->assign) <= FEW_ENTRIES &&
        !autoddl_over(a))
        TRY(solve_guesses(a, p, exact, c, so_far));
    out->faster = so_far->fastest_ns != before_ns;
done:
    layout_problem_free(p);
    return status;
}

weft_status autoddl_solve(struct autoddl *a, const struct layout_case *about, struct step_case *c,
                          struct incumbent *so_far, struct solve_outcome *out)
{
    struct case_effort asked = {a->search, INFINITY, 0, FIRST_GUESSES, most_ns_of(a), true};
    struct incumbent known = {.known_ns = a->request->known_ns};
    struct layout_problem *p = NULL;
    int64_t before_ns = so_far->fastest_ns;
    struct solve_outcome rest;
    weft_status status;
    TRY(open_case(*about, c, so_far, false, &p));
    *out = (struct solve_outcome){p->assign, false};
    if (p->assign && !c->tried_ns && asked.most_ns > 0)
        TRY(solve_little(a, p, c)); /* autoddl.c, I10 */
    bool far = c->tried_ns && !autoddl_is_near(c, &known, AUTODDL_FAR_AWAY);
    if (p->assign && !(far && asked.most_ns > 0))
        TRY(solve_guesses(a, p, asked, c, so_far));
    keep_least(&so_far->fastest_ns, c->tried_ns);
    if (p->assign && autoddl_to_beat(so_far) > 0 && autoddl_is_near(c, so_far, AUTODDL_NEAR) &&
        !a->request->options.search && !autoddl_over(a))
        TRY(autoddl_solve_rest(a, about, c, false, so_far, &rest));
    out->faster = so_far->fastest_ns != before_ns;
done:
    layout_problem_free(p);
    return status;
}

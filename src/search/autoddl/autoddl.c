/* autoddl.c - the planner: splits of every operator, for every number of stages and every number of
 * samples in a step (AutoDDL, sections 4 and 5.4).
 *
 *   case    S stages of equal devices, b samples a step, recomputation or not: a layout_problem,
 *           solved by the search that was asked for
 *   trial   its answer as a plan, simulated; if that does not fit, the case is solved again with
 *           less memory to fill: limit * limit / peak                                          (1)
 *
 * A sum over operators cannot say how much of the communication is hidden by computation; so each
 * case is solved with all of it exposed and with less (case.c), and the simulator says which was
 * right.
 *
 *   I1  For each S, cases are tried in the order of their lower bounds (layout_floor.c), the lowest
 *       first. Those that cannot be faster than the fastest trial of this S, or than a known time,
 *       are left out; after GIVE_UP in a row that were no faster, so are all the rest. If the user
 *       asked for no search, the first case of each S is solved beforehand by a few descents: the
 *       fastest of those trials is known to all S.
 *   I2  If nothing fits, everything is tried, for the nearest miss; but not if a time is known.
 *   I3  Cases of one S depend on each other, those of different S only on what was known when a
 *       round began: threads share out the S, and the answer is the same for any number of them.
 *   I4  On many nodes of several devices, splits have one dim per level at first (splits.h, I6).
 *       When all S are done, cases are looked at again with all splits: the options that may be in
 *       something faster than the fastest trial of all are solved for, or, if they are too many,
 *       those with one dim across nodes.
 *   I5  After the search of a case, if the user asked for no other one, the exact search is run on
 *       those of its options that may be in something faster: the two have different results, and
 *       the simulator decides. A case whose first trial is FAR from the time to beat, or from the one that the
 *       caller knows, gets no other guesses, and I4 and this step are for cases NEAR it: other guesses gained
 *       at most 6 % where it mattered, the exact search 3 % over descent, all splits 1.1 % over narrow ones.
 *   I6  The least floor of all cases, whether tried or not, bounds what any answer could take.
 *   I7  A time that the caller knows leaves out only what is no faster by its floor, or is not near it by I5: what
 *       would be found without it, and is faster, is found with it, too. Before anything is solved, the
 *       floor of each case with all its splits is compared with that time, which leaves few cases
 *       or none.
 *   I8  On many devices those floors take seconds, and so do searches. There, if a time is known, the first cases of
 *       the two largest S that may be faster, and are soon simulated, are solved by a few descents: if both are FAR_AWAY from it, nothing
 *       else is looked at. More searching gained 8 % of that for gpt3-175b on 1,024 devices, 6 % for llama3.1-405b
 *       on 16,384, which were 33 % and 30 % away.
 *   I9  All searches together do no more than so many steps (work.h), each S its equal share of them, and the exact
 *       search of I5 no more than a part: it finds its answer long before it has proved it. What ends so is said.
 *   I10 What the closed form puts FAR_AWAY from a time that the caller knows is not simulated, and a case of which a few
 *       descents find nothing else is not searched further: for DeepSeek-V3 on 256 devices the form was within 0.2 % of
 *       each of 80 simulations, which took 20 to 300 times as long.
 *   I11 Blocks of images (splits.h, I8) come last (image_blocks.c), for cases NEAR the fastest: no sum over operators counts the host's time to
 *       issue a block's second exchange, so that they would be taken where hosts are the limit. The simulator decides.
 */
#include <math.h>
#include <stdlib.h>

#include "search/autoddl/room.h"
#include "search/autoddl/step_time.h"

enum { GIVE_UP = 3 };
/* I4: on more nodes than this, splits are narrow at first, on both levels. */
enum { WIDE_NODES = 4 };

/* I9: about four seconds; ten times that if the user asked for a search. */
static const double ALL_STEPS = 4e9, ASKED_TIMES = 10;

/* ---- the cases of an S ----------------------------------------------------------------------- */

/* Whether the state of all weights is larger than the memory of all devices. */
static bool hopeless(const struct layout_case *about)
{
    double bytes = 0;
    for (int32_t i = 0; i < about->model->ops; i++) {
        const struct op *op = &about->model->op[i];
        struct op_memory memory =
            op_memory(about->model, op, op->size, about->dtype, about->policy, 1);
        bytes += (double)op_copies(about->model, op) *
                 (memory.weights + memory.gradients + memory.optimizer);
    }
    return bytes > about->limit_bytes * (double)cluster_devices(about->cluster);
}

int autoddl_by_floor(const void *a, const void *b)
{
    const struct step_case *x = a, *y = b;
    if (x->floor_ns != y->floor_ns)
        return x->floor_ns < y->floor_ns ? -1 : 1;
    if (x->step_samples != y->step_samples)
        return x->step_samples > y->step_samples ? -1 : 1;
    return x->recompute - y->recompute;
}

/* The whole batch as one step, half of it, and so on, with recomputation and without. */
static weft_status list_cases(struct autoddl *a, const struct layout_case *of,
                              struct stage_cases *out)
{
    struct layout_case about = *of;
    const struct degrees *pins = &a->request->pins;
    weft_status status = WEFT_OK;
    for (int64_t steps = 1; steps <= about.global_batch; steps *= 2)
        for (int r = 0; r < 2; r++) {
            struct step_case c = {about.global_batch / steps, r == 1, 0, 0};
            if (about.global_batch % steps || steps < about.stages ||
                (pins->has_recompute && c.recompute != (pins->recompute != RECOMPUTE_NONE)))
                continue;
            about.step_samples = c.step_samples;
            about.recompute = c.recompute;
            if (!(out->count && autoddl_over(a)))
                TRY(layout_floor(&about, &c.floor_ns));
            out->data[out->count++] = c;
        }
    qsort(out->data, out->count, sizeof *out->data, autoddl_by_floor);
done:
    return status;
}

static void report(struct autoddl *a)
{
    pthread_mutex_lock(&a->lock);
    if (a->request->progress)
        a->request->progress(a->request->context, &a->progress);
    pthread_mutex_unlock(&a->lock);
}

/* Drops cases by I7. */
static weft_status sieve_cases(struct autoddl *a, const struct layout_case *about,
                               struct stage_cases *cases)
{
    struct incumbent known = {.known_ns = a->request->known_ns};
    struct layout_case wide = *about;
    weft_status status = WEFT_OK;
    wide.narrow = ALL_SPLITS;
    wide.below_ns = (double)a->request->known_ns;
    for (size_t i = 0; i < cases->count && wide.below_ns > 0 && !autoddl_over(a); i++) {
        struct step_case *c = &cases->data[i];
        double floor_ns;
        if (autoddl_is_slower(c, &known))
            continue;
        wide.step_samples = c->step_samples;
        wide.recompute = c->recompute;
        TRY(layout_floor_below(&wide, &floor_ns));
        c->floor_ns = fmax(c->floor_ns, floor_ns);
        report(a);
    }
done:
    return status;
}

static weft_status scout_cases(struct autoddl *a, const struct layout_case *about,
                               struct stage_cases *cases)
{
    struct incumbent known = {.known_ns = a->request->known_ns};
    weft_status status = WEFT_OK;
    if (!a->request->options.search && cases->count && isfinite(cases->data[0].floor_ns) &&
        !autoddl_is_slower(&cases->data[0], &known))
        TRY(autoddl_scout(a, about, &cases->data[0]));
done:
    return status;
}

/* Tries the cases by I1 and I2. */
static weft_status try_cases(struct autoddl *a, const struct layout_case *about,
                             struct stage_cases *cases)
{
    struct incumbent so_far = {0, a->fastest_ns, a->request->known_ns};
    struct incumbent known = {.known_ns = a->request->known_ns};
    weft_status status = WEFT_OK;
    int worse = 0;
    for (size_t i = 0; i < cases->count && worse < GIVE_UP && !(i && autoddl_over(a)); i++) {
        struct solve_outcome outcome;
        if (autoddl_is_slower(&cases->data[i], &known))
            worse = 0; /* I7: it might have been faster than those before it */
        if (autoddl_is_slower(&cases->data[i], &so_far))
            continue;
        TRY(autoddl_solve(a, about, &cases->data[i], &so_far, &outcome));
        bool counts = outcome.solved && !outcome.faster && so_far.fastest_ns;
        worse = outcome.faster ? 0 : worse + counts;
    }
done:
    return status;
}

/* Tries all splits by I4. */
static weft_status try_all_splits(struct autoddl *a, const struct layout_case *about,
                                  struct stage_cases *cases)
{
    struct incumbent so_far = {a->fastest_ns, 0, a->request->known_ns};
    struct layout_case wide = *about;
    weft_status status = WEFT_OK;
    int worse = 0;
    for (size_t i = 0; about->narrow && i < cases->count && worse < GIVE_UP && !autoddl_over(a);
         i++) {
        struct step_case *c = &cases->data[i];
        struct solve_outcome outcome;
        if (autoddl_to_beat(&so_far) <= 0 || autoddl_is_slower(c, &so_far) ||
            !autoddl_is_near(c, &so_far, AUTODDL_NEAR))
            continue;
        wide.narrow = ALL_SPLITS;
        TRY(autoddl_solve_rest(a, &wide, c, true, &so_far, &outcome));
        wide.narrow = NARROW_OUTER;
        if (!outcome.solved && !autoddl_is_slower(c, &so_far))
            TRY(autoddl_solve_rest(a, &wide, c, true, &so_far, &outcome));
        worse = outcome.faster ? 0 : worse + outcome.solved;
    }
done:
    return status;
}

/* ---- threads (I3) ---------------------------------------------------------------------------- */

/* Whether tokens are not sent to each of their experts, and so are fewer than reshards count. */
static bool sends_less(const struct plan_request *request)
{
    const struct model *model = request->model;
    bool less = false;
    for (int32_t i = 0; i < model->ops; i++)
        less |= model->op[i].kind == OP_DISPATCH &&
                plan_token_copies(&request->pins.software, &model->op[i]) != COPIES_EXPERTS;
    return less;
}

/* Whether a reshard may take less than alone: with a product, with another pass, or with attention. */
static bool overlaps_reshards(const struct plan_request *request)
{
    unsigned overlap = request->pins.has_overlap ? request->pins.overlap : OVERLAP_ALL;
    return overlap & (OVERLAP_PRODUCTS | OVERLAP_EXPERTS | OVERLAP_SHARED) ||
           (overlap & OVERLAP_KEYS && searched_cp(request->model) > 1);
}

static struct layout_case case_of(const struct autoddl *a, struct cost *cost,
                                  struct reshards *reshards, struct stage_cases *cases)
{
    int32_t stages = cases->stages;
    const struct degrees *pins = &a->request->pins;
    const struct model *model = a->request->model;
    enum dtype dtype = pins->has_dtype ? pins->dtype : model->dtype;
    bool fp32 = dtype == DTYPE_FP32 || dtype == DTYPE_TF32;
    int64_t within = a->request->cluster->node.devices;
    bool many = cluster_devices(a->request->cluster) / stages > WIDE_NODES * within;
    return (struct layout_case){
        .model = model,
        .cluster = a->request->cluster,
        .cost = cost,
        .reshards = reshards,
        .times = cases->times,
        .work = &cases->work,
        .dtype = dtype,
        .policy = pins->has_policy ? pins->policy
                  : fp32           ? POLICY_FP32
                                   : POLICY_MIXED,
        .global_batch = pins->global_batch,
        .stages = stages,
        .shard = (uint8_t)pins->shard,
        .hides = sends_less(a->request) || overlaps_reshards(a->request),
        .narrow = many && within > 1 ? NARROW_BOTH : 0,
        .limit_bytes = (double)estimate_limit_bytes(a->request->cluster, &pins->memory),
    };
}

static bool take_stages(struct autoddl *a, struct stage_cases **out)
{
    pthread_mutex_lock(&a->lock);
    bool some = a->next_stage < a->stages.len && !a->failed && !(a->next_stage && autoddl_over(a));
    if (some)
        *out = a->stages.data[a->next_stage++];
    pthread_mutex_unlock(&a->lock);
    return some;
}

static weft_status work(void *context, int32_t worker, int32_t workers)
{
    struct autoddl *a = context;
    struct cost *cost = NULL;
    struct reshards *reshards = reshards_new();
    struct stage_cases *cases;
    weft_status status;
    TRY(cost_open_all(a->request->cluster, a->request->profile, &cost));
    while (take_stages(a, &cases)) {
        struct layout_case about = case_of(a, cost, reshards, cases);
        if (cases->stages == 1 || !hopeless(&about))
            TRY(a->work(a, &about, cases));
        pthread_mutex_lock(&a->lock);
        a->progress.done++;
        pthread_mutex_unlock(&a->lock);
    }
done:
    reshards_free(reshards);
    cost_close(cost);
    pthread_mutex_lock(&a->lock);
    a->failed |= status != WEFT_OK;
    pthread_mutex_unlock(&a->lock);
    (void)worker, (void)workers;
    return status;
}

/* ---- a first look (I8) ----------------------------------------------------------------------- */

enum { MANY_DEVICES = 512, FIRST_LOOKS = 2 };

/* The micro-batches of all stages that are simulated in less than a second. */
static const int64_t FEW_PASSES = 5000;

/* Whether the first case of an S may be faster than the known time, and is soon simulated. */
static bool is_open(const struct autoddl *a, const struct layout_case *about,
                    const struct stage_cases *cases)
{
    const struct step_case *first = &cases->data[0];
    return cases->count && first->floor_ns < (double)a->request->known_ns &&
           cases->stages * (about->global_batch / first->step_samples) <= FEW_PASSES &&
           (cases->stages == 1 || !hopeless(about));
}

static weft_status look_first(struct autoddl *a, bool *far)
{
    struct incumbent known = {.known_ns = a->request->known_ns};
    struct cost *cost = NULL;
    struct reshards *reshards = reshards_new();
    int looks = 0;
    weft_status status;
    TRY(cost_open_all(a->request->cluster, a->request->profile, &cost));
    *far = true;
    for (size_t s = a->stages.len; s-- > 0 && looks < FIRST_LOOKS && *far;) {
        struct stage_cases *cases = a->stages.data[s];
        struct layout_case about = case_of(a, cost, reshards, cases);
        if (!is_open(a, &about, cases))
            continue;
        TRY(autoddl_scout(a, &about, &cases->data[0]));
        *far = !autoddl_is_near(&cases->data[0], &known, AUTODDL_FAR_AWAY);
        looks++;
    }
    *far &= looks == FIRST_LOOKS;
done:
    reshards_free(reshards);
    cost_close(cost);
    return status;
}

/* Whether a first look has shown that no more looks are worth it. */
static weft_status is_far_off(struct autoddl *a, bool *far)
{
    const struct plan_request *request = a->request;
    struct arena *keep = a->out->arena;
    weft_status status = WEFT_OK;
    *far = false;
    if (!request->known_ns || request->options.search || autoddl_over(a) ||
        cluster_devices(request->cluster) <= MANY_DEVICES)
        return WEFT_OK;
    TRY(look_first(a, far));
    if (*far)
        array_push(
            keep, &a->out->reasons,
            arena_printf(
                keep,
                "the first splits that were tried are slower than %s by %.0f %% or more: no others "
                "were",
                show_seconds((double)request->known_ns).s, 100 * (AUTODDL_FAR_AWAY - 1)));
done:
    return status;
}

/* ---- the planner ----------------------------------------------------------------------------- */

static weft_status check_request(const struct plan_request *request, enum assign_search *search,
                                 double *beta)
{
    const struct degrees *pins = &request->pins;
    if (pins->dp || pins->tp || pins->cp || pins->cp_heads || pins->ep || pins->pieces > 1 ||
        pins->segments > 1 || pins->micro_batch)
        return bad_argument("leave them out, or use --planner megatron",
                            "the planner 'autoddl' splits every operator by itself: of degrees it "
                            "takes --pp only");
    *search = SEARCH_CD;
    if (request->options.search && !assign_search_from_name(request->options.search, search, beta))
        return bad_argument(
            "cd is the default; exact is the optimum of the same space",
            "no search is called '%s', expected cd, mh, mh:BETA, random, exhaustive "
            "or exact",
            request->options.search);
    return WEFT_OK;
}

/* I6: raises the floors of the cases below the best, with the best as the time to beat. */
static weft_status raise_floors(struct autoddl *a, double best, double *floor)
{
    struct cost *cost = NULL;
    weft_status status;
    *floor = best;
    TRY(cost_open_all(a->request->cluster, a->request->profile, &cost));
    for (size_t s = 0; s < a->stages.len; s++) {
        struct stage_cases *cases = a->stages.data[s];
        struct layout_case about = case_of(a, cost, NULL, cases);
        about.narrow = ALL_SPLITS;
        about.blocks = true;
        for (size_t i = 0; i < cases->count && cases->data[i].floor_ns < *floor; i++) {
            struct layout_problem *p;
            about.step_samples = cases->data[i].step_samples;
            about.recompute = cases->data[i].recompute;
            about.below_ns = *floor;
            TRY(layout_problem_new(&about, &p));
            *floor = fmin(*floor, fmax(cases->data[i].floor_ns, p->floor_ns));
            layout_problem_free(p);
        }
    }
done:
    cost_close(cost);
    return status;
}

/* Whether all splits of all cases take at least the known time. */
static bool all_slower(const struct autoddl *a)
{
    for (size_t s = 0; s < a->stages.len; s++)
        for (size_t i = 0; i < a->stages.data[s]->count; i++)
            if (a->stages.data[s]->data[i].floor_ns < (double)a->request->known_ns)
                return false;
    return true;
}

/* Says the floor (I6), or, if a time is known, that nothing was faster. */
static weft_status say_floor(struct autoddl *a)
{
    struct arena *keep = a->out->arena;
    double best = (double)a->progress.best_ns, floor = 0;
    weft_status status = WEFT_OK;
    if (!a->out->trials.len)
        array_push(keep, &a->out->reasons,
                   arena_printf(keep,
                                all_slower(a)
                                    ? "no splits of operators take less than %s, by bounds"
                                    : "no splits that were looked at take less than %s, by "
                                      "bounds and estimates",
                                show_seconds((double)a->request->known_ns).s));
    if (a->cut_short)
        array_push(keep, &a->out->reasons,
                   arena_printf(keep, "searches ended at their bound of work: other splits may "
                                      "take less"));
    if (!best || a->request->known_ns)
        goto done;
    TRY(raise_floors(a, best, &floor));
    array_push(
        keep, &a->out->reasons,
        arena_printf(
            keep,
            "on equal stages, with steps of 1, 1/2, 1/4, ... of the batch, no splits take less "
            "than %s, whatever overlaps: at most %.1f %% less than these",
            show_seconds(floor).s, 100 * (1 - floor / best)));
done:
    return status;
}

/* Lists stages of equal numbers of devices; several stages only if the model has layers. */
static void list_stages(struct autoddl *a)
{
    int64_t devices = cluster_devices(a->request->cluster), pin = a->request->pins.pp;
    for (int64_t s = 1; s <= devices; s++)
        if (devices % s == 0 && (pin ? s == pin : s == 1 || s <= a->request->model->layers)) {
            struct stage_cases *cases = ARENA_NEW(a->out->arena, struct stage_cases);
            cases->stages = (int32_t)s;
            cases->arena = arena_new();
            cases->times = step_times_new(cases->arena, a->request->cluster, devices / s);
            array_push(a->out->arena, &a->stages, cases);
        }
    a->progress.all = 6 * (int64_t)a->stages.len;
    double steps = a->request->options.search ? ASKED_TIMES * ALL_STEPS : ALL_STEPS;
    for (size_t i = 0; i < a->stages.len; i++)
        a->stages.data[i]->work =
            (struct assign_work){.stop = &a->stop, .most = steps / (double)a->stages.len};
}

static void free_stages(struct autoddl *a)
{
    for (size_t i = 0; i < a->stages.len; i++)
        arena_free(a->stages.data[i]->arena);
}

weft_status autoddl_find(const struct plan_request *request, struct planned *out)
{
    static weft_status (*const ROUNDS[])(struct autoddl *, const struct layout_case *,
                                         struct stage_cases *) = {
        list_cases, sieve_cases, scout_cases, try_cases, try_all_splits, autoddl_try_blocks};
    struct autoddl a = {.request = request,
                        .out = out,
                        .progress = {.what = "numbers of stages"},
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    bool far = false;
    weft_status status;
    TRY(check_request(request, &a.search, &a.beta));
    a.stop = plan_stop(request);
    list_stages(&a);
    int32_t workers = pool_size(request->options.threads, (int64_t)a.stages.len);
    for (size_t i = 0; i < COUNT_OF(ROUNDS); i++) {
        if (far || (out->trials.len && autoddl_over(&a)))
            break;
        a.work = ROUNDS[i];
        a.next_stage = 0;
        TRY(pool_run(workers, work, &a));
        a.fastest_ns = a.progress.best_ns;
        if (a.work == list_cases)
            TRY(is_far_off(&a, &far));
    }
    out->stopped = plan_stopped(request);
    if (!far && !autoddl_over(&a))
        TRY(say_floor(&a));
done:
    free_stages(&a);
    return status;
}

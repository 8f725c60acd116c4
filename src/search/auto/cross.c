/* cross.c - the ideas of one planner in the plans of another (room.h).
 *
 *   schedules  the best plan of each planner that uses 1f1b, with other schedules and all the numbers of
 *              pieces and segments that the grid has
 *   steps      with the next smaller and larger steps
 *   splits     AutoDDL's splits of every operator in the stages of the best plan (AutoDDL, section 5.4)
 *   aceso      Aceso starting from the plans of the grid and of galvatron
 *
 *   I1  Variants are estimated. Of each plan, the best few that are not slower than the best plan
 *       so far are simulated; each is taken to be as far off as its plan's own estimate was.
 *   I2  Splits and the full Aceso search are tried only if there is time (join_has_time).
 *   I3  What is pinned stays, what is forbidden is not tried.
 */
#include <stdlib.h>
#include <string.h>

#include "search/auto/room.h"
#include "search/autoddl/autoddl.h"

enum { TRIED_OF_EACH = 3, MOST_BASES = 8, MOST_ROUNDS = 3 };

/* A plan to vary, and the trial it comes from. */
struct base {
    struct trial trial; /* a copy; the answer still owns its plan */
    struct plan *plan;  /* the trial's, or lowered from its degrees if `own` */
    bool own;
    double off; /* simulated over estimated time */
};
struct idea {
    struct degrees degrees; /* if the base has no plan of its own */
    struct plan *plan;
    const char *text, *found_by;
    double iteration_ns; /* expected */
    bool lowered;        /* its plan was lowered from the degrees */
};
typedef ARRAY(struct idea) idea_list;

/* ---- bases ----------------------------------------------------------------------------------- */

static weft_status base_open(struct join *join, const struct trial *trial, struct arena *scratch,
                             struct base *out)
{
    struct estimate estimate;
    weft_status status = WEFT_OK;
    *out = (struct base){.trial = *trial, .plan = trial->plan, .own = !trial->plan};
    if (out->own)
        TRY(plan_from_degrees(join->request->model, join->request->cluster, &trial->degrees,
                              &out->plan));
    TRY(join_estimate(join, out->plan, scratch, &estimate));
    out->off = (double)trial->iteration_ns / (double)estimate.iteration_ns;
done:
    return status;
}

static void base_close(struct base *base)
{
    if (base->own)
        plan_free(base->plan);
}

/* The best trial of each planner that found any, the best first; at most MOST_BASES. */
static size_t list_bests(const struct planned *planned, struct trial out[MOST_BASES])
{
    size_t count = 0;
    for (size_t i = 0; i < planned->trials.len && count < MOST_BASES; i++) {
        const struct trial *trial = &planned->trials.data[i];
        bool known = !trial->fits;
        for (size_t k = 0; k < count; k++)
            known |= strcmp(out[k].found_by, trial->found_by) == 0;
        if (known)
            continue;
        struct trial best = *join_best(planned, trial->found_by);
        size_t at = count++;
        for (; at > 0 && ns_per_sample(&best) < ns_per_sample(&out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = best;
    }
    return count;
}

/* ---- ideas ----------------------------------------------------------------------------------- */

static bool open_to(int64_t pin, int64_t value)
{
    return pin == 0 || pin == value;
}

/* Estimates an idea and adds it to the list, which then owns it. */
static weft_status add_idea(struct join *join, const struct base *base, struct idea idea,
                            struct arena *scratch, idea_list *out)
{
    struct estimate estimate;
    weft_status status = WEFT_OK;
    if (plan_forbidden(&join->request->forbids, idea.plan))
        goto done;
    TRY(join_estimate(join, idea.plan, scratch, &estimate));
    if ((double)estimate.peak_bytes > (double)estimate.limit_bytes * (1 + AUTO_NEAR))
        goto done;
    idea.iteration_ns = base->off * (double)estimate.iteration_ns;
    array_push(scratch, out, idea);
    return WEFT_OK;
done:
    plan_free(idea.plan);
    return status;
}

enum crossing_kind { CROSS_SCHEDULE, CROSS_STEP, CROSS_SPLITS, CROSSINGS };
static const struct {
    /* How to name the variant: around the name of the planner that found the base. */
    const char *before, *after;
} FOUND_BY[] = {[CROSS_SCHEDULE] = {"", " with other schedules"},
                [CROSS_STEP] = {"", " with other steps"},
                [CROSS_SPLITS] = {"autoddl in stages of ", ""}};
_Static_assert(COUNT_OF(FOUND_BY) == CROSSINGS, "a crossing without words");

static enum crossing_kind crossing_of(const struct variant *variant)
{
    return variant->choice ? CROSS_SPLITS : variant->schedule ? CROSS_SCHEDULE : CROSS_STEP;
}

/* *out stays NULL if the degrees make no plan. */
static void lower_variant(const struct plan_request *request, const struct variant *variant,
                          struct idea *idea)
{
    struct degrees *d = &idea->degrees;
    if (variant->schedule) {
        d->schedule = variant->schedule;
        d->pieces = variant->pieces;
        d->segments = schedule_find(variant->schedule)->segmented ? variant->pieces : 1;
    }
    if (variant->step_samples)
        d->micro_batch = variant->step_samples / d->dp;
    if (plan_from_degrees(request->model, request->cluster, d, &idea->plan) ||
        plan_check(idea->plan)) {
        error_clear();
        plan_free(idea->plan);
        idea->plan = NULL;
    }
}

/* Varies the degrees if the base has no plan of its own: these are combinations that the grid does
 * not have. */
static weft_status vary(struct join *join, const struct base *base, const struct variant *variant,
                        const char *words, struct arena *scratch, idea_list *out)
{
    struct idea idea = {.degrees = base->trial.degrees, .lowered = base->own && !variant->choice};
    struct arena *keep = join->out->arena;
    enum crossing_kind crossing = crossing_of(variant);
    weft_status status = WEFT_OK;
    if (idea.lowered)
        lower_variant(join->request, variant, &idea);
    else
        TRY(variant_of(base->plan, variant, &idea.plan));
    if (!idea.plan)
        goto done;
    if (is_same_plan(idea.plan, base->plan)) {
        plan_free(idea.plan);
        goto done;
    }
    idea.text = arena_printf(keep, "%s; %s", base->trial.text, words);
    idea.found_by = base->trial.found_by;
    if (!idea.lowered)
        idea.found_by = arena_printf(keep, "%s%s%s", FOUND_BY[crossing].before,
                                     base->trial.found_by, FOUND_BY[crossing].after);
    TRY(add_idea(join, base, idea, scratch, out));
done:
    return status;
}

static weft_status vary_pieces(struct join *join, const struct base *base,
                               const struct schedule *schedule, struct arena *scratch,
                               idea_list *out)
{
    const struct degrees *pins = &join->request->pins;
    bool same = strcmp(schedule->name, base->plan->schedule) == 0;
    weft_status status = WEFT_OK;
    for (int64_t pieces = 0; (pieces = schedule_next_pieces(schedule, pieces)) != 0;) {
        struct variant variant = {.schedule = schedule->name, .pieces = pieces};
        if ((same && pieces == base->plan->pieces) || !open_to(pins->pieces, pieces) ||
            !open_to(pins->segments, schedule->segmented ? pieces : 1) || join_over(join))
            continue;
        TRY(vary(join, base, &variant,
                 arena_printf(scratch, pieces > 1 ? "schedule %s virtual %lld" : "schedule %s",
                              schedule->name, (long long)pieces),
                 scratch, out));
    }
done:
    return status;
}

static weft_status vary_schedule(struct join *join, const struct base *base, struct arena *scratch,
                                 idea_list *out)
{
    const char *only = join->request->pins.schedule;
    const struct schedule *schedule;
    weft_status status = WEFT_OK;
    if (base->own || base->plan->stages == 1)
        return WEFT_OK;
    for (size_t k = 0; (schedule = schedule_searched(k)) != NULL; k++)
        if (!only || strcmp(only, schedule->name) == 0)
            TRY(vary_pieces(join, base, schedule, scratch, out));
done:
    return status;
}

static weft_status vary_step(struct join *join, const struct base *base, struct arena *scratch,
                             idea_list *out)
{
    int64_t unit = least_step(base->plan), share = base->plan->global_batch / unit;
    weft_status status = WEFT_OK;
    if (join->request->pins.micro_batch || base->plan->step_samples % unit)
        return WEFT_OK;
    for (int above = 0; above < 2 && !join_over(join); above++) {
        int64_t next = next_divisor(share, base->plan->step_samples / unit, above);
        struct variant variant = {.step_samples = next * unit};
        if (next)
            TRY(vary(join, base, &variant,
                     arena_printf(scratch, "%s per step", counted(next * unit, "sample").s),
                     scratch, out));
    }
done:
    return status;
}

/* ---- trying them ----------------------------------------------------------------------------- */

static int soonest(const void *a, const void *b)
{
    const struct idea *x = a, *y = b;
    if (x->iteration_ns != y->iteration_ns)
        return x->iteration_ns < y->iteration_ns ? -1 : 1;
    return strcmp(x->text, y->text);
}

static bool was_tried(struct planned *planned, const struct idea *idea)
{
    const char *mixed = mixed_text(planned->arena, idea->text);
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        if (strcmp(trial->text, mixed) == 0 ||
            (trial->plan && is_same_plan(trial->plan, idea->plan)))
            return true;
    }
    return false;
}

/* Simulates an idea, whose plan the answer then owns. */
static weft_status try_idea(struct join *join, struct idea *idea)
{
    const struct trial *trial = NULL;
    struct planned *out = join->out;
    size_t before = out->trials.len;
    struct plan *plan = idea->plan;
    weft_status status;
    idea->plan = NULL;
    if (idea->lowered) {
        plan_free(plan);
        status = try_degrees(join->request, join->cost, &idea->degrees, out, &trial);
    } else {
        status = try_plan(join->request, join->cost, plan, idea->text, out, &trial);
    }
    if (status || out->trials.len == before)
        return status;
    out->trials.data[before].found_by = idea->found_by;
    join_report(join);
    return WEFT_OK;
}

/* Tries the ideas by I1. */
static weft_status try_ideas(struct join *join, idea_list *ideas)
{
    weft_status status = WEFT_OK;
    if (ideas->len)
        qsort(ideas->data, ideas->len, sizeof *ideas->data, soonest);
    for (size_t i = 0; i < ideas->len; i++) {
        struct idea *idea = &ideas->data[i];
        double each = idea->iteration_ns / (double)idea->plan->global_batch;
        bool slow = each > ns_per_sample(join_best(join->out, NULL)) * (1 + AUTO_NEAR);
        if (i >= TRIED_OF_EACH || slow || join_over(join))
            break;
        if (!was_tried(join->out, idea))
            TRY(try_idea(join, idea));
    }
done:
    return status;
}

typedef weft_status (*idea_maker)(struct join *join, const struct base *base, struct arena *scratch,
                                  idea_list *out);

static weft_status make_and_try(struct join *join, const struct base *base, idea_maker make)
{
    struct arena *scratch = arena_new();
    idea_list ideas = {0};
    weft_status status = make(join, base, scratch, &ideas);
    join->out->candidates += (int64_t)ideas.len;
    if (!status)
        status = try_ideas(join, &ideas);
    for (size_t i = 0; i < ideas.len; i++)
        plan_free(ideas.data[i].plan);
    arena_free(scratch);
    return status;
}

static weft_status vary_trial(struct join *join, const struct trial *trial)
{
    struct arena *scratch = arena_new();
    struct base base = {0};
    weft_status status;
    TRY(base_open(join, trial, scratch, &base));
    TRY(make_and_try(join, &base, vary_schedule));
    TRY(make_and_try(join, &base, vary_step));
done:
    base_close(&base);
    arena_free(scratch);
    return status;
}

/* ---- splits and Aceso (I2) ------------------------------------------------------------------- */

static const struct {
    struct layout_exposed exposed;
    const char *words;
} GUESSES[] = {{{1, 1}, "operators split one by one"},
               {{0.5, 1}, "operators split one by one, half of gradients hidden"},
               {{0.25, 0.25}, "operators split one by one, most of what is sent hidden"}};

/* Stages on more nodes than this, with several devices each, get narrow splits (splits.h, I6). */
enum { WIDE_NODES = 4 };

/* The case for AutoDDL: splits for stages like the plan's, with its steps, and with the
 * recomputation and sharding that most of its operators have. */
static struct layout_case splits_case(const struct plan *plan, struct cost *cost)
{
    int64_t within = plan->cluster->node.devices, recomputed = 0, sharded = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        recomputed += plan_choice(plan, i)->recompute;
        sharded += plan_choice(plan, i)->shard;
    }
    return (struct layout_case){
        .model = plan->model,
        .cluster = plan->cluster,
        .cost = cost,
        .dtype = plan->dtype,
        .policy = plan->policy,
        .global_batch = plan->global_batch,
        .step_samples = plan->step_samples,
        .stages = plan->stages,
        .shard = (uint8_t)((sharded + plan->instances / 2) / plan->instances),
        .recompute = 2 * recomputed > plan->instances,
        .narrow = plan->stage[0].devices > WIDE_NODES * within && within > 1,
        .limit_bytes = (double)estimate_limit_bytes(plan->cluster, &plan->memory),
    };
}

static weft_status vary_splits(struct join *join, const struct base *base, struct arena *scratch,
                               idea_list *out)
{
    struct layout_problem *problem = NULL;
    struct stop stop = plan_stop(join->request);
    struct assign_work work = {.stop = &stop};
    struct assign_options options = {
        .search = SEARCH_CD, .seed = (uint64_t)join->request->options.seed, .work = &work};
    int32_t ops = base->plan->model->ops;
    struct choice *choice = ARENA_ARRAY(scratch, struct choice, (size_t)ops);
    struct layout_case about = splits_case(base->plan, join->cost);
    weft_status status;
    TRY(layout_problem_new(&about, &problem));
    for (size_t i = 0; i < COUNT_OF(GUESSES) && !join_over(join); i++) {
        struct variant variant = {.choice = choice};
        struct assigned found;
        layout_expose(problem, GUESSES[i].exposed);
        assign_solve(problem->assign, &options, problem->arena, &found);
        TRY(layout_problem_status(problem));
        for (int32_t op = 0; op < ops; op++)
            choice[op] = layout_choice(problem, op, found.option[op]);
        TRY(vary(join, base, &variant, GUESSES[i].words, scratch, out));
    }
done:
    layout_problem_free(problem);
    return status;
}

/* Whether the pins leave AutoDDL something to choose, and the stages are such as AutoDDL makes. */
static bool splits_open(const struct plan_request *request, const struct plan *plan)
{
    const struct degrees *pins = &request->pins;
    for (int32_t s = 0; s < plan->stages; s++)
        if (plan->stage[s].devices * plan->stages != cluster_devices(plan->cluster))
            return false;
    return !pins->dp && !pins->tp && !pins->cp && !pins->cp_heads && !pins->ep && !pins->etp &&
           !pins->sequence && !pins->micro_batch;
}

/* Whether Aceso starts from a trial: one of the grid, or of a planner that takes no longer. */
static bool is_start(const struct join *join, const struct trial *trial)
{
    const struct planner *by = planner_find(trial->found_by);
    return by && (by->joins == JOINS_ALWAYS || strcmp(by->name, join->out->planner) == 0);
}

static weft_status cross_trial(struct join *join, const struct trial *trial)
{
    struct arena *scratch = arena_new();
    struct base base = {0};
    weft_status status;
    TRY(base_open(join, trial, scratch, &base));
    if (splits_open(join->request, base.plan) && !join_over(join))
        TRY(make_and_try(join, &base, vary_splits));
    if (is_start(join, trial) && !join_over(join))
        TRY(refine_to_the_end(join, &base.trial, base.plan));
done:
    base_close(&base);
    arena_free(scratch);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

weft_status cross_plans(struct join *join)
{
    struct trial bests[MOST_BASES];
    size_t count = list_bests(join->out, bests);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !join_over(join); i++)
        TRY(vary_trial(join, &bests[i]));
    for (size_t i = 0; i < count && join_has_time(join->request) && !join_over(join); i++)
        TRY(cross_trial(join, &bests[i]));
    for (int round = 0; round < MOST_ROUNDS && count && !join_over(join); round++) {
        struct trial best = *join_best(join->out, NULL);
        if (best.number == bests[0].number)
            break;
        TRY(vary_trial(join, &best));
        bests[0] = best;
    }
done:
    return status;
}

/* stage_front.c - the options of a run as a stage (stage_front.h). */
#include "search/galvatron/stage_front.h"

#include <string.h>

void stage_run_open(struct stage_fronts *fronts, int32_t class, struct layer_run run,
                    struct stage_run *out)
{
    struct option bound = {.kind = OPTION_UNKNOWN};
    *out = (struct stage_run){.class = class, .run = run};
    if (stage_bound(fronts->table, class, run, &bound.cost))
        array_push(fronts->keep, out, bound);
}

/* ---- picking --------------------------------------------------------------------------------- */

/* By the line of its weights, a plan with a steady time below the limit takes at least (least -
 * steady weight * steady) / time weight. */
static int64_t least_time_ns(const struct option *option, int64_t below_ns)
{
    int64_t time_ns = option->cost.time_ns;
    if (option->kind != OPTION_ABOVE)
        return time_ns;
    int64_t rest = option->least - option->weights.steady * (below_ns - 1);
    int64_t least = rest > 0 ? ceil_div(rest, option->weights.time) : 0;
    return least > time_ns ? least : time_ns;
}

/* A bound between two plans is of no use if the later plan is allowed, which takes no longer. */
static bool is_covered(const struct stage_run *run, size_t at, int64_t below_ns)
{
    return run->data[at].kind != OPTION_PLAN && at + 1 < run->len &&
           run->data[at + 1].cost.steady_ns < below_ns;
}

int32_t stage_run_pick(const struct stage_run *run, int64_t below_ns, int64_t *time_ns)
{
    int32_t picked = -1;
    *time_ns = INT64_MAX;
    for (size_t i = 0; i < run->len && run->data[i].cost.steady_ns < below_ns; i++) {
        if (is_covered(run, i, below_ns))
            continue;
        int64_t least = least_time_ns(&run->data[i], below_ns);
        if (least < *time_ns) {
            *time_ns = least;
            picked = (int32_t)i;
        }
    }
    return picked;
}

/* ---- searching ------------------------------------------------------------------------------- */

static weft_status solve_once(struct stage_fronts *fronts, const struct stage_run *run,
                              struct weights weights, struct layerwise_answer *answer)
{
    struct arena *scratch = arena_new();
    struct layerwise problem = stage_problem(fronts->table, run->class, run->run, weights, scratch);
    weft_status status = WEFT_NO_ANSWER;
    fronts->searched++;
    if (problem.limit_bytes >= 0)
        status = layerwise_solve(fronts->keep, &problem, answer);
    arena_free(scratch);
    return status;
}

/* Finds the best plan of the run by weights, again as long as it has reshards that take longer than
 * assumed (layer_table.h, I4); *least: the weighted times of its layers and of the stage itself. */
static weft_status solve(struct stage_fronts *fronts, const struct stage_run *run,
                         struct weights weights, struct option *out, int64_t *least)
{
    struct layer_table *table = fronts->table;
    struct layerwise_answer answer = {0};
    weft_status status;
    bool more;
    do {
        TRY(solve_once(fronts, run, weights, &answer));
        TRY(layer_table_reshards(table, run->class, run->run, answer.strategy, &more));
    } while (more);
    *out = (struct option){.kind = OPTION_PLAN,
                           .cost = stage_cost_of(table, run->class, run->run, answer.strategy),
                           .strategy = answer.strategy};
    *least = weights.steady * out->cost.steady_ns + weights.time * out->cost.time_ns;
    fronts->exact = fronts->exact && answer.exact;
done:
    return status;
}

/* Puts options in the place of one option. */
static void replace(struct stage_fronts *fronts, struct stage_run *run, size_t at,
                    const struct option *with, size_t count)
{
    struct stage_run old = *run;
    run->data = NULL;
    run->len = run->cap = 0;
    for (size_t i = 0; i < at; i++)
        array_push(fronts->keep, run, old.data[i]);
    for (size_t i = 0; i < count; i++)
        array_push(fronts->keep, run, with[i]);
    for (size_t i = at + 1; i < old.len; i++)
        array_push(fronts->keep, run, old.data[i]);
}

static bool better_in_both(const struct stage_cost *a, const struct stage_cost *b)
{
    return a->steady_ns <= b->steady_ns && a->time_ns <= b->time_ns;
}

/* The corner below two plans. */
static struct option line_between(const struct option *fast, const struct option *late)
{
    return (struct option){.kind = OPTION_LINE,
                           .cost = {late->cost.time_ns, fast->cost.steady_ns, 0}};
}

/* Finds the two ends: the run as the slowest stage, and as one that waits for another. */
static weft_status find_ends(struct stage_fronts *fronts, struct stage_run *run)
{
    struct weights slowest = {fronts->table->micro_batches - 1, 1}, other = {0, 1};
    struct option ends[3];
    int64_t least;
    weft_status status;
    TRY(solve(fronts, run, slowest, &ends[0], &least));
    if (slowest.steady)
        TRY(solve(fronts, run, other, &ends[2], &least));
    if (!slowest.steady || better_in_both(&ends[0].cost, &ends[2].cost)) {
        replace(fronts, run, 0, ends, 1);
    } else if (better_in_both(&ends[2].cost, &ends[0].cost)) {
        replace(fronts, run, 0, &ends[2], 1);
    } else {
        ends[1] = line_between(&ends[0], &ends[2]);
        replace(fronts, run, 0, ends, 3);
    }
done:
    if (status == WEFT_NO_ANSWER)
        replace(fronts, run, 0, NULL, 0);
    return status;
}

/* Weights by which two plans are about equally good, small enough for sums over layers. */
static struct weights between(const struct stage_cost *fast, const struct stage_cost *late)
{
    enum { MOST = 1 << 12 };
    int64_t steady = fast->time_ns - late->time_ns, time = late->steady_ns - fast->steady_ns;
    while (steady > MOST || time > MOST) {
        steady /= 2;
        time /= 2;
    }
    return (struct weights){steady, time ? time : 1};
}

/* Finds a plan below the line through its two neighbours, with new lines on both sides; or none. */
static weft_status try_line(struct stage_fronts *fronts, struct stage_run *run, size_t at)
{
    const struct option *fast = &run->data[at - 1], *late = &run->data[at + 1];
    struct weights weights = between(&fast->cost, &late->cost);
    struct option found[3];
    int64_t least;
    weft_status status;
    TRY(solve(fronts, run, weights, &found[1], &least));
    if (better_in_both(&fast->cost, &found[1].cost) ||
        better_in_both(&late->cost, &found[1].cost)) {
        struct option *line = &run->data[at];
        line->kind = OPTION_ABOVE;
        line->weights = weights;
        line->least = fronts->exact ? least : 0;
        goto done;
    }
    found[0] = line_between(fast, &found[1]);
    found[2] = line_between(&found[1], late);
    replace(fronts, run, at, found, 3);
done:
    return status;
}

/* Whether a plan has reshards that take longer than assumed. */
static weft_status ask_all(struct stage_fronts *fronts, const struct stage_run *run,
                           const option_list *plans, bool *more)
{
    weft_status status = WEFT_OK;
    bool own;
    *more = false;
    for (size_t i = 0; i < plans->len; i++) {
        TRY(layer_table_reshards(fronts->table, run->class, run->run, plans->data[i].strategy,
                                 &own));
        *more |= own;
    }
done:
    return status;
}

static weft_status look_above(struct stage_fronts *fronts, struct stage_run *run, size_t at)
{
    option_list found;
    weft_status status;
    bool more;
    do {
        found = (option_list){0};
        if (!stage_plans_between(fronts, run, &run->data[at - 1].cost, &run->data[at + 1].cost,
                                 &found)) {
            fronts->exact = false;
            found.len = 0;
        }
        TRY(ask_all(fronts, run, &found, &more));
    } while (more);
    replace(fronts, run, at, found.data, found.len);
done:
    return status;
}

weft_status stage_run_refine(struct stage_fronts *fronts, struct stage_run *run, int32_t option)
{
    weft_status status = WEFT_OK;
    size_t at = (size_t)option;
    switch (run->data[at].kind) {
    case OPTION_UNKNOWN:
        status = find_ends(fronts, run);
        break;
    case OPTION_LINE:
        status = try_line(fronts, run, at);
        break;
    case OPTION_ABOVE:
        status = look_above(fronts, run, at);
        break;
    case OPTION_PLAN:
        break;
    }
    /* Nothing fits: that is known now, too. */
    if (status == WEFT_NO_ANSWER && !run->len) {
        error_clear();
        status = WEFT_OK;
    }
    return status;
}

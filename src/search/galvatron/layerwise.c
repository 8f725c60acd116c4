/* layerwise.c - the exact dynamic program over layers and strategies (layerwise.h): rounds of
 * solver.h with thresholds that rise from the relaxed bound.
 *
 *   I1  Thresholds start just above the bound and widen by WIDEN; so the work depends on the true
 *       gap, and stays small even if the first plan found is poor.
 */
#include "search/galvatron/layerwise.h"

#include <math.h>
#include <string.h>

#include "search/galvatron/solver.h"

/* The relaxation misses by some part of one layer: the first round's threshold is 1 / FIRST of a
 * layer's time above the bound, each further one WIDEN times that. Measured in bench_layerwise: a
 * FIRST of 1 takes up to 20 times as long, one of 64 up to twice. */
enum { FIRST = 8, WIDEN = 4 };

/* ---- problems -------------------------------------------------------------------------------- */

static bool within(const int64_t *value, int64_t count, int64_t most, bool never)
{
    for (int64_t i = 0; i < count; i++)
        if ((value[i] < 0 || value[i] > most) && !(never && value[i] == LAYERWISE_NEVER))
            return false;
    return true;
}

static bool numbered(const int32_t *number, int32_t first, int32_t count, int32_t below)
{
    for (int32_t i = first; i < count; i++)
        if (number[i] < 0 || number[i] >= below)
            return false;
    return true;
}

/* Checks that sums over all layers stay far below INT64_MAX. */
static weft_status check(const struct layerwise *p)
{
    if (p->layers < 1 || p->strategies < 1 || p->limit_bytes < 0)
        return bad_argument(NULL,
                            "%d layers of %d strategies in %lld bytes, expected at least one "
                            "layer and strategy",
                            (int)p->layers, (int)p->strategies, (long long)p->limit_bytes);
    int64_t most = INT64_MAX / 16 / p->layers, entries = (int64_t)p->kinds * p->strategies;
    if (!numbered(p->kind, 0, p->layers, p->kinds) ||
        !numbered(p->boundary, 1, p->layers, p->boundaries))
        return bad_argument(NULL, "a layer of no kind or after no boundary");
    if (p->limit_bytes > INT64_MAX / 16 || !within(p->time_ns, entries, most, true) ||
        !within(p->kept_bytes, entries, most, false) ||
        !within(p->peak_bytes, entries, most, false) ||
        !within(p->state_bytes, entries, most, false) ||
        !within(p->reshard_ns, (int64_t)p->boundaries * p->strategies * p->strategies, most, false))
        return bad_argument(NULL, "a time or size of a layer is negative or beyond %lld",
                            (long long)most);
    return WEFT_OK;
}

struct layerwise_cost layerwise_cost(const struct layerwise *problem, const int32_t *strategy)
{
    struct layerwise_cost sum = {0, 0};
    int64_t kept = 0, most = 0, state = 0, strategies = problem->strategies;
    for (int32_t layer = 0; layer < problem->layers; layer++) {
        struct relaxed_cost cost = layer_cost(problem, layer, strategy[layer]);
        if (layer)
            sum.time_ns += problem->reshard_ns[((int64_t)problem->boundary[layer] * strategies +
                                                strategy[layer - 1]) *
                                                   strategies +
                                               strategy[layer]];
        sum.time_ns += cost.time_ns;
        kept += cost.kept_bytes;
        state += cost.state_bytes;
        most = kept + cost.peak_bytes > most ? kept + cost.peak_bytes : most;
    }
    sum.memory_bytes = most + state;
    return sum;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* What layers of one kind need, whatever their strategy. */
struct kind_range {
    int64_t least_bytes, least_last_bytes; /* O_f + O_ms; and with O_b */
    int64_t least_kept, most_peak;
};

static struct kind_range kind_range(const struct layerwise *problem, int32_t layer)
{
    struct kind_range range = {INT64_MAX, INT64_MAX, INT64_MAX, 0};
    for (int32_t s = 0; s < problem->strategies; s++) {
        struct relaxed_cost cost = layer_cost(problem, layer, s);
        if (cost.time_ns == LAYERWISE_NEVER)
            continue;
        int64_t bytes = cost.kept_bytes + cost.state_bytes, last = bytes + cost.peak_bytes;
        range.least_bytes = bytes < range.least_bytes ? bytes : range.least_bytes;
        range.least_last_bytes = last < range.least_last_bytes ? last : range.least_last_bytes;
        range.least_kept = cost.kept_bytes < range.least_kept ? cost.kept_bytes : range.least_kept;
        range.most_peak = cost.peak_bytes > range.most_peak ? cost.peak_bytes : range.most_peak;
    }
    return range;
}

/* Fills least_before and peak_before, and finds the fewest bytes that all layers need. */
static weft_status bound_bytes(struct solver *solver, struct arena *scratch, int64_t *fewest)
{
    int32_t layers = solver->problem->layers;
    int64_t least = 0, peak = 0;
    solver->least_before = ARENA_ARRAY(scratch, int64_t, (size_t)layers);
    solver->peak_before = ARENA_ARRAY(scratch, int64_t, (size_t)layers);
    for (int32_t layer = 0; layer < layers; layer++) {
        struct kind_range range = kind_range(solver->problem, layer);
        if (range.least_bytes == INT64_MAX)
            return no_answer(NULL, "layer %d has no strategy", (int)layer);
        solver->least_before[layer] = least;
        solver->peak_before[layer] = peak;
        *fewest = least + range.least_last_bytes;
        least += range.least_bytes;
        peak -= range.least_kept;
        peak = peak > range.most_peak ? peak : range.most_peak;
    }
    if (*fewest > solver->problem->limit_bytes)
        return no_answer("more devices, or a smaller batch",
                         "the layers need %s at least, more than the limit of %s",
                         show_bytes((double)*fewest).s,
                         show_bytes((double)solver->problem->limit_bytes).s);
    return WEFT_OK;
}

/* The bytes of `fewest`, and a time in which that is possible: a point that fits. */
static struct point smallest_plan(const struct costs *costs, int64_t fewest)
{
    const struct layerwise *problem = &costs->problem;
    struct point point = {0, fewest};
    int32_t before = 0;
    for (int32_t layer = 0; layer < problem->layers; layer++) {
        bool last = layer == problem->layers - 1;
        int32_t at = -1;
        struct relaxed_cost least = {0};
        for (int32_t s = 0; s < problem->strategies; s++) {
            struct relaxed_cost cost = layer_cost(problem, layer, s);
            int64_t more = cost.kept_bytes + cost.state_bytes - least.kept_bytes -
                           least.state_bytes + (last ? cost.peak_bytes - least.peak_bytes : 0);
            if (cost.time_ns == LAYERWISE_NEVER ||
                (at >= 0 && (more > 0 || (more == 0 && cost.time_ns >= least.time_ns))))
                continue;
            least = cost;
            at = s;
        }
        int32_t column = reshards_at(costs, layer)->column_of[at];
        point.time_ns += least.time_ns + reshard_cost(costs, layer, before, column);
        before = at;
    }
    return point;
}

static void fill_tables(struct solver *solver, struct arena *scratch, int64_t fewest)
{
    struct point smallest = smallest_plan(&solver->costs, fewest);
    double w = relax_price(scratch, &solver->costs, smallest, &solver->best->iterations);
    const struct price prices[] = {
        [TABLE_FAST] = {1, 0},
        [TABLE_PRICED] = {1, w},
        [TABLE_SMALL] = {1e-6, 1}, /* time only breaks ties between bytes */
    };
    for (int i = 0; i < TABLE_COUNT; i++) {
        solver->table[i] = relax_new(scratch, &solver->costs);
        relax_fill(&solver->table[i], &solver->costs, prices[i]);
        relax_prefixes(&solver->table[i], &solver->costs);
    }
}

/* The bound of the whole problem; the plans in the tables are the first ones found. */
static int64_t relaxed_bound(struct solver *solver)
{
    int32_t last = solver->problem->layers - 1;
    double least = INFINITY;
    for (int32_t s = 0; s < solver->problem->strategies; s++) {
        struct relaxed_cost cost = layer_cost(solver->problem, last, s);
        if (cost.time_ns == LAYERWISE_NEVER)
            continue;
        struct bounds bounds = bounds_at(solver, place(solver, last, s));
        struct front_state none = {0}, state = extend(&none, 0, &cost, 0, s);
        least = fmin(least, fmax(fast_bound(&bounds, &state), priced_bound(&bounds, &state)));
        complete(solver, last, &state);
    }
    least = ceil(least - (guarded(solver, least) - least));
    return least > 0 ? (int64_t)least : 0;
}

/* No plan takes longer than this. */
static int64_t longest_ns(const struct layerwise *problem)
{
    int64_t sum = 0;
    for (int32_t layer = 0; layer < problem->layers; layer++) {
        int64_t most = 0;
        for (int32_t s = 0; s < problem->strategies; s++) {
            int64_t time_ns = layer_cost(problem, layer, s).time_ns;
            most = time_ns != LAYERWISE_NEVER && time_ns > most ? time_ns : most;
        }
        sum += most;
    }
    int64_t reshard = 0, entries = (int64_t)problem->boundaries * problem->strategies;
    for (int64_t i = 0; i < entries * problem->strategies; i++)
        reshard = problem->reshard_ns[i] > reshard ? problem->reshard_ns[i] : reshard;
    return sum + reshard * (problem->layers - 1);
}

/* Plays rounds until one proves its plan the best, or that there is none (solver.h, I1). */
static void search(struct solver *solver)
{
    struct layerwise_answer *best = solver->best;
    int64_t least = relaxed_bound(solver), longest = longest_ns(solver->problem);
    int64_t width = least / solver->problem->layers / FIRST + 1;
    best->least_ns = least;
    solver->stopped = told_to_stop(solver);
    while (!solver->stopped) {
        int64_t most = solver->found ? best->time_ns : longest;
        solver->threshold_ns = width < most - least ? least + width : most;
        play_round(solver);
        if (solver->stopped || solver->threshold_ns == longest ||
            (solver->found && best->time_ns <= solver->threshold_ns))
            break;
        best->least_ns = solver->threshold_ns + 1;
        width = width < INT64_MAX / WIDEN ? width * WIDEN : INT64_MAX;
    }
    best->exact = !solver->stopped;
    if (best->exact)
        best->least_ns = best->time_ns;
}

weft_status layerwise_solve(struct arena *keep, const struct layerwise *problem,
                            struct layerwise_answer *out)
{
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    struct solver solver = {.best = out};
    int64_t fewest = 0;
    memset(out, 0, sizeof *out);
    TRY(check(problem));
    out->strategy = ARENA_ARRAY(keep, int32_t, (size_t)problem->layers);
    solver.costs = costs_new(scratch, problem);
    solver.problem = &solver.costs.problem;
    TRY(bound_bytes(&solver, scratch, &fewest));
    fill_tables(&solver, scratch, fewest);
    search(&solver);
    if (!solver.found && solver.stopped)
        status = no_answer(NULL, "stopped before any plan was found");
    else if (!solver.found)
        status = no_answer("more devices, or a smaller batch",
                           "no choice of strategies fits in %s at its peak",
                           show_bytes((double)problem->limit_bytes).s);
done:
    arena_free(scratch);
    return status;
}

/* round.c - one round of the exact search: fronts from the last layer to the first (solver.h). */
#include <float.h>
#include <math.h>

#include "search/galvatron/solver.h"

/* ---- bounds ---------------------------------------------------------------------------------- */

int64_t place(const struct solver *solver, int32_t layer, int32_t strategy)
{
    return (int64_t)layer * solver->table[0].width +
           reshards_at(&solver->costs, layer)->column_of[strategy];
}

struct bounds bounds_at(const struct solver *solver, int64_t at)
{
    const struct relaxation *priced = &solver->table[TABLE_PRICED];
    double w = priced->price.bytes;
    return (struct bounds){solver->table[TABLE_FAST].rest[at],
                           priced->rest[at] - w * (double)solver->problem->limit_bytes, w};
}

double fast_bound(const struct bounds *bounds, const struct front_state *state)
{
    return (double)state->time_ns + bounds->fast;
}

double priced_bound(const struct bounds *bounds, const struct front_state *state)
{
    return (double)state->time_ns + bounds->priced + bounds->w * (double)state->all_bytes;
}

double guarded(const struct solver *solver, double ns)
{
    double most =
        ns + solver->table[TABLE_PRICED].price.bytes * (double)solver->problem->limit_bytes;
    return ns + 0.5 + 16 * DBL_EPSILON * most * solver->problem->layers;
}

static double ceiling_ns(const struct solver *solver)
{
    int64_t ceiling = solver->threshold_ns;
    if (solver->found && solver->best->time_ns < ceiling)
        ceiling = solver->best->time_ns;
    return guarded(solver, (double)ceiling);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void write_plan(struct solver *solver, int32_t layer, const struct front_state *state,
                       const struct relaxation *table)
{
    int32_t *strategy = solver->best->strategy;
    int32_t at = state->strategy, layers = solver->problem->layers;
    for (int32_t l = layer; l < layers; l++) {
        strategy[l] = state->strategy;
        if (l + 1 < layers)
            state = &solver->fronts[l + 1].state[state->next];
    }
    for (int32_t l = layer; l > 0; l--) {
        at = table->prefix[place(solver, l, at)].previous;
        strategy[l - 1] = at;
    }
}

void complete(struct solver *solver, int32_t layer, const struct front_state *state)
{
    struct layerwise_answer *best = solver->best;
    for (int i = 0; i < TABLE_COUNT; i++) {
        const struct relaxation *table = &solver->table[i];
        const struct prefix *prefix = &table->prefix[place(solver, layer, state->strategy)];
        int64_t time_ns = state->time_ns + prefix->time_ns;
        if (solver->found && time_ns > best->time_ns)
            continue;
        int64_t need = state->all_bytes - state->state_bytes;
        need = prefix->kept_bytes + (need > prefix->peak_bytes ? need : prefix->peak_bytes);
        int64_t memory = need + prefix->state_bytes + state->state_bytes;
        if (memory > solver->problem->limit_bytes ||
            (solver->found && time_ns == best->time_ns && memory >= best->memory_bytes))
            continue;
        solver->found = true;
        best->time_ns = time_ns;
        best->memory_bytes = memory;
        write_plan(solver, layer, state, table);
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

struct front_state extend(const struct front_state *state, int32_t next,
                          const struct relaxed_cost *cost, int64_t reshard_ns, int32_t strategy)
{
    int64_t need = state->all_bytes - state->state_bytes;
    need = cost->kept_bytes + (need > cost->peak_bytes ? need : cost->peak_bytes);
    int64_t states = state->state_bytes + cost->state_bytes;
    return (struct front_state){state->time_ns + cost->time_ns + reshard_ns, need + states, states,
                                next, strategy};
}

static bool worth_keeping(const struct bounds *bounds, const struct front_state *state,
                          int64_t room_bytes, double ceiling)
{
    return state->all_bytes <= room_bytes && fast_bound(bounds, state) <= ceiling &&
           priced_bound(bounds, state) <= ceiling;
}

static int64_t room_bytes(const struct solver *solver, int32_t layer)
{
    return solver->problem->limit_bytes - solver->least_before[layer];
}

/* The step from a layer on `strategy` to column `after` of the next raises the priced bound of
 * every state there by at least `rise` (relax.h, (2)): whether no state stays below the ceiling. */
static bool step_is_dear(const struct solver *solver, int32_t layer, int32_t strategy,
                         int32_t after, double ceiling)
{
    const struct relaxation *table = &solver->table[TABLE_PRICED];
    struct relaxed_cost cost = layer_cost(solver->problem, layer, strategy);
    double rise = table->rest[place(solver, layer, strategy)] + (double)cost.time_ns +
                  table->price.bytes * (double)(cost.kept_bytes + cost.state_bytes) +
                  (double)reshard_cost(&solver->costs, layer + 1, strategy, after) -
                  table->rest[(int64_t)(layer + 1) * table->width + after];
    return solver->fronts[layer + 1].bound[after] + rise > ceiling;
}

/* Extends the states of column `after` of the next layer by a layer on `strategy`. */
static void extend_front(const struct solver *solver, int32_t layer, int32_t strategy,
                         int32_t after, struct arena *scratch, struct candidates *out)
{
    const struct fronts *fronts = &solver->fronts[layer + 1];
    struct relaxed_cost cost = layer_cost(solver->problem, layer, strategy);
    struct bounds bounds = bounds_at(solver, place(solver, layer, strategy));
    int64_t reshard_ns = reshard_cost(&solver->costs, layer + 1, strategy, after);
    int64_t room = room_bytes(solver, layer);
    double ceiling = ceiling_ns(solver);
    size_t first = out->states.len;
    if (fronts->first[after] == fronts->end[after] ||
        step_is_dear(solver, layer, strategy, after, ceiling))
        return;
    for (int64_t i = fronts->first[after]; i < fronts->end[after]; i++) {
        struct front_state state =
            extend(&fronts->state[i], (int32_t)i, &cost, reshard_ns, strategy);
        if (worth_keeping(&bounds, &state, room, ceiling))
            array_push(scratch, &out->states, state);
    }
    if (out->states.len > first)
        array_push(scratch, &out->run, (int64_t)first);
}

static void last_layer(const struct solver *solver, int32_t strategy, struct arena *scratch,
                       struct candidates *out)
{
    int32_t last = solver->problem->layers - 1;
    struct relaxed_cost cost = layer_cost(solver->problem, last, strategy);
    struct bounds bounds = bounds_at(solver, place(solver, last, strategy));
    struct front_state none = {0}, state = extend(&none, 0, &cost, 0, strategy);
    if (worth_keeping(&bounds, &state, room_bytes(solver, last), ceiling_ns(solver))) {
        array_push(scratch, &out->run, (int64_t)out->states.len);
        array_push(scratch, &out->states, state);
    }
}

/* Collects all states of one layer and column, unsorted. */
static void gather(const struct solver *solver, int32_t layer, int32_t column,
                   struct arena *scratch, struct candidates *out)
{
    const int32_t *column_of = reshards_at(&solver->costs, layer)->column_of;
    bool last = layer == solver->problem->layers - 1;
    int32_t after = last ? 0 : reshards_at(&solver->costs, layer + 1)->columns;
    candidates_clear(out);
    for (int32_t s = 0; s < solver->problem->strategies; s++) {
        if (column_of[s] != column ||
            layer_cost(solver->problem, layer, s).time_ns == LAYERWISE_NEVER)
            continue;
        if (last)
            last_layer(solver, s, scratch, out);
        for (int32_t c = 0; c < after; c++)
            extend_front(solver, layer, s, c, scratch, out);
    }
}

/* Drops states that a front of another column makes needless: every layer before can send there
 * instead, at the cost of the excess at most. */
static void thin_fronts(const struct solver *solver, int32_t layer)
{
    const struct reshard_matrix *reshards = reshards_at(&solver->costs, layer);
    struct fronts *fronts = &solver->fronts[layer];
    for (int32_t b = 0; b < reshards->columns; b++)
        for (int32_t a = 0; a < reshards->columns; a++) {
            struct front_state *front = fronts->state + fronts->first[b];
            if (a != b)
                fronts->end[b] =
                    fronts->first[b] +
                    front_thin(front, fronts->end[b] - fronts->first[b],
                               fronts->state + fronts->first[a], fronts->end[a] - fronts->first[a],
                               reshards->excess_ns[(int64_t)a * reshards->columns + b],
                               solver->peak_before[layer]);
        }
}

/* Completes the remaining states, and counts them. */
static int64_t close_fronts(struct solver *solver, int32_t layer)
{
    struct fronts *fronts = &solver->fronts[layer];
    int64_t states = 0;
    for (int32_t c = 0; c < reshards_at(&solver->costs, layer)->columns; c++) {
        struct bounds bounds = bounds_at(solver, (int64_t)layer * solver->table[0].width + c);
        fronts->bound[c] = INFINITY;
        for (int64_t i = fronts->first[c]; i < fronts->end[c]; i++) {
            fronts->bound[c] = fmin(fronts->bound[c], priced_bound(&bounds, &fronts->state[i]));
            complete(solver, layer, &fronts->state[i]);
        }
        states += fronts->end[c] - fronts->first[c];
    }
    return states;
}

bool told_to_stop(const struct solver *solver)
{
    const struct layerwise *problem = solver->problem;
    return stop_now(problem->stop) ||
           (problem->most_states && solver->best->states >= problem->most_states);
}

/* Makes the fronts of one layer from those of the layer after it; returns how many states they
 * hold. */
static int64_t grow_layer(struct solver *solver, int32_t layer, struct arena *scratch,
                          struct candidates *candidates)
{
    size_t columns = (size_t)reshards_at(&solver->costs, layer)->columns;
    ARRAY(struct front_state) all = {0};
    struct fronts *fronts = &solver->fronts[layer];
    fronts->first = ARENA_ARRAY(scratch, int64_t, columns);
    fronts->end = ARENA_ARRAY(scratch, int64_t, columns);
    fronts->bound = ARENA_ARRAY(scratch, double, columns);
    for (size_t c = 0; c < columns && !solver->stopped; c++) {
        gather(solver, layer, (int32_t)c, scratch, candidates);
        int64_t count = candidates_reduce(scratch, candidates, solver->peak_before[layer]);
        solver->best->states += count;
        solver->stopped = told_to_stop(solver);
        fronts->first[c] = (int64_t)all.len;
        for (int64_t i = 0; i < count; i++)
            array_push(scratch, &all, candidates->states.data[i]);
        fronts->end[c] = (int64_t)all.len;
    }
    fronts->state = all.data;
    if (all.len == 0)
        return 0;
    thin_fronts(solver, layer);
    return close_fronts(solver, layer);
}

void play_round(struct solver *solver)
{
    struct arena *scratch = arena_new();
    struct candidates candidates = {0};
    int32_t layers = solver->problem->layers;
    solver->fronts = ARENA_ARRAY(scratch, struct fronts, (size_t)layers);
    solver->best->rounds++;
    for (int32_t layer = layers - 1; layer >= 0 && !solver->stopped; layer--)
        if (grow_layer(solver, layer, scratch, &candidates) == 0)
            break;
    arena_free(scratch);
}

/* stage_cost.c - runs of layers on a stage: as a problem, with given strategies, and bounded
 * (layer_table.h). */
#include "search/galvatron/layer_table.h"

#include <math.h>

static int64_t *weighted_times(const struct layer_table *t, const struct place_costs *place,
                               struct weights w, struct arena *keep)
{
    size_t entries = (size_t)t->problem->source->kinds * t->strategies->len;
    int64_t *ns = ARENA_ARRAY(keep, int64_t, entries);
    for (size_t i = 0; i < entries; i++)
        ns[i] = place->steady_ns[i] == LAYERWISE_NEVER
                    ? LAYERWISE_NEVER
                    : w.steady * place->steady_ns[i] + w.time * place->time_ns[i];
    return ns;
}

static int64_t *weighted_reshards(const struct layer_table *t, const struct place_costs *place,
                                  struct weights w, struct arena *keep)
{
    size_t n = t->strategies->len, entries = (size_t)t->problem->source->boundaries * n * n;
    if (w.steady + w.time == 1)
        return place->reshard_ns;
    int64_t *ns = ARENA_ARRAY(keep, int64_t, entries);
    for (size_t i = 0; i < entries; i++)
        ns[i] = (w.steady + w.time) * place->reshard_ns[i];
    return ns;
}

struct layerwise stage_problem(const struct layer_table *t, int32_t class, struct layer_run run,
                               struct weights weights, struct arena *keep)
{
    const struct layer_source *source = t->problem->source;
    const struct stage_class *c = &t->classes.data[class];
    return (struct layerwise){.layers = run.count,
                              .strategies = (int32_t)t->strategies->len,
                              .kinds = source->kinds,
                              .boundaries = source->boundaries,
                              .kind = source->kind + run.first,
                              .boundary = source->boundary + run.first,
                              .time_ns = weighted_times(t, c->place, weights, keep),
                              .kept_bytes = c->kept_bytes,
                              .peak_bytes = c->place->peak_bytes,
                              .state_bytes = c->place->state_bytes,
                              .reshard_ns = weighted_reshards(t, c->place, weights, keep),
                              .limit_bytes = c->limit_bytes,
                              .stop = t->problem->stop};
}

struct stage_cost stage_cost_of(const struct layer_table *t, int32_t class, struct layer_run run,
                                const int32_t *strategy)
{
    const struct layer_source *source = t->problem->source;
    const struct stage_class *c = &t->classes.data[class];
    const struct place_costs *place = c->place;
    size_t n = t->strategies->len;
    int64_t steady = c->beside.steady_ns, time = steady + c->beside.once_ns;
    int64_t kept = 0, most = 0, state = 0;
    for (int32_t l = 0; l < run.count; l++) {
        size_t at = (size_t)source->kind[run.first + l] * n + (size_t)strategy[l];
        int64_t reshard = 0;
        if (place->steady_ns[at] == LAYERWISE_NEVER)
            return (struct stage_cost){LAYERWISE_NEVER, LAYERWISE_NEVER, LAYERWISE_NEVER};
        if (l)
            reshard = place->reshard_ns[reshard_at(t, source->boundary[run.first + l],
                                                   strategy[l - 1], strategy[l])];
        steady += place->steady_ns[at] + reshard;
        time += place->time_ns[at] + reshard;
        kept += c->kept_bytes[at];
        state += place->state_bytes[at];
        most = kept + place->peak_bytes[at] > most ? kept + place->peak_bytes[at] : most;
    }
    int64_t beside_bytes = t->problem->limit_bytes - c->limit_bytes;
    return (struct stage_cost){time, steady, most + state + beside_bytes};
}

/* The rounding of doubles is far less than the half nanosecond that is subtracted. */
static int64_t bound_from(double ns)
{
    double least = floor(ns * (1 - 1e-12) - 0.5);
    return least > 0 ? (int64_t)least : 0;
}

/* The sum in (1) at one price. */
static double priced_sum(const struct layer_table *t, const double *at, struct layer_run run)
{
    size_t kinds = (size_t)t->problem->source->kinds;
    const int32_t *from = t->kinds_before + (size_t)run.first * kinds;
    const int32_t *to = from + (size_t)run.count * kinds;
    double sum = 0;
    for (size_t k = 0; k < kinds; k++)
        if (to[k] > from[k])
            sum += at[k * PRICES] * (to[k] - from[k]);
    return sum;
}

bool stage_bound(const struct layer_table *t, int32_t class, struct layer_run run,
                 struct stage_cost *out)
{
    const struct stage_class *c = &t->classes.data[class];
    double steady = 0, time = 0;
    for (int i = 0; i < PRICES; i++) {
        double paid = c->price[i] * (double)c->limit_bytes;
        steady = fmax(steady, priced_sum(t, c->steady_at + i, run) - paid);
        time = fmax(time, priced_sum(t, c->time_at + i, run) - paid);
    }
    if (isinf(time))
        return false;
    *out = (struct stage_cost){bound_from(time) + c->beside.steady_ns + c->beside.once_ns,
                               bound_from(steady) + c->beside.steady_ns, 0};
    return true;
}

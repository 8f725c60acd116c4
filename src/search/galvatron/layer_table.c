/* layer_table.c - costs of one setting, asked of the source once (layer_table.h). */
#include "search/galvatron/layer_table.h"

#include <math.h>
#include <string.h>

static struct layer_question question_of(const struct layer_table *t, int32_t stage)
{
    return (struct layer_question){.devices = t->problem->devices,
                                   .stages = t->stages,
                                   .stage = stage,
                                   .step_samples = t->batch / t->micro_batches,
                                   .micro_batches = t->micro_batches};
}

struct group_options group_options_new(struct arena *keep, const struct layer_problem *problem,
                                       int64_t group)
{
    const struct layer_source *source = problem->source;
    struct group_options options = {0};
    space_strategies(keep, problem->space, group, &options.strategies);
    size_t count = options.strategies.len;
    /* The layouts by the source's own numbers. */
    int32_t *number = ARENA_ARRAY(keep, int32_t, count);
    options.layout_of = ARENA_ARRAY(keep, int32_t, count);
    for (size_t s = 0; s < count; s++) {
        const struct strategy *strategy = &options.strategies.data[s];
        number[s] = source->layout ? source->layout(source->context, strategy) : (int32_t)s;
        size_t first = 0;
        while (number[first] != number[s])
            first++;
        options.layout_of[s] = (int32_t)first;
    }
    return options;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static struct place_costs *place_new(struct layer_table *t, int32_t number, int32_t stage)
{
    const struct layer_source *source = t->problem->source;
    size_t entries = (size_t)source->kinds * t->strategies->len;
    struct place_costs *place = ARENA_NEW(t->keep, struct place_costs);
    *place = (struct place_costs){.number = number,
                                  .stage = stage,
                                  .steady_ns = ARENA_ARRAY(t->keep, int64_t, entries),
                                  .time_ns = ARENA_ARRAY(t->keep, int64_t, entries),
                                  .kept_bytes = ARENA_ARRAY(t->keep, int64_t, entries),
                                  .peak_bytes = ARENA_ARRAY(t->keep, int64_t, entries),
                                  .state_bytes = ARENA_ARRAY(t->keep, int64_t, entries)};
    array_push(t->keep, &t->places, place);
    return place;
}

void place_cost(struct place_costs *place, size_t at, const struct layer_cost *cost)
{
    bool never = cost->steady_ns == LAYERWISE_NEVER;
    place->steady_ns[at] = cost->steady_ns;
    place->time_ns[at] = never ? LAYERWISE_NEVER : cost->steady_ns + cost->once_ns;
    place->kept_bytes[at] = never ? 0 : cost->kept_bytes;
    place->peak_bytes[at] = never ? 0 : cost->peak_bytes;
    place->state_bytes[at] = never ? 0 : cost->state_bytes;
}

static weft_status ask_layers(struct layer_table *t, struct place_costs *place)
{
    const struct layer_source *source = t->problem->source;
    struct layer_question question = question_of(t, place->stage);
    layer_cost_function *answer = t->rough ? source->roughly : source->layer;
    weft_status status = WEFT_OK;
    size_t at = 0;
    for (int32_t kind = 0; kind < source->kinds; kind++)
        for (size_t s = 0; s < t->strategies->len; s++, at++) {
            struct layer_cost cost = {.steady_ns = LAYERWISE_NEVER};
            TRY(answer(source->context, &question, kind, &t->strategies->data[s], &cost));
            place_cost(place, at, &cost);
        }
done:
    return status;
}

static weft_status find_place(struct layer_table *t, int32_t stage, struct place_costs **out)
{
    const struct layer_source *source = t->problem->source;
    struct layer_question question = question_of(t, stage);
    int32_t number = source->place ? source->place(source->context, &question) : stage;
    for (size_t i = 0; i < t->places.len; i++)
        if (t->places.data[i]->number == number) {
            *out = t->places.data[i];
            return WEFT_OK;
        }
    *out = place_new(t, number, stage);
    return ask_layers(t, *out);
}

/* ---- classes of stages ----------------------------------------------------------------------- */

static bool same_beside(const struct layer_cost *a, const struct layer_cost *b)
{
    return a->steady_ns == b->steady_ns && a->once_ns == b->once_ns &&
           a->kept_bytes == b->kept_bytes && a->peak_bytes == b->peak_bytes &&
           a->state_bytes == b->state_bytes;
}

static int32_t class_of(struct layer_table *t, const struct stage_class *wanted)
{
    for (size_t i = 0; i < t->classes.len; i++) {
        const struct stage_class *c = &t->classes.data[i];
        if (c->place == wanted->place && c->in_flight == wanted->in_flight &&
            same_beside(&c->beside, &wanted->beside))
            return (int32_t)i;
    }
    array_push(t->keep, &t->classes, *wanted);
    return (int32_t)t->classes.len - 1;
}

static weft_status find_class(struct layer_table *t, int32_t stage)
{
    const struct layer_source *source = t->problem->source;
    struct layer_question question = question_of(t, stage);
    int64_t after = t->stages - stage;
    /* I1 */
    struct stage_class class = {.in_flight = after < t->micro_batches ? after : t->micro_batches};
    weft_status status;
    TRY(find_place(t, stage, &class.place));
    if (!t->rough)
        TRY(source->beside(source->context, &question, &class.beside));
    class.limit_bytes = t->problem->limit_bytes - class.beside.state_bytes -
                        class.beside.peak_bytes - class.in_flight * class.beside.kept_bytes;
    t->class_of[stage] = class_of(t, &class);
done:
    return status;
}

/* ---- strategies that are never needed (I5)
 * ------------------------------------------------------ */

static bool costs_no_more(const struct place_costs *p, size_t a, size_t b)
{
    return p->steady_ns[a] <= p->steady_ns[b] && p->time_ns[a] <= p->time_ns[b] &&
           p->kept_bytes[a] <= p->kept_bytes[b] && p->peak_bytes[a] <= p->peak_bytes[b] &&
           p->state_bytes[a] <= p->state_bytes[b];
}

/* Whether strategy a can replace b in all kinds and places; of two equal ones the first stays. */
static bool replaces(const struct layer_table *t, size_t a, size_t b)
{
    size_t kinds = (size_t)t->problem->source->kinds, n = t->strategies->len;
    bool alike = true;
    for (size_t i = 0; i < t->places.len; i++)
        for (size_t k = 0; k < kinds; k++) {
            const struct place_costs *p = t->places.data[i];
            size_t x = k * n + a, y = k * n + b;
            if (p->steady_ns[y] == LAYERWISE_NEVER)
                continue;
            if (p->steady_ns[x] == LAYERWISE_NEVER || !costs_no_more(p, x, y))
                return false;
            alike = alike && costs_no_more(p, y, x);
        }
    return !alike || a < b;
}

static bool is_needed(const struct layer_table *t, const bool *needed, size_t s)
{
    size_t kinds = (size_t)t->problem->source->kinds, n = t->strategies->len;
    bool possible = false;
    for (size_t i = 0; i < t->places.len; i++)
        for (size_t k = 0; k < kinds; k++)
            possible |= t->places.data[i]->steady_ns[k * n + s] != LAYERWISE_NEVER;
    for (size_t other = 0; possible && other < n; other++)
        if (other != s && needed[other] && t->layout_of[other] == t->layout_of[s] &&
            replaces(t, other, s))
            return false;
    return possible;
}

static void compact(int64_t *value, size_t kinds, size_t from, const size_t *kept, size_t to)
{
    for (size_t k = 0; k < kinds; k++)
        for (size_t s = 0; s < to; s++)
            value[k * to + s] = value[k * from + kept[s]];
}

static void leave_out(struct layer_table *t)
{
    size_t n = t->strategies->len, kinds = (size_t)t->problem->source->kinds;
    bool *needed = ARENA_ARRAY(t->keep, bool, n);
    size_t *kept = ARENA_ARRAY(t->keep, size_t, n);
    int32_t *layout_of = ARENA_ARRAY(t->keep, int32_t, n);
    struct strategies *all = ARENA_NEW(t->keep, struct strategies);
    memset(needed, 1, n * sizeof *needed);
    for (size_t s = 0; s < n; s++) {
        needed[s] = is_needed(t, needed, s);
        if (!needed[s])
            continue;
        size_t first = 0;
        while (first < all->len && t->layout_of[kept[first]] != t->layout_of[s])
            first++;
        layout_of[all->len] = (int32_t)first;
        kept[all->len] = s;
        array_push(t->keep, all, t->strategies->data[s]);
    }
    for (size_t i = 0; i < t->places.len; i++) {
        struct place_costs *p = t->places.data[i];
        int64_t *const values[] = {p->steady_ns, p->time_ns, p->kept_bytes, p->peak_bytes,
                                   p->state_bytes};
        for (size_t v = 0; v < COUNT_OF(values); v++)
            compact(values[v], kinds, n, kept, all->len);
    }
    t->strategies = all;
    t->layout_of = layout_of;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static int64_t least_of(const struct layer_table *t, int32_t kind, bool steady)
{
    int64_t least = LAYERWISE_NEVER;
    size_t strategies = t->strategies->len;
    for (size_t i = 0; i < t->places.len; i++) {
        const struct place_costs *place = t->places.data[i];
        const int64_t *ns =
            (steady ? place->steady_ns : place->time_ns) + (size_t)kind * strategies;
        for (size_t s = 0; s < strategies; s++)
            least = ns[s] < least ? ns[s] : least;
    }
    return least;
}

static void count_kinds(struct layer_table *t)
{
    const struct layer_source *source = t->problem->source;
    size_t kinds = (size_t)source->kinds, layers = (size_t)source->layers;
    t->kinds_before = ARENA_ARRAY(t->keep, int32_t, (layers + 1) * kinds);
    for (size_t l = 0; l < layers; l++) {
        int32_t *after = t->kinds_before + (l + 1) * kinds;
        memcpy(after, after - kinds, kinds * sizeof *after);
        after[source->kind[l]]++;
    }
}

static bool sum_least(struct layer_table *t)
{
    const struct layer_source *source = t->problem->source;
    size_t layers = (size_t)source->layers;
    t->least_steady_ns = ARENA_ARRAY(t->keep, int64_t, layers + 1);
    t->least_time_ns = ARENA_ARRAY(t->keep, int64_t, layers + 1);
    for (size_t l = 0; l < layers; l++) {
        int64_t steady = least_of(t, source->kind[l], true);
        if (steady == LAYERWISE_NEVER)
            return false;
        t->least_steady_ns[l + 1] = t->least_steady_ns[l] + steady;
        t->least_time_ns[l + 1] = t->least_time_ns[l] + least_of(t, source->kind[l], false);
    }
    return true;
}

static weft_status find_classes(struct layer_table *t)
{
    weft_status status = WEFT_OK;
    t->class_of = ARENA_ARRAY(t->keep, int32_t, (size_t)t->stages);
    for (int32_t stage = 0; stage < t->stages; stage++)
        TRY(find_class(t, stage));
done:
    return status;
}

weft_status layer_table_new(struct arena *keep, const struct layer_problem *problem,
                            const struct group_options *options, int64_t batch, int32_t stages,
                            int64_t micro_batches, bool *possible, struct layer_table *out)
{
    weft_status status = WEFT_OK;
    *out = (struct layer_table){.problem = problem,
                                .keep = keep,
                                .batch = batch,
                                .micro_batches = micro_batches,
                                .stages = stages,
                                .strategies = &options->strategies,
                                .layout_of = options->layout_of};
    TRY(find_classes(out));
    leave_out(out);
    *possible = out->strategies->len && sum_least(out);
done:
    return status;
}

weft_status layer_table_roughly(struct arena *keep, const struct layer_problem *problem,
                                const struct group_options *options,
                                const struct layer_question *question, bool *possible,
                                struct layer_table *out)
{
    weft_status status = WEFT_OK;
    *out = (struct layer_table){.problem = problem,
                                .keep = keep,
                                .batch = question->step_samples * question->micro_batches,
                                .micro_batches = question->micro_batches,
                                .stages = question->stages,
                                .strategies = &options->strategies,
                                .layout_of = options->layout_of,
                                .rough = true};
    TRY(find_classes(out));
    count_kinds(out);
    *possible = out->strategies->len && sum_least(out);
done:
    return status;
}

int64_t layer_table_bound_ns(const struct layer_table *t)
{
    int32_t layers = t->problem->source->layers;
    int64_t all = t->least_steady_ns[layers], slowest = ceil_div(all, t->stages);
    int64_t beside = 0, sum = t->least_time_ns[layers];
    for (int32_t l = 0; l < layers; l++) {
        int64_t own = t->least_steady_ns[l + 1] - t->least_steady_ns[l];
        slowest = own > slowest ? own : slowest;
    }
    for (int32_t stage = 0; stage < t->stages; stage++) {
        const struct layer_cost *own = &t->classes.data[t->class_of[stage]].beside;
        beside += own->steady_ns;
        sum += own->steady_ns + own->once_ns;
    }
    int64_t shared = ceil_div(all + beside, t->stages);
    return (t->micro_batches - 1) * (shared > slowest ? shared : slowest) + sum;
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* The price that is paid for a byte between a layer's fastest strategy and its smallest. */
static double usual_price(const struct layer_table *t, const struct stage_class *c)
{
    size_t strategies = t->strategies->len;
    double most = 0;
    for (int32_t kind = 0; kind < t->problem->source->kinds; kind++) {
        size_t first = (size_t)kind * strategies, fastest = first, smallest = first;
        int64_t *bytes = c->kept_bytes, *state = c->place->state_bytes, *ns = c->place->steady_ns;
        for (size_t s = first; s < first + strategies; s++) {
            if (ns[s] < ns[fastest])
                fastest = s;
            if (ns[s] != LAYERWISE_NEVER &&
                (ns[smallest] == LAYERWISE_NEVER ||
                 bytes[s] + state[s] < bytes[smallest] + state[smallest]))
                smallest = s;
        }
        int64_t saved = bytes[fastest] + state[fastest] - bytes[smallest] - state[smallest];
        if (ns[fastest] != LAYERWISE_NEVER && saved > 0)
            most = fmax(most, (double)(ns[smallest] - ns[fastest]) / (double)saved);
    }
    return most;
}

/* Of two numbers: without fmin's care for what is no number, processors do several at once. */
static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static void price_kind(const struct layer_table *t, struct stage_class *c, size_t kind)
{
    size_t strategies = t->strategies->len;
    double *steady_at = c->steady_at + kind * PRICES, *time_at = c->time_at + kind * PRICES;
    double steady[PRICES], time[PRICES];
    for (int i = 0; i < PRICES; i++)
        steady[i] = time[i] = INFINITY;
    for (size_t s = kind * strategies; s < (kind + 1) * strategies; s++) {
        if (c->place->steady_ns[s] == LAYERWISE_NEVER)
            continue;
        double bytes = (double)(c->kept_bytes[s] + c->place->state_bytes[s]);
        double steady_ns = (double)c->place->steady_ns[s], time_ns = (double)c->place->time_ns[s];
        for (int i = 0; i < PRICES; i++) {
            steady[i] = lesser(steady_ns + c->price[i] * bytes, steady[i]);
            time[i] = lesser(time_ns + c->price[i] * bytes, time[i]);
        }
    }
    memcpy(steady_at, steady, sizeof steady);
    memcpy(time_at, time, sizeof time);
}

static void price_class(struct layer_table *t, struct stage_class *c)
{
    size_t kinds = (size_t)t->problem->source->kinds, entries = kinds * t->strategies->len;
    if (!c->kept_bytes) {
        c->kept_bytes = ARENA_ARRAY(t->keep, int64_t, entries);
        c->steady_at = ARENA_ARRAY(t->keep, double, kinds *PRICES);
        c->time_at = ARENA_ARRAY(t->keep, double, kinds *PRICES);
    }
    for (size_t i = 0; i < entries; i++)
        c->kept_bytes[i] = c->in_flight * c->place->kept_bytes[i];
    double usual = usual_price(t, c);
    for (int i = 0; i < PRICES; i++)
        c->price[i] = i ? usual * exp2(i - PRICES + 4) : 0;
    for (size_t kind = 0; kind < kinds; kind++)
        price_kind(t, c, kind);
}

bool layer_table_prices(struct layer_table *t)
{
    for (size_t i = 0; i < t->classes.len; i++)
        price_class(t, &t->classes.data[i]);
    return sum_least(t);
}

void layer_table_classes(struct layer_table *t)
{
    size_t n = t->strategies->len, entries = (size_t)t->problem->source->boundaries * n * n;
    for (size_t i = 0; i < t->places.len; i++) {
        t->places.data[i]->reshard_ns = ARENA_ARRAY(t->keep, int64_t, entries);
        t->places.data[i]->asked = ARENA_ARRAY(t->keep, bool, entries);
    }
    for (size_t i = 0; i < t->classes.len; i++)
        price_class(t, &t->classes.data[i]);
    count_kinds(t);
}

/* ---- reshards -------------------------------------------------------------------------------- */

/* All pairs of strategies of the two layouts reshard alike. */
static void note_reshard(const struct layer_table *t, struct place_costs *place, int32_t boundary,
                         int32_t before, int32_t after, int64_t ns)
{
    int32_t n = (int32_t)t->strategies->len;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = 0; t->layout_of[a] == before && b < n; b++)
            if (t->layout_of[b] == after)
                place->reshard_ns[reshard_at(t, boundary, a, b)] = ns;
}

weft_status layer_table_reshards(struct layer_table *t, int32_t class, struct layer_run run,
                                 const int32_t *strategy, bool *more)
{
    const struct layer_source *source = t->problem->source;
    struct place_costs *place = t->classes.data[class].place;
    struct layer_question question = question_of(t, place->stage);
    weft_status status = WEFT_OK;
    *more = false;
    for (int32_t l = 1; l < run.count; l++) {
        int32_t boundary = source->boundary[run.first + l];
        int32_t before = t->layout_of[strategy[l - 1]], after = t->layout_of[strategy[l]];
        bool *asked = &place->asked[reshard_at(t, boundary, before, after)];
        int64_t ns;
        if (*asked || (source->layout && before == after))
            continue;
        TRY(source->reshard(source->context, &question, boundary, &t->strategies->data[before],
                            &t->strategies->data[after], &ns));
        note_reshard(t, place, boundary, before, after, ns);
        *asked = true;
        *more |= ns > 0;
    }
done:
    return status;
}

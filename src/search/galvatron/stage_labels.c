/* stage_labels.c - all plans of a stage between two that are known (stage_front.h).
 *
 * Partial plans (*labels*) grow from the last layer to the first, as in front.h: Eq. 2 needs of
 * each one n, the most that its layers hold above their states, and m, their states. With rest(l,
 * s) the least times of the layers before layer l on strategy s, whatever they hold,
 *
 *   rest(0, s) = 0,  rest(l, s) = min_s' { rest(l - 1, s') + c(l - 1, s') + R(l, s', s) }        (1)
 *
 *   I1  A label whose times cannot end inside the box, or whose bytes exceed the limit, is dropped.
 *   I2  So is a label that another one on the same strategy beats in both times, n and m.
 */
#include <string.h>

#include "search/galvatron/stage_front.h"

/* With more than this many partial plans of a layer, the search gives up. Stages of equal layers
 * have as many mixtures of strategies as layers, and lines through them are dense. */
enum { MOST_LABELS = 512 };

struct label {
    int64_t steady_ns, time_ns, need_bytes, state_bytes;
    int32_t strategy, next; /* next: the label of the next layer that this one extends */
};
typedef ARRAY(struct label) label_list;

struct grower {
    const struct layer_table *table;
    const struct stage_class *class;
    struct arena *scratch;
    struct layer_run run;
    int32_t strategies;
    int64_t steady_below, time_below; /* for the layers alone: the box */
    int64_t *rest_steady, *rest_time; /* (1), per layer, then strategy */
    label_list *labels;               /* per layer */
};

static size_t cost_at(const struct grower *g, int32_t layer, int32_t strategy)
{
    return (size_t)g->table->problem->source->kind[g->run.first + layer] * (size_t)g->strategies +
           (size_t)strategy;
}

static bool is_possible(const struct grower *g, int32_t layer, int32_t strategy)
{
    return g->class->place->steady_ns[cost_at(g, layer, strategy)] != LAYERWISE_NEVER;
}

/* R before a layer. */
static int64_t reshard_before(const struct grower *g, int32_t layer, int32_t before, int32_t after)
{
    int32_t boundary = g->table->problem->source->boundary[g->run.first + layer];
    return g->class->place->reshard_ns[reshard_at(g->table, boundary, before, after)];
}

/* (1) for either time. */
static int64_t *rests(const struct grower *g, const int64_t *ns)
{
    int32_t n = g->strategies;
    int64_t *rest = ARENA_ARRAY(g->scratch, int64_t, (size_t)g->run.count *(size_t)n);
    for (int32_t layer = 1; layer < g->run.count; layer++)
        for (int32_t s = 0; s < n; s++) {
            int64_t least = INT64_MAX / 4;
            for (int32_t before = 0; before < n; before++) {
                if (!is_possible(g, layer - 1, before))
                    continue;
                int64_t way = rest[(int64_t)(layer - 1) * n + before] +
                              ns[cost_at(g, layer - 1, before)] +
                              reshard_before(g, layer, before, s);
                least = way < least ? way : least;
            }
            rest[(int64_t)layer * n + s] = least;
        }
    return rest;
}

static struct label extend(const struct grower *g, int32_t layer, int32_t strategy,
                           const struct label *after, int32_t number)
{
    const struct place_costs *place = g->class->place;
    size_t at = cost_at(g, layer, strategy);
    int64_t peak = place->peak_bytes[at];
    struct label label = {place->steady_ns[at],   place->time_ns[at], peak,
                          place->state_bytes[at], strategy,           number};
    if (after) {
        int64_t reshard = reshard_before(g, layer + 1, strategy, after->strategy);
        label.steady_ns += after->steady_ns + reshard;
        label.time_ns += after->time_ns + reshard;
        label.need_bytes = after->need_bytes > peak ? after->need_bytes : peak;
        label.state_bytes += after->state_bytes;
    }
    label.need_bytes += g->class->kept_bytes[at];
    return label;
}

/* I1 */
static bool can_end_inside(const struct grower *g, int32_t layer, const struct label *label)
{
    int64_t at = (int64_t)layer * g->strategies + label->strategy;
    return label->need_bytes + label->state_bytes <= g->class->limit_bytes &&
           label->steady_ns + g->rest_steady[at] < g->steady_below &&
           label->time_ns + g->rest_time[at] < g->time_below;
}

static bool beats(const struct label *a, const struct label *b)
{
    return a->strategy == b->strategy && a->steady_ns <= b->steady_ns && a->time_ns <= b->time_ns &&
           a->need_bytes <= b->need_bytes && a->state_bytes <= b->state_bytes;
}

/* I2 */
static void offer(const struct grower *g, label_list *labels, const struct label *label)
{
    size_t kept = 0;
    for (size_t i = 0; i < labels->len; i++)
        if (beats(&labels->data[i], label))
            return;
    for (size_t i = 0; i < labels->len; i++)
        if (!beats(label, &labels->data[i]))
            labels->data[kept++] = labels->data[i];
    labels->len = kept;
    array_push(g->scratch, labels, *label);
}

static bool grow_layer(struct grower *g, int32_t layer)
{
    label_list *labels = &g->labels[layer];
    bool last = layer == g->run.count - 1;
    size_t after = last ? 1 : g->labels[layer + 1].len;
    for (int32_t s = 0; s < g->strategies; s++)
        for (size_t i = 0; i < after && is_possible(g, layer, s); i++) {
            const struct label *next = last ? NULL : &g->labels[layer + 1].data[i];
            struct label label = extend(g, layer, s, next, (int32_t)i);
            if (can_end_inside(g, layer, &label))
                offer(g, labels, &label);
            if (labels->len > MOST_LABELS)
                return false;
        }
    return true;
}

static int32_t *strategies_of(const struct grower *g, struct arena *keep, const struct label *label)
{
    int32_t *strategy = ARENA_ARRAY(keep, int32_t, (size_t)g->run.count);
    for (int32_t layer = 0; layer < g->run.count; layer++) {
        strategy[layer] = label->strategy;
        if (layer + 1 < g->run.count)
            label = &g->labels[layer + 1].data[label->next];
    }
    return strategy;
}

/* Inserts in the order of options, and drops those that another one beats. */
static void insert(struct arena *keep, option_list *options, const struct option *option)
{
    size_t kept = 0, at;
    for (size_t i = 0; i < options->len; i++)
        if (options->data[i].cost.steady_ns <= option->cost.steady_ns &&
            options->data[i].cost.time_ns <= option->cost.time_ns)
            return;
    for (size_t i = 0; i < options->len; i++)
        if (options->data[i].cost.steady_ns < option->cost.steady_ns ||
            options->data[i].cost.time_ns < option->cost.time_ns)
            options->data[kept++] = options->data[i];
    options->len = kept;
    array_push(keep, options, *option);
    for (at = kept; at > 0 && options->data[at - 1].cost.steady_ns > option->cost.steady_ns; at--)
        options->data[at] = options->data[at - 1];
    options->data[at] = *option;
}

bool stage_plans_between(const struct stage_fronts *fronts, const struct stage_run *run,
                         const struct stage_cost *from, const struct stage_cost *to,
                         option_list *out)
{
    const struct stage_class *class = &fronts->table->classes.data[run->class];
    struct grower g = {.table = fronts->table,
                       .class = class,
                       .scratch = arena_new(),
                       .run = run->run,
                       .strategies = (int32_t)fronts->table->strategies->len};
    bool complete = true;
    g.steady_below = to->steady_ns - class->beside.steady_ns;
    g.time_below = from->time_ns - class->beside.steady_ns - class->beside.once_ns;
    g.rest_steady = rests(&g, class->place->steady_ns);
    g.rest_time = rests(&g, class->place->time_ns);
    g.labels = ARENA_ARRAY(g.scratch, label_list, (size_t)run->run.count);
    for (int32_t layer = run->run.count - 1; layer >= 0 && complete; layer--)
        complete = grow_layer(&g, layer);
    for (size_t i = 0; complete && i < g.labels[0].len; i++) {
        int32_t *strategy = strategies_of(&g, fronts->keep, &g.labels[0].data[i]);
        struct option option = {.kind = OPTION_PLAN,
                                .cost =
                                    stage_cost_of(fronts->table, run->class, run->run, strategy),
                                .strategy = strategy};
        insert(fronts->keep, out, &option);
    }
    arena_free(g.scratch);
    return complete;
}

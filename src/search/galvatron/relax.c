/* relax.c - tables of (2) and the price that makes (1) tightest (relax.h).
 *
 * The bound (1) is concave in the price and consists of lines, one per plan: time + w * (bytes -
 * E). The lines of two plans, one that fits and one that does not, meet at
 *
 *   w = (time of the one - time of the other) / (bytes of the other - bytes of the one)         (3)
 *
 * and either no plan is below them there, or one that is replaces the plan on its side.
 */
#include "search/galvatron/relax.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct relaxed_cost layer_cost(const struct layerwise *problem, int32_t layer, int32_t strategy)
{
    int64_t i = (int64_t)problem->kind[layer] * problem->strategies + strategy;
    return (struct relaxed_cost){problem->time_ns[i], problem->kept_bytes[i],
                                 problem->peak_bytes[i], problem->state_bytes[i]};
}

const struct reshard_matrix *reshards_at(const struct costs *costs, int32_t layer)
{
    return layer ? &costs->reshards[costs->problem.boundary[layer]] : &costs->first;
}

int64_t reshard_cost(const struct costs *costs, int32_t layer, int32_t before, int32_t column)
{
    const struct reshard_matrix *reshards = reshards_at(costs, layer);
    return reshards->ns[(int64_t)reshards->row_of[before] * reshards->columns + column];
}

/* ---- rows and columns ------------------------------------------------------------------------ */

/* Whether two rows (step 1 between entries) or columns (step `strategies`) of a matrix are
 * equal. */
static bool alike(const int64_t *a, const int64_t *b, int64_t step, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (a[i * step] != b[i * step])
            return false;
    return true;
}

/* Numbers the lines of a matrix so that equal ones share a number; line i begins at i * from. */
static int32_t number_lines(const int64_t *matrix, int64_t from, int64_t step, int32_t count,
                            int32_t *first, int32_t *number)
{
    int32_t lines = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t k = 0;
        while (k < lines && !alike(matrix + first[k] * from, matrix + i * from, step, count))
            k++;
        if (k == lines)
            first[lines++] = i;
        number[i] = k;
    }
    return lines;
}

static void fill_excess(struct reshard_matrix *reshards)
{
    int32_t columns = reshards->columns;
    for (int32_t a = 0; a < columns; a++)
        for (int32_t b = 0; b < columns; b++) {
            int64_t most = INT64_MIN;
            for (int32_t row = 0; row < reshards->rows; row++) {
                const int64_t *ns = reshards->ns + (int64_t)row * columns;
                most = ns[a] - ns[b] > most ? ns[a] - ns[b] : most;
            }
            reshards->excess_ns[(int64_t)a * columns + b] = most;
        }
}

static struct reshard_matrix reshards_new(struct arena *keep, const int64_t *matrix,
                                          int32_t strategies)
{
    size_t count = (size_t)strategies;
    int32_t *row = ARENA_ARRAY(keep, int32_t, count), *column = ARENA_ARRAY(keep, int32_t, count);
    struct reshard_matrix reshards = {.row_of = ARENA_ARRAY(keep, int32_t, count),
                                      .column_of = ARENA_ARRAY(keep, int32_t, count)};
    reshards.rows = number_lines(matrix, strategies, 1, strategies, row, reshards.row_of);
    reshards.columns = number_lines(matrix, 1, strategies, strategies, column, reshards.column_of);
    size_t columns = (size_t)reshards.columns;
    reshards.ns = ARENA_ARRAY(keep, int64_t, (size_t)reshards.rows *columns);
    reshards.excess_ns = ARENA_ARRAY(keep, int64_t, columns *columns);
    for (int32_t r = 0; r < reshards.rows; r++)
        for (int32_t c = 0; c < reshards.columns; c++)
            reshards.ns[(int64_t)r * reshards.columns + c] =
                matrix[(int64_t)row[r] * strategies + column[c]];
    fill_excess(&reshards);
    return reshards;
}

/* ---- needless strategies --------------------------------------------------------------------- */

static bool alike_everywhere(const struct costs *costs, int32_t a, int32_t b)
{
    for (int32_t i = 0; i < costs->problem.boundaries; i++) {
        const struct reshard_matrix *reshards = &costs->reshards[i];
        if (reshards->row_of[a] != reshards->row_of[b] ||
            reshards->column_of[a] != reshards->column_of[b])
            return false;
    }
    return true;
}

/* Whether a beats b in every respect; of two equal ones, the first stays. */
static bool beats(const struct layerwise *problem, int64_t kind_at, int32_t a, int32_t b)
{
    int64_t i = kind_at + a, j = kind_at + b;
    const int64_t less[] = {problem->time_ns[j] - problem->time_ns[i],
                            problem->kept_bytes[j] - problem->kept_bytes[i],
                            problem->peak_bytes[j] - problem->peak_bytes[i],
                            problem->state_bytes[j] - problem->state_bytes[i]};
    bool any = a < b;
    for (size_t k = 0; k < COUNT_OF(less); k++) {
        if (less[k] < 0)
            return false;
        any = any || less[k] > 0;
    }
    return any;
}

static void drop_needless(struct costs *costs, int64_t *time_ns)
{
    int32_t strategies = costs->problem.strategies;
    for (int32_t kind = 0; kind < costs->problem.kinds; kind++)
        for (int32_t b = 0; b < strategies; b++)
            for (int32_t a = 0; a < strategies; a++) {
                int64_t at = (int64_t)kind * strategies;
                if (a != b && time_ns[at + a] != LAYERWISE_NEVER &&
                    beats(&costs->problem, at, a, b) && alike_everywhere(costs, a, b))
                    time_ns[at + b] = LAYERWISE_NEVER;
            }
}

struct costs costs_new(struct arena *keep, const struct layerwise *problem)
{
    size_t strategies = (size_t)problem->strategies;
    size_t entries = (size_t)problem->kinds * strategies;
    struct costs costs = {.problem = *problem,
                          .reshards =
                              ARENA_ARRAY(keep, struct reshard_matrix, (size_t)problem->boundaries),
                          .first = {1, 1, ARENA_ARRAY(keep, int32_t, strategies),
                                    ARENA_ARRAY(keep, int32_t, strategies),
                                    ARENA_NEW(keep, int64_t), ARENA_NEW(keep, int64_t)},
                          .row = ARENA_ARRAY(keep, double, strategies),
                          .sent = ARENA_ARRAY(keep, double, strategies)};
    for (int32_t i = 0; i < problem->boundaries; i++)
        costs.reshards[i] = reshards_new(
            keep, problem->reshard_ns + (int64_t)i * problem->strategies * problem->strategies,
            problem->strategies);
    int64_t *time_ns = ARENA_ARRAY(keep, int64_t, entries);
    memcpy(time_ns, problem->time_ns, entries * sizeof *time_ns);
    drop_needless(&costs, time_ns);
    costs.problem.time_ns = time_ns;
    return costs;
}

struct relaxation relax_new(struct arena *keep, const struct costs *costs)
{
    int32_t width = 1;
    for (int32_t i = 0; i < costs->problem.boundaries; i++)
        if (costs->reshards[i].columns > width)
            width = costs->reshards[i].columns;
    size_t layers = (size_t)costs->problem.layers, entries = layers * (size_t)width;
    return (struct relaxation){.width = width,
                               .rest = ARENA_ARRAY(keep, double, entries),
                               .steady = ARENA_ARRAY(keep, bool, layers),
                               .prefix = ARENA_ARRAY(keep, struct prefix, entries)};
}

/* ---- tables ---------------------------------------------------------------------------------- */

static double priced(const struct relaxed_cost *cost, struct price price)
{
    if (cost->time_ns == LAYERWISE_NEVER)
        return INFINITY;
    return price.ns * (double)cost->time_ns +
           price.bytes * (double)(cost->kept_bytes + cost->state_bytes);
}

/* rest(layer, s) + cost(layer, s) for all s. */
static void with_layer(const struct costs *costs, const struct relaxation *relaxation,
                       int32_t layer, double *row)
{
    const double *rest = relaxation->rest + (int64_t)layer * relaxation->width;
    const int32_t *column_of = reshards_at(costs, layer)->column_of;
    for (int32_t s = 0; s < costs->problem.strategies; s++) {
        struct relaxed_cost cost = layer_cost(&costs->problem, layer, s);
        row[s] = rest[column_of[s]] + priced(&cost, relaxation->price);
    }
}

/* next[column] = min_s' row[s'] + R(s', column), through the rows of R. */
static void send(const struct costs *costs, const struct reshard_matrix *reshards, double ns_price,
                 double *next)
{
    double *sent = costs->sent;
    for (int32_t r = 0; r < reshards->rows; r++)
        sent[r] = INFINITY;
    for (int32_t s = 0; s < costs->problem.strategies; s++) {
        double *least = &sent[reshards->row_of[s]];
        *least = costs->row[s] < *least ? costs->row[s] : *least;
    }
    for (int32_t c = 0; c < reshards->columns; c++)
        next[c] = INFINITY;
    for (int32_t r = 0; r < reshards->rows; r++)
        for (int32_t c = 0; c < reshards->columns; c++) {
            double value =
                sent[r] + ns_price * (double)reshards->ns[(int64_t)r * reshards->columns + c];
            next[c] = value < next[c] ? value : next[c];
        }
}

/* Whether every entry exceeds the previous row's by nearly the same, and by how much at least
 * (I1). */
static bool is_shift(const double *from, const double *to, int32_t columns, double *least)
{
    double most = -INFINITY, size = 0;
    *least = INFINITY;
    for (int32_t c = 0; c < columns; c++) {
        double step = to[c] - from[c];
        most = step > most ? step : most;
        *least = step < *least ? step : *least;
        size = to[c] > size ? to[c] : size;
    }
    return most - *least <= 4 * DBL_EPSILON * size;
}

/* Whether this row follows from the one before in the same way as that one did from its own
 * predecessor. */
static bool repeats(const struct layerwise *problem, int32_t layer)
{
    return layer > 2 && problem->kind[layer - 1] == problem->kind[layer - 2] &&
           problem->boundary[layer] == problem->boundary[layer - 1] &&
           problem->boundary[layer] == problem->boundary[layer - 2];
}

void relax_fill(struct relaxation *relaxation, const struct costs *costs, struct price price)
{
    double step = 0;
    relaxation->price = price;
    relaxation->rest[0] = 0;
    for (int32_t layer = 1; layer < costs->problem.layers; layer++) {
        const struct reshard_matrix *reshards = reshards_at(costs, layer);
        double *rest = relaxation->rest + (int64_t)layer * relaxation->width;
        const double *before = rest - relaxation->width;
        bool *steady = &relaxation->steady[layer];
        *steady =
            repeats(&costs->problem, layer) &&
            (steady[-1] || is_shift(before - relaxation->width, before, reshards->columns, &step));
        if (*steady) {
            for (int32_t c = 0; c < reshards->columns; c++)
                rest[c] = before[c] + step;
            continue;
        }
        with_layer(costs, relaxation, layer - 1, costs->row);
        send(costs, reshards, price.ns, rest);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The strategy of the layer before that attains rest(layer, column), from costs->row. */
static int32_t best_before(const struct costs *costs, int32_t layer, int32_t column,
                           double ns_price)
{
    double least = INFINITY;
    int32_t best = 0;
    for (int32_t s = 0; s < costs->problem.strategies; s++) {
        double value = costs->row[s] + ns_price * (double)reshard_cost(costs, layer, s, column);
        if (value < least) {
            least = value;
            best = s;
        }
    }
    return best;
}

/* Adds one more layer after a prefix: a need n becomes n' = kept + max(peak, n), of which the
 * prefix in turn makes its own need. */
static struct prefix prefix_add(const struct prefix *prefix, const struct relaxed_cost *cost,
                                int64_t reshard_ns, int32_t strategy)
{
    int64_t peak = prefix->peak_bytes - cost->kept_bytes;
    return (struct prefix){prefix->time_ns + cost->time_ns + reshard_ns,
                           prefix->kept_bytes + cost->kept_bytes,
                           peak > cost->peak_bytes ? peak : cost->peak_bytes,
                           prefix->state_bytes + cost->state_bytes, strategy};
}

void relax_prefixes(struct relaxation *relaxation, const struct costs *costs)
{
    for (int32_t layer = 1; layer < costs->problem.layers; layer++) {
        struct prefix *prefix = relaxation->prefix + (int64_t)layer * relaxation->width;
        const struct prefix *before = prefix - relaxation->width;
        const int32_t *column_before = reshards_at(costs, layer - 1)->column_of;
        if (!relaxation->steady[layer])
            with_layer(costs, relaxation, layer - 1, costs->row);
        for (int32_t c = 0; c < reshards_at(costs, layer)->columns; c++) {
            int32_t previous = relaxation->steady[layer]
                                   ? before[c].previous
                                   : best_before(costs, layer, c, relaxation->price.ns);
            struct relaxed_cost cost = layer_cost(&costs->problem, layer - 1, previous);
            prefix[c] = prefix_add(&before[column_before[previous]], &cost,
                                   reshard_cost(costs, layer, previous, c), previous);
        }
    }
}

/* The last layer's strategy in the plan that a table represents: there O_b counts, too. */
static int32_t relaxed_last(const struct relaxation *relaxation, const struct costs *costs)
{
    int32_t last = costs->problem.layers - 1, best = 0;
    double least = INFINITY;
    with_layer(costs, relaxation, last, costs->row);
    for (int32_t s = 0; s < costs->problem.strategies; s++) {
        struct relaxed_cost cost = layer_cost(&costs->problem, last, s);
        double value = costs->row[s] + relaxation->price.bytes * (double)cost.peak_bytes;
        if (value < least) {
            least = value;
            best = s;
        }
    }
    return best;
}

/* The time and bytes of that plan, as (1) counts them. */
static struct point relaxed_plan(const struct relaxation *relaxation, const struct costs *costs)
{
    int32_t at = relaxed_last(relaxation, costs), last = costs->problem.layers - 1;
    struct point point = {0, layer_cost(&costs->problem, last, at).peak_bytes};
    for (int32_t layer = last; layer >= 0; layer--) {
        struct relaxed_cost cost = layer_cost(&costs->problem, layer, at);
        point.time_ns += cost.time_ns;
        point.bytes += cost.kept_bytes + cost.state_bytes;
        if (layer == 0)
            break;
        int32_t column = reshards_at(costs, layer)->column_of[at];
        with_layer(costs, relaxation, layer - 1, costs->row);
        at = best_before(costs, layer, column, relaxation->price.ns);
        point.time_ns += reshard_cost(costs, layer, at, column);
    }
    return point;
}

double relax_price(struct arena *scratch, const struct costs *costs, struct point least,
                   int32_t *iterations)
{
    /* Iterations of (3): any price gives a bound, the last one a good bound. */
    enum { MOST_ITERATIONS = 40 };
    struct relaxation relaxation = relax_new(scratch, costs);
    struct point fits = least, fast;
    double price = 0;
    relax_fill(&relaxation, costs, (struct price){1, 0});
    fast = relaxed_plan(&relaxation, costs);
    for (*iterations = 1; *iterations < MOST_ITERATIONS; ++*iterations) {
        if (fast.bytes <= costs->problem.limit_bytes)
            break;
        int64_t slower_ns = fits.time_ns > fast.time_ns ? fits.time_ns - fast.time_ns : 0;
        price = (double)slower_ns / (double)(fast.bytes - fits.bytes); /* (3) */
        relax_fill(&relaxation, costs, (struct price){1, price});
        struct point next = relaxed_plan(&relaxation, costs);
        double below = (double)(fast.time_ns - next.time_ns) +
                       price * ((double)fast.bytes - (double)next.bytes);
        if (below <= 1e-12 * (double)fast.time_ns)
            break;
        *(next.bytes <= costs->problem.limit_bytes ? &fits : &fast) = next;
    }
    return price;
}

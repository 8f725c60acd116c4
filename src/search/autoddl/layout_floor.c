/* layout_floor.c - a time that no plan of a case can be simulated below, whatever overlaps.
 *
 * A stage's operators run one after the other, and so do its blocks (compile/blocks.c). If an
 * operator reads what the one right before it put out, nothing computes during the reshard r;
 * beside the gradient's reshard r' on its way back there is only the product w of the weights'
 * gradients. So on a stage a micro-batch takes at least
 *
 *   pass = sum over operators of (forward [twice] + backward)
 *        + sum over such pairs of (r [twice] + max(0, r' - w))                                 (1)
 *
 * and M micro-batches on S stages take, for any stage s, since the first one arrives through all
 * stages before s, and the last one goes back through them to the optimizer of the first,
 *
 *   time >= sum of pass_k, k < s, + M * pass_s + update_0                                      (2)
 *
 * The least of (2) over splits that fit is bounded by Lagrangian relaxation: for any price of a
 * byte,
 *
 *   time >= min { (2) + price * memory } - price * limit                                       (3)
 *
 * This is first done without pairs, where each operator is on its own. Options that (3) puts above
 * the time to beat are dropped. Then operators form a chain, with r and r' at their lower bounds
 * (layout_bound.c); pairs that (3) still has below the time get their real times, the lowest first,
 * until nothing is below.
 *
 *   I1  s is the stage for which (2) has the most FLOPs. Stages after it do not count.
 *   I2  Memory is (3) of layout_problem.h less the copies of tied weights: the planner's measure of
 *       what fits.
 *   I3  Pairs are operators that are neighbours in the model. There are none from layer to layer,
 *       so that they form a chain.
 *   I4  An optimizer step takes as long as its parameters take in the largest of buckets.
 *   I5  At most MOST_PAIRS pairs of options are compared, and MOST_TIMED of them timed: more would
 *       take seconds.
 *   I6  If a product, or another pass, may hide the reshards around it, pairs do not count.
 *   I7  Options of equal degrees across nodes and within them, in whatever order, take the same on
 *       their own, and their lower bounds of reshards by degrees alone are the same: a chain of
 *       such classes comes first if nothing but the floor is asked for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/autoddl/layout_floor.h"

enum { PRICES = 40, PRICES_OF_CHAIN = 8, MOST_ROUNDS = 20, MOST_TIMED = 4000 };
/* If nothing but the floor is asked for, this many are timed: pairs times devices, because each
 * takes longer the more devices there are. */
enum { MOST_TIMED_ALONE = 20000 };
static const double MOST_TIMED_ON = 1e7;
/* In that case, a floor of classes that is further below the time to beat than this is not
 * refined. */
static const double WITHIN_REACH = 0.025;
static const double MOST_PAIRS = 3e6;
/* The price to start with, relative to the one that makes all memory cost as much as everything
 * else. */
static const double FIRST_PRICE = 0.05;
/* The pairs timed in a round: those up to this share of the way from the floor to the time to beat,
 * and up to this far above the floor. */
static const double TIMED_SHARE = 0.25, TIMED_ABOVE = 0.01;

/* ---- operators on their own ------------------------------------------------------------------ */

static double memory_of(const struct bound *b, int32_t op, int32_t k)
{
    return b->p->work->alone[op][b->option[op][k]].memory;
}

static int32_t cheapest(const struct bound *b, int32_t op)
{
    int32_t at = 0;
    for (int32_t k = 1; k < b->count[op]; k++)
        at = floor_priced(b, op, k) < floor_priced(b, op, at) ? k : at;
    return at;
}

/* (3) at the bound's price, and the memory of its minimum. */
static double least_alone(const struct bound *b, double *memory)
{
    double sum = -floor_refund(b);
    *memory = 0;
    for (int32_t op = 0; op < b->ops; op++) {
        int32_t at = cheapest(b, op);
        sum += floor_priced(b, op, at);
        *memory += memory_of(b, op, at);
    }
    return sum;
}

static double least_memory(const struct bound *b)
{
    double sum = 0;
    for (int32_t op = 0; op < b->ops; op++) {
        double least = INFINITY;
        for (int32_t k = 0; k < b->count[op]; k++)
            least = fmin(least, memory_of(b, op, k));
        sum += least;
    }
    return sum;
}

/* Prices by bisection: below the best one the minimum does not fit, above it does. */
struct prices {
    double low, high, best, best_floor;
};

static void judge_price(struct bound *b, struct prices *prices, double floor, bool fits)
{
    double first = FIRST_PRICE * floor / b->p->about.limit_bytes;
    if (floor > prices->best_floor) {
        prices->best_floor = floor;
        prices->best = b->price;
    }
    *(fits ? &prices->high : &prices->low) = b->price;
    b->price = prices->high > 0  ? (prices->low + prices->high) / 2
               : prices->low > 0 ? 2 * prices->low
                                 : first;
}

/* Leaves the best price in b. */
static double relax_alone(struct bound *b)
{
    struct prices prices = {.best_floor = -INFINITY};
    for (int i = 0; i < PRICES; i++) {
        double memory, floor = least_alone(b, &memory), price = b->price;
        bool fits = memory <= b->p->about.limit_bytes;
        judge_price(b, &prices, floor, fits);
        if (fits && price == 0)
            break;
    }
    b->price = prices.best;
    return prices.best_floor;
}

static void drop_alone(struct bound *b, double floor, double below)
{
    for (int32_t op = 0; op < b->ops; op++) {
        double others = floor - floor_priced(b, op, cheapest(b, op));
        int32_t kept = 0, count = b->count[op];
        for (int32_t k = 0; k < count; k++)
            if (others + floor_priced(b, op, k) < below)
                b->option[op][kept++] = b->option[op][k];
        b->count[op] = kept;
    }
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static double pair_time(const struct bound *b, const struct pair *pair, int32_t j, double there,
                        double back)
{
    double beside = b->p->work->alone[pair->uses->b][j].weights;
    return pair->forward * there + pair->back * fmax(0, back - beside);
}

/* The bytes of an element of what the second operator of a pair reads. */
static int64_t bytes_between(const struct bound *b, const struct pair *pair)
{
    const struct model *model = b->p->about.model;
    return element_bytes(model->op[pair->uses->b].input[pair->operand].element, b->p->about.dtype);
}

static double least_time(const struct bound *b, const struct pair *pair, int32_t i, int32_t j)
{
    const struct layout_problem *p = b->p;
    const struct layout_laid *from = &p->work->laid[pair->uses->a];
    const struct layout_laid *to = &p->work->laid[pair->uses->b];
    int64_t bytes = bytes_between(b, pair);
    double there =
        layout_least_of_reshard(p, &from->output[i], &to->input[pair->operand][j], bytes);
    double back = 0;
    if (pair->back > 0)
        back = layout_least_of_reshard(p, &to->input_grad[pair->operand][j], &from->output_grad[i],
                                       bytes);
    return pair_time(b, pair, j, there, back);
}

/* The degrees of one operand's layouts under the remaining options. */
static struct layout_degrees *degrees_under(const struct bound *b, int32_t op,
                                            const struct layout *laid)
{
    struct layout_degrees *degrees =
        ARENA_ARRAY(b->scratch, struct layout_degrees, (size_t)b->count[op]);
    for (int32_t k = 0; k < b->count[op]; k++)
        degrees[k] = layout_degrees_of(b->p, &laid[b->option[op][k]]);
    return degrees;
}

/* The lower bounds by degrees of all entries of an operator's pair: each layout is looked at once. */
static void fill_by_degrees(const struct bound *b, int32_t op)
{
    const struct pair *pair = &b->pair[op];
    const struct layout_laid *from = &b->p->work->laid[pair->uses->a];
    const struct layout_laid *to = &b->p->work->laid[pair->uses->b];
    const struct layout_degrees *out = degrees_under(b, op, from->output), *out_grad = NULL;
    const struct layout_degrees *in = degrees_under(b, op + 1, to->input[pair->operand]);
    const struct layout_degrees *in_grad = NULL;
    int64_t bytes = bytes_between(b, pair);
    size_t at = 0;
    if (pair->back > 0) {
        out_grad = degrees_under(b, op, from->output_grad);
        in_grad = degrees_under(b, op + 1, to->input_grad[pair->operand]);
    }
    for (int32_t i = 0; i < b->count[op]; i++)
        for (int32_t j = 0; j < b->count[op + 1]; j++, at++) {
            double there = layout_least_between(b->p, &out[i], &in[j], bytes);
            double back =
                in_grad ? layout_least_between(b->p, &in_grad[j], &out_grad[i], bytes) : 0;
            pair->time[at] = pair_time(b, pair, b->option[op + 1][j], there, back);
        }
}

static double real_time(const struct bound *b, const struct pair *pair, int32_t i, int32_t j)
{
    struct layout_edge cost = layout_use_cost(b->p, pair->uses, pair->operand, i, j);
    return pair_time(b, pair, j, cost.there, cost.back);
}

static size_t entries_of(const struct bound *b, int32_t op)
{
    return op + 1 < b->ops ? (size_t)b->count[op] * (size_t)b->count[op + 1] : 0;
}

double floor_all_pairs(const struct bound *b)
{
    double sum = 0;
    for (int32_t op = 0; op < b->ops; op++)
        sum += b->pair[op].uses ? (double)entries_of(b, op) : 0;
    return sum;
}

void floor_fill_pairs(struct bound *b)
{
    for (int32_t op = 0; op < b->ops; op++) {
        struct pair *pair = &b->pair[op];
        size_t entries = entries_of(b, op), wide = op + 1 < b->ops ? (size_t)b->count[op + 1] : 1;
        b->before[op] = ARENA_ARRAY(b->scratch, double, (size_t)b->count[op]);
        b->after[op] = ARENA_ARRAY(b->scratch, double, (size_t)b->count[op]);
        pair->time = ARENA_ARRAY(b->scratch, double, entries);
        pair->real = ARENA_ARRAY(b->scratch, bool, entries);
        if (pair->uses && b->by_degrees)
            fill_by_degrees(b, op);
        for (size_t at = 0; pair->uses && !b->by_degrees && at < entries; at++)
            pair->time[at] =
                least_time(b, pair, b->option[op][at / wide], b->option[op + 1][at % wide]);
    }
}

/* ---- the chain ------------------------------------------------------------------------------- */

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static void pass_on(struct bound *b, int32_t op)
{
    double *to = b->before[op];
    for (int32_t j = 0; j < b->count[op]; j++)
        to[j] = op ? INFINITY : 0;
    for (int32_t i = 0; op && i < b->count[op - 1]; i++) {
        const double *row = b->pair[op - 1].time + (size_t)i * (size_t)b->count[op];
        double before = b->before[op - 1][i];
        for (int32_t j = 0; j < b->count[op]; j++)
            to[j] = smaller(to[j], before + row[j]);
    }
    for (int32_t j = 0; j < b->count[op]; j++)
        to[j] += floor_priced(b, op, j);
}

static void pass_back(struct bound *b, int32_t op)
{
    size_t wide = op + 1 < b->ops ? (size_t)b->count[op + 1] : 0;
    for (int32_t i = 0; i < b->count[op]; i++) {
        const double *row = b->pair[op].time + (size_t)i * wide;
        double least = wide ? INFINITY : 0;
        for (size_t j = 0; j < wide; j++)
            least = smaller(least, row[j] + b->after[op + 1][j]);
        b->after[op][i] = least + floor_priced(b, op, i);
    }
}

/* (3) at the bound's price, and the memory of its minimum. */
static double least_of_chain(struct bound *b, double *memory)
{
    double floor = 0;
    int32_t before = 0;
    for (int32_t op = 0; op < b->ops; op++)
        pass_on(b, op);
    for (int32_t op = b->ops - 1; op >= 0; op--)
        pass_back(b, op);
    *memory = 0;
    for (int32_t op = 0; op < b->ops; op++) {
        int32_t at = 0;
        double least = INFINITY;
        for (int32_t k = 0; k < b->count[op]; k++) {
            double pair = op ? b->pair[op - 1].time[before * b->count[op] + k] : 0;
            if (pair + b->after[op][k] < least) {
                least = pair + b->after[op][k];
                at = k;
            }
        }
        floor = op ? floor : least - floor_refund(b);
        *memory += memory_of(b, op, at);
        before = at;
    }
    return floor;
}

/* Leaves the best price and its chain in b. */
double floor_relax_chain(struct bound *b, double below)
{
    struct prices prices = {.best_floor = -INFINITY};
    double memory, floor;
    for (int i = 0; i < PRICES_OF_CHAIN && prices.best_floor < below; i++) {
        double price = b->price;
        floor = least_of_chain(b, &memory);
        bool fits = memory <= b->p->about.limit_bytes;
        judge_price(b, &prices, floor, fits);
        if (fits && price == 0)
            break;
    }
    b->price = prices.best;
    return least_of_chain(b, &memory);
}

/* ---- what is left ---------------------------------------------------------------------------- */

static void compact_pair(struct bound *b, int32_t op, const int32_t *count, int32_t *const *place)
{
    struct pair *pair = &b->pair[op];
    size_t to = 0, wide = (size_t)b->count[op + 1];
    for (int32_t i = 0; i < count[op]; i++)
        for (int32_t j = 0; j < count[op + 1]; j++, to++) {
            size_t from = (size_t)place[op][i] * wide + (size_t)place[op + 1][j];
            pair->time[to] = pair->time[from];
            pair->real[to] = pair->real[from];
        }
}

/* Drops options that the chain puts above a time. */
static void drop_from_chain(struct bound *b, double below)
{
    struct arena *scratch = arena_new();
    int32_t *count = ARENA_ARRAY(scratch, int32_t, (size_t)b->ops);
    int32_t **place = ARENA_ARRAY(scratch, int32_t *, (size_t)b->ops);
    for (int32_t op = 0; op < b->ops; op++) {
        place[op] = ARENA_ARRAY(scratch, int32_t, (size_t)b->count[op]);
        for (int32_t k = 0; k < b->count[op]; k++)
            if (b->before[op][k] + b->after[op][k] - floor_priced(b, op, k) - floor_refund(b) <
                below)
                place[op][count[op]++] = k;
    }
    for (int32_t op = 0; op + 1 < b->ops; op++)
        compact_pair(b, op, count, place);
    for (int32_t op = 0; op < b->ops; op++) {
        for (int32_t k = 0; k < count[op]; k++) {
            b->option[op][k] = b->option[op][place[op][k]];
            b->before[op][k] = b->before[op][place[op][k]];
            b->after[op][k] = b->after[op][place[op][k]];
        }
        b->count[op] = count[op];
    }
    arena_free(scratch);
}

/* Gives their real times to at most this many pairs that the chain has below a time; returns how
 * many. */
static int64_t time_pairs(struct bound *b, double below, int64_t most)
{
    int64_t timed = 0;
    for (int32_t op = 0; op + 1 < b->ops; op++) {
        struct pair *pair = &b->pair[op];
        size_t wide = (size_t)b->count[op + 1], entries = pair->uses ? entries_of(b, op) : 0;
        for (size_t at = 0; at < entries && timed < most; at++) {
            size_t i = at / wide, j = at % wide;
            double with = b->before[op][i] + pair->time[at] + b->after[op + 1][j] - floor_refund(b);
            if (pair->real[at] || with >= below)
                continue;
            pair->real[at] = true;
            pair->time[at] =
                fmax(pair->time[at], real_time(b, pair, b->option[op][i], b->option[op + 1][j]));
            timed++;
        }
    }
    return timed;
}

static int64_t most_timed(const struct bound *b)
{
    int64_t many = (int64_t)(MOST_TIMED_ON / (double)b->p->work->devices);
    many = many < MOST_TIMED_ALONE ? many : MOST_TIMED_ALONE;
    return b->p->work->floor_only ? many : MOST_TIMED;
}

static double refine(struct bound *b, double below)
{
    double floor = floor_relax_chain(b, below);
    int64_t left = most_timed(b);
    for (int i = 0; i < MOST_ROUNDS && left > 0 && floor < below; i++) {
        drop_from_chain(b, below);
        double above = fmin(TIMED_SHARE * (below - floor), TIMED_ABOVE * floor);
        int64_t timed = time_pairs(b, floor + above, left);
        if (!timed)
            break; /* all times in the minimum are real */
        left -= timed;
        floor = floor_relax_chain(b, below);
    }
    if (floor < below)
        drop_from_chain(b, below);
    return floor;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status bound_open(const struct layout_problem *p, struct bound *b)
{
    size_t ops = (size_t)p->about.model->ops;
    *b = (struct bound){.p = p, .scratch = arena_new(), .ops = p->about.model->ops};
    b->passes = ARENA_ARRAY(b->scratch, double, ops);
    b->updates = ARENA_ARRAY(b->scratch, double, ops);
    b->pair = ARENA_ARRAY(b->scratch, struct pair, ops);
    b->before = ARENA_ARRAY(b->scratch, double *, ops);
    b->after = ARENA_ARRAY(b->scratch, double *, ops);
    b->count = ARENA_ARRAY(b->scratch, int32_t, ops);
    b->option = ARENA_ARRAY(b->scratch, int32_t *, ops);
    for (int32_t op = 0; op < b->ops; op++) {
        b->count[op] = (int32_t)p->splits[op].len;
        b->option[op] = ARENA_ARRAY(b->scratch, int32_t, p->splits[op].len);
        for (int32_t k = 0; k < b->count[op]; k++)
            b->option[op][k] = k;
    }
    return floor_count_all(b);
}

/* Whether rounding left an operator without options, which can happen when the floor equals the
 * time to beat. */
static bool is_empty(const struct bound *b)
{
    for (int32_t op = 0; op < b->ops; op++)
        if (!b->count[op])
            return true;
    return false;
}

static double find_floor(struct bound *b, double below)
{
    if (least_memory(b) > b->p->about.limit_bytes)
        return INFINITY;
    double floor = relax_alone(b);
    if (floor >= below || isinf(below))
        return floor;
    drop_alone(b, floor, below);
    if (b->p->work->floor_only)
        floor = fmax(floor, floor_drop_classes(b, below));
    bool far = b->p->work->floor_only && floor < below * (1 - WITHIN_REACH);
    if (floor >= below || far || is_empty(b) || floor_all_pairs(b) > MOST_PAIRS)
        return fmin(below, floor);
    floor_fill_pairs(b);
    /* About the options that were dropped, no more is known than that they are above `below`. */
    return fmin(below, fmax(floor, refine(b, below)));
}

weft_status layout_find_floor(struct layout_problem *p)
{
    struct bound b;
    double below = p->about.below_ns > 0 ? p->about.below_ns : INFINITY;
    weft_status status;
    TRY(bound_open(p, &b));
    p->floor_ns = find_floor(&b, below);
    if (is_empty(&b))
        p->floor_ns = fmax(p->floor_ns, below);
    for (int32_t op = 0; p->about.drop && p->floor_ns < below && op < b.ops; op++)
        layout_keep_options(p, op, b.option[op], b.count[op]);
done:
    arena_free(b.scratch);
    return status;
}

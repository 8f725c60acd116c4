/* tune.c - what a framework takes besides degrees (room.h): recomputation of a few layers of each
 * part, and parts with different numbers of layers.
 *
 * The first n layers of each part are recomputed. Memory falls and time grows with n, so the least
 * n that fits is the fastest. It is found by bisection, from degrees that fit with all layers
 * recomputed. Or all but attention and every second product is recomputed. All L layers of a part recomputed take at
 * most R = RECOMPUTED_AT_MOST times as long as none, so few degrees are worth it, and a bisection ends where
 *
 *   time of n layers >= time of L layers * (1 / R + (1 - 1 / R) * n / L)                        (0)
 *
 * is no faster than the best for the fewest layers that may still fit: one more than what does not.
 *
 * If the embedding counts as a layers, and norm, head and loss as b, L + a + b units are shared out
 * evenly,
 *
 *   layers of part 0 = u - a, of the last part u' - b, of all others u                          (1)
 *
 * with (a, b) from a short list: Megatron-LM's own arguments count 0 or 1 of each.
 */
#include <string.h>

#include "search/auto/room.h"

/* One more forward pass, which is a third of the work. */
static const double RECOMPUTED_AT_MOST = 4.0 / 3;
/* How many degrees are tuned, the fastest first. */
enum { MOST_BLOCKS = 24, MOST_LAYOUTS = 4 };
/* After the first of these only degrees are tuned that fill less than ROOMY of memory: they gain most. */
enum { MOST_FULL_BLOCKS = 8 };
static const double ROOMY = 0.75;
static const struct {
    int64_t first, last; /* a and b of (1) */
} WEIGHTS[] = {{0, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}};

static weft_status try_tuned(struct join *join, const struct degrees *d, const int64_t *layers,
                             int64_t block, const char *words, const struct trial **trial)
{
    struct planned *out = join->out;
    struct plan *plan = NULL;
    *trial = NULL;
    if (plan_of_degrees(join->request->model, join->request->cluster, d, layers, block, &plan) ||
        plan_check(plan)) {
        error_clear();
        plan_free(plan);
        return WEFT_OK;
    }
    weft_status status = try_plan(
        join->request, join->cost, plan,
        arena_printf(out->arena, "%s%s",
                     degrees_text(out->arena, join->request->model, d, &join->request->pins),
                     words),
        out, trial);
    if (!status)
        join_report(join);
    return status;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int64_t layers_per_part(const struct plan_request *request, const struct degrees *d)
{
    return ceil_div(request->model->layers, d->pp * d->pieces);
}

/* Whether n of all the layers of a part would be slower than the best, by (0). */
static bool is_beaten(const struct join *join, double full_ns, int64_t n, int64_t all)
{
    const struct trial *best = join_best(join->out, NULL);
    double none = 1 / RECOMPUTED_AT_MOST, least = none + (1 - none) * (double)n / (double)all;
    return best && full_ns * least > (double)best->iteration_ns;
}

/* Whether nothing that is tuned here can make a point faster than the best. Products that are kept instead of
 * layers may take as little time as nothing recomputed. */
static bool is_hopeless(const struct join *join, const struct grid_point *point)
{
    int64_t all = layers_per_part(join->request, &point->degrees);
    int64_t fewest = join->request->target->can.products ? 0 : 1;
    return is_beaten(join, (double)point->iteration_ns, fewest, all);
}

/* Finds the least block that fits by bisection; where the target can keep products instead, that is tried, too. */
static weft_status try_blocks(struct join *join, struct degrees d, double full_ns)
{
    /* `low` does not fit, `high` does */
    const struct abilities *can = &join->request->target->can;
    int64_t all = layers_per_part(join->request, &d), low = 0, high = can->block ? all : 0;
    const struct trial *kept;
    weft_status status = WEFT_OK;
    d.recompute = RECOMPUTE_FULL;
    if (can->products)
        TRY(try_tuned(join, &d, NULL, BLOCK_PRODUCTS, ", all but products", &kept));
    while (high - low > 1 && !is_beaten(join, full_ns, low + 1, all) && !join_over(join)) {
        int64_t middle = (low + high) / 2;
        const struct trial *trial;
        const char *words =
            arena_printf(join->out->arena, ", of each part %s", counted(middle, "layer").s);
        TRY(try_tuned(join, &d, NULL, middle, words, &trial));
        if (!trial)
            break;
        if (trial->fits)
            high = middle;
        else
            low = middle;
    }
done:
    return status;
}

static bool is_roomy(const struct trial *trial)
{
    return (double)trial->needed_bytes < ROOMY * (double)trial->limit_bytes;
}

static weft_status tune_blocks(struct join *join)
{
    struct arena *scratch = arena_new();
    struct plan_request request = *join->request;
    struct grid grid;
    weft_status status;
    request.pins.has_recompute = true;
    request.pins.recompute = RECOMPUTE_FULL;
    TRY(grid_search(&request, join->cost, MOST_BLOCKS, scratch, &grid));
    for (size_t i = 0; i < grid.best.len && !join_over(join); i++) {
        const struct grid_point *point = &grid.best.data[i];
        const struct trial *trial;
        if (!point->fits || is_hopeless(join, point))
            continue;
        TRY(join_try(join, &request, &point->degrees, &trial));
        if (trial && trial->fits && (i < MOST_FULL_BLOCKS || is_roomy(trial)))
            TRY(try_blocks(join, point->degrees, (double)trial->iteration_ns));
    }
done:
    arena_free(scratch);
    return status;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Computes (1); false: a part in the middle would hold nothing. */
static bool deal_out(int64_t layers, int64_t parts, int64_t first, int64_t last, int64_t *out)
{
    int64_t units = layers + first + last, more = units % parts;
    for (int64_t p = 0; p < parts; p++) {
        bool end = p == 0 || p == parts - 1;
        out[p] = units / parts - (p == 0) * first - (p == parts - 1) * last;
        if (!end && more > 0) {
            out[p]++;
            more--;
        }
        if (out[p] < 0 || (!end && out[p] == 0))
            return false;
    }
    /* The rest, if there are two parts, or more units left than parts in the middle. */
    out[0] += more;
    return true;
}

static weft_status try_layouts(struct join *join, const struct trial *from)
{
    struct arena *scratch = arena_new();
    const struct degrees d = from->degrees;
    int64_t parts = d.pp * d.pieces;
    int64_t *layers = ARENA_ARRAY(scratch, int64_t, (size_t)parts);
    int64_t layers_left =
        join->request->model->layers % parts; /* 0: degrees cut them evenly, too */
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(WEIGHTS) && !join_over(join); i++) {
        const struct trial *trial;
        bool even = WEIGHTS[i].first + WEIGHTS[i].last == 0 && layers_left == 0;
        if (!even && deal_out(join->request->model->layers, parts, WEIGHTS[i].first,
                              WEIGHTS[i].last, layers))
            TRY(try_tuned(join, &d, layers, 0,
                          arena_printf(join->out->arena, ", ends weigh %lld and %lld layers",
                                       (long long)WEIGHTS[i].first, (long long)WEIGHTS[i].last),
                          &trial));
    }
done:
    arena_free(scratch);
    return status;
}

/* Finds the fastest degrees with several stages, and tries other layouts of them. */
static weft_status tune_layouts(struct join *join)
{
    struct trial chosen[MOST_LAYOUTS];
    size_t count = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < join->out->trials.len; i++) {
        const struct trial *trial = &join->out->trials.data[i];
        if (!trial->fits || trial->plan || trial->degrees.pp == 1)
            continue;
        size_t at = count;
        while (at > 0 && trial->iteration_ns < chosen[at - 1].iteration_ns)
            at--;
        if (at == MOST_LAYOUTS)
            continue;
        count += count < MOST_LAYOUTS;
        memmove(&chosen[at + 1], &chosen[at], (count - at - 1) * sizeof *chosen);
        chosen[at] = *trial;
    }
    for (size_t i = 0; i < count; i++)
        TRY(try_layouts(join, &chosen[i]));
done:
    return status;
}

weft_status tune_numbers(struct join *join)
{
    const struct plan_request *request = join->request;
    const struct abilities *can = &request->target->can;
    weft_status status = WEFT_OK;
    if ((can->block || can->products) && !request->pins.has_recompute &&
        !request->options.batch_auto)
        TRY(tune_blocks(join));
    if (can->uneven && !join_over(join))
        TRY(tune_layouts(join));
done:
    return status;
}

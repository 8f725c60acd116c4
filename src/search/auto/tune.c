/* tune.c - what a framework takes besides degrees (room.h): recomputation of a few layers of each
 * part, and parts with different numbers of layers.
 *
 * How many layers of each part are recomputed: blocks.c, from degrees that fit with all layers recomputed. Or all but
 * attention and every second product is recomputed.
 *
 * If the embedding counts as a layers, and norm, head and loss as b, L + a + b units are shared out
 * evenly,
 *
 *   layers of part 0 = u - a, of the last part u' - b, of all others u                          (1)
 *
 * with (a, b) from a short list: Megatron-LM's own arguments count 0 or 1 of each. Layouts are estimated, and those that
 * may be as fast as the best are simulated.
 */
#include <string.h>

#include "search/auto/room.h"

/* How many degrees are tuned, the fastest first. */
enum { MOST_BLOCKS = 24, MOST_LAYOUTS = 4 };
/* After the first of these only degrees are tuned that fill less than ROOMY of memory: they gain most. */
enum { MOST_FULL_BLOCKS = 8 };
static const double ROOMY = 0.75;
static const struct {
    int64_t first, last; /* a and b of (1) */
} WEIGHTS[] = {{0, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}};

struct plan *tuned_plan(const struct join *join, const struct degrees *d, const int64_t *layers,
                        int64_t block)
{
    struct plan *plan = NULL;
    if (plan_of_degrees(join->request->model, join->request->cluster, d, layers, block, &plan) ||
        plan_check(plan)) {
        error_clear();
        plan_free(plan);
        return NULL;
    }
    return plan;
}

weft_status try_tuned(struct join *join, const struct degrees *d, struct plan *plan,
                      const char *words, const struct trial **trial)
{
    struct planned *out = join->out;
    const char *text = degrees_text(out->arena, join->request->model, d, &join->request->pins);
    weft_status status = try_plan(join->request, join->cost, plan,
                                  arena_printf(out->arena, "%s%s", text, words), out, trial);
    if (!status)
        join_report(join);
    return status;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Products that are kept instead of layers may take as little time as nothing recomputed. */
static weft_status try_recomputed(struct join *join, struct degrees d, struct block_times times)
{
    const struct abilities *can = &join->request->target->can;
    const struct trial *kept;
    weft_status status = WEFT_OK;
    struct plan *plan = can->products ? tuned_plan(join, &d, NULL, BLOCK_PRODUCTS) : NULL;
    if (plan)
        TRY(try_tuned(join, &d, plan, ", all but products", &kept));
    if (can->block)
        TRY(blocks_try(join, d, times));
done:
    return status;
}

static bool is_roomy(const struct trial *trial)
{
    return (double)trial->needed_bytes < ROOMY * (double)trial->limit_bytes;
}

static weft_status tune_blocks(struct join *join, const struct plan_request *asked)
{
    struct arena *scratch = arena_new();
    struct plan_request request = *asked;
    struct grid grid;
    int64_t fewest = request.target->can.products ? 0 : 1;
    weft_status status;
    request.pins.has_recompute = true;
    request.pins.recompute = RECOMPUTE_FULL;
    request.known_ns = blocks_most_ns(join);
    TRY(grid_search(&request, join->cost, MOST_BLOCKS, scratch, &grid));
    for (size_t i = 0; i < grid.best.len && !join_over(join); i++) {
        const struct grid_point *point = &grid.best.data[i];
        const struct trial *trial;
        struct trial full = {.degrees = point->degrees, .iteration_ns = point->iteration_ns};
        if (!point->fits || blocks_beaten(join, &full.degrees, block_times(&full), fewest))
            continue;
        TRY(join_try(join, &request, &point->degrees, &trial));
        if (trial && trial->fits && (i < MOST_FULL_BLOCKS || is_roomy(trial)))
            TRY(try_recomputed(join, full.degrees, block_times(trial)));
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

weft_status estimate_layout(struct join *join, const struct plan *plan, struct arena *scratch,
                            struct estimate *out)
{
    struct estimate_settings settings = grid_estimate_settings(join->request, plan);
    struct estimator *estimator;
    struct candidate *candidate;
    weft_status status;
    TRY(estimators_find(join->request->estimators, &settings, &estimator));
    TRY(candidate_of_plan(estimator, plan, scratch, &candidate));
    TRY(estimate_candidate(estimator, candidate, out));
done:
    return status;
}

/* The layout that degrees have by themselves; off: its simulated over its estimated time. */
struct own_layout {
    struct plan *plan; /* NULL: they make none */
    double off;
};
static weft_status find_own(struct join *join, const struct trial *from, struct arena *scratch,
                            struct own_layout *own)
{
    struct estimate estimate;
    weft_status status = WEFT_OK;
    *own = (struct own_layout){tuned_plan(join, &from->degrees, NULL, 0), 0};
    if (!own->plan)
        return WEFT_OK;
    TRY(estimate_layout(join, own->plan, scratch, &estimate));
    own->off = (double)from->iteration_ns / (double)estimate.iteration_ns;
done:
    return status;
}

/* Simulates another layout if that, as far off as the degrees' own, may be as fast as the best. */
static weft_status try_layout(struct join *join, const struct degrees *d, const int64_t *layers,
                              const struct own_layout *own, const char *words)
{
    struct arena *scratch = arena_new();
    struct plan *plan = tuned_plan(join, d, layers, 0);
    const struct trial *best = join_best(join->out, NULL), *trial;
    struct estimate estimate;
    weft_status status = WEFT_OK;
    if (!plan || (own->plan && is_same_plan(own->plan, plan)))
        goto done;
    TRY(estimate_layout(join, plan, scratch, &estimate));
    bool slow = best && own->off * (double)estimate.iteration_ns >
                            (double)best->iteration_ns * (1 + AUTO_NEAR);
    if (!slow) {
        struct plan *tried = plan;
        plan = NULL;
        TRY(try_tuned(join, d, tried, words, &trial));
    }
done:
    plan_free(plan);
    arena_free(scratch);
    return status;
}

static weft_status try_layouts(struct join *join, const struct trial *from)
{
    struct arena *scratch = arena_new();
    const struct degrees d = from->degrees;
    int64_t parts = d.pp * d.pieces;
    int64_t *layers = ARENA_ARRAY(scratch, int64_t, (size_t)parts);
    int64_t layers_left =
        join->request->model->layers % parts; /* 0: degrees cut them evenly, too */
    struct own_layout own;
    weft_status status;
    TRY(find_own(join, from, scratch, &own));
    for (size_t i = 0; i < COUNT_OF(WEIGHTS) && !join_over(join); i++) {
        bool even = WEIGHTS[i].first + WEIGHTS[i].last == 0 && layers_left == 0;
        if (!even && deal_out(join->request->model->layers, parts, WEIGHTS[i].first,
                              WEIGHTS[i].last, layers))
            TRY(try_layout(join, &d, layers, &own,
                           arena_printf(join->out->arena, ", ends weigh %lld and %lld layers",
                                        (long long)WEIGHTS[i].first, (long long)WEIGHTS[i].last)));
    }
done:
    plan_free(own.plan);
    arena_free(scratch);
    return status;
}

/* Finds the fastest degrees with several stages since the last time, and tries other layouts of them. */
static weft_status tune_layouts(struct join *join)
{
    struct trial chosen[MOST_LAYOUTS];
    size_t count = 0;
    weft_status status = WEFT_OK;
    for (size_t i = join->tuned; i < join->out->trials.len; i++) {
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
    join->tuned = join->out->trials.len;
done:
    return status;
}

weft_status tune_numbers(struct join *join, const struct plan_request *request)
{
    const struct abilities *can = &request->target->can;
    weft_status status = WEFT_OK;
    if ((can->block || can->products) && !request->pins.has_recompute &&
        !request->options.batch_auto)
        TRY(tune_blocks(join, request));
    if (can->uneven && !join_over(join))
        TRY(tune_layouts(join));
done:
    return status;
}

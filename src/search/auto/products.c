/* products.c - all layers recomputed but attention and every second product (room.h), where the target runs any plan.
 *
 * That keeps more than whole layers recomputed do and takes less time, so degrees are worth it that leave room: rarely the
 * fastest of those with whole layers recomputed, which fill memory. So many of these are estimated anew with products kept,
 * and the fastest that fit are simulated.
 *
 *   I1  Only if the target runs any plan, keeps products, and nobody has said what is recomputed. Targets that take degrees
 *       try it with their other numbers (tune.c).
 */
#include <string.h>

#include "search/auto/room.h"

/* How many degrees are estimated, and how many simulated, the fastest first. */
enum { MOST_ESTIMATED = 96, MOST_TRIED = 4 };

struct guess {
    struct degrees degrees;
    int64_t iteration_ns; /* estimated */
};

/* I1 */
static bool has_products(const struct plan_request *request)
{
    const struct target *target = request->target;
    return target && target->any && target->can.products && !request->pins.has_recompute &&
           !request->options.batch_auto;
}

/* Estimates degrees with products kept; *ns is 0 if they make no plan or do not fit. */
static weft_status estimate_kept(struct join *join, const struct degrees *d, int64_t *ns)
{
    struct arena *scratch = arena_new();
    struct plan *plan = tuned_plan(join, d, NULL, BLOCK_PRODUCTS);
    struct estimate estimate;
    weft_status status = WEFT_OK;
    *ns = 0;
    if (plan)
        TRY(estimate_layout(join, plan, scratch, &estimate));
    if (plan && estimate.fits)
        *ns = estimate.iteration_ns;
done:
    plan_free(plan);
    arena_free(scratch);
    return status;
}

static size_t insert_kept(struct guess *best, size_t count, struct guess guess)
{
    size_t at = count;
    while (at > 0 && guess.iteration_ns < best[at - 1].iteration_ns)
        at--;
    if (at == MOST_TRIED)
        return count;
    count += count < MOST_TRIED;
    memmove(&best[at + 1], &best[at], (count - at - 1) * sizeof *best);
    best[at] = guess;
    return count;
}

/* The fastest by estimate, of the grid with all layers recomputed. */
static weft_status find_kept(struct join *join, const struct plan_request *asked,
                             struct arena *scratch, struct guess *best, size_t *count)
{
    struct plan_request request = *asked;
    struct grid grid;
    weft_status status;
    request.pins.has_recompute = true;
    request.pins.recompute = RECOMPUTE_FULL;
    request.known_ns = blocks_most_ns(join);
    TRY(grid_search(&request, join->cost, MOST_ESTIMATED, scratch, &grid));
    join->out->candidates += grid.estimates;
    for (size_t i = 0; i < grid.best.len && grid.best.data[i].fits && !join_over(join); i++) {
        struct guess guess = {.degrees = grid.best.data[i].degrees};
        TRY(estimate_kept(join, &guess.degrees, &guess.iteration_ns));
        if (guess.iteration_ns)
            *count = insert_kept(best, *count, guess);
    }
done:
    return status;
}

weft_status recompute_but_products(struct join *join, const struct plan_request *request)
{
    struct arena *scratch = arena_new();
    struct guess best[MOST_TRIED];
    size_t count = 0;
    weft_status status = WEFT_OK;
    if (has_products(request))
        TRY(find_kept(join, request, scratch, best, &count));
    for (size_t i = 0; i < count && !join_over(join); i++) {
        const struct trial *fastest = join_best(join->out, NULL), *trial;
        double least = (double)best[i].iteration_ns * (1 - AUTO_FAR_OFF);
        if (!fastest || least < (double)fastest->iteration_ns)
            TRY(try_tuned(join, &best[i].degrees,
                          tuned_plan(join, &best[i].degrees, NULL, BLOCK_PRODUCTS),
                          ", all but products", &trial));
    }
done:
    arena_free(scratch);
    return status;
}

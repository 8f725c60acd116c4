/* finalists.c - which of the grid's points are simulated.
 *
 *   I1  Points are simulated in the order of their estimates, until one is so much slower than the best simulated time
 *       that an error of AUTO_FAR_OFF would not make up for it, but at least LEAST_TRIALS of them.
 *   I2  Of points that differ only in the micro-batch, the MOST_ALIKE fastest by estimate: a batch of 9,699,690 samples
 *       has 256 divisors, and a layout as many micro-batches, of which neighbours are about as fast.
 *   I3  Of points that do not fit, at most MISSES.
 */
#include <string.h>

#include "search/auto/room.h"

enum { LEAST_TRIALS = 4, MISSES = 8, MOST_ALIKE = 4 };

/* Degrees but for the micro-batch, in words. */
static const char *words_of_layout(struct arena *scratch, const struct plan_request *request,
                                   struct degrees d)
{
    d.micro_batch = 1;
    return degrees_text(scratch, request->model, &d, &request->pins);
}

/* A batch with many divisors has many micro-batches that are about as fast: whether MOST_ALIKE of the point's layout
 * are before it. */
static bool is_crowded(struct arena *scratch, const struct plan_request *request,
                       const struct grid *grid, size_t at)
{
    const char *own = words_of_layout(scratch, request, grid->best.data[at].degrees);
    int alike = 0;
    for (size_t i = 0; i < at && alike < MOST_ALIKE; i++)
        alike += strcmp(words_of_layout(scratch, request, grid->best.data[i].degrees), own) == 0;
    return alike == MOST_ALIKE;
}

weft_status finalists_try(struct join *join, const struct plan_request *request,
                          const struct grid *grid, struct arena *scratch)
{
    weft_status status = WEFT_OK;
    double best_ns = 0;
    int64_t tried = 0;
    join->progress.all += (int64_t)grid->best.len;
    for (size_t i = 0; i < grid->best.len && (!join_over(join) || tried == 0); i++) {
        const struct grid_point *point = &grid->best.data[i];
        const struct trial *trial;
        bool after = best_ns > 0 && (double)point->iteration_ns > best_ns * (1 + AUTO_FAR_OFF);
        if (tried >= LEAST_TRIALS && (after || (!point->fits && tried >= MISSES)))
            break;
        join->progress.done++;
        if (is_crowded(scratch, request, grid, i))
            continue;
        TRY(join_try(join, request, &point->degrees, &trial));
        if (!trial)
            continue;
        tried++;
        if (trial->fits && (best_ns == 0 || (double)trial->iteration_ns < best_ns))
            best_ns = (double)trial->iteration_ns;
        join_report(join);
    }
done:
    return status;
}

weft_status roomier_try(struct join *join, const struct plan_request *request,
                        const struct grid *grid)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < grid->roomier.len && !join_over(join); i++) {
        const struct grid_point *point = &grid->roomier.data[i];
        const struct trial *trial, *best = join_best(join->out, NULL);
        if (best && point->iteration_ns >= best->iteration_ns)
            break;
        TRY(join_try(join, request, &point->degrees, &trial));
        if (trial)
            join_report(join);
        if (trial && trial_excess(trial) <= WHAT_IF_MORE_BYTES)
            break;
    }
done:
    return status;
}

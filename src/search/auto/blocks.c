/* blocks.c - recomputation of the first n layers of each part (room.h), where nothing recomputed does not fit.
 *
 * Memory falls and time grows with n, so the least n that fits is the fastest. It is found by bisection. All L layers of
 * a part recomputed take at most R = RECOMPUTED_AT_MOST times as long as none, and the bisection ends where
 *
 *   time of n layers >= none + (all - none) * n / L                                              (1)
 *
 * is no faster than the best for the fewest layers that may still fit: one more than what does not. Of none and all a
 * trial says: with everything recomputed both, none >= all / R; with less of it none >= its time / R; with nothing
 * recomputed none, which is also the least that all can take.
 *
 *   I1  Only where the request's target, or the one whose software is asked for, has such a number, and nobody has said
 *       what is recomputed.
 */
#include <string.h>

#include "search/auto/room.h"

/* One more forward pass, which is a third of the work. */
static const double RECOMPUTED_AT_MOST = 4.0 / 3;
/* How many degrees of a search without a target get a number of layers of their own, the most promising first. */
enum { MOST_BASES = 4 };

bool has_blocks(const struct plan_request *request)
{
    const struct target *target =
        request->target ? request->target : target_with(&request->pins.software);
    return target && target->can.block && !request->pins.has_recompute &&
           !request->options.batch_auto;
}

struct block_times block_times(const struct trial *trial)
{
    double ns = (double)trial->iteration_ns;
    enum recompute recompute = trial->degrees.recompute;
    double none = recompute == RECOMPUTE_NONE ? ns : ns / RECOMPUTED_AT_MOST;
    return (struct block_times){none, recompute == RECOMPUTE_FULL ? ns : none};
}

int64_t blocks_most_ns(const struct join *join)
{
    const struct trial *best = join_best(join->out, NULL);
    return best ? (int64_t)((double)best->iteration_ns * RECOMPUTED_AT_MOST) : 0;
}

bool blocks_beaten(const struct join *join, const struct degrees *d, struct block_times times,
                   int64_t n)
{
    const struct trial *best = join_best(join->out, NULL);
    int64_t all = ceil_div(join->request->model->layers, d->pp * d->pieces);
    double least =
        times.none_ns + (times.all_ns - times.none_ns) * (double)n / (double)all; /* (1) */
    return best && least > (double)best->iteration_ns;
}

weft_status blocks_try(struct join *join, struct degrees d, struct block_times times)
{
    /* `low` does not fit, `high` does */
    int64_t low = 0, high = ceil_div(join->request->model->layers, d.pp * d.pieces);
    weft_status status = WEFT_OK;
    d.recompute = RECOMPUTE_FULL;
    d.modules = 0;
    while (high - low > 1 && !blocks_beaten(join, &d, times, low + 1) && !join_over(join)) {
        const struct trial *trial;
        d.recompute_layers = (low + high) / 2;
        TRY(join_try(join, join->request, &d, &trial));
        if (!trial)
            break;
        join_report(join);
        *(trial->fits ? &high : &low) = d.recompute_layers;
    }
done:
    return status;
}

/* ---- without a target ------------------------------------------------------------------------ */

/* Whether some layers might do for it what all of them, or none, do not. */
static bool is_base(const struct trial *trial)
{
    const struct degrees *d = &trial->degrees;
    return !trial->plan && !d->recompute_layers && trial->fits == (d->recompute != RECOMPUTE_NONE);
}

static bool same_but_recomputation(const struct join *join, const struct trial *a,
                                   const struct trial *b)
{
    struct degrees d = a->degrees;
    d.recompute = b->degrees.recompute;
    d.modules = b->degrees.modules;
    return strcmp(degrees_text(join->out->arena, join->request->model, &d, &join->request->pins),
                  b->text) == 0;
}

/* Takes the trial into the list, the least possible time first, unless it has the same degrees. */
static size_t note_base(const struct join *join, struct trial *base, size_t count,
                        const struct trial *trial)
{
    size_t at = count;
    for (size_t i = 0; i < count; i++)
        if (same_but_recomputation(join, trial, &base[i]))
            return count;
    while (at > 0 && block_times(trial).none_ns < block_times(&base[at - 1]).none_ns)
        at--;
    if (at == MOST_BASES)
        return count;
    count += count < MOST_BASES;
    memmove(&base[at + 1], &base[at], (count - at - 1) * sizeof *base);
    base[at] = *trial;
    return count;
}

weft_status recompute_blocks(struct join *join)
{
    struct trial base[MOST_BASES]; /* copies, because the trials may move in memory */
    size_t count = 0;
    weft_status status = WEFT_OK;
    if (!has_blocks(join->request))
        return WEFT_OK;
    for (size_t i = 0; i < join->out->trials.len; i++)
        if (is_base(&join->out->trials.data[i]))
            count = note_base(join, base, count, &join->out->trials.data[i]);
    for (size_t i = 0; i < count && !join_over(join); i++)
        TRY(blocks_try(join, base[i].degrees, block_times(&base[i])));
done:
    return status;
}

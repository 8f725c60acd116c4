/* shared_experts.c - a shared expert beside the tokens' way to the other experts and back (OVERLAP_SHARED).
 *
 * Of a layer  ... dispatch, up, ..., combine, S_1 .. S_n, sum  the operators S between the combine and the first that reads it
 * need nothing of the experts. Those before their last product run beside the tokens that `up` waits for, the others beside those
 * that the combine waits for; backward the other way round (Megatron-LM, transformer/moe/shared_experts.py: fc1 with the dispatch,
 * fc2 with the combine).
 *
 *   I1  Items are moved, not what is kept: lifetimes are those of the order of the operators.
 *   I2  Pairs of passes hide tokens by other means; Megatron-LM has one or the other (arguments.py).
 *   I3  What a run of the executor does stays in the order of the operators, in which its buffers live.
 */
#include "compile/block_writer.h"

static enum op_kind kind_of(const struct block_writer *w, int64_t instance)
{
    return laid_of(w->b, instance)->op->kind;
}

/* The combine at or after an instance within its layer, else the one before it; -1: there is none. */
static int64_t combine_near(const struct block_writer *w, int64_t instance)
{
    const struct plan *plan = w->b->plan;
    const struct part *part = &plan->part[w->part];
    for (int64_t i = instance; i < part->first + part->count; i++) {
        if (kind_of(w, i) == OP_COMBINE)
            return i;
        if (plan->ends_layer[i])
            break;
    }
    for (int64_t i = instance - 1; i >= part->first && !plan->ends_layer[i]; i--)
        if (kind_of(w, i) == OP_COMBINE)
            return i;
    return -1;
}

static bool reads(const struct block_writer *w, int64_t reader, int64_t first, int64_t last)
{
    const struct build *b = w->b;
    for (int64_t u = b->use_first[reader]; u < b->use_first[reader + 1]; u++)
        if (b->use[u].source >= first && b->use[u].source <= last)
            return true;
    return false;
}

/* S, and its last product; false: there is none, or it needs what the experts make. */
static bool find_shared(const struct block_writer *w, struct shared_run *run)
{
    const struct part *part = &w->b->plan->part[w->part];
    int64_t end = run->combine + 1;
    run->first = run->product = end;
    while (end < part->first + part->count && !reads(w, end, run->combine, run->combine)) {
        if (reads(w, end, run->up - 1, run->combine) || w->b->plan->ends_layer[end])
            return false;
        run->product = kind_of(w, end) == OP_LINEAR ? end : run->product;
        end++;
    }
    run->end = end;
    return end < part->first + part->count && end > run->first;
}

bool shared_run_of(const struct block_writer *w, int64_t instance, struct shared_run *run)
{
    const struct plan *plan = w->b->plan;
    int64_t first = plan->part[w->part].first;
    if (!(plan->overlap & OVERLAP_SHARED) || !tokens_alone(w) || w->b->graph->executed) /* I2, I3 */
        return false;
    run->combine = run->up = combine_near(w, instance);
    while (run->up >= first && kind_of(w, run->up) != OP_DISPATCH)
        run->up--;
    bool whole = run->up >= first && !plan->ends_layer[run->up];
    run->up++;
    return whole && choice_sends_tokens(plan_choice(plan, run->up)) && find_shared(w, run);
}

bool runs_beside(const struct shared_run *run, int64_t instance, int64_t *first, int64_t *end)
{
    *first = instance == run->up ? run->first : run->product;
    *end = instance == run->up ? run->product : run->end;
    return instance == run->up || instance == run->combine;
}

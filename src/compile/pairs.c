/* pairs.c - a forward and a backward pass of two micro-batches, executed as one (OVERLAP_EXPERTS).
 *
 * While tokens of one of them are on their way to experts or back, the other computes. Each block
 * is a row of *stretches*: a stretch ends before the first operator that waits for tokens which
 * were sent within it, so that work which does not need them (weight gradients during a reshard,
 * with OVERLAP_TENSOR) still belongs to it. With n and m stretches, stretch i of the backward block
 * begins at i / n of the pair and stretch k of the forward block at (k + 1/2) / m, which gives the
 * order
 *
 *   computes  B0           F0            B1              F1              B2   ...
 *             (residual)   attention     experts' back   experts         attention's back
 *   sends         combine's gradient  dispatch    dispatch's gradient  combine               (1)
 *
 * for one layer each: the order of Megatron-LM's combined 1F1B (combined_1f1b.py) and of DualPipe.
 *
 *   I1  Each block's items keep their order, and lanes are shared: a task that waits for a later
 *       task of the pair in (1) waits for one of its own block.
 *   I2  If neither block sends tokens the two run one after the other, the forward block first.
 *   I3  Tokens have a stream of their own: what the other pass exchanges meanwhile, such as the features of tensor
 *       parallelism, is another communicator's and does not wait for them. A block's own steps keep their order.
 */
#include "compile/graph.h"

static int32_t *stretches_of(struct arena *keep, const struct block *block, int32_t *count)
{
    int32_t *of = ARENA_ARRAY(keep, int32_t, (size_t)block->items + 1);
    int32_t sent = -1; /* the first step of the stretch that sends tokens */
    *count = 0;
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        if (item->kind == ITEM_OP && sent >= 0 && item->needs >= sent) {
            (*count)++;
            sent = -1;
        }
        if (item->tokens && sent < 0)
            sent = i;
        of[i] = *count;
    }
    of[block->items] = ++*count;
    return of;
}

struct pair_turns turns_of_pair(struct arena *keep, const struct block *forward,
                                const struct block *backward)
{
    const struct block *block[] = {forward, backward};
    int32_t *of[2], count[2], at[2] = {0, 0}, done[2] = {0, 0};
    struct pair_turns turns = {0};
    for (int k = 0; k < 2; k++)
        of[k] = stretches_of(keep, block[k], &count[k]);
    bool apart = count[0] == 1 && count[1] == 1; /* I2 */
    while (done[0] < count[0] || done[1] < count[1]) {
        int64_t forward_at = (2 * (int64_t)done[0] + 1) * count[1];
        int64_t backward_at = 2 * (int64_t)done[1] * count[0];
        bool back = apart ? done[0] == 1 : done[0] == count[0] || backward_at <= forward_at;
        back = back && done[1] < count[1];
        int32_t first = at[back];
        while (at[back] < block[back]->items && of[back][at[back]] == done[back])
            at[back]++;
        done[back]++;
        struct pair_turn turn = {back, first, at[back]};
        array_push(keep, &turns, turn);
    }
    return turns;
}

/* parts.c - tensors that wait in parts between the passes (ZeRO-R's partitioned activations; Proteus, section II-A: the memory
 * configuration of a tensor apart from the split of its operator).
 *
 * Devices that hold the same of an output keep a part each after the last forward pass has read it. Before the backward pass,
 * or a forward pass that runs again, reads it, the parts are gathered. With n such devices an output of B bytes takes
 *
 *   B / n between the passes, and one all-gather of B bytes for every layer that reads it                       (1)
 *
 *   I1  What is kept as it is: an output that its own backward pass reads (KEEP_OUTPUT), a fused tensor whose parts are read
 *       one by one, a partial sum, and one that is not divided by the number of devices (layout_in_parts).
 *   I2  Only what the forward pass left is in parts: an output that was made again, or a reader's own copy in another layout,
 *       is whole.
 *   I3  What is gathered later is cut right after the last item of the forward block that reads it.
 */
#include "compile/build.h"

#include <string.h>

static bool read_in_shares(const struct build *b, int64_t instance)
{
    bool shares = false;
    for (int32_t u = b->last_use[instance]; u >= 0; u = b->use[u].next)
        shares |= b->use[u].joint->part;
    return shares;
}

void find_parts(struct build *b)
{
    const struct plan *plan = b->plan;
    bool any = false;
    for (int32_t i = 0; i < plan->choices; i++)
        any |= plan->choice[i].parts;
    if (!any)
        return;
    b->in_parts = ARENA_ARRAY(b->keep, struct in_parts, (size_t)plan->instances);
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct laid *laid = laid_of(b, i);
        struct layout parts;
        if (!laid->choice->parts || (laid->op->keep & KEEP_OUTPUT) || read_in_shares(b, i) ||
            !layout_in_parts(&laid->output, &parts)) /* I1 */
            continue;
        b->in_parts[i] =
            (struct in_parts){reshard_within(b->graph->reshards, &laid->output, &parts),
                              reshard_within(b->graph->reshards, &parts, &laid->output), -1,
                              (double)layout_local(&parts) / (double)layout_local(&laid->output)};
    }
}

static bool is_of(const struct reshard *reshard, const struct reshard_step *step)
{
    return reshard && step >= reshard->step && step < reshard->step + reshard->steps;
}

enum parting parting_of(const struct in_parts *all, const struct use *use,
                        const struct reshard_step *step)
{
    if (!all || use->source < 0)
        return PARTING_NONE;
    return is_of(all[use->source].slices, step)    ? PARTING_SLICE
           : is_of(all[use->source].gathers, step) ? PARTING_GATHER
                                                   : PARTING_NONE;
}

/* ---- slices in a forward block (I3) ---------------------------------------------------------- */

static bool in_part(const struct build *b, const struct block *block, int64_t instance)
{
    return instance >= 0 && b->part_of[instance] == block->part;
}

/* Per instance of a part: the last item of its forward block that makes or reads its output. */
static int32_t *last_readers(const struct build *b, const struct block *block)
{
    const struct part *part = &b->plan->part[block->part];
    int32_t *last = ARENA_ARRAY(b->scratch, int32_t, (size_t)part->count);
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        int64_t first = b->use_first[item->instance], end = b->use_first[item->instance + 1];
        if (item->kind == ITEM_STEP)
            end = (first += item->operand) + 1;
        else
            last[item->instance - part->first] = i;
        for (int64_t u = first; u < end; u++)
            if (in_part(b, block, b->use[u].source))
                last[b->use[u].source - part->first] = i;
    }
    return last;
}

static struct item slice_item(const struct build *b, const struct use *use,
                              const struct reshard_step *step, int32_t needs)
{
    return (struct item){.kind = ITEM_STEP,
                         .purpose = PURPOSE_TENSOR,
                         .phase = FLOW_FORWARD,
                         .operand = (int8_t)use->operand,
                         .needs = needs,
                         .instance = use->reader,
                         .step = step,
                         .bytes = step_bytes_sent(b, use, step, FLOW_FORWARD),
                         .pattern = -1,
                         .exchange = -1};
}

typedef ARRAY(struct item) item_list;

/* The slices of outputs that the old item `at` is the last to read; `now` is its new number. */
static void add_slices(const struct build *b, const struct block *block, const int32_t *last,
                       int32_t at, int32_t now, item_list *out)
{
    const struct part *part = &b->plan->part[block->part];
    for (int64_t i = 0; i < part->count; i++) {
        const struct in_parts *parts = &b->in_parts[part->first + i];
        if (last[i] != at || !parts->slices || parts->use < 0)
            continue;
        int32_t needs = block->item[at].kind == ITEM_OP ? now : -1;
        for (int32_t k = 0; k < parts->slices->steps; k++)
            array_push(b->scratch, out,
                       slice_item(b, &b->use[parts->use], &parts->slices->step[k], needs));
    }
}

static void slice_block(const struct build *b, struct block *block)
{
    const int32_t *last = last_readers(b, block);
    int32_t *number = ARENA_ARRAY(b->scratch, int32_t, (size_t)block->items);
    item_list items = {0};
    for (int32_t i = 0; i < block->items; i++) {
        struct item item = block->item[i];
        number[i] = (int32_t)items.len;
        item.needs = item.needs < 0 ? -1 : number[item.needs];
        array_push(b->scratch, &items, item);
        add_slices(b, block, last, i, number[i], &items);
    }
    if ((int32_t)items.len == block->items)
        return;
    block->items = (int32_t)items.len;
    block->item = ARENA_ARRAY(b->keep, struct item, items.len);
    memcpy(block->item, items.data, items.len * sizeof *block->item);
}

void slice_forward_blocks(struct build *b)
{
    for (size_t i = 0; b->in_parts && i < b->blocks.len; i++)
        if (b->blocks.data[i].kind == SLOT_FORWARD)
            slice_block(b, &b->blocks.data[i]);
}

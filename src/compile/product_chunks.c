/* product_chunks.c - products in chunks that overlap with collectives of their inputs or outputs (blocks.c, I6),
 * and attention in chunks beside the ring of its keys and values (I7). */
#include "compile/block_writer.h"

int32_t chunks_beside(const struct block_writer *w, int32_t step, enum collective collective,
                      int64_t product)
{
    const struct plan *plan = w->b->plan;
    const struct item *item = &w->items.data[step];
    const struct op *op = laid_of(w->b, product)->op;
    if (!(plan->overlap & OVERLAP_PRODUCTS) || w->b->graph->executed || item->kind != ITEM_STEP ||
        item->step->kind != (int32_t)collective || op->kind != OP_LINEAR || item->turns ||
        plan_choice(plan, product)->own_back || !op_in_layer(plan->model, op))
        return 0;
    const struct use *use = &w->b->use[w->b->use_first[item->instance] + item->operand];
    int64_t other = use->reader == product ? use->source : use->reader;
    int64_t members = step_members(item->step);
    if (other < 0 || (other == use->reader && use->source != product) || use->joint->across)
        return 0;
    int64_t own = split_degree(&plan_choice(plan, product)->split, DIM_SEQ);
    int64_t parts = split_degree(&plan_choice(plan, other)->split, DIM_SEQ);
    return parts == members * own ? (int32_t)members : 0;
}

int32_t begins_with_step(const struct block_writer *w, int32_t step)
{
    int32_t before = step - 1;
    while (before >= 0 && w->items.data[before].kind != ITEM_STEP)
        before--;
    return before > w->waited ? before : -1;
}

void write_rests_beside(struct block_writer *w, int64_t instance, int64_t last,
                        enum purpose purpose, int32_t gather)
{
    const struct build *b = w->b;
    int32_t chunks = chunks_beside(w, gather, COLLECTIVE_ALL_GATHER, instance);
    int32_t leader = b->use[b->use_first[instance]].same_forward;
    int32_t needs = chunks ? begins_with_step(w, gather) : -1;
    for (int64_t i = instance; chunks && i <= last; i++) {
        const struct op *op = laid_of(b, i)->op;
        if (op->kind != OP_LINEAR || b->use[b->use_first[i]].same_forward != leader ||
            (w->recomputing && b->rerun[i] != RERUN_FORWARD))
            break;
        write_rest(w, i, PHASE_FORWARD, purpose, needs, chunks, chunks - 1);
        w->chunks[i - b->plan->part[w->part].first] = chunks;
        needs = -1;
    }
}

void write_rest_after(struct block_writer *w, int32_t step)
{
    int32_t made = w->items.data[step].needs;
    if (made < 0 || made != w->last_op || w->items.data[made].chunks)
        return;
    struct item *product = &w->items.data[made];
    int32_t chunks = chunks_beside(w, step, COLLECTIVE_REDUCE_SCATTER, product->instance);
    if (!chunks || product->phase != PHASE_FORWARD)
        return;
    product->chunks = chunks;
    write_rest(w, product->instance, PHASE_FORWARD, (enum purpose)product->purpose, -1, chunks,
               chunks - 1);
}

/* Whether a step gathers keys or values of this instance from the devices that have other positions. */
static bool is_ring(const struct item *item, int64_t instance, int64_t members)
{
    return item->kind == ITEM_STEP && item->step->kind == COLLECTIVE_ALL_GATHER &&
           item->instance == instance && item->operand > 0 && step_members(item->step) == members;
}

int32_t write_ring(struct block_writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                   int32_t first, int32_t later)
{
    const struct build *b = w->b;
    int32_t members = (int32_t)split_degree(&plan_choice(b->plan, instance)->split, DIM_SEQ);
    int32_t end = (int32_t)w->items.len;
    if (!(b->plan->overlap & OVERLAP_KEYS) || b->graph->executed ||
        laid_of(b, instance)->op->kind != OP_ATTENTION)
        return 0;
    while (first < end && !is_ring(&w->items.data[first], instance, members))
        first++;
    if (first == end)
        return 0;
    for (int32_t i = first; i < end; i++)
        if (is_ring(&w->items.data[i], instance, members))
            w->items.data[i].chunks = members;
    if (members > later)
        write_rest(w, instance, phase, purpose, begins_with_step(w, first), members,
                   members - later);
    w->chunks[instance - b->plan->part[w->part].first] = members;
    return members;
}

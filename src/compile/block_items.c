/* block_items.c - the items of a block: an operator's phase, chunks of one, the steps of a reshard (blocks.c says in which
 * order they are written, and numbers the invariants).
 *
 *   I1  An item needs an earlier one of the other lane, or none; its own lane keeps the order in which it was written.
 */
#include "compile/block_writer.h"

bool tokens_alone(const struct block_writer *w)
{
    return plan_schedule(w->b->plan)->passes != ORDER_PAIRED;
}

static bool tokens_stop(const struct block_writer *w, const struct item *item)
{
    return item->tokens && tokens_alone(w);
}

/* Operators on some of the stage's devices, and what is done among these alone. */
static struct device_run run_of(const struct block_writer *w, const struct item *item)
{
    const struct split *split = &plan_choice(w->b->plan, item->instance)->split;
    if (item->kind == ITEM_STEP)
        return item->step->run;
    return split_is_subset(split) ? split_run(split) : (struct device_run){0};
}

static int32_t push(struct block_writer *w, struct item item)
{
    bool overlaps = (w->beside || w->b->plan->overlap & OVERLAP_TENSOR) && !tokens_stop(w, &item);
    int32_t at = (int32_t)w->items.len, other = item.kind == ITEM_OP ? w->last_step : w->last_op;
    if (item.kind == ITEM_OP && w->brought > item.needs) /* blocks.c, I5 */
        item.needs = w->brought;
    if (!overlaps && !item.rest) /* blocks.c, I3 */
        item.needs = other;
    if (item.kind == ITEM_OP && !item.rest)
        w->brought = -1;
    if (item.kind == ITEM_OP && item.needs > w->waited)
        w->waited = item.needs;
    if (tokens_stop(w, &item))
        w->brought = at;
    item.run = run_of(w, &item);
    array_push(w->b->scratch, &w->items, item);
    *(item.kind == ITEM_OP ? &w->last_op : &w->last_step) = at;
    return at;
}

int32_t write_op(struct block_writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                 int32_t needs)
{
    int64_t place = instance - w->b->plan->part[w->part].first;
    int32_t at = push(w, (struct item){ITEM_OP, (uint8_t)purpose, (uint8_t)phase, -1, needs,
                                       instance, NULL, 0, -1, -1, w->chunks[place], false, false});
    w->chunks[place] = 0;
    w->item_of[place] = at;
    return at;
}

/* Writes some chunks of a product (blocks.c, I6) or of attention (I7). */
void write_rest(struct block_writer *w, int64_t instance, enum phase phase, enum purpose purpose,
                int32_t needs, int32_t chunks, int32_t share)
{
    push(w, (struct item){ITEM_OP, (uint8_t)purpose, (uint8_t)phase, -1, needs, instance, NULL, 0,
                          -1, -1, chunks, false, true, share});
}

/* Whether experts are on several devices for one of producer and reader, but not for the other. */
static bool moves_tokens(const struct block_writer *w, const struct use *use)
{
    const struct plan *plan = w->b->plan;
    return use->source >= 0 && choice_sends_tokens(plan_choice(plan, use->source)) !=
                                   choice_sends_tokens(plan_choice(plan, use->reader));
}

static bool is_attention(const struct block_writer *w, int64_t instance)
{
    enum op_kind kind = laid_of(w->b, instance)->op->kind;
    return kind == OP_ATTENTION || kind == OP_SCORE || kind == OP_CONTEXT;
}

static bool has_part_of_sequence(const struct block_writer *w, int64_t instance)
{
    return split_degree(&plan_choice(w->b->plan, instance)->split, DIM_SEQ) > 1;
}

/* Whether the nearest product before an instance has a part of the sequence: along tp only what lies between products has. */
static bool product_has_part(const struct block_writer *w, int64_t instance)
{
    while (instance > 0 && laid_of(w->b, instance)->op->kind != OP_LINEAR)
        instance--;
    return has_part_of_sequence(w, instance);
}

/* Whether one of producer and reader is attention, and one has a part of the sequence that cp gave it. */
static bool moves_keys(const struct block_writer *w, const struct use *use)
{
    if (use->source < 0 || !(is_attention(w, use->source) || is_attention(w, use->reader)))
        return false;
    if (!has_part_of_sequence(w, use->source) && !has_part_of_sequence(w, use->reader))
        return false;
    int64_t attention = is_attention(w, use->source) ? use->source : use->reader;
    return has_part_of_sequence(w, attention) || product_has_part(w, attention);
}

static enum purpose purpose_of_step(const struct block_writer *w, const struct use *use,
                                    const struct reshard_step *step)
{
    if (parting_of(w->b->in_parts, use, step))
        return PURPOSE_TENSOR;
    if (!step_is_free(step) && moves_tokens(w, use))
        return PURPOSE_EXPERTS;
    return moves_keys(w, use) ? PURPOSE_CONTEXT : PURPOSE_TENSOR;
}

static int32_t push_step(struct block_writer *w, const struct use *use,
                         const struct reshard_step *step, enum flow flow, int32_t needs)
{
    int64_t bytes = step_bytes_sent(w->b, use, step, flow);
    enum purpose purpose = purpose_of_step(w, use, step);
    struct item item = {.kind = ITEM_STEP,
                        .purpose = (uint8_t)purpose,
                        .phase = (uint8_t)flow,
                        .operand = (int8_t)use->operand,
                        .needs = needs,
                        .instance = use->reader,
                        .step = step,
                        .bytes = bytes,
                        .pattern = -1,
                        .exchange = -1,
                        .tokens = purpose == PURPOSE_EXPERTS};
    struct token_volume volume = {1, 0};
    if (item.tokens) {
        struct group group = step_group(step, 0);
        group.first += w->b->plan->stage[w->stage].first_device;
        struct device_order order = plan_device_order(w->b->plan);
        group = group_at(&order, &group);
        volume = token_volume(w->b, use, &group);
        item.bytes = (int64_t)((double)bytes * volume.share);
    }
    if (!step_is_free(step)) {
        item.pattern = intern_step(w->b, w->stage, step, volume.crossing);
        item.exchange =
            intern_exchange(w->b, item.pattern, (enum collective)step->kind, item.bytes, purpose);
    }
    return push(w, item);
}

/* Writes steps [first, last) of a reshard; returns the last item, or `needs` if there are none. */
int32_t write_steps(struct block_writer *w, const struct use *use, const struct reshard *reshard,
                    int32_t first, int32_t last, enum flow flow, int32_t needs)
{
    for (int32_t i = first; reshard && i < last; i++)
        needs = push_step(w, use, &reshard->step[i], flow, needs);
    return needs;
}

int32_t write_reshard(struct block_writer *w, const struct use *use, const struct reshard *reshard,
                      enum flow flow, int32_t needs)
{
    return write_steps(w, use, reshard, 0, reshard ? reshard->steps : 0, flow, needs);
}

int32_t write_halo(struct block_writer *w, int64_t instance, enum flow flow, int32_t needs)
{
    const struct laid *laid = laid_of(w->b, instance);
    const struct use *use = &w->b->use[w->b->use_first[instance]];
    if (!laid->halos || use->source < 0 || w->b->graph->executed) /* halo.c, I2 */
        return needs;
    for (int32_t i = 0; i < laid->halos; i++) {
        needs = push_step(w, use, &laid->halo[flow][i], flow, needs);
        w->items.data[needs].halo = true;
    }
    return needs;
}

int32_t write_turns(struct block_writer *w, int64_t instance, int32_t needs)
{
    const struct laid *laid = laid_of(w->b, instance);
    for (int32_t k = 0; k < laid->op->inputs; k++)
        for (int32_t i = 0; laid->turn[k] && i < laid->turn[k]->steps; i++) {
            const struct use *use = &w->b->use[w->b->use_first[instance] + k];
            needs = push_step(w, use, &laid->turn[k]->step[i], FLOW_FORWARD, needs);
            w->items.data[needs].turns = true;
        }
    return needs;
}

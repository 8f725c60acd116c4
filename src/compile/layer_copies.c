/* layer_copies.c - what layers keep goes to the host while the next layer runs forward, and comes back while that layer
 * runs backward (lifetimes.h, I11).
 *
 * With c(u) the time of layer u in a pass and o(u) that of its copy on the link to the host, layer u + 2 begins only
 * when the copy of layer u is over, so that a pass of n layers takes
 *
 *   T = sum of c + sum over u of max(0, o(u) - c(u + 1))                                               (1)
 *
 * and no device holds what more than two layers keep of what is copied.
 *
 *   I1  A *unit* is a layer of a part, numbered from 0 within it; what comes before the first layer belongs to unit 0,
 *       and what comes after the last one to a unit of its own. Along a block, units never go back: an item that runs
 *       late belongs to the unit that runs then.
 *   I2  What the last unit keeps stays: the backward pass needs it first.
 */
#include "compile/assembly.h"

/* ---- units ----------------------------------------------------------------------------------- */

static bool copies_any(const struct build *b, const struct part *part)
{
    for (int64_t i = part->first; i < part->first + part->count; i++)
        if (plan_choice(b->plan, i)->offload == OFFLOAD_KEPT)
            return true;
    return false;
}

/* I1 */
static void mark_block(const struct build *b, struct block *block, const int32_t *layer,
                       int32_t units)
{
    const struct part *part = &b->plan->part[block->part];
    bool forward = block->kind == SLOT_FORWARD;
    int32_t at = forward ? 0 : units - 1;
    block->unit = ARENA_ARRAY(b->keep, int32_t, (size_t)block->items);
    for (int32_t i = 0; i < block->items; i++) {
        int64_t place = block->item[i].instance - part->first;
        bool own = place >= 0 && place < part->count; /* others prepare what is sent */
        if (own && (forward ? layer[place] > at : layer[place] < at))
            at = layer[place];
        block->unit[i] = at;
    }
}

/* The number of units, which the part's blocks know from here on. */
static int32_t mark_units(struct build *b, int32_t number)
{
    const struct part *part = &b->plan->part[number];
    int32_t *layer = ARENA_ARRAY(b->scratch, int32_t, (size_t)part->count), units = 0;
    for (int64_t i = 0; i < part->count; i++) {
        layer[i] = units;
        units += b->plan->ends_layer[part->first + i];
    }
    units = layer[part->count - 1] + 1;
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        if (b->block_of[kind][number] >= 0)
            mark_block(b, &b->blocks.data[b->block_of[kind][number]], layer, units);
    return units;
}

/* ---- lives ----------------------------------------------------------------------------------- */

/* The unit of an item; past all units for what lies outside of the block's items. */
static int32_t unit_at(const struct block *block, int32_t item, int32_t units)
{
    return item < 0 || item >= block->items ? units : block->unit[item];
}

static int32_t last_item_of(const struct block *forward, int32_t unit)
{
    int32_t i = forward->items - 1;
    while (i > 0 && forward->unit[i] > unit)
        i--;
    return i;
}

static int32_t first_item_of(const struct block *backward, int32_t unit)
{
    int32_t i = 0;
    while (i < backward->items - 1 && backward->unit[i] > unit)
        i++;
    return i;
}

static void split_life(struct build *b, int32_t part, struct life_list *lives, size_t number,
                       struct layer_copies *out)
{
    struct lifetime *life = &lives->data[number];
    const struct block *forward = &b->blocks.data[b->block_of[SLOT_FORWARD][part]];
    const struct block *backward = &b->blocks.data[b->block_of[life->back_in][part]];
    int32_t left = unit_at(forward, life->left, out->units);
    int32_t back = unit_at(backward, life->back, out->units);
    life->offloaded = OFFLOAD_NOTHING;
    if (left >= out->units - 1 || back >= out->units - 1) /* I2 */
        return;
    struct lifetime again = *life;
    life->copied = again.copied = true;
    life->dies_in = SLOT_FORWARD;
    life->dies = last_item_of(forward, left + 1);
    again.born_in = life->back_in;
    again.born = first_item_of(backward, back + 1);
    out->out[left] += life->bytes;
    out->in[life->back_in][back] += life->bytes;
    array_push(b->scratch, lives, again);
}

void copy_by_layer(struct build *b, int32_t part, struct life_list *lives, struct layer_copies *out)
{
    size_t count = lives->len;
    *out = (struct layer_copies){0};
    if (b->graph->executed || !copies_any(b, &b->plan->part[part]))
        return;
    out->units = mark_units(b, part);
    out->out = ARENA_ARRAY(b->keep, int64_t, (size_t)out->units);
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        out->in[kind] = ARENA_ARRAY(b->keep, int64_t, (size_t)out->units);
    for (size_t i = 0; i < count; i++)
        if (lives->data[i].offloaded == OFFLOAD_KEPT)
            split_life(b, part, lives, i, out);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

int64_t last_of_unit(const struct plan *plan, int32_t part, int32_t unit)
{
    const struct part *p = &plan->part[part];
    int64_t i = p->first;
    for (; i < p->first + p->count - 1; i++)
        if (plan->ends_layer[i] && unit-- == 0)
            break;
    return i;
}

/* The first of the tasks that copied a unit to the host. */
static int32_t *stored_unit(struct assembly *a, const struct visit *place, int32_t unit)
{
    int32_t units = a->graph->lifetimes->part[place->part].copies.units;
    int64_t micro_batches = a->pipeline.micro_batches;
    if (!a->stored_units)
        a->stored_units = ARENA_ARRAY(a->b->scratch, int32_t *, (size_t)a->b->plan->parts);
    int32_t **of = &a->stored_units[place->part];
    if (!*of) {
        *of = ARENA_ARRAY(a->b->scratch, int32_t, (size_t)(micro_batches * units));
        for (int64_t i = 0; i < micro_batches * units; i++)
            (*of)[i] = NONE;
    }
    return &(*of)[place->slot.micro_batch * units + unit];
}

static int32_t copy_unit(struct assembly *a, enum exchange_kind kind, const struct visit *place,
                         int32_t unit, int64_t bytes)
{
    bool out = kind == EXCHANGE_TO_HOST;
    int32_t exchange = intern_copy(a->b, kind, a->stage, bytes), first = (int32_t)a->tasks.len;
    int32_t stored = *stored_unit(a, place, unit);
    for (int32_t d = a->first_device[a->stage]; d < a->first_device[a->stage + 1]; d++) {
        struct task task =
            plain_task(out ? STREAM_TO_HOST : STREAM_FROM_HOST, place->slot.micro_batch);
        task.purpose = PURPOSE_OFFLOAD;
        task.about = place->part;
        task.reader = last_of_unit(a->b->plan, place->part, unit);
        task.device = d;
        task.exchange = exchange + (d - a->first_device[a->stage]);
        int32_t number = add_task(a, task);
        wait_for(a, number, a->mark[d].last[STREAM_COMPUTE]);
        if (out)
            a->mark[d].stored = number;
        else
            wait_for(a, number, stored + (d - a->first_device[a->stage]));
    }
    if (out)
        *stored_unit(a, place, unit) = first;
    return first;
}

static void enter_forward(struct assembly *a, const struct visit *place, int32_t now,
                          struct unit_turn *turn)
{
    const struct layer_copies *copies = &a->graph->lifetimes->part[place->part].copies;
    for (int32_t u = turn->unit < 0 ? 0 : turn->unit; u < now; u++)
        if (copies->out[u])
            copy_unit(a, EXCHANGE_TO_HOST, place, u, copies->out[u]);
    turn->gate = now >= 2 ? *stored_unit(a, place, now - 2) : NONE;
}

static void enter_backward(struct assembly *a, const struct visit *place, int32_t now,
                           struct unit_turn *turn)
{
    const struct layer_copies *copies = &a->graph->lifetimes->part[place->part].copies;
    const int64_t *in = copies->in[place->slot.kind];
    int32_t from = turn->unit < 0 ? copies->units : turn->unit;
    turn->gate = turn->ahead;
    turn->ahead = NONE;
    for (int32_t u = from - 2; u >= 0 && u >= now - 1; u--) {
        int32_t task = in[u] ? copy_unit(a, EXCHANGE_FROM_HOST, place, u, in[u]) : NONE;
        if (u >= now)
            turn->gate = task == NONE ? turn->gate : task;
        else
            turn->ahead = task;
    }
}

void enter_unit(struct assembly *a, const struct visit *place, int32_t item, struct unit_turn *turn)
{
    const struct block *block = &a->b->blocks.data[place->block];
    if (!block->unit || block->unit[item] == turn->unit)
        return;
    if (block->kind == SLOT_FORWARD)
        enter_forward(a, place, block->unit[item], turn);
    else
        enter_backward(a, place, block->unit[item], turn);
    turn->unit = block->unit[item];
    turn->computed = turn->stepped = false;
}

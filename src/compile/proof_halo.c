/* proof_halo.c - what windows read beyond their part of an image, found by going through every window.
 *
 *   I1  A step's elements are the most that a device gets or gives: rows of the image that its windows read and that it
 *       does not have, times what it has of the other axes, the rows that came before among them.
 *   I2  Every pass that reads an image has all steps of its halo made anew.
 */
#include "compile/proof.h"

/* Rows before and after its own that one part reads; none where there is no such part. */
struct rows_lacked {
    int64_t before, after;
};

static struct rows_lacked look_through(const struct op *op, int place, int64_t parts, int64_t part)
{
    int which = OP_KINDS[op->kind].dims[place].dim == DIM_WIDTH;
    int64_t each = op->size[place] / parts, rows = op->input[0].size[window_axis_of(op, place)];
    int64_t own = rows / parts, pad = window_pad(op, place);
    struct rows_lacked lack = {0};
    for (int64_t o = part * each; part >= 0 && part < parts && o < (part + 1) * each; o++)
        for (int64_t k = 0; k < op->kernel[which]; k++) {
            int64_t row = o * op->stride[which] + k - pad;
            if (row < 0 || row >= rows)
                continue;
            lack.before = part * own - row > lack.before ? part * own - row : lack.before;
            lack.after =
                row + 1 - (part + 1) * own > lack.after ? row + 1 - (part + 1) * own : lack.after;
        }
    return lack;
}

/* Rows that the busiest device gets or gives, and the most that one has afterwards; all of them where neighbours do not
 * have what is missing. */
static int64_t moved_rows(const struct op *op, int place, int64_t parts, int64_t *most)
{
    int64_t moved = 0, rows = op->input[0].size[window_axis_of(op, place)], own = rows / parts;
    *most = own;
    for (int64_t i = 0; i < parts; i++) {
        struct rows_lacked lack = look_through(op, place, parts, i);
        int64_t gets = lack.before + lack.after;
        int64_t gives = look_through(op, place, parts, i - 1).after +
                        look_through(op, place, parts, i + 1).before;
        if (lack.before > own || lack.after > own)
            return *most = rows;
        moved = gets > moved ? gets : moved;
        moved = gives > moved ? gives : moved;
        *most = own + gets > *most ? own + gets : *most;
    }
    return moved;
}

/* Elements of each step, in the order of the forward pass (I1); returns how many there are. */
static int32_t elements_of(const struct proof *p, const struct reading *r, int64_t *elements)
{
    const struct fact *fact = &p->fact[r->reader];
    int64_t local = layout_local(&p->layouts.data[r->want]), most;
    int32_t steps = 0;
    for (int place = 0; place < op_dims(fact->op->kind); place++) {
        int64_t parts =
            split_degree(&fact->choice->split, OP_KINDS[fact->op->kind].dims[place].dim);
        int axis = window_axis_of(fact->op, place);
        if (axis < 0 || parts == 1)
            continue;
        int64_t own = fact->op->input[0].size[axis] / parts;
        int64_t moved = moved_rows(fact->op, place, parts, &most);
        if (moved > 0)
            elements[steps++] = local / own * moved;
        local = local / own * most;
    }
    return steps;
}

/* Steps that a reading's halo takes; 0: it has none, or an executor exchanges it. */
static int32_t halos_of(const struct proof *p, const struct reading *r)
{
    int64_t elements[MAX_HALO_STEPS];
    if (p->graph->executed || r->source < 0 || r->operand != 0)
        return 0;
    return elements_of(p, r, elements);
}

/* The operator that a halo is for: what it finds there, its halo's steps find, too. */
static struct at operator_after(const struct symbolic_machine *m, struct at at)
{
    const struct block *block = &m->p->graph->block[at.block];
    int64_t instance = block->item[at.item].instance;
    for (int32_t i = at.item + 1; i < block->items; i++)
        if (item_runs(&block->item[i]) && block->item[i].instance == instance) {
            at.item = i;
            return at;
        }
    return at;
}

weft_status proof_halo(struct symbolic_machine *m, const struct reading *r, struct at at)
{
    const struct item *item = &m->p->graph->block[at.block].item[at.item];
    int64_t elements[MAX_HALO_STEPS];
    int32_t steps = elements_of(m->p, r, elements), next;
    size_t here = row(m, at.device, at.micro_batch, m->p->readings) + (size_t)(r - m->p->reading);
    weft_status status = WEFT_OK;
    if (item->phase == FLOW_FORWARD) {
        TRY(need_input(m, r, operator_after(m, at)));
        next = m->haloed[here]++;
    } else {
        if (!m->pending[here] || !m->owed[here])
            TRY(wrong(m, r->reader, "a halo's gradient goes back before it is there"));
        next = --m->owed[here];
    }
    if (next >= steps || elements[next] != item->step->elements)
        TRY(wrong(m, r->reader, "%s %d is not of the rows that its windows lack",
                  step_name(item->step->kind), next));
done:
    return status;
}

weft_status need_halo(struct symbolic_machine *m, const struct reading *r, struct at at)
{
    size_t here = row(m, at.device, at.micro_batch, m->p->readings) + (size_t)(r - m->p->reading);
    int32_t halos = halos_of(m->p, r), made = m->haloed[here];
    m->haloed[here] = 0;
    if (made == halos)
        return WEFT_OK;
    return wrong(m, r->reader, "%d of %d exchanges of its halo were made", made, halos);
}

void proof_owe(struct symbolic_machine *m, int64_t reading, size_t first)
{
    m->pending[first + (size_t)reading] = true;
    m->owed[first + (size_t)reading] = (uint8_t)halos_of(m->p, &m->p->reading[reading]);
}

bool proof_is_pending(const struct symbolic_machine *m, int32_t reading, size_t first)
{
    return m->pending[first + (size_t)reading] && m->owed[first + (size_t)reading] == 0;
}

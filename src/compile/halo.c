/* halo.c - what neighbours exchange where windows reach over the borders of their parts (model/windows.h).
 *
 * Of an image whose height is in parts, a device sends to the devices beside it, and gets from them, at most m rows. With
 * e elements to a row on the device (of its samples, channels and columns) that is
 *
 *   m e                                                                                          (1)
 *
 * elements. Columns are exchanged after rows, with e counted over the rows that the device has by then: the corners of a
 * tile come through the neighbour above or below. If windows read beyond the neighbours, too, all devices gather the image.
 *
 *   I1  Backward each device has addends of the gradients of its halo, which go back the same way in the opposite order.
 *   I2  An executor does this within the operator (run/rank/image_borders.c): its graph has no such items.
 *   I3  The halo of what is kept is exchanged again for the gradients of weights (blocks.c, I2).
 */
#include "compile/build.h"

/* The digits of a dim, outermost first. */
static struct reshard_step digits_of(const struct split *split, int dim)
{
    struct reshard_step step = {.kind = COLLECTIVE_HALO};
    if (split_is_subset(split))
        step.run = split_run(split);
    int64_t mesh = split_devices(split);
    for (int32_t i = 0; i < split->parts; i++) {
        mesh /= split->part[i].degree;
        if (split->part[i].dim == dim)
            step.digit[step.digits++] =
                (struct step_digit){.mesh_stride = mesh, .degree = split->part[i].degree};
    }
    return step;
}

/* (1) along one dim; false: nothing is exchanged. */
static bool step_along(const struct op *op, const struct split *split, int place, enum flow flow,
                       int64_t *local, struct reshard_step *out)
{
    int dim = OP_KINDS[op->kind].dims[place].dim;
    int64_t parts = split_degree(split, dim);
    if (parts == 1 || window_axis_of(op, place) < 0)
        return false;
    struct halo halo = window_halo(op, place, parts);
    int64_t each = *local / halo.own;
    *out = digits_of(split, dim);
    *local = each * halo.rows;
    out->elements = each * halo.moved;
    if (halo.whole)
        out->kind = flow == FLOW_FORWARD ? COLLECTIVE_ALL_GATHER : COLLECTIVE_REDUCE_SCATTER;
    return out->elements > 0;
}

int32_t halo_steps(const struct op *op, const struct split *split, enum flow flow, int64_t *local,
                   struct reshard_step *out)
{
    int32_t steps = 0;
    for (int place = 0; place < op_dims(op->kind); place++)
        if (OP_KINDS[op->kind].dims[place].role == ROLE_HALO &&
            step_along(op, split, place, flow, local, &out[steps]))
            steps++;
    if (flow == FLOW_GRADIENT && steps == MAX_HALO_STEPS) { /* I1 */
        struct reshard_step first = out[0];
        out[0] = out[1];
        out[1] = first;
    }
    return steps;
}

void find_halos(struct arena *keep, struct laid *laid)
{
    struct reshard_step step[MAX_HALO_STEPS];
    for (int flow = FLOW_FORWARD; laid->op->inputs && flow <= FLOW_GRADIENT; flow++) {
        laid->with_halo = layout_local(&laid->input[0]);
        laid->halos =
            halo_steps(laid->op, &laid->choice->split, (enum flow)flow, &laid->with_halo, step);
        laid->halo[flow] = ARENA_ARRAY(keep, struct reshard_step, (size_t)laid->halos);
        for (int32_t i = 0; i < laid->halos; i++)
            laid->halo[flow][i] = step[i];
    }
}

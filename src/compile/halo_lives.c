/* halo_lives.c - images with what windows read beyond their part (halo.c): copies that last as long as the operator runs.
 *
 *   I1  The model's own input is read with its halo, which nobody has to send.
 */
#include "compile/lives.h"

static double bytes_with_halo(const struct life_trace *t, const struct laid *laid)
{
    return (double)(laid->with_halo * element_bytes(laid->op->input[0].element, t->b->plan->dtype));
}

double input_with_halo(const struct life_trace *t, const struct use *use)
{
    const struct laid *laid = laid_of(t->b, use->reader);
    return laid->halos ? bytes_with_halo(t, laid) : life_input_bytes(t, use);
}

static void read_gradient(struct life_trace *t, const struct use *use)
{
    read_life(t, t->raw[use->same_backward - t->first_use]);
    if (t->b->part_of[use->source] == t->part)
        read_life(t, t->gradient[life_place(t, use->source)]);
}

void halo_lives(struct life_trace *t, const struct use *use)
{
    const struct laid *laid = laid_of(t->b, t->item->instance);
    if (use && t->item->phase == FLOW_GRADIENT) {
        read_gradient(t, use);
    } else if (use) {
        read_life(t, input_life(t, use));
    } else if (laid->halos && t->b->use[t->b->use_first[t->item->instance]].source >= 0) { /* I1 */
        bool gradient = t->item->phase == PHASE_BACKWARD_INPUT;
        take_life(t, gradient ? HELD_GRADIENT : HELD_COPY, t->item->instance,
                  bytes_with_halo(t, laid));
    }
}

/* part_lives.c - the lives of an output that waits in parts: as it was made, in parts, and whole again (lifetimes.h, I12). */
#include "compile/lives.h"

void parting_step(struct life_trace *t, const struct use *use)
{
    const struct in_parts *in_parts = &t->b->in_parts[use->source];
    const struct laid *laid = laid_of(t->b, use->source);
    int64_t place = life_place(t, use->source);
    double bytes = operand_bytes(laid->op, &laid->op->output, laid->local, t->b->plan->dtype);
    bool cuts = parting_of(t->b->in_parts, use, t->item->step) == PARTING_SLICE;
    const struct reshard *reshard = cuts ? in_parts->slices : in_parts->gathers;
    int32_t *to = cuts ? &t->parts[place] : &t->whole[place];
    if (t->item->step != reshard->step) { /* a later step of the same */
        read_life(t, *to);
        return;
    }
    read_life(t, cuts ? t->output[place] : t->parts[place]);
    *to = take_life(t, cuts ? HELD_OUTPUT : HELD_COPY, use->source,
                    cuts ? bytes * in_parts->share : bytes);
}

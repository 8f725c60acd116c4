/* turn_lives.c - inputs as a backward pass with a split of its own reads them (lifetimes.h, I14). */
#include "compile/lives.h"

void turn_step(struct life_trace *t, const struct use *use)
{
    const struct laid *laid = laid_of(t->b, use->reader);
    int32_t *turned = &t->turned[use - t->b->use - t->first_use];
    int32_t cast = use->operand == 0 ? t->cast[life_place(t, use->reader)] : NOTHING;
    if (t->item->step != laid->turn[use->operand]->step) { /* a later step of the same */
        read_life(t, *turned);
        return;
    }
    read_life(t, cast != NOTHING ? cast : input_life(t, use));
    *turned = take_life(t, HELD_COPY, use->reader, life_input_gradient_bytes(t, use));
}

void read_turned(struct life_trace *t, int64_t instance)
{
    const struct laid *laid = laid_of(t->b, instance);
    for (int32_t k = 0; k < laid->op->inputs; k++)
        if (laid->turn[k])
            read_life(t, t->turned[t->b->use_first[instance] + k - t->first_use]);
}

/* choice.h - what one operator does within its stage; part of plan.h, which has splits before it. */
#ifndef WEFT_PLAN_CHOICE_H
#define WEFT_PLAN_CHOICE_H

#include "plan/plan.h"

/* What waits in host memory between the passes: nothing; what is kept for an operator that runs again; and what
 * one keeps that does not. */
enum offload { OFFLOAD_NOTHING, OFFLOAD_CHECKPOINTS, OFFLOAD_KEPT };

struct choice {
    struct split split;
    uint8_t shard;  /* state sharding over the devices that hold the same weights: 0, 1, 2, 3 */
    bool recompute; /* runs forward again before its backward pass */
    bool saved;     /* with recompute: its output is kept, so it need not run again */
    /* with recompute: its output is not kept for others either, which read what is made again (recompute.c) */
    bool discard;
    uint8_t offload; /* enum offload */
    /* between the passes the devices that hold the same of its output keep a part each (layout_in_parts; compile/parts.c) */
    bool parts;
    /* its backward pass has a split of its own, not equal to the other (back.c) */
    bool own_back;
    struct split back;
    /* micro-batches that its stage takes at once, as the plan's order has it (schedule.h, I7); 0: one (plan_join_stages) */
    int32_t joins;
};
static inline int32_t choice_joins(const struct choice *choice)
{
    return choice->joins ? choice->joins : 1;
}

/* The split of the forward pass, or of the backward pass and of all gradients. */
static inline const struct split *choice_split(const struct choice *choice, bool backward)
{
    return backward && choice->own_back ? &choice->back : &choice->split;
}
/* Gives it a split of its own, unless that is the same. */
void choice_set_back(struct choice *choice, const struct split *back);
/* Why an operator cannot have the split of its own that its choice has; NULL: it can. */
const char *back_refusal(const struct model *model, const struct op *op,
                         const struct choice *choice);
bool choice_equal(const struct choice *a, const struct choice *b);
bool choice_recomputes_alike(const struct choice *a, const struct choice *b);
/* Recomputation in a plan file: "false", "true", "saved", "discard". */
const char *choice_recompute_text(const struct choice *choice);

#endif

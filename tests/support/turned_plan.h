/* turned_plan.h - random plans whose backward passes have random splits of their own (plan/back.c). */
#ifndef WEFT_TESTS_TURNED_PLAN_H
#define WEFT_TESTS_TURNED_PLAN_H

#include "random_plan.h"

static inline bool weights_have(const struct op *op, int dim)
{
    bool have = false;
    int place = dim == SPLIT_COPY ? -1 : op_find_dim(op->kind, (enum dim)dim);
    for (int32_t i = 0; i < op->weights && place >= 0; i++)
        have |= operand_has_dim(&op->weight[i].operand, place);
    return have;
}

/* The split with what weights lack laid otherwise over the same devices. */
static inline struct split random_back(struct rng *rng, const struct plan *plan,
                                       const struct op *op, const struct split *from)
{
    struct split back = split_none();
    for (int32_t i = 0; i < from->parts; i++) {
        int dim = from->part[i].dim, dims = op_dims(op->kind);
        int place = (int)rng_below(rng, dims + 1);
        int other = place == dims ? SPLIT_COPY : (int)OP_KINDS[op->kind].dims[place].dim;
        bool free = !weights_have(op, dim) && !weights_have(op, other);
        if (free && (place == dims || may_split(plan, op, &back, place, from->part[i].degree)))
            dim = other;
        split_add(&back, dim, from->part[i].degree);
    }
    return back;
}

/* How many have a split of their own now. */
static inline int turn_some(struct rng *rng, struct plan *plan)
{
    int turned = 0;
    int64_t one_in = 1 + rng_below(rng, 3);
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        struct choice before = *plan_choice(plan, i), choice = before;
        if (op->sinks && choice.shard == 3) { /* refused where backward passes are in two */
            choice.shard = 2;
            assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
        }
        if (!chance(rng, one_in) || !op_turns(plan->model, op))
            continue;
        struct split back = random_back(rng, plan, op, &choice.split);
        choice_set_back(&choice, &back);
        if (back_refusal(plan->model, op, &choice))
            continue;
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
        if (plan_check(plan) !=
            WEFT_OK) /* a degree that does not divide, of a dim that was split twice */
            assert_int_equal(plan_choose(plan, i, &before), WEFT_OK);
        turned += plan_choice(plan, i)->own_back;
    }
    return turned;
}

#endif

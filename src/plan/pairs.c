/* pairs.c - what tokens on their way to experts are beside: whether forward and backward passes of two micro-batches run at
 * once (OVERLAP_EXPERTS), and whether a shared expert runs meanwhile (OVERLAP_SHARED). */
#include "plan/room.h"
#include "schedule/schedule.h"

_Static_assert((int)DISPATCH_EXPERTS == (int)COPIES_EXPERTS &&
                   (int)DISPATCH_DEVICES == (int)COPIES_DEVICES &&
                   (int)DISPATCH_NODES == (int)COPIES_NODES,
               "the software's words for where tokens go are the model's");

enum token_copies plan_token_copies(const struct software *software, const struct op *op)
{
    return op->copies != COPIES_EXPERTS ? op->copies
                                        : (enum token_copies)software_word(software, FACT_DISPATCH);
}

bool choice_sends_tokens(const struct choice *choice)
{
    return split_degree(&choice->split, DIM_EXPERT) > 1;
}

static bool sends_tokens(const struct plan *plan)
{
    for (int32_t i = 0; i < plan->choices; i++)
        if (choice_sends_tokens(&plan->choice[i]))
            return true;
    return false;
}

const struct schedule *plan_row(const struct plan *plan)
{
    return plan->listed ? plan->listed : schedule_find(plan->schedule);
}

void plan_name_schedule(struct plan *plan, const char *name)
{
    const struct schedule *row = schedule_find(name);
    plan->schedule = arena_copy_text(plan->arena, name);
    plan->listed = NULL;
    plan->defer_head = 0;
    plan->zigzag = row && row->zigzag;
    plan->both_ways = row && row->both_ways;
}

void plan_order_by(struct plan *plan, const struct schedule *listed)
{
    plan->listed = schedule_copy(plan->arena, listed);
    plan->schedule = plan->listed->name;
    plan->zigzag = listed->zigzag;
    plan->both_ways = listed->both_ways;
}

const struct schedule *plan_schedule(const struct plan *plan)
{
    const struct schedule *schedule = plan_row(plan);
    if (!schedule || !(plan->overlap & OVERLAP_EXPERTS) || plan_micro_batches(plan) < 2 ||
        !sends_tokens(plan))
        return schedule;
    return schedule_paired(schedule, plan->stages);
}

/* The reasons, in the order in which a user can do something about them. */
const char *useless_pairs(const struct plan *plan)
{
    if (!(plan->overlap & OVERLAP_EXPERTS) || plan_schedule(plan)->ahead)
        return NULL;
    if (!sends_tokens(plan))
        return "overlap: experts changes nothing if no experts are on other devices";
    if (plan_micro_batches(plan) < 2)
        return "overlap: experts changes nothing with one micro-batch";
    return "overlap: experts changes nothing except with schedule interleaved, or 1f1b on one "
           "stage";
}

/* Whether an operator after a combine does not read it: a shared expert. */
static bool has_shared(const struct model *model)
{
    for (int32_t i = 0; i + 1 < model->ops; i++)
        if (model->op[i].kind == OP_COMBINE && model->op[i + 1].kind == OP_LINEAR &&
            model->op[i + 1].input[0].tensor != model->op[i].output.tensor)
            return true;
    return false;
}

bool plan_could_hide_shared(const struct plan *plan)
{
    return sends_tokens(plan) && has_shared(plan->model) && !plan_schedule(plan)->ahead;
}

const char *useless_shared(const struct plan *plan)
{
    if (!(plan->overlap & OVERLAP_SHARED) || plan_could_hide_shared(plan))
        return NULL;
    if (!has_shared(plan->model))
        return "overlap: shared changes nothing without a shared expert";
    return sends_tokens(plan)
               ? "overlap: shared changes nothing beside overlap: experts, which hides the tokens"
               : "overlap: shared changes nothing if no experts are on other devices";
}

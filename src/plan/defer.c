/* defer.c - gradients of the head's weights that wait until the last stage has nothing else to do (Megatron-LM's
 * --defer-embedding-wgrad-compute, core/pipeline_parallel/schedules.py).
 *
 * Of the last part, the backward passes of the first k micro-batches leave the head's weights out, and the products that
 * these lack come after all passes, while the stages before it still drain:
 *
 *   F0 B0 F1 B1 F2 B2   with k = 2   F0 I0 F1 I1 F2 B2 W0 W1                                                (1)
 *
 *   I1  In a plan that defers, slots of weight gradients hold the head's alone, and slots of input gradients all others
 *       (compile/blocks.c, I12).
 *   I2  The order is 1f1b's or interleaved's, by (1); its name stays that of the row, and so do groups of micro-batches.
 */
#include <string.h>

#include "plan/order.h"
#include "plan/room.h"

const struct schedule *plan_own_order(const struct plan *plan)
{
    return plan->defer_head ? NULL : plan->listed;
}

bool deferral_from_text(const char *text, int64_t *count)
{
    *count = DEFER_ALL;
    return strcmp(text, "all") == 0 || (parse_int(text, count) && *count >= 0);
}

const char *deferral_text(struct arena *keep, int64_t count)
{
    return count == DEFER_ALL ? "all" : arena_printf(keep, "%lld", (long long)count);
}

/* Whether a loss reads what this operator makes. */
static bool feeds_loss(const struct model *model, const struct op *op)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == OP_LOSS && model->op[i].input[0].tensor == op->output.tensor)
            return true;
    return false;
}

bool plan_defers(const struct plan *plan, int64_t instance)
{
    const struct op *op = &plan->model->op[plan->instance[instance].op];
    return plan->defer_head && instance >= plan->part[plan->parts - 1].first &&
           op->kind == OP_LINEAR && op_trains(op) && feeds_loss(plan->model, op);
}

/* (1) for the last stage. */
static void defer_slots(struct arena *keep, const struct pipeline *pipeline, int64_t count,
                        struct slots *slots)
{
    size_t len = slots->len;
    for (size_t i = 0; i < len; i++) {
        struct slot *slot = &slots->data[i];
        if (slot->kind != SLOT_BACKWARD || slot->piece != pipeline->pieces - 1 ||
            (count > 0 && slot->micro_batch >= count))
            continue;
        slot->kind = SLOT_BACKWARD_INPUT;
        struct slot late = {SLOT_BACKWARD_WEIGHT, slot->piece, slot->micro_batch};
        array_push(keep, slots, late);
    }
}

static bool shards_gradients(const struct plan *plan)
{
    for (int32_t i = 0; i < plan->choices; i++)
        if (plan->choice[i].shard >= 2)
            return true;
    return false;
}

weft_status deferral_check(int64_t stages, const char *schedule, bool shards)
{
    static const char HINT[] = "leave --defer-head out";
    const struct schedule *row = schedule ? schedule_find(schedule) : NULL;
    if (stages == 1)
        return bad_argument("give stages (--pp 2), or leave --defer-head out",
                            "--defer-head: a pipeline of one stage has no end at which the head's "
                            "weight gradients would be made");
    if (schedule && (!row || row->passes != ORDER_IN_TURN || row->zigzag || row->segmented))
        return bad_argument("1f1b and interleaved can",
                            "--defer-head: schedule %s has another "
                            "place for weight gradients",
                            schedule);
    if (shards)
        return bad_argument(HINT, "--defer-head: sharded gradients (--zero 2 and 3) are summed in "
                                  "every micro-batch, and nothing of them waits");
    return WEFT_OK;
}

weft_status plan_defer_head(struct plan *plan, int64_t count)
{
    const struct schedule *row = schedule_find(plan->schedule);
    struct pipeline pipeline = plan_pipeline(plan);
    struct schedule *made;
    weft_status status;
    if (!count)
        return WEFT_OK;
    TRY(deferral_check(plan->stages, plan->listed ? "given as lists" : plan->schedule,
                       shards_gradients(plan)));
    TRY(schedule_check(row, &pipeline));
    struct slot_lists *lists = schedule_lists(plan->arena, row, &pipeline);
    defer_slots(plan->arena, &pipeline, count, &lists->stage[pipeline.stages - 1]);
    TRY(schedule_of_lists(plan->arena, row->name, row->name, lists, false, &made));
    made->grouped = row->grouped; /* I2 */
    plan->listed = made;
    plan->defer_head = count;
done:
    return status;
}

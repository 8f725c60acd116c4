/* schedule.c - the table of schedules.
 *
 * With p stages, v pieces, m micro-batches, f and b the times of one piece's forward and backward
 * on one micro-batch, equal stages and free transfers, an iteration takes m v (f + b) and a bubble:
 *   gpipe, 1f1b     (p - 1) (f + b)                                                            (1)
 *   interleaved     (p - 1) (f + b), which is (p - 1) / (m v) of the work                      (2)
 *   aiao            (p - 1) (f + b) + (v - 1) max(0, p - m) (f + b)                            (3)
 *   zb-h1           (p - 1) (f + b - 2 w), weight gradients w <= f and w <= b / 2, m >= p      (4)
 * (1) and (2) are Megatron-LM (SC '21), section 2.2; (3) with m >= p is Fold3D, Eq. 3; (4) is Zero
 * Bubble (ICLR '24) on ZB-H1, whose b is our b - w.
 *
 *   I1  A row's in_flight is what counting over its order gives.
 *   I2  With one piece, aiao is gpipe, slot by slot.
 *   I3  A row's `passes` is what its order shows on the last stage.
 *   I4  Pairs need a forward pass at hand that is not waited for by the backward pass beside it: on
 *       every stage 2 (p - s - 1) and one more run ahead. Interleaved stages run that far ahead but for
 *       the one; stages of 1f1b do not, unless there is one stage only. Megatron-LM's combined 1f1b, which
 *       hides the all-to-alls of experts, asks for the same (overlap_moe_expert_parallel_comm).
 */

#include "schedule/order.h"

static weft_status check_shape(const struct pipeline *pipeline)
{
    if (pipeline->stages < 1 || pipeline->pieces < 1 || pipeline->micro_batches < 1)
        return bad_argument("use at least 1 of each",
                            "a pipeline of %d stages with %d pieces and %d micro-batches",
                            pipeline->stages, pipeline->pieces, pipeline->micro_batches);
    return WEFT_OK;
}

static weft_status check_one_piece(const struct pipeline *pipeline)
{
    if (check_shape(pipeline) != WEFT_OK)
        return WEFT_BAD_INPUT;
    if (pipeline->pieces != 1)
        return bad_argument("use 1 piece, or the schedule interleaved or aiao",
                            "gpipe, 1f1b and zb-h1 have 1 piece per stage, not %d",
                            pipeline->pieces);
    return WEFT_OK;
}

/* The multiple of `stages` nearest to `micro_batches`, the larger of two equally near. */
static int64_t nearest_multiple(int64_t micro_batches, int64_t stages)
{
    int64_t below = micro_batches - micro_batches % stages;
    bool up = below == 0 || 2 * (micro_batches - below) >= stages;
    return up ? below + stages : below;
}

static weft_status check_interleaved(const struct pipeline *pipeline)
{
    if (check_shape(pipeline) != WEFT_OK)
        return WEFT_BAD_INPUT;
    if (pipeline->pieces < 2)
        return bad_argument("use 2 pieces, or the schedule 1f1b",
                            "interleaved needs at least 2 pieces per stage");
    if (pipeline->micro_batches % pipeline->stages == 0)
        return WEFT_OK;
    int64_t nearest = nearest_multiple(pipeline->micro_batches, pipeline->stages);
    weft_status status =
        bad_argument(NULL, "interleaved needs a multiple of its %d stages as micro-batches, not %d",
                     pipeline->stages, pipeline->micro_batches);
    error_hint("use %lld micro-batches", (long long)nearest);
    return status;
}

static const struct schedule SCHEDULES[] = {
    {"gpipe", "all forwards, then all backwards", check_one_piece, all_in_all_out_order,
     all_in_all_out_in_flight, ORDER_FORWARDS_FIRST, false, NULL},
    {"1f1b", "one forward, one backward: holds at most `stages` micro-batches", check_one_piece,
     one_f_one_b_order, one_f_one_b_in_flight, ORDER_IN_TURN, false, NULL},
    {"interleaved", "1f1b over several pieces per stage: a smaller bubble, more transfers",
     check_interleaved, interleaved_order, interleaved_in_flight, ORDER_IN_TURN, false, NULL},
    {"aiao", "all-in-all-out: segment by segment, so that gradients synchronise meanwhile",
     check_shape, all_in_all_out_order, all_in_all_out_in_flight, ORDER_FORWARDS_FIRST, true, NULL},
    {"zb-h1", "1f1b whose weight gradients fill the bubble", check_one_piece, zero_bubble_h1_order,
     zero_bubble_h1_in_flight, ORDER_SPLIT, false, NULL},
};

/* Under the names of those that they are made of (I4). */
static const struct schedule PAIRED[] = {
    {"1f1b", "1f1b on one stage, a forward and a backward pass at once", check_one_piece,
     paired_order, paired_in_flight, ORDER_PAIRED, false, paired_ahead},
    {"interleaved", "interleaved, a forward and a backward pass at once", check_interleaved,
     paired_order, paired_in_flight, ORDER_PAIRED, false, paired_ahead},
};

const struct schedule *schedule_paired(const struct schedule *schedule, int32_t stages)
{
    int at = schedule->passes == ORDER_IN_TURN ? NAME_INDEX(schedule->name, PAIRED) : -1;
    bool folds = at >= 0 && PAIRED[at].check == check_interleaved;
    return at >= 0 && (folds || stages == 1) ? &PAIRED[at] : schedule;
}

bool slots_paired(const struct schedule *schedule, const struct pipeline *pipeline, int32_t stage,
                  const struct slots *slots, size_t i)
{
    return schedule->ahead && slots->data[i].kind == SLOT_FORWARD &&
           (int64_t)i >= schedule->ahead(pipeline, stage);
}

const struct schedule *schedule_find(const char *name)
{
    int at = NAME_INDEX(name, SCHEDULES);
    return at < 0 ? NULL : &SCHEDULES[at];
}

size_t schedule_all(const struct schedule **out)
{
    *out = SCHEDULES;
    return COUNT_OF(SCHEDULES);
}

/* schedule.c - the table of schedules.
 *
 * To add one: its order and in_flight (order.c), its row here, and its cases in tests/schedule/test_schedule.c.
 * Plans, exports, searches and --help know a schedule by the facts of its row.
 *
 * With p stages, v pieces, m micro-batches, f and b the times of one piece's forward and backward
 * on one micro-batch, equal stages and free transfers, an iteration takes m v (f + b) and a bubble:
 *   gpipe, 1f1b     (p - 1) (f + b)                                                            (1)
 *   interleaved     (p - 1) (f + b), which is (p - 1) / (m v) of the work, whatever the groups (2)
 *   aiao            (p - 1) (f + b) + (v - 1) max(0, p - m) (f + b)                            (3)
 *   zb-h1           (p - 1) (f + b - 2 w), weight gradients w <= f and w <= b / 2, m >= p      (4)
 *   zb-h2           (p - 1) (f + b - 3 w), f = w = b - w                                       (5)
 *   zb-v            0, f = w = b - w; v-half and v-min about 3 p f and 4 p f                    (6)
 *   dualpipe(v)     (p - 1) (f + 2 b - 3 w) with pairs executed as one, less without            (7)
 * counted on the stage that is at work longest, from its own first slot: (5) and (6) end on stage
 * after stage, which is no loss where the next iteration begins so, too.
 * (1) and (2) are Megatron-LM (SC '21), section 2.2; (3) with m >= p is Fold3D, Eq. 3; (4) is Zero
 * Bubble (ICLR '24) on ZB-H1, whose b is our b - w, (5) on ZB-H2; (6) is Controllable Memory
 * (NeurIPS '24), table 1; (7) is DeepSeek-V3's table 2, with its PP = 2 p.
 *
 *   I1  A row's in_flight is what counting over its order gives.
 *   I2  With one piece, aiao is gpipe, slot by slot.
 *   I3  A row's `passes` is what its order shows on the last stage.
 *   I4  Pairs need a forward pass at hand that is not waited for by the backward pass beside it: on
 *       every stage 2 (p - s - 1) and one more run ahead. Interleaved stages run that far ahead but for
 *       the one; stages of 1f1b do not, unless there is one stage only. Megatron-LM's combined 1f1b, which
 *       hides the all-to-alls of experts, asks for the same (overlap_moe_expert_parallel_comm).
 *   I5  Passes of one schedule are all whole or all in two: lifetimes of tensors are those of one of
 *       the two. Whole passes of a list that has others in two are their halves, one after the other.
 */

#include <string.h>

#include "schedule/lists.h"
#include "schedule/order.h"

static weft_status check_shape(const struct pipeline *pipeline)
{
    if (pipeline->stages < 1 || pipeline->pieces < 1 || pipeline->micro_batches < 1)
        return bad_argument("use at least 1 of each", "a pipeline of %s with %s and %s",
                            counted(pipeline->stages, "stage").s,
                            counted(pipeline->pieces, "piece").s,
                            counted(pipeline->micro_batches, "micro-batch").s);
    return WEFT_OK;
}

static weft_status check_one_piece(const struct pipeline *pipeline)
{
    if (check_shape(pipeline) != WEFT_OK)
        return WEFT_BAD_INPUT;
    if (pipeline->pieces != 1)
        return bad_argument("use 1 piece, or the schedule interleaved or aiao",
                            "gpipe, 1f1b, zb-h1 and zb-h2 have 1 piece per stage, not %d",
                            pipeline->pieces);
    return WEFT_OK;
}

/* Whether groups of so many leave no last one that is too small. */
static bool groups_fit(const struct pipeline *pipeline, int32_t group)
{
    int32_t last = pipeline->micro_batches % group;
    return last == 0 || last >= pipeline->stages;
}

int32_t pipeline_group(const struct pipeline *pipeline)
{
    bool open = !pipeline->group && pipeline->pieces > 1;
    int32_t group = pipeline->group ? pipeline->group : pipeline->stages;
    while (open && group < pipeline->micro_batches && !groups_fit(pipeline, group))
        group++;
    return group;
}

static weft_status check_group(const struct pipeline *pipeline)
{
    int32_t group = pipeline->group;
    if (!group || (group >= pipeline->stages && group <= pipeline->micro_batches &&
                   groups_fit(pipeline, group)))
        return WEFT_OK;
    struct pipeline other = *pipeline;
    other.group = 0;
    weft_status status = bad_argument(
        NULL,
        "a group of %s of %d: a group, and what is left for the last one, is no less than the %s "
        "and no more than all",
        counted(group, "micro-batch").s, pipeline->micro_batches,
        counted(pipeline->stages, "stage").s);
    error_hint("use a group of %d, or none", pipeline_group(&other));
    return status;
}

static weft_status check_interleaved(const struct pipeline *pipeline)
{
    if (check_shape(pipeline) != WEFT_OK)
        return WEFT_BAD_INPUT;
    if (pipeline->pieces < 2)
        return bad_argument("use 2 pieces, or the schedule 1f1b",
                            "interleaved needs at least 2 pieces per stage");
    if (pipeline->micro_batches >= pipeline->stages)
        return check_group(pipeline);
    weft_status status =
        bad_argument(NULL, "interleaved needs a micro-batch for each of its %s, and has %d",
                     counted(pipeline->stages, "stage").s, pipeline->micro_batches);
    error_hint("use %s or more", counted(pipeline->stages, "micro-batch").s);
    return status;
}

static weft_status check_v(const struct pipeline *pipeline)
{
    if (check_shape(pipeline) != WEFT_OK)
        return WEFT_BAD_INPUT;
    if (pipeline->pieces != 2)
        return bad_argument("use 2 pieces, or the schedule hanayo, which has any even number",
                            "zb-v, v-half, v-min, dualpipe and dualpipev have 2 pieces per stage, "
                            "not %d",
                            pipeline->pieces);
    return WEFT_OK;
}

static weft_status check_dual(const struct pipeline *pipeline)
{
    if (check_v(pipeline) != WEFT_OK)
        return WEFT_BAD_INPUT;
    if (pipeline->micro_batches < 2 * pipeline->stages) {
        weft_status status =
            bad_argument(NULL,
                         "dualpipe and dualpipev need two micro-batches for each "
                         "of their %s, and have %d",
                         counted(pipeline->stages, "stage").s, pipeline->micro_batches);
        error_hint("use %s or more", counted(2 * pipeline->stages, "micro-batch").s);
        return status;
    }
    return WEFT_OK;
}

static weft_status check_waves(const struct pipeline *pipeline)
{
    if (check_shape(pipeline) != WEFT_OK)
        return WEFT_BAD_INPUT;
    if (pipeline->pieces % 2)
        return bad_argument("use an even number of pieces: two of them are a wave",
                            "hanayo has an even number of pieces per stage, not %d",
                            pipeline->pieces);
    return WEFT_OK;
}

static const struct schedule SCHEDULES[] = {
    {.name = "gpipe",
     .summary = "all forwards, then all backwards",
     .check = check_one_piece,
     .order = all_in_all_out_order,
     .in_flight = all_in_all_out_in_flight,
     .passes = ORDER_FORWARDS_FIRST,
     .least_pieces = 1,
     .most_pieces = 1}, /* not searched: I2 */
    {.name = "1f1b",
     .summary = "one forward, one backward: holds at most `stages` micro-batches",
     .check = check_one_piece,
     .order = one_f_one_b_order,
     .in_flight = one_f_one_b_in_flight,
     .passes = ORDER_IN_TURN,
     .least_pieces = 1,
     .most_pieces = 1,
     .usual = USUAL_ONE_PIECE,
     .searched = true,
     .alone = true},
    {.name = "interleaved",
     .summary = "1f1b over several pieces per stage: a smaller bubble, more transfers",
     .check = check_interleaved,
     .order = interleaved_order,
     .in_flight = interleaved_in_flight,
     .passes = ORDER_IN_TURN,
     .least_pieces = 2,
     .usual = USUAL_PIECES,
     .searched = true,
     .grouped = true},
    {.name = "aiao",
     .summary = "all-in-all-out: segment by segment, so that gradients synchronise meanwhile",
     .check = check_shape,
     .order = all_in_all_out_order,
     .in_flight = all_in_all_out_in_flight,
     .passes = ORDER_FORWARDS_FIRST,
     .segmented = true,
     .least_pieces = 1,
     .usual = USUAL_SEGMENTS,
     .searched = true,
     .alone = true},
    {.name = "zb-h1",
     .summary = "1f1b whose weight gradients fill the bubble",
     .check = check_one_piece,
     .order = zero_bubble_h1_order,
     .in_flight = zero_bubble_h1_in_flight,
     .passes = ORDER_SPLIT,
     .least_pieces = 1,
     .most_pieces = 1,
     .searched = true},
    {.name = "zb-h2",
     .summary = "zb-h1 that runs ahead twice as far: no bubble, twice the memory",
     .check = check_one_piece,
     .order = zero_bubble_h2_order,
     .in_flight = zero_bubble_h2_in_flight,
     .passes = ORDER_SPLIT,
     .least_pieces = 1,
     .most_pieces = 1,
     .played = true},
    {.name = "zb-v",
     .summary = "two pieces in a zigzag: no bubble, the memory of 1f1b",
     .check = check_v,
     .order = zero_bubble_v_order,
     .in_flight = zero_bubble_v_in_flight,
     .passes = ORDER_SPLIT,
     .least_pieces = 2,
     .most_pieces = 2,
     .zigzag = true,
     .played = true},
    {.name = "v-half",
     .summary = "two pieces in a zigzag: half the memory of 1f1b",
     .check = check_v,
     .order = v_half_order,
     .in_flight = v_half_in_flight,
     .passes = ORDER_SPLIT,
     .least_pieces = 2,
     .most_pieces = 2,
     .zigzag = true,
     .played = true},
    {.name = "v-min",
     .summary = "two pieces in a zigzag: a third of the memory of 1f1b",
     .check = check_v,
     .order = v_min_order,
     .in_flight = v_min_in_flight,
     .passes = ORDER_SPLIT,
     .least_pieces = 2,
     .most_pieces = 2,
     .zigzag = true,
     .played = true},
    {.name = "dualpipe",
     .summary = "pipelines from both ends over the same stages, every part of the model on two",
     .check = check_dual,
     .order = dual_pipe_v_order,
     .in_flight = dual_pipe_v_in_flight,
     .passes = ORDER_SPLIT,
     .least_pieces = 2,
     .most_pieces = 2,
     .zigzag = true,
     .both_ways = true,
     .played = true},
    {.name = "dualpipev",
     .summary = "two pieces in a zigzag: a forward pass of one beside a backward pass of the other",
     .check = check_dual,
     .order = dual_pipe_v_order,
     .in_flight = dual_pipe_v_in_flight,
     .passes = ORDER_SPLIT,
     .least_pieces = 2,
     .most_pieces = 2,
     .zigzag = true,
     .played = true},
    {.name = "hanayo",
     .summary = "waves of two pieces each in a zigzag, for few micro-batches",
     .check = check_waves,
     .order = hanayo_order,
     .in_flight = hanayo_in_flight,
     .passes = ORDER_IN_TURN,
     .least_pieces = 2,
     .zigzag = true,
     .played = true},
};

/* Under the names of those that they are made of (I4). */
static const struct schedule PAIRED[] = {
    {.name = "1f1b",
     .summary = "1f1b on one stage, a forward and a backward pass at once",
     .check = check_one_piece,
     .order = paired_order,
     .in_flight = paired_in_flight,
     .passes = ORDER_PAIRED,
     .least_pieces = 1,
     .most_pieces = 1,
     .ahead = paired_ahead},
    {.name = "interleaved",
     .summary = "interleaved, a forward and a backward pass at once",
     .check = check_interleaved,
     .order = paired_order,
     .in_flight = paired_in_flight,
     .passes = ORDER_PAIRED,
     .least_pieces = 2,
     .ahead = paired_ahead,
     .grouped = true},
};

/* The word that asks for an order that is found: no row has it. */
static const char ANY[] = "any";

#define ANY_SHAPE(placed, split)                                                                   \
    {.name = ANY,                                                                                  \
     .check = check_shape,                                                                         \
     .order = (split) ? halves_order : all_in_all_out_order,                                       \
     .in_flight = all_in_all_out_in_flight,                                                        \
     .passes = (split) ? ORDER_SPLIT : ORDER_IN_TURN,                                              \
     .least_pieces = 1,                                                                            \
     .zigzag = (placed),                                                                           \
     .played = true}

const struct schedule *schedule_of_any_shape(bool zigzag, bool split)
{
    static const struct schedule SHAPES[2][2] = {{ANY_SHAPE(false, false), ANY_SHAPE(false, true)},
                                                 {ANY_SHAPE(true, false), ANY_SHAPE(true, true)}};
    return &SHAPES[zigzag][split];
}

const struct schedule *schedule_paired(const struct schedule *schedule, int32_t stages)
{
    int at = schedule->passes == ORDER_IN_TURN ? NAME_INDEX(schedule->name, PAIRED) : -1;
    bool paired = at >= 0 && (schedule->most_pieces != 1 || stages == 1);
    return paired ? &PAIRED[at] : schedule;
}

bool slots_paired(const struct schedule *schedule, const struct pipeline *pipeline, int32_t stage,
                  const struct slots *slots, size_t i)
{
    return schedule->ahead && slots->data[i].kind == SLOT_FORWARD &&
           (int64_t)i >= schedule->ahead(pipeline, stage);
}

weft_status schedule_check(const struct schedule *schedule, const struct pipeline *pipeline)
{
    if (pipeline->group && !schedule->grouped)
        return bad_argument("leave the group out, or use the schedule interleaved",
                            "a group of %s belongs to schedules whose pieces take turns, not to %s",
                            counted(pipeline->group, "micro-batch").s, schedule->name);
    return schedule->lists ? lists_suit(schedule, pipeline) : schedule->check(pipeline);
}

void schedule_order(const struct schedule *schedule, const struct pipeline *pipeline, int32_t stage,
                    struct arena *keep, struct slots *out)
{
    if (!schedule->lists) {
        schedule->order(pipeline, stage, keep, out);
        return;
    }
    const struct slots *list = &schedule->lists->stage[stage];
    if (schedule->passes == ORDER_SPLIT) {
        backward_in_two(list, keep, out); /* I5 */
        return;
    }
    for (size_t i = 0; i < list->len; i++)
        array_push(keep, out, list->data[i]);
}

int64_t schedule_in_flight(const struct schedule *schedule, const struct pipeline *pipeline,
                           int32_t stage)
{
    return schedule->lists ? lists_in_flight(&schedule->lists->stage[stage])
                           : schedule->in_flight(pipeline, stage);
}

int64_t schedule_round(const struct schedule *schedule, const struct pipeline *pipeline)
{
    return schedule->grouped ? pipeline_group(pipeline) : pipeline->stages;
}

bool schedule_is_any(const char *name)
{
    return name && strcmp(name, ANY) == 0;
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

const struct schedule *schedule_default(int64_t pieces, int64_t segments)
{
    enum usual usual = segments > 1 ? USUAL_SEGMENTS : pieces > 1 ? USUAL_PIECES : USUAL_ONE_PIECE;
    size_t at = 0;
    while (SCHEDULES[at].usual != usual)
        at++;
    return &SCHEDULES[at];
}

const struct schedule *schedule_with(enum order passes)
{
    for (size_t i = 0; i < COUNT_OF(SCHEDULES); i++)
        if (SCHEDULES[i].passes == passes)
            return &SCHEDULES[i];
    return schedule_default(2, 1); /* I4 */
}

const struct schedule *schedule_searched(size_t number)
{
    for (int folds = 0; folds < 2; folds++)
        for (size_t i = 0; i < COUNT_OF(SCHEDULES); i++)
            if (SCHEDULES[i].searched && (SCHEDULES[i].most_pieces != 1) == folds && number-- == 0)
                return &SCHEDULES[i];
    return NULL;
}

int64_t schedule_next_pieces(const struct schedule *schedule, int64_t pieces)
{
    enum { MOST_PIECES = 8 };
    int64_t most = schedule->most_pieces ? schedule->most_pieces : MOST_PIECES;
    int64_t next = pieces == 0 ? schedule->least_pieces : pieces + 1;
    return next <= most ? next : 0;
}

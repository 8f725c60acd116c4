/* limited.c - 1f1b with a limit on the passes of each stage that are in flight, and with stages that take several
 * micro-batches at once (Proteus, section IV-B: max_ongoing_micro_batch and n_micro_batch of a subgraph).
 *
 * The order is that of stages which take the given times for their passes, or FORWARD for a forward pass and BACKWARD for a
 * backward pass of a micro-batch where none are given, and nothing to send, and
 * which always do next what can begin first, a backward pass before a forward pass; a forward pass begins only if fewer
 * than limit(s) micro-batches are between their passes on the stage, p - s as in 1f1b if none is given.
 *
 * With a limit of w on stage 0 alone, the first of w micro-batches has to return to stage 0 before the next w begin:
 *
 *   T = p (f + b) (floor((m - 1) / w) + 1) + ((m - 1) mod w) (f + b),   w <= p                              (1)
 *
 * which for w = p is 1f1b's (p + m - 1) (f + b).
 *
 * A stage that takes k(s) micro-batches at once takes k(s) FORWARD and k(s) BACKWARD for them. Where no limit is given it is
 *
 *   limit(s) = k(s) + k(s + 1) + ... + k(p - 1), rounded up to a multiple of the largest of these          (2)
 *
 * which for k = 1 is p - s, and for equal k that of 1f1b with micro-batches k times as large.
 *
 *   I1  Nobody waits forever: of the micro-batches between their passes anywhere the earliest can always go on, because on
 *       its next stage nothing is in flight that is earlier, and with (2) a stage before one that takes several at once may
 *       have as many in flight. Given limits that are too low for that are refused.
 */
#include "schedule/schedule.h"

/* Of the two, a backward pass takes twice as long: two products for each of the forward pass. */
enum { FORWARD = 1, BACKWARD = 2 };
static const int64_t NEVER = INT64_MAX;

struct stage_state {
    int32_t forward, backward; /* the first micro-batch of the next of either pass */
    int64_t free_at;
};
struct order_play {
    const struct pipeline *pipeline;
    const int64_t *limit;
    /* per stage; NULL: (FORWARD, BACKWARD) for each micro-batch */
    const struct slot_lengths *passes;
    struct stage_state *stage;
    /* by stage and micro-batch: when the pass is over; 0: not yet */
    int64_t *forward_at, *backward_at;
};

static int64_t *time_of(const struct order_play *play, int64_t *times, int32_t stage, int32_t m)
{
    return &times[(size_t)stage * (size_t)play->pipeline->micro_batches + (size_t)m];
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When the passes are over that another stage makes of the micro-batches which this one takes from m on; 0: not yet. */
static int64_t all_there(const struct order_play *play, int64_t *times, int32_t other, int32_t s,
                         int32_t m)
{
    const struct pipeline *p = play->pipeline;
    int64_t latest = 0;
    for (int32_t i = 0; i < pipeline_joins(p, s); i++) {
        int64_t there = *time_of(play, times, other, pipeline_first(p, other, m + i));
        if (!there)
            return 0;
        latest = later(latest, there);
    }
    return latest;
}

/* When a stage's next forward pass may begin. */
static int64_t forward_begins(const struct order_play *play, int32_t s)
{
    const struct stage_state *state = &play->stage[s];
    if (state->forward == play->pipeline->micro_batches ||
        state->forward + pipeline_joins(play->pipeline, s) - state->backward > play->limit[s])
        return NEVER;
    int64_t there = s ? all_there(play, play->forward_at, s - 1, s, state->forward) : 1;
    return there ? later(there - 1, state->free_at) : NEVER;
}

/* When its next backward pass may. */
static int64_t backward_begins(const struct order_play *play, int32_t s)
{
    const struct stage_state *state = &play->stage[s];
    if (state->backward == state->forward)
        return NEVER;
    int64_t there = s + 1 < play->pipeline->stages
                        ? all_there(play, play->backward_at, s + 1, s, state->backward)
                        : *time_of(play, play->forward_at, s, state->backward);
    return there ? later(there - 1, state->free_at) : NEVER;
}

/* The stage that goes on first, and when. */
static int32_t next_stage(const struct order_play *play, int64_t *begins)
{
    int32_t next = -1;
    *begins = NEVER;
    for (int32_t s = 0; s < play->pipeline->stages; s++) {
        int64_t forward = forward_begins(play, s), backward = backward_begins(play, s);
        int64_t first = forward < backward ? forward : backward;
        if (first < *begins) {
            *begins = first;
            next = s;
        }
    }
    return next;
}

static int64_t pass_ns(const struct order_play *play, int32_t s, bool backward)
{
    if (play->passes)
        return backward ? play->passes[s].backward_ns : play->passes[s].forward_ns;
    return (int64_t)pipeline_joins(play->pipeline, s) * (backward ? BACKWARD : FORWARD);
}

/* Times are stored as one more than they are, so that 0 is none. */
static void take_slot(struct order_play *play, struct arena *keep, int32_t s, int64_t begins,
                      struct slots *out)
{
    struct stage_state *state = &play->stage[s];
    bool backward = backward_begins(play, s) <= begins;
    int32_t joins = pipeline_joins(play->pipeline, s);
    int32_t *next = backward ? &state->backward : &state->forward, m = *next;
    *next += joins;
    state->free_at = begins + pass_ns(play, s, backward);
    *time_of(play, backward ? play->backward_at : play->forward_at, s, m) = state->free_at + 1;
    struct slot slot = {backward ? SLOT_BACKWARD : SLOT_FORWARD, 0, m};
    array_push(keep, out, slot);
}

/* The given limits, and (2) where there are none. */
static int64_t *limits_of(struct arena *keep, const struct pipeline *p, const int64_t *given)
{
    int64_t *limit = ARENA_ARRAY(keep, int64_t, (size_t)p->stages), sum = 0, most = 1;
    for (int32_t s = p->stages - 1; s >= 0; s--) {
        int32_t joins = pipeline_joins(p, s);
        sum += joins;
        most = later(most, joins);
        limit[s] = given[s] > 0 ? given[s] : ceil_div(sum, most) * most;
    }
    return limit;
}

/* I1 */
static weft_status check_enough(const struct order_play *play)
{
    const struct pipeline *p = play->pipeline;
    for (int32_t s = p->stages - 1; s >= 0; s--)
        if (play->stage[s].backward < p->micro_batches)
            return bad_argument("a higher 'in_flight' on it or on the stages before it",
                                "stage %d never has the %s in flight that it takes at once", s,
                                counted(pipeline_joins(p, s), "micro-batch").s);
    return WEFT_OK;
}

weft_status schedule_limited(struct arena *keep, const struct pipeline *pipeline,
                             const int64_t *limit, const struct slot_lengths *passes,
                             struct schedule **out)
{
    size_t stages = (size_t)pipeline->stages, all = stages * (size_t)pipeline->micro_batches;
    struct slot_lists *lists = ARENA_NEW(keep, struct slot_lists);
    struct order_play play = {pipeline,
                              limits_of(keep, pipeline, limit),
                              passes,
                              ARENA_ARRAY(keep, struct stage_state, stages),
                              ARENA_ARRAY(keep, int64_t, all),
                              ARENA_ARRAY(keep, int64_t, all)};
    *lists = (struct slot_lists){*pipeline, ARENA_ARRAY(keep, struct slots, stages)};
    int64_t begins;
    for (int32_t s; (s = next_stage(&play, &begins)) >= 0;)
        take_slot(&play, keep, s, begins, &lists->stage[s]);
    weft_status status = check_enough(&play);
    if (status)
        return status;
    return schedule_of_lists(keep, "limited", "the limited order", lists, false, out);
}

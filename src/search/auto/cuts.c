/* cuts.c - the best plan's cuts between stages, moved a layer at a time (room.h).
 *
 * Searches place cuts by estimates, in which the longest stage counts most. With few micro-batches the order of the work
 * counts as much, and only the simulator knows it.
 *
 *   I1  Each cut is moved to the end of the next layer on either side and on from there for as long as the plan fits and
 *       becomes faster, until no cut can be moved. Every operator keeps its choice. Only the fastest plan stays among the trials.
 *   I2  Only plans whose stages have one part each and equally many devices, and only where the answer need not run in a
 *       framework: what those take besides degrees is moved by tune.c.
 *   I3  The effort is counted: plans that are simulated.
 */
#include "search/auto/room.h"

enum { MOST_MOVES = 32 }; /* I3 */

struct cut_moves {
    struct join *join;
    struct plan *plan; /* the fastest so far */
    int64_t iteration_ns;
    const char *found_by;
    int moves;
    bool faster;
};

/* Whether a part may begin with this instance: outside of a layer, or between two. */
static bool begins_part(const struct plan *plan, int64_t at)
{
    const struct op *before = &plan->model->op[plan->instance[at - 1].op];
    return !op_in_layer(plan->model, before) || plan->ends_layer[at - 1];
}

/* Moves the beginning of a part by one layer; false: the stage before it, or its own, would be empty. */
static bool move_cut(struct plan *plan, int32_t part, int step)
{
    struct part *before = &plan->part[part - 1], *after = &plan->part[part];
    int64_t end = after->first + after->count, at = after->first + step;
    while (at > before->first && at < end && !begins_part(plan, at))
        at += step;
    if (at <= before->first || at >= end)
        return false;
    *before = (struct part){before->first, at - before->first};
    *after = (struct part){at, end - at};
    return true;
}

/* The plan of the last trial becomes the fastest, or is no trial any more. */
static weft_status judge_last(struct cut_moves *c, bool *faster)
{
    struct planned *out = c->join->out;
    struct trial *last = &out->trials.data[out->trials.len - 1];
    *faster = last->fits && last->iteration_ns < c->iteration_ns;
    if (!*faster || c->faster) { /* the slower one of the two goes */
        struct trial *slower = *faster ? last - 1 : last;
        plan_free(slower->plan);
        *slower = *last;
        out->trials.len--;
    }
    if (!*faster)
        return WEFT_OK;
    last = &out->trials.data[out->trials.len - 1];
    c->faster = true;
    c->iteration_ns = last->iteration_ns;
    plan_free(c->plan);
    c->plan = NULL;
    return plan_copy(last->plan, &c->plan);
}

static weft_status try_move(struct cut_moves *c, int32_t part, int step, bool *faster)
{
    struct trial *trial;
    struct plan *plan;
    weft_status status;
    *faster = false;
    TRY(plan_copy(c->plan, &plan));
    if (!move_cut(plan, part, step)) {
        plan_free(plan);
        return WEFT_OK;
    }
    c->moves++;
    TRY(join_try_found(c->join, plan, mix_text(c->join->out->arena, plan), c->found_by, &trial));
    if (trial)
        TRY(judge_last(c, faster));
done:
    return status;
}

/* I2 */
static bool has_plain_stages(const struct plan *plan)
{
    bool plain = plan->stages > 1 && plan->parts == plan->stages && !plan_has_subsets(plan);
    for (int32_t s = 1; s < plan->stages; s++)
        plain &= plan->stage[s].devices == plan->stage[0].devices;
    return plain;
}

static weft_status move_every_cut(struct cut_moves *c, bool *moved)
{
    weft_status status = WEFT_OK;
    *moved = false;
    for (int32_t part = 1; part < c->plan->parts; part++)
        for (int step = -1; step <= 1; step += 2) {
            bool faster = true;
            while (faster && c->moves < MOST_MOVES && !join_over(c->join)) {
                TRY(try_move(c, part, step, &faster));
                *moved |= faster;
            }
        }
done:
    return status;
}

static weft_status move_cuts(struct cut_moves *c)
{
    bool moved = has_plain_stages(c->plan);
    weft_status status = WEFT_OK;
    while (moved && c->moves < MOST_MOVES)
        TRY(move_every_cut(c, &moved));
done:
    return status;
}

weft_status move_best_cuts(struct join *join)
{
    const struct plan_request *request = join->request;
    const struct trial *best = join_best(join->out, NULL);
    bool framework = request->target && !request->target->any;
    struct cut_moves c = {.join = join};
    weft_status status = WEFT_OK;
    if (!best || framework || request->cluster->pools || request->options.batch_auto ||
        join_over(join))
        return WEFT_OK;
    c.iteration_ns = best->iteration_ns;
    c.found_by = arena_printf(join->out->arena, "%s with other cuts", best->found_by);
    TRY(join_plan_of(join, best, &c.plan));
    TRY(move_cuts(&c));
done:
    plan_free(c.plan);
    return status;
}

/* found_order.c - an order of slots for a plan's own times (candidate.h).
 *
 * The plan is estimated once with whole backward passes and once with passes in two, each time in an order that any shape has.
 * Its parts' times, sends and memory are the question; what a stage may hold between passes is
 *   limit - state - what stands in for gradients                                                   (1)
 *
 *   I1  An order in two is taken only if it is faster, because plain orders surprise less.
 */
#include "search/estimate/estimator.h"

struct order_numbers {
    struct order_question q;
    int64_t *forward, *input, *weight, *send, *back, *limit;
    struct order_memory *memory;
};

static struct order_numbers order_numbers_new(struct arena *scratch, const struct plan *plan,
                                              bool split)
{
    size_t parts = (size_t)plan->parts;
    struct order_numbers a = {.memory = ARENA_ARRAY(scratch, struct order_memory, parts),
                              .limit = ARENA_ARRAY(scratch, int64_t, (size_t)plan->stages)};
    int64_t **const times[] = {&a.forward, &a.input, &a.weight, &a.send, &a.back};
    for (size_t i = 0; i < COUNT_OF(times); i++)
        *times[i] = ARENA_ARRAY(scratch, int64_t, parts);
    a.q = (struct order_question){.pipeline = plan_pipeline(plan),
                                  .zigzag = plan->zigzag,
                                  .forward_ns = a.forward,
                                  .input_ns = a.input,
                                  .weight_ns = a.weight,
                                  .send_ns = a.send,
                                  .back_ns = a.back,
                                  .memory = a.memory,
                                  .limit_bytes = a.limit,
                                  .unsplit = !split};
    return a;
}

static void ask_part(struct order_numbers *a, const struct candidate_part *part, int32_t k)
{
    a->forward[k] = part->work.forward;
    a->input[k] = part->work.backward;
    a->weight[k] = part->work.weight;
    a->send[k] = part->work.send;
    a->back[k] = part->work.back;
    a->memory[k] =
        (struct order_memory){part->memory.kept, part->memory.back, part->memory.forward_rise,
                              part->memory.backward_rise, part->memory.weight_rise};
}

/* (1). */
static void ask_limits(struct order_numbers *a, const struct plan *plan, const struct candidate *c,
                       const struct estimate *estimate, double fill)
{
    for (int32_t s = 0; s < plan->stages; s++) {
        int64_t stand_in = 0;
        a->limit[s] = (int64_t)(fill * (double)estimate->stage[s].limit_bytes);
        for (int32_t piece = 0; piece < (int32_t)plan->pieces; piece++) {
            struct candidate_part part = candidate_part(c, plan_part_of_piece(plan, s, piece));
            a->limit[s] -= part.state_bytes;
            stand_in = part.stand_in_bytes > stand_in ? part.stand_in_bytes : stand_in;
        }
        a->limit[s] -= stand_in;
    }
}

static weft_status ask(struct estimator *e, const struct plan *plan, bool split, double fill,
                       struct arena *keep, struct order_answer *out)
{
    struct arena *scratch = arena_new();
    struct order_numbers a = order_numbers_new(scratch, plan, split);
    struct candidate *c;
    struct estimate estimate;
    weft_status status;
    TRY(candidate_of_plan(e, plan, scratch, &c));
    c->schedule = schedule_of_any_shape(plan->zigzag, split);
    TRY(estimate_candidate(e, c, &estimate));
    for (int32_t k = 0; k < plan->parts; k++) {
        struct candidate_part part = candidate_part(c, k);
        ask_part(&a, &part, k);
    }
    ask_limits(&a, plan, c, &estimate, fill);
    TRY(schedule_find_order(keep, &a.q, out));
done:
    arena_free(scratch);
    return status;
}

weft_status estimate_order(struct estimator *estimator, const struct plan *plan, double fill,
                           struct arena *keep, struct order_answer *out)
{
    struct order_answer whole = {0}, halves = {0};
    weft_status first = ask(estimator, plan, false, fill, keep, &whole);
    if (first != WEFT_OK && first != WEFT_NO_ANSWER)
        return first;
    weft_status second = ask(estimator, plan, true, fill, keep, &halves);
    bool split = second == WEFT_OK && (first != WEFT_OK || halves.ns < whole.ns); /* I1 */
    *out = split ? halves : whole;
    if (first == WEFT_OK || second == WEFT_OK) {
        error_clear();
        return WEFT_OK;
    }
    return second;
}

/* pass_order.c - the few passes that represent all passes of a part, in the order of its
 * schedule. */
#include "search/estimate/pass_order.h"

#include <string.h>

/* With one micro-batch, with more, and where gradients are synchronised with every one. The letters
 * are those of slot_label; P is F and B at once. */
static const char *const ORDERS[][MOST_ROUNDS] = {
    [ORDER_IN_TURN] = {"FB", "FBFB", "FBFBFB"},
    [ORDER_FORWARDS_FIRST] = {"FB", "FFBB", "FFFBBB"},
    [ORDER_SPLIT] = {"FIW", "FIWFIW", "FIWFIWFIW"},
    [ORDER_PAIRED] = {"FB", "FFPBB", "FFPPBB"},
};
_Static_assert(COUNT_OF(ORDERS) == ORDER_COUNT, "an order without its passes");

static bool goes_with_each(const struct timed *t, int32_t bucket)
{
    return t->outline.synchronise[bucket] >= 0 && t->outline.graph->bucket[bucket].shard >= 2;
}

static int32_t rounds_of(const struct timed *t, int32_t part)
{
    int32_t stage = plan_stage_of_part(t->plan, part);
    int64_t m = plan_micro_batches(t->plan) / plan_stage_joins(t->plan, stage);
    bool each = false;
    for (int32_t i = 0; i < t->outline.graph->buckets; i++)
        each |= t->outline.graph->bucket[i].part == part && goes_with_each(t, i);
    int64_t most = each ? MOST_ROUNDS : MOST_ROUNDS - 1;
    return (int32_t)(m < most ? m : most);
}

int32_t nth_pass(const struct part_passes *passes, enum slot_kind kind, int32_t n)
{
    for (int32_t p = 0; p < passes->count; p++)
        if (passes->pass[p].kind == kind && --n == 0)
            return p;
    return NONE;
}

struct part_passes passes_of_part(const struct timed *t, int32_t part)
{
    static const char LETTERS[] = {[SLOT_FORWARD] = 'F',
                                   [SLOT_BACKWARD] = 'B',
                                   [SLOT_BACKWARD_INPUT] = 'I',
                                   [SLOT_BACKWARD_WEIGHT] = 'W'};
    enum order order = plan_schedule(t->plan)->passes;
    struct part_passes out = {.rounds = rounds_of(t, part)};
    int32_t middle = out.rounds > 1 ? out.rounds - 1 : 1;
    bool paired = order == ORDER_PAIRED;
    for (const char *text = ORDERS[order][out.rounds - 1]; *text; text++) {
        bool pair = *text == 'P', first = out.count == 0, last = text[1] == '\0';
        const char *letter = memchr(LETTERS, pair ? 'F' : *text, sizeof LETTERS);
        enum slot_kind kind = (enum slot_kind)(letter - LETTERS);
        out.pass[out.count++] = (struct pass){kind, first, last, pair};
        out.micro_batches += kind == SLOT_FORWARD;
        if (pair)
            out.pass[out.count++] = (struct pass){SLOT_BACKWARD, false, last, false};
    }
    out.number[PASS_FORWARD] = nth_pass(&out, SLOT_FORWARD, paired ? 3 : out.rounds);
    out.number[PASS_FORWARD_APART] = paired ? nth_pass(&out, SLOT_FORWARD, 2) : NONE;
    out.number[PASS_BACKWARD_APART] = paired ? out.count - 2 : NONE;
    out.number[PASS_BACKWARD] = nth_pass(
        &out, order == ORDER_SPLIT ? SLOT_BACKWARD_INPUT : SLOT_BACKWARD, paired ? 1 : middle);
    out.number[PASS_WEIGHT] = nth_pass(&out, SLOT_BACKWARD_WEIGHT, middle);
    out.number[PASS_LAST] = out.count - 1;
    return out;
}

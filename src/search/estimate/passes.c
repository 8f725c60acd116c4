/* passes.c - how long the passes of one part take (passes.h). */
#include "search/estimate/pass_script.h"

#include <string.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t gradients_end(const struct pass_script *s, const struct engine_result *result,
                             int32_t pass)
{
    return s->gradients[pass] >= 0 ? result->end_ns[s->gradients[pass]] : 0;
}

/* Without overlap a pass also includes the gradients that the next pass waits for. */
static int64_t end_of_pass(const struct pass_script *s, const struct engine_result *result,
                           const struct block *block, int32_t pass, bool last)
{
    bool beside = s->timed->plan->overlap & OVERLAP_GRADIENTS;
    int64_t end = beside || last ? 0 : gradients_end(s, result, pass);
    for (int32_t i = 0; i < block->items; i++) {
        int64_t item = result->end_ns[s->task[pass][i]];
        end = item > end ? item : end;
    }
    return end;
}

static const struct block *block_at(const struct timed *t, int32_t part, const struct pass *pass)
{
    return &t->outline.graph->block[t->block_of[pass->kind][part]];
}

/* The times of one pass of a pair by itself (I3): per item when it is over, counted from the start
 * of the pass. Returns how long the pass's operators take. */
static int64_t own_time(struct pass_script *s, const struct block *block, int32_t pass,
                        const int64_t *counts)
{
    int64_t ns = 0;
    s->own[pass] = ARENA_ARRAY(s->scratch, int64_t, (size_t)block->items);
    for (int32_t i = 0; i < block->items; i++) {
        ns += counts[s->task[pass][i]];
        s->own[pass][i] = ns;
    }
    return ns;
}

/* Divides a pair into its passes as if one came after the other: how long each takes. */
static void divide_pair(struct pass_script *s, const struct engine_result *result,
                        const struct part_passes *passes, int32_t part, int32_t pass, int64_t *end)
{
    const struct block *block[] = {block_at(s->timed, part, &passes->pass[pass]),
                                   block_at(s->timed, part, &passes->pass[pass + 1])};
    int64_t start = end[pass], over = start, before = start;
    int64_t *counts = ARENA_ARRAY(s->scratch, int64_t, s->ns.len); /* per task */
    for (int k = 0; k < 2; k++)
        over = larger(over, end_of_pass(s, result, block[k], pass + k, false));
    int32_t first = INT32_MAX, last = -1;
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < block[k]->items; i++) {
            int32_t task = s->task[pass + k][i];
            first = task < first ? task : first;
            last = task > last ? task : last;
        }
    for (int32_t t = first; t <= last; t++) {
        if (s->stream.data[t] != LANE_OPS)
            continue;
        counts[t] = larger(0, result->end_ns[t] - before);
        before = larger(before, result->end_ns[t]);
    }
    int64_t forward = own_time(s, block[0], pass, counts);
    own_time(s, block[1], pass + 1, counts);
    end[pass + 1] = start + forward;
    end[pass + 2] = over;
}

/* When each pass is over, from [1] on; [0] is the start. */
static void find_ends(struct pass_script *s, const struct engine_result *result,
                      const struct part_passes *passes, int32_t part, int64_t *end)
{
    end[0] = 0;
    for (int32_t p = 0; p < passes->count; p++) {
        const struct pass *pass = &passes->pass[p];
        if (pass->paired) {
            divide_pair(s, result, passes, part, p++, end);
            continue;
        }
        int64_t over = end_of_pass(s, result, block_at(s->timed, part, pass), p, pass->last);
        end[p + 1] = larger(over, end[p]);
    }
}

/* How long gradients continue after a pass. */
static int64_t tail_after(const struct pass_script *s, const struct engine_result *result,
                          const int64_t *end, int32_t pass)
{
    return larger(0, gradients_end(s, result, pass) - end[pass + 1]);
}

/* By how much further the gradients that are synchronised with every micro-batch are behind after a
 * round than before it: measured from the first round to the second, in which no other gradients
 * are sent (rounds_of). */
static int64_t lag_of(const struct pass_script *s, const struct engine_result *result,
                      const struct part_passes *passes, const int64_t *end)
{
    enum slot_kind completes =
        passes->number[PASS_WEIGHT] >= 0 ? SLOT_BACKWARD_WEIGHT : SLOT_BACKWARD;
    int32_t first = nth_pass(passes, completes, 1), second = nth_pass(passes, completes, 2);
    if (passes->rounds < MOST_ROUNDS || !(s->timed->plan->overlap & OVERLAP_GRADIENTS))
        return 0;
    return larger(0, tail_after(s, result, end, second) - tail_after(s, result, end, first));
}

static void read_times(struct pass_script *s, const struct engine_result *result,
                       const struct part_passes *passes, int32_t part, struct part_work *out)
{
    int64_t end[MOST_PASSES + 1], ns[PASS_ROLES];
    find_ends(s, result, passes, part, end);
    for (int role = 0; role < PASS_ROLES; role++) {
        int32_t p = passes->number[role];
        ns[role] = p >= 0 ? end[p + 1] - end[p] : 0;
    }
    bool split = passes->number[PASS_WEIGHT] >= 0;
    int64_t lag = lag_of(s, result, passes, end);
    int64_t tail = tail_after(s, result, end, passes->number[PASS_LAST]);
    *out = (struct part_work){.forward = ns[PASS_FORWARD],
                              .backward = ns[PASS_BACKWARD],
                              .weight = ns[PASS_WEIGHT],
                              .first_more = ns[PASS_FIRST] - ns[PASS_FORWARD],
                              .last_more = ns[PASS_LAST] - ns[split ? PASS_WEIGHT : PASS_BACKWARD],
                              .tail = larger(0, tail - (passes->micro_batches - 1) * lag),
                              .lag = lag};
    if (passes->number[PASS_FORWARD_APART] < 0)
        return;
    out->forward_apart = ns[PASS_FORWARD_APART] - ns[PASS_FORWARD];
    out->backward_apart = ns[PASS_BACKWARD_APART] - ns[PASS_BACKWARD];
    out->first_more -= out->forward_apart;
    out->last_more -= out->backward_apart;
}

int64_t sends_ns(const struct timed *t, int32_t from, int32_t to, bool back)
{
    int64_t ns = 0;
    for (int32_t i = 0; i < t->outline.sends; i++) {
        const struct outline_send *send = &t->outline.send[i];
        if (send->from_part == from && send->to_part == to)
            ns += exchange_ns(t, back ? send->backward : send->forward);
    }
    return ns;
}

/* ---- inputs that come late ------------------------------------------------------------------- */

/* Whether a stage that waits has something to gather (I4). */
static bool gathers_while_waiting(const struct timed *t, int32_t part)
{
    enum order order = plan_schedule(t->plan)->passes;
    bool sharded = false;
    for (int32_t i = 0; i < t->outline.graph->buckets; i++)
        sharded |= t->outline.graph->bucket[i].part == part &&
                   t->outline.graph->bucket[i].shard == 3 && t->outline.gather[i] >= 0;
    return sharded && t->plan->stages > 1 && order != ORDER_FORWARDS_FIRST && order != ORDER_PAIRED;
}

/* Whether it gathers updated weights for the first forward pass until that has its inputs (I4). */
static bool gathers_before_first(const struct timed *t, int32_t part)
{
    const struct plan *plan = t->plan;
    bool gathers = false;
    for (int32_t i = 0; i < t->outline.graph->buckets; i++)
        gathers |= t->outline.graph->bucket[i].part == part &&
                   t->outline.graph->bucket[i].shard < 3 && t->outline.gather[i] >= 0;
    return gathers && part > 0 && part < plan->stages && plan->overlap & OVERLAP_PARAMETERS &&
           !plan_aligns_gathers(&plan->software, plan->pieces);
}

/* How long a pass takes from its inputs on; 0: there is no such pass. */
static int64_t late_ns(const struct pass_script *s, const struct engine_result *result,
                       const int64_t *end, int32_t pass)
{
    return pass >= 0 ? end[pass + 1] - result->end_ns[s->input[pass]] : 0;
}

static weft_status find_late(const struct timed *timed, int32_t part,
                             const struct part_passes *passes, int64_t input_ns,
                             struct part_work *out)
{
    struct pass_script s = {.timed = timed, .scratch = arena_new(), .input_ns = input_ns};
    struct engine_result result;
    int64_t end[MOST_PASSES + 1];
    weft_status status;
    TRY(run_passes(&s, part, passes, &result));
    find_ends(&s, &result, passes, part, end);
    int64_t forward = late_ns(&s, &result, end, passes->number[PASS_FORWARD]);
    int64_t backward = late_ns(&s, &result, end, passes->number[PASS_BACKWARD]);
    if (!gathers_while_waiting(timed, part)) {
        int64_t first = late_ns(&s, &result, end, passes->number[PASS_FIRST]);
        out->first_less = larger(0, out->forward + out->first_more - first);
        goto done;
    }
    out->forward_less = larger(0, out->forward - forward);
    out->backward_less = larger(0, out->backward - backward);
done:
    arena_free(s.scratch);
    return status;
}

weft_status part_work(const struct timed *timed, int32_t part, struct part_work *out)
{
    struct part_passes passes = passes_of_part(timed, part);
    struct pass_script s = {.timed = timed, .scratch = arena_new()};
    struct engine_result result;
    weft_status status;
    TRY(run_passes(&s, part, &passes, &result));
    read_times(&s, &result, &passes, part, out);
    if (gathers_while_waiting(timed, part) || gathers_before_first(timed, part))
        TRY(find_late(timed, part, &passes, result.end_ns[s.last[LANE_OPS]], out));
    out->send = part + 1 < timed->plan->parts ? sends_ns(timed, part, part + 1, false) : 0;
    out->back = part > 0 ? sends_ns(timed, part - 1, part, true) : 0;
    out->host = exchange_ns(timed, timed->outline.from_host[part]);
done:
    arena_free(s.scratch);
    return status;
}

/* ---- instance by instance -------------------------------------------------------------------- */

weft_status part_items(const struct timed *timed, int32_t part, struct arena *keep,
                       struct pass_items *out)
{
    struct part_passes passes = passes_of_part(timed, part);
    struct pass_script s = {.timed = timed, .scratch = arena_new()};
    struct engine_result result;
    int64_t end[MOST_PASSES + 1];
    weft_status status;
    *out = (struct pass_items){0};
    TRY(run_passes(&s, part, &passes, &result));
    find_ends(&s, &result, &passes, part, end);
    for (int role = 0; role < PASS_ROLES; role++) {
        int32_t p = passes.number[role];
        if (p < 0)
            continue;
        const struct block *block = block_at(timed, part, &passes.pass[p]);
        out->block[role] = block;
        out->end_ns[role] = ARENA_ARRAY(keep, int64_t, (size_t)block->items);
        for (int32_t i = 0; i < block->items; i++)
            out->end_ns[role][i] = s.own[p] ? s.own[p][i] : result.end_ns[s.task[p][i]] - end[p];
    }
done:
    arena_free(s.scratch);
    return status;
}

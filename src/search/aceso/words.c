/* words.c - a config as a line of text, and the steps that led to the best one as a sentence
 * each. */
#include "search/aceso/team.h"

#include <string.h>

static const char *range_text(struct arena *keep, const char *name, int64_t low, int64_t high)
{
    if (low == high)
        return arena_printf(keep, "%s %lld", name, (long long)low);
    return arena_printf(keep, "%s %lld-%lld", name, (long long)low, (long long)high);
}

static int32_t recomputed_stages(const struct config *c)
{
    int32_t count = 0;
    for (int32_t s = 0; s < c->stages; s++) {
        bool any = false;
        for (int32_t k = s; k < config_parts(c); k += c->stages)
            any |= c->part[k].high > 0;
        count += any;
    }
    return count;
}

const char *config_text(struct arena *keep, const struct problem *p, const struct config *c)
{
    int64_t tp[2] = {INT64_MAX, 0}, dp[2] = {INT64_MAX, 0}, zero[2] = {INT64_MAX, 0};
    int32_t recomputed = recomputed_stages(c);
    bool sequence = false;
    for (int32_t k = 0; k < config_parts(c); k++)
        for (int i = 0; i < MOST_MANNERS; i++) {
            const struct manner *m = &c->part[k].manner[i];
            int64_t own = dp_of(p, c->devices[k % c->stages], m->tp);
            tp[0] = m->tp < tp[0] ? m->tp : tp[0];
            tp[1] = m->tp > tp[1] ? m->tp : tp[1];
            dp[0] = own < dp[0] ? own : dp[0];
            dp[1] = own > dp[1] ? own : dp[1];
            zero[0] = m->shard < zero[0] ? m->shard : zero[0];
            zero[1] = m->shard > zero[1] ? m->shard : zero[1];
            sequence |= m->sequence;
        }
    const struct schedule *schedule = config_schedule(c);
    const char *text = range_text(keep, "dp", dp[0], dp[1]);
    if (tp[1] > 1)
        text = arena_printf(keep, "%s %s", text, range_text(keep, "tp", tp[0], tp[1]));
    if (sequence)
        text = arena_printf(keep, "%s sp", text);
    if (c->stages > 1)
        text = arena_printf(keep, "%s pp %d", text, (int)c->stages);
    if (c->pieces > 1)
        text = arena_printf(keep, "%s %s %d", text, schedule->segmented ? "segments" : "virtual",
                            (int)c->pieces);
    if (schedule != schedule_default(c->pieces, schedule->segmented ? c->pieces : 1))
        text = arena_printf(keep, "%s schedule %s", text, schedule->name);
    if (zero[1])
        text = arena_printf(keep, "%s %s", text, range_text(keep, "zero", zero[0], zero[1]));
    text = arena_printf(keep, "%s, %s per step", text, counted(c->step_samples, "sample").s);
    if (recomputed)
        text = arena_printf(keep, "%s, recompute in %d stage%s", text, (int)recomputed,
                            recomputed == 1 ? "" : "s");
    return text;
}

static const char *verdict_text(struct arena *keep, struct verdict v)
{
    if (v.excess_bytes)
        return arena_printf(keep, "%s too much", show_bytes((double)v.excess_bytes).s);
    return arena_printf(keep, "%s", show_duration((double)v.iteration_ns).s);
}

void explain(struct planned *out, const struct search_result *result)
{
    enum { MOST_REASONS = 8 };
    size_t best = 0, skip = 0, seen = 0;
    for (size_t i = 0; i < result->steps.len; i++)
        best += result->steps.data[i].best;
    skip = best > MOST_REASONS ? best - MOST_REASONS : 0;
    for (size_t i = 0; i < result->steps.len; i++) {
        const struct search_step *step = &result->steps.data[i];
        if (!step->best || seen++ < skip)
            continue;
        const char *text = arena_printf(
            out->arena, "stage %d was the bottleneck (%s): %s: %s -> %s", (int)step->bottleneck,
            resource_name(step->resource), step->text, verdict_text(out->arena, step->before),
            verdict_text(out->arena, step->after));
        array_push(out->arena, &out->reasons, text);
    }
}

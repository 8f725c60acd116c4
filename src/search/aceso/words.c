/* words.c - a config as a line of text, a proposal as what it changes, and the steps that led to the best config as a
 * sentence each. */
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

/* The least and the most of each degree. */
enum { OF_DP, OF_TP, OF_CP, OF_EP, OF_ZERO, OF_COUNT };

static void widen_ranges(const struct manner *m, int64_t devices, int64_t range[OF_COUNT][2])
{
    const int64_t own[] = {[OF_DP] = dp_of(devices, m->tp, m->cp),
                           [OF_TP] = m->tp,
                           [OF_CP] = m->cp,
                           [OF_EP] = m->ep,
                           [OF_ZERO] = m->shard};
    for (int i = 0; i < OF_COUNT; i++) {
        range[i][0] = own[i] < range[i][0] ? own[i] : range[i][0];
        range[i][1] = own[i] > range[i][1] ? own[i] : range[i][1];
    }
}

static const char *with_range(struct arena *keep, const char *text, const char *name,
                              const int64_t range[2], int64_t usual)
{
    if (range[1] <= usual)
        return text;
    return arena_printf(keep, "%s %s", text, range_text(keep, name, range[0], range[1]));
}

const char *config_text(struct arena *keep, const struct config *c)
{
    int64_t range[OF_COUNT][2];
    int32_t recomputed = recomputed_stages(c);
    bool sequence = false;
    for (int i = 0; i < OF_COUNT; i++) {
        range[i][0] = INT64_MAX;
        range[i][1] = 0;
    }
    for (int32_t k = 0; k < config_parts(c); k++)
        for (int i = 0; i < MOST_MANNERS; i++) {
            widen_ranges(&c->part[k].manner[i], c->devices[k % c->stages], range);
            sequence |= c->part[k].manner[i].sequence;
        }
    const struct schedule *schedule = config_schedule(c);
    const char *text = range_text(keep, "dp", range[OF_DP][0], range[OF_DP][1]);
    text = with_range(keep, text, "tp", range[OF_TP], 1);
    if (sequence)
        text = arena_printf(keep, "%s sp", text);
    if (c->stages > 1)
        text = arena_printf(keep, "%s pp %d", text, (int)c->stages);
    text = with_range(keep, text, "cp", range[OF_CP], 1);
    text = with_range(keep, text, "ep", range[OF_EP], 1);
    if (c->pieces > 1)
        text = arena_printf(keep, "%s %s %d", text, schedule->segmented ? "segments" : "virtual",
                            (int)c->pieces);
    if (schedule != schedule_default(c->pieces, schedule->segmented ? c->pieces : 1))
        text = arena_printf(keep, "%s schedule %s", text, schedule->name);
    text = with_range(keep, text, "zero", range[OF_ZERO], 0);
    text = arena_printf(keep, "%s, %s per step", text, counted(c->step_samples, "sample").s);
    if (recomputed)
        text = arena_printf(keep, "%s, recompute in %d stage%s", text, (int)recomputed,
                            recomputed == 1 ? "" : "s");
    return text;
}

/* ---- one proposal ---------------------------------------------------------------------------- */

static const char *stages_text(struct arena *keep, const struct proposal *made)
{
    return made->partner < 0 ? "all stages" : arena_printf(keep, "stage %d", (int)made->stage);
}

static int64_t dp_at(const struct config *c, int32_t stage)
{
    const struct manner *m = main_manner(c, stage);
    return dp_of(c->devices[stage], m->tp, m->cp);
}

static const char *change_text(struct arena *keep, const struct proposal *made,
                               const struct config *before)
{
    const struct config *c = &made->config;
    int32_t s = made->stage;
    const char *who = stages_text(keep, made);
    if (c->devices[s] == before->devices[s])
        return arena_printf(keep, "tp %lld -> %lld, dp %lld -> %lld on %s",
                            (long long)main_manner(before, s)->tp, (long long)main_manner(c, s)->tp,
                            (long long)dp_at(before, s), (long long)dp_at(c, s), who);
    return arena_printf(keep, "%d -> %d devices on stage %d (tp %lld -> %lld), with stage %d",
                        (int)before->devices[s], (int)c->devices[s], (int)s,
                        (long long)main_manner(before, s)->tp, (long long)main_manner(c, s)->tp,
                        (int)made->partner);
}

const char *proposal_text(struct arena *keep, const struct proposal *made,
                          const struct config *before)
{
    const struct config *c = &made->config;
    const struct manner *m = main_manner(c, made->stage);
    switch (made->primitive) {
    case INC_OPS:
    case DEC_OPS:
        return arena_printf(keep, "moved %s to stage %d", counted(made->amount, "operator").s,
                            (int)made->partner);
    case INC_BATCH:
    case DEC_BATCH:
        return arena_printf(keep, "%lld -> %lld samples per step", (long long)before->step_samples,
                            (long long)c->step_samples);
    case INC_SHARD:
    case DEC_SHARD:
        return arena_printf(keep, "zero %d on %s", (int)m->shard, stages_text(keep, made));
    case SEQUENCE_ON:
    case SEQUENCE_OFF:
        return arena_printf(keep, "%s sequence parallelism on %s", m->sequence ? "with" : "without",
                            stages_text(keep, made));
    case OFFLOAD_MORE:
    case OFFLOAD_LESS:
        return arena_printf(keep, "%s offload on %s", m->offload ? "with" : "without",
                            stages_text(keep, made));
    case INC_CP:
    case DEC_CP:
    case INC_EP:
    case DEC_EP:
        return arena_printf(keep, "cp %d ep %d on %s", (int)m->cp, (int)m->ep,
                            stages_text(keep, made));
    case INC_PIECES:
    case DEC_PIECES:
    case CHANGE_SCHEDULE:
        return arena_printf(keep, "schedule %s, virtual %d", config_schedule(c)->name,
                            (int)c->pieces);
    case INC_RECOMPUTE:
    case DEC_RECOMPUTE:
        return arena_printf(keep, "recomputation of stage %d chosen again", (int)made->stage);
    default:
        return change_text(keep, made, before);
    }
}

/* ---- the steps ------------------------------------------------------------------------------- */

static const char *verdict_text(struct arena *keep, struct verdict v)
{
    if (v.excess_bytes)
        return arena_printf(keep, "%s too much", show_bytes((double)v.excess_bytes).s);
    return arena_printf(keep, "%s", show_seconds((double)v.iteration_ns).s);
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

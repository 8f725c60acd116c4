/* words.c - what a layer plan does, and why; or why there is none (words.h). */
#include "search/galvatron/words.h"

#include <stdlib.h>

static bool is_layer(const struct layer_source *source, int32_t layer)
{
    return !source->around || !source->around[layer];
}

static int32_t count_layers(const struct layer_source *source)
{
    int32_t layers = 0;
    for (int32_t l = 0; l < source->layers; l++)
        layers += is_layer(source, l);
    return layers;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *counts_text(struct arena *keep, const struct layer_source *source,
                               const struct layer_plan *plan)
{
    enum { MOST_SHOWN = 8 };
    const char *text = "";
    int32_t layer = 0;
    for (int32_t stage = 0; stage < plan->stages; stage++) {
        int32_t layers = 0;
        for (int32_t end = layer + plan->count[stage]; layer < end; layer++)
            layers += is_layer(source, layer);
        if (stage < MOST_SHOWN || stage == plan->stages - 1)
            text = arena_printf(keep, "%s%s%d", text, stage ? "+" : "", (int)layers);
        else if (stage == MOST_SHOWN)
            text = arena_printf(keep, "%s+..", text);
    }
    return text;
}

/* The number of layers with the strategy of this one; 0 if an earlier one has it, too. */
static int32_t count_alike(const struct layer_source *source, const struct layer_plan *plan,
                           int32_t layer)
{
    int32_t count = 0;
    for (int32_t l = 0; l < source->layers; l++) {
        if (!is_layer(source, l) || !strategy_equal(&plan->strategy[l], &plan->strategy[layer]))
            continue;
        if (l < layer)
            return 0;
        count++;
    }
    return count;
}

static const char *with_degree(struct arena *keep, const char *text, const char *name,
                               int64_t degree)
{
    return degree > 1
               ? arena_printf(keep, "%s%s%s %lld", text, *text ? " " : "", name, (long long)degree)
               : text;
}

/* Tensor parallelism that is not on consecutive devices. */
static bool tp_is_outside(const struct strategy *strategy)
{
    for (int32_t i = 0; i + 1 < strategy->levels; i++)
        if (strategy->level[i].way == WAY_TP)
            return true;
    return false;
}

/* "dp 8 tp 2 sp zero 3 recompute full": one layer in the words of the command line (plan/words.c). */
static const char *strategy_words(struct arena *keep, const struct strategy *strategy)
{
    int64_t whole = strategy_degree(strategy, WAY_DP), sharded = strategy_degree(strategy, WAY_SDP);
    int64_t ep = strategy_degree(strategy, WAY_EP); /* replicas, too, outside of experts */
    const char *text = with_degree(keep, "", "dp", whole * sharded * ep);
    text = with_degree(keep, text, "tp", strategy_degree(strategy, WAY_TP));
    text = arena_printf(keep, "%s%s%s", text, tp_is_outside(strategy) ? " outside" : "",
                        strategy->sequence ? " sp" : "");
    text = with_degree(keep, text, "cp", strategy_degree(strategy, WAY_CP));
    text = with_degree(keep, text, "ep", ep);
    text = arena_printf(keep, "%s%szero %d", text, *text ? " " : "", strategy->shard);
    if (whole > 1 && sharded > 1)
        text = with_degree(keep, text, "replicate", whole);
    struct degrees d = {.recompute = strategy->modules ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL,
                        .modules = strategy->modules};
    return strategy->recompute
               ? arena_printf(keep, "%s recompute %s", text, recompute_text(keep, &d))
               : text;
}

static const char *strategies_text(struct arena *keep, const struct layer_source *source,
                                   const struct layer_plan *plan)
{
    enum { MOST_SHOWN = 3 };
    const char *text = "";
    int32_t shown = 0, layers = count_layers(source);
    for (int32_t l = 0; l < source->layers; l++) {
        int32_t count = is_layer(source, l) ? count_alike(source, plan, l) : 0;
        if (!count)
            continue;
        const char *words = strategy_words(keep, &plan->strategy[l]);
        if (count == layers)
            return words;
        if (shown++ == MOST_SHOWN)
            return arena_printf(keep, "%s, ..", text);
        text = arena_printf(keep, "%s%s%s %s", text, *text ? ", " : "", counted(count, "layer").s,
                            words);
    }
    return text;
}

const char *layer_plan_text(struct arena *keep, const struct layer_source *source,
                            const struct layer_plan *plan)
{
    const char *stages = "";
    if (plan->stages > 1)
        stages = arena_printf(keep, "pp %d (%s layers), ", (int)plan->stages,
                              counts_text(keep, source, plan));
    return arena_printf(keep, "%s%s, %s per step", stages, strategies_text(keep, source, plan),
                        counted(plan->global_batch / plan->micro_batches, "sample").s);
}

/* ---- what if --------------------------------------------------------------------------------- */

/* The fullest stage if layers had the strategies that `instead` makes of theirs (Eq. 2). */
struct supposed_stage {
    int64_t bytes;
    int32_t stage, layers; /* layers: how many differ */
};

static weft_status stage_bytes(const struct layer_problem *problem, const struct layer_plan *plan,
                               int32_t stage, int32_t first,
                               bool (*instead)(struct strategy *strategy),
                               struct supposed_stage *out)
{
    const struct layer_source *source = problem->source;
    struct layer_question q = {problem->devices, plan->stages, stage,
                               plan->global_batch / plan->micro_batches, plan->micro_batches};
    int64_t after = plan->stages - stage, kept = 0, state = 0, peak = 0;
    int64_t in_flight = after < plan->micro_batches ? after : plan->micro_batches;
    struct layer_cost cost;
    weft_status status;
    TRY(source->beside(source->context, &q, &cost));
    int64_t beside = cost.state_bytes + cost.peak_bytes + in_flight * cost.kept_bytes;
    for (int32_t l = first; l < first + plan->count[stage]; l++) {
        struct strategy strategy = plan->strategy[l];
        bool differs = instead(&strategy);
        TRY(source->layer(source->context, &q, source->kind[l], &strategy, &cost));
        if (cost.steady_ns == LAYERWISE_NEVER) {
            differs = false;
            TRY(source->layer(source->context, &q, source->kind[l], &plan->strategy[l], &cost));
        }
        kept += in_flight * cost.kept_bytes;
        state += cost.state_bytes;
        peak = kept + cost.peak_bytes > peak ? kept + cost.peak_bytes : peak;
        out->layers += differs && is_layer(source, l);
    }
    if (beside + state + peak > out->bytes) {
        out->bytes = beside + state + peak;
        out->stage = stage;
    }
done:
    return status;
}

static weft_status fullest_stage(const struct layer_problem *problem, const struct layer_plan *plan,
                                 bool (*instead)(struct strategy *strategy),
                                 struct supposed_stage *out)
{
    weft_status status = WEFT_OK;
    int32_t first = 0;
    *out = (struct supposed_stage){0};
    for (int32_t stage = 0; stage < plan->stages; first += plan->count[stage++])
        TRY(stage_bytes(problem, plan, stage, first, instead, out));
done:
    return status;
}

static bool keeping_all(struct strategy *strategy)
{
    bool recompute = strategy->recompute;
    strategy->recompute = false;
    strategy->modules = 0;
    return recompute;
}

static bool sharing_nothing(struct strategy *strategy)
{
    bool shard = strategy->shard == 3;
    if (shard)
        strategy->shard = 0;
    for (int32_t i = 0; i < strategy->levels; i++)
        if (strategy->level[i].way == WAY_SDP)
            strategy->level[i].way = WAY_DP;
    return shard;
}

static weft_status say_what_if(struct arena *keep, const struct layer_problem *problem,
                               const struct layer_plan *plan, const char *what,
                               bool (*instead)(struct strategy *strategy), reason_list *out)
{
    struct supposed_stage without;
    weft_status status;
    TRY(fullest_stage(problem, plan, instead, &without));
    if (!without.layers)
        goto done;
    const char *more = without.bytes > problem->limit_bytes
                           ? arena_printf(keep, "more than the limit of %s",
                                          show_bytes((double)problem->limit_bytes).s)
                           : "which would fit, but take longer";
    array_push(keep, out,
               arena_printf(keep, "%d of %s %s: otherwise stage %d would hold %s, %s.",
                            (int)without.layers, counted(count_layers(problem->source), "layer").s,
                            what, (int)without.stage, show_bytes((double)without.bytes).s, more));
done:
    return status;
}

/* ---- balance --------------------------------------------------------------------------------- */

static const char *why_more(const struct layer_plan *plan, int32_t stage, int32_t usual)
{
    bool more = plan->count[stage] > usual;
    if (stage == 0 || stage == plan->stages - 1)
        return more ? "the operators around the layers take little time there"
                    : "it also has operators that belong to no layer";
    if (plan->cost[stage].memory_bytes < plan->cost[0].memory_bytes || more)
        return "it holds fewer micro-batches than stages before it";
    return "it holds more micro-batches than stages after it";
}

/* Names the stage whose number of layers differs most from that of most stages. */
static void say_counts(struct arena *keep, const struct layer_source *source,
                       const struct layer_plan *plan, reason_list *out)
{
    int32_t *layers = ARENA_ARRAY(keep, int32_t, (size_t)plan->stages), layer = 0, at = 0;
    for (int32_t stage = 0; stage < plan->stages; stage++)
        for (int32_t end = layer + plan->count[stage]; layer < end; layer++)
            layers[stage] += is_layer(source, layer);
    int32_t even = count_layers(source) / plan->stages;
    for (int32_t stage = 1; stage < plan->stages; stage++)
        if (abs(layers[stage] - even) > abs(layers[at] - even))
            at = stage;
    if (layers[at] == even)
        return;
    array_push(keep, out,
               arena_printf(keep, "Stage %d has %s, an even share is %d: %s.", (int)at,
                            counted(layers[at], "layer").s, (int)even, why_more(plan, at, even)));
}

static void say_balance(struct arena *keep, const struct layer_plan *plan, reason_list *out)
{
    int64_t *time = ARENA_ARRAY(keep, int64_t, (size_t)plan->stages);
    int64_t *bytes = ARENA_ARRAY(keep, int64_t, (size_t)plan->stages);
    for (int32_t stage = 0; stage < plan->stages; stage++) {
        time[stage] = plan->cost[stage].time_ns;
        bytes[stage] = plan->cost[stage].memory_bytes;
    }
    array_push(keep, out,
               arena_printf(keep,
                            "Balance of time %.3f and of memory %.3f, where %.3f is the best that "
                            "%s can have.",
                            balance_degree(time, plan->stages), balance_degree(bytes, plan->stages),
                            1 - 1.0 / plan->stages, counted(plan->stages, "stage").s));
}

weft_status layer_plan_reasons(struct arena *keep, const struct layer_problem *problem,
                               const struct layer_plan *plan, reason_list *out)
{
    weft_status status;
    TRY(say_what_if(keep, problem, plan, "recompute", keeping_all, out));
    if (problem->space->ways & 1U << WAY_DP) /* otherwise there was no choice */
        TRY(say_what_if(keep, problem, plan, "shard their weights", sharing_nothing, out));
    if (plan->stages > 1) {
        say_counts(keep, problem->source, plan, out);
        say_balance(keep, plan, out);
    }
done:
    return status;
}

/* ---- if there is no plan
 * ----------------------------------------------------------------------- */

/* The space's PP degrees that leave each stage at least one layer: "1, 2 or 4"; "": none. *asked:
 * one of them is what the problem asks for. */
static const char *pp_choices(struct arena *keep, const struct layer_problem *problem, bool *asked)
{
    struct pp_degrees pp = {0};
    const char *text = "";
    size_t count = 0;
    space_pp_degrees(keep, problem->space, problem->devices, &pp);
    while (count < pp.len && pp.data[count] <= problem->source->layers)
        count++;
    *asked = false;
    for (size_t i = 0; i < count; i++) {
        const char *between = i + 1 == count ? " or " : ", ";
        *asked |= !problem->pp || problem->pp == pp.data[i];
        text = arena_printf(keep, "%s%s%lld", text, i ? between : "", (long long)pp.data[i]);
    }
    return text;
}

static weft_status say_no_setting(const struct layer_problem *p)
{
    struct arena *scratch = arena_new();
    bool asked;
    const char *choices = pp_choices(scratch, p, &asked), *what = "";
    weft_status status;
    if (asked) {
        what = p->global_batch ? arena_printf(scratch, "%s", counted(p->global_batch, "sample").s)
                               : "any batch";
        status = no_answer("try another global batch, pin fewer dimensions or take another --space",
                           "the space '%s' has no strategies that lay %s over %s as asked",
                           p->space->name, what, counted(p->devices, "device").s);
    } else {
        what = p->pp ? arena_printf(scratch, " of %s", counted(p->pp, "stage").s) : "";
        status = no_answer("take another --space, or fewer devices",
                           "the space '%s' has no pipeline%s for %s on %s", p->space->name, what,
                           counted(p->source->layers, "layer").s, counted(p->devices, "device").s);
        if (*choices)
            error_hint("take --pp %s, or another --space", choices);
    }
    arena_free(scratch);
    return status;
}

weft_status say_no_plan(const struct layer_problem *problem, const struct layer_plans *plans)
{
    if (plans->stopped)
        return no_answer("give it more time", "stopped before any plan was found");
    if (problem->known_ns)
        return no_answer(NULL, "no plan takes less than %s, by bounds",
                         show_seconds((double)problem->known_ns).s);
    if (!plans->settings)
        return say_no_setting(problem);
    return no_answer("more devices, a smaller batch or a larger space",
                     "no plan of %s on %s fits in %s", counted(problem->source->layers, "layer").s,
                     counted(problem->devices, "device").s,
                     show_bytes((double)problem->limit_bytes).s);
}

/* words.c - plans in the words of the command line.
 *
 *   "dp 16 tp 2 sp micro-batch 2 zero 1"     is     --dp 16 --tp 2 --sp --micro-batch 2 --zero 1
 *
 *   I1  Every word is an option of `weft simulate`, followed by its value. Typed back, together
 *       with the model, the cluster and what was asked, they give the same plan.
 *   I2  What differs from the options' defaults is named; the micro-batch and zero always are,
 *       because `weft plan` would otherwise choose them.
 *   I3  What all plans of one question share (the global batch, types, the memory limit, what
 *       overlaps) is named only if it differs from what was asked.
 *   I4  A plan that no options give is "mixed: " and what its planner says about it.
 */
#include <string.h>

#include "plan/order.h"

struct words {
    struct arena *keep;
    const char *before; /* each option: "", "--" */
    const char *text;
};

static void say(struct words *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct words *w, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    const char *word = arena_vprintf(w->keep, fmt, list);
    va_end(list);
    w->text = arena_printf(w->keep, "%s%s%s%s", w->text, *w->text ? " " : "", w->before, word);
}

static void say_above_one(struct words *w, const char *name, int64_t degree)
{
    if (degree > 1)
        say(w, "%s %lld", name, (long long)degree);
}

static int64_t at_least_one(int64_t degree)
{
    return degree ? degree : 1;
}

static void say_layout(struct words *w, const struct degrees *d)
{
    const char *usual = schedule_default(d->pieces, d->segments)->name;
    say_above_one(w, "dp", d->dp);
    say_above_one(w, "tp", d->tp);
    if (d->sequence && d->tp > 1)
        say(w, "sp");
    say_above_one(w, "pp", d->pp);
    say_above_one(w, "cp", d->cp);
    say_above_one(w, "cp-heads", d->cp_heads);
    say_above_one(w, "ep", d->ep);
    if (d->etp && d->etp != d->tp)
        say(w, "etp %lld", (long long)d->etp);
    if (d->encoder_tp)
        say(w, "encoder-tp %lld", (long long)d->encoder_tp);
    if (d->encoder_dp)
        say(w, "encoder-dp %lld", (long long)d->encoder_dp);
    if (d->encoder_pp)
        say(w, "encoder-pp %lld", (long long)d->encoder_pp);
    if (d->segments > 1)
        say_above_one(w, "segments", d->segments);
    else
        say_above_one(w, "virtual", d->pieces);
    if (d->schedule && strcmp(d->schedule, usual) != 0)
        say(w, "schedule %s", d->schedule);
    if (d->group)
        say(w, "group %lld", (long long)d->group);
}

static void say_batch(struct words *w, const struct degrees *d, const struct degrees *asked)
{
    int64_t micro_batch = at_least_one(d->micro_batch);
    int64_t usual =
        asked->global_batch ? asked->global_batch : d->dp * micro_batch * at_least_one(d->pp);
    say(w, "micro-batch %lld", (long long)micro_batch);
    if (d->global_batch && d->global_batch != usual)
        say(w, "global-batch %lld", (long long)d->global_batch);
}

static void say_choice(struct words *w, const struct degrees *d)
{
    say(w, "zero %d", d->shard);
    if (d->recompute != RECOMPUTE_NONE)
        say(w, "recompute %s", recompute_text(w->keep, d));
    if (d->recompute_layers)
        say(w, "recompute-layers %lld", (long long)d->recompute_layers);
    if (d->offload)
        say(w, "offload");
    if (d->offload_modules)
        say(w, "offload-modules %s", offload_text(w->keep, d->offload_modules));
}

/* ---- what all plans of a question share (I3) ------------------------------------------------- */

/* The exact number, as --memory and --bucket take it. */
static const char *bytes_text(struct arena *keep, int64_t bytes)
{
    static const struct {
        const char *name;
        int shift;
    } UNITS[] = {{"GiB", 30}, {"MiB", 20}};
    for (size_t i = 0; i < COUNT_OF(UNITS); i++)
        if (bytes % (INT64_C(1) << UNITS[i].shift) == 0)
            return arena_printf(keep, "%lld%s", (long long)(bytes >> UNITS[i].shift),
                                UNITS[i].name);
    return arena_printf(keep, "%lldB", (long long)bytes);
}

const char *overlap_text(struct arena *keep, unsigned bits, const char *between)
{
    const char *word = bits ? overlap_take(&bits) : overlap_name(0), *text = word;
    while ((word = overlap_take(&bits)) != NULL)
        text = arena_printf(keep, "%s%s%s", text, between, word);
    return text;
}

static void say_types(struct words *w, const struct model *model, const struct degrees *d,
                      const struct degrees *asked)
{
    enum dtype own = d->has_dtype ? d->dtype : model->dtype;
    enum policy policy = d->has_policy ? d->policy : policy_for(own);
    if (own != (asked->has_dtype ? asked->dtype : model->dtype))
        say(w, "dtype %s", dtype_name(own));
    if (policy != (asked->has_policy ? asked->policy : policy_for(own)))
        say(w, "policy %s", policy_name(policy));
    if (d->memory.limit_bytes && d->memory.limit_bytes != asked->memory.limit_bytes)
        say(w, "memory %s", bytes_text(w->keep, d->memory.limit_bytes));
    if (d->memory.has_margin &&
        (!asked->memory.has_margin || d->memory.margin_percent != asked->memory.margin_percent))
        say(w, "margin %g", d->memory.margin_percent);
}

static unsigned overlap_of(const struct degrees *d)
{
    return d->has_overlap ? d->overlap : OVERLAP_ALL;
}

static void say_practice(struct words *w, const struct degrees *d, const struct degrees *asked)
{
    int64_t bucket = degrees_bucket_bytes(d);
    if (d->optimizer != asked->optimizer)
        say(w, "optimizer %s", optimizer_name(d->optimizer));
    if (d->replicate > 1 && d->replicate != asked->replicate)
        say(w, "replicate %lld", (long long)d->replicate);
    if (d->optimizer_offload > 0 && d->optimizer_offload != asked->optimizer_offload)
        say(w, "optimizer-offload %g", d->optimizer_offload);
    if (d->stage_run && d->stage_run != asked->stage_run && order_text(d))
        say(w, "order %s", order_text(d));
    if (!software_same(&d->software, &asked->software))
        say(w, "software %s", software_text(w->keep, &d->software));
    if (overlap_of(d) != overlap_of(asked))
        say(w, "overlap %s", overlap_text(w->keep, overlap_of(d), ","));
    if (bucket != BUCKET_BY_RULE && bucket != degrees_bucket_bytes(asked))
        say(w, "bucket %s", bucket ? bytes_text(w->keep, bucket) : "whole");
    if (d->whole_sends && !asked->whole_sends)
        say(w, "whole-sends");
    if (d->defer_head != asked->defer_head)
        say(w, "defer-head %s", deferral_text(w->keep, d->defer_head));
}

/* For a shell, which would read its bars and stars, in quotes. */
static void say_parts(struct words *w, const struct degrees *d, const struct degrees *asked)
{
    bool same = asked->layout && d->layout && strcmp(asked->layout, d->layout) == 0;
    const char *quote = *w->before ? "'" : "";
    if (d->layout && !same)
        say(w, "pipeline-layout %s%s%s", quote, d->layout, quote);
}

static const char *text_of(struct words w, const struct model *model, const struct degrees *d,
                           const struct degrees *asked)
{
    static const struct degrees NOTHING;
    asked = asked ? asked : &NOTHING;
    say_layout(&w, d);
    say_parts(&w, d, asked);
    say_batch(&w, d, asked);
    say_choice(&w, d);
    say_types(&w, model, d, asked);
    say_practice(&w, d, asked);
    return w.text;
}

const char *degrees_text(struct arena *keep, const struct model *model, const struct degrees *d,
                         const struct degrees *asked)
{
    return text_of((struct words){keep, "", ""}, model, d, asked);
}

const char *degrees_flags(struct arena *keep, const struct model *model, const struct degrees *d)
{
    return text_of((struct words){keep, "--", ""}, model, d, NULL);
}

/* ---- plans ----------------------------------------------------------------------------------- */

const char *mixed_text(struct arena *keep, const char *words)
{
    static const char MIXED_PLAN[] = "mixed: ";
    bool said = strncmp(words, MIXED_PLAN, strlen(MIXED_PLAN)) == 0;
    return arena_printf(keep, "%s%s", said ? "" : MIXED_PLAN, words);
}

const char *plan_text(struct arena *keep, const struct plan *plan, const struct degrees *asked,
                      const char *words)
{
    struct degrees d;
    if (plan_degrees(plan, &d))
        return degrees_text(keep, plan->model, &d, asked);
    return mixed_text(keep, words);
}

/* The fewest and the most replicas of any operator; both 0 if none has a batch. */
static void dp_range(const struct plan *plan, int64_t *fewest, int64_t *most)
{
    *fewest = *most = 0;
    bool among_experts = false; /* which have a mesh of their own, as a tower has */
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        int64_t own = split_degree(&plan_choice(plan, i)->split, DIM_BATCH);
        among_experts = op->kind == OP_DISPATCH || (among_experts && op->kind != OP_COMBINE);
        bool apart = among_experts || op->place == PLACE_TOWER;
        if (op_find_dim(op->kind, DIM_BATCH) < 0 || apart)
            continue;
        *fewest = *fewest && *fewest < own ? *fewest : own;
        *most = *most > own ? *most : own;
    }
}

/* Megatron-LM, distributed_data_parallel.py: bucket_size goes by dp with cp, and the buffers of experts have it, too. */
int64_t plan_replicas(const struct plan *plan)
{
    int64_t fewest = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        if (!op->weights || op->kind == OP_EXPERT_LINEAR)
            continue;
        int64_t own = split_replicas(op, &plan_choice(plan, i)->split);
        fewest = fewest && fewest < own ? fewest : own;
    }
    return fewest;
}

const char *step_text(struct arena *keep, const struct plan *plan)
{
    int64_t fewest, dp, samples = plan->step_samples;
    const char *all = arena_printf(keep, "%s per step", counted(samples, "sample").s);
    dp_range(plan, &fewest, &dp);
    if (fewest != dp)
        return arena_printf(keep, "%s, which dp %lld to %lld share", all, (long long)fewest,
                            (long long)dp);
    if (!dp || samples % dp)
        return all;
    return arena_printf(keep, "micro-batch %lld × dp %lld = %s", (long long)(samples / dp),
                        (long long)dp, all);
}

/* export_megatron.c - a plan as launch arguments of Megatron-LM.
 *
 * Each degree is one argument. Stages that hold different numbers of layers become a layout string, in
 * which E is the embedding, t a layer, m one that predicts another token, L the norm, head and loss, and |
 * separates parts, so that
 *
 *   Et*3|(t*2|)*29,L                                                                            (1)
 *
 * is a part of 3 layers, 29 parts of 2, and a part with the head alone.
 *
 *   I1  Before the text is returned it is read back (megatron_import) and must make the same plan; each argument is
 *       asked for, or known to say nothing about a prediction.
 */
#include "exchange/export_megatron.h"

#include <string.h>

/* ---- the plan -------------------------------------------------------------------------------- */

static bool all_equal(const int64_t *values, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        if (values[i] != values[0])
            return false;
    return true;
}

/* "M-M*|-M-M/ME/ME": a bar ends a part, a slash begins a depth that predicts another token. */
static const char *pattern_text(struct arena *keep, const struct plan *plan,
                                const struct model_shape *s, const int64_t *layers)
{
    const char *text = "", *at = s->pattern;
    for (int32_t p = 0; p < plan->parts; at += layers[p++])
        text = arena_printf(keep, "%s%s%.*s", text, p ? "|" : "", (int)layers[p], at);
    for (int64_t depth = 0; depth < s->mtp; depth++)
        text = arena_printf(keep, "%s/%s", text, s->mtp_pattern);
    return text;
}

static void add_pipeline(struct lines *a, const struct plan *plan, const struct degrees *d,
                         const struct model_shape *s)
{
    const int64_t *layers = layers_before_loss(a->keep, plan);
    add_above_one(a, "pipeline-model-parallel-size", d->pp);
    if (d->defer_head) {
        add_flag(a, "defer-embedding-wgrad-compute");
        if (d->defer_head != DEFER_ALL)
            add_int(a, "wgrad-deferral-limit", d->defer_head);
    }
    if (d->stage_run)
        add_flag(a, "use-tp-pp-dp-mapping");
    if (s->pattern[0])
        add_word(a, "hybrid-layer-pattern", pattern_text(a->keep, plan, s, layers));
    if (d->pp == 1)
        return;
    if (!s->pattern[0] && !all_equal(layers, plan->parts))
        add_word(a, "pipeline-model-parallel-layout", /* (1) */
                 pipeline_layout_text(a->keep, plan->parts, layers, layers_after_loss(plan)));
    else if (!s->pattern[0])
        add_above_one(a, "num-virtual-stages-per-pipeline-rank", d->pieces);
    if (d->pieces > 1 && plan_round(plan) != d->pp)
        add_int(a, "microbatch-group-size-per-virtual-pipeline-stage", plan_round(plan));
    if (d->pieces > 1 && !(plan->overlap & OVERLAP_PIPELINE) && d->pp > 2)
        add_flag(a, "no-overlap-p2p-communication");
}

/* "core_attn moe_act" */
static const char *modules_text(struct arena *keep, const char *listed)
{
    char *text = arena_copy_text(keep, listed);
    for (char *at = text; (at = strchr(at, ',')) != NULL;)
        *at = ' ';
    return text;
}

static void add_recompute(struct lines *a, const struct recognised *r)
{
    if (r->degrees.recompute == RECOMPUTE_NONE && !r->block)
        return;
    bool selective = r->degrees.recompute == RECOMPUTE_SELECTIVE && !r->block;
    add_word(a, "recompute-granularity", selective ? "selective" : "full");
    if (selective) {
        const char *listed =
            r->degrees.modules ? recompute_text(a->keep, &r->degrees) : "core_attn";
        add_flag(a, arena_printf(a->keep, "recompute-modules %s", modules_text(a->keep, listed)));
        return;
    }
    add_word(a, "recompute-method", r->block ? "block" : "uniform");
    add_int(a, "recompute-num-layers", r->block ? r->block : 1);
}

static void add_offload(struct lines *a, const struct degrees *d)
{
    if (!d->offload_modules)
        return;
    add_flag(a, "fine-grained-activation-offloading");
    add_flag(a, arena_printf(a->keep, "offload-modules %s",
                             modules_text(a->keep, offload_text(a->keep, d->offload_modules))));
}

static bool has_experts(const struct model *model)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == OP_EXPERT_LINEAR)
            return true;
    return false;
}

static bool multiplies_nvfp4(const struct device *device)
{
    return device->flops[DTYPE_NVFP4] > 0;
}

static const char MXFP8[] = "mxfp8";

/* One scale for each tensor, made from its own values, up to Hopper; one for each 32 values in hardware after. */
const char *megatron_recipe(const struct cluster *cluster, int recipe)
{
    static const char *const RECIPES[] = {[RECIPE_DEVICE] = "tensorwise",
                                          [RECIPE_DELAYED] = "delayed",
                                          [RECIPE_CURRENT] = "tensorwise",
                                          [RECIPE_BLOCKS] = "blockwise"};
    bool blocks = recipe == RECIPE_DEVICE || recipe == RECIPE_BLOCKS;
    return blocks && cluster_all_devices(cluster, multiplies_nvfp4) ? MXFP8 : RECIPES[recipe];
}

/* With a scale for so few values gradients keep the format of weights, e4m3; else they need the range of e5m2 (hybrid). */
static void add_fp8(struct lines *a, const struct plan *plan)
{
    const char *recipe =
        megatron_recipe(plan->cluster, software_word(&plan->software, FACT_FP8_RECIPE));
    add_word(a, "fp8-format", strcmp(recipe, MXFP8) == 0 ? "e4m3" : "hybrid");
    add_word(a, "fp8-recipe", recipe);
    if (plan->policy == POLICY_FP8_WEIGHTS)
        add_flag(a, "fp8-param-gather");
}

static bool has_narrow_moments(enum policy policy)
{
    return policy == POLICY_BF16_MOMENTS || policy == POLICY_BF16_MOMENTS_GRADIENTS;
}

static void add_moments(struct lines *a, enum policy policy)
{
    if (!has_narrow_moments(policy))
        return;
    add_flag(a, "use-precision-aware-optimizer");
    add_word(a, "exp-avg-dtype", "bf16");
    add_word(a, "exp-avg-sq-dtype", "bf16");
    if (policy == POLICY_BF16_MOMENTS_GRADIENTS)
        add_word(a, "main-grads-dtype", "bf16");
}

static void add_precision(struct lines *a, const struct plan *plan)
{
    bool fp16 = plan->dtype == DTYPE_FP16, wide = bytes_per_gradient(plan->policy) == 4;
    if (plan->dtype == DTYPE_FP32 || plan->dtype == DTYPE_TF32)
        return;
    add_flag(a, fp16 ? "fp16" : "bf16");
    if (plan->dtype == DTYPE_FP8)
        add_fp8(a, plan);
    if (plan->dtype == DTYPE_NVFP4) {
        add_word(a, "fp4-format", "e2m1");
        add_word(a, "fp4-recipe", "nvfp4");
    }
    if (has_experts(plan->model) && !fp16)
        add_flag(a, "moe-grouped-gemm"); /* in bf16 only */
    if (fp16 && wide)
        add_flag(a, "accumulate-allreduce-grads-in-fp32");
    if (!fp16 && !wide)
        add_flag(a, "grad-reduce-in-bf16");
    add_moments(a, plan->policy);
}

bool hides_tokens(const struct plan *plan, const struct degrees *d, const struct model_shape *s)
{
    return plan_schedule(plan)->ahead && d->recompute != RECOMPUTE_FULL && !s->pattern[0];
}

/* megatron/core/transformer/transformer_config.py, cp_comm_type */
const char *const MEGATRON_CP_KINDS[] = {
    [CP_RING] = "p2p",
    [CP_GATHER] = "all_gather",
    [CP_A2A] = "a2a",
    [CP_A2A_RING] = "a2a+p2p",
};
_Static_assert(COUNT_OF(MEGATRON_CP_KINDS) == CP_KIND_COUNT, "a kind of cp without a word");

static void add_context(struct lines *a, const struct plan *plan, const struct degrees *d)
{
    enum cp_kind kind = cp_kind_of(d, plan->overlap);
    if (d->cp == 1)
        return;
    add_int(a, "context-parallel-size", d->cp);
    if (kind != CP_RING) /* its default */
        add_word(a, "cp-comm-type", MEGATRON_CP_KINDS[kind]);
    if (kind == CP_A2A_RING)
        array_push(a->keep, &a->lines,
                   arena_printf(a->keep, "--hierarchical-context-parallel-sizes %lld %lld",
                                (long long)d->cp_heads, (long long)(d->cp / d->cp_heads)));
}

static void add_plan(struct lines *a, const struct recognised *r, const struct model_shape *s)
{
    const struct degrees *d = &r->degrees;
    const struct plan *plan = r->plan;
    add_int(a, "micro-batch-size", d->micro_batch);
    add_int(a, "global-batch-size", d->global_batch);
    add_precision(a, plan);
    add_above_one(a, "tensor-model-parallel-size", d->tp);
    if (d->sequence)
        add_flag(a, "sequence-parallel");
    if (d->sequence && d->tp > 1 && (plan->overlap & OVERLAP_PRODUCTS))
        add_flag(a, s->images.layers ? "decoder-tp-comm-overlap" : "tp-comm-overlap");
    add_context(a, plan, d);
    add_above_one(a, "expert-model-parallel-size", d->ep);
    if (d->etp && d->etp != d->tp)
        add_int(a, "expert-tensor-parallel-size", d->etp);
    if (hides_tokens(plan, d, s))
        add_flag(a, "overlap-moe-expert-parallel-comm");
    if ((plan->overlap & OVERLAP_SHARED) && plan_could_hide_shared(plan))
        add_flag(a, "moe-shared-expert-overlap");
    add_pipeline(a, plan, d, s);
    add_recompute(a, r);
    add_offload(a, &r->degrees);
    add_sharding(a, plan, d, s);
}

/* ---- what has no argument -------------------------------------------------------------------- */

/* Holds I1. `settings` returns, as text, the settings that only Weft reads, `decided` those that Megatron-LM decides. Where
 * tokens go, which the software may say, was told as the model's own. */
static weft_status read_back(struct export_job *job, const struct model_shape *shape,
                             const char *text, const char **settings, const char **decided)
{
    struct model *model = NULL, *told = NULL;
    struct plan *again = NULL;
    struct texts differences = {0}, notes = {0};
    struct arena *scratch = arena_new();
    const struct plan *plan = job->found.plan;
    struct import_input input = {.file = "exported arguments", .text = text, .len = strlen(text)};
    weft_status status;
    const char *unread = NULL;
    TRY(megatron_plan(scratch, &input, plan->cluster, &model, &again, &notes, &unread));
    if (unread)
        TRY(failure("--%s is written and not read: import_megatron.c has to know it", unread));
    TRY(model_open(shape_preset(shape), shape_options(scratch, shape), &told));
    const char *first = model_difference(scratch, told, model);
    if (first)
        TRY(failure("the arguments do not read back as the model: %s", first));
    plan_differences(scratch, plan, again, &differences);
    if (differences.len)
        TRY(failure("the arguments do not read back as the plan: %s", differences.data[0]));
    again->software.word[FACT_DISPATCH] = plan->software.word[FACT_DISPATCH];
    *settings = settings_written(job, plan, again);
    *decided = settings_decided(job, plan, again);
done:
    plan_free(again);
    model_free(model);
    model_free(told);
    arena_free(scratch);
    return status;
}

static const char *join(struct arena *keep, const struct texts *lines)
{
    const char *text = "";
    for (size_t i = 0; i < lines->len; i++)
        text = arena_printf(keep, "%s    %s\n", text, lines->data[i]);
    return text;
}

/* Says how the model implements operators, and what its data is like, for which Megatron-LM has no argument. */
static const char *implementation_comment(struct arena *keep, const struct model_shape *shape)
{
    bool version = strncmp(shape->attention, "flash-", 6) == 0;
    bool compiled = strcmp(shape->loss, "compiled") == 0, eager = strcmp(shape->loss, "eager") == 0;
    const char *text = arena_printf(
        keep, "%s%s%s%s%s%s", version ? " " : "", version ? shape->attention : "",
        compiled ? " compiled-loss" : "", eager ? " eager-loss" : "", shape->apart ? " apart" : "",
        shape->copies == COPIES_DEVICES ? " dispatch=devices" : "");
    if (shape->document)
        text = arena_printf(keep, "%s document=%lld", text, (long long)shape->document);
    if (shape->skew > 0)
        text = arena_printf(keep, "%s expert_skew=%.17g", text, shape->skew);
    return *text ? arena_printf(keep, "    # weft-model:%s\n", text) : "";
}

weft_status megatron_lines(struct export_job *job, const char **out)
{
    struct lines a = {.keep = job->keep};
    struct model_shape shape;
    const char *settings = "", *decided = "";
    weft_status status;
    TRY(shape_of_model(job->plan->model, &shape));
    if (shape.experts && shape.copies == COPIES_EXPERTS)
        shape.copies = (enum token_copies)software_word(&job->plan->software,
                                                        FACT_DISPATCH); /* as it is told */
    add_model(&a, &shape, job->found.degrees.tp);
    add_plan(&a, &job->found, &shape);
    add_optimizer(&a, job->target, job->found.plan->optimizer, job->found.degrees.shard);
    note_fsdp(job, &shape);
    add_training(&a);
    const char *lines = arena_printf(job->keep, "%s%s", join(job->keep, &a.lines),
                                     implementation_comment(job->keep, &shape));
    TRY(read_back(job, &shape, lines, &settings, &decided));
    if (*settings)
        lines = arena_printf(job->keep, "%s    # weft: %s\n", lines, settings);
    if (*decided && !job->out->decided.len)
        decides(job, "no argument says %s; a comment does, for weft import", decided);
    *out = lines;
done:
    return status;
}

const char *megatron_script(const struct export_job *job)
{
    const struct release_words *words = &job->target->words;
    const char *family = job->plan->model->family;
    if (model_has_tower(job->plan->model))
        return job->target->images->program;
    return strcmp(family, "bert") == 0     ? words->encoder_program
           : strcmp(family, "hybrid") == 0 ? words->pattern_program
                                           : words->program;
}

/* A tokenizer without words numbers the end of a text after its vocabulary; BERT has no data of its own making. */
const char *megatron_trial(struct export_job *job)
{
    const struct op *embedding = model_op_of_kind(job->plan->model, OP_EMBEDDING);
    if (!embedding || strcmp(job->plan->model->family, "bert") == 0)
        return NULL;
    return arena_printf(
        job->keep, "--mock-data --tokenizer-type NullTokenizer --vocab-size %lld --train-iters 20",
        (long long)embedding->weight[0].operand.size[0] - 1);
}

/* ---- the file ---------------------------------------------------------------------------------- */

/* "each of 8 nodes" */
static const char *each_host(struct arena *keep, int64_t hosts)
{
    return hosts == 1 ? "the node" : arena_printf(keep, "each of %lld nodes", (long long)hosts);
}

weft_status write_megatron(struct export_job *job)
{
    const char *lines;
    weft_status status = megatron_lines(job, &lines);
    if (status)
        return status;
    const struct cluster *cluster = job->plan->cluster;
    job->out->text = arena_printf(
        job->keep,
        "# Megatron-LM arguments for %s.\n"
        "# Predicted by: %s\n"
        "# Add %sa tokenizer and --train-iters, then on %s%s:\n"
        "#   %s %s \"${MEGATRON_ARGS[@]}\"\n"
        "%s"
        "MEGATRON_ARGS=(\n%s)\n",
        plan_title(job->keep, job->plan), job_line(job, ""),
        model_has_tower(job->plan->model) ? "" : "data, ", /* it makes its own images */
        each_host(job->keep, cluster_hosts(cluster)),
        megatron_environment(job, ".", ", with ", " and ", ""), torchrun_line(job->keep, cluster),
        megatron_script(job),
        megatron_trial(job) ? arena_printf(job->keep, "# To try it: %s\n", megatron_trial(job))
                            : "",
        lines);
    return WEFT_OK;
}

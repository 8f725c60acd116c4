/* import_megatron.c - launch arguments of Megatron-LM as a model and a plan.
 *
 * Megatron numbers ranks as Weft does, with tp fastest, then cp, dp and pp, so that degrees carry over
 * unchanged. read_overlap and read_state contain what Megatron's code decides by itself; the source of
 * both is megatron/training/arguments.py (target/flags.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/export_megatron.h"
#include "exchange/import_shape.h"

struct megatron_reading {
    struct arena *scratch;
    const struct arguments *a;
    struct degrees d;
    int64_t *part_layers;
    int64_t block;
    struct texts *notes;
};

static bool has(const struct megatron_reading *r, const char *name)
{
    return argument_given(r->a, name);
}

static void remark(struct megatron_reading *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void remark(struct megatron_reading *r, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    add_text(r->scratch, r->notes, arena_vprintf(r->scratch, fmt, list));
    va_end(list);
}

/* ---- degrees --------------------------------------------------------------------------------- */

enum { LIKE_TP = -1 }; /* in the table: what tensor-model-parallel-size says */
static const struct {
    const char *argument;
    size_t offset;
    int64_t usual;
} COUNTS[] = {
    {"tensor-model-parallel-size", offsetof(struct degrees, tp), 1},
    {"pipeline-model-parallel-size", offsetof(struct degrees, pp), 1},
    {"context-parallel-size", offsetof(struct degrees, cp), 1},
    {"expert-model-parallel-size", offsetof(struct degrees, ep), 1},
    {"expert-tensor-parallel-size", offsetof(struct degrees, etp), LIKE_TP},
    {"micro-batch-size", offsetof(struct degrees, micro_batch), 0},
};

static weft_status read_counts(struct megatron_reading *r)
{
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        int64_t usual = COUNTS[i].usual == LIKE_TP ? r->d.tp : COUNTS[i].usual;
        int64_t value = argument_int(r->a, COUNTS[i].argument, usual);
        if (value < 1 || value > INT32_MAX)
            return argument_error(r->a, COUNTS[i].argument, NULL, "--%s is %s, expected 1 or more",
                                  COUNTS[i].argument,
                                  argument_word(r->a, COUNTS[i].argument, "missing"));
        memcpy((char *)&r->d + COUNTS[i].offset, &value, sizeof value);
    }
    r->d.sequence = has(r, "sequence-parallel") && r->d.tp > 1;
    if (has(r, "use-tp-pp-dp-mapping"))
        r->d.stage_run = r->d.tp * r->d.cp;
    return WEFT_OK;
}

static weft_status read_batch(struct megatron_reading *r, const struct cluster *cluster)
{
    int64_t replica = r->d.tp * r->d.pp * r->d.cp, devices = cluster_devices(cluster);
    int64_t dp = devices / replica;
    if (devices % replica || dp < 1)
        return argument_error(r->a, "tensor-model-parallel-size",
                              "name a cluster with a multiple of these",
                              "tp %lld * pp %lld * cp %lld is %s, %s has %lld", (long long)r->d.tp,
                              (long long)r->d.pp, (long long)r->d.cp, counted(replica, "device").s,
                              cluster->name, (long long)devices);
    r->d.dp = dp;
    r->d.global_batch = argument_int(r->a, "global-batch-size", r->d.micro_batch * dp);
    if (has(r, "rampup-batch-size"))
        remark(r, "--rampup-batch-size: the full batch is simulated");
    return WEFT_OK;
}

/* ---- recomputation --------------------------------------------------------------------------- */

static weft_status read_full(struct megatron_reading *r)
{
    const char *method = argument_word(r->a, "recompute-method", "");
    int64_t layers = argument_int(r->a, "recompute-num-layers", 1);
    r->d.recompute = RECOMPUTE_FULL;
    if (strcmp(method, "block") == 0 && layers == 0)
        r->d.recompute = RECOMPUTE_NONE;
    else if (strcmp(method, "block") == 0)
        r->block = layers;
    else if (strcmp(method, "uniform") != 0)
        return argument_error(r->a, "recompute-granularity", "add --recompute-method",
                              "--recompute-granularity full needs a method, uniform or block");
    else if (layers > 1)
        remark(r,
               "--recompute-num-layers %lld: every layer's input is kept here, not every %lld-th",
               (long long)layers, (long long)layers);
    return WEFT_OK;
}

static weft_status read_recompute(struct megatron_reading *r)
{
    const char *granularity = argument_word(r->a, "recompute-granularity",
                                            has(r, "recompute-activations") ? "selective" : "");
    if (strcmp(granularity, "full") == 0)
        return read_full(r);
    if (strcmp(granularity, "selective") != 0)
        return WEFT_OK;
    char *rest = arena_copy_text(r->scratch, argument_word(r->a, "recompute-modules", "core_attn")),
         *word;
    while ((word = strsep(&rest, " ,")) != NULL) {
        unsigned module = module_from_name(word);
        r->d.modules |= module;
        if (!module && *word)
            remark(r, "--recompute-modules %.40s: its activations are kept here", word);
    }
    r->d.recompute = r->d.modules ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    return WEFT_OK;
}

static void read_offload(struct megatron_reading *r)
{
    if (!has(r, "fine-grained-activation-offloading"))
        return;
    char *rest = arena_copy_text(r->scratch, argument_word(r->a, "offload-modules", "")), *word;
    while ((word = strsep(&rest, " ,")) != NULL) {
        unsigned module = offload_from_name(word);
        r->d.offload_modules |= module;
        if (!module && *word)
            remark(r, "--offload-modules %.40s: its activations stay on the device here", word);
    }
}

/* ---- state and overlap ----------------------------------------------------------------------- */

static int shard_of(const struct megatron_reading *r)
{
    static const char *const STRATEGIES[] = {"no_shard", "optim", "optim_grads",
                                             "optim_grads_params"};
    bool matrices = strcmp(argument_word(r->a, "optimizer", "adam"), "dist_muon") == 0;
    bool distributed = has(r, "use-distributed-optimizer") || matrices;
    if (has(r, "use-torch-fsdp2"))
        return has(r, "torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
    const char *strategy = argument_word(r->a, "data-parallel-sharding-strategy", "no_shard");
    for (int i = 0; i < (int)COUNT_OF(STRATEGIES) && has(r, "use-megatron-fsdp"); i++)
        if (strcmp(strategy, STRATEGIES[i]) == 0)
            return i;
    return distributed ? 1 : 0;
}

static enum update_rule optimizer_of(const struct arguments *a)
{
    const char *word = argument_word(a, "optimizer", "adam");
    double momentum;
    static const struct {
        const char *name;
        enum update_rule rule;
    } WORDS[] = {{"sgd", UPDATE_MOMENTUM}, {"muon", UPDATE_MUON}, {"dist_muon", UPDATE_MUON}};
    int at = NAME_INDEX(word, WORDS);
    bool plain = at >= 0 && WORDS[at].rule == UPDATE_MOMENTUM &&
                 parse_real(argument_word(a, "sgd-momentum", "0.9"), &momentum) && momentum == 0;
    return at < 0 ? UPDATE_ADAMW : plain ? UPDATE_SGD : WORDS[at].rule;
}

/* A number from 0 to 1; all where it is none. */
static double share_of(const char *text)
{
    double share;
    return parse_real(text, &share) && share >= 0 && share <= 1 ? share : 1;
}

/* The recipe of Transformer Engine that is written with this word; Megatron-LM's default is a scale of earlier steps. */
static void read_recipe(struct megatron_reading *r, const struct cluster *cluster)
{
    const char *word = argument_word(r->a, "fp8-recipe", "delayed");
    for (int recipe = RECIPE_BLOCKS; recipe > RECIPE_DEVICE; recipe--)
        if (strcmp(word, megatron_recipe(cluster, recipe)) == 0) {
            r->d.software.word[FACT_FP8_RECIPE] = (uint8_t)recipe;
            return;
        }
    remark(r, "--fp8-recipe %.40s: scaled here as %s is", word,
           megatron_recipe(cluster, RECIPE_DEVICE));
}

static void read_state(struct megatron_reading *r, const struct cluster *cluster)
{
    struct degrees *d = &r->d;
    bool fp16 = has(r, "fp16"), bf16 = has(r, "bf16"), fp8 = has(r, "fp8-format");
    bool fp4 = has(r, "fp4-format");
    bool narrow_main = strcmp(argument_word(r->a, "main-grads-dtype", "fp32"), "bf16") == 0;
    bool narrow_grads = fp16 ? !has(r, "accumulate-allreduce-grads-in-fp32")
                             : has(r, "grad-reduce-in-bf16") || narrow_main;
    d->has_dtype = d->has_policy = true;
    d->shard = shard_of(r);
    d->dtype = fp4    ? DTYPE_NVFP4
               : fp8  ? DTYPE_FP8
               : bf16 ? DTYPE_BF16
               : fp16 ? DTYPE_FP16
                      : DTYPE_FP32;
    bool moments = has(r, "use-precision-aware-optimizer") &&
                   strcmp(argument_word(r->a, "exp-avg-dtype", "fp32"), "bf16") == 0;
    d->policy = d->dtype == DTYPE_FP32 ? POLICY_FP32
                : moments      ? narrow_grads ? POLICY_BF16_MOMENTS_GRADIENTS : POLICY_BF16_MOMENTS
                : narrow_grads ? POLICY_MIXED
                : fp8 && has(r, "fp8-param-gather") && d->shard ? POLICY_FP8_WEIGHTS
                : d->shard == 1                                 ? POLICY_DISTRIBUTED
                                                                : POLICY_MIXED_FP32_GRADIENTS;
    d->optimizer = optimizer_of(r->a);
    int64_t instances = argument_int(r->a, "num-distributed-optimizer-instances", 1);
    d->replicate = d->shard && instances > 1 ? instances : 0;
    int64_t limit = argument_int(r->a, "wgrad-deferral-limit", 0);
    if (has(r, "defer-embedding-wgrad-compute"))
        d->defer_head = limit > 0 ? limit : DEFER_ALL;
    if (has(r, "optimizer-cpu-offload"))
        d->optimizer_offload = share_of(argument_word(r->a, "optimizer-offload-fraction", "1"));
    if (fp8)
        read_recipe(r, cluster);
    if (has(r, "overlap-cpu-optimizer-d2h-h2d"))
        d->software.word[FACT_HOST_STEP] = HOST_STEP_TENSORS;
}

/* Of several layers' kinds the first counts. Hierarchical sizes: first of the all-to-all, then of the ring. */
static void read_context(struct megatron_reading *r)
{
    const char *word = argument_word(r->a, "cp-comm-type", MEGATRON_CP_KINDS[CP_RING]);
    const char *sizes = argument_word(r->a, "hierarchical-context-parallel-sizes", "");
    for (int kind = 0; kind < CP_KIND_COUNT && r->d.cp > 1; kind++)
        if (strcmp(word, MEGATRON_CP_KINDS[kind]) == 0)
            cp_kind_set((enum cp_kind)kind, &r->d);
    if (r->d.cp_heads == CP_HEADS_SOME && *sizes)
        r->d.cp_heads = strtoll(sizes, NULL, 10);
}

/* Tensor exchanges always overlap with weight gradients; sends between stages overlap only in the interleaved
 * schedule. Without overlap, all gradients of a part are synchronised at once. */
static void read_overlap(struct megatron_reading *r)
{
    struct degrees *d = &r->d;
    d->has_overlap = d->has_bucket = true;
    d->overlap = OVERLAP_TENSOR;
    if (d->pieces > 1 && !has(r, "no-overlap-p2p-communication"))
        d->overlap |= OVERLAP_PIPELINE;
    if (has(r, "overlap-grad-reduce") || has(r, "use-torch-fsdp2"))
        d->overlap |= OVERLAP_GRADIENTS;
    if (has(r, "overlap-param-gather") || has(r, "use-torch-fsdp2"))
        d->overlap |= OVERLAP_PARAMETERS;
    if (has(r, "tp-comm-overlap") || has(r, "decoder-tp-comm-overlap"))
        d->overlap |= OVERLAP_PRODUCTS;
    read_context(r);
    if (has(r, "disable-tp-comm-overlap-ag") || has(r, "disable-tp-comm-overlap-rs"))
        remark(r, "--disable-tp-comm-overlap-ag, -rs: gathers and scatters go together here");
    if (has(r, "overlap-moe-expert-parallel-comm"))
        d->overlap |= OVERLAP_EXPERTS;
    if (has(r, "moe-shared-expert-overlap"))
        d->overlap |= OVERLAP_SHARED;
    if (has(r, "delay-wgrad-compute"))
        remark(r, "--delay-wgrad-compute: weight gradients come after their layer's inputs' here");
    static const struct software RULE = {.word = {[FACT_BUCKETS] = BUCKETS_MEGATRON}};
    int64_t parameters =
        argument_int(r->a, "ddp-bucket-size", software_bucket_bytes(&RULE, 1, d->dp * d->cp));
    bool whole = !(d->overlap & OVERLAP_GRADIENTS) || has(r, "ddp-num-buckets");
    d->bucket_bytes = whole || parameters > INT32_MAX || parameters < 0
                          ? 0
                          : parameters * bytes_per_gradient(d->policy);
    d->whole_sends = has(r, "no-scatter-gather-tensors-in-pipeline");
}

static const char GROUP_SIZE[] = "microbatch-group-size-per-virtual-pipeline-stage";

/* Micro-batches that a piece takes before the next one does; a number that Megatron would refuse becomes a note. */
static void read_group(struct megatron_reading *r)
{
    struct degrees *d = &r->d;
    int64_t samples = d->micro_batch * d->dp, all = samples > 0 ? d->global_batch / samples : 0;
    struct pipeline usual = {(int32_t)d->pp, (int32_t)d->pieces, (int32_t)all, 0};
    d->group = argument_int(r->a, GROUP_SIZE, 0);
    if (d->pieces < 2 || d->pp < 2 || all < d->pp || d->group)
        return;
    if (pipeline_group(&usual) != d->pp)
        remark(r, "%s on %lld stages: Megatron-LM asks for --%s, taken as %d here",
               counted(all, "micro-batch").s, (long long)d->pp, GROUP_SIZE,
               (int)pipeline_group(&usual));
}

/* ---- all together ---------------------------------------------------------------------------- */

/* The first preset that is the model after these changes. */
static const char *preset_like(struct megatron_reading *r, const struct model *model,
                               const char *changes)
{
    const struct preset *presets;
    size_t count = model_presets(&presets);
    for (size_t i = 0; i < count; i++) {
        struct model *other = NULL;
        if (strcmp(presets[i].family, model->family) != 0)
            continue;
        bool same = model_open(presets[i].name, changes, &other) == WEFT_OK &&
                    !model_difference(r->scratch, model, other);
        model_free(other);
        error_clear();
        if (same)
            return presets[i].name;
    }
    return NULL;
}

/* A preset with these sizes, because people know its name; `options` gets what differs from the preset. */
static const char *preset_named(struct megatron_reading *r, const struct model *model,
                                const struct model_shape *shape, const char **options)
{
    const char *sizes =
        arena_printf(r->scratch, "seq: %lld, vocab: %lld, attention: %s", (long long)shape->seq,
                     (long long)shape->vocab, shape->attention);
    const char *all =
        arena_printf(r->scratch, "%s%s", sizes, shape_free_options(r->scratch, shape));
    const char *name = preset_like(r, model, sizes);
    bool close = !name;
    if (close)
        name = preset_like(r, model, all);
    if (name)
        *options = close ? all : sizes;
    return name;
}

/* A size that the arguments say and a model that the user named has; 0: they do not say it. */
struct named_size {
    const char *argument;
    int64_t said, has;
};

static struct named_size size_of(const struct megatron_reading *r, const char *argument,
                                 int64_t has)
{
    return (struct named_size){argument, argument_int(r->a, argument, 0), has};
}

/* Of a model that the user named, the arguments say the same sizes. Its vocabulary and its sequences count. */
static weft_status check_named(struct megatron_reading *r, const struct model *model)
{
    const struct op *embedding = model_op_of_kind(model, OP_EMBEDDING);
    const int64_t *table = embedding ? embedding->weight[0].operand.size : NULL;
    const struct named_size sizes[] = {size_of(r, "num-layers", model->layers),
                                       size_of(r, "hidden-size", table ? table[1] : 0)};
    const struct named_size noted[] = {size_of(r, "seq-length", model->seq),
                                       size_of(r, "vocab-size", table ? table[0] : 0)};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        if (sizes[i].said && sizes[i].has && sizes[i].said != sizes[i].has)
            return argument_error(r->a, sizes[i].argument,
                                  "leave --model out, or name the one it is of",
                                  "--%s is %lld, %s has %lld", sizes[i].argument,
                                  (long long)sizes[i].said, model->name, (long long)sizes[i].has);
    for (size_t i = 0; i < COUNT_OF(noted); i++)
        if (noted[i].said && noted[i].has && noted[i].said != noted[i].has)
            remark(r, "--%s is %lld: %s with its %lld is taken; --set changes it",
                   noted[i].argument, (long long)noted[i].said, model->name,
                   (long long)noted[i].has);
    return WEFT_OK;
}

static weft_status open_model(struct megatron_reading *r, const struct import_input *input,
                              struct model **out, const char **name, const char **options)
{
    struct model_shape shape = {0};
    weft_status status;
    *name = input->model;
    *options = input->options;
    if (!input->model) {
        TRY(shape_of_arguments(r->scratch, r->a, &shape, r->notes));
        *name = shape_preset(&shape);
        *options = shape_options(r->scratch, &shape);
    }
    TRY(model_open(*name, *options, out));
    if (input->model)
        TRY(check_named(r, *out));
    const char *preset = input->model ? NULL : preset_named(r, *out, &shape, options);
    if (preset) {
        struct model *named;
        TRY(model_open(preset, *options, &named));
        model_free(*out);
        *out = named;
        *name = preset;
    }
done:
    return status;
}

/* What the arguments come to. */
static weft_status read_plan(struct megatron_reading *r, const struct import_input *input,
                             const struct cluster *cluster, struct model **model,
                             struct plan **plan)
{
    const char *name, *options;
    weft_status status;
    TRY(read_counts(r));
    TRY(read_batch(r, cluster));
    TRY(open_model(r, input, model, &name, &options));
    TRY(layout_read(r->scratch, r->a, (*model)->layers, r->d.pp, &r->d.pieces, &r->part_layers));
    read_group(r);
    TRY(read_recompute(r));
    read_offload(r);
    read_state(r, cluster);
    read_overlap(r);
    TRY(plan_of_degrees(*model, cluster, &r->d, r->part_layers, r->block, plan));
    plan_set_names(*plan, name, options, input->cluster);
    for (size_t i = 0; i < r->a->settings.len; i++)
        TRY(settings_apply(r->scratch, input->file, 0, r->a->settings.data[i], *plan));
    TRY(plan_check(*plan));
done:
    return status;
}

weft_status megatron_plan(struct arena *scratch, const struct import_input *input,
                          const struct cluster *cluster, struct model **model, struct plan **plan,
                          struct texts *notes, const char **unread)
{
    struct arguments arguments;
    struct megatron_reading r = {
        .scratch = scratch, .a = &arguments, .d.software = input->software, .notes = notes};
    struct plan *made = NULL;
    weft_status status;
    TRY(arguments_read(scratch, input, &arguments));
    weft_status read = read_plan(&r, input, cluster, model, &made);
    TRY(arguments_doubt(&arguments)); /* which is why, where the plan is wrong */
    TRY(read);
    if (unread)
        *unread = argument_unread(&arguments);
    *plan = made;
    made = NULL;
done:
    plan_free(made);
    return status;
}

weft_status megatron_import(struct arena *scratch, const struct import_input *input,
                            struct opened_plan *out, struct texts *notes)
{
    weft_status status;
    *out = (struct opened_plan){0};
    TRY(cluster_open(input->cluster, &out->cluster));
    TRY(megatron_plan(scratch, input, out->cluster, &out->model, &out->plan, notes, NULL));
done:
    if (status)
        plan_close(out);
    return status;
}

/* targets.c - the table of frameworks and releases (target.h), with where each fact stands in their
 * sources, and the two questions whether one of them runs a plan and which plan is the nearest.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "target/room.h"

/* clang-format off */
static const char *const MEGATRON_SCHEDULES[] = {"1f1b", "interleaved", NULL};
static const char *const TITAN_SCHEDULES[] = {"1f1b", "interleaved", "gpipe", NULL};
static const char *const GALVATRON_SCHEDULES[] = {"1f1b", "gpipe", NULL};
static const char *const SIMPLE_SCHEDULES[] = {"1f1b", NULL};

enum {
    WIDE = 1U << DTYPE_FP32 | 1U << DTYPE_TF32,
    HALF = 1U << DTYPE_FP16 | 1U << DTYPE_BF16,
    CAST = 1U << DTYPE_FP8 | 1U << DTYPE_NVFP4,
    SHARD_ANY = SHARD_0 | SHARD_1 | SHARD_2 | SHARD_3,
    MASTERS = 1U << POLICY_MIXED | 1U << POLICY_MIXED_FP32_GRADIENTS | 1U << POLICY_FSDP,
    NARROWER = 1U << POLICY_BF16_MOMENTS | 1U << POLICY_BF16_MOMENTS_GRADIENTS | 1U << POLICY_FP8_WEIGHTS
};
/* Of Megatron-LM, megatron/training/arguments.py (validate_args) and megatron/core: sequences are cut in
 * zig-zag halves per rank of cp; with experts and tp > 1 MoELayer wants sequence parallelism; levels 2 and 3
 * are Megatron-FSDP, which is documented and tested without a pipeline only. Tensor exchanges always overlap
 * with weight gradients (core/tensor_parallel/layers.py), sends of several pieces alone (schedules.py). No ring has
 * windows, and only a2a has sinks (Transformer Engine, get_attention_backend of attention/.../utils.py), which wants
 * whole key/value heads on each device (context_parallel.py, AttnFuncWithCPAndQKVOA2A). An index chooses among gathered
 * keys, and the delta rule takes heads of cp since 0.19 (core/transformer/transformer_config.py, __post_init__); experts
 * with biases are whole (the same, "Bias in Moe"). Muon does not go with Megatron-FSDP. */
#define MEGATRON_ABILITIES(delta)                                                                   \
    {.tp = true, .pp = true, .cp = true, .cp_heads = true, .ep = true, .experts = EXPERTS_ANYHOW,                    \
     .biased_experts = EXPERTS_WHOLE,                                                                                  \
     .window_cp = 1U << CP_GATHER | 1U << CP_A2A, .sink_cp = 1U << CP_A2A, .whole_heads = true,    \
     .index_cp = 1U << CP_GATHER, .delta_cp = (delta),                                             \
     .tp_in_pipeline = true, .pieces = true, .groups = true, .stage_runs = true, .defers_head = true, .uneven = true, .sequence = true, \
     .plain = true,                                                                                                    \
     .selective = true, .block = true, .offload_modules = true, .cp_pieces = 2, .replicates = true,                    \
     .host_state = true, .shards = SHARD_ANY,                                                                          \
     .pipeline_shards = SHARD_0 | SHARD_1, .matrix_shards = SHARD_0 | SHARD_1,                     \
     .dtypes = WIDE | HALF | CAST,                                                                 \
     .schedules = MEGATRON_SCHEDULES, .policies = MASTERS | 1U << POLICY_DISTRIBUTED | NARROWER,   \
     .whole_policies = MASTERS, .overlaps = OVERLAP_TENSOR, .whole_unless_overlapped = true,            \
     .may_overlap = OVERLAP_EVERY & ~(unsigned)OVERLAP_PIPELINE,                                   \
     .pieces_overlap = OVERLAP_PIPELINE}
/* Of torchtitan, distributed/parallel_dims.py and models/.../infra/parallelize.py: sequences are a multiple of
 * tp * 2 * cp; replicas without shards (DDP) only where nothing else is parallel; in a pipeline weights stay
 * gathered and gradients whole until the last micro-batch, which is level 1 (backward_maybe_with_nosync of
 * torch/distributed/pipelining/stage.py). Async TP overlaps exchanges with the products before and after, or
 * nothing does; keys and values go round a ring with context_parallel_rotate_method alltoall, which the main
 * branch does not have. Experts are split like the rest or stay whole; on the main branch they stay
 * whole. gpt-oss has neither stages nor cp (models/gpt_oss/README.md of the main branch; update_from_config of
 * models/gpt_oss/model/args.py). The main branch has adapters (components/lora.py). */
#define TITAN_ABILITIES(along)                                                                     \
    {.tp = true, .pp = true, .cp = true, .ep = true,                                               \
     .experts = (along) ? EXPERTS_LIKE_TP | EXPERTS_WHOLE : EXPERTS_WHOLE,                         \
     .tp_in_pipeline = true, .pieces = true, .uneven = true, .sequence = true, .plain = !(along),  \
     .adapters = !(along),                                                                         \
     .plain_experts = true, .products = true, .full_pipeline = true, .cp_pieces = 2,               \
     .no_sink_cp = true, .tp_pieces = (along), .replicates = true, .lone_replicas = true, .shards = SHARD_0 | SHARD_2 | SHARD_3,           \
     .pipeline_shards = SHARD_1, .dtypes = WIDE | 1U << DTYPE_BF16 | 1U << DTYPE_FP8,              \
     .schedules = TITAN_SCHEDULES, .orders = true, .policies = 1U << POLICY_FSDP,                  \
     .usual_policy = POLICY_FSDP,                                                                  \
     .overlaps = OVERLAP_PIPELINE | OVERLAP_GRADIENTS | OVERLAP_PARAMETERS,                        \
     .may_overlap = OVERLAP_TENSOR | OVERLAP_PRODUCTS | ((along) ? OVERLAP_KEYS : 0),              \
     .joint_overlap = OVERLAP_TENSOR | OVERLAP_PRODUCTS}
/* Of Galvatron, galvatron/core/runtime/hybrid_parallel_config.py: since 3.0 each layer has cp (a ring in zig-zag
 * halves), ep and the tensor degree of its experts, too. */
#define GALVATRON_ABILITIES(newer)                                                                 \
    {.tp = true, .pp = true, .cp = (newer), .ep = (newer), .scattered = !(newer),                  \
     .experts_outside = (newer),                                                                   \
     .experts = (newer) ? EXPERTS_LIKE_TP | EXPERTS_WHOLE : 0, .cp_pieces = 2,                     \
     .tp_in_pipeline = true, .uneven = true, .sequence = true,                                     \
     .plain = true, .plain_experts = true, .half_experts = true,                                   \
     .may_overlap = OVERLAP_ALL,                                                                   \
     .shards = SHARD_0 | SHARD_2 | SHARD_3, .pipeline_shards = SHARD_0 | SHARD_2 | SHARD_3,        \
     .dtypes = WIDE | HALF, .schedules = GALVATRON_SCHEDULES}

/* galvatron/models of the tag v2.4.0, beside GPT, LLaMA and BERT. */
static const char *const GALVATRON_2_FAMILIES[] = {"t5", "vit", "swin", NULL};

/* The root and examples/ of Megatron-LM at core_v0.19.0 and core_v0.16.1; Megatron-Bridge, src/megatron/bridge/recipes. */
static const struct own_program MEGATRON_19_PROGRAMS[] = {
    {"t5", "examples/t5/pretrain_t5.py"},
    {"images", "recipes of Megatron-Bridge, where it has one (Qwen2.5-VL, Qwen3-VL)"}, {NULL, NULL}};
static const struct own_program MEGATRON_16_PROGRAMS[] = {
    {"hybrid", "pretrain_mamba.py and --hybrid-override-pattern"}, {"t5", "pretrain_t5.py"},
    {"images", "recipes of Megatron-Bridge, where it has one (Qwen2.5-VL, Qwen3-VL)"}, {NULL, NULL}};

/* torchtitan/models of the main branch: encoders of images beside decoders with the gated delta rule or latent attention. */
static const struct own_program TITAN_PROGRAMS[] = {
    {"images", "its qwen3_5, kimi_k2_7 and muse_glimmer alone"}, {NULL, NULL}};

/* The first row of a framework is the one that its name alone stands for. */
static const struct target TARGETS[] = {
    {"megatron", "0.19", "Megatron-Core 0.19", MEGATRON_ABILITIES(DELTA_CP_HEADS),
     .lacks = megatron_lacks, .software = "megatron-core-0.19", .flags = MEGATRON_0_19_2,
     .words = {.program = "pretrain_gpt.py", .encoder_program = "examples/bert/pretrain_bert.py",
               .pattern_program = "pretrain_hybrid.py"},
     .programs = MEGATRON_19_PROGRAMS, .images = &MEGATRON_IMAGES, .image_flags = MEGATRON_VLM,
     .optimizers = MEGATRON_OPTIMIZERS,
     .decides = MEGATRON_DECIDES},
    {"megatron", "0.16", "Megatron-Core 0.16", MEGATRON_ABILITIES(DELTA_CP_NONE),
     .lacks = megatron16_lacks, .software = "megatron-core-0.16", .flags = MEGATRON_0_16_1,
     .words = {.program = "pretrain_gpt.py", .encoder_program = "pretrain_bert.py"},
     .programs = MEGATRON_16_PROGRAMS, .images = &MEGATRON_IMAGES, .image_flags = MEGATRON_VLM,
     .optimizers = MEGATRON_OPTIMIZERS,
     .decides = MEGATRON_DECIDES},
    {"torchtitan", "0.2.2", "torchtitan 0.2.2", TITAN_ABILITIES(1), .lacks = torchtitan02_lacks,
     .fails = torchtitan02_fails, .one_stage = has_titan_stage, .software = "torchtitan-2025",
     .optimizers = TITAN_0_2_OPTIMIZERS, .decides = TITAN_0_2_DECIDES},
    {"torchtitan", "main", "torchtitan's main branch of August 2026", TITAN_ABILITIES(0),
     .lacks = torchtitan_lacks, .one_stage = has_sinks, .software = "torchtitan-2025",
     .words = {.python = true}, .programs = TITAN_PROGRAMS,
     .optimizers = TITAN_OPTIMIZERS, .decides = TITAN_DECIDES},
    /* runtime/pipe/engine.py: levels 0 and 1 in a pipeline; tensor parallelism (AutoTP) replaces modules
     * of a model that is no pipeline. engine.py, _do_optimizer_sanity_check: without ZeRO gradients have the
     * type of the model. Weights are gathered ahead at level 3 (stage3_prefetch_bucket_size). In a
     * pipeline overlap_comm is switched off (engine.py, _configure_zero_optimizer). */
    {"deepspeed", "0.19", "DeepSpeed 0.19",
     {.tp = true, .pp = true, .plain = true, .plain_experts = true, .offload = true, .host_state = true,
      .shards = SHARD_ANY, .pipeline_shards = SHARD_0 | SHARD_1, .dtypes = WIDE | HALF, .schedules = SIMPLE_SCHEDULES,
      .policies = 1U << POLICY_MIXED | 1U << POLICY_MIXED_FP32_GRADIENTS,
      .whole_policies = 1U << POLICY_MIXED, .may_overlap = OVERLAP_GRADIENTS,
      .stages_wait = OVERLAP_GRADIENTS, .gathered_overlap = OVERLAP_PARAMETERS},
     .software = "deepspeed-0.19", .optimizers = DEEPSPEED_OPTIMIZERS,
     .decides = DEEPSPEED_DECIDES},
    /* The script that is written keeps masters and gradients in fp32. */
    {"fsdp", "2", "PyTorch's FSDP2",
     {.replicates = true, .shards = SHARD_0 | SHARD_2 | SHARD_3, .dtypes = WIDE | HALF,
      .schedules = SIMPLE_SCHEDULES, .policies = 1U << POLICY_FSDP | 1U << POLICY_MIXED,
      .usual_policy = POLICY_FSDP,
      .overlaps = OVERLAP_GRADIENTS | OVERLAP_PARAMETERS},
     .lacks = fsdp_lacks, .software = "fsdp-script", .optimizers = TORCH_OPTIMIZERS, .decides = FSDP_DECIDES},
    {"galvatron", "2.4", "Galvatron 2.4", GALVATRON_ABILITIES(0), .layerwise = true,
     .lacks = galvatron2_lacks, .other_families = GALVATRON_2_FAMILIES,
     .words = {.vocabulary_shards = "embed_sdp"}, .optimizers = OLD_MEGATRON_OPTIMIZERS, .decides = GALVATRON_DECIDES},
    {"galvatron", "3.0", "Galvatron 3.0", GALVATRON_ABILITIES(1), .layerwise = true,
     .lacks = galvatron3_lacks, .words = {.vocabulary_shards = "vocab_sdp"},
     .optimizers = OLD_MEGATRON_OPTIMIZERS, .decides = GALVATRON_DECIDES},
    /* The script that is written: torch.distributed.tensor.parallel within FSDP2. */
    {"dtensor", "2", "PyTorch's DTensor",
     {.tp = true, .sequence = true, .plain = true, .shards = SHARD_0 | SHARD_2 | SHARD_3,
      .dtypes = WIDE | HALF, .schedules = SIMPLE_SCHEDULES,
      .policies = 1U << POLICY_FSDP | 1U << POLICY_MIXED, .usual_policy = POLICY_FSDP,
      .overlaps = OVERLAP_GRADIENTS | OVERLAP_PARAMETERS},
     .refuses_splits = dtensor_refuses, .lacks = dtensor_lacks, .software = "dtensor-script",
     .optimizers = TORCH_OPTIMIZERS, .decides = FSDP_DECIDES},
    /* microsoft/SuperScaler, commit a692fa66, runtime/megatron/arguments.py: 1f1b of as many stages as there are, without
     * overlap, whole gradients and fp16 or fp32. */
    {"aceso", "2024", "Aceso's runtime",
     {.tp = true, .pp = true, .tp_in_pipeline = true, .uneven = true, .plain = true, .block = true, .shards = SHARD_0,
      .pipeline_shards = SHARD_0, .dtypes = WIDE | 1U << DTYPE_FP16, .schedules = SIMPLE_SCHEDULES,
      .whole_gradients = true},
     .lacks = aceso_lacks, .optimizers = OLD_MEGATRON_OPTIMIZERS, .decides = ACESO_DECIDES},
    /* `weft train`: kernels store fp32 and bf16, and the optimizer steps on fp32 masters. */
    {"weft", WEFT_VERSION, "Weft's own runtime",
     {.tp = true, .pp = true, .cp = true, .cp_heads = true, .ep = true, .tp_in_pipeline = true, .pieces = true,
      .groups = true, .folds = true, .defers_head = true, .uneven = true, .sequence = true, .plain = true, .plain_experts = true,
      .half_experts = true, .selective = true, .block = true, .products = true, .offload = true,
      .offload_kept = true, .offload_modules = true, .replicates = true, .experts = EXPERTS_ANYHOW, .shards = SHARD_ANY,
      .pipeline_shards = SHARD_ANY, .dtypes = WIDE | 1U << DTYPE_BF16 | 1U << DTYPE_FP16 | 1U << DTYPE_FP8, .orders = true,
      .joins = true,
      .policies = MASTERS | 1U << POLICY_DISTRIBUTED,
      .usual_policy = POLICY_MIXED_FP32_GRADIENTS, .may_overlap = OVERLAP_EVERY, .hides_recomputed = true},
     .any = true, .lacks_op = runtime_lacks_op, .optimizers = RUNTIME_OPTIMIZERS, .decides = RUNTIME_DECIDES},
};
/* clang-format on */

size_t target_count(void)
{
    return COUNT_OF(TARGETS);
}

const struct target *target_at(size_t index)
{
    return &TARGETS[index];
}

static const struct target *first_of(const char *framework)
{
    for (size_t i = 0; i < COUNT_OF(TARGETS); i++)
        if (strcmp(TARGETS[i].framework, framework) == 0)
            return &TARGETS[i];
    return NULL;
}

bool target_is_usual(const struct target *target)
{
    return target == first_of(target->framework);
}

const char *targets_where(struct arena *keep,
                          bool (*holds)(const struct target *target, const void *of),
                          const void *of)
{
    const char *names = NULL, *last = "";
    for (const struct target *row = TARGETS; row < TARGETS + COUNT_OF(TARGETS); row++) {
        if (strcmp(last, row->framework) == 0 || !holds(row, of))
            continue;
        const char *name = target_is_usual(row)
                               ? row->framework
                               : arena_printf(keep, "%s@%s", row->framework, row->release);
        names = names ? arena_printf(keep, "%s, %s", names, name) : name;
        last = row->framework;
    }
    return names;
}

/* The release of a framework whose number is the nearest; those without a number are the last to be so. */
static const struct target *nearest_release(const char *framework, const char *release)
{
    const struct target *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < COUNT_OF(TARGETS); i++) {
        double own = strtod(TARGETS[i].release, NULL), off = fabs(own - strtod(release, NULL));
        if (strcmp(TARGETS[i].framework, framework) == 0 && (!best || (own > 0 && off < least))) {
            best = &TARGETS[i];
            least = own > 0 ? off : INFINITY;
        }
    }
    return best;
}

static void unknown_release(const char *framework, const char *release)
{
    struct arena *scratch = arena_new();
    const char *known = NULL;
    for (size_t i = 0; i < COUNT_OF(TARGETS); i++)
        if (strcmp(TARGETS[i].framework, framework) == 0)
            known = known ? arena_printf(scratch, "%s, %s@%s", known, framework, TARGETS[i].release)
                          : arena_printf(scratch, "%s@%s", framework, TARGETS[i].release);
    bad_argument(arena_printf(scratch, "%s@%s is the nearest release, and mostly right, too",
                              framework, nearest_release(framework, release)->release),
                 "%s@%s is not known, expected %s", framework, release, known);
    arena_free(scratch);
}

const struct target *target_find(const char *name)
{
    struct arena *scratch = arena_new();
    char *framework = arena_copy_text(scratch, name), *release = strchr(framework, '@');
    if (release)
        *release++ = '\0';
    const struct target *target = first_of(framework);
    while (target && release && strcmp(target->release, release) != 0) {
        target++;
        if (target == TARGETS + COUNT_OF(TARGETS) || strcmp(target->framework, framework) != 0)
            target = NULL;
    }
    if (!target && first_of(framework))
        unknown_release(framework, release);
    else if (!target)
        unknown_name("target", framework, TARGETS, sizeof TARGETS[0], COUNT_OF(TARGETS));
    arena_free(scratch);
    return target;
}

const struct target *target_with(const struct software *software)
{
    const struct software_profile *profile;
    software_profiles(&profile);
    for (size_t i = 0; i < COUNT_OF(TARGETS); i++)
        if (TARGETS[i].software &&
            strcmp(TARGETS[i].software, profile[software->profile].name) == 0)
            return &TARGETS[i];
    return NULL;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The rules of settings for a plan whose choices are not held against degrees; mends `made`, which may be NULL. */
static void obey_settings(struct arena *keep, const struct target *target, const struct plan *plan,
                          struct plan *made, struct texts *out)
{
    struct recognised r = {.degrees = {.dp = 1,
                                       .tp = 1,
                                       .cp = 1,
                                       .ep = 1,
                                       .pp = 1,
                                       .pieces = 1,
                                       .segments = 1,
                                       .global_batch = 1,
                                       .micro_batch = 1,
                                       .has_dtype = true,
                                       .dtype = plan->dtype,
                                       .has_policy = true,
                                       .policy = plan->policy,
                                       .stage_run = plan->stage_run,
                                       .optimizer = plan->optimizer,
                                       .optimizer_offload = plan->optimizer_offload,
                                       .defer_head = plan->defer_head,
                                       .shard = highest_shard(plan),
                                       .replicate = plan->replicate}};
    obey_rules(keep, target, plan, &r);
    for (size_t i = 0; i < r.differences.len; i++)
        add_text(keep, out, r.differences.data[i]);
    if (made) {
        made->dtype = r.degrees.dtype;
        made->policy = r.degrees.policy;
        made->replicate = r.degrees.replicate;
        made->optimizer = r.degrees.optimizer;
        made->optimizer_offload = r.degrees.optimizer_offload;
        if (!r.degrees.defer_head && made->defer_head)
            plan_name_schedule(made, made->schedule);
        made->stage_run = r.degrees.stage_run;
    }
}

/* What keeps a target from running a plan that degrees make, rule by rule; none: it is no such plan, or obeys them. */
static struct texts broken_rules(struct arena *keep, const struct target *target,
                                 const struct plan *plan)
{
    struct recognised r = {0};
    struct texts none = {0}, differences = {0};
    if (recognise_plan(keep, plan, &r)) {
        error_clear();
        return none;
    }
    if (target->can.experts_outside)
        put_experts_outside(r.plan);
    plan_differences(keep, plan, r.plan, &differences);
    r.differences = none;
    if (!differences.len)
        hold_against(keep, target, plan, &r);
    plan_free(r.plan);
    return r.differences;
}

static weft_status strategies_of_plan(struct arena *keep, const struct target *target,
                                      const struct plan *plan, bool nearest, struct recognised *out)
{
    struct galvatron config;
    weft_status status = galvatron_of_plan(keep, target, plan, nearest, &config, &out->plan);
    if (status == WEFT_OK) {
        copy_settings(out->plan, plan);
        plan_differences(keep, plan, out->plan, &out->differences);
        obey_settings(keep, target, plan, out->plan, &out->differences);
        struct texts rules =
            out->differences.len ? broken_rules(keep, target, plan) : (struct texts){0};
        if (rules.len)
            out->differences = rules;
    }
    return status;
}

static weft_status any_plan(struct arena *keep, const struct target *target,
                            const struct plan *plan, struct recognised *out)
{
    weft_status status = plan_copy(plan, &out->plan);
    if (status == WEFT_OK)
        obey_settings(keep, target, plan, out->plan, &out->differences);
    return status;
}

/* Degrees where they make the plan, whether or not the target runs these, or where there are several stages, which it does not
 * have; else a split for each operator. */
static weft_status splits_of_plan(struct arena *keep, const struct target *target,
                                  const struct plan *plan, bool nearest, struct recognised *out)
{
    weft_status status = degrees_of_plan(keep, plan, target, nearest, out);
    if (status == WEFT_FAILURE || (status == WEFT_OK && !out->differences.len) || plan->parts > 1 ||
        broken_rules(keep, target, plan).len)
        return status;
    const char *refusal = target->refuses_splits(keep, plan);
    if (refusal && status == WEFT_OK) {
        struct texts others = out->differences;
        out->differences = (struct texts){0};
        add_text(keep, &out->differences, refusal);
        for (size_t i = 0; i < others.len; i++)
            add_text(keep, &out->differences, others.data[i]);
    }
    if (refusal)
        return status;
    error_clear();
    plan_free(out->plan);
    *out = (struct recognised){.by_operator = true};
    return any_plan(keep, target, plan, out);
}

weft_status target_recognise(struct arena *keep, const struct target *target,
                             const struct plan *plan, bool nearest, struct recognised *out)
{
    *out = (struct recognised){0};
    return target->any              ? any_plan(keep, target, plan, out)
           : target->layerwise      ? strategies_of_plan(keep, target, plan, nearest, out)
           : target->refuses_splits ? splits_of_plan(keep, target, plan, nearest, out)
                                    : degrees_of_plan(keep, plan, target, nearest, out);
}

weft_status target_differences(struct arena *keep, const struct target *target,
                               const struct plan *plan, struct texts *out, struct plan **nearest)
{
    struct recognised r;
    weft_status status = target_recognise(keep, target, plan, nearest != NULL, &r);
    if (status == WEFT_FAILURE)
        return status;
    if (status) {
        add_text(keep, out, arena_copy_text(keep, weft_last_error()->message));
        error_clear();
    }
    for (size_t i = 0; i < r.differences.len; i++)
        add_text(keep, out, r.differences.data[i]);
    bool wanted = nearest && r.plan && r.differences.len;
    if (nearest)
        *nearest = wanted ? r.plan : NULL;
    if (!wanted)
        plan_free(r.plan);
    return WEFT_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool degrees_alone(const struct target *target)
{
    return !target->any && !target->layerwise && !target->refuses_splits;
}

/* The first thing that keeps a target of degrees from running a plan; `found` are those that were recognised. */
static const char *first_broken(struct arena *keep, const struct target *target,
                                const struct plan *plan, const struct recognised *found)
{
    struct texts differences = {0};
    struct recognised own = *found;
    if (!degrees_alone(target)) {
        if (target_differences(keep, target, plan, &differences, NULL))
            error_clear();
    } else {
        hold_against(keep, target, plan, &own);
        differences = own.differences;
    }
    return differences.len ? differences.data[0] : NULL;
}

weft_status targets_ask(struct arena *keep, const struct plan *plan, struct target_answers *out)
{
    struct recognised found = {0};
    weft_status status = recognise_plan(keep, plan, &found);
    const char *none = status ? arena_copy_text(keep, weft_last_error()->message) : NULL;
    error_clear();
    for (size_t i = 0; i < COUNT_OF(TARGETS) && status != WEFT_FAILURE; i++) {
        const struct target *target = &TARGETS[i];
        struct target_answer answer = {.target = target};
        if (!target_is_usual(target))
            continue;
        if (target_has_model(target, plan->model))
            answer.breaks = arena_copy_text(keep, weft_last_error()->message);
        else
            answer.breaks =
                none && degrees_alone(target) ? none : first_broken(keep, target, plan, &found);
        error_clear();
        array_push(keep, out, answer);
    }
    plan_free(found.plan);
    return status == WEFT_FAILURE ? status : WEFT_OK;
}

const char *targets_that_run(struct arena *keep, const struct plan *plan)
{
    struct target_answers answers = {0};
    const char *names = NULL;
    if (targets_ask(keep, plan, &answers))
        error_clear();
    for (size_t i = 0; i < answers.len; i++) {
        const char *name = answers.data[i].target->framework;
        if (!answers.data[i].breaks)
            names = names ? arena_printf(keep, "%s, %s", names, name) : name;
    }
    return names;
}

/* targets.c - the table of frameworks and releases (target.h), with where each fact stands in their
 * sources, and the two questions whether one of them runs a plan and which plan is the nearest.
 */
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
    SHARD_ANY = SHARD_0 | SHARD_1 | SHARD_2 | SHARD_3
};
/* Of Megatron-LM, megatron/training/arguments.py (validate_args) and megatron/core: sequences are cut in
 * zig-zag halves per rank of cp; with experts and tp > 1 MoELayer wants sequence parallelism; levels 2 and 3
 * are Megatron-FSDP, which is documented and tested without a pipeline only. */
#define MEGATRON_ABILITIES                                                                         \
    {.tp = true, .pp = true, .cp = true, .ep = true, .experts = EXPERTS_ANYHOW,                    \
     .tp_in_pipeline = true, .pieces = true, .uneven = true, .sequence = true, .plain = true, .selective = true, .block = true,            \
     .cp_pieces = 2, .shards = SHARD_ANY, .pipeline_shards = SHARD_0 | SHARD_1,                    \
     .dtypes = WIDE | HALF | CAST, .schedules = MEGATRON_SCHEDULES}
/* Of torchtitan, distributed/parallel_dims.py and models/.../infra/parallelize.py: sequences are a multiple of
 * tp * 2 * cp; replicas without shards (DDP) only where nothing else is parallel; in a pipeline weights stay
 * gathered and gradients whole until the last micro-batch, which is level 1. */
#define TITAN_ABILITIES(along)                                                                     \
    {.tp = true, .pp = true, .cp = true, .ep = true,                                               \
     .experts = (along) ? EXPERTS_LIKE_TP | EXPERTS_WHOLE : EXPERTS_WHOLE,                         \
     .tp_in_pipeline = true, .pieces = true, .uneven = true, .sequence = true, .plain = !(along), .plain_experts = true,                   \
     .products = true, .cp_pieces = 2, .tp_pieces = (along), .lone_replicas = true,                \
     .shards = SHARD_0 | SHARD_2 | SHARD_3, .pipeline_shards = SHARD_1 | SHARD_2 | SHARD_3,        \
     .dtypes = WIDE | 1U << DTYPE_BF16 | 1U << DTYPE_FP8, .schedules = TITAN_SCHEDULES}
/* Of Galvatron, galvatron/core/runtime/hybrid_parallel_config.py; cp and ep of 3.0 are per layer, too. */
#define GALVATRON_ABILITIES                                                                        \
    {.tp = true, .pp = true, .tp_in_pipeline = true, .uneven = true, .sequence = true,             \
     .plain = true, .plain_experts = true, .half_experts = true,                                   \
     .shards = SHARD_0 | SHARD_2 | SHARD_3, .pipeline_shards = SHARD_0 | SHARD_2 | SHARD_3,        \
     .dtypes = WIDE | HALF, .schedules = GALVATRON_SCHEDULES}

/* The first row of a framework is the one that its name alone stands for. */
static const struct target TARGETS[] = {
    {"megatron", "0.19", "Megatron-Core 0.19", MEGATRON_ABILITIES,
     .lacks = megatron_lacks, .software = "megatron-core-0.19"},
    {"megatron", "0.16", "Megatron-Core 0.16", MEGATRON_ABILITIES,
     .lacks = megatron_lacks, .software = "megatron-core-0.16"},
    {"torchtitan", "0.2.2", "torchtitan 0.2.2", TITAN_ABILITIES(1), .lacks = torchtitan_lacks,
     .software = "torchtitan-2025"},
    {"torchtitan", "main", "torchtitan's main branch of August 2026", TITAN_ABILITIES(0),
     .lacks = torchtitan_lacks, .software = "torchtitan-2025"},
    /* runtime/pipe/engine.py: levels 0 and 1 in a pipeline; tensor parallelism (AutoTP) replaces modules
     * of a model that is no pipeline. */
    {"deepspeed", "0.19", "DeepSpeed 0.19",
     {.tp = true, .pp = true, .plain = true, .plain_experts = true, .offload = true,
      .shards = SHARD_ANY, .pipeline_shards = SHARD_0 | SHARD_1, .dtypes = WIDE | HALF,
      .schedules = SIMPLE_SCHEDULES}, .software = "deepspeed-0.19"},
    {"fsdp", "2", "PyTorch's FSDP2",
     {.shards = SHARD_0 | SHARD_2 | SHARD_3, .dtypes = WIDE | HALF | CAST, .schedules = SIMPLE_SCHEDULES},
     .lacks = fsdp_lacks, .software = "torchtitan-2025"},
    {"galvatron", "2.4", "Galvatron 2.4", GALVATRON_ABILITIES, .layerwise = true,
     .lacks = galvatron2_lacks, .other_families = true},
    {"galvatron", "3.0", "Galvatron 3.0", GALVATRON_ABILITIES, .layerwise = true,
     .lacks = galvatron3_lacks},
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

static void unknown_release(const char *framework, const char *release)
{
    struct arena *scratch = arena_new();
    const char *known = NULL;
    for (size_t i = 0; i < COUNT_OF(TARGETS); i++)
        if (strcmp(TARGETS[i].framework, framework) == 0)
            known = known ? arena_printf(scratch, "%s, %s@%s", known, framework, TARGETS[i].release)
                          : arena_printf(scratch, "%s@%s", framework, TARGETS[i].release);
    bad_argument("the nearest release is mostly right, too", "%s@%s is not known, expected %s",
                 framework, release, known);
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

/* ---- plans ----------------------------------------------------------------------------------- */

static weft_status strategies_of_plan(struct arena *keep, const struct plan *plan, bool nearest,
                                      struct recognised *out)
{
    struct galvatron config;
    weft_status status = galvatron_of_plan(keep, plan, nearest, &config, &out->plan);
    if (status == WEFT_OK) {
        copy_settings(out->plan, plan);
        plan_differences(keep, plan, out->plan, &out->differences);
    }
    return status;
}

weft_status target_differences(struct arena *keep, const struct target *target,
                               const struct plan *plan, struct texts *out, struct plan **nearest)
{
    struct recognised r = {0};
    weft_status status = target->layerwise
                             ? strategies_of_plan(keep, plan, nearest != NULL, &r)
                             : degrees_of_plan(keep, plan, target, nearest != NULL, &r);
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

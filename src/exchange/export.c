/* export.c - the targets, and the common way to all of them: recognise, hold against the plan, write.
 */
#include "exchange/room.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const char *const MEGATRON_SCHEDULES[] = {"1f1b", "interleaved", NULL};
static const char *const TITAN_SCHEDULES[] = {"1f1b", "interleaved", "gpipe", NULL};
static const char *const SIMPLE_SCHEDULES[] = {"1f1b", NULL};

enum { SHARD_0 = 1, SHARD_1 = 2, SHARD_2 = 4, SHARD_3 = 8 };
#define MEGATRON_ABILITIES                                                                         \
    {.tp = true, .pp = true, .cp = true, .ep = true, .pieces = true, .uneven = true,               \
     .block = true, .sequence = true, .plain = true, .selective = true,                            \
     .shards = SHARD_0 | SHARD_1 | SHARD_2 | SHARD_3, .schedules = MEGATRON_SCHEDULES}

static const struct target TARGETS[] = {
    {"megatron", "launch arguments of Megatron-LM, as a shell array", MEGATRON_ABILITIES, false,
     write_megatron},
    {"deepspeed", "DeepSpeed's JSON configuration",
     {.tp = true, .pp = true, .plain = true, .offload = true,
      .shards = SHARD_0 | SHARD_1 | SHARD_2 | SHARD_3, .schedules = SIMPLE_SCHEDULES},
     false, write_deepspeed},
    {"torchtitan", "torchtitan's job configuration in TOML",
     {.tp = true, .pp = true, .cp = true, .ep = true, .pieces = true, .uneven = true,
      .sequence = true, .products = true, .shards = SHARD_0 | SHARD_2 | SHARD_3,
      .pipeline_shards = SHARD_1, /* gradients stay whole until the last micro-batch */
      .schedules = TITAN_SCHEDULES},
     false, write_torchtitan},
    {"fsdp", "a training script for PyTorch's FSDP2",
     {.shards = SHARD_0 | SHARD_2 | SHARD_3, .schedules = SIMPLE_SCHEDULES}, false, write_fsdp},
    {"galvatron", "Galvatron's JSON: a strategy per layer", {0}, true, write_galvatron},
    {"slurm", "a Slurm batch script around Megatron-LM", MEGATRON_ABILITIES, false, write_slurm},
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

const char *target_name(const struct target *target)
{
    return target->name;
}

const struct target *target_find(const char *name)
{
    int at = NAME_INDEX(name, TARGETS);
    if (at >= 0)
        return &TARGETS[at];
    unknown_name("target", name, TARGETS, sizeof TARGETS[0], COUNT_OF(TARGETS));
    return NULL;
}

static const struct source SOURCES[] = {
    {"megatron", "launch arguments of Megatron-LM", megatron_import},
    {"galvatron", "Galvatron's JSON: a strategy per layer", galvatron_import},
    {"aceso", "Aceso's JSON: degrees for every operator", aceso_import},
};

const struct source *source_find(const char *name)
{
    int at = name ? NAME_INDEX(name, SOURCES) : 0;
    if (at >= 0)
        return &SOURCES[at];
    unknown_name("source", name, SOURCES, sizeof SOURCES[0], COUNT_OF(SOURCES));
    return NULL;
}

/* ---- what writers share ---------------------------------------------------------------------- */

void note(struct export_job *job, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    add_text(job->keep, &job->out->notes, arena_vprintf(job->keep, fmt, list));
    va_end(list);
}

void job_differs(struct export_job *job, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    add_text(job->keep, &job->out->differences, arena_vprintf(job->keep, fmt, list));
    va_end(list);
}

weft_status job_rebuild(struct export_job *job)
{
    const struct recognised *r = &job->found;
    struct plan *again = NULL;
    weft_status status = plan_of_degrees(job->plan->model, job->plan->cluster, &r->degrees,
                                         r->part_layers, r->block, &again);
    if (status)
        return status;
    copy_settings(again, r->plan);
    plan_free(job->out->written);
    job->out->written = job->found.plan = again;
    return WEFT_OK;
}

const char *cluster_title(struct arena *keep, const struct plan *plan)
{
    if (plan->cluster_name)
        return plan->cluster_name;
    return arena_printf(keep, "%s:%lld", plan->cluster->name, (long long)plan->cluster->nodes);
}

/* Names may be paths; what would end a comment or a string of any target does not get through. */
const char *plan_title(struct arena *keep, const struct plan *plan)
{
    const char *model = plan->model_name ? plan->model_name : plan->model->name;
    char *title = arena_printf(keep, "%s on %s", model, cluster_title(keep, plan));
    for (char *c = title; *c; c++)
        if ((unsigned char)*c < ' ' || strchr("\"'\\`$", *c))
            *c = '?';
    return title;
}

/* ---- exporting ------------------------------------------------------------------------------- */

static weft_status refuse(const struct plan *plan, const struct target *target,
                          const struct texts *differences)
{
    size_t more = differences->len - 1;
    struct arena *scratch = arena_new();
    const char *rest = more ? arena_printf(scratch, " (and %zu more)", more) : "";
    weft_status status =
        bad_argument("--nearest writes the nearest plan that can be expressed, and says what it "
                     "costs",
                     "%s cannot express this plan of %s: %s%s", target->name, plan->model->name,
                     differences->data[0], rest);
    arena_free(scratch);
    return status;
}

weft_status plan_export(struct arena *keep, const struct plan *plan, const struct target *target,
                        bool nearest, struct export_result *out)
{
    struct export_job job = {
        .keep = keep, .plan = plan, .target = target, .nearest = nearest, .out = out};
    weft_status status = WEFT_OK;
    *out = (struct export_result){0};
    if (!target->layerwise) {
        TRY(degrees_of_plan(keep, plan, &target->can, target->name, nearest, &job.found));
        out->written = job.found.plan;
        out->differences = job.found.differences;
    }
    if (out->differences.len && !nearest)
        TRY(refuse(plan, target, &out->differences));
    TRY(target->write(&job));
    if (out->differences.len && !nearest) /* those that the writer found */
        TRY(refuse(plan, target, &out->differences));
done:
    if (status) {
        plan_free(out->written);
        out->written = NULL;
    }
    return status;
}

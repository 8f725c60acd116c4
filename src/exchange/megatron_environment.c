/* megatron_environment.c - what the environment of a run of Megatron-LM has to say (room.h). */
#include <string.h>

#include "cluster/cluster.h"
#include "exchange/export_megatron.h"

static bool hides_between_queues(const struct export_job *job)
{
    struct model_shape shape = {0};
    if (shape_of_model(job->plan->model, &shape))
        error_clear();
    return hides_tokens(job->plan, &job->found.degrees, &shape);
}

static bool exchanges_along_layers(const struct export_job *job)
{
    return job->found.degrees.tp * job->found.degrees.cp > 1;
}

static bool is_blackwell(const struct export_job *job)
{
    return cluster_all_devices(job->plan->cluster, device_scales_blocks);
}

static bool overlaps_by_queues(const struct export_job *job)
{
    return is_blackwell(job) && (exchanges_along_layers(job) || hides_between_queues(job));
}

static bool overlaps_by_order(const struct export_job *job)
{
    return !is_blackwell(job) && !uses_megatron_fsdp(&job->found.degrees) &&
           exchanges_along_layers(job) && !hides_between_queues(job);
}

static bool offloads_modules(const struct export_job *job)
{
    return job->found.degrees.offload_modules != 0;
}

/* megatron/training/arguments.py asserts the second, but neither on Blackwell nor beside hidden tokens, which want more queues
 * than one, and the last one for Transformer Engine 2.10 and later, which would move weights to the host as well. The first is
 * what Megatron-Bridge's recipes set on Blackwell (their plugin for performance); elsewhere the driver's 8 queues are theirs, too. */
static const struct {
    const char *setting;
    bool (*is_needed)(const struct export_job *job);
} ENVIRONMENT[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS=32", overlaps_by_queues},
    {"CUDA_DEVICE_MAX_CONNECTIONS=1", overlaps_by_order},
    {"NVTE_CPU_OFFLOAD_V1=1", offloads_modules},
};

/* Python finds modules beside the program that it is told, and those of a program in a folder of its own (examples/bert) are
 * not there. */
static bool is_below_its_modules(const struct export_job *job)
{
    return strchr(megatron_script(job), '/') != NULL;
}

const char *megatron_environment(struct export_job *job, const char *path, const char *first,
                                 const char *next, const char *end)
{
    const char *text = "";
    for (size_t i = 0; i < COUNT_OF(ENVIRONMENT); i++)
        if (ENVIRONMENT[i].is_needed(job))
            text = arena_printf(job->keep, "%s%s%s%s", text, *text ? next : first,
                                ENVIRONMENT[i].setting, end);
    if (is_below_its_modules(job))
        text =
            arena_printf(job->keep, "%s%sPYTHONPATH=%s%s", text, *text ? next : first, path, end);
    return text;
}

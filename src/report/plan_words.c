/* plan_words.c - descriptions of a plan that several commands print. */
#include <stdio.h>
#include <string.h>

#include "report/report.h"

/* What overlaps with computation, and how much is sent at once. */
static void print_practice(struct arena *scratch, const struct plan *plan, FILE *out)
{
    fprintf(out, "overlap: %s", overlap_text(scratch, plan->overlap, ", "));
    if (plan->bucket_bytes == BUCKET_BY_RULE)
        fprintf(out, "; gradients in buckets of %s",
                show_bytes((double)plan_bucket_bytes(plan, plan_replicas(plan))).s);
    else if (plan->bucket_bytes > 0)
        fprintf(out, "; gradients in buckets of %s", show_bytes((double)plan->bucket_bytes).s);
    else
        fputs("; gradients of a part at once", out);
    if (plan->stages > 1)
        fprintf(out, "; %s sends", plan->whole_sends ? "whole" : "scattered");
    fputc('\n', out);
    if (!software_is_default(&plan->software))
        print_wrapped(scratch, "software: ",
                      arena_printf(scratch, "%s (%s)", software_text(scratch, &plan->software),
                                   software_assumes(scratch, &plan->software)),
                      out);
}

const char *plan_batches(struct arena *keep, const struct plan *plan)
{
    return arena_printf(keep, "%s in %s: %s", counted(plan->global_batch, "sample").s,
                        counted(plan_micro_batches(plan), "micro-batch").s, step_text(keep, plan));
}

/* "; stages 1-2 take 4 micro-batches at once", for every run of stages that does. */
static const char *joins_text(struct arena *keep, const struct plan *plan)
{
    const char *text = "";
    for (int32_t s = 0, end; s < plan->stages; s = end) {
        int32_t joins = plan_stage_joins(plan, s);
        for (end = s + 1; end < plan->stages && plan_stage_joins(plan, end) == joins;)
            end++;
        if (joins > 1)
            text = arena_printf(keep, "%s; stage%s %s take%s %d micro-batches at once", text,
                                end - s > 1 ? "s" : "", number_range(keep, s, end - s),
                                end - s > 1 ? "" : "s", joins);
    }
    return text;
}

const char *plan_order(struct arena *keep, const struct plan *plan)
{
    const char *pieces =
        plan->pieces > 1 ? arena_printf(keep, ", virtual %lld", (long long)plan->pieces) : "";
    if (plan_round(plan) != plan->stages)
        pieces = arena_printf(keep, "%s in groups of %s", pieces,
                              counted(plan_round(plan), "micro-batch").s);
    if (plan->defer_head)
        pieces =
            arena_printf(keep, "%s, defer-head %s", pieces, deferral_text(keep, plan->defer_head));
    return arena_printf(keep, "%s, %s%s%s", plan->schedule, counted(plan->stages, "stage").s,
                        pieces, joins_text(keep, plan));
}

/* "8 devices"; of racks, whose number is easily taken for another, "4 racks x 72 = 288 devices". */
static const char *cluster_size(struct arena *keep, const struct cluster *cluster)
{
    const char *devices = counted(cluster_devices(cluster), "device").s;
    if (cluster->node.boards < 2)
        return arena_copy_text(keep, devices);
    return arena_printf(keep, "%s × %d = %s", counted(cluster->nodes, "rack").s,
                        cluster->node.devices, devices);
}

/* "bf16, mixed"; the policy that keeps everything in a type has the type's name, which is said once. */
static const char *types_text(struct arena *keep, const struct plan *plan)
{
    const char *dtype = dtype_name(plan->dtype), *policy = policy_name(plan->policy);
    return strcmp(dtype, policy) == 0 ? dtype : arena_printf(keep, "%s, %s", dtype, policy);
}

void plan_heading(struct arena *scratch, const struct plan *plan, FILE *out)
{
    fprintf(out, "%s on %s: %s, %s\n%s\n%s\n", plan->model->name, plan->cluster->name,
            cluster_size(scratch, plan->cluster), types_text(scratch, plan),
            plan_batches(scratch, plan), plan_order(scratch, plan));
    print_practice(scratch, plan, out);
    fputc('\n', out);
}

const char *number_range(struct arena *keep, int64_t first, int64_t count)
{
    if (count == 1)
        return arena_printf(keep, "%lld", (long long)first);
    return arena_printf(keep, "%lld-%lld", (long long)first, (long long)(first + count - 1));
}

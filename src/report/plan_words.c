/* plan_words.c - what several commands say of a plan in the same words. */
#include <stdio.h>

#include "report/report.h"

/* "all", "none", "tensor, pipeline", or "all, products". */
static void print_overlap(unsigned overlap, FILE *out)
{
    const char *word = overlap ? overlap_take(&overlap) : overlap_name(0);
    fputs(word, out);
    while ((word = overlap_take(&overlap)) != NULL)
        fprintf(out, ", %s", word);
}

/* What runs beside computation, and how much is sent at once. */
static void print_practice(const struct plan *plan, FILE *out)
{
    fputs("overlap: ", out);
    print_overlap(plan->overlap, out);
    if (plan->bucket_bytes > 0)
        fprintf(out, "; gradients in buckets of %s", show_bytes((double)plan->bucket_bytes).s);
    else
        fputs("; gradients of a part at once", out);
    if (plan->stages > 1)
        fprintf(out, "; %s sends", plan->whole_sends ? "whole" : "scattered");
    fputc('\n', out);
}

const char *plan_batches(struct arena *keep, const struct plan *plan)
{
    long long steps = (long long)plan_micro_batches(plan);
    const char *pieces =
        plan->pieces > 1 ? arena_printf(keep, " of %lld pieces", (long long)plan->pieces) : "";
    return arena_printf(keep, "%lld samples in %lld micro-batch%s of %lld; %s, %d stage%s%s",
                        (long long)plan->global_batch, steps, steps == 1 ? "" : "es",
                        (long long)plan->step_samples, plan->schedule, plan->stages,
                        plan->stages == 1 ? "" : "s", pieces);
}

void plan_heading(struct arena *scratch, const struct plan *plan, FILE *out)
{
    fprintf(out, "%s on %s: %lld devices, %s, %s\n%s\n", plan->model->name, plan->cluster->name,
            (long long)cluster_devices(plan->cluster), dtype_name(plan->dtype),
            policy_name(plan->policy), plan_batches(scratch, plan));
    print_practice(plan, out);
    fputc('\n', out);
}

const char *number_range(struct arena *keep, int64_t first, int64_t count)
{
    if (count == 1)
        return arena_printf(keep, "%lld", (long long)first);
    return arena_printf(keep, "%lld-%lld", (long long)first, (long long)(first + count - 1));
}

/* words.c - what several commands say of a plan in the same words. */
#include <stdio.h>

#include "cli/show.h"

void plan_heading(const struct plan *plan, FILE *out)
{
    fprintf(out, "%s on %s: %lld devices, %s, %s\n", plan->model->name, plan->cluster->name,
            (long long)cluster_devices(plan->cluster), dtype_name(plan->dtype),
            policy_name(plan->policy));
    long long steps = (long long)plan_micro_batches(plan);
    fprintf(out, "%lld samples in %lld micro-batch%s of %lld; %s, %d stage%s",
            (long long)plan->global_batch, steps, steps == 1 ? "" : "es",
            (long long)plan->batch_per_step, plan->schedule, plan->stages,
            plan->stages == 1 ? "" : "s");
    if (plan->pieces > 1)
        fprintf(out, " of %lld pieces", (long long)plan->pieces);
    fputs("\n\n", out);
}

const char *number_range(struct arena *keep, int64_t first, int64_t count)
{
    if (count == 1)
        return arena_printf(keep, "%lld", (long long)first);
    return arena_printf(keep, "%lld-%lld", (long long)first, (long long)(first + count - 1));
}

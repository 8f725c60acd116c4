/* export_line.c - the command that predicts again what a file was written as.
 *
 *   weft simulate MODEL CLUSTER --set KEY=VALUE ... --dp N ...                degrees give the plan
 *   weft import THIS CLUSTER --model MODEL -o plan.json && weft simulate plan.json    they do not
 *
 *   I1  Typed where the plan was made, it gives the plan that the file stands for, settings that the target has no
 *       words for included.
 */
#include <string.h>

#include "exchange/room.h"

const char *harmless(struct arena *keep, const char *text)
{
    char *copy = arena_copy_text(keep, text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < ' ' || strchr("\"'\\`$", *c))
            *c = '?';
    return copy;
}

/* "seq: 1024, attention: flash" as --set seq=1024 --set attention=flash. */
static const char *sets_of(struct arena *keep, const char *options)
{
    struct doc *map;
    const char *text = "", *flow = arena_printf(keep, "{%s}", options);
    if (doc_parse(keep, "options", flow, strlen(flow), DOC_YAML, &map)) {
        error_clear();
        return "";
    }
    for (const struct doc *d = map->first; d; d = d->next)
        text = arena_printf(keep, "%s --set %s=%s", text, d->key, d->text ? d->text : "");
    return text;
}

static const char *simulate_line(struct arena *keep, const struct plan *plan, const char *source)
{
    struct degrees d;
    const char *model = plan->model_name ? plan->model_name : plan->model->name;
    const char *sets = sets_of(keep, plan->model_options ? plan->model_options : "");
    const char *cluster = cluster_title(keep, plan), *line;
    if (plan_degrees(plan, &d))
        line = arena_printf(keep, "weft simulate %s %s%s %s", model, cluster, sets,
                            degrees_flags(keep, plan->model, &d));
    else
        line = arena_printf(keep,
                            "weft import THIS %s%s%s --model %s%s -o plan.json && "
                            "weft simulate plan.json",
                            cluster, *source ? " --from " : "", source, model, sets);
    return harmless(keep, line);
}

const char *torchrun_line(struct arena *keep, const struct cluster *cluster)
{
    long long nodes = (long long)cluster_hosts(cluster);
    long long devices = (long long)cluster_host_devices(cluster);
    const char *meet = nodes > 1 ? " --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:29500" : "";
    return arena_printf(keep, "torchrun --nnodes %lld --nproc-per-node %lld%s", nodes, devices,
                        meet);
}

const char *job_line(struct export_job *job, const char *source)
{
    job->out->simulate = job->found.by_operator
                             ? "weft simulate PLAN, the plan that was exported"
                             : simulate_line(job->keep, job->out->written, source);
    return job->out->simulate;
}

/* plan_open.c - opens the plan that a command line names: a file, or a model, a cluster and degrees (degrees.h). */
#include <stdio.h>
#include <unistd.h>

#include "cli/degrees.h"
#include "cost/cost.h"
#include "exchange/exchange.h"

/* With a profile of the model's whole layers, the devices are as fast as these were measured. */
static weft_status follow_layers(const struct plan_arguments *in, enum dtype dtype,
                                 const struct model *model, struct cluster *cluster)
{
    struct layer_pace layers = {0};
    weft_status status = WEFT_OK;
    if (!in->profile)
        return WEFT_OK;
    for (int32_t p = 0; p < cluster->pools; p++) {
        TRY(layer_pace(in->profile, &cluster_pool(cluster, p)->node.device, model, dtype, &layers));
        if (layers.pace > 0)
            return cluster_refuse_pools(cluster, "a profile of whole layers");
    }
    TRY(layer_pace(in->profile, &cluster->node.device, model, dtype, &layers));
    if (layers.pace <= 0)
        return WEFT_OK;
    struct paces paces = {.of = {[PACE_PRODUCTS] = layers.pace, [PACE_MEMORY] = layers.pace}};
    cluster_set_pace(cluster, &paces);
    if (layers.has_slowdown && cluster->node.device.overlap_slowdown == 0)
        cluster->node.device.overlap_slowdown = layers.overlap_slowdown;
    fprintf(stderr, "note: %lld layers as %s has them: %.2f times as fast as by formula\n",
            (long long)layers.layers, in->profile, layers.pace);
done:
    return status;
}

/* What is no plan may be what a framework is launched with. */
static void hint_at_import(const char *path)
{
    struct arena *scratch = arena_new();
    char *text;
    size_t len;
    if (!file_read(scratch, path, DOC_MAX_BYTES, &text, &len)) {
        const struct source *source = source_of_text(text);
        if (source)
            error_hint(
                "it reads like a file for %s; try `weft import %s CLUSTER --from %s -o plan.json`",
                source->name, path, source->name);
    }
    arena_free(scratch);
}

static weft_status open_file(const struct plan_arguments *in, struct opened_plan *out)
{
    if (is_preset(in->name[0]) && access(in->name[0], F_OK) != 0)
        return bad_argument("add one, such as dgx-a100:4", "%s is a model; on which cluster?",
                            in->name[0]);
    if (in->flag)
        return bad_argument("change the file, or name a model and a cluster",
                            "--%s makes a plan; %s is one already", in->flag, in->name[0]);
    weft_status status = plan_load(in->name[0], out);
    if (status == WEFT_BAD_INPUT)
        hint_at_import(in->name[0]);
    if (status && !weft_last_error()->hint)
        error_hint("name a plan file (docs/reference/plan-file.md), or a model and a cluster");
    if (!status)
        status = input_check(out->plan->model_name);
    if (!status)
        status = input_check(out->plan->cluster_name);
    if (!status)
        status = follow_layers(in, out->plan->dtype, out->model, out->cluster);
    if (!status && in->degrees.memory.has_margin) {
        out->plan->memory.has_margin = true;
        out->plan->memory.margin_percent = in->degrees.memory.margin_percent;
    }
    if (!status && in->has_software)
        out->plan->software = in->degrees.software;
    return status;
}

void plan_name(struct plan *plan, const struct plan_arguments *arguments)
{
    plan_set_names(plan, arguments->name[0], arguments->overrides, arguments->name[1]);
}

weft_status open_names(struct plan_arguments *arguments, struct opened_plan *out)
{
    weft_status status;
    TRY(model_open(arguments->name[0], arguments->overrides, &out->model));
    TRY(cluster_open(arguments->name[1], &out->cluster));
    TRY(follow_practice(arguments->arena, arguments->name[0], &arguments->overrides,
                        &arguments->degrees, out));
    TRY(follow_layers(arguments,
                      arguments->degrees.has_dtype ? arguments->degrees.dtype : out->model->dtype,
                      out->model, out->cluster));
done:
    return status;
}

static weft_status from_degrees(const struct plan_arguments *given, struct opened_plan *out)
{
    struct plan_arguments own = *given, *in = &own;
    weft_status status;
    TRY(open_names(in, out));
    if (schedule_is_any(in->degrees.schedule))
        TRY(plan_with_found_order(out->model, out->cluster, &in->degrees, NULL, &out->plan));
    else
        TRY(plan_from_degrees(out->model, out->cluster, &in->degrees, &out->plan));
    plan_name(out->plan, in);
    TRY(plan_check(out->plan));
done:
    return status;
}

weft_status plan_open(const struct plan_arguments *arguments, struct opened_plan *out)
{
    *out = (struct opened_plan){0};
    weft_status status =
        arguments->names == 1 ? open_file(arguments, out) : from_degrees(arguments, out);
    if (status)
        plan_close(out);
    return status;
}

int plan_command(struct plan_arguments *arguments,
                 int (*run)(const void *options, const struct plan *plan), const void *options)
{
    struct opened_plan opened;
    weft_status status = plan_open(arguments, &opened);
    int code = status ? cli_fail(status) : run(options, opened.plan);
    if (!status)
        plan_close(&opened);
    arena_free(arguments->arena);
    return code;
}

/* export.c - the table of formats, and the steps that all of them share: recognise, compare with the plan, write. */
#include "exchange/room.h"

#include <stdio.h>
#include <string.h>

#define FORMAT_ROW(name, summary, framework, write) {name, summary, framework, write},
static const struct format ALL[] = {FORMATS(FORMAT_ROW)};
#undef FORMAT_ROW

size_t format_count(void)
{
    return COUNT_OF(ALL);
}

const char *format_name(size_t index)
{
    return ALL[index].name;
}

const char *format_summary(size_t index)
{
    return ALL[index].summary;
}

/* Finds the format of a name and the row of its release; false, with an error, if there is none. */
static bool find_format(struct arena *scratch, const char *name, const struct format **format,
                        const struct target **target)
{
    const char *release = strchr(name, '@');
    const char *alone = release ? arena_printf(scratch, "%.*s", (int)(release - name), name) : name;
    int at = NAME_INDEX(alone, ALL);
    if (at < 0) {
        unknown_name("target", alone, ALL, sizeof ALL[0], COUNT_OF(ALL));
        return false;
    }
    *format = &ALL[at];
    *target = target_find(arena_printf(scratch, "%s%s", ALL[at].framework, release ? release : ""));
    return *target != NULL;
}

weft_status format_target(struct arena *scratch, const char *to, const struct target **out)
{
    const struct format *format;
    return find_format(scratch, to, &format, out) ? WEFT_OK : WEFT_BAD_INPUT;
}

static const struct source SOURCES[] = {
    {"megatron", "launch arguments of Megatron-LM", megatron_import},
    {"galvatron", "Galvatron's JSON: a strategy per layer", galvatron_import},
    {"aceso", "Aceso's JSON: degrees for every operator", aceso_import},
    {"deepspeed", "DeepSpeed's JSON configuration", deepspeed_import},
    {"bridge", "a dumped configuration of Megatron-Bridge or NeMo, in YAML", bridge_import},
    {"torchtitan", "torchtitan's TOML, its command line, or a function of Python",
     torchtitan_import},
};

const struct source *source_find(const char *name)
{
    int at = name ? NAME_INDEX(name, SOURCES) : 0;
    if (at >= 0)
        return &SOURCES[at];
    unknown_name("source", name, SOURCES, sizeof SOURCES[0], COUNT_OF(SOURCES));
    return NULL;
}

const char *source_at(size_t i, const char **summary)
{
    if (i >= COUNT_OF(SOURCES))
        return NULL;
    *summary = SOURCES[i].summary;
    return SOURCES[i].name;
}

/* ---- what writers share ---------------------------------------------------------------------- */

void note(struct export_job *job, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    add_text(job->keep, &job->out->notes, arena_vprintf(job->keep, fmt, list));
    va_end(list);
}

void decides(struct export_job *job, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    add_text(job->keep, &job->out->decided, arena_vprintf(job->keep, fmt, list));
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

const char *plan_title(struct arena *keep, const struct plan *plan)
{
    const char *model = plan->model_name ? plan->model_name : plan->model->name;
    return harmless(keep, arena_printf(keep, "%s on %s", model, cluster_title(keep, plan)));
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
                     "%s cannot express this plan of %s: %s%s", target->framework,
                     plan->model->name, differences->data[0], rest);
    arena_free(scratch);
    return status;
}

weft_status plan_export(struct arena *keep, const struct plan *plan, const char *to, bool nearest,
                        struct export_result *out)
{
    struct export_job job = {.keep = keep, .plan = plan, .nearest = nearest, .out = out};
    const struct format *format;
    weft_status status = WEFT_OK;
    *out = (struct export_result){0};
    if (!find_format(keep, to, &format, &job.target))
        return WEFT_BAD_INPUT;
    const struct target *target = job.target;
    TRY(target_has_model(target, plan->model));
    if (!target->layerwise) {
        TRY(degrees_of_plan(keep, plan, target, nearest, &job.found));
        out->written = job.found.plan;
        out->differences = job.found.differences;
    }
    if (out->differences.len && !nearest)
        TRY(refuse(plan, target, &out->differences));
    TRY(format->write(&job));
    if (out->differences.len && !nearest) /* differences that the writer found */
        TRY(refuse(plan, target, &out->differences));
done:
    if (status) {
        plan_free(out->written);
        out->written = NULL;
    }
    return status;
}

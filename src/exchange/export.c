/* export.c - the table of formats, and the steps that all of them share: recognise, compare with the plan, write. */
#include "exchange/room.h"

#include <stdio.h>
#include <string.h>

#include "search/search.h"

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

const char *cluster_title(struct arena *keep, const struct plan *plan)
{
    if (plan->cluster_name || plan->cluster->pools)
        return plan->cluster_name ? plan->cluster_name : plan->cluster->name;
    return arena_printf(keep, "%s:%lld", plan->cluster->name, (long long)plan->cluster->nodes);
}

/* Which machines the launcher has to number first: ", nodes 0 to 3 being dgx-h100, 4 to 7 dgx-a100". */
static const char *pools_title(struct arena *keep, const struct cluster *cluster)
{
    const char *text = "";
    for (int32_t p = 0; p < cluster->pools; p++) {
        int64_t first = cluster->pool[p].first_node;
        text =
            arena_printf(keep, "%s%s %lld to %lld%s %s", text, p ? "," : ", nodes",
                         (long long)first, (long long)(first + cluster->pool[p].cluster->nodes - 1),
                         p ? "" : " being", cluster->pool[p].name);
    }
    return text;
}

const char *plan_title(struct arena *keep, const struct plan *plan)
{
    const char *model = plan->model_name ? plan->model_name : plan->model->name;
    return harmless(keep, arena_printf(keep, "%s on %s%s", model, cluster_title(keep, plan),
                                       pools_title(keep, plan->cluster)));
}

#define WRITES_NEAREST " writes the nearest plan that it runs, and says what it costs"
static const char NEAREST_HINT[] = NEAREST_OPTION WRITES_NEAREST;

/* ---- exporting ------------------------------------------------------------------------------- */

/* "--nearest writes the nearest plan: --tp 2 --zero 1", or what else it writes. */
static const char *nearest_hint(struct arena *scratch, const struct target *target,
                                const struct plan *plan, const char *how)
{
    const char *to = arena_printf(scratch, "%s@%s", target->framework, target->release);
    struct texts differences = {0};
    struct plan *nearest;
    struct degrees d;
    if (plan_nearest(scratch, plan, to, &nearest, &differences)) {
        const char *why = arena_copy_text(scratch, weft_last_error()->message);
        error_clear();
        return why;
    }
    if (!nearest)
        return arena_printf(scratch, "%s" WRITES_NEAREST, how);
    const char *words = plan_degrees(nearest, &d) ? degrees_flags(scratch, plan->model, &d)
                                                  : mix_text(scratch, nearest);
    plan_free(nearest);
    return arena_printf(scratch, "%s" WRITES_NEAREST ": %s", how, words);
}

weft_status target_refuses(const struct plan *plan, const struct target *target,
                           const struct texts *differences, const char *how)
{
    size_t more = differences->len - 1;
    struct arena *scratch = arena_new();
    const char *rest = more ? arena_printf(scratch, " (and %zu more)", more) : "";
    const char *others = targets_that_run(scratch, plan);
    weft_status status = bad_argument(nearest_hint(scratch, target, plan, how),
                                      "%s cannot express this plan of %s: %s%s%s%s",
                                      target->framework, plan->model->name, differences->data[0],
                                      rest, others ? "; it runs with " : "", others ? others : "");
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
    TRY(target_recognise(keep, target, plan, nearest, &job.found));
    out->written = job.found.plan;
    out->differences = job.found.differences;
    if (out->differences.len && !nearest)
        TRY(bad_argument(NEAREST_HINT, "%s cannot express this plan of %s: %s", target->framework,
                         plan->model->name, out->differences.data[0]));
    target_decisions(keep, target, job.found.plan, &job.found.degrees, &out->decided);
    TRY(format->write(&job));
done:
    if (status) {
        plan_free(out->written);
        out->written = NULL;
    }
    return status;
}

weft_status export_write(const struct export_result *result, const char *path)
{
    struct arena *scratch = arena_new();
    const char *slash = strrchr(path, '/');
    weft_status status;
    TRY(file_write_text(path, result->text));
    if (result->beside)
        TRY(file_write_text(arena_printf(scratch, "%.*s%s", slash ? (int)(slash - path + 1) : 0,
                                         path, result->beside),
                            result->beside_text));
done:
    arena_free(scratch);
    return status;
}

weft_status write_weft(struct export_job *job)
{
    job->out->text = plan_write(job->keep, job->found.plan);
    return WEFT_OK;
}

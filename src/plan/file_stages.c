/* file_stages.c - `stages` of a plan file: a number, or what each stage holds and its devices.
 *
 *     stages:
 *       - {until: layers.17, devices: 16}      # or devices: 0-15
 *       - {devices: 16}
 *
 *   I1  `until` names the last module or operator of a stage; with pieces it is a list with one
 *       entry per piece. The last one may be left out, or all of them.
 *   I2  Devices are given for all stages or for none; stages take them in order, without gaps.
 *   I3  `in_flight` limits the micro-batches of a stage between their passes, and `micro_batches` says in how many it takes
 *       the batch; such a plan has the order that follows from 1f1b with these numbers (schedule/limited.c), which is
 *       written out like one from a file.
 */
#include "plan/file.h"

#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"

enum { MOST_STAGES = 1 << 20 };
/* Slots that are listed for limits, times the stages that are looked at for each: about a second. */
enum { MOST_LISTED = 1 << 27 };

/* ---- devices --------------------------------------------------------------------------------- */

/* 16, or 0-15 */
static weft_status read_devices(const struct doc *node, struct file_stage *stage)
{
    static const char FORM[] = "write how many, 16, or which, 0-15";
    int64_t last;
    const char *dash = strchr(node->text, '-');
    char first[24] = "";
    if (node->kind == DOC_NUMBER && parse_int(node->text, &stage->count) && stage->count >= 1)
        return WEFT_OK;
    if (dash && dash - node->text < (int)sizeof first)
        memcpy(first, node->text, (size_t)(dash - node->text));
    if (node->kind != DOC_TEXT || !parse_int(first, &stage->first_device) ||
        !parse_int(dash + 1, &last) || stage->first_device < 0)
        return doc_error(node, FORM, "'devices' is %s%.40s%s, expected a number or a range",
                         *node->text ? "'" : "", *node->text ? node->text : "not a scalar",
                         *node->text ? "'" : "");
    if (last < stage->first_device)
        return doc_error(node, FORM, "'devices' is '%.40s', which is empty", node->text);
    stage->count = last - stage->first_device + 1;
    return WEFT_OK;
}

static weft_status check_place(const struct file_stage *stage, int32_t at, int64_t next)
{
    long long first = (long long)stage->first_device;
    if (stage->first_device < 0 || stage->first_device == next)
        return WEFT_OK;
    weft_status status =
        stage->first_device < next
            ? doc_error(stage->devices, NULL,
                        "devices %lld-%lld of stage %d overlap those before (0-%lld)", first,
                        first + (long long)stage->count - 1, at, (long long)next - 1)
            : doc_error(stage->devices, NULL,
                        "devices %lld-%lld, before stage %d, belong to no stage", (long long)next,
                        first - 1, at);
    error_hint("start stage %d at device %lld", at, (long long)next);
    return status;
}

static weft_status check_devices(const struct plan_file *file, int64_t devices)
{
    int64_t next = 0;
    for (int32_t i = 0; i < file->stages; i++) {
        const struct file_stage *stage = &file->stage[i];
        if (!stage->devices != !file->stage[0].devices)
            return doc_error(stage->line, "give devices to all stages or to none",
                             "stage %d %s 'devices', stage 0 %s", i,
                             stage->devices ? "has" : "has no",
                             stage->devices ? "has none" : "has them");
        weft_status status = check_place(stage, i, next);
        if (status)
            return status;
        if (!checked_add(next, stage->count, &next))
            return doc_error(stage->devices, NULL, "the stages have more devices than any cluster");
    }
    if (!file->stage[0].devices || next == devices)
        return WEFT_OK;
    weft_status status =
        doc_error(file->root.stages, NULL, "the stages have %s, %s has %lld",
                  counted(next, "device").s, file->root.cluster, (long long)devices);
    error_hint("%s %s", counted(llabs(devices - next), "device").s,
               next < devices ? "left over" : "too many");
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status read_stage(const struct doc *node, struct file_stage *out)
{
    static const struct field FIELDS[] = {
        {"until", FIELD_DOC, offsetof(struct file_stage, until)},
        {"devices", FIELD_DOC, offsetof(struct file_stage, devices)},
        {"in_flight", FIELD_COUNT, offsetof(struct file_stage, in_flight)},
        {"micro_batches", FIELD_COUNT, offsetof(struct file_stage, micro_batches)},
    };
    *out = (struct file_stage){.line = node, .first_device = -1};
    weft_status status = doc_read(node, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, out);
    if (!status && out->devices)
        status = read_devices(out->devices, out);
    return status;
}

static weft_status read_number(struct plan_file *file)
{
    int64_t count;
    weft_status status = doc_scalar(file->root.stages, FIELD_COUNT, &count);
    if (!status && count > MOST_STAGES)
        return doc_error(file->root.stages, NULL, "%s, expected at most %d",
                         counted(count, "stage").s, MOST_STAGES);
    if (!status)
        file->stages = (int32_t)count;
    return status;
}

weft_status file_read_stages(struct plan_file *file, int64_t devices)
{
    const struct doc *list = file->root.stages;
    if (!list)
        return WEFT_OK;
    if (list->kind != DOC_LIST)
        return read_number(file);
    if (list->count < 1 || list->count > MOST_STAGES)
        return doc_error(list, "write one line for each stage: - {until: layers.17, devices: 16}",
                         "'stages' has %zu entries, expected 1 to %d", list->count, MOST_STAGES);
    struct file_stage *stage = ARENA_ARRAY(file->scratch, struct file_stage, list->count);
    int32_t at = 0;
    for (const struct doc *node = list->first; node; node = node->next) {
        weft_status status = read_stage(node, &stage[at++]);
        if (status)
            return status;
    }
    file->stage = stage;
    file->stages = at;
    return check_devices(file, devices);
}

bool file_stages_differ(const struct plan_file *file)
{
    for (int32_t i = 1; file->stage && i < file->stages; i++)
        if (file->stage[i].count != file->stage[0].count)
            return true;
    return false;
}

/* ---- how many are in flight, and at once (I3) ------------------------------------------------ */

static const struct file_stage *first_limited(const struct plan_file *file)
{
    for (int32_t i = 0; file->stage && i < file->stages; i++)
        if (file->stage[i].in_flight || file->stage[i].micro_batches)
            return &file->stage[i];
    return NULL;
}

/* By stage, of the plan's micro-batches those that it takes at once; NULL: none takes more than one. */
static weft_status read_joins(struct plan_file *file, const int32_t **out)
{
    int64_t all = plan_micro_batches(file->plan);
    int32_t *joins = ARENA_ARRAY(file->scratch, int32_t, (size_t)file->stages);
    for (int32_t i = 0; i < file->stages; i++) {
        int64_t own = file->stage[i].micro_batches ? file->stage[i].micro_batches : all;
        if (all % own)
            return doc_error(doc_get(file->stage[i].line, "micro_batches"),
                             "a number that divides them; 'step' is the smallest of all stages",
                             "stage %d takes the batch in %lld, the plan in %s", i, (long long)own,
                             counted(all, "micro-batch").s);
        joins[i] = (int32_t)(all / own);
        if (joins[i] > 1)
            *out = joins;
    }
    return WEFT_OK;
}

weft_status file_limit_stages(struct plan_file *file)
{
    const struct file_stage *limited = first_limited(file);
    struct plan *plan = file->plan;
    struct schedule *order;
    weft_status status;
    if (!limited)
        return WEFT_OK;
    const char *key = limited->in_flight ? "in_flight" : "micro_batches";
    const struct doc *where = doc_get(limited->line, key);
    if (plan->listed || plan_row(plan) != schedule_default(1, 1))
        return doc_error(
            where,
            "leave 'schedule', 'pieces' and 'order' out, or write an 'order' that holds no more",
            "'%s' %s the schedule %s, not %s", key, limited->in_flight ? "limits" : "is for",
            schedule_default(1, 1)->name, plan->schedule);
    if (plan->global_batch % plan->step_samples != 0) /* plan_check says it better */
        return WEFT_OK;
    double slots = (double)plan_micro_batches(plan) * plan->stages;
    if (slots > limit_of(LIMIT_SLOTS) || slots * plan->stages > MOST_LISTED)
        return doc_error(
            where, "larger micro-batches, or no limit", "'%s' with %s on %s: too many to list", key,
            counted(plan_micro_batches(plan), "micro-batch").s, counted(plan->stages, "stage").s);
    struct pipeline pipeline = {plan->stages, 1, (int32_t)plan_micro_batches(plan)};
    TRY(read_joins(file, &pipeline.joins));
    int64_t *limit = ARENA_ARRAY(file->scratch, int64_t, (size_t)plan->stages);
    for (int32_t i = 0; i < plan->stages; i++)
        limit[i] = file->stage[i].in_flight;
    TRY(file_error_at(where, schedule_limited(file->scratch, &pipeline, limit, NULL, &order)));
    plan_order_by(plan, order);
done:
    return status;
}

/* ---- cutting --------------------------------------------------------------------------------- */

static int32_t stage_of(const struct plan_file *file, int64_t part)
{
    return stage_with_part(file->plan->zigzag, file->stages, (int32_t)part);
}

/* The name that part k of the walk ends with, or NULL. */
static const struct doc *until_of(const struct plan_file *file, int64_t pieces, int64_t part)
{
    const struct doc *until = file->stage[stage_of(file, part)].until;
    if (!until || until->kind != DOC_LIST)
        return pieces == 1 ? until : NULL;
    const struct doc *node = until->first;
    for (int64_t i = part / file->stages; node && i > 0; i--)
        node = node->next;
    return node;
}

static weft_status check_until(const struct plan_file *file, int64_t pieces)
{
    for (int32_t i = 0; i < file->stages; i++) {
        const struct doc *until = file->stage[i].until;
        if (!until)
            continue;
        if (until->kind == DOC_LIST && (int64_t)until->count > pieces)
            return doc_error(until, NULL, "'until' names %zu ends, stage %d has %lld piece%s",
                             until->count, i, (long long)pieces, pieces == 1 ? "" : "s");
        if (until->kind != DOC_LIST && pieces > 1)
            return doc_error(until, "write a list: until: [layers.3, layers.11]",
                             "'until' names one end, stage %d has %lld pieces", i,
                             (long long)pieces);
    }
    return WEFT_OK;
}

/* The instance after the last one that `until` names. */
static weft_status find_end(const struct plan_file *file, const struct doc *until, int64_t *out)
{
    struct name_pattern pattern;
    const char *text;
    weft_status status;
    TRY(doc_scalar(until, FIELD_TEXT, &text));
    TRY(pattern_parse(file->scratch, until, text, &pattern));
    int64_t last = file->plan->instances - 1;
    while (last >= 0 && !paths_match(&file->paths, last, &pattern))
        last--;
    if (last < 0)
        return pattern_unknown(until, file->plan, &file->paths, &pattern);
    *out = last + 1;
done:
    return status;
}

static weft_status check_end(const struct plan_file *file, const struct doc *until, int64_t part,
                             int64_t parts, int64_t before, int64_t end)
{
    long long stage = (long long)stage_of(file, part);
    if (end <= before)
        return doc_error(until,
                         arena_printf(file->scratch, "it starts at %s: end it there or after",
                                      plan_path(file->scratch, file->plan, before)),
                         "stage %lld would hold no operators: '%.60s' ends before it starts", stage,
                         until->text);
    if (part + 1 == parts && end < file->plan->instances)
        return doc_error(until, "leave 'until' out of the last stage",
                         "the operators after '%.60s' belong to no stage", until->text);
    if (part + 1 < parts && end >= file->plan->instances)
        return doc_error(until,
                         arena_printf(file->scratch, "end stage %lld at %s or before", stage,
                                      plan_path(file->scratch, file->plan,
                                                file->plan->instances - (parts - part - 1) - 1)),
                         "nothing is left for the stages after '%.60s'", until->text);
    return WEFT_OK;
}

static weft_status read_cuts(const struct plan_file *file, int64_t parts, int64_t *cut)
{
    int64_t before = 0;
    weft_status status = WEFT_OK;
    for (int64_t part = 0; part < parts; part++) {
        const struct doc *until = until_of(file, parts / file->stages, part);
        int64_t end = file->plan->instances;
        if (!until && part + 1 < parts)
            return doc_error(file->stage[stage_of(file, part)].line,
                             "only the last stage may leave it out",
                             "stage %lld has no 'until', expected the last module it holds",
                             (long long)stage_of(file, part));
        if (!until)
            continue;
        TRY(find_end(file, until, &end));
        TRY(check_end(file, until, part, parts, before, end));
        if (part + 1 < parts)
            cut[part] = end;
        before = end;
    }
done:
    return status;
}

bool file_has_cuts(const struct plan_file *file)
{
    for (int32_t i = 0; file->stage && i < file->stages; i++)
        if (file->stage[i].until)
            return true;
    return false;
}

static weft_status map_cuts(struct plan_file *file, int64_t pieces)
{
    int64_t parts = file->stages * pieces, all = cluster_devices(file->plan->cluster);
    int64_t *cut = ARENA_ARRAY(file->scratch, int64_t, (size_t)parts);
    int64_t *devices = ARENA_ARRAY(file->scratch, int64_t, (size_t)file->stages);
    weft_status status;
    TRY(check_until(file, pieces));
    TRY(read_cuts(file, parts, cut));
    if (!file->stage[0].count && all % file->stages != 0)
        return doc_error(file->root.stages, "say how many devices each stage has",
                         "%s cannot share the %s of %s evenly", counted(file->stages, "stage").s,
                         counted(all, "device").s, file->root.cluster);
    for (int32_t i = 0; i < file->stages; i++)
        devices[i] = file->stage[i].count ? file->stage[i].count : all / file->stages;
    TRY(file_error_at(file->root.stages, plan_map(file->plan, file->stages, pieces, cut, devices)));
done:
    return status;
}

weft_status file_map_stages(struct plan_file *file, int64_t pieces)
{
    const struct doc *where = file->root.stages ? file->root.stages : file->doc;
    int32_t stages = file->stages ? file->stages : 1;
    if (stages * pieces > file->plan->instances)
        return doc_error(where,
                         arena_printf(file->scratch, "use at most %s",
                                      counted(file->plan->instances / pieces, "stage").s),
                         "%lld parts, but %s has only %s", (long long)(stages * pieces),
                         file->plan->model->name, counted(file->plan->instances, "operator").s);
    if (file_has_cuts(file))
        return map_cuts(file, pieces);
    if (file_stages_differ(file))
        return doc_error(where, "only stages of equal size are cut evenly",
                         "stages of different sizes need an 'until' each");
    return file_error_at(where, plan_map_even(file->plan, stages, pieces, NULL));
}

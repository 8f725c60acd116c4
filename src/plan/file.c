/* file.c - reads a plan file: model, cluster, batch, shorthand degrees; then stages and tree.
 *
 *     model: gpt3-13b                       # any name Weft takes; `options` changes it
 *     cluster: dgx-v100:4
 *     batch: {global: 1024, micro: 4}
 *     degrees: {tp: 8, pp: 2, sp: true, zero: 1, recompute: selective}
 *     stages: [{until: layers.17, devices: 16}, {devices: 16}]
 *     tree: {head: {shard: 0}}
 *
 * docs/reference/plan-file.md describes the format.
 *
 *   I1  Later keys of this list refine earlier ones: degrees make a whole plan, stages move its
 *       cuts and devices, the tree changes choices.
 *   I2  A plan that loads has passed plan_check; a fault is reported at the line that caused it.
 *   I3  Nothing in the plan points into the file: texts are copied to the plan's arena.
 */
#include "plan/file.h"

#include <ctype.h>
#include <string.h>

#include "plan/check.h"
#include "plan/room.h"
#include "schedule/schedule.h"

static const char FORMAT[] = "docs/reference/plan-file.md describes the format";

weft_status file_error_at(const struct doc *where, weft_status status)
{
    const weft_error *error = weft_last_error();
    if (status != WEFT_BAD_INPUT)
        return status;
    return doc_error(where, error->hint, "%s", error->message);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Adds the settings at the top of the file to those of `degrees`. */
static void complete_degrees(struct plan_file *file)
{
    const struct file_root *root = &file->root;
    struct degrees *d = &file->degrees;
    d->has_dtype = root->dtype >= 0;
    d->dtype = d->has_dtype ? (enum dtype)root->dtype : DTYPE_FP32;
    d->has_policy = root->policy >= 0;
    d->policy = d->has_policy ? (enum policy)root->policy : POLICY_FP32;
    d->memory.limit_bytes = root->memory_bytes;
    d->memory.has_margin = root->margin_percent >= 0;
    d->memory.margin_percent = d->memory.has_margin ? root->margin_percent : 0;
    d->micro_batch = file->batch.micro;
    d->global_batch = file->batch.step ? 0 : file->batch.global;
    if (root->schedule)
        d->schedule = root->schedule;
    if (root->pieces)
        d->pieces = root->pieces;
    d->optimizer = (enum update_rule)root->optimizer;
    if (root->replicate)
        d->replicate = root->replicate;
    if (root->optimizer_offload > 0)
        d->optimizer_offload = root->optimizer_offload;
    if (root->group)
        d->group = root->group;
    if (root->stage_run)
        d->stage_run = root->stage_run;
    if (root->segments)
        d->segments = root->segments;
}

static weft_status check_pp(const struct plan_file *file)
{
    int64_t pp = file->degrees.pp;
    if (!file->stages || !pp || pp == file->stages)
        return WEFT_OK;
    return doc_error(file->root.stages, "leave 'pp' out, or make them equal",
                     "%s written out, 'degrees' has pp: %lld", counted(file->stages, "stage").s,
                     (long long)pp);
}

static int64_t pieces_of(const struct degrees *d)
{
    int64_t pieces = d->pieces > d->segments ? d->pieces : d->segments;
    return pieces ? pieces : 1;
}

static const char *schedule_of(const struct degrees *d)
{
    if (d->schedule)
        return d->schedule;
    return schedule_default(d->pieces, d->segments)->name;
}

/* Paths are made only if something in the file names a node. */
static void find_paths(struct plan_file *file)
{
    if (file->root.tree || file->root.choices || file_has_cuts(file))
        file->paths = paths_of(file->scratch, file->plan);
}

static weft_status new_plan(struct plan_file *file, const struct opened_plan *opened)
{
    const struct degrees *d = &file->degrees;
    weft_status status =
        file_error_at(file->doc, plan_new(opened->model, opened->cluster, &file->plan));
    if (status)
        return status;
    struct plan *plan = file->plan;
    set_settings(plan, d);
    plan_name_schedule(plan, schedule_of(d));
    if (d->listed)
        plan_order_by(plan, d->listed);
    plan->global_batch = plan->step_samples = file->batch.global ? file->batch.global : 1;
    find_paths(file);
    return WEFT_OK;
}

/* Without degrees: everything is copied until the tree says otherwise. */
static weft_status plain_plan(struct plan_file *file, const struct opened_plan *opened)
{
    weft_status status;
    TRY(new_plan(file, opened));
    TRY(file_map_stages(file, pieces_of(&file->degrees)));
done:
    return status;
}

/* The line that an error of plan_from_degrees refers to. */
static const struct doc *degrees_line(const struct plan_file *file)
{
    const char *schedule = file->root.schedule;
    return schedule && !file->degrees.listed && !schedule_find(schedule)
               ? doc_get(file->doc, "schedule")
               : file->root.degrees;
}

static weft_status degrees_plan(struct plan_file *file, const struct opened_plan *opened)
{
    weft_status status;
    if (file->stages)
        file->degrees.pp = file->stages;
    TRY(file_error_at(degrees_line(file), plan_from_degrees(opened->model, opened->cluster,
                                                            &file->degrees, &file->plan)));
    find_paths(file);
    if (file_has_cuts(file))
        TRY(file_map_stages(file, file->plan->pieces));
done:
    return status;
}

/* ---- degrees on stages of different sizes ---------------------------------------------------- */

static void set_default(int64_t *value, int64_t usual)
{
    if (*value == 0)
        *value = usual;
}

static weft_status check_uneven(struct plan_file *file)
{
    const struct doc *degrees = file->root.degrees, *batch = file->root.batch;
    if (file->degrees.dp || file->degrees.ep > 1)
        return doc_error(doc_get(degrees, file->degrees.dp ? "dp" : "ep"), "leave it out",
                         "stages of different sizes have different data-parallel degrees");
    if (!file->batch.step)
        return doc_error(batch ? batch : degrees,
                         "write 'step': the samples that pass a stage together",
                         "stages of different sizes need a 'step' in 'batch'");
    return WEFT_OK;
}

static weft_status choose_stage(struct plan_file *file, int32_t stage)
{
    struct plan *plan = file->plan;
    struct degrees d = file->degrees;
    struct choice *choice;
    weft_status status;
    int64_t devices = plan->stage[stage].devices, tensor = d.tp * d.cp;
    if (devices % tensor != 0)
        return doc_error(file->stage[stage].line, NULL,
                         "stage %d has %s, which tp %lld * cp %lld does not divide", stage,
                         counted(devices, "device").s, (long long)d.tp, (long long)d.cp);
    d.dp = devices / tensor;
    TRY(file_error_at(file->root.degrees, lower_degrees(plan->model, &d, file->scratch, &choice)));
    for (int32_t part = stage; part < plan->parts; part = plan_next_part(plan, part)) {
        int64_t first = plan->part[part].first;
        for (int64_t i = first; i < first + plan->part[part].count; i++)
            TRY(plan_choose(plan, i, &choice[plan->instance[i].op]));
    }
done:
    return status;
}

static weft_status uneven_plan(struct plan_file *file, const struct opened_plan *opened)
{
    struct degrees *d = &file->degrees;
    int64_t *const ones[] = {&d->tp, &d->cp, &d->ep, &d->micro_batch, &d->global_batch};
    weft_status status;
    TRY(check_uneven(file));
    d->pp = file->stages;
    d->schedule = schedule_of(d);
    d->pieces = d->segments = pieces_of(d);
    for (size_t i = 0; i < COUNT_OF(ones); i++)
        set_default(ones[i], 1);
    TRY(new_plan(file, opened));
    if (d->tp > cluster_devices(opened->cluster) || d->cp > cluster_devices(opened->cluster))
        return doc_error(file->root.degrees, NULL, "tp %lld * cp %lld is more than %s has",
                         (long long)d->tp, (long long)d->cp, file->root.cluster);
    TRY(file_map_stages(file, d->pieces));
    for (int32_t i = 0; i < file->plan->stages; i++)
        TRY(choose_stage(file, i));
done:
    return status;
}

/* ---- from text to plan ----------------------------------------------------------------------- */

/* The lists of the file itself, or of the file that it names. */
static weft_status read_order(struct plan_file *file)
{
    struct degrees *d = &file->degrees;
    struct schedule *listed = NULL;
    weft_status status = WEFT_OK;
    if (file->root.order)
        TRY(schedule_from_doc(file->scratch, d->schedule ? d->schedule : "listed", file->doc,
                              &listed));
    else if (file->root.placement || file->root.joins)
        TRY(doc_error(file->root.placement ? file->root.placement : file->root.joins, NULL,
                      "'%s' without 'order'", file->root.placement ? "placement" : "joins"));
    else if (schedule_is_file(d->schedule))
        TRY(file_error_at(doc_get(file->doc, "schedule"),
                          schedule_load(file->scratch, file_beside(file, d->schedule), &listed)));
    if (listed && !d->schedule)
        d->schedule = listed->name;
    d->listed = listed;
    if (listed && d->pieces <= 1)
        d->pieces = listed->lists->pipeline.pieces;
done:
    return status;
}

static weft_status make_plan(struct plan_file *file, const struct opened_plan *opened)
{
    weft_status status;
    complete_degrees(file);
    TRY(read_order(file));
    if (!file->root.degrees)
        return plain_plan(file, opened);
    return file_stages_differ(file) ? uneven_plan(file, opened) : degrees_plan(file, opened);
done:
    return status;
}

static void set_names_and_batch(struct plan_file *file)
{
    struct plan *plan = file->plan;
    const char *options = NULL;
    file_options_text(file, &options); /* was read before, so it cannot fail */
    plan_set_names(plan, file->root.model, options, file->root.cluster);
    if (!file->batch.step)
        return;
    plan->step_samples = file->batch.step;
    plan->global_batch = file->batch.global ? file->batch.global : file->batch.step * plan->stages;
}

/* Once batch and parts are known. */
static weft_status defer_head(struct plan_file *file)
{
    return file_error_at(file->root.defer_head, plan_defer_head(file->plan, file->defer_head));
}

static const struct doc *fault_line(const struct plan_file *file, const struct fault *fault)
{
    const struct file_root *root = &file->root;
    const struct doc *line = NULL;
    if (fault->place == FAULT_BATCH)
        line = root->batch;
    if (fault->place == FAULT_SCHEDULE)
        line = root->order      ? root->order
               : root->schedule ? doc_get(file->doc, "schedule")
                                : doc_get(root->degrees, "schedule");
    if (fault->place == FAULT_STAGE)
        line = file->stage && fault->at < file->stages ? file->stage[fault->at].line : root->stages;
    if (fault->place == FAULT_INSTANCE)
        line = file->split_at[fault->at];
    if (fault->place == FAULT_BACK)
        line = file->back_at[fault->at];
    if (!line)
        line = root->degrees ? root->degrees : root->batch;
    return line ? line : file->doc;
}

static weft_status check(const struct plan_file *file)
{
    struct fault fault = {0};
    if (!plan_find_fault(file->scratch, file->plan, &fault))
        return WEFT_OK;
    return doc_error(fault_line(file, &fault), fault.hint, "%s", fault.message); /* I2 */
}

static weft_status read_plan(struct plan_file *file, struct opened_plan *out)
{
    weft_status status;
    TRY(file_read_root(file));
    TRY(file_read_batch(file));
    TRY(file_read_degrees(file));
    TRY(file_read_exchanges(file));
    TRY(file_read_software(file));
    TRY(file_open_both(file, out));
    TRY(file_read_stages(file, cluster_devices(out->cluster)));
    TRY(check_pp(file));
    TRY(make_plan(file, out));
    set_names_and_batch(file);
    TRY(file_limit_stages(file));
    file->split_at = ARENA_ARRAY(file->scratch, const struct doc *, (size_t)file->plan->instances);
    file->back_at = ARENA_ARRAY(file->scratch, const struct doc *, (size_t)file->plan->instances);
    TRY(file_apply_tree(file));
    if (file->root.propagate && plan_has_subsets(file->plan))
        TRY(doc_error(
            doc_get(file->doc, "propagate"), "write the splits, or leave 'devices' out",
            "splits do not propagate to and from operators on some of a stage's devices"));
    if (file->root.propagate)
        TRY(file_propagate(file));
    TRY(plan_join_stages(file->plan));
    TRY(defer_head(file));
    TRY(check(file));
done:
    return status;
}

/* JSON or YAML, by the first character. */
static weft_status parse_file(struct arena *scratch, const char *name, const char *text, size_t len,
                              struct plan_file *file)
{
    size_t blank = 0;
    while (blank < len && isspace((unsigned char)text[blank]))
        blank++;
    enum doc_format format = blank < len && text[blank] == '{' ? DOC_JSON : DOC_YAML;
    struct doc *doc = NULL;
    *file = (struct plan_file){.scratch = scratch, .name = name};
    weft_status status = doc_parse(scratch, name, text, len, format, &doc);
    file->doc = doc;
    return status;
}

static weft_status close_failed(weft_status status, struct opened_plan *opened)
{
    if (status)
        plan_close(opened);
    if (status == WEFT_BAD_INPUT && !weft_last_error()->hint)
        error_hint("%s", FORMAT);
    return status;
}

weft_status plan_parse(struct arena *scratch, const char *name, const char *text, size_t len,
                       struct opened_plan *out)
{
    struct plan_file file;
    *out = (struct opened_plan){0};
    weft_status status = parse_file(scratch, name, text, len, &file);
    if (!status)
        status = read_plan(&file, out);
    out->plan = file.plan;
    return close_failed(status, out);
}

/* ---- questions: plan files whose degrees are those that a planner must keep ------------------ */

static weft_status read_question(struct plan_file *file, struct plan_question *out)
{
    weft_status status;
    TRY(file_read_root(file));
    const struct doc *const written[] = {file->root.stages, file->root.tree, file->root.choices};
    for (size_t i = 0; i < COUNT_OF(written); i++)
        if (written[i])
            return doc_error(written[i], "leave it out; 'degrees' says what stays as it is",
                             "a question has no '%s': that is for the planner to find",
                             written[i]->key);
    TRY(file_read_batch(file));
    TRY(file_read_degrees(file));
    TRY(file_read_exchanges(file));
    TRY(file_read_software(file));
    TRY(file_open_both(file, &out->opened));
    complete_degrees(file);
    TRY(file_options_text(file, &out->model_options));
done:
    out->pins = file->degrees;
    out->pins.has_shard = file->root.degrees && doc_get(file->root.degrees, "zero");
    out->pins.has_recompute = file->root.degrees && doc_get(file->root.degrees, "recompute");
    out->model_name = file->root.model;
    out->cluster_name = file->root.cluster;
    return status;
}

weft_status plan_question(struct arena *keep, const char *name, const char *text, size_t len,
                          struct plan_question *out)
{
    struct plan_file file;
    *out = (struct plan_question){0};
    weft_status status = parse_file(keep, name, text, len, &file);
    if (!status)
        status = read_question(&file, out);
    return close_failed(status, &out->opened);
}

weft_status plan_load(const char *path, struct opened_plan *out)
{
    struct arena *scratch = arena_new();
    char *text;
    size_t len;
    *out = (struct opened_plan){0};
    weft_status status = file_read(scratch, path, DOC_MAX_BYTES, &text, &len);
    if (!status)
        status = plan_parse(scratch, path, text, len, out);
    arena_free(scratch);
    return status;
}

void plan_close(struct opened_plan *opened)
{
    plan_free(opened->plan);
    if (opened->cluster)
        cluster_free(opened->cluster);
    model_free(opened->model);
    *opened = (struct opened_plan){0};
}

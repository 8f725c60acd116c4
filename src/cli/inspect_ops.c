/* inspect_ops.c - every operator of a model: its dims, its work, and its time on a device.
 *
 *   backward = input gradient + weight gradient                                             (1)
 */
#include <stdio.h>
#include <string.h>

#include "cli/inspect.h"

/* The time of an operator on a device, all copies together; the source of the times is that of the forward pass. */
struct op_time {
    double ns[PHASE_COUNT];
    struct kernel_cost forward;
};

/* The same for the whole model, and how much of the forward pass came from each source. */
struct model_time {
    double forward_ns, backward_ns;
    double ns_from[FROM_FORMULA + 1];
};

static const char *folded_path(struct arena *keep, const struct model *model, int32_t module)
{
    const struct module *m = &model->module[module];
    if (m->parent < 0)
        return "";
    const char *above = folded_path(keep, model, m->parent);
    if (!module_is_named(m))
        return above;
    return arena_printf(keep, "%s%s.", above, module_label(keep, model, module));
}

static const char *op_name(const struct inspection *in, const struct op *op)
{
    const char *above = folded_path(in->arena, in->model, op->module);
    return arena_printf(in->arena, "%s%s", above, op->name);
}

static struct op_time time_of(const struct inspection *in, const struct op *op)
{
    struct op_time time = {0};
    int64_t size[OP_MAX_DIMS];
    op_full_size(op, in->microbatch, size);
    double copies = (double)op_copies(in->model, op);
    enum dtype dtype = op_dtype(in->model, (int32_t)(op - in->model->op), in->dtype);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct work work = op_work(op, size, dtype, (enum phase)phase);
        struct kernel_cost cost = cost_of(in->cost, &work);
        time.ns[phase] = (double)cost.ns * copies;
        if (phase == PHASE_FORWARD)
            time.forward = cost;
    }
    return time;
}

static double backward_ns(const struct op_time *time)
{
    return time->ns[PHASE_BACKWARD_INPUT] + time->ns[PHASE_BACKWARD_WEIGHT]; /* (1) */
}

static struct model_time all_times(const struct inspection *in)
{
    struct model_time all = {0};
    for (int32_t i = 0; i < in->model->ops; i++) {
        struct op_time time = time_of(in, &in->model->op[i]);
        all.forward_ns += time.ns[PHASE_FORWARD];
        all.backward_ns += backward_ns(&time);
        all.ns_from[time.forward.provenance] += time.ns[PHASE_FORWARD];
    }
    return all;
}

/* Such as "seq 2048 in 5120 out 15360"; dims of size 1 are left out. */
static const char *dims_text(struct arena *keep, const struct op *op)
{
    const char *text = "";
    for (int i = 0; i < op_dims(op->kind); i++)
        if (op->size[i] > 1)
            text = arena_printf(keep, "%s%s%s %lld", text, *text ? " " : "",
                                dim_name(OP_KINDS[op->kind].dims[i].dim), (long long)op->size[i]);
    return text;
}

/* ---- for people ------------------------------------------------------------------------------ */

enum { COLUMNS = 5 };

static int depth_of(const struct model *model, int32_t module)
{
    int depth = 0;
    for (; model->module[module].parent >= 0; module = model->module[module].parent)
        depth += module_is_named(&model->module[module]);
    return depth;
}

static bool is_within(const struct model *model, int32_t inner, int32_t outer)
{
    while (inner >= 0 && inner != outer)
        inner = model->module[inner].parent;
    return inner == outer;
}

/* A line for each module that begins between one operator and the next. */
static void enter_modules(const struct inspection *in, struct table *table, int32_t from,
                          int32_t module)
{
    const struct module *m = &in->model->module[module];
    if (is_within(in->model, from, module))
        return;
    enter_modules(in, table, from, m->parent);
    if (!module_is_named(m))
        return;
    const char *copies = "";
    int64_t count = module_series(in->model, module).count;
    if (count > 1)
        copies = arena_printf(in->arena, " (x%lld)", (long long)count);
    table_cell(table, "%*s%s%s", 2 * (depth_of(in->model, module) - 1), "",
               module_label(in->arena, in->model, module), copies);
    for (int i = 1; i < COLUMNS; i++)
        table_cell(table, "%s", "");
}

/* The first two cells of an operator's row, indented below its modules. */
static void name_cells(const struct inspection *in, struct table *table, int32_t index)
{
    const struct op *op = &in->model->op[index];
    enter_modules(in, table, index ? op[-1].module : 0, op->module);
    table_cell(table, "%*s%s", 2 * depth_of(in->model, op->module), "", op->name);
    table_cell(table, "%s", OP_KINDS[op->kind].name);
}

static void print_work(const struct inspection *in, FILE *out)
{
    static const char *const HEADERS[COLUMNS] = {"operator", "kind", "dims", "parameters",
                                                 "forward"};
    static const enum align ALIGNS[COLUMNS] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT,
                                               ALIGN_RIGHT};
    struct table *table = table_new(in->arena, COLUMNS, HEADERS, ALIGNS);
    for (int32_t i = 0; i < in->model->ops; i++) {
        const struct op *op = &in->model->op[i];
        struct totals totals = op_totals(in->model, op, in->dtype);
        name_cells(in, table, i);
        table_cell(table, "%s", dims_text(in->arena, op));
        table_cell(table, "%s", show_count(totals.parameters).s);
        table_cell(table, "%s", show_flops(totals.flops[PHASE_FORWARD]).s);
    }
    table_print(table, out);
}

static void print_shares(const struct model_time *all, FILE *out)
{
    fprintf(out, "forward times:");
    for (int p = 0; p <= FROM_FORMULA; p++)
        if (all->ns_from[p] > 0)
            fprintf(out, " %.0f %% %s", 100 * all->ns_from[p] / all->forward_ns,
                    provenance_name((enum provenance)p));
    fputc('\n', out);
}

static void print_times(const struct inspection *in, FILE *out)
{
    static const char *const HEADERS[COLUMNS] = {"operator", "kind", "forward", "backward",
                                                 "source"};
    static const enum align ALIGNS[COLUMNS] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT,
                                               ALIGN_LEFT};
    struct table *table = table_new(in->arena, COLUMNS, HEADERS, ALIGNS);
    struct model_time all = all_times(in);
    for (int32_t i = 0; i < in->model->ops; i++) {
        struct op_time time = time_of(in, &in->model->op[i]);
        name_cells(in, table, i);
        table_cell(table, "%s", show_duration(time.ns[PHASE_FORWARD]).s);
        table_cell(table, "%s", show_duration(backward_ns(&time)).s);
        table_cell(table, "%s", provenance_name(time.forward.provenance));
    }
    table_rule(table);
    table_cell(table, "total, micro-batch %lld on %s", (long long)in->microbatch, in->device);
    table_cell(table, "%s", "");
    table_cell(table, "%s", show_duration(all.forward_ns).s);
    table_cell(table, "%s", show_duration(all.backward_ns).s);
    table_cell(table, "%s", "");
    table_print(table, out);
    print_shares(&all, out);
}

void ops_print(const struct inspection *in, FILE *out)
{
    if (in->cost)
        print_times(in, out);
    else
        print_work(in, out);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static json_t *dims_json(const struct op *op)
{
    json_t *dims = json_object();
    for (int i = 0; i < op_dims(op->kind); i++)
        json_object_set_new(dims, dim_name(OP_KINDS[op->kind].dims[i].dim),
                            json_integer((json_int_t)op->size[i]));
    return dims;
}

static void add_times(const struct inspection *in, const struct op *op, json_t *json)
{
    struct op_time time = time_of(in, op);
    json_object_set_new(json, "forward_s", json_real(time.ns[PHASE_FORWARD] / 1e9));
    json_object_set_new(json, "backward_s", json_real(backward_ns(&time) / 1e9));
    json_object_set_new(json, "provenance", json_string(provenance_name(time.forward.provenance)));
    const char *source = time.forward.source;
    json_object_set_new(json, "time_source", source ? json_text(source) : json_null());
}

json_t *ops_json(const struct inspection *in)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < in->model->ops; i++) {
        const struct op *op = &in->model->op[i];
        struct totals totals = op_totals(in->model, op, in->dtype);
        json_t *json =
            json_pack("{s:o, s:s, s:I, s:o, s:o, s:o, s:o}", "path", json_text(op_name(in, op)),
                      "kind", OP_KINDS[op->kind].name, "copies", (json_int_t)totals.ops, "dims",
                      dims_json(op), "parameters", json_whole(totals.parameters),
                      "flops_per_sample", json_whole(totals.flops[PHASE_FORWARD]),
                      "kept_bytes_per_sample", json_whole(totals.kept_bytes));
        if (in->cost)
            add_times(in, op, json);
        json_array_append_new(list, json);
    }
    return list;
}

json_t *times_json(const struct inspection *in)
{
    struct model_time all = all_times(in);
    json_t *from = json_object();
    for (int p = 0; p <= FROM_FORMULA; p++)
        if (all.ns_from[p] > 0)
            json_object_set_new(from, provenance_name((enum provenance)p),
                                json_real(all.ns_from[p] / 1e9));
    return json_pack("{s:o, s:I, s:f, s:f, s:o}", "device", json_text(in->device), "microbatch",
                     (json_int_t)in->microbatch, "forward_s", all.forward_ns / 1e9, "backward_s",
                     all.backward_ns / 1e9, "forward_s_by_provenance", from);
}

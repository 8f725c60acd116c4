/* inspect_tree.c - a model's modules and operators as a tree, down to a given depth. */
#include <stdio.h>
#include <string.h>

#include "cli/inspect.h"

enum {
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_PARAMETERS,
    COLUMN_PARAMETERS_SHARE,
    COLUMN_FLOPS,
    COLUMN_FLOPS_SHARE,
    COLUMN_KEPT,
    COLUMN_KEPT_SHARE,
    COLUMN_COUNT
};

static const char *const HEADERS[COLUMN_COUNT] = {"module",  "kind", "parameters",       "",
                                                  "forward", "",     "kept activations", ""};
static const enum align ALIGNS[COLUMN_COUNT] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                                ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};

/* One node of the tree: a module, or an operator as a leaf. */
struct tree_node {
    const struct module *module; /* NULL for an operator */
    int32_t index;               /* of the module or the operator */
    const char *name, *kind;
    int64_t copies;
    struct totals totals;
};

const char *module_label(struct arena *keep, const struct model *model, int32_t module)
{
    const struct module *m = &model->module[module];
    struct series series = module_series(model, module);
    long long first = (long long)series.first, stride = (long long)series.stride;
    long long last = first + (long long)(series.count - 1) * stride;
    if (!m->indexed)
        return m->name;
    if (series.count == 1)
        return arena_printf(keep, "%s.%lld", m->name, first);
    if (stride == 1)
        return arena_printf(keep, "%s.%lld-%lld", m->name, first, last);
    return arena_printf(keep, "%s.%lld-%lld/%lld", m->name, first, last, stride);
}

/* The named module directly below `above` that contains the operator, or -1 if there is none. */
static int32_t child_towards(const struct model *model, int32_t above, const struct op *op)
{
    int32_t child = -1;
    for (int32_t at = op->module; at != above; at = model->module[at].parent)
        if (module_is_named(&model->module[at]))
            child = at;
    return child;
}

/* The node directly below module `above` that begins with operator `first`; moves `first` past the node. */
static struct tree_node next_node(const struct inspection *in, int32_t above, int32_t *first)
{
    const struct model *model = in->model;
    const struct op *op = &model->op[*first];
    int32_t child = child_towards(model, above, op);
    if (child < 0) {
        struct totals totals = op_totals(model, op, in->dtype);
        return (struct tree_node){NULL, (*first)++, op->name, OP_KINDS[op->kind].name, 1, totals};
    }
    const struct module *module = &model->module[child];
    *first = module->first_op + module->ops;
    return (struct tree_node){module,
                              child,
                              module_label(in->arena, model, child),
                              "",
                              module_series(model, child).count,
                              module_totals(model, child, in->dtype)};
}

/* ---- for people ------------------------------------------------------------------------------ */

static void share_cell(struct table *table, double part, double whole)
{
    if (part > 0)
        table_cell(table, "%.1f %%", 100 * part / whole);
    else
        table_cell(table, "%s", "");
}

static void number_cells(struct table *table, const struct totals *part, const struct totals *all)
{
    table_cell(table, "%s", show_count(part->parameters).s);
    share_cell(table, part->parameters, all->parameters);
    table_cell(table, "%s", show_flops(part->flops[PHASE_FORWARD]).s);
    share_cell(table, part->flops[PHASE_FORWARD], all->flops[PHASE_FORWARD]);
    table_cell(table, "%s", show_bytes(part->kept_bytes).s);
    share_cell(table, part->kept_bytes, all->kept_bytes);
}

static void add_rows(const struct inspection *in, struct table *table, int32_t above, int64_t level,
                     const struct totals *all)
{
    const struct module *module = &in->model->module[above];
    for (int32_t op = module->first_op; op < module->first_op + module->ops;) {
        struct tree_node node = next_node(in, above, &op);
        const char *copies = "";
        if (node.copies > 1)
            copies = arena_printf(in->arena, " (x%lld)", (long long)node.copies);
        table_cell(table, "%*s%s%s", (int)(2 * level), "", node.name, copies);
        table_cell(table, "%s", node.kind);
        number_cells(table, &node.totals, all);
        if (node.module && level + 1 < in->depth)
            add_rows(in, table, node.index, level + 1, all);
    }
}

void tree_print(const struct inspection *in, FILE *out)
{
    struct table *table = table_new(in->arena, COLUMN_COUNT, HEADERS, ALIGNS);
    struct totals all = model_totals(in->model, in->dtype);
    add_rows(in, table, 0, 0, &all);
    table_rule(table);
    table_cell(table, "total per sample");
    table_cell(table, "%s", "");
    number_cells(table, &all, &all);
    table_print(table, out);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static json_t *children_json(const struct inspection *in, int32_t above, int64_t level)
{
    json_t *children = json_array();
    const struct module *module = &in->model->module[above];
    for (int32_t op = module->first_op; op < module->first_op + module->ops;) {
        struct tree_node node = next_node(in, above, &op);
        json_t *json = json_pack(
            "{s:o, s:s, s:I, s:I, s:o, s:o, s:o}", "name", json_text(node.name), "kind",
            node.module ? "module" : node.kind, "copies", (json_int_t)node.copies, "operators",
            (json_int_t)node.totals.ops, "parameters", json_whole(node.totals.parameters),
            "flops_per_sample", json_whole(node.totals.flops[PHASE_FORWARD]),
            "kept_bytes_per_sample", json_whole(node.totals.kept_bytes));
        if (node.module && level + 1 < in->depth)
            json_object_set_new(json, "children", children_json(in, node.index, level + 1));
        json_array_append_new(children, json);
    }
    return children;
}

json_t *tree_json(const struct inspection *in)
{
    return children_json(in, 0, 0);
}

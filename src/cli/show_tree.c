/* show_tree.c - how every operator is split over its stage, with one line for equal choices of
 * neighbouring layers, and on request the layout of each tensor.
 *
 *   layout of an operand, one letter for each part of the split (model.h, I2):
 *     S  the operand has the dim, and is split
 *     P  the operand is an output that lacks a split reduction dim, and is a partial sum
 *     B  the operand lacks the dim, or the part is a copy; it is the same on all these devices
 */
#include <stdio.h>
#include <string.h>

#include "cli/show.h"
#include "compile/compile.h"

/* Such as "SB"; a dash for an operator on one device. */
static const char *layout(struct arena *keep, const struct op *op, const struct operand *operand,
                          const struct split *split)
{
    static const char LETTERS[] = {[PLACE_SPLIT] = 'S', [PLACE_COPY] = 'B', [PLACE_PARTIAL] = 'P'};
    char *text = ARENA_ARRAY(keep, char, MAX_SPLIT_PARTS + 1);
    for (int32_t i = 0; i < split->parts; i++)
        text[i] = LETTERS[operand_place(op, operand, split->part[i].dim, FLOW_FORWARD)];
    return split->parts ? text : "-";
}

static const char *input_layouts(struct arena *keep, const struct op *op, const struct split *split)
{
    const char *text = "";
    for (int32_t i = 0; i < op->inputs; i++)
        text = arena_printf(keep, "%s%s%s", text, i ? " " : "",
                            layout(keep, op, &op->input[i], split));
    return text;
}

static const char *weight_layouts(struct arena *keep, const struct op *op,
                                  const struct split *split)
{
    const char *text = "";
    for (int32_t i = 0; i < op->weights; i++)
        text = arena_printf(keep, "%s%s%s", text, i ? " " : "",
                            layout(keep, op, &op->weight[i].operand, split));
    return text;
}

/* Such as "recompute, shard 1". */
static const char *extras(struct arena *keep, const struct op *op, const struct choice *choice)
{
    const char *text = choice->saved     ? "recompute but saved"
                       : choice->discard ? "recompute, discard"
                                         : (choice->recompute ? "recompute" : "");
    if (choice->shard && op->weights)
        text = arena_printf(keep, "%s%sshard %d", text, *text ? ", " : "", choice->shard);
    if (choice->offload)
        text = arena_printf(keep, "%s%s%s", text, *text ? ", " : "",
                            choice->offload == OFFLOAD_KEPT ? "offload kept" : "offload");
    if (choice->parts)
        text = arena_printf(keep, "%s%smemory in parts", text, *text ? ", " : "");
    if (choice->own_back)
        text = arena_printf(keep, "%s%sbackward %s", text, *text ? ", " : "",
                            split_text(keep, &choice->back));
    return text;
}

static const struct op *op_of(const struct plan *plan, const struct plan_run *run)
{
    return &plan->model->op[plan->instance[run->first].op];
}

static void print_row(const struct showing *s, struct table *table, const struct plan_run *run)
{
    const struct choice *choice = &s->plan->choice[run->choice];
    const struct op *op = op_of(s->plan, run);
    table_cell(table, "%s", run->path);
    table_cell(table, "%s", split_text(s->arena, &choice->split));
    table_cell(table, "%s", extras(s->arena, op, choice));
    if (!s->layouts) {
        table_cell(table, "%s", OP_KINDS[op->kind].name);
        return;
    }
    table_cell(table, "%s", input_layouts(s->arena, op, &choice->split));
    table_cell(table, "%s", weight_layouts(s->arena, op, &choice->split));
    table_cell(table, "%s", layout(s->arena, op, &op->output, &choice->split));
}

void choices_print(const struct showing *s, FILE *out)
{
    enum { PLAIN_COLUMNS = 4, LAYOUT_COLUMNS = 6 };
    static const char *const PLAIN[PLAIN_COLUMNS] = {"operator", "split", "also", "kind"};
    static const char *const LAYOUTS[LAYOUT_COLUMNS] = {"operator", "split",   "also",
                                                        "inputs",   "weights", "output"};
    static const enum align ALIGNS[LAYOUT_COLUMNS] = {ALIGN_LEFT};
    struct table *table = table_new(s->arena, s->layouts ? LAYOUT_COLUMNS : PLAIN_COLUMNS,
                                    s->layouts ? LAYOUTS : PLAIN, ALIGNS);
    struct plan_runs runs = {0};
    plan_fold(s->arena, s->plan, &runs);
    table_rule(table);
    for (size_t i = 0; i < runs.len; i++)
        print_row(s, table, &runs.data[i]);
    table_print(table, out);
    if (s->layouts)
        fputs("a letter for each part of the split: S split, B the same, P partial sums\n", out);
}

json_t *choices_json(const struct showing *s)
{
    struct plan_runs runs = {0};
    json_t *list = json_array();
    plan_fold(s->arena, s->plan, &runs);
    for (size_t i = 0; i < runs.len; i++) {
        const struct choice *choice = &s->plan->choice[runs.data[i].choice];
        const struct op *op = op_of(s->plan, &runs.data[i]);
        json_t *run =
            json_pack("{s:o, s:s, s:I, s:s, s:b, s:i, s:b}", "path", json_text(runs.data[i].path),
                      "kind", OP_KINDS[op->kind].name, "copies", (json_int_t)runs.data[i].count,
                      "split", split_text(s->arena, &choice->split), "recompute", choice->recompute,
                      "shard", choice->shard, "offload", choice->offload != OFFLOAD_NOTHING);
        if (choice->offload == OFFLOAD_KEPT)
            json_object_set_new(run, "offload_kept", json_true());
        if (choice->saved || choice->discard)
            json_object_set_new(run, choice_recompute_text(choice), json_true());
        if (choice->parts)
            json_object_set_new(run, "memory", json_string("parts"));
        if (choice->own_back)
            json_object_set_new(run, "backward", json_string(split_text(s->arena, &choice->back)));
        if (s->layouts)
            json_object_set_new(run, "layouts",
                                json_pack("{s:s, s:s, s:s}", "inputs",
                                          input_layouts(s->arena, op, &choice->split), "weights",
                                          weight_layouts(s->arena, op, &choice->split), "output",
                                          layout(s->arena, op, &op->output, &choice->split)));
        json_array_append_new(list, run);
    }
    return list;
}

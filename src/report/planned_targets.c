/* planned_targets.c - the best plan for each framework, as a table and as JSON (planned.h). */
#include "report/report.h"

void for_targets_print(struct arena *scratch, const struct for_targets *rows, int64_t iteration_ns,
                       FILE *out)
{
    static const char *const HEADERS[] = {"for", "iteration", "slower", "its best plan"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    if (!rows->len)
        return;
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < rows->len; i++) {
        const struct for_target *row = &rows->data[i];
        table_cell(table, "%s@%s", row->target->framework, row->target->release);
        if (!row->text) {
            table_cell(table, "-");
            table_cell(table, "-");
            table_cell(table, "%s", row->instead);
            continue;
        }
        table_cell(table, "%s", show_seconds((double)row->iteration_ns).s);
        table_cell(table, "%s",
                   show_change((double)row->iteration_ns / (double)iteration_ns - 1).s);
        table_cell(table, "%s", row->runs_it ? "this one" : row->text);
    }
    fputc('\n', out);
    table_print(table, out);
}

json_t *for_targets_json(const struct for_targets *rows)
{
    json_t *list = json_array();
    for (size_t i = 0; i < rows->len; i++) {
        const struct for_target *row = &rows->data[i];
        json_t *json = json_pack("{s:s, s:s, s:b}", "framework", row->target->framework, "release",
                                 row->target->release, "runs_it", row->runs_it);
        json_object_set_new(json, "plan", row->text ? json_text(row->text) : json_null());
        json_object_set_new(json, "iteration_s",
                            row->text ? json_real((double)row->iteration_ns / 1e9) : json_null());
        json_object_set_new(json, "instead", row->instead ? json_text(row->instead) : json_null());
        json_array_append_new(list, json);
    }
    return list;
}

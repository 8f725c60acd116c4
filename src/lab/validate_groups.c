/* validate_groups.c - `weft validate --groups`: errors by model and machine, of the groups that nothing was fitted to, and by
 * machine: a device whose parameters are off shows as a bias of all its runs.
 *
 * A prediction for a new model or a new device is as good as that for a group of runs, all of one model on one kind of machine, none
 * of which is in the half to fit. Rows that are divided one by one leave most groups on both sides.
 *
 *   I1  A group is unseen if the half to fit has no row of it that is predicted and timed; nothing else decides that.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/validate.h"

static void machine_words(const struct published *row, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)strcspn(row->cluster, ":"), row->cluster);
}

static bool same_group(const struct group_error *group, const struct published *row)
{
    char machine[GROUP_WORDS];
    machine_words(row, machine, sizeof machine);
    return group->dataset == row->dataset && strcmp(group->model, row->model) == 0 &&
           strcmp(group->machine, machine) == 0;
}

static struct group_error *group_of(struct arena *keep, const struct published *row,
                                    struct group_errors *groups)
{
    for (size_t i = 0; i < groups->len; i++)
        if (same_group(&groups->data[i], row))
            return &groups->data[i];
    struct group_error group = {
        .dataset = row->dataset, .model = row->model, .kind = row->like.kind};
    machine_words(row, group.machine, sizeof group.machine);
    array_push(keep, groups, group);
    return &groups->data[groups->len - 1];
}

void validation_groups(const struct validation *v, struct group_errors *out)
{
    double error;
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (row->dataset->functional_tests || !published_error(row, MEASURE_TIME, &error))
            continue;
        struct group_error *group = group_of(v->arena, row, out);
        group->rows[row->half]++;
        group->error[row->half] += fabs(error);
        group->bias += error;
    }
}

static void add_group(const struct group_error *group, struct group_error *sum)
{
    sum->groups++;
    for (int h = 0; h < HALF_COUNT; h++) {
        sum->rows[h] += group->rows[h];
        sum->error[h] += group->error[h];
    }
    sum->bias += group->bias;
}

struct group_error groups_unseen(const struct group_errors *groups, const struct dataset *dataset,
                                 const char *kind)
{
    struct group_error sum = {.dataset = dataset, .kind = kind};
    for (size_t i = 0; i < groups->len; i++) {
        const struct group_error *group = &groups->data[i];
        if (group->dataset != dataset || group->rows[HALF_FIT] ||
            (kind && strcmp(kind, group->kind) != 0))
            continue;
        add_group(group, &sum);
    }
    return sum;
}

void groups_by_machine(struct arena *keep, const struct group_errors *groups,
                       struct group_errors *out)
{
    for (size_t i = 0; i < groups->len; i++) {
        const struct group_error *group = &groups->data[i];
        struct group_error empty = {.dataset = group->dataset};
        size_t at = 0;
        while (at < out->len && (out->data[at].dataset != group->dataset ||
                                 strcmp(out->data[at].machine, group->machine) != 0))
            at++;
        memcpy(empty.machine, group->machine, sizeof empty.machine);
        if (at == out->len)
            array_push(keep, out, empty);
        add_group(group, &out->data[at]);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static void percent(struct table *table, int64_t rows, double sum, const char *sign)
{
    double mean = rows ? sum * 100 / (double)rows : 0;
    if (rows)
        table_cell(table, "%s%.1f", mean > 0 ? sign : "", mean);
    else
        table_cell(table, "%s", "");
}

static void print_table(const struct validation *v, const struct group_errors *groups)
{
    static const char *const HEADERS[] = {"dataset", "model",    "kind", "machine", "fit",
                                          "%",       "held out", "%",    "bias %"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_LEFT,
                                        ALIGN_LEFT,  ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    for (size_t i = 0; i < groups->len; i++) {
        const struct group_error *g = &groups->data[i];
        table_cell(table, "%s", g->dataset->name);
        table_cell(table, "%s", g->model);
        table_cell(table, "%s", g->kind);
        table_cell(table, "%s", g->machine);
        for (int h = 0; h < HALF_COUNT; h++) {
            table_cell(table, "%lld", (long long)g->rows[h]);
            percent(table, g->rows[h], g->error[h], "");
        }
        percent(table, g->rows[HALF_FIT] + g->rows[HALF_HELD_OUT], g->bias, "+");
    }
    putchar('\n');
    table_print(table, stdout);
}

static void print_machines(const struct validation *v, const struct group_errors *groups)
{
    static const char *const HEADERS[] = {"dataset", "machine", "runs", "%", "bias %"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct group_errors machines = {0};
    groups_by_machine(v->arena, groups, &machines);
    for (size_t i = 0; i < machines.len; i++) {
        const struct group_error *m = &machines.data[i];
        int64_t rows = m->rows[HALF_FIT] + m->rows[HALF_HELD_OUT];
        table_cell(table, "%s", m->dataset->name);
        table_cell(table, "%s", m->machine);
        table_cell(table, "%lld", (long long)rows);
        percent(table, rows, m->error[HALF_FIT] + m->error[HALF_HELD_OUT], "");
        percent(table, rows, m->bias, "+");
    }
    putchar('\n');
    table_print(table, stdout);
    puts("\nThe same by machine, both halves together.");
}

void groups_print(const struct validation *v)
{
    struct group_errors groups = {0};
    validation_groups(v, &groups);
    print_table(v, &groups);
    puts("\nMean absolute errors of each half, and the mean error of both (bias), in %.");
    for (size_t i = 0; i < v->datasets; i++) {
        struct group_error sum = groups_unseen(&groups, v->dataset[i], NULL);
        double rows = (double)sum.rows[HALF_HELD_OUT];
        if (sum.groups)
            printf("%s: %lld groups without a run in the half to fit, %.0f runs: %.1f %%, bias "
                   "%+.1f\n",
                   v->dataset[i]->name, (long long)sum.groups, rows,
                   sum.error[HALF_HELD_OUT] * 100 / rows, sum.bias * 100 / rows);
    }
    print_machines(v, &groups);
}

/* One object for each machine of a dataset. */
json_t *machines_json(const struct validation *v, const struct dataset *dataset)
{
    struct group_errors groups = {0}, machines = {0};
    json_t *list = json_array();
    validation_groups(v, &groups);
    groups_by_machine(v->arena, &groups, &machines);
    for (size_t i = 0; i < machines.len; i++) {
        const struct group_error *m = &machines.data[i];
        int64_t rows = m->rows[HALF_FIT] + m->rows[HALF_HELD_OUT];
        if (m->dataset == dataset)
            json_array_append_new(
                list,
                json_pack("{s:s, s:I, s:f, s:f}", "machine", m->machine, "runs", (json_int_t)rows,
                          "mean", (m->error[HALF_FIT] + m->error[HALF_HELD_OUT]) / (double)rows,
                          "bias", m->bias / (double)rows));
    }
    return list;
}

/* validate_planned_anew.c - shows published runs that were planned again (`weft validate --plan`), as a table and as
 * JSON. */
#include <stdio.h>
#include <string.h>

#include "lab/validate.h"

/* ---- text ------------------------------------------------------------------------------------ */

/* The first changes, as many as fit in this many columns. */
static const char *first_changes(struct arena *keep, const char *changes, size_t columns)
{
    char *text = arena_copy_text(keep, changes), *comma;
    if (text_columns(text) <= columns)
        return text;
    while ((comma = strrchr(text, ',')) != NULL) {
        *comma = '\0';
        if (text_columns(text) + text_columns(", …") <= columns)
            break;
    }
    return arena_printf(keep, "%s, …", text);
}

/* The width that the columns before the last one leave in a line. */
static size_t room_for_changes(const struct validation *v, const struct dataset *dataset)
{
    enum { TIMES = 34, LEAST = 24 }; /* two times, a gain and gaps */
    size_t name = 0;
    for (size_t i = 0; i < v->replanned.len; i++) {
        const struct published *row = v->replanned.data[i].row;
        size_t columns = row->dataset == dataset ? text_columns(row->name) : 0;
        name = columns > name ? columns : name;
    }
    return name + TIMES + LEAST > REPORT_COLUMNS ? LEAST : REPORT_COLUMNS - TIMES - name;
}

static void print_dataset(const struct validation *v, const struct dataset *dataset)
{
    static const char *const HEADERS[] = {"case", "published", "auto", "gain", "what auto changes"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_LEFT};
    struct table *table = table_new(v->arena, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    size_t room = room_for_changes(v, dataset);
    int64_t rows = 0;
    for (size_t i = 0; i < v->replanned.len; i++) {
        const struct replanned *r = &v->replanned.data[i];
        if (r->row->dataset != dataset)
            continue;
        rows++;
        table_cell(table, "%s", r->row->name);
        table_cell(table, "%s%s", show_seconds(r->row->predicted.time_s * 1e9).s,
                   r->row->predicted.fits ? "" : " !");
        table_cell(table, "%s%s", show_seconds(r->iteration_s * 1e9).s, r->fits ? "" : " !");
        table_cell(table, "%+.1f %%", 100 * (replanned_gain(r) - 1));
        table_cell(table, "%s",
                   *r->changes ? first_changes(v->arena, r->changes, room) : "nothing");
    }
    if (!rows)
        return;
    printf("%s: %s (%s)\n", dataset->name, dataset->summary, dataset->source);
    table_print(table, stdout);
    putchar('\n');
}

struct planned_counts {
    int64_t runs, faster, same, lost, misfits;
};

static struct planned_counts count_all(const struct validation *v)
{
    struct planned_counts counts = {0};
    for (size_t i = 0; i < v->replanned.len; i++) {
        const struct replanned *r = &v->replanned.data[i];
        bool lost = replanned_lost(r), misfits = !r->row->predicted.fits;
        counts.runs++;
        counts.lost += lost;
        counts.misfits += misfits;
        counts.same += !lost && !misfits && *r->changes == '\0';
        counts.faster += !lost && !misfits && *r->changes != '\0';
    }
    return counts;
}

void replanned_print(const struct validation *v)
{
    struct planned_counts counts = count_all(v);
    for (size_t i = 0; i < v->datasets; i++)
        print_dataset(v, v->dataset[i]);
    printf("of %lld runs auto is faster in %lld, finds the published plan in %lld and is slower in "
           "%lld;\nof %lld the published plan is predicted not to fit (!)\n",
           (long long)counts.runs, (long long)counts.faster, (long long)counts.same,
           (long long)counts.lost, (long long)counts.misfits);
}

weft_status replanned_verdict(const struct validation *v)
{
    int64_t lost = count_all(v).lost;
    if (!lost)
        return WEFT_OK;
    return no_answer("the grid lacks what they have, or an estimate misled it",
                     "%lld published plans are faster than what auto found", (long long)lost);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_t *replanned_json(const struct validation *v, const struct dataset *dataset)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->replanned.len; i++) {
        const struct replanned *r = &v->replanned.data[i];
        if (r->row->dataset != dataset)
            continue;
        json_array_append_new(
            list,
            json_pack("{s:o, s:{s:f, s:b}, s:{s:f, s:b, s:I, s:o, s:s}, s:f, s:o, s:b, s:f}",
                      "case", json_text(r->row->name), "published", "iteration_s",
                      r->row->predicted.time_s, "fits", r->row->predicted.fits, "auto",
                      "iteration_s", r->iteration_s, "fits", r->fits, "peak_bytes",
                      (json_int_t)r->peak_bytes, "plan", json_text(r->text), "found_by",
                      r->found_by, "gain", replanned_gain(r), "changes", json_text(r->changes),
                      "lost", replanned_lost(r), "search_s", r->search_s));
    }
    return list;
}

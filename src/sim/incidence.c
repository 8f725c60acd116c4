/* incidence.c - entries of a sparse matrix, linked by row and by column (incidence.h). */
#include "sim/incidence.h"

#include <string.h>

struct incidence incidence_new(struct arena *keep, int32_t rows, int32_t columns)
{
    struct incidence of = {.arena = keep, .free = -1};
    of.row = ARENA_ARRAY(keep, int32_t, (size_t)rows);
    of.column = ARENA_ARRAY(keep, int32_t, (size_t)columns);
    memset(of.row, -1, (size_t)rows * sizeof *of.row);
    memset(of.column, -1, (size_t)columns * sizeof *of.column);
    return of;
}

static int32_t take_entry(struct incidence *of)
{
    int32_t i = of->free;
    if (i < 0) {
        array_push(of->arena, &of->entries, (struct incidence_entry){0});
        return (int32_t)of->entries.len - 1;
    }
    of->free = of->entries.data[i].next_in_row;
    return i;
}

const struct incidence_entry *incidence_add(struct incidence *of, int32_t row, int32_t column,
                                            double part, double times)
{
    int32_t i = take_entry(of), second = of->column[column];
    of->entries.data[i] =
        (struct incidence_entry){row, column, of->row[row], second, -1, part, times};
    if (second >= 0)
        of->entries.data[second].previous_in_column = i;
    of->row[row] = of->column[column] = i;
    return &of->entries.data[i];
}

static void leave_column(struct incidence *of, const struct incidence_entry *entry)
{
    int32_t before = entry->previous_in_column, after = entry->next_in_column;
    if (before >= 0)
        of->entries.data[before].next_in_column = after;
    else
        of->column[entry->column] = after;
    if (after >= 0)
        of->entries.data[after].previous_in_column = before;
}

void incidence_drop_row(struct incidence *of, int32_t row)
{
    for (int32_t i = of->row[row], next; i >= 0; i = next) {
        struct incidence_entry *entry = &of->entries.data[i];
        next = entry->next_in_row;
        leave_column(of, entry);
        entry->next_in_row = of->free;
        of->free = i;
    }
    of->row[row] = -1;
}

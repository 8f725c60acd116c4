/* incidence.h - which flows touch which links (or devices): a sparse matrix whose rows come and go.
 *
 *   I1  Every entry is in two lists: its row's (singly linked, made and dropped as a whole) and its
 *       column's (doubly linked). Dropped entries are used again.
 */
#ifndef WEFT_SIM_INCIDENCE_H
#define WEFT_SIM_INCIDENCE_H

#include "base/base.h"

struct incidence_entry {
    int32_t row, column;
    int32_t next_in_row, next_in_column, previous_in_column; /* -1: none */
    double part, times;                                      /* of a flow on a link: share.h */
};
struct incidence {
    struct arena *arena;
    ARRAY(struct incidence_entry) entries;
    int32_t *row, *column; /* first entry of each, -1: none */
    int32_t free;          /* first dropped entry, linked by next_in_row */
};

struct incidence incidence_new(struct arena *keep, int32_t rows, int32_t columns);
const struct incidence_entry *incidence_add(struct incidence *of, int32_t row, int32_t column,
                                            double part, double times);
void incidence_drop_row(struct incidence *of, int32_t row);

/* for (e = row_first(of, row); e; e = row_next(of, e)), and likewise for a column. */
static inline const struct incidence_entry *entry_at(const struct incidence *of, int32_t i)
{
    return i < 0 ? NULL : &of->entries.data[i];
}

static inline const struct incidence_entry *row_first(const struct incidence *of, int32_t row)
{
    return entry_at(of, of->row[row]);
}

static inline const struct incidence_entry *row_next(const struct incidence *of,
                                                     const struct incidence_entry *e)
{
    return entry_at(of, e->next_in_row);
}

static inline const struct incidence_entry *column_first(const struct incidence *of, int32_t column)
{
    return entry_at(of, of->column[column]);
}

static inline const struct incidence_entry *column_next(const struct incidence *of,
                                                        const struct incidence_entry *e)
{
    return entry_at(of, e->next_in_column);
}

#endif

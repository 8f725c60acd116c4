/* tables_room.h - inside tables: what its files share.
 *
 *   tables.c      rows, tables, and the position of their devices
 *   table_fill.c  the sums of one table
 *   borders.c     what is different where runs begin and end
 *   part_sums.c   runs as parts
 */
#ifndef WEFT_SEARCH_ESTIMATE_TABLES_ROOM_H
#define WEFT_SEARCH_ESTIMATE_TABLES_ROOM_H

#include "search/estimate/few_copies.h"
#include "search/estimate/places.h"
#include "search/estimate/tables.h"

struct tables {
    struct arena *arena;
    const struct estimate_settings *settings;
    struct cost *cost;
    struct flow_cache *flows;
    double pace; /* speed of work that overlaps: 1 / slowdown */
    struct few_copies few;
    struct plan *walk;     /* the instances of the model with few copies: its places */
    struct tied_pair tied; /* places */
    struct places places;
    ARRAY(struct choice *) rows; /* per row: choices by operator */
    ARRAY(bool) sends_tokens;    /* per row */
    ARRAY(struct row_table *) tables;
    ARRAY(struct borders *) seams;
    struct hash_map by_row, by_table, by_seam;
};

/* The model with the instances before `at` laid out as in one table, the rest as in the other: in
 * one part, or in two (struct seam's `apart`), which are on two stages unless both have the same first device. */
weft_status cut_plan(const struct tables *tables, const struct row_table *before,
                     const struct row_table *after, int64_t at, int64_t apart, struct plan **out);
/* add_run for places. */
void add_places(struct part_sums *part, const struct row_table *table,
                const struct place_range *range);
weft_status fill_table(struct tables *tables, struct row_table *table);

#endif

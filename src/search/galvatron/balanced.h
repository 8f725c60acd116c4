/* balanced.h - inside galvatron: the two partitions between which Algorithm 2 searches, and the
 * even one. */
#ifndef WEFT_SEARCH_GALVATRON_BALANCED_H
#define WEFT_SEARCH_GALVATRON_BALANCED_H

#include "search/galvatron/layer_table.h"

enum balanced {
    BALANCED_LAYERS, /* equal numbers of layers; operators around them do not count */
    BALANCED_TIME,   /* on the fastest strategies, with the stage's own time */
    /* On the strategies that are fastest if the stage is the slowest, with what it holds besides
     * its layers. */
    BALANCED_BYTES,
    BALANCED_COUNT
};
/* The number of layers per stage, in table->keep; the table's classes must be known. */
int32_t *balanced(struct layer_table *table, enum balanced by);

#endif

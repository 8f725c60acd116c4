/* balanced.h - inside galvatron: the partitions that Algorithm 2 goes between, and the even one. */
#ifndef WEFT_SEARCH_GALVATRON_BALANCED_H
#define WEFT_SEARCH_GALVATRON_BALANCED_H

#include "search/galvatron/layer_table.h"

enum balanced {
    BALANCED_LAYERS, /* equally many, what is around them not counted */
    BALANCED_TIME,   /* on the fastest strategies, the stage's own time included */
    BALANCED_BYTES, /* on those that are fastest as the slowest stage, what it holds beside included */
    BALANCED_COUNT
};
/* Layers per stage, in table->keep; the table's classes are known. */
int32_t *balanced(struct layer_table *table, enum balanced by);

#endif

/* drop_items.h - a graph without some items of a block, for tests that something is missed. */
#ifndef WEFT_TESTS_DROP_ITEMS_H
#define WEFT_TESTS_DROP_ITEMS_H

#include <string.h>

#include "compile/compile.h"

/* The number of an item when `count` of them from `at` on are gone; those are then the next that stays. */
static int32_t number_without(int32_t item, int32_t at, int32_t count)
{
    return item < at ? item : item < at + count ? at : item - count;
}

static void drop_items(struct graph *graph, int32_t number, int32_t at, int32_t count)
{
    struct block *block = &graph->block[number];
    int32_t before = block->item[at].needs;
    for (struct task *task = graph->task; task < graph->task + graph->tasks; task++) {
        int32_t first = number_without(task->first_item, at, count);
        int32_t end = number_without(task->first_item + task->items, at, count);
        if (task->block != number)
            continue;
        if (first == end) /* the exchange of a step that is gone */
            task->exchange = -1;
        task->first_item = first;
        task->items = end - first;
    }
    block->items -= count;
    memmove(&block->item[at], &block->item[at + count],
            sizeof block->item[0] * (size_t)(block->items - at));
    for (int32_t i = at; i < block->items; i++) {
        int32_t *needs = &block->item[i].needs;
        *needs = *needs < at || *needs >= at + count ? number_without(*needs, at, count) : before;
    }
}

#endif

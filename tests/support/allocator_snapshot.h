/* allocator_snapshot.h - the blocks that the simulated allocator has. */
#ifndef WEFT_TESTS_ALLOCATOR_SNAPSHOT_H
#define WEFT_TESTS_ALLOCATOR_SNAPSHOT_H

#include <stdlib.h>

#include "sim/pool.h"

/* A block as torch.cuda.memory_snapshot() shows it. */
struct allocator_block {
    int64_t address, bytes; /* addresses go down from 0; in an expandable pool they go up */
    bool small, live;
    bool begins; /* whether it begins a segment; in an expandable one, a stretch of pages */
};
static inline int by_address(const void *a, const void *b)
{
    const struct allocator_block *x = a, *y = b;
    if (x->small != y->small)
        return x->small ? -1 : 1;
    return (x->address > y->address) - (x->address < y->address);
}

static inline bool has_memory(const struct memory_block *block)
{
    return block->state == BLOCK_FREE || block->state == BLOCK_LIVE;
}

/* Every block, those of the small pool first, by address. Returns how many. */
static inline int32_t allocator_snapshot(struct arena *keep, const struct allocator *allocator,
                                         struct allocator_block **out)
{
    const struct memory_block *blocks = allocator->blocks.data;
    int32_t count = 0;
    *out = ARENA_ARRAY(keep, struct allocator_block, allocator->blocks.len);
    for (size_t id = 1; id < allocator->blocks.len; id++)
        if (has_memory(&blocks[id]))
            (*out)[count++] =
                (struct allocator_block){.address = blocks[id].address,
                                         .bytes = blocks[id].bytes,
                                         .small = blocks[id].pool == POOL_SMALL,
                                         .live = blocks[id].state == BLOCK_LIVE,
                                         .begins = !has_memory(&blocks[blocks[id].before])};
    qsort(*out, (size_t)count, sizeof **out, by_address);
    return count;
}

#endif

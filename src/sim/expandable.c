/* expandable.c - memory from the device page by page, in one expanding segment per pool.
 *
 * The pool's addresses are one row of blocks that are live, free or holes: addresses without
 * memory. The last is a hole that no device fills.
 *
 *   I1  Holes begin and end on pages; two neighbours are never both holes.
 *   I2  For the best fit, a free block before a hole counts with the size that it can grow to, so
 *       that gaps fill up before the segment's end is used.
 */
#include "sim/pool.h"

static const int64_t PAGE_BYTES[] = {[POOL_SMALL] = 2 * MIB, [POOL_LARGE] = 20 * MIB};
_Static_assert(COUNT_OF(PAGE_BYTES) == POOL_COUNT, "a pool without its page");

/* ---- holes ----------------------------------------------------------------------------------- */

/* The link to the first hole after an address: in the pool, or in the hole before it. */
static int32_t *hole_link(struct allocator *allocator, enum pool_kind kind, int64_t address)
{
    struct memory_block *blocks = allocator->blocks.data;
    int32_t *link = &allocator->pool[kind].hole;
    while (*link && blocks[*link].address < address)
        link = &blocks[*link].next;
    return link;
}

static void list_hole(struct allocator *allocator, int32_t hole)
{
    struct memory_block *block = &allocator->blocks.data[hole];
    int32_t *link = hole_link(allocator, block->pool, block->address);
    block->state = BLOCK_HOLE;
    block->next = *link;
    *link = hole;
}

static void unlist_hole(struct allocator *allocator, int32_t hole)
{
    const struct memory_block *block = &allocator->blocks.data[hole];
    *hole_link(allocator, block->pool, block->address) = block->next;
}

static void open_rows(struct allocator *allocator)
{
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        int64_t endless = MOST_BYTES / (2 * MIB) * PAGE_BYTES[kind];
        list_hole(allocator, block_add(allocator, (struct memory_block){.bytes = endless,
                                                                        .pool = (uint8_t)kind}));
    }
}

/* ---- growing --------------------------------------------------------------------------------- */

/* I2. */
static int64_t room_of(const struct allocator *allocator, int32_t id)
{
    const struct memory_block *block = &allocator->blocks.data[id];
    const struct memory_block *after = &allocator->blocks.data[block->after];
    return block->bytes + (after->state == BLOCK_HOLE ? after->bytes : 0);
}

/* Searches by ascending size as long as the next block has less room. Blocks that are passed over
 * are kept outside of bestfit meanwhile. */
static int32_t find(struct allocator *allocator, struct size_class *class)
{
    struct memory_block *blocks = allocator->blocks.data;
    int32_t best = bestfit_find(class), passed = 0, next;
    if (!best)
        return 0;
    bestfit_remove(blocks, best);
    while ((next = bestfit_find(class)) && room_of(allocator, next) < room_of(allocator, best)) {
        bestfit_remove(blocks, next);
        blocks[best].next = passed;
        passed = best;
        best = next;
    }
    for (int32_t id = passed; id; id = next) {
        next = blocks[id].next;
        bestfit_insert(blocks, id);
    }
    return best;
}

/* Gets memory for the first `bytes` of a hole, in whole pages, which become a free block. */
static bool fill(struct allocator *allocator, int32_t hole, int64_t bytes)
{
    struct memory_block block = allocator->blocks.data[hole];
    int64_t filled = round_up(bytes, PAGE_BYTES[block.pool]);
    if (filled > block.bytes)
        filled = block.bytes;
    if (!reserve(allocator, filled))
        return false;
    unlist_hole(allocator, hole);
    if (filled < block.bytes) {
        int32_t rest = block_add(allocator, (struct memory_block){.address = block.address + filled,
                                                                  .bytes = block.bytes - filled,
                                                                  .before = hole,
                                                                  .after = block.after,
                                                                  .pool = block.pool});
        list_hole(allocator, rest);
        allocator->blocks.data[hole].bytes = filled;
    }
    block_free(allocator, hole);
    return true;
}

static bool has_room(const struct allocator *allocator, int32_t id, int64_t bytes)
{
    const struct memory_block *blocks = allocator->blocks.data;
    for (; id && blocks[id].state != BLOCK_LIVE && bytes > 0; id = blocks[id].after)
        bytes -= blocks[id].bytes;
    return bytes <= 0;
}

/* The lowest free block or hole that, with the holes after it, has room for `bytes`. */
static int32_t lowest_room(const struct allocator *allocator, enum pool_kind kind, int64_t bytes)
{
    const struct memory_block *blocks = allocator->blocks.data;
    int32_t hole = allocator->pool[kind].hole, from = hole;
    for (; hole; hole = blocks[hole].next) {
        bool free_before = blocks[blocks[hole].before].state == BLOCK_FREE;
        from = free_before ? blocks[hole].before : hole;
        if (has_room(allocator, from, bytes))
            break;
    }
    return from;
}

/* If the device is full, the pages that were obtained stay as free blocks. */
static int32_t grow(struct allocator *allocator, enum pool_kind kind, int64_t bytes)
{
    int32_t id = lowest_room(allocator, kind, bytes);
    if (allocator->blocks.data[id].state == BLOCK_HOLE && !fill(allocator, id, bytes))
        return 0;
    while (allocator->blocks.data[id].bytes < bytes) {
        int32_t hole = allocator->blocks.data[id].after;
        if (!fill(allocator, hole, bytes - allocator->blocks.data[id].bytes))
            return 0;
        id = hole; /* it was joined with the free block before it */
    }
    block_unlist(allocator, id);
    return id;
}

/* ---- releasing ------------------------------------------------------------------------------- */

/* A free block for what is left of another one; none if nothing is left. */
static void keep_free(struct allocator *allocator, struct memory_block rest)
{
    if (rest.bytes)
        block_list(allocator, block_add(allocator, rest));
}

static void join_holes(struct allocator *allocator, int32_t id)
{
    struct memory_block *blocks = allocator->blocks.data;
    int32_t neighbour[] = {blocks[id].before, blocks[id].after};
    for (size_t i = 0; i < COUNT_OF(neighbour); i++)
        if (blocks[neighbour[i]].state == BLOCK_HOLE) {
            unlist_hole(allocator, neighbour[i]);
            block_absorb(allocator, id, neighbour[i]);
        }
    list_hole(allocator, id);
}

/* Turns the whole pages of a free block into a hole. */
static void release(struct allocator *allocator, int32_t id)
{
    struct memory_block block = allocator->blocks.data[id];
    int64_t page = PAGE_BYTES[block.pool], after = block.address + block.bytes;
    int64_t first = round_up(block.address, page), last = after / page * page;
    if (first >= last)
        return;
    block_unlist(allocator, id);
    allocator->blocks.data[id].state = BLOCK_HOLE;
    allocator->blocks.data[id].address = first;
    allocator->blocks.data[id].bytes = last - first;
    keep_free(allocator, (struct memory_block){.address = block.address,
                                               .bytes = first - block.address,
                                               .before = block.before,
                                               .after = id,
                                               .pool = block.pool});
    keep_free(allocator, (struct memory_block){.address = last,
                                               .bytes = after - last,
                                               .before = id,
                                               .after = block.after,
                                               .pool = block.pool});
    join_holes(allocator, id);
    allocator->use.reserved -= last - first;
}

const struct memory_source EXPANDABLE = {
    .least_rest = {[POOL_SMALL] = UNIT_BYTES, [POOL_LARGE] = UNIT_BYTES},
    .open = open_rows,
    .find = find,
    .grow = grow,
    .release = release,
};

/* pool.h - inside the allocator: its blocks, its two pools and the source of their memory.
 *
 *   I1  A free block is in its pool's bestfit, a hole in its pool's list by address, a live block
 *       in neither; unused blocks are in a list of their own.
 */
#ifndef WEFT_SIM_POOL_H
#define WEFT_SIM_POOL_H

#include "sim/allocator.h"
#include "sim/bestfit.h"

enum { MIB = 1 << 20 };

enum pool_kind { POOL_SMALL, POOL_LARGE, POOL_COUNT };
struct pool {
    struct bestfit free;
    int32_t hole; /* the first of its holes, by address; 0: none */
};

/* Addresses that the driver set aside for segments; they fill upwards. */
struct driver_chunk {
    int64_t address, bytes, used;
    /* the number of the next one above that had room when it was new, from 1; 0: none */
    int32_t above;
};

/* Where memory comes from: separate segments, or one that expands. */
struct memory_source {
    int64_t least_rest[POOL_COUNT]; /* bytes: a smaller rest is not split off */
    void (*open)(struct allocator *allocator);
    /* A free block of at least so many bytes, removed from its bestfit; 0: there is none. NULL: the one that fits best. */
    int32_t (*find)(struct allocator *allocator, struct size_class *class);
    /* The same with more memory; 0: no room. */
    int32_t (*grow)(struct allocator *allocator, enum pool_kind kind, int64_t bytes);
    /* returns what it can to the device */
    void (*release)(struct allocator *allocator, int32_t block);
};
extern const struct memory_source SEGMENTS, EXPANDABLE;

enum { CHUNK_STEPS = 16 };

struct allocator {
    struct arena *arena;
    const struct memory_source *source;
    int64_t limit_bytes;
    ARRAY(struct memory_block) blocks; /* block 0 is none */
    int32_t unused;
    struct pool pool[POOL_COUNT];
    ARRAY(struct driver_chunk) chunks; /* in descending order of addresses */
    /* the number of the lowest that had room when it was new, from 1; 0: none */
    int32_t open_chunk;
    struct chunk_hint {
        int32_t newest, found;
    } hint[CHUNK_STEPS]; /* by size of segment: where the last search ended (segments.c) */
    struct allocator_use use;
};

/* ---- what every request does, in the caller's code ------------------------------------------- */

static inline int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* A block of which nothing is said yet; may move the array of blocks. */
static inline int32_t block_new(struct allocator *allocator)
{
    int32_t id = allocator->unused;
    if (id)
        allocator->unused = allocator->blocks.data[id].next;
    else {
        id = (int32_t)allocator->blocks.len;
        array_push(allocator->arena, &allocator->blocks, (struct memory_block){0});
    }
    return id;
}

/* Adds a block between two neighbours; may move the array of blocks. */
static inline int32_t block_add(struct allocator *allocator, struct memory_block block)
{
    int32_t id = block_new(allocator);
    struct memory_block *blocks = allocator->blocks.data;
    blocks[id] = block;
    if (block.before)
        blocks[block.before].after = id;
    if (block.after)
        blocks[block.after].before = id;
    return id;
}

/* Removes it from its segment. */
static inline void block_drop(struct allocator *allocator, int32_t id)
{
    struct memory_block *blocks = allocator->blocks.data, *block = &blocks[id];
    if (block->before)
        blocks[block->before].after = block->after;
    if (block->after)
        blocks[block->after].before = block->before;
    block->state = BLOCK_UNUSED;
    block->next = allocator->unused;
    allocator->unused = id;
}

static inline void block_absorb(struct allocator *allocator, int32_t id, int32_t neighbour)
{
    struct memory_block *block = &allocator->blocks.data[id],
                        *other = &allocator->blocks.data[neighbour];
    if (other->address < block->address)
        block->address = other->address;
    block->bytes += other->bytes;
    block_drop(allocator, neighbour);
}

/* Makes it free, without joining neighbours. */
static inline void block_list(struct allocator *allocator, int32_t id)
{
    struct memory_block *blocks = allocator->blocks.data;
    const struct size_class *class = blocks[id].class;
    blocks[id].state = BLOCK_FREE;
    if (!class || class->in.bytes != blocks[id].bytes)
        blocks[id].class = bestfit_class(&allocator->pool[blocks[id].pool].free, blocks[id].bytes);
    bestfit_insert(blocks, id);
}

/* Removes it from the free blocks. */
static inline void block_unlist(struct allocator *allocator, int32_t id)
{
    bestfit_remove(allocator->blocks.data, id);
}

static inline void block_join(struct allocator *allocator, int32_t id, int32_t neighbour)
{
    if (allocator->blocks.data[neighbour].state != BLOCK_FREE)
        return;
    block_unlist(allocator, neighbour);
    block_absorb(allocator, id, neighbour);
}

/* Makes it free and joins its free neighbours. */
static inline void block_free(struct allocator *allocator, int32_t id)
{
    block_join(allocator, id, allocator->blocks.data[id].after);
    block_join(allocator, id, allocator->blocks.data[id].before);
    block_list(allocator, id);
}

/* False: beyond the limit. */
static inline bool reserve(struct allocator *allocator, int64_t bytes)
{
    struct allocator_use *use = &allocator->use;
    if (bytes > allocator->limit_bytes - use->reserved)
        return false;
    use->reserved += bytes;
    if (use->reserved > use->reserved_peak)
        use->reserved_peak = use->reserved;
    return true;
}

#endif

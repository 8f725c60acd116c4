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
    /* A free block of at least so many bytes, removed from its bestfit; 0: there is none, or no room. */
    int32_t (*find)(struct allocator *allocator, enum pool_kind kind, int32_t size_class);
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

static inline int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}
/* Adds a block between two neighbours; may move the array of blocks. */
int32_t block_add(struct allocator *allocator, struct memory_block block);
void block_drop(struct allocator *allocator, int32_t id); /* removes it from its segment */
void block_absorb(struct allocator *allocator, int32_t id, int32_t neighbour);
/* makes it free, without joining neighbours */
void block_list(struct allocator *allocator, int32_t id);
void block_unlist(struct allocator *allocator, int32_t id); /* removes it from the free blocks */
/* makes it free and joins its free neighbours */
void block_free(struct allocator *allocator, int32_t id);
bool reserve(struct allocator *allocator, int64_t bytes); /* false: beyond the limit */

#endif

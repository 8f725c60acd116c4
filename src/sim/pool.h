/* pool.h - inside the allocator: its blocks, its two pools and where their memory comes from.
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
};

/* Where memory comes from: segments of their own, or one that expands. */
struct memory_source {
    int digits[POOL_COUNT];         /* of the sizes of free blocks */
    int64_t least_rest[POOL_COUNT]; /* bytes: what is split off */
    void (*open)(struct allocator *allocator);
    /* A free block of at least `bytes`, out of its bestfit; 0: there is none, or no room. */
    int32_t (*find)(struct allocator *allocator, enum pool_kind kind, int64_t bytes);
    int32_t (*grow)(struct allocator *allocator, enum pool_kind kind, int64_t bytes);
    void (*release)(struct allocator *allocator, int32_t block); /* what the device can have */
};
extern const struct memory_source SEGMENTS, EXPANDABLE;

struct allocator {
    struct arena *arena;
    const struct memory_source *source;
    int64_t limit_bytes;
    ARRAY(struct memory_block) blocks; /* block 0 is none */
    int32_t unused;
    struct pool pool[POOL_COUNT];
    ARRAY(struct driver_chunk) chunks; /* with falling addresses */
    struct allocator_use use;
};

int64_t round_up(int64_t bytes, int64_t unit);
/* A new block between two that are neighbours so far; moves the blocks. */
int32_t block_add(struct allocator *allocator, struct memory_block block);
void block_drop(struct allocator *allocator, int32_t id); /* the segment does without it */
void block_absorb(struct allocator *allocator, int32_t id, int32_t neighbour);
void block_list(struct allocator *allocator, int32_t id);   /* it is free, alone */
void block_unlist(struct allocator *allocator, int32_t id); /* it was free */
void block_free(struct allocator *allocator, int32_t id);   /* joins its free neighbours */
bool reserve(struct allocator *allocator, int64_t bytes);   /* false: beyond the limit */

#endif

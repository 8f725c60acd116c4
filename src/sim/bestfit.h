/* bestfit.h - the free blocks of a pool, ordered by (bytes, address); what fits best comes first.
 *
 * Whoever allocates asks for few sizes again and again, and what is left over of them has few sizes too. So
 * every size has a *size class*, which stays: its free blocks hang in a pairing heap by address (Fredman et
 * al., 1986). A tree of shelves with 64 places each, a B-tree by size, says which classes have blocks. With D
 * levels (one up to 64 sizes, two up to 2,048) and n blocks of a size
 *
 *   find: O(1) where a block of the size is free, else O(D)     insert, remove: O(D + log n), amortized  (1)
 *
 * and of the D levels those are looked at where a shelf has nothing or had nothing before: mostly one.
 *
 *   I1  A bit of a shelf is set where blocks hang below it.
 *   I2  A block comes after the one whose child it is: a heap's root has its least address.
 *   I3  What lies in a shelf is in ascending order of sizes, and knows its shelf and its place there.
 *   I4  Block 0, class 0 and shelf 0 are none.
 */
#ifndef WEFT_SIM_BESTFIT_H
#define WEFT_SIM_BESTFIT_H

#include "base/base.h"

enum { UNIT_BYTES = 512, SHELF_PLACES = 64, RECENT_BITS = 7 };
/* 32 TiB: more than any device has. */
static const int64_t MOST_BYTES = INT64_C(1) << 45;

enum block_state {
    BLOCK_UNUSED,
    BLOCK_FREE,
    BLOCK_LIVE,
    BLOCK_HOLE, /* addresses without memory, of an expandable segment */
};
struct memory_block {
    int64_t address, bytes;
    int32_t before, after; /* in its segment; 0: it begins, ends there */
    int32_t child;         /* in the heap of its size: its first child */
    int32_t next;          /* in the heap, its sibling; of holes and unused blocks, in their list */
    int32_t back;          /* in the heap, the sibling before it; the first one's is the parent */
    int32_t size_class;    /* of its bytes; holes have none */
    uint8_t state, pool;
};

struct size_class {
    int64_t bytes;
    int32_t heap;        /* the block at its root; 0: none is free */
    int32_t shelf, slot; /* I3 */
};
struct shelf {
    uint64_t filled;     /* I1 */
    int32_t above, slot; /* I3; 0: this is the root */
    int32_t count;
    int32_t below[SHELF_PLACES]; /* shelves; of the lowest ones, size classes */
    int64_t least;               /* the smallest size that belongs here */
};
struct bestfit {
    struct arena *arena;
    struct hash_map class_of;         /* size classes by their units */
    int32_t recent[1 << RECENT_BITS]; /* by a hash of units: the class that was asked for last */
    ARRAY(struct size_class) classes;
    ARRAY(struct shelf) shelves;
    int32_t root;
    int levels; /* above the lowest shelves */
};

struct bestfit bestfit_new(struct arena *keep);
/* The class of a whole number of units. */
int32_t bestfit_class(struct bestfit *fit, int64_t bytes);
void bestfit_insert(struct bestfit *fit, struct memory_block *blocks, int32_t block);
void bestfit_remove(struct bestfit *fit, struct memory_block *blocks, int32_t block);
/* The first block of at least a class's bytes; 0: there is none. */
int32_t bestfit_find(const struct bestfit *fit, int32_t size_class);
/* The same, removed. */
int32_t bestfit_take(struct bestfit *fit, struct memory_block *blocks, int32_t size_class);

#endif

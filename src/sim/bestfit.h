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

enum { UNIT_BYTES = 512, SHELF_PLACES = 64, RECENT_BITS = 9 };
/* 32 TiB: more than any device has. */
static const int64_t MOST_BYTES = INT64_C(1) << 45;

enum block_state {
    BLOCK_UNUSED,
    BLOCK_FREE,
    BLOCK_LIVE,
    BLOCK_HOLE, /* addresses without memory, of an expandable segment */
};
/* A cache line, which is found by a shift; so is a size class. */
struct memory_block {
    int64_t address, bytes;
    int32_t before, after; /* in its segment; 0: it begins, ends there */
    int32_t child;         /* in the heap of its size: its first child */
    int32_t next;          /* in the heap, its sibling; of holes and unused blocks, in their list */
    int32_t back;          /* in the heap, the sibling before it; the first one's is the parent */
    int32_t size_class;    /* of its bytes; holes have none */
    uint8_t state, pool;
    int64_t unused[2];
};
_Static_assert(sizeof(struct memory_block) == 64, "a block that is more than a cache line");

struct size_class {
    int64_t bytes;
    int32_t heap;        /* the block at its root; 0: none is free */
    int32_t shelf, slot; /* I3 */
    int64_t unused;
};
_Static_assert(sizeof(struct size_class) == 32, "a size class that no shift finds");
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
/* The class of a whole number of units, by the map; bestfit_class is the usual way. */
int32_t bestfit_class_by_map(struct bestfit *fit, int64_t bytes);
/* Siblings become one heap; returns its root. */
int32_t bestfit_join_all(struct memory_block *blocks, int32_t first);

/* ---- what every request does, in the caller's code ------------------------------------------- */

/* The few sizes that are asked for again and again are found without the map. */
static inline int32_t bestfit_class(struct bestfit *fit, int64_t bytes)
{
    uint64_t units = (uint64_t)bytes / UNIT_BYTES;
    int32_t *recent = &fit->recent[units * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RECENT_BITS)];
    if (fit->classes.data[*recent].bytes != bytes)
        *recent = bestfit_class_by_map(fit, bytes);
    return *recent;
}

/* Two heaps become one; returns its root (I2). */
static inline int32_t heaps_join(struct memory_block *blocks, int32_t a, int32_t b)
{
    if (!a || !b)
        return a ? a : b;
    bool in_order = blocks[a].address < blocks[b].address;
    int32_t parent = in_order ? a : b, child = in_order ? b : a, next = blocks[parent].child;
    blocks[child].next = next;
    blocks[child].back = parent;
    if (next)
        blocks[next].back = child;
    blocks[parent].child = child;
    return parent;
}

/* I1: a class has its first block. */
static inline void bestfit_set_bits(struct shelf *shelves, const struct size_class *class)
{
    int32_t shelf = class->shelf, slot = class->slot;
    for (uint64_t before = 0; shelf && !before; shelf = shelves[shelf].above) {
        before = shelves[shelf].filled;
        shelves[shelf].filled |= UINT64_C(1) << slot;
        slot = shelves[shelf].slot;
    }
}

/* I1: a class has given its last. */
static inline void bestfit_clear_bits(struct shelf *shelves, const struct size_class *class)
{
    int32_t shelf = class->shelf, slot = class->slot;
    for (uint64_t left = 0; shelf && !left; shelf = shelves[shelf].above) {
        left = shelves[shelf].filled &= ~(UINT64_C(1) << slot);
        slot = shelves[shelf].slot;
    }
}

static inline void bestfit_insert(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    struct size_class *class = &fit->classes.data[blocks[block].size_class];
    blocks[block].child = blocks[block].next = blocks[block].back = 0;
    if (!class->heap)
        bestfit_set_bits(fit->shelves.data, class);
    class->heap = heaps_join(blocks, class->heap, block);
}

static inline void heap_cut(struct memory_block *blocks, int32_t block)
{
    int32_t back = blocks[block].back, next = blocks[block].next;
    if (blocks[back].child == block)
        blocks[back].child = next;
    else
        blocks[back].next = next;
    if (next)
        blocks[next].back = back;
}

static inline void bestfit_take_root(struct bestfit *fit, struct memory_block *blocks,
                                     struct size_class *class)
{
    int32_t child = blocks[class->heap].child;
    class->heap = child ? bestfit_join_all(blocks, child) : 0;
    if (!class->heap)
        bestfit_clear_bits(fit->shelves.data, class);
}

static inline void bestfit_remove(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    struct size_class *class = &fit->classes.data[blocks[block].size_class];
    if (block == class->heap) {
        bestfit_take_root(fit, blocks, class);
        return;
    }
    int32_t orphans = bestfit_join_all(blocks, blocks[block].child);
    heap_cut(blocks, block);
    class->heap = heaps_join(blocks, class->heap, orphans);
}

/* Up to where a larger size leaves the path, then down to the least below; 0: there is none. */
static inline int32_t bestfit_larger(const struct bestfit *fit, const struct size_class *class)
{
    const struct shelf *shelves = fit->shelves.data, *shelf = &shelves[class->shelf];
    int level = 0;
    uint64_t larger = shelf->filled & (~UINT64_C(1) << class->slot);
    for (; !larger && shelf->above; level++) {
        larger = shelves[shelf->above].filled & (~UINT64_C(1) << shelf->slot);
        shelf = &shelves[shelf->above];
    }
    if (!larger)
        return 0;
    int32_t below = shelf->below[__builtin_ctzll(larger)];
    for (; level > 0; level--)
        below = shelves[below].below[__builtin_ctzll(shelves[below].filled)];
    return below;
}

static inline struct size_class *bestfit_that_fits(const struct bestfit *fit, int32_t number)
{
    struct size_class *class = &fit->classes.data[number];
    return class->heap ? class : &fit->classes.data[bestfit_larger(fit, class)];
}

/* The first block of at least a class's bytes; 0: there is none. */
static inline int32_t bestfit_find(const struct bestfit *fit, int32_t size_class)
{
    return bestfit_that_fits(fit, size_class)->heap;
}

/* The same, removed. */
static inline int32_t bestfit_take(struct bestfit *fit, struct memory_block *blocks,
                                   int32_t size_class)
{
    struct size_class *class = bestfit_that_fits(fit, size_class);
    int32_t block = class->heap;
    if (block)
        bestfit_take_root(fit, blocks, class);
    return block;
}

#endif

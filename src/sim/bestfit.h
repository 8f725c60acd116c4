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
 *   I3  What lies in a shelf is in ascending order of sizes, and knows its shelf and its bit there. Neither classes nor
 *       shelves move in memory.
 *   I4  Block 0 is none.
 */
#ifndef WEFT_SIM_BESTFIT_H
#define WEFT_SIM_BESTFIT_H

#include "base/base.h"

enum { UNIT_BYTES = 512, SHELF_PLACES = 64, RECENT_BITS = 8 };
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
    struct size_class *class; /* of its bytes, or of what they were; NULL: not known */
    int32_t before, after;    /* in its segment; 0: it begins, ends there */
    int32_t child;            /* in the heap of its size: its first child */
    int32_t next; /* in the heap, its sibling; of holes and unused blocks, in their list */
    int32_t back; /* in the heap, the sibling before it; the first one's is the parent */
    uint8_t state, pool;
    int64_t unused[2];
};
_Static_assert(sizeof(struct memory_block) == 64, "a block is a cache line, found by a shift");

/* What lies in a shelf: a size class, or another shelf. */
struct shelved {
    int64_t bytes;       /* its smallest size */
    struct shelf *shelf; /* I3; NULL: this is the root */
    uint64_t bit;        /* I3 */
};
struct size_class {
    struct shelved in;
    int32_t heap; /* the block at its root; 0: none is free */
};
struct shelf {
    struct shelved in;
    uint64_t filled; /* I1 */
    int32_t count;
    struct shelved *below[SHELF_PLACES]; /* shelves; of the lowest ones, size classes */
};
struct bestfit {
    struct arena *arena;
    struct hash_map class_of; /* size classes by their units */
    /* by a hash of units: the class that was asked for last; NULL: none yet */
    struct size_class *recent[1 << RECENT_BITS];
    struct shelf *root;
    int levels; /* above the lowest shelves */
};

struct bestfit bestfit_new(struct arena *keep);
/* The class of a whole number of units, by the map; bestfit_class is the usual way. */
struct size_class *bestfit_class_by_map(struct bestfit *fit, int64_t bytes);
/* Siblings become one heap; returns its root. */
int32_t bestfit_join_all(struct memory_block *blocks, int32_t first);

/* ---- what every request does, in the caller's code ------------------------------------------- */

/* The few sizes that are asked for again and again are found without the map. */
static inline struct size_class *bestfit_class(struct bestfit *fit, int64_t bytes)
{
    uint64_t units = (uint64_t)bytes / UNIT_BYTES;
    struct size_class **recent =
        &fit->recent[units * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RECENT_BITS)];
    if (!*recent || (*recent)->in.bytes != bytes)
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
static inline void bestfit_set_bits(const struct shelved *at)
{
    for (uint64_t before = 0; at->shelf && !before; at = &at->shelf->in) {
        before = at->shelf->filled;
        at->shelf->filled = before | at->bit;
    }
}

/* I1: a class has given its last. */
static inline void bestfit_clear_bits(const struct shelved *at)
{
    for (uint64_t left = 0; at->shelf && !left; at = &at->shelf->in)
        left = at->shelf->filled &= ~at->bit;
}

static inline void bestfit_insert(struct memory_block *blocks, int32_t block)
{
    struct size_class *class = blocks[block].class;
    blocks[block].child = blocks[block].next = blocks[block].back = 0;
    if (!class->heap)
        bestfit_set_bits(&class->in);
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

static inline void bestfit_take_root(struct memory_block *blocks, struct size_class *class)
{
    int32_t child = blocks[class->heap].child;
    class->heap = child ? bestfit_join_all(blocks, child) : 0;
    if (!class->heap)
        bestfit_clear_bits(&class->in);
}

static inline void bestfit_remove(struct memory_block *blocks, int32_t block)
{
    struct size_class *class = blocks[block].class;
    if (block == class->heap) {
        bestfit_take_root(blocks, class);
        return;
    }
    int32_t orphans = bestfit_join_all(blocks, blocks[block].child);
    heap_cut(blocks, block);
    class->heap = heaps_join(blocks, class->heap, orphans);
}

/* Up to where a larger size leaves the path, then down to the least below; NULL: there is none. */
static inline struct size_class *bestfit_larger(const struct size_class *class)
{
    const struct shelved *at = &class->in;
    uint64_t larger = 0;
    int level = -1;
    for (; at->shelf && !larger; at = &at->shelf->in, level++)
        larger = at->shelf->filled & -(at->bit << 1);
    if (!larger)
        return NULL;
    struct shelved *below = ((const struct shelf *)at)->below[__builtin_ctzll(larger)];
    for (; level > 0; level--) {
        const struct shelf *shelf = (const struct shelf *)below;
        below = shelf->below[__builtin_ctzll(shelf->filled)];
    }
    return (struct size_class *)below;
}

static inline struct size_class *bestfit_that_fits(struct size_class *class)
{
    return class->heap ? class : bestfit_larger(class);
}

/* The first block of at least a class's bytes; 0: there is none. */
static inline int32_t bestfit_find(struct size_class *class)
{
    const struct size_class *fits = bestfit_that_fits(class);
    return fits ? fits->heap : 0;
}

/* The same, removed. */
static inline int32_t bestfit_take(struct memory_block *blocks, struct size_class *class)
{
    struct size_class *fits = bestfit_that_fits(class);
    if (!fits)
        return 0;
    int32_t block = fits->heap;
    bestfit_take_root(blocks, fits);
    return block;
}

#endif

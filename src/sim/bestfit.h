/* bestfit.h - the free blocks of a pool, ordered by (bytes, address); what fits best comes first.
 *
 * Whoever allocates asks for few sizes again and again, and what is left over of them has few sizes too. So
 * every size has a *size class*, which stays: its free blocks hang in a pairing heap by address (Fredman et
 * al., 1986). Sizes are whole units of 512 bytes, numbers of few digits to the base 64; a tree of shelves,
 * a level per digit, says which classes have blocks. With D digits and n blocks of a size
 *
 *   find: O(1) where a block of the size is free, else O(D)     insert, remove: O(D + log n), amortized  (1)
 *
 * and of the D levels those are looked at where a shelf has nothing or had nothing before: mostly one.
 *
 *   I1  A bit of a shelf is set where blocks hang below it.
 *   I2  A block comes after the one whose child it is: a heap's root has its least address.
 *   I3  Block 0, class 0 and shelf 0 are none; the root is shelf 1.
 */
#ifndef WEFT_SIM_BESTFIT_H
#define WEFT_SIM_BESTFIT_H

#include "base/base.h"

enum { UNIT_BYTES = 512, DIGIT_BITS = 6, MOST_DIGITS = 6, RECENT_BITS = 7 };
/* 32 TiB: the largest size of MOST_DIGITS digits. */
static const int64_t MOST_BYTES = (int64_t)UNIT_BYTES << (DIGIT_BITS * MOST_DIGITS);

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
    int32_t size_class;    /* of when it was free last; of others it may be any */
    uint8_t state, pool;
};

struct size_class {
    int64_t bytes;
    int32_t heap;  /* the block at its root; 0: none is free */
    int32_t shelf; /* of its last digit */
};
struct shelf {
    uint64_t filled;                /* I1 */
    int32_t above;                  /* the shelf of the digit before; 0: this is the root */
    int32_t slot;                   /* there */
    int32_t below[1 << DIGIT_BITS]; /* shelves of the next digit; size classes, of the last one's */
};
struct bestfit {
    struct arena *arena;
    struct hash_map class_of;         /* size classes by their units */
    int32_t recent[1 << RECENT_BITS]; /* by a hash of units: the class that was asked for last */
    ARRAY(struct size_class) classes;
    ARRAY(struct shelf) shelves;
    int digits;
};

struct bestfit bestfit_new(struct arena *keep, int digits);
void bestfit_insert(struct bestfit *fit, struct memory_block *blocks, int32_t block);
void bestfit_remove(struct bestfit *fit, struct memory_block *blocks, int32_t block);
/* The first of at least `bytes`, a whole number of units; 0: there is none. */
int32_t bestfit_find(struct bestfit *fit, int64_t bytes);

#endif

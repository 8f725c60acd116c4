/* bestfit.h - the free blocks of a pool, ordered by (bytes, address); the best fit comes first.
 *
 * Sizes are whole units of 512 bytes, so a size is a number of few digits to the base 64. A tree of
 * shelves reads it digit by digit, highest first, until no other size has the same digits; the
 * blocks of that size are there, in a pairing heap by address (Fredman et al., 1986). With D digits
 * and n blocks of a size
 *
 *   find: O(D)     insert: O(D)     remove: O(D + log n), amortized                          (1)
 *
 * and D is 2 for a pool of segments of 2 MiB: the pool with many blocks has few sizes.
 *
 *   I1  A bit of a shelf is set if something is below it; only the root may be empty.
 *   I2  A block comes after its parent in the heap: a heap's root has its least address.
 *   I3  Block 0 is none.
 */
#ifndef WEFT_SIM_BESTFIT_H
#define WEFT_SIM_BESTFIT_H

#include "base/base.h"

enum { UNIT_BYTES = 512, DIGIT_BITS = 6, MOST_DIGITS = 6 };
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
    int32_t before, after; /* neighbours in its segment; 0: none */
    int32_t child;         /* in the heap of its size: its first child */
    /* in the heap: its sibling; for holes and unused blocks: the next in their list */
    int32_t next;
    int32_t back; /* in the heap: the sibling before it; for the first one, the parent */
    uint8_t state, pool;
};

struct shelf {
    uint64_t filled;                /* I1 */
    int32_t below[1 << DIGIT_BITS]; /* a shelf of the next digit, or minus the root of a heap */
};
struct bestfit {
    struct arena *arena;
    ARRAY(struct shelf) shelf; /* the first is the root */
    int32_t spare;             /* a list of unused shelves, by below[0]; 0: none */
    int digits;
};

struct bestfit bestfit_new(struct arena *keep, int digits);
void bestfit_insert(struct bestfit *fit, struct memory_block *blocks, int32_t block);
void bestfit_remove(struct bestfit *fit, struct memory_block *blocks, int32_t block);
/* The first block of at least `bytes`, a whole number of units; 0: there is none. */
int32_t bestfit_find(const struct bestfit *fit, const struct memory_block *blocks, int64_t bytes);

#endif

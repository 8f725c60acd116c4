/* bestfit.c - the tree of shelves and its pairing heaps (bestfit.h). */
#include "sim/bestfit.h"

/* ---- blocks of one size: a pairing heap by address ------------------------------------------- */

static void adopt(struct memory_block *blocks, int32_t parent, int32_t child)
{
    int32_t next = blocks[parent].child;
    blocks[child].next = next;
    blocks[child].back = parent;
    if (next)
        blocks[next].back = child;
    blocks[parent].child = child;
}

/* Joins two heaps; returns the root (I2). */
static int32_t join(struct memory_block *blocks, int32_t a, int32_t b)
{
    if (!a || !b)
        return a ? a : b;
    int32_t first = blocks[a].address < blocks[b].address ? a : b;
    adopt(blocks, first, first == a ? b : a);
    return first;
}

/* Joins a list of siblings into one heap: in pairs from the left, then the pairs from the right. */
static int32_t join_all(struct memory_block *blocks, int32_t first)
{
    int32_t pairs = 0, root = 0;
    while (first) {
        int32_t second = blocks[first].next, rest = second ? blocks[second].next : 0;
        int32_t pair = join(blocks, first, second);
        blocks[pair].next = pairs;
        pairs = pair;
        first = rest;
    }
    while (pairs) {
        int32_t rest = blocks[pairs].next;
        root = join(blocks, root, pairs);
        pairs = rest;
    }
    if (root)
        blocks[root].next = blocks[root].back = 0;
    return root;
}

static void cut(struct memory_block *blocks, int32_t block)
{
    int32_t back = blocks[block].back, next = blocks[block].next;
    if (blocks[back].child == block)
        blocks[back].child = next;
    else
        blocks[back].next = next;
    if (next)
        blocks[next].back = back;
}

/* Removes `block`; returns the new root. */
static int32_t take_out(struct memory_block *blocks, int32_t root, int32_t block)
{
    int32_t orphans = join_all(blocks, blocks[block].child);
    if (block == root)
        return orphans;
    cut(blocks, block);
    return join(blocks, root, orphans);
}

/* ---- sizes: shelves digit by digit ----------------------------------------------------------- */

struct bestfit bestfit_new(struct arena *keep, int digits)
{
    struct bestfit fit = {.arena = keep, .digits = digits};
    array_push(keep, &fit.shelf, (struct shelf){0});
    return fit;
}

/* A size of one unit has the digit 0, so that a whole segment of 2 MiB has no more digits than its
 * parts. */
static int slot_of(int64_t bytes, int digit)
{
    uint64_t key = (uint64_t)bytes / UNIT_BYTES - 1;
    return (int)(key >> (digit * DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1);
}

static bool is_filled(const struct shelf *shelf, int slot)
{
    return shelf->filled >> slot & 1;
}

static int lowest(uint64_t bits)
{
    return __builtin_ctzll(bits);
}

static void hang(struct shelf *shelf, int slot, int32_t what)
{
    shelf->below[slot] = what;
    shelf->filled |= UINT64_C(1) << slot;
}

static int32_t new_shelf(struct bestfit *fit)
{
    int32_t shelf = fit->spare;
    if (shelf) {
        fit->spare = fit->shelf.data[shelf].below[0];
        return shelf;
    }
    array_push(fit->arena, &fit->shelf, (struct shelf){0});
    return (int32_t)fit->shelf.len - 1;
}

/* A second size arrives at this slot: inserts a shelf that reads the next digit of both. */
static void part(struct bestfit *fit, const struct memory_block *blocks, int32_t at, int slot,
                 int digit)
{
    int32_t heap = fit->shelf.data[at].below[slot], between = new_shelf(fit);
    hang(&fit->shelf.data[between], slot_of(blocks[-heap].bytes, digit - 1), heap);
    fit->shelf.data[at].below[slot] = between;
}

void bestfit_insert(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    int64_t bytes = blocks[block].bytes;
    int32_t at = 0;
    blocks[block].child = blocks[block].next = blocks[block].back = 0;
    for (int digit = fit->digits - 1;; digit--) {
        int slot = slot_of(bytes, digit);
        int32_t below = fit->shelf.data[at].below[slot];
        if (!is_filled(&fit->shelf.data[at], slot)) {
            hang(&fit->shelf.data[at], slot, -block);
            return;
        }
        if (below < 0 && blocks[-below].bytes == bytes) {
            fit->shelf.data[at].below[slot] = -join(blocks, -below, block);
            return;
        }
        if (below < 0)
            part(fit, blocks, at, slot, digit);
        at = fit->shelf.data[at].below[slot];
    }
}

/* Clears a slot; its shelf may become empty, too, and the shelf above that (I1). */
static void clear_slot(struct bestfit *fit, const int32_t *path, int64_t bytes, int digit)
{
    for (; digit < fit->digits; digit++) {
        struct shelf *shelf = &fit->shelf.data[path[digit]];
        shelf->filled &= ~(UINT64_C(1) << slot_of(bytes, digit));
        if (shelf->filled || !path[digit])
            return;
        shelf->below[0] = fit->spare;
        fit->spare = path[digit];
    }
}

void bestfit_remove(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    int64_t bytes = blocks[block].bytes;
    int32_t path[MOST_DIGITS], at = 0;
    int digit = fit->digits - 1;
    for (path[digit] = 0; (at = fit->shelf.data[at].below[slot_of(bytes, digit)]) > 0;)
        path[--digit] = at;
    int32_t root = take_out(blocks, -at, block);
    if (root)
        fit->shelf.data[path[digit]].below[slot_of(bytes, digit)] = -root;
    else
        clear_slot(fit, path, bytes, digit);
}

int32_t bestfit_find(const struct bestfit *fit, const struct memory_block *blocks, int64_t bytes)
{
    int32_t at = 0, larger = 0; /* where the next larger size branches off the path */
    for (int digit = fit->digits - 1; at >= 0; digit--) {
        const struct shelf *shelf = &fit->shelf.data[at];
        int slot = slot_of(bytes, digit);
        uint64_t above = shelf->filled & (~UINT64_C(1) << slot);
        if (above)
            larger = shelf->below[lowest(above)];
        if (!is_filled(shelf, slot))
            break;
        at = shelf->below[slot];
    }
    if (at < 0 && blocks[-at].bytes >= bytes)
        return -at;
    while (larger > 0)
        larger = fit->shelf.data[larger].below[lowest(fit->shelf.data[larger].filled)];
    return -larger;
}

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

/* Two heaps become one; returns its root (I2). */
static int32_t join(struct memory_block *blocks, int32_t a, int32_t b)
{
    if (!a || !b)
        return a ? a : b;
    int32_t first = blocks[a].address < blocks[b].address ? a : b;
    adopt(blocks, first, first == a ? b : a);
    return first;
}

/* Siblings become one heap: in pairs from the left, the pairs from the right. */
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

/* Returns the root without `block`. */
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
    array_push(keep, &fit.classes, (struct size_class){0});
    array_push(keep, &fit.shelves, (struct shelf){0});
    array_push(keep, &fit.shelves, (struct shelf){0});
    return fit;
}

/* One unit is 0, so that a whole segment of 2 MiB has no more digits than its parts. */
static int slot_of(int64_t bytes, int digit)
{
    uint64_t key = (uint64_t)bytes / UNIT_BYTES - 1;
    return (int)(key >> (digit * DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1);
}

static int lowest(uint64_t bits)
{
    return __builtin_ctzll(bits);
}

static int32_t shelf_below(struct bestfit *fit, int32_t above, int slot)
{
    int32_t shelf = fit->shelves.data[above].below[slot];
    if (shelf)
        return shelf;
    shelf = (int32_t)fit->shelves.len;
    struct shelf new = {.above = above, .slot = slot};
    array_push(fit->arena, &fit->shelves, new);
    fit->shelves.data[above].below[slot] = shelf;
    return shelf;
}

static int32_t add_class(struct bestfit *fit, int64_t bytes)
{
    int32_t shelf = 1, number = (int32_t)fit->classes.len;
    for (int digit = fit->digits - 1; digit > 0; digit--)
        shelf = shelf_below(fit, shelf, slot_of(bytes, digit));
    fit->shelves.data[shelf].below[slot_of(bytes, 0)] = number;
    struct size_class new = {.bytes = bytes, .shelf = shelf};
    array_push(fit->arena, &fit->classes, new);
    return number;
}

static int32_t find_class(struct bestfit *fit, int64_t bytes)
{
    int64_t *class = hash_at(&fit->class_of, fit->arena, (uint64_t)bytes / UNIT_BYTES << 1);
    if (*class < 0)
        *class = add_class(fit, bytes);
    return (int32_t)*class;
}

/* The few sizes that are asked for again and again are found without the map. */
static int32_t class_of(struct bestfit *fit, int64_t bytes)
{
    uint64_t units = (uint64_t)bytes / UNIT_BYTES;
    int32_t *recent = &fit->recent[units * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RECENT_BITS)];
    if (fit->classes.data[*recent].bytes != bytes)
        *recent = find_class(fit, bytes);
    return *recent;
}

/* I1: a class has its first block. */
static void set_bits(struct shelf *shelves, int32_t shelf, int slot)
{
    uint64_t before = 0;
    for (; shelf && !before; shelf = shelves[shelf].above) {
        before = shelves[shelf].filled;
        shelves[shelf].filled |= UINT64_C(1) << slot;
        slot = shelves[shelf].slot;
    }
}

/* I1: a class has given its last. */
static void clear_bits(struct shelf *shelves, int32_t shelf, int slot)
{
    uint64_t left = 0;
    for (; shelf && !left; shelf = shelves[shelf].above) {
        left = shelves[shelf].filled &= ~(UINT64_C(1) << slot);
        slot = shelves[shelf].slot;
    }
}

void bestfit_insert(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    int32_t number = blocks[block].size_class;
    if (fit->classes.data[number].bytes != blocks[block].bytes)
        number = class_of(fit, blocks[block].bytes);
    struct size_class *class = &fit->classes.data[number];
    blocks[block].child = blocks[block].next = blocks[block].back = 0;
    blocks[block].size_class = number;
    if (!class->heap)
        set_bits(fit->shelves.data, class->shelf, slot_of(class->bytes, 0));
    class->heap = join(blocks, class->heap, block);
}

void bestfit_remove(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    struct size_class *class = &fit->classes.data[blocks[block].size_class];
    class->heap = take_out(blocks, class->heap, block);
    if (!class->heap)
        clear_bits(fit->shelves.data, class->shelf, slot_of(class->bytes, 0));
}

/* Up to where a larger size leaves the path, then down to the least below. */
int32_t bestfit_find(struct bestfit *fit, int64_t bytes)
{
    int32_t number = class_of(fit, bytes); /* which moves the classes */
    const struct size_class *class = &fit->classes.data[number];
    const struct shelf *shelves = fit->shelves.data, *shelf = &shelves[class->shelf];
    int slot = slot_of(bytes, 0), digit = 0;
    if (class->heap)
        return class->heap;
    uint64_t larger = shelf->filled & (~UINT64_C(1) << slot);
    for (; !larger && shelf->above; digit++) {
        slot = shelf->slot;
        shelf = &shelves[shelf->above];
        larger = shelf->filled & (~UINT64_C(1) << slot);
    }
    if (!larger)
        return 0;
    int32_t below = shelf->below[lowest(larger)];
    for (; digit > 0; digit--)
        below = shelves[below].below[lowest(shelves[below].filled)];
    return fit->classes.data[below].heap;
}

/* bestfit.c - the tree of shelves and its pairing heaps (bestfit.h). */
#include "sim/bestfit.h"

#include <string.h>

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

/* ---- sizes: shelves in order ----------------------------------------------------------------- */

static const uint64_t ONE = 1;

static int32_t new_shelf(struct bestfit *fit, int64_t least)
{
    struct shelf shelf = {.least = least};
    array_push(fit->arena, &fit->shelves, shelf);
    return (int32_t)fit->shelves.len - 1;
}

struct bestfit bestfit_new(struct arena *keep)
{
    struct bestfit fit = {.arena = keep};
    array_push(keep, &fit.classes, (struct size_class){0});
    new_shelf(&fit, 0);
    fit.root = new_shelf(&fit, 0);
    return fit;
}

/* What lies in a place of a shelf now begins there: `level` is 0 where classes do. */
static void tell_place(struct bestfit *fit, int level, int32_t shelf, int slot)
{
    int32_t below = fit->shelves.data[shelf].below[slot];
    if (level > 0) {
        fit->shelves.data[below].above = shelf;
        fit->shelves.data[below].slot = slot;
    } else {
        fit->classes.data[below].shelf = shelf;
        fit->classes.data[below].slot = slot;
    }
}

/* Everything from there on moves up by one place (I3). */
static void put_below(struct bestfit *fit, int level, int32_t number, int at, int32_t below,
                      bool filled)
{
    struct shelf *shelf = &fit->shelves.data[number];
    uint64_t before = (ONE << at) - 1, moved = shelf->filled & ~before;
    memmove(&shelf->below[at + 1], &shelf->below[at],
            (size_t)(shelf->count - at) * sizeof *shelf->below);
    shelf->below[at] = below;
    shelf->filled = (shelf->filled & before) | (uint64_t)filled << at | moved << 1;
    shelf->count++;
    for (int slot = at; slot < shelf->count; slot++)
        tell_place(fit, level, number, slot);
}

static int64_t least_below(const struct bestfit *fit, int level, int32_t below)
{
    return level > 0 ? fit->shelves.data[below].least : fit->classes.data[below].bytes;
}

/* How many of what lies in a shelf begin at this size or below it. */
static int count_up_to(const struct bestfit *fit, int level, int32_t shelf, int64_t bytes)
{
    int low = 0, high = fit->shelves.data[shelf].count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (least_below(fit, level, fit->shelves.data[shelf].below[middle]) <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The upper half of a full shelf becomes a shelf of its own, after it in the one above. */
static void halve(struct bestfit *fit, int level, int32_t full)
{
    enum { HALF = SHELF_PLACES / 2 };
    int32_t upper = fit->shelves.data[full].below[HALF];
    int32_t number = new_shelf(fit, least_below(fit, level, upper));
    struct shelf *old = &fit->shelves.data[full], *new = &fit->shelves.data[number];
    memcpy(new->below, old->below + HALF, HALF * sizeof *new->below);
    new->filled = old->filled >> HALF;
    old->filled &= (ONE << HALF) - 1;
    new->count = old->count = HALF;
    for (int slot = 0; slot < HALF; slot++)
        tell_place(fit, level, number, slot);
    if (!old->filled)
        fit->shelves.data[old->above].filled &= ~(ONE << old->slot); /* I1 */
    put_below(fit, level + 1, old->above, old->slot + 1, number, new->filled);
}

static bool is_full(const struct bestfit *fit, int32_t shelf)
{
    return fit->shelves.data[shelf].count == SHELF_PLACES;
}

static void raise_root(struct bestfit *fit)
{
    int32_t below = fit->root;
    fit->root = new_shelf(fit, 0);
    fit->levels++;
    put_below(fit, fit->levels, fit->root, 0, below, fit->shelves.data[below].filled);
}

/* The lowest shelf for a size; it has a place, and so has every shelf on the way. */
static int32_t shelf_for(struct bestfit *fit, int64_t bytes)
{
    if (is_full(fit, fit->root))
        raise_root(fit);
    int32_t shelf = fit->root;
    for (int level = fit->levels; level > 0; level--) {
        int at = count_up_to(fit, level, shelf, bytes) - 1;
        if (is_full(fit, fit->shelves.data[shelf].below[at])) {
            halve(fit, level - 1, fit->shelves.data[shelf].below[at]);
            at = count_up_to(fit, level, shelf, bytes) - 1;
        }
        shelf = fit->shelves.data[shelf].below[at];
    }
    return shelf;
}

static int32_t add_class(struct bestfit *fit, int64_t bytes)
{
    int32_t shelf = shelf_for(fit, bytes), number = (int32_t)fit->classes.len;
    int at = count_up_to(fit, 0, shelf, bytes);
    array_push(fit->arena, &fit->classes, (struct size_class){.bytes = bytes});
    put_below(fit, 0, shelf, at, number, false);
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
int32_t bestfit_class(struct bestfit *fit, int64_t bytes)
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
        shelves[shelf].filled |= ONE << slot;
        slot = shelves[shelf].slot;
    }
}

/* I1: a class has given its last. */
static void clear_bits(struct shelf *shelves, int32_t shelf, int slot)
{
    uint64_t left = 0;
    for (; shelf && !left; shelf = shelves[shelf].above) {
        left = shelves[shelf].filled &= ~(ONE << slot);
        slot = shelves[shelf].slot;
    }
}

void bestfit_insert(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    struct size_class *class = &fit->classes.data[blocks[block].size_class];
    blocks[block].child = blocks[block].next = blocks[block].back = 0;
    if (!class->heap)
        set_bits(fit->shelves.data, class->shelf, class->slot);
    class->heap = join(blocks, class->heap, block);
}

static void set_heap(struct bestfit *fit, struct size_class *class, int32_t heap)
{
    class->heap = heap;
    if (!heap)
        clear_bits(fit->shelves.data, class->shelf, class->slot);
}

void bestfit_remove(struct bestfit *fit, struct memory_block *blocks, int32_t block)
{
    struct size_class *class = &fit->classes.data[blocks[block].size_class];
    set_heap(fit, class, take_out(blocks, class->heap, block));
}

/* Up to where a larger size leaves the path, then down to the least below; 0: there is none. */
static int32_t larger_class(const struct bestfit *fit, const struct size_class *class)
{
    const struct shelf *shelves = fit->shelves.data, *shelf = &shelves[class->shelf];
    int level = 0;
    uint64_t larger = shelf->filled & (~ONE << class->slot);
    for (; !larger && shelf->above; level++) {
        larger = shelves[shelf->above].filled & (~ONE << shelf->slot);
        shelf = &shelves[shelf->above];
    }
    if (!larger)
        return 0;
    int32_t below = shelf->below[__builtin_ctzll(larger)];
    for (; level > 0; level--)
        below = shelves[below].below[__builtin_ctzll(shelves[below].filled)];
    return below;
}

static struct size_class *class_that_fits(const struct bestfit *fit, int32_t number)
{
    struct size_class *class = &fit->classes.data[number];
    return class->heap ? class : &fit->classes.data[larger_class(fit, class)];
}

int32_t bestfit_find(const struct bestfit *fit, int32_t size_class)
{
    return class_that_fits(fit, size_class)->heap;
}

int32_t bestfit_take(struct bestfit *fit, struct memory_block *blocks, int32_t size_class)
{
    struct size_class *class = class_that_fits(fit, size_class);
    int32_t block = class->heap;
    if (block)
        set_heap(fit, class, join_all(blocks, blocks[block].child));
    return block;
}

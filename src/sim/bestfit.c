/* bestfit.c - the tree of shelves and its pairing heaps (bestfit.h). */
#include "sim/bestfit.h"

#include <string.h>

/* ---- blocks of one size: a pairing heap by address ------------------------------------------- */

/* Siblings become one heap: in pairs from the left, the pairs from the right. */
int32_t bestfit_join_all(struct memory_block *blocks, int32_t first)
{
    int32_t pairs = 0, root = 0;
    while (first) {
        int32_t second = blocks[first].next, rest = second ? blocks[second].next : 0;
        int32_t pair = heaps_join(blocks, first, second);
        blocks[pair].next = pairs;
        pairs = pair;
        first = rest;
    }
    while (pairs) {
        int32_t rest = blocks[pairs].next;
        root = heaps_join(blocks, root, pairs);
        pairs = rest;
    }
    if (root)
        blocks[root].next = blocks[root].back = 0;
    return root;
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

int32_t bestfit_class_by_map(struct bestfit *fit, int64_t bytes)
{
    int64_t *class = hash_at(&fit->class_of, fit->arena, (uint64_t)bytes / UNIT_BYTES << 1);
    if (*class < 0)
        *class = add_class(fit, bytes);
    return (int32_t)*class;
}

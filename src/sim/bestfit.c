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

static struct shelf *new_shelf(struct arena *arena, int64_t least)
{
    struct shelf *shelf = ARENA_NEW(arena, struct shelf);
    shelf->in.bytes = least;
    return shelf;
}

struct bestfit bestfit_new(struct arena *keep)
{
    return (struct bestfit){.arena = keep, .root = new_shelf(keep, 0)};
}

/* I3: tells what lies in a shelf from a place on where it lies. */
static void tell_places(struct shelf *shelf, int from)
{
    for (int place = from; place < shelf->count; place++) {
        shelf->below[place]->shelf = shelf;
        shelf->below[place]->bit = ONE << place;
    }
}

/* Everything from there on moves up by one place (I3). */
static void put_below(struct shelf *shelf, int at, struct shelved *below, bool filled)
{
    uint64_t before = (ONE << at) - 1, moved = shelf->filled & ~before;
    memmove(&shelf->below[at + 1], &shelf->below[at],
            (size_t)(shelf->count - at) * sizeof(struct shelved *));
    shelf->below[at] = below;
    shelf->filled = (shelf->filled & before) | (uint64_t)filled << at | moved << 1;
    shelf->count++;
    tell_places(shelf, at);
}

/* How many of what lies in a shelf begin at this size or below it. */
static int count_up_to(const struct shelf *shelf, int64_t bytes)
{
    int low = 0, high = shelf->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (shelf->below[middle]->bytes <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The upper half of a full shelf becomes a shelf of its own, after it in the one above. */
static void halve(struct arena *arena, struct shelf *old)
{
    enum { HALF = SHELF_PLACES / 2 };
    struct shelf *new = new_shelf(arena, old->below[HALF]->bytes), *above = old->in.shelf;
    memcpy(new->below, old->below + HALF, HALF * sizeof(struct shelved *));
    new->filled = old->filled >> HALF;
    old->filled &= (ONE << HALF) - 1;
    new->count = old->count = HALF;
    tell_places(new, 0);
    if (!old->filled)
        above->filled &= ~old->in.bit; /* I1 */
    put_below(above, __builtin_ctzll(old->in.bit) + 1, &new->in, new->filled);
}

static bool is_full(const struct shelf *shelf)
{
    return shelf->count == SHELF_PLACES;
}

static void raise_root(struct bestfit *fit)
{
    struct shelf *below = fit->root;
    fit->root = new_shelf(fit->arena, 0);
    fit->levels++;
    put_below(fit->root, 0, &below->in, below->filled);
}

static struct shelf *next_shelf(const struct shelf *shelf, int64_t bytes)
{
    return (struct shelf *)shelf->below[count_up_to(shelf, bytes) - 1];
}

/* The lowest shelf for a size; it has a place, and so has every shelf on the way. */
static struct shelf *shelf_for(struct bestfit *fit, int64_t bytes)
{
    if (is_full(fit->root))
        raise_root(fit);
    struct shelf *shelf = fit->root;
    for (int level = fit->levels; level > 0; level--) {
        if (is_full(next_shelf(shelf, bytes)))
            halve(fit->arena, next_shelf(shelf, bytes));
        shelf = next_shelf(shelf, bytes);
    }
    return shelf;
}

static struct size_class *add_class(struct bestfit *fit, int64_t bytes)
{
    struct shelf *shelf = shelf_for(fit, bytes);
    struct size_class *class = ARENA_NEW(fit->arena, struct size_class);
    class->in.bytes = bytes;
    put_below(shelf, count_up_to(shelf, bytes), &class->in, false);
    return class;
}

struct size_class *bestfit_class_by_map(struct bestfit *fit, int64_t bytes)
{
    int64_t *class = hash_at(&fit->class_of, fit->arena, (uint64_t)bytes / UNIT_BYTES << 1);
    if (*class < 0)
        *class = (int64_t)(uintptr_t)add_class(fit, bytes);
    return (struct size_class *)(uintptr_t)*class;
}

/* heap.c - the indexed heap of heap.h, with four children per entry. */
#include "base/base.h"

#include <string.h>

enum { CHILDREN = 4 };

struct heap heap_new(struct arena *keep, int32_t ids)
{
    struct heap heap = {.arena = keep, .place = ARENA_ARRAY(keep, int32_t, (size_t)ids)};
    memset(heap.place, -1, (size_t)ids * sizeof *heap.place);
    return heap;
}

struct heap heap_beside(const struct heap *other)
{
    return (struct heap){.arena = other->arena, .place = other->place};
}

static bool before(struct heap_entry a, struct heap_entry b)
{
    /* I1; without a branch to predict */
    return (a.key < b.key) | ((a.key == b.key) & (a.id < b.id));
}

static int32_t lesser(const struct heap *heap, int32_t a, int32_t b)
{
    return before(heap->slot.data[b], heap->slot.data[a]) ? b : a;
}

static void put(struct heap *heap, int32_t i, struct heap_entry entry)
{
    heap->slot.data[i] = entry;
    heap->place[entry.id] = i;
}

static void rise(struct heap *heap, int32_t i, struct heap_entry entry)
{
    while (i > 0 && before(entry, heap->slot.data[(i - 1) / CHILDREN])) {
        put(heap, i, heap->slot.data[(i - 1) / CHILDREN]);
        i = (i - 1) / CHILDREN;
    }
    put(heap, i, entry);
}

static int32_t least_child(const struct heap *heap, int32_t i)
{
    int32_t first = i * CHILDREN + 1, count = (int32_t)heap->slot.len;
    if (first + CHILDREN <= count)
        return lesser(heap, lesser(heap, first, first + 1), lesser(heap, first + 2, first + 3));
    int32_t least = first;
    for (int32_t c = first + 1; c < count; c++)
        least = lesser(heap, least, c);
    return least;
}

static void sink(struct heap *heap, int32_t i, struct heap_entry entry)
{
    while (i * CHILDREN + 1 < (int32_t)heap->slot.len) {
        int32_t child = least_child(heap, i);
        if (!before(heap->slot.data[child], entry))
            break;
        put(heap, i, heap->slot.data[child]);
        i = child;
    }
    put(heap, i, entry);
}

static void settle(struct heap *heap, int32_t i, struct heap_entry entry)
{
    if (i > 0 && before(entry, heap->slot.data[(i - 1) / CHILDREN]))
        rise(heap, i, entry);
    else
        sink(heap, i, entry);
}

void heap_set(struct heap *heap, int32_t id, int64_t key)
{
    struct heap_entry entry = {key, id};
    int32_t i = heap->place[id];
    if (i >= 0) {
        settle(heap, i, entry);
        return;
    }
    array_push(heap->arena, &heap->slot, entry);
    rise(heap, (int32_t)heap->slot.len - 1, entry);
}

void heap_remove(struct heap *heap, int32_t id)
{
    int32_t i = heap->place[id];
    if (i < 0)
        return;
    struct heap_entry last = heap->slot.data[--heap->slot.len];
    if (i < (int32_t)heap->slot.len)
        settle(heap, i, last);
    heap->place[id] = -1;
}

void heap_clear(struct heap *heap)
{
    while (heap->slot.len)
        heap->place[heap->slot.data[--heap->slot.len].id] = -1;
}

struct heap_entry heap_pop(struct heap *heap)
{
    struct heap_entry top = heap->slot.data[0];
    heap_remove(heap, top.id);
    return top;
}

#include "sim/heap.h"

enum { CHILDREN = 4 };

struct heap heap_new(struct arena *keep, int32_t ids)
{
    struct heap heap = {ARENA_ARRAY(keep, struct heap_entry, (size_t)ids),
                        ARENA_ARRAY(keep, int32_t, (size_t)ids), 0};
    for (int32_t i = 0; i < ids; i++)
        heap.place[i] = -1;
    return heap;
}

static bool before(struct heap_entry a, struct heap_entry b)
{
    return a.key < b.key || (a.key == b.key && a.id < b.id); /* I1 */
}

static void put(struct heap *heap, int32_t i, struct heap_entry entry)
{
    heap->slot[i] = entry;
    heap->place[entry.id] = i;
}

static void rise(struct heap *heap, int32_t i, struct heap_entry entry)
{
    while (i > 0 && before(entry, heap->slot[(i - 1) / CHILDREN])) {
        put(heap, i, heap->slot[(i - 1) / CHILDREN]);
        i = (i - 1) / CHILDREN;
    }
    put(heap, i, entry);
}

static int32_t least_child(const struct heap *heap, int32_t i)
{
    int32_t first = i * CHILDREN + 1, least = first;
    for (int32_t c = first + 1; c < first + CHILDREN && c < heap->count; c++)
        if (before(heap->slot[c], heap->slot[least]))
            least = c;
    return least;
}

static void sink(struct heap *heap, int32_t i, struct heap_entry entry)
{
    while (i * CHILDREN + 1 < heap->count) {
        int32_t child = least_child(heap, i);
        if (!before(heap->slot[child], entry))
            break;
        put(heap, i, heap->slot[child]);
        i = child;
    }
    put(heap, i, entry);
}

static void settle(struct heap *heap, int32_t i, struct heap_entry entry)
{
    if (i > 0 && before(entry, heap->slot[(i - 1) / CHILDREN]))
        rise(heap, i, entry);
    else
        sink(heap, i, entry);
}

void heap_set(struct heap *heap, int32_t id, int64_t key)
{
    struct heap_entry entry = {key, id};
    int32_t i = heap->place[id];
    if (i < 0)
        rise(heap, heap->count++, entry);
    else
        settle(heap, i, entry);
}

void heap_remove(struct heap *heap, int32_t id)
{
    int32_t i = heap->place[id];
    if (i < 0)
        return;
    struct heap_entry last = heap->slot[--heap->count];
    if (i < heap->count)
        settle(heap, i, last);
    heap->place[id] = -1;
}

void heap_clear(struct heap *heap)
{
    while (heap->count)
        heap->place[heap->slot[--heap->count].id] = -1;
}

struct heap_entry heap_pop(struct heap *heap)
{
    struct heap_entry top = heap->slot[0];
    heap_remove(heap, top.id);
    return top;
}

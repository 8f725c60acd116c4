/* heap.h - an indexed heap: finds the smallest (key, id), with one entry per id.
 *
 *   I1  The order is total: equal keys are ordered by id, so what comes out does not depend on the
 *       order of insertion.
 *   I2  slot[i]'s parent is slot[(i - 1) / 4]; place[id] is the slot of id, or -1.
 */
#ifndef WEFT_BASE_HEAP_H
#define WEFT_BASE_HEAP_H

struct heap_entry {
    int64_t key;
    int32_t id;
};
struct heap {
    struct arena *arena;
    ARRAY(struct heap_entry) slot;
    int32_t *place; /* per id */
};

struct heap heap_new(struct arena *keep, int32_t ids);
/* Another heap over the same ids that shares `place`: each id is in at most one of the two. */
struct heap heap_beside(const struct heap *other);
/* inserts the id, or moves it to its new key */
void heap_set(struct heap *heap, int32_t id, int64_t key);
/* does nothing if the id is not in the heap */
void heap_remove(struct heap *heap, int32_t id);
void heap_clear(struct heap *heap);
struct heap_entry heap_pop(struct heap *heap); /* the heap must not be empty */

#endif

/* heap.h - an indexed heap: the smallest (key, id) of entries, one per id.
 *
 *   I1  Order is total: equal keys are ordered by id, so that what comes out does not depend on the
 *       order in which things went in.
 *   I2  slot[i]'s parent is slot[(i - 1) / 4]; place[id] is where id stands, or -1.
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
/* Another for the same ids, each of which is in at most one of the two. */
struct heap heap_beside(const struct heap *other);
void heap_set(struct heap *heap, int32_t id, int64_t key); /* inserts, or moves to its new key */
void heap_remove(struct heap *heap, int32_t id);           /* nothing where it is not in */
void heap_clear(struct heap *heap);
struct heap_entry heap_pop(struct heap *heap); /* of a heap that is not empty */

#endif

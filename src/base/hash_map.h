/* hash_map.h - a map from 64-bit hashes to numbers: open addressing with linear probing.
 *
 *   the search for a key begins at slot floor(key * G / 2^64 * slots), G = 2^64 / golden ratio,
 *   and goes on until the key or a free slot is found                                         (1)
 *
 *   I1  The number of slots is a power of two and at most half of them are used, so (1) ends.
 *   I2  A key is a hash with its lowest bit set: 0 marks a free slot. The functions without `same`
 *       take equal keys for equal entries; the others ask `same` whenever keys are equal.
 *   I3  Nothing iterates over the slots, so their order affects no answer.
 *   I4  A map that is all zero is empty. Its memory belongs to its arena.
 */
#ifndef WEFT_BASE_HASH_MAP_H
#define WEFT_BASE_HASH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

struct hash_slot {
    uint64_t key; /* 0: free */
    int64_t value;
};
struct hash_map {
    struct hash_slot *slot;
    size_t slots, used;
    int shift; /* 64 - log2 slots */
};

/* Whether entry number `value` of `things` is the one that is looked for. */
typedef bool (*hash_same)(const void *things, int64_t value, const void *wanted);

void hash_map_grow(struct hash_map *map, struct arena *arena);

/* (1): the slot of an entry, or the free slot where it belongs. With `same` NULL the key alone
 * decides. */
static inline struct hash_slot *hash_slot_of(const struct hash_map *map, uint64_t key,
                                             hash_same same, const void *things, const void *wanted)
{
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> map->shift);
    for (;; at = (at + 1) & (map->slots - 1)) {
        struct hash_slot *slot = &map->slot[at];
        if (!slot->key || (slot->key == key && (!same || same(things, slot->value, wanted))))
            return slot;
    }
}

/* The value of an entry; -1: it is not in the map. */
static inline int64_t hash_get_same(const struct hash_map *map, uint64_t hash, hash_same same,
                                    const void *things, const void *wanted)
{
    if (map->slots == 0)
        return -1;
    const struct hash_slot *slot = hash_slot_of(map, hash | 1, same, things, wanted);
    return slot->key ? slot->value : -1;
}

static inline int64_t hash_get(const struct hash_map *map, uint64_t hash)
{
    return hash_get_same(map, hash, NULL, NULL, NULL);
}

/* A pointer to the value of an entry, valid until the next call. A missing entry is added with the
 * value -1; if `same` reads entries by their values, the caller must set the value before the next
 * call. */
static inline int64_t *hash_at_same(struct hash_map *map, struct arena *arena, uint64_t hash,
                                    hash_same same, const void *things, const void *wanted)
{
    if (2 * (map->used + 1) > map->slots)
        hash_map_grow(map, arena);
    struct hash_slot *slot = hash_slot_of(map, hash | 1, same, things, wanted);
    if (!slot->key) {
        *slot = (struct hash_slot){hash | 1, -1};
        map->used++;
    }
    return &slot->value;
}

static inline int64_t *hash_at(struct hash_map *map, struct arena *arena, uint64_t hash)
{
    return hash_at_same(map, arena, hash, NULL, NULL, NULL);
}

#endif

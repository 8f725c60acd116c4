/* hashes.h - hashes of 64 bits, and tables by them; private to the room.
 *
 *   I1  A key is its hash: two things of one hash are the same to a table.
 */
#ifndef WEFT_SIM_HASHES_H
#define WEFT_SIM_HASHES_H

#include "base/base.h"

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u + b; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

struct hash_slot {
    uint64_t key; /* 0: free */
    int64_t value;
};
/* All zero is an empty one. */
struct hash_table {
    struct hash_slot *slot;
    size_t slots, used;
};

static inline struct hash_slot *hash_find(const struct hash_table *table, uint64_t key)
{
    size_t at = key & (table->slots - 1);
    while (table->slot[at].key && table->slot[at].key != key)
        at = (at + 1) & (table->slots - 1);
    return &table->slot[at];
}

static inline void hash_grow(struct hash_table *table, struct arena *arena)
{
    struct hash_table grown = {.slots = table->slots ? 2 * table->slots : 256, .used = table->used};
    grown.slot = ARENA_ARRAY(arena, struct hash_slot, grown.slots);
    for (size_t i = 0; i < table->slots; i++)
        if (table->slot[i].key)
            *hash_find(&grown, table->slot[i].key) = table->slot[i];
    *table = grown;
}

/* The value of a key, until the next call; a new one is -1. */
static inline int64_t *hash_value(struct hash_table *table, struct arena *arena, uint64_t key)
{
    if (2 * (table->used + 1) > table->slots)
        hash_grow(table, arena);
    struct hash_slot *slot = hash_find(table, key | 1);
    if (!slot->key) {
        *slot = (struct hash_slot){key | 1, -1};
        table->used++;
    }
    return &slot->value;
}

#endif

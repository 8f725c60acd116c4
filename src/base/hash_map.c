/* hash_map.c - how the hash map of hash_map.h grows. */
#include "base/base.h"

enum { FIRST_BITS = 5 };

static bool never(const void *things, int64_t value, const void *wanted)
{
    (void)things, (void)value, (void)wanted;
    return false;
}

/* Entries with equal keys are different entries, so each goes to the next free slot. */
void hash_map_grow(struct hash_map *map, struct arena *arena)
{
    struct hash_map grown = {.slots = map->slots ? 2 * map->slots : 1 << FIRST_BITS,
                             .used = map->used,
                             .shift = map->slots ? map->shift - 1 : 64 - FIRST_BITS};
    grown.slot = ARENA_ARRAY(arena, struct hash_slot, grown.slots);
    for (size_t i = 0; i < map->slots; i++)
        if (map->slot[i].key)
            *hash_slot_of(&grown, map->slot[i].key, never, NULL, NULL) = map->slot[i];
    *map = grown;
}

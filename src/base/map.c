/* map.c - text to integer: open addressing, linear probing, at most half full. */
#include "base/base.h"

#include <string.h>

struct slot {
    const char *key;
    uint64_t hash;
    int64_t value;
};

struct map {
    struct arena *arena;
    struct slot *slots;
    size_t size, used; /* size is a power of two */
};

struct map *map_new(struct arena *arena)
{
    struct map *map = ARENA_NEW(arena, struct map);
    map->arena = arena;
    map->size = 16;
    map->slots = ARENA_ARRAY(arena, struct slot, map->size);
    return map;
}

static struct slot *find(const struct map *map, const char *key, uint64_t hash)
{
    for (size_t i = hash & (map->size - 1);; i = (i + 1) & (map->size - 1)) {
        struct slot *slot = &map->slots[i];
        if (!slot->key || (slot->hash == hash && strcmp(slot->key, key) == 0))
            return slot;
    }
}

static void grow(struct map *map)
{
    struct slot *old = map->slots;
    size_t old_size = map->size;
    map->size *= 2;
    map->slots = ARENA_ARRAY(map->arena, struct slot, map->size);
    for (size_t i = 0; i < old_size; i++)
        if (old[i].key)
            *find(map, old[i].key, old[i].hash) = old[i];
}

bool map_put(struct map *map, const char *key, int64_t value)
{
    uint64_t hash = hash_bytes(key, strlen(key), 0);
    struct slot *slot = find(map, key, hash);
    if (slot->key) {
        slot->value = value;
        return false;
    }
    *slot = (struct slot){arena_copy_text(map->arena, key), hash, value};
    if (++map->used * 2 > map->size)
        grow(map);
    return true;
}

bool map_get(const struct map *map, const char *key, int64_t *value)
{
    const struct slot *slot = find(map, key, hash_bytes(key, strlen(key), 0));
    if (!slot->key)
        return false;
    *value = slot->value;
    return true;
}

/* map.c - a map from text to integers, built on a hash map of the entries' numbers. */
#include "base/base.h"

#include <string.h>

struct map_entry {
    const char *key;
    int64_t value;
};

struct map {
    struct arena *arena;
    ARRAY(struct map_entry) entries;
    struct hash_map numbers;
};

struct map *map_new(struct arena *arena)
{
    struct map *map = ARENA_NEW(arena, struct map);
    map->arena = arena;
    return map;
}

static bool same_text(const void *entries, int64_t number, const void *key)
{
    const struct map_entry *entry = entries;
    return strcmp(entry[number].key, key) == 0;
}

bool map_put(struct map *map, const char *key, int64_t value)
{
    uint64_t hash = hash_bytes(key, strlen(key), 0);
    int64_t *number =
        hash_at_same(&map->numbers, map->arena, hash, same_text, map->entries.data, key);
    if (*number >= 0) {
        map->entries.data[*number].value = value;
        return false;
    }
    *number = (int64_t)map->entries.len;
    struct map_entry entry = {arena_copy_text(map->arena, key), value};
    array_push(map->arena, &map->entries, entry);
    return true;
}

bool map_get(const struct map *map, const char *key, int64_t *value)
{
    uint64_t hash = hash_bytes(key, strlen(key), 0);
    int64_t number = hash_get_same(&map->numbers, hash, same_text, map->entries.data, key);
    if (number >= 0)
        *value = map->entries.data[number].value;
    return number >= 0;
}

/* reserved_cache.c - a map from hashes of replays to what they reserved (reserved_cache.h). */
#include "sim/reserved_cache.h"

#include <pthread.h>

struct reserved_cache {
    struct arena *arena; /* owns the cache itself, too */
    pthread_mutex_t lock;
    struct hash_map bytes;
};

static void drop_lock(void *lock)
{
    pthread_mutex_destroy(lock);
}

struct reserved_cache *reserved_cache_new(void)
{
    struct arena *arena = arena_new();
    struct reserved_cache *cache = ARENA_NEW(arena, struct reserved_cache);
    cache->arena = arena;
    pthread_mutex_init(&cache->lock, NULL);
    arena_own(arena, drop_lock, &cache->lock);
    return cache;
}

void reserved_cache_free(struct reserved_cache *cache)
{
    if (cache)
        arena_free(cache->arena);
}

int64_t reserved_known(struct reserved_cache *cache, uint64_t key)
{
    pthread_mutex_lock(&cache->lock);
    int64_t bytes = hash_get(&cache->bytes, key);
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}

void reserved_keep(struct reserved_cache *cache, uint64_t key, int64_t bytes)
{
    struct hold hold;
    pthread_mutex_lock(&cache->lock);
    hold_push(&hold, hold_unlock, &cache->lock);
    *hash_at(&cache->bytes, cache->arena, key) = bytes;
    hold_pop(&hold);
    pthread_mutex_unlock(&cache->lock);
}

/* reserved_cache.c - a table from hashes of replays to what they reserved (reserved_cache.h).
 *
 *   I1  It never grows: an entry takes the place of the one that was in its slot, which is replayed when it is asked for
 *       again. It can serve as long as a server runs.
 */
#include "sim/reserved_cache.h"

#include <pthread.h>

enum { SLOTS = 1 << 16 }; /* 1 MiB; a search has some thousand different stages */

struct reserved_cache {
    struct arena *arena; /* owns the cache itself, too */
    pthread_mutex_t lock;
    struct replayed {
        uint64_t key; /* 0: none */
        int64_t bytes;
    } *slot;
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
    cache->slot = ARENA_ARRAY(arena, struct replayed, SLOTS);
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
    struct replayed kept = cache->slot[key % SLOTS];
    pthread_mutex_unlock(&cache->lock);
    return kept.key == key ? kept.bytes : -1;
}

void reserved_keep(struct reserved_cache *cache, uint64_t key, int64_t bytes)
{
    pthread_mutex_lock(&cache->lock);
    cache->slot[key % SLOTS] = (struct replayed){key, bytes};
    pthread_mutex_unlock(&cache->lock);
}

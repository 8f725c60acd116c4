/* work_times.c - a table from work to its times (work_times.h). */
#include "cost/work_times.h"

#include <pthread.h>
#include <string.h>

/* 95 of 100 questions of DeepSeek-V3 on 2,048 H100 find their work in so many rows; in 1 << 10, 82 do. */
enum { ROWS = 1 << 13 };
enum { WORDS = 1 + WORK_MAX_SHAPE + 3 };

/* Everything that work is, without what lies between its fields. */
struct work_key {
    int64_t word[WORDS];
};
struct work_times {
    pthread_mutex_t lock;
    struct known_work {
        struct work_key key; /* all 0: none */
        struct kernel_cost cost;
    } *row[ROWS];
    struct arena *arena;
};

static struct work_key key_of(const struct work *work)
{
    const double sizes[] = {work->flops, work->read_bytes, work->write_bytes};
    struct work_key key;
    key.word[0] =
        (int64_t)work->kernel + 1 + ((int64_t)work->phase << 16) + ((int64_t)work->dtype << 32);
    memcpy(&key.word[1], work->shape, sizeof work->shape);
    memcpy(&key.word[1 + WORK_MAX_SHAPE], sizes, sizeof sizes);
    return key;
}

static struct known_work **row_of(struct work_times *times, const struct work_key *key)
{
    return &times->row[hash_bytes(key, sizeof *key, 19) % ROWS];
}

static void drop_lock(void *lock)
{
    pthread_mutex_destroy(lock);
}

struct work_times *work_times_new(struct arena *keep)
{
    struct work_times *times = ARENA_NEW(keep, struct work_times);
    times->arena = keep;
    pthread_mutex_init(&times->lock, NULL);
    arena_own(keep, drop_lock, &times->lock);
    return times;
}

bool work_times_find(struct work_times *times, const struct work *work, struct kernel_cost *out)
{
    struct work_key key = key_of(work);
    pthread_mutex_lock(&times->lock);
    const struct known_work *known = *row_of(times, &key);
    bool found = known && memcmp(&known->key, &key, sizeof key) == 0;
    if (found)
        *out = known->cost;
    pthread_mutex_unlock(&times->lock);
    return found;
}

void work_times_keep(struct work_times *times, const struct work *work,
                     const struct kernel_cost *cost)
{
    struct work_key key = key_of(work);
    struct hold hold; /* memory may run out (request.c, I2) */
    pthread_mutex_lock(&times->lock);
    hold_push(&hold, hold_unlock, &times->lock);
    struct known_work **row = row_of(times, &key);
    if (!*row)
        *row = ARENA_NEW(times->arena, struct known_work);
    **row = (struct known_work){key, *cost};
    hold_pop(&hold);
    pthread_mutex_unlock(&times->lock);
}

/* flow_pool.c - the flows that one link holds (flow_pool.h has the equations). */
#include "sim/flow_pool.h"

#include <math.h>
#include <string.h>

static const double NOISE = 0x1p-50; /* of a mark, when D is compared with it */
static const double MOST = 16;       /* D relative to the bytes of a flow that joins (I1) */
_Static_assert(sizeof(double) == sizeof(int64_t), "marks are ordered by their bits");

static int64_t mark_key(double mark)
{
    int64_t key;
    memcpy(&key, &mark, sizeof key);
    return key;
}

static double key_mark(int64_t key)
{
    double mark;
    memcpy(&mark, &key, sizeof mark);
    return mark;
}

static void advance(struct flow_pool *pool, int64_t now)
{
    pool->moved += pool->speed * (double)(now - pool->since_ns); /* (1) */
    pool->since_ns = now;
    if (!pool->marks.slot.len)
        pool->moved = 0; /* I1 */
}

/* Resets D to 0 and lowers the marks; rounding does not change their order. */
static void start_anew(struct flow_pool *pool)
{
    for (size_t i = 0; i < pool->marks.slot.len; i++) {
        struct heap_entry *entry = &pool->marks.slot.data[i];
        entry->key = mark_key(fmax(key_mark(entry->key) - pool->moved, 0));
    }
    pool->moved = 0;
}

void flow_pool_join(struct flow_pool *pool, int32_t id, double left, double bytes, int64_t now)
{
    advance(pool, now);
    if (pool->moved > MOST * bytes)
        start_anew(pool);
    heap_set(&pool->marks, id, mark_key(pool->moved + fmax(left, 0)));
}

double flow_pool_leave(struct flow_pool *pool, int32_t id, int64_t now)
{
    advance(pool, now);
    double left = key_mark(pool->marks.slot.data[pool->marks.place[id]].key) - pool->moved;
    heap_remove(&pool->marks, id);
    return left;
}

void flow_pool_set_speed(struct flow_pool *pool, double speed, int64_t now)
{
    advance(pool, now);
    pool->speed = speed;
}

int64_t flow_pool_due_ns(struct flow_pool *pool, int64_t now)
{
    advance(pool, now);
    if (!pool->marks.slot.len)
        return INT64_MAX;
    double ns = ceil((key_mark(pool->marks.slot.data[0].key) - pool->moved) / pool->speed);
    return now + (ns < 1 ? 1 : (int64_t)ns);
}

int32_t flow_pool_take(struct flow_pool *pool, int64_t now)
{
    advance(pool, now);
    if (!pool->marks.slot.len || key_mark(pool->marks.slot.data[0].key) * (1 - NOISE) > pool->moved)
        return -1;
    return heap_pop(&pool->marks).id;
}

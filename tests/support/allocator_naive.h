/* allocator_naive.h - the allocator again, as slow as it is plain: what is live and what memory the
 * device gave are two lists, and everything else is found by going through them anew.
 *
 * Free blocks are what is left of the memory between live blocks. Segments lie a unit apart, so that
 * only the pages of an expandable one meet; but for that they are where segments.c says. */
#ifndef WEFT_TESTS_ALLOCATOR_NAIVE_H
#define WEFT_TESTS_ALLOCATOR_NAIVE_H

#include <string.h>

#include "allocator_snapshot.h"

enum { NAIVE_MOST = 2048 };
#define NAIVE_MIB  INT64_C(1048576)
#define NAIVE_UNIT INT64_C(512)

struct naive_range {
    int64_t address, bytes;
};
struct naive_list { /* by address, none overlap */
    struct naive_range range[NAIVE_MOST];
    int count;
};
struct naive_pool {
    struct naive_list live, memory;
};
struct naive {
    struct allocator_options options;
    struct naive_pool pool[2]; /* small, large */
    struct {
        int64_t left, end;
    } chunk[NAIVE_MOST]; /* each below the one before it */
    int chunks;
    struct allocator_use use;
};

static int64_t naive_round(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static int64_t naive_behind(struct naive_range range)
{
    return range.address + range.bytes;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void naive_insert(struct naive_list *list, struct naive_range range)
{
    int at = list->count++;
    for (; at > 0 && list->range[at - 1].address > range.address; at--)
        list->range[at] = list->range[at - 1];
    list->range[at] = range;
}

static void naive_erase(struct naive_list *list, int at)
{
    list->count--;
    for (; at < list->count; at++)
        list->range[at] = list->range[at + 1];
}

static void naive_push(struct naive_list *list, struct naive_range range)
{
    if (list->count && naive_behind(list->range[list->count - 1]) == range.address)
        list->range[list->count - 1].bytes += range.bytes;
    else if (range.bytes)
        list->range[list->count++] = range;
}

/* Ranges that meet as one. */
static void naive_joined(const struct naive_list *list, struct naive_list *out)
{
    out->count = 0;
    for (int i = 0; i < list->count; i++)
        naive_push(out, list->range[i]);
}

/* What of each of `wholes` is in none of `parts`. */
static void naive_without(const struct naive_list *wholes, const struct naive_list *parts,
                          struct naive_list *out)
{
    out->count = 0;
    for (int w = 0; w < wholes->count; w++) {
        int64_t at = wholes->range[w].address, after = naive_behind(wholes->range[w]);
        for (int p = 0; p < parts->count; p++)
            if (parts->range[p].address >= at && parts->range[p].address < after) {
                struct naive_range gap = {at, parts->range[p].address - at};
                if (gap.bytes)
                    out->range[out->count++] = gap;
                at = naive_behind(parts->range[p]);
            }
        if (at < after)
            out->range[out->count++] = (struct naive_range){at, after - at};
    }
}

static void naive_free(const struct naive_pool *pool, struct naive_list *out)
{
    struct naive_list memory;
    naive_joined(&pool->memory, &memory);
    naive_without(&memory, &pool->live, out);
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool naive_reserve(struct naive *naive, int64_t bytes)
{
    int64_t limit = naive->options.limit_bytes ? naive->options.limit_bytes : INT64_MAX;
    if (bytes > limit - naive->use.reserved)
        return false;
    naive->use.reserved += bytes;
    if (naive->use.reserved > naive->use.reserved_peak)
        naive->use.reserved_peak = naive->use.reserved;
    return true;
}

static int64_t naive_segment(int64_t bytes)
{
    if (bytes <= NAIVE_MIB)
        return 2 * NAIVE_MIB;
    return bytes < 10 * NAIVE_MIB ? 20 * NAIVE_MIB : naive_round(bytes, 2 * NAIVE_MIB);
}

/* How far a free block could grow without meeting memory: "endless" past the last. */
static int64_t naive_room(const struct naive *naive, const struct naive_pool *pool,
                          struct naive_range range)
{
    int64_t next = INT64_MAX / 4;
    if (!naive->options.expandable)
        return range.bytes;
    for (int i = pool->memory.count - 1; i >= 0; i--)
        if (naive_behind(pool->memory.range[i]) > naive_behind(range))
            next = pool->memory.range[i].address;
    return next > naive_behind(range) ? next - range.address : range.bytes;
}

static bool naive_before(struct naive_range a, struct naive_range b)
{
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
}

static struct naive_range naive_find(const struct naive *naive, const struct naive_pool *pool,
                                     int64_t bytes)
{
    struct naive_list free, fits = {.count = 0};
    naive_free(pool, &free);
    for (int i = 0; i < free.count; i++)
        if (free.range[i].bytes >= bytes) {
            int at = fits.count++;
            for (; at > 0 && naive_before(free.range[i], fits.range[at - 1]); at--)
                fits.range[at] = fits.range[at - 1];
            fits.range[at] = free.range[i];
        }
    int best = 0;
    while (best + 1 < fits.count && naive_room(naive, pool, fits.range[best + 1]) <
                                        naive_room(naive, pool, fits.range[best]))
        best++;
    return fits.count ? fits.range[best] : (struct naive_range){0, 0};
}

static int64_t naive_place(struct naive *naive, int64_t bytes)
{
    int best = -1;
    for (int i = 0; i < naive->chunks; i++)
        if (naive->chunk[i].left >= bytes)
            best = i;
    if (best < 0) {
        best = naive->chunks++;
        naive->chunk[best].left = naive_round(bytes, 32 * NAIVE_MIB);
        naive->chunk[best].end = INT64_MAX / 8 - best * (INT64_C(1) << 40);
    }
    naive->chunk[best].left -= bytes;
    naive->chunk[best].end += bytes + NAIVE_UNIT;
    return naive->chunk[best].end - bytes - NAIVE_UNIT;
}

static struct naive_range naive_new_segment(struct naive *naive, struct naive_pool *pool,
                                            int64_t bytes)
{
    struct naive_range segment = {0, naive_segment(bytes)};
    if (!naive_reserve(naive, segment.bytes))
        return (struct naive_range){0, 0};
    segment.address = naive_place(naive, segment.bytes);
    naive_insert(&pool->memory, segment);
    return segment;
}

static bool naive_has_page(const struct naive_pool *pool, int64_t address)
{
    for (int i = 0; i < pool->memory.count; i++)
        if (pool->memory.range[i].address == address)
            return true;
    return false;
}

static bool naive_overlaps_live(const struct naive_pool *pool, struct naive_range range)
{
    for (int i = 0; i < pool->live.count; i++)
        if (pool->live.range[i].address < naive_behind(range) &&
            naive_behind(pool->live.range[i]) > range.address)
            return true;
    return false;
}

/* Where the free block or the live one before `address` ends: a place to grow from. */
static int64_t naive_start(const struct naive_pool *pool, int64_t address)
{
    struct naive_list free;
    naive_free(pool, &free);
    for (int i = 0; i < free.count; i++)
        if (naive_behind(free.range[i]) == address)
            return free.range[i].address;
    return address;
}

/* The missing pages of a range; those between two that are there come or fail together. */
static bool naive_fill(struct naive *naive, struct naive_pool *pool, struct naive_range range,
                       int64_t page)
{
    for (int64_t at = range.address / page * page; at < naive_behind(range); at += page) {
        int64_t after = at;
        while (after < naive_behind(range) && !naive_has_page(pool, after))
            after += page;
        if (after > at && !naive_reserve(naive, after - at))
            return false;
        for (int64_t p = at; p < after; p += page)
            naive_insert(&pool->memory, (struct naive_range){p, page});
    }
    return true;
}

static struct naive_range naive_expand(struct naive *naive, struct naive_pool *pool, int64_t bytes)
{
    int64_t page = (pool == &naive->pool[0] ? 2 : 20) * NAIVE_MIB, hole = 0;
    struct naive_range range;
    for (;; hole += page) { /* holes page by page: a later page of one never begins earlier */
        if (naive_has_page(pool, hole))
            continue;
        range = (struct naive_range){naive_start(pool, hole), bytes};
        if (!naive_overlaps_live(pool, range))
            break;
    }
    return naive_fill(naive, pool, range, page) ? range : (struct naive_range){0, 0};
}

static struct naive_range naive_grow(struct naive *naive, struct naive_pool *pool, int64_t bytes)
{
    return naive->options.expandable ? naive_expand(naive, pool, bytes)
                                     : naive_new_segment(naive, pool, bytes);
}

static void naive_release(struct naive *naive)
{
    for (int k = 0; k < 2; k++) {
        struct naive_pool *pool = &naive->pool[k];
        for (int i = pool->memory.count - 1; i >= 0; i--)
            if (!naive_overlaps_live(pool, pool->memory.range[i])) {
                naive->use.reserved -= pool->memory.range[i].bytes;
                naive_erase(&pool->memory, i);
            }
    }
}

/* The block's address, -1: no room. */
static int64_t naive_take(struct naive *naive, int64_t bytes)
{
    int64_t need = naive_round(bytes, NAIVE_UNIT);
    bool small = need <= NAIVE_MIB;
    struct naive_pool *pool = &naive->pool[!small];
    struct naive_range block = naive_find(naive, pool, need);
    if (!block.bytes)
        block = naive_grow(naive, pool, need);
    if (!block.bytes) {
        naive_release(naive);
        naive->use.retries++;
        block = naive_grow(naive, pool, need);
    }
    if (!block.bytes)
        return -1;
    if (small || naive->options.expandable || block.bytes - need > NAIVE_MIB)
        block.bytes = need;
    naive_insert(&pool->live, block);
    naive->use.allocated += block.bytes;
    if (naive->use.allocated > naive->use.allocated_peak)
        naive->use.allocated_peak = naive->use.allocated;
    return block.address;
}

static void naive_give(struct naive *naive, int64_t bytes, int64_t address)
{
    struct naive_list *live = &naive->pool[naive_round(bytes, NAIVE_UNIT) > NAIVE_MIB].live;
    int at = 0;
    while (live->range[at].address != address)
        at++;
    naive->use.allocated -= live->range[at].bytes;
    naive_erase(live, at);
}

/* Every block as allocator_snapshot has them, but for the addresses. Returns how many. */
static int naive_snapshot(const struct naive *naive, struct allocator_block *out)
{
    int count = 0;
    for (int k = 0; k < 2; k++) {
        const struct naive_pool *pool = &naive->pool[k];
        struct naive_list free;
        naive_free(pool, &free);
        int64_t after = -1;
        for (int f = 0, l = 0; f < free.count || l < pool->live.count;) {
            bool live = f == free.count || (l < pool->live.count &&
                                            pool->live.range[l].address < free.range[f].address);
            struct naive_range range = live ? pool->live.range[l++] : free.range[f++];
            out[count++] = (struct allocator_block){range.address, range.bytes, k == 0, live,
                                                    range.address != after};
            after = naive_behind(range);
        }
    }
    return count;
}

#endif

/* arena.c - memory that is freed all at once.
 *
 *   I1  Chunks double up to LARGEST_CHUNK. What is not used of the last one is memory that the system has cleared for
 *       nothing, as huge pages are cleared whole: of large arenas that is little, too.
 *   I2  Everything handed out is zeroed and aligned for any type; a large request is aligned to a
 *       cache line.
 *   I3  An allocation returns memory or does not return: where no memory is left, or the request
 *       has reached its limit, the request ends (request.c).
 *   I4  Under the address sanitizer nothing else of a chunk may be read or written: there is a guard after everything that is
 *       handed out, and a growing array moves.
 */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena_room.h"

enum {
    FIRST_CHUNK = 4096, /* bytes with its header, as in chunks.c */
    LARGEST_CHUNK = 512 << 10,
    ALIGNMENT = alignof(max_align_t),
    LARGE = 4096, /* bytes from which a request counts as large (I2) */
    CACHE_LINE = 64
};
struct owned {
    void (*drop)(void *what);
    void *what;
    struct owned *older;
};

struct arena *arena_new(void)
{
    struct arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        memory_ran_out(sizeof *arena);
    arena->next_size = FIRST_CHUNK;
    request_add(arena);
    return arena;
}

void arena_own(struct arena *arena, void (*drop)(void *what), void *what)
{
    struct owned *owned = ARENA_NEW(arena, struct owned);
    *owned = (struct owned){drop, what, arena->owned};
    arena->owned = owned;
}

void arena_drop_owned(struct arena *arena)
{
    while (arena->owned) {
        struct owned *owned = arena->owned;
        arena->owned = owned->older;
        owned->drop(owned->what);
    }
}

void arena_release(struct arena *arena)
{
    for (struct chunk *chunk = arena->newest, *older; chunk; chunk = older) {
        older = chunk->older;
        ASAN_UNPOISON_MEMORY_REGION(chunk->bytes, chunk->size);
        chunk_give(chunk);
    }
    free(arena);
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    arena_drop_owned(arena);
    request_remove(arena);
    arena_release(arena);
}

size_t arena_bytes(const struct arena *arena)
{
    return arena->handed_out;
}

static void add_chunk(struct arena *arena, size_t bytes)
{
    size_t usual = arena->next_size - sizeof(struct chunk), size = bytes > usual ? bytes : usual;
    request_charge(arena, sizeof(struct chunk) + size);
    struct chunk *chunk = chunk_take(size);
    if (!chunk)
        memory_ran_out(size);
    ASAN_POISON_MEMORY_REGION(chunk->bytes, chunk->size); /* I4 */
    arena->held += sizeof *chunk + size;
    chunk->older = arena->newest;
    arena->newest = chunk;
    if (arena->next_size < LARGEST_CHUNK)
        arena->next_size *= 2; /* I1 */
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t asked;
    if (__builtin_mul_overflow(count, size, &asked) || asked > SIZE_MAX / 2)
        memory_ran_out(SIZE_MAX);
    size_t alignment = asked < LARGE ? ALIGNMENT : CACHE_LINE;
    size_t bytes = (asked + alignment - 1) & ~(alignment - 1), most = bytes + GUARD + alignment;
    if (!arena->newest || arena->newest->size - arena->newest->used < most)
        add_chunk(arena, most);
    char *memory = arena->newest->bytes + arena->newest->used;
    memory += -(uintptr_t)memory & (alignment - 1);
    ASAN_UNPOISON_MEMORY_REGION(memory, asked);
    arena->newest->used = (size_t)(memory + bytes + GUARD - arena->newest->bytes);
    arena->handed_out += bytes;
    return memory;
}

char *arena_copy_bytes(struct arena *arena, const char *bytes, size_t len)
{
    char *copy = arena_alloc(arena, len + 1, 1);
    memcpy(copy, bytes, len);
    return copy;
}

char *arena_copy_text(struct arena *arena, const char *text)
{
    return arena_copy_bytes(arena, text, strlen(text));
}

char *arena_vprintf(struct arena *arena, const char *fmt, va_list args)
{
    char usual[256]; /* bytes: what is longer is written twice */
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(usual, sizeof usual, fmt, args);
    size_t size = len < 0 ? 1 : (size_t)len + 1;
    char *text = arena_alloc(arena, size, 1);
    if (len >= 0 && size <= sizeof usual)
        memcpy(text, usual, size);
    else
        vsnprintf(text, size, fmt, again);
    va_end(again);
    return text;
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = arena_vprintf(arena, fmt, args);
    va_end(args);
    return text;
}

/* What the arena handed out last becomes larger where it is, if its chunk has room; false: it has not. */
static bool extend_last(struct arena *arena, const char *last, size_t bytes, size_t larger)
{
    struct chunk *chunk = arena->newest;
    size_t alignment = larger < LARGE ? ALIGNMENT : CACHE_LINE;
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    larger = (larger + alignment - 1) & ~(alignment - 1);
    if (GUARD > 0 || !last || last + bytes != chunk->bytes + chunk->used ||
        (uintptr_t)last % alignment || chunk->size - chunk->used < larger - bytes)
        return false;
    chunk->used += larger - bytes;
    arena->handed_out += larger - bytes;
    return true;
}

void *array_widen(struct arena *arena, void *data, size_t *cap, size_t count, size_t element_size)
{
    size_t bytes = *cap * element_size, larger;
    if (__builtin_mul_overflow(count, element_size, &larger) || larger > SIZE_MAX / 2)
        memory_ran_out(SIZE_MAX);
    *cap = count;
    if (extend_last(arena, data, bytes, larger))
        return data;
    void *grown = arena_alloc(arena, count, element_size);
    if (bytes)
        memcpy(grown, data, bytes);
    return grown;
}

void *array_grow(struct arena *arena, void *data, size_t *cap, size_t element_size)
{
    return array_widen(arena, data, cap, *cap ? *cap * 2 : 8, element_size);
}

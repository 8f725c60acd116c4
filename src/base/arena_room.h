/* arena_room.h - the struct behind an arena, for arena.c, which fills it, for chunks.c, which has its memory, and for
 * request.c, which frees all arenas of a request. Private to the room. */
#ifndef WEFT_BASE_ARENA_ROOM_H
#define WEFT_BASE_ARENA_ROOM_H

#include <stdalign.h>
#include <stddef.h>

#include "base/base.h"

/* Under the address sanitizer an arena leaves a guard after what it hands out (arena.c, I4). */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(WEFT_SANITIZED)
#include <sanitizer/asan_interface.h>
enum { GUARD = 16 }; /* bytes: any number that keeps the alignment shows who goes beyond an end */
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes)   ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
enum { GUARD = 0 };
#endif

/* A part of an arena's memory (chunks.c). */
struct chunk {
    struct chunk *older;
    size_t used, size;
    alignas(max_align_t) char bytes[];
};
/* A chunk of at least so many bytes, which are all 0; NULL: the system has no memory. */
struct chunk *chunk_take(size_t bytes);
void chunk_give(struct chunk *chunk);

struct owned;
struct request;
struct arena {
    struct chunk *newest;
    /* resources other than memory that are released with the arena, newest first */
    struct owned *owned;
    size_t handed_out, next_size;
    size_t held;               /* bytes of all chunks that it asked for */
    struct request *request;   /* the request that the arena belongs to; NULL: none */
    struct arena *next, *last; /* neighbours in the list of the request's arenas */
};

/* Adds a new arena to the current thread's request; removes an arena from its request. */
void request_add(struct arena *arena);
void request_remove(struct arena *arena);
/* Called before an arena gets a chunk of `bytes`. Does not return if that exceeds the request's
 * limit. */
void request_charge(struct arena *arena, size_t bytes);

void arena_drop_owned(struct arena *arena);
void arena_release(struct arena *arena); /* frees its chunks and the arena itself */

#endif

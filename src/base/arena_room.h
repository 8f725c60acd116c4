/* arena_room.h - the struct behind an arena, for arena.c, which fills it, for chunks.c, which has its memory, and for
 * request.c, which frees all arenas of a request. Private to the room. */
#ifndef WEFT_BASE_ARENA_ROOM_H
#define WEFT_BASE_ARENA_ROOM_H

#include <stdalign.h>
#include <stddef.h>

#include "base/base.h"

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

/* arena_room.h - what an arena is, for those who fill it (arena.c) and who let all of a request go
 * (request.c). Private to the room. */
#ifndef WEFT_BASE_ARENA_ROOM_H
#define WEFT_BASE_ARENA_ROOM_H

#include "base/base.h"

struct chunk;
struct owned;
struct request;
struct arena {
    struct chunk *newest;
    struct owned *owned; /* what is not memory of its own, the newest first */
    size_t handed_out, next_size;
    size_t held;               /* bytes of chunks */
    struct request *request;   /* whose it is; NULL: nobody's */
    struct arena *next, *last; /* of the same request */
};

/* Adds a new arena to the request of this thread, and takes one out of its own. */
void request_add(struct arena *arena);
void request_remove(struct arena *arena);
/* Before an arena gets a chunk of so many bytes; does not return where the request may not have them. */
void request_charge(struct arena *arena, size_t bytes);

void arena_drop_owned(struct arena *arena);
void arena_release(struct arena *arena); /* its chunks and itself */

#endif

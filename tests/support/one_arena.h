/* one_arena.h - an arena for all tests of a program, which reads the published runs of the source. */
#ifndef ONE_ARENA_H
#define ONE_ARENA_H

#include <stdlib.h>

#include "base/base.h"

static struct arena *arena;

static int make_arena(void **state)
{
    (void)state;
    setenv("WEFT_VALIDATION", WEFT_SOURCE_DIR "/data/validation", 1);
    arena = arena_new();
    return 0;
}

static int drop_arena(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

#endif

/* known_sources.h - the datasets of data/validation/sources.yaml, opened once in the test's arena. */
#ifndef WEFT_TESTS_KNOWN_SOURCES_H
#define WEFT_TESTS_KNOWN_SOURCES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "lab/lab.h"
#include "one_arena.h"

static inline const struct sources *known_sources(void)
{
    static const struct sources *sources;
    if (!sources && sources_open(arena, &sources))
        fail_msg("%s", weft_last_error()->message);
    return sources;
}

/* Measurements are read from this folder, which gets what is known about sources beside the test's own tables;
 * NULL: from the source again. */
static inline void measurements_from(const char *folder)
{
    static const char *const KNOWN[] = {"sources.yaml", "aceso.yaml", "galvatron.yaml"};
    char to[256];
    for (size_t i = 0; folder && i < COUNT_OF(KNOWN); i++) {
        snprintf(to, sizeof to, "%s/%s", folder, KNOWN[i]);
        assert_int_equal(
            symlink(arena_printf(arena, WEFT_SOURCE_DIR "/data/validation/%s", KNOWN[i]), to), 0);
    }
    setenv("WEFT_VALIDATION", folder ? folder : WEFT_SOURCE_DIR "/data/validation", 1);
}

#endif

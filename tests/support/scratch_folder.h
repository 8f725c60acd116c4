/* scratch_folder.h - a folder of a test's own, with whatever files it puts there. */
#ifndef WEFT_TESTS_SCRATCH_FOLDER_H
#define WEFT_TESTS_SCRATCH_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct scratch {
    struct arena *arena;
    char folder[64];
};

static inline int scratch_setup(void **state)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    assert_non_null(scratch);
    scratch->arena = arena_new();
    strcpy(scratch->folder, "/tmp/weft-test-XXXXXX");
    assert_non_null(mkdtemp(scratch->folder));
    *state = scratch;
    return 0;
}

static inline int remove_entry(const char *path, const struct stat *info, int kind,
                               struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int scratch_teardown(void **state)
{
    struct scratch *scratch = *state;
    remove_tree(scratch->folder);
    arena_free(scratch->arena);
    free(scratch);
    return 0;
}

static inline const char *scratch_path(const struct scratch *scratch, const char *name)
{
    return arena_printf(scratch->arena, "%s/%s", scratch->folder, name);
}

static inline const char *put_file(const struct scratch *scratch, const char *name,
                                   const void *data, size_t bytes)
{
    const char *path = scratch_path(scratch, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* The call failed, and its message ends with `message` (what stands before is the file's path). */
static inline void assert_refused(weft_status status, weft_status expected, const char *message)
{
    const char *found = weft_last_error()->message;
    size_t len = strlen(found), tail = strlen(message);
    if (status != expected || len < tail || strcmp(found + len - tail, message) != 0)
        fail_msg("status %d, expected %d\nfound    %s\nexpected %s", (int)status, (int)expected,
                 status == WEFT_OK ? "" : found, message);
}

static inline void assert_ok(weft_status status)
{
    if (status != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
}

#endif

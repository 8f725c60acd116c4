/* held_lines.h - what is read from many files, each changed in many ways, held to one file: per file a block that
 * begins with "# NAME", and a line for each change, with hashes of what is read then.
 *
 * With WEFT_RECORD the blocks are written anew. */
#ifndef WEFT_TESTS_HELD_LINES_H
#define WEFT_TESTS_HELD_LINES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "one_arena.h"
#include "rounds.h"

enum { MOST_FILES = 200 };
static const uint64_t HASH_BEGIN = 14695981039346656037U; /* FNV-1a */

static inline void hash_text(uint64_t *hash, const char *text)
{
    for (; *text; text++)
        *hash = (*hash ^ (unsigned char)*text) * 1099511628211U;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t names_in_order(const char *path, const char **name)
{
    DIR *folder = opendir(path);
    size_t count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && count < MOST_FILES;)
        if (entry->d_name[0] != '.')
            name[count++] = arena_copy_text(arena, entry->d_name);
    closedir(folder);
    qsort(name, count, sizeof *name, by_name);
    return count;
}

/* Says which lines of a block are not on file. */
static int lines_changed(const char *block, const char *golden)
{
    int changed = 0, head = (int)strcspn(block, "\n");
    const char *kept = strstr(golden, arena_printf(arena, "%.*s", head, block));
    if (kept && strncmp(kept, block, strlen(block)) == 0)
        return 0;
    for (char *rest = arena_copy_text(arena, block), *line; (line = strsep(&rest, "\n")) && *line;)
        if (!kept || !strstr(kept, line)) {
            printf("%.*s: %s\n", head, block, line);
            changed++;
        }
    return changed ? changed : 1;
}

/* Compares the blocks of a folder's files with a file, or writes them there; `block_of` answers NULL for a file that
 * has none. How many lines are not as they were. */
static int hold_lines(const char *folder, const char *file, const char *(*block_of)(const char *))
{
    const char *name[MOST_FILES], *record = getenv("WEFT_RECORD");
    size_t count = names_in_order(folder, name), len;
    char *golden = arena_copy_text(arena, "");
    int changed = 0, every = 100 / rounds_of(100);
    if (!record)
        assert_int_equal(file_read(arena, file, 1 << 22, &golden, &len), WEFT_OK);
    FILE *out = record ? fopen(file, "w") : NULL;
    for (size_t i = 0; i < count; i += (size_t)(every > 1 ? every : 1)) {
        const char *block = block_of(name[i]);
        if (block && out)
            fputs(block, out);
        else if (block)
            changed += lines_changed(block, golden);
    }
    assert_true(!out || fclose(out) == 0);
    return changed;
}

#endif

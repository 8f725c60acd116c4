/* names.c - tables of names: finds the row with a name, and the name that a misspelt word meant. */
#include <string.h>

#include "base/base.h"

static const char *name_at(const void *rows, size_t stride, size_t i)
{
    const char *name;
    memcpy(&name, (const char *)rows + i * stride, sizeof name);
    return name;
}

static const char **names_of(struct arena *keep, const void *rows, size_t stride, size_t count)
{
    const char **names = ARENA_ARRAY(keep, const char *, count);
    for (size_t i = 0; i < count; i++)
        names[i] = name_at(rows, stride, i);
    return names;
}

int name_index(const char *name, const void *rows, size_t stride, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name_at(rows, stride, i), name) == 0)
            return (int)i;
    return -1;
}

const char *nearest_name(const char *name, const void *rows, size_t stride, size_t count)
{
    struct arena *scratch = arena_new();
    const char *near = nearest_word(name, names_of(scratch, rows, stride, count), count);
    arena_free(scratch);
    return near;
}

void hint_near(const char *word)
{
    if (word)
        error_hint("did you mean '%s'?", word);
}

weft_status unknown_name(const char *what, const char *name, const void *rows, size_t stride,
                         size_t count)
{
    struct arena *scratch = arena_new();
    const char **names = names_of(scratch, rows, stride, count), *list = "";
    for (size_t i = 0; i < count; i++)
        list = arena_printf(scratch, "%s%s%s", list, i ? ", " : "", names[i]);
    weft_status status =
        bad_argument(NULL, "no %s is called '%.60s', expected one of %s", what, name, list);
    hint_near(nearest_word(name, names, count));
    arena_free(scratch);
    return status;
}

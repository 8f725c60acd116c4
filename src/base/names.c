/* names.c - a name that is none of a table's. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

weft_status unknown_name(const char *what, const char *name, const void *rows, size_t stride,
                         size_t count)
{
    struct arena *scratch = arena_new();
    const char **names = ARENA_ARRAY(scratch, const char *, count), *list = "";
    for (size_t i = 0; i < count; i++) {
        memcpy(&names[i], (const char *)rows + i * stride, sizeof names[i]);
        list = arena_printf(scratch, "%s%s%s", list, i ? ", " : "", names[i]);
    }
    const char *near = nearest_word(name, names, count);
    weft_status status =
        bad_argument(NULL, "no %s is called '%.60s', expected one of %s", what, name, list);
    if (near)
        error_hint("did you mean '%s'?", near);
    arena_free(scratch);
    return status;
}

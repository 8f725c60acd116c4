/* shipped.c - where Weft's own data is. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static char *file_in(struct arena *keep, const char *folder, const char *name)
{
    char *path = arena_printf(keep, "%s/%s", folder, name);
    return is_file(path) ? path : NULL;
}

/* Beside the program, beside its folder (tests), or where `make install` puts it relative to it. */
static char *beside_program(struct arena *keep, const char *folder, const char *name)
{
    static const char *const PLACES[] = {"", "../", "../share/weft/"};
    char *program = realpath("/proc/self/exe", NULL), *found = NULL;
    if (!program)
        return NULL;
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < COUNT_OF(PLACES) && !found; i++)
        found = file_in(keep, arena_printf(keep, "%s/%s%s", program, PLACES[i], folder), name);
    free(program);
    return found;
}

char *shipped_file(struct arena *keep, const struct shipped *where, const char *name)
{
    const char *folder = getenv(where->variable);
    if (folder)
        return strcmp(folder, "none") == 0 ? NULL : file_in(keep, folder, name);
    char *path = beside_program(keep, where->folder, name);
    return path ? path : file_in(keep, where->installed, name);
}

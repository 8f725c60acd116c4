/* shipped.c - finds Weft's own data files. */
#include "base/base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Without a name, the path of the folder itself. */
static char *file_in(struct arena *keep, const char *folder, const char *name)
{
    if (!name)
        return is_folder(folder) ? arena_copy_text(keep, folder) : NULL;
    char *path = arena_printf(keep, "%s/%s", folder, name);
    return is_file(path) ? path : NULL;
}

/* Next to this file, next to its folder (for tests), or where `make install` puts it relative to
 * this file. */
static char *beside(struct arena *keep, const char *file, const char *folder, const char *name)
{
    static const char *const PLACES[] = {"", "../", "../share/weft/"};
    char *real = realpath(file, NULL), *found = NULL;
    if (!real)
        return NULL;
    char *slash = strrchr(real, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < COUNT_OF(PLACES) && !found; i++)
        found = file_in(keep, arena_printf(keep, "%s/%s%s", real, PLACES[i], folder), name);
    free(real);
    return found;
}

/* The shared library that contains this code, when a program in another language loads it. */
static const char *own_library(void)
{
    static const char ANCHOR = 0;
    Dl_info info;
    return dladdr(&ANCHOR, &info) && info.dli_fname ? info.dli_fname : "";
}

char *shipped_file(struct arena *keep, const struct shipped *where, const char *name)
{
    const char *folder = getenv(where->variable);
    if (folder)
        return strcmp(folder, "none") == 0 ? NULL : file_in(keep, folder, name);
    char *path = beside(keep, "/proc/self/exe", where->folder, name);
    if (!path)
        path = beside(keep, own_library(), where->folder, name);
    return path ? path : file_in(keep, where->installed, name);
}

const char *shipped_missing(struct arena *keep, const struct shipped *where)
{
    const char *folder = getenv(where->variable);
    if ((folder && strcmp(folder, "none") == 0) || shipped_file(keep, where, NULL))
        return NULL;
    char *program = folder ? NULL : realpath("/proc/self/exe", NULL);
    const char *slash = program ? strrchr(program, '/') : NULL;
    const char *out =
        slash ? arena_printf(keep, "%.*s/%s", (int)(slash - program), program, where->folder)
              : arena_copy_text(keep, folder ? folder : where->installed);
    free(program);
    return out;
}

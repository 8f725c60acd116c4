/* shipped.c - finds Weft's own data files. */
#include "base/base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    const char *slash = strrchr(file, '/');
    char *found = NULL;
    for (size_t i = 0; slash && i < COUNT_OF(PLACES) && !found; i++)
        found = file_in(
            keep, arena_printf(keep, "%.*s/%s%s", (int)(slash - file), file, PLACES[i], folder),
            name);
    return found;
}

/* The running program's file, "" where the system does not say. */
static const char *own_program(struct arena *keep)
{
    enum { LONGEST = 4096 }; /* bytes of a path, on Linux */
    char *path = arena_alloc(keep, LONGEST, 1);
    ssize_t len = readlink("/proc/self/exe", path, LONGEST - 1);
    return len > 0 ? path : "";
}

/* The shared library that contains this code, when a program in another language loads it. */
static const char *own_library(struct arena *keep)
{
    static const char ANCHOR = 0;
    Dl_info info;
    char *real = dladdr(&ANCHOR, &info) && info.dli_fname ? realpath(info.dli_fname, NULL) : NULL;
    const char *path = arena_copy_text(keep, real ? real : "");
    free(real);
    return path;
}

char *shipped_file(struct arena *keep, const struct shipped *where, const char *name)
{
    const char *folder = getenv(where->variable);
    if (folder)
        return strcmp(folder, "none") == 0 ? NULL : file_in(keep, folder, name);
    char *path = beside(keep, own_program(keep), where->folder, name);
    if (!path)
        path = beside(keep, own_library(keep), where->folder, name);
    return path ? path : file_in(keep, where->installed, name);
}

const char *shipped_missing(struct arena *keep, const struct shipped *where)
{
    const char *folder = getenv(where->variable);
    if ((folder && strcmp(folder, "none") == 0) || shipped_file(keep, where, NULL))
        return NULL;
    const char *program = folder ? "" : own_program(keep), *slash = strrchr(program, '/');
    return slash ? arena_printf(keep, "%.*s/%s", (int)(slash - program), program, where->folder)
                 : arena_copy_text(keep, folder ? folder : where->installed);
}

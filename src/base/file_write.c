/* file_write.c - writes a file so that it exists whole or not at all.
 *
 *   I1  A regular file is written under another name next to its place and then renamed: whoever
 *       reads it meanwhile, or after the disk was full, finds the old one. A pipe or device is
 *       written directly.
 */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static weft_status cannot_write(const char *path)
{
    return bad_argument(NULL, "%s: cannot be written: %s", path, strerror(errno));
}

static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

/* Gives the file the usual permissions: mkstemp lets nobody else read it. */
static void usual_mode(int file)
{
    mode_t mask = umask(0);
    umask(mask);
    fchmod(file, 0666 & ~mask);
}

static weft_status write_all(const char *path, file_writer put, void *context, FILE *file)
{
    static const size_t BUFFER_BYTES = 1 << 20;
    setvbuf(file, NULL, _IOFBF, BUFFER_BYTES);
    put(context, file);
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    return failed ? failure("%s: cannot be written: %s", path, strerror(errno)) : WEFT_OK;
}

/* A file that is being written next to its final place. */
struct half_file {
    FILE *file;
    const char *path;
};

static void drop_half(void *context)
{
    const struct half_file *half = context;
    fclose(half->file);
    unlink(half->path);
}

static weft_status write_beside(struct arena *scratch, const char *path, file_writer put,
                                void *context)
{
    char *own = realpath(path, NULL); /* a symbolic link keeps pointing to the same file */
    const char *target = arena_copy_text(scratch, own ? own : path);
    char *beside = arena_printf(scratch, "%s.XXXXXX", target);
    free(own);
    int descriptor = mkstemp(beside);
    if (descriptor < 0)
        return cannot_write(path);
    usual_mode(descriptor);
    FILE *file = fdopen(descriptor, "w");
    if (!file) {
        close(descriptor);
        unlink(beside);
        return cannot_write(path);
    }
    struct hold hold;
    struct half_file half = {file, beside};
    hold_push(&hold, drop_half, &half);
    weft_status status = write_all(path, put, context, file);
    hold_pop(&hold);
    if (!status && rename(beside, target) != 0)
        status = cannot_write(path);
    if (status)
        unlink(beside);
    return status;
}

weft_status file_writable(const char *path)
{
    struct stat info;
    if (!path)
        return WEFT_OK;
    if (stat(path, &info) == 0) {
        errno = EISDIR;
        if (S_ISDIR(info.st_mode) || (!S_ISREG(info.st_mode) && access(path, W_OK) != 0))
            return cannot_write(path);
        return WEFT_OK; /* a symbolic link may lead to another folder: file_write will notice */
    }
    struct arena *scratch = arena_new();
    const char *name = strrchr(path, '/');
    size_t len = name ? (size_t)(name - path) + 1 : 0;
    const char *folder = len ? arena_copy_bytes(scratch, path, len) : ".";
    weft_status status = access(folder, W_OK | X_OK) == 0 ? WEFT_OK : cannot_write(path);
    arena_free(scratch);
    return status;
}

weft_status file_write(const char *path, file_writer put, void *context)
{
    if (is_special(path)) {
        FILE *file = fopen(path, "w");
        return file ? write_all(path, put, context, file) : cannot_write(path);
    }
    struct arena *scratch = arena_new();
    weft_status status = write_beside(scratch, path, put, context);
    arena_free(scratch);
    return status;
}

static void put_text(void *context, FILE *file)
{
    fputs(context, file);
}

weft_status file_write_text(const char *path, const char *text)
{
    char *copy = strdup(text); /* the context is not const */
    weft_status status = copy ? file_write(path, put_text, copy) : failure("out of memory");
    free(copy);
    return status;
}

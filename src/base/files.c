/* files.c - mapping files, and writing them whole or not at all (files.h). */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

weft_status file_failure(const char *path, const char *what)
{
    int reason = errno;
    weft_status status = failure("%s: cannot be %s: %s", path, what, strerror(reason));
    if (reason == ENOSPC || reason == EDQUOT)
        error_hint("free some space there, or name a folder on another disk");
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status map_open_file(const char *path, int file, struct mapped *out)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return file_failure(path, "examined");
    if (!S_ISREG(info.st_mode))
        return bad_input(path, 0, NULL, "is %s, expected a file",
                         S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    *out = (struct mapped){(const uint8_t *)"", (size_t)info.st_size};
    if (out->bytes == 0)
        return WEFT_OK;
    void *data = mmap(NULL, out->bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        return file_failure(path, "mapped into memory");
    out->data = data;
    return WEFT_OK;
}

weft_status file_map(const char *path, struct mapped *out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block */
    if (file < 0)
        return bad_input(path, 0, NULL, "cannot be opened: %s", strerror(errno));
    weft_status status = map_open_file(path, file, out);
    close(file);
    return status;
}

void file_unmap(struct mapped *mapped)
{
    if (mapped->bytes)
        munmap((void *)(uintptr_t)mapped->data, mapped->bytes);
    *mapped = (struct mapped){(const uint8_t *)"", 0};
}

/* ---- the real disk --------------------------------------------------------------------------- */

static int real_create(void *context, const char *path)
{
    (void)context;
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static ssize_t real_write(void *context, int file, const void *data, size_t bytes)
{
    (void)context;
    return write(file, data, bytes);
}

static int real_sync(void *context, int file)
{
    (void)context;
    return fsync(file);
}

static int real_close(void *context, int file)
{
    (void)context;
    return close(file);
}

static int real_make_folder(void *context, const char *path)
{
    (void)context;
    return mkdir(path, 0777);
}

static int real_sync_folder(void *context, const char *path)
{
    (void)context;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    int result = fsync(folder), reason = errno;
    close(folder);
    errno = reason;
    return result;
}

static int real_rename(void *context, const char *from, const char *to)
{
    (void)context;
    return rename(from, to);
}

static int real_exchange(void *context, const char *a, const char *b)
{
    (void)context;
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static int real_remove(void *context, const char *path)
{
    (void)context;
    return remove(path);
}

static int64_t real_space(void *context, const char *folder)
{
    struct statvfs info;
    int64_t bytes;
    (void)context;
    if (statvfs(folder, &info) != 0)
        return -1;
    return checked_mul((int64_t)info.f_bavail, (int64_t)info.f_frsize, &bytes) ? bytes : INT64_MAX;
}

const struct disk REAL_DISK = {
    .create = real_create,
    .write = real_write,
    .sync = real_sync,
    .close = real_close,
    .make_folder = real_make_folder,
    .sync_folder = real_sync_folder,
    .rename = real_rename,
    .exchange = real_exchange,
    .remove = real_remove,
    .space = real_space,
};

/* ---- sinks ----------------------------------------------------------------------------------- */

weft_status sink_open(const struct disk *disk, const char *path, struct sink *out)
{
    *out = (struct sink){.disk = disk, .path = path, .file = disk->create(disk->context, path)};
    if (out->file < 0)
        return file_failure(path, "created");
    out->hash = XXH3_createState();
    if (!out->hash) {
        sink_drop(out);
        return failure("%s: no memory for its checksum", path);
    }
    XXH3_64bits_reset(out->hash);
    return WEFT_OK;
}

weft_status sink_write(struct sink *sink, const void *data, size_t bytes)
{
    const char *rest = data;
    XXH3_64bits_update(sink->hash, data, bytes);
    while (bytes > 0) {
        ssize_t written = sink->disk->write(sink->disk->context, sink->file, rest, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return file_failure(sink->path, "written");
        rest += written;
        bytes -= (size_t)written;
        sink->bytes += written;
    }
    return WEFT_OK;
}

weft_status sink_finish(struct sink *sink, struct written *out)
{
    const struct disk *disk = sink->disk;
    weft_status status = WEFT_OK;
    *out = (struct written){sink->bytes, XXH3_64bits_digest(sink->hash)};
    if (disk->sync(disk->context, sink->file) != 0)
        status = file_failure(sink->path, "flushed to the disk");
    int file = sink->file;
    sink->file = -1;
    if (disk->close(disk->context, file) != 0 && status == WEFT_OK)
        status = file_failure(sink->path, "closed"); /* network file systems fail here */
    sink_drop(sink);
    return status;
}

void sink_drop(struct sink *sink)
{
    if (sink->file >= 0)
        sink->disk->close(sink->disk->context, sink->file);
    if (sink->hash)
        XXH3_freeState(sink->hash);
    sink->file = -1;
    sink->hash = NULL;
}

/* faulty_disk.h - a disk that fills up after so many bytes, or whose plug is pulled after so many
 * operations. Nothing waits for the real disk: what a test looks at is what was asked of it. */
#ifndef WEFT_TESTS_FAULTY_DISK_H
#define WEFT_TESTS_FAULTY_DISK_H

#include <errno.h>
#include <limits.h>

#include "base/files.h"

struct faults {
    int64_t bytes_left;        /* then ENOSPC */
    int64_t operations_left;   /* then nothing works any more, not even cleaning up */
    int64_t bytes, operations; /* so far */
    int64_t renamed_unsynced;  /* folders that got a name before their files were on the disk */
    int64_t unsynced;
};

static inline struct faults no_faults(void)
{
    return (struct faults){.bytes_left = INT64_MAX, .operations_left = INT64_MAX};
}

static inline bool is_dead(struct faults *faults)
{
    faults->operations++;
    if (faults->operations_left > 0) {
        faults->operations_left--;
        return false;
    }
    errno = EIO;
    return true;
}

static inline int faulty_create(void *context, const char *path)
{
    struct faults *faults = context;
    faults->unsynced++;
    return is_dead(context) ? -1 : REAL_DISK.create(NULL, path);
}

/* What still fits is written; the operation before the last writes half. */
static inline ssize_t faulty_write(void *context, int file, const void *data, size_t bytes)
{
    struct faults *faults = context;
    if (is_dead(faults))
        return -1;
    if (bytes > 1 && faults->operations_left == 0)
        bytes /= 2;
    if ((int64_t)bytes > faults->bytes_left)
        bytes = (size_t)faults->bytes_left;
    if (bytes == 0) {
        errno = ENOSPC;
        return -1;
    }
    faults->bytes_left -= (int64_t)bytes;
    faults->bytes += (int64_t)bytes;
    return REAL_DISK.write(NULL, file, data, bytes);
}

static inline int faulty_sync(void *context, int file)
{
    struct faults *faults = context;
    (void)file;
    if (is_dead(context))
        return -1;
    faults->unsynced--;
    return 0;
}

static inline int faulty_close(void *context, int file)
{
    (void)context; /* the system closes files of a process that dies */
    return REAL_DISK.close(NULL, file);
}

static inline int faulty_make_folder(void *context, const char *path)
{
    return is_dead(context) ? -1 : REAL_DISK.make_folder(NULL, path);
}

static inline int faulty_sync_folder(void *context, const char *path)
{
    (void)path;
    return is_dead(context) ? -1 : 0;
}

static inline int faulty_rename(void *context, const char *from, const char *to)
{
    struct faults *faults = context;
    faults->renamed_unsynced += faults->unsynced != 0;
    return is_dead(context) ? -1 : REAL_DISK.rename(NULL, from, to);
}

static inline int faulty_exchange(void *context, const char *a, const char *b)
{
    struct faults *faults = context;
    faults->renamed_unsynced += faults->unsynced != 0;
    return is_dead(context) ? -1 : REAL_DISK.exchange(NULL, a, b);
}

static inline int faulty_remove(void *context, const char *path)
{
    return is_dead(context) ? -1 : REAL_DISK.remove(NULL, path);
}

static inline int64_t faulty_space(void *context, const char *folder)
{
    const struct faults *faults = context;
    (void)folder;
    return faults->bytes_left;
}

static inline struct disk faulty_disk(struct faults *faults)
{
    return (struct disk){faults,          faulty_create,      faulty_write,       faulty_sync,
                         faulty_close,    faulty_make_folder, faulty_sync_folder, faulty_rename,
                         faulty_exchange, faulty_remove,      faulty_space};
}

#endif

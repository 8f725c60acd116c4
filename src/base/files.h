/* files.h - what the runtime asks of a file system: mapping files into memory, and writing files so
 * that they exist whole or not at all.
 *
 *   I1  All writes go through a `struct disk`, so that tests can fill the disk or cut the power
 *       between any two operations.
 *   I2  After sink_finish the file is on the disk, with the number of bytes and the checksum it
 *       reports.
 */
#ifndef WEFT_BASE_FILES_H
#define WEFT_BASE_FILES_H

#include <sys/types.h>

#include "base/base.h"

/* ---- reading --------------------------------------------------------------------------------- */

struct mapped {
    const uint8_t *data; /* never NULL */
    size_t bytes;
};
/* The file must not shrink while it is mapped. */
weft_status file_map(const char *path, struct mapped *out);
void file_unmap(struct mapped *mapped);

/* ---- writing --------------------------------------------------------------------------------- */

/* Like the system calls of these names: they return -1 and set errno on failure. */
struct disk {
    void *context;
    int (*create)(void *context, const char *path); /* a new or emptied file, open for writing */
    ssize_t (*write)(void *context, int file, const void *data, size_t bytes);
    int (*sync)(void *context, int file);
    int (*close)(void *context, int file);
    int (*make_folder)(void *context, const char *path);
    int (*sync_folder)(void *context, const char *path);
    int (*rename)(void *context, const char *from, const char *to);
    int (*exchange)(void *context, const char *a, const char *b); /* exchanges two existing names */
    int (*remove)(void *context, const char *path);               /* a file or an empty folder */
    int64_t (*space)(void *context, const char *folder);          /* free bytes */
};
extern const struct disk REAL_DISK;

/* What was written. Ranks also send this struct to rank 0 as it is in memory. */
struct written {
    int64_t bytes;
    uint64_t hash; /* XXH3, 64 bits, as `xxhsum -H3` prints it */
};

/* A file being written from its beginning. */
struct sink {
    const struct disk *disk;
    const char *path;
    int file;
    int64_t bytes;
    struct XXH3_state_s *hash;
};
weft_status sink_open(const struct disk *disk, const char *path, struct sink *out);
weft_status sink_write(struct sink *sink, const void *data, size_t bytes);
weft_status sink_finish(struct sink *sink, struct written *out); /* closes it in any case */
void sink_drop(struct sink *sink);                               /* leaves an incomplete file */

/* The error of a system call that just failed: "PATH: cannot be WHAT: reason", with a hint if the
 * disk is full. */
weft_status file_failure(const char *path, const char *what);

#endif

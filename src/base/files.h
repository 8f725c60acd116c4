/* files.h - what the runtime asks of a file system: files seen as memory, and files that are there
 * whole or not at all.
 *
 *   I1  What is written goes through a `struct disk`, so that tests can fill it up or pull its plug
 *       between any two operations.
 *   I2  A sink that was finished is on the disk, with as many bytes and the checksum it tells.
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

/* As the system calls of these names: -1 and errno where they fail. */
struct disk {
    void *context;
    int (*create)(void *context, const char *path); /* a new or emptied file, open for writing */
    ssize_t (*write)(void *context, int file, const void *data, size_t bytes);
    int (*sync)(void *context, int file);
    int (*close)(void *context, int file);
    int (*make_folder)(void *context, const char *path);
    int (*sync_folder)(void *context, const char *path);
    int (*rename)(void *context, const char *from, const char *to);
    int (*exchange)(void *context, const char *a, const char *b); /* both names exist, both stay */
    int (*remove)(void *context, const char *path);               /* a file or an empty folder */
    int64_t (*space)(void *context, const char *folder);          /* bytes that may be written */
};
extern const struct disk REAL_DISK;

/* What was written: also what a rank tells rank 0, as it lies in memory. */
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
void sink_drop(struct sink *sink);                               /* leaves half a file */

/* The error of a system call that just failed: "PATH: cannot be WHAT: reason", and a hint where the
 * disk is full. */
weft_status file_failure(const char *path, const char *what);

#endif

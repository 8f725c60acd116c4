/* folder.h - names within a checkpoint's folder, for those who write and read them. */
#ifndef WEFT_RUN_CHECKPOINT_FOLDER_H
#define WEFT_RUN_CHECKPOINT_FOLDER_H

#include "base/base.h"

#define MANIFEST_NAME "checkpoint.json"
#define SHARD_NOTE    "shard:" /* then the tensor's name: a key of metadata */

const char *checkpoint_temporary(struct arena *keep, const char *folder, int64_t step);
const char *checkpoint_rank_file(struct arena *keep, int64_t rank);
/* Calls `visit` with the name of every entry but "." and "..", in no order. No folder: no calls. */
typedef weft_status visit_entry(void *context, const char *name);
weft_status folder_visit(const char *folder, visit_entry *visit, void *context);
bool is_temporary(const char *name);
/* The step that a folder's own name says; false: it is not the name of a step. */
bool step_of_folder(const char *path, int64_t *step);
/* checkpoint.json of a step's folder. */
struct manifest;
weft_status folder_manifest(struct arena *keep, const char *folder, struct manifest *out);
/* Whether a step of NAME is of this run. What cannot be read is of no run. */
bool is_of_run(const char *folder, int64_t step, uint64_t run);

#endif

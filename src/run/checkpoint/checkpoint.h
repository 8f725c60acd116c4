/* checkpoint.h - the state of a run on disk: written by all ranks, read by any number of others.
 *
 *   NAME/step-00000200/checkpoint.json           what it is (manifest.h), sizes and checksums
 *   NAME/step-00000200/rank-00000.safetensors    what rank 0 saved: its shards, one flat tensor each,
 *                                                and where they belong, as metadata "shard:TENSOR"
 *
 * Before the first step of a run, on rank 0: checkpoint_lock, and once it is known what the run goes on
 * from, checkpoint_claim. Then saving, with a barrier or a gather between the lines:
 *
 *   rank 0       checkpoint_begin      makes NAME/.step-00000200.tmp
 *   every rank   checkpoint_save       writes its file there
 *   rank 0       checkpoint_commit     adds checkpoint.json and renames the folder
 *                checkpoint_abandon    where any of these failed on any rank
 *
 *   I1  A folder with the name of a step is complete: files and folder are on the disk (fsync) before
 *       it gets the name, and it loses the name before any file of it is removed.
 *   I2  Older checkpoints are removed when the new one is on the disk, never before. So at every
 *       moment after the first commit there is one to resume from.
 *   I3  Every element is taken from whichever file holds it: neither the ranks nor the layouts of the
 *       reader need be those of the writer. What no file holds is an error.
 *   I4  A file is used after its size and checksum were found to be those of checkpoint.json, which
 *       has a checksum of its own, and is of the step that its folder is named after.
 *   I5  A run removes checkpoints of its own alone, and counts those alone; with `overwrite` also the
 *       others, when its first one is on the disk.
 *   I6  While a folder is locked no other run saves there. The system keeps the lock (flock) and takes
 *       it from a run that ends, however it ends; the file NAME/.lock says who has it and stays.
 *
 * Optimizer state is made of tensors like others, named after the weight: NAME.moment1. Of plans that scale casts to fp8 by
 * earlier steps each rank has a history, rank-00000.fp8_history, which is for a run under the same plan.
 */
#ifndef WEFT_RUN_CHECKPOINT_H
#define WEFT_RUN_CHECKPOINT_H

#include "run/checkpoint/manifest.h"
#include "run/checkpoint/safetensors.h"
#include "run/checkpoint/shard.h"

#define MOMENT1_SUFFIX ".moment1"
#define MOMENT2_SUFFIX ".moment2"
#define HISTORY_SUFFIX ".fp8_history"
/* Whether a tensor is state of a run, and no weight. */
bool is_run_state(const char *name);

/* ---- before the first step ------------------------------------------------------------------- */

struct checkpoint_place;
struct checkpoint; /* not for several threads at once */
/* Makes the folder where there is none, and locks it (I6): refuses one that another run has locked. A
 * file system without locks is taken as it is. -1 in `lock`: there is none. */
weft_status checkpoint_lock(const struct checkpoint_place *place, int *lock);
void checkpoint_unlock(int lock);
/* Refuses a folder without space for a checkpoint of so many bytes, and, unless `overwrite`, one that
 * holds checkpoints which the run does not go on from: those of others, and later ones of its own.
 * `resumed` is what it goes on from, NULL: it begins. Tells the number of the run (training_state):
 * that of `resumed` if it is of this folder, else a new one. */
weft_status checkpoint_claim(const struct checkpoint_place *place, const struct checkpoint *resumed,
                             int64_t bytes, uint64_t *run);

/* ---- saving ---------------------------------------------------------------------------------- */

struct checkpoint_place {
    const struct disk *disk;
    const char *folder; /* NAME */
    int64_t keep;       /* so many newest steps; 0: all */
    bool overwrite;     /* I5 */
};
/* One shard; of each tensor a rank gives at most one. */
struct shard_values {
    const char *name;
    enum stored dtype;
    struct shard shard;
    const void *data; /* shard.count elements */
};

weft_status checkpoint_begin(const struct checkpoint_place *place, int64_t step);
weft_status checkpoint_save(const struct checkpoint_place *place, int64_t step, int64_t rank,
                            const struct shard_values *shards, size_t count, struct written *out);
/* `ranks` results of checkpoint_save, in order. Names the finished folder in `keep`. */
weft_status checkpoint_commit(const struct checkpoint_place *place,
                              const struct training_state *state, const struct written *files,
                              int64_t ranks, struct arena *keep, const char **out);
void checkpoint_abandon(const struct checkpoint_place *place, int64_t step);

/* ---- loading --------------------------------------------------------------------------------- */

/* Whether there is one to open: the folder of a step, or one that holds such. */
weft_status checkpoint_exists(const char *path, bool *out);
/* The folder of one step, or the newest step of NAME. */
weft_status checkpoint_open(const char *path, struct checkpoint **out);
void checkpoint_close(struct checkpoint *checkpoint);
const char *checkpoint_folder(const struct checkpoint *checkpoint); /* of the step */
const struct training_state *checkpoint_state(const struct checkpoint *checkpoint);

struct checkpoint_tensor {
    const char *name;
    enum stored dtype;
    int64_t axes;
    const int64_t *shape;
    size_t first_piece, pieces; /* how many files hold some of it */
};
/* By name. */
size_t checkpoint_tensors(const struct checkpoint *checkpoint,
                          const struct checkpoint_tensor **out);
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint,
                                                const char *name); /* NULL: none */
/* A shard of a tensor, shard->count floats; padding becomes 0. */
weft_status checkpoint_read(struct checkpoint *checkpoint, const char *name,
                            const struct shard *shard, float *out);
/* I4 for all files, now. */
weft_status checkpoint_verify(struct checkpoint *checkpoint);

/* One safetensors file of whole tensors, with or without optimizer state; whole or not at all. */
enum consolidate { CONSOLIDATE_WEIGHTS, CONSOLIDATE_ALL };
weft_status checkpoint_consolidate(struct checkpoint *checkpoint, enum consolidate what,
                                   const struct disk *disk, const char *path);

/* ---- folders --------------------------------------------------------------------------------- */

/* The steps that NAME has, rising; none where there is no such folder. */
struct steps {
    int64_t *data;
    size_t len, cap;
};
weft_status checkpoint_steps(struct arena *keep, const char *folder, struct steps *out);
const char *checkpoint_step_folder(struct arena *keep, const char *folder, int64_t step);

#include "run/checkpoint/public_weights.h"

#endif

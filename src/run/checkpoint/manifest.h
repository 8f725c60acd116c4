/* manifest.h - checkpoint.json: what a checkpoint is of, and the files it consists of.
 *
 *   xxh3 = XXH3 of everything else in it, written as JSON without blanks                          (1)
 *
 *   I1  A manifest that was read has the checksum that it states: no digit of a step, a size or a
 *       checksum of a file changed since it was written.
 */
#ifndef WEFT_RUN_CHECKPOINT_MANIFEST_H
#define WEFT_RUN_CHECKPOINT_MANIFEST_H

#include "base/base.h"

/* What a run was made with, as text: "rate" and "0.001" (settings.h). */
struct setting {
    const char *name, *value;
};
/* Where a run stands. */
struct training_state {
    int64_t step;    /* steps done */
    int64_t seed;    /* of the run: order of samples, initial weights */
    int64_t samples; /* of training, taken so far */
    /* In fp16 (rank.h, struct loss_scale); the scale 0: losses are not scaled. */
    int64_t loss_scale, good_steps, skipped_steps;
    const char *model, *plan; /* the model's name; the plan's text (plan_write) */
    uint64_t run;             /* whose checkpoint it is: a number drawn when the run began */
    const struct setting *setting;
    int64_t settings;
};

enum { MAX_CHECKPOINT_FILES = 1 << 20, MAX_SETTINGS = 1 << 10 };
struct manifest_file {
    const char *name; /* within the checkpoint's folder */
    struct written written;
};
struct manifest {
    struct training_state state;
    int64_t files;
    struct manifest_file *file;
};

const char *manifest_text(struct arena *keep, const struct manifest *manifest);
weft_status manifest_parse(struct arena *keep, const char *path, const char *text, size_t len,
                           struct manifest *out);

#endif

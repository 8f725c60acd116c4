/* log.h - what a run tells of every step: a table of tab-separated values, one line a step.
 *
 *   I1  A line is written by one call: a killed run leaves whole lines and at most one half line.
 *   I2  Steps rise. A resumed run begins after its checkpoint: lines of later steps, and a half line,
 *       are cut off when the log is opened, and the steps are told again.
 */
#ifndef WEFT_RUN_TRAIN_LOG_H
#define WEFT_RUN_TRAIN_LOG_H

#include "base/base.h"

struct log_row {
    int64_t step;
    double loss, rate, grad_norm, tokens_per_s;
    int64_t memory_bytes; /* at most, of any rank */
    bool validated;
    double validation_loss; /* where validated */
};

struct run_log {
    const char *path;
    int file;
};
/* Keeps lines of steps up to `last_step` (0: none). */
weft_status log_open(struct arena *keep, const char *path, int64_t last_step, struct run_log *out);
weft_status log_write(struct run_log *log, const struct log_row *row);
void log_close(struct run_log *log);

/* How many bytes of a log are kept by I2; 0: not even a header. */
weft_status log_kept(const char *path, const char *text, size_t len, int64_t last_step,
                     size_t *out);

#endif

/* rig.h - one kernel with buffers of its own, to be run again and again; private to the room.
 *
 *   I1  Numbers are random, small and never denormal; ids are random within the table.
 *   I2  The rig computes the first of the parts that a split makes (kernels.h, I1), by itself.
 */
#ifndef WEFT_RUN_MEASURE_RIG_H
#define WEFT_RUN_MEASURE_RIG_H

#include "run/measure/measure.h"

enum { RIG_BUFFERS = 2 * CALL_INPUTS + 2 * MAX_KIND_WEIGHTS + 8 };
struct rig {
    const struct kernels *kernels;
    enum phase phase;
    struct device_stream *stream; /* NULL: the device works at once */
    struct kernel_call call;
    struct optimizer_step step;
    double *squares; /* of the gradients: their sum */
    int64_t size[OP_MAX_DIMS], begin[OP_MAX_DIMS], whole[OP_MAX_DIMS];
    void *buffer[RIG_BUFFERS]; /* to be freed */
    int buffers;
    const void *handed; /* what the operator before has just written */
    int64_t handed_bytes;
    int64_t bytes; /* of all buffers */
    struct rng rng;
};

/* Why this asker cannot be run here; NULL: it can. */
const char *rig_refuses(const struct kernels *kernels, const struct ask *ask,
                        const struct asker *asker);
/* Bytes that its buffers take. */
int64_t rig_bytes(const struct kernels *kernels, const struct ask *ask, const struct asker *asker,
                  enum policy policy);
/* False: out of memory; to be closed either way. A backward phase's rig has run its forward one. */
bool rig_open(struct rig *rig, const struct kernels *kernels, const struct ask *ask,
              const struct asker *asker, enum policy policy);
void rig_close(struct rig *rig);
void rig_give(const struct rig *rig); /* to its stream */
void rig_run(const struct rig *rig);  /* to its end */

#endif

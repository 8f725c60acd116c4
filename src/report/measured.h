/* measured.h - what happened (weft train --trace) laid over what was predicted, task by task.
 *
 *   took(task, step) = last end - last begin of those that had a part in it                     (1)
 *   T(step)          = last end - first begin of all tasks of the step                          (2)
 *
 * (1) leaves out what the first of them waited for the last one. Figures are medians over the steps,
 * without the first one where there are several: it finds nothing in the caches.
 *
 *   I1  Both sides have the same tasks: a trace whose tasks have other names is of another plan.
 *   I2  Sums over tasks are those of one device, in the mean of all, or of a stage's.
 */
#ifndef WEFT_REPORT_MEASURED_H
#define WEFT_REPORT_MEASURED_H

#include <stdio.h>

#include <jansson.h>

#include "sim/sim.h"

struct measured_pair {
    double measured_s, predicted_s;
};
struct measured_purpose {
    int64_t tasks; /* of one step */
    struct measured_pair time;
};
struct measured_stage {
    struct measured_pair compute, waits; /* of the compute stream; the two make T */
};
struct overlay {
    const struct plan *plan;
    int64_t steps; /* that the medians are of */
    struct measured_pair iteration;
    struct measured_purpose purpose[PURPOSE_COUNT];
    struct measured_stage *stage; /* plan->stages */
    const double *task_s; /* per task of the graph: (1), in the median; 0: not in the trace */
};

/* `prediction` is of the unfolded graph. */
weft_status overlay_read(struct arena *keep, const char *path, const struct prediction *prediction,
                         struct overlay *out);
/* The times of the kernels that ran, by what their tasks took (fold_back.c), into a database; `profile` is
 * the one that the prediction rests on, NULL: none. How many kernels. */
weft_status overlay_fold_back(const struct overlay *overlay, const struct prediction *prediction,
                              const char *profile, const char *db, int64_t *kernels);
void overlay_print(struct arena *scratch, const struct overlay *overlay, FILE *out);
json_t *overlay_json(const struct overlay *overlay);

#endif

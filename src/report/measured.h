/* measured.h - compares what happened (weft train --trace) with what was predicted, task by task.
 *
 *   took(task, step) = last end - last begin among the ranks that took part in the task         (1)
 *   T(step)          = last end - first begin of all tasks of the step                          (2)
 *
 * (1) leaves out the time for which the first rank waited for the last one. Figures are medians over the
 * steps. If there are several steps, the first one is left out because its caches are cold.
 *
 *   I1  Both sides have the same tasks: a trace whose tasks have other names is of another plan.
 *   I2  Sums over tasks are per device: the mean over all devices, or over the devices of a stage.
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
    int64_t tasks; /* in one step */
    struct measured_pair time;
};
struct measured_stage {
    struct measured_pair compute, waits; /* of the compute stream; together they are T */
};
/* Tasks of one name on one stage, over all micro-batches: of one device, and what they are of all that differs. */
struct measured_difference {
    const char *what;
    int64_t tasks;
    struct measured_pair time;
    double share; /* of the sum of all such differences, each without its sign */
};
enum { MOST_DIFFERENCES = 5 };
struct overlay {
    const struct plan *plan;
    int64_t steps; /* over which the medians are taken */
    struct measured_pair iteration;
    struct measured_purpose purpose[PURPOSE_COUNT];
    struct measured_stage *stage;           /* plan->stages */
    struct measured_difference *difference; /* the largest, largest first */
    int32_t differences;
    const double *task_s; /* per task of the graph: the median of (1); 0 without a trace */
};

/* Gives a plan that says nothing about it the software and the policy that the trace's run had: `weft train` runs on a GPU
 * with facts of its own. */
weft_status take_run_facts(const char *path, struct plan *plan);
/* `prediction` must be of the unfolded graph. */
weft_status overlay_read(struct arena *keep, const char *path, const struct prediction *prediction,
                         struct overlay *out);
/* Writes the times of the kernels that ran, derived from the times of their tasks (fold_back.c), into a database.
 * `profile` is the database that the prediction rests on, or NULL. `kernels` is how many were written. */
weft_status overlay_fold_back(const struct overlay *overlay, const struct prediction *prediction,
                              const char *profile, const char *db, int64_t *kernels);
void overlay_print(struct arena *scratch, const struct overlay *overlay, FILE *out);
json_t *overlay_json(const struct overlay *overlay);

#endif

/* room.h - the graphs of all jobs as one graph; private to the room. */
#ifndef WEFT_JOBS_ROOM_H
#define WEFT_JOBS_ROOM_H

#include "jobs/jobs.h"

/* Where one job's numbers begin in the merged graph. Its tasks are numbered iteration by iteration; after those of an
 * iteration comes a task without work that waits for all of them, on a stream of its own. */
struct merged_job {
    struct prediction *alone;
    int64_t alone_ns; /* an iteration where it is placed, with nobody else */
    int64_t *task_ns; /* per task of it: from start to end there */
    int32_t iterations;
    int32_t task, stream, flow, device;
};
struct merged {
    const struct jobs_request *request;
    struct arena *keep;
    struct merged_job *job;
    ARRAY(struct link_id) link; /* of the shared cluster */
    struct engine_graph graph;
};
/* The task that ends an iteration. */
int32_t iteration_end(const struct merged_job *job, int32_t iteration);
/* How many tasks all jobs have with their iterations. */
double merged_tasks(const struct merged *m);
/* Fills in `link` and `graph` from the jobs' predictions and their iterations. */
weft_status merge_jobs(struct merged *m);

/* The links of the merged graph and what flows put on them (links.c). */
void merge_links(struct merged *m);

#endif

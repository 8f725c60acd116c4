/* jobs.h - several training jobs on one network: each has nodes of its own, and all of them share the fabric between
 * these nodes.
 *
 * Every job is simulated alone, device by device (sim.h). Then the engine runs the graphs of all jobs as one graph, in
 * which a link is the same link for everybody, iteration after iteration. With e_j(i) the end of iteration i of job j,
 * counted from 1, e_j(0) = 0, and n_j the iterations that end no later than the first job that is done,
 *
 *   time_j     = e_j(n_j) / n_j                                                               (1)
 *   slowdown_j = time_j / (time of its graph alone)                                           (2)
 *
 *   I1  An iteration begins when the one before has ended on all devices of its job, as a prediction assumes: a job
 *       whose traffic meets nobody takes its own time in every iteration, to the nanosecond.
 *   I2  A job's nodes are given in the order of its ranks, which is the order of its rings.
 *   I3  Of a tier, a job uses runs of c nodes: c is the largest number for which each run of c neighbours in rank order
 *       lies in one unit. What goes from one run to another leaves its unit; if the other run is in the same unit, a
 *       switch would know better.
 *   I4  The bytes of a failed NIC go over the other NICs of its node, in equal parts; an uplink that lost cables has
 *       what is left of its bandwidth.
 */
#ifndef WEFT_JOBS_H
#define WEFT_JOBS_H

#include "sim/sim.h"

/* ---- where jobs are -------------------------------------------------------------------------- */

struct placement {
    int64_t nodes;
    int64_t *node; /* of the shared cluster, in the order of ranks (I2) */
};

enum placing {
    PLACING_APART,  /* each job in as few units of the fabric as possible, the largest first */
    PLACING_PACKED, /* one job after the other */
    PLACING_SPREAD, /* each job over all units of the first tier, in turn */
    PLACING_COUNT
};
bool placing_from_name(const char *name, enum placing *out);

/* Sets each placement's `node` for its `nodes`. Fails if the cluster has fewer nodes than all jobs need. */
weft_status jobs_place(struct arena *keep, const struct cluster *cluster, enum placing placing,
                       struct placement *jobs, int32_t count);
/* Reads one job's nodes, "0-3,8"; fails unless they are so many different nodes of the cluster. */
weft_status placement_read(struct arena *keep, const struct cluster *cluster, const char *text,
                           int64_t nodes, struct placement *out);
/* "0-3,8" */
const char *placement_text(struct arena *keep, const struct placement *placement);
/* The cluster that a job sees: its own nodes, with the tiers of the shared fabric (I3). It uses the shared cluster's
 * parts, and is not freed by itself. */
struct cluster *placed_cluster(struct arena *keep, const struct cluster *shared,
                               const struct placement *placement);

/* ---- what is broken -------------------------------------------------------------------------- */

struct network_fault {
    int16_t tier; /* 0: a NIC; t > 0: the uplink of a unit of tier t - 1 */
    int64_t unit; /* the node, or the unit */
    int16_t nic;
    double left; /* share of the uplink's bandwidth */
};
/* "nic=NODE:I" or "TIER=UNIT:PERCENT", such as "leaf=0:50" for an uplink of which half is left. */
weft_status fault_read(const struct cluster *cluster, const char *text, struct network_fault *out);

/* ---- the simulation -------------------------------------------------------------------------- */

struct shared_job {
    const struct plan *plan; /* its cluster has as many nodes as the placement */
    struct placement placement;
};
struct jobs_request {
    const struct cluster *cluster; /* the shared one */
    const struct shared_job *job;
    int32_t jobs;
    const struct network_fault *fault;
    int32_t faults;
    /* of the slowest job, fewer if the graph is too large; others run until it is done */
    int32_t iterations;
    const char *profile; /* as in simulate_options */
    const struct stop *stop;
};
struct job_result {
    int64_t alone_ns;   /* an iteration alone, on sound links */
    int64_t shared_ns;  /* (1) */
    int64_t longest_ns; /* of the iterations counted in (1) */
    int32_t iterations; /* n_j */
    double slowdown;    /* (2) */
    /* the link at which its transfers lost most: "uplink of leaf 0"; NULL: nowhere */
    const char *held_at;
    int64_t held_ns;    /* what all its transfers lost there, in one iteration */
    double iteration_s; /* of the whole plan: its own time, slowed down by (2) */
};
struct jobs_result {
    struct job_result *job;
    int64_t tasks, events;
};
weft_status jobs_run(struct arena *keep, const struct jobs_request *request,
                     struct jobs_result *out);

#endif

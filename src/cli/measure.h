/* measure.h - what the files of `weft profile measure` share. Private to the room. */
#ifndef WEFT_CLI_MEASURE_H
#define WEFT_CLI_MEASURE_H

#include "cli/degrees.h"
#include "run/run.h"

struct measure_command {
    struct plan_arguments plan;
    const char *db, *output, *device; /* device: NULL is the CPU */
    double precision;
    int64_t budget_ns, ranks, most_bytes;
    bool collectives, interference, alone, json;
    enum { RANKS_THREADS, RANKS_MPI, RANKS_TCP } ranks_are;
};
struct measure_job {
    const struct measure_command *options;
    struct arena *arena;
    struct cluster *machine;     /* this machine as a cluster of ranks */
    struct transport *transport; /* between processes; NULL: ranks are threads */
    struct opened_plan opened;
    struct measure_options measure;
    struct asks asks;
    struct measured measured;
    struct measured_transfers transfers;
    struct measured_overlaps overlaps;
    bool answers; /* this is rank 0 */
};

/* The answers (measure_print.c); they return the exit code. */
int measure_text(const struct measure_job *job);
int measure_json(const struct measure_job *job);

#endif

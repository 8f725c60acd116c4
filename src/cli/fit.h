/* fit.h - `weft fit` of training runs, in place of collectives. Private to the room. */
#ifndef WEFT_CLI_FIT_H
#define WEFT_CLI_FIT_H

#include "cli/cli.h"

struct fit_runs_options {
    const char *runs; /* the file of runs */
    /* what the cluster file is made from; NULL: the largest cluster of the runs */
    const char *cluster;
    const char *output; /* the cluster file; NULL: it is printed */
    bool json;
};
/* Returns the exit code. */
int fit_runs(struct arena *arena, const struct fit_runs_options *options);

#endif

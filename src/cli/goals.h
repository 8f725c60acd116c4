/* goals.h - what `weft plan` looks for: an objective, a deadline, a size, room in memory. Private to
 * the room. */
#ifndef WEFT_CLI_GOALS_H
#define WEFT_CLI_GOALS_H

#include "cli/cli.h"
#include "search/search.h"

enum objective { OBJECTIVE_TIME, OBJECTIVE_THROUGHPUT, OBJECTIVE_COST, OBJECTIVE_COUNT };

struct goals {
    struct arena *arena;
    enum objective objective;
    int64_t deadline_ns, max_devices;
    double samples, tokens, margin;
    struct forbids forbids;
    double simplest;             /* share of time; plan_options.simplest */
    const struct target *target; /* NULL: any that can be simulated */
};

/* Where nobody says --simplest: predictions of like plans are off by more. */
#define USUAL_SIMPLEST 0.01

/* The options; its input is a struct goals. */
extern const struct argp GOALS_ARGP;

/* Whether the cluster's size is to be found, too; a wrong mix of goals is an error. */
weft_status goals_check(const struct goals *goals, bool *sizes);
/* Searches clusters of the named kind, "dgx-a100:16", up to its own size or --max-devices. */
weft_status goals_search(const struct goals *goals, const struct planner *planner,
                         const struct plan_request *request, const char *cluster,
                         struct sized **out);
/* The cluster of the answer as cluster_open takes it, in `keep`. */
const char *goals_cluster_name(struct arena *keep, const char *cluster, int64_t nodes);
void sizes_print(struct arena *scratch, const struct sized *sized, FILE *out);
json_t *sizes_json(const struct sized *sized);
/* No answer where no size does what was asked. */
weft_status sizes_must_do(const struct sized *sized);

#endif

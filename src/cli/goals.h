/* goals.h - what `weft plan` looks for: an objective, a deadline, the size of the cluster, a margin of free
 * memory. Private to the room. */
#ifndef WEFT_CLI_GOALS_H
#define WEFT_CLI_GOALS_H

#include "cli/cli.h"
#include "search/search.h"

enum objective {
    OBJECTIVE_TIME,
    OBJECTIVE_THROUGHPUT,
    OBJECTIVE_COST,
    OBJECTIVE_DAYS,   /* of the whole training, failures included (campaign) */
    OBJECTIVE_ENERGY, /* likewise */
    OBJECTIVE_COUNT
};

struct goals {
    struct arena *arena;
    enum objective objective;
    int64_t deadline_ns, max_devices;
    double samples, tokens;
    struct forbids forbids;
    double simplest;             /* share of time; plan_options.simplest */
    const struct target *target; /* NULL if any plan that can be simulated will do */
};

/* Parses the options; its input is a struct goals. */
extern const struct argp GOALS_ARGP;
/* The target that --for names; an unknown name ends the program. */
const struct target *take_target(struct argp_state *state, const char *arg);

/* Finds out whether the size of the cluster is to be searched, too; goals that contradict each other are an error. */
weft_status goals_check(const struct goals *goals, bool *sizes);
/* Searches over sizes of the named cluster, such as "dgx-a100:16", up to its own size or --max-devices. */
weft_status goals_search(const struct goals *goals, const struct planner *planner,
                         const struct plan_request *request, const char *cluster,
                         struct sized **out);
/* The name of the cluster with this number of nodes, as cluster_open takes it, allocated in `keep`. */
const char *goals_cluster_name(struct arena *keep, const char *cluster, int64_t nodes);
/* The size that was chosen, in a line, if any was; all that were tried, as a table. */
void chosen_size_print(const struct sized *sized, FILE *out);
void sizes_print(struct arena *scratch, const struct goals *goals, const struct sized *sized,
                 FILE *out);
json_t *sizes_json(const struct sized *sized);
/* WEFT_NO_ANSWER if no size meets the goals. */
weft_status sizes_must_do(const struct sized *sized);

#endif

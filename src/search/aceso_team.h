/* aceso_team.h - inside aceso: the searches of one request, one per number of stages, and what came of
 * simulating the best of them. */
#ifndef WEFT_SEARCH_ACESO_TEAM_H
#define WEFT_SEARCH_ACESO_TEAM_H

#include "search/aceso.h"

/* An effort: of the searches so far those go on that are as near to the best, and so many. */
struct turn {
    enum effort effort;
    double within;
    int32_t most;
    bool patient; /* it takes long and rarely helps: on few devices, or where there is a budget */
};
struct team {
    const struct problem *problem;
    struct search_result *result; /* per search */
    struct search_settings *settings;
    struct told *told, *before; /* now, and before finalists are simulated; NULL: they are not */
    bool *chosen;               /* to go on with this effort */
    int32_t searches;
    const struct turn *turn;
    atomic_int next;
};

/* What the simulator has said. */
struct outcome {
    struct planned *planned;
    struct arena *arena;
    struct index tried;   /* numbers of planned's trials, by hashes of configs */
    bool any, fits;       /* something was simulated, something fits */
    int64_t iteration_ns; /* of the best */
    int32_t search;       /* that has the best; -1: none */
    bool missed;          /* something faster than that was judged to fit and does not */
};
/* Simulates the best of every search that is near the best of all, and corrects the searches. */
weft_status team_ask(struct team *team, struct judge *judge, struct outcome *out);
/* Simulates the finalists. */
weft_status team_finish(struct team *team, struct judge *judge, struct outcome *out);

/* "pp 2, tp 1-4, dp 2-8, step of 8, zero 1" */
const char *config_text(struct arena *keep, const struct problem *p, const struct config *c);
/* The steps that led to the best, the last ones. */
void explain(struct planned *out, const struct search_result *result);

#endif

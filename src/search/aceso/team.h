/* team.h - inside aceso: the searches of one request, one per number of stages, and what came of
 * simulating the best of them. */
#ifndef WEFT_SEARCH_ACESO_TEAM_H
#define WEFT_SEARCH_ACESO_TEAM_H

#include "search/aceso/room.h"

/* Some turns take long and rarely help: those come on few devices, or after all others where there is
 * a budget, which so ends no worse than what takes as long without one. From several plans, which are
 * good already, all that are near the best go on at first. */
enum occasion { ALWAYS, FROM_PLANS, FOR_FEW, WITH_A_BUDGET };
/* An effort: of the searches so far those go on that are as near to the best, and so many. */
struct turn {
    enum effort effort;
    double within;
    int32_t most;
    enum occasion when;
};
struct team {
    const struct problem *problem;
    struct search_result *result; /* per search */
    struct search_settings *settings;
    struct told *told;
    struct told *missed; /* per search: memory, of those that missed by least */
    bool *chosen;        /* to go on with this effort */
    int32_t searches;
    const struct turn *turn;
    atomic_int next;      /* search to be taken by a worker */
    struct judge **judge; /* per worker, once it has worked */
    int32_t workers;
};

/* What the simulator has said. */
struct outcome {
    struct planned *planned;
    struct arena *arena;
    struct hash_map tried; /* numbers of planned's trials, by hashes of configs */
    bool any, fits;        /* something was simulated, something fits */
    int64_t iteration_ns;  /* of the best */
    int32_t search;        /* that has the best; -1: none */
    int64_t missed_ns;     /* of the fastest that was judged to fit and does not; INT64_MAX: none */
    bool missed;           /* that is faster than the best when finalists are through */
};
/* What the simulator said of the config that a search begins with. */
weft_status team_tell(struct team *team, struct judge *judge, int32_t search,
                      const struct config *config, int64_t iteration_ns);
/* Simulates the best of every search that is near the best of all, and corrects the searches. */
weft_status team_ask(struct team *team, struct judge *judge, struct outcome *out);
/* Simulates the finalists. */
weft_status team_finish(struct team *team, struct judge *judge, struct outcome *out);

/* "dp 2-8 tp 1-4 pp 2 zero 1, 8 samples per step" */
const char *config_text(struct arena *keep, const struct problem *p, const struct config *c);
/* The steps that led to the best, the last ones. */
void explain(struct planned *out, const struct search_result *result);

#endif

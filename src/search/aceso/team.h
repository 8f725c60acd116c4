/* team.h - inside aceso: the searches of one request, one per number of stages, and the results of
 * simulating the best of them. */
#ifndef WEFT_SEARCH_ACESO_TEAM_H
#define WEFT_SEARCH_ACESO_TEAM_H

#include "search/aceso/room.h"

/* Some turns take long and rarely help: they are made on few devices, or unless there are many (of 23 s for
 * gpt3-175b on 1,024 devices 17 s went into polishing that gained nothing), or, if there is a budget, after
 * all others, so that a search with a budget ends no worse than one of the same time without.
 * Searches that start from several plans, which are good already, all continue at first if they are
 * near the best. */
enum occasion { ALWAYS, FROM_PLANS, FOR_FEW, UNLESS_MANY, WITH_A_BUDGET };
/* An effort, and which searches make it: those whose best is within this factor of the best of all,
 * and at most this many. */
struct turn {
    enum effort effort;
    double within;
    int32_t most;
    enum occasion when;
};
struct team {
    struct problem *problem;
    struct search_result *result; /* per search */
    struct search_settings *settings;
    struct told *told;
    /* Per search: the memory factors of the configs that exceeded the limit by least. */
    struct told *missed;
    bool *chosen; /* whether the search makes this effort */
    int32_t searches;
    const struct turn *turn;
    atomic_int next;      /* the search that the next free worker takes */
    atomic_bool begun;    /* some search has a config */
    struct judge **judge; /* per worker; NULL: it has not worked yet */
    int32_t workers;
};

/* The time above which a search does not go on (aceso.c, I3). */
double team_worth_ns(const struct team *team);

/* What the simulator has said. */
struct outcome {
    struct planned *planned;
    struct arena *arena;
    struct hash_map tried; /* numbers of planned's trials by the hashes of configs */
    bool any, fits;        /* something was simulated; something fits */
    int64_t iteration_ns;  /* of the best */
    int32_t search;        /* the search that has the best; -1: none */
    /* The time of the fastest plan that was judged to fit and does not; INT64_MAX: none. */
    int64_t missed_ns;
    /* Whether that one is faster than the best when the finalists are simulated. */
    bool missed;
};
/* Tells a search what the simulator said about the config it starts from. */
weft_status team_tell(struct team *team, struct judge *judge, int32_t search,
                      const struct config *config, int64_t iteration_ns);
/* Simulates the best config of every search that is near the best of all, and corrects the
 * searches. */
weft_status team_ask(struct team *team, struct judge *judge, struct outcome *out);
/* Simulates the finalists. */
weft_status team_finish(struct team *team, struct judge *judge, struct outcome *out);

/* "dp 2-8 tp 1-4 pp 2 zero 1, 8 samples per step" */
const char *config_text(struct arena *keep, const struct config *c);
/* Adds the last few steps that led to the best to the reasons. */
void explain(struct planned *out, const struct search_result *result);

#endif

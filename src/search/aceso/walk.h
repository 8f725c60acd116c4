/* walk.h - inside aceso: what one search knows, and what it keeps of what it has seen. */
#ifndef WEFT_SEARCH_ACESO_WALK_H
#define WEFT_SEARCH_ACESO_WALK_H

#include "search/aceso/room.h"

enum { POOL = 96, MOST_DEPTH = 32 };

struct waiting {
    struct found found;
    bool gone_into;
};
struct hop_note {
    const struct proposal *made;
    const struct config *before;
};
struct walk {
    struct judge *judge;
    const struct problem *problem;
    const struct search_settings *settings;
    struct search_result *out;
    struct arena *arena;
    struct hash_map visited;
    enum grain grain;
    int32_t most_hops, most_stale, kicks;
    bool begins_again, refining;
    struct rng rng;
    struct proposals *level[MOST_DEPTH];
    struct waiting pool[POOL];
    int32_t waiting, nodes;
    /* of the iteration */
    struct verdict start;
    struct hop_note path[MOST_DEPTH];
    enum resource resource; /* of the first hop */
    struct found next;      /* what was better */
    int32_t hops;
};

/* Makes proposals complete and judges them; what is illegal or not new goes. */
weft_status walk_sift(struct walk *w, const struct config *from, struct proposals *list);
/* Somebody went into this one: it is no restart any more. */
void walk_go_into(struct walk *w, uint64_t hash);
/* The best of the pool that nobody went into; false: none is within reach of the best. */
bool walk_restart(struct walk *w, struct verdict best, struct config *out);

/* ---- what to look at first (bottlenecks.c) ---- */
/* Proposals, the best first. */
void sort_by_verdict(const struct proposals *list, int32_t *order);
/* Heuristic 1: stages, the worst first. */
void rank_stages(const struct stage_use *cost, int32_t stages, bool memory, int32_t *order);
/* Heuristic 2: resources by the stage's share of what all stages use; out of memory, that first. */
void rank_resources(const struct stage_use *cost, int32_t stages, int32_t stage, bool memory,
                    enum resource *order);

#endif

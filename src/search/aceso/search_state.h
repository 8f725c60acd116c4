/* search_state.h - inside aceso: what one search knows, and what it keeps of the configs it has judged. */
#ifndef WEFT_SEARCH_ACESO_SEARCH_STATE_H
#define WEFT_SEARCH_ACESO_SEARCH_STATE_H

#include "search/aceso/room.h"

enum { POOL = 96, MOST_DEPTH = 32 };

struct waiting {
    struct found found;
    bool explored;
};
struct hop_note {
    const struct proposal *made;
    const struct config *before;
};
struct search_state {
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
    /* The rest belongs to the current iteration. */
    struct verdict start;
    struct hop_note path[MOST_DEPTH];
    enum resource resource; /* which the first hop reduces */
    struct found next;      /* the better config, if there is one, */
    int32_t hops;           /* and how many hops led to it */
};

/* Completes proposals and judges them; drops those that are illegal or not new. */
weft_status sift_proposals(struct search_state *s, const struct config *from,
                           struct proposals *list);
/* Marks a config of the pool as explored, so that no restart begins with it. */
void mark_explored(struct search_state *s, uint64_t hash);
/* The best of the pool that is not explored; false: none is within reach of the best. */
bool next_restart(struct search_state *s, struct verdict best, struct config *out);

/* ---- what to look at first (bottlenecks.c) ---- */
/* Sorts proposals, the best first. */
void sort_by_verdict(const struct proposals *list, int32_t *order);
/* Heuristic 1: the stages, the worst first. */
void rank_stages(const struct stage_use *cost, int32_t stages, bool memory, int32_t *order);
/* Heuristic 2: resources by this stage's share of what all stages use. Memory comes first where a config
 * does not fit. */
enum memory_rank { MEMORY_LAST, MEMORY_FIRST, MEMORY_BY_SHARE };
void rank_resources(const struct stage_use *cost, int32_t stages, int32_t stage,
                    enum memory_rank rank, enum resource *order);

#endif

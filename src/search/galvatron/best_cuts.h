/* best_cuts.h - inside galvatron: the best partition into stages and the best option of each of them,
 * in one setting (layer_table.h).
 *
 *   iteration = (m - 1) * max_i steady_i + sum_i time_i                                         (1)
 *
 * For a bound T on the slowest stage, the least sum is a shortest path over cuts; T starts at
 * infinity, and each next T is the slowest stage of the path before. The best partition is among
 * these: the first path whose slowest stage is no slower than the best partition's has no larger
 * sum.
 *
 *   I1  Stages are bounds until a path takes them (stage_front.h, I2): a path of bounds alone says
 *       whether the setting is worth a search, and runs that no short path takes are never
 *       searched.
 *   I2  Equal runs on stages of one class are searched once.
 */
#ifndef WEFT_SEARCH_GALVATRON_BEST_CUTS_H
#define WEFT_SEARCH_GALVATRON_BEST_CUTS_H

#include "search/estimate/estimate.h"
#include "search/galvatron/stage_front.h"

/* Hashes of runs of layers: runs with equal hashes are taken to be equal. */
struct run_hashes {
    uint64_t *kinds, *boundaries, *power; /* per layer, and one past the last */
};
struct run_hashes run_hashes_new(struct arena *keep, const struct layer_source *source);

struct cutter {
    struct layer_table *table;
    const struct run_hashes *hashes;
    struct stage_fronts fronts;
    struct hash_map by_run;
    ARRAY(struct stage_run *) runs;
    int64_t work; /* transitions looked at */
};

struct cuts {
    int32_t *count;        /* per stage */
    struct option *option; /* per stage */
    int64_t iteration_ns;  /* INT64_MAX: none */
    bool complete;         /* all partitions were considered */
};
struct cuts cuts_new(struct arena *keep, int32_t stages);

struct cutter cutter_new(struct arena *keep, struct layer_table *table,
                         const struct run_hashes *hashes);
struct stage_run *cutter_run(struct cutter *cutter, int32_t stage, struct layer_run run);

/* Whether a path of bounds alone shows that every partition takes at least below_ns (I1). */
bool cuts_are_slower(struct cutter *cutter, int64_t below_ns);
/* Finds the best partition, or, with `fixed`, the best options of that one, and stores it in *best
 * if it is faster than that and than below_ns. Gives up after the problem's most_work, unless
 * fixed. */
weft_status best_cuts(struct cutter *cutter, const int32_t *fixed, int64_t below_ns,
                      struct cuts *best);

#endif

/* grid.h - every combination of degrees, by estimate: best first, with bounds, so that most points
 * are never looked at.
 *
 * Points come in the order of what they cannot be faster than (grid_space.h). The first three times that
 * a point's turn comes it is looked at more closely, and waits for another turn:
 *
 *   (1) of grid_space.h with the passes of one replica by itself, where it is fastest, less what
 *   cuts may save, a thirty-second                                                            (1)
 *   with several stages, its estimate with all of them where the first one lies (if they have whole
 *   nodes: places in a node differ more) and without the borders between parts, which take as long to
 *   find as all the rest, less what they may save, a sixteenth; of ZeRO-2 and 3 that with ZeRO-1, which
 *   sends no more                                                                             (2)
 *   the same with the border from the first stage to the second between any two, less what other places
 *   may save, a sixty-fourth                                                                  (3)
 *
 * What (1) to (3) allow for are allowances that tests/search/test_auto.c holds, not proofs.
 *
 * A point whose bound is above the K-th best estimate so far ends the search: no later one can be
 * among the K best.
 *
 *   I1  The answer is that of estimating every point: the K best of those that fit.
 *   I2  A point that cannot fit by its bound is not estimated unless nothing else fits; then points
 *       come in the order of the least memory, and the K nearest misses are the answer.
 *   I3  Memory is estimated to about a hundredth: a point counts as fitting up to GRID_SLACK above the
 *       limit. Whoever simulates it has the last word.
 *   I4  Stopped, the answer is the best so far.
 *   I5  Beside the K best, those are looked for that would fit with WHAT_IF_MORE_BYTES more and are
 *       faster than the best: what memory would bring.
 *   I6  After that, the best with a number of stages is found the same way, of those with no more parts
 *       than whoever asks can go on from; what was looked at before is known.
 */
#ifndef WEFT_SEARCH_AUTO_GRID_H
#define WEFT_SEARCH_AUTO_GRID_H

#include "search/planner/planner.h"

#define GRID_SLACK 0.01

struct grid_point {
    struct degrees degrees;
    int64_t bound_ns, bound_bytes;
    int64_t iteration_ns, peak_bytes; /* estimated */
    bool fits;                        /* I3 */
};
struct grid_points {
    struct grid_point *data;
    size_t len, cap;
};
struct grid {
    struct grid_points best;    /* by time; or misses, by memory */
    struct grid_points roomier; /* by time (I5) */
    int64_t points, estimates;
};
/* The best `count` points of a request whose pins have a global batch; in `keep`. */
weft_status grid_search(const struct plan_request *request, struct cost *cost, size_t count,
                        struct arena *keep, struct grid *out);
/* The same, open for I6 until it is freed; NULL is nothing to free. */
struct grid_walk;
weft_status grid_walk_new(const struct plan_request *request, struct cost *cost, size_t count,
                          struct arena *keep, struct grid *out, struct grid_walk **walk);
void grid_walk_free(struct grid_walk *walk);
/* I6; *found is false where nothing fits. */
weft_status grid_best_with(struct grid_walk *walk, int64_t pp, int64_t most_parts,
                           struct grid_point *out, bool *found);
/* Every point, estimated: what grid_search is held against. */
weft_status grid_estimate_all(const struct plan_request *request, struct cost *cost,
                              struct arena *keep, struct grid *out);

#endif

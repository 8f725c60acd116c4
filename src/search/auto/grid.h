/* grid.h - every combination of degrees, by estimate: best first, with bounds, so that most points
 * are never looked at.
 *
 * Points come in the order of their lower bounds (grid_space.h). The first four times that a
 * point's turn comes, it gets a closer bound and waits for another turn: a rough one with passes that all points of
 * a layout share ((0) of grid_walk.h), then
 *
 *   (1) of grid_space.h with the passes of one replica (or of those that share their experts) by itself, where it is
 *   fastest, less a thirty-second, which cuts may save                                        (1)
 *   with several stages, its estimate with all of them at the position of the first one (if they
 *   have whole nodes: positions inside a node differ more) and without the borders between parts,
 *   which take as long to find as all the rest, less a sixteenth, which borders may save; for
 *   ZeRO-2 and 3 the estimate with ZeRO-1, which sends no more                                (2)
 *   the same with the border from the first stage to the second between any two stages, less a
 *   sixty-fourth, which other positions may save                                              (3)
 *
 * The fractions in (0) to (3) are allowances that tests/search/test_auto.c checks, not proofs.
 *
 * A point whose bound is above the K-th best estimate so far ends the search: no later one can be
 * among the K best.
 *
 *   I1  The answer is the same as if every point were estimated: the K best of those that fit.
 *   I2  A point that cannot fit by its bound is not estimated unless nothing else fits; then points
 *       come in the order of the least memory, and the K nearest misses are the answer.
 *   I3  Memory is estimated to about a hundredth: a point counts as fitting up to GRID_SLACK above
 *       the limit. The simulation of the point has the last word.
 *   I4  When stopped, the answer is the best so far.
 *   I5  Besides the K best, the search looks for points that would fit with WHAT_IF_MORE_BYTES more
 *       memory and are faster than the best: what more memory would gain.
 *   I6  Afterwards, the best with a given number of stages can be found in the same way, among
 *       those with no more parts than the caller can use; what was found before is used again.
 *   I7  With a known time in the request, points whose bounds are above it are not looked at, and there may be none.
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
    struct grid_points best;    /* by time; if nothing fits, misses by memory */
    struct grid_points roomier; /* by time (I5) */
    int64_t points, estimates;
};
/* The best `count` points of a request whose pins have a global batch; the result is in `keep`. */
weft_status grid_search(const struct plan_request *request, struct cost *cost, size_t count,
                        struct arena *keep, struct grid *out);
/* The same without I5 and without misses: there is no point if nothing fits. */
weft_status grid_search_fitting(const struct plan_request *request, struct cost *cost, size_t count,
                                struct arena *keep, struct grid *out);
/* As grid_search, kept open for I6 until it is freed; freeing NULL does nothing. */
struct grid_walk;
weft_status grid_walk_new(const struct plan_request *request, struct cost *cost, size_t count,
                          struct arena *keep, struct grid *out, struct grid_walk **walk);
void grid_walk_free(struct grid_walk *walk);
/* With which walks estimate such plans. */
struct estimate_settings grid_estimate_settings(const struct plan_request *request,
                                                const struct plan *plan);
/* I6; *found is false if nothing fits. */
weft_status grid_best_with(struct grid_walk *walk, int64_t pp, int64_t most_parts,
                           struct grid_point *out, bool *found);
/* Estimates every point: the reference that grid_search is checked against. */
weft_status grid_estimate_all(const struct plan_request *request, struct cost *cost,
                              struct arena *keep, struct grid *out);

#endif

/* grid.h - every combination of degrees, by estimate: best first, with bounds, so that most points
 * are never looked at.
 *
 * Points come in the order of what they cannot be faster than (grid_space.h). The first two times that a
 * point's turn comes it is looked at more closely, and waits for another turn:
 *
 *   (1) of grid_space.h with the passes of one replica by itself, where it is fastest, less what
 *   cuts may save, a thirty-second                                                            (1)
 *   with several stages, its estimate without the borders between parts, which take as long to find as
 *   all the rest, less what they may save: a sixteenth, and with ZeRO-2 and 3, which gather and reduce in
 *   every pass of every part, a third                                                         (2)
 *
 * What (1) and (2) allow for are allowances that tests/test_auto.c holds, not proofs.
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
 */
#ifndef WEFT_SEARCH_GRID_H
#define WEFT_SEARCH_GRID_H

#include "search/planner.h"

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
/* Every point, estimated: what grid_search is held against. */
weft_status grid_estimate_all(const struct plan_request *request, struct cost *cost,
                              struct arena *keep, struct grid *out);

#endif

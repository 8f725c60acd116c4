/* grid_space.h - inside grid: its points, and what none of them can be better than.
 *
 *   dp * cp * tp * pp = devices     tp divides a node's devices     ep divides dp, with experts
 *   micro-batch   divides what a replica gets of the batch
 *   schedule      1f1b; interleaved with 2 to 8 pieces; zb-h1; aiao with 1, 2, 4 or 8 segments
 *
 * gpipe is aiao with one segment, slot by slot (schedule.c, I2). With one stage there is nothing to
 * interleave and no bubble to fill: 1f1b, and aiao, whose segments' gradients go meanwhile.
 *
 * With f and b what the operators of a part take on the device for one micro-batch, forward and
 * backward (recomputation included), and nothing for all that is sent, an iteration takes at least
 *
 *   max over stages s { sum over q < s of (f + b of its first piece) + m sum over pieces (f + b) } (1)
 *
 * since stage s has m micro-batches to work on, the first of which passed the stages before it, and
 * the last of which has to go back through them (with zb-h1 after input gradients only: f of (1)).
 * It takes all of f + b (with zb-h1, of f) at least once. A stage holds at least its state, and for
 * each micro-batch in flight (with zb-h1: for one less than 1f1b has) what operators of its smallest
 * piece that are not recomputed keep, with sequence parallelism over tp * cp, less a tenth      (2)
 *
 *   I1  (1) is never above a point's estimated time, and (2) never above its peak. The tenth of (2)
 *       is an allowance that tests/search/test_auto.c holds, not a proof: tensors at a part's ends.
 *   I2  Cuts depend on stages and pieces only; times of operators on tp, cp, ep, sequence
 *       parallelism and micro-batch only; state on the layout and shard. Each is found once.
 */
#ifndef WEFT_SEARCH_AUTO_GRID_SPACE_H
#define WEFT_SEARCH_AUTO_GRID_SPACE_H

#include "search/planner/planner.h"

enum { GRID_SHARDS = 4 };

struct grid_layout {
    int64_t dp, tp, pp, cp, ep;
    bool sequence;
    struct choice *choice[RECOMPUTE_COUNT];    /* per operator; shard 0 */
    int64_t *state[GRID_SHARDS];               /* bytes of instances before each */
    struct plan *plan;                         /* without recomputation */
    int32_t row[RECOMPUTE_COUNT][GRID_SHARDS]; /* of the estimator, + 1 */
    int32_t alone[RECOMPUTE_COUNT];            /* the same of one replica by itself */
};
/* What a part takes for a micro-batch, at least. */
struct grid_part {
    int64_t forward_ns, backward_ns;
};
/* Where parts begin, one after the last. */
struct grid_shape {
    int64_t pp, pieces;
    struct grid_part *part; /* room for bounds */
    int64_t *cut;           /* NULL: the model has no so many layers */
    struct candidate *candidate;
};
/* What one device does for a micro-batch: sums over instances before each. */
struct grid_passes {
    int64_t tp, cp, ep, micro_batch;
    bool sequence, many;
    int64_t *forward_ns, *backward_ns[RECOMPUTE_COUNT], *kept_bytes[RECOMPUTE_COUNT];
};
struct grid_place {
    int64_t bound_ns, bound_bytes; /* (1), (2) */
    int64_t micro_batch, micro_batches;
    int32_t layout, shape;
    uint8_t schedule, shard, recompute; /* of schedule_searched */
};
struct grid_space {
    const struct plan_request *request;
    struct cost *cost;
    struct arena *arena;
    int64_t devices, limit_bytes;
    ARRAY(struct grid_layout) layouts;
    ARRAY(struct grid_shape) shapes;
    ARRAY(struct grid_passes) passes;
    ARRAY(struct grid_place) points; /* by bound_ns */
};
/* The cost stays the caller's; free it with what it owns. */
weft_status grid_space_new(const struct plan_request *request, struct cost *cost,
                           struct grid_space **out);
void grid_space_free(struct grid_space *space);
const struct schedule *grid_schedule(const struct grid_place *point);
struct degrees grid_degrees(const struct grid_space *space, const struct grid_place *point);

/* ---- bounds (grid_bounds.c) ------------------------------------------------------------------ */

const struct grid_passes *grid_passes_of(struct grid_space *space, const struct grid_layout *layout,
                                         int64_t micro_batch, bool many);
/* Equation (1) with operators' times, */
int64_t grid_operators_ns(const struct grid_space *space, const struct grid_passes *passes,
                          const struct grid_place *point);
/* and with any others; and (2). */
int64_t grid_least_ns(const struct grid_shape *shape, const struct grid_place *point,
                      const struct grid_part *part);
int64_t grid_least_bytes(const struct grid_layout *layout, const struct grid_shape *shape,
                         const struct grid_passes *passes, const struct grid_place *point,
                         bool offload);

#endif

/* grid_space.h - inside grid: its points, and a lower bound for each of them.
 *
 *   dp * cp * tp * pp = devices     tp divides a node's devices     ep * etp divides dp * cp * tp, with experts
 *   an encoder of images is on the first stage, or has one or two of its own in front of the others, of other
 *   sizes; its tensor degree is as much of tp as suits it, or 1
 *   micro-batch   divides a replica's share of the batch
 *   schedule      1f1b; interleaved with 2 to 8 pieces; zb-h1; aiao with 1, 2, 4 or 8 segments
 *
 * gpipe is aiao with one segment, slot by slot (schedule.c, I2). With one stage there is nothing to
 * interleave and no bubble to fill, so only 1f1b is tried, and aiao, which sends the gradients of a
 * segment while others compute.
 *
 * With f and b the times of a part's operators on the device for one micro-batch, forward and
 * backward (recomputation included), and no time for anything that is sent, an iteration takes at
 * least
 *
 *   max over stages s { sum over q < s of (f + b of its first piece) + m sum over pieces (f + b) } (1)
 *
 * since stage s works on m micro-batches, the first of which passed the stages before it, and the
 * last of which has to go back through them (with zb-h1 only after input gradients: f of (1)). It
 * takes all of f + b (with zb-h1, all of f) at least once. A stage holds at least its state and,
 * for each micro-batch in flight (with zb-h1: one less than 1f1b has), what the operators of its
 * smallest piece keep that are not recomputed, with sequence parallelism over tp * cp, less a
 * tenth; or, if that is more, what exists beside the state while the optimizer runs               (2)
 *
 *   I1  (1) is never above a point's estimated time, and (2) never above its peak. The tenth in
 *       (2), for tensors at a part's ends, is an allowance that tests/search/test_auto.c checks,
 *       not a proof.
 *   I2  Cuts depend only on stages and pieces; times of operators only on tp, cp, cp_heads, ep, etp, encoder_tp, sequence
 *       parallelism and micro-batch; state only on the layout and shard. Each is found once.
 */
#ifndef WEFT_SEARCH_AUTO_GRID_SPACE_H
#define WEFT_SEARCH_AUTO_GRID_SPACE_H

#include "search/planner/planner.h"

/* The least that a part takes for a micro-batch. */
struct grid_part {
    int64_t forward_ns, backward_ns;
};

enum { GRID_SHARDS = 4, GRID_LEVELS = MOST_RECOMPUTE_LEVELS };

struct grid_layout {
    int64_t dp, tp, pp, cp, cp_heads, ep, etp; /* etp 0: tp */
    int64_t encoder_tp, encoder_pp;            /* of pp stages, those of an encoder */
    bool sequence;
    struct choice *plain;               /* per operator; shard 0, nothing recomputed */
    struct choice *choice[GRID_LEVELS]; /* the same with what each level recomputes */
    /* Bytes of the instances before each cut of the space, and what the optimizer's step takes beside them. */
    int64_t *state[GRID_SHARDS], *step[GRID_SHARDS];
    struct plan *plan;                     /* without recomputation */
    int32_t row[GRID_LEVELS][GRID_SHARDS]; /* the estimator's row + 1; 0: not asked for yet */
    int32_t alone[GRID_LEVELS];            /* the same for one replica by itself */
    /* What (0) of grid_walk.h needs; NULL: not known yet, or no bound. */
    struct grid_part *waits[GRID_LEVELS];
};
/* Where each part begins, and one past the last. */
struct grid_shape {
    int64_t pp, pieces, encoder_pp;
    struct grid_part *part; /* used while bounds are computed */
    int64_t *cut;           /* NULL: the model does not have that many layers */
    int32_t *at;            /* per cut: its number among those of the space */
    struct candidate *candidate;
};
/* What one device does for a micro-batch: sums over the instances before each cut of the space. */
struct grid_passes {
    int64_t *forward_ns, *backward_ns[GRID_LEVELS], *kept_bytes[GRID_LEVELS];
    /* Of them, operators beside which something may be sent (floor.h). */
    int64_t *forward_beside_ns, *backward_beside_ns[GRID_LEVELS];
};
struct grid_place {
    int64_t bound_ns, bound_bytes; /* (1), (2) */
    int64_t micro_batch, micro_batches;
    int32_t layout, shape;
    uint8_t schedule, shard; /* schedule: index in schedule_searched */
    uint8_t level;           /* of recomputation: index in the levels of the space */
};
struct grid_space {
    const struct plan_request *request;
    struct cost *cost;
    struct arena *arena;
    int64_t devices, limit_bytes;
    struct recompute_levels levels;
    ARRAY(struct grid_layout) layouts;
    ARRAY(struct grid_shape) shapes;
    bool *is_cut; /* per instance, and for the end: whether a part of any shape begins there */
    int32_t cuts;
    ARRAY(struct grid_passes) passes;
    struct hash_map passes_of; /* their numbers, by what they depend on (I2) */
    ARRAY(struct grid_place) points;
};
/* The caller keeps the cost; freeing the space frees everything it owns. */
weft_status grid_space_new(const struct plan_request *request, struct cost *cost,
                           struct grid_space **out);
void grid_space_free(struct grid_space *space);
const struct schedule *grid_schedule(const struct grid_place *point);
struct degrees grid_degrees(const struct grid_space *space, const struct grid_place *point);

/* ---- bounds (grid_bounds.c) ------------------------------------------------------------------ */

const struct grid_passes *grid_passes_of(struct grid_space *space, const struct grid_layout *layout,
                                         int64_t micro_batch, bool many, int32_t pool);
/* The pool that a part's stage is in. */
int32_t grid_part_pool(const struct grid_space *space, const struct grid_place *point,
                       int32_t part);
/* Equation (1) with the times of operators: those of the first pool, and of others that were asked for before. */
int64_t grid_operators_ns(struct grid_space *space, const struct grid_passes *first,
                          const struct grid_place *point);
/* Equation (1) with any other times, and equation (2). */
int64_t grid_least_ns(const struct grid_shape *shape, const struct grid_place *point,
                      const struct grid_part *part);
int64_t grid_least_bytes(const struct grid_layout *layout, const struct grid_shape *shape,
                         const struct grid_passes *passes, const struct grid_place *point,
                         bool offload);

/* The devices of one replica, or of the replicas that share their experts: the fewest on which every operator
 * has whole parts; 0: there are no such. */
int64_t grid_devices_alone(const struct grid_layout *layout, int32_t ops);
/* A split on those: without the sample parts of other replicas. */
struct split grid_split_alone(const struct grid_layout *layout, const struct split *split,
                              int64_t devices);
/* The peak of the fullest stage as if it were on the largest devices, which the space's limit is for. */
int64_t grid_peak_bytes(const struct grid_space *space, const struct estimate *estimate);
/* Whether its passes come in pairs, one of which hides the tokens of the other (plan_schedule), and the target has such
 * pairs. */
bool hides_tokens_at(const struct grid_space *space, const struct grid_place *point);

#endif

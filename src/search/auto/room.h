/* room.h - inside auto: what its files share.
 *
 *   auto.c             the order of all this, the planners that join, who found what
 *   walks.c            walks over the grid, and what of them is simulated first
 *   finalists.c        which points of a walk that is
 *   contexts.c         walks with divided sequences
 *   refine.c           Aceso from the plans of other planners
 *   tune.c             what a target takes besides degrees
 *   blocks.c           recomputation of some layers of each part
 *   products.c         recomputation of all but products
 *   tune_pools.c       the layers of stages on different devices
 *   pools_alone.c      each pool of a cluster by itself
 *   cross.c            the ideas of one planner in the plans of another
 *   overlap_experts.c  transfers of tokens to experts, hidden beside another pass
 *   encoders.c         encoders of images with more replicas than the decoder
 *   groups.c           sharded state inside groups of replicas
 *   defer_heads.c      heads whose weights' gradients wait
 *   forks.c, branches.c  branches side by side on runs of a stage's devices
 *   resplit.c          operators with other splits, forward and backward
 *   join_stages.c      stages that take several micro-batches at once
 *   even_state.c       one level of state sharding for all operators
 *   cuts.c             cuts between stages, moved a layer at a time
 *   variant.c          a plan with another schedule, other steps or other splits
 */
#ifndef WEFT_SEARCH_AUTO_ROOM_H
#define WEFT_SEARCH_AUTO_ROOM_H

#include "search/auto/auto.h"
#include "search/estimate/estimate.h"

/* Few estimates are off by more than this: of real plans, nine in ten are within 1.2 % of the
 * simulation and 99 of 100 within 8 % (tests/search/test_estimate.c). */
#define AUTO_FAR_OFF 0.05
/* The estimates of two variants of one plan have about the same error, to within this. */
#define AUTO_NEAR 0.01

struct join {
    const struct plan_request *request;
    struct planned *out;
    struct cost *cost;
    struct estimator *estimator; /* NULL: not needed yet */
    double began_s;
    /* so many trials have been bases of plans with hidden tokens, or were too slow for that */
    size_t hidden;
    size_t tuned;    /* so many trials were there when layouts were last tuned */
    int64_t refined; /* the number of the trial that Aceso last started from; 0: none */
    /* Of all walks over the grid: the most points of one, how many were estimated, and simulated. */
    int64_t grid_points, grid_estimates;
    size_t grid_trials;
    struct progress progress;
};
bool join_over(const struct join *join);
int64_t join_left_ns(const struct join *join); /* what is left of the budget */
/* Whether planners that take seconds are also asked to start from other planners' plans. */
bool join_has_time(const struct plan_request *request);
void join_report(struct join *join);
/* try_degrees, without simulating again what was tried before: a grid that is walked again has most of
 * its points again. */
weft_status join_try(struct join *join, const struct plan_request *request,
                     const struct degrees *degrees, const struct trial **trial);
/* The best trial that fits and was found by `found_by` (NULL: by any planner); NULL: none. */
const struct trial *join_best(const struct planned *planned, const char *found_by);
double ns_per_sample(const struct trial *trial);
/* A copy of the plan of a trial, or the plan that its degrees are lowered to. */
weft_status join_plan_of(const struct join *join, const struct trial *trial, struct plan **out);
/* Simulates a plan, which it takes; *out is NULL where that is no plan, is forbidden, or makes no trial. */
weft_status join_try_found(struct join *join, struct plan *plan, const char *words,
                           const char *found_by, struct trial **out);
/* Estimates a plan; its stages are in `scratch`. */
weft_status join_estimate(struct join *join, const struct plan *plan, struct arena *scratch,
                          struct estimate *out);
/* Asks a planner and takes over its trials as found by `found_by`. If it has no answer, that is
 * added to the reasons, unless it was only asked to continue from a plan. */
weft_status join_ask(struct join *join, const struct planner *planner,
                     const struct plan_request *request, const char *found_by);

/* Whether the request is for a target that cannot express what the planners that look further find. */
bool join_takes_degrees(const struct plan_request *request);
/* Whether something is pinned that plans of the planners that look further do not keep. */
bool join_only_degrees_keep(const struct degrees *pins);

/* What comes after a walk with this request: what a target takes besides degrees, or Aceso from the best. */
weft_status join_improve(struct join *join, const struct plan_request *request);

/* ---- walking (walks.c) ------------------------------------------------------------------------ */

/* The grid's best, simulated. */
weft_status join_grid(struct join *join, const struct plan_request *request);
/* Doubles the batch, starting with one sample per device, as long as that is worth it. */
weft_status join_batches(struct join *join);

/* ---- divided sequences (contexts.c) ------------------------------------------------------------ */

/* Walks with each cp that the grid does not open by itself. */
weft_status divide_sequences(struct join *join);
/* Whether the best so far is one of these; *out is then a request for walks with its cp. */
bool join_divides(const struct join *join, struct plan_request *out);

/* ---- refining (refine.c) --------------------------------------------------------------------- */

/* Runs Aceso with a counted effort from the best so far, unless that is Aceso's own or a budget
 * asks for more. */
weft_status refine_best(struct join *join);
/* The same from the best of the grid with as many stages as the best trial has, with half and with
 * twice as many. */
weft_status refine_around(struct join *join, struct grid_walk *walk);
/* Runs Aceso to the end of its search from the plan of one trial. */
weft_status refine_to_the_end(struct join *join, const struct trial *trial,
                              const struct plan *plan);

/* ---- tuning (tune.c) -------------------------------------------------------------------------- */

/* Tunes what the request's target takes besides degrees, starting from the best degrees since the last time. */
weft_status tune_numbers(struct join *join, const struct plan_request *request);
/* The plan of degrees, of layers per part (NULL: even) and of a block (target.h); NULL: they make none. */
struct plan *tuned_plan(const struct join *join, const struct degrees *d, const int64_t *layers,
                        int64_t block);
/* Estimates it by the tables that walks over the grid have filled. */
weft_status estimate_layout(struct join *join, const struct plan *plan, struct arena *scratch,
                            struct estimate *out);
/* Simulates it; the answer then owns it. */
weft_status try_tuned(struct join *join, const struct degrees *d, struct plan *plan,
                      const char *words, const struct trial **trial);

/* ---- all but products (products.c) ------------------------------------------------------------- */

weft_status recompute_but_products(struct join *join, const struct plan_request *request);

/* ---- some layers (blocks.c) -------------------------------------------------------------------- */

/* Whether the search may choose how many layers are recomputed. */
bool has_blocks(const struct plan_request *request);
/* The least that degrees can take with nothing recomputed, and with all layers. */
struct block_times {
    double none_ns, all_ns;
};
struct block_times block_times(const struct trial *trial);
/* Whether n layers of each part recomputed would be slower than the best. */
bool blocks_beaten(const struct join *join, const struct degrees *d, struct block_times times,
                   int64_t n);
/* The longest that a plan with all layers recomputed may take, if it is to be faster than the best with fewer of them;
 * 0: there is no best. */
int64_t blocks_most_ns(const struct join *join);
/* Finds the fewest recomputed layers with which the degrees fit, if that can be faster than the best. */
weft_status blocks_try(struct join *join, struct degrees d, struct block_times times);
/* The same for the most promising of the trials so far. */
weft_status recompute_blocks(struct join *join);

/* Where stages are on different devices: gives each as many layers as it has time for (tune_pools.c). */
weft_status tune_pools(struct join *join);

/* Says how long each pool takes by itself (pools_alone.c). */
weft_status ask_pools_alone(struct join *join);

/* ---- finalists (finalists.c) ----------------------------------------------------------------- */

/* Simulates the grid's best points. */
weft_status finalists_try(struct join *join, const struct plan_request *request,
                          const struct grid *grid, struct arena *scratch);
/* Simulates points that more memory would make possible and that are faster; what_if finds them among the trials. */
weft_status roomier_try(struct join *join, const struct plan_request *request,
                        const struct grid *grid);

/* ---- crossing (cross.c) ---------------------------------------------------------------------- */

weft_status cross_plans(struct join *join);

/* ---- hiding (overlap_experts.c) -------------------------------------------------------------- */

weft_status hide_tokens(struct join *join);
/* Walks over the plans of the grid that hide tokens. */
weft_status walk_hidden(struct join *join);
/* Where nothing fits (offload_layers.c). */
weft_status offload_layers(struct join *join);
/* ---- encoders of images (encoders.c) ---------------------------------------------------------- */

weft_status spread_encoders(struct join *join);

/* ---- one level of state sharding (even_state.c) -------------------------------------------------- */

weft_status even_best_state(struct join *join);

/* ---- cuts between stages (cuts.c) ---------------------------------------------------------------- */

weft_status move_best_cuts(struct join *join);

/* ---- stages that take several micro-batches at once (join_stages.c) ---------------------------- */

weft_status join_stages(struct join *join);

/* ---- branches side by side (branches.c) ------------------------------------------------------- */

weft_status branch_out(struct join *join);

/* ---- other splits of operators (resplit.c) ---------------------------------------------------- */

weft_status resplit_best(struct join *join);

/* ---- groups (groups.c) ----------------------------------------------------------------------- */

weft_status share_in_groups(struct join *join);

/* ---- heads that wait (defer_heads.c) --------------------------------------------------------- */

weft_status defer_heads(struct join *join);

/* ---- variants (variant.c) -------------------------------------------------------------------- */

/* The same plan except for what is set here. */
struct variant {
    const char *schedule; /* NULL: the plan's own */
    int64_t pieces;       /* 0: the plan's own; otherwise parts are made even */
    int64_t step_samples;
    const struct choice *choice; /* per operator: splits; NULL: the plan's own */
};
/* *out is NULL if that makes no plan; otherwise the plan has passed plan_check. */
weft_status variant_of(const struct plan *from, const struct variant *variant, struct plan **out);
/* The smallest number of samples in a step that gives every device whole samples. */
int64_t least_step(const struct plan *plan);
/* The divisor of `share` next to `from`, below or above it; 0: there is none. */
int64_t next_divisor(int64_t share, int64_t from, bool above);

#endif

/* item_cost.h - how long the items of a block take, each alone: the numbers that the simulator and
 * the estimate share.
 *
 * An operator's phase takes what `cost` says of its local dims on the device. With a weight's
 * gradient come the sum for a bias (the output's gradient, read once) and, with more than one
 * micro-batch, the addition to the gradients of earlier micro-batches:
 *
 *   read 2 + g and write g bytes of each parameter, g = those of the policy's gradients        (1)
 *
 * Kernels that add to gradients themselves (device_adds_gradients) need neither. Frameworks that
 * shard weights also process them on the device (policy_handling); that cost is found here as well,
 * because a forward pass that is repeated gathers nothing.
 *
 * Where the software handles experts on streams, products take the time to call each expert's kernels in addition, and
 * PyTorch's own passes run between them; copies of tokens take time beyond their bytes (expert_kernels.c).
 *
 * The host issues every kernel, running ahead of the device from one pass into the next; if a
 * micro-batch takes the host longer than the device, a part's blocks are stretched evenly, so that
 * the way they are cut into runs changes nothing:
 *
 *   ns_i = device_i * max(1, sum host / sum device),   sums over the items of the part's blocks (2)
 *
 * Where the software says that hosts meet at exchanges, they do so before (host_races.c).
 *
 *   I1  A time depends only on the operator, its choice, the phase, the samples of a step,
 *       whether there is more than one step, and the type of the stage's devices: it is found once
 *       for each combination.
 */
#ifndef WEFT_SIM_ITEM_COST_H
#define WEFT_SIM_ITEM_COST_H

#include "compile/compile.h"
#include "sim/flows.h"

struct item_cost {
    struct kernel_cost device;
    int64_t host_ns;
    /* what the policy's hooks around an operator with weights take the host: forward, and with the weight's gradient */
    int64_t hooks_ns;
};
struct item_costs {
    const struct plan *plan;
    struct cost *cost;
    struct arena *keep;
    /* per pool, operator, choice and phase (I1); NULL: not asked for yet */
    struct item_cost **known;
};
struct item_costs item_costs_of(struct arena *keep, const struct plan *plan, struct cost *cost);
/* Everything that an operator's phase asks `cost` for: its own kernel first, then the passes that
 * come with it. Returns how many; 0: no work. */
enum { MAX_ITEM_WORKS = 6 };
int item_works(const struct plan *plan, int64_t instance, enum phase phase,
               struct work out[MAX_ITEM_WORKS]);
/* Of an operator's phase where experts have no fused kernels: kernels that are called one by one, and bytes that passes over
 * tokens move beside its own (expert_kernels.c). */
int64_t expert_calls(const struct plan *plan, const struct work *work);
/* Of bringing tokens to experts on other devices, or back, beyond their bytes. */
int64_t expert_copies_ns(const struct plan *plan, int64_t instance);
double expert_pass_bytes(const struct plan *plan, int64_t instance, enum phase phase);
/* How many kernels attention is whose keys and values go round a ring, 1 for all else; and what the steps take beyond one
 * kernel for all of them, to begin and to merge (ring_kernels.c). */
int64_t ring_kernels(const struct plan *plan, const struct item *item);
int64_t ring_merge_ns(struct item_costs *costs, const struct item *item);
/* What Weft's own kernels on a GPU take beyond a formula's answer for an operator's phase (own_kernels.c); it may be less than none. */
int64_t own_kernels_ns(const struct item_costs *costs, int64_t instance, enum phase phase,
                       const struct kernel_cost *cost);
/* An operator's phase. */
const struct item_cost *item_cost(struct item_costs *costs, int64_t instance, enum phase phase);
/* The host's time for an item that is an operator's phase, including what the policy requires. A
 * product in chunks is one call: it counts where it is executed. */
int64_t item_host_ns(struct item_costs *costs, const struct item *item);
/* The device's time for it; for a product in chunks, that of the chunks that the item stands
 * for. */
int64_t item_device_ns(struct item_costs *costs, const struct item *item);
/* The host's time to issue a step. */
double host_step_ns(const struct item_costs *costs, int32_t pool);
/* The device's step, of so many parameters without those that the host updates (plan->optimizer_offload). */
int64_t optimizer_ns(const struct item_costs *costs, int32_t stage, int64_t parameters);
/* The host's step for so many parameters, while it does the same for every device of the node. */
int64_t host_update_ns(const struct item_costs *costs, int32_t stage, int64_t parameters);
/* What Muon's products take in a stage's step, in addition; 0 for other optimizers. */
int64_t orthogonal_ns(const struct item_costs *costs, int32_t stage);

/* Per exchange of a graph, by how much computation beside it takes longer because kernels that send tokens take
 * multiprocessors away (FACT_TOKEN_SMS), of the device's n all but s are left: n / (n - s); 1 for those that send none.
 * NULL: they take none (token_kernels.c). */
const double *token_slowdowns(struct arena *keep, const struct graph *graph);

/* Sums over the items of a part's blocks: the host's time for all, the device's time for
 * operators. */
struct part_cost_sums {
    double host, device;
};
/* Device times per item; for steps, those of flows.h (4). Nothing is stretched; their sums are
 * added to `sums`. */
void item_costs_alone(struct item_costs *costs, const struct block *block,
                      const struct flows *flows, int64_t *ns, struct part_cost_sums *sums);
/* Whether the hosts of a stage meet at exchanges, what the device waits for one of them, and the times of a block's items
 * then, with the sums (host_races.c). */
bool hosts_meet(const struct plan *plan);
int64_t exchange_wait_ns(const struct plan *plan, const struct item *item, int64_t ns);
void meet_at_exchanges(struct item_costs *costs, const struct block *block, double step_ns,
                       int64_t *ns, struct part_cost_sums *sums);
double part_stretch(const struct part_cost_sums *sums);                     /* the factor of (2) */
void stretch_block(const struct block *block, double stretch, int64_t *ns); /* (2) */

#endif

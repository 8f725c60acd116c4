/* handling.c - what a framework does to an operator's weights besides its kernels and collectives.
 *
 * PyTorch's FSDP2 keeps fp32 shares of weights. With n devices that share a weight and m
 * micro-batches an iteration, it moves these bytes per parameter on the device:
 *
 *   gather   casts the share (4 + 2, divided by n), then copies what was gathered to where products
 *            read it (2 + 2): once a micro-batch, and with shard 3 again before the backward pass (1)
 *   reduce   copies gradients into one fp32 buffer (2 + 4; 4 + 4 for those that were added up before)
 *            and takes its share out of the sum (4 + 4, divided by n): once an iteration, with
 *            shard 3 once a micro-batch                                                           (2)
 *   add      with shard 3, adds up shares instead of whole gradients: 8 + 4, divided by n         (3)
 *
 * Read off the kernels of the exported script's steps on an H200, PyTorch 2.11: bytes over time
 * give 3.4 to 3.6 TB/s for each of them. Reducing on one device is a copy, hence the second part of
 * (2).
 *
 * The host pays for the hooks around a layer, whichever kernels they launch. This was measured in
 * models so small that the device never works for long, as the difference between 16 layers and 4,
 * in units of training_issue_ns, from which an operator's own kernels are subtracted. Milliseconds
 * per layer of GPT and Llama, with 6 operators that have weights: forward 2.1, backward 1.7,
 * reducing 0.9, the optimizer step 0.4; eager execution and torch.compile of layers differ by less
 * than two runs do.
 */
#include "cost/cost.h"

#define FORWARD_ISSUES  6.5 /* (2.1 - 0.6) ms / 6 operators / 38 us */
#define BACKWARD_ISSUES 2.2 /* 1.7 - 1.2 ms */
#define REDUCE_ISSUES   3.7 /* 0.85 ms */
#define STEP_ISSUES     1.8 /* 0.4 ms */

struct handling policy_handling(enum policy policy, int shard, double shares, double micro_batches)
{
    if (policy != POLICY_FSDP)
        return (struct handling){0};
    bool whole = shard < 3; /* gradients stay whole from one micro-batch to the next */
    double gathers = whole ? 1 : 2, reductions = whole ? 1 / micro_batches : 1;
    double gradient = whole && micro_batches > 1 ? 4 : 2;
    return (struct handling){
        .read = gathers * (4 / shares + 2) + reductions * (gradient + 4 / shares),
        .write = gathers * (2 / shares + 2) + reductions * (4 + 4 / shares), /* (1), (2) */
        .forward_issues = FORWARD_ISSUES,
        .backward_issues =
            BACKWARD_ISSUES + REDUCE_ISSUES * reductions + STEP_ISSUES / micro_batches,
        .adds_shares = !whole, /* (3) */
    };
}

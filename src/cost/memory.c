/* memory.c - time of kernels that only move bytes.
 *
 *   T = bytes / (B * memory_fraction * share)
 *
 * with B the datasheet's bandwidth and share the fraction of a plain stream's rate that this
 * kernel's access pattern reaches. Two kernels move other bytes than their operands:
 *
 *   embedding   forward reads the rows it looks up, not the table; backward clears the table's
 *               gradient and adds the rows to it, at the kernel's share
 *   loss        frameworks compute it in fp32, pass by pass (constants below)
 */
#include "cost/calibration.h"

#include <math.h>

double kernel_bandwidth(const struct device *device, const struct calibration *c,
                        const struct work *work)
{
    return device->memory_bytes_per_s * c->memory_fraction *
           c->share[work->kernel][phase_direction(work->phase)];
}

double memory_s(const struct device *device, const struct calibration *c, const struct work *work)
{
    return (work->read_bytes + work->write_bytes) / kernel_bandwidth(device, c, work);
}

/* Backward adds element by element, atomically, at a pace that does not depend on the type. */
double embedding_s(const struct device *device, const struct calibration *c,
                   const struct work *work)
{
    enum { ATOMIC_BYTES = 2 };
    bool forward = work->phase == PHASE_FORWARD;
    double elements = (double)work->shape[0] * (double)work->shape[1];
    double rows = 2 * elements * (forward ? dtype_bytes(work->dtype) : ATOMIC_BYTES);
    double time = rows / kernel_bandwidth(device, c, work);
    if (!forward)
        time += work->write_bytes / (device->memory_bytes_per_s * c->memory_fraction);
    return time;
}

/* Bytes per logit. Megatron's cross entropy takes the maximum (4), subtracts it (8), exponentiates
 * (8), sums (4) and keeps the exponentials; backward scales them (8). PyTorch's reads the logits for
 * the maximum, the sum and the output (12) and writes that (4); backward fills a gradient (4), reads
 * it and the output twice (16) and writes (4). 16-bit logits are converted first (2 + 4), and their
 * gradient last: by Megatron while it scales (2), by PyTorch apart (4 + 2). */
static const struct {
    double fp32[DIRECTION_COUNT], conversion[DIRECTION_COUNT];
} LOSS_BYTES[] = {
    [LOSS_MEGATRON] = {{24, 8}, {6, 2}},
    [LOSS_TORCH] = {{16, 24}, {6, 6}},
};
_Static_assert(COUNT_OF(LOSS_BYTES) == LOSS_COUNT, "a loss without a row");

double loss_s(const struct device *device, const struct calibration *c, const struct work *work)
{
    enum direction direction = phase_direction(work->phase);
    double logits = (double)work->shape[0] * (double)work->shape[1];
    double bytes = LOSS_BYTES[c->loss].fp32[direction];
    if (dtype_bytes(work->dtype) < 4)
        bytes += LOSS_BYTES[c->loss].conversion[direction];
    return logits * bytes / kernel_bandwidth(device, c, work);
}

/* analytic.c - time of one kernel on one device, from its shape and the device's datasheet.
 *
 *   T = max(issues * issue_ns, ramp_ns + t(work))
 *
 * t is computed by matmul.c, attention.c or scan.c for matrix products, and by memory.c for the
 * rest. The first term is the host's: kernels that take less time than a framework needs to issue
 * them run at the host's pace.
 *
 *   I1  No work, no time: without FLOPs and bytes the answer is 0.
 *   I2  Otherwise the answer is positive and finite, and never falls when a shape number grows.
 */
#include "cost/calibration.h"

#include <math.h>

struct kernel_model {
    double (*time_s)(const struct device *, const struct calibration *, const struct work *);
    /* Calls that reach the host's queue, in units of issue_ns: a matrix product includes the
     * library's own set-up, a softmax a custom autograd function, an embedding's gradient a sort.
     * Read off the floors of Aceso's V100 table. */
    double issues[DIRECTION_COUNT];
};

static const struct kernel_model MODELS[] = {
    [KERNEL_MATMUL] = {matmul_s, {2, 1.8}},
    [KERNEL_GROUPED_MATMUL] = {matmul_s, {1.2, 1.2}}, /* per group: SimuMax B200 */
    [KERNEL_ATTENTION] = {attention_s, {2, 2}},
    [KERNEL_ATTENTION_V1] = {attention_s, {2, 2}},
    [KERNEL_ATTENTION_V2] = {attention_s, {2, 2}},
    [KERNEL_CONV] = {conv_s, {2, 1.8}},
    [KERNEL_NORM] = {memory_s, {1.2, 1}},
    [KERNEL_BATCH_NORM] = {memory_s, {4.6, 1.6}},
    [KERNEL_SOFTMAX] = {memory_s, {2, 2.3}},
    [KERNEL_ELEMENTWISE] = {memory_s, {1, 1}},
    [KERNEL_DROPOUT] = {memory_s, {1.2, 1.2}},
    [KERNEL_EMBEDDING] = {embedding_s, {1, 12}},
    [KERNEL_LOSS] = {loss_s, {10, 3}},
    [KERNEL_LOSS_COMPILED] = {memory_s, {4, 3}},
    [KERNEL_POOL] = {memory_s, {2, 1.7}},
    [KERNEL_SCAN] = {scan_s, {5, 13}},   /* the kernels of scan.c, each issued by the host */
    [KERNEL_DELTA] = {delta_s, {7, 12}}, /* those of delta.c */
    [KERNEL_COPY] = {memory_s, {1, 1}},
    [KERNEL_OPTIMIZER] = {memory_s, {1, 1}},
};
_Static_assert(COUNT_OF(MODELS) == KERNEL_COUNT, "a kernel without a model");

static double ramp_ns(const struct calibration *c, const struct work *work)
{
    if (MODELS[work->kernel].time_s == attention_s)
        return c->ramp_ns + c->attention_ramp_ns[phase_direction(work->phase)];
    return c->ramp_ns;
}

static double host_ns(const struct calibration *c, const struct work *work)
{
    double calls = work->kernel == KERNEL_GROUPED_MATMUL ? (double)work->shape[0] : 1;
    return calls * MODELS[work->kernel].issues[phase_direction(work->phase)] * c->issue_ns;
}

static bool no_work(const struct work *work)
{
    return work->flops <= 0 && work->read_bytes + work->write_bytes <= 0;
}

static int64_t whole_ns(double ns)
{
    return ns < (double)INT64_MAX ? (int64_t)ceil(ns) : INT64_MAX;
}

static double device_ns(const struct device *device, const struct calibration *c,
                        const struct work *work)
{
    return ramp_ns(c, work) + 1e9 * MODELS[work->kernel].time_s(device, c, work);
}

int64_t analytic_begin_ns(const struct calibration *calibration, const struct work *work)
{
    return whole_ns(ramp_ns(calibration, work));
}

int64_t analytic_device_ns(const struct device *device, const struct calibration *calibration,
                           const struct work *work)
{
    return no_work(work) ? 0 : whole_ns(device_ns(device, calibration, work));
}

int64_t analytic_host_ns(const struct calibration *calibration, const struct work *work)
{
    return no_work(work) ? 0 : whole_ns(host_ns(calibration, work));
}

int64_t analytic_ns(const struct device *device, const struct calibration *calibration,
                    const struct work *work)
{
    if (no_work(work))
        return 0;
    return whole_ns(fmax(host_ns(calibration, work), device_ns(device, calibration, work)));
}

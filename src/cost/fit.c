/* fit.c - the parameters of a calibration, from measurements.
 *
 *   loss = mean over rows of min(|ln(predicted / measured)|, cap)
 *        + weight * sum over parameters of ln(value / start)^2
 *
 * The logarithm makes half and double count alike; the cap keeps a row that measured something else
 * from steering the fit; the weight on leaving the start keeps parameters physical that the rows do
 * not determine. The search is a pattern search: each parameter in turn is scaled up and down by a
 * step, an improvement is kept, and the step shrinks when none is left.
 *
 *   I1  The same rows and the same start give the same result, bit for bit.
 *   I2  A parameter that no row depends on keeps its value.
 */
#include "cost/calibration.h"

#include <math.h>
#include <string.h>

#define ROW(field, low, high) {#field, offsetof(struct calibration, field), 1, low, high}
#define BOTH(field, low, high)                                                                     \
    {#field, offsetof(struct calibration, field), DIRECTION_COUNT, low, high}
#define SHARE(kernel)                                                                              \
    ROW(share[KERNEL_##kernel][FORWARD], 0.01, 1), ROW(share[KERNEL_##kernel][BACKWARD], 0.01, 1)

/* In the order in which they are tried: a limit comes before what it limits, or the search settles
 * for less of the latter everywhere. */
static const struct fit_parameter PARAMETERS[] = {
    ROW(power_fraction, 0.1, 1),
    ROW(unit_fraction[RATE_VECTOR][FORWARD], 0.1, 0.98),
    ROW(unit_fraction[RATE_VECTOR][BACKWARD], 0.1, 0.98),
    ROW(unit_fraction[RATE_TENSOR][FORWARD], 0.1, 0.98),
    ROW(unit_fraction[RATE_TENSOR][BACKWARD], 0.1, 0.98),
    ROW(prologue_k, 4, 2000), /* an element of 4 bits is a quarter of one of 16 */
    ROW(tile_edge, 2, 60),
    ROW(unhidden, 0.01, 1),
    ROW(group_unhidden, 0.01, 1),
    ROW(winograd_traffic, 0.2, 4),
    ROW(attention_power[FORWARD], 0.1, 1),
    ROW(attention_power[BACKWARD], 0.1, 1),
    ROW(attention_fraction[FORWARD], 0.1, 0.98),
    ROW(attention_fraction[BACKWARD], 0.1, 0.98),
    ROW(attention_softmax[FORWARD], 1, 200),
    ROW(attention_softmax[BACKWARD], 1, 200),
    ROW(attention_tail, 0.1, 1),
    ROW(attention_ramp_ns[FORWARD], 100, 1e5),
    ROW(attention_ramp_ns[BACKWARD], 100, 1e5),
    ROW(attention_ends[FORWARD], 10, 4000),
    ROW(memory_fraction, 0.88, 0.93), /* the range known for streams on every device */
    ROW(ramp_ns, 500, 1e4),
    ROW(issue_ns, 1000, 1e5),
    BOTH(share[KERNEL_MATMUL], 0.05, 1),
    BOTH(share[KERNEL_CONV], 0.05, 1),
    SHARE(NORM),
    SHARE(BATCH_NORM),
    SHARE(SOFTMAX),
    SHARE(DROPOUT),
    SHARE(EMBEDDING),
    SHARE(LOSS),
    SHARE(LOSS_COMPILED),
    SHARE(POOL),
    SHARE(COPY),
    SHARE(ELEMENTWISE),
    BOTH(share[KERNEL_OPTIMIZER], 0.05, 1),
};

#define ERROR_CAP    0.5 /* |ln|: a factor of 1.65 */
#define FIRST_STEP   1.0 /* of the parameter's value */
#define LAST_STEP    0.005
#define LEAST_GAIN   1e-6  /* of the loss: less is rounding noise of the sum */
#define START_WEIGHT 0.001 /* a factor of two away from the start costs 0.05 % of mean error */

size_t fit_parameters(const struct fit_parameter **out)
{
    *out = PARAMETERS;
    return COUNT_OF(PARAMETERS);
}

double observation_ns(const struct calibration *c, const struct observation *o)
{
    int64_t (*predict)(const struct device *, const struct calibration *, const struct work *) =
        o->time.host_free ? analytic_device_ns : analytic_ns;
    struct calibration as_measured = *c;
    double ns = 0;
    as_measured.loss = o->time.loss;
    for (int i = 0; i < o->time.works; i++)
        ns += (double)predict(o->device, &as_measured, &o->time.work[i]);
    return fmax(ns, o->time.launch_ns);
}

static double *parameter(struct calibration *c, const struct fit_parameter *p)
{
    return (double *)(void *)((char *)c + p->offset);
}

static void set_parameter(struct calibration *c, const struct fit_parameter *p, double value)
{
    for (int i = 0; i < p->values; i++)
        parameter(c, p)[i] = fmin(fmax(value, p->low), p->high);
}

struct fit_descent {
    const struct observations *rows;
    const char *const *only; /* the parameters that move; NULL: all */
    size_t count;
    struct calibration start, *now;
    double best;
};

static bool moves(const struct fit_descent *d, const struct fit_parameter *p)
{
    bool named = !d->only;
    for (size_t i = 0; i < d->count && !named; i++)
        named = strcmp(d->only[i], p->name) == 0;
    return named;
}

static double distance_from_start(struct fit_descent *d)
{
    double sum = 0;
    for (size_t i = 0; i < COUNT_OF(PARAMETERS); i++) {
        if (!moves(d, &PARAMETERS[i]))
            continue;
        double ratio = *parameter(d->now, &PARAMETERS[i]) / *parameter(&d->start, &PARAMETERS[i]);
        sum += log(ratio) * log(ratio);
    }
    return sum;
}

static double loss(struct fit_descent *d)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < d->rows->len; i++) {
        const struct observation *o = &d->rows->data[i];
        if (o->held_out || o->time.all_reduce_bytes != 0)
            continue;
        sum += fmin(fabs(log(observation_ns(d->now, o) / o->time.ns)), ERROR_CAP);
        count++;
    }
    return (count ? sum / (double)count : 0) + START_WEIGHT * distance_from_start(d);
}

/* Keeps the best of the value and some between value / (1 + step) and value * (1 + step). */
static bool try_parameter(struct fit_descent *d, const struct fit_parameter *p, double step)
{
    double before = *parameter(d->now, p), keep = before;
    static const double POWERS[] = {1, -1, 0.5, -0.5, 0.25, -0.25};
    for (size_t i = 0; i < COUNT_OF(POWERS); i++) {
        set_parameter(d->now, p, before * pow(1 + step, POWERS[i]));
        double now = loss(d);
        if (now < d->best - LEAST_GAIN) {
            d->best = now;
            keep = *parameter(d->now, p);
        }
    }
    set_parameter(d->now, p, keep);
    return keep != before;
}

static void descend(struct fit_descent *d)
{
    /* Brings each into its bounds, and makes twins equal. */
    for (size_t i = 0; i < COUNT_OF(PARAMETERS); i++)
        if (moves(d, &PARAMETERS[i]))
            set_parameter(d->now, &PARAMETERS[i], *parameter(d->now, &PARAMETERS[i]));
    d->start = *d->now;
    d->best = loss(d);
    for (double step = FIRST_STEP; step >= LAST_STEP; step /= 2) {
        bool better = true;
        while (better) {
            better = false;
            for (size_t i = 0; i < COUNT_OF(PARAMETERS); i++)
                better |= moves(d, &PARAMETERS[i]) && try_parameter(d, &PARAMETERS[i], step);
        }
    }
}

void calibration_fit(const struct observations *rows, struct calibration *c)
{
    descend(&(struct fit_descent){.rows = rows, .now = c});
}

void calibration_fit_only(const struct observations *rows, const char *const *names, size_t count,
                          struct calibration *c)
{
    descend(&(struct fit_descent){.rows = rows, .only = names, .count = count, .now = c});
}

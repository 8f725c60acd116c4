/* rate.c - the shapes of learning rates, and clipping (rate.h has the equations). */
#include "run/rank/rate.h"

#include <math.h>

static double constant_shape(double t)
{
    (void)t;
    return 1;
}

static double linear_shape(double t)
{
    return 1 - t;
}

static double cosine_shape(double t)
{
    return (1 + cos(M_PI * t)) / 2;
}

static const char *const NAMES[] = {
    [RATE_CONSTANT] = "constant",
    [RATE_LINEAR] = "linear",
    [RATE_COSINE] = "cosine",
};
static double (*const SHAPES[])(double t) = {
    [RATE_CONSTANT] = constant_shape,
    [RATE_LINEAR] = linear_shape,
    [RATE_COSINE] = cosine_shape,
};
_Static_assert(COUNT_OF(NAMES) == RATE_SHAPE_COUNT, "a shape without a name");
_Static_assert(COUNT_OF(SHAPES) == RATE_SHAPE_COUNT, "a shape without a function");

const char *rate_shape_name(enum rate_shape shape)
{
    return NAMES[shape];
}

bool rate_shape_from_name(const char *name, enum rate_shape *out)
{
    int at = NAME_INDEX(name, NAMES);
    if (at >= 0)
        *out = (enum rate_shape)at;
    return at >= 0;
}

const char *rate_shape_near(const char *name)
{
    return NEAREST_NAME(name, NAMES);
}

weft_status rate_check(const struct rate_schedule *rate)
{
    if (!(rate->peak > 0) || !isfinite(rate->peak))
        return bad_argument("give one such as 3e-4", "a learning rate of %g, expected one above 0",
                            rate->peak);
    if (!(rate->least >= 0) || rate->least > rate->peak)
        return bad_argument("give a least learning rate from 0 to the learning rate itself",
                            "a least learning rate of %g is not between 0 and %g", rate->least,
                            rate->peak);
    if (rate->warmup < 0 || rate->warmup > rate->steps)
        return bad_argument("warm up over fewer steps, or train for more",
                            "a warm-up over %lld steps, expected 0 to the %lld steps of the run",
                            (long long)rate->warmup, (long long)rate->steps);
    return WEFT_OK;
}

double rate_at(const struct rate_schedule *rate, int64_t step)
{
    if (step < rate->warmup)
        return rate->peak * ((double)step + 1) / (double)rate->warmup; /* (1) */
    double t = step >= rate->steps
                   ? 1
                   : (double)(step - rate->warmup) / (double)(rate->steps - rate->warmup);
    return rate->least + (rate->peak - rate->least) * SHAPES[rate->shape](t); /* (2) */
}

double clip_factor(double norm, double limit)
{
    if (limit <= 0 || norm <= limit)
        return 1;
    return limit / norm;
}

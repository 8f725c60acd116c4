/* fp8.c - what a cast to fp8 makes of numbers, on the host (fp8.h): what every backend's casts are held against. */
#include "run/kernels/kernels.h"

#include <math.h>

const struct fp8_facts FP8_FORMS[FP8_FORM_COUNT] = {
    [FP8_E4M3] = {3, -6, 448},
    [FP8_E5M2] = {2, -14, 57344},
};

const enum fp8_form FP8_FORM_OF[FP8_OPERAND_COUNT] = {
    [FP8_INPUT] = FP8_E4M3, [FP8_WEIGHT] = FP8_E4M3, [FP8_GRADIENT] = FP8_E5M2};

static float largest(const float *x, int64_t count)
{
    float most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most || isnan(x[i]) ? fabsf(x[i]) : most;
    return most;
}

static float scale_of(enum fp8_form form, float most)
{
    return most == 0 ? 1 : FP8_FORMS[form].limit / most; /* I3 */
}

/* To the nearest, ties to even; what is after the limit becomes the limit. A number that is added to `steps`, which has no
 * bits below the smallest step of the form, is rounded to multiples of that step. */
static float nearest(const struct fp8_facts *form, float x)
{
    const uint32_t low = (1U << (23 - form->mantissa)) - 1;
    float size = fabsf(x), steps = ldexpf(1, 23 + form->least - form->mantissa);
    uint32_t bits = float_bits(size);
    float normal = bits_float((bits + (low >> 1) + (bits >> (23 - form->mantissa) & 1U)) & ~low);
    float small = (size + steps) - steps;
    float rounded = size < ldexpf(1, form->least) ? small : normal;
    return copysignf(rounded > form->limit ? form->limit : rounded, x);
}

static void round_all(enum fp8_form form, float scale, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = isfinite(scale * x[i]) ? nearest(&FP8_FORMS[form], scale * x[i]) / scale : NAN;
}

/* (2): the most of the steps before. */
static float remembered(const struct fp8_history *history, enum fp8_operand operand)
{
    float most = 0;
    for (int64_t i = 1; i < FP8_HISTORY; i++)
        most = fmaxf(most, history->most[i * history->stride + operand]);
    return most;
}

void fp8_cast(const struct fp8_history *history, enum fp8_operand operand, float *x, int64_t count)
{
    enum fp8_form form = FP8_FORM_OF[operand];
    float most = largest(x, count), before = most;
    if (history->most && isfinite(most))
        history->most[operand] = fmaxf(history->most[operand], most);
    if (history->most && !history->first)
        before = remembered(history, operand);
    round_all(form, scale_of(form, before), x, count);
}

/* optimizer.c - one step of SGD, Adam or AdamW on a run of weights.
 *
 * With g = scale * gradient, d the decay and a the rate, at step t:
 *
 *   SGD    g += d w;   m = momentum m + g;   w -= a m           (without momentum: w -= a g)     (1)
 *   Adam   g += d w;   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
 *          w -= a / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + e)                                (2)
 *   AdamW  the same, but w -= a d w instead of g += d w                                          (3)
 *
 * as in PyTorch (Kingma and Ba, 2015; Loshchilov and Hutter, 2019).
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

const struct optimizer_step ADAMW_STEP = {.kind = OPTIMIZER_ADAMW,
                                          .rate = 1e-3F,
                                          .beta1 = 0.9F,
                                          .beta2 = 0.95F,
                                          .epsilon = 1e-8F,
                                          .decay = 0.1F,
                                          .step = 1,
                                          .scale = 1};

VECTOR static void sgd(float *restrict w, const float *restrict gradient, int64_t count,
                       const struct optimizer_step *step)
{
    float scale = step->scale, decay = step->decay, rate = step->rate;
    for (int64_t i = 0; i < count; i++)
        w[i] -= rate * (scale * gradient[i] + decay * w[i]);
}

VECTOR static void sgd_momentum(float *restrict w, const float *restrict gradient,
                                float *restrict m, int64_t count, const struct optimizer_step *step)
{
    float scale = step->scale, decay = step->decay, rate = step->rate, momentum = step->momentum;
    for (int64_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + (scale * gradient[i] + decay * w[i]);
        w[i] -= rate * m[i];
    }
}

static void run_sgd(const struct optimizer_step *step)
{
    if (step->moment1)
        sgd_momentum(step->master, step->gradient, step->moment1, step->count, step);
    else
        sgd(step->master, step->gradient, step->count, step);
}

/* `coupled` decay is part of the gradient, `apart` is taken off the weight. */
VECTOR static void adam(float *restrict w, const float *restrict gradient, float *restrict m,
                        float *restrict v, float coupled, float apart,
                        const struct optimizer_step *step)
{
    float b1 = step->beta1, b2 = step->beta2, scale = step->scale, epsilon = step->epsilon;
    float rate = (float)(step->rate / (1 - pow((double)b1, (double)step->step)));
    float root = (float)(1 / sqrt(1 - pow((double)b2, (double)step->step)));
    float rest = 1 - step->rate * apart;
    int64_t count = step->count;
    for (int64_t i = 0; i < count; i++) {
        float g = scale * gradient[i] + coupled * w[i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        w[i] = w[i] * rest - rate * m[i] / (sqrtf(v[i]) * root + epsilon);
    }
}

static void run_adam(const struct optimizer_step *step)
{
    adam(step->master, step->gradient, step->moment1, step->moment2, step->decay, 0, step);
}

static void run_adamw(const struct optimizer_step *step)
{
    adam(step->master, step->gradient, step->moment1, step->moment2, 0, step->decay, step);
}

void cpu_optimize(const struct optimizer_step *step)
{
    static void (*const RUN[])(const struct optimizer_step *) = {
        [OPTIMIZER_SGD] = run_sgd,
        [OPTIMIZER_ADAM] = run_adam,
        [OPTIMIZER_ADAMW] = run_adamw,
        [OPTIMIZER_MUON] = run_adamw,
    };
    _Static_assert(COUNT_OF(RUN) == OPTIMIZER_COUNT, "an optimizer without a row");
    RUN[step->kind](step);
    store_weights(step);
}

void store_weights(const struct optimizer_step *step)
{
    if (!step->weight)
        return;
    if (step->dtype == DTYPE_FP32)
        memcpy(step->weight, step->master, (size_t)step->count * sizeof(float));
    else
        narrow(step->dtype, step->master, step->count, step->weight, 0);
}

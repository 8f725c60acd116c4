/* muon.cu - Muon's step, element by element (kernels/cpu/muon.c). */
#include "../../device/cuda/elements.cuh"

extern "C" __global__ void muon_momentum(const float *gradient, float *m, float *x, int64_t count,
                                         float scale, float momentum)
{
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        float g = scale * gradient[i], own = momentum * m[i] + g;
        m[i] = own;
        x[i] = g + momentum * own;
    }
}

/* Of a matrix whose squares add up to *squares. */
extern "C" __global__ void muon_normalise(float *x, int64_t count, const double *squares)
{
    float inverse = (float)(1 / (sqrt(*squares) + 1e-7));
    for (int64_t i = thread_index(); i < count; i += thread_count())
        x[i] *= inverse;
}

template <class T>
__device__ void muon_apply(float *w, const float *x, T *stored, int64_t count, float rest, float rate)
{
    for (int64_t i = thread_index(); i < count; i += thread_count()) {
        w[i] = w[i] * rest - rate * x[i];
        if (stored)
            stored[i] = narrow<T>(w[i]);
    }
}
#define MUON_APPLY(T) (float *w, const float *x, T *stored, int64_t count, float rest, float rate)
BOTH(muon_apply, MUON_APPLY, (w, x, stored, count, rest, rate))

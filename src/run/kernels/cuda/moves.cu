/* moves.cu - gradients of what a reshape moved (kernels/cpu/move.c). */
#include "../../device/cuda/elements.cuh"

/* As in shapes.h. */
struct movement {
    int64_t in, out, front, rows, run, times, parts;
};

/* Sums over the copies of a row; what was left out has no gradient. A thread for each element of the input. */
template <class T> __device__ void moved_input(const T *dy, T *dx, int64_t samples, movement m)
{
    for (int64_t n = thread_index(); n < samples * m.in; n += thread_count()) {
        int64_t sample = n / m.in, row = n % m.in / m.run;
        const T *from = dy + sample * m.out + m.front + row * m.run * m.times + n % m.in % m.run;
        float sum = 0;
        for (int64_t i = 0; row < m.rows && i < m.times; i++)
            sum += wide(from[i * m.run]);
        dx[n] = narrow<T>(sum);
    }
}
#define MOVED_INPUT(T) (const T *dy, T *dx, int64_t samples, movement m)
BOTH(moved_input, MOVED_INPUT, (dy, dx, samples, m))

/* A thread for each element of the weight, over all samples. */
template <class T>
__device__ void moved_weight(const T *dy, float *gradient, int64_t samples, movement m)
{
    int64_t i = thread_index();
    if (i >= m.front)
        return;
    float sum = 0;
    for (int64_t sample = 0; sample < samples; sample++)
        sum += wide(dy[sample * m.out + i]);
    gradient[i] += sum;
}
#define MOVED_WEIGHT(T) (const T *dy, float *gradient, int64_t samples, movement m)
BOTH(moved_weight, MOVED_WEIGHT, (dy, gradient, samples, m))

/* ---- addresses of matrices --------------------------------------------------------------------- */

/* As in products.c: of A, B and C where the first is, and bytes from sample to sample and from head to head. */
struct listed_heads {
    char *first[3];
    int64_t by_sample[3], by_head[3], samples, heads;
};

extern "C" __global__ void list_heads(listed_heads l, char **to)
{
    int64_t i = thread_index(), all = l.samples * l.heads;
    for (int k = 0; i < all && k < 3; k++)
        to[k * all + i] = l.first[k] + i / l.heads * l.by_sample[k] + i % l.heads * l.by_head[k];
}

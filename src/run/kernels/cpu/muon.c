/* muon.c - one step of Muon on whole matrices (Jordan et al., 2024; the factor of Liu et al., 2025).
 *
 * With g = scale * gradient, d the decay, a the rate and u the momentum, for a matrix of r rows and c columns:
 *
 *   m = u m + g,   X = (g + u m) / |g + u m|      (Nesterov's; the norm is the root of the sum of squares)           (1)
 *   five times     A = X X^T,  X = a1 X + (a2 A + a3 A A) X        of the X with no more rows than columns           (2)
 *   w = w (1 - a d) - a 0.2 sqrt(max(r, c)) X                                                                        (3)
 *
 * (2) brings all singular values near 1. The factor of (3) gives a step the size of AdamW's, whose rates then serve.
 *
 *   I1  All in fp32. Products of matrices are OpenBLAS's, on this thread.
 */
#include <math.h>

#include "run/kernels/cpu/cpu.h"

enum { ITERATIONS = 5 };
static const float A1 = 3.4445F, A2 = -4.7750F, A3 = 2.0315F; /* Jordan et al.'s quintic */

/* A matrix that is being made orthogonal: rows <= columns, and room for the products of (2). */
struct orthogonal {
    int64_t rows, columns;
    float *x, *a, *b, *next;
};

static struct matrix whole(float *at, int64_t step, bool transposed)
{
    return (struct matrix){.at = at, .step = step, .transposed = transposed};
}

static void iterate(struct orthogonal *o)
{
    int64_t r = o->rows, c = o->columns;
    product(r, r, c, 1, whole(o->x, c, false), whole(o->x, c, true), 0, o->a, r);
    for (int64_t i = 0; i < r * r; i++)
        o->b[i] = A2 * o->a[i];
    product(r, r, r, A3, whole(o->a, r, false), whole(o->a, r, false), 1, o->b, r);
    for (int64_t i = 0; i < r * c; i++)
        o->next[i] = A1 * o->x[i];
    product(r, c, r, 1, whole(o->b, r, false), whole(o->x, c, false), 1, o->next, c);
    float *before = o->x;
    o->x = o->next;
    o->next = before;
}

/* (1), without the norm. */
static void cpu_momentum(const struct optimizer_step *s, float *x)
{
    for (int64_t i = 0; i < s->count; i++) {
        float g = s->scale * s->gradient[i];
        s->moment1[i] = s->momentum * s->moment1[i] + g;
        x[i] = g + s->momentum * s->moment1[i];
    }
}

/* Of a gradient of zeros nothing is left. */
static float inverse_norm(const float *x, int64_t count)
{
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += (double)x[i] * (double)x[i];
    return (float)(1 / (sqrt(squares) + 1e-7));
}

/* A matrix, or its transpose, from `from` to `to`: of `rows` rows before. */
static void turn(int64_t rows, int64_t columns, bool turned, float factor, const float *from,
                 float *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            to[turned ? k * rows + i : i * columns + k] = factor * from[i * columns + k];
}

static int64_t cpu_room_bytes(int64_t rows, int64_t columns)
{
    int64_t r = rows < columns ? rows : columns;
    return (2 * rows * columns + 2 * r * r) * (int64_t)sizeof(float);
}

static void cpu_orthogonalise(struct device_stream *stream, int64_t rows, int64_t columns,
                              int64_t matrices, float *x, void *memory)
{
    bool turned = rows > columns;
    int64_t r = turned ? columns : rows, c = turned ? rows : columns, each = r * c;
    float *room = memory;
    (void)stream;
    for (int64_t i = 0; i < matrices; i++, x += each) {
        struct orthogonal o = {r, c, room, room + 2 * each, room + 2 * each + r * r, room + each};
        turn(rows, columns, turned, inverse_norm(x, each), x, o.x);
        for (int k = 0; k < ITERATIONS; k++)
            iterate(&o);
        turn(r, c, turned, 1, o.x, x);
    }
}

static void cpu_apply(const struct optimizer_step *s, const float *x) /* (3) */
{
    float rest = 1 - s->rate * s->decay;
    float rate = s->rate * 0.2F * sqrtf((float)(s->rows > s->columns ? s->rows : s->columns));
    for (int64_t i = 0; i < s->count; i++)
        s->master[i] = s->master[i] * rest - rate * x[i];
    store_weights(s);
}

const struct muon_kernels CPU_MUON = {cpu_momentum, cpu_room_bytes, cpu_orthogonalise, cpu_apply};

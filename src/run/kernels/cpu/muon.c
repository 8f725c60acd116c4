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
#include <stdlib.h>

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

/* (1): leaves the momentum, and X as the matrix lies or transposed. */
static void begin(const struct optimizer_step *s, int64_t first, bool turned, struct orthogonal *o)
{
    const float *gradient = s->gradient + first;
    float *m = s->moment1 + first;
    double squares = 0;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->columns; k++) {
            float g = s->scale * gradient[i * s->columns + k], *own = &m[i * s->columns + k];
            *own = s->momentum * *own + g;
            float x = g + s->momentum * *own;
            o->x[turned ? k * s->rows + i : i * s->columns + k] = x;
            squares += (double)x * (double)x;
        }
    float inverse =
        (float)(1 / (sqrt(squares) + 1e-7)); /* of a gradient of zeros nothing is left */
    for (int64_t i = 0; i < s->rows * s->columns; i++)
        o->x[i] *= inverse;
}

static void finish(const struct optimizer_step *s, int64_t first, bool turned,
                   const struct orthogonal *o) /* (3) */
{
    float *w = s->master + first;
    float rest = 1 - s->rate * s->decay;
    float rate = s->rate * 0.2F * sqrtf((float)o->columns);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->columns; k++) {
            float x = o->x[turned ? k * s->rows + i : i * s->columns + k];
            w[i * s->columns + k] = w[i * s->columns + k] * rest - rate * x;
        }
}

void cpu_update_matrices(const struct optimizer_step *step)
{
    bool turned = step->rows > step->columns;
    int64_t r = turned ? step->columns : step->rows, c = turned ? step->rows : step->columns;
    int64_t each = r * c;
    float *room = malloc((size_t)(2 * each + 2 * r * r) * sizeof *room);
    if (!room)
        memory_ran_out((size_t)(2 * each + 2 * r * r) * sizeof *room);
    for (int64_t first = 0; first + each <= step->count; first += each) {
        struct orthogonal o = {r, c, room, room + 2 * each, room + 2 * each + r * r, room + each};
        begin(step, first, turned, &o);
        for (int i = 0; i < ITERATIONS; i++)
            iterate(&o);
        finish(step, first, turned, &o);
    }
    free(room);
    store_weights(step);
}

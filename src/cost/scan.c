/* scan.c - time of a selective scan in chunks (Mamba-2: Dao and Gu, 2024, section 6).
 *
 * It is a sequence of kernels, those of mamba_ssm's ssd_combined.py: for a chunk of Q positions the
 * product C B^T, the state that the chunk adds, passing states on from chunk to chunk, and the
 * output; the backward pass computes states and C B^T again and then the gradients. Per position,
 * with G groups, H heads of depth P and states of N
 *
 *   products forward   2 (Q N G + Q P H + 2 N P H)                                             (1)
 *   backward           2 (3 Q N G + 3 Q P H + 5 N P H)                                         (2)
 *   bytes              x of x and y (H P), b of B and C (G N), s of states (H P N / Q),
 *                      c of C B^T (G Q), d of dt and its sums (H): the table below             (3)
 *   T = products / (P f) + bytes / (B m)                                                       (4)
 *
 * The kernels run one after the other, some bound by products and some by bytes, so (4) is a sum. C
 * B^T, dt's sums and a chunk's state are fp32; states that were passed on have the compute dtype. f
 * is scan_fraction, m the share of a stream's bandwidth.
 *
 *   I1  Positions that do not fill a chunk are computed as a whole chunk.
 */
#include "cost/calibration.h"

#include <math.h>

/* Passes over each tensor: elements in the compute dtype, and in fp32. */
struct passes {
    double x, b, s;       /* compute dtype */
    double s4, c4, d4;    /* fp32 */
    double qng, qph, nph; /* products: (1), (2) */
};

/* Forward: dt's sums; a chunk's state (reads x, B; writes s4); passed on (s4, s); C B^T (b, b, c4); the
 * output (c4, x, C, s; writes y). Backward: the first four again; gradients of the states (C, dy; s4);
 * passed back (s, s4; s, s); of x (x, c4, dy, B, s; dx); of B (x, B, s; fp32 for each group) and C (s, dy,
 * C; likewise); of C B^T (x, dy; c4), from it those of B and C (c4 twice); of dt's sums (x, dy, c4). */
static const struct passes PASSES[] = {
    [FORWARD] = {.x = 3, .b = 4, .s = 2, .s4 = 2, .c4 = 2, .d4 = 6, .qng = 1, .qph = 1, .nph = 2},
    [BACKWARD] =
        {.x = 11, .b = 19, .s = 7, .s4 = 4, .c4 = 6, .d4 = 20, .qng = 3, .qph = 3, .nph = 5},
};

double scan_s(const struct device *device, const struct calibration *c, const struct work *work)
{
    const int64_t *shape = work->shape;
    enum direction direction = phase_direction(work->phase);
    const struct passes *p = &PASSES[direction];
    double chunk = (double)shape[6], state = (double)shape[5], groups = (double)shape[1];
    double heads = (double)shape[2], wide = heads * (double)shape[4];
    double positions = (double)shape[0] * (double)ceil_div(shape[3], shape[6]) * chunk; /* I1 */
    double flops =
        2 * (chunk * state * groups * p->qng + chunk * wide * p->qph + state * wide * p->nph);
    double states = wide * state / chunk, e = dtype_bytes(work->dtype);
    double bytes = e * (wide * p->x + groups * state * p->b + states * p->s) +
                   4 * (states * p->s4 + groups * chunk * p->c4 + heads * p->d4);
    return positions * (flops / (peak_flops(device, work->dtype) * c->scan_fraction[direction]) +
                        bytes / kernel_bandwidth(device, c, work));
}

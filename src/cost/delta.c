/* delta.c - time of a gated delta rule in chunks (Yang et al., 2024, section 3.3; the kernels of
 * flash-linear-attention's chunk_gated_delta_rule).
 *
 * For a chunk of Q positions of a head with keys of N and values of P: the triangle K K^T, its inverse, w = inverse K
 * and u = inverse V, states passed on from chunk to chunk with v = u - w S, and the output from Q K^T, v and S. The
 * backward pass makes w, u, states and v again. Per position and head
 *
 *   products forward   2 (Q (3 N + 2 P) + 3 N P + Q^2 / 3)                                     (1)
 *   backward           2 (Q (9 N + 5 P) + 8 N P + 2 Q^2)                                       (2)
 *   bytes              k of q, k and w (N), v of v, u and y (P), s of states (N P / Q), a of the triangle (Q),
 *                      d of rates and their sums (1): the table below                          (3)
 *   T = products / (P f) + bytes / (B m)                                                       (4)
 *
 * as for a scan (scan.c, 4). No delta rule was measured: f is the scan's, since both are sequences of products of
 * chunks of the same size in kernels of the same kind (Triton's, without the asynchronous products of a unit).
 *
 *   I1  Positions that do not fill a chunk are computed as a whole chunk.
 */
#include "cost/calibration.h"

/* Passes over each tensor, in the compute dtype or in fp32 (a4, d4); products of (1) and (2). */
struct delta_passes {
    double k, v, s, a4, d4;
    double qn, qp, np, qq;
};

/* Forward: sums of the rates; the triangle (k; a4), its inverse (a4, a4), w and u (k, v, a4; w, u), states (k, w, u; s,
 * v), output (q, k, v, s; y). Backward: w and u, and states again; gradients of v from the output (q, k, dy; dv), of
 * the states (q, k, w, dy, dv; s, dv), of q, k and w (q, k, v, dy, dv, s, s; three), through the inverse (k, v, a4, dw,
 * du; dk, dv), and the sums of those of k. */
static const struct delta_passes PASSES[] = {
    [FORWARD] =
        {.k = 7, .v = 7, .s = 2, .a4 = 4, .d4 = 6, .qn = 3, .qp = 2, .np = 3, .qq = 1.0 / 3},
    [BACKWARD] = {.k = 22, .v = 16, .s = 5, .a4 = 3, .d4 = 16, .qn = 9, .qp = 5, .np = 8, .qq = 2},
};

double delta_s(const struct device *device, const struct calibration *c, const struct work *work)
{
    const int64_t *shape = work->shape;
    enum direction direction = phase_direction(work->phase);
    const struct delta_passes *p = &PASSES[direction];
    double chunk = (double)shape[6], key = (double)shape[5], value = (double)shape[4];
    double rows =
        (double)shape[0] * (double)shape[2] * (double)ceil_div(shape[3], shape[6]) * chunk;
    double products = chunk * (key * p->qn + value * p->qp + chunk * p->qq) + key * value * p->np;
    double bytes =
        dtype_bytes(work->dtype) * (key * p->k + value * p->v + key * value / chunk * p->s) +
        4 * (chunk * p->a4 + p->d4);
    double peak = peak_flops(device, work->dtype) * c->scan_fraction[direction];
    return rows * (2 * products / peak + bytes / kernel_bandwidth(device, c, work)); /* I1, 4 */
}

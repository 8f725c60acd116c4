/* matmul.c - time of a matrix product, from tiles and waves.
 *
 * An m x n x k product (batch of g) is cut into a x b tiles; each unit of the device computes one
 * tile at a time, so with U units
 *
 *   W  = ceil(g * s * ceil(m/a) * ceil(n/b) / U)                         waves              (1)
 *   Tc = W * 2ab (k/s + k0) / (P/U * f * e(a,b)) + split-k traffic                          (2)
 *   e  = ab / (ab + h(a + b)), relative to the largest tile                                 (3)
 *   Tp = 2gmnk / (P * fp)                                              power limit          (4)
 *   T  = max(C, M) + u * min(C, M),  C = max(min over a, b, s of Tc, Tp),  M = bytes / bandwidth
 *                                                                                           (5)
 * with P the datasheet peak, f = unit_fraction, k0 = prologue_k, h = tile_edge, fp = power_fraction
 * (less fp8_loss or nvfp4_loss), u = unhidden. The minimum over tiles and over splits s of the reduction stands
 * for the library's own choice. (4) is why a large product runs at a lower rate than a medium one:
 * the device lowers its clock, and then an unfilled last wave costs nothing. On vector units k0 is
 * smaller, in proportion to their rate over that of the matrix units, and tiles may be narrower.
 *
 * In 16 bits, rows that do not begin at multiples of 16 bytes are read by kernels for 2 to 4
 * elements, or for single ones, at the fraction `misaligned` of the rate.
 *
 *   I1  T never falls when m, n, k or g grows and stays as well aligned: every candidate of the
 *       minimum is monotone.
 *   I2  T >= flops / P and T >= bytes / bandwidth: all fractions are at most 1.
 *
 * A convolution is treated as the product that implicit GEMM makes of it. Without matrix units, a 3
 * x 3 convolution of stride 1 may use Winograd's F(4x4, 3x3): 36 multiplications in place of 144,
 * which is below I2's first bound by design, and transformed tensors to move.
 */
#include "cost/calibration.h"

#include <math.h>

static const struct {
    int rows, cols;
} TILES[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256},
             {64, 128},  {128, 64},  {64, 64},   {32, 128}, {128, 32}};
enum { VECTOR_TILES = 2 }; /* this many at the end are for vector units only */
static const int SPLITS[] = {1, 2, 4, 8};

enum { FP32_BYTES = 4 };

struct product {
    double batch, m, n, k;
};

/* bf16 runs as fp16 and tf32 as fp32 if the device lacks them; plans in fp8 and nvfp4 are refused
 * there. */
enum dtype peak_dtype(const struct device *device, enum dtype dtype)
{
    static const enum dtype ORDER[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_TF32, DTYPE_FP32};
    if (device->flops[dtype] > 0)
        return dtype;
    for (size_t i = dtype == DTYPE_TF32 ? 3 : 0; i < COUNT_OF(ORDER); i++)
        if (device->flops[ORDER[i]] > 0)
            return ORDER[i];
    return DTYPE_FP32;
}

double peak_flops(const struct device *device, enum dtype dtype)
{
    double flops = device->flops[peak_dtype(device, dtype)];
    return flops > 0 ? flops : device->vector_flops;
}

static bool on_vector_units(const struct work *work)
{
    return work->dtype == DTYPE_FP32;
}

static double unit_rate(const struct device *device, const struct calibration *c,
                        const struct work *work)
{
    enum rate rate = on_vector_units(work) ? RATE_VECTOR : RATE_TENSOR;
    int units = device->units > 0 ? device->units : 1;
    return peak_flops(device, work->dtype) / units *
           c->unit_fraction[rate][phase_direction(work->phase)];
}

/* Equation (3). */
static double tile_efficiency(double rows, double cols, double edge)
{
    double area = rows * cols, largest = (double)TILES[0].rows * TILES[0].cols;
    double border = rows + cols, largest_border = TILES[0].rows + TILES[0].cols;
    return area / (area + edge * border) * (largest + edge * largest_border) / largest;
}

/* Filling and draining a tile takes a fixed time: fewer steps if each step takes longer. */
static double prologue_k(const struct device *device, const struct calibration *c,
                         const struct work *work)
{
    if (!on_vector_units(work))
        return c->prologue_k;
    return c->prologue_k * peak_flops(device, DTYPE_FP32) / peak_flops(device, DTYPE_BF16);
}

/* Equations (1) and (2), minimised. */
static double tiled_s(const struct device *device, const struct calibration *c,
                      const struct work *work, const struct product *p)
{
    double best = INFINITY, rate = unit_rate(device, c, work);
    double prologue = prologue_k(device, c, work);
    size_t kinds = COUNT_OF(TILES) - (on_vector_units(work) ? 0 : VECTOR_TILES);
    int units = device->units > 0 ? device->units : 1;
    for (size_t t = 0; t < kinds; t++) {
        double rows = TILES[t].rows, cols = TILES[t].cols;
        double tiles = p->batch * ceil(p->m / rows) * ceil(p->n / cols);
        double step_s = 2 * rows * cols / (rate * tile_efficiency(rows, cols, c->tile_edge));
        for (size_t i = 0; i < COUNT_OF(SPLITS); i++) {
            double split = SPLITS[i];
            double time = ceil(tiles * split / units) * step_s * (p->k / split + prologue);
            /* Each split writes its partial sum in fp32, and it is read again. */
            if (SPLITS[i] > 1)
                time += 2 * split * p->batch * p->m * p->n * FP32_BYTES /
                        kernel_bandwidth(device, c, work);
            best = fmin(best, time);
        }
    }
    return best;
}

/* The fraction of the rate that the sizes of the contiguous dims allow: of (m, n) in a weight's
 * gradient, otherwise of (n, k). */
static double aligned(const struct calibration *c, const struct work *work)
{
    enum { WHOLE = 8 }; /* elements of 16 bits in 16 bytes */
    const int64_t *s = work->shape;
    bool weight = work->phase == PHASE_BACKWARD_WEIGHT;
    int64_t sizes = s[2] | (weight ? s[1] : s[3]);
    if (dtype_bytes(work->dtype) != 2 || work->kernel == KERNEL_CONV || sizes % WHOLE == 0)
        return 1;
    return c->misaligned[sizes % 2];
}

/* Equations (4) and (5). */
static double product_s(const struct device *device, const struct calibration *c,
                        const struct work *work, const struct product *p, double bytes)
{
    bool grouped = work->kernel == KERNEL_GROUPED_MATMUL && p->batch > 1;
    double unhidden = grouped ? c->group_unhidden : c->unhidden;
    double flops = 2 * p->batch * p->m * p->n * p->k;
    const double losses[DTYPE_COUNT] = {[DTYPE_FP8] = c->fp8_loss, [DTYPE_NVFP4] = c->nvfp4_loss};
    double power = c->power_fraction * (1 - losses[work->dtype]);
    double compute =
        fmax(tiled_s(device, c, work, p), flops / (peak_flops(device, work->dtype) * power)) /
        aligned(c, work);
    double memory = bytes / kernel_bandwidth(device, c, work);
    return fmax(compute, memory) + unhidden * fmin(compute, memory);
}

double matmul_s(const struct device *device, const struct calibration *c, const struct work *work)
{
    double batch = (double)work->shape[0], m = (double)work->shape[1];
    double n = (double)work->shape[2], k = (double)work->shape[3];
    struct product whole = {batch, m, n, k};
    /* A product of two activations has both gradients in one phase, under the forward shape. */
    bool both_gradients = work->flops > 3 * batch * m * n * k;
    if (!both_gradients)
        return product_s(device, c, work, &whole, work->read_bytes + work->write_bytes);

    struct product left = {batch, m, k, n}, right = {batch, n, k, m};
    double bytes = batch * (m * n + n * k + m * k) * dtype_bytes(work->dtype);
    return product_s(device, c, work, &left, bytes) + product_s(device, c, work, &right, bytes);
}

struct conv {
    double images, out, height, width, in, taps, stride;
};

/* Implicit GEMM: y, dx or dw is the output. Only 1 / stride^2 of the taps of a strided dx meet a
 * dy. */
static struct product conv_product(const struct conv *v, enum phase phase)
{
    double pixels = v->images * v->height * v->width, phases = v->stride * v->stride;
    const struct product products[PHASE_COUNT] = {
        [PHASE_FORWARD] = {1, pixels, v->out, v->in * v->taps},
        [PHASE_BACKWARD_INPUT] = {1, pixels * phases, v->in, v->out * v->taps / phases},
        [PHASE_BACKWARD_WEIGHT] = {1, v->out, v->in * v->taps, pixels},
    };
    return products[phase];
}

/* F(4x4, 3x3): 36 products per 4 x 4 outputs; tensors grow by 36/16, weights by 36/9 (header). */
static double winograd_s(const struct device *device, const struct calibration *c,
                         const struct work *work, const struct conv *v)
{
    double tiles = v->images * ceil(v->height / 4) * ceil(v->width / 4);
    const struct product products[PHASE_COUNT] = {
        [PHASE_FORWARD] = {36, tiles, v->out, v->in},
        [PHASE_BACKWARD_INPUT] = {36, tiles, v->in, v->out},
        [PHASE_BACKWARD_WEIGHT] = {36, v->out, v->in, tiles},
    };
    double elements = 36 * (tiles * (v->in + v->out) + v->in * v->out);
    return tiled_s(device, c, work, &products[work->phase]) +
           c->winograd_traffic * elements * FP32_BYTES / kernel_bandwidth(device, c, work);
}

double conv_s(const struct device *device, const struct calibration *c, const struct work *work)
{
    const int64_t *s = work->shape;
    struct conv v = {(double)s[0], (double)s[1],          (double)s[2], (double)s[3],
                     (double)s[4], (double)(s[5] * s[6]), (double)s[7]};
    struct product p = conv_product(&v, work->phase);
    double direct = product_s(device, c, work, &p, work->read_bytes + work->write_bytes);
    bool winograd = work->dtype == DTYPE_FP32 && s[5] == 3 && s[6] == 3 && s[7] == 1;
    return winograd ? fmin(direct, winograd_s(device, c, work, &v)) : direct;
}

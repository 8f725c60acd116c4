/* attention.c - time of flash attention.
 *
 * One unit computes a block of b query rows (backward: key rows) against all keys that the mask
 * leaves. With H heads in all, head depth d (4), c = 1 forward and 2.5 backward (five products in place of two)
 *
 *   F = c * 4 H q kv (d + x) * live                                                          (1)
 *   live = 1, or under a causal mask 1 - (kv - b) / (2 kv): blocks on the diagonal are whole
 *
 * also where q < kv: a rank that has 1 / cp of the queries has the i-th piece from the front and the
 * i-th from the end of 2 cp pieces (zig-zag), so that what the mask leaves of it is the mean of all
 * (Llama 3, section 3.3.2; Megatron-LM's get_batch_on_this_cp_rank; PyTorch's context_parallel),
 * and with a window of w keys F is multiplied by (k_w + k0) / (k + k0), where k = kv live is the
 * mean number of keys that a block meets, k_w the same with at most n = b + (w - 1 in whole blocks
 * of keys) of them, and k0 = attention_ends the keys that starting and ending a block costs as much as. kv
 * in (2) is then min(kv, n).
 *
 *   L = c * 4 min(q, b) kv (d + x) / (P/U * f)                    the longest block          (2)
 *   T = max(B, F / (P fp))                                                                   (3)
 *   B = L * ceil(blocks / U), or under a causal mask max(L, F / (P f) + r L)
 *
 * f = attention_fraction, fp = attention_power. x = attention_softmax: the exponential of a score
 * takes the same time whatever the depth, and is expressed as additional depth. It also takes the same time in fp8, where
 * P is that of fp8, so x grows as P does, and f and fp are multiplied by attention_fp8. The gradients of keys and values
 * are then made for every query's head in fp32 and added up (cuDNN 9.10 to 9.22), if several share a key: GROUPED_BYTES
 * are moved for each of their numbers, beside the rest. r = attention_tail:
 * causal blocks start longest first and end staggered. SimuMax counts the full square (efficiencies
 * above 1 in its table), and so does struct work; only (1) knows the mask. Older versions of
 * FlashAttention take attention_v1 or attention_v2 times as long.
 *
 *   d = p max(dk, dv) + (1 - p) (w dk + (1 - w) dv)                                          (4)
 *
 * for keys of depth dk and values of dv, with p = attention_pads and the share w of products whose depth is the keys': one of
 * two forward, three of five backward.
 */
#include "cost/calibration.h"

#include <math.h>

static double live_share(double kv, double rows)
{
    return 1 - fmax(0, kv - rows) / (2 * kv);
}

/* Keys that the kernels take at a time: FlashAttention-2 and -3 take 64 to 176 depending on depth
 * and mask, cuDNN 128. */
enum { KEY_BLOCK = 128 };

/* Numbers of keys' and values' gradients that are made for each query's head: set to 0, added to (read and written), read
 * and written once more as they are added up. Between 19 and 29 bytes in cuDNN's own table of GB200 and GB300. */
static const double GROUPED_BYTES = 20;

/* The most keys that a block of rows meets. */
static double most_keys(const int64_t *s, double kv, double rows)
{
    double window = (double)s[7];
    return s[7] > 1 ? fmin(kv, rows + ceil((window - 1) / KEY_BLOCK) * KEY_BLOCK) : kv;
}

/* The mean of min(e, most) over blocks whose rows end at e, evenly spread up to kv. */
static double mean_keys(double kv, double rows, double most)
{
    double spread = fmax(0, kv - rows), first = kv - spread;
    if (most <= first)
        return most;
    /* The share of the blocks that meet the most keys. */
    double cut = spread > 0 ? (kv - most) / spread : 0;
    return cut * most + (1 - cut) * (first + most) / 2;
}

/* The share of the square that the mask leaves. In fp8, cuDNN's backward kernels for windows leave nothing out: with 128
 * keys and heads of 64 their time is quadratic in the positions (9.22 on GB200: 1.7 ms with 4,096, 6.2 with 8,192). */
static double live_part(const struct calibration *c, const struct work *work,
                        enum direction direction, double rows, double most)
{
    const int64_t *s = work->shape;
    double kv = (double)s[4], ends = c->attention_ends[direction];
    if (!s[7] || (most < kv && direction == BACKWARD && work->dtype == DTYPE_FP8))
        return 1;
    double live = live_share(kv, rows);
    return most < kv ? live * (mean_keys(kv, rows, most) + ends) / (kv * live + ends) : live;
}

static double version(const struct calibration *c, enum kernel kernel)
{
    if (kernel == KERNEL_ATTENTION_V1)
        return c->attention_v1;
    return kernel == KERNEL_ATTENTION_V2 ? c->attention_v2 : 1;
}

/* Equation (4). */
static double head_depth(const struct calibration *c, const int64_t *s, enum direction direction)
{
    static const double KEYS[] = {[FORWARD] = 0.5, [BACKWARD] = 0.6};
    double keys = (double)s[5], values = (double)s[6], pads = c->attention_pads[direction];
    double own = KEYS[direction] * keys + (1 - KEYS[direction]) * values;
    return pads * fmax(keys, values) + (1 - pads) * own;
}

/* How many times the rate of 16 bits the peak is. */
static double type_gain(const struct device *device, enum dtype dtype)
{
    return dtype == DTYPE_FP8 ? peak_flops(device, dtype) / peak_flops(device, DTYPE_BF16) : 1;
}

/* What gradients of keys and values take that are made for each query's head. */
static double grouped_s(const struct device *device, const struct calibration *c,
                        const struct work *work)
{
    const int64_t *s = work->shape;
    bool apart = work->dtype == DTYPE_FP8 && work->phase != PHASE_FORWARD && s[1] > s[2];
    double numbers = (double)s[0] * (double)s[1] * (double)s[4] * (double)(s[5] + s[6]);
    return apart ? GROUPED_BYTES * numbers / (device->memory_bytes_per_s * c->memory_fraction) : 0;
}

double attention_s(const struct device *device, const struct calibration *c,
                   const struct work *work)
{
    static const double PRODUCTS[] = {[FORWARD] = 1, [BACKWARD] = 2.5};
    const int64_t *s = work->shape;
    enum direction direction = phase_direction(work->phase);
    double heads = (double)s[0] * (double)s[1], q = (double)s[3], kv = (double)s[4];
    double kept = work->dtype == DTYPE_FP8 ? c->attention_fp8[direction] : 1;
    double depth = head_depth(c, s, direction) +
                   c->attention_softmax[direction] * type_gain(device, work->dtype);
    double rows = fmin(q, c->attention_rows[direction]);
    double peak = peak_flops(device, work->dtype),
           fraction = kept * c->attention_fraction[direction];
    int units = device->units > 0 ? device->units : 1;

    double most = most_keys(s, kv, rows);
    double live = live_part(c, work, direction, rows, most);
    double row_flops = PRODUCTS[direction] * 4 * kv * depth;
    double flops = row_flops * heads * q * live;
    double longest = row_flops * (most / kv) * rows / (peak / units * fraction);
    double body = s[7] ? fmax(longest, flops / (peak * fraction) + c->attention_tail * longest)
                       : longest * ceil(heads * ceil(q / rows) / units);
    double compute = fmax(body, flops / (peak * kept * c->attention_power[direction]));
    return version(c, work->kernel) * fmax(compute, memory_s(device, c, work)) +
           grouped_s(device, c, work);
}

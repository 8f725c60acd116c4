/* shape.c - what follows from a kernel's shape: the names of its numbers, FLOPs and bytes.
 *
 *   I1  FLOPs are those of one product (model.h): 2mnk, whichever gradient it is.
 *   I2  Each operand's bytes count once, as in op_work. What a kernel moves beyond that belongs to
 *       the analytic model (memory.c).
 */
#include <string.h>

#include "cost/profile.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static void product_bytes(struct work *work)
{
    const int64_t *s = work->shape;
    double batch = (double)s[0], m = (double)s[1], n = (double)s[2], k = (double)s[3];
    double element = dtype_bytes(work->dtype);
    work->read_bytes = batch * k * (m + n) * element;
    work->write_bytes = batch * m * n * element;
}

/* Reads q, k, v and writes the output; backward also reads the output and its gradient, and writes
 * three gradients. */
static void attention_bytes(struct work *work)
{
    const int64_t *s = work->shape;
    double depth = (double)s[5], value = (double)s[6], element = dtype_bytes(work->dtype);
    double queries = (double)s[0] * (double)s[1] * (double)s[3];
    double keys = (double)s[0] * (double)s[2] * (double)s[4];
    double inputs = (queries * depth + keys * (depth + value)) * element;
    double output = queries * value * element;
    bool forward = work->phase == PHASE_FORWARD;
    work->read_bytes = forward ? inputs : inputs + 2 * output;
    work->write_bytes = forward ? output : inputs;
}

static void conv_bytes(struct work *work)
{
    const int64_t *s = work->shape;
    double element = dtype_bytes(work->dtype), stride = (double)s[7], in = (double)s[4];
    double pixels = (double)s[0] * (double)s[2] * (double)s[3];
    double x = pixels * stride * stride * in * element, y = pixels * (double)s[1] * element;
    double weights = in * (double)s[1] * (double)(s[5] * s[6]) * element;
    const double moved[PHASE_COUNT][2] = {[PHASE_FORWARD] = {x + weights, y},
                                          [PHASE_BACKWARD_INPUT] = {y + weights, x},
                                          [PHASE_BACKWARD_WEIGHT] = {x + y, weights}};
    work->read_bytes = moved[work->phase][0];
    work->write_bytes = moved[work->phase][1];
}

/* A lookup reads the rows it returns, not the table. */
static void embedding_bytes(struct work *work)
{
    double width = (double)work->shape[1] * dtype_bytes(work->dtype);
    work->read_bytes = (double)work->shape[0] * width;
    work->write_bytes = (double)work->shape[work->phase == PHASE_FORWARD ? 0 : 2] * width;
}

/* A causal softmax writes the whole matrix but reads only what the mask leaves, half of it. */
static void softmax_bytes(struct work *work)
{
    double bytes = (double)work->shape[0] * (double)work->shape[1] * dtype_bytes(work->dtype);
    double live = work->shape[2] ? 0.5 : 1;
    work->read_bytes = (work->phase == PHASE_FORWARD ? 1 : 2) * live * bytes;
    work->write_bytes = bytes;
}

/* Reads x, B, C and dt and writes y; backward also reads y and its gradient, and writes four. */
static void scan_bytes(struct work *work)
{
    const int64_t *s = work->shape;
    double positions = (double)s[0] * (double)s[3] * dtype_bytes(work->dtype);
    double output = positions * (double)s[2] * (double)s[4];
    double inputs = output + positions * (2 * (double)s[1] * (double)s[5] + (double)s[2]);
    bool forward = work->phase == PHASE_FORWARD;
    work->read_bytes = forward ? inputs : inputs + 2 * output;
    work->write_bytes = forward ? output : inputs;
}

/* ---- one row per kernel ---------------------------------------------------------------------- */

enum { NO_FLOPS = 0 };

static const struct {
    int factors;                  /* leading shape numbers whose product, doubled, is the FLOPs */
    void (*bytes)(struct work *); /* NULL: passes over all elements, by the fields below */
    double read[PHASE_COUNT], write[PHASE_COUNT];
    int element_bytes;      /* 0: those of the dtype */
    bool bytes_per_element; /* the bytes moved are a shape number after the others */
} KERNELS[] = {
    [KERNEL_MATMUL] = {4, product_bytes},
    [KERNEL_GROUPED_MATMUL] = {4, product_bytes},
    [KERNEL_ATTENTION] = {NO_FLOPS, attention_bytes},
    [KERNEL_ATTENTION_V1] = {NO_FLOPS, attention_bytes},
    [KERNEL_ATTENTION_V2] = {NO_FLOPS, attention_bytes},
    [KERNEL_CONV] = {7, conv_bytes},
    [KERNEL_NORM] = {NO_FLOPS, NULL, {1, 2, 2}, {1, 1, 0}},
    [KERNEL_BATCH_NORM] = {NO_FLOPS, NULL, {1, 2, 2}, {1, 1, 0}},
    [KERNEL_SOFTMAX] = {NO_FLOPS, softmax_bytes},
    [KERNEL_ELEMENTWISE] = {.bytes_per_element = true},
    [KERNEL_DROPOUT] = {.bytes_per_element = true},
    [KERNEL_EMBEDDING] = {NO_FLOPS, embedding_bytes},
    [KERNEL_LOSS] = {NO_FLOPS, NULL, {1, 1, 0}, {0, 1, 0}},
    [KERNEL_LOSS_COMPILED] = {NO_FLOPS, NULL, {1, 1, 0}, {0, 1, 0}},
    [KERNEL_POOL] = {NO_FLOPS,
                     NULL,
                     {1, 1, 0},
                     {1, 1, 0}}, /* passes over the output: its stride is not known */
    [KERNEL_SCAN] = {NO_FLOPS, scan_bytes},
    [KERNEL_DELTA] = {NO_FLOPS,
                      scan_bytes}, /* of q, k, v and the rates: a number more for each head */
    [KERNEL_COPY] = {NO_FLOPS, NULL, {1, 1, 0}, {1, 1, 0}, .element_bytes = 1},
    /* Adam in fp32 reads weight, gradient and two moments, and writes all but the gradient. */
    [KERNEL_OPTIMIZER] = {NO_FLOPS, NULL, {4}, {3}, .element_bytes = 4},
};
_Static_assert(COUNT_OF(KERNELS) == KERNEL_COUNT, "a kernel without a row");

bool shape_has_bytes(enum kernel kernel)
{
    return KERNELS[kernel].bytes_per_element;
}

size_t profile_shape_names(enum kernel kernel, const char *names[WORK_MAX_SHAPE])
{
    const char *const *own = kernel_shape_names(kernel);
    size_t count = 0;
    while (count < WORK_MAX_SHAPE && own[count]) {
        names[count] = own[count];
        count++;
    }
    if (KERNELS[kernel].bytes_per_element)
        names[count++] = "bytes_per_element";
    return count;
}

double shape_flops(enum kernel kernel, const int64_t *shape)
{
    double flops = KERNELS[kernel].factors ? 2 : 0;
    for (int i = 0; i < KERNELS[kernel].factors; i++)
        flops *= (double)shape[i];
    return flops;
}

/* The bytes of an activation (forward: in, out; backward: its kept operand, too) and of plain
 * dropout (its mask is a byte). */
static int64_t usual_bytes(const struct work *work)
{
    int64_t e = dtype_bytes(work->dtype);
    if (work->kernel == KERNEL_DROPOUT)
        return 2 * e + 1;
    return work->phase == PHASE_FORWARD ? 2 * e : 3 * e;
}

static void set_passes(struct work *work)
{
    const char *const *names = kernel_shape_names(work->kernel);
    int own = KERNELS[work->kernel].element_bytes;
    double bytes = own ? own : dtype_bytes(work->dtype);
    for (int i = 0; i < WORK_MAX_SHAPE && names[i]; i++)
        bytes *= work->kernel == KERNEL_POOL && i == 4 ? 1 : (double)work->shape[i];
    work->read_bytes = bytes * KERNELS[work->kernel].read[work->phase];
    work->write_bytes = bytes * KERNELS[work->kernel].write[work->phase];
}

void work_set_shape(struct work *work, const int64_t *shape)
{
    memcpy(work->shape, shape, sizeof work->shape);
    work->flops = shape_flops(work->kernel, shape);
    if (KERNELS[work->kernel].bytes_per_element) {
        int64_t bytes = shape[1] ? shape[1] : usual_bytes(work);
        work->shape[1] = 0;
        work->read_bytes = (double)shape[0] * (double)bytes;
    } else if (KERNELS[work->kernel].bytes) {
        KERNELS[work->kernel].bytes(work);
    } else {
        set_passes(work);
    }
}

/* ---- "m=4096 n=1536 ..." --------------------------------------------------------------------- */

/* Puts one "name=number" into its place in the shape of a kernel; returns the problem with it, or
 * NULL. */
static const char *place_number(struct arena *keep, const char *pair, const char *const *names,
                                size_t count, int64_t *shape, unsigned *seen)
{
    size_t len = strcspn(pair, "=");
    const char *name = arena_copy_bytes(keep, pair, len);
    size_t i = 0;
    while (i < count && strcmp(name, names[i]) != 0)
        i++;
    if (i == count) {
        const char *near = nearest_word(name, names, count);
        return arena_printf(keep, near ? "it has no '%s', did you mean '%s'?" : "it has no '%s'",
                            name, near);
    }
    if (*seen & 1u << i)
        return arena_printf(keep, "'%s' stands twice", name);
    *seen |= 1u << i;
    bool flag = strcmp(name, "causal") == 0;
    if (pair[len] != '=' || !parse_int(pair + len + 1, &shape[i]) || shape[i] < (flag ? 0 : 1) ||
        shape[i] > (int64_t)1 << 50)
        return arena_printf(keep, "'%s' is not a whole number of at least 1", pair);
    return NULL;
}

const char *shape_parse(struct arena *keep, const char *text, struct work *work)
{
    const char *names[WORK_MAX_SHAPE];
    size_t count = profile_shape_names(work->kernel, names);
    int64_t shape[WORK_MAX_SHAPE] = {0};
    unsigned seen = 0;
    char *rest = arena_copy_text(keep, text);
    for (char *pair; (pair = strsep(&rest, ", "));) {
        const char *problem = *pair ? place_number(keep, pair, names, count, shape, &seen) : NULL;
        if (problem)
            return problem;
    }
    for (size_t i = 0; i < count; i++)
        if (!(seen & 1u << i) && strcmp(names[i], "bytes_per_element") != 0)
            return arena_printf(keep, "'%s' is missing", names[i]);
    work_set_shape(work, shape);
    return NULL;
}

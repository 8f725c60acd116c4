/* window.h - windows that slide over images, for convolution and pooling.
 *
 *   out = floor((in + 2 pad - kernel) / stride) + 1                                              (1)
 *
 *   I1  A model keeps sizes, not paddings: the padding is the least one that gives the output its
 *       size by (1), which is what every family has.
 *   I2  Of a split height or width a call has its outputs; the image is whole (kernels.h, I5), or the
 *       part under the outputs where no window reaches over a border.
 */
#ifndef WEFT_RUN_KERNELS_CPU_WINDOW_H
#define WEFT_RUN_KERNELS_CPU_WINDOW_H

#include "run/kernels/cpu/cpu.h"

/* pad: of the first output of the call; below 0 where the image begins before its windows. */
struct window_axis {
    int64_t in, out, kernel, stride, pad;
};

static inline struct window_axis window_of(const struct kernel_call *call, int axis)
{
    const struct op *op = call->op;
    int dim = op_find_dim(op->kind, axis ? DIM_WIDTH : DIM_HEIGHT);
    struct window_axis w = {op->input[0].size[2 + axis], call->size[dim], op->kernel[axis],
                            op->stride[axis], 0};
    int64_t missing = (op->size[dim] - 1) * w.stride + w.kernel - w.in;
    w.pad = missing > 0 ? ceil_div(missing, 2) : 0;
    if (reads_whole(op, dim))
        w.pad -= call->begin[dim] * w.stride;
    else
        w.in = w.out * w.stride;
    return w;
}

struct window_span {
    int64_t first, end, at;
};

/* The kernel's places first .. end that lie within the image at this output; at: the input
 * under the first of all its places, padding counted. */
static inline struct window_span span_at(const struct window_axis *w, int64_t output)
{
    struct window_span s = {0, w->kernel, output * w->stride - w->pad};
    if (s.at < 0)
        s.first = -s.at;
    if (s.at + s.end > w->in)
        s.end = w->in - s.at;
    return s;
}

/* The outputs first .. end whose windows have this place of the kernel within the image: at output o
 * it lies over the input o * stride + at. */
static inline struct window_span outputs_over(const struct window_axis *w, int64_t place)
{
    struct window_span s = {0, w->out, place - w->pad};
    if (s.at < 0)
        s.first = ceil_div(-s.at, w->stride);
    int64_t inside = s.at < w->in ? (w->in - 1 - s.at) / w->stride + 1 : 0;
    if (s.end > inside)
        s.end = inside;
    return s;
}

#endif

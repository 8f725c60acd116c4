/* shapes.h - what sizes of an operator say about its elements, the same for every backend. Part of kernels.h.
 *
 * Windows that slide over images, of convolution and pooling:
 *
 *   out = floor((in + 2 pad - kernel) / stride) + 1                                              (1)
 *
 *   I1  A model keeps sizes, not paddings: the padding is the least one that gives the output its
 *       size by (1), which is what every family has.
 *   I2  Of a split height or width a call has its outputs; the image has the rows that they read (kernels.h, I5), or is
 *       the part under the outputs where no window reaches over a border.
 *
 * A model says the shape that a reshape gives, not how; so it is the plainest of what its families
 * mean, sample by sample:
 *
 *   as many elements    the same, in order (Swin's windows and merged patches)
 *   fewer               the first ones (the first position of BERT and of a class token)
 *   a weight more       the weight, then the elements (ViT's class token); several more: one before each equal part
 *   longer rows         each row several times (DeepSeek's key that all heads share)
 *   more, if `padded`   the elements, then zeros (features of images, where text follows)
 *
 * A softmax may have a learned bias. T5's is one number per head and bucket of the distance between key and
 * query, stored (bucket, head). With n buckets for one direction, e = n / 2 of them stand for one distance,
 * the others grow with its logarithm up to 128 (Raffel et al., 2020, 2.1):
 *
 *   bucket(d) = d,  d < e;   e + (n - e) ln(d / e) / ln(128 / e), at most n - 1                  (2)
 *
 * A causal softmax has one direction; another one has half of the buckets for keys ahead. Swin's keys and
 * queries are the w * w places of a window, and with (2 w - 1)^2 numbers for each of H heads, stored
 * (offset, head), a key takes the one of its offset (dy, dx) from the query:
 *
 *   offset(dy, dx) = (dy + w - 1) (2 w - 1) + dx + w - 1                                         (3)
 *
 * The windows' heads stand one after the other: head i of all is head i % H.
 */
#ifndef WEFT_RUN_KERNELS_SHAPES_H
#define WEFT_RUN_KERNELS_SHAPES_H

#include "run/kernels/kernels.h"

/* ---- windows --------------------------------------------------------------------------------- */

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
    if (!reads_whole(op, dim)) {
        w.in = w.out * w.stride;
        return w;
    }
    w.pad -= call->begin[dim] * w.stride;
    if (call->image[axis].end) {
        w.in = call->image[axis].end - call->image[axis].first;
        w.pad += call->image[axis].first;
    }
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

/* Why a convolution or a pooling cannot be run; NULL: it can. */
const char *image_refuses(const struct op *op);

/* The local outputs of a convolution from `first` on that are in one group of channels, and the group's first
 * channel. Where `out` is split, a device's outputs may begin in the middle of a group. */
struct group_outputs {
    int64_t first, count, channel;
};
struct group_outputs group_outputs(const struct kernel_call *call, int64_t first);

/* ---- movements ------------------------------------------------------------------------------- */

/* Elements of a whole sample's axes from one on. */
int64_t elements_from(const struct operand *operand, int axis);
/* The axis along which the parts of a concat are laid; 0 where they are no parts. */
int joined_axis(const struct op *op);
const char *concat_refuses(const struct op *op);

/* One of the equal `parts` of a sample of a reshape: `front` elements of a weight, then rows of `run` elements, each `times`
 * over, out of `in` elements, then zeros up to `out`. */
struct movement {
    int64_t in, out, front, rows, run, times, parts;
};
/* Elements of a part that are zeros. */
static inline int64_t movement_zeros(const struct movement *m)
{
    return m->out - m->front - m->rows * m->run * m->times;
}
struct movement movement_of(const struct op *op);
const char *reshape_refuses(const struct op *op);

/* ---- others ---------------------------------------------------------------------------------- */

/* Of a softmax: how many numbers of a bias each head has (0: there is none), heads of the bias, and of a window
 * the w of (3); 0: it is T5's. */
struct softmax_bias {
    int64_t buckets, heads, side;
};
enum { FARTHEST = 128 }; /* T5's relative_attention_max_distance */
struct softmax_bias softmax_bias(const struct op *op);
/* Buckets of T5's bias for one direction, and (2). */
int64_t buckets_each_way(const struct op *op, const struct softmax_bias *bias);
int64_t bucket_of(int64_t distance, int64_t buckets);
const char *softmax_refuses(const struct op *op);

const char *interaction_refuses(const struct op *op);

#endif

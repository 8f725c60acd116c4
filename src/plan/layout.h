/* layout.h - how a tensor lies over the devices of a stage; part of plan.h.
 *
 * A layout sees a tensor as its elements 0 .. N-1 in storage order, and the devices of a stage as a
 * mesh: device = mixed-radix number of the layout's digits, outermost first, as in a split. A digit
 * of degree d with the value v
 *
 *   split    holds the elements f with  (f / stride) % d = v                                    (1)
 *   copy     holds what the digit's other values hold
 *   partial  holds one addend of what the digit's values sum to
 *
 * By (1) an axis, an inner dim of an axis (`group` of head * group * depth) and the same tensor
 * seen under another shape are all the same thing: a stride.
 *
 *   I1  The splits of one layout are independent: of any two, one's stride is a multiple of the
 *       other's stride * degree; so every device holds equally many elements.
 *   I2  Layouts are canonical: no degree is below 2, and neighbours that form one digit are merged.
 *       Two layouts put the same on every device exactly when they are equal, byte for byte.
 *   I3  A dim that its degree does not divide (a vocabulary) is padded; N counts the padding.
 *   I4  An operator never reads a partial sum: neither as an input or weight in the forward pass
 *       nor as the gradient of an output. Only outputs and gradients of inputs can be partial.
 *   I5  Only the outermost digit can be HOLD_ON (subset.h).
 */
#ifndef WEFT_PLAN_LAYOUT_H
#define WEFT_PLAN_LAYOUT_H

#include "plan/plan.h"

/* What a digit does: one of these, or the stride of a split (> 0). */
enum {
    HOLD_COPY = 0,
    HOLD_PARTIAL = -1,
    HOLD_ON = -2 /* minus the value that holds the tensor: the others hold nothing (I5) */
};

/* The digits of a split, and those that a pipeline boundary adds. */
enum { MAX_LAYOUT_DIGITS = MAX_SPLIT_PARTS + 2 };
struct layout_digit {
    int64_t degree, hold;
};
struct layout {
    int64_t elements; /* N */
    int64_t digits;
    struct layout_digit digit[MAX_LAYOUT_DIGITS]; /* outermost first; zero after the last */
};

struct layout layout_none(int64_t elements); /* all on one device */
/* Appends a digit inside what is there and keeps I2. False: too many digits. */
bool layout_add(struct layout *layout, int64_t degree, int64_t hold);
bool layout_equal(const struct layout *a, const struct layout *b);
uint64_t layout_hash(const struct layout *layout, uint64_t seed);
int64_t layout_devices(const struct layout *layout);
int64_t layout_local(const struct layout *layout); /* elements on each device */

/* The same tensor when the devices that hold the same keep an equal part of it each. False: there are none, there are
 * partial sums, or it has no such parts. */
bool layout_in_parts(const struct layout *layout, struct layout *out);

enum flow { FLOW_FORWARD, FLOW_GRADIENT };

/* What one part of a split makes of an operand (model.h, I2): S, B and P in reports. */
enum place { PLACE_SPLIT, PLACE_COPY, PLACE_PARTIAL };
enum place operand_place(const struct op *op, const struct operand *operand, int split_dim,
                         enum flow flow);

/* The layout of one of op's operands (or of its gradient) under a split, with `batch` samples on
 * the whole stage (the rules are in layout.c). */
struct layout layout_of(const struct op *op, const struct operand *operand,
                        const struct split *split, int64_t batch, enum flow flow);
/* An operand may be part of a fused tensor (queries within qkv), in which every index of the axis'
 * outermost dim has an equal share of the axis. Given the layout of the whole tensor, returns that
 * of the part; if a split cuts through shares, `whole` becomes the layout that the tensor must be
 * brought to first. The same holds for gradients. */
struct layout layout_part(const struct model *model, const struct op *op,
                          const struct operand *operand, struct layout *whole);
/* Experts take equal numbers of tokens, rounded up: if two operators count the elements of a tensor
 * differently for that reason, both use the larger number. Changes `layout` to so many elements if
 * every split stays whole; a vocabulary is padded at its end and left alone (I3). */
void layout_pad(const struct op *from, const struct op *to, const struct operand *operand,
                int64_t elements, struct layout *layout);
/* "S(seq):4 B:2 P:2" in the operand's dims, "whole" on one device. */
const char *layout_text(struct arena *keep, const struct op *op, const struct operand *operand,
                        int64_t batch, const struct layout *layout);

#endif

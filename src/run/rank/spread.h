/* spread.h - tensors that lie over the devices of a stage, as numbers on one of them; private to the
 * room.
 *
 * A device holds of a tensor's elements 0 .. N-1 those that its layout says (compile.h, (1)), one
 * after the other in their order. What a step of a reshard moves is seen in the elements that its
 * group holds together, counted without the splits that stay as they are: there a split of stride s
 * that the step begins or ends with has the stride
 *
 *   s' = s / product of the degrees of staying splits of smaller stride                          (1)
 *
 * and an element's place x becomes, without a split (s, d) and with its value v again,
 *
 *   x -> x / (s d) * s + x % s        x -> x / s * (s d) + v s + x % s                           (2)
 *
 * (2) goes from the largest stride to the smallest, and back again.
 */
#ifndef WEFT_RUN_RANK_SPREAD_H
#define WEFT_RUN_RANK_SPREAD_H

#include "compile/compile.h"
#include "run/device/device.h"

/* One step, on a tensor that lies so. */
struct move {
    struct layout before, after;
    int64_t space;               /* elements that the group holds together */
    int64_t before_count, count; /* on a device, before and after */
    int32_t digits, members;
    struct {
        int64_t mesh, degree;
        int64_t before, after; /* strides (1); 0: no split */
    } digit[MAX_STEP_DIGITS];  /* outermost first */
    int64_t run;               /* elements that stay together */
};
/* False: the step does not apply to this layout. */
bool move_of(const struct layout *layout, const struct reshard_step *step, struct move *out);
/* The place of a device of the stage (from 0) in its group. */
int32_t move_member(const struct move *move, int64_t device);

/* What a step does beside its transfer: copies of runs of move->run elements, which these functions end. */
void move_slice(const struct move *move, int64_t device, struct runs *runs);
/* From and to one block per member: of a reduce-scatter, of an all-gather. */
void move_scatter(const struct move *move, struct runs *runs);
void move_gather(const struct move *move, struct runs *runs);
/* What `member` sends to each, or takes from each: counts, and the elements one after the other. */
void move_counts(const struct move *move, int32_t member, int64_t *sends, int64_t *takes);
void move_pack(const struct move *move, int32_t member, struct runs *runs);
void move_unpack(const struct move *move, int32_t member, struct runs *runs);

/* The splits that a device's elements are cut out by, the smallest stride first, and its place in each; up to
 * MAX_LAYOUT_DIGITS (layout_element). */
struct layout_stride {
    int64_t hold, degree, value;
};
int32_t layout_strides(const struct layout *layout, int64_t device, struct layout_stride *out);

/* What one digit does: the devices `mesh` apart, `degree` of them. */
int64_t layout_hold(const struct layout *layout, int64_t mesh, int64_t degree);
bool layout_is_copies(const struct layout *layout);
/* What devices of the next stage hold when each gets all that its sender does (reshard_sender). */
struct layout layout_received(const struct layout *sent, int64_t from, int64_t to);

/* A fused tensor and a part of it: every share of the last axis has the part at the same place. */
struct fused {
    int64_t whole, part, first; /* elements of one share, of the part's, and where that begins */
};
struct fused fused_of(const struct model *model, const struct op *op, int32_t operand);

#endif

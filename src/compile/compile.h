/* compile.h - from a plan to the work of each device: reshards, which bring a tensor from its
 * producer's layout (plan/layout.h) to its consumer's, and the graph of everything that is done. */
#ifndef WEFT_COMPILE_H
#define WEFT_COMPILE_H

#include "plan/plan.h"

/* ---- reshards -------------------------------------------------------------------------------- */

/* Kinds of steps besides the collectives, which cost nothing: each device drops what it does not need; the devices
 * that do not have the reader drop all (plan/subset.h). */
enum { STEP_SLICE = COLLECTIVE_COUNT, STEP_LEAVE, STEP_KIND_COUNT };

enum { MAX_STEP_DIGITS = 6 };
struct step_digit {
    int64_t mesh_stride; /* devices from one value of the digit to the next */
    int64_t degree;
    int64_t before, after; /* what the digit holds (layout.h) */
};
/* One step, done by every device of the stage within its own group: the devices that differ from it
 * only in the step's digits; if the tensor is on a run of devices before and after, by these alone. An all-to-all over several digits gives each device what `after` says,
 * from itself if it has it and otherwise from any member that does. */
struct reshard_step {
    int32_t kind; /* enum collective, STEP_SLICE or STEP_LEAVE */
    int32_t digits;
    struct step_digit digit[MAX_STEP_DIGITS]; /* outermost first; none for a send */
    /* per device, the larger of what goes in and what comes out, as in nccl-tests */
    int64_t elements;
    struct device_run run; /* no devices: all of the stage's */
};
static inline bool step_is_free(const struct reshard_step *step)
{
    return step->kind >= STEP_SLICE;
}
struct reshard {
    int32_t steps;
    int32_t send; /* the step that goes from the producer's devices to the consumer's; or -1 */
    struct reshard_step *step;
    double volume; /* elements through each device's link, of all steps */
    int64_t from_devices, to_devices;
    /* between stages that do not take equally many samples at once: the same for what one send brings; else NULL */
    const struct reshard *each;
};

/* The digits of a stage's device numbers in which a group's members differ, outermost first. */
struct step_groups {
    int64_t digits;
    int64_t stride[MAX_STEP_DIGITS], degree[MAX_STEP_DIGITS];
};
/* What windows read beyond their part of an image (model.h, halo) under a split, as steps of the devices that have parts of
 * its height, then of its width: at most two. `local`: elements of the image on a device, with what they bring in the end.
 * Backward the same goes back, and is added up. */
enum { MAX_HALO_STEPS = 2 };
int32_t halo_steps(const struct op *op, const struct split *split, enum flow flow, int64_t *local,
                   struct reshard_step *out);

/* The groups that sum up a gradient: the devices that hold a part of the sum and, with sharded
 * state, those that hold a copy. Neighbouring digits are merged, so that equal groups are equal
 * patterns. */
struct step_groups sync_groups(const struct layout *gradient, bool copies);

/* The group of one device of the stage (numbered from 0) in a step that is not a send. */
struct group step_group(const struct reshard_step *step, int64_t device);
int64_t step_members(const struct reshard_step *step);
/* AutoDDL, Table 2: elements through a device's link. */
double step_volume(const struct reshard_step *step);
const char *step_name(int kind);
/* The device of the producer's stage that sends to this one of the consumer's, each numbered from
 * 0. */
int64_t reshard_sender(const struct reshard *reshard, int64_t receiver);

/* A cache of reshards; not for several threads at once. */
struct reshards;
struct reshards *reshards_new(void);
/* Shares what it has in common with reshards of other sizes, which must be freed later; NULL: with
 * none. */
struct reshards *reshards_beside(struct reshards *other);
void reshards_free(struct reshards *reshards);
/* The steps of least volume (among those that path.c considers) that bring a tensor from one layout
 * to another on the same devices; `to` satisfies layout.h's I4, or equals `from`. For a gradient,
 * pass the gradients' layouts, from the consumer's to the producer's. The answer lives as long as
 * `reshards`. */
const struct reshard *reshard_within(struct reshards *reshards, const struct layout *from,
                                     const struct layout *to);
/* The same from one stage's devices to another's, of any numbers. `sliced`: devices that hold the
 * same send a part each. */
const struct reshard *reshard_between(struct reshards *reshards, const struct layout *from,
                                      const struct layout *to, bool sliced);
/* Samples that the stages at both ends of a crossing take at once, and that one send brings: their greatest common divisor. */
struct crossing_samples {
    int64_t from, to, each;
};
/* The same between stages that do not take equally many samples at once (plan.h, I7): steps before the send are of the
 * sender's samples, steps after it of the receiver's, and the send is one of several. */
const struct reshard *reshard_joining(struct reshards *reshards, const struct layout *from,
                                      const struct layout *to,
                                      const struct crossing_samples *samples);
/* The layout of the same tensor with other samples: every device has its shares of all of them (plan.h, I7). */
struct layout layout_of_samples(const struct layout *layout, int64_t have, int64_t want);

#include "compile/equivalence.h"
#include "compile/graph.h"
#include "compile/lifetimes.h"
#include "compile/outline.h"
#include "compile/uses.h"

#endif

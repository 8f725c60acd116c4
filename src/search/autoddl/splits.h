/* splits.h - every way to lay one operator over the devices of a stage (AutoDDL, section 4.2).
 *
 * On devices = nodes * (devices of a node), each factor of a split is a pair (nodes, devices of a
 * node): a split is an ordered factorisation of the nodes followed by one of the devices within
 * them, outermost first as always, so that a dim may occur once on either level. Not listed are:
 *
 *   I1  Splits where the batch is not first within a level: devices may be renumbered as a whole,
 *       and the batch degrees that two neighbours share are then laid out alike.
 *   I2  Splits of a sequence's positions, or of an image's height or width, where samples can be split: both cost an operator the
 *       same, or images more by their halo, and bringing a tensor from one to the other gains nothing.
 *   I3  Copies where something is summed over: the sum may be split instead.
 *   I4  Anything that plan_check refuses; and splits of positions attended to, and of the depth of a head: neighbours would have
 *       to exchange keys, or sums over a few elements.
 *   I5  Splits of the query heads of one key/value head, unless key/value heads are split as well,
 *       outside of them.
 *   I6  On a mesh's `narrow` outer levels, splits of more than one dim besides the batch (it may be
 *       another dim on each level): on many nodes of several devices there are too many splits
 *       otherwise (autoddl.c, I4).
 *   I7  Splits of the positions of fused attention where sequences are short: keys and values would have to be
 *       gathered, and attention is a small part of a layer.
 *   I8  Splits of width, unless `blocks` are asked for and a split of height is right outside of each: stripes of an image
 *       do what columns would, and blocks have shorter borders than either, but exchange them twice.
 */
#ifndef WEFT_SEARCH_AUTODDL_SPLITS_H
#define WEFT_SEARCH_AUTODDL_SPLITS_H

#include "plan/plan.h"

enum { MAX_SPLIT_LEVELS = 2 };
/* The arrangement of a stage's devices: over nodes, then within one. */
struct split_mesh {
    int32_t levels;
    int64_t devices[MAX_SPLIT_LEVELS];
    /* Number of levels, from the outermost (I6); no effect on a mesh of one level. */
    int32_t narrow;
    bool unordered; /* one order of dims for all: each choice of degrees once */
    bool blocks;    /* I8 */
};
struct split_mesh split_mesh_of(const struct cluster *cluster, int64_t devices);

/* Whether `blocks` may add splits to some operator. */
bool splits_have_blocks(const struct model *model, int64_t devices, int64_t batch);

struct splits {
    struct split *data;
    size_t len, cap;
};
/* All splits of an operator with `batch` samples on the stage together, none twice; if there is
 * none, copies of the whole operator. */
void splits_of(struct arena *keep, const struct model *model, const struct op *op,
               const struct split_mesh *mesh, int64_t batch, struct splits *out);

#endif

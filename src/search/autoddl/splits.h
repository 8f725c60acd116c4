/* splits.h - every way to lay one operator over the devices of a stage (AutoDDL, section 4.2).
 *
 * On devices = nodes * (devices of a node), each factor of a split is a pair (nodes, devices of a
 * node): a split is an ordered factorisation of the nodes followed by one of the devices within them,
 * outermost first as always, so that a dim may come once on either level. What is not looked at:
 *
 *   I1  Within a level the batch comes first: devices may be renumbered as a whole, and what batch
 *       degrees two neighbours share then lies alike.
 *   I2  Positions of a sequence are split where samples cannot be: both cost an operator the same, and
 *       a tensor brought from one to the other gains nothing.
 *   I3  Copies only where nothing is summed over: who sums may split the sum instead.
 *   I4  Nothing that plan_check refuses; nor height, width, positions attended to, and the depth of a
 *       head: neighbours would have to exchange borders, or sums over a few elements.
 *   I5  Query heads of one key/value head are split where key/value heads are split as well, inside
 *       of them.
 *   I6  On a mesh's `narrow` outer levels one dim besides the batch is split, the same or another on
 *       each: on many nodes of several devices splits are many otherwise (autoddl.c, I4).
 */
#ifndef WEFT_SEARCH_AUTODDL_SPLITS_H
#define WEFT_SEARCH_AUTODDL_SPLITS_H

#include "plan/plan.h"

enum { MAX_SPLIT_LEVELS = 2 };
/* How a stage's devices lie: over nodes, then within one. */
struct split_mesh {
    int32_t levels;
    int64_t devices[MAX_SPLIT_LEVELS];
    int32_t narrow; /* levels, from the outermost (I6); nothing on a mesh of one */
    bool unordered; /* one order of dims for all: each choice of degrees once */
};
struct split_mesh split_mesh_of(const struct cluster *cluster, int64_t devices);

struct splits {
    struct split *data;
    size_t len, cap;
};
/* All splits of an operator with `batch` samples on the stage together, none twice; copies of all of
 * it where there is nothing else. */
void splits_of(struct arena *keep, const struct model *model, const struct op *op,
               const struct split_mesh *mesh, int64_t batch, struct splits *out);

#endif

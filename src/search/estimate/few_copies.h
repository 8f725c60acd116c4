/* few_copies.h - inside tables: a model whose layers repeat, with a few copies of each in place of all.
 *
 * Copies of a layer are alike: all the middle ones take the same time and memory. Of a repeat of C
 * copies, K are left, and copy H of those stands for C - K + 1 in a row. *Places* are instances of
 * this smaller model:
 *
 *   instances  0 | 1 2 3 ... C-2 | C-1          H = 1, K = 3
 *   places     0 |       1       |  2                                                         (1)
 *
 *   I1  The first copy and the last one stand only for themselves: the operators before and after
 *       the layers, and those that passes begin and end with, have the same neighbours as in the
 *       whole model.
 *   I2  Only repeats that are inside no other repeat lose copies, so that the places of a copy are
 *       consecutive.
 */
#ifndef WEFT_SEARCH_ESTIMATE_FEW_COPIES_H
#define WEFT_SEARCH_ESTIMATE_FEW_COPIES_H

#include "model/model.h"

/* One repeat: `copies` copies of `period` instances each, starting at instance `first`, for all of
 * which the places of one copy stand. */
struct repeat_fold {
    int64_t first, period, copies;
};
struct few_copies {
    struct model model; /* owns nothing; its parts belong to the whole model */
    int32_t folds;
    struct repeat_fold *fold; /* by first instance */
};
/* Keeps at most `most` copies of each layer, and at least 3; 0: all of them. */
struct few_copies few_copies_of(struct arena *keep, const struct model *model, int64_t most);
int64_t place_of(const struct few_copies *few, int64_t instance);
int64_t first_instance_of(const struct few_copies *few, int64_t place);

/* Consecutive places, and how many times in a row they occur. */
struct place_range {
    int64_t first, last, times;
};
/* The places that instances *at .. last - 1 begin with, for *at < last; moves *at past them. */
struct place_range next_places(const struct few_copies *few, int64_t *at, int64_t last);

#endif

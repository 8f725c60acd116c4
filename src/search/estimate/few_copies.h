/* few_copies.h - inside tables: a model whose layers repeat, with a few copies of each in place of all.
 *
 * Copies of a layer are alike: what the middle ones take, each takes. Of a repeat of C copies K are
 * left, and copy H of those stands for C - K + 1 in a row. *Places* are instances of this smaller
 * model:
 *
 *   instances  0 | 1 2 3 ... C-2 | C-1          H = 1, K = 3
 *   places     0 |       1       |  2                                                         (1)
 *
 *   I1  The first copy and the last one are themselves: what is before and after the layers, and
 *       what passes begin and end with, is next to the same operators as in the whole model.
 *   I2  Only repeats that are in no other repeat lose copies, so that places of a copy are in a row.
 */
#ifndef WEFT_SEARCH_ESTIMATE_FEW_COPIES_H
#define WEFT_SEARCH_ESTIMATE_FEW_COPIES_H

#include "model/model.h"

/* One repeat: `copies` copies of `period` instances each, from instance `first` on, for which the
 * places of one copy stand. */
struct repeat_fold {
    int64_t first, period, copies;
};
struct few_copies {
    struct model model; /* owns nothing; parts are the whole model's */
    int32_t folds;
    struct repeat_fold *fold; /* by first instance */
};
/* `most` copies at most of each layer, at least 3; 0: all of them. */
struct few_copies few_copies_of(struct arena *keep, const struct model *model, int64_t most);
int64_t place_of(const struct few_copies *few, int64_t instance);
int64_t first_instance_of(const struct few_copies *few, int64_t place);

/* Places in a row, so many times. */
struct place_range {
    int64_t first, last, times;
};
/* What instances *at .. last - 1 begin with, *at < last; *at moves after it. */
struct place_range next_places(const struct few_copies *few, int64_t *at, int64_t last);

#endif

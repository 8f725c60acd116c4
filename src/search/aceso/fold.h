/* fold.h - inside aceso: a model of a thousand layers at the price of a few.
 *
 * The copies of a repeated module are alike, except for the first and the last few. A *folding* is
 * the model with most copies of its outermost repeats left out and, for every place between
 * instances of the whole model, the place of the short model that stands for it. Of a repeat of n
 * copies,
 *
 *   0 .. ENDS - 1 | ENDS .. ENDS + MIDDLE - 1 | the last ENDS
 *
 * stay, and the middle ones stand for themselves and for all that were left out: with S(i) the sums
 * of a table of the short model before place i (tables.h, 1), those of the whole model are
 *
 *   W(i) = S(place i) + left_out(i) * (S(end of the middle) - S(its start))                    (1)
 *
 * where left_out(i) counts how many times more than once the middle was passed before i; for
 * repeats that end before i, this is all the times it was left out.
 *
 *   I1  Between two places of one *stretch* the second summand of (1) is the same: the instances of
 *       a stretch are consecutive in both models. Each time round the middle changes it by the same
 *       amount.
 *   I2  A repeat is folded only if it is long enough for its ends and twice the middle.
 */
#ifndef WEFT_SEARCH_ACESO_FOLD_H
#define WEFT_SEARCH_ACESO_FOLD_H

#include "search/estimate/estimate.h"

struct fold_repeat {
    int64_t first;       /* the place of the whole model where the middle begins, */
    int64_t length;      /* its number of instances, */
    int64_t times;       /* and how often it occurs, the first time included */
    int64_t short_first; /* the place of the short model where it begins */
};
struct folding {
    /* The short model: shares everything but its modules with the whole model. */
    struct model model;
    int64_t instances; /* of the whole model */
    int32_t *place;    /* per place of the whole model, 0 .. instances */
    int32_t repeats;
    struct fold_repeat *repeat;
};
weft_status folding_new(struct arena *keep, const struct model *model,
                        const struct cluster *cluster, struct folding *out);

/* A table of the short model, read as a table of the whole model. */
struct whole_table {
    const struct row_table *table;
    const struct folding *fold;
    struct sums *middle; /* per repeat: the sums of the middle, once */
    /* What another system's count knows about this layout (counted.h); NULL: there is no such
     * count. */
    const void *laid;
};
struct whole_table *whole_table_new(struct arena *keep, const struct folding *fold,
                                    const struct row_table *table);
/* add_run for instances first .. last - 1 of the whole model. */
void add_whole_run(struct part_sums *part, const struct whole_table *table, int64_t first,
                   int64_t last);
/* W(last) - W(first) of one tally. */
int64_t whole_sum(const struct whole_table *table, enum tally tally, int64_t first, int64_t last);

#endif

/* fold.h - inside aceso: a model of a thousand layers at the price of a few.
 *
 * Copies of a repeated module are alike, but for the first and the last few. A *folding* is the model
 * with most copies of its outermost repeats left out, and for every place between instances of the
 * whole model the place of the short one that stands for it. In a repeat of n copies,
 *
 *   0 .. ENDS - 1 | ENDS .. ENDS + MIDDLE - 1 | the last ENDS
 *
 * stay, and the middle ones stand for themselves and for all that were left out: with S(i) the sums
 * of a table of the short model before place i (tables.h, 1), those of the whole model are
 *
 *   W(i) = S(place i) + left_out(i) * (S(end of the middle) - S(its start))                    (1)
 *
 * where left_out(i) counts how often the middle has come before i beyond once, and repeats that are
 * over count with all of it.
 *
 *   I1  Between two places of one *stretch* (1) has the same second summand: instances of a stretch
 *       are consecutive in both models. From one time round the middle to the next it changes by
 *       equal amounts.
 *   I2  A repeat is only folded when it is long enough for its ends and two times the middle.
 */
#ifndef WEFT_SEARCH_ACESO_FOLD_H
#define WEFT_SEARCH_ACESO_FOLD_H

#include "search/estimate/estimate.h"

struct fold_repeat {
    int64_t first;       /* place of the whole model where the middle begins, */
    int64_t length;      /* its instances, */
    int64_t times;       /* and how often it comes, once included */
    int64_t short_first; /* where it begins in the short model */
};
struct folding {
    struct model model; /* the short one: shares all but its modules with the whole model */
    int64_t instances;  /* of the whole model */
    int32_t *place;     /* per place of the whole model, 0 .. instances */
    int32_t repeats;
    struct fold_repeat *repeat;
};
weft_status folding_new(struct arena *keep, const struct model *model,
                        const struct cluster *cluster, struct folding *out);

/* A table of the short model as one of the whole model. */
struct whole_table {
    const struct row_table *table;
    const struct folding *fold;
    struct sums *middle; /* per repeat: what the middle takes once */
    const void *laid; /* what somebody else's count knows of it (counted.h); NULL: nobody counts */
};
struct whole_table *whole_table_new(struct arena *keep, const struct folding *fold,
                                    const struct row_table *table);
/* add_run of instances first .. last - 1 of the whole model. */
void add_whole_run(struct part_sums *part, const struct whole_table *table, int64_t first,
                   int64_t last);
/* W(last) - W(first) of one tally. */
int64_t whole_sum(const struct whole_table *table, enum tally tally, int64_t first, int64_t last);

#endif

/* strategy_rows.h - inside galvatron: a layer's strategy as one choice per operator of the model.
 *
 * What each way of parallelism splits in an operator is found by lowering that way alone, as
 * degrees (plan.h); an operator's split consists of these, in the order of the strategy's levels.
 * Degrees put TP inside CP inside DP; a strategy may nest them in any order.
 *
 *   I1  A strategy is legal if its degrees lower together: whether degrees divide does not depend
 *       on their order.
 *   I2  Strategies that give all operators the same choices have one row.
 */
#ifndef WEFT_SEARCH_GALVATRON_STRATEGY_ROWS_H
#define WEFT_SEARCH_GALVATRON_STRATEGY_ROWS_H

#include "search/estimate/estimate.h"
#include "search/galvatron/space.h"

struct strategy_row {
    struct strategy strategy;
    const struct choice *choice; /* per operator; NULL: the model cannot be split so */
    int32_t row;                 /* of the estimator */
    int64_t batch_degree;        /* the samples of a step must be a multiple of this */
    int32_t layout;              /* equal for strategies whose operators have equal splits */
};
struct strategy_rows;
/* For an estimator's model, or a model with the same operators. */
struct strategy_rows *strategy_rows_new(struct arena *keep, const struct model *model,
                                        const struct cluster *cluster, struct estimator *estimator);
weft_status strategy_row_find(struct strategy_rows *rows, const struct strategy *strategy,
                              const struct strategy_row **out);

#endif

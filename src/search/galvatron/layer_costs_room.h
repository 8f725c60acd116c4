/* layer_costs_room.h - inside layer_costs: what its files share. */
#ifndef WEFT_SEARCH_GALVATRON_LAYER_COSTS_ROOM_H
#define WEFT_SEARCH_GALVATRON_LAYER_COSTS_ROOM_H

#include "search/galvatron/layer_costs.h"
#include "search/galvatron/layer_walk.h"
#include "search/galvatron/strategy_rows.h"

/* A kind, and the middle one of its layers in the short model. */
struct layer_kind {
    uint64_t hash;
    int64_t first, last;
    bool has_tied_user;
};

/* What a layer holds where nothing is sharded, with FLOOR_SAMPLES of a replica, and takes per sample at least. */
struct whole_cost {
    int64_t kept, state;
    double gathered; /* its weights, where they are gathered */
    double floor_ns;
    int64_t waits_ns; /* floor.h, (2) */
};

struct layer_costs {
    struct arena *arena;
    struct estimate_settings settings, short_settings;
    struct model short_model;
    struct plan *walk; /* the instances of the whole model */
    struct estimator *estimator;
    struct strategy_rows *rows;
    struct layer_source source;
    int64_t asked; /* costs and bounds of layers that were found */
    struct layer_walk whole, shortened;
    ARRAY(struct layer_kind) kinds;
    struct hash_map operators_of; /* numbers in `operators`, by what they depend on (I3) */
    ARRAY(struct floor_operators) operators;
    struct hash_map whole_of; /* numbers in `wholes`, by what they depend on (I4) */
    ARRAY(struct whole_cost) wholes;
    ARRAY(int64_t) boundaries; /* per kind of boundary: the kinds before and after */
    int32_t usual;             /* the kind of most layers */
    double slowdown;
    const struct degrees *pins; /* NULL: none */
};

static inline struct stage stage_of(const struct layer_question *q, int32_t stage)
{
    int64_t group = q->devices / q->stages;
    return (struct stage){stage * group, group};
}

static inline struct run_question run_question(const struct layer_question *q, int64_t first,
                                               int64_t last, const struct strategy_row *row)
{
    return (struct run_question){.run = {first, last, row->row},
                                 .stage = stage_of(q, q->stage),
                                 .schedule = schedule_default(1, 1),
                                 .step_samples = q->step_samples,
                                 .micro_batches = q->micro_batches};
}

static inline bool is_legal(const struct strategy_row *row, const struct layer_question *q)
{
    return row->choice && q->step_samples % row->batch_degree == 0;
}

static inline int64_t above_zero(int64_t value)
{
    return value > 0 ? value : 0;
}

/* The row of a strategy; NULL: the strategy is impossible here, or against the pins. */
weft_status allowed_row(struct layer_costs *c, const struct layer_question *q,
                        const struct strategy *strategy, const struct strategy_row **out);
/* The strategy without the flags that do not change the layout of samples and features. */
struct strategy plain_strategy(const struct strategy *strategy);
/* The functions `least` (I3) and `roughly` (I4) of struct layer_source (layer_bounds.c). */
weft_status layer_least(void *context, const struct layer_question *q, int32_t kind,
                        const struct strategy *strategy, int64_t *ns);
weft_status layer_roughly(void *context, const struct layer_question *q, int32_t kind,
                          const struct strategy *strategy, struct layer_cost *out);
/* The function `beside` of struct layer_source, for a struct layer_costs (layer_beside.c). */
weft_status layer_beside(void *context, const struct layer_question *q, struct layer_cost *out);

#endif

/* layer_beside.c - what a stage takes besides its layers: (2) of layer_costs.h, and what every device
 * holds. */
#include "search/galvatron/layer_costs_room.h"

/* A strategy that is possible on every stage: DP, and TP for the rest if there are too few
 * samples. */
static weft_status plain_row(struct layer_costs *c, const struct layer_question *q,
                             const struct strategy_row **out)
{
    int64_t group = q->devices / q->stages;
    weft_status status = WEFT_OK;
    for (int64_t tp = 1; tp <= group; tp++) {
        struct strategy strategy = {.levels = 0};
        if (group % tp)
            continue;
        if (group / tp > 1)
            strategy.level[strategy.levels++] = (struct level){WAY_DP, (int32_t)(group / tp)};
        if (tp > 1)
            strategy.level[strategy.levels++] = (struct level){WAY_TP, (int32_t)tp};
        TRY(strategy_row_find(c->rows, &strategy, out));
        if (is_legal(*out, q))
            return WEFT_OK;
    }
    *out = NULL;
done:
    return status;
}

/* The border from a stage to the next, after a usual layer. */
static weft_status border_after(struct layer_costs *c, const struct layer_question *q,
                                int32_t stage, const struct strategy_row *row,
                                struct border_estimate *out)
{
    struct layer_question at = *q;
    struct stage next = stage_of(q, stage + 1);
    const struct layer_kind *usual = &c->kinds.data[c->usual];
    at.stage = stage;
    struct run_question question = run_question(&at, usual->first, usual->last, row);
    if (question.run.last >= c->shortened.first[c->shortened.layers])
        question.run.last = usual->first;
    return estimate_border(c->estimator, &question, &next, row->row, out);
}

/* Adds (2); sends that nothing hides are part of the passes. */
static void add_border(const struct layer_costs *c, const struct layer_question *q,
                       const struct border_estimate *border, const struct side_estimate *side,
                       bool sends, struct layer_cost *out)
{
    int64_t way = border->send_ns + border->back_ns,
            own = sends ? border->send_ns : border->back_ns;
    if (c->settings.overlap & OVERLAP_PIPELINE) {
        out->steady_ns += side->ns + way / 2;
        out->once_ns += way / 2 / q->stages;
    } else {
        out->steady_ns += side->ns + own;
    }
    out->kept_bytes += side->kept_bytes;
    out->peak_bytes += above_zero(side->peak_bytes);
}

weft_status layer_beside(void *context, const struct layer_question *q, struct layer_cost *out)
{
    struct layer_costs *c = context;
    const struct strategy_row *row;
    struct border_estimate border;
    struct stage_overhead overhead;
    weft_status status;
    *out = (struct layer_cost){0};
    TRY(plain_row(c, q, &row));
    if (!row)
        goto done;
    struct run_question question = run_question(q, 0, 1, row);
    TRY(estimate_overhead(c->estimator, &question, &overhead));
    *out = (struct layer_cost){.once_ns = above_zero(overhead.optimizer_ns) / q->stages,
                               .state_bytes = above_zero(overhead.state_bytes)};
    if (q->stage > 0) {
        TRY(border_after(c, q, q->stage - 1, row, &border));
        add_border(c, q, &border, &border.after, false, out);
    }
    if (q->stage + 1 < q->stages) {
        TRY(border_after(c, q, q->stage, row, &border));
        add_border(c, q, &border, &border.before, true, out);
    }
    out->steady_ns = above_zero(out->steady_ns);
    out->kept_bytes = above_zero(out->kept_bytes);
done:
    return status;
}

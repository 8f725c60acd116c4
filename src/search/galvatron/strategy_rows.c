/* strategy_rows.c - strategies as rows of choices (strategy_rows.h). */
#include "search/galvatron/strategy_rows.h"

#include <string.h>

/* What one way of one degree splits, per operator. */
struct lowered_way {
    enum way way;
    int64_t degree;
    bool sequence;
    const struct split *split; /* NULL: this operator cannot be split so */
};

struct strategy_rows {
    struct arena *keep;
    const struct model *model;
    const struct cluster *cluster;
    struct estimator *estimator;
    ARRAY(struct lowered_way) ways;
    ARRAY(struct strategy_row *) rows;
    ARRAY(uint64_t) layouts;
    struct hash_map by_strategy;
};

struct strategy_rows *strategy_rows_new(struct arena *keep, const struct model *model,
                                        const struct cluster *cluster, struct estimator *estimator)
{
    struct strategy_rows *rows = ARENA_NEW(keep, struct strategy_rows);
    *rows = (struct strategy_rows){
        .keep = keep, .model = model, .cluster = cluster, .estimator = estimator};
    return rows;
}

/* ---- degrees --------------------------------------------------------------------------------- */

/* In degrees, EP is a part of DP. */
static struct degrees degrees_of(const struct strategy *s)
{
    int64_t ep = strategy_degree(s, WAY_EP);
    int64_t dp = strategy_degree(s, WAY_DP) * strategy_degree(s, WAY_SDP) * ep;
    return (struct degrees){.dp = dp,
                            .tp = strategy_degree(s, WAY_TP),
                            .pp = 1,
                            .cp = strategy_degree(s, WAY_CP),
                            .ep = ep,
                            .sequence = s->sequence,
                            .micro_batch = 1,
                            .global_batch = dp,
                            .shard = s->shard,
                            .recompute = !s->recompute ? RECOMPUTE_NONE
                                         : s->modules  ? RECOMPUTE_SELECTIVE
                                                       : RECOMPUTE_FULL,
                            .modules = s->modules};
}

/* The degrees on one stage of that many devices; NULL: impossible. */
static struct plan *lower(const struct strategy_rows *rows, const struct degrees *degrees)
{
    /* Degrees only ask how many devices there are. */
    struct cluster group = *rows->cluster;
    struct plan *plan = NULL;
    group.nodes = 1;
    group.node.devices = (int32_t)(degrees->dp * degrees->tp * degrees->cp);
    if (plan_from_degrees(rows->model, &group, degrees, &plan))
        error_clear();
    return plan;
}

/* The choice of each operator, from any of its copies. */
static struct choice *choices_of(struct arena *keep, const struct plan *plan)
{
    struct choice *choice = ARENA_ARRAY(keep, struct choice, (size_t)plan->model->ops);
    for (int64_t i = 0; i < plan->instances; i++)
        choice[plan->instance[i].op] = *plan_choice(plan, i);
    return choice;
}

static const struct split *lower_way(struct strategy_rows *rows, const struct level *level,
                                     bool sequence)
{
    for (size_t i = 0; i < rows->ways.len; i++) {
        const struct lowered_way *known = &rows->ways.data[i];
        if (known->way == level->way && known->degree == level->degree &&
            known->sequence == sequence)
            return known->split;
    }
    struct lowered_way own = {.way = level->way, .degree = level->degree, .sequence = sequence};
    struct strategy alone = {.levels = 1, .level = {*level}, .sequence = sequence};
    struct degrees degrees = degrees_of(&alone);
    struct plan *plan = lower(rows, &degrees);
    if (plan) {
        struct choice *choice = choices_of(plan->arena, plan);
        struct split *split = ARENA_ARRAY(rows->keep, struct split, (size_t)rows->model->ops);
        for (int32_t op = 0; op < rows->model->ops; op++)
            split[op] = choice[op].split;
        own.split = split;
    }
    plan_free(plan);
    array_push(rows->keep, &rows->ways, own);
    return own.split;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Nests the splits of all levels, outermost first. False: there are more parts than a split has
 * room for. */
static bool nest(struct strategy_rows *rows, const struct strategy *strategy, struct choice *choice)
{
    for (int32_t op = 0; op < rows->model->ops; op++)
        choice[op].split = split_none();
    for (int32_t i = 0; i < strategy->levels; i++) {
        bool sequence = strategy->sequence && strategy->level[i].way == WAY_TP;
        const struct split *split = lower_way(rows, &strategy->level[i], sequence);
        if (!split)
            return false;
        for (int32_t op = 0; op < rows->model->ops; op++)
            for (int32_t k = 0; k < split[op].parts; k++)
                if (!split_add(&choice[op].split, split[op].part[k].dim, split[op].part[k].degree))
                    return false;
    }
    return true;
}

static uint64_t strategy_hash(const struct strategy *s)
{
    int64_t words[WAY_COUNT + 1] = {s->shard * 4 + s->recompute * 2 + s->sequence +
                                    16 * (int64_t)s->modules};
    for (int32_t i = 0; i < s->levels; i++)
        words[i + 1] = (int64_t)s->level[i].way << 32 | s->level[i].degree;
    return hash_bytes(words, sizeof words, 7) | 1;
}

static int32_t layout_number(struct strategy_rows *rows, const struct choice *choice)
{
    uint64_t hash = 8;
    for (int32_t op = 0; op < rows->model->ops; op++)
        for (int32_t k = 0; k <= choice[op].split.parts; k++) {
            bool end = k == choice[op].split.parts;
            int64_t words[] = {end ? -1 : choice[op].split.part[k].dim,
                               end ? 0 : choice[op].split.part[k].degree};
            hash = hash_bytes(words, sizeof words, hash);
        }
    for (size_t i = 0; i < rows->layouts.len; i++)
        if (rows->layouts.data[i] == hash)
            return (int32_t)i;
    array_push(rows->keep, &rows->layouts, hash);
    return (int32_t)rows->layouts.len - 1;
}

static weft_status fill_row(struct strategy_rows *rows, struct strategy_row *row)
{
    struct degrees degrees = degrees_of(&row->strategy);
    struct plan *plan = lower(rows, &degrees); /* I1 */
    weft_status status = WEFT_OK;
    row->batch_degree = degrees.dp;
    if (!plan)
        return WEFT_OK;
    struct choice *choice = choices_of(rows->keep, plan);
    if (nest(rows, &row->strategy, choice)) {
        row->choice = choice;
        row->row = estimator_row(rows->estimator, choice);
        row->layout = layout_number(rows, choice);
        if (row->row < 0)
            status = WEFT_FAILURE;
    }
    plan_free(plan);
    return status;
}

weft_status strategy_row_find(struct strategy_rows *rows, const struct strategy *strategy,
                              const struct strategy_row **out)
{
    uint64_t hash = strategy_hash(strategy);
    int32_t number = (int32_t)hash_get(&rows->by_strategy, hash);
    weft_status status = WEFT_OK;
    if (number < 0) {
        struct strategy_row *row = ARENA_NEW(rows->keep, struct strategy_row);
        row->strategy = *strategy;
        TRY(fill_row(rows, row));
        number = (int32_t)rows->rows.len;
        array_push(rows->keep, &rows->rows, row);
        *hash_at(&rows->by_strategy, rows->keep, hash) = number;
    }
    *out = rows->rows.data[number];
done:
    return status;
}

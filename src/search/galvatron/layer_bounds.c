/* layer_bounds.c - bounds of what a layer costs, sooner found than the costs (layer_costs.h, I3 and I4). */
#include "search/galvatron/layer_costs_room.h"

/* ---- times ----------------------------------------------------------------------------------- */

/* Adds the time of an operator's phase on the device, with nothing sent. Operators around layers may have inputs whose
 * gradients nobody wants. */
static void add_phase(const struct layer_costs *c, const struct work *work, bool beside, bool twice,
                      struct floor_operators *out)
{
    if (work->flops <= 0 && work->read_bytes + work->write_bytes <= 0)
        return;
    int64_t ns = cost_on_device(c->estimator->cost, work).ns * (twice ? 2 : 1);
    out->all_ns += ns;
    out->beside_ns += beside ? ns : 0;
}

static struct floor_operators find_operators(const struct layer_costs *c, int64_t step_samples,
                                             int32_t kind, const struct choice *choice)
{
    const struct plan *walk = tables_walk(c->estimator->tables);
    const struct layer_kind *own = &c->kinds.data[kind];
    struct floor_operators sum = {0};
    for (int64_t i = own->first; i < own->last; i++) {
        int32_t number = walk->instance[i].op;
        const struct op *op = &walk->model->op[number];
        const struct split *split = &choice[number].split;
        enum dtype dtype =
            kernel_dtype(&c->settings.software, walk->model, number, c->settings.dtype);
        int64_t local[OP_MAX_DIMS];
        split_local(op, split, step_samples, local);
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            struct work work = op_work(op, local, dtype, (enum phase)phase);
            bool twice = phase == PHASE_FORWARD && choice[number].recompute;
            if (phase != PHASE_BACKWARD_INPUT || kind == c->usual)
                add_phase(c, &work, is_beside(split, (enum phase)phase, c->settings.overlap), twice,
                          &sum);
        }
    }
    return sum;
}

/* The operators' time for so many samples of a replica, which depends on nothing but these words, and is found once for
 * them. */
static struct floor_operators known_operators(struct layer_costs *c, int64_t samples, int32_t kind,
                                              const struct strategy_row *row)
{
    const struct strategy *strategy = &row->strategy;
    const int64_t words[] = {strategy_degree(strategy, WAY_TP),
                             strategy_degree(strategy, WAY_CP),
                             strategy_degree(strategy, WAY_EP),
                             samples,
                             kind,
                             strategy->sequence,
                             strategy->recompute,
                             strategy->modules};
    int64_t *number = hash_at(&c->operators_of, c->arena, hash_bytes(words, sizeof words, 7) | 1);
    if (*number < 0) {
        *number = (int64_t)c->operators.len;
        struct floor_operators found =
            find_operators(c, samples * row->batch_degree, kind, row->choice);
        array_push(c->arena, &c->operators, found);
    }
    return c->operators.data[*number];
}

struct strategy plain_strategy(const struct strategy *strategy)
{
    struct strategy plain = *strategy;
    plain.shard = 0;
    plain.recompute = false;
    plain.modules = 0;
    for (int32_t i = 0; i < plain.levels; i++)
        if (plain.level[i].way == WAY_SDP)
            plain.level[i].way = WAY_DP;
    return plain;
}

weft_status layer_least(void *context, const struct layer_question *q, int32_t kind,
                        const struct strategy *strategy, int64_t *ns)
{
    struct layer_costs *c = context;
    const struct strategy_row *row;
    weft_status status;
    *ns = LAYERWISE_NEVER;
    TRY(allowed_row(c, q, strategy, &row));
    if (row)
        *ns = known_operators(c, q->step_samples / row->batch_degree, kind, row).all_ns;
done:
    return status;
}

/* ---- all costs (I4) -------------------------------------------------------------------------- */

/* The row of the strategy that shards nothing, and recomputes what this one does; its own, where that is impossible. */
static weft_status whole_row(struct layer_costs *c, const struct layer_question *q,
                             const struct strategy_row *row, const struct strategy_row **out)
{
    struct strategy whole = plain_strategy(&row->strategy);
    whole.recompute = row->strategy.recompute;
    whole.modules = row->strategy.modules;
    weft_status status = strategy_row_find(c->rows, &whole, out);
    if (!status && !is_legal(*out, q))
        *out = row;
    return status;
}

/* What a strategy that shards nothing holds and takes of one sample depends on these words alone: how features,
 * positions and experts are split, how far apart the devices are that share them, and where they begin. */
static uint64_t whole_key(const struct layer_costs *c, const struct layer_question *q, int32_t kind,
                          const struct strategy *strategy)
{
    int64_t words[6 + 3 * WAY_COUNT] = {kind,
                                        strategy->recompute,
                                        strategy->sequence,
                                        strategy->modules,
                                        c->source.place(c->source.context, q),
                                        q->micro_batches > 1};
    int64_t stride = 1;
    size_t count = 6;
    for (int32_t i = strategy->levels - 1; i >= 0; i--) {
        const struct level *level = &strategy->level[i];
        if (level->way != WAY_DP && level->way != WAY_SDP) {
            words[count++] = level->way;
            words[count++] = level->degree;
            words[count++] = stride;
        }
        stride *= level->degree;
    }
    return hash_bytes(words, count * sizeof *words, 13) | 1;
}

/* The layer's weights of a device, as they are gathered where they are sharded. */
static double gathered_bytes(const struct layer_costs *c, const struct layer_question *q,
                             int32_t kind, const struct choice *choice)
{
    const struct plan *walk = tables_walk(c->estimator->tables);
    double bytes = 0;
    for (int64_t i = c->kinds.data[kind].first; i < c->kinds.data[kind].last; i++) {
        int32_t number = walk->instance[i].op;
        const struct op *op = &walk->model->op[number];
        int64_t local[OP_MAX_DIMS];
        split_local(op, &choice[number].split, q->step_samples, local);
        for (int32_t w = 0; w < op->weights; w++)
            bytes += operand_elements(op, &op->weight[w].operand, local) *
                     plan_gather_bytes(walk, number);
    }
    return bytes;
}

/* What the row of the strategy that shards nothing costs, found once for its words with FLOOR_SAMPLES: what is kept is
 * proportional to samples. */
static weft_status whole_cost(struct layer_costs *c, const struct layer_question *q, int32_t kind,
                              const struct strategy_row *row, struct whole_cost *out)
{
    const struct layer_kind *own = &c->kinds.data[kind];
    uint64_t key = whole_key(c, q, kind, &row->strategy);
    int64_t number = hash_get(&c->whole_of, key);
    const struct strategy_row *whole;
    struct run_estimate estimate;
    weft_status status = WEFT_OK;
    if (number >= 0) {
        *out = c->wholes.data[number];
        return WEFT_OK;
    }
    TRY(whole_row(c, q, row, &whole));
    struct run_question question = run_question(q, own->first, own->last, whole);
    question.step_samples = FLOOR_SAMPLES * row->batch_degree;
    question.micro_batches = floor_micro_batches(q->micro_batches);
    TRY(estimate_run(c->estimator, &question, &estimate));
    *out = (struct whole_cost){above_zero(estimate.kept_bytes),
                               whole == row && row->strategy.shard ? 0 : estimate.state_bytes,
                               gathered_bytes(c, q, kind, row->choice), floor_ns(&estimate),
                               estimate.forward_waits_ns + estimate.backward_waits_ns};
    *hash_at(&c->whole_of, c->arena, key) = (int64_t)c->wholes.len;
    array_push(c->arena, &c->wholes, *out);
done:
    return status;
}

/* What a layer keeps at least. Where weights are sharded, those of the layer before may be there when it begins, and
 * are not when it ends; of the rest, test_bounds_of_layers sees 0.1 % less than where nothing is sharded. */
static int64_t kept_at_least(const struct whole_cost *whole, const struct layer_question *q,
                             const struct strategy_row *row)
{
    static const double SHARE = 0.98;
    double samples = (double)q->step_samples / (double)row->batch_degree;
    double bytes = SHARE * (double)whole->kept * samples / FLOOR_SAMPLES;
    bytes -= row->strategy.shard == 3 ? whole->gathered : 0;
    return above_zero((int64_t)bytes);
}

/* The operators' time, or the floors where they are more. */
static int64_t steady_at_least(struct layer_costs *c, const struct layer_question *q, int32_t kind,
                               const struct strategy_row *row, const struct whole_cost *whole)
{
    int64_t samples = q->step_samples / row->batch_degree;
    struct floor_operators own = known_operators(c, samples, kind, row);
    if (samples > FLOOR_SAMPLES)
        return own.all_ns;
    struct floor_operators many = known_operators(c, FLOOR_SAMPLES, kind, row);
    int64_t floor = (int64_t)(whole->floor_ns * (double)samples);
    int64_t with_waits = floor_with_waits_ns(samples, own, many, whole->waits_ns);
    return floor > with_waits ? floor : with_waits;
}

weft_status layer_roughly(void *context, const struct layer_question *q, int32_t kind,
                          const struct strategy *strategy, struct layer_cost *out)
{
    struct layer_costs *c = context;
    const struct strategy_row *row;
    struct whole_cost whole;
    weft_status status;
    *out = (struct layer_cost){.steady_ns = LAYERWISE_NEVER};
    TRY(allowed_row(c, q, strategy, &row));
    if (!row)
        goto done;
    c->asked++;
    TRY(whole_cost(c, q, kind, row, &whole));
    *out = (struct layer_cost){
        .steady_ns = steady_at_least(c, q, kind, row, &whole),
        .kept_bytes = kind == c->usual ? kept_at_least(&whole, q, row) : 0,
        .state_bytes = strategy->shard ? whole.state / strategy_devices(strategy) : whole.state};
done:
    return status;
}

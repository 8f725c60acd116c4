/* galvatron.c - one strategy per layer, as Galvatron has them: the plan that strategies make, and the
 * strategies that a plan has.
 *
 * A layer with tp t on the D devices of its stage is split as the uniform degrees (tp t, dp D / t)
 * would split it. If its tp devices are not consecutive, then its replicas are, and the batch moves to
 * the inner end of every split:
 *
 *   batch:D/t out:t   ->   out:t batch:D/t                                                      (1)
 *
 * Since 3.0 a layer has cp, ep and a tensor degree of its experts, too, and its tp devices are always neighbours. The
 * parts of ep are the outermost of experts (comm_groups.py, 'pp-ep-edp-etp'):
 *
 *   batch:b expert:e   ->   expert:e batch:b                                                    (2)
 *
 * The other way round, for each strategy that could occur the plan in which all layers have it is made; a layer
 * takes the one whose splits it shares most. The rest follows from counts within the layer.
 * Source: galvatron/core/runtime/hybrid_parallel_config.py of PKU-DAIR/Hetu-Galvatron (38b79aad).
 *
 *   I1  step_samples = global_bsz / chunks; every layer's dp divides it.
 */
#include <string.h>

#include "target/room.h"

const struct galvatron_pipeline GALVATRON_PIPELINES[] = {{"pipedream_flush", "1f1b"},
                                                         {"gpipe", "gpipe"}};

/* ---- the plan -------------------------------------------------------------------------------- */

/* The degrees of a layer. */
struct layer_degrees {
    int64_t tp, cp, ep, etp; /* etp 0: the model has no experts, or they are split as tp does */
};

/* The split of each operator for one of these; made once for each that occurs. */
struct uniform {
    struct layer_degrees degrees;
    struct split *split;
};

struct strategy_lowering {
    struct arena *scratch;
    const struct model *model;
    const struct cluster *cluster;
    const struct galvatron *config;
    ARRAY(struct uniform) known;
};

/* Layer -1 stands for what is outside of layers. */
static struct layer_degrees degrees_of_layer(const struct galvatron *c, int64_t layer)
{
    if (layer < 0)
        return (struct layer_degrees){c->vocab_tp, c->vocab_cp ? c->vocab_cp : 1, 1, 0};
    return (struct layer_degrees){c->tp[layer], c->cp ? c->cp[layer] : 1, c->ep ? c->ep[layer] : 1,
                                  c->etp ? c->etp[layer] : 0};
}

static weft_status lower_uniform(struct strategy_lowering *l, struct layer_degrees of,
                                 struct split **out)
{
    struct plan *plan = NULL;
    const struct galvatron *c = l->config;
    struct degrees d = {.tp = of.tp,
                        .cp = of.cp,
                        .ep = of.ep,
                        .etp = of.etp,
                        .pp = c->pp,
                        .sequence = c->sequence && of.tp > 1};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < l->known.len; i++)
        if (memcmp(&l->known.data[i].degrees, &of, sizeof of) == 0) {
            *out = l->known.data[i].split;
            return WEFT_OK;
        }
    TRY(plan_from_degrees(l->model, l->cluster, &d, &plan));
    struct uniform uniform = {of, ARENA_ARRAY(l->scratch, struct split, (size_t)l->model->ops)};
    for (int64_t i = 0; i < plan->instances; i++)
        uniform.split[plan->instance[i].op] = plan_choice(plan, i)->split;
    array_push(l->scratch, &l->known, uniform);
    *out = uniform.split;
done:
    plan_free(plan);
    return status;
}

/* Equation (1). */
static struct split batch_inside(const struct split *split)
{
    struct split out = split_none();
    for (int32_t i = 0; i < split->parts; i++)
        if (split->part[i].dim != DIM_BATCH)
            split_add(&out, split->part[i].dim, split->part[i].degree);
    split_add(&out, DIM_BATCH, split_degree(split, DIM_BATCH));
    return out;
}

/* Equation (2). */
static struct split experts_outside(const struct split *split)
{
    struct split out = split_none();
    if (split_degree(split, DIM_EXPERT) > 1)
        split_add(&out, DIM_EXPERT, split_degree(split, DIM_EXPERT));
    for (int32_t i = 0; i < split->parts; i++)
        if (split->part[i].dim != DIM_EXPERT)
            split_add(&out, split->part[i].dim, split->part[i].degree);
    return out;
}

void put_experts_outside(struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.split = experts_outside(&choice.split);
        if (!split_equal(&choice.split, &plan_choice(plan, i)->split) &&
            plan_choose(plan, i, &choice))
            error_clear(); /* the same parts in another order are allowed, too */
    }
}

static weft_status choose(struct strategy_lowering *l, struct plan *plan, int64_t i, int64_t layer)
{
    const struct galvatron *c = l->config;
    struct split *split;
    weft_status status = lower_uniform(l, degrees_of_layer(c, layer), &split);
    if (status)
        return status;
    struct choice choice = {.split = split[plan->instance[i].op]};
    if (layer >= 0 && !c->consecutive[layer])
        choice.split = batch_inside(&choice.split);
    choice.split = experts_outside(&choice.split);
    bool sharded = layer < 0 ? c->vocab_sharded : c->sharded[layer];
    choice.shard = (uint8_t)(sharded ? 3 : c->default_shard);
    choice.recompute = layer >= 0 && c->checkpointed[layer];
    return plan_choose(plan, i, &choice);
}

static weft_status map_stages(struct strategy_lowering *l, struct plan *plan)
{
    const struct galvatron *c = l->config;
    int64_t *devices = ARENA_ARRAY(l->scratch, int64_t, (size_t)c->pp), *cut;
    for (int64_t s = 0; s < c->pp; s++)
        devices[s] = cluster_devices(l->cluster) / c->pp;
    if (!cuts_after_layers(l->scratch, plan, c->pp, c->division, &cut))
        return bad_argument("give every stage a layer", "'pp_division' leaves a stage empty");
    return plan_map(plan, (int32_t)c->pp, 1, cut, devices);
}

weft_status galvatron_plan(const struct model *model, const struct cluster *cluster,
                           const struct galvatron *config, struct plan **out)
{
    struct strategy_lowering l = {arena_new(), model, cluster, config, {0}};
    struct plan *plan = NULL;
    int64_t layers;
    weft_status status;
    TRY(plan_new(model, cluster, &plan));
    plan->global_batch = config->global_batch;
    plan->step_samples = config->global_batch / config->chunks; /* I1 */
    if (config->schedule)
        plan->schedule = config->schedule;
    TRY(map_stages(&l, plan));
    const int64_t *layer = layers_of_instances(l.scratch, plan, &layers);
    for (int64_t i = 0; i < plan->instances; i++)
        TRY(choose(&l, plan, i, layer[i]));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    arena_free(l.scratch);
    return status;
}

/* ---- the strategies -------------------------------------------------------------------------- */

struct strategy_search {
    struct arena *keep;
    const struct abilities *can;
    const struct plan *plan;
    struct galvatron config;
    const int64_t *layer; /* per instance: the number of its layer */
    int64_t *best;        /* splits that agree, per layer; last, those outside of layers */
};

int galvatron_pipeline_of(const char *schedule)
{
    int at = GALVATRON_PIPELINE_COUNT - 1;
    while (at > 0 && strcmp(GALVATRON_PIPELINES[at].ours, schedule) != 0)
        at--;
    return at;
}

struct pick {
    struct layer_degrees degrees;
    bool consecutive;
};

static void set_layer(struct galvatron *c, int64_t layer, const struct pick *pick)
{
    c->tp[layer] = pick->degrees.tp;
    c->cp[layer] = pick->degrees.cp;
    c->ep[layer] = pick->degrees.ep;
    c->etp[layer] = pick->degrees.etp;
    c->consecutive[layer] = pick->consecutive;
}

static void set_all(struct strategy_search *s, const struct pick *pick)
{
    for (int64_t i = 0; i < s->config.layers; i++)
        set_layer(&s->config, i, pick);
    s->config.vocab_tp = pick->degrees.tp;
    s->config.vocab_cp = pick->degrees.cp;
}

static int64_t place_of(const struct strategy_search *s, int64_t instance)
{
    return s->layer[instance] < 0 ? s->config.layers : s->layer[instance];
}

/* Layers that agree better with this uniform plan than with all before take its strategy. */
static void try_uniform(struct strategy_search *s, struct pick pick, struct pick *picked)
{
    struct plan *other = NULL;
    int64_t *equal = ARENA_ARRAY(s->keep, int64_t, (size_t)s->config.layers + 1);
    set_all(s, &pick);
    if (galvatron_plan(s->plan->model, s->plan->cluster, &s->config, &other) != WEFT_OK) {
        error_clear();
        return;
    }
    for (int64_t i = 0; i < s->plan->instances; i++)
        equal[place_of(s, i)] +=
            split_equal(&plan_choice(s->plan, i)->split, &plan_choice(other, i)->split);
    for (int64_t k = 0; k <= s->config.layers; k++)
        if (equal[k] > s->best[k] && (k < s->config.layers || pick.consecutive)) {
            s->best[k] = equal[k];
            picked[k] = pick;
        }
    plan_free(other);
}

/* Whether an operator has the dim split so often. */
static bool occurs(const struct plan *plan, int dim, int64_t degree)
{
    for (int64_t i = 0; i < plan->instances; i++)
        if (split_degree(&plan_choice(plan, i)->split, dim) == degree)
            return true;
    return degree == 1;
}

/* Strategies of this tp and cp: with experts also those that occur, split as tp does or whole. */
static void try_experts(struct strategy_search *s, int64_t tp, int64_t cp, bool consecutive,
                        struct pick *picked)
{
    int64_t group = cluster_devices(s->plan->cluster) / s->config.pp;
    bool experts = s->can->ep && has_experts(s->plan->model);
    for (int64_t ep = 1; ep <= (experts ? group : 1); ep++) {
        if (!occurs(s->plan, DIM_EXPERT, ep))
            continue;
        try_uniform(s, (struct pick){{tp, cp, ep, experts ? tp : 0}, consecutive}, picked);
        if (experts && tp > 1)
            try_uniform(s, (struct pick){{tp, cp, ep, 1}, consecutive}, picked);
    }
}

/* Picks for all layers, with or without sequence parallelism; returns how many splits agree. */
static int64_t try_splits(struct strategy_search *s, bool sequence, struct pick *picked)
{
    int64_t group = cluster_devices(s->plan->cluster) / s->config.pp, sum = 0;
    s->config.sequence = sequence;
    for (int64_t k = 0; k <= s->config.layers; k++)
        s->best[k] = -1;
    for (int64_t tp = 1; tp <= group; tp++)
        for (int64_t cp = 1; cp <= (s->can->cp ? group / tp : 1); cp++) {
            if (group % (tp * cp) || s->plan->step_samples % (group / tp / cp) ||
                !occurs(s->plan, DIM_SEQ, cp))
                continue;
            try_experts(s, tp, cp, true, picked);
            if (s->can->scattered && tp > 1 && tp < group)
                try_experts(s, tp, cp, false, picked);
        }
    for (int64_t k = 0; k <= s->config.layers; k++)
        sum += s->best[k];
    return sum;
}

static void find_splits(struct strategy_search *s)
{
    static const struct pick USUAL = {{1, 1, 1, 0}, true};
    size_t count = (size_t)s->config.layers + 1;
    struct pick *plain = ARENA_ARRAY(s->keep, struct pick, count);
    struct pick *along = ARENA_ARRAY(s->keep, struct pick, count);
    int64_t without = try_splits(s, false, plain), with = try_splits(s, true, along);
    const struct pick *chosen = with > without ? along : plain;
    const struct pick *outside = &chosen[s->config.layers];
    s->config.sequence = with > without;
    for (int64_t i = 0; i < s->config.layers; i++)
        set_layer(&s->config, i, chosen[i].degrees.tp ? &chosen[i] : &USUAL);
    s->config.vocab_tp = outside->degrees.tp ? outside->degrees.tp : 1;
    s->config.vocab_cp = outside->degrees.tp ? outside->degrees.cp : 1;
}

static void find_flags(struct strategy_search *s)
{
    struct galvatron *c = &s->config;
    size_t count = (size_t)c->layers + 1;
    int64_t *sharded = ARENA_ARRAY(s->keep, int64_t, count), lower[4] = {0};
    int64_t *recomputed = ARENA_ARRAY(s->keep, int64_t, count);
    for (int64_t i = 0; i < s->plan->instances; i++) {
        const struct choice *choice = plan_choice(s->plan, i);
        sharded[place_of(s, i)] += choice->shard == 3 ? 1 : -1;
        recomputed[place_of(s, i)] += choice->recompute ? 1 : -1;
        lower[choice->shard & 3]++;
    }
    for (int64_t k = 0; k < c->layers; k++) {
        c->sharded[k] = sharded[k] > 0;
        c->checkpointed[k] = recomputed[k] > 0;
    }
    c->vocab_sharded = sharded[c->layers] > 0;
    c->default_shard = lower[1] + lower[2] > lower[0] ? 2 : 0;
}

/* Galvatron cuts between layers: a layer that the plan cuts belongs to the part in which it ends. */
static void find_stages(struct strategy_search *s)
{
    struct galvatron *c = &s->config;
    const struct plan *plan = s->plan;
    int64_t *layers = layers_of_parts(s->keep, plan), devices = cluster_devices(plan->cluster);
    int64_t *cut;
    c->pp = plan->stages;
    while (devices % c->pp || c->pp > c->layers)
        c->pp--;
    c->division = ARENA_ARRAY(s->keep, int64_t, (size_t)c->pp);
    bool usable = c->pp == plan->stages && plan->pieces == 1 &&
                  cuts_after_layers(s->keep, plan, plan->parts, layers, &cut);
    for (int64_t p = 0; p < c->pp; p++)
        c->division[p] = usable ? layers[p] : c->layers / c->pp + (p < c->layers % c->pp);
    c->schedule = GALVATRON_PIPELINES[galvatron_pipeline_of(plan->schedule)].ours;
}

/* If a layer splits more samples than one step has, all samples of the batch go in one step. */
static weft_status make_plan(const struct plan *plan, bool nearest, struct galvatron *config,
                             struct plan **out)
{
    weft_status status;
    TRY(galvatron_plan(plan->model, plan->cluster, config, out));
    if (!nearest || plan_check(*out) == WEFT_OK)
        return WEFT_OK;
    error_clear();
    plan_free(*out);
    *out = NULL;
    config->chunks = 1;
    TRY(galvatron_plan(plan->model, plan->cluster, config, out));
    TRY(plan_check(*out));
done:
    return status;
}

weft_status galvatron_of_plan(struct arena *keep, const struct target *target,
                              const struct plan *plan, bool nearest, struct galvatron *out,
                              struct plan **written)
{
    struct strategy_search s = {.keep = keep, .can = &target->can, .plan = plan};
    struct plan *made = NULL;
    weft_status status;
    s.layer = layers_of_instances(keep, plan, &s.config.layers);
    size_t count = (size_t)s.config.layers;
    if (count == 0)
        return bad_argument("--to megatron or deepspeed take degrees",
                            "%s has no layers, and Galvatron's strategies are by layer",
                            plan->model->name);
    s.best = ARENA_ARRAY(keep, int64_t, count + 1);
    s.config.tp = ARENA_ARRAY(keep, int64_t, count);
    s.config.cp = ARENA_ARRAY(keep, int64_t, count);
    s.config.ep = ARENA_ARRAY(keep, int64_t, count);
    s.config.etp = ARENA_ARRAY(keep, int64_t, count);
    s.config.consecutive = ARENA_ARRAY(keep, bool, count);
    s.config.sharded = ARENA_ARRAY(keep, bool, count);
    s.config.checkpointed = ARENA_ARRAY(keep, bool, count);
    s.config.global_batch = plan->global_batch;
    s.config.chunks = plan_micro_batches(plan);
    find_stages(&s);
    find_splits(&s);
    find_flags(&s);
    TRY(make_plan(plan, nearest, &s.config, &made));
    *out = s.config;
    *written = made;
    made = NULL;
done:
    plan_free(made);
    return status;
}

/* recognise.c - recognises degrees in a plan: those whose lowering makes the most choices like the plan's.
 *
 * For D devices per stage, every (dp, cp, tp) with
 *
 *   dp * cp * tp = D,  dp divides step_samples                                               (1)
 *
 * is lowered with and without sequence parallelism, and the splits that agree with the plan's are
 * counted. Among equal counts the smallest cp wins, then the smallest tp, then the one without
 * sequence parallelism.
 *
 *   I1  If some degrees make exactly this plan, they are found, because all instances agree.
 *   I2  Recomputation, sharding and offload are those that most instances in layers have.
 */
#include <string.h>

#include "schedule/schedule.h"
#include "target/room.h"

/* ---- rebuilding ------------------------------------------------------------------------------ */

static weft_status recut(struct plan *plan, const struct degrees *d, const int64_t *part_layers)
{
    struct arena *scratch = arena_new();
    int64_t *cut, *devices = ARENA_ARRAY(scratch, int64_t, (size_t)d->pp);
    weft_status status;
    for (int64_t s = 0; s < d->pp; s++)
        devices[s] = plan->stage[s].devices;
    if (cuts_after_layers(scratch, plan, d->pp * d->pieces, part_layers, &cut))
        status = plan_map(plan, (int32_t)d->pp, d->pieces, cut, devices);
    else
        status = bad_argument(NULL, "the layers per stage leave a stage empty");
    arena_free(scratch);
    return status;
}

/* As in models/llama3/parallelize.py: the outputs of attention and of every other product, beginning with the first
 * of each layer, are saved. */
weft_status keep_products(struct plan *plan)
{
    int64_t products = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        enum op_kind kind = plan->model->op[plan->instance[i].op].kind;
        if (i && plan->ends_layer[i - 1])
            products = 0;
        if (!choice.recompute || (kind != OP_LINEAR && kind != OP_ATTENTION))
            continue;
        choice.saved = kind == OP_ATTENTION || products++ % 2 == 0;
        weft_status status = plan_choose(plan, i, &choice);
        if (status)
            return status;
    }
    return WEFT_OK;
}

weft_status plan_of_degrees(const struct model *model, const struct cluster *cluster,
                            const struct degrees *degrees, const int64_t *part_layers,
                            int64_t block, struct plan **out)
{
    struct plan *plan = NULL;
    weft_status status;
    TRY(plan_from_degrees(model, cluster, degrees, &plan));
    if (part_layers)
        TRY(recut(plan, degrees, part_layers));
    if (block > 0)
        TRY(plan_recompute_first(plan, block));
    if (block == BLOCK_PRODUCTS)
        TRY(keep_products(plan));
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

/* ---- splits ---------------------------------------------------------------------------------- */

static int64_t expert_degree(const struct plan *plan)
{
    for (int64_t i = 0; i < plan->instances; i++)
        if (plan->model->op[plan->instance[i].op].kind == OP_EXPERT_LINEAR)
            return split_degree(&plan_choice(plan, i)->split, DIM_EXPERT);
    return 1;
}

static int64_t equal_splits(const struct plan *plan, const struct plan *other)
{
    int64_t equal = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        equal += split_equal(&plan_choice(plan, i)->split, &plan_choice(other, i)->split);
    return equal;
}

struct degrees_trial {
    const struct plan *plan;
    struct degrees best;
    int64_t equal;                  /* how many splits of the best agree; -1 before the first */
    int64_t encoder_tp, encoder_dp; /* of the plan's own; 0: there is no encoder of images */
};

static void count_degrees(struct degrees_trial *trial, const struct degrees *d)
{
    struct plan *other = NULL;
    if (plan_from_degrees(trial->plan->model, trial->plan->cluster, d, &other) != WEFT_OK) {
        error_clear();
        return;
    }
    int64_t equal = equal_splits(trial->plan, other);
    if (equal > trial->equal) {
        trial->equal = equal;
        trial->best = *d;
    }
    plan_free(other);
}

static void try_replica(struct degrees_trial *trial, struct degrees d)
{
    int64_t ep = expert_degree(trial->plan), etp = plan_expert_tp(trial->plan);
    struct expert_mesh mesh;
    d.cp_heads = plan_cp_heads(trial->plan, d.cp);
    d.micro_batch = trial->plan->step_samples / d.dp;
    d.micro_batch = d.micro_batch ? d.micro_batch : 1;
    d.global_batch = trial->plan->global_batch;
    for (int along = 0; along <= (d.tp > 1 ? 1 : 0); along++) {
        d.sequence = along != 0;
        d.ep = ep;
        d.etp = etp == d.tp ? 0 : etp;
        if (!expert_mesh(&d, &mesh))
            d.ep = 1, d.etp = 0;
        count_degrees(trial, &d);
        struct degrees own = d; /* with degrees of the encoder's own */
        own.encoder_tp = trial->encoder_tp;
        own.encoder_dp = trial->encoder_dp;
        if (own.encoder_tp || own.encoder_dp)
            count_degrees(trial, &own);
    }
}

/* Tries all (dp, cp, tp) with `pp` stages; with `exact`, only those that take as many samples per step as the plan. */
static void try_stages(struct degrees_trial *trial, int64_t pp, bool exact)
{
    const struct plan *plan = trial->plan;
    struct degrees d = {.pp = pp, .segments = 1};
    int64_t group = cluster_devices(plan->cluster) / pp;
    d.pieces = pp == plan->stages ? plan->pieces : 1;
    d.schedule = pp == plan->stages ? plan->schedule : NULL;
    d.listed = pp == plan->stages ? plan_own_order(plan) : NULL;
    d.defer_head = pp == plan->stages ? plan->defer_head : 0;
    for (d.cp = 1; d.cp <= group; d.cp++)
        for (d.tp = 1; d.tp <= group / d.cp && group % d.cp == 0; d.tp++) {
            d.dp = group / d.cp / d.tp;
            if (d.dp * d.cp * d.tp != group || (exact && plan->step_samples % d.dp)) /* (1) */
                continue;
            try_replica(trial, d);
            if (trial->equal == plan->instances)
                return;
        }
}

/* With the plan's number of stages, or else with the nearest one that divides the devices and for which there are
 * degrees. */
static weft_status find_splits(const struct plan *plan, struct degrees *out)
{
    struct degrees_trial trial = {.plan = plan, .equal = -1};
    struct degrees own;
    if (model_has_tower(plan->model) && plan_degrees(plan, &own)) {
        trial.encoder_tp = own.encoder_tp;
        trial.encoder_dp = own.encoder_dp;
    }
    int64_t devices = cluster_devices(plan->cluster), layers = plan->model->layers;
    if (devices % plan->stages == 0)
        try_stages(&trial, plan->stages, true);
    for (int64_t off = 0; trial.equal < 0 && off <= devices; off++) {
        int64_t below = plan->stages - off, above = plan->stages + off;
        if (above <= layers && devices % above == 0)
            try_stages(&trial, above, false);
        if (trial.equal < 0 && below >= 1 && devices % below == 0)
            try_stages(&trial, below, false);
    }
    if (trial.equal < 0)
        return bad_argument("write the plan with `weft show` and run it with Weft",
                            "no degrees of tp, cp and dp make a plan for %s on %s",
                            plan->model->name, plan->cluster->name);
    *out = trial.best;
    out->schedule = out->schedule ? out->schedule : schedule_default(1, 1)->name;
    return WEFT_OK;
}

/* ---- the rest of a choice -------------------------------------------------------------------- */

static bool in_layer(const struct plan *plan, int64_t i)
{
    return op_in_layer(plan->model, &plan->model->op[plan->instance[i].op]);
}

static int most_common_shard(const struct plan *plan)
{
    int64_t count[4] = {0};
    int best = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        count[plan_choice(plan, i)->shard & 3]++;
    for (int shard = 1; shard < 4; shard++)
        if (count[shard] > count[best])
            best = shard;
    return best;
}

static bool mostly_offloaded(const struct plan *plan)
{
    int64_t balance = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        if (in_layer(plan, i))
            balance += plan_choice(plan, i)->offload == OFFLOAD_CHECKPOINTS ? 1 : -1;
    return balance > 0;
}

static int64_t equal_recompute(const struct plan *plan, const struct plan *other)
{
    int64_t equal = 0;
    for (int64_t i = 0; i < plan->instances; i++)
        equal += choice_recomputes_alike(plan_choice(plan, i), plan_choice(other, i));
    return equal;
}

/* Tries one way to recompute, and takes it if it agrees in more instances than those tried before. */
static weft_status try_recompute(const struct plan *plan, struct recognised *r,
                                 enum recompute recompute, int64_t block, int64_t *best,
                                 struct recognised *chosen)
{
    struct plan *other = NULL;
    struct degrees d = r->degrees;
    d.recompute = recompute;
    weft_status status =
        plan_of_degrees(plan->model, plan->cluster, &d, r->part_layers, block, &other);
    if (status)
        return status;
    int64_t equal = equal_recompute(plan, other);
    if (equal > *best) {
        *best = equal;
        chosen->degrees.recompute = recompute;
        chosen->degrees.modules = d.modules;
        chosen->block = block;
    }
    plan_free(other);
    return WEFT_OK;
}

static weft_status find_recompute(const struct plan *plan, struct recognised *r)
{
    struct recognised chosen = *r;
    int64_t best = -1, block = plan_first_recomputed(plan);
    weft_status status = WEFT_OK;
    for (int way = 0; way < RECOMPUTE_COUNT; way++)
        TRY(try_recompute(plan, r, (enum recompute)way, 0, &best, &chosen));
    if (block)
        TRY(try_recompute(plan, r, RECOMPUTE_FULL, block, &best, &chosen));
    TRY(try_recompute(plan, r, RECOMPUTE_FULL, BLOCK_PRODUCTS, &best, &chosen));
    r->degrees.modules = plan_modules(plan);
    if (r->degrees.modules)
        TRY(try_recompute(plan, r, RECOMPUTE_SELECTIVE, 0, &best, &chosen));
    *r = chosen;
done:
    return status;
}

static void find_cuts(struct arena *keep, const struct plan *plan, struct recognised *r)
{
    struct plan *even = NULL;
    r->part_layers = NULL;
    if (r->degrees.pp != plan->stages)
        return;
    if (plan_from_degrees(plan->model, plan->cluster, &r->degrees, &even) != WEFT_OK) {
        error_clear();
        return;
    }
    bool same = !plan->cluster->pools; /* for which degrees cut unevenly, and frameworks do not */
    for (int32_t p = 0; p < plan->parts; p++)
        same &= plan->part[p].first == even->part[p].first;
    int64_t *cut, *layers = layers_of_parts(keep, plan);
    if (!same && cuts_after_layers(keep, plan, plan->parts, layers, &cut))
        r->part_layers = layers;
    plan_free(even);
}

/* ---- all together ---------------------------------------------------------------------------- */

static weft_status rebuild(const struct plan *plan, struct recognised *r)
{
    weft_status status = plan_of_degrees(plan->model, plan->cluster, &r->degrees, r->part_layers,
                                         r->block, &r->plan);
    if (status)
        return status;
    copy_settings(r->plan, plan);
    r->plan->dtype = r->degrees.dtype; /* these may have been mended */
    r->plan->policy = r->degrees.policy;
    r->plan->stage_run = r->degrees.stage_run;
    r->plan->group = r->degrees.group;
    r->plan->replicate = r->degrees.replicate;
    r->plan->optimizer = r->degrees.optimizer;
    r->plan->optimizer_offload = r->degrees.optimizer_offload;
    return WEFT_OK;
}

/* A schedule that cannot order these micro-batches is replaced by the target's usual one. */
static weft_status rebuild_nearest(const struct plan *plan, const struct target *target,
                                   struct recognised *r)
{
    weft_status status;
    TRY(rebuild(plan, r));
    if (plan_check(r->plan) == WEFT_OK)
        return WEFT_OK;
    error_clear();
    plan_free(r->plan);
    r->plan = NULL;
    r->degrees.pieces = 1;
    r->degrees.listed = NULL;
    r->degrees.schedule = target->can.schedules[0];
    r->part_layers = NULL;
    TRY(rebuild(plan, r));
    TRY(plan_check(r->plan));
done:
    return status;
}

weft_status recognise_plan(struct arena *keep, const struct plan *plan, struct recognised *out)
{
    struct recognised r = {0};
    weft_status status;
    TRY(find_splits(plan, &r.degrees));
    plan_settings(plan, &r.degrees);
    r.degrees.shard = most_common_shard(plan);
    r.degrees.offload = mostly_offloaded(plan);
    r.degrees.offload_modules = plan_offload_modules(plan);
    find_cuts(keep, plan, &r);
    TRY(find_recompute(plan, &r));
    TRY(rebuild(plan, &r));
    plan_differences(keep, plan, r.plan, &r.differences);
    *out = r;
    r.plan = NULL;
done:
    plan_free(r.plan);
    return status;
}

/* A row's order as lists of the same name; NULL: pairs that are executed as one, pieces that change halves, and gradients that go
 * when segments end are more than lists say. */
static const struct schedule *lists_of(struct arena *keep, const struct schedule *row,
                                       const struct pipeline *pipeline)
{
    struct schedule *out = NULL;
    if (row->passes == ORDER_PAIRED || row->both_ways || row->segmented)
        return NULL;
    const struct slot_lists *lists = schedule_lists(keep, row, pipeline);
    return schedule_of_lists(keep, row->name, row->name, lists, row->zigzag, &out) ? NULL : out;
}

/* What a target does not know by name it takes as lists, if it takes any. */
static const struct schedule *listed_for(struct arena *keep, const struct target *target,
                                         const struct plan *plan)
{
    struct pipeline pipeline = plan_pipeline(plan);
    const struct schedule *row = plan_row(plan);
    double slots = (double)pipeline.micro_batches * pipeline.stages * pipeline.pieces;
    if (!target->can.orders || plan->listed || plan->stages == 1 ||
        slots > limit_of(LIMIT_LISTED_SLOTS) || knows_schedule(target, plan->schedule) ||
        schedule_check(row, &pipeline) != WEFT_OK)
        return plan_own_order(plan);
    return lists_of(keep, row, &pipeline);
}

void hold_against(struct arena *keep, const struct target *target, const struct plan *plan,
                  struct recognised *r)
{
    struct texts choices = r->differences;
    struct degrees own;
    r->differences = (struct texts){0};
    if (model_has_tower(plan->model) && plan_degrees(plan, &own))
        r->degrees.encoder_pp = own.encoder_pp; /* which no lowering above has */
    if (r->degrees.pp == plan->stages)
        r->degrees.listed = listed_for(keep, target, plan);
    obey_rules(keep, target, plan, r);
    for (size_t i = 0; i < choices.len; i++)
        add_text(keep, &r->differences, choices.data[i]);
}

weft_status degrees_of_plan(struct arena *keep, const struct plan *plan,
                            const struct target *target, bool nearest, struct recognised *out)
{
    struct recognised r = {0};
    weft_status status;
    TRY(recognise_plan(keep, plan, &r));
    hold_against(keep, target, plan, &r);
    if (r.degrees.listed && !r.plan->listed)
        plan_order_by(r.plan, r.degrees.listed);
    if (nearest && r.differences.len) {
        plan_free(r.plan);
        r.plan = NULL;
        TRY(rebuild_nearest(plan, target, &r));
    }
    *out = r;
    r.plan = NULL;
done:
    plan_free(r.plan);
    return status;
}

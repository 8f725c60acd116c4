/* recognise.c - whether two plans are the same, and which degrees give a plan, if any do.
 *
 * Degrees lower every operator by the same dp, and with s devices per stage
 *
 *   dp * cp * tp = s,   micro-batch * dp = step_samples                                        (1)
 *
 *   I1  dp is the largest degree by which a plan splits its batch, ep the largest by which it
 *       splits experts: lowering does no more. What (1) leaves open is tried: cp, sequence
 *       parallelism, the way to recompute. Where experts are split, etp is what the largest split of
 *       their features says.
 *   I2  Degrees that are found give the same plan: the plans are compared, the equality is not
 *       inferred.
 */
#include <string.h>

#include "plan/plan.h"
#include "plan/room.h"
#include "schedule/schedule.h"

bool is_same_plan(const struct plan *a, const struct plan *b)
{
    bool same = a->stages == b->stages && a->parts == b->parts &&
                a->step_samples == b->step_samples && a->stage_run == b->stage_run &&
                a->defer_head == b->defer_head && strcmp(a->schedule, b->schedule) == 0 &&
                plan_round(a) == plan_round(b);
    for (int32_t s = 0; same && s < a->stages; s++)
        same = a->stage[s].devices == b->stage[s].devices;
    for (int32_t k = 0; same && k < a->parts; k++)
        same = a->part[k].first == b->part[k].first;
    for (int64_t i = 0; same && i < a->instances; i++)
        same = choice_equal(plan_choice(a, i), plan_choice(b, i));
    return same;
}

/* ---- degrees --------------------------------------------------------------------------------- */

/* The largest degree by which any instance outside of an encoder is split along a dim. */
static int64_t widest(const struct plan *plan, enum dim dim)
{
    int64_t most = 1;
    for (int64_t i = tower_end(plan); i < plan->instances; i++) {
        int64_t degree = split_degree(&plan_choice(plan, i)->split, dim);
        most = degree > most ? degree : most;
    }
    return most;
}

int64_t plan_expert_tp(const struct plan *plan)
{
    int64_t most = 0;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        const struct split *split = &plan_choice(plan, i)->split;
        int64_t degree = split_degree(split, DIM_OUT) * split_degree(split, DIM_IN);
        if (op->kind == OP_EXPERT_LINEAR && degree > most)
            most = degree;
    }
    return most;
}

void plan_settings(const struct plan *plan, struct degrees *d)
{
    d->has_dtype = d->has_policy = d->has_overlap = d->has_bucket = true;
    d->has_shard = d->has_recompute = true;
    d->dtype = plan->dtype;
    d->policy = plan->policy;
    d->software = plan->software;
    d->optimizer = plan->optimizer;
    d->replicate = plan->replicate;
    d->optimizer_offload = plan->optimizer_offload;
    d->stage_run = plan->stage_run;
    d->group = plan->group;
    d->memory = plan->memory;
    d->overlap = plan->overlap;
    d->bucket_bytes = plan->bucket_bytes;
    d->whole_sends = plan->whole_sends;
    d->defer_head = plan->defer_head;
}

/* The degrees that (1) determines. */
static struct degrees begin(const struct plan *plan, bool *recomputes)
{
    struct degrees d = {.dp = widest(plan, DIM_BATCH),
                        .pp = plan->stages - tower_stages(plan),
                        .encoder_pp = tower_stages(plan),
                        .ep = widest(plan, DIM_EXPERT),
                        .pieces = plan->pieces,
                        .global_batch = plan->global_batch,
                        .schedule = plan->schedule,
                        .listed = plan_own_order(plan),
                        .shard = plan_choice(plan, 0)->shard};
    d.segments = plan_row(plan)->segmented ? plan->pieces : 1;
    d.micro_batch = plan->step_samples / d.dp;
    *recomputes = false;
    for (int64_t i = 0; i < plan->instances; i++) {
        d.offload |= plan_choice(plan, i)->offload == OFFLOAD_CHECKPOINTS;
        *recomputes |= plan_choice(plan, i)->recompute;
    }
    d.offload_modules = plan_offload_modules(plan);
    plan_settings(plan, &d);
    tower_degrees(plan, &d);
    return d;
}

static bool is_one_shard(const struct plan *plan)
{
    for (int64_t i = 1; i < plan->instances; i++)
        if (plan_choice(plan, i)->shard != plan_choice(plan, 0)->shard)
            return false;
    return true;
}

/* I2; choices are compared first, because a difference there is found quickly. */
static bool gives(const struct plan *plan, const struct degrees *d, struct arena *scratch)
{
    struct choice *choice;
    struct plan *other = NULL;
    bool same = order_text(d) && lower_degrees(plan->model, d, scratch, &choice) == WEFT_OK;
    for (int64_t i = 0; same && !d->recompute_layers && i < plan->instances; i++)
        same = choice_equal(plan_choice(plan, i), &choice[plan->instance[i].op]);
    same = same && plan_from_degrees(plan->model, plan->cluster, d, &other) == WEFT_OK &&
           is_same_plan(plan, other);
    plan_free(other);
    error_clear();
    return same;
}

/* Tries the possible ways to recompute. */
static bool gives_recomputed(const struct plan *plan, struct degrees *d, bool recomputes,
                             struct arena *scratch)
{
    int first = recomputes ? RECOMPUTE_NONE + 1 : RECOMPUTE_NONE;
    int last = recomputes ? RECOMPUTE_COUNT - 1 : RECOMPUTE_NONE;
    for (int way = first; way <= last; way++) {
        d->recompute = (enum recompute)way;
        if (gives(plan, d, scratch))
            return true;
    }
    d->recompute = RECOMPUTE_FULL;
    d->recompute_layers = recomputes ? plan_first_recomputed(plan) : 0;
    if (d->recompute_layers && gives(plan, d, scratch))
        return true;
    d->recompute_layers = 0;
    d->recompute = RECOMPUTE_SELECTIVE;
    d->modules = recomputes ? plan_modules(plan) : 0;
    if (d->modules && gives(plan, d, scratch))
        return true;
    d->modules = 0;
    return false;
}

int64_t plan_cp_heads(const struct plan *plan, int64_t cp)
{
    for (int64_t i = tower_end(plan); i < plan->instances; i++) {
        int64_t parts = split_degree(&plan_choice(plan, i)->split, DIM_SEQ);
        if (plan->model->op[plan->instance[i].op].kind == OP_ATTENTION)
            return parts < cp && cp % parts == 0 ? cp / parts : 0;
    }
    return 0;
}

bool plan_degrees(const struct plan *plan, struct degrees *out)
{
    bool recomputes, found = false;
    *out = begin(plan, &recomputes);
    int64_t group = plan->stage[plan->stages - 1].devices, rest = group / out->dp;
    int64_t own = out->encoder_pp * plan->stage[0].devices;
    if (!is_one_shard(plan) || out->dp * rest * out->pp + own != cluster_devices(plan->cluster) ||
        plan->step_samples % out->dp)
        return false;
    int64_t expert_tp = plan_expert_tp(plan), encoder_tp = out->encoder_tp;
    struct arena *scratch = arena_new();
    int64_t most_cp = widest(plan, DIM_SEQ);
    for (out->cp = 1; out->cp <= most_cp && !found; out->cp += !found) {
        out->tp = rest / out->cp;
        out->cp_heads = plan_cp_heads(plan, out->cp);
        out->etp = expert_tp == out->tp ? 0 : expert_tp;
        out->encoder_tp = encoder_usual_tp(plan->model, out->tp) == encoder_tp ? 0 : encoder_tp;
        int most_along = out->tp > 1 ? 1 : 0;
        for (int along = 0; rest % out->cp == 0 && along <= most_along && !found; along++) {
            out->sequence = along;
            found = gives_recomputed(plan, out, recomputes, scratch);
        }
    }
    arena_free(scratch);
    return found;
}

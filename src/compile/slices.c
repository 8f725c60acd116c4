/* slices.c - how much of a piece's gradients a folded schedule leaves to the next iteration.
 *
 * A folded schedule (aiao) synchronises the gradients of each piece k but the first in two slices: one after its last
 * backward slot, beside the backward slots of piece k - 1, and one in the next iteration, beside the forward slots of piece
 * k - 1 (Fold3D, section 4, Algorithm 2). Each slice has a share of the bytes in proportion to what hides it:
 *
 *   left = bytes * F / (F + B)                                                                 (1)
 *
 * with the predicted times F and B of a forward and of a backward slot of piece k - 1 on the same stage, recomputation
 * included: operators by the formula of the device, steps by their collectives alone.
 *
 *   I1  The times follow from the plan alone, not from measurements that one machine may have and another not: the
 *       simulator and every rank of a run divide alike.
 *   I2  Nothing is left of a bucket whose gradients are synchronised with every micro-batch (shard 2 and 3), whose weights
 *       are gathered at the end of the iteration, or that has a tied weight: its owner is in the first piece, which waits
 *       for the sum. A tied weight has a bucket of its own where slices are left, so that the others of its part are not
 *       held back (buckets.c).
 *   I3  Nothing is left at all where the norm of all gradients is needed before the first weight changes
 *       (compile_options.norm, FACT_CLIPPING).
 *   I4  Nothing is left where piece k - 1 is frozen and has no backward slots: a bucket has a slice in its own iteration.
 */
#include "compile/build.h"

struct step_time {
    int32_t pattern, collective;
    int64_t bytes, ns;
};

struct pass_timer {
    const struct build *b;
    const struct device *device;
    const struct calibration *calibration;
    ARRAY(struct step_time) known;
};

bool leaves_slices(const struct build *b, int32_t part)
{
    const struct plan *plan = b->plan;
    bool norm = b->norm || software_word(&plan->software, FACT_CLIPPING) == CLIPPING_NORM; /* I3 */
    return plan_row(plan)->segmented && (plan->overlap & OVERLAP_GRADIENTS) && !norm &&
           part >= plan->stages && part < plan->parts;
}

/* ---- the time of a slot (1) ------------------------------------------------------------------ */

static int64_t op_ns(const struct pass_timer *t, const struct item *item)
{
    const struct plan *plan = t->b->plan;
    const struct laid *laid = laid_of(t->b, item->instance);
    enum dtype dtype = op_dtype(plan->model, plan->instance[item->instance].op, plan->dtype);
    const int64_t *local = item->phase == PHASE_FORWARD ? laid->local : laid->back;
    struct work work = op_work(laid->op, local, dtype, (enum phase)item->phase);
    bool any = work.flops > 0 || work.read_bytes + work.write_bytes > 0;
    return any ? analytic_device_ns(t->device, t->calibration, &work) : 0;
}

static weft_status find_step(struct pass_timer *t, const struct item *item, int64_t *out)
{
    int32_t collective = (int32_t)item->step->kind;
    for (size_t i = 0; i < t->known.len; i++) {
        const struct step_time *k = &t->known.data[i];
        if (k->pattern == item->pattern && k->collective == collective && k->bytes == item->bytes) {
            *out = k->ns;
            return WEFT_OK;
        }
    }
    struct group group = pattern_group_at(&t->b->patterns.data[item->pattern], 0);
    struct collective_cost cost = {0};
    weft_status status;
    TRY(collective_time(t->b->plan->cluster, (enum collective)collective, &group, item->bytes,
                        &cost));
    struct step_time found = {item->pattern, collective, item->bytes, cost.ns};
    array_push(t->b->scratch, &t->known, found);
    *out = cost.ns;
done:
    return status;
}

/* Chunks of a product are hidden by the product itself. */
static weft_status add_block(struct pass_timer *t, int32_t block, int64_t *sum)
{
    weft_status status = WEFT_OK;
    for (int32_t i = 0; block >= 0 && i < t->b->blocks.data[block].items; i++) {
        const struct item *item = &t->b->blocks.data[block].item[i];
        int64_t ns = 0;
        if (item_runs(item))
            ns = op_ns(t, item);
        else if (item->kind == ITEM_STEP && item->pattern >= 0 && item->chunks == 0)
            TRY(find_step(t, item, &ns));
        *sum += ns;
    }
done:
    return status;
}

static weft_status slot_times_of(struct pass_timer *t, int32_t part, int64_t *forward,
                                 int64_t *backward)
{
    weft_status status;
    *forward = *backward = 0;
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        TRY(add_block(t, t->b->block_of[kind][part], kind == SLOT_FORWARD ? forward : backward));
done:
    return status;
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* Whether an instance's weight is used by another operator, too. */
bool has_tied_weight(const struct build *b, int64_t instance)
{
    const struct model *model = b->plan->model;
    const struct op *op = laid_of(b, instance)->op;
    bool tied = op->weight[0].tied_op >= 0;
    for (int32_t k = 0; k < model->ops && !tied; k++)
        tied = model->op[k].weights && model->op[k].weight[0].tied_op == op - model->op;
    return tied;
}

static bool may_leave(const struct build *b, const struct bucket *bucket)
{
    bool gathered = bucket->shard && !(b->plan->overlap & OVERLAP_PARAMETERS);
    return bucket->pattern >= 0 && bucket->shard < 2 && !gathered && !bucket->tied; /* I2 */
}

static weft_status divide_part(struct pass_timer *t, struct build *b, int32_t part)
{
    int64_t forward, backward;
    weft_status status;
    TRY(slot_times_of(t, part - b->plan->stages, &forward, &backward));
    double share = backward > 0 ? (double)forward / (double)(forward + backward) : 0; /* (1), I4 */
    for (int32_t i = b->first_bucket[part]; i < b->first_bucket[part + 1]; i++) {
        struct bucket *bucket = &b->buckets.data[i];
        if (may_leave(b, bucket))
            bucket->left = (int64_t)((double)bucket->bytes * share);
    }
done:
    return status;
}

weft_status divide_synchronisation(struct build *b)
{
    const struct plan *plan = b->plan;
    struct pass_timer t = {0};
    weft_status status = WEFT_OK;
    for (int32_t part = plan->stages; part < plan->parts && leaves_slices(b, part); part++) {
        const struct device *device = plan_stage_device(plan, plan_stage_of_part(plan, part));
        if (t.device != device)
            t = (struct pass_timer){b, device, calibration_for(device), {0}};
        TRY(divide_part(&t, b, part));
    }
done:
    return status;
}

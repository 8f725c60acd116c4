/* buckets.c - weights whose gradients are synchronised together, and that are gathered together.
 *
 * A weight's gradient on one device is a partial sum over the devices that differ in a split dim
 * which the weight lacks (batch, sequence). Gradients with equal groups share buckets, filled in
 * the order of the backward pass:
 *
 *   shard 0      all-reduce over the digits that leave partial sums                            (1)
 *   shard 1 - 3  reduce-scatter over all digits that do not split the weight, copies included  (2)
 *                with plan->replicate, over the inner ones; then, once an iteration, all-reduce of the
 *                shares over the outer ones                                                    (3)
 *
 *   I1  A bucket is full at plan_bucket_bytes (0: never), and ends with its part.
 *   I2  With shard 3 a bucket is a layer, which is gathered, used and released together. What comes
 *       before, between or after layers is a bucket of its own.
 *   I3  A weight whose gradient is whole on its device has pattern -1: nothing to synchronise.
 *   I4  A tied weight is in its owner's bucket if both have the same layout in the same part.
 *       Otherwise its user has a copy of it, with a bucket, an optimizer's step and gathers of its
 *       own, and the gradients of both are added up (ties.c).
 *   I5  Where weights of fp8 are gathered as they were cast, all others join the last bucket, the one of the first layer
 *       (Megatron-LM's distributed/param_and_grad_buffer.py, partition_buckets): gradients of embedding and head wait
 *       for the whole backward pass, and both are gathered before the first layer.
 */
#include "compile/build.h"

#include <string.h>

struct step_groups sync_groups(const struct layout *gradient, bool copies)
{
    struct step_groups out = {0};
    int64_t stride = layout_devices(gradient);
    for (int64_t i = 0; i < gradient->digits; i++) {
        const struct layout_digit *digit = &gradient->digit[i];
        int64_t outside = stride;
        stride /= digit->degree;
        if (digit->hold != HOLD_PARTIAL && !(copies && digit->hold == HOLD_COPY))
            continue;
        if (out.digits && out.stride[out.digits - 1] == outside) {
            out.degree[out.digits - 1] *= digit->degree;
            out.stride[out.digits - 1] = stride;
            continue;
        }
        out.stride[out.digits] = stride;
        out.degree[out.digits++] = digit->degree;
    }
    return out;
}

static int64_t groups_devices(const struct step_groups *groups)
{
    int64_t devices = 1;
    for (int64_t i = 0; i < groups->digits; i++)
        devices *= groups->degree[i];
    return devices;
}

static void push_digit(struct step_groups *groups, int64_t stride, int64_t degree)
{
    if (degree == 1)
        return;
    groups->stride[groups->digits] = stride;
    groups->degree[groups->digits++] = degree;
}

/* Divides groups into as many, outermost first; returns those across them, and leaves those within. */
static struct step_groups divide_groups(struct step_groups *groups, int64_t replicate)
{
    int64_t left = share_groups(groups_devices(groups), replicate);
    struct step_groups across = {0}, within = {0};
    for (int64_t i = 0; i < groups->digits; i++) {
        int64_t outer = share_groups(groups->degree[i], left), inner = groups->degree[i] / outer;
        push_digit(&across, groups->stride[i] * inner, outer);
        push_digit(&within, groups->stride[i], inner);
        left /= outer;
    }
    *groups = within;
    return across;
}

/* ---- tied weights (I4) ----------------------------------------------------------------------- */

int64_t owner_of(const struct build *b, int64_t instance)
{
    const struct op *op = laid_of(b, instance)->op;
    int32_t tied = op->weights ? op->weight[0].tied_op : -1;
    return tied < 0 ? instance : b->index.at[b->index.first[tied]];
}

struct layout weight_layout(const struct build *b, int64_t instance, enum flow flow)
{
    const struct laid *laid = laid_of(b, instance);
    return layout_of(laid->op, &laid->op->weight[0].operand,
                     choice_split(laid->choice, flow == FLOW_GRADIENT),
                     plan_samples(b->plan, laid->choice), flow);
}

bool holds_weights(const struct build *b, int64_t instance)
{
    int64_t owner = owner_of(b, instance);
    if (laid_of(b, instance)->op->weights == 0)
        return false;
    return owner == instance || b->part_of[owner] != b->part_of[instance] ||
           !plan_weights_alike(b->plan, owner, instance);
}

static double parameters_of(const struct build *b, int64_t instance)
{
    const struct laid *laid = laid_of(b, instance);
    double parameters = 0;
    for (int32_t i = 0; i < laid->op->weights; i++)
        parameters += operand_elements(laid->op, &laid->op->weight[i].operand, laid->local);
    return parameters;
}

int64_t gradient_bytes(const struct build *b, int64_t instance)
{
    int64_t owner = owner_of(b, instance);
    const struct laid *laid = laid_of(b, owner);
    struct op_memory memory =
        op_memory(b->plan->model, laid->op, laid->local, b->plan->dtype, b->plan->policy, 1);
    return (int64_t)(memory.gradients / parameters_of(b, owner) * parameters_of(b, instance));
}

/* ---- filling --------------------------------------------------------------------------------- */

static int32_t intern_groups(struct build *b, int32_t stage, struct device_run run,
                             const struct step_groups *groups)
{
    return groups->digits ? intern_digits(b, stage, run, (int32_t)groups->digits, groups->stride,
                                          groups->degree)
                          : -1;
}

/* A bucket of one instance alone, which is full at `most` bytes. */
static struct bucket bucket_of_one(struct build *b, int64_t instance, int64_t most)
{
    const struct plan *plan = b->plan;
    const struct laid *laid = laid_of(b, instance);
    struct layout gradient = weight_layout(b, instance, FLOW_GRADIENT);
    struct step_groups digits = sync_groups(&gradient, laid->choice->shard > 0), across = {0};
    int64_t summed = groups_devices(&digits);
    if (laid->choice->shard > 0)
        across = divide_groups(&digits, plan->replicate);
    if (!digits.digits) { /* nothing is left to divide */
        digits = across;
        across = (struct step_groups){0};
    }
    bool divided = laid->choice->shard && groups_devices(&digits) > 1 &&
                   (across.digits || share_groups(summed, plan->replicate) == 1);
    int64_t parameters = (int64_t)parameters_of(b, instance);
    int32_t part = b->part_of[instance];
    struct device_run run = split_run(&laid->choice->split);
    return (struct bucket){
        .part = part,
        .bytes = gradient_bytes(b, instance),
        .parameters = laid->op->frozen ? 0 : parameters,
        .first = instance,
        .last = instance,
        .pattern = intern_groups(b, stage_of_part(b, part), run, &digits), /* I3 */
        .across = intern_groups(b, stage_of_part(b, part), run, &across),
        .run = run,
        .shard = divided ? laid->choice->shard : 0,
        /* what is never updated is gathered only where it never stays whole */
        .gather_bytes = laid->op->frozen && laid->choice->shard < 3
                            ? 0
                            : parameters * plan_gather_bytes(plan, plan->instance[instance].op),
        .most = most,
        .tied = leaves_slices(b, part) && has_tied_weight(b, instance), /* slices.c, I2 */
    };
}

static bool in_layer(const struct plan *plan, int64_t instance)
{
    return op_in_layer(plan->model, &plan->model->op[plan->instance[instance].op]);
}

/* I2: whether two instances belong to the same unit: no layer ends between them, and none begins
 * after instances outside of layers. */
static bool same_unit(const struct plan *plan, int64_t low, int64_t high)
{
    for (int64_t i = low; i < high; i++)
        if (plan->ends_layer[i])
            return false;
    return in_layer(plan, low) == in_layer(plan, high);
}

static bool goes_alike(const struct bucket *a, const struct bucket *b)
{
    return a->pattern == b->pattern && a->across == b->across && a->shard == b->shard &&
           a->tied == b->tied && a->run.first == b->run.first && a->run.devices == b->run.devices;
}

static bool has_room(const struct plan *plan, const struct bucket *bucket, const struct bucket *one)
{
    if (one->shard == 3)
        return same_unit(plan, one->first, bucket->first); /* I2 */
    return bucket->most == 0 || bucket->bytes < bucket->most;
}

/* The latest bucket of this part that goes alike, or -1. */
static int32_t find_alike(const struct build *b, const struct bucket *one)
{
    for (int32_t i = (int32_t)b->buckets.len - 1; i >= b->first_bucket[one->part]; i--)
        if (goes_alike(&b->buckets.data[i], one))
            return i;
    return -1;
}

static void put(struct build *b, const struct bucket *one, bool joins)
{
    int32_t i = find_alike(b, one);
    if (i < 0 || !(joins || has_room(b->plan, &b->buckets.data[i], one))) {
        i = (int32_t)b->buckets.len;
        array_push(b->keep, &b->buckets, *one);
    } else {
        struct bucket *bucket = &b->buckets.data[i];
        bucket->bytes += one->bytes;
        bucket->parameters += one->parameters;
        bucket->gather_bytes += one->gather_bytes;
        bucket->first = one->first < bucket->first ? one->first : bucket->first;
    }
    b->bucket_of[one->first] = i;
}

int64_t bucket_shares(const struct build *b, const struct bucket *bucket)
{
    int64_t shares = 1;
    for (int32_t k = 0; bucket->shard && k < b->patterns.data[bucket->pattern].digits; k++)
        shares *= b->patterns.data[bucket->pattern].degree[k];
    return shares;
}

int64_t share_bytes(const struct build *b, const struct bucket *bucket, int64_t bytes)
{
    return ceil_div(bytes, bucket_shares(b, bucket));
}

int64_t weight_shares(const struct build *b, int64_t instance)
{
    struct layout layout = weight_layout(b, instance, FLOW_GRADIENT);
    int64_t replicas = layout_run(&layout).devices / (layout.elements / layout_local(&layout));
    bool sharded = laid_of(b, instance)->choice->shard > 0;
    return sharded ? replicas / share_groups(replicas, b->plan->replicate) : 1;
}

/* ---- the items that read and complete buckets ------------------------------------------------ */

/* A bucket with weights whose gradients wait is complete after these (blocks.c, I12). */
static void leave_deferred(const struct build *b, struct block *block)
{
    const struct part *part = &b->plan->part[block->part];
    if (block->kind != SLOT_BACKWARD_INPUT || !b->plan->defer_head)
        return;
    for (int64_t i = part->first; i < part->first + part->count; i++)
        if (b->bucket_of[i] >= 0 && plan_defers(b->plan, i))
            block->completes[b->bucket_of[i] - block->first_bucket] = -1;
}

static void note_items(struct build *b, struct block *block)
{
    block->first_bucket = b->first_bucket[block->part];
    block->buckets = b->first_bucket[block->part + 1] - block->first_bucket;
    block->reads = ARENA_ARRAY(b->keep, int32_t, (size_t)block->buckets);
    block->completes = ARENA_ARRAY(b->keep, int32_t, (size_t)block->buckets);
    memset(block->reads, -1, (size_t)block->buckets * sizeof(int32_t));
    memset(block->completes, -1, (size_t)block->buckets * sizeof(int32_t));
    for (int32_t i = 0; i < block->items; i++) {
        const struct item *item = &block->item[i];
        int32_t bucket = item->kind == ITEM_OP ? b->bucket_of[item->instance] : -1;
        if (bucket < 0)
            continue;
        bucket -= block->first_bucket;
        if (block->reads[bucket] < 0)
            block->reads[bucket] = i;
        if (item->phase == PHASE_BACKWARD_WEIGHT)
            block->completes[bucket] = i;
    }
    leave_deferred(b, block);
}

/* I5. */
static bool gathers_cast(const struct build *b, const struct part *part)
{
    for (int64_t i = part->first; i < part->first + part->count; i++)
        if (holds_weights(b, i) && plan_gathers_cast(b->plan, b->plan->instance[i].op))
            return true;
    return false;
}

static bool may_join(const struct build *b, int64_t instance)
{
    return laid_of(b, instance)->choice->shard < 3 &&
           !plan_gathers_cast(b->plan, b->plan->instance[instance].op);
}

/* The weights of a part, the last first: those that join a bucket, or the others. */
static void fill_buckets(struct build *b, const struct part *part, int64_t most, bool joining)
{
    bool join = gathers_cast(b, part);
    for (int64_t i = part->first + part->count - 1; i >= part->first; i--) {
        if (!holds_weights(b, i) || (join && may_join(b, i)) != joining)
            continue;
        struct bucket one = bucket_of_one(b, i, most);
        put(b, &one, joining);
    }
}

void build_buckets(struct build *b)
{
    const struct plan *plan = b->plan;
    b->bucket_of = ARENA_ARRAY(b->keep, int32_t, (size_t)plan->instances);
    memset(b->bucket_of, -1, (size_t)plan->instances * sizeof *b->bucket_of);
    b->first_bucket = ARENA_ARRAY(b->scratch, int32_t, (size_t)plan->parts + 1);
    int64_t most = plan_bucket_bytes(plan, plan_replicas(plan));
    for (int32_t part = 0; part < plan->parts; part++) {
        const struct part *range = &plan->part[part];
        b->first_bucket[part] = (int32_t)b->buckets.len;
        fill_buckets(b, range, most, false);
        fill_buckets(b, range, most, true);
        for (int64_t i = range->first; i < range->first + range->count; i++)
            if (laid_of(b, i)->op->weights && !holds_weights(b, i))
                b->bucket_of[i] = b->bucket_of[owner_of(b, i)];
    }
    b->first_bucket[plan->parts] = (int32_t)b->buckets.len;
    for (size_t i = 0; i < b->blocks.len; i++)
        note_items(b, &b->blocks.data[i]);
}

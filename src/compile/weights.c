/* weights.c - which bucket a weight is in, from the layout of its gradient on each device.
 *
 * A gradient is summed over the digits of its layout that are partial; if state is sharded, over
 * all digits that do not split it, since those devices share the state:
 *
 *   I1  Each instance with weights of its own is in exactly one bucket of its part, whose pattern
 *       has these digits; all its weights are sums over the same devices.
 *   I2  A bucket has the bytes of its instances, before any sharding.
 *   I3  A tied weight belongs to its owner if it has the same layout in the same part; otherwise it
 *       is a copy, with a bucket of its own.
 */
#include "compile/proof.h"

#include <string.h>

/* The layout of an instance's first weight, which is the one that may be tied. */
static struct layout first_weight(const struct proof *p, const struct fact *at, enum flow flow)
{
    return layout_of(at->op, &at->op->weight[0].operand, &at->choice->split, p->plan->step_samples,
                     flow);
}

bool is_copy(const struct proof *p, int64_t instance)
{
    const struct fact *at = &p->fact[instance], *owner = &p->fact[at->owner];
    if (at == owner || at->part != owner->part || at->choice->shard != owner->choice->shard)
        return at != owner;
    struct layout a = first_weight(p, at, FLOW_FORWARD), b = first_weight(p, owner, FLOW_FORWARD);
    struct layout c = first_weight(p, at, FLOW_GRADIENT), d = first_weight(p, owner, FLOW_GRADIENT);
    return !layout_equal(&a, &b) || !layout_equal(&c, &d);
}

struct digits {
    int32_t count;
    struct {
        int64_t stride, degree;
    } digit[MAX_LAYOUT_DIGITS]; /* outermost first */
};

static struct digits sum_digits(const struct proof *p, const struct fact *at, int32_t weight,
                                bool copies)
{
    struct layout layout = layout_of(at->op, &at->op->weight[weight].operand, &at->choice->split,
                                     p->plan->step_samples, FLOW_GRADIENT);
    struct digits out = {0};
    int64_t stride = layout_devices(&layout);
    for (int64_t i = 0; i < layout.digits; i++) {
        int64_t hold = layout.digit[i].hold;
        stride /= layout.digit[i].degree;
        if (hold != HOLD_PARTIAL && !(copies && hold == HOLD_COPY))
            continue;
        out.digit[out.count].stride = stride;
        out.digit[out.count++].degree = layout.digit[i].degree;
    }
    return out;
}

/* Whether two lists of digits describe the same devices: merging digits does not matter. */
static bool same_devices(const struct digits *digits, const struct pattern *pattern)
{
    for (int64_t device = 0; device < pattern->devices; device++) {
        bool zero = true, pattern_zero = true;
        for (int32_t i = 0; i < digits->count; i++)
            zero &= device / digits->digit[i].stride % digits->digit[i].degree == 0;
        for (int32_t i = 0; i < pattern->digits; i++)
            pattern_zero &= device / pattern->stride[i] % pattern->degree[i] == 0;
        if (zero != pattern_zero)
            return false;
    }
    return true;
}

static bool fits(const struct proof *p, const struct fact *at, const struct bucket *bucket)
{
    struct digits digits = sum_digits(p, at, 0, at->choice->shard > 0);
    if (bucket->shard != (digits.count ? at->choice->shard : 0))
        return false;
    if (digits.count == 0 || bucket->pattern < 0)
        return digits.count == 0 && bucket->pattern < 0;
    return same_devices(&digits, &p->graph->pattern[bucket->pattern]);
}

static bool same_digits(const struct digits *a, const struct digits *b)
{
    bool same = a->count == b->count;
    for (int32_t i = 0; same && i < a->count; i++)
        same = a->digit[i].stride == b->digit[i].stride && a->digit[i].degree == b->digit[i].degree;
    return same;
}

/* I1: the weights of one instance agree. */
static bool weights_agree(const struct proof *p, const struct fact *at)
{
    struct digits first = sum_digits(p, at, 0, false);
    for (int32_t i = 1; i < at->op->weights; i++) {
        struct digits other = sum_digits(p, at, i, false);
        if (!same_digits(&first, &other))
            return false;
    }
    return true;
}

/* Computed as for its owner, from the parameters: op_memory does not count a copy. */
static int64_t bytes_of(const struct proof *p, const struct fact *at)
{
    const struct fact *owner = &p->fact[at->owner];
    const struct fact *both[] = {at, owner};
    double parameters[] = {0, 0};
    int64_t local[OP_MAX_DIMS];
    for (size_t k = 0; k < COUNT_OF(both); k++) {
        split_local(both[k]->op, &both[k]->choice->split, p->plan->step_samples, local);
        for (int32_t i = 0; i < both[k]->op->weights; i++)
            parameters[k] += operand_elements(both[k]->op, &both[k]->op->weight[i].operand, local);
    }
    struct op_memory memory =
        op_memory(p->model, owner->op, local, p->plan->dtype, p->plan->policy, 1);
    return (int64_t)(memory.gradients / parameters[1] * parameters[0]);
}

static weft_status find_bucket(struct proof *p, int64_t instance, int64_t *bytes)
{
    struct fact *at = &p->fact[instance];
    const char *path = plan_path(p->arena, p->plan, instance);
    int32_t found = 0;
    for (int32_t i = 0; i < p->graph->buckets; i++) {
        const struct bucket *bucket = &p->graph->bucket[i];
        if (bucket->part != at->part || instance < bucket->first || instance > bucket->last ||
            !fits(p, at, bucket))
            continue;
        at->bucket = i;
        found++;
    }
    if (found != 1)
        return failure("%s: its weights are in %d buckets, expected one", path, found);
    if (!weights_agree(p, at))
        return failure("%s: its weights' gradients are sums over different devices", path);
    bytes[at->bucket] += bytes_of(p, at);
    return WEFT_OK;
}

weft_status find_buckets(struct proof *p)
{
    int64_t *bytes = ARENA_ARRAY(p->arena, int64_t, (size_t)p->graph->buckets);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < p->plan->instances; i++)
        if (p->fact[i].op->weights && (p->fact[i].owner == i || is_copy(p, i)))
            TRY(find_bucket(p, i, bytes));
    for (int64_t i = 0; i < p->plan->instances; i++)
        if (p->fact[i].op->weights && p->fact[i].bucket < 0)
            p->fact[i].bucket = p->fact[p->fact[i].owner].bucket;
    for (int32_t i = 0; i < p->graph->buckets; i++) /* I2 */
        if (bytes[i] != p->graph->bucket[i].bytes)
            TRY(failure("bucket %d has %lld bytes, its weights' gradients %lld", i,
                        (long long)p->graph->bucket[i].bytes, (long long)bytes[i]));
done:
    return status;
}

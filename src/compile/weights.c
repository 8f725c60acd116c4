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
 *   I4  Where slices of gradients are left to the next iteration (slices.c), what is tied shares no bucket with what is not.
 */
#include "compile/proof.h"

#include <string.h>

/* The layout of an instance's first weight, which is the one that may be tied. */
static struct layout first_weight(const struct proof *p, const struct fact *at, enum flow flow)
{
    return layout_of(at->op, &at->op->weight[0].operand,
                     choice_split(at->choice, flow == FLOW_GRADIENT),
                     plan_samples(p->plan, at->choice), flow);
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
    struct layout layout =
        layout_of(at->op, &at->op->weight[weight].operand, choice_split(at->choice, true),
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

/* Whether a device has 0 in all digits of a pattern; NULL: that has none. */
static bool is_zero(const struct pattern *pattern, int64_t device)
{
    bool zero = true;
    for (int32_t i = 0; pattern && i < pattern->digits; i++)
        zero &= device / pattern->stride[i] % pattern->degree[i] == 0;
    return zero;
}

/* Whether digits describe the same devices as two patterns do: merging digits does not matter. */
static bool same_devices(const struct digits *digits, const struct pattern *pattern,
                         const struct pattern *across)
{
    for (int64_t device = 0; device < pattern->devices; device++) {
        bool zero = true;
        for (int32_t i = 0; i < digits->count; i++)
            zero &= device / digits->digit[i].stride % digits->digit[i].degree == 0;
        if (zero != (is_zero(pattern, device) && is_zero(across, device)))
            return false;
    }
    return true;
}

static int64_t pattern_members(const struct pattern *pattern)
{
    int64_t members = 1;
    for (int32_t i = 0; i < pattern->digits; i++)
        members *= pattern->degree[i];
    return members;
}

bool shares_are(const struct graph *graph, const struct bucket *bucket, int64_t bytes)
{
    int64_t shares = bucket->shard ? pattern_members(&graph->pattern[bucket->pattern]) : 1;
    int64_t expected = bucket->across >= 0 ? ceil_div(bucket->bytes, shares) : 0;
    return bytes >= expected && bytes <= expected + (expected > 0);
}

/* The sharding that is left where state is copied across groups of replicas: none in a group of one. */
static int shard_left(const struct proof *p, const struct fact *at, const struct digits *digits)
{
    int64_t replicas = 1;
    for (int32_t i = 0; i < digits->count; i++)
        replicas *= digits->digit[i].degree;
    return replicas > share_groups(replicas, p->plan->replicate) ? at->choice->shard : 0;
}

static bool fits(const struct proof *p, const struct fact *at, const struct bucket *bucket)
{
    struct digits digits = sum_digits(p, at, 0, at->choice->shard > 0);
    const struct pattern *across = bucket->across >= 0 ? &p->graph->pattern[bucket->across] : NULL;
    struct device_run run = split_run(&at->choice->split);
    if (bucket->shard != shard_left(p, at, &digits) || bucket->run.first != run.first ||
        bucket->run.devices != run.devices)
        return false;
    if (digits.count == 0 || bucket->pattern < 0)
        return digits.count == 0 && bucket->pattern < 0;
    const struct pattern *pattern = &p->graph->pattern[bucket->pattern];
    int64_t groups =
        bucket->shard
            ? share_groups(pattern_members(pattern) * (across ? pattern_members(across) : 1),
                           p->plan->replicate)
            : 1;
    return same_devices(&digits, pattern, across) &&
           groups == (across ? pattern_members(across) : 1);
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

/* I4: whether a tied weight of this part has a bucket of its own. */
static bool keeps_tied_apart(const struct proof *p, int32_t part)
{
    for (int32_t i = 0; i < p->graph->buckets; i++)
        if (p->graph->bucket[i].part == part && p->graph->bucket[i].tied)
            return true;
    return false;
}

static bool is_tied(const struct proof *p, int64_t instance)
{
    bool tied = p->fact[instance].owner != instance;
    for (int64_t i = 0; i < p->plan->instances && !tied; i++)
        tied = i != instance && p->fact[i].owner == instance;
    return tied;
}

static weft_status find_bucket(struct proof *p, int64_t instance, int64_t *bytes)
{
    struct fact *at = &p->fact[instance];
    const char *path = plan_path(p->arena, p->plan, instance);
    int32_t found = 0;
    bool apart = keeps_tied_apart(p, at->part) && is_tied(p, instance);
    for (int32_t i = 0; i < p->graph->buckets; i++) {
        const struct bucket *bucket = &p->graph->bucket[i];
        if (bucket->part != at->part || instance < bucket->first || instance > bucket->last ||
            !fits(p, at, bucket) || bucket->tied != apart)
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

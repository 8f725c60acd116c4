/* intern.c - patterns and exchanges, each stored once.
 *
 *   I1  Equal patterns have equal numbers, and so have equal exchanges: costs are found once per
 *       number, not once per task.
 */
#include "compile/build.h"

/* ---- patterns -------------------------------------------------------------------------------- */

static uint64_t hash_pattern(const struct pattern *p)
{
    const int64_t words[] = {p->collective, p->first,        p->devices,
                             p->from_first, p->from_devices, (int64_t)(intptr_t)p->reshard,
                             p->digits,     p->turned};
    uint64_t hash = hash_bytes(words, sizeof words, 0);
    hash = hash_bytes(&p->crossing, sizeof p->crossing, hash);
    hash = hash_bytes(p->stride, (size_t)p->digits * sizeof *p->stride, hash);
    return hash_bytes(p->degree, (size_t)p->digits * sizeof *p->degree, hash);
}

static bool same_pattern(const void *patterns, int64_t number, const void *wanted)
{
    const struct pattern *a = (const struct pattern *)patterns + number, *b = wanted;
    bool same = a->collective == b->collective && a->first == b->first &&
                a->devices == b->devices && a->from_first == b->from_first &&
                a->from_devices == b->from_devices && a->reshard == b->reshard &&
                a->turned == b->turned && a->digits == b->digits && a->crossing == b->crossing;
    for (int32_t i = 0; same && i < a->digits; i++)
        same = a->stride[i] == b->stride[i] && a->degree[i] == b->degree[i];
    return same;
}

static int32_t intern_pattern(struct build *b, const struct pattern *pattern)
{
    int64_t *number = hash_at_same(&b->pattern_numbers, b->scratch, hash_pattern(pattern),
                                   same_pattern, b->patterns.data, pattern);
    if (*number < 0) {
        *number = (int64_t)b->patterns.len;
        array_push(b->keep, &b->patterns, *pattern);
    }
    return (int32_t)*number;
}

static struct pattern pattern_of(const struct plan *plan, const struct stage *stage)
{
    return (struct pattern){.collective = COLLECTIVE_ALL_REDUCE,
                            .first = stage->first_device,
                            .devices = stage->devices,
                            .order = plan_device_order(plan)};
}

/* The groups of one run of a stage's devices alone. */
static void keep_to(struct pattern *pattern, struct device_run run)
{
    if (!run.devices)
        return;
    pattern->first += run.first;
    pattern->devices = run.devices;
}

int32_t intern_digits(struct build *b, int32_t stage, struct device_run run, int32_t digits,
                      const int64_t *stride, const int64_t *degree)
{
    struct pattern pattern = pattern_of(b->plan, &b->plan->stage[stage]);
    keep_to(&pattern, run);
    pattern.digits = digits;
    for (int32_t i = 0; i < digits; i++) {
        pattern.stride[i] = stride[i];
        pattern.degree[i] = degree[i];
    }
    return intern_pattern(b, &pattern);
}

int32_t intern_step(struct build *b, int32_t stage, const struct reshard_step *step,
                    double crossing)
{
    struct pattern pattern = pattern_of(b->plan, &b->plan->stage[stage]);
    keep_to(&pattern, step->run);
    pattern.digits = step->digits;
    pattern.crossing = crossing;
    for (int32_t i = 0; i < step->digits; i++) {
        pattern.stride[i] = step->digit[i].mesh_stride;
        pattern.degree[i] = step->digit[i].degree;
    }
    return intern_pattern(b, &pattern);
}

static struct pattern send_pattern(const struct build *b, int32_t from_stage, int32_t to_stage,
                                   const struct reshard *reshard)
{
    struct pattern pattern = pattern_of(b->plan, &b->plan->stage[to_stage]);
    pattern.collective = COLLECTIVE_SEND;
    pattern.from_first = b->plan->stage[from_stage].first_device;
    pattern.from_devices = b->plan->stage[from_stage].devices;
    pattern.reshard = reshard;
    return pattern;
}

int32_t intern_send(struct build *b, int32_t from_part, int32_t to_part,
                    const struct reshard *reshard)
{
    struct pattern pattern =
        send_pattern(b, stage_of_part(b, from_part), stage_of_part(b, to_part), reshard);
    pattern.turned =
        plan_part_is_turned(b->plan, from_part) != plan_part_is_turned(b->plan, to_part);
    return intern_pattern(b, &pattern);
}

int32_t intern_weight_send(struct build *b, int32_t from_stage, int32_t to_stage,
                           const struct reshard *reshard)
{
    struct pattern pattern = send_pattern(b, from_stage, to_stage, reshard);
    return intern_pattern(b, &pattern);
}

int32_t intern_pairs(struct build *b, int32_t low_stage, int32_t high_stage)
{
    const struct stage *low = &b->plan->stage[low_stage], *high = &b->plan->stage[high_stage];
    struct pattern pattern = pattern_of(b->plan, low);
    pattern.devices = 2 * low->devices;
    pattern.digits = 1;
    pattern.stride[0] = high->first_device - low->first_device;
    pattern.degree[0] = 2;
    return intern_pattern(b, &pattern);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static bool same_exchange(const void *exchanges, int64_t number, const void *wanted)
{
    const struct exchange *a = (const struct exchange *)exchanges + number, *b = wanted;
    return a->kind == b->kind && a->purpose == b->purpose && a->pattern == b->pattern &&
           a->group == b->group && a->bytes == b->bytes && a->collective == b->collective;
}

/* Interns `exchange` and, after it, the same exchange of the following groups. */
static int32_t intern_groups(struct build *b, struct exchange exchange, int64_t groups)
{
    int64_t key[] = {exchange.kind,  exchange.purpose, exchange.pattern,
                     exchange.group, exchange.bytes,   exchange.collective};
    int64_t *number = hash_at_same(&b->exchange_numbers, b->scratch, hash_bytes(key, sizeof key, 0),
                                   same_exchange, b->exchanges.data, &exchange);
    if (*number < 0) {
        *number = (int64_t)b->exchanges.len;
        for (int64_t i = 0; i < groups; i++, exchange.group++)
            array_push(b->keep, &b->exchanges, exchange);
    }
    return (int32_t)*number;
}

int32_t intern_exchange(struct build *b, int32_t pattern, enum collective collective, int64_t bytes,
                        enum purpose purpose)
{
    struct exchange exchange = {.kind = EXCHANGE_COLLECTIVE,
                                .purpose = (uint8_t)purpose,
                                .pattern = pattern,
                                .bytes = bytes,
                                .collective = collective};
    int64_t groups = b->graph->folded ? 1 : pattern_groups(&b->patterns.data[pattern]);
    return intern_groups(b, exchange, groups);
}

int32_t intern_copy(struct build *b, enum exchange_kind kind, int32_t stage, int64_t bytes)
{
    struct exchange exchange = {.kind = (uint8_t)kind,
                                .purpose = PURPOSE_OFFLOAD,
                                .pattern =
                                    intern_digits(b, stage, (struct device_run){0}, 0, NULL, NULL),
                                .bytes = bytes,
                                .collective = -1};
    return intern_groups(b, exchange, b->graph->folded ? 1 : b->plan->stage[stage].devices);
}

/* intern.c - patterns and exchanges, each there once.
 *
 *   I1  Equal patterns have equal numbers, and so have equal exchanges: costs are found once per
 *       number, not once per task.
 */
#include "compile/build.h"

enum { FIRST_SLOTS = 64 };

/* Open addressing; a slot holds a number + 1; at most half full. */
struct numbers {
    uint64_t *hash;
    int32_t *slot;
    size_t size, used;
};
struct intern {
    struct arena *arena;
    struct numbers patterns, exchanges;
};

struct intern *intern_new(struct arena *keep)
{
    struct intern *intern = ARENA_NEW(keep, struct intern);
    intern->arena = keep;
    return intern;
}

static void grow(struct intern *intern, struct numbers *n)
{
    struct numbers old = *n;
    n->size = old.size ? 2 * old.size : FIRST_SLOTS;
    n->hash = ARENA_ARRAY(intern->arena, uint64_t, n->size);
    n->slot = ARENA_ARRAY(intern->arena, int32_t, n->size);
    for (size_t i = 0; i < old.size; i++) {
        size_t at = old.hash[i] & (n->size - 1);
        if (!old.slot[i])
            continue;
        while (n->slot[at])
            at = (at + 1) & (n->size - 1);
        n->slot[at] = old.slot[i];
        n->hash[at] = old.hash[i];
    }
}

/* The place of the first slot that may hold what hashes so. */
static size_t place(struct intern *intern, struct numbers *n, uint64_t hash)
{
    if (2 * (n->used + 1) > n->size)
        grow(intern, n);
    return hash & (n->size - 1);
}

static void take(struct numbers *n, size_t at, uint64_t hash, int32_t number)
{
    n->slot[at] = number + 1;
    n->hash[at] = hash;
    n->used++;
}

/* ---- patterns -------------------------------------------------------------------------------- */

static uint64_t hash_pattern(const struct pattern *p)
{
    const int64_t words[] = {p->collective, p->first,        p->devices,
                             p->from_first, p->from_devices, (int64_t)(intptr_t)p->reshard,
                             p->digits};
    uint64_t hash = hash_bytes(words, sizeof words, 0);
    hash = hash_bytes(p->stride, (size_t)p->digits * sizeof *p->stride, hash);
    return hash_bytes(p->degree, (size_t)p->digits * sizeof *p->degree, hash);
}

static bool same_pattern(const struct pattern *a, const struct pattern *b)
{
    bool same = a->collective == b->collective && a->first == b->first &&
                a->devices == b->devices && a->from_first == b->from_first &&
                a->from_devices == b->from_devices && a->reshard == b->reshard &&
                a->digits == b->digits;
    for (int32_t i = 0; same && i < a->digits; i++)
        same = a->stride[i] == b->stride[i] && a->degree[i] == b->degree[i];
    return same;
}

static int32_t intern_pattern(struct build *b, const struct pattern *pattern)
{
    struct numbers *n = &b->interned->patterns;
    uint64_t hash = hash_pattern(pattern);
    size_t at = place(b->interned, n, hash);
    for (; n->slot[at]; at = (at + 1) & (n->size - 1))
        if (n->hash[at] == hash && same_pattern(&b->patterns.data[n->slot[at] - 1], pattern))
            return n->slot[at] - 1;
    take(n, at, hash, (int32_t)b->patterns.len);
    array_push(b->keep, &b->patterns, *pattern);
    return (int32_t)b->patterns.len - 1;
}

static struct pattern pattern_of(const struct stage *stage)
{
    return (struct pattern){.collective = COLLECTIVE_ALL_REDUCE,
                            .first = stage->first_device,
                            .devices = stage->devices};
}

int32_t intern_digits(struct build *b, int32_t stage, int32_t digits, const int64_t *stride,
                      const int64_t *degree)
{
    struct pattern pattern = pattern_of(&b->plan->stage[stage]);
    pattern.digits = digits;
    for (int32_t i = 0; i < digits; i++) {
        pattern.stride[i] = stride[i];
        pattern.degree[i] = degree[i];
    }
    return intern_pattern(b, &pattern);
}

int32_t intern_step(struct build *b, int32_t stage, const struct reshard_step *step)
{
    int64_t stride[MAX_STEP_DIGITS], degree[MAX_STEP_DIGITS];
    for (int32_t i = 0; i < step->digits; i++) {
        stride[i] = step->digit[i].mesh_stride;
        degree[i] = step->digit[i].degree;
    }
    return intern_digits(b, stage, step->digits, stride, degree);
}

int32_t intern_send(struct build *b, int32_t from_stage, int32_t to_stage,
                    const struct reshard *reshard)
{
    struct pattern pattern = pattern_of(&b->plan->stage[to_stage]);
    pattern.collective = COLLECTIVE_SEND;
    pattern.from_first = b->plan->stage[from_stage].first_device;
    pattern.from_devices = b->plan->stage[from_stage].devices;
    pattern.reshard = reshard;
    return intern_pattern(b, &pattern);
}

int32_t intern_pairs(struct build *b, int32_t low_stage, int32_t high_stage)
{
    const struct stage *low = &b->plan->stage[low_stage], *high = &b->plan->stage[high_stage];
    struct pattern pattern = pattern_of(low);
    pattern.devices = 2 * low->devices;
    pattern.digits = 1;
    pattern.stride[0] = high->first_device - low->first_device;
    pattern.degree[0] = 2;
    return intern_pattern(b, &pattern);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static bool same_exchange(const struct exchange *a, const struct exchange *b)
{
    return a->kind == b->kind && a->purpose == b->purpose && a->pattern == b->pattern &&
           a->group == b->group && a->bytes == b->bytes && a->collective == b->collective;
}

/* Interns `exchange` and, after it, the same of the next groups. */
static int32_t intern_groups(struct build *b, struct exchange exchange, int64_t groups)
{
    struct numbers *n = &b->interned->exchanges;
    int64_t key[] = {exchange.kind,  exchange.purpose, exchange.pattern,
                     exchange.group, exchange.bytes,   exchange.collective};
    uint64_t hash = hash_bytes(key, sizeof key, 0);
    size_t at = place(b->interned, n, hash);
    for (; n->slot[at]; at = (at + 1) & (n->size - 1))
        if (n->hash[at] == hash && same_exchange(&b->exchanges.data[n->slot[at] - 1], &exchange))
            return n->slot[at] - 1;
    int32_t first = (int32_t)b->exchanges.len;
    take(n, at, hash, first);
    for (int64_t i = 0; i < groups; i++) {
        array_push(b->keep, &b->exchanges, exchange);
        exchange.group++;
    }
    return first;
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
                                .pattern = intern_digits(b, stage, 0, NULL, NULL),
                                .bytes = bytes,
                                .collective = -1};
    return intern_groups(b, exchange, b->graph->folded ? 1 : b->plan->stage[stage].devices);
}

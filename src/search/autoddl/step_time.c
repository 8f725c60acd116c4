/* step_time.c - the times of steps, remembered (step_time.h). */
#include "search/autoddl/step_time.h"

#include <string.h>

/* Large enough for (1): latencies are microseconds, and this many bytes take a second on any
 * link. */
static const int64_t LARGE_BYTES = INT64_C(1) << 36;

/* Everything that (1) depends on; `bytes` is 0 in the entry of a pattern. */
struct key {
    int64_t collective, bytes;
    struct step_groups groups;
};
struct known_step {
    struct key key;
    double ns;                  /* for a step */
    double latency_ns, byte_ns; /* for a pattern: T(1) and s */
    weft_status status;         /* for a pattern: whether those were found */
    struct known_step *pattern; /* for a step */
};

struct step_times {
    struct arena *keep;
    const struct cluster *cluster;
    int64_t devices;
    ARRAY(struct known_step *) entries;
    struct hash_map numbers; /* indices of those by their keys */
    /* where entries of patterns are: here, or in those of other steps */
    struct step_times *patterns;
    weft_status status;
};

struct step_times *step_times_new(struct arena *keep, const struct cluster *cluster,
                                  int64_t devices)
{
    struct step_times *t = ARENA_NEW(keep, struct step_times);
    *t = (struct step_times){.keep = keep, .cluster = cluster, .devices = devices, .patterns = t};
    return t;
}

struct step_times *step_times_beside(struct arena *keep, struct step_times *other)
{
    struct step_times *t = step_times_new(keep, other->cluster, other->devices);
    t->patterns = other->patterns;
    return t;
}

weft_status step_times_status(const struct step_times *times)
{
    return times->status;
}

/* ---- entries --------------------------------------------------------------------------------- */

static bool same_key(const void *entries, int64_t number, const void *wanted)
{
    struct known_step *const *all = entries;
    return memcmp(&all[number]->key, wanted, sizeof(struct key)) == 0;
}

/* *found says whether it was there. */
static struct known_step *entry_of(struct step_times *t, const struct key *key, bool *found)
{
    int64_t *number = hash_at_same(&t->numbers, t->keep, hash_bytes(key, sizeof *key, 0), same_key,
                                   t->entries.data, key);
    *found = *number >= 0;
    if (!*found) {
        struct known_step *entry = ARENA_NEW(t->keep, struct known_step);
        entry->key = *key;
        *number = (int64_t)t->entries.len;
        array_push(t->keep, &t->entries, entry);
    }
    return t->entries.data[*number];
}

static struct pattern pattern_of(const struct step_times *t, const struct key *key)
{
    struct pattern p = {.collective = (int32_t)key->collective,
                        .devices = t->devices,
                        .digits = (int32_t)key->groups.digits};
    memcpy(p.stride, key->groups.stride, sizeof p.stride);
    memcpy(p.degree, key->groups.degree, sizeof p.degree);
    return p;
}

/* ---- (1) ------------------------------------------------------------------------------------- */

static weft_status alone(const struct step_times *t, const struct key *key, int64_t bytes,
                         double *ns)
{
    struct pattern pattern = pattern_of(t, key);
    struct group group = pattern_group(&pattern, 0);
    struct collective_cost cost;
    weft_status status;
    TRY(collective_time(t->cluster, (enum collective)key->collective, &group, bytes, &cost));
    *ns = (double)cost.ns;
done:
    return status;
}

static weft_status measure_pattern(struct step_times *t, struct known_step *e)
{
    struct arena *scratch = arena_new();
    struct pattern pattern = pattern_of(t, &e->key);
    struct exchange exchange = {.kind = EXCHANGE_COLLECTIVE,
                                .bytes = LARGE_BYTES,
                                .collective = (int32_t)e->key.collective};
    struct flows flows;
    weft_status status;
    TRY(alone(t, &e->key, 1, &e->latency_ns));
    TRY(flows_find(t->cluster, &pattern, 1, &exchange, 1, true, scratch, &flows));
    e->byte_ns = ((double)flows.together_ns[0] - (double)flows.latency_ns[0]) / (double)LARGE_BYTES;
done:
    arena_free(scratch);
    return status;
}

static weft_status measure_step(struct step_times *t, struct known_step *e)
{
    struct key key = e->key;
    bool found;
    weft_status status = WEFT_OK;
    key.bytes = 0;
    e->pattern = entry_of(t->patterns, &key, &found);
    if (!found)
        e->pattern->status = measure_pattern(t, e->pattern);
    TRY(e->pattern->status);
    TRY(alone(t, &e->key, e->key.bytes, &e->ns));
    double together = e->pattern->latency_ns + (double)e->key.bytes * e->pattern->byte_ns;
    e->ns = together > e->ns ? together : e->ns;
done:
    return status;
}

double step_time(struct step_times *t, enum collective collective, const struct step_groups *groups,
                 int64_t bytes)
{
    struct key key;
    bool found;
    if (groups->digits == 0 || bytes == 0)
        return 0;
    memset(&key, 0, sizeof key);
    key.collective = (int64_t)collective;
    key.bytes = bytes;
    key.groups.digits = groups->digits;
    for (int64_t i = 0; i < groups->digits; i++) {
        key.groups.stride[i] = groups->stride[i];
        key.groups.degree[i] = groups->degree[i];
    }
    struct known_step *e = entry_of(t, &key, &found);
    if (!found) {
        weft_status status = measure_step(t, e);
        t->status = t->status ? t->status : status;
    }
    return e->ns;
}

/* Neighbouring digits are merged, so that equal groups are equal patterns. */
static struct step_groups groups_of(const struct reshard_step *step)
{
    struct step_groups g = {0};
    for (int32_t i = 0; i < step->digits; i++) {
        const struct step_digit *d = &step->digit[i];
        if (g.digits && g.stride[g.digits - 1] == d->mesh_stride * d->degree) {
            g.stride[g.digits - 1] = d->mesh_stride;
            g.degree[g.digits - 1] *= d->degree;
            continue;
        }
        g.stride[g.digits] = d->mesh_stride;
        g.degree[g.digits++] = d->degree;
    }
    return g;
}

double reshard_time(struct step_times *t, const struct reshard *reshard, int64_t element_bytes)
{
    double ns = 0;
    for (int32_t i = 0; i < reshard->steps; i++) {
        const struct reshard_step *step = &reshard->step[i];
        struct step_groups groups = groups_of(step);
        if (step->kind != STEP_SLICE)
            ns +=
                step_time(t, (enum collective)step->kind, &groups, step->elements * element_bytes);
    }
    return ns;
}

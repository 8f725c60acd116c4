/* places.c - which places between instances are alike (places.h). */
#include "search/estimate/places.h"

#include <string.h>

/* ---- open tensors ---------------------------------------------------------------------------- */

/* The tensors that one operator sends to an input of another; some of them may be open at a
 * place. */
struct tensor_way {
    uint64_t hash;
    int64_t open;
};
struct ways {
    struct hash_map index;
    ARRAY(struct tensor_way) way;
    uint64_t open; /* sum of the hashes of those that are open */
};

static void change_way(struct arena *scratch, struct ways *ways, uint64_t hash, int64_t by)
{
    int32_t number = (int32_t)hash_get(&ways->index, hash);
    if (number < 0) {
        struct tensor_way way = {hash, 0};
        number = (int32_t)ways->way.len;
        array_push(scratch, &ways->way, way);
        *hash_at(&ways->index, scratch, hash) = number;
    }
    struct tensor_way *way = &ways->way.data[number];
    bool was = way->open > 0;
    way->open += by;
    bool is = way->open > 0;
    ways->open += is && !was ? hash : was && !is ? -hash : 0;
}

/* The readers of each instance, as linked lists of uses. */
struct readers {
    int64_t *first;  /* per instance: its first use; -1: none */
    int64_t *next;   /* per use: the next one of the same source; -1: the last */
    int64_t *reader; /* per use */
};

static struct readers list_readers(struct arena *scratch, const struct outline *outline)
{
    int64_t instances = outline->graph->plan->instances;
    size_t uses = (size_t)outline->use_first[instances];
    struct readers out = {ARENA_ARRAY(scratch, int64_t, (size_t)instances),
                          ARENA_ARRAY(scratch, int64_t, uses), ARENA_ARRAY(scratch, int64_t, uses)};
    memset(out.first, -1, (size_t)instances * sizeof *out.first);
    for (int64_t i = 0; i < instances; i++)
        for (int64_t u = outline->use_first[i]; u < outline->use_first[i + 1]; u++) {
            out.reader[u] = i;
            if (outline->source[u] < 0)
                continue;
            out.next[u] = out.first[outline->source[u]];
            out.first[outline->source[u]] = u;
        }
    return out;
}

static uint64_t way_hash(const struct outline *outline, int64_t use, int64_t reader)
{
    const struct plan *plan = outline->graph->plan;
    int64_t key[] = {plan->instance[outline->source[use]].op, plan->instance[reader].op,
                     use - outline->use_first[reader]};
    return hash_bytes(key, sizeof key, 1) | 1;
}

/* Moves from the place before an instance to the one after it: what the instance made opens, and
 * what it read may close. */
static void pass_instance(struct arena *scratch, const struct outline *outline,
                          const struct readers *readers, int64_t i, struct ways *ways)
{
    for (int64_t u = readers->first[i]; u >= 0; u = readers->next[u])
        change_way(scratch, ways, way_hash(outline, u, readers->reader[u]), 1);
    for (int64_t u = outline->use_first[i]; u < outline->use_first[i + 1]; u++)
        if (outline->source[u] >= 0)
            change_way(scratch, ways, way_hash(outline, u, i), -1);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void choose_stand_ins(struct arena *keep, struct arena *scratch, int64_t instances,
                             struct places *out)
{
    int64_t *members = ARENA_ARRAY(scratch, int64_t, (size_t)out->kinds);
    int64_t *seen = ARENA_ARRAY(scratch, int64_t, (size_t)out->kinds);
    out->stand_in = ARENA_ARRAY(keep, int64_t, (size_t)out->kinds);
    for (int64_t i = 1; i < instances; i++)
        members[out->kind_of[i]]++;
    for (int64_t i = 1; i < instances; i++)
        if (seen[out->kind_of[i]]++ == members[out->kind_of[i]] / 2)
            out->stand_in[out->kind_of[i]] = i;
}

struct places places_of_model(struct arena *keep, const struct outline *outline)
{
    struct arena *scratch = arena_new();
    const struct plan *plan = outline->graph->plan;
    struct readers readers = list_readers(scratch, outline);
    struct ways ways = {0};
    struct hash_map kinds = {0};
    struct places out = {ARENA_ARRAY(keep, int64_t, (size_t)plan->instances), NULL, 0};
    for (int64_t i = 1; i < plan->instances; i++) {
        pass_instance(scratch, outline, &readers, i - 1, &ways);
        int64_t key[] = {plan->instance[i - 1].op, plan->instance[i].op, (int64_t)ways.open};
        uint64_t hash = hash_bytes(key, sizeof key, 2) | 1;
        int32_t kind = (int32_t)hash_get(&kinds, hash);
        if (kind < 0)
            *hash_at(&kinds, scratch, hash) = kind = (int32_t)out.kinds++;
        out.kind_of[i] = kind;
    }
    choose_stand_ins(keep, scratch, plan->instances, &out);
    arena_free(scratch);
    return out;
}

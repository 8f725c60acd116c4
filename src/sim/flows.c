/* flows.c - turns exchanges into flows over links (flows.h has the equations).
 *
 * A survey (survey.h) says what exchanges put on links per byte; here each gets its bytes, its
 * times and its links' numbers. A cache keeps surveys and times, so that an exchange's time is
 * found without looking at devices again.
 */
#include "sim/flows.h"

#include <math.h>
#include <pthread.h>

#include "sim/survey.h"

static const double NS_PER_S = 1e9;

/* Exchanges that are surveyed together. */
struct flow_set {
    struct survey survey;
    struct hash_map *times; /* in times_arena */
    /* by link, or by class if folded: its number among the links of the flows, + 1 */
    int32_t *number;
};

struct flow_finding {
    const struct cluster *cluster;
    const struct flow_set *set; /* that of the current exchange */
    struct arena *scratch, *keep, *times_arena;
    bool alike; /* flows.h, I3 */
    ARRAY(struct link_id) links;
    ARRAY(struct link_use) uses;
    struct flows *out;
};

/* ---- times ----------------------------------------------------------------------------------- */

/* collective_time, computed once for each place. */
static weft_status time_of(struct flow_finding *finding, const struct exchange *exchange,
                           const struct member *member, int64_t bytes, int64_t *ns)
{
    uint64_t key = mix(mix(member->place, (uint64_t)exchange->collective), (uint64_t)bytes);
    int64_t *known = hash_at(finding->set->times, finding->times_arena, key);
    weft_status status = WEFT_OK;
    if (*known < 0) {
        struct group group =
            pattern_group_at(&finding->set->survey.pattern[exchange->pattern], member->group);
        struct collective_cost cost;
        TRY(collective_time(finding->cluster, (enum collective)exchange->collective, &group, bytes,
                            &cost));
        *known = cost.ns;
    }
    *ns = *known;
done:
    return status;
}

/* The time of an exchange on one group, and which part of its traffic counts (flows.h, I1). */
struct exchange_timing {
    int64_t latency_ns, least_ns, together_ns;
    double bytes;
};

static int64_t whole_ns(double ns)
{
    return (int64_t)ceil(ns * (1 - SURVEY_NOISE));
}

static weft_status timing_of(struct flow_finding *finding, const struct exchange *exchange,
                             const struct member *member, struct exchange_timing *out)
{
    weft_status status = WEFT_OK;
    int64_t all_ns = 0;
    *out = (struct exchange_timing){.bytes = (double)exchange->bytes * traffic_passes(exchange)};
    if (exchange->kind != EXCHANGE_COLLECTIVE) {
        struct group group =
            pattern_group_at(&finding->set->survey.pattern[exchange->pattern], member->group);
        double host_bytes_per_s = cluster_device(finding->cluster, group.first)->host_bytes_per_s;
        double wanted_s = host_bytes_per_s > 0 ? out->bytes / host_bytes_per_s : 0;
        out->least_ns = whole_ns(fmax(wanted_s, out->bytes * member->alone_s) * NS_PER_S);
    } else if (exchange->bytes > 0) {
        TRY(time_of(finding, exchange, member, 1, &out->latency_ns));
        TRY(time_of(finding, exchange, member, exchange->bytes, &all_ns));
        out->least_ns = all_ns - out->latency_ns;
    }
    double alone_ns = out->bytes * member->alone_s * NS_PER_S;
    if (alone_ns > (double)out->least_ns)
        out->bytes *= (double)out->least_ns / alone_ns;
    double sibling_ns = out->bytes * member->sibling_s * NS_PER_S;
    out->together_ns = out->latency_ns + whole_ns(fmax((double)out->least_ns, sibling_ns));
done:
    return status;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* Folded, links are numbered by class; unfolded, each has its own number. */
static int32_t link_number(struct flow_finding *finding, int32_t which, int64_t place)
{
    int32_t *number = &finding->set->number[which];
    if (!*number) {
        array_push(finding->scratch, &finding->links, survey_link(&finding->set->survey, place));
        *number = (int32_t)finding->links.len;
    }
    return *number - 1;
}

/* A sum of equal shares is rounded to a whole multiple of them. */
static double times_of(const struct class_use *use)
{
    double times = use->sum / use->share, whole = nearbyint(times);
    return fabs(times - whole) < SURVEY_NOISE * times ? whole : times;
}

static void emit_link(struct flow_finding *finding, const struct row_use *row, double bytes)
{
    struct link_use use = {link_number(finding, row->place, row->place), bytes * row->share, 1};
    array_push(finding->keep, &finding->uses, use);
}

static void emit_row(struct flow_finding *finding, const struct traffic_load *load, int64_t group,
                     double bytes)
{
    const struct survey *survey = &finding->set->survey;
    for (int64_t i = load->first[group]; i < load->first[group + 1] && bytes > 0; i++)
        for (int32_t k = 0; k < survey->rows->row.data[load->use[i].row].links; k++) {
            struct row_use row = node_use_at(survey, load, load->use[i], k);
            emit_link(finding, &row, bytes);
        }
    for (int64_t i = load->first_up[group]; i < load->first_up[group + 1] && bytes > 0; i++) {
        struct row_use row = uplink_use_at(load, i);
        emit_link(finding, &row, bytes);
    }
}

static void emit_classes(struct flow_finding *finding, const struct member *member, double bytes)
{
    for (int32_t i = 0; i < member->uses; i++)
        link_number(finding, member->use[i].class, member->use[i].place);
    for (int32_t i = 0; i < member->uses && bytes > 0; i++) {
        const struct class_use *row = &member->use[i];
        int32_t link = link_number(finding, row->class, row->place);
        struct link_use use = {link, bytes * row->share, times_of(row)};
        array_push(finding->keep, &finding->uses, use);
    }
}

/* flows.h, I4. */
static weft_status slowest(struct flow_finding *finding, const struct exchange *exchange,
                           struct traffic_load *load, struct member **member,
                           struct exchange_timing *timing)
{
    weft_status status;
    *member = &load->member[0];
    TRY(timing_of(finding, exchange, *member, timing));
    for (int64_t m = 1; m < load->members; m++) {
        struct exchange_timing other;
        TRY(timing_of(finding, exchange, &load->member[m], &other));
        finding->alike &= other.latency_ns == timing->latency_ns &&
                          other.least_ns == timing->least_ns &&
                          fabs(other.bytes - timing->bytes) <= SURVEY_NOISE * timing->bytes;
        if (other.together_ns <= timing->together_ns)
            continue;
        *timing = other;
        *member = &load->member[m];
    }
done:
    return status;
}

static weft_status emit_flow(struct flow_finding *finding, struct flow_set *set, int32_t flow,
                             const struct exchange *exchange)
{
    struct traffic_load *load = survey_load(&set->survey, exchange);
    struct member *member = &load->member[set->survey.folded ? 0 : exchange->group];
    struct exchange_timing timing;
    weft_status status;
    finding->set = set;
    if (set->survey.folded) {
        TRY(slowest(finding, exchange, load, &member, &timing));
        if (!member->use)
            survey_row(&set->survey, load, member);
        emit_classes(finding, member, timing.bytes);
    } else {
        TRY(timing_of(finding, exchange, member, &timing));
        emit_row(finding, load, member->group, timing.bytes);
    }
    finding->out->latency_ns[flow] = timing.latency_ns;
    finding->out->least_ns[flow] = timing.least_ns;
    finding->out->together_ns[flow] = timing.together_ns;
    finding->out->use_first[flow + 1] = (int64_t)finding->uses.len;
done:
    return status;
}

static void write_links(struct flow_finding *finding)
{
    struct flows *out = finding->out;
    out->links = (int32_t)finding->links.len;
    out->link = ARENA_ARRAY(finding->keep, struct link_id, finding->links.len);
    out->link_bytes_per_s = ARENA_ARRAY(finding->keep, double, finding->links.len);
    for (int32_t i = 0; i < out->links; i++) {
        out->link[i] = finding->links.data[i];
        out->link_bytes_per_s[i] = link_reached_per_s(finding->cluster, out->link[i]);
    }
    out->use = finding->uses.data;
}

static void open_flows(struct arena *keep, int32_t exchanges, struct flows *out)
{
    size_t count = (size_t)exchanges;
    *out = (struct flows){.flows = exchanges};
    out->latency_ns = ARENA_ARRAY(keep, int64_t, count);
    out->least_ns = ARENA_ARRAY(keep, int64_t, count);
    out->together_ns = ARENA_ARRAY(keep, int64_t, count);
    out->use_first = ARENA_ARRAY(keep, int64_t, count + 1);
}

static weft_status emit_flows(struct flow_finding *finding, struct flow_set *const *set_of,
                              const struct exchange *exchange, int32_t exchanges)
{
    weft_status status = WEFT_OK;
    open_flows(finding->keep, exchanges, finding->out);
    for (int32_t i = 0; i < exchanges; i++)
        TRY(emit_flow(finding, set_of[i], i, &exchange[i]));
    write_links(finding);
    finding->out->alike = finding->alike;
done:
    return status;
}

static void open_set(struct flow_finding *finding, struct flow_set *set)
{
    set->number = ARENA_ARRAY(finding->scratch, int32_t, set->survey.numbers);
    finding->alike &= set->survey.alike;
}

/* ---- what is kept for the next graph --------------------------------------------------------- */

struct known {
    const struct survey *survey;
    struct hash_map times;
};
struct flow_cache {
    struct arena *arena;
    const struct cluster *cluster; /* of flow_cache_for; NULL: one thread asks about one cluster */
    pthread_mutex_t lock;          /* of flow_cache_for */
    struct load_cache *loads;
    ARRAY(struct known *) known;
    struct hash_map by_key;
};

struct flow_cache *flow_cache_new(void)
{
    struct arena *arena = arena_new();
    struct flow_cache *cache = ARENA_NEW(arena, struct flow_cache);
    cache->arena = arena;
    cache->loads = load_cache_new(arena);
    return cache;
}

static void drop_lock(void *lock)
{
    pthread_mutex_destroy(lock);
}

struct flow_cache *flow_cache_for(const struct cluster *cluster)
{
    struct flow_cache *cache = flow_cache_new();
    cache->cluster = cluster;
    pthread_mutex_init(&cache->lock, NULL);
    arena_own(cache->arena, drop_lock, &cache->lock);
    return cache;
}

bool flow_cache_serves(const struct flow_cache *cache, const struct cluster *cluster)
{
    return cache && cache->cluster == cluster;
}

void flow_cache_free(struct flow_cache *cache)
{
    if (cache)
        arena_free(cache->arena);
}

/* A cache that threads share is one thread's at a time. */
static void cache_take(struct flow_cache *cache, struct hold *hold)
{
    if (!cache->cluster)
        return;
    pthread_mutex_lock(&cache->lock);
    hold_push(hold, hold_unlock, &cache->lock);
}

static void cache_leave(struct flow_cache *cache, struct hold *hold)
{
    if (!cache->cluster)
        return;
    hold_pop(hold);
    pthread_mutex_unlock(&cache->lock);
}

static weft_status recall(struct flow_cache *cache, struct survey *survey, struct known **out)
{
    int64_t *at = hash_at(&cache->by_key, cache->arena, survey_key(survey));
    weft_status status = WEFT_OK;
    if (*at < 0) {
        TRY(survey_links(survey));
        struct known *known = ARENA_NEW(cache->arena, struct known);
        known->survey = survey_keep(survey, cache->arena);
        *at = (int64_t)cache->known.len;
        array_push(cache->arena, &cache->known, known);
    }
    *out = cache->known.data[*at];
    survey_recall(survey, (*out)->survey);
done:
    return status;
}

/* ---- all exchanges together -------------------------------------------------------------------- */

/* The survey of a set, from the cache if there is one. */
static weft_status survey_set(struct flow_cache *cache, struct arena *scratch, struct flow_set *set)
{
    struct known *known;
    weft_status status;
    if (!cache) {
        set->times = ARENA_NEW(scratch, struct hash_map);
        return survey_links(&set->survey);
    }
    set->survey.cache = cache->loads;
    TRY(recall(cache, &set->survey, &known));
    set->times = &known->times;
done:
    return status;
}

static weft_status find_together(struct flow_cache *cache, struct flow_finding *finding,
                                 struct flow_set *all, const struct exchange *exchange,
                                 int32_t exchanges)
{
    struct flow_set **set_of = ARENA_ARRAY(finding->scratch, struct flow_set *, (size_t)exchanges);
    weft_status status;
    for (int32_t i = 0; i < exchanges; i++)
        set_of[i] = all;
    TRY(survey_set(cache, finding->scratch, all));
    open_set(finding, all);
    TRY(emit_flows(finding, set_of, exchange, exchanges));
done:
    return status;
}

weft_status flows_find(const struct cluster *cluster, const struct pattern *patterns,
                       int32_t pattern_count, const struct exchange *exchanges,
                       int32_t exchange_count, bool folded, struct arena *keep, struct flows *out)
{
    struct arena *scratch = arena_new();
    struct flow_set all = {.survey = survey_new(scratch, cluster, patterns, pattern_count,
                                                exchanges, exchange_count, folded)};
    struct flow_finding finding = {.cluster = cluster,
                                   .scratch = scratch,
                                   .keep = keep,
                                   .times_arena = scratch,
                                   .alike = true,
                                   .out = out};
    weft_status status = find_together(NULL, &finding, &all, exchanges, exchange_count);
    arena_free(scratch);
    return status;
}

weft_status flows_find_kept(struct flow_cache *cache, const struct cluster *cluster,
                            const struct pattern *patterns, int32_t pattern_count,
                            const struct exchange *exchanges, int32_t exchange_count,
                            struct arena *keep, struct flows *out)
{
    if (cache->cluster != cluster)
        return flows_find(cluster, patterns, pattern_count, exchanges, exchange_count, true, keep,
                          out);
    struct arena *scratch = arena_new();
    struct flow_set all = {.survey = survey_new(scratch, cluster, patterns, pattern_count,
                                                exchanges, exchange_count, true)};
    struct flow_finding finding = {.cluster = cluster,
                                   .scratch = scratch,
                                   .keep = keep,
                                   .times_arena = cache->arena,
                                   .alike = true,
                                   .out = out};
    struct hold hold;
    cache_take(cache, &hold);
    weft_status status = find_together(cache, &finding, &all, exchanges, exchange_count);
    cache_leave(cache, &hold);
    arena_free(scratch);
    return status;
}

/* ---- exchanges by their devices ------------------------------------------------------------------ */

/* Exchanges by the devices that they are on, so that each set has a survey of its own. */
struct flow_sets {
    struct hash_map by_devices;
    ARRAY(struct exchange_list { ARRAY(struct exchange) exchanges; } *)
    lists;
    int64_t *number; /* per exchange: of its list */
};

static uint64_t devices_key(const struct pattern *p)
{
    const int64_t words[] = {p->first, p->devices, p->from_first, p->from_devices};
    return hash_bytes(words, sizeof words, 0);
}

static struct flow_sets sort_out(struct arena *scratch, const struct pattern *patterns,
                                 const struct exchange *exchanges, int32_t count)
{
    struct flow_sets sets = {.number = ARENA_ARRAY(scratch, int64_t, (size_t)count)};
    for (int32_t i = 0; i < count; i++) {
        uint64_t key = devices_key(&patterns[exchanges[i].pattern]);
        int64_t *at = hash_at(&sets.by_devices, scratch, key);
        if (*at < 0) {
            *at = (int64_t)sets.lists.len;
            array_push(scratch, &sets.lists, ARENA_NEW(scratch, struct exchange_list));
        }
        sets.number[i] = *at;
        array_push(scratch, &sets.lists.data[*at]->exchanges, exchanges[i]);
    }
    return sets;
}

/* A survey for each list. */
static weft_status survey_sets(struct flow_cache *cache, struct flow_finding *finding,
                               const struct flow_sets *sets, const struct pattern *patterns,
                               int32_t pattern_count, struct flow_set *set)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sets->lists.len; i++) {
        const struct exchange_list *list = sets->lists.data[i];
        set[i].survey = survey_new(finding->scratch, finding->cluster, patterns, pattern_count,
                                   list->exchanges.data, (int32_t)list->exchanges.len, true);
        TRY(survey_set(cache, finding->scratch, &set[i]));
        open_set(finding, &set[i]);
    }
done:
    return status;
}

weft_status flows_find_again(struct flow_cache *cache, const struct cluster *cluster,
                             const struct pattern *patterns, int32_t pattern_count,
                             const struct exchange *exchanges, int32_t exchange_count,
                             struct arena *keep, struct flows *out)
{
    struct arena *scratch = arena_new();
    struct flow_sets sets = sort_out(scratch, patterns, exchanges, exchange_count);
    struct flow_set *set = ARENA_ARRAY(scratch, struct flow_set, sets.lists.len);
    struct flow_set **set_of = ARENA_ARRAY(scratch, struct flow_set *, (size_t)exchange_count);
    struct flow_finding finding = {.cluster = cluster,
                                   .scratch = scratch,
                                   .keep = keep,
                                   .times_arena = cache->arena,
                                   .alike = true,
                                   .out = out};
    struct hold hold;
    weft_status status;
    for (int32_t i = 0; i < exchange_count; i++)
        set_of[i] = &set[sets.number[i]];
    cache_take(cache, &hold);
    TRY(survey_sets(cache, &finding, &sets, patterns, pattern_count, set));
    TRY(emit_flows(&finding, set_of, exchanges, exchange_count));
done:
    cache_leave(cache, &hold);
    arena_free(scratch);
    return status;
}

/* survey_loads.c - the loads of a survey: what the groups of a pattern put on links (survey.h, steps 1 and 2).
 *
 *   I1  Rows depend only on the pattern, the kind of traffic and the span, so they are found once for all surveys that
 *       share a cache, as long as they are no more than KEPT_BYTES in all.
 */
#include "sim/survey.h"

#include <math.h>
#include <string.h>

/* Bytes for which traffic is computed, so large that pieces of it are nearly exact. */
static const int64_t LOAD_BYTES = INT64_C(1) << 40;
static const double QUANTA = 4294967296.0; /* survey.h, I2 */
/* I1: enough for the searches on 32,768 devices, a fraction of a machine's memory. */
static const size_t KEPT_BYTES = (size_t)128 << 20;

/* ---- kinds of traffic ------------------------------------------------------------------------ */

/* An all-reduce is a reduce-scatter and an all-gather. */
static const struct {
    enum traffic_kind kind;
    double passes;
} TRAFFIC_OF[] = {
    [COLLECTIVE_ALL_REDUCE] = {TRAFFIC_RING, 2},     [COLLECTIVE_ALL_GATHER] = {TRAFFIC_RING, 1},
    [COLLECTIVE_REDUCE_SCATTER] = {TRAFFIC_RING, 1}, [COLLECTIVE_ALL_TO_ALL] = {TRAFFIC_PAIRS, 1},
    [COLLECTIVE_BROADCAST] = {TRAFFIC_BROADCAST, 1}, [COLLECTIVE_SEND] = {TRAFFIC_SEND, 1},
};
_Static_assert(COUNT_OF(TRAFFIC_OF) == COLLECTIVE_COUNT, "a collective without a kind of traffic");
static const enum collective ASKED_FOR[] = {
    [TRAFFIC_RING] = COLLECTIVE_ALL_GATHER,
    [TRAFFIC_PAIRS] = COLLECTIVE_ALL_TO_ALL,
    [TRAFFIC_BROADCAST] = COLLECTIVE_BROADCAST,
    [TRAFFIC_SEND] = COLLECTIVE_SEND,
};

static enum traffic_kind kind_of(const struct exchange *exchange)
{
    if (exchange->kind == EXCHANGE_COLLECTIVE)
        return TRAFFIC_OF[exchange->collective].kind;
    return exchange->kind == EXCHANGE_TO_HOST ? TRAFFIC_TO_HOST : TRAFFIC_FROM_HOST;
}

double traffic_passes(const struct exchange *exchange)
{
    return exchange->kind == EXCHANGE_COLLECTIVE ? TRAFFIC_OF[exchange->collective].passes : 1;
}

/* ---- the span of links ----------------------------------------------------------------------- */

static void span_devices(struct span *span, int64_t first, int64_t devices, int64_t per_node)
{
    int64_t low = first / per_node, high = (first + devices - 1) / per_node;
    int64_t end = span->first_node + span->nodes;
    if (span->nodes == 0 || low < span->first_node)
        span->first_node = low;
    if (end < high + 1)
        end = high + 1;
    span->nodes = end - span->first_node;
}

/* The devices of a pattern. Groups of tied weights reach from their stage to another one, before or after it. */
static void span_pattern(struct span *span, const struct pattern *p, int64_t per_node)
{
    int64_t low = 0, high = p->devices;
    if (p->order.run) { /* every stage is all over the cluster */
        span_devices(span, 0, p->order.stages * p->order.each, per_node);
        return;
    }
    for (int32_t i = 0; i < p->digits; i++) {
        int64_t reach = p->stride[i] * (p->degree[i] - 1), end = p->devices / p->degree[i] + reach;
        low = reach < low ? reach : low;
        high = end > high ? end : high;
    }
    span_devices(span, p->first + low, high - low, per_node);
    if (p->collective == COLLECTIVE_SEND)
        span_devices(span, p->from_first, p->from_devices, per_node);
}

static struct span span_of(const struct survey *survey)
{
    const struct cluster *cluster = survey->cluster;
    struct span span = {.node_links = cluster->node.links,
                        .per_node = 2 * (cluster->node.links + cluster->node.nics)};
    for (int32_t l = 0; l < survey->loads; l++)
        span_pattern(&span, &survey->pattern[survey->load[l].pattern], cluster->node.devices);
    span.nodes += span.nodes == 0; /* no loads */
    span.links = span.nodes * span.per_node;
    for (int32_t t = 1; t < cluster->fabric.tiers; t++) {
        int64_t unit = cluster->fabric.tier[t - 1].nodes;
        span.tier_first[t] = span.links;
        span.unit_first[t] = span.first_node / unit;
        span.links += 2 * ((span.first_node + span.nodes) / unit - span.unit_first[t] + 1);
    }
    return span;
}

static int64_t span_place(const struct span *span, struct link_id link)
{
    if (link.tier > 0)
        return span->tier_first[link.tier] + 2 * (link.unit - span->unit_first[link.tier]) +
               link.reverse;
    int32_t at = 2 * (link.tier < 0 ? link.link : span->node_links + link.link) + link.reverse;
    return (link.unit - span->first_node) * span->per_node + at;
}

struct link_id survey_link(const struct survey *survey, int64_t place)
{
    const struct span *span = &survey->span;
    if (place >= span->nodes * span->per_node) {
        int32_t t = survey->cluster->fabric.tiers - 1;
        while (place < span->tier_first[t])
            t--;
        int64_t at = place - span->tier_first[t];
        return (struct link_id){span->unit_first[t] + at / 2, (int16_t)t, 0, at % 2};
    }
    int64_t node = span->first_node + place / span->per_node;
    int32_t at = (int32_t)(place % span->per_node);
    if (at < 2 * span->node_links)
        return (struct link_id){node, -1, (int16_t)(at / 2), at % 2};
    return (struct link_id){node, 0, (int16_t)(at / 2 - span->node_links), at % 2};
}

/* ---- loads ----------------------------------------------------------------------------------- */

static int32_t *load_number(const struct survey *survey, const struct exchange *exchange)
{
    return &survey->load_of[exchange->pattern * TRAFFIC_KIND_COUNT + (int32_t)kind_of(exchange)];
}

struct traffic_load *survey_load(const struct survey *survey, const struct exchange *exchange)
{
    return &survey->load[*load_number(survey, exchange) - 1];
}

static void list_loads(struct survey *survey, const struct exchange *exchange, int32_t exchanges)
{
    size_t most = (size_t)survey->patterns * TRAFFIC_KIND_COUNT;
    survey->load_of = ARENA_ARRAY(survey->scratch, int32_t, most);
    survey->load = ARENA_ARRAY(survey->scratch, struct traffic_load, most);
    for (int32_t i = 0; i < exchanges; i++) {
        int32_t *number = load_number(survey, &exchange[i]);
        if (*number)
            continue;
        int32_t pattern = exchange[i].pattern;
        survey->load[survey->loads] =
            (struct traffic_load){.pattern = pattern,
                                  .kind = kind_of(&exchange[i]),
                                  .groups = pattern_groups(&survey->pattern[pattern])};
        *number = ++survey->loads;
    }
}

uint64_t survey_pattern_key(const struct pattern *p, uint64_t key)
{
    const int64_t words[] = {p->collective, p->first,        p->devices,
                             p->from_first, p->digits,       p->from_devices,
                             p->order.run,  p->order.stages, 0};
    key = hash_bytes(words, sizeof words, key);
    key = hash_bytes(&p->crossing, sizeof p->crossing, key);
    key = hash_bytes(p->stride, (size_t)p->digits * sizeof *p->stride, key);
    key = hash_bytes(p->degree, (size_t)p->digits * sizeof *p->degree, key);
    for (int64_t i = 0; p->collective == COLLECTIVE_SEND && i < pattern_groups(p); i++) {
        struct group pair = pattern_group_at(p, i);
        key = mix(mix(key, (uint64_t)pair.first), (uint64_t)pair.stride[0]);
    }
    return key;
}

struct survey survey_new(struct arena *scratch, const struct cluster *cluster,
                         const struct pattern *patterns, int32_t pattern_count,
                         const struct exchange *exchanges, int32_t exchange_count, bool folded)
{
    struct survey survey = {.cluster = cluster,
                            .pattern = patterns,
                            .patterns = pattern_count,
                            .folded = folded,
                            .scratch = scratch,
                            .alike = true};
    list_loads(&survey, exchanges, exchange_count);
    return survey;
}

static weft_status group_traffic(struct survey *survey, const struct traffic_load *load,
                                 int64_t group, struct traffic_list *out, uint64_t *place)
{
    struct group devices = pattern_group_at(&survey->pattern[load->pattern], group);
    weft_status status;
    out->len = 0;
    if (load->kind == TRAFFIC_TO_HOST || load->kind == TRAFFIC_FROM_HOST)
        return ledger_copy(survey->ledger, devices.first, load->kind == TRAFFIC_TO_HOST, LOAD_BYTES,
                           survey->scratch, out);
    TRY(group_place(survey->cluster, &devices, place));
    TRY(ledger_collective(survey->ledger, ASKED_FOR[load->kind], &devices, LOAD_BYTES,
                          survey->scratch, out));
done:
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The rows of a load while they are found. */
struct rows {
    ARRAY(struct packed_use) uses;
    ARRAY(struct link_sum) links;
    ARRAY(double) shares;
    struct hash_map by_share;
    int32_t last_share;
};

static int32_t link_number(struct survey *survey, struct rows *rows, int64_t place)
{
    int32_t *number = &survey->link_at[place];
    if (!*number) {
        int64_t node = place / survey->span.per_node, nodes = survey->span.nodes;
        struct link_sum link = {(int32_t)place, (int32_t)(node < nodes ? node : nodes), 0};
        array_push(survey->scratch, &rows->links, link);
        *number = (int32_t)rows->links.len;
    }
    return *number - 1;
}

/* Most links have the share of the one before. */
static int32_t share_number(struct survey *survey, struct rows *rows, double share)
{
    uint64_t bits;
    if (rows->shares.len && rows->shares.data[rows->last_share] == share)
        return rows->last_share;
    memcpy(&bits, &share, sizeof bits);
    int64_t *number = hash_at(&rows->by_share, survey->scratch, mix(1, bits));
    if (*number < 0) {
        *number = (int64_t)rows->shares.len;
        array_push(survey->scratch, &rows->shares, share);
    }
    rows->last_share = (int32_t)*number;
    return rows->last_share;
}

/* Adds the row of one group to the list, and to the links' sums. */
static void note_row(struct survey *survey, const struct traffic_list *list, struct rows *rows)
{
    for (size_t i = 0; i < list->len; i++) {
        double share = list->data[i].bytes / (double)LOAD_BYTES;
        int32_t link = link_number(survey, rows, span_place(&survey->span, list->data[i].link));
        struct packed_use use = {link, share_number(survey, rows, share)};
        rows->links.data[link].sum += share;
        array_push(survey->scratch, &rows->uses, use);
    }
}

/* survey.h, I4 */
static const uint64_t *hash_nodes(const struct survey *survey, const struct traffic_load *load)
{
    uint64_t *hash = ARENA_ARRAY(survey->scratch, uint64_t, (size_t)survey->span.nodes + 1);
    for (int64_t i = 0; i < load->links; i++) {
        const struct link_sum *link = &load->link[i];
        uint64_t at =
            (uint64_t)link->place - (uint64_t)link->node * (uint64_t)survey->span.per_node;
        hash[link->node] += mix(at + 1, survey_quantum(link->sum));
    }
    return hash;
}

static void close_rows(struct survey *survey, const struct rows *rows, struct traffic_load *load)
{
    load->use = rows->uses.data;
    load->link = rows->links.data;
    load->links = (int64_t)rows->links.len;
    load->share = rows->shares.data;
    load->shares = (int64_t)rows->shares.len;
    for (int64_t i = 0; i < load->links; i++)
        survey->link_at[load->link[i].place] = 0; /* for the next load */
    load->node_hash = survey->folded ? hash_nodes(survey, load) : NULL;
}

/* Step 1. */
static weft_status tally(struct survey *survey, struct traffic_load *load)
{
    weft_status status = WEFT_OK;
    struct traffic_list list = {0};
    struct rows rows = {0};
    int64_t *first = ARENA_ARRAY(survey->scratch, int64_t, (size_t)load->groups + 1);
    load->member = ARENA_ARRAY(survey->scratch, struct member, (size_t)load->groups);
    for (int64_t g = 0; g < load->groups; g++) {
        load->member[g].group = g;
        TRY(group_traffic(survey, load, g, &list, &load->member[g].place));
        if (g == 0) /* most of the others are like the first */
            array_reserve(survey->scratch, &rows.uses, list.len * (size_t)load->groups);
        note_row(survey, &list, &rows);
        first[g + 1] = (int64_t)rows.uses.len;
    }
    load->members = load->groups;
    load->first = first;
    close_rows(survey, &rows, load);
done:
    return status;
}

uint64_t survey_quantum(double value)
{
    return (uint64_t)llround(value * QUANTA); /* I2 of survey.h */
}

double survey_s_per_byte(const struct survey *survey, int64_t place)
{
    const struct span *span = &survey->span;
    if (place < span->nodes * span->per_node)
        return survey->place_s[place % span->per_node];
    return 1 / link_reached_per_s(survey->cluster, survey_link(survey, place));
}

/* Per link of a load: seconds per byte. */
static const double *link_seconds(const struct survey *survey, const struct traffic_load *load)
{
    double *s = ARENA_ARRAY(survey->scratch, double, (size_t)load->links);
    for (int64_t i = 0; i < load->links; i++)
        s[i] = survey_s_per_byte(survey, load->link[i].place);
    return s;
}

/* Step 2. */
static void measure(const struct survey *survey, struct traffic_load *load)
{
    const double *s = link_seconds(survey, load);
    for (int64_t g = 0; g < load->groups; g++) {
        struct member *member = &load->member[g];
        for (int64_t i = load->first[g]; i < load->first[g + 1]; i++) {
            int32_t link = load->use[i].link;
            double share = load->share[load->use[i].share];
            member->peak = fmax(member->peak, share);
            member->alone_s = fmax(member->alone_s, share * s[link]);
            member->sibling_s = fmax(member->sibling_s, load->link[link].sum * s[link]);
        }
    }
}

/* ---- rows that are kept (I1) ----------------------------------------------------------------- */

struct load_cache {
    struct arena *arena;
    ARRAY(struct traffic_load) loads;
    struct hash_map by_key;
    size_t bytes;
};

struct load_cache *load_cache_new(struct arena *keep)
{
    struct load_cache *cache = ARENA_NEW(keep, struct load_cache);
    cache->arena = keep;
    return cache;
}

static void *copied(struct load_cache *cache, const void *data, size_t bytes)
{
    char *copy = ARENA_ARRAY(cache->arena, char, bytes + 1);
    if (bytes)
        memcpy(copy, data, bytes);
    cache->bytes += bytes;
    return copy;
}

static void keep_rows(struct load_cache *cache, int64_t nodes, const struct traffic_load *load,
                      int64_t *number)
{
    size_t groups = (size_t)load->groups, rows = (size_t)load->first[load->groups];
    struct traffic_load kept = *load;
    if (cache->bytes + rows * sizeof *load->use > KEPT_BYTES)
        return;
    kept.member = copied(cache, load->member, groups * sizeof *load->member);
    kept.first = copied(cache, load->first, (groups + 1) * sizeof *load->first);
    kept.use = copied(cache, load->use, rows * sizeof *load->use);
    kept.link = copied(cache, load->link, (size_t)load->links * sizeof *load->link);
    kept.share = copied(cache, load->share, (size_t)load->shares * sizeof *load->share);
    kept.node_hash = copied(cache, load->node_hash, (size_t)nodes * sizeof *load->node_hash);
    *number = (int64_t)cache->loads.len;
    array_push(cache->arena, &cache->loads, kept);
}

static uint64_t rows_key(const struct survey *survey, const struct traffic_load *load)
{
    uint64_t key = mix((uint64_t)survey->span.first_node, (uint64_t)survey->span.nodes);
    return mix(survey_pattern_key(&survey->pattern[load->pattern], key), (uint64_t)load->kind) | 1;
}

static weft_status find_rows(struct survey *survey, struct traffic_load *load)
{
    weft_status status;
    TRY(tally(survey, load));
    measure(survey, load);
done:
    return status;
}

static weft_status fill_load(struct survey *survey, struct traffic_load *load)
{
    struct load_cache *cache = survey->cache;
    int32_t pattern = load->pattern;
    weft_status status = WEFT_OK;
    if (!cache)
        return find_rows(survey, load);
    int64_t *number = hash_at(&cache->by_key, cache->arena, rows_key(survey, load));
    if (*number >= 0) {
        *load = cache->loads.data[*number];
        load->pattern = pattern;
        return WEFT_OK;
    }
    TRY(find_rows(survey, load));
    keep_rows(cache, survey->span.nodes, load, number);
done:
    return status;
}

weft_status survey_fill_loads(struct survey *survey)
{
    weft_status status = WEFT_OK;
    survey->span = span_of(survey);
    survey->link_at = ARENA_ARRAY(survey->scratch, int32_t, (size_t)survey->span.links);
    survey->place_s = ARENA_ARRAY(survey->scratch, double, (size_t)survey->span.per_node + 1);
    for (int32_t at = 0; at < survey->span.per_node; at++)
        survey->place_s[at] = 1 / link_reached_per_s(survey->cluster, survey_link(survey, at));
    for (int32_t l = 0; l < survey->loads; l++)
        TRY(fill_load(survey, &survey->load[l]));
done:
    return status;
}

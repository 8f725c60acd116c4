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
    [COLLECTIVE_HALO] = {TRAFFIC_BROADCAST, 1}, /* along the group, from end to end */
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

/* ---- rows ------------------------------------------------------------------------------------ */

/* The rows of a load while they are found. */
struct rows {
    struct node_uses nodes;      /* of the current group */
    struct traffic_list uplinks; /* likewise */
    ARRAY(struct node_at) uses;
    ARRAY(struct uplink_use) ups;
    ARRAY(struct link_sum) links;
    uint64_t *sequence;  /* per node: a hash of its records so far, 0: none */
    struct inner *inner; /* by the first device's place in its node */
};
/* A group inside a node: the same record and place as every group of its pattern that begins there in another node. */
struct inner {
    const struct node_load *load; /* NULL: not met yet */
    uint64_t place;
};

/* Whether a group of a collective is inside one node, and where it begins there. */
static bool is_inside(const struct survey *survey, const struct traffic_load *load,
                      const struct group *group, int64_t *begins)
{
    const struct pattern *pattern = &survey->pattern[load->pattern];
    int64_t per_node = survey->cluster->node.devices, reach = 0;
    if (pattern->order.run || !pattern->digits)
        return false;
    for (int32_t k = 0; k < group->levels; k++) {
        if (group->stride[k] <= 0)
            return false;
        reach += (group->count[k] - 1) * group->stride[k];
    }
    *begins = group->first % per_node;
    return *begins + reach < per_node;
}

static weft_status group_traffic(struct survey *survey, const struct traffic_load *load,
                                 int64_t group, struct rows *rows, uint64_t *place)
{
    struct ledger *ledger = survey->rows->ledger;
    struct group devices = pattern_group_at(&survey->pattern[load->pattern], group);
    int64_t begins = 0;
    bool inside = is_inside(survey, load, &devices, &begins);
    weft_status status;
    if (inside && rows->inner[begins].load) {
        rows->nodes.len = 1; /* as the groups before had */
        rows->uplinks.len = 0;
        rows->nodes.data[0] = (struct node_use){devices.first / survey->cluster->node.devices,
                                                rows->inner[begins].load};
        *place = rows->inner[begins].place;
        return WEFT_OK;
    }
    if (load->kind == TRAFFIC_TO_HOST || load->kind == TRAFFIC_FROM_HOST) {
        struct node_use use;
        rows->nodes.len = rows->uplinks.len = 0;
        TRY(ledger_copy_use(ledger, devices.first, load->kind == TRAFFIC_TO_HOST, LOAD_BYTES,
                            &use));
        array_push(survey->scratch, &rows->nodes, use);
        return WEFT_OK;
    }
    TRY(group_place(survey->cluster, &devices, place));
    TRY(ledger_collective(ledger, ASKED_FOR[load->kind], &devices, LOAD_BYTES, survey->scratch,
                          &rows->nodes, &rows->uplinks));
    if (inside && rows->nodes.len == 1)
        rows->inner[begins] = (struct inner){rows->nodes.data[0].load, *place};
done:
    return status;
}

/* A record that is met for the first time has the number after the last. */
static int32_t row_number(struct node_rows *rows, const struct node_load *load)
{
    if ((size_t)load->number == rows->row.len) {
        double *share = ARENA_ARRAY(rows->arena, double, (size_t)load->links + 1);
        struct node_row row = {.links = load->links, .at = load->at, .share = share};
        for (int32_t i = 0; i < row.links; i++) {
            share[i] = load->bytes[i] / (double)LOAD_BYTES;
            row.peak = fmax(row.peak, share[i]);
            row.alone_s = fmax(row.alone_s, share[i] * rows->place_s[row.at[i]]);
        }
        array_push(rows->arena, &rows->row, row);
    }
    return load->number;
}

static int32_t uplink_number(struct survey *survey, struct rows *rows, int64_t place)
{
    int32_t *number = &survey->link_at[place - span_in_nodes(&survey->span)];
    if (!*number) {
        array_push(survey->scratch, &rows->links, ((struct link_sum){.place = (int32_t)place}));
        *number = (int32_t)rows->links.len;
    }
    return *number - 1;
}

/* Adds the row of one group to the list, and to the sums of links of tiers. */
static void note_row(struct survey *survey, struct rows *rows)
{
    for (size_t i = 0; i < rows->nodes.len; i++) {
        const struct node_use *on = &rows->nodes.data[i];
        struct node_at use = {(int32_t)(on->node - survey->span.first_node),
                              row_number(survey->rows, on->load)};
        rows->sequence[use.node] = mix(rows->sequence[use.node], (uint64_t)use.row);
        array_push(survey->scratch, &rows->uses, use);
    }
    for (size_t i = 0; i < rows->uplinks.len; i++) {
        const struct traffic *traffic = &rows->uplinks.data[i];
        struct uplink_use up = {
            uplink_number(survey, rows, span_place(&survey->span, traffic->link)),
            traffic->bytes / (double)LOAD_BYTES};
        rows->links.data[up.link].sum += up.share;
        array_push(survey->scratch, &rows->ups, up);
    }
}

static void close_rows(struct survey *survey, const struct rows *rows, struct traffic_load *load)
{
    load->use = rows->uses.data;
    load->up = rows->ups.data;
    load->link = rows->links.data;
    load->links = (int64_t)rows->links.len;
    for (int64_t i = 0; i < load->links; i++) /* for the next load */
        survey->link_at[load->link[i].place - span_in_nodes(&survey->span)] = 0;
}

/* Step 1. */
static weft_status list_rows(struct survey *survey, struct traffic_load *load, struct rows *rows)
{
    weft_status status = WEFT_OK;
    int64_t *first = ARENA_ARRAY(survey->scratch, int64_t, (size_t)load->groups + 1);
    int64_t *first_up = ARENA_ARRAY(survey->scratch, int64_t, (size_t)load->groups + 1);
    rows->sequence = ARENA_ARRAY(survey->scratch, uint64_t, (size_t)survey->span.nodes);
    rows->inner = ARENA_ARRAY(survey->scratch, struct inner, (size_t)survey->cluster->node.devices);
    load->member = ARENA_ARRAY(survey->scratch, struct member, (size_t)load->groups);
    for (int64_t g = 0; g < load->groups; g++) {
        load->member[g].group = g;
        TRY(group_traffic(survey, load, g, rows, &load->member[g].place));
        if (g == 0) /* most of the others are like the first */
            array_reserve(survey->scratch, &rows->uses, rows->nodes.len * (size_t)load->groups);
        note_row(survey, rows);
        first[g + 1] = (int64_t)rows->uses.len;
        first_up[g + 1] = (int64_t)rows->ups.len;
    }
    load->members = load->groups;
    load->first = first;
    load->first_up = first_up;
    close_rows(survey, rows, load);
done:
    return status;
}

/* ---- sums of links of nodes ------------------------------------------------------------------ */

uint64_t survey_quantum(double value)
{
    return (uint64_t)llround(value * QUANTA); /* I2 of survey.h */
}

/* survey.h, I4 */
static const uint64_t *hash_tallies(const struct survey *survey, const struct traffic_load *load)
{
    uint64_t *hash = ARENA_ARRAY(survey->scratch, uint64_t, (size_t)load->tallies + 1);
    int32_t per_node = survey->span.per_node;
    for (int32_t t = 0; t < load->tallies; t++)
        for (int32_t at = 0; at < per_node; at++) {
            double sum = load->sum[(int64_t)t * per_node + at];
            if (sum > 0)
                hash[t] += mix((uint64_t)at + 1, survey_quantum(sum));
        }
    return hash;
}

/* Numbers the tallies by the first node of each, which is listed. */
static void number_tallies(struct survey *survey, const struct rows *rows,
                           struct traffic_load *load, int32_t *first)
{
    struct hash_map by_sequence = {0};
    int32_t *tally_of = ARENA_ARRAY(survey->scratch, int32_t, (size_t)survey->span.nodes);
    for (int32_t n = 0; n < (int32_t)survey->span.nodes; n++) {
        tally_of[n] = -1;
        if (!rows->sequence[n])
            continue;
        int64_t *tally = hash_at(&by_sequence, survey->scratch, rows->sequence[n]);
        if (*tally < 0) {
            first[load->tallies] = n;
            *tally = load->tallies++;
        }
        tally_of[n] = (int32_t)*tally;
    }
    load->tally_of = tally_of;
}

/* survey.h, I1: sums are added up on the first node of each tally. */
static void find_tallies(struct survey *survey, const struct rows *rows, struct traffic_load *load)
{
    int32_t per_node = survey->span.per_node;
    int32_t *first = ARENA_ARRAY(survey->scratch, int32_t, (size_t)survey->span.nodes + 1);
    number_tallies(survey, rows, load, first);
    double *sum = ARENA_ARRAY(survey->scratch, double, (size_t)load->tallies *(size_t)per_node + 1);
    for (int64_t u = 0; u < load->first[load->groups]; u++) {
        const struct node_row *row = &survey->rows->row.data[load->use[u].row];
        int32_t tally = load->tally_of[load->use[u].node];
        for (int32_t i = 0; first[tally] == load->use[u].node && i < row->links; i++)
            sum[(int64_t)tally * per_node + row->at[i]] += row->share[i];
    }
    load->sum = sum;
    load->node_hash = hash_tallies(survey, load);
}

/* ---- times (step 2) -------------------------------------------------------------------------- */

/* Seconds per byte of all groups on the slowest link of a record. */
static double sibling_s(const struct survey *survey, const struct traffic_load *load,
                        struct node_at use)
{
    double most = 0;
    for (int32_t i = 0; i < survey->rows->row.data[use.row].links; i++) {
        struct row_use on = node_use_at(survey, load, use, i);
        most = fmax(most, on.sum * survey->rows->place_s[on.place % survey->span.per_node]);
    }
    return most;
}

/* The same for all nodes of a tally. */
struct sibling_memo {
    struct hash_map known;
    ARRAY(double) s;
};

static double sibling_known(const struct survey *survey, const struct traffic_load *load,
                            struct node_at use, struct sibling_memo *memo)
{
    uint64_t key = mix((uint64_t)load->tally_of[use.node], (uint64_t)use.row);
    int64_t *at = hash_at(&memo->known, survey->scratch, key);
    if (*at < 0) {
        *at = (int64_t)memo->s.len;
        array_push(survey->scratch, &memo->s, sibling_s(survey, load, use));
    }
    return memo->s.data[*at];
}

static void measure_nodes(const struct survey *survey, const struct traffic_load *load,
                          struct sibling_memo *memo, struct member *member)
{
    const int64_t from = load->first[member->group], to = load->first[member->group + 1];
    struct node_at last = {-1, -1};
    for (int64_t i = from; i < to; i++) {
        struct node_at use = load->use[i];
        if (use.row == last.row && load->tally_of[use.node] == load->tally_of[last.node])
            continue;
        const struct node_row *row = &survey->rows->row.data[use.row];
        member->peak = fmax(member->peak, row->peak);
        member->alone_s = fmax(member->alone_s, row->alone_s);
        member->sibling_s = fmax(member->sibling_s, sibling_known(survey, load, use, memo));
        last = use;
    }
}

static void measure(const struct survey *survey, struct traffic_load *load)
{
    struct sibling_memo memo = {0};
    for (int64_t g = 0; g < load->groups; g++) {
        struct member *member = &load->member[g];
        measure_nodes(survey, load, &memo, member);
        for (int64_t i = load->first_up[g]; i < load->first_up[g + 1]; i++) {
            struct row_use on = uplink_use_at(load, i);
            double s = survey_s_per_byte(survey, on.place);
            member->peak = fmax(member->peak, on.share);
            member->alone_s = fmax(member->alone_s, on.share * s);
            member->sibling_s = fmax(member->sibling_s, on.sum * s);
        }
    }
}

/* ---- rows that are kept (I1) ----------------------------------------------------------------- */

struct load_cache {
    struct arena *arena;
    struct node_rows *rows;
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

static void keep_rows(struct load_cache *cache, const struct span *span,
                      const struct traffic_load *load, int64_t *number)
{
    size_t groups = (size_t)load->groups, rows = (size_t)load->first[load->groups];
    size_t ups = (size_t)load->first_up[load->groups], tallies = (size_t)load->tallies;
    struct traffic_load kept = *load;
    if (cache->bytes + rows * sizeof *load->use > KEPT_BYTES)
        return;
    kept.member = copied(cache, load->member, groups * sizeof *load->member);
    kept.first = copied(cache, load->first, (groups + 1) * sizeof *load->first);
    kept.first_up = copied(cache, load->first_up, (groups + 1) * sizeof *load->first_up);
    kept.use = copied(cache, load->use, rows * sizeof *load->use);
    kept.up = copied(cache, load->up, ups * sizeof *load->up);
    kept.link = copied(cache, load->link, (size_t)load->links * sizeof *load->link);
    kept.tally_of = copied(cache, load->tally_of, (size_t)span->nodes * sizeof *load->tally_of);
    kept.sum = copied(cache, load->sum, tallies * (size_t)span->per_node * sizeof *load->sum);
    kept.node_hash = copied(cache, load->node_hash, tallies * sizeof *load->node_hash);
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
    struct rows rows = {0};
    weft_status status;
    TRY(list_rows(survey, load, &rows));
    find_tallies(survey, &rows, load);
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
    keep_rows(cache, &survey->span, load, number);
done:
    return status;
}

/* The records are kept where the rows are. */
static struct node_rows *open_rows(const struct survey *survey)
{
    struct load_cache *cache = survey->cache;
    if (!cache)
        return node_rows_new(survey->scratch, survey->cluster);
    if (!cache->rows)
        cache->rows = node_rows_new(cache->arena, survey->cluster);
    return cache->rows;
}

weft_status survey_fill_loads(struct survey *survey)
{
    weft_status status = WEFT_OK;
    survey->span = survey_span(survey);
    survey->rows = open_rows(survey);
    int64_t uplinks = survey->span.links - span_in_nodes(&survey->span);
    survey->link_at = ARENA_ARRAY(survey->scratch, int32_t, (size_t)uplinks + 1);
    for (int32_t l = 0; l < survey->loads; l++)
        TRY(fill_load(survey, &survey->load[l]));
done:
    return status;
}

/* survey.c - what the groups of a pattern put on links, and which links are alike (survey.h). */
#include "sim/survey.h"

#include <math.h>
#include <string.h>

static const double NS_PER_S = 1e9;
/* At most so many classes of a load are tried as covers: more occur only in graphs that are not
 * alike. */
enum { COVERS_TRIED = 64 };
static const double QUANTA = 4294967296.0; /* I2 */
/* Bytes for which traffic is computed, so large that pieces of it are nearly exact. */
static const int64_t LOAD_BYTES = INT64_C(1) << 40;

/* How busy a load keeps links that nothing distinguishes (step 3). */
struct busy {
    int32_t load;
    double s_per_byte; /* of all groups of the load together */
};
struct link_class {
    int64_t place;           /* of one of the links */
    ARRAY(struct busy) busy; /* by load */
    bool covered;
};

static uint64_t quantum(double value)
{
    return (uint64_t)llround(value * QUANTA); /* I2 */
}

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

static weft_status group_traffic(struct survey *survey, const struct traffic_load *load,
                                 int64_t group, struct traffic_list *out, uint64_t *place)
{
    struct group devices = pattern_group(&survey->pattern[load->pattern], group);
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

/* Step 1. */
static weft_status tally(struct survey *survey, struct traffic_load *load)
{
    weft_status status = WEFT_OK;
    struct traffic_list list = {0};
    ARRAY(struct row_use) rows = {0};
    int64_t *first = ARENA_ARRAY(survey->scratch, int64_t, (size_t)load->groups + 1);
    load->member = ARENA_ARRAY(survey->scratch, struct member, (size_t)load->groups);
    for (int64_t g = 0; g < load->groups; g++) {
        load->member[g].group = g;
        TRY(group_traffic(survey, load, g, &list, &load->member[g].place));
        if (g == 0) /* most of the others are like the first */
            array_reserve(survey->scratch, &rows, list.len * (size_t)load->groups);
        for (size_t i = 0; i < list.len; i++) {
            int64_t place = span_place(&survey->span, list.data[i].link);
            double share = list.data[i].bytes / (double)LOAD_BYTES;
            survey->sum[place] += share;
            array_push(survey->scratch, &rows, ((struct row_use){(int32_t)place, share, 0}));
        }
        first[g + 1] = (int64_t)rows.len;
    }
    load->members = load->groups;
    load->first = first;
    load->use = rows.data;
done:
    return status;
}

static double s_per_byte(const struct survey *survey, int64_t place)
{
    const struct span *span = &survey->span;
    if (place < span->nodes * span->per_node)
        return survey->place_s[place % span->per_node];
    return 1 / link_reached_per_s(survey->cluster, survey_link(survey, place));
}

/* Step 2. */
static void measure(const struct survey *survey, struct traffic_load *load)
{
    for (int64_t g = 0; g < load->groups; g++) {
        struct member *member = &load->member[g];
        for (int64_t i = load->first[g]; i < load->first[g + 1]; i++) {
            struct row_use *use = &load->use[i];
            double s = s_per_byte(survey, use->place);
            use->sum = survey->sum[use->place];
            member->peak = fmax(member->peak, use->share);
            member->alone_s = fmax(member->alone_s, use->share * s);
            member->sibling_s = fmax(member->sibling_s, use->sum * s);
        }
    }
}

/* Step 3; also clears the sums for the next load. */
static void colour(struct survey *survey, const struct traffic_load *load)
{
    uint64_t name = (uint64_t)(load - survey->load) + 1;
    for (int64_t i = 0; i < load->first[load->groups]; i++) {
        int32_t place = load->use[i].place;
        if (survey->sum[place] == 0)
            continue;
        if (survey->folded && survey->colour[place] == 0)
            survey->colour[place] = mix(0, quantum(s_per_byte(survey, place) * NS_PER_S));
        if (survey->folded)
            survey->colour[place] += mix(name, quantum(survey->sum[place]));
        survey->sum[place] = 0;
    }
}

static weft_status fill_loads(struct survey *survey)
{
    weft_status status = WEFT_OK;
    survey->place_s = ARENA_ARRAY(survey->scratch, double, (size_t)survey->span.per_node + 1);
    for (int32_t at = 0; at < survey->span.per_node; at++)
        survey->place_s[at] = 1 / link_reached_per_s(survey->cluster, survey_link(survey, at));
    for (int32_t l = 0; l < survey->loads; l++) {
        TRY(tally(survey, &survey->load[l]));
        measure(survey, &survey->load[l]);
        colour(survey, &survey->load[l]);
    }
done:
    return status;
}

/* ---- classes of links ------------------------------------------------------------------------ */

static struct link_class *class_at(struct survey *survey, int64_t place)
{
    if (!survey->class_of[place]) {
        int64_t *class = hash_at(&survey->colours, survey->scratch, survey->colour[place]);
        if (*class < 0) {
            *class = (int64_t)survey->classes.len;
            array_push(survey->scratch, &survey->classes, ((struct link_class){.place = place}));
        }
        survey->class_of[place] = (int32_t)*class + 1;
    }
    return &survey->classes.data[survey->class_of[place] - 1];
}

/* The classes of a load's links, each with how busy the load keeps it. */
static void list_classes(struct survey *survey, struct traffic_load *load)
{
    int32_t number = (int32_t)(load - survey->load);
    for (int64_t i = 0; i < load->first[load->groups]; i++) {
        const struct row_use *use = &load->use[i];
        struct link_class *class = class_at(survey, use->place);
        if (class->busy.len && class->busy.data[class->busy.len - 1].load == number)
            continue;
        struct busy busy = {number, use->sum * s_per_byte(survey, use->place)};
        array_push(survey->scratch, &class->busy, busy);
        array_push(survey->scratch, &load->classes, survey->class_of[use->place] - 1);
    }
}

/* Whether each load of class l keeps class m busy at least as long as l. */
static bool busier(const struct link_class *m, const struct link_class *l)
{
    size_t k = 0;
    for (size_t i = 0; i < l->busy.len; i++) {
        while (k < m->busy.len && m->busy.data[k].load < l->busy.data[i].load)
            k++;
        if (k == m->busy.len || m->busy.data[k].load != l->busy.data[i].load ||
            m->busy.data[k].s_per_byte < l->busy.data[i].s_per_byte * (1 - SURVEY_NOISE))
            return false;
    }
    return true;
}

/* Step 4; of two equally busy classes, the first covers the other. */
static void find_covered(struct survey *survey)
{
    struct link_class *classes = survey->classes.data;
    for (size_t c = 0; c < survey->classes.len; c++) {
        const struct traffic_load *load = &survey->load[classes[c].busy.data[0].load];
        for (size_t i = 0; i < load->classes.len && i < COVERS_TRIED && !classes[c].covered; i++) {
            size_t other = (size_t)load->classes.data[i];
            classes[c].covered = other != c && busier(&classes[other], &classes[c]) &&
                                 (other < c || !busier(&classes[c], &classes[other]));
        }
    }
}

/* ---- which groups are alike ------------------------------------------------------------------ */

static uint64_t signature(struct survey *survey, const struct traffic_load *load, int64_t group)
{
    uint64_t sum = mix(0, quantum(load->member[group].peak));
    for (int64_t i = load->first[group]; i < load->first[group + 1]; i++) {
        int32_t place = load->use[i].place;
        if (!class_at(survey, place)->covered)
            sum += mix(1, survey->colour[place]);
    }
    return sum;
}

/* Keeps those of a load's groups that differ in time alone or signature, the first of each. */
static void classify(struct survey *survey, struct traffic_load *load)
{
    struct hash_map table = {0};
    load->members = 0;
    for (int64_t g = 0; g < load->groups; g++) {
        struct member member = load->member[g];
        member.signature = signature(survey, load, g);
        uint64_t key = mix(member.place, quantum(member.alone_s * NS_PER_S));
        int64_t *known = hash_at(&table, survey->scratch, mix(key, member.signature));
        if (*known >= 0)
            continue;
        *known = load->members;
        load->member[load->members++] = member;
        survey->alike &= member.signature == load->member[0].signature;
    }
}

/* ---- rows by class --------------------------------------------------------------------------- */

typedef ARRAY(struct class_use) row_list;

/* For each class of links, the one that the group fills most. */
static void merge_use(struct survey *survey, row_list *row, const struct row_use *use)
{
    int32_t class = (int32_t)(class_at(survey, use->place) - survey->classes.data);
    size_t k = 0;
    while (k < row->len && row->data[k].class != class)
        k++;
    if (k == row->len) {
        struct class_use first = {class, use->place, use->share, use->sum};
        array_push(survey->scratch, row, first);
    } else if (use->share > row->data[k].share) {
        row->data[k].share = use->share;
        row->data[k].sum = use->sum;
    }
}

void survey_row(struct survey *survey, const struct traffic_load *load, struct member *member)
{
    int64_t from = load->first[member->group], to = load->first[member->group + 1];
    int64_t busiest = from;
    double peak = 0;
    row_list row = {0};
    for (int64_t i = from; i < to; i++) {
        busiest = load->use[i].share > load->use[busiest].share ? i : busiest;
        if (class_at(survey, load->use[i].place)->covered)
            continue;
        peak = fmax(peak, load->use[i].share);
        merge_use(survey, &row, &load->use[i]);
    }
    if (peak < member->peak * (1 - SURVEY_NOISE))
        merge_use(survey, &row, &load->use[busiest]);
    member->use = row.data;
    member->uses = (int32_t)row.len;
}
/* ---- the whole ------------------------------------------------------------------------------- */

static void fold(struct survey *survey)
{
    for (int32_t l = 0; l < survey->loads; l++)
        list_classes(survey, &survey->load[l]);
    find_covered(survey);
    for (int32_t l = 0; l < survey->loads; l++)
        classify(survey, &survey->load[l]);
}

weft_status survey_links(struct survey *survey)
{
    weft_status status;
    survey->ledger = ledger_new(survey->cluster, survey->scratch);
    survey->span = span_of(survey);
    size_t links = (size_t)survey->span.links;
    survey->sum = ARENA_ARRAY(survey->scratch, double, links);
    if (survey->folded) {
        survey->class_of = ARENA_ARRAY(survey->scratch, int32_t, links);
        survey->colour = ARENA_ARRAY(survey->scratch, uint64_t, links);
    }
    TRY(fill_loads(survey));
    if (survey->folded)
        fold(survey);
    survey->numbers = survey->folded ? survey->classes.len : links;
done:
    return status;
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

/* ---- surveys to keep (I3) -------------------------------------------------------------------- */

static uint64_t pattern_key(const struct pattern *p, uint64_t key)
{
    const int64_t words[] = {p->collective, p->first,        p->devices, p->from_first,
                             p->digits,     p->from_devices, 0};
    key = hash_bytes(words, sizeof words, key);
    key = hash_bytes(&p->crossing, sizeof p->crossing, key);
    key = hash_bytes(p->stride, (size_t)p->digits * sizeof *p->stride, key);
    key = hash_bytes(p->degree, (size_t)p->digits * sizeof *p->degree, key);
    for (int64_t i = 0; p->collective == COLLECTIVE_SEND && i < pattern_groups(p); i++) {
        struct group pair = pattern_group(p, i);
        key = mix(mix(key, (uint64_t)pair.first), (uint64_t)pair.stride[0]);
    }
    return key;
}

uint64_t survey_key(const struct survey *survey)
{
    uint64_t key = (uint64_t)survey->loads;
    for (int32_t l = 0; l < survey->loads; l++) {
        key = pattern_key(&survey->pattern[survey->load[l].pattern], key);
        key = mix(key, (uint64_t)survey->load[l].kind);
    }
    return key;
}

static void keep_load(struct survey *survey, struct traffic_load *load, struct arena *keep,
                      struct traffic_load *out)
{
    size_t members = (size_t)load->members;
    *out = (struct traffic_load){.pattern = load->pattern,
                                 .kind = load->kind,
                                 .groups = load->groups,
                                 .members = load->members};
    out->member = ARENA_ARRAY(keep, struct member, members);
    for (size_t m = 0; m < members; m++) {
        struct member *member = &load->member[m];
        survey_row(survey, load, member);
        struct class_use *use = ARENA_ARRAY(keep, struct class_use, (size_t)member->uses + 1);
        if (member->uses)
            memcpy(use, member->use, (size_t)member->uses * sizeof *use);
        out->member[m] = *member;
        out->member[m].use = use;
    }
}

struct survey *survey_keep(struct survey *survey, struct arena *keep)
{
    struct survey *kept = ARENA_NEW(keep, struct survey);
    kept->alike = survey->alike;
    kept->span = survey->span;
    kept->numbers = survey->numbers;
    kept->load = ARENA_ARRAY(keep, struct traffic_load, (size_t)survey->loads);
    for (int32_t l = 0; l < survey->loads; l++)
        keep_load(survey, &survey->load[l], keep, &kept->load[l]);
    return kept;
}

void survey_recall(struct survey *survey, const struct survey *kept)
{
    survey->alike = kept->alike;
    survey->span = kept->span;
    survey->numbers = kept->numbers;
    survey->load = kept->load;
}

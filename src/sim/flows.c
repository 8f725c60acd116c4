/* flows.c - exchanges become flows over links (flows.h has the equations).
 *
 * Traffic is linear in bytes (traffic.c), and rings of one kind differ in their volume only, so
 * that what all exchanges of a pattern put on links is a few *loads*, per byte:
 *
 *   1. the row of each group: its share of a byte on each link; the links' sums            (tally)
 *   2. its peak, and its time on links, alone and with all siblings                      (measure)
 *   3. colour(l) = mix(capacity) + sum over loads of mix(load, sum of l); links of one colour are a
 *      class                                                               (colour, list_classes)
 *   4. class m *covers* class l when every load keeps m busy at least as long as l: whenever l is
 *      full, so is m, and whoever uses l is held by m                                (find_covered)
 *   5. signature(group) = mix(peak) + sum over its links that nothing covers of mix(colour)
 *                                                                                       (classify)
 *
 *   I1  Time and space are linear in the rows' length; nothing is sorted.
 *   I2  Sums are compared in multiples of 2^-32 bytes per byte, colours by 64-bit hashes.
 *   I3  Steps 1 to 5 depend on patterns and kinds of traffic only. What is left of them, the distinct
 *       groups with their rows by class, is a *survey*: a cache keeps it, and what an exchange takes
 *       is then found without looking at devices.
 *   I4  Signatures count links: groups of equal signatures use the same classes equally often,
 *       which is more than flows.h's I3 asks for.
 */
#include "sim/flows.h"

#include <math.h>
#include <string.h>

static const double NS_PER_S = 1e9;
/* Noise of sums of doubles, relative. */
static const double NOISE = 1e-11;
/* Of the classes of a load, so many are tried as covers: more only in graphs that are not alike. */
enum { COVERS_TRIED = 64 };
static const double QUANTA = 4294967296.0; /* I2 */
/* What loads ask traffic for, so that pieces of it are whole enough. */
static const int64_t LOAD_BYTES = INT64_C(1) << 40;

/* ---- kinds of traffic ------------------------------------------------------------------------ */

enum traffic_kind {
    TRAFFIC_RING,
    TRAFFIC_PAIRS,
    TRAFFIC_BROADCAST,
    TRAFFIC_SEND,
    TRAFFIC_TO_HOST,
    TRAFFIC_FROM_HOST,
    TRAFFIC_KIND_COUNT
};
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

static double passes_of(const struct exchange *exchange)
{
    return exchange->kind == EXCHANGE_COLLECTIVE ? TRAFFIC_OF[exchange->collective].passes : 1;
}

static bool is_copy(const struct exchange *exchange)
{
    return exchange->kind != EXCHANGE_COLLECTIVE;
}

/* ---- what is known while flows are found ----------------------------------------------------- */

/* Per byte of the exchange. */
struct row_use {
    int32_t place; /* of the link in the span */
    double share;  /* of this group */
    double sum;    /* of all groups of the load */
};

/* Folded: what a group puts on a class of links, of which `place` is one. */
struct class_use {
    int32_t class, place;
    double share, sum; /* where the group's share is largest */
};

/* A group of a load, or folded several with equal rows. */
struct member {
    int64_t group;
    uint64_t place; /* group_place */
    double peak, alone_s,
        sibling_s; /* its busiest link's share; on links, by itself and with all */
    uint64_t signature;
    const struct class_use *use; /* folded, once a flow needs it */
    int32_t uses;
};

struct load {
    int32_t pattern;
    enum traffic_kind kind;
    int64_t groups;
    struct member *member; /* all groups in order; folded: the distinct ones */
    int64_t members;
    const int64_t *first; /* per group: its row in `use` */
    struct row_use *use;
    ARRAY(int32_t) classes; /* of links that it uses (folded) */
};

/* Links that nothing tells apart (step 3). */
struct busy {
    int32_t load;
    double s_per_byte; /* of all groups of the load together */
};
struct link_class {
    int64_t place;           /* of one of them */
    ARRAY(struct busy) busy; /* by load */
    bool covered;
};

/* Links by number: node by node their places, then tier by tier the uplinks of the units. */
struct span {
    int64_t first_node, nodes;
    int32_t per_node, node_links;
    int64_t tier_first[MAX_TIERS + 1];
    int64_t unit_first[MAX_TIERS + 1];
    int64_t links;
};

/* Of a table of hashes. */
struct entry {
    uint64_t key; /* 0: free */
    int64_t value;
};
struct table {
    struct entry *entry;
    size_t slots, used;
};

struct finding {
    const struct cluster *cluster;
    const struct pattern *pattern;
    bool folded;
    struct arena *scratch, *keep;
    struct ledger *ledger;
    struct span span;
    double *place_s; /* per byte, by place within a node */
    struct load *load;
    int32_t loads;
    int32_t *load_of;  /* pattern * TRAFFIC_KIND_COUNT + kind: number + 1 */
    double *sum;       /* of the load at hand, by link */
    uint64_t *colour;  /* by link (folded) */
    int32_t *class_of; /* by link: class + 1 (folded) */
    ARRAY(struct link_class) classes;
    struct table colours;
    struct table *times; /* in times_arena */
    struct arena *times_arena;
    bool alike;            /* flows.h, I3 */
    int32_t *number;       /* by link, folded by class: as a link of the flows, + 1 */
    ARRAY(int64_t) places; /* per number: a link of the span */
    ARRAY(struct link_use) uses;
    struct flows *out;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u + b; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t quantum(double value)
{
    return (uint64_t)llround(value * QUANTA); /* I2 */
}

/* ---- tables of hashes ------------------------------------------------------------------------ */

static struct entry *find_slot(const struct table *table, uint64_t key)
{
    size_t at = key & (table->slots - 1);
    while (table->entry[at].key && table->entry[at].key != key)
        at = (at + 1) & (table->slots - 1);
    return &table->entry[at];
}

static void grow_table(struct table *table, struct arena *scratch)
{
    struct table grown = {.slots = table->slots ? 2 * table->slots : 256, .used = table->used};
    grown.entry = ARENA_ARRAY(scratch, struct entry, grown.slots);
    for (size_t i = 0; i < table->slots; i++)
        if (table->entry[i].key)
            *find_slot(&grown, table->entry[i].key) = table->entry[i];
    *table = grown;
}

/* The entry of a key; a new one has the value -1. */
static struct entry *table_entry(struct table *table, struct arena *scratch, uint64_t key)
{
    if (2 * (table->used + 1) > table->slots)
        grow_table(table, scratch);
    struct entry *entry = find_slot(table, key | 1);
    if (!entry->key) {
        *entry = (struct entry){key | 1, -1};
        table->used++;
    }
    return entry;
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

static struct span span_of(const struct cluster *cluster, const struct pattern *pattern,
                           int32_t patterns)
{
    struct span span = {.node_links = cluster->node.links,
                        .per_node = 2 * (cluster->node.links + cluster->node.nics)};
    for (int32_t p = 0; p < patterns; p++) {
        span_devices(&span, pattern[p].first, pattern[p].devices, cluster->node.devices);
        if (pattern[p].collective == COLLECTIVE_SEND)
            span_devices(&span, pattern[p].from_first, pattern[p].from_devices,
                         cluster->node.devices);
    }
    span.nodes += span.nodes == 0; /* no patterns */
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

static struct link_id span_link(const struct finding *finding, int64_t place)
{
    const struct span *span = &finding->span;
    if (place >= span->nodes * span->per_node) {
        int32_t t = finding->cluster->fabric.tiers - 1;
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

static void list_loads(struct finding *finding, int32_t patterns, const struct exchange *exchange,
                       int32_t exchanges)
{
    size_t most = (size_t)patterns * TRAFFIC_KIND_COUNT;
    finding->load_of = ARENA_ARRAY(finding->scratch, int32_t, most);
    finding->load = ARENA_ARRAY(finding->scratch, struct load, most);
    for (int32_t i = 0; i < exchanges; i++) {
        int32_t pattern = exchange[i].pattern;
        enum traffic_kind kind = kind_of(&exchange[i]);
        int32_t *number = &finding->load_of[pattern * TRAFFIC_KIND_COUNT + (int32_t)kind];
        if (*number)
            continue;
        finding->load[finding->loads] = (struct load){.pattern = pattern, .kind = kind};
        finding->load[finding->loads].groups = pattern_groups(&finding->pattern[pattern]);
        *number = ++finding->loads;
    }
}

static weft_status group_traffic(struct finding *finding, const struct load *load, int64_t group,
                                 struct traffic_list *out, uint64_t *place)
{
    struct group devices = pattern_group(&finding->pattern[load->pattern], group);
    weft_status status;
    out->len = 0;
    if (load->kind == TRAFFIC_TO_HOST || load->kind == TRAFFIC_FROM_HOST)
        return ledger_copy(finding->ledger, devices.first, load->kind == TRAFFIC_TO_HOST,
                           LOAD_BYTES, finding->scratch, out);
    TRY(group_place(finding->cluster, &devices, place));
    TRY(ledger_collective(finding->ledger, ASKED_FOR[load->kind], &devices, LOAD_BYTES,
                          finding->scratch, out));
done:
    return status;
}

/* Step 1. */
static weft_status tally(struct finding *finding, struct load *load)
{
    weft_status status = WEFT_OK;
    struct traffic_list list = {0};
    ARRAY(struct row_use) rows = {0};
    int64_t *first = ARENA_ARRAY(finding->scratch, int64_t, (size_t)load->groups + 1);
    load->member = ARENA_ARRAY(finding->scratch, struct member, (size_t)load->groups);
    for (int64_t g = 0; g < load->groups; g++) {
        load->member[g].group = g;
        TRY(group_traffic(finding, load, g, &list, &load->member[g].place));
        if (g == 0) /* the others are mostly like it */
            array_reserve(finding->scratch, &rows, list.len * (size_t)load->groups);
        for (size_t i = 0; i < list.len; i++) {
            int64_t place = span_place(&finding->span, list.data[i].link);
            double share = list.data[i].bytes / (double)LOAD_BYTES;
            finding->sum[place] += share;
            array_push(finding->scratch, &rows, ((struct row_use){(int32_t)place, share, 0}));
        }
        first[g + 1] = (int64_t)rows.len;
    }
    load->members = load->groups;
    load->first = first;
    load->use = rows.data;
done:
    return status;
}

static double s_per_byte(const struct finding *finding, int64_t place)
{
    const struct span *span = &finding->span;
    if (place < span->nodes * span->per_node)
        return finding->place_s[place % span->per_node];
    return 1 / link_reached_per_s(finding->cluster, span_link(finding, place));
}

/* Step 2. */
static void measure(const struct finding *finding, struct load *load)
{
    for (int64_t g = 0; g < load->groups; g++) {
        struct member *member = &load->member[g];
        for (int64_t i = load->first[g]; i < load->first[g + 1]; i++) {
            struct row_use *use = &load->use[i];
            double s = s_per_byte(finding, use->place);
            use->sum = finding->sum[use->place];
            member->peak = fmax(member->peak, use->share);
            member->alone_s = fmax(member->alone_s, use->share * s);
            member->sibling_s = fmax(member->sibling_s, use->sum * s);
        }
    }
}

/* Step 3, and clears the sums for the next load. */
static void colour(struct finding *finding, const struct load *load)
{
    uint64_t name = (uint64_t)(load - finding->load) + 1;
    for (int64_t i = 0; i < load->first[load->groups]; i++) {
        int32_t place = load->use[i].place;
        if (finding->sum[place] == 0)
            continue;
        if (finding->folded && finding->colour[place] == 0)
            finding->colour[place] = mix(0, quantum(s_per_byte(finding, place) * NS_PER_S));
        if (finding->folded)
            finding->colour[place] += mix(name, quantum(finding->sum[place]));
        finding->sum[place] = 0;
    }
}

static weft_status fill_loads(struct finding *finding)
{
    weft_status status = WEFT_OK;
    finding->place_s = ARENA_ARRAY(finding->scratch, double, (size_t)finding->span.per_node + 1);
    for (int32_t at = 0; at < finding->span.per_node; at++)
        finding->place_s[at] = 1 / link_reached_per_s(finding->cluster, span_link(finding, at));
    for (int32_t l = 0; l < finding->loads; l++) {
        TRY(tally(finding, &finding->load[l]));
        measure(finding, &finding->load[l]);
        colour(finding, &finding->load[l]);
    }
done:
    return status;
}

/* ---- classes of links ------------------------------------------------------------------------ */

static struct link_class *class_at(struct finding *finding, int64_t place)
{
    if (!finding->class_of[place]) {
        struct entry *entry =
            table_entry(&finding->colours, finding->scratch, finding->colour[place]);
        if (entry->value < 0) {
            entry->value = (int64_t)finding->classes.len;
            array_push(finding->scratch, &finding->classes, ((struct link_class){.place = place}));
        }
        finding->class_of[place] = (int32_t)entry->value + 1;
    }
    return &finding->classes.data[finding->class_of[place] - 1];
}

/* The classes of a load's links, each told how busy the load keeps it. */
static void list_classes(struct finding *finding, struct load *load)
{
    int32_t number = (int32_t)(load - finding->load);
    for (int64_t i = 0; i < load->first[load->groups]; i++) {
        const struct row_use *use = &load->use[i];
        struct link_class *class = class_at(finding, use->place);
        if (class->busy.len && class->busy.data[class->busy.len - 1].load == number)
            continue;
        struct busy busy = {number, use->sum * s_per_byte(finding, use->place)};
        array_push(finding->scratch, &class->busy, busy);
        array_push(finding->scratch, &load->classes, finding->class_of[use->place] - 1);
    }
}

/* Whether class m is busy with each load of l at least as long as l. */
static bool busier(const struct link_class *m, const struct link_class *l)
{
    size_t k = 0;
    for (size_t i = 0; i < l->busy.len; i++) {
        while (k < m->busy.len && m->busy.data[k].load < l->busy.data[i].load)
            k++;
        if (k == m->busy.len || m->busy.data[k].load != l->busy.data[i].load ||
            m->busy.data[k].s_per_byte < l->busy.data[i].s_per_byte * (1 - NOISE))
            return false;
    }
    return true;
}

/* Step 4; of two that are equally busy, the first covers the other. */
static void find_covered(struct finding *finding)
{
    struct link_class *classes = finding->classes.data;
    for (size_t c = 0; c < finding->classes.len; c++) {
        const struct load *load = &finding->load[classes[c].busy.data[0].load];
        for (size_t i = 0; i < load->classes.len && i < COVERS_TRIED && !classes[c].covered; i++) {
            size_t other = (size_t)load->classes.data[i];
            classes[c].covered = other != c && busier(&classes[other], &classes[c]) &&
                                 (other < c || !busier(&classes[c], &classes[other]));
        }
    }
}

/* ---- which groups are alike ------------------------------------------------------------------ */

static uint64_t signature(struct finding *finding, const struct load *load, int64_t group)
{
    uint64_t sum = mix(0, quantum(load->member[group].peak));
    for (int64_t i = load->first[group]; i < load->first[group + 1]; i++) {
        int32_t place = load->use[i].place;
        if (!class_at(finding, place)->covered)
            sum += mix(1, finding->colour[place]);
    }
    return sum;
}

/* Leaves of a load's groups those that differ in time alone or signature, the first of each. */
static void classify(struct finding *finding, struct load *load)
{
    struct table table = {0};
    load->members = 0;
    for (int64_t g = 0; g < load->groups; g++) {
        struct member member = load->member[g];
        member.signature = signature(finding, load, g);
        uint64_t key = mix(member.place, quantum(member.alone_s * NS_PER_S));
        struct entry *entry = table_entry(&table, finding->scratch, mix(key, member.signature));
        if (entry->value >= 0)
            continue;
        entry->value = load->members;
        load->member[load->members++] = member;
        finding->alike &= member.signature == load->member[0].signature;
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

/* collective_time, once for each place. */
static weft_status time_of(struct finding *finding, const struct exchange *exchange,
                           const struct member *member, int64_t bytes, int64_t *ns)
{
    uint64_t key = mix(mix(member->place, (uint64_t)exchange->collective), (uint64_t)bytes);
    struct entry *entry = table_entry(finding->times, finding->times_arena, key);
    weft_status status = WEFT_OK;
    if (entry->value < 0) {
        struct group group = pattern_group(&finding->pattern[exchange->pattern], member->group);
        struct collective_cost cost;
        TRY(collective_time(finding->cluster, (enum collective)exchange->collective, &group, bytes,
                            &cost));
        entry->value = cost.ns;
    }
    *ns = entry->value;
done:
    return status;
}

/* What an exchange takes on one group, and which part of its traffic counts (flows.h, I1). */
struct timing {
    int64_t latency_ns, least_ns, together_ns;
    double bytes;
};

static int64_t whole_ns(double ns)
{
    return (int64_t)ceil(ns * (1 - NOISE));
}

static weft_status timing_of(struct finding *finding, const struct exchange *exchange,
                             const struct member *member, struct timing *out)
{
    weft_status status = WEFT_OK;
    int64_t all_ns = 0;
    *out = (struct timing){.bytes = (double)exchange->bytes * passes_of(exchange)};
    if (is_copy(exchange)) {
        double host_bytes_per_s = finding->cluster->node.device.host_bytes_per_s;
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

/* Folded, links are numbered by class; unfolded each for itself. */
static int32_t link_number(struct finding *finding, int32_t which, int64_t place)
{
    int32_t *number = &finding->number[which];
    if (!*number) {
        array_push(finding->scratch, &finding->places, place);
        *number = (int32_t)finding->places.len;
    }
    return *number - 1;
}

/* Sums of equal shares are whole numbers of them. */
static double times_of(const struct class_use *use)
{
    double times = use->sum / use->share, whole = nearbyint(times);
    return fabs(times - whole) < NOISE * times ? whole : times;
}

static void emit_row(struct finding *finding, const struct row_use *row, int64_t count,
                     double bytes)
{
    for (int64_t i = 0; i < count && bytes > 0; i++) {
        int32_t link = link_number(finding, row[i].place, row[i].place);
        struct link_use use = {link, bytes * row[i].share, 1};
        array_push(finding->keep, &finding->uses, use);
    }
}

static void emit_classes(struct finding *finding, const struct member *member, double bytes)
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

typedef ARRAY(struct class_use) row_list;

/* Of each class of links the one that the group fills most. */
static void merge_use(struct finding *finding, row_list *row, const struct row_use *use)
{
    int32_t class = (int32_t)(class_at(finding, use->place) - finding->classes.data);
    size_t k = 0;
    while (k < row->len && row->data[k].class != class)
        k++;
    if (k == row->len) {
        struct class_use first = {class, use->place, use->share, use->sum};
        array_push(finding->scratch, row, first);
    } else if (use->share > row->data[k].share) {
        row->data[k].share = use->share;
        row->data[k].sum = use->sum;
    }
}

/* A group's links that nothing covers, by class; and its busiest link, by which speeds go. */
static void merge_row(struct finding *finding, const struct load *load, struct member *member)
{
    int64_t from = load->first[member->group], to = load->first[member->group + 1];
    int64_t busiest = from;
    double peak = 0;
    row_list row = {0};
    for (int64_t i = from; i < to; i++) {
        busiest = load->use[i].share > load->use[busiest].share ? i : busiest;
        if (class_at(finding, load->use[i].place)->covered)
            continue;
        peak = fmax(peak, load->use[i].share);
        merge_use(finding, &row, &load->use[i]);
    }
    if (peak < member->peak * (1 - NOISE))
        merge_use(finding, &row, &load->use[busiest]);
    member->use = row.data;
    member->uses = (int32_t)row.len;
}

/* flows.h, I4. */
static weft_status slowest(struct finding *finding, const struct exchange *exchange,
                           struct load *load, struct member **member, struct timing *timing)
{
    weft_status status;
    *member = &load->member[0];
    TRY(timing_of(finding, exchange, *member, timing));
    for (int64_t m = 1; m < load->members; m++) {
        struct timing other;
        TRY(timing_of(finding, exchange, &load->member[m], &other));
        finding->alike &= other.latency_ns == timing->latency_ns &&
                          other.least_ns == timing->least_ns &&
                          fabs(other.bytes - timing->bytes) <= NOISE * timing->bytes;
        if (other.together_ns <= timing->together_ns)
            continue;
        *timing = other;
        *member = &load->member[m];
    }
done:
    return status;
}

static weft_status emit_flow(struct finding *finding, int32_t flow, const struct exchange *exchange)
{
    int32_t number =
        finding->load_of[exchange->pattern * TRAFFIC_KIND_COUNT + (int32_t)kind_of(exchange)];
    struct load *load = &finding->load[number - 1];
    struct member *member = &load->member[finding->folded ? 0 : exchange->group];
    struct timing timing;
    weft_status status;
    if (finding->folded) {
        TRY(slowest(finding, exchange, load, &member, &timing));
        if (!member->use)
            merge_row(finding, load, member);
        emit_classes(finding, member, timing.bytes);
    } else {
        int64_t first = load->first[member->group];
        TRY(timing_of(finding, exchange, member, &timing));
        emit_row(finding, load->use + first, load->first[member->group + 1] - first, timing.bytes);
    }
    finding->out->latency_ns[flow] = timing.latency_ns;
    finding->out->least_ns[flow] = timing.least_ns;
    finding->out->together_ns[flow] = timing.together_ns;
    finding->out->use_first[flow + 1] = (int64_t)finding->uses.len;
done:
    return status;
}

static void write_links(struct finding *finding)
{
    struct flows *out = finding->out;
    out->links = (int32_t)finding->places.len;
    out->link = ARENA_ARRAY(finding->keep, struct link_id, finding->places.len);
    out->link_bytes_per_s = ARENA_ARRAY(finding->keep, double, finding->places.len);
    for (int32_t i = 0; i < out->links; i++) {
        out->link[i] = span_link(finding, finding->places.data[i]);
        out->link_bytes_per_s[i] = link_reached_per_s(finding->cluster, out->link[i]);
    }
    out->use = finding->uses.data;
}

static void fold(struct finding *finding)
{
    for (int32_t l = 0; l < finding->loads; l++)
        list_classes(finding, &finding->load[l]);
    find_covered(finding);
    for (int32_t l = 0; l < finding->loads; l++)
        classify(finding, &finding->load[l]);
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

/* Steps 1 to 5; loads are listed. */
static weft_status look_at_links(struct finding *finding, int32_t patterns)
{
    weft_status status;
    finding->ledger = ledger_new(finding->cluster, finding->scratch);
    finding->span = span_of(finding->cluster, finding->pattern, patterns);
    size_t links = (size_t)finding->span.links;
    finding->sum = ARENA_ARRAY(finding->scratch, double, links);
    if (finding->folded) {
        finding->class_of = ARENA_ARRAY(finding->scratch, int32_t, links);
        finding->colour = ARENA_ARRAY(finding->scratch, uint64_t, links);
    }
    TRY(fill_loads(finding));
    if (finding->folded)
        fold(finding);
done:
    return status;
}

static weft_status emit_flows(struct finding *finding, size_t numbers,
                              const struct exchange *exchanges, int32_t exchange_count)
{
    weft_status status = WEFT_OK;
    finding->number = ARENA_ARRAY(finding->scratch, int32_t, numbers);
    for (int32_t i = 0; i < exchange_count; i++)
        TRY(emit_flow(finding, i, &exchanges[i]));
    write_links(finding);
    finding->out->alike = finding->alike;
done:
    return status;
}

weft_status flows_find(const struct cluster *cluster, const struct pattern *patterns,
                       int32_t pattern_count, const struct exchange *exchanges,
                       int32_t exchange_count, bool folded, struct arena *keep, struct flows *out)
{
    struct arena *scratch = arena_new();
    struct table times = {0};
    struct finding finding = {.cluster = cluster,
                              .pattern = patterns,
                              .folded = folded,
                              .scratch = scratch,
                              .keep = keep,
                              .times = &times,
                              .times_arena = scratch,
                              .alike = true,
                              .out = out};
    weft_status status;
    open_flows(keep, exchange_count, out);
    list_loads(&finding, pattern_count, exchanges, exchange_count);
    TRY(look_at_links(&finding, pattern_count));
    size_t numbers = folded ? finding.classes.len : (size_t)finding.span.links;
    TRY(emit_flows(&finding, numbers, exchanges, exchange_count));
done:
    arena_free(scratch);
    return status;
}

/* ---- surveys (I3) ---------------------------------------------------------------------------- */

struct survey {
    bool alike;
    struct span span;
    size_t classes;
    struct load *load; /* members with their rows; nothing else */
    struct table times;
};
struct flow_cache {
    struct arena *arena;
    ARRAY(struct survey *) surveys;
    struct table by_key;
};

struct flow_cache *flow_cache_new(void)
{
    struct arena *arena = arena_new();
    struct flow_cache *cache = ARENA_NEW(arena, struct flow_cache);
    cache->arena = arena;
    return cache;
}

void flow_cache_free(struct flow_cache *cache)
{
    if (cache)
        arena_free(cache->arena);
}

static uint64_t pattern_key(const struct pattern *p, uint64_t key)
{
    const int64_t words[] = {p->collective, p->first,        p->devices, p->from_first,
                             p->digits,     p->from_devices, 0};
    key = hash_bytes(words, sizeof words, key);
    key = hash_bytes(p->stride, (size_t)p->digits * sizeof *p->stride, key);
    key = hash_bytes(p->degree, (size_t)p->digits * sizeof *p->degree, key);
    for (int64_t i = 0; p->collective == COLLECTIVE_SEND && i < pattern_groups(p); i++) {
        struct group pair = pattern_group(p, i);
        key = mix(mix(key, (uint64_t)pair.first), (uint64_t)pair.stride[0]);
    }
    return key;
}

/* Everything that steps 1 to 5 look at. */
static uint64_t survey_key(const struct finding *finding, int32_t patterns)
{
    uint64_t key = (uint64_t)patterns;
    for (int32_t i = 0; i < patterns; i++)
        key = pattern_key(&finding->pattern[i], key);
    for (int32_t l = 0; l < finding->loads; l++)
        key = mix(mix(key, (uint64_t)finding->load[l].pattern), (uint64_t)finding->load[l].kind);
    return key;
}

static void keep_load(struct finding *finding, struct load *load, struct arena *keep,
                      struct load *out)
{
    size_t members = (size_t)load->members;
    *out = (struct load){.pattern = load->pattern,
                         .kind = load->kind,
                         .groups = load->groups,
                         .members = load->members};
    out->member = ARENA_ARRAY(keep, struct member, members);
    for (size_t m = 0; m < members; m++) {
        struct member *member = &load->member[m];
        merge_row(finding, load, member);
        struct class_use *use = ARENA_ARRAY(keep, struct class_use, (size_t)member->uses + 1);
        if (member->uses)
            memcpy(use, member->use, (size_t)member->uses * sizeof *use);
        out->member[m] = *member;
        out->member[m].use = use;
    }
}

static weft_status make_survey(struct flow_cache *cache, struct finding *finding, int32_t patterns,
                               struct survey *survey)
{
    weft_status status;
    TRY(look_at_links(finding, patterns));
    survey->alike = finding->alike;
    survey->span = finding->span;
    survey->load = ARENA_ARRAY(cache->arena, struct load, (size_t)finding->loads);
    for (int32_t l = 0; l < finding->loads; l++)
        keep_load(finding, &finding->load[l], cache->arena, &survey->load[l]);
    survey->classes = finding->classes.len;
done:
    return status;
}

static weft_status find_survey(struct flow_cache *cache, struct finding *finding, int32_t patterns,
                               struct survey **out)
{
    uint64_t key = survey_key(finding, patterns);
    struct entry *entry = table_entry(&cache->by_key, cache->arena, key);
    weft_status status = WEFT_OK;
    if (entry->value < 0) {
        struct survey *survey = ARENA_NEW(cache->arena, struct survey);
        TRY(make_survey(cache, finding, patterns, survey));
        entry->value = (int64_t)cache->surveys.len;
        array_push(cache->arena, &cache->surveys, survey);
    }
    *out = cache->surveys.data[entry->value];
done:
    return status;
}

weft_status flows_find_again(struct flow_cache *cache, const struct cluster *cluster,
                             const struct pattern *patterns, int32_t pattern_count,
                             const struct exchange *exchanges, int32_t exchange_count,
                             struct arena *keep, struct flows *out)
{
    struct arena *scratch = arena_new();
    struct finding finding = {.cluster = cluster,
                              .pattern = patterns,
                              .folded = true,
                              .scratch = scratch,
                              .keep = keep,
                              .alike = true,
                              .out = out};
    struct survey *survey;
    weft_status status;
    open_flows(keep, exchange_count, out);
    list_loads(&finding, pattern_count, exchanges, exchange_count);
    TRY(find_survey(cache, &finding, pattern_count, &survey));
    finding.span = survey->span;
    finding.load = survey->load;
    finding.alike = survey->alike;
    finding.times = &survey->times;
    finding.times_arena = cache->arena;
    TRY(emit_flows(&finding, survey->classes, exchanges, exchange_count));
done:
    arena_free(scratch);
    return status;
}

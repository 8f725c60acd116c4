/* survey.c - which links are alike for the loads of a survey, and which groups (survey.h, steps 3 to 5). */
#include "sim/survey.h"

#include <math.h>
#include <string.h>

static const double NS_PER_S = 1e9;
/* At most so many classes of a load are tried as covers: more occur only in graphs that are not
 * alike. */
enum { COVERS_TRIED = 64 };

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

/* ---- nodes that are alike (I4) --------------------------------------------------------------- */

static uint64_t node_hash(const struct traffic_load *load, int32_t node)
{
    int32_t tally = load->tally_of[node];
    return tally < 0 ? 0 : load->node_hash[tally];
}

static void find_nodes_alike(struct survey *survey)
{
    int32_t nodes = (int32_t)survey->span.nodes;
    struct hash_map first = {0};
    survey->like = ARENA_ARRAY(survey->scratch, int32_t, (size_t)nodes);
    survey->stand_in = ARENA_ARRAY(survey->scratch, int32_t, (size_t)nodes);
    for (int32_t n = 0; n < nodes; n++) {
        uint64_t hash = 0;
        for (int32_t l = 0; l < survey->loads; l++)
            hash += mix((uint64_t)l + 1, node_hash(&survey->load[l], n));
        int64_t *node = hash_at(&first, survey->scratch, hash);
        if (*node < 0) {
            *node = n;
            survey->stand_in[n] = survey->stand_ins++;
        }
        survey->like[n] = (int32_t)*node;
    }
}

/* ---- classes of links ------------------------------------------------------------------------ */

/* Where the colour of a link is: that of the link which stands for it. */
static int64_t colour_at(const struct survey *survey, int64_t place)
{
    const struct span *span = &survey->span;
    if (place >= span_in_nodes(span))
        return place - span_in_nodes(span) + (int64_t)survey->stand_ins * span->per_node;
    int32_t node = survey->like[place / span->per_node];
    return (int64_t)survey->stand_in[node] * span->per_node + place % span->per_node;
}

static void colour_link(struct survey *survey, uint64_t load, int64_t place, double sum)
{
    uint64_t *colour = &survey->colour[colour_at(survey, place)];
    if (*colour == 0)
        *colour = mix(0, survey_quantum(survey_s_per_byte(survey, place) * NS_PER_S));
    *colour += mix(load, survey_quantum(sum));
}

/* Step 3. */
static void colour(struct survey *survey, const struct traffic_load *load)
{
    uint64_t name = (uint64_t)(load - survey->load) + 1;
    int32_t per_node = survey->span.per_node;
    for (int32_t n = 0; n < (int32_t)survey->span.nodes; n++) {
        if (survey->like[n] != n || load->tally_of[n] < 0)
            continue;
        const double *sum = load->sum + (int64_t)load->tally_of[n] * per_node;
        for (int32_t at = 0; at < per_node; at++)
            if (sum[at] > 0)
                colour_link(survey, name, (int64_t)n * per_node + at, sum[at]);
    }
    for (int64_t i = 0; i < load->links; i++)
        colour_link(survey, name, load->link[i].place, load->link[i].sum);
}

static struct link_class *class_at(struct survey *survey, int64_t place)
{
    int64_t at = colour_at(survey, place);
    if (!survey->class_of[at]) {
        int64_t *class = hash_at(&survey->colours, survey->scratch, survey->colour[at]);
        if (*class < 0) {
            *class = (int64_t)survey->classes.len;
            array_push(survey->scratch, &survey->classes, ((struct link_class){.place = place}));
        }
        survey->class_of[at] = (int32_t)*class + 1;
    }
    return &survey->classes.data[survey->class_of[at] - 1];
}

static void list_class(struct survey *survey, struct traffic_load *load, const struct row_use *use)
{
    int32_t number = (int32_t)(load - survey->load);
    struct link_class *class = class_at(survey, use->place);
    if (class->busy.len && class->busy.data[class->busy.len - 1].load == number)
        return;
    struct busy busy = {number, use->sum * survey_s_per_byte(survey, use->place)};
    array_push(survey->scratch, &class->busy, busy);
    array_push(survey->scratch, &load->classes, (int32_t)(class - survey->classes.data));
}

/* The classes of a load's links in the order of its rows, each with how busy the load keeps it. */
static void list_classes(struct survey *survey, struct traffic_load *load)
{
    for (int64_t g = 0; g < load->groups; g++) {
        for (int64_t i = load->first[g]; i < load->first[g + 1]; i++) {
            struct node_at on = load->use[i];
            if (survey->like[on.node] != on.node)
                continue;
            for (int32_t k = 0; k < survey->rows->row.data[on.row].links; k++) {
                struct row_use use = node_use_at(survey, load, on, k);
                list_class(survey, load, &use);
            }
        }
        for (int64_t i = load->first_up[g]; i < load->first_up[g + 1]; i++) {
            struct row_use use = uplink_use_at(load, i);
            list_class(survey, load, &use);
        }
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

/* What a link adds to signatures. */
static uint64_t link_word(struct survey *survey, int64_t place)
{
    return class_at(survey, place)->covered ? 0 : mix(1, survey->colour[colour_at(survey, place)]);
}

/* What a record adds on nodes that are alike, and what each link of tiers does. */
struct words {
    struct hash_map known;
    ARRAY(uint64_t) word;
    struct node_at last; /* with the node that stands for it */
    uint64_t last_word;
    uint64_t *uplink;
};

static struct words words_of(struct survey *survey, const struct traffic_load *load)
{
    struct words words = {.last = {-1, -1}};
    words.uplink = ARENA_ARRAY(survey->scratch, uint64_t, (size_t)load->links + 1);
    for (int64_t i = 0; i < load->links; i++)
        words.uplink[i] = link_word(survey, load->link[i].place);
    return words;
}

static uint64_t node_word(struct survey *survey, struct words *words, struct node_at use)
{
    const struct node_row *row = &survey->rows->row.data[use.row];
    use.node = survey->like[use.node];
    if (use.node == words->last.node && use.row == words->last.row)
        return words->last_word;
    int64_t *at =
        hash_at(&words->known, survey->scratch, mix((uint64_t)use.node, (uint64_t)use.row));
    if (*at < 0) {
        uint64_t sum = 0;
        for (int32_t i = 0; i < row->links; i++)
            sum += link_word(survey, (int64_t)use.node * survey->span.per_node + row->at[i]);
        *at = (int64_t)words->word.len;
        array_push(survey->scratch, &words->word, sum);
    }
    words->last = use;
    words->last_word = words->word.data[*at];
    return words->last_word;
}

static uint64_t signature(struct survey *survey, const struct traffic_load *load,
                          struct words *words, int64_t group)
{
    uint64_t sum = mix(0, survey_quantum(load->member[group].peak));
    for (int64_t i = load->first[group]; i < load->first[group + 1]; i++)
        sum += node_word(survey, words, load->use[i]);
    for (int64_t i = load->first_up[group]; i < load->first_up[group + 1]; i++)
        sum += words->uplink[load->up[i].link];
    return sum;
}

/* Keeps those of a load's groups that differ in time alone or signature, the first of each. */
static void classify(struct survey *survey, struct traffic_load *load)
{
    struct hash_map table = {0};
    ARRAY(struct member) distinct = {0};
    struct words words = words_of(survey, load);
    for (int64_t g = 0; g < load->groups; g++) {
        struct member member = load->member[g];
        member.signature = signature(survey, load, &words, g);
        uint64_t key = mix(member.place, survey_quantum(member.alone_s * NS_PER_S));
        int64_t *known = hash_at(&table, survey->scratch, mix(key, member.signature));
        if (*known >= 0)
            continue;
        *known = (int64_t)distinct.len;
        array_push(survey->scratch, &distinct, member);
        survey->alike &= member.signature == distinct.data[0].signature;
    }
    load->member = distinct.data;
    load->members = (int64_t)distinct.len;
}

/* ---- rows by class --------------------------------------------------------------------------- */

typedef ARRAY(struct class_use) row_list;

/* For each class of links, the one that the group fills most. */
static void merge_use(struct survey *survey, row_list *row, const struct link_class *of,
                      const struct row_use *use)
{
    int32_t class = (int32_t)(of - survey->classes.data);
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

/* A row while its links are visited in order. */
struct row_scan {
    row_list row;
    double peak, most; /* on links that nothing covers, and on all */
    struct row_use busiest;
    struct hash_map seen; /* records on nodes alike: further ones change nothing */
};

static void scan_link(struct survey *survey, struct row_scan *scan, const struct row_use *use)
{
    const struct link_class *class = class_at(survey, use->place);
    if (use->share > scan->most)
        scan->busiest = *use;
    scan->most = fmax(scan->most, use->share);
    if (class->covered)
        return;
    scan->peak = fmax(scan->peak, use->share);
    merge_use(survey, &scan->row, class, use);
}

static void scan_node(struct survey *survey, const struct traffic_load *load, struct row_scan *scan,
                      struct node_at on)
{
    uint64_t key = mix((uint64_t)load->tally_of[on.node], (uint64_t)on.row);
    int64_t *seen =
        hash_at(&scan->seen, survey->scratch, mix(key, (uint64_t)survey->like[on.node]));
    for (int32_t i = 0; *seen < 0 && i < survey->rows->row.data[on.row].links; i++) {
        struct row_use use = node_use_at(survey, load, on, i);
        scan_link(survey, scan, &use);
    }
    *seen = 1;
}

void survey_row(struct survey *survey, const struct traffic_load *load, struct member *member)
{
    int64_t g = member->group;
    struct row_scan scan = {0};
    for (int64_t i = load->first[g]; i < load->first[g + 1]; i++)
        scan_node(survey, load, &scan, load->use[i]);
    for (int64_t i = load->first_up[g]; i < load->first_up[g + 1]; i++) {
        struct row_use use = uplink_use_at(load, i);
        scan_link(survey, &scan, &use);
    }
    if (scan.peak < member->peak * (1 - SURVEY_NOISE))
        merge_use(survey, &scan.row, class_at(survey, scan.busiest.place), &scan.busiest);
    member->use = scan.row.data;
    member->uses = (int32_t)scan.row.len;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void fold(struct survey *survey)
{
    find_nodes_alike(survey);
    int64_t uplinks = survey->span.links - span_in_nodes(&survey->span);
    size_t links = (size_t)survey->stand_ins * (size_t)survey->span.per_node + (size_t)uplinks;
    survey->class_of = ARENA_ARRAY(survey->scratch, int32_t, links);
    survey->colour = ARENA_ARRAY(survey->scratch, uint64_t, links);
    for (int32_t l = 0; l < survey->loads; l++)
        colour(survey, &survey->load[l]);
    for (int32_t l = 0; l < survey->loads; l++)
        list_classes(survey, &survey->load[l]);
    find_covered(survey);
    for (int32_t l = 0; l < survey->loads; l++)
        classify(survey, &survey->load[l]);
}

weft_status survey_links(struct survey *survey)
{
    weft_status status;
    TRY(survey_fill_loads(survey));
    if (survey->folded)
        fold(survey);
    survey->numbers = survey->folded ? survey->classes.len : (size_t)survey->span.links;
done:
    return status;
}

/* ---- surveys to keep (I3) -------------------------------------------------------------------- */

uint64_t survey_key(const struct survey *survey)
{
    uint64_t key = (uint64_t)survey->loads;
    for (int32_t l = 0; l < survey->loads; l++) {
        key = survey_pattern_key(&survey->pattern[survey->load[l].pattern], key);
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

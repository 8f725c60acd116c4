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

static void find_nodes_alike(struct survey *survey)
{
    int32_t nodes = (int32_t)survey->span.nodes;
    struct hash_map first = {0};
    survey->like = ARENA_ARRAY(survey->scratch, int32_t, (size_t)nodes + 1);
    survey->like[nodes] = nodes; /* links of tiers */
    for (int32_t n = 0; n < nodes; n++) {
        uint64_t hash = 0;
        for (int32_t l = 0; l < survey->loads; l++)
            hash += mix((uint64_t)l + 1, survey->load[l].node_hash[n]);
        int64_t *node = hash_at(&first, survey->scratch, hash);
        *node = *node < 0 ? n : *node;
        survey->like[n] = (int32_t)*node;
    }
}

static bool stands_in(const struct survey *survey, const struct link_sum *link)
{
    return survey->like[link->node] == link->node;
}

/* The link that stands for this one. */
static int64_t place_like(const struct survey *survey, const struct link_sum *link)
{
    int64_t nodes = link->node - survey->like[link->node];
    return link->place - nodes * survey->span.per_node;
}

/* ---- classes of links ------------------------------------------------------------------------ */

/* Step 3. */
static void colour(struct survey *survey, const struct traffic_load *load)
{
    uint64_t name = (uint64_t)(load - survey->load) + 1;
    for (int64_t i = 0; i < load->links; i++) {
        int32_t place = load->link[i].place;
        if (!stands_in(survey, &load->link[i]))
            continue;
        if (survey->colour[place] == 0)
            survey->colour[place] =
                mix(0, survey_quantum(survey_s_per_byte(survey, place) * NS_PER_S));
        survey->colour[place] += mix(name, survey_quantum(load->link[i].sum));
    }
}

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
    for (int64_t i = 0; i < load->links; i++) {
        const struct link_sum *link = &load->link[i];
        if (!stands_in(survey, link))
            continue;
        struct link_class *class = class_at(survey, link->place);
        if (class->busy.len && class->busy.data[class->busy.len - 1].load == number)
            continue;
        struct busy busy = {number, link->sum * survey_s_per_byte(survey, link->place)};
        array_push(survey->scratch, &class->busy, busy);
        array_push(survey->scratch, &load->classes, survey->class_of[link->place] - 1);
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

/* What each link of a load adds to signatures. */
static uint64_t *link_words(struct survey *survey, const struct traffic_load *load)
{
    uint64_t *word = ARENA_ARRAY(survey->scratch, uint64_t, (size_t)load->links);
    for (int64_t i = 0; i < load->links; i++) {
        int64_t place = place_like(survey, &load->link[i]);
        word[i] = class_at(survey, place)->covered ? 0 : mix(1, survey->colour[place]);
    }
    return word;
}

static uint64_t signature(const struct traffic_load *load, const uint64_t *word, int64_t group)
{
    uint64_t sum = mix(0, survey_quantum(load->member[group].peak));
    for (int64_t i = load->first[group]; i < load->first[group + 1]; i++)
        sum += word[load->use[i].link];
    return sum;
}

/* Keeps those of a load's groups that differ in time alone or signature, the first of each. */
static void classify(struct survey *survey, struct traffic_load *load)
{
    struct hash_map table = {0};
    ARRAY(struct member) distinct = {0};
    const uint64_t *word = link_words(survey, load);
    for (int64_t g = 0; g < load->groups; g++) {
        struct member member = load->member[g];
        member.signature = signature(load, word, g);
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

/* The class of the link of an entry of the rows. */
static const struct link_class *class_like(struct survey *survey, const struct traffic_load *load,
                                           int64_t at)
{
    return class_at(survey, place_like(survey, &load->link[load->use[at].link]));
}

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

void survey_row(struct survey *survey, const struct traffic_load *load, struct member *member)
{
    int64_t from = load->first[member->group], to = load->first[member->group + 1];
    int64_t busiest = from;
    double peak = 0, most = 0;
    row_list row = {0};
    for (int64_t i = from; i < to; i++) {
        struct row_use use = row_use_at(load, i);
        const struct link_class *class = class_like(survey, load, i);
        busiest = use.share > most ? i : busiest;
        most = fmax(most, use.share);
        if (class->covered)
            continue;
        peak = fmax(peak, use.share);
        merge_use(survey, &row, class, &use);
    }
    if (peak < member->peak * (1 - SURVEY_NOISE)) {
        struct row_use use = row_use_at(load, busiest);
        merge_use(survey, &row, class_like(survey, load, busiest), &use);
    }
    member->use = row.data;
    member->uses = (int32_t)row.len;
}
/* ---- the whole ------------------------------------------------------------------------------- */

static void fold(struct survey *survey)
{
    size_t links = (size_t)survey->span.links;
    find_nodes_alike(survey);
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
    survey->ledger = ledger_new(survey->cluster, survey->scratch);
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

/* survey.h - what exchanges put on links, whatever their size; private to the room.
 *
 * Traffic is linear in bytes (traffic.c), and rings of one kind differ only in their volume, so
 * what all exchanges of a pattern put on links is a few *loads*, per byte:
 *
 *   1. the row of each group: the nodes that it is on, each with its share of a byte on each link there; the links'
 *      sums                                                                   (list_rows, find_tallies)
 *   2. its peak, and its time on links, alone and with all siblings                      (measure)
 *
 * and folded, where a link stands for its class and a group for those like it (flows.h, I3),
 *
 *   3. colour(l) = mix(capacity) + sum over loads of mix(load, sum of l); links of one colour are a
 *      class                                                               (colour, list_classes)
 *   4. class m *covers* class l when every load keeps m busy at least as long as l: whenever l is
 *      full, so is m, and whoever uses l is held by m                                (find_covered)
 *   5. signature(group) = mix(peak) + sum over its links that nothing covers of mix(colour)
 *                                                                                       (classify)
 *
 *   I1  Time and space are linear in the rows' length, which is that of their groups' nodes; nothing is sorted. What a
 *       group puts on a node is a record of few (struct node_row), and nodes with the same records in the same order
 *       have the same sums, link by link and bit by bit: they share a *tally*.
 *   I2  Sums are compared in multiples of 2^-32 bytes per byte, colours by 64-bit hashes.
 *   I3  Steps 1 to 5 depend only on patterns and kinds of traffic, so the distinct groups with
 *       their rows by class serve every graph that has the same ones (survey_keep).
 *   I4  Nodes on which all loads have the same sums, link by link, have links of the same colours, so only the first
 *       such node is looked at. What steps 2 and 5 find for a record on one node serves all nodes like it.
 *   I5  Signatures count links: groups of equal signatures use the same classes equally often,
 *       which is more than flows.h's I3 requires.
 */
#ifndef WEFT_SIM_SURVEY_H
#define WEFT_SIM_SURVEY_H

#include "compile/compile.h"
#include "sim/hashes.h"

/* Relative noise of sums of doubles. */
static const double SURVEY_NOISE = 1e-11;

enum traffic_kind {
    TRAFFIC_RING,
    TRAFFIC_PAIRS,
    TRAFFIC_BROADCAST,
    TRAFFIC_SEND,
    TRAFFIC_TO_HOST,
    TRAFFIC_FROM_HOST,
    TRAFFIC_KIND_COUNT
};
/* How often an exchange sends its bytes in its kind of traffic. */
double traffic_passes(const struct exchange *exchange);

/* What a group puts on one link, per byte of the exchange. */
struct row_use {
    int32_t place; /* of the link in the span */
    double share;  /* of this group */
    double sum;    /* of all groups of the load */
};

/* What a group puts on the links of one node, per byte: a record of the ledger (struct node_load). */
struct node_row {
    int32_t links;
    const int32_t *at;   /* places within the node */
    const double *share; /* on each */
    double peak;         /* the largest of them */
    double alone_s;      /* seconds on the slowest link, per byte */
};
/* The records that surveys of one cluster have met, by the ledger's numbers. */
struct node_rows {
    struct arena *arena;
    struct ledger *ledger;
    double *place_s;                   /* seconds per byte, by place within a node */
    double tier_s[MAX_LINK_TIERS + 1]; /* and on uplinks, by tier */
    ARRAY(struct node_row) row;
};

/* A row: its nodes and their records, then links of tiers by their numbers in the load. */
struct node_at {
    int32_t node, row;
};
struct uplink_use {
    int32_t link;
    double share;
};

/* Folded: what a group puts on a class of links; `place` is one of them. */
struct class_use {
    int32_t class, place;
    double share, sum; /* on the link where the group's share is largest */
};

/* A group of a load; folded, several with equal rows. */
struct member {
    int64_t group;
    uint64_t place;            /* group_place */
    double peak;               /* the share on its busiest link */
    double alone_s, sibling_s; /* seconds on links per byte, by itself and with all groups */
    uint64_t signature;
    const struct class_use *use; /* folded, after survey_row was called for it */
    int32_t uses;
};

/* A link of a tier, and what all groups of a load put on it. */
struct link_sum {
    int32_t place; /* in the span */
    double sum;
};

struct traffic_load {
    int32_t pattern;
    enum traffic_kind kind;
    int64_t groups;
    struct member *member; /* all groups in order; folded: the distinct ones */
    int64_t members;
    const int64_t *first, *first_up; /* per group: its row in `use` and in `up` */
    const struct node_at *use;
    const struct uplink_use *up;
    const struct link_sum *link; /* each link of tiers once */
    int64_t links;
    const int32_t *tally_of; /* per node of the span (I1); -1: the load is not there */
    int32_t tallies;
    const double *sum;         /* tally * places of a node + place; 0: not used */
    const uint64_t *node_hash; /* per tally: of its places and sums */
    ARRAY(int32_t) classes;    /* of links that it uses (folded) */
};

/* Links by number: node by node their places, then tier by tier the uplinks of the units. */
struct span {
    int64_t first_node, nodes;
    int32_t per_node, node_links;
    int64_t tier_first[MAX_LINK_TIERS + 1];
    int64_t unit_first[MAX_LINK_TIERS + 1];
    int64_t links;
};

struct survey {
    const struct cluster *cluster;
    const struct pattern *pattern;
    int32_t patterns;
    bool folded;
    struct arena *scratch;
    struct load_cache *cache; /* of rows (survey_loads.c, I1); NULL: none */
    /* The result. */
    struct span span;
    struct traffic_load *load;
    int32_t loads;
    int32_t *load_of; /* pattern * TRAFFIC_KIND_COUNT + kind: number + 1 */
    size_t numbers;   /* of classes of links; unfolded, of links */
    bool alike;       /* flows.h, I3 */
    /* The working data of steps 1 to 5. */
    struct node_rows *rows;
    int32_t *link_at;  /* by link of tiers: its number in the current load + 1 */
    int32_t *like;     /* per node: the first node whose links have the same sums (folded) */
    int32_t *stand_in; /* per such node: its number among them (folded) */
    int32_t stand_ins;
    uint64_t *colour;  /* by link of such nodes, then of tiers (folded; colour_at) */
    int32_t *class_of; /* the same: class + 1 (folded) */
    ARRAY(struct link_class) classes;
    struct hash_map colours;
};

/* The part of the span's links that is in nodes. */
static inline int64_t span_in_nodes(const struct span *span)
{
    return span->nodes * span->per_node;
}

/* Link `i` of a record on a node, and a link of a tier. */
static inline struct row_use node_use_at(const struct survey *survey,
                                         const struct traffic_load *load, struct node_at use,
                                         int32_t i)
{
    const struct node_row *row = &survey->rows->row.data[use.row];
    int32_t per_node = survey->span.per_node, at = row->at[i];
    return (struct row_use){use.node * per_node + at, row->share[i],
                            load->sum[(int64_t)load->tally_of[use.node] * per_node + at]};
}
static inline struct row_use uplink_use_at(const struct traffic_load *load, int64_t i)
{
    const struct link_sum *link = &load->link[load->up[i].link];
    return (struct row_use){link->place, load->up[i].share, link->sum};
}

/* The loads of exchanges, without looking at links. `scratch` must live as long as the survey. */
struct survey survey_new(struct arena *scratch, const struct cluster *cluster,
                         const struct pattern *patterns, int32_t pattern_count,
                         const struct exchange *exchanges, int32_t exchange_count, bool folded);
/* Rows for surveys of one cluster, in `keep`. */
struct load_cache *load_cache_new(struct arena *keep);
weft_status survey_fill_loads(struct survey *survey); /* steps 1 and 2 */
uint64_t survey_quantum(double value);                /* I2 */
weft_status survey_links(struct survey *survey);      /* steps 1 to 5 */
struct traffic_load *survey_load(const struct survey *survey, const struct exchange *exchange);
/* Folded: fills in a member's row, by class over the links that nothing covers, and its busiest
 * link, which determines speeds. */
void survey_row(struct survey *survey, const struct traffic_load *load, struct member *member);

/* ---- the span (survey_span.c) ---------------------------------------------------------------- */

struct span survey_span(const struct survey *survey);
int64_t span_place(const struct span *span, struct link_id link);
struct link_id survey_link(const struct survey *survey, int64_t place);
double survey_s_per_byte(const struct survey *survey, int64_t place);
struct node_rows *node_rows_new(struct arena *keep, const struct cluster *cluster);

/* Continues a hash with a pattern. */
uint64_t survey_pattern_key(const struct pattern *pattern, uint64_t key);
/* A hash of all that steps 1 to 5 depend on. */
uint64_t survey_key(const struct survey *survey);
/* The folded result without the working data; and a survey of the same key that uses it. */
struct survey *survey_keep(struct survey *survey, struct arena *keep);
void survey_recall(struct survey *survey, const struct survey *kept);

#endif

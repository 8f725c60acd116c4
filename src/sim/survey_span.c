/* survey_span.c - the links that a survey looks at, by number, and how fast each is (survey.h, struct span). */
#include "sim/survey.h"

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

struct span survey_span(const struct survey *survey)
{
    const struct cluster *cluster = survey->cluster;
    struct span span = {.node_links = cluster->node.links,
                        .per_node = 2 * (cluster->node.links + cluster->node.nics)};
    for (int32_t l = 0; l < survey->loads; l++)
        span_pattern(&span, &survey->pattern[survey->load[l].pattern], cluster->node.devices);
    if (cluster
            ->pools) /* whose units are numbered by their first node, which may be before those of the loads */
        span_devices(&span, 0, cluster_devices(cluster), cluster->node.devices);
    span.nodes += span.nodes == 0; /* no loads */
    span.links = span_in_nodes(&span);
    for (int32_t t = 1; t < cluster->fabric.tiers; t++) {
        int64_t unit = cluster->fabric.tier[t - 1].nodes;
        span.tier_first[t] = span.links;
        span.unit_first[t] = span.first_node / unit;
        span.links += 2 * ((span.first_node + span.nodes) / unit - span.unit_first[t] + 1);
    }
    return span;
}

int64_t span_place(const struct span *span, struct link_id link)
{
    if (link.tier > 0)
        return span->tier_first[link.tier] + 2 * (link.unit - span->unit_first[link.tier]) +
               link.reverse;
    int32_t at = 2 * (link.tier < 0 ? link.link : span->node_links + link.link) + link.reverse;
    return (link.unit - span->first_node) * span->per_node + at;
}

static int32_t tier_of(const struct survey *survey, int64_t place)
{
    int32_t t = survey->cluster->fabric.tiers - 1;
    while (place < survey->span.tier_first[t])
        t--;
    return t;
}

struct link_id survey_link(const struct survey *survey, int64_t place)
{
    const struct span *span = &survey->span;
    if (place >= span_in_nodes(span)) {
        int32_t t = tier_of(survey, place);
        int64_t at = place - span->tier_first[t];
        return (struct link_id){span->unit_first[t] + at / 2, (int16_t)t, 0, at % 2};
    }
    int64_t node = span->first_node + place / span->per_node;
    int32_t at = (int32_t)(place % span->per_node);
    if (at < 2 * span->node_links)
        return (struct link_id){node, -1, (int16_t)(at / 2), at % 2};
    return (struct link_id){node, 0, (int16_t)(at / 2 - span->node_links), at % 2};
}

double survey_s_per_byte(const struct survey *survey, int64_t place)
{
    const struct span *span = &survey->span;
    if (place < span_in_nodes(span))
        return survey->rows->place_s[place % span->per_node];
    return survey->rows->tier_s[tier_of(survey, place)];
}

struct node_rows *node_rows_new(struct arena *keep, const struct cluster *cluster)
{
    struct node_rows *rows = ARENA_NEW(keep, struct node_rows);
    int32_t links = cluster->node.links, places = 2 * (links + cluster->node.nics);
    *rows = (struct node_rows){.arena = keep, .ledger = ledger_new(cluster, keep)};
    rows->place_s = ARENA_ARRAY(keep, double, (size_t)places + 1);
    for (int32_t at = 0; at < places; at++) {
        bool nic = at >= 2 * links;
        struct link_id link = {0, nic ? 0 : -1, (int16_t)(at / 2 - (nic ? links : 0)), at % 2};
        rows->place_s[at] = 1 / link_reached_per_s(cluster, link);
    }
    for (int32_t t = 1; t < cluster->fabric.tiers; t++)
        rows->tier_s[t] =
            1 / link_reached_per_s(cluster, (struct link_id){0, (int16_t)t, 0, false});
    return rows;
}

/* shared_links.c - which steps may meet other traffic (graph.h, I2).
 *
 *   I1  Nodes are alike, and a group that lies in two of them uses all kinds of links that it would
 *       use in more: its links in two nodes stand for all.
 */
#include "compile/assembly.h"

static uint64_t link_hash(struct link_id link)
{
    int64_t key[] = {link.unit, link.tier, link.link, link.reverse};
    return hash_bytes(key, sizeof key, 0);
}

static void add_links(struct arena *scratch, struct hash_map *set, const struct traffic_list *links)
{
    for (size_t i = 0; i < links->len; i++)
        *hash_at(set, scratch, link_hash(links->data[i].link)) = 1;
}

static bool has_any(const struct hash_map *set, const struct traffic_list *links)
{
    for (size_t i = 0; i < links->len; i++)
        if (hash_get(set, link_hash(links->data[i].link)) > 0)
            return true;
    return false;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* The links of the pattern's first group, in at most two nodes (I1). */
static weft_status links_of(struct assembly *a, const struct pattern *pattern,
                            struct traffic_list *out)
{
    struct group group = pattern_group_at(pattern, 0);
    int64_t near = 2 * a->b->plan->cluster->node.devices;
    for (int32_t i = 0; i < group.levels && group.stride[i] > 0; i++) {
        int64_t count = ceil_div(near, group.stride[i]);
        count = count < 2 ? 2 : count;
        group.count[i] = group.count[i] < count ? group.count[i] : count;
    }
    out->len = 0;
    return collective_traffic(a->b->plan->cluster, (enum collective)pattern->collective, &group,
                              1 << 20, a->b->scratch, out);
}

static void name_sends(struct build *b)
{
    for (size_t i = 0; i < b->crossings.len; i++) {
        const struct crossing *c = &b->crossings.data[i];
        const struct joint *j = b->use[c->use].joint;
        intern_send(b, c->from_part, c->to_part, j->forward[1]);
        intern_send(b, c->to_part, c->from_part, j->backward[0]);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

static bool offloads(const struct assembly *a, int32_t stage)
{
    const struct part_lifetimes *part = a->graph->lifetimes->part;
    for (int32_t k = stage; k < a->b->plan->parts; k = plan_next_part(a->b->plan, k))
        if (offloaded_bytes(&part[k]) + copied_bytes(&part[k]) > 0)
            return true;
    return false;
}

/* The links of a stage's checkpoints to the host and back, in as many nodes as are examined for
 * patterns. */
static weft_status add_copies(struct assembly *a, struct ledger *ledger, int32_t number,
                              struct hash_map *set)
{
    const struct stage *stage = &a->b->plan->stage[number];
    int64_t near = 2 * a->b->plan->cluster->node.devices;
    int64_t devices = stage->devices < near ? stage->devices : near;
    struct device_order order = plan_device_order(a->b->plan);
    struct traffic_list links = {0};
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < 2 * devices; i++)
        TRY(ledger_copy(ledger, device_at(&order, stage->first_device + i / 2), i % 2, 1 << 20,
                        a->b->scratch, &links));
    add_links(a->b->scratch, set, &links);
done:
    return status;
}

static weft_status add_all_copies(struct assembly *a, struct hash_map *set)
{
    struct ledger *ledger = NULL;
    weft_status status = WEFT_OK;
    for (int32_t s = 0; s < a->b->plan->stages; s++) {
        if (!offloads(a, s))
            continue;
        if (!ledger)
            ledger = ledger_new(a->b->plan->cluster, a->b->scratch);
        TRY(add_copies(a, ledger, s, set));
    }
done:
    return status;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool leaves_node(const struct traffic_list *links)
{
    for (size_t i = 0; i < links->len; i++)
        if (links->data[i].link.tier >= 0)
            return true;
    return false;
}

static enum meeting meeting_of(const struct block *block, const bool *meets)
{
    enum meeting met = WITHOUT_STEPS;
    for (int32_t i = 0; i < block->items && met != MEETS_OTHERS; i++)
        if (block->item[i].pattern >= 0)
            met = meets[block->item[i].pattern] ? MEETS_OTHERS : MEETS_NOBODY;
    return met;
}

weft_status find_meetings(struct assembly *a)
{
    struct build *b = a->b;
    struct hash_map copies = {0}, sends = {0};
    weft_status status = WEFT_OK;
    name_sends(b);
    struct traffic_list *links = ARENA_ARRAY(b->scratch, struct traffic_list, b->patterns.len);
    /* per pattern: whether copies or others use its links, and whether sends do */
    bool *meets = ARENA_ARRAY(b->scratch, bool, b->patterns.len);
    bool *sent = ARENA_ARRAY(b->scratch, bool, b->patterns.len);
    TRY(add_all_copies(a, &copies));
    for (size_t p = 0; p < b->patterns.len; p++) {
        TRY(links_of(a, &b->patterns.data[p], &links[p]));
        if (b->patterns.data[p].collective == COLLECTIVE_SEND)
            add_links(b->scratch, &sends, &links[p]);
    }
    for (size_t p = 0; p < b->patterns.len; p++) {
        sent[p] = has_any(&sends, &links[p]);
        meets[p] = has_any(&copies, &links[p]) || (sent[p] && !a->sends_apart) ||
                   (a->shared_network && leaves_node(&links[p]));
    }
    a->met = ARENA_ARRAY(b->scratch, enum meeting, b->blocks.len);
    for (size_t i = 0; i < b->blocks.len; i++) {
        a->met[i] = meeting_of(&b->blocks.data[i], meets);
        a->graph->sends_apart |=
            a->met[i] == MEETS_NOBODY && meeting_of(&b->blocks.data[i], sent) == MEETS_OTHERS;
    }
done:
    return status;
}

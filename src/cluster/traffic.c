/* traffic.c - which links a collective uses, and how many bytes cross each.
 *
 *   ring, one node      every hop carries V * (ring's share of the bandwidth)                   (1)
 *   ring, many nodes    the same without the hop that would close the ring; V leaves each node over
 *                       its NICs and V enters; V crosses each uplink once up and once down      (2)
 *   all-to-all          every pair's piece on its own path; what leaves a node or a unit, over its
 *                       NICs or uplink
 *
 *   I1  Within one node, the bytes on all hops of all rings add up to n * V (broadcast: (n-1) * V).
 *   I2  A tree moves what a ring moves to within 1/n, and is charged the same.
 *   I3  The result of a call is linear in its bytes.
 *   I4  The cost of a call is proportional to the group's members and the list's links: the paths
 *       inside a node are found once per device set (node_loads.c).
 */
#include <string.h>

#include "cluster/placement.h"

struct ledger {
    const struct cluster *cluster;
    struct arena *arena; /* owns everything below, for as long as the ledger exists */
    struct share_list shares;
    const struct channels *channels; /* of the set that was looked up last */
    double *bytes;                   /* on the current node, by place (struct load) */
    int32_t *touched;                /* places with bytes */
    int32_t touches;
    struct arena *keep; /* of the current call */
    struct traffic_list *out;
};

static void post(struct ledger *ledger, struct link_id link, double bytes)
{
    if (bytes > 0)
        array_push(ledger->keep, ledger->out, ((struct traffic){link, bytes}));
}

static void charge(struct ledger *ledger, enum load_kind kind, double bytes)
{
    const struct load_list *list = &ledger->channels->load[kind];
    for (int32_t i = 0; i < list->count; i++) {
        int32_t at = list->load[i].at;
        if (ledger->bytes[at] == 0)
            ledger->touched[ledger->touches++] = at;
        ledger->bytes[at] += bytes * list->load[i].share;
    }
}

/* Writes out what the node's links and NICs carry, and clears the sums for the next node. */
static void close_node(struct ledger *ledger, int64_t node)
{
    int32_t links = ledger->cluster->node.links;
    for (int32_t i = 0; i < ledger->touches; i++) {
        int32_t at = ledger->touched[i];
        struct link_id link = {node, -1, (int16_t)(at / 2), at % 2};
        if (at >= 2 * links)
            link = (struct link_id){node, 0, (int16_t)(at / 2 - links), at % 2};
        post(ledger, link, ledger->bytes[at]);
        ledger->bytes[at] = 0;
    }
    ledger->touches = 0;
}

static weft_status open_node(struct ledger *ledger, const struct device_set *set)
{
    if (ledger->channels && memcmp(&ledger->channels->set, set, sizeof *set) == 0)
        return WEFT_OK;
    return channels_get(ledger->cluster, set, ledger->arena, &ledger->channels);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* The bytes on a unit's uplink for a ring that passes once: up unless it ends here, down unless it
 * starts here. */
static void post_ring_uplinks(struct ledger *ledger, const struct node_share *shares,
                              const struct footprint *at, double volume, bool open)
{
    const struct fabric *fabric = &ledger->cluster->fabric;
    for (int32_t t = 0; t + 1 < fabric->tiers; t++) {
        int64_t unit = fabric->tier[t].nodes;
        int64_t first = at->first_node / unit, last = at->last_node / unit;
        for (int64_t i = 0; first != last && i < at->nodes; i++) {
            int64_t here = shares[i].node / unit;
            if (i > 0 && here == shares[i - 1].node / unit)
                continue;
            int16_t tier = (int16_t)(t + 1);
            post(ledger, (struct link_id){here, tier, 0, false}, open && here == last ? 0 : volume);
            post(ledger, (struct link_id){here, tier, 0, true}, open && here == first ? 0 : volume);
        }
    }
}

static weft_status ring_traffic(struct ledger *ledger, enum collective collective,
                                const struct node_share *shares, const struct footprint *at,
                                double bytes)
{
    double volume = ring_volume(collective, at->devices) * bytes;
    bool open = collective == COLLECTIVE_BROADCAST || collective == COLLECTIVE_SEND;
    for (int64_t i = 0; i < at->nodes; i++) {
        weft_status status = open_node(ledger, &shares[i].set);
        if (status != WEFT_OK)
            return status;
        charge(ledger, at->nodes == 1 && !open ? LOAD_RING : LOAD_OPEN_RING, volume);
        if (at->nodes > 1 && !(open && i + 1 == at->nodes))
            charge(ledger, LOAD_LEAVING, volume);
        if (at->nodes > 1 && !(open && i == 0))
            charge(ledger, LOAD_ENTERING, volume);
        close_node(ledger, shares[i].node);
    }
    post_ring_uplinks(ledger, shares, at, volume, open);
    return WEFT_OK;
}

/* ---- all-to-all ------------------------------------------------------------------------------ */

static void post_exchange_uplinks(struct ledger *ledger, const struct node_share *shares,
                                  const struct footprint *at, double piece)
{
    const struct fabric *fabric = &ledger->cluster->fabric;
    int32_t members[MAX_NODE_DEVICES];
    for (int32_t t = 0; t + 1 < fabric->tiers; t++) {
        int64_t unit = fabric->tier[t].nodes;
        for (int64_t i = 0, inside = 0; i < at->nodes; i++) {
            int64_t here = shares[i].node / unit;
            inside += set_members(&shares[i].set, members);
            if (i + 1 < at->nodes && shares[i + 1].node / unit == here)
                continue;
            double bytes = piece * (double)inside * (double)(at->devices - inside);
            post(ledger, (struct link_id){here, (int16_t)(t + 1), 0, false}, bytes);
            post(ledger, (struct link_id){here, (int16_t)(t + 1), 0, true}, bytes);
            inside = 0;
        }
    }
}

static weft_status exchange_traffic(struct ledger *ledger, const struct node_share *shares,
                                    const struct footprint *at, double crossing, double bytes)
{
    double piece = bytes / (double)at->devices, far = piece * exchange_crossing(crossing);
    int32_t members[MAX_NODE_DEVICES];
    for (int64_t i = 0; i < at->nodes; i++) {
        weft_status status = open_node(ledger, &shares[i].set);
        if (status != WEFT_OK)
            return status;
        double local = set_members(&shares[i].set, members);
        double leaving = far * local * ((double)at->devices - local);
        charge(ledger, LOAD_PAIRS, piece * exchange_inside(crossing, (double)at->devices, local));
        if (at->nodes > 1) {
            charge(ledger, LOAD_LEAVING, leaving);
            charge(ledger, LOAD_ENTERING, leaving);
        }
        close_node(ledger, shares[i].node);
    }
    post_exchange_uplinks(ledger, shares, at, far);
    return WEFT_OK;
}

/* A send to a device with a lower number uses the same links in the other direction. */
static void turn_round(struct traffic *traffic, size_t count)
{
    for (size_t i = 0; i < count; i++)
        traffic[i].link.reverse = !traffic[i].link.reverse;
}

/* ---- the list -------------------------------------------------------------------------------- */

struct ledger *ledger_new(const struct cluster *cluster, struct arena *keep)
{
    struct ledger *ledger = ARENA_NEW(keep, struct ledger);
    size_t places = (size_t)load_places(&cluster->node) + 1;
    *ledger = (struct ledger){.cluster = cluster, .arena = keep};
    ledger->bytes = ARENA_ARRAY(keep, double, places);
    ledger->touched = ARENA_ARRAY(keep, int32_t, places);
    return ledger;
}

weft_status ledger_collective(struct ledger *ledger, enum collective collective,
                              const struct group *group, int64_t bytes, struct arena *keep,
                              struct traffic_list *out)
{
    struct footprint at = {0};
    weft_status status;
    ledger->keep = keep;
    ledger->out = out;
    TRY(group_shares(ledger->cluster, group, ledger->arena, &ledger->shares, &at));
    if (at.devices < 2 || bytes <= 0)
        goto done;
    size_t before = out->len;
    if (collective == COLLECTIVE_ALL_TO_ALL)
        TRY(exchange_traffic(ledger, ledger->shares.data, &at, group->crossing, (double)bytes));
    else
        TRY(ring_traffic(ledger, collective, ledger->shares.data, &at, (double)bytes));
    if (collective == COLLECTIVE_SEND && group_device(group, 0) > group_device(group, 1))
        turn_round(out->data + before, out->len - before);
done:
    return status;
}

weft_status ledger_copy(struct ledger *ledger, int64_t device, bool to_host, int64_t bytes,
                        struct arena *keep, struct traffic_list *out)
{
    struct device_set set = {{0}};
    int64_t per_node = ledger->cluster->node.devices;
    weft_status status;
    ledger->keep = keep;
    ledger->out = out;
    set_add(&set, device % per_node);
    TRY(open_node(ledger, &set));
    charge(ledger, to_host ? LOAD_TO_HOST : LOAD_FROM_HOST, (double)bytes);
    close_node(ledger, device / per_node);
done:
    return status;
}

weft_status collective_traffic(const struct cluster *cluster, enum collective collective,
                               const struct group *group, int64_t bytes, struct arena *keep,
                               struct traffic_list *out)
{
    struct arena *scratch = arena_new();
    weft_status status =
        ledger_collective(ledger_new(cluster, scratch), collective, group, bytes, keep, out);
    arena_free(scratch);
    return status;
}

double link_bytes_per_s(const struct cluster *cluster, struct link_id link)
{
    if (link.tier < 0)
        return cluster->node.link[link.link].bytes_per_s;
    if (link.tier == 0)
        return cluster->node.nic_bytes_per_s / cluster->node.nics;
    return cluster->fabric.tier[link.tier - 1].uplink_bytes_per_s;
}

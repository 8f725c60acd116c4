/* traffic.c - which links a collective occupies, and with how many bytes each.
 *
 *   ring, one node      every hop carries V * (ring's share of the bandwidth)                   (1)
 *   ring, many nodes    the same without the hop that would close the ring; V leaves each node over
 *                       its NICs and V enters; V crosses each uplink once up and once down      (2)
 *   all-to-all          every pair's piece on its own path; what leaves a node or a unit, over its
 *                       NICs or uplink
 *
 *   I1  Within one node, the bytes on all hops of all rings add up to n * V (broadcast: (n-1) * V).
 *   I2  A tree moves what a ring moves to within 1/n, and is charged the same.
 */
#include "cluster/placement.h"

struct ledger {
    const struct cluster *cluster;
    struct arena *keep, *scratch;
    struct traffic_list *out;
    double *link_bytes; /* of the node at hand: 2 * link + reverse */
    double *nic_bytes;  /* 2 * nic + downwards */
};

static void post(struct ledger *ledger, struct link_id link, double bytes)
{
    if (bytes > 0)
        array_push(ledger->keep, ledger->out, ((struct traffic){link, bytes}));
}

static void charge_path(struct ledger *ledger, const struct path *path, double bytes,
                        bool backwards)
{
    for (int32_t s = 0; s < path->steps; s++) {
        bool reverse = path->step[s].reverse != backwards;
        ledger->link_bytes[2 * path->step[s].link + reverse] += bytes * path->step[s].share;
    }
}

static void charge_nic(struct ledger *ledger, const struct nic_use *use, double bytes, bool down)
{
    charge_path(ledger, &use->path, bytes, down);
    ledger->nic_bytes[2 * use->nic + down] += bytes;
}

/* Writes out what the node's links and NICs carry, and clears the books for the next node. */
static void close_node(struct ledger *ledger, int64_t node)
{
    for (int32_t i = 0; i < 2 * ledger->cluster->node.links; i++) {
        post(ledger, (struct link_id){node, -1, (int16_t)(i / 2), i % 2}, ledger->link_bytes[i]);
        ledger->link_bytes[i] = 0;
    }
    for (int32_t i = 0; i < 2 * ledger->cluster->node.nics; i++) {
        post(ledger, (struct link_id){node, 0, (int16_t)(i / 2), i % 2}, ledger->nic_bytes[i]);
        ledger->nic_bytes[i] = 0;
    }
}

/* ---- rings ----------------------------------------------------------------------------------- */

static void charge_rings(struct ledger *ledger, const struct channels *channels, double volume,
                         bool closed)
{
    for (int32_t r = 0; r < channels->rings.count; r++) {
        const struct ring *ring = &channels->rings.ring[r];
        double bytes = volume * ring->bytes_per_s / channels->rings.bytes_per_s;
        for (int32_t i = 0; i < ring->length - !closed; i++) {
            int32_t to = ring->device[(i + 1) % ring->length];
            struct path path = path_between(&ledger->cluster->node, &channels->set, ring->device[i],
                                            to, ledger->scratch);
            charge_path(ledger, &path, bytes, false);
        }
    }
}

static void charge_nics(struct ledger *ledger, const struct channels *channels, double volume,
                        bool down)
{
    double total = 0;
    for (int32_t i = 0; i < channels->nics; i++)
        total += channels->nic[i].bytes_per_s;
    for (int32_t i = 0; i < channels->nics; i++)
        charge_nic(ledger, &channels->nic[i], volume * channels->nic[i].bytes_per_s / total, down);
}

/* A unit's uplink for a ring that comes by once: up unless it ends here, down unless it starts
 * here. */
static void post_ring_uplinks(struct ledger *ledger, const struct share *shares,
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
                                const struct share *shares, const struct footprint *at,
                                double bytes)
{
    double volume = ring_volume(collective, at->devices) * bytes;
    bool open = collective == COLLECTIVE_BROADCAST || collective == COLLECTIVE_SEND;
    for (int64_t i = 0; i < at->nodes; i++) {
        const struct channels *channels;
        weft_status status =
            channels_get(ledger->cluster, &shares[i].set, ledger->scratch, &channels);
        if (status != WEFT_OK)
            return status;
        charge_rings(ledger, channels, volume, at->nodes == 1 && !open);
        if (at->nodes > 1 && !(open && i + 1 == at->nodes))
            charge_nics(ledger, channels, volume, false);
        if (at->nodes > 1 && !(open && i == 0))
            charge_nics(ledger, channels, volume, true);
        close_node(ledger, shares[i].node);
    }
    post_ring_uplinks(ledger, shares, at, volume, open);
    return WEFT_OK;
}

/* ---- all-to-all ------------------------------------------------------------------------------ */

static void charge_pairs(struct ledger *ledger, const struct channels *channels, double piece)
{
    int32_t device[MAX_NODE_DEVICES];
    int32_t count = set_members(&channels->set, device);
    for (int32_t i = 0; i < count * count; i++) {
        if (i / count == i % count)
            continue;
        struct path path = path_between(&ledger->cluster->node, &channels->set, device[i / count],
                                        device[i % count], ledger->scratch);
        charge_path(ledger, &path, piece, false);
    }
}

static void post_exchange_uplinks(struct ledger *ledger, const struct share *shares,
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

static weft_status exchange_traffic(struct ledger *ledger, const struct share *shares,
                                    const struct footprint *at, double bytes)
{
    double piece = bytes / (double)at->devices;
    for (int64_t i = 0; i < at->nodes; i++) {
        const struct channels *channels;
        weft_status status =
            channels_get(ledger->cluster, &shares[i].set, ledger->scratch, &channels);
        if (status != WEFT_OK)
            return status;
        int32_t members[MAX_NODE_DEVICES];
        double local = set_members(&shares[i].set, members);
        double leaving = piece * local * ((double)at->devices - local);
        charge_pairs(ledger, channels, piece);
        if (at->nodes > 1) {
            charge_nics(ledger, channels, leaving, false);
            charge_nics(ledger, channels, leaving, true);
        }
        close_node(ledger, shares[i].node);
    }
    post_exchange_uplinks(ledger, shares, at, piece);
    return WEFT_OK;
}

/* A send to a lower device: the same links the other way. */
static void turn_round(struct traffic *traffic, size_t count)
{
    for (size_t i = 0; i < count; i++)
        traffic[i].link.reverse = !traffic[i].link.reverse;
}

/* ---- the list -------------------------------------------------------------------------------- */

weft_status collective_traffic(const struct cluster *cluster, enum collective collective,
                               const struct group *group, int64_t bytes, struct arena *keep,
                               struct traffic_list *out)
{
    struct arena *scratch = arena_new();
    struct ledger ledger = {.cluster = cluster, .keep = keep, .scratch = scratch, .out = out};
    struct footprint at;
    struct share *shares;
    weft_status status;
    TRY(group_shares(cluster, group, scratch, &shares, &at));
    if (at.devices < 2 || bytes <= 0)
        goto done;
    ledger.link_bytes = ARENA_ARRAY(scratch, double, 2 * (size_t)cluster->node.links + 1);
    ledger.nic_bytes = ARENA_ARRAY(scratch, double, 2 * (size_t)cluster->node.nics + 1);
    size_t before = out->len;
    if (collective == COLLECTIVE_ALL_TO_ALL)
        TRY(exchange_traffic(&ledger, shares, &at, (double)bytes));
    else
        TRY(ring_traffic(&ledger, collective, shares, &at, (double)bytes));
    if (collective == COLLECTIVE_SEND && group_device(group, 0) > group_device(group, 1))
        turn_round(out->data + before, out->len - before);
done:
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

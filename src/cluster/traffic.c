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
 *   I4  The cost of a call is proportional to the group's nodes and, to find these, to its members: what a node's links
 *       carry follows from the members there and from what passes them, and is written down once for all nodes on
 *       which both are the same (struct charges). The paths inside a node are found once per device set
 *       (node_loads.c).
 */
#include <string.h>

#include "cluster/pools_room.h"

/* What a node is charged with. Bytes below 0: the load is not there. */
struct charges {
    struct device_set set;
    double inside, leaving, entering; /* bytes of these loads */
    int32_t inside_kind;              /* enum load_kind */
    int32_t turned;                   /* 1: all links the other way */
    int64_t pool;                     /* of the node */
};
_Static_assert(sizeof(struct charges) == sizeof(struct device_set) + 40,
               "charges are hashed as bytes");

/* A record and what it was made from. */
struct charged {
    struct charges charges;
    struct node_load load;
};

struct ledger {
    const struct cluster *cluster;
    struct arena *arena; /* owns everything below, for as long as the ledger exists */
    struct share_list shares;
    const struct channels *channels; /* of the set that was looked up last, */
    int64_t channels_pool;           /* in this pool */
    ARRAY(struct charged *) charged; /* by number */
    struct hash_map by_charges;
    const struct charged *last;
    double *bytes;    /* on the current node, by place (struct load) */
    int32_t *touched; /* places with bytes */
    int32_t touches;
    struct arena *keep; /* of the current call */
    struct node_uses *nodes;
    struct traffic_list *uplinks;
    int32_t turned;
};

static void post(struct ledger *ledger, struct link_id link, double bytes)
{
    if (bytes > 0)
        array_push(ledger->keep, ledger->uplinks, ((struct traffic){link, bytes}));
}

/* ---- what one node carries ------------------------------------------------------------------- */

static void charge(struct ledger *ledger, enum load_kind kind, double bytes)
{
    const struct load_list *list = &ledger->channels->load[kind];
    for (int32_t i = 0; bytes >= 0 && i < list->count; i++) {
        int32_t at = list->load[i].at;
        if (ledger->bytes[at] == 0)
            ledger->touched[ledger->touches++] = at;
        ledger->bytes[at] += bytes * list->load[i].share;
    }
}

/* The place in the whole of a place in a pool's node (pools.h, I2). */
static int32_t place_in_whole(const struct cluster *cluster, int64_t pool, int32_t place)
{
    if (!cluster->pools)
        return place;
    const struct node_pool *of = &cluster->pool[pool];
    int32_t links = 2 * of->cluster->node.links;
    return place < links ? place + 2 * of->first_link
                         : place - links + 2 * (cluster->node.links + of->first_nic);
}

/* Writes down what the node's links and NICs carry, and clears the sums for the next record. */
static struct node_load write_load(struct ledger *ledger, int32_t number,
                                   const struct charges *charges)
{
    int32_t *at = ARENA_ARRAY(ledger->arena, int32_t, (size_t)ledger->touches + 1);
    double *bytes = ARENA_ARRAY(ledger->arena, double, (size_t)ledger->touches + 1);
    struct node_load load = {.number = number, .at = at, .bytes = bytes};
    for (int32_t i = 0; i < ledger->touches; i++) {
        int32_t place = ledger->touched[i];
        if (ledger->bytes[place] > 0) {
            at[load.links] =
                place_in_whole(ledger->cluster, charges->pool, place ^ charges->turned);
            bytes[load.links++] = ledger->bytes[place];
        }
        ledger->bytes[place] = 0;
    }
    ledger->touches = 0;
    return load;
}

static weft_status open_node(struct ledger *ledger, int64_t pool, const struct device_set *set)
{
    if (ledger->channels && ledger->channels_pool == pool &&
        memcmp(&ledger->channels->set, set, sizeof *set) == 0)
        return WEFT_OK;
    ledger->channels_pool = pool;
    return channels_get(cluster_pool(ledger->cluster, (int32_t)pool), set, &ledger->arena,
                        &ledger->channels);
}

static bool charged_alike(const struct charges *a, const struct charges *b)
{
    return memcmp(&a->set, &b->set, sizeof a->set) == 0 && a->inside == b->inside &&
           a->leaving == b->leaving && a->entering == b->entering &&
           a->inside_kind == b->inside_kind && a->turned == b->turned && a->pool == b->pool;
}

static bool same_charges(const void *things, int64_t value, const void *wanted)
{
    const struct charged *const *charged = things;
    return charged_alike(&charged[value]->charges, wanted);
}

static weft_status record_of(struct ledger *ledger, const struct charges *c,
                             const struct node_load **out)
{
    weft_status status = WEFT_OK;
    if (!ledger->last || !charged_alike(&ledger->last->charges, c)) {
        int64_t *number =
            hash_at_same(&ledger->by_charges, ledger->arena, hash_bytes(c, sizeof *c, 0),
                         same_charges, ledger->charged.data, c);
        if (*number < 0) {
            TRY(open_node(ledger, c->pool, &c->set));
            *number = (int64_t)ledger->charged.len;
            struct charged *charged = ARENA_NEW(ledger->arena, struct charged);
            charge(ledger, (enum load_kind)c->inside_kind, c->inside);
            charge(ledger, LOAD_LEAVING, c->leaving);
            charge(ledger, LOAD_ENTERING, c->entering);
            charged->charges = *c;
            charged->load = write_load(ledger, (int32_t)*number, c);
            array_push(ledger->arena, &ledger->charged, charged);
        }
        ledger->last = ledger->charged.data[*number];
    }
    *out = &ledger->last->load;
done:
    return status;
}

static weft_status use_node(struct ledger *ledger, int64_t node, struct charges *charges)
{
    struct node_use use = {.node = node};
    weft_status status;
    charges->pool = pool_of_node(ledger->cluster, node);
    TRY(record_of(ledger, charges, &use.load));
    array_push(ledger->keep, ledger->nodes, use);
done:
    return status;
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* Of two pools that a group reaches neither need be the first or the last. */
static bool crosses_units(const struct cluster *cluster, int32_t t, const struct node_share *shares,
                          const struct footprint *at)
{
    int64_t first = tier_unit(cluster, t, at->first_node);
    bool crosses = first != tier_unit(cluster, t, at->last_node);
    for (int64_t i = 0; cluster->pools && !crosses && i < at->nodes; i++)
        crosses = first != tier_unit(cluster, t, shares[i].node);
    return crosses;
}

/* The bytes on a unit's uplink for a ring that passes once: up unless it ends here, down unless it
 * starts here. */
static void post_ring_uplinks(struct ledger *ledger, const struct node_share *shares,
                              const struct footprint *at, double volume, bool open)
{
    const struct cluster *cluster = ledger->cluster;
    for (int32_t t = 0; t + 1 < cluster->fabric.tiers; t++) {
        int64_t first = tier_unit(cluster, t, at->first_node);
        int64_t last = tier_unit(cluster, t, at->last_node), before = NO_UNIT;
        bool crosses = crosses_units(cluster, t, shares, at);
        for (int64_t i = 0; crosses && i < at->nodes; i++) {
            int64_t here = tier_unit(cluster, t, shares[i].node);
            bool same = here == before;
            before = here;
            if (same || here == NO_UNIT)
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
    bool open = collective == COLLECTIVE_BROADCAST || collective == COLLECTIVE_SEND ||
                collective == COLLECTIVE_HALO;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < at->nodes; i++) {
        bool leaves = at->nodes > 1 && !(open && i + 1 == at->nodes);
        bool enters = at->nodes > 1 && !(open && i == 0);
        struct charges charges = {.set = shares[i].set,
                                  .inside_kind =
                                      at->nodes == 1 && !open ? LOAD_RING : LOAD_OPEN_RING,
                                  .inside = volume,
                                  .leaving = leaves ? volume : -1,
                                  .entering = enters ? volume : -1,
                                  .turned = ledger->turned};
        TRY(use_node(ledger, shares[i].node, &charges));
    }
    post_ring_uplinks(ledger, shares, at, volume, open);
done:
    return status;
}

/* ---- all-to-all ------------------------------------------------------------------------------ */

static void post_exchange_uplinks(struct ledger *ledger, const struct node_share *shares,
                                  const struct footprint *at, double piece)
{
    const struct cluster *cluster = ledger->cluster;
    int32_t members[MAX_NODE_DEVICES];
    for (int32_t t = 0; t + 1 < cluster->fabric.tiers; t++) {
        for (int64_t i = 0, inside = 0; i < at->nodes; i++) {
            int64_t here = tier_unit(cluster, t, shares[i].node);
            inside += set_members(&shares[i].set, members);
            if (i + 1 < at->nodes && tier_unit(cluster, t, shares[i + 1].node) == here)
                continue;
            double bytes =
                here == NO_UNIT ? 0 : piece * (double)inside * (double)(at->devices - inside);
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
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < at->nodes; i++) {
        double local = set_members(&shares[i].set, members);
        double leaving = at->nodes > 1 ? far * local * ((double)at->devices - local) : -1;
        struct charges charges = {.set = shares[i].set,
                                  .inside_kind = LOAD_PAIRS,
                                  .inside =
                                      piece * exchange_inside(crossing, (double)at->devices, local),
                                  .leaving = leaving,
                                  .entering = leaving,
                                  .turned = ledger->turned};
        TRY(use_node(ledger, shares[i].node, &charges));
    }
    post_exchange_uplinks(ledger, shares, at, far);
done:
    return status;
}

/* A send to a device with a lower number uses the same links in the other direction. */
static bool goes_down(enum collective collective, const struct group *group)
{
    return collective == COLLECTIVE_SEND && group_device(group, 0) > group_device(group, 1);
}

static void turn_round(struct traffic_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        list->data[i].link.reverse = !list->data[i].link.reverse;
}

/* ---- the lists ------------------------------------------------------------------------------- */

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
                              struct node_uses *nodes, struct traffic_list *uplinks)
{
    struct footprint at = {0};
    weft_status status;
    ledger->keep = keep;
    ledger->nodes = nodes;
    ledger->uplinks = uplinks;
    nodes->len = uplinks->len = 0;
    TRY(group_shares(ledger->cluster, group, ledger->arena, &ledger->shares, &at));
    if (at.devices < 2 || bytes <= 0)
        goto done;
    ledger->turned = goes_down(collective, group);
    if (collective == COLLECTIVE_ALL_TO_ALL)
        TRY(exchange_traffic(ledger, ledger->shares.data, &at, group->crossing, (double)bytes));
    else
        TRY(ring_traffic(ledger, collective, ledger->shares.data, &at, (double)bytes));
    if (ledger->turned)
        turn_round(uplinks);
done:
    return status;
}

weft_status ledger_copy_use(struct ledger *ledger, int64_t device, bool to_host, int64_t bytes,
                            struct node_use *out)
{
    int64_t per_node = ledger->cluster->node.devices;
    struct charges charges = {.inside_kind = to_host ? LOAD_TO_HOST : LOAD_FROM_HOST,
                              .inside = (double)bytes,
                              .leaving = -1,
                              .entering = -1};
    set_add(&charges.set, device % per_node);
    out->node = device / per_node;
    charges.pool = pool_of_node(ledger->cluster, out->node);
    return record_of(ledger, &charges, &out->load);
}

/* A node's links one by one. */
static void list_links(const struct cluster *cluster, const struct node_use *use,
                       struct arena *keep, struct traffic_list *out)
{
    int32_t links = cluster->node.links;
    for (int32_t i = 0; i < use->load->links; i++) {
        int32_t at = use->load->at[i];
        struct link_id link = {use->node, -1, (int16_t)(at / 2), at % 2};
        if (at >= 2 * links)
            link = (struct link_id){use->node, 0, (int16_t)(at / 2 - links), at % 2};
        array_push(keep, out, ((struct traffic){link, use->load->bytes[i]}));
    }
}

weft_status ledger_copy(struct ledger *ledger, int64_t device, bool to_host, int64_t bytes,
                        struct arena *keep, struct traffic_list *out)
{
    struct node_use use;
    weft_status status;
    TRY(ledger_copy_use(ledger, device, to_host, bytes, &use));
    list_links(ledger->cluster, &use, keep, out);
done:
    return status;
}

weft_status collective_traffic(const struct cluster *cluster, enum collective collective,
                               const struct group *group, int64_t bytes, struct arena *keep,
                               struct traffic_list *out)
{
    struct arena *scratch = arena_new();
    struct node_uses nodes = {0};
    struct traffic_list uplinks = {0};
    weft_status status;
    TRY(ledger_collective(ledger_new(cluster, scratch), collective, group, bytes, scratch, &nodes,
                          &uplinks));
    for (size_t i = 0; i < nodes.len; i++)
        list_links(cluster, &nodes.data[i], keep, out);
    for (size_t i = 0; i < uplinks.len; i++)
        array_push(keep, out, uplinks.data[i]);
done:
    arena_free(scratch);
    return status;
}

double link_bytes_per_s(const struct cluster *cluster, struct link_id link)
{
    struct link_id in_pool;
    const struct cluster *own = cluster->pools ? pools_link(cluster, link, &in_pool) : NULL;
    if (own)
        return link_bytes_per_s(own, in_pool);
    if (link.tier < 0)
        return cluster->node.link[link.link].bytes_per_s;
    if (link.tier == 0)
        return cluster->node.nic_bytes_per_s / cluster->node.nics;
    return cluster->fabric.tier[link.tier - 1].uplink_bytes_per_s;
}

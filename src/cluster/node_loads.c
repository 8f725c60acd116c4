/* node_loads.c - the load that the collectives of a device set put on the links of its node, per byte.
 *
 *   ring r's hops carry           bandwidth(r) / bandwidth of all rings                        (1)
 *   the path to NIC i carries     bandwidth(i) / bandwidth of all NICs of the set              (2)
 *   pairs                         each pair's byte on its own path; through NVSwitches every device
 *                                 sends count-1 bytes up and receives as many                  (3)
 *
 *   I1  A list has each place of the node at most once, in ascending order.
 */
#include <string.h>

#include "cluster/placement.h"

struct load_tally {
    const struct node_type *node;
    struct arena *scratch, *keep;
    double *share; /* by place (struct load) */
};

static void add_path(struct load_tally *tally, const struct path *path, double share,
                     bool backwards)
{
    for (int32_t s = 0; s < path->steps; s++) {
        bool reverse = path->step[s].reverse != backwards;
        tally->share[2 * path->step[s].link + reverse] += share * path->step[s].share;
    }
}

static void add_hop(struct load_tally *tally, const struct device_set *set, int32_t from,
                    int32_t to, double share)
{
    struct path path = path_between(tally->node, set, from, to, tally->scratch);
    add_path(tally, &path, share, false);
}

/* Turns the tally into a list and clears it (I1). */
static struct load_list close_tally(struct load_tally *tally)
{
    struct load_list list = {0};
    int32_t places = load_places(tally->node);
    for (int32_t at = 0; at < places; at++)
        list.count += tally->share[at] > 0;
    list.load = ARENA_ARRAY(tally->keep, struct load, (size_t)list.count);
    for (int32_t at = 0, i = 0; at < places; at++)
        if (tally->share[at] > 0)
            list.load[i++] = (struct load){at, tally->share[at]};
    memset(tally->share, 0, (size_t)places * sizeof *tally->share);
    return list;
}

/* (1) */
static struct load_list ring_load(struct load_tally *tally, const struct channels *channels,
                                  bool closed)
{
    for (int32_t r = 0; r < channels->rings.count; r++) {
        const struct ring *ring = &channels->rings.ring[r];
        for (int32_t i = 0; i < ring->length - !closed; i++)
            add_hop(tally, &channels->set, ring->device[i], ring->device[(i + 1) % ring->length],
                    ring->bytes_per_s / channels->rings.bytes_per_s);
    }
    return close_tally(tally);
}

/* (2) */
static struct load_list nic_load(struct load_tally *tally, const struct channels *channels,
                                 bool down)
{
    double total = 0;
    for (int32_t i = 0; i < channels->nics; i++)
        total += channels->nic[i].bytes_per_s;
    for (int32_t i = 0; i < channels->nics; i++) {
        const struct nic_use *use = &channels->nic[i];
        add_path(tally, &use->path, use->bytes_per_s / total, down);
        tally->share[2 * (tally->node->links + use->nic) + down] += use->bytes_per_s / total;
    }
    return close_tally(tally);
}

/* (3) */
static struct load_list pair_load(struct load_tally *tally, const struct channels *channels)
{
    int32_t device[MAX_NODE_DEVICES];
    int32_t count = set_members(&channels->set, device);
    for (int32_t i = 0; channels->switched && count > 1 && i < count; i++)
        add_hop(tally, &channels->set, device[i], device[(i + 1) % count], count - 1);
    for (int32_t i = 0; !channels->switched && i < count * count; i++)
        if (i / count != i % count)
            add_hop(tally, &channels->set, device[i / count], device[i % count], 1);
    return close_tally(tally);
}

static struct load_list host_load(struct load_tally *tally, const struct channels *channels,
                                  bool up)
{
    int32_t device[MAX_NODE_DEVICES];
    if (set_members(&channels->set, device) == 1) {
        struct path path = path_from_host(tally->node, device[0], tally->scratch);
        add_path(tally, &path, 1, up);
    }
    return close_tally(tally);
}

void find_loads(const struct node_type *node, struct arena *scratch, struct arena *keep,
                struct channels *channels)
{
    struct load_tally tally = {node, scratch, keep, NULL};
    tally.share = ARENA_ARRAY(scratch, double, (size_t)load_places(node) + 1);
    channels->load[LOAD_RING] = ring_load(&tally, channels, true);
    channels->load[LOAD_OPEN_RING] = ring_load(&tally, channels, false);
    channels->load[LOAD_PAIRS] = pair_load(&tally, channels);
    channels->load[LOAD_LEAVING] = nic_load(&tally, channels, false);
    channels->load[LOAD_ENTERING] = nic_load(&tally, channels, true);
    channels->load[LOAD_TO_HOST] = host_load(&tally, channels, true);
    channels->load[LOAD_FROM_HOST] = host_load(&tally, channels, false);
}

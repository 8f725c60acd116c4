/* channels.c - what one set of devices of a node has for its collectives: rings, all-pairs paths,
 * NICs, and the loads that these put on links; found once per set and cached.
 *
 *   seconds per byte = max over links of (transfers of one byte that cross it) / bandwidth      (1)
 *
 *   I1  A device uses the NICs nearest to it in links: its share of the node's NICs, at least one.
 *       Among equally near NICs it takes the least used. The choice does not depend on the group.
 *   I2  The cache is filled under a lock and read without one; an entry never changes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/placement.h"

enum { CACHE_SLOTS = 1 << 12, PROBES = 64 };

struct channel_cache {
    pthread_mutex_t lock;
    struct arena *arena;
    _Atomic(const struct channels *) slot[CACHE_SLOTS + PROBES];
};

struct channel_cache *channel_cache_new(void)
{
    struct arena *arena = arena_new();
    struct channel_cache *cache = ARENA_NEW(arena, struct channel_cache);
    pthread_mutex_init(&cache->lock, NULL);
    cache->arena = arena;
    return cache;
}

void channel_cache_free(struct channel_cache *cache)
{
    if (!cache)
        return;
    pthread_mutex_destroy(&cache->lock);
    arena_free(cache->arena);
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* Adds one byte from one device to another to the loads of the links on its path (2 * link +
 * reverse). */
static weft_status add_load(const struct node_type *node, const struct device_set *set,
                            int32_t from, int32_t to, struct arena *scratch, double *load)
{
    struct path path = path_between(node, set, from, to, scratch);
    if (path.steps == 0)
        return bad_argument("join them by links to a PCIe switch or a socket",
                            "devices %d and %d of node type '%s' have no path between them", from,
                            to, node->name);
    for (int32_t s = 0; s < path.steps; s++)
        load[2 * path.step[s].link + path.step[s].reverse] += path.step[s].share;
    return WEFT_OK;
}

/* Equation 1, for each kind of link. */
static void fullest_links(const struct node_type *node, const double *load, double *s_per_byte)
{
    for (int32_t i = 0; i < 2 * node->links; i++) {
        const struct link *link = &node->link[i / 2];
        double seconds = load[i] > 0 ? load[i] / link->bytes_per_s : 0;
        if (seconds > s_per_byte[link->kind])
            s_per_byte[link->kind] = seconds;
    }
}

static weft_status exchange(const struct node_type *node, const int32_t *device, int32_t count,
                            struct arena *scratch, struct channels *out)
{
    weft_status status = WEFT_OK;
    if (out->switched) {
        out->exchange_s_per_byte[LINK_NVLINK] = (count - 1) / out->rings.bytes_per_s;
        return WEFT_OK;
    }
    double *load = ARENA_ARRAY(scratch, double, 2 * (size_t)node->links);
    for (int32_t i = 0; i < count * count; i++)
        if (i / count != i % count)
            TRY(add_load(node, &out->set, device[i / count], device[i % count], scratch, load));
    fullest_links(node, load, out->exchange_s_per_byte);
done:
    return status;
}

/* Rings of direct wires use only those; a ring over PCIe crosses several kinds of links. */
static weft_status ring_loads(const struct node_type *node, struct arena *scratch,
                              struct channels *out)
{
    weft_status status = WEFT_OK;
    const struct ring *ring = &out->rings.ring[0];
    if (ring->slowest == LINK_NVLINK) {
        out->ring_s_per_byte[LINK_NVLINK] = 1 / out->rings.bytes_per_s;
        return WEFT_OK;
    }
    struct device_set none = {{0}};
    double *load = ARENA_ARRAY(scratch, double, 2 * (size_t)node->links);
    for (int32_t i = 0; i < ring->length; i++)
        TRY(add_load(node, &none, ring->device[i], ring->device[(i + 1) % ring->length], scratch,
                     load));
    fullest_links(node, load, out->ring_s_per_byte);
done:
    return status;
}

/* Does a hop of some ring lack a wire of its own? */
static bool rings_relayed(const struct node_type *node, const struct device_set *set,
                          const struct rings *rings, struct arena *scratch)
{
    for (int32_t r = 0; r < rings->count; r++)
        for (int32_t i = 0; rings->ring[r].slowest == LINK_NVLINK && i < rings->ring[r].length;
             i++) {
            const struct ring *ring = &rings->ring[r];
            int32_t next = ring->device[(i + 1) % ring->length];
            if (path_between(node, set, ring->device[i], next, scratch).relayed)
                return true;
        }
    return false;
}

/* ---- NICs (I1) ------------------------------------------------------------------------------- */

/* Links from every device to every NIC: hops[nic * devices + device]. One search per NIC, because a
 * node with 72 devices and 72 NICs has 5,184 pairs. */
static const int32_t *nic_distances(const struct node_type *node, struct arena *scratch)
{
    int32_t *hops = ARENA_ARRAY(scratch, int32_t, (size_t)node->nics *(size_t)node->devices);
    for (int32_t v = node->devices, nic = 0; v < node->vertices; v++)
        if (node->vertex[v].kind == VERTEX_NIC)
            distances_to(node, v, scratch, &hops[nic++ * node->devices]);
    return hops;
}

static int32_t nearest_nic(const struct node_type *node, int32_t device, const int32_t *hops,
                           const int32_t *used, const bool *taken)
{
    int32_t best = -1, best_hops = 0;
    for (int32_t nic = 0; nic < node->nics; nic++) {
        int32_t far = hops[nic * node->devices + device];
        bool nearer = best < 0 || far < best_hops || (far == best_hops && used[nic] < used[best]);
        if (!taken[nic] && nearer) {
            best = nic;
            best_hops = far;
        }
    }
    return best;
}

static int32_t nic_vertex(const struct node_type *node, int32_t nic)
{
    for (int32_t v = node->devices;; v++)
        if (node->vertex[v].kind == VERTEX_NIC && nic-- == 0)
            return v;
}

/* The NICs of every device, nic[device * per_device + k], assigned as if all devices took part, so
 * that groups that run side by side do not share one NIC while the next one idles. */
static const int32_t *assign_nics(const struct node_type *node, int32_t per_device,
                                  struct arena *scratch)
{
    const int32_t *hops = nic_distances(node, scratch);
    int32_t *used = ARENA_ARRAY(scratch, int32_t, (size_t)node->nics);
    int32_t *assigned = ARENA_ARRAY(scratch, int32_t, (size_t)node->devices *(size_t)per_device);
    for (int32_t device = 0; device < node->devices; device++) {
        bool *taken = ARENA_ARRAY(scratch, bool, (size_t)node->nics);
        for (int32_t k = 0; k < per_device; k++) {
            int32_t nic = nearest_nic(node, device, hops, used, taken);
            taken[nic] = true;
            used[nic]++;
            assigned[device * per_device + k] = nic;
        }
    }
    return assigned;
}

static void use_nics(const struct node_type *node, const int32_t *device, int32_t count,
                     struct arena *scratch, struct arena *keep, struct channels *out)
{
    if (node->nics == 0)
        return;
    double each = node->nic_bytes_per_s / node->nics;
    int32_t per_device = node->nics / node->devices > 1 ? node->nics / node->devices : 1;
    const int32_t *assigned = assign_nics(node, per_device, scratch);
    int32_t *used = ARENA_ARRAY(scratch, int32_t, (size_t)node->nics);
    double *reached = ARENA_ARRAY(scratch, double, (size_t)node->nics);
    out->nic = ARENA_ARRAY(keep, struct nic_use, (size_t)count * (size_t)per_device);
    for (int32_t i = 0; i < count * per_device; i++) {
        int32_t from = device[i / per_device];
        struct nic_use use = {.nic = assigned[from * per_device + i % per_device], .device = from};
        use.path = path_to_vertex(node, from, nic_vertex(node, use.nic), keep);
        use.bytes_per_s =
            use.path.steps > 0 && use.path.bytes_per_s < each ? use.path.bytes_per_s : each;
        used[use.nic]++;
        reached[use.nic] += use.bytes_per_s;
        out->nic_path_bytes_per_s[use.path.slowest] += use.path.bytes_per_s;
        out->nic[out->nics++] = use;
    }
    for (int32_t nic = 0; nic < node->nics; nic++)
        out->nic_bytes_per_s += reached[nic] < each ? reached[nic] : each;
    for (int32_t i = 0; i < out->nics; i++)
        out->nic[i].bytes_per_s /= used[out->nic[i].nic];
}

/* ---- finding and caching --------------------------------------------------------------------- */

weft_status channels_find(const struct cluster *cluster, const struct device_set *set,
                          struct arena *keep, const struct channels **out)
{
    const struct node_type *node = &cluster->node;
    struct channels *channels = ARENA_NEW(keep, struct channels);
    struct arena *scratch = arena_new();
    weft_status status = WEFT_OK;
    int32_t device[MAX_NODE_DEVICES];
    int32_t count = set_members(set, device);
    channels->set = *set;
    channels->switched = true;
    for (int32_t i = 0; i < count; i++)
        channels->switched &= switch_bandwidth(node, device[i]) > 0;
    use_nics(node, device, count, scratch, keep, channels);
    if (count > 1) {
        TRY(find_rings(node, device, count, keep, &channels->rings));
        TRY(ring_loads(node, scratch, channels));
        TRY(exchange(node, device, count, scratch, channels));
        channels->relayed =
            !channels->switched && rings_relayed(node, set, &channels->rings, scratch);
    }
    find_loads(node, scratch, keep, channels);
    *out = channels;
done:
    arena_free(scratch);
    return status;
}

/* The slot that holds the set, or the empty one where it belongs; false when neither is near. */
static bool probe(const struct channel_cache *cache, const struct device_set *set, size_t *slot,
                  const struct channels **found)
{
    size_t start = hash_bytes(set, sizeof *set, 0) % CACHE_SLOTS;
    for (size_t i = 0; i < PROBES; i++) {
        *slot = start + i;
        *found = atomic_load(&cache->slot[*slot]);
        if (!*found || memcmp(&(*found)->set, set, sizeof *set) == 0)
            return true;
    }
    *found = NULL;
    return false;
}

/* *out stays NULL when there is no slot for the set. */
static weft_status cache_fill(const struct cluster *cluster, const struct device_set *set,
                              const struct channels **out)
{
    struct channel_cache *cache = cluster->channels;
    weft_status status = WEFT_OK;
    struct hold hold;
    pthread_mutex_lock(&cache->lock);
    hold_push(&hold, hold_unlock, &cache->lock);
    size_t slot;
    if (probe(cache, set, &slot, out) && !*out) {
        TRY(channels_find(cluster, set, cache->arena, out));
        atomic_store(&cache->slot[slot], *out);
    }
done:
    hold_pop(&hold);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

weft_status channels_get(const struct cluster *cluster, const struct device_set *set,
                         struct arena **scratch, const struct channels **out)
{
    size_t slot;
    *out = NULL;
    if (cluster->channels && probe(cluster->channels, set, &slot, out) && !*out) {
        weft_status status = cache_fill(cluster, set, out);
        if (status)
            return status;
    }
    if (*out)
        return WEFT_OK;
    if (!*scratch)
        *scratch = arena_new();
    return channels_find(cluster, set, *scratch, out);
}

/* rings.c - the rings that NCCL's graph search finds on a node's links.
 *
 * Where every device of the set reaches an NVSwitch, one ring stands for all:
 *   bandwidth = min over devices of its wires to the switches                                   (1)
 * On direct wires, with w_ij wires between i and j, rings are undirected Hamiltonian cycles that
 * together use no wire twice, each run in both directions; there are at most
 *   min_i floor(sum_j w_ij / 2)                                                                 (2)
 * of them. Two devices make one ring per wire.
 *
 *   I1  A DGX-1 (V100) gives 3 cycles over its 24 wires, so 6 rings of one wire each; its groups of
 *       2..8 give 1 2 4 2 2 4 6 rings, as the bus bandwidths in vTrain's V100 table show.
 *   I2  Where no cycle exists, a hop may pass through a third device of the set (NCCL's NVB path).
 *       It may come back over the wire it left by, so each direction is then searched by itself.
 *       Where that fails too, the ring goes over PCIe and sockets.
 *   I3  The search is bounded in steps, and deterministic.
 */
#include <string.h>

#include "cluster/placement.h"

enum {
    MAX_WIRED_DEVICES = 32, /* with direct wires; no machine joins more devices without a switch */
    MAX_CYCLES = 64,
    SEARCH_STEPS = 200000 /* per number of cycles tried; a DGX-1 needs under 100 */
};

struct wiring {
    int32_t count;                                       /* devices */
    int32_t wires[MAX_WIRED_DEVICES][MAX_WIRED_DEVICES]; /* wires that are still free */
    double wire_bytes_per_s;
    /* whether hops may pass through a third device (I2); rings then have one direction */
    bool relays;
    int32_t wanted;
    int32_t cycle[MAX_CYCLES][MAX_WIRED_DEVICES];
    int64_t steps;
};

static bool extend(struct wiring *w, int32_t cycle, int32_t position);

/* Takes `n` wires from u to v (negative: returns them), and those from v to u unless directions
 * differ. */
static void take(struct wiring *w, int32_t u, int32_t v, int32_t n)
{
    w->wires[u][v] -= n;
    if (!w->relays)
        w->wires[v][u] -= n;
}

/* Continues from u to v as the next device of the cycle, or closes the cycle when v is its
 * first. */
static bool hop(struct wiring *w, int32_t cycle, int32_t position, int32_t v)
{
    if (position < w->count) {
        w->cycle[cycle][position] = v;
        return extend(w, cycle, position + 1);
    }
    return cycle + 1 == w->wanted || extend(w, cycle + 1, 1);
}

static bool visited(const struct wiring *w, int32_t cycle, int32_t position, int32_t v)
{
    for (int32_t i = 0; i < position; i++)
        if (w->cycle[cycle][i] == v)
            return true;
    return false;
}

static bool try_direct(struct wiring *w, int32_t cycle, int32_t position, int32_t u, int32_t v)
{
    if (w->wires[u][v] == 0)
        return false;
    take(w, u, v, 1);
    bool found = hop(w, cycle, position, v);
    if (!found)
        take(w, u, v, -1);
    return found;
}

static bool try_relayed(struct wiring *w, int32_t cycle, int32_t position, int32_t u, int32_t v)
{
    for (int32_t relay = 0; relay < w->count; relay++) {
        if (relay == u || relay == v || w->wires[u][relay] == 0 || w->wires[relay][v] == 0)
            continue;
        take(w, u, relay, 1);
        take(w, relay, v, 1);
        if (hop(w, cycle, position, v))
            return true;
        take(w, relay, v, -1);
        take(w, u, relay, -1);
    }
    return false;
}

/* Depth-first search; each cycle begins with device 0 of the set. */
static bool extend(struct wiring *w, int32_t cycle, int32_t position)
{
    if (++w->steps > SEARCH_STEPS)
        return false;
    int32_t u = w->cycle[cycle][position - 1];
    if (position == w->count)
        return try_direct(w, cycle, position, u, 0) ||
               (w->relays && try_relayed(w, cycle, position, u, 0));
    for (int32_t v = 1; v < w->count; v++)
        if (!visited(w, cycle, position, v) && try_direct(w, cycle, position, u, v))
            return true;
    for (int32_t v = 1; w->relays && v < w->count; v++)
        if (!visited(w, cycle, position, v) && w->wires[u][v] == 0 &&
            try_relayed(w, cycle, position, u, v))
            return true;
    return false;
}

/* Equation 2; twice as many if each direction is counted by itself. */
static int32_t most_cycles(const struct wiring *w)
{
    int32_t most = MAX_CYCLES, wires_each = w->relays ? 1 : 2;
    for (int32_t i = 0; i < w->count; i++) {
        int32_t degree = 0;
        for (int32_t j = 0; j < w->count; j++)
            degree += w->wires[i][j];
        most = degree / wires_each < most ? degree / wires_each : most;
    }
    return most;
}

/* As many cycles as possible; leaves them in w->cycle and returns their number. */
static int32_t pack_cycles(struct wiring *w)
{
    struct wiring start = *w;
    for (int32_t wanted = most_cycles(w); wanted > 0; wanted--) {
        *w = start;
        w->wanted = wanted;
        if (extend(w, 0, 1))
            return wanted;
    }
    return 0;
}

static void read_wires(const struct node_type *node, const int32_t *devices, int32_t count,
                       struct wiring *w)
{
    int32_t *index = (int32_t[MAX_NODE_DEVICES]){0};
    for (int32_t i = 0; i < count; i++)
        index[devices[i]] = i + 1;
    memset(w, 0, sizeof *w);
    w->count = count;
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        if (link->kind != LINK_NVLINK || link->a >= node->devices || link->b >= node->devices ||
            !index[link->a] || !index[link->b] || link->a == link->b)
            continue;
        int32_t wires = link->count > 0 ? link->count : 1;
        double wire_bytes_per_s = link->bytes_per_s / wires;
        if (w->wire_bytes_per_s == 0 || wire_bytes_per_s < w->wire_bytes_per_s)
            w->wire_bytes_per_s = wire_bytes_per_s;
        take(w, index[link->a] - 1, index[link->b] - 1, -wires);
    }
}

static struct ring new_ring(struct arena *keep, const int32_t *order, int32_t count,
                            double bytes_per_s, enum link_kind slowest)
{
    struct ring ring = {count, ARENA_ARRAY(keep, int32_t, (size_t)count), bytes_per_s, slowest};
    memcpy(ring.device, order, (size_t)count * sizeof *order);
    return ring;
}

/* Two devices: one ring per wire. */
static bool pair_rings(const struct wiring *w, const int32_t *devices, struct arena *keep,
                       struct rings *out)
{
    int32_t wires = w->wires[0][1];
    out->ring = ARENA_ARRAY(keep, struct ring, (size_t)wires + 1);
    for (out->count = 0; out->count < wires; out->count++)
        out->ring[out->count] = new_ring(keep, devices, 2, w->wire_bytes_per_s, LINK_NVLINK);
    out->bytes_per_s = wires * w->wire_bytes_per_s;
    return wires > 0;
}

/* Each cycle, forwards and (without relays) backwards. */
static void add_cycles(const struct wiring *w, int32_t cycles, const int32_t *devices,
                       struct arena *keep, struct rings *out)
{
    out->ring = ARENA_ARRAY(keep, struct ring, 2 * (size_t)cycles);
    for (int32_t c = 0; c < cycles; c++) {
        int32_t order[2][MAX_WIRED_DEVICES];
        for (int32_t i = 0; i < w->count; i++) {
            order[0][i] = devices[w->cycle[c][i]];
            order[1][(w->count - i) % w->count] = order[0][i];
        }
        for (int32_t way = 0; way < (w->relays ? 1 : 2); way++)
            out->ring[out->count++] =
                new_ring(keep, order[way], w->count, w->wire_bytes_per_s, LINK_NVLINK);
    }
    out->bytes_per_s = out->count * w->wire_bytes_per_s;
}

static bool wired_rings(const struct node_type *node, const int32_t *devices, int32_t count,
                        struct arena *keep, struct rings *out)
{
    if (count > MAX_WIRED_DEVICES)
        return false;
    struct wiring *w = ARENA_NEW(keep, struct wiring);
    read_wires(node, devices, count, w);
    if (count == 2)
        return pair_rings(w, devices, keep, out);
    struct wiring *start = ARENA_NEW(keep, struct wiring);
    *start = *w;
    int32_t cycles = pack_cycles(w);
    if (cycles == 0) {
        *w = *start;
        w->relays = true;
        cycles = pack_cycles(w);
    }
    add_cycles(w, cycles, devices, keep, out);
    return cycles > 0;
}

/* Equation 1. */
static bool switched_ring(const struct node_type *node, const int32_t *devices, int32_t count,
                          struct arena *keep, struct rings *out)
{
    double narrowest = 0;
    for (int32_t i = 0; i < count; i++) {
        double sum = switch_bandwidth(node, devices[i]);
        if (i == 0 || sum < narrowest)
            narrowest = sum;
    }
    if (narrowest <= 0)
        return false;
    out->ring = ARENA_NEW(keep, struct ring);
    out->ring[0] = new_ring(keep, devices, count, narrowest, LINK_NVLINK);
    out->count = 1;
    out->bytes_per_s = narrowest;
    return true;
}

/* The nearest device that is not yet in the ring, so that the ring walks the PCIe tree branch by
 * branch and crosses each link once in each direction. */
static int32_t nearest_left(const struct node_type *node, const struct device_set *set,
                            int32_t from, const int32_t *left, int32_t count, struct arena *scratch)
{
    int32_t best = 0, best_steps = INT32_MAX;
    for (int32_t i = 0; i < count; i++) {
        struct path path = path_between(node, set, from, left[i], scratch);
        if (path.steps > 0 && path.steps < best_steps) {
            best = i;
            best_steps = path.steps;
        }
    }
    return best;
}

static weft_status host_ring(const struct node_type *node, const int32_t *devices, int32_t count,
                             struct arena *keep, struct rings *out)
{
    struct device_set none = {{0}};
    int32_t order[MAX_NODE_DEVICES], left[MAX_NODE_DEVICES];
    memcpy(left, devices, (size_t)count * sizeof *left);
    order[0] = left[0];
    memmove(left, left + 1, (size_t)(count - 1) * sizeof *left);
    for (int32_t i = 1; i < count; i++) {
        int32_t next = nearest_left(node, &none, order[i - 1], left, count - i, keep);
        order[i] = left[next];
        memmove(left + next, left + next + 1, (size_t)(count - i - next - 1) * sizeof *left);
    }
    double *load = ARENA_ARRAY(keep, double, 2 * (size_t)node->links);
    for (int32_t i = 0; i < count; i++) {
        int32_t from = order[i], to = order[(i + 1) % count];
        struct path path = path_between(node, &none, from, to, keep);
        if (path.steps == 0)
            return bad_argument("join them by links to a PCIe switch or a socket",
                                "devices %d and %d of node type '%s' have no path between them",
                                from, to, node->name);
        for (int32_t s = 0; s < path.steps; s++)
            load[2 * path.step[s].link + path.step[s].reverse] += path.step[s].share;
    }
    out->ring = ARENA_NEW(keep, struct ring);
    out->ring[0] = new_ring(keep, order, count, 0, LINK_PCI);
    for (int32_t i = 0; i < 2 * node->links; i++) {
        double bytes_per_s = load[i] > 0 ? node->link[i / 2].bytes_per_s / load[i] : 0;
        if (load[i] > 0 && (out->bytes_per_s == 0 || bytes_per_s < out->bytes_per_s)) {
            out->bytes_per_s = bytes_per_s;
            out->ring[0].slowest = node->link[i / 2].kind;
        }
    }
    out->ring[0].bytes_per_s = out->bytes_per_s;
    out->count = 1;
    return WEFT_OK;
}

static int32_t sorted_copy(const int32_t *devices, int32_t count, int32_t *out)
{
    struct device_set set = {{0}};
    for (int32_t i = 0; i < count; i++)
        set_add(&set, devices[i]);
    return set_members(&set, out);
}

weft_status find_rings(const struct node_type *node, const int32_t *devices, int32_t count,
                       struct arena *keep, struct rings *out)
{
    for (int32_t i = 0; i < count; i++)
        if (devices[i] < 0 || devices[i] >= node->devices || devices[i] >= MAX_NODE_DEVICES)
            return bad_argument(NULL, "device %d is not among the %d of node type '%s'", devices[i],
                                node->devices, node->name);
    int32_t sorted[MAX_NODE_DEVICES];
    if (count > MAX_NODE_DEVICES || sorted_copy(devices, count, sorted) != count)
        return bad_argument(NULL, "a device is named twice in a set of %d", count);
    *out = (struct rings){0};
    if (count < 2 || switched_ring(node, sorted, count, keep, out) ||
        wired_rings(node, sorted, count, keep, out))
        return WEFT_OK;
    *out = (struct rings){0};
    return host_ring(node, sorted, count, keep, out);
}

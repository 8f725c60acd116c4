/* paths.c - the paths of bytes from one vertex of a node to another.
 *
 * NVSwitches count as one: what a device sends through them is spread over all its wires to them,
 * and arrives over all wires of the receiver,
 *
 *   share(link) = bandwidth(link) / bandwidth of all links between device and switches          (1)
 *
 *   I1  Between devices, NVLink is preferred to everything else, even by way of a third device,
 *       because that is what NCCL does (its path types NVL and NVB).
 *   I2  Other paths are the shortest in links, and among those the one with the lowest vertex
 *       numbers: equal nodes have equal paths.
 */
#include "cluster/placement.h"

static int32_t other_end(const struct link *link, int32_t vertex)
{
    return link->a == vertex ? link->b : link->b == vertex ? link->a : -1;
}

static void path_add(struct path *path, const struct node_type *node, int32_t link, int32_t from,
                     double share)
{
    const struct link *l = &node->link[link];
    double bytes_per_s = l->bytes_per_s / share;
    if (path->steps == 0 || bytes_per_s < path->bytes_per_s) {
        path->bytes_per_s = bytes_per_s;
        path->slowest = l->kind;
    }
    path->step[path->steps++] = (struct step){link, l->a != from, share};
}

double switch_bandwidth(const struct node_type *node, int32_t device)
{
    double sum = 0;
    for (int32_t i = 0; i < node->links; i++) {
        int32_t other = other_end(&node->link[i], device);
        if (node->link[i].kind == LINK_NVLINK && other >= 0 &&
            node->vertex[other].kind == VERTEX_NVSWITCH)
            sum += node->link[i].bytes_per_s;
    }
    return sum;
}

/* Equation 1, away from the device or towards it. */
static void add_switch_links(struct path *path, const struct node_type *node, int32_t device,
                             bool towards)
{
    double total = switch_bandwidth(node, device);
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        int32_t other = other_end(link, device);
        if (link->kind == LINK_NVLINK && other >= 0 && node->vertex[other].kind == VERTEX_NVSWITCH)
            path_add(path, node, i, towards ? other : device, link->bytes_per_s / total);
    }
}

static double direct_bandwidth(const struct node_type *node, int32_t from, int32_t to)
{
    double sum = 0;
    for (int32_t i = 0; i < node->links; i++)
        if (node->link[i].kind == LINK_NVLINK && other_end(&node->link[i], from) == to)
            sum += node->link[i].bytes_per_s;
    return sum;
}

static void add_direct_links(struct path *path, const struct node_type *node, int32_t from,
                             int32_t to)
{
    double total = direct_bandwidth(node, from, to);
    for (int32_t i = 0; i < node->links; i++)
        if (node->link[i].kind == LINK_NVLINK && other_end(&node->link[i], from) == to)
            path_add(path, node, i, from, node->link[i].bytes_per_s / total);
}

/* The third device of the set that offers the widest NVLink path from one to the other; -1:
 * none. */
static int32_t best_relay(const struct node_type *node, const struct device_set *set, int32_t from,
                          int32_t to)
{
    int32_t best = -1;
    double best_bytes_per_s = 0;
    for (int32_t relay = 0; relay < node->devices; relay++) {
        if (!set_has(set, relay) || relay == from || relay == to)
            continue;
        double up = direct_bandwidth(node, from, relay), down = direct_bandwidth(node, relay, to);
        double bytes_per_s = up < down ? up : down;
        if (bytes_per_s > best_bytes_per_s) {
            best = relay;
            best_bytes_per_s = bytes_per_s;
        }
    }
    return best;
}

/* Breadth-first search from `to` over all links but NVLink, never through a device: `via` gets the
 * link + 1 that leads from a vertex towards `to`, `hops` the number of links on the way. */
static void search_back(const struct node_type *node, int32_t to, struct arena *scratch,
                        int32_t *via, int32_t *hops)
{
    int32_t *queue = ARENA_ARRAY(scratch, int32_t, (size_t)node->vertices);
    int32_t head = 0, tail = 0;
    queue[tail++] = to;
    while (head < tail) {
        int32_t here = queue[head++];
        if (here != to && node->vertex[here].kind == VERTEX_DEVICE)
            continue;
        for (int32_t i = 0; i < node->links; i++) {
            int32_t next = other_end(&node->link[i], here);
            bool known = next < 0 || next == to || via[next] != 0;
            if (node->link[i].kind == LINK_NVLINK || known)
                continue;
            via[next] = i + 1;
            hops[next] = hops[here] + 1;
            queue[tail++] = next;
        }
    }
}

void distances_to(const struct node_type *node, int32_t to, struct arena *scratch, int32_t *hops)
{
    int32_t *via = ARENA_ARRAY(scratch, int32_t, (size_t)node->vertices);
    int32_t *all = ARENA_ARRAY(scratch, int32_t, (size_t)node->vertices);
    search_back(node, to, scratch, via, all);
    for (int32_t device = 0; device < node->devices; device++)
        hops[device] = via[device] ? all[device] : INT32_MAX;
}

struct path path_to_vertex(const struct node_type *node, int32_t from, int32_t to,
                           struct arena *keep)
{
    int32_t *via = ARENA_ARRAY(keep, int32_t, (size_t)node->vertices);
    int32_t *hops = ARENA_ARRAY(keep, int32_t, (size_t)node->vertices);
    search_back(node, to, keep, via, hops);
    struct path path = {.step = ARENA_ARRAY(keep, struct step, (size_t)hops[from] + 1)};
    for (int32_t here = from; here != to && via[here] != 0;) {
        int32_t link = via[here] - 1;
        path_add(&path, node, link, here, 1);
        here = other_end(&node->link[link], here);
    }
    return path;
}

struct path path_from_host(const struct node_type *node, int32_t device, struct arena *keep)
{
    int32_t *via = ARENA_ARRAY(keep, int32_t, (size_t)node->vertices);
    int32_t *hops = ARENA_ARRAY(keep, int32_t, (size_t)node->vertices);
    int32_t nearest = -1;
    search_back(node, device, keep, via, hops);
    for (int32_t v = node->devices; v < node->vertices; v++)
        if (node->vertex[v].kind == VERTEX_SOCKET && via[v] != 0 &&
            (nearest < 0 || hops[v] < hops[nearest]))
            nearest = v;
    if (nearest < 0)
        return (struct path){0};
    return path_to_vertex(node, nearest, device, keep);
}

struct path path_between(const struct node_type *node, const struct device_set *set, int32_t from,
                         int32_t to, struct arena *keep)
{
    struct path path = {.step = ARENA_ARRAY(keep, struct step, 2 * (size_t)node->links)};
    if (direct_bandwidth(node, from, to) > 0) {
        add_direct_links(&path, node, from, to);
        return path;
    }
    if (switch_bandwidth(node, from) > 0 && switch_bandwidth(node, to) > 0) {
        add_switch_links(&path, node, from, false);
        add_switch_links(&path, node, to, true);
        return path;
    }
    int32_t relay = best_relay(node, set, from, to);
    if (relay < 0)
        return path_to_vertex(node, from, to, keep);
    add_direct_links(&path, node, from, relay);
    add_direct_links(&path, node, relay, to);
    path.relayed = true;
    return path;
}

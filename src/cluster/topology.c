/* topology.c - vertices, links and tiers: the parts from which every source of topology builds.
 *
 *   PCIe, per direction:  rate = GT/s * lanes / 8 * coding,  coding = 8/10 up to 5 GT/s,
 *                         128/130 up to 32 GT/s, 242/256 at 64 GT/s                              (1)
 *   uplink of a unit    = nodes * NIC bandwidth of a node / oversubscription                     (2)
 */
#include "cluster/topology.h"

#define GB_PER_S 1e9

double pci_bytes_per_s(double gt_per_s, int32_t lanes)
{
    double coding = gt_per_s <= 5 ? 8 / 10. : gt_per_s <= 32 ? 128 / 130. : 242 / 256.;
    return gt_per_s * 1e9 / 8 * lanes * coding;
}

static double socket_bytes_per_s(enum cpu_kind kind)
{
    static const double RATES[] = {
        [CPU_BROADWELL] = 6 * GB_PER_S,
        [CPU_SKYLAKE] = 10 * GB_PER_S,
        [CPU_SAPPHIRE_RAPIDS] = 22 * GB_PER_S,
        [CPU_EMERALD_RAPIDS] = 40 * GB_PER_S,
        [CPU_ZEN2] = 16 * GB_PER_S,
        [CPU_ZEN4] = 24 * GB_PER_S,
        [CPU_POWER9] = 32 * GB_PER_S,
        [CPU_ARM] = 6 * GB_PER_S,
    };
    _Static_assert(COUNT_OF(RATES) == CPU_KIND_COUNT, "a CPU without a rate");
    return RATES[kind];
}

/* Channels times the fastest memory that they take: four of DDR4-2400 (Xeon E5-2600 v4), six of DDR4-2666 (Xeon
 * Scalable), eight of DDR5-4800 and of DDR5-5600 (4th and 5th generation), eight of DDR4-3200 (EPYC 7002), twelve of
 * DDR5-4800 (EPYC 9004), eight of DDR4-2666 (POWER9); of Grace with 480 GB a 36th of a GB200 NVL72's 14 TB/s. */
double socket_memory_bytes_per_s(enum cpu_kind kind)
{
    static const double RATES[] = {
        [CPU_BROADWELL] = 76.8 * GB_PER_S,
        [CPU_SKYLAKE] = 128 * GB_PER_S,
        [CPU_SAPPHIRE_RAPIDS] = 307.2 * GB_PER_S,
        [CPU_EMERALD_RAPIDS] = 358.4 * GB_PER_S,
        [CPU_ZEN2] = 204.8 * GB_PER_S,
        [CPU_ZEN4] = 460.8 * GB_PER_S,
        [CPU_POWER9] = 170.6 * GB_PER_S,
        [CPU_ARM] = 384 * GB_PER_S,
    };
    _Static_assert(COUNT_OF(RATES) == CPU_KIND_COUNT, "a CPU without memory");
    return RATES[kind];
}

double host_memory_share(const struct node_type *node)
{
    if (node->host_memory_bytes_per_s > 0)
        return node->host_memory_bytes_per_s / node->devices;
    return node->device.host_bytes_per_s;
}

int32_t add_vertex(struct topology *graph, enum vertex_kind kind, const char *name)
{
    struct vertex vertex = {.kind = kind, .name = arena_copy_text(graph->keep, name)};
    array_push(graph->keep, &graph->vertices, vertex);
    return (int32_t)graph->vertices.len - 1;
}

void add_link(struct topology *graph, enum link_kind kind, int32_t a, int32_t b, int32_t count,
              double wire_bytes_per_s, int64_t latency_ns)
{
    struct link link = {kind, a, b, count, count * wire_bytes_per_s, latency_ns};
    array_push(graph->keep, &graph->links, link);
}

void link_sockets(struct topology *graph, int32_t first, int32_t count, enum cpu_kind kind)
{
    for (int32_t a = first; a < first + count; a++)
        for (int32_t b = a + 1; b < first + count; b++)
            add_link(graph, LINK_SOCKET, a, b, 1, socket_bytes_per_s(kind), SOCKET_NS);
}

static int32_t count_kind(const struct topology *graph, enum vertex_kind kind)
{
    int32_t count = 0;
    for (size_t i = 0; i < graph->vertices.len; i++)
        count += graph->vertices.data[i].kind == kind;
    return count;
}

void topology_finish(const struct topology *graph, double nic_bytes_per_s, struct node_type *node)
{
    node->vertices = (int32_t)graph->vertices.len;
    node->vertex = graph->vertices.data;
    node->links = (int32_t)graph->links.len;
    node->link = graph->links.data;
    node->devices = count_kind(graph, VERTEX_DEVICE);
    node->nics = count_kind(graph, VERTEX_NIC);
    node->nic_bytes_per_s = node->nics * nic_bytes_per_s;
}

/* The fewest boards that share so many devices evenly, with no more on each than it has. */
static int32_t boards_of(const struct node_type *node, int32_t devices)
{
    int32_t each = node->devices / node->boards, boards = (devices + each - 1) / each;
    while (devices % boards)
        boards++;
    return boards;
}

void topology_keep(struct arena *keep, struct node_type *node, int32_t devices)
{
    struct topology graph = {.keep = keep};
    int32_t gone = node->devices - devices;
    double nic_bytes_per_s = node->nics ? node->nic_bytes_per_s / node->nics : 0;
    node->boards = node->boards ? boards_of(node, devices) : 0;
    for (int32_t v = 0; v < node->vertices; v++)
        if (v < devices || v >= node->devices)
            array_push(keep, &graph.vertices, node->vertex[v]);
    for (int32_t i = 0; i < node->links; i++) {
        struct link link = node->link[i];
        int32_t *const ends[] = {&link.a, &link.b};
        bool stays = true;
        for (size_t e = 0; e < COUNT_OF(ends); e++) {
            stays &= *ends[e] < devices || *ends[e] >= node->devices;
            *ends[e] -= *ends[e] >= node->devices ? gone : 0;
        }
        if (stays)
            array_push(keep, &graph.links, link);
    }
    topology_finish(&graph, nic_bytes_per_s, node);
}

/* Spreads a mark from device 0 over the links until nothing changes; graphs are only a few hops
 * deep. */
int32_t unreachable_vertex(const struct node_type *node)
{
    bool reached[MAX_NODE_VERTICES] = {true};
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t i = 0; i < node->links; i++) {
            const struct link *link = &node->link[i];
            changed |= reached[link->a] != reached[link->b];
            reached[link->a] = reached[link->b] = reached[link->a] || reached[link->b];
        }
    }
    for (int32_t v = 0; v < node->vertices; v++)
        if (!reached[v])
            return v;
    return -1;
}

void fabric_build(struct cluster *cluster, const struct tier_plan *plans, int32_t count)
{
    struct fabric *fabric = &cluster->fabric;
    fabric->tiers = 0;
    for (int32_t k = 0; k < count; k++) {
        const struct tier_plan *plan = &plans[k];
        bool last = k + 1 == count || plan->nodes == 0 || plan->nodes >= cluster->nodes;
        struct tier *tier = &fabric->tier[fabric->tiers++];
        *tier = (struct tier){plan->name, plan->nodes, plan->uplink_bytes_per_s, plan->latency_ns};
        if (plan->oversubscription > 0)
            tier->uplink_bytes_per_s =
                (double)plan->nodes * cluster->node.nic_bytes_per_s / plan->oversubscription;
        if (!last)
            continue;
        tier->uplink_bytes_per_s = 0;
        if (tier->nodes < cluster->nodes)
            tier->nodes = cluster->nodes;
        return;
    }
}

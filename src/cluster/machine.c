/* machine.c - builds a cluster of a preset's machines: the link graph of one, and the fabric
 * between them.
 *
 *   I1  Devices are attached to PCI switches in order, PCI switches to sockets in order, NICs
 *       likewise.
 */
#include "cluster/machine.h"

#include <stdio.h>
#include <string.h>

/* Adds `count` vertices called stem0, stem1, ...; returns the first. */
static int32_t add_vertices(struct topology *graph, enum vertex_kind kind, const char *stem,
                            int32_t count)
{
    int32_t first = (int32_t)graph->vertices.len;
    for (int32_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", stem, i);
        add_vertex(graph, kind, name);
    }
    return first;
}

/* Attaches `children` vertices in order to `parents`, x16 each (I1). */
static void add_pci(struct topology *graph, int32_t child, int32_t children, int32_t parent,
                    int32_t parents, double gt_per_s)
{
    for (int32_t i = 0; i < children; i++)
        add_link(graph, LINK_PCI, child + i, parent + (int32_t)((int64_t)i * parents / children), 1,
                 pci_bytes_per_s(gt_per_s, 16), PCI_NS);
}

static void add_nvlinks(struct topology *graph, const struct machine *machine)
{
    for (int32_t i = 0; i < machine->pair_count; i++) {
        const struct nvlink_pair *pair = &machine->pairs[i];
        add_link(graph, LINK_NVLINK, pair->a, pair->b, pair->count, machine->nvlink_bytes_per_s,
                 NVLINK_NS);
    }
    if (machine->nvswitch_links == 0)
        return;
    int32_t plane = add_vertex(graph, VERTEX_NVSWITCH, "nvswitch");
    for (int32_t d = 0; d < machine->devices; d++)
        add_link(graph, LINK_NVLINK, d, plane, machine->nvswitch_links, machine->nvlink_bytes_per_s,
                 NVLINK_SWITCH_NS);
}

static void add_devices_to_sockets(struct topology *graph, const struct machine *machine,
                                   int32_t socket)
{
    if (machine->socket_link_bytes_per_s == 0) {
        add_pci(graph, 0, machine->devices, socket, machine->sockets, machine->pci_gt_per_s);
        return;
    }
    for (int32_t d = 0; d < machine->devices; d++)
        add_link(graph, LINK_SOCKET, d, socket + d * machine->sockets / machine->devices, 1,
                 machine->socket_link_bytes_per_s, SOCKET_NS);
}

static void build_node(struct arena *keep, const struct machine *machine, struct node_type *node)
{
    struct topology graph = {.keep = keep};
    double gt = machine->pci_gt_per_s;
    add_vertices(&graph, VERTEX_DEVICE, "dev", machine->devices);
    add_nvlinks(&graph, machine);
    int32_t socket = add_vertices(&graph, VERTEX_SOCKET, "socket", machine->sockets);
    int32_t board = machine->sockets_per_board ? machine->sockets_per_board : machine->sockets;
    for (int32_t s = 0; s < machine->sockets; s += board)
        link_sockets(&graph, socket + s, board, machine->cpu);

    int32_t pci = add_vertices(&graph, VERTEX_PCI_SWITCH, "pci", machine->pci_switches);
    add_pci(&graph, pci, machine->pci_switches, socket, machine->sockets, gt);
    if (machine->pci_switches)
        add_pci(&graph, 0, machine->devices, pci, machine->pci_switches, gt);
    else
        add_devices_to_sockets(&graph, machine, socket);

    int32_t nic = add_vertices(&graph, VERTEX_NIC, "nic", machine->nics);
    int32_t hosts = machine->nics_on_sockets ? machine->sockets : machine->pci_switches;
    int32_t host = (machine->nics_on_sockets ? socket : pci) + machine->nics_from;
    add_pci(&graph, nic, machine->nics, host, hosts - machine->nics_from, gt);
    topology_finish(&graph, machine->nic_bytes_per_s, node);
    node->boards = machine->sockets / board;
    node->host_memory_bytes_per_s = machine->sockets * socket_memory_bytes_per_s(machine->cpu);
}

static int32_t count_tiers(const struct machine *machine)
{
    int32_t count = 0;
    while (machine->tiers && machine->tiers[count].name)
        count++;
    return count;
}

weft_status check_nodes(const char *name, int64_t nodes)
{
    if (nodes >= 1 && nodes <= MAX_CLUSTER_NODES)
        return WEFT_OK;
    return bad_argument("name and count are written like dgx-a100:16",
                        "%.100s has %lld nodes, expected 1 to %d", name, (long long)nodes,
                        MAX_CLUSTER_NODES);
}

weft_status cluster_preset_build(struct cluster *cluster, const struct cluster_preset *preset,
                                 int64_t nodes)
{
    const struct machine *machine = preset->machine;
    cluster->nodes = nodes ? nodes : 1;
    weft_status status = check_nodes(preset->name, cluster->nodes);
    if (status)
        return status;
    if (cluster->nodes > 1 && machine->fabric == FABRIC_NONE)
        return bad_argument(
            "describe its network in a cluster file (docs/reference/cluster-file.md)",
            "%s is a single machine: its source names no network", preset->name);
    cluster->source = machine->notes;
    cluster->node.name = preset->name;
    cluster->node.device = *device_find(machine->device);
    if (machine->host_bytes_per_s > 0)
        cluster->node.device.host_bytes_per_s = machine->host_bytes_per_s / machine->devices;
    build_node(cluster->arena, machine, &cluster->node);
    cluster->fabric = (struct fabric){.kind = machine->fabric,
                                      .rails = machine->fabric == FABRIC_RAIL,
                                      .source = machine->fabric_source};
    fabric_build(cluster, machine->tiers, count_tiers(machine));
    for (int i = 0; i < COLLECTIVE_SEND; i++)
        cluster->fit_between[i].efficiency = machine->efficiency_between;
    if (machine->inside)
        memcpy(cluster->fit_inside, machine->inside, sizeof cluster->fit_inside);
    if (machine->between)
        memcpy(cluster->fit_between, machine->between, sizeof cluster->fit_between);
    return WEFT_OK;
}

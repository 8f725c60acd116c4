/* this_machine.c - the machine this program runs on, as hwloc sees it.
 *
 *   I1  If the machine has accelerators that Weft knows, they are the devices; otherwise each CPU
 *       package is one. As ranks (cluster_ranks), each processor core is a device, whatever else
 *       there is.
 *   I2  hwloc sees the PCI tree but not NVLink: a machine with NVLink is better described by the
 *       topology that NCCL dumps (nccl_xml.c), and the cluster's source says so.
 */
#include "cluster/topology.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>

enum { VENDOR_NVIDIA = 0x10de, CLASS_DISPLAY = 0x03, CLASS_NETWORK = 0x02 };
#define DEFAULT_NET_MBIT 10000 /* Mb/s, as NCCL assumes if a NIC does not report its speed */
#define MBIT             (1e6 / 8)

struct hwloc_reader {
    hwloc_topology_t topology;
    struct topology graph;
    struct device device;
    double net_rate;  /* of the fastest NIC */
    struct hold hold; /* releases the topology */
};

static const struct device *known_accelerator(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;
    if (attr->vendor_id != VENDOR_NVIDIA || attr->class_id >> 8 != CLASS_DISPLAY)
        return NULL;
    return device_by_ids(attr->device_id, 0);
}

/* ---- CPU packages as devices ----------------------------------------------------------------- */

/* One package: the generic CPU scaled to its number of cores. */
static struct device package_device(hwloc_obj_t package, int cores, int64_t memory_bytes)
{
    struct device device = *device_find("cpu");
    const char *model = hwloc_obj_get_info_by_name(package, "CPUModel");
    double share = (double)cores / device.units;
    device.flops[DTYPE_FP32] *= share;
    device.vector_flops *= share;
    device.units = cores;
    if (memory_bytes > 0)
        device.memory_bytes = memory_bytes;
    if (model && *model)
        device.name = model;
    device.source = "cores and memory from hwloc; rates per core of a generic CPU";
    return device;
}

static void add_packages(struct hwloc_reader *reader)
{
    int packages = hwloc_get_nbobjs_by_type(reader->topology, HWLOC_OBJ_PACKAGE);
    int cores = hwloc_get_nbobjs_by_type(reader->topology, HWLOC_OBJ_CORE);
    hwloc_obj_t root = hwloc_get_root_obj(reader->topology);
    hwloc_obj_t first = hwloc_get_obj_by_type(reader->topology, HWLOC_OBJ_PACKAGE, 0);
    packages = packages < 1 ? 1 : packages > MAX_NODE_DEVICES ? MAX_NODE_DEVICES : packages;
    cores = cores / packages < 1 ? 1 : cores / packages;
    reader->device = package_device(first ? first : root, cores,
                                    (int64_t)(root->total_memory / (uint64_t)packages));
    for (int i = 0; i < packages; i++) {
        char name[32];
        snprintf(name, sizeof name, "dev%d", i);
        add_vertex(&reader->graph, VERTEX_DEVICE, name);
    }
    for (int i = 0; i < packages; i++) {
        char name[32];
        snprintf(name, sizeof name, "socket%d", i);
        int32_t socket = add_vertex(&reader->graph, VERTEX_SOCKET, name);
        add_link(&reader->graph, LINK_SOCKET, i, socket, 1, reader->device.memory_bytes_per_s,
                 SOCKET_NS);
    }
    link_sockets(&reader->graph, packages, packages, CPU_SKYLAKE);
}

/* ---- cores as devices ------------------------------------------------------------------------ */

/* A virtual machine is told of the whole last cache of a processor that it has few cores of. No processor has more than
 * this for each of its cores (EPYC 9175F: 512 MiB, 16 cores). Threads count as cores, for that is how some machines show
 * them. */
enum { MOST_CACHE_PER_CORE = 32 << 20 };

static int64_t last_cache_bytes(hwloc_topology_t topology)
{
    int64_t most = (int64_t)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU) * MOST_CACHE_PER_CORE;
    static const hwloc_obj_type_t CACHES[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                              HWLOC_OBJ_L3CACHE};
    int64_t bytes = 0;
    for (size_t i = 0; i < COUNT_OF(CACHES); i++) {
        hwloc_obj_t cache = hwloc_get_obj_by_type(topology, CACHES[i], 0);
        if (cache && (int64_t)cache->attr->cache.size > bytes)
            bytes = (int64_t)cache->attr->cache.size;
    }
    return most > 0 && bytes > most ? most : bytes;
}

static void add_ranks(struct hwloc_reader *reader, struct arena *keep, int32_t ranks)
{
    hwloc_obj_t root = hwloc_get_root_obj(reader->topology);
    hwloc_obj_t first = hwloc_get_obj_by_type(reader->topology, HWLOC_OBJ_PACKAGE, 0);
    int64_t cache = last_cache_bytes(reader->topology);
    const char *arch = hwloc_obj_get_info_by_name(root, "Architecture");
    struct device *device = &reader->device;
    *device = package_device(first ? first : root, 1, (int64_t)root->total_memory / ranks);
    bool unnamed = strcmp(device->name, device_find("cpu")->name) == 0;
    device->name =
        arena_printf(keep, "%s, one core", unnamed && arch && *arch ? arch : device->name);
    device->launch_ns = 0; /* starting a kernel is a function call */
    device->l2_bytes = cache > 0 ? cache : device->l2_bytes;
    for (int32_t i = 0; i < ranks; i++)
        add_vertex(&reader->graph, VERTEX_DEVICE, arena_printf(keep, "dev%d", i));
    int32_t socket = add_vertex(&reader->graph, VERTEX_SOCKET, "socket0");
    for (int32_t i = 0; i < ranks; i++)
        add_link(&reader->graph, LINK_SOCKET, i, socket, 1, device->memory_bytes_per_s, SOCKET_NS);
}

/* ---- accelerators ---------------------------------------------------------------------------- */

static void add_accelerators(struct hwloc_reader *reader)
{
    for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(reader->topology, pci));) {
        const struct device *device = known_accelerator(pci);
        if (!device || reader->graph.vertices.len == MAX_NODE_DEVICES)
            continue;
        char name[32];
        snprintf(name, sizeof name, "dev%zu", reader->graph.vertices.len);
        reader->device = *device;
        add_vertex(&reader->graph, VERTEX_DEVICE, name);
    }
}

/* hwloc reports the link's rate in GB/s, or 0. */
static double link_rate(hwloc_obj_t pci)
{
    double gb_per_s = pci->attr->pcidev.linkspeed;
    return gb_per_s > 0 ? gb_per_s * 1e9 : pci_bytes_per_s(8, 16);
}

static double net_speed(const char *name)
{
    char path[256];
    int mbit = 0;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%d", &mbit) != 1)
            mbit = 0;
        fclose(file);
    }
    return (mbit > 0 ? mbit : DEFAULT_NET_MBIT) * MBIT;
}

/* The network interface of a PCI device, NULL if it has none. */
static const char *interface_name(hwloc_obj_t pci)
{
    for (hwloc_obj_t os = pci->io_first_child; os; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE && os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
            return os->name;
    return NULL;
}

static void add_io(struct hwloc_reader *reader, hwloc_obj_t object, int32_t parent,
                   int32_t *device);

static void add_pci(struct hwloc_reader *reader, hwloc_obj_t pci, int32_t parent, int32_t *device)
{
    const char *interface = interface_name(pci);
    if (known_accelerator(pci) && *device < MAX_NODE_DEVICES) {
        add_link(&reader->graph, LINK_PCI, (*device)++, parent, 1, link_rate(pci), PCI_NS);
    } else if (interface && pci->attr->pcidev.class_id >> 8 == CLASS_NETWORK) {
        double speed = net_speed(interface);
        int32_t nic = add_vertex(&reader->graph, VERTEX_NIC, interface);
        add_link(&reader->graph, LINK_PCI, nic, parent, 1, link_rate(pci), PCI_NS);
        reader->net_rate = speed > reader->net_rate ? speed : reader->net_rate;
    }
}

/* Bridges between the root ports and the devices count as PCI switches where they fork. */
static void add_io(struct hwloc_reader *reader, hwloc_obj_t object, int32_t parent, int32_t *device)
{
    for (hwloc_obj_t io = object->io_first_child; io; io = io->next_sibling) {
        bool room = reader->graph.vertices.len + 1 < MAX_NODE_VERTICES;
        bool forks = io->io_arity > 1 && io->type == HWLOC_OBJ_BRIDGE &&
                     io->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
        int32_t vertex = parent;
        if (io->type == HWLOC_OBJ_PCI_DEVICE && room)
            add_pci(reader, io, parent, device);
        if (forks && room) {
            char name[32];
            snprintf(name, sizeof name, "pci%zu", reader->graph.vertices.len);
            vertex = add_vertex(&reader->graph, VERTEX_PCI_SWITCH, name);
            add_link(&reader->graph, LINK_PCI, vertex, parent, 1, link_rate(io), PCI_NS);
        }
        if (io->type == HWLOC_OBJ_BRIDGE)
            add_io(reader, io, vertex, device);
    }
}

/* I/O devices can be below machines, packages, groups and NUMA nodes: each goes to the socket of
 * the package above it, or to the first socket if there is none. */
static void add_io_of(struct hwloc_reader *reader, hwloc_obj_t object, int32_t socket,
                      int32_t first_socket, int32_t *device)
{
    if (object->type == HWLOC_OBJ_PACKAGE)
        socket = first_socket + (int32_t)object->logical_index;
    add_io(reader, object, socket, device);
    for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling)
        add_io_of(reader, child, socket, first_socket, device);
}

static void add_sockets_and_io(struct hwloc_reader *reader)
{
    int32_t devices = (int32_t)reader->graph.vertices.len, device = 0;
    int packages = hwloc_get_nbobjs_by_type(reader->topology, HWLOC_OBJ_PACKAGE);
    packages = packages < 1 ? 1 : packages > 64 ? 64 : packages;
    for (int i = 0; i < packages; i++) {
        char name[32];
        snprintf(name, sizeof name, "socket%d", i);
        add_vertex(&reader->graph, VERTEX_SOCKET, name);
    }
    link_sockets(&reader->graph, devices, packages, CPU_SKYLAKE);
    add_io_of(reader, hwloc_get_root_obj(reader->topology), devices, devices, &device);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* hwloc's accelerator backends start drivers and add nothing that is used here. PCI devices are
 * also read from Linux directly, without the library of the pci backend, which never frees its
 * memory. */
static const char *const UNUSED_BACKENDS[] = {"opencl", "gl",  "cuda",     "nvml",
                                              "rsmi",   "pci", "levelzero"};

static weft_status load_topology(hwloc_topology_t *out)
{
    if (hwloc_topology_init(out) != 0)
        return failure("hwloc could not start");
    for (size_t i = 0; i < COUNT_OF(UNUSED_BACKENDS); i++)
        hwloc_topology_set_components(*out, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      UNUSED_BACKENDS[i]);
    hwloc_topology_set_io_types_filter(*out, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(*out) == 0)
        return WEFT_OK;
    hwloc_topology_destroy(*out);
    return failure("hwloc cannot read this machine's topology");
}

static void destroy_topology(void *topology)
{
    hwloc_topology_destroy(topology);
}

static weft_status open_machine(struct hwloc_reader *reader, struct cluster **out)
{
    weft_status status = load_topology(&reader->topology);
    if (status)
        return status;
    hold_push(&reader->hold, destroy_topology, reader->topology);
    *out = cluster_new("this machine");
    (*out)->source = "hwloc";
    reader->graph.keep = (*out)->arena;
    return WEFT_OK;
}

static weft_status close_machine(struct hwloc_reader *reader, struct cluster *cluster,
                                 struct cluster **out)
{
    cluster->node.name = cluster->name;
    cluster->node.device = reader->device;
    topology_finish(&reader->graph, reader->net_rate, &cluster->node);
    hold_pop(&reader->hold);
    hwloc_topology_destroy(reader->topology);
    *out = cluster;
    return plain_fabric(cluster, cluster->name, 0);
}

weft_status cluster_this_machine(struct cluster **out)
{
    struct hwloc_reader reader = {0};
    struct cluster *cluster;
    weft_status status = open_machine(&reader, &cluster);
    if (status)
        return status;
    add_accelerators(&reader);
    if (reader.graph.vertices.len > 0) {
        add_sockets_and_io(&reader);
        cluster->source = "hwloc, which does not see NVLink: for that, open the file that NCCL "
                          "writes to NCCL_TOPO_DUMP_FILE";
    } else {
        add_packages(&reader);
    }
    reader.device.name = arena_copy_text(cluster->arena, reader.device.name);
    return close_machine(&reader, cluster, out);
}

weft_status cluster_ranks(int32_t ranks, struct cluster **out)
{
    struct hwloc_reader reader = {0};
    struct cluster *cluster;
    if (ranks < 1 || ranks > MAX_NODE_DEVICES)
        return bad_argument(NULL, "%d ranks on this machine, expected 1 to %d", ranks,
                            MAX_NODE_DEVICES);
    weft_status status = open_machine(&reader, &cluster);
    if (status)
        return status;
    add_ranks(&reader, cluster->arena, ranks);
    return close_machine(&reader, cluster, out);
}

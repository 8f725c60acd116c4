/* nccl_xml.c - topologies as NCCL dumps them (NCCL_TOPO_DUMP_FILE).
 *
 *   <system> <cpu> <pci> ... <gpu> <nvlink/> </gpu>   <nic> <net/> </nic> ... </system>
 *
 * The nesting of <pci> is the PCI tree. Elements and attributes that are not needed are ignored, as
 * NCCL does. Where a dump leaves something open, it is read as NCCL reads it:
 *
 *   I1  An empty or unknown link_speed is 8 GT/s and a link_width of 0 or none is 16 lanes
 *       (graph/topo.cc); a net without a positive speed has 10 Gb/s.
 *   I2  All NVSwitches are one vertex.
 *   I3  Of NICs with different speeds the fastest are used, the others are left out.
 *   I4  Devices are numbered in the order of their `dev`.
 */
#include "cluster/xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_GT_PER_S 8
#define DEFAULT_LANES    16
#define DEFAULT_NET_MBIT 10000 /* Mb/s */
#define MBIT             (1e6 / 8)

/* ---- attributes ------------------------------------------------------------------------------ */

static weft_status xml_error(const struct xml_element *at, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static weft_status xml_error(const struct xml_element *at, const char *hint, const char *fmt, ...)
{
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return bad_input(at->file, at->line, hint, "%s", what);
}

static weft_status need_text(const struct xml_element *at, const char *name, const char **out)
{
    *out = element_attribute(at, name);
    if (*out && **out)
        return WEFT_OK;
    return xml_error(at, NULL, "<%s> lacks its '%s'", at->name, name);
}

static weft_status need_int(const struct xml_element *at, const char *name, int64_t min,
                            int64_t max, int64_t *out)
{
    const char *text;
    weft_status status = need_text(at, name, &text);
    if (status)
        return status;
    if (parse_int(text, out) && *out >= min && *out <= max)
        return WEFT_OK;
    return xml_error(at, NULL, "<%s> has %s=\"%.40s\", expected a whole number from %lld to %lld",
                     at->name, name, text, (long long)min, (long long)max);
}

/* A hexadecimal identifier such as "0x1db5"; 0 if there is none. */
static int32_t hex_id(const struct xml_element *at, const char *name)
{
    const char *text = element_attribute(at, name);
    long value = text ? strtol(text, NULL, 16) : 0;
    return value > 0 && value <= 0xffffff ? (int32_t)value : 0;
}

/* I1. Speeds look like "8 GT/s" or "8.0 GT/s PCIe". */
static double pci_rate(const struct xml_element *pci)
{
    const char *speed = element_attribute(pci, "link_speed");
    const char *width = element_attribute(pci, "link_width");
    double gt = speed ? strtod(speed, NULL) : 0;
    int64_t lanes;
    if (!(gt >= 2.5 && gt <= 128))
        gt = DEFAULT_GT_PER_S;
    if (!width || !parse_int(width, &lanes) || lanes < 1 || lanes > 32)
        lanes = DEFAULT_LANES;
    return pci_bytes_per_s(gt, (int32_t)lanes);
}

static double net_rate(const struct xml_element *net)
{
    const char *text = element_attribute(net, "speed");
    int64_t mbit;
    if (!text || !parse_int(text, &mbit) || mbit <= 0 || mbit > 100000000)
        mbit = DEFAULT_NET_MBIT;
    return (double)mbit * MBIT;
}

/* ---- devices --------------------------------------------------------------------------------- */

struct found_device {
    const struct xml_element *gpu, *pci;
    const char *busid;
    int64_t dev, sm;
};

struct machine_reader {
    struct topology graph;
    ARRAY(struct found_device) devices;
    struct map *busids; /* every PCI busid: the device's vertex, or -1 */
    double net_rate;    /* of the fastest NICs (I3) */
    int32_t nvswitch;   /* vertex, -1 before the first link to it */
    int32_t sockets;
    int32_t first_socket;
    enum cpu_kind cpu;
};

static weft_status find_device(struct machine_reader *reader, const struct xml_element *pci,
                               const struct xml_element *gpu)
{
    weft_status status;
    struct found_device device = {.gpu = gpu, .pci = pci};
    TRY(need_text(pci, "busid", &device.busid));
    TRY(need_int(gpu, "dev", 0, 4095, &device.dev));
    TRY(need_int(gpu, "sm", 10, 999, &device.sm));
    for (size_t i = 0; i < reader->devices.len; i++) {
        const struct found_device *older = &reader->devices.data[i];
        if (older->dev == device.dev)
            return xml_error(gpu, NULL, "two devices have dev=\"%lld\", first in line %d",
                             (long long)device.dev, older->gpu->line);
        if (older->sm != device.sm)
            return xml_error(gpu, "describe a cluster of one kind of node",
                             "a device of sm %lld beside one of sm %lld, expected equal devices",
                             (long long)device.sm, (long long)older->sm);
    }
    if (reader->devices.len == MAX_NODE_DEVICES)
        return xml_error(gpu, NULL, "the node has more than %d devices", MAX_NODE_DEVICES);
    array_push(reader->graph.keep, &reader->devices, device);
done:
    return status;
}

/* First pass: finds the devices, and the speed of the fastest NIC. */
static weft_status survey(struct machine_reader *reader, const struct xml_element *at)
{
    weft_status status = WEFT_OK;
    for (const struct xml_element *child = at->first; child && !status; child = child->next) {
        if (element_is(at, "pci") && element_is(child, "gpu"))
            status = find_device(reader, at, child);
        else
            status = survey(reader, child);
        if (element_is(at, "nic") && element_is(child, "net") && net_rate(child) > reader->net_rate)
            reader->net_rate = net_rate(child);
    }
    return status;
}

static int by_dev(const void *a, const void *b)
{
    const struct found_device *x = a, *y = b;
    return (x->dev > y->dev) - (x->dev < y->dev);
}

static void add_devices(struct machine_reader *reader)
{
    qsort(reader->devices.data, reader->devices.len, sizeof *reader->devices.data, by_dev);
    for (size_t i = 0; i < reader->devices.len; i++) {
        char name[32];
        snprintf(name, sizeof name, "dev%zu", i);
        add_vertex(&reader->graph, VERTEX_DEVICE, name);
    }
}

static int32_t vertex_of_device(const struct machine_reader *reader, const struct xml_element *pci)
{
    for (size_t i = 0; i < reader->devices.len; i++)
        if (reader->devices.data[i].pci == pci)
            return (int32_t)i;
    return -1;
}

/* ---- the PCI tree ---------------------------------------------------------------------------- */

static weft_status room_for_vertex(const struct machine_reader *reader,
                                   const struct xml_element *at)
{
    if (reader->graph.vertices.len < MAX_NODE_VERTICES)
        return WEFT_OK;
    return xml_error(at, NULL, "the node has more than %d vertices", MAX_NODE_VERTICES);
}

static weft_status add_net(struct machine_reader *reader, const struct xml_element *net,
                           int32_t parent, double rate)
{
    if (!element_is(net, "net") || net_rate(net) < reader->net_rate)
        return WEFT_OK;
    const char *name = element_attribute(net, "name");
    weft_status status = room_for_vertex(reader, net);
    if (status == WEFT_OK) {
        int32_t nic = add_vertex(&reader->graph, VERTEX_NIC, name && *name ? name : "nic");
        add_link(&reader->graph, LINK_PCI, nic, parent, 1, rate, PCI_NS);
    }
    return status;
}

static weft_status add_nets(struct machine_reader *reader, const struct xml_element *nic,
                            int32_t parent, double rate)
{
    weft_status status = WEFT_OK;
    for (const struct xml_element *net = nic->first; net && !status; net = net->next)
        status = add_net(reader, net, parent, rate);
    return status;
}

static weft_status add_tree(struct machine_reader *reader, const struct xml_element *at,
                            int32_t vertex);

/* A switch is a <pci> that contains others; one that contains neither others nor a device nor a NIC
 * carries no traffic. */
static weft_status add_pci(struct machine_reader *reader, const struct xml_element *pci,
                           int32_t parent)
{
    weft_status status;
    const char *busid;
    int64_t older;
    TRY(need_text(pci, "busid", &busid));
    if (map_get(reader->busids, busid, &older))
        return xml_error(pci, NULL, "two PCI devices have busid=\"%.40s\"", busid);
    int32_t vertex = vertex_of_device(reader, pci);
    map_put(reader->busids, busid, vertex);
    const struct xml_element *nic = element_child(pci, "nic");
    if (vertex < 0 && nic)
        return add_nets(reader, nic, parent, pci_rate(pci));
    if (vertex < 0 && !element_child(pci, "pci"))
        return WEFT_OK;
    if (vertex < 0) {
        TRY(room_for_vertex(reader, pci));
        vertex = add_vertex(&reader->graph, VERTEX_PCI_SWITCH, busid);
    }
    add_link(&reader->graph, LINK_PCI, vertex, parent, 1, pci_rate(pci), PCI_NS);
    TRY(add_tree(reader, pci, vertex));
done:
    return status;
}

/* Adds everything below a socket or a PCI switch. */
static weft_status add_tree(struct machine_reader *reader, const struct xml_element *at,
                            int32_t vertex)
{
    const double rate = pci_bytes_per_s(DEFAULT_GT_PER_S, DEFAULT_LANES);
    weft_status status = WEFT_OK;
    for (const struct xml_element *child = at->first; child && !status; child = child->next) {
        if (element_is(child, "pci"))
            status = add_pci(reader, child, vertex);
        else if (element_is(at, "cpu") && element_is(child, "nic"))
            status = add_nets(reader, child, vertex, rate);
    }
    return status;
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* By architecture, vendor and Intel's model number, as NCCL does. */
static enum cpu_kind cpu_kind(const struct xml_element *cpu)
{
    const char *arch = element_attribute(cpu, "arch"), *vendor = element_attribute(cpu, "vendor");
    const char *text = element_attribute(cpu, "modelid");
    int64_t model = 0;
    if (text && !parse_int(text, &model))
        model = 0;
    if (arch && strcmp(arch, "arm64") == 0)
        return CPU_ARM;
    if (arch && strcmp(arch, "ppc64") == 0)
        return CPU_POWER9;
    if (vendor && strcmp(vendor, "AuthenticAMD") == 0)
        return CPU_ZEN2;
    return model >= 0xcf   ? CPU_EMERALD_RAPIDS
           : model >= 0x8f ? CPU_SAPPHIRE_RAPIDS
           : model >= 0x55 ? CPU_SKYLAKE
                           : CPU_BROADWELL;
}

static weft_status add_sockets(struct machine_reader *reader, const struct xml_element *system)
{
    weft_status status = WEFT_OK;
    reader->first_socket = (int32_t)reader->graph.vertices.len;
    for (const struct xml_element *cpu = system->first; cpu; cpu = cpu->next) {
        if (!element_is(cpu, "cpu"))
            continue;
        char name[32];
        snprintf(name, sizeof name, "socket%d", reader->sockets++);
        TRY(room_for_vertex(reader, cpu));
        add_vertex(&reader->graph, VERTEX_SOCKET, name);
        reader->cpu = cpu_kind(cpu);
    }
    if (reader->sockets > 64)
        return xml_error(system, NULL, "the node has %d sockets, expected at most 64",
                         reader->sockets);
    link_sockets(&reader->graph, reader->first_socket, reader->sockets, reader->cpu);
    int32_t socket = reader->first_socket;
    for (const struct xml_element *cpu = system->first; cpu; cpu = cpu->next)
        if (element_is(cpu, "cpu"))
            TRY(add_tree(reader, cpu, socket++));
done:
    return status;
}

/* ---- NVLink ---------------------------------------------------------------------------------- */

enum { CLASS_NVSWITCH = 0x068000, CLASS_NPU = 0x068001 };

static const struct xml_element *find_nvlink(const struct xml_element *gpu, const char *target)
{
    for (const struct xml_element *link = gpu->first; link; link = link->next) {
        const char *to = element_is(link, "nvlink") ? element_attribute(link, "target") : NULL;
        if (to && strcmp(to, target) == 0)
            return link;
    }
    return NULL;
}

/* Both ends list a link between devices; they must agree, and one of them adds it. */
static weft_status add_peer_link(struct machine_reader *reader, int32_t from,
                                 const struct xml_element *nvlink, int64_t count)
{
    const struct found_device *device = reader->devices.data;
    const char *target;
    int64_t to = -1, back_count = 0;
    weft_status status = need_text(nvlink, "target", &target);
    if (status)
        return status;
    if (!map_get(reader->busids, target, &to) || to < 0)
        return xml_error(nvlink, "dump the topology with every device visible",
                         "an NVLink to %.40s, which is not a device of this file", target);
    if (to == from)
        return xml_error(nvlink, NULL, "an NVLink from %.40s to itself", target);
    if (find_nvlink(device[from].gpu, target) != nvlink)
        return xml_error(nvlink, "several links are one <nvlink> with a count",
                         "a second <nvlink> to %.40s in the same device", target);
    const struct xml_element *back = find_nvlink(device[to].gpu, device[from].busid);
    if (back && (status = need_int(back, "count", 1, 1024, &back_count)))
        return status;
    if (back_count != count)
        return xml_error(nvlink, NULL, "%lld NVLinks to %.40s, which has %lld back",
                         (long long)count, target, (long long)back_count);
    if (from < to)
        add_link(&reader->graph, LINK_NVLINK, from, (int32_t)to, (int32_t)count,
                 nvlink_bytes_per_s((int32_t)device[from].sm), NVLINK_NS);
    return WEFT_OK;
}

static void add_switch_link(struct machine_reader *reader, int32_t from, int64_t count)
{
    int32_t sm = (int32_t)reader->devices.data[from].sm;
    if (reader->nvswitch < 0)
        reader->nvswitch = add_vertex(&reader->graph, VERTEX_NVSWITCH, "nvswitch");
    for (size_t i = 0; i < reader->graph.links.len; i++) {
        struct link *link = &reader->graph.links.data[i];
        /* another switch of the same plane (I2) */
        if (link->a == from && link->b == reader->nvswitch) {
            link->count += (int32_t)count;
            link->bytes_per_s += (double)count * nvlink_bytes_per_s(sm);
            return;
        }
    }
    add_link(&reader->graph, LINK_NVLINK, from, reader->nvswitch, (int32_t)count,
             nvlink_bytes_per_s(sm), NVLINK_SWITCH_NS);
}

static weft_status add_nvlink(struct machine_reader *reader, int32_t from,
                              const struct xml_element *nvlink)
{
    int64_t count;
    weft_status status = need_int(nvlink, "count", 1, 1024, &count);
    if (status)
        return status;
    int32_t class = hex_id(nvlink, "tclass");
    if (class == CLASS_NPU && reader->sockets > 0) {
        add_link(&reader->graph, LINK_SOCKET, from, reader->first_socket, (int32_t)count,
                 nvlink_bytes_per_s((int32_t)reader->devices.data[from].sm), NVLINK_NS);
        return WEFT_OK;
    }
    if (class != CLASS_NVSWITCH)
        return add_peer_link(reader, from, nvlink, count);
    status = room_for_vertex(reader, nvlink);
    if (status == WEFT_OK)
        add_switch_link(reader, from, count);
    return status;
}

static weft_status add_nvlinks(struct machine_reader *reader)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < reader->devices.len && !status; i++) {
        const struct xml_element *link = reader->devices.data[i].gpu->first;
        for (; link && !status; link = link->next)
            if (element_is(link, "nvlink"))
                status = add_nvlink(reader, (int32_t)i, link);
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status identify(const struct machine_reader *reader, const struct device *given,
                            struct device *out)
{
    const struct found_device *first = &reader->devices.data[0];
    const struct device *known =
        given ? given : device_by_ids(hex_id(first->pci, "device"), (int32_t)first->sm);
    if (!known)
        return xml_error(first->gpu,
                         "name it in a cluster file: 'base: this.xml' and 'device: ...'",
                         "no known device has sm %lld", (long long)first->sm);
    *out = *known;
    return WEFT_OK;
}

static weft_status read_system(struct machine_reader *reader, const struct xml_element *system)
{
    weft_status status;
    if (!element_is(system, "system"))
        return xml_error(system, NULL, "the root is <%.40s>, expected <system>", system->name);
    TRY(survey(reader, system));
    if (reader->devices.len == 0)
        return xml_error(system, NULL, "the system has no device, expected <gpu> in a <pci>");
    add_devices(reader);
    TRY(add_sockets(reader, system));
    TRY(add_nvlinks(reader));
done:
    return status;
}

weft_status nccl_xml_read(struct cluster *cluster, const char *file, const char *text, size_t len,
                          const struct device *device, int64_t nodes)
{
    weft_status status;
    struct xml_element *system;
    struct arena *scratch = arena_new();
    struct machine_reader reader = {
        .graph.keep = cluster->arena, .busids = map_new(scratch), .nvswitch = -1};
    TRY(xml_parse(scratch, file, text, len, &system));
    TRY(read_system(&reader, system));
    TRY(identify(&reader, device, &cluster->node.device));
    topology_finish(&reader.graph, reader.net_rate, &cluster->node);
    cluster->node.host_memory_bytes_per_s = reader.sockets * socket_memory_bytes_per_s(reader.cpu);
    int32_t lost = unreachable_vertex(&cluster->node);
    if (lost >= 0)
        TRY(xml_error(system, "a device must be in a <pci> below a <cpu>",
                      "'%s' has no path to 'dev0'", cluster->node.vertex[lost].name));
    cluster->nodes = nodes ? nodes : 1;
    cluster->source = arena_printf(cluster->arena, "NCCL topology %s", file);
    cluster->node.name = arena_copy_text(cluster->arena, file);
done:
    arena_free(scratch);
    return status;
}

/* topology.h - how this room builds a cluster: the link graph of a node, the tiers of a fabric, the
 * readers of the formats. Private to this room.
 *
 *   I1  Devices are added before all other vertices (cluster.h, I3).
 *   I2  A NIC is connected to the graph by PCIe. Its wire to the fabric is not a link of the graph:
 *       it is one of node.nics equal shares of node.nic_bytes_per_s.
 *   I3  The unit of tier k that holds node n is n / tier[k].nodes: sizes are multiples of each
 *       other, and the last tier holds every node.
 *   I4  Sizes that come from input are checked against the limits below before anything is built.
 */
#ifndef WEFT_CLUSTER_TOPOLOGY_H
#define WEFT_CLUSTER_TOPOLOGY_H

#include "cluster/placement.h"

enum {
    MAX_NODE_VERTICES = 2048,
    MAX_NODE_LINKS = 16384, /* struct link_id numbers links in 16 bits */
    MAX_CLUSTER_NODES = 1000000
};

/* ---- constants of wires ---------------------------------------------------------------------- */

/* The time of a small message to cross, one way: ring steps of NCCL's low-latency protocol
 * (tuning.cc) take 0.6 us over NVLink, 1.0 us over two PCIe links, 2.7 us over a network. */
#define NVLINK_NS        600
#define NVLINK_SWITCH_NS 300 /* to or from the switch: half of the above */
#define PCI_NS           500
#define SOCKET_NS        100 /* remote minus local memory latency of two-socket Xeons */
#define FABRIC_NS        2700
#define FABRIC_TIER_NS   700 /* two more switches of 130 ns (NVIDIA QM8700) and 90 m of cable */

/* Lanes times signalling rate, after line coding, per direction. */
double pci_bytes_per_s(double gt_per_s, int32_t lanes);

/* The bandwidth between devices from one socket to another. No datasheet states it; these are the
 * values that NCCL plans with (graph/topo.h). */
enum cpu_kind {
    CPU_BROADWELL,
    CPU_SKYLAKE,
    CPU_SAPPHIRE_RAPIDS,
    CPU_EMERALD_RAPIDS,
    CPU_ZEN2,
    CPU_ZEN4,
    CPU_POWER9,
    CPU_ARM,
    CPU_KIND_COUNT
};
/* Of a socket's own memory, by its datasheet. */
double socket_memory_bytes_per_s(enum cpu_kind kind);

/* ---- building -------------------------------------------------------------------------------- */

struct topology {
    struct arena *keep;
    ARRAY(struct vertex) vertices;
    ARRAY(struct link) links;
};
int32_t add_vertex(struct topology *graph, enum vertex_kind kind, const char *name);
/* A bundle of `count` wires, each of wire_bytes_per_s. */
void add_link(struct topology *graph, enum link_kind kind, int32_t a, int32_t b, int32_t count,
              double wire_bytes_per_s, int64_t latency_ns);
/* Links each of the sockets first .. first+count-1 to each other. */
void link_sockets(struct topology *graph, int32_t first, int32_t count, enum cpu_kind kind);
/* Writes the graph into the node and counts devices and NICs; every NIC's wire carries
 * nic_bytes_per_s. */
void topology_finish(const struct topology *graph, double nic_bytes_per_s, struct node_type *node);
/* Keeps the first `devices` devices of a node and everything else in it; of boards, as many as they are on. */
void topology_keep(struct arena *keep, struct node_type *node, int32_t devices);
/* The first vertex that no path joins to device 0, or -1. */
int32_t unreachable_vertex(const struct node_type *node);

struct tier_plan {
    const char *name;
    int64_t nodes;           /* 0: all nodes */
    double oversubscription; /* 0: uplink_bytes_per_s is given instead */
    double uplink_bytes_per_s;
    int64_t latency_ns;
};
/* Builds as many of the tiers as this cluster's nodes need (I3). */
void fabric_build(struct cluster *cluster, const struct tier_plan *plans, int32_t count);

/* ---- readers --------------------------------------------------------------------------------- */

struct cluster *cluster_new(const char *name);
/* 0 nodes: as many as the description itself says. */
weft_status cluster_preset_build(struct cluster *cluster, const struct cluster_preset *preset,
                                 int64_t nodes);
const struct cluster_preset *cluster_preset_find(const char *name);
weft_status unknown_preset(const char *name); /* reports an error that names the nearest preset */
/* The hint for an unknown name that begins with a number of devices, as 8xH99; false: it does not (nicknames.c). */
bool hint_devices(const char *name);
weft_status check_nodes(const char *name, int64_t nodes);

enum cluster_format { CLUSTER_YAML, CLUSTER_JSON, CLUSTER_XML };
enum cluster_format format_of(const char *path);
/* A description in memory; `name` stands for its file in messages. */
weft_status cluster_from_text(enum cluster_format format, const char *name, const char *text,
                              size_t len, int64_t nodes, struct cluster **out);
/* cluster_open for what has no pools itself. */
weft_status cluster_open_pool(const char *name, struct cluster **out);
/* A file with 'pools' (load_pools.c). */
weft_status pools_read(struct cluster *cluster, const struct doc *root, int64_t nodes);
weft_status yaml_read(struct cluster *cluster, const struct doc *root, int64_t nodes);
/* `device` describes the devices; NULL: they are found by their identifiers in the file. */
weft_status nccl_xml_read(struct cluster *cluster, const char *file, const char *text, size_t len,
                          const struct device *device, int64_t nodes);
/* A single switch over all nodes, for a file that names no fabric. */
weft_status plain_fabric(struct cluster *cluster, const char *file, int line);

/* A device by PCI identifier (0: unknown) or compute capability; NULL if unknown. */
const struct device *device_by_ids(int32_t pci_id, int32_t sm);
double nvlink_bytes_per_s(int32_t sm); /* of one NVLink */

#endif

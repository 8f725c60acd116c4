/* cluster.h - the machines: devices, the links inside a node, the fabric between nodes, and how
 * long a collective takes on a group of devices.
 *
 * A cluster is one node type, repeated: a node's link graph is stored once and the fabric is a list
 * of tiers, so 100,000 devices take as much memory as one node. A cluster of several node types
 * consists of *pools*, each a cluster of its own (pools.h).
 *
 *   I1  Devices are numbered node by node: device d is device d % D of node d / D, for D devices
 *       per node.
 *   I2  A link's bandwidth is per direction; both directions are independent.
 *   I3  Vertices 0 .. D-1 of a node's graph are its devices.
 *   I4  Every number carries its source.
 */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include "base/base.h"

/* ---- devices --------------------------------------------------------------------------------- */

/* What wires from device to device are called; in the link graph all of them are LINK_NVLINK. */
struct wire_words {
    const char *arch;   /* the devices that have them; NULL: all others */
    const char *name;   /* "nvlink", in files and JSON */
    const char *mark;   /* "NV", in a matrix */
    const char *title;  /* "NVLink", in text */
    const char *plural; /* "NVLinks" */
};

/* What runs on a machine say about Weft's own numbers (`weft fit --runs`): how many times as fast its parts are as
 * these numbers have them. 0 stands for 1. */
enum pace_part {
    PACE_PRODUCTS, /* kernels that multiply matrices, attention among them */
    PACE_MEMORY,   /* all other kernels, which are as fast as the device's memory */
    PACE_INSIDE,   /* links within a node */
    PACE_BETWEEN,  /* the network between nodes */
    PACE_HOST,     /* the host that issues kernels */
    PACE_COUNT
};
struct paces {
    double of[PACE_COUNT];
};
const char *pace_name(enum pace_part part); /* "products" */
double pace_of(const struct paces *pace, enum pace_part part);

struct device {
    const char *name; /* "A100-SXM4-80GB" */
    const char *arch; /* "ampere": the key of the analytic defaults */
    int64_t memory_bytes;
    int64_t context_bytes; /* taken by driver and libraries before the first tensor */
    /* buffers of one channel of a communicator, to a peer and from one, in a node; 0: they are not in the device's memory */
    int64_t connection_bytes;
    double flops[DTYPE_COUNT]; /* dense matrix peak per second; 0: not supported */
    double vector_flops;       /* fp32 outside matrix units, per second */
    double memory_bytes_per_s;
    double host_bytes_per_s; /* to and from host memory, per direction */
    /* one kernel from enqueue to start, when no other kernel hides the delay */
    int64_t launch_ns;
    int64_t l2_bytes;
    int32_t units;         /* multiprocessors, or cores of a CPU rank */
    double price_per_hour; /* 0: unknown; set in a cluster file */
    /* The factor by which computation and transfers take longer while both run; 0: the usual one. 2
     * if the core that computes also moves the data, as between ranks of one machine. */
    double overlap_slowdown;
    /* The devices of a node are ranks on one processor: how much quicker one computes while the others do not than while
     * all do. 0: each is a processor. */
    double alone_speedup;
    struct paces paces;
    const char *source; /* datasheet, paper, file */
};

/* Known devices by name, case-insensitive; NULL if unknown. */
const struct device *device_find(const char *name);
size_t device_presets(const struct device **out);

/* ---- the inside of a node -------------------------------------------------------------------- */

enum vertex_kind {
    VERTEX_DEVICE,
    VERTEX_NVSWITCH,
    VERTEX_PCI_SWITCH,
    VERTEX_SOCKET, /* a CPU with its root ports and memory */
    VERTEX_NIC,
    VERTEX_KIND_COUNT
};

enum link_kind { LINK_NVLINK, LINK_PCI, LINK_SOCKET, LINK_NIC, LINK_FABRIC, LINK_KIND_COUNT };
const char *vertex_kind_name(enum vertex_kind kind);
const char *link_kind_name(enum link_kind kind);
/* The same, with the devices' own name for the wires between them. */
const char *link_name(const struct device *device, enum link_kind kind);
const struct wire_words *wire_words(const struct device *device);

struct vertex {
    enum vertex_kind kind;
    const char *name; /* "dev0", "pci1", "mlx5_0" */
};

/* A bundle of equal wires between two vertices. */
struct link {
    enum link_kind kind;
    int32_t a, b;       /* vertices */
    int32_t count;      /* wires in the bundle */
    double bytes_per_s; /* of the whole bundle, per direction (I2) */
    int64_t latency_ns;
};

struct node_type {
    const char *name;
    struct device device;
    int32_t devices, vertices, links;
    int32_t boards; /* of a rack: each has an operating system and equal devices; 0: one */
    struct vertex *vertex;
    struct link *link;
    int32_t nics; /* NIC vertices; each is connected to the graph by a PCI link */
    /* of all NICs' wires to the fabric together, per direction; each NIC has an equal share */
    double nic_bytes_per_s;
    double host_memory_bytes_per_s; /* of all sockets together; 0: unknown */
};
/* What each device has of its host's memory bandwidth if all use it; where that is unknown, as much as its link. */
double host_memory_share(const struct node_type *node);

/* ---- the fabric between nodes ---------------------------------------------------------------- */

enum fabric_kind {
    FABRIC_NONE,
    FABRIC_SWITCH,
    FABRIC_RAIL,
    FABRIC_FAT_TREE,
    FABRIC_DRAGONFLY,
    FABRIC_KIND_COUNT
};
const char *fabric_kind_name(enum fabric_kind kind);

/* Tier 0 joins nodes into pods, tier 1 pods into larger pods, and so on. `nodes` is how many nodes
 * one unit of the tier holds; a unit's uplink to the next tier carries uplink_bytes_per_s per
 * direction. */
struct tier {
    const char *name; /* "leaf", "spine", "group" */
    int64_t nodes;
    /* of one unit, after oversubscription; 0 in the last tier, whose single unit holds all nodes */
    double uplink_bytes_per_s;
    int64_t latency_ns; /* added by crossing this tier, one way */
};

/* Of a fabric, and of those of all pools together with what joins them. */
enum { MAX_TIERS = 4, MAX_LINK_TIERS = 16 };
struct fabric {
    enum fabric_kind kind;
    int32_t tiers;
    struct tier tier[MAX_LINK_TIERS];
    bool rails; /* NIC i of every node reaches NIC i of the others through one switch */
    const char *source;
};

/* What measurements say beyond the link graph (`weft fit`, or a preset's published fit). Zero means
 * "not measured": the model's own default is used. A cluster file writes it as
 *
 *   collectives:
 *     inside:                  # groups within one node
 *       all_reduce: {latency: 31us, step: 800ns, bandwidth: 231GB/s, half_size: 2.4MiB}
 *     between:                 # groups over several nodes
 *       all_gather: {efficiency: 0.92}
 *
 * with the names of collective_name() and any of the five keys.
 */
struct collective_fit {
    double alpha_ns;        /* latency: fixed time of one call */
    double hop_ns;          /* step: added per step of the algorithm */
    double efficiency;      /* share of the links' bandwidth that large messages reach */
    double bus_bytes_per_s; /* bandwidth: measured, in place of links times efficiency */
    /* half_size: volume through the slowest link at which half of that speed is reached */
    double half_bytes;
};

enum collective {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_SEND, /* from one device to another */
    /* borders of parts of an image: each device to those before and after it in the group; bytes are what it sends in all */
    COLLECTIVE_HALO,
    COLLECTIVE_COUNT,
    /* Those that are measured, and named in files. A halo is two sends at once, and has what was measured of sends. */
    COLLECTIVE_MEASURED = COLLECTIVE_HALO
};
const char *collective_name(enum collective collective);
bool collective_from_name(const char *name, enum collective *out);
const char *collective_near(const char *name); /* the name that a misspelt one meant; NULL: none */

struct cluster {
    struct arena *arena; /* owns everything below */
    const char *name;
    const char *source;
    struct node_type node;
    int64_t nodes;
    struct fabric fabric;
    struct collective_fit fit_inside[COLLECTIVE_COUNT];  /* groups within one node */
    struct collective_fit fit_between[COLLECTIVE_COUNT]; /* groups over several nodes */
    struct channel_cache *channels;                      /* rings found so far, by device set */
    int32_t pools;                                       /* 0: all nodes are of one type */
    struct node_pool *pool;                              /* pools.h */
    int64_t between_ns;                                  /* from pool to pool */
};

void cluster_free(struct cluster *cluster);
/* Every new cluster should get a cache (without one, with NULL, each call searches again); several
 * threads may use it at once. */
struct channel_cache *channel_cache_new(void);
void channel_cache_free(struct channel_cache *cache);
int64_t cluster_devices(const struct cluster *cluster);
/* Machines as a batch system counts them, and the devices of one: a rack is several. */
int64_t cluster_hosts(const struct cluster *cluster);
int64_t cluster_host_devices(const struct cluster *cluster);

/* The same cluster with one part made faster by a factor. It uses the original's names, so it must
 * be freed before the original. */
enum cluster_part { PART_NETWORK, PART_NODE_LINKS, PART_HOST_LINKS, CLUSTER_PART_COUNT };
const char *cluster_part_name(enum cluster_part part); /* "network" */
struct cluster *cluster_faster(const struct cluster *cluster, enum cluster_part part,
                               double factor);
/* The same with its parts so many times as fast, beyond the pace that it has; to be freed likewise. */
struct cluster *cluster_paced(const struct cluster *cluster, const struct paces *pace);
/* These change the cluster itself; its arena owns its links. */
void cluster_set_memory(struct cluster *cluster, double factor); /* of its devices */
void cluster_set_pace(struct cluster *cluster, const struct paces *pace);

/* ---- device groups --------------------------------------------------------------------------- */

/* All devices first + sum of i_k * stride_k with 0 <= i_k < count_k. Every group of a mesh has this
 * form, so a group on 100,000 devices takes only a few words. A send goes from member 0 to member
 * 1; to a device with a lower number the stride is negative. */
enum { MAX_GROUP_LEVELS = 7 };
struct group {
    int64_t first;
    int32_t levels;
    /* innermost (smallest stride) first */
    int64_t count[MAX_GROUP_LEVELS], stride[MAX_GROUP_LEVELS];
    /* Of what the members of an all-to-all send to other nodes, the share that crosses the network: what
     * several members of a node get alike is sent there once, and passed on inside. 0: all of it. */
    double crossing;
};
struct group group_range(int64_t first, int64_t count, int64_t stride);
int64_t group_size(const struct group *group);
int64_t group_device(const struct group *group, int64_t i);
/* A hash of where a group lies, as far as the times of its collectives depend on it: groups with
 * equal places take equal times, whatever the collective and its size. */
weft_status group_place(const struct cluster *cluster, const struct group *group, uint64_t *out);

/* ---- collectives ----------------------------------------------------------------------------- */

struct collective_cost {
    int64_t ns;
    /* volume through the slowest link divided by the time, NCCL's "busbw" */
    double bus_bytes_per_s;
    const char *algorithm;  /* "ring", "tree", "direct", "hierarchical" */
    const char *source;     /* "link graph", "fit", "profile" */
    const char *bottleneck; /* the link kind that limits it: "nvlink", "nic" */
};
/* The time of one collective on `group` when nothing else uses its links. `bytes` is, as in
 * nccl-tests, the size of the larger of each rank's send and receive buffer (all-reduce: the
 * buffer). */
weft_status collective_time(const struct cluster *cluster, enum collective collective,
                            const struct group *group, int64_t bytes, struct collective_cost *out);

/* The bandwidth of the group's links for this collective, before any efficiency: the volume of
 * collective_time() divided by this is the least time that the wires allow. */
weft_status collective_bandwidth(const struct cluster *cluster, enum collective collective,
                                 const struct group *group, double *bytes_per_s);

/* One direction of one link anywhere in the cluster. */
struct link_id {
    int64_t unit; /* a node (tier -1 and 0), or a unit of the fabric's tier `tier - 1` */
    int16_t tier; /* -1: inside a node; 0: a NIC's wire to the fabric; t > 0: uplink of tier t-1 */
    int16_t link; /* inside a node: index into node.link; tier 0: number of the NIC, from 0 */
    bool reverse; /* from b to a; or downwards, towards the devices */
};
struct traffic {
    struct link_id link;
    double bytes;
};
/* Every link direction that the collective uses and how many bytes cross it, appended to a list in
 * `keep`: what the simulator shares among concurrent flows. */
struct traffic_list {
    struct traffic *data;
    size_t len, cap;
};
weft_status collective_traffic(const struct cluster *cluster, enum collective collective,
                               const struct group *group, int64_t bytes, struct arena *keep,
                               struct traffic_list *out);
double link_bytes_per_s(const struct cluster *cluster, struct link_id link);
/* "nvlink dev0-nvs0", "NIC 3", "uplink of leaf", without the node or unit. */
const char *link_text(struct arena *keep, const struct cluster *cluster, struct link_id link);
/* The bandwidth that all transfers on a link reach together: its bandwidth times the efficiency of
 * an all-reduce on such links. */
double link_reached_per_s(const struct cluster *cluster, struct link_id link);

/* What a communicator of the group keeps on each of its devices, for these collectives (1 << enum
 * collective): buffers in device memory (communicator.c). */
int64_t communicator_bytes(const struct cluster *cluster, const struct group *group,
                           unsigned collectives);

/* The same for one group after another, and for copies between a device and the memory of the
 * nearest socket (no traffic if none can be reached). A link is listed once per call. */
struct ledger;
struct ledger *ledger_new(const struct cluster *cluster, struct arena *keep);
weft_status ledger_copy(struct ledger *ledger, int64_t device, bool to_host, int64_t bytes,
                        struct arena *keep, struct traffic_list *out);

/* What a call puts on the links of one node. Nodes on which it is the same share one record, which lives as long as
 * its ledger. */
struct node_load {
    int32_t number; /* within the ledger, from 0 */
    int32_t links;
    const int32_t *at; /* 2 * link + reverse; after the links 2 * (links + nic) + downwards */
    const double *bytes;
};
struct node_use {
    int64_t node;
    const struct node_load *load;
};
struct node_uses {
    struct node_use *data;
    size_t len, cap;
};
/* The lists are replaced: the group's nodes in ascending order, and the links of tiers. */
weft_status ledger_collective(struct ledger *ledger, enum collective collective,
                              const struct group *group, int64_t bytes, struct arena *keep,
                              struct node_uses *nodes, struct traffic_list *uplinks);
weft_status ledger_copy_use(struct ledger *ledger, int64_t device, bool to_host, int64_t bytes,
                            struct node_use *out);

/* Rings through the devices of one node, found on its link graph. */
struct ring {
    int32_t length;
    int32_t *device;    /* in ring order */
    double bytes_per_s; /* of this ring when all rings run */
    enum link_kind slowest;
};
struct rings {
    int32_t count;
    struct ring *ring;
    double bytes_per_s; /* of all together */
};
/* Devices may be given in any order; each ring starts at the smallest. A ring of direct wires is
 * listed in both directions, one after the other. */
weft_status find_rings(const struct node_type *node, const int32_t *devices, int32_t count,
                       struct arena *keep, struct rings *out);

/* ---- opening, describing --------------------------------------------------------------------- */

struct cluster_preset {
    const char *name;    /* "dgx-a100" */
    const char *summary; /* one line for `weft clusters` */
    /* a few words; the `source` of an opened cluster is the full text */
    const char *source;
    const struct machine *machine; /* presets.c */
};
size_t cluster_presets(const struct cluster_preset **out);

/* "dgx-a100:16", a YAML cluster file (optionally file.yaml:NODES), or an NCCL topology XML;
 * "dgx-a100:2x4" takes the first 4 devices of each of 2 nodes. */
weft_status cluster_open(const char *name, struct cluster **out);
/* What cluster_open takes a name for: "8xH100" is dgx-h100:1x8 (nicknames.c); in `keep`, or the name itself. */
const char *cluster_meant(struct arena *keep, const char *name);
/* The machine this runs on, through hwloc. */
weft_status cluster_this_machine(struct cluster **out);
/* The same machine as so many CPU ranks with one core each; a device's l2_bytes are those of the
 * last-level cache. */
weft_status cluster_ranks(int32_t ranks, struct cluster **out);

/* A drawing of a node and its fabric as text, at most `columns` wide. */
const char *cluster_draw(struct arena *keep, const struct cluster *cluster, int columns);

#include "cluster/fit.h"
#include "cluster/pools.h"

#endif

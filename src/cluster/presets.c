/* presets.c - the clusters that Weft knows by name: one row per machine, which machine.c builds.
 *
 *   I1  A row says what its source says; what the source leaves open is taken from the machine of
 *       the same class whose documentation is public, and `notes` says so.
 */
#include "cluster/machine.h"

#define GB_PER_S 1e9
#define GBIT     (1e9 / 8) /* bytes per second in one Gb/s */

/* The hybrid cube mesh of DGX-1 with V100, as nvidia-smi numbers it: six links a device (NVIDIA DGX-1
 * whitepaper). The captured data/topologies/dgx1_v100_1ib.xml is the same graph, numbered otherwise. */
static const struct nvlink_pair CUBE_MESH[] = {
    {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
    {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
};

/* The same graph in an order in which neighbours have two links: the machine of Aceso's tables. Two
 * of its devices exchange 41.6 GB/s in an all-reduce and send 42.5, more than one link of 25
 * allows; and with this order 2, 4 and 8 devices reach the same share of their links (58, 58 and 60
 * % in all-gathers). */
static const struct nvlink_pair CUBE_MESH_PAIRED[] = {
    {0, 1, 2}, {0, 2, 1}, {0, 3, 1}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 1}, {2, 3, 2},
    {2, 6, 1}, {3, 7, 2}, {4, 5, 2}, {4, 6, 1}, {4, 7, 1}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
};

/* One wire between every two of eight devices. */
static const struct nvlink_pair FULL_MESH[] = {
    {0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {0, 4, 1}, {0, 5, 1}, {0, 6, 1}, {0, 7, 1},
    {1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {1, 5, 1}, {1, 6, 1}, {1, 7, 1}, {2, 3, 1},
    {2, 4, 1}, {2, 5, 1}, {2, 6, 1}, {2, 7, 1}, {3, 4, 1}, {3, 5, 1}, {3, 6, 1},
    {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 1}, {5, 6, 1}, {5, 7, 1}, {6, 7, 1}};
/* Four modules of two dies, as rocm-smi numbers them: four wires between the dies of a module, one or two to others
 * (Pearson, "Interconnect Bandwidth Heterogeneity on AMD MI250x and Infinity Fabric", 2023, Fig. 1). Of a die's eight
 * wires one goes to the CPU, and of odd ones another to a NIC. */
static const struct nvlink_pair DIES[] = {{0, 1, 4}, {2, 3, 4}, {4, 5, 4}, {6, 7, 4},
                                          {0, 6, 2}, {2, 4, 2}, {0, 2, 1}, {1, 3, 1},
                                          {1, 5, 1}, {3, 7, 1}, {4, 6, 1}, {5, 7, 1}};
/* Four GH200 with six NVLinks to each other (Alps). */
static const struct nvlink_pair QUAD[] = {{0, 1, 6}, {0, 2, 6}, {0, 3, 6},
                                          {1, 2, 6}, {1, 3, 6}, {2, 3, 6}};
/* Bridges of 600 GB/s, both ways together, between neighbours. */
static const struct nvlink_pair BRIDGES[] = {{0, 1, 12}, {2, 3, 12}, {4, 5, 12}, {6, 7, 12}};

#define PCIE3   8 /* GT/s */
#define PCIE4   16
#define PCIE5   32
#define PCIE6   64

#define NVLINK2 (25 * GB_PER_S)   /* NVLink 2 to 4: V100, A100, H100 */
#define NVLINK5 (50 * GB_PER_S)   /* B200 */
#define XGMI2   (50 * GB_PER_S)   /* MI250X: x16 at 25 GT/s */
#define XGMI3   (64 * GB_PER_S)   /* MI300X, MI325X: x16 at 32 GT/s */
#define XGMI4   (76.8 * GB_PER_S) /* MI350X, MI355X: x16 at 38.4 GT/s */

/* Non-blocking trees of the switches of their time: 36 ports at EDR, 40 at HDR, half of them
 * towards the nodes. */
static const struct tier_plan EDR_TREE[] = {
    {"leaf", 18, 1, 0, FABRIC_NS},
    {"spine", 18 * 18, 1, 0, FABRIC_TIER_NS},
    {"core", 0, 0, 0, FABRIC_TIER_NS},
    {0},
};
static const struct tier_plan HDR_TREE[] = {
    {"leaf", 20, 1, 0, FABRIC_NS},
    {"spine", 20 * 20, 1, 0, FABRIC_TIER_NS},
    {"core", 0, 0, 0, FABRIC_TIER_NS},
    {0},
};
#define EDR_SOURCE "36-port EDR switches, non-blocking: assumed"
#define HDR_SOURCE "40-port HDR switches, non-blocking: assumed"

/* A unit of the leaf tier is a SuperPOD's scalable unit: one leaf switch per rail. */
#define SUPERPOD(name, unit)                                                                       \
    static const struct tier_plan name[] = {                                                       \
        {"leaf", (unit), 1, 0, FABRIC_NS},                                                         \
        {"spine", 4 * (unit), 1, 0, FABRIC_TIER_NS},                                               \
        {"core", 0, 0, 0, FABRIC_TIER_NS},                                                         \
        {0},                                                                                       \
    }
SUPERPOD(SUPERPOD_8, 8);
SUPERPOD(SUPERPOD_20, 20);
SUPERPOD(SUPERPOD_32, 32);

/* Aries: four nodes share a router with 30 electrical links of 5.25 GB/s; a group of two cabinets is
 * 384 nodes with up to 240 optical cables of 18.75 GB/s per direction; 1.3 us between neighbours
 * (Cray XC Series Network, WP-Aries01-1112). */
static const struct tier_plan ARIES[] = {
    {"router", 4, 0, 30 * 5.25 * GB_PER_S, 1300},
    {"group", 384, 0, 240 * 18.75 * GB_PER_S, 400},
    {"system", 0, 0, 0, 600},
    {0},
};

/* The one-way time over EFA is about 15 us and over a cloud's TCP about 25 us: estimates from
 * published ping-pong measurements. */
static const struct tier_plan PLACEMENT_GROUP[] = {{"placement group", 0, 0, 0, 15000}, {0}};
/* Slingshot 11: about 2 us between nodes of different groups (published osu_latency). */
static const struct tier_plan SLINGSHOT[] = {{"slingshot", 0, 0, 0, 2000}, {0}};
static const struct tier_plan ZONE[] = {{"zone", 0, 0, 0, 25000}, {0}};

/* How nodes are joined: `count` NICs of `gbit` Gb/s each, on InfiniBand of one generation (EDR, HDR), or as the rails
 * of a SuperPOD with scalable units of `unit` nodes. */
#define NICS(count, gbit) .nics = (count), .nic_bytes_per_s = (gbit) * GBIT
#define INFINIBAND(count, gbit, generation)                                                        \
    NICS(count, gbit), .fabric = FABRIC_FAT_TREE, .fabric_source = generation##_SOURCE,            \
        .tiers = generation##_TREE
#define RAILS(count, gbit, pod, unit)                                                              \
    NICS(count, gbit), .fabric = FABRIC_RAIL, .fabric_source = (pod), .tiers = SUPERPOD_##unit

/* What the machines of one family have in common. */
#define V100_NODE(mesh)                                                                            \
    .device = "V100-SXM2-32GB", .devices = 8, .sockets = 2, .cpu = CPU_SKYLAKE,                    \
    .pci_gt_per_s = PCIE3, .pci_switches = 4, .nvlink_bytes_per_s = NVLINK2, .pairs = (mesh),      \
    .pair_count = COUNT_OF(mesh)
#define V100_CUBE_MESH V100_NODE(CUBE_MESH)
#define NVSWITCH_NODE(name, cpus, gt, links, rate)                                                 \
    .device = (name), .devices = 8, .sockets = 2, .cpu = (cpus), .pci_gt_per_s = (gt),             \
    .pci_switches = 4, .nvswitch_links = (links), .nvlink_bytes_per_s = (rate)
#define EC2_PLACEMENT                                                                              \
    .fabric = FABRIC_SWITCH, .fabric_source = "EC2 placement group, full bisection: assumed",      \
    .tiers = PLACEMENT_GROUP
#define EC2_P3DN V100_CUBE_MESH, NICS(1, 100), .nics_on_sockets = true, EC2_PLACEMENT
#define DGX_A100 NVSWITCH_NODE("A100-SXM4-80GB", CPU_ZEN2, PCIE4, 12, NVLINK2)

static const struct machine TITAN_XP = {
    .notes = "Proteus, Table II, HC1; PCIe tree of data/topologies/titanxp.xml",
    .device = "TITAN-Xp",
    .devices = 8,
    .sockets = 2,
    .cpu = CPU_BROADWELL,
    .pci_gt_per_s = PCIE3,
    .pci_switches = 4,
};
static const struct machine TITAN_RTX = {
    .notes = "Galvatron-BMW, section VII: 8 RTX TITAN on PCIe 3.0, 100 Gb/s InfiniBand; PCIe tree "
             "as in data/topologies/titanxp.xml",
    .device = "RTX-TITAN",
    .devices = 8,
    .sockets = 2,
    .cpu = CPU_SKYLAKE,
    .pci_gt_per_s = PCIE3,
    .pci_switches = 4,
    .nics_on_sockets = true,
    INFINIBAND(1, 100, EDR),
};
/* A node injects 10.2 GB/s into Aries. NCCL has no transport of its own for it and uses the IP
 * interface (recipes of CSCS set NCCL_IB_HCA=ipogif0). There, between two nodes of Piz Daint, TCP
 * carries 7.03 GB/s in messages of 1 MiB, both ways together (osu_bibw in openucx/ucx, issue 4676):
 * 3.5 each way when both are in use, as they are in a ring. NCCL's messages are slices of 1 MiB
 * (two of the eight steps of its 4 MiB buffer). AutoDDL's Table 3 implies 3.4 to 3.9 GB/s. */
static const struct machine PIZ_DAINT = {
    .notes =
        "AutoDDL, section 5: Cray XC50, one P100 per node, Aries dragonfly; rates from Cray XC "
        "Series Network (WP-Aries01-1112), what TCP reaches from openucx/ucx, issue 4676",
    .device = "P100-PCIe-16GB",
    .devices = 1,
    .sockets = 1,
    .cpu = CPU_BROADWELL,
    .pci_gt_per_s = PCIE3,
    .nics = 1,
    .nics_on_sockets = true,
    .nic_bytes_per_s = 10.2 * GB_PER_S,
    .fabric = FABRIC_DRAGONFLY,
    .fabric_source = "Cray XC Series Network, WP-Aries01-1112",
    .tiers = ARIES,
    .efficiency_between = 0.345,
};
static const struct machine DGX_V100 = {
    .notes = "Aceso, appendix C; Proteus, Table II, HC2; links of NVIDIA's DGX-1",
    V100_CUBE_MESH,
    .nics_from = 1,
    INFINIBAND(1, 100, EDR),
};
/* From `weft fit data/profiles/aceso/v100_collectives.csv --cluster aceso-v100`, all sizes and
 * groups, and a least-squares fit of relative errors to v100_p2p.csv. */
static const struct collective_fit ACESO_INSIDE[COLLECTIVE_COUNT] = {
    [COLLECTIVE_ALL_REDUCE] = {21589, 4213, .efficiency = 0.8345, .half_bytes = 200611},
    [COLLECTIVE_ALL_GATHER] = {98703, .efficiency = 0.5843},
    [COLLECTIVE_REDUCE_SCATTER] = {61680, 13328, .efficiency = 0.5905, .half_bytes = 340027},
    [COLLECTIVE_ALL_TO_ALL] = {76031, .efficiency = 0.6859, .half_bytes = 108592},
    [COLLECTIVE_SEND] = {35900, .efficiency = 0.852},
};
static const struct collective_fit ACESO_BETWEEN[COLLECTIVE_COUNT] = {
    [COLLECTIVE_SEND] = {81400, .efficiency = 0.431},
};
static const struct machine ACESO_V100 = {
    .notes = "Aceso, appendix C, and its published tables of collectives and point-to-point rates",
    V100_NODE(CUBE_MESH_PAIRED),
    .nics_from = 1,
    INFINIBAND(1, 100, EDR),
    .inside = ACESO_INSIDE,
    .between = ACESO_BETWEEN,
};
static const struct machine P3DN = {
    .notes = "AWS EC2 p3dn.24xlarge: 8 V100, NVLink as in DGX-1, 100 Gb/s EFA",
    EC2_P3DN,
};
/* NCCL on TCP over 100 Gb/s reaches 4 to 6 GB/s at best (NVIDIA/nccl, issue 450: 4 nodes of 8
 * V100): the middle of that range. AutoDDL's section 5.3 implies 4.5 to 5.7 for VGG-13. */
static const struct machine GCP_A2_16 = {
    .notes =
        "AutoDDL, section 5: a2-megagpu-16g, 600 GB/s NVLink a device, 100 Gb/s between hosts; "
        "what NCCL reaches on TCP from NVIDIA/nccl, issue 450",
    .device = "A100-SXM4-40GB",
    .devices = 16,
    .sockets = 2,
    .cpu = CPU_SKYLAKE,
    .pci_gt_per_s = PCIE3,
    .pci_switches = 8,
    .nvswitch_links = 12,
    .nvlink_bytes_per_s = NVLINK2,
    NICS(1, 100),
    .nics_on_sockets = true,
    .fabric = FABRIC_SWITCH,
    .fabric_source = "one compute zone, full bisection: assumed",
    .tiers = ZONE,
    .efficiency_between = 0.40,
};
/* Fold3D's tables imply 117 to 126 of 200 Gb/s and 62 to 67 of 100 Gb/s for data-parallel
 * synchronisation: the middle of each range. Its section 6.4: 29.6 GB/s from 8 A100 to their host, 13.6 from 8 V100. */
static const struct machine FOLD3D_A100 = {
    .notes =
        "Fold3D, section 6: 8 A100-40GB, NVLink, 200 Gb/s InfiniBand per host, Intel 6248R; its "
        "DP.sync (15.7 GB/s and more) is beyond a PCIe 3 port",
    NVSWITCH_NODE("A100-SXM4-40GB", CPU_SKYLAKE, PCIE4, 12, NVLINK2),
    .nics_on_sockets = true, /* where it is attached is not published */
    INFINIBAND(1, 200, HDR),
    .host_bytes_per_s = 29.6 * GB_PER_S,
    .efficiency_between = 0.63,
};
static const struct machine FOLD3D_V100 = {
    .notes = "Fold3D, section 6: AWS EC2 p3dn.24xlarge, 100 Gb/s",
    EC2_P3DN,
    .host_bytes_per_s = 13.6 * GB_PER_S,
    .efficiency_between = 0.667,
};
static const struct machine DGX_A100_RAILS = {
    .notes = "NVIDIA DGX A100 system and SuperPOD reference architecture (scalable units of 20)",
    DGX_A100,
    RAILS(8, 200, "NVIDIA DGX SuperPOD A100", 20),
};
static const struct machine DGX_A100_100G = {
    .notes = "NVIDIA DGX A100 with one 100 Gb/s NIC (Galvatron-BMW, section VII: 16 A100)",
    DGX_A100,
    INFINIBAND(1, 100, HDR),
};
static const struct machine DGX_A100_200G = {
    .notes = "NVIDIA DGX A100 with one 200 Gb/s NIC (Proteus, Table II, HC3)",
    DGX_A100,
    INFINIBAND(1, 200, HDR),
};
static const struct machine DGX_A100_400G = {
    .notes = "NVIDIA DGX A100 with two 200 Gb/s NICs (Galvatron-BMW, section VII: 32 A100)",
    DGX_A100,
    INFINIBAND(2, 200, HDR),
};
static const struct machine DGX_A100_800G = {
    .notes = "A100 nodes with four 200 Gb/s NICs (vTrain, validation on 512 A100: 800 Gb/s a node)",
    DGX_A100,
    INFINIBAND(4, 200, HDR),
};
static const struct machine DGX_A100_40GB = {
    .notes = "NVIDIA DGX A100 320GB; fabric as DGX SuperPOD A100",
    NVSWITCH_NODE("A100-SXM4-40GB", CPU_ZEN2, PCIE4, 12, NVLINK2),
    RAILS(8, 200, "NVIDIA DGX SuperPOD A100", 20),
};
static const struct machine DGX_H100 = {
    .notes = "NVIDIA DGX H100 system and SuperPOD reference architecture (scalable units of 32)",
    NVSWITCH_NODE("H100-SXM5-80GB", CPU_SAPPHIRE_RAPIDS, PCIE5, 18, NVLINK2),
    RAILS(8, 400, "NVIDIA DGX SuperPOD H100", 32),
};
/* Two thirds of the NVLinks of an A100, and less than half of an H100's: 400 GB/s both ways together. */
static const struct machine HGX_A800 = {
    .notes = "HGX A800: as DGX A100 with eight NVLinks a device (NVIDIA A800 datasheet)",
    NVSWITCH_NODE("A800-SXM4-80GB", CPU_ZEN2, PCIE4, 8, NVLINK2),
    RAILS(8, 200, "NVIDIA DGX SuperPOD A100", 20),
};
static const struct machine HGX_H800 = {
    .notes = "HGX H800: as DGX H100 with eight NVLinks a device (DeepSeek-AI, Insights into "
             "DeepSeek-V3, section 4.1); fabric as DGX SuperPOD H100",
    NVSWITCH_NODE("H800-SXM5-80GB", CPU_SAPPHIRE_RAPIDS, PCIE5, 8, NVLINK2),
    RAILS(8, 400, "NVIDIA DGX SuperPOD H100", 32),
};
static const struct machine HGX_H20 = {
    .notes = "HGX H20: as DGX H100, whose NVLinks it has (900 GB/s both ways together)",
    NVSWITCH_NODE("H20-SXM5-96GB", CPU_SAPPHIRE_RAPIDS, PCIE5, 18, NVLINK2),
    RAILS(8, 400, "NVIDIA DGX SuperPOD H100", 32),
};
static const struct machine TORCHTITAN_H100 = {
    .notes = "torchtitan's benchmarks: 8 H100 of 96 GB HBM2e at 500 W, NVLink 4, 400 Gb/s each; "
             "fabric as DGX SuperPOD H100",
    NVSWITCH_NODE("H100-96GB-HBM2e", CPU_SAPPHIRE_RAPIDS, PCIE5, 18, NVLINK2),
    RAILS(8, 400, "NVIDIA DGX SuperPOD H100", 32),
};
static const struct machine HGX_H200 = {
    .notes = "NVIDIA HGX H200 with eight 400 Gb/s NICs; fabric as DGX SuperPOD H100",
    NVSWITCH_NODE("H200-SXM-141GB", CPU_SAPPHIRE_RAPIDS, PCIE5, 18, NVLINK2),
    RAILS(8, 400, "NVIDIA DGX SuperPOD H100", 32),
};
static const struct machine HGX_B200 = {
    .notes = "NVIDIA HGX B200 with eight 400 Gb/s NICs; fabric as DGX SuperPOD B200",
    NVSWITCH_NODE("B200-SXM-180GB", CPU_EMERALD_RAPIDS, PCIE5, 18, NVLINK5),
    RAILS(8, 400, "NVIDIA DGX SuperPOD B200", 32),
};
/* The NICs hang on PCIe 6 switches of their own. */
static const struct machine HGX_B300 = {
    .notes = "NVIDIA HGX B300 with eight 800 Gb/s NICs; fabric as DGX SuperPOD B200, sockets as "
             "HGX B200",
    NVSWITCH_NODE("B300-SXM-288GB", CPU_EMERALD_RAPIDS, PCIE6, 18, NVLINK5),
    RAILS(8, 800, "NVIDIA DGX SuperPOD B300", 32),
};
/* What servers for eight cards on PCIe have in common. */
#define CARDS(name, cpus, gt)                                                                      \
    .device = (name), .devices = 8, .sockets = 2, .cpu = (cpus), .pci_gt_per_s = (gt),             \
    .pci_switches = 4
#define BRIDGED_CARDS(name)                                                                        \
    CARDS(name, CPU_SAPPHIRE_RAPIDS, PCIE5), .nvlink_bytes_per_s = NVLINK2, .pairs = BRIDGES,      \
        .pair_count = COUNT_OF(BRIDGES),                                                           \
        RAILS(4, 400, "rails of 400 Gb/s, units of 32: assumed", 32)
static const struct machine H100_PCIE = {
    .notes = "eight H100 PCIe, NVLink bridges between pairs, four 400 Gb/s NICs: NVIDIA-certified "
             "servers; the number of NICs is assumed",
    BRIDGED_CARDS("H100-PCIe-80GB"),
};
static const struct machine H100_NVL = {
    .notes = "eight H100 NVL, NVLink bridges between pairs, four 400 Gb/s NICs: NVIDIA-certified "
             "servers; the number of NICs is assumed",
    BRIDGED_CARDS("H100-NVL-94GB"),
};
#define EC2_CARDS(name, count) CARDS(name, CPU_ZEN2, PCIE4), NICS(count, 100), EC2_PLACEMENT
static const struct machine G6E = {
    .notes = "AWS EC2 g6e.48xlarge: 8 L40S on PCIe 4, 400 Gb/s EFA",
    EC2_CARDS("L40S", 4),
};
static const struct machine G6 = {
    .notes = "AWS EC2 g6.48xlarge: 8 L4 on PCIe 4, 100 Gb/s",
    EC2_CARDS("L4", 1),
    .nics_on_sockets = true,
};
static const struct machine G5 = {
    .notes = "AWS EC2 g5.48xlarge: 8 A10G on PCIe 4, 100 Gb/s EFA",
    EC2_CARDS("A10G", 1),
    .nics_on_sockets = true,
};
static const struct machine RTX_4090 = {
    .notes = "eight RTX 4090 on PCIe 4, one 100 Gb/s NIC: assumed",
    CARDS("RTX-4090", CPU_ZEN2, PCIE4),
    .nics_on_sockets = true,
    INFINIBAND(1, 100, EDR),
};
static const struct machine RTX_PRO_SERVER = {
    .notes = "NVIDIA RTX PRO Server: 8 RTX PRO 6000, 400 Gb/s a device",
    CARDS("RTX-PRO-6000", CPU_EMERALD_RAPIDS, PCIE5),
    RAILS(8, 400, "rails of 400 Gb/s, units of 32: assumed", 32),
};
#define GRACE_HOPPER(count)                                                                        \
    .device = "GH200-96GB", .devices = (count), .sockets = (count), .cpu = CPU_ARM,                \
    .pci_gt_per_s = PCIE5, .socket_link_bytes_per_s = 450 * GB_PER_S, .nics_on_sockets = true
static const struct machine GH200 = {
    .notes = "NVIDIA GH200 MGX server: one superchip, one 400 Gb/s NIC",
    GRACE_HOPPER(1),
    RAILS(1, 400, "one rail of 400 Gb/s, units of 32: assumed", 32),
};
/* How nodes of Cray EX are joined. */
#define CRAY_EX                                                                                    \
    NICS(4, 200), .fabric = FABRIC_SWITCH,                                                         \
        .fabric_source = "Slingshot dragonfly, taken as full bisection: assumed",                  \
        .tiers = SLINGSHOT
static const struct machine GH200_QUAD = {
    .notes =
        "four GH200 a node, six NVLinks between each two, Slingshot 11 of 200 Gb/s each: CSCS Alps",
    GRACE_HOPPER(4),
    .nvlink_bytes_per_s = NVLINK2,
    .pairs = QUAD,
    .pair_count = COUNT_OF(QUAD),
    CRAY_EX,
};
/* 36 GB/s each way between a die and its CPU, EPYC 7A53. Its NICs are on the dies; here they are on the socket, which is as
 * near: a die reaches it faster than a NIC sends. */
static const struct machine MI250X = {
    .notes =
        "OLCF Frontier user guide: HPE Cray EX235a, four MI250X as eight devices, Slingshot 11",
    .device = "MI250X-GCD",
    .devices = 8,
    .sockets = 1,
    .cpu = CPU_ZEN2,
    .pci_gt_per_s = PCIE4,
    .socket_link_bytes_per_s = 36 * GB_PER_S,
    .nvlink_bytes_per_s = XGMI2,
    .pairs = DIES,
    .pair_count = COUNT_OF(DIES),
    .nics_on_sockets = true,
    CRAY_EX,
};
/* Eight devices, each joined to each other by one xGMI link, one 400 Gb/s NIC each. */
#define INSTINCT_NODE(name, rate)                                                                  \
    .device = (name), .devices = 8, .sockets = 2, .cpu = CPU_ZEN4, .pci_gt_per_s = PCIE5,          \
    .pci_switches = 4, .nvlink_bytes_per_s = (rate), .pairs = FULL_MESH,                           \
    .pair_count = COUNT_OF(FULL_MESH),                                                             \
    RAILS(8, 400, "rails of 400 Gb/s, units of 32: assumed", 32)
static const struct machine MI300X = {
    .notes = "AMD Instinct MI300X platform (datasheet) with eight 400 Gb/s NICs",
    INSTINCT_NODE("MI300X", XGMI3),
};
static const struct machine MI325X = {
    .notes = "AMD Instinct MI325X platform (datasheet) with eight 400 Gb/s NICs",
    INSTINCT_NODE("MI325X", XGMI3),
};
static const struct machine MI350X = {
    .notes = "AMD Instinct MI350X platform (datasheet) with eight 400 Gb/s NICs",
    INSTINCT_NODE("MI350X", XGMI4),
};
static const struct machine MI355X = {
    .notes = "AMD Instinct MI355X platform (datasheet) with eight 400 Gb/s NICs",
    INSTINCT_NODE("MI355X", XGMI4),
};
/* Two devices per Grace, two Grace per tray, 18 trays; C2C carries 450 GB/s per direction for both
 * devices of a Grace together. */
#define NVL72(name, gt)                                                                            \
    .device = (name), .devices = 72, .sockets = 36, .sockets_per_board = 2, .cpu = CPU_ARM,        \
    .pci_gt_per_s = (gt), .socket_link_bytes_per_s = 225 * GB_PER_S, .nvswitch_links = 18,         \
    .nvlink_bytes_per_s = NVLINK5
static const struct machine GB200_NVL72 = {
    .notes = "NVIDIA GB200 NVL72 and DGX SuperPOD GB200 (scalable units of 8 racks)",
    NVL72("GB200", PCIE5),
    RAILS(72, 400, "NVIDIA DGX SuperPOD GB200", 8),
    .nics_on_sockets = true,
};
static const struct machine GB300_NVL72 = {
    .notes = "NVIDIA GB300 NVL72, 800 Gb/s a device; racks joined as in DGX SuperPOD GB200",
    NVL72("GB300", PCIE6),
    RAILS(72, 800, "NVIDIA DGX SuperPOD GB300", 8),
    .nics_on_sockets = true,
};

static const struct cluster_preset PRESETS[] = {
    {"titan-xp", "8 TITAN Xp on PCIe", "Proteus HC1", &TITAN_XP},
    {"titan-rtx", "8 RTX TITAN on PCIe, 100 Gb/s InfiniBand", "Galvatron-BMW", &TITAN_RTX},
    {"piz-daint", "one P100 a node, Aries dragonfly", "AutoDDL", &PIZ_DAINT},
    {"dgx-v100", "DGX-1 with V100, 100 Gb/s InfiniBand", "Aceso, Proteus HC2", &DGX_V100},
    {"aceso-v100", "the same as Aceso measured it", "Aceso", &ACESO_V100},
    {"p3dn", "AWS p3dn: DGX-1 links, 100 Gb/s EFA", "AWS", &P3DN},
    {"gcp-a2-16", "16 A100 on NVSwitch, 100 Gb/s", "AutoDDL", &GCP_A2_16},
    {"fold3d-a100", "8 A100 on NVSwitch, 200 Gb/s InfiniBand", "Fold3D", &FOLD3D_A100},
    {"fold3d-v100", "AWS p3dn as Fold3D measured it", "Fold3D", &FOLD3D_V100},
    {"dgx-a100", "DGX A100, eight 200 Gb/s rails", "NVIDIA", &DGX_A100_RAILS},
    {"dgx-a100-100g", "DGX A100, 100 Gb/s a node", "Galvatron-BMW", &DGX_A100_100G},
    {"dgx-a100-200g", "DGX A100, 200 Gb/s a node", "Proteus HC3", &DGX_A100_200G},
    {"dgx-a100-400g", "DGX A100, 400 Gb/s a node", "Galvatron-BMW", &DGX_A100_400G},
    {"dgx-a100-800g", "A100 nodes, 800 Gb/s a node", "vTrain", &DGX_A100_800G},
    {"dgx-a100-40gb", "DGX A100 320GB, eight 200 Gb/s rails", "NVIDIA", &DGX_A100_40GB},
    {"hgx-a800", "HGX A800, eight 200 Gb/s rails", "NVIDIA", &HGX_A800},
    {"dgx-h100", "DGX H100, eight 400 Gb/s rails", "NVIDIA", &DGX_H100},
    {"hgx-h800", "HGX H800, eight 400 Gb/s rails", "DeepSeek-AI", &HGX_H800},
    {"hgx-h20", "HGX H20, eight 400 Gb/s rails", "NVIDIA", &HGX_H20},
    {"torchtitan-h100", "8 H100-96GB at 500 W, eight 400 Gb/s NICs", "torchtitan",
     &TORCHTITAN_H100},
    {"hgx-h200", "HGX H200, eight 400 Gb/s rails", "NVIDIA", &HGX_H200},
    {"hgx-b200", "HGX B200, eight 400 Gb/s rails", "NVIDIA", &HGX_B200},
    {"hgx-b300", "HGX B300, eight 800 Gb/s rails", "NVIDIA", &HGX_B300},
    {"gb200-nvl72", "72 GB200 in one NVLink domain", "NVIDIA", &GB200_NVL72},
    {"gb300-nvl72", "72 GB300 in one NVLink domain", "NVIDIA", &GB300_NVL72},
    {"gh200", "one GH200 a node, 400 Gb/s", "NVIDIA", &GH200},
    {"gh200-quad", "four GH200 a node, Slingshot 200 Gb/s each", "CSCS Alps", &GH200_QUAD},
    {"h100-pcie", "8 H100 PCIe, NVLink bridges, four 400 Gb/s rails", "NVIDIA", &H100_PCIE},
    {"h100-nvl", "8 H100 NVL, NVLink bridges, four 400 Gb/s rails", "NVIDIA", &H100_NVL},
    {"g6e", "AWS g6e: 8 L40S on PCIe, 400 Gb/s EFA", "AWS", &G6E},
    {"g6", "AWS g6: 8 L4 on PCIe, 100 Gb/s", "AWS", &G6},
    {"g5", "AWS g5: 8 A10G on PCIe, 100 Gb/s", "AWS", &G5},
    {"rtx-4090", "8 RTX 4090 on PCIe, 100 Gb/s", "assumed", &RTX_4090},
    {"rtx-pro-6000", "8 RTX PRO 6000 on PCIe, eight 400 Gb/s rails", "NVIDIA", &RTX_PRO_SERVER},
    {"mi250x", "4 MI250X of two dies each, four 200 Gb/s NICs", "OLCF Frontier", &MI250X},
    {"mi300x", "8 MI300X, xGMI between all, eight 400 Gb/s rails", "AMD", &MI300X},
    {"mi325x", "8 MI325X, xGMI between all, eight 400 Gb/s rails", "AMD", &MI325X},
    {"mi350x", "8 MI350X, xGMI between all, eight 400 Gb/s rails", "AMD", &MI350X},
    {"mi355x", "8 MI355X, xGMI between all, eight 400 Gb/s rails", "AMD", &MI355X},
};

size_t cluster_presets(const struct cluster_preset **out)
{
    *out = PRESETS;
    return COUNT_OF(PRESETS);
}

const struct cluster_preset *cluster_preset_find(const char *name)
{
    int at = NAME_INDEX(name, PRESETS);
    return at < 0 ? NULL : &PRESETS[at];
}

weft_status unknown_preset(const char *name)
{
    weft_status status = bad_argument("`weft clusters` lists the names; a file ends in .yaml, "
                                      ".json or .xml",
                                      "no cluster is called '%.100s'", name);
    if (!hint_devices(name))
        hint_near(NEAREST_NAME(name, PRESETS));
    return status;
}

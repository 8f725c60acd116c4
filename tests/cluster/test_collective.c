/* test_collective.c - rings, times and traffic of collectives, each expectation derived by hand or
 * taken from a published measurement. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/placement.h"

enum { MAX_VERTICES = 64, MAX_LINKS = 256 };
static const double GB_PER_S = 1e9;
static const int64_t GIB = INT64_C(1) << 30;

/* A cluster made by hand. */
struct lab {
    struct cluster cluster;
    struct vertex vertex[MAX_VERTICES];
    struct link link[MAX_LINKS];
};

static int32_t add_vertex(struct lab *lab, enum vertex_kind kind)
{
    struct node_type *node = &lab->cluster.node;
    lab->vertex[node->vertices] = (struct vertex){kind, "v"};
    node->devices += kind == VERTEX_DEVICE;
    node->nics += kind == VERTEX_NIC;
    return node->vertices++;
}

static void add_link(struct lab *lab, enum link_kind kind, int32_t a, int32_t b, int32_t count,
                     double wire_gb_per_s)
{
    struct node_type *node = &lab->cluster.node;
    lab->link[node->links++] =
        (struct link){kind, a, b, count, count * wire_gb_per_s * GB_PER_S, 0};
}

static void lab_init(struct lab *lab, const char *arch, int devices, int64_t nodes)
{
    memset(lab, 0, sizeof *lab);
    lab->cluster.name = "lab";
    lab->cluster.nodes = nodes;
    lab->cluster.node.name = "hand-made";
    lab->cluster.node.device.arch = arch;
    lab->cluster.node.vertex = lab->vertex;
    lab->cluster.node.link = lab->link;
    for (int i = 0; i < devices; i++)
        add_vertex(lab, VERTEX_DEVICE);
    lab->cluster.channels = channel_cache_new();
}

static void lab_free(struct lab *lab)
{
    channel_cache_free(lab->cluster.channels);
}

/* One fabric switch; each node has `nics` NICs, NIC i one PCIe switch from devices i, i+nics,
 * ... */
static void add_fabric(struct lab *lab, int32_t nics, double nic_gb_per_s)
{
    struct node_type *node = &lab->cluster.node;
    int32_t plx[16];
    for (int32_t i = 0; i < nics; i++)
        plx[i] = add_vertex(lab, VERTEX_PCI_SWITCH);
    for (int32_t i = 0; i < nics; i++)
        add_link(lab, LINK_PCI, plx[i], add_vertex(lab, VERTEX_NIC), 1, 64);
    for (int32_t d = 0; d < node->devices; d++)
        add_link(lab, LINK_PCI, d, plx[d % nics], 1, 64);
    node->nic_bytes_per_s = nics * nic_gb_per_s * GB_PER_S;
    lab->cluster.fabric = (struct fabric){.kind = FABRIC_SWITCH, .tiers = 1};
    lab->cluster.fabric.tier[0] = (struct tier){"leaf", lab->cluster.nodes, 0, 2700};
}

/* 8 devices on an NVSwitch, 12 wires of 25 GB/s each; a NIC of 25 GB/s per device. */
static void dgx_a100(struct lab *lab, int64_t nodes)
{
    lab_init(lab, "ampere", 8, nodes);
    int32_t plane = add_vertex(lab, VERTEX_NVSWITCH);
    for (int32_t d = 0; d < 8; d++)
        add_link(lab, LINK_NVLINK, d, plane, 12, 25);
    add_fabric(lab, 8, 25);
}

struct wire {
    int32_t a, b, count;
};

/* The hybrid cube mesh of DGX-1, as nvidia-smi numbers it. */
static const struct wire CUBE_MESH[] = {
    {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
    {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};

/* The same as data/topologies/dgx1_v100_1ib.xml numbers it. */
static const struct wire CUBE_MESH_XML[] = {
    {0, 1, 1}, {0, 7, 2}, {0, 3, 1}, {0, 2, 2}, {1, 3, 2}, {1, 2, 1}, {1, 6, 2}, {2, 5, 1},
    {2, 3, 2}, {3, 4, 1}, {4, 5, 2}, {4, 6, 2}, {4, 7, 1}, {5, 7, 2}, {5, 6, 1}, {6, 7, 1}};

/* Pairs of devices under a PCIe switch, two of those per socket. */
static void dgx1_v100(struct lab *lab, const struct wire *wires, size_t count)
{
    lab_init(lab, "volta", 8, 1);
    for (size_t i = 0; i < count; i++)
        add_link(lab, LINK_NVLINK, wires[i].a, wires[i].b, wires[i].count, 25);
    int32_t socket[2] = {add_vertex(lab, VERTEX_SOCKET), add_vertex(lab, VERTEX_SOCKET)};
    add_link(lab, LINK_SOCKET, socket[0], socket[1], 1, 10);
    for (int32_t i = 0; i < 4; i++) {
        int32_t plx = add_vertex(lab, VERTEX_PCI_SWITCH);
        add_link(lab, LINK_PCI, plx, socket[i / 2], 1, 15.75);
        add_link(lab, LINK_PCI, 2 * i, plx, 1, 15.75);
        add_link(lab, LINK_PCI, 2 * i + 1, plx, 1, 15.75);
    }
}

static struct collective_cost cost(const struct lab *lab, enum collective collective,
                                   struct group group, int64_t bytes)
{
    struct collective_cost out;
    assert_int_equal(collective_time(&lab->cluster, collective, &group, bytes, &out), WEFT_OK);
    return out;
}

static struct rings rings_of(const struct lab *lab, int32_t count, struct arena *arena)
{
    int32_t devices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct rings rings;
    assert_int_equal(find_rings(&lab->cluster.node, devices, count, arena, &rings), WEFT_OK);
    return rings;
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* Three cycles in both directions use all 24 wires, 48 directions of wires, exactly once. */
static void assert_every_wire_once(const struct wire *wires, size_t count)
{
    struct lab lab;
    struct arena *arena = arena_new();
    dgx1_v100(&lab, wires, count);
    struct rings rings = rings_of(&lab, 8, arena);
    assert_int_equal(rings.count, 6);
    assert_float_equal(rings.bytes_per_s, 6 * 25e9, 1);
    int used[8][8] = {{0}};
    for (int32_t r = 0; r < rings.count; r++)
        for (int32_t i = 0; i < 8; i++)
            used[rings.ring[r].device[i]][rings.ring[r].device[(i + 1) % 8]]++;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(used[wires[i].a][wires[i].b], wires[i].count);
        assert_int_equal(used[wires[i].b][wires[i].a], wires[i].count);
    }
    arena_free(arena);
    lab_free(&lab);
}

static void dgx1_rings_use_every_wire_once(void **state)
{
    (void)state;
    assert_every_wire_once(CUBE_MESH, COUNT_OF(CUBE_MESH));
    assert_every_wire_once(CUBE_MESH_XML, COUNT_OF(CUBE_MESH_XML));
}

/* The same from NCCL's own description of the machine. */
static void dgx1_rings_from_nccl_topology(void **state)
{
    (void)state;
    struct cluster *cluster;
    struct rings rings;
    struct arena *arena = arena_new();
    int32_t devices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    assert_int_equal(cluster_open(WEFT_SOURCE_DIR "/data/topologies/dgx1_v100_1ib.xml", &cluster),
                     WEFT_OK);
    assert_int_equal(find_rings(&cluster->node, devices, 8, arena, &rings), WEFT_OK);
    assert_int_equal(rings.count, 6);
    assert_float_equal(rings.bytes_per_s, 150e9, 1);
    arena_free(arena);
    cluster_free(cluster);
}

/* Bus bandwidth of 1 GiB all-reduces on devices 0 .. n-1 in vTrain's V100 table: 22.6 45.1 85.4
 * 37.2 45.7 87.0 134.5 GB/s for n = 2 .. 8, in wires of about 22.5: 1 2 4 2 2 4 6. Five devices
 * have no cycle of wires; NCCL passes through a device. */
static void dgx1_subsets_have_the_rings_that_measurements_show(void **state)
{
    (void)state;
    static const int RINGS[] = {1, 2, 4, 2, 2, 4, 6};
    static const double BUS_GB_PER_S[] = {22.6, 45.1, 85.4, 37.2, 45.7, 87.0, 134.5};
    struct lab lab;
    struct arena *arena = arena_new();
    dgx1_v100(&lab, CUBE_MESH, COUNT_OF(CUBE_MESH));
    for (int n = 2; n <= 8; n++) {
        assert_int_equal(rings_of(&lab, n, arena).count, RINGS[n - 2]);
        struct collective_cost c = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, n, 1), GIB);
        assert_string_equal(c.bottleneck, "nvlink");
        assert_in_range(c.bus_bytes_per_s, BUS_GB_PER_S[n - 2] * 0.94e9,
                        BUS_GB_PER_S[n - 2] * 1.07e9);
    }
    arena_free(arena);
    lab_free(&lab);
}

/* 0 and 6 have no wire: over two PCIe switches and from socket to socket, 10 GB/s. */
static void devices_without_wires_use_pcie(void **state)
{
    (void)state;
    struct lab lab;
    struct arena *arena = arena_new();
    dgx1_v100(&lab, CUBE_MESH, COUNT_OF(CUBE_MESH));
    int32_t pair[] = {6, 0};
    struct rings rings;
    assert_int_equal(find_rings(&lab.cluster.node, pair, 2, arena, &rings), WEFT_OK);
    assert_int_equal(rings.count, 1);
    assert_int_equal(rings.ring[0].device[0], 0);
    assert_int_equal(rings.ring[0].slowest, LINK_SOCKET);
    assert_float_equal(rings.bytes_per_s, 10e9, 1);
    arena_free(arena);
    lab_free(&lab);
}

/* Two devices on one link of PCIe: all that the ring sends goes over it, once in each direction. */
static void a_link_alone_is_a_ring(void **state)
{
    (void)state;
    struct lab lab;
    struct arena *arena = arena_new();
    lab_init(&lab, "volta", 2, 1);
    add_link(&lab, LINK_PCI, 0, 1, 1, 15.75);
    struct rings rings = rings_of(&lab, 2, arena);
    assert_int_equal(rings.ring[0].slowest, LINK_PCI);
    assert_float_equal(rings.bytes_per_s, 15.75e9, 1);
    arena_free(arena);
    lab_free(&lab);
}

static void sets_of_devices_are_checked(void **state)
{
    (void)state;
    struct lab lab;
    struct arena *arena = arena_new();
    struct rings rings;
    dgx1_v100(&lab, CUBE_MESH, COUNT_OF(CUBE_MESH));
    assert_int_equal(find_rings(&lab.cluster.node, (int32_t[]){0, 1, 1}, 3, arena, &rings),
                     WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "a device is named twice in a set of 3");
    assert_int_equal(find_rings(&lab.cluster.node, (int32_t[]){7, 8}, 2, arena, &rings),
                     WEFT_BAD_INPUT);
    assert_int_equal(find_rings(&lab.cluster.node, (int32_t[]){-1, 0}, 2, arena, &rings),
                     WEFT_BAD_INPUT);
    arena_free(arena);
    lab_free(&lab);
}

/* 4 devices, 6 wires between each two (GH200 nodes): 9 cycles, 18 rings, 450 GB/s. Sailor's
 * table has 345 GB/s, 0.77 of it, for all-reduce, and 119 of 150 on two devices. */
static void full_mesh_is_used_up(void **state)
{
    (void)state;
    struct lab lab;
    struct arena *arena = arena_new();
    lab_init(&lab, "hopper", 4, 1);
    for (int32_t a = 0; a < 4; a++)
        for (int32_t b = a + 1; b < 4; b++)
            add_link(&lab, LINK_NVLINK, a, b, 6, 25);
    struct rings rings = rings_of(&lab, 4, arena);
    assert_int_equal(rings.count, 18);
    assert_float_equal(rings.bytes_per_s, 450e9, 1);
    assert_float_equal(rings_of(&lab, 2, arena).bytes_per_s, 150e9, 1);
    arena_free(arena);
    lab_free(&lab);
}

/* PCIe tree of 2 sockets, 2 switches each, 2 devices each: the ring crosses sockets once each
 * way. */
static void pcie_ring_crosses_sockets_once(void **state)
{
    (void)state;
    struct lab lab;
    struct arena *arena = arena_new();
    dgx1_v100(&lab, CUBE_MESH, 0);
    struct rings rings = rings_of(&lab, 8, arena);
    assert_int_equal(rings.count, 1);
    assert_float_equal(rings.bytes_per_s, 10e9, 1);
    assert_float_equal(rings_of(&lab, 4, arena).bytes_per_s, 15.75e9, 1);
    arena_free(arena);
    lab_free(&lab);
}

static void unconnected_devices_are_refused(void **state)
{
    (void)state;
    struct lab lab;
    lab_init(&lab, "ampere", 2, 1);
    struct collective_cost out;
    struct group both = group_range(0, 2, 1);
    assert_int_equal(collective_time(&lab.cluster, COLLECTIVE_SEND, &both, 8, &out),
                     WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "devices 0 and 1 of node type 'hand-made' have no path between them");
    lab_free(&lab);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* 8 A100, 1 GiB: V = 7/4 GiB and 0.4/8 for the device's own piece, B = 0.8 * 300 GB/s: 8.05 ms, sqrt(10 us V / B) = 0.28 ms,
 * latency 8.4 + 5 + 14 * 3.4 = 61 us. vTrain measured 8.19 ms. */
static void ring_all_reduce_by_hand(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 1);
    struct collective_cost c = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 8, 1), GIB);
    double volume = (1.75 + 0.4 / 8) * (double)GIB, bandwidth = 240e9;
    double seconds = 61e-6 + volume / bandwidth + sqrt(10e-6 * volume / bandwidth);
    assert_float_equal((double)c.ns, seconds * 1e9, 1);
    assert_float_equal((double)c.ns, 8.193e6, 0.03 * 8.193e6);
    assert_string_equal(c.algorithm, "ring");
    assert_string_equal(c.source, "link graph");
    lab_free(&lab);
}

static void nothing_to_do_takes_no_time(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 1);
    assert_int_equal(cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(3, 1, 1), GIB).ns, 0);
    assert_int_equal(cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 8, 1), 0).ns, 0);
    lab_free(&lab);
}

static void time_grows_with_bytes_and_devices(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 1024);
    for (int c = 0; c < COLLECTIVE_SEND; c++) {
        int64_t by_bytes = 0, by_devices = 0;
        for (int64_t bytes = 1; bytes <= 16 * GIB; bytes = bytes * 3 / 2 + 1) {
            int64_t ns = cost(&lab, (enum collective)c, group_range(0, 64, 1), bytes).ns;
            assert_true(ns >= by_bytes);
            by_bytes = ns;
        }
        for (int64_t n = 8; n <= 8192; n *= 2) {
            int64_t ns = cost(&lab, (enum collective)c, group_range(0, n, 1), 64 << 20).ns;
            assert_true(ns >= by_devices);
            by_devices = ns;
        }
    }
    lab_free(&lab);
}

/* Any 4 of 8 switched devices, and any two nodes of a switch, are the same. */
static void equal_groups_take_equal_time(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 64);
    int64_t ns = cost(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 4, 1), GIB).ns;
    assert_int_equal(cost(&lab, COLLECTIVE_ALL_GATHER, group_range(1, 4, 2), GIB).ns, ns);
    assert_int_equal(cost(&lab, COLLECTIVE_ALL_GATHER, group_range(84, 4, 1), GIB).ns, ns);
    ns = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 2, 8), GIB).ns;
    assert_int_equal(cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(13, 2, 80), GIB).ns, ns);
    lab_free(&lab);
}

/* All-reduce of 16 GiB on 2 x 8: NICs 8 * 25 * 0.96 = 192 GB/s are narrower than NVLink's 240; one
 * device per node has one NIC, 24 GB/s. */
static void nics_limit_groups_over_nodes(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 16);
    struct collective_cost c = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 16, 1), 16 * GIB);
    assert_string_equal(c.bottleneck, "nic");
    assert_float_equal(c.bus_bytes_per_s, 192e9, 0.02 * 192e9);
    c = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 16, 8), 16 * GIB);
    assert_float_equal(c.bus_bytes_per_s, 24e9, 0.02 * 24e9);
    lab_free(&lab);
}

/* Small all-reduces on many nodes go by tree: 2 log2(N) hops instead of 2 (N - 1). */
static void many_nodes_reduce_by_tree(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 12500);
    struct collective_cost c =
        cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 100000, 1), 1 << 20);
    assert_string_equal(c.algorithm, "tree");
    assert_true(c.ns < 2000000);
    c = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 16, 1), 4 * GIB);
    assert_string_equal(c.algorithm, "ring");
    lab_free(&lab);
}

/* SimAI's ratios of 128 devices on 16 nodes (nic_ratio): 0.38 at 128 MiB, 0.57 at 256 MiB, 0.92 at
 * 2 GiB, 0.96 at 16 GiB of the NICs' bandwidth, for rings (all-gather here). */
static void efficiency_between_nodes_grows_as_published(void **state)
{
    (void)state;
    static const struct {
        int64_t mib;
        double ratio;
    } POINTS[] = {{128, 0.38}, {256, 0.57}, {2048, 0.92}, {16384, 0.96}};
    struct lab lab;
    dgx_a100(&lab, 16);
    for (size_t i = 0; i < COUNT_OF(POINTS); i++) {
        struct collective_cost c =
            cost(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 128, 1), POINTS[i].mib << 20);
        assert_float_equal(c.bus_bytes_per_s / 200e9, POINTS[i].ratio, 0.2);
    }
    lab_free(&lab);
}

/* 8 H100: 0.67 * 450 GB/s over 9/8 of the buffer is 469 GB/s of bus bandwidth. */
static void switch_that_sums_beats_the_ring(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 1);
    lab.cluster.node.device.arch = "hopper";
    for (int32_t d = 0; d < 8; d++)
        lab.link[d].bytes_per_s = 450e9;
    struct collective_cost c = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 8, 1), 16 * GIB);
    assert_string_equal(c.algorithm, "nvls");
    assert_float_equal(c.bus_bytes_per_s, 469e9, 0.01 * 469e9);
    assert_string_equal(cost(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 8, 1), GIB).algorithm,
                        "ring");
    lab_free(&lab);
}

/* A fit replaces latency, bandwidth and half size: 50 us + 7 steps of 1 us + 7/8 GiB / 100 GB/s. */
static void a_fit_takes_over(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 1);
    lab.cluster.fit_inside[COLLECTIVE_ALL_GATHER] = (struct collective_fit){
        .alpha_ns = 50e3, .hop_ns = 1e3, .bus_bytes_per_s = 100e9, .half_bytes = 1};
    struct collective_cost c = cost(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 8, 1), GIB);
    double volume = 0.875 * (double)GIB;
    assert_float_equal((double)c.ns, 57e3 + (volume + sqrt(volume)) / 100, 2);
    assert_string_equal(c.source, "fit");
    lab_free(&lab);
}

/* Without peer access (turing) both directions of PCIe share host memory: 0.31 of 15.75 GB/s is below
 * the sockets' 10, and one way 0.63. Sailor's table has 5.3 and 9.9 GB/s for 8 and 2 TITAN RTX. */
static void devices_without_peer_access_go_through_the_host(void **state)
{
    (void)state;
    struct lab lab;
    dgx1_v100(&lab, CUBE_MESH, 0);
    lab.cluster.node.device.arch = "turing";
    struct collective_cost c = cost(&lab, COLLECTIVE_ALL_REDUCE, group_range(0, 8, 1), GIB);
    assert_string_equal(c.bottleneck, "pci");
    assert_float_equal(c.bus_bytes_per_s, 0.31 * 15.75e9, 0.03e9);
    c = cost(&lab, COLLECTIVE_SEND, group_range(0, 2, 1), GIB);
    assert_float_equal(c.bus_bytes_per_s, 0.63 * 15.75e9, 0.1e9);
    lab_free(&lab);
}

/* An oversubscribed spine: 4 nodes per leaf, uplink 100 GB/s, less than the 200 GB/s of NICs. */
static void uplinks_limit_groups_over_leaves(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 16);
    lab.cluster.fabric.tiers = 2;
    lab.cluster.fabric.tier[0] = (struct tier){"leaf", 4, 100e9, 1000};
    lab.cluster.fabric.tier[1] = (struct tier){"spine", 16, 0, 1000};
    struct collective_cost c = cost(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 64, 1), 16 * GIB);
    assert_string_equal(c.bottleneck, "fabric");
    assert_float_equal(c.bus_bytes_per_s, 96e9, 0.02 * 96e9);
    c = cost(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 32, 1), 16 * GIB);
    assert_string_equal(c.bottleneck, "nic");
    lab_free(&lab);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The closed form of a footprint against looking at every member, on random meshes. */
static void footprint_agrees_with_enumeration(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 64);
    struct rng rng;
    rng_seed(&rng, 7);
    int regular = 0;
    for (int i = 0; i < 3000; i++) {
        struct group group = {.first = rng_below(&rng, 16),
                              .levels = (int32_t)(1 + rng_below(&rng, 3))};
        for (int32_t k = 0, reach = 1; k < group.levels; k++) {
            group.count[k] = 1 + rng_below(&rng, 8);
            group.stride[k] = reach * (1 + rng_below(&rng, 3));
            reach = (int32_t)(group.stride[k] * group.count[k]);
        }
        struct arena *arena = arena_new();
        struct footprint fast, slow;
        struct share_list shares = {0};
        weft_status status = group_footprint(&lab.cluster, &group, &fast);
        assert_int_equal(group_shares(&lab.cluster, &group, arena, &shares, &slow), status);
        if (status == WEFT_OK) {
            assert_int_equal(fast.devices, slow.devices);
            assert_int_equal(fast.nodes, slow.nodes);
            assert_int_equal(fast.local, slow.local);
            assert_int_equal(fast.first_node, slow.first_node);
            assert_int_equal(fast.last_node, slow.last_node);
            regular += fast.nodes > 1;
        }
        arena_free(arena);
    }
    assert_true(regular > 500);
    lab_free(&lab);
}

static void groups_beyond_the_cluster_are_refused(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 2);
    struct collective_cost out;
    struct group group = group_range(8, 9, 1);
    assert_int_equal(collective_time(&lab.cluster, COLLECTIVE_SEND, &group, 1, &out),
                     WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "the group reaches beyond the 16 devices of lab");
    group = group_range(0, INT64_MAX, INT64_MAX);
    assert_int_equal(collective_time(&lab.cluster, COLLECTIVE_SEND, &group, 1, &out),
                     WEFT_BAD_INPUT);
    lab_free(&lab);
}

/* ---- traffic --------------------------------------------------------------------------------- */

static double traffic_sum(const struct lab *lab, enum collective collective, struct group group,
                          int64_t bytes, int tier, enum link_kind kind)
{
    struct arena *arena = arena_new();
    struct traffic_list list = {0};
    double sum = 0;
    assert_int_equal(collective_traffic(&lab->cluster, collective, &group, bytes, arena, &list),
                     WEFT_OK);
    for (size_t i = 0; i < list.len; i++) {
        struct link_id id = list.data[i].link;
        if (id.tier == tier && (tier >= 0 || lab->link[id.link].kind == kind))
            sum += list.data[i].bytes;
        assert_true(link_bytes_per_s(&lab->cluster, id) > 0);
    }
    arena_free(arena);
    return sum;
}

/* I1 of traffic.c: n V over wires, 2 n V where each hop is up to a switch and down again. */
static void ring_traffic_is_its_volume(void **state)
{
    (void)state;
    struct lab lab;
    dgx1_v100(&lab, CUBE_MESH, COUNT_OF(CUBE_MESH));
    struct group all = group_range(0, 8, 1);
    double bytes = (double)GIB;
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_REDUCE, all, GIB, -1, LINK_NVLINK) / bytes,
                       14, 1e-9);
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_BROADCAST, all, GIB, -1, LINK_NVLINK) / bytes,
                       7, 1e-9);
    lab_free(&lab);
    dgx_a100(&lab, 1);
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_GATHER, all, GIB, -1, LINK_NVLINK) / bytes,
                       14, 1e-9);
    /* every device sends 7 pieces of 1/8, each up and down */
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_TO_ALL, all, GIB, -1, LINK_NVLINK) / bytes,
                       2 * 8 * 7 / 8.0, 1e-9);
    lab_free(&lab);
}

/* A copy to the host and one from it take the same wires in opposite directions. */
static void copies_to_the_host_go_one_way(void **state)
{
    (void)state;
    struct cluster *cluster;
    assert_int_equal(cluster_open("dgx-a100:1", &cluster), WEFT_OK);
    struct arena *arena = arena_new();
    struct ledger *ledger = ledger_new(cluster, arena);
    struct traffic_list to = {0}, from = {0};
    assert_int_equal(ledger_copy(ledger, 3, true, GIB, arena, &to), WEFT_OK);
    assert_int_equal(ledger_copy(ledger, 3, false, GIB, arena, &from), WEFT_OK);
    assert_true(to.len > 0);
    assert_int_equal(to.len, from.len);
    for (size_t i = 0; i < to.len; i++)
        for (size_t k = 0; k < from.len; k++)
            if (to.data[i].link.link == from.data[k].link.link)
                assert_int_not_equal(to.data[i].link.reverse, from.data[k].link.reverse);
    arena_free(arena);
    cluster_free(cluster);
}

/* On N nodes, V leaves and V enters each; all-to-all of n devices: each node's 8 send (n-8)/n
 * out. */
static void nics_carry_the_volume(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 4);
    struct group all = group_range(0, 32, 1);
    double bytes = (double)GIB;
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_REDUCE, all, GIB, 0, 0) / bytes,
                       2 * 4 * 2 * 31 / 32.0, 1e-9);
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_BROADCAST, all, GIB, 0, 0) / bytes, 2 * 3,
                       1e-9);
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_TO_ALL, all, GIB, 0, 0) / bytes,
                       2 * 4 * 8 * 24 / 32.0, 1e-9);
    /* if a quarter of that crosses, the rest is passed on inside: 24 / 8 times what the node's own exchange */
    struct group folded = all;
    folded.crossing = 0.25;
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_TO_ALL, folded, GIB, 0, 0) / bytes,
                       2 * 4 * 8 * 24 / 32.0 / 4, 1e-9);
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_TO_ALL, folded, GIB, -1, LINK_NVLINK) /
                           traffic_sum(&lab, COLLECTIVE_ALL_TO_ALL, all, GIB, -1, LINK_NVLINK),
                       1 + 24 / 8.0, 1e-9);
    /* from device 31 down to device 0: once out of node 3, once into node 0 */
    struct group down = group_range(31, 2, -31);
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_SEND, down, GIB, 0, 0) / bytes, 2, 1e-9);
    struct arena *arena = arena_new();
    struct traffic_list list = {0};
    assert_int_equal(collective_traffic(&lab.cluster, COLLECTIVE_SEND, &down, 8, arena, &list),
                     WEFT_OK);
    for (size_t i = 0; i < list.len; i++)
        if (list.data[i].link.tier == 0)
            assert_int_equal(list.data[i].link.reverse, list.data[i].link.unit == 0);
    arena_free(arena);
    lab_free(&lab);
}

/* Eight groups of one device per node, side by side on nodes with eight NICs behind four PCI
 * switches: each has a NIC to itself. */
static void neighbours_have_nics_of_their_own(void **state)
{
    (void)state;
    struct cluster *cluster;
    struct arena *arena = arena_new();
    int users[8] = {0};
    assert_int_equal(cluster_open("dgx-a100:2", &cluster), WEFT_OK);
    for (int64_t device = 0; device < 8; device++) {
        struct group group = group_range(device, 2, 8);
        struct traffic_list list = {0};
        assert_int_equal(
            collective_traffic(cluster, COLLECTIVE_ALL_REDUCE, &group, GIB, arena, &list), WEFT_OK);
        for (size_t i = 0; i < list.len; i++) {
            struct link_id link = list.data[i].link;
            if (link.tier == 0 && link.unit == 0 && !link.reverse)
                users[link.link]++;
        }
    }
    for (int nic = 0; nic < 8; nic++)
        assert_int_equal(users[nic], 1);
    cluster_free(cluster);
    arena_free(arena);
}

/* From device 0 to all: the first leaf only sends, the last one only receives, one between does both. */
static void a_broadcast_goes_one_way(void **state)
{
    (void)state;
    struct lab lab;
    struct arena *arena = arena_new();
    struct traffic_list list = {0};
    struct group all = group_range(0, 48, 1);
    double carried[3][2] = {{0}};
    dgx_a100(&lab, 6);
    lab.cluster.fabric.tiers = 2;
    lab.cluster.fabric.tier[0] = (struct tier){"leaf", 2, 100e9, 1000};
    lab.cluster.fabric.tier[1] = (struct tier){"spine", 6, 0, 1000};
    assert_int_equal(
        collective_traffic(&lab.cluster, COLLECTIVE_BROADCAST, &all, GIB, arena, &list), WEFT_OK);
    for (size_t i = 0; i < list.len; i++)
        if (list.data[i].link.tier == 1)
            carried[list.data[i].link.unit][list.data[i].link.reverse] += list.data[i].bytes;
    static const double SENT[3][2] = {{1, 0}, {1, 1}, {0, 1}}; /* up, down */
    for (int leaf = 0; leaf < 3; leaf++)
        for (int way = 0; way < 2; way++)
            assert_float_equal(carried[leaf][way] / (double)GIB, SENT[leaf][way], 1e-9);
    arena_free(arena);
    lab_free(&lab);
}

static void uplinks_carry_the_volume_once(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 4);
    lab.cluster.fabric.tiers = 2;
    lab.cluster.fabric.tier[0] = (struct tier){"leaf", 2, 100e9, 1000};
    lab.cluster.fabric.tier[1] = (struct tier){"spine", 4, 0, 1000};
    struct group all = group_range(0, 32, 1);
    double bytes = (double)GIB;
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_GATHER, all, GIB, 1, 0) / bytes,
                       2 * 2 * 31 / 32.0, 1e-9);
    /* two leaves of 16: each sends 16 * 16 pieces of 1/32 up, and receives as much */
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_TO_ALL, all, GIB, 1, 0) / bytes,
                       2 * 2 * 16 * 16 / 32.0, 1e-9);
    assert_float_equal(traffic_sum(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 16, 1), GIB, 1, 0),
                       0, 0);
    lab_free(&lab);
}

/* One byte takes its latency. LL: 6.6 us and 5 to start on an A100, 0.6 a step within a node; between nodes the fabric's own: of a group
 * within one leaf the leaf's, and beyond it that of the tier above, too. */
static void latencies_are_those_of_the_tiers_that_are_crossed(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 16);
    lab.cluster.fabric.tiers = 3;
    lab.cluster.fabric.tier[0] = (struct tier){"leaf", 2, 400e9, 1000};
    lab.cluster.fabric.tier[1] = (struct tier){"spine", 8, 400e9, 5000};
    lab.cluster.fabric.tier[2] = (struct tier){"core", 16, 0, 20000};
    assert_int_equal(cost(&lab, COLLECTIVE_SEND, group_range(0, 2, 1), 1).ns, 11600 + 600);
    assert_int_equal(cost(&lab, COLLECTIVE_SEND, group_range(0, 2, 8), 1).ns, 11600 + 1000);
    assert_int_equal(cost(&lab, COLLECTIVE_SEND, group_range(0, 2, 16), 1).ns, 11600 + 6000);
    assert_int_equal(cost(&lab, COLLECTIVE_SEND, group_range(0, 2, 64), 1).ns, 11600 + 26000);
    /* 15 steps of a ring of 2 * 8, one of which leaves its node */
    assert_int_equal(cost(&lab, COLLECTIVE_ALL_GATHER, group_range(0, 16, 1), 1).ns,
                     11600 + 14 * 600 + 1000);
    lab.cluster.fabric.tiers = 1;
    assert_int_equal(cost(&lab, COLLECTIVE_SEND, group_range(0, 2, 8), 1).ns, 11600 + 1000);
    lab_free(&lab);
}

/* Of 16 devices on two nodes each sends 8 of its 16 pieces out: 64 pieces a node through 192 GB/s of NICs, which
 * is 45 GB/s of 15/16 of the buffer. Of 64 on two leaves, 32 * 32 pieces of 1/64 through 96 GB/s. */
static void pairs_that_stay_within_do_not_leave(void **state)
{
    (void)state;
    struct lab lab;
    dgx_a100(&lab, 16);
    struct collective_cost c = cost(&lab, COLLECTIVE_ALL_TO_ALL, group_range(0, 16, 1), 64 * GIB);
    assert_string_equal(c.bottleneck, "nic");
    assert_float_equal(c.bus_bytes_per_s, 45e9, 0.02 * 45e9);
    struct group half = group_range(0, 16, 1);
    half.crossing = 0.5;
    c = cost(&lab, COLLECTIVE_ALL_TO_ALL, half, 64 * GIB);
    assert_float_equal(c.bus_bytes_per_s, 90e9, 0.02 * 90e9);
    lab.cluster.fabric.tiers = 2;
    lab.cluster.fabric.tier[0] = (struct tier){"leaf", 4, 100e9, 1000};
    lab.cluster.fabric.tier[1] = (struct tier){"spine", 16, 0, 1000};
    c = cost(&lab, COLLECTIVE_ALL_TO_ALL, group_range(0, 64, 1), 64 * GIB);
    assert_string_equal(c.bottleneck, "fabric");
    assert_float_equal(c.bus_bytes_per_s, 63 / 64.0 / 16 * 96e9, 0.02 * 6e9);
    lab_free(&lab);
}

/* ---- unlike links ---------------------------------------------------------------------------- */

static const struct channels *channels_of(struct lab *lab, int devices, struct arena *arena)
{
    struct device_set set = {{0}};
    const struct channels *channels;
    for (int i = 0; i < devices; i++)
        set_add(&set, i);
    assert_int_equal(channels_find(&lab->cluster, &set, arena, &channels), WEFT_OK);
    return channels;
}

/* A triangle with a slow side of 10 GB/s a wire: one cycle, both ways, each as fast as that side. */
static void the_slowest_wire_counts(void **state)
{
    (void)state;
    for (int slow = 0; slow < 3; slow++) {
        struct lab lab;
        struct arena *arena = arena_new();
        lab_init(&lab, "volta", 3, 1);
        for (int32_t a = 0; a < 3; a++)
            add_link(&lab, LINK_NVLINK, a, (a + 1) % 3, 1, a == slow ? 10 : 25);
        struct rings rings = rings_of(&lab, 3, arena);
        assert_int_equal(rings.count, 2);
        assert_float_equal(rings.bytes_per_s, 2 * 10e9, 1);
        arena_free(arena);
        lab_free(&lab);
    }
}

/* Four devices at an NVSwitch, one of them by half as many wires: 150 GB/s around the ring, and of an exchange three
 * parts go through each device's wires. */
static void the_narrowest_device_counts(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 4; narrow++) {
        struct lab lab;
        struct arena *arena = arena_new();
        lab_init(&lab, "ampere", 4, 1);
        int32_t hub = add_vertex(&lab, VERTEX_NVSWITCH);
        for (int32_t a = 0; a < 4; a++)
            add_link(&lab, LINK_NVLINK, a, hub, a == narrow ? 6 : 12, 25);
        const struct channels *channels = channels_of(&lab, 4, arena);
        assert_true(channels->switched);
        assert_float_equal(channels->rings.bytes_per_s, 150e9, 1);
        assert_true(fabs(channels->ring_s_per_byte[LINK_NVLINK] * 150e9 - 1) < 1e-12);
        assert_true(fabs(channels->exchange_s_per_byte[LINK_NVLINK] * 150e9 - 3) < 1e-12);
        arena_free(arena);
        lab_free(&lab);
    }
}

/* A card is no faster than the slowest link on the way to it, be that the only one or any of several. */
static void the_way_to_a_nic_limits_it(void **state)
{
    (void)state;
    enum { NIC = 25, WIDE = 64, NARROW = 8, MOST_LINKS = 3 };
    for (int links = 1; links <= MOST_LINKS; links++)
        for (int narrow = -1; narrow < links; narrow++) {
            struct lab lab;
            struct arena *arena = arena_new();
            lab_init(&lab, "ampere", 1, 2);
            int32_t at = 0;
            for (int i = 0; i < links; i++) {
                int32_t next = add_vertex(&lab, i + 1 == links ? VERTEX_NIC : VERTEX_PCI_SWITCH);
                add_link(&lab, LINK_PCI, at, next, 1, i == narrow ? NARROW : WIDE);
                at = next;
            }
            lab.cluster.node.nic_bytes_per_s = NIC * 1e9;
            const struct channels *channels = channels_of(&lab, 1, arena);
            assert_int_equal(channels->nics, 1);
            assert_int_equal(channels->nic[0].path.steps, links);
            assert_float_equal(channels->nic[0].bytes_per_s, (narrow < 0 ? NIC : NARROW) * 1e9, 1);
            assert_float_equal(channels->nic_bytes_per_s, (narrow < 0 ? NIC : NARROW) * 1e9, 1);
            arena_free(arena);
            lab_free(&lab);
        }
}

/* Two devices behind a PCIe switch share its NIC of 25 GB/s, or of 100 that their slots of 30 GB/s do not fill. */
static void a_shared_nic_is_divided(void **state)
{
    (void)state;
    static const double NIC[] = {25, 100}, EACH[] = {12.5, 15}, ALL[] = {25, 60};
    for (int i = 0; i < 2; i++) {
        struct lab lab;
        struct arena *arena = arena_new();
        lab_init(&lab, "ampere", 2, 2);
        int32_t hub = add_vertex(&lab, VERTEX_PCI_SWITCH), nic = add_vertex(&lab, VERTEX_NIC);
        for (int32_t a = 0; a < 2; a++)
            add_link(&lab, LINK_PCI, a, hub, 1, 30);
        add_link(&lab, LINK_PCI, hub, nic, 1, 1000);
        lab.cluster.node.nic_bytes_per_s = NIC[i] * 1e9;
        const struct channels *channels = channels_of(&lab, 2, arena);
        assert_int_equal(channels->nics, 2);
        for (int32_t n = 0; n < 2; n++)
            assert_true(fabs(channels->nic[n].bytes_per_s - EACH[i] * 1e9) < 1);
        assert_float_equal(channels->nic_bytes_per_s, ALL[i] * 1e9, 1);
        arena_free(arena);
        lab_free(&lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dgx1_rings_use_every_wire_once),
        cmocka_unit_test(dgx1_rings_from_nccl_topology),
        cmocka_unit_test(dgx1_subsets_have_the_rings_that_measurements_show),
        cmocka_unit_test(devices_without_wires_use_pcie),
        cmocka_unit_test(a_link_alone_is_a_ring),
        cmocka_unit_test(sets_of_devices_are_checked),
        cmocka_unit_test(full_mesh_is_used_up),
        cmocka_unit_test(the_slowest_wire_counts),
        cmocka_unit_test(the_narrowest_device_counts),
        cmocka_unit_test(the_way_to_a_nic_limits_it),
        cmocka_unit_test(a_shared_nic_is_divided),
        cmocka_unit_test(pcie_ring_crosses_sockets_once),
        cmocka_unit_test(unconnected_devices_are_refused),
        cmocka_unit_test(ring_all_reduce_by_hand),
        cmocka_unit_test(nothing_to_do_takes_no_time),
        cmocka_unit_test(time_grows_with_bytes_and_devices),
        cmocka_unit_test(equal_groups_take_equal_time),
        cmocka_unit_test(nics_limit_groups_over_nodes),
        cmocka_unit_test(many_nodes_reduce_by_tree),
        cmocka_unit_test(efficiency_between_nodes_grows_as_published),
        cmocka_unit_test(switch_that_sums_beats_the_ring),
        cmocka_unit_test(a_fit_takes_over),
        cmocka_unit_test(devices_without_peer_access_go_through_the_host),
        cmocka_unit_test(uplinks_limit_groups_over_leaves),
        cmocka_unit_test(footprint_agrees_with_enumeration),
        cmocka_unit_test(groups_beyond_the_cluster_are_refused),
        cmocka_unit_test(ring_traffic_is_its_volume),
        cmocka_unit_test(copies_to_the_host_go_one_way),
        cmocka_unit_test(nics_carry_the_volume),
        cmocka_unit_test(neighbours_have_nics_of_their_own),
        cmocka_unit_test(a_broadcast_goes_one_way),
        cmocka_unit_test(uplinks_carry_the_volume_once),
        cmocka_unit_test(latencies_are_those_of_the_tiers_that_are_crossed),
        cmocka_unit_test(pairs_that_stay_within_do_not_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

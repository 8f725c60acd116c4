/* test_cluster.c - presets, files and captured machines: each number derived by hand or held against
 * a captured topology. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/topology.h"
#include "drawn.h"
#include "exactly.h"

#define DATA       WEFT_SOURCE_DIR "/data/"
#define GB         1e9
#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-9 * fabs(b))

static struct cluster *open_cluster(const char *name)
{
    struct cluster *cluster = NULL;
    if (cluster_open(name, &cluster) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return cluster;
}

static struct cluster *read_yaml(const char *text)
{
    struct cluster *cluster = NULL;
    if (cluster_from_text(CLUSTER_YAML, "t.yaml", text, strlen(text), 0, &cluster) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return cluster;
}

/* Wires of a kind at a vertex, and what they carry. */
static int32_t wires_at(const struct node_type *node, enum link_kind kind, int32_t vertex,
                        double *bytes_per_s)
{
    int32_t wires = 0;
    *bytes_per_s = 0;
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        if (link->kind == kind && (link->a == vertex || link->b == vertex)) {
            wires += link->count;
            *bytes_per_s += link->bytes_per_s;
        }
    }
    return wires;
}

/* ---- presets --------------------------------------------------------------------------------- */

/* NVLinks of a device and their sum, NICs and their sum: from the datasheets, one by one. */
static const struct {
    const char *name;
    int32_t devices, nvlinks;
    double nvlink_gb_per_s;
    int32_t nics;
    double nic_gb_per_s; /* all together: Gb/s over 8 */
    int32_t pci_switches, sockets;
    int32_t odd_less; /* wires that every other device lacks: its NIC has them */
} PRESETS[] = {
    {"titan-xp", 8, 0, 0, 0, 0, 4, 2},
    {"titan-rtx", 8, 0, 0, 1, 12.5, 4, 2},
    {"piz-daint", 1, 0, 0, 1, 10.2, 0, 1},
    {"dgx-v100", 8, 6, 150, 1, 12.5, 4, 2},
    {"aceso-v100", 8, 6, 150, 1, 12.5, 4, 2},
    {"p3dn", 8, 6, 150, 1, 12.5, 4, 2},
    {"gcp-a2-16", 16, 12, 300, 1, 12.5, 8, 2},
    {"fold3d-a100", 8, 12, 300, 1, 25, 4, 2},
    {"fold3d-v100", 8, 6, 150, 1, 12.5, 4, 2},
    {"dgx-a100", 8, 12, 300, 8, 200, 4, 2},
    {"dgx-a100-100g", 8, 12, 300, 1, 12.5, 4, 2},
    {"dgx-a100-200g", 8, 12, 300, 1, 25, 4, 2},
    {"dgx-a100-400g", 8, 12, 300, 2, 50, 4, 2},
    {"dgx-a100-800g", 8, 12, 300, 4, 100, 4, 2},
    {"dgx-a100-40gb", 8, 12, 300, 8, 200, 4, 2},
    {"hgx-a800", 8, 8, 200, 8, 200, 4, 2},
    {"dgx-h100", 8, 18, 450, 8, 400, 4, 2},
    {"hgx-h800", 8, 8, 200, 8, 400, 4, 2},
    {"hgx-h20", 8, 18, 450, 8, 400, 4, 2},
    {"torchtitan-h100", 8, 18, 450, 8, 400, 4, 2},
    {"hgx-h200", 8, 18, 450, 8, 400, 4, 2},
    {"hgx-b200", 8, 18, 900, 8, 400, 4, 2},
    {"hgx-b300", 8, 18, 900, 8, 800, 4, 2},
    {"gb200-nvl72", 72, 18, 900, 72, 3600, 0, 36},
    {"gb300-nvl72", 72, 18, 900, 72, 7200, 0, 36},
    {"gh200", 1, 0, 0, 1, 50, 0, 1},
    {"gh200-quad", 4, 18, 450, 4, 100, 0, 4},
    {"h100-pcie", 8, 12, 300, 4, 200, 4, 2},
    {"h100-nvl", 8, 12, 300, 4, 200, 4, 2},
    {"g6e", 8, 0, 0, 4, 50, 4, 2},
    {"g6", 8, 0, 0, 1, 12.5, 4, 2},
    {"g5", 8, 0, 0, 1, 12.5, 4, 2},
    {"rtx-4090", 8, 0, 0, 1, 12.5, 4, 2},
    {"rtx-pro-6000", 8, 0, 0, 8, 400, 4, 2},
    {"mi250x", 8, 7, 350, 4, 100, 0, 1, 1},
    {"mi300x", 8, 7, 448, 8, 400, 4, 2},
    {"mi325x", 8, 7, 448, 8, 400, 4, 2},
    {"mi350x", 8, 7, 537.6, 8, 400, 4, 2},
    {"mi355x", 8, 7, 537.6, 8, 400, 4, 2},
};

static int32_t count_vertices(const struct node_type *node, enum vertex_kind kind)
{
    int32_t count = 0;
    for (int32_t v = 0; v < node->vertices; v++)
        count += node->vertex[v].kind == kind;
    return count;
}

static void test_presets(void **state)
{
    (void)state;
    const struct cluster_preset *presets;
    assert_int_equal(cluster_presets(&presets), COUNT_OF(PRESETS));
    for (size_t i = 0; i < COUNT_OF(PRESETS); i++) {
        struct cluster *cluster = open_cluster(PRESETS[i].name);
        const struct node_type *node = &cluster->node;
        assert_string_equal(presets[i].name, PRESETS[i].name);
        assert_int_equal(node->devices, PRESETS[i].devices);
        assert_int_equal(cluster_devices(cluster), PRESETS[i].devices);
        for (int32_t d = 0; d < node->devices; d++) {
            double rate;
            assert_int_equal(node->vertex[d].kind, VERTEX_DEVICE);
            int32_t wires = PRESETS[i].nvlinks - d % 2 * PRESETS[i].odd_less;
            assert_int_equal(wires_at(node, LINK_NVLINK, d, &rate), wires);
            NEAR(rate * PRESETS[i].nvlinks, PRESETS[i].nvlink_gb_per_s * wires * GB);
        }
        assert_int_equal(node->nics, PRESETS[i].nics);
        NEAR(node->nic_bytes_per_s, PRESETS[i].nic_gb_per_s * GB);
        assert_int_equal(count_vertices(node, VERTEX_PCI_SWITCH), PRESETS[i].pci_switches);
        assert_int_equal(count_vertices(node, VERTEX_SOCKET), PRESETS[i].sockets);
        /* trays of the rack meet in the NVSwitch, so even there everything is joined */
        assert_int_equal(unreachable_vertex(node), -1);
        cluster_free(cluster);
    }
}

/* 24 NVLinks of 25 GB/s: 8 devices with 6 ends each, two ends a link. */
static void test_nicknames(void **state)
{
    (void)state;
    static const struct {
        const char *name, *meant;
    } ROWS[] = {
        {"hgx-h100:2", "dgx-h100:2"},
        {"HGX-H100", "dgx-h100"},
        {"h100", "dgx-h100"},
        {"h100:8", "dgx-h100:1"},
        {"H100:16", "dgx-h100:2"},
        {"8xH100", "dgx-h100:1"},
        {"8 x H100", "dgx-h100:1"},
        {"16 x a100", "dgx-a100:2"},
        {"DGX-H100:2", "dgx-h100:2"},
        {"8x", "8x"},
        {"4xa100", "dgx-a100:1x4"},
        {"h200:4096", "hgx-h200:512"},
        {"h200:1x2", "hgx-h200:1x2"},
        {"H100:2x4", "dgx-h100:2x4"},
        {"72xGB200", "gb200-nvl72:1"},
        {"a10g:16", "g5:2"},
        {"8xMI250X", "mi250x:1"},
        {"8xMI300X", "mi300x:1"}, /* devices, where the name of a device is a preset's */
        {"MI300X:8", "mi300x:8"},
        {"mi300x:8", "mi300x:8"},
        {"4xGH200", "gh200:4"},
        {"a100-40gb:16", "dgx-a100-40gb:2"},
        {"8xdgx-h100", "8xdgx-h100"},
        {"12xH100", "dgx-h100:2x6"}, /* spread evenly */
        {"13xH100", "13xH100"},      /* one a node is nobody's meaning */
        {"gb200-nvl72:256gpus", "gb200-nvl72:4x64"},
        {"gb200-nvl72:64nodes", "gb200-nvl72:4x64"},
        {"gb300:256", "gb300-nvl72:4x64"},
        {"gb200-nvl72:1node", "gb200-nvl72:1x4"}, /* every word of a unit */
        {"gb200-nvl72:1gpu", "gb200-nvl72:1x1"},
        {"gb200-nvl72:256devices", "gb200-nvl72:4x64"},
        {"gb200-nvl72:1rack", "gb200-nvl72:1"},
        {"gb200-nvl72:4domains", "gb200-nvl72:4"},
        {"nvl72:4racks", "gb200-nvl72:4"},
        {"dgx-h100:128gpus", "dgx-h100:16"},
        {"dgx-h100:16nodes", "dgx-h100:16"},
        {"dgx-h100:16trucks", "dgx-h100:16trucks"},
        {"dgx-h100:9223372036854775807racks", "dgx-h100:9223372036854775807racks"},
        {"b300", "hgx-b300"},
        {"dgx-a100:2", "dgx-a100:2"},
        {"8xdgx-a100", "8xdgx-a100"},
        {"64 H100", "dgx-h100:8"}, /* other signs, and the number after the name */
        {"8*h100", "dgx-h100:1"},
        {"H100x64", "dgx-h100:8"},
        {"mi300x*8", "mi300x:1"},
        {"mi300x8", "mi300x8"},             /* the x is the name's */
        {"64xA100-40G", "dgx-a100-40gb:8"}, /* beginnings of words of a device */
        {"64xH100-80GB", "dgx-h100:8"},
        {"8xH100-SXM5-80GB", "dgx-h100:1"},
        {"8xH100-94GB", "h100-nvl:1"},
        {"8xH100-NVL-94", "h100-nvl:1"},
        {"8xH100-8", "8xH100-8"},
        {"8xH10", "8xH10"},
        {"8xH100-80GB-SXM5", "8xH100-80GB-SXM5"},
        {"8xRTX 4090", "rtx-4090:1"},
        {"a100-sxm4:16", "dgx-a100:2"},
        {"a.yaml", "a.yaml"},
    };
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        assert_string_equal(cluster_meant(arena, ROWS[i].name), ROWS[i].meant);
    struct cluster *cluster;
    assert_int_equal(cluster_open("16xH100", &cluster), WEFT_OK);
    assert_int_equal(cluster_devices(cluster), 16);
    cluster_free(cluster);
    arena_free(arena);
}

/* What is not known is not taken for another device. */
static void test_hints_for_devices(void **state)
{
    (void)state;
    static const struct {
        const char *name, *hint;
    } ROWS[] = {
        {"16xMI210", "devices that have a name: v100, a100, h100, "},
        {"13xH100", "its nodes have 8 devices"},
        {"0xH100", "its nodes have 8 devices"},
        {"H100*0", "`weft clusters` lists the names"},
        {"8xdgx-h100", "dgx-h100:N is N nodes of it"},
        {"dgx-a10", "did you mean 'dgx-a100'?"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct cluster *cluster;
        assert_int_equal(cluster_open(ROWS[i].name, &cluster), WEFT_BAD_INPUT);
        assert_ptr_equal(strstr(weft_last_error()->hint, ROWS[i].hint), weft_last_error()->hint);
        error_clear();
    }
}

static void test_dgx1_has_24_nvlinks(void **state)
{
    (void)state;
    struct cluster *cluster = open_cluster("dgx-v100:4");
    int32_t links = 0;
    for (int32_t i = 0; i < cluster->node.links; i++) {
        const struct link *link = &cluster->node.link[i];
        if (link->kind != LINK_NVLINK)
            continue;
        links += link->count;
        NEAR(link->bytes_per_s, link->count * 25 * GB);
    }
    assert_int_equal(links, 8 * 6 / 2);
    assert_int_equal(cluster_devices(cluster), 32);
    cluster_free(cluster);
}

/* A job on some devices of each node: 0-3 of a cube mesh are joined by 1 + 1 + 2 + 2 + 1 + 2 wires
 * (the pairs among them in NVIDIA's DGX-1 whitepaper); switches, sockets and the NIC stay. */
static void test_some_devices_of_each_node(void **state)
{
    (void)state;
    struct cluster *whole = open_cluster("dgx-v100"), *cluster = open_cluster("dgx-v100:2x4");
    struct group all = group_range(0, 8, 1);
    struct collective_cost cost;
    int32_t wires = 0;
    assert_int_equal(cluster->nodes, 2);
    assert_int_equal(cluster->node.devices, 4);
    assert_int_equal(cluster_devices(cluster), 8);
    assert_int_equal(cluster->node.vertices, whole->node.vertices - 4);
    NEAR(cluster->node.nic_bytes_per_s, whole->node.nic_bytes_per_s);
    for (int32_t i = 0; i < cluster->node.links; i++) {
        const struct link *link = &cluster->node.link[i];
        wires += link->kind == LINK_NVLINK ? link->count : 0;
        assert_true(link->a < cluster->node.vertices && link->b < cluster->node.vertices);
    }
    assert_int_equal(wires, 1 + 1 + 2 + 2 + 1 + 2);
    assert_int_equal(unreachable_vertex(&cluster->node), -1);
    assert_int_equal(collective_time(cluster, COLLECTIVE_ALL_REDUCE, &all, 1 << 20, &cost),
                     WEFT_OK);
    assert_true(cost.ns > 0);
    cluster_free(cluster);
    cluster_free(whole);
}

/* The machines that a launcher starts, and the devices of each: a rack's hosts have four. */
static void test_hosts_of_racks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t hosts, devices;
    } ROWS[] = {
        {"gb200-nvl72", 18, 4},
        {"gb200-nvl72:64gpus", 16, 4},
        {"gb200-nvl72:16nodes", 16, 4},
        {"gb200-nvl72:128gpus", 32, 4},
        {"36xGB200", 9, 4},
        {"gb200-nvl72:1x6", 2, 3},
        {"gb200-nvl72:1x2", 1, 2},
        {"gb300-nvl72:2x72", 36, 4},
        {"dgx-h100:4", 4, 8},
        {"dgx-h100:2x4", 2, 4},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct cluster *cluster = open_cluster(ROWS[i].name);
        assert_int_equal(cluster_hosts(cluster), ROWS[i].hosts);
        assert_int_equal(cluster_host_devices(cluster), ROWS[i].devices);
        cluster_free(cluster);
    }
}

static void test_every_device_is_complete(void **state)
{
    (void)state;
    const struct device *devices;
    size_t count = device_presets(&devices);
    for (size_t i = 0; i < count; i++) {
        const struct device *device = &devices[i];
        assert_true(device->memory_bytes > 0 && device->memory_bytes_per_s > 0);
        assert_true(device->flops[DTYPE_FP32] > 0 && device->vector_flops > 0);
        assert_true(device->host_bytes_per_s > 0 && device->launch_ns > 0);
        assert_true(device->units > 0 && device->l2_bytes > 0);
        assert_true(device->source && device->arch);
        assert_ptr_equal(device_find(device->name), device);
    }
    /* A die of an MI250X: no fp8, and half of the module's 383 TFLOP/s, 3.2768 TB/s and 220 units. */
    const struct device *die = device_find("MI250X-GCD");
    assert_true(die->flops[DTYPE_FP8] == 0 && die->flops[DTYPE_BF16] == 191.5e12);
    assert_true(die->memory_bytes_per_s == 1638.4e9 && die->units == 110);
    assert_string_equal(link_name(die, LINK_NVLINK), link_name(device_find("MI300X"), LINK_NVLINK));
    /* NVIDIA's datasheet for AWS: 70 TFLOP/s of bf16, half of them of tf32; 600 GB/s. */
    const struct device *card = device_find("A10G");
    assert_true(card->flops[DTYPE_BF16] == 70e12 && card->flops[DTYPE_TF32] == 35e12);
    assert_true(card->memory_bytes_per_s == 600e9 && card->units == 72);
    assert_ptr_equal(device_find("a100-sxm4-80gb"), device_find("A100-SXM4-80GB"));
    assert_null(device_find("A100"));
}

/* ---- a preset against the captured machine --------------------------------------------------- */

enum { MAX_LINKS = 512 };

/* How one machine's devices and PCI switches are called in another's numbering. */
struct numbering {
    int device[8], pci[4];
};
/* The captured DGX-1 in nvidia-smi's numbering: the NVLinks leave four ways to do it, and this is
 * one that also keeps its NIC's PCI switch. */
static const struct numbering CAPTURED = {{0, 1, 3, 2, 6, 7, 5, 4}, {0, 1, 3, 2}};

/* A vertex by its kind and its place among its kind, renumbered unless `as` is NULL. */
static int32_t ordinal(const struct node_type *node, int32_t vertex, const struct numbering *as)
{
    int32_t count = 0;
    for (int32_t v = 0; v < vertex; v++)
        count += node->vertex[v].kind == node->vertex[vertex].kind;
    if (as && node->vertex[vertex].kind == VERTEX_DEVICE)
        count = as->device[count];
    if (as && node->vertex[vertex].kind == VERTEX_PCI_SWITCH)
        count = as->pci[count];
    return (int32_t)node->vertex[vertex].kind * 1000 + count;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sorted_links(struct arena *arena, const struct node_type *node,
                         const struct numbering *as, char **out)
{
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        int32_t a = ordinal(node, link->a, as), b = ordinal(node, link->b, as);
        out[i] = arena_printf(arena, "%s %d %d x%d %.6g %lld", link_kind_name(link->kind),
                              a < b ? a : b, a < b ? b : a, link->count, link->bytes_per_s,
                              (long long)link->latency_ns);
    }
    qsort(out, (size_t)node->links, sizeof *out, by_text);
}

static void assert_same_graph(const struct node_type *a, const struct node_type *b,
                              const struct numbering *b_as)
{
    struct arena *arena = arena_new();
    char *links_a[MAX_LINKS], *links_b[MAX_LINKS];
    assert_int_equal(a->devices, b->devices);
    assert_int_equal(a->vertices, b->vertices);
    assert_int_equal(a->links, b->links);
    assert_int_equal(a->nics, b->nics);
    NEAR(a->nic_bytes_per_s, b->nic_bytes_per_s);
    assert_string_equal(a->device.name, b->device.name);
    sorted_links(arena, a, NULL, links_a);
    sorted_links(arena, b, b_as, links_b);
    for (int32_t i = 0; i < a->links; i++)
        assert_string_equal(links_a[i], links_b[i]);
    arena_free(arena);
}

static void test_preset_equals_captured_machine(void **state)
{
    (void)state;
    struct cluster *preset = open_cluster("dgx-v100:4");
    struct cluster *captured = open_cluster(DATA "topologies/dgx1_v100_1ib.xml:4");
    assert_same_graph(&preset->node, &captured->node, &CAPTURED);
    assert_int_equal(captured->nodes, 4);
    assert_int_equal(captured->fabric.kind, FABRIC_SWITCH);
    cluster_free(preset);
    cluster_free(captured);
}

static void test_captured_machines(void **state)
{
    (void)state;
    struct cluster *gtx = open_cluster(DATA "topologies/1080_1ib.xml");
    struct cluster *titan = open_cluster(DATA "topologies/titanxp.xml");
    double rate;
    assert_string_equal(gtx->node.device.name, "GTX-1080");
    assert_string_equal(titan->node.device.name, "GTX-TITAN-X");
    assert_int_equal(count_vertices(&gtx->node, VERTEX_PCI_SWITCH), 4);
    assert_int_equal(count_vertices(&gtx->node, VERTEX_SOCKET), 2);
    NEAR(gtx->node.nic_bytes_per_s, 56e9 / 8);
    NEAR(titan->node.nic_bytes_per_s, 1e9 / 8);
    /* Empty link_speed and width 0: 8 GT/s * 16 lanes * 128/130 / 8 = 15.75 GB/s. */
    assert_int_equal(wires_at(&gtx->node, LINK_PCI, 0, &rate), 1);
    NEAR(rate, 8e9 * 16 * 128 / 130 / 8);
    /* Broadwell (model 79): NCCL plans with 6 GB/s from socket to socket. */
    wires_at(&gtx->node, LINK_SOCKET, 8, &rate);
    NEAR(rate, 6 * GB);
    cluster_free(gtx);
    cluster_free(titan);
}

/* Six and six links to two switches are twelve to the plane; devices go by `dev`, not by place. */
static void test_xml_nvswitch_and_order(void **state)
{
    (void)state;
    static const char XML[] =
        "<system><cpu numaid='0'>"
        "<pci busid='b' link_speed='16.0 GT/s PCIe' link_width='8'><gpu dev='5' sm='80'>"
        "<nvlink target='x' count='12' tclass='0x068000'/></gpu></pci>"
        "<pci busid='a'><gpu dev='2' sm='80'><nvlink target='x' count='6' tclass='0x068000'/>"
        "<nvlink target='y' count='6' tclass='0x068000'/></gpu></pci>"
        "<pci busid='n'><nic><net name='slow' speed='10000'/><net name='fast' speed='200000'/>"
        "</nic></pci></cpu></system>";
    struct cluster *cluster = NULL;
    double rate;
    assert_int_equal(cluster_from_text(CLUSTER_XML, "t.xml", XML, strlen(XML), 0, &cluster),
                     WEFT_OK);
    assert_int_equal(cluster->node.devices, 2);
    assert_string_equal(cluster->node.device.name, "A100-SXM4-40GB");
    for (int32_t d = 0; d < 2; d++) {
        assert_int_equal(wires_at(&cluster->node, LINK_NVLINK, d, &rate), 12);
        NEAR(rate, 300 * GB);
    }
    wires_at(&cluster->node, LINK_PCI, 1, &rate); /* dev 5 stands second: 16 GT/s on 8 lanes */
    NEAR(rate, 16e9 * 8 * 128 / 130 / 8);
    assert_int_equal(cluster->node.nics, 1);
    NEAR(cluster->node.nic_bytes_per_s, 25 * GB);
    cluster_free(cluster);
}

/* A speed that is none at all is that of NCCL's default, 10 Gb/s. */
static void test_xml_speeds(void **state)
{
    (void)state;
    static const struct {
        const char *speed;
        double gbit;
    } CASES[] = {{"speed='100000'", 100},    {"speed='1'", 0.001},     {"speed='0'", 10},
                 {"speed='-5'", 10},         {"speed='fast'", 10},     {"", 10},
                 {"speed='100000000'", 1e5}, {"speed='100000001'", 10}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char xml[512];
        struct cluster *cluster = NULL;
        snprintf(xml, sizeof xml,
                 "<system><cpu numaid='0'><pci busid='b'><gpu dev='0' sm='80'/></pci>"
                 "<pci busid='n'><nic><net name='n' %s/></nic></pci></cpu></system>",
                 CASES[i].speed);
        assert_int_equal(cluster_from_text(CLUSTER_XML, "t.xml", xml, strlen(xml), 0, &cluster),
                         WEFT_OK);
        NEAR(cluster->node.nic_bytes_per_s, CASES[i].gbit * 1e9 / 8);
        cluster_free(cluster);
    }
}

/* ---- fabric ---------------------------------------------------------------------------------- */

static void test_fabric_grows_with_the_nodes(void **state)
{
    (void)state;
    /* SuperPOD A100: units of 20 nodes, four units below a spine; 8 NICs of 25 GB/s a node. */
    static const struct {
        const char *name;
        int32_t tiers;
    } SIZES[] = {{"dgx-a100", 1},    {"dgx-a100:20", 1}, {"dgx-a100:21", 2},
                 {"dgx-a100:80", 2}, {"dgx-a100:81", 3}, {"dgx-a100:12500", 3}};
    for (size_t i = 0; i < COUNT_OF(SIZES); i++) {
        struct cluster *cluster = open_cluster(SIZES[i].name);
        const struct fabric *fabric = &cluster->fabric;
        assert_int_equal(fabric->tiers, SIZES[i].tiers);
        assert_true(fabric->rails);
        assert_true(fabric->tier[fabric->tiers - 1].nodes >= cluster->nodes);
        NEAR(1 + fabric->tier[fabric->tiers - 1].uplink_bytes_per_s, 1.0);
        if (fabric->tiers > 1)
            NEAR(fabric->tier[0].uplink_bytes_per_s, 20 * 8 * 25 * GB);
        if (fabric->tiers > 2)
            NEAR(fabric->tier[1].uplink_bytes_per_s, 80 * 8 * 25 * GB);
        cluster_free(cluster);
    }
}

static void test_a_hundred_thousand_devices_cost_one_node(void **state)
{
    (void)state;
    struct cluster *one = open_cluster("dgx-h100");
    struct cluster *many = open_cluster("dgx-h100:12500");
    assert_int_equal(cluster_devices(many), 100000);
    assert_int_equal(arena_bytes(one->arena), arena_bytes(many->arena));
    cluster_free(one);
    cluster_free(many);
}

static void test_pci_rates(void **state)
{
    (void)state;
    NEAR(pci_bytes_per_s(2.5, 16), 4e9); /* 2.5 GT/s * 16 * 8/10 / 8 */
    NEAR(pci_bytes_per_s(5, 8), 4e9);    /* 5 * 8 * 8/10 / 8 */
    NEAR(pci_bytes_per_s(16, 16), 32e9 * 128 / 130);
    NEAR(pci_bytes_per_s(64, 16), 128e9 * 242 / 256);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void test_file_with_a_base(void **state)
{
    (void)state;
    struct cluster *cluster = open_cluster(DATA "clusters/two-racks.yaml");
    struct cluster *preset = open_cluster("dgx-a100");
    assert_string_equal(cluster->name, "two-racks");
    assert_int_equal(cluster_devices(cluster), 256);
    assert_int_equal(cluster->node.device.memory_bytes, INT64_C(80000000000));
    NEAR(cluster->node.device.price_per_hour, 1.85);
    assert_string_equal(cluster->node.device.name, "A100-SXM4-80GB");
    NEAR(cluster->node.nic_bytes_per_s, 8 * 12.5 * GB);
    assert_int_equal(cluster->fabric.tiers, 2);
    NEAR(cluster->fabric.tier[0].uplink_bytes_per_s, 16 * 8 * 12.5 * GB / 4);
    assert_int_equal(cluster->fabric.tier[1].latency_ns, 1000);
    NEAR(cluster->fit_between[COLLECTIVE_ALL_REDUCE].efficiency, 0.88);
    NEAR(cluster->fit_between[COLLECTIVE_ALL_REDUCE].alpha_ns, 45000.0);
    assert_int_equal(cluster->node.links, preset->node.links);
    cluster_free(cluster);
    cluster_free(preset);
    cluster = open_cluster(DATA "clusters/two-racks.yaml:64");
    assert_int_equal(cluster->nodes, 64);
    cluster_free(cluster);
}

static void test_file_written_out(void **state)
{
    (void)state;
    struct cluster *cluster = open_cluster(DATA "clusters/lab.yaml");
    const struct node_type *node = &cluster->node;
    double rate;
    assert_int_equal(cluster_devices(cluster), 8);
    assert_int_equal(node->vertices, 4 + 2 + 2 + 1);
    assert_int_equal(node->links, 2 + 4 + 2 + 1 + 1);
    assert_int_equal(wires_at(node, LINK_NVLINK, 3, &rate), 4);
    NEAR(rate, 56.25 * GB);
    NEAR(node->nic_bytes_per_s, 12.5 * GB);
    assert_int_equal(cluster->fabric.kind, FABRIC_SWITCH);
    assert_int_equal(node->link[0].latency_ns, NVLINK_NS);
    cluster_free(cluster);
}

/* A base without changes is the base, whether preset or captured machine. */
static void test_bases_round_trip(void **state)
{
    (void)state;
    const struct cluster_preset *presets;
    size_t count = cluster_presets(&presets);
    for (size_t i = 0; i < count; i++) {
        char text[128];
        snprintf(text, sizeof text, "base: %s\n", presets[i].name);
        struct cluster *file = read_yaml(text), *preset = open_cluster(presets[i].name);
        assert_same_graph(&file->node, &preset->node, NULL);
        assert_int_equal(file->fabric.kind, preset->fabric.kind);
        assert_int_equal(file->fabric.tiers, preset->fabric.tiers);
        cluster_free(file);
        cluster_free(preset);
    }
    struct cluster *file = read_yaml("base: " DATA "topologies/dgx1_v100_1ib.xml\nnodes: 2\n");
    struct cluster *preset = open_cluster("dgx-v100");
    assert_same_graph(&preset->node, &file->node, &CAPTURED);
    assert_int_equal(file->nodes, 2);
    cluster_free(file);
    cluster_free(preset);
}

static void test_changed_nics_keep_oversubscription(void **state)
{
    (void)state;
    struct cluster *cluster = read_yaml("base: dgx-a100\nnodes: 40\nnic: {bandwidth: 400Gb/s}\n");
    NEAR(cluster->fabric.tier[0].uplink_bytes_per_s, 20 * 8 * 50 * GB);
    cluster_free(cluster);
}

static void test_devices_in_files(void **state)
{
    (void)state;
    struct cluster *cluster =
        read_yaml("device:\n  name: NPU\n  memory: 64GiB\n  tflops: {fp32: 2, bf16: 400}\n"
                  "  memory_bandwidth: 1.6TB/s\n  units: 24\nnode: {devices: 1}\n");
    const struct device *device = &cluster->node.device;
    assert_string_equal(device->name, "NPU");
    assert_int_equal(device->memory_bytes, INT64_C(64) << 30);
    NEAR(device->flops[DTYPE_BF16], 400e12);
    NEAR(device->vector_flops, 2e12);
    NEAR(1 + device->flops[DTYPE_FP8], 1.0);
    assert_int_equal(device->units, 24);
    cluster_free(cluster);
    cluster = read_yaml("base: dgx-v100\ndevice: {base: V100-SXM2-16GB, tflops: {fp16: 112}}\n");
    assert_string_equal(cluster->node.device.name, "V100-SXM2-16GB");
    NEAR(cluster->node.device.flops[DTYPE_FP16], 112e12);
    NEAR(cluster->node.device.flops[DTYPE_FP32], 15.7e12);
    cluster_free(cluster);
    cluster = read_yaml("base: " DATA "topologies/titanxp.xml\ndevice: TITAN-Xp\n");
    assert_string_equal(cluster->node.device.name, "TITAN-Xp");
    cluster_free(cluster);
}

static void test_json_is_read_like_yaml(void **state)
{
    (void)state;
    static const char TEXT[] = "{\"base\": \"dgx-h100\", \"nodes\": 3}";
    struct cluster *cluster = NULL;
    assert_int_equal(cluster_from_text(CLUSTER_JSON, "t.json", TEXT, strlen(TEXT), 0, &cluster),
                     WEFT_OK);
    assert_int_equal(cluster_devices(cluster), 24);
    cluster_free(cluster);
}

/* ---- groups, drawings, this machine ---------------------------------------------------------- */

/* Every fourth device of two of three nodes of eight: 1, 5, 17, 21. */
static void test_groups(void **state)
{
    (void)state;
    struct group range = group_range(3, 4, 8);
    assert_int_equal(group_size(&range), 4);
    assert_int_equal(group_device(&range, 0), 3);
    assert_int_equal(group_device(&range, 3), 27);
    struct group mesh = {.first = 1, .levels = 2, .count = {2, 2}, .stride = {4, 16}};
    static const int64_t MEMBERS[] = {1, 5, 17, 21};
    assert_int_equal(group_size(&mesh), 4);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(group_device(&mesh, i), MEMBERS[i]);
}

static void assert_fits(const char *name, const char *drawing)
{
    size_t columns = 0;
    for (const char *c = drawing; *c; c++) {
        columns = *c == '\n' ? 0 : columns + ((*c & 0xc0) != 0x80); /* UTF-8: count first bytes */
        if (columns > 100)
            fail_msg("%s: a line of the drawing is wider than 100 columns", name);
    }
}

/* Letter by letter, in a page's width and in a narrow one. */
static void hold_drawing(struct drawn *held, struct arena *arena, const char *name,
                         const struct cluster *cluster)
{
    static const int COLUMNS[] = {100, 60};
    for (size_t i = 0; i < COUNT_OF(COLUMNS); i++) {
        struct exactly text = exactly_nothing();
        const char *drawing = cluster_draw(arena, cluster, COLUMNS[i]);
        assert_fits(name, drawing);
        exactly_text(&text, drawing);
        drawn_exactly(held, name, COLUMNS[i],
                      (struct digest){.words = (uint32_t)(text.hash ^ text.hash >> 32)});
    }
}

static void test_drawings(void **state)
{
    (void)state;
    const struct cluster_preset *presets;
    size_t count = cluster_presets(&presets);
    struct arena *arena = arena_new();
    struct drawn held;
    drawn_open(&held, "drawings.txt");
    for (size_t i = 0; i < count; i++) {
        struct cluster *cluster = open_cluster(presets[i].name);
        hold_drawing(&held, arena, presets[i].name, cluster);
        cluster_free(cluster);
    }
    struct cluster *joined =
        read_yaml("device: H100-NVL-94GB\n"
                  "node:\n"
                  "  devices: 2\n"
                  "  vertices: {socket: cpu0}\n"
                  "  links:\n"
                  "    - {between: [dev0, dev1], kind: nvlink, count: 12, bandwidth: 50GB/s}\n"
                  "    - {between: [dev0..dev1, cpu0], kind: pci, bandwidth: 63GB/s}\n");
    hold_drawing(&held, arena, "joined by 12 links", joined);
    assert_non_null(strstr(cluster_draw(arena, joined, 100), " NV12"));
    cluster_free(joined);
    assert_int_equal(drawn_close(&held), 0);
    struct cluster *cluster = open_cluster("dgx-v100:40");
    const char *drawing = cluster_draw(arena, cluster, 100);
    assert_non_null(strstr(drawing, "  dev2    NV1  NV2    X  NV2  SYS  SYS  NV1  SYS  PIX\n"));
    assert_non_null(strstr(drawing, "└─ nic0  PCI 15.8 GB/s, wire 12.5 GB/s\n"));
    assert_non_null(strstr(drawing, "3 units of 18 nodes, 2.70 us one way, uplink 225 GB/s (1:1)"));
    cluster_free(cluster);
    arena_free(arena);
}

static void test_this_machine(void **state)
{
    (void)state;
    struct cluster *cluster = NULL;
    assert_int_equal(cluster_this_machine(&cluster), WEFT_OK);
    assert_true(cluster_devices(cluster) >= 1);
    assert_true(cluster->node.device.units >= 1);
    assert_int_equal(unreachable_vertex(&cluster->node), -1);
    cluster_free(cluster);
}

/* A machine as hwloc would see it: two H200 and a NIC after one PCI switch. */
static void test_another_machine(void **state)
{
    (void)state;
    setenv("HWLOC_XMLFILE", WEFT_SOURCE_DIR "/tests/data/cluster/hwloc_two_h200.xml", 1);
    struct cluster *cluster = NULL;
    assert_int_equal(cluster_this_machine(&cluster), WEFT_OK);
    unsetenv("HWLOC_XMLFILE");
    assert_int_equal(cluster->node.devices, 2);
    assert_string_equal(cluster->node.device.name, "H200-SXM-141GB");
    assert_int_equal(count_vertices(&cluster->node, VERTEX_PCI_SWITCH), 1);
    assert_int_equal(cluster->node.nics, 1);
    NEAR(cluster->node.nic_bytes_per_s, 10e9 / 8); /* a NIC that does not tell: 10 Gb/s */
    assert_int_equal(unreachable_vertex(&cluster->node), -1);
    cluster_free(cluster);
}

/* Two cores that are told of a cache of 300 MiB have a part of it; that of a desktop is all theirs. */
static void test_a_cache_is_not_for_two_cores_alone(void **state)
{
    (void)state;
    static const struct {
        const char *machine;
        int64_t mib;
    } ROWS[] = {{"pack:1 l3:1(size=314572800) l2:2 core:1 pu:1", 64},
                {"pack:1 l3:1(size=100663296) l2:8 core:1 pu:1", 96}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct cluster *cluster = NULL;
        setenv("HWLOC_SYNTHETIC", ROWS[i].machine, 1);
        assert_int_equal(cluster_ranks(2, &cluster), WEFT_OK);
        unsetenv("HWLOC_SYNTHETIC");
        assert_int_equal(cluster->node.device.l2_bytes >> 20, ROWS[i].mib);
        cluster_free(cluster);
    }
}

/* Files are known by their endings. */
static void test_endings(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-test-cluster-%d.yml", (int)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("base: dgx-a100\nnodes: 3\n", file);
    fclose(file);
    struct cluster *cluster = open_cluster(path);
    assert_int_equal(cluster->nodes, 3);
    cluster_free(cluster);
    unlink(path);
}

/* ---- faster parts ---------------------------------------------------------------------------- */

static bool is_faster(double now, double before, double factor)
{
    assert_true(now == before || now == before * factor);
    return now != before;
}

static void assert_fits_scaled(const struct collective_fit *now,
                               const struct collective_fit *before, double factor)
{
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        assert_true(now[c].bus_bytes_per_s == before[c].bus_bytes_per_s * factor);
        assert_true(now[c].alpha_ns == before[c].alpha_ns && now[c].hop_ns == before[c].hop_ns &&
                    now[c].half_bytes == before[c].half_bytes);
    }
}

/* Which wires are faster: of the network those to a NIC, within a node NVLink, or all where there is none. */
static bool should_gain(const struct node_type *node, const struct link *link,
                        enum cluster_part part, bool nvlink)
{
    bool nic = node->vertex[link->a].kind == VERTEX_NIC || node->vertex[link->b].kind == VERTEX_NIC;
    return part == PART_NETWORK ? nic
                                : part == PART_NODE_LINKS && (!nvlink || link->kind == LINK_NVLINK);
}

/* Each part scales its own links and what was measured over them, by the factor, and nothing else. */
static void test_faster_parts(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"dgx-a100:40", "g6e:2", "gb200-nvl72:2"};
    for (size_t i = 0; i < COUNT_OF(NAMES) * CLUSTER_PART_COUNT; i++) {
        struct cluster *before = open_cluster(NAMES[i / CLUSTER_PART_COUNT]);
        enum cluster_part part = (enum cluster_part)(i % CLUSTER_PART_COUNT);
        for (int c = 0; c < COLLECTIVE_COUNT; c++) {
            before->fit_inside[c] = (struct collective_fit){c, 2, 0.5, 1e9 + c, 3};
            before->fit_between[c] = (struct collective_fit){c, 4, 0.5, 2e9 + c, 5};
        }
        struct cluster *now = cluster_faster(before, part, 2);
        double rate;
        bool nvlink = wires_at(&before->node, LINK_NVLINK, 0, &rate) > 0;
        assert_fits_scaled(now->fit_inside, before->fit_inside, part == PART_NODE_LINKS ? 2 : 1);
        assert_fits_scaled(now->fit_between, before->fit_between, part == PART_NETWORK ? 2 : 1);
        for (int32_t l = 0; l < before->node.links; l++) {
            const struct link *link = &before->node.link[l];
            assert_int_equal(is_faster(now->node.link[l].bytes_per_s, link->bytes_per_s, 2),
                             should_gain(&before->node, link, part, nvlink));
        }
        for (int32_t t = 0; t < before->fabric.tiers; t++)
            assert_true(now->fabric.tier[t].uplink_bytes_per_s ==
                        before->fabric.tier[t].uplink_bytes_per_s * (part == PART_NETWORK ? 2 : 1));
        assert_true(now->node.nic_bytes_per_s ==
                    before->node.nic_bytes_per_s * (part == PART_NETWORK ? 2 : 1));
        assert_true(now->node.device.host_bytes_per_s ==
                    before->node.device.host_bytes_per_s * (part == PART_HOST_LINKS ? 2 : 1));
        cluster_free(now);
        cluster_free(before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endings),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_nicknames),
        cmocka_unit_test(test_hints_for_devices),
        cmocka_unit_test(test_dgx1_has_24_nvlinks),
        cmocka_unit_test(test_some_devices_of_each_node),
        cmocka_unit_test(test_hosts_of_racks),
        cmocka_unit_test(test_every_device_is_complete),
        cmocka_unit_test(test_preset_equals_captured_machine),
        cmocka_unit_test(test_captured_machines),
        cmocka_unit_test(test_xml_nvswitch_and_order),
        cmocka_unit_test(test_xml_speeds),
        cmocka_unit_test(test_fabric_grows_with_the_nodes),
        cmocka_unit_test(test_a_hundred_thousand_devices_cost_one_node),
        cmocka_unit_test(test_pci_rates),
        cmocka_unit_test(test_file_with_a_base),
        cmocka_unit_test(test_file_written_out),
        cmocka_unit_test(test_bases_round_trip),
        cmocka_unit_test(test_changed_nics_keep_oversubscription),
        cmocka_unit_test(test_devices_in_files),
        cmocka_unit_test(test_json_is_read_like_yaml),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_drawings),
        cmocka_unit_test(test_faster_parts),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_another_machine),
        cmocka_unit_test(test_a_cache_is_not_for_two_cores_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

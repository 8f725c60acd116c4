/* draw.c - a cluster as text: the matrix of links between devices, the PCI tree, the fabric.
 *
 * The matrix uses the abbreviations of `nvidia-smi topo -m`:
 *   NVn  n NVLinks between the two       NVS  through NVSwitch
 *   PIX  one PCI switch between them     PXB  several PCI switches
 *   PHB  through a socket                SYS  from one socket to another
 */
#include "cluster/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 5, LABEL = 8 }; /* columns of the matrix */

struct drawing {
    FILE *out;
    const struct cluster *cluster;
    const struct node_type *node;
    int columns;
};

/* ---- how two vertices reach each other ------------------------------------------------------- */

static bool joins(const struct link *link, int32_t a, int32_t b)
{
    return (link->a == a && link->b == b) || (link->a == b && link->b == a);
}

static const struct link *nvlink_between(const struct node_type *node, int32_t a, int32_t b)
{
    for (int32_t i = 0; i < node->links; i++)
        if (node->link[i].kind == LINK_NVLINK && joins(&node->link[i], a, b))
            return &node->link[i];
    return NULL;
}

static const struct link *nvswitch_link(const struct node_type *node, int32_t device)
{
    for (int32_t v = 0; v < node->vertices; v++) {
        const struct link *link =
            node->vertex[v].kind == VERTEX_NVSWITCH ? nvlink_between(node, device, v) : NULL;
        if (link)
            return link;
    }
    return NULL;
}

/* For each vertex, the previous one on the shortest path from `from` without NVLink; -1: no path.
 * Devices and NICs forward nothing. */
static void spread(const struct node_type *node, int32_t from, int32_t *before)
{
    int32_t queue[MAX_NODE_VERTICES], head = 0, tail = 0;
    for (int32_t v = 0; v < node->vertices; v++)
        before[v] = -1;
    before[from] = from;
    queue[tail++] = from;
    while (head < tail) {
        int32_t at = queue[head++];
        enum vertex_kind kind = node->vertex[at].kind;
        if (at != from && (kind == VERTEX_DEVICE || kind == VERTEX_NIC))
            continue;
        for (int32_t i = 0; i < node->links; i++) {
            const struct link *link = &node->link[i];
            int32_t next = link->a == at ? link->b : link->b == at ? link->a : -1;
            if (link->kind == LINK_NVLINK || next < 0 || before[next] >= 0)
                continue;
            before[next] = at;
            queue[tail++] = next;
        }
    }
}

static const char *way(const struct node_type *node, const int32_t *before, int32_t to)
{
    int32_t switches = 0, sockets = 0;
    if (before[to] < 0)
        return "-";
    for (int32_t v = before[to]; before[v] != v; v = before[v]) {
        switches += node->vertex[v].kind == VERTEX_PCI_SWITCH;
        sockets += node->vertex[v].kind == VERTEX_SOCKET;
    }
    return sockets > 1 ? "SYS" : sockets == 1 ? "PHB" : switches > 1 ? "PXB" : "PIX";
}

static void relation(const struct node_type *node, const int32_t *before, int32_t from, int32_t to,
                     char text[static CELL + 1])
{
    const struct link *direct = nvlink_between(node, from, to);
    if (from == to)
        strcpy(text, "X");
    else if (direct)
        snprintf(text, CELL + 1, "%s%d", wire_words(&node->device)->mark, direct->count);
    else if (to < node->devices && nvswitch_link(node, from) && nvswitch_link(node, to))
        strcpy(text, "NVS");
    else
        strcpy(text, way(node, before, to));
}

/* ---- the matrix ------------------------------------------------------------------------------ */

/* The vertices that get a column: devices, then NICs, as many as fit into the width. */
static int32_t choose_columns(const struct drawing *d, int32_t *vertex)
{
    int32_t most = (d->columns - LABEL) / CELL, count = 0;
    for (int32_t v = 0; v < d->node->vertices && count < most; v++)
        if (d->node->vertex[v].kind == VERTEX_DEVICE || d->node->vertex[v].kind == VERTEX_NIC)
            vertex[count++] = v;
    return count;
}

static void draw_row(const struct drawing *d, int32_t from, const int32_t *vertex, int32_t count)
{
    int32_t before[MAX_NODE_VERTICES];
    spread(d->node, from, before);
    fprintf(d->out, "  %-*.*s", LABEL - 2, LABEL - 2, d->node->vertex[from].name);
    for (int32_t i = 0; i < count; i++) {
        char text[CELL + 1];
        relation(d->node, before, from, vertex[i], text);
        fprintf(d->out, "%*s", CELL, text);
    }
    fputc('\n', d->out);
}

static void draw_legend(const struct drawing *d)
{
    const struct link *link = NULL;
    for (int32_t i = 0; i < d->node->links && !link; i++)
        if (d->node->link[i].kind == LINK_NVLINK)
            link = &d->node->link[i];
    const struct wire_words *words = wire_words(&d->node->device);
    if (link)
        fprintf(d->out, "  %sn: n %s of %s per direction%s\n", words->mark, words->plural,
                show_rate(link->bytes_per_s / link->count).s,
                nvswitch_link(d->node, 0) ? "; NVS: through NVSwitch" : "");
    fprintf(d->out, "  PIX: one PCI switch; PXB: several; PHB: through a socket; SYS: between "
                    "sockets\n");
}

static void draw_matrix(const struct drawing *d)
{
    int32_t vertex[256];
    int32_t count = choose_columns(d, vertex);
    int32_t rows = count < d->node->devices ? count : d->node->devices;
    if (count < 2)
        return;
    fprintf(d->out, "\nbetween the devices of a node\n%-*s", LABEL, "");
    for (int32_t i = 0; i < count; i++) {
        char label[16];
        bool device = vertex[i] < d->node->devices;
        snprintf(label, sizeof label, device ? "d%d" : "nic%d", device ? i : i - d->node->devices);
        fprintf(d->out, "%*.*s", CELL, CELL, label);
    }
    fputc('\n', d->out);
    for (int32_t i = 0; i < rows; i++)
        draw_row(d, vertex[i], vertex, count);
    if (rows < d->node->devices)
        fprintf(d->out, "  ... %d more devices\n", d->node->devices - rows);
    draw_legend(d);
}

/* A node that is too wide for a matrix and lies on one switch plane is drawn as a single line. */
static bool draw_plane(const struct drawing *d)
{
    const struct link *first = nvswitch_link(d->node, 0);
    if (!first || (d->columns - LABEL) / CELL >= d->node->devices)
        return false;
    for (int32_t v = 1; v < d->node->devices; v++)
        if (!nvswitch_link(d->node, v))
            return false;
    fprintf(d->out,
            "\nbetween the devices of a node\n  every pair of the %d through NVSwitch: "
            "%d NVLinks a device, %s per direction\n",
            d->node->devices, first->count, show_rate(first->bytes_per_s).s);
    return true;
}

/* ---- the PCI tree ---------------------------------------------------------------------------- */

/* Whether a vertex hangs below `vertex` without being its parent or another socket. */
static bool is_child(const struct node_type *node, const struct link *link, int32_t vertex,
                     int32_t parent, int32_t *child)
{
    *child = link->a == vertex ? link->b : link->b == vertex ? link->a : -1;
    return *child >= 0 && *child != parent && link->kind != LINK_NVLINK &&
           node->vertex[*child].kind != VERTEX_SOCKET;
}

static void draw_below(const struct drawing *d, int32_t vertex, int32_t parent, const char *indent)
{
    const struct node_type *node = d->node;
    int32_t child, left = 0;
    if (node->vertex[vertex].kind == VERTEX_DEVICE || strlen(indent) > 64)
        return;
    for (int32_t i = 0; i < node->links; i++)
        left += is_child(node, &node->link[i], vertex, parent, &child);
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        if (!is_child(node, link, vertex, parent, &child))
            continue;
        bool last = --left == 0;
        char deeper[96];
        snprintf(deeper, sizeof deeper, "%s%s", indent, last ? "   " : "│  ");
        bool nic = node->vertex[child].kind == VERTEX_NIC;
        fprintf(d->out, "%s%s %.24s  %s %s", indent, last ? "└─" : "├─", node->vertex[child].name,
                link->kind == LINK_PCI ? "PCI" : "C2C", show_rate(link->bytes_per_s).s);
        if (nic)
            fprintf(d->out, ", wire %s", show_rate(node->nic_bytes_per_s / node->nics).s);
        fputc('\n', d->out);
        draw_below(d, child, vertex, deeper);
    }
}

static const struct link *socket_link(const struct node_type *node)
{
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        if (node->vertex[link->a].kind == VERTEX_SOCKET &&
            node->vertex[link->b].kind == VERTEX_SOCKET)
            return link;
    }
    return NULL;
}

static void draw_tree(const struct drawing *d)
{
    enum { MOST = 4 }; /* sockets; those of a large rack are all alike */
    int32_t sockets = 0;
    const struct link *link = socket_link(d->node);
    for (int32_t v = 0; v < d->node->vertices; v++) {
        if (d->node->vertex[v].kind != VERTEX_SOCKET || sockets++ >= MOST)
            continue;
        if (sockets == 1)
            fprintf(d->out, "\nbelow the sockets of a node\n");
        fprintf(d->out, "  %s\n", d->node->vertex[v].name);
        draw_below(d, v, -1, "  ");
    }
    if (sockets > MOST)
        fprintf(d->out, "  ... and %d more sockets\n", sockets - MOST);
    if (link)
        fprintf(d->out, "  from socket to socket %s\n", show_rate(link->bytes_per_s).s);
}

/* ---- the fabric ------------------------------------------------------------------------------ */

static void draw_tier(const struct drawing *d, int32_t k)
{
    const struct cluster *cluster = d->cluster;
    const struct tier *tier = &cluster->fabric.tier[k];
    int64_t units = ceil_div(cluster->nodes, tier->nodes);
    fprintf(d->out, "  %-16.16s %6lld unit%s of %s, %s one way", tier->name, (long long)units,
            units == 1 ? " " : "s", counted(tier->nodes, "node").s,
            show_duration((double)tier->latency_ns).s);
    if (tier->uplink_bytes_per_s > 0)
        fprintf(d->out, ", uplink %s (%.3g:1)", show_rate(tier->uplink_bytes_per_s).s,
                (double)tier->nodes * cluster->node.nic_bytes_per_s / tier->uplink_bytes_per_s);
    fputc('\n', d->out);
}

static void draw_fabric(const struct drawing *d)
{
    const struct cluster *cluster = d->cluster;
    const struct fabric *fabric = &cluster->fabric;
    if (fabric->kind == FABRIC_NONE) {
        fprintf(d->out, "\nno fabric: a single node\n");
        return;
    }
    fprintf(d->out, "\nfabric: %s%s (%.70s)\n", fabric_kind_name(fabric->kind),
            fabric->rails ? ", NIC i of a node meets NIC i of the others" : "", fabric->source);
    for (int32_t k = fabric->tiers - 1; k >= 0; k--)
        draw_tier(d, k);
    fprintf(d->out, "  %-16s %6lld node%s with %d NIC%s of %s\n", "node", (long long)cluster->nodes,
            cluster->nodes == 1 ? " " : "s", cluster->node.nics, cluster->node.nics == 1 ? "" : "s",
            show_rate(cluster->node.nic_bytes_per_s / cluster->node.nics).s);
}

/* Writes words in lines of at most `columns`. */
static void draw_words(const struct drawing *d, const char *label, const char *text)
{
    int at = fprintf(d->out, "  %s", label);
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (at + 1 + len > d->columns)
            at = fprintf(d->out, "\n   ") - 1;
        at += fprintf(d->out, " %.*s", len < 80 ? len : 80, text);
        text += len + (text[len] == ' ');
    }
    fputc('\n', d->out);
}

static void draw_header(const struct drawing *d)
{
    const struct cluster *cluster = d->cluster;
    const struct device *device = &d->node->device;
    fprintf(d->out, "%.60s: %lld node%s of %d %.30s\n", cluster->name, (long long)cluster->nodes,
            cluster->nodes == 1 ? "" : "s", d->node->devices, device->name);
    draw_words(d, "source:", cluster->source);
    draw_words(d, "device:", device->source);
    fprintf(d->out, "  peak TFLOP/s:");
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (device->flops[t] > 0)
            fprintf(d->out, " %s %.4g", dtype_name(t), device->flops[t] / 1e12);
    fprintf(d->out, "\n  memory: %s at %s; host at %s\n",
            show_bytes((double)device->memory_bytes).s, show_rate(device->memory_bytes_per_s).s,
            show_rate(device->host_bytes_per_s).s);
}

/* One pool after the other, and what joins them. */
static const char *draw_pools(struct arena *keep, const struct cluster *whole, int columns)
{
    const char *text = arena_printf(keep, "%.60s: %s in %d pools\n", whole->name,
                                    counted(whole->nodes, "node").s, whole->pools);
    for (int32_t p = 0; p < whole->pools; p++) {
        const struct node_pool *pool = &whole->pool[p];
        text = arena_printf(
            keep, "%s\npool %.60s: nodes %lld to %lld, %s to other pools\n%s", text, pool->name,
            (long long)pool->first_node, (long long)(pool->first_node + pool->cluster->nodes - 1),
            show_rate(pool->uplink_bytes_per_s).s, cluster_draw(keep, pool->cluster, columns));
    }
    return arena_printf(keep, "%s\nfrom pool to pool: %s\n", text,
                        show_duration((double)whole->between_ns).s);
}

const char *cluster_draw(struct arena *keep, const struct cluster *cluster, int columns)
{
    if (cluster->pools)
        return draw_pools(keep, cluster, columns);
    char *text = NULL;
    size_t len = 0;
    struct drawing d = {open_memstream(&text, &len), cluster, &cluster->node, columns};
    if (!d.out)
        return "";
    draw_header(&d);
    if (!draw_plane(&d))
        draw_matrix(&d);
    draw_tree(&d);
    draw_fabric(&d);
    fclose(d.out);
    char *copy = arena_copy_bytes(keep, text, len);
    free(text);
    /* names may come from files: replace whatever a terminal would interpret */
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < ' ' && *c != '\n')
            *c = '?';
    return copy;
}

/* pools.c - several clusters of one node type each, joined to one (pools.h).
 *
 * The whole numbers what its pools have, one pool after the other (pools.h, I2):
 *
 *   links   first_link_p + l;  NICs  first_nic_p + k
 *   tiers   first_tier_p + t: uplinks of tier t of pool p; after those, the uplink of the pool itself       (1)
 *   units   of a tier by the number of their first node in the whole
 */
#include <string.h>

#include "cluster/pools_room.h"

/* ---- asking ---------------------------------------------------------------------------------- */

int32_t cluster_pools(const struct cluster *cluster)
{
    return cluster->pools ? cluster->pools : 1;
}

int32_t pool_of_node(const struct cluster *cluster, int64_t node)
{
    int32_t p = cluster->pools ? cluster->pools - 1 : 0;
    while (p > 0 && node < cluster->pool[p].first_node)
        p--;
    return p;
}

int32_t cluster_pool_of(const struct cluster *cluster, int64_t device)
{
    return cluster->pools ? pool_of_node(cluster, device / cluster->node.devices) : 0;
}

const struct cluster *cluster_pool(const struct cluster *cluster, int32_t pool)
{
    return cluster->pools ? cluster->pool[pool].cluster : cluster;
}

const char *cluster_pool_name(const struct cluster *cluster, int32_t pool)
{
    return cluster->pools ? cluster->pool[pool].name : cluster->node.device.name;
}

int64_t cluster_pool_first(const struct cluster *cluster, int32_t pool)
{
    return cluster->pools ? cluster->pool[pool].first_node * cluster->node.devices : 0;
}

const struct cluster *cluster_at(const struct cluster *cluster, int64_t device)
{
    return cluster_pool(cluster, cluster_pool_of(cluster, device));
}

const struct device *cluster_device(const struct cluster *cluster, int64_t device)
{
    return &cluster_at(cluster, device)->node.device;
}

bool cluster_all_devices(const struct cluster *cluster, bool (*has)(const struct device *device))
{
    bool all = true;
    for (int32_t p = 0; p < cluster_pools(cluster); p++)
        all &= has(&cluster_pool(cluster, p)->node.device);
    return all;
}

weft_status cluster_refuse_pools(const struct cluster *cluster, const char *what)
{
    if (!cluster->pools)
        return WEFT_OK;
    return bad_argument("name one of its pools alone, as in dgx-h100:4",
                        "%s needs nodes of one type, and %s has %d", what, cluster->name,
                        cluster->pools);
}

/* ---- what may be joined ---------------------------------------------------------------------- */

static weft_status check_parts(const struct pool_part *part, int32_t parts)
{
    int32_t links = 0, tiers = 1;
    for (int32_t p = 0; p < parts; p++) {
        const struct cluster *own = part[p].cluster, *first = part[0].cluster;
        if (own->pools)
            return bad_argument("list its pools here", "%s has several node types itself",
                                own->name);
        if (own->node.devices != first->node.devices)
            return bad_argument("take as many of each node's devices, as in dgx-h100:4x4",
                                "nodes of %s have %s and those of %s have %d", first->name,
                                counted(first->node.devices, "device").s, own->name,
                                own->node.devices);
        if (cluster_host_devices(own) != cluster_host_devices(first))
            return bad_argument(NULL, "machines of %s have %s and those of %s have %lld",
                                first->name, counted(cluster_host_devices(first), "device").s,
                                own->name, (long long)cluster_host_devices(own));
        if (own->node.nics == 0)
            return bad_argument("give the node type a NIC",
                                "nodes of %s have no NIC to reach other pools with", own->name);
        links += own->node.links;
        tiers += (own->fabric.tiers > 1 ? own->fabric.tiers - 1 : 0) + 1;
    }
    if (parts < 1 || parts > MAX_POOLS)
        return bad_argument(NULL, "%d pools, expected 1 to %d", parts, MAX_POOLS);
    if (links > MAX_NODE_LINKS || tiers > MAX_LINK_TIERS)
        return bad_argument(NULL,
                            "the pools have %d tiers and %d links in nodes together, at most "
                            "%d and %d can be joined",
                            tiers, links, MAX_LINK_TIERS, MAX_NODE_LINKS);
    return WEFT_OK;
}

/* ---- the node that numbers all links --------------------------------------------------------- */

static const char *pool_vertex_name(struct arena *keep, const struct node_pool *pool, int32_t v)
{
    return arena_printf(keep, "%s %s", pool->name, pool->cluster->node.vertex[v].name);
}

/* Appends the pool's links; its devices are those of the whole. */
static void append_node(struct cluster *whole, struct node_pool *pool)
{
    const struct node_type *own = &pool->cluster->node;
    struct node_type *node = &whole->node;
    int32_t shift = node->vertices - own->devices;
    pool->first_link = node->links;
    pool->first_nic = node->nics;
    for (int32_t v = own->devices; v < own->vertices; v++)
        node->vertex[node->vertices++] =
            (struct vertex){own->vertex[v].kind, pool_vertex_name(whole->arena, pool, v)};
    for (int32_t l = 0; l < own->links; l++) {
        struct link link = own->link[l];
        link.a += link.a >= own->devices ? shift : 0;
        link.b += link.b >= own->devices ? shift : 0;
        node->link[node->links++] = link;
    }
    node->nics += own->nics;
    node->nic_bytes_per_s += own->nic_bytes_per_s; /* of all that are numbered here */
}

static void join_nodes(struct cluster *whole)
{
    const struct node_type *first = &whole->pool[0].cluster->node;
    size_t vertices = (size_t)first->devices, links = 0;
    for (int32_t p = 0; p < whole->pools; p++) {
        vertices += (size_t)whole->pool[p].cluster->node.vertices;
        links += (size_t)whole->pool[p].cluster->node.links;
    }
    whole->node = (struct node_type){
        .name = whole->name,
        .devices = first->devices,
        .boards = first->boards,
        .host_memory_bytes_per_s = first->host_memory_bytes_per_s,
        .vertices = first->devices,
        .vertex = ARENA_ARRAY(whole->arena, struct vertex, vertices + 1),
        .link = ARENA_ARRAY(whole->arena, struct link, links + 1),
    };
    memcpy(whole->node.vertex, first->vertex, sizeof *first->vertex * (size_t)first->devices);
    for (int32_t p = 0; p < whole->pools; p++)
        append_node(whole, &whole->pool[p]);
}

/* ---- the device that stands for all ---------------------------------------------------------- */

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void add_device(struct device *mean, const struct device *own, double share)
{
    mean->memory_bytes = (int64_t)least((double)mean->memory_bytes, (double)own->memory_bytes);
    mean->host_bytes_per_s = least(mean->host_bytes_per_s, own->host_bytes_per_s);
    mean->vector_flops += share * own->vector_flops;
    mean->memory_bytes_per_s += share * own->memory_bytes_per_s;
    for (int t = 0; t < DTYPE_COUNT; t++)
        mean->flops[t] += share * own->flops[t];
}

/* The mean price, or 0 if one of them is unknown. */
static double mean_price(const struct cluster *whole)
{
    double sum = 0;
    for (int32_t p = 0; p < whole->pools; p++) {
        const struct cluster *own = whole->pool[p].cluster;
        if (own->node.device.price_per_hour <= 0)
            return 0;
        sum += own->node.device.price_per_hour * (double)own->nodes;
    }
    return sum / (double)whole->nodes;
}

/* I2 of pools.h. */
static void mean_device(struct cluster *whole)
{
    struct device mean = whole->pool[0].cluster->node.device;
    const char *name = NULL;
    mean.vector_flops = mean.memory_bytes_per_s = 0;
    memset(mean.flops, 0, sizeof mean.flops);
    for (int32_t p = 0; p < whole->pools; p++) {
        const struct cluster *own = whole->pool[p].cluster;
        add_device(&mean, &own->node.device, (double)own->nodes / (double)whole->nodes);
        name = name ? arena_printf(whole->arena, "%s + %s", name, own->node.device.name)
                    : own->node.device.name;
    }
    mean.name = name;
    mean.price_per_hour = mean_price(whole);
    whole->node.device = mean;
}

/* ---- tiers ----------------------------------------------------------------------------------- */

static int64_t fabric_ns(const struct fabric *fabric)
{
    int64_t ns = 0;
    for (int32_t t = 0; t < fabric->tiers; t++)
        ns += fabric->tier[t].latency_ns;
    return ns;
}

static int32_t inner_tiers(const struct cluster *own)
{
    return own->fabric.tiers > 1 ? own->fabric.tiers - 1 : 0;
}

/* (1) */
static void join_fabrics(struct cluster *whole, int64_t latency_ns)
{
    struct fabric *fabric = &whole->fabric;
    int64_t slowest_ns = 0;
    *fabric = (struct fabric){.kind = FABRIC_SWITCH, .source = whole->source};
    for (int32_t p = 0; p < whole->pools; p++) {
        struct node_pool *pool = &whole->pool[p];
        const struct cluster *own = pool->cluster;
        pool->first_tier = fabric->tiers + 1;
        for (int32_t t = 0; t < inner_tiers(own); t++) {
            fabric->tier[fabric->tiers] = own->fabric.tier[t];
            fabric->tier[fabric->tiers++].nodes = 1;
        }
        fabric->tier[fabric->tiers++] = (struct tier){
            .name = pool->name, .nodes = 1, .uplink_bytes_per_s = pool->uplink_bytes_per_s};
        if (fabric_ns(&own->fabric) > slowest_ns)
            slowest_ns = fabric_ns(&own->fabric);
    }
    whole->between_ns = latency_ns >= 0 ? latency_ns : slowest_ns;
    fabric->tier[fabric->tiers++] =
        (struct tier){.name = "pools", .nodes = whole->nodes, .latency_ns = whole->between_ns};
}

struct pool_tier pool_tier(const struct cluster *whole, int32_t tier)
{
    int32_t p = whole->pools - 1;
    while (p > 0 && tier < whole->pool[p].first_tier)
        p--;
    int32_t inner = tier - whole->pool[p].first_tier;
    return (struct pool_tier){p, inner < inner_tiers(whole->pool[p].cluster) ? inner : -1};
}

int64_t tier_unit(const struct cluster *cluster, int32_t t, int64_t node)
{
    if (!cluster->pools)
        return node / cluster->fabric.tier[t].nodes;
    struct pool_tier of = pool_tier(cluster, t + 1);
    const struct node_pool *pool = &cluster->pool[of.pool];
    if (pool_of_node(cluster, node) != of.pool)
        return NO_UNIT;
    if (of.inner < 0)
        return pool->first_node;
    int64_t unit = pool->cluster->fabric.tier[of.inner].nodes;
    return pool->first_node + (node - pool->first_node) / unit * unit;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* T_p of pools.h, (1): the pool's nodes in place of all. */
static struct cluster *everywhere(const struct cluster *whole, const struct node_pool *pool)
{
    struct cluster *all = cluster_new(pool->name);
    const struct cluster *own = pool->cluster;
    all->node = own->node;
    all->nodes = whole->nodes;
    all->fabric = (struct fabric){.kind = FABRIC_SWITCH, .tiers = 1, .source = whole->source};
    all->fabric.tier[0] =
        (struct tier){.name = "pools", .nodes = whole->nodes, .latency_ns = whole->between_ns};
    memcpy(all->fit_inside, own->fit_inside, sizeof all->fit_inside);
    memcpy(all->fit_between, own->fit_between, sizeof all->fit_between);
    return all;
}

weft_status pools_join(struct cluster *whole, const struct pool_part *part, int32_t parts,
                       int64_t latency_ns)
{
    weft_status status = check_parts(part, parts);
    if (status)
        return status;
    whole->nodes = 0;
    whole->pools = parts;
    whole->pool = ARENA_ARRAY(whole->arena, struct node_pool, (size_t)parts);
    for (int32_t p = 0; p < parts; p++) {
        struct cluster *own = part[p].cluster;
        double nics = own->node.nic_bytes_per_s * (double)own->nodes;
        whole->pool[p] = (struct node_pool){
            .name = part[p].name ? part[p].name : own->name,
            .cluster = own,
            .first_node = whole->nodes,
            .uplink_bytes_per_s =
                part[p].uplink_bytes_per_s > 0 ? part[p].uplink_bytes_per_s : nics,
        };
        whole->pool[p].name = arena_copy_text(whole->arena, whole->pool[p].name);
        whole->nodes += own->nodes;
    }
    join_fabrics(whole, latency_ns);
    pools_refresh(whole);
    return WEFT_OK;
}

weft_status cluster_join(const char *name, const struct pool_part *part, int32_t parts,
                         int64_t latency_ns, struct cluster **out)
{
    struct cluster *whole = cluster_new(name);
    weft_status status = pools_join(whole, part, parts, latency_ns);
    if (status == WEFT_OK)
        *out = whole;
    else
        cluster_free(whole);
    return status;
}

void pools_refresh(struct cluster *whole)
{
    join_nodes(whole);
    mean_device(whole);
    join_fabrics(whole, whole->between_ns);
    for (int32_t p = 0; p < whole->pools; p++) {
        cluster_free(whole->pool[p].everywhere);
        whole->pool[p].everywhere = everywhere(whole, &whole->pool[p]);
    }
}

void pools_free(struct cluster *whole)
{
    for (int32_t p = 0; p < whole->pools; p++) {
        cluster_free(whole->pool[p].everywhere);
        cluster_free(whole->pool[p].cluster);
    }
}

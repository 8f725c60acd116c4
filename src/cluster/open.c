/* open.c - from a name to a cluster: presets, files, text in memory.
 *
 *   I1  A preset's name takes precedence over a file of the same name.
 *   I2  NAME:NODES is taken apart only if NAME is a preset or an existing file, so that a path may
 *       contain colons.
 *   I3  NAME:NODESxDEVICES is a job on the first DEVICES devices of each node: the rest of the node
 *       remains, idle.
 *   I4  A+B is a cluster of pools A and B (pools.h), unless a file has this name.
 */
#include "cluster/pools_room.h"

#include <string.h>

enum { MAX_XML_BYTES = 16 << 20 }; /* NCCL's own dumps have a few kilobytes */

struct cluster *cluster_new(const char *name)
{
    struct arena *arena = arena_new();
    struct cluster *cluster = ARENA_NEW(arena, struct cluster);
    cluster->arena = arena;
    cluster->name = arena_copy_text(arena, name);
    cluster->source = cluster->name;
    cluster->nodes = 1;
    cluster->channels = channel_cache_new();
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    pools_free(cluster);
    channel_cache_free(cluster->channels);
    arena_free(cluster->arena);
}

int64_t cluster_devices(const struct cluster *cluster)
{
    return cluster->nodes * cluster->node.devices;
}

int64_t cluster_hosts(const struct cluster *cluster)
{
    return cluster->nodes * (cluster->node.boards ? cluster->node.boards : 1);
}

int64_t cluster_host_devices(const struct cluster *cluster)
{
    return cluster_devices(cluster) / cluster_hosts(cluster);
}

weft_status plain_fabric(struct cluster *cluster, const char *file, int line)
{
    if (cluster->nodes > 1 && cluster->node.nics == 0)
        return bad_input(file, line, "ask for one node, or describe a machine with a NIC",
                         "has %s and no NIC to join them", counted(cluster->nodes, "node").s);
    if (cluster->node.nics == 0)
        return WEFT_OK;
    static const struct tier_plan SWITCH = {.name = "switch", .latency_ns = FABRIC_NS};
    cluster->fabric = (struct fabric){.kind = FABRIC_SWITCH, .source = "one switch: assumed"};
    fabric_build(cluster, &SWITCH, 1);
    return WEFT_OK;
}

/* ---- formats --------------------------------------------------------------------------------- */

static const struct {
    const char *ending;
    enum cluster_format format;
} ENDINGS[] = {
    {".yaml", CLUSTER_YAML},
    {".yml", CLUSTER_YAML},
    {".json", CLUSTER_JSON},
    {".xml", CLUSTER_XML},
};

/* The hint of an error that has none of its own. */
static const char *const FORMATS[] = {
    [CLUSTER_YAML] = "docs/reference/cluster-file.md describes the format",
    [CLUSTER_JSON] = "docs/reference/cluster-file.md describes the format",
    [CLUSTER_XML] = "NCCL writes such a file when NCCL_TOPO_DUMP_FILE names one",
};

static bool known_ending(const char *path, enum cluster_format *format)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < COUNT_OF(ENDINGS); i++) {
        size_t ending = strlen(ENDINGS[i].ending);
        if (len > ending && strcmp(path + len - ending, ENDINGS[i].ending) == 0) {
            *format = ENDINGS[i].format;
            return true;
        }
    }
    return false;
}

enum cluster_format format_of(const char *path)
{
    enum cluster_format format;
    return known_ending(path, &format) ? format : CLUSTER_YAML;
}

/* `whole`: it may have pools; false: it is to be one. */
static weft_status read_text(enum cluster_format format, const char *name, const char *text,
                             size_t len, int64_t nodes, bool whole, struct cluster **out)
{
    weft_status status;
    struct cluster *cluster = cluster_new(name);
    if (format == CLUSTER_XML) {
        TRY(nccl_xml_read(cluster, cluster->name, text, len, NULL, nodes));
        TRY(plain_fabric(cluster, cluster->name, 0));
    } else {
        struct doc *root = NULL;
        TRY(doc_parse(cluster->arena, name, text, len, format == CLUSTER_JSON ? DOC_JSON : DOC_YAML,
                      &root));
        const struct doc *pools = doc_get(root, "pools");
        if (pools && !whole)
            TRY(doc_error(pools, "list its pools in the file that has this one",
                          "a pool cannot have pools itself"));
        TRY(pools ? pools_read(cluster, root, nodes) : yaml_read(cluster, root, nodes));
    }
    *out = cluster;
    return WEFT_OK;
done:
    cluster_free(cluster);
    if (!weft_last_error()->hint)
        error_hint("%s", FORMATS[format]);
    return status;
}

weft_status cluster_from_text(enum cluster_format format, const char *name, const char *text,
                              size_t len, int64_t nodes, struct cluster **out)
{
    return read_text(format, name, text, len, nodes, true, out);
}

static weft_status open_file(const char *path, int64_t nodes, bool whole, struct cluster **out)
{
    enum cluster_format format = format_of(path);
    struct arena *scratch = arena_new();
    char *text;
    size_t len;
    weft_status status = file_read(
        scratch, path, format == CLUSTER_XML ? MAX_XML_BYTES : DOC_MAX_BYTES, &text, &len);
    if (status == WEFT_OK)
        status = read_text(format, path, text, len, nodes, whole, out);
    arena_free(scratch);
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct asked_size {
    int64_t nodes, devices; /* of each node; 0: as many as the name alone implies */
};

static weft_status parse_size(const char *name, char *text, struct asked_size *out)
{
    char *times = strchr(text, 'x');
    if (times)
        *times = '\0';
    bool number = parse_int(text, &out->nodes) && (!times || parse_int(times + 1, &out->devices));
    if (times)
        *times = 'x';
    if (!number || (times && out->devices < 1))
        return bad_argument("name and count are written like dgx-a100:16",
                            "'%.100s' is not a number of nodes for %.100s", text, name);
    return check_nodes(name, out->nodes);
}

/* Removes :NODES or :NODESxDEVICES from a name (I2). */
static weft_status split_size(char *name, struct asked_size *out)
{
    char *colon = strrchr(name, ':');
    *out = (struct asked_size){0};
    if (!colon || file_exists(name))
        return WEFT_OK;
    *colon = '\0';
    if (!cluster_preset_find(name) && !file_exists(name))
        return WEFT_OK; /* the caller reports that there is no such name */
    return parse_size(name, colon + 1, out);
}

/* I3 */
static weft_status keep_devices(struct cluster *cluster, int64_t devices)
{
    if (devices > cluster->node.devices)
        return bad_argument(NULL, "%.100s has %s in a node, not %lld", cluster->name,
                            counted(cluster->node.devices, "device").s, (long long)devices);
    if (devices)
        topology_keep(cluster->arena, &cluster->node, (int32_t)devices);
    return WEFT_OK;
}

static weft_status open_preset(const struct cluster_preset *preset, int64_t nodes,
                               struct cluster **out)
{
    struct cluster *cluster = cluster_new(preset->name);
    weft_status status = cluster_preset_build(cluster, preset, nodes);
    if (status == WEFT_OK)
        *out = cluster;
    else
        cluster_free(cluster);
    return status;
}

static weft_status open_name(const char *name, bool whole, struct cluster **out)
{
    struct arena *scratch = arena_new();
    char *base = arena_copy_text(scratch, cluster_meant(scratch, name));
    enum cluster_format format;
    struct asked_size size;
    struct cluster *cluster = NULL;
    weft_status status = split_size(base, &size);
    const struct cluster_preset *preset = cluster_preset_find(base);
    if (status == WEFT_OK && preset)
        status = open_preset(preset, size.nodes, &cluster);
    else if (status == WEFT_OK && (file_exists(base) || known_ending(base, &format)))
        status = open_file(base, size.nodes, whole, &cluster);
    else if (status == WEFT_OK)
        status = unknown_preset(base);
    if (status == WEFT_OK)
        status = keep_devices(cluster, size.devices);
    if (status == WEFT_OK)
        *out = cluster;
    else
        cluster_free(cluster);
    arena_free(scratch);
    return status;
}

weft_status cluster_open_pool(const char *name, struct cluster **out)
{
    return open_name(name, false, out);
}

/* I4: opens each name between plus signs. */
static weft_status open_sum(const char *name, struct cluster **out)
{
    struct arena *scratch = arena_new();
    struct pool_part part[MAX_POOLS];
    int32_t parts = 0;
    weft_status status = WEFT_OK;
    char *rest = arena_copy_text(scratch, name);
    for (char *next = rest; next && parts < MAX_POOLS && status == WEFT_OK; rest = next) {
        next = strchr(rest, '+');
        if (next)
            *next++ = '\0';
        part[parts] = (struct pool_part){0};
        status = cluster_open_pool(rest, &part[parts].cluster);
        parts += status == WEFT_OK;
    }
    if (status == WEFT_OK && rest)
        status = bad_argument(NULL, "%.100s has more than %d pools", name, MAX_POOLS);
    if (status == WEFT_OK)
        status = cluster_join(name, part, parts, -1, out);
    for (int32_t p = 0; status != WEFT_OK && p < parts; p++)
        cluster_free(part[p].cluster);
    arena_free(scratch);
    return status;
}

weft_status cluster_open(const char *name, struct cluster **out)
{
    bool sum = strchr(name, '+') && !file_exists(name);
    return sum ? open_sum(name, out) : open_name(name, true, out);
}

/* load_pools.c - cluster files of several node types (docs/reference/cluster-file.md, "Several node types"):
 *
 *   pools:
 *     - {name: new, cluster: dgx-h100:4, uplink: 200GB/s}
 *     - name: old
 *       cluster: {base: dgx-a100, nodes: 4}
 *   between: {latency: 5us}
 *
 *   I1  `cluster` is what a command line names, a path being relative to the file, or a cluster file's own keys.
 *   I2  An error in a pool's cluster has the line of that pool.
 */
#include "cluster/load.h"
#include "cluster/pools_room.h"

#include <stddef.h>
#include <string.h>

struct pools_form {
    const char *name, *source;
    const struct doc *pools, *between;
};
static const struct field POOLS_FIELDS[] = {
    {"name", FIELD_TEXT, offsetof(struct pools_form, name)},
    {"source", FIELD_LINES, offsetof(struct pools_form, source)},
    {"pools", FIELD_DOC, offsetof(struct pools_form, pools), true},
    {"between", FIELD_DOC, offsetof(struct pools_form, between)},
};

struct pool_form {
    const char *name;
    const struct doc *cluster;
    double uplink;
};
static const struct field POOL_FIELDS[] = {
    {"name", FIELD_TEXT, offsetof(struct pool_form, name)},
    {"cluster", FIELD_DOC, offsetof(struct pool_form, cluster), true},
    {"uplink", FIELD_RATE, offsetof(struct pool_form, uplink)},
};

/* I1 */
static weft_status open_written(const struct doc *doc, struct cluster **out)
{
    struct cluster *cluster = cluster_new(doc->file);
    weft_status status = yaml_read(cluster, doc, 0);
    if (status == WEFT_OK)
        *out = cluster;
    else
        cluster_free(cluster);
    return status;
}

static weft_status open_named(const struct doc *doc, struct cluster **out)
{
    struct arena *scratch = arena_new();
    const char *near = path_beside(scratch, doc->file, doc->text);
    enum { SUFFIX = ':' };
    char *path = arena_copy_text(scratch, near), *colon = strrchr(path, SUFFIX);
    if (colon && !file_exists(path))
        *colon = '\0';
    weft_status status = cluster_open_pool(file_exists(path) ? near : doc->text, out);
    arena_free(scratch);
    return status ? error_at(doc) : WEFT_OK; /* I2 */
}

static weft_status read_pool(const struct doc *item, struct pool_part *out)
{
    struct pool_form form = {0};
    weft_status status =
        doc_read(item, POOL_FIELDS, COUNT_OF(POOL_FIELDS), DOC_REFUSE_UNKNOWN, &form);
    if (status)
        return status;
    *out = (struct pool_part){.name = form.name, .uplink_bytes_per_s = form.uplink};
    if (form.cluster->kind == DOC_MAP)
        return open_written(form.cluster, &out->cluster);
    if (form.cluster->kind == DOC_TEXT)
        return open_named(form.cluster, &out->cluster);
    return doc_error(form.cluster, NULL,
                     "'cluster' is %s, expected a name such as dgx-a100:4, or a mapping",
                     doc_kind_name(form.cluster->kind));
}

static weft_status check_list(const struct doc *list, int64_t nodes)
{
    if (list->kind != DOC_LIST)
        return doc_error(list, NULL, "'pools' is %s, expected a list", doc_kind_name(list->kind));
    if (list->count == 0 || list->count > MAX_POOLS)
        return doc_error(list, NULL, "there are %zu pools, expected 1 to %d", list->count,
                         MAX_POOLS);
    if (nodes)
        return doc_error(list, "write it into the file",
                         "each pool has a number of nodes of its own, not %lld", (long long)nodes);
    return WEFT_OK;
}

/* Below 0: it is not said. */
static weft_status read_latency(const struct doc *between, int64_t *out)
{
    struct between_form {
        int64_t latency;
    } form = {-1};
    static const struct field FIELDS[] = {
        {"latency", FIELD_DURATION, offsetof(struct between_form, latency), true},
    };
    weft_status status = WEFT_OK;
    if (between)
        status = doc_read(between, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &form);
    *out = form.latency;
    return status;
}

static weft_status check_name(const struct doc *item, const struct pool_part *part, int32_t parts)
{
    for (int32_t p = 0; p < parts; p++)
        if (part[p].name && part[parts].name && strcmp(part[p].name, part[parts].name) == 0)
            return doc_error(item, NULL, "two pools are called '%s'", part[p].name);
    return WEFT_OK;
}

weft_status pools_read(struct cluster *cluster, const struct doc *root, int64_t nodes)
{
    struct pools_form form = {0};
    struct pool_part part[MAX_POOLS] = {0};
    int32_t parts = 0;
    int64_t latency = -1;
    weft_status status;
    TRY(doc_read(root, POOLS_FIELDS, COUNT_OF(POOLS_FIELDS), DOC_REFUSE_UNKNOWN, &form));
    TRY(check_list(form.pools, nodes));
    TRY(read_latency(form.between, &latency));
    for (const struct doc *item = form.pools->first; item; item = item->next) {
        TRY(read_pool(item, &part[parts]));
        parts++;
        TRY(check_name(item, part, parts - 1));
    }
    cluster->name = form.name ? form.name : cluster->name;
    cluster->source = form.source ? form.source : cluster->source;
    if (pools_join(cluster, part, parts, latency) != WEFT_OK)
        status = error_at(form.pools);
done:
    for (int32_t p = 0; status != WEFT_OK && p < parts; p++)
        cluster_free(part[p].cluster);
    return status;
}

/* load.c - cluster files (docs/reference/cluster-file.md): a preset or captured topology with
 * changes, or a machine written out in full.
 *
 *   I1  Everything is read through doc.h's tables: an unknown key, a wrong type or a number out of
 *       range is an error with its line.
 *   I2  The file's values replace those of the base in this order: device, node, nic, fabric,
 *       collectives, calibration. When the NIC changes, the fabric's uplinks scale with it, so that the
 *       oversubscription stays the same.
 */
#include "cluster/load.h"

#include <stddef.h>
#include <string.h>

struct cluster_form {
    const char *name, *base, *source;
    int64_t nodes;
    const struct doc *device, *node, *nic, *fabric, *collectives, *calibration;
};

static const struct field CLUSTER_FIELDS[] = {
    {"name", FIELD_TEXT, offsetof(struct cluster_form, name)},
    {"source", FIELD_LINES, offsetof(struct cluster_form, source)},
    {"base", FIELD_TEXT, offsetof(struct cluster_form, base)},
    {"nodes", FIELD_COUNT, offsetof(struct cluster_form, nodes), .min = 1,
     .max = MAX_CLUSTER_NODES},
    {"device", FIELD_DOC, offsetof(struct cluster_form, device)},
    {"node", FIELD_DOC, offsetof(struct cluster_form, node)},
    {"nic", FIELD_DOC, offsetof(struct cluster_form, nic)},
    {"fabric", FIELD_DOC, offsetof(struct cluster_form, fabric)},
    {"collectives", FIELD_DOC, offsetof(struct cluster_form, collectives)},
    {"calibration", FIELD_DOC, offsetof(struct cluster_form, calibration)},
};

/* ---- the base -------------------------------------------------------------------------------- */

weft_status error_at(const struct doc *node)
{
    char hint[512] = "";
    const weft_error *error = weft_last_error();
    if (error->hint)
        memcpy(hint, error->hint, strnlen(error->hint, sizeof hint - 1));
    return doc_error(node, *hint ? hint : NULL, "%s", error->message);
}

const char *path_beside(struct arena *keep, const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    if (*path == '/' || !slash)
        return path;
    return arena_printf(keep, "%.*s/%s", (int)(slash - file), file, path);
}

static weft_status xml_base(struct cluster *cluster, const struct doc *root,
                            const struct cluster_form *form)
{
    struct device device;
    const struct device *known = NULL;
    if (form->device && device_is_whole(form->device)) {
        weft_status status = device_read(form->device, NULL, &device);
        if (status)
            return status;
        known = &device;
    }
    char *text;
    size_t len;
    const char *path = path_beside(cluster->arena, root->file, form->base);
    if (file_read(cluster->arena, path, DOC_MAX_BYTES, &text, &len) != WEFT_OK)
        return error_at(doc_get(root, "base"));
    weft_status status = nccl_xml_read(cluster, path, text, len, known, form->nodes);
    return status == WEFT_OK ? plain_fabric(cluster, root->file, root->line) : status;
}

static weft_status read_base(struct cluster *cluster, const struct doc *root,
                             const struct cluster_form *form)
{
    const struct doc *line = doc_get(root, "base");
    if (format_of(form->base) == CLUSTER_XML)
        return xml_base(cluster, root, form);
    const struct cluster_preset *preset = cluster_preset_find(form->base);
    if (!preset) {
        unknown_preset(form->base);
        return error_at(line);
    }
    weft_status status = cluster_preset_build(cluster, preset, form->fabric ? 1 : form->nodes);
    return status ? error_at(line) : WEFT_OK;
}

/* ---- NICs and fabric ------------------------------------------------------------------------- */

static weft_status read_nic(struct cluster *cluster, const struct doc *doc)
{
    struct nic_form {
        double bandwidth;
    } form = {0};
    static const struct field FIELDS[] = {
        {"bandwidth", FIELD_RATE, offsetof(struct nic_form, bandwidth), true},
    };
    weft_status status = doc_read(doc, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &form);
    if (status)
        return status;
    if (cluster->node.nics == 0)
        return doc_error(doc, "list NICs under 'node: vertices: nic'", "the node has no NIC");
    double total = cluster->node.nics * form.bandwidth;
    for (int32_t k = 0; k < cluster->fabric.tiers; k++) /* I2 */
        cluster->fabric.tier[k].uplink_bytes_per_s *= total / cluster->node.nic_bytes_per_s;
    cluster->node.nic_bytes_per_s = total;
    return WEFT_OK;
}

struct tier_form {
    const char *name;
    int64_t nodes, latency;
    double oversubscription, uplink;
};
static const struct field TIER_FIELDS[] = {
    {"name", FIELD_TEXT, offsetof(struct tier_form, name), true},
    {"nodes", FIELD_COUNT, offsetof(struct tier_form, nodes), .min = 1, .max = MAX_CLUSTER_NODES},
    {"oversubscription", FIELD_REAL, offsetof(struct tier_form, oversubscription), .min = 0.01,
     .max = 1000},
    {"uplink", FIELD_RATE, offsetof(struct tier_form, uplink)},
    {"latency", FIELD_DURATION, offsetof(struct tier_form, latency)},
};

/* Checks a tier against the ones before it: sizes must nest (topology.h, I3). */
static weft_status check_tier(const struct doc *doc, const struct tier_form *form,
                              const struct tier_plan *plans, int32_t k)
{
    bool last = doc->next == NULL;
    for (int32_t i = 0; i < k; i++)
        if (strcmp(plans[i].name, form->name) == 0)
            return doc_error(doc, NULL, "two tiers are called '%s'", form->name);
    if (!last && form->nodes == 0)
        return doc_error(doc, "only the last tier takes all nodes",
                         "'nodes' is missing, expected how many nodes a unit of '%s' holds",
                         form->name);
    if (!last && (form->oversubscription > 0) == (form->uplink > 0))
        return doc_error(doc, "1 is a non-blocking tier",
                         "'%s' needs either 'oversubscription' or 'uplink'", form->name);
    if (last && (form->oversubscription > 0 || form->uplink > 0))
        return doc_error(doc, NULL, "'%s' is the last tier, which has no uplink", form->name);
    if (k > 0 && form->nodes > 0 &&
        (form->nodes <= plans[k - 1].nodes || form->nodes % plans[k - 1].nodes != 0))
        return doc_error(doc, "tiers go from the nodes upwards, each a few units of the one before",
                         "'%s' holds %s, expected a multiple of the %lld of '%s'", form->name,
                         counted(form->nodes, "node").s, (long long)plans[k - 1].nodes,
                         plans[k - 1].name);
    return WEFT_OK;
}

static weft_status read_tiers(const struct cluster *cluster, const struct doc *list,
                              struct tier_plan *plans, int32_t *count)
{
    if (list->kind != DOC_LIST)
        return doc_error(list, NULL, "'tiers' is %s, expected a list", doc_kind_name(list->kind));
    if (list->count == 0 || list->count > MAX_TIERS)
        return doc_error(list, NULL, "the fabric has %zu tiers, expected 1 to %d", list->count,
                         MAX_TIERS);
    *count = 0;
    for (const struct doc *item = list->first; item; item = item->next) {
        struct tier_form form = {.latency = *count ? FABRIC_TIER_NS : FABRIC_NS};
        weft_status status =
            doc_read(item, TIER_FIELDS, COUNT_OF(TIER_FIELDS), DOC_REFUSE_UNKNOWN, &form);
        if (status == WEFT_OK)
            status = check_tier(item, &form, plans, *count);
        if (status)
            return status;
        plans[(*count)++] = (struct tier_plan){form.name, form.nodes, form.oversubscription,
                                               form.uplink, form.latency};
    }
    int64_t room = plans[*count - 1].nodes;
    if (room > 0 && room < cluster->nodes)
        return doc_error(list, "leave 'nodes' out of the last tier to hold any number",
                         "the fabric holds %s and the cluster has %lld", counted(room, "node").s,
                         (long long)cluster->nodes);
    return WEFT_OK;
}

static weft_status read_fabric(struct cluster *cluster, const struct doc *doc)
{
    static const char *const KINDS[] = {"none", "switch", "rail", "fat-tree", "dragonfly", NULL};
    _Static_assert(COUNT_OF(KINDS) == FABRIC_KIND_COUNT + 1, "a fabric without a word");
    struct fabric_form {
        int kind;
        const char *source;
        const struct doc *tiers;
    } form = {.source = cluster->source};
    static const struct field FIELDS[] = {
        {"kind", FIELD_CHOICE, offsetof(struct fabric_form, kind), true, .choices = KINDS,
         .expected = "one of none, switch, rail, fat-tree, dragonfly"},
        {"source", FIELD_LINES, offsetof(struct fabric_form, source)},
        {"tiers", FIELD_DOC, offsetof(struct fabric_form, tiers)},
    };
    weft_status status = doc_read(doc, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &form);
    if (status)
        return status;
    cluster->fabric = (struct fabric){
        .kind = form.kind, .rails = form.kind == FABRIC_RAIL, .source = form.source};
    if (form.kind == FABRIC_NONE)
        return WEFT_OK;
    if (form.kind == FABRIC_SWITCH && !form.tiers)
        return plain_fabric(cluster, doc->file, doc->line);
    if (!form.tiers)
        return doc_error(doc, NULL, "'tiers' is missing, expected a list of tiers");
    struct tier_plan plans[MAX_TIERS];
    int32_t count = 0;
    status = read_tiers(cluster, form.tiers, plans, &count);
    if (status == WEFT_OK)
        fabric_build(cluster, plans, count);
    return status;
}

/* ---- measured collectives -------------------------------------------------------------------- */

struct fit_form {
    int64_t latency, step, half_size;
    double efficiency, bandwidth;
};
static const struct field FIT_FIELDS[] = {
    {"latency", FIELD_DURATION, offsetof(struct fit_form, latency)},
    {"step", FIELD_DURATION, offsetof(struct fit_form, step)},
    {"efficiency", FIELD_REAL, offsetof(struct fit_form, efficiency), .min = 1e-6, .max = 1},
    {"bandwidth", FIELD_RATE, offsetof(struct fit_form, bandwidth)},
    {"half_size", FIELD_BYTES, offsetof(struct fit_form, half_size)},
};

static weft_status read_fit(const struct doc *doc, struct collective_fit *fit)
{
    struct fit_form form = {(int64_t)fit->alpha_ns, (int64_t)fit->hop_ns, (int64_t)fit->half_bytes,
                            fit->efficiency, fit->bus_bytes_per_s};
    weft_status status = doc_read(doc, FIT_FIELDS, COUNT_OF(FIT_FIELDS), DOC_REFUSE_UNKNOWN, &form);
    if (status == WEFT_OK)
        *fit = (struct collective_fit){(double)form.latency, (double)form.step, form.efficiency,
                                       form.bandwidth, (double)form.half_size};
    return status;
}

static weft_status read_fits(const struct doc *doc, struct collective_fit *fits)
{
    const struct doc *found[COLLECTIVE_MEASURED] = {0};
    struct field fields[COLLECTIVE_MEASURED];
    for (int i = 0; i < COLLECTIVE_MEASURED; i++)
        fields[i] = (struct field){collective_name(i), FIELD_DOC, (size_t)i * sizeof found[0]};
    weft_status status = doc_read(doc, fields, COUNT_OF(fields), DOC_REFUSE_UNKNOWN, found);
    for (int i = 0; status == WEFT_OK && i < COLLECTIVE_MEASURED; i++)
        if (found[i])
            status = read_fit(found[i], &fits[i]);
    return status;
}

static weft_status read_collectives(struct cluster *cluster, const struct doc *doc)
{
    struct collectives_form {
        const struct doc *inside, *between;
    } form = {0};
    static const struct field FIELDS[] = {
        {"inside", FIELD_DOC, offsetof(struct collectives_form, inside)},
        {"between", FIELD_DOC, offsetof(struct collectives_form, between)},
    };
    weft_status status = doc_read(doc, FIELDS, COUNT_OF(FIELDS), DOC_REFUSE_UNKNOWN, &form);
    if (status == WEFT_OK && form.inside)
        status = read_fits(form.inside, cluster->fit_inside);
    if (status == WEFT_OK && form.between)
        status = read_fits(form.between, cluster->fit_between);
    return status;
}

/* ---- what runs say about it ------------------------------------------------------------------ */

static weft_status read_calibration(struct cluster *cluster, const struct doc *doc)
{
    struct field fields[PACE_COUNT];
    struct paces pace = {0};
    for (int i = 0; i < PACE_COUNT; i++)
        fields[i] = (struct field){pace_name(i), FIELD_REAL, (size_t)i * sizeof pace.of[0],
                                   .min = 0.01, .max = 100};
    weft_status status = doc_read(doc, fields, COUNT_OF(fields), DOC_REFUSE_UNKNOWN, &pace);
    if (!status)
        cluster_set_pace(cluster, &pace);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static weft_status check_parts(const struct doc *root, const struct cluster_form *form)
{
    if (form->base && form->node)
        return doc_error(form->node, "leave one of the two out",
                         "'node' describes what 'base' already has");
    if (!form->base && !form->node)
        return doc_error(root, "start from a preset with 'base: dgx-a100', or write out 'node'",
                         "has neither 'base' nor 'node'");
    if (!form->base && !form->device)
        return doc_error(root, "name one, as in 'device: A100-SXM4-80GB'", "'device' is missing");
    return WEFT_OK;
}

static weft_status read_written_out(struct cluster *cluster, const struct doc *root,
                                    const struct cluster_form *form)
{
    cluster->nodes = form->nodes ? form->nodes : 1;
    weft_status status = node_read(form->node, cluster->arena, &cluster->node);
    if (status)
        return status;
    if (cluster->node.nics > 0 && !form->nic)
        return doc_error(root, "add 'nic: {bandwidth: 100Gb/s}'",
                         "'nic' is missing, expected the bandwidth of the node's NICs");
    return WEFT_OK;
}

weft_status yaml_read(struct cluster *cluster, const struct doc *root, int64_t nodes)
{
    weft_status status;
    struct cluster_form form = {0};
    struct node_type *node = &cluster->node;
    if (root->kind != DOC_MAP)
        return doc_error(root, NULL,
                         "the file holds %s, expected a mapping such as 'base: dgx-a100'",
                         doc_kind_name(root->kind));
    TRY(doc_read(root, CLUSTER_FIELDS, COUNT_OF(CLUSTER_FIELDS), DOC_REFUSE_UNKNOWN, &form));
    TRY(check_parts(root, &form));
    form.nodes = nodes ? nodes : form.nodes;
    TRY(form.base ? read_base(cluster, root, &form) : read_written_out(cluster, root, &form));
    cluster->nodes = form.nodes ? form.nodes : cluster->nodes;
    cluster->name = form.name ? form.name : cluster->name;
    cluster->source = form.source ? form.source : cluster->source;
    node->name = node->name && !form.name ? node->name : cluster->name;
    if (form.device)
        TRY(device_read(form.device, node->device.name ? &node->device : NULL, &node->device));
    if (form.nic)
        TRY(read_nic(cluster, form.nic));
    if (form.fabric)
        TRY(read_fabric(cluster, form.fabric));
    else if (!form.base)
        TRY(plain_fabric(cluster, root->file, root->line));
    if (form.collectives)
        TRY(read_collectives(cluster, form.collectives));
    if (form.calibration)
        TRY(read_calibration(cluster, form.calibration));
    if (cluster->nodes > 1 && (cluster->fabric.kind == FABRIC_NONE || node->nics == 0))
        status = doc_error(form.fabric ? form.fabric : root,
                           "describe NICs and a fabric, or ask for one node",
                           "has %s and nothing that joins them", counted(cluster->nodes, "node").s);
done:
    return status;
}

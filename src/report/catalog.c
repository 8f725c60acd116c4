/* catalog.c - lists of models and clusters as JSON; docs/reference/json.md describes the fields. */
#include "report/report.h"

#include <string.h>

/* ---- models ---------------------------------------------------------------------------------- */

static weft_status describe(const struct preset *preset, json_t *models)
{
    struct model *model;
    weft_status status = model_open(preset->name, NULL, &model);
    if (status)
        return status;
    double parameters = model_totals(model, model->dtype).parameters;
    json_array_append_new(models, json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s}", "name",
                                            preset->name, "family", preset->family, "layers",
                                            (json_int_t)model->layers, "parameters",
                                            (json_int_t)parameters, "seq", (json_int_t)model->seq,
                                            "dtype", dtype_name(model->dtype), "options",
                                            preset->options, "source", preset->source));
    model_free(model);
    return WEFT_OK;
}

weft_status models_json(const char *family, json_t **out)
{
    const struct preset *presets;
    size_t count = model_presets(&presets);
    json_t *models = json_array();
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++)
        if (!family || strcmp(presets[i].family, family) == 0)
            status = describe(&presets[i], models);
    if (status)
        json_decref(models);
    else
        *out = json_pack("{s:o}", "models", models);
    return status;
}

/* ---- clusters -------------------------------------------------------------------------------- */

struct inside inside_of(const struct node_type *node)
{
    double rate[LINK_KIND_COUNT] = {0};
    bool switched = false;
    for (int32_t i = 0; i < node->links; i++) {
        const struct link *link = &node->link[i];
        if (link->a != 0 && link->b != 0)
            continue;
        rate[link->kind] += link->bytes_per_s;
        switched |= node->vertex[link->a + link->b].kind == VERTEX_NVSWITCH;
    }
    if (node->devices == 1)
        return (struct inside){"-", 0};
    if (rate[LINK_NVLINK] > 0)
        return (struct inside){switched ? "NVSwitch" : wire_words(&node->device)->title,
                               rate[LINK_NVLINK]};
    return rate[LINK_PCI] > 0 ? (struct inside){"PCI", rate[LINK_PCI]}
                              : (struct inside){"socket", rate[LINK_SOCKET]};
}

static json_t *list_entry(const struct cluster_preset *preset, const struct cluster *cluster)
{
    const struct node_type *node = &cluster->node;
    struct inside inside = inside_of(node);
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:s, s:I, s:s, s:f, s:i, s:f, s:s}", "name", preset->name, "summary",
        preset->summary, "source", cluster->source, "devices_per_node", node->devices, "device",
        node->device.name, "memory_bytes", (json_int_t)node->device.memory_bytes, "inside",
        inside.kind, "inside_bytes_per_s", inside.bytes_per_s, "nics", node->nics,
        "nic_bytes_per_s", node->nic_bytes_per_s, "fabric", fabric_kind_name(cluster->fabric.kind));
}

weft_status clusters_json(json_t **out)
{
    const struct cluster_preset *presets;
    size_t count = cluster_presets(&presets);
    json_t *list = json_array();
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct cluster *cluster;
        status = cluster_open(presets[i].name, &cluster);
        if (status)
            break;
        json_array_append_new(list, list_entry(&presets[i], cluster));
        cluster_free(cluster);
    }
    if (status)
        json_decref(list);
    else
        *out = json_pack("{s:o}", "clusters", list);
    return status;
}

/* model_collectives.c - the messages of tensor, data, sharded, pipeline and expert parallelism, for
 * one model on one cluster at a micro-batch of one.
 *
 * With one node as the tensor-parallel group and the nodes as data-parallel replicas:
 *   tensor    all-reduce of a layer's activations inside a node; four a layer and micro-batch
 *             (two products forward, two backward: Megatron)
 *   data      all-reduce of one device's gradients over the nodes; once an iteration
 *   sharding  all-gather of one layer's weights over all devices (ZeRO-3); twice a micro-batch
 *   pipeline  send of a layer's activations to the same device of the next node
 *   expert    all-to-all of the dispatched tokens inside a node
 */
#include "cli/model_collectives.h"

#include <string.h>

struct message {
    const char *what;
    const char *where;
    enum collective collective;
    struct group group;
    int64_t bytes;
    bool wanted;
};

enum { MESSAGES = 5 };

/* The repeat that holds most of the model's parameters: its layers. */
static const struct module *largest_repeat(const struct model *model)
{
    const struct module *best = NULL;
    double most = 0;
    for (int32_t i = 0; i < model->modules; i++) {
        const struct module *module = &model->module[i];
        double parameters = module_totals(model, i, model->dtype).parameters;
        if (module->carry_in >= 0 && parameters > most) {
            best = module;
            most = parameters;
        }
    }
    return best;
}

static const struct op *find_op(const struct model *model, enum op_kind kind)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (model->op[i].kind == kind)
            return &model->op[i];
    return NULL;
}

static void list_messages(const struct cluster *cluster, const struct model *model,
                          struct message *out)
{
    const struct module *layer = largest_repeat(model);
    const struct op *dispatch = find_op(model, OP_DISPATCH);
    int64_t inside = cluster->node.devices, nodes = cluster->nodes;
    int64_t boundary = 0;
    double bytes = dtype_bytes(model->dtype),
           parameters = model_totals(model, model->dtype).parameters;
    double layer_parameters = 0;
    if (layer) {
        int32_t index = (int32_t)(layer - model->module);
        layer_parameters =
            module_totals(model, index, model->dtype).parameters / (double)layer->repeat;
        boundary = tensor_bytes(&model->tensor[layer->carry_in], 1, model->dtype);
    }
    const struct message all[MESSAGES] = {
        {"tensor: activations of a layer", "in a node", COLLECTIVE_ALL_REDUCE,
         group_range(0, inside, 1), boundary, layer && inside > 1},
        {"data: gradients of a device", "across nodes", COLLECTIVE_ALL_REDUCE,
         group_range(0, nodes, inside), (int64_t)(parameters / (double)inside * bytes), nodes > 1},
        {"sharding: weights of a layer", "all devices", COLLECTIVE_ALL_GATHER,
         group_range(0, nodes * inside, 1), (int64_t)(layer_parameters * bytes),
         layer && nodes * inside > 1},
        {"pipeline: activations of a layer", "node to node", COLLECTIVE_SEND,
         group_range(0, 2, inside), boundary, layer && nodes > 1},
        {"expert: dispatched tokens", "in a node", COLLECTIVE_ALL_TO_ALL, group_range(0, inside, 1),
         dispatch ? tensor_bytes(&model->tensor[dispatch->output.tensor], 1, model->dtype) : 0,
         dispatch && inside > 1},
    };
    memcpy(out, all, sizeof all);
}

weft_status model_collectives_print(const struct cluster *cluster, const struct model *model)
{
    static const char *const HEADERS[] = {"what", "collective", "on",   "size",
                                          "time", "bus",        "limit"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_LEFT, ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    struct message messages[MESSAGES];
    list_messages(cluster, model, messages);
    for (int i = 0; i < MESSAGES; i++) {
        const struct message *m = &messages[i];
        struct collective_cost cost;
        if (!m->wanted)
            continue;
        TRY(collective_time(cluster, m->collective, &m->group, m->bytes, &cost));
        table_cell(table, "%s", m->what);
        table_cell(table, "%s", collective_name(m->collective));
        table_cell(table, "%s", m->where);
        table_cell(table, "%s", show_bytes((double)m->bytes).s);
        table_cell(table, "%s", show_duration((double)cost.ns).s);
        table_cell(table, "%s", show_rate(cost.bus_bytes_per_s).s);
        table_cell(table, "%s", cost.bottleneck);
    }
    printf("What %s sends, one sample at a time in %s, a node being one tensor-parallel group:\n\n",
           model->name, dtype_name(model->dtype));
    table_print(table, stdout);
done:
    arena_free(scratch);
    return status;
}

weft_status model_collectives_json(const struct cluster *cluster, const struct model *model,
                                   json_t **out)
{
    struct message messages[MESSAGES];
    json_t *list = json_array();
    list_messages(cluster, model, messages);
    for (int i = 0; i < MESSAGES; i++) {
        const struct message *m = &messages[i];
        struct collective_cost cost;
        if (!m->wanted)
            continue;
        weft_status status = collective_time(cluster, m->collective, &m->group, m->bytes, &cost);
        if (status) {
            json_decref(list);
            return status;
        }
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:s}", "what", m->what,
                            "collective", collective_name(m->collective), "on", m->where, "devices",
                            (json_int_t)group_size(&m->group), "bytes", (json_int_t)m->bytes, "ns",
                            (json_int_t)cost.ns, "bus_bytes_per_s", cost.bus_bytes_per_s,
                            "bottleneck", cost.bottleneck));
    }
    *out = list;
    return WEFT_OK;
}

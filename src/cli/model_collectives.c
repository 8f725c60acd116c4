/* model_collectives.c - the messages of tensor, data, sharded, pipeline and expert parallelism for
 * one model on one cluster, with a micro-batch of one sample.
 *
 * With one node as the tensor-parallel group and the nodes as data-parallel replicas:
 *   tensor    all-reduce of a layer's activations inside a node; four a layer and micro-batch
 *             (two products forward, two backward: Megatron)
 *   data      all-reduce of one device's gradients over the nodes; once an iteration, and all
 *             devices of a node at once
 *   sharding  all-gather of one layer's weights over all devices (ZeRO-3); twice a micro-batch
 *   pipeline  send of a layer's activations to the same device of the next node, all at once
 *   expert    all-to-all of the dispatched tokens inside a node
 *
 * Messages that are sent at the same time share links. A link is busy for the sum of the times of its
 * messages, and all wait for the busiest link:
 *
 *   slowdown = max over links of (sum over siblings of bytes / bandwidth) / the same of one alone (1)
 */
#include "cli/model_collectives.h"

#include <string.h>

struct message {
    const char *what;
    const char *where;
    enum collective collective;
    struct group group;
    int64_t bytes;
    int64_t at_once; /* how many neighbouring devices send the same at once */
    bool wanted;
};

enum { MESSAGES = 5 };

/* The repeated module that holds most of the model's parameters, which are its layers. */
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
        {"tensor: layer activations", "a node", COLLECTIVE_ALL_REDUCE, group_range(0, inside, 1),
         boundary, 1, layer && inside > 1},
        {"data: device gradients", "nodes", COLLECTIVE_ALL_REDUCE, group_range(0, nodes, inside),
         (int64_t)(parameters / (double)inside * bytes), inside, nodes > 1},
        {"sharding: layer weights", "all devices", COLLECTIVE_ALL_GATHER,
         group_range(0, nodes * inside, 1), (int64_t)(layer_parameters * bytes), 1,
         layer && nodes * inside > 1},
        {"pipeline: layer activations", "next node", COLLECTIVE_SEND, group_range(0, 2, inside),
         boundary, inside, layer && nodes > 1},
        {"expert: dispatched tokens", "a node", COLLECTIVE_ALL_TO_ALL, group_range(0, inside, 1),
         dispatch ? tensor_bytes(&model->tensor[dispatch->output.tensor], 1, model->dtype) : 0, 1,
         dispatch && inside > 1},
    };
    memcpy(out, all, sizeof all);
}

/* Adds the seconds for which each link of node 0 is busy with what the group at `first` sends. */
static weft_status add_busy(const struct cluster *cluster, const struct message *m, int64_t first,
                            struct arena *scratch, double *busy)
{
    struct traffic_list list = {0};
    struct group group = m->group;
    weft_status status;
    group.first = first;
    group.count[0] = group.count[0] < 2 ? group.count[0] : 2; /* all nodes are alike */
    TRY(collective_traffic(cluster, m->collective, &group, m->bytes, scratch, &list));
    for (size_t i = 0; i < list.len; i++) {
        struct link_id link = list.data[i].link;
        int32_t at = 2 * (link.tier < 0 ? link.link : cluster->node.links + link.link);
        if (link.unit == 0 && link.tier <= 0)
            busy[at + link.reverse] += list.data[i].bytes / link_bytes_per_s(cluster, link);
    }
done:
    return status;
}

static double busiest(const double *busy, int32_t count)
{
    double most = 0;
    for (int32_t i = 0; i < count; i++)
        most = busy[i] > most ? busy[i] : most;
    return most;
}

/* Equation (1). */
static weft_status slowdown(const struct cluster *cluster, const struct message *m, double *out)
{
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    int32_t links = 2 * (cluster->node.links + cluster->node.nics);
    double *busy = ARENA_ARRAY(scratch, double, (size_t)links), alone = 0;
    for (int64_t i = 0; i < m->at_once; i++) {
        TRY(add_busy(cluster, m, i, scratch, busy));
        if (i == 0)
            alone = busiest(busy, links);
    }
    *out = alone > 0 ? busiest(busy, links) / alone : 1;
done:
    arena_free(scratch);
    return status;
}

static weft_status message_time(const struct cluster *cluster, const struct message *m,
                                struct collective_cost *out)
{
    double slower;
    weft_status status;
    TRY(collective_time(cluster, m->collective, &m->group, m->bytes, out));
    TRY(slowdown(cluster, m, &slower));
    out->ns = (int64_t)((double)out->ns * slower);
    out->bus_bytes_per_s /= slower;
done:
    return status;
}

weft_status model_collectives_print(const struct cluster *cluster, const struct model *model)
{
    static const char *const HEADERS[] = {"what", "collective", "on",  "at once",
                                          "size", "time",       "bus", "limit"};
    static const enum align ALIGNS[] = {ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_LEFT,  ALIGN_RIGHT,
                                        ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_LEFT};
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
        TRY(message_time(cluster, m, &cost));
        table_cell(table, "%s", m->what);
        table_cell(table, "%s", collective_name(m->collective));
        table_cell(table, "%s", m->where);
        table_cell(table, "%lld", (long long)m->at_once);
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
        weft_status status = message_time(cluster, m, &cost);
        if (status) {
            json_decref(list);
            return status;
        }
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:s}", "what", m->what,
                      "collective", collective_name(m->collective), "on", m->where, "devices",
                      (json_int_t)group_size(&m->group), "at_once", (json_int_t)m->at_once, "bytes",
                      (json_int_t)m->bytes, "ns", (json_int_t)cost.ns, "bus_bytes_per_s",
                      cost.bus_bytes_per_s, "bottleneck", cost.bottleneck));
    }
    *out = list;
    return WEFT_OK;
}

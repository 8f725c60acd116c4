/* onnx_graph.c - the values of an ONNX graph, the nodes that read them, and the order of its nodes.
 *
 * Names become indices once, here. A file should list its nodes in order; if it does not, they are
 * sorted, and if they cannot be sorted, the graph has a cycle.
 */
#include "model/onnx.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(const char *text)
{
    return text ? text : "";
}

/* ---- values ---------------------------------------------------------------------------------- */

static int32_t find_value(const struct onnx_graph *graph, const char *name)
{
    int64_t index;
    return map_get(graph->names, name, &index) ? (int32_t)index : -1;
}

static int32_t add_value(struct onnx_graph *graph, const char *name, enum onnx_origin origin)
{
    int32_t index = (int32_t)graph->values.len;
    struct onnx_value value = {
        .name = name, .origin = origin, .source = index, .consumer = -1, .owner = -1, .tensor = -1};
    array_push(graph->scratch, &graph->values, value);
    map_put(graph->names, name, index);
    return index;
}

int64_t onnx_elements(const struct onnx_value *value)
{
    int64_t elements = 1;
    for (int i = 0; i < value->rank; i++)
        if (!checked_mul(elements, value->dim[i], &elements))
            return INT64_MAX;
    return elements;
}

bool onnx_fits(int rank, const int64_t *dim)
{
    int64_t elements = 1;
    for (int i = 0; i < rank; i++)
        if (!checked_mul(elements, dim[i] > 0 ? dim[i] : 1, &elements) || elements > INT64_C(1)
                                                                                         << 50)
            return false;
    return true;
}

bool onnx_is_float(int type)
{
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

static weft_status set_shape(const struct onnx_graph *graph, struct onnx_value *value, size_t rank,
                             const int64_t *dim)
{
    if (rank > ONNX_MAX_RANK)
        return bad_input(graph->file, 0, NULL, "'%.80s' has %zu axes, expected at most %d",
                         value->name, rank, ONNX_MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        if (dim[i] < 0 || dim[i] > ONNX_MAX_DIM)
            return bad_input(graph->file, 0, NULL,
                             "axis %zu of '%.80s' is %lld, expected 0 to 2^40", i, value->name,
                             (long long)dim[i]);
        value->dim[i] = dim[i];
    }
    if (!onnx_fits((int)rank, dim))
        return bad_input(graph->file, 0, NULL,
                         "'%.80s' has more than 2^50 elements, expected fewer", value->name);
    value->rank = (int)rank;
    value->known = value->declared = true;
    return WEFT_OK;
}

static weft_status add_initializer(struct onnx_graph *graph, const Onnx__TensorProto *tensor)
{
    const char *name = text_of(tensor->name);
    if (find_value(graph, name) >= 0)
        return bad_input(graph->file, 0, NULL, "'%.80s' is initialized twice", name);
    int32_t index = add_value(graph, name, ORIGIN_WEIGHT);
    struct onnx_value *value = &graph->values.data[index];
    weft_status status = set_shape(graph, value, tensor->n_dims, tensor->dims);
    if (status)
        return status;
    value->type = tensor->data_type;
    value->constant = onnx_tensor_values(graph->scratch, tensor);
    if (!onnx_is_float(value->type) || onnx_elements(value) <= 1)
        value->origin = ORIGIN_FOLDED; /* an index or a factor is not a parameter */
    return WEFT_OK;
}

/* ---- declared shapes ------------------------------------------------------------------------- */

struct symbols {
    const struct doc *given; /* sizes that the user gives */
    struct map *met;         /* symbolic dims that occur in the graph */
    ARRAY(const char *) names;
};

static weft_status symbol_size(struct symbols *symbols, struct arena *scratch, const char *name,
                               int64_t *size)
{
    const struct doc *given = doc_get(symbols->given, name);
    if (*name && map_put(symbols->met, name, 1))
        array_push(scratch, &symbols->names, name);
    return given ? doc_scalar(given, FIELD_COUNT, size) : WEFT_OK;
}

/* A symbolic leading dim is the batch and counts as 1 per sample, as does any other dim without a
 * size. */
static weft_status declared_dim(struct onnx_graph *graph, struct symbols *symbols,
                                const Onnx__TensorShapeProto__Dimension *dim, int64_t *size,
                                bool *symbolic)
{
    *symbolic = dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    *size = *symbolic ? 1 : dim->dim_value;
    if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
        return symbol_size(symbols, graph->scratch, text_of(dim->dim_param), size);
    return WEFT_OK;
}

static const Onnx__TypeProto__Tensor *tensor_type(const Onnx__ValueInfoProto *info)
{
    bool tensor = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    return tensor ? info->type->tensor_type : NULL;
}

static void warn_unsized(struct onnx_graph *graph, const char *name, size_t axis,
                         const char *symbol)
{
    const char *text =
        arena_printf(graph->b->arena, "axis %zu of input '%.80s' has no size and counts as 1%s%s%s",
                     axis, name, *symbol ? "; give it with '" : "", symbol, *symbol ? ": N'" : "");
    onnx_warn(graph, text);
}

static weft_status read_info(struct onnx_graph *graph, struct symbols *symbols,
                             const Onnx__ValueInfoProto *info, int32_t index)
{
    const Onnx__TypeProto__Tensor *type = tensor_type(info);
    struct onnx_value *value = &graph->values.data[index];
    int64_t dim[ONNX_MAX_RANK + 1];
    if (!type)
        return WEFT_OK;
    value->type = type->elem_type;
    if (!type->shape)
        return WEFT_OK;
    size_t rank = type->shape->n_dim;
    bool exact = true;
    for (size_t i = 0; i < rank && i <= ONNX_MAX_RANK; i++) {
        const Onnx__TensorShapeProto__Dimension *d = type->shape->dim[i];
        bool symbolic;
        weft_status status = declared_dim(graph, symbols, d, &dim[i], &symbolic);
        if (status)
            return status;
        const char *symbol = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                 ? text_of(d->dim_param)
                                 : "";
        exact &= !symbolic;
        if (symbolic && i > 0 && value->origin == ORIGIN_INPUT && !doc_get(symbols->given, symbol))
            warn_unsized(graph, value->name, i, symbol);
    }
    weft_status status = set_shape(graph, value, rank, dim);
    value->declared = exact || value->origin == ORIGIN_INPUT;
    value->known = value->origin == ORIGIN_INPUT;
    return status;
}

static weft_status add_inputs(struct onnx_graph *graph, struct symbols *symbols)
{
    for (size_t i = 0; i < graph->proto->n_input; i++) {
        const Onnx__ValueInfoProto *info = graph->proto->input[i];
        const char *name = text_of(info->name);
        int32_t older = find_value(graph, name);
        if (older >= 0 && graph->values.data[older].origin == ORIGIN_INPUT)
            return bad_input(graph->file, 0, NULL, "has the input '%.80s' twice", name);
        if (older >= 0)
            continue; /* an initializer, which old files also list as an input */
        weft_status status = read_info(graph, symbols, info, add_value(graph, name, ORIGIN_INPUT));
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* Shapes that the file declares for the outputs of nodes, for use where inference has no answer. */
static weft_status read_infos(struct onnx_graph *graph, struct symbols *symbols,
                              Onnx__ValueInfoProto *const *infos, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t index = find_value(graph, text_of(infos[i]->name));
        if (index < 0 || graph->values.data[index].origin != ORIGIN_NODE)
            continue;
        weft_status status = read_info(graph, symbols, infos[i], index);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status check_overrides(const struct onnx_graph *graph, const struct symbols *symbols)
{
    int64_t met;
    (void)graph;
    for (const struct doc *d = symbols->given ? symbols->given->first : NULL; d; d = d->next) {
        if (map_get(symbols->met, d->key, &met))
            continue;
        weft_status status =
            doc_error(d, NULL, "'%s' is not a symbolic dim of this graph, expected one of its %zu",
                      d->key, symbols->names.len);
        hint_near(nearest_word(d->key, symbols->names.data, symbols->names.len));
        return status;
    }
    return WEFT_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static weft_status add_node_outputs(struct onnx_graph *graph)
{
    const Onnx__GraphProto *proto = graph->proto;
    ARRAY(int32_t) all = {0};
    graph->first_output = ARENA_ARRAY(graph->scratch, int32_t, proto->n_node + 1);
    for (size_t i = 0; i < proto->n_node; i++) {
        for (size_t k = 0; k < proto->node[i]->n_output; k++) {
            const char *name = text_of(proto->node[i]->output[k]);
            if (*name && find_value(graph, name) >= 0)
                return bad_input(graph->file, 0, "give every output its own name",
                                 "'%.80s' is made twice, again by node %zu (%.40s)", name, i,
                                 text_of(proto->node[i]->op_type));
            array_push(graph->scratch, &all, *name ? add_value(graph, name, ORIGIN_NODE) : -1);
        }
        graph->first_output[i + 1] = (int32_t)all.len;
    }
    array_push(graph->scratch, &all, -1); /* so that the list exists even without any output */
    graph->node_outputs = all.data;
    return WEFT_OK;
}

static weft_status missing_input(const struct onnx_graph *graph, size_t node, const char *name)
{
    ARRAY(const char *) names = {0};
    for (size_t i = 0; i < graph->values.len && i < 1000; i++)
        array_push(graph->scratch, &names, graph->values.data[i].name);
    weft_status status =
        bad_input(graph->file, 0, NULL,
                  "node %zu (%.40s) reads '%.80s', which nothing makes: expected a graph input, an "
                  "initializer or another node's output",
                  node, text_of(graph->proto->node[node]->op_type), name);
    hint_near(nearest_word(name, names.data, names.len));
    return status;
}

static weft_status connect_inputs(struct onnx_graph *graph)
{
    const Onnx__GraphProto *proto = graph->proto;
    ARRAY(int32_t) all = {0};
    graph->first_input = ARENA_ARRAY(graph->scratch, int32_t, proto->n_node + 1);
    for (size_t i = 0; i < proto->n_node; i++) {
        for (size_t k = 0; k < proto->node[i]->n_input; k++) {
            const char *name = text_of(proto->node[i]->input[k]);
            int32_t index = *name ? find_value(graph, name) : -1;
            if (*name && index < 0)
                return missing_input(graph, i, name);
            if (index >= 0) {
                graph->values.data[index].uses++;
                graph->values.data[index].consumer = (int32_t)i;
            }
            array_push(graph->scratch, &all, index);
        }
        graph->first_input[i + 1] = (int32_t)all.len;
    }
    array_push(graph->scratch, &all, -1);
    graph->node_inputs = all.data;
    for (size_t i = 0; i < proto->n_output; i++) {
        int32_t index = find_value(graph, text_of(proto->output[i]->name));
        if (index >= 0)
            graph->values.data[index].result = true;
    }
    return WEFT_OK;
}

struct onnx_node onnx_node_at(struct onnx_graph *graph, int32_t index)
{
    int32_t in = graph->first_input[index], out = graph->first_output[index];
    return (struct onnx_node){.graph = graph,
                              .proto = graph->proto->node[index],
                              .index = index,
                              .inputs = graph->first_input[index + 1] - in,
                              .outputs = graph->first_output[index + 1] - out,
                              .in = graph->node_inputs + in,
                              .out = graph->node_outputs + out};
}

/* Whether all inputs of a node have been made. */
static bool is_ready(struct onnx_graph *graph, int32_t index, const bool *made)
{
    struct onnx_node node = onnx_node_at(graph, index);
    for (int i = 0; i < node.inputs; i++)
        if (node.in[i] >= 0 && !made[node.in[i]])
            return false;
    return true;
}

static void mark_made(struct onnx_graph *graph, int32_t index, bool *made)
{
    struct onnx_node node = onnx_node_at(graph, index);
    for (int i = 0; i < node.outputs; i++)
        if (node.out[i] >= 0)
            made[node.out[i]] = true;
}

/* The nodes that read each value, as one list with a start per value. */
struct readers {
    int32_t *start, *node;
};

static struct readers list_readers(struct onnx_graph *graph, int32_t nodes)
{
    size_t values = graph->values.len, edges = (size_t)graph->first_input[nodes];
    struct readers readers = {ARENA_ARRAY(graph->scratch, int32_t, values + 2),
                              ARENA_ARRAY(graph->scratch, int32_t, edges + 1)};
    for (size_t e = 0; e < edges; e++)
        if (graph->node_inputs[e] >= 0)
            readers.start[graph->node_inputs[e] + 2]++;
    for (size_t v = 2; v < values + 2; v++)
        readers.start[v] += readers.start[v - 1];
    for (int32_t n = 0; n < nodes; n++)
        for (int32_t e = graph->first_input[n]; e < graph->first_input[n + 1]; e++)
            if (graph->node_inputs[e] >= 0)
                readers.node[readers.start[graph->node_inputs[e] + 1]++] = n;
    return readers;
}

/* Kahn's algorithm. `waits` counts, per node, the inputs that have not been made yet. */
static int32_t sort_nodes(struct onnx_graph *graph, int32_t nodes, int32_t *order)
{
    struct readers readers = list_readers(graph, nodes);
    int32_t *waits = ARENA_ARRAY(graph->scratch, int32_t, (size_t)nodes + 1), sorted = 0;
    for (int32_t n = 0; n < nodes; n++) {
        for (int32_t e = graph->first_input[n]; e < graph->first_input[n + 1]; e++) {
            int32_t value = graph->node_inputs[e];
            waits[n] += value >= 0 && graph->values.data[value].origin == ORIGIN_NODE;
        }
        if (waits[n] == 0)
            order[sorted++] = n;
    }
    for (int32_t next = 0; next < sorted; next++) {
        struct onnx_node node = onnx_node_at(graph, order[next]);
        for (int i = 0; i < node.outputs; i++) {
            int32_t value = node.out[i];
            for (int32_t r = value < 0 ? 0 : readers.start[value];
                 value >= 0 && r < readers.start[value + 1]; r++)
                if (--waits[readers.node[r]] == 0)
                    order[sorted++] = readers.node[r];
        }
    }
    return sorted;
}

static weft_status order_nodes(struct onnx_graph *graph, int32_t **out)
{
    int32_t nodes = (int32_t)graph->proto->n_node, ready = 0;
    bool *made = ARENA_ARRAY(graph->scratch, bool, graph->values.len + 1);
    *out = ARENA_ARRAY(graph->scratch, int32_t, (size_t)nodes + 1);
    for (size_t v = 0; v < graph->values.len; v++)
        made[v] = graph->values.data[v].origin != ORIGIN_NODE;
    for (; ready < nodes && is_ready(graph, ready, made); ready++) {
        mark_made(graph, ready, made);
        (*out)[ready] = ready;
    }
    if (ready == nodes || sort_nodes(graph, nodes, *out) == nodes)
        return WEFT_OK;
    struct onnx_node node = onnx_node_at(graph, ready);
    return onnx_error(&node, "a graph's nodes must not depend on their own outputs",
                      "is part of a cycle, or after one");
}

weft_status onnx_graph_open(struct onnx_graph *graph, const Onnx__ModelProto *model,
                            const struct doc *overrides, int32_t **order)
{
    weft_status status = WEFT_OK;
    const Onnx__GraphProto *proto = model->graph;
    struct symbols symbols = {.given = overrides, .met = map_new(graph->scratch)};
    graph->proto = proto;
    graph->names = map_new(graph->scratch);
    if (proto->n_node == 0)
        return bad_input(graph->file, 0, NULL, "has no nodes, expected at least one");
    if (proto->n_node > ONNX_MAX_NODES)
        return bad_input(graph->file, 0, NULL, "has %zu nodes, expected at most %d", proto->n_node,
                         ONNX_MAX_NODES);
    graph->fused = ARENA_ARRAY(graph->scratch, bool, proto->n_node);
    for (size_t i = 0; i < proto->n_initializer; i++)
        TRY(add_initializer(graph, proto->initializer[i]));
    TRY(add_inputs(graph, &symbols));
    TRY(add_node_outputs(graph));
    TRY(read_infos(graph, &symbols, proto->value_info, proto->n_value_info));
    TRY(read_infos(graph, &symbols, proto->output, proto->n_output));
    TRY(check_overrides(graph, &symbols));
    TRY(connect_inputs(graph));
    TRY(order_nodes(graph, order));
done:
    return status;
}

/* ---- asking a node --------------------------------------------------------------------------- */

struct onnx_value *onnx_in(const struct onnx_node *node, int i)
{
    return i < node->inputs && node->in[i] >= 0 ? &node->graph->values.data[node->in[i]] : NULL;
}

struct onnx_value *onnx_out(const struct onnx_node *node, int i)
{
    return i < node->outputs && node->out[i] >= 0 ? &node->graph->values.data[node->out[i]] : NULL;
}

bool onnx_is(const struct onnx_node *node, const char *types)
{
    const char *domain = text_of(node->proto->domain), *type = text_of(node->proto->op_type);
    size_t len = strlen(type);
    if (*domain && strcmp(domain, "ai.onnx") != 0)
        return false;
    for (const char *at = types; len && (at = strstr(at, type)); at += len)
        if ((at == types || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

const char *onnx_node_name(const struct onnx_node *node)
{
    const char *name = text_of(node->proto->name);
    for (int i = 0; !*name && i < node->outputs; i++)
        if (onnx_out(node, i))
            name = onnx_out(node, i)->name;
    return *name ? name : "node";
}

weft_status onnx_error(const struct onnx_node *node, const char *hint, const char *fmt, ...)
{
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return bad_input(node->graph->file, 0, hint, "node %d '%.80s' (%.40s) %s", node->index,
                     onnx_node_name(node), text_of(node->proto->op_type), what);
}

const Onnx__AttributeProto *onnx_attribute(const struct onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++)
        if (strcmp(text_of(node->proto->attribute[i]->name), name) == 0)
            return node->proto->attribute[i];
    return NULL;
}

int64_t onnx_int(const struct onnx_node *node, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    return attribute && attribute->has_i ? attribute->i : otherwise;
}

int onnx_ints(const struct onnx_node *node, const char *name, int64_t *out, int most)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);
    if (!attribute)
        return -1;
    int count = attribute->n_ints < (size_t)most ? (int)attribute->n_ints : most;
    if (count)
        memcpy(out, attribute->ints, sizeof *out * (size_t)count);
    return count;
}

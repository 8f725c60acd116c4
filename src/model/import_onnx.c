/* import_onnx.c - an ONNX file as a model: modules from the nodes' names, then node by node.
 *
 * PyTorch names a node after its module, "/layer1/layer1.0/conv1/Conv"; those paths become the
 * module tree (layer1.0.conv1). Other names become operators of the root.
 */
#include "model/import.h"
#include "model/onnx.h"

#include <stdio.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* `name`, or name_2, name_3 where the path is taken. */
static const char *unique(struct onnx_graph *graph, const char *path, const char *name)
{
    int64_t taken = 0;
    const char *full = arena_printf(graph->scratch, "%.400s/%.100s", path, name);
    map_get(graph->paths, full, &taken);
    map_put(graph->paths, full, taken + 1);
    if (taken == 0)
        return arena_printf(graph->scratch, "%.100s", name);
    return arena_printf(graph->scratch, "%.100s_%lld", name, (long long)taken + 1);
}

/* "layer1.0" within "layer1" becomes "0". */
static const char *short_name(const char *component, const char *parent)
{
    size_t len = strlen(parent);
    bool repeats = len && strncmp(component, parent, len) == 0 && component[len] == '.';
    return repeats && component[len + 1] ? component + len + 1 : component;
}

static void leave_to(struct onnx_graph *graph, size_t depth)
{
    while (graph->modules.len > depth) {
        build_module_end(graph->b);
        graph->modules.len--;
    }
}

static const char *joined_path(struct onnx_graph *graph)
{
    const char *path = "";
    for (size_t i = 0; i < graph->modules.len; i++)
        path = arena_printf(graph->scratch, "%.400s/%.100s", path, graph->modules.data[i].opened);
    return path;
}

/* The components of a PyTorch path without the last; 0 for any other name. */
static size_t split_path(struct onnx_graph *graph, const char *name, const char **parts,
                         size_t most, const char **last)
{
    size_t count = 0;
    *last = name;
    if (*name != '/')
        return 0;
    for (const char *at = name + 1; count < most; at += strcspn(at, "/") + 1) {
        size_t len = strcspn(at, "/");
        *last = at;
        if (at[len] == '\0')
            break;
        parts[count++] = arena_copy_bytes(graph->scratch, at, len);
    }
    return count;
}

const char *onnx_enter(const struct onnx_node *node)
{
    enum { DEEPEST = 24 };
    struct onnx_graph *graph = node->graph;
    const char *parts[DEEPEST], *last;
    size_t count = split_path(graph, onnx_node_name(node), parts, DEEPEST, &last), same = 0;
    while (same < count && same < graph->modules.len &&
           strcmp(parts[same], graph->modules.data[same].component) == 0)
        same++;
    leave_to(graph, same);
    for (size_t i = same; i < count; i++) {
        const char *name = short_name(parts[i], i ? parts[i - 1] : "");
        const char *opened = unique(graph, joined_path(graph), *name ? name : "module");
        struct onnx_module module = {parts[i], opened};
        build_module(graph->b, opened);
        array_push(graph->scratch, &graph->modules, module);
    }
    return unique(graph, joined_path(graph), *last ? last : "node");
}

/* ---- the model ------------------------------------------------------------------------------- */

void onnx_warn(struct onnx_graph *graph, const char *text)
{
    size_t count = graph->b->model->warnings.len;
    if (count < ONNX_MAX_WARNINGS)
        array_push(graph->b->arena, &graph->b->model->warnings, text);
    else if (count == ONNX_MAX_WARNINGS)
        array_push(graph->b->arena, &graph->b->model->warnings, "and more warnings like these");
}

/* The leading dim of the first input, or 1 if it is symbolic. */
static void set_batch(struct onnx_graph *graph)
{
    graph->batch = 1;
    for (size_t i = 0; i < graph->values.len; i++) {
        const struct onnx_value *value = &graph->values.data[i];
        if (value->origin != ORIGIN_INPUT)
            continue;
        if (value->known && value->rank >= 2 && value->dim[0] > 1)
            graph->batch = value->dim[0];
        if (graph->batch > 1)
            onnx_warn(graph,
                      arena_printf(graph->b->arena,
                                   "input '%.80s' has a leading dim of %lld, taken as the batch",
                                   value->name, (long long)graph->batch));
        return;
    }
}

/* Tokens per sample, from an input of ids (batch, seq). */
static int64_t sequence_length(const struct onnx_graph *graph)
{
    for (size_t i = 0; i < graph->values.len; i++) {
        const struct onnx_value *value = &graph->values.data[i];
        if (value->origin == ORIGIN_INPUT)
            return value->rank == 2 && value->type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 &&
                           value->dim[1] > 0
                       ? value->dim[1]
                       : 1;
    }
    return 1;
}

static enum dtype usual_dtype(const struct onnx_graph *graph)
{
    for (size_t i = 0; i < graph->values.len; i++) {
        const struct onnx_value *value = &graph->values.data[i];
        if (value->origin != ORIGIN_WEIGHT)
            continue;
        return value->type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16    ? DTYPE_FP16
               : value->type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 ? DTYPE_BF16
                                                                        : DTYPE_FP32;
    }
    return DTYPE_FP32;
}

/* Counts the operators with matrices of weights, as names such as ResNet-50 do. */
static int64_t count_layers(const struct builder *b)
{
    int64_t layers = 0;
    for (size_t i = 0; i < b->ops.len; i++)
        layers += b->ops.data[i].weights > 0 && b->ops.data[i].weight[0].operand.axes > 1;
    return layers;
}

static void report_opaque(struct onnx_graph *graph)
{
    for (size_t i = 0; i < graph->opaque_types.len; i++) {
        int64_t count = 0;
        const char *type = graph->opaque_types.data[i];
        map_get(graph->opaque, type, &count);
        onnx_warn(graph,
                  arena_printf(graph->b->arena, "%lld operator%s of type %.60s carried as opaque",
                               (long long)count, count == 1 ? "" : "s", *type ? type : "''"));
    }
    if (graph->unknown_sizes)
        onnx_warn(graph, arena_printf(graph->b->arena,
                                      "%lld tensor%s of unknown size counted as one element",
                                      (long long)graph->unknown_sizes,
                                      graph->unknown_sizes == 1 ? "" : "s"));
}

static int64_t opset_of(const Onnx__ModelProto *model)
{
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = model->opset_import[i];
        if (!set->domain || !*set->domain || strcmp(set->domain, "ai.onnx") == 0)
            return set->version;
    }
    return 1;
}

static weft_status walk(struct onnx_graph *graph, const int32_t *order)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < graph->proto->n_node; i++) {
        struct onnx_node node = onnx_node_at(graph, order[i]);
        TRY(onnx_infer(&node));
        onnx_fold(&node);
        if (!graph->fused[node.index])
            TRY(onnx_emit(&node));
    }
done:
    return status;
}

/* The file's name without folders and extension. */
static const char *model_name(struct arena *scratch, const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    return arena_copy_bytes(scratch, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

weft_status import_onnx(const char *file, const void *bytes, size_t len,
                        const struct doc *overrides, struct model **out)
{
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    struct onnx_graph graph = {.file = file, .scratch = scratch, .batch = 1};
    Onnx__ModelProto *model;
    int32_t *order;
    TRY(onnx_read(scratch, file, bytes, len, &model));
    graph.b = build_start(model_name(scratch, file), "onnx", file);
    graph.b->where = &(struct doc){.file = file};
    graph.opaque = map_new(scratch);
    graph.paths = map_new(scratch);
    graph.opset = opset_of(model);
    TRY(onnx_graph_open(&graph, model, overrides, &order));
    set_batch(&graph);
    TRY(walk(&graph, order));
    leave_to(&graph, 0);
    graph.b->model->seq = sequence_length(&graph);
    graph.b->model->layers = count_layers(graph.b);
    graph.b->model->dtype = usual_dtype(&graph);
    report_opaque(&graph);
    struct builder *b = graph.b;
    graph.b = NULL; /* build_finish frees it on error */
    TRY(build_finish(b, out));
done:
    if (graph.b)
        build_abandon(graph.b);
    arena_free(scratch);
    return status;
}

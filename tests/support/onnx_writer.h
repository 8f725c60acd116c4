/* onnx_writer.h - small ONNX graphs for tests, written as protobuf structs and packed.
 *
 * Weights have shapes and no values, as with external data. Names are blank-separated: "x w b". */
#ifndef WEFT_TESTS_ONNX_WRITER_H
#define WEFT_TESTS_ONNX_WRITER_H

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "onnx.pb-c.h"

struct writer {
    struct arena *arena;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset, *opsets[1];
    ARRAY(Onnx__NodeProto *) nodes;
    ARRAY(Onnx__ValueInfoProto *) inputs, outputs;
    ARRAY(Onnx__TensorProto *) weights;
};

static inline void writer_start(struct writer *w, int64_t opset)
{
    *w = (struct writer){.arena = arena_new()};
    onnx__model_proto__init(&w->model);
    onnx__graph_proto__init(&w->graph);
    onnx__operator_set_id_proto__init(&w->opset);
    w->model.has_ir_version = true;
    w->model.ir_version = 8;
    w->opset.has_version = true;
    w->opset.version = opset;
    w->opsets[0] = &w->opset;
    w->model.n_opset_import = 1;
    w->model.opset_import = w->opsets;
    w->model.graph = &w->graph;
}

static inline char *writer_text(struct writer *w, const char *text)
{
    return arena_copy_text(w->arena, text);
}

/* A dim below 0 is symbolic and called `symbol`. */
static inline Onnx__ValueInfoProto *writer_info(struct writer *w, const char *name, int type,
                                                int rank, const int64_t *dims, const char *symbol)
{
    Onnx__ValueInfoProto *info = ARENA_NEW(w->arena, Onnx__ValueInfoProto);
    Onnx__TypeProto *outer = ARENA_NEW(w->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = ARENA_NEW(w->arena, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *shape = ARENA_NEW(w->arena, Onnx__TensorShapeProto);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(outer);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    info->name = writer_text(w, name);
    info->type = outer;
    outer->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    outer->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = type;
    tensor->shape = shape;
    shape->n_dim = (size_t)rank;
    shape->dim = ARENA_ARRAY(w->arena, Onnx__TensorShapeProto__Dimension *, (size_t)rank + 1);
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *d =
            ARENA_NEW(w->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = dims[i] < 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                    : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (dims[i] < 0)
            d->dim_param = writer_text(w, symbol);
        else
            d->dim_value = dims[i];
        shape->dim[i] = d;
    }
    return info;
}

static inline void writer_input(struct writer *w, const char *name, int type, int rank,
                                const int64_t *dims, const char *symbol)
{
    array_push(w->arena, &w->inputs, writer_info(w, name, type, rank, dims, symbol));
}

static inline void writer_output(struct writer *w, const char *name)
{
    Onnx__ValueInfoProto *info = ARENA_NEW(w->arena, Onnx__ValueInfoProto);
    onnx__value_info_proto__init(info);
    info->name = writer_text(w, name);
    array_push(w->arena, &w->outputs, info);
}

static inline Onnx__TensorProto *writer_weight(struct writer *w, const char *name, int rank,
                                               const int64_t *dims)
{
    Onnx__TensorProto *tensor = ARENA_NEW(w->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(tensor);
    tensor->name = writer_text(w, name);
    tensor->n_dims = (size_t)rank;
    tensor->dims = ARENA_ARRAY(w->arena, int64_t, (size_t)rank + 1);
    memcpy(tensor->dims, dims, sizeof *dims * (size_t)rank);
    tensor->has_data_type = true;
    tensor->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    tensor->has_data_location = true;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    array_push(w->arena, &w->weights, tensor);
    return tensor;
}

/* A vector of whole numbers, with its values. */
static inline void writer_numbers(struct writer *w, const char *name, int count,
                                  const int64_t *values)
{
    Onnx__TensorProto *tensor = writer_weight(w, name, 1, (int64_t[]){count});
    tensor->has_data_location = false;
    tensor->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    tensor->n_int64_data = (size_t)count;
    tensor->int64_data = ARENA_ARRAY(w->arena, int64_t, (size_t)count + 1);
    memcpy(tensor->int64_data, values, sizeof *values * (size_t)count);
}

static inline size_t writer_words(struct writer *w, const char *words, char ***out)
{
    ARRAY(char *) all = {0};
    char *copy = writer_text(w, words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        array_push(w->arena, &all, word);
    *out = all.data;
    return all.len;
}

static inline Onnx__NodeProto *writer_node(struct writer *w, const char *type, const char *name,
                                           const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = ARENA_NEW(w->arena, Onnx__NodeProto);
    onnx__node_proto__init(node);
    node->op_type = writer_text(w, type);
    node->name = writer_text(w, name);
    node->n_input = writer_words(w, inputs, &node->input);
    node->n_output = writer_words(w, outputs, &node->output);
    array_push(w->arena, &w->nodes, node);
    return node;
}

static inline Onnx__AttributeProto *writer_attribute(struct writer *w, Onnx__NodeProto *node,
                                                     const char *name)
{
    Onnx__AttributeProto *attribute = ARENA_NEW(w->arena, Onnx__AttributeProto);
    Onnx__AttributeProto **all =
        ARENA_ARRAY(w->arena, Onnx__AttributeProto *, node->n_attribute + 1);
    onnx__attribute_proto__init(attribute);
    attribute->name = writer_text(w, name);
    if (node->n_attribute)
        memcpy(all, node->attribute, sizeof *all * node->n_attribute);
    all[node->n_attribute++] = attribute;
    node->attribute = all;
    return attribute;
}

static inline void writer_int(struct writer *w, Onnx__NodeProto *node, const char *name,
                              int64_t value)
{
    Onnx__AttributeProto *attribute = writer_attribute(w, node, name);
    attribute->has_i = true;
    attribute->i = value;
}

static inline void writer_ints(struct writer *w, Onnx__NodeProto *node, const char *name, int count,
                               const int64_t *values)
{
    Onnx__AttributeProto *attribute = writer_attribute(w, node, name);
    attribute->n_ints = (size_t)count;
    attribute->ints = ARENA_ARRAY(w->arena, int64_t, (size_t)count + 1);
    memcpy(attribute->ints, values, sizeof *values * (size_t)count);
}

/* The packed model; in the writer's arena. */
static inline uint8_t *writer_pack(struct writer *w, size_t *len)
{
    w->graph.n_node = w->nodes.len;
    w->graph.node = w->nodes.data;
    w->graph.n_input = w->inputs.len;
    w->graph.input = w->inputs.data;
    w->graph.n_output = w->outputs.len;
    w->graph.output = w->outputs.data;
    w->graph.n_initializer = w->weights.len;
    w->graph.initializer = w->weights.data;
    *len = onnx__model_proto__get_packed_size(&w->model);
    uint8_t *bytes = arena_alloc(w->arena, *len + 1, 1);
    onnx__model_proto__pack(&w->model, bytes);
    return bytes;
}

static inline void writer_end(struct writer *w)
{
    arena_free(w->arena);
}

#endif

/* onnx.h - an ONNX graph on its way to a model; private to the onnx_*.c files.
 *
 *   bytes --onnx_read--> ModelProto --graph--> values and ordered nodes --infer--> shapes
 *         --emit--> operators of a builder
 *
 *   I1  Weights are never needed: onnx_read drops the payload of every large tensor, so a file of
 *       gigabytes is read in the memory of its graph.
 *   I2  Every name is one value with one producer: a node, a graph input or an initializer.
 *   I3  Nodes are handled in an order in which producers precede consumers.
 *   I4  Shapes are inferred with the graph's own leading dim; what is emitted is per sample, that is
 *       divided by it (`batch`).
 *   I5  Nothing is dropped silently: what has no kind in Weft is emitted as opaque, with a warning.
 */
#ifndef WEFT_MODEL_ONNX_H
#define WEFT_MODEL_ONNX_H

#include "model/builder.h"
#include "onnx.pb-c.h"

enum {
    ONNX_MAX_RANK = 12,
    ONNX_MAX_NODES = 200000,
    ONNX_MAX_WARNINGS = 100,
    ONNX_MAX_CONSTANT = 1024,    /* elements of a tensor that shape computations may read */
    ONNX_MAX_MESSAGES = 2000000, /* protobuf messages: a few hundred bytes each, once unpacked */
    ONNX_MAX_DEPTH = 48          /* nested messages: eight levels of subgraphs */
};
#define ONNX_MAX_BYTES (INT64_C(2) << 30) /* protobuf's own limit */
#define ONNX_MAX_DIM   (INT64_C(1) << 40)

enum onnx_origin {
    ORIGIN_NODE,
    /* an input of the graph: data, or a weight that was exported without its values */
    ORIGIN_INPUT,
    ORIGIN_WEIGHT, /* an initializer, or a rearrangement of one */
    ORIGIN_FOLDED  /* a constant, or computed from constants and shapes */
};

struct onnx_value {
    const char *name;
    enum onnx_origin origin;
    int type;   /* ONNX's data type; 0 unknown */
    bool known; /* whether its shape is known */
    int rank;
    int64_t dim[ONNX_MAX_RANK];
    double *constant; /* its elements, if they are few and known; NULL otherwise */
    int32_t source;   /* ORIGIN_WEIGHT: the initializer's value; otherwise the value itself */
    int32_t uses;
    int32_t consumer; /* the last node that reads it, or -1 */
    int32_t owner;    /* the operator that owns this weight, or -1 */
    int tensor;       /* the builder's tensor, or -1 */
    bool declared;    /* the file states its shape */
    bool result;      /* an output of the graph */
};

struct onnx_module {
    const char *component; /* of the node's name */
    const char *opened;    /* the module's unique name */
};

struct onnx_graph {
    const char *file;
    struct arena *scratch;
    const Onnx__GraphProto *proto;
    struct map *names; /* name -> index of a value */
    ARRAY(struct onnx_value) values;
    int64_t opset;
    int64_t batch; /* the graph's own leading dim (I4) */
    struct builder *b;
    int32_t *node_inputs, *first_input; /* values that each node reads; -1 for an absent one */
    int32_t *node_outputs, *first_output;
    bool *fused;                       /* nodes that were merged into another one */
    struct map *opaque;                /* type -> number of opaque nodes */
    struct map *paths;                 /* module and operator paths in use */
    ARRAY(struct onnx_module) modules; /* the modules that are open */
    ARRAY(const char *) opaque_types;
    int64_t unknown_sizes;
};

/* One node, with its inputs and outputs. */
struct onnx_node {
    struct onnx_graph *graph;
    const Onnx__NodeProto *proto;
    int32_t index;
    int inputs, outputs;
    const int32_t *in, *out;
};

/* ---- onnx_read.c ----------------------------------------------------------------------------- */

weft_status onnx_read(struct arena *scratch, const char *file, const void *bytes, size_t len,
                      Onnx__ModelProto **out);

/* ---- onnx_graph.c ---------------------------------------------------------------------------- */

/* Values, consumers, and the order of nodes (I2, I3). */
weft_status onnx_graph_open(struct onnx_graph *graph, const Onnx__ModelProto *model,
                            const struct doc *overrides, int32_t **order);
struct onnx_node onnx_node_at(struct onnx_graph *graph, int32_t index);
struct onnx_value *onnx_in(const struct onnx_node *node, int i);  /* NULL if absent */
struct onnx_value *onnx_out(const struct onnx_node *node, int i); /* NULL if absent */
/* Whether the node is one of these types, separated by blanks, of ONNX's own operator set. */
bool onnx_is(const struct onnx_node *node, const char *types);
const char *onnx_node_name(const struct onnx_node *node);
weft_status onnx_error(const struct onnx_node *node, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
int64_t onnx_elements(const struct onnx_value *value);
/* Whether a shape stays below 2^50 elements, with axes of 0 counted as 1: then no product of axes
 * in the emission overflows int64_t. */
bool onnx_fits(int rank, const int64_t *dim);
bool onnx_is_float(int type);

/* Attributes. */
const Onnx__AttributeProto *onnx_attribute(const struct onnx_node *node, const char *name);
int64_t onnx_int(const struct onnx_node *node, const char *name, int64_t otherwise);
/* Copies the list of an attribute to `out`, at most `most` numbers; returns how many, or -1 without
 * the attribute. */
int onnx_ints(const struct onnx_node *node, const char *name, int64_t *out, int most);

/* ---- onnx_elements.c ------------------------------------------------------------------------- */

/* The elements of a tensor as numbers; NULL if they are many or absent. */
double *onnx_tensor_values(struct arena *scratch, const Onnx__TensorProto *tensor);

/* ---- onnx_shape.c, onnx_fold.c --------------------------------------------------------------- */

/* Infers the shapes of a node's outputs. A shape that cannot be inferred stays as the file declared
 * it, or unknown. */
weft_status onnx_infer(const struct onnx_node *node);
/* Computes the elements of a node's outputs if all of its inputs are constant. */
void onnx_fold(const struct onnx_node *node);

/* ---- onnx_emit.c ----------------------------------------------------------------------------- */

weft_status onnx_emit(const struct onnx_node *node);

/* ---- import_onnx.c --------------------------------------------------------------------------- */

/* Opens the modules that the node's name implies; returns the node's own name within them. */
const char *onnx_enter(const struct onnx_node *node);
/* Adds a warning to the model, up to ONNX_MAX_WARNINGS. */
void onnx_warn(struct onnx_graph *graph, const char *text);

#endif

/* test_onnx_shapes.c - what a node of ONNX makes of its inputs: shapes, and the numbers of constants.
 *
 *   S1  Each row of CASES is one node. What its operator's page of the ONNX specification says comes out, worked
 *       out by hand; ends that look alike (the padding before and after, the sides of a product) are unlike.
 *   S2  Each row of OPERATORS is a node that becomes one operator, with its FLOPs, weights, and what it keeps.
 *
 * Inputs are written by what they are: (2,3) a tensor of that shape, <2,3> a weight, [2,3] whole numbers, {2.5} real ones,
 * #7 a scalar, - none. Outputs: shapes, =2,3 after one whose numbers are known, and ! for a node that is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/import.h"
#include "model/onnx_shape.h"
#include "onnx_writer.h"

static const struct onnx_case {
    const char *type, *inputs, *attributes, *outputs;
} CASES[] = {
    /* windows: (in + pads - (dilation (kernel - 1) + 1)) / stride + 1 */
    {"Conv", "(2,8,15,12) (16,8,3,5)", "strides=2,1 pads=1,0,2,3", "(2,16,8,11)"},
    {"Conv", "(2,8,15,12) (16,8,3,3)", "kernel_shape=3,3 dilations=2,3", "(2,16,11,6)"},
    {"Conv", "(2,8,15,12) (16,4,3,3)", "group=2", "(2,16,13,10)"},
    {"Conv", "(2,8,15) (4,8,4)", "pads=1,1", "(2,4,14)"},
    {"Conv", "(2,8,15,12) (16,8,3,3)", "auto_pad=SAME_UPPER strides=2,5", "(2,16,8,3)"},
    {"Conv", "(2,8,15,12) (16,8,3,3)", "auto_pad=VALID", "(2,16,13,10)"},
    {"Conv", "(2,8,15,12) (16,4,3,3)", "", "!"},
    {"Conv", "(2,8,15,12) (16,8,3)", "", "!"},
    {"Conv", "(2,8,15,12) (16,8,3,3)", "strides=0,1", "!"},
    {"Conv", "(2,8,15,12) (16,8,3,3)", "pads=0,0,-1,0", "!"},
    {"MaxPool", "(2,8,15,12)", "kernel_shape=3,3 strides=2,2", "(2,8,7,5) (2,8,7,5)"},
    {"MaxPool", "(2,8,15,12)", "kernel_shape=3,3 strides=2,2 ceil_mode=1", "(2,8,7,6)"},
    {"AveragePool", "(2,8,15,12)", "kernel_shape=15,13", "(2,8,1,0)"},
    {"GlobalAveragePool", "(2,8,15,12)", "", "(2,8,1,1)"},
    /* products */
    {"Gemm", "(3,5) (5,7)", "", "(3,7)"},
    {"Gemm", "(5,3) (5,7)", "transA=1", "(3,7)"},
    {"Gemm", "(3,5) (7,5)", "transB=1", "(3,7)"},
    {"Gemm", "(5,3) (7,5)", "transA=1 transB=1", "(3,7)"},
    {"Gemm", "(3,5) (7,5)", "", "!"},
    {"MatMul", "(2,3,4,5) (5,6)", "", "(2,3,4,6)"},
    {"MatMul", "(3,1,4,5) (7,5,6)", "", "(3,7,4,6)"},
    {"MatMul", "(5) (5,6)", "", "(6)"},
    {"MatMul", "(4,5) (5)", "", "(4)"},
    {"MatMul", "(3,4,5) (2,5,6)", "", "!"},
    {"MatMul", "(4,5) (4,6)", "", "!"},
    /* elementwise and norms */
    {"Add", "(3,1,5) (4,1)", "", "(3,4,5)"},
    {"Add", "(2,3) (3,2)", "", "!"},
    {"Where", "(2,1) (1,3) (4,1,1)", "", "(4,2,3)"},
    {"Dropout", "(2,3)", "", "(2,3) (2,3)"},
    {"BatchNormalization", "(2,8,3) (8)", "", "(2,8,3) (8) (8)"},
    {"LayerNormalization", "(2,3,4) (4)", "", "(2,3,4) (2,3,1) (2,3,1)"},
    {"LayerNormalization", "(2,3,4) (4)", "axis=1", "(2,3,4) (2,1,1)"},
    {"LayerNormalization", "(2,3,4) (4)", "axis=3", "!"},
    /* movement */
    {"Concat", "(2,3,4) (2,5,4) (2,1,4)", "axis=1", "(2,9,4)"},
    {"Concat", "(2,3,4) (2,3,5)", "axis=-1", "(2,3,9)"},
    {"Concat", "(2,3,4) (2,3,5)", "axis=0", "!"},
    {"Concat", "(2,3) (3,3)", "axis=2", "!"},
    {"Reshape", "(2,3,4) [0,-1]", "", "(2,12)"},
    {"Reshape", "(2,3,4) [4,-1,2]", "", "(4,3,2)"},
    {"Reshape", "(2,3,4) [5,-1]", "", "!"},
    {"Reshape", "(2,3,4) [2,13]", "", "!"},
    {"Reshape", "(2,3,4) [0,12]", "allowzero=1", "!"},
    {"Flatten", "(2,3,4)", "", "(2,12)"},
    {"Flatten", "(2,3,4)", "axis=0", "(1,24)"},
    {"Flatten", "(2,3,4)", "axis=-1", "(6,4)"},
    {"Flatten", "(2,3,4)", "axis=3", "(24,1)"},
    {"Flatten", "(2,3,4)", "axis=4", "!"},
    {"Transpose", "(2,3,4)", "", "(4,3,2)"},
    {"Transpose", "(2,3,4)", "perm=2,0,1", "(4,2,3)"},
    {"Transpose", "(2,3,4)", "perm=1,0", "!"},
    {"Squeeze", "(1,3,1,4)", "", "(3,4)"},
    {"Squeeze", "(1,3,1,4) [0]", "", "(3,1,4)"},
    {"Squeeze", "(1,3,1,4)", "axes=-2", "(1,3,4)"},
    {"Unsqueeze", "(3,4) [0,-1]", "", "(1,3,4,1)"},
    {"Unsqueeze", "(3,4)", "axes=1", "(3,1,4)"},
    {"Unsqueeze", "(3,4) [3]", "", "!"},
    {"Slice", "(10,8) [2] [9]", "", "(7,8)"},
    {"Slice", "(10,8) [2] [100] [1]", "", "(10,6)"},
    {"Slice", "(10,8) [-3] [-1]", "", "(2,8)"},
    {"Slice", "(10,8) [1] [9] [0] [3]", "", "(3,8)"},
    {"Slice", "(10,8) [-1] [-100] [0] [-3]", "", "(4,8)"},
    {"Slice", "(10,8) [100] [0] [-2] [-1]", "", "(9,8)"},
    {"Slice", "(10,8) [3,1] [3,4]", "", "(0,3)"},
    {"Slice", "(10,8) [0] [9] [0] [0]", "", "!"},
    {"Split", "(10,4)", "", "(4,4) (4,4) (2,4)"},
    {"Split", "(10,4) [1,2,7]", "", "(1,4) (2,4) (7,4)"},
    {"Split", "(10,4)", "axis=1 split=3,1", "(10,3) (10,1)"},
    {"Gather", "(10,4) (2,3)", "", "(2,3,4)"},
    {"Gather", "(10,4,5) (2,3)", "axis=1", "(10,2,3,5)"},
    {"Gather", "(10,4) #1", "axis=-1", "(10)"},
    {"GatherElements", "(10,4) (3,4)", "", "(3,4)"},
    {"Expand", "(3,1) [2,1,6]", "", "(2,3,6)"},
    {"Expand", "(3,4) [2]", "", "!"},
    {"Tile", "(2,3) [4,5]", "", "(8,15)"},
    {"Pad", "(2,3) [1,0,2,4]", "", "(5,7)"},
    {"Pad", "(2,3)", "pads=1,0,2,4", "(5,7)"},
    {"DepthToSpace", "(1,8,3,5)", "blocksize=2", "(1,2,6,10)"},
    {"SpaceToDepth", "(1,2,6,10)", "blocksize=2", "(1,8,3,5)"},
    {"Resize", "(1,2,6,10) - {1,1,2,0.5}", "", "(1,2,12,5)"},
    {"Resize", "(1,2,6,10) - - [1,2,7,9]", "", "(1,2,7,9)"},
    {"Upsample", "(1,2,6,10) {1,1,3,2}", "", "(1,2,18,20)"},
    {"ReduceMean", "(2,3,4)", "axes=1", "(2,1,4)"},
    {"ReduceMean", "(2,3,4)", "axes=1 keepdims=0", "(2,4)"},
    {"ReduceMean", "(2,3,4)", "", "(1,1,1)"},
    {"ReduceSum", "(2,3,4) [-1]", "", "(2,3,1)"},
    {"ReduceSum", "(2,3,4)", "noop_with_empty_axes=1", "(2,3,4)"},
    {"ArgMax", "(2,3,4)", "", "(1,3,4)"},
    {"ArgMax", "(2,3,4)", "axis=-1 keepdims=0", "(2,3)"},
    {"TopK", "(2,3,10) [4]", "", "(2,3,4) (2,3,4)"},
    {"TopK", "(2,3,10)", "axis=1 k=2", "(2,2,10)"},
    /* numbers */
    {"Shape", "(2,3,4)", "", "(3)=2,3,4"},
    {"Shape", "(2,3,4)", "start=1", "(2)=3,4"},
    {"Shape", "(2,3,4)", "start=-2 end=-1", "(1)=3"},
    {"Shape", "(2,3,4)", "end=2", "(2)=2,3"},
    {"Size", "(2,3,4)", "", "()=24"},
    {"Constant", "", "value_ints=2,3", "(2)=2,3"},
    {"Constant", "", "value_int=5", "()=5"},
    {"ConstantOfShape", "[2,3]", "", "(2,3)=0,0,0,0,0,0"},
    {"Range", "#2 #11 #3", "", "(3)=2,5,8"},
    {"Range", "#2 #12 #3", "", "(4)=2,5,8,11"},
    {"Range", "#5 #0 #-2", "", "(3)=5,3,1"},
    {"Range", "#5 #5 #1", "", "(0)="},
    {"Range", "#5 #6 #0", "", "!"},
    {"Cast", "{2.75}", "to=7", "(1)=2"},
    {"Cast", "{2.75}", "to=1", "(1)=2.75"},
    {"Squeeze", "[5]", "", "()=5"},
    {"Unsqueeze", "#5 [0]", "", "(1)=5"},
    {"Reshape", "[2,3,5,7] [2,2]", "", "(2,2)=2,3,5,7"},
    {"Concat", "[2,3] [5]", "axis=0", "(3)=2,3,5"},
    {"Gather", "[2,3,5,7] [0,-1,2,3]", "", "(4)=2,7,5,7"},
    {"Gather", "[2,3,5,7] [4]", "", "(1)"},
    {"Gather", "[2,3,5,7] [-5]", "", "(1)"},
    {"Slice", "[2,3,5,7,11] [-2] [100]", "", "(2)=7,11"},
    {"Slice", "[2,3,5,7,11] [-100] [2]", "", "(2)=2,3"},
    {"Slice", "[2,3,5,7,11] [1] [4] [0] [2]", "", "(2)=3,7"},
    {"Slice", "[2,3,5,7,11] [-1] [-100] [0] [-1]", "", "(5)=11,7,5,3,2"},
    {"Slice", "[2,3,5,7,11] [9] [0] [0] [-2]", "", "(2)=11,5"},
    {"Slice", "[2,3,5,7,11]", "starts=1 ends=3", "(2)=3,5"},
    {"ReduceProd", "[2,3,5]", "", "(1)=30"},
    {"Add", "[2,3] [10]", "", "(2)=12,13"},
    {"Sub", "[10] [2,3]", "", "(2)=8,7"},
    {"Mul", "[2,3] [5,7]", "", "(2)=10,21"},
    {"Div", "[7,-9] [2]", "", "(2)=3,-4"},
    {"Div", "{7} {2}", "", "(1)=3.5"},
    {"Div", "[7] [0]", "", "(1)=0"},
    {"Min", "[7,2] [3]", "", "(2)=3,2"},
    {"Max", "[7,2] [3]", "", "(2)=7,3"},
    {"Mod", "[7,8] [4]", "", "(2)=3,0"},
    {"Equal", "[7,3] [3]", "", "(2)=0,1"},
    {"Where", "[1,0,2] [5] [7,8,9]", "", "(3)=5,8,5"},
    {"Floor", "{2.5}", "", "(1)=2"},
    {"Ceil", "{2.5}", "", "(1)=3"},
    {"Sqrt", "{9}", "", "(1)=3"},
    {"Abs", "{-2}", "", "(1)=2"},
    {"Neg", "[-2,3]", "", "(2)=2,-3"},
};

/* ---- a row as a graph ------------------------------------------------------------------------ */

enum { MOST_NUMBERS = 16 };

static int numbers_in(const char *text, double *out)
{
    int count = 0;
    for (char *end; *text && count < MOST_NUMBERS; text = *end == ',' ? end + 1 : end) {
        out[count] = strtod(text, &end);
        if (end == text)
            break;
        count++;
    }
    return count;
}

static int whole_numbers_in(const char *text, int64_t *out)
{
    double real[MOST_NUMBERS];
    int count = numbers_in(text, real);
    for (int i = 0; i < count; i++)
        out[i] = (int64_t)real[i];
    return count;
}

static void real_weight(struct writer *w, const char *name)
{
    double real[MOST_NUMBERS];
    int64_t count = numbers_in(name + 1, real);
    Onnx__TensorProto *tensor = writer_weight(w, name, 1, &count);
    tensor->has_data_location = false;
    tensor->n_float_data = (size_t)count;
    tensor->float_data = ARENA_ARRAY(w->arena, float, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        tensor->float_data[i] = (float)real[i];
}

static void declare(struct writer *w, char *name)
{
    int64_t number[MOST_NUMBERS];
    int count = whole_numbers_in(name + 1, number);
    if (*name == '(')
        writer_input(w, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, count, number, NULL);
    else if (*name == '<')
        writer_weight(w, name, count, number);
    else if (*name == '{')
        real_weight(w, name);
    else if (*name == '[' || *name == '#')
        writer_numbers(w, name, count, number);
    if (*name == '#')
        w->weights.data[w->weights.len - 1]->n_dims = 0;
    if (*name == '-')
        *name = '\0';
}

static void give(struct writer *w, Onnx__NodeProto *node, const char *text)
{
    char **word;
    size_t words = writer_words(w, text, &word);
    for (size_t i = 0; i < words; i++) {
        char *value = strchr(word[i], '=') + 1;
        int64_t number[MOST_NUMBERS];
        int count = whole_numbers_in(value, number);
        value[-1] = '\0';
        writer_ints(w, node, word[i], count, number);
        Onnx__AttributeProto *attribute = node->attribute[node->n_attribute - 1];
        attribute->has_i = count == 1;
        attribute->i = number[0];
        attribute->has_s = count == 0;
        attribute->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value};
    }
}

static const char *OUTPUTS[] = {"y", "y z", "y z u"};

static void write_case(struct writer *w, const struct onnx_case *c, int64_t opset)
{
    size_t outputs = 0;
    for (const char *at = c->outputs; (at = strchr(at, '(')); at++)
        outputs++;
    writer_start(w, opset);
    Onnx__NodeProto *node =
        writer_node(w, c->type, "node", c->inputs, OUTPUTS[outputs ? outputs - 1 : 0]);
    for (size_t i = 0; i < node->n_input; i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again |= strcmp(node->input[k], node->input[i]) == 0;
        if (!again)
            declare(w, node->input[i]);
    }
    give(w, node, c->attributes);
}

/* ---- what comes out -------------------------------------------------------------------------- */

static const char *shown(struct arena *keep, const struct onnx_value *value)
{
    const char *text = value->known ? arena_printf(keep, "%s", shape_show(value).s) : "?";
    for (int64_t i = 0; value->constant && i < onnx_elements(value); i++)
        text = arena_printf(keep, "%s%s%g", text, i ? "," : "=", value->constant[i]);
    return value->constant && !onnx_elements(value) ? arena_printf(keep, "%s=", text) : text;
}

static const char *outcome(struct arena *keep, struct writer *w)
{
    size_t len;
    uint8_t *bytes = writer_pack(w, &len);
    struct onnx_graph graph = {.file = "net.onnx", .scratch = keep, .opset = 13};
    Onnx__ModelProto *model;
    int32_t *order;
    const char *text = "";
    assert_int_equal(onnx_read(keep, "net.onnx", bytes, len, &model), WEFT_OK);
    if (onnx_graph_open(&graph, model, NULL, &order) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    struct onnx_node node = onnx_node_at(&graph, 0);
    if (onnx_infer(&node) != WEFT_OK)
        return "!";
    onnx_fold(&node);
    for (int i = 0; i < node.outputs; i++)
        text = arena_printf(keep, "%s%s%s", text, i ? " " : "", shown(keep, onnx_out(&node, i)));
    return text;
}

static void nodes_make_what_the_specification_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct arena *keep = arena_new();
        struct writer w;
        write_case(&w, &CASES[i], 13);
        const char *made = outcome(keep, &w);
        if (strcmp(made, CASES[i].outputs) != 0)
            fail_msg("%s of %s with %s makes %s, expected %s", CASES[i].type, CASES[i].inputs,
                     CASES[i].attributes, made, CASES[i].outputs);
        writer_end(&w);
        arena_free(keep);
    }
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Of numbers in fp32: what an operator counts is a whole number, what it casts is of the type that it names, and
 * everything else stays as it was. */
static void nodes_have_types(void **state)
{
    (void)state;
    enum { FP32 = 1, INT64 = 7, FP16 = 10 }; /* TensorProto.DataType */
    static const struct {
        struct onnx_case node;
        int type;
    } TYPES[] = {
        {{"Shape", "(2,3)", "", "(2)"}, INT64},
        {{"Cast", "(2,3)", "to=10", "(2,3)"}, FP16},
        {{"Relu", "(2,3)", "", "(2,3)"}, FP32},
    };
    for (size_t i = 0; i < COUNT_OF(TYPES); i++) {
        struct arena *keep = arena_new();
        struct onnx_graph graph = {.file = "net.onnx", .scratch = keep, .opset = 13};
        struct writer w;
        size_t len;
        Onnx__ModelProto *model;
        int32_t *order;
        write_case(&w, &TYPES[i].node, 13);
        uint8_t *bytes = writer_pack(&w, &len);
        assert_int_equal(onnx_read(keep, "net.onnx", bytes, len, &model), WEFT_OK);
        assert_int_equal(onnx_graph_open(&graph, model, NULL, &order), WEFT_OK);
        struct onnx_node node = onnx_node_at(&graph, 0);
        assert_int_equal(onnx_infer(&node), WEFT_OK);
        assert_int_equal(onnx_out(&node, 0)->type, TYPES[i].type);
        writer_end(&w);
        arena_free(keep);
    }
}

/* ---- operators (S2) -------------------------------------------------------------------------- */

/* `shape`: of the forward work. */
static const struct {
    struct onnx_case node;
    int64_t opset;
    enum op_kind kind;
    double flops, parameters;
    unsigned keep;
    int64_t shape[8];
} OPERATORS[] = {
    {{"Conv", "(1,8,15,12) <16,8,3,5> <16>", "strides=2,1 pads=1,0,2,3", "()"},
     13,
     OP_CONV,
     2 * 16 * 8 * 11 * 8 * 15,
     16 * 8 * 15 + 16,
     KEEP_INPUT_0,
     {1, 16, 8, 11, 8, 3, 5, 2}},
    {{"Conv", "(1,8,15,12) <16,4,3,3>", "group=2", "()"},
     13,
     OP_CONV,
     2 * 16 * 13 * 10 * 4 * 9,
     16 * 4 * 9,
     KEEP_INPUT_0,
     {1, 16, 13, 10, 4, 3, 3, 1}},
    {{"Conv", "(1,8,15) <4,8,4>", "pads=1,1", "()"},
     13,
     OP_CONV,
     2 * 4 * 14 * 8 * 4,
     4 * 8 * 4,
     KEEP_INPUT_0,
     {1, 4, 14, 1, 8, 4, 1, 1}},
    {{"Gemm", "(1,5) <5,7> <7>", "", "()"}, 13, OP_LINEAR, 2 * 35, 42, KEEP_INPUT_0, {1, 1, 7, 5}},
    {{"Gemm", "(1,5) <7,5>", "transB=1", "()"},
     13,
     OP_LINEAR,
     2 * 35,
     35,
     KEEP_INPUT_0,
     {1, 1, 7, 5}},
    {{"MatMul", "(1,3,5) <5,7>", "", "()"},
     13,
     OP_LINEAR,
     2 * 3 * 35,
     35,
     KEEP_INPUT_0,
     {1, 3, 7, 5}},
    {{"MatMul", "(1,3,4,5) (1,3,5,6)", "", "()"},
     13,
     OP_SCORE,
     2 * 3 * 4 * 5 * 6,
     0,
     KEEP_INPUT_0 | KEEP_INPUT_1,
     {3, 4, 6, 5}},
    {{"Softmax", "(1,3,4,5)", "", "()"}, 13, OP_SOFTMAX, 0, 0, KEEP_OUTPUT, {12, 5, 0, 0}},
    {{"Softmax", "(1,3,4,5)", "axis=1", "()"}, 13, OP_SOFTMAX, 0, 0, KEEP_OUTPUT, {20, 3, 0, 0}},
    {{"Softmax", "(1,3,4,5)", "axis=2", "()"}, 12, OP_SOFTMAX, 0, 0, KEEP_OUTPUT, {3, 20, 0, 0}},
    {{"Softmax", "(1,3,4,5)", "", "()"}, 12, OP_SOFTMAX, 0, 0, KEEP_OUTPUT, {1, 60, 0, 0}},
    {{"LayerNormalization", "(1,3,4) <4> <4>", "", "()"},
     17,
     OP_LAYER_NORM,
     0,
     8,
     KEEP_INPUT_0,
     {3, 4, 0, 0}},
    {{"RMSNormalization", "(1,3,4) <4>", "", "()"},
     23,
     OP_RMS_NORM,
     0,
     4,
     KEEP_INPUT_0,
     {3, 4, 0, 0}},
    {{"BatchNormalization", "(1,8,3,5) <8> <8> <8> <8>", "", "()"},
     13,
     OP_BATCH_NORM,
     0,
     16,
     KEEP_INPUT_0,
     {1, 8, 15, 0}},
    {{"Gather", "<10,4> (1,3)", "", "()"}, 13, OP_EMBEDDING, 0, 40, KEEP_INPUT_0, {3, 4, 10, 0}},
    {{"MaxPool", "(1,8,15,12)", "kernel_shape=3,2 strides=3,3", "()"},
     13,
     OP_POOL,
     0,
     0,
     KEEP_INPUT_0,
     {1, 8, 5, 4, 6}},
    {{"Relu", "(1,3,4)", "", "()"}, 13, OP_RELU, 0, 0, KEEP_OUTPUT, {12, 0, 0, 0}},
    {{"Gelu", "(1,3,4)", "", "()"}, 20, OP_GELU, 0, 0, KEEP_INPUT_0, {12, 0, 0, 0}},
    {{"Log", "(1,3,4)", "", "()"}, 13, OP_SILU, 0, 0, KEEP_INPUT_0, {12, 0, 0, 0}},
    {{"Neg", "(1,3,4)", "", "()"}, 13, OP_SILU, 0, 0, 0, {12, 0, 0, 0}},
    {{"Dropout", "(1,3,4)", "", "()"}, 13, OP_DROPOUT, 0, 0, KEEP_MASK, {12, 0, 0, 0}},
    {{"Add", "(1,3,4) (1,3,1)", "", "()"}, 13, OP_ADD, 0, 0, 0, {12, 0, 0, 0}},
    {{"Mul", "(1,3,4) (1,3,1)", "", "()"},
     13,
     OP_ADD,
     0,
     0,
     KEEP_INPUT_0 | KEEP_INPUT_1,
     {12, 0, 0, 0}},
    {{"Mul", "(1,3,4) <4>", "", "()"}, 13, OP_SILU, 0, 4, KEEP_INPUT_0, {12, 0, 0, 0}},
    {{"Concat", "(1,3,4) <1,2,4>", "axis=1", "()"}, 13, OP_CONCAT, 0, 8, 0, {80, 0, 0, 0}},
};

static void nodes_become_operators(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(OPERATORS); i++) {
        struct writer w;
        struct model *model;
        size_t len;
        write_case(&w, &OPERATORS[i].node, OPERATORS[i].opset);
        uint8_t *bytes = writer_pack(&w, &len);
        if (import_onnx("net.onnx", bytes, len, NULL, &model) != WEFT_OK)
            fail_msg("%s", weft_last_error()->message);
        const struct op *op = &model->op[model->ops - 1];
        struct work work = op_work(op, op->size, DTYPE_FP32, PHASE_FORWARD);
        const int64_t *shape = work.shape, *wanted = OPERATORS[i].shape;
        bool as_said =
            model->ops == 1 && op->kind == OPERATORS[i].kind && work.flops == OPERATORS[i].flops &&
            op_parameters(op) == OPERATORS[i].parameters && op->keep == OPERATORS[i].keep &&
            memcmp(shape, wanted, sizeof OPERATORS[i].shape) == 0;
        if (!as_said)
            fail_msg(
                "%s of %s: %d operators, %s, %g FLOPs, %g parameters, keeps %u, {%d, %d, %d, %d}",
                OPERATORS[i].node.type, OPERATORS[i].node.inputs, model->ops,
                OP_KINDS[op->kind].name, work.flops, op_parameters(op), op->keep, (int)shape[0],
                (int)shape[1], (int)shape[2], (int)shape[3]);
        model_free(model);
        writer_end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_make_what_the_specification_says),
        cmocka_unit_test(nodes_have_types),
        cmocka_unit_test(nodes_become_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

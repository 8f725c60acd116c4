/* test_model_errors.c - broken models: each parser's refusals, word by word.
 *
 * Every input is a file that is written, opened and refused with WEFT_BAD_INPUT; message and hint
 * are exact. Files lie in a folder of their own, which is the working folder, so names are short.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "model/import.h"
#include "onnx_writer.h"
#include "refusals.h"

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void write_bytes(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

static void assert_refused(const char *name, const char *overrides, const char *message,
                           const char *hint)
{
    struct model *model = NULL;
    weft_status status = model_open(name, overrides, &model);
    if (status == WEFT_OK)
        fail_msg("%s was accepted, expected: %s", name, message);
    const weft_error *error = weft_last_error();
    assert_int_equal(status, WEFT_BAD_INPUT);
    assert_int_equal(error->status, WEFT_BAD_INPUT);
    assert_string_equal(error->message, message);
    assert_string_equal(error->hint ? error->hint : "(none)", hint ? hint : "(none)");
    assert_null(model);
}

static weft_status read_model(const struct refusal *refusal)
{
    struct model *model = NULL;
    write_bytes(refusal->name, refusal->text, refusal->len);
    weft_status status = model_open(refusal->name, NULL, &model);
    model_free(model);
    unlink(refusal->name);
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* As Hugging Face and people write them; a point and a digit more are another model. */
static void names_that_mean_a_preset(void **state)
{
    (void)state;
    static const struct {
        const char *name, *preset;
    } ROWS[] = {
        {"Llama-3.1-8B", "llama3.1-8b"},
        {"meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"},
        {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
        {"google/gemma-2-27b-it", "gemma2-27b"},
        {"GPT3_13B", "gpt3-13b"},
        {"meta-llama/Meta-Llama-3-70B", "llama3-70b"},
        {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *model, *preset;
        assert_int_equal(model_open(ROWS[i].name, "layers: 2", &model), WEFT_OK);
        assert_int_equal(model_open(ROWS[i].preset, "layers: 2", &preset), WEFT_OK);
        assert_string_equal(model->name, ROWS[i].preset);
        assert_int_equal(model->ops, preset->ops);
        model_free(model);
        model_free(preset);
    }
    assert_refused("Llama-31-8B", NULL,
                   "'Llama-31-8B' is neither a preset nor a file, expected a model",
                   "did you mean 'llama3-8b'?");
}

static void names_that_mean_nothing(void **state)
{
    (void)state;
    assert_refused("gpt3-13", NULL, "'gpt3-13' is neither a preset nor a file, expected a model",
                   "did you mean 'gpt3-13b'?");
    assert_refused("xyzzy-plugh", NULL,
                   "'xyzzy-plugh' is neither a preset nor a file, expected a model",
                   "'weft models' lists the presets");
    assert_refused("", NULL, "'' is neither a preset nor a file, expected a model",
                   "'weft models' lists the presets");
    assert_refused("absent.yaml", NULL, "absent.yaml: cannot be opened: No such file or directory",
                   NULL);
    assert_refused("absent.onnx", NULL, "absent.onnx: cannot be opened: No such file or directory",
                   NULL);
    assert_refused("no/such/thing", NULL,
                   "no/such/thing: cannot be opened: No such file or directory", NULL);
    write_bytes("model.txt", "x", 1);
    assert_refused("model.txt", NULL,
                   "model.txt: has an unknown extension, expected .yaml, .yml, .json or .onnx",
                   NULL);
    mkdir("folder", 0755);
    mkdir("dir.yaml", 0755);
    mkdir("dir.onnx", 0755);
    assert_refused("folder", NULL, "folder: is a folder without config.json, expected a model",
                   NULL);
    assert_refused("dir.yaml", NULL, "dir.yaml: is a folder without config.json, expected a model",
                   NULL);
    assert_refused("dir.onnx", NULL, "dir.onnx: is a folder without config.json, expected a model",
                   NULL);
    mkfifo("pipe.yaml", 0644);
    assert_refused("pipe.yaml", NULL, "pipe.yaml: is a device or pipe, expected a file", NULL);
}

static void options_that_do_not_fit(void **state)
{
    (void)state;
    assert_refused("gpt2", "sq: 3", "given options:1: 'sq' is not a known key here",
                   "did you mean 'seq'?");
    assert_refused("gpt2", "seq: -3",
                   "given options:1: 'seq' is '-3', expected a whole number of at least 1", NULL);
    assert_refused("gpt2", "seq: 3, seq: 4",
                   "given options:1: 'seq' appears twice, first in line 1", "keep one of the two");
    assert_refused("gpt2", "seq: [",
                   "given options:1: is not valid YAML: did not find expected node content",
                   "check the indentation and the quotes around here");
    assert_refused("gpt2", "heads: 7",
                   "given options:1: 'heads' is 7, expected a divisor of 'hidden', 768", NULL);
    assert_refused("gpt2", "attention: flush",
                   "given options:1: 'attention' is 'flush', expected one of flash, fused, eager, "
                   "flash-v1, flash-v2, local",
                   "did you mean 'flash'?");
}

/* ---- YAML ------------------------------------------------------------------------------------ */

static void broken_yaml(void **state)
{
    (void)state;
    expect_refusals("model_yaml.txt", read_model);
}

static void options_on_operators(void **state)
{
    (void)state;
    static const char TEXT[] = "inputs: {x: [4, 16]}\noperators:\n  - {kind: relu}\n";
    write_bytes("m.yaml", TEXT, sizeof TEXT - 1);
    assert_refused("m.yaml", "seq: 3",
                   "given options:1: options do not apply to operators written out",
                   "change the sizes in the file");
}

/* ---- Hugging Face ---------------------------------------------------------------------------- */

static void broken_json(void **state)
{
    (void)state;
    expect_refusals("model_hf.txt", read_model);
}

/* ---- depth and size -------------------------------------------------------------------------- */

enum { HUNDRED_MB = 100 << 20, DEEP = 20000 };

static void write_repeated(const char *path, const char *head, const char *part, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    char block[4096];
    size_t len = strlen(part);
    assert_non_null(file);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = part[i % len];
    fputs(head, file);
    for (size_t left = bytes; left;) {
        size_t now = left < sizeof block / len * len ? left : sizeof block / len * len;
        assert_int_equal(fwrite(block, 1, now, file), now);
        left -= now;
    }
    fclose(file);
}

static void hundred_megabytes_of_nesting(void **state)
{
    (void)state;
    write_repeated("big.yaml", "", "[", HUNDRED_MB);
    assert_refused("big.yaml", NULL,
                   "big.yaml: is 100 MiB, larger than the 64.0 MiB that Weft reads", NULL);
    unlink("big.yaml");
    write_repeated("big.json", "", "[", HUNDRED_MB);
    assert_refused("big.json", NULL,
                   "big.json: is 100 MiB, larger than the 64.0 MiB that Weft reads", NULL);
    unlink("big.json");
    write_repeated("big.onnx", "", "\x3a\x02", HUNDRED_MB);
    assert_refused("big.onnx", NULL,
                   "big.onnx: is not valid protobuf at byte 2: expected a whole field",
                   "is the file complete, and is it ONNX?");
    unlink("big.onnx");
}

/* Just below the limit of size, and far above those of depth and number. */
static void deep_documents(void **state)
{
    (void)state;
    write_repeated("deep.yaml", "", "[", DEEP);
    assert_refused("deep.yaml", NULL,
                   "deep.yaml:1: is nested deeper than the 64 levels that Weft reads", NULL);
    write_repeated("deep.yaml", "", "- ", DEEP);
    assert_refused("deep.yaml", NULL,
                   "deep.yaml:1: is nested deeper than the 64 levels that Weft reads", NULL);
    write_repeated("deep.yaml", "", "{a: ", DEEP);
    assert_refused("deep.yaml", NULL,
                   "deep.yaml:1: is nested deeper than the 64 levels that Weft reads", NULL);
    write_repeated("deep.json", "", "[", DEEP);
    assert_refused("deep.json", NULL,
                   "deep.json:1: is not valid JSON: maximum parsing depth "
                   "reached near '['",
                   NULL);
    char nested[512] = "";
    memset(nested, '[', 100);
    memset(nested + 100, ']', 100);
    write_bytes("deep.json", nested, 200);
    assert_refused("deep.json", NULL,
                   "deep.json:1: is nested deeper than the 64 levels that Weft reads", NULL);
    write_repeated("wide.yaml", "a: [0", ",0", 10000000);
    assert_refused("wide.yaml", NULL,
                   "wide.yaml:1: holds more than the 4000000 values that Weft "
                   "reads",
                   NULL);
    unlink("wide.yaml");
}

/* ---- ONNX ------------------------------------------------------------------------------------ */

static void start(struct writer *w)
{
    writer_start(w, 13);
    writer_input(w, "x", FLOAT, DIMS(1, 8), NULL);
}

static void assert_onnx_refused(struct writer *w, const char *overrides, const char *message,
                                const char *hint)
{
    size_t len;
    uint8_t *bytes = writer_pack(w, &len);
    write_bytes("m.onnx", bytes, len);
    assert_refused("m.onnx", overrides, message, hint);
    writer_end(w);
}

static void onnx_that_is_none(void **state)
{
    (void)state;
    expect_refusals("model_onnx.txt", read_model);
}

static void onnx_of_another_version(void **state)
{
    (void)state;
    struct writer w;
    start(&w);
    writer_node(&w, "Relu", "r", "x", "y");
    w.model.ir_version = 99;
    assert_onnx_refused(&w, NULL, "m.onnx: has IR version 99, expected 1 to 13",
                        "export the model with another version of ONNX");
}

/* Cut anywhere, a file is refused or is a smaller graph; it never crashes. */
static void onnx_cut_short(void **state)
{
    (void)state;
    struct writer w;
    size_t len;
    start(&w);
    writer_weight(&w, "a", DIMS(8, 4));
    writer_node(&w, "MatMul", "m", "x a", "y");
    writer_node(&w, "Relu", "r", "y", "z");
    uint8_t *bytes = writer_pack(&w, &len);
    for (size_t cut = 0; cut < len; cut++) {
        struct model *model = NULL;
        if (import_onnx("m.onnx", bytes, cut, NULL, &model) == WEFT_OK)
            model_free(model);
        else
            assert_int_equal(weft_last_error()->status, WEFT_BAD_INPUT);
    }
    write_bytes("m.onnx", bytes, len - 12);
    assert_refused("m.onnx", NULL,
                   "m.onnx: is not valid protobuf at byte 2: expected a whole field",
                   "is the file complete, and is it ONNX?");
    writer_end(&w);
}

/* A subgraph in an attribute of a node, over and over. */
static void onnx_of_endless_subgraphs(void **state)
{
    (void)state;
    enum { LEVELS = 40, GRAPH_TAG = 7, NODE_TAG = 1, ATTRIBUTE_TAG = 5, SUBGRAPH_TAG = 6 };
    static const int TAGS[] = {SUBGRAPH_TAG, ATTRIBUTE_TAG, NODE_TAG};
    uint8_t bytes[4096], *at = bytes + sizeof bytes;
    size_t len = 0;
    for (int i = 0; i < LEVELS * 3 + 1; i++) {
        int tag = i == LEVELS * 3 ? GRAPH_TAG : TAGS[i % 3];
        if (len >= 128)
            *--at = (uint8_t)(len >> 7);
        *--at = (uint8_t)(len >= 128 ? (len & 127) | 128 : len);
        *--at = (uint8_t)(tag << 3 | 2);
        len = (size_t)(bytes + sizeof bytes - at);
    }
    write_bytes("m.onnx", at, len);
    assert_refused("m.onnx", NULL, "m.onnx: is nested deeper than the 48 levels that Weft reads",
                   NULL);
}

static void onnx_of_too_many_records(void **state)
{
    (void)state;
    FILE *file = fopen("m.onnx", "wb");
    assert_non_null(file);
    for (int i = 0; i < 2000001; i++)
        fputs("\x42", file), fputc(0, file); /* an empty opset_import */
    fclose(file);
    assert_refused("m.onnx", NULL, "m.onnx: holds more than the 2000000 records that Weft reads",
                   NULL);
}

static void onnx_graphs_that_do_not_connect(void **state)
{
    (void)state;
    struct writer w;
    start(&w);
    assert_onnx_refused(&w, NULL, "m.onnx: has no nodes, expected at least one", NULL);
    start(&w);
    writer_node(&w, "Relu", "r", "hidden_stat", "y");
    writer_node(&w, "Relu", "s", "x", "hidden_state");
    assert_onnx_refused(
        &w, NULL,
        "m.onnx: node 0 (Relu) reads 'hidden_stat', which nothing makes: expected a "
        "graph input, an initializer or another node's output",
        "did you mean 'hidden_state'?");
    start(&w);
    writer_node(&w, "Relu", "one", "x", "y");
    writer_node(&w, "Add", "two", "y c", "b");
    writer_node(&w, "Relu", "three", "b", "c");
    assert_onnx_refused(&w, NULL, "m.onnx: node 1 'two' (Add) is part of a cycle, or after one",
                        "a graph's nodes must not depend on their own outputs");
    start(&w);
    writer_node(&w, "Relu", "r", "x", "y");
    writer_node(&w, "Relu", "s", "x", "y");
    assert_onnx_refused(&w, NULL, "m.onnx: 'y' is made twice, again by node 1 (Relu)",
                        "give every output its own name");
    start(&w);
    writer_input(&w, "x", FLOAT, DIMS(1), NULL);
    writer_node(&w, "Relu", "r", "x", "y");
    assert_onnx_refused(&w, NULL, "m.onnx: has the input 'x' twice", NULL);
    start(&w);
    writer_weight(&w, "a", DIMS(3));
    writer_weight(&w, "a", DIMS(3));
    writer_node(&w, "Relu", "r", "x", "y");
    assert_onnx_refused(&w, NULL, "m.onnx: 'a' is initialized twice", NULL);
    start(&w);
    writer_node(&w, "Relu", "r", "", "y");
    assert_onnx_refused(
        &w, NULL,
        "m.onnx: node 0 'r' (Relu) has 0 inputs and 1 outputs, expected at least one of each",
        NULL);
}

static void onnx_of_absurd_sizes(void **state)
{
    (void)state;
    struct writer w;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(1, INT64_MAX), NULL);
    writer_node(&w, "Relu", "r", "x", "y");
    assert_onnx_refused(&w, NULL,
                        "m.onnx: axis 1 of 'x' is 9223372036854775807, expected 0 to 2^40", NULL);
    start(&w);
    writer_weight(&w, "a", DIMS(-8, 4));
    writer_node(&w, "MatMul", "m", "x a", "y");
    assert_onnx_refused(&w, NULL, "m.onnx: axis 0 of 'a' is -8, expected 0 to 2^40", NULL);
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), NULL);
    writer_node(&w, "Relu", "r", "x", "y");
    assert_onnx_refused(&w, NULL, "m.onnx: 'x' has 13 axes, expected at most 12", NULL);
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(1, 1099511627776, 1099511627776), NULL);
    writer_node(&w, "Relu", "r", "x", "y");
    assert_onnx_refused(&w, NULL, "m.onnx: 'x' has more than 2^50 elements, expected fewer", NULL);
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(1, 1099511627776, 1), NULL);
    writer_input(&w, "y", FLOAT, DIMS(1, 1, 1048576), NULL);
    writer_node(&w, "Add", "s", "x y", "z");
    assert_onnx_refused(&w, NULL,
                        "m.onnx: node 0 's' (Add) would make more than 2^50 elements, expected "
                        "fewer",
                        NULL);
}

static void onnx_of_shapes_that_do_not_match(void **state)
{
    (void)state;
    struct writer w;
    start(&w);
    writer_weight(&w, "a", DIMS(7, 4));
    writer_node(&w, "MatMul", "m", "x a", "y");
    assert_onnx_refused(
        &w, NULL,
        "m.onnx: node 0 'm' (MatMul) multiplies shapes (1,8) and (7,4), which do not match", NULL);
    start(&w);
    writer_weight(&w, "a", DIMS(7));
    writer_node(&w, "Add", "s", "x a", "y");
    assert_onnx_refused(
        &w, NULL,
        "m.onnx: node 0 's' (Add) has inputs of shapes (1,8) and (7), which do not broadcast",
        NULL);
    start(&w);
    writer_weight(&w, "a", DIMS(4, 3, 3, 3));
    writer_node(&w, "Conv", "c", "x a", "y");
    assert_onnx_refused(&w, NULL,
                        "m.onnx: node 0 'c' (Conv) has input (1,8), weight (4,3,3,3) and group 1, "
                        "which do not match",
                        NULL);
    start(&w);
    writer_numbers(&w, "to", DIMS(3, 3));
    writer_node(&w, "Reshape", "v", "x to", "y");
    assert_onnx_refused(&w, NULL, "m.onnx: node 0 'v' (Reshape) turns 8 elements (1,8) into 9",
                        NULL);
    start(&w);
    writer_int(&w, writer_node(&w, "Concat", "c", "x x", "y"), "axis", 2);
    assert_onnx_refused(&w, NULL, "m.onnx: node 0 'c' (Concat) has axis 2, expected -2 to 1", NULL);
    start(&w);
    writer_ints(&w, writer_node(&w, "Transpose", "t", "x", "y"), "perm", DIMS(0, 1, 2));
    assert_onnx_refused(
        &w, NULL, "m.onnx: node 0 't' (Transpose) permutes 3 axes, expected the 2 of its input",
        NULL);
}

static void onnx_sizes_for_unknown_symbols(void **state)
{
    (void)state;
    struct writer w;
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(-1, 8), "batch_size");
    writer_node(&w, "Relu", "r", "x", "y");
    assert_onnx_refused(
        &w, "batchsize: 3",
        "given options:1: 'batchsize' is not a symbolic dim of this graph, expected "
        "one of its 1",
        "did you mean 'batch_size'?");
    writer_start(&w, 13);
    writer_input(&w, "x", FLOAT, DIMS(-1, 8), "n");
    writer_node(&w, "Relu", "r", "x", "y");
    assert_onnx_refused(
        &w, "n: -3", "given options:1: 'n' is '-3', expected a whole number of at least 1", NULL);
}

/* Of files that come with a question, one that did not is a name that means nothing. */
static void files_that_did_not_come(void **state)
{
    (void)state;
    static const struct given_file FILE_GIVEN = {"net.yaml", "family: gpt\n"};
    struct model *model;
    files_give(&(struct given_files){&FILE_GIVEN, 1});
    weft_status status = model_open("other.yaml", NULL, &model);
    files_give(NULL);
    assert_int_equal(status, WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "'other.yaml' is neither a preset nor a file, expected a model");
}

/* ---- the working folder ---------------------------------------------------------------------- */

static int enter_folder(void **state)
{
    static char folder[] = "/tmp/weft-errors-XXXXXX";
    *state = mkdtemp(folder);
    return *state && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", (const char *)*state);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_mean_nothing),
        cmocka_unit_test(names_that_mean_a_preset),
        cmocka_unit_test(options_that_do_not_fit),
        cmocka_unit_test(broken_yaml),
        cmocka_unit_test(options_on_operators),
        cmocka_unit_test(broken_json),
        cmocka_unit_test(hundred_megabytes_of_nesting),
        cmocka_unit_test(deep_documents),
        cmocka_unit_test(onnx_that_is_none),
        cmocka_unit_test(onnx_of_another_version),
        cmocka_unit_test(onnx_cut_short),
        cmocka_unit_test(onnx_of_endless_subgraphs),
        cmocka_unit_test(onnx_of_too_many_records),
        cmocka_unit_test(onnx_graphs_that_do_not_connect),
        cmocka_unit_test(onnx_of_absurd_sizes),
        cmocka_unit_test(onnx_of_shapes_that_do_not_match),
        cmocka_unit_test(onnx_sizes_for_unknown_symbols),
        cmocka_unit_test(files_that_did_not_come),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

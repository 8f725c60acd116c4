/* test_model_errors.c - broken models: each parser's refusals, word by word.
 *
 * Every row is a file that is written, opened and refused with WEFT_BAD_INPUT; message and hint are
 * exact. Files lie in a folder of their own, which is the working folder, so names are short.
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

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

struct row {
    const char *file, *content, *message, *hint;
};

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

/* All rows are tried before the test fails. */
static void assert_all_refused(const struct row *rows, size_t count)
{
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        struct model *model = NULL;
        const char *hint = rows[i].hint ? rows[i].hint : "(none)";
        write_bytes(rows[i].file, rows[i].content, strlen(rows[i].content));
        weft_status status = model_open(rows[i].file, NULL, &model);
        const weft_error *error = weft_last_error();
        bool as_expected = status == WEFT_BAD_INPUT && !strcmp(error->message, rows[i].message) &&
                           !strcmp(error->hint ? error->hint : "(none)", hint);
        if (!as_expected)
            print_error("row %zu: %s\n  hint %s\nexpected %s\n  hint %s\n", i,
                        status ? error->message : "accepted", error->hint ? error->hint : "(none)",
                        rows[i].message, hint);
        failed += !as_expected;
        model_free(model);
        unlink(rows[i].file);
    }
    assert_int_equal(failed, 0);
}

/* ---- names --------------------------------------------------------------------------------------------- */

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
                   "model.txt: has no ending that Weft knows, expected .yaml, .yml, .json or .onnx",
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
    assert_refused("gpt2", "seq: 3, seq: 4", "given options:1: 'seq' stands twice, first in line 1",
                   "keep one of the two");
    assert_refused("gpt2", "seq: [",
                   "given options:1: is not valid YAML: did not find expected node content",
                   "check the indentation and the quotes around here");
    assert_refused("gpt2", "heads: 7",
                   "given options:1: 'heads' is 7, expected a divisor of 'hidden', 768", NULL);
    assert_refused("gpt2", "attention: flush",
                   "given options:1: 'attention' is 'flush', expected one of flash, fused, eager, "
                   "flash-v1, flash-v2",
                   "did you mean 'flash'?");
}

/* ---- YAML ------------------------------------------------------------------------------------------------ */

#define IMAGE  "inputs: {x: [3, 8, 8]}\noperators:\n"
#define VECTOR "inputs: {x: [16]}\noperators:\n"
#define TOKENS "inputs: {x: [4, 16]}\noperators:\n"

static const struct row YAML_ROWS[] = {
    /* no document, or no mapping */
    {"m.yaml", "", "m.yaml:1: is empty, expected a mapping", NULL},
    {"m.yaml", "# only a comment\n", "m.yaml:2: is empty, expected a mapping", NULL},
    {"m.yaml", "- a\n- b\n",
     "m.yaml:1: 'the value' is a list, expected a mapping of keys to values", NULL},
    {"m.yaml", "just words\n",
     "m.yaml:1: 'the value' is 'just words', expected a mapping of keys to values", NULL},
    {"m.yaml", "family: gpt\n---\nfamily: gpt\n",
     "m.yaml:2: starts a second YAML document, expected one", "split the file"},
    /* not YAML */
    {"m.yaml", "family: gpt\noptions: {layers: 2,\n",
     "m.yaml:3: is not valid YAML: did not find expected node content",
     "check the indentation and the quotes around here"},
    {"m.yaml", "family: gpt\n\toptions: 3\n",
     "m.yaml:2: is not valid YAML: found a tab character that violates indentation",
     "check the indentation and the quotes around here"},
    {"m.yaml", "family: \"gpt\n", "m.yaml:2: is not valid YAML: found unexpected end of stream",
     "check the indentation and the quotes around here"},
    {"m.yaml", "name: x\nfamily: \xff\xfe\n", "m.yaml:2: is not text: invalid leading UTF-8 octet",
     "save it as UTF-8 text"},
    {"m.yaml", "name: a\001b\n", "m.yaml:1: is not text: control characters are not allowed",
     "save it as UTF-8 text"},
    {"m.yaml", "a: &x 1\nb: *x\n", "m.yaml:2: uses a YAML alias (*x), which Weft does not read",
     "write the value out"},
    {"m.yaml", "? [a]\n: 1\n", "m.yaml:1: expected a key, found a nested value", NULL},
    /* families */
    {"m.yaml", "family: gpt\nfamily: bert\n", "m.yaml:2: 'family' stands twice, first in line 1",
     "keep one of the two"},
    {"m.yaml", "famly: gpt\n", "m.yaml:1: 'famly' is not a known key here",
     "did you mean 'family'?"},
    {"m.yaml", "name: x\n",
     "m.yaml:1: has no operators, expected one of 'family', 'base' and 'operators'", NULL},
    {"m.yaml", "family: gpt\nbase: gpt2\n",
     "m.yaml:1: has a 'family' and a 'base', expected one of 'family', 'base' and 'operators'",
     NULL},
    {"m.yaml", "name: x\nfamily: lama\n",
     "m.yaml:2: 'lama' is not a family, expected one of gpt, llama, moe, bert, t5, vit, swin, "
     "resnet, vgg, inception, alexnet, dlrm",
     "did you mean 'llama'?"},
    {"m.yaml", "base: gpt3-13bb\n", "m.yaml:1: 'gpt3-13bb' is not a preset",
     "did you mean 'gpt3-13b'?"},
    {"m.yaml", "family: [gpt]\n", "m.yaml:1: 'family' is a list, expected text", NULL},
    {"m.yaml", "family: gpt\noptions: 3\n", "m.yaml:2: 'options' is a number, expected a mapping",
     NULL},
    {"m.yaml", "family: gpt\n",
     "m.yaml:1: 'layers' is missing, expected a whole number of at least 1", NULL},
    {"m.yaml", "family: gpt\noptions:\n  layers: 2\n  hidden: 64\n  heads: 4\n  vocap: 100\n",
     "m.yaml:6: 'vocap' is not a known key here", "did you mean 'vocab'?"},
    {"m.yaml", "family: gpt\noptions:\n  layers: -2\n",
     "m.yaml:3: 'layers' is '-2', expected a whole number of at least 1", NULL},
    {"m.yaml", "family: gpt\noptions:\n  layers: 99999999999999999999\n",
     "m.yaml:3: 'layers' is '99999999999999999999', expected a whole number of at least 1", NULL},
    {"m.yaml", "family: gpt\noptions:\n  layers: 9999999999\n",
     "m.yaml:3: 'layers' is 9999999999, expected a number from 1 to 1000000", NULL},
    {"m.yaml", "family: gpt\noptions:\n  layers: many\n",
     "m.yaml:3: 'layers' is 'many', expected a whole number of at least 1", NULL},
    {"m.yaml", "family: gpt\noptions:\n  layers: 2.5\n",
     "m.yaml:3: 'layers' is '2.5', expected a whole number of at least 1", NULL},
    {"m.yaml", "family: gpt\noptions:\n  layers: {a: 1}\n",
     "m.yaml:3: 'layers' is a mapping, expected a whole number of at least 1", NULL},
    {"m.yaml", "family: gpt\noptions: {layers: 2, hidden: 64, heads: 5}\n",
     "m.yaml:2: 'heads' is 5, expected a divisor of 'hidden', 64", NULL},
    /* operators: items */
    {"m.yaml", "operators: []\n",
     "m.yaml:1: 'operators' is an empty list, expected a list of at least one item", NULL},
    {"m.yaml", "operators: 3\n",
     "m.yaml:1: 'operators' is a number, expected a list of at least one item", NULL},
    {"m.yaml", IMAGE "  - relu\n",
     "m.yaml:3: an item is text, expected a mapping with 'kind', 'module' or 'repeat'", NULL},
    {"m.yaml", IMAGE "  - {name: x}\n",
     "m.yaml:3: an item has none of 'kind', 'module' and "
     "'repeat'",
     NULL},
    {"m.yaml", IMAGE "  - {kind: con, out: 3}\n", "m.yaml:3: 'con' is not an operator kind",
     "did you mean 'conv'?"},
    {"m.yaml", IMAGE "  - {kind: zzzzzz}\n", "m.yaml:3: 'zzzzzz' is not an operator kind",
     "docs/model-file.md lists the kinds"},
    {"m.yaml", IMAGE "  - {kind: conv, out: 3, kernal: 3}\n",
     "m.yaml:3: 'kernal' is not a known key here", "did you mean 'kernel'?"},
    {"m.yaml", IMAGE "  - {kind: relu}\nlayer: 3\n", "m.yaml:4: 'layer' is not a known key here",
     "did you mean 'layers'?"},
    /* operators: names */
    {"m.yaml",
     "inputs: {image: [3, 8, 8]}\noperators:\n  - {kind: relu, name: a}\n"
     "  - {kind: relu, input: aa}\n",
     "m.yaml:4: 'aa' is not defined, expected the name of an input or of an operator above",
     "did you mean 'a'?"},
    {"m.yaml", IMAGE "  - {kind: add, name: a, inputs: [x, b]}\n  - {kind: relu, name: b}\n",
     "m.yaml:3: 'b' is made further down, in line 4",
     "an operator reads what stands above it: is this a cycle?"},
    {"m.yaml", IMAGE "  - {kind: relu, name: a, input: a}\n",
     "m.yaml:3: 'a' is made further down, in line 3",
     "an operator reads what stands above it: is this a cycle?"},
    {"m.yaml", IMAGE "  - {kind: relu, name: a}\n  - {kind: relu, name: a}\n",
     "m.yaml:4: the name 'a' stands twice, first in line 3", "give one of the two another name"},
    {"m.yaml", IMAGE "  - {kind: relu, input: x, inputs: [x]}\n",
     "m.yaml:3: has 'input' and 'inputs'", "use one of the two"},
    {"m.yaml", IMAGE "  - {kind: add, inputs: x}\n",
     "m.yaml:3: 'inputs' is text, expected a list of at most 64 names", NULL},
    {"m.yaml", IMAGE "  - {kind: relu, input: [x]}\n",
     "m.yaml:3: an input is a list, expected a name", NULL},
    {"m.yaml", IMAGE "  - {kind: add, input: x}\n", "m.yaml:3: 'add' has 1 inputs, expected 2",
     "name them with 'input' or 'inputs'"},
    {"m.yaml", "operators:\n  - {kind: relu}\n", "m.yaml:2: 'relu' has 0 inputs, expected 1",
     "name them with 'input' or 'inputs'"},
    {"m.yaml",
     IMAGE "  - module: a\n    operators: [{kind: relu, name: inner}]\n"
           "  - {kind: relu, input: inner}\n",
     "m.yaml:5: 'inner' is not defined, expected the name of an input or of an operator above",
     NULL},
    {"m.yaml", IMAGE "  - module: a\n    output: b\n    operators: [{kind: relu, name: c}]\n",
     "m.yaml:4: 'b' is not defined, expected the name of an input or of an operator above", NULL},
    /* operators: sizes */
    {"m.yaml", "inputs: [3]\noperators: [{kind: relu}]\n",
     "m.yaml:1: 'inputs' is a list, expected a mapping of names to shapes", NULL},
    {"m.yaml", "inputs: {x: [3, -8]}\noperators: [{kind: relu}]\n",
     "m.yaml:1: 'x' holds -8, expected 1 to 4294967296", NULL},
    {"m.yaml", "inputs: {x: [3, 8, many]}\noperators: [{kind: relu}]\n",
     "m.yaml:1: 'the value' is 'many', expected a whole number", NULL},
    {"m.yaml", "inputs: {x: [1, 2, 3, 4, 5]}\noperators: [{kind: relu}]\n",
     "m.yaml:1: 'x' is a list of 5, expected 1 to 4 numbers", NULL},
    {"m.yaml", "inputs: {x: []}\noperators: [{kind: relu}]\n",
     "m.yaml:1: 'x' is a list of 0, expected 1 to 4 numbers", NULL},
    {"m.yaml", "inputs: {x: [4294967296, 4294967296]}\noperators: [{kind: relu}]\n",
     "m.yaml:1: 'input' would have an axis of 4294967296, expected positive sizes whose product "
     "is below 2^50",
     NULL},
    {"m.yaml", "inputs: {x: {shape: [3], element: idex}}\noperators: [{kind: relu}]\n",
     "m.yaml:1: 'element' is 'idex', expected one of compute, index", "did you mean 'index'?"},
    {"m.yaml", VECTOR "  - {kind: linear, out: 0}\n",
     "m.yaml:3: 'out' is '0', expected a whole number of at least 1", NULL},
    {"m.yaml", VECTOR "  - {kind: linear, out: 99999999999}\n",
     "m.yaml:3: 'out' is 99999999999, expected a number from 1 to 4294967296", NULL},
    {"m.yaml", VECTOR "  - {kind: linear}\n",
     "m.yaml:3: 'linear' has neither, expected either 'out' or 'tied'", NULL},
    {"m.yaml", VECTOR "  - {kind: linear, out: 3, tied: x}\n",
     "m.yaml:3: 'linear' has both, expected either 'out' or 'tied'", NULL},
    {"m.yaml", VECTOR "  - {kind: linear, tied: x}\n",
     "m.yaml:3: 'x' is not an embedding of width 16, which 'tied' expects", NULL},
    {"m.yaml", VECTOR "  - {kind: conv, name: c, out: 4}\n",
     "m.yaml:3: 'c' reads the shape (16), expected an image (channels, height, width)", NULL},
    {"m.yaml", IMAGE "  - {kind: conv, name: c, out: 4, kernel: 9}\n",
     "m.yaml:3: 'c' sweeps 9 x 9 over the shape (3, 8, 8), expected an image no smaller",
     "use a smaller kernel or more padding"},
    {"m.yaml", IMAGE "  - {kind: conv, out: 4, kernel: [3, 3, 3]}\n",
     "m.yaml:3: 'kernel' is a list of 3, expected 1 to 2 numbers", NULL},
    {"m.yaml", IMAGE "  - {kind: conv, out: 4, kernel: 3, pad: -1}\n",
     "m.yaml:3: 'pad' holds -1, expected 0 to 1048576", NULL},
    {"m.yaml", IMAGE "  - {kind: conv, out: 4, groups: 2}\n",
     "m.yaml:3: 'groups' is 2, expected a divisor of the 3 channels in and 4 out", NULL},
    {"m.yaml", IMAGE "  - {kind: linear, name: fc, out: 4}\n",
     "m.yaml:3: 'fc' reads the shape (3, 8, 8), expected (features) or (seq, features)", NULL},
    {"m.yaml", TOKENS "  - {kind: attention, name: a, heads: 5}\n",
     "m.yaml:3: 'a' reads 16 features per position, expected 15 times a head's width", NULL},
    {"m.yaml", TOKENS "  - {kind: attention, heads: 4, kv_heads: 3}\n",
     "m.yaml:3: 'kv_heads' is 3, expected a divisor of 'heads', 4", NULL},
    {"m.yaml", TOKENS "  - {kind: attention, name: a, heads: 4, inputs: [x, x]}\n",
     "m.yaml:3: 'a' has 2 inputs, expected 1 or 3", NULL},
    {"m.yaml",
     TOKENS "  - {kind: linear, name: k, out: 12}\n"
            "  - {kind: attention, name: a, heads: 4, inputs: [x, k, k]}\n",
     "m.yaml:4: 'a' reads the shapes (4, 16) and (4, 12), which do not match", NULL},
    {"m.yaml",
     TOKENS "  - {kind: linear, name: y, out: 8}\n"
            "  - {kind: add, name: s, inputs: [x, y]}\n",
     "m.yaml:4: 's' reads the shapes (4, 16) and (4, 8), which do not match", NULL},
    {"m.yaml",
     TOKENS "  - {kind: linear, name: y, out: 8}\n"
            "  - {kind: concat, name: c, inputs: [x, y], axis: 1}\n",
     "m.yaml:4: 'c' reads the shapes (4, 16) and (4, 8), which do not match", NULL},
    {"m.yaml", TOKENS "  - {kind: concat, inputs: [x, x], axis: 3}\n",
     "m.yaml:3: 'axis' is 3, expected 1 to 2", NULL},
    {"m.yaml", TOKENS "  - {kind: linear, out: 7}\n  - {kind: gated, name: g}\n",
     "m.yaml:4: 'g' reads the shape (4, 7), expected an even number of features: gate and value",
     NULL},
    {"m.yaml", TOKENS "  - {kind: rotary, name: turned, depth: 5}\n",
     "m.yaml:3: 'turned' reads the shape (4, 16), expected heads of `depth` features", NULL},
    {"m.yaml", TOKENS "  - {kind: router, experts: 4, top_k: 5}\n",
     "m.yaml:3: 'top_k' is 5, expected at most 'experts', 4", NULL},
    {"m.yaml", TOKENS "  - {kind: dispatch, name: d, inputs: [x, x]}\n",
     "m.yaml:3: 'd' does not read the scores of a router, expected as its second input", NULL},
    {"m.yaml", TOKENS "  - {kind: expert_linear, name: e, out: 4}\n",
     "m.yaml:3: 'e' does not read dispatched tokens, expected as its input", NULL},
    {"m.yaml", TOKENS "  - {kind: view, name: v, shape: [4, 15]}\n",
     "m.yaml:3: 'v' reads the shape (4, 16), expected as many elements as in 'shape'", NULL},
    {"m.yaml", TOKENS "  - {kind: reshape}\n", "m.yaml:3: 'shape' is missing, expected a value",
     NULL},
    /* repeats */
    {"m.yaml", TOKENS "  - {repeat: 0, name: r, operators: [{kind: relu}]}\n",
     "m.yaml:3: 'repeat' is '0', expected a whole number of at least 1", NULL},
    {"m.yaml", TOKENS "  - repeat: 2\n    operators: [{kind: relu}]\n",
     "m.yaml:3: 'name' is missing, expected text", NULL},
    {"m.yaml",
     TOKENS "  - repeat: 2\n    name: r\n    operators:\n      - {kind: linear, out: 8}\n",
     "m.yaml:3: 'r' repeats but ends with another shape than it starts from",
     "give the last operator the shape of the first one's input"},
    {"m.yaml", "operators:\n  - {repeat: 2, name: r, operators: [{kind: relu}]}\n",
     "m.yaml:2: 'r' repeats without an input", "name it with 'input'"},
    {"m.yaml",
     TOKENS "  - repeat: 1000000\n    name: a\n    operators:\n"
            "      - repeat: 1000000\n        name: b\n        operators:\n"
            "          - repeat: 1000000\n            name: c\n            operators:\n"
            "              - {kind: relu}\n",
     "m.yaml:9: makes more than 2^40 copies of its operators", NULL},
};

static void broken_yaml(void **state)
{
    (void)state;
    assert_all_refused(YAML_ROWS, COUNT_OF(YAML_ROWS));
}

static void options_on_operators(void **state)
{
    (void)state;
    static const char TEXT[] = TOKENS "  - {kind: relu}\n";
    write_bytes("m.yaml", TEXT, sizeof TEXT - 1);
    assert_refused("m.yaml", "seq: 3",
                   "given options:1: options do not apply to operators written out",
                   "change the sizes in the file");
}

/* ---- Hugging Face ---------------------------------------------------------------------------------------- */

#define KNOWN                                                                                      \
    "gpt2, gpt_neox, opt, llama, mistral, mixtral, qwen2, qwen3, qwen2_moe, qwen3_moe, "           \
    "deepseek_v2, deepseek_v3, gemma, phi3, bert, t5, vit, swin, resnet"

static const struct row JSON_ROWS[] = {
    {"config.json", "", "config.json:1: is not valid JSON: '[' or '{' expected near end of file",
     NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n",
     "config.json:2: is not valid JSON: string or '}' expected near end of file", NULL},
    {"config.json", "{\"model_type\": \"gpt2\"\n \"n_layer\": 3}",
     "config.json:2: is not valid JSON: '}' expected near '\"n_layer\"'", NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n \"n_layer\": 3,\n \"n_layer\": 4}",
     "config.json:3: is not valid JSON: duplicate object key near '\"n_layer\"'", NULL},
    {"config.json", "{\"n_layer\": 99999999999999999999}",
     "config.json:1: is not valid JSON: too big integer near '99999999999999999999'", NULL},
    {"config.json", "{\"model_type\": \"gp\xff\"}",
     "config.json:1: is not valid JSON: unable to decode byte 0xff near '\"gp'", NULL},
    {"config.json", "\xff\xfe{", "config.json:1: is UTF-16, expected UTF-8",
     "save it as UTF-8 text"},
    {"config.json", "[1, 2]",
     "config.json:1: 'the value' is a list, expected a mapping of keys to values", NULL},
    {"config.json", "{\"n_layer\": 3}",
     "config.json:1: has no 'model_type', expected a Hugging Face config", NULL},
    {"config.json", "{\n  \"model_type\": \"gpt3\"\n}",
     "config.json:2: 'model_type' is 'gpt3', expected one of " KNOWN, "did you mean 'gpt2'?"},
    {"config.json", "{\n  \"model_type\": \"whisper-something\"\n}",
     "config.json:2: 'model_type' is 'whisper-something', expected one of " KNOWN,
     "write the model down as operators: see docs/model-file.md"},
    {"config.json", "{\"model_type\": 3}",
     "config.json:1: has no 'model_type', expected the name of one", NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n\n \"n_layer\": \"twelve\"}",
     "config.json:3: 'n_layer' is 'twelve', expected a whole number of at least 1", NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n \"n_layer\": -12}",
     "config.json:2: 'n_layer' is '-12', expected a whole number of at least 1", NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n \"n_layer\": 1e300}",
     "config.json:2: 'n_layer' is '1.0000000000000001e+300', expected a whole number of at least 1",
     NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n \"n_layer\": [12]}",
     "config.json:2: 'n_layer' is a list, expected a whole number of at least 1", NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n \"n_embd\": 9223372036854775807}",
     "config.json:2: 'hidden' is 9223372036854775807, expected a number from 1 to 10000000", NULL},
    {"config.json", "{\"model_type\": \"gpt2\",\n \"n_head\": 5}",
     "config.json:2: 'heads' is 5, expected a divisor of 'hidden', 768", NULL},
    {"config.json", "{\"model_type\": \"llama\",\n \"tie_word_embeddings\": \"no\"}",
     "config.json:2: 'tie_word_embeddings' is 'no', expected true or false", NULL},
    {"config.json", "{\"model_type\": \"opt\",\n \"dropout\": \"high\"}",
     "config.json:2: 'dropout' is 'high', expected a number", NULL},
    {"config.json", "{\"model_type\": \"deepseek_v2\",\n \"n_shared_experts\": -1}",
     "config.json:2: 'n_shared_experts' is -1, expected a whole number of at least 0", NULL},
    {"config.json", "{\"model_type\": \"swin\",\n \"num_heads\": [3, 6, 13]}",
     "config.json:2: 'num_heads' holds 13, expected each number to be twice the last", NULL},
    {"config.json", "{\"model_type\": \"swin\",\n \"num_heads\": []}",
     "config.json:2: 'num_heads' is a list, expected a list of numbers", NULL},
    {"config.json", "{\"model_type\": \"vit\",\n \"id2label\": 7}",
     "config.json:2: 'id2label' is a number, expected a mapping of numbers to labels", NULL},
    {"config.json", "{\"model_type\": \"vit\",\n \"id2label\": {}}",
     "config.json:2: 'id2label' is a mapping, expected a mapping of numbers to labels", NULL},
};

static void broken_json(void **state)
{
    (void)state;
    assert_all_refused(JSON_ROWS, COUNT_OF(JSON_ROWS));
}

/* ---- depth and size ---------------------------------------------------------------------------------------- */

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

/* ---- ONNX --------------------------------------------------------------------------------------------------- */

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
    static const struct row ROWS[] = {
        {"m.onnx", "", "m.onnx: is empty, expected an ONNX model", NULL},
        {"m.onnx", "hello, world",
         "m.onnx: is not valid protobuf at byte 2: expected a whole field",
         "is the file complete, and is it ONNX?"},
        {"m.onnx", "\x08", "m.onnx: is not valid protobuf at byte 0: expected a whole field",
         "is the file complete, and is it ONNX?"},
        {"m.onnx", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
         "m.onnx: is not valid protobuf at byte 0: expected a whole field",
         "is the file complete, and is it ONNX?"},
        {"m.onnx", "\x08\x08", "m.onnx: has no graph, expected an ONNX model",
         "is this an ONNX model?"},
        {"m.onnx", "\x12\x01z", "m.onnx: has no ir_version, expected an ONNX model",
         "is this an ONNX model?"},
        {"m.onnx", "\x0a\x01z",
         "m.onnx: has fields of other types than ONNX's, expected an ONNX "
         "model",
         "is this an ONNX model?"},
    };
    assert_all_refused(ROWS, COUNT_OF(ROWS));
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
    assert_onnx_refused(&w, NULL, "m.onnx: node 1 'two' (Add) is part of a cycle, or behind one",
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

/* ---- the working folder ---------------------------------------------------------------------------------- */

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
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

/* test_safetensors.c - tensors in files that other tools read: against Python, and broken ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "run/checkpoint/safetensors.h"
#include "scratch_folder.h"

static const float FLOATS[] = {1, -2.5F, 3e38F, 0, 1e-45F, 6};
static const uint16_t HALVES[] = {0x3c00, 0xc500, 0x7bff, 0x0001}; /* 1, -5, 65504, 2^-24 */
static const int64_t LONGS[] = {-1, INT64_C(1) << 40};

static const struct tensor_values TENSORS[] = {
    {"z.weight", STORED_F32, 2, (int64_t[]){2, 3}, FLOATS, NULL, NULL},
    {"half", STORED_F16, 1, (int64_t[]){4}, HALVES, NULL, NULL},
    {"a \"quoted\" \xc3\xa9", STORED_BF16, 2, (int64_t[]){4, 1}, HALVES, NULL, NULL},
    {"long", STORED_I64, 1, (int64_t[]){2}, LONGS, NULL, NULL},
    {"scalar", STORED_F32, 0, NULL, FLOATS + 1, NULL, NULL},
    {"empty", STORED_F32, 2, (int64_t[]){0, 7}, FLOATS, NULL, NULL},
};
static const struct stored_note NOTES[] = {{"step", "7"}, {"format", "pt"}};

static const char *write_example(const struct scratch *scratch)
{
    const char *path = scratch_path(scratch, "example.safetensors");
    struct written written;
    assert_ok(tensor_file_write(&REAL_DISK, path, TENSORS, COUNT_OF(TENSORS), NOTES,
                                COUNT_OF(NOTES), &written));
    char *text;
    size_t len;
    assert_ok(file_read(scratch->arena, path, 1 << 20, &text, &len));
    assert_int_equal(written.bytes, len);
    assert_true(written.hash == hash_bytes(text, len, 0));
    return path;
}

/* ---- round trips ----------------------------------------------------------------------------- */

static void what_is_written_is_read(void **state)
{
    struct scratch *scratch = *state;
    struct tensor_file file;
    assert_ok(tensor_file_open(scratch->arena, write_example(scratch), &file));
    assert_int_equal(file.tensors, COUNT_OF(TENSORS));
    for (size_t i = 0; i < COUNT_OF(TENSORS); i++) {
        const struct stored_tensor *found = tensor_file_find(&file, TENSORS[i].name);
        assert_non_null(found);
        assert_int_equal(found->dtype, TENSORS[i].dtype);
        assert_int_equal(found->axes, TENSORS[i].axes);
        for (int64_t k = 0; k < found->axes; k++)
            assert_int_equal(found->shape[k], TENSORS[i].shape[k]);
        assert_int_equal((uintptr_t)found->data % (uintptr_t)stored_bytes(found->dtype),
                         0); /* I3 */
        assert_memory_equal(found->data, TENSORS[i].data,
                            (size_t)(found->elements * stored_bytes(found->dtype)) +
                                !found->elements);
    }
    assert_null(tensor_file_find(&file, "half "));
    assert_string_equal(tensor_file_note(&file, "step"), "7");
    assert_string_equal(tensor_file_note(&file, "format"), "pt");
    assert_null(tensor_file_note(&file, "steps"));
    tensor_file_close(&file);
}

static weft_status fill_squares(void *context, int64_t first, int64_t count, void *out)
{
    int64_t *next = context;
    assert_int_equal(first, *next); /* one piece after the other */
    *next += count;
    for (int64_t i = 0; i < count; i++)
        ((float *)out)[i] = (float)((first + i) * (first + i));
    return WEFT_OK;
}

/* Larger than the piece that is asked for at once. */
static void tensors_are_streamed(void **state)
{
    enum { COUNT = 700001 };
    struct scratch *scratch = *state;
    int64_t next = 0, shape[] = {COUNT};
    struct tensor_values tensor = {"squares", STORED_F32, 1, shape, NULL, fill_squares, &next};
    const char *path = scratch_path(scratch, "stream.safetensors");
    struct tensor_file file;
    struct written written;
    assert_ok(tensor_file_write(&REAL_DISK, path, &tensor, 1, NULL, 0, &written));
    assert_int_equal(next, COUNT);
    assert_ok(tensor_file_open(scratch->arena, path, &file));
    float *found = ARENA_ARRAY(scratch->arena, float, COUNT);
    assert_true(stored_to_float(STORED_F32, file.tensor[0].data, COUNT, found));
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(found[i] == (float)(i * i));
    tensor_file_close(&file);
}

static void no_tensors_are_a_file_too(void **state)
{
    struct scratch *scratch = *state;
    const char *path = scratch_path(scratch, "none.safetensors");
    struct tensor_file file;
    struct written written;
    assert_ok(tensor_file_write(&REAL_DISK, path, NULL, 0, NULL, 0, &written));
    assert_ok(tensor_file_open(scratch->arena, path, &file));
    assert_int_equal(file.tensors, 0);
    assert_null(tensor_file_find(&file, "x"));
    tensor_file_close(&file);
}

static void names_must_be_names(void **state)
{
    struct scratch *scratch = *state;
    const char *path = scratch_path(scratch, "names.safetensors");
    struct tensor_values twice[] = {TENSORS[0], TENSORS[0]};
    struct written written;
    assert_refused(tensor_file_write(&REAL_DISK, path, twice, 2, NULL, 0, &written), WEFT_BAD_INPUT,
                   "the 2 tensors have names that no safetensors file can have");
    twice[1].name = "\xff";
    assert_refused(tensor_file_write(&REAL_DISK, path, twice, 2, NULL, 0, &written), WEFT_BAD_INPUT,
                   "the 2 tensors have names that no safetensors file can have");
}

/* IEEE 754 by hand: 0x3555 = 2^-2 * (1 + 0x155/1024); bf16 0x4049 = 2 * (1 + 0x49/128). */
static void halves_become_floats(void **state)
{
    static const struct {
        enum stored dtype;
        uint16_t bits;
        float value;
    } ROWS[] = {
        {STORED_F16, 0x3c00, 1},
        {STORED_F16, 0xc500, -5},
        {STORED_F16, 0x7bff, 65504},
        {STORED_F16, 0x0001, 0x1p-24F},
        {STORED_F16, 0x83ff, -1023 * 0x1p-24F},
        {STORED_F16, 0x0400, 0x1p-14F},
        {STORED_F16, 0x3555, 0.25F * (1 + 341 / 1024.0F)},
        {STORED_F16, 0x7c00, INFINITY},
        {STORED_F16, 0xfc00, -INFINITY},
        {STORED_F16, 0x8000, -0.0F},
        {STORED_BF16, 0x3f80, 1},
        {STORED_BF16, 0x4049, 2 * (1 + 73 / 128.0F)},
        {STORED_BF16, 0xff80, -INFINITY},
        {STORED_BF16, 0x0001, 0x1p-133F},
    };
    (void)state;
    float found;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_true(stored_to_float(ROWS[i].dtype, &ROWS[i].bits, 1, &found));
        assert_memory_equal(&found, &ROWS[i].value, sizeof found);
    }
    uint16_t quiet = 0x7e01;
    assert_true(stored_to_float(STORED_F16, &quiet, 1, &found) && isnan(found));
    assert_false(stored_to_float(STORED_I64, LONGS, 2, &found));
}

/* ---- against Python's own json and struct ---------------------------------------------------- */

static void python_reads_what_is_written(void **state)
{
    static const char SCRIPT[] =
        "import json, struct, sys\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "n, = struct.unpack('<Q', data[:8])\n"
        "header, body = json.loads(data[8:8 + n]), data[8 + n:]\n"
        "assert n % 8 == 0 and data[8:9] == b'{'\n"
        "assert header.pop('__metadata__') == {'step': '7', 'format': 'pt'}\n"
        "assert list(header) == ['long', 'empty', 'scalar', 'z.weight', 'a \"quoted\" \\u00e9', "
        "'half']\n"
        "def values(name, code):\n"
        "    begin, end = header[name]['data_offsets']\n"
        "    return list(struct.unpack('<%d%s' % ((end - begin) // struct.calcsize(code), code),"
        " body[begin:end]))\n"
        "assert header['z.weight']['shape'] == [2, 3] and header['z.weight']['dtype'] == 'F32'\n"
        "assert values('z.weight', 'f')[:2] == [1, -2.5] and values('z.weight', 'f')[5] == 6\n"
        "assert header['half']['dtype'] == 'F16' and values('half', 'e') == [1, -5, 65504, "
        "2**-24]\n"
        "assert values('long', 'q') == [-1, 2**40]\n"
        "assert header['scalar']['shape'] == [] and values('scalar', 'f') == [-2.5]\n"
        "assert header['empty']['shape'] == [0, 7] and values('empty', 'f') == []\n"
        "at = 0\n"
        "for tensor in header.values():\n"
        "    assert tensor['data_offsets'][0] == at\n"
        "    at = tensor['data_offsets'][1]\n"
        "assert at == len(body)\n";
    struct scratch *scratch = *state;
    const char *script = put_file(scratch, "read.py", SCRIPT, strlen(SCRIPT));
    assert_int_equal(
        system(arena_printf(scratch->arena, "python3 %s %s", script, write_example(scratch))), 0);
}

static void what_python_writes_is_read(void **state)
{
    static const char SCRIPT[] =
        "import json, struct, sys\n"
        "header = {'b': {'data_offsets': [12, 17], 'shape': [5], 'dtype': 'U8'},\n"
        "          '__metadata__': {'who': 'python \\u2713'},\n"
        "          'a': {'dtype': 'F32', 'shape': [3, 1], 'data_offsets': [0, 12]},\n"
        "          'c': {'dtype': 'F64', 'shape': [], 'data_offsets': [17, 25]}}\n"
        "text = json.dumps(header).encode() + b'   '\n"
        "open(sys.argv[1], 'wb').write(struct.pack('<Q', len(text)) + text +\n"
        "    struct.pack('<3f', 1, 2, 3.5) + bytes(range(5)) + struct.pack('<d', 0.1))\n";
    struct scratch *scratch = *state;
    const char *script = put_file(scratch, "write.py", SCRIPT, strlen(SCRIPT));
    const char *path = scratch_path(scratch, "python.safetensors");
    struct tensor_file file;
    assert_int_equal(system(arena_printf(scratch->arena, "python3 %s %s", script, path)), 0);
    assert_ok(tensor_file_open(scratch->arena, path, &file));
    assert_string_equal(tensor_file_note(&file, "who"), "python \xe2\x9c\x93");
    float values[3];
    assert_true(stored_to_float(STORED_F32, tensor_file_find(&file, "a")->data, 3, values));
    assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3.5F);
    assert_memory_equal(tensor_file_find(&file, "b")->data, "\0\1\2\3\4", 5);
    double tenth;
    memcpy(&tenth, tensor_file_find(&file, "c")->data, sizeof tenth);
    assert_true(tenth == 0.1);
    tensor_file_close(&file);
}

/* ---- broken files ---------------------------------------------------------------------------- */

static weft_status parse_header(struct arena *arena, const char *header, size_t data_bytes,
                                struct tensor_file *out)
{
    uint64_t len = strlen(header);
    uint8_t *bytes = arena_alloc(arena, sizeof len + len + data_bytes, 1);
    memcpy(bytes, &len, sizeof len);
    memcpy(bytes + sizeof len, header, len);
    return tensor_file_parse(arena, "x", bytes, sizeof len + len + data_bytes, out);
}

#define TENSOR(name, dtype, shape, offsets)                                                        \
    "\"" name "\": {\"dtype\": \"" dtype "\", \"shape\": [" shape "], \"data_offsets\": [" offsets \
    "]}"

static void broken_headers_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message;
    } WRONG[] = {
        {"{\"a\": 3}", 0, "x: tensor 'a' lacks one of dtype, shape and two data_offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": []}}", 4,
         "x: tensor 'a' lacks one of dtype, shape and two data_offsets"},
        {"{" TENSOR("a", "F32", "", "0") "}", 4,
         "x: tensor 'a' lacks one of dtype, shape and two data_offsets"},
        {"{" TENSOR("a", "F31", "1", "0, 4") "}", 4,
         "x: tensor 'a' has the dtype 'F31', which Weft does not read"},
        {"{" TENSOR("a", "F32", "-1", "0, 4") "}", 4,
         "x: tensor 'a' has a size or an offset that is no whole number"},
        {"{" TENSOR("a", "F32", "1.5", "0, 6") "}", 6,
         "x: tensor 'a' has a size or an offset that is no whole number"},
        {"{" TENSOR("a", "F32", "\\\"1\\\"", "0, 4") "}", 4, NULL},
        {"{" TENSOR("a", "F32", "2", "0, 4") "}", 4,
         "x: tensor 'a' has offsets that do not fit its shape and dtype"},
        {"{" TENSOR("a", "F32", "1", "0, 8") "}", 8,
         "x: tensor 'a' has offsets that do not fit its shape and dtype"},
        {"{" TENSOR("a", "F32", "1", "4, 0") "}", 4,
         "x: tensor 'a' has offsets that do not fit its shape and dtype"},
        {"{" TENSOR("a", "F32", "4611686018427387904, 4", "0, 0") "}", 0,
         "x: tensor 'a' has offsets that do not fit its shape and dtype"},
        {"{" TENSOR("a", "F64", "2305843009213693952", "0, 0") "}", 0,
         "x: tensor 'a' has offsets that do not fit its shape and dtype"},
        {"{" TENSOR("a", "F32", "2", "0, 8") ", " TENSOR("b", "F32", "2", "4, 12") "}", 12,
         "x: tensor 'b' overlaps another one"},
        {"{" TENSOR("a", "F32", "1", "0, 4") ", " TENSOR("b", "F32", "1", "8, 12") "}", 12,
         "x: tensor 'b' is not where the one before it ends"},
        {"{" TENSOR("a", "F32", "2", "0, 8") "}", 7,
         "x: tensor 'a' ends after the end of the file"},
        {"{" TENSOR("a", "F32", "1", "0, 4") "}", 5,
         "x: has 5 bytes of data, of which its header describes 4"},
        {"{}", 1, "x: has 1 bytes of data, of which its header describes 0"},
        {"{\"__metadata__\": []}", 0, "x: __metadata__ is a list, expected a mapping"},
        {"{\"__metadata__\": {\"a\": 1}}", 0, "x: 'a' of __metadata__ is a number, expected text"},
        {"{" TENSOR("a", "F32", "", "0, 4") ", " TENSOR("a", "F32", "", "4, 8") "}", 8, NULL},
        {"{\"a\": }", 0, NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct arena *arena = arena_new();
        struct tensor_file file;
        weft_status status = parse_header(arena, WRONG[i].header, WRONG[i].data_bytes, &file);
        if (WRONG[i].message)
            assert_refused(status, WEFT_BAD_INPUT, WRONG[i].message);
        else
            assert_int_equal(status, WEFT_BAD_INPUT); /* no JSON, in jansson's words */
        arena_free(arena);
    }
}

static void other_files_are_refused(void **state)
{
    struct scratch *scratch = *state;
    struct tensor_file file;
    const char *path = put_file(scratch, "short", "abc", 3);
    assert_refused(tensor_file_open(scratch->arena, path, &file), WEFT_BAD_INPUT,
                   "has 3 bytes, too few for a safetensors file");
    path = put_file(scratch, "text", "This is a text.", 15);
    assert_refused(tensor_file_open(scratch->arena, path, &file), WEFT_BAD_INPUT,
                   "is not a safetensors file of 15 bytes: its header would be "
                   "2338328219631577172 long");
    path = put_file(scratch, "long", "\x0c\0\0\0\0\0\0\0{}  {}  ",
                    16); /* 8 bytes more than there are */
    assert_refused(tensor_file_open(scratch->arena, path, &file), WEFT_BAD_INPUT,
                   "is not a safetensors file of 16 bytes: its header would be 12 long");
    path = put_file(scratch, "zeros", "\0\0\0\0\0\0\0\0", 8);
    assert_refused(tensor_file_open(scratch->arena, path, &file), WEFT_BAD_INPUT,
                   "is not a safetensors file of 8 bytes: its header would be 0 long");
}

/* Cut anywhere, a file is refused. */
static void files_cut_short_are_refused(void **state)
{
    struct scratch *scratch = *state;
    char *bytes;
    size_t len;
    assert_ok(file_read(scratch->arena, write_example(scratch), 1 << 20, &bytes, &len));
    for (size_t cut = 0; cut < len; cut++) {
        struct arena *arena = arena_new();
        struct tensor_file file;
        assert_int_equal(tensor_file_parse(arena, "x", (const uint8_t *)bytes, cut, &file),
                         WEFT_BAD_INPUT);
        arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(tensors_are_streamed),
        cmocka_unit_test(no_tensors_are_a_file_too),
        cmocka_unit_test(names_must_be_names),
        cmocka_unit_test(halves_become_floats),
        cmocka_unit_test(python_reads_what_is_written),
        cmocka_unit_test(what_python_writes_is_read),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(files_cut_short_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}

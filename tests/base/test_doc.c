/* test_doc.c - YAML and JSON documents: lines, kinds, and mappings as structs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static int new_arena(void **state)
{
    *state = arena_new();
    return 0;
}

static int free_arena(void **state)
{
    arena_free(*state);
    return 0;
}

static struct doc *parsed(void **state, const char *text, enum doc_format format)
{
    struct doc *root = NULL;
    if (doc_parse(*state, "d", text, strlen(text), format, &root) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return root;
}

/* "kind:line" of every node, depth first. */
static void outline(const struct doc *doc, char *out, size_t size)
{
    static const char KINDS[] = "0bntlm";
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%c%d", used ? " " : "", KINDS[doc->kind], doc->line);
    for (const struct doc *d = doc->first; d; d = d->next)
        outline(d, out, size);
}

static void assert_outline(void **state, const char *text, enum doc_format format,
                           const char *expected)
{
    char lines[256] = "";
    outline(parsed(state, text, format), lines, sizeof lines);
    assert_string_equal(lines, expected);
}

static void every_node_knows_its_line(void **state)
{
    assert_outline(state, "a: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\ne:\n  f: true\n", DOC_YAML,
                   "m1 n1 l2 t3 m4 n4 n5 m6 b7");
    assert_outline(state,
                   "{\n \"a\": 1,\n \"b\":\n  [\n   \"x:\",\n   {\"c\" : null,\n\n\"d\": 3}\n  ],\n"
                   " \"e\": {\"f\": true}, \"g\": [[], {}]}",
                   DOC_JSON, "m1 n2 l3 t5 m6 06 n8 m10 b10 l10 l10 m10");
    assert_outline(state, "[\"a\\\"b\\\\\",\n{\"k\\\"\": \"v\"},\n-1.5e3]", DOC_JSON,
                   "l1 t1 m2 t2 n3");
}

static void scalars_have_kinds(void **state)
{
    assert_outline(state, "[1, -2.5, 1e3, 0x10, true, null, ~, x, '1', \"true\", yes, 1.2.3, .inf]",
                   DOC_YAML, "l1 n1 n1 n1 n1 b1 01 01 t1 t1 t1 t1 t1 t1");
}

static void documents_may_begin_with_a_mark(void **state)
{
    struct doc *json = parsed(state, "\xef\xbb\xbf{\"a\": 1}", DOC_JSON);
    assert_string_equal(doc_get(json, "a")->text, "1");
    struct doc *yaml = parsed(state,
                              "\xef\xbb\xbf"
                              "a: 1",
                              DOC_YAML);
    assert_string_equal(doc_get(yaml, "a")->text, "1");
    static const char WIDE[] = "\xff\xfe"
                               "a\0:\0 \0"
                               "1\0";
    struct doc *wide = NULL;
    assert_int_equal(doc_parse(*state, "d", WIDE, sizeof WIDE - 1, DOC_YAML, &wide), WEFT_OK);
    assert_string_equal(doc_get(wide, "a")->text, "1");
    assert_null(doc_get(wide, "b"));
    assert_null(doc_get(doc_get(wide, "a"), "b"));
    assert_null(doc_get(NULL, "b"));
}

/* A mapping of many keys takes time in proportion, not to its square. */
static void large_mappings_are_quick(void **state)
{
    enum { KEYS = 200000 };
    char *text = arena_alloc(*state, KEYS, 12);
    size_t used = 0;
    for (int i = 0; i < KEYS; i++)
        used += (size_t)sprintf(text + used, "k%d: 1\n", i);
    assert_int_equal(parsed(state, text, DOC_YAML)->count, KEYS);
}

struct thing {
    int64_t count, whole, bytes, ns;
    double real, rate;
    bool flag;
    const char *text;
    int choice;
    const struct doc *doc;
};

static const char *const CHOICES[] = {"red", "green", NULL};
static const struct field THING[] = {
    {"count", FIELD_COUNT, offsetof(struct thing, count)},
    {"whole", FIELD_INT, offsetof(struct thing, whole), .min = -5, .max = 5},
    {"bytes", FIELD_BYTES, offsetof(struct thing, bytes)},
    {"duration", FIELD_DURATION, offsetof(struct thing, ns)},
    {"real", FIELD_REAL, offsetof(struct thing, real)},
    {"rate", FIELD_RATE, offsetof(struct thing, rate)},
    {"flag", FIELD_BOOL, offsetof(struct thing, flag)},
    {"text", FIELD_TEXT, offsetof(struct thing, text)},
    {"choice", FIELD_CHOICE, offsetof(struct thing, choice), .choices = CHOICES},
    {"doc", FIELD_DOC, offsetof(struct thing, doc)},
};

static void mappings_become_structs(void **state)
{
    struct thing thing = {.count = 9, .text = "default"};
    const struct doc *doc = parsed(state,
                                   "whole: -3\nbytes: 2KiB\nduration: 5us\nreal: 1.5\nrate: 8Gb/s\n"
                                   "flag: true\ntext: ~\nchoice: green\ndoc: [1]\n",
                                   DOC_YAML);
    assert_int_equal(doc_read(doc, THING, COUNT_OF(THING), DOC_REFUSE_UNKNOWN, &thing), WEFT_OK);
    assert_int_equal(thing.count, 9);
    assert_int_equal(thing.whole, -3);
    assert_int_equal(thing.bytes, 2048);
    assert_int_equal(thing.ns, 5000);
    assert_true(thing.real == 1.5 && thing.rate == 1e9 && thing.flag);
    assert_string_equal(thing.text, "default"); /* null is the default */
    assert_int_equal(thing.choice, 1);
    assert_int_equal(thing.doc->count, 1);
}

static void wrong_mappings_are_refused(void **state)
{
    static const struct {
        const char *text, *message, *hint;
    } ROWS[] = {
        {"count: 0", "d:1: 'count' is '0', expected a whole number of at least 1", NULL},
        {"whole: 6", "d:1: 'whole' is 6, expected a number from -5 to 5", NULL},
        {"bytes: 5 apples", "d:1: 'bytes' is '5 apples', expected a size such as 80GiB", NULL},
        {"bytes: -5", "d:1: 'bytes' is '-5', expected a size such as 80GiB", NULL},
        {"duration: 5", "d:1: 'duration' is '5', expected a duration such as 5us", NULL},
        {"real: x", "d:1: 'real' is 'x', expected a number", NULL},
        {"rate: 5GB", "d:1: 'rate' is '5GB', expected a rate such as 25GB/s or 100Gb/s", NULL},
        {"flag: yes", "d:1: 'flag' is 'yes', expected true or false", NULL},
        {"flag: \"true\"", "d:1: 'flag' is 'true', expected true or false", NULL},
        {"text: {}", "d:1: 'text' is a mapping, expected text", NULL},
        {"text: \"\\e]0;x\"", "d:1: 'text' is '?]0;x' with a control character, expected text",
         NULL},
        {"text: \"a\\u202eb\"", "d:1: 'text' is 'a?b' with a control character, expected text",
         NULL},
        /* a type's own range, where the field has none */
        {"count: 9007199254750000",
         "d:1: 'count' is 9007199254750000, expected a number from 1 to 9.00719925474e+15", NULL},
        {"real: 1e30", "d:1: 'real' is 1e30, expected a number from -1e+18 to 1e+18", NULL},
        {"bytes: 1e6TiB", "d:1: 'bytes' is 1e6TiB, expected a size from 0 B to 1024 TiB", NULL},
        {"rate: 0B/s", "d:1: 'rate' is 0B/s, expected a rate from 1 B/s to 1000 TB/s", NULL},
        {"duration: 1000000s",
         "d:1: 'duration' is 1000000s, expected a duration from 0 ns to 1.00 s", NULL},
        {"choice: gren", "d:1: 'choice' is 'gren', expected one of red, green",
         "did you mean 'green'?"},
        {"choice: [red]", "d:1: 'choice' is a list, expected one of red, green", NULL},
        {"cuont: 3", "d:1: 'cuont' is not a known key here", "did you mean 'count'?"},
        {"zzzzzzz: 3", "d:1: 'zzzzzzz' is not a known key here",
         "known keys: count, whole, bytes, duration, real, rate, flag, text, choice, doc"},
        {"[1]", "d:1: 'the value' is a list, expected a mapping of keys to values", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct thing thing = {0};
        const struct doc *doc = parsed(state, ROWS[i].text, DOC_YAML);
        assert_int_equal(doc_read(doc, THING, COUNT_OF(THING), DOC_REFUSE_UNKNOWN, &thing),
                         WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, ROWS[i].message);
        assert_string_equal(weft_last_error()->hint ? weft_last_error()->hint : "",
                            ROWS[i].hint ? ROWS[i].hint : "");
    }
}

/* Numbers that are not finite stand in what Python writes; who does not read them is not disturbed, and lines
 * stay what they are. */
static void words_for_numbers_are_read(void **state)
{
    static const char TEXT[] =
        "{\"limit\": [0.0,\n Infinity, -Infinity],\n\"s\": \"NaN: Infinity \\\" NaN\",\n"
        "\"real\":NaN,\n\"count\": 7}";
    struct thing thing = {0};
    const struct doc *doc = parsed(state, TEXT, DOC_JSON), *limit = doc_get(doc, "limit");
    assert_int_equal(limit->count, 3);
    assert_string_equal(limit->first->next->text, "Infinity");
    assert_int_equal(limit->first->next->line, 2);
    assert_string_equal(limit->first->next->next->text, "-Infinity");
    assert_string_equal(doc_get(doc, "s")->text, "NaN: Infinity \" NaN");
    assert_int_equal(doc_get(doc, "count")->line, 5);
    assert_int_equal(doc_read(doc, THING, COUNT_OF(THING), DOC_IGNORE_UNKNOWN, &thing),
                     WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "d:4: 'real' is 'NaN', expected a number");
}

/* As a value of their own, not as parts of others. */
static void words_for_numbers_stand_alone(void **state)
{
    static const char *const WRONG[] = {"[1Infinity]",  "[InfinityNaN]", "[Infinity1]",
                                        "[- Infinity]", "{NaN: 1}",      "[-NaN]",
                                        "[infinity]"};
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct doc *doc;
        assert_int_equal(doc_parse(*state, "d", WRONG[i], strlen(WRONG[i]), DOC_JSON, &doc),
                         WEFT_BAD_INPUT);
    }
}

static void needed_and_unknown_keys(void **state)
{
    static const struct field NEEDED[] = {
        {"a", FIELD_COUNT, 0, .required = true, .expected = "the number of apples"}};
    int64_t a = 0;
    const struct doc *empty = parsed(state, "{b: 1}", DOC_YAML);
    assert_int_equal(doc_read(empty, NEEDED, 1, DOC_IGNORE_UNKNOWN, &a), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "d:1: 'a' is missing, expected the number of apples");
    const struct doc *null = parsed(state, "{a: null}", DOC_YAML);
    assert_int_equal(doc_read(null, NEEDED, 1, DOC_IGNORE_UNKNOWN, &a), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "d:1: 'a' is nothing, expected the number of apples");
    const struct doc *full = parsed(state, "{a: 2, b: 1}", DOC_YAML);
    assert_int_equal(doc_read(full, NEEDED, 1, DOC_IGNORE_UNKNOWN, &a), WEFT_OK);
    assert_int_equal(a, 2);
    assert_int_equal(doc_scalar(doc_get(full, "b"), FIELD_COUNT, &a), WEFT_OK);
    assert_int_equal(a, 1);
}

#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, new_arena, free_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(every_node_knows_its_line),       WITH_ARENA(scalars_have_kinds),
        WITH_ARENA(documents_may_begin_with_a_mark), WITH_ARENA(large_mappings_are_quick),
        WITH_ARENA(mappings_become_structs),         WITH_ARENA(wrong_mappings_are_refused),
        WITH_ARENA(needed_and_unknown_keys),         WITH_ARENA(words_for_numbers_are_read),
        WITH_ARENA(words_for_numbers_stand_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

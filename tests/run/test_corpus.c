/* test_corpus.c - what a file feeds models of every kind with: next tokens, hidden ones, continuations, records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_plan.h"
#include "run/run.h"
#include "scratch_folder.h"

static struct model *open_model(const char *family, const char *options)
{
    char text[256];
    snprintf(text, sizeof text, "{%s}", options);
    return open_small(&(struct small_model){family, text});
}

enum { TEXT_BYTES = 4001 };
static const char *put_text(const struct scratch *folder)
{
    static char text[TEXT_BYTES];
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + i * i % 23);
    return put_file(folder, "text.txt", text, sizeof text);
}

static struct corpus open_corpus(const struct model *model, const char *path)
{
    struct corpus corpus;
    struct corpus_options options = {.path = path, .seed = 5, .mask = -1};
    assert_ok(corpus_open(model, &options, &corpus));
    return corpus;
}

static const char BERT[] = "layers: 1, hidden: 32, heads: 2, seq: 40, vocab: 300";

/* Six of 40 tokens are hidden and are the labels; the rest of the labels count for nothing. */
static void hidden_tokens_are_the_labels(void **state)
{
    struct model *model =
        open_model("bert", "layers: 1, hidden: 32, heads: 2, seq: 40, vocab: 300, "
                           "pooler: false");
    struct corpus corpus = open_corpus(model, put_text(*state));
    struct batch_source source = corpus_training(&corpus);
    int64_t input[40], labels[40], again[40], masks = 0, changed = 0;
    assert_int_equal(corpus.kind, CORPUS_MASKED);
    assert_int_equal(source.counted(source.context, SOURCE_LABELS), 6);
    for (int64_t sample = 0; sample < 60; sample++) {
        int64_t hidden = 0;
        source.read(source.context, sample, 0, input);
        source.read(source.context, sample, SOURCE_LABELS, labels);
        source.read(source.context, sample, 0, again);
        assert_memory_equal(input, again, sizeof input);
        for (int i = 0; i < 40; i++) {
            hidden += labels[i] >= 0;
            masks += labels[i] >= 0 && input[i] == 299;
            changed += labels[i] >= 0 && input[i] != 299 && input[i] != labels[i];
            assert_true(labels[i] < 0 || (labels[i] >= 'a' && labels[i] <= 'w'));
            assert_true(labels[i] >= 0 || (input[i] >= 'a' && input[i] <= 'w'));
        }
        assert_int_equal(hidden, 6);
    }
    assert_true(masks > 260 && masks < 316); /* 80 % of 360 are 288, the deviation 7.6 */
    assert_true(changed > 12 && changed < 60);
    corpus_close(&corpus);
    model_free(model);
}

/* With a second loss the second half of about every other sample is another window's. */
static void halves_are_of_one_window_or_two(void **state)
{
    struct model *model = open_model("bert", BERT);
    struct corpus corpus = open_corpus(model, put_text(*state));
    struct batch_source source = corpus_training(&corpus);
    int64_t label, parted = 0, first = -1;
    for (int32_t i = 0; i < corpus.fields.count; i++)
        if (corpus.fields.field[i].input < 0 && corpus.fields.field[i].numbers == 1)
            first = corpus.fields.field[i].input;
    assert_true(first < 0);
    for (int64_t sample = 0; sample < 100; sample++) {
        source.read(source.context, sample, (int32_t)first, &label);
        assert_true(label == 0 || label == 1);
        parted += label;
    }
    assert_int_equal(source.counted(source.context, (int32_t)first), 1);
    assert_true(parted > 25 && parted < 75);
    corpus_close(&corpus);
    model_free(model);
}

/* The decoder reads what it predicts, moved by one: its first token is the encoder's last. */
static void windows_are_continued(void **state)
{
    struct model *model = open_model(
        "t5", "layers: 1, hidden: 32, heads: 2, seq: 24, decoder_seq: 16, vocab: 300, ffn: 32");
    const char *path = put_text(*state);
    struct corpus corpus = open_corpus(model, path);
    struct batch_source source = corpus_training(&corpus);
    int64_t encoder[24], decoder[16], labels[16];
    assert_int_equal(corpus.kind, CORPUS_CONTINUED);
    assert_int_equal(corpus.order.window, 40);
    source.read(source.context, 3, 0, encoder);
    source.read(source.context, 3, 1, decoder);
    source.read(source.context, 3, SOURCE_LABELS, labels);
    assert_int_equal(decoder[0], encoder[23]);
    assert_memory_equal(decoder + 1, labels, 15 * sizeof *labels);
    corpus_close(&corpus);
    model_free(model);
}

/* ---- records --------------------------------------------------------------------------------- */

struct file_text {
    uint8_t data[1 << 16];
    size_t len;
};

static void put(struct file_text *f, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        f->data[f->len++] = (uint8_t)(value >> (8 * i));
}

static void put_header(struct file_text *f, uint64_t records, const uint64_t fields[][2],
                       uint64_t count)
{
    memcpy(f->data, "WEFTRECS", 8);
    f->len = 8;
    put(f, 1, 4);
    put(f, count, 4);
    put(f, records, 8);
    for (uint64_t i = 0; i < count; i++) {
        put(f, fields[i][0], 4);
        put(f, 0, 4);
        put(f, fields[i][1], 8);
    }
}

static const char VIT[] = "layers: 1, hidden: 32, heads: 2, image: 8, patch: 4, classes: 10";

/* Five images of 3 x 8 x 8 bytes, image i all bytes 51 i, with the label i. */
static const char *put_images(const struct scratch *folder, uint64_t last_label)
{
    static struct file_text f;
    const uint64_t fields[][2] = {{0, 192}, {1, 1}};
    put_header(&f, 5, fields, 2);
    for (uint64_t i = 0; i < 5; i++) {
        for (int k = 0; k < 192; k++)
            put(&f, 51 * i, 1);
        put(&f, i < 4 ? i : last_label, 2);
    }
    return put_file(folder, "images.records", f.data, f.len);
}

static void records_are_images_with_labels(void **state)
{
    struct model *model = open_model("vit", VIT);
    struct corpus corpus = open_corpus(model, put_images(*state, 4));
    struct batch_source source = corpus_training(&corpus);
    int64_t label, seen = 0;
    float image[192];
    assert_int_equal(corpus.kind, CORPUS_RECORDS);
    assert_int_equal(corpus_length(&corpus), 5);
    for (int64_t sample = 0; sample < 5; sample++) {
        source.read(source.context, sample, 0, image);
        source.read(source.context, sample, SOURCE_LABELS, &label);
        assert_true(image[0] == image[191] && (double)image[0] > 0.4 * (double)label - 1.001 &&
                    (double)image[0] < 0.4 * (double)label - 0.999);
        seen |= 1 << label;
    }
    assert_int_equal(seen, 31);
    assert_ok(corpus_status(&corpus));
    corpus_close(&corpus);
    corpus = open_corpus(model, put_images(*state, 10));
    source = corpus_training(&corpus);
    for (int64_t sample = 0; sample < 5; sample++)
        source.read(source.context, sample, SOURCE_LABELS, &label);
    assert_int_equal(corpus_status(&corpus), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "the label 10"));
    corpus_close(&corpus);
    model_free(model);
}

static void wrong_records_are_refused(void **state)
{
    static const struct {
        uint64_t fields[2][2], count, records;
        const char *says;
    } CASES[] = {
        {{{0, 191}, {1, 1}}, 2, 1, "191 numbers of input 0"},
        {{{7, 192}, {1, 1}}, 2, 1, "of kind 7"},
        {{{0, 192}, {3, 1}}, 2, 1, "floats as the labels"},
        {{{0, 192}, {1, 1}}, 1, 1, "has 1 fields"},
        {{{0, 192}, {1, 1}}, 2, 9, "bytes for 1"},
    };
    struct model *model = open_model("vit", VIT);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        static struct file_text f;
        struct corpus corpus;
        put_header(&f, CASES[i].records, CASES[i].fields, CASES[i].count);
        memset(f.data + f.len, 0, 194);
        const char *path = put_file(*state, "wrong.records", f.data, f.len + 194);
        struct corpus_options options = {.path = path, .mask = -1};
        assert_int_equal(corpus_open(model, &options, &corpus), WEFT_BAD_INPUT);
        if (!strstr(weft_last_error()->message, CASES[i].says))
            fail_msg("%s", weft_last_error()->message);
        corpus_close(&corpus);
    }
    model_free(model);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static double train_on(const struct model *model, const char *path, int64_t steps)
{
    struct cluster *cluster;
    struct plan *plan;
    struct arena *keep = arena_new();
    struct training_result result;
    assert_ok(cluster_open("piz-daint:2", &cluster));
    struct degrees d = {.dp = 2, .global_batch = 4, .has_dtype = true, .dtype = DTYPE_FP32};
    assert_ok(plan_from_degrees(model, cluster, &d, &plan));
    struct training_options o = {.plan = plan,
                                 .data = {.path = path, .mask = -1},
                                 .steps = steps,
                                 .rate = {.peak = 3e-3, .steps = steps},
                                 .optimizer = ADAMW_STEP,
                                 .clip = 1};
    assert_ok(train_threads(&o, keep, &result));
    double loss = result.loss;
    arena_free(keep);
    plan_free(plan);
    cluster_free(cluster);
    return loss;
}

/* Colours tell the classes apart: ln 5 = 1.6 is what chance would come to. */
static void models_learn_from_records(void **state)
{
    struct model *vit = open_model("vit", VIT);
    assert_true(train_on(vit, put_images(*state, 4), 30) < 1.2);
    model_free(vit);
    struct model *bert = open_model("bert", BERT);
    assert_true(train_on(bert, put_text(*state), 4) < 8); /* ln 300 + ln 2 is 6.4 */
    model_free(bert);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_tokens_are_the_labels),
        cmocka_unit_test(halves_are_of_one_window_or_two),
        cmocka_unit_test(windows_are_continued),
        cmocka_unit_test(records_are_images_with_labels),
        cmocka_unit_test(wrong_records_are_refused),
        cmocka_unit_test(models_learn_from_records),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}

/* test_public_weights.c - weights as transformers keep them: where rows are, what is read, what is refused. Against
 * transformers themselves: tools/frameworks/weights.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/checkpoint/checkpoint.h"
#include "scratch_folder.h"

/* Two key/value heads of 4 features, each with 2 queries: rows of Weft's and where each is, by hand. A head is its
 * queries, its key, its value; queries and keys are turned, so features 0 1 2 3 are 0 2 1 3 there. */
static void rows_of_heads(void **state)
{
    (void)state;
    static const struct {
        int64_t row;
        int part;
        int64_t there;
    } CASES[] = {{0, 0, 0},  {1, 0, 2},  {2, 0, 1},  {5, 0, 6},   {8, 1, 0},  {9, 1, 2},
                 {12, 2, 0}, {13, 2, 1}, {16, 0, 8}, {17, 0, 10}, {24, 1, 4}, {31, 2, 7}};
    struct public_place place = {.form = FORM_QKV,
                                 .parts = 3,
                                 .rows = 32,
                                 .columns = 1,
                                 .heads = 2,
                                 .group = 2,
                                 .depth = 4,
                                 .rotates = true};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct public_row at = public_row_of(&place, CASES[i].row);
        assert_int_equal(at.part, CASES[i].part);
        assert_int_equal(at.row, CASES[i].there);
    }
    place.parts = 1; /* all in one tensor: 16 rows of queries before 8 of keys */
    assert_int_equal(public_row_of(&place, 8).row, 16);
    assert_int_equal(public_row_of(&place, 12).row, 24);
}

/* No two rows are at one place. */
static void rows_are_exchanged(void **state)
{
    (void)state;
    static const struct public_place PLACES[] = {
        {.form = FORM_QKV_TURNED, .parts = 1, .rows = 36, .heads = 3, .group = 1, .depth = 4},
        {.form = FORM_QKV,
         .parts = 3,
         .rows = 40,
         .heads = 2,
         .group = 3,
         .depth = 4,
         .rotates = 1},
        {.form = FORM_GATES, .parts = 2, .rows = 10},
        {.form = FORM_SAME, .parts = 1, .rows = 7},
    };
    for (size_t i = 0; i < COUNT_OF(PLACES); i++) {
        bool seen[PUBLIC_PARTS][64] = {0};
        for (int64_t row = 0; row < PLACES[i].rows; row++) {
            struct public_row at = public_row_of(&PLACES[i], row);
            int64_t rows =
                PLACES[i].parts == 1 ? PLACES[i].rows : public_part_rows(&PLACES[i], at.part);
            assert_true(at.part >= 0 && at.part < PLACES[i].parts);
            assert_true(at.row >= 0 && at.row < rows);
            assert_false(seen[at.part][at.row]);
            seen[at.part][at.row] = true;
        }
    }
}

static void put(struct scratch *scratch, const char *name, const char *text)
{
    assert_ok(file_write_text(scratch_path(scratch, name), text));
}

#define TINY "layers: 1, hidden: 4, heads: 2, vocab: 3, seq: 2"
static struct model *tiny(void)
{
    struct model *model;
    assert_ok(model_open("gpt2", TINY, &model));
    return model;
}

/* GPT-2's products are transposed; the first files of it lack "transformer.". */
static void a_product_is_turned(void **state)
{
    struct scratch *scratch = *state;
    struct model *model = tiny();
    float numbers[16], out[16];
    for (int i = 0; i < 16; i++)
        numbers[i] = (float)(i + 1); /* none is 0, as what is not read is */
    struct tensor_values tensor = {
        "h.0.attn.c_proj.weight", STORED_F32, 2, (int64_t[]){4, 4}, numbers, NULL, NULL};
    struct written written;
    struct public_weights *weights;
    put(scratch, "config.json", "{\"layer_norm_epsilon\": 1e-05}");
    assert_ok(tensor_file_write(&REAL_DISK, scratch_path(scratch, "model.safetensors"), &tensor, 1,
                                NULL, 0, &written));
    assert_ok(public_weights_open(model, scratch->folder, &weights));
    struct shard shard = shard_whole(2, (int64_t[]){4, 4});
    assert_ok(public_weights_read(weights, "layers.0.attn.proj.weight", &shard, out));
    for (int i = 0; i < 16; i++)
        assert_true(out[i] == numbers[i % 4 * 4 + i / 4]);
    assert_int_equal(public_weights_read(weights, "layers.0.mlp.up.weight", &shard, out),
                     WEFT_BAD_INPUT);
    assert_int_not_equal(public_weights_read(weights, "nothing", &shard, out), WEFT_OK);
    public_weights_close(weights);
    model_free(model);
}

/* A file is read where the model's norms add what its own did, and a model that adds the same is written down so. */
static void norms_add_what_they_did(void **state)
{
    struct scratch *scratch = *state;
    struct model *model = tiny(), *finer;
    struct public_weights *weights;
    assert_ok(model_open("gpt2", TINY ", norm_epsilon: 1e-6", &finer));
    put(scratch, "config.json", "{\"layer_norm_epsilon\": 1e-06}");
    put(scratch, "model.safetensors.index.json", "{\"weight_map\": {}}");
    assert_int_equal(public_weights_open(model, scratch->folder, &weights), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->hint, "give the model norm_epsilon: 1e-06"));
    assert_ok(public_weights_open(finer, scratch->folder, &weights));
    public_weights_close(weights);
    model_free(model);
    model_free(finer);
}

static void what_differs_is_refused(void **state)
{
    struct scratch *scratch = *state;
    static const char *const CONFIGS[] = {
        "{\"rms_norm_eps\": 1e-06}",
        "{\"rope_scaling\": {\"rope_type\": \"llama3\"}}",
        "{\"rope_parameters\": {\"rope_type\": \"yarn\"}}",
    };
    static const char *const INDICES[] = {
        "{}",
        "{\"weight_map\": 3}",
        "{\"weight_map\": {\"wte.weight\": \"../other.safetensors\"}}",
        "{\"weight_map\": {\"wte.weight\": 7}}",
    };
    struct model *model = tiny();
    struct public_weights *weights;
    for (size_t i = 0; i < COUNT_OF(CONFIGS); i++) {
        put(scratch, "config.json", CONFIGS[i]);
        assert_int_equal(public_weights_open(model, scratch->folder, &weights), WEFT_BAD_INPUT);
    }
    put(scratch, "config.json", "{}");
    for (size_t i = 0; i < COUNT_OF(INDICES); i++) {
        put(scratch, "model.safetensors.index.json", INDICES[i]);
        assert_int_equal(public_weights_open(model, scratch->folder, &weights), WEFT_BAD_INPUT);
    }
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_heads),
        cmocka_unit_test(rows_are_exchanged),
        cmocka_unit_test_setup_teardown(a_product_is_turned, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(norms_add_what_they_did, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_differs_is_refused, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_split.c - splits: canonical, as text and back, and what is left of an operator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/builder.h"
#include "made_plan.h"

/* ---- splits ---------------------------------------------------------------------------------- */

static void test_split_is_canonical(void **state)
{
    (void)state;
    struct split split = split_none();
    assert_true(split_add(&split, DIM_BATCH, 1)); /* appends nothing */
    assert_int_equal(split.parts, 0);
    assert_true(split_add(&split, DIM_BATCH, 2));
    assert_true(split_add(&split, DIM_BATCH, 3)); /* merges */
    assert_true(split_add(&split, DIM_OUT, 4));
    assert_true(split_add(&split, DIM_BATCH, 2)); /* apart: another place */
    assert_int_equal(split.parts, 3);
    assert_int_equal(split_devices(&split), 2 * 3 * 4 * 2);
    assert_int_equal(split_degree(&split, DIM_BATCH), 12);
    assert_int_equal(split_degree(&split, DIM_SEQ), 1);
    assert_false(split_add(&split, DIM_SEQ, 0));
    assert_false(split_add(&split, DIM_SEQ, INT64_C(1) << 31));
    assert_false(split_add(&split, DIM_SEQ, INT32_MAX / 40)); /* 48 * that is over 2^31 */
    for (int i = 0; i < 3; i++)
        assert_true(split_add(&split, i % 2 ? DIM_SEQ : DIM_KV, 2));
    assert_false(split_add(&split, DIM_SEQ, 2)); /* a seventh part */
    assert_true(split_add(&split, DIM_KV, 2));   /* merges into the sixth */
}

static void test_split_text_and_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } CASES[] = {
        {"whole", "whole"},
        {"batch:2 out:4", "batch:2 out:4"},
        {"out:4 batch:2", "out:4 batch:2"},
        {" batch:2\tcopy:8  ", "batch:2 copy:8"},
        {"batch:1", "whole"},
        {"batch:2 batch:2 seq:1 batch:3", "batch:12"},
        {"expert:8 seq:2 head:4 group:2 depth:2 kv:3",
         "expert:8 seq:2 head:4 group:2 depth:2 kv:3"},
    };
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct split split, again;
        assert_int_equal(split_parse(NULL, CASES[i].text, &split), WEFT_OK);
        const char *text = split_text(arena, &split);
        assert_string_equal(text, CASES[i].canonical);
        assert_int_equal(split_parse(NULL, text, &again), WEFT_OK);
        assert_true(split_equal(&split, &again));
    }
    arena_free(arena);
}

static void test_random_splits_survive_text(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct rng rng;
    rng_seed(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        struct split split = split_none(), again;
        int parts = (int)rng_below(&rng, 8);
        for (int i = 0; i < parts; i++) {
            int dim = (int)rng_below(&rng, DIM_COUNT + 1);
            split_add(&split, dim, 1 + rng_below(&rng, 6));
        }
        for (int i = 0; i + 1 < split.parts; i++)
            assert_int_not_equal(split.part[i].dim, split.part[i + 1].dim);
        assert_int_equal(split_parse(NULL, split_text(arena, &split), &again), WEFT_OK);
        assert_true(split_equal(&split, &again));
    }
    arena_free(arena);
}

static void test_bad_splits(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message, *hint;
    } CASES[] = {
        {"", "the split is empty", "write 'whole' for one device"},
        {"batch", "'batch' in the split 'batch' is not of the form dim:degree",
         "write dim:degree, outermost first: batch:2 out:4"},
        {"batch:x", "'batch:x' in the split 'batch:x' is not of the form dim:degree",
         "write dim:degree, outermost first: batch:2 out:4"},
        {"batch:2 out:0", "'out:0' in the split 'batch:2 out:0', expected a degree of at least 1",
         NULL},
        {"bacth:2", "no dim is called 'bacth' in the split 'bacth:2'", "did you mean 'batch'?"},
        {"qqqqqq:2", "no dim is called 'qqqqqq' in the split 'qqqqqq:2'",
         "the dims of an operator are listed by 'weft inspect'"},
        {"batch:2 seq:2 kv:2 head:2 in:2 out:2 copy:2",
         "the split 'batch:2 seq:2 kv:2 head:2 in:2 out:2 copy:2' is too long, expected at most 6 "
         "dims over fewer than 2^31 devices",
         NULL},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct split split;
        assert_int_equal(split_parse(NULL, CASES[i].text, &split), WEFT_BAD_INPUT);
        const weft_error *error = weft_last_error();
        assert_non_null(strstr(error->message, CASES[i].message));
        if (CASES[i].hint)
            assert_string_equal(error->hint, CASES[i].hint);
        else
            assert_null(error->hint);
    }
}

/* gpt3-1.3b: hidden 2048, so qkv is 2048 -> 6144 at 2048 positions; vocabulary 51200. */
static void test_split_local(void **state)
{
    (void)state;
    struct model *model = open_model("gpt3-1.3b", NULL);
    const struct op *qkv = NULL;
    for (int32_t i = 0; i < model->ops && !qkv; i++)
        if (strcmp(model->op[i].name, "qkv") == 0)
            qkv = &model->op[i];
    assert_non_null(qkv);
    struct split split;
    int64_t local[OP_MAX_DIMS];
    assert_int_equal(split_parse(NULL, "batch:2 seq:3 out:4 copy:2", &split), WEFT_OK);
    split_local(qkv, &split, 8, local);
    assert_int_equal(local[0], 4);                      /* 8 / 2 */
    assert_int_equal(local[1], (qkv->size[1] + 2) / 3); /* rounded up */
    assert_int_equal(local[2], qkv->size[2]);           /* inputs whole */
    assert_int_equal(local[3], 3 * qkv->size[2] / 4);   /* a quarter of q, k and v */
    assert_int_equal(local[1], 683);                    /* 2048 / 3 */
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_is_canonical),
        cmocka_unit_test(test_split_text_and_back),
        cmocka_unit_test(test_random_splits_survive_text),
        cmocka_unit_test(test_bad_splits),
        cmocka_unit_test(test_split_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

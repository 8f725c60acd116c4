/* test_shard.c - which elements a rank holds: against the definition, and of every model's weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_plan.h"
#include "random_shard.h"

enum { MOST_ELEMENTS = 17 * 17 * 17 };

/* 4 x 6 in rows, padded to 4 x 8. Split 8:2=1 (odd rows) and 2:4=3 (columns 6 and 7: padding). */
static void an_example_by_hand(void **state)
{
    (void)state;
    struct shard shard = shard_whole(2, (int64_t[]){4, 6});
    shard.padded[1] = 8;
    shard.digits = 2;
    shard.digit[0] = (struct shard_digit){2, 4, 1};
    shard.digit[1] = (struct shard_digit){8, 2, 1};
    shard.count = 4;
    assert_null(shard_fault(&shard));
    /* row 1, columns 2 and 3: 1 * 6 + 2 = 8; then row 3: 3 * 6 + 2 = 20 */
    struct shard_run run = shard_run_at(&shard, 0);
    assert_true(run.place == 8 && run.count == 2);
    run = shard_run_at(&shard, 2);
    assert_true(run.place == 20 && run.count == 2);
    run = shard_run_at(&shard, 3);
    assert_true(run.place == 21 && run.count == 1);
    assert_int_equal(shard_seek(&shard, 9), 1);
    assert_int_equal(shard_seek(&shard, 10), 2);
    assert_int_equal(shard_seek(&shard, 22), 4);
    shard.digit[0].value = 3;
    run = shard_run_at(&shard, 0);
    assert_true(run.place == -1 && run.count == 2);
    struct arena *arena = arena_new();
    assert_string_equal(shard_text(arena, &shard),
                        "{\"shape\": [4, 6], \"padded\": [4, 8], \"digits\": [[2, 4, 3], "
                        "[8, 2, 1]], \"first\": 0, \"count\": 4}");
    arena_free(arena);
}

static struct shard random_shard(struct rng *rng)
{
    int64_t shape[MOST_AXES], padded[MOST_AXES], axes = random_shape(rng, shape);
    random_padding(rng, axes, shape, padded);
    struct layout layout = random_layout(rng, shape_elements(axes, padded));
    struct shard shard =
        shard_of_layout(axes, shape, padded, &layout, rng_below(rng, layout_devices(&layout)));
    if (rng_below(rng, 2)) {
        shard.first = rng_below(rng, shard.count + 1);
        shard.count = rng_below(rng, shard.count - shard.first + 1);
    }
    return shard;
}

static void assert_runs(const struct shard *shard, const int64_t *place)
{
    for (int64_t at = 0; at < shard->count; at++) {
        struct shard_run run = shard_run_at(shard, at);
        assert_in_range(run.count, 1, shard->count - at);
        for (int64_t i = 0; i < run.count; i++)
            assert_int_equal(place[at + i], run.place < 0 ? -1 : run.place + i);
    }
}

static void assert_seeks(const struct shard *shard, const int64_t *place)
{
    int64_t elements = shape_elements(shard->axes, shard->shape);
    for (int64_t wanted = 0; wanted <= elements; wanted++) {
        int64_t found = shard_seek(shard, wanted);
        for (int64_t i = 0; i < shard->count; i++)
            if (place[i] >= 0)
                assert_true(i < found ? place[i] < wanted : place[i] >= wanted);
    }
}

static void shards_are_as_defined(void **state)
{
    struct rng rng;
    rng_seed(&rng, 11);
    (void)state;
    for (int round = rounds_of(40000); round > 0; round--) {
        int64_t place[MOST_ELEMENTS];
        struct shard shard = random_shard(&rng);
        assert_null(shard_fault(&shard));
        places_by_definition(&shard, place);
        assert_runs(&shard, place);
        if (round % 10 == 0)
            assert_seeks(&shard, place);
    }
}

static void text_is_read_back(void **state)
{
    struct rng rng;
    rng_seed(&rng, 13);
    (void)state;
    for (int round = rounds_of(200); round > 0; round--) {
        struct arena *arena = arena_new();
        struct shard shard = random_shard(&rng), read;
        const char *text = shard_text(arena, &shard);
        assert_int_equal(shard_parse("x", "w", text, &read), WEFT_OK);
        assert_string_equal(shard_text(arena, &read), text);
        arena_free(arena);
    }
}

#define SHARD(shape, padded, digits, first, count)                                                 \
    "{\"shape\": [" shape "], \"padded\": [" padded "], \"digits\": [" digits                      \
    "], \"first\": " first ", \"count\": " count "}"

static void wrong_shards_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } WRONG[] = {
        {SHARD("4", "4", "[2, 2, 2]", "0", "2"),
         "x: the shard of 'w' has a digit whose value is none of its degree's"},
        {SHARD("4", "4", "[0, 2, 1]", "0", "2"),
         "x: the shard of 'w' has a digit whose value is none of its degree's"},
        {SHARD("4", "4", "[1, 1, 0]", "0", "2"),
         "x: the shard of 'w' has a digit whose value is none of its degree's"},
        {SHARD("8", "8", "[2, 2, 1], [2, 2, 0]", "0", "2"),
         "x: the shard of 'w' has digits that depend on each other"},
        {SHARD("8", "8", "[4, 2, 1], [1, 2, 0]", "0", "2"),
         "x: the shard of 'w' has digits that depend on each other"},
        {SHARD("8", "8", "[4, 4611686018427387904, 1]", "0", "2"),
         "x: the shard of 'w' has digits that depend on each other"},
        {SHARD("6", "6", "[2, 2, 1]", "0", "2"),
         "x: the shard of 'w' has a digit that does not divide its elements"},
        {SHARD("6", "5", "", "0", "5"), "x: the shard of 'w' is padded to less than its shape"},
        {SHARD("-1", "5", "", "0", "5"), "x: the shard of 'w' is padded to less than its shape"},
        {SHARD("4611686018427387904, 4", "4611686018427387904, 4", "", "0", "1"),
         "x: the shard of 'w' is larger than any memory"},
        {SHARD("6", "6", "", "0", "7"),
         "x: the shard of 'w' has a range after the end of what its digits hold"},
        {SHARD("6", "6", "", "4", "3"),
         "x: the shard of 'w' has a range after the end of what its digits hold"},
        {SHARD("6", "6", "", "7", "0"),
         "x: the shard of 'w' has a range after the end of what its digits hold"},
        {SHARD("6", "6", "", "1", "9223372036854775807"),
         "x: the shard of 'w' has a range after the end of what its digits hold"},
        {SHARD("6", "6", "", "-1", "2"),
         "x: the shard of 'w' has a range after the end of what its digits hold"},
        {SHARD("6, 6", "6", "", "0", "6"),
         "x: the shard of 'w' is not described by lists of numbers"},
        {SHARD("6", "6", "[1, 2]", "0", "6"),
         "x: the shard of 'w' is not described by lists of numbers"},
        {SHARD("1,1,1,1,1,1,1,1,1", "1", "", "0", "1"),
         "x: the shard of 'w' is not described by lists of numbers"},
        {"{\"shape\": []}", "x: shard of 'w':1: 'padded' is missing"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct shard shard;
        assert_int_equal(shard_parse("x", "w", WRONG[i].text, &shard), WEFT_BAD_INPUT);
        if (i + 1 < COUNT_OF(WRONG))
            assert_string_equal(weft_last_error()->message, WRONG[i].message);
        else
            assert_non_null(strstr(weft_last_error()->message, "padded"));
    }
}

/* What the first copies of a weight's layout hold, every element of the whole is in once. */
static void assert_covers(const struct op *op, const struct operand *operand,
                          const struct split *split)
{
    struct layout layout = layout_of(op, operand, split, 1, FLOW_FORWARD);
    int64_t elements = shape_elements(operand->axes, operand->size), held = 0, padded = 0;
    uint8_t *times = calloc((size_t)elements, 1);
    for (int64_t device = 0; device < layout_devices(&layout); device++) {
        struct shard shard = shard_of_operand(op, operand, split, device);
        if (shard_fault(&shard))
            fail_msg("%s: %s", op->name, shard_fault(&shard));
        assert_int_equal(shape_elements(shard.axes, shard.padded), layout.elements);
        assert_int_equal(shard.count, layout_local(&layout));
        if (!layout_is_first_copy(&layout, device))
            continue;
        for (int64_t at = 0; at < shard.count;) {
            struct shard_run run = shard_run_at(&shard, at);
            for (int64_t i = 0; run.place >= 0 && i < run.count; i++)
                assert_int_equal(times[run.place + i]++, 0);
            *(run.place < 0 ? &padded : &held) += run.count;
            at += run.count;
        }
    }
    assert_int_equal(held, elements);
    assert_int_equal(held + padded, layout.elements);
    free(times);
}

static void weights_of_any_plan_are_covered(void **state)
{
    struct rng rng;
    struct cluster *cluster = open_named("dgx-v100:1");
    rng_seed(&rng, 17);
    (void)state;
    for (int round = rounds_of(200); round > 0; round--) {
        struct model *model = open_small(&SMALL_MODELS[rng_below(&rng, SMALL_MODEL_COUNT - 3)]);
        struct plan *plan = random_plan(&rng, model, cluster);
        for (int64_t i = 0; i < plan->instances; i++) {
            const struct op *op = &model->op[plan->instance[i].op];
            if (plan->instance[i].copy == 0)
                for (int32_t w = 0; w < op->weights; w++)
                    assert_covers(op, &op->weight[w].operand, &plan_choice(plan, i)->split);
        }
        plan_free(plan);
        model_free(model);
    }
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_example_by_hand),
        cmocka_unit_test(shards_are_as_defined),
        cmocka_unit_test(text_is_read_back),
        cmocka_unit_test(wrong_shards_are_refused),
        cmocka_unit_test(weights_of_any_plan_are_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

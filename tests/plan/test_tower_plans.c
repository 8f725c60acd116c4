/* test_tower_plans.c - the degrees of an encoder of images: where it lies, how it is split, and how a plan says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "checked_plan.h"
#include "plan/room.h"
#include "plan_text.h"

/* 8 layers of the decoder, 8 of the encoder, two images of 16 x 16 patches: 128 of 512 positions. */
static struct opened small(const char *cluster)
{
    return open_both("qwen2.5-vl-72b",
                     "layers: 8, seq: 512, images: 2, vision_image: 224, vision_layers: 8",
                     cluster);
}

static const char *split_at(struct arena *keep, const struct plan *plan, const char *path)
{
    return split_text(keep, &plan_choice(plan, at(plan, path))->split);
}

/* ---- where it lies --------------------------------------------------------------------------- */

/* 16 devices. tp 8: the encoder's heads (16) and widths (3456, 1280, 5120) divide by 8. With cp 2 the encoder is computed twice, and
 * so is the text's embedding; the sequence is divided after both have been joined. */
static void encoders_lie_as_degrees_say(void **state)
{
    (void)state;
    static const struct {
        struct degrees d;
        const char *qkv, *patches, *embedding, *join, *decoder;
    } ROWS[] = {
        {{.tp = 8},
         "batch:2 out:8",
         "batch:2 copy:8",
         "batch:2 vocab:8",
         "batch:2 copy:8",
         "batch:2 out:8"},
        {{.tp = 8, .sequence = true},
         "batch:2 out:8",
         "batch:2 seq:8",
         "batch:2 vocab:8",
         "batch:2 copy:8",
         "batch:2 out:8"},
        {{.tp = 8, .encoder_tp = 2},
         "batch:2 copy:4 out:2",
         "batch:2 copy:8",
         "batch:2 vocab:8",
         "batch:2 copy:8",
         "batch:2 out:8"},
        {{.tp = 8, .encoder_tp = 2, .encoder_dp = 8, .micro_batch = 4},
         "batch:8 out:2",
         "batch:8 copy:2",
         "batch:2 vocab:8",
         "batch:2 copy:8",
         "batch:2 out:8"},
        {{.tp = 4, .cp = 2},
         "batch:2 copy:2 out:4",
         "batch:2 copy:8",
         "batch:2 copy:2 vocab:4",
         "batch:2 copy:8",
         "batch:2 seq:2 out:4"},
        {{.tp = 2, .pp = 3, .encoder_pp = 1},
         "batch:2 out:2",
         "batch:2 copy:2",
         "batch:2 vocab:2",
         "batch:2 copy:2",
         "batch:2 out:2"},
        {{.tp = 2, .pp = 3, .encoder_pp = 2, .encoder_tp = 1},
         "batch:2",
         "batch:2",
         "batch:2 vocab:2",
         "batch:2 copy:2",
         "batch:2 out:2"},
    };
    struct opened o = small("dgx-h100:2");
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct plan *plan = plan_of(&o, ROWS[i].d);
        assert_int_equal(plan_check(plan), WEFT_OK);
        assert_string_equal(split_at(arena, plan, "vision.layers.3.attn.qkv"), ROWS[i].qkv);
        assert_string_equal(split_at(arena, plan, "vision.patches"), ROWS[i].patches);
        assert_string_equal(split_at(arena, plan, "embedding"), ROWS[i].embedding);
        assert_string_equal(split_at(arena, plan, "join"), ROWS[i].join);
        assert_string_equal(split_at(arena, plan, "layers.3.attn.qkv"), ROWS[i].decoder);
        plan_free(plan);
    }
    arena_free(arena);
    close_both(&o);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static int64_t first_of(const struct plan *plan, int32_t part)
{
    return plan->part[part].first;
}

/* Without stages of its own the encoder weighs nothing: 4 of 8 layers stay on the first of two stages. With two of its own, of dp 2 *
 * encoder-tp 1 = 2 devices, each has four of its layers, and the three others, of 4, have 3, 3 and 2 layers: 2 * 2 + 3 * 4 = 16. */
static void stages_are_cut_at_the_tower(void **state)
{
    (void)state;
    struct opened o = small("dgx-h100:2");
    struct plan *one = plan_of(&o, (struct degrees){.tp = 4, .pp = 2});
    assert_int_equal(first_of(one, 1), at(one, "layers.4.attn.norm"));
    plan_free(one);
    struct plan *own =
        plan_of(&o, (struct degrees){.tp = 2, .pp = 3, .encoder_pp = 2, .encoder_tp = 1});
    static const int64_t DEVICES[] = {2, 2, 4, 4, 4};
    for (int32_t s = 0; s < 5; s++)
        assert_int_equal(own->stage[s].devices, DEVICES[s]);
    assert_int_equal(first_of(own, 1), at(own, "vision.layers.4.attn.norm"));
    assert_int_equal(first_of(own, 2), at(own, "embedding"));
    assert_int_equal(first_of(own, 3), at(own, "layers.3.attn.norm"));
    plan_free(own);
    /* a layout counts the decoder's layers */
    struct plan *given = plan_of(&o, (struct degrees){.tp = 8, .pp = 2, .layout = "Ett|t*6L"});
    assert_int_equal(first_of(given, 1), at(given, "layers.2.attn.norm"));
    plan_free(given);
    close_both(&o);
}

/* 32 layers on 6,400 patches work as long as the decoder's four, and weigh nothing all the same. */
static void a_heavy_encoder_weighs_nothing(void **state)
{
    (void)state;
    struct opened o = open_both(
        "qwen2.5-vl-72b", "layers: 4, seq: 2048, images: 1, vision_image: 1120", "dgx-h100:1");
    struct plan *plan = plan_of(&o, (struct degrees){.tp = 4, .pp = 2});
    assert_int_equal(first_of(plan, 1), at(plan, "layers.2.attn.norm"));
    plan_free(plan);
    close_both(&o);
}

/* A stage that has the end of the encoder and layers of the decoder is none of the encoder's own, and then no stage
 * is. */
static void a_shared_stage_is_not_the_towers(void **state)
{
    static const char TEXT[] =
        "model: qwen2.5-vl-72b\n"
        "options: {layers: 4, seq: 512, images: 2, vision_image: 224, vision_layers: 8}\n"
        "cluster: dgx-h100:1\n"
        "batch: {global: 8, micro: 1}\n"
        "degrees: {tp: 2, pp: 4}\n"
        "stages: [{until: vision.layers.3}, {until: %s}, {until: layers.2}, {}]\n";
    static const struct {
        const char *until;
        int32_t own;
    } ROWS[] = {{"layers.0", 0}, {"vision", 2}};
    (void)state;
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char *text = arena_printf(arena, TEXT, ROWS[i].until);
        struct opened_plan opened;
        if (plan_parse(arena, "t.yaml", text, strlen(text), &opened))
            fail_msg("%s", weft_last_error()->message);
        assert_int_equal(tower_stages(opened.plan), ROWS[i].own);
        plan_close(&opened);
    }
    arena_free(arena);
}

/* ---- as words, as a file --------------------------------------------------------------------- */

static void plans_say_their_encoder(void **state)
{
    (void)state;
    static const struct {
        struct degrees d;
        const char *words;
    } ROWS[] = {
        {{.tp = 8}, "dp 2 tp 8 micro-batch 1 zero 0"},
        {{.tp = 8, .encoder_tp = 8}, "dp 2 tp 8 micro-batch 1 zero 0"},
        {{.tp = 8, .encoder_tp = 2}, "dp 2 tp 8 encoder-tp 2 micro-batch 1 zero 0"},
        {{.tp = 8, .encoder_tp = 1, .encoder_dp = 8, .micro_batch = 4},
         "dp 2 tp 8 encoder-tp 1 encoder-dp 8 micro-batch 4 zero 0"},
        {{.tp = 2, .cp = 2, .pp = 3, .encoder_pp = 2, .sequence = true, .shard = 1},
         "tp 2 sp pp 3 cp 2 encoder-pp 2 micro-batch 1 zero 1"},
        {{.tp = 2, .pp = 3, .encoder_pp = 1, .sequence = true},
         "dp 2 tp 2 sp pp 3 encoder-pp 1 micro-batch 1 zero 0"},
    };
    struct opened o = small("dgx-h100:2");
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct degrees found;
        struct plan *plan = plan_of(&o, ROWS[i].d), *again;
        struct opened_plan opened;
        if (!plan_degrees(plan, &found))
            fail_msg("no degrees for %s", ROWS[i].words);
        assert_string_equal(degrees_text(arena, o.model, &found, NULL), ROWS[i].words);
        again = plan_of(&o, found);
        assert_true(is_same_plan(plan, again));
        plan_free(again);
        plan_set_names(plan, "qwen2.5-vl-72b",
                       "layers: 8, seq: 512, images: 2, vision_image: 224, vision_layers: 8",
                       "dgx-h100:2");
        const char *text = plan_write(arena, plan);
        assert_int_equal(plan_parse(arena, "plan.json", text, strlen(text), &opened), WEFT_OK);
        assert_true(is_same_plan(plan, opened.plan));
        plan_close(&opened);
        plan_free(plan);
    }
    arena_free(arena);
    close_both(&o);
}

/* ---- the usual degree, and refusals ---------------------------------------------------------- */

/* 3420 = 4 * 855 and 3456 = 128 * 27; both have 16 heads. */
static void the_usual_degree_suits_the_encoder(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options;
        int64_t tp, usual;
    } ROWS[] = {{"qwen2.5-vl-7b", NULL, 8, 4},
                {"qwen2.5-vl-7b", NULL, 4, 4},
                {"qwen2.5-vl-7b", NULL, 7, 1},
                {"qwen2.5-vl-72b", NULL, 8, 8},
                {"qwen2.5-vl-72b", NULL, 6, 2},
                {"qwen2.5-vl-72b", "vision_heads: 4", 8, 4}, /* its widths would divide by 8 */
                {"llava-1.5-7b", NULL, 8, 8}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct model *model;
        assert_int_equal(model_open(ROWS[i].model, ROWS[i].options, &model), WEFT_OK);
        assert_int_equal(encoder_usual_tp(model, ROWS[i].tp), ROWS[i].usual);
        model_free(model);
    }
}

static void wrong_degrees_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct degrees d;
        const char *message;
    } ROWS[] = {
        {{.tp = 8, .encoder_tp = 3},
         "encoder-dp 2 * encoder-tp 3 does not divide dp 2 * cp 1 * tp "
         "8, the devices of the stage that the encoder is on"},
        {{.tp = 8, .encoder_tp = 1, .encoder_dp = 8},
         "encoder-dp 8 does not divide dp 2 * micro-batch 1"},
        {{.tp = 2, .pp = 2, .pieces = 2, .encoder_pp = 1},
         "encoder-pp 1 gives the encoder stages of its own, which several pieces per stage cannot "
         "have"},
        {{.tp = 2, .pp = 2, .encoder_pp = 1},
         "encoder-pp 1 * encoder-tp 2 and pp 2 * cp 1 * tp 2 are 6 devices for each replica, which "
         "16 devices do not hold evenly"},
    };
    struct opened o = small("dgx-h100:2");
    struct opened text = open_both("llama3-8b", "layers: 2", "dgx-h100:1");
    struct plan *plan;
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        assert_int_equal(plan_from_degrees(o.model, o.cluster, &ROWS[i].d, &plan), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->message, ROWS[i].message);
    }
    struct degrees d = {.encoder_tp = 2};
    assert_int_equal(plan_from_degrees(text.model, text.cluster, &d, &plan), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "encoder-tp 2 is a degree of an encoder of images, and llama3-8b has none");
    close_both(&o);
    close_both(&text);
}

/* ---- frozen ---------------------------------------------------------------------------------- */

/* A frozen encoder on a stage of its own has weights, and neither gradients, nor optimizer state, nor anything kept, also with
 * recomputation, of which it has no use. */
static void a_frozen_encoder_holds_its_weights(void **state)
{
    (void)state;
    struct opened o = open_both("qwen2.5-vl-72b",
                                "layers: 8, seq: 512, vision_image: 224, vision_layers: 8, "
                                "vision_frozen: true, projector_frozen: true",
                                "dgx-h100:1");
    struct plan *plan = plan_of(
        &o, (struct degrees){.tp = 2, .pp = 3, .encoder_pp = 1, .recompute = RECOMPUTE_FULL});
    struct stage_memory first = plan_stage_memory(plan, 0, 4), next = plan_stage_memory(plan, 1, 3);
    assert_true(first.weights > 0 && first.gradients == 0 && first.optimizer == 0);
    assert_true(next.gradients > 0 && next.optimizer > 0);
    for (int64_t i = 0; i < plan->part[0].count; i++)
        assert_false(plan_choice(plan, i)->recompute);
    expect_proof(plan);
    expect_estimate(plan, "frozen", 0.02);
    plan_free(plan);
    close_both(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoders_lie_as_degrees_say),
        cmocka_unit_test(stages_are_cut_at_the_tower),
        cmocka_unit_test(a_heavy_encoder_weighs_nothing),
        cmocka_unit_test(a_shared_stage_is_not_the_towers),
        cmocka_unit_test(plans_say_their_encoder),
        cmocka_unit_test(the_usual_degree_suits_the_encoder),
        cmocka_unit_test(wrong_degrees_are_refused),
        cmocka_unit_test(a_frozen_encoder_holds_its_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_import_aceso.c - plans from Aceso's JSON: its operators are Weft's, by name and by order.
 *
 * Texts are made here, in the shape of what Aceso's search writes; of the plans that are kept as rows
 * (data/validation/aceso_plans.csv) they must give what the rows give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "one_arena.h"
#include "lab/aceso_contest.h"
#include "exchange/room.h"

/* ---- texts ----------------------------------------------------------------------------------- */

struct draft {
    const char *head; /* "\"model_name\": \"gpt\", ..." */
    int64_t global_batch, micro_batch;
    int stages;
    struct draft_stage {
        int64_t devices, operators;
        bool again;                 /* checkpoint_activations */
        int64_t tp[2], first_other; /* of operators before that one, and from it on */
        int64_t again_first, again_end, flipped;
    } stage[4];
};

/* One list per stage, of what `value` says of each of its operators. */
static const char *lists(const struct draft *d,
                         int64_t (*value)(const struct draft_stage *, int64_t))
{
    const char *text = "";
    for (int s = 0; s < d->stages; s++) {
        text = arena_printf(arena, "%s%s[", text, s ? ", " : "");
        for (int64_t i = 0; i < d->stage[s].operators; i++)
            text = arena_printf(arena, "%s%s%lld", text, i ? "," : "",
                                (long long)value(&d->stage[s], i));
        text = arena_printf(arena, "%s]", text);
    }
    return text;
}

static int64_t tp_at(const struct draft_stage *s, int64_t i)
{
    return s->tp[i >= s->first_other && s->first_other > 0];
}
static int64_t dp_at(const struct draft_stage *s, int64_t i)
{
    return s->devices / tp_at(s, i);
}
static int64_t again_at(const struct draft_stage *s, int64_t i)
{
    return i >= s->again_first && i < s->again_end;
}
static int64_t algo_at(const struct draft_stage *s, int64_t i)
{
    return s->flipped > 0 && i == s->flipped;
}

static const char *text_of(const struct draft *d)
{
    const char *devices = "", *operators = "", *again = "";
    for (int s = 0; s < d->stages; s++) {
        const char *comma = s ? "," : "";
        devices = arena_printf(arena, "%s%s%lld", devices, comma, (long long)d->stage[s].devices);
        operators =
            arena_printf(arena, "%s%s%lld", operators, comma, (long long)d->stage[s].operators);
        again = arena_printf(arena, "%s%s%s", again, comma, d->stage[s].again ? "true" : "false");
    }
    return arena_printf(
        arena,
        "{%s\"global_batch_size\": %lld, \"micro_batch_size\": %lld,\n\"num_stages\": %d,\n"
        "\"num_gpus\": [%s],\n\"checkpoint_activations\": [%s],\n\"resharding_stages\": [],\n"
        "\"num_ops_in_each_stage\": [%s],\n\"model_parallel_size_of_each_op\": [%s],\n"
        "\"data_parallel_size_of_each_op\": [%s],\n\"recompute_ops\": [%s],\n"
        "\"algo_of_each_op\": [%s]}",
        d->head, (long long)d->global_batch, (long long)d->micro_batch, d->stages, devices, again,
        operators, lists(d, tp_at), lists(d, dp_at), lists(d, again_at), lists(d, algo_at));
}

static weft_status import(const char *text, const char *model, const char *cluster,
                          struct opened_plan *out, struct texts *notes)
{
    struct import_input input = {
        .file = "a.json", .text = text, .len = strlen(text), .model = model, .cluster = cluster};
    return source_find("aceso")->read(arena, &input, out, notes);
}

static struct opened_plan imported(const struct draft *draft, const char *cluster)
{
    struct opened_plan opened;
    struct texts notes = {0};
    if (import(text_of(draft), NULL, cluster, &opened, &notes) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    assert_int_equal(notes.len, 1); /* which model it is taken to be */
    return opened;
}

/* ---- as the rows have it --------------------------------------------------------------------- */

/* Stages of one tensor degree: what a row can say. */
static struct draft draft_of_rows(const struct author_plan *found, int64_t global_batch)
{
    struct draft d = {"\"model_name\": \"gpt\", \"model_size\": \"1_3B\", ", global_batch,
                      found->step, (int)found->stages.len};
    for (size_t s = 0; s < found->stages.len; s++)
        d.stage[s] = (struct draft_stage){.devices = found->stages.data[s].devices,
                                          .operators = found->stages.data[s].operators,
                                          .again = true,
                                          .tp = {found->stages.data[s].tp}};
    return d;
}

static void rows_and_json_give_one_plan(void **state)
{
    (void)state;
    struct author_plans rows = {0};
    struct contest_setup setup;
    struct plan *plan = NULL;
    struct texts differences = {0};
    assert_int_equal(author_plans_read(arena, &rows), WEFT_OK);
    struct author_plan *found = &rows.data[0]; /* the public plan of 1.3B */
    assert_string_equal(found->model, "gpt3-1.3b");
    found->stages.data[0].recomputed = "5-18"; /* one range, as a draft has it */
    assert_int_equal(contest_set_up(arena, "GPT-3", found->model, found->devices, &setup), WEFT_OK);
    assert_int_equal(author_plan_make(found, &setup.request, &plan), WEFT_OK);
    struct draft draft = draft_of_rows(found, setup.request.pins.global_batch);
    draft.stage[0].again_first = 5;
    draft.stage[0].again_end = 19;
    struct opened_plan opened = imported(&draft, "dgx-v100:1x4");
    plan_differences(arena, plan, opened.plan, &differences);
    for (size_t i = 0; i < differences.len; i++)
        print_error("%s\n", differences.data[i]);
    assert_int_equal(differences.len, 0);
    assert_int_equal(opened.plan->step_samples, plan->step_samples);
    assert_int_equal(opened.plan->overlap, 0);
    plan_free(plan);
    plan_close(&opened);
    contest_take_down(&setup);
}

/* ---- their walk ------------------------------------------------------------------------------ */

static int64_t instance_at(const struct plan *plan, const char *path)
{
    for (int64_t i = 0; i < plan->instances; i++)
        if (strcmp(plan_path(arena, plan, i), path) == 0)
            return i;
    fail_msg("no operator %s", path);
    return -1;
}

/* 1 + 24 * 13 + 1 operators of the encoder; the decoder's layers have 21. What Aceso has no operator for
 * goes with the one before it. */
static void t5_is_cut_where_they_cut(void **state)
{
    (void)state;
    struct draft d = {
        "\"model_name\": \"t5\", \"model_size\": \"770M\", ",
        512,
        2,
        3,
        {{1, 314, true, {1}, 0, 3, 7}, {1, 1 + 21 + 10, false, {1}}, {2, 475, true, {1, 2}, 5}}};
    struct opened_plan opened = imported(&d, "dgx-v100:1x4");
    const struct plan *plan = opened.plan;
    assert_int_equal(plan->stages, 3);
    assert_int_equal(plan->part[1].first, instance_at(plan, "decoder.embedding"));
    /* After the second layer's self-attention (8), norm and queries: keys and values stay with them. */
    assert_int_equal(plan->part[2].first, instance_at(plan, "decoder.layers.1.cross.score"));
    assert_true(plan_choice(plan, instance_at(plan, "encoder.layers.0.attn.score"))->recompute);
    assert_false(plan_choice(plan, instance_at(plan, "encoder.layers.0.attn.qkv"))->recompute);
    assert_true(plan_choice(plan, instance_at(plan, "encoder.layers.0.attn.context"))->recompute);
    assert_false(plan_choice(plan, instance_at(plan, "encoder.layers.0.attn.proj"))->recompute);
    /* Operators of the last stage, from its fifth on, have tp 2. */
    int64_t fourth = instance_at(plan, "decoder.layers.1.cross.proj"),
            fifth = instance_at(plan, "decoder.layers.1.cross.dropout_add"),
            up = instance_at(plan, "decoder.layers.1.mlp.up");
    assert_int_equal(split_degree(&plan_choice(plan, fourth)->split, DIM_BATCH), 2);
    assert_int_equal(split_degree(&plan_choice(plan, fifth)->split, DIM_BATCH), 1);
    assert_int_equal(split_degree(&plan_choice(plan, up)->split, DIM_OUT), 2);
    plan_close(&opened);
}

/* 4 + 16 * 8 + 2 operators: every block has a shortcut, of which Weft has four. */
static void resnet_is_cut_where_they_cut(void **state)
{
    (void)state;
    struct draft d = {
        "\"model_name\": \"resnet\", \"model_size\": \"500M\", ",
        64,
        32,
        3,
        {{1, 4 + 8 + 8, false, {1}}, {1, 8 + 7, false, {1}}, {2, 99, false, {2}, .flipped = 3}}};
    struct opened_plan opened = imported(&d, "dgx-v100:1x4");
    const struct plan *plan = opened.plan;
    assert_int_equal(plan->part[1].first, instance_at(plan, "layer1.2.conv1"));
    assert_int_equal(plan->part[2].first, instance_at(plan, "layer2.0.relu"));
    /* Its fourth, after the ReLU: the next block's second convolution, by inputs. */
    int64_t second = instance_at(plan, "layer2.1.conv2"),
            third = instance_at(plan, "layer2.1.conv3");
    assert_int_equal(split_degree(&plan_choice(plan, second)->split, DIM_IN), 2);
    assert_int_equal(split_degree(&plan_choice(plan, third)->split, DIM_OUT), 2);
    plan_close(&opened);
}

/* Where the stage keeps all, operators that are named are not recomputed. */
static void stages_without_checkpoints_keep_all(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct draft d = {"\"model_name\": \"gpt\", \"model_size\": \"350M\", ",
                          8,
                          4,
                          1,
                          {{2, 315, again == 1, {2}, 0, 1, 314}}};
        struct opened_plan opened = imported(&d, "dgx-v100:1x2");
        int64_t recomputed = 0;
        for (int64_t i = 0; i < opened.plan->instances; i++)
            recomputed += plan_choice(opened.plan, i)->recompute;
        assert_int_equal(recomputed, again ? 313 : 0);
        plan_close(&opened);
    }
}

/* A size that no table has, and one of a table with other layers: sizes that the file has make the model. */
static void files_tell_their_sizes(void **state)
{
    (void)state;
#define SIZES                                                                                      \
    "\"num_layers\": 2, \"seq_length\": 64, \"hidden_size\": 128, "                                \
    "\"num_attention_heads\": 4, "
    static const char *const HEADS[] = {
        "\"model_name\": \"gpt\", \"model_size\": \"odd\", " SIZES,
        "\"model_name\": \"gpt\", \"model_size\": \"350M\", " SIZES};
    for (size_t i = 0; i < COUNT_OF(HEADS); i++) {
        struct draft d = {HEADS[i], 8, 4, 1, {{2, 3 + 2 * 13, false, {2}}}};
        struct opened_plan opened = imported(&d, "dgx-v100:1x2");
        assert_int_equal(opened.model->layers, 2);
        assert_int_equal(opened.model->seq, 64);
        assert_int_equal(model_op_of_kind(opened.model, OP_EMBEDDING)->weight[0].operand.size[1],
                         128);
        plan_close(&opened);
    }
#undef SIZES
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void wrong_files_are_explained(void **state)
{
    (void)state;
    struct draft good = {"", 8, 4, 1, {{2, 315, false, {2}}}};
    struct draft batch = good, small = good, machine = good, size = good, model = good;
    batch.global_batch = 6;
    small.stage[0].tp[0] = 1;
    small.micro_batch = 1;
    machine.stage[0].devices = 4;
    size.head = "\"model_name\": \"gpt\", \"model_size\": \"7B\", ";
    model.stage[0].operators = 314;
    struct draft hidden = good;
    hidden.head = "\"hidden_size\": 2048, ";
    const struct {
        const char *text, *model, *message;
    } BROKEN[] = {
        {"[]", "gpt3-350m",
         "a.json:1: 'the value' is a list, expected a mapping of keys to values"},
        {"{\"num_stages\": 1}", "gpt3-350m",
         "a.json:1: 'global_batch_size' is missing, expected a whole number of at least 1"},
        {text_of(&size), NULL, "no model of Weft is known for 'gpt' of size '7B'"},
        {text_of(&batch), "gpt3-350m",
         "a.json:1: 'micro_batch_size' is 4, which does not divide 'global_batch_size', 6"},
        {text_of(&small), "gpt3-350m", "a.json:7: dp 2 does not divide 'micro_batch_size', 1"},
        {text_of(&machine), "gpt3-350m",
         "a.json:3: 'num_gpus' adds up to 4 devices, dgx-v100 has 2"},
        {text_of(&model), "gpt3-350m",
         "a plan of 314 operators; by Aceso's walk gpt3-350m has 315"},
        {text_of(&hidden), "gpt3-350m", "a.json:1: 'hidden_size' is 2048, gpt3-350m has 1024"},
        {text_of(&good), "llama3-8b", "a plan of 315 operators; by Aceso's walk llama3-8b has 163"},
        {"{\"global_batch_size\": 8, \"micro_batch_size\": 8, \"num_stages\": 2, \"num_gpus\": "
         "[2], "
         "\"num_ops_in_each_stage\": [], \"model_parallel_size_of_each_op\": [], "
         "\"data_parallel_size_of_each_op\": []}",
         "gpt3-350m", "a.json:1: 'num_gpus' has 1 entries, expected one for each of the 2 stages"},
        {"{\"global_batch_size\": 8, \"micro_batch_size\": 8, \"num_stages\": 1, \"num_gpus\": 2, "
         "\"num_ops_in_each_stage\": [], \"model_parallel_size_of_each_op\": [], "
         "\"data_parallel_size_of_each_op\": []}",
         "gpt3-350m", "a.json:1: 'num_gpus' is a number, expected a list"},
        {"{\"global_batch_size\": 8, \"micro_batch_size\": 8, \"num_stages\": 1, \"num_gpus\": "
         "[2], "
         "\"num_ops_in_each_stage\": [1],\n\"model_parallel_size_of_each_op\": [[2]], "
         "\"data_parallel_size_of_each_op\": [[2]]}",
         "gpt3-350m", "a.json:2: tp 2 * dp 2 is not the 2 devices of the stage"},
        {"{\"global_batch_size\": 8, \"micro_batch_size\": 8, \"num_stages\": 1, \"num_gpus\": "
         "[2], "
         "\"num_ops_in_each_stage\": [1],\n\"model_parallel_size_of_each_op\": [[3]], "
         "\"data_parallel_size_of_each_op\": [[1]]}",
         "gpt3-350m", "a.json:2: 'model_parallel_size_of_each_op' has 3, expected 1 to 2"},
    };
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        struct opened_plan opened;
        struct texts notes = {0};
        weft_status status =
            import(BROKEN[i].text, BROKEN[i].model, "dgx-v100:1x2", &opened, &notes);
        if (status == WEFT_BAD_INPUT && strcmp(weft_last_error()->message, BROKEN[i].message) == 0)
            continue;
        print_error("%zu: %s\nexpected %s\n", i, weft_last_error()->message, BROKEN[i].message);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* The norms of a layer are counted: a decoder's cross-attention comes between the other two. */
static void names_are_those_of_the_tables(void **state)
{
    (void)state;
    static const struct {
        const char *path, *name;
    } NAMES[] = {
        {"layers.3.attn.norm", "enc-1st-layernorm"},
        {"layers.3.mlp.norm", "enc-2nd-layernorm"},
        {"encoder.layers.0.attn.norm", "enc-1st-layernorm"},
        {"encoder.layers.0.mlp.norm", "enc-2nd-layernorm"},
        {"decoder.layers.7.attn.norm", "dec-1st-layernorm"},
        {"decoder.layers.7.cross.norm", "dec-2nd-layernorm"},
        {"decoder.layers.7.mlp.norm", "dec-3rd-layernorm"},
        {"decoder.layers.7.attn.qkv", "dec-attention-qkv-1"},
        {"decoder.layers.7.cross.q", "dec-attention-qkv-2"},
        {"layers.3.mlp.down", "enc-MLP-GEMM-2"},
        {"layer2.0.conv3", "block-1-0-conv3"},
        {"relu", "relu1"},
        {"head", "loss-and-head"},
    };
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        assert_string_equal(aceso_operator_name(arena, "loss-and-head", NAMES[i].path),
                            NAMES[i].name);
    assert_null(aceso_operator_name(arena, "", "layers.3.attn.rotary"));
}

/* What is exported reads back as the plan that it was. */
static void exported_plans_read_back(void **state)
{
    (void)state;
    static const struct degrees DEGREES[] = {
        {.tp = 2, .pp = 2}, {.tp = 4, .pp = 1}, {.pp = 4}, {.tp = 2, .pp = 4}};
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open("gpt3-350m", "attention: eager", &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-v100", &cluster), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(DEGREES); i++) {
        struct degrees d = aceso_settings(64);
        struct plan *plan;
        struct export_result written;
        struct opened_plan read;
        struct texts notes = {0};
        d.tp = DEGREES[i].tp;
        d.pp = DEGREES[i].pp;
        d.micro_batch = 1;
        d.has_recompute = true;
        d.recompute = i % 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        assert_int_equal(plan_from_degrees(model, cluster, &d, &plan), WEFT_OK);
        if (plan_export(arena, plan, "aceso", false, &written) != WEFT_OK)
            fail_msg("%s", weft_last_error()->message);
        struct import_input input = {.file = "written.json",
                                     .text = written.text,
                                     .len = strlen(written.text),
                                     .model = i ? "gpt3-350m" : NULL, /* found by its sizes */
                                     .options = i ? "attention: eager" : NULL,
                                     .cluster = "dgx-v100"};
        if (aceso_import(arena, &input, &read, &notes) != WEFT_OK)
            fail_msg("%s", weft_last_error()->message);
        assert_int_equal(read.plan->instances, plan->instances);
        for (int64_t k = 0; k < plan->instances; k++) {
            assert_true(
                split_equal(&plan_choice(plan, k)->split, &plan_choice(read.plan, k)->split));
            assert_int_equal(plan_choice(plan, k)->recompute, plan_choice(read.plan, k)->recompute);
        }
        assert_int_equal(read.plan->stages, plan->stages);
        struct export_result again;
        if (plan_export(arena, read.plan, "aceso", false, &again) != WEFT_OK)
            fail_msg("%s", weft_last_error()->message);
        assert_string_equal(again.text, written.text);
        plan_free(again.written);
        plan_close(&read);
        plan_free(written.written);
        plan_free(plan);
    }
    cluster_free(cluster);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_json_give_one_plan),
        cmocka_unit_test(t5_is_cut_where_they_cut),
        cmocka_unit_test(resnet_is_cut_where_they_cut),
        cmocka_unit_test(stages_without_checkpoints_keep_all),
        cmocka_unit_test(files_tell_their_sizes),
        cmocka_unit_test(names_are_those_of_the_tables),
        cmocka_unit_test(wrong_files_are_explained),
        cmocka_unit_test(exported_plans_read_back),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

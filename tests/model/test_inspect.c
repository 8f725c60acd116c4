/* test_inspect.c - `weft inspect` and `weft models`, asked as a process: JSON fields, the folded
 * tree and its depth, overrides, bare names. */
#include "program.h"

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value))
        fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static const json_t *child(const json_t *children, const char *name)
{
    size_t i;
    json_t *node;
    json_array_foreach(children, i, node)
    {
        if (strcmp(json_string_value(json_object_get(node, "name")), name) == 0)
            return node;
    }
    fail_msg("no node '%s'", name);
    return NULL;
}

/* ---- inspect --------------------------------------------------------------------------------- */

static void json_has_its_fields(void **state)
{
    (void)state;
    json_t *json = json_of("inspect resnet-50 --json");
    assert_string_equal(json_string_value(json_object_get(json, "name")), "resnet-50");
    assert_string_equal(json_string_value(json_object_get(json, "family")), "resnet");
    assert_string_equal(json_string_value(json_object_get(json, "dtype")), "fp32");
    assert_true(json_is_string(json_object_get(json, "source")));
    assert_true(json_is_array(json_object_get(json, "warnings")));
    assert_true(number(json, "parameters") == 25557032);
    assert_true(number(json, "layers") == 16);
    assert_true(number(json, "seq") == 1);
    assert_true(number(json, "operators") == 175);
    assert_true(number(json, "activation_bytes_per_sample") > 50e6);
    assert_true(number(json, "kept_bytes_per_sample") ==
                number(json, "activation_bytes_per_sample"));
    const json_t *phases = json_object_get(json, "training_flops");
    assert_true(number(phases, "forward") == number(json, "flops_per_sample"));
    assert_true(number(phases, "backward_weight") == number(json, "flops_per_sample"));
    assert_true(number(phases, "backward_input") < number(json, "flops_per_sample"));
    assert_null(json_object_get(json, "ops"));
    json_decref(json);
}

/* The parts of every module add up to it, and the tree ends at the depth asked for. */
static void check_tree(const json_t *children, double parameters, double flops, int levels)
{
    size_t i;
    json_t *node;
    json_array_foreach(children, i, node)
    {
        json_t *below = json_object_get(node, "children");
        bool module = strcmp(json_string_value(json_object_get(node, "kind")), "module") == 0;
        assert_int_equal(below != NULL, module && levels > 1);
        if (below)
            check_tree(below, number(node, "parameters"), number(node, "flops_per_sample"),
                       levels - 1);
        parameters -= number(node, "parameters");
        flops -= number(node, "flops_per_sample");
    }
    assert_true(parameters == 0);
    assert_true(flops == 0);
}

static void tree_adds_up_to_its_depth(void **state)
{
    static const char *const MODELS[] = {"resnet-50", "inception-v3", "gpt3-13b", "dlrm"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        for (int depth = 1; depth <= 4; depth++) {
            char arguments[128];
            snprintf(arguments, sizeof arguments, "inspect %s --depth %d --json", MODELS[i], depth);
            json_t *json = json_of(arguments);
            check_tree(json_object_get(json, "tree"), number(json, "parameters"),
                       number(json, "flops_per_sample"), depth);
            json_decref(json);
        }
    }
}

static void repeats_are_folded(void **state)
{
    (void)state;
    json_t *json = json_of("inspect resnet-50 --json");
    const json_t *node = child(json_object_get(json, "tree"), "layer3.1-5");
    assert_true(number(node, "copies") == 5);
    assert_true(number(node, "operators") == 50);
    /* 1x1 1024-256, 3x3 256-256, 1x1 256-1024, their norms; five times */
    assert_true(number(node, "parameters") ==
                5 * (1024 * 256 + 9 * 256 * 256 + 256 * 1024 + 2 * (256 + 256 + 1024)));
    child(json_object_get(node, "children"), "conv2");
    json_decref(json);
    char *text = answer_to("inspect resnet-50 --depth 1");
    assert_non_null(strstr(text, "layer3.1-5 (x5)"));
    assert_null(strstr(text, "conv2"));
    free(text);
}

/* Every second layer a mixture: two interleaved series of 16 layers, no row for what holds them. */
static void interleaved_layers_are_two_series(void **state)
{
    (void)state;
    json_t *json = json_of("inspect mixtral-8x7b --set moe_every=2 --depth 2 --json");
    const json_t *tree = json_object_get(json, "tree");
    assert_int_equal(json_array_size(tree), 6); /* embedding, two series, norm, head, loss */
    assert_true(number(child(tree, "layers.0-30/2"), "copies") == 16);
    const json_t *mixture = child(tree, "layers.1-31/2");
    assert_true(number(mixture, "copies") == 16);
    child(json_object_get(mixture, "children"), "attn");
    json_decref(json);
}

static void overrides_and_dtype_count(void **state)
{
    (void)state;
    json_t *plain = json_of("inspect resnet-50 --json");
    json_t *half = json_of("inspect resnet-50 --dtype bf16 --json");
    json_t *deep = json_of("inspect resnet-50 --set 'blocks=[3, 4, 23, 3]' --json");
    json_t *yaml = json_of("inspect resnet-50 --set 'blocks: [3, 4, 23, 3]' --json");
    json_t *both = json_of("inspect resnet-50 --set classes=10 --set image=64 --json");
    double kept = number(plain, "activation_bytes_per_sample");
    double kept_half = number(half, "activation_bytes_per_sample");
    assert_true(kept_half > 0.5 * kept && kept_half < 0.55 * kept); /* places stay 8 bytes */
    assert_true(number(deep, "parameters") == 44549160);
    assert_true(json_equal(deep, yaml));
    assert_true(number(both, "parameters") == 25557032 - 990 * 2049);
    json_decref(plain);
    json_decref(half);
    json_decref(deep);
    json_decref(yaml);
    json_decref(both);
}

static void every_operator_is_listed(void **state)
{
    (void)state;
    json_t *json = json_of("inspect resnet-50 --ops --json");
    double operators = 0, parameters = 0;
    size_t i;
    json_t *op;
    json_array_foreach(json_object_get(json, "ops"), i, op)
    {
        operators += number(op, "copies");
        parameters += number(op, "parameters");
    }
    assert_true(operators == number(json, "operators"));
    assert_true(parameters == number(json, "parameters"));
    op = json_array_get(json_object_get(json, "ops"), 0);
    assert_string_equal(json_string_value(json_object_get(op, "path")), "conv1");
    assert_true(number(json_object_get(op, "dims"), "out") == 64);
    json_decref(json);
}

static void times_on_a_cluster_say_their_source(void **state)
{
    (void)state;
    json_t *json = json_of("inspect resnet-50 --on dgx-v100 --microbatch 32 --json");
    const json_t *on = json_object_get(json, "on");
    double forward = 0, backward = 0;
    size_t i;
    json_t *op;
    json_array_foreach(json_object_get(json, "ops"), i, op)
    {
        forward += number(op, "forward_s");
        backward += number(op, "backward_s");
        assert_true(json_is_string(json_object_get(op, "provenance")));
    }
    assert_true(number(on, "microbatch") == 32);
    assert_true(number(on, "forward_s") > 0 && number(on, "backward_s") > 0);
    assert_float_equal(forward, number(on, "forward_s"), 1e-9);
    assert_float_equal(backward, number(on, "backward_s"), 1e-9);
    json_decref(json);
}

static void wrong_questions_are_bad_input(void **state)
{
    static const char *const WRONG[] = {
        "inspect resnet-50 --depth 0",
        "inspect resnet-50 --depth x",
        "inspect resnet-50 --dtype int4",
        "inspect resnet-50 --set blocks",
        "inspect resnet-50 --set width=0",
        "inspect resnet-50 --seq 128",
        "inspect resnet-50 resnet-18",
        "inspect resnet-50 --on no-such-cluster",
        "inspect resnet-50 --microbatch -1",
        "models resnet-50",
        "models --family resnot",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        int code;
        char *text = ask(WRONG[i], &code);
        if (code != WEFT_BAD_INPUT || *text)
            fail_msg("weft %s: exit code %d", WRONG[i], code);
        free(text);
    }
}

/* ---- models ---------------------------------------------------------------------------------- */

static void models_are_listed_once_each(void **state)
{
    (void)state;
    json_t *json = json_of("models --json");
    const json_t *models = json_object_get(json, "models");
    char *names = answer_to("models --names"), *rest = names;
    size_t i;
    json_t *model;
    json_array_foreach(models, i, model)
    {
        const char *name = strsep(&rest, "\n");
        assert_string_equal(name, json_string_value(json_object_get(model, "name")));
        assert_true(number(model, "parameters") > 0 && number(model, "layers") > 0);
        assert_true(json_is_string(json_object_get(model, "source")));
    }
    assert_string_equal(rest, "");
    assert_true(json_array_size(models) > 40);
    free(names);
    json_decref(json);
}

static void one_family_can_be_listed(void **state)
{
    (void)state;
    char *names = answer_to("models --family vgg --names"), *table = answer_to("models -f vgg");
    assert_string_equal(names, "vgg-11\nvgg-11-bn\nvgg-13\nvgg-13-bn\nvgg-16\nvgg-16-bn\n"
                               "vgg-19\nvgg-19-bn\n");
    assert_non_null(strstr(table, "vgg-19-bn"));
    assert_null(strstr(table, "resnet-50"));
    free(names);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_its_fields),
        cmocka_unit_test(tree_adds_up_to_its_depth),
        cmocka_unit_test(repeats_are_folded),
        cmocka_unit_test(interleaved_layers_are_two_series),
        cmocka_unit_test(overrides_and_dtype_count),
        cmocka_unit_test(every_operator_is_listed),
        cmocka_unit_test(times_on_a_cluster_say_their_source),
        cmocka_unit_test(wrong_questions_are_bad_input),
        cmocka_unit_test(models_are_listed_once_each),
        cmocka_unit_test(one_family_can_be_listed),
    };
    return cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}

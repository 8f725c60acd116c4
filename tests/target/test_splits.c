/* test_splits.c - plans whose operators have splits of their own, for DTensor: the mesh that they lie on, and what its script has
 * not, each by its name. That scripts run and have the losses of one process is held by tests/checks/check-dtensor.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "target/target.h"

static struct arena *arena;
static struct model *model;
static struct cluster *cluster;
static struct plan *plan;

static int open_plan(const char *name, const char *options, struct degrees degrees)
{
    assert_int_equal(model_open(name, options, &model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-a100:1", &cluster), WEFT_OK);
    degrees.global_batch = 16;
    degrees.micro_batch = 1;
    assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
    return 0;
}

static void close_plan(void)
{
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

/* Gives every instance of this path's end another choice. */
static void change(const char *end, void (*how)(struct choice *choice, const char *text),
                   const char *text)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        const char *path = plan_path(arena, plan, i);
        size_t len = strlen(path), want = strlen(end);
        struct choice choice = *plan_choice(plan, i);
        if (len < want || strcmp(path + len - want, end) != 0)
            continue;
        how(&choice, text);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static void split(struct choice *choice, const char *text)
{
    struct doc *doc;
    assert_int_equal(doc_parse(arena, "test", text, strlen(text), DOC_YAML, &doc), WEFT_OK);
    assert_int_equal(split_parse(doc, text, &choice->split), WEFT_OK);
}
static void shard(struct choice *choice, const char *text)
{
    choice->shard = (uint8_t)(text[0] - '0');
}
static void offload(struct choice *choice, const char *text)
{
    (void)text;
    choice->offload = OFFLOAD_KEPT;
}
static void recompute(struct choice *choice, const char *text)
{
    (void)text;
    choice->recompute = true;
}
static void keep_parts(struct choice *choice, const char *text)
{
    (void)text;
    choice->parts = true;
}
static void turn(struct choice *choice, const char *text)
{
    struct choice back = *choice;
    split(&back, text);
    choice_set_back(choice, &back.split);
}

/* Each makes a plan that degrees do not make, and that the script does not run either. */
static const struct {
    const char *end, *text;
    void (*how)(struct choice *choice, const char *text);
    const char *says;
} REFUSED[] = {
    {"mlp.up", "2", shard, "layers.0.mlp.up (batch:4 out:2) has its state in parts"},
    {"mlp.up", "", offload, "layers.0.mlp.up (batch:4 out:2) waits in host memory"},
    {"mlp.norm", "", keep_parts, "layers.0.mlp.norm (batch:4 copy:2) is kept in parts"},
    {"mlp.up", "batch:8", turn, "layers.0.mlp.up (batch:4 out:2) has another split backward"},
    {"attn.attention", "batch:4 seq:2", split,
     "layers.0.attn.attention (batch:4 seq:2) divides attention"},
    {"mlp.up", "", recompute, "layers.0.mlp.up (batch:4 out:2) is recomputed otherwise"},
    {"layers.1.attn.qkv", "out:8", split, "layers.1.attn.qkv (out:8) cuts heads"},
};

static const char *first_difference(void)
{
    struct texts differences = {0};
    assert_int_equal(target_differences(arena, target_find("dtensor"), plan, &differences, NULL),
                     WEFT_OK);
    return differences.len ? differences.data[0] : NULL;
}

static void what_the_script_has_not_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        /* 3 heads of 20 features: 8 parts of the keys would be cut from the queries' */
        open_plan("gpt2", "layers: 2, attention: flash, hidden: 60, heads: 3",
                  (struct degrees){.tp = 1});
        change("mlp.up", split, "batch:4 out:2");
        change("mlp.norm", split, "batch:4 copy:2");
        change(REFUSED[i].end, REFUSED[i].how, REFUSED[i].text);
        const char *says = first_difference();
        if (!says || strncmp(says, REFUSED[i].says, strlen(REFUSED[i].says)) != 0)
            fail_msg("'%s', not '%s'", says ? says : "nothing", REFUSED[i].says);
        close_plan();
    }
}

static void scores_and_what_reads_them_are_split_alike(void **state)
{
    (void)state;
    open_plan("gpt2", "layers: 2, attention: eager", (struct degrees){.tp = 2});
    change("mlp.norm", split, "batch:8");
    assert_null(first_difference()); /* dropout has heads as its features */
    change("attn.softmax", split, "batch:8");
    assert_non_null(strstr(first_difference(), "attn.softmax (batch:8) is split otherwise than"));
    close_plan();
}

static void splits_lie_on_one_mesh(void **state)
{
    struct split_axes axes;
    (void)state;
    open_plan("gpt2", "layers: 2", (struct degrees){.tp = 1});
    assert_null(split_axes_of(arena, plan, &axes));
    assert_int_equal(axes.axes, 1);
    change("mlp.up", split, "batch:2 out:4");
    change("mlp.down", split, "in:4 copy:2");
    assert_null(split_axes_of(arena, plan, &axes));
    assert_int_equal(axes.axes, 3);
    for (int a = 0; a < 3; a++)
        assert_int_equal(axes.size[a], 2);
    struct choice choice = {0};
    split(&choice, "batch:2 out:4");
    assert_string_equal(split_on_axes(arena, &axes, &choice.split), "batch out out");
    split(&choice, "in:4 copy:2");
    assert_string_equal(split_on_axes(arena, &axes, &choice.split), "in in copy");
    split(&choice, "batch:8");
    assert_string_equal(split_on_axes(arena, &axes, &choice.split), "batch batch batch");
    assert_null(first_difference());
    close_plan();
}

/* Two parts and three parts, as of six devices. */
static void splits_across_each_other_are_refused(void **state)
{
    (void)state;
    open_plan("gpt2", "layers: 2", (struct degrees){.tp = 1});
    struct split_axes axes;
    plan->choice[0].split = split_none();
    assert_true(split_add(&plan->choice[0].split, DIM_BATCH, 3));
    change("mlp.up", split, "batch:2 out:4");
    const char *says = split_axes_of(arena, plan, &axes);
    assert_non_null(strstr(says ? says : "", "in 2 parts and others in 3"));
    close_plan();
}

static int make_arena(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static int free_arena(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_script_has_not_is_named),
        cmocka_unit_test(scores_and_what_reads_them_are_split_alike),
        cmocka_unit_test(splits_lie_on_one_mesh),
        cmocka_unit_test(splits_across_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}

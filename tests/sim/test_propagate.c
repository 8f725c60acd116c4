/* test_propagate.c - operators without a split take it from their neighbours (plan/propagate.c).
 *
 *   P1  Where queries, keys and values are split by their outputs, the rest becomes Megatron's plan of such degrees, or one
 *       that is predicted to be no slower, for 30 models.
 *   P2  Whatever is given, what follows computes what the model defines (1,000 plans at WEFT_TEST_PERCENT=1000).
 *   P3  Given splits stay as they are, and axes have the classes of dims that are given on them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan_text.h"
#include "random_plan.h"
#include "sim/sim.h"

/* ---- P1 -------------------------------------------------------------------------------------- */

static const struct {
    const char *model, *inputs; /* what is given, by name */
} MODELS[] = {
    {"gpt3-350m", "qkv"},   {"gpt3-1.3b", "qkv"},  {"gpt3-6.7b", "qkv"},    {"gpt3-13b", "qkv"},
    {"gpt3-39b", "qkv"},    {"cpm", "qkv"},        {"gpt2", "qkv"},         {"gpt2-medium", "qkv"},
    {"opt-1.3b", "qkv"},    {"opt-13b", "qkv"},    {"pythia-6.9b", "qkv"},  {"gpt-neox-20b", "qkv"},
    {"llama2-7b", "qkv"},   {"llama2-13b", "qkv"}, {"llama3-8b", "qkv"},    {"llama3.2-1b", "qkv"},
    {"llama3.2-3b", "qkv"}, {"mistral-7b", "qkv"}, {"qwen2.5-7b", "qkv"},   {"qwen3-8b", "q k v"},
    {"qwen3-4b", "q k v"},  {"gemma-7b", "qkv"},   {"gemma2-9b", "qkv"},    {"phi3-mini", "qkv"},
    {"bert-base", "qkv"},   {"bert-large", "qkv"}, {"bert-huge-32", "qkv"}, {"t5-base", "qkv"},
    {"t5-large", "qkv"},    {"vit-large", "qkv"},
};
_Static_assert(COUNT_OF(MODELS) == 30, "as many as the claim says");

static double seconds_of(const char *text)
{
    struct opened_plan opened = parsed(text);
    struct prediction *prediction = NULL;
    if (simulate(opened.plan, &(struct simulate_options){.times_only = true}, &prediction))
        fail_msg("%s\n%s", text, weft_last_error()->message);
    double seconds = 1e-9 * (double)prediction->iteration_ns;
    prediction_free(prediction);
    plan_close(&opened);
    return seconds;
}

/* "qkv", or "q k v", as lines of a tree. */
static const char *tree_of(struct arena *keep, const char *names, const char *split)
{
    char *rest = arena_copy_text(keep, names), *name;
    const char *text = "tree:\n";
    while ((name = strsep(&rest, " ")) != NULL)
        text = arena_printf(keep, "%s  '*.%s': {split: %s}\n", text, name, split);
    return text;
}

static void test_the_rest_is_megatrons(void **state)
{
    (void)state;
    struct arena *keep = arena_new();
    double least = 1;
    int faster = 0;
    for (size_t i = 0; i < COUNT_OF(MODELS); i++) {
        const char *top = arena_printf(
            keep, "model: %s\noptions: {layers: 2}\ncluster: hgx-b300\nmemory: 4000GiB\n",
            MODELS[i].model);
        const char *given =
            arena_printf(keep, "%sbatch: {global: 64, step: 8}\npropagate: true\n%s", top,
                         tree_of(keep, MODELS[i].inputs, "batch:2 out:4"));
        double ours = seconds_of(given);
        double theirs = seconds_of(
            arena_printf(keep, "%sbatch: {global: 64, micro: 4}\ndegrees: {tp: 4}\n", top));
        if (ours > theirs * 1.0001)
            fail_msg("%s: %.6f s, Megatron's %.6f s", MODELS[i].model, ours, theirs);
        faster += ours < theirs * 0.9999;
        least = fmin(least, ours / theirs);
    }
    print_message("%zu models: %d are faster than Megatron's, by up to %.1f %%; the others equal\n",
                  COUNT_OF(MODELS), faster, 100 * (1 - least));
    arena_free(keep);
}

static void test_it_is_column_row_heads(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(
        "model: llama3-8b\ncluster: dgx-a100\nbatch: {global: 64, step: 8}\npropagate: true\n"
        "tree: {'*.qkv': {split: batch:2 out:4}}\n");
    expect_split(opened.plan, "layers.3.attn.attention", "batch:2 head:4");
    expect_split(opened.plan, "layers.3.attn.proj", "batch:2 in:4");
    expect_split(opened.plan, "layers.3.mlp.norm", "batch:2 copy:4");
    expect_split(opened.plan, "layers.3.mlp.gate_up", "batch:2 out:4");
    expect_split(opened.plan, "layers.3.mlp.down", "batch:2 in:4");
    expect_split(opened.plan, "loss", "batch:2 vocab:4");
    plan_close(&opened);
}

/* P3: positions are split between products because somebody asks for it once. */
static void test_positions_where_they_are_given(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(
        "model: gpt3-1.3b\ncluster: dgx-a100\nbatch: {global: 16, step: 4}\npropagate: true\n"
        "tree:\n  '*.qkv': {split: out:8}\n  layers.*.mlp.norm: {split: seq:8}\n");
    expect_split(opened.plan, "layers.3.mlp.norm", "seq:8");
    expect_split(opened.plan, "layers.3.attn.qkv", "out:8");
    expect_split(opened.plan, "layers.3.attn.dropout_add", "seq:8");
    expect_split(opened.plan, "layers.3.mlp.down", "in:8");
    plan_close(&opened);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } CASES[] = {
        {"propagate: true\n", "needs a split of an operator"},
        {"propagate: true\ndegrees: {tp: 2}\ntree: {head: {split: out:2}}\n", "both say how"},
        {"propagate: 3\n", "propagate"},
    };
    struct arena *keep = arena_new();
    struct opened_plan opened;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const char *text = arena_printf(keep, "model: gpt2\ncluster: dgx-a100\n%s", CASES[i].text);
        assert_int_equal(parse(text, &opened), WEFT_BAD_INPUT);
        assert_non_null(strstr(weft_last_error()->message, CASES[i].says));
    }
    arena_free(keep);
}

/* ---- P2 -------------------------------------------------------------------------------------- */

static const struct {
    const char *model, *options;
} SMALL[] = {
    {"gpt2", "layers: 2, hidden: 32, heads: 4, seq: 16, vocab: 100"},
    {"gpt2", "layers: 2, hidden: 32, heads: 4, seq: 16, vocab: 96, attention: eager, tied: false"},
    {"llama2-7b", "layers: 2, hidden: 32, heads: 8, kv_heads: 2, ffn: 64, seq: 16, vocab: 96"},
    {"qwen3-8b", "layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 16, vocab: 64"},
    {"t5-base",
     "layers: 2, hidden: 32, heads: 4, d_kv: 8, ffn: 64, seq: 16, decoder_seq: 8, vocab: 96"},
    {"bert-base", "layers: 2, hidden: 32, heads: 4, seq: 16, vocab: 96"},
    {"vit-large", "layers: 2, hidden: 32, heads: 4, image: 32, patch: 8, classes: 12"},
};

/* A split that an operator can have, on up to so many devices; "": none was drawn. */
static const char *draw_split(struct rng *rng, struct arena *keep, const struct model *model,
                              const struct op *op, int64_t devices)
{
    const char *text = "";
    unsigned used = 0;
    for (int64_t left = devices; left > 1;) {
        int place = (int)rng_below(rng, op_dims(op->kind));
        enum dim_role role = OP_KINDS[op->kind].dims[place].role;
        int64_t degree = chance(rng, 2) ? 2 : left;
        left /= degree;
        bool legal = role == ROLE_BATCH ||
                     (role != ROLE_WHOLE && (role != ROLE_HALO || window_axis_of(op, place) >= 0) &&
                      op->size[place] > 1 && split_legal(model, op, place, degree));
        if (!legal || used >> place & 1)
            continue;
        used |= 1U << place;
        text = arena_printf(keep, "%s%s%s:%lld", text, *text ? " " : "",
                            dim_name(OP_KINDS[op->kind].dims[place].dim), (long long)degree);
    }
    return text;
}

static const char *draw_tree(struct rng *rng, struct arena *keep, const struct model *model,
                             int64_t devices)
{
    const char *text = "tree:\n";
    int lines = 0;
    while (lines < 1 + (int)rng_below(rng, 3)) {
        int32_t number = (int32_t)rng_below(rng, model->ops);
        const struct op *op = &model->op[number];
        const char *split = draw_split(rng, keep, model, op, devices);
        if (!*split)
            continue;
        text = arena_printf(keep, "%s  '%s%s': {split: %s}\n", text, op->module ? "*." : "",
                            op->name, split);
        lines++;
    }
    return text;
}

/* Whether the plan exists. */
static bool prove(const char *text)
{
    struct opened_plan opened;
    struct graph *graph = NULL;
    if (parse(text, &opened)) /* two lines that name one operator may ask for what it cannot have */
        return false;
    if (graph_compile(opened.plan, &(struct compile_options){FOLD_NEVER}, &graph) ||
        graph_verify(graph))
        fail_msg("%s\n%s", text, weft_last_error()->message);
    graph_free(graph);
    plan_close(&opened);
    return true;
}

static void test_annotations_compute_the_same(void **state)
{
    (void)state;
    struct rng rng;
    int rounds = rounds_of(100), proved = 0, drawn = 0;
    rng_seed(&rng, 23);
    for (; proved < rounds; drawn++) {
        assert_true(drawn < 2 * rounds + 10);
        struct arena *keep = arena_new();
        size_t which = (size_t)rng_below(&rng, COUNT_OF(SMALL));
        int64_t devices = chance(&rng, 2) ? 4 : 8;
        int stages = chance(&rng, 4) ? 2 : 1;
        struct model *model;
        assert_int_equal(model_open(SMALL[which].model, SMALL[which].options, &model), WEFT_OK);
        const char *tree = draw_tree(&rng, keep, model, devices / stages);
        proved += prove(arena_printf(
            keep,
            "model: %s\noptions: {%s}\ncluster: piz-daint:%lld\nstages: %d\n"
            "batch: {global: 16, step: 8}\npropagate: true\n%s",
            SMALL[which].model, SMALL[which].options, (long long)devices, stages, tree));
        model_free(model);
        arena_free(keep);
    }
    print_message("%d drawn, %d of them make a plan, which is proved\n", drawn, rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rest_is_megatrons),
        cmocka_unit_test(test_it_is_column_row_heads),
        cmocka_unit_test(test_positions_where_they_are_given),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_annotations_compute_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_autoddl.c - the planner autoddl.
 *
 *   P1  Same answer for any number of threads, what is pinned stays, errors say what to do.
 *   P2  Where memory is short layers differ, and no other mixture of the two that fits is faster.
 *   P3  Images are in blocks where that is faster than stripes, and not where it is slower.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autoddl_problem.h"
#include "random_plan.h"

/* ---- P1: the planner ------------------------------------------------------------------------- */

static struct model *gpt;
static struct cluster *nodes;

static int open_both(void **state)
{
    (void)state;
    return model_open("gpt3-1.3b", "layers: 4, seq: 512", &gpt) ||
           cluster_open("piz-daint:8", &nodes);
}

static int close_both(void **state)
{
    (void)state;
    model_free(gpt);
    cluster_free(nodes);
    return 0;
}

static weft_status ask(struct plan_options options, struct degrees pins, struct planned **out)
{
    struct plan_request request = {
        .model = gpt, .cluster = nodes, .pins = pins, .options = options};
    return plan_search(planner_find("autoddl"), &request, out);
}

static void planner_answers_alike_for_any_threads(void **state)
{
    struct planned *one, *many;
    struct degrees pins = {.global_batch = 32};
    (void)state;
    assert_int_equal(ask((struct plan_options){.threads = 1}, pins, &one), WEFT_OK);
    assert_int_equal(ask((struct plan_options){.threads = 4}, pins, &many), WEFT_OK);
    assert_int_equal(one->trials.len, many->trials.len);
    for (size_t i = 0; i < one->trials.len; i++) {
        assert_int_equal(one->trials.data[i].iteration_ns, many->trials.data[i].iteration_ns);
        assert_string_equal(one->trials.data[i].text, many->trials.data[i].text);
    }
    assert_true(one->trials.data[0].fits && one->candidates > 0 && one->reasons.len > 0);
    planned_free(one);
    planned_free(many);
}

/* ---- P2: layers that differ ------------------------------------------------------------------ */

enum { LAYERS = 4, MOST_IN_LAYER = 64 };

/* The layer that an instance is in, -1: none. */
static int32_t layer_of(const struct plan *plan, int64_t instance)
{
    int32_t layer = 0;
    if (!op_in_layer(plan->model, &plan->model->op[plan->instance[instance].op]))
        return -1;
    for (int64_t i = 0; i < instance; i++)
        layer += plan->ends_layer[i];
    return layer;
}

/* Whether two layers have the same splits. */
static bool layers_alike(const struct plan *plan, int32_t one, int32_t other)
{
    const struct choice *choice[LAYERS][MOST_IN_LAYER];
    int32_t count[LAYERS] = {0};
    for (int64_t i = 0; i < plan->instances; i++) {
        int32_t layer = layer_of(plan, i);
        if (layer >= 0)
            choice[layer][count[layer]++] = plan_choice(plan, i);
    }
    bool same = true;
    for (int32_t k = 0; k < count[one]; k++)
        same &= split_equal(&choice[one][k]->split, &choice[other][k]->split);
    return same;
}

/* Layer l becomes as layer from[l] was. */
static void paint(const struct plan *plan, const int32_t *from, struct plan *out)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        int32_t layer = layer_of(plan, i);
        for (int64_t j = 0; j < plan->instances && layer >= 0; j++)
            if (plan->instance[j].op == plan->instance[i].op && layer_of(plan, j) == from[layer])
                assert_int_equal(plan_choose(out, i, plan_choice(plan, j)), WEFT_OK);
    }
}

/* gpt3-1.3b with 4 layers in 2.2 GiB, where one split for all copies takes 0.588 s. All 16 mixtures of the answer's two
 * kinds of layers are tried. */
static void layers_differ_where_memory_is_short(void **state)
{
    struct planned *planned;
    struct degrees pins = {.global_batch = 32, .memory.limit_bytes = (int64_t)(2.2 * (1 << 30))};
    struct plan_request request = {.model = gpt, .cluster = nodes, .pins = pins};
    (void)state;
    assert_int_equal(ask((struct plan_options){.threads = 1}, pins, &planned), WEFT_OK);
    struct trial best = planned->trials.data[0];
    struct cost *cost;
    assert_int_equal(cost_open(&nodes->node.device, NULL, &cost), WEFT_OK);
    int32_t other = 1;
    while (other < LAYERS && layers_alike(best.plan, 0, other))
        other++;
    assert_true(best.fits && other < LAYERS);
    for (int32_t mask = 0; mask < 1 << LAYERS; mask++) {
        int32_t from[LAYERS];
        struct plan *painted;
        const struct trial *trial;
        for (int32_t l = 0; l < LAYERS; l++)
            from[l] = mask >> l & 1 ? other : 0;
        assert_int_equal(plan_copy(best.plan, &painted), WEFT_OK);
        paint(best.plan, from, painted);
        assert_int_equal(try_plan(&request, cost, painted, "", planned, &trial), WEFT_OK);
        bool uniform = mask == 0 || mask == (1 << LAYERS) - 1;
        double more = uniform ? 1 : 0.999;
        assert_true(!trial->fits ||
                    (double)trial->iteration_ns >= more * (double)best.iteration_ns);
    }
    cost_close(cost);
    planned_free(planned);
}

/* ---- P3: blocks of images -------------------------------------------------------------------- */

/* The splits in rows and columns alone that a convolution may take on these devices, blocks among them. */
static struct splits list_tiles(struct arena *keep, const struct op *op, const struct model *model,
                                const struct cluster *cluster)
{
    struct split_mesh mesh = split_mesh_of(cluster, cluster_devices(cluster));
    struct splits all = {0}, tiles = {0};
    mesh.blocks = true;
    splits_of(keep, model, op, &mesh, 1, &all);
    for (size_t i = 0; i < all.len; i++)
        if (split_degree(&all.data[i], DIM_HEIGHT) * split_degree(&all.data[i], DIM_WIDTH) ==
            split_devices(&all.data[i]))
            array_push(keep, &tiles, all.data[i]);
    return tiles;
}

/* The best plan with the convolutions in these rows and columns, and all else as it is, is no faster. */
static void check_tile(const struct plan_request *request, const struct trial *best,
                       const struct split *tile, struct cost *cost, struct planned *planned)
{
    struct plan *plan;
    const struct trial *trial;
    assert_int_equal(plan_copy(best->plan, &plan), WEFT_OK);
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.split = *tile;
        if (plan->model->op[plan->instance[i].op].kind == OP_CONV)
            assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
    assert_int_equal(try_plan(request, cost, plan, "", planned, &trial), WEFT_OK);
    assert_true(trial->iteration_ns >= best->iteration_ns);
}

/* Plans one sample; the degree of width of the second convolution. */
static int64_t planned_width(const char *name, const char *options, const char *on)
{
    struct arena *keep = arena_new();
    struct plan_request request = {.pins.global_batch = 1, .options.threads = 1};
    struct model *model;
    struct cluster *cluster;
    struct planned *planned;
    struct cost *cost;
    assert_int_equal(model_open(name, options, &model), WEFT_OK);
    assert_int_equal(cluster_open(on, &cluster), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    request.model = model;
    request.cluster = cluster;
    assert_int_equal(plan_search(planner_find("autoddl"), &request, &planned), WEFT_OK);
    struct trial best = planned->trials.data[0];
    struct splits tiles = list_tiles(keep, &model->op[1], model, cluster);
    for (size_t i = 0; i < tiles.len; i++)
        check_tile(&request, &best, &tiles.data[i], cost, planned);
    assert_true(tiles.len > 2);
    int64_t width = split_degree(&plan_choice(best.plan, 1)->split, DIM_WIDTH);
    planned_free(planned);
    cost_close(cost);
    cluster_free(cluster);
    model_free(model);
    arena_free(keep);
    return width;
}

/* P3: over the links of A100s a second exchange takes longer than shorter borders save. */
static void blocks_are_taken_where_they_are_faster(void **state)
{
    static const char FILE[] = WEFT_SOURCE_DIR "/tests/data/wide-images.yaml";
    (void)state;
    assert_true(planned_width(FILE, NULL, "piz-daint:16") > 1);
    assert_int_equal(planned_width(FILE, NULL, "dgx-a100:2"), 1);
}

/* Exact is no slower than what it bounds, plans are checked, pins stay. */
static void planner_keeps_pins_and_checks_plans(void **state)
{
    struct planned *planned;
    struct degrees pins = {.global_batch = 32, .pp = 2};
    (void)state;
    assert_int_equal(ask((struct plan_options){.search = "exact", .threads = 1}, pins, &planned),
                     WEFT_OK);
    for (size_t i = 0; i < planned->trials.len; i++) {
        struct plan *plan = planned->trials.data[i].plan;
        assert_int_equal(plan->stages, 2);
        assert_int_equal(plan->global_batch, 32);
        assert_int_equal(plan_check(plan), WEFT_OK);
    }
    planned_free(planned);
}

/* What nobody would choose is not better than what is chosen. */
static void no_random_plan_is_faster(void **state)
{
    struct planned *planned;
    struct rng rng;
    (void)state;
    rng_seed(&rng, 6);
    assert_int_equal(
        ask((struct plan_options){.threads = 1}, (struct degrees){.global_batch = 32}, &planned),
        WEFT_OK);
    double best = (double)planned->trials.data[0].iteration_ns / 32;
    for (int i = 0; i < rounds_of(20); i++) {
        struct simulate_options options = {.fold = FOLD_ALWAYS};
        struct plan *plan = random_plan(&rng, gpt, nodes);
        struct prediction *prediction;
        assert_int_equal(simulate(plan, &options, &prediction), WEFT_OK);
        if (plan->global_batch <= 32 && plan->dtype == gpt->dtype)
            assert_true((double)prediction->iteration_ns / (double)plan->global_batch >= best);
        prediction_free(prediction);
        plan_free(plan);
    }
    planned_free(planned);
}

static void planner_says_what_is_wrong(void **state)
{
    struct planned *planned;
    (void)state;
    assert_int_equal(ask((struct plan_options){.search = "best"},
                         (struct degrees){.global_batch = 32}, &planned),
                     WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "exhaustive or exact"));
    assert_int_equal(
        ask((struct plan_options){0}, (struct degrees){.global_batch = 32, .tp = 2}, &planned),
        WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "--pp only"));
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(planner_answers_alike_for_any_threads, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(planner_keeps_pins_and_checks_plans, open_both, close_both),
        cmocka_unit_test_setup_teardown(layers_differ_where_memory_is_short, open_both, close_both),
        cmocka_unit_test(blocks_are_taken_where_they_are_faster),
        cmocka_unit_test_setup_teardown(no_random_plan_is_faster, open_both, close_both),
        cmocka_unit_test_setup_teardown(planner_says_what_is_wrong, open_both, close_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_run_halo.c - images in stripes and tiles, whose windows read their neighbours' rows (compile/halo.c).
 *
 *   H1  By hand: which rows go between neighbours, for which pass, and their bytes.
 *   H2  Random splits of height and width compute what the model says; of d parts none lacks more than a naive count.
 *   H3  A folded graph takes the times of the unfolded one; the estimate is within 2 % and has its memory.
 *   H4  Runs have the losses and weights of one rank, within 1e-5.
 *   H5  Heights that do not divide are refused.
 *   H6  AutoDDL's search counts what stripes exchange; one split of height is enough for the others to follow.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "autoddl_problem.h"
#include "compile/compile.h"
#include "estimated.h"
#include "plan_text.h"
#include "run_alone.h"
#include "search/autoddl/layout_room.h"
#include "sim/sim.h"

#define ON(devices)                                                                                \
    "model: " WEFT_SOURCE_DIR "/data/models/wide-windows.yaml\ncluster: piz-daint:" #devices       \
    "\ndtype: fp32\nbatch: {global: 16, step: 8}\n"
#define COPIED(degree)                                                                             \
    "  pool: {split: copy:" degree "}\n  head: {split: copy:" degree                               \
    "}\n  loss: {split: copy:" degree "}\n"
static const char STRIPES[] = ON(4) "tree:\n  \"*\": {split: height:4}\n" COPIED("4");
static const char TILES[] = ON(4) "tree:\n  \"*\": {split: height:2 width:2}\n" COPIED("4");
static const char NESTED[] =
    ON(8) "tree:\n  \"*\": {split: height:2 batch:2 height:2}\n" COPIED("8");
static const char COLUMNS[] =
    ON(2) "tree:\n  \"*\": {split: width:2, recompute: true}\n" COPIED("2");

/* Gradients of its input are addends, whose halo is returned before they are added up. */
static const char CHANNELS[] = ON(
    4) "tree:\n  \"*\": {split: height:2 copy:2}\n  conv5: {split: height:2 out:2}\n" COPIED("4");

static struct graph *compile(const struct plan *plan, enum fold fold)
{
    struct graph *graph = NULL;
    if (graph_compile(plan, &(struct compile_options){fold}, &graph) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return graph;
}

/* ---- by hand (H1) ---------------------------------------------------------------------------- */

struct exchanged {
    int32_t items;
    int64_t bytes;
    int kind;
};

static struct exchanged exchanged(const struct graph *graph, const char *path, enum slot_kind slot,
                                  enum flow flow)
{
    struct exchanged sum = {0};
    int64_t instance = at(graph->plan, path);
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; graph->block[b].kind == slot && i < graph->block[b].items; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (!item->halo || item->instance != instance || item->phase != flow)
                continue;
            sum.items++;
            sum.bytes += item->bytes;
            sum.kind = item->step->kind;
        }
    return sum;
}

/* 8 samples of 8 channels in 4 stripes, 4 bytes an element.
 *   conv3  reads the model's images: nobody sends
 *   conv5  32 columns. Stripe v has rows 8 v .. 8 v + 7, and reads 8 v - 2 .. 8 v + 8 for its outputs 4 v .. 4 v + 3:
 *          2 before, 1 after; 3 * 8 * 8 * 32 * 4 = 24,576 bytes
 *   conv7  16 columns, rows 4 v - 3 .. 4 v + 6: 3 before, 3 after; 6 * 8 * 8 * 16 * 4 = 24,576
 *   pool3  16 columns, rows 4 v - 1 .. 4 v + 3: 1 before; 8 * 8 * 16 * 4 = 4,096
 *   last7  8 columns, 2 rows of its own, 3 before: beyond its neighbour, so that all 8 are gathered; 8 * 8 * 8 * 8 * 4 =
 *          16,384 */
static void test_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int64_t bytes;
        int there, back;
        bool weights;
    } ROWS[] = {
        {"conv3", 0, 0, 0, false},
        {"norm3", 0, 0, 0, false},
        {"conv5", 24576, COLLECTIVE_HALO, COLLECTIVE_HALO, true},
        {"conv7", 24576, COLLECTIVE_HALO, COLLECTIVE_HALO, true},
        {"pool3", 4096, COLLECTIVE_HALO, COLLECTIVE_HALO, false},
        {"last7", 16384, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER, true},
    };
    struct opened_plan opened = parsed(STRIPES);
    struct graph *graph = compile(opened.plan, FOLD_AUTO);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        const char *path = ROWS[i].path;
        struct exchanged there = exchanged(graph, path, SLOT_FORWARD, FLOW_FORWARD);
        struct exchanged again = exchanged(graph, path, SLOT_BACKWARD, FLOW_FORWARD);
        struct exchanged back = exchanged(graph, path, SLOT_BACKWARD, FLOW_GRADIENT);
        assert_int_equal(there.bytes, ROWS[i].bytes);
        assert_int_equal(there.kind, ROWS[i].there);
        assert_int_equal(again.bytes, ROWS[i].weights ? ROWS[i].bytes : 0);
        assert_int_equal(back.bytes, ROWS[i].bytes);
        assert_int_equal(back.kind, ROWS[i].back);
    }
    graph_free(graph);
    plan_close(&opened);
}

/* In 2 x 2 tiles a device has one neighbour along each axis. conv7 of 8 x 8 pixels lacks 3 rows of 8 columns, then 3 columns
 * of the 8 + 3 rows that it has by then: 8 * 8 * (3 * 8 + 3 * 11) * 4 = 14,592 bytes. */
static void test_tiles_by_hand(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(TILES);
    struct graph *graph = compile(opened.plan, FOLD_AUTO);
    struct exchanged there = exchanged(graph, "conv7", SLOT_FORWARD, FLOW_FORWARD);
    struct exchanged back = exchanged(graph, "conv7", SLOT_BACKWARD, FLOW_GRADIENT);
    assert_int_equal(there.items, 2);
    assert_int_equal(there.bytes, 14592);
    assert_int_equal(back.bytes, 14592);
    graph_free(graph);
    plan_close(&opened);
}

/* A halo of 3 MB along a row of devices takes as long as a send of 3 MB, and not a gather of the image. */
static void test_time(void **state)
{
    (void)state;
    struct cluster *cluster = NULL;
    struct collective_cost halo, send;
    struct group two = group_range(0, 2, 1), four = group_range(0, 4, 1);
    assert_int_equal(cluster_open("dgx-a100", &cluster), WEFT_OK);
    assert_int_equal(collective_time(cluster, COLLECTIVE_SEND, &two, 3000000, &send), WEFT_OK);
    assert_int_equal(collective_time(cluster, COLLECTIVE_HALO, &four, 3000000, &halo), WEFT_OK);
    assert_int_equal(halo.ns, send.ns);
    cluster_free(cluster);
}

/* ---- random splits (H2) ---------------------------------------------------------------------- */

static void split_at_random(struct rng *rng, struct plan *plan)
{
    static const enum dim DIMS[] = {DIM_HEIGHT, DIM_WIDTH, DIM_BATCH, DIM_OUT, DIM_HIDDEN};
    int64_t all = plan->stage[0].devices;
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        struct choice choice = *plan_choice(plan, i);
        int64_t left = all;
        choice.split = split_none();
        for (int tries = 0; left > 1 && tries < 6; tries++) {
            enum dim dim = DIMS[rng_below(rng, COUNT_OF(DIMS))];
            int place = op_find_dim(op->kind, dim);
            int64_t degree = left % 2 ? left : 2, now = split_degree(&choice.split, dim) * degree;
            if (place < 0 || op->size[place] % now ||
                (dim != DIM_BATCH && !split_legal(plan->model, op, place, now)) ||
                (dim == DIM_BATCH && plan->step_samples % now))
                continue;
            if (split_add(&choice.split, dim, degree))
                left /= degree;
        }
        assert_true(split_add(&choice.split, SPLIT_COPY, left));
        choice.recompute = rng_below(rng, 4) == 0;
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static int64_t halos_of(const struct graph *graph)
{
    int64_t halos = 0;
    for (int32_t b = 0; b < graph->blocks; b++)
        for (int32_t i = 0; i < graph->block[b].items; i++)
            halos += graph->block[b].item[i].halo;
    return halos;
}

static void test_random(void **state)
{
    (void)state;
    int64_t halos = 0;
    for (int round = 0; round < rounds_of(60); round++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)round);
        struct opened_plan opened = parsed(round % 2 ? STRIPES : NESTED);
        split_at_random(&rng, opened.plan);
        if (plan_check(opened.plan) != WEFT_OK)
            fail_msg("round %d: %s", round, weft_last_error()->message);
        struct graph *graph = compile(opened.plan, round % 3 ? FOLD_AUTO : FOLD_NEVER);
        halos += halos_of(graph);
        if (graph_verify(graph) != WEFT_OK)
            fail_msg("round %d: %s", round, weft_last_error()->message);
        graph_free(graph);
        plan_close(&opened);
    }
    assert_true(halos > rounds_of(60));
}

/* A graph without one of its exchanges is no proof. */
static void test_missing_exchange(void **state)
{
    (void)state;
    for (int flow = FLOW_FORWARD; flow <= FLOW_GRADIENT; flow++) {
        struct opened_plan opened = parsed(STRIPES);
        struct graph *graph = compile(opened.plan, FOLD_AUTO);
        for (int32_t b = 0; b < graph->blocks; b++)
            for (int32_t i = 0; i < graph->block[b].items; i++) {
                struct item *item = &graph->block[b].item[i];
                if (item->halo && item->phase == flow && item->bytes == 4096)
                    *item = (struct item){.kind = ITEM_OP,
                                          .rest = true,
                                          .needs = -1,
                                          .pattern = -1,
                                          .exchange = -1,
                                          .instance = item->instance};
            }
        assert_int_not_equal(graph_verify(graph), WEFT_OK);
        graph_free(graph);
        plan_close(&opened);
    }
}

/* ---- times (H3) ------------------------------------------------------------------------------ */

static struct prediction *predicted(const struct plan *plan, enum fold fold)
{
    struct prediction *p = NULL;
    if (simulate(plan, &(struct simulate_options){.fold = fold}, &p) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return p;
}

static void test_times(void **state)
{
    (void)state;
    struct opened_plan opened = parsed(STRIPES);
    struct prediction *folded = predicted(opened.plan, FOLD_AUTO),
                      *all = predicted(opened.plan, FOLD_NEVER);
    assert_int_equal(folded->iteration_ns, all->iteration_ns);
    struct arena *arena = arena_new();
    struct estimate estimate = estimate_of(arena, opened.plan);
    assert_int_equal(estimate.stage[0].peak_bytes, folded->stage[0].memory.peak);
    assert_true(fabs((double)estimate.iteration_ns / (double)folded->iteration_ns - 1) < 0.02);
    arena_free(arena);
    prediction_free(folded);
    prediction_free(all);
    plan_close(&opened);
}

/* ---- runs (H4) ------------------------------------------------------------------------------- */

static void test_runs(void **state)
{
    (void)state;
    static const char *const PLANS[] = {STRIPES, TILES, NESTED, COLUMNS, CHANNELS};
    for (size_t i = 0; i < COUNT_OF(PLANS); i++) {
        struct opened_plan opened = parsed(PLANS[i]);
        struct conditions c = {3, 3, NULL};
        char why[512] = "";
        if (!agree(opened.plan, &c, why, sizeof why))
            fail_msg("plan %zu: %s", i, why);
        forget_serial_runs();
        plan_close(&opened);
    }
}

/* ---- files (H5) ------------------------------------------------------------------------------ */

static void test_files(void **state)
{
    (void)state;
    struct opened_plan opened;
    assert_int_not_equal(parse(ON(3) "tree:\n  \"*\": {split: height:3}\n" COPIED("3"), &opened),
                         WEFT_OK);
    assert_non_null(
        strstr(weft_last_error()->message, "height:3 does not divide its height of 32"));
    opened = parsed(TILES);
    expect_round_trip(opened.plan);
    plan_close(&opened);
}

/* ---- searches (H6) --------------------------------------------------------------------------- */

/* The option of an operator that has two parts of rows and two of columns. */
static int32_t block_of(const struct layout_problem *p, int32_t op)
{
    for (size_t i = 0; i < p->splits[op].len; i++)
        if (split_degree(&p->splits[op].data[i], DIM_HEIGHT) == 2 &&
            split_degree(&p->splits[op].data[i], DIM_WIDTH) == 2)
            return (int32_t)i;
    fail_msg("no split of operator %d is in blocks", op);
    return -1;
}

/* One sample of 8 channels and 32 columns in 4 stripes: conv5's 3 rows there, back, and for the gradients of its weights.
 * In blocks of 16 rows and columns, 2 rows, and 2 columns of those and the 16. */
static void test_search_by_volume(void **state)
{
    (void)state;
    static const char FILE[] = WEFT_SOURCE_DIR "/data/models/wide-windows.yaml";
    struct model *model = NULL;
    int32_t stripes = -1, conv5 = 3;
    assert_int_equal(model_open(FILE, NULL, &model), WEFT_OK);
    struct layout_problem *p = open_problem(model, clusters[4], NULL, 1, 1);
    for (size_t i = 0; i < p->splits[conv5].len; i++)
        if (split_degree(&p->splits[conv5].data[i], DIM_HEIGHT) == 4)
            stripes = (int32_t)i;
    assert_true(stripes >= 0);
    assert_int_equal((int64_t)p->work->alone[conv5][stripes].halo, 3 * 3 * 8 * 32);
    struct layout_case with = p->about;
    layout_problem_free(p);
    with.blocks = true;
    assert_int_equal(layout_problem_new(&with, &p), WEFT_OK);
    assert_int_equal((int64_t)p->work->alone[conv5][block_of(p, conv5)].halo,
                     3 * 8 * (2 * 16 + 2 * 18));
    layout_problem_free(p);
    p = open_problem(model, clusters[4], NULL, 8, 1); /* as many samples as there are devices */
    for (size_t i = 0; i < p->splits[conv5].len; i++)
        assert_int_equal(split_degree(&p->splits[conv5].data[i], DIM_HEIGHT), 1);
    layout_problem_free(p);
    model_free(model);
}

static void test_propagation(void **state)
{
    (void)state;
    struct opened_plan opened;
    if (plan_load(WEFT_SOURCE_DIR "/data/plans/stripes.yaml", &opened) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    expect_split(opened.plan, "features.2", "batch:2 height:4");
    expect_split(opened.plan, "features.22", "batch:2 height:4");
    plan_close(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_tiles_by_hand),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_missing_exchange),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_search_by_volume),
        cmocka_unit_test(test_propagation),
    };
    return cmocka_run_group_tests(tests, open_run_models, close_run_models);
}

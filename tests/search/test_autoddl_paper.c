/* test_autoddl_paper.c - what AutoDDL's paper shows: 96 against 180 (Figure 3), volumes of 2-D and 3-D
 * products (section 4.3), coordinate descent within 3 % (Figure 7), VGG-13's splits (Figure 8), 6.8 B
 * parameters on 64 nodes (section 5.2), a small model on Google Cloud (section 5.3), the times of Table 3.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autoddl_cases.h"
#include "autoddl_problem.h"

static struct cluster *open_named(const char *name)
{
    struct cluster *cluster;
    if (cluster_open(name, &cluster) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return cluster;
}

static int32_t op_named(const struct model *model, const char *name)
{
    for (int32_t i = 0; i < model->ops; i++)
        if (strcmp(model->op[i].name, name) == 0)
            return i;
    fail_msg("no operator is called %s", name);
    return -1;
}

static void forbid_copies(struct layout_problem *p, int32_t op)
{
    for (int32_t i = 0; i < p->assign->options[op]; i++)
        if (split_degree(&p->splits[op].data[i], SPLIT_COPY) > 1)
            p->assign->time[op][i] = INFINITY;
}

/* Figure 3 counts the forward pass and what weights take: a sixteenth on each device. */
static void count_as_figure_3(struct layout_problem *p)
{
    const struct model *model = p->about.model;
    double parameters = 0;
    for (int32_t v = 0; v < model->ops; v++) {
        const struct op *op = &model->op[v];
        parameters += op_parameters(op);
        for (int32_t i = 0; i < p->assign->options[v]; i++) {
            int64_t local[OP_MAX_DIMS];
            split_local(op, &p->splits[v].data[i], p->about.step_samples, local);
            p->assign->time[v][i] = 0;
            p->assign->memory[v][i] =
                op->weights ? operand_elements(op, &op->weight[0].operand, local) : 0;
        }
    }
    for (int32_t e = 0; e < p->assign->edges; e++) {
        const struct assign_edge *edge = &p->assign->edge[e];
        int32_t wide = p->assign->options[edge->b];
        for (int32_t i = 0; i < p->assign->options[edge->a] * wide; i++)
            edge->time[i] = layout_edge_cost(p, e, i / wide, i % wide).there;
    }
    forbid_copies(p, op_named(model, "before"));
    forbid_copies(p, op_named(model, "after"));
    p->assign->limit = parameters / 16;
}

static int32_t option_of(const struct layout_problem *p, const char *op, const char *split)
{
    int32_t number = op_named(p->about.model, op);
    struct arena *scratch = arena_new();
    int32_t found = -1;
    for (int32_t i = 0; i < p->assign->options[number]; i++)
        if (strcmp(split_text(scratch, &p->splits[number].data[i]), split) == 0)
            found = i;
    arena_free(scratch);
    assert_true(found >= 0);
    return found;
}

/* 7/8 * 48 + 3 * 1/2 * 12 + 3/4 * 24 + 3/4 * 24 = 96 against 2 * 15/16 * 96 = 180, in units of which
 * the whole activation has 384. */
static void figure_3_is_96_against_180(void **state)
{
    struct cluster *cluster = open_named("piz-daint:64");
    struct model *model;
    struct arena *keep = arena_new();
    (void)state;
    assert_int_equal(model_open(WEFT_SOURCE_DIR "/data/models/attention-layer.yaml", NULL, &model),
                     WEFT_OK);
    struct layout_problem *p = open_problem(model, cluster, NULL, 1024, 1);
    count_as_figure_3(p);
    struct assigned found = solve(p->assign, SEARCH_EXACT, keep), megatron = {0};
    double unit = 1024.0 * 1024 * 8192 / 384;
    assert_true(found.fits && fabs(found.time / unit - 96) < 1e-6 && found.bound > 95.9 * unit);
    const int32_t theirs[] = {
        option_of(p, "before", "batch:64"), option_of(p, "qkv", "batch:4 out:16"),
        option_of(p, "attention", "batch:4 head:16"), option_of(p, "proj", "batch:4 in:16"),
        option_of(p, "after", "batch:64")};
    assign_evaluate(p->assign, theirs, &megatron);
    assert_true(megatron.fits && fabs(megatron.time / unit - 180) < 1e-6);
    struct assigned descent = solve(p->assign, SEARCH_CD, keep);
    assert_true(descent.fits && descent.time <= 1.03 * found.time);
    layout_problem_free(p);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

/* How many of its kind an answer splits over samples alone, and how many hold no replicas. */
struct alike {
    int sampled, unreplicated;
};

static struct alike count_alike(const struct layout_problem *p, const struct assigned *found,
                                enum op_kind kind, int64_t devices)
{
    struct alike count = {0};
    for (int32_t i = 0; i < p->about.model->ops; i++) {
        const struct op *op = &p->about.model->op[i];
        const struct split *split = &p->splits[i].data[found->option[i]];
        count.sampled += op->kind == kind && split_degree(split, DIM_BATCH) == devices;
        count.unreplicated += op->kind == kind && split_replicas(op, split) == 1;
    }
    return count;
}

/* Figure 8: in the paper's space, which splits convolutions over samples alone (section 5.1), no dense
 * layer has replicas. The space here also splits channels, and the last two convolutions (512 to 512)
 * take two parts of them: that moves less than the gradients of whole ones. */
static void vgg_splits_are_figure_8s(void **state)
{
    enum { NODES = 32, CONVOLUTIONS = 10, DENSE = 3 };
    struct cluster *cluster = open_named("piz-daint:32");
    struct model *model;
    struct cost *cost;
    struct arena *keep = arena_new();
    (void)state;
    assert_int_equal(model_open("vgg-13", NULL, &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    struct layout_problem *p = open_problem(model, cluster, cost, 256, 1);
    struct assigned wider = solve(p->assign, SEARCH_EXACT, keep);
    assert_true(count_alike(p, &wider, OP_CONV, NODES).sampled >= CONVOLUTIONS - 2);
    assert_int_equal(count_alike(p, &wider, OP_LINEAR, NODES).unreplicated, DENSE);
    for (int32_t v = 0; v < model->ops; v++)
        for (int32_t i = 0; i < p->assign->options[v]; i++)
            if (model->op[v].kind == OP_CONV &&
                split_degree(&p->splits[v].data[i], DIM_BATCH) != NODES)
                p->assign->time[v][i] = INFINITY;
    struct assigned papers = solve(p->assign, SEARCH_EXACT, keep);
    assert_int_equal(count_alike(p, &papers, OP_CONV, NODES).sampled, CONVOLUTIONS);
    assert_int_equal(count_alike(p, &papers, OP_LINEAR, NODES).unreplicated, DENSE);
    assert_true(papers.time <= 1.03 * wider.time);
    layout_problem_free(p);
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

static void allow_only(struct layout_problem *p,
                       bool (*allowed)(const struct op *, const struct split *))
{
    for (int32_t v = 0; v < p->assign->variables; v++)
        for (int32_t i = 0; i < p->assign->options[v]; i++)
            if (!allowed(&p->about.model->op[v], &p->splits[v].data[i]))
                p->assign->time[v][i] = INFINITY;
}

static struct layout_problem *open_limited(const struct model *model, const struct cluster *cluster,
                                           struct cost *cost, int64_t batch, int64_t steps)
{
    const struct device *device = &cluster->node.device;
    struct layout_problem *p = open_problem(model, cluster, cost, batch, steps);
    p->assign->limit = (double)(device->memory_bytes - device->context_bytes);
    return p;
}

/* Megatron's mesh of 4 replicas. */
static bool is_megatron_4(const struct op *op, const struct split *split)
{
    bool whole = op->kind == OP_ADD || op->kind == OP_LAYER_NORM;
    return split_degree(split, DIM_BATCH) == 4 && split->parts == 2 &&
           split_degree(split, DIM_SEQ) == 1 &&
           (!whole || split_degree(split, SPLIT_COPY) == split_devices(split) / 4);
}

/* "The model is large and requires more than 16 nodes to carry the model weights" (section 1). */
static bool is_in_16_parts(const struct op *op, const struct split *split)
{
    return op->weights == 0 || op->kind == OP_LAYER_NORM ||
           split_devices(split) / split_replicas(op, split) >= 16;
}

static void assert_split(const struct layout_problem *p, const struct assigned *found,
                         const char *op, const char *split)
{
    assert_int_equal(found->option[op_named(p->about.model, op)], option_of(p, op, split));
}

/* Section 5.2, 6.8 B parameters on 64 nodes, with the weights in as many parts as the paper says: the
 * splits of attention are Figure 3's, and within 8 points of its 12 % of Megatron's time are saved. */
static void splits_of_6_8b_are_figure_3s(void **state)
{
    struct cluster *cluster = open_named("piz-daint:64");
    struct arena *keep = arena_new();
    struct model *model;
    struct cost *cost;
    (void)state;
    assert_int_equal(model_open("autoddl-6.8b", NULL, &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    struct layout_problem *p = open_limited(model, cluster, cost, 1024, 32),
                          *q = open_limited(model, cluster, cost, 1024, 64);
    allow_only(p, is_in_16_parts);
    struct assigned ours = solve(p->assign, SEARCH_EXACT, keep);
    assert_true(ours.fits);
    assert_split(p, &ours, "qkv", "batch:4 out:8 in:2");
    assert_split(p, &ours, "proj", "batch:4 in:4 out:4");
    allow_only(q, is_megatron_4);
    struct assigned theirs = solve(q->assign, SEARCH_EXACT, keep);
    assert_true(theirs.fits && fabs(1 - ours.time / theirs.time - 0.12) < 0.08);
    layout_problem_free(p);
    layout_problem_free(q);
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

/* Table 3, the wide model on 128 nodes, no pipeline: 503 s for Megatron and 315 s for AutoDDL. The
 * preset's network was measured by others: within 10 %. */
static void table_3_takes_the_papers_time(void **state)
{
    struct cluster *cluster = open_named("piz-daint:128");
    struct arena *keep = arena_new();
    struct model *model;
    struct cost *cost;
    (void)state;
    assert_int_equal(model_open("autoddl-wide", NULL, &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    struct layout_problem *p = open_limited(model, cluster, cost, 1024, 128);
    struct assigned ours = solve(p->assign, SEARCH_EXACT, keep);
    assert_true(ours.fits && fabs(ours.time / 1e9 / 315 - 1) < 0.1);
    allow_only(p, is_megatron_4);
    struct assigned theirs = solve(p->assign, SEARCH_EXACT, keep);
    assert_true(theirs.fits && fabs(theirs.time / 1e9 / 503 - 1) < 0.1);
    layout_problem_free(p);
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

/* Section 5.3: 0.35 B parameters on 2 x 16 A100, nothing overlapping. */
static void small_model_is_data_parallel(void **state)
{
    enum { DEVICES = 32 };
    struct cluster *cluster = open_named("gcp-a2-16:2");
    struct arena *keep = arena_new();
    struct model *model;
    struct cost *cost;
    struct layout_problem *p;
    (void)state;
    assert_int_equal(model_open("autoddl-small", NULL, &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    struct layout_case about = {.model = model,
                                .cluster = cluster,
                                .cost = cost,
                                .dtype = DTYPE_BF16,
                                .policy = POLICY_MIXED,
                                .global_batch = 2048,
                                .step_samples = 512,
                                .stages = 1,
                                .limit_bytes = (double)cluster->node.device.memory_bytes};
    assert_int_equal(layout_problem_new(&about, &p), WEFT_OK);
    struct assigned found = solve(p->assign, SEARCH_EXACT, keep);
    assert_true(found.fits);
    for (int32_t v = 0; v < model->ops; v++)
        assert_int_equal(split_degree(&p->splits[v].data[found.option[v]], DIM_BATCH), DEVICES);
    layout_problem_free(p);
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

/* (1) and (3) of layout_problem.h in the number of micro-batches M: on S stages the time of each option grows by the same
 * amount for each, and what it keeps by the same for each up to S of them and no more. */
static void costs_follow_from_the_micro_batches(void **state)
{
    enum { STEP = 16, CASES = 4 };
    static const int64_t M[CASES] = {1, 2, 4, 8};
    struct cluster *cluster = open_named("dgx-a100:1");
    struct model *model;
    struct cost *cost;
    (void)state;
    assert_int_equal(model_open("gpt3-350m", "layers: 4, seq: 128, vocab: 1024", &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    for (int32_t stages = 1; stages <= 4; stages *= 4) {
        struct layout_problem *p[CASES];
        int64_t grew = 0;
        for (int i = 0; i < CASES; i++) {
            struct layout_case about = {.model = model,
                                        .cluster = cluster,
                                        .cost = cost,
                                        .dtype = DTYPE_BF16,
                                        .policy = POLICY_MIXED,
                                        .global_batch = M[i] * STEP,
                                        .step_samples = STEP,
                                        .stages = stages,
                                        .limit_bytes = INFINITY};
            assert_int_equal(layout_problem_new(&about, &p[i]), WEFT_OK);
        }
        for (int32_t v = 0; v < model->ops; v++)
            for (int32_t o = 0; o < p[0]->assign->options[v]; o++) {
                double first = p[0]->assign->memory[v][o],
                       kept = p[1]->assign->memory[v][o] - first;
                double time = p[1]->assign->time[v][o],
                       each = (p[2]->assign->time[v][o] - time) / 2;
                grew += kept > 0;
                for (int i = 0; i < CASES; i++) {
                    double held = (double)((M[i] < stages ? M[i] : stages) - 1);
                    assert_true(fabs(p[i]->assign->memory[v][o] - first - held * kept) <=
                                1e-9 * (first + 1));
                    if (i > 0) /* a single one adds no gradients up */
                        assert_true(fabs(p[i]->assign->time[v][o] - time -
                                         (double)(M[i] - 2) * each) <= 1e-9 * (time + 1));
                }
            }
        assert_true(stages == 1 ? grew == 0 : grew > 0);
        for (int i = 0; i < CASES; i++)
            layout_problem_free(p[i]);
    }
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
}

/* The search finds what the closed formula has as the least, so products on square and on cubic meshes
 * move 4 n^2 / p^(1/2) and 6 n^2 / p^(2/3), times (q - 1) / q. */
static void products_move_what_the_formula_says(void **state)
{
    enum { FIRST_LOG2 = 3, LAST_LOG2 = 9 };
    static const double N = 16384;
    (void)state;
    for (int k = FIRST_LOG2; k <= LAST_LOG2; k++) {
        char name[32];
        struct model *model;
        struct arena *keep = arena_new();
        snprintf(name, sizeof name, "piz-daint:%d", 1 << k);
        struct cluster *cluster = open_named(name);
        assert_int_equal(
            model_open(WEFT_SOURCE_DIR "/data/models/square-product.yaml", NULL, &model), WEFT_OK);
        for (int three = 0; three < 2; three++) {
            struct layout_problem *p = open_problem(model, cluster, NULL, (int64_t)N, 1);
            count_product(p, three);
            struct assigned found = solve(p->assign, SEARCH_EXACT, keep);
            struct product least = product_formula(k, three, N), it = product_found(p, &found);
            double q = exp2((double)k / (three ? 3 : 2));
            assert_true(fabs(found.time - least.elements) <= 1e-12 * least.elements);
            assert_true(found.bound >= found.time * (1 - 1e-9));
            assert_int_equal(it.batch + it.out + it.in, least.batch + least.out + least.in);
            if (k % (three ? 3 : 2) == 0) {
                double whole = found.time * q / (q - 1);
                assert_true(fabs(whole / (three ? 6 * N * N * pow(exp2(k), -2. / 3)
                                                : 4 * N * N * pow(exp2(k), -1. / 2)) -
                                 1) < 1e-9);
            }
            layout_problem_free(p);
        }
        model_free(model);
        cluster_free(cluster);
        arena_free(keep);
    }
}

/* Figure 7: against all assignments of a few options, and against the proved optimum of all. */
static void descent_is_within_3_percent(void **state)
{
    static const struct {
        const char *model, *options, *cluster;
        int64_t batch;
    } CASES[] = {{"alexnet", NULL, "piz-daint:16", 128},
                 {"vgg-13", NULL, "piz-daint:32", 256},
                 {"autoddl-6.8b", NULL, "piz-daint:64", 64},
                 {"dlrm", NULL, "piz-daint:32", 2048}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct arena *keep = arena_new();
        struct cluster *cluster = open_named(CASES[i].cluster);
        struct model *model;
        struct cost *cost;
        assert_int_equal(model_open(CASES[i].model, CASES[i].options, &model), WEFT_OK);
        assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
        struct layout_problem *p = open_problem(model, cluster, cost, CASES[i].batch, 1);
        struct assign *few = few_options(keep, p->assign, 20000);
        struct assigned all = solve(few, SEARCH_EXHAUSTIVE, keep);
        struct assigned descent = solve(few, SEARCH_CD, keep);
        struct assigned few_exact = solve(few, SEARCH_EXACT, keep);
        assert_true(descent.time <= 1.03 * all.time && descent.time >= all.time * (1 - 1e-9));
        assert_true(fabs(few_exact.time - all.time) <= 1e-9 * all.time);
        struct assigned exact = solve(p->assign, SEARCH_EXACT, keep);
        struct assigned whole = solve(p->assign, SEARCH_CD, keep);
        assert_true(exact.bound >= exact.time * (1 - 1e-6));
        assert_true(whole.time <= 1.03 * exact.time);
        layout_problem_free(p);
        cost_close(cost);
        model_free(model);
        cluster_free(cluster);
        arena_free(keep);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_3_is_96_against_180),
        cmocka_unit_test(vgg_splits_are_figure_8s),
        cmocka_unit_test(splits_of_6_8b_are_figure_3s),
        cmocka_unit_test(table_3_takes_the_papers_time),
        cmocka_unit_test(small_model_is_data_parallel),
        cmocka_unit_test(costs_follow_from_the_micro_batches),
        cmocka_unit_test(products_move_what_the_formula_says),
        cmocka_unit_test(descent_is_within_3_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

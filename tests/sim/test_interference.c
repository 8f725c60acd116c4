/* test_interference.c - factors by which computation and collectives slow each other down, by kind of kernel: their table,
 * their lookup, and what a simulation makes of them (interference.c of cost and of sim).
 *
 *   T1  What was measured is answered as measured, both ways; everything else by the device's one factor.
 *   T2  A table of factors that all equal the device's changes no prediction.
 *   T3  A task's factors are those of its kernels, weighted by their times.
 *   T4  A folded graph takes the times of the unfolded one, to a hundred-thousandth: where sends between stages and gradients
 *       meet on network cards, those of a node are not equally full (one of 200 plans, by 2.5 in a million).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/stat.h>

#include "random_plan.h"
#include "scratch_folder.h"
#include "sim/sim.h"

static const char DEVICE[] = "A100-SXM4-80GB";

static const char *database(struct scratch *scratch, const char *table)
{
    const char *csv = put_file(scratch, "factors.csv", table, strlen(table));
    const char *db = scratch_path(scratch, "factors.sqlite");
    struct import_options options = {FORMAT_AUTO, NULL};
    struct import_summary summary;
    struct profile *profile;
    remove(db);
    assert_int_equal(profile_create(db, &profile), WEFT_OK);
    assert_int_equal(profile_import(profile, csv, &options, scratch->arena, &summary), WEFT_OK);
    assert_string_equal(summary.format, "weft interference");
    assert_int_equal(profile_commit(profile), WEFT_OK);
    profile_close(profile);
    return db;
}

/* ---- the lookup (T1) ------------------------------------------------------------------------- */

static void test_lookup(void **state)
{
    struct scratch *scratch = *state;
    struct cluster *cluster = open_named("dgx-a100:1");
    const struct device *device = &cluster->node.device;
    struct cost *cost, *plain;
    assert_int_equal(cost_open(device, NULL, &plain), WEFT_OK);
    const char *db = database(scratch, "device,kernel,work_slowdown,transfer_slowdown\n"
                                       "A100-SXM4-80GB,matmul,1.08,1.2\n"
                                       "A100-SXM4-80GB,norm,1.5,1.02\n"
                                       "H100-SXM5-80GB,softmax,3,3\n");
    assert_string_equal(device->name, DEVICE);
    assert_int_equal(cost_open(device, db, &cost), WEFT_OK);
    struct interference product = cost_interference(cost, KERNEL_MATMUL);
    struct interference norm = cost_interference(cost, KERNEL_NORM);
    struct interference other = cost_interference(cost, KERNEL_SOFTMAX);
    double all = cost_slowdown(plain);
    assert_true(product.work == 1.08 && product.transfer == 1.2);
    assert_true(norm.work == 1.5 && norm.transfer == 1.02);
    assert_true(other.work == all && other.transfer == all);
    assert_true(cost_slowdown(cost) == 1.08); /* estimates: that of products */
    assert_true(cost_tells_kernels(cost) && !cost_tells_kernels(plain));
    cost_close(cost);
    cost_close(plain);
    cluster_free(cluster);
}

/* I2 of interference.c: a later source answers for what the ones before it have not measured. */
static void test_first_source_counts(void **state)
{
    static const char *const TABLES[] = {"device,kernel,work_slowdown,transfer_slowdown\n"
                                         "A100-SXM4-80GB,matmul,1.08,1.2\n",
                                         "device,kernel,work_slowdown,transfer_slowdown\n"
                                         "A100-SXM4-80GB,matmul,2,3\n"
                                         "A100-SXM4-80GB,norm,1.5,1.02\n"};
    struct interference found[KERNEL_COUNT] = {0};
    for (size_t i = 0; i < COUNT_OF(TABLES); i++) {
        struct profile *profile;
        assert_int_equal(profile_open(database(*state, TABLES[i]), &profile), WEFT_OK);
        assert_int_equal(profile_interference(profile, DEVICE, found), WEFT_OK);
        profile_close(profile);
    }
    assert_true(found[KERNEL_MATMUL].work == 1.08 && found[KERNEL_MATMUL].transfer == 1.2);
    assert_true(found[KERNEL_NORM].work == 1.5 && found[KERNEL_NORM].transfer == 1.02);
}

static void test_refusals(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *table, *says;
    } CASES[] = {
        {"device,kernel,work_slowdown,transfer_slowdown\nX,matmul,0.9,1\n", "at least 1"},
        {"device,kernel,work_slowdown,transfer_slowdown\nX,matmull,1.1,1\n", "a kernel"},
        {"kernel,work_slowdown,transfer_slowdown\nmatmul,1.1,1\n", "which device was measured"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const char *csv = put_file(scratch, "bad.csv", CASES[i].table, strlen(CASES[i].table));
        struct import_options options = {FORMAT_AUTO, NULL};
        struct import_summary summary;
        struct profile *profile;
        assert_int_equal(profile_create(":memory:", &profile), WEFT_OK);
        assert_int_equal(profile_import(profile, csv, &options, scratch->arena, &summary),
                         WEFT_BAD_INPUT);
        assert_non_null(strstr(weft_last_error()->message, CASES[i].says));
        profile_close(profile);
    }
}

/* ---- simulations ----------------------------------------------------------------------------- */

static struct prediction *predict(const struct plan *plan, const char *db, enum fold fold)
{
    struct prediction *p = NULL;
    struct simulate_options options = {.fold = fold, .profile = db};
    if (simulate(plan, &options, &p) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return p;
}

/* Data parallelism over nodes: gradients are synchronised beside the backward pass. */
static struct plan *replicas(const struct model *model, const struct cluster *cluster)
{
    struct degrees degrees = {.tp = 2, .global_batch = 64, .micro_batch = 4};
    struct plan *plan;
    assert_int_equal(plan_from_degrees(model, cluster, &degrees, &plan), WEFT_OK);
    plan->bucket_bytes = 1 << 20;
    return plan;
}

static const char *every_kernel(struct scratch *scratch, double factor)
{
    const char *text = "device,kernel,work_slowdown,transfer_slowdown\n";
    for (int k = 0; k < KERNEL_COUNT; k++)
        text = arena_printf(scratch->arena, "%s%s,%s,%.17g,%.17g\n", text, DEVICE,
                            kernel_name((enum kernel)k), factor, factor);
    return text;
}

/* T2, and that larger factors take longer. */
static void test_equal_factors(void **state)
{
    struct scratch *scratch = *state;
    struct model *model;
    struct cluster *cluster = open_named("dgx-a100:2");
    struct cost *cost;
    assert_int_equal(model_open("gpt2", "layers: 4", &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    struct plan *plan = replicas(model, cluster);
    struct prediction *plain = predict(plan, NULL, FOLD_AUTO);
    const char *db = database(scratch, every_kernel(scratch, cost_slowdown(cost)));
    struct prediction *same = predict(plan, db, FOLD_AUTO);
    assert_non_null(same->engine.task_slowed);
    assert_true(llabs(same->iteration_ns - plain->iteration_ns) <=
                1 + plain->iteration_ns / 1000000);
    struct prediction *slow = predict(plan, database(scratch, every_kernel(scratch, 2)), FOLD_AUTO);
    assert_true(slow->iteration_ns > plain->iteration_ns);
    prediction_free(plain);
    prediction_free(same);
    prediction_free(slow);
    plan_free(plan);
    cost_close(cost);
    cluster_free(cluster);
    model_free(model);
}

/* T3: of products 1.5 and 2, of everything else 1.25 and 1.25. */
static void check_task(const struct prediction *p, int32_t t)
{
    const struct task *task = &p->graph->task[t];
    double alone = 0, slowed = 0, moved = 0;
    if (task->exchange >= 0 || task->block < 0)
        return;
    const struct block *block = &p->graph->block[task->block];
    for (int32_t i = task->first_item; i < task->first_item + task->items; i++) {
        const struct item *item = &block->item[i];
        struct work work[MAX_ITEM_WORKS];
        double ns = (double)p->lane_ns[p->lane_first[task->block] + i];
        if (item->kind != ITEM_OP ||
            !item_works(p->plan, item->instance, (enum phase)item->phase, work))
            continue;
        bool product = work[0].kernel == KERNEL_MATMUL;
        alone += ns;
        slowed += ns * (product ? 1.5 : 1.25);
        moved += product ? ns * 1.5 / 2 : ns;
    }
    if (alone <= 0)
        return;
    assert_true(fabs(p->engine.task_slowed[t] - slowed / alone) < 1e-6);
    assert_true(fabs(p->engine.task_slows[t] - slowed / moved) < 1e-6);
}

static const char *two_kinds(struct scratch *scratch)
{
    const char *text = every_kernel(scratch, 1.25);
    return arena_printf(scratch->arena, "%s%s,matmul,1.5,2\n", text, DEVICE);
}

static void test_weighted(void **state)
{
    struct scratch *scratch = *state;
    struct model *model;
    struct cluster *cluster = open_named("dgx-a100:2");
    assert_int_equal(model_open("gpt2", "layers: 2", &model), WEFT_OK);
    struct plan *plan = replicas(model, cluster);
    struct prediction *p = predict(plan, database(scratch, two_kinds(scratch)), FOLD_AUTO);
    for (int32_t t = 0; t < p->graph->tasks; t++)
        check_task(p, t);
    prediction_free(p);
    plan_free(plan);
    cluster_free(cluster);
    model_free(model);
}

/* ---- folded and unfolded (T4) ---------------------------------------------------------------- */

static void test_folded(void **state)
{
    struct scratch *scratch = *state;
    struct cluster *cluster = open_named("dgx-a100:2");
    const char *db = database(scratch, two_kinds(scratch));
    int folded = 0, wanted = rounds_of(40);
    for (uint64_t round = 0; folded < wanted; round++) {
        struct rng rng;
        rng_seed(&rng, round);
        struct model *model = open_small(&SMALL_MODELS[rng_below(&rng, SMALL_MODEL_COUNT)]);
        struct plan *plan = random_plan(&rng, model, cluster);
        struct prediction *one = predict(plan, db, FOLD_AUTO);
        if (one->graph->folded) {
            struct prediction *all = predict(plan, db, FOLD_NEVER);
            assert_true(llabs(one->iteration_ns - all->iteration_ns) <= all->iteration_ns / 100000);
            prediction_free(all);
            folded++;
        }
        prediction_free(one);
        plan_free(plan);
        model_free(model);
    }
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lookup, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_first_source_counts, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_equal_factors, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_weighted, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_folded, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

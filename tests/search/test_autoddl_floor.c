/* test_autoddl_floor.c - what no plan takes less than: the floors by which the planner autoddl leaves out
 * cases and splits.
 *
 *   F1  Of a plan that is below the time to beat, no split is dropped: whatever assignment, stages, steps,
 *       recomputation and limit of memory, floors are at most what the simulator says.
 *   F2  Degrees without order are those of all splits, each once.
 *   F4  What a reshard takes at least by degrees is no more than by splits, which is no more than it takes, and
 *       the same for splits of the same degrees across nodes and within them, in whatever order.
 *   F3  The planner with a time known: what is faster is found all the same, nothing else is lost.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autoddl_problem.h"
#include "random_plan.h"
#include "search/autoddl/layout_room.h"

/* ---- F1 -------------------------------------------------------------------------------------- */

static struct layout_case draw_case(struct rng *rng, const struct model *model,
                                    const struct cluster *cluster, struct cost *cost)
{
    int64_t steps = INT64_C(1) << rng_below(rng, 4);
    int32_t stages = steps > 1 && model->layers > 1 && rng_below(rng, 2) ? 2 : 1;
    return (struct layout_case){.model = model,
                                .cluster = cluster,
                                .cost = cost,
                                .dtype = DTYPE_BF16,
                                .policy = POLICY_MIXED,
                                .global_batch = 16,
                                .step_samples = 16 / steps,
                                .stages = stages,
                                .shard = (uint8_t)rng_below(rng, 2),
                                .recompute = rng_below(rng, 2),
                                .hides = rng_below(rng, 4) == 0,
                                .blocks = true,
                                .limit_bytes = INFINITY};
}

static int64_t simulated_ns(const struct layout_problem *p, const int32_t *option)
{
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    struct prediction *prediction = NULL;
    struct plan *plan = NULL;
    if (layout_plan(p, option, &plan) == WEFT_OK && p->about.hides)
        plan->overlap |= OVERLAP_PRODUCTS;
    if (!plan || simulate(plan, &options, &prediction))
        fail_msg("%s: %s", p->about.model->name, weft_last_error()->message);
    int64_t ns = prediction->iteration_ns;
    prediction_free(prediction);
    plan_free(plan);
    return ns;
}

static bool has_split(const struct splits *splits, const struct split *split)
{
    for (size_t i = 0; i < splits->len; i++)
        if (split_equal(&splits->data[i], split))
            return true;
    return false;
}

/* Whatever the time to beat, near or far: classes alone, or refined. */
static void check_sieve(const struct layout_case *of, int64_t ns)
{
    static const double BELOW[] = {1 + 1e-6, 1.01, 3};
    struct layout_case about = *of;
    for (size_t i = 0; i < COUNT_OF(BELOW); i++) {
        double floor;
        about.below_ns = (double)ns * BELOW[i];
        assert_int_equal(layout_floor_below(&about, &floor), WEFT_OK);
        assert_true(floor <= (double)ns * (1 + 1e-9));
    }
}

/* Nothing of an assignment goes with a time to beat just above its own. */
static void check_kept(const struct layout_problem *p, const struct assigned *found, int64_t ns)
{
    struct layout_case about = p->about;
    struct layout_problem *left;
    double floor;
    about.drop = true;
    check_sieve(&about, ns);
    about.below_ns = (double)ns * (1 + 1e-6);
    assert_int_equal(layout_floor(&about, &floor), WEFT_OK);
    assert_true(floor <= (double)ns);
    assert_int_equal(layout_problem_new(&about, &left), WEFT_OK);
    assert_true(left->floor_ns <= (double)ns * (1 + 1e-9));
    assert_true(left->floor_ns >= floor * (1 - 1e-9));
    assert_non_null(left->assign);
    for (int32_t op = 0; op < p->assign->variables; op++)
        assert_true(has_split(&left->splits[op], &p->splits[op].data[found->option[op]]));
    layout_problem_free(left);
}

/* Descents come near floors, draws do not; a limit that the assignment just keeps makes bytes dear. */
static void check_case(struct rng *rng, const struct layout_case *about, double *nearest)
{
    struct arena *keep = arena_new();
    struct assign_options options = {.seed = rng_next(rng), .rounds = 2};
    struct layout_problem *p;
    options.search = rng_below(rng, 3) ? SEARCH_CD : SEARCH_RANDOM;
    assert_int_equal(layout_problem_new(about, &p), WEFT_OK);
    for (int limited = 0; limited < 2; limited++) {
        struct assigned found;
        assign_solve(p->assign, &options, keep, &found);
        if (limited)
            p->about.limit_bytes = found.memory * (1 + 1e-9);
        int64_t ns = simulated_ns(p, found.option);
        struct layout_case all = p->about;
        struct layout_problem *none;
        check_kept(p, &found, ns);
        all.below_ns = (double)ns;
        assert_int_equal(layout_problem_new(&all, &none), WEFT_OK);
        *nearest = fmax(*nearest, none->floor_ns / (double)ns);
        layout_problem_free(none);
    }
    layout_problem_free(p);
    arena_free(keep);
}

static void check_model(struct rng *rng, const struct model *model, const char *name,
                        double *nearest)
{
    struct cluster *cluster = open_named(name);
    struct cost *cost;
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    struct layout_case about = draw_case(rng, model, cluster, cost);
    check_case(rng, &about, nearest);
    cost_close(cost);
    cluster_free(cluster);
}

/* As many plans as rounds, and however few these are, on until one comes near its floor. */
static void floors_are_below_every_plan(void **state)
{
    enum { MOST = 60 };
    static const double NEAR = 0.9;
    static const char *const CLUSTERS[] = {"dgx-a100:2x2", "piz-daint:8", "dgx-a100:4x2"};
    struct model *gpt;
    struct rng rng;
    double nearest = 0;
    (void)state;
    rng_seed(&rng, 11);
    assert_int_equal(model_open("gpt3-1.3b", "layers: 4, seq: 512", &gpt), WEFT_OK);
    for (int i = 0; i < rounds_of(MOST); i++) {
        struct model *model = open_small(&SMALL_MODELS[i % SMALL_MODEL_COUNT]);
        double any = 0;
        check_model(&rng, model, CLUSTERS[i % 3], &any);
        check_model(&rng, gpt, CLUSTERS[i % 3], &nearest);
        model_free(model);
    }
    assert_true(nearest > NEAR || rounds_of(100) < 100); /* floors are worth something */
    model_free(gpt);
}

/* The option of each operator that degrees lower to. */
static int32_t *options_of(struct arena *keep, const struct layout_problem *p,
                           const struct degrees *degrees)
{
    struct choice *choice;
    int32_t *option = ARENA_ARRAY(keep, int32_t, (size_t)p->assign->variables);
    assert_int_equal(lower_degrees(p->about.model, degrees, keep, &choice), WEFT_OK);
    for (int32_t op = 0; op < p->assign->variables; op++) {
        const struct splits *splits = &p->splits[op];
        size_t k = 0;
        while (k < splits->len && !split_equal(&splits->data[k], &choice[op].split))
            k++;
        assert_true(k < splits->len);
        option[op] = (int32_t)k;
    }
    return option;
}

/* Sequence parallelism where nothing else fits, with products that hide its collectives. */
static void hidden_collectives_do_not_count(void **state)
{
    struct degrees d = {
        .dp = 1, .tp = 4, .pp = 1, .cp = 1, .ep = 1, .micro_batch = 1, .sequence = true};
    struct arena *keep = arena_new();
    struct cluster *cluster = open_named("dgx-a100:1x4");
    struct model *model;
    struct cost *cost;
    struct layout_problem *p;
    struct assigned found;
    (void)state;
    assert_int_equal(model_open("gpt3-13b", "layers: 4", &model), WEFT_OK);
    assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
    struct layout_case about = {.model = model,
                                .cluster = cluster,
                                .cost = cost,
                                .dtype = DTYPE_BF16,
                                .policy = POLICY_MIXED,
                                .global_batch = 1,
                                .step_samples = 1,
                                .stages = 1,
                                .hides = true,
                                .limit_bytes = INFINITY};
    assert_int_equal(layout_problem_new(&about, &p), WEFT_OK);
    int32_t *option = options_of(keep, p, &d);
    assign_evaluate(p->assign, option, &found);
    found.option = option;
    p->about.limit_bytes = found.memory * (1 + 1e-9);
    check_kept(p, &found, simulated_ns(p, option));
    layout_problem_free(p);
    cost_close(cost);
    model_free(model);
    cluster_free(cluster);
    arena_free(keep);
}

/* ---- F2 -------------------------------------------------------------------------------------- */

static bool same_degrees(const struct split *a, const struct split *b)
{
    for (int dim = 0; dim <= SPLIT_COPY; dim++)
        if (split_degree(a, dim) != split_degree(b, dim))
            return false;
    return true;
}

static void unordered_splits_have_all_degrees(void **state)
{
    struct split_mesh mesh = {.levels = 2, .devices = {4, 6}, .blocks = true};
    struct split_mesh degrees = {.levels = 1, .devices = {24}, .unordered = true, .blocks = true};
    (void)state;
    for (int m = 0; m < SMALL_MODEL_COUNT; m++) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        for (int32_t op = 0; op < model->ops; op++) {
            struct arena *keep = arena_new();
            struct splits all = {0}, some = {0};
            splits_of(keep, model, &model->op[op], &mesh, 8, &all);
            splits_of(keep, model, &model->op[op], &degrees, 8, &some);
            for (size_t i = 0; i < all.len; i++) {
                int found = 0;
                for (size_t k = 0; k < some.len; k++)
                    found += same_degrees(&all.data[i], &some.data[k]);
                assert_int_equal(found, 1);
            }
            arena_free(keep);
        }
        model_free(model);
    }
}

/* ---- F4 -------------------------------------------------------------------------------------- */

/* Parts of a dim that the devices of the first node have. */
static int64_t parts_in_node(const struct split *split, int dim, int64_t node)
{
    enum { MOST_NODE = 8 };
    int64_t part[MOST_NODE], count = 0;
    for (int64_t device = 0; device < node; device++) {
        int64_t own = 0, stride = 1, seen = 0;
        for (int32_t i = split->parts - 1; i >= 0; stride *= split->part[i--].degree)
            if (split->part[i].dim == dim)
                own = own * split->part[i].degree + device / stride % split->part[i].degree;
        while (seen < count && part[seen] != own)
            seen++;
        part[seen] = own;
        count += seen == count;
    }
    return count;
}

static bool same_class(const struct split *a, const struct split *b, int64_t node)
{
    for (int dim = 0; dim <= SPLIT_COPY; dim++)
        if (parts_in_node(a, dim, node) != parts_in_node(b, dim, node))
            return false;
    return same_degrees(a, b);
}

static double least_there(const struct layout_problem *p, const struct layout_uses *uses,
                          int32_t operand, int32_t i, int32_t j, bool by_degrees)
{
    const struct layout_work *w = p->work;
    return (by_degrees ? layout_least_by_degrees : layout_least_of_reshard)(
        p, &w->laid[uses->a].output[i], &w->laid[uses->b].input[operand][j], 4);
}

/* A pair of options against their real time, and against others of the same classes. */
static void check_pair(struct rng *rng, const struct layout_problem *p,
                       const struct layout_uses *uses, int *alike)
{
    const struct splits *a = &p->splits[uses->a], *b = &p->splits[uses->b];
    int64_t node = p->about.cluster->node.devices;
    int32_t operand = uses->list.data[0].operand;
    int32_t i = (int32_t)rng_below(rng, (int64_t)a->len),
            j = (int32_t)rng_below(rng, (int64_t)b->len);
    double least = least_there(p, uses, operand, i, j, true);
    double split = least_there(p, uses, operand, i, j, false);
    struct layout_edge real = layout_use_cost(p, uses, operand, i, j);
    assert_true(least <= split * (1 + 1e-9));
    assert_true(split <= real.there * (1 + 1e-9));
    if (real.back > 0)
        assert_true(layout_least_of_reshard(p, &p->work->laid[uses->b].input_grad[operand][j],
                                            &p->work->laid[uses->a].output_grad[i],
                                            4) <= real.back * (1 + 1e-9));
    for (int32_t k = 0; k < (int32_t)a->len; k++) {
        if (!same_class(&a->data[i], &a->data[k], node))
            continue;
        int32_t l =
            (int32_t)rng_below(rng, (int64_t)b->len); /* some of its class, by luck itself */
        l = same_class(&b->data[j], &b->data[l], node) ? l : j;
        double other = least_there(p, uses, operand, k, l, true);
        assert_true(fabs(other - least) <= 1e-9 * least);
        *alike += k != i || l != j;
    }
}

static void degrees_say_what_their_splits_need(void **state)
{
    static const char *const CLUSTERS[] = {"dgx-a100:4x2", "dgx-a100:2x4", "dgx-a100:2x6"};
    struct rng rng;
    int alike = 0, pairs = 0;
    (void)state;
    rng_seed(&rng, 12);
    for (int m = 0; m < SMALL_MODEL_COUNT; m++) {
        struct model *model = open_small(&SMALL_MODELS[m]);
        struct cluster *cluster = open_named(CLUSTERS[m % 3]);
        struct cost *cost;
        assert_int_equal(cost_open(&cluster->node.device, NULL, &cost), WEFT_OK);
        struct layout_problem *p = open_problem(model, cluster, cost, 24, 1);
        p->work->floor_only = true;
        for (int round = 0; round < rounds_of(70); round++) {
            const struct layout_uses *uses =
                &p->work->edges.data[rng_below(&rng, (int64_t)p->work->edges.len)];
            if (uses->tie || !uses->list.len)
                continue;
            check_pair(&rng, p, uses, &alike);
            pairs++;
        }
        layout_problem_free(p);
        cost_close(cost);
        cluster_free(cluster);
        model_free(model);
    }
    print_message("%d pairs, %d others of their classes\n", pairs, alike);
    assert_true(alike > pairs / 8);
}

/* ---- F3 -------------------------------------------------------------------------------------- */

struct answer {
    struct planned planned;
    const struct trial *best; /* that fits, NULL: none */
};

/* As `auto` asks: without a trial there is an answer, too. */
static struct answer ask(const struct model *model, const struct cluster *cluster,
                         const char *search, int64_t known_ns)
{
    struct plan_request request = {.model = model,
                                   .cluster = cluster,
                                   .pins = {.global_batch = 32},
                                   .options = {.search = search, .threads = 1},
                                   .known_ns = known_ns};
    struct answer answer = {.planned = {.arena = arena_new()}};
    if (autoddl_find(&request, &answer.planned) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    for (size_t i = 0; i < answer.planned.trials.len; i++) {
        const struct trial *trial = &answer.planned.trials.data[i];
        if (trial->fits && (!answer.best || trial->iteration_ns < answer.best->iteration_ns))
            answer.best = trial;
    }
    return answer;
}

static void forget(struct answer *answer)
{
    for (size_t i = 0; i < answer->planned.trials.len; i++)
        plan_free(answer->planned.trials.data[i].plan);
    arena_free(answer->planned.arena);
}

static const char *last_reason(const struct answer *answer)
{
    assert_true(answer->planned.reasons.len > 0);
    return answer->planned.reasons.data[answer->planned.reasons.len - 1];
}

static void check_known(const struct model *model, const struct cluster *cluster,
                        const char *search)
{
    struct answer free = ask(model, cluster, search, 0);
    assert_non_null(free.best);
    assert_non_null(strstr(last_reason(&free), "at most"));
    int64_t best = free.best->iteration_ns;
    struct answer above = ask(model, cluster, search, best + best / 1000);
    struct answer below = ask(model, cluster, search, best * 9 / 10);
    struct answer far = ask(model, cluster, search, best * 3 / 4);
    struct answer nothing = ask(model, cluster, search, best / 10);
    assert_non_null(above.best);
    assert_int_equal(above.best->iteration_ns, best);
    assert_string_equal(above.best->text, free.best->text);
    assert_true(above.planned.trials.len <= free.planned.trials.len);
    assert_true(!below.best || below.best->iteration_ns >= best);
    print_message("%zu trials, %zu where the best is 1/3 slower than what is known\n",
                  free.planned.trials.len, far.planned.trials.len);
    if (!search) /* what is far away by the closed form is not simulated */
        assert_int_equal(far.planned.trials.len, 0);
    assert_int_equal(nothing.planned.trials.len, 0);
    assert_non_null(strstr(last_reason(&nothing), "by bounds"));
    forget(&free);
    forget(&above);
    forget(&below);
    forget(&far);
    forget(&nothing);
}

static void nothing_faster_is_lost_with_a_time_known(void **state)
{
    static const char *const CLUSTERS[] = {"piz-daint:8", "dgx-a100:8x2"};
    struct model *model;
    (void)state;
    assert_int_equal(model_open("gpt3-1.3b", "layers: 4, seq: 512", &model), WEFT_OK);
    for (int i = 0; i < cases_of(COUNT_OF(CLUSTERS)); i++) {
        struct cluster *cluster = open_named(CLUSTERS[i]);
        check_known(model, cluster, "exact");
        check_known(model, cluster, NULL);
        cluster_free(cluster);
    }
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floors_are_below_every_plan),
        cmocka_unit_test(hidden_collectives_do_not_count),
        cmocka_unit_test(unordered_splits_have_all_degrees),
        cmocka_unit_test(degrees_say_what_their_splits_need),
        cmocka_unit_test(nothing_faster_is_lost_with_a_time_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

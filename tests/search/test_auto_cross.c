/* test_auto_cross.c - auto against every single planner and against all plans of small spaces, and what
 * comes of crossing planners' plans.
 *
 *   P1  Variants of a plan by hand: a plan of other degrees is the variant that its words say.
 *   P2  Bounds of layers are bounds; with a time to beat, galvatron finds what it finds without, or
 *       says that nothing beats it.
 *   P3  Auto is never worse than any planner that it could ask.
 *   P4  It is within 1 % of the best of all plans of degrees, each simulated.
 *   P5  What more memory and a faster network are said to bring, they bring.
 *   P6  On several nodes, too, it is never worse than any planner, and has what aceso and galvatron find
 *       by themselves. On more devices than all are asked for, Aceso goes on from the best plan: the
 *       answer is no worse than the grid's, and the same every time; and from the best with half and twice
 *       as many stages.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random_problem.h"
#include "scratch_folder.h"
#include "search/auto/room.h"
#include "search/galvatron/layer_costs.h"

/* ---- P1 -------------------------------------------------------------------------------------- */

static void open_gpt(struct problem *p, const char *options, const char *cluster,
                     struct degrees pins)
{
    *p = (struct problem){.arena = arena_new()};
    assert_int_equal(model_open("gpt3-1.3b", options, &p->model), WEFT_OK);
    assert_int_equal(cluster_open(cluster, &p->cluster), WEFT_OK);
    assert_int_equal(cost_open(&p->cluster->node.device, NULL, &p->cost), WEFT_OK);
    p->request = (struct plan_request){.model = p->model, .cluster = p->cluster, .pins = pins};
}

static const struct {
    struct degrees from, to;
    struct variant variant;
} VARIANTS[] = {
    {{.pp = 2, .tp = 2, .global_batch = 16},
     {.pp = 2, .tp = 2, .global_batch = 16, .schedule = "zb-h1"},
     {.schedule = "zb-h1"}},
    {{.pp = 2, .global_batch = 16, .shard = 1},
     {.pp = 2, .global_batch = 16, .shard = 1, .pieces = 4},
     {.schedule = "interleaved", .pieces = 4}},
    {{.pp = 2, .global_batch = 16, .shard = 2},
     {.pp = 2, .global_batch = 16, .shard = 2, .segments = 4},
     {.schedule = "aiao", .pieces = 4}},
    {{.pp = 2, .tp = 2, .global_batch = 16, .micro_batch = 1},
     {.pp = 2, .tp = 2, .global_batch = 16, .micro_batch = 4},
     {.step_samples = 8}},
};

static void test_variants_by_hand(void **state)
{
    (void)state;
    struct problem p;
    open_gpt(&p, "layers: 8, seq: 256", "dgx-a100:1", (struct degrees){.global_batch = 16});
    for (size_t i = 0; i < COUNT_OF(VARIANTS); i++) {
        struct plan *from, *to, *variant;
        assert_int_equal(plan_from_degrees(p.model, p.cluster, &VARIANTS[i].from, &from), WEFT_OK);
        assert_int_equal(plan_from_degrees(p.model, p.cluster, &VARIANTS[i].to, &to), WEFT_OK);
        assert_int_equal(variant_of(from, &VARIANTS[i].variant, &variant), WEFT_OK);
        assert_non_null(variant);
        if (!is_same_plan(variant, to) || is_same_plan(variant, from))
            fail_msg("variant %zu is another plan", i);
        plan_free(variant);
        plan_free(from);
        plan_free(to);
    }
    struct plan *plan, *none;
    struct degrees d = {.pp = 2, .tp = 2, .global_batch = 16};
    assert_int_equal(plan_from_degrees(p.model, p.cluster, &d, &plan), WEFT_OK);
    assert_int_equal(least_step(plan), 2); /* dp 2 */
    /* a step of 3 samples cannot be shared by two replicas; 32 parts are more than 8 layers */
    assert_int_equal(variant_of(plan, &(struct variant){.step_samples = 3}, &none), WEFT_OK);
    assert_null(none);
    assert_int_equal(
        variant_of(plan, &(struct variant){.schedule = "interleaved", .pieces = 16}, &none),
        WEFT_OK);
    assert_null(none);
    plan_free(plan);
    assert_int_equal(next_divisor(12, 4, true), 6);
    assert_int_equal(next_divisor(12, 4, false), 3);
    assert_int_equal(next_divisor(12, 12, true), 0);
    assert_int_equal(next_divisor(12, 1, false), 0);
    close_problem(&p);
}

/* ---- P2 -------------------------------------------------------------------------------------- */

static void assert_bounded(struct arena *arena, const struct layer_source *source,
                           const struct layer_question *q, int32_t kind,
                           const struct strategy *strategy)
{
    struct layer_cost cost, rough;
    int64_t least;
    assert_int_equal(source->layer(source->context, q, kind, strategy, &cost), WEFT_OK);
    assert_int_equal(source->least(source->context, q, kind, strategy, &least), WEFT_OK);
    assert_int_equal(source->roughly(source->context, q, kind, strategy, &rough), WEFT_OK);
    if (cost.steady_ns == LAYERWISE_NEVER) {
        assert_true(least == LAYERWISE_NEVER && rough.steady_ns == LAYERWISE_NEVER);
        return;
    }
    const struct {
        const char *what;
        int64_t bound, cost;
    } rows[] = {{"least ns", least, cost.steady_ns},
                {"ns", rough.steady_ns, cost.steady_ns},
                {"ns once", rough.once_ns, cost.once_ns},
                {"bytes kept", rough.kept_bytes, cost.kept_bytes},
                {"bytes at the peak", rough.peak_bytes, cost.peak_bytes},
                {"bytes of state", rough.state_bytes, cost.state_bytes}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].bound > rows[i].cost)
            fail_msg("kind %d, %s, stage %d of %d, %lld samples: %lld above %lld %s", kind,
                     strategy_text(arena, strategy, q->stages), q->stage, q->stages,
                     (long long)q->step_samples, (long long)rows[i].bound, (long long)rows[i].cost,
                     rows[i].what);
}

static void test_bounds_of_layers(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 81);
    for (int round = 0; round < rounds_of(4); round++) {
        struct problem p = draw_problem(&rng);
        struct degrees d = {.global_batch = 16};
        struct plan *plan;
        struct layer_costs *costs;
        assert_int_equal(plan_from_degrees(p.model, p.cluster, &d, &plan), WEFT_OK);
        struct estimate_settings settings = estimate_settings_of(plan);
        assert_int_equal(layer_costs_new(&settings, &costs), WEFT_OK);
        const struct layer_source *source = layer_costs_source(costs);
        for (int32_t stages = 1; stages <= 4; stages *= 2) {
            struct strategies strategies = {0};
            struct layer_question q = {.devices = cluster_devices(p.cluster),
                                       .stages = stages,
                                       .stage = (int32_t)rng_below(&rng, stages),
                                       .step_samples = INT64_C(1) << rng_below(&rng, 5),
                                       .micro_batches = 1 + rng_below(&rng, 3)};
            space_strategies(p.arena, space_find("weft"), q.devices / stages, &strategies);
            for (size_t s = 0; s < strategies.len; s++)
                for (int32_t kind = 0; kind < source->kinds; kind++)
                    assert_bounded(p.arena, source, &q, kind, &strategies.data[s]);
        }
        layer_costs_free(costs);
        plan_free(plan);
        close_problem(&p);
    }
}

static void test_a_time_to_beat(void **state)
{
    (void)state;
    struct problem p;
    open_gpt(&p, "layers: 6, seq: 512", "dgx-a100:1", (struct degrees){.global_batch = 24});
    struct planned *all = plan_with("galvatron", &p.request);
    int64_t best = all->trials.data[0].iteration_ns;
    p.request.known_ns = best + best / 10;
    struct planned *some = plan_with("galvatron", &p.request);
    assert_int_equal(some->trials.data[0].iteration_ns, best);
    assert_true(some->trials.len <= all->trials.len);
    p.request.known_ns = best / 2;
    struct planned none = {.arena = p.arena, .planner = "galvatron"};
    assert_int_equal(galvatron_find(&p.request, &none), WEFT_OK);
    assert_int_equal(none.trials.len, 0);
    assert_int_equal(none.reasons.len, 1);
    planned_free(all);
    planned_free(some);
    close_problem(&p);
}

/* ---- P3 -------------------------------------------------------------------------------------- */

static void assert_no_worse(const struct problem *p, int round, const struct planned *own,
                            const char *name)
{
    struct planned *other = NULL;
    weft_status status = plan_search(planner_find(name), &p->request, &other);
    if (status) { /* pins that it does not take, or nothing to plan */
        error_clear();
        return;
    }
    const struct trial *theirs = &other->trials.data[0];
    if (theirs->fits) {
        assert_non_null(own);
        const struct trial *best = &own->trials.data[0];
        if (!best->fits || best->iteration_ns > theirs->iteration_ns)
            fail_msg("round %d, %s on %s: %.3f ms (%s), %s %.3f ms (%s)", round, p->model->name,
                     p->cluster->name, (double)best->iteration_ns * 1e-6, best->text, name,
                     (double)theirs->iteration_ns * 1e-6, theirs->text);
    }
    planned_free(other);
}

static void test_never_worse_than_any(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 82);
    int64_t by_auto = 0, by_crossing = 0, answers = 0;
    for (int round = 0; round < rounds_of(1); round++) {
        struct problem p = draw_problem(&rng);
        struct planned *own = plan_with("auto", &p.request);
        const struct planner *all;
        size_t count = planners(&all);
        for (size_t i = 0; i < count; i++)
            assert_no_worse(&p, round, own, all[i].name);
        if (own && own->trials.data[0].fits) {
            const char *who = own->trials.data[0].found_by;
            answers++;
            by_auto += strcmp(who, "auto") == 0;
            by_crossing += planner_find(who) == NULL;
        }
        planned_free(own);
        close_problem(&p);
    }
    print_message("%lld answers: %lld of the grid, %lld of other planners, %lld of crossing\n",
                  (long long)answers, (long long)by_auto,
                  (long long)(answers - by_auto - by_crossing), (long long)by_crossing);
}

/* ---- P4 -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t pieces[5]; /* ends at 0 */
} SCHEDULES[] = {{"1f1b", {1}},
                 {"gpipe", {1}},
                 {"zb-h1", {1}},
                 {"interleaved", {2, 3, 4}},
                 {"aiao", {1, 2, 3, 4}}};

/* Every schedule, sharding and recomputation of a layout and micro-batch. */
static void try_all_ways(const struct problem *p, struct degrees d, struct planned *tried)
{
    for (size_t s = 0; s < COUNT_OF(SCHEDULES); s++)
        for (const int64_t *pieces = SCHEDULES[s].pieces; *pieces; pieces++)
            for (int rest = 0; rest < 4 * RECOMPUTE_COUNT; rest++) {
                const struct trial *trial;
                d.schedule = SCHEDULES[s].name;
                d.pieces = *pieces;
                d.segments = strcmp(d.schedule, "aiao") == 0 ? *pieces : 1;
                d.shard = rest % 4;
                d.recompute = (enum recompute)(rest / 4);
                if (d.pp == 1 && s > 0)
                    continue;
                assert_int_equal(try_degrees(&p->request, p->cost, &d, tried, &trial), WEFT_OK);
            }
}

/* All plans of degrees, simulated: the fastest that fits. */
static int64_t brute_force(const struct problem *p, int64_t *plans)
{
    int64_t devices = cluster_devices(p->cluster), batch = p->request.pins.global_batch;
    struct planned tried = {.arena = p->arena, .planner = "brute force"};
    struct degrees d = p->request.pins;
    d.cp = d.ep = 1;
    for (d.tp = 1; d.tp <= devices; d.tp *= 2)
        for (d.pp = 1; d.tp * d.pp <= devices; d.pp *= 2)
            for (int sequence = 0; sequence <= (d.tp > 1); sequence++) {
                d.dp = devices / d.tp / d.pp;
                d.sequence = sequence;
                for (d.micro_batch = 1; d.micro_batch * d.dp <= batch; d.micro_batch++)
                    if (batch % (d.micro_batch * d.dp) == 0)
                        try_all_ways(p, d, &tried);
            }
    *plans += (int64_t)tried.trials.len;
    const struct trial *best = join_best(&tried, NULL);
    return best ? best->iteration_ns : INT64_MAX;
}

/* A small space: one to three layers on two or four devices, some with little memory. */
static struct problem draw_small(struct rng *rng)
{
    static const char *const MODELS[] = {"gpt3-350m", "llama3-8b", "bert-huge-32"};
    static const char *const LAYERS[] = {"layers: 1, seq: 128", "layers: 2, seq: 256",
                                         "layers: 3, seq: 64"};
    static const char *const SMALL[] = {"dgx-a100:1x2", "dgx-a100:1x4", "titan-rtx:2x2",
                                        "titan-rtx:1x4"};
    static const int64_t BATCHES[] = {2, 4, 6, 8, 12};
    struct problem p = {.arena = arena_new()};
    const char *model = MODELS[rng_below(rng, COUNT_OF(MODELS))];
    const char *layers = LAYERS[rng_below(rng, COUNT_OF(LAYERS))];
    assert_int_equal(model_open(model, layers, &p.model), WEFT_OK);
    assert_int_equal(cluster_open(SMALL[rng_below(rng, COUNT_OF(SMALL))], &p.cluster), WEFT_OK);
    assert_int_equal(cost_open(&p.cluster->node.device, NULL, &p.cost), WEFT_OK);
    struct degrees pins = {.global_batch = BATCHES[rng_below(rng, COUNT_OF(BATCHES))]};
    if (chance(rng, 3))
        pins.memory.limit_bytes = INT64_C(1) << (29 + rng_below(rng, 4));
    p.request = (struct plan_request){.model = p.model, .cluster = p.cluster, .pins = pins};
    return p;
}

static void test_near_all_plans(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 83);
    int64_t plans = 0, exact = 0, problems = 0;
    double most = 0;
    for (int round = 0; round < rounds_of(2); round++) {
        struct problem p = draw_small(&rng);
        struct planned *own = plan_with("auto", &p.request);
        int64_t best = brute_force(&p, &plans);
        if (best < INT64_MAX) {
            assert_non_null(own);
            double off = (double)own->trials.data[0].iteration_ns / (double)best - 1;
            if (!own->trials.data[0].fits || off > 0.01)
                fail_msg("round %d, %s on %s: %+.2f %%", round, p.model->name, p.cluster->name,
                         100 * off);
            problems++;
            exact += off <= 0;
            most = fmax(most, off);
        }
        planned_free(own);
        close_problem(&p);
    }
    print_message("%lld problems, %lld plans: %lld times the best, at most %.2f %% behind\n",
                  (long long)problems, (long long)plans, (long long)exact, 100 * most);
}

/* ---- P5 -------------------------------------------------------------------------------------- */

static const struct what_if *find_change(const struct what_ifs *rows, const char *word)
{
    for (size_t i = 0; i < rows->len; i++)
        if (strstr(rows->data[i].change, word))
            return &rows->data[i];
    return NULL;
}

static void test_more_memory_brings_that(void **state)
{
    (void)state;
    static const int64_t LIMIT = INT64_C(5) << 29;
    struct problem p;
    struct what_ifs rows = {0};
    struct plan *plan;
    /* 16 bytes of 200 M parameters, shared by 4 at best: with 2.5 GiB activations recompute */
    open_gpt(&p, "layers: 2, seq: 2048", "dgx-a100:1x4",
             (struct degrees){.global_batch = 32, .memory.limit_bytes = LIMIT});
    struct planned *planned = plan_with("auto", &p.request);
    struct trial *best = &planned->trials.data[0];
    assert_true(best->fits);
    int64_t before = best->iteration_ns;
    assert_int_equal(trial_take(&p.request, best, &plan), WEFT_OK);
    assert_int_equal(what_if(&p.request, planned, plan, p.arena, &rows), WEFT_OK);
    const struct what_if *more = find_change(&rows, "more memory");
    assert_non_null(more);
    assert_true(more->iteration_ns < before);
    p.request.pins.memory.limit_bytes = LIMIT + WHAT_IF_MORE_BYTES;
    struct planned *roomy = plan_with("auto", &p.request);
    double ratio = (double)more->iteration_ns / (double)roomy->trials.data[0].iteration_ns;
    assert_true(ratio >= 1 && ratio < 1.02);
    bool found = false; /* the same plan in a real search with more memory: as fast, and it fits */
    for (size_t i = 0; i < roomy->trials.len; i++) {
        const struct trial *trial = &roomy->trials.data[i];
        if (strcmp(trial->text, more->plan) == 0) {
            assert_true(trial->fits && trial->iteration_ns == more->iteration_ns);
            found = true;
        }
    }
    assert_true(found);
    planned_free(roomy);
    planned_free(planned);
    plan_free(plan);
    close_problem(&p);
}

/* A cluster file as a person would change it. */
static const char *write_cluster(const struct scratch *scratch, const char *name,
                                 const char *bandwidth)
{
    const char *path = arena_printf(scratch->arena, "%s/%s.yaml", scratch->folder, name);
    const char *text = arena_printf(
        scratch->arena, "name: %s\nsource: test\nbase: dgx-a100\nnodes: 2\nnic:\n  bandwidth: %s\n",
        name, bandwidth);
    assert_int_equal(file_write_text(path, text), WEFT_OK);
    return path;
}

static void test_a_faster_network_brings_that(void **state)
{
    const struct scratch *scratch = *state;
    struct problem p;
    struct what_ifs rows = {0};
    struct plan *plan;
    struct cluster *faster;
    struct prediction *prediction;
    open_gpt(&p, "layers: 4, seq: 512", write_cluster(scratch, "slow", "10Gb/s"),
             (struct degrees){.global_batch = 32, .tp = 1, .pp = 1});
    struct planned *planned = plan_with("auto", &p.request);
    assert_int_equal(trial_take(&p.request, &planned->trials.data[0], &plan), WEFT_OK);
    assert_int_equal(what_if(&p.request, planned, plan, p.arena, &rows), WEFT_OK);
    int64_t said = find_change(&rows, "network")->iteration_ns;
    assert_true(said < planned->trials.data[0].iteration_ns);
    assert_int_equal(cluster_open(write_cluster(scratch, "fast", "20Gb/s"), &faster), WEFT_OK);
    struct plan moved = *plan;
    struct simulate_options options = {.fold = FOLD_ALWAYS};
    moved.cluster = faster;
    assert_int_equal(simulate(&moved, &options, &prediction), WEFT_OK);
    assert_int_equal(prediction->iteration_ns, said);
    prediction_free(prediction);
    cluster_free(faster);
    planned_free(planned);
    plan_free(plan);
    close_problem(&p);
}

/* ---- P6 -------------------------------------------------------------------------------------- */

static struct problem draw_on_nodes(struct rng *rng)
{
    static const char *const MODELS[] = {"gpt3-1.3b", "llama3-8b", "bert-huge-32"};
    static const char *const LAYERS[] = {"layers: 2, seq: 512", "layers: 4, seq: 1024"};
    static const char *const NODES[] = {"dgx-a100:2", "titan-rtx:2", "dgx-v100:3x4"};
    struct problem p = {.arena = arena_new()};
    const char *model = MODELS[rng_below(rng, COUNT_OF(MODELS))];
    const char *layers = LAYERS[rng_below(rng, COUNT_OF(LAYERS))];
    assert_int_equal(model_open(model, layers, &p.model), WEFT_OK);
    assert_int_equal(cluster_open(NODES[rng_below(rng, COUNT_OF(NODES))], &p.cluster), WEFT_OK);
    assert_int_equal(cost_open(&p.cluster->node.device, NULL, &p.cost), WEFT_OK);
    struct degrees pins = {.global_batch = INT64_C(24) << rng_below(rng, 3)};
    p.request = (struct plan_request){.model = p.model, .cluster = p.cluster, .pins = pins};
    return p;
}

/* Asked without a time to beat, a planner's best is among auto's trials: as its own, or as that of whoever
 * found the same plan before. */
static void assert_has_best(const struct problem *p, const struct planned *own, const char *name)
{
    struct planned *alone = plan_with(name, &p->request);
    const struct trial *best = alone ? &alone->trials.data[0] : NULL;
    bool found = !best || !best->fits;
    for (size_t i = 0; !found && i < own->trials.len; i++)
        found = own->trials.data[i].fits &&
                own->trials.data[i].iteration_ns == best->iteration_ns &&
                own->trials.data[i].needed_bytes == best->needed_bytes;
    assert_true(found);
    planned_free(alone);
}

static void test_several_nodes(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 84);
    for (int round = 0; round < rounds_of(1); round++) {
        struct problem p = draw_on_nodes(&rng);
        struct planned *own = plan_with("auto", &p.request);
        assert_no_worse(&p, round, own, "megatron");
        assert_no_worse(&p, round, own, "autoddl");
        assert_has_best(&p, own, "galvatron");
        assert_has_best(&p, own, "aceso");
        planned_free(own);
        close_problem(&p);
    }
}

static void test_a_quick_search(void **state)
{
    (void)state;
    struct problem p;
    struct planned *answer[2];
    open_gpt(&p, "layers: 14, seq: 2048", "dgx-a100:80",
             (struct degrees){.global_batch = 1280, .memory.limit_bytes = INT64_C(5) << 30});
    p.request.options.quick = true;
    for (int i = 0; i < 2; i++)
        answer[i] = plan_with("auto", &p.request);
    const struct trial *grid = join_best(answer[0], "auto"), *best = answer[0]->trials.data;
    const struct trial *refined = join_best(answer[0], "aceso from auto");
    assert_true(grid && best->fits && refined);
    assert_true(refined->iteration_ns < grid->iteration_ns);
    assert_true(best->iteration_ns <= refined->iteration_ns);
    assert_null(join_best(answer[0], "aceso"));
    assert_int_equal(answer[1]->trials.len, answer[0]->trials.len);
    assert_int_equal(answer[1]->candidates, answer[0]->candidates);
    assert_string_equal(answer[1]->trials.data[0].text, best->text);
    assert_int_equal(answer[1]->trials.data[0].iteration_ns, best->iteration_ns);
    for (int i = 0; i < 2; i++)
        planned_free(answer[i]);
    close_problem(&p);
}

/* A deep model on many devices, quickly: Aceso begins from the grid's best with half as many stages, too,
 * and what comes of that is the best; in full, Aceso is asked as if alone. */
static void test_other_numbers_of_stages(void **state)
{
    (void)state;
    struct problem p;
    open_gpt(&p, "layers: 96, hidden: 12288, heads: 96", "dgx-a100:128",
             (struct degrees){.global_batch = 1536, .memory.limit_bytes = INT64_C(84) << 30});
    p.request.options.quick = true;
    struct planned *answer = plan_with("auto", &p.request);
    const struct trial *grid = join_best(answer, "auto"), *best = answer->trials.data;
    assert_string_equal(best->found_by, "aceso from auto");
    assert_int_equal(2 * best->plan->stages, grid->degrees.pp);
    assert_null(join_best(answer, "aceso"));
    planned_free(answer);
    close_problem(&p);
    open_gpt(&p, "layers: 96", "dgx-a100:128",
             (struct degrees){.global_batch = 1024, .pp = 1, .tp = 2});
    answer = plan_with("auto", &p.request);
    assert_has_best(&p, answer, "aceso");
    planned_free(answer);
    close_problem(&p);
}

struct watched {
    int64_t best_ns;
    bool worse, aceso, autoddl, itself;
};
static void watch(void *context, const struct progress *progress)
{
    struct watched *w = context;
    w->worse |= w->best_ns && (!progress->best_ns || progress->best_ns > w->best_ns);
    w->best_ns = progress->best_ns ? progress->best_ns : w->best_ns;
    w->itself |= !progress->who;
    w->aceso |= progress->who && strcmp(progress->who, "aceso") == 0;
    w->autoddl |= progress->who && strcmp(progress->who, "autoddl") == 0;
}

/* Whoever is at work, what was found before is the best so far. */
static void test_progress_is_of_all(void **state)
{
    (void)state;
    struct watched w = {0};
    struct problem p;
    open_gpt(&p, "layers: 4, seq: 512", "dgx-a100:2", (struct degrees){.global_batch = 32});
    p.request.progress = watch;
    p.request.context = &w;
    planned_free(plan_with("auto", &p.request));
    assert_true(w.itself && w.aceso && w.autoddl);
    assert_true(w.best_ns > 0 && !w.worse);
    close_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants_by_hand),
        cmocka_unit_test(test_bounds_of_layers),
        cmocka_unit_test(test_a_time_to_beat),
        cmocka_unit_test(test_never_worse_than_any),
        cmocka_unit_test(test_near_all_plans),
        cmocka_unit_test(test_several_nodes),
        cmocka_unit_test(test_a_quick_search),
        cmocka_unit_test(test_other_numbers_of_stages),
        cmocka_unit_test(test_progress_is_of_all),
        cmocka_unit_test(test_more_memory_brings_that),
        cmocka_unit_test_setup_teardown(test_a_faster_network_brings_that, scratch_setup,
                                        scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

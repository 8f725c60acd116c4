/* test_partition.c - partitions of layers into stages against all of them, one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/search.h"

enum { LAYERS = 9, STAGES = 4, STRATEGIES = 3 };

/* ---- a pipeline of small layers -------------------------------------------------------------- */

/* Layer l on strategy s; what it keeps counts once for each micro-batch in flight, stages - stage.
 * */
struct lab {
    struct pipeline_problem pipeline;
    int32_t kind[LAYERS], boundary[LAYERS];
    int64_t time_ns[LAYERS * STRATEGIES], sync_ns[LAYERS * STRATEGIES];
    int64_t kept[LAYERS * STRATEGIES], peak[LAYERS * STRATEGIES], state[LAYERS * STRATEGIES];
    int64_t reshard[STRATEGIES * STRATEGIES];
    int searches;
};

/* The problem of one stage; the times of both kinds count. */
struct stage_lab {
    struct layerwise problem;
    int64_t time_ns[LAYERS * STRATEGIES], kept[LAYERS * STRATEGIES];
};

static void stage_open(const struct lab *lab, int32_t stage, struct layer_run run,
                       struct stage_lab *out)
{
    out->problem = (struct layerwise){.layers = run.count,
                                      .strategies = STRATEGIES,
                                      .kinds = LAYERS,
                                      .boundaries = 1,
                                      .kind = lab->kind + run.first,
                                      .boundary = lab->boundary,
                                      .time_ns = out->time_ns,
                                      .kept_bytes = out->kept,
                                      .peak_bytes = lab->peak,
                                      .state_bytes = lab->state,
                                      .reshard_ns = lab->reshard,
                                      .limit_bytes = lab->pipeline.limit_bytes};
    for (int i = 0; i < LAYERS * STRATEGIES; i++) {
        out->time_ns[i] = lab->time_ns[i] + lab->sync_ns[i];
        out->kept[i] = lab->kept[i] * (lab->pipeline.stages - stage);
    }
}

static void lab_keep(void *context, int32_t stage, struct layer_run run, const int32_t *strategy,
                     struct stage_cost *out)
{
    const struct lab *lab = context;
    struct stage_lab own;
    stage_open(lab, stage, run, &own);
    struct layerwise_cost cost = layerwise_cost(&own.problem, strategy);
    *out = (struct stage_cost){cost.time_ns, cost.time_ns, cost.memory_bytes};
    for (int32_t l = 0; l < run.count; l++)
        out->steady_ns -= lab->sync_ns[(run.first + l) * STRATEGIES + strategy[l]];
}

static weft_status lab_search(void *context, int32_t stage, struct layer_run run, int32_t *strategy,
                              struct stage_cost *out)
{
    struct lab *lab = context;
    struct stage_lab own;
    struct layerwise_answer answer;
    struct arena *arena = arena_new();
    stage_open(lab, stage, run, &own);
    weft_status status = layerwise_solve(arena, &own.problem, &answer);
    if (status == WEFT_OK) {
        memcpy(strategy, answer.strategy, (size_t)run.count * sizeof *strategy);
        lab_keep(lab, stage, run, strategy, out);
    }
    lab->searches++;
    arena_free(arena);
    return status;
}

static void lab_draw(struct lab *lab, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    memset(lab, 0, sizeof *lab);
    for (int i = 0; i < LAYERS * STRATEGIES; i++) {
        lab->time_ns[i] = 1 + rng_below(&rng, 20);
        lab->sync_ns[i] = rng_below(&rng, 6);
        lab->kept[i] = rng_below(&rng, 10);
        lab->peak[i] = rng_below(&rng, 10);
        lab->state[i] = rng_below(&rng, 10);
    }
    for (int i = 0; i < STRATEGIES * STRATEGIES; i++)
        lab->reshard[i] = i % (STRATEGIES + 1) ? rng_below(&rng, 4) : 0;
    for (int32_t l = 0; l < LAYERS; l++)
        lab->kind[l] = l;
    lab->pipeline = (struct pipeline_problem){.layers = LAYERS,
                                              .stages = 1 + (int32_t)rng_below(&rng, STAGES),
                                              .micro_batches = 1 + rng_below(&rng, 8),
                                              .limit_bytes = 20 + rng_below(&rng, 120),
                                              .context = lab,
                                              .search = lab_search,
                                              .keep = lab_keep};
}

/* ---- all partitions -------------------------------------------------------------------------- */

/* The next count[] with at least one layer each; false after the last. */
static bool next_partition(int32_t layers, int32_t stages, int32_t *count)
{
    for (int32_t i = stages - 2; i >= 0; i--) {
        int32_t before = 0;
        for (int32_t k = 0; k <= i; k++)
            before += count[k];
        if (layers - before - 1 < stages - 1 - i)
            continue;
        count[i]++;
        for (int32_t k = i + 1; k < stages - 1; k++)
            count[k] = 1;
        count[stages - 1] = layers - before - 1 - (stages - 2 - i);
        return true;
    }
    return false;
}

static void first_partition(int32_t layers, int32_t stages, int32_t *count)
{
    for (int32_t i = 0; i < stages - 1; i++)
        count[i] = 1;
    count[stages - 1] = layers - (stages - 1);
}

static void enumerates_all(void **unused)
{
    (void)unused;
    int32_t count[STAGES], all = 0;
    first_partition(LAYERS, STAGES, count);
    do
        all++;
    while (next_partition(LAYERS, STAGES, count));
    assert_int_equal(all, 8 * 7 * 6 / 6); /* 3 of the 8 places between layers */
}

/* ---- balance --------------------------------------------------------------------------------- */

struct weights {
    int64_t weight[LAYERS], factor[STAGES];
};

static int64_t weigh(void *context, int32_t stage, struct layer_run run)
{
    const struct weights *weights = context;
    int64_t sum = 0;
    for (int32_t l = run.first; l < run.first + run.count; l++)
        sum += weights->weight[l];
    return sum * weights->factor[stage];
}

static int64_t largest(const struct balance *balance, const int32_t *count, int64_t *squares)
{
    int64_t most = 0;
    *squares = 0;
    for (int32_t stage = 0, first = 0; stage < balance->stages; first += count[stage++]) {
        int64_t cost =
            balance->cost(balance->context, stage, (struct layer_run){first, count[stage]});
        most = cost > most ? cost : most;
        *squares += cost * cost;
    }
    return most;
}

static void balances_as_well_as_can_be(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct rng rng;
        struct weights weights;
        rng_seed(&rng, seed);
        for (int i = 0; i < LAYERS; i++)
            weights.weight[i] = rng_below(&rng, 30);
        for (int i = 0; i < STAGES; i++)
            weights.factor[i] = seed % 2 ? 1 : 1 + rng_below(&rng, 4);
        struct balance balance = {LAYERS, 1 + (int32_t)rng_below(&rng, STAGES), &weights, weigh};
        int32_t count[STAGES], other[STAGES];
        int64_t squares, other_squares, most = balance_partition(&balance, count);
        assert_int_equal(largest(&balance, count, &squares), most);
        first_partition(LAYERS, balance.stages, other);
        do {
            int64_t other_most = largest(&balance, other, &other_squares);
            assert_true(most < other_most || (most == other_most && squares <= other_squares));
        } while (next_partition(LAYERS, balance.stages, other));
    }
}

static void balance_by_hand(void **unused)
{
    (void)unused;
    struct weights weights = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1}};
    struct balance balance = {LAYERS, 4, &weights, weigh};
    static const int32_t EVEN[] = {3, 2, 2, 2}, FLIGHT[] = {1, 1, 2, 5};
    int32_t count[4];
    assert_int_equal(balance_partition(&balance, count), 3);
    assert_memory_equal(count, EVEN, sizeof EVEN);
    for (int i = 0; i < 4; i++) /* 1F1B: 4, 3, 2, 1 micro-batches in flight */
        weights.factor[i] = 4 - i;
    int64_t most = balance_partition(&balance, count), squares;
    assert_int_equal(most, largest(&balance, FLIGHT, &squares)); /* 4, 3, 4, 5 */
    assert_memory_equal(count, FLIGHT, sizeof FLIGHT);
    static const int64_t COST[] = {3, 2, 2, 2};
    assert_true(balance_degree(COST, 4) == 1 - 3.0 / 9);
}

/* ---- partitions with a search ---------------------------------------------------------------- */

/* Eq. 9: the notes' example, times 1, 5, 1 with 8 micro-batches. */
static void pipeline_by_hand(void **unused)
{
    (void)unused;
    const struct stage_cost cost[] = {{1, 1, 0}, {5, 5, 0}, {1, 1, 0}};
    assert_int_equal(pipeline_ns(cost, 3, 8), 42);
}

static int64_t searched_ns(struct lab *lab, const int32_t *count)
{
    struct stage_cost cost[STAGES];
    int32_t strategy[LAYERS];
    for (int32_t stage = 0, first = 0; stage < lab->pipeline.stages; first += count[stage++])
        if (lab_search(lab, stage, (struct layer_run){first, count[stage]}, strategy,
                       &cost[stage]) != WEFT_OK)
            return INT64_MAX;
    return pipeline_ns(cost, lab->pipeline.stages, lab->pipeline.micro_batches);
}

static int64_t best_of_all(struct lab *lab)
{
    int64_t best = INT64_MAX;
    int32_t count[STAGES];
    first_partition(LAYERS, lab->pipeline.stages, count);
    do {
        int64_t ns = searched_ns(lab, count);
        best = ns < best ? ns : best;
    } while (next_partition(LAYERS, lab->pipeline.stages, count));
    return best;
}

static void check_partition(struct lab *lab, const struct partition *partition)
{
    int32_t layers = 0;
    struct stage_cost cost[STAGES];
    for (int32_t stage = 0; stage < lab->pipeline.stages; stage++) {
        struct layer_run run = {layers, partition->count[stage]};
        assert_true(run.count >= 1);
        lab_keep(lab, stage, run, partition->strategy + run.first, &cost[stage]);
        assert_int_equal(cost[stage].time_ns, partition->cost[stage].time_ns);
        assert_int_equal(cost[stage].steady_ns, partition->cost[stage].steady_ns);
        assert_true(cost[stage].memory_bytes <= lab->pipeline.limit_bytes);
        layers += run.count;
    }
    assert_int_equal(layers, LAYERS);
    assert_int_equal(partition->iteration_ns,
                     pipeline_ns(cost, lab->pipeline.stages, lab->pipeline.micro_batches));
}

static int64_t first_time(void *context, int32_t stage, struct layer_run run)
{
    static const int32_t ZEROES[LAYERS];
    struct stage_cost cost;
    lab_keep(context, stage, run, ZEROES, &cost);
    return cost.time_ns;
}

static int64_t first_memory(void *context, int32_t stage, struct layer_run run)
{
    static const int32_t ZEROES[LAYERS];
    struct stage_cost cost;
    lab_keep(context, stage, run, ZEROES, &cost);
    return cost.memory_bytes;
}

/* Algorithm 2 is never better than the best of all, nor worse than where it starts. */
static void adjusting_helps(void **unused)
{
    (void)unused;
    int fit = 0, best_found = 0, moved = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct lab lab;
        struct partition partition;
        struct arena *arena = arena_new();
        int32_t by_time[STAGES], by_memory[STAGES];
        lab_draw(&lab, seed);
        struct balance time = {LAYERS, lab.pipeline.stages, &lab, first_time};
        struct balance memory = {LAYERS, lab.pipeline.stages, &lab, first_memory};
        balance_partition(&time, by_time);
        balance_partition(&memory, by_memory);
        int64_t start = searched_ns(&lab, by_memory), best = best_of_all(&lab);
        int64_t end = searched_ns(&lab, by_time);
        weft_status status = adjust_partition(arena, &lab.pipeline, by_memory, by_time, &partition);
        assert_int_equal(status, start < INT64_MAX || end < INT64_MAX ? WEFT_OK : WEFT_NO_ANSWER);
        if (status == WEFT_OK) {
            assert_true(partition.iteration_ns >= best);
            assert_true(partition.iteration_ns <= start && partition.iteration_ns <= end);
            check_partition(&lab, &partition);
            fit++;
            moved += partition.iteration_ns < start && partition.iteration_ns < end;
            best_found += partition.iteration_ns == best;
        }
        arena_free(arena);
    }
    assert_true(fit > 100 && moved > 10 && best_found > fit / 2);
}

/* Two stages, four layers of 4, 1, 1, 1 ns, one strategy. From p_m = 2 + 2 (5 and 2 ns) layer 1
 * moves to the second stage: 4 and 3 ns. From there nothing can: stage 0 has one layer. Condition 3
 * forbids the move where p_t = 2 + 2 needs less memory than 1 + 3 does. */
static void adjusting_by_hand(void **unused)
{
    (void)unused;
    static const int64_t TIME[] = {4, 1, 1, 1};
    static const int32_t EVEN[] = {2, 2}, MOVED[] = {1, 3};
    struct lab lab;
    struct partition partition;
    struct arena *arena = arena_new();
    memset(&lab, 0, sizeof lab);
    lab.pipeline = (struct pipeline_problem){.layers = 4,
                                             .stages = 2,
                                             .micro_batches = 4,
                                             .limit_bytes = 100,
                                             .context = &lab,
                                             .search = lab_search,
                                             .keep = lab_keep};
    for (int32_t l = 0; l < 4; l++) {
        lab.kind[l] = l;
        for (int s = 0; s < STRATEGIES; s++) {
            lab.time_ns[l * STRATEGIES + s] = TIME[l];
            lab.state[l * STRATEGIES + s] = 10;
        }
    }
    assert_int_equal(adjust_partition(arena, &lab.pipeline, EVEN, MOVED, &partition), WEFT_OK);
    assert_memory_equal(partition.count, MOVED, sizeof MOVED);
    assert_int_equal(partition.iteration_ns, 3 * 4 + 7);
    assert_int_equal(adjust_partition(arena, &lab.pipeline, EVEN, EVEN, &partition), WEFT_OK);
    assert_memory_equal(partition.count, EVEN, sizeof EVEN);
    assert_int_equal(partition.iteration_ns, 3 * 5 + 7);
    assert_int_equal(partition.tried, 1);
    arena_free(arena);
}

static void too_many_stages(void **unused)
{
    (void)unused;
    struct lab lab;
    struct partition partition;
    struct arena *arena = arena_new();
    static const int32_t NONE[LAYERS + 1];
    lab_draw(&lab, 1);
    lab.pipeline.stages = LAYERS + 1;
    assert_int_equal(adjust_partition(arena, &lab.pipeline, NONE, NONE, &partition),
                     WEFT_NO_ANSWER);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enumerates_all),  cmocka_unit_test(balances_as_well_as_can_be),
        cmocka_unit_test(balance_by_hand), cmocka_unit_test(pipeline_by_hand),
        cmocka_unit_test(adjusting_helps), cmocka_unit_test(adjusting_by_hand),
        cmocka_unit_test(too_many_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

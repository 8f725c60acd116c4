/* test_layerwise.c - the layerwise program against all plans, one by one, of small random problems.
 * */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rounds.h"
#include "search/search.h"

enum { MOST_LAYERS = 40, MOST_STRATEGIES = 12, MOST_KINDS = 4 };

/* A problem with room of its own. */
struct lab {
    struct layerwise problem;
    int32_t kind[MOST_LAYERS], boundary[MOST_LAYERS];
    int64_t time_ns[MOST_KINDS * MOST_STRATEGIES], kept[MOST_KINDS * MOST_STRATEGIES];
    int64_t peak[MOST_KINDS * MOST_STRATEGIES], state[MOST_KINDS * MOST_STRATEGIES];
    int64_t reshard[2 * MOST_STRATEGIES * MOST_STRATEGIES];
};

static void lab_bind(struct lab *lab)
{
    struct layerwise *p = &lab->problem;
    p->kind = lab->kind;
    p->boundary = lab->boundary;
    p->time_ns = lab->time_ns;
    p->kept_bytes = lab->kept;
    p->peak_bytes = lab->peak;
    p->state_bytes = lab->state;
    p->reshard_ns = lab->reshard;
}

/* Small numbers make ties, large ones none; peaks may dwarf what is kept. */
static void lab_draw(struct lab *lab, uint64_t seed, int32_t layers, int32_t strategies)
{
    struct rng rng;
    rng_seed(&rng, seed);
    memset(lab, 0, sizeof *lab);
    lab_bind(lab);
    lab->problem.layers = layers;
    lab->problem.strategies = strategies;
    lab->problem.kinds = 1 + (int32_t)rng_below(&rng, MOST_KINDS);
    lab->problem.boundaries = 2;
    int64_t scale = rng_below(&rng, 2) ? 6 : 1000000;
    int64_t reshard = rng_below(&rng, 3) ? scale / 3 : 0;
    int64_t peak = rng_below(&rng, 2) ? scale * 4 : scale / 4 + 1;
    for (int32_t i = 0; i < lab->problem.kinds * strategies; i++) {
        lab->time_ns[i] = rng_below(&rng, 25) ? rng_below(&rng, scale) : LAYERWISE_NEVER;
        lab->kept[i] = rng_below(&rng, scale);
        lab->peak[i] = rng_below(&rng, 2) ? rng_below(&rng, peak) : 0;
        lab->state[i] = rng_below(&rng, scale);
    }
    for (int32_t i = 0; i < 2 * strategies * strategies; i++)
        lab->reshard[i] = reshard ? rng_below(&rng, reshard + 1) : 0;
    bool runs = rng_below(&rng, 2) != 0;
    for (int32_t l = 0; l < layers; l++) {
        lab->kind[l] =
            (int32_t)(runs ? l * lab->problem.kinds / layers : rng_below(&rng, lab->problem.kinds));
        lab->boundary[l] = (int32_t)rng_below(&rng, runs ? 1 : 2);
    }
    lab->problem.limit_bytes = rng_below(&rng, (2 * scale) * layers * 3 / 4 + peak / 2);
}

/* ---- all plans ------------------------------------------------------------------------------- */

static bool allowed(const struct layerwise *p, const int32_t *strategy)
{
    for (int32_t l = 0; l < p->layers; l++)
        if (p->time_ns[p->kind[l] * p->strategies + strategy[l]] == LAYERWISE_NEVER)
            return false;
    return true;
}

/* Eq. 2 and 4 again, as the paper writes them. */
static struct layerwise_cost cost_as_written(const struct layerwise *p, const int32_t *strategy)
{
    struct layerwise_cost cost = {0, 0};
    for (int32_t i = 0; i < p->layers; i++) {
        int64_t all = p->peak_bytes[p->kind[i] * p->strategies + strategy[i]];
        for (int32_t k = 0; k <= i; k++)
            all += p->kept_bytes[p->kind[k] * p->strategies + strategy[k]];
        for (int32_t k = 0; k < p->layers; k++)
            all += p->state_bytes[p->kind[k] * p->strategies + strategy[k]];
        cost.memory_bytes = all > cost.memory_bytes ? all : cost.memory_bytes;
        cost.time_ns += p->time_ns[p->kind[i] * p->strategies + strategy[i]];
        if (i)
            cost.time_ns +=
                p->reshard_ns[(p->boundary[i] * p->strategies + strategy[i - 1]) * p->strategies +
                              strategy[i]];
    }
    return cost;
}

static bool next_plan(const struct layerwise *p, int32_t *strategy)
{
    for (int32_t l = 0; l < p->layers; l++) {
        if (++strategy[l] < p->strategies)
            return true;
        strategy[l] = 0;
    }
    return false;
}

static bool brute_force(const struct layerwise *p, struct layerwise_cost *best)
{
    int32_t strategy[MOST_LAYERS] = {0};
    bool found = false;
    do {
        if (!allowed(p, strategy))
            continue;
        struct layerwise_cost cost = cost_as_written(p, strategy);
        if (cost.memory_bytes > p->limit_bytes ||
            (found && (cost.time_ns > best->time_ns ||
                       (cost.time_ns == best->time_ns && cost.memory_bytes >= best->memory_bytes))))
            continue;
        *best = cost;
        found = true;
    } while (next_plan(p, strategy));
    return found;
}

static void check_answer(const struct layerwise *p, const struct layerwise_answer *answer)
{
    assert_true(allowed(p, answer->strategy));
    struct layerwise_cost cost = cost_as_written(p, answer->strategy);
    struct layerwise_cost own = layerwise_cost(p, answer->strategy);
    assert_int_equal(cost.time_ns, answer->time_ns);
    assert_int_equal(cost.memory_bytes, answer->memory_bytes);
    assert_int_equal(cost.time_ns, own.time_ns);
    assert_int_equal(cost.memory_bytes, own.memory_bytes);
    assert_true(cost.memory_bytes <= p->limit_bytes);
    assert_true(answer->least_ns <= answer->time_ns);
}

static void equals_brute_force(void **unused)
{
    (void)unused;
    static const int32_t SHAPES[][2] = {{1, 5}, {2, 6}, {3, 5}, {4, 4}, {5, 4}, {7, 3}, {9, 2}};
    struct lab lab;
    int fit = 0, unfit = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        const int32_t *shape = SHAPES[seed % COUNT_OF(SHAPES)];
        struct arena *arena = arena_new();
        struct layerwise_answer answer;
        struct layerwise_cost best = {0, 0};
        lab_draw(&lab, seed, shape[0], shape[1]);
        bool fits = brute_force(&lab.problem, &best);
        weft_status status = layerwise_solve(arena, &lab.problem, &answer);
        assert_int_equal(status, fits ? WEFT_OK : WEFT_NO_ANSWER);
        if (fits) {
            assert_true(answer.exact);
            assert_int_equal(answer.time_ns, best.time_ns);
            assert_int_equal(answer.memory_bytes, best.memory_bytes);
            check_answer(&lab.problem, &answer);
        }
        fit += fits;
        unfit += !fits;
        arena_free(arena);
    }
    assert_true(fit > 500 && unfit > 300);
}

/* Fewer and longer: 3^11 plans each. */
static void equals_brute_force_of_more_layers(void **unused)
{
    (void)unused;
    struct lab lab;
    for (uint64_t seed = 0; seed < (uint64_t)rounds_of(30); seed++) {
        struct arena *arena = arena_new();
        struct layerwise_answer answer;
        struct layerwise_cost best = {0, 0};
        lab_draw(&lab, seed, 11, 3);
        bool fits = brute_force(&lab.problem, &best);
        assert_int_equal(layerwise_solve(arena, &lab.problem, &answer),
                         fits ? WEFT_OK : WEFT_NO_ANSWER);
        if (fits) {
            assert_int_equal(answer.time_ns, best.time_ns);
            assert_int_equal(answer.memory_bytes, best.memory_bytes);
        }
        arena_free(arena);
    }
}

/* ---- a table of bytes, for problems without peaks -------------------------------------------- */

enum { MOST_LIMIT = 12 * MOST_LAYERS };
struct relation {
    int64_t ns[MOST_STRATEGIES][MOST_LIMIT + 1]; /* by last strategy and exact bytes */
};

static void table_step(const struct layerwise *p, int32_t layer, const struct relation *from,
                       struct relation *to)
{
    for (int32_t s = 0; s < p->strategies; s++)
        for (int64_t bytes = 0; bytes <= p->limit_bytes; bytes++) {
            int32_t i = p->kind[layer] * p->strategies + s;
            int64_t before = bytes - p->kept_bytes[i] - p->state_bytes[i], best = INT64_MAX;
            for (int32_t a = 0; a < p->strategies && before >= 0; a++)
                if (from->ns[a][before] < INT64_MAX && p->time_ns[i] < LAYERWISE_NEVER) {
                    int64_t r = (p->boundary[layer] * p->strategies + a) * p->strategies + s;
                    int64_t ns =
                        from->ns[a][before] + p->time_ns[i] + (layer ? p->reshard_ns[r] : 0);
                    best = ns < best ? ns : best;
                }
            to->ns[s][bytes] = best;
        }
}

static struct layerwise_cost table_solve(const struct layerwise *p)
{
    static struct relation table[2];
    struct layerwise_cost best = {INT64_MAX, 0};
    for (int32_t s = 0; s < p->strategies; s++)
        for (int64_t bytes = 0; bytes <= p->limit_bytes; bytes++)
            table[0].ns[s][bytes] = bytes ? INT64_MAX : 0;
    for (int32_t layer = 0; layer < p->layers; layer++)
        table_step(p, layer, &table[layer % 2], &table[1 - layer % 2]);
    for (int64_t bytes = 0; bytes <= p->limit_bytes; bytes++)
        for (int32_t s = 0; s < p->strategies; s++)
            if (table[p->layers % 2].ns[s][bytes] < best.time_ns)
                best = (struct layerwise_cost){table[p->layers % 2].ns[s][bytes], bytes};
    return best;
}

static void equals_a_table(void **unused)
{
    (void)unused;
    struct lab lab;
    int fit = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct arena *arena = arena_new();
        struct layerwise_answer answer;
        lab_draw(&lab, seed, MOST_LAYERS - (int32_t)seed % 20, 2 + (int32_t)seed % 11);
        for (int32_t i = 0; i < lab.problem.kinds * lab.problem.strategies; i++) {
            lab.kept[i] %= 7;
            lab.state[i] %= 7;
            lab.peak[i] = 0;
        }
        lab.problem.limit_bytes %= 9 * lab.problem.layers;
        struct layerwise_cost best = table_solve(&lab.problem);
        weft_status status = layerwise_solve(arena, &lab.problem, &answer);
        assert_int_equal(status, best.time_ns < INT64_MAX ? WEFT_OK : WEFT_NO_ANSWER);
        if (status == WEFT_OK) {
            assert_int_equal(answer.time_ns, best.time_ns);
            assert_int_equal(answer.memory_bytes, best.memory_bytes);
            check_answer(&lab.problem, &answer);
            fit++;
        }
        arena_free(arena);
    }
    assert_true(fit > 50);
}

/* ---- properties of larger problems ----------------------------------------------------------- */

static int64_t solve_ns(const struct layerwise *p)
{
    struct arena *arena = arena_new();
    struct layerwise_answer answer;
    weft_status status = layerwise_solve(arena, p, &answer);
    int64_t time_ns = status == WEFT_OK ? answer.time_ns : INT64_MAX;
    if (status == WEFT_OK)
        check_answer(p, &answer);
    arena_free(arena);
    return time_ns;
}

static void more_memory_is_never_worse(void **unused)
{
    (void)unused;
    struct lab lab;
    for (uint64_t seed = 0; seed < 60; seed++) {
        int64_t before = INT64_MAX;
        lab_draw(&lab, seed, 4 + (int32_t)seed % (MOST_LAYERS - 4), 2 + (int32_t)seed % 10);
        int64_t step = lab.problem.limit_bytes / 6 + 1;
        for (int i = 0; i < 12; i++) {
            lab.problem.limit_bytes = step * i;
            int64_t now = solve_ns(&lab.problem);
            assert_true(now <= before);
            before = now;
        }
    }
}

/* The last strategies forbidden, then allowed one after the other. */
static void more_strategies_are_never_worse(void **unused)
{
    (void)unused;
    struct lab lab, fewer;
    for (uint64_t seed = 0; seed < 60; seed++) {
        int64_t before = INT64_MAX;
        lab_draw(&lab, seed, 4 + (int32_t)seed % (MOST_LAYERS - 4), MOST_STRATEGIES);
        for (int32_t some = 1; some <= MOST_STRATEGIES; some++) {
            fewer = lab;
            lab_bind(&fewer);
            for (int32_t i = 0; i < lab.problem.kinds * MOST_STRATEGIES; i++)
                if (i % MOST_STRATEGIES >= some)
                    fewer.time_ns[i] = LAYERWISE_NEVER;
            int64_t now = solve_ns(&fewer.problem);
            assert_true(now <= before);
            before = now;
        }
    }
}

/* By hand: two layers, strategy 0 fast (10 ns, keeps 8, states 1), strategy 1 recomputed (13 ns,
 * keeps 2, peak 6, states 1), a change of strategy 1 ns.
 *   0 0: 20 ns, max(8, 16) + 2 = 18      1 0: 24 ns, max(2 + 6, 10) + 2 = 12
 *   0 1: 24 ns, max(8, 8 + 2 + 6) + 2 = 18   1 1: 26 ns, max(8, 10) + 2 = 12 */
static void by_hand(void **unused)
{
    (void)unused;
    struct lab lab = {.time_ns = {10, 13}, .kept = {8, 2}, .peak = {0, 6}, .state = {1, 1}};
    static const int64_t CHANGE[] = {0, 1, 1, 0};
    static const struct {
        int64_t limit, time_ns, memory;
    } EXPECTED[] = {{18, 20, 18}, {17, 24, 12}, {12, 24, 12}, {11, INT64_MAX, 0}};
    lab_bind(&lab);
    memcpy(lab.reshard, CHANGE, sizeof CHANGE);
    lab.problem.layers = lab.problem.strategies = 2;
    lab.problem.kinds = lab.problem.boundaries = 1;
    for (size_t i = 0; i < COUNT_OF(EXPECTED); i++) {
        struct arena *arena = arena_new();
        struct layerwise_answer answer;
        lab.problem.limit_bytes = EXPECTED[i].limit;
        weft_status status = layerwise_solve(arena, &lab.problem, &answer);
        assert_int_equal(status, EXPECTED[i].memory ? WEFT_OK : WEFT_NO_ANSWER);
        if (status == WEFT_OK) {
            assert_int_equal(answer.time_ns, EXPECTED[i].time_ns);
            assert_int_equal(answer.memory_bytes, EXPECTED[i].memory);
        }
        arena_free(arena);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, PROBLEMS = 40 };

/* The same problems in every thread, drawn before. */
struct job {
    const struct lab *labs;
    int64_t time_ns[PROBLEMS];
    int32_t strategy[PROBLEMS][MOST_LAYERS];
};

static void *solve_all(void *argument)
{
    struct job *job = argument;
    for (int i = 0; i < PROBLEMS; i++) {
        struct arena *arena = arena_new();
        struct layerwise_answer answer;
        if (layerwise_solve(arena, &job->labs[i].problem, &answer) == WEFT_OK) {
            job->time_ns[i] = answer.time_ns;
            memcpy(job->strategy[i], answer.strategy,
                   (size_t)job->labs[i].problem.layers * sizeof *answer.strategy);
        }
        arena_free(arena);
    }
    return NULL;
}

static void threads_agree(void **unused)
{
    (void)unused;
    static struct lab labs[PROBLEMS];
    static struct job job[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < PROBLEMS; i++)
        lab_draw(&labs[i], (uint64_t)i, 30, 8);
    for (int i = 0; i < THREADS; i++) {
        job[i].labs = labs;
        assert_int_equal(pthread_create(&thread[i], NULL, solve_all, &job[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 1; i < THREADS; i++)
        assert_memory_equal(&job[i], &job[0], sizeof job[0]);
}

/* ---- stopping and refusing ------------------------------------------------------------------- */

static void stops(void **unused)
{
    (void)unused;
    atomic_bool asked = true;
    struct stop stop = {.asked = &asked};
    int stopped = 0;
    struct lab lab;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct arena *arena = arena_new();
        struct layerwise_answer answer, limited;
        lab_draw(&lab, seed, 30, 8);
        int64_t best_ns = solve_ns(&lab.problem);
        lab.problem.stop = &stop;
        if (layerwise_solve(arena, &lab.problem, &answer) == WEFT_OK) {
            assert_false(answer.exact);
            check_answer(&lab.problem, &answer);
            assert_true(answer.least_ns <= best_ns && best_ns <= answer.time_ns);
            stopped++;
        }
        lab.problem.stop = NULL;
        lab.problem.most_states = 40;
        if (layerwise_solve(arena, &lab.problem, &limited) == WEFT_OK) {
            check_answer(&lab.problem, &limited);
            assert_true(limited.least_ns <= best_ns && best_ns <= limited.time_ns);
        }
        arena_free(arena);
    }
    assert_true(stopped > 20);
}

static void refuses(void **unused)
{
    (void)unused;
    struct lab lab;
    struct layerwise_answer answer;
    struct arena *arena = arena_new();
    lab_draw(&lab, 1, 4, 3);
    lab.kept[1] = -1;
    assert_int_equal(layerwise_solve(arena, &lab.problem, &answer), WEFT_BAD_INPUT);
    lab_draw(&lab, 1, 4, 3);
    lab.kind[2] = lab.problem.kinds;
    assert_int_equal(layerwise_solve(arena, &lab.problem, &answer), WEFT_BAD_INPUT);
    lab_draw(&lab, 1, 4, 3);
    lab.time_ns[0] = INT64_MAX - 1;
    assert_int_equal(layerwise_solve(arena, &lab.problem, &answer), WEFT_BAD_INPUT);
    lab_draw(&lab, 1, 4, 3);
    for (int i = 0; i < 3; i++)
        lab.time_ns[lab.kind[0] * 3 + i] = LAYERWISE_NEVER;
    assert_int_equal(layerwise_solve(arena, &lab.problem, &answer), WEFT_NO_ANSWER);
    lab.problem.layers = 0;
    assert_int_equal(layerwise_solve(arena, &lab.problem, &answer), WEFT_BAD_INPUT);
    arena_free(arena);
}

/* One strategy: the only plan is the longest there is, reshards included; and where nothing fits, what is needed at
 * least is said, the last layer's backward pass with it. */
static void one_strategy_is_a_plan(void **state)
{
    (void)state;
    static const int32_t KIND[] = {0, 0, 0}, BOUNDARY[] = {0, 0, 0};
    static const int64_t TIME[] = {10}, KEPT[] = {3}, PEAK[] = {5}, STATE[] = {7}, RESHARD[] = {4};
    struct layerwise p = {.layers = 3,
                          .strategies = 1,
                          .kinds = 1,
                          .boundaries = 1,
                          .kind = KIND,
                          .boundary = BOUNDARY,
                          .time_ns = TIME,
                          .kept_bytes = KEPT,
                          .peak_bytes = PEAK,
                          .state_bytes = STATE,
                          .reshard_ns = RESHARD,
                          .limit_bytes = 3 * 10 + 5};
    struct arena *keep = arena_new();
    struct layerwise_answer answer;
    assert_int_equal(layerwise_solve(keep, &p, &answer), WEFT_OK);
    assert_int_equal(answer.time_ns, 3 * 10 + 2 * 4);
    assert_int_equal(answer.memory_bytes, 35);
    p.limit_bytes = 34;
    assert_int_equal(layerwise_solve(keep, &p, &answer), WEFT_NO_ANSWER);
    assert_string_equal(weft_last_error()->message,
                        "the layers need 35 B at least, more than the limit of 34 B");
    arena_free(keep);
}

/* All plans take as long as any can, and the one that fits is none that relaxations find: of the first layer
 * the strategy that keeps less has the higher peak. */
static void the_slowest_plan_may_be_the_only_one(void **state)
{
    (void)state;
    struct lab lab = {
        .problem = {.layers = 2, .strategies = 2, .kinds = 1, .boundaries = 1, .limit_bytes = 10},
        .time_ns = {7, 7},
        .kept = {1, 5},
        .peak = {100, 0},
        .reshard = {3, 3, 3, 3}};
    struct layerwise_answer answer;
    struct arena *keep = arena_new();
    lab_bind(&lab);
    assert_int_equal(layerwise_solve(keep, &lab.problem, &answer), WEFT_OK);
    check_answer(&lab.problem, &answer);
    assert_int_equal(answer.time_ns, 7 + 3 + 7);
    assert_int_equal(answer.memory_bytes, 10);
    arena_free(keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_strategy_is_a_plan),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(equals_brute_force),
        cmocka_unit_test(the_slowest_plan_may_be_the_only_one),
        cmocka_unit_test(equals_brute_force_of_more_layers),
        cmocka_unit_test(equals_a_table),
        cmocka_unit_test(more_memory_is_never_worse),
        cmocka_unit_test(more_strategies_are_never_worse),
        cmocka_unit_test(threads_agree),
        cmocka_unit_test(stops),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

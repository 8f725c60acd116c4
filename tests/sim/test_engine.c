/* test_engine.c - the event engine: golden scenarios with their arithmetic in tests/data/engine, a
 * naive engine on random graphs, and the invariants of engine.h and share.h one by one. */
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_naive.h"
#include "engine_scenario.h"
#include "engine_text.h"

static struct engine_result run(struct arena *arena, const struct scenario *scenario)
{
    struct engine_graph graph = scenario_lower(arena, scenario, NULL);
    struct engine_result result;
    if (engine_run(arena, &graph, &result) != WEFT_OK)
        fail_msg("%s", weft_last_error()->message);
    return result;
}

/* ---- golden scenarios ------------------------------------------------------------------------ */

static const char *golden_name(const void *names, int32_t task)
{
    const struct scenario *scenario = names;
    return scenario->task[task].name;
}

static void check_times(const struct golden *golden, const struct engine_result *result)
{
    for (int32_t t = 0; t < golden->scenario.tasks; t++) {
        if (golden->expect.end_ns[t] < 0)
            continue;
        print_message("    %s\n", golden->scenario.task[t].name);
        assert_int_equal(result->start_ns[t], golden->expect.start_ns[t]);
        assert_int_equal(result->end_ns[t], golden->expect.end_ns[t]);
    }
    if (golden->expect.end)
        assert_int_equal(result->end, golden->expect.end);
}

static void check_path(const struct golden *golden, const struct engine_graph *graph,
                       const struct engine_result *result)
{
    int32_t *path, count = engine_critical_path(golden->arena, graph, result, &path);
    if (!golden->expect.path_length)
        return;
    assert_int_equal(count, golden->expect.path_length);
    for (int32_t i = 0; i < count; i++)
        assert_string_equal(golden->scenario.task[path[i]].name,
                            golden->scenario.task[golden->expect.path[i]].name);
}

static void check_held(const struct golden *golden, const struct engine_graph *graph,
                       const struct engine_result *result)
{
    for (int32_t t = 0; t < golden->scenario.tasks; t++)
        if (golden->expect.held[t] >= 0) {
            int64_t took_ns = result->end_ns[t] - result->start_ns[t];
            assert_int_equal(result->held_by[t], golden->expect.held[t]);
            assert_true(took_ns > engine_alone_ns(graph, t));
        }
}

static void check_golden(const char *path)
{
    struct arena *arena = arena_new();
    struct golden *golden = golden_read(arena, path);
    struct engine_graph graph = scenario_lower(arena, &golden->scenario, NULL);
    struct engine_result result;
    graph.task_name = golden_name;
    graph.names = &golden->scenario;
    print_message("  %s\n", strrchr(path, '/') + 1);
    weft_status status = engine_run(arena, &graph, &result);
    if (golden->expect.deadlock) {
        assert_int_equal(status, WEFT_BAD_INPUT);
        if (!strstr(weft_last_error()->message, golden->expect.deadlock))
            fail_msg("%s", weft_last_error()->message);
    } else {
        assert_int_equal(status, WEFT_OK);
        check_times(golden, &result);
        check_path(golden, &graph, &result);
        check_held(golden, &graph, &result);
    }
    arena_free(arena);
}

static void golden_scenarios(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob(WEFT_SOURCE_DIR "/tests/data/engine/*.txt", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_golden(found.gl_pathv[i]);
    globfree(&found);
}

/* ---- random graphs --------------------------------------------------------------------------- */

/* Mostly round numbers, so that things meet at the same instant, and sometimes odd ones. */
static int64_t random_size(struct rng *rng)
{
    static const int64_t ROUND[] = {0, 1, 10, 100, 100, 200, 1000};
    if (rng_below(rng, 2))
        return ROUND[rng_below(rng, COUNT_OF(ROUND))];
    return rng_below(rng, 3000);
}

/* Mostly 1, and not always whole. */
static double random_times(struct rng *rng)
{
    static const double TIMES[] = {1, 1, 1, 1, 2, 3, 7.5, 1000};
    return TIMES[rng_below(rng, COUNT_OF(TIMES))];
}

static void random_links(struct rng *rng, const struct scenario *scenario,
                         struct scenario_task *task)
{
    for (int32_t l = 0; l < scenario->links; l++)
        if (!rng_below(rng, 3) && task->uses < MAX_LIST)
            task->use[task->uses++] =
                (struct link_use){l, (double)random_size(rng), random_times(rng)};
    for (int32_t d = 0; d < scenario->devices; d++)
        if (!rng_below(rng, 3))
            task->device[task->devices++] = d;
}

static struct scenario_task random_task(struct rng *rng, const struct scenario *scenario, int32_t t)
{
    struct scenario_task task = {.stream = (int32_t)rng_below(rng, scenario->streams)};
    task.is_flow = rng_below(rng, 2);
    task.ns = random_size(rng);
    if (task.is_flow) {
        task.ns = task.ns % 100;
        task.least_ns = random_size(rng);
        task.priority = (int32_t)rng_below(rng, 3);
        random_links(rng, scenario, &task);
    }
    while (t && task.afters < MAX_LIST && !rng_below(rng, 2))
        task.after[task.afters++] = (int32_t)rng_below(rng, t);
    return task;
}

static void random_scenario(struct rng *rng, struct scenario *scenario)
{
    static const double RATES[] = {1e9, 1e9, 2e9, 3e9, 0.7e9, 12.34e9};
    static const double SLOWDOWNS[] = {1, 1, 1.25, 1.3, 2};
    memset(scenario, 0, sizeof *scenario);
    scenario->tasks = 1 + (int32_t)rng_below(rng, 40);
    scenario->streams = 1 + (int32_t)rng_below(rng, 12);
    scenario->links = 1 + (int32_t)rng_below(rng, 6);
    scenario->devices = 1 + (int32_t)rng_below(rng, 4);
    for (int32_t l = 0; l < scenario->links; l++)
        scenario->link_bytes_per_s[l] = RATES[rng_below(rng, COUNT_OF(RATES))];
    for (int32_t d = 0; d < scenario->devices; d++)
        scenario->slowdown[d] = SLOWDOWNS[rng_below(rng, COUNT_OF(SLOWDOWNS))];
    for (int32_t s = 0; s < scenario->streams; s++)
        scenario->stream_device[s] = (int32_t)rng_below(rng, scenario->devices + 1) - 1;
    for (int32_t t = 0; t < scenario->tasks; t++) {
        scenario->task[t] = random_task(rng, scenario, t);
        scenario->task[t].takes = rng_below(rng, 3) ? 0 : 1.5;
    }
    bool kinds = rng_below(rng, 2);
    for (int32_t t = 0; t < scenario->tasks && kinds; t++) {
        scenario->task[t].slowed = 1 + (double)rng_below(rng, 3) / 10;
        scenario->task[t].slows = 1 + (double)rng_below(rng, 3) / 10;
    }
}

typedef void scenario_check(struct rng *rng, struct arena *arena, struct scenario *scenario);

static void for_random(int rounds, uint64_t seed, scenario_check *check)
{
    struct rng rng;
    struct scenario *scenario = malloc(sizeof *scenario);
    rng_seed(&rng, seed);
    for (int i = 0; i < rounds; i++) {
        struct arena *arena = arena_new();
        random_scenario(&rng, scenario);
        check(&rng, arena, scenario);
        arena_free(arena);
    }
    free(scenario);
}

static void check_naive(struct rng *rng, struct arena *arena, struct scenario *scenario)
{
    (void)rng;
    int64_t start_ns[MAX_TASKS], end_ns[MAX_TASKS];
    struct engine_result result = run(arena, scenario);
    assert_true(scenario_naive(scenario, start_ns, end_ns));
    for (int32_t t = 0; t < scenario->tasks; t++) {
        assert_int_equal(result.start_ns[t], start_ns[t]);
        assert_int_equal(result.end_ns[t], end_ns[t]);
    }
}

static void naive_agrees(void **state)
{
    (void)state;
    for_random(3000, 1, check_naive);
}

static void check_order(struct rng *rng, struct arena *arena, struct scenario *scenario)
{
    (void)rng;
    struct engine_graph graph = scenario_lower(arena, scenario, NULL);
    struct engine_result result = run(arena, scenario);
    int64_t free_ns[MAX_STREAMS] = {0}, busy_ns[MAX_STREAMS] = {0};
    for (int32_t t = 0; t < scenario->tasks; t++) {
        const struct scenario_task *task = &scenario->task[t];
        int64_t may_ns = free_ns[task->stream];
        for (int32_t i = 0; i < task->afters; i++)
            if (result.end_ns[task->after[i]] > may_ns)
                may_ns = result.end_ns[task->after[i]];
        assert_int_equal(result.start_ns[t], may_ns); /* (1): neither before nor later */
        assert_true(result.end_ns[t] - may_ns >= engine_alone_ns(&graph, t));
        free_ns[task->stream] = result.end_ns[t];
        busy_ns[task->stream] += result.end_ns[t] - result.start_ns[t];
    }
    assert_memory_equal(busy_ns, result.busy_ns, (size_t)scenario->streams * sizeof *busy_ns);
}

static void order_holds(void **state)
{
    (void)state;
    for_random(1000, 2, check_order);
}

/* The critical path leads from 0 to the end without a gap. */
static void check_critical(struct rng *rng, struct arena *arena, struct scenario *scenario)
{
    (void)rng;
    struct engine_graph graph = scenario_lower(arena, scenario, NULL);
    struct engine_result result = run(arena, scenario);
    int32_t *path, count = engine_critical_path(arena, &graph, &result, &path);
    int64_t at_ns = 0;
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(result.start_ns[path[i]], at_ns);
        at_ns = result.end_ns[path[i]];
    }
    assert_int_equal(at_ns, result.end);
}

static void critical_path_has_no_gap(void **state)
{
    (void)state;
    for_random(500, 3, check_critical);
}

static void shuffle(struct rng *rng, int32_t *number, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        number[i] = i;
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t j = (int32_t)rng_below(rng, i + 1), swap = number[i];
        number[i] = number[j];
        number[j] = swap;
    }
}

static void check_renumbered(struct rng *rng, struct arena *arena, struct scenario *scenario)
{
    int32_t number[MAX_TASKS], *path[2], length[2];
    struct engine_graph graph[2];
    struct engine_result result[2];
    shuffle(rng, number, scenario->tasks);
    for (int i = 0; i < 2; i++) {
        graph[i] = scenario_lower(arena, scenario, i ? number : NULL);
        assert_int_equal(engine_run(arena, &graph[i], &result[i]), WEFT_OK);
        length[i] = engine_critical_path(arena, &graph[i], &result[i], &path[i]);
    }
    for (int32_t t = 0; t < scenario->tasks; t++) {
        assert_int_equal(result[0].start_ns[t], result[1].start_ns[number[t]]);
        assert_int_equal(result[0].end_ns[t], result[1].end_ns[number[t]]);
    }
    assert_int_equal(length[0], length[1]);
    for (int32_t i = 0; i < length[0]; i++)
        assert_int_equal(number[path[0][i]], path[1][i]);
    assert_int_equal(result[0].events, result[1].events);
}

static void task_numbers_do_not_matter(void **state)
{
    (void)state;
    for_random(1000, 4, check_renumbered);
}

static void check_repeat(struct rng *rng, struct arena *arena, struct scenario *scenario)
{
    (void)rng;
    struct engine_result a = run(arena, scenario), b = run(arena, scenario);
    size_t bytes = (size_t)scenario->tasks * sizeof *a.end_ns;
    assert_memory_equal(a.start_ns, b.start_ns, bytes);
    assert_memory_equal(a.end_ns, b.end_ns, bytes);
}

static void runs_repeat(void **state)
{
    (void)state;
    for_random(100, 5, check_repeat);
}

/* Where a later task is waited for, tasks may wait in a circle: exactly when the naive says so. */
static void check_deadlock(struct rng *rng, struct arena *arena, struct scenario *scenario)
{
    int64_t start_ns[MAX_TASKS], end_ns[MAX_TASKS];
    struct engine_result result;
    for (int i = 0; i < 2; i++) {
        struct scenario_task *task = &scenario->task[rng_below(rng, scenario->tasks)];
        if (task->afters < MAX_LIST)
            task->after[task->afters++] = (int32_t)rng_below(rng, scenario->tasks);
    }
    struct engine_graph graph = scenario_lower(arena, scenario, NULL);
    bool runs = engine_run(arena, &graph, &result) == WEFT_OK;
    assert_int_equal(runs, scenario_naive(scenario, start_ns, end_ns));
    if (!runs)
        assert_non_null(strstr(weft_last_error()->message, " waits "));
}

static void deadlocks_are_found(void **state)
{
    (void)state;
    for_random(500, 6, check_deadlock);
}

/* Tasks of equal flows take the same times, be the flow one for all or one for each. */
static void check_templates(struct rng *rng, struct arena *arena, struct scenario *scenario)
{
    int32_t like[MAX_TASKS], shared[MAX_TASKS];
    struct engine_result each, one;
    for (int32_t t = 0; t < scenario->tasks; t++) {
        struct scenario_task *task = &scenario->task[t], was = *task;
        like[t] = (int32_t)rng_below(rng, t + 1);
        const struct scenario_task *other = &scenario->task[like[t]];
        if (!was.is_flow || !other->is_flow) {
            like[t] = t;
            continue;
        }
        like[t] = like[like[t]];
        *task = *other;
        task->stream = was.stream;
        task->ns = was.ns;
        task->afters = was.afters;
        memcpy(task->after, was.after, sizeof was.after);
    }
    struct engine_graph graph = scenario_lower(arena, scenario, NULL);
    assert_int_equal(engine_run(arena, &graph, &each), WEFT_OK);
    for (int32_t t = 0; t < scenario->tasks; t++)
        shared[t] = graph.task_flow[like[t]];
    graph.task_flow = shared;
    assert_int_equal(engine_run(arena, &graph, &one), WEFT_OK);
    assert_memory_equal(each.start_ns, one.start_ns, (size_t)graph.tasks * sizeof *one.start_ns);
    assert_memory_equal(each.end_ns, one.end_ns, (size_t)graph.tasks * sizeof *one.end_ns);
    assert_memory_equal(each.held_by, one.held_by, (size_t)graph.tasks * sizeof *one.held_by);
}

static void flows_are_templates(void **state)
{
    (void)state;
    for_random(500, 12, check_templates);
}

/* ---- folded graphs --------------------------------------------------------------------------- */

/* A set has 1 to 5 equal members. Each has two streams, a device and a link of its own; some links
 * belong to all. Folded, the first member of a set stands for the others. */
enum { SETS = 4, MOST_MEMBERS = 5, STREAMS_EACH = 2, SHARED = 3 };
struct sets {
    int32_t members[SETS];
    int32_t set_of[MAX_TASKS]; /* by task of the folded graph */
    int32_t first[MAX_TASKS];  /* likewise: of the task's first member in the unfolded graph */
    struct scenario folded, unfolded;
};

static void add_member(struct scenario *scenario, double own_rate, double slowdown)
{
    scenario->link_bytes_per_s[scenario->links++] = own_rate;
    for (int i = 0; i < STREAMS_EACH; i++)
        scenario->stream_device[scenario->streams++] = scenario->devices;
    scenario->slowdown[scenario->devices++] = slowdown;
}

static void random_sets(struct rng *rng, struct sets *sets)
{
    static const double RATES[] = {1e9, 2e9, 3e9, 0.7e9, 12.34e9}, SLOWDOWNS[] = {1, 1, 1.3, 2};
    memset(sets, 0, sizeof *sets);
    sets->folded.links = sets->unfolded.links = SHARED;
    for (int32_t l = 0; l < SHARED; l++)
        sets->folded.link_bytes_per_s[l] = sets->unfolded.link_bytes_per_s[l] =
            RATES[rng_below(rng, COUNT_OF(RATES))];
    for (int32_t g = 0; g < SETS; g++) {
        double rate = RATES[rng_below(rng, COUNT_OF(RATES))];
        double slowdown = SLOWDOWNS[rng_below(rng, COUNT_OF(SLOWDOWNS))];
        sets->members[g] = 1 + (int32_t)rng_below(rng, MOST_MEMBERS);
        add_member(&sets->folded, rate, slowdown);
        for (int32_t i = 0; i < sets->members[g]; i++)
            add_member(&sets->unfolded, rate, slowdown);
    }
}

static struct scenario_task random_sibling(struct rng *rng, const struct sets *sets, int32_t set)
{
    struct scenario_task task = {.is_flow = rng_below(rng, 3) > 0, .ns = random_size(rng)};
    task.stream = set * STREAMS_EACH + (int32_t)rng_below(rng, STREAMS_EACH);
    while (sets->folded.tasks && task.afters < 3 && !rng_below(rng, 2))
        task.after[task.afters++] = (int32_t)rng_below(rng, sets->folded.tasks);
    if (!task.is_flow)
        return task;
    task.ns %= 100;
    task.least_ns = random_size(rng);
    task.priority = (int32_t)rng_below(rng, 2);
    for (int32_t l = 0; l < SHARED; l++)
        if (rng_below(rng, 2))
            task.use[task.uses++] =
                (struct link_use){l, (double)random_size(rng), (double)sets->members[set]};
    if (rng_below(rng, 2))
        task.use[task.uses++] = (struct link_use){SHARED + set, (double)random_size(rng), 1};
    if (rng_below(rng, 2))
        task.device[task.devices++] = set;
    return task;
}

/* What is numbered by set in the folded graph is numbered by `member` in the unfolded. */
static struct scenario_task unfold(const struct sets *sets, int32_t t, int32_t member, int32_t i)
{
    struct scenario_task task = sets->folded.task[t];
    task.stream = member * STREAMS_EACH + task.stream % STREAMS_EACH;
    for (int32_t u = 0; u < task.uses; u++) {
        task.use[u].times = 1;
        task.use[u].link = task.use[u].link < SHARED ? task.use[u].link : SHARED + member;
    }
    for (int32_t d = 0; d < task.devices; d++)
        task.device[d] = member;
    for (int32_t a = 0; a < task.afters; a++) {
        int32_t after = task.after[a];
        task.after[a] = sets->first[after] + i % sets->members[sets->set_of[after]];
    }
    return task;
}

static void add_siblings(struct rng *rng, struct sets *sets)
{
    int32_t set = (int32_t)rng_below(rng, SETS), t = sets->folded.tasks, member = 0;
    struct scenario_task task = random_sibling(rng, sets, set);
    for (int32_t g = 0; g < set; g++)
        member += sets->members[g];
    sets->folded.task[sets->folded.tasks++] = task;
    sets->set_of[t] = set;
    sets->first[t] = sets->unfolded.tasks;
    for (int32_t i = 0; i < sets->members[set]; i++)
        sets->unfolded.task[sets->unfolded.tasks++] = unfold(sets, t, member + i, i);
}

static void check_folded(const struct sets *sets)
{
    struct arena *arena = arena_new();
    struct engine_result folded = run(arena, &sets->folded);
    struct engine_result unfolded = run(arena, &sets->unfolded);
    for (int32_t t = 0; t < sets->folded.tasks; t++)
        for (int32_t i = 0; i < sets->members[sets->set_of[t]]; i++) {
            assert_int_equal(folded.start_ns[t], unfolded.start_ns[sets->first[t] + i]);
            assert_int_equal(folded.end_ns[t], unfolded.end_ns[sets->first[t] + i]);
        }
    arena_free(arena);
}

static void one_stands_for_its_siblings(void **state)
{
    (void)state;
    struct rng rng;
    struct sets *sets = malloc(sizeof *sets);
    rng_seed(&rng, 13);
    for (int round = 0; round < 500; round++) {
        random_sets(&rng, sets);
        for (int32_t tasks = 2 + round % 40; tasks; tasks--)
            add_siblings(&rng, sets);
        check_folded(sets);
    }
    free(sets);
}

static void wrong_times_fail(void **state)
{
    (void)state;
    static const double WRONG[] = {0, 0.5, -1, NAN, INFINITY};
    struct scenario scenario = {1, 1, 1, .link_bytes_per_s = {1e9}};
    struct arena *arena = arena_new();
    struct engine_result result;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        scenario.task[0] =
            (struct scenario_task){.is_flow = true, .use = {{0, 100, WRONG[i]}}, .uses = 1};
        struct engine_graph graph = scenario_lower(arena, &scenario, NULL);
        assert_int_equal(engine_run(arena, &graph, &result), WEFT_FAILURE);
    }
    arena_free(arena);
}

/* ---- sharing --------------------------------------------------------------------------------- */

enum { SLOTS = 12, LINKS = 5 };
struct sharing {
    int32_t links;
    double bytes_per_s[LINKS];
    struct share_flow flow[SLOTS];
    struct link_use use[SLOTS][LINKS];
};

static void random_sharing(struct rng *rng, struct sharing *sharing, int32_t links, int32_t classes)
{
    sharing->links = links;
    for (int32_t l = 0; l < links; l++)
        sharing->bytes_per_s[l] = 1e9 * (double)(1 + rng_below(rng, 5));
    for (int32_t f = 0; f < SLOTS; f++) {
        double alone_ns = (double)rng_below(rng, 2000), bytes = 0;
        int32_t uses = 0;
        for (int32_t l = 0; l < links; l++)
            if (links == 1 || rng_below(rng, 2))
                sharing->use[f][uses++] =
                    (struct link_use){l, (double)(1 + rng_below(rng, 1000)), random_times(rng)};
        for (int32_t i = 0; i < uses; i++) {
            const struct link_use *use = &sharing->use[f][i];
            bytes = fmax(bytes, use->bytes);
            alone_ns = fmax(alone_ns, use->bytes / sharing->bytes_per_s[use->link] * 1e9);
        }
        bytes = uses ? bytes : 1;
        sharing->flow[f] =
            (struct share_flow){(int32_t)rng_below(rng, classes), bytes / fmax(alone_ns, 1), bytes,
                                sharing->use[f], uses};
    }
}

/* Of a flow that came: that of its pool, or its own. */
static double speed_in(const struct share_news *news, const struct share_move *move)
{
    double speed = move->bytes_per_ns;
    for (int32_t i = 0; move->pooled && i < news->speeds; i++)
        if (news->speed[i].link == move->link)
            speed = news->speed[i].bytes_per_ns;
    return speed;
}

/* Speeds of the first `count` flows. */
static void speeds_of(struct sharing *sharing, int32_t count, double *speed)
{
    struct arena *arena = arena_new();
    struct share *share = share_new(arena, SLOTS, sharing->bytes_per_s, sharing->links);
    for (int32_t f = 0; f < count; f++)
        share_add(share, f, &sharing->flow[f]);
    struct share_news news = share_solve(share);
    memset(speed, 0, SLOTS * sizeof *speed);
    for (int32_t m = 0; m < news.moves; m++)
        speed[news.move[m].slot] = speed_in(&news, &news.move[m]);
    arena_free(arena);
}

static double load_of(const struct sharing *sharing, int32_t link, const double *speed)
{
    double load = 0;
    for (int32_t f = 0; f < SLOTS; f++)
        for (int32_t i = 0; i < sharing->flow[f].uses; i++)
            if (sharing->use[f][i].link == link)
                load += speed[f] * sharing->use[f][i].times * sharing->use[f][i].bytes /
                        sharing->flow[f].bytes;
    return load / sharing->bytes_per_s[link] * 1e9;
}

static bool is_fastest(const struct sharing *sharing, int32_t link, const double *speed, int32_t of)
{
    for (int32_t f = 0; f < SLOTS; f++)
        for (int32_t i = 0; i < sharing->flow[f].uses; i++)
            if (sharing->use[f][i].link == link && speed[f] > speed[of] * (1 + 1e-9) &&
                sharing->flow[f].priority >= sharing->flow[of].priority)
                return false;
    return true;
}

/* Max-min fair: each flow has its own pace, or a full link where none of its class (or of a lower
 * one) is faster. */
static void speeds_are_fair(void **state)
{
    (void)state;
    struct rng rng;
    struct sharing sharing;
    double speed[SLOTS];
    rng_seed(&rng, 7);
    for (int round = 0; round < 2000; round++) {
        random_sharing(&rng, &sharing, 1 + round % LINKS, 1 + round % 3);
        speeds_of(&sharing, SLOTS, speed);
        for (int32_t l = 0; l < sharing.links; l++)
            assert_true(load_of(&sharing, l, speed) <= 1 + 1e-9);
        for (int32_t f = 0; f < SLOTS; f++) {
            bool bound = speed[f] >= sharing.flow[f].pace * (1 - 1e-9);
            for (int32_t i = 0; i < sharing.flow[f].uses; i++) {
                int32_t link = sharing.use[f][i].link;
                bound |= load_of(&sharing, link, speed) >= 1 - 1e-9 &&
                         is_fastest(&sharing, link, speed, f);
            }
            assert_true(bound);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* share.h: sorted, the speeds of the old flows never become lexicographically larger; on one link
 * no speed becomes larger at all. */
static void one_more_flow_helps_nobody(void **state)
{
    (void)state;
    struct rng rng;
    struct sharing sharing;
    double before[SLOTS], after[SLOTS];
    rng_seed(&rng, 8);
    for (int round = 0; round < 2000; round++) {
        random_sharing(&rng, &sharing, 1 + round % LINKS, 1);
        speeds_of(&sharing, SLOTS - 1, before);
        speeds_of(&sharing, SLOTS, after);
        for (int32_t f = 0; f < SLOTS - 1 && sharing.links == 1; f++)
            assert_true(after[f] <= before[f] * (1 + 1e-9));
        qsort(before, SLOTS - 1, sizeof *before, by_size);
        qsort(after, SLOTS - 1, sizeof *after, by_size);
        int32_t f = 0;
        while (f < SLOTS - 1 && fabs(after[f] - before[f]) <= 1e-9 * before[f])
            f++;
        assert_true(f == SLOTS - 1 || after[f] < before[f]);
    }
}

/* What is told of moves and pools adds up to the speeds. */
struct told {
    double own[SLOTS], pool[LINKS];
    int32_t in[SLOTS]; /* pool, -1: none */
};

static void solve_into(struct share *share, struct told *told)
{
    struct share_news news = share_solve(share);
    for (int32_t i = 0; i < news.moves; i++) {
        told->in[news.move[i].slot] = news.move[i].pooled ? news.move[i].link : -1;
        told->own[news.move[i].slot] = news.move[i].bytes_per_ns;
    }
    for (int32_t i = 0; i < news.speeds; i++)
        told->pool[news.speed[i].link] = news.speed[i].bytes_per_ns;
}

static void add_told(struct share *share, int32_t slot, const struct share_flow *flow,
                     struct told *told)
{
    told->own[slot] = 0;
    told->in[slot] = -1;
    share_add(share, slot, flow);
    solve_into(share, told);
}

/* Flow f comes; the one before it goes, comes back at half its pace, and finds its own again. */
static void come_and_go(struct share *share, const struct sharing *sharing, int32_t f,
                        struct told *told)
{
    add_told(share, f, &sharing->flow[f], told);
    if (!f)
        return;
    share_remove(share, f - 1);
    solve_into(share, told);
    struct share_flow half = sharing->flow[f - 1];
    half.pace /= 2;
    add_told(share, f - 1, &half, told);
    share_set_pace(share, f - 1, sharing->flow[f - 1].pace);
    solve_into(share, told);
}

/* Coming and going one by one leads to the same speeds, bit for bit, as starting from nothing. */
static void increments_agree(void **state)
{
    (void)state;
    struct rng rng;
    struct sharing sharing;
    struct told told = {0};
    double fresh[SLOTS];
    rng_seed(&rng, 9);
    for (int round = 0; round < 500; round++) {
        struct arena *arena = arena_new();
        random_sharing(&rng, &sharing, 1 + round % LINKS, 1 + round % 3);
        struct share *share = share_new(arena, SLOTS, sharing.bytes_per_s, sharing.links);
        for (int32_t f = 0; f < SLOTS; f++)
            come_and_go(share, &sharing, f, &told);
        speeds_of(&sharing, SLOTS, fresh);
        for (int32_t f = 0; f < SLOTS; f++)
            assert_true(fresh[f] == (told.in[f] < 0 ? told.own[f] : told.pool[told.in[f]]));
        arena_free(arena);
    }
}

/* ---- one link over time ---------------------------------------------------------------------- */

/* Flows that begin at random moments, each on a stream of its own. */
static void random_flows(struct rng *rng, struct scenario *scenario, int32_t count)
{
    memset(scenario, 0, sizeof *scenario);
    scenario->links = 1;
    scenario->link_bytes_per_s[0] = 1e9;
    for (int32_t t = 0; t < count; t++) {
        struct scenario_task *task = &scenario->task[scenario->tasks++];
        *task = (struct scenario_task){.stream = t, .is_flow = true, .uses = 1};
        task->ns = rng_below(rng, 500);
        task->least_ns = rng_below(rng, 2);
        task->least_ns *= rng_below(rng, 2000);
        task->use[0] = (struct link_use){0, (double)(1 + rng_below(rng, 1000)), 1};
        scenario->stream_device[scenario->streams++] = -1;
    }
}

static void on_one_link_nobody_ends_earlier(void **state)
{
    (void)state;
    struct rng rng;
    struct scenario scenario;
    rng_seed(&rng, 10);
    for (int round = 0; round < 500; round++) {
        struct arena *arena = arena_new();
        random_flows(&rng, &scenario, 2 + round % 10);
        struct engine_result with = run(arena, &scenario);
        scenario.tasks--;
        scenario.streams--;
        struct engine_result without = run(arena, &scenario);
        for (int32_t t = 0; t < scenario.tasks; t++)
            assert_true(with.end_ns[t] >= without.end_ns[t]);
        arena_free(arena);
    }
}

/* n flows from 0 without a pace of their own keep the link full: it is done after all bytes, and
 * each end rounded up to a nanosecond costs less than one. */
static void one_link_loses_no_time(void **state)
{
    (void)state;
    struct rng rng;
    struct scenario scenario;
    rng_seed(&rng, 11);
    for (int round = 0; round < 500; round++) {
        struct arena *arena = arena_new();
        int32_t count = 1 + round % 12;
        int64_t bytes = 0;
        random_flows(&rng, &scenario, count);
        for (int32_t t = 0; t < count; t++) {
            scenario.task[t].ns = scenario.task[t].least_ns = 0;
            scenario.task[t].priority = (int32_t)rng_below(&rng, 2);
            bytes += (int64_t)scenario.task[t].use[0].bytes;
        }
        int64_t end = run(arena, &scenario).end;
        assert_in_range(end, bytes, bytes + count);
        arena_free(arena);
    }
}

/* ---- pipelines ------------------------------------------------------------------------------- */

enum { FORWARD_NS = 10, BACKWARD_NS = 20, MOST = 8 };

static int32_t add_work(struct scenario *scenario, int32_t stream, int64_t ns, int32_t after)
{
    struct scenario_task *task = &scenario->task[scenario->tasks];
    *task = (struct scenario_task){.stream = stream, .ns = ns};
    if (after >= 0)
        task->after[task->afters++] = after;
    return scenario->tasks++;
}

/* All forward, then all backward (p stages, m micro-batches); a stage needs its neighbour. */
static void build_pipeline(struct scenario *scenario, int32_t p, int32_t m)
{
    int32_t task[MOST][MOST];
    memset(scenario, 0, sizeof *scenario);
    scenario->streams = p;
    for (int32_t s = 0; s < p; s++)
        for (int32_t i = 0; i < m; i++)
            task[s][i] = add_work(scenario, s, FORWARD_NS, s ? task[s - 1][i] : -1);
    for (int32_t s = p - 1; s >= 0; s--)
        for (int32_t i = 0; i < m; i++)
            task[s][i] =
                add_work(scenario, s, BACKWARD_NS, s < p - 1 ? task[s + 1][i] : task[s][i]);
}

static void pipelines_take_m_plus_p_minus_1(void **state)
{
    (void)state;
    struct scenario scenario;
    for (int32_t p = 1; p <= MOST; p++)
        for (int32_t m = 1; m <= MOST; m++) {
            struct arena *arena = arena_new();
            build_pipeline(&scenario, p, m);
            struct engine_result result = run(arena, &scenario);
            assert_int_equal(result.end, (m + p - 1) * (FORWARD_NS + BACKWARD_NS));
            assert_int_equal(result.events, scenario.tasks);
            arena_free(arena);
        }
}

/* ---- what is no graph ------------------------------------------------------------------------ */

static void wrong_orders_fail(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct scenario scenario;
    struct engine_result result;
    build_pipeline(&scenario, 2, 2);
    struct engine_graph graph = scenario_lower(arena, &scenario, NULL);
    int32_t twice[] = {0, 1, 1, 7, 2, 3, 4, 5};
    graph.order = twice;
    assert_int_equal(engine_run(arena, &graph, &result), WEFT_FAILURE);
    graph = scenario_lower(arena, &scenario, NULL);
    double no_rate = 0;
    graph.links = 1;
    graph.link_bytes_per_s = &no_rate;
    assert_int_equal(engine_run(arena, &graph, &result), WEFT_FAILURE);
    arena_free(arena);
}

/* A latency of 5, 100 bytes at 1 byte a ns for itself and two siblings on one link, 60 at least: 5 + 300. */
static void alone_is_latency_and_the_slowest_link(void **state)
{
    (void)state;
    static const int32_t FLOW[] = {0, -1};
    static const int64_t NS[] = {5, 40}, LEAST[] = {60}, FIRST[] = {0, 2};
    static const struct link_use USE[] = {{0, 100, 3}, {1, 100, 1}};
    static const double RATE[] = {1e9, 2e9};
    struct engine_graph graph = {.tasks = 2,
                                 .task_ns = NS,
                                 .task_flow = FLOW,
                                 .flow_least_ns = LEAST,
                                 .flow_use_first = FIRST,
                                 .flow_use = USE,
                                 .link_bytes_per_s = RATE};
    assert_int_equal(engine_alone_ns(&graph, 0), 5 + 300);
    assert_int_equal(engine_alone_ns(&graph, 1), 40);
    static const struct link_use LITTLE[] = {{0, 10, 3}, {1, 10, 1}};
    graph.flow_use = LITTLE;
    assert_int_equal(engine_alone_ns(&graph, 0), 5 + 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_is_latency_and_the_slowest_link),
        cmocka_unit_test(golden_scenarios),
        cmocka_unit_test(naive_agrees),
        cmocka_unit_test(order_holds),
        cmocka_unit_test(critical_path_has_no_gap),
        cmocka_unit_test(task_numbers_do_not_matter),
        cmocka_unit_test(runs_repeat),
        cmocka_unit_test(deadlocks_are_found),
        cmocka_unit_test(flows_are_templates),
        cmocka_unit_test(one_stands_for_its_siblings),
        cmocka_unit_test(wrong_times_fail),
        cmocka_unit_test(speeds_are_fair),
        cmocka_unit_test(one_more_flow_helps_nobody),
        cmocka_unit_test(increments_agree),
        cmocka_unit_test(on_one_link_nobody_ends_earlier),
        cmocka_unit_test(one_link_loses_no_time),
        cmocka_unit_test(pipelines_take_m_plus_p_minus_1),
        cmocka_unit_test(wrong_orders_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

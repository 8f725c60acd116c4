/* test_bounds.c - a bound of the grid never exceeds what it bounds, on thousands of random pipelines.
 *
 *   B1  Equation (1) of grid_space.h is at most what the schedule takes when it is executed by the letter, and
 *       what the estimate says.
 *   B2  Equation (2) is at most what a stage holds at its fullest.
 *   B3  Both are worth something: with equal stages (1) is all but the bubble that is left out.
 *   B4  Every point of some grids has the bounds and the estimate that data/bounds.txt says: a bound that is less worth, or
 *       one that only happens to hold, makes no other answer, and so no other test sees it. With
 *       WEFT_RECORD=1 the file is written anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "digest.h"
#include "one_arena.h"
#include "rounds.h"
#include "search/auto/grid.h"
#include "search/auto/grid_space.h"
#include "search/estimate/estimator.h"

enum { MOST_PARTS = 32, SCHEDULES = 4 };

/* A point of the grid with numbers of its own. */
struct drawn {
    struct grid_place point;
    struct grid_shape shape;
    struct grid_part part[MOST_PARTS];
    struct part_work work[MOST_PARTS];
    struct part_memory memory[MOST_PARTS];
    int64_t weight[MOST_PARTS];
    int32_t at[MOST_PARTS + 1];
    int64_t cut[MOST_PARTS + 1], state[MOST_PARTS + 1], step[MOST_PARTS + 1], kept[MOST_PARTS + 1];
};

static void draw_part(struct rng *rng, bool split, int64_t send, struct drawn *d, int32_t k)
{
    int64_t forward = 1000 + rng_below(rng, 3000), backward = 1000 + rng_below(rng, 6000);
    d->weight[k] = split ? rng_below(rng, backward) : 0;
    d->part[k] = (struct grid_part){forward, backward};
    d->work[k] = (struct part_work){.forward = forward,
                                    .backward = backward - d->weight[k],
                                    .weight = d->weight[k],
                                    .send = rng_below(rng, send + 1),
                                    .back = rng_below(rng, send + 1)};
    int64_t kept = 10 + rng_below(rng, 1000);
    d->memory[k] = (struct part_memory){.kept = kept,
                                        .back = split ? -rng_below(rng, kept + 1) : -kept,
                                        .forward_rise = kept + rng_below(rng, 100),
                                        .backward_rise = rng_below(rng, 100),
                                        .weight_rise = split ? rng_below(rng, 100) : 0};
    d->cut[k + 1] = d->at[k + 1] = k + 1;
    d->state[k + 1] = d->state[k] + rng_below(rng, 1000);
    d->step[k + 1] = d->step[k] + rng_below(rng, 1000);
    d->kept[k + 1] = d->kept[k] + kept;
}

static bool draw(struct rng *rng, int64_t send, struct drawn *d)
{
    memset(d, 0, sizeof *d);
    d->point.schedule = (uint8_t)rng_below(rng, SCHEDULES);
    const struct schedule *schedule = grid_schedule(&d->point);
    d->shape = (struct grid_shape){.pp = 1 + rng_below(rng, 8),
                                   .pieces = 1 + rng_below(rng, 4),
                                   .part = d->part,
                                   .cut = d->cut,
                                   .at = d->at};
    d->point.micro_batches = 1 + rng_below(rng, 20);
    struct pipeline pipeline = {(int32_t)d->shape.pp, (int32_t)d->shape.pieces,
                                (int32_t)d->point.micro_batches};
    if (schedule_check(schedule, &pipeline)) {
        error_clear();
        return false;
    }
    for (int32_t k = 0; k < d->shape.pp * d->shape.pieces; k++)
        draw_part(rng, schedule->passes == ORDER_SPLIT, send, d, k);
    return true;
}

/* ---- B1 -------------------------------------------------------------------------------------- */

static int64_t played_ns(const struct drawn *d)
{
    int64_t forward[MOST_PARTS], backward[MOST_PARTS], weight[MOST_PARTS], ns;
    struct pipeline pipeline = {(int32_t)d->shape.pp, (int32_t)d->shape.pieces,
                                (int32_t)d->point.micro_batches};
    for (int64_t s = 0; s < d->shape.pp; s++)
        for (int64_t v = 0; v < d->shape.pieces; v++) {
            int64_t to = s * d->shape.pieces + v, from = v * d->shape.pp + s;
            forward[to] = d->part[from].forward_ns;
            backward[to] = d->part[from].backward_ns;
            weight[to] = d->weight[from];
        }
    struct pipeline_times times = {forward, backward, weight, 0};
    assert_int_equal(schedule_play(grid_schedule(&d->point), &pipeline, &times, &ns), WEFT_OK);
    return ns;
}

static int64_t estimated_ns(struct orders *orders, const struct drawn *d)
{
    struct stage_end end[MOST_PARTS];
    struct pipeline_work work = {grid_schedule(&d->point),
                                 (int32_t)d->shape.pp,
                                 (int32_t)d->shape.pieces,
                                 d->point.micro_batches,
                                 d->work,
                                 OVERLAP_ALL,
                                 1};
    int64_t last = 0;
    pipeline_ends(orders, &work, end);
    for (int64_t s = 0; s < d->shape.pp; s++)
        last = end[s].computed_ns > last ? end[s].computed_ns : last;
    return last;
}

static void times_are_bounded(void **state)
{
    (void)state;
    struct arena *scratch = arena_new();
    struct orders *orders = orders_new(scratch);
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0, drawn = 0; drawn < 3000; i++) {
        struct drawn d;
        if (!draw(&rng, i % 2 ? 4000 : 0, &d))
            continue;
        int64_t bound = grid_least_ns(&d.shape, &d.point, d.part), played = played_ns(&d);
        if (bound > played)
            fail_msg("%s of %d stages, %d pieces, %d micro-batches: %lld, bound by %lld",
                     grid_schedule(&d.point)->name, (int)d.shape.pp, (int)d.shape.pieces,
                     (int)d.point.micro_batches, (long long)played, (long long)bound);
        /* a pace is rounded down to whole nanoseconds */
        assert_true(bound <= estimated_ns(orders, &d) + d.point.micro_batches);
        drawn++;
    }
    arena_free(scratch);
}

/* B3: m (f + b) and, of the stages before the last one, f + b once each: 1f1b loses no more. */
static void bounds_of_equal_stages_are_exact(void **state)
{
    (void)state;
    for (int32_t p = 1; p <= 8; p++)
        for (int32_t m = p; m <= 3 * p; m += p) {
            struct drawn d = {.shape = {.pp = p, .pieces = 1}, .point = {.micro_batches = m}};
            for (int32_t k = 0; k < p; k++)
                d.part[k] = (struct grid_part){100, 200};
            int64_t bound = grid_least_ns(&d.shape, &d.point, d.part);
            assert_int_equal(bound, 300 * (m + p - 1));
            assert_int_equal(bound, played_ns(&d));
        }
}

/* ---- B2 -------------------------------------------------------------------------------------- */

static int64_t peak_bytes(struct holdings *holdings, const struct drawn *d)
{
    struct pipeline pipeline = {(int32_t)d->shape.pp, (int32_t)d->shape.pieces,
                                (int32_t)d->point.micro_batches};
    int64_t most = 0;
    for (int32_t s = 0; s < d->shape.pp; s++) {
        int64_t held = most_held(holdings, grid_schedule(&d->point), &pipeline, s, &d->memory[s]);
        int64_t state = 0, step = 0;
        for (int64_t k = s; k < d->shape.pp * d->shape.pieces; k += d->shape.pp) {
            state += d->state[k + 1] - d->state[k];
            step += d->step[k + 1] - d->step[k];
        }
        int64_t bytes = state + (held > step ? held : step);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void bytes_are_bounded(void **state)
{
    (void)state;
    struct arena *scratch = arena_new();
    struct holdings *holdings = holdings_new(scratch);
    struct rng rng;
    double nearest = 0;
    rng_seed(&rng, 2);
    for (int drawn = 0; drawn < 3000;) {
        struct drawn d;
        if (!draw(&rng, 0, &d))
            continue;
        struct grid_layout layout = {.state = {d.state, d.state, d.state, d.state},
                                     .step = {d.step, d.step, d.step, d.step}};
        struct grid_passes passes = {.kept_bytes = {d.kept, d.kept, d.kept}};
        int64_t peak = peak_bytes(holdings, &d);
        int64_t bound = grid_least_bytes(&layout, &d.shape, &passes, &d.point, false);
        if (bound > peak)
            fail_msg("%s of %d stages, %d pieces, %d micro-batches: %lld bytes, bound by %lld",
                     grid_schedule(&d.point)->name, (int)d.shape.pp, (int)d.shape.pieces,
                     (int)d.point.micro_batches, (long long)peak, (long long)bound);
        assert_true(grid_least_bytes(&layout, &d.shape, &passes, &d.point, true) <= bound);
        nearest = (double)bound / (double)peak > nearest ? (double)bound / (double)peak : nearest;
        drawn++;
    }
    assert_true(nearest > 0.9);
    arena_free(scratch);
}

/* ---- B4 -------------------------------------------------------------------------------------- */

struct asked {
    const char *model, *options, *cluster;
    struct degrees pins;
};
static const struct asked GRIDS[] = {
    {"gpt3-1.3b",
     "layers: 4, seq: 1024, hidden: 512, heads: 8",
     "dgx-v100:1",
     {.tp = 2, .global_batch = 16}},
    {"gpt3-1.3b",
     "layers: 4, seq: 1024, hidden: 512, heads: 8",
     "dgx-v100:1",
     {.tp = 4, .pp = 1, .global_batch = 16}},
    {"gpt3-350m", "layers: 6, seq: 256", "dgx-v100:2x4", {.global_batch = 64, .dp = 2}},
    {"llama3-8b",
     "layers: 4, seq: 512",
     "dgx-a100:2",
     {.tp = 4, .sequence = true, .global_batch = 32}},
    {"llama3-8b", "layers: 3, seq: 512", "dgx-h100:1x4", {.cp = 2, .global_batch = 16}},
    {"mixtral-8x7b", "layers: 2, seq: 256", "dgx-h100:1x4", {.micro_batch = 1, .global_batch = 8}},
    {"t5-770m", "layers: 2, decoder_layers: 2", "dgx-v100:1x4", {.pp = 2, .global_batch = 16}},
    {"gpt3-350m",
     "layers: 8, seq: 256",
     "dgx-a100:1x4",
     {.pp = 4, .schedule = "zb-h1", .global_batch = 16}},
    {"gpt3-350m",
     "layers: 4, seq: 128",
     "dgx-v100:1",
     {.tp = 2, .global_batch = 1024, .micro_batch = 128}},
    {"gpt3-350m", "layers: 4, seq: 256", "dgx-a100:1x2", {.global_batch = 512, .pp = 1}},
};

/* Points of a grid, and digests of the bounds and estimates of all, in order. */
struct recorded {
    int points;
    double times, bytes;
};

static struct recorded record_of(const struct plan_request *request)
{
    struct cost *cost;
    struct grid all;
    struct digest time = {0}, bytes = {0};
    assert_int_equal(cost_open(&request->cluster->node.device, NULL, &cost), WEFT_OK);
    assert_int_equal(grid_estimate_all(request, cost, arena, &all), WEFT_OK);
    for (size_t i = 0; i < all.best.len; i++) {
        digest_number(&time, (double)all.best.data[i].bound_ns);
        digest_number(&time, (double)all.best.data[i].iteration_ns);
        digest_number(&bytes, (double)all.best.data[i].bound_bytes);
        digest_number(&bytes, (double)all.best.data[i].peak_bytes);
    }
    cost_close(cost);
    return (struct recorded){(int)all.best.len, time.sum, bytes.sum};
}

static struct recorded ask(const struct asked *asked)
{
    struct model *model;
    struct cluster *cluster;
    assert_int_equal(model_open(asked->model, asked->options, &model), WEFT_OK);
    assert_int_equal(cluster_open(asked->cluster, &cluster), WEFT_OK);
    struct plan_request request = {.model = model, .cluster = cluster, .pins = asked->pins};
    struct recorded now = record_of(&request);
    cluster_free(cluster);
    model_free(model);
    return now;
}

static void grids_are_as_recorded(void **state)
{
    (void)state;
    static const char FILE_NAME[] = WEFT_SOURCE_DIR "/tests/data/bounds.txt";
    bool records = getenv("WEFT_RECORD") != NULL;
    FILE *file = fopen(FILE_NAME, records ? "w" : "r");
    assert_non_null(file);
    for (size_t i = 0; i < COUNT_OF(GRIDS); i++) {
        static const char LINE[] = "%d points, times %lf, bytes %lf\n";
        struct recorded was;
        if (!records)
            assert_int_equal(fscanf(file, LINE, &was.points, &was.times, &was.bytes), 3);
        if (!is_tried(i))
            continue;
        struct recorded now = ask(&GRIDS[i]);
        printf("%s on %s: %d points, times %.4f, bytes %.4f\n", GRIDS[i].model, GRIDS[i].cluster,
               now.points, now.times, now.bytes);
        if (records) {
            fprintf(file, "%d points, times %.4f, bytes %.4f\n", now.points, now.times, now.bytes);
            continue;
        }
        assert_int_equal(now.points, was.points);
        assert_true(fabs(now.times - was.times) < 50 * NOTICED);
        assert_true(fabs(now.bytes - was.bytes) < 50 * NOTICED);
    }
    assert_int_equal(fclose(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_bounded),
        cmocka_unit_test(bounds_of_equal_stages_are_exact),
        cmocka_unit_test(bytes_are_bounded),
        cmocka_unit_test(grids_are_as_recorded),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}

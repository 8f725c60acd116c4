/* test_train.c - whole runs: the same losses under every plan, on and on from checkpoints, and what
 * ends a run.
 *
 * A run of N steps is compared with one that stops at N / 2, is saved, and goes on under another plan:
 * training.h, I1. The data is a text made by rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "report/report.h"
#include "rounds.h"
#include "run/run.h"

#include "scratch_folder.h"

enum { STEPS = 8, HALF = STEPS / 2, MOST_STEPS = 64 };

/* ---- plans ----------------------------------------------------------------------------------- */

static const struct row {
    const char *name, *cluster;
    struct degrees degrees;
    bool delayed; /* in fp8, with the scales of earlier steps */
} ROWS[] = {
    {"one rank", "dgx-a100:1x1", {.global_batch = 4, .micro_batch = 2}},
    {"dp 2", "dgx-a100:1x2", {.dp = 2, .global_batch = 4}},
    {"dp 2, zero 1", "dgx-a100:1x2", {.dp = 2, .shard = 1, .global_batch = 4}},
    {"dp 2, zero 2", "dgx-a100:1x2", {.dp = 2, .shard = 2, .global_batch = 4}},
    {"dp 2, zero 3", "dgx-a100:1x2", {.dp = 2, .shard = 3, .global_batch = 4}},
    {"tp 2, sp", "dgx-a100:1x2", {.tp = 2, .sequence = true, .global_batch = 4}},
    {"pp 2", "dgx-a100:1x2", {.pp = 2, .global_batch = 4}},
    {"aiao, pp 2, dp 2",
     "dgx-a100:1x4",
     {.pp = 2, .dp = 2, .segments = 2, .shard = 1, .global_batch = 4}},
};
enum { ROW_ONE, ROW_DP, ROW_AIAO = COUNT_OF(ROWS) - 1 };

static struct opened_plan open_row(const struct row *row)
{
    struct opened_plan opened = {0};
    struct degrees degrees = row->degrees;
    degrees.has_shard = true;
    if (model_open(WEFT_SOURCE_DIR "/data/models/gpt-tiny.yaml",
                   "hidden: 32, heads: 2, seq: 16, dropout: 0.1", &opened.model) ||
        cluster_open(row->cluster, &opened.cluster) ||
        plan_from_degrees(opened.model, opened.cluster, &degrees, &opened.plan))
        fail_msg("%s: %s", row->name, weft_last_error()->message);
    if (row->delayed) {
        opened.plan->dtype = DTYPE_FP8;
        opened.plan->policy = policy_for(DTYPE_FP8);
        opened.plan->software.word[FACT_FP8_RECIPE] = RECIPE_DELAYED;
    }
    return opened;
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct told {
    double loss[MOST_STEPS + 1], norm[MOST_STEPS + 1], validation[MOST_STEPS + 1]; /* by step */
    double rate[MOST_STEPS + 1];
    int64_t last, saves;
};

static void listen(void *context, const struct training_news *news)
{
    struct told *told = context;
    const struct log_row *row = &news->row;
    assert_true(row->step <= MOST_STEPS);
    told->loss[row->step] = row->loss;
    told->norm[row->step] = row->grad_norm;
    told->rate[row->step] = row->rate;
    told->validation[row->step] = row->validated ? row->validation_loss : NAN;
    told->last = row->step;
    told->saves += news->saved != NULL;
    assert_true(row->memory_bytes > 0 && row->tokens_per_s > 0 && news->left_s >= 0);
}

static const char *text_file(const struct scratch *scratch)
{
    char text[4000], *at = text;
    struct rng rng;
    rng_seed(&rng, 5);
    while (at < text + sizeof text - 40) {
        const char *who = rng_below(&rng, 2) ? "cat" : "dog";
        at += sprintf(at, "the %s sat on the %s. ", who, rng_below(&rng, 2) ? "mat" : "log");
    }
    return put_file(scratch, "text.txt", text, (size_t)(at - text));
}

static struct training_options common(const struct scratch *scratch, struct told *told)
{
    *told = (struct told){0};
    return (struct training_options){.data = {.path = text_file(scratch)},
                                     .steps = STEPS,
                                     .seed = -1,
                                     .rate = {.peak = 0.01, .warmup = 2, .steps = STEPS},
                                     .optimizer = {OPTIMIZER_ADAMW, .beta1 = 0.9F, .beta2 = 0.99F,
                                                   .epsilon = 1e-8F, .decay = 0.01F,
                                                   .momentum = 0.9F},
                                     .dropout = 0.1F,
                                     .clip = 0.5F,
                                     .checkpoint = {.disk = &REAL_DISK},
                                     .tell = listen,
                                     .context = told};
}

static weft_status run_row(const struct row *row, struct training_options *options,
                           struct training_result *result)
{
    struct opened_plan opened = open_row(row);
    struct arena *keep = arena_new();
    options->plan = opened.plan;
    weft_status status = train_threads(options, keep, result);
    arena_free(keep);
    plan_close(&opened);
    return status;
}

static void must_run(const struct row *row, struct training_options *options)
{
    struct training_result result;
    if (run_row(row, options, &result) != WEFT_OK)
        fail_msg("%s: %s", row->name, weft_last_error()->message);
}

static void assert_near(const char *what, const char *name, int64_t step, double found,
                        double expected)
{
    if (!(fabs(found - expected) <= 1e-5 * fabs(expected)))
        fail_msg("%s, step %lld: %s %.9g, expected %.9g", name, (long long)step, what, found,
                 expected);
}

static void assert_same(const char *name, const struct told *found, const struct told *expected,
                        int64_t from)
{
    assert_int_equal(found->last, expected->last);
    for (int64_t s = from; s <= expected->last; s++) {
        assert_near("loss", name, s, found->loss[s], expected->loss[s]);
        if (isfinite(expected->norm[s]))
            assert_near("norm", name, s, found->norm[s], expected->norm[s]);
    }
}

/* rate.h (1), (2): two steps of warm-up, then from 1 down to 0.2 over eight, and no further. */
static void test_rates_by_hand(void **state)
{
    (void)state;
    static const double WANT[RATE_SHAPE_COUNT][3] = {[RATE_CONSTANT] = {1, 1, 1},
                                                     [RATE_LINEAR] = {0.8, 0.6, 0.2},
                                                     [RATE_COSINE] = {0.8828, 0.6, 0.2}};
    static const int64_t STEP[] = {4, 6, 10};
    for (int shape = 0; shape < RATE_SHAPE_COUNT; shape++) {
        struct rate_schedule rate = {(enum rate_shape)shape, 1, 0.2, 2, 10};
        assert_true(rate_at(&rate, 0) == 0.5 && rate_at(&rate, 1) == 1 && rate_at(&rate, 2) == 1);
        for (size_t i = 0; i < COUNT_OF(STEP); i++)
            assert_true(fabs(rate_at(&rate, STEP[i]) - WANT[shape][i]) < 1e-4);
        assert_true(rate_at(&rate, 99) == rate_at(&rate, 10));
    }
    assert_true(clip_factor(2, 0.5) == 0.25 && clip_factor(0.4, 0.5) == 1 &&
                clip_factor(9, 0) == 1);
}

/* ---- the same under every plan --------------------------------------------------------------- */

/* With clipping, dropout and a rate that changes. */
static void test_plans_agree(void **state)
{
    struct told one, told;
    struct training_options options = common(*state, &one);
    must_run(&ROWS[ROW_ONE], &options);
    assert_true(one.norm[1] > (double)options.clip); /* else nothing was clipped */
    for (int64_t s = 1; s <= one.last; s++)
        assert_true(one.rate[s] == rate_at(&options.rate, s - 1));
    for (size_t i = 1; i < COUNT_OF(ROWS); i++) {
        options = common(*state, &told);
        must_run(&ROWS[i], &options);
        assert_same(ROWS[i].name, &told, &one, 1);
    }
}

/* Without clipping, gradients may be left to the next iteration: with the rate of their own step. */
static void test_deferred_gradients_agree(void **state)
{
    struct told one, told;
    struct training_options options = common(*state, &one);
    options.clip = 0;
    must_run(&ROWS[ROW_ONE], &options);
    options = common(*state, &told);
    options.clip = 0;
    must_run(&ROWS[ROW_AIAO], &options);
    assert_same(ROWS[ROW_AIAO].name, &told, &one, 1);
}

/* Looking does not change what is seen, bit for bit; and all plans see the same. */
static void test_validation(void **state)
{
    struct told blind, seeing, told;
    struct training_options options = common(*state, &blind);
    options.data.validation = 0.2;
    options.clip = 0; /* gradients are left to the next iteration */
    must_run(&ROWS[ROW_AIAO], &options);
    options = common(*state, &seeing);
    options.data.validation = 0.2;
    options.clip = 0;
    options.validate_every = 1;
    must_run(&ROWS[ROW_AIAO], &options);
    for (int s = 1; s <= STEPS; s++) {
        assert_true(seeing.loss[s] == blind.loss[s]);
        assert_true(isfinite(seeing.validation[s]));
        assert_true(isfinite(blind.validation[s]) == (s == STEPS));
    }
    assert_true(seeing.validation[STEPS] < seeing.validation[1]);
    size_t step = rounds_of(100) < 100 ? 3 : 1;
    for (size_t i = 0; i < COUNT_OF(ROWS); i += step) {
        options = common(*state, &told);
        options.data.validation = 0.2;
        options.clip = 0;
        must_run(&ROWS[i], &options);
        assert_near("validation", ROWS[i].name, STEPS, told.validation[STEPS],
                    seeing.validation[STEPS]);
    }
}

/* ---- on and on ------------------------------------------------------------------------------- */

static void run_half(const struct scratch *scratch, const struct row *row, const char *folder,
                     float clip)
{
    struct told told;
    struct training_options options = common(scratch, &told);
    options.steps = HALF;
    options.clip = clip;
    options.checkpoint.folder = folder;
    options.save_every = 1;
    options.checkpoint.keep = 2;
    must_run(row, &options);
    assert_int_equal(told.saves, HALF);
}

static void go_on(const struct scratch *scratch, const struct row *row, const char *folder,
                  float clip, const struct told *whole)
{
    struct told told;
    struct training_options options = common(scratch, &told);
    options.clip = clip;
    options.resume = folder;
    must_run(row, &options);
    assert_true(told.loss[HALF] == 0 && told.loss[HALF + 1] > 0);
    assert_same(row->name, &told, whole, HALF + 1);
}

/* Saved under dp 2, resumed under all; saved under all, resumed on one rank and under dp 2. */
static void test_resumes_under_other_plans(void **state)
{
    struct told whole;
    struct training_options options = common(*state, &whole);
    const char *folder = scratch_path(*state, "saved");
    must_run(&ROWS[ROW_ONE], &options);
    run_half(*state, &ROWS[ROW_DP], folder, 0.5F);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        go_on(*state, &ROWS[i], folder, 0.5F, &whole);
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        folder = scratch_path(*state, ROWS[i].name);
        run_half(*state, &ROWS[i], folder, 0.5F);
        go_on(*state, &ROWS[i % 2 ? ROW_ONE : ROW_DP], folder, 0.5F, &whole);
    }
}

/* What was left to the next iteration is in the checkpoint. */
static void test_resumes_deferred(void **state)
{
    struct told whole;
    struct training_options options = common(*state, &whole);
    const char *folder = scratch_path(*state, "saved");
    options.clip = 0;
    must_run(&ROWS[ROW_ONE], &options);
    run_half(*state, &ROWS[ROW_AIAO], folder, 0);
    go_on(*state, &ROWS[ROW_AIAO], folder, 0, &whole);
    go_on(*state, &ROWS[ROW_ONE], folder, 0, &whole);
}

/* Scales of the steps before are in the checkpoint: the losses are the same bit by bit. Under another plan the first step scales
 * by its own tensors. */
static void test_resumes_scales(void **state)
{
    static const struct row DELAYED = {
        "dp 2, delayed", "dgx-a100:1x2", {.dp = 2, .global_batch = 4}, true};
    struct row other = DELAYED;
    struct told whole, rest;
    struct training_options options = common(*state, &whole);
    const char *folder = scratch_path(*state, "saved");
    must_run(&DELAYED, &options);
    run_half(*state, &DELAYED, folder, 0.5F);
    other.degrees.shard = 1;
    for (int i = 0; i < 2; i++) {
        options = common(*state, &rest);
        options.resume = folder;
        must_run(i ? &other : &DELAYED, &options);
        bool same = memcmp(rest.loss + HALF + 1, whole.loss + HALF + 1,
                           (STEPS - HALF) * sizeof *rest.loss) == 0;
        assert_int_equal(same, i == 0);
    }
}

static void test_keeps_newest(void **state)
{
    struct steps steps;
    struct scratch *scratch = *state;
    const char *folder = scratch_path(scratch, "saved");
    run_half(scratch, &ROWS[ROW_DP], folder, 0.5F);
    assert_ok(checkpoint_steps(scratch->arena, folder, &steps));
    assert_int_equal(steps.len, 2);
    assert_int_equal(steps.data[1], HALF);
}

/* ---- what ends a run ------------------------------------------------------------------------- */

static void test_stops(void **state)
{
    static const volatile sig_atomic_t stop = 1;
    struct told told;
    struct training_result result;
    struct training_options options = common(*state, &told);
    options.stop = &stop;
    options.checkpoint.folder = scratch_path(*state, "saved");
    assert_ok(run_row(&ROWS[ROW_DP], &options, &result));
    assert_true(result.stopped);
    assert_int_equal(result.step, 1);
    assert_int_equal(told.saves, 1);
}

static void test_not_a_number(void **state)
{
    struct told told;
    struct training_result result;
    struct training_options options = common(*state, &told);
    struct steps steps;
    struct scratch *scratch = *state;
    options.rate.peak = 1e30;
    options.clip = 0;
    options.save_every = 1;
    options.checkpoint.folder = scratch_path(*state, "saved");
    assert_int_equal(run_row(&ROWS[ROW_DP], &options, &result), WEFT_NO_ANSWER);
    assert_non_null(strstr(weft_last_error()->message, "is not a number"));
    assert_non_null(strstr(weft_last_error()->hint, "resume from the last checkpoint"));
    assert_ok(checkpoint_steps(scratch->arena, options.checkpoint.folder, &steps));
    assert_int_equal(steps.data[steps.len - 1], told.last);
}

/* A disk that fills up in the third checkpoint: the second one stays. */
struct full_disk {
    int folders;
};

static int count_folder(void *context, const char *path)
{
    struct full_disk *full = context;
    full->folders += strstr(path, ".tmp") != NULL;
    return REAL_DISK.make_folder(REAL_DISK.context, path);
}

static ssize_t write_until_full(void *context, int file, const void *data, size_t bytes)
{
    const struct full_disk *full = context;
    if (full->folders < 3)
        return REAL_DISK.write(REAL_DISK.context, file, data, bytes);
    errno = ENOSPC;
    return -1;
}

static void test_full_disk(void **state)
{
    struct full_disk full = {0};
    struct disk disk = REAL_DISK;
    struct told told;
    struct training_result result;
    struct scratch *scratch = *state;
    struct training_options options = common(scratch, &told);
    struct steps steps;
    struct checkpoint *checkpoint;
    disk.context = &full;
    disk.make_folder = count_folder;
    disk.write = write_until_full;
    options.checkpoint = (struct checkpoint_place){&disk, scratch_path(scratch, "saved"), 0};
    options.save_every = 2;
    assert_int_equal(run_row(&ROWS[ROW_DP], &options, &result), WEFT_FAILURE);
    assert_non_null(strstr(weft_last_error()->message, "No space left"));
    assert_ok(checkpoint_steps(scratch->arena, options.checkpoint.folder, &steps));
    assert_int_equal(steps.len, 2);
    assert_int_equal(steps.data[1], 4);
    assert_ok(checkpoint_open(options.checkpoint.folder, &checkpoint));
    assert_ok(checkpoint_verify(checkpoint));
    checkpoint_close(checkpoint);
}

static int64_t little_space(void *context, const char *folder)
{
    (void)context;
    (void)folder;
    return 1000;
}

/* Not after hours of steps: before the first one. */
static void test_no_space_for_a_checkpoint(void **state)
{
    struct disk disk = REAL_DISK;
    struct told told;
    struct training_result result;
    struct training_options options = common(*state, &told);
    disk.space = little_space;
    options.checkpoint = (struct checkpoint_place){&disk, scratch_path(*state, "saved"), 0};
    assert_int_equal(run_row(&ROWS[ROW_DP], &options, &result), WEFT_FAILURE);
    assert_non_null(strstr(weft_last_error()->message, "has space for 1000 B, expected "));
    assert_non_null(strstr(weft_last_error()->hint, "another disk"));
    assert_int_equal(told.last, 0);
}

static void refuse(const struct scratch *scratch, void (*change)(struct training_options *),
                   const char *words)
{
    struct told told;
    struct training_result result;
    struct training_options options = common(scratch, &told);
    change(&options);
    assert_int_equal(run_row(&ROWS[ROW_DP], &options, &result), WEFT_BAD_INPUT);
    if (!strstr(weft_last_error()->message, words))
        fail_msg("found '%s', expected '%s'", weft_last_error()->message, words);
}

static void without_data(struct training_options *options)
{
    options->data.path = "/nowhere/text.txt";
}

static void with_high_tokens(struct training_options *options)
{
    options->data.tokens.format = TOKENS_UINT16; /* two letters make a number above 255 */
}

static void with_no_checkpoint(struct training_options *options)
{
    options->resume = "/nowhere";
}

static void with_bad_rate(struct training_options *options)
{
    options->rate.least = 1;
}

static void test_refuses(void **state)
{
    refuse(*state, without_data, "cannot be opened");
    refuse(*state, with_high_tokens, "expected 0 to 255");
    refuse(*state, with_no_checkpoint, "/nowhere");
    refuse(*state, with_bad_rate, "");
}

static void test_refuses_to_resume(void **state)
{
    struct told told;
    struct training_result result;
    struct training_options options = common(*state, &told);
    const char *folder = scratch_path(*state, "saved");
    run_half(*state, &ROWS[ROW_DP], folder, 0.5F);
    options.resume = folder;
    options.seed = 7;
    assert_int_equal(run_row(&ROWS[ROW_DP], &options, &result), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "is of a run with seed 1, not 7"));
    options.seed = -1;
    options.optimizer.kind = OPTIMIZER_SGD; /* has less state: may, if that is said */
    assert_int_equal(run_row(&ROWS[ROW_DP], &options, &result), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "of a run with optimizer adamw, not sgd"));
    options.allowed = 1U << CHANGE_OPTIMIZER;
    assert_ok(run_row(&ROWS[ROW_DP], &options, &result));
}

/* One thing after the other is not as it was; each is named, with what lets it pass. */
static void changed_data(struct training_options *options)
{
    options->data.validation = 0.2;
}

static void changed_decay(struct training_options *options)
{
    options->rate.shape = RATE_LINEAR;
}

static void changed_clip(struct training_options *options)
{
    options->clip = 2;
}

static void test_changes_are_refused(void **state)
{
    static const struct {
        void (*change)(struct training_options *);
        unsigned allowed;
        const char *words, *hint;
    } CASES[] = {
        {changed_data, 1U << CHANGE_DATA, "samples for validation 0, not ", "--allow-change data"},
        {changed_decay, 1U << CHANGE_RATE, "decay constant, not linear over ", "change rate"},
        {changed_clip, 1U << CHANGE_OPTIMIZER, "clip 0.5, not 2", "--allow-change optimizer"},
    };
    const char *folder = scratch_path(*state, "saved");
    run_half(*state, &ROWS[ROW_ONE], folder, 0.5F);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct told told;
        struct training_result result;
        struct training_options options = common(*state, &told);
        options.resume = folder;
        options.steps = options.rate.steps = HALF + 1;
        CASES[i].change(&options);
        assert_int_equal(run_row(&ROWS[ROW_ONE], &options, &result), WEFT_BAD_INPUT);
        assert_non_null(strstr(weft_last_error()->message, CASES[i].words));
        assert_non_null(strstr(weft_last_error()->hint, CASES[i].hint));
        options.allowed = CASES[i].allowed;
        assert_ok(run_row(&ROWS[ROW_ONE], &options, &result));
    }
}

/* The same file with one letter changed; the same one elsewhere. */
static void test_other_data_is_refused(void **state)
{
    struct scratch *scratch = *state;
    struct told told;
    struct training_result result;
    struct training_options options = common(scratch, &told);
    char *text;
    size_t len;
    run_half(scratch, &ROWS[ROW_ONE], scratch_path(scratch, "saved"), 0.5F);
    assert_ok(file_read(scratch->arena, options.data.path, 1 << 20, &text, &len));
    options.resume = scratch_path(scratch, "saved");
    options.data.path = put_file(scratch, "moved.txt", text, len);
    options.steps = options.rate.steps = HALF + 1;
    assert_ok(run_row(&ROWS[ROW_ONE], &options, &result));
    text[len / 2] ^= 1;
    put_file(scratch, "moved.txt", text, len);
    assert_int_equal(run_row(&ROWS[ROW_ONE], &options, &result), WEFT_BAD_INPUT);
    assert_non_null(strstr(weft_last_error()->message, "of a run with checksum of data "));
}

/* ---- it learns ------------------------------------------------------------------------------- */

/* 16 letters of which two pairs are random: ln 2 / 8 is what one can know, ln 256 what one begins with. */
static void test_learns(void **state)
{
    struct told told;
    struct training_options options = common(*state, &told);
    options.steps = options.rate.steps = 60;
    options.dropout = 0;
    options.clip = 1;
    must_run(&ROWS[ROW_DP], &options);
    assert_true(told.loss[1] > 5);
    assert_true(told.loss[60] < 2.2);
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Invented times on a real plan: dp 2, every compute task takes 2 us on device 0 and 4 on device 1 in the first of
 * the two steps that count, and twice as long in the other; exchanges begin 1 us apart and end 5 us after the later
 * begin. The median of two is halfway between them: an iteration of 7 us, of 6 and 8. */
static void test_overlay_by_hand(void **state)
{
    struct scratch *scratch = *state;
    struct opened_plan opened = open_row(&ROWS[ROW_DP]);
    struct simulate_options simulation = {.fold = FOLD_NEVER};
    struct prediction *prediction;
    const char *path = scratch_path(scratch, "trace.json");
    ARRAY(struct measured_task) tasks = {0};
    assert_ok(simulate(opened.plan, &simulation, &prediction));
    const struct graph *graph = prediction->graph;
    int64_t compute = 0, exchanges = 0, end_ns = 7000;
    for (int64_t step = 1; step <= 3; step++)
        for (int32_t i = 0; i < graph->tasks; i++) {
            const struct task *task = &graph->task[i];
            int64_t at = 1000000 * step,
                    took = step == 1 ? 900000 : 2000 * (step - 1) * (1 + task->device);
            if (task->exchange < 0) {
                struct measured_task m = {step, i, task->device, at, at + took};
                array_push(scratch->arena, &tasks, m);
                compute += step > 1 ? took : 0;
                continue;
            }
            for (int32_t d = 0; d < 2; d++) {
                struct measured_task m = {step, i, d, at + 1000 * d, at + 6000};
                array_push(scratch->arena, &tasks, m);
            }
            exchanges += step == 2;
        }
    assert_true(compute > 0 && exchanges > 0);
    assert_ok(trace_write_measured(graph, tasks.data, tasks.len, path));
    struct overlay overlay;
    assert_ok(overlay_read(scratch->arena, path, prediction, &overlay));
    assert_int_equal(overlay.steps, 2);
    assert_float_equal(overlay.iteration.measured_s, (double)end_ns * 1e-9, 1e-12);
    assert_float_equal(overlay.stage[0].compute.measured_s, (double)compute * 1e-9 / 4, 1e-12);
    assert_float_equal(overlay.stage[0].waits.measured_s,
                       overlay.iteration.measured_s - overlay.stage[0].compute.measured_s, 1e-12);
    assert_float_equal(overlay.purpose[PURPOSE_DATA].time.measured_s, (double)exchanges * 5e-6 / 2,
                       1e-12);
    assert_int_equal(overlay.purpose[PURPOSE_DATA].tasks, exchanges);
    assert_float_equal(overlay.iteration.predicted_s, (double)prediction->iteration_ns * 1e-9,
                       1e-12);
    double waits_ns = overlay.stage[0].waits.predicted_s * 1e9; /* whole nanoseconds, or none */
    assert_true(waits_ns == 0 || waits_ns > 0.5);
    prediction_free(prediction);
    plan_close(&opened);
}

/* Every task of every step, on every rank that has a part in it; compute tasks once. */
static void test_trace_has_all_tasks(void **state)
{
    struct scratch *scratch = *state;
    for (size_t row = 0; row < COUNT_OF(ROWS); row++) {
        struct told told;
        struct training_options options = common(scratch, &told);
        struct opened_plan opened = open_row(&ROWS[row]);
        struct simulate_options simulation = {.fold = FOLD_NEVER};
        struct prediction *prediction;
        struct overlay overlay;
        options.trace = scratch_path(scratch, "trace.json");
        options.steps = options.rate.steps = 3;
        must_run(&ROWS[row], &options);
        opened.plan->software.word[FACT_CLIPPING] =
            options.clip > 0 ? CLIPPING_NORM : CLIPPING_NONE;
        assert_ok(simulate(opened.plan, &simulation, &prediction));
        assert_ok(overlay_read(scratch->arena, options.trace, prediction, &overlay));
        assert_int_equal(overlay.steps, 2);
        json_t *root = json_load_file(options.trace, 0, NULL), *event;
        int32_t *seen = ARENA_ARRAY(scratch->arena, int32_t, (size_t)prediction->graph->tasks);
        size_t i;
        json_array_foreach(json_object_get(root, "traceEvents"), i, event)
        {
            json_t *task = json_object_get(json_object_get(event, "args"), "task");
            if (task)
                seen[json_integer_value(task)]++;
        }
        for (int32_t t = 0; t < prediction->graph->tasks; t++)
            if (prediction->graph->task[t].exchange < 0)
                assert_int_equal(seen[t], 3);
            else
                assert_true(seen[t] >= 3);
        json_decref(root);
        prediction_free(prediction);
        plan_close(&opened);
    }
}

static void test_overlay_refuses(void **state)
{
    struct scratch *scratch = *state;
    struct opened_plan opened = open_row(&ROWS[ROW_DP]);
    struct simulate_options simulation = {.fold = FOLD_NEVER};
    struct prediction *prediction;
    struct overlay overlay;
    static const struct {
        const char *text, *words;
    } BAD[] = {
        {"{", "is no JSON"},
        {"{}", "has no tasks of a run"},
        {"{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"F9\",\"args\":{\"step\":1,\"task\":0}}]}",
         "is of another plan: task 0 is 'F9'"},
        {"{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"F0\",\"args\":{\"step\":1,\"task\":99999}}]}",
         "is of another plan: task 99999"},
        {"{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"F0\",\"args\":{\"step\":1,\"task\":-1}}]}",
         "is of another plan: task -1"},
    };
    assert_ok(simulate(opened.plan, &simulation, &prediction));
    for (size_t i = 0; i < COUNT_OF(BAD); i++) {
        const char *path = put_file(scratch, "bad.json", BAD[i].text, strlen(BAD[i].text));
        assert_int_equal(overlay_read(scratch->arena, path, prediction, &overlay), WEFT_BAD_INPUT);
        if (!strstr(weft_last_error()->message, BAD[i].words))
            fail_msg("found '%s', expected '%s'", weft_last_error()->message, BAD[i].words);
    }
    assert_int_equal(overlay_read(scratch->arena, "/nowhere", prediction, &overlay),
                     WEFT_BAD_INPUT);
    prediction_free(prediction);
    plan_close(&opened);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_by_hand),
        TEST(test_plans_agree),
        TEST(test_deferred_gradients_agree),
        TEST(test_validation),
        TEST(test_resumes_under_other_plans),
        TEST(test_resumes_deferred),
        TEST(test_resumes_scales),
        TEST(test_keeps_newest),
        TEST(test_stops),
        TEST(test_not_a_number),
        TEST(test_full_disk),
        TEST(test_no_space_for_a_checkpoint),
        TEST(test_refuses),
        TEST(test_refuses_to_resume),
        TEST(test_changes_are_refused),
        TEST(test_other_data_is_refused),
        TEST(test_learns),
        TEST(test_overlay_by_hand),
        TEST(test_trace_has_all_tasks),
        TEST(test_overlay_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

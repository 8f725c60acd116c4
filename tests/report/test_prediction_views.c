/* test_prediction_views.c - what people, programs and trace viewers are shown of a prediction.
 *
 * Two stages, 1f1b, two micro-batches; forward 10, backward 20, send 1, all-reduce 6, optimizer 3:
 *
 *   stage 0   F0 0-10  F1 10-20             B0 42-62          B1 72-92  all-reduce 92-98  O 98-101
 *   stage 1   F0 11-21  B0 21-41  F1 41-51  B1 51-71  all-reduce 71-77  O 77-80
 *
 * Each backward pass of stage 0 waits for stage 1's and for a send of 1: the iteration takes 101.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "page_width.h"
#include "report/report.h"
#include "fake_prediction.h"

enum { MS = 1000000 };
static const int64_t GIB = 1LL << 30;

static struct fake *two_stages(int64_t limit)
{
    return fake_new("gpt3-1.3b", "dgx-v100", 2, 2, MS, limit);
}

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no '%s' in\n%s", part, text);
}

static void expect_not_in(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("'%s' in\n%s", part, text);
}

enum view { VIEW_ALL, VIEW_TIMELINE };
static char *view(const struct fake *fake, enum view what, int columns)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (what == VIEW_ALL)
        prediction_print(fake->arena, &fake->prediction, out);
    else
        timeline_print(fake->arena, &fake->prediction, columns, out);
    fclose(out);
    return text;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void the_answer_comes_first(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    assert_int_equal(fake->prediction.iteration_ns, 101 * MS);
    char *text = view(fake, VIEW_ALL, 0);
    /* 2 * 4 * 2 samples in 101 ms are 158; 2048 positions each */
    expect_in(text, "iteration   101 ms: 158 samples/s, 324 K tokens/s\n"
                    "each device 50.0 TFLOP/s, 40.0 % of the peak of 125.0 TFLOP/s (");
    expect_in(text, "memory      fits: stage 0 is fullest, 12.5 of 32.0 GiB: reserved 12.5\n");
    expect_in(text, "critical path: 9 forward passes of stage 0, then all of stage 1\n");
    expect_in(text, "  71.2 %  measured      Aceso V100\n");
    expect_in(text, "   8.8 %  formula       roofline\n");
    expect_in(text, "16 tasks, 16 events; folded: one device stands for its stage\n");
    expect_not_in(text, "compiled in");
    assert_string_equal(show_seconds(87.4642e9).s, "87.5 s");
    assert_string_equal(show_seconds(9.5e9).s, "9.50 s");
    assert_string_equal(wall_clock_text(fake->arena, &fake->prediction),
                        "compiled in 250 ms, simulated in 500 ms");
    free(text);
    fake_free(fake);
}

static void stages_have_bars(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    char *text = view(fake, VIEW_ALL, 0);
    /* 63 and 6 of 101 in 30 columns: 18.7 and 20.5 */
    expect_in(text,
              "    0      0-3  63.0 ms        6.00 ms  32.0 ms  ███████████████████▒··········\n");
    expect_in(text, "stage 0 waits 32 % of the time for gradients from stage 1\n"
                    "stage 1 waits 32 % of the time for activations\n");
    free(text);
    fake->prediction.stage[1].waits_most_ns *= 2; /* the longest wait comes first */
    text = view(fake, VIEW_ALL, 0);
    expect_in(text, "stage 1 waits 63 % of the time for activations\n"
                    "stage 0 waits 32 % of the time for gradients from stage 1\n");
    /* up to 2, 3, 9, 11, 12, 12.5 of 32 GiB in 12 columns: 0.75, 1.1, 3.4, 4.1, 4.5, 4.7 */
    expect_in(text, "    0  2.00 GiB   1.00 GiB   6.00 GiB     2.00 GiB   1.00 GiB  12.0 GiB  "
                    "12.5 GiB  █▒▒░-·······\n");
    expect_in(text, "\nstage 0 is fullest 15.0 ms into the iteration, in F1:\n");
    expect_in(text, "layers.0-11.mlp.up output, 2 micro-batches  activations  1.00 GiB   8.3 %\n"
                    "everything else                                          3.00 GiB  25.0 %\n");
    free(text);
    fake_free(fake);
}

/* Thirds: 33.3 + 33.3 + 33.4, and the seconds likewise. */
static void a_breakdown_adds_up(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    int64_t *time = fake->prediction.stage[0].time_ns;
    fake->prediction.iteration_ns = 1000000001;
    memset(time, 0, sizeof fake->prediction.stage[0].time_ns);
    time[PURPOSE_FORWARD] = time[PURPOSE_BACKWARD] = 333333333;
    time[PURPOSE_TENSOR] = 333333335;
    char *text = view(fake, VIEW_ALL, 0);
    expect_in(text, "stage 0, which waits least");
    expect_in(text, "forward                     0.3333 s   33.3 %  █████████████\n");
    expect_in(text, "backward                    0.3334 s   33.4 %  █████████████\n");
    expect_in(text, "tp_comm                     0.3333 s   33.3 %  █████████████\n");
    expect_in(text, "iteration                   1.0000 s  100.0 %\n");
    expect_not_in(text, "offload ");
    free(text);
    fake_free(fake);
}

static void too_little_memory_names_the_stage_and_means(void **state)
{
    (void)state;
    struct fake *fake = two_stages(23 * GIB / 2);
    char *text = view(fake, VIEW_ALL, 0);
    expect_in(
        text,
        "memory      does not fit: stage 0 needs 12.5 of 11.5 GiB: reserved 12.5; 1.00 GiB too "
        "much\n");
    expect_in(text, "12.5 GiB  ██▓▒▒▒▒▒▒░░+ !\n");
    expect_not_in(text, "\nwarning ");
    assert_int_equal(must_fit(fake->arena, &fake->prediction), WEFT_NO_ANSWER);
    assert_string_equal(weft_last_error()->message,
                        "the plan does not fit in memory: stage 0 needs 12.5 of 11.5 GiB: reserved "
                        "12.5; 1.00 GiB too much");
    assert_string_equal(
        weft_last_error()->hint,
        "it is mostly optimizer memory; what helps: sharded optimizer state (--zero 1), "
        "sharded weights (--zero 3), recompute more (--recompute full), more stages "
        "or tensor parallelism (--pp, --tp)");
    free(text);
    fake->prediction.fits = true;
    assert_int_equal(must_fit(fake->arena, &fake->prediction), WEFT_OK);
    fake_free(fake);
}

/* 12 GiB are allocated, 12.5 GiB reserved: with a context of 1 GiB, communicators of 0.25 and a margin of 0.5
 * that is 14.25 GiB. Terms are rounded so that they add up to 14.3: 12.5, 1.0, then 13.75 is 13.8 and leaves
 * 0.3, then 14.25 is 14.3 and leaves 0.5. */
static void there_is_one_verdict_with_its_arithmetic(void **state)
{
    (void)state;
    struct fake *fake = two_stages(14 * GIB);
    struct stage_peak *memory = &fake->prediction.stage[0].memory;
    memory->context = GIB;
    memory->communicators = GIB / 4;
    memory->margin = GIB / 2;
    fake->prediction.fits = false;
    char *text = view(fake, VIEW_ALL, 0);
    expect_in(
        text,
        "memory      does not fit: stage 0 needs 14.3 of 14.0 GiB: reserved 12.5, context 1.0, "
        "communicators\n            0.3, margin 0.5; 256 MiB too much\n");
    expect_not_in(text, "warning");
    assert_int_equal(must_fit(fake->arena, &fake->prediction), WEFT_NO_ANSWER);
    free(text);
    memory->limit = 16 * GIB;
    fake->prediction.fits = true;
    text = view(fake, VIEW_ALL, 0);
    expect_in(text, "fits: stage 0 is fullest, 14.3 of 16.0 GiB: reserved 12.5, ");
    free(text);
    fake_free(fake);
}

static void folding_of_unlike_devices_is_said(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    fake->prediction.folded_unalike = true;
    char *text = view(fake, VIEW_ALL, 0);
    expect_in(text, "16 events; folded: one device stands for its stage\n"
                    "devices of a stage are not alike here and too many to simulate each: ");
    free(text);
    fake_free(fake);
}

static void many_stages_are_folded(void **state)
{
    (void)state;
    struct fake *fake = fake_new("gpt3-175b", "dgx-a100:8", 64, 128, MS, 80 * GIB);
    char *text = view(fake, VIEW_ALL, 0);
    assert_true(lines_within_page(text) < 70);
    expect_in(text, " 0-63     0-63   3.84 s");
    expect_in(text, "\n 0-56  2.00 GiB   1.00 GiB   6.00 GiB     8.00 GiB ");
    expect_in(text, "\n   57  2.00 GiB   1.00 GiB   6.00 GiB     7.00 GiB ");
    expect_in(text, "neighbours within 0.5 % of each other are one row\n");
    free(text);
    fake_free(fake);
}

/* No two neighbours are alike: of 64 the first four, the fullest and the last four. */
static void unlike_stages_are_cut(void **state)
{
    (void)state;
    struct fake *fake = fake_new("gpt3-175b", "dgx-a100:8", 64, 2, MS, 80 * GIB);
    for (int32_t s = 0; s < 64; s++)
        fake->prediction.stage[s].memory.bytes[MEMORY_ACTIVATIONS] += s % 2 * 3 * GIB;
    fake->prediction.stage[31].memory.reserved = 70 * GIB;
    char *text = view(fake, VIEW_ALL, 0);
    expect_in(text, "\n    3 ");
    expect_in(text, "\n    …\n   31 ");
    expect_in(text, "\n    …\n   60 ");
    expect_in(text, "… stages left out; --json has them all\n");
    expect_in(text, "fits: stage 31 is fullest, 70.0 of 80.0 GiB: reserved 70.0");
    free(text);
    fake_free(fake);
}

/* ---- timeline -------------------------------------------------------------------------------- */

/* 101 columns after "stage 0  ": one for each millisecond. */
static void a_timeline_samples_the_middle_of_columns(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    char *text = view(fake, VIEW_TIMELINE, 9 + 101);
    expect_in(text, "all of one iteration, 1.00 ms in each column:\n\n");
    expect_in(text,
              "stage 0  F0--------F1--------~.....................B0------------------.........."
              "B1------------------~~~~~~O--\n");
    expect_in(text,
              "stage 1  ...........F0--------B0------------------F1--------B1------------------"
              "~~~~~~O--.....................\n");
    free(text);
    /* a third of the columns: F1 of stage 1, 41-51, has the middles of 14, 15 and 16 */
    text = view(fake, VIEW_TIMELINE, 9 + 34);
    expect_in(text, "stage 1  ....F0-B0-----F1-B1-----~~O.......\n");
    free(text);
    text = view(fake, VIEW_TIMELINE, 9 + 10);
    expect_in(text, "stage 0  FF..B0.B1~\n");
    free(text);
    fake_free(fake);
}

/* 16 slots want 64 columns of the 41: 20 at either end. Each further micro-batch takes 30 and a send,
 * the iteration 101 + 6 * 31 = 287, a column 287 / 64 = 4.48. Of stage 1, F1 at 41-51 has the
 * middles of columns 9 (42.6) and 10 (47.1), F2 at 73-83 those of 16 (74.0) to 18 (83.0). The last
 * two columns (280.3, 284.8) are stage 0's all-reduce, 278-284, and optimizer. */
static void a_long_timeline_shows_both_ends(void **state)
{
    (void)state;
    struct fake *fake = fake_new("gpt3-1.3b", "dgx-v100", 2, 8, MS, 32 * GIB);
    assert_int_equal(fake->prediction.iteration_ns, 287 * MS);
    char *text = view(fake, VIEW_TIMELINE, 9 + 41);
    expect_in(text, "beginning and end of one iteration, 4.48 ms in each column:\n\n");
    expect_in(text, "\nstage 1  ..F0-B0--F1B1---F2-B…");
    expect_in(text, "~O\nstage 1 ");
    free(text);
    fake_free(fake);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value))
        fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static double sum_of(const json_t *object)
{
    double sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        sum += json_number_value(value);
    }
    return sum;
}

static void near(double a, double b)
{
    if (a - b > 1e-12 || b - a > 1e-12)
        fail_msg("%.15g is not %.15g", a, b);
}

static void json_adds_up(void **state)
{
    (void)state;
    struct fake *fake = two_stages(11 * GIB);
    json_t *json = prediction_json(&fake->prediction);
    static const char *const FIELDS[] = {"forward", "backward",  "recompute", "bubble",
                                         "tp_comm", "ep_comm",   "cp_comm",   "dp_comm",
                                         "pp_comm", "optimizer", "offload"};
    const json_t *breakdown = json_object_get(json, "breakdown");
    assert_int_equal(json_object_size(breakdown), COUNT_OF(FIELDS));
    for (size_t i = 0; i < COUNT_OF(FIELDS); i++)
        number(breakdown, FIELDS[i]);
    near(number(json, "iteration_s"), 0.101);
    near(sum_of(breakdown), 0.101);
    near(number(json, "tflops_per_device"), 50);
    near(number(json, "share_of_peak"), 0.4);
    near(number(json, "samples_per_s"), 16 / 0.101);
    near(number(json, "tokens_per_s") / 2048, 16 / 0.101);
    near(number(json, "wall_s"), 0.75);
    assert_int_equal(number(json, "events"), 16);
    assert_true(json_is_false(json_object_get(json, "fits")));
    assert_true(json_is_true(json_object_get(json, "folded")));
    assert_int_equal(number(json, "micro_batches"), 2);
    assert_int_equal(number(json, "global_batch"), 16);
    const json_t *stages = json_object_get(json, "stages"), *list = json_object_get(json, "memory");
    for (size_t i = 0; i < 2; i++) {
        const json_t *memory = json_array_get(list, i);
        near(sum_of(json_object_get(json_array_get(stages, i), "time")), 0.101);
        near(number(memory, "weights") + number(memory, "gradients") + number(memory, "optimizer") +
                 number(memory, "activations") + number(memory, "workspace"),
             number(memory, "peak"));
        near(number(memory, "limit"), 11 * 0x1p30);
        assert_int_equal(number(memory, "stage"), i);
    }
    const json_t *held = json_array_get(json_object_get(json, "peak_holdings"), 0);
    assert_string_equal(json_string_value(json_object_get(held, "class")), "optimizer");
    json_decref(json);
    fake_free(fake);
}

/* ---- the trace ------------------------------------------------------------------------------- */

static const char *trace_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/weft-trace-%ld.json", (long)getpid());
    return path;
}

static json_t *trace_of(const struct fake *fake, int64_t events)
{
    struct trace_options options = {events};
    assert_int_equal(trace_write(&fake->prediction, &options, trace_path()), WEFT_OK);
    json_error_t error;
    json_t *json = json_load_file(trace_path(), JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("line %d: %s", error.line, error.text);
    unlink(trace_path());
    return json;
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? text : "";
}

static int64_t ns_of(const json_t *event, const char *key)
{
    return (int64_t)(number(event, key) * 1000 + 0.5);
}

/* Slices of one track as the viewer stacks them; they come with the outer one first. */
struct track {
    int64_t ends[8];
    int depth;
    int64_t outermost_ns;
};

static void stack(struct track *track, const json_t *event)
{
    int64_t start = ns_of(event, "ts"), end = start + ns_of(event, "dur");
    while (track->depth > 0 && track->ends[track->depth - 1] <= start)
        track->depth--;
    if (track->depth > 0)
        assert_true(end <= track->ends[track->depth - 1]); /* nested, or it overlaps */
    else
        track->outermost_ns += end - start;
    assert_true(track->depth < (int)COUNT_OF(track->ends));
    track->ends[track->depth++] = end;
}

enum { TRACE_TRACKS = STREAM_COUNT + 1, STEPS = 1 };
static void trace_tracks_are_the_streams(void **state)
{
    (void)state;
    struct fake *fake = fake_new("gpt3-1.3b", "dgx-v100", 4, 6, 12345, 32 * GIB);
    const struct engine_result *result = &fake->prediction.result;
    for (int32_t i = 0; i < fake->graph.tasks; i++) /* the last backward pass is disturbed */
        if (result->end_ns[i] == result->start_ns[fake->reduce[0]] &&
            fake->graph.task[i].block == 1)
            result->end_ns[i] += 1, result->busy_ns[0] += 1;
    json_t *json = trace_of(fake, 0);
    const json_t *events = json_object_get(json, "traceEvents");
    struct track track[4][TRACE_TRACKS] = {0};
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") == 0) /* a stage has two devices */
            stack(&track[(int)number(event, "pid") / 2][(int)number(event, "tid")], event);
    }
    for (int s = 0; s < 4; s++)
        for (int stream = 0; stream < STREAM_COUNT; stream++)
            assert_int_equal(track[s][stream ? stream + 1 : 0].outermost_ns,
                             result->busy_ns[s * STREAM_COUNT + stream]);
    assert_int_equal(track[1][STEPS].outermost_ns, 6 * (2 + 4) * 12345);
    json_decref(json);
    fake_free(fake);
}

static const json_t *find_event(const json_t *events, const char *kind, const char *name, int nth)
{
    size_t i;
    json_t *event;
    json_array_foreach((json_t *)(uintptr_t)events, i, event)
    {
        if (strcmp(text_of(event, "ph"), kind) == 0 && strcmp(text_of(event, "name"), name) == 0 &&
            nth-- == 0)
            return event;
    }
    return NULL;
}

static void a_trace_says_what_happens(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    json_t *json = trace_of(fake, 0);
    const json_t *events = json_object_get(json, "traceEvents");
    const json_t *name = find_event(events, "M", "process_name", 1);
    assert_string_equal(text_of(json_object_get(name, "args"), "name"),
                        "stage 1, device 4 for 4-7");
    /* F1 of stage 0, 10-20 ms: operator 4, step 2, operator 4, a third one in no time */
    const json_t *slice = find_event(events, "X", "F1", 0);
    assert_int_equal(ns_of(slice, "ts"), 10 * MS);
    assert_int_equal(number(json_object_get(slice, "args"), "micro_batch"), 1);
    assert_string_equal(text_of(slice, "cat"), "forward");
    assert_string_equal(text_of(json_object_get(slice, "args"), "from"), "embedding");
    const json_t *item = find_event(events, "X", "embedding", 1);
    assert_int_equal(ns_of(item, "ts"), 10 * MS);
    assert_int_equal(ns_of(item, "dur"), 4 * MS);
    const json_t *step = find_event(events, "X", "all_reduce", 1);
    assert_int_equal(ns_of(step, "ts"), 14 * MS);
    assert_int_equal(number(step, "tid"), STEPS);
    assert_int_equal(number(json_object_get(step, "args"), "bytes"), 1 << 20);
    /* two sends each way */
    for (int i = 0; i < 4; i++) {
        const json_t *from = find_event(events, "s", "send", i);
        const json_t *to = find_event(events, "f", "send", i);
        assert_int_equal(number(from, "id"), number(to, "id"));
        assert_true(number(from, "pid") != number(to, "pid") &&
                    number(from, "ts") < number(to, "ts"));
    }
    assert_null(find_event(events, "s", "send", 4));
    const json_t *counter = find_event(events, "C", "memory", 1);
    assert_true(number(json_object_get(counter, "args"), "activations") == 0x1p30);
    json_decref(json);
    fake_free(fake);
}

static size_t slices(const json_t *json)
{
    const json_t *events = json_object_get(json, "traceEvents");
    size_t i, count = 0;
    json_t *event;
    json_array_foreach((json_t *)(uintptr_t)events, i, event)
    {
        count += strcmp(text_of(event, "ph"), "X") == 0;
    }
    return count;
}

/* 16 tasks; 8 of them runs of 4 items, 4 of which have an item that takes no time. */
static void a_limit_leaves_out_operators(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    json_t *all = trace_of(fake, 48), *tasks = trace_of(fake, 47);
    assert_int_equal(slices(all), 16 + 8 * 4 - 4);
    assert_int_equal(slices(tasks), 16);
    assert_string_equal(text_of(json_object_get(tasks, "otherData"), "shown"),
                        "one device of each stage, without operators");
    json_decref(all);
    json_decref(tasks);
    fake_free(fake);
}

static void a_trace_replaces_a_file_or_leaves_it(void **state)
{
    (void)state;
    struct fake *fake = two_stages(32 * GIB);
    struct stat info;
    assert_int_equal(trace_write(&fake->prediction, NULL, "/nowhere/trace.json"), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "/nowhere/trace.json: cannot be written: No such file or directory");
    assert_int_equal(trace_write(&fake->prediction, NULL, "/tmp"), WEFT_BAD_INPUT);
    assert_int_equal(trace_write(&fake->prediction, NULL, "/dev/full"), WEFT_FAILURE);
    assert_int_equal(trace_write(&fake->prediction, NULL, "/dev/null"), WEFT_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    mode_t mask = umask(022);
    assert_int_equal(trace_write(&fake->prediction, NULL, trace_path()), WEFT_OK);
    umask(mask);
    assert_int_equal(stat(trace_path(), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
    unlink(trace_path());
    fake_free(fake);
}

/* Neighbours that differ by a byte are one row, unless one fits and the other does not; exactly full fits. */
static void full_stages_are_marked(void **state)
{
    (void)state;
    struct fake *fake = fake_new("gpt3-175b", "dgx-a100:8", 64, 2, MS, 80 * GIB);
    for (int32_t s = 0; s < 64; s++)
        fake->prediction.stage[s].memory.reserved =
            fake->prediction.stage[s].memory.limit + (s == 40);
    char *text = view(fake, VIEW_ALL, 0);
    expect_in(text, "\n 0-39 ");
    expect_in(text, "\n   40 ");
    int marks = 0;
    for (const char *at = text; (at = strstr(at, " !\n")) != NULL; at++)
        marks++;
    assert_int_equal(marks, 1);
    free(text);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_comes_first),
        cmocka_unit_test(stages_have_bars),
        cmocka_unit_test(a_breakdown_adds_up),
        cmocka_unit_test(too_little_memory_names_the_stage_and_means),
        cmocka_unit_test(there_is_one_verdict_with_its_arithmetic),
        cmocka_unit_test(folding_of_unlike_devices_is_said),
        cmocka_unit_test(many_stages_are_folded),
        cmocka_unit_test(unlike_stages_are_cut),
        cmocka_unit_test(a_timeline_samples_the_middle_of_columns),
        cmocka_unit_test(a_long_timeline_shows_both_ends),
        cmocka_unit_test(json_adds_up),
        cmocka_unit_test(trace_tracks_are_the_streams),
        cmocka_unit_test(a_trace_says_what_happens),
        cmocka_unit_test(a_limit_leaves_out_operators),
        cmocka_unit_test(a_trace_replaces_a_file_or_leaves_it),
        cmocka_unit_test(full_stages_are_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* prediction_timeline.c - draws a prediction with characters, one line per stage.
 *
 * With N columns for an iteration of T, column c of a window that begins at the moment f shows what
 * happens in the middle of the column,
 *
 *   t_c = f + (2 c + 1) T / (2 N)                                                              (1)
 *
 * so that a task [a, b) takes the columns from ceil(N (a - f) / T - 1/2) to before
 * ceil(N (b - f) / T - 1/2). N is the width W if a slot then has SLOT_COLUMNS columns. Otherwise N is
 * so large that a slot has this many, or, for a deep pipeline, that W / 2 columns show how it fills;
 * then only the beginning and the end are drawn, with an ellipsis for the steady state between them.
 *
 *   I1  A slot begins with its label, or with only the letter if it has too few columns.
 *   I2  Communication is visible only where nothing computes.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"

enum { MOST_LINES = 64, SLOT_COLUMNS = 4 };
enum { IDLE = '.', COMMUNICATION = '~', GOES_ON = '-' };

struct drawn_window {
    int64_t from_ns; /* f of (1) */
    size_t columns;
    char *lines; /* `columns` characters per stage */
    struct drawn {
        int32_t block, micro_batch;
        size_t from;
    } *drawn; /* per stage: the slot that was drawn last, and the column in which it begins */
};

struct picture {
    const struct prediction *prediction;
    struct pipeline pipeline;
    int64_t columns; /* N of (1) */
    int32_t *device; /* per stage: its first device in the graph */
    struct drawn_window window[2];
    int windows;
};

/* ---- columns --------------------------------------------------------------------------------- */

/* The column of a moment by (1), limited to the window. */
static size_t column_of(const struct picture *picture, const struct drawn_window *window,
                        int64_t at_ns)
{
    double whole = (double)picture->prediction->result.end;
    double column =
        ceil((double)(at_ns - window->from_ns) / whole * (double)picture->columns - 0.5);
    if (column <= 0)
        return 0;
    return column < (double)window->columns ? (size_t)column : window->columns;
}

static struct drawn_window window_new(struct arena *keep, const struct picture *picture,
                                      size_t columns, int64_t from_ns)
{
    size_t stages = (size_t)picture->pipeline.stages;
    struct drawn_window window = {from_ns, columns, ARENA_ARRAY(keep, char, stages *columns),
                                  ARENA_ARRAY(keep, struct drawn, stages)};
    memset(window.lines, IDLE, stages * columns);
    for (size_t s = 0; s < stages; s++)
        window.drawn[s] = (struct drawn){-2, -2, 0};
    return window;
}

/* One window for the whole iteration, or two for its beginning and its end. */
static void open_windows(struct arena *keep, struct picture *picture, size_t width)
{
    const struct pipeline *pipeline = &picture->pipeline;
    int64_t slots = 2 * (int64_t)pipeline->micro_batches * pipeline->pieces;
    int64_t half = ((int64_t)width - 1) / 2, whole = picture->prediction->result.end;
    int64_t filling = slots * half / pipeline->stages;
    int64_t wanted = SLOT_COLUMNS * slots < filling ? SLOT_COLUMNS * slots : filling;
    if (wanted <= (int64_t)width) {
        picture->columns = (int64_t)width;
        picture->windows = 1;
        picture->window[0] = window_new(keep, picture, width, 0);
        return;
    }
    int64_t end = whole - (int64_t)((double)whole * (double)half / (double)wanted);
    picture->columns = wanted;
    picture->windows = 2;
    picture->window[0] = window_new(keep, picture, (size_t)half, 0);
    picture->window[1] = window_new(keep, picture, (size_t)half, end);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static struct text32 label_of(const struct picture *picture, const struct task *task)
{
    if (task->block < 0)
        return (struct text32){"O"};
    const struct block *block = &picture->prediction->graph->block[task->block];
    struct slot slot = {block->kind, block->part / picture->pipeline.stages, task->micro_batch};
    return slot_label(slot, &picture->pipeline);
}

/* How many columns from `from` on, before `to`, are without a gap. */
static size_t unbroken(const char *line, size_t from, size_t to)
{
    size_t at = from;
    while (at < to && line[at] != IDLE && line[at] != COMMUNICATION)
        at++;
    return at - from;
}

/* By I1. A slot of several tasks has one label, which is written again when more of it fits. */
static void draw_computation(const struct picture *picture, struct drawn_window *window,
                             const struct task *task, int32_t stage, size_t from, size_t to)
{
    struct drawn *drawn = &window->drawn[stage];
    char *line = window->lines + (size_t)stage * window->columns;
    struct text32 label = label_of(picture, task);
    size_t len = strlen(label.s);
    memset(line + from, GOES_ON, to - from);
    if (drawn->block != task->block || drawn->micro_batch != task->micro_batch)
        *drawn = (struct drawn){task->block, task->micro_batch, from};
    memcpy(line + drawn->from, label.s, len <= unbroken(line, drawn->from, to) ? len : 1);
}

/* By I2. */
static void draw_communication(struct drawn_window *window, int32_t stage, size_t from, size_t to)
{
    char *line = window->lines + (size_t)stage * window->columns;
    for (size_t c = from; c < to; c++)
        if (line[c] == IDLE)
            line[c] = COMMUNICATION;
}

static void draw(const struct picture *picture, struct drawn_window *window)
{
    const struct graph *graph = picture->prediction->graph;
    const struct engine_result *result = &picture->prediction->result;
    for (int32_t i = 0; i < graph->tasks; i++) {
        const struct task *task = &graph->task[i];
        int32_t stage = graph->device[task->device].stage;
        size_t from = column_of(picture, window, result->start_ns[i]);
        size_t to = column_of(picture, window, result->end_ns[i]);
        if (picture->device[stage] != task->device || from >= to)
            continue;
        if (task->stream == STREAM_COMPUTE && task->exchange < 0)
            draw_computation(picture, window, task, stage, from, to);
        else
            draw_communication(window, stage, from, to);
    }
}

static int32_t *first_devices(struct arena *keep, const struct graph *graph, int32_t stages)
{
    int32_t *device = ARENA_ARRAY(keep, int32_t, (size_t)stages);
    for (int32_t d = graph->devices - 1; d >= 0; d--)
        device[graph->device[d].stage] = d;
    return device;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_line(const struct picture *picture, int32_t stage, int digits, FILE *out)
{
    fprintf(out, "stage %*d  ", digits, stage);
    for (int w = 0; w < picture->windows; w++) {
        const struct drawn_window *window = &picture->window[w];
        fprintf(out, "%s%.*s", w ? "…" : "", (int)window->columns,
                window->lines + (size_t)stage * window->columns);
    }
    fputc('\n', out);
}

static void print_lines(const struct picture *picture, int digits, FILE *out)
{
    int32_t stages = picture->pipeline.stages;
    for (int32_t s = 0; s < stages; s++) {
        if (stages <= MOST_LINES || s < MOST_LINES / 2 || s >= stages - MOST_LINES / 2)
            print_line(picture, s, digits, out);
        else if (s == MOST_LINES / 2)
            fprintf(out, "… %d more\n", stages - MOST_LINES);
    }
    fputs("F forward  B backward (I input, W weight gradients)  O optimizer  ~ only communication  "
          ". idle\n",
          out);
}

void timeline_print(struct arena *scratch, const struct prediction *prediction, int columns,
                    FILE *out)
{
    const struct plan *plan = prediction->plan;
    int digits = snprintf(NULL, 0, "%d", plan->stages - 1);
    int prefix = (int)strlen("stage ") + digits + 2;
    struct picture picture = {.prediction = prediction,
                              .pipeline = plan_pipeline(prediction->graph->plan),
                              .device = first_devices(scratch, prediction->graph, plan->stages)};
    open_windows(scratch, &picture, columns > prefix ? (size_t)(columns - prefix) : 1);
    for (int w = 0; w < picture.windows; w++)
        draw(&picture, &picture.window[w]);
    fprintf(out, "%s of %s, %s in each column:\n\n",
            picture.windows == 1 ? "all" : "beginning and end",
            prediction->graph->plan == plan ? "one iteration" : "a shorter iteration",
            show_duration((double)prediction->result.end / (double)picture.columns).s);
    print_lines(&picture, digits, out);
}

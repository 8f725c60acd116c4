/* schedule_picture.h - a schedule as a picture of text, as docs/reference/schedules.md has one of each.
 *
 * A cell is as wide as the longest label and a space; slot i of a stage begins in column
 *   prefix + start_i * cell                                                                     (1)
 * when a forward takes 1, a backward 2, its input and its weight gradients 1 each.
 *
 *   I1  No line is wider than what the caller gave, in terminal columns; a line that would be ends
 *       in an ellipsis.
 */
#ifndef SCHEDULE_PICTURE_H
#define SCHEDULE_PICTURE_H

#include <stdio.h>
#include <string.h>

#include "schedule/play.h"

struct picture {
    const struct pipeline *pipeline;
    size_t cell, cells; /* columns of a cell, cells of an iteration */
    size_t room;        /* columns after the prefix */
    char *line;         /* that many, and an ellipsis */
};

static const char ELLIPSIS[] = "…";

static weft_status play_in_cells(struct arena *keep, const struct schedule *schedule,
                                 const struct pipeline *pipeline, struct played *out)
{
    weft_status status =
        schedule_check(schedule, pipeline); /* before anything is as large as it says */
    if (status != WEFT_OK)
        return status;
    size_t parts = (size_t)pipeline->stages * (size_t)pipeline->pieces;
    int64_t *forward = ARENA_ARRAY(keep, int64_t, parts);
    int64_t *backward = ARENA_ARRAY(keep, int64_t, parts);
    for (size_t i = 0; i < parts; i++) {
        forward[i] = 1;
        backward[i] = 2;
    }
    struct pipeline_times times = {.forward_ns = forward, .backward_ns = backward};
    return play(keep, schedule, pipeline, &times, out);
}

/* Writes `text` at a column and fills up to another, as far as there is room (I1). */
static void put(struct picture *picture, size_t from, size_t to, const char *text)
{
    size_t len = strlen(text);
    for (size_t at = from; at < to && at < picture->room; at++)
        picture->line[at] = '-';
    for (size_t at = from; at < from + len && at < picture->room; at++)
        picture->line[at] = text[at - from];
}

/* Ends the line where its picture does, or in an ellipsis. */
static void cut(struct picture *picture)
{
    size_t len = picture->cells * picture->cell;
    if (len - 1 > picture->room) {
        memcpy(&picture->line[picture->room - 1], ELLIPSIS, sizeof ELLIPSIS);
        return;
    }
    len = len < picture->room ? len : picture->room;
    while (len > 0 && picture->line[len - 1] == ' ')
        len--;
    picture->line[len] = '\0';
}

static void draw_line(struct picture *picture, const struct played_stage *stage)
{
    memset(picture->line, ' ', picture->room);
    for (size_t i = 0; i < picture->cells && i * picture->cell < picture->room; i++)
        put(picture, i * picture->cell, i * picture->cell, ".");
    for (size_t i = 0; i < stage->slots.len; i++)
        put(picture, (size_t)stage->start_ns[i] * picture->cell,
            (size_t)stage->end_ns[i] * picture->cell - 1,
            slot_label(stage->slots.data[i], picture->pipeline).s);
    cut(picture);
}

static size_t widest_label(const struct pipeline *pipeline)
{
    struct slot last = {SLOT_FORWARD, pipeline->pieces - 1, pipeline->micro_batches - 1};
    return strlen(slot_label(last, pipeline).s);
}

/* Who does what when, one line of at most `columns` per stage: a forward takes one cell, a backward
 * two, one for input and one for weight gradients; dots are bubbles, an ellipsis is what is cut. */
static weft_status schedule_draw(struct arena *keep, const struct schedule *schedule,
                                 const struct pipeline *pipeline, int columns, char **out)
{
    struct arena *scratch = arena_new();
    struct played played;
    weft_status status;
    TRY(play_in_cells(scratch, schedule, pipeline, &played));

    int digits = snprintf(NULL, 0, "%d", pipeline->stages - 1);
    int prefix = (int)strlen("stage ") + digits + 2;
    size_t room = columns > prefix ? (size_t)(columns - prefix) : 1;
    struct picture picture = {pipeline, widest_label(pipeline) + 1, (size_t)played.iteration_ns,
                              room, ARENA_ARRAY(scratch, char, room + sizeof ELLIPSIS)};
    size_t row = (size_t)prefix + room + sizeof ELLIPSIS;
    char *at = *out = ARENA_ARRAY(keep, char, row *(size_t)pipeline->stages + 1);
    for (int32_t s = 0; s < pipeline->stages; s++) {
        draw_line(&picture, &played.stage[s]);
        at += sprintf(at, "stage %*d  %s\n", digits, s, picture.line);
    }
done:
    arena_free(scratch);
    return status;
}

#endif

/* fuzz_schedule.c - a file of lists of slots. What is read must play to its end, and be read again
 * as the same lists after it was written, in either format. */
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(struct arena *arena, const struct schedule *schedule,
                        enum schedule_format format)
{
    const struct pipeline *pipeline = &schedule->lists->pipeline;
    const char *text = schedule_write(arena, schedule, pipeline, format);
    struct schedule *again;
    if (schedule_read(arena, "again", text, strlen(text), &again) != WEFT_OK)
        abort();
    if (strcmp(text, schedule_write(arena, again, &again->lists->pipeline, format)) != 0)
        abort();
}

static void check_play(struct arena *arena, const struct schedule *schedule)
{
    const struct pipeline *pipeline = &schedule->lists->pipeline;
    size_t parts = (size_t)pipeline->stages * (size_t)pipeline->pieces;
    int64_t *ones = ARENA_ARRAY(arena, int64_t, parts), ns;
    for (size_t i = 0; i < parts; i++)
        ones[i] = 1;
    struct pipeline_times times = {.forward_ns = ones, .backward_ns = ones};
    if (schedule_play(schedule, pipeline, &times, &ns) != WEFT_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    struct schedule *schedule;
    const char *text = arena_copy_bytes(arena, (const char *)data, size);
    if (schedule_read(arena, "fuzzed", text, size, &schedule) == WEFT_OK) {
        check_play(arena, schedule);
        check_again(arena, schedule, SCHEDULE_WEFT);
        if (schedule->lists->pipeline.stages > 1) /* else a zigzag is a loop */
            check_again(arena, schedule, SCHEDULE_CSV);
    }
    arena_free(arena);
    return 0;
}

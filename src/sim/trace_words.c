/* trace_words.c - the names of a trace's tracks, and its texts. */
#include "sim/trace_words.h"

#include <jansson.h>
#include <stdlib.h>

const char *trace_quoted(struct arena *keep, const char *text)
{
    json_t *json = json_string(text);
    if (!json) {
        char *ascii = arena_copy_text(keep, text);
        for (char *c = ascii; *c; c++)
            *c = (unsigned char)*c < 0x80 ? *c : '?';
        json = json_string(ascii);
    }
    char *dumped = json_dumps(json, JSON_ENCODE_ANY);
    const char *copy = arena_copy_text(keep, dumped ? dumped : "\"?\"");
    free(dumped);
    json_decref(json);
    return copy;
}

int trace_track(const struct task *task)
{
    return task->stream == STREAM_COMPUTE ? TRACK_COMPUTE : TRACK_OTHERS + task->stream - 1;
}

const char *trace_track_name(int track)
{
    if (track == TRACK_STEPS)
        return "reshards";
    return stream_name(track == TRACK_COMPUTE ? STREAM_COMPUTE
                                              : (enum stream_kind)(track - TRACK_OTHERS + 1));
}

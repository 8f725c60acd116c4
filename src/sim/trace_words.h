/* trace_words.h - the tracks of a trace and how its texts are written; private to the trace. */
#ifndef WEFT_SIM_TRACE_WORDS_H
#define WEFT_SIM_TRACE_WORDS_H

#include "sim/sim.h"

/* The tracks of a device in the order in which viewers show them: steps next to operators. */
enum { TRACK_COMPUTE, TRACK_STEPS, TRACK_OTHERS };
enum { TRACKS = STREAM_COUNT + 1 };

int trace_track(const struct task *task);
const char *trace_track_name(int track);
/* A JSON string with its quotes; bytes that are not UTF-8 become question marks. */
const char *trace_quoted(struct arena *keep, const char *text);

#endif

/* trace_words.h - private to the trace: its tracks and how texts stand in it. */
#ifndef WEFT_SIM_TRACE_WORDS_H
#define WEFT_SIM_TRACE_WORDS_H

#include "sim/sim.h"

/* Tracks of a device in the order of viewers: the steps' is next to the operators'. */
enum { TRACK_COMPUTE, TRACK_STEPS, TRACK_OTHERS };
enum { TRACKS = STREAM_COUNT + 1 };

int trace_track(const struct task *task);
const char *trace_track_name(int track);
/* As a JSON string with its quotes; bytes that are no UTF-8 become question marks. */
const char *trace_quoted(struct arena *keep, const char *text);

#endif

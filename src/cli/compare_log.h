/* compare_log.h - a framework's log held against a prediction. Private to the room. */
#ifndef WEFT_CLI_COMPARE_LOG_H
#define WEFT_CLI_COMPARE_LOG_H

#include "cli/cli.h"
#include "runs/runs.h"

/* Whether the file is no JSON, as a trace is. */
bool is_run_log(const char *path);
/* Both times, and which part of the machine would explain the difference. */
weft_status tell_run_log(struct arena *scratch, const struct framework_log *log,
                         const struct run_case *one, const struct prediction *prediction,
                         bool json);

#endif

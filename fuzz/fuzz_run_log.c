/* fuzz_run_log.c - a framework's log from any text: no crash, and a log that is read has a speed. */
#include "runs/runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    struct framework_log log;
    char *text = arena_copy_bytes(arena, (const char *)data, size);
    if (run_log_parse("fuzz", text, size, &log) == WEFT_OK && log.lines < 1)
        __builtin_trap();
    arena_free(arena);
    return 0;
}

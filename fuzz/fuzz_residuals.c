/* fuzz_residuals.c - errors of published runs from any text: no crash, and an interval has its ends in order. */
#include "runs/runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    struct residuals all = {0};
    struct interval interval;
    char *text = arena_copy_bytes(arena, (const char *)data, size);
    if (residuals_parse(arena, "fuzz", text, size, &all) == WEFT_OK && all.len > 0 &&
        interval_among(&all, &all.data[0].like, NULL, &interval) && interval.low > interval.high)
        __builtin_trap();
    arena_free(arena);
    return 0;
}

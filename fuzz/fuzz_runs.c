/* fuzz_runs.c - tables of runs from any text: no crash, and every row is a run or has a reason. */
#include "runs/runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    struct user_runs runs = {0};
    char *text = arena_copy_bytes(arena, (const char *)data, size);
    if (runs_parse(arena, "fuzz", text, size, &runs) == WEFT_OK)
        for (size_t i = 0; i < runs.len; i++)
            if (!runs.data[i].reason && (!runs.data[i].model || !runs.data[i].cluster))
                __builtin_trap();
    arena_free(arena);
    return 0;
}

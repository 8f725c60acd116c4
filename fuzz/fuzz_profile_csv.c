/* fuzz_profile_csv.c - any bytes as a file of measurements: rows or an error, never a crash. */
#include <stdlib.h>
#include <string.h>

#include "cost/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct import_options options = {FORMAT_AUTO, size % 2 ? "X" : NULL};
    struct import_summary summary;
    struct profile *profile;
    struct arena *arena = arena_new();
    char *text = arena_alloc(arena, size + 1, 1);
    if (size > 0)
        memcpy(text, data, size);
    if (profile_create(":memory:", &profile) != WEFT_OK)
        abort();
    if (profile_import_text(profile, "x_2nodes_8gpus_per_node-1.json", text, size, &options, arena,
                            &summary) == WEFT_OK) {
        const struct profile_row *rows;
        size_t count;
        if (profile_rows(profile, &rows, &count) != WEFT_OK) /* what was stored can be loaded */
            abort();
    }
    profile_close(profile);
    arena_free(arena);
    return 0;
}

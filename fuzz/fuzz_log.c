/* fuzz_log.c - any text as a log that is resumed: an error, or whole lines of it, and those again. */
#include <stdlib.h>

#include "run/train/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    for (int64_t step = 0; step < 4; step++) {
        size_t kept, again;
        if (log_kept("fuzz", text, size, step, &kept) != WEFT_OK)
            continue;
        if (kept > size || (kept > 0 && text[kept - 1] != '\n') ||
            log_kept("fuzz", text, kept, step, &again) != WEFT_OK || again != kept)
            abort();
    }
    return 0;
}

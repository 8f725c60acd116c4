/* fuzz_import.c - Megatron's arguments and Galvatron's JSON from any text: no crash, no leak, and what
 * is accepted is a plan that passes its check and, of Megatron, is written and read back. A text that
 * begins with a brace is JSON. */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A model of a million layers is slow, not wrong. */
static bool has_large_number(const uint8_t *data, size_t size)
{
    enum { DIGITS = 4 };
    int digits = 0;
    for (size_t i = 0; i < size && digits < DIGITS; i++)
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
    return digits == DIGITS;
}

static void write_again(struct arena *scratch, const struct plan *plan, const char *target)
{
    struct export_result result;
    weft_status status = plan_export(scratch, plan, target_find(target), true, &result);
    if (status == WEFT_FAILURE)
        abort();
    if (status == WEFT_OK)
        plan_free(result.written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (has_large_number(data, size))
        return 0;
    struct arena *scratch = arena_new();
    bool json = size && data[0] == '{';
    const char *name = json ? "galvatron" : "megatron";
    struct import_input input = {.file = "fuzz",
                                 .text = (const char *)data,
                                 .len = size,
                                 .model = json ? "gpt2" : NULL,
                                 .cluster = "dgx-a100"};
    struct opened_plan opened;
    struct texts notes = {0};
    if (source_find(name)->read(scratch, &input, &opened, &notes) == WEFT_OK) {
        if (plan_check(opened.plan) != WEFT_OK)
            abort();
        write_again(scratch, opened.plan, name);
        plan_close(&opened);
    }
    arena_free(scratch);
    return 0;
}

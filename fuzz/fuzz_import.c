/* fuzz_import.c - Megatron's arguments, Galvatron's and Aceso's JSON from any text: no crash, no leak, and
 * what is accepted is a plan that passes its check and, but for Aceso's, is written again. A text that
 * begins with a brace is Galvatron's JSON, with a blank and a brace Aceso's. */
#include <stdlib.h>
#include <string.h>

#include "exchange/exchange.h"

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
    weft_status status = plan_export(scratch, plan, target, true, &result);
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
    bool aceso = size > 1 && data[0] == ' ' && data[1] == '{';
    bool json = aceso || (size && data[0] == '{');
    const char *name = aceso ? "aceso" : json ? "galvatron" : "megatron";
    struct import_input input = {.file = "fuzz",
                                 .text = (const char *)data,
                                 .len = size,
                                 .model = aceso  ? "gpt3-350m"
                                          : json ? "gpt2"
                                                 : NULL,
                                 .options =
                                     aceso ? "layers: 1, hidden: 64, heads: 4, seq: 8" : NULL,
                                 .cluster = aceso ? "dgx-a100:1x2" : "dgx-a100"};
    struct opened_plan opened;
    struct texts notes = {0};
    if (source_find(name)->read(scratch, &input, &opened, &notes) == WEFT_OK) {
        if (plan_check(opened.plan) != WEFT_OK)
            abort();
        if (!aceso)
            write_again(scratch, opened.plan, name);
        plan_close(&opened);
    }
    arena_free(scratch);
    return 0;
}

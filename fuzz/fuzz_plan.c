/* fuzz_plan.c - plan files from any text: no crash, no leak, and what is accepted passes its check,
 * can be folded, measured and written, and loads back. */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read(struct arena *scratch, const struct plan *plan)
{
    struct opened_plan again;
    const char *text = plan_write(scratch, plan);
    if (plan_parse(scratch, "fuzz.json", text, strlen(text), &again) != WEFT_OK)
        abort();
    plan_close(&again);
}

/* A model of a million layers is slow, not wrong. */
static bool has_large_number(const uint8_t *data, size_t size)
{
    enum { DIGITS = 4 };
    int digits = 0;
    for (size_t i = 0; i < size && digits < DIGITS; i++)
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
    return digits == DIGITS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (has_large_number(data, size))
        return 0;
    struct arena *scratch = arena_new();
    struct opened_plan opened;
    struct warnings warnings = {0};
    if (plan_parse(scratch, "fuzz.yaml", (const char *)data, size, &opened) == WEFT_OK) {
        if (plan_check(opened.plan) != WEFT_OK)
            abort();
        plan_warnings(scratch, opened.plan, &warnings);
        for (int32_t i = 0; i < opened.plan->stages; i++)
            plan_stage_memory(opened.plan, i, 2);
        write_and_read(scratch, opened.plan);
        plan_close(&opened);
    }
    arena_free(scratch);
    return 0;
}

/* fuzz_import.c - Megatron's arguments, and the files of other frameworks, from any text: no crash, no leak, and
 * what is accepted is a plan that passes its check and, where something writes such files, is written again. */
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

/* Which source reads a text, by how it begins. */
static const struct import_kind {
    const char *start, *source, *model, *options, *cluster;
} KINDS[] = {
    {" {", "aceso", "gpt3-350m", "layers: 1, hidden: 64, heads: 4, seq: 8", "dgx-a100:1x2"},
    {"\t{", "deepspeed", "gpt2", "layers: 2", "dgx-a100"},
    {"{", "galvatron", "gpt2", NULL, "dgx-a100"},
    {"model:", "bridge", NULL, NULL, "dgx-a100"},
    {"\n", "torchtitan", "llama3.2-1b", "layers: 4, hidden: 64, heads: 4, kv_heads: 2", "dgx-a100"},
    {"", "megatron", NULL, NULL, "dgx-a100"},
};

static const struct import_kind *kind_of(const uint8_t *data, size_t size)
{
    size_t i = 0;
    while (size < strlen(KINDS[i].start) ||
           memcmp(data, KINDS[i].start, strlen(KINDS[i].start)) != 0)
        i++;
    return &KINDS[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (has_large_number(data, size))
        return 0;
    struct arena *scratch = arena_new();
    const struct import_kind *kind = kind_of(data, size);
    struct import_input input = {.file = "fuzz",
                                 .text = (const char *)data,
                                 .len = size,
                                 .model = kind->model,
                                 .options = kind->options,
                                 .cluster = kind->cluster};
    struct opened_plan opened;
    struct texts notes = {0};
    if (source_find(kind->source)->read(scratch, &input, &opened, &notes) == WEFT_OK) {
        if (plan_check(opened.plan) != WEFT_OK)
            abort();
        if (strcmp(kind->source, "aceso") != 0 && strcmp(kind->source, "bridge") != 0)
            write_again(scratch, opened.plan, kind->source);
        plan_close(&opened);
    }
    arena_free(scratch);
    return 0;
}

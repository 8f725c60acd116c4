/* fuzz_hf_config.c - Hugging Face's config.json. */
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *scratch = arena_new();
    struct doc *root;
    struct model *model;
    if (doc_parse(scratch, "config.json", (const char *)data, size, DOC_JSON, &root) == WEFT_OK &&
        import_hf(scratch, "config.json", root, NULL, &model) == WEFT_OK)
        ask_and_free(model);
    arena_free(scratch);
    return 0;
}

/* fuzz_model_yaml.c - Weft's own model files: whatever is accepted can also be asked for its work. */
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *scratch = arena_new();
    struct doc *root;
    struct model *model;
    if (doc_parse(scratch, "m.yaml", (const char *)data, size, DOC_YAML, &root) == WEFT_OK &&
        import_yaml(scratch, "m.yaml", root, NULL, &model) == WEFT_OK)
        ask_and_free(model);
    arena_free(scratch);
    return 0;
}

/* fuzz_onnx.c - ONNX graphs. */
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model *model;
    if (import_onnx("m.onnx", data, size, NULL, &model) == WEFT_OK)
        ask_and_free(model);
    return 0;
}

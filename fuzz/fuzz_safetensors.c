/* fuzz_safetensors.c - any bytes as a safetensors file: an error, or tensors that lie in it. */
#include <stdlib.h>

#include "run/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    struct tensor_file file;
    if (tensor_file_parse(arena, "fuzz", data, size, &file) == WEFT_OK)
        for (size_t i = 0; i < file.tensors; i++) {
            const struct stored_tensor *tensor = &file.tensor[i];
            float first;
            if (tensor->data < data || tensor_file_find(&file, tensor->name) != tensor ||
                tensor->elements * stored_bytes(tensor->dtype) > data + size - tensor->data)
                abort();
            if (tensor->elements > 0)
                stored_to_float(tensor->dtype, tensor->data, 1, &first);
        }
    arena_free(arena);
    return 0;
}

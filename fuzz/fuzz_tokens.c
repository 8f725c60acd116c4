/* fuzz_tokens.c - any bytes as the header of a token file and as Megatron-LM's index of a file of any
 * size: an error, or tokens that lie in the file. */
#include <stdlib.h>
#include <string.h>

#include "run/data/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct token_layout layout;
    int64_t bin_bytes = 0;
    if (token_header_parse("fuzz", data, size, &layout) == WEFT_OK &&
        (layout.tokens < 0 || layout.offset + 2 * layout.tokens > (int64_t)size))
        abort();
    if (size >= sizeof bin_bytes) { /* the first bytes say how large NAME.bin is */
        memcpy(&bin_bytes, data, sizeof bin_bytes);
        bin_bytes &= INT64_MAX;
        data += sizeof bin_bytes;
        size -= sizeof bin_bytes;
    }
    if (megatron_index_parse("fuzz", data, size, bin_bytes, &layout) == WEFT_OK &&
        (layout.tokens < 0 || layout.tokens > bin_bytes))
        abort();
    return 0;
}

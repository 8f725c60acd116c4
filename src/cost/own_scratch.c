/* own_scratch.c - what Weft's own kernels on a GPU take while they run (own_scratch.h). */
#include "cost/own_scratch.h"

/* Elements of bf16 in 16 bytes; bytes of padded rows, which come in multiples of some; elements below which
 * copies cost more than they bring. */
enum { UNIT = 8, MOST_BYTES = 256 << 20, ROWS = 128, WORTH = 1 << 16 };

struct padded_rows padded_rows(enum dtype dtype, int64_t rows, int64_t outputs, int32_t weights)
{
    struct padded_rows padded = {.length = ceil_div(outputs, UNIT) * UNIT};
    bool worth = rows * outputs > WORTH && weights == 1;
    if (dtype != DTYPE_BF16 || padded.length == outputs || !worth)
        return padded;
    int64_t most = MOST_BYTES / (padded.length * dtype_bytes(dtype)) / ROWS * ROWS;
    padded.at_once = most < rows ? most : rows;
    return padded;
}

int64_t own_scratch_bytes(const struct op *op, const int64_t *local, enum dtype dtype)
{
    if (op->kind != OP_LINEAR)
        return OWN_WORKSPACE;
    struct padded_rows padded = padded_rows(dtype, local[0] * local[1], local[3], op->weights);
    int64_t rows = padded.at_once ? padded.at_once + local[2] : 0;
    return OWN_WORKSPACE + rows * padded.length * dtype_bytes(dtype);
}

/* fuzz_nccl_tests.c - measured collectives from any text: no crash, and what is read can be
 * fitted or is refused. */
#include "cluster/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says which options are given along with the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum collective collective = (enum collective)((data[0] >> 1) % COLLECTIVE_COUNT);
    struct sample_filter filter = {0};
    if (data[0] & 1)
        filter.collective = &collective;
    if (data[0] & 0x80)
        filter.devices = 8;
    struct arena *arena = arena_new();
    struct samples samples = {0};
    struct fit fit;
    weft_status status =
        samples_parse(arena, "fuzz", (const char *)data + 1, size - 1, &filter, &samples);
    if (status == WEFT_OK && fit_samples(samples.data, samples.len, NULL, &fit) == WEFT_OK)
        fit_yaml(arena, &fit);
    arena_free(arena);
    return 0;
}

/* fuzz_cluster_yaml.c - cluster files from any text: no crash, no leak, and what is accepted can be
 * drawn. */
#include "cluster/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster *cluster;
    if (cluster_from_text(CLUSTER_YAML, "fuzz.yaml", (const char *)data, size, 0, &cluster) !=
        WEFT_OK)
        return 0;
    struct arena *arena = arena_new();
    cluster_draw(arena, cluster, 100);
    arena_free(arena);
    cluster_free(cluster);
    return 0;
}

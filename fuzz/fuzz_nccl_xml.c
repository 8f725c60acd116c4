/* fuzz_nccl_xml.c - NCCL topologies from any text: no crash, no leak, and what is accepted can be
 * drawn and costed. */
#include "cluster/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void cost_node(const struct cluster *cluster)
{
    struct group group = group_range(0, cluster->node.devices, 1);
    struct collective_cost cost;
    if (cluster->node.devices <= 16)
        collective_time(cluster, COLLECTIVE_ALL_REDUCE, &group, 1 << 20, &cost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster *cluster;
    if (cluster_from_text(CLUSTER_XML, "fuzz.xml", (const char *)data, size, 0, &cluster) !=
        WEFT_OK)
        return 0;
    struct arena *arena = arena_new();
    cluster_draw(arena, cluster, 100);
    cost_node(cluster);
    arena_free(arena);
    cluster_free(cluster);
    return 0;
}

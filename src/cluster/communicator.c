/* communicator.c - device memory that a communicator keeps: NCCL's buffers.
 *
 * A communicator moves data through channels. On each, a device has a connection to one peer and from one
 * for every way the data go, with the buffers of device.connection_bytes:
 *
 *   ring     one to the next, one from the one before
 *   tree     the same once more, beside the ring: all-reduces of little data
 *   pairs    with each other device of the group in the node
 *
 *   bytes = channels * connection * (ring + tree)  +  peers * channels of a peer * connection       (1)
 *
 *   I1  Between nodes a connection's buffers are on both sides (src/transport/net.cc: Simple and LL128 of
 *       the sender, all of the receiver), and pairs share one pool: channels * 16 steps * 128 KiB each way.
 *   I2  Connections are made when they are first used (NCCL_RUNTIME_CONNECT): of what no collective
 *       uses there is none.
 *
 * (1) of 4 A100 and an all-reduce is 576 MiB, of which NVIDIA/nccl, issue 964, measured 544 to 688; of an
 * all-to-all on 8 H100 2.63 GiB, of which issue 1685 measured 3.05.
 */
#include "cluster/pools_room.h"

#define MIB(n) (INT64_C(1048576) * (n))

/* Channels by what joins a group's devices. */
struct channel_counts {
    int32_t ring; /* and tree */
    int32_t pair; /* per peer */
};
static const struct channel_counts
    /* "24 coll channels": DGX A100 (NVIDIA/nccl-tests, issue 100); 32 per peer: H100 (nccl, issue 1685) */
    IN_NVLINK = {24, 32},
    /* four of eight RTX 4090 without NVLink (tinygrad/open-gpu-kernel-modules, issue 17) */
    IN_PCI = {4, 4},
    /* two for each device of the group in a node, which has a NIC each: 16 of 8 H100 (nccl, issue 1453); 2
     * per peer (issue 1189) */
    BETWEEN = {2, 2};
static const int64_t BETWEEN_BYTES = MIB(10 + 10);   /* I1: in whole pages of 2 MiB */
static const int64_t SHARED_BYTES = MIB(2 * 32 * 2); /* I1: both ways of at most 32 channels */

enum { WAY_RING = 1, WAY_TREE = 2, WAY_PAIRS = 4 };
static const unsigned WAYS[] = {
    [COLLECTIVE_ALL_REDUCE] = WAY_RING | WAY_TREE,
    [COLLECTIVE_ALL_GATHER] = WAY_RING,
    [COLLECTIVE_REDUCE_SCATTER] = WAY_RING,
    [COLLECTIVE_ALL_TO_ALL] = WAY_PAIRS,
    [COLLECTIVE_BROADCAST] = WAY_RING,
    [COLLECTIVE_SEND] = WAY_PAIRS,
    [COLLECTIVE_HALO] = WAY_PAIRS,
};
_Static_assert(COUNT_OF(WAYS) == COLLECTIVE_COUNT, "a collective without its ways");

static bool has_nvlink(const struct node_type *node)
{
    for (int32_t i = 0; i < node->links; i++)
        if (node->link[i].kind == LINK_NVLINK)
            return true;
    return false;
}

/* Devices of the group in the node of its first. */
static int64_t devices_in_node(const struct cluster *cluster, const struct group *group)
{
    int64_t each = cluster->node.devices, node = group_device(group, 0) / each, count = 0;
    for (int64_t i = 0; i < group_size(group); i++)
        count += group_device(group, i) / each == node;
    return count;
}

int64_t communicator_bytes(const struct cluster *cluster, const struct group *group,
                           unsigned collectives)
{
    if (cluster->pools)
        return pools_communicator(cluster, group, collectives);
    int64_t connection = cluster->node.device.connection_bytes, size = group_size(group);
    int64_t local = devices_in_node(cluster, group), bytes = 0;
    bool between = local < size;
    struct channel_counts channels = between                      ? BETWEEN
                                     : has_nvlink(&cluster->node) ? IN_NVLINK
                                                                  : IN_PCI;
    unsigned ways = 0;
    if (size < 2 || !connection)
        return 0;
    for (int c = 0; c < COLLECTIVE_COUNT; c++)
        ways |= collectives >> c & 1 ? WAYS[c] : 0;
    int64_t rings = (ways & WAY_RING ? 1 : 0) + (ways & WAY_TREE ? 1 : 0);
    bytes += rings * channels.ring * (between ? local * BETWEEN_BYTES : connection); /* (1) */
    if (ways & WAY_PAIRS)
        bytes += (local - 1) * channels.pair * connection + (between ? SHARED_BYTES : 0);
    return bytes;
}

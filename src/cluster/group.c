/* group.c - device groups as strided meshes, and where they lie on the nodes.
 *
 *   member(i) = first + sum_k i_k * stride_k,  i = i_0 + count_0 * (i_1 + count_1 * (...))      (1)
 *
 *   I1  A level whose stride is a multiple of D (devices per node) repeats the same device set on
 *       other nodes; one that stays within D widens the set; one that leaves the node must leave it
 *       at a multiple of D. Every other group is examined member by member.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/placement.h"

struct group group_range(int64_t first, int64_t count, int64_t stride)
{
    return (struct group){.first = first, .levels = 1, .count = {count}, .stride = {stride}};
}

int64_t group_size(const struct group *group)
{
    int64_t size = 1;
    for (int32_t k = 0; k < group->levels; k++)
        size *= group->count[k];
    return size;
}

int64_t group_device(const struct group *group, int64_t i)
{
    int64_t member = group->first;
    for (int32_t k = 0; k < group->levels; k++) {
        member += i % group->count[k] * group->stride[k];
        i /= group->count[k];
    }
    return member;
}

int32_t set_members(const struct device_set *set, int32_t out[MAX_NODE_DEVICES])
{
    int32_t count = 0;
    for (int32_t w = 0; w < SET_WORDS; w++)
        for (uint64_t bits = set->word[w]; bits; bits &= bits - 1)
            out[count++] = w * 64 + __builtin_ctzll(bits);
    return count;
}

static weft_status check_group(const struct cluster *cluster, const struct group *group)
{
    if (cluster->node.devices > MAX_NODE_DEVICES)
        return bad_argument(NULL, "a node of %s: at most %d can be laid out",
                            counted(cluster->node.devices, "device").s, MAX_NODE_DEVICES);
    int64_t low = group->first, high = group->first, size = 1;
    bool valid = group->levels >= 0 && group->levels <= MAX_GROUP_LEVELS;
    for (int32_t k = 0; valid && k < group->levels; k++) {
        int64_t reach, *end = group->stride[k] < 0 ? &low : &high;
        valid = group->count[k] >= 1 && group->stride[k] != 0 &&
                checked_mul(group->count[k] - 1, group->stride[k], &reach) &&
                checked_add(*end, reach, end) && checked_mul(size, group->count[k], &size);
    }
    if (!valid || low < 0 || high >= cluster_devices(cluster))
        return bad_argument(NULL, "the group reaches beyond the %s of %s",
                            counted(cluster_devices(cluster), "device").s, cluster->name);
    return WEFT_OK;
}

/* The set repeated `count` times, `stride` positions apart. */
static void set_repeat(struct device_set *set, int64_t count, int64_t stride)
{
    int32_t members[MAX_NODE_DEVICES];
    int32_t len = set_members(set, members);
    for (int64_t i = 1; i < count; i++)
        for (int32_t m = 0; m < len; m++)
            set_add(set, members[m] + i * stride);
}

/* The same devices in ascending order. */
static struct group upwards(struct group group)
{
    for (int32_t k = 0; k < group.levels; k++) {
        if (group.stride[k] > 0)
            continue;
        group.first += (group.count[k] - 1) * group.stride[k];
        group.stride[k] = -group.stride[k];
    }
    return group;
}

/* The closed form of I1; false if it does not apply. */
static bool regular_footprint(int64_t per_node, const struct group *group, struct footprint *out)
{
    int64_t extent = group->first % per_node;
    bool left_node = false;
    *out = (struct footprint){.devices = group_size(group), .nodes = 1};
    out->first_node = out->last_node = group->first / per_node;
    set_add(&out->set, extent);
    for (int32_t k = 0; k < group->levels; k++) {
        int64_t count = group->count[k], stride = group->stride[k], inside = 1;
        if (count == 1)
            continue;
        if (stride % per_node != 0) {
            int64_t room = (per_node - 1 - extent) / stride + 1;
            inside = room < count ? room : count;
            if (left_node || (inside < count && (inside * stride != per_node || count % inside)))
                return false;
            set_repeat(&out->set, inside, stride);
            extent += (inside - 1) * stride;
            left_node = inside < count;
        }
        int64_t repeats = count / inside;
        out->nodes *= repeats;
        out->last_node += (repeats - 1) * (stride * inside) / per_node;
        left_node |= repeats > 1;
    }
    int32_t members[MAX_NODE_DEVICES];
    out->local = set_members(&out->set, members);
    return out->devices == out->local * out->nodes;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The devices per node of members that are visited in ascending order. */
struct sharing {
    int64_t per_node, node_first; /* devices per node; first device of the current node */
    int32_t local;                /* members on the current node so far */
    struct arena *keep;
    struct share_list *shares;
    struct footprint *out;
};

static void share_member(struct sharing *s, int64_t member)
{
    if (s->shares->len == 0 || member >= s->node_first + s->per_node) {
        struct node_share share = {.node = member / s->per_node};
        array_push(s->keep, s->shares, share);
        s->node_first = share.node * s->per_node;
        s->local = 0;
    }
    struct node_share *share = &s->shares->data[s->shares->len - 1];
    set_add(&share->set, member - s->node_first);
    if (++s->local > s->out->local) {
        s->out->local = s->local;
        s->out->set = share->set;
    }
}

/* Visits the members by (1) without its divisions; false as soon as a member is not above the one
 * before. */
static bool share_rising(struct sharing *s, const struct group *group)
{
    int64_t digit[MAX_GROUP_LEVELS] = {0}, member = group->first, before = -1;
    int32_t k = 0;
    while (k < group->levels || before < 0) {
        if (member <= before)
            return false;
        share_member(s, member);
        before = member;
        for (k = 0; k < group->levels && digit[k] + 1 == group->count[k]; k++) {
            member -= digit[k] * group->stride[k];
            digit[k] = 0;
        }
        if (k < group->levels) {
            digit[k]++;
            member += group->stride[k];
        }
    }
    return true;
}

static void share_sorted(struct sharing *s, const struct group *group)
{
    size_t size = (size_t)group_size(group);
    int64_t *member = ARENA_ARRAY(s->keep, int64_t, size);
    for (size_t i = 0; i < size; i++)
        member[i] = group_device(group, (int64_t)i);
    qsort(member, size, sizeof *member, by_value);
    for (size_t i = 0; i < size; i++)
        share_member(s, member[i]);
}

weft_status group_shares(const struct cluster *cluster, const struct group *group,
                         struct arena *keep, struct share_list *shares, struct footprint *out)
{
    struct sharing sharing = {cluster->node.devices, 0, 0, keep, shares, out};
    weft_status status = check_group(cluster, group);
    if (status != WEFT_OK)
        return status;
    shares->len = 0;
    *out = (struct footprint){.devices = group_size(group)};
    if (!share_rising(&sharing, group)) {
        shares->len = 0;
        out->local = 0;
        share_sorted(&sharing, group);
    }
    out->nodes = (int64_t)shares->len;
    out->first_node = shares->data[0].node;
    out->last_node = shares->data[shares->len - 1].node;
    return WEFT_OK;
}

weft_status group_footprint(const struct cluster *cluster, const struct group *group,
                            struct footprint *out)
{
    weft_status status = check_group(cluster, group);
    if (status != WEFT_OK)
        return status;
    struct group counted = upwards(*group);
    if (regular_footprint(cluster->node.devices, &counted, out))
        return WEFT_OK;
    struct arena *scratch = arena_new();
    struct share_list shares = {0};
    status = group_shares(cluster, group, scratch, &shares, out);
    arena_free(scratch);
    return status;
}

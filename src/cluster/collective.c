/* collective.c - how long a collective takes on a group of devices.
 *
 * As in NCCL's own tuning model, the fastest of a few algorithms and protocols is taken:
 *
 *   T = alpha + s_in * hop_in + s_out * hop_out + (V + sqrt(V * H)) / B                         (1)
 *
 *   V      bytes through each link of the algorithm: ring_volume() * buffer
 *   s      steps of the algorithm inside nodes and between them, hop the time of one
 *   B      bandwidth: the narrowest of rings inside the node, NICs, fabric uplinks, each times the
 *          efficiency of its kind
 *   H      volume at which half of B is reached. A pipeline of chunks that cost tau each, cut
 *          into the best number of chunks, takes V / B + sqrt(4 tau V / B): H is proportional to
 *          tau * B.
 *
 *   ring   all-reduce  V = 2 (n-1)/n S, s = 2 (n-1); all-gather, reduce-scatter  V = (n-1)/n S,
 *          s = n-1; broadcast  V = S, s = n-1
 *   direct send  V = S, s = 1; all-to-all: every pair on its own path
 *   tree, nvls: protocols.c, which has the constants of all of them
 *
 *   I1  T does not decrease with the buffer: it is a minimum of functions that do not.
 *   I2  A measured fit replaces (1)'s constants; then no other protocol is tried, because the
 *       measurement already includes NCCL's choice.
 *   I3  Groups that differ only in the numbering of equal nodes take the same time.
 */
#include <math.h>

#include "cluster/pools_room.h"
#include "cluster/site.h"

/* SimAI's table of NIC efficiencies at 16 GiB. */
static const double NIC_EFFICIENCY = 0.96;
/* Rings with a hop through another device: 37.2 of 45 GB/s for 5 V100 in vTrain's table. */
static const double RELAY_EFFICIENCY = 0.83;
/* All-to-all posts its sends in rounds of this many peers (NCCL's grouped send and receive). */
static const int64_t PEERS_PER_ROUND = 8;

/* The volume as a number of passes over the buffer, each of all of it or of (n-1)/n; steps in
 * multiples of n-1. */
static const struct {
    double passes;
    bool pieces; /* each pass moves (n-1)/n of the buffer instead of all of it */
    bool direct; /* from device to device, not round a ring */
} VOLUMES[] = {
    [COLLECTIVE_ALL_REDUCE] = {2, true},     [COLLECTIVE_ALL_GATHER] = {1, true},
    [COLLECTIVE_REDUCE_SCATTER] = {1, true}, [COLLECTIVE_ALL_TO_ALL] = {1, true, true},
    [COLLECTIVE_BROADCAST] = {1, false},     [COLLECTIVE_SEND] = {1, false},
    [COLLECTIVE_HALO] = {1, false, true},
};
_Static_assert(COUNT_OF(VOLUMES) == COLLECTIVE_COUNT, "a collective without a volume");

double ring_volume(enum collective collective, int64_t devices)
{
    double n = (double)devices;
    return VOLUMES[collective].passes * (VOLUMES[collective].pieces ? (n - 1) / n : 1);
}

bool goes_direct(enum collective collective)
{
    return VOLUMES[collective].direct || collective == COLLECTIVE_SEND;
}

int64_t ring_steps(enum collective collective, int64_t devices)
{
    if (collective == COLLECTIVE_ALL_TO_ALL)
        return ceil_div(devices - 1, PEERS_PER_ROUND);
    if (collective == COLLECTIVE_HALO)
        return devices > 1; /* both neighbours at once */
    return (int64_t)VOLUMES[collective].passes * (devices - 1);
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

/* A limit on the algorithm: seconds on one kind of link per byte of V. */
struct limit {
    double s_per_byte;
    enum link_kind kind;
};

static void tighten(struct limit *limit, double s_per_byte, enum link_kind kind)
{
    if (s_per_byte > limit->s_per_byte)
        *limit = (struct limit){s_per_byte, kind};
}

/* A socket's bandwidth is already given as what is reached. */
static double wire_efficiency(const struct site *site, enum link_kind kind)
{
    if (kind == LINK_NVLINK)
        return site->arch->nvlink * (site->channels->relayed ? RELAY_EFFICIENCY : 1);
    if (kind == LINK_PCI)
        return site->fitted == COLLECTIVE_SEND ? site->arch->pci_send : site->arch->pci;
    return 1;
}

static double inside_efficiency(const struct site *site, enum link_kind kind)
{
    const struct collective_fit *fit = &site->cluster->fit_inside[site->fitted];
    if (site->bare)
        return 1;
    return fit->efficiency > 0 ? fit->efficiency : wire_efficiency(site, kind);
}

static double between_efficiency(const struct site *site)
{
    const struct collective_fit *fit = &site->cluster->fit_between[site->fitted];
    if (site->bare)
        return 1;
    return fit->efficiency > 0 ? fit->efficiency : NIC_EFFICIENCY;
}

double link_reached_per_s(const struct cluster *cluster, struct link_id link)
{
    static const struct channels DIRECT = {0};
    double bytes_per_s = link_bytes_per_s(cluster, link);
    if (cluster->pools) {
        const struct cluster *own = pools_link(cluster, link, &link);
        return own ? link_reached_per_s(own, link) : bytes_per_s * NIC_EFFICIENCY;
    }
    struct site site = {.cluster = cluster,
                        .collective = COLLECTIVE_ALL_REDUCE,
                        .fitted = COLLECTIVE_ALL_REDUCE,
                        .channels = &DIRECT,
                        .arch = arch_model(&cluster->node.device)};
    double efficiency = link.tier < 0 ? inside_efficiency(&site, cluster->node.link[link.link].kind)
                                      : between_efficiency(&site);
    return bytes_per_s * efficiency;
}

/* Whether the group extends beyond one unit of this tier. The last tier is the whole fabric. */
bool crosses_tier(const struct site *site, int32_t tier)
{
    int64_t unit = site->cluster->fabric.tier[tier].nodes;
    return tier + 1 < site->cluster->fabric.tiers && unit > 0 &&
           site->at.first_node / unit != site->at.last_node / unit;
}

/* Units of a tier that the group uses, as if it were spread evenly over them. */
static double units_of_tier(const struct site *site, int32_t tier)
{
    int64_t unit = site->cluster->fabric.tier[tier].nodes;
    return (double)(site->at.last_node / unit - site->at.first_node / unit + 1);
}

/* Limits by each kind of link inside the node, at its own efficiency; none if the node has one
 * device. */
static void tighten_inside(const struct site *site, const double *s_per_byte, double share,
                           struct limit *limit)
{
    for (int kind = 0; kind < LINK_KIND_COUNT; kind++)
        tighten(limit, share * s_per_byte[kind] / inside_efficiency(site, (enum link_kind)kind),
                (enum link_kind)kind);
}

/* Limits by the bytes that leave the node: over its NICs, and over PCIe on the way to them where
 * that counts. */
static void tighten_nics(const struct site *site, double bytes, struct limit *limit)
{
    const struct channels *channels = site->channels;
    double path_bytes_per_s = 0;
    if (site->at.nodes == 1)
        return;
    for (int kind = 0; kind < LINK_KIND_COUNT; kind++)
        path_bytes_per_s +=
            channels->nic_path_bytes_per_s[kind] * inside_efficiency(site, (enum link_kind)kind);
    if (site->arch->staged && path_bytes_per_s > 0)
        tighten(limit, bytes / path_bytes_per_s, LINK_PCI);
    tighten(limit, bytes / (channels->nic_bytes_per_s * between_efficiency(site)), LINK_NIC);
}

/* A ring passes each device, NIC set and uplink once with all of V. */
static struct limit ring_limit(const struct site *site)
{
    struct limit limit = {0, LINK_NVLINK};
    tighten_inside(site, site->channels->ring_s_per_byte, 1, &limit);
    tighten_nics(site, 1, &limit);
    for (int32_t t = 0; t < site->cluster->fabric.tiers; t++)
        if (crosses_tier(site, t))
            tighten(
                &limit,
                1 / (site->cluster->fabric.tier[t].uplink_bytes_per_s * between_efficiency(site)),
                LINK_FABRIC);
    return limit;
}

double exchange_crossing(double crossing)
{
    return crossing > 0 ? crossing : 1;
}

double exchange_inside(double crossing, double devices, double local)
{
    return crossing > 0 ? devices / local : 1;
}

/* All-to-all: limits by pairs inside the node, and by what leaves the node and the fabric's unit;
 * relative to the volume of one device. */
static struct limit exchange_limit(const struct site *site)
{
    struct limit limit = {0, LINK_NVLINK};
    double share = site->piece / site->volume, n = (double)site->at.devices;
    double local = site->at.local;
    tighten_inside(site, site->channels->exchange_s_per_byte,
                   share * exchange_inside(site->crossing, n, local), &limit);
    share *= exchange_crossing(site->crossing);
    tighten_nics(site, share * local * (n - local), &limit);
    for (int32_t t = 0; t < site->cluster->fabric.tiers; t++) {
        if (!crosses_tier(site, t))
            continue;
        double inside = n / units_of_tier(site, t);
        tighten(&limit,
                share * inside * (n - inside) /
                    (site->cluster->fabric.tier[t].uplink_bytes_per_s * between_efficiency(site)),
                LINK_FABRIC);
    }
    return limit;
}

static bool measured(const struct collective_fit *fit)
{
    return fit->alpha_ns > 0 || fit->bus_bytes_per_s > 0;
}

static weft_status survey(const struct cluster *cluster, enum collective collective,
                          const struct group *group, struct arena **scratch, struct site *site)
{
    weft_status status;
    *site = (struct site){.cluster = cluster,
                          .collective = collective,
                          .fitted = collective == COLLECTIVE_HALO ? COLLECTIVE_SEND : collective,
                          .crossing = group->crossing};
    site->arch = arch_model(&cluster->node.device);
    TRY(group_footprint(cluster, group, &site->at));
    if (collective == COLLECTIVE_SEND && site->at.devices > 2)
        return bad_argument(NULL, "a send has 2 devices, not %lld", (long long)site->at.devices);
    if (site->at.nodes > 1 && cluster->node.nics == 0)
        return bad_argument("give the node type a NIC",
                            "a group over %s of %s, whose nodes have no NIC",
                            counted(site->at.nodes, "node").s, cluster->name);
    TRY(channels_get(cluster, &site->at.set, scratch, &site->channels));
    site->fit = &(site->at.nodes > 1 ? cluster->fit_between : cluster->fit_inside)[site->fitted];
done:
    return status;
}

weft_status group_place(const struct cluster *cluster, const struct group *group, uint64_t *out)
{
    struct site site = {.cluster = cluster};
    if (cluster->pools)
        return pools_place(cluster, group, out);
    weft_status status = group_footprint(cluster, group, &site.at);
    if (status != WEFT_OK)
        return status;
    int64_t counts[2 + MAX_TIERS] = {site.at.devices, site.at.nodes};
    for (int32_t t = 0; t < cluster->fabric.tiers; t++)
        counts[2 + t] = crosses_tier(&site, t) ? (int64_t)units_of_tier(&site, t) : 1;
    uint64_t set = hash_bytes(&site.at.set, sizeof site.at.set, 0);
    *out = hash_bytes(counts, sizeof counts, set);
    if (group->crossing > 0)
        *out = hash_bytes(&group->crossing, sizeof group->crossing, *out);
    return WEFT_OK;
}

static struct limit narrowest(struct site *site, double bytes)
{
    site->volume = ring_volume(site->collective, site->at.devices) * bytes;
    site->piece = bytes / (double)site->at.devices;
    return site->collective == COLLECTIVE_ALL_TO_ALL ? exchange_limit(site) : ring_limit(site);
}

weft_status collective_time(const struct cluster *cluster, enum collective collective,
                            const struct group *group, int64_t bytes, struct collective_cost *out)
{
    struct site site;
    if (cluster->pools)
        return pools_time(cluster, collective, group, bytes, out);
    struct arena *scratch = NULL;
    weft_status status;
    *out =
        (struct collective_cost){.algorithm = "none", .source = "link graph", .bottleneck = "none"};
    TRY(survey(cluster, collective, group, &scratch, &site));
    if (site.at.devices < 2 || bytes <= 0)
        goto done;
    struct limit limit = narrowest(&site, (double)bytes);
    double bytes_per_s = 1 / limit.s_per_byte;
    struct algorithm_line line = measured(site.fit) ? measured_line(&site, bytes_per_s)
                                                    : best_line(&site, (double)bytes, bytes_per_s);
    double seconds = line_seconds(&line);
    out->ns = llround(seconds * 1e9);
    out->bus_bytes_per_s = site.volume / seconds;
    out->algorithm = line.algorithm;
    out->source = measured(site.fit) ? "fit" : "link graph";
    out->bottleneck = link_name(&cluster->node.device, limit.kind);
done:
    arena_free(scratch);
    return status;
}

weft_status collective_bandwidth(const struct cluster *cluster, enum collective collective,
                                 const struct group *group, double *bytes_per_s)
{
    struct site site;
    if (cluster->pools)
        return pools_bandwidth(cluster, collective, group, bytes_per_s);
    struct arena *scratch = NULL;
    weft_status status;
    TRY(survey(cluster, collective, group, &scratch, &site));
    site.bare = true;
    *bytes_per_s = site.at.devices < 2 ? 0 : 1 / narrowest(&site, 1).s_per_byte;
done:
    arena_free(scratch);
    return status;
}

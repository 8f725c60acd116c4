/* protocols.c - algorithms and protocols of a collective, and which is the fastest.
 *
 * Equation (1) of collective.c for each algorithm in each of NCCL's protocols, with the constants of NCCL 2.28
 * (src/graph/tuning.cc) but for those that were measured:
 *
 *   ring   all-reduce, all-gather, reduce-scatter, broadcast; LL, LL128, Simple
 *   tree   all-reduce between nodes: V = 2 S, s_in = 2 (g-1), s_out = 2 log2(nodes); LL, LL128, Simple
 *   nvls   all-reduce within an NVSwitch that adds up: V = (n+1)/n S; Simple
 *   direct sends, all-to-all: LL, Simple
 *
 *   I1  Inside a node a ring's V has entry * S / n besides: a device's own piece passes through it, too. That is why two devices
 *       reach less of their wires than eight: all-gathers of 512 MiB on 2, 4, 8 A100 have 150, 191, 206 GB/s on the bus, and
 *       220 / (1 + 0.4 / (n-1)) is 157, 194, 208; on B200 438, 566, 617.
 *   I2  The time of one algorithm does not decrease with the buffer: the correction of trees rises by less than 2 where
 *       the buffer doubles.
 *   I3  A ring's protocol is the one that NCCL's own constants call the fastest. On Blackwell its steps take longer than they say, and
 *       in Simple they pass beside the bytes: with s steps of s_in, T = alpha + hypot(s * s_in, (V + sqrt(V * H)) / B). All-gathers
 *       and all-reduces on 2, 4 and 8 devices of B200, B300, GB200 and GB300 change from LL to Simple where those constants say so
 *       and take up to 2.3 times as long from there on.
 */
#include <math.h>
#include <string.h>

#include "cluster/site.h"

/* ---- NCCL's constants ------------------------------------------------------------------------ */

static const double BASE_S[PROTOCOL_COUNT] = {6.6e-6, 14.0e-6, 8.4e-6};

/* The time of one step. Between nodes the fabric's latency is added, which is all of the 2.7 us that NCCL has for a ring in
 * LL, and that much less is listed here; where each node has one device, rings have the hops of trees. */
struct hop {
    double ring_s[PROTOCOL_COUNT], tree_s[PROTOCOL_COUNT];
};
#define PCI_HOP {{1.0e-6, 2.5e-6, 5.7e-6}, {1.0e-6, 1.9e-6, 4.0e-6}}
#define NET_HOP {{0, 1.3e-6, 11.3e-6}, {2.3e-6, 5.8e-6, 11.3e-6}}
static const struct hop HOPS[] = {
    [LINK_NVLINK] = {{0.6e-6, 1.9e-6, 3.4e-6}, {0.6e-6, 1.25e-6, 4.0e-6}},
    [LINK_PCI] = PCI_HOP,
    [LINK_SOCKET] = PCI_HOP,
    [LINK_NIC] = NET_HOP,
    [LINK_FABRIC] = NET_HOP,
};
_Static_assert(COUNT_OF(HOPS) == LINK_KIND_COUNT, "a link kind without a hop");

/* LL sends as many flags as data. Between nodes its most is that of more than two nodes with CPUs of Intel or AMD (20.4 and
 * 19.0); sends and all-to-alls are cut into more, smaller parts and have that inside a node, too: from 1 MiB on, vTrain's
 * tables show none that is faster than Simple. */
static const double LL_SHARE = 0.5, LL_DIRECT_SHARE = 0.25, LL_BETWEEN_BYTES_PER_S = 20e9;
/* Trees: the share of B, and of that by protocol. */
static const double TREE_SHARE = 0.92, TREE_LL = 1 / 3.8, TREE_LL128 = 120.0 / 128;
/* "Trees are not perfectly sticking to the model for medium sizes": share of that for buffers of 64 B, 128 B, ... */
enum { TREE_SIZES = 24, TREE_LEAST_LOG2 = 6 };
static const double TREE_CORRECTION[PROTOCOL_COUNT][TREE_SIZES] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

/* ---- devices --------------------------------------------------------------------------------- */

/* nvlink, pci, tau:
 *   others  NVLink 238 of 300 GB/s for 8 A100 in vTrain's table (236 in Sailor's p2p table, 119
 *           of 150 on GH200; xGMI 304 of 384, six rings of 64, for 8 MI300X in AMD's acceptance
 *           guide); PCIe 12 of 15.75 GB/s, NCCL's PCI_BW; tau from the joint fit of
 *           vTrain's A100 table, 2.4 MiB at 231 GB/s
 *   volta   22.5 of 25 GB/s per wire for 2, 3, 6 and 8 devices in vTrain's V100 table; tau halves
 *           the errors at 4 MiB (too fast) and 16 MiB (too slow)
 *   turing  has no peer access over PCIe, so traffic goes through host memory: 4.1 to 5.3 GB/s of
 *           bus bandwidth in Sailor's TITAN RTX table and 4.9 in Galvatron's, 9.9 one way, of 15.75
 * ll_bytes_per_s and ll128 are NCCL's (llMaxBws; 0.92), ll128_bytes_per_s eight rings of its perChMaxRingLL128Bws. start, entry,
 * ampere's ll128, ring and nvls are fitted on the half to fit of AIConfigurator's tables of NCCL
 * (data/profiles/aiconfigurator/nccl.csv). */
static const struct arch_model ARCHS[] = {
    {"volta", 0.90, 0.76, 0.76, 5e-6, .ll_bytes_per_s = 39e9, .ll128 = 0.92},
    {"turing", 0.80, 0.31, 0.63, 10e-6, true, .ll_bytes_per_s = 39e9, .ll128 = 0.92},
    {"ampere", 0.80, 0.76, 0.76, 10e-6, false, 5e-6, 0.4, 87.7e9, 0.7},
    {"hopper", 0.84, 0.76, 0.76, 10e-6, false, -1e-6, 0.4, 141e9, 0.92, 0.67, 67e-6},
    {"blackwell", 0.80, 0.76, 0.76, 10e-6, false, 3.5e-6, 0.67, 282e9, 0.92, 0.54, 90e-6, 320e9,
     .ring =
         {[PROTOCOL_LL] = {1.2e-6, 1.3e-6, false}, [PROTOCOL_SIMPLE] = {5.3e-6, 11.8e-6, true}}},
    {NULL, 0.80, 0.76, 0.76, 10e-6, .ll_bytes_per_s = 20e9}, /* others */
};

const struct arch_model *arch_model(const struct device *device)
{
    const struct arch_model *row = ARCHS;
    while (row->arch && !(device->arch && strcmp(device->arch, row->arch) == 0))
        row++;
    return row;
}

/* ---- latency --------------------------------------------------------------------------------- */

static double fabric_latency_s(const struct site *site)
{
    const struct fabric *fabric = &site->cluster->fabric;
    double ns = fabric->tiers > 0 ? (double)fabric->tier[0].latency_ns : 0;
    for (int32_t t = 0; t + 1 < fabric->tiers; t++)
        if (crosses_tier(site, t))
            ns += (double)fabric->tier[t + 1].latency_ns;
    return ns * 1e-9;
}

static enum link_kind inside_kind(const struct site *site)
{
    return site->at.local > 1 ? site->channels->rings.ring[0].slowest : LINK_NVLINK;
}

static double begin_seconds(const struct site *site, enum protocol protocol)
{
    return BASE_S[protocol] + site->arch->start_s;
}

/* The latency of so many steps; in_s and out_s are the times of one. */
static double steps_seconds(const struct site *site, enum protocol protocol, double inside,
                            double between, double in_s, double out_s)
{
    double start_s = begin_seconds(site, protocol);
    out_s += fabric_latency_s(site);
    if (site->fit->hop_ns > 0)
        *(site->at.nodes > 1 ? &out_s : &in_s) = site->fit->hop_ns * 1e-9;
    return start_s + inside * in_s + between * out_s;
}

static double ring_seconds(const struct site *site, enum protocol protocol)
{
    int64_t steps = ring_steps(site->collective, site->at.devices);
    int64_t between = ring_steps(site->collective, site->at.nodes);
    bool alone = site->at.local == 1 && !goes_direct(site->collective);
    const double *out_s = alone ? HOPS[LINK_NIC].tree_s : HOPS[LINK_NIC].ring_s;
    return steps_seconds(site, protocol, (double)(steps - between), (double)between,
                         HOPS[inside_kind(site)].ring_s[protocol], out_s[protocol]);
}

static double tree_seconds(const struct site *site, enum protocol protocol)
{
    double inside = 2 * (site->at.local - 1), between = 2 * ceil(log2((double)site->at.nodes));
    return steps_seconds(site, protocol, inside, between, HOPS[inside_kind(site)].tree_s[protocol],
                         HOPS[LINK_NIC].tree_s[protocol]);
}

/* ---- algorithms ------------------------------------------------------------------------------ */

double line_seconds(const struct algorithm_line *line)
{
    double bytes_s = (line->volume + sqrt(line->volume * line->half_bytes)) / line->bytes_per_s;
    return line->alpha_s + hypot(line->beside_s, bytes_s);
}

/* I3: what NCCL's constants say of a ring that it takes another time for. */
static void take_own_steps(const struct site *site, enum protocol protocol,
                           struct algorithm_line *line)
{
    const struct ring_steps_time *own = &site->arch->ring[protocol];
    int64_t steps = ring_steps(site->collective, site->at.devices) -
                    ring_steps(site->collective, site->at.nodes);
    double longer = own->step_s - HOPS[LINK_NVLINK].ring_s[protocol];
    double steps_s = line->alpha_s - begin_seconds(site, protocol) + (double)steps * longer;
    line->expected_s = line->alpha_s + site->volume / line->bytes_per_s;
    line->alpha_s = BASE_S[protocol] + own->start_s + (own->beside ? 0 : steps_s);
    line->beside_s = own->beside ? steps_s : 0;
    if (own->beside)
        line->half_bytes = 0;
}

static double ring_rate(const struct site *site, double bytes_per_s, enum protocol protocol)
{
    bool direct = goes_direct(site->collective), between = site->at.nodes > 1;
    const double share[] = {direct ? LL_DIRECT_SHARE : LL_SHARE, site->arch->ll128, 1};
    const double most[] = {
        direct || between ? LL_BETWEEN_BYTES_PER_S : site->arch->ll_bytes_per_s,
        site->arch->ll128_bytes_per_s > 0 ? site->arch->ll128_bytes_per_s : INFINITY, INFINITY};
    return fmin(bytes_per_s * share[protocol], most[protocol]);
}

static struct algorithm_line ring_line(const struct site *site, double bytes_per_s,
                                       enum protocol protocol)
{
    bool direct = goes_direct(site->collective);
    struct algorithm_line line = {
        .algorithm = direct ? "direct" : "ring",
        .alpha_s = ring_seconds(site, protocol),
        .volume = site->volume,
        .bytes_per_s = bytes_per_s,
        .half_bytes = site->arch->chunk_s * bytes_per_s,
    };
    line.bytes_per_s = ring_rate(site, bytes_per_s, protocol);
    if (protocol != PROTOCOL_SIMPLE)
        line.half_bytes = 0;
    bool wired = !direct && inside_kind(site) == LINK_NVLINK;
    if (wired && site->arch->ring[protocol].step_s > 0 && site->fit->hop_ns <= 0)
        take_own_steps(site, protocol, &line);
    if (wired && site->at.nodes == 1)
        line.volume += site->arch->entry * site->piece; /* I1 */
    return line;
}

static double tree_correction(enum protocol protocol, double bytes)
{
    double size = log2(fmax(bytes, 1)) - TREE_LEAST_LOG2;
    size = fmin(fmax(size, 0), TREE_SIZES - 1);
    int below = (int)size, above = below + (below < TREE_SIZES - 1);
    const double *row = TREE_CORRECTION[protocol];
    return row[below] + (size - below) * (row[above] - row[below]);
}

static struct algorithm_line tree_line(const struct site *site, double bytes, double bytes_per_s,
                                       enum protocol protocol)
{
    const double share[] = {TREE_LL, TREE_LL128, 1};
    struct algorithm_line line = {
        .algorithm = "tree",
        .alpha_s = tree_seconds(site, protocol),
        .volume = 2 * bytes,
        .bytes_per_s = bytes_per_s * TREE_SHARE * share[protocol],
    };
    if (protocol == PROTOCOL_LL)
        line.bytes_per_s = fmin(line.bytes_per_s, LL_BETWEEN_BYTES_PER_S);
    line.bytes_per_s *= tree_correction(protocol, bytes);
    return line;
}

static bool sums_in_switch(const struct site *site)
{
    return site->arch->nvls > 0 && site->collective == COLLECTIVE_ALL_REDUCE &&
           site->at.nodes == 1 && site->at.local > 2 && site->channels->switched;
}

static struct algorithm_line nvls_line(const struct site *site, double bytes)
{
    double n = (double)site->at.devices;
    return (struct algorithm_line){.algorithm = "nvls",
                                   .alpha_s = site->arch->nvls_s,
                                   .volume = bytes * (n + 1) / n,
                                   .bytes_per_s =
                                       site->channels->rings.bytes_per_s * site->arch->nvls};
}

/* I2 of collective.c. A measured latency includes every step that the fit did not separate; those it did separate
 * are the steps between nodes, or inside the only node. */
struct algorithm_line measured_line(const struct site *site, double bytes_per_s)
{
    const struct collective_fit *fit = site->fit;
    struct algorithm_line line = ring_line(site, bytes_per_s, PROTOCOL_SIMPLE);
    int64_t places = site->at.nodes > 1 ? site->at.nodes : site->at.devices;
    line.volume = site->volume;
    line.alpha_s += line.beside_s;
    line.beside_s = 0;
    if (fit->alpha_ns > 0)
        line.alpha_s =
            (fit->alpha_ns + fit->hop_ns * (double)ring_steps(site->collective, places)) * 1e-9;
    if (fit->bus_bytes_per_s > 0)
        line.bytes_per_s = fit->bus_bytes_per_s;
    line.half_bytes =
        fit->half_bytes > 0 ? fit->half_bytes : site->arch->chunk_s * line.bytes_per_s;
    return line;
}

/* LL128 needs stores of 16 bytes that arrive whole: over NVLink, and between nodes over a NIC beside the device. */
static bool has_protocol(const struct site *site, enum protocol protocol)
{
    return protocol != PROTOCOL_LL128 || (site->arch->ll128 > 0 && !goes_direct(site->collective) &&
                                          inside_kind(site) == LINK_NVLINK);
}

static void keep_faster(struct algorithm_line *best, struct algorithm_line line)
{
    if (!best->algorithm || line_seconds(&line) < line_seconds(best))
        *best = line;
}

/* I3. */
static double expected_seconds(const struct algorithm_line *line)
{
    return line->expected_s > 0 ? line->expected_s : line_seconds(line);
}

static struct algorithm_line best_ring(const struct site *site, double bytes_per_s)
{
    struct algorithm_line best = {0};
    for (int p = PROTOCOL_COUNT - 1; p >= 0; p--) {
        if (!has_protocol(site, (enum protocol)p))
            continue;
        struct algorithm_line line = ring_line(site, bytes_per_s, (enum protocol)p);
        if (!best.algorithm || expected_seconds(&line) < expected_seconds(&best))
            best = line;
    }
    return best;
}

struct algorithm_line best_line(const struct site *site, double bytes, double bytes_per_s)
{
    struct algorithm_line best = best_ring(site, bytes_per_s);
    for (int p = PROTOCOL_COUNT - 1; p >= 0; p--) {
        if (!has_protocol(site, (enum protocol)p))
            continue;
        if (site->collective == COLLECTIVE_ALL_REDUCE && site->at.nodes > 1)
            keep_faster(&best, tree_line(site, bytes, bytes_per_s, (enum protocol)p));
    }
    if (sums_in_switch(site))
        keep_faster(&best, nvls_line(site, bytes));
    return best;
}

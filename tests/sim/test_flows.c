/* test_flows.c - flows against sums over all groups, and folded speeds against unfolded ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/flows.h"

static const int64_t MIB = 1 << 20;
enum { MAX_PATTERNS = 8, MAX_EXCHANGES = 4096 };

/* ---- a graph's worth of patterns and exchanges ----------------------------------------------- */

struct lab {
    struct cluster *cluster;
    struct arena *arena;
    struct pattern pattern[MAX_PATTERNS];
    struct reshard reshard[MAX_PATTERNS];
    struct exchange exchange[MAX_PATTERNS]; /* one of each, as a folded graph has it */
    int32_t count;
};

static void lab_open(struct lab *lab, const char *name)
{
    memset(lab, 0, sizeof *lab);
    lab->arena = arena_new();
    assert_int_equal(cluster_open(name, &lab->cluster), WEFT_OK);
}

static void lab_close(struct lab *lab)
{
    cluster_free(lab->cluster);
    arena_free(lab->arena);
}

static void add_digit(struct lab *lab, enum collective collective, int64_t first, int64_t devices,
                      int64_t stride, int64_t degree, int64_t bytes)
{
    lab->pattern[lab->count] = (struct pattern){.collective = (int32_t)collective,
                                                .first = first,
                                                .devices = devices,
                                                .digits = 1,
                                                .stride = {stride},
                                                .degree = {degree}};
    lab->exchange[lab->count] =
        (struct exchange){.pattern = lab->count, .bytes = bytes, .collective = (int32_t)collective};
    lab->count++;
}

static void add_send(struct lab *lab, int64_t from, int64_t senders, int64_t to, int64_t receivers,
                     int64_t bytes)
{
    lab->reshard[lab->count] = (struct reshard){.from_devices = senders, .to_devices = receivers};
    lab->pattern[lab->count] = (struct pattern){.collective = COLLECTIVE_SEND,
                                                .first = to,
                                                .devices = receivers,
                                                .from_first = from,
                                                .from_devices = senders,
                                                .reshard = &lab->reshard[lab->count]};
    lab->exchange[lab->count] =
        (struct exchange){.pattern = lab->count, .bytes = bytes, .collective = COLLECTIVE_SEND};
    lab->count++;
}

static void add_copies(struct lab *lab, bool to_host, int64_t first, int64_t devices, int64_t bytes)
{
    lab->pattern[lab->count] = (struct pattern){.first = first, .devices = devices};
    lab->exchange[lab->count] =
        (struct exchange){.kind = to_host ? EXCHANGE_TO_HOST : EXCHANGE_FROM_HOST,
                          .pattern = lab->count,
                          .bytes = bytes};
    lab->count++;
}

static void assert_same_times(const struct flows *a, const struct flows *b)
{
    size_t flows = (size_t)a->flows;
    assert_int_equal(a->flows, b->flows);
    assert_memory_equal(a->latency_ns, b->latency_ns, flows * sizeof *a->latency_ns);
    assert_memory_equal(a->least_ns, b->least_ns, flows * sizeof *a->least_ns);
    assert_memory_equal(a->together_ns, b->together_ns, flows * sizeof *a->together_ns);
}

static void assert_same_flows(const struct flows *a, const struct flows *b)
{
    size_t flows = (size_t)a->flows, links = (size_t)a->links;
    assert_same_times(a, b);
    assert_int_equal(a->links, b->links);
    assert_int_equal(a->alike, b->alike);
    assert_memory_equal(a->use_first, b->use_first, (flows + 1) * sizeof *a->use_first);
    for (size_t i = 0; i < links; i++)
        assert_true(a->link_bytes_per_s[i] == b->link_bytes_per_s[i]);
    for (int64_t i = 0; i < a->use_first[flows]; i++)
        assert_true(a->use[i].link == b->use[i].link && a->use[i].bytes == b->use[i].bytes &&
                    a->use[i].times == b->use[i].times);
}

static bool is_on_the_same_devices(const struct lab *lab)
{
    bool same = true;
    for (int32_t i = 1; i < lab->count; i++)
        same &= lab->pattern[i].first == lab->pattern[0].first &&
                lab->pattern[i].devices == lab->pattern[0].devices &&
                lab->pattern[i].from_first == lab->pattern[0].from_first &&
                lab->pattern[i].from_devices == lab->pattern[0].from_devices;
    return same;
}

/* With what is kept for graphs on this cluster, flows of all exchanges together are the same bit for bit: after some of
 * them, after other sizes, and again. A cache of another cluster keeps nothing of this one. */
static void assert_same_when_kept(struct lab *lab, const struct flows *flows)
{
    struct cluster other = *lab->cluster;
    const struct cluster *of[] = {lab->cluster, &other};
    for (size_t k = 0; k < COUNT_OF(of); k++) {
        struct flow_cache *cache = flow_cache_for(of[k]);
        struct flows again;
        for (int32_t count = 1; count <= lab->count; count++)
            for (int bytes = 1; bytes < 4; bytes += 2) {
                for (int32_t i = 0; i < lab->count; i++)
                    lab->exchange[i].bytes *= bytes;
                assert_int_equal(flows_find_kept(cache, lab->cluster, lab->pattern, lab->count,
                                                 lab->exchange, count, lab->arena, &again),
                                 WEFT_OK);
                for (int32_t i = 0; i < lab->count; i++)
                    lab->exchange[i].bytes /= bytes;
            }
        assert_int_equal(flows_find_kept(cache, lab->cluster, lab->pattern, lab->count,
                                         lab->exchange, lab->count, lab->arena, &again),
                         WEFT_OK);
        assert_same_flows(flows, &again);
        flow_cache_free(cache);
    }
}

/* And the same from a cache: when it knows the rows of some of the exchanges, after other sizes, and as at first. For
 * exchanges on different devices only the times are: a cache keeps them apart. */
static struct flows folded(struct lab *lab)
{
    struct flow_cache *cache = flow_cache_new();
    struct flows flows, again;
    assert_int_equal(flows_find(lab->cluster, lab->pattern, lab->count, lab->exchange, lab->count,
                                true, lab->arena, &flows),
                     WEFT_OK);
    for (int32_t i = 0; i < lab->count; i += 2)
        assert_int_equal(flows_find_again(cache, lab->cluster, lab->pattern, lab->count,
                                          &lab->exchange[i], 1, lab->arena, &again),
                         WEFT_OK);
    for (int round = 0; round < 3; round++) {
        for (int32_t i = 0; i < lab->count; i++)
            lab->exchange[i].bytes *= round == 1 ? 3 : 1;
        assert_int_equal(flows_find_again(cache, lab->cluster, lab->pattern, lab->count,
                                          lab->exchange, lab->count, lab->arena, &again),
                         WEFT_OK);
        for (int32_t i = 0; i < lab->count; i++)
            lab->exchange[i].bytes /= round == 1 ? 3 : 1;
        if (round != 1)
            (is_on_the_same_devices(lab) ? assert_same_flows : assert_same_times)(&flows, &again);
    }
    flow_cache_free(cache);
    assert_same_when_kept(lab, &flows);
    return flows;
}

/* Every group of every pattern, pattern by pattern. */
static struct flows unfolded(struct lab *lab, struct exchange *all, int32_t *count)
{
    struct flows flows;
    *count = 0;
    for (int32_t p = 0; p < lab->count; p++)
        for (int64_t g = 0; g < pattern_groups(&lab->pattern[p]); g++) {
            assert_true(*count < MAX_EXCHANGES);
            all[*count] = lab->exchange[p];
            all[(*count)++].group = g;
        }
    assert_int_equal(
        flows_find(lab->cluster, lab->pattern, lab->count, all, *count, false, lab->arena, &flows),
        WEFT_OK);
    return flows;
}

/* ---- the sums, naively ----------------------------------------------------------------------- */

static struct traffic_list traffic_of(struct lab *lab, const struct exchange *exchange,
                                      int64_t group)
{
    struct traffic_list list = {0};
    struct group devices = pattern_group(&lab->pattern[exchange->pattern], group);
    if (exchange->kind == EXCHANGE_COLLECTIVE)
        assert_int_equal(collective_traffic(lab->cluster, (enum collective)exchange->collective,
                                            &devices, exchange->bytes, lab->arena, &list),
                         WEFT_OK);
    else
        assert_int_equal(ledger_copy(ledger_new(lab->cluster, lab->arena), devices.first,
                                     exchange->kind == EXCHANGE_TO_HOST, exchange->bytes,
                                     lab->arena, &list),
                         WEFT_OK);
    return list;
}

static double bytes_on(const struct traffic_list *list, struct link_id link)
{
    double sum = 0;
    for (size_t i = 0; i < list->len; i++) {
        struct link_id other = list->data[i].link;
        if (other.unit == link.unit && other.tier == link.tier && other.link == link.link &&
            other.reverse == link.reverse)
            sum += list->data[i].bytes;
    }
    return sum;
}

/* What all groups of the exchange's pattern put on a link. */
static double sum_on(struct lab *lab, const struct exchange *exchange, struct link_id link)
{
    double sum = 0;
    for (int64_t g = 0; g < pattern_groups(&lab->pattern[exchange->pattern]); g++) {
        struct traffic_list list = traffic_of(lab, exchange, g);
        sum += bytes_on(&list, link);
    }
    return sum;
}

/* ---- max-min fair speeds, naively ------------------------------------------------------------ */

/* Progress per ns of each flow when all transfer at once; share.h's water-filling in terms of the
 * speed at the busiest link. */
static void speeds(const struct flows *flows, double *speed)
{
    bool *settled = calloc((size_t)flows->flows, sizeof *settled);
    double *pace = calloc((size_t)flows->flows, sizeof *pace);
    double *peak = calloc((size_t)flows->flows, sizeof *peak);
    for (int32_t f = 0; f < flows->flows; f++) {
        double ns = (double)flows->least_ns[f];
        for (int64_t i = flows->use_first[f]; i < flows->use_first[f + 1]; i++) {
            peak[f] = fmax(peak[f], flows->use[i].bytes);
            ns = fmax(ns, flows->use[i].bytes / flows->link_bytes_per_s[flows->use[i].link] * 1e9);
        }
        pace[f] = ns > 0 ? peak[f] / ns : 0;
        settled[f] = pace[f] == 0;
    }
    for (;;) {
        double *used = calloc((size_t)flows->links + 1, sizeof *used);
        double *wants = calloc((size_t)flows->links + 1, sizeof *wants);
        double level = INFINITY;
        for (int32_t f = 0; f < flows->flows; f++) {
            if (!settled[f])
                level = fmin(level, pace[f]);
            for (int64_t i = flows->use_first[f]; i < flows->use_first[f + 1] && peak[f] > 0; i++) {
                const struct link_use *use = &flows->use[i];
                double part = use->bytes / peak[f] * use->times;
                *(settled[f] ? &used[use->link] : &wants[use->link]) +=
                    settled[f] ? part * speed[f] : part;
            }
        }
        for (int32_t l = 0; l < flows->links; l++) {
            double room = flows->link_bytes_per_s[l] * 1e-9 - used[l];
            if (wants[l] > 0)
                level = fmin(level, fmax(room, 0) / wants[l]);
        }
        bool any = false;
        for (int32_t f = 0; f < flows->flows && level < INFINITY; f++) {
            bool stops = !settled[f] && pace[f] <= level * (1 + 1e-9);
            for (int64_t i = flows->use_first[f]; i < flows->use_first[f + 1]; i++) {
                int32_t l = flows->use[i].link;
                double room = flows->link_bytes_per_s[l] * 1e-9 - used[l];
                stops |= !settled[f] && room <= level * wants[l] * (1 + 1e-9);
            }
            if (!stops)
                continue;
            speed[f] = level;
            settled[f] = any = true;
        }
        free(used);
        free(wants);
        if (!any)
            break;
    }
    for (int32_t f = 0; f < flows->flows; f++)
        speed[f] = peak[f] > 0 ? speed[f] / peak[f] : 0;
    free(settled);
    free(pace);
    free(peak);
}

/* ---- random graphs --------------------------------------------------------------------------- */

static const char *const CLUSTERS[] = {"dgx-a100:4",   "dgx-a100-100g:4", "dgx-a100-400g:4",
                                       "dgx-v100:4",   "p3dn:2",          "titan-rtx:4",
                                       "piz-daint:64", "dgx-h100:2",      "dgx-a100:24",
                                       "gcp-a2-16:2",  "titan-xp",        "fold3d-a100:4"};

static int64_t power_below(struct rng *rng, int64_t bound)
{
    int64_t power = 1;
    while (2 * power <= bound && rng_below(rng, 3))
        power *= 2;
    return power;
}

/* Two stages of equal size, now and then not at the start of a node. */
static void random_graph(struct lab *lab, struct rng *rng)
{
    int64_t all = cluster_devices(lab->cluster), stage = 1;
    while (4 * stage <= all)
        stage *= 2;
    stage = rng_below(rng, 3) && stage > 2 ? stage / 2 : stage;
    int64_t spare = all - 2 * stage,
            first = spare && !rng_below(rng, 3) ? rng_below(rng, spare) : 0;
    for (int s = 0; s < 2; s++) {
        int64_t at = first + s * stage;
        int64_t tensor = power_below(rng, stage), data = power_below(rng, stage / tensor);
        int64_t bytes = MIB * (1 + rng_below(rng, 64));
        if (tensor > 1)
            add_digit(lab, (enum collective)rng_below(rng, COLLECTIVE_SEND), at, stage, 1, tensor,
                      bytes);
        if (data > 1)
            add_digit(lab, (enum collective)rng_below(rng, COLLECTIVE_SEND), at, stage,
                      stage / data, data, bytes / 2 + 1);
        if (rng_below(rng, 3) == 0)
            add_copies(lab, s == 0, at, stage, bytes);
    }
    add_send(lab, first, stage, first + stage, stage, MIB * (1 + rng_below(rng, 64)));
    if (rng_below(rng, 2))
        add_send(lab, first + stage, stage, first, stage, MIB * (1 + rng_below(rng, 64)));
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

/* flows.h (1) to (4) for one group, by sums over all groups. */
static void check_group_flow(struct lab *lab, const struct flows *flows, int32_t f,
                             const struct exchange *exchange)
{
    struct traffic_list list = traffic_of(lab, exchange, exchange->group);
    double alone_s = 0, sibling_s = 0, scale = 1, least_s = (double)flows->least_ns[f] * 1e-9;
    assert_int_equal(flows->use_first[f + 1] - flows->use_first[f], least_s > 0 ? list.len : 0);
    for (size_t i = 0; i < list.len; i++) {
        double bytes_per_s = link_reached_per_s(lab->cluster, list.data[i].link);
        alone_s = fmax(alone_s, list.data[i].bytes / bytes_per_s);
        sibling_s = fmax(sibling_s, sum_on(lab, exchange, list.data[i].link) / bytes_per_s);
    }
    if (alone_s > least_s)
        scale = least_s / alone_s;
    for (int64_t i = flows->use_first[f]; i < flows->use_first[f + 1]; i++) {
        const struct link_use *use = &flows->use[i];
        assert_true(near(use->bytes, scale * bytes_on(&list, flows->link[use->link])));
        assert_true(use->times == 1);
    }
    double together_ns = fmax(least_s, scale * sibling_s) * 1e9;
    assert_true(fabs((double)(flows->together_ns[f] - flows->latency_ns[f]) - together_ns) <= 1.01);
    if (exchange->kind != EXCHANGE_COLLECTIVE)
        return;
    struct collective_cost cost;
    struct group group = pattern_group(&lab->pattern[exchange->pattern], exchange->group);
    assert_int_equal(collective_time(lab->cluster, (enum collective)exchange->collective, &group,
                                     exchange->bytes, &cost),
                     WEFT_OK);
    assert_int_equal(flows->latency_ns[f] + flows->least_ns[f], cost.ns);
}

static void sums_are_those_of_all_groups(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 3);
    for (int round = 0; round < 60; round++) {
        struct lab lab;
        static struct exchange all[MAX_EXCHANGES];
        int32_t count;
        lab_open(&lab, CLUSTERS[rng_below(&rng, COUNT_OF(CLUSTERS))]);
        random_graph(&lab, &rng);
        struct flows flows = unfolded(&lab, all, &count);
        for (int32_t f = 0; f < count; f += 1 + (int32_t)rng_below(&rng, 8))
            check_group_flow(&lab, &flows, f, &all[f]);
        lab_close(&lab);
    }
}

/* Groups of 3 on nodes of 8: some lie across two nodes, and the next one lies where a group of another node did, which is
 * looked up. What the one before it used of the network is none of its own. */
static void groups_after_one_across_nodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CLUSTERS); i++) {
        struct lab lab;
        static struct exchange all[MAX_EXCHANGES];
        int32_t count;
        lab_open(&lab, CLUSTERS[i]);
        add_digit(&lab, COLLECTIVE_ALL_REDUCE, 0, cluster_devices(lab.cluster) / 3 * 3, 1, 3,
                  64 * MIB);
        struct flows flows = unfolded(&lab, all, &count);
        for (int32_t f = 0; f < count; f++)
            check_group_flow(&lab, &flows, f, &all[f]);
        lab_close(&lab);
    }
}

/* flows.h, I3 and I4: where all are alike, every group has its representative's times, and its
 * speed when everything runs at once; else the representative is the slowest. */
static void one_stands_for_all(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 5);
    int alike = 0, differ = 0;
    for (int round = 0; round < 400; round++) {
        struct lab lab;
        static struct exchange all[MAX_EXCHANGES];
        int32_t count;
        lab_open(&lab, CLUSTERS[rng_below(&rng, COUNT_OF(CLUSTERS))]);
        random_graph(&lab, &rng);
        struct flows few = folded(&lab), many = unfolded(&lab, all, &count);
        double few_speed[MAX_PATTERNS] = {0}, *many_speed = calloc((size_t)count, sizeof(double));
        int64_t slowest_ns[MAX_PATTERNS] = {0};
        speeds(&few, few_speed);
        speeds(&many, many_speed);
        for (int32_t f = 0; f < count; f++) {
            int32_t p = all[f].pattern;
            slowest_ns[p] =
                many.together_ns[f] > slowest_ns[p] ? many.together_ns[f] : slowest_ns[p];
            if (!few.alike)
                continue;
            assert_int_equal(few.latency_ns[p], many.latency_ns[f]);
            assert_int_equal(few.least_ns[p], many.least_ns[f]);
            assert_int_equal(few.together_ns[p], many.together_ns[f]);
            assert_true(near(few_speed[p], many_speed[f]));
        }
        for (int32_t p = 0; p < lab.count; p++)
            assert_int_equal(few.together_ns[p], slowest_ns[p]);
        *(few.alike ? &alike : &differ) += 1;
        free(many_speed);
        lab_close(&lab);
    }
    printf("alike: %d of %d\n", alike, alike + differ);
    assert_true(alike > 100 && differ > 20);
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* The share of its links' time that the exchange's slowest link has with its siblings. */
static double most_times(const struct flows *flows, int32_t f)
{
    double most = 0;
    for (int64_t i = flows->use_first[f]; i < flows->use_first[f + 1]; i++)
        most = fmax(most, flows->use[i].times);
    return most;
}

/* Eight data-parallel groups, one device of each of 4 nodes: with eight NICs nobody is in the way;
 * with one, each has an eighth of 12.5 GB/s for its 2 * 3/4 GiB. */
static void data_groups_share_the_nics(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, "dgx-a100:4");
    add_digit(&lab, COLLECTIVE_ALL_REDUCE, 0, 32, 8, 4, 1024 * MIB);
    struct flows flows = folded(&lab);
    assert_true(flows.alike);
    assert_int_equal(flows.together_ns[0], flows.latency_ns[0] + flows.least_ns[0]);
    assert_float_equal(most_times(&flows, 0), 1, 0);
    lab_close(&lab);

    lab_open(&lab, "dgx-a100-100g:4");
    add_digit(&lab, COLLECTIVE_ALL_REDUCE, 0, 32, 8, 4, 1024 * MIB);
    flows = folded(&lab);
    assert_true(flows.alike); /* for all that the ways to the NIC differ: it covers them */
    assert_float_equal(most_times(&flows, 0), 8, 0);
    double together_s = (double)(flows.together_ns[0] - flows.latency_ns[0]) * 1e-9;
    double reached = link_reached_per_s(lab.cluster, (struct link_id){.tier = 0});
    assert_true(reached > 0.9 * 12.5e9 && reached < 12.5e9);
    assert_float_equal(together_s, 8 * 1.5 * 1024 * 1024 * 1024 / reached, 1e-6);
    lab_close(&lab);
}

static void groups_inside_a_node_do_not_meet(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, "dgx-a100:2");
    add_digit(&lab, COLLECTIVE_ALL_REDUCE, 0, 16, 1, 4, 64 * MIB);
    struct flows flows = folded(&lab);
    assert_true(flows.alike);
    assert_float_equal(most_times(&flows, 0), 1, 0);
    assert_int_equal(flows.together_ns[0], flows.latency_ns[0] + flows.least_ns[0]);
    lab_close(&lab);
}

/* Eight pairs from node 0 to node 1 over one NIC; and a copy has what a PCI link reaches of
 * 31.5 GB/s, of which the two of a switch have half. */
static void sends_and_copies_share_too(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, "dgx-a100-200g:2");
    add_send(&lab, 0, 8, 8, 8, 64 * MIB);
    add_copies(&lab, true, 0, 8, 64 * MIB);
    struct flows flows = folded(&lab);
    double bytes = 64.0 * 1024 * 1024, pci = 0;
    double nic = link_reached_per_s(lab.cluster, (struct link_id){.tier = 0});
    assert_float_equal((double)(flows.together_ns[0] - flows.latency_ns[0]) * 1e-9, 8 * bytes / nic,
                       1e-4); /* a send has a little less of the NIC */
    for (int32_t i = 0; i < lab.cluster->node.links; i++)
        if (lab.cluster->node.link[i].kind == LINK_PCI)
            pci = link_reached_per_s(lab.cluster, (struct link_id){.tier = -1, .link = (int16_t)i});
    assert_float_equal((double)flows.least_ns[1] * 1e-9, bytes / fmin(25e9, pci), 1e-6);
    assert_float_equal((double)flows.together_ns[1] * 1e-9, 2 * bytes / pci, 1e-6);
    assert_false(flows.alike); /* the NIC hangs on the first devices' switch */
    lab_close(&lab);
}

/* In a cube mesh, 0-1 have one wire and 2-3 two; its halves are mirror images. */
static void pairs_of_a_cube_mesh_differ(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, "dgx-v100");
    add_digit(&lab, COLLECTIVE_ALL_REDUCE, 0, 8, 1, 2, 64 * MIB);
    struct flows flows = folded(&lab);
    struct group slow = group_range(0, 2, 1);
    struct collective_cost cost;
    assert_false(flows.alike);
    assert_int_equal(collective_time(lab.cluster, COLLECTIVE_ALL_REDUCE, &slow, 64 * MIB, &cost),
                     WEFT_OK);
    assert_int_equal(flows.together_ns[0], cost.ns);
    lab_close(&lab);

    lab_open(&lab, "dgx-v100");
    add_digit(&lab, COLLECTIVE_ALL_REDUCE, 0, 8, 1, 8, 64 * MIB);
    assert_true(folded(&lab).alike);
    lab_close(&lab);
}

/* From device 4 on, groups of 8 all lie half on one node and half on the next; from device 6 on,
 * the second group of 4 has a node to itself and the first does not. */
static void stages_in_the_middle_of_a_node(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, "dgx-a100:4");
    add_digit(&lab, COLLECTIVE_ALL_REDUCE, 4, 16, 1, 8, 64 * MIB);
    assert_true(folded(&lab).alike);
    lab.count = 0;
    add_digit(&lab, COLLECTIVE_ALL_REDUCE, 6, 12, 1, 4, 64 * MIB); /* 6..9, 10..13, 14..17 */
    assert_false(folded(&lab).alike);
    lab_close(&lab);
}

/* flows.h, I2: a copy takes what the host allows, where that is less than its links. */
static void copies_take_what_the_host_allows(void **state)
{
    (void)state;
    for (int to_host = 0; to_host < 2; to_host++) {
        struct lab lab;
        lab_open(&lab, "dgx-a100");
        add_copies(&lab, to_host, 0, 8, MIB);
        struct flows fast = folded(&lab);
        for (int32_t i = 0; i < fast.links; i++) { /* up from the device, down to it */
            const struct link *link = &lab.cluster->node.link[fast.link[i].link];
            bool leaves = (fast.link[i].reverse ? link->b : link->a) == 0;
            if (link->a == 0 || link->b == 0)
                assert_int_equal(leaves, to_host);
        }
        assert_true(fast.links > 0);
        lab.cluster->node.device.host_bytes_per_s = 1e9;
        struct flows slow = folded(&lab);
        assert_true(fast.least_ns[0] < 200000);
        assert_int_equal(slow.least_ns[0], MIB); /* 1 ns a byte */
        assert_int_equal(slow.latency_ns[0], 0);
        lab_close(&lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_all_groups),
        cmocka_unit_test(groups_after_one_across_nodes),
        cmocka_unit_test(one_stands_for_all),
        cmocka_unit_test(data_groups_share_the_nics),
        cmocka_unit_test(groups_inside_a_node_do_not_meet),
        cmocka_unit_test(sends_and_copies_share_too),
        cmocka_unit_test(pairs_of_a_cube_mesh_differ),
        cmocka_unit_test(stages_in_the_middle_of_a_node),
        cmocka_unit_test(copies_take_what_the_host_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

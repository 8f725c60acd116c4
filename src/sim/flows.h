/* flows.h - a graph's exchanges as the engine sees them: which links each uses, and how long it
 * takes when nothing is in its way.
 *
 * Exchange i is flow i. With T the time of collective_time, C_l a link's bandwidth and b_l the
 * bytes that collective_traffic puts there,
 *
 *   latency  = T(1 byte)                                                                    (1)
 *   least    = T(bytes) - latency                                                           (2)
 *   times_l  = (sum of b_l over all groups of the pattern) / own b_l; 1 unfolded            (3)
 *   together = latency + max(least, max_l sum b_l / C_l)                                    (4)
 *
 *   I1  Alone a flow takes T(bytes). If its traffic would take longer than (2) allows (a switch
 *       that adds up, a measured bandwidth above that of the wires), all b_l shrink until it does
 *       not.
 *   I2  A copy between a device and its host takes bytes / host_bytes_per_s alone, has no latency,
 *       and uses the links to the nearest socket, where it may meet traffic to a NIC.
 *   I3  Folded, a link stands for its class: links of one bandwidth on which every load (a pattern
 *       with a kind of traffic) puts equally many bytes in all. A class is left out if it is never
 *       full unless another class that all its users use is full. Groups of a load are *alike* if
 *       they take the same time alone, their busiest link carries the same and they use the same
 *       classes of those that are left. Then whatever is full for one group is full for all of its
 *       load: at equal speeds each has a full link on which nobody is faster, which is what makes
 *       speeds max-min fair (share.h), and one stands for all of them.
 *   I4  If groups are not alike, the slowest by (4) stands for all.
 */
#ifndef WEFT_SIM_FLOWS_H
#define WEFT_SIM_FLOWS_H

#include "compile/compile.h"
#include "sim/share.h"

struct flows {
    int32_t links, flows;
    double *link_bytes_per_s;
    struct link_id *link; /* folded: one link of the class */
    int64_t *latency_ns, *least_ns;
    int64_t *together_ns; /* (4): while its siblings do the same, and nothing else runs */
    int64_t *use_first;   /* per flow: row of `use` */
    struct link_use *use;
    bool alike; /* I3, for all loads; unfolded no flow stands for others, and it is true */
};
/* A copy names a pattern without digits, and its device within the pattern as its group. */
weft_status flows_find(const struct cluster *cluster, const struct pattern *patterns,
                       int32_t pattern_count, const struct exchange *exchanges,
                       int32_t exchange_count, bool folded, struct arena *keep, struct flows *out);

/* What the flows of one set of patterns have in common, whatever their bytes, kept for the next
 * graph that has the same patterns. Serves one cluster and one thread. Exchanges are surveyed together only
 * if they are on the same devices, so that a graph of two stages needs nothing but what each has by itself,
 * and between stages: their links are not shared, whoever wants that takes flows_find. */
struct flow_cache;
struct flow_cache *flow_cache_new(void);
void flow_cache_free(struct flow_cache *cache);
/* flows_find, folded. */
weft_status flows_find_again(struct flow_cache *cache, const struct cluster *cluster,
                             const struct pattern *patterns, int32_t pattern_count,
                             const struct exchange *exchanges, int32_t exchange_count,
                             struct arena *keep, struct flows *out);

/* A cache for graphs whose exchanges are surveyed all together, as flows_find does. It serves this cluster, and any
 * number of threads, one at a time: what it keeps is the same whoever asks first. */
struct flow_cache *flow_cache_for(const struct cluster *cluster);
/* Whether a cache is one for any number of threads on this cluster; no cache is none. flows_find_again takes it, too. */
bool flow_cache_serves(const struct flow_cache *cache, const struct cluster *cluster);
/* flows_find, folded, with such a cache. On another cluster nothing is kept. */
weft_status flows_find_kept(struct flow_cache *cache, const struct cluster *cluster,
                            const struct pattern *patterns, int32_t pattern_count,
                            const struct exchange *exchanges, int32_t exchange_count,
                            struct arena *keep, struct flows *out);

#endif

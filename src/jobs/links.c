/* links.c - the links of the shared cluster, and what the flows of all jobs put on them (jobs.h, I3 and I4).
 *
 *   I1  A link of the shared cluster has one number, whichever job uses it.
 *   I2  A flow lists a link once: bytes that meet on it are added up.
 */
#include <string.h>

#include "jobs/room.h"

struct linking {
    struct merged *m;
    struct hash_map number; /* by the hash of a link_id */
    ARRAY(double) bytes_per_s;
    ARRAY(struct link_use) use;
    size_t flow_first; /* of `use`: where the current flow begins */
};

static bool same_link(struct link_id a, struct link_id b)
{
    return a.unit == b.unit && a.tier == b.tier && a.link == b.link && a.reverse == b.reverse;
}

static bool is_wanted(const void *links, int64_t value, const void *wanted)
{
    return same_link(((const struct link_id *)links)[value], *(const struct link_id *)wanted);
}

/* What faults leave of a link. */
static double share_left(const struct jobs_request *request, struct link_id link)
{
    double left = 1;
    for (int32_t i = 0; i < request->faults; i++)
        if (link.tier > 0 && request->fault[i].tier == link.tier &&
            request->fault[i].unit == link.unit)
            left *= request->fault[i].left;
    return left;
}

static int32_t link_number(struct linking *l, struct link_id link)
{
    struct merged *m = l->m;
    int64_t key[] = {link.unit, link.tier, link.link, link.reverse};
    uint64_t hash = hash_bytes(key, sizeof key, 0);
    int64_t found = hash_get_same(&l->number, hash, is_wanted, m->link.data, &link);
    if (found >= 0)
        return (int32_t)found;
    int32_t number = (int32_t)m->link.len;
    array_push(m->keep, &m->link, link);
    array_push(m->keep, &l->bytes_per_s,
               link_reached_per_s(m->request->cluster, link) * share_left(m->request, link));
    *hash_at_same(&l->number, m->keep, hash, is_wanted, m->link.data, &link) = number;
    return number;
}

/* ---- from a job's links to the cluster's ----------------------------------------------------- */

/* A run of nodes of one tier is in the unit of its first node. */
static struct link_id placed_link(const struct jobs_request *request, int32_t job,
                                  struct link_id link)
{
    const struct placement *at = &request->job[job].placement;
    if (link.tier <= 0) {
        link.unit = at->node[link.unit];
        return link;
    }
    int64_t run = request->job[job].plan->cluster->fabric.tier[link.tier - 1].nodes;
    link.unit = at->node[link.unit * run] / request->cluster->fabric.tier[link.tier - 1].nodes;
    return link;
}

static bool has_failed(const struct jobs_request *request, int64_t node, int16_t nic)
{
    for (int32_t i = 0; i < request->faults; i++)
        if (request->fault[i].tier == 0 && request->fault[i].unit == node &&
            request->fault[i].nic == nic)
            return true;
    return false;
}

static void add_use(struct linking *l, struct link_id link, double bytes, double times)
{
    int32_t number = link_number(l, link);
    for (size_t i = l->flow_first; i < l->use.len; i++)
        if (l->use.data[i].link == number) { /* I2 */
            l->use.data[i].bytes += bytes;
            return;
        }
    array_push(l->m->keep, &l->use, ((struct link_use){number, bytes, times}));
}

/* The bytes of a failed NIC, in equal parts on the others of its node; fault_read has left it one. */
static void add_detour(struct linking *l, struct link_id link, double bytes, double times)
{
    const struct jobs_request *request = l->m->request;
    int16_t nics = (int16_t)request->cluster->node.nics, sound = 0;
    for (int16_t i = 0; i < nics; i++)
        sound += !has_failed(request, link.unit, i);
    for (int16_t i = 0; i < nics; i++) {
        link.link = i;
        if (!has_failed(request, link.unit, i))
            add_use(l, link, bytes / sound, times);
    }
}

static void add_flow(struct linking *l, int32_t job, int32_t flow)
{
    const struct prediction *alone = l->m->job[job].alone;
    const struct engine_graph *own = &alone->engine;
    l->flow_first = l->use.len;
    for (int64_t i = own->flow_use_first[flow]; i < own->flow_use_first[flow + 1]; i++) {
        const struct link_use *use = &own->flow_use[i];
        struct link_id link = placed_link(l->m->request, job, alone->link[use->link]);
        if (link.tier == 0 && has_failed(l->m->request, link.unit, link.link))
            add_detour(l, link, use->bytes, use->times);
        else
            add_use(l, link, use->bytes, use->times);
    }
}

void merge_links(struct merged *m)
{
    struct engine_graph *g = &m->graph;
    struct linking l = {.m = m};
    int64_t *first = ARENA_ARRAY(m->keep, int64_t, (size_t)g->flows + 1);
    for (int32_t j = 0; j < m->request->jobs; j++)
        for (int32_t f = 0; f < m->job[j].alone->engine.flows; f++) {
            add_flow(&l, j, f);
            first[m->job[j].flow + f + 1] = (int64_t)l.use.len;
        }
    g->links = (int32_t)m->link.len;
    g->link_bytes_per_s = l.bytes_per_s.data;
    g->flow_use_first = first;
    g->flow_use = l.use.data;
}

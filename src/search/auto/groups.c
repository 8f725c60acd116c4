/* groups.c - sharded state inside groups of replicas, and copies of it across them (room.h): HSDP, Megatron-LM's
 * distributed-optimizer instances.
 *
 * With r replicas, of which g are in one node, state that is divided by g instead of r takes r / g times as much memory. Weights
 * are then gathered, and gradients scattered, inside a node alone; across nodes 1 / g of the gradients is summed, once.
 *
 *   I1  Only if the target has groups (without one, the target whose software is asked for), the user has not said how many, and
 *       there are several nodes.
 *   I2  Tried are the best plans so far whose state is sharded over several nodes; and, because weights that are gathered
 *       across nodes may have kept a plan from being among those, the best points of the grid with ZeRO-3 in such groups.
 */
#include <string.h>

#include "search/auto/pins.h"
#include "search/auto/room.h"

enum { MOST_SHARDED = 3, MOST_GATHERED = 3 };

/* Replicas of complete degrees in a node; 0: a node has not a whole number of them. */
static int64_t replicas_in_node(const struct cluster *cluster, const struct degrees *d)
{
    int64_t cp = d->cp > 1 ? d->cp : 1;
    return cluster->node.devices % (d->tp * cp) ? 0 : cluster->node.devices / d->tp;
}

/* The groups that each fill a node; 0: the replicas are in one node, or nodes would not be filled. */
static int64_t groups_of(const struct cluster *cluster, const struct degrees *d)
{
    int64_t replicas = d->dp * (d->cp > 1 ? d->cp : 1), inside = replicas_in_node(cluster, d);
    return inside > 1 && replicas > inside && replicas % inside == 0 ? replicas / inside : 0;
}

/* I1 */
static bool has_groups(const struct plan_request *request)
{
    const struct target *target = pins_target(request);
    return target && target->can.replicates && !request->pins.replicate &&
           !request->pins.stage_run && !request->options.batch_auto &&
           cluster_devices(request->cluster) > request->cluster->node.devices;
}

static weft_status try_groups(struct join *join, struct degrees d)
{
    const struct trial *trial;
    size_t before = join->out->trials.len;
    weft_status status = WEFT_OK;
    d.replicate = groups_of(join->request->cluster, &d);
    if (!d.replicate)
        return WEFT_OK;
    TRY(try_degrees(join->request, join->cost, &d, join->out, &trial));
    if (join->out->trials.len > before) {
        join->out->trials.data[before].found_by = "auto in groups";
        join_report(join);
    }
done:
    return status;
}

/* The best trials of degrees that fit and have sharded state in several nodes, the best first. */
static size_t list_sharded(const struct join *join, struct degrees out[MOST_SHARDED])
{
    const struct planned *planned = join->out;
    double ns[MOST_SHARDED + 1];
    struct degrees found[MOST_SHARDED + 1];
    size_t count = 0;
    for (size_t i = 0; i < planned->trials.len; i++) {
        const struct trial *trial = &planned->trials.data[i];
        size_t at = count;
        if (!trial->fits || trial->plan || !trial->degrees.shard ||
            !groups_of(join->request->cluster, &trial->degrees))
            continue;
        while (at > 0 && ns_per_sample(trial) < ns[at - 1])
            at--;
        memmove(&ns[at + 1], &ns[at], (count - at) * sizeof *ns);
        memmove(&found[at + 1], &found[at], (count - at) * sizeof *found);
        ns[at] = ns_per_sample(trial);
        found[at] = trial->degrees;
        count += count < MOST_SHARDED;
    }
    memcpy(out, found, count * sizeof *out);
    return count;
}

/* I2: of the grid with weights that are gathered inside a node. */
static weft_status try_gathered(struct join *join, const struct plan_request *asked)
{
    struct arena *scratch = arena_new();
    struct plan_request request = *asked;
    const struct trial *best = join_best(join->out, NULL);
    struct grid grid;
    weft_status status = WEFT_OK;
    if (request.pins.has_shard && request.pins.shard != 3)
        goto done;
    request.pins.has_shard = true;
    request.pins.shard = 3;
    request.pins.replicate = cluster_devices(request.cluster) / request.cluster->node.devices;
    request.known_ns = best ? (int64_t)((double)best->iteration_ns / (1 - AUTO_FAR_OFF)) : 0;
    TRY(grid_search(&request, join->cost, MOST_GATHERED, scratch, &grid));
    join->out->candidates += grid.estimates;
    for (size_t i = 0; i < grid.best.len && !join_over(join); i++) {
        const struct grid_point *point = &grid.best.data[i];
        double least = (double)point->iteration_ns * (1 - AUTO_FAR_OFF);
        if (point->fits && !(best && least > (double)best->iteration_ns))
            TRY(try_groups(join, point->degrees));
        best = join_best(join->out, NULL);
    }
done:
    arena_free(scratch);
    return status;
}

weft_status share_in_groups(struct join *join)
{
    struct degrees base[MOST_SHARDED];
    struct plan_request divided;
    weft_status status = WEFT_OK;
    if (!has_groups(join->request))
        return WEFT_OK;
    size_t count = list_sharded(join, base);
    for (size_t i = 0; i < count && !join_over(join); i++)
        TRY(try_groups(join, base[i]));
    if (!join_over(join))
        TRY(try_gathered(join, join->request));
    if (!join_over(join) && join_divides(join, &divided))
        TRY(try_gathered(join, &divided));
done:
    return status;
}

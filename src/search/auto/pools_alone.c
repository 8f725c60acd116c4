/* pools_alone.c - whether a cluster of several device types is better than its pools (cluster/pools.h) by themselves: the
 * same question is asked of each pool alone, with a quick search, and the answer is said in words.
 *
 *   I1  Trials on a pool alone are on another cluster: they are not among the answer's.
 */
#include "search/auto/room.h"

static void free_trials(struct planned *planned)
{
    for (size_t i = 0; i < planned->trials.len; i++)
        plan_free(planned->trials.data[i].plan);
}

static const char *words_of(struct arena *keep, const char *name, const struct trial *own,
                            const struct trial *best)
{
    if (!own)
        return arena_printf(keep, "%s alone: no plan fits", name);
    double ratio = best ? ns_per_sample(own) / ns_per_sample(best) : 0;
    const char *how = !best        ? ", and none fits on all"
                      : ratio >= 1 ? arena_printf(keep, ", %.2f times as long as all", ratio)
                                   : arena_printf(keep,
                                                  ", %.2f of the time on all: it is faster without "
                                                  "the others",
                                                  ratio);
    return arena_printf(keep, "%s alone takes %s%s (%s)", name,
                        show_seconds((double)own->iteration_ns).s, how, own->text);
}

static weft_status ask_alone(struct join *join, int32_t pool)
{
    struct planned *out = join->out;
    struct plan_request request = *join->request;
    struct planned found = {.arena = out->arena, .planner = out->planner};
    request.cluster = cluster_pool(join->request->cluster, pool);
    request.flows = NULL;
    request.progress = NULL;
    request.options.quick = true;
    weft_status status = auto_find(&request, &found);
    if (status == WEFT_FAILURE)
        return status;
    error_clear();
    array_push(out->arena, &out->reasons,
               words_of(out->arena, cluster_pool_name(join->request->cluster, pool),
                        status ? NULL : join_best(&found, NULL), join_best(out, NULL)));
    free_trials(&found);
    return WEFT_OK;
}

weft_status ask_pools_alone(struct join *join)
{
    weft_status status = WEFT_OK;
    for (int32_t p = 0; p < join->request->cluster->pools && !join_over(join); p++)
        TRY(ask_alone(join, p));
done:
    return status;
}

/* would_fit.c - changes to a request that has no answer (would_fit.h). */
#include "search/auto/would_fit.h"

#include "search/auto/grid.h"

/* This many points of a changed request are simulated. */
enum { POINTS_TRIED = 4 };
/* At most this many times as many nodes are tried. */
enum { MOST_NODES = 64 };

/* Each of these makes one change to the request; false: it changes nothing. */
static bool allow_all(struct plan_request *request)
{
    bool forbids = request->forbids.len > 0;
    request->forbids.len = 0;
    return forbids;
}

static bool recompute_all(struct plan_request *request)
{
    bool pinned = request->pins.has_recompute;
    request->pins.has_recompute = false;
    request->pins.recompute = RECOMPUTE_NONE;
    return pinned;
}

static bool shard_all(struct plan_request *request)
{
    bool pinned = request->pins.has_shard;
    request->pins.has_shard = false;
    request->pins.shard = 0;
    return pinned;
}

static bool smallest_steps(struct plan_request *request)
{
    bool pinned = request->pins.micro_batch > 1;
    request->pins.micro_batch = 0;
    return pinned;
}

static bool any_layout(struct plan_request *request)
{
    struct degrees *d = &request->pins;
    bool pinned = d->tp || d->pp || d->dp || d->cp || d->ep || d->etp || d->pieces || d->segments ||
                  d->schedule;
    d->tp = d->pp = d->dp = d->cp = d->cp_heads = d->ep = d->etp = d->pieces = d->segments = 0;
    d->encoder_tp = d->encoder_dp = d->encoder_pp = 0;
    d->schedule = NULL;
    return pinned;
}

static bool offload_checkpoints(struct plan_request *request)
{
    bool already = request->pins.offload;
    request->pins.offload = true;
    return !already;
}

static bool offload_layers_too(struct plan_request *request)
{
    unsigned all = model_offload_modules(request->model), before = request->pins.offload_modules;
    request->pins.offload_modules = all;
    return all != before;
}

static bool state_on_host(struct plan_request *request)
{
    bool already = request->pins.optimizer_offload > 0;
    request->pins.optimizer_offload = 1;
    return !already;
}

static bool all_memory(struct plan_request *request)
{
    bool limited = request->pins.memory.limit_bytes || request->pins.memory.has_margin;
    request->pins.memory = (struct memory_terms){0};
    return limited;
}

/* Cheapest first; each is made in addition to those before it. */
static const struct {
    const char *words;
    bool (*change)(struct plan_request *request);
} CHANGES[] = {
    {"recomputation left open", recompute_all},
    {"state sharding left open", shard_all},
    {"the micro-batch left open", smallest_steps},
    {"nothing forbidden", allow_all},
    {"degrees and schedule left open", any_layout},
    {"checkpoints in host memory (--offload)", offload_checkpoints},
    {"optimizer state in host memory (--optimizer-offload 1)", state_on_host},
    {"what layers keep in host memory (--offload-modules)", offload_layers_too},
    {"all of the device's memory", all_memory},
};

/* The best plan of a changed request that fits when simulated, as a trial of `tried`; or NULL. */
static weft_status find_fitting(const struct plan_request *request, struct cost *cost,
                                struct planned *tried, const struct trial **out)
{
    struct arena *scratch = arena_new();
    struct grid grid;
    weft_status status;
    *out = NULL;
    TRY(grid_search_fitting(request, cost, POINTS_TRIED, scratch, &grid));
    for (size_t i = 0; i < grid.best.len && !*out; i++) {
        const struct trial *trial;
        TRY(try_degrees(request, cost, &grid.best.data[i].degrees, tried, &trial));
        *out = trial && trial->fits ? trial : NULL;
    }
done:
    arena_free(scratch);
    return status;
}

static const char *sentence(struct arena *keep, const char *words, const struct trial *trial)
{
    return arena_printf(keep, "it would fit with %s: %s, %s", words, trial->text,
                        show_seconds((double)trial->iteration_ns).s);
}

/* Clusters are known by their names, as in plan files; a cluster without such a name is not
 * enlarged. */
static weft_status try_more_nodes(const struct plan_request *request, struct cost *cost,
                                  struct planned *tried, const char **out)
{
    weft_status status = WEFT_OK;
    for (int64_t times = 2; times <= MOST_NODES && !*out && !plan_stopped(request); times *= 2) {
        struct plan_request larger = *request;
        struct cluster *cluster = NULL;
        const struct trial *trial;
        int64_t nodes = times * request->cluster->nodes;
        const char *name =
            arena_printf(tried->arena, "%s:%lld", request->cluster->name, (long long)nodes);
        if (cluster_open(name, &cluster) != WEFT_OK) {
            error_clear();
            break;
        }
        larger.cluster = cluster;
        status = find_fitting(&larger, cost, tried, &trial);
        if (!status && trial)
            *out = sentence(tried->arena,
                            arena_printf(tried->arena, "%lld nodes", (long long)nodes), trial);
        cluster_free(cluster);
        TRY(status);
    }
done:
    return status;
}

weft_status would_fit(const struct plan_request *request, struct cost *cost, struct arena *keep,
                      const char **out)
{
    struct planned tried = {.arena = keep, .planner = "would fit"};
    struct plan_request changed = *request;
    weft_status status = WEFT_OK;
    *out = NULL;
    for (size_t i = 0; i < COUNT_OF(CHANGES) && !plan_stopped(request); i++) {
        const struct trial *trial;
        if (!CHANGES[i].change(&changed))
            continue;
        TRY(find_fitting(&changed, cost, &tried, &trial));
        if (trial) {
            *out = sentence(keep, CHANGES[i].words, trial);
            return WEFT_OK;
        }
    }
    TRY(try_more_nodes(request, cost, &tried, out));
    if (!*out && !plan_stopped(request))
        *out = arena_printf(keep,
                            "neither recomputation, sharding, layout, offload nor %d times as "
                            "many nodes make it fit",
                            MOST_NODES);
done:
    return status;
}

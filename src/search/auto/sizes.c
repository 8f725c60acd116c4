/* sizes.c - searches on clusters of several sizes (sizes.h). */
#include "search/auto/sizes.h"

#include <stdlib.h>

static const double SECONDS_PER_HOUR = 3600;
enum { EIGHTHS = 8 };

struct sizing {
    const struct size_request *request;
    struct sized *out;
    const char *hint; /* from the last size without a plan */
};

static struct size judge(const struct size_request *request, const struct cluster *cluster,
                         const struct planned *planned)
{
    const struct trial *best = planned->trials.data;
    double iteration_s = (double)best->iteration_ns * 1e-9;
    double sample_s = iteration_s / (double)best->global_batch;
    double price = cluster->node.device.price_per_hour / SECONDS_PER_HOUR;
    struct size size = {.nodes = cluster->nodes,
                        .devices = cluster_devices(cluster),
                        .fits = best->fits,
                        .iteration_s = iteration_s,
                        .samples_per_s = 1 / sample_s,
                        .training_s = request->samples * sample_s};
    size.money_per_sample = price * (double)size.devices * sample_s;
    size.does = size.fits && (request->deadline_s <= 0 || size.training_s <= request->deadline_s);
    return size;
}

/* Whether one size is a better answer than another (I1). */
static bool better(const struct size_request *request, const struct size *a, const struct size *b)
{
    if (a->does != b->does)
        return a->does;
    if (a->fits != b->fits)
        return a->fits;
    if (a->does && request->goal == SIZE_LOWEST && a->score != b->score)
        return a->score < b->score;
    if (a->does && request->goal == SIZE_CHEAPEST && a->money_per_sample != b->money_per_sample)
        return a->money_per_sample < b->money_per_sample;
    if (a->does)
        return a->nodes < b->nodes;
    return a->fits ? a->training_s < b->training_s : a->nodes > b->nodes;
}

static void keep_answer(struct sized *out, struct cluster *cluster, struct planned *planned)
{
    planned_free(out->planned);
    cluster_free(out->cluster);
    out->planned = planned;
    out->cluster = cluster;
}

/* Sizes on which the batch makes no plan are skipped. */
static weft_status try_size(struct sizing *sizing, int64_t nodes, bool *does)
{
    const struct size_request *request = sizing->request;
    struct sized *out = sizing->out;
    struct plan_request plan = request->plan;
    struct cluster *cluster = NULL;
    struct planned *planned = NULL;
    weft_status status;
    *does = false;
    TRY(request->open(request->context, nodes, &cluster));
    plan.cluster = cluster;
    plan.options.quick = true; /* I3 */
    status = plan_search(request->planner, &plan, &planned);
    if (status == WEFT_NO_ANSWER) {
        const char *hint = weft_last_error()->hint;
        sizing->hint = hint ? arena_copy_text(out->arena, hint) : NULL;
        cluster_free(cluster);
        error_clear();
        return WEFT_OK;
    }
    TRY(status);
    struct size size = judge(request, cluster, planned);
    if (request->score)
        TRY(request->score(request->context, cluster, planned->trials.data, &size.score));
    *does = size.does;
    array_push(out->arena, &out->sizes, size);
    size_t last = out->sizes.len - 1;
    if (last == 0 || better(request, &size, &out->sizes.data[out->chosen])) {
        out->chosen = last;
        keep_answer(out, cluster, planned);
        return WEFT_OK;
    }
done:
    planned_free(planned);
    cluster_free(cluster);
    return status;
}

/* Tries sizes above `low`, which is too small, and below `high`, which is not. */
static weft_status try_between(struct sizing *sizing, int64_t low, int64_t high)
{
    weft_status status = WEFT_OK;
    bool does = false;
    int64_t before = low;
    for (int64_t k = 1; k < EIGHTHS && !does && !plan_stopped(&sizing->request->plan); k++) {
        int64_t nodes = low + (high - low) * k / EIGHTHS;
        if (nodes == before)
            continue;
        before = nodes;
        TRY(try_size(sizing, nodes, &does));
    }
done:
    return status;
}

static weft_status try_sizes(struct sizing *sizing)
{
    const struct size_request *request = sizing->request;
    weft_status status = WEFT_OK;
    int64_t most = request->most_nodes, before = 0;
    for (int64_t nodes = 1; before < most && !plan_stopped(&request->plan);) {
        bool does;
        TRY(try_size(sizing, nodes, &does));
        if (does && request->goal == SIZE_SMALLEST) {
            if (before)
                TRY(try_between(sizing, before, nodes));
            break;
        }
        before = nodes;
        nodes = 2 * nodes < most ? 2 * nodes : most;
    }
done:
    return status;
}

/* Searches the chosen size in full (I3). */
static weft_status answer_in_full(struct sizing *sizing)
{
    const struct size_request *request = sizing->request;
    struct sized *out = sizing->out;
    struct plan_request plan = request->plan;
    struct planned *planned = NULL;
    weft_status status = WEFT_OK;
    if (request->planner != planner_default() || plan.options.budget_ns || plan_stopped(&plan))
        return WEFT_OK;
    plan.cluster = out->cluster;
    TRY(plan_search(request->planner, &plan, &planned));
    struct size size = judge(request, out->cluster, planned),
                *quick = &out->sizes.data[out->chosen];
    if (request->score)
        TRY(request->score(request->context, out->cluster, planned->trials.data, &size.score));
    if (size.fits && (!quick->fits || size.iteration_s <= quick->iteration_s)) {
        *quick = size;
        struct planned *before = out->planned;
        out->planned = planned;
        planned = before;
    }
done:
    planned_free(planned);
    return status;
}

static int by_nodes(const void *a, const void *b)
{
    const struct size *x = a, *y = b;
    return (x->nodes > y->nodes) - (x->nodes < y->nodes);
}

weft_status size_search(const struct size_request *request, struct sized **out)
{
    struct arena *arena = arena_new();
    struct sized *sized = ARENA_NEW(arena, struct sized);
    struct sizing sizing = {request, sized};
    weft_status status;
    sized->arena = arena;
    TRY(try_sizes(&sizing));
    if (!sized->sizes.len)
        TRY(no_answer(sizing.hint, "no cluster of up to %s has a plan",
                      counted(request->most_nodes, "node").s));
    TRY(answer_in_full(&sizing));
    int64_t chosen = sized->sizes.data[sized->chosen].nodes;
    qsort(sized->sizes.data, sized->sizes.len, sizeof *sized->sizes.data, by_nodes);
    for (size_t i = 0; i < sized->sizes.len; i++)
        if (sized->sizes.data[i].nodes == chosen)
            sized->chosen = i;
    *out = sized;
    return WEFT_OK;
done:
    sized_free(sized);
    return status;
}

void sized_free(struct sized *sized)
{
    if (!sized)
        return;
    planned_free(sized->planned);
    cluster_free(sized->cluster);
    arena_free(sized->arena);
}

/* recompute_levels.c - the levels of recomputation, and the order of modules in lists (recompute_levels.h). */
#include "search/planner/recompute_levels.h"

#include <stdlib.h>

#include "search/estimate/estimate.h"

/* Words of Megatron's list are bits of degrees.modules (plan/modules.c). */
enum { MOST_MODULES = 8 };

/* ---- what a module frees --------------------------------------------------------------------- */

struct module_gain {
    unsigned module;
    int64_t bytes, ns; /* freed, and what that takes */
};

/* The whole model on one device, where nothing is sent. */
struct weighing {
    const struct plan_request *request;
    struct estimator *estimator;
    struct arena *scratch;
    int64_t instances;
};

static struct estimate_settings settings_of(const struct plan_request *request)
{
    const struct degrees *pins = &request->pins;
    enum dtype dtype = pins->has_dtype ? pins->dtype : request->model->dtype;
    return (struct estimate_settings){.model = request->model,
                                      .cluster = request->cluster,
                                      .dtype = dtype,
                                      .policy = pins->has_policy ? pins->policy : policy_for(dtype),
                                      .overlap = OVERLAP_ALL,
                                      .software = pins->software,
                                      .optimizer = pins->optimizer,
                                      .optimizer_offload = pins->optimizer_offload,
                                      .bucket_bytes = degrees_bucket_bytes(pins),
                                      .copies = 3,
                                      .profile = request->profile,
                                      .flows = request->flows};
}

static weft_status weigh(const struct weighing *w, unsigned modules, struct run_estimate *out)
{
    struct degrees d = {.dp = 1,
                        .tp = 1,
                        .pp = 1,
                        .cp = 1,
                        .ep = 1,
                        .pieces = 1,
                        .segments = 1,
                        .micro_batch = 1,
                        .global_batch = 1,
                        .recompute = modules ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE,
                        .modules = modules};
    struct choice *choice;
    weft_status status;
    TRY(lower_degrees(w->request->model, &d, w->scratch, &choice));
    struct run_question question = {
        .run = {0, w->instances, estimator_row(w->estimator, choice)},
        .stage = {0, 1},
        .schedule = schedule_default(1, 1),
        .step_samples = 1,
        .micro_batches = 1,
    };
    TRY(estimate_run(w->estimator, &question, out));
done:
    return status;
}

/* (1), the most first; those that take no time before all others. */
static int by_gain(const void *a, const void *b)
{
    const struct module_gain *x = a, *y = b;
    double left = (double)x->bytes * (double)y->ns, right = (double)y->bytes * (double)x->ns;
    if (left != right)
        return left > right ? -1 : 1;
    return (x->module > y->module) - (x->module < y->module);
}

/* Modules that free something, in the order of (1). */
static weft_status rank_modules(const struct weighing *w, struct module_gain *gain, int *len)
{
    struct run_estimate none, with;
    weft_status status;
    *len = 0;
    TRY(weigh(w, 0, &none));
    for (int i = 0; i < MOST_MODULES; i++) {
        TRY(weigh(w, 1U << i, &with));
        struct module_gain own = {1U << i, none.kept_bytes - with.kept_bytes,
                                  with.backward_ns - none.backward_ns};
        own.ns = own.ns > 1 ? own.ns : 1;
        if (own.bytes > 0)
            gain[(*len)++] = own;
    }
    qsort(gain, (size_t)*len, sizeof *gain, by_gain);
done:
    return status;
}

/* ---- levels ---------------------------------------------------------------------------------- */

static void add_level(struct recompute_levels *out, enum recompute recompute, unsigned modules)
{
    out->level[out->len++] = (struct recompute_level){recompute, modules};
}

static weft_status add_lists(const struct plan_request *request, struct recompute_levels *out)
{
    struct module_gain gain[MOST_MODULES];
    struct estimate_settings settings = settings_of(request);
    struct weighing w = {.request = request, .scratch = arena_new()};
    unsigned modules = 0;
    int len;
    weft_status status;
    for (int32_t i = 0; i < request->model->ops; i++)
        w.instances += op_copies(request->model, &request->model->op[i]);
    TRY(estimator_new(&settings, &w.estimator));
    TRY(rank_modules(&w, gain, &len));
    for (int i = 0; i < len && i < MOST_LISTS; i++) {
        modules = modules_without_parts(modules | gain[i].module);
        add_level(out, RECOMPUTE_SELECTIVE, modules);
    }
done:
    estimator_free(w.estimator);
    arena_free(w.scratch);
    return status;
}

bool has_recompute_lists(const struct plan_request *request)
{
    const struct target *target =
        request->target ? request->target : target_with(&request->pins.software);
    return target && target->can.selective && !target->any;
}

weft_status recompute_levels(const struct plan_request *request, struct recompute_levels *out)
{
    const struct degrees *pins = &request->pins;
    weft_status status = WEFT_OK;
    out->len = 0;
    if (pins->has_recompute) {
        add_level(out, pins->recompute, pins->modules);
        return WEFT_OK;
    }
    add_level(out, RECOMPUTE_NONE, 0);
    add_level(out, RECOMPUTE_SELECTIVE, 0);
    if (has_recompute_lists(request))
        TRY(add_lists(request, out));
    add_level(out, RECOMPUTE_FULL, 0);
done:
    return status;
}

/* contest_grid.c - Megatron-LM's grid as Aceso's authors defined it (the artifact, microsoft/SuperScaler:
 * search/gen_megatron_plan.py and scripts/):
 *
 *   tp 1, 2, 4, 8;  pp up to 16;  tp * pp divides the devices;  everything is recomputed, or nothing
 *   step = dp * micro-batch, where both the step and the micro-batch are in the list of the model   (1)
 *
 * Stages are cut by counting layers. For GPT-3 all stages have the same number. For T5 the first s stages
 * have encoder layers and the others decoder layers, the same number each, for every s. For Wide-ResNet
 * every stage has floor(blocks / pp) blocks, and the last one also the remainder.
 *
 * data/validation/aceso.yaml says which point the authors chose. Weft's own choice is the fastest by its estimate
 * among those that fit by the authors' count of memory (contest_memory.c); all twelve choices are the same. By
 * Weft's count, points with less recomputation would fit, too.
 */
#include <string.h>

#include "lab/aceso_contest.h"

enum { MOST_PP = 16 };

/* ---- where the grid cuts --------------------------------------------------------------------- */

struct layer_ends {
    int64_t layers, *end; /* `end`: the instance after each layer */
    int64_t second;       /* the first instance of the second stack */
};

static struct layer_ends walk_of(const struct plan *plan, struct arena *scratch)
{
    struct layer_ends walk = {.end = ARENA_ARRAY(scratch, int64_t, (size_t)plan->instances)};
    for (int64_t i = 0; i < plan->instances; i++) {
        if (plan->ends_layer[i])
            walk.end[walk.layers++] = i + 1;
        if (plan->model->op[plan->instance[i].op].kind == OP_EMBEDDING)
            walk.second = i;
    }
    return walk;
}

/* Cuts `layers` layers from number `first` on into stages, which have equally many except for the last. */
static void cut_run(const struct layer_ends *walk, int64_t first, int64_t layers, int64_t stages,
                    int64_t *cut)
{
    for (int64_t s = 1; s < stages; s++)
        cut[s - 1] = walk->end[first + s * (layers / stages) - 1];
}

static bool cut_equally(const struct layer_ends *walk, int64_t pp, int64_t split, int64_t *cut)
{
    (void)split;
    cut_run(walk, 0, walk->layers, pp, cut);
    return walk->layers % pp == 0;
}

static bool cut_blocks(const struct layer_ends *walk, int64_t pp, int64_t split, int64_t *cut)
{
    (void)split;
    if (walk->layers < pp)
        return false;
    cut_run(walk, 0, walk->layers, pp, cut);
    return true;
}

/* Encoder layers on the first `split` stages; the decoder has as many layers. */
static bool cut_stacks(const struct layer_ends *walk, int64_t pp, int64_t split, int64_t *cut)
{
    int64_t layers = walk->layers / 2;
    if (pp == 1)
        return true;
    if (layers % split || layers % (pp - split))
        return false;
    cut_run(walk, 0, layers, split, cut);
    cut[split - 1] = walk->second;
    cut_run(walk, layers, layers, pp - split, cut + split);
    return true;
}

static bool cut_as(enum grid_cut cut, const struct layer_ends *walk, int64_t pp, int64_t split,
                   int64_t *out)
{
    static bool (*const RULES[])(const struct layer_ends *walk, int64_t pp, int64_t split,
                                 int64_t *cut) = {
        [CUT_LAYERS] = cut_equally, [CUT_BLOCKS] = cut_blocks, [CUT_STACKS] = cut_stacks};
    return RULES[cut](walk, pp, split, out);
}

/* ---- the grid -------------------------------------------------------------------------------- */

struct megatron {
    const struct contest_family *family;
    const struct plan_request *request;
    struct arena *keep;
    struct estimator *estimator;
    struct plan *best; /* NULL if nothing fits */
    const char *text;  /* describes it */
    int64_t best_ns;
};

static const char *point_text(struct arena *keep, const struct plan_request *request,
                              const struct degrees *d, int64_t split)
{
    const char *text = degrees_text(keep, request->model, d, &request->pins);
    if (!split)
        return text;
    return mixed_text(keep,
                      arena_printf(keep, "%s, %lld of its stages encoder", text, (long long)split));
}

static bool has_room(const struct megatron *grid, const struct plan *plan)
{
    int64_t bytes[MOST_PP];
    count_plan(aceso_study_of(grid->request)->count, plan, bytes);
    for (int32_t s = 0; s < plan->stages; s++)
        if (bytes[s] > plan_room_bytes(plan))
            return false;
    return true;
}

static weft_status judge(struct megatron *grid, struct plan *plan, const struct degrees *d,
                         int64_t split)
{
    struct arena *scratch = arena_new();
    struct estimate estimate;
    weft_status status = WEFT_OK;
    if (!grid->estimator) {
        struct estimate_settings settings = estimate_settings_of(plan);
        TRY(estimator_new(&settings, &grid->estimator));
    }
    TRY(estimate_plan(grid->estimator, plan, scratch, &estimate));
    if (estimate.iteration_ns < grid->best_ns && has_room(grid, plan)) {
        plan_free(grid->best);
        grid->best = plan;
        plan = NULL;
        grid->best_ns = estimate.iteration_ns;
        grid->text = point_text(grid->keep, grid->request, d, split);
    }
done:
    plan_free(plan);
    arena_free(scratch);
    return status;
}

/* *out is NULL if the grid has no such point. */
static weft_status point_plan(const struct megatron *grid, const struct degrees *d, int64_t split,
                              struct plan **out)
{
    struct arena *scratch = arena_new();
    int64_t cut[MOST_PP], devices[MOST_PP];
    struct plan *plan = NULL;
    *out = NULL;
    if (plan_from_degrees(grid->request->model, grid->request->cluster, d, &plan) == WEFT_OK) {
        struct layer_ends walk = walk_of(plan, scratch);
        for (int64_t s = 0; s < d->pp; s++)
            devices[s] = d->dp * d->tp;
        if (cut_as((enum grid_cut)grid->family->cut, &walk, d->pp, split, cut) &&
            plan_map(plan, (int32_t)d->pp, 1, cut, devices) == WEFT_OK &&
            plan_check(plan) == WEFT_OK) {
            *out = plan;
            plan = NULL;
        }
    }
    plan_free(plan);
    error_clear();
    arena_free(scratch);
    return WEFT_OK;
}

static weft_status try_point(struct megatron *grid, const struct degrees *d)
{
    bool splits = grid->family->cut == CUT_STACKS && d->pp > 1;
    struct plan *plan;
    weft_status status = WEFT_OK;
    for (int64_t split = splits; split < (splits ? d->pp : 1); split++) {
        TRY(point_plan(grid, d, split, &plan));
        if (plan)
            TRY(judge(grid, plan, d, split));
    }
done:
    return status;
}

/* For (1). */
static bool in_list(const struct contest_family *family, int64_t samples)
{
    for (int32_t i = 0; i < family->steps; i++)
        if (family->step[i] == samples)
            return true;
    return false;
}

static weft_status try_steps(struct megatron *grid, struct degrees d)
{
    const struct contest_family *family = grid->family;
    weft_status status = WEFT_OK;
    for (int32_t i = 0; i < family->steps; i++) {
        if (family->step[i] % d.dp || !in_list(family, family->step[i] / d.dp))
            continue;
        d.micro_batch = family->step[i] / d.dp;
        for (int full = 0; full < 2; full++) {
            d.recompute = full ? RECOMPUTE_FULL : RECOMPUTE_NONE;
            TRY(try_point(grid, &d));
        }
    }
done:
    return status;
}

static weft_status search_grid(struct megatron *grid)
{
    int64_t devices = cluster_devices(grid->request->cluster);
    struct degrees d = grid->request->pins;
    weft_status status = WEFT_OK;
    if (devices == 1)
        return try_point(grid, &d);
    for (d.pp = 1; d.pp <= MOST_PP; d.pp++) {
        for (d.tp = 1; d.tp <= grid->request->cluster->node.devices; d.tp *= 2) {
            if (devices % (d.tp * d.pp))
                continue;
            d.dp = devices / (d.tp * d.pp);
            TRY(try_steps(grid, d));
        }
    }
done:
    return status;
}

weft_status contest_run_plan(struct arena *keep, const struct contest_family *family,
                             const struct plan_request *request, struct plan **out,
                             const char **text)
{
    struct megatron grid = {.family = family, .request = request, .keep = keep};
    struct degrees d = request->pins;
    const struct contest_model *model = contest_model_of(family, NULL, request->model->name);
    int64_t split = 0;
    if (model && model->ran.dp && cluster_devices(request->cluster) > 1) {
        d.dp = model->ran.dp;
        d.tp = model->ran.tp;
        d.pp = model->ran.pp;
        d.micro_batch = model->ran.micro_batch;
        d.recompute = model->ran.recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        split = model->ran.encoder_stages;
    }
    *text = point_text(keep, request, &d, split);
    return point_plan(&grid, &d, split, out);
}

weft_status contest_grid_plan(struct arena *keep, const struct contest_family *family,
                              const struct plan_request *request, struct plan **out,
                              const char **text)
{
    struct megatron grid = {.family = family,
                            .request = request,
                            .keep = keep,
                            .text = "nothing fits",
                            .best_ns = INT64_MAX};
    weft_status status = search_grid(&grid);
    if (status)
        plan_free(grid.best);
    *out = status ? NULL : grid.best;
    *text = grid.text;
    estimator_free(grid.estimator);
    return status;
}

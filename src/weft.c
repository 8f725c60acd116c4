/* weft.c - the public face (include/weft.h) over the rooms.
 *
 *   I1  Every call that can fail is a request (base.h): one that runs out of memory returns a status, and
 *       what it took is free again.
 */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

void weft_limit_memory(int64_t bytes)
{
    request_limit(bytes);
}

struct weft_model {
    struct model model;
};

/* What a call was given, and where its answer goes. */
struct call {
    const char *name, *planner;
    const weft_plan *plan;
    void *out;
};

static weft_status open_model(void *context)
{
    const struct call *call = context;
    struct model *model;
    weft_status status = model_open(call->name, NULL, &model);
    if (status == WEFT_OK)
        *(weft_model **)call->out = (weft_model *)model;
    return status;
}

weft_status weft_model_open(const char *name, weft_model **out)
{
    return request_run(open_model, &(struct call){.name = name, .out = out});
}

void weft_model_close(weft_model *model)
{
    model_free((struct model *)model);
}

double weft_model_parameters(const weft_model *model)
{
    return model_totals(&model->model, model->model.dtype).parameters;
}

double weft_model_flops_per_sample(const weft_model *model)
{
    return model_totals(&model->model, model->model.dtype).flops[PHASE_FORWARD];
}

struct weft_cluster {
    struct cluster cluster;
};

static weft_status open_cluster(void *context)
{
    const struct call *call = context;
    struct cluster *cluster;
    weft_status status = cluster_open(call->name, &cluster);
    if (status == WEFT_OK)
        *(weft_cluster **)call->out = (weft_cluster *)cluster;
    return status;
}

weft_status weft_cluster_open(const char *name, weft_cluster **out)
{
    return request_run(open_cluster, &(struct call){.name = name, .out = out});
}

void weft_cluster_close(weft_cluster *cluster)
{
    cluster_free((struct cluster *)cluster);
}

int64_t weft_cluster_devices(const weft_cluster *cluster)
{
    return cluster_devices(&cluster->cluster);
}

/* ---- plans ----------------------------------------------------------------------------------- */

struct weft_plan {
    struct arena *arena; /* owns itself and the text */
    struct opened_plan opened;
    const char *text;
};

static weft_plan *plan_handle(struct arena *arena, const struct opened_plan *opened)
{
    weft_plan *plan = ARENA_NEW(arena, weft_plan);
    *plan = (weft_plan){.arena = arena, .opened = *opened};
    plan->text = plan_write(arena, opened->plan);
    return plan;
}

static weft_status open_plan(void *context)
{
    const struct call *call = context;
    struct opened_plan opened;
    weft_status status = plan_load(call->name, &opened);
    if (!status)
        *(weft_plan **)call->out = plan_handle(arena_new(), &opened);
    return status;
}

weft_status weft_plan_open(const char *path, weft_plan **out)
{
    *out = NULL;
    return request_run(open_plan, &(struct call){.name = path, .out = out});
}

static weft_status read_plan(void *context)
{
    const struct call *call = context;
    struct arena *arena = arena_new();
    struct opened_plan opened;
    weft_status status = plan_parse(arena, "plan", call->name, strlen(call->name), &opened);
    if (status)
        arena_free(arena);
    else
        *(weft_plan **)call->out = plan_handle(arena, &opened);
    return status;
}

weft_status weft_plan_read(const char *text, weft_plan **out)
{
    *out = NULL;
    return request_run(read_plan, &(struct call){.name = text, .out = out});
}

/* What does not fit is an answer and a status. */
static weft_status must_fit_memory(const struct trial *trial)
{
    if (trial->fits)
        return WEFT_OK;
    return no_answer("the plan is the nearest miss", "nothing fits: stage %d needs %s of %s",
                     trial->stage, show_bytes((double)trial->needed_bytes).s,
                     show_bytes((double)trial->limit_bytes).s);
}

static weft_status find_plan(void *context)
{
    const struct call *call = context;
    weft_plan **out = call->out;
    struct arena *arena = arena_new();
    struct plan_question question = {0};
    struct planned *planned = NULL;
    const struct planner *planner;
    weft_status status;
    TRY(plan_question(arena, "question", call->name, strlen(call->name), &question));
    TRY(planner_named(call->planner, &planner));
    if (!question.pins.global_batch) {
        status = bad_argument("such as batch: {global: 64}", "a question needs a global batch");
        goto done;
    }
    TRY(follow_practice(arena, question.model_name, &question.model_options, &question.pins,
                        &question.opened));
    struct plan_request request = {.model = question.opened.model,
                                   .cluster = question.opened.cluster,
                                   .pins = question.pins,
                                   .options.simplest = USUAL_SIMPLEST};
    TRY(plan_search(planner, &request, &planned));
    struct trial best = planned->trials.data[0];
    TRY(trial_take(&request, &planned->trials.data[0], &question.opened.plan));
    plan_set_names(question.opened.plan, question.model_name, question.model_options,
                   question.cluster_name);
    *out = plan_handle(arena, &question.opened);
    status = must_fit_memory(&best);
done:
    planned_free(planned);
    if (!*out) {
        plan_close(&question.opened);
        arena_free(arena);
    }
    return status;
}

weft_status weft_plan_find(const char *question, const char *planner, weft_plan **out)
{
    weft_plan *found = NULL;
    weft_status status =
        request_run(find_plan, &(struct call){.name = question, .planner = planner, .out = &found});
    *out = status == WEFT_FAILURE ? NULL : found;
    return status;
}

void weft_plan_close(weft_plan *plan)
{
    if (!plan)
        return;
    plan_close(&plan->opened);
    arena_free(plan->arena);
}

const char *weft_plan_text(const weft_plan *plan)
{
    return plan->text;
}

/* ---- predictions ----------------------------------------------------------------------------- */

struct weft_prediction {
    struct prediction *prediction;
    double samples_per_s;
    char *json;
};

static weft_status simulate_plan(void *context)
{
    const struct call *call = context;
    const weft_plan *plan = call->plan;
    struct simulate_options options = {0};
    struct prediction *prediction;
    weft_status status = simulate(plan->opened.plan, &options, &prediction);
    if (status)
        return status;
    weft_prediction *handle = ARENA_NEW(prediction->arena, weft_prediction);
    json_t *json = prediction_json(prediction);
    *handle = (weft_prediction){.prediction = prediction,
                                .samples_per_s = (double)plan->opened.plan->global_batch * 1e9 /
                                                 (double)prediction->iteration_ns,
                                .json = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(12))};
    json_decref(json);
    *(weft_prediction **)call->out = handle;
    return WEFT_OK;
}

weft_status weft_simulate(const weft_plan *plan, weft_prediction **out)
{
    *out = NULL;
    return request_run(simulate_plan, &(struct call){.plan = plan, .out = out});
}

void weft_prediction_close(weft_prediction *prediction)
{
    if (!prediction)
        return;
    free(prediction->json);
    prediction_free(prediction->prediction);
}

double weft_prediction_iteration_s(const weft_prediction *prediction)
{
    return (double)prediction->prediction->iteration_ns * 1e-9;
}

double weft_prediction_samples_per_s(const weft_prediction *prediction)
{
    return prediction->samples_per_s;
}

double weft_prediction_tflops_per_device(const weft_prediction *prediction)
{
    return prediction_tflops(prediction->prediction);
}

int weft_prediction_fits(const weft_prediction *prediction)
{
    return prediction->prediction->fits;
}

int64_t weft_prediction_peak_bytes(const weft_prediction *prediction)
{
    const struct prediction *p = prediction->prediction;
    return p->stage[fullest_stage(p)].memory.peak;
}

const char *weft_prediction_json(const weft_prediction *prediction)
{
    return prediction->json;
}

/* search.c - the call that looks for the best plan: as `weft plan --json` answers, with progress and a stop.
 *
 *   I1  A search that is stopped answers with the best plan so far; one that found none says so.
 *   I2  What takes more seconds after the answer (what-ifs, other frameworks) is left out of a quick search and of one
 *       that was stopped.
 */
#include "serve/room.h"

static const int64_t USUAL_BUDGET_S = 60, USUAL_TOP = 5;

struct search_question {
    const struct planner *planner;
    const struct target *target;
    bool quick;
    int64_t budget_ns;
};

static weft_status read_budget(const json_t *body, int64_t *ns)
{
    const json_t *value = json_object_get(body, "budget_s");
    double seconds = value ? json_number_value(value) : (double)USUAL_BUDGET_S;
    if (value && (!json_is_number(value) || !(seconds > 0 && seconds <= MOST_SEARCH_S)))
        return bad_argument(NULL, "'budget_s' is no number of seconds up to %d", MOST_SEARCH_S);
    *ns = (int64_t)(seconds * 1e9);
    return WEFT_OK;
}

static weft_status read_search(const json_t *body, struct search_question *out)
{
    const char *planner, *target;
    weft_status status;
    TRY(body_flag(body, "quick", &out->quick));
    TRY(body_text(body, "planner", &planner));
    TRY(body_text(body, "for", &target));
    TRY(read_budget(body, &out->budget_ns));
    TRY(planner_named(planner, &out->planner));
    if (target && !(out->target = target_find(target)))
        status = WEFT_BAD_INPUT;
done:
    return status;
}

static struct plan_request request_of(const struct api_request *request,
                                      const struct search_question *search,
                                      const struct asked_plan *question)
{
    unsigned takes = search->planner->takes;
    struct plan_request out = {.model = question->opened.model,
                               .cluster = question->opened.cluster,
                               .pins = question->degrees,
                               .target = search->target,
                               .options.simplest = USUAL_SIMPLEST,
                               .stop = request->asked,
                               .progress = request->progress,
                               .context = request->context};
    if (takes & 1U << TAKES_BUDGET) {
        out.options.budget_ns = search->budget_ns;
        out.options.given |= 1U << TAKES_BUDGET;
    }
    if (search->quick && takes & 1U << TAKES_QUICK) {
        out.options.quick = true;
        out.options.given |= 1U << TAKES_QUICK;
    }
    return out;
}

/* The degrees of the best plan, to move sliders to; null where operators differ. */
static json_t *degrees_json(const struct trial *trial, const struct degrees *d)
{
    static const char *const RECOMPUTE[] = {
        [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full"};
    if (trial->plan || d->modules || d->offload_modules)
        return json_null();
    json_t *json =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:i, s:s, s:b}", "dp", (json_int_t)d->dp, "tp",
                  (json_int_t)d->tp, "pp", (json_int_t)d->pp, "cp", (json_int_t)(d->cp ? d->cp : 1),
                  "ep", (json_int_t)(d->ep ? d->ep : 1), "sp", d->sequence, "zero", d->shard,
                  "recompute", RECOMPUTE[d->recompute], "offload", d->offload);
    if (d->pieces > 1)
        json_object_set_new(json, "pieces", json_integer(d->pieces));
    if (d->segments > 1)
        json_object_set_new(json, "segments", json_integer(d->segments));
    if (d->schedule)
        json_object_set_new(json, "schedule", json_string(d->schedule));
    return json_pack("{s:o, s:I}", "degrees", json, "micro",
                     (json_int_t)(d->micro_batch ? d->micro_batch : 1));
}

/* I2 */
static weft_status add_outlook(const struct plan_request *request, const struct planned *planned,
                               const struct plan *plan, struct arena *scratch, json_t *json)
{
    struct what_ifs what_ifs = {0};
    struct for_targets targets = {0};
    struct trial taken = planned->trials.data[0];
    bool brief = planned->stopped || request->options.quick || !taken.fits;
    weft_status status = WEFT_OK;
    if (!brief)
        TRY(what_if(request, planned, plan, scratch, &what_ifs));
    if (!brief && !request->target)
        TRY(search_each_target(request, plan, &taken, scratch, &targets));
    json_object_set_new(json, "what_if", what_ifs_json(&what_ifs));
    json_object_set_new(json, "targets", for_targets_json(&targets));
done:
    return status;
}

static weft_status answer_found(const struct api_request *request, const struct plan_request *asked,
                                struct planned *planned, struct asked_plan *question, json_t **out)
{
    struct prediction *prediction = NULL;
    struct opened_plan *opened = &question->opened;
    struct trial *best = &planned->trials.data[0];
    json_t *degrees = degrees_json(best, &best->degrees), *json = NULL;
    weft_status status;
    TRY(trial_take(asked, best, &opened->plan));
    plan_set_names(opened->plan, question->model_name, question->model_options,
                   question->cluster_name);
    struct simulate_options options = {.fold = planned->stopped ? FOLD_ALWAYS : FOLD_AUTO};
    TRY(simulate(opened->plan, &options, &prediction));
    json = planned_json(request->scratch, planned, prediction,
                        plan_write(request->scratch, opened->plan), USUAL_TOP);
    json_object_set(json, "moves", degrees);
    TRY(add_outlook(asked, planned, opened->plan, request->scratch, json));
    *out = json;
    json = NULL;
done:
    json_decref(json);
    json_decref(degrees);
    prediction_free(prediction);
    return status;
}

weft_status answer_plan(const struct api_request *request, json_t **out)
{
    struct search_question search = {0};
    struct asked_plan question = {0};
    struct planned *planned = NULL;
    weft_status status;
    TRY(read_search(request->body, &search));
    TRY(question_open(request->scratch, request->body, &question));
    if (question.written_out || !question.degrees.global_batch) {
        status = bad_argument("such as \"batch\": {\"global\": 64}",
                              "a search needs a question with a global batch, not a whole plan");
        goto done;
    }
    struct plan_request asked = request_of(request, &search, &question);
    if (request->progress)
        request->progress(request->context, &(struct progress){.what = "the question is read"});
    TRY(plan_search(search.planner, &asked, &planned));
    TRY(answer_found(request, &asked, planned, &question, out));
done:
    planned_free(planned);
    question_close(&question);
    return status;
}

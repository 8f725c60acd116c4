/* answers.c - what each call answers, but for searches: the same JSON that the commands print (serve.h, I5). */
#include <string.h>

#include "serve/room.h"

/* ---- lists ----------------------------------------------------------------------------------- */

weft_status answer_models(const struct api_request *request, json_t **out)
{
    (void)request;
    return models_json(NULL, out);
}

weft_status answer_clusters(const struct api_request *request, json_t **out)
{
    (void)request;
    return clusters_json(out);
}

static json_t *named(const char *name, const char *summary)
{
    return json_pack("{s:s, s:s}", "name", name, "summary", summary);
}

static json_t *formats_json(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < format_count(); i++)
        json_array_append_new(list, named(format_name(i), format_summary(i)));
    return list;
}

static json_t *planners_json(void)
{
    const struct planner *all;
    json_t *list = json_array();
    size_t count = planners(&all);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, named(all[i].name, all[i].summary));
    return list;
}

static json_t *schedules_json(void)
{
    const struct schedule *all;
    json_t *list = json_array();
    size_t count = schedule_all(&all);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(all[i].name));
    return list;
}

static json_t *dtypes_json(void)
{
    json_t *list = json_array();
    for (int i = 0; i < DTYPE_COUNT; i++)
        json_array_append_new(list, json_string(dtype_name((enum dtype)i)));
    return list;
}

weft_status answer_choices(const struct api_request *request, json_t **out)
{
    (void)request;
    *out = json_pack("{s:s, s:o, s:o, s:o, s:o}", "version", weft_version(), "planners",
                     planners_json(), "schedules", schedules_json(), "formats", formats_json(),
                     "dtypes", dtypes_json());
    return WEFT_OK;
}

/* ---- one plan -------------------------------------------------------------------------------- */

static json_t *doubts_json(struct arena *scratch, const struct plan *plan)
{
    struct warnings doubts = {0};
    json_t *list = json_array();
    plan_doubts(scratch, plan, &doubts);
    plan_warnings(scratch, plan, &doubts);
    for (size_t i = 0; i < doubts.len; i++)
        json_array_append_new(list, json_text(doubts.data[i]));
    return list;
}

static json_t *simulated_json(const struct api_request *request, const struct prediction *p,
                              bool timeline)
{
    json_t *json = prediction_json(p);
    json_object_set_new(json, "verdict", json_text(memory_verdict(request->scratch, p)));
    json_object_set_new(json, "warnings", doubts_json(request->scratch, p->plan));
    json_object_set_new(json, "device", json_text(p->plan->cluster->node.device.name));
    if (timeline)
        json_object_set_new(json, "timeline", timeline_json(request->scratch, p, TIMELINE_BARS));
    return json;
}

weft_status answer_simulate(const struct api_request *request, json_t **out)
{
    struct simulate_options options = {.stop = &request->stop, .reserved = request->reserved};
    struct asked_plan question = {0};
    struct prediction *prediction = NULL;
    bool timeline;
    weft_status status;
    TRY(body_flag(request->body, "timeline", &timeline));
    TRY(body_flag(request->body, "brief", &options.briefly));
    options.fold = options.briefly ? FOLD_ALWAYS : FOLD_AUTO;
    TRY(question_open(request->scratch, request->body, &question));
    TRY(question_plan(&question));
    TRY(simulate(question.opened.plan, &options, &prediction));
    *out = simulated_json(request, prediction, timeline);
done:
    prediction_free(prediction);
    question_close(&question);
    return status;
}

weft_status answer_check(const struct api_request *request, json_t **out)
{
    struct asked_plan question = {0};
    struct warnings warnings = {0};
    struct target_answers answers = {0};
    weft_status status;
    TRY(question_open(request->scratch, request->body, &question));
    TRY(question_plan(&question));
    TRY(targets_ask(request->scratch, question.opened.plan, &answers));
    plan_warnings(request->scratch, question.opened.plan, &warnings);
    *out = checked_json(question.opened.plan, &warnings, NULL, &answers, &(struct asked_target){0});
done:
    question_close(&question);
    return status;
}

weft_status answer_export(const struct api_request *request, json_t **out)
{
    struct export_question to = {0};
    struct asked_plan question = {0};
    struct exported exported = {0};
    weft_status status;
    TRY(body_text(request->body, "to", &to.to));
    TRY(body_flag(request->body, "nearest", &to.nearest));
    if (!to.to)
        return bad_argument("such as \"megatron\"", "'to' is missing: which framework?");
    TRY(question_open(request->scratch, request->body, &question));
    TRY(question_plan(&question));
    to.degrees = question.written_out ? NULL : &question.degrees;
    TRY(exported_make(request->scratch, question.opened.plan, &to, &exported));
    *out = exported_json(to.to, &exported);
done:
    exported_close(&exported);
    question_close(&question);
    return status;
}

/* ---- several plans --------------------------------------------------------------------------- */

/* What does not make a plan is part of the answer (comparison.h, I1). */
static weft_status add_compared(const struct api_request *request, const json_t *body,
                                struct comparison *comparison)
{
    struct simulate_options options = {.stop = &request->stop};
    struct compared row = {.label = ARENA_ARRAY(comparison->arena, const char *, 1)};
    struct asked_plan question = {0};
    struct prediction *prediction = NULL;
    weft_status status;
    TRY(body_text(body, "label", &row.label[0]));
    if (!row.label[0])
        row.label[0] = arena_printf(comparison->arena, "%zu", comparison->rows.len + 1);
    TRY(question_open(request->scratch, body, &question));
    TRY(question_plan(&question));
    TRY(simulate(question.opened.plan, &options, &prediction));
    compared_from(prediction, &row);
done:
    prediction_free(prediction);
    question_close(&question);
    if (status == WEFT_FAILURE || stop_now(&request->stop))
        return status;
    if (status)
        row.error = arena_copy_text(comparison->arena, weft_last_error()->message);
    array_push(comparison->arena, &comparison->rows, row);
    error_clear();
    return WEFT_OK;
}

/* What has the form of a row; whether its question makes a plan is said in the answer. */
static weft_status check_row(json_t *row)
{
    static const char *const KEYS[] = {"label", "question", "what_if", NULL};
    const json_t *what_if = json_object_get(row, "what_if");
    const char *label;
    weft_status status;
    TRY(body_keys(row, KEYS));
    TRY(body_text(row, "label", &label));
    if (!json_is_object(json_object_get(row, "question")) || (what_if && !json_is_object(what_if)))
        status = bad_argument("such as {\"question\": {...}, \"what_if\": {...}}",
                              "a row has no 'question', or one that is no object");
done:
    return status;
}

static weft_status check_rows(const json_t *rows)
{
    size_t count = json_array_size(rows);
    weft_status status = WEFT_OK;
    if (count < 1 || count > MOST_COMPARED)
        return bad_argument("such as {\"rows\": [{\"question\": ...}, {\"question\": ...}]}",
                            "'rows' is no list of 1 to %d questions", MOST_COMPARED);
    for (size_t i = 0; i < count && !status; i++)
        status = check_row(json_array_get(rows, i));
    return status;
}

weft_status answer_compare(const struct api_request *request, json_t **out)
{
    static const char *header[] = {"label"};
    const json_t *rows = json_object_get(request->body, "rows");
    struct comparison comparison = {
        .arena = request->scratch, .header = header, .labels = 1, .unit = "M tokens"};
    weft_status status = check_rows(rows);
    for (size_t i = 0; i < json_array_size(rows) && !status; i++)
        status = add_compared(request, json_array_get(rows, i), &comparison);
    if (!status)
        *out = comparison_json(&comparison);
    for (size_t i = 0; i < comparison.rows.len; i++)
        json_decref(comparison.rows.data[i].prediction);
    return status;
}

/* api.c - the table of calls, and what all of them share: bodies are read, files given, errors written as JSON.
 *
 *   I1  A call is one request of the library (base.h): its memory is bounded, and what it took is free again.
 *   I2  A body is an object of at most MOST_BODY_BYTES with no other keys than its call's; its files are those of
 *       `files`, by plain names.
 */
#include <stdlib.h>
#include <string.h>

#include "serve/room.h"

/* What every question has, beside what its call adds. */
#define ASKED "question", "files", "what_if"

static const struct api_call CALLS[] = {
    {"models", answer_models, .summary = "the models that have names"},
    {"clusters", answer_clusters, .summary = "the clusters that have names"},
    {"choices", answer_choices, .summary = "planners, schedules, formats and types"},
    {"simulate",
     answer_simulate,
     {ASKED, "timeline", "brief"},
     .summary = "how long an iteration takes and why"},
    {"check", answer_check, {ASKED}, .summary = "whether a plan can be executed, and by whom"},
    {"export", answer_export, {ASKED, "to", "nearest"}, .summary = "a plan for another framework"},
    {"compare", answer_compare, {"files", "rows"}, .summary = "several plans side by side"},
    {"values", answer_values, {ASKED}, .summary = "the values of each degree, and why not"},
    {"grid", answer_grid, {ASKED, "tp", "pp"}, .summary = "estimates of tp times pp"},
    {"plan",
     answer_plan,
     {ASKED, "planner", "for", "quick", "budget_s"},
     .searches = true,
     .summary = "the fastest plan that fits, and why"},
};

const struct api_call *api_find(const char *name)
{
    int at = NAME_INDEX(name, CALLS);
    return at < 0 ? NULL : &CALLS[at];
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* What the text that we made of a question is called says nothing to who sent it. */
static const char *without_place(const char *message)
{
    static const char PLACE[] = "question:1: ";
    return strncmp(message, PLACE, strlen(PLACE)) == 0 ? message + strlen(PLACE) : message;
}

char *api_error_text(weft_status status)
{
    static const char *const WORDS[] = {[WEFT_OK] = "done",
                                        [WEFT_NO_ANSWER] = "no_answer",
                                        [WEFT_BAD_INPUT] = "bad_input",
                                        [WEFT_FAILURE] = "failure"};
    const weft_error *error = weft_last_error();
    json_t *hint = error->hint ? json_text(error->hint) : json_null();
    json_t *json =
        json_pack("{s:{s:s, s:o, s:o}}", "error", "status", WORDS[status], "message",
                  json_text(without_place(error->message ? error->message : "")), "hint", hint);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_plain_name(const char *name)
{
    return *name && strlen(name) < 64 && !strchr(name, '/') && !strchr(name, ':') && *name != '.';
}

/* The files of a body; texts stay the body's. */
static weft_status take_files(const json_t *body, struct given_file *file, size_t *count)
{
    json_t *files = json_object_get(body, "files");
    *count = 0;
    if (files && (!json_is_object(files) || json_object_size(files) > MOST_FILES))
        return bad_argument("such as {\"config.json\": \"...\"}",
                            "'files' is no object of at most %d texts", MOST_FILES);
    for (void *at = json_object_iter(files); at; at = json_object_iter_next(files, at)) {
        struct given_file one = {json_object_iter_key(at),
                                 json_string_value(json_object_iter_value(at))};
        if (!is_plain_name(one.name) || !one.text)
            return bad_argument("such as {\"config.json\": \"...\"}",
                                "'files' has something else than names and texts");
        file[(*count)++] = one;
    }
    return WEFT_OK;
}

/* ---- bodies --------------------------------------------------------------------------------- */

bool api_asks(const struct api_call *call)
{
    return call->key[0] != NULL;
}

static bool has_key(const char *const key[], const char *name)
{
    while (*key && strcmp(*key, name) != 0)
        key++;
    return *key != NULL;
}

weft_status body_keys(json_t *body, const char *const key[])
{
    for (void *at = json_object_iter(body); at; at = json_object_iter_next(body, at))
        if (!has_key(key, json_object_iter_key(at)))
            return bad_argument("/api/v1/openapi.json describes what a call takes",
                                "'%.60s' is not a known key here", json_object_iter_key(at));
    return WEFT_OK;
}

/* *unread: it is not even JSON that a call takes, whatever it means. */
static weft_status read_body(const struct api_call *call, const char *body, size_t len,
                             json_t **out, bool *unread)
{
    json_error_t error;
    *unread = true;
    if (len > MOST_BODY_BYTES)
        return bad_argument(NULL, "a body has at most %d bytes", MOST_BODY_BYTES);
    *out = json_loadb(body, len, JSON_REJECT_DUPLICATES, &error);
    if (!*out) {
        *unread = json_error_code(&error) != json_error_numeric_overflow;
        return bad_argument(NULL, "the body %s: %.200s (line %d)",
                            *unread ? "is no JSON" : "has a number that is too large", error.text,
                            error.line);
    }
    if (!json_is_object(*out))
        return bad_argument("such as {\"question\": {...}}", "the body is no JSON object");
    weft_status status = body_keys(*out, call->key);
    *unread = status != WEFT_OK;
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

struct api_job {
    const struct api_call *call;
    const json_t *body;
    const struct api_bounds *bounds;
    json_t *answer;
};

static weft_status run_job(void *context)
{
    struct api_job *job = context;
    double until = job->bounds->seconds > 0 ? wall_seconds() + job->bounds->seconds : 0;
    struct api_request request = {.scratch = arena_new(),
                                  .body = job->body,
                                  .stop = {job->bounds->asked, until},
                                  .asked = job->bounds->asked,
                                  .progress = job->bounds->progress,
                                  .context = job->bounds->context,
                                  .reserved = job->bounds->reserved};
    weft_status status = job->call->answer(&request, &job->answer);
    arena_free(request.scratch);
    return status;
}

static weft_status run_with_files(struct api_job *job)
{
    struct given_file file[MOST_FILES];
    struct given_files given = {file, 0};
    weft_status status = take_files(job->body, file, &given.count);
    if (status)
        return status;
    files_give(&given);
    status = request_run(run_job, job);
    files_give(NULL);
    return status;
}

struct api_result api_run_json(const struct api_call *call, const json_t *body,
                               const struct api_bounds *bounds)
{
    struct api_job job = {call, body, bounds, NULL};
    error_clear();
    weft_status status = run_with_files(&job);
    char *text = status ? api_error_text(status)
                        : json_dumps(job.answer, JSON_COMPACT | JSON_REAL_PRECISION(12));
    if (!status)
        json_decref(job.answer);
    return (struct api_result){status, text, false};
}

struct api_result api_run(const struct api_call *call, const char *body, size_t len,
                          const struct api_bounds *bounds)
{
    json_t *json = NULL;
    struct api_result result = {0};
    weft_status status =
        api_asks(call) ? read_body(call, body, len, &json, &result.unread) : WEFT_OK;
    result.status = status;
    if (status)
        result.text = api_error_text(status);
    else
        result = api_run_json(call, json, bounds);
    json_decref(json);
    return result;
}

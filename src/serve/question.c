/* question.c - from the JSON of a request to a model, a cluster and degrees.
 *
 *   {"question": {"model": "gpt3-13b", "cluster": "dgx-a100:4", "batch": {"global": 64}, "degrees": {"tp": 8}},
 *    "files": {"config.json": "..."}, "what_if": {"network": 2, "memory": 1.5}}
 *
 *   I1  A question is written like a plan file (docs/reference/plan-file.md) and read by the same functions. One with
 *       stages, a tree or choices is a whole plan.
 *   I2  What-ifs are factors of the cluster's parts; they apply to the cluster that was opened.
 */
#include <stdlib.h>
#include <string.h>

#include "serve/room.h"

/* ---- reading bodies -------------------------------------------------------------------------- */

weft_status body_flag(const json_t *body, const char *key, bool *out)
{
    const json_t *value = json_object_get(body, key);
    if (value && !json_is_boolean(value))
        return bad_argument(NULL, "'%s' is no truth value, expected true or false", key);
    *out = json_is_true(value);
    return WEFT_OK;
}

weft_status body_text(const json_t *body, const char *key, const char **out)
{
    const json_t *value = json_object_get(body, key);
    *out = json_string_value(value);
    if (value && !*out)
        return bad_argument(NULL, "'%s' is no text", key);
    return WEFT_OK;
}

weft_status body_numbers(const json_t *body, const char *key, size_t most, int64_t *out,
                         size_t *count)
{
    const json_t *list = json_object_get(body, key);
    *count = json_array_size(list);
    if (list && (!json_is_array(list) || *count > most))
        return bad_argument(NULL, "'%s' is no list of at most %zu numbers", key, most);
    for (size_t i = 0; i < *count; i++) {
        const json_t *value = json_array_get(list, i);
        out[i] = json_integer_value(value);
        if (!json_is_integer(value) || out[i] < 1 || out[i] > INT32_MAX)
            return bad_argument(NULL, "'%s' has something else than whole numbers from 1", key);
    }
    return WEFT_OK;
}

/* ---- what-ifs (I2) --------------------------------------------------------------------------- */

static const double LEAST_FACTOR = 0.01, MOST_FACTOR = 100;

static weft_status factor_of(const json_t *what_if, const char *key, double *out)
{
    const json_t *value = json_object_get(what_if, key);
    *out = value ? json_number_value(value) : 1;
    if (value && (!json_is_number(value) || !(*out >= LEAST_FACTOR && *out <= MOST_FACTOR)))
        return bad_argument(NULL, "what_if: '%s' is no factor from %g to %g", key, LEAST_FACTOR,
                            MOST_FACTOR);
    return WEFT_OK;
}

static const char *const PARTS[] = {
    [PART_NETWORK] = "network",
    [PART_NODE_LINKS] = "node_links",
    [PART_HOST_LINKS] = "host_links",
};
_Static_assert(COUNT_OF(PARTS) == CLUSTER_PART_COUNT, "a part without a key");

static weft_status check_what_if(const json_t *what_if)
{
    static const char *const KEYS[] = {"network", "node_links", "host_links", "memory"};
    size_t known = 0;
    for (size_t i = 0; i < COUNT_OF(KEYS); i++)
        known += json_object_get(what_if, KEYS[i]) != NULL;
    if (json_is_object(what_if) && known == json_object_size(what_if))
        return WEFT_OK;
    return bad_argument("such as {\"network\": 2}",
                        "'what_if' has something else than network, node_links, host_links and "
                        "memory");
}

static weft_status change_cluster(const json_t *what_if, struct asked_plan *q)
{
    double factor;
    weft_status status = WEFT_OK;
    if (!what_if)
        return WEFT_OK;
    TRY(check_what_if(what_if));
    for (int part = 0; part < CLUSTER_PART_COUNT; part++) {
        TRY(factor_of(what_if, PARTS[part], &factor));
        if (factor == 1)
            continue;
        q->cluster[q->clusters++] = q->opened.cluster;
        q->opened.cluster = cluster_faster(q->opened.cluster, (enum cluster_part)part, factor);
    }
    TRY(factor_of(what_if, "memory", &factor));
    cluster_set_memory(q->opened.cluster, factor);
    if (q->opened.plan)
        q->opened.plan->cluster = q->opened.cluster;
done:
    return status;
}

/* ---- questions ------------------------------------------------------------------------------- */

static bool is_whole_plan(const json_t *question)
{
    return json_object_get(question, "stages") || json_object_get(question, "tree") ||
           json_object_get(question, "choices");
}

/* The text that the library reads; jansson's memory is not an arena's. */
static weft_status text_of(struct arena *keep, const json_t *question, const char **out)
{
    char *text = json_dumps(question, JSON_COMPACT);
    if (!text)
        return failure("the question cannot be written as text");
    struct hold hold;
    hold_push(&hold, free, text);
    *out = arena_copy_text(keep, text);
    hold_pop(&hold);
    free(text);
    return WEFT_OK;
}

static weft_status read_question(struct arena *keep, const char *text, struct asked_plan *out)
{
    struct plan_question read = {0};
    weft_status status = plan_question(keep, "question", text, strlen(text), &read);
    if (status)
        return status;
    out->opened = read.opened;
    out->degrees = read.pins;
    out->model_name = read.model_name;
    out->model_options = read.model_options;
    out->cluster_name = read.cluster_name;
    return follow_practice(keep, out->model_name, &out->model_options, &out->degrees, &out->opened);
}

weft_status question_open(struct arena *keep, const json_t *body, struct asked_plan *out)
{
    const json_t *question = json_object_get(body, "question");
    const char *text = "";
    weft_status status;
    *out = (struct asked_plan){0};
    if (!json_is_object(question))
        return bad_argument("such as {\"question\": {\"model\": \"gpt3-13b\", \"cluster\": "
                            "\"dgx-a100:4\"}}",
                            "the body has no 'question'");
    TRY(text_of(keep, question, &text));
    out->written_out = is_whole_plan(question);
    if (out->written_out)
        TRY(plan_parse(keep, "question", text, strlen(text), &out->opened));
    else
        TRY(read_question(keep, text, out));
    TRY(change_cluster(json_object_get(body, "what_if"), out));
done:
    return status;
}

weft_status question_plan(struct asked_plan *q)
{
    weft_status status;
    if (q->written_out)
        return WEFT_OK;
    TRY(plan_from_degrees(q->opened.model, q->opened.cluster, &q->degrees, &q->opened.plan));
    plan_set_names(q->opened.plan, q->model_name, q->model_options, q->cluster_name);
    TRY(plan_check(q->opened.plan));
done:
    return status;
}

void question_close(struct asked_plan *question)
{
    plan_close(&question->opened);
    for (int i = question->clusters - 1; i >= 0; i--)
        cluster_free(question->cluster[i]);
    question->clusters = 0;
}

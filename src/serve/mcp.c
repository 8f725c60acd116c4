/* mcp.c - the Model Context Protocol over standard input and output: an assistant calls plan, simulate, validate and
 * export as tools. Messages are JSON-RPC 2.0, one per line.
 *
 *   I1  Every request with an id has one answer; notifications have none.
 *   I2  A line of more than MOST_LINE_BYTES is answered with an error and not kept.
 *   I3  A tool that has no answer is an answer with isError, so that the assistant can read why.
 */
#include <stdlib.h>
#include <string.h>

#include "serve/room.h"

static const char PROTOCOL[] = "2025-06-18";

enum rpc_error {
    PARSE_ERROR = -32700,
    BAD_REQUEST = -32600,
    NO_METHOD = -32601,
    BAD_PARAMS = -32602
};

/* ---- tools ----------------------------------------------------------------------------------- */

static const char QUESTION[] = "{\"type\":\"object\",\"description\":\"Written like a plan file: "
                               "model (a preset such as gpt3-13b, or the name "
                               "of a file in files), cluster (such as dgx-a100:4), batch {global, "
                               "micro}, degrees {tp, pp, cp, ep, sp, zero, "
                               "recompute, pieces, schedule}; or a whole plan as the tool plan "
                               "answers it.\",\"required\":[\"model\","
                               "\"cluster\"],\"properties\":{\"model\":{\"type\":\"string\"},"
                               "\"cluster\":{\"type\":\"string\"},\"batch\":"
                               "{\"type\":\"object\"},\"degrees\":{\"type\":\"object\"}}}";
static const char FILES[] = "{\"type\":\"object\",\"description\":\"Texts of files that the "
                            "question names, such as a Hugging Face "
                            "config.json.\",\"additionalProperties\":{\"type\":\"string\"}}";
static const char WHAT_IF[] = "{\"type\":\"object\",\"description\":\"Factors of network, "
                              "node_links, host_links and memory.\"}";

static const struct {
    const char *name, *call, *text;
    const char *extra, *schema; /* a parameter of its own; NULL: none */
    bool required;
} TOOLS[] = {
    {"plan", "plan",
     "The fastest plan of a model on a cluster that fits in memory, with its prediction and "
     "reasons. Degrees that "
     "are given stay.",
     "quick", "{\"type\":\"boolean\",\"description\":\"Answer within about a second.\"}", false},
    {"simulate", "simulate",
     "How long one training iteration takes, where the time goes, and how full memory gets.", NULL,
     NULL, false},
    {"validate", "check",
     "Whether a plan can be executed, what is doubtful, and which frameworks run it.", NULL, NULL,
     false},
    {"export", "export", "A plan as launch arguments or a config of another framework.", "to",
     "{\"type\":\"string\",\"description\":\"megatron, slurm, torchtitan, deepspeed, fsdp, "
     "galvatron, dtensor, aceso or weft\"}",
     true},
};

static json_t *tool_json(size_t i)
{
    json_t *properties =
        json_pack("{s:o, s:o, s:o}", "question", json_loads(QUESTION, 0, NULL), "files",
                  json_loads(FILES, 0, NULL), "what_if", json_loads(WHAT_IF, 0, NULL));
    json_t *required = json_pack("[s]", "question");
    if (TOOLS[i].extra)
        json_object_set_new(properties, TOOLS[i].extra, json_loads(TOOLS[i].schema, 0, NULL));
    if (TOOLS[i].required)
        json_array_append_new(required, json_string(TOOLS[i].extra));
    return json_pack("{s:s, s:s, s:{s:s, s:o, s:o}}", "name", TOOLS[i].name, "description",
                     TOOLS[i].text, "inputSchema", "type", "object", "properties", properties,
                     "required", required);
}

static json_t *list_tools(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < COUNT_OF(TOOLS); i++)
        json_array_append_new(list, tool_json(i));
    return json_pack("{s:o}", "tools", list);
}

/* ---- messages -------------------------------------------------------------------------------- */

static double request_seconds = USUAL_SECONDS; /* of one call; set once, before the first */

static json_t *rpc_error(json_t *id, enum rpc_error code, const char *message)
{
    return json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code",
                     (int)code, "message", message);
}

static json_t *rpc_result(json_t *id, json_t *result)
{
    return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

/* I3 */
static json_t *tool_result(const struct api_result *result)
{
    json_t *answer = result->text ? json_loads(result->text, 0, NULL) : NULL;
    json_t *json =
        json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
                  result->text ? result->text : "", "isError", result->status != WEFT_OK);
    if (answer)
        json_object_set_new(json, "structuredContent", answer);
    return json;
}

static json_t *call_tool(json_t *id, const json_t *params)
{
    const char *name = json_string_value(json_object_get(params, "name"));
    const json_t *arguments = json_object_get(params, "arguments");
    int at = name ? NAME_INDEX(name, TOOLS) : -1;
    atomic_bool never = false;
    struct api_bounds bounds = {.seconds = request_seconds, .asked = &never};
    if (at < 0)
        return rpc_error(id, BAD_PARAMS, "no tool of this name; tools/list names them");
    if (!json_is_object(arguments))
        return rpc_error(id, BAD_PARAMS, "a tool takes an object of arguments");
    struct api_result result = api_run_json(api_find(TOOLS[at].call), arguments, &bounds);
    json_t *json = rpc_result(id, tool_result(&result));
    free(result.text);
    return json;
}

static json_t *initialize(void)
{
    return json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}, s:s}", "protocolVersion", PROTOCOL,
                     "capabilities", "tools", "serverInfo", "name", "weft", "version",
                     weft_version(), "instructions",
                     "Plans and simulates the parallel training of neural networks. Ask plan for "
                     "the best plan, simulate for one with given degrees.");
}

static json_t *answer_method(json_t *id, const char *method, const json_t *params)
{
    if (strcmp(method, "initialize") == 0)
        return rpc_result(id, initialize());
    if (strcmp(method, "ping") == 0)
        return rpc_result(id, json_object());
    if (strcmp(method, "tools/list") == 0)
        return rpc_result(id, list_tools());
    if (strcmp(method, "tools/call") == 0)
        return call_tool(id, params);
    return rpc_error(id, NO_METHOD, "no such method");
}

static json_t *answer_message(const json_t *message)
{
    json_t *id = json_object_get(message, "id");
    const char *method = json_string_value(json_object_get(message, "method"));
    if (!json_is_object(message) || (id && !json_is_string(id) && !json_is_integer(id)))
        return rpc_error(NULL, BAD_REQUEST, "expected one JSON-RPC object");
    if (!id && method)
        return NULL; /* a notification: I1 */
    if (!method)
        return json_object_get(message, "result") ? NULL : rpc_error(id, BAD_REQUEST, "no method");
    return answer_method(id, method, json_object_get(message, "params"));
}

char *mcp_answer_line(const char *line, size_t len)
{
    json_t *message = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    json_t *answer =
        message ? answer_message(message) : rpc_error(NULL, PARSE_ERROR, "the line is no JSON");
    char *text = answer ? json_dumps(answer, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(message);
    json_decref(answer);
    return text;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Reads a line without keeping more than the limit; false: the input is over. */
static bool read_line(FILE *in, char *line, size_t *len, bool *too_long)
{
    int c;
    *len = 0;
    *too_long = false;
    while ((c = fgetc(in)) != EOF && c != '\n') {
        if (*len < MOST_LINE_BYTES)
            line[(*len)++] = (char)c;
        else
            *too_long = true; /* I2 */
    }
    return c != EOF || *len > 0;
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", line[i]))
            return false;
    return true;
}

weft_status mcp_run(FILE *in, FILE *out, int64_t seconds)
{
    char *line = malloc(MOST_LINE_BYTES);
    size_t len;
    bool too_long;
    request_seconds = (double)seconds;
    if (!line)
        return failure("no memory for a line");
    while (read_line(in, line, &len, &too_long)) {
        if (!too_long && is_blank(line, len))
            continue;
        char *answer = mcp_answer_line(line, too_long ? 0 : len);
        if (answer)
            fprintf(out, "%s\n", answer);
        fflush(out);
        free(answer);
    }
    free(line);
    return WEFT_OK;
}

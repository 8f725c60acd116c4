/* fuzz_request.c - bodies of the explorer's requests and lines of assistants, from any bytes: no crash, no leak, and what
 * is answered is JSON. Questions that parse are not simulated here: only calls that read and refuse. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_json(char *text)
{
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    if (text && !json)
        abort();
    json_decref(json);
    free(text);
}

/* A model of a million layers is slow, not wrong; a search takes its seconds. */
static bool is_slow(const char *text)
{
    enum { DIGITS = 4 };
    size_t digits = 0;
    for (; *text && digits < DIGITS; text++)
        digits = *text >= '0' && *text <= '9' ? digits + 1 : 0;
    return digits == DIGITS || strstr(text, "plan");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const PATHS[] = {"/api/v1/check", "/api/v1/export", "/api/v1/stop", "/x"};
    char *text = calloc(size + 1, 1), *answer;
    if (!text)
        return 0;
    memcpy(text, data, size);
    if (!is_slow(text)) {
        const char *path = PATHS[size ? data[size - 1] % COUNT_OF(PATHS) : 0];
        api_answer_text(path, text, size, &answer);
        must_be_json(answer);
        must_be_json(mcp_answer_line(text, size));
    }
    free(text);
    return 0;
}

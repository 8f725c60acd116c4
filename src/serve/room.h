/* room.h - what the files of this room share: questions, calls and their answers. */
#ifndef WEFT_SERVE_ROOM_H
#define WEFT_SERVE_ROOM_H

#include "serve/serve.h"

/* ---- limits (serve.h, I2) -------------------------------------------------------------------- */

enum {
    MOST_BODY_BYTES = 1 << 20, /* the largest config.json that Hugging Face has takes some 20 KiB */
    MOST_FILES = 4,
    MOST_KEYS = 8, /* of a body */
    MOST_COMPARED = 8,
    MOST_CELLS = 400,     /* of a grid: one estimate takes about a millisecond */
    TIMELINE_BARS = 4000, /* more than a screen has columns */
    USUAL_SECONDS = 20,   /* of one request */
    MOST_SEARCH_S = 600,  /* of a search, which shows its progress and can be stopped */
    USUAL_MEMORY_MIB = 2048,
    MOST_LINE_BYTES = MOST_BODY_BYTES
};

/* ---- questions (question.c) ------------------------------------------------------------------ */

/* A question with what it names opened: a plan's model and cluster, changed as its what-if says. */
struct asked_plan {
    struct opened_plan opened; /* its plan is NULL until question_plan */
    struct degrees degrees;
    const char *model_name, *model_options, *cluster_name;
    bool written_out; /* it is a whole plan: `opened` has it already */
    struct cluster *cluster[CLUSTER_PART_COUNT + 1]; /* those that `opened.cluster` was made from */
    int clusters;
};
/* Reads {"question": {...}, "what_if": {...}}; files must have been given (files_give). */
weft_status question_open(struct arena *keep, const json_t *body, struct asked_plan *out);
/* Makes the plan of its degrees, as `weft simulate` does. */
weft_status question_plan(struct asked_plan *question);
void question_close(struct asked_plan *question);

/* ---- calls (api.c) --------------------------------------------------------------------------- */

struct api_request {
    struct arena *scratch; /* dies with the request */
    const json_t *body;
    struct stop stop;
    atomic_bool *asked; /* to stop; the same as stop.asked */
    void (*progress)(void *context, const struct progress *progress); /* NULL: nobody looks */
    void *context;
    struct reserved_cache *reserved; /* what requests keep for each other (sim.h); NULL: nothing */
};
typedef weft_status api_function(const struct api_request *request, json_t **out);

struct api_call {
    const char *name; /* the last word of its path */
    api_function *answer;
    const char *key[MOST_KEYS + 1]; /* of its body, up to NULL; none: a GET */
    bool searches;                  /* takes seconds: has progress, and a longer limit */
    const char *summary;
};
const struct api_call *api_find(const char *name);
bool api_asks(const struct api_call *call); /* POST with a body; else GET */

/* What becomes of a request, whoever brings it. */
struct api_result {
    weft_status status;
    char *text;  /* JSON: the answer, or {"error": ...}; the caller frees it */
    bool unread; /* the body is no JSON, or has a key that its call does not know */
};
struct api_bounds {
    double seconds; /* 0: no limit */
    atomic_bool *asked;
    void (*progress)(void *context, const struct progress *progress);
    void *context;
    struct reserved_cache *reserved;
};
/* Reads a body and answers it as one request (base.h), so that running out of memory is a status. */
struct api_result api_run(const struct api_call *call, const char *body, size_t len,
                          const struct api_bounds *bounds);
/* {"error": {"status", "message", "hint"}} of the thread's last error; the caller frees it. */
char *api_error_text(weft_status status);
/* The same of a body that has been read. */
struct api_result api_run_json(const struct api_call *call, const json_t *body,
                               const struct api_bounds *bounds);

/* answers.c, search.c: one function for each call. */
api_function answer_models, answer_clusters, answer_choices, answer_simulate, answer_check,
    answer_export, answer_compare, answer_values, answer_grid, answer_plan;

/* ---- what the body of a request may say ------------------------------------------------------ */

/* It has no other keys than these, up to NULL. */
weft_status body_keys(json_t *body, const char *const key[]);
weft_status body_flag(const json_t *body, const char *key, bool *out);
weft_status body_text(const json_t *body, const char *key, const char **out); /* NULL: not given */
/* A list of at most `most` whole numbers from 1; *count is 0 if it is not given. */
weft_status body_numbers(const json_t *body, const char *key, size_t most, int64_t *out,
                         size_t *count);

/* ---- what is embedded ------------------------------------------------------------------------ */

extern const char EXPLORER_PAGE[]; /* explorer.html */
extern const char OPENAPI[];       /* openapi.json */

#endif

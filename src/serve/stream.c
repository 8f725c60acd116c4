/* stream.c - a search whose progress is sent as it goes, one JSON object per line:
 *
 *   {"search": "5f1c..."}                       its number, for /api/v1/stop
 *   {"progress": {"done", "all", "plans", "best_s", ...}}
 *   {"answer": {...}} or {"error": {...}}       the last line
 *
 *   I1  The search has a thread of its own; the connection's thread waits for its lines. When the client leaves, the
 *       search is stopped and its thread joined before anything is freed.
 *   I2  The first line is sent once the question has been read: one that cannot be is answered like any other call's.
 */
#include <stdlib.h>
#include <string.h>

#include "serve/http.h"

struct search_stream {
    struct server *server;
    struct search_stream *next;
    char *body;
    size_t len;
    char number[40];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool asked;
    /* under `lock` */
    char *line; /* the next to be sent; NULL: none */
    size_t sent;
    bool begun; /* the question has been read, and the search is going on */
    bool named; /* the line with its number has been sent */
    bool over;
    char *last;  /* the last line, once it is known */
    int refused; /* the status of HTTP of a question that could not be read; 0: it could */
};

/* ---- lines ----------------------------------------------------------------------------------- */

/* Progress that nobody has taken yet is replaced; its number is not. */
static void put_line(struct search_stream *stream, char *line)
{
    pthread_mutex_lock(&stream->lock);
    stream->begun = true;
    if (stream->named && stream->sent == 0) {
        free(stream->line);
        stream->line = line;
    } else {
        free(line);
    }
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void tell_progress(void *context, const struct progress *p)
{
    char *line = NULL;
    json_t *json = json_pack(
        "{s:{s:s, s:s, s:I, s:I, s:I, s:f}}", "progress", "who", p->who ? p->who : "", "what",
        p->what ? p->what : "", "done", (json_int_t)p->done, "all", (json_int_t)p->all, "plans",
        (json_int_t)(p->candidates + p->trials), "best_s", (double)p->best_ns / 1e9);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (text && asprintf(&line, "%s\n", text) > 0)
        put_line(context, line);
    free(text);
}

static char *last_line(const struct api_result *result)
{
    char *line = NULL;
    if (!result->text ||
        asprintf(&line, result->status ? "%s\n" : "{\"answer\":%s}\n", result->text) < 0)
        return strdup("{\"error\":{\"status\":\"failure\",\"message\":\"out of memory\"}}\n");
    return line;
}

static void *run_search(void *context)
{
    struct search_stream *stream = context;
    struct api_bounds bounds = {.seconds = MOST_SEARCH_S,
                                .asked = &stream->asked,
                                .progress = tell_progress,
                                .context = stream};
    struct api_result result = api_run(api_find("plan"), stream->body, stream->len, &bounds);
    char *line = last_line(&result);
    free(result.text);
    pthread_mutex_lock(&stream->lock);
    stream->last = line;
    stream->refused = stream->begun || !result.status ? 0 : http_code(&result);
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* ---- the connection's side ------------------------------------------------------------------- */

static void next_line(struct search_stream *stream)
{
    while (!stream->line && !stream->last)
        pthread_cond_wait(&stream->changed, &stream->lock);
    if (stream->line)
        return;
    stream->line = stream->last;
    stream->last = NULL;
    stream->over = true;
}

static ssize_t read_stream(void *context, uint64_t position, char *out, size_t most)
{
    struct search_stream *stream = context;
    (void)position;
    pthread_mutex_lock(&stream->lock);
    if (!stream->line && stream->over) {
        pthread_mutex_unlock(&stream->lock);
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    next_line(stream);
    size_t left = strlen(stream->line) - stream->sent, bytes = left < most ? left : most;
    memcpy(out, stream->line + stream->sent, bytes);
    stream->sent += bytes;
    if (bytes == left) {
        free(stream->line);
        stream->line = NULL;
        stream->sent = 0;
        stream->named = true;
    }
    pthread_mutex_unlock(&stream->lock);
    return (ssize_t)bytes;
}

static void free_stream(struct search_stream *stream)
{
    free(stream->line);
    free(stream->last);
    free(stream->body);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* I1 */
static void close_stream(void *context)
{
    struct search_stream *stream = context, **at;
    struct server *server = stream->server;
    atomic_store(&stream->asked, true);
    pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&server->lock);
    for (at = &server->streams; *at && *at != stream; at = &(*at)->next)
        ;
    if (*at)
        *at = stream->next;
    pthread_mutex_unlock(&server->lock);
    free_stream(stream);
    slot_give(server, true);
}

/* ---- starting and stopping ------------------------------------------------------------------- */

static struct search_stream *new_stream(struct server *server, const char *body, size_t len)
{
    struct search_stream *stream = calloc(1, sizeof *stream);
    struct arena *scratch = arena_new();
    const char *number = "";
    if (stream && serve_token(scratch, &number) == WEFT_OK) {
        stream->server = server;
        stream->body = strndup(body, len);
        stream->len = len;
        snprintf(stream->number, sizeof stream->number, "%s", number);
        if (asprintf(&stream->line, "{\"search\":\"%s\"}\n", number) < 0)
            stream->line = NULL;
        pthread_mutex_init(&stream->lock, NULL);
        pthread_cond_init(&stream->changed, NULL);
    }
    arena_free(scratch);
    return stream;
}

static bool begin(struct server *server, struct search_stream *stream)
{
    if (!stream->body || pthread_create(&stream->thread, NULL, run_search, stream) != 0)
        return false;
    pthread_mutex_lock(&server->lock);
    stream->next = server->streams;
    server->streams = stream;
    pthread_mutex_unlock(&server->lock);
    return true;
}

/* I2: 0, or the status of a question that could not be read, with its message, which the caller frees. */
static int wait_for_question(struct search_stream *stream, char **message)
{
    pthread_mutex_lock(&stream->lock);
    while (!stream->begun && !stream->last)
        pthread_cond_wait(&stream->changed, &stream->lock);
    int refused = stream->refused;
    if (refused) {
        *message = stream->last;
        stream->last = NULL;
    }
    pthread_mutex_unlock(&stream->lock);
    return refused;
}

static enum MHD_Result send_stream(struct server *server, struct MHD_Connection *connection,
                                   struct search_stream *stream)
{
    const struct http_library *http = server->http;
    struct MHD_Response *response = http->create_response_from_callback_(
        MHD_SIZE_UNKNOWN, 32 << 10, read_stream, stream, close_stream);
    if (!response) {
        close_stream(stream);
        return MHD_NO;
    }
    add_headers(server, response, "application/x-ndjson");
    enum MHD_Result queued = http->queue_response_(connection, 200, response);
    http->destroy_response_(response);
    return queued;
}

enum MHD_Result stream_search(struct server *server, struct MHD_Connection *connection,
                              const char *body, size_t len)
{
    if (!slot_take(server, true))
        return send_error(server, connection, 503, "others are searching; ask again in a moment");
    struct search_stream *stream = new_stream(server, body, len);
    char *message = NULL;
    if (!stream || !begin(server, stream)) { /* no memory or no threads: the connection is closed */
        if (stream)
            free_stream(stream);
        slot_give(server, true);
        return MHD_NO;
    }
    int refused = wait_for_question(stream, &message);
    if (!refused)
        return send_stream(server, connection, stream);
    close_stream(stream);
    return send_json(server, connection, refused, message);
}

bool stream_stop(struct server *server, const char *number)
{
    bool found = false;
    pthread_mutex_lock(&server->lock);
    for (struct search_stream *stream = server->streams; stream; stream = stream->next)
        if (strcmp(stream->number, number) == 0) {
            atomic_store(&stream->asked, true);
            found = true;
        }
    pthread_mutex_unlock(&server->lock);
    return found;
}

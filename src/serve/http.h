/* http.h - one server: its limits, who is at work, and the pieces of an answer. Private to the room. */
#ifndef WEFT_SERVE_HTTP_H
#define WEFT_SERVE_HTTP_H

#include "serve/microhttpd.h"
#include "serve/room.h"
#include "serve/watch.h"

enum {
    MOST_CONNECTIONS = 64,
    MOST_SEARCHES = 2,
    IDLE_SECONDS = 20,           /* a connection that says nothing for so long is closed */
    CONNECTION_BYTES = 64 << 10, /* headers and buffers of a connection */
    SLOT_WAIT_MS = 5000 /* for others' work to end, before the server says that it is busy */
};

struct search_stream;
struct server {
    const struct http_library *http;
    const struct serve_options *options;
    struct watch watch;
    /* what simulations keep for each other: a drag comes back to most stages */
    struct reserved_cache *reserved;
    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t freed;
    int working, most_working, searching;
    struct search_stream *streams;
};

/* ---- http.c ---------------------------------------------------------------------------------- */

/* {"error": ...} with this status and message. */
enum MHD_Result send_error(const struct server *server, struct MHD_Connection *connection, int code,
                           const char *message);
/* The text is JSON, which is freed. */
enum MHD_Result send_json(const struct server *server, struct MHD_Connection *connection, int code,
                          char *text);
int http_code(const struct api_result *result);
/* Waits for a place to work in; false: there is none. */
bool slot_take(struct server *server, bool search);
void slot_give(struct server *server, bool search);
void add_headers(const struct server *server, struct MHD_Response *response, const char *type);

/* ---- stream.c: a search whose progress is sent line by line ----------------------------------- */

/* The body is copied. */
enum MHD_Result stream_search(struct server *server, struct MHD_Connection *connection,
                              const char *body, size_t len);
/* Stops the search of this number; false: there is none. */
bool stream_stop(struct server *server, const char *number);

#endif

/* http.c - the explorer's server: who may ask, what is asked, and how much of it at once.
 *
 *   GET  /                     the page             GET  /api/v1/openapi.json   the interface described
 *   GET  /api/v1/models ...    lists                POST /api/v1/simulate ...   questions (api.c)
 *   POST /api/v1/plan?progress=1                    progress line by line, then the answer (stream.c)
 *   POST /api/v1/stop          {"search": "..."}    ends a search with the best so far
 *
 *   I1  One thread per connection, at most MOST_CONNECTIONS; of these at most as many compute as there are processors.
 *   I2  A request with a body says that it is JSON, and one from another page carries the token: a page that a browser
 *       has open elsewhere cannot ask. Host must be this server's, so that no other name can be made to point here.
 *   I3  A body that is too long is read no further.
 */
#include "serve/http.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

static const char JSON_TYPE[] = "application/json", HTML_TYPE[] = "text/html; charset=utf-8";
static const char API[] = "/api/v1/";

/* ---- answers --------------------------------------------------------------------------------- */

/* 400 is for what cannot be read, 422 for a question that can, and has no answer. */
int http_code(const struct api_result *result)
{
    static const int CODES[] = {
        [WEFT_OK] = 200, [WEFT_NO_ANSWER] = 422, [WEFT_BAD_INPUT] = 422, [WEFT_FAILURE] = 500};
    return result->unread ? 400 : CODES[result->status];
}

void add_headers(const struct server *server, struct MHD_Response *response, const char *type)
{
    const struct http_library *http = server->http;
    http->add_response_header_(response, "Content-Type", type);
    http->add_response_header_(response, "Cache-Control", "no-store");
    http->add_response_header_(response, "X-Content-Type-Options", "nosniff");
    http->add_response_header_(response, "Referrer-Policy", "no-referrer");
    http->add_response_header_(response, "Content-Security-Policy",
                               "default-src 'none'; script-src 'unsafe-inline'; style-src "
                               "'unsafe-inline'; connect-src 'self'; img-src data:; "
                               "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    if (server->options->token) { /* a page elsewhere may ask if it carries the token */
        http->add_response_header_(response, "Access-Control-Allow-Origin", "*");
        http->add_response_header_(response, "Access-Control-Allow-Headers",
                                   "authorization, content-type");
    }
}

/* Frees the text. */
static enum MHD_Result send_allowing(const struct server *server, struct MHD_Connection *connection,
                                     int code, const char *type, char *text, const char *allow)
{
    const struct http_library *http = server->http;
    struct MHD_Response *response =
        text ? http->create_response_from_buffer_(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) {
        free(text);
        return MHD_NO;
    }
    add_headers(server, response, type);
    if (allow)
        http->add_response_header_(response, "Allow", allow);
    enum MHD_Result sent = http->queue_response_(connection, (unsigned)code, response);
    http->destroy_response_(response);
    return sent;
}

/* Frees the text. */
static enum MHD_Result send_text(const struct server *server, struct MHD_Connection *connection,
                                 int code, const char *type, char *text)
{
    return send_allowing(server, connection, code, type, text, NULL);
}

enum MHD_Result send_json(const struct server *server, struct MHD_Connection *connection, int code,
                          char *text)
{
    return send_text(server, connection, code, JSON_TYPE, text);
}

enum MHD_Result send_error(const struct server *server, struct MHD_Connection *connection, int code,
                           const char *message)
{
    weft_status status = bad_argument(NULL, "%s", message);
    return send_json(server, connection, code, api_error_text(status));
}

/* ---- places to work in (I1) ------------------------------------------------------------------ */

static bool has_slot(const struct server *server, bool search)
{
    return search ? server->searching < MOST_SEARCHES : server->working < server->most_working;
}

bool slot_take(struct server *server, bool search)
{
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SLOT_WAIT_MS / 1000;
    pthread_mutex_lock(&server->lock);
    while (!has_slot(server, search) && !late)
        late = pthread_cond_timedwait(&server->freed, &server->lock, &until);
    bool taken = has_slot(server, search);
    *(search ? &server->searching : &server->working) += taken;
    pthread_mutex_unlock(&server->lock);
    return taken;
}

void slot_give(struct server *server, bool search)
{
    pthread_mutex_lock(&server->lock);
    --*(search ? &server->searching : &server->working);
    pthread_cond_broadcast(&server->freed);
    pthread_mutex_unlock(&server->lock);
}

/* ---- who may ask (I2) ------------------------------------------------------------------------ */

bool address_is_loopback(const char *address)
{
    struct in_addr four;
    return strcmp(address, "::1") == 0 || strcmp(address, "localhost") == 0 ||
           (inet_pton(AF_INET, address, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
}

/* Takes as long whatever the two have in common. */
static bool same_secret(const char *a, const char *b)
{
    size_t len = strlen(a);
    unsigned char differ = strlen(b) != len;
    for (size_t i = 0; i < len; i++)
        differ |= (unsigned char)(a[i] ^ (b[i % (strlen(b) + 1)]));
    return !differ;
}

static const char *header_of(const struct server *server, struct MHD_Connection *connection,
                             const char *name)
{
    return server->http->lookup_connection_value_(connection, MHD_HEADER_KIND, name);
}

static bool carries_token(const struct server *server, struct MHD_Connection *connection)
{
    static const char SCHEME[] = "Bearer ";
    const char *given = header_of(server, connection, "Authorization");
    return given && strncasecmp(given, SCHEME, strlen(SCHEME)) == 0 &&
           same_secret(server->options->token, given + strlen(SCHEME));
}

/* The name of a host without its port: "[::1]:80" is "::1". */
static bool host_is_ours(const char *host)
{
    char name[64];
    if (!host || strlen(host) >= sizeof name)
        return false;
    strcpy(name, host);
    char *colon = strrchr(name, ':'), *end = strchr(name, ']');
    if (colon && colon > end)
        *colon = '\0';
    char *first = name[0] == '[' ? name + 1 : name;
    first[strcspn(first, "]")] = '\0';
    return address_is_loopback(first);
}

static bool same_origin(const char *origin, const char *host)
{
    const char *slashes = origin ? strstr(origin, "://") : NULL;
    return !origin || (slashes && host && strcmp(slashes + 3, host) == 0);
}

/* NULL: it may; else what is wrong, with the status of HTTP. */
static const char *refuse(const struct server *server, struct MHD_Connection *connection,
                          bool is_api, int *code)
{
    const char *host = header_of(server, connection, "Host");
    *code = 401;
    if (server->options->token)
        return !is_api || carries_token(server, connection)
                   ? NULL
                   : "this server needs its token: Authorization: Bearer TOKEN";
    *code = 403;
    if (!host_is_ours(host))
        return "this server answers to its loopback address only";
    return same_origin(header_of(server, connection, "Origin"), host)
               ? NULL
               : "this server answers its own page only";
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* A request whose body is being read. */
struct body_reading {
    char *body;
    size_t len;
    bool too_long, begun;
    double since_s;
};

static enum MHD_Result take_part(struct body_reading *reading, const char *data, size_t *bytes)
{
    if (reading->len + *bytes > MOST_BODY_BYTES ||
        wall_seconds() - reading->since_s > 2 * IDLE_SECONDS) {
        reading->too_long = true; /* I3 */
        *bytes = 0;
        return MHD_NO;
    }
    char *more = realloc(reading->body, reading->len + *bytes + 1);
    if (!more)
        return MHD_NO;
    memcpy(more + reading->len, data, *bytes);
    reading->body = more;
    reading->len += *bytes;
    more[reading->len] = '\0';
    *bytes = 0;
    return MHD_YES;
}

static enum MHD_Result answer_call(struct server *server, struct MHD_Connection *connection,
                                   const struct api_call *call, const struct body_reading *reading)
{
    const union MHD_ConnectionInfo *info =
        server->http->get_connection_info_(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct watched work = {.socket = info ? info->connect_fd : -1};
    struct api_bounds bounds = {.seconds = (double)server->options->seconds,
                                .asked = &work.asked,
                                .reserved = server->reserved};
    if (call->searches)
        bounds.seconds = MOST_SEARCH_S;
    if (!slot_take(server, call->searches))
        return send_error(server, connection, 503, "the server is busy; ask again in a moment");
    watch_add(&server->watch, &work);
    struct api_result result =
        api_run(call, reading->body ? reading->body : "", reading->len, &bounds);
    watch_remove(&server->watch, &work);
    slot_give(server, call->searches);
    return send_json(server, connection, http_code(&result), result.text);
}

static enum MHD_Result answer_stop(struct server *server, struct MHD_Connection *connection,
                                   const struct body_reading *reading)
{
    json_t *body = reading->body ? json_loadb(reading->body, reading->len, 0, NULL) : NULL;
    const char *number = json_string_value(json_object_get(body, "search"));
    bool stopped = number && stream_stop(server, number);
    json_decref(body);
    if (!stopped)
        return send_error(server, connection, 404, "no search of this number is going on");
    return send_json(server, connection, 200, strdup("{\"stopped\":true}"));
}

static enum MHD_Result answer_post(struct server *server, struct MHD_Connection *connection,
                                   const char *name, const struct body_reading *reading)
{
    const struct api_call *call = api_find(name);
    const char *type = header_of(server, connection, "Content-Type");
    if (!type || strncasecmp(type, JSON_TYPE, strlen(JSON_TYPE)) != 0)
        return send_error(server, connection, 415, "the body must be application/json");
    if (!call) /* the one that no library call answers */
        return answer_stop(server, connection, reading);
    const char *progress =
        server->http->lookup_connection_value_(connection, MHD_GET_ARGUMENT_KIND, "progress");
    if (progress && strcmp(progress, "1") != 0)
        return send_error(server, connection, 400, "'progress' is something else than 1");
    if (call->searches && progress)
        return stream_search(server, connection, reading->body ? reading->body : "", reading->len);
    return answer_call(server, connection, call, reading);
}

static enum MHD_Result answer_get(struct server *server, struct MHD_Connection *connection,
                                  const char *path)
{
    const struct body_reading none = {0};
    if (strcmp(path, "/") == 0)
        return send_text(server, connection, 200, HTML_TYPE, strdup(EXPLORER_PAGE));
    const struct api_call *call = api_find(path + strlen(API));
    if (!call)
        return send_json(server, connection, 200, strdup(OPENAPI));
    return answer_call(server, connection, call, &none);
}

static const char GET[] = "GET, HEAD", POST[] = "POST";

/* The methods of what is at a path; NULL: there is nothing. */
static const char *methods_of(const char *path)
{
    if (strcmp(path, "/") == 0)
        return GET;
    if (strncmp(path, API, strlen(API)) != 0)
        return NULL;
    const char *name = path + strlen(API);
    const struct api_call *call = api_find(name);
    if (call)
        return api_asks(call) ? POST : GET;
    return strcmp(name, "openapi.json") == 0 ? GET : strcmp(name, "stop") == 0 ? POST : NULL;
}

static enum MHD_Result answer_method(struct server *server, struct MHD_Connection *connection,
                                     const char *path, const char *method,
                                     const struct body_reading *reading)
{
    const char *methods = methods_of(path);
    if (strcmp(method, "OPTIONS") == 0 && server->options->token)
        return send_json(server, connection, 200, strdup("{}"));
    if (!methods)
        return send_error(server, connection, 404,
                          "there is nothing here: /api/v1/openapi.json lists the calls");
    if (methods == POST && strcmp(method, "POST") == 0)
        return answer_post(server, connection, path + strlen(API), reading);
    if (methods == GET && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0))
        return answer_get(server, connection, path);
    return send_allowing(server, connection, 405, JSON_TYPE,
                         api_error_text(bad_argument(NULL, "expected %s", methods)), methods);
}

/* ---- libmicrohttpd's calls ------------------------------------------------------------------- */

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *bytes, void **state)
{
    struct server *server = context;
    struct body_reading *reading = *state;
    int code;
    (void)version;
    if (!reading) {
        *state = reading = calloc(1, sizeof *reading);
        if (reading)
            reading->since_s = wall_seconds();
        return reading ? MHD_YES : MHD_NO;
    }
    if (*bytes)
        return take_part(reading, data, bytes);
    bool open = strncmp(path, API, strlen(API)) != 0 || strcmp(method, "OPTIONS") == 0 ||
                strcmp(path, "/api/v1/openapi.json") == 0;
    const char *refused = refuse(server, connection, !open, &code);
    if (refused)
        return send_error(server, connection, code, refused);
    return answer_method(server, connection, path, method, reading);
}

static void forget(void *context, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode code)
{
    struct body_reading *reading = *state;
    (void)context, (void)connection, (void)code;
    if (reading)
        free(reading->body);
    free(reading);
    *state = NULL;
}

/* ---- serving --------------------------------------------------------------------------------- */

union any_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static weft_status address_of(const struct serve_options *options, union any_address *out)
{
    const char *text = strcmp(options->address, "localhost") == 0 ? "127.0.0.1" : options->address;
    *out = (union any_address){0};
    if (inet_pton(AF_INET, text, &out->four.sin_addr) == 1) {
        out->four.sin_family = AF_INET;
        out->four.sin_port = htons((uint16_t)options->port);
    } else if (inet_pton(AF_INET6, text, &out->six.sin6_addr) == 1) {
        out->six.sin6_family = AF_INET6;
        out->six.sin6_port = htons((uint16_t)options->port);
    } else {
        return bad_argument("such as 127.0.0.1 or 0.0.0.0", "'%.60s' is no address", text);
    }
    if (!options->token && !address_is_loopback(text))
        return bad_argument("name one with --token-file",
                            "%s is not the loopback: it needs a token", text);
    return WEFT_OK;
}

static int port_of(const struct server *server, struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info =
        server->http->get_daemon_info_(daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

static void tell_ready(const struct server *server, struct MHD_Daemon *daemon)
{
    char origin[96];
    const char *address = server->options->address;
    bool six = strchr(address, ':') != NULL;
    snprintf(origin, sizeof origin, "http://%s%s%s:%d", six ? "[" : "", address, six ? "]" : "",
             port_of(server, daemon));
    server->options->ready(server->options->context, origin);
}

static weft_status listen_until(struct server *server, const union any_address *address,
                                const atomic_bool *stop)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     (address->any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    struct MHD_Daemon *daemon = server->http->start_daemon_(
        flags, (uint16_t)server->options->port, NULL, NULL, handle, server, MHD_OPTION_SOCK_ADDR,
        &address->any, MHD_OPTION_CONNECTION_LIMIT, MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)8 << 20, MHD_OPTION_NOTIFY_COMPLETED, forget, NULL,
        MHD_OPTION_END);
    if (!daemon)
        return failure("cannot listen on %s port %lld: is it taken?", server->options->address,
                       (long long)server->options->port);
    tell_ready(server, daemon);
    while (!atomic_load(stop))
        usleep(100000);
    server->http->stop_daemon_(daemon);
    return WEFT_OK;
}

weft_status serve_run(const struct serve_options *options, const atomic_bool *stop)
{
    struct server server = {.options = options,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .freed = PTHREAD_COND_INITIALIZER,
                            .most_working = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    union any_address address;
    weft_status status;
    TRY(address_of(options, &address));
    TRY(http_library_open(&server.http));
    request_limit(options->memory_bytes);
    TRY(watch_begin(&server.watch));
    server.reserved = reserved_cache_new();
    status = listen_until(&server, &address, stop);
    watch_end(&server.watch);
done:
    reserved_cache_free(server.reserved);
    return status;
}

weft_status serve_token(struct arena *keep, const char **out)
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return failure("the machine gives no random numbers");
    char *text = ARENA_ARRAY(keep, char, 2 * sizeof random + 1);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    *out = text;
    return WEFT_OK;
}

int api_answer_text(const char *path, const char *body, size_t len, char **out)
{
    const struct api_call *call =
        strncmp(path, API, strlen(API)) == 0 ? api_find(path + strlen(API)) : NULL;
    struct api_bounds bounds = {.seconds = USUAL_SECONDS};
    *out = NULL;
    if (!call)
        return 404;
    struct api_result result = api_run(call, body, len, &bounds);
    *out = result.text;
    return http_code(&result);
}

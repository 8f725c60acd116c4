/* microhttpd.h - libmicrohttpd, opened when a server starts (microhttpd.c): it brings ten other libraries along, for
 * which no other command is to wait. Private to the room. */
#ifndef WEFT_SERVE_MICROHTTPD_H
#define WEFT_SERVE_MICROHTTPD_H

#include <microhttpd.h>

#include "base/base.h"

/* The functions that the server calls, each under its name without MHD_. */
#define HTTP_FUNCTIONS(X)                                                                          \
    X(start_daemon)                                                                                \
    X(stop_daemon)                                                                                 \
    X(get_daemon_info)                                                                             \
    X(get_connection_info)                                                                         \
    X(lookup_connection_value)                                                                     \
    X(create_response_from_buffer)                                                                 \
    X(create_response_from_callback)                                                               \
    X(add_response_header)                                                                         \
    X(queue_response)                                                                              \
    X(destroy_response)

struct http_library {
#define DECLARE(name) __typeof__(&MHD_##name) name##_;
    HTTP_FUNCTIONS(DECLARE)
#undef DECLARE
};
/* The library stays open once it was. */
weft_status http_library_open(const struct http_library **out);

#endif

/* serve.h - the explorer: a page, the JSON interface behind it over HTTP, and the same questions for assistants over
 * standard input and output.
 *
 *   question ──> api ──> answer        one table of calls; HTTP and MCP are two ways to reach it
 *
 *   I1  A question reads no file of this machine: it names presets, or brings its files along.
 *   I2  Every request is bounded: in bytes when it is read, in memory and in time when it is answered. What nobody
 *       waits for any more is stopped.
 *   I3  The server listens on the loopback address. Anywhere else it needs a token, and every request must carry it.
 *   I4  Nothing but the listening socket touches the network; the page loads nothing from elsewhere.
 *   I5  Fields are those that the commands print with --json (docs/reference/json.md).
 */
#ifndef WEFT_SERVE_H
#define WEFT_SERVE_H

#include <stdatomic.h>
#include <stdio.h>

#include "report/report.h"

struct serve_options {
    const char *address; /* "127.0.0.1", "::1", "0.0.0.0" */
    int64_t port;        /* 0: any that is free */
    const char *token;   /* NULL: none is needed, which only a loopback address allows (I3) */
    int64_t memory_bytes, seconds; /* of one request (I2) */
    void (*ready)(void *context,
                  const char *origin); /* is called when it listens: "http://127.0.0.1:8157" */
    void *context;
};
/* Serves until *stop is set, which a signal may do. */
weft_status serve_run(const struct serve_options *options, const atomic_bool *stop);
/* A token of 128 random bits, in `keep`. */
weft_status serve_token(struct arena *keep, const char **out);
bool address_is_loopback(const char *address);

/* Writes the page as a file of its own, which asks the server of this origin. */
weft_status explorer_write(const char *path, const char *origin);

/* Answers an assistant's messages, one per line, until the input ends (mcp.c). */
weft_status mcp_run(FILE *in, FILE *out, int64_t seconds);

/* Answers one request to this path with this body, for tests and fuzzers; returns the HTTP status. The caller frees
 * *out. */
int api_answer_text(const char *path, const char *body, size_t len, char **out);
/* Answers one line of an assistant; NULL: there is nothing to answer. The caller frees it. */
char *mcp_answer_line(const char *line, size_t len);

#endif

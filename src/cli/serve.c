/* serve.c - `weft serve`: the explorer in a browser; `weft mcp`: the same questions for assistants. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "serve/serve.h"

static const char USUAL_ADDRESS[] = "127.0.0.1";
enum { USUAL_PORT = 8157, USUAL_SECONDS = 20, MOST_SECONDS = 600 };
static const int64_t USUAL_BYTES = INT64_C(2) << 30;

struct serve_command {
    struct serve_options serve;
    const char *token_file, *page, *server;
};

#define AT(field) offsetof(struct serve_command, field)
static const struct cli_option OPTIONS[] = {
    {"port", "N", "the port to listen on; 0: any that is free (default 8157)", OPTION_COUNT,
     AT(serve.port), .least = 0, .most = 65535},
    {"address", "ADDRESS",
     "the address to listen on (default 127.0.0.1); any but the loopback needs a token, and makes "
     "one if none is given",
     OPTION_TEXT, AT(serve.address)},
    {"token-file", "FILE", "a file with the token that every request must carry", OPTION_TEXT,
     AT(token_file)},
    {"page", "FILE", "write the page as a file that asks --server, and end", OPTION_TEXT, AT(page),
     .writes = true},
    {"server", "URL", "the server that this page asks (default http://127.0.0.1:8157)", OPTION_TEXT,
     AT(server)},
    {"seconds", "N", "what one request may take; a search may take 600 (default 20)", OPTION_COUNT,
     AT(serve.seconds), .least = 1, .most = MOST_SECONDS},
    {"request-memory", "SIZE", "what one request may take of memory (default 2GiB)", OPTION_SIZE,
     AT(serve.memory_bytes)},
    {0},
};

static const struct syntax SYNTAX = {
    OPTIONS,
    "",
    "Serves the explorer: a page on which one moves degrees and watches time and memory, and the "
    "JSON interface behind it (docs/reference/api.md). It listens on the loopback address and "
    "reaches nothing else; Ctrl-C ends it.\v"
    "Example:\n"
    "  weft serve\n"
    "  weft serve --address 0.0.0.0 --port 9000 --token-file token.txt\n"
    "  weft serve --page explorer.html --server http://10.0.0.5:9000",
};

static atomic_bool ended;

static void end(int signal)
{
    (void)signal;
    atomic_store(&ended, true);
}

static void tell_ready(void *context, const char *origin)
{
    const struct serve_command *options = context;
    const char *token = options->serve.token;
    printf("the explorer is at %s/%s%s\n", origin, token ? "#token=" : "", token ? token : "");
    fflush(stdout);
}

static weft_status read_token(struct arena *keep, struct serve_command *options)
{
    char *text;
    size_t len;
    weft_status status;
    TRY(file_read(keep, options->token_file, 4096, &text, &len));
    text[strcspn(text, "\r\n")] = '\0';
    options->serve.token = text;
    if (strlen(text) < 16)
        status = bad_input(options->token_file, 1, "such as: openssl rand -hex 16",
                           "a token has at least 16 characters");
done:
    return status;
}

static weft_status settle_token(struct arena *keep, struct serve_command *options)
{
    if (options->token_file)
        return read_token(keep, options);
    if (!address_is_loopback(options->serve.address))
        return serve_token(keep, &options->serve.token);
    return WEFT_OK;
}

static weft_status serve(struct arena *keep, struct serve_command *options)
{
    weft_status status;
    if (options->page)
        return explorer_write(options->page, options->server);
    TRY(settle_token(keep, options));
    cli_warn_missing();
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGPIPE, SIG_IGN);
    TRY(serve_run(&options->serve, &ended));
done:
    return status;
}

int cmd_serve(int argc, char **argv)
{
    struct serve_command options = {.serve = {.address = USUAL_ADDRESS,
                                              .port = USUAL_PORT,
                                              .seconds = USUAL_SECONDS,
                                              .memory_bytes = USUAL_BYTES,
                                              .ready = tell_ready},
                                    .server = "http://127.0.0.1:8157"};
    struct arena *keep = arena_new();
    options.serve.context = &options;
    cli_read(&SYNTAX, argc, argv, &options);
    weft_status status = serve(keep, &options);
    arena_free(keep);
    return status ? cli_fail(status) : WEFT_OK;
}

/* ---- mcp ------------------------------------------------------------------------------------- */

struct mcp_command {
    int64_t seconds, memory_bytes;
};
static const struct cli_option MCP_OPTIONS[] = {
    {"seconds", "N", "what one call may take (default 60)", OPTION_COUNT,
     offsetof(struct mcp_command, seconds), .least = 1, .most = MOST_SECONDS},
    {"request-memory", "SIZE", "what one call may take of memory (default 2GiB)", OPTION_SIZE,
     offsetof(struct mcp_command, memory_bytes)},
    {0},
};
static const struct syntax MCP_SYNTAX = {
    MCP_OPTIONS,
    "",
    "Answers an assistant over standard input and output (Model Context Protocol): the tools plan, "
    "simulate, validate and export. It reads no file and reaches no network.\v"
    "Example, in an assistant's list of servers:\n"
    "  {\"weft\": {\"command\": \"weft\", \"args\": [\"mcp\"]}}",
};

int cmd_mcp(int argc, char **argv)
{
    struct mcp_command options = {60, USUAL_BYTES};
    cli_read(&MCP_SYNTAX, argc, argv, &options);
    cli_warn_missing();
    request_limit(options.memory_bytes);
    weft_status status = mcp_run(stdin, stdout, options.seconds);
    return status ? cli_fail(status) : WEFT_OK;
}

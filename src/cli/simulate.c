/* simulate.c - `weft simulate`: how long an iteration of a plan takes and why, and how full memory
 * gets. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/degrees.h"

struct options {
    struct plan_arguments plan;
    struct simulate_options simulate;
    struct trace_options trace;
    struct page_options report;
    const char *trace_path;
    bool timeline, json;
};

enum {
    OPTION_UNFOLD = 1,
    OPTION_TRACE,
    OPTION_TRACE_EVENTS,
    OPTION_PROFILE,
    OPTION_NO_RESERVED,
    OPTION_TIMELINE,
    OPTION_JSON,
    OPTION_REPORT,
    OPTION_FORMAT
};
static const struct argp_option OPTIONS[] = {
    {"timeline", OPTION_TIMELINE, NULL, 0, "draw what each stage does when", 0},
    {"trace", OPTION_TRACE, "FILE", 0,
     "write every task and operator as a trace for Perfetto or chrome://tracing", 0},
    {"trace-events", OPTION_TRACE_EVENTS, "N", 0,
     "leave out what makes a trace longer (default 2000000): all but one device of a stage, then "
     "operators",
     0},
    {"report", OPTION_REPORT, "FILE", 0,
     "write a page that shows it all: .html, .md, .txt or .json", 0},
    {"format", OPTION_FORMAT, "F", 0, "of the report, whatever its name: html, md, text or json",
     0},
    {"unfold", OPTION_UNFOLD, NULL, 0, "simulate every device, also those that do the same", 0},
    {"profile", OPTION_PROFILE, "DB", 0, "a database of measured times to ask first", 0},
    {"no-reserved", OPTION_NO_RESERVED, NULL, 0,
     "leave out what a caching allocator reserves: faster by a fraction of a second", 0},
    {"json", OPTION_JSON, NULL, 0, "one JSON object on standard output", 0},
    {0},
};
static const struct argp_child CHILDREN[] = {{&DEGREES_ARGP, 0, NULL, 0}, {0}};

static void take_events(struct argp_state *state, struct options *options, const char *arg)
{
    if (!parse_int(arg, &options->trace.events) || options->trace.events < 1)
        argp_error(state, "--trace-events takes a whole number of at least 1, not '%s'", arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->plan;
        return 0;
    case OPTION_UNFOLD:
        options->simulate.fold = FOLD_NEVER;
        return 0;
    case OPTION_TRACE:
        options->trace_path = arg;
        options->simulate.points = true;
        return 0;
    case OPTION_TRACE_EVENTS:
        take_events(state, options, arg);
        return 0;
    case OPTION_PROFILE:
        options->simulate.profile = arg;
        return 0;
    case OPTION_NO_RESERVED:
        options->simulate.reserved = false;
        return 0;
    case OPTION_TIMELINE:
        options->timeline = true;
        return 0;
    case OPTION_JSON:
        options->json = true;
        return 0;
    case OPTION_REPORT:
        options->report.path = arg;
        options->simulate.points = true;
        return 0;
    case OPTION_FORMAT:
        take_page_format(state, &options->report, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp ARGP = {
    OPTIONS,
    parse_option,
    "PLAN\nMODEL CLUSTER",
    "Simulates one iteration of a plan: how long it takes, where the time goes, what every stage "
    "waits for, and how full memory gets. A plan that does not fit in memory is simulated all the "
    "same, and ends the command with exit code 1.\v"
    "PLAN is a plan file (docs/plan-file.md).\n\n"
    "Example:\n"
    "  weft simulate data/plans/gpt3-13b.yaml\n"
    "  weft simulate gpt3-13b dgx-v100:4 --tp 8 --pp 2 --sp --zero 1 --global-batch 64\n"
    "  weft simulate data/plans/gpt3-13b.yaml --timeline --trace trace.json",
    CHILDREN,
    NULL,
    NULL,
};

/* ---- printing -------------------------------------------------------------------------------- */

/* A terminal's own width; of what is no terminal, that of all answers. */
static int output_columns(void)
{
    enum { LEAST = 40 };
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < LEAST)
        return REPORT_COLUMNS;
    return size.ws_col;
}

/* What differs from run to run is for whoever watches, and no part of the answer. */
static void tell_wall_clock(struct arena *scratch, const struct prediction *prediction)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "%s\n", wall_clock_text(scratch, prediction));
}

static int print_prediction(const struct options *options, const struct prediction *prediction)
{
    struct arena *scratch = options->plan.arena;
    if (options->json)
        return cli_print_json(prediction_json(prediction));
    prediction_print(scratch, prediction, stdout);
    if (options->timeline) {
        putchar('\n');
        timeline_print(scratch, prediction, output_columns(), stdout);
    }
    fflush(stdout); /* before what is told on standard error */
    tell_wall_clock(scratch, prediction);
    return WEFT_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static weft_status write_trace(const struct options *options, const struct prediction *prediction)
{
    static const char *const LEFT_OUT[] = {
        [TRACE_STAGES] = "one device of each stage",
        [TRACE_TASKS] = "one device of each stage, without its operators",
    };
    if (!options->trace_path)
        return WEFT_OK;
    enum trace_detail detail = trace_detail(prediction, &options->trace);
    if (detail != TRACE_ALL)
        fprintf(stderr, "weft: %s shows %s; --trace-events allows more\n", options->trace_path,
                LEFT_OUT[detail]);
    return trace_write(prediction, &options->trace, options->trace_path);
}

/* The answer first, also of a plan that does not fit. */
static int tell(const struct options *options, const struct prediction *prediction)
{
    struct page page = {.prediction = prediction,
                        .plan_text = plan_write(options->plan.arena, prediction->plan)};
    weft_status status = write_trace(options, prediction);
    if (!status)
        status = report_write(&options->report, &page);
    if (status)
        return cli_fail(status);
    int code = print_prediction(options, prediction);
    status = must_fit(options->plan.arena, prediction);
    return code == WEFT_OK && status ? cli_fail(status) : code;
}

static int run(const struct options *options, const struct plan *plan)
{
    struct prediction *prediction;
    weft_status status = simulate(plan, &options->simulate, &prediction);
    if (status)
        return cli_fail(status);
    int code = tell(options, prediction);
    prediction_free(prediction);
    return code;
}

int cmd_simulate(int argc, char **argv)
{
    struct options options = {.plan.arena = arena_new(), .simulate.reserved = true};
    struct opened_plan opened;
    cli_parse(&ARGP, argc, argv, &options);
    weft_status status = plan_open(&options.plan, &opened);
    int code = status ? cli_fail(status) : run(&options, opened.plan);
    if (!status)
        plan_close(&opened);
    arena_free(options.plan.arena);
    return code;
}

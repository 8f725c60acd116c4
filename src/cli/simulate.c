/* simulate.c - `weft simulate`: how long an iteration of a plan takes and why, and how much memory it
 * needs. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/degrees.h"

struct simulate_command {
    struct plan_arguments plan;
    struct simulate_options simulate;
    struct trace_options trace;
    struct page_options report;
    const char *trace_path, *what_if;
    bool timeline, unfold, json;
};

#define AT(field) offsetof(struct simulate_command, field)

static void take_format(struct argp_state *state, void *input, char *arg)
{
    struct simulate_command *options = input;
    take_page_format(state, &options->report, arg);
}

static void take_without(struct argp_state *state, void *input, char *arg)
{
    take_omitted(state, &((struct simulate_command *)input)->simulate.omitted, arg);
}

static const struct cli_option OPTIONS[] = {
    {"timeline", NULL, "draw what each stage does at what time", OPTION_FLAG, AT(timeline)},
    {"trace", "FILE", "write every task and operator as a trace for Perfetto or chrome://tracing",
     OPTION_TEXT, AT(trace_path), .writes = true},
    {"trace-events", "N",
     "leave out what makes a trace longer (default 2000000): all but one device of a stage, then "
     "operators",
     OPTION_COUNT, AT(trace.events), .least = 1},
    {"report", "FILE",
     "write a page that shows it all: .html, .md, .txt or .json; or its timeline: .svg",
     OPTION_TEXT, AT(report.path), .writes = true},
    {"format", "F", "the report's format, whatever its name: html, md, text, json or svg",
     OPTION_TAKE, .take = take_format},
    {"what-if", "LIST",
     "the cluster with parts of another size: factors of network, node_links, host_links and "
     "memory, "
     "such as network=2,memory=0.5",
     OPTION_TEXT, AT(what_if)},
    {"without", "LIST", OMITTED_HELP, OPTION_TAKE, .take = take_without},
    {"unfold", NULL, "simulate every device, also those that do the same", OPTION_FLAG, AT(unfold)},
    PROFILE_OPTION(AT(simulate.profile)),
    JSON_OPTION(AT(json)),
    {0},
};

static const struct syntax SYNTAX = {
    OPTIONS,
    "PLAN\nMODEL CLUSTER",
    "Simulates one iteration of a plan: how long it takes, where the time goes, what every stage "
    "waits for, and how full memory gets. A plan that does not fit in memory is simulated all the "
    "same, and ends the command with exit code 1.\v"
    "PLAN is a plan file (docs/reference/plan-file.md).\n\n"
    "Example:\n"
    "  weft simulate data/plans/gpt3-13b.yaml\n"
    "  weft simulate gpt3-13b dgx-v100:4 --tp 8 --pp 2 --sp --zero 1 --global-batch 64\n"
    "  weft simulate data/plans/gpt3-13b.yaml --timeline --trace trace.json",
    .child = PLAN_CHILD(AT(plan)),
};

/* ---- printing -------------------------------------------------------------------------------- */

/* The width of the terminal, or the usual width of answers if the output is not a terminal. */
static int output_columns(void)
{
    enum { LEAST = 40 };
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < LEAST)
        return REPORT_COLUMNS;
    return size.ws_col;
}

/* The time that it took differs from run to run, so it is no part of the answer but goes to standard error. */
static void tell_wall_clock(struct arena *scratch, const struct prediction *prediction)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "%s\n", wall_clock_text(scratch, prediction));
}

static int print_prediction(const struct simulate_command *options,
                            const struct prediction *prediction)
{
    struct arena *scratch = options->plan.arena;
    if (options->json)
        return cli_print_json(prediction_json(prediction));
    prediction_print(scratch, prediction, stdout);
    if (options->timeline) {
        putchar('\n');
        timeline_print(scratch, prediction, output_columns(), stdout);
    }
    fflush(stdout); /* before anything goes to standard error */
    tell_wall_clock(scratch, prediction);
    return WEFT_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static weft_status write_trace(const struct simulate_command *options,
                               const struct prediction *prediction)
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
    if (prediction->graph->plan != prediction->plan)
        fprintf(stderr, "weft: %s shows the %s that are simulated, of %lld\n", options->trace_path,
                counted(plan_micro_batches(prediction->graph->plan), "micro-batch").s,
                (long long)plan_micro_batches(prediction->plan));
    return trace_write(prediction, &options->trace, options->trace_path);
}

/* Prints the answer, even for a plan that does not fit, and then the error if it does not. */
static int tell(const struct simulate_command *options, const struct prediction *prediction)
{
    struct page page = {.prediction = prediction};
    weft_status status = write_trace(options, prediction);
    if (options->report.path)
        page.plan_text = plan_write(options->plan.arena, prediction->plan);
    if (!status)
        status = report_write(&options->report, &page);
    if (status)
        return cli_fail(status);
    int code = print_prediction(options, prediction);
    status = must_fit(options->plan.arena, prediction);
    return code == WEFT_OK && status ? cli_fail(status) : code;
}

/* ---- what-ifs -------------------------------------------------------------------------------- */

/* The cluster with its parts changed, from copy to copy: a copy uses names of the one before. */
struct changed_cluster {
    const struct cluster *now;
    struct cluster *copy[CLUSTER_PART_COUNT + 2];
    int copies;
};

static weft_status change_part(struct changed_cluster *changed, const char *name, double factor)
{
    static const char *const NAMES[] = {"network", "node_links", "host_links", "memory"};
    int part = 0;
    while (part < (int)COUNT_OF(NAMES) && strcmp(NAMES[part], name) != 0)
        part++;
    if (part == (int)COUNT_OF(NAMES) || changed->copies == (int)COUNT_OF(changed->copy))
        return bad_argument("network, node_links, host_links and memory can be, once each",
                            "--what-if: '%.40s' cannot be changed", name);
    bool memory = part == CLUSTER_PART_COUNT; /* a copy like the others, only with other memory */
    struct cluster *copy = cluster_faster(
        changed->now, memory ? PART_NETWORK : (enum cluster_part)part, memory ? 1 : factor);
    if (memory)
        cluster_set_memory(copy, factor);
    changed->copy[changed->copies++] = copy;
    changed->now = copy;
    return WEFT_OK;
}

static weft_status change_parts(struct arena *scratch, const char *list,
                                struct changed_cluster *changed)
{
    weft_status status = WEFT_OK;
    for (char *rest = list ? arena_copy_text(scratch, list) : NULL, *item;
         (item = strsep(&rest, ","));) {
        char *value = strchr(item, '=');
        double factor;
        if (!value || !parse_real(value + 1, &factor) || !(factor >= 0.01 && factor <= 100))
            return bad_argument("such as network=2,memory=0.5",
                                "--what-if: '%.40s' is no factor from 0.01 to 100 of a part", item);
        *value = '\0';
        TRY(change_part(changed, item, factor));
    }
done:
    return status;
}

static weft_status simulate_changed(const struct simulate_command *options, const struct plan *plan,
                                    struct changed_cluster *changed, struct plan *other,
                                    struct prediction **out)
{
    weft_status status;
    *changed = (struct changed_cluster){.now = plan->cluster};
    TRY(change_parts(options->plan.arena, options->what_if, changed));
    *other = *plan;
    other->cluster = changed->now;
    TRY(simulate(other, &options->simulate, out));
done:
    return status;
}

static int run(const void *context, const struct plan *plan)
{
    const struct simulate_command *options = context;
    struct prediction *prediction = NULL;
    struct changed_cluster changed = {0};
    struct plan other;
    weft_status status;
    TRY(file_writable(options->trace_path));
    TRY(file_writable(options->report.path));
    TRY(simulate_changed(options, plan, &changed, &other, &prediction));
    cli_warn_doubts(plan);
done:;
    int code = status ? cli_fail(status) : tell(options, prediction);
    prediction_free(prediction);
    while (changed.copies > 0)
        cluster_free(changed.copy[--changed.copies]);
    return code;
}

int cmd_simulate(int argc, char **argv)
{
    struct simulate_command options = {.plan.arena = arena_new()};
    cli_read(&SYNTAX, argc, argv, &options);
    cli_warn_missing();
    options.simulate.fold = options.unfold ? FOLD_NEVER : FOLD_AUTO;
    options.plan.profile = options.simulate.profile;
    options.simulate.returning = true;
    options.simulate.points = options.trace_path || options.report.path;
    return plan_command(&options.plan, run, &options);
}

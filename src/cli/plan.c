/* plan.c - `weft plan`: the fastest plan that fits, what it was chosen over, and why. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/degrees.h"
#include "cli/simulate.h"
#include "search/search.h"

struct options {
    struct plan_arguments plan;
    const char *planner, *profile, *output;
    int64_t top;
    bool json;
};

enum { OPTION_PLANNER = 1, OPTION_PROFILE, OPTION_TOP, OPTION_JSON };
enum { USUAL_TOP = 8 };

static const struct argp_option OPTIONS[] = {
    {"planner", OPTION_PLANNER, "NAME", 0,
     "megatron: every combination of degrees, each simulated (default)", 0},
    {"output", 'o', "FILE", 0, "write the plan to a file that simulate, show and check take", 0},
    {"top", OPTION_TOP, "N", 0, "show so many of the plans that were tried (default 8)", 0},
    {"profile", OPTION_PROFILE, "DB", 0, "a database of measured times to ask first", 0},
    {"json", OPTION_JSON, NULL, 0, "one JSON object on standard output", 0},
    {0},
};
static const struct argp_child CHILDREN[] = {{&DEGREES_ARGP, 0, NULL, 0}, {0}};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->plan;
        return 0;
    case OPTION_PLANNER:
        options->planner = arg;
        return 0;
    case OPTION_PROFILE:
        options->profile = arg;
        return 0;
    case 'o':
        options->output = arg;
        return 0;
    case OPTION_TOP:
        if (!parse_int(arg, &options->top) || options->top < 1)
            argp_error(state, "--top takes a whole number of at least 1, not '%s'", arg);
        return 0;
    case OPTION_JSON:
        options->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp ARGP = {
    OPTIONS,
    parse_option,
    "MODEL CLUSTER --global-batch N",
    "Finds the fastest plan that fits in memory. Degrees that are given stay as they are, all "
    "others "
    "are searched. Ctrl-C answers with the best plan so far. When nothing fits, the nearest miss "
    "is "
    "shown and the exit code is 1.\v"
    "Example:\n"
    "  weft plan gpt3-13b dgx-a100:4 --global-batch 64 -o plan.json\n"
    "  weft plan llama3.1-405b dgx-h100:64 --global-batch 512 --tp 8 --seq 8192",
    CHILDREN,
    NULL,
    NULL,
};

/* ---- while it searches ----------------------------------------------------------------------- */

static atomic_bool interrupted;

static void interrupt(int signal)
{
    (void)signal;
    atomic_store(&interrupted, true);
}

static void show_progress(void *context, const struct progress *progress)
{
    FILE *out = context;
    struct text32 best = show_duration((double)progress->best_ns);
    fprintf(out, "\r%lld of %lld layouts, %lld plans, best %s   ", (long long)progress->done,
            (long long)progress->all, (long long)progress->trials,
            progress->best_ns ? best.s : "none fits");
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_trials(struct arena *scratch, const struct planned *planned, int64_t top)
{
    static const char *const HEADERS[] = {"plan", "iteration", "slower", "memory", "of it"};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_RIGHT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const struct trial *best = planned->trials.data;
    for (size_t i = 0; i < planned->trials.len && i < (size_t)top; i++) {
        const struct trial *t = &planned->trials.data[i];
        double ratio = (double)t->iteration_ns / (double)best->iteration_ns;
        table_cell(table, "%s", trial_text(scratch, t));
        table_cell(table, "%s", show_seconds((double)t->iteration_ns).s);
        table_cell(table, "%s", i ? arena_printf(scratch, "%+.1f %%", 100 * (ratio - 1)) : "");
        table_cell(table, "%s", show_bytes((double)t->peak_bytes).s);
        table_cell(table, "%.0f %%%s", 100 * (double)t->peak_bytes / (double)t->limit_bytes,
                   t->fits ? "" : " !");
    }
    table_print(table, stdout);
}

static const char *value_text(struct arena *keep, const struct trial *trial,
                              enum dimension dimension)
{
    int64_t value = trial_value(trial, dimension);
    return dimension == DIMENSION_RECOMPUTE ? recompute_name((enum recompute)value)
                                            : arena_printf(keep, "%lld", (long long)value);
}

static struct text32 difference(double bytes)
{
    struct text32 size = show_bytes(bytes < 0 ? -bytes : bytes), out;
    snprintf(out.s, sizeof out.s, "%c%.30s", bytes < 0 ? '-' : '+', size.s);
    return out;
}

/* What the next best value of each dimension would have cost. */
static void print_why(struct arena *scratch, const struct planned *planned)
{
    static const char *const HEADERS[] = {"instead of", "next best", "iteration", "memory", ""};
    static const enum align ALIGNS[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_RIGHT,
                                        ALIGN_LEFT};
    struct table *table = table_new(scratch, COUNT_OF(HEADERS), HEADERS, ALIGNS);
    const struct trial *best = planned->trials.data;
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        enum dimension dimension = (enum dimension)i;
        const struct trial *other = next_best(planned, dimension);
        if (!other)
            continue;
        double ratio = (double)other->iteration_ns / (double)best->iteration_ns;
        table_cell(table, "%s %s", dimension_name(dimension), value_text(scratch, best, dimension));
        table_cell(table, "%s", trial_text(scratch, other));
        table_cell(table, "%+.1f %%", 100 * (ratio - 1));
        table_cell(table, "%s", difference((double)(other->peak_bytes - best->peak_bytes)).s);
        table_cell(table, "%s", other->fits ? "" : "does not fit");
    }
    putchar('\n');
    table_print(table, stdout);
}

static json_t *trial_json(struct arena *scratch, const struct trial *trial)
{
    const struct degrees *d = &trial->degrees;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:s, s:f, s:I, s:I, s:b}", "plan",
                     trial_text(scratch, trial), "dp", (json_int_t)d->dp, "tp", (json_int_t)d->tp,
                     "pp", (json_int_t)d->pp, "pieces", (json_int_t)d->pieces, "micro_batch",
                     (json_int_t)d->micro_batch, "zero", d->shard, "recompute",
                     recompute_name(d->recompute), "iteration_s",
                     (double)trial->iteration_ns * 1e-9, "peak", (json_int_t)trial->peak_bytes,
                     "limit", (json_int_t)trial->limit_bytes, "fits", trial->fits);
}

/* The prediction's fields, and the search's beside them. */
static json_t *planned_json(struct arena *scratch, const struct planned *planned,
                            const struct prediction *prediction, const char *text, int64_t top)
{
    json_t *json = prediction_json(prediction), *others = json_array(), *why = json_array();
    for (size_t i = 1; i < planned->trials.len && i < (size_t)top; i++)
        json_array_append_new(others, trial_json(scratch, &planned->trials.data[i]));
    for (int i = 0; i < DIMENSION_COUNT; i++) {
        const struct trial *other = next_best(planned, (enum dimension)i);
        if (other)
            json_array_append_new(why, json_pack("{s:s, s:s, s:o}", "dimension",
                                                 dimension_name((enum dimension)i), "value",
                                                 value_text(scratch, other, (enum dimension)i),
                                                 "next_best", trial_json(scratch, other)));
    }
    json_object_set_new(json, "plan", json_loads(text, 0, NULL));
    json_object_set_new(json, "planner", json_string(planned->planner));
    json_object_set_new(json, "evaluated", json_integer((json_int_t)planned->trials.len));
    json_object_set_new(json, "search_s", json_real(planned->search_s));
    json_object_set_new(json, "alternatives", others);
    json_object_set_new(json, "why", why);
    return json;
}

/* ---- running --------------------------------------------------------------------------------- */

static weft_status write_plan(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool written = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0)
        written = false;
    return written ? WEFT_OK : failure("cannot write the plan to %s", path);
}

static weft_status check_arguments(const struct options *options, const struct planner **planner)
{
    const struct planner *all;
    size_t count = planners(&all);
    if (options->plan.names != 2)
        return bad_argument("such as: weft plan gpt3-13b dgx-a100:4 --global-batch 64",
                            "plan needs a model and a cluster");
    if (!options->plan.degrees.global_batch)
        return bad_argument("such as --global-batch 512", "plan needs the samples of an iteration");
    *planner = options->planner ? planner_find(options->planner) : &all[0];
    if (*planner)
        return WEFT_OK;
    const char *names = "";
    for (size_t i = 0; i < count; i++)
        names = arena_printf(options->plan.arena, "%s%s%s", names, *names ? ", " : "", all[i].name);
    return bad_argument(NULL, "no planner is called '%s', expected one of %s", options->planner,
                        names);
}

static weft_status search(const struct options *options, const struct planner *planner,
                          const struct opened_plan *opened, struct planned **out)
{
    struct plan_request request = {.model = opened->model,
                                   .cluster = opened->cluster,
                                   .pins = options->plan.degrees,
                                   .profile = options->profile,
                                   .stop = &interrupted};
    if (isatty(STDERR_FILENO)) {
        request.progress = show_progress;
        request.context = stderr;
    }
    signal(SIGINT, interrupt);
    weft_status status = plan_search(planner, &request, out);
    signal(SIGINT, SIG_DFL);
    if (request.progress)
        fprintf(stderr, "\r%*s\r", 72, "");
    return status;
}

static weft_status answer(const struct options *options, struct opened_plan *opened,
                          const struct planned *planned)
{
    struct arena *scratch = options->plan.arena;
    const struct trial *best = planned->trials.data;
    struct prediction *prediction = NULL;
    weft_status status;
    TRY(plan_from_degrees(opened->model, opened->cluster, &best->degrees, &opened->plan));
    plan_name(opened->plan, &options->plan);
    struct simulate_options simulation = {.profile = options->profile, .reserved = true};
    TRY(simulate(opened->plan, &simulation, &prediction));
    const char *text = plan_write(scratch, opened->plan);
    if (options->output)
        TRY(write_plan(options->output, text));
    if (options->json) {
        status = (weft_status)cli_print_json(
            planned_json(scratch, planned, prediction, text, options->top));
    } else {
        printf("%s: %s\n\n", planned->planner, trial_text(scratch, best));
        prediction_print(scratch, prediction, stdout);
        printf("\n%zu plans tried%s:\n\n", planned->trials.len,
               planned->stopped ? " until it was stopped" : "");
        print_trials(scratch, planned, options->top);
        print_why(scratch, planned);
        fflush(stdout); /* before what is told on standard error */
    }
    if (!status)
        status = must_fit(scratch, prediction);
done:
    prediction_free(prediction);
    return status;
}

int cmd_plan(int argc, char **argv)
{
    struct options options = {.plan = {.arena = arena_new()}, .top = USUAL_TOP};
    struct opened_plan opened = {0};
    const struct planner *planner;
    struct planned *planned = NULL;
    weft_status status;
    cli_parse(&ARGP, argc, argv, &options);
    TRY(check_arguments(&options, &planner));
    TRY(model_open(options.plan.name[0], options.plan.overrides, &opened.model));
    TRY(cluster_open(options.plan.name[1], &opened.cluster));
    TRY(search(&options, planner, &opened, &planned));
    TRY(answer(&options, &opened, planned));
done:
    planned_free(planned);
    plan_close(&opened);
    arena_free(options.plan.arena);
    return status ? cli_fail(status) : WEFT_OK;
}

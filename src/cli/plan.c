/* plan.c - `weft plan`: finds the fastest plan that fits, and says what it was chosen over and why. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/degrees.h"
#include "cli/goals.h"

struct plan_command {
    struct plan_arguments plan;
    struct plan_options search;
    struct goals goals;
    const char *planner, *profile, *output, *to;
    const char *typed; /* the command line, to be repeated */
    struct page_options report;
    int64_t top;
    bool json;
};

/* Keys of options. Smaller ones are those of enum planner_option, plus 1. */
enum {
    KEY_PLANNER = TAKES_COUNT + 1,
    KEY_NAMES,
    KEY_PROFILE,
    KEY_TOP,
    KEY_JSON,
    KEY_REPORT,
    KEY_FORMAT,
    KEY_TO
};
enum { USUAL_TOP = 8 };

static const struct argp_option OPTIONS[] = {
    {"planner", KEY_PLANNER, "NAME", 0, "the planner that searches", 0}, /* help_filter lists all */
    {"names", KEY_NAMES, NULL, 0, "bare names of the planners, one per line", 0},
    {"output", 'o', "FILE", CLI_WRITES,
     "write the plan to a file that simulate, show and check take", 0},
    {"to", KEY_TO, "FORMAT", 0,
     "with -o: write what a framework starts with instead of the plan, as `weft export --to`; "
     "the search is --for that framework",
     0},
    {"top", KEY_TOP, "N", 0, "how many of the plans that were tried to show (default 8)", 0},
    {"report", KEY_REPORT, "FILE", CLI_WRITES,
     "write a page that shows it all: .html, .md, .txt or .json; or its timeline: .svg", 0},
    {"format", KEY_FORMAT, "F", 0,
     "the report's format, whatever its name: html, md, text, json or svg", 0},
    {"profile", KEY_PROFILE, "DB", 0, "a database of measured times to ask first", 0},
    {"batch", TAKES_BATCH_AUTO + 1, "auto|N", 0,
     "auto: the batch with the most samples per second; N: as --global-batch", 0},
    {"space", TAKES_SPACE + 1, "NAME", 0,
     "what a layer may do: dp, tp, pp, sdp, 3d, dp+tp, dp+pp, galvatron, base, bi-obj, bmw "
     "(default) or weft (galvatron); all (default), paper, artifact, largest or bmw (aceso)",
     0},
    {"budget", TAKES_BUDGET + 1, "TIME", 0, "stop after this time, such as 2s", 0},
    {"quick", TAKES_QUICK + 1, NULL, 0,
     "ask only what answers in a second or a few: the grid, galvatron, aceso for some steps (auto)",
     0},
    {"search", TAKES_SEARCH + 1, "NAME", 0,
     "the algorithm of autoddl: cd (default), mh or mh:BETA, random, exhaustive, exact", 0},
    {"initial", TAKES_INITIAL + 1, "NAME|PLAN", 0,
     "where to begin: balanced (default), imbalanced-op, imbalanced-device, or a plan file to make "
     "better (aceso)",
     0},
    {"max-hops", TAKES_MAX_HOPS + 1, "N", 0,
     "changes in a row before one must be better (aceso, default 7)", 0},
    {"log", TAKES_LOG + 1, "FILE", CLI_WRITES, "write every step of the search as JSON (aceso)", 0},
    {"threads", TAKES_THREADS + 1, "N", 0, "threads of the search (default: all processors)", 0},
    {"seed", TAKES_SEED + 1, "N", 0, "seed of the random numbers of the search", 0},
    {"json", KEY_JSON, NULL, 0, "one JSON object on standard output", 0},
    {0},
};
static const struct argp_child CHILDREN[] = {
    {&DEGREES_ARGP, 0, NULL, 0}, {&GOALS_ARGP, 0, NULL, 0}, {0}};

static const char *planner_choice(size_t i, const char **summary)
{
    const struct planner *all;
    if (i >= planners(&all))
        return NULL;
    *summary = all[i].summary;
    return all[i].name;
}

static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    return key == KEY_PLANNER ? choices_help(planner_choice, true) : (char *)(uintptr_t)text;
}

/* --batch takes "auto", or a number, which is then the global batch. */
static void parse_batch(const char *arg, struct argp_state *state, struct plan_command *options)
{
    struct plan_options *search = &options->search;
    search->batch_auto = strcmp(arg, "auto") == 0;
    if (search->batch_auto)
        search->given |= 1U << TAKES_BATCH_AUTO;
    else if (!parse_int(arg, &options->plan.degrees.global_batch) ||
             options->plan.degrees.global_batch < 1)
        argp_error(state, "--batch takes auto or a whole number of at least 1, not '%s'", arg);
}

static const char *option_name(int option)
{
    const struct argp_option *row = OPTIONS;
    while (row->name && row->key != option + 1)
        row++;
    return row->name;
}

static error_t parse_search(int option, char *arg, struct argp_state *state,
                            struct plan_command *options)
{
    struct plan_options *search = &options->search;
    const char **const words[TAKES_COUNT] = {[TAKES_SPACE] = &search->space,
                                             [TAKES_SEARCH] = &search->search,
                                             [TAKES_INITIAL] = &search->initial,
                                             [TAKES_LOG] = &search->log};
    int64_t *const numbers[TAKES_COUNT] = {[TAKES_MAX_HOPS] = &search->max_hops,
                                           [TAKES_SEED] = &search->seed,
                                           [TAKES_THREADS] = &search->threads};
    if (option < 0 || option >= TAKES_COUNT)
        return ARGP_ERR_UNKNOWN;
    if (option == TAKES_BATCH_AUTO) {
        parse_batch(arg, state, options);
        return 0;
    }
    if (words[option])
        *words[option] = arg;
    else if (numbers[option])
        *numbers[option] = take_count(state, option_name(option), arg, 0, 0);
    else if (option == TAKES_QUICK)
        search->quick = true;
    else if (option == TAKES_BUDGET &&
             (!parse_duration(arg, &search->budget_ns) || search->budget_ns <= 0))
        argp_error(state, "--budget takes a time such as 2s or 500ms, not '%s'", arg);
    search->given |= 1U << option;
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct plan_command *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->plan;
        state->child_inputs[1] = &options->goals;
        return 0;
    case KEY_PLANNER:
        options->planner = arg;
        return 0;
    case KEY_NAMES:
        choices_list(planner_choice);
    case KEY_PROFILE:
        options->profile = arg;
        return 0;
    case 'o':
        options->output = arg;
        return 0;
    case KEY_TO:
        options->to = arg;
        return 0;
    case KEY_TOP:
        if (!parse_int(arg, &options->top) || options->top < 1)
            argp_error(state, "--top takes a whole number of at least 1, not '%s'", arg);
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_REPORT:
        options->report.path = arg;
        return 0;
    case KEY_FORMAT:
        take_page_format(state, &options->report, arg);
        return 0;
    default:
        return parse_search(key - 1, arg, state, options);
    }
}

static const struct argp ARGP = {
    OPTIONS,
    parse_option,
    "MODEL CLUSTER --global-batch N",
    "Finds the fastest plan that fits in memory. Degrees that are given stay as they are, all "
    "others are searched. Ctrl-C answers with the best plan so far. When nothing fits, the nearest "
    "miss is shown and the exit code is 1.\v"
    "Example:\n"
    "  weft plan gpt3-13b dgx-a100:4 --global-batch 64 -o plan.json\n"
    "  weft plan bert-huge-32 titan-rtx:1 --planner galvatron --memory 8GiB --batch auto\n"
    "  weft plan llama3.1-405b dgx-h100:64 --global-batch 512 --tp 8 --seq 8192\n"
    "  weft plan vgg-13 piz-daint:32 --global-batch 256 --dtype fp32 --planner autoddl\n"
    "  weft plan gpt3-13b dgx-a100 --global-batch 512 --max-devices 256 --deadline 20d --tokens "
    "300e9",
    CHILDREN,
    help_filter,
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
    struct text32 best = show_seconds((double)progress->best_ns);
    fprintf(out, "\r%s%s%lld of %lld %s, %lld plans, best %s\033[K",
            progress->who ? progress->who : "", progress->who ? ": " : "",
            (long long)progress->done, (long long)progress->all, progress->what,
            (long long)(progress->candidates + progress->trials),
            progress->best_ns ? best.s : "none fits");
}

/* ---- running --------------------------------------------------------------------------------- */

/* With the objective throughput the batch size is searched, unless one was given. */
static void settle_batch(struct plan_command *options)
{
    if (options->goals.objective != OBJECTIVE_THROUGHPUT || options->plan.degrees.global_batch)
        return;
    options->search.batch_auto = true;
    options->search.given |= 1U << TAKES_BATCH_AUTO;
}

/* What is written for a framework is searched for that framework. */
static weft_status settle_target(struct plan_command *options)
{
    if (options->to && !options->goals.target)
        return format_target(options->plan.arena, options->to, &options->goals.target);
    return WEFT_OK;
}

static weft_status check_arguments(const struct plan_command *options,
                                   const struct planner **planner)
{
    if (options->plan.names != 2)
        return bad_argument("such as: weft plan gpt3-13b dgx-a100:4 --global-batch 64",
                            "plan needs a model and a cluster");
    if (!options->plan.degrees.global_batch && !options->search.batch_auto)
        return bad_argument("such as --global-batch 512", "plan needs the samples of an iteration");
    if (options->plan.degrees.layout)
        return bad_argument("weft simulate takes it", "plan cuts and orders the pipeline itself");
    if (options->to && !options->output)
        return bad_argument("such as -o args.sh", "--to needs a file to write to");
    weft_status status;
    TRY(file_writable(options->output));
    TRY(file_writable(options->report.path));
    TRY(file_writable(options->search.log));
    TRY(planner_named(options->planner, planner));
done:
    return status;
}

static struct plan_request request_of(const struct plan_command *options,
                                      const struct opened_plan *opened)
{
    struct plan_request request = {.model = opened->model,
                                   .cluster = opened->cluster,
                                   .pins = options->plan.degrees,
                                   .forbids = options->goals.forbids,
                                   .target = options->goals.target,
                                   .names_nearest = true,
                                   .options = options->search,
                                   .profile = options->profile,
                                   .stop = &interrupted};
    request.options.simplest = options->goals.simplest;
    if (request.forbids.len)
        request.options.given |= 1U << TAKES_FORBID;
    if (isatty(STDERR_FILENO)) {
        request.progress = show_progress;
        request.context = cli_terminal();
    }
    return request;
}

/* Searches on the cluster as it is, or over its sizes; then the cluster of the best size replaces it. */
static weft_status search_sizes(const struct plan_command *options, const struct planner *planner,
                                struct plan_request *request, struct opened_plan *opened,
                                struct sized **sized, struct planned **out)
{
    bool sizes;
    weft_status status;
    TRY(goals_check(&options->goals, &sizes));
    if (!sizes) {
        /* What the search finds, the table of targets finds again. */
        request->flows = flow_cache_for(request->cluster);
        request->reserved = reserved_cache_new();
        request->estimators = estimators_new();
        return plan_search(planner, request, out);
    }
    TRY(goals_search(&options->goals, planner, request, options->plan.name[1], sized));
    cluster_free(opened->cluster);
    request->cluster = opened->cluster = (*sized)->cluster;
    *out = (*sized)->planned;
    (*sized)->cluster = NULL;
    (*sized)->planned = NULL;
done:
    return status;
}

static weft_status search(const struct plan_command *options, const struct planner *planner,
                          struct plan_request *request, struct opened_plan *opened,
                          struct sized **sized, struct planned **out)
{
    signal(SIGINT, interrupt);
    weft_status status = search_sizes(options, planner, request, opened, sized, out);
    signal(SIGINT, SIG_DFL);
    if (request->progress)
        fputs("\r\033[K", cli_terminal());
    return status;
}

/* Whether a file is written: nobody is to start what does not fit, but the nearest miss can be looked into. */
static bool writes_file(const struct plan_command *options, bool fits)
{
    return options->output && (fits || !options->to);
}

/* The plan, or what the framework of --to starts with; *exact: as it was predicted. */
static weft_status write_answer(const struct plan_command *options, const struct plan *plan,
                                const char *text, bool *exact)
{
    struct export_result exported = {0};
    weft_status status = WEFT_OK;
    if (options->to)
        TRY(plan_export(options->plan.arena, plan, options->to, false, &exported));
    if (options->to)
        TRY(export_write(&exported, options->output));
    else
        TRY(file_write_text(options->output, text));
    *exact = exported.differences.len + exported.decided.len == 0;
    for (size_t i = 0; i < exported.decided.len; i++)
        fprintf(stderr, "note: %s\n", exported.decided.data[i]);
    for (size_t i = 0; i < exported.notes.len; i++)
        fprintf(stderr, "note: %s\n", exported.notes.data[i]);
done:
    plan_free(exported.written);
    return status;
}

/* Whether the question is one whose answer is looked for in every framework, too. */
static bool asks_targets(const struct plan_command *options, const struct planned *planned)
{
    return !options->goals.target && !options->search.quick && !options->search.budget_ns &&
           !planned->stopped && planned->trials.data[0].fits;
}

/* What to type next. */
static void say_next(const struct plan_command *options, const struct for_targets *targets,
                     bool fits)
{
    const struct for_target *best = NULL;
    for (size_t i = 0; i < targets->len; i++) {
        const struct for_target *row = &targets->data[i];
        if (row->text && (!best || row->iteration_ns < best->iteration_ns))
            best = row;
    }
    if (options->to)
        printf(fits ? "\nwritten: %s\n" : "\nnot written, for no plan fits: %s\n", options->output);
    else if (fits && (options->goals.target || best))
        printf("\nnext: %s --to %s -o FILE\n", options->typed,
               options->goals.target ? options->goals.target->framework : best->target->framework);
}

static weft_status answer(const struct plan_command *options, const struct plan_request *request,
                          struct planned *planned, struct opened_plan *opened,
                          const struct sized *sized)
{
    struct arena *scratch = options->plan.arena;
    struct prediction *prediction = NULL;
    struct what_ifs what_ifs = {0};
    struct for_targets targets = {0};
    const struct trial taken = planned->trials.data[0];
    weft_status status;
    TRY(trial_take(request, &planned->trials.data[0], &opened->plan));
    plan_name(opened->plan, &options->plan);
    if (sized)
        opened->plan->cluster_name =
            goals_cluster_name(opened->plan->arena, options->plan.name[1], opened->cluster->nodes);
    struct simulate_options simulation = {.fold = planned->stopped ? FOLD_ALWAYS : FOLD_AUTO,
                                          .profile = options->profile,
                                          .points = options->report.path != NULL};
    TRY(simulate(opened->plan, &simulation, &prediction));
    cli_warn_doubts(opened->plan);
    const char *text = plan_write(scratch, opened->plan);
    bool exact = false;
    if (writes_file(options, prediction->fits))
        TRY(write_answer(options, opened->plan, text, &exact));
    struct page page = {
        .prediction = prediction, .planned = planned, .plan_text = text, .top = options->top};
    TRY(report_write(&options->report, &page));
    TRY(what_if(request, planned, opened->plan, scratch, &what_ifs));
    if (asks_targets(options, planned))
        TRY(search_each_target(request, opened->plan, &taken, scratch, &targets));
    if (options->json) {
        json_t *json = planned_json(scratch, planned, prediction, text, options->top);
        json_object_set_new(json, "what_if", what_ifs_json(&what_ifs));
        json_object_set_new(json, "targets", for_targets_json(&targets));
        if (options->to)
            json_object_set_new(json, "exact", json_boolean(exact));
        if (sized)
            json_object_set_new(json, "sizes", sizes_json(sized));
        status = (weft_status)cli_print_json(json);
    } else {
        chosen_size_print(sized, stdout);
        planned_print(scratch, planned, prediction, options->top, stdout);
        what_ifs_print(scratch, &what_ifs, prediction->iteration_ns, stdout);
        for_targets_print(scratch, &targets, taken.iteration_ns, stdout);
        if (sized)
            sizes_print(scratch, &options->goals, sized, stdout);
        say_next(options, &targets, prediction->fits);
        fflush(stdout); /* before anything goes to standard error */
    }
    status = status ? status : must_fit(scratch, prediction);
    if (!prediction->fits && planned->would_fit) /* simulated, where must_fit only supposes */
        error_hint("%s", planned->would_fit);
    if (!prediction->fits && planned->stopped)
        error_hint("the search was stopped before it had found a plan that fits");
    status = !status && sized ? sizes_must_do(sized) : status;
done:
    prediction_free(prediction);
    return status;
}

int cmd_plan(int argc, char **argv)
{
    struct plan_command options = {.plan = {.arena = arena_new(), .named_elsewhere = true},
                                   .top = USUAL_TOP};
    struct opened_plan opened = {0};
    const struct planner *planner;
    struct plan_request request = {0};
    struct planned *planned = NULL;
    struct sized *sized = NULL;
    weft_status status;
    options.goals.arena = options.plan.arena;
    options.goals.simplest = USUAL_SIMPLEST;
    options.typed = cli_typed_again(options.plan.arena, argc, argv);
    cli_parse(&ARGP, argc, argv, &options);
    cli_warn_missing();
    settle_batch(&options);
    TRY(settle_target(&options));
    TRY(check_arguments(&options, &planner));
    options.plan.profile = options.profile;
    TRY(open_names(&options.plan, &opened));
    request = request_of(&options, &opened);
    TRY(search(&options, planner, &request, &opened, &sized, &planned));
    TRY(answer(&options, &request, planned, &opened, sized));
done:
    planned_free(planned);
    sized_free(sized);
    estimators_free(request.estimators);
    flow_cache_free(request.flows);
    reserved_cache_free(request.reserved);
    plan_close(&opened);
    arena_free(options.plan.arena);
    return status ? cli_fail(status) : WEFT_OK;
}

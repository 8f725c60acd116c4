/* validate.c - `weft validate`: compares published measurements of real runs with what Weft predicts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab/validate.h"
#include "cli/cli.h"

struct options {
    struct validation validation;
    const char *name[MAX_DATASETS];
    size_t names;
    bool list_names, json;
    const char *residuals;
};

#define AT(field) offsetof(struct options, field)

static void take_half(struct argp_state *state, void *input, char *arg)
{
    struct validation *v = &((struct options *)input)->validation;
    bool both = strcmp(arg, "both") == 0, any = both;
    for (int i = 0; i < HALF_COUNT; i++) {
        v->half[i] = both || strcmp(arg, half_name((enum half)i)) == 0;
        any |= v->half[i];
    }
    if (!any)
        argp_error(state, "--half is '%s', expected fit, held-out or both", arg);
}

static void take_without(struct argp_state *state, void *input, char *arg)
{
    take_omitted(state, &((struct options *)input)->validation.omitted, arg);
}

static const struct cli_option OPTIONS[] = {
    {"rows", NULL, "list every row: measured, predicted, error", OPTION_FLAG,
     AT(validation.list_rows)},
    {"groups", NULL,
     "errors by model and machine, of those that nothing was fitted to, and how many runs lie in "
     "their intervals",
     OPTION_FLAG, AT(validation.list_groups)},
    {"refit", NULL,
     "fit the parameters of each device anew, without the runs of each model, machine and source "
     "in turn, and predict these by what the others say; fit each source and device by half; takes "
     "minutes",
     OPTION_FLAG, AT(validation.refitted)},
    {"plan", NULL, "plan every run anew, on its model, cluster and batch, and list what is gained",
     OPTION_FLAG, AT(validation.plan)},
    {"half", "HALF", "fit, held-out or both (default both)", OPTION_TAKE, .take = take_half},
    {"without", "LIST", OMITTED_HELP, OPTION_TAKE, .take = take_without},
    {"residuals", "FILE",
     "write how far off the held-out half is, which says how sure predictions are", OPTION_TEXT,
     AT(residuals), .writes = true},
    {"names", NULL, "bare names of the datasets, one per line", OPTION_FLAG, AT(list_names)},
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (options->names == MAX_DATASETS)
        argp_error(state, "at most %d datasets", MAX_DATASETS);
    else
        options->name[options->names++] = arg;
    return 0;
}

static void list_sources(FILE *stream, const struct sources *sources)
{
    const struct dataset *all;
    const struct search_table *tables;
    size_t count = sources_datasets(sources, &all), searches = sources_searches(sources, &tables);
    fputs("Datasets:\n", stream);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "  %-23s %s\n", all[i].name, all[i].summary);
    fputs("\nPublished searches, which are run when they are named:\n", stream);
    for (size_t i = 0; i < searches; i++)
        fprintf(stream, "  %-23s %s\n", tables[i].name, tables[i].summary);
}

/* Lists the datasets after the options. */
static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_EXTRA)
        return (char *)(uintptr_t)text;
    struct arena *scratch = arena_new();
    const struct sources *sources;
    size_t len = 0;
    char *out = NULL;
    FILE *stream = sources_open(scratch, &sources) ? NULL : open_memstream(&out, &len);
    if (stream) {
        list_sources(stream, sources);
        fclose(stream);
    }
    arena_free(scratch);
    return out;
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "[DATASET...]\noperators\nRUNS.csv",
    "Predicts published measurements of real training runs and says how far off the predictions "
    "are, dataset by dataset. Rows are dealt into two halves by a hash of how they ran: one that "
    "constants may be fitted to, one held out. What no plan can express is listed with its "
    "reason. Published searches are searched anew: which strategies fit, with which batch and how "
    "fast; and how fast what a planner finds is beside the best of a grid. With --plan, published "
    "runs are planned anew; without datasets, those of large models. The exit code is 1 when a "
    "published plan is faster than what was found. A file of runs of your own, RUNS.csv, is "
    "predicted likewise: every run's error, how the errors depend on devices, degrees and type, "
    "and "
    "what would explain them (docs/reference/runs.md). With `operators`, products, attention, "
    "experts, NCCL and DeepEP that others measured alone are predicted, device by device.\v"
    "Example:\n"
    "  weft validate\n"
    "  weft validate vtrain_multi --rows --half held-out\n"
    "  weft validate --plan\n"
    "  weft validate operators\n"
    "  weft validate runs.csv\n"
    "  weft validate galvatron_table2",
    .names = take_names,
    .help_filter = help_filter,
};

/* ---- counting -------------------------------------------------------------------------------- */

struct counts validation_counts(const struct validation *v, const struct dataset *dataset,
                                enum half half)
{
    struct counts counts = {0};
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        if (row->dataset != dataset || row->half != half)
            continue;
        counts.rows++;
        counts.predicted += row->done;
    }
    return counts;
}

const char *row_reason(const struct published *row)
{
    return row->reason;
}

const char *row_full(const struct published *row)
{
    static const char *const WORDS[MEMORY_FITS] = {
        [FITS_ALLOCATED] = "predicted to fit only without what the allocator caches",
        [FITS_NOT] = "predicted not to fit in memory"};
    return row->done ? WORDS[row->predicted.memory_fit] : NULL;
}

const char *row_assumes(const struct published *row)
{
    return row->done ? row->assumes : NULL;
}

void validation_excuses(const struct validation *v,
                        const char *(*text)(const struct published *row), struct excuses *out)
{
    for (size_t i = 0; i < v->rows.len; i++) {
        const struct published *row = &v->rows.data[i];
        struct excuse excuse = {row->dataset, text(row), 0};
        size_t at = 0;
        if (!excuse.text)
            continue;
        while (at < out->len && (out->data[at].dataset != row->dataset ||
                                 strcmp(out->data[at].text, excuse.text) != 0))
            at++;
        if (at == out->len)
            array_push(v->arena, out, excuse);
        out->data[at].rows++;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Adds the search of this name to the list; false if there is none. */
static bool choose_search(struct validation *v, const char *name)
{
    const struct search_table *found = search_table_find(v->sources, name);
    for (size_t i = 0; i < v->searches; i++)
        if (v->searched[i] == found)
            return true;
    if (found)
        v->searched[v->searches++] = found;
    return found != NULL;
}

static weft_status choose_datasets(struct options *options)
{
    struct validation *v = &options->validation;
    const struct dataset *all;
    size_t count = sources_datasets(v->sources, &all);
    for (size_t i = 0; i < count && !options->names; i++)
        if (!v->plan || all[i].planned)
            v->dataset[v->datasets++] = &all[i];
    for (size_t i = 0; i < options->names; i++) {
        bool search = choose_search(v, options->name[i]);
        if (search && v->plan)
            return bad_argument("--plan takes datasets of runs: `weft validate --help` lists them",
                                "'%s' has what searches found, and no runs to plan anew",
                                options->name[i]);
        if (search)
            continue;
        const struct dataset *found = dataset_find(v->sources, options->name[i]);
        bool again = false;
        for (size_t j = 0; j < v->datasets; j++)
            again |= v->dataset[j] == found;
        if (!found)
            return WEFT_BAD_INPUT;
        if (!again)
            v->dataset[v->datasets++] = found;
    }
    return WEFT_OK;
}

/* Searches and fits are made with everything, and so are margins. */
static weft_status check_omitted(const struct options *options)
{
    const struct validation *v = &options->validation;
    if ((v->omitted.sharing || v->omitted.slowdown) &&
        (v->plan || v->refitted || v->searches || options->residuals))
        return bad_argument(
            "with --without, name datasets of runs, and add --rows or --groups",
            "--without changes predictions of runs; --plan, --refit, --residuals and published "
            "searches cannot be had with it");
    return WEFT_OK;
}

static weft_status read_search(struct validation *v, const struct search_table *table)
{
    switch (table->form) {
    case SEARCH_CUTS:
        return galvatron_cuts(v->arena, &v->cuts);
    case SEARCH_CONTEST:
        return contests_read(v->arena, table, &v->contests);
    case SEARCH_CELLS:
    case SEARCH_PLANNED:
        break;
    }
    return search_cells_read(v->arena, table, &v->cells);
}

static weft_status read_datasets(struct validation *v)
{
    struct published_rows all = {0};
    for (size_t i = 0; i < v->datasets; i++) {
        weft_status status = published_read(v->arena, v->dataset[i], &all);
        if (status)
            return status;
    }
    for (size_t i = 0; i < all.len; i++)
        if (v->half[all.data[i].half])
            array_push(v->arena, &v->rows, all.data[i]);
    if (v->rows.len) {
        weft_status status = peers_read(v->arena, &v->rows, &v->peers);
        if (status)
            return status;
    }
    for (size_t i = 0; i < v->searches; i++) {
        weft_status status = read_search(v, v->searched[i]);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status replan(struct validation *v, bool terminal)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < v->rows.len && status == WEFT_OK; i++) {
        if (terminal)
            fprintf(cli_terminal(), "\r%zu of %zu runs planned", i, v->rows.len);
        if (v->rows.data[i].done)
            status = published_replan(v->arena, &v->rows.data[i], &v->replanned);
    }
    return status;
}

static weft_status predict(struct validation *v)
{
    bool terminal = isatty(STDERR_FILENO);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < v->rows.len && status == WEFT_OK; i++) {
        if (terminal && i % 8 == 0)
            fprintf(cli_terminal(), "\r%zu of %zu runs", i, v->rows.len);
        status = published_predict_next(v->arena, &v->rows, i, v->omitted);
    }
    if (v->plan && status == WEFT_OK)
        status = replan(v, terminal);
    for (size_t i = 0; i < v->cells.len && status == WEFT_OK; i++) {
        if (terminal)
            fprintf(cli_terminal(), "\r%zu of %zu searches", i, v->cells.len);
        status = search_cell_predict(v->arena, &v->cells, &v->cells.data[i]);
    }
    for (size_t i = 0; i < v->contests.len && status == WEFT_OK; i++) {
        const struct contest *next = &v->contests.data[i];
        if (terminal)
            fprintf(cli_terminal(), "\r\033[K%zu of %zu models, now %s", i, v->contests.len,
                    next->model);
        status = contest_predict(v->arena, &v->contests.data[i]);
    }
    if (terminal)
        fputs("\r\033[K", cli_terminal());
    return status;
}

#define OPERATORS "operators"

static void print_names(const struct sources *sources)
{
    const struct dataset *all;
    size_t count = sources_datasets(sources, &all);
    for (size_t i = 0; i < count; i++)
        puts(all[i].name);
    const struct search_table *tables;
    count = sources_searches(sources, &tables);
    for (size_t i = 0; i < count; i++)
        puts(tables[i].name);
    puts(OPERATORS);
}

static int print_answer(const struct validation *v, bool json)
{
    int code = json ? validation_print_json(v) : validation_print(v);
    if (code || !v->plan || !replanned_verdict(v))
        return code;
    fflush(stdout); /* before anything goes to standard error */
    return cli_fail(WEFT_NO_ANSWER);
}

/* A dataset's name has no ending. */
static bool is_runs_file(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending && strcmp(ending, ".csv") == 0;
}

int cmd_validate(int argc, char **argv)
{
    struct options options = {.validation.half = {true, true}};
    struct validation *v = &options.validation;
    weft_status status;
    int code = WEFT_OK;
    cli_read(&SYNTAX, argc, argv, &options);
    v->arena = arena_new();
    TRY(sources_open(v->arena, &v->sources));
    if (options.list_names) {
        print_names(v->sources);
        goto done;
    }
    cli_warn_missing();
    if (options.names == 1 && is_runs_file(options.name[0])) {
        code = validate_runs(v->arena, options.name[0], options.json);
        goto done;
    }
    if (options.names == 1 && strcmp(options.name[0], OPERATORS) == 0) {
        code = validate_operators(v->arena, options.json);
        goto done;
    }
    TRY(choose_datasets(&options));
    TRY(check_omitted(&options));
    TRY(read_datasets(v));
    TRY(predict(v));
    TRY(full_runs_make(v, &v->full));
    if (v->refitted) {
        TRY(refit_sense(v, &v->refit));
        TRY(half_fits_make(v->arena, &v->refit, &v->half_fits));
    }
    if (options.residuals)
        TRY(residuals_write(v, options.residuals));
    code = print_answer(v, options.json);
done:
    code = status ? cli_fail(status) : code;
    arena_free(v->arena);
    return code;
}

/* profile.c - `weft profile`: stores measurements in a database and shows them. */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "cli/profile.h"

static void take_format(struct argp_state *state, void *input, char *arg)
{
    struct profile_options *options = input;
    if (!import_format_from_name(arg, &options->format))
        argp_error(state,
                   "'%s' is no format: auto, aceso, sailor, simumax, galvatron, weft-csv, nccl, "
                   "aiconfigurator",
                   arg);
}

#define AT(field) offsetof(struct profile_options, field)
static const struct cli_option OPTIONS[] = {
    {"db", "DB", "import: the database to write", OPTION_TEXT, AT(db)},
    {"device", "NAME", "the device that was measured, or the only one to take", OPTION_TEXT,
     AT(device), .letter = 'd'},
    {"format", "FORMAT",
     "import: auto, aceso, sailor, simumax, galvatron, weft-csv, nccl or aiconfigurator (auto)",
     OPTION_TAKE, .letter = 'f', .take = take_format},
    {"kernel", "NAME", "show: the rows of one kernel", OPTION_TEXT, AT(kernel), .letter = 'k'},
    {"shape", "SHAPE", "show: how long this shape takes, and how that is known", OPTION_TEXT,
     AT(shape)},
    {"phase", "PHASE",
     "show: forward, backward_input, backward_weight or backward (forward with --shape)",
     OPTION_TEXT, AT(phase)},
    {"dtype", "TYPE", "show: " DTYPE_NAMES " (fp16 with --shape)", OPTION_TEXT, AT(dtype)},
    {"collective", "NAME", "show: how long this collective takes", OPTION_TEXT, AT(collective),
     .letter = 'c'},
    {"devices", "N", "show: on so many devices, with --collective (2)", OPTION_COUNT, AT(devices),
     .least = 1},
    {"nodes", "N", "show: of so many nodes (1)", OPTION_COUNT, AT(nodes), .least = 1},
    {"bytes", "SIZE", "show: at this size, such as 64MiB (1MiB)", OPTION_SIZE, AT(bytes),
     .letter = 'b'},
    JSON_OPTION(AT(json)),
    {0},
};

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct profile_options *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->count == MAX_PROFILE_ARGUMENTS)
            argp_error(state, "at most %d files", MAX_PROFILE_ARGUMENTS - 1);
        options->arguments[options->count++] = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "import, show or measure?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "import FILE... --db DB\nshow DB\nmeasure PLAN --db DB",
    "Keeps measured times of kernels and collectives in a database. Costs are taken from it "
    "before any formula.\v"
    "`import` reads Weft's own CSV (columns device, kernel, phase, dtype, shape, ns) and the "
    "tables that Aceso, Sailor, SimuMax, Galvatron, vTrain, SimAI and Proteus publish: all files, "
    "or none on an error. `measure` times this machine; `weft profile measure --help` says more. "
    "docs/reference/profile.md describes tables and database.\n\n"
    "Example:\n"
    "  weft profile import measured.csv --db my.sqlite\n"
    "  weft profile show my.sqlite --kernel matmul\n"
    "  weft profile show my.sqlite --collective all_reduce --devices 8 --bytes 64MiB\n"
    "  weft profile show my.sqlite --kernel matmul --shape batch=1,m=4096,n=4096,k=1024",
    .names = take_names,
};

/* ---- import ---------------------------------------------------------------------------------- */

static void print_summary(const struct import_summary *summary)
{
    printf("%s (%s): %lld read, %lld stored", summary->file, summary->format,
           (long long)summary->read, (long long)summary->stored);
    if (summary->merged > 0)
        printf(", %lld merged by median", (long long)summary->merged);
    if (summary->replaced > 0)
        printf(", %lld of them replaced an earlier import", (long long)summary->replaced);
    printf("\n");
    for (size_t i = 0; i < summary->skipped.len; i++)
        printf("  %8lld left out: %s\n", (long long)summary->skipped.data[i].rows,
               summary->skipped.data[i].reason);
}

static json_t *summary_json(const struct import_summary *summary)
{
    json_t *skipped = json_object();
    for (size_t i = 0; i < summary->skipped.len; i++)
        json_object_set_new(skipped, summary->skipped.data[i].reason,
                            json_integer(summary->skipped.data[i].rows));
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "file", summary->file, "format",
                     summary->format, "read", (json_int_t)summary->read, "stored",
                     (json_int_t)summary->stored, "merged", (json_int_t)summary->merged, "replaced",
                     (json_int_t)summary->replaced, "left_out", skipped);
}

static weft_status import_files(const struct profile_options *options, struct arena *arena,
                                struct import_summary *summaries)
{
    struct import_options import = {options->format, options->device};
    struct profile *profile = NULL;
    weft_status status;
    TRY(profile_create(options->db, &profile));
    for (size_t i = 1; i < options->count; i++)
        TRY(profile_import(profile, options->arguments[i], &import, arena, &summaries[i - 1]));
    TRY(profile_commit(profile));
done:
    profile_close(profile);
    return status;
}

static int run_import(const struct profile_options *options, struct arena *arena)
{
    if (!options->db || options->count < 2)
        return cli_fail(bad_argument("weft profile import measured.csv --db my.sqlite",
                                     "import needs %s", options->db ? "a file" : "--db DB"));
    size_t files = options->count - 1;
    struct import_summary *summaries = ARENA_ARRAY(arena, struct import_summary, files);
    weft_status status = import_files(options, arena, summaries);
    if (status != WEFT_OK)
        return cli_fail(status);
    json_t *list = options->json ? json_array() : NULL;
    for (size_t i = 0; i < files; i++) {
        if (list)
            json_array_append_new(list, summary_json(&summaries[i]));
        else
            print_summary(&summaries[i]);
    }
    return list ? cli_print_json(json_pack("{s:s, s:o}", "db", options->db, "files", list)) : 0;
}

int cmd_profile(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct profile_options *options, struct arena *arena);
    } ACTIONS[] = {{"import", run_import}, {"show", profile_show}};
    static char measure[] = "weft profile measure";
    struct profile_options options = {.devices = 2, .nodes = 1, .bytes = 1 << 20};
    if (argc > 1 && strcmp(argv[1], "measure") == 0) {
        argv[1] = measure;
        return cmd_profile_measure(argc - 1, argv + 1);
    }
    struct arena *arena = arena_new();
    cli_read(&SYNTAX, argc, argv, &options);
    int code = -1;
    for (size_t i = 0; i < COUNT_OF(ACTIONS) && code < 0; i++)
        if (strcmp(options.arguments[0], ACTIONS[i].name) == 0)
            code = ACTIONS[i].run(&options, arena);
    if (code < 0)
        code = cli_fail(bad_argument("import, show or measure", "no action is called '%s'",
                                     options.arguments[0]));
    arena_free(arena);
    return code;
}

/* import.c - `weft import`: reads what another framework is launched with as a plan. */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "plan/plan.h"

struct import_command {
    struct arena *arena;
    const char *from, *model, *set, *output;
    const char *name[2]; /* FILE and CLUSTER, or CLUSTER */
    int names;
    bool json;
    char **words; /* those after `--` */
    int word_count;
};

#define AT(field) offsetof(struct import_command, field)

static void take_model_set(struct argp_state *state, void *input, char *arg)
{
    struct import_command *options = input;
    take_set(state, options->arena, &options->set, arg);
}

static void print_sources(struct argp_state *state, void *options, char *arg)
{
    (void)state, (void)options, (void)arg;
    choices_list(source_at);
}

static const struct cli_option OPTIONS[] = {
    {"from", "SOURCE", NULL, OPTION_TEXT, AT(from), .choices = source_at, .first_is_usual = true},
    {"names", NULL, "bare names of the sources, one per line", OPTION_TAKE, .take = print_sources},
    {"model", "MODEL",
     "the model, where the file does not describe it (Galvatron's and DeepSpeed's do not)",
     OPTION_TEXT, AT(model)},
    {"set", "KEY=VALUE", "change an option of that model: seq=4096", OPTION_TAKE,
     .take = take_model_set},
    OUTPUT_OPTION(AT(output), "write the plan to a file that simulate, show and check take"),
    JSON_OPTION(AT(json)),
    {0},
};

static void take_name(struct argp_state *state, struct import_command *options, char *arg)
{
    if (options->names == (int)COUNT_OF(options->name))
        argp_error(state, "a file and a cluster: '%s' is too many", arg);
    else
        options->name[options->names++] = arg;
}

static error_t take_names(int key, char *arg, struct argp_state *state)
{
    struct import_command *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        take_name(state, options, arg);
        return 0;
    case ARGP_KEY_END:
        if (options->names != (options->words ? 1 : 2))
            argp_error(state, options->words
                                  ? "which cluster? Name one, then the arguments after --"
                                  : "which file, and on which cluster?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct syntax SYNTAX = {
    OPTIONS,
    "FILE CLUSTER\nCLUSTER -- ARGUMENTS...",
    "Reads what a framework is launched with, and writes it as a plan that Weft can simulate. "
    "Megatron-LM's arguments come as a script (nothing in it is run) or after --; Galvatron's as "
    "its JSON and DeepSpeed's configuration, with --model; Aceso's as the JSON that its search "
    "writes. A release after the source, as --from megatron@0.16, is asked whether it runs what "
    "was "
    "read.\v"
    "Example:\n"
    "  weft import train_gpt.sh dgx-h100:4 -o plan.json\n"
    "  weft import dgx-a100:2 -o plan.json -- --num-layers 40 --hidden-size 5120 ...\n"
    "  weft import strategy.json titan-rtx --from galvatron --model bert-huge-32 -o plan.json\n"
    "  weft import gpt_1_3B.json dgx-v100:1 --from aceso -o plan.json",
    .names = take_names,
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Quotes a word of the command line, so that it can be split again as a shell would. */
static const char *quoted(struct arena *arena, const char *word)
{
    const char *text = "'";
    for (const char *rest = word; *rest;) {
        size_t plain = strcspn(rest, "'");
        text = arena_printf(arena, "%s%.*s%s", text, (int)plain, rest, rest[plain] ? "'\\''" : "");
        rest += plain + (rest[plain] != '\0');
    }
    return arena_printf(arena, "%s'", text);
}

static void quote_words(struct arena *arena, struct import_command *options,
                        struct import_input *input)
{
    const char *text = "";
    for (int i = 0; i < options->word_count; i++) {
        const char *word = options->words[i];
        bool plain = !strpbrk(word, " \t\n()|&;#$\"\\'");
        text = arena_printf(arena, "%s %s", text, plain ? word : quoted(arena, word));
    }
    *input = (struct import_input){.file = "arguments", .text = text, .len = strlen(text)};
}

static weft_status read_file(struct arena *arena, const char *path, struct import_input *input)
{
    char *text;
    size_t len;
    weft_status status = file_read(arena, path, 1 << 24, &text, &len);
    *input = (struct import_input){.file = path, .text = text, .len = len};
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static int print_json(const struct plan *plan, const struct texts *notes, const char *text)
{
    json_t *list = json_array(), *json = json_loads(text, 0, NULL);
    for (size_t i = 0; i < notes->len; i++)
        json_array_append_new(list, json_text(notes->data[i]));
    return cli_print_json(json_pack("{s:o, s:I, s:o, s:o}", "model", json_text(plan->model->name),
                                    "devices", (json_int_t)cluster_devices(plan->cluster), "notes",
                                    list, "plan", json ? json : json_null()));
}

static int print(struct arena *arena, const struct import_command *options, const struct plan *plan,
                 const struct texts *notes)
{
    const char *text = plan_write(arena, plan);
    if (options->output) {
        weft_status status = file_write_text(options->output, text);
        if (status)
            return cli_fail(status);
    }
    if (options->json)
        return print_json(plan, notes, text);
    if (!options->output)
        fputs(text, stdout);
    fflush(stdout);
    for (size_t i = 0; i < notes->len; i++)
        fprintf(stderr, "note: %s\n", notes->data[i]);
    return WEFT_OK;
}

static int run(struct import_command *options)
{
    struct arena *arena = options->arena;
    struct import_input input;
    struct opened_plan opened;
    struct texts notes = {0};
    const struct source *source = source_find(options->from);
    weft_status status = source ? WEFT_OK : WEFT_BAD_INPUT;
    if (source && options->words)
        quote_words(arena, options, &input);
    else if (source)
        status = read_file(arena, options->name[0], &input);
    if (status)
        return cli_fail(status);
    input.model = options->model;
    input.options = options->set;
    input.cluster = options->name[options->names - 1];
    status = source_software(options->from, &input.software);
    if (status)
        return cli_fail(status);
    status = source->read(arena, &input, &opened, &notes);
    if (status)
        return cli_fail(status);
    status = source_note(arena, options->from, opened.plan, &notes);
    int code = status ? cli_fail(status) : print(arena, options, opened.plan, &notes);
    plan_close(&opened);
    return code;
}

/* `-o FILE` among the words after `--` is meant for here: no framework has it. */
static void take_output(struct import_command *options)
{
    for (int i = 0; i + 1 < options->word_count; i++) {
        if (strcmp(options->words[i], "-o") != 0)
            continue;
        options->output = options->words[i + 1];
        options->word_count -= 2;
        memmove(&options->words[i], &options->words[i + 2],
                (size_t)(options->word_count - i) * sizeof *options->words);
        return;
    }
}

int cmd_import(int argc, char **argv)
{
    struct import_command options = {.arena = arena_new()};
    int own = 0;
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    if (own < argc) {
        options.words = argv + own + 1;
        options.word_count = argc - own - 1;
        take_output(&options);
    }
    cli_read(&SYNTAX, own, argv, &options);
    int code = run(&options);
    arena_free(options.arena);
    return code;
}

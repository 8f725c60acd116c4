/* cli.c - what all commands share: parsing arguments, printing errors and JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* ---- unknown options ------------------------------------------------------------------------- */

enum { MOST_NAMES = 128, LEAST_PART = 3 }; /* fewer letters than that are within too many names */
/* The options of a command. Those of a plan come first, because they are most often the ones that are meant. */
struct known {
    const struct argp_option *option[MOST_NAMES];
    size_t count;
};

static void list_options(const struct argp *argp, struct known *out)
{
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        list_options(child->argp, out);
    for (const struct argp_option *o = argp->options; o && (o->name || o->doc); o++)
        if (o->name && out->count < MOST_NAMES)
            out->option[out->count++] = o;
}

/* Like getopt, accepts a name or the beginning of one. */
static const struct argp_option *find_long(const struct known *known, const char *word, size_t len)
{
    const struct argp_option *found = NULL;
    for (size_t i = 0; i < known->count; i++)
        if (strncmp(known->option[i]->name, word, len) == 0) {
            found = known->option[i];
            if (!found->name[len])
                break;
        }
    return found;
}

static const struct argp_option *find_short(const struct known *known, char letter)
{
    for (size_t i = 0; i < known->count; i++)
        if (known->option[i]->key == letter)
            return known->option[i];
    return NULL;
}

/* What others call an option, or what is said without one. */
static const struct {
    const char *word, *hint;
} OTHERS[] = {
    {"precision", "did you mean '--dtype'?"},
    {"gbs", "did you mean '--global-batch'?"},
    {"mbs", "did you mean '--microbatch'?"},
    {"vpp", "did you mean '--virtual'?"},
    {"sequence-parallel", "did you mean '--sp'?"},
    {"tensor-model-parallel-size", "did you mean '--tp'?"},
    {"pipeline-model-parallel-size", "did you mean '--pp'?"},
    {"context-parallel-size", "did you mean '--cp'?"},
    {"expert-model-parallel-size", "did you mean '--ep'?"},
    {"lora", "did you mean '--set lora=16'?"},
    {"gpus", "devices are the cluster's: 'h100:64' has 64, 'dgx-h100:8' has 8 nodes"},
    {"devices", "devices are the cluster's: 'h100:64' has 64, 'dgx-h100:8' has 8 nodes"},
    {"nodes", "nodes are the cluster's: 'dgx-h100:8' has 8"},
};

/* Whether someone who wrote word may have meant the option: batch for global-batch, sequence for seq. */
static bool is_around(const struct argp_option *option, const char *word)
{
    size_t len = strlen(option->name);
    return !(option->flags & OPTION_ALIAS) &&
           ((strlen(word) >= LEAST_PART && strstr(option->name, word)) ||
            (len >= LEAST_PART && strncmp(word, option->name, len) == 0));
}

static bool options_around(const struct known *known, const char *word, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < known->count && used < size; i++)
        if (is_around(known->option[i], word))
            used += (size_t)snprintf(out + used, size - used, "%s'--%s'", used ? " or " : "",
                                     known->option[i]->name);
    return used > 0 && used < size;
}

static void refuse_option(const struct known *known, const char *command, const char *word,
                          size_t len)
{
    const char *names[MOST_NAMES];
    char name[64], around[128];
    for (size_t i = 0; i < known->count; i++)
        names[i] = known->option[i]->name;
    snprintf(name, sizeof name, "%.*s", (int)len, word);
    const char *near = nearest_word(name, names, known->count), *other = NULL;
    for (size_t i = 0; i < COUNT_OF(OTHERS); i++)
        other = strcmp(name, OTHERS[i].word) == 0 ? OTHERS[i].hint : other;
    fprintf(stderr, "%s: no option is called '--%s'\n", command, name);
    if (other)
        fprintf(stderr, "hint: %s\n", other);
    else if (near)
        fprintf(stderr, "hint: did you mean '--%s'?\n", near);
    else if (options_around(known, name, around, sizeof around))
        fprintf(stderr, "hint: did you mean %s?\n", around);
    else
        fprintf(stderr, "hint: `%s --help` lists the options\n", command);
    exit(WEFT_BAD_INPUT);
}

/* ---- the words of a command line ------------------------------------------------------------- */

struct words {
    const struct known *known;
    int argc, at;
    char **argv;
    bool names_only;                  /* "--" has been read */
    const struct argp_option *option; /* the option of this word; NULL if it is a name */
    const char *value;                /* the name, or the option's value; NULL if it has none */
};

static void take_option(struct words *words, const char *word)
{
    bool is_long = strncmp(word, "--", 2) == 0;
    size_t len = is_long ? strcspn(word + 2, "=") : 0;
    const struct argp_option *option =
        is_long ? find_long(words->known, word + 2, len) : find_short(words->known, word[1]);
    if (is_long && !option) /* argp would refuse it without suggesting another */
        refuse_option(words->known, words->argv[0], word + 2, len);
    const char *joined = is_long ? word + 2 + len : word + 2;
    bool needs = option && option->arg && !(option->flags & OPTION_ARG_OPTIONAL);
    words->option = option;
    words->value = *joined ? joined + is_long : NULL;
    if (!words->value && needs && words->at < words->argc)
        words->value = words->argv[words->at++];
}

static bool next_word(struct words *words)
{
    if (words->at >= words->argc)
        return false;
    const char *word = words->argv[words->at++];
    bool is_name = words->names_only || word[0] != '-' || !word[1];
    words->option = NULL;
    words->value = is_name ? word : NULL;
    if (!is_name && strcmp(word, "--") == 0)
        words->names_only = true;
    else if (!is_name)
        take_option(words, word);
    return true;
}

static void check_words(const struct argp *argp, int argc, char **argv)
{
    static const struct argp_option OWN[] = {{"help", '?', NULL, 0, "", 0},
                                             {"usage", -1, NULL, 0, "", 0}};
    struct known known = {.option = {&OWN[0], &OWN[1]}, .count = COUNT_OF(OWN)};
    const struct words all = {&known, argc, 1, argv, false, NULL, NULL};
    weft_status status = WEFT_OK;
    list_options(argp, &known);
    for (struct words words = all; !status && next_word(&words);)
        if (words.option && words.value && words.option->flags & CLI_WRITES)
            status = output_add(words.option->name, words.value);
    for (struct words words = all; !status && next_word(&words);)
        if (!words.option || !(words.option->flags & CLI_WRITES))
            status = input_check(words.value);
    if (status)
        exit(cli_fail(status));
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    argp_err_exit_status = WEFT_BAD_INPUT;
    check_words(argp, argc, argv);
    setenv("ARGP_HELP_FMT", "rmargin=100,no-dup-args-note", 0); /* examples stay on one line */
    if (argp_parse(argp, argc, argv, 0, NULL, input) != 0)
        exit(WEFT_BAD_INPUT);
}

int cli_fail(weft_status status)
{
    const weft_error *error = weft_last_error();
    fprintf(stderr, "weft: %s\n", error->message);
    if (error->hint)
        fprintf(stderr, "hint: %s\n", error->hint);
    return (int)status;
}

void cli_warn_missing(void)
{
    struct arena *arena = arena_new();
    const char *folder = cost_missing(arena);
    if (folder)
        fprintf(stderr,
                "weft: warning: no measured times, %s is missing: operators are timed by formula; "
                "`make` builds it\n",
                folder);
    arena_free(arena);
}

void cli_warn_doubts(const struct plan *plan)
{
    struct arena *arena = arena_new();
    struct warnings doubts = {0};
    plan_doubts(arena, plan, &doubts);
    for (size_t i = 0; i < doubts.len; i++)
        fprintf(stderr, "weft: warning: %s\n", doubts.data[i]);
    arena_free(arena);
}

int cli_print_json(json_t *answer)
{
    int failed = json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(answer);
    if (failed && !ferror(stdout)) /* main.c reports a stream that cannot be written */
        fprintf(stderr, "weft: the answer cannot be written as JSON\n");
    return failed ? WEFT_FAILURE : WEFT_OK;
}

void take_page_format(struct argp_state *state, struct page_options *options, const char *arg)
{
    options->has_format = page_format_find(arg, &options->format);
    if (!options->has_format)
        argp_error(state, "--format is '%s', expected html, md, text, json or svg", arg);
}

void take_omitted(struct argp_state *state, struct omitted *omitted, const char *arg)
{
    struct {
        const char *name;
        bool *omitted;
    } parts[] = {{"sharing", &omitted->sharing}, {"slowdown", &omitted->slowdown}};
    struct arena *scratch = arena_new();
    for (char *rest = arena_copy_text(scratch, arg), *item; (item = strsep(&rest, ","));) {
        size_t i = 0;
        while (i < COUNT_OF(parts) && strcmp(parts[i].name, item) != 0)
            i++;
        if (i < COUNT_OF(parts))
            *parts[i].omitted = true;
        else
            argp_error(state, "--without is '%s', expected sharing, slowdown or both", arg);
    }
    arena_free(scratch);
}

weft_status report_write(const struct page_options *options, struct page *page)
{
    page->format = options->format;
    if (!options->path)
        return WEFT_OK;
    if (!options->has_format && !page_format_find(options->path, &page->format))
        page->format = PAGE_HTML;
    return page_write(page, options->path);
}

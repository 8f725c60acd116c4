/* options.c - tables of options, read with argp. */
#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MOST_OPTIONS = 64,
    FIRST_KEY = 0x400, /* above the characters and the keys of children */
};

/* The limit of numbers that have no other one; it is finite as a float, too. */
static const double MOST_REAL = 1e30;

struct option_reading {
    const struct syntax *syntax;
    void *options;
};

static int key_of(const struct syntax *syntax, size_t i)
{
    return syntax->options[i].letter ? syntax->options[i].letter : FIRST_KEY + (int)i;
}

static const struct cli_option *find_option(const struct syntax *syntax, int key)
{
    for (size_t i = 0; syntax->options[i].name; i++)
        if (key_of(syntax, i) == key)
            return &syntax->options[i];
    return NULL;
}

static double take_real(struct argp_state *state, const struct cli_option *option, const char *arg)
{
    double value = 0, below = option->below > 0 ? option->below : MOST_REAL;
    bool many = option->type == OPTION_MANY;
    bool (*parse)(const char *, double *) = many                             ? parse_many
                                            : option->type == OPTION_PERCENT ? parse_percent
                                                                             : parse_real;
    if (!parse(arg, &value) || !(value >= 0 && value < below))
        argp_error(state, "--%s takes a number of at least 0%s, not '%s'", option->name,
                   many         ? ", such as 300e9 or 15T"
                   : below <= 1 ? " and below 1"
                                : "",
                   arg);
    return value;
}

static void take(struct argp_state *state, const struct cli_option *option, void *options,
                 char *arg)
{
    char *field = (char *)options + option->at;
    int64_t number = 0;
    double real = 0;
    switch (option->type) {
    case OPTION_FLAG:
        memcpy(field, &(bool){true}, sizeof(bool));
        break;
    case OPTION_TEXT:
        memcpy(field, (const void *)&arg, sizeof arg);
        break;
    case OPTION_COUNT:
        number = take_count(state, option->name, arg, option->least, option->most);
        memcpy(field, &number, sizeof number);
        break;
    case OPTION_REAL:
    case OPTION_PERCENT:
    case OPTION_MANY:
        real = take_real(state, option, arg);
        memcpy(field, &real, sizeof real);
        break;
    case OPTION_SIZE:
        if (!parse_bytes(arg, &number) || number < 1)
            argp_error(state, "--%s takes a size such as 64MiB, not '%s'", option->name, arg);
        memcpy(field, &number, sizeof number);
        break;
    case OPTION_TAKE:
    case OPTION_TYPE_COUNT:
        option->take(state, options, arg);
        break;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    const struct option_reading *reading = state->input;
    const struct syntax *syntax = reading->syntax;
    const struct cli_option *option = find_option(syntax, key);
    state->input = reading->options; /* only for this call; argp sets it again for the next one */
    if (key == ARGP_KEY_INIT && syntax->child.argp)
        state->child_inputs[0] = (char *)reading->options + syntax->child.at;
    if (option)
        take(state, option, reading->options, arg);
    else if (syntax->names)
        return syntax->names(key, arg, state);
    return option ? 0 : ARGP_ERR_UNKNOWN;
}

/* The child's options without those that the command has itself: these take their place. */
static void list_child(const struct syntax *syntax, struct argp_option *out)
{
    const struct argp_option *row = syntax->child.argp ? syntax->child.argp->options : NULL;
    size_t count = 0;
    for (; row && (row->name || row->doc) && count < MOST_OPTIONS; row++) {
        bool own = false;
        for (size_t i = 0; row->name && syntax->options[i].name; i++)
            own |= strcmp(row->name, syntax->options[i].name) == 0;
        if (!own)
            out[count++] = *row;
    }
}

void cli_read(const struct syntax *syntax, int argc, char **argv, void *options)
{
    struct argp_option rows[MOST_OPTIONS + 1] = {0}, child_rows[MOST_OPTIONS + 1] = {0};
    struct argp child = syntax->child.argp ? *syntax->child.argp : (struct argp){0};
    const struct argp_child children[] = {{syntax->child.argp ? &child : NULL, 0, NULL, 0}, {0}};
    struct option_reading reading = {syntax, options};
    char *lists[MOST_OPTIONS] = {0};
    for (size_t i = 0; i < MOST_OPTIONS && syntax->options[i].name; i++) {
        const struct cli_option *option = &syntax->options[i];
        int flags =
            (option->optional ? OPTION_ARG_OPTIONAL : 0) | (option->writes ? CLI_WRITES : 0);
        if (option->choices)
            lists[i] = choices_help(option->choices, option->first_is_usual);
        rows[i] = (struct argp_option){option->name,
                                       key_of(syntax, i),
                                       option->value,
                                       flags,
                                       lists[i] ? lists[i] : option->help,
                                       0};
    }
    list_child(syntax, child_rows);
    child.options = child_rows;
    const struct argp argp = {
        rows, parse, syntax->arguments, syntax->text, children, syntax->help_filter, NULL};
    cli_parse(&argp, argc, argv, &reading);
    for (size_t i = 0; i < MOST_OPTIONS; i++)
        free(lists[i]);
}

/* ---- choices --------------------------------------------------------------------------------- */

char *choices_help(choice_at *choices, bool first_is_usual)
{
    char *text = NULL;
    const char *name, *summary;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    for (size_t i = 0; out && (name = choices(i, &summary)); i++)
        fprintf(out, "%s%s%s: %s", i ? "; " : "", name,
                i == 0 && first_is_usual ? " (default)" : "", summary);
    if (out)
        fclose(out);
    return text;
}

void choices_list(choice_at *choices)
{
    const char *name, *summary;
    for (size_t i = 0; (name = choices(i, &summary)); i++)
        puts(name);
    exit(0);
}

/* ---- values ---------------------------------------------------------------------------------- */

int64_t take_count(struct argp_state *state, const char *option, const char *arg, int64_t least,
                   int64_t most)
{
    int64_t value = 0;
    bool whole = parse_int(arg, &value), digits = *arg && !arg[strspn(arg, "0123456789")];
    if (most && digits && (!whole || value > most))
        argp_error(state, "--%s is %s, expected at most %lld", option, arg, (long long)most);
    else if (!whole || value < least)
        argp_error(state, "--%s takes a whole number of at least %lld, not '%s'", option,
                   (long long)least, arg);
    return value;
}

void add_override(struct arena *arena, const char **overrides, const char *key, const char *value)
{
    const char *before = *overrides ? *overrides : "";
    *overrides = arena_printf(arena, "%s%s%s: %s", before, *before ? ", " : "", key, value);
}

void take_set(struct argp_state *state, struct arena *arena, const char **overrides,
              const char *arg)
{
    size_t key = strcspn(arg, "=:");
    if (key == 0 || arg[key] == '\0')
        argp_error(state, "--set takes KEY=VALUE, not '%s'", arg);
    else
        add_override(arena, overrides, arena_copy_bytes(arena, arg, key), arg + key + 1);
}

enum collective take_collective(struct argp_state *state, const char *arg)
{
    enum collective collective = COLLECTIVE_COUNT;
    if (!collective_from_name(arg, &collective))
        argp_error(state,
                   "'%s' is no collective: all_reduce, all_gather, reduce_scatter, all_to_all, "
                   "broadcast, send",
                   arg);
    return collective;
}

int64_t take_positions(struct argp_state *state, const char *option, const char *arg)
{
    enum { POSITIONS_PER_K = 1024 };
    char number[32];
    size_t digits = strspn(arg, "0123456789");
    bool thousands = digits && digits < sizeof number && strcasecmp(arg + digits, "K") == 0;
    if (!thousands)
        return take_count(state, option, arg, 1, INT32_MAX);
    snprintf(number, sizeof number, "%.*s", (int)digits, arg);
    return POSITIONS_PER_K * take_count(state, option, number, 1, INT32_MAX / POSITIONS_PER_K);
}

enum dtype take_dtype(struct argp_state *state, const char *arg)
{
    enum dtype dtype = DTYPE_COUNT;
    if (!dtype_from_word(arg, &dtype))
        argp_error(state, "--dtype is '%s', expected " DTYPE_NAMES "%s", arg,
                   strstr(arg, "fp8") ? "; fp8 is MXFP8 on devices that have it, and other recipes "
                                        "are --software NAME,fp8_recipe=WORD"
                                      : "");
    return dtype;
}

bool is_preset(const char *name)
{
    const struct preset *presets;
    size_t count = model_presets(&presets);
    for (size_t i = 0; i < count; i++)
        if (strcmp(presets[i].name, name) == 0)
            return true;
    return false;
}

/* options.h - a command's options as one table: what each is called, what it means, and where its
 * value goes. Private to the room.
 *
 *   static const struct cli_option OPTIONS[] = {
 *       {"layouts", NULL, "how each tensor lies", OPTION_FLAG, AT(layouts)},
 *       JSON_OPTION(AT(json)),
 *       {0},
 *   };
 *   static const struct syntax SYNTAX = {
 *       OPTIONS, .arguments = "PLAN", .text = "Shows a plan.", .child = PLAN_CHILD(AT(plan))};
 *   cli_read(&SYNTAX, argc, argv, &options);
 *
 * A wrong option or value ends the program with exit code 2, --help with 0.
 */
#ifndef WEFT_CLI_OPTIONS_H
#define WEFT_CLI_OPTIONS_H

#include "cli/cli.h"

enum option_type {
    OPTION_FLAG,    /* a bool, which becomes true */
    OPTION_TEXT,    /* a const char *, the argument itself */
    OPTION_COUNT,   /* an int64_t from `least` to `most` */
    OPTION_REAL,    /* a double of at least 0 and below `below` */
    OPTION_PERCENT, /* the same, also as 5% */
    OPTION_MANY,    /* the same, also as 300B or 15T */
    OPTION_SIZE,    /* an int64_t of bytes, at least 1 */
    OPTION_TAKE,    /* handled by `take` */
    OPTION_TYPE_COUNT
};
/* The words that an option takes, from the table that has them: the name and the summary of row `i`; NULL after the
 * last. */
typedef const char *choice_at(size_t i, const char **summary);

struct cli_option {
    const char *name;
    const char *value; /* what --help calls its value; NULL if it takes none */
    const char *help;  /* NULL if --help lists its choices */
    enum option_type type;
    size_t at;           /* offset of the field in the command's struct */
    int64_t least, most; /* for a count; `most` is 0 if there is no limit */
    double below;        /* for a real; 0 if there is no limit */
    char letter;         /* of the short form; 0 if there is none */
    bool optional;       /* the value may be left out and is then NULL */
    bool writes;         /* the value is a file that the command writes */
    void (*take)(struct argp_state *state, void *options, char *arg);
    choice_at *choices;  /* NULL if it takes any value */
    bool first_is_usual; /* the first of the choices is the default */
};
/* Rows that commands share. */
#define JSON_OPTION(AT) {"json", NULL, "one JSON object on standard output", OPTION_FLAG, AT}
#define PROFILE_OPTION(AT)                                                                         \
    {"profile", "DB", "a database of measured times to ask first", OPTION_TEXT, AT}
#define OUTPUT_OPTION(AT, HELP)                                                                    \
    {"output", "FILE", HELP, OPTION_TEXT, AT, .letter = 'o', .writes = true}

struct syntax {
    const struct cli_option *options; /* the last one has no name */
    const char *arguments, *text;     /* args_doc and doc of argp */
    /* Handles names and the end of the arguments, by argp's keys; optional. */
    error_t (*names)(int key, char *arg, struct argp_state *state);
    struct {
        const struct argp *argp; /* NULL if there is none */
        size_t at;               /* offset of its input in the command's struct */
    } child;
    char *(*help_filter)(int key, const char *text, void *input); /* optional */
};
void cli_read(const struct syntax *syntax, int argc, char **argv, void *options);

/* Such as "auto (default): every combination ...; megatron: ..."; the caller frees it. */
char *choices_help(choice_at *choices, bool first_is_usual);
/* Prints the bare names, one per line, and ends the program, as --help does. For --names. */
_Noreturn void choices_list(choice_at *choices);

/* ---- values that several options take -------------------------------------------------------- */

/* Reads a whole number from `least` to `most`; a `most` of 0 is no limit. */
/* Positions, also as 128K, which are 131072. */
int64_t take_positions(struct argp_state *state, const char *option, const char *arg);
int64_t take_count(struct argp_state *state, const char *option, const char *arg, int64_t least,
                   int64_t most);
/* Adds KEY=VALUE, or YAML's own "key: value", to options of a model in YAML's flow form. */
void take_set(struct argp_state *state, struct arena *arena, const char **overrides,
              const char *arg);
void add_override(struct arena *arena, const char **overrides, const char *key, const char *value);
enum collective take_collective(struct argp_state *state, const char *arg);
enum dtype take_dtype(struct argp_state *state, const char *arg);

/* Whether a model of Weft's own is called so. */
bool is_preset(const char *name);

#endif

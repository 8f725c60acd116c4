/* shell.h - reads the commands of a shell script without running any of them. Inside this room only.
 *
 *   I1  A letter that stands in a word carries the line on which it was written, and the doubt about it, if there is one.
 *   I2  A variable that is set in one branch of several stands for all of its values, in doubt, where the branches meet.
 *   I3  All variables together expand to at most MOST_EXPANDED bytes, however they are nested.
 */
#ifndef WEFT_EXCHANGE_SHELL_H
#define WEFT_EXCHANGE_SHELL_H

#include "exchange/room.h"

enum { MOST_EXPANDED = 1 << 22 };

/* Why a script does not say what stands there. */
enum doubt_kind {
    DOUBT_CONDITION, /* a variable is set under a condition */
    DOUBT_LOOP,      /* a variable takes several values */
    DOUBT_UNSET,     /* a variable is not set */
    DOUBT_ARGUMENT,  /* an argument of the script itself */
    DOUBT_OUTPUT,    /* the output of a command */
    DOUBT_FORM,      /* a way to expand that is not read */
    DOUBT_SUM,       /* a computation that is not read */
    DOUBT_KIND_COUNT
};
struct doubt {
    enum doubt_kind kind;
    const char *name; /* of the variable */
    int line;         /* where it is set */
};

struct shell_letter {
    const struct doubt *doubt;
    int line;
    char c;
    bool parts; /* a blank between two elements of an array */
};
struct shell_text {
    struct shell_letter *data;
    size_t len, cap;
};

struct shell_word {
    const char *text;
    int line;
    const struct doubt *doubt; /* the first one about its letters; NULL: there is none */
};
struct shell_command {
    ARRAY(struct shell_word) words;
    int line;
};
struct shell_script {
    const char *text; /* from its first letter on */
    ARRAY(struct shell_command) commands;
    struct shell_command arrays; /* the elements of all arrays, in their order */
    struct texts comments;       /* each from its # on */
};
weft_status shell_read(struct arena *scratch, const struct import_input *input,
                       struct shell_script *out);

/* ---- variables (shell_values.c) -------------------------------------------------------------- */

struct shell_values;
struct shell_values *values_new(struct arena *scratch);
/* What a variable stands for; NULL: it is not set. */
const struct shell_text *values_get(const struct shell_values *values, const char *name);
void values_set(struct shell_values *values, const char *name, const struct shell_text *text,
                int line);
/* The same under a condition that may not be met. */
void values_set_perhaps(struct shell_values *values, const char *name,
                        const struct shell_text *text, int line);
/* Counts so many more letters; false: by I3 there are no more. */
bool values_expand(struct shell_values *values, size_t letters);

/* A block has branches, and what they set meets where it is closed (I2). */
enum block_kind { BLOCK_IF, BLOCK_LOOP, BLOCK_CASE };
void branches_open(struct shell_values *values, enum block_kind kind);
/* Begins the first branch, or the next one. */
void branches_next(struct shell_values *values);
/* One of the branches is taken in any case. */
void branches_has_all(struct shell_values *values);
/* Begins a branch of which it is known whether it is taken, as long as none was before. */
void branches_know(struct shell_values *values, bool taken);
/* Whether a branch is known to be taken. */
bool branches_taken(const struct shell_values *values);
/* The word that a case asks about, where it is known; NULL: it is not. */
void branches_ask(struct shell_values *values, const char *word);
const char *branches_asked(const struct shell_values *values);
/* Closes the innermost block, if it is of this kind. */
void branches_close(struct shell_values *values, enum block_kind kind);
bool branches_is(const struct shell_values *values, enum block_kind kind);
/* Whether what is read now stands in a branch that is known not to be taken. */
bool values_skipped(const struct shell_values *values);

/* A text without its doubts. */
const char *shell_plain(struct arena *scratch, const struct shell_text *text);
/* The first doubt about a text; NULL: there is none. */
const struct doubt *shell_doubt(const struct shell_text *text);
const struct doubt *doubt_new(struct arena *scratch, enum doubt_kind kind, const char *name,
                              int line);

#endif

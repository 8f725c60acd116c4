/* shell_room.h - what the files that read a script share (shell.h). */
#ifndef WEFT_EXCHANGE_SHELL_ROOM_H
#define WEFT_EXCHANGE_SHELL_ROOM_H

#include "exchange/shell.h"

/* A word that is being read. */
struct open_word {
    struct shell_text text;
    bool quoted;   /* at least in part, and is then a word even if it is empty */
    bool expanded; /* at least in part, and is then no keyword */
    int line;
};
struct shell_reader {
    struct arena *scratch;
    const char *next, *end;
    int line;
    struct shell_values *values;
    struct shell_script *out;
    struct shell_command command; /* that is being read */
    struct shell_text *array;     /* whose elements are being read; NULL: none */
    bool start;                   /* no word of the command but assignments was read */
    bool assigning;               /* words of this command may be assignments: export A=1 */
    bool perhaps;                 /* the command follows && or || */
    bool empty;                   /* nothing of the command was read */
    bool looping;                 /* the command is the head of a for */
    bool whole;                   /* expansions are not split at blanks */
    bool too_many;                /* I3 */
    int depth;
};

/* Reads a letter, a quoted part or an expansion of a word. */
void take_part(struct shell_reader *r, struct open_word *word);
/* Reads what begins with a dollar sign or a backquote (shell_expand.c). */
void take_expansion(struct shell_reader *r, struct open_word *word, bool quoted);
void put_letter(struct shell_reader *r, struct open_word *word, char c, const struct doubt *doubt);
/* Moves past (...), whose first parenthesis is the next letter. */
void skip_parentheses(struct shell_reader *r);
/* Whether this text is next. */
bool follows(const struct shell_reader *r, const char *text);
/* Ends a word and begins the next one. */
void end_word(struct shell_reader *r, struct open_word *word);
/* Whether the word so far is NAME=... or NAME+=...; `len` gets the length of the name. */
bool is_assignment(const struct shell_reader *r, const struct shell_text *text, size_t *len);
bool in_name(char c);
bool ends_word(char c);
void skip_comment(struct shell_reader *r);

/* Reads what a case asks about, and its first patterns (shell_case.c). */
void begin_case(struct shell_reader *r);
/* Reads the patterns of a branch up to their parenthesis, and begins it; `esac` is left to be read as a word. */
void take_patterns(struct shell_reader *r);

/* The value of a sum over whole numbers with + - * / % and parentheses (shell_sum.c); false: it is none. */
bool sum_value(const char *text, int64_t *out);

#endif

/* shell_words.c - splits a shell script into its commands.
 *
 * Nothing is run. Words are split as a shell splits them, at blanks, with quotes, backslashes, comments and expansions
 * (shell_expand.c). NAME=value sets what $NAME stands for from there on, NAME+=value adds to it, and parentheses hold the
 * elements of an array. No condition is evaluated: of if, case (shell_case.c) and loops all branches are read
 * (shell_values.c).
 */
#include <ctype.h>
#include <string.h>

#include "exchange/shell_room.h"

bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool ends_word(char c)
{
    return isspace((unsigned char)c) || c == '(' || c == ')' || c == ';' || c == '&' || c == '|';
}

/* ---- words ----------------------------------------------------------------------------------- */

void put_letter(struct shell_reader *r, struct open_word *word, char c, const struct doubt *doubt)
{
    struct shell_letter letter = {doubt, r->line, c, false};
    array_push(r->scratch, &word->text, letter);
}

static void put_next(struct shell_reader *r, struct open_word *word)
{
    put_letter(r, word, *r->next, NULL);
    r->line += *r->next++ == '\n';
}

static void take_quoted(struct shell_reader *r, struct open_word *word)
{
    char quote = *r->next++;
    word->quoted = true;
    while (r->next < r->end && *r->next != quote) {
        bool plain = quote == '\'', more = r->next + 1 < r->end;
        if (!plain && (*r->next == '$' || *r->next == '`')) {
            take_expansion(r, word, true);
        } else if (!plain && *r->next == '\\' && more && r->next[1] == '\n') {
            r->next += 2; /* the line goes on */
            r->line++;
        } else {
            r->next += !plain && *r->next == '\\' && more;
            put_next(r, word);
        }
    }
    r->next += r->next < r->end;
}

static void take_escaped(struct shell_reader *r, struct open_word *word)
{
    r->next++;
    if (*r->next != '\n') {
        put_next(r, word);
        return;
    }
    r->next++;
    r->line++;
}

void take_part(struct shell_reader *r, struct open_word *word)
{
    if (*r->next == '\'' || *r->next == '"')
        take_quoted(r, word);
    else if (*r->next == '$' || *r->next == '`')
        take_expansion(r, word, false);
    else if (*r->next == '\\' && r->next + 1 < r->end)
        take_escaped(r, word);
    else
        put_next(r, word);
}

void skip_comment(struct shell_reader *r)
{
    const char *last = memchr(r->next, '\n', (size_t)(r->end - r->next));
    last = last ? last : r->end;
    array_push(r->scratch, &r->out->comments,
               arena_copy_bytes(r->scratch, r->next, (size_t)(last - r->next)));
    r->next = last;
}

static struct shell_word closed(struct shell_reader *r, const struct open_word *word)
{
    return (struct shell_word){.text = shell_plain(r->scratch, &word->text),
                               .line = word->text.len ? word->text.data->line : word->line,
                               .doubt = shell_doubt(&word->text)};
}

/* ---- assignments ----------------------------------------------------------------------------- */

bool is_assignment(const struct shell_reader *r, const struct shell_text *text, size_t *len)
{
    size_t name = 0;
    while (name < text->len && in_name(text->data[name].c))
        name++;
    bool adds = name + 1 < text->len && text->data[name].c == '+';
    *len = name;
    return (r->start || r->assigning) && !r->array && name &&
           !isdigit((unsigned char)text->data->c) && name + adds < text->len &&
           text->data[name + adds].c == '=';
}

/* Adds letters to those before, which have a limit. */
static void add_letters(struct shell_reader *r, struct shell_text *to,
                        const struct shell_letter *letters, size_t count)
{
    if (!values_expand(r->values, count)) {
        r->too_many = true;
        return;
    }
    for (size_t i = 0; i < count; i++)
        array_push(r->scratch, to, letters[i]);
}

static void assign(struct shell_reader *r, const struct shell_text *text, size_t len,
                   const struct shell_text *elements)
{
    const char *name = arena_copy_bytes(r->scratch, shell_plain(r->scratch, text), len);
    bool adds = text->data[len].c == '+';
    const struct shell_text *before = adds ? values_get(r->values, name) : NULL;
    struct shell_text value = {0};
    size_t from = len + adds + 1;
    if (before)
        add_letters(r, &value, before->data, before->len);
    if (before && elements && before->len) {
        struct shell_letter blank = {NULL, r->line, ' ', true};
        array_push(r->scratch, &value, blank);
    }
    if (elements)
        add_letters(r, &value, elements->data, elements->len);
    else
        add_letters(r, &value, text->data + from, text->len - from);
    (r->perhaps ? values_set_perhaps : values_set)(r->values, name, &value, text->data->line);
}

static void add_element(struct shell_reader *r, const struct open_word *word)
{
    struct shell_letter blank = {NULL, word->line, ' ', true};
    if (r->array->len)
        array_push(r->scratch, r->array, blank);
    for (size_t i = 0; i < word->text.len; i++)
        array_push(r->scratch, r->array, word->text.data[i]);
    array_push(r->scratch, &r->out->arrays.words, closed(r, word));
}

static void take_word(struct shell_reader *r);

/* Reads the elements of an array from its parenthesis on; newlines are blanks among them. */
static void take_elements(struct shell_reader *r, struct shell_text *elements)
{
    r->next++;
    r->array = elements;
    while (r->next < r->end && *r->next != ')') {
        if (*r->next == '#')
            skip_comment(r);
        else if (ends_word(*r->next))
            r->line += *r->next++ == '\n';
        else
            take_word(r);
    }
    r->array = NULL;
    r->next += r->next < r->end;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Commands that go on whether or not they succeed, as far as a script's author thinks of it. */
static bool always_succeeds(const char *word)
{
    static const char *const SURE[] = {"export", "cd",  "mkdir",  "source",
                                       ".",      "set", "module", "echo"};
    for (size_t i = 0; i < COUNT_OF(SURE); i++)
        if (strcmp(word, SURE[i]) == 0)
            return true;
    return false;
}

/* The variable of a loop: of several values each is in doubt. */
static void set_loop_variable(struct shell_reader *r)
{
    const struct shell_word *words = r->command.words.data;
    size_t count = r->command.words.len;
    struct open_word value = {.line = r->command.line};
    if (!count)
        return;
    const struct doubt *loop =
        count == 3 ? words[2].doubt
                   : doubt_new(r->scratch, DOUBT_LOOP, words->text, r->command.line);
    for (size_t i = 2; i < count; i++) {
        for (const char *at = words[i].text; *at; at++)
            put_letter(r, &value, *at, loop);
        if (i + 1 < count)
            put_letter(r, &value, ' ', loop);
    }
    if (count < 3)
        put_letter(r, &value, '?', loop);
    values_set(r->values, words->text, &value.text, r->command.line);
}

static void end_command(struct shell_reader *r)
{
    if (r->looping)
        set_loop_variable(r);
    else if (r->command.words.len && !values_skipped(r->values))
        array_push(r->scratch, &r->out->commands, r->command);
    r->command = (struct shell_command){0};
    r->start = true;
    r->assigning = r->looping = false;
}

/* Words that stand where a command begins. */
static void begin_branch(struct shell_reader *r)
{
    branches_next(r->values);
}

static void begin_else(struct shell_reader *r)
{
    if (branches_is(r->values, BLOCK_IF))
        branches_has_all(r->values);
    branches_next(r->values);
}

static void begin_if(struct shell_reader *r)
{
    branches_open(r->values, BLOCK_IF);
}

static void begin_loop(struct shell_reader *r)
{
    branches_open(r->values, BLOCK_LOOP);
}

static void begin_for(struct shell_reader *r)
{
    branches_open(r->values, BLOCK_LOOP);
    r->looping = true;
}

static void end_if(struct shell_reader *r)
{
    branches_close(r->values, BLOCK_IF);
}

static void end_loop(struct shell_reader *r)
{
    branches_close(r->values, BLOCK_LOOP);
}

static void end_case(struct shell_reader *r)
{
    branches_close(r->values, BLOCK_CASE);
}

static void go_on(struct shell_reader *r)
{
    (void)r;
}

static const struct {
    const char *name;
    void (*take)(struct shell_reader *r);
} KEYWORDS[] = {
    {"if", begin_if},      {"then", begin_branch}, {"elif", go_on},       {"else", begin_else},
    {"fi", end_if},        {"for", begin_for},     {"select", begin_for}, {"while", begin_loop},
    {"until", begin_loop}, {"do", begin_branch},   {"done", end_loop},    {"case", begin_case},
    {"esac", end_case},    {"{", go_on},           {"}", go_on},          {"!", go_on},
    {"time", go_on},
};

static bool take_keyword(struct shell_reader *r, const char *text)
{
    int at = NAME_INDEX(text, KEYWORDS);
    if (at >= 0)
        KEYWORDS[at].take(r);
    return at >= 0;
}

static bool sets_variables(const char *word)
{
    static const char *const DECLARE[] = {"export",   "local",   "declare",
                                          "readonly", "typeset", "env"};
    for (size_t i = 0; i < COUNT_OF(DECLARE); i++)
        if (strcmp(word, DECLARE[i]) == 0)
            return true;
    return false;
}

static void add_word(struct shell_reader *r, const struct open_word *open)
{
    struct shell_word word = closed(r, open);
    if (r->start && !r->looping && !open->quoted && !open->expanded && take_keyword(r, word.text))
        return;
    if (!r->command.words.len)
        r->command.line = open->line;
    r->assigning |= r->start && sets_variables(word.text);
    r->start = false;
    array_push(r->scratch, &r->command.words, word);
}

void end_word(struct shell_reader *r, struct open_word *word)
{
    size_t name;
    if (!word->text.len && !word->quoted)
        return;
    r->empty = false;
    if (r->array)
        add_element(r, word);
    else if (is_assignment(r, &word->text, &name))
        assign(r, &word->text, name, NULL);
    else
        add_word(r, word);
    *word = (struct open_word){.line = r->line};
}

static void take_word(struct shell_reader *r)
{
    struct open_word word = {.line = r->line};
    size_t name;
    while (r->next < r->end && !ends_word(*r->next))
        take_part(r, &word);
    if (r->next < r->end && *r->next == '(' && is_assignment(r, &word.text, &name)) {
        struct shell_text elements = {0};
        take_elements(r, &elements);
        assign(r, &word.text, name, &elements);
        r->empty = false;
        return;
    }
    end_word(r, &word);
}

/* ---- all together ---------------------------------------------------------------------------- */

void skip_parentheses(struct shell_reader *r)
{
    int open = 0;
    do {
        open += *r->next == '(';
        open -= *r->next == ')';
        r->line += *r->next++ == '\n';
    } while (open && r->next < r->end);
}

bool follows(const struct shell_reader *r, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(r->end - r->next) >= len && strncmp(r->next, text, len) == 0;
}

/* What stands between two commands: newlines, semicolons, && and ||, parentheses. `2>&1` and `&>file` stand in one. */
static void take_separator(struct shell_reader *r)
{
    bool either = follows(r, "||"), both = follows(r, "&&");
    char before = r->next > r->out->text ? r->next[-1] : '\n';
    if (*r->next == '&' && (before == '>' || before == '<' || follows(r, "&>"))) {
        r->next++;
        return;
    }
    if (*r->next == ' ' || *r->next == '\t' || *r->next == '\r') {
        r->next++;
        return;
    }
    bool sure = !r->command.words.len || always_succeeds(r->command.words.data->text);
    bool ends_branch = branches_is(r->values, BLOCK_CASE) && (follows(r, ";;") || follows(r, ";&"));
    end_command(r);
    r->perhaps = either || (both && (r->perhaps || !sure)) || (r->perhaps && r->empty);
    r->empty = true;
    r->next += either || both;
    while (ends_branch && r->next + 1 < r->end && (r->next[1] == ';' || r->next[1] == '&'))
        r->next++;
    r->line += *r->next++ == '\n';
    if (ends_branch)
        take_patterns(r);
}

weft_status shell_read(struct arena *scratch, const struct import_input *input,
                       struct shell_script *out)
{
    *out = (struct shell_script){.text = input->text};
    struct shell_reader r = {.scratch = scratch,
                             .next = input->text,
                             .end = input->text + input->len,
                             .line = 1,
                             .values = values_new(scratch),
                             .out = out,
                             .start = true};
    while (r.next < r.end && !r.too_many) {
        if (*r.next == '#')
            skip_comment(&r);
        else if (r.start && follows(&r, "(("))
            skip_parentheses(&r);
        else if (ends_word(*r.next))
            take_separator(&r);
        else
            take_word(&r);
    }
    end_command(&r);
    if (!r.too_many)
        return WEFT_OK;
    return bad_input(input->file, 0, "write the arguments without variables",
                     "its variables stand for more than %d bytes", MOST_EXPANDED);
}

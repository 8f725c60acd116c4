/* import_words.c - finds the arguments of Megatron-LM in a shell script or command line.
 *
 * Nothing is run. Words are split as a shell splits them, at blanks, with quotes, backslashes and
 * comments. NAME=value sets what $NAME and ${NAME} stand for from there on; the parentheses of array
 * assignments are skipped. A word that begins with two dashes is an argument.
 *
 *   I1  Every argument is one of Megatron's (target/flags.c) or of its launcher, and its value has the
 *       argument's type.
 *   I2  All variables together expand to at most MOST_EXPANDED bytes, however they are nested.
 *   I3  A comment `# weft: settings` holds settings for which Megatron has no arguments (exchange.h, I2).
 */
#include "exchange/room.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_EXPANDED = 1 << 22 };

struct typed_word {
    const char *text;
    int line;
    bool quoted; /* at least in part, and is then a word even if it is empty */
};

struct reader {
    struct arena *scratch;
    const char *file, *next, *end;
    int line;
    size_t expanded;   /* bytes that variables have expanded to so far */
    struct map *names; /* from names of variables to their places in `values` */
    struct texts values;
    ARRAY(struct typed_word) words;
    struct arguments *out;
};

/* ---- words ----------------------------------------------------------------------------------- */

struct buffer {
    char *data;
    size_t len, cap;
};

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void put_text(struct reader *r, struct buffer *b, const char *text)
{
    for (; *text; text++)
        array_push(r->scratch, b, *text);
}

/* Reads $NAME or ${NAME} at the dollar sign and moves past it; returns its value, or NULL if it is not set. */
static const char *take_variable(struct reader *r)
{
    bool braced = r->next + 1 < r->end && r->next[1] == '{';
    const char *first = r->next + 1 + braced, *last = first;
    int64_t place;
    while (last < r->end && in_name(*last))
        last++;
    const char *name = arena_copy_bytes(r->scratch, first, (size_t)(last - first));
    if (last == first || (braced && (last >= r->end || *last != '}')) ||
        !map_get(r->names, name, &place))
        return NULL;
    r->next = last + braced;
    r->expanded += strlen(r->values.data[place]);
    return r->expanded <= MOST_EXPANDED ? r->values.data[place] : ""; /* I2 */
}

/* Within quotes a value stays one word, with its blanks. An unknown variable stays as it is written. */
static void put_variable(struct reader *r, struct buffer *b)
{
    const char *value = take_variable(r);
    if (value)
        put_text(r, b, value);
    else
        array_push(r->scratch, b, *r->next++);
}

static void take_quoted(struct reader *r, struct buffer *b, char quote)
{
    r->next++;
    while (r->next < r->end && *r->next != quote) {
        if (*r->next == '\n')
            r->line++;
        if (quote == '"' && *r->next == '$') {
            put_variable(r, b);
            continue;
        }
        if (quote == '"' && *r->next == '\\' && r->next + 1 < r->end)
            r->next++;
        array_push(r->scratch, b, *r->next++);
    }
    if (r->next < r->end)
        r->next++;
}

static void take_comment(struct reader *r)
{
    static const char SETTINGS[] = "# weft: ", MODEL[] = "# weft-model:";
    const char *last = memchr(r->next, '\n', (size_t)(r->end - r->next));
    last = last ? last : r->end;
    const char *text = arena_copy_bytes(r->scratch, r->next, (size_t)(last - r->next));
    if (strncmp(text, SETTINGS, sizeof SETTINGS - 1) == 0) /* I3 */
        array_push(r->scratch, &r->out->settings, text + sizeof SETTINGS - 1);
    if (strncmp(text, MODEL, sizeof MODEL - 1) == 0)
        r->out->model = text + sizeof MODEL - 1;
    r->next = last;
}

static bool ends_word(char c)
{
    return isspace((unsigned char)c) || c == '(' || c == ')' || c == ';' || c == '&' || c == '|';
}

static bool sets_variable(struct reader *r, const char *text)
{
    size_t name = 0;
    while (in_name(text[name]))
        name++;
    if (!name || isdigit((unsigned char)*text) || text[name] != '=')
        return false;
    map_put(r->names, arena_copy_bytes(r->scratch, text, name), (int64_t)r->values.len);
    array_push(r->scratch, &r->values, text + name + 1);
    return true;
}

static void end_word(struct reader *r, struct buffer *b, struct typed_word *word)
{
    array_push(r->scratch, b, '\0');
    word->text = b->data;
    if ((b->len > 1 || word->quoted) && !sets_variable(r, b->data))
        array_push(r->scratch, &r->words, *word);
    *b = (struct buffer){0};
    word->quoted = false;
}

/* Outside of quotes, blanks in a value separate words: ARGS="--num-layers 24 --bf16". */
static void split_variable(struct reader *r, struct buffer *b, struct typed_word *word)
{
    const char *value = take_variable(r);
    if (!value)
        array_push(r->scratch, b, *r->next++);
    for (; value && *value; value++) {
        if (isspace((unsigned char)*value))
            end_word(r, b, word);
        else
            array_push(r->scratch, b, *value);
    }
}

static void take_escaped(struct reader *r, struct buffer *b)
{
    if (r->next[1] == '\n')
        r->line++;
    else
        array_push(r->scratch, b, r->next[1]);
    r->next += 2;
}

static void take_word(struct reader *r)
{
    struct buffer b = {0};
    struct typed_word word = {.line = r->line};
    while (r->next < r->end && !ends_word(*r->next)) {
        if (*r->next == '\'' || *r->next == '"') {
            word.quoted = true;
            take_quoted(r, &b, *r->next);
        } else if (*r->next == '$') {
            split_variable(r, &b, &word);
        } else if (*r->next == '\\' && r->next + 1 < r->end) {
            take_escaped(r, &b);
        } else {
            array_push(r->scratch, &b, *r->next++);
        }
    }
    end_word(r, &b, &word);
}

static void split_words(struct reader *r)
{
    while (r->next < r->end) {
        if (*r->next == '#')
            take_comment(r);
        else if (ends_word(*r->next))
            r->line += *r->next++ == '\n';
        else
            take_word(r);
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool is_name(const struct typed_word *word)
{
    return strncmp(word->text, "--", 2) == 0 && in_name(word->text[2]);
}

static weft_status unknown(const struct reader *r, const char *name, int line)
{
    const char *near = any_flag_near(name);
    weft_status status =
        bad_input(r->file, line, NULL, "Megatron-LM has no argument --%.60s", name);
    if (near)
        error_hint("did you mean --%s?", near);
    else
        error_hint("leave it out: it says nothing about the plan");
    return status;
}

static weft_status check_value(const struct reader *r, const char *name, enum flag_type type,
                               const char *value, int line)
{
    int64_t whole;
    double real;
    bool good =
        type == FLAG_INT ? parse_int(value, &whole) : type != FLAG_REAL || parse_real(value, &real);
    if (good)
        return WEFT_OK;
    if (strchr(value, '$'))
        return bad_input(r->file, line, "write the number: Weft does not run the script",
                         "--%s is '%.60s', a variable that is not set here", name, value);
    return bad_input(r->file, line, NULL, "--%s is '%.60s', expected %s", name, value,
                     type == FLAG_INT ? "a whole number" : "a number");
}

/* Takes the values that follow word `at`, and returns the place after them. */
static size_t take_values(struct reader *r, size_t at, bool many, struct argument *argument)
{
    const char *joined = NULL;
    while (at < r->words.len && !is_name(&r->words.data[at]) && (many || !joined)) {
        const char *text = r->words.data[at++].text;
        joined = joined ? arena_printf(r->scratch, "%s %s", joined, text) : text;
    }
    argument->value = joined;
    return at;
}

static weft_status take_argument(struct reader *r, size_t *at)
{
    const struct typed_word *word = &r->words.data[(*at)++];
    const char *equals = strchr(word->text, '=');
    size_t len = equals ? (size_t)(equals - word->text) : strlen(word->text);
    struct argument argument = {.name = arena_copy_bytes(r->scratch, word->text + 2, len - 2),
                                .value = "",
                                .line = word->line};
    enum flag_type type = any_flag(argument.name);
    if (launcher_flag(argument.name) && type == FLAG_UNKNOWN) {
        if (!equals && *at < r->words.len && !is_name(&r->words.data[*at]) &&
            !strstr(r->words.data[*at].text, ".py"))
            ++*at;
        return WEFT_OK;
    }
    if (type == FLAG_UNKNOWN) /* I1 */
        return unknown(r, argument.name, argument.line);
    if (equals)
        argument.value = equals + 1;
    else if (type != FLAG_SWITCH)
        *at = take_values(r, *at, type == FLAG_WORDS, &argument);
    if (!argument.value)
        return bad_input(r->file, argument.line, NULL, "--%s has no value", argument.name);
    array_push(r->scratch, &r->out->list, argument);
    return type == FLAG_SWITCH ? WEFT_OK
                               : check_value(r, argument.name, type, argument.value, argument.line);
}

static void take_other(struct reader *r, const char *text)
{
    size_t len = strlen(text);
    if (len > 3 && strcmp(text + len - 3, ".py") == 0)
        r->out->script = text;
}

/* The first letter that is no space and stands in no comment; 0: there is none. */
static char first_letter(const struct import_input *input)
{
    bool comment = false;
    for (size_t at = 0; at < input->len; at++) {
        char letter = input->text[at];
        comment = letter == '#' || (comment && letter != '\n');
        if (!comment && !strchr(" \t\r\n", letter))
            return letter;
    }
    return 0;
}

static bool is_json(const struct import_input *input)
{
    return first_letter(input) == '{';
}

static bool is_toml(const struct import_input *input)
{
    return first_letter(input) == '[';
}

weft_status arguments_read(struct arena *scratch, const struct import_input *input,
                           struct arguments *out)
{
    *out = (struct arguments){.file = input->file, .script = ""};
    struct reader r = {.scratch = scratch,
                       .file = input->file,
                       .next = input->text,
                       .end = input->text + input->len,
                       .line = 1,
                       .names = map_new(scratch),
                       .out = out};
    weft_status status = WEFT_OK;
    split_words(&r);
    if (r.expanded > MOST_EXPANDED)
        TRY(bad_input(input->file, 0, "write the arguments without variables",
                      "its variables stand for more than %d bytes", MOST_EXPANDED));
    for (size_t at = 0; at < r.words.len;) {
        if (is_name(&r.words.data[at]))
            TRY(take_argument(&r, &at));
        else
            take_other(&r, r.words.data[at++].text);
    }
    if (!out->list.len)
        TRY(bad_input(input->file, 0,
                      is_json(input)   ? "it is JSON: is it --from deepspeed, galvatron or aceso?"
                      : is_toml(input) ? "it is TOML: is it --from torchtitan?"
                                       : "give those after pretrain_gpt.py",
                      "holds no arguments of Megatron-LM"));
done:
    return status;
}

/* ---- asking for one -------------------------------------------------------------------------- */

/* If an argument is given twice the last one counts, as in argparse. */
const struct argument *argument_find(const struct arguments *arguments, const char *name)
{
    for (size_t i = arguments->list.len; i-- > 0;)
        if (strcmp(arguments->list.data[i].name, name) == 0) {
            arguments->list.data[i].asked = true;
            return &arguments->list.data[i];
        }
    return NULL;
}

/* Of what `weft export` writes: the optimizer's numbers, what is told while it runs, types that only a score has, and
 * what follows from other arguments. */
const char *argument_unread(const struct arguments *arguments)
{
    static const char *const SILENT[] = {"lr",
                                         "min-lr",
                                         "lr-decay-style",
                                         "weight-decay",
                                         "adam-beta2",
                                         "eval-interval",
                                         "eval-iters",
                                         "log-interval",
                                         "log-throughput",
                                         "attention-dropout",
                                         "moe-router-dtype",
                                         "moe-grouped-gemm",
                                         "moe-pad-expert-input-to-capacity",
                                         "moe-enable-deepep",
                                         "activation-func-clamp-value",
                                         "glu-linear-offset",
                                         "no-gradient-accumulation-fusion",
                                         "ckpt-format",
                                         "exp-avg-sq-dtype",
                                         "is-hybrid-model",
                                         "dsa-indexer-loss-coeff",
                                         "dsa-kernel-backend",
                                         "no-rope-fusion",
                                         "fp4-recipe"};
    for (size_t i = 0; i < arguments->list.len; i++) {
        const struct argument *argument = &arguments->list.data[i];
        bool silent = argument->asked;
        for (size_t k = 0; k < COUNT_OF(SILENT) && !silent; k++)
            silent = strcmp(SILENT[k], argument->name) == 0;
        if (!silent)
            return argument->name;
    }
    return NULL;
}

bool argument_given(const struct arguments *arguments, const char *name)
{
    return argument_find(arguments, name) != NULL;
}

int64_t argument_int(const struct arguments *arguments, const char *name, int64_t usual)
{
    const struct argument *argument = argument_find(arguments, name);
    int64_t value = usual;
    if (argument)
        parse_int(argument->value, &value);
    return value;
}

const char *argument_word(const struct arguments *arguments, const char *name, const char *usual)
{
    const struct argument *argument = argument_find(arguments, name);
    return argument ? argument->value : usual;
}

weft_status argument_error(const struct arguments *arguments, const char *name, const char *hint,
                           const char *fmt, ...)
{
    char text[400];
    const struct argument *argument = argument_find(arguments, name);
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    return bad_input(arguments->file, argument ? argument->line : 0, hint, "%s", text);
}

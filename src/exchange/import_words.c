/* import_words.c - finds the arguments of Megatron-LM in a shell script or command line (shell_words.c).
 *
 *   I1  Every argument is one of Megatron's (target/flags.c) or of its launcher, and its value has the
 *       argument's type.
 *   I2  The arguments are those of one command, the launch. Other commands with arguments of Megatron have the same ones,
 *       or only print them. Where no command has any, those of the arrays count.
 *   I3  A comment `# weft: settings` holds settings for which Megatron has no arguments (exchange.h, I2).
 *   I4  A value that the script does not say, because it stands under a condition, is an error where it counts.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "exchange/shell.h"

struct reader {
    struct arena *scratch;
    const char *file;
    const struct shell_command *command; /* whose words are read */
    struct arguments *out;
};

static void take_comment(struct reader *r, const char *text)
{
    static const char SETTINGS[] = "# weft: ", MODEL[] = "# weft-model:";
    if (strncmp(text, SETTINGS, sizeof SETTINGS - 1) == 0) /* I3 */
        array_push(r->scratch, &r->out->settings, text + sizeof SETTINGS - 1);
    if (strncmp(text, MODEL, sizeof MODEL - 1) == 0)
        r->out->model = text + sizeof MODEL - 1;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool is_name(const struct shell_word *word)
{
    return strncmp(word->text, "--", 2) == 0 &&
           (isalnum((unsigned char)word->text[2]) || word->text[2] == '_');
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

/* Why a value is not known, of those that no branch of the script says. */
static const char *const UNKNOWN[DOUBT_KIND_COUNT] = {
    [DOUBT_UNSET] = "a variable that is not set here",
    [DOUBT_ARGUMENT] = "an argument of the script, which is not given here",
    [DOUBT_OUTPUT] = "the output of a command",
    [DOUBT_FORM] = "an expansion that Weft does not read",
    [DOUBT_SUM] = "a computation that Weft does not read",
};

static weft_status doubtful(const char *file, const struct argument *argument)
{
    static const char *const WHY[DOUBT_KIND_COUNT] = {
        [DOUBT_CONDITION] = "which is set here under a condition",
        [DOUBT_LOOP] = "which has several values in a loop here",
    };
    const struct doubt *doubt = argument->doubt;
    enum flag_type type = any_flag(argument->name);
    if (!WHY[doubt->kind])
        return bad_input(
            file, argument->line,
            type == FLAG_INT || type == FLAG_REAL ? "write the number: Weft does not run the script"
                                                  : "write the value: Weft does not run the script",
            "--%s is '%.60s', %s", argument->name, argument->value, UNKNOWN[doubt->kind]);
    weft_status status = bad_input(file, doubt->line, NULL, "--%s depends on %s, %s",
                                   argument->name, doubt->name, WHY[doubt->kind]);
    error_hint("leave one value of %s in the script: Weft does not run it", doubt->name);
    return status;
}

weft_status arguments_doubt(const struct arguments *arguments)
{
    for (size_t i = 0; i < arguments->list.len; i++) /* I4 */
        if (arguments->list.data[i].asked && arguments->list.data[i].doubt)
            return doubtful(arguments->file, &arguments->list.data[i]);
    return WEFT_OK;
}

static weft_status check_value(const struct reader *r, const struct argument *argument,
                               enum flag_type type)
{
    const char *name = argument->name, *value = argument->value;
    int line = argument->line;
    int64_t whole;
    double real;
    bool good =
        type == FLAG_INT ? parse_int(value, &whole) : type != FLAG_REAL || parse_real(value, &real);
    if (good)
        return WEFT_OK;
    if (argument->doubt)
        return UNKNOWN[argument->doubt->kind] ? doubtful(r->file, argument) : WEFT_OK;
    return bad_input(r->file, line, NULL, "--%s is '%.60s', expected %s", name, value,
                     type == FLAG_INT ? "a whole number" : "a number");
}

/* Takes the values that follow word `at`, and returns the place after them. */
static size_t take_values(struct reader *r, size_t at, bool many, struct argument *argument)
{
    const char *joined = NULL;
    while (at < r->command->words.len && !is_name(&r->command->words.data[at]) &&
           (many || !joined)) {
        const struct shell_word *word = &r->command->words.data[at++];
        joined = joined ? arena_printf(r->scratch, "%s %s", joined, word->text) : word->text;
        argument->doubt = argument->doubt ? argument->doubt : word->doubt;
    }
    argument->value = joined;
    return at;
}

static struct argument argument_at(struct reader *r, const struct shell_word *word)
{
    const char *equals = strchr(word->text, '=');
    size_t len = equals ? (size_t)(equals - word->text) : strlen(word->text);
    return (struct argument){.name = arena_copy_bytes(r->scratch, word->text + 2, len - 2),
                             .value = equals ? equals + 1 : "",
                             .line = word->line,
                             .doubt = word->doubt};
}

static weft_status take_argument(struct reader *r, size_t *at)
{
    const struct shell_word *words = r->command->words.data, *word = &words[(*at)++];
    bool equals = strchr(word->text, '=') != NULL;
    struct argument argument = argument_at(r, word);
    enum flag_type type = any_flag(argument.name);
    if (launcher_flag(argument.name) && type == FLAG_UNKNOWN) {
        if (!equals && *at < r->command->words.len && !is_name(&words[*at]) &&
            !strstr(words[*at].text, ".py"))
            ++*at;
        return WEFT_OK;
    }
    if (type == FLAG_UNKNOWN) /* I1 */
        return unknown(r, argument.name, argument.line);
    if (!equals && type != FLAG_SWITCH)
        *at = take_values(r, *at, type == FLAG_WORDS, &argument);
    if (!argument.value)
        return bad_input(r->file, argument.line, NULL, "--%s has no value", argument.name);
    array_push(r->scratch, &r->out->list, argument);
    return type == FLAG_SWITCH ? WEFT_OK : check_value(r, &argument, type);
}

static bool is_program(const char *text)
{
    size_t len = strlen(text);
    return len > 3 && strcmp(text + len - 3, ".py") == 0;
}

static weft_status take_words(struct reader *r, const struct shell_command *command)
{
    r->command = command;
    for (size_t at = 0; at < command->words.len;) {
        if (!is_name(&command->words.data[at])) {
            const char *text = command->words.data[at++].text;
            r->out->script = is_program(text) ? text : r->out->script;
            continue;
        }
        weft_status status = take_argument(r, &at);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* ---- the launch ------------------------------------------------------------------------------ */

/* How much a command is like the launch. */
enum likeness { LIKE_OTHERS, HAS_NAMES, HAS_PROGRAM, HAS_ARGUMENTS };

static enum likeness likeness_of(struct reader *r, const struct shell_command *command)
{
    enum likeness likeness = LIKE_OTHERS;
    const char *first = command->words.len ? command->words.data->text : "";
    if (strcmp(first, "echo") == 0 || strcmp(first, "printf") == 0)
        return LIKE_OTHERS;
    for (size_t i = 0; i < command->words.len; i++) {
        const struct shell_word *word = &command->words.data[i];
        enum likeness own = is_program(word->text)                                ? HAS_PROGRAM
                            : !is_name(word)                                      ? LIKE_OTHERS
                            : any_flag(argument_at(r, word).name) == FLAG_UNKNOWN ? HAS_NAMES
                                                                                  : HAS_ARGUMENTS;
        likeness = own > likeness ? own : likeness;
    }
    return likeness;
}

/* Lines that begin with an argument belong to the command before: their backslash was forgotten, or there is no command. */
static void join_lines(struct reader *r, struct shell_script *script)
{
    size_t count = 0;
    for (size_t i = 0; i < script->commands.len; i++) {
        struct shell_command *command = &script->commands.data[i];
        struct shell_command *before = count ? &script->commands.data[count - 1] : NULL;
        bool begins = !before || !is_name(command->words.data) || !likeness_of(r, before);
        if (begins)
            script->commands.data[count++] = *command;
        for (size_t k = 0; k < command->words.len && !begins; k++)
            array_push(r->scratch, &before->words, command->words.data[k]);
    }
    script->commands.len = count;
}

static bool same_arguments(const struct arguments *a, const struct arguments *b)
{
    bool same = a->list.len == b->list.len;
    for (size_t i = 0; i < a->list.len && same; i++)
        same = strcmp(a->list.data[i].name, b->list.data[i].name) == 0 &&
               strcmp(a->list.data[i].value, b->list.data[i].value) == 0;
    return same;
}

/* Reads the arguments of a command, which have to be those of the launch before it, if there is one. */
static weft_status take_launch(struct reader *r, const struct shell_command *command,
                               const struct shell_command **launch)
{
    struct arguments own = {.file = r->file, .script = ""}, *all = r->out;
    weft_status status;
    if (!*launch) {
        *launch = command;
        return take_words(r, command);
    }
    r->out = &own;
    status = take_words(r, command);
    r->out = all;
    if (!status && !same_arguments(all, &own))
        status = bad_input(r->file, command->line, "leave one of the two in the script",
                           "it launches with other arguments than line %d does", (*launch)->line);
    return status;
}

static weft_status find_launch(struct reader *r, const struct shell_script *script)
{
    enum likeness most = likeness_of(r, &script->arrays), own = most;
    const struct shell_command *launch = NULL;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < script->commands.len; i++) {
        enum likeness likeness = likeness_of(r, &script->commands.data[i]);
        most = likeness > most ? likeness : most;
    }
    for (size_t i = 0; i < script->commands.len && most && !status; i++)
        if (likeness_of(r, &script->commands.data[i]) == most)
            status = take_launch(r, &script->commands.data[i], &launch);
    if (!launch && own == most) /* I2 */
        status = take_words(r, &script->arrays);
    return status;
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
    struct reader r = {.scratch = scratch, .file = input->file, .out = out};
    struct shell_script script;
    weft_status status;
    TRY(shell_read(scratch, input, &script));
    for (size_t i = 0; i < script.comments.len; i++)
        take_comment(&r, script.comments.data[i]);
    join_lines(&r, &script);
    TRY(find_launch(&r, &script));
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
                                         "init-model-with-meta-device",
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

/* cli.c - what all commands share: argument parsing, errors, JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

void cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    argp_err_exit_status = WEFT_BAD_INPUT;
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

weft_status cli_write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return bad_argument(NULL, "%s: cannot be written: %s", path, strerror(errno));
    int failed = fputs(text, file) < 0;
    failed |= fclose(file) != 0;
    return failed ? failure("%s: cannot be written: %s", path, strerror(errno)) : WEFT_OK;
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

json_t *json_whole(double value)
{
    return value < 0x1p53 ? json_integer((json_int_t)value) : json_real(value);
}

json_t *json_text(const char *text)
{
    json_t *json = json_string(text);
    if (json)
        return json;
    size_t len = strlen(text);
    char *ascii = strdup(text);
    for (size_t i = 0; ascii && i < len; i++)
        if ((unsigned char)ascii[i] >= 0x80)
            ascii[i] = '?';
    json = json_string(ascii ? ascii : "?");
    free(ascii);
    return json;
}

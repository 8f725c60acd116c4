/* cli.c - what all commands share: argument parsing, errors, JSON. */
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
        argp_error(state, "--format is '%s', expected html, md, text or json", arg);
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

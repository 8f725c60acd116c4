/* program.h - asks the program as a process. */
#ifndef WEFT_TESTS_PROGRAM_H
#define WEFT_TESTS_PROGRAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/base.h"

/* What a shell command writes to standard output; `code` is its exit code. The caller frees. */
static char *output_of(const char *command, int *code)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = 0, cap = 1 << 20;
    char *text = calloc(cap, 1);
    for (size_t got; (got = fread(text + len, 1, cap - len - 1, pipe)) > 0;) {
        len += got;
        assert_true(len < cap - 1);
    }
    *code = WEXITSTATUS(pclose(pipe));
    return text;
}

/* Standard output of the program alone. */
static char *ask(const char *arguments, int *code)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s 2>/dev/null", WEFT_PROGRAM, arguments);
    return output_of(command, code);
}

static char *answer_to(const char *arguments)
{
    int code;
    char *text = ask(arguments, &code);
    if (code != WEFT_OK)
        fail_msg("weft %s: exit code %d", arguments, code);
    return text;
}

static inline json_t *json_of(const char *arguments)
{
    char *text = answer_to(arguments);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

#endif

/* page_width.h - text for people fits the page. */
#ifndef WEFT_TESTS_PAGE_WIDTH_H
#define WEFT_TESTS_PAGE_WIDTH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/report.h"

/* How many lines are not empty; fails at one that is wider than REPORT_COLUMNS. */
static int lines_within_page(const char *text)
{
    struct arena *scratch = arena_new();
    int lines = 0;
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        const char *line = arena_copy_bytes(scratch, text, len);
        if (text_columns(line) > REPORT_COLUMNS)
            fail_msg("too wide: %s", line);
        lines += len > 0;
    }
    arena_free(scratch);
    return lines;
}

#endif

/* page.h - a prediction and the search that led to it, as one file: HTML that loads nothing else,
 * Markdown, plain text or JSON; or the timeline alone as a picture (SVG). */
#ifndef WEFT_REPORT_PAGE_H
#define WEFT_REPORT_PAGE_H

#include "search/search.h"

enum page_format { PAGE_HTML, PAGE_MARKDOWN, PAGE_TEXT, PAGE_JSON, PAGE_SVG, PAGE_FORMAT_COUNT };
/* Finds a format by its name, or by the ending of a file's name; false if there is no such format. */
bool page_format_find(const char *name, enum page_format *out);

struct page {
    enum page_format format;
    const struct prediction *prediction; /* simulated with `points`, for memory over time */
    const struct planned *planned;       /* NULL if nothing was searched */
    const char *plan_text;               /* the text of the plan's file */
    int64_t top;                         /* how many alternatives to show */
};
weft_status page_write(const struct page *page, const char *path);

#endif

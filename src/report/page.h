/* page.h - a prediction, and the search that led to it, as one file to read: HTML that needs nothing
 * from elsewhere, Markdown, plain text or JSON; or its timeline as a picture (SVG). */
#ifndef WEFT_REPORT_PAGE_H
#define WEFT_REPORT_PAGE_H

#include "search/search.h"

enum page_format { PAGE_HTML, PAGE_MARKDOWN, PAGE_TEXT, PAGE_JSON, PAGE_SVG, PAGE_FORMAT_COUNT };
/* By name, or by how a file's name ends; false: neither says. */
bool page_format_find(const char *name, enum page_format *out);

struct page {
    enum page_format format;
    const struct prediction *prediction; /* with points: memory over time */
    const struct planned *planned;       /* NULL: nothing was searched */
    const char *plan_text;               /* the plan as its file */
    int64_t top;                         /* alternatives to show */
};
weft_status page_write(const struct page *page, const char *path);

#endif

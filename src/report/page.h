/* page.h - a prediction and the search that led to it, as one file: HTML that loads nothing else,
 * Markdown, plain text or JSON; or the timeline alone as a picture (SVG). */
#ifndef WEFT_REPORT_PAGE_H
#define WEFT_REPORT_PAGE_H

#include <jansson.h>

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
/* The timeline of a page as JSON, with at most so many bars: what every stage does at what time (page_timeline.c). */
enum { PAGE_BARS = 24000 };
json_t *timeline_json(struct arena *scratch, const struct prediction *prediction, size_t most_bars);
weft_status page_write(const struct page *page, const char *path);

#endif

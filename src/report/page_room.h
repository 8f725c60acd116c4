/* page_room.h - the parts of a page. Private to the room. */
#ifndef WEFT_REPORT_PAGE_ROOM_H
#define WEFT_REPORT_PAGE_ROOM_H

#include <stdio.h>

#include <jansson.h>

#include "report/page.h"

/* page_timeline.c: what every stage does at what time, as bars. Of more than PAGE_STAGES stages, only the first and
 * the last ones. */
enum { PAGE_STAGES = 64 };
bool stage_shown(const struct prediction *prediction, int32_t stage, int32_t most);

struct timeline_bar {
    int64_t start_ns, end_ns;
    int32_t stage, label;
    uint8_t stream, purpose;
};
struct timeline {
    ARRAY(struct timeline_bar) bars; /* those of one stage and stream are in the order of time */
    ARRAY(const char *) labels;
    bool communication; /* false if it is left out because there would be too many bars */
    bool whole; /* a task is one bar, of the purpose that takes longest, for the same reason */
    int64_t shortest_ns; /* shorter bars are left out, too */
};
/* The order in which the purposes of one task are drawn, one after the other. */
extern const enum purpose BAR_ORDER[PURPOSE_COUNT];
/* In words, such as "between stages". */
const char *purpose_words(enum purpose purpose);
struct timeline *timeline_of(struct arena *keep, const struct prediction *prediction,
                             size_t most_bars);

/* page_svg.c: the timeline as a picture. */
void put_svg(struct arena *scratch, const struct page *page, FILE *file);

/* page_data.c */
json_t *moments_json(const struct prediction *prediction);
json_t *links_json(struct arena *scratch, const struct prediction *prediction);

/* page.html, made part of the program when it is built; NUL-terminated. */
extern const char PAGE_TEMPLATE[];

#endif

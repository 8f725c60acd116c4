/* page_room.h - the parts of a page. Private to the room. */
#ifndef WEFT_REPORT_PAGE_ROOM_H
#define WEFT_REPORT_PAGE_ROOM_H

#include <jansson.h>

#include "sim/sim.h"

/* page_data.c */
json_t *timeline_json(struct arena *scratch, const struct prediction *prediction);
json_t *moments_json(const struct prediction *prediction);
json_t *links_json(struct arena *scratch, const struct prediction *prediction);

/* page.html, made part of the program when it is built; NUL-terminated. */
extern const char PAGE_TEMPLATE[];

#endif

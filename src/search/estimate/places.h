/* places.h - inside tables: which places between instances are alike (tables.h, I1).
 *
 * A tensor is open at a place when its producer comes before the place and one of its readers after
 * it. Two places are of one kind when the operators next to them are the same, and the tensors open
 * there connect the same operators.
 */
#ifndef WEFT_SEARCH_ESTIMATE_PLACES_H
#define WEFT_SEARCH_ESTIMATE_PLACES_H

#include "compile/compile.h"

struct places {
    /* Per instance: the kind of the place before it; that of the first is not read. */
    int64_t *kind_of;
    int64_t *stand_in; /* per kind: the middle one of its places */
    int64_t kinds;
};
struct places places_of_model(struct arena *keep, const struct outline *outline);

#endif

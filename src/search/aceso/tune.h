/* tune.h - inside aceso: changes made operator by operator, one at a time. */
#ifndef WEFT_SEARCH_ACESO_TUNE_H
#define WEFT_SEARCH_ACESO_TUNE_H

#include "search/aceso/room.h"

struct tuning {
    struct judge *judge;
    struct search_result *out; /* every config that is considered is noted there */
    struct config *config;
    struct verdict verdict;
    bool changed;
};
/* Takes a config over if it is better; recomputation of the stages whose bit is set is chosen
 * again. */
weft_status tune_consider(struct tuning *t, struct config *c, uint64_t stages);

/* Moves every cut into every other part. Most worse configs are not judged, but are counted all the
 * same. */
weft_status tune_leaps(struct tuning *t);

/* Cuts that even out stages: balance.c. */
weft_status tune_balance(struct tuning *t);

/* Manners inside parts: paint.c. */
weft_status tune_alike(struct tuning *t);
weft_status tune_zones(struct tuning *t);
weft_status tune_changes(struct tuning *t);
weft_status tune_variants(struct tuning *t);

#endif

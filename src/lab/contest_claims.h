/* contest_claims.h - what a found plan is made of. Inside this room only. */
#ifndef WEFT_LAB_CONTEST_CLAIMS_H
#define WEFT_LAB_CONTEST_CLAIMS_H

#include "lab/aceso_contest.h"

/* What a plan may have; NULL: none of that name. */
struct plan_trait;
const struct plan_trait *plan_trait_find(const char *name);

/* Fills in the stages of the search's plan. */
void contest_describe(struct arena *keep, const struct plan *plan, struct contest *contest);

#endif

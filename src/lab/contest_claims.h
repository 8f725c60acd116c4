/* contest_claims.h - properties of a plan that was found. Inside this room only. */
#ifndef WEFT_LAB_CONTEST_CLAIMS_H
#define WEFT_LAB_CONTEST_CLAIMS_H

#include "lab/aceso_contest.h"

/* A property that a plan may have; NULL if there is none of that name. */
struct plan_trait;
const struct plan_trait *plan_trait_find(const char *name);

/* Fills in the stages of the plan that the search found. */
void contest_describe(struct arena *keep, const struct plan *plan, struct contest *contest);

#endif

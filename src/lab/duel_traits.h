/* duel_traits.h - what a found plan is made of. Inside this room only. */
#ifndef WEFT_LAB_DUEL_TRAITS_H
#define WEFT_LAB_DUEL_TRAITS_H

#include "lab/duel.h"

/* Fills in the stages of the search's plan. */
void duel_describe(struct arena *keep, const struct plan *plan, struct duel *duel);

#endif

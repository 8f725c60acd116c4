/* matrices.h - matrices that Muon updates; private to the room. */
#ifndef WEFT_RUN_RANK_MATRICES_H
#define WEFT_RUN_RANK_MATRICES_H

#include "run/rank/stretch.h"

/* One weight, of whose elements here the step has this member's. */
void update_matrix(struct rank *r, const struct held_weight *held, struct optimizer_step *step);
weft_status make_stage_group(struct rank *r); /* over which parts are added up */

#endif

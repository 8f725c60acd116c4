/* saving.h - the state of a rank to a checkpoint and back; private to the room. */
#ifndef WEFT_RUN_TRAIN_SAVING_H
#define WEFT_RUN_TRAIN_SAVING_H

#include "run/rank/rank.h"

/* All ranks call; whole or not at all, and the error of one is that of all. Names the folder in `keep`
 * on rank 0. */
weft_status save_state(struct rank *rank, const struct rank_agreement *agreement,
                       const struct checkpoint_place *place, const struct training_state *state,
                       struct arena *keep, const char **out);
/* Weights alone, out of a folder of transformers (public_weights.h). */
weft_status load_public(struct rank *rank, const struct model *model, const char *folder);
/* The last checkpoint as such a folder. */
weft_status save_public(const struct model *model, const struct checkpoint_place *place,
                        const char *saved, const char *folder);
/* Weights and moments of rank `number`, before its first step, and where the plan is the same its history of casts. */
weft_status load_state(struct rank *rank, int32_t number, bool same_plan,
                       struct checkpoint *checkpoint);

#endif

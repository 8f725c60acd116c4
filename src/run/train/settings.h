/* settings.h - what a run is made with, beside its plan and its seed: what a run that goes on from a
 * checkpoint has to repeat. Part of train.h.
 *
 *   I1  A setting decides what a run learns. One that is not as it was makes another run, and is refused
 *       unless changes of its kind are allowed; then it is said.
 *   I2  What is no setting may change between two parts of a run: the plan, which changes where numbers
 *       are and not what they are (that it did is said), how often something is saved or measured, how
 *       many steps there are where the rate does not depend on it, and the names of files.
 */
#ifndef WEFT_RUN_TRAIN_SETTINGS_H
#define WEFT_RUN_TRAIN_SETTINGS_H

#include "run/rank/rank.h"

/* Kinds of settings: what `--allow-change` names. */
enum change { CHANGE_DATA, CHANGE_BATCH, CHANGE_OPTIMIZER, CHANGE_RATE, CHANGE_COUNT };
extern const char *const CHANGE_NAMES[CHANGE_COUNT];

struct training_options;
struct corpus;
/* All settings of a run, in `keep`. */
void settings_of(struct arena *keep, const struct training_options *options, struct corpus *corpus,
                 struct training_state *out);
/* Holds the settings of a run, `now`, against those of the checkpoint in `folder` that it goes on from
 * (I1). `allowed` has a bit for each kind of change. The words for what changed, in `keep`: "" for
 * nothing. */
weft_status settings_check(struct arena *keep, const char *folder,
                           const struct training_state *before, const struct training_state *now,
                           unsigned allowed, const char **changed);

#endif

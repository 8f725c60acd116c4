/* pipeline_layout.h - the layers of each part, in words (pipeline_layout.c); part of plan.h. */
#ifndef WEFT_PLAN_PIPELINE_LAYOUT_H
#define WEFT_PLAN_PIPELINE_LAYOUT_H

#include "plan/plan.h"

struct pipeline_layout {
    int64_t parts, layers; /* layers of all parts, without those that predict more tokens */
    int64_t *part_layers;
    const char *hint; /* where it is wrong: a layout that is right */
};
/* Reads "Et*3|(t*4|)*30,t*3L". Returns NULL, or what is wrong with it. */
const char *pipeline_layout_read(struct arena *keep, const char *text, struct pipeline_layout *out);
/* The other way round, with so many layers that predict more tokens in the part of the loss. */
const char *pipeline_layout_text(struct arena *keep, int64_t parts, const int64_t *part_layers,
                                 int64_t depths);
/* Where to cut so that each part has the given number of layers: with a_0 instances before the first layer and layer k ending
 * at e_k, the cut after n layers is at e_(n-1), that before the first at a_0. False if a part would be empty. */
bool cuts_after_layers(struct arena *keep, const struct plan *plan, int64_t parts,
                       const int64_t *part_layers, int64_t **cut);
/* Letters that a text with repetitions stands for. Repeats those from `first` on as often as a star at `at` says, and goes
 * past its number; false: there is none, or they become too many. */
struct letters {
    char *data;
    size_t len, cap;
};
bool letters_repeat(struct arena *scratch, struct letters *letters, size_t first, const char **at);

#endif

/* layer_walk.h - inside galvatron: where the layers begin in the sequence of a model's instances.
 *
 *   I1  A layer ends where a copy of an indexed module ends. The operators around layers are cut
 *       where they meet layers, and each piece counts as a layer marked `around`.
 *   I2  In a model without layers every operator is one.
 */
#ifndef WEFT_SEARCH_GALVATRON_LAYER_WALK_H
#define WEFT_SEARCH_GALVATRON_LAYER_WALK_H

#include "plan/plan.h"

struct layer_walk {
    int32_t layers;
    int64_t *first; /* per layer, and one past the last: instances */
    int32_t *kind;  /* per layer, to be filled in */
    bool *around;   /* per layer: it is not really a layer (I1) */
};
struct layer_walk walk_layers(struct arena *keep, const struct plan *plan);
/* A hash of a layer's operators: layers with equal hashes are taken to be equal. */
uint64_t layer_hash(const struct plan *plan, const struct layer_walk *walk, int32_t layer);
int32_t count_kind(const struct layer_walk *walk, int32_t kind);

#endif

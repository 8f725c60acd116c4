/* optimizers.h - bytes of an optimizer's step; private to the room. */
#ifndef WEFT_COST_OPTIMIZERS_H
#define WEFT_COST_OPTIMIZERS_H

#include "cost/cost.h"

/* Bytes per parameter beyond those of a fused Adam, which may be negative. */
struct step_bytes {
    double read, write;
};
struct step_bytes optimizer_step_bytes(enum update_rule optimizer, int step);

#endif

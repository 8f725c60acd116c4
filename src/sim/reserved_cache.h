/* reserved_cache.h - what replays of stages reserved, kept for the next simulations that have the same stage.
 *
 *   I1  An entry is found by a hash of everything that its replay asks for (reserved.c, I6), so it is the answer of
 *       the replay that it stands for, whichever thread made it.
 */
#ifndef WEFT_SIM_RESERVED_CACHE_H
#define WEFT_SIM_RESERVED_CACHE_H

#include "sim/sim.h"

int64_t reserved_known(struct reserved_cache *cache, uint64_t key); /* bytes; -1: not known */
void reserved_keep(struct reserved_cache *cache, uint64_t key, int64_t bytes);

#endif

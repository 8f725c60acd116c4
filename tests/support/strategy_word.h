/* strategy_word.h - a number for a strategy of a layer: unlike ones have unlike numbers, which dice are seeded with. */
#ifndef WEFT_TESTS_STRATEGY_WORD_H
#define WEFT_TESTS_STRATEGY_WORD_H

#include "search/galvatron/space.h"

static inline int64_t strategy_word(const struct strategy *s)
{
    int64_t word = s->shard * 4 + s->recompute * 2 + s->sequence;
    for (int32_t i = 0; i < s->levels; i++)
        word = word * 64 + (int64_t)s->level[i].way * 8 + s->level[i].degree;
    return word;
}

#endif

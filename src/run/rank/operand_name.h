/* operand_name.h - what errors of a run call an operand. */
#ifndef WEFT_RUN_RANK_OPERAND_NAME_H
#define WEFT_RUN_RANK_OPERAND_NAME_H

#include "run/rank/room.h"

/* "input 0 of layers.7.attn.qkv". */
struct operand_name {
    char s[160];
};
struct operand_name operand_name(const struct rank *r, int64_t instance, int32_t operand);

#endif

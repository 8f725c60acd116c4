/* vocabulary_room.h - a vocabulary, for those who fill it (vocabulary.c) and encode (encode.c). */
#ifndef WEFT_RUN_DATA_VOCABULARY_ROOM_H
#define WEFT_RUN_DATA_VOCABULARY_ROOM_H

#include "base/base.h"

struct merge {
    int32_t rank; /* its line among the merges */
    int32_t token;
};

struct vocabulary {
    struct arena *arena;
    int64_t size;
    bool *taken; /* by number: whether it is a token's; not every number need be */
    struct map *number_of;
    int32_t byte_token[256];
    struct hash_map merges; /* by pairs of tokens: rank << 32 | token (encode.c) */
};

bool merges_put(struct vocabulary *vocabulary, int32_t left, int32_t right, struct merge merge);

#endif

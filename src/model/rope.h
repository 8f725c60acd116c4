/* rope.h - how rotary positions are stretched, so that more are reached than a model has learned (transformers,
 * modeling_rope_utils.py). Only what is exported and trained has them: they take no time and no byte.
 *
 *   llama3          pairs that turn less than ROPE_FAST times in ROPE_LEARNED positions turn slower (kernels/cpu/rotary.c)
 *   linear          all pairs turn slower by the factor
 *   yarn            pairs turn slower from the one that turns YARN_FAST times in `learned` positions on, and by the factor
 *                   from the one that turns once; both are rounded to whole pairs (Peng et al., 2023)
 *   yarn-unrounded  the same, not rounded (gpt-oss)
 */
#ifndef WEFT_MODEL_ROPE_H
#define WEFT_MODEL_ROPE_H

#include <stdint.h>

enum { ROPE_BASE = 10000, ROPE_LEARNED = 8192, ROPE_FAST = 4 }; /* kernels/cpu/rotary.c */
enum { YARN_LEARNED = 4096, YARN_FAST = 32 };                   /* Llama 2's and DeepSeek's */

enum rope_kind { ROPE_LLAMA3, ROPE_LINEAR, ROPE_YARN, ROPE_YARN_UNROUNDED, ROPE_KIND_COUNT };
extern const char *const ROPE_WORDS[]; /* NULL-terminated */

struct rope_stretch {
    int kind;        /* enum rope_kind */
    int64_t learned; /* of yarn */
    /* of yarn: scores grow by (0.1 mscale ln factor + 1)^2 (DeepSeek); 0: what is turned grows by 0.1 ln factor + 1 */
    double mscale;
};

#endif

/* hf.h - the meaning of a Hugging Face config.json, by architecture; private to the room.
 *
 * One table per model_type maps its keys to options of a family; a key that the config leaves out
 * has the default of transformers' config class. A key without a row is mentioned in a warning,
 * unless it is known to say nothing about work or memory (hf_silent.c).
 */
#ifndef WEFT_MODEL_HF_H
#define WEFT_MODEL_HF_H

#include "base/base.h"

enum hf_rule {
    RULE_COUNT,    /* a whole number, at least 1 */
    RULE_NUMBER,   /* a whole number, at least 0 */
    RULE_SHARE,    /* a number: a probability, a weight */
    RULE_BOOL,     /* true or false */
    RULE_LIST,     /* a list, unchanged */
    RULE_FIRST,    /* the first number of a list in which each is twice the one before */
    RULE_WORD,     /* a word that the family knows under the same name */
    RULE_FIXED,    /* always the default: a property of the architecture */
    RULE_SEQ,      /* a sequence length, limited to that of a training sample (import_hf.c, I2) */
    RULE_PLUS_TWO, /* OPT's table of positions has two more rows than positions */
    RULE_CLASSES,  /* the number of labels */
    RULE_DTYPE,    /* torch's word for an element type */
    RULE_ACT,      /* an activation function */
    RULE_POOLER,   /* whether the architecture has BERT's pooler */
    RULE_OLDER, /* a whole number, unless the option is already set: an older name, or a default */
    RULE_PATTERN, /* Nemotron-H's letters, or the names of layers that they stand for */
    RULE_WINDOW,  /* the keys of a sliding window, unless it is null or no layer has one */
    /* every how many layers with a window one sees all keys: a list of types, or a number */
    RULE_FULL,
    RULE_WINDOWED, /* always the default where there is a window */
    RULE_LISTED,   /* every how many layers one is in a list of their numbers, from 0 */
    RULE_TURN,     /* every how many layers one is full attention: layer_types, or a number */
    RULE_TURNED, /* every how many layers one has no rotary positions: no_rope_layers, or a number */
    RULE_DENSE, /* how many layers are dense before those with experts: mlp_layer_types, or a number */
    RULE_COMPRESS, /* how many tokens a compressed key stands for: a list, two numbers in turn after zeros */
    RULE_LOCAL,   /* the base of rotary positions in layers with a window */
    RULE_ROTATED, /* how many of a head's numbers are rotated: a share of them */
    RULE_STRETCH, /* a mapping: the factor of Llama 3.1's positions; a warning if they are stretched otherwise */
    RULE_NORMED, /* whether the weights of the chosen experts add up to one */
    RULE_PIXELS, /* the side of a window in pixels, as patches of the window */
    RULE_EVERY,  /* a list of the layers k - 1, 2 k - 1, ...: every k-th */
    RULE_SIDE, /* the side of a square of so many tokens: what of the patches' side goes into one */
    RULE_SHRINK,  /* a share of the patches' side that is left after merging: its inverse */
    RULE_MERGED,  /* the features of so many patches, along a side, side by side */
    RULE_TABLE,   /* a square of so many patches: the side of an image that it covers */
    RULE_AFTER,   /* a list of layers, counted from 0, as numbers of layers after which they end */
    RULE_SHAPES,  /* a list: as many as it has, and one for an image that is not there */
    RULE_CROSS,   /* a list of layers, every so-many-th from one on: that one and the distance */
    RULE_SILENT,  /* not an option: other keys say the same, or nothing here depends on it */
    RULE_EXPECTED /* not an option: a warning if it is not the default */
};

struct hf_row {
    const char *key, *option;
    enum hf_rule rule;
    const char *otherwise; /* the default; NULL: the family's */
};

struct hf_architecture {
    const char *type, *family;
    const struct hf_row *rows;
    size_t count;
};
struct hf_rows {
    const struct hf_row *rows;
    size_t count;
};
/* The rows of an encoder's own mapping, and those of the mapping around it that say how it joins the text
 * (hf_vision.c); false: one of them is not known. */
bool hf_vision(const struct doc *root, const struct doc *vision, struct hf_rows *encoder,
               struct hf_rows *join);
/* hf_deepseek.c */
extern const struct hf_row DEEPSEEK_V2[33], DEEPSEEK_V3[37], DEEPSEEK_V32[40], DEEPSEEK_V4[43];
/* hf_decoders.c */
extern const struct hf_row SMOLLM3[21], OLMO2[19], GRANITE[21], GRANITE_MOE[23], GLM4_MOE[32],
    OLMO3[21], SEED_OSS[19], OLMOE[22], MINIMAX_M2[29];
size_t hf_architectures(const struct hf_architecture **out);
/* Whether a key without a row need not be mentioned. */
bool hf_is_silent(const char *key);

#endif

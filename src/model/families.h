/* families.h - the model families, and what their options share. Private to the room. */
#ifndef WEFT_MODEL_FAMILIES_H
#define WEFT_MODEL_FAMILIES_H

#include "model/builder.h"

/* Every family, in the order in which they are listed: one line each. */
#define FOR_EACH_FAMILY(DO)                                                                        \
    DO(GPT)                                                                                        \
    DO(LLAMA)                                                                                      \
    DO(MOE)                                                                                        \
    DO(HYBRID)                                                                                     \
    DO(BERT)                                                                                       \
    DO(T5)                                                                                         \
    DO(VIT)                                                                                        \
    DO(SWIN)                                                                                       \
    DO(RESNET)                                                                                     \
    DO(VGG)                                                                                        \
    DO(INCEPTION)                                                                                  \
    DO(ALEXNET)                                                                                    \
    DO(DLRM)
#define DECLARE_FAMILY(NAME) extern const struct family FAMILY_##NAME;
FOR_EACH_FAMILY(DECLARE_FAMILY)

/* Presets come in three tables, one file each. */
extern const struct preset TRANSFORMER_PRESETS[], VISION_PRESETS[], CNN_PRESETS[];
extern const size_t TRANSFORMER_PRESET_COUNT, VISION_PRESET_COUNT, CNN_PRESET_COUNT;

/* The place of an option in an error: its own line, or that of the whole mapping. */
const struct doc *option_at(const struct doc *where, const char *key);
/* Refuses a whole that the part does not divide: "'heads' is 7, which does not divide ...". */
weft_status option_divides(const struct doc *where, const char *key, int64_t part,
                           const char *whole_key, int64_t whole);

/* Bounds of options: no product of two or three of them comes near the limit of int64_t, and the
 * builder checks the products that make up a tensor. */
enum {
    MOST_LAYERS = 1000000,
    MOST_HIDDEN = 10000000,
    MOST_HEADS = 100000,
    MOST_DEPTH = 100000,
    MOST_SEQ = 100000000,
    MOST_VOCAB = 100000000,
    MOST_EXPERTS = 100000,
    MOST_PIXELS = 1 << 14
};

/* A row of an option table over the struct `type`, whose member has the option's name. */
#define OPTION_COUNT(type, name, most)                                                             \
    {#name, FIELD_COUNT, offsetof(type, name), .min = 1, .max = (most)}
#define OPTION_NEEDED(type, name, most)                                                            \
    {#name, FIELD_COUNT, offsetof(type, name), .required = true, .min = 1, .max = (most)}
#define OPTION_BOOL(type, name) {#name, FIELD_BOOL, offsetof(type, name)}
#define OPTION_CHOICE(type, name, words)                                                           \
    {#name, FIELD_CHOICE, offsetof(type, name), .choices = (words)}
/* The base of rotary positions; 0: that of others. */
#define OPTION_BASE(type, name) {#name, FIELD_REAL, offsetof(type, name), .min = 0, .max = 1e12}
/* Of all norms (struct op). */
#define OPTION_EPSILON(type)                                                                       \
    {"norm_epsilon", FIELD_REAL, offsetof(type, norm_epsilon), .min = 1e-20, .max = 1}
/* How rotary positions are stretched: the `stretch` of an options' struct. */
#define OPTION_STRETCH(type)                                                                       \
    {"rope_type", FIELD_CHOICE, offsetof(type, stretch.kind), .choices = ROPE_WORDS},              \
        {"rope_learned", FIELD_COUNT, offsetof(type, stretch.learned), .min = 1, .max = MOST_SEQ}, \
        {"rope_mscale", FIELD_REAL, offsetof(type, stretch.mscale), .min = 0, .max = 100}
/* Packed documents, and how unevenly experts are chosen. */
#define OPTION_DOCUMENTS(type)                                                                     \
    OPTION_COUNT(type, document, MOST_SEQ),                                                        \
        {"document_spread", FIELD_REAL, offsetof(type, document_spread), .min = 0, .max = 100}
#define OPTION_SKEW(type)                                                                          \
    {"expert_skew", FIELD_REAL, offsetof(type, expert_skew), .min = 0, .max = 10}
/* How experts are chosen and balanced: the `routing` of an options' struct. */
#define OPTION_ROUTING(type)                                                                       \
    {"router", FIELD_CHOICE, offsetof(type, routing.scores), .choices = ROUTER_WORDS},             \
        {"router_groups", FIELD_INT, offsetof(type, routing.groups), .min = 0,                     \
         .max = MOST_EXPERTS},                                                                     \
        {"router_group_top_k", FIELD_INT, offsetof(type, routing.group_top_k), .min = 0,           \
         .max = MOST_EXPERTS},                                                                     \
        {"router_scale", FIELD_REAL, offsetof(type, routing.scale), .min = 0, .max = 1e6},         \
        {"expert_skew", FIELD_REAL, offsetof(type, routing.skew), .min = 0, .max = 10},            \
        {"balance", FIELD_CHOICE, offsetof(type, routing.balance), .choices = BALANCE_WORDS},      \
        {"balance_weight", FIELD_REAL, offsetof(type, routing.balance_weight), .min = 0,           \
         .max = 1e6},                                                                              \
    {                                                                                              \
        "balance_bias", FIELD_BOOL, offsetof(type, routing.balance_bias)                           \
    }
#define OPTION_SHARE(type, name) {#name, FIELD_REAL, offsetof(type, name), .min = 0, .max = 1}

/* The rows that the option table of a plain transformer begins with. */
#define LAYER_OPTIONS(type)                                                                        \
    OPTION_NEEDED(type, layers, MOST_LAYERS), OPTION_NEEDED(type, hidden, MOST_HIDDEN),            \
        OPTION_NEEDED(type, heads, MOST_HEADS), OPTION_COUNT(type, ffn, MOST_HIDDEN)

/* A family's row. The file that says it also has the table FIELDS of its options, their DEFAULTS, and build(). */
#define FAMILY_OF(name, summary) FAMILY_TRAINED(name, summary, 0)
/* The same with how it is trained today: bits of enum family_practice. */
#define FAMILY_TRAINED(name, summary, practice)                                                    \
    {(name), (summary), FIELDS, COUNT_OF(FIELDS), sizeof(DEFAULTS), &DEFAULTS, build, (practice)}

#endif

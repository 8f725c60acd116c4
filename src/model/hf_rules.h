/* hf_rules.h - a config.json while it is read, and the rules of its rows. Private to the room. */
#ifndef WEFT_MODEL_HF_RULES_H
#define WEFT_MODEL_HF_RULES_H

#include "model/hf.h"

struct hf_row_list {
    const struct hf_row **data;
    size_t len, cap;
};

struct hf_reading {
    struct arena *scratch;
    const struct doc *root;  /* what describes the text model */
    const struct doc *outer; /* the mapping around it; NULL: none */
    struct doc *options, *last;
    ARRAY(const char *) warnings;
    struct hf_row_list given,
        usual; /* the rows that were read, of keys in the file and of defaults */
};

/* Adds the option that a row makes of a value, by the row's rule. */
weft_status hf_apply(struct hf_reading *r, const struct hf_row *row, const struct doc *value);

/* Adds an option; one whose value is not literally in the file has the place of `at` (import_hf.c, I1). */
void hf_add(struct hf_reading *r, const char *option, struct doc value);
void hf_add_number(struct hf_reading *r, const char *option, const struct doc *at, int64_t number);

/* An option that a row before this one has made, as a whole number; 0: none has. */
int64_t hf_made(const struct hf_reading *r, const char *option);

/* Adds an option with text that is not in the file; a number or a word as it is, if it is one of the type. */
void hf_add_text(struct hf_reading *r, const char *option, const struct doc *at, enum doc_kind kind,
                 const char *text);
weft_status hf_checked(struct hf_reading *r, const struct hf_row *row, const struct doc *value,
                       enum field_type type);

#define HF_RULE(name)                                                                              \
    weft_status name(struct hf_reading *r, const struct hf_row *row, const struct doc *value)
/* hf_rules_layers.c */
HF_RULE(rule_pattern);
HF_RULE(rule_window);
HF_RULE(rule_windowed);
HF_RULE(rule_full);
HF_RULE(rule_turn);
HF_RULE(rule_turned);
HF_RULE(rule_dense);
HF_RULE(rule_listed);
HF_RULE(rule_compress);
HF_RULE(rule_local);
/* hf_rules_vision.c */
HF_RULE(rule_pixels);
HF_RULE(rule_every);
HF_RULE(rule_side);
HF_RULE(rule_shrink);
HF_RULE(rule_merged);
HF_RULE(rule_table);
HF_RULE(rule_after);
HF_RULE(rule_shapes);
HF_RULE(rule_cross);

#endif

/* hf_rules.h - a config.json while it is read, and the rules of its rows. Private to the room. */
#ifndef WEFT_MODEL_HF_RULES_H
#define WEFT_MODEL_HF_RULES_H

#include "model/hf.h"

struct hf_reading {
    struct arena *scratch;
    const struct doc *root;  /* what describes the text model */
    const struct doc *outer; /* the mapping around it; NULL: none */
    struct doc *options, *last;
    ARRAY(const char *) warnings;
};

/* Adds the option that a row makes of a value, by the row's rule. */
weft_status hf_apply(struct hf_reading *r, const struct hf_row *row, const struct doc *value);

#endif

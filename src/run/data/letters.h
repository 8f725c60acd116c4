/* letters.h - which code points are letters, numbers and white space, as GPT-2's pattern asks. */
#ifndef WEFT_RUN_DATA_LETTERS_H
#define WEFT_RUN_DATA_LETTERS_H

#include "base/base.h"

enum letter_class { CLASS_OTHER, CLASS_LETTER, CLASS_NUMBER, CLASS_SPACE };
enum letter_class letter_class_of(uint32_t code);

/* The code point at the beginning of text, len > 0, and its bytes; what is no UTF-8 is one byte and
 * of no class: returns CLASS_OTHER. */
enum letter_class letter_class_at(const uint8_t *text, size_t len, size_t *bytes);

#endif

/* pretokenize.c - GPT-2's pattern (vocabulary.h, (1)), alternative by alternative. */
#include <string.h>

#include "run/data/letters.h"
#include "run/data/vocabulary.h"

static size_t contraction(const uint8_t *text, size_t len)
{
    static const char *const ENDS[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        size_t size = strlen(ENDS[i]);
        if (size <= len && memcmp(text, ENDS[i], size) == 0)
            return size;
    }
    return 0;
}

/* Code points of one class from `at` on; `last`: bytes of the last of them. */
static size_t run_of(const uint8_t *text, size_t len, size_t at, enum letter_class class,
                     size_t *last)
{
    size_t bytes;
    while (at < len && letter_class_at(text + at, len - at, &bytes) == class) {
        *last = bytes;
        at += bytes;
    }
    return at;
}

/* \s+(?!\S)|\s+ : all of it at the end of the text; else all but the last, if that leaves any. */
static size_t white_space(const uint8_t *text, size_t len)
{
    size_t last = 0, end = run_of(text, len, 0, CLASS_SPACE, &last);
    return end < len && end > last ? end - last : end;
}

size_t piece_length(const uint8_t *text, size_t len)
{
    size_t bytes = contraction(text, len), at = text[0] == ' ' && len > 1 ? 1 : 0;
    if (bytes)
        return bytes;
    enum letter_class class = letter_class_at(text + at, len - at, &bytes);
    if (class != CLASS_SPACE)
        return run_of(text, len, at, class, &bytes);
    return white_space(text, len);
}

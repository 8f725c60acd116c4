/* plain.c - text that is safe to print on a terminal.
 *
 *   I1  The result is valid UTF-8 without control characters: nothing in it moves the cursor,
 *       changes colours, ends a line or changes the direction of writing.
 *   I2  Each byte that is not UTF-8, and each character that is removed, becomes one question mark:
 *       the text never grows, and a name that was changed still looks different from a clean one.
 */
#include "base/base.h"

#include <string.h>

/* Valid characters that no name needs: the first and last of each range. */
static const struct {
    uint32_t first, last;
} HIDDEN[] = {
    {0x00, 0x1f},     /* C0: escape sequences begin here */
    {0x7f, 0x9f},     /* delete, and C1 */
    {0x61c, 0x61c},   /* Arabic letter mark */
    {0x200e, 0x200f}, /* direction marks */
    {0x2028, 0x202e}, /* line separators; direction embeddings and overrides */
    {0x2066, 0x2069}, /* isolates */
};

static bool is_hidden(uint32_t character)
{
    for (size_t i = 0; i < COUNT_OF(HIDDEN); i++)
        if (character >= HIDDEN[i].first && character <= HIDDEN[i].last)
            return true;
    return false;
}

/* Bytes of a character by its first byte; 0: no character begins with this byte. */
static size_t length_by(unsigned char first)
{
    return first < 0x80   ? 1
           : first < 0xc2 ? 0
           : first < 0xe0 ? 2
           : first < 0xf0 ? 3
           : first < 0xf5 ? 4
                          : 0;
}

static bool is_character(uint32_t character, size_t length)
{
    /* the smallest code point of each length: longer encodings are refused */
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    bool surrogate = character >= 0xd800 && character <= 0xdfff;
    return character >= LEAST[length] && character <= 0x10ffff && !surrogate;
}

size_t plain_next(const char *text, size_t len, bool *shows)
{
    static const unsigned char FIRST_BITS[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned char first = (unsigned char)text[0];
    size_t length = length_by(first);
    *shows = false;
    if (length == 0)
        return 1;
    uint32_t character = first & FIRST_BITS[length];
    for (size_t i = 1; i < length; i++) {
        if (i == len)
            return 0;
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 1;
        character = character << 6 | ((unsigned char)text[i] & 0x3f);
    }
    if (!is_character(character, length))
        return 1;
    *shows = !is_hidden(character);
    return length;
}

bool text_is_plain(const char *text)
{
    bool shows = true;
    for (size_t len = strlen(text), used = 0; len > 0 && shows; text += used, len -= used) {
        used = plain_next(text, len, &shows);
        if (used == 0)
            return false;
    }
    return shows;
}

void plain_text(char *text)
{
    char *to = text;
    const char *from = text;
    for (size_t len = strlen(text), used; len > 0; from += used, len -= used) {
        bool shows;
        used = plain_next(from, len, &shows);
        used = used ? used : 1; /* the text ends within a character */
        if (shows)
            memmove(to, from, used);
        else
            *to = '?';
        to += shows ? used : 1;
    }
    *to = '\0';
}

/* decoded.h - the bytes that tokens stand for, by vocab.json alone: what vocabulary.h encodes must come back (I1). */
#ifndef WEFT_TESTS_DECODED_H
#define WEFT_TESTS_DECODED_H

#include <string.h>

#include "run/data/vocabulary.h"

/* The byte that a character stands for, by OpenAI's bytes_to_unicode: 0-32, 127-160 and 173 are U+0100 and on; -1: none. */
static inline int byte_of_character(int c)
{
    if (c >= 0x100)
        return c < 0x121 ? c - 0x100 : c < 0x143 ? c - 0x121 + 127 : c == 0x143 ? 173 : -1;
    return c <= 32 || (c >= 127 && c <= 160) || c == 173 ? -1 : c;
}

/* Appends a token's bytes; what stands for no byte (in a special token) is its own UTF-8. */
static inline size_t put_token(const char *token, char *out)
{
    size_t used = 0;
    for (const uint8_t *at = (const uint8_t *)token; *at; at++) {
        bool pair = *at >= 0xc2 && *at < 0xe0 && at[1];
        int byte = pair         ? byte_of_character((*at & 0x1f) << 6 | (at[1] & 0x3f))
                   : *at < 0x80 ? byte_of_character(*at)
                                : -1;
        out[used++] = (char)(byte < 0 ? *at : byte);
        at += pair && byte >= 0;
    }
    return used;
}

/* NULL: a number that is no token's. */
static inline char *decoded(struct arena *keep, const char *vocab,
                            const struct vocabulary *vocabulary, const struct tokens *tokens,
                            size_t *out_len)
{
    const char **text = ARENA_ARRAY(keep, const char *, vocabulary_size(vocabulary));
    struct doc *root;
    size_t len = 0;
    int64_t number;
    if (doc_parse(keep, "vocab.json", vocab, strlen(vocab), DOC_JSON, &root))
        return NULL;
    for (const struct doc *node = root->first; node; node = node->next)
        if (parse_int(node->text, &number))
            text[number] = node->key;
    for (size_t i = 0; i < tokens->len; i++) {
        if (!text[tokens->data[i]])
            return NULL;
        len += strlen(text[tokens->data[i]]);
    }
    char *bytes = arena_alloc(keep, len + 1, 1);
    *out_len = 0;
    for (size_t i = 0; i < tokens->len; i++)
        *out_len += put_token(text[tokens->data[i]], bytes + *out_len);
    return bytes;
}

#endif

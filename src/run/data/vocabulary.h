/* vocabulary.h - GPT-2's byte-pair encoding, from its two files.
 *
 * vocab.json maps tokens to numbers, merges.txt lists pairs of tokens to join, most frequent first.
 * In both a token is text in which every byte stands as one printable character: bytes that print
 * as themselves, the 68 others as U+0100, U+0101, ... in order (OpenAI's bytes_to_unicode).
 *
 * Text is first cut by the pattern
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+                     (1)
 *
 * and each piece, as single bytes, joined: of all pairs of neighbours the one that stands first in
 * merges.txt is joined wherever it occurs, from left to right, until no pair is in the file.     (2)
 *
 *   I1  Every byte is a token, so every text has an encoding, and decoding gives it back.
 *   I2  A piece of n bytes takes O(n log n): a heap of pairs, by line of merges.txt and place.
 *   I3  \p{L} and \p{N} are Unicode's (letters.h); bytes that are no UTF-8 are neither.
 *   I4  No text stands for a special token: <|endoftext|> in a text is thirteen characters.
 */
#ifndef WEFT_RUN_DATA_VOCABULARY_H
#define WEFT_RUN_DATA_VOCABULARY_H

#include "base/base.h"

struct vocabulary;
weft_status vocabulary_open(const char *vocab_path, const char *merges_path,
                            struct vocabulary **out);
/* The same of texts in memory; the paths are for messages. `merges` ends with a NUL. */
weft_status vocabulary_parse(const char *vocab_path, const char *vocab, size_t vocab_len,
                             const char *merges_path, const char *merges, struct vocabulary **out);
void vocabulary_close(struct vocabulary *vocabulary);

int64_t vocabulary_size(const struct vocabulary *vocabulary); /* the largest number, and 1 */

struct tokens {
    int32_t *data;
    size_t len, cap;
};
/* Appends. */
void vocabulary_encode(const struct vocabulary *vocabulary, const char *text, size_t len,
                       struct arena *keep, struct tokens *out);

/* The bytes of the first piece of (1), len > 0. */
size_t piece_length(const uint8_t *text, size_t len);

#endif

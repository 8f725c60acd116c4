/* tokens.h - what a model is trained on: a long sequence of tokens in a file.
 *
 *   text       bytes are tokens (a vocabulary of 256); or, with a vocabulary, its encoding
 *   uint16     nothing but tokens, two bytes each (nanoGPT's .bin)
 *   uint32     nothing but tokens, four bytes each
 *   weft       32 bytes, then tokens:  "WEFTTOKS", uint32 version 1, uint32 bytes per token (2 or 4),
 *              uint64 tokens, uint64 size of the vocabulary they are of (0: not known)
 *   megatron   NAME.bin with NAME.idx beside it: "MMIDIDX\0\0", uint64 version 1, uint8 dtype, uint64
 *              sequences, uint64 documents, int32 length of each sequence, int64 byte offset of each
 *              sequence in NAME.bin, int64 first sequence of each document. Sequences follow each other
 *              without gaps, and are read as one.
 *
 *   I1  All numbers are little endian. Files are mapped into memory, not read, but for the encoding of
 *       a text, which is kept.
 *   I2  What is read was checked: in the file, not negative, and below the limit where there is one.
 */
#ifndef WEFT_RUN_DATA_TOKENS_H
#define WEFT_RUN_DATA_TOKENS_H

#include "base/base.h"

enum token_format {
    TOKENS_AUTO, /* weft by its first bytes, megatron by its NAME.idx, uint16 by .bin, else text */
    TOKENS_TEXT,
    TOKENS_UINT16,
    TOKENS_UINT32,
    TOKENS_WEFT,
    TOKENS_MEGATRON,
    TOKENS_FORMAT_COUNT
};
const char *token_format_name(enum token_format format);
bool token_format_from_name(const char *name, enum token_format *out);
const char *token_format_near(const char *name); /* the name that a misspelt one meant, or NULL */

struct token_options {
    enum token_format format;
    const char *vocab, *merges; /* files of a vocabulary for a text; NULL: bytes */
    int64_t limit;              /* of the model's vocabulary: tokens are below it; 0: none */
};

struct token_source; /* may be read by several threads at once */
weft_status token_source_open(const char *path, const struct token_options *options,
                              struct token_source **out);
void token_source_close(struct token_source *source);
int64_t token_source_length(const struct token_source *source);
/* Tokens first .. first + count - 1. */
weft_status token_source_read(const struct token_source *source, int64_t first, int64_t count,
                              int32_t *out);

/* ---- what a file says of itself, from memory ------------------------------------------------- */

enum token_width { WIDTH_U8, WIDTH_I16, WIDTH_U16, WIDTH_I32, WIDTH_U32, WIDTH_I64, WIDTH_COUNT };
struct token_layout {
    enum token_width width;
    int64_t offset, tokens; /* bytes before the first; how many */
};
weft_status token_header_parse(const char *path, const uint8_t *data, size_t bytes,
                               struct token_layout *out);
/* `data` is NAME.idx, `bin_bytes` the size of NAME.bin. */
weft_status megatron_index_parse(const char *path, const uint8_t *data, size_t bytes,
                                 int64_t bin_bytes, struct token_layout *out);

#endif

/* token_layouts.c - the headers of token files (tokens.h). */
#include <string.h>

#include "run/data/tokens.h"

/* ---- weft ------------------------------------------------------------------------------------ */

static const char MAGIC[8] = "WEFTTOKS";
enum { TOKEN_FILE_VERSION = 1 };
struct token_header {
    char magic[8];
    uint32_t version, width;
    uint64_t tokens, vocabulary;
};
_Static_assert(sizeof(struct token_header) == 32, "the header is as tokens.h says");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little endian, as memory is");

weft_status token_header_parse(const char *path, const uint8_t *data, size_t bytes,
                               struct token_layout *out)
{
    struct token_header header;
    if (bytes < sizeof header || memcmp(data, MAGIC, sizeof MAGIC) != 0)
        return bad_input(path, 0, "name the format it has, such as uint16",
                         "does not begin with WEFTTOKS, as token files of Weft do");
    memcpy(&header, data, sizeof header);
    if (header.version != TOKEN_FILE_VERSION)
        return bad_input(path, 0, "read it with the Weft that wrote it",
                         "is of version %u (at byte 8), expected version %d",
                         (unsigned)header.version, TOKEN_FILE_VERSION);
    if (header.width != 2 && header.width != 4)
        return bad_input(path, 0, "write it again",
                         "has %u bytes per token (at byte 12), expected 2 or 4",
                         (unsigned)header.width);
    if (header.tokens != (bytes - sizeof header) / header.width ||
        (bytes - sizeof header) % header.width)
        return bad_input(path, 0, "it was cut short or added to: write it again",
                         "has %zu bytes after its header, expected %llu tokens of %u bytes",
                         bytes - sizeof header, (unsigned long long)header.tokens,
                         (unsigned)header.width);
    *out = (struct token_layout){header.width == 2 ? WIDTH_U16 : WIDTH_U32, sizeof header,
                                 (int64_t)header.tokens};
    return WEFT_OK;
}

/* ---- Megatron-LM's index (megatron/core/datasets/indexed_dataset.py) ------------------------- */

static const char INDEX_MAGIC[9] = "MMIDIDX\0\0";
enum { VERSION_AT = 9, DTYPE_AT = 17, SEQUENCES_AT = 18, DOCUMENTS_AT = 26, LENGTHS_AT = 34 };

/* Its enum DType; what is not here is no whole number. */
static const struct {
    bool known;
    enum token_width width;
    int64_t bytes;
} INDEX_DTYPES[] = {
    [1] = {true, WIDTH_U8, 1},  [3] = {true, WIDTH_I16, 2}, [4] = {true, WIDTH_I32, 4},
    [5] = {true, WIDTH_I64, 8}, [8] = {true, WIDTH_U16, 2},
};

static uint64_t u64_at(const uint8_t *data, size_t at)
{
    uint64_t value;
    memcpy(&value, data + at, sizeof value);
    return value;
}

static weft_status index_error(const char *path, size_t at, const char *what)
{
    return bad_input(path, 0, "make it again with Megatron-LM's preprocess_data.py",
                     "%s (at byte %zu)", what, at);
}

/* Sequences follow each other from byte 0 of NAME.bin to its end. */
static weft_status check_sequences(const char *path, const uint8_t *data, size_t sequences,
                                   int64_t width, int64_t bin_bytes)
{
    size_t pointers = LENGTHS_AT + sequences * sizeof(int32_t);
    int64_t at = 0;
    for (size_t i = 0; i < sequences; i++) {
        int32_t length;
        memcpy(&length, data + LENGTHS_AT + i * sizeof length, sizeof length);
        if (length < 0)
            return index_error(path, LENGTHS_AT + i * sizeof length,
                               "has a sequence of fewer than 0 tokens");
        if (u64_at(data, pointers + i * sizeof(int64_t)) != (uint64_t)at)
            return index_error(path, pointers + i * sizeof(int64_t),
                               "has a sequence that does not begin where the one before it ends");
        at += length * width; /* below 2^31 * 2^31 * 8 */
        if (at > bin_bytes)
            break;
    }
    if (at != bin_bytes)
        return bad_input(path, 0, "give the .bin and .idx that were made together",
                         "describes %s%lld bytes, of %lld that the .bin file has",
                         at > bin_bytes ? "at least " : "", (long long)at, (long long)bin_bytes);
    return WEFT_OK;
}

weft_status megatron_index_parse(const char *path, const uint8_t *data, size_t bytes,
                                 int64_t bin_bytes, struct token_layout *out)
{
    if (bytes < LENGTHS_AT || memcmp(data, INDEX_MAGIC, sizeof INDEX_MAGIC) != 0)
        return index_error(path, 0, "does not begin with MMIDIDX, as Megatron-LM's indices do");
    if (u64_at(data, VERSION_AT) != 1)
        return index_error(path, VERSION_AT, "is not of version 1");
    unsigned dtype = data[DTYPE_AT];
    if (dtype >= COUNT_OF(INDEX_DTYPES) || !INDEX_DTYPES[dtype].known)
        return index_error(path, DTYPE_AT, "has tokens that are no whole numbers");
    uint64_t sequences = u64_at(data, SEQUENCES_AT), documents = u64_at(data, DOCUMENTS_AT);
    uint64_t most = bytes / sizeof(int32_t); /* so that the sum below cannot wrap */
    if (sequences > most || documents > most ||
        LENGTHS_AT + sequences * (sizeof(int32_t) + sizeof(int64_t)) +
                documents * sizeof(int64_t) !=
            bytes)
        return index_error(path, SEQUENCES_AT,
                           "has numbers of sequences and documents that do not fit its size");
    *out =
        (struct token_layout){INDEX_DTYPES[dtype].width, 0, bin_bytes / INDEX_DTYPES[dtype].bytes};
    return check_sequences(path, data, (size_t)sequences, INDEX_DTYPES[dtype].bytes, bin_bytes);
}

/* vocabulary.c - the two files (vocabulary.h). encode.c encodes. */
#include "run/data/vocabulary.h"

#include <string.h>

#include "run/data/vocabulary_room.h"

enum {
    MAX_TOKENS = 1 << 24, /* no published vocabulary comes near */
    FIRST_SHIFTED = 0x100 /* of the characters for bytes that do not print as themselves */
};

/* ---- bytes as characters --------------------------------------------------------------------- */

static bool prints_as_itself(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static void put_utf8(int character, char *out)
{
    out[0] = (char)(character < 0x80 ? character : 0xc0 | character >> 6);
    if (character >= 0x80)
        out[1] = (char)(0x80 | (character & 0x3f));
}

/* ---- vocab.json ------------------------------------------------------------------------------ */

static weft_status read_number(const struct doc *node, int64_t *out)
{
    if (node->kind != DOC_NUMBER || !parse_int(node->text, out) || *out < 0 || *out >= MAX_TOKENS)
        return doc_error(node, NULL, "'%s' is no token's number, expected 0 to %d", node->text,
                         MAX_TOKENS - 1);
    return WEFT_OK;
}

static weft_status size_vocabulary(struct vocabulary *vocabulary, const struct doc *root)
{
    weft_status status = WEFT_OK;
    for (const struct doc *node = root->first; node; node = node->next) {
        int64_t number;
        TRY(read_number(node, &number));
        if (number >= vocabulary->size)
            vocabulary->size = number + 1;
    }
    vocabulary->taken = ARENA_ARRAY(vocabulary->arena, bool, vocabulary->size + 1);
done:
    return status;
}

static weft_status add_token(struct vocabulary *vocabulary, const struct doc *node)
{
    int64_t number;
    weft_status status = read_number(node, &number);
    if (status != WEFT_OK)
        return status;
    if (vocabulary->taken[number])
        return doc_error(node, NULL, "%lld is the number of two tokens", (long long)number);
    vocabulary->taken[number] = true;
    map_put(vocabulary->number_of, node->key, number);
    return WEFT_OK;
}

/* I1 */
static weft_status find_bytes(struct vocabulary *vocabulary, const char *path)
{
    int shifted = FIRST_SHIFTED;
    for (int byte = 0; byte < 256; byte++) {
        char text[3] = {0};
        int64_t number;
        put_utf8(prints_as_itself(byte) ? byte : shifted++, text);
        if (!map_get(vocabulary->number_of, text, &number))
            return bad_input(path, 0, "give the vocab.json of a byte-level vocabulary as GPT-2's",
                             "has no token '%s' for the byte 0x%02x", text, (unsigned)byte);
        vocabulary->byte_token[byte] = (int32_t)number;
    }
    return WEFT_OK;
}

static weft_status read_vocab(struct vocabulary *vocabulary, const char *path, const char *text,
                              size_t len)
{
    weft_status status;
    struct arena *scratch = arena_new();
    struct doc *root;
    TRY(doc_parse(scratch, path, text, len, DOC_JSON, &root));
    if (root->kind != DOC_MAP) {
        status = doc_error(root, NULL, "is %s, expected a mapping from tokens to numbers",
                           doc_kind_name(root->kind));
        goto done;
    }
    TRY(size_vocabulary(vocabulary, root));
    for (const struct doc *node = root->first; node; node = node->next)
        TRY(add_token(vocabulary, node));
    TRY(find_bytes(vocabulary, path));
done:
    arena_free(scratch);
    return status;
}

/* ---- merges.txt ------------------------------------------------------------------------------ */

static weft_status token_of(const struct vocabulary *vocabulary, const char *path, int line,
                            const char *text, int32_t *out)
{
    int64_t number;
    if (!map_get(vocabulary->number_of, text, &number))
        return bad_input(path, line, "give the two files of one vocabulary",
                         "'%s' is no token of the vocabulary", text);
    *out = (int32_t)number;
    return WEFT_OK;
}

static weft_status add_merge(struct vocabulary *vocabulary, const char *path, int line,
                             const char *text, size_t len, struct arena *scratch)
{
    weft_status status;
    const char *blank = memchr(text, ' ', len);
    struct merge merge = {.rank = (int32_t)vocabulary->merges.used};
    int32_t left = 0, right = 0;
    if (!blank || blank == text || blank + 1 == text + len ||
        memchr(blank + 1, ' ', (size_t)(text + len - blank - 1)))
        return bad_input(path, line, NULL, "expected two tokens with a blank between them");
    const char *first = arena_copy_bytes(scratch, text, (size_t)(blank - text));
    const char *second = arena_copy_bytes(scratch, blank + 1, (size_t)(text + len - blank - 1));
    TRY(token_of(vocabulary, path, line, first, &left));
    TRY(token_of(vocabulary, path, line, second, &right));
    TRY(token_of(vocabulary, path, line, arena_printf(scratch, "%s%s", first, second),
                 &merge.token));
    if (!merges_put(vocabulary, left, right, merge))
        status = bad_input(path, line, "remove one of the two lines", "'%s %s' stands twice", first,
                           second);
done:
    return status;
}

static weft_status read_merges(struct vocabulary *vocabulary, const char *path, const char *text)
{
    weft_status status = WEFT_OK;
    struct arena *scratch = arena_new();
    for (int line = 1; *text; line++) {
        const char *end = strchrnul(text, '\n');
        size_t len = (size_t)(end - text);
        if (len && text[len - 1] == '\r')
            len--;
        if (len && !(line == 1 && strncmp(text, "#version", strlen("#version")) == 0))
            TRY(add_merge(vocabulary, path, line, text, len, scratch));
        text = *end ? end + 1 : end;
    }
done:
    arena_free(scratch);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

weft_status vocabulary_parse(const char *vocab_path, const char *vocab, size_t vocab_len,
                             const char *merges_path, const char *merges, struct vocabulary **out)
{
    weft_status status;
    struct arena *arena = arena_new();
    struct vocabulary *vocabulary = ARENA_NEW(arena, struct vocabulary);
    vocabulary->arena = arena;
    vocabulary->number_of = map_new(arena);
    TRY(read_vocab(vocabulary, vocab_path, vocab, vocab_len));
    TRY(read_merges(vocabulary, merges_path, merges));
    *out = vocabulary;
done:
    if (status != WEFT_OK)
        arena_free(arena);
    return status;
}

weft_status vocabulary_open(const char *vocab_path, const char *merges_path,
                            struct vocabulary **out)
{
    weft_status status;
    struct arena *scratch = arena_new();
    char *vocab, *merges;
    size_t vocab_len, merges_len;
    TRY(file_read(scratch, vocab_path, DOC_MAX_BYTES, &vocab, &vocab_len));
    TRY(file_read(scratch, merges_path, DOC_MAX_BYTES, &merges, &merges_len));
    if (strlen(merges) != merges_len)
        status = bad_input(merges_path, 0, "give GPT-2's merges.txt", "is not text");
    else
        status = vocabulary_parse(vocab_path, vocab, vocab_len, merges_path, merges, out);
done:
    arena_free(scratch);
    return status;
}

void vocabulary_close(struct vocabulary *vocabulary)
{
    if (vocabulary)
        arena_free(vocabulary->arena);
}

int64_t vocabulary_size(const struct vocabulary *vocabulary)
{
    return vocabulary->size;
}

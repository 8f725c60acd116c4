/* fuzz_vocabulary.c - three texts, a line of "---" between them: vocab.json, to which tokens for all
 * bytes are added, merges.txt, and a text. What encodes must decode to the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decoded.h"
#include "run/data/vocabulary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char LINE[] = "\n---\n";

/* Cuts off what stands before the line; all of it where there is none. */
static char *next_text(char **rest)
{
    char *text = *rest, *end = strstr(text, LINE);
    *rest = end ? end + strlen(LINE) : text + strlen(text);
    if (end)
        *end = '\0';
    return text;
}

static bool prints_as_itself(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static char *with_bytes(const char *vocab, size_t *len)
{
    char *text;
    int shifted = 0x100;
    FILE *out = open_memstream(&text, len);
    fputc('{', out);
    for (int byte = 0; byte < 256; byte++)
        fprintf(out, "\"\\u%04x\": %d, ", (unsigned)(prints_as_itself(byte) ? byte : shifted++),
                byte);
    fprintf(out, "%s}", vocab);
    fclose(out);
    return text;
}

static void encode_and_decode(const struct vocabulary *vocabulary, const char *vocab,
                              const char *text, size_t len, struct arena *arena)
{
    struct tokens tokens = {0};
    size_t back_len;
    vocabulary_encode(vocabulary, text, len, arena, &tokens);
    const char *back = decoded(arena, vocab, vocabulary, &tokens, &back_len);
    if (!back || back_len != len || memcmp(back, text, len) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new();
    char *all = arena_copy_bytes(arena, (const char *)data, size), *rest = all;
    const char *vocab = next_text(&rest), *merges = next_text(&rest);
    struct vocabulary *vocabulary;
    size_t len;
    char *text = with_bytes(vocab, &len);
    if (vocabulary_parse("v", text, len, "m", merges, &vocabulary) == WEFT_OK) {
        encode_and_decode(vocabulary, text, rest, (size_t)(all + size - rest), arena);
        vocabulary_close(vocabulary);
    }
    if (vocabulary_parse("v", vocab, strlen(vocab), "m", merges, &vocabulary) == WEFT_OK)
        vocabulary_close(vocabulary);
    free(text);
    arena_free(arena);
    return 0;
}

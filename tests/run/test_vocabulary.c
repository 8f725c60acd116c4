/* test_vocabulary.c - GPT-2's byte-pair encoding: its pattern, its merges, its two files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/data/letters.h"
#include "run/data/tokens.h"
#include "run/data/vocabulary.h"
#include "decoded.h"
#include "rounds.h"
#include "scratch_folder.h"

/* ---- the pattern ----------------------------------------------------------------------------- */

/* Pieces with '|' between them. */
static const char *cut(struct arena *keep, const char *text)
{
    size_t len = strlen(text);
    const char *pieces = "";
    while (len > 0) {
        size_t piece = piece_length((const uint8_t *)text, len);
        assert_in_range(piece, 1, len);
        pieces = arena_printf(keep, "%s%s%.*s", pieces, *pieces ? "|" : "", (int)piece, text);
        text += piece;
        len -= piece;
    }
    return pieces;
}

/* Each worked out by hand from the pattern. */
static void text_is_cut_into_pieces(void **state)
{
    static const struct {
        const char *text, *pieces;
    } ROWS[] = {
        {"Hello world", "Hello| world"},
        {"Hello  world", "Hello| | world"}, /* a blank goes with the word, the rest stays */
        {"a   b", "a|  | b"},
        {"a   ", "a|   "}, /* at the end all of it */
        {"   ", "   "},
        {" ", " "},
        {"\n\nx", "\n|\n|x"}, /* only a blank goes with a word */
        {"a\n b", "a|\n| b"},
        {"a \nb", "a| |\n|b"},
        {"\t\t x", "\t\t| x"},
        {"a\r\nb", "a|\r|\n|b"},
        {"I'll we've it's", "I|'ll| we|'ve| it|'s"},
        {"don't DON'T", "don|'t| DON|'|T"}, /* capitals are no contraction */
        {"'tis 'x", "'t|is| '|x"},
        {"'re're", "'re|'re"},
        {"''s", "''|s"},
        {"abc123 45x", "abc|123| 45|x"},
        {"3.14", "3|.|14"},
        {"hi!!! :-)", "hi|!!!| :-)"},
        {"a_b", "a|_|b"},
        {"<|endoftext|>", "<||endoftext||>"}, /* '|' twice: one is ours */
        {"caf\xc3\xa9 na\xc3\xafve", "caf\xc3\xa9| na\xc3\xafve"},
        {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e 2\xc2\xb2",
         "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e| 2\xc2\xb2"},
        {"\xe2\x82\xac"
         "5",
         "\xe2\x82\xac|5"}, /* a currency sign is neither */
        {"a\xc2\xa0"
         "b",
         "a|\xc2\xa0|b"},               /* a blank that does not break */
        {"x\xcc\x81y", "x|\xcc\x81|y"}, /* a combining accent is no letter */
        {"\xff\xfe"
         "a",
         "\xff\xfe|a"},                                                              /* no UTF-8 */
        {"a\xc3", "a|\xc3"},                                                         /* cut short */
        {"\xd9\xa1\xd9\xa2 \xd0\xb4\xd0\xb0", "\xd9\xa1\xd9\xa2| \xd0\xb4\xd0\xb0"}, /* Arabic 12 */
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct arena *arena = arena_new();
        assert_string_equal(cut(arena, ROWS[i].text), ROWS[i].pieces);
        arena_free(arena);
    }
    (void)state;
}

/* The same pattern in Python's own regular expressions, with \p{L} and \p{N} spelt out for the
 * characters that are used. Writes texts, each after a line of its bytes and those of its pieces. */
static const char PYTHON[] =
    "import random, re, sys, unicodedata\n"
    "random.seed(1)\n"
    "some = \"''''    \\n\\t\\r\\x0b\\x1cstrevmldSTabzAZ0189!?._-@[`{~\" "
    "'\\x7f\\x85\\xa0\\xaa\\xb2\\xb5\\xd7\\xe9\\u0301\\u0663\\u0434\\u1680\\u200b\\u2028\\u20ac' "
    "'\\u216b\\u3000\\u65e5\\uac00\\U0001f600\\U0001d7d8\\U00020000'\n"
    "S = '\\t\\n\\x0b\\x0c\\r "
    "\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000'\n"
    "L, N = (''.join(c for c in some if unicodedata.category(c)[0] == k) for k in 'LN')\n"
    "pattern = re.compile(f\"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+\"\n"
    "                     f'|[{S}]+(?![^{S}])|[{S}]+')\n"
    "with open(sys.argv[1], 'wb') as out:\n"
    "    for _ in range(int(sys.argv[2])):\n"
    "        text = ''.join(random.choices(some, k=random.randint(1, 30)))\n"
    "        pieces = [piece.encode() for piece in pattern.findall(text)]\n"
    "        assert b''.join(pieces) == text.encode()\n"
    "        sizes = ' '.join(str(len(piece)) for piece in pieces)\n"
    "        out.write(f'{len(text.encode())} {sizes}\\n'.encode() + text.encode())\n";

static void pieces_are_pythons(void **state)
{
    struct scratch *scratch = *state;
    const char *script = put_file(scratch, "pieces.py", PYTHON, strlen(PYTHON));
    const char *path = scratch_path(scratch, "pieces");
    char *at;
    size_t len;
    int rounds = rounds_of(20000), texts = 0;
    assert_int_equal(system(arena_printf(scratch->arena, "python3 %s %s %d", script, path, rounds)),
                     0);
    assert_ok(file_read(scratch->arena, path, 1 << 26, &at, &len));
    for (const char *end = at + len; at < end; texts++) {
        char *text = strchr(at, '\n') + 1;
        size_t left = strtoull(at, &at, 10);
        while (left > 0) {
            size_t piece = piece_length((const uint8_t *)text, left);
            if (piece != strtoull(at, &at, 10))
                fail_msg("text %d: a piece of %zu bytes, %zu before the end", texts, piece, left);
            text += piece;
            left -= piece;
        }
        at = text;
    }
    assert_int_equal(texts, rounds);
}

static void classes_are_unicodes(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        enum letter_class class;
    } ROWS[] = {
        {'A', CLASS_LETTER},     {'z', CLASS_LETTER},     {'@', CLASS_OTHER},
        {'[', CLASS_OTHER},      {'`', CLASS_OTHER},      {'{', CLASS_OTHER},
        {'0', CLASS_NUMBER},     {'9', CLASS_NUMBER},     {'/', CLASS_OTHER},
        {':', CLASS_OTHER},      {0x1f, CLASS_OTHER},     {0x0b, CLASS_SPACE},
        {0x85, CLASS_SPACE},     {0xaa, CLASS_LETTER},    {0xb5, CLASS_LETTER},
        {0xb2, CLASS_NUMBER},    {0xd7, CLASS_OTHER},     {0xd8, CLASS_LETTER},
        {0x2028, CLASS_SPACE},   {0x200b, CLASS_OTHER},   {0x216b, CLASS_NUMBER},
        {0x4e00, CLASS_LETTER},  {0x9fff, CLASS_LETTER},  {0xac00, CLASS_LETTER},
        {0xd7a3, CLASS_LETTER},  {0xd7a4, CLASS_OTHER},   {0x1f600, CLASS_OTHER},
        {0x1d7d8, CLASS_NUMBER}, {0x10ffff, CLASS_OTHER},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++)
        if (letter_class_of(ROWS[i].code) != ROWS[i].class)
            fail_msg("U+%04x", (unsigned)ROWS[i].code);
}

/* Whether a byte string is UTF-8, and of which length, against the three ways it can be wrong. */
static void utf8_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } ROWS[] = {
        {"\xc3\xa9", 2},
        {"\xc0\x80", 1},
        {"\xe0\x80\x80", 1},
        {"\xed\xa0\x80", 1},
        {"\xed\x9f\xbf", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x90\x80\x80", 1},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\xe6\x97", 1},
        {"\x80", 1},
        {"\xf5\x80\x80\x80", 1},
        {"\xe6\x97"
         "a",
         1},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        size_t bytes;
        letter_class_at((const uint8_t *)ROWS[i].text, strlen(ROWS[i].text), &bytes);
        assert_int_equal(bytes, ROWS[i].bytes);
    }
}

/* ---- a small vocabulary ---------------------------------------------------------------------- */

/* The character that stands for a byte, as OpenAI's bytes_to_unicode lists them: printable ones are
 * themselves; 0-32, 127-160 and 173 are U+0100 and on. */
static const char *character(struct arena *keep, int byte)
{
    int code = byte;
    if (byte <= 32)
        code = 0x100 + byte;
    else if (byte >= 127 && byte <= 160)
        code = 0x100 + 33 + byte - 127;
    else if (byte == 173)
        code = 0x143;
    if (code < 0x80)
        return arena_printf(keep, "%c", code);
    return arena_printf(keep, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
}

struct texts {
    struct arena *arena;
    const char *vocab, *merges;
    int tokens;
};

static void add_token(struct texts *texts, const char *token)
{
    const char *escape = strchr("\"\\", token[0]) ? "\\" : "";
    texts->vocab = arena_printf(texts->arena, "%s%s\"%s%s\": %d", texts->vocab,
                                texts->tokens ? ", " : "{", escape, token, texts->tokens);
    texts->tokens++;
}

static struct texts byte_texts(struct arena *arena)
{
    struct texts texts = {arena, "", "#version: 0.2\n", 0};
    for (int byte = 0; byte < 256; byte++)
        add_token(&texts, character(arena, byte));
    return texts;
}

/* Adds the pair, and what it makes if that is new. */
static void add_merge(struct texts *texts, const char *left, const char *right, bool new_token)
{
    texts->merges = arena_printf(texts->arena, "%s%s %s\n", texts->merges, left, right);
    if (new_token)
        add_token(texts, arena_printf(texts->arena, "%s%s", left, right));
}

static struct vocabulary *open_texts(const struct texts *texts)
{
    struct vocabulary *vocabulary;
    const char *vocab = arena_printf(texts->arena, "%s}", texts->vocab);
    assert_ok(vocabulary_parse("vocab.json", vocab, strlen(vocab), "merges.txt", texts->merges,
                               &vocabulary));
    return vocabulary;
}

static void assert_encoding(const struct vocabulary *vocabulary, const char *text,
                            const int32_t *expected, size_t count)
{
    struct arena *arena = arena_new();
    struct tokens tokens = {0};
    vocabulary_encode(vocabulary, text, strlen(text), arena, &tokens);
    assert_int_equal(tokens.len, count);
    if (count)
        assert_memory_equal(tokens.data, expected, count * sizeof *expected);
    arena_free(arena);
}
#define ASSERT_ENCODING(vocabulary, text, ...)                                                     \
    assert_encoding(vocabulary, text, (int32_t[]){__VA_ARGS__},                                    \
                    COUNT_OF(((int32_t[]){__VA_ARGS__})))

/* Sennrich et al. 2016, low/lower: merges  l o, lo w, e r, G l (G: a blank), Gl o, low er, lo wer.
 * Token numbers: bytes are themselves; lo 256, low 257, er 258, Gl 259, Glo 260, lower 261. */
static void pairs_are_joined_in_order(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct texts texts = byte_texts(arena);
    add_merge(&texts, "l", "o", true);
    add_merge(&texts, "lo", "w", true);
    add_merge(&texts, "e", "r", true);
    add_merge(&texts, "\xc4\xa0", "l", true);
    add_merge(&texts, "\xc4\xa0l", "o", true);
    add_merge(&texts, "low", "er", true);
    struct vocabulary *vocabulary = open_texts(&texts);
    assert_int_equal(vocabulary_size(vocabulary), 262);
    ASSERT_ENCODING(vocabulary, "lower", 261); /* lo w e r, low e r, low er, lower */
    ASSERT_ENCODING(vocabulary, "lowest", 257, 'e', 's', 't');
    ASSERT_ENCODING(vocabulary, " lo", ' ', 256); /* l o comes before G l */
    ASSERT_ENCODING(vocabulary, " l", 259);
    ASSERT_ENCODING(vocabulary, "lolo low", 256, 256, ' ', 257);
    ASSERT_ENCODING(vocabulary, "erer", 258, 258);
    ASSERT_ENCODING(vocabulary, "\n\xff", '\n', 0xff);
    assert_encoding(vocabulary, "", NULL, 0);
    vocabulary_close(vocabulary);
}

/* a a joins from left to right: aaa is aa a; aaaa with aa aa is one. */
static void a_pair_of_equals_joins_from_the_left(void **state)
{
    struct texts texts = byte_texts(((struct scratch *)*state)->arena);
    add_merge(&texts, "a", "a", true);
    add_merge(&texts, "aa", "aa", true);
    struct vocabulary *vocabulary = open_texts(&texts);
    ASSERT_ENCODING(vocabulary, "a", 'a');
    ASSERT_ENCODING(vocabulary, "aaa", 256, 'a');
    ASSERT_ENCODING(vocabulary, "aaaa", 257);
    ASSERT_ENCODING(vocabulary, "aaaaaaa", 257, 256, 'a');
    vocabulary_close(vocabulary);
}

/* ---- against the definition ------------------------------------------------------------------ */

/* (2) of vocabulary.h to the letter, as OpenAI's encoder.py has it, on texts of one-byte characters:
 * tokens are substrings, `pair` lists what may be joined. */
struct naive {
    int pairs, tokens;
    char left[64][16], right[64][16];
    char token[67][16]; /* a, b, c, then those after the 256 bytes */
    const char *vocab;
};

static int32_t number_of(const struct naive *naive, const char *token)
{
    int at = 0;
    while (strcmp(naive->token[at], token) != 0)
        at++;
    return at < 3 ? 'a' + at : 256 + at - 3;
}

static int best_pair(const struct naive *naive, char word[][16], int len)
{
    for (int p = 0; p < naive->pairs; p++)
        for (int i = 0; i + 1 < len; i++)
            if (strcmp(word[i], naive->left[p]) == 0 && strcmp(word[i + 1], naive->right[p]) == 0)
                return p;
    return -1;
}

static int join_naively(const struct naive *naive, char word[][16], int len)
{
    for (int pair; (pair = best_pair(naive, word, len)) >= 0;) {
        int out = 0;
        for (int i = 0; i < len; i++, out++) {
            bool found = i + 1 < len && strcmp(word[i], naive->left[pair]) == 0 &&
                         strcmp(word[i + 1], naive->right[pair]) == 0;
            memmove(word[out], word[i], sizeof word[out]);
            if (found)
                strcat(word[out], word[++i]);
        }
        len = out;
    }
    return len;
}

/* Pairs of tokens that exist, in any order of lines: also ones that no training would give. */
static struct vocabulary *random_vocabulary(struct rng *rng, struct arena *arena,
                                            const struct texts *bytes, struct naive *naive)
{
    struct texts texts = {arena, bytes->vocab, bytes->merges, bytes->tokens};
    int order[64];
    *naive = (struct naive){.tokens = 3, .token = {"a", "b", "c"}};
    for (int wanted = 1 + (int)rng_below(rng, 20); wanted > 0; wanted--) {
        const char *left = naive->token[rng_below(rng, naive->tokens)];
        const char *right = naive->token[rng_below(rng, naive->tokens)];
        bool exists = strlen(left) + strlen(right) > 12, is_known = false;
        char joined[16];
        for (int i = 0; i < naive->pairs; i++)
            exists |= strcmp(naive->left[i], left) == 0 && strcmp(naive->right[i], right) == 0;
        if (exists)
            continue;
        snprintf(joined, sizeof joined, "%.6s%.6s", left, right);
        if (strlen(joined) != strlen(left) + strlen(right))
            continue;
        strcpy(naive->left[naive->pairs], left);
        strcpy(naive->right[naive->pairs++], right);
        for (int i = 0; i < naive->tokens; i++)
            is_known |= strcmp(naive->token[i], joined) == 0;
        if (is_known)
            continue;
        strcpy(naive->token[naive->tokens++], joined);
        add_token(&texts, joined);
    }
    for (int i = 0; i < naive->pairs; i++)
        order[i] = i;
    for (int i = naive->pairs - 1; i > 0 && rng_below(rng, 2); i--) { /* shuffled, some of them */
        int k = (int)rng_below(rng, i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    struct naive shuffled = *naive;
    for (int i = 0; i < naive->pairs; i++) {
        strcpy(shuffled.left[i], naive->left[order[i]]);
        strcpy(shuffled.right[i], naive->right[order[i]]);
        add_merge(&texts, shuffled.left[i], shuffled.right[i], false);
    }
    *naive = shuffled;
    naive->vocab = arena_printf(arena, "%s}", texts.vocab);
    return open_texts(&texts);
}

static void joining_is_as_defined(void **state)
{
    struct rng rng;
    struct texts bytes = byte_texts(((struct scratch *)*state)->arena);
    rng_seed(&rng, 3);
    for (int round = rounds_of(1500); round > 0; round--) {
        struct arena *arena = arena_new();
        struct naive naive;
        struct vocabulary *vocabulary = random_vocabulary(&rng, arena, &bytes, &naive);
        char text[41] = {0}, word[40][16] = {{0}};
        int len = 1 + (int)rng_below(&rng, 40);
        for (int i = 0; i < len; i++)
            word[i][0] = text[i] = (char)('a' + rng_below(&rng, 3));
        int count = join_naively(&naive, word, len);
        int32_t expected[40];
        for (int i = 0; i < count; i++)
            expected[i] = number_of(&naive, word[i]);
        assert_encoding(vocabulary, text, expected, (size_t)count);
        vocabulary_close(vocabulary);
        arena_free(arena);
    }
}

static void any_bytes_come_back(void **state)
{
    struct rng rng;
    struct texts bytes = byte_texts(((struct scratch *)*state)->arena);
    rng_seed(&rng, 5);
    for (int round = rounds_of(100); round > 0; round--) {
        struct arena *arena = arena_new();
        struct naive naive;
        struct vocabulary *vocabulary = random_vocabulary(&rng, arena, &bytes, &naive);
        char text[500], *back;
        size_t len = (size_t)rng_below(&rng, sizeof text), back_len;
        for (size_t i = 0; i < len; i++)
            text[i] =
                rng_below(&rng, 2) ? (char)rng_below(&rng, 256) : "abc d1'\n"[rng_below(&rng, 8)];
        struct tokens tokens = {0};
        vocabulary_encode(vocabulary, text, len, arena, &tokens);
        back = decoded(arena, naive.vocab, vocabulary, &tokens, &back_len);
        assert_non_null(back);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, text, len + (len == 0));
        vocabulary_close(vocabulary);
        arena_free(arena);
    }
}

/* A piece of two million bytes: quadratic joining would not end. */
static void long_pieces_are_joined(void **state)
{
    enum { BYTES = 1 << 21 };
    struct arena *arena = arena_new();
    struct texts texts = byte_texts(arena);
    add_merge(&texts, "a", "a", true);
    add_merge(&texts, "aa", "aa", true);
    add_merge(&texts, "aaaa", "aaaa", true);
    struct vocabulary *vocabulary = open_texts(&texts);
    char *text = arena_alloc(arena, BYTES + 1, 1);
    memset(text, 'a', BYTES);
    struct tokens tokens = {0};
    vocabulary_encode(vocabulary, text, BYTES, arena, &tokens);
    assert_int_equal(tokens.len, BYTES / 8);
    vocabulary_close(vocabulary);
    arena_free(arena);
    (void)state;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void wrong_files_are_refused(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct texts texts = byte_texts(arena);
    add_token(&texts, "ab");
    const char *good = arena_printf(arena, "%s}", texts.vocab);
    const struct {
        const char *vocab, *merges, *message;
    } WRONG[] = {
        {"[]", "", "v:1: is a list, expected a mapping from tokens to numbers"},
        {"{\"a\": -1}", "", "v:1: '-1' is no token's number, expected 0 to 16777215"},
        {"{\"a\": 1,\n\"b\": \"x\"}", "", "v:2: 'x' is no token's number, expected 0 to 16777215"},
        {"{\"a\": 1,\n\"b\": 1}", "", "v:2: 1 is the number of two tokens"},
        {"{\"a\": 1}", "", "v: has no token '\xc4\x80' for the byte 0x00"},
        {good, "#version: 0.2\nab\n", "m:2: expected two tokens with a blank between them"},
        {good, "a b c\n", "m:1: expected two tokens with a blank between them"},
        {good, "a \n", "m:1: expected two tokens with a blank between them"},
        {good, "a bc\n", "m:1: 'bc' is no token of the vocabulary"},
        {good, "a b\nb a\n", "m:2: 'ba' is no token of the vocabulary"},
        {good, "a b\r\n\r\na b", "m:3: 'a b' stands twice"},
    };
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct vocabulary *vocabulary;
        assert_refused(vocabulary_parse("v", WRONG[i].vocab, strlen(WRONG[i].vocab), "m",
                                        WRONG[i].merges, &vocabulary),
                       WEFT_BAD_INPUT, WRONG[i].message);
    }
}

static void a_text_is_encoded_when_opened(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct texts texts = byte_texts(arena);
    add_merge(&texts, "h", "e", true);
    const char *vocab = arena_printf(arena, "%s}", texts.vocab);
    struct token_options options = {
        .vocab = put_file(*state, "vocab.json", vocab, strlen(vocab)),
        .merges = put_file(*state, "merges.txt", texts.merges, strlen(texts.merges))};
    const char *path = put_file(*state, "text.txt", "he the", 6);
    struct token_source *source;
    int32_t found[4];
    assert_ok(token_source_open(path, &options, &source));
    assert_int_equal(token_source_length(source), 4);
    assert_ok(token_source_read(source, 0, 4, found));
    assert_memory_equal(found, ((int32_t[]){256, ' ', 't', 256}), sizeof found);
    token_source_close(source);
    options.limit = 256;
    assert_refused(token_source_open(path, &options, &source), WEFT_BAD_INPUT,
                   "vocab.json: has 257 tokens, more than the model's 256");
    options.merges = put_file(*state, "binary.txt", "a\0b", 3);
    assert_refused(token_source_open(path, &options, &source), WEFT_BAD_INPUT, "is not text");
}

/* Every code point is of the class that Python's unicodedata 14.0.0 gives it: the counts, and FNV-1a of all classes. */
static void code_points_are_of_their_class(void **state)
{
    (void)state;
    int64_t count[CLASS_SPACE + 1] = {0};
    uint32_t hash = 2166136261U;
    for (uint32_t code = 0; code < 0x110000; code++) {
        enum letter_class class = letter_class_of(code);
        count[class]++;
        hash = (hash ^ (uint32_t)class) * 16777619U;
    }
    assert_int_equal(count[CLASS_LETTER], 131756);
    assert_int_equal(count[CLASS_NUMBER], 1791);
    assert_int_equal(count[CLASS_SPACE], 25);
    assert_int_equal(hash, 0xc296ad08U);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_points_are_of_their_class),
        cmocka_unit_test(text_is_cut_into_pieces),
        cmocka_unit_test(pieces_are_pythons),
        cmocka_unit_test(classes_are_unicodes),
        cmocka_unit_test(utf8_is_checked),
        cmocka_unit_test(pairs_are_joined_in_order),
        cmocka_unit_test(a_pair_of_equals_joins_from_the_left),
        cmocka_unit_test(joining_is_as_defined),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(long_pieces_are_joined),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(a_text_is_encoded_when_opened),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}

/* test_data.c - what a run is fed with and tells: token files, order of samples, rates, the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include "run/train/log.h"
#include "run/data/order.h"
#include "run/rank/rate.h"
#include "run/data/tokens.h"
#include "rounds.h"
#include "scratch_folder.h"

/* ---- token files ----------------------------------------------------------------------------- */

static struct token_source *open_tokens(const char *path, enum token_format format, int64_t limit)
{
    struct token_source *source;
    assert_ok(token_source_open(path, &(struct token_options){.format = format, .limit = limit},
                                &source));
    return source;
}

static void assert_tokens(const char *path, enum token_format asked, const int32_t *expected,
                          int64_t count)
{
    struct token_source *source = open_tokens(path, asked, 0);
    int32_t found[64];
    assert_int_equal(token_source_length(source), count);
    for (int64_t first = 0; first <= count; first++) {
        assert_ok(token_source_read(source, first, count - first, found));
        assert_memory_equal(found, expected + first, (size_t)(count - first) * sizeof *found);
    }
    token_source_close(source);
}

static void bytes_of_a_text_are_tokens(void **state)
{
    const char *path = put_file(*state, "a.txt", "Hi\n\xc3\xa9\0x", 7);
    assert_tokens(path, TOKENS_AUTO, (int32_t[]){'H', 'i', '\n', 0xc3, 0xa9, 0, 'x'}, 7);
    assert_tokens(put_file(*state, "empty.txt", "", 0), TOKENS_AUTO, (int32_t[]){0}, 0);
}

static void plain_tokens_have_a_width(void **state)
{
    static const uint8_t BYTES[] = {1, 0, 0xff, 0xff, 2, 1, 0, 0};
    const char *path = put_file(*state, "plain.bin", BYTES, sizeof BYTES);
    assert_tokens(path, TOKENS_AUTO, (int32_t[]){1, 65535, 258, 0}, 4);
    path = put_file(*state, "wide.bin", (uint8_t[]){1, 0, 2, 0, 3, 0, 0, 0}, 8);
    assert_tokens(path, TOKENS_UINT32, (int32_t[]){0x20001, 3}, 2);
}

/* A file of format weft, as tokens.h describes it, with `width` bytes per token. */
static const char *put_tokens(void *state, const int32_t *tokens, size_t count, uint32_t width,
                              uint64_t vocabulary)
{
    static uint8_t bytes[1 << 16] = "WEFTTOKS";
    enum { HEADER = 32 };
    uint32_t version = 1;
    uint64_t many = count;
    assert_true(HEADER + count * width <= sizeof bytes);
    memcpy(bytes + 8, &version, sizeof version);
    memcpy(bytes + 12, &width, sizeof width);
    memcpy(bytes + 16, &many, sizeof many);
    memcpy(bytes + 24, &vocabulary, sizeof vocabulary);
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + HEADER + i * width, &tokens[i], width);
    return put_file(state, "tokens", bytes, HEADER + count * width);
}

static void written_tokens_are_read(void **state)
{
    static const int32_t TOKENS[] = {0, 50256, 7, 65535};
    static const int32_t WIDE[] = {0, 65536, 2000000000};
    const char *path = put_tokens(*state, TOKENS, 4, 2, 65536);
    assert_tokens(path, TOKENS_AUTO, TOKENS, 4);
    path = put_tokens(*state, WIDE, 3, 4, 0);
    assert_tokens(path, TOKENS_WEFT, WIDE, 3);
    enum { COUNT = 10000 };
    int32_t many[COUNT], found[COUNT];
    for (int i = 0; i < COUNT; i++)
        many[i] = i * 5;
    path = put_tokens(*state, many, COUNT, 2, 50257);
    struct token_source *source = open_tokens(path, TOKENS_AUTO, 50257);
    assert_ok(token_source_read(source, 0, COUNT, found));
    assert_memory_equal(found, many, sizeof many);
    token_source_close(source);
}

/* Two documents of 2 and 1 sequences: lengths 2, 1, 3; offsets in NAME.bin of int32. */
#define INDEX(version, dtype, sequences, second)                                                   \
    "MMIDIDX\0\0" version "\0\0\0\0\0\0\0" dtype sequences "\0\0\0\0\0\0\0"                        \
    "\3\0\0\0\0\0\0\0"                                                                             \
    "\2\0\0\0\1\0\0\0\3\0\0\0"                                                                     \
    "\0\0\0\0\0\0\0\0" second "\0\0\0\0\0\0\0\14\0\0\0\0\0\0\0"                                    \
    "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"

static void megatron_sequences_are_one(void **state)
{
    static const int32_t TOKENS[] = {5, 6, 7, 100000, 9, 10};
    static const char GOOD[] = INDEX("\1", "\4", "\3", "\10");
    const char *path = put_file(*state, "corpus.bin", TOKENS, sizeof TOKENS);
    put_file(*state, "corpus.idx", GOOD, sizeof GOOD - 1);
    assert_tokens(path, TOKENS_AUTO, TOKENS, 6);
}

static void wrong_token_files_are_refused(void **state)
{
    static const struct {
        const char *data;
        size_t bytes;
        enum token_format format;
        const char *message;
    } WRONG[] = {
        {"abc", 3, TOKENS_UINT16, "has 3 bytes, which are no whole number of tokens of 2 bytes"},
        {"abcdef", 6, TOKENS_UINT32, "has 6 bytes, which are no whole number of tokens of 4 bytes"},
        {"WEFTTOK", 7, TOKENS_WEFT, "does not begin with WEFTTOKS, as token files of Weft do"},
        {"WEFTTOKS\2\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32, TOKENS_AUTO,
         "is of version 2 (at byte 8), expected version 1"},
        {"WEFTTOKS\1\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32, TOKENS_AUTO,
         "has 3 bytes per token (at byte 12), expected 2 or 4"},
        {"WEFTTOKS\1\0\0\0\2\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0ab", 34, TOKENS_AUTO,
         "has 2 bytes after its header, expected 2 tokens of 2 bytes"},
        {"WEFTTOKS\1\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0abc", 35, TOKENS_AUTO,
         "has 3 bytes after its header, expected 1 tokens of 2 bytes"},
    };
    struct token_source *source;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        struct token_options options = {.format = WRONG[i].format};
        const char *path = put_file(*state, "wrong.dat", WRONG[i].data, WRONG[i].bytes);
        assert_refused(token_source_open(path, &options, &source), WEFT_BAD_INPUT,
                       WRONG[i].message);
    }
    assert_refused(token_source_open("/nowhere/x.bin", &(struct token_options){0}, &source),
                   WEFT_BAD_INPUT, "cannot be opened: No such file or directory");
    assert_refused(token_source_open("/tmp", &(struct token_options){0}, &source), WEFT_BAD_INPUT,
                   "is a folder, expected a file");
    const char *path = put_file(*state, "some.bin", "ab", 2);
    struct token_options options = {.vocab = "v", .merges = "m"};
    assert_refused(token_source_open(path, &options, &source), WEFT_BAD_INPUT,
                   "holds tokens already (format uint16): no vocabulary is needed");
    options = (struct token_options){.format = TOKENS_TEXT, .vocab = "v"};
    assert_refused(token_source_open(path, &options, &source), WEFT_BAD_INPUT,
                   "a vocabulary is two files, and the merges are not given");
}

static void wrong_indices_are_refused(void **state)
{
    static const struct {
        const char *index;
        size_t cut;
        int64_t bin_bytes;
        const char *message;
    } WRONG[] = {
        {INDEX("\2", "\4", "\3", "\10"), 0, 24, "is not of version 1 (at byte 9)"},
        {INDEX("\1", "\6", "\3", "\10"), 0, 24,
         "has tokens that are no whole numbers (at byte 17)"},
        {INDEX("\1", "\4", "\2", "\10"), 0, 24,
         "has numbers of sequences and documents that do not fit its size (at byte 18)"},
        {INDEX("\1", "\4", "\3", "\7"), 0, 24,
         "has a sequence that does not begin where the one before it ends (at byte 54)"},
        {INDEX("\1", "\4", "\3", "\10"), 0, 28, "describes 24 bytes, of 28 that the .bin file has"},
        {INDEX("\1", "\4", "\3", "\10"), 0, 20,
         "describes at least 24 bytes, of 20 that the .bin file has"},
        {INDEX("\1", "\4", "\3", "\10"), 80, 24,
         "does not begin with MMIDIDX, as Megatron-LM's indices do (at byte 0)"},
    };
    (void)state;
    struct token_layout layout;
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        size_t bytes = sizeof INDEX("\1", "\4", "\3", "\10") - 1 - WRONG[i].cut;
        assert_refused(megatron_index_parse("x.idx", (const uint8_t *)WRONG[i].index, bytes,
                                            WRONG[i].bin_bytes, &layout),
                       WEFT_BAD_INPUT, WRONG[i].message);
    }
}

static void tokens_are_in_range(void **state)
{
    static const int32_t TOKENS[] = {1, 2, -1};
    const char *path = put_file(*state, "limits.bin", (uint8_t[]){1, 0, 10, 0, 2, 0}, 6);
    struct token_source *source = open_tokens(path, TOKENS_UINT16, 10);
    int32_t found[3];
    assert_ok(token_source_read(source, 2, 1, found));
    assert_int_equal(found[0], 2);
    assert_refused(token_source_read(source, 0, 3, found), WEFT_BAD_INPUT,
                   "token 1 at byte 2 (format uint16) is 10, expected 0 to 9");
    assert_refused(token_source_read(source, 2, 2, found), WEFT_BAD_INPUT,
                   "has 3 tokens, none at 3");
    assert_refused(token_source_read(source, -1, 1, found), WEFT_BAD_INPUT,
                   "has 3 tokens, none at -1");
    assert_refused(token_source_read(source, INT64_MAX, 1, found), WEFT_BAD_INPUT,
                   arena_printf(((struct scratch *)*state)->arena, "has 3 tokens, none at %lld",
                                (long long)INT64_MAX));
    token_source_close(source);
    path = put_file(*state, "negative.bin", TOKENS, sizeof TOKENS);
    source = open_tokens(path, TOKENS_UINT32, 0);
    assert_refused(token_source_read(source, 0, 3, found), WEFT_BAD_INPUT,
                   "token 2 at byte 8 (format uint32) is 4294967295, expected 0 to 2147483647");
    token_source_close(source);
}

static void formats_have_names(void **state)
{
    (void)state;
    enum token_format format;
    for (int i = 0; i < TOKENS_FORMAT_COUNT; i++)
        assert_true(token_format_from_name(token_format_name((enum token_format)i), &format) &&
                    format == (enum token_format)i);
    assert_false(token_format_from_name("uint8", &format));
    assert_string_equal(token_format_near("unit16"), "uint16");
}

/* ---- order of samples ------------------------------------------------------------------------ */

static void assert_permutation(int64_t count, uint64_t seed, int64_t epoch)
{
    struct permutation permutation = permutation_new(count, seed, epoch);
    bool *seen = calloc((size_t)count, sizeof *seen);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = permutation_at(&permutation, i);
        if (at < 0 || at >= count || seen[at])
            fail_msg("count %lld: %lld is not new", (long long)count, (long long)at);
        seen[at] = true;
    }
    free(seen);
}

static void every_epoch_has_every_sample_once(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int64_t count = 1; count <= 300; count++) {
        uint64_t seed = rng_next(&rng);
        assert_permutation(count, seed, (int64_t)rng_below(&rng, 10));
    }
    for (int i = rounds_of(20); i > 0; i--) {
        int64_t count = 1 + rng_below(&rng, 100000);
        assert_permutation(count, rng_next(&rng), i);
    }
    struct permutation large = permutation_new(INT64_C(1) << 61, 3, 0);
    for (int64_t i = 0; i < 1000; i++)
        assert_in_range(permutation_at(&large, i), 0, (INT64_C(1) << 61) - 1);
}

/* Where sample 0 goes, over many seeds: each of 12 places as often as the others. Of 24,000 draws
 * each has 2,000, give or take sqrt(24000 * 11/12 / 12) = 43; five of those are 215. */
static void seeds_reach_every_place(void **state)
{
    (void)state;
    int seen[12][12] = {0};
    for (uint64_t seed = 0; seed < 24000; seed++) {
        struct permutation permutation = permutation_new(12, seed, 0);
        for (int i = 0; i < 12; i++)
            seen[i][permutation_at(&permutation, i)]++;
    }
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < 12; k++)
            assert_in_range(seen[i][k], 2000 - 215, 2000 + 215);
}

/* Neighbours must not stay neighbours: of 10,000 samples about one pair does by chance. */
static void order_is_no_order(void **state)
{
    (void)state;
    int neighbours = 0, same = 0;
    struct permutation first = permutation_new(10000, 7, 0), second = permutation_new(10000, 7, 1);
    for (int64_t i = 0; i + 1 < 10000; i++) {
        neighbours += permutation_at(&first, i + 1) == permutation_at(&first, i) + 1;
        same += permutation_at(&first, i) == permutation_at(&second, i);
    }
    assert_in_range(neighbours, 0, 8);
    assert_in_range(same, 0, 8);
}

/* 1001 tokens, windows of 10: 100 windows, of which round(100 * 0.15) = 15 at the end validate. */
static void samples_are_windows(void **state)
{
    (void)state;
    struct sample_order order, again;
    bool seen[85] = {0};
    assert_ok(order_new("x", 1001, 10, 0.15, 42, &order));
    assert_int_equal(order.training, 85);
    assert_int_equal(order.validation, 15);
    assert_int_equal(order_validation(&order, 0), 850);
    assert_int_equal(order_validation(&order, 14), 990); /* and its last target is token 1000 */
    for (int64_t i = 85; i < 170; i++) {
        int64_t first = order_training(&order, i);
        assert_true(first % 10 == 0 && first < 850 && !seen[first / 10]);
        seen[first / 10] = true;
    }
    int64_t forward[300];
    for (int64_t i = 0; i < 300; i++)
        forward[i] = order_training(&order, i);
    assert_ok(order_new("x", 1001, 10, 0.15, 42, &again)); /* one that is asked from the end */
    for (int64_t i = 300; i-- > 0;)
        assert_int_equal(order_training(&again, i), forward[i]);
    assert_ok(order_new("x", 11, 10, 0, 1, &order));
    assert_int_equal(order.training, 1);
    assert_int_equal(order_training(&order, 5), 0);
}

static void too_little_text_is_refused(void **state)
{
    (void)state;
    struct sample_order order;
    assert_refused(order_new("x", 10, 10, 0, 1, &order), WEFT_BAD_INPUT,
                   "x: holds 10 tokens, expected at least 11 for one sample");
    assert_refused(order_new("x", 0, 10, 0, 1, &order), WEFT_BAD_INPUT,
                   "x: holds 0 tokens, expected at least 11 for one sample");
    assert_refused(order_new("x", 21, 10, 0.9, 1, &order), WEFT_BAD_INPUT,
                   "x: holds 2 samples of 10 tokens; a fraction of 0.9 leaves none for training");
    assert_refused(order_new("x", 21, 10, 0.1, 1, &order), WEFT_BAD_INPUT,
                   "x: holds 2 samples of 10 tokens; a fraction of 0.1 leaves none for validation");
    assert_refused(order_new("x", 21, 10, 1, 1, &order), WEFT_BAD_INPUT,
                   "a validation fraction of 1, expected 0 or more and below 1");
}

/* ---- rates ----------------------------------------------------------------------------------- */

static void assert_near(double found, double expected, double within)
{
    if (!(fabs(found - expected) <= within))
        fail_msg("found %.17g, expected %.17g", found, expected);
}

static void rates_follow_their_shapes(void **state)
{
    (void)state;
    /* peak 1, least 0.2, warm-up 4, 12 steps: t = (s - 4) / 8 */
    static const struct {
        enum rate_shape shape;
        int64_t step;
        double rate;
    } ROWS[] = {
        {RATE_CONSTANT, 0, 0.25},
        {RATE_CONSTANT, 2, 0.75},
        {RATE_CONSTANT, 3, 1},
        {RATE_CONSTANT, 4, 1},
        {RATE_CONSTANT, 99, 1},
        {RATE_LINEAR, 1, 0.5},
        {RATE_LINEAR, 4, 1},   /* t = 0 */
        {RATE_LINEAR, 6, 0.8}, /* 0.2 + 0.8 * 3/4 */
        {RATE_LINEAR, 8, 0.6}, /* 0.2 + 0.8 * 1/2 */
        {RATE_LINEAR, 12, 0.2},
        {RATE_LINEAR, 13, 0.2},                   /* t = 1 */
        {RATE_COSINE, 4, 1},                      /* cos 0 = 1 */
        {RATE_COSINE, 6, 0.88284271247461900976}, /* 0.2 + 0.8 * (1 + sqrt(1/2)) / 2 */
        {RATE_COSINE, 8, 0.6},                    /* cos(pi/2) = 0 */
        {RATE_COSINE, 12, 0.2},
        {RATE_COSINE, 500, 0.2},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct rate_schedule rate = {ROWS[i].shape, 1, 0.2, 4, 12};
        assert_ok(rate_check(&rate));
        assert_near(rate_at(&rate, ROWS[i].step), ROWS[i].rate, 1e-15);
    }
    struct rate_schedule all_warmup = {RATE_COSINE, 2, 0, 5, 5}, none = {RATE_LINEAR, 2, 1, 0, 1};
    assert_near(rate_at(&all_warmup, 4), 2, 0);
    assert_near(rate_at(&all_warmup, 5), 0, 1e-15);
    assert_near(rate_at(&none, 0), 2, 0);
}

static void wrong_rates_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct rate_schedule rate;
        const char *message;
    } WRONG[] = {
        {{RATE_COSINE, 0, 0, 0, 10}, "a learning rate of 0, expected one above 0"},
        {{RATE_COSINE, NAN, 0, 0, 10}, "a learning rate of nan, expected one above 0"},
        {{RATE_COSINE, 1, 2, 0, 10}, "a least learning rate of 2 is not between 0 and 1"},
        {{RATE_COSINE, 1, -1, 0, 10}, "a least learning rate of -1 is not between 0 and 1"},
        {{RATE_COSINE, 1, 0, 11, 10},
         "a warm-up over 11 steps, expected 0 to the 10 steps of the run"},
    };
    for (size_t i = 0; i < COUNT_OF(WRONG); i++)
        assert_refused(rate_check(&WRONG[i].rate), WEFT_BAD_INPUT, WRONG[i].message);
    enum rate_shape shape;
    for (int i = 0; i < RATE_SHAPE_COUNT; i++)
        assert_true(rate_shape_from_name(rate_shape_name((enum rate_shape)i), &shape) &&
                    shape == (enum rate_shape)i);
    assert_false(rate_shape_from_name("step", &shape));
    assert_string_equal(rate_shape_near("cosin"), "cosine");
}

static void gradients_are_clipped(void **state)
{
    (void)state;
    assert_near(clip_factor(4, 1), 0.25, 0);
    assert_near(clip_factor(1, 1), 1, 0);
    assert_near(clip_factor(0, 1), 1, 0);
    assert_near(clip_factor(100, 0), 1, 0);
    assert_near(clip_factor(INFINITY, 1), 0, 0);
    assert_true(isnan(clip_factor(NAN, 1)));
}

/* ---- the log --------------------------------------------------------------------------------- */

#define LOG_HEADER    "step\tloss\trate\tgrad_norm\ttokens_per_s\tmemory_bytes\tvalidation_loss\n"
#define LOG_ROW(step) step "\t2.50000125\t0.001\t0.75\t1234.5\t4096\t\n"

static void write_steps(const char *path, int64_t last_step, int64_t first, int64_t last)
{
    struct arena *arena = arena_new();
    struct run_log log;
    assert_ok(log_open(arena, path, last_step, &log));
    for (int64_t step = first; step <= last; step++)
        assert_ok(log_write(
            &log, &(struct log_row){step, 2.50000125, 0.001, 0.75, 1234.5, 4096, step == 4, 2.75}));
    log_close(&log);
    arena_free(arena);
}

static void assert_file(struct scratch *scratch, const char *path, const char *expected)
{
    char *text;
    size_t len;
    assert_ok(file_read(scratch->arena, path, 1 << 20, &text, &len));
    assert_string_equal(text, expected);
}

static void a_resumed_log_is_that_of_one_run(void **state)
{
    const char *path = scratch_path(*state, "log.tsv");
    write_steps(path, 0, 1, 3);
    assert_file(*state, path, LOG_HEADER LOG_ROW("1") LOG_ROW("2") LOG_ROW("3"));
    write_steps(path, 2, 3, 5); /* the checkpoint was of step 2 */
    assert_file(*state, path,
                LOG_HEADER LOG_ROW("1") LOG_ROW("2")
                    LOG_ROW("3") "4\t2.50000125\t0.001\t0.75\t1234.5\t4096\t2.75\n" LOG_ROW("5"));
    assert_int_equal(truncate(path, (off_t)strlen(LOG_HEADER LOG_ROW("1")) + 5), 0); /* killed */
    write_steps(path, 2, 3, 3);
    assert_file(*state, path, LOG_HEADER LOG_ROW("1") LOG_ROW("3"));
    assert_int_equal(truncate(path, 9), 0); /* killed in its first line */
    write_steps(path, 7, 8, 8);
    assert_file(*state, path, LOG_HEADER LOG_ROW("8"));
    write_steps(path, 0, 1, 1); /* from the beginning */
    assert_file(*state, path, LOG_HEADER LOG_ROW("1"));
}

/* Whatever is cut off a log of steps 1 .. 6, and wherever one resumes: whole lines up to there. */
static void any_cut_leaves_whole_lines(void **state)
{
    (void)state;
    static const char WHOLE[] =
        LOG_HEADER LOG_ROW("1") LOG_ROW("2") LOG_ROW("3") LOG_ROW("4") LOG_ROW("5") LOG_ROW("6");
    size_t head = strlen(LOG_HEADER), row = strlen(LOG_ROW("1"));
    for (size_t len = 0; len < sizeof WHOLE; len++)
        for (int64_t last = 0; last <= 7; last++) {
            size_t kept, rows = len < head ? 0 : (len - head) / row;
            assert_ok(log_kept("x", WHOLE, len, last, &kept));
            rows = rows < (size_t)last ? rows : (size_t)last;
            assert_int_equal(kept, len < head ? 0 : head + rows * row);
        }
}

static void other_files_are_no_log(void **state)
{
    struct arena *arena = ((struct scratch *)*state)->arena;
    struct run_log log;
    static const struct {
        const char *text, *message;
    } WRONG[] = {
        {"name\tvalue\n", "log:1: is no log of Weft: its first line is another"},
        {LOG_HEADER "x\t1\n", "log:2: does not begin with a step"},
        {LOG_HEADER "\n", "log:2: does not begin with a step"},
        {LOG_HEADER LOG_ROW("3") LOG_ROW("3"), "log:3: step 3 is not after step 3"},
    };
    for (size_t i = 0; i < COUNT_OF(WRONG); i++) {
        const char *path = put_file(*state, "wrong-log", WRONG[i].text, strlen(WRONG[i].text));
        assert_refused(log_open(arena, path, 9, &log), WEFT_BAD_INPUT, WRONG[i].message);
        assert_file(*state, path, WRONG[i].text); /* and left as it was */
    }
    assert_refused(log_open(arena, "/nowhere/log", 0, &log), WEFT_FAILURE,
                   "/nowhere/log: cannot be opened for writing: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_a_text_are_tokens),
        cmocka_unit_test(plain_tokens_have_a_width),
        cmocka_unit_test(written_tokens_are_read),
        cmocka_unit_test(megatron_sequences_are_one),
        cmocka_unit_test(wrong_token_files_are_refused),
        cmocka_unit_test(wrong_indices_are_refused),
        cmocka_unit_test(tokens_are_in_range),
        cmocka_unit_test(formats_have_names),
        cmocka_unit_test(every_epoch_has_every_sample_once),
        cmocka_unit_test(seeds_reach_every_place),
        cmocka_unit_test(order_is_no_order),
        cmocka_unit_test(samples_are_windows),
        cmocka_unit_test(too_little_text_is_refused),
        cmocka_unit_test(rates_follow_their_shapes),
        cmocka_unit_test(wrong_rates_are_refused),
        cmocka_unit_test(gradients_are_clipped),
        cmocka_unit_test(a_resumed_log_is_that_of_one_run),
        cmocka_unit_test(any_cut_leaves_whole_lines),
        cmocka_unit_test(other_files_are_no_log),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}

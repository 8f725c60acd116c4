/* test_base.c - units, containers, numbers, names, files: what every other room stands on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdalign.h>
#include <unistd.h>

#include "base/base.h"

static int new_arena(void **state)
{
    *state = arena_new();
    return 0;
}

static int free_arena(void **state)
{
    arena_free(*state);
    return 0;
}

/* ---- arenas, arrays, maps -------------------------------------------------------------------- */

static void memory_is_zeroed_and_aligned(void **state)
{
    struct arena *arena = *state;
    struct rng rng;
    rng_seed(&rng, 1);
    size_t before = arena_bytes(arena), total = 0;
    for (int i = 0; i < 2000; i++) {
        size_t size = (size_t)rng_below(&rng, i % 100 ? 200 : 100000);
        char *memory = arena_alloc(arena, size, 1);
        assert_int_equal((uintptr_t)memory % alignof(max_align_t), 0);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(memory[k], 0);
        if (size)
            memset(memory, 0xff, size); /* the next piece must not see this */
        total += size;
    }
    assert_true(arena_bytes(arena) - before >= total);
    arena_free(NULL);
}

/* Several arenas at a time, of which one ends in each round: what it had is cut into smaller pieces for the others. */
static void memory_that_was_given_back_is_zero_again(void **state)
{
    enum { ARENAS = 4, ROUNDS = 60, PIECES = 12 };
    struct arena *arena[ARENAS] = {0};
    struct rng rng;
    (void)state;
    rng_seed(&rng, 2);
    for (int round = 0; round < ROUNDS; round++) {
        int ends = (int)rng_below(&rng, ARENAS);
        arena_free(arena[ends]);
        arena[ends] = arena_new();
        for (int i = 0; i < PIECES; i++) {
            size_t size = (size_t)1 << rng_below(&rng, i ? 18 : 23);
            char *memory = arena_alloc(arena[ends], size, 1);
            for (size_t k = 0; k < size; k += 8)
                assert_false(memory[k]);
            memset(memory, 0xff, size);
        }
    }
    for (int i = 0; i < ARENAS; i++)
        arena_free(arena[i]);
}

/* Arrays that grow in turn, and alone: each keeps what was put into it, and is where its size may be. */
static void arrays_grow_beside_others(void **state)
{
    enum { ARRAYS = 3, COUNT = 20000 };
    struct arena *arena = *state;
    ARRAY(int64_t) array[ARRAYS] = {0};
    for (int64_t i = 0; i < COUNT; i++)
        for (int a = 0; a < ARRAYS; a++)
            if (a == 0 || i < COUNT / 10 * a) {
                if (i == COUNT / 2)
                    array_expect(arena, &array[a], (size_t)COUNT);
                array_push(arena, &array[a], i * ARRAYS + a);
            }
    for (int a = 0; a < ARRAYS; a++) {
        assert_int_equal((uintptr_t)array[a].data % 64, 0);
        for (size_t i = 0; i < array[a].len; i++)
            assert_int_equal(array[a].data[i], (int64_t)i * ARRAYS + a);
        for (size_t i = array[a].len; i < array[a].cap; i++)
            assert_int_equal(array[a].data[i], 0);
    }
    assert_int_equal(array[0].len, COUNT);
}

static void text_is_copied(void **state)
{
    char text[] = "abc\0def";
    char *copy = arena_copy_bytes(*state, text, 7);
    text[0] = 'x';
    assert_memory_equal(copy, "abc\0def\0", 8);
    assert_string_equal(arena_copy_text(*state, ""), "");
    assert_string_equal(arena_printf(*state, "%d-%s", 7, "seven"), "7-seven");
    char *filled = arena_printf(*state, "%05000d", 1);
    assert_int_equal(strlen(filled), 5000);
}

static void arrays_grow(void **state)
{
    ARRAY(int) numbers = {0};
    for (int i = 0; i < 10000; i++)
        array_push(*state, &numbers, i);
    assert_int_equal(numbers.len, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(numbers.data[i], i);
}

static void maps_keep_what_was_put(void **state)
{
    enum { KEYS = 20000 };
    struct map *map = map_new(*state);
    int64_t value = -1;
    assert_false(map_get(map, "", &value));
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        assert_true(map_put(map, key, i)); /* the key is copied */
        assert_false(map_put(map, key, i * 2));
    }
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        assert_true(map_get(map, key, &value));
        assert_int_equal(value, i * 2);
    }
    assert_false(map_get(map, "k-1", &value));
    assert_true(map_put(map, "", 5));
    assert_true(map_get(map, "", &value) && value == 5);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void arithmetic_is_checked(void **state)
{
    (void)state;
    int64_t out;
    assert_true(checked_add(INT64_MAX - 1, 1, &out) && out == INT64_MAX);
    assert_false(checked_add(INT64_MAX, 1, &out));
    assert_false(checked_add(INT64_MIN, -1, &out));
    assert_true(checked_mul(INT64_C(1) << 31, INT64_C(1) << 31, &out) && out == INT64_C(1) << 62);
    assert_false(checked_mul(INT64_C(1) << 32, INT64_C(1) << 31, &out));
    assert_false(checked_mul(INT64_MIN, -1, &out));
    assert_int_equal(ceil_div(0, 3), 0);
    assert_int_equal(ceil_div(7, 7), 1);
    assert_int_equal(ceil_div(8, 7), 2);
    assert_int_equal(ceil_div(INT64_MAX, 2), INT64_MAX / 2 + 1);
    assert_int_equal(common_divisor(12, 18), 6);
    assert_int_equal(common_divisor(18, 12), 6);
    assert_int_equal(common_divisor(7, 5), 1);
    assert_int_equal(common_divisor(0, 5), 5);
    assert_int_equal(common_divisor(5, 0), 5);
}

static void divisors_come_in_order(void **state)
{
    (void)state;
    for (int64_t whole = 1; whole < 1000; whole++) {
        int64_t next = 1;
        for (int64_t d = 1; d <= whole; d++) {
            if (whole % d)
                continue;
            assert_int_equal(next, d);
            next = divisor_above(whole, d);
        }
        assert_int_equal(next, whole + 1);
    }
    assert_int_equal(divisor_above(INT32_MAX, 1), INT32_MAX); /* a prime */
}

static void dtypes_have_names(void **state)
{
    (void)state;
    /* fp8 and nvfp4 are cast for products, and kept in 16 bits */
    static const int BYTES[] = {4, 4, 2, 2, 2, 2};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype;
        assert_true(dtype_from_name(dtype_name((enum dtype)i), &dtype));
        assert_int_equal(dtype, i);
        assert_int_equal(dtype_bytes(dtype), BYTES[i]);
    }
    /* what a product reads of 16 numbers; a block of nvfp4 has 16 and a scale of one byte */
    static const double READ_BYTES[] = {64, 64, 32, 32, 16, 9};
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_float_equal(16 * dtype_cast_bytes((enum dtype)i), READ_BYTES[i], 0);
    enum dtype unused;
    assert_false(dtype_from_name("fp64", &unused));
    assert_false(dtype_from_name("", &unused));
    static const struct {
        const char *word;
        enum dtype dtype;
    } WORDS[] = {{"float32", DTYPE_FP32},  {"float16", DTYPE_FP16}, {"half", DTYPE_FP16},
                 {"bfloat16", DTYPE_BF16}, {"bf16", DTYPE_BF16},    {"float8", DTYPE_FP8},
                 {"fp4", DTYPE_NVFP4}};
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        enum dtype dtype = DTYPE_COUNT;
        assert_true(dtype_from_word(WORDS[i].word, &dtype));
        assert_int_equal(dtype, WORDS[i].dtype);
    }
    assert_false(dtype_from_word("float64", &unused));
    assert_false(dtype_from_name("bfloat16", &unused)); /* files of ours have names */
}

/* The sequence of xoshiro256** seeded by splitmix64 from 0, as other implementations have it. */
static void random_numbers_are_the_published_ones(void **state)
{
    (void)state;
    static const uint64_t PUBLISHED[] = {0x99ec5f36cb75f2b4u, 0xbf6e1f784956452au,
                                         0x1a5f849d4933e6e0u, 0x6aa594f1262d2d2cu};
    struct rng rng;
    rng_seed(&rng, 0);
    for (size_t i = 0; i < COUNT_OF(PUBLISHED); i++)
        assert_true(rng_next(&rng) == PUBLISHED[i]);
}

static void random_numbers_stay_in_range(void **state)
{
    (void)state;
    struct rng rng;
    int seen[7] = {0};
    double sum = 0;
    rng_seed(&rng, 42);
    for (int i = 0; i < 70000; i++) {
        int64_t below = rng_below(&rng, 7);
        double uniform = rng_uniform(&rng);
        assert_in_range(below, 0, 6);
        assert_true(uniform >= 0 && uniform < 1);
        seen[below]++;
        sum += uniform;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 9500, 10500); /* 10000 +- 5 standard deviations */
    assert_true(sum / 70000 > 0.494 && sum / 70000 < 0.506);
    assert_int_equal(rng_below(&rng, 1), 0);
    for (int i = 0; i < 100; i++)
        assert_true(rng_below(&rng, INT64_MAX) >= 0);
}

static void hashes_depend_on_seed_and_bytes(void **state)
{
    (void)state;
    assert_true(hash_bytes("abc", 3, 0) == hash_bytes("abcd", 3, 0));
    assert_true(hash_bytes("abc", 3, 0) != hash_bytes("abc", 3, 1));
    assert_true(hash_bytes("abc", 3, 0) != hash_bytes("abd", 3, 0));
}

/* ---- units ----------------------------------------------------------------------------------- */

static void sizes_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } ROWS[] = {
        {"0", 0},
        {"17", 17},
        {"80GiB", INT64_C(80) << 30},
        {"1.5 KiB", 1536},
        {"25GB", 25000000000},
        {"2TB", 2000000000000},
        {"1e3", 1000},
        {"1e3kB", 1000000},
        {"4TiB", INT64_C(4) << 40},
        {"12 MB", 12000000},
        {"1B", 1},
        {"", -1},
        {"GiB", -1},
        {"80 gib", -1},
        {"80GiBs", -1},
        {"80 GiB ", -1},
        {"1e30", -1},
        {"nan", -1},
        {"inf", -1},
        {"1e", -1},
        {"0x10", -1},
        {" 5", -1},
        {"--5", -1},
        {"5..0", -1},
        {"9999999999999999999999999999999999999999999999999999999999999999999999GiB", -1},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        int64_t bytes = -1;
        bool parsed = parse_bytes(ROWS[i].text, &bytes);
        if (parsed != (ROWS[i].bytes >= 0) || (parsed && bytes != ROWS[i].bytes))
            fail_msg("'%s' gave %lld", ROWS[i].text, (long long)bytes);
    }
}

/* Every unit by its factor, and none beyond 2^62. */
static void units_are_what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } BYTES[] = {{"1B", 1},
                 {"1kB", 1000},
                 {"1MB", 1000000},
                 {"1GB", 1000000000},
                 {"1KiB", 1 << 10},
                 {"1MiB", 1 << 20},
                 {"1GiB", 1 << 30},
                 {"3", 3},
                 {"1TB", INT64_C(1000000000000)},
                 {"1TiB", INT64_C(1) << 40}};
    static const struct {
        const char *text;
        double rate;
    } RATES[] = {{"1B/s", 1},     {"1kB/s", 1e3},     {"1MB/s", 1e6},     {"1GB/s", 1e9},
                 {"1TB/s", 1e12}, {"1MiB/s", 0x1p20}, {"1GiB/s", 0x1p30}, {"1TiB/s", 0x1p40},
                 {"8b/s", 1},     {"8Mb/s", 1e6},     {"8Gb/s", 1e9},     {"8Tb/s", 1e12}};
    static const struct {
        const char *text;
        int64_t ns;
    } TIMES[] = {{"1ns", 1},
                 {"1us", 1000},
                 {"1µs", 1000},
                 {"1ms", 1000000},
                 {"1s", 1000000000},
                 {"1min", INT64_C(60000000000)},
                 {"1h", INT64_C(3600000000000)},
                 {"1d", INT64_C(86400000000000)}};
    int64_t whole;
    double rate;
    for (size_t i = 0; i < COUNT_OF(BYTES); i++)
        assert_true(parse_bytes(BYTES[i].text, &whole) && whole == BYTES[i].bytes);
    for (size_t i = 0; i < COUNT_OF(RATES); i++)
        assert_true(parse_rate(RATES[i].text, &rate) && rate == RATES[i].rate);
    for (size_t i = 0; i < COUNT_OF(TIMES); i++)
        assert_true(parse_duration(TIMES[i].text, &whole) && whole == TIMES[i].ns);
    assert_true(parse_bytes("4194303TiB", &whole));
    assert_false(parse_bytes("4194304TiB", &whole));  /* 2^62 */
    assert_false(parse_bytes("16777216TiB", &whole)); /* 2^64: would be 0 */
}

static void rates_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double rate; /* -1: refused */
    } ROWS[] = {
        {"25GB/s", 25e9}, {"100Gb/s", 12.5e9}, {"1.5 TB/s", 1.5e12},
        {"8b/s", 1},      {"16GiB/s", 0x1p34}, {"25", -1},
        {"25GB", -1},     {"25 GB / s", -1},   {"", -1},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        double rate = -1;
        bool parsed = parse_rate(ROWS[i].text, &rate);
        if (parsed != (ROWS[i].rate >= 0) || (parsed && rate != ROWS[i].rate))
            fail_msg("'%s' gave %g", ROWS[i].text, rate);
    }
}

static void durations_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused */
    } ROWS[] = {
        {"5us", 5000},
        {"5µs", 5000},
        {"1.5ms", 1500000},
        {"2 s", 2000000000},
        {"3ns", 3},
        {"1min", 60000000000},
        {"1h", 3600000000000},
        {"5", -1},
        {"5m", -1},
        {"", -1},
        {"1e20h", -1},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        int64_t ns = -1;
        bool parsed = parse_duration(ROWS[i].text, &ns);
        if (parsed != (ROWS[i].ns >= 0) || (parsed && ns != ROWS[i].ns))
            fail_msg("'%s' gave %lld", ROWS[i].text, (long long)ns);
    }
}

static void plain_numbers_are_parsed(void **state)
{
    (void)state;
    int64_t whole;
    double real;
    assert_true(parse_int("-9223372036854775808", &whole) && whole == INT64_MIN);
    assert_true(parse_int("+7", &whole) && whole == 7);
    assert_false(parse_int("9223372036854775808", &whole));
    assert_false(parse_int("7.0", &whole));
    assert_false(parse_int(" 7", &whole));
    assert_false(parse_int("7 ", &whole));
    assert_false(parse_int("", &whole));
    assert_true(parse_real("-1.5e-3", &real) && real == -1.5e-3);
    assert_true(parse_real(".5", &real) && real == 0.5);
    assert_true(parse_many("15T", &real) && real == 15e12);
    assert_true(parse_many("1.5B", &real) && real == 1.5e9);
    assert_true(parse_many("300e9", &real) && real == 300e9);
    assert_false(parse_many("15 apples", &real));
    assert_false(parse_real("1e999", &real));
    assert_true(parse_percent("10%", &real) && real == 10);
    assert_true(parse_percent("2.5", &real) && real == 2.5);
    assert_false(parse_percent("%", &real) || parse_percent("10%%", &real));
    assert_false(parse_real("-inf", &real));
    assert_false(parse_real("+nan", &real));
    assert_false(parse_real(" 1", &real));
    assert_false(parse_real("1x", &real));
    assert_false(parse_real("", &real));
    assert_false(parse_real("-", &real));
}

static void numbers_are_shown_with_three_digits(void **state)
{
    (void)state;
    assert_string_equal(show_bytes(0).s, "0 B");
    assert_string_equal(show_bytes(1023).s, "1023 B");
    assert_string_equal(show_bytes(1024).s, "1.00 KiB");
    assert_string_equal(show_bytes(1.25 * (1 << 30)).s, "1.25 GiB");
    assert_string_equal(show_bytes(1023.99 * 1024).s, "1.00 MiB");
    assert_string_equal(show_bytes(-2048).s, "-2.00 KiB");
    assert_string_equal(show_rate(22.1e9).s, "22.1 GB/s");
    assert_string_equal(show_duration(3810000).s, "3.81 ms");
    assert_string_equal(show_duration(999.6).s, "1.00 us");
    assert_string_equal(show_duration(0).s, "0 ns");
    assert_string_equal(show_count(12.9e9).s, "12.9 B");
    assert_string_equal(show_count(345e6).s, "345 M");
    assert_string_equal(show_count(7).s, "7");
    assert_string_equal(show_count(0.187).s, "0.187");
    assert_string_equal(show_count(0.00755).s, "0.00755");
    assert_string_equal(show_flops(1.02e15).s, "1.02 PFLOP");
    assert_string_equal(show_energy(143.2e3).s, "143 kWh");
    assert_string_equal(show_seconds(59.9e9).s, "59.9 s");
    assert_string_equal(show_seconds(89.9e9).s, "89.9 s"); /* show_duration: 1.50 min */
    assert_string_equal(show_flop_rate(546.5e12).s, "546.5 TFLOP/s");
    assert_string_equal(show_flop_rate(1978.9e12).s, "1978.9 TFLOP/s");
    assert_string_equal(show_flop_rate(43.3e9).s, "43.3 GFLOP/s");
    assert_true(strlen(show_bytes(1e300).s) < sizeof(struct text32));
}

/* What rounds to nothing has no sign: neither "-0.0 %" nor "+0.0 %". */
static void changes_have_a_sign_or_are_nothing(void **state)
{
    (void)state;
    assert_string_equal(show_change(0.046).s, "+4.6 %");
    assert_string_equal(show_change(-0.206).s, "-20.6 %");
    assert_string_equal(show_change(-0.0004).s, "0.0 %");
    assert_string_equal(show_change(0.0004).s, "0.0 %");
    assert_string_equal(show_change(-0.0006).s, "-0.1 %");
}

static void nouns_are_counted(void **state)
{
    (void)state;
    assert_string_equal(counted(1, "sample").s, "1 sample");
    assert_string_equal(counted(0, "sample").s, "0 samples");
    assert_string_equal(counted(2, "micro-batch").s, "2 micro-batches");
    assert_string_equal(counted(1, "micro-batch").s, "1 micro-batch");
    assert_string_equal(counted(3, "pass").s, "3 passes");
    assert_true(strlen(counted(INT64_MIN, "micro-batch").s) < sizeof(struct text32));
}

/* The border to the terminal: what no name may bring there, each byte or character one question mark. */
static void names_reach_the_terminal_plainly(void **state)
{
    (void)state;
    static const struct {
        const char *text, *plain;
    } ROWS[] = {
        {"", ""},
        {"gpt3-13b 2 \u00b5s \u6a21\u578b e\u0301 \U0001f600",
         "gpt3-13b 2 \u00b5s \u6a21\u578b e\u0301 \U0001f600"},
        {"\033[31mred\033[0m", "?[31mred?[0m"},
        {"a\r\nb\tc\x7f\b", "a??b?c??"},
        {"\xc2\x85 \xc2\x9b"
         "31m",
         "? ?31m"}, /* C1: the next line, and a sequence of one character */
        {"\u202egpj.exe", "?gpj.exe"},
        {"\u2066x\u2069 \u200f \u061c \u2028", "?x? ? ? ?"},
        {"caf\xc3", "caf?"},          /* cut off */
        {"\xff\xfe", "??"},           /* never begins a character */
        {"\xc0\xaf", "??"},           /* a slash, written longer than it is */
        {"\xed\xa0\x80", "???"},      /* half of a pair */
        {"\xf4\x90\x80\x80", "????"}, /* above the last character */
        {"\xe2\x82x", "??x"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", ROWS[i].text);
        assert_int_equal(text_is_plain(text), strcmp(ROWS[i].text, ROWS[i].plain) == 0);
        plain_text(text);
        assert_string_equal(text, ROWS[i].plain);
        bad_input(ROWS[i].text, 1, ROWS[i].text, "%s", ROWS[i].text);
        assert_true(text_is_plain(weft_last_error()->message));
        assert_string_equal(weft_last_error()->hint, ROWS[i].plain);
        error_hint("%s", ROWS[i].text);
        assert_string_equal(weft_last_error()->hint, ROWS[i].plain);
    }
}

/* docs/reference/limits.md has every row of the table, in its words. */
static void limits_are_written_down(void **state)
{
    char *text;
    size_t len;
    assert_int_equal(
        file_read(*state, WEFT_SOURCE_DIR "/docs/reference/limits.md", 1 << 20, &text, &len),
        WEFT_OK);
    for (int i = 0; i < LIMIT_COUNT; i++) {
        const struct limit_row *row = limit_row((enum work_limit)i);
        char most[32], *digits = most + sizeof most - 1;
        *digits = '\0';
        int64_t rest = (int64_t)row->most;
        for (int place = 0; rest > 0; place++, rest /= 10) {
            if (place > 0 && place % 3 == 0)
                *--digits = ',';
            *--digits = (char)('0' + rest % 10);
        }
        const char *line = arena_printf(*state, "| %s | %s | %s | %s | %s |\n", row->what, digits,
                                        row->unit, row->why, row->instead);
        if (!strstr(text, line))
            fail_msg("docs/reference/limits.md lacks %s", line);
        assert_int_equal(over_limit((enum work_limit)i, 2 * row->most), WEFT_BAD_INPUT);
        assert_string_equal(weft_last_error()->hint, row->instead);
    }
}

static const char *nearest(const char *word)
{
    static const char *const WORDS[] = {"gpt", "llama", "bert", "resnet", "learning_rate"};
    const char *near = nearest_word(word, WORDS, COUNT_OF(WORDS));
    return near ? near : "(none)";
}

static void misspelt_words_are_guessed(void **state)
{
    (void)state;
    assert_string_equal(nearest("lama"), "llama");
    assert_string_equal(nearest("LLAMA"), "llama");
    assert_string_equal(nearest("gtp"), "gpt");
    assert_string_equal(nearest("resnett"), "resnet");
    assert_string_equal(nearest("learning_rat"), "learning_rate");
    static const char *const TWO[] = {"bent",
                                      "bert"}; /* two letters wrong, and two that changed places */
    assert_string_equal(nearest_word("betr", TWO, COUNT_OF(TWO)), "bert");
    assert_string_equal(nearest("leraning_rate"), "learning_rate");
    assert_string_equal(nearest("transformer"), "(none)");
    assert_string_equal(nearest(""), "(none)");
    assert_string_equal(nearest("x"), "(none)");
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_string_equal(nearest(longer), "(none)");
    assert_null(nearest_word("gpt", NULL, 0));
    static const char *const SIZES[] = {"qwen3-32b", "qwen3-30b-a3b", "qwen3-8b"};
    assert_string_equal(nearest_word("qwen3-30b", SIZES, COUNT_OF(SIZES)), "qwen3-30b-a3b");
    assert_string_equal(nearest_word("qwen3-33", SIZES, COUNT_OF(SIZES)), "qwen3-32b");
}

/* A table of words and one of rows: the name stands first. */
static void names_of_tables_are_found(void **state)
{
    static const char *const WORDS[] = {"one", "two", "three"};
    static const struct {
        const char *name;
        char odd[3];
    } ROWS[] = {{"alpha", "a"}, {"beta", "b"}};
    (void)state;
    assert_int_equal(NAME_INDEX("one", WORDS), 0);
    assert_int_equal(NAME_INDEX("three", WORDS), 2);
    assert_int_equal(NAME_INDEX("thre", WORDS), -1);
    assert_int_equal(NAME_INDEX("beta", ROWS), 1);
    assert_int_equal(NAME_INDEX("b", ROWS), -1);
    assert_int_equal(name_index("one", WORDS, sizeof *WORDS, 0), -1);
    assert_string_equal(NEAREST_NAME("bta", ROWS), "beta");
    assert_null(NEAREST_NAME("something", ROWS));
    bad_argument("as it was", "wrong");
    hint_near(NULL);
    assert_string_equal(weft_last_error()->hint, "as it was");
    hint_near("beta");
    assert_string_equal(weft_last_error()->hint, "did you mean 'beta'?");
    assert_int_equal(unknown_name("row", "alpa", ROWS, sizeof *ROWS, COUNT_OF(ROWS)),
                     WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message,
                        "no row is called 'alpa', expected one of alpha, beta");
    assert_string_equal(weft_last_error()->hint, "did you mean 'alpha'?");
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void errors_say_what_where_and_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(bad_input("f.yaml", 7, "try %d", "has %d", 3), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "f.yaml:7: has 3");
    assert_string_equal(weft_last_error()->hint, "try %d"); /* a hint is no format */
    assert_int_equal(bad_input("f.yaml", 0, NULL, "x"), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "f.yaml: x");
    assert_null(weft_last_error()->hint);
    assert_int_equal(failure("no %s", "luck"), WEFT_FAILURE);
    assert_string_equal(weft_last_error()->message, "no luck");
    assert_int_equal(no_answer("h", "n"), WEFT_NO_ANSWER);
    error_hint("%s!", weft_last_error()->hint);
    assert_int_equal(bad_argument(weft_last_error()->hint, "again: %s", weft_last_error()->message),
                     WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "again: n");
    error_clear();
    assert_int_equal(weft_last_error()->status, WEFT_OK);
    assert_string_equal(weft_last_error()->message, "");
    char longer[5000];
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    bad_input(longer, 1, longer, "%s", longer);
    assert_true(strlen(weft_last_error()->message) < 1024);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    failure("elsewhere");
    return NULL;
}

static void errors_belong_to_their_thread(void **state)
{
    (void)state;
    pthread_t thread;
    failure("here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(weft_last_error()->message, "here");
}

/* ---- files ----------------------------------------------------------------------------------- */

static void lines_of_csv_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        size_t count;
        const char *fields[4];
    } ROWS[] = {
        {"", 1, {""}},
        {"a", 1, {"a"}},
        {"a,b,c", 3, {"a", "b", "c"}},
        {",", 2, {"", ""}},
        {"a,,c", 3, {"a", "", "c"}},
        {"\"a,b\",c", 2, {"a,b", "c"}},
        {"\"say \"\"hi\"\"\",x", 2, {"say \"hi\"", "x"}},
        {"\"\",x", 2, {"", "x"}},
        {"\"open,x", 1, {"open,x"}},
        {"\"a\"b,c", 2, {"ab", "c"}},
        {"a\"b,c", 2, {"a\"b", "c"}},
        {"1,2,3,4,5", 4, {"1", "2", "3", "4"}},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char line[64], *fields[4];
        snprintf(line, sizeof line, "%s", ROWS[i].line);
        assert_int_equal(csv_split(line, fields, 4), ROWS[i].count);
        for (size_t k = 0; k < ROWS[i].count; k++)
            assert_string_equal(fields[k], ROWS[i].fields[k]);
    }
}

static void files_are_read_whole(void **state)
{
    char path[] = "/tmp/weft-base-XXXXXX", *text;
    size_t len;
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, "a\0b", 3), 3);
    close(file);
    assert_int_equal(file_read(*state, path, 3, &text, &len), WEFT_OK);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b\0", 4);
    assert_int_equal(file_read(*state, path, 2, &text, &len), WEFT_BAD_INPUT);
    unlink(path);
    assert_int_equal(file_read(*state, path, 3, &text, &len), WEFT_BAD_INPUT);
    assert_int_equal(file_read(*state, "/tmp", 3, &text, &len), WEFT_BAD_INPUT);
    assert_string_equal(weft_last_error()->message, "/tmp: is a folder, expected a file");
}

/* Asked before long work: no place, a folder, a device, a file that would be new. */
static void places_to_write_are_known(void **state)
{
    static const struct {
        const char *path, *message; /* NULL: there is a place */
    } PLACES[] = {
        {NULL, NULL},
        {"/dev/null", NULL},
        {WEFT_SOURCE_DIR "/LICENSE", NULL},
        {"new-file", NULL},
        {"/nonexistent/x", "/nonexistent/x: cannot be written: No such file or directory"},
        {"/dev", "/dev: cannot be written: Is a directory"},
        {"/dev/null/x", "/dev/null/x: cannot be written: Not a directory"},
    };
    (void)state;
    assert_int_equal(chdir("/tmp"), 0);
    for (size_t i = 0; i < COUNT_OF(PLACES); i++) {
        weft_status status = file_writable(PLACES[i].path);
        assert_int_equal(status, PLACES[i].message ? WEFT_BAD_INPUT : WEFT_OK);
        if (status)
            assert_string_equal(weft_last_error()->message, PLACES[i].message);
    }
}

#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, new_arena, free_arena)

/* ---- tables ---------------------------------------------------------------------------------- */

/* What a short row lacks is empty, whatever the row before had there. */
static void short_rows_end_in_empty_fields(void **state)
{
    char text[] = "a,b,c\n1,2,3\n4\n";
    struct csv csv;
    (void)state;
    assert_int_equal(csv_open(&csv, "t.csv", text, strlen(text)), WEFT_OK);
    assert_int_equal(csv_next(&csv), 3);
    assert_string_equal(csv.field[2], "3");
    assert_int_equal(csv_next(&csv), 1);
    assert_string_equal(csv.field[0], "4");
    assert_string_equal(csv.field[1], "");
    assert_string_equal(csv.field[2], "");
    assert_int_equal(csv_next(&csv), -1);
}

static weft_status take_row(void *context, const struct csv *csv, const int *at)
{
    double *sum = context, real;
    weft_status status = csv_real(csv, at[0], REAL_POSITIVE, &real);
    *sum += status ? 0 : real;
    if (!status)
        status = csv_real(csv, at[1], REAL_NOT_NEGATIVE, &real);
    *sum += status ? 0 : real;
    return status;
}

/* Each row has the header's fields, no more and no less, and numbers that can be measured. */
static void tables_are_read_row_by_row(void **state)
{
    (void)state;
    static const char *const COLUMNS[] = {"a", "b"};
    static const struct {
        const char *text;
        double sum;
        const char *message; /* NULL: read */
    } ROWS[] = {
        {"a,b\n1,2\n3,0\n", 6, NULL},
        {"b,a\n1,2\n\n3,4\n", 10, NULL},
        {"a,b\n1,2,3\n", 0, "t.csv:2: has 3 fields, expected the 2 of the header"},
        {"a,b\n1\n", 0, "t.csv:2: has 1 fields, expected the 2 of the header"},
        {"a,b\n0,1\n", 0, "t.csv:2: a is '0', expected a number above 0 and up to 1e12"},
        {"a,b\n1,-1\n", 0, "t.csv:2: b is '-1', expected a number from 0 to 1e12"},
        {"a,b\n1e12,1\n", 1e12 + 1, NULL},
        {"a,b\n1.1e12,1\n", 0, "t.csv:2: a is '1.1e12', expected a number above 0 and up to 1e12"},
        {"a,b,a\n", 0, "t.csv:1: column 'a' appears twice"},
        {"a,a\n", 0, "t.csv:1: column 'a' appears twice"},
        {"a\n", 0, "t.csv:1: column 'b' is missing"},
        {"a,b,c\n", 0, "t.csv:1: unknown column 'c'"},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        char text[64];
        struct csv csv;
        double sum = 0;
        snprintf(text, sizeof text, "%s", ROWS[i].text);
        weft_status status = csv_open(&csv, "t.csv", text, strlen(text));
        if (!status)
            status = csv_read(&csv, COLUMNS, COUNT_OF(COLUMNS), take_row, &sum);
        assert_int_equal(status, ROWS[i].message ? WEFT_BAD_INPUT : WEFT_OK);
        if (ROWS[i].message)
            assert_string_equal(weft_last_error()->message, ROWS[i].message);
        else
            assert_true(sum == ROWS[i].sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_read_row_by_row),
        WITH_ARENA(memory_is_zeroed_and_aligned),
        cmocka_unit_test(memory_that_was_given_back_is_zero_again),
        WITH_ARENA(arrays_grow_beside_others),
        WITH_ARENA(text_is_copied),
        WITH_ARENA(arrays_grow),
        WITH_ARENA(maps_keep_what_was_put),
        cmocka_unit_test(arithmetic_is_checked),
        cmocka_unit_test(divisors_come_in_order),
        cmocka_unit_test(dtypes_have_names),
        cmocka_unit_test(random_numbers_are_the_published_ones),
        cmocka_unit_test(random_numbers_stay_in_range),
        cmocka_unit_test(hashes_depend_on_seed_and_bytes),
        cmocka_unit_test(sizes_are_parsed),
        cmocka_unit_test(units_are_what_they_say),
        cmocka_unit_test(rates_are_parsed),
        cmocka_unit_test(durations_are_parsed),
        cmocka_unit_test(plain_numbers_are_parsed),
        cmocka_unit_test(numbers_are_shown_with_three_digits),
        cmocka_unit_test(changes_have_a_sign_or_are_nothing),
        cmocka_unit_test(nouns_are_counted),
        WITH_ARENA(limits_are_written_down),
        cmocka_unit_test(names_reach_the_terminal_plainly),
        cmocka_unit_test(misspelt_words_are_guessed),
        cmocka_unit_test(names_of_tables_are_found),
        cmocka_unit_test(errors_say_what_where_and_what_to_do),
        cmocka_unit_test(errors_belong_to_their_thread),
        cmocka_unit_test(lines_of_csv_are_split),
        cmocka_unit_test(short_rows_end_in_empty_fields),
        WITH_ARENA(files_are_read_whole),
        cmocka_unit_test(places_to_write_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* drawn.h - the numbers of cases that are drawn by a seed, held to a file: a line for each case, with its digest.
 *
 * Tests of two ways to one number allow for a difference between them. A fault that stays within it, or is in both,
 * shows here: every number of a case is as it was. Where rounds are fewer, so are the lines that are compared.
 *
 *   sum   of weight * log2(1 + |number| / 1e-9) (digest.h), of times in units of 10 us, of bytes in units of 10 kB, so
 *         that a nanosecond, which processors may round apart, does not count and 0.1 % of a number do
 *
 * After an intended change `WEFT_RECORD=1 build/tests/test_NAME` writes the program's file anew. */
#ifndef WEFT_TESTS_DRAWN_H
#define WEFT_TESTS_DRAWN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "digest.h"

static const double DRAWN_NOTICED = 2e-3;

struct drawn {
    struct arena *arena;
    const char *path;
    char *kept;  /* the file's text; NULL: it is written */
    FILE *write; /* NULL: it is compared */
    int changed;
};

/* A file of tests/data/drawn. */
static void drawn_open(struct drawn *d, const char *name)
{
    size_t len;
    *d = (struct drawn){.arena = arena_new()};
    d->path = arena_printf(d->arena, "%s/tests/data/drawn/%s", WEFT_SOURCE_DIR, name);
    if (getenv("WEFT_RECORD"))
        assert_non_null(d->write = fopen(d->path, "w"));
    if (d->write)
        fprintf(d->write, "# Numbers of drawn cases, in short; drawn.h says how.");
    else
        assert_int_equal(file_read(d->arena, d->path, 1 << 22, &d->kept, &len), WEFT_OK);
}

/* Nanoseconds or bytes. */
static inline void drawn_number(struct digest *digest, int64_t number)
{
    digest_number(digest, (double)number * 1e-13);
}

static inline void drawn_numbers(struct digest *digest, const int64_t *number, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        drawn_number(digest, number[i]);
}

/* Holds case `number` of those that are called `name`. */
static inline void drawn_case(struct drawn *d, const char *name, int number, struct digest digest)
{
    char key[80];
    int numbers = 0;
    double sum = 0;
    snprintf(key, sizeof key, "\n%s %d: ", name, number);
    if (d->write) {
        fprintf(d->write, "%s%d numbers %.4f", key, digest.numbers, digest.sum);
        return;
    }
    const char *at = strstr(d->kept, key);
    if (at && sscanf(at + strlen(key), "%d numbers %lf", &numbers, &sum) == 2 &&
        numbers == digest.numbers && fabs(sum - digest.sum) <= DRAWN_NOTICED)
        return;
    printf("%s:%swas %d numbers %.4f, is %d numbers %.4f\n", d->path, key, numbers, sum,
           digest.numbers, digest.sum);
    d->changed++;
}

/* The same of numbers that processors make alike but for rounding, with a hash of all that they make alike exactly. */
static inline void drawn_exactly(struct drawn *d, const char *name, int number,
                                 struct digest digest)
{
    char key[80];
    unsigned words = 0;
    double sum = 0;
    snprintf(key, sizeof key, "\n%s %d: ", name, number);
    if (d->write) {
        fprintf(d->write, "%ssum %.5f words %08x", key, digest.sum, digest.words);
        return;
    }
    const char *at = strstr(d->kept, key);
    if (at && sscanf(at + strlen(key), "sum %lf words %x", &sum, &words) == 2 &&
        words == digest.words && fabs(sum - digest.sum) <= 10 * NOTICED)
        return;
    printf("%s:%swas sum %.5f words %08x, is sum %.5f words %08x\n", d->path, key, sum, words,
           digest.sum, digest.words);
    d->changed++;
}

/* How many cases are not as they were. */
static int drawn_close(struct drawn *d)
{
    if (d->write)
        assert_true(fputc('\n', d->write) != EOF && fclose(d->write) == 0);
    arena_free(d->arena);
    return d->changed;
}

#endif

/* choices.c - algorithms of products that were chosen by measuring (choices.h). */
#include "run/kernels/cuda/choices.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

#define WIDE(name)  {#name, offsetof(struct gemm, name), sizeof(int64_t)}
#define SHORT(name) {#name, offsetof(struct gemm, name), sizeof(int32_t)}
static const struct {
    const char *name;
    size_t offset, bytes;
} FIELDS[] = {
    WIDE(m),       WIDE(n),       WIDE(k),       WIDE(a_step),  WIDE(b_step),    WIDE(c_step),
    WIDE(batch),   WIDE(a_apart), WIDE(b_apart), WIDE(c_apart), SHORT(a_turned), SHORT(b_turned),
    SHORT(biased), SHORT(in),     SHORT(out),    SHORT(a_unit), SHORT(b_unit),   SHORT(c_unit),
    SHORT(a_cast), SHORT(b_cast), SHORT(scaled), SHORT(listed),
};

static int64_t field_of(const struct gemm *gemm, size_t i)
{
    const char *from = (const char *)gemm + FIELDS[i].offset;
    int64_t wide;
    int32_t narrow;
    if (FIELDS[i].bytes == sizeof wide) {
        memcpy(&wide, from, sizeof wide);
        return wide;
    }
    memcpy(&narrow, from, sizeof narrow);
    return narrow;
}

static void set_field(struct gemm *gemm, size_t i, int64_t value)
{
    int32_t narrow = (int32_t)value;
    memcpy((char *)gemm + FIELDS[i].offset,
           FIELDS[i].bytes == sizeof value ? (const void *)&value : &narrow, FIELDS[i].bytes);
}

/* "m=768 n=16384 ... in=bf16": what is zero is left out. */
const char *gemm_text(struct arena *keep, const struct gemm *gemm)
{
    const char *text = arena_printf(keep, "in=%s out=%s", dtype_name((enum dtype)gemm->in),
                                    dtype_name((enum dtype)gemm->out));
    for (size_t i = 0; i < COUNT_OF(FIELDS); i++) {
        bool type = FIELDS[i].offset == offsetof(struct gemm, in) ||
                    FIELDS[i].offset == offsetof(struct gemm, out);
        if (!type && field_of(gemm, i) != 0)
            text = arena_printf(keep, "%s %s=%lld", text, FIELDS[i].name,
                                (long long)field_of(gemm, i));
    }
    return text;
}

static bool take_word(const char *word, struct gemm *out)
{
    const char *value = strchr(word, '=');
    size_t len = value ? (size_t)(value - word) : 0;
    for (size_t i = 0; value && i < COUNT_OF(FIELDS); i++) {
        enum dtype dtype;
        int64_t number;
        if (strlen(FIELDS[i].name) != len || strncmp(FIELDS[i].name, word, len) != 0)
            continue;
        if (dtype_from_name(value + 1, &dtype))
            number = (int64_t)dtype;
        else if (!parse_int(value + 1, &number) || number < 0)
            return false;
        set_field(out, i, number);
        return true;
    }
    return false;
}

bool gemm_from_text(const char *text, struct gemm *out)
{
    struct arena *scratch = arena_new();
    char *rest = arena_copy_text(scratch, text);
    bool good = true;
    *out = (struct gemm){0};
    for (char *word; good && (word = strsep(&rest, " ")) != NULL;)
        good = take_word(word, out);
    arena_free(scratch);
    return good && out->m > 0 && out->n > 0 && out->k > 0 && out->batch > 0;
}

const char *algorithm_text(struct arena *keep, const uint64_t *algorithm)
{
    const char *text = "";
    for (int i = 0; i < ALGORITHM_WORDS; i++)
        text = arena_printf(keep, "%s%016llx", text, (unsigned long long)algorithm[i]);
    return text;
}

bool algorithm_from_text(const char *text, uint64_t *out)
{
    enum { DIGITS = 16 };
    char word[DIGITS + 1] = "";
    if (strlen(text) != (size_t)ALGORITHM_WORDS * DIGITS ||
        strspn(text, "0123456789abcdef") != strlen(text))
        return false;
    for (int i = 0; i < ALGORITHM_WORDS; i++) {
        memcpy(word, text + (size_t)i * DIGITS, DIGITS);
        out[i] = strtoull(word, NULL, 16);
    }
    return true;
}

/* ---- the list -------------------------------------------------------------------------------- */

static struct {
    struct arena *arena;
    ARRAY(struct chosen_gemm) all;
} list;

struct gemm choice_key(const struct gemm *gemm)
{
    enum { MOST = 16 };
    struct gemm key = *gemm;
    key.a_unit = key.a_unit < MOST ? key.a_unit : MOST;
    key.b_unit = key.b_unit < MOST ? key.b_unit : MOST;
    key.c_unit = key.c_unit < MOST ? key.c_unit : MOST;
    return key;
}

const struct chosen_gemm *choice_of(const struct gemm *gemm)
{
    struct gemm key = choice_key(gemm);
    for (size_t i = 0; i < list.all.len; i++)
        if (memcmp(&list.all.data[i].gemm, &key, sizeof key) == 0)
            return &list.all.data[i];
    return NULL;
}

void choice_add(const struct chosen_gemm *chosen)
{
    if (!list.arena)
        list.arena = arena_new();
    struct chosen_gemm one = *chosen;
    one.gemm = choice_key(&chosen->gemm);
    array_push(list.arena, &list.all, one);
}

size_t choices_found(struct arena *keep, size_t first, struct product_choice **out)
{
    ARRAY(struct product_choice) found = {0};
    size_t number = 0;
    for (size_t i = 0; i < list.all.len; i++) {
        const struct chosen_gemm *one = &list.all.data[i];
        if (!one->found || number++ < first)
            continue;
        struct product_choice choice = {.product = gemm_text(keep, &one->gemm),
                                        .algorithm = algorithm_text(keep, one->algorithm),
                                        .place = one->place,
                                        .ns = one->ns,
                                        .first_ns = one->first_ns};
        array_push(keep, &found, choice);
    }
    *out = found.data;
    return found.len;
}

/* ---- the decision ---------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of_rounds(const double *seconds)
{
    double sorted[CHOICE_ROUNDS];
    memcpy(sorted, seconds, sizeof sorted);
    qsort(sorted, CHOICE_ROUNDS, sizeof *sorted, by_value);
    return sorted[CHOICE_ROUNDS / 2];
}

/* I2 */
static bool is_quicker(const double *way, const double *first)
{
    enum { ROUNDS_AHEAD = 13 };
    static const double MARGIN = 0.01;
    int ahead = 0;
    for (int r = 0; r < CHOICE_ROUNDS; r++)
        ahead += way[r] < (1 - MARGIN) * first[r];
    return ahead >= ROUNDS_AHEAD;
}

int quickest_way(int ways, double seconds[][CHOICE_ROUNDS])
{
    int best = 0;
    for (int w = 1; w < ways; w++)
        if (is_quicker(seconds[w], seconds[0]) &&
            median_of_rounds(seconds[w]) < median_of_rounds(seconds[best]))
            best = w;
    return best;
}

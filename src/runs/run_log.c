/* run_log.c - iterations in what Megatron-LM and torchtitan print (runs.h).
 *
 *   Megatron-LM   iteration 20/ 100 | ... elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 400.1 |
 *                 [Rank 3] (after 2 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5 | reserved: 3 | max reserved: 4 |
 *   torchtitan    step: 20  loss: 7.0  memory: 40.10GiB(42.19%)  tps: 5,801  tflops: 335.8  mfu: 33.96%
 *
 *   I1  Colours of a terminal are left out, and so are lines without a speed.
 *   I2  The answer is the median over the lines after the first WARM_UP, or over all where there are no more.
 *   I3  Memory is the most that a rank had reserved where ranks say so in lines of their own.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runs/runs_room.h"

enum { MAX_LOG_BYTES = 256 << 20, WARM_UP = 2 };
static const double LARGEST = 1e12; /* nothing that is logged comes near it */

static const struct {
    const char *before; /* what stands before the number */
    enum log_number number;
    double unit;
} WORDS[] = {
    {"elapsed time per iteration (ms):", LOG_SECONDS, 1e-3},
    {"throughput per GPU (TFLOP/s/GPU):", LOG_DEVICE_TFLOPS, 1},
    {"tflops:", LOG_DEVICE_TFLOPS, 1},
    {"tps:", LOG_DEVICE_TOKENS, 1},
    {"memory:", LOG_MEMORY_BYTES, 0x1p30},
    {"max reserved:", LOG_RANK_BYTES, 0x1p20},
};

struct log_line {
    double value[LOG_NUMBERS];
};
struct log_lines {
    struct log_line *data;
    size_t len, cap;
};

/* I1: removes escape sequences in place. */
static void drop_colours(char *line)
{
    char *to = line;
    for (const char *c = line; *c;) {
        if (*c == '\033' && c[1] == '[') {
            c += 2;
            while (*c && !isalpha((unsigned char)*c))
                c++;
            c += *c != '\0';
        } else {
            *to++ = *c++;
        }
    }
    *to = '\0';
}

/* A number after blanks, with commas between thousands; 0 if there is none. */
static double number_at(const char *text)
{
    char digits[40];
    size_t len = 0;
    text += strspn(text, " \t");
    for (; len + 1 < sizeof digits && *text && strchr("0123456789.,eE+-", *text); text++)
        if (*text != ',')
            digits[len++] = *text;
    digits[len] = '\0';
    double value;
    return parse_real(digits, &value) && value > 0 && value < LARGEST ? value : 0;
}

/* Whether the line has a speed. */
static bool read_line(char *line, struct log_line *out)
{
    *out = (struct log_line){{0}};
    drop_colours(line);
    for (size_t w = 0; w < COUNT_OF(WORDS); w++) {
        const char *at = strstr(line, WORDS[w].before);
        bool whole = at && (at == line || !isalnum((unsigned char)at[-1]));
        if (whole)
            out->value[WORDS[w].number] = number_at(at + strlen(WORDS[w].before)) * WORDS[w].unit;
    }
    return out->value[LOG_SECONDS] > 0 || out->value[LOG_DEVICE_TOKENS] > 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* I2; 0 if no line has it. */
static double median_of(struct arena *scratch, const struct log_lines *lines, int number)
{
    size_t from = lines->len > WARM_UP ? WARM_UP : 0, count = 0;
    double *value = ARENA_ARRAY(scratch, double, lines->len + 1);
    for (size_t i = from; i < lines->len; i++)
        if (lines->data[i].value[number] > 0)
            value[count++] = lines->data[i].value[number];
    qsort(value, count, sizeof *value, by_value);
    return count ? (value[(count - 1) / 2] + value[count / 2]) / 2 : 0;
}

weft_status run_log_parse(const char *file, char *text, size_t len, struct framework_log *out)
{
    struct arena *scratch = arena_new();
    struct log_lines lines = {0};
    struct log_line one;
    char *rest = text, *line;
    double reserved = 0; /* I3 */
    weft_status status = WEFT_OK;
    *out = (struct framework_log){0};
    if (strlen(text) != len)
        TRY(bad_input(file, 0, NULL, "contains a NUL byte, expected a log"));
    while ((line = strsep(&rest, "\n")) != NULL)
        if (read_line(line, &one))
            array_push(scratch, &lines, one);
        else
            reserved = fmax(reserved, one.value[LOG_RANK_BYTES]);
    if (lines.len == 0)
        TRY(bad_input(file, 0,
                      "a log of Megatron-LM or torchtitan, or the trace of `weft train --trace`",
                      "has no line with 'elapsed time per iteration (ms):' or 'tps:'"));
    out->lines = (int64_t)(lines.len > WARM_UP ? lines.len - WARM_UP : lines.len);
    for (int n = 0; n < LOG_NUMBERS; n++)
        out->value[n] = median_of(scratch, &lines, n);
    if (reserved > 0)
        out->value[LOG_MEMORY_BYTES] = reserved;
done:
    arena_free(scratch);
    return status;
}

weft_status run_log_read(struct arena *scratch, const char *path, struct framework_log *out)
{
    char *text;
    size_t len;
    weft_status status = file_read(scratch, path, MAX_LOG_BYTES, &text, &len);
    return status ? status : run_log_parse(path, text, len, out);
}

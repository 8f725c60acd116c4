/* units.c - reads and writes numbers with their units. */
#include "base/base.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    double factor;
};

static const struct unit SIZES[] = {
    {"B", 1},        {"kB", 1e3},   {"MB", 1e6},           {"GB", 1e9},
    {"TB", 1e12},    {"KiB", 1024}, {"MiB", 1024 * 1024.}, {"GiB", 1024 * 1024. * 1024},
    {"TiB", 0x1p40}, {"", 1},
};
static const struct unit RATES[] = {
    {"B/s", 1},      {"kB/s", 1e3},     {"MB/s", 1e6},     {"GB/s", 1e9},
    {"TB/s", 1e12},  {"MiB/s", 0x1p20}, {"GiB/s", 0x1p30}, {"TiB/s", 0x1p40},
    {"b/s", 1 / 8.}, {"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8}, {"Tb/s", 1e12 / 8},
};
/* As people count tokens and parameters. */
static const struct unit COUNTS[] = {
    {"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12},
};
static const struct unit DURATIONS[] = {
    {"ns", 1},  {"us", 1e3},   {"µs", 1e3},   {"ms", 1e6},
    {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9},
};

bool parse_int(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (end == text || *end || errno || isspace((unsigned char)*text))
        return false;
    *value = parsed;
    return true;
}

bool parse_real(const char *text, double *value)
{
    char *end;
    if (!isdigit((unsigned char)*text) && !strchr("+-.", *text))
        return false; /* strtod also takes "nan", "inf" and leading space */
    double parsed = strtod(text, &end);
    if (end == text || *end || !isfinite(parsed))
        return false;
    *value = parsed;
    return true;
}

bool parse_percent(const char *text, double *value)
{
    char number[64];
    size_t len = strlen(text);
    if (len > 1 && text[len - 1] == '%')
        len--;
    if (len >= sizeof number)
        return false;
    memcpy(number, text, len);
    number[len] = '\0';
    return parse_real(number, value);
}

static bool parse_unit(const char *text, const struct unit *units, size_t count, double *value)
{
    char number[64];
    size_t len = strspn(text, "+-.0123456789eE");
    while (len > 0 && isalpha((unsigned char)text[len - 1]))
        len--; /* the e of an exponent needs digits after it */
    if (len == 0 || len >= sizeof number)
        return false;
    memcpy(number, text, len);
    number[len] = '\0';
    text += len;
    text += strspn(text, " ");
    double parsed;
    if (!parse_real(number, &parsed))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, units[i].name) == 0) {
            *value = parsed * units[i].factor;
            return true;
        }
    }
    return false;
}

static bool to_int64(double value, int64_t *out)
{
    if (!(fabs(value) < 0x1p62))
        return false;
    *out = llround(value);
    return true;
}

bool parse_bytes(const char *text, int64_t *bytes)
{
    double value;
    return parse_unit(text, SIZES, COUNT_OF(SIZES), &value) && to_int64(value, bytes);
}

bool parse_rate(const char *text, double *bytes_per_s)
{
    return parse_unit(text, RATES, COUNT_OF(RATES), bytes_per_s);
}

bool parse_duration(const char *text, int64_t *ns)
{
    double value;
    return parse_unit(text, DURATIONS, COUNT_OF(DURATIONS), &value) && to_int64(value, ns);
}

bool parse_many(const char *text, double *value)
{
    return parse_unit(text, COUNTS, COUNT_OF(COUNTS), value);
}

/* Digits after the point of which three significant ones remain; below 10^-6 fewer do. */
static int digits_after_point(double size)
{
    int digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    for (; size > 0 && size < 0.9995 && digits < 8; size *= 10)
        digits++;
    return digits;
}

/* Three significant digits in the largest unit that leaves at least one before the point, or in the smallest. */
static struct text32 show(double value, const struct unit *units, size_t count)
{
    size_t i = 0;
    while (i + 1 < count && fabs(value) >= units[i + 1].factor * 0.9995)
        i++;
    double scaled = value / units[i].factor;
    int digits = digits_after_point(fabs(scaled));
    if (scaled == 0 || (units[i].factor == 1 && scaled == floor(scaled)))
        digits = 0;
    struct text32 text;
    const char *space = units[i].name[0] ? " " : "";
    snprintf(text.s, sizeof text.s, "%.*f%s%s", digits, scaled, space, units[i].name);
    return text;
}

struct text32 show_bytes(double bytes)
{
    static const struct unit UNITS[] = {
        {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    return show(bytes, UNITS, COUNT_OF(UNITS));
}

struct text32 show_rate(double bytes_per_s)
{
    static const struct unit UNITS[] = {
        {"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
    return show(bytes_per_s, UNITS, COUNT_OF(UNITS));
}

struct text32 show_duration(double ns)
{
    static const struct unit UNITS[] = {{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                                        {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
    return show(ns, UNITS, COUNT_OF(UNITS));
}

struct text32 show_seconds(double ns)
{
    struct text32 text;
    if (ns < 59.95e9)
        return show_duration(ns);
    snprintf(text.s, sizeof text.s, "%.1f s", ns * 1e-9);
    return text;
}

struct text32 show_count(double count)
{
    static const struct unit UNITS[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
    return show(count, UNITS, COUNT_OF(UNITS));
}

struct text32 show_flops(double flops)
{
    static const struct unit UNITS[] = {{"FLOP", 1},    {"KFLOP", 1e3},  {"MFLOP", 1e6},
                                        {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15},
                                        {"EFLOP", 1e18}};
    return show(flops, UNITS, COUNT_OF(UNITS));
}

struct text32 show_energy(double wh)
{
    static const struct unit UNITS[] = {
        {"Wh", 1}, {"kWh", 1e3}, {"MWh", 1e6}, {"GWh", 1e9}, {"TWh", 1e12}};
    return show(wh, UNITS, COUNT_OF(UNITS));
}

/* One digit after the point in the largest unit that leaves one before it; TFLOP/s at most, in which devices are
 * compared. */
struct text32 show_flop_rate(double flops_per_s)
{
    static const struct unit UNITS[] = {
        {"FLOP/s", 1}, {"KFLOP/s", 1e3}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}};
    size_t i = 0;
    while (i + 1 < COUNT_OF(UNITS) && flops_per_s >= UNITS[i + 1].factor * 0.9995)
        i++;
    struct text32 text;
    snprintf(text.s, sizeof text.s, "%.1f %s", flops_per_s / UNITS[i].factor, UNITS[i].name);
    return text;
}

struct text32 show_change(double share)
{
    double tenths = round(1000 * share);
    struct text32 text;
    snprintf(text.s, sizeof text.s, tenths == 0 ? "0.0 %%" : "%+.1f %%", tenths / 10);
    return text;
}

/* The plural is regular, with "es" after ch, sh, s or x. */
struct text32 counted(int64_t count, const char *noun)
{
    size_t len = strlen(noun);
    char last = len > 0 ? noun[len - 1] : '\0', before = len > 1 ? noun[len - 2] : '\0';
    bool hisses = last == 's' || last == 'x' || (last == 'h' && (before == 'c' || before == 's'));
    struct text32 text;
    snprintf(text.s, sizeof text.s, "%lld %s%s", (long long)count, noun,
             count == 1 ? ""
             : hisses   ? "es"
                        : "s");
    return text;
}

/* run_units.c - numbers that carry their unit: "5.1 s", "38k tok/s", "148 GB", "1,250".
 *
 *   value = number * (unit of the field, or that of its heading)                                  (1)
 *
 *   I1  Commas part thousands: groups of three digits after a first one of up to three. Others are none of a number.
 *   I2  A unit is one that the heading's quantity may have, in any case and with blanks anywhere; those of a device are not
 *       taken for all devices.
 */
#include <ctype.h>
#include <string.h>

#include "runs/runs_room.h"

enum { LONGEST = 48 }; /* characters of a number or a unit: none comes near it */

struct unit {
    const char *words;
    double factor;
};
enum { UNITS = 6 };
/* Steps, iterations and devices may follow a slash, where they say no more than the column does. */
static const struct unit OF[QUANTITIES][UNITS] = {
    [QUANTITY_SECONDS] = {{"s sec secs second seconds s/it s/iter s/step sec/step", 1},
                          {"ms msec millisecond milliseconds ms/it ms/iter ms/step", 1e-3},
                          {"us", 1e-6},
                          {"m min mins minute minutes", 60}},
    [QUANTITY_RATE] = {{"/s tok/s tokens/s tok/sec tokens/sec tokens/second tps samples/s "
                        "samples/sec sequences/s images/s",
                        1},
                       {"k k/s ktok/s ktokens/s ktok/sec ktokens/sec", 1e3},
                       {"m m/s mtok/s mtokens/s mtok/sec mtokens/sec", 1e6}},
    [QUANTITY_DEVICE_RATE] = {{"/s tok/s tokens/s tok/sec tokens/sec tokens/second tps samples/s "
                               "samples/sec tok/s/gpu tokens/s/gpu tok/sec/gpu tokens/sec/gpu "
                               "samples/s/gpu tok/s/device tokens/s/device",
                               1},
                              {"k k/s ktok/s ktokens/s ktok/s/gpu ktokens/s/gpu", 1e3},
                              {"m", 1e6}},
    [QUANTITY_TFLOPS] = {{"tflops tflop/s tflops/s tflops/gpu tflop/s/gpu tflops/s/gpu "
                          "tflop/s/device",
                          1},
                         {"pflops pflop/s pflops/s pflops/gpu pflop/s/gpu", 1e3},
                         {"gflops gflop/s gflops/s", 1e-3}},
    [QUANTITY_BYTES] = {{"gib g", 0x1p30},
                        {"gb", 1e9},
                        {"mib", 0x1p20},
                        {"mb", 1e6},
                        {"tb", 1e12},
                        {"b bytes", 1}},
};

/* The number's characters, without the commas of thousands; their length in the text, 0: it is none (I1). */
static size_t take_number(const char *text, char out[static LONGEST])
{
    size_t len = strspn(text, "0123456789.,+-"), to = 0, group = 0, commas = 0;
    if ((text[len] == 'e' || text[len] == 'E') &&
        (isdigit((unsigned char)text[len + 1]) || strchr("+-", text[len + 1])))
        len += 1 + strspn(text + len + 1, "0123456789+-");
    if (len == 0 || len >= LONGEST)
        return 0;
    for (size_t i = 0; i < len; i++) {
        bool comma = text[i] == ',', ends = comma || !isdigit((unsigned char)text[i]);
        if (ends && commas && group != 3)
            return 0;
        if (comma && (group < 1 || group > 3))
            return 0;
        commas = comma ? commas + 1 : ends ? 0 : commas;
        group = ends ? 0 : group + 1;
        if (!comma)
            out[to++] = text[i];
    }
    out[to] = '\0';
    return commas && group != 3 ? 0 : len;
}

/* I2; -1: it has none of these units. */
static double unit_factor(enum quantity quantity, const char *text)
{
    char word[LONGEST];
    size_t len = 0;
    for (; *text && len + 1 < sizeof word; text++)
        if (*text != ' ')
            word[len++] = (char)tolower((unsigned char)*text);
    word[len] = '\0';
    for (int i = 0; i < UNITS; i++)
        if (OF[quantity][i].words && has_word(OF[quantity][i].words, word))
            return OF[quantity][i].factor;
    return -1;
}

bool quantity_parse(enum quantity quantity, double unit, const char *text, double *out)
{
    char number[LONGEST];
    size_t len = take_number(text, number);
    const char *rest = text + len + strspn(text + len, " ");
    double factor = *rest ? unit_factor(quantity, rest) : unit;
    if (len == 0 || factor < 0 || !parse_real(number, out))
        return false;
    *out *= factor;
    return true;
}

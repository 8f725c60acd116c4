/* json.c - makes JSON from values that JSON cannot hold unchanged. */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

json_t *json_whole(double value)
{
    return value < 0x1p53 ? json_integer((json_int_t)value) : json_real(value);
}

json_t *json_text(const char *text)
{
    json_t *json = json_string(text);
    if (json)
        return json;
    size_t len = strlen(text);
    char *ascii = strdup(text);
    for (size_t i = 0; ascii && i < len; i++)
        if ((unsigned char)ascii[i] >= 0x80)
            ascii[i] = '?';
    json = json_string(ascii ? ascii : "?");
    free(ascii);
    return json;
}

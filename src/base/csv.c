/* csv.c - a CSV file with a header line, read row by row, with errors that name line and column.
 *
 *   I1  Every row has as many fields as the header; any other row is an error, so a file that was
 *       cut off in the middle of a row is noticed.
 *   I2  Numbers are finite, not negative, and not beyond anything that can be measured.
 */
#include <jansson.h>
#include <string.h>

#include "base/base.h"

static const double LARGEST = 1e12; /* no time, size or rate comes near it, in any table's unit */

/* The next line that is not blank, without its line end; NULL at the end of the text. */
static char *next_line(struct csv *csv)
{
    while (*csv->next) {
        char *line = csv->next, *end = strchrnul(line, '\n');
        csv->next = *end ? end + 1 : end;
        if (end > line && end[-1] == '\r')
            end--;
        *end = '\0';
        csv->line++;
        if (line[strspn(line, " \t")] != '\0')
            return line;
    }
    return NULL;
}

static bool is_utf8(const char *text, size_t len)
{
    json_t *copy = json_stringn(text, len); /* refuses text that is not UTF-8 */
    json_decref(copy);
    return copy != NULL;
}

weft_status csv_open(struct csv *csv, const char *file, char *text, size_t len)
{
    static const char BYTE_ORDER_MARK[] = "\xef\xbb\xbf";
    *csv = (struct csv){.file = file, .next = text};
    if (strlen(text) != len)
        return bad_input(file, 0, NULL, "contains a NUL byte, expected text");
    if (!is_utf8(text, len))
        return bad_input(file, 0, NULL, "is not UTF-8 text");
    if (strncmp(text, BYTE_ORDER_MARK, 3) == 0)
        csv->next += 3;
    char *line = next_line(csv);
    if (!line)
        return bad_input(file, 0, NULL, "is empty, expected a line of column names");
    csv->columns = csv_split(line, csv->header, CSV_MAX_FIELDS);
    for (size_t i = 0; i < csv->columns; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(csv->header[i], csv->header[j]) == 0)
                return bad_input(file, csv->line, NULL, "column '%s' appears twice",
                                 csv->header[i]);
    return WEFT_OK;
}

int csv_column(const struct csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (strcmp(csv->header[i], name) == 0)
            return (int)i;
    return -1;
}

static const char *bare(const char *column)
{
    return column + (*column == '?');
}

static weft_status unknown_column(const struct csv *csv, const char *column,
                                  const char *const *columns, size_t count)
{
    const char *names[CSV_MAX_FIELDS];
    for (size_t i = 0; i < count; i++)
        names[i] = bare(columns[i]);
    weft_status status = bad_input(csv->file, csv->line, NULL, "unknown column '%s'", column);
    hint_near(nearest_word(column, names, count));
    return status;
}

static int find_column(const char *column, const char *const *columns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(column, bare(columns[i])) == 0)
            return (int)i;
    return -1;
}

static weft_status bind_columns(const struct csv *csv, const char *const *columns, size_t count,
                                int *at)
{
    for (size_t i = 0; i < count; i++)
        at[i] = -1;
    for (size_t i = 0; i < csv->columns; i++) {
        int column = find_column(csv->header[i], columns, count);
        if (column < 0)
            return unknown_column(csv, csv->header[i], columns, count);
        at[column] = (int)i;
    }
    for (size_t i = 0; i < count; i++)
        if (at[i] < 0 && *columns[i] != '?')
            return bad_input(csv->file, csv->line, NULL, "column '%s' is missing", columns[i]);
    return WEFT_OK;
}

int csv_next(struct csv *csv)
{
    static char none[] = "";
    char *line = next_line(csv);
    if (!line)
        return -1;
    csv->rows++;
    size_t fields = csv_split(line, csv->field, CSV_MAX_FIELDS);
    for (size_t i = fields; i < CSV_MAX_FIELDS; i++)
        csv->field[i] = none;
    return (int)fields;
}

static weft_status next_row(struct csv *csv, bool *more)
{
    int fields = csv_next(csv);
    *more = fields >= 0;
    if (fields < 0 || (size_t)fields == csv->columns)
        return WEFT_OK;
    bool last = *csv->next == '\0';
    return bad_input(csv->file, csv->line, last ? "is the file cut short?" : NULL,
                     "has %d fields, expected the %zu of the header", fields, csv->columns);
}

weft_status csv_error(const struct csv *csv, int at, const char *hint, const char *expected)
{
    return bad_input(csv->file, csv->line, hint, "%s is '%.100s', expected %s", csv->header[at],
                     csv->field[at], expected);
}

weft_status csv_int(const struct csv *csv, int at, int64_t least, int64_t *out)
{
    if (parse_int(csv->field[at], out) && *out >= least && *out <= (int64_t)1 << 50)
        return WEFT_OK;
    return csv_error(csv, at, NULL, least == 0 ? "a whole number" : "a whole number of at least 1");
}

weft_status csv_real(const struct csv *csv, int at, enum real_range range, double *out)
{
    static const char *const EXPECTED[] = {
        [REAL_POSITIVE] = "a number above 0 and up to 1e12",
        [REAL_NOT_NEGATIVE] = "a number from 0 to 1e12",
    };
    bool number = parse_real(csv->field[at], out) && *out <= LARGEST;
    if (number && (*out > 0 || (*out == 0 && range == REAL_NOT_NEGATIVE)))
        return WEFT_OK;
    return csv_error(csv, at, NULL, EXPECTED[range]);
}

weft_status csv_read(struct csv *csv, const char *const *columns, size_t count, csv_row_reader *row,
                     void *context)
{
    int at[CSV_MAX_FIELDS];
    bool more = true;
    weft_status status = bind_columns(csv, columns, count, at);
    while (status == WEFT_OK) {
        status = next_row(csv, &more);
        if (status != WEFT_OK || !more)
            break;
        status = row(context, csv, at);
    }
    return status;
}

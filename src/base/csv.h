/* csv.h - a CSV file with a header line, one row at a time. */
#ifndef WEFT_BASE_CSV_H
#define WEFT_BASE_CSV_H

#include "base/base.h"

enum { CSV_MAX_FIELDS = 64 };
struct csv {
    const char *file;
    char *next;
    int line;
    int64_t rows; /* rows read so far */
    size_t columns;
    char *header[CSV_MAX_FIELDS];
    char *field[CSV_MAX_FIELDS];
};
weft_status csv_open(struct csv *csv, const char *file, char *text, size_t len);
int csv_column(const struct csv *csv, const char *name); /* -1: none */
/* The next row that is not blank, whatever its number of fields, which is returned; -1 after the last. Missing fields are empty. */
int csv_next(struct csv *csv);

/* Calls `row` for every row. Every column must be one of `columns`, and each of these without a
 * leading '?' must be present; at[i] is the position of columns[i], or -1. */
typedef weft_status csv_row_reader(void *context, const struct csv *csv, const int *at);
weft_status csv_read(struct csv *csv, const char *const *columns, size_t count, csv_row_reader *row,
                     void *context);

weft_status csv_int(const struct csv *csv, int at, int64_t least, int64_t *out); /* least 0 or 1 */
enum real_range { REAL_POSITIVE, REAL_NOT_NEGATIVE };
weft_status csv_real(const struct csv *csv, int at, enum real_range range, double *out);
weft_status csv_error(const struct csv *csv, int at, const char *hint, const char *expected);

#endif

/* table.c - tables for a terminal.
 *
 *   width = sum_c w_c + GAP (columns - 1),    w_c = the widest cell of column c             (1)
 *
 *   I1  All text that is measured and printed is valid UTF-8 without control characters (base/plain.c).
 *   I2  No printed line is wider than REPORT_COLUMNS, unless (1) is too wide even with every w_c at
 *       LEAST_WIDTH. No w_c is cut below MIN_WIDTH unless (1) would be too wide otherwise.
 *   I3  No printed line ends in blanks.
 *   I4  A column without text below its header is not printed, unless the table has no rows.
 */
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "report/report.h"

enum { GAP = 2, MIN_WIDTH = 8, LEAST_WIDTH = 6 };

struct table {
    struct arena *arena;
    size_t columns;
    const enum align *aligns;
    ARRAY(char *) cells;      /* the header line first */
    ARRAY(size_t) ruled_rows; /* rows (0: the header) with a line above them, ascending */
};

/* ---- text ------------------------------------------------------------------------------------ */

/* The C library knows which characters are wide, combining or invisible, but only in a UTF-8 locale.
 * A library must not change the locale of its program, so the calling thread switches for a while. */
struct utf8_scope {
    locale_t utf8, before;
};

/* The process keeps it: to read its file again for every table takes longer than the table. */
static locale_t utf8;
static void find_utf8(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static struct utf8_scope utf8_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_utf8);
    struct utf8_scope scope = {utf8, (locale_t)0};
    if (scope.utf8)
        scope.before = uselocale(scope.utf8);
    return scope;
}

static void utf8_leave(struct utf8_scope scope)
{
    if (scope.utf8)
        uselocale(scope.before);
}

/* The next character: its bytes and its columns, or -1 columns if a terminal cannot show it. */
static size_t next_char(const char *text, int *columns)
{
    mbstate_t state = {0};
    wchar_t c;
    if (*text >= ' ' && *text <= '~') { /* most of them */
        *columns = 1;
        return 1;
    }
    size_t len = mbrtowc(&c, text, strlen(text), &state);
    if (len == (size_t)-1 || len == (size_t)-2 || len == 0) {
        *columns = -1;
        return 1;
    }
    *columns = wcwidth(c);
    return len;
}

/* The columns of the longest beginning of the text that is no wider than `limit`; *bytes is set to its length. */
static size_t measure(const char *text, size_t limit, size_t *bytes)
{
    size_t columns = 0, at = 0;
    while (text[at]) {
        int wide;
        size_t len = next_char(text + at, &wide);
        size_t added = wide < 0 ? 1 : (size_t)wide;
        if (columns + added > limit)
            break;
        columns += added;
        at += len;
    }
    *bytes = at;
    return columns;
}

/* Whether a text has printable characters of ASCII alone, which have a column each: to open a locale takes longer than
 * to measure hundreds of them. */
static bool is_plain(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return !*text;
}

size_t text_columns(const char *text)
{
    size_t bytes;
    if (is_plain(text))
        return strlen(text);
    struct utf8_scope scope = utf8_enter();
    size_t columns = measure(text, SIZE_MAX, &bytes);
    utf8_leave(scope);
    return columns;
}

/* ---- filling --------------------------------------------------------------------------------- */

struct table *table_new(struct arena *arena, size_t columns, const char *const *headers,
                        const enum align *aligns)
{
    struct table *table = ARENA_NEW(arena, struct table);
    enum align *own = ARENA_ARRAY(arena, enum align, columns);
    memcpy(own, aligns, columns * sizeof *own);
    table->arena = arena;
    table->columns = columns;
    table->aligns = own;
    for (size_t c = 0; c < columns; c++)
        array_push(arena, &table->cells, arena_copy_text(arena, headers[c]));
    table_rule(table);
    return table;
}

void table_cell(struct table *table, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = arena_vprintf(table->arena, fmt, args);
    va_end(args);
    array_push(table->arena, &table->cells, text);
}

static size_t row_count(const struct table *table)
{
    return (table->cells.len + table->columns - 1) / table->columns;
}

void table_rule(struct table *table)
{
    size_t row = row_count(table), rules = table->ruled_rows.len;
    if (rules == 0 || table->ruled_rows.data[rules - 1] != row)
        array_push(table->arena, &table->ruled_rows, row);
}

/* ---- printing -------------------------------------------------------------------------------- */

static bool has_text(const struct table *table, size_t column)
{
    for (size_t i = table->columns + column; i < table->cells.len; i += table->columns)
        if (*table->cells.data[i])
            return true;
    return table->cells.len <= table->columns;
}

/* The table without the columns that I4 leaves out. */
static struct table *with_text(const struct table *table)
{
    struct table *out = ARENA_NEW(table->arena, struct table);
    enum align *aligns = ARENA_ARRAY(table->arena, enum align, table->columns);
    bool *stays = ARENA_ARRAY(table->arena, bool, table->columns);
    *out = (struct table){table->arena, .aligns = aligns, .ruled_rows = table->ruled_rows};
    for (size_t c = 0; c < table->columns; c++) {
        stays[c] = has_text(table, c);
        if (stays[c])
            aligns[out->columns++] = table->aligns[c];
    }
    for (size_t i = 0; i < table->cells.len; i++)
        if (stays[i % table->columns])
            array_push(table->arena, &out->cells, table->cells.data[i]);
    return out;
}

static const char *cell_at(const struct table *table, size_t row, size_t column)
{
    size_t i = row * table->columns + column;
    return i < table->cells.len ? table->cells.data[i] : "";
}

static size_t total_width(const size_t *widths, size_t columns)
{
    size_t total = GAP * (columns - 1);
    for (size_t c = 0; c < columns; c++)
        total += widths[c];
    return total;
}

/* The column to narrow next: the widest one of text that is above MIN_WIDTH, or else the widest of all. */
static size_t giving_column(const struct table *table, const size_t *widths)
{
    size_t text = table->columns, widest = 0;
    for (size_t c = 0; c < table->columns; c++) {
        if (table->aligns[c] == ALIGN_LEFT && widths[c] > MIN_WIDTH &&
            (text == table->columns || widths[c] > widths[text]))
            text = c;
        widest = widths[c] > widths[widest] ? c : widest;
    }
    return text < table->columns ? text : widest;
}

static void fit_widths(const struct table *table, size_t *widths)
{
    size_t bytes;
    for (size_t i = 0; i < table->cells.len; i++) {
        size_t columns = measure(table->cells.data[i], SIZE_MAX, &bytes);
        size_t *width = &widths[i % table->columns];
        *width = columns > *width ? columns : *width;
    }
    while (total_width(widths, table->columns) > REPORT_COLUMNS) {
        size_t c = giving_column(table, widths);
        if (widths[c] <= LEAST_WIDTH)
            break;
        widths[c]--;
    }
}

static void print_blanks(size_t count, FILE *out)
{
    fprintf(out, "%*s", (int)count, "");
}

/* `blanks` are those of earlier cells that are not yet printed (I3); returns those that now remain. */
static size_t print_cell(const char *text, size_t width, enum align align, size_t blanks, FILE *out)
{
    size_t bytes, columns = measure(text, SIZE_MAX, &bytes);
    bool cut = columns > width;
    if (cut)
        columns = measure(text, width - 1, &bytes) + 1;
    size_t padding = width - columns;
    if (columns == 0)
        return blanks + width;
    print_blanks(blanks + (align == ALIGN_RIGHT ? padding : 0), out);
    fwrite(text, 1, bytes, out);
    if (cut)
        fputs("…", out);
    return align == ALIGN_RIGHT ? 0 : padding;
}

static void print_row(const struct table *table, size_t row, const size_t *widths, FILE *out)
{
    size_t blanks = 0;
    for (size_t c = 0; c < table->columns; c++) {
        blanks += c > 0 ? GAP : 0;
        blanks = print_cell(cell_at(table, row, c), widths[c], table->aligns[c], blanks, out);
    }
    fputc('\n', out);
}

static void print_rule(size_t width, FILE *out)
{
    for (size_t i = 0; i < width; i++)
        fputs("─", out);
    fputc('\n', out);
}

void table_print(const struct table *whole, FILE *out)
{
    const struct table *table = with_text(whole);
    if (table->columns == 0)
        return;
    struct utf8_scope scope = utf8_enter();
    for (size_t i = 0; i < table->cells.len; i++)
        plain_text(table->cells.data[i]);
    size_t *widths = ARENA_ARRAY(table->arena, size_t, table->columns);
    fit_widths(table, widths);
    size_t next_rule = 0, rules = table->ruled_rows.len;
    for (size_t row = 0; row < row_count(table); row++) {
        for (; next_rule < rules && table->ruled_rows.data[next_rule] == row; next_rule++)
            print_rule(total_width(widths, table->columns), out);
        print_row(table, row, widths, out);
    }
    utf8_leave(scope);
}

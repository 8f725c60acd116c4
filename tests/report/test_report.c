/* test_report.c - tables: alignment, columns of UTF-8 text, cutting to 100 columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/report.h"

static char *printed(const struct table *table)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    table_print(table, out);
    fclose(out);
    return text;
}

static void assert_prints(const struct table *table, const char *expected)
{
    char *text = printed(table);
    assert_string_equal(text, expected);
    free(text);
}

/* The widest line; fails on a line that ends in a blank (I3). */
static size_t widest_line(char *text)
{
    size_t widest = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        size_t columns = text_columns(line), len = strlen(line);
        assert_true(len == 0 || line[len - 1] != ' ');
        widest = columns > widest ? columns : widest;
    }
    return widest;
}

static const char *const TWO_HEADERS[] = {"name", "size"};
static const enum align TWO_ALIGNS[] = {ALIGN_LEFT, ALIGN_RIGHT};

static void aligns_left_and_right(void **state)
{
    struct table *table = table_new(*state, 2, TWO_HEADERS, TWO_ALIGNS);
    table_cell(table, "a");
    table_cell(table, "%d", 5);
    table_cell(table, "longer");
    table_cell(table, "%d GiB", 12);
    assert_prints(table, "name      size\n"
                         "──────────────\n"
                         "a            5\n"
                         "longer  12 GiB\n");
}

static void rules_stand_before_the_next_row(void **state)
{
    struct table *table = table_new(*state, 2, TWO_HEADERS, TWO_ALIGNS);
    table_rule(table); /* the header's own line is there already */
    table_cell(table, "a");
    table_cell(table, "1");
    table_rule(table);
    table_cell(table, "sum");
    table_cell(table, "1");
    table_rule(table); /* no row follows */
    assert_prints(table, "name  size\n"
                         "──────────\n"
                         "a        1\n"
                         "──────────\n"
                         "sum      1\n");
}

/* Empty cells and a short last row leave no trailing blanks. */
static void blanks_do_not_trail(void **state)
{
    static const char *const headers[] = {"name", "note", "size"};
    static const enum align aligns[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT};
    struct table *table = table_new(*state, 3, headers, aligns);
    const char *cells[] = {"a", "", "", "b", "n", "7", "c"};
    for (size_t i = 0; i < COUNT_OF(cells); i++)
        table_cell(table, "%s", cells[i]);
    assert_prints(table, "name  note  size\n"
                         "────────────────\n"
                         "a\n"
                         "b     n        7\n"
                         "c\n");
}

/* A note that no row has, or a change against the only row, gets no column. */
static void columns_without_text_are_left_out(void **state)
{
    static const char *const headers[] = {"name", "slower", "size", ""};
    static const enum align aligns[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT, ALIGN_LEFT};
    struct table *table = table_new(*state, 4, headers, aligns);
    const char *cells[] = {"a", "", "5", "", "b", "", "7", ""};
    for (size_t i = 0; i < COUNT_OF(cells); i++)
        table_cell(table, "%s", cells[i]);
    assert_prints(table, "name  size\n"
                         "──────────\n"
                         "a        5\n"
                         "b        7\n");
    assert_prints(table_new(*state, 2, TWO_HEADERS, TWO_ALIGNS), "name  size\n");
}

static void text_is_measured_in_columns(void **state)
{
    (void)state;
    assert_int_equal(text_columns(""), 0);
    assert_int_equal(text_columns("abc"), 3);
    assert_int_equal(text_columns("2 µs · 4×8"), 10);
    assert_int_equal(text_columns("├─ attn"), 7);
    assert_int_equal(text_columns("模型"), 4);    /* wide */
    assert_int_equal(text_columns("e\u0301"), 1); /* combining accent */
}

static void utf8_cells_align(void **state)
{
    struct table *table = table_new(*state, 2, TWO_HEADERS, TWO_ALIGNS);
    table_cell(table, "模型");
    table_cell(table, "3 µs");
    table_cell(table, "└─ x");
    table_cell(table, "12 µs");
    assert_prints(table, "name   size\n"
                         "───────────\n"
                         "模型   3 µs\n"
                         "└─ x  12 µs\n");
}

/* A name from a file must not move the cursor, and broken UTF-8 must not break the table. */
static void control_characters_are_not_printed(void **state)
{
    struct table *table = table_new(*state, 2, TWO_HEADERS, TWO_ALIGNS);
    table_cell(table, "\033[2Jx\n");
    table_cell(table, "\t1");
    table_cell(table, "caf\xc3");
    table_cell(table, "\xff\xfe");
    assert_prints(table, "name    size\n"
                         "────────────\n"
                         "?[2Jx?    ?1\n"
                         "caf?      ??\n");
}

/* 2 columns, gap 2, the right one 10 wide: 100 - 2 - 10 = 88 columns are left for the name. */
static void text_gives_way_to_numbers(void **state)
{
    struct table *table = table_new(*state, 2, TWO_HEADERS, TWO_ALIGNS);
    for (int len = 87; len <= 90; len++) {
        char name[128] = {0};
        memset(name, 'n', (size_t)len);
        table_cell(table, "%s", name);
        table_cell(table, "0123456789");
    }
    char *text = printed(table);
    assert_non_null(strstr(text, "nnn…  0123456789\n"));
    assert_non_null(strstr(text, "nnnn  0123456789\n")); /* 88 fit whole */
    assert_non_null(strstr(text, "\nnnn"));
    assert_int_equal(widest_line(text), 100);
    free(text);
}

/* Of two texts the wider gives way: a long remark does not cut the name beside it. */
static void widest_text_gives_way(void **state)
{
    static const char *const headers[] = {"name", "remark", "size"};
    static const enum align aligns[] = {ALIGN_LEFT, ALIGN_LEFT, ALIGN_RIGHT};
    struct table *table = table_new(*state, 3, headers, aligns);
    char remark[300] = {0};
    memset(remark, 'r', sizeof remark - 1);
    table_cell(table, "a-name-of-some-length");
    table_cell(table, "%s", remark);
    table_cell(table, "12 GiB");
    char *text = printed(table);
    assert_non_null(strstr(text, "a-name-of-some-length  rrrr"));
    assert_non_null(strstr(text, "rrr…  12 GiB\n"));
    assert_int_equal(widest_line(text), 100);
    free(text);
}

/* A cut may not fall inside a wide character. */
static void wide_characters_are_cut_whole(void **state)
{
    struct table *table = table_new(*state, 2, TWO_HEADERS, TWO_ALIGNS);
    char name[3 * 60 + 1] = {0};
    for (size_t i = 0; i < 60; i++)
        strcat(name, "模");
    table_cell(table, "%s", name);
    table_cell(table, "012345678"); /* 89 columns left: 44 characters of 2, and the ellipsis */
    char *text = printed(table);
    assert_non_null(strstr(text, "模…  012345678\n"));
    assert_int_equal(widest_line(text), 100);
    free(text);
}

static int setup(void **state)
{
    *state = arena_new();
    return 0;
}

static int teardown(void **state)
{
    arena_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(aligns_left_and_right, setup, teardown),
        cmocka_unit_test_setup_teardown(rules_stand_before_the_next_row, setup, teardown),
        cmocka_unit_test_setup_teardown(blanks_do_not_trail, setup, teardown),
        cmocka_unit_test_setup_teardown(columns_without_text_are_left_out, setup, teardown),
        cmocka_unit_test(text_is_measured_in_columns),
        cmocka_unit_test_setup_teardown(utf8_cells_align, setup, teardown),
        cmocka_unit_test_setup_teardown(control_characters_are_not_printed, setup, teardown),
        cmocka_unit_test_setup_teardown(text_gives_way_to_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(widest_text_gives_way, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_characters_are_cut_whole, setup, teardown),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}

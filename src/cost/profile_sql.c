/* profile_sql.c - statements of a profile database: SQLite's errors in Weft's words, rows written and
 * read. */
#include "cost/profile_room.h"

/* ---- SQLite's errors in Weft's words
 * ----------------------------------------------------------- */

weft_status sql_error(const struct profile *profile)
{
    switch (sqlite3_errcode(profile->db) & 0xff) {
    case SQLITE_NOTADB:
        return bad_input(profile->path, 0, "`weft profile import` makes one",
                         "is not a profile database");
    case SQLITE_CORRUPT:
        return bad_input(profile->path, 0, "import the measurements again into a new file",
                         "is damaged: %s", sqlite3_errmsg(profile->db));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return failure("%s: is locked by another program", profile->path);
    case SQLITE_READONLY:
        return failure("%s: cannot be written: the file or its folder is read-only", profile->path);
    case SQLITE_FULL:
        return failure("%s: cannot be written: the disk is full", profile->path);
    default:
        return failure("%s: %s", profile->path, sqlite3_errmsg(profile->db));
    }
}

weft_status sql_execute(struct profile *profile, const char *sql)
{
    if (sqlite3_exec(profile->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return sql_error(profile);
    return WEFT_OK;
}

weft_status sql_prepare(struct profile *profile, const char *sql, sqlite3_stmt **out)
{
    if (sqlite3_prepare_v2(profile->db, sql, -1, out, NULL) != SQLITE_OK)
        return sql_error(profile);
    return WEFT_OK;
}

void sql_finalize(void *statement)
{
    sqlite3_finalize(*(sqlite3_stmt **)statement);
}

weft_status sql_int(struct profile *profile, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    weft_status status = sql_prepare(profile, sql, &statement);
    if (status == WEFT_OK) {
        *out = 0;
        int step = sqlite3_step(statement);
        if (step == SQLITE_ROW)
            *out = sqlite3_column_int64(statement, 0);
        else if (step != SQLITE_DONE)
            status = sql_error(profile);
    }
    sqlite3_finalize(statement);
    return status;
}

const char *sql_text(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

/* ---- writing --------------------------------------------------------------------------------- */

static weft_status prepare_insert(struct profile *profile, enum profile_table table)
{
    char marks[64], *at = marks;
    for (size_t i = 0; i < table_columns(table); i++) {
        *at++ = '?';
        *at++ = ',';
    }
    at[-1] = '\0';
    char *sql = arena_printf(profile->arena, "INSERT OR REPLACE INTO %s VALUES(%s)",
                             table_name(table), marks);
    return sql_prepare(profile, sql, &profile->insert[table]);
}

static void bind(sqlite3_stmt *statement, int at, const struct profile_value *value)
{
    switch (value->type) {
    case VALUE_NULL:
        sqlite3_bind_null(statement, at);
        break;
    case VALUE_INT:
        sqlite3_bind_int64(statement, at, value->integer);
        break;
    case VALUE_REAL:
        sqlite3_bind_double(statement, at, value->real);
        break;
    case VALUE_TEXT:
        sqlite3_bind_text(statement, at, value->text, -1, SQLITE_STATIC);
        break;
    }
}

weft_status profile_insert(struct profile *profile, enum profile_table table,
                           const struct profile_value *values, size_t count)
{
    if (count > table_columns(table))
        return failure("%s: table %s has %zu columns, not %zu", profile->path, table_name(table),
                       table_columns(table), count);
    if (!profile->insert[table]) {
        weft_status status = prepare_insert(profile, table);
        if (status != WEFT_OK)
            return status;
    }
    sqlite3_stmt *statement = profile->insert[table];
    sqlite3_clear_bindings(statement);
    for (size_t i = 0; i < count; i++)
        bind(statement, (int)i + 1, &values[i]);
    weft_status status = WEFT_OK;
    if (sqlite3_step(statement) != SQLITE_DONE)
        status = sql_error(profile);
    sqlite3_reset(statement);
    profile->stale = true;
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static struct profile_value value_at(sqlite3_stmt *statement, int column)
{
    return (struct profile_value){.type = VALUE_TEXT,
                                  .integer = sqlite3_column_int64(statement, column),
                                  .real = sqlite3_column_double(statement, column),
                                  .text = sql_text(statement, column)};
}

weft_status profile_query(struct profile *profile, const char *sql,
                          const struct profile_value *parameters, size_t count, query_row *row,
                          void *context)
{
    sqlite3_stmt *statement = NULL;
    struct profile_value values[QUERY_MAX_COLUMNS];
    weft_status status;
    int step;
    struct hold hold;
    hold_push(&hold, sql_finalize, &statement);
    TRY(sql_prepare(profile, sql, &statement));
    for (size_t i = 0; i < count; i++)
        bind(statement, (int)i + 1, &parameters[i]);
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++)
            values[i] = value_at(statement, i);
        row(context, values);
    }
    if (step != SQLITE_DONE)
        TRY(sql_error(profile));
done:
    hold_pop(&hold);
    sqlite3_finalize(statement);
    return status;
}

weft_status profile_count(struct profile *profile, enum profile_table table, int64_t *out)
{
    char *sql = arena_printf(profile->arena, "SELECT count(*) FROM %s", table_name(table));
    *out = 0;
    if (profile->version < 3 && (int)table >= TABLES_BEFORE_3)
        return WEFT_OK;
    return sql_int(profile, sql, out);
}

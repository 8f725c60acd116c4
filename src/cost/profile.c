/* profile.c - measured times in an SQLite database.
 *
 *   I1  A file is a profile if its application_id is PROFILE_ID; its user_version is that of the
 *       schema. Anything else is refused before a table is read, and never written to.
 *   I2  A handle for writing is one transaction: it holds the write lock from profile_create to
 *       profile_commit, and nobody sees half of an import.
 *   I3  A handle for reading has all kernel rows in memory; lookups do not touch SQLite.
 *   I4  Version 1 had no standard errors, version 2 neither algorithms nor circumstances. They are read as they are,
 *       and become version 3 when they are written to.
 *   I5  Nothing that changes from run to run (times of import, paths) is stored by imports: the same
 *       imports give the same database. What is measured here has its date (algorithms.c).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cost/profile_room.h"

enum { PROFILE_ID = 0x57656674 /* "Weft" */, BUSY_MS = 2000 };

/* ---- opening --------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static weft_status refuse_folder(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return bad_input(path, 0, NULL, "is a folder, expected a file");
    return WEFT_OK;
}

/* Also rolls back what was written but not committed. */
static void close_database(void *context)
{
    struct profile *profile = context;
    for (int i = 0; i < TABLE_COUNT; i++)
        sqlite3_finalize(profile->insert[i]);
    if (profile->writing)
        sqlite3_exec(profile->db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(profile->db);
    if (profile->created && !profile->committed)
        remove(profile->path);
}

static weft_status open_database(const char *path, int flags, struct profile **out)
{
    struct arena *arena = arena_new();
    struct profile *profile = ARENA_NEW(arena, struct profile);
    profile->arena = arena;
    profile->path = arena_copy_text(arena, path);
    *out = profile;
    arena_own(arena, close_database, profile);
    if (sqlite3_open_v2(path, &profile->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return bad_input(path, 0, NULL, "cannot be opened: %s", sqlite3_errmsg(profile->db));
    sqlite3_extended_result_codes(profile->db, 0);
    sqlite3_busy_timeout(profile->db, BUSY_MS);
    sqlite3_db_config(profile->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(profile->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return WEFT_OK;
}

/* Checks I1. *empty: a database in which nothing was ever created. */
static weft_status check_identity(struct profile *profile, bool *empty)
{
    weft_status status;
    int64_t id, objects = 1, tables;
    TRY(sql_int(profile, "PRAGMA application_id", &id));
    TRY(sql_int(profile, "PRAGMA user_version", &profile->version));
    if (id == 0)
        TRY(sql_int(profile, "SELECT count(*) FROM sqlite_schema", &objects));
    *empty = objects == 0 && id == 0;
    if (*empty)
        return WEFT_OK;
    if (id != PROFILE_ID)
        return bad_input(profile->path, 0, "`weft profile import` makes one",
                         "is an SQLite database, but not one of Weft's profiles");
    if (profile->version > PROFILE_VERSION)
        return bad_input(profile->path, 0, "use the Weft that made it, or import again",
                         "has schema version %lld, and this Weft reads version %d",
                         (long long)profile->version, PROFILE_VERSION);
    TRY(sql_int(profile,
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('source',"
                "'kernel','operator','collective','collective_rate','collective_share','layer',"
                "'layer_activation','model_ends','constant','circumstances','algorithm')",
                &tables));
    if (profile->version < 1 || tables != (profile->version < 3 ? TABLES_BEFORE_3 : TABLE_COUNT))
        return bad_input(profile->path, 0, "import the measurements again into a new file",
                         "is damaged: tables are missing");
done:
    return status;
}

/* Creates the schema of a new file, or what an older version lacks (I4). */
static weft_status make_schema(struct profile *profile, bool empty)
{
    weft_status status = WEFT_OK;
    char *pragmas =
        arena_printf(profile->arena, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                     PROFILE_ID, PROFILE_VERSION);
    if (empty)
        TRY(sql_execute(profile, PROFILE_SCHEMA));
    for (int64_t from = empty ? SCHEMA_VERSION : profile->version; from < PROFILE_VERSION; from++)
        TRY(sql_execute(profile, PROFILE_UPGRADES[from]));
    TRY(sql_execute(profile, pragmas));
    profile->version = PROFILE_VERSION;
done:
    return status;
}

/* ---- loading the kernel rows ----------------------------------------------------------------- */

static weft_status damaged_row(const struct profile *profile, const char *column, const char *found)
{
    return bad_input(profile->path, 0, "import the measurements again into a new file",
                     "is damaged: a row of table kernel has %s '%s'", column, found);
}

/* A positive time that fits in an int64_t of nanoseconds, with room for sums: 10^15 ns are 11 days. */
static bool is_time(double ns)
{
    return ns > 0 && ns <= 1e15;
}

static const char *intern(struct profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->names.len; i++)
        if (strcmp(profile->names.data[i], name) == 0)
            return profile->names.data[i];
    array_push(profile->arena, &profile->names, arena_copy_text(profile->arena, name));
    return profile->names.data[profile->names.len - 1];
}

static weft_status read_row(struct profile *profile, sqlite3_stmt *statement,
                            struct profile_index *index, struct profile_row *row)
{
    enum kernel kernel;
    enum dtype dtype;
    int phase;
    if (!kernel_from_name(sql_text(statement, 1), &kernel))
        return damaged_row(profile, "kernel", sql_text(statement, 1));
    if (!profile_phase_from_name(sql_text(statement, 2), &phase))
        return damaged_row(profile, "phase", sql_text(statement, 2));
    if (!dtype_from_name(sql_text(statement, 3), &dtype))
        return damaged_row(profile, "dtype", sql_text(statement, 3));
    memset(row, 0, sizeof *row);
    row->key.device = profile_index_device(index, sql_text(statement, 0));
    row->key.kernel = (uint8_t)kernel;
    row->key.phase = (uint8_t)phase;
    row->key.dtype = (uint8_t)dtype;
    for (int i = 0; i < WORK_MAX_SHAPE; i++) {
        row->key.shape[i] = sqlite3_column_int64(statement, 4 + i);
        if (row->key.shape[i] < 0)
            return damaged_row(profile, "shape", sql_text(statement, 4 + i));
    }
    row->ns = sqlite3_column_double(statement, 12);
    row->samples = sqlite3_column_int64(statement, 13);
    row->source = intern(profile, sql_text(statement, 14));
    row->error = sqlite3_column_double(statement, 15);
    if (!is_time(row->ns))
        return damaged_row(profile, "ns", sql_text(statement, 12));
    return WEFT_OK;
}

/* Of several sources for one key, the last imported comes last, and stays (profile_index_add). */
static weft_status load_index(struct profile *profile)
{
    const char *select = arena_printf(
        profile->arena,
        "SELECT k.device, k.kernel, k.phase, k.dtype, s0, s1, s2, s3, s4, s5, s6, s7, ns, samples,"
        " s.name, %s FROM kernel k LEFT JOIN source s ON s.id = k.source"
        " ORDER BY k.device, k.kernel, k.phase, k.dtype, s0, s1, s2, s3, s4, s5, s6, s7, k.source",
        profile->version > 1 ? "error" : "NULL");
    weft_status status;
    sqlite3_stmt *statement = NULL;
    int step;
    arena_free(profile->index_arena);
    profile->index_arena = arena_new();
    profile->index = profile_index_new(profile->index_arena);
    struct hold hold;
    hold_push(&hold, sql_finalize, &statement);
    TRY(sql_prepare(profile, select, &statement));
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        struct profile_row row;
        TRY(read_row(profile, statement, profile->index, &row));
        profile_index_add(profile->index, &row);
    }
    if (step != SQLITE_DONE)
        TRY(sql_error(profile));
    profile->stale = false;
done:
    profile_index_build(profile->index);
    hold_pop(&hold);
    sqlite3_finalize(statement);
    return status;
}

weft_status profile_open(const char *path, struct profile **out)
{
    weft_status status;
    bool empty;
    struct profile *profile = NULL;
    *out = NULL;
    if (!exists(path))
        return bad_input(path, 0, NULL, "cannot be opened: %s", strerror(errno));
    TRY(refuse_folder(path));
    TRY(open_database(path, SQLITE_OPEN_READONLY, &profile));
    TRY(sql_execute(profile, "BEGIN")); /* the file is locked once, not for each query */
    TRY(check_identity(profile, &empty));
    if (empty)
        TRY(bad_input(path, 0, "`weft profile import` makes one", "is not a profile database"));
    TRY(load_index(profile));
    TRY(sql_execute(profile, "COMMIT"));
    *out = profile;
    profile = NULL;
done:
    profile_close(profile);
    return status;
}

weft_status profile_create(const char *path, struct profile **out)
{
    weft_status status;
    bool empty, existed = exists(path);
    struct profile *profile = NULL;
    *out = NULL;
    TRY(refuse_folder(path));
    TRY(open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &profile));
    profile->created = !existed;
    TRY(check_identity(profile, &empty));
    TRY(sql_execute(profile, "BEGIN IMMEDIATE"));
    profile->writing = true;
    if (empty || profile->version < PROFILE_VERSION)
        TRY(make_schema(profile, empty));
    profile->stale = true;
    *out = profile;
    profile = NULL;
done:
    profile_close(profile);
    return status;
}

weft_status profile_commit(struct profile *profile)
{
    weft_status status = sql_execute(profile, "COMMIT");
    if (status != WEFT_OK)
        return status;
    profile->writing = false;
    profile->committed = true;
    return WEFT_OK;
}

void profile_close(struct profile *profile)
{
    if (!profile)
        return;
    arena_free(profile->index_arena);
    arena_free(profile->arena); /* the arena owns the database */
}

static weft_status find_source(struct profile *profile, const char *name, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    weft_status status = sql_prepare(profile,
                                     "SELECT coalesce((SELECT id FROM source WHERE name = ?1),"
                                     " (SELECT 1 + coalesce(max(id), 0) FROM source))",
                                     &statement);
    if (status == WEFT_OK) {
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
        if (sqlite3_step(statement) == SQLITE_ROW)
            *out = sqlite3_column_int64(statement, 0);
        else
            status = sql_error(profile);
    }
    sqlite3_finalize(statement);
    return status;
}

weft_status profile_source(struct profile *profile, const char *name, const char *origin,
                           const char *licence, int64_t *out)
{
    weft_status status = find_source(profile, name, out);
    if (status != WEFT_OK)
        return status;
    struct profile_value values[] = {V_INT(*out), V_TEXT(name), V_TEXT(origin), V_TEXT(licence)};
    return profile_insert(profile, TABLE_SOURCE, values, COUNT_OF(values));
}

struct source_list {
    struct arena *keep;
    ARRAY(struct source_row) rows;
};

static void add_source_row(void *context, const struct profile_value *v)
{
    struct source_list *list = context;
    struct source_row row = {v[0].integer, v[4].integer, arena_copy_text(list->keep, v[1].text),
                             arena_copy_text(list->keep, v[2].text),
                             arena_copy_text(list->keep, v[3].text)};
    array_push(list->keep, &list->rows, row);
}

weft_status profile_sources(struct profile *profile, struct arena *keep, struct source_row **out,
                            size_t *count)
{
    struct source_list list = {.keep = keep};
    weft_status status = profile_query(
        profile,
        "SELECT id, name, origin, licence,"
        " (SELECT count(*) FROM kernel WHERE kernel.source = source.id) FROM source ORDER BY id",
        NULL, 0, add_source_row, &list);
    *out = list.rows.data;
    *count = list.rows.len;
    return status;
}

/* ---- kernels --------------------------------------------------------------------------------- */

weft_status profile_add_from(struct profile *profile, const struct measurement *measurement,
                             int64_t source)
{
    struct profile_key key;
    if (!key_of_work(&measurement->work, measurement->whole_backward, 0, &key))
        return failure("%s: a %s measurement with a shape number below 1", profile->path,
                       kernel_name(measurement->work.kernel));
    struct profile_value values[16] = {
        V_TEXT(measurement->device), V_TEXT(kernel_name(measurement->work.kernel)),
        V_TEXT(profile_phase_name(key.phase)), V_TEXT(dtype_name((enum dtype)key.dtype))};
    for (int i = 0; i < WORK_MAX_SHAPE; i++)
        values[4 + i] = V_INT(key.shape[i]);
    values[12] = V_REAL(measurement->ns);
    values[13] = V_INT(measurement->samples);
    values[14] = V_INT(source);
    values[15] = measurement->error > 0 ? V_REAL(measurement->error) : V_NULL;
    return profile_insert(profile, TABLE_KERNEL, values, COUNT_OF(values));
}

weft_status profile_add(struct profile *profile, const struct measurement *measurement)
{
    int64_t source = 0, known;
    weft_status status;
    TRY(find_source(profile, measurement->source, &source));
    TRY(sql_int(profile, "SELECT coalesce(max(id), 0) FROM source", &known));
    if (source > known)
        TRY(profile_source(profile, measurement->source, "", "", &source));
    TRY(profile_add_from(profile, measurement, source));
done:
    return status;
}

static weft_status current_index(struct profile *profile, const struct profile_index **out)
{
    weft_status status = profile->stale ? load_index(profile) : WEFT_OK;
    *out = profile->index;
    return status;
}

weft_status profile_rows(struct profile *profile, const struct profile_row **out, size_t *count)
{
    const struct profile_index *index;
    weft_status status = current_index(profile, &index);
    *count = status == WEFT_OK ? profile_index_rows(index, out) : 0;
    return status;
}

weft_status profile_explain(struct profile *profile, const char *device, const struct work *work,
                            struct profile_answer *out)
{
    const struct profile_index *index;
    weft_status status = current_index(profile, &index);
    if (status == WEFT_OK)
        *out = profile_index_lookup(index, profile_index_find_device(index, device), work);
    return status;
}

weft_status profile_lookup(struct profile *profile, const char *device, const struct work *work,
                           struct kernel_cost *out)
{
    struct profile_answer answer;
    *out = (struct kernel_cost){0};
    weft_status status = profile_explain(profile, device, work, &answer);
    if (status == WEFT_OK && answer.provenance != FROM_NOTHING)
        *out = (struct kernel_cost){llround(answer.ns), answer.provenance, answer.low->source};
    return status;
}

/* ---- collectives ----------------------------------------------------------------------------- */

struct size_time {
    int64_t bytes; /* 0: none */
    double ns;
    const char *source;
};

struct collective_question {
    const char *device;
    enum collective collective;
    int64_t devices, nodes, bytes;
};

#define NEAREST(order)                                                                             \
    "SELECT bytes, ns, s.name FROM collective c JOIN source s ON s.id = c.source"                  \
    " WHERE device = ?1 AND collective = ?2 AND devices = ?3 AND nodes = ?4 AND bytes " order      \
    ", source DESC LIMIT 1"

static weft_status nearest_size(struct profile *profile, const struct collective_question *q,
                                const char *sql, struct size_time *out)
{
    sqlite3_stmt *statement = NULL;
    weft_status status = sql_prepare(profile, sql, &statement);
    struct hold hold;
    hold_push(&hold, sql_finalize, &statement);
    *out = (struct size_time){0};
    if (status == WEFT_OK) {
        sqlite3_bind_text(statement, 1, q->device, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 2, collective_name(q->collective), -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 3, q->devices);
        sqlite3_bind_int64(statement, 4, q->nodes);
        sqlite3_bind_int64(statement, 5, q->bytes);
        int step = sqlite3_step(statement);
        if (step == SQLITE_ROW)
            *out = (struct size_time){sqlite3_column_int64(statement, 0),
                                      sqlite3_column_double(statement, 1),
                                      intern(profile, sql_text(statement, 2))};
        else if (step != SQLITE_DONE)
            status = sql_error(profile);
    }
    hold_pop(&hold);
    sqlite3_finalize(statement);
    return status;
}

weft_status profile_collective(struct profile *profile, const char *device,
                               enum collective collective, int64_t devices, int64_t nodes,
                               int64_t bytes, struct kernel_cost *out)
{
    struct collective_question q = {device, collective, devices, nodes, bytes};
    struct size_time low, high;
    weft_status status;
    *out = (struct kernel_cost){0};
    TRY(nearest_size(profile, &q, NEAREST("<= ?5 ORDER BY bytes DESC"), &low));
    TRY(nearest_size(profile, &q, NEAREST(">= ?5 ORDER BY bytes"), &high));
    if (low.bytes <= 0 || high.bytes <= 0 || !is_time(low.ns) || !is_time(high.ns))
        goto done;
    double span = (double)(high.bytes - low.bytes);
    double share = span > 0 ? (double)(bytes - low.bytes) / span : 0;
    out->ns =
        llround(low.ns + share * (high.ns - low.ns)); /* a latency and a rate: a straight line */
    out->provenance = low.bytes == high.bytes ? FROM_MEASUREMENT : FROM_INTERPOLATION;
    out->source = low.source;
done:
    return status;
}

/* profile_room.h - inside the profile database: what its files share.
 *
 *   profile.c         opening and loading; its sources, kernels and collectives
 *   profile_schema.c  its tables
 *   profile_sql.c     statements: readable errors, rows written and read
 *   profile_tables.c  what it holds besides kernels
 *   algorithms.c      how products were computed, and when and by what all was measured
 */
#ifndef WEFT_COST_PROFILE_ROOM_H
#define WEFT_COST_PROFILE_ROOM_H

#include <sqlite3.h>

#include "cost/profile.h"

struct profile {
    sqlite3 *db;
    struct arena *arena;       /* of the handle */
    struct arena *index_arena; /* of the index, which a writer discards and builds again */
    struct profile_index *index;
    const char *path;
    int64_t version;           /* of the schema in the file */
    ARRAY(const char *) names; /* names of sources, each once */
    sqlite3_stmt *insert[TABLE_COUNT];
    bool writing;   /* I2 */
    bool created;   /* the file did not exist before */
    bool committed; /* it holds something to keep */
    bool stale;     /* rows were added since the index was built */
};

/* ---- the schema (profile_schema.c) ----------------------------------------------------------- */

/* A new file is made as version 2 and brought from there to the newest. */
extern const char PROFILE_SCHEMA[];
enum { SCHEMA_VERSION = 2, PROFILE_VERSION = 3, TABLES_BEFORE_3 = TABLE_CIRCUMSTANCES };
/* What makes the next version of this one (profile.c, I4). */
extern const char *const PROFILE_UPGRADES[PROFILE_VERSION];
size_t table_columns(enum profile_table table);

/* ---- statements (profile_sql.c) -------------------------------------------------------------- */

weft_status sql_error(const struct profile *profile); /* for the last call that failed */
weft_status sql_execute(struct profile *profile, const char *sql);
weft_status sql_prepare(struct profile *profile, const char *sql, sqlite3_stmt **out);
/* Takes a sqlite3_stmt **, as a hold does. */
void sql_finalize(void *statement);
const char *sql_text(sqlite3_stmt *statement, int column);                   /* "" for NULL */
weft_status sql_int(struct profile *profile, const char *sql, int64_t *out); /* 0: no row */

#endif

/* profile_room.h - inside the profile database: what its files share.
 *
 *   profile.c         opening and loading; sources, kernels and collectives in it
 *   profile_schema.c  its tables
 *   profile_sql.c     statements: errors in our words, rows written and read
 *   profile_tables.c  what it holds beside kernels
 */
#ifndef WEFT_COST_PROFILE_ROOM_H
#define WEFT_COST_PROFILE_ROOM_H

#include <sqlite3.h>

#include "cost/profile.h"

struct profile {
    sqlite3 *db;
    struct arena *arena;       /* of the handle */
    struct arena *index_arena; /* of the index, which a writer throws away and builds anew */
    struct index *index;
    const char *path;
    int64_t version;           /* of the schema in the file */
    ARRAY(const char *) names; /* of sources, each once */
    sqlite3_stmt *insert[TABLE_COUNT];
    bool writing;   /* I2 */
    bool created;   /* the file was not there before */
    bool committed; /* it holds something to keep */
    bool stale;     /* rows were added since the index was built */
};

/* ---- the schema (profile_schema.c) ----------------------------------------------------------- */

extern const char PROFILE_SCHEMA[];
extern const char PROFILE_UPGRADE[]; /* of version 1 (profile.c, I4) */
size_t table_columns(enum profile_table table);

/* ---- statements (profile_sql.c) -------------------------------------------------------------- */

weft_status sql_error(const struct profile *profile); /* of the last call that failed */
weft_status sql_execute(struct profile *profile, const char *sql);
weft_status sql_prepare(struct profile *profile, const char *sql, sqlite3_stmt **out);
void sql_finalize(void *statement);                        /* a sqlite3_stmt **, as a hold has it */
const char *sql_text(sqlite3_stmt *statement, int column); /* "" for NULL */
weft_status sql_int(struct profile *profile, const char *sql, int64_t *out); /* 0: no row */

#endif

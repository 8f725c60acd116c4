/* profile.h - the profile database from the inside: its tables, its index, its importers.
 *
 *   I1  A key contains everything that a time depends on: device, kernel, phase, dtype, shape. Two
 *       works with the same key take the same time (key_of_work).
 *   I2  The phase PHASE_WHOLE_BACKWARD exists only in the database: both gradients measured as one,
 *       under the shape of the forward. A lookup gives each backward phase its share by FLOPs.
 *   I3  Rows are immutable once loaded; a handle opened for reading never changes.
 */
#ifndef WEFT_COST_PROFILE_H
#define WEFT_COST_PROFILE_H

#include "cost/cost.h"

/* ---- the index: all kernel rows in memory ---------------------------------------------------- */

struct profile_index;
struct profile_index *profile_index_new(struct arena *arena);
/* The number of a device, which is added if it is missing. */
int32_t profile_index_device(struct profile_index *index, const char *name);
/* -1: unknown. */
int32_t profile_index_find_device(const struct profile_index *index, const char *name);
/* A later row replaces one with an equal key. */
void profile_index_add(struct profile_index *index, const struct profile_row *row);
/* To be called after the last row. */
void profile_index_build(struct profile_index *index);
size_t profile_index_rows(const struct profile_index *index, const struct profile_row **out);

struct profile_answer profile_index_lookup(const struct profile_index *index, int32_t device,
                                           const struct work *work);

/* The key of a work; false when the shape is out of range (not positive). */
bool key_of_work(const struct work *work, bool whole_backward, int32_t device,
                 struct profile_key *out);

/* ---- shapes (shape.c) ------------------------------------------------------------------------ */

/* The bytes per element are a shape number of their own. */
bool shape_has_bytes(enum kernel kernel);
/* FLOPs of the forward pass with this shape; 0 for kernels without matrix products, and
 * attention. */
double shape_flops(enum kernel kernel, const int64_t *shape);
/* Sets the shape as the database stores it, and the FLOPs and bytes that follow from it. */
void work_set_shape(struct work *work, const int64_t *shape);

/* ---- tables ---------------------------------------------------------------------------------- */

enum value_type { VALUE_NULL, VALUE_INT, VALUE_REAL, VALUE_TEXT };
struct profile_value {
    enum value_type type;
    int64_t integer;
    double real;
    const char *text;
};
#define V_NULL    ((struct profile_value){.type = VALUE_NULL})
#define V_INT(x)  ((struct profile_value){.type = VALUE_INT, .integer = (x)})
#define V_REAL(x) ((struct profile_value){.type = VALUE_REAL, .real = (x)})
#define V_TEXT(x) ((struct profile_value){.type = VALUE_TEXT, .text = (x)})

/* Inserts one row; `values` are the columns of the schema (docs/reference/profile.md) in order,
 * NULL after the last. Replaces a row with the same primary key. */
weft_status profile_insert(struct profile *profile, enum profile_table table,
                           const struct profile_value *values, size_t count);
/* The number of a source; one that exists already keeps its number and takes the new texts. */
weft_status profile_source(struct profile *profile, const char *name, const char *origin,
                           const char *licence, int64_t *out);
/* Like profile_add, for a source whose number is known. */
weft_status profile_add_from(struct profile *profile, const struct measurement *measurement,
                             int64_t source);

/* Calls `row` with the values of each row that the statement finds; they are valid during the
 * call. */
enum { QUERY_MAX_COLUMNS = 16 };
typedef void query_row(void *context, const struct profile_value *values);
weft_status profile_query(struct profile *profile, const char *sql,
                          const struct profile_value *parameters, size_t count, query_row *row,
                          void *context);

/* profile_import for text in memory; its name decides where "auto" leaves a choice. */
weft_status profile_import_text(struct profile *profile, const char *name, char *text, size_t len,
                                const struct import_options *options, struct arena *keep,
                                struct import_summary *out);

/* ---- what importers share -------------------------------------------------------------------- */

struct import {
    struct profile *profile;
    const struct import_options *options;
    const char *file;
    struct arena *arena; /* freed at the end of the import */
    struct arena *keep;  /* for the summary */
    struct import_summary *summary;
    int64_t source;
    const char *source_name;
    ARRAY(struct measurement) measurements; /* to be merged by shape and stored at the end */
};
void import_skip(struct import *import, const char *reason);
void import_measure(struct import *import, const struct measurement *measurement);
/* Stores all measurements, those of one shape merged into one. */
weft_status import_merge(struct import *import);
weft_status import_row(struct import *import, enum profile_table table,
                       const struct profile_value *values, size_t count);
/* Names the source of all rows of this file; `origin` is empty for a user's own. */
weft_status import_source(struct import *import, const char *name, const char *origin);
/* True if rows of this device are wanted. */
bool import_wants(const struct import *import, const char *device);

/* The source that a row of Weft's own tables names, "" for none; each file has one. */
weft_status import_own_source(struct import *import, const struct csv *csv, const char *source);

enum { MIB = 1 << 20 };
/* Times of at least this mean "out of memory" in the tables of Aceso and Sailor. */
#define OUT_OF_MEMORY_US 1e6
#define OUT_OF_MEMORY_MS 1e8

weft_status import_model_operators(struct import *import, struct csv *csv);
weft_status import_collectives(struct import *import, struct csv *csv);
weft_status import_p2p_rates(struct import *import, struct csv *csv);
weft_status import_vtrain(struct import *import, struct csv *csv);
weft_status import_simai(struct import *import, struct csv *csv);
weft_status import_link_latency(struct import *import, struct csv *csv);
weft_status import_simumax(struct import *import, struct csv *csv);
weft_status import_aiconfigurator(struct import *import, struct csv *csv);
weft_status import_aiconfigurator_nccl(struct import *import, struct csv *csv);
weft_status import_weft_kernels(struct import *import, struct csv *csv);
weft_status import_weft_collectives(struct import *import, struct csv *csv);
weft_status import_weft_interference(struct import *import, struct csv *csv);
weft_status import_galvatron(struct import *import, const struct doc *doc);

#endif
